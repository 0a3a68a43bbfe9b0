"""Nests that read along other loops than they write along: by squares of elements, turned around in shared memory.

Knows nests and text, as `emit` does. Neighbouring threads read what lies side by side, and write it side by side.
"""

from __future__ import annotations

from dataclasses import replace

from functad import machine_model
from functad.backends.cuda.kernels.emit import CudaEmitter, CudaKernel, loaded_text, memory_type
from functad.backends.cuda.kernels.mapping import LoopMapping, MappedLoop
from functad.backends.cuda.kernels.vectors import in_fours
from functad.backends.cuda.scalars.words import WIDTH
from functad.lowering.nests.affine import Affine, Symbol
from functad.lowering.nests.nest import Load, Nest, Statement, fresh, loads_of, names_of
from functad.records import NamedTuple


def emit_tiled(nest: Nest, threads: int) -> CudaKernel | None:
    """The kernel of a nest by squares; None if it reads all memory along its last loop, or is small."""
    turned = _turned(nest, min(machine_model.CUDA_SQUARE, threads))
    return None if turned is None else _TiledEmitter(nest, turned, threads).tiled()


class _Turned(NamedTuple):
    """What of a nest goes through squares: loads along `across`. Neighbours run along the last loop, as stores do."""

    across: Symbol
    side: int
    loads: tuple[Load, ...]


def _turned(nest: Nest, side: int) -> _Turned | None:
    if nest.update or nest.carries or nest.accumulators or any(nest.reduced) or len(nest.loops) < 2:
        return None
    last = nest.loops[-1]
    if nest.points < machine_model.CUDA_SQUARE_POINTS or 2 * last.extent < side:
        return None
    room = machine_model.CUDA_SHARED_BYTES // (side * (side + 1))  # bytes of each element of a square
    found: list[Load] = []
    across: Symbol | None = None
    for load in loads_of(nest):
        along = _loop_along(load.offset, nest, last)
        if along is None or 2 * along.extent < side or across not in (None, along):
            continue
        room -= load.buffer.dtype.itemsize
        if room >= 0:
            across = along
            found.append(load)
    return None if across is None else _Turned(across, side, tuple(found))


def _loop_along(offset: Affine, nest: Nest, last: Symbol) -> Symbol | None:
    """The loop along which neighbours lie side by side at a position, if that is another one than the last."""
    if not offset.is_plain() or not offset.symbols() <= {*nest.loops} or abs(offset.coefficient(last)) < 2:
        return None
    return next((s for s in nest.loops if abs(offset.coefficient(s)) == 1), None)


class _TiledEmitter(CudaEmitter):
    """Prints the loads that go through squares, then all that the nest does.

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
        self.threads, self.squares, self.parts = threads, dict[Load, str](), dict[Load, str]()
        for load in turned.loads:
            name = fresh(f"square_{load.name}", taken)
            self.squares[load] = name
            self._find_parts(load, name)

    def _find_parts(self, load: Load, square: str) -> None:
        """The element of a square for each load in the middle that is one by way of that square."""
        for part in range(self.width):
            place = Affine(part, [(self.inside_last, self.width)])
            offset = load.offset.substitute({self.last: place}) if self.width > 1 else load.offset
            along = (
                f"({self.width} * along + {part})" if part else f"{self.width} * along" if self.width > 1 else "along"
            )
            for one in loads_of(self.nest):
                if one.buffer.storage is load.buffer.storage and one.offset == offset:
                    self.parts[one] = f"{square}[{along} * {self.turned.side + 1} + beside]"

    def tiled(self) -> CudaKernel:
        side = self.turned.side
        self._constants()
        for load, name in self.squares.items():
            self._line(0, f"{name} = cuda.shared.array({side * (side + 1)}, {memory_type(load.buffer.dtype)})")
        self._line(0, "thread = cuda.threadIdx.x", "block = cuda.blockIdx.x")
        self._places(0, "block", self.outer)
        depth = self._square(self.across, self.last, 1)
        for load in self.turned.loads:
            here = self._element(load.buffer, load.offset)
            self._line(depth, f"{self.squares[load]}[{side + 1} * beside + along] = {here}")
        self._line(0, "cuda.syncthreads()")
        depth = self._square(self.inside_last, self.across, self.width)
        self._print(self.nest.statements, depth)
        self._store_all(self.nest.stores, depth)
        return CudaKernel("\n".join(self.lines) + "\n", tuple(self.parameters.values()), self.mapping)

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
