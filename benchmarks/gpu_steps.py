"""Training steps and other workloads on a GPU: the least µs of a step of functad, PyTorch and JAX.

Knows how each framework is brought to the device; not how much time there is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import functad
from benchmarks.frameworks import contender
from benchmarks.task import Sgd, Training
from benchmarks.workloads import CONVOLUTIONS, LOOPS, STEPS, perceptron

DOUBTFUL = ("W3", "W5-128", "W5-512")  # whose graphs are started otherwise since they were timed
FIRST = (*DOUBTFUL, "W1", "W2", "W5-4096")  # the most telling workloads
WIDTHS = (128, 512, 4096, 256, 1024, 2048)
FRAMEWORKS = ("functad", "torch", "torch, graph", "jax", "functad, TF32", "jax, TF32")
"""Who is timed. Products are of float32, and with TF32 of numbers rounded to 10 bits, which is JAX's default."""

_PRECISION = {"": "highest", "TF32": "tensorfloat32"}


class Repeats(NamedTuple):
    """How long a step is repeated, in seconds, and how often at least."""

    seconds: float
    least: int


def tasks() -> dict[str, Callable[[], Any]]:
    """By name what makes a task, the most telling first."""
    found = {name: STEPS[name].task for name in ("W1", "W2", "W3")}
    found |= {f"W5-{width}": partial(perceptron.task, width) for width in WIDTHS[:3]}
    found |= {name: workload.task for name, workload in CONVOLUTIONS.items()}
    found |= {name: LOOPS[name].task for name in ("lstm", "W2-scan")}
    return found | {f"W5-{width}": partial(perceptron.task, width) for width in WIDTHS[3:]}


def compared(name: str) -> tuple[str, ...]:
    """The frameworks with which a workload is timed: where no matrix is large, TF32 says nothing more."""
    if name.startswith("W5") and int(name[3:]) >= 512:
        return FRAMEWORKS
    return FRAMEWORKS[:4] if name in ("W1", "W2", "W3") or name.startswith("W5") else ("functad", "torch", "jax")


def prepare(make: Callable[[], Any], framework: str) -> None:
    """Compile a step, and keep that on the disk."""
    if framework.startswith("torch"):
        return
    with _setting(framework):
        _runner(make(), framework, "cuda")(1)


def step(make: Callable[[], Any], framework: str, repeats: Repeats, tiny: bool) -> dict[str, float]:
    """µs a step.

    Raises:
        LookupError: the framework is not installed.
    """
    package = framework.partition(",")[0]
    if not find_spec(package):
        raise LookupError(f"{package} is not installed")
    task = _smaller(make()) if tiny else make()
    with _setting(framework):
        run = _runner(task, framework, "cpu" if tiny else "cuda")
        run(2)
        best, start = float("inf"), time.perf_counter()
        done = 0
        while done < repeats.least or time.perf_counter() - start < repeats.seconds:
            began = time.perf_counter()
            run(repeats.least)
            best = min(best, (time.perf_counter() - began) / repeats.least)
            done += repeats.least
    return {"µs": 1e6 * best}


def versions() -> dict[str, str]:
    """The versions of packages whose speed this is."""
    found = {}
    for package in ("numba", "numba-cuda", "torch", "jax", "numpy"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _setting(framework: str) -> Any:
    """The context in which a framework's step is made and run."""
    package, _, how = framework.partition(", ")
    if package == "torch":
        return nullcontext()
    precision = import_module(package).default_matmul_precision(_PRECISION[how])
    if package == "jax":
        return precision
    return functad.config.context(default_device="cuda", default_matmul_precision=_PRECISION[how])


def _runner(task: Any, framework: str, on: str) -> Callable[[int], None]:
    package = framework.partition(",")[0]
    if package != "torch":
        run: Callable[[int], None] = contender(package, task).run
        return run
    if isinstance(task, Training):
        return _torch_steps(task, graph="graph" in framework, on=on)
    return _torch_calls(task, on)


def _smaller(task: Training) -> Training:
    """The perceptron with a few inputs, hidden numbers and examples."""
    sizes = {784: 6, 128: 4, 100: 2}

    def cut(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array[tuple([slice(sizes.get(n, n)) for n in array.shape])])

    params = {name: cut(value) for name, value in task.params.items()}
    return task._replace(params=params, batches=[tuple(map(cut, batch)) for batch in task.batches[:2]])


# --- PyTorch --------------------------------------------------------------------------------------------


def _torch_calls(task: Any, on: str) -> Callable[[int], None]:
    """Calls of a function of arrays that stay."""
    import torch

    form = task.forms["torch"]
    function = form.function()
    given = [torch.as_tensor(a).to(on) for a in form.batch(*task.arguments)]

    def run(count: int) -> None:
        for _ in range(count):
            function(*given)
        if on != "cpu":
            torch.cuda.synchronize()

    return run


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
