"""Another value of a tuned number: which workloads' kernels it changes, and what these take.

Knows `functad.machine_model` and workloads. `python -m benchmarks tuning NAME …` halves and doubles numbers; without
names, all of which `machine_model` says that they were compared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks import report
from benchmarks.frameworks import contender
from benchmarks.workloads import CONVOLUTIONS, FAMILIES, LOOPS, STEPS, WORKLOADS
from functad import config, machine_model
from functad.backends.cpu import kept_plans
from functad.cli.measure import descriptions

CHOSEN = [*STEPS, *LOOPS, *CONVOLUTIONS, *(f"{f}-{n}" for f in FAMILIES for n in (10_000, 1_000_000))]


class Comparison(NamedTuple):
    """What a workload takes on one thread with another value of a number, over what it takes with that of the model.

    problem: what happened instead.
    """

    number: str
    value: float
    workload: str
    ratio: float | None
    problem: str = ""

    def __str__(self) -> str:
        took = self.problem if self.ratio is None else f"{self.ratio:.2f} of the time"
        return f"{self.number} = {self.value:g}: {self.workload} {took}"


def compared() -> list[str]:
    """The numbers for the CPU that were chosen by the times of workloads."""
    texts = descriptions()
    return [n for n, text in texts.items() if re.search(r"\bCompared\b", text) and not n.startswith("CUDA_")]


def others(value: Any) -> tuple[float, ...]:
    """Half of a number and twice as much; of an integer no less than 1. Several numbers have no such.

    Of a factor that is a little more than 1, so much of what it is more.

    >>> others(8), others(1), others(1.5)
    ((4, 16), (2,), (1.25, 2.0))
    """
    if not isinstance(value, (int, float)):
        return ()
    if 1 < value < 2:
        return (1 + value) / 2, 2 * value - 1
    halved = max(1, value // 2) if isinstance(value, int) else value / 2
    return tuple(v for v in (halved, 2 * value) if v != value)


def compare(workload: str, names: Sequence[str], seconds: float) -> Iterator[Comparison]:
    """What other values do to a workload: those of numbers that compiling it reads, where the kernels differ."""
    with patch.object(kept_plans, "plan_key", lambda *_: None):  # a plan is found without asking for the numbers
        with recorded() as read:
            text = printed(made(workload))
        for name in names:
            for value in others(getattr(machine_model, name)) if name in read else ():
                try:
                    with patch.object(machine_model, name, value):
                        other = made(workload)
                        if printed(other) == text:
                            continue
                        other.run(1)
                    # One that is made now, too: where memory lies may be a third of the time.
                    yield Comparison(name, value, workload, ratio(other, made(workload), seconds))
                # One value that cannot be must not hide what others do.
                except Exception as problem:
                    yield Comparison(name, value, workload, None, f"fails: {type(problem).__name__}: {problem}"[:100])


def made(workload: str) -> Any:
    """A workload, of which nothing is compiled yet."""
    return contender("functad", WORKLOADS[workload].task())


@contextlib.contextmanager
def recorded() -> Iterator[set[str]]:
    """A context that tells which numbers are read."""
    read: set[str] = set()

    class Recording(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            read.add(name)
            return super().__getattribute__(name)

    machine_model.__class__ = Recording
    try:
        yield read
    finally:
        machine_model.__class__ = ModuleType


def printed(one: Any) -> str:
    """What is made of a workload: kernels, memory and costs."""
    lowered = one.step.lower(*one.arguments())
    return f"{lowered.kernels}{lowered.memory_plan}{lowered.cost}"


def ratio(one: Any, other: Any, seconds: float) -> float:
    """The least processor time of one over that of another, in turn."""
    for each in (one, other):
        each.reset()
        each.run(2)
    started = time.perf_counter()
    other.run(1)
    count = max(1, int(seconds / 8 / max(time.perf_counter() - started, 1e-7)))
    least = {one: float("inf"), other: float("inf")}
    for _ in range(8):
        for each in (one, other):
            started = time.thread_time()
            each.run(count)
            least[each] = min(least[each], time.thread_time() - started)
    return least[one] / least[other]


def summary(found: Sequence[Comparison]) -> list[str]:
    """A line for each number: the ratios of the workloads that half of it, or twice as much, changes."""
    by_number: dict[str, dict[float, list[Comparison]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        by_number[one.number][one.value].append(one)
    lines = []
    for name, values in by_number.items():
        parts = []
        for value, each in values.items():
            ratios = sorted((c.ratio, c.workload) for c in each if c.ratio is not None)
            if ratios:
                middle = statistics.median(r for r, _ in ratios)
                ends = f"{ratios[0][0]:.2f} ({ratios[0][1]}) to {ratios[-1][0]:.2f} ({ratios[-1][1]})"
                parts.append(f"{value:g}: {len(ratios)} workloads take {ends}, median {middle:.2f}")
            parts += [f"{value:g}: {c.workload} {c.problem}" for c in each if c.ratio is None]
        lines.append(f"{name} {getattr(machine_model, name):g}; " + "; ".join(parts))
    return lines


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tuning", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NUMBER", help="of machine_model (default: all that were compared)")
    parser.add_argument("--workloads", help="names, with commas (default: steps, loops, convolutions, operations)")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each comparison (default: %(default)s)")
    parser.add_argument("--save", action="store_true", help="keep the results under benchmarks/results/")
    given = parser.parse_args(arguments)
    workloads = given.workloads.split(",") if given.workloads else CHOSEN
    if unknown := {*given.names} - {*descriptions()} | {*workloads} - {*WORKLOADS}:
        parser.error(f"no number and no workload is named {', '.join(sorted(unknown))}")
    found = []
    with config.context(num_threads=1):
        for workload in workloads:
            for one in compare(workload, given.names or compared(), given.seconds):
                print(one, flush=True)
                found.append(one)
    print("", *summary(found), sep="\n")
    if given.save:
        kept = {"date": time.strftime("%Y-%m-%d"), "machine": report.machine(), "found": [c._asdict() for c in found]}
        path = report.RESULTS / f"{kept['date']}-tuning.json"
        path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(f"\nkept in {path}")
    return 0
