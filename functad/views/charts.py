"""Curves as SVG, for pages and notebooks.

Knows numbers and their names; not what they measure. Series differ in their marks and dashes, not by colour alone.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from functad.errors import ArgumentError
from functad.records import NamedTuple
from functad.system.cache import atomic_write
from functad.views.pictures import drawing

_WIDTH, _HEIGHT = 360, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 344, 52, 196
# Tones in the middle, which stand out from white and from black.
_COLOURS = ("#2b7bd6", "#c8641b", "#2f8f5b", "#9a5fc4")
_DASHES = ("", "5 3", "2 3", "9 3 2 3")
# Text takes the colour of the page around. A file of its own has none around it, and brings its ground, too: where it
# is an image in a page, that may be dark though the reader prefers light.
ALONE = (
    "<style>svg:root{color:#1c1f24;background:#fff}"
    "@media(prefers-color-scheme:dark){svg:root{color:#e8e6e1;background:#17191d}}</style>"
)


class Panel(NamedTuple):
    """Curves over one axis.

    Attributes:
        title: what the values are.
        across: what the places are, such as "epoch".
        places: where the values lie, rising.
        series: name → a value for each place; those that are not finite are left out.
        marked: a place to mark, and what to call it.
    """

    title: str
    across: str
    places: Sequence[float]
    series: Mapping[str, Sequence[float]]
    marked: tuple[float, str] | None = None


class Chart:
    """A drawing that notebooks show: panels of curves, which stand side by side where there is room.

    Attributes:
        panels: what is drawn.
        columns: how many panels stand in a row of `svg`; None for all of them.

    >>> chart = Chart([Panel("loss", "epoch", [1, 2], {"train": [0.7, 0.5], "test": [0.9, 0.8]})])
    >>> chart
    <Chart of loss by epoch: train 0.7 to 0.5, test 0.9 to 0.8>
    >>> chart.svg[:4], chart.svg.count("<polyline")
    ('<svg', 2)
    """

    def __init__(self, panels: Sequence[Panel], columns: int | None = None) -> None:
        if not panels:
            raise ArgumentError("Chart: there is nothing to draw; give at least one panel")
        self.panels, self.columns = tuple(panels), columns

    @property
    def svg(self) -> str:
        """One SVG document, rows of `columns` panels; its text is dark, or light where the reader prefers dark."""
        columns = min(self.columns or len(self.panels), len(self.panels))
        width, height = _WIDTH * columns, _HEIGHT * -(-len(self.panels) // columns)
        places = (f'x="{i % columns * _WIDTH}" y="{i // columns * _HEIGHT}" ' for i in range(len(self.panels)))
        inside = "".join(map(_panel, self.panels, places))
        size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{ALONE}{inside}</svg>'

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the SVG document to a file."""
        with atomic_write(path) as file:
            file.write(self.svg.encode())

    def __repr__(self) -> str:
        return f"<Chart of {'; '.join(_described(panel) for panel in self.panels)}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return drawing(self.svg, repr(self)[1:-1])

    def html(self) -> str:
        """The panels as a part of a page, in its colours, side by side where there is room."""
        style = "flex:1 1 18em;max-width:32em;min-width:0"
        panels = "".join(f'<div style="{style}">{_panel(panel)}</div>' for panel in self.panels)
        return f'<div style="display:flex;flex-wrap:wrap;gap:1em">{panels}</div>'


def _described(panel: Panel) -> str:
    """A panel in words, for those who do not see it."""
    parts = []
    for name, values in panel.series.items():
        first, last = values[0], values[-1]
        parts.append(f"{name} {first:.4g}" + (f" to {last:.4g}" if len(values) > 1 else ""))
    return f"{panel.title} by {panel.across}: {', '.join(parts)}"


def _panel(panel: Panel, place: str = "") -> str:
    xs = np.asarray(panel.places, float)
    series = {name: np.asarray(values, float) for name, values in panel.series.items()}
    known = np.concatenate(list(series.values()))
    known = known[np.isfinite(known)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    across = _Scale(xs[0], xs[-1], _LEFT + 8, _RIGHT - 8, whole=True)
    up = _Scale(low - margin, high + margin, _BOTTOM, _TOP)
    parts = [
        f'<svg {place}viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'style="width:100%;height:auto;font:12px system-ui,sans-serif" width="{_WIDTH}" height="{_HEIGHT}">',
        f"<title>{escape(panel.title)}</title><desc>{escape(_described(panel))}</desc>",
        svg_text(_LEFT, 16, panel.title, 'font-weight="600" font-size="13"'),
        *(_rule(up, tick) for tick in up.ticks()),
        *(svg_text(across(tick), _BOTTOM + 18, f"{tick:g}", _MIDDLE) for tick in across.ticks()),
        svg_text((_LEFT + _RIGHT) / 2, _BOTTOM + 36, panel.across, f'{_MIDDLE} opacity="0.75"'),
    ]
    if panel.marked is not None:
        parts.append(_mark(across(panel.marked[0]), panel.marked[1]))
    legend = _LEFT
    for i, (name, values) in enumerate(series.items()):
        parts.append(_curve(xs, values, i, across, up, panel.across, name))
        parts.append(_legend(legend, i, name))
        legend += 44 + 7 * len(name)
    if not len(known):
        parts.append(svg_text((_LEFT + _RIGHT) / 2, (_TOP + _BOTTOM) / 2, "no finite values", _MIDDLE))
    return "".join([*parts, "</svg>"])


class _Scale:
    """From values to places of the drawing. whole: ticks lie at whole numbers."""

    def __init__(self, low: float, high: float, start: float, end: float, whole: bool = False) -> None:
        self.low, self.high, self.start, self.end, self.whole = low, high, start, end, whole

    def __call__(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """About five round numbers."""
        span = self.high - self.low
        if span == 0:
            return [self.low]
        rough = span / 5
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
        if self.whole:
            step = max(1.0, round(step))
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


_MIDDLE = 'text-anchor="middle"'


def _rule(up: _Scale, tick: float) -> str:
    y = up(tick)
    line = f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" opacity="0.18"/>'
    return line + svg_text(_LEFT - 6, y + 4, f"{tick:.6g}", 'text-anchor="end"')


def _mark(x: float, name: str) -> str:
    line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_BOTTOM}" stroke="currentColor" stroke-dasharray="1 3"/>'
    return line + svg_text(
        min(max(x, _LEFT + 20), _RIGHT - 20), _TOP - 2, name, f'{_MIDDLE} opacity="0.75" font-size="11"'
    )


def _curve(xs: np.ndarray, values: np.ndarray, i: int, across: _Scale, up: _Scale, axis: str, name: str) -> str:
    """A line between neighbours that are finite, and a mark at each value, or at some of many."""
    parts, run = [], []
    for x, value in [*zip(xs, values), (0.0, np.nan)]:
        if np.isfinite(value):
            run.append(f"{across(x):.1f},{up(value):.1f}")
            continue
        if len(run) > 1:
            parts.append(f'<polyline points="{" ".join(run)}" fill="none" {_stroke(i)}/>')
        run = []
    every = -(-len(xs) // 30)
    for x, value in list(zip(xs, values))[::every]:
        if np.isfinite(value):
            label = escape(f"{name}, {axis} {x:g}: {value:.4g}")
            parts.append(f"<g><title>{label}</title>{_marker(across(x), up(value), i)}</g>")
    return "".join(parts)


def _legend(x: float, i: int, name: str) -> str:
    line = f'<line x1="{x}" x2="{x + 26}" y1="30" y2="30" {_stroke(i)}/>'
    return line + _marker(x + 13, 30, i) + svg_text(x + 31, 34, name)


def _stroke(i: int) -> str:
    dashes = f' stroke-dasharray="{_DASHES[i % 4]}"' if i % 4 else ""
    return f'stroke="{_COLOURS[i % 4]}" stroke-width="2"{dashes}'


def _marker(x: float, y: float, i: int) -> str:
    """A disc, a square, a triangle, a diamond."""
    shapes = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"',
        f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7"',
        f'<path d="M{x:.1f} {y - 4.5:.1f}l4.5 8h-9z"',
        f'<path d="M{x:.1f} {y - 5:.1f}l5 5-5 5-5-5z"',
    )
    return f'{shapes[i % 4]} fill="{_COLOURS[i % 4]}"/>'


def svg_text(x: float, y: float, text: str, attributes: str = "") -> str:
    """A text of a drawing, from that place on."""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="currentColor" {attributes}>{escape(text)}</text>'
