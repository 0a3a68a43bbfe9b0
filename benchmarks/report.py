"""Results as text, as Markdown, and as JSON under `results/`.

Knows sections; no benchmark. `python -m benchmarks.report FILE.json` prints the Markdown of kept results.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import functad
from benchmarks.frameworks import FRAMEWORKS
from benchmarks.measure import Timing
from benchmarks.record import Options, Section

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("numpy", "numba", "llvmlite", "torch", "jax", "jaxlib", "autograd")


def text(section: Section) -> str:
    """The table of one section, for a terminal."""
    lines = [f"\n{section.title}"]
    width = max((len(row) for row in section.figures), default=0)
    for row, t in section.figures.items():
        least = f", least {_number(section.least[row])}" if row in section.least else ""
        lines.append(f"  {row:{width}} {_number(t.median):>10} {section.unit:3} {_quartiles(t)}{least}")
    if section.ratio is not None:
        ratio = section.ratio
        lines.append(
            f"  functad / {section.fastest}: {ratio.median:.3f}, quartiles {ratio.low:.3f} to {ratio.high:.3f}"
        )
    if section.agreement:
        lines.append(f"  same results, largest relative difference {max(section.agreement.values()):.1e}")
    lines += [f"  no figure of {framework}: {reason}" for framework, reason in section.failures.items()]
    lines += [f"  {note}" for note in section.notes]
    return "\n".join(lines)


def record(sections: list[Section], options: Options) -> dict[str, Any]:
    """All that is kept: the results, and where, when and with what they were measured."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "threads": options.threads,
        "rounds": options.rounds,
        "python": platform.python_version(),
        "versions": {"functad": functad.__version__, **_installed()},
        "results": {
            s.name: {
                **s._asdict(),
                "figures": {row: t._asdict() for row, t in s.figures.items()},
                "ratio": s.ratio and s.ratio._asdict(),
            }
            for s in sections
        },
    }


def save(results: dict[str, Any], name: str = "") -> Path:
    """Write results as JSON; those of the same day are kept too: what is new gets a number.

    Under a name they are added to those that were measured on the same day, machine and versions.
    """
    RESULTS.mkdir(exist_ok=True)
    for number in itertools.count(1):
        parts = [results["date"], *filter(None, [name]), *([str(number)] if number > 1 else [])]
        path = RESULTS / f"{'-'.join(parts)}.json"
        if not path.exists():
            break
        before = json.loads(path.read_text(encoding="utf-8"))
        if name and all(before[key] == results[key] for key in ("machine", "threads", "python", "versions")):
            results = {**results, "results": {**before["results"], **results["results"]}}
            break
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def markdown(results: dict[str, Any]) -> str:
    """The tables for speed.md and the README: one where frameworks compete, one of functad's other figures."""
    competing = [r for r in results["results"].values() if set(r["figures"]) & set(FRAMEWORKS) - {"functad"}]
    others = [r for r in results["results"].values() if r not in competing]
    columns = [f for f in FRAMEWORKS if any(f in r["figures"] for r in competing)]
    versions = ", ".join(f"{package} {number}" for package, number in results["versions"].items())
    lines = [
        f"Measured on {results['date']}: {results['machine']}, {results['threads']} threads for each framework; "
        f"Python {results['python']}, {versions}. Medians; in brackets the quartiles of the ratio.",
        "",
    ]
    if competing:
        lines.append("| | " + " | ".join(columns) + " | functad / fastest peer |")
        lines.append("| --- |" + " ---: |" * (len(columns) + 1))
        for r in competing:
            cells = [_cell(r["figures"].get(column), r["unit"]) for column in columns]
            lines.append(f"| {r['title']} | " + " | ".join(cells) + f" | {_ratio_cell(r)} |")
    if others:
        lines += ["", "| | |", "| --- | ---: |"]
        for r in others:
            for row, figure in r["figures"].items():
                lines.append(f"| {r['title']}: {row} | {_cell(figure, r['unit'])} |")
    return "\n".join(lines)


def machine() -> str:
    """The processor and the number of its cores that this process may use."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [line.split(":", 1)[1].strip() for line in information.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model} ({platform.machine()}), {cores} cores, {platform.system()}"


def _installed() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue  # not every peer need be here; what is missing is named in the sections
    return found


def _quartiles(t: Timing) -> str:
    return f"quartiles {_number(t.low)} to {_number(t.high)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _cell(figure: dict[str, float] | None, unit: str) -> str:
    return "–" if figure is None else f"{_number(figure['median'])} {unit}".rstrip()


def _ratio_cell(result: dict[str, Any]) -> str:
    ratio = result["ratio"]
    return "–" if ratio is None else f"**{ratio['median']:.2f}** ({ratio['low']:.2f}–{ratio['high']:.2f})"


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
