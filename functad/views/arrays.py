"""How an array looks: its type, range, NaNs and infinities in words, and its elements as a picture.

Knows values; not where they come from. Of large arrays some elements are looked at, and that is said.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from functad.array import ArrayImpl, DonatedArray, KeyArray
from functad.dtypes import kind_of, short_name
from functad.records import NamedTuple
from functad.views.pictures import coloured_png, image_of

_LOOKED_AT = 1 << 20  # elements: a few ms
_ROWS, _COLUMNS = 96, 192  # of a picture
_TILES = 16
_LOWEST = 24  # CSS pixels, of a picture of few rows
_NUMBERS = 12  # rows and columns up to which the numbers stand in the picture


class ArraySummary(NamedTuple):
    """What there is to say of an array's elements.

    Attributes:
        kind: the type, such as f32[3,4].
        low, high: the least and the greatest finite element looked at, of complex numbers the magnitudes; None if
            there is none.
        nans, infs: how many of those looked at are NaN or infinite.
        first_nan: the index of the first NaN.
        every: which elements were looked at: each, or every so many.
    """

    kind: str
    low: float | None
    high: float | None
    nans: int
    infs: int
    first_nan: tuple[int, ...] | None
    every: int

    def __str__(self) -> str:
        parts = [self.kind]
        if self.low is not None and self.high is not None:
            all_or_one = "" if self.kind.endswith("[]") else "all "
            same = self.low == self.high
            parts.append(f"{all_or_one}{self.low:.4g}" if same else f"{self.low:.4g} to {self.high:.4g}")
        if self.nans:
            parts.append(f"{self.nans:,} NaN, the first at {list(self.first_nan or ())}")
        if self.infs:
            parts.append(f"{self.infs:,} infinite")
        if self.every > 1:
            parts.append(f"1 element in {self.every:,} looked at")
        return " · ".join(parts)


def summary_of(array: Any) -> ArraySummary:
    """Range, NaNs and infinities of an array.

    >>> print(summary_of(np.array([[1., np.nan], [-2., np.inf]], np.float32)))
    f32[2,2] · -2 to 1 · 1 NaN, the first at [0, 1] · 1 infinite
    """
    value = _value(array)
    kind = f"{short_name(value.dtype)}[{','.join(map(str, value.shape))}]"
    every = -(-value.size // _LOOKED_AT) or 1
    seen = _real(value.reshape(-1)[::every] if value.flags.c_contiguous else value.flat[::every])
    if seen is None or not seen.size:
        return ArraySummary(kind, None, None, 0, 0, None, every)
    low, high = seen.min(), seen.max()
    if np.isfinite(low) and np.isfinite(high):
        return ArraySummary(kind, float(low), float(high), 0, 0, None, every)
    finite, nan = np.isfinite(seen), np.isnan(seen)
    nans = int(nan.sum())
    first = tuple(map(int, np.unravel_index(int(nan.argmax()) * every, value.shape))) if nans else None
    infs = int(seen.size - finite.sum()) - nans
    known = seen[finite]
    if not known.size:
        return ArraySummary(kind, None, None, nans, infs, first, every)
    return ArraySummary(kind, float(known.min()), float(known.max()), nans, infs, first, every)


def array_html(array: Any) -> str:
    """What a notebook shows of an array: a line of words, a heat map or a table of numbers, and the elements as text.

    >>> import functad.numpy as jnp
    >>> html = jnp.arange(6.).reshape(2, 3)._repr_html_()
    >>> "f32[2,3] · 0 to 5" in html, html.count("<td")
    (True, 6)
    """
    if isinstance(array, (KeyArray, DonatedArray)):
        return _as_text(array)
    value = _value(array)
    if not _has_picture(value):
        return _as_text(array)
    weak = " · weak type" if isinstance(array, ArrayImpl) and array.weak_type else ""
    summary = summary_of(array)
    words = f"{summary} · {value.nbytes:,} bytes{weak}"
    return (
        f'<div><p style="margin:0 0 .4em;font:13px system-ui,sans-serif">{escape(words)}</p>{picture(array, summary)}'
        '<details style="font:13px system-ui,sans-serif;margin-top:.3em"><summary>as text</summary>'
        f"{_as_text(array)}</details></div>"
    )


def _as_text(array: Any) -> str:
    # Jupyter sets what stands in HTML in the letters of its texts, <pre>, too.
    return f'<pre style="font-family:monospace">{escape(repr(array))}</pre>'


def picture(array: Any, summary: ArraySummary, rows: int = _ROWS, columns: int = _COLUMNS) -> str:
    """The elements as HTML: numbers on shaded cells if they are few, else a heat map with its scale."""
    value = _value(array)
    if not _has_picture(value):
        return ""
    if not value.size:
        return '<p style="margin:0;font:13px system-ui,sans-serif">no elements</p>'
    if value.ndim <= 2 and max(value.shape, default=1) <= _NUMBERS:
        return _table(value.reshape(1, -1) if value.ndim < 2 else value, summary)
    grid, every = _grid(value, rows, columns)
    scale = max(1, min(14, 260 // grid.shape[1], 200 // grid.shape[0]))
    height = max(grid.shape[0] * scale, grid.shape[0] * (_LOWEST // grid.shape[0]))
    ends = _ends(summary)
    levels = _levels(grid, *ends)
    description = f"heat map of {summary}"
    # As many pixels as are shown, for viewers that take out styles, which would blur larger ones.
    pixels = levels.repeat(height // grid.shape[0], axis=0).repeat(scale, axis=1)
    file = coloured_png(pixels, _palette(ends[0] < 0 < ends[1]))
    shown = image_of(file, description, grid.shape[1] * scale, height)
    return f'<div style="line-height:1.2">{shown}{_scale_bar(summary, ends, every)}</div>'


def sketch(array: Any, rows: int = 6, columns: int = 48) -> list[str]:
    """The elements as lines of text: the darker, the greater; `!` is NaN, and ∞ infinite.

    >>> sketch(np.arange(10.))
    ['▏  ░░▒▒▓▓██▕']
    """
    value = _value(array)
    if not _has_picture(value) or not value.size:
        return []
    grid, _ = _grid(value.reshape(-1, value.shape[-1]), rows, columns)
    low, high = _ends(summary_of(value), symmetric=False)
    with np.errstate(all="ignore"):
        share = np.nan_to_num(np.clip((grid - low) / ((high - low) or 1.0), 0, 1), nan=0.0)
    letters = np.array(list(" ░▒▓█"))[np.rint(4 * share).astype(int)]
    letters[np.isinf(grid)] = "∞"
    letters[np.isnan(grid)] = "!"
    return [f"▏{''.join(line)}▕" for line in letters]


# --- elements -----------------------------------------------------------------------------------------


def _value(array: Any) -> np.ndarray:
    return array._value if isinstance(array, ArrayImpl) else np.asarray(array)


def _real(values: np.ndarray) -> np.ndarray | None:
    """The elements as real numbers, of complex ones the magnitudes; None of what is no number."""
    kind = kind_of(values.dtype)
    if kind == "c":
        magnitudes: np.ndarray = np.abs(values)
        return magnitudes
    if kind == "f":
        return values if values.dtype.itemsize >= 4 else values.astype(np.float32)
    return values.astype(np.float64) if kind in "iub" and values.dtype.itemsize else None


def _has_picture(value: np.ndarray) -> bool:
    """Whether there are numbers, in rows at least."""
    return value.ndim > 0 and _real(value[:0]) is not None


def _grid(value: np.ndarray, rows: int, columns: int) -> tuple[np.ndarray, int]:
    """Some of the elements in rows and columns, as float64, and which: each, or every so many."""
    if value.ndim < 2:
        value = value.reshape(1, -1)
    if value.ndim > 2:
        return _tiles(value, rows, columns)
    down, right = (-(-n // most) for n, most in zip(value.shape, (rows, columns)))
    found = _real(value[::down, ::right])
    assert found is not None
    return found.astype(np.float64), max(down, right)


def _tiles(value: np.ndarray, rows: int, columns: int) -> tuple[np.ndarray, int]:
    """Matrices of the last two axes side by side; a short last axis is taken for channels, as in pictures."""
    if value.shape[-1] <= 4 < value.shape[-2]:
        value = np.moveaxis(value, -1, 0)
    tiles = value.reshape(-1, *value.shape[-2:])
    height, width = tiles.shape[1:]
    count = min(len(tiles), _TILES)
    across = max(1, min(count, round((1.6 * count * (height + 1) / (width + 1)) ** 0.5)))
    most = max(1, columns // across - 1)
    down, right = -(-height // max(1, rows // -(-count // across) - 1)), -(-width // most)
    every = max(down, right)
    small = [_real(tile[::every, ::every]) for tile in tiles[:count]]
    assert small[0] is not None
    h, w = small[0].shape
    lines = -(-count // across)
    grid = np.full((lines * (h + 1) - 1, across * (w + 1) - 1), _BETWEEN)
    for i, tile in enumerate(small):
        top, left = i // across * (h + 1), i % across * (w + 1)
        grid[top : top + h, left : left + w] = tile
    return grid, every if count == len(tiles) else -(-len(tiles) // count) * every


# --- colours ------------------------------------------------------------------------------------------

_BETWEEN = np.finfo(np.float64).min  # what stands between tiles, where no element lies
_NAN, _NOTHING = 254, 255
_RISING = ((0.0, 38, 32, 84), (0.35, 36, 104, 150), (0.65, 62, 166, 126), (1.0, 246, 226, 92))
_AROUND = ((0.0, 22, 72, 150), (0.25, 84, 148, 214), (0.5, 238, 236, 230), (0.75, 226, 140, 62), (1.0, 140, 56, 8))


def _palette(around_zero: bool) -> np.ndarray:
    """254 colours from low to high, one for NaN, and none."""
    stops = np.array(_AROUND if around_zero else _RISING)
    places = np.linspace(0, 1, _NAN)
    palette = np.full((256, 4), 255, np.uint8)
    for k in range(3):
        palette[:_NAN, k] = np.rint(np.interp(places, stops[:, 0], stops[:, 1 + k]))
    palette[_NAN] = (224, 0, 122, 255)
    palette[_NOTHING] = 0
    return palette


def _ends(summary: ArraySummary, symmetric: bool = True) -> tuple[float, float]:
    """The numbers at the ends of the scale; zero in the middle where there are both signs."""
    low, high = summary.low or 0.0, summary.high or 0.0
    if symmetric and low < 0 < high:
        high = max(-low, high)
        low = -high
    return low, high


def _levels(grid: np.ndarray, low: float, high: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        share = np.nan_to_num(np.clip((grid - low) / ((high - low) or 1.0), 0, 1), nan=0.0)
    levels = np.rint(share * (_NAN - 1)).astype(np.uint8)
    levels[np.isnan(grid)] = _NAN
    levels[grid == _BETWEEN] = _NOTHING
    return levels


def _scale_bar(summary: ArraySummary, ends: tuple[float, float], every: int) -> str:
    file = coloured_png(np.arange(_NAN, dtype=np.uint8)[None, ::4], _palette(ends[0] < 0 < ends[1]))
    bar = image_of(file, "scale", 96, 8).replace('style="', 'style="display:inline-block;vertical-align:middle;')
    parts = [f"{ends[0]:.4g} {bar} {ends[1]:.4g}"]
    if summary.nans:
        parts.append('<span style="color:#e0007a">■</span> NaN')
    if every > 1:
        parts.append(f"1 in {every:,} shown")
    return f'<p style="margin:.3em 0 0;font:12px system-ui,sans-serif">{" · ".join(parts)}</p>'


def _table(value: np.ndarray, summary: ArraySummary) -> str:
    largest = max(abs(summary.low or 0.0), abs(summary.high or 0.0)) or 1.0
    magnitudes = _real(value)
    assert magnitudes is not None
    rows = []
    for line, sizes in zip(value, magnitudes):
        cells = []
        for element, size in zip(line, sizes):
            tone = "200,100,27" if size > 0 else "43,123,214"
            share = 0.55 * min(1.0, abs(float(size)) / largest) if np.isfinite(size) else 0.0
            cells.append(
                f'<td style="background:rgba({tone},{share:.2f});padding:2px 8px;text-align:right">'
                f"{escape(_figure(element))}</td>"
            )
        rows.append(f"<tr>{''.join(cells)}</tr>")
    style = "border-collapse:collapse;font:12px ui-monospace,monospace;margin:0"
    return f'<table style="{style}">{"".join(rows)}</table>'


def _figure(element: Any) -> str:
    return f"{element:.4g}" if kind_of(element.dtype) in "fc" else str(element.item())
