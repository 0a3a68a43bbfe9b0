"""W4's operators on a GPU, by the device's events, beside what its memory, or the product of matrices, can do at best.

Knows what is timed and drawn; not how much time there is. Memory's best is the measured bandwidth of copies, the
product's the best rate of any product here. `python -m benchmarks roofline --cores gpu` runs all of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import functad
from benchmarks.workloads.operators import OPERATORS, SIDES
from functad import machine_model
from functad.errors import ArgumentError
from functad.tree_util import tree_leaves
from functad.views.charts import Chart, Panel

DIRECTIONS = {"forward": "forward", "both": "forward and backward"}
FIRST_SIDE = 4096  # of matrices of 64 MiB, which no cache holds
FIRST = ("sum", "max", "transpose", "broadcast")  # whose kernels were written anew since they were timed
SWEPT_SIDE = 2048  # of the matrices at which numbers of threads are compared
_COLUMNS = 5  # of panels in a picture


class Case(NamedTuple):
    """An operator on matrices of side × side numbers, in one direction."""

    name: str
    direction: str
    side: int

    def __str__(self) -> str:
        return f"operator {self.name}, {self.direction}, {self.side}"


def timed(results: Mapping[str, Any]) -> dict[Case, Mapping[str, float]]:
    """The cases among results, in the order of their operators and sides."""
    parts = {name: name.removeprefix("operator ").split(", ") for name in results if name.startswith("operator ")}
    found = {Case(name, direction, int(side)): results[key] for key, (name, direction, side) in parts.items()}
    order = list(OPERATORS)
    return {case: found[case] for case in sorted(found, key=lambda c: (order.index(c.name), c.direction, c.side))}


def cases(names: Sequence[str] = tuple(OPERATORS), sides: Sequence[int] = SIDES) -> Iterator[Case]:
    """All that can be timed, of each operator something before others come again; matrices of 64 MiB first.

    Then come larger ones, then all others from the largest on.
    """
    for side in sorted(sides, key=lambda n: (n < FIRST_SIDE, n != FIRST_SIDE, -n)):
        for direction in DIRECTIONS:
            yield from (Case(name, direction, side) for name in names)


def measured(case: Case, device: Any) -> dict[str, float]:
    """µs of functad, and of PyTorch where it has a GPU; µs of copies of as many bytes; operations of products.

    With PyTorch also by how much results differ at most, over the largest of all.
    """
    operator, backward = OPERATORS[case.name], case.direction == "both"
    forms, given = _forms(case), arguments(case)
    operations = float(operator.operations(case.side, backward))
    compiled, on_device = _compiled(forms, given, device)
    with _repeats(operations):
        found = {"µs": time_of(compiled, on_device, device)}
        found["floor µs"] = operator.bytes(case.side, backward) / device.copy_speed()
        found["operations"] = operations
        if torch := torch_on_gpu():
            function, tensors = forms["torch"].function(), [torch.as_tensor(x, device="cuda") for x in given]
            found["torch µs"] = time_of_torch(torch, function, tensors)
            found["difference"] = difference(torch, compiled(*on_device), function(*tensors))
    return found


def time_of(compiled: Any, given: Sequence[Any], device: Any) -> float:
    """The µs that each of some more calls takes, by the device's events; what the host does is no part of it.

    What has loops or branches, and so no profile, takes longer than its host.
    """
    try:
        return float(compiled.profile(*given).step)
    except ArgumentError:
        once, more = (
            device.driver.least_time(lambda n=n: [compiled(*given) for _ in range(n)], machine_model.CUDA_REPEATS)
            for n in (1, 1 + machine_model.CUDA_PROFILE_STEPS)
        )
        return float(more - once) / machine_model.CUDA_PROFILE_STEPS


def prepare(case: Case, device: Any) -> None:
    """Compile the kernels, and keep them on the disk."""
    compiled, on_device = _compiled(_forms(case), arguments(case), device)
    functad.block_until_ready(compiled(*on_device))


def _compiled(forms: Mapping[str, Any], given: Sequence[np.ndarray], device: Any) -> tuple[Any, list[Any]]:
    on_device = [functad.device_put(x, device) for x in given]
    return functad.jit(forms["functad"].function()).lower(*on_device).compile(), on_device


def _forms(case: Case) -> Mapping[str, Any]:
    forms: Mapping[str, Any] = OPERATORS[case.name].task(2, case.direction == "both").forms
    return forms


def arguments(case: Case) -> list[np.ndarray]:
    """Operands, behind a cotangent where one is asked for: a few random numbers again and again.

    To draw all of a large matrix takes far longer than what is timed.
    """
    operator = OPERATORS[case.name]
    shapes: list[tuple[int, ...]] = [(case.side,) * axes for axes in operator.operands]
    if case.direction == "both":
        structs = [functad.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
        shapes.insert(0, functad.eval_shape(operator.function(functad.numpy), *structs).shape)
    rng, found = np.random.default_rng(0), []
    for shape in shapes:
        found.append(np.resize(rng.standard_normal(_DRAWN).astype(np.float32), shape))
    if operator.positive:
        found = [np.abs(x) + np.float32(0.5) for x in found]
    return found


_DRAWN = 99_991  # prime, so that rows and columns differ


@contextmanager
def _repeats(operations: float) -> Iterator[None]:
    """A context in which what takes milliseconds is repeated a few times only."""
    usual = machine_model.CUDA_REPEATS
    if operations > _MANY:
        machine_model.CUDA_REPEATS = 4
    try:
        yield
    finally:
        machine_model.CUDA_REPEATS = usual


_MANY = 1e11  # operations


def difference(torch: Any, ours: Any, theirs: Any) -> float:
    """By how much results differ at most, over the largest of each."""
    pairs = zip(tree_leaves(ours), theirs if isinstance(theirs, tuple) else (theirs,), strict=True)
    return max(_relative(torch, torch.from_dlpack(x), y) for x, y in pairs)


def _relative(torch: Any, x: Any, y: Any) -> float:
    return float((x - y).abs().max() / y.abs().max().clamp_min(1e-30))


def torch_on_gpu() -> Any:
    if not find_spec("torch"):
        return None
    import torch

    return torch if torch.cuda.is_available() else None


def time_of_torch(torch: Any, function: Callable[..., Any], given: Sequence[Any]) -> float:
    """The µs that each of some more calls takes, by its events: as profiles measure functad's."""
    count = machine_model.CUDA_PROFILE_STEPS

    def least(calls: int) -> float:
        best = math.inf
        for _ in range(machine_model.CUDA_REPEATS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(calls):
                function(*given)
            end.record()
            end.synchronize()
            best = min(best, 1e3 * start.elapsed_time(end))
        return best

    return (least(1 + count) - least(1)) / count


# --- pictures -------------------------------------------------------------------------------------------


def draw(results: Mapping[str, Mapping[str, float]], folder: Path) -> list[Path]:
    """A picture for each direction: of each operator the share of the roofline by the side of matrices."""
    known, files = timed(results), []
    for direction, title in DIRECTIONS.items():
        panels = []
        for name in OPERATORS:
            rows = {c.side: row for c, row in known.items() if (c.name, c.direction) == (name, direction)}
            series = {
                who: [share(row, key, known.values()) for row in rows.values()]
                for who, key in (("functad", "µs"), ("torch", "torch µs"))
            }
            places = [math.log2(side) for side in rows]
            if rows:
                panels.append(Panel(f"{OPERATORS[name].title}, {title}", "log2 of the side", places, series))
        if panels:
            files.append(folder / f"gpu-roofline-{direction}.svg")
            Chart(panels, _COLUMNS).save(files[-1])
    return files


def share(row: Mapping[str, float], key: str, rows: Any) -> float:
    """What part of the best that the GPU can do a time is."""
    time = row.get(key) or math.nan
    if not row["operations"]:
        return row["floor µs"] / time
    rates = (other["operations"] / (other.get(k) or math.nan) for other in rows for k in ("µs", "torch µs"))
    return row["operations"] / time / max((r for r in rates if r > 0), default=math.nan)


def draw_threads(folder: Path) -> Path | None:
    """The speed of each operator by the threads of a block, in files that `benchmarks.gpu --threads` has left."""
    found: dict[int, Mapping[Case, Any]] = {}
    for path in folder.glob("threads-*.json"):
        found[int(path.stem.partition("-")[2])] = timed(json.loads(path.read_text("utf-8"))["results"])
    panels = []
    for case in dict.fromkeys(case for cases_of in found.values() for case in cases_of):
        threads = sorted(t for t in found if case in found[t])
        times = [found[t][case]["µs"] or math.nan for t in threads]
        speeds = {"times as fast as the slowest": [max(times) / time for time in times]}
        panels.append(Panel(f"{OPERATORS[case.name].title}, {case.side}²", "threads a block", threads, speeds))
    if not panels:
        return None
    Chart(panels, _COLUMNS).save(folder / "gpu-threads.svg")
    return folder / "gpu-threads.svg"
