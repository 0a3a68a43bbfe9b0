"""`python -m benchmarks.gpu`: operators and training steps on a GPU, with PyTorch and JAX beside them, as JSON and SVG.

Knows what is timed, and in which order; `gpu_session.sh` brings a bare machine to it. Kernels are compiled first, by
one process for each core, into the cache; then all is timed in one, and in a new one where that crashes, hangs or
faults. What there is no time or no package for is named.
`--first` times what tells most, and kernels that were never timed; `--rest` all that is not among the results so far.
`--tiny` runs all of it in Numba's simulator, at sizes that mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks import gpu_operators, gpu_others, gpu_steps
from benchmarks.gpu_measurer import Measurer, MeasuringError, serve
from benchmarks.gpu_operators import FIRST_SIDE, SWEPT_SIDE
from benchmarks.gpu_steps import Repeats
from benchmarks.workloads.operators import OPERATORS, SIDES
from functad import machine_model
from functad.views.bars import Bars


class Measurement(NamedTuple):
    """Something that is timed.

    Attributes:
        name: of the result.
        run: gives it.
        prepare: compiles what it needs, and keeps that on the disk; None where it takes no time to speak of.
    """

    name: str
    run: Callable[[], dict[str, float]]
    prepare: Callable[[], None] | None = None


class Session:
    """What was found, and until when there is time."""

    def __init__(self, end: float, known: dict[str, Any], measurer: Measurer) -> None:
        self.end = end
        self.results = known
        self.left_out: list[str] = []
        self._measurer = measurer

    def run(self, what: Measurement) -> None:
        """One measurement, if there is time for it; what goes wrong in it is a result, too."""
        left = self.end - time.monotonic()
        if left < 0:
            self.left_out.append(f"{what.name}: no time was left")
            return
        try:
            self.results[what.name] = self._measurer.ask(what.name, left + _GRACE)
        except MeasuringError as problem:
            self.left_out.append(f"{what.name}: {problem}")
        print(f"{what.name}: {_short(self.results.get(what.name)) or self.left_out[-1:]}", flush=True)


_GRACE = 10.0  # seconds for what was begun in time


def _short(result: dict[str, float] | None) -> str:
    return ", ".join(f"{key} {value:.4g}" for key, value in (result or {}).items() if key != "operations")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the results go")
    parser.add_argument("--seconds", type=float, default=300.0, help="after which nothing new is begun")
    parser.add_argument("--threads", type=int, help="threads of a block, in place of the usual number; operators only")
    parser.add_argument("--first", action="store_true", help="only what tells most")
    parser.add_argument("--rest", action="store_true", help="only what is not among the results in the folder")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)), help="that compile at a time")
    parser.add_argument("--prepare", help=argparse.SUPPRESS)  # "K/N": compile the K-th of N shares, and time nothing
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)  # time what stdin names
    options = parser.parse_args(arguments)
    start = time.monotonic()
    if options.threads:
        machine_model.CUDA_THREADS = options.threads
    if options.prepare:
        _prepare(plan(options), *map(int, options.prepare.split("/")), start + options.seconds)
        return 0
    if options.serve:
        serve({what.name: what.run for what in plan(options)})
        return 0
    if not options.tiny:
        _prepare_together(options, start)
    measurer = Measurer([*_command(options), "--serve", *(["--tiny"] if options.tiny else [])])
    session = Session(start + options.seconds, _known(options), measurer)
    for what in plan(options):
        session.run(what)
        _write(session, options)  # what there is so far, should this process be ended
    measurer.close()
    _draw(session, options)
    return 0


def _command(options: Any) -> list[str]:
    """That of another process with the same plan."""
    command = [sys.executable, "-m", "benchmarks.gpu", str(options.folder)]
    command += ["--threads", str(options.threads)] if options.threads else []
    return command + [f"--{which}" for which in ("first", "rest") if getattr(options, which)]


# --- the plan -------------------------------------------------------------------------------------------


def plan(options: Any) -> list[Measurement]:
    """All that is timed, the most telling first, once."""
    device = functad.devices("cuda")[0]
    sides, names = ((2, 3), ("sum", "matmul")) if options.tiny else (SIDES, tuple(OPERATORS))
    if options.threads:
        side = sides[-1] if options.tiny else SWEPT_SIDE
        return list(_operators([c for c in gpu_operators.cases(names, (side,)) if c.direction == "forward"], device))
    cases = list(gpu_operators.cases(names, sides))
    large = [c for c in cases if c.side >= FIRST_SIDE]
    small = [c for c in cases if c.side < FIRST_SIDE]
    steps = list(_steps(options.tiny))
    leading = [step for name in gpu_steps.FIRST for step in steps if step.name.partition(",")[0] == name]
    own = [step for step in leading if step.name.endswith(", functad")]
    doubtful = [step for step in own if step.name.partition(",")[0] in gpu_steps.DOUBTFUL]
    first = [
        Measurement("overhead of a call", lambda: _overhead(options.tiny, device)),
        *doubtful,
        *_operators([c for c in large if c.name in gpu_operators.FIRST], device),
        *_others(gpu_others.FIRST, device, options.tiny),
        *own,
        *(step for step in leading if step.name.endswith((", jax", ", torch, graph"))),
    ]
    rest = [
        *leading,
        *_operators(large, device),
        *steps,
        *_others(tuple(gpu_others.OPERATIONS), device, options.tiny),
        *_operators(small, device),
    ]
    found = {what.name: what for what in (*first, *([] if options.first else rest))}
    known = _known(options)
    return [what for name, what in found.items() if name not in known]


def _known(options: Any) -> dict[str, Any]:
    """The results to which the rest is added."""
    file = options.folder / f"{_name(options)}.json"
    known: dict[str, Any] = json.loads(file.read_text("utf-8"))["results"] if options.rest and file.exists() else {}
    return known


def _name(options: Any) -> str:
    return f"threads-{options.threads}" if options.threads else "gpu"


def _operators(cases: Sequence[gpu_operators.Case], device: Any) -> Iterator[Measurement]:
    for case in cases:
        measured, prepare = (partial(f, case, device) for f in (gpu_operators.measured, gpu_operators.prepare))
        yield Measurement(str(case), measured, prepare)


def _steps(tiny: bool) -> Iterator[Measurement]:
    repeats = Repeats(0.0, 2) if tiny else Repeats(0.3, 20)
    for name, make in gpu_steps.tasks().items():
        if tiny and name != "W5-128":
            continue
        for framework in gpu_steps.compared(name):
            run = partial(gpu_steps.step, make, framework, repeats, tiny)
            prepare = None if framework.startswith("torch") else partial(gpu_steps.prepare, make, framework)
            yield Measurement(f"{name}, {framework}", run, prepare)


def _others(names: Sequence[str], device: Any, tiny: bool) -> Iterator[Measurement]:
    for name in names:
        operation = gpu_others.OPERATIONS[name].smaller() if tiny else gpu_others.OPERATIONS[name]
        measured, prepare = (partial(f, operation, device) for f in (gpu_others.measured, gpu_others.prepare))
        yield Measurement(f"operation {name}", measured, prepare)


def _overhead(tiny: bool, device: Any) -> dict[str, float]:
    """What a call of a small jitted step takes of the host, in µs, the device's work not waited for."""
    x = functad.device_put(np.ones(16, np.float32), device)
    step = functad.jit(lambda x: jnp.cumsum(x * 0.5) + 1, donate_argnums=0)
    for _ in range(3):
        x = step(x)
    x.block_until_ready()
    count, host = 2 if tiny else 1000, float("inf")
    for _ in range(1 if tiny else 5):
        start = time.perf_counter()
        for _ in range(count):
            x = step(x)
        host = min(host, time.perf_counter() - start)
        x.block_until_ready()
        total = time.perf_counter() - start
    return {"host µs": 1e6 * host / count, "all µs": 1e6 * total / count}


# --- compiling first ------------------------------------------------------------------------------------


def _prepare_together(options: Any, start: float) -> None:
    """Compile all by so many processes, in at most a third of the time."""
    seconds = options.seconds / 3
    command = [*_command(options), "--seconds", str(seconds)]
    count = options.processes
    processes = [
        subprocess.Popen([*command, "--prepare", f"{k}/{count}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for k in range(count)
    ]
    for process in processes:
        try:
            process.wait(max(start + seconds + 5 - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    print(f"compiled by {count} processes in {time.monotonic() - start:.0f} s", flush=True)


def _prepare(what: Sequence[Measurement], share: int, shares: int, end: float) -> None:
    """Compile every so many-th thing, as long as there is time."""
    compiled = [m.prepare for m in what if m.prepare is not None]
    for prepare in compiled[share::shares]:
        if time.monotonic() > end:
            return
        try:
            prepare()
        except Exception as problem:  # whoever times it will say so
            print(f"{type(problem).__name__}: {problem}", file=sys.stderr)


# --- results --------------------------------------------------------------------------------------------


def _write(session: Session, options: Any) -> None:
    options.folder.mkdir(parents=True, exist_ok=True)
    device = functad.devices("cuda")[0]
    found = {
        "date": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        "gpu": device.device_kind,
        "compute capability": device.compute_capability,
        "python": sys.version.split()[0],
        "functad": functad.__version__,
        "versions": gpu_steps.versions(),
        "copy bytes a µs": device.copy_speed(),
        "results": session.results,
        "left out": session.left_out,
    }
    text = json.dumps(found, indent=1, ensure_ascii=False)
    file = options.folder / f"{_name(options)}.json"
    whole = file.with_suffix(".new")  # so that whoever is ended meanwhile leaves what was there
    whole.write_text(text.replace("NaN", "null"), encoding="utf-8")
    whole.replace(file)


def _draw(session: Session, options: Any) -> None:
    device = functad.devices("cuda")[0]
    gpu_operators.draw(session.results, options.folder)
    gpu_operators.draw_threads(options.folder)
    steps = [(k, r["µs"], 0.0) for k, r in session.results.items() if k.startswith("W")]
    if steps:
        Bars(f"steps on {device.device_kind}", "µs", steps).save(options.folder / f"{_name(options)}-steps.svg")


if __name__ == "__main__":
    sys.exit(main())
