"""Nests that read along other loops than they write along: by squares of elements, turned around in shared memory.

Knows nests and text, as `emit` does. Neighbouring threads read what lies side by side, and write it side by side.
"""

from __future__ import annotations

from dataclasses import replace

from functad import machine_model
from functad.backends.cuda.kernels.emit import CudaEmitter, CudaKernel, loaded_text, memory_type, stored_text
from functad.backends.cuda.kernels.mapping import LoopMapping, MappedLoop
from functad.backends.cuda.kernels.vectors import in_fours
from functad.backends.cuda.scalars.words import WIDTH
from functad.lowering.nests.affine import Affine, Symbol
from functad.lowering.nests.nest import Load, Nest, Statement, Store, fresh, names_of
from functad.records import NamedTuple


def emit_tiled(nest: Nest, threads: int) -> CudaKernel | None:
    """The kernel of a nest by squares; None if it accesses all memory along its last loop, or is small."""
    turned = _turned(nest, min(machine_model.CUDA_SQUARE, threads))
    return None if turned is None else _TiledEmitter(nest, turned, threads).tiled()


class _Turned(NamedTuple):
    """What of a nest goes through squares: accesses along `across`, where neighbours run along the last loop."""

    across: Symbol
    side: int
    loads: tuple[Load, ...]
    stores: tuple[Store, ...]


def _turned(nest: Nest, side: int) -> _Turned | None:
    if nest.update or nest.carries or nest.accumulators or any(nest.reduced) or len(nest.loops) < 2:
        return None
    last = nest.loops[-1]
    if nest.points < machine_model.CUDA_SQUARE_POINTS or 2 * last.extent < side:
        return None
    accesses: list[Load | Store] = [*(s for s in nest.statements if isinstance(s, Load)), *nest.stores]
    room = machine_model.CUDA_SHARED_BYTES // (side * (side + 1))  # bytes of each element of a square
    found: list[Load | Store] = []
    across: Symbol | None = None
    for access in accesses:
        along = _loop_along(access.offset, nest, last)
        if along is None or 2 * along.extent < side or across not in (None, along):
            continue
        room -= access.buffer.dtype.itemsize
        if room >= 0:
            across = along
            found.append(access)
    if across is None:
        return None
    loads, stores = ([x for x in found if isinstance(x, kind)] for kind in (Load, Store))
    return _Turned(across, side, tuple(loads), tuple(stores))  # type: ignore[arg-type]


def _loop_along(offset: Affine, nest: Nest, last: Symbol) -> Symbol | None:
    """The loop along which neighbours lie side by side at a position, if that is another one than the last."""
    if not offset.is_plain() or not offset.symbols() <= {*nest.loops} or abs(offset.coefficient(last)) < 2:
        return None
    return next((s for s in nest.loops if abs(offset.coefficient(s)) == 1), None)


class _TiledEmitter(CudaEmitter):
    """Prints the loads that go through squares, then all that the nest does, then the stores that go through squares.

    In the middle a thread does four neighbours where in all else they are one load and one store.
    """

    def __init__(self, nest: Nest, turned: _Turned, threads: int) -> None:
        self.turned, self.across, self.last = turned, turned.across, nest.loops[-1]
        self.pair, side = (turned.across, nest.loops[-1]), turned.side
        taken = {name for s in nest.statements for name in names_of(s)} | {s.name for s in nest.loops}
        taken |= {*nest.constants, "thread", "along", "beside", "step", "block"}
        self.tiles = [Symbol(fresh(f"{s.name}_tile", taken), 0, -(-s.extent // side) - 1) for s in self.pair]
        others = [s for s in nest.loops if s not in self.pair]
        block = tuple(MappedLoop(s.name, s.extent) for s in (*others, *self.tiles))
        thread = tuple(MappedLoop(s.name, side) for s in self.pair)
        mapping = LoopMapping(block=block, thread=thread, one_step=True)
        whole = LoopMapping(grid=tuple(MappedLoop(s.name, s.extent) for s in nest.loops))
        fours = in_fours(nest, whole, threads) if side % WIDTH == 0 else None
        self.width = 1 if fours is None else WIDTH
        inside = nest if fours is None else fours.nest
        super().__init__(replace(inside, loops=nest.loops), mapping, {}, self.tiles)
        self.inside_last = inside.loops[-1]
        taken |= {parameter for parameter, _, _ in self.parameters.values()} | {s.name for s in inside.loops}
        taken |= {name for s in inside.statements for name in names_of(s)}
        self.threads, self.squares, self.parts = threads, dict[Load | Store, str](), dict[Load | Store, str]()
        staged: list[Load | Store] = [*turned.loads, *turned.stores]
        for access in staged:
            name = fresh(f"square_{access.name if isinstance(access, Load) else access.value}", taken)
            self.squares[access] = name
            self._find_parts(access, name)

    def _find_parts(self, access: Load | Store, square: str) -> None:
        """The element of a square for each access in the middle that is one by way of that square."""
        made: list[Load | Store] = [*(s for s in self.nest.statements if isinstance(s, Load)), *self.nest.stores]
        for part in range(self.width):
            place = Affine(part, [(self.inside_last, self.width)])
            offset = access.offset.substitute({self.last: place}) if self.width > 1 else access.offset
            along = (
                f"({self.width} * along + {part})" if part else f"{self.width} * along" if self.width > 1 else "along"
            )
            for one in made:
                alike = (
                    isinstance(one, Load) == isinstance(access, Load) and one.buffer.storage is access.buffer.storage
                )
                if alike and one.offset == offset:
                    self.parts[one] = f"{square}[{along} * {self.turned.side + 1} + beside]"

    def tiled(self) -> CudaKernel:
        side = self.turned.side
        self._constants()
        for access, name in self.squares.items():
            self._line(0, f"{name} = cuda.shared.array({side * (side + 1)}, {memory_type(access.buffer.dtype)})")
        self._line(0, "thread = cuda.threadIdx.x", "block = cuda.blockIdx.x")
        self._places(0, "block", self.outer)
        if self.turned.loads:
            depth = self._turn()
            for load in self.turned.loads:
                here = self._element(load.buffer, load.offset)
                self._line(depth, f"{self.squares[load]}[{side + 1} * beside + along] = {here}")
            self._line(0, "cuda.syncthreads()")
        self._middle(self._square(self.inside_last, self.across, self.width))
        if self.turned.stores:
            self._line(0, "cuda.syncthreads()")
            depth = self._turn()
            for store in self.turned.stores:
                there = self._element(store.buffer, store.offset)
                self._line(depth, f"{there} = {self.squares[store]}[{side + 1} * beside + along]")
        return CudaKernel("\n".join(self.lines) + "\n", tuple(self.parameters.values()), self.mapping)

    def _middle(self, depth: int) -> None:
        self._print(self.nest.statements, depth)
        for store in self.nest.stores:
            if store in self.parts:
                self._line(depth, f"{self.parts[store]} = {stored_text(store)}")
        self._store_all([store for store in self.nest.stores if store not in self.parts], depth)

    def _turn(self) -> int:
        return self._square(self.across, self.last, 1)

    def _square(self, along: Symbol, beside: Symbol, width: int) -> int:
        """The loop over a square, in which neighbouring threads run along one of its loops; how deep lines stand."""
        side, columns = self.turned.side, self.turned.side // width
        rows = max(self.threads // columns, 1)  # that a block does at a time
        self._line(0, f"along = thread % {columns}", f"for step in range({-(-side // rows)}):")
        self._line(1, f"beside = {rows} * step + thread // {columns}")
        conditions = [f"beside < {side}"] if side % rows else []
        for symbol, tile in zip(self.pair, self.tiles):
            is_last = symbol is self.last
            shown = self.inside_last if is_last and along is self.inside_last else symbol
            length = columns if shown is along else side
            self._line(1, f"{shown.name} = {length} * {tile.name} + {'along' if shown is along else 'beside'}")
            conditions += [f"{shown.name} < {shown.extent}"] if symbol.extent % side else []
        return self._under(1, " and ".join(conditions))

    def _text(self, s: Statement) -> str:
        if isinstance(s, Load) and s in self.parts:
            return f"{s.name} = {loaded_text(s.buffer, self.parts[s])}"
        return super()._text(s)
