"""Bars as SVG, each with a mark at the least that it could be.

Knows numbers and their names; not what they measure. Whatever a bar shows is written beside it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape

from functad.errors import ArgumentError
from functad.records import NamedTuple
from functad.system.cache import atomic_write
from functad.views.charts import ALONE, svg_text
from functad.views.pictures import drawing

_WIDTH, _ROW, _TOP, _FOOT = 640, 24, 34, 26
_LEFT, _RIGHT = 190, 440
_LETTERS = 26
_MOST = 40


class BarRow(NamedTuple):
    """A bar: what it is called, how long it is, where its mark stands, and what is said beside it."""

    name: str
    value: float
    floor: float
    note: str = ""


class Bars:
    """A drawing that notebooks show: a bar a row, of at most 40 rows; the last sums up what is beyond.

    Attributes:
        title: what the values are.
        unit: of the values and the floors.
        rows: name, value, floor and a note of each.

    >>> bars = Bars("kernels", "µs", [("sin_b", 3.0, 2.0, "1.5 × its floor"), ("sum_c", 1.0, 1.0)])
    >>> bars
    <Bars: sin_b 3.0 µs, floor 2.0 µs; sum_c 1.0 µs, floor 1.0 µs>
    >>> bars.svg.count('class="bar"')
    2
    """

    def __init__(self, title: str, unit: str, rows: Sequence[tuple[str, float, float, str] | tuple[str, float, float]]):
        if not rows:
            raise ArgumentError("Bars: there is nothing to draw; give at least one row")
        self.title, self.unit = title, unit
        self.rows = tuple(BarRow(*row) for row in rows)

    @property
    def svg(self) -> str:
        """One SVG document; its text is dark, or light where the reader prefers dark."""
        rows = list(self.rows)
        if len(rows) > _MOST:
            rest = rows[_MOST - 1 :]
            rows = rows[: _MOST - 1]
            rows.append(BarRow(f"{len(rest)} more", sum(r.value for r in rest), sum(r.floor for r in rest)))
        longest = max(row.value for row in rows)
        most = max(longest, min(2 * longest, max(row.floor for row in rows))) or 1.0
        height = _TOP + _ROW * len(rows) + _FOOT
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" role="img" '
            f'style="width:100%;max-width:{3 * _WIDTH // 2}px;height:auto;font:12px system-ui,sans-serif">{ALONE}',
            f"<title>{escape(self.title)}</title><desc>{escape(repr(self)[1:-1])}</desc>",
            svg_text(0, 16, self.title, 'font-weight="600" font-size="13"'),
            *(self._row(row, _TOP + _ROW * i, most) for i, row in enumerate(rows)),
            _floor_mark(_LEFT, height - _FOOT + 6),
            svg_text(_LEFT + 10, height - _FOOT + 19, "the floor: the least that the machine needs", 'opacity="0.75"'),
        ]
        return "".join([*parts, "</svg>"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the SVG document to a file."""
        with atomic_write(path) as file:
            file.write(self.svg.encode())

    def __repr__(self) -> str:
        return f"<Bars: {'; '.join(self._said(row) for row in self.rows)}>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return drawing(self.svg, repr(self)[1:-1])

    def _said(self, row: BarRow) -> str:
        return f"{row.name} {row.value:,.1f} {self.unit}, floor {row.floor:,.1f} {self.unit}"

    def _row(self, row: BarRow, y: float, most: float) -> str:
        width, floor = ((_RIGHT - _LEFT) * min(1.0, value / most) for value in (row.value, row.floor))
        name = row.name if len(row.name) <= _LETTERS else row.name[: _LETTERS - 1] + "…"
        figures = f"{row.value:,.1f} {self.unit}" + (f" · {row.note}" if row.note else "")
        bar = (
            f'<rect class="bar" x="{_LEFT}" y="{y + 4}" width="{max(width, 1):.1f}" height="{_ROW - 8}" '
            'fill="#2b7bd6" fill-opacity="0.75"/>'
        )
        return (
            f"<g><title>{escape(self._said(row))}</title>{svg_text(_LEFT - 8, y + 16, name, _END)}{bar}"
            f"{_floor_mark(_LEFT + floor, y)}{svg_text(_RIGHT + 10, y + 16, figures)}</g>"
        )


_END = 'text-anchor="end"'


def _floor_mark(x: float, y: float) -> str:
    return f'<path d="M{x:.1f} {y + 1:.1f}v{_ROW - 2}" stroke="#c8641b" stroke-width="3"/>'
