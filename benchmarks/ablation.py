"""Leave out one rule, move or pass of the compiler at a time: equations, kernels, memory and time of each workload.

Knows workers and switches. Where the kernels stay the same, nothing is timed: it does not fire there.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.measure import Timing, summary
from benchmarks.processes import PAUSE, Worker, WorkerError, worker
from benchmarks.record import Options, Section
from benchmarks.switches import SWITCHES

_SHOWN = ("equations", "kernels", "traffic", "memory")  # of a compiled workload


def measure(workload: str, options: Options) -> list[Section]:
    """Time without each switch that fires, over the time with all."""
    figures: dict[str, Timing] = {}
    failures: dict[str, str] = {}
    notes: list[str] = []
    idle: list[str] = []
    with worker("functad", workload, options.threads) as whole:
        whole.ask("load")
        size = whole.ask("size")
        whole.ask("first", steps=1)
        for switch in SWITCHES:
            with worker("functad", workload, options.threads) as less:
                try:
                    less.ask("without", switch=switch.name)
                    less.ask("load")
                    changed = less.ask("size")
                    if changed["text"] == size["text"]:
                        idle.append(switch.name)
                        continue
                    less.ask("first", steps=1)
                    figures[switch.name] = _ratio(less, whole, options)
                except WorkerError as problem:
                    failures[f"functad without {switch.name}"] = str(problem)
                    continue
            notes.append(f"{switch.name}: {_differences(size, changed)}")
    notes.append(f"do not fire: {', '.join(idle)}")
    title = f"{workload}: time without each part of the compiler over the time with all"
    return [Section(f"ablate-{workload}", title, "×", figures, failures=failures, notes=notes)]


def _ratio(one: Worker, other: Worker, options: Options) -> Timing:
    ratios = []
    for _ in range(options.rounds):
        times = []
        for contender in (one, other):
            time.sleep(PAUSE)
            times.append(contender.ask("burst", seconds=options.seconds)["median"])
        ratios.append(times[0] / times[1])
    return summary(ratios)


def _differences(size: dict[str, Any], changed: dict[str, Any]) -> str:
    parts = [f"{what} {size[what]:,} → {changed[what]:,}" for what in _SHOWN if size[what] != changed[what]]
    return ", ".join(parts) or "other kernels of the same size"
