"""`python -m benchmarks.gpu`: operators and training steps on a GPU, with PyTorch and JAX beside them, as JSON and SVG.

Knows what is timed, and in which order; `gpu_session.sh` brings a bare machine to it. What there is no time or no
package for is named. `--tiny` runs all of it in Numba's simulator, at sizes that mean nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks import gpu_operators
from benchmarks.frameworks import contender
from benchmarks.task import Sgd, Training
from benchmarks.workloads import STEPS, perceptron
from benchmarks.workloads.operators import OPERATORS, SIDES
from functad import machine_model
from functad.views.bars import Bars


class Sizes(NamedTuple):
    """How large all is: sides of square matrices, seconds a step may be repeated, and the least repeats."""

    sides: tuple[int, ...]
    seconds: float
    least: int


FULL = Sizes(SIDES, 0.5, 20)
TINY = Sizes((2, 3), 0.0, 2)
FIRST_SIDE = 4096  # of matrices of 64 MiB, which no cache holds
WIDTHS = (128, 512, 4096, 256, 1024, 2048)


class Session:
    """What was found, and until when there is time."""

    def __init__(self, seconds: float, sizes: Sizes) -> None:
        self.end = time.monotonic() + seconds
        self.sizes = sizes
        self.results: dict[str, Any] = {}
        self.left_out: list[str] = []

    def run(self, name: str, measure: Callable[[Sizes], Any]) -> None:
        """One measurement, if there is time for it; what goes wrong in it is a result, too."""
        if time.monotonic() > self.end:
            self.left_out.append(f"{name}: no time was left")
            return
        try:
            self.results[name] = measure(self.sizes)
        except Exception as problem:
            self.left_out.append(f"{name}: {type(problem).__name__}: {problem}")
        print(f"{name}: {self.results.get(name, self.left_out[-1:])}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the results go")
    parser.add_argument("--seconds", type=float, default=300.0, help="after which nothing new is begun")
    parser.add_argument("--threads", type=int, help="threads of a block, in place of the usual number; operators only")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args(arguments)
    if options.threads:
        machine_model.CUDA_THREADS = options.threads
    session = Session(options.seconds, TINY if options.tiny else FULL)
    device: Any = functad.devices("cuda")[0]
    names = ("sum", "matmul") if options.tiny else tuple(OPERATORS)
    cases = list(gpu_operators.cases(names, session.sizes.sides))
    if options.threads:
        swept = session.sizes.sides[-1] if options.tiny else gpu_operators.SWEPT_SIDE
        first, rest = [case for case in cases if case[1:] == ("forward", swept)], []
    else:
        session.run("overhead of a call", lambda sizes: _overhead(sizes, device))
        first, rest = ([c for c in cases if (c.side == FIRST_SIDE) is wanted] for wanted in (True, False))
    for case in first:
        session.run(str(case), lambda sizes, case=case: gpu_operators.measured(case, device))
    for name, run in () if options.threads else _steps(options.tiny):
        session.run(name, run)
    for case in rest:
        session.run(str(case), lambda sizes, case=case: gpu_operators.measured(case, device))
    _write(session, options, device)
    return 0


def _overhead(sizes: Sizes, device: Any) -> dict[str, float]:
    """What a call of a small jitted step takes of the host, in µs, the device's work not waited for."""
    x = functad.device_put(np.ones(16, np.float32), device)
    step = functad.jit(lambda x: jnp.cumsum(x * 0.5) + 1, donate_argnums=0)
    for _ in range(3):
        x = step(x)
    x.block_until_ready()
    count = 1000 if sizes.seconds else 2
    start = time.perf_counter()
    for _ in range(count):
        x = step(x)
    host = time.perf_counter() - start
    x.block_until_ready()
    return {"host µs": 1e6 * host / count, "all µs": 1e6 * (time.perf_counter() - start) / count}


# --- training steps -------------------------------------------------------------------------------------


def _steps(tiny: bool) -> Iterator[tuple[str, Callable[[Sizes], dict[str, float]]]]:
    tasks = {name: STEPS[name].task for name in ("W1", "W2", "W3")}
    tasks |= {f"W5-{width}": partial(perceptron.task, width) for width in WIDTHS}
    for name in ["W5-128"] if tiny else tasks:
        for framework in ("functad", "jax", "torch", "torch, graph"):
            yield f"{name}, {framework}", lambda sizes, t=tasks[name], f=framework: _step(t, f, sizes, tiny)


def _step(make: Callable[[], Training], framework: str, sizes: Sizes, tiny: bool) -> dict[str, float]:
    """µs a step."""
    package = framework.partition(",")[0]
    if not find_spec(package):
        raise LookupError(f"{package} is not installed")
    task = _smaller(make()) if tiny else make()
    if package == "torch":
        run = _torch_steps(task, graph="graph" in framework, on="cpu" if tiny else "cuda")
    else:
        if package == "functad":
            functad.config.update("default_device", "cuda")
        made = contender(package, task)
        run = made.run
    try:
        run(2)
        best, start = float("inf"), time.perf_counter()
        repeats = 0
        while repeats < sizes.least or time.perf_counter() - start < sizes.seconds:
            began = time.perf_counter()
            run(sizes.least)
            best = min(best, (time.perf_counter() - began) / sizes.least)
            repeats += sizes.least
    finally:
        functad.config.update("default_device", None)
    return {"µs": 1e6 * best}


def _smaller(task: Training) -> Training:
    """The perceptron with a few inputs, hidden numbers and examples."""
    sizes = {784: 6, 128: 4, 100: 2}

    def cut(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array[tuple([slice(sizes.get(n, n)) for n in array.shape])])

    params = {name: cut(value) for name, value in task.params.items()}
    return task._replace(params=params, batches=[tuple(map(cut, batch)) for batch in task.batches[:2]])


def _torch_steps(task: Training, graph: bool, on: str) -> Callable[[int], None]:
    """Steps of PyTorch, operation by operation or as a CUDA graph."""
    import torch

    form = task.forms["torch"]
    loss = form.function()
    start = form.convert(task.params)
    params = {k: torch.tensor(v, device=on, requires_grad=True) for k, v in start.items()}
    rate = task.optimizer.rate
    fused = {} if on == "cpu" else {"capturable": True}
    adam = not isinstance(task.optimizer, Sgd)
    optimizer: Any = (
        torch.optim.Adam(params.values(), rate, **fused) if adam else torch.optim.SGD(params.values(), rate)
    )
    batches = [[torch.as_tensor(b, device=on) for b in form.batch(*batch)] for batch in task.batches]

    def step(batch: list[Any]) -> None:
        optimizer.zero_grad(set_to_none=not graph)
        loss(params, *batch).backward()
        optimizer.step()

    def run(count: int) -> None:
        for k in range(count):
            step(batches[k % len(batches)])
        if on != "cpu":
            torch.cuda.synchronize()

    if not graph:
        return run
    if on == "cpu":
        raise LookupError("CUDA graphs need a GPU")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step(batches[0])
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    given = [b.clone() for b in batches[0]]
    with torch.cuda.graph(captured):
        step(given)

    def replay(count: int) -> None:
        for k in range(count):
            for target, source in zip(given, batches[k % len(batches)]):
                target.copy_(source)
            captured.replay()
        torch.cuda.synchronize()

    return replay


# --- results --------------------------------------------------------------------------------------------


def _write(session: Session, options: Any, device: Any) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    name = f"threads-{options.threads}" if options.threads else "gpu"
    found = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "gpu": device.device_kind,
        "compute capability": device.compute_capability,
        "python": sys.version.split()[0],
        "functad": functad.__version__,
        "copy bytes a µs": device.copy_speed(),
        "results": session.results,
        "left out": session.left_out,
    }
    text = json.dumps(found, indent=1, ensure_ascii=False)
    (options.folder / f"{name}.json").write_text(text.replace("NaN", "null"), encoding="utf-8")
    gpu_operators.draw(session.results, options.folder)
    gpu_operators.draw_threads(options.folder)
    steps = [(k, r["µs"], 0.0) for k, r in session.results.items() if k.startswith("W")]
    if steps:
        Bars(f"steps on {device.device_kind}", "µs", steps).save(options.folder / f"{name}-steps.svg")


if __name__ == "__main__":
    sys.exit(main())
