"""`python -m benchmarks roofline`: W4's operators beside what memory, or products, can do at best; W5 by its width.

Each is timed in turn with NumPy, PyTorch and JAX, and with copies of as many bytes as the operator must move, which
every core makes by itself: what memory can do. What instructions need is what functad's own kernels take for more rows
that lie in a core's caches, which says nothing of how good their formulas are: the peers do. The floor is the larger of
both. That of matrix products is the best rate at which NumPy's product computed in the same setting. Results that are
kept (`--save`) are added to those of the same day and machine, and drawn: shares of the floor, how much faster all
cores are than one, and the perceptron's steps by its parameters.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import functad
from benchmarks import gpu_operators, report, widths
from benchmarks.processes import Match, Rules, Worker, compared, enter, timed, worker
from benchmarks.record import Options, Section, section_of
from benchmarks.workloads import ROOFLINE
from benchmarks.workloads.operators import OPERATORS, SIDES, few_rows
from benchmarks.workloads.perceptron import WIDTHS
from functad.views.charts import Chart, Panel

MEMORY, COMPUTING = "floor", "computing"  # rows of the results beside frameworks
_FRAMEWORKS = ["numpy", "functad", "torch", "jax"]
_DIRECTIONS = {"forward": "forward", "both": "forward and backward"}
_COLUMNS = 5  # of panels in a picture
Figures = dict[tuple[str, str, int, int, str], float]
"""(operator, direction, side, cores, framework) → a number."""


def main(arguments: list[str]) -> int:
    """Run what the command line asks for; returns the exit code: 1 where functad itself failed."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    settings = {"one": 1, "all": cores, "gpu": 0}
    parser = argparse.ArgumentParser(prog="python -m benchmarks roofline", description=__doc__)
    parser.add_argument("--operators", default=",".join(OPERATORS), help="which, or none (default: %(default)s)")
    parser.add_argument("--sides", default=",".join(map(str, SIDES)), help="of the matrices (default: %(default)s)")
    parser.add_argument("--widths", default=",".join(map(str, WIDTHS)), help="of W5, or none (default: %(default)s)")
    parser.add_argument("--cores", default="one,all", help="one, all, gpu, or some of these (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="bursts of each framework (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.03, help="length of a burst (default: %(default)s)")
    parser.add_argument("--save", action="store_true", help="keep the results under benchmarks/results/, and draw them")
    given = parser.parse_args(arguments)
    names, sides, chosen = _listed(given.operators), _listed(given.sides), _listed(given.cores)
    for kind, wanted, known in (
        ("operator", names, OPERATORS),
        ("side", sides, [*map(str, SIDES)]),
        ("width", _listed(given.widths), [*map(str, WIDTHS)]),
        ("cores", chosen, settings),
    ):
        if unknown := sorted(set(wanted) - set(known)):
            parser.error(f"no {kind} named {', '.join(unknown)}; there are {', '.join(known)}")
    sections: list[Section] = []
    workloads = [f"{name}-{side}-{direction}" for name in names for direction in _DIRECTIONS for side in sides]
    if "gpu" in chosen:
        _on_gpu(names, [int(side) for side in sides], report.RESULTS if given.save else None)
    if chosen == ["gpu"]:
        return 0
    for cores_of in (c for c in chosen if c != "gpu"):
        rules = Rules(given.rounds, given.seconds, settings[cores_of])
        by_width = widths.measured([*map(int, _listed(given.widths))], rules)
        for section in chain(measured(workloads, rules), by_width):
            sections.append(section)
            print(line(section), flush=True)
    results = report.record(sections, Options(_FRAMEWORKS, given.rounds, given.seconds, cores))
    if given.save:
        kept = report.save(results, "roofline")
        pictures = draw(json.loads(kept.read_text(encoding="utf-8")), kept)
        print(f"\nkept in {kept}, {', '.join(map(str, pictures))}")
    return int(any("functad" in section.failures for section in sections))


def _listed(names: str) -> list[str]:
    """What a list with commas names; nothing where it says "none"."""
    return [] if names == "none" else names.split(",")


def _on_gpu(names: Sequence[str], sides: Sequence[int], kept: Path | None) -> None:
    """Microseconds of each operator on the first GPU, and of copies of as many bytes; drawn if they are kept."""
    device, found = functad.devices("cuda")[0], {}
    for case in gpu_operators.cases(names, sides):
        found[str(case)] = gpu_operators.measured(case, device)
        print(f"{case}: {found[str(case)]}", flush=True)
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        (kept / "gpu-roofline.json").write_text(json.dumps({"gpu": device.device_kind, "results": found}), "utf-8")
        gpu_operators.draw(found, kept)


def measured(workloads: Sequence[str], rules: Rules) -> Iterator[Section]:
    """Microseconds of each operator, in all frameworks, and of what bounds it."""
    if not workloads:
        return
    with ExitStack() as stack:
        workers, absences = enter(stack, _FRAMEWORKS, workloads[0], rules.threads)
        copying = stack.enter_context(worker("numpy", workloads[0], rules.threads))
        computing = stack.enter_context(worker("functad", workloads[0], 1))
        for workload in workloads:
            agreed = compared(Match(workload, 1e-3), workers, absences)
            contenders = dict(agreed.workers)
            if moved := _bytes(workload):
                copying.ask("load", workload=f"copies-{moved}")
                contenders[MEMORY] = copying
            contest = timed(agreed._replace(workers=contenders), rules)
            name = f"roofline {workload} {rules.threads}"
            section = section_of(name, ROOFLINE[workload].title, contest._replace(ratio=None, fastest=None))
            if moved and not OPERATORS[_parts(workload)[0]].moves:
                section.least[COMPUTING] = 1e6 * _computing(workload, computing, rules)
            yield section._replace(notes=[f"cores: {rules.threads}"])


def _computing(workload: str, process: Worker, rules: Rules) -> float:
    """Seconds that an operator's instructions take on all cores: by what more rows take, within a core's caches."""
    _, side, _ = _parts(workload)
    few, more = few_rows(side)
    least = {few: math.inf, more: math.inf}
    for _ in range(rules.rounds):
        for rows in least:
            process.ask("load", workload=f"{rows}-rows-{workload}")
            least[rows] = min(least[rows], process.ask("burst", seconds=rules.seconds)["least"])
    return max(least[more] - least[few], 0.0) / (more - few) * side / rules.threads


def floor(least: Mapping[str, float]) -> float | None:
    """What an operator cannot be faster than; None where it is products."""
    return max(least[MEMORY], least.get(COMPUTING, 0.0)) if MEMORY in least else None


def _parts(workload: str) -> tuple[str, int, bool]:
    name, side, direction = workload.split("-")
    return name, int(side), direction == "both"


def _bytes(workload: str) -> int:
    """What an operator must move; 0 where its floor is products."""
    name, side, backward = _parts(workload)
    return 0 if OPERATORS[name].products[0] else OPERATORS[name].bytes(side, backward)


def line(section: Section) -> str:
    """A section in one line: functad's least time, its shares of what bounds it, and its ratio to each other."""
    least = section.least
    title = f"{section.title}, {section.notes[0]}"
    if "functad" not in least:
        return f"{title}: no figure: {section.failures['functad']}"
    time, bound = least["functad"], floor(least)
    others = [f"/ {name} {time / least[name]:.2f}" for name in _FRAMEWORKS if name in least and name != "functad"]
    shares = [
        f"{least[x] / time:.2f} of {x if x == COMPUTING else 'memory'}" for x in (MEMORY, COMPUTING) if x in least
    ]
    share = f"{bound / time:.2f} of the floor's speed ({', '.join(shares)}), " if bound is not None else ""
    return f"{title}: {time:,.1f} µs, {share}{', '.join(others)}"


def shares(results: Mapping[str, Any]) -> Figures:
    """Each time's share of what the machine can do at best."""
    found: Figures = {}
    rates: Figures = {}
    for place, least in _by_place(results).items():
        bound, (name, direction, side, _) = floor(least), place
        for framework in least.keys() - {MEMORY, COMPUTING}:
            if bound is not None:
                found[(*place, framework)] = bound / least[framework]
            else:
                operations = OPERATORS[name].operations(side, direction == "both")
                rates[(*place, framework)] = operations / least[framework]
    for place, rate in rates.items():
        found[place] = rate / max(r for p, r in rates.items() if p[3] == place[3] and p[4] == "numpy")
    return found


def _by_place(results: Mapping[str, Any]) -> dict[tuple[str, str, int, int], Mapping[str, float]]:
    """(operator, direction, side, cores) → the least µs of each framework, and of what bounds it."""
    found = {}
    for key, section in results["results"].items():
        kind, workload, cores = key.split(" ")
        if kind == "roofline":
            name, side, direction = workload.split("-")
            found[name, direction, int(side), int(cores)] = section["least"]
    return found


def speedups(results: Mapping[str, Any]) -> Figures:
    """How many times as fast as one core more cores are, where both were timed."""
    found, known = {}, _by_place(results)
    for (name, direction, side, cores), least in known.items():
        one = known.get((name, direction, side, 1), {})
        for framework in (f for f in _FRAMEWORKS if cores > 1 and f in one and f in least):
            found[name, direction, side, cores, framework] = one[framework] / least[framework]
    return found


def draw(results: Mapping[str, Any], beside: Path) -> list[Path]:
    """A panel for each operator, by the side of matrices: its shares of the roofline, and its speed-up by more cores.

    A picture of each for each direction; and one of the perceptron by its parameters.
    """
    pictures: dict[str, Chart | None] = {}
    for direction, title in _DIRECTIONS.items():
        for kind, known, panel in (("", shares(results), _panel), ("speedup-", speedups(results), _speedup_panel)):
            names = [name for name in OPERATORS if any(p[:2] == (name, direction) for p in known)]
            panels = [panel(name, direction, title, known) for name in names]
            pictures[f"{kind}{direction}"] = Chart(panels, _COLUMNS) if panels else None
    pictures["widths"] = widths.draw(results)
    files = []
    for name, chart in pictures.items():
        if chart is not None:
            files.append(beside.with_name(f"{beside.stem.split('-', 3)[3]}-{name}.svg"))  # without the date
            chart.save(files[-1])
    return files


def _panel(name: str, direction: str, title: str, known: Figures) -> Panel:
    sides = sorted({p[2] for p in known if p[:2] == (name, direction)})
    series = {}
    for cores in sorted({p[3] for p in known}):
        lines = {f: [known.get((name, direction, n, cores, f), math.nan) for n in sides] for f in _FRAMEWORKS}
        ours = lines.pop("functad")
        peers = [max(values, key=lambda x: -1 if math.isnan(x) else x) for values in zip(*lines.values())]
        series[f"functad, {cores}"], series[f"best peer, {cores}"] = ours, peers
    return Panel(f"{OPERATORS[name].title}, {title}", "log2 of the side", [math.log2(n) for n in sides], series)


def _speedup_panel(name: str, direction: str, title: str, known: Figures) -> Panel:
    sides = sorted({p[2] for p in known if p[:2] == (name, direction)})
    series = {
        f"{framework}, {cores}": [known.get((name, direction, n, cores, framework), math.nan) for n in sides]
        for cores in sorted({p[3] for p in known})
        for framework in ("functad", "torch", "jax")
    }
    return Panel(
        f"{OPERATORS[name].title}, {title}: times one core", "log2 of the side", [*map(math.log2, sides)], series
    )
