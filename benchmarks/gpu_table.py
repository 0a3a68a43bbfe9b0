"""`python -m benchmarks.gpu_table RESULTS`: what a session on a GPU found, as tables; `--into FILE` puts them there.

Knows the results that `benchmarks.gpu` leaves; nothing of how they were measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import gpu_operators
from benchmarks.gpu_operators import FIRST_SIDE
from benchmarks.gpu_steps import FRAMEWORKS
from benchmarks.workloads import CONVOLUTIONS, LOOPS, STEPS
from benchmarks.workloads.operators import OPERATORS

BEGIN, END = "<!-- measured on a GPU -->", "<!-- end of what was measured on a GPU -->"
_SIDES = (FIRST_SIDE, 8192)
Results = Mapping[str, Mapping[str, float]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_table", description=__doc__)
    parser.add_argument("folder", type=Path, help="with gpu.json")
    parser.add_argument("--into", type=Path, help="a Markdown file with the marks between which the tables stand")
    given = parser.parse_args(arguments)
    found = text(json.loads((given.folder / "gpu.json").read_text("utf-8")))
    if given.into is None:
        print(found)
    else:
        given.into.write_text(placed(given.into.read_text("utf-8"), found), "utf-8")
    return 0


def placed(page: str, found: str) -> str:
    """A page with the tables between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{found}\n{END}{after}"


def text(session: Mapping[str, Any]) -> str:
    """All tables as Markdown."""
    results: Results = session["results"]
    versions = ", ".join(f"{name} {number}" for name, number in session["versions"].items())
    copies = f"copies read and write {(session['copy bytes a µs'] or 0.0) / 1e6:.2f} TB/s"
    parts = [
        f"Measured on {session['date'][:10]} on one {session['gpu']} ({copies}), with {versions}.",
        *_steps(results),
        *_operators(results),
        *_others(results),
    ]
    if call := results.get("overhead of a call"):
        parts.append(f"A call of a small jitted step takes {call['host µs']:.1f} µs of the host.")
    return "\n\n".join(part for part in parts if part)


def _steps(results: Results) -> Iterator[str]:
    """µs a step, and functad's over the least of the others with products of the same precision."""
    names = list(dict.fromkeys(name.partition(",")[0] for name in results if ", functad" in name))
    names = [name for name in names if not name.startswith(("operator", "operation"))]
    rows = []
    for name in names:
        times = {f: results.get(f"{name}, {f}", {}).get("µs") for f in FRAMEWORKS}
        exact, rounded = ("functad", "torch", "torch, graph", "jax"), ("functad, TF32", "jax, TF32")
        rows.append([_title(name), *map(_time, times.values()), _ratio(times, exact), _ratio(times, rounded)])
    if rows:
        head = ["µs a step", *FRAMEWORKS, "functad / fastest", "the same, TF32"]
        yield _table(head, rows)


def _title(name: str) -> str:
    known = {**STEPS, **LOOPS, **CONVOLUTIONS}
    return known[name].title if name in known else f"W5: perceptron, h = {name.partition('-')[2]}, batch 100"


def _ratio(times: Mapping[str, float | None], among: Sequence[str]) -> str:
    ours, *others = (times[name] for name in among)
    known = [t for t in others if t]
    return f"{ours / min(known):.2f}" if ours and known else "–"


def _operators(results: Results) -> Iterator[str]:
    """Of each operator the share of the bandwidth of copies, or of the best rate of a product."""
    known = gpu_operators.timed(results)
    head = ["share of the best", *(f"{side}², {way}" for side in _SIDES for way in ("forward", "both"))]
    rows = []
    for name in OPERATORS:
        cells = []
        for side in _SIDES:
            for way in gpu_operators.DIRECTIONS:
                row = known.get(gpu_operators.Case(name, way, side))
                cells.append(_shares(row, known) if row else "–")
        if cells != ["–"] * len(cells):
            rows.append([OPERATORS[name].title, *cells])
    if rows:
        yield _table(head, rows)
        yield (
            "Of functad and, in brackets, PyTorch: the share of the bandwidth of copies, or for products of the best "
            "rate of either; *both* is forward and backward, where PyTorch runs an operation at a time."
        )


def _shares(row: Mapping[str, float], known: Mapping[Any, Mapping[str, float]]) -> str:
    ours, theirs = (gpu_operators.share(row, key, known.values()) for key in ("µs", "torch µs"))
    return f"{ours:.2f} ({theirs:.2f})" if theirs == theirs else f"{ours:.2f}"


def _others(results: Results) -> Iterator[str]:
    rows = []
    for name, row in results.items():
        if not name.startswith("operation "):
            continue
        ours, theirs, floor = row["µs"], row.get("torch µs"), row["floor µs"]
        share = f"{floor / ours:.2f}" if floor else "–"
        ratio = f"{ours / theirs:.2f}" if theirs else "–"
        rows.append([name.removeprefix("operation "), _time(ours), _time(theirs), ratio, share])
    if rows:
        yield _table(["µs", "functad", "torch", "functad / torch", "share of the bandwidth"], rows)


def _time(time: float | None) -> str:
    return "–" if time is None else f"{time:,.0f}" if time >= 100 else f"{time:.1f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
