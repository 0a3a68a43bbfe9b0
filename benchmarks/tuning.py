"""Another value of a tuned number: what the programs that it changes take then.

Knows `functad.machine_model` and the command line. `python -m benchmarks tuning NAME …` halves and doubles numbers;
without names, all of which `machine_model` says that they were compared. Each has small programs in which it decides
(`tuning_cases/`); `--workloads` tries it in larger ones, those of whose kernels it changes.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

from benchmarks import report
from benchmarks.frameworks import contender
from benchmarks.tuning_table import Row, others, rows
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
    """The numbers for the CPU that were chosen by times, or are to be."""
    texts = descriptions()
    by_times = [n for n, text in texts.items() if re.search(r"\b(Compared|Unproven)\b", text)]
    return [n for n in by_times if not n.startswith("CUDA_")]


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


def keep(found: Sequence[Row], name: str) -> Path:
    """Put rows in the place of those of the same numbers in a file of results, and write the table beside it."""
    path = report.RESULTS / "tuning" / f"{name}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": []}
    order = [*descriptions()]
    stay = {*compared()} - {row.number for row in found}
    lines = [row for row in kept["rows"] if row["number"] in stay] + [row._asdict() for row in found]
    lines.sort(key=lambda row: order.index(row["number"]))
    kept = {"date": time.strftime("%Y-%m-%d"), "machine": report.machine(), "rows": lines}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(table(kept), encoding="utf-8")
    return path


def table(kept: dict[str, Any]) -> str:
    """Results as Markdown: a line for each number in each of its programs."""
    lines = [
        "# Tuned numbers, as they are, and others",
        "",
        f"{kept['machine']}, {kept['date']}, by `python -m benchmarks tuning`: the least of several times in µs,",
        "and their ratio to that with the number as it is; of half and twice as much where that changes the program.",
        "Processor time of a call on one thread, or what *compiling* takes; *apart*: in a process of its own.",
        "Others used the machine: 0.95 to 1.05 is as long, 0.8 to 1.25 of *compiling* and *apart*.",
        "",
        "| number | program | | as it is | other values |",
        "| --- | --- | --- | ---: | --- |",
    ]
    for row in kept["rows"]:
        (usual, least), *rest = row["microseconds"].items()
        tried = "; ".join(f"{_short(v)}: {_short(t)} ({t / least:.2f})" for v, t in rest)
        lines.append(
            f"| {row['number']} = {_short(usual)} | {row['program']} | {row['way']} | {_short(least)} | {tried} |"
        )
    return "\n".join(lines) + "\n"


def _short(value: Any) -> str:
    """A number in few digits; of numbers several as they are.

    >>> _short("1048576"), _short(0.123456), _short("(8, 4)")
    ('1,048,576', '0.123', '(8, 4)')
    """
    number = ast.literal_eval(value) if isinstance(value, str) else value
    if not isinstance(number, (int, float)):
        return str(value)
    return f"{number:,.0f}" if number == int(number) or abs(number) >= 100 else f"{number:.3g}"


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks tuning", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NUMBER", help="of machine_model (default: all chosen by times)")
    parser.add_argument("--workloads", help="names of larger programs, with commas; `all`: steps, loops and operations")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each comparison (default: %(default)s)")
    parser.add_argument("--save", metavar="NAME", help="keep the results under benchmarks/results/tuning/")
    given = parser.parse_args(arguments)
    chosen = given.workloads.split(",") if given.workloads else []
    workloads = CHOSEN if chosen == ["all"] else chosen
    if unknown := {*given.names} - {*descriptions()} | {*workloads} - {*WORKLOADS}:
        parser.error(f"no number and no workload is named {', '.join(sorted(unknown))}")
    if workloads and given.save:
        parser.error("--save keeps times of small programs only: leave out --workloads, or --save")
    names = given.names or compared()
    if workloads:
        _in_workloads(workloads, names, given.seconds)
        return 0
    found = []
    for row in rows(names, given.seconds):
        print(row.number, row.program, row.microseconds, sep=": ", flush=True)
        found.append(row)
    timed = {row.number for row in found}
    for name in names:
        if name not in timed:
            print(f"{name}: no program in benchmarks/tuning_cases/ for it here; try --workloads all")
    if given.save:
        print(f"\nkept in {keep(found, given.save)}")
    return 0


def _in_workloads(workloads: Sequence[str], names: Sequence[str], seconds: float) -> None:
    found = []
    with config.context(num_threads=1):
        for workload in workloads:
            for one in compare(workload, names, seconds):
                print(one, flush=True)
                found.append(one)
    print("", *summary(found), sep="\n")
