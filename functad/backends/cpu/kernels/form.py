"""What all forms of a kernel share: its lines, how deep each stands, and which part of each buffer a step touches.

Knows a nest and the text of its statements; not in which order loops run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from functad.backends.cpu.kernels.streaming import LineStore
from functad.backends.cpu.kernels.tile import LineStart, PackedTile, Square, StreamedStore, TransposedStore
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine, Symbol
from functad.lowering.nests.nest import (
    PRE,
    Carried,
    GatheringStore,
    IndexLet,
    Let,
    Load,
    Nest,
    Statement,
    Store,
    names_of,
)
from functad.lowering.nests.printing import accumulated, kernel_parameters


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


class KernelForm:
    """The text of a nest's kernel, in the order of loops that a subclass knows."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.lines: list[str] = []
        self.parameters = kernel_parameters(nest)
        self.first = first_elements(nest)
        self.depth_of: dict[str, int] = {}  # of every name: how many loops it lies in
        self.inner = [s for s, r in zip(nest.loops, nest.reduced) if r or s is nest.carried]
        self.outer = [s for s in nest.loops if s not in self.inner]

    def kernel(self) -> CpuKernel:
        n, first = self._write()
        body = "\n".join(self.lines) + "\n"
        offsets = tuple(self.first[storage] for storage in self.parameters)
        parameters = tuple(self.parameters.values())
        return CpuKernel(body, parameters, n, self._row_sizes(first), self.nest.used_constants(), offsets)

    def _write(self) -> tuple[int, Symbol | None]:
        """Print all lines; gives the extent of the parallel range, and the loop whose range it is, if it is one."""
        raise NotImplementedError

    def _all_stores(self) -> Sequence[Store]:
        return self.nest.stores

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

    def _place_of(self, access: Load | Store, at: dict[Symbol, Affine]) -> str:
        """The array of an access, and which element of it."""
        storage = access.buffer.storage
        return f"{self.parameters[storage][0]}, {(access.offset.substitute(at) - self.first[storage]).text()}"

    def _depth(self, s: Statement) -> int:
        if isinstance(s, Let):
            return max((self.depth_of.get(name, 0) for name in s.operands), default=0)
        if isinstance(s, Carried):
            return len(self.loops_before)
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
        if isinstance(s, LineStart):
            storage = s.buffer.storage
            place = f"{self.parameters[storage][0]}, {(s.offset - self.first[storage]).text()}"
            return f"{s.name} = line_start({place}, {s.value.text()}, {s.last})"
        if isinstance(s, IndexLet):
            return f"{s.name} = {s.value.text()}"
        assert not isinstance(s, Carried)
        if isinstance(s, PackedTile):
            return f"{s.name} = packed_tile({self._place_of(s, {})}, {s.pitch}, {s.rows}, {s.columns})"
        if isinstance(s, Square):
            squares = [(s.buffer, s.offset, s.pitch), *([s.result] if s.result else [])]
            places = [
                f"{self.parameters[b.storage][0]}, {(offset - self.first[b.storage]).text()}, {pitch}"
                for b, offset, pitch in squares
            ]
            if s.count > 1:
                return f"{s.name} = transposed_band_{s.side}({places[0]}, {s.count})"
            return f"{s.name} = transposed_{s.side}({', '.join(places)})"
        return f"{s.name} = {self._element(s)}"

    def _element(self, access: Load | Store) -> str:
        storage = access.buffer.storage
        return f"{self.parameters[storage][0]}[{(access.offset - self.first[storage]).text()}]"

    def _stores(self, level: int, depth: int) -> None:
        for store in self.nest.stores:
            if store.level == level:
                self._store(store, depth)

    def _store(self, store: Store, depth: int) -> None:
        if isinstance(store, (LineStore, StreamedStore)):
            if store.place:
                self._line(depth, f"{store.room}[{store.place}] = {store.value}")
            return
        if isinstance(store, TransposedStore):
            place = f"{self._place_of(store, {})}, {store.pitch}, {store.rows}, {store.columns}"
            self._line(depth, f"write_transposed({store.value}, {place})")
            return
        element = self._element(store)
        value = (
            accumulated(store.accumulator, element, store.value) if isinstance(store, GatheringStore) else store.value
        )
        self._line(depth, f"{element} = {value}")

    def _row_sizes(self, first: Symbol | None) -> dict[Storage, int | None]:
        sizes: dict[Storage, int | None] = {}
        accesses = [(s.buffer, s.offset) for s in self.nest.statements if isinstance(s, Load)]
        accesses += [(s.buffer, s.offset) for s in self._all_stores()]
        sizes.update((s.buffer.storage, None) for s in self.nest.statements if isinstance(s, (Square, PackedTile)))
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
