"""Kernels that visit every window: whole ones in lanes of equal work, those that reach into padding one by one.

Knows how to loop over windows; nothing of what is done with one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from functad import machine_model
from functad.primitives.loops.kernel_text import KernelText
from functad.primitives.loops.window_layout import WindowAxis, WindowLayout


class WindowWork(Protocol):
    """What is done with a window; its number is `o`."""

    def begin(self, text: KernelText, elements: int) -> None:
        """Before the windows of a row, which has so many elements of the array."""

    def whole(self, text: KernelText, offsets: Sequence[int]) -> None:
        """A window that lies in the array: its elements are at `w + offset`."""

    def start_scan(self, text: KernelText) -> None:
        """Before the elements of a window are met one by one."""

    def scan(self, text: KernelText, inside: str | None) -> None:
        """An element at `place`; if `inside` (a name) is false, it is padding and `place` any element."""

    def end_scan(self, text: KernelText) -> None: ...


class WindowRows:
    """The loops over all axes but the vectorised one: the last, or the inner elements where there are several.

    They run over planes, or with few of them also over the windows along the first axis.
    """

    def __init__(self, layout: WindowLayout, only_tiled: bool = False) -> None:
        self.layout = layout
        self.axes = layout.axes if layout.inner > 1 else layout.axes[:-1]
        first = layout.axes[0]
        self.splits_first_axis = (
            layout.planes < machine_model.FEW_ROWS
            and bool(self.axes)
            and first.windows > 1
            and (first.is_tiled or not only_tiled)
        )
        self.n = layout.planes * (first.windows if self.splits_first_axis else 1)

    @property
    def elements(self) -> int:
        """How many elements of the array belong to an index of the range."""
        return self.layout.plane_size * self.layout.planes // self.n

    @property
    def owns_elements(self) -> bool:
        """Whether each index of the range meets only its own elements of the array."""
        return not self.splits_first_axis or self.layout.axes[0].is_tiled

    @contextmanager
    def loop(self, text: KernelText) -> Iterator[None]:
        """One index `r` of the range: plane `p`."""
        with text.block("for r in range(start, stop):"):
            count = self.layout.axes[0].windows
            if not self.splits_first_axis:
                text.line("p = r")
            elif self.layout.planes == 1:
                text.line("p = i64(0)", "i0 = r")
            else:
                text.line(f"p = r // {count}", f"i0 = r % {count}")
            yield

    @contextmanager
    def loop_axes(self, text: KernelText) -> Iterator[None]:
        """The windows `i0`, `i1`, … along the axes that are not vectorised."""
        skipped = 1 if self.splits_first_axis else 0
        headers = [f"for i{a} in range({axis.windows}):" for a, axis in enumerate(self.axes)]
        with text.block(*headers[skipped:]):
            yield

    def first_window(self) -> str:
        """The number of the first window of a row."""
        steps = self.layout.count_steps
        return sum_text(
            product_text("p", self.layout.plane_count),
            *[product_text(f"i{a}", steps[a]) for a in range(len(self.axes))],
        )


def over_windows(
    target: Any,
    name: str,
    layout: WindowLayout,
    work: WindowWork,
    buffers: dict[str, tuple[Any, str]],
    *,
    only_tiled: bool = False,
    vectorised: bool = True,
    unrolled: bool = False,
) -> None:
    """A kernel that does `work` for each window.

    only_tiled: cut the range along windows only where they do not share elements.
    vectorised: also do many windows at once.
    unrolled: leave it to LLVM to unroll those, which is good for work without comparisons.
    """
    rows = WindowRows(layout, only_tiled)
    lanes = _Lanes(layout, max(b.dtype.itemsize for b, _ in buffers.values())) if vectorised else None
    text = KernelText()
    if lanes and lanes.length and lanes.lanes > 1:
        text.line(f"lanes = {lanes.lanes}" if unrolled else opaque("lanes", lanes.lanes))
    with rows.loop(text):
        work.begin(text, rows.elements)
        with rows.loop_axes(text):
            text.line(f"o0 = {rows.first_window()}")
            _row(text, rows, lanes, work)
    moved = sum(b.size * b.dtype.itemsize for b, _ in buffers.values())
    windows = math.prod(layout.counts)
    target.kernel(
        name,
        str(text),
        buffers,
        rows.n,
        flops=2 * windows * layout.window_size,
        bytes=moved,
        rows=True,
        row_reads=tuple(k for k, (_, mode) in buffers.items() if mode == "r") if rows.owns_elements else (),
    )


def opaque(name: str, number: int) -> str:
    """Assign a number so that LLVM vectorises loops of that length: those of a known one it would unroll first.

    A range ends far below 2^38, but LLVM does not know. What it sees of the number is that it is a multiple, and that
    it may reach 16: loops that cannot it leaves alone.
    """
    return f"{name} = {number} << ((stop >> 38) & {1 if number >= 8 else 3})"


class _Lanes:
    """How the whole windows of a row are cut into vectors: of equal length, the last two may share windows."""

    def __init__(self, layout: WindowLayout, itemsize: int) -> None:
        axis = layout.axes[-1]
        has_whole = all(a.interior != (0, 0) for a in layout.axes)
        self.first, self.last = (0, layout.inner) if layout.inner > 1 else axis.interior
        self.length = self.last - self.first if has_whole else 0
        self.step = 1 if layout.inner > 1 else axis.stride
        self.low = 0 if layout.inner > 1 else axis.low
        self.lanes = 1
        while self.lanes * 2 <= self.length and self.lanes * 2 <= machine_model.VECTOR_BYTES // itemsize:
            self.lanes *= 2

    @contextmanager
    def loop(self, text: KernelText) -> Iterator[None]:
        """Each whole window `j` of the row."""
        if self.lanes == 1:
            with text.block(f"for j in range({self.first}, {self.last}):"):
                yield
            return
        blocks = -(-self.length // self.lanes)
        if blocks == 1:
            first = str(self.first)
        elif self.length % self.lanes == 0:
            first = sum_text(f"{self.lanes} * block", self.first)
        else:
            first = sum_text(f"minimum({self.lanes} * block, {self.length - self.lanes})", self.first)
        with text.block(*[f"for block in range({blocks}):"] * (blocks > 1)):
            text.line(f"j0 = i64({first})")
            with text.block("for j in range(j0, j0 + lanes):"):
                yield


def _row(text: KernelText, rows: WindowRows, lanes: _Lanes | None, work: WindowWork) -> None:
    layout = rows.layout
    if not lanes or not lanes.length:
        _scan_windows(text, rows, "0", str(_row_length(layout)), 0, work)
        return
    reaching = {a: axis.interior for a, axis in enumerate(rows.axes) if not axis.is_interior}
    tests = [test for a, (lo, hi) in reaching.items() for test in (f"(i{a} >= {lo})", f"(i{a} < {hi})")]
    if tests:
        text.line(f"whole = {' & '.join(tests)}")
    steps = layout.steps
    lows = sum(axis.low * step for axis, step in zip(layout.axes, steps, strict=True))
    first = sum_text(
        product_text("p", layout.plane_size),
        *[product_text(f"i{a}", axis.stride * steps[a]) for a, axis in enumerate(rows.axes)],
        -lows,
    )
    with text.block(*["if whole:"] * bool(tests)):
        text.line(f"w0 = {first}")
        with lanes.loop(text):
            text.line(f"w = w0 + {product_text('j', lanes.step)}", "o = o0 + j")
            work.whole(text, layout.offsets())
    length, done = _row_length(layout), lanes.last - lanes.first
    if tests:
        text.line(f"edge = where(whole, i64({lanes.first}), i64({length}))")
        text.line(f"rest = where(whole, i64({length - done}), i64({length}))")
        _scan_windows(text, rows, "edge", "rest", done, work)
    elif done < length:
        _scan_windows(text, rows, str(lanes.first), str(length - done), done, work)


def _row_length(layout: WindowLayout) -> int:
    return layout.inner if layout.inner > 1 else layout.axes[-1].windows


def _scan_windows(text: KernelText, rows: WindowRows, edge: str, rest: str, skipped: int, work: WindowWork) -> None:
    """Element by element: the windows of a row but those `skipped` after the first `edge`."""
    layout = rows.layout
    with text.block(f"for e in range({rest}):"):
        text.line(f"j = where(e < {edge}, e, e + {skipped})" if skipped else "j = e", "o = o0 + j")
        names = [f"i{a}" for a in range(len(layout.axes))]
        if layout.inner == 1:
            names[-1] = "j"
        scan_window(text, layout, work, names, product_text("r", rows.elements))


def scan_window(text: KernelText, layout: WindowLayout, work: WindowWork, names: Sequence[str], any_place: str) -> None:
    """The elements of one window, whose numbers along the axes have these names; `any_place` is that of an element."""
    work.start_scan(text)
    tests: list[str] = []
    headers: list[str] = []
    place = product_text("p", layout.plane_size)
    for a, (axis, step, i) in enumerate(zip(layout.axes, layout.steps, names, strict=True)):
        headers.append(f"for k{a} in range({axis.window}):" if axis.window > 1 else "")
        headers += position(axis, a, i, "0")
        tests += inside_tests(axis, a)
        place = sum_text(place, product_text(f"y{a} // {axis.base}" if axis.base > 1 else f"y{a}", step))
    if layout.inner > 1:
        place = sum_text(place, "j")
    depth = text.depth
    for header in headers:
        if header.endswith(":"):
            text.open(header)
        elif header:
            text.line(header)
    if tests:
        text.line(f"inside = {' & '.join(tests)}", f"place = where(inside, {place}, {any_place})")
    else:
        text.line(f"place = {place}")
    work.scan(text, "inside" if tests else None)
    text.close(depth)
    work.end_scan(text)


def position(axis: WindowAxis, a: int, i: str, k: str) -> list[str]:
    """Lines that set `y{a}`, the position of tap `k{a}` (or `k`) of window `i`, holes counted."""
    tap = f"k{a}" if axis.window > 1 else k
    terms = [product_text(i, axis.stride), product_text(tap, axis.dilation) if tap != "0" else 0, -axis.low]
    return [f"y{a} = {sum_text(*terms)}"]


def inside_tests(axis: WindowAxis, a: int) -> list[str]:
    """Whether the position `y{a}` holds an element of the array."""
    tests = []
    if not axis.is_interior:
        tests = [f"(y{a} >= 0)", f"(y{a} < {(axis.size - 1) * axis.base + 1})"]
    if axis.base > 1:
        tests.append(f"(y{a} % {axis.base} == 0)")
    return tests


def product_text(name: str, factor: int) -> str:
    """The text of `name * factor`."""
    if factor == 1:
        return name
    return f"{factor} * ({name})" if " " in name else f"{factor} * {name}"


def sum_text(*terms: str | int) -> str:
    """The text of a sum; numbers that are 0 are left out."""
    text = ""
    for term in terms:
        if term == 0:
            continue
        if isinstance(term, int) and term < 0:
            text += f" - {-term}" if text else str(term)
        else:
            text += f" + {term}" if text else str(term)
    return text or "0"
