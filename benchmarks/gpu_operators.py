"""W4's operators on a GPU, by the device's events, beside what its memory, or the product of matrices, can do at best.

Knows what is timed and drawn; not how much time there is. Memory's best is the measured bandwidth of copies, the
product's the best rate of any product here. `python -m benchmarks roofline --cores gpu` runs all of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import functad
from benchmarks.workloads.operators import OPERATORS, SIDES
from functad import machine_model
from functad.views.charts import Chart, Panel

DIRECTIONS = {"forward": "forward", "both": "forward and backward"}
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
    """All that can be timed, of each operator something before others come again; large matrices first."""
    for side in sorted(sides, reverse=True):
        for direction in DIRECTIONS:
            yield from (Case(name, direction, side) for name in names)


def measured(case: Case, device: Any) -> dict[str, float]:
    """µs of functad, and of PyTorch where it has a GPU; µs of copies of as many bytes; operations of products."""
    operator, backward = OPERATORS[case.name], case.direction == "both"
    task = operator.task(case.side, backward)
    arguments = [functad.device_put(x, device) for x in task.arguments]
    profile = functad.jit(task.forms["functad"].function()).lower(*arguments).compile().profile(*arguments)
    found = {"µs": profile.step, "floor µs": operator.bytes(case.side, backward) / device.copy_speed()}
    found["operations"] = float(operator.operations(case.side, backward))
    del arguments
    if torch := _torch_on_gpu():
        found["torch µs"] = _time_of_torch(torch, task.forms["torch"].function(), task.arguments)
    return found


def _torch_on_gpu() -> Any:
    if not find_spec("torch"):
        return None
    import torch

    return torch if torch.cuda.is_available() else None


def _time_of_torch(torch: Any, function: Callable[..., Any], arguments: Sequence[Any]) -> float:
    """The µs that each of some more calls takes, by its events: as profiles measure functad's."""
    given = [torch.as_tensor(x, device="cuda") for x in arguments]
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
                who: [_share(row, key, known.values()) for row in rows.values()]
                for who, key in (("functad", "µs"), ("torch", "torch µs"))
            }
            places = [math.log2(side) for side in rows]
            if rows:
                panels.append(Panel(f"{OPERATORS[name].title}, {title}", "log2 of the side", places, series))
        if panels:
            files.append(folder / f"gpu-roofline-{direction}.svg")
            Chart(panels, _COLUMNS).save(files[-1])
    return files


def _share(row: Mapping[str, float], key: str, rows: Any) -> float:
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
