"""Prints a loop nest as the text of one Python function on flat pointers.

Knows the forms that LLVM turns into fast code; nothing of Programs, of memory or of Numba.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from functad import machine_model
from functad.backends.cpu.kernels.tile import tiled
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine, Symbol
from functad.lowering.nests.nest import POST, PRE, IndexLet, Let, Load, Nest, Statement, Store, names_of
from functad.lowering.nests.printing import combined, identity, parameters
from functad.lowering.nests.reductions import by_keys, interchanged, unrolled


@dataclass(frozen=True)
class CpuKernel:
    """The text of a kernel below its name, and what it runs over.

    parameters: (name, buffer, "r" | "w" | "rw"). n: the extent of the parallel range. row: how many elements of each
    buffer belong to one step of the range, or None where that is not one contiguous piece. constants: the numbers that
    it is given, by name. offsets: of each parameter, how many elements behind the start of its buffer it begins.
    """

    body: str
    parameters: tuple[tuple[str, Buffer, str], ...]
    n: int
    rows: dict[Storage, int | None]
    constants: Mapping[str, np.generic] = field(default_factory=dict)
    offsets: tuple[int, ...] = ()


def emit(nest: Nest) -> CpuKernel:
    """The kernel of a nest whose loops have been merged."""
    return _Emitter(interchanged(tiled(unrolled(by_keys(nest))))).kernel()


class _Emitter:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.lines: list[str] = []
        self.parameters = parameters(nest)
        self.first = first_elements(nest)
        self.depth_of: dict[str, int] = {}  # of every name: how many loops it lies in
        self.outer = [s for s, r in zip(nest.loops, nest.reduced) if not r]
        self.inner = [s for s, r in zip(nest.loops, nest.reduced) if r]

    def kernel(self) -> CpuKernel:
        by_columns = bool(self.inner) and bool(self.outer) and self.nest.loops[-1] is self.outer[-1]
        by_columns = by_columns and not self._has_few_columns()
        if by_columns and all(a.dtype.kind in "iufbc" and a.dtype != np.float16 for a in self.nest.accumulators):
            n, first = self._columns()
        else:
            n, first = self._rows()
        body = "\n".join(self.lines) + "\n"
        offsets = tuple(self.first[storage] for storage in self.parameters)
        return CpuKernel(
            body, tuple(self.parameters.values()), n, self._row_sizes(first), self.nest.used_constants(), offsets
        )

    def _has_few_columns(self) -> bool:
        """Whether the loops behind the reduced ones are too short for a vector."""
        last = max(d for d, r in enumerate(self.nest.reduced) if r)
        return math.prod(s.extent for s in self.nest.loops[last + 1 :]) < machine_model.FEWEST_COLUMNS

    # --- forms -------------------------------------------------------------------------------------------

    def _rows(self) -> tuple[int, Symbol | None]:
        """Outer loops, within them accumulators, the reduction loops, and what follows from their results."""
        loops = [*self.outer, *self.inner]
        self._place(loops)
        base = len(self.outer)
        for depth, symbol in enumerate(self.outer):
            self._open(symbol, depth, parallel=depth == 0)
            self._statements(depth + 1, depth + 1)
        if not self.outer:
            self._statements(0, 0)
        if self.inner or self.nest.accumulators:
            for a in self.nest.accumulators:
                self._line(base, f"{a.name} = {identity(a)}")
            for depth, symbol in enumerate(self.inner, base):
                self._open(symbol, depth)
                self._statements(depth + 1, depth + 1)
            depth = len(loops)
            self._stores(PRE, depth)
            for a in self.nest.accumulators:
                self._line(depth, f"{a.name} = {combined(a, a.name, a.value)}")
            for s in self.nest.statements:
                if s.level == POST:
                    self._line(base, self._text(s))
            self._stores(POST, base)
        else:
            self._stores(PRE, base)
        return (self.outer[0].extent if self.outer else 1), (self.outer[0] if self.outer else None)

    def _columns(self) -> tuple[int, Symbol | None]:
        """Accumulators in memory: trailing loops run within the reduction loops, along contiguous elements."""
        last = max(d for d, r in enumerate(self.nest.reduced) if r)
        trailing = self.nest.loops[last + 1 :]
        leading = [s for s in self.outer if s not in trailing]
        stores = {s.value: s for s in self.nest.stores if s.level == POST}
        at = len(leading)
        for depth, symbol in enumerate(leading):
            self._open(symbol, depth, parallel=depth == 0)
        for depth, symbol in enumerate(trailing, at):
            self._open(symbol, depth, parallel=depth == 0)
        for a in self.nest.accumulators:
            self._line(at + len(trailing), f"{self._element(stores[a.name])} = {identity(a)}")
        loops = [*leading, *self.inner, *trailing]
        self._place(loops)
        for depth in range(at + 1):
            self._statements(depth, at)
        for depth, symbol in enumerate([*self.inner, *trailing], at):
            self._open(symbol, depth, parallel=depth == len(self.inner) and not leading)
            self._statements(depth + 1, depth + 1)
        self._stores(PRE, len(loops))
        for a in self.nest.accumulators:
            element = self._element(stores[a.name])
            self._line(len(loops), f"{element} = {combined(a, element, a.value)}")
        first = leading[0] if leading else trailing[0]
        return first.extent, first

    # --- lines -------------------------------------------------------------------------------------------

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _open(self, symbol: Symbol, depth: int, parallel: bool = False) -> None:
        bounds = "start, stop" if parallel else str(symbol.extent)
        self._line(depth, f"for {symbol.name} in range({bounds}):")

    def _place(self, loops: list[Symbol]) -> None:
        """For every name the number of loops it must lie in."""
        self.loops_before = {s: d + 1 for d, s in enumerate(loops)}
        for s in self.nest.statements:
            depth = self._depth(s)
            for name in names_of(s):
                self.depth_of[name] = depth

    def _depth(self, s: Statement) -> int:
        if isinstance(s, Let):
            return max((self.depth_of.get(name, 0) for name in s.operands), default=0)
        value = s.offset if isinstance(s, Load) else s.value
        return max((self._depth_of_symbol(x) for x in value.symbols()), default=0)

    def _depth_of_symbol(self, symbol: Symbol) -> int:
        if symbol in self.loops_before:
            return self.loops_before[symbol]
        return self.depth_of.get(symbol.name, 0)

    def _statements(self, depth: int, at: int) -> None:
        """Print the statements before the reduction's end that lie in exactly `depth` loops."""
        for s in self.nest.statements:
            if s.level == PRE and self._printed_depth(s) == depth:
                self._line(at, self._text(s))

    def _printed_depth(self, s: Statement) -> int:
        depth = self._depth(s)
        return 1 if depth == 0 and self.outer else depth  # constants, too, lie inside of the parallel loop

    def _text(self, s: Statement) -> str:
        if isinstance(s, Let):
            return f"{', '.join(s.names)} = {s.text}"
        if isinstance(s, IndexLet):
            return f"{s.name} = {s.value.text()}"
        return f"{s.name} = {self._element(s)}"

    def _element(self, access: Load | Store) -> str:
        storage = access.buffer.storage
        return f"{self.parameters[storage][0]}[{(access.offset - self.first[storage]).text()}]"

    def _stores(self, level: int, depth: int) -> None:
        for store in self.nest.stores:
            if store.level == level:
                self._line(depth, f"{self._element(store)} = {store.value}")

    # --- which part of each buffer a step of the range touches ---------------------------------------------

    def _row_sizes(self, first: Symbol | None) -> dict[Storage, int | None]:
        sizes: dict[Storage, int | None] = {}
        accesses = [(s.buffer, s.offset) for s in self.nest.statements if isinstance(s, Load)]
        accesses += [(s.buffer, s.offset) for s in self.nest.stores]
        for buffer, offset in accesses:
            size = _row_size(offset, first)
            known = sizes.get(buffer.storage, size)
            sizes[buffer.storage] = size if known == size else None
        return sizes


def first_elements(nest: Nest) -> dict[Storage, int]:
    """The least position at which each storage may be accessed: kernels of several slices of an array have one text."""
    first: dict[Storage, int] = {}
    for buffer, offset, _ in nest.accesses():
        first[buffer.storage] = min(first.get(buffer.storage, offset.low), offset.low)
    return {storage: max(low, 0) for storage, low in first.items()}


def _row_size(offset: Affine, first: Symbol | None) -> int | None:
    """The number of elements by which an access moves with the range, if it stays within that many."""
    if first is None:
        return None
    step = offset.coefficient(first)
    rest = offset - Affine(0, [(first, step)]) if step else offset
    if step <= 0 or first in rest.symbols() or rest.low < 0 or rest.high >= step:
        return None
    return step
