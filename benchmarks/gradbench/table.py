"""Kept results of GradBench for the README: a table with a line for each function of each eval, and a picture.

Knows sections' names and figures as `benchmarks.report` keeps them. `python -m benchmarks.gradbench.table FILE.json`
prints the table, and draws the picture beside the file.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

# Tool → its title and its colour; of several rows of a tool the faster counts.
TOOLS = {"manual": ("C++", "#1f6fb4"), "jax": ("JAX", "#d9822b"), "pytorch": ("PyTorch", "#7a7a7a")}
_LEFT, _WIDTH, _LINE, _TOP = 150, 560, 20, 52
_SMALLEST, _LARGEST = 1e-4, 10.0  # ratios that the axis shows
_CAPTION = "Time of functad / time of the tool; a dot for each size. Left of 1 functad is faster."


class Line:
    """One function of one eval: at each size functad's time in ms, and its ratios to the other tools."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.times: list[float] = []
        self.ratios: dict[str, list[float]] = {tool: [] for tool in TOOLS}

    def add(self, figures: Mapping[str, Mapping[str, float]]) -> None:
        ours = figures["functad"]["median"]
        self.times.append(ours)
        for tool, ratios in self.ratios.items():
            theirs = [t["median"] for row, t in figures.items() if row.split(",")[0] == tool]
            if theirs:
                ratios.append(ours / min(theirs))


def lines_of(results: Mapping[str, Any]) -> list[Line]:
    """The lines of kept results, in their order; sizes that functad has no figure of are left out."""
    found: dict[str, Line] = {}
    for name, section in results["results"].items():
        if name.startswith("gradbench ") and "functad" in section["figures"]:
            title = " ".join(section["title"].split(" ")[:2])
            found.setdefault(title, Line(title)).add(section["figures"])
    return list(found.values())


def markdown(results: Mapping[str, Any]) -> str:
    """The table: of each function the sizes, functad's shortest and longest time, its least and largest ratios."""
    titles = [title for title, _ in TOOLS.values()]
    rows = ["| eval | sizes | functad | " + " | ".join(f"/ {t}" for t in titles) + " |"]
    rows.append("| --- | ---: | ---: |" + " ---: |" * len(titles))
    for line in lines_of(results):
        cells = [_range([_ratio(x) for x in sorted(ratios)]) for ratios in line.ratios.values()]
        times = _range([f"{x:,.3g}" for x in sorted(line.times)])
        rows.append(f"| {line.name} | {len(line.times)} | {times} ms | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _ratio(x: float) -> str:
    return f"{x:.3f}" if x < 0.1 else f"{x:.2f}" if x < 10 else f"{x:,.0f}"


def _range(texts: list[str]) -> str:
    if not texts:
        return "–"
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} – {texts[-1]}"


def picture(results: Mapping[str, Any]) -> str:
    """An SVG: a dot for each size and tool, further left the smaller functad's share of the tool's time."""
    lines = lines_of(results)
    height = _TOP + _LINE * len(lines) + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_LEFT + _WIDTH + 20}" height="{height}" fill="white"/>',
        f'<text x="10" y="16">{_CAPTION}</text>',
    ]
    for k, (title, colour) in enumerate(TOOLS.values()):
        parts.append(f'<circle cx="{_LEFT + 6 + 90 * k}" cy="32" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{_LEFT + 16 + 90 * k}" y="36">{title}</text>')
    bottom = _TOP + _LINE * len(lines)
    for power in range(round(math.log10(_SMALLEST)), round(math.log10(_LARGEST)) + 1):
        x, stroke = _x(10.0**power), "#444" if power == 0 else "#ddd"
        parts.append(f'<line x1="{x}" y1="{_TOP - 6}" x2="{x}" y2="{bottom}" stroke="{stroke}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{10.0**power:g}</text>')
    for k, line in enumerate(lines):
        y = _TOP + _LINE * k + 8
        parts.append(f'<text x="10" y="{y + 4}">{escape(line.name)}</text>')
        for tool, (_, colour) in TOOLS.items():
            parts += [
                f'<circle cx="{_x(r)}" cy="{y}" r="4" fill="{colour}" fill-opacity="0.7"/>' for r in line.ratios[tool]
            ]
    return "\n".join([*parts, "</svg>", ""])


def _x(ratio: float) -> float:
    least, most = math.log10(_SMALLEST), math.log10(_LARGEST)
    share = (min(max(math.log10(ratio), least), most) - least) / (most - least)
    return round(_LEFT + share * _WIDTH, 1)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    kept = json.loads(file.read_text(encoding="utf-8"))
    file.with_name("gradbench.svg").write_text(picture(kept), encoding="utf-8")
    print(markdown(kept))
