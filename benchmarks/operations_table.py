"""The table of operations: families of rows timed one after another, and all that was kept of them in one table.

Knows families, and sections as `benchmarks.report` keeps them. `python -m benchmarks.operations_table FILE.json` prints
the table of kept results, and with `--markdown` that of speed.md, in which a family is a line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.processes import Match, Rules, compete_all
from benchmarks.record import Options, Section, section_of
from benchmarks.workloads import FAMILIES, OPERATIONS
from benchmarks.workloads.operation import SIZES

PEERS = ("jax", "torch", "numpy")
# NumPy first: all others are compared with it before anything is timed.
_ORDER = ("numpy", "functad", "jax", "torch")
_HOPELESS = 10


def measure(families: Iterable[str], options: Options) -> Iterator[Section]:
    """Microseconds of operations, for each number of elements."""
    matches = [
        Match(f"{name}-{n}", FAMILIES[name].tolerance(n), () if FAMILIES[name].timed else ("numpy",))
        for name in families
        for n in FAMILIES[name].sizes
        if n in (options.elements or SIZES)
    ]
    if not matches:
        return
    frameworks = [name for name in _ORDER if name == "numpy" or name in options.frameworks]
    rules = Rules(options.rounds, options.seconds, options.threads, _HOPELESS)
    for match, contest in zip(matches, compete_all(matches, frameworks, rules)):
        yield section_of(match.workload, OPERATIONS[match.workload].title, contest)


class Row(NamedTuple):
    """One operation of one size: functad's least time in µs, and its ratio to that of each peer that was timed.

    Least times, because other programs slow some bursts down, and nothing makes one faster.
    """

    name: str
    title: str
    time: float
    ratios: dict[str, float]

    @property
    def worst(self) -> float:
        """The ratio to the fastest peer."""
        return max(self.ratios.values(), default=0.0)


def rows_of(results: Mapping[str, Any]) -> list[Row]:
    """The rows of kept results, the one with the largest ratio last."""
    found = []
    for name, section in results["results"].items():
        least = section["least"]
        if name in OPERATIONS and "functad" in least:
            ours = least["functad"]
            ratios = {peer: ours / least[peer] for peer in PEERS if peer in least}
            found.append(Row(name, section["title"], ours, ratios))
    return sorted(found, key=lambda row: row.worst)


def text(results: Mapping[str, Any]) -> str:
    """All rows, the worst last; and what has no figure, and why."""
    rows = rows_of(results)
    width = max((len(row.title) for row in rows), default=0)
    heads = "".join(f"{'/ ' + peer:>9}" for peer in PEERS)
    lines = [f"{'':{width}} {'functad':>13}{heads}"]
    for row in rows:
        cells = "".join(f"{_ratio(row.ratios.get(peer)):>9}" for peer in PEERS)
        lines.append(f"{row.title:{width}} {row.time:>10,.1f} µs{cells}")
    for name, section in results["results"].items():
        if name in OPERATIONS:
            lines += [f"no {tool} of {section['title']}: {why}" for tool, why in section["failures"].items()]
    return "\n".join(lines)


def markdown(results: Mapping[str, Any]) -> str:
    """A line for each family: the ratios to the fastest peer by number of elements, the worst family last."""
    by_name = {row.name: row for row in rows_of(results)}
    heads = " | ".join(f"{n:,}" for n in SIZES)
    lines = [f"| | {heads} | functad, 1,000,000 |", "| --- |" + " ---: |" * (len(SIZES) + 1)]
    families = []
    for name, family in FAMILIES.items():
        rows = {n: by_name[f"{name}-{n}"] for n in SIZES if f"{name}-{n}" in by_name}
        if rows:
            families.append((median(row.worst for row in rows.values()), family.title, rows))
    for _, title, rows in sorted(families, key=lambda item: item[0]):
        cells = [_bold(rows[n].worst) if n in rows else "–" for n in SIZES]
        million = f"{rows[1_000_000].time:,.0f} µs" if 1_000_000 in rows else "–"
        lines.append(f"| {title} | " + " | ".join(cells) + f" | {million} |")
    return "\n".join(lines)


def _ratio(x: float | None) -> str:
    return "–" if x is None else f"{x:.3f}" if x < 0.1 else f"{x:.2f}"


def _bold(x: float) -> str:
    return f"**{_ratio(x)}**" if x > 1.0 else _ratio(x)


if __name__ == "__main__":
    kept = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(markdown(kept) if "--markdown" in sys.argv[2:] else text(kept))
