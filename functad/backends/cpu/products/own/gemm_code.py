"""How functad's own products are written: words, vectors, loops and masks as LLVM IR.

This file must not know what is computed with them (`gemm_vectors`). It never imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from functad import machine_model
from functad.backends.cpu.compile.loader import PREFIX

VECTOR_BYTES = machine_model.VECTOR_BYTES
WORD = ir.IntType(64)
BYTE_POINTER = ir.IntType(8).as_pointer()
_INT = ir.IntType(32)


class Code:
    """An LLVM module of functions of words, and how they are written."""

    def __init__(self, scalar: ir.Type, item: int, vector_bytes: int = VECTOR_BYTES) -> None:
        self.module = ir.Module()
        self.scalar = scalar
        self.item = item
        self.vector = ir.VectorType(scalar, vector_bytes // item)
        self.builder = ir.IRBuilder()

    def begin(self, name: str, parameters: str) -> Sequence[ir.Value]:
        names = parameters.split()
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [WORD] * len(names)), PREFIX + name)
        self.builder = ir.IRBuilder(function.append_basic_block())
        return function.args

    def loop(self, count: ir.Value, body: Callable[..., Sequence[ir.Value]], *start: ir.Value) -> list[ir.Value]:
        """Values that become `body(i, *values)` for i = 0..count."""
        builder = self.builder
        before = builder.block
        head, inside, after = (builder.append_basic_block() for _ in range(3))
        builder.branch(head)
        builder.position_at_end(head)
        counter, *values = [builder.phi(value.type) for value in (word(0), *start)]
        builder.cbranch(builder.icmp_signed("<", counter, count), inside, after)
        builder.position_at_end(inside)
        next_values = body(counter, *values)
        next_counter = builder.add(counter, word(1))
        for phi, first, following in zip([counter, *values], [word(0), *start], [next_counter, *next_values]):
            phi.add_incoming(first, before)
            phi.add_incoming(following, builder.block)
        builder.branch(head)
        builder.position_at_end(after)
        return values

    def load(self, address: ir.Value, kind: ir.Type, align: int = 0) -> ir.Value:
        return self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=align or self.item)

    def store(self, value: ir.Value, address: ir.Value) -> None:
        self.builder.store(value, self.builder.inttoptr(address, value.type.as_pointer()), align=self.item)

    def stream(self, line: ir.Value, address: ir.Value) -> None:
        """Write a cache line past the caches. A fence must come before others read it."""
        kept = self.builder.store(line, self.builder.inttoptr(address, line.type.as_pointer()), align=VECTOR_BYTES)
        kept.set_metadata("nontemporal", self.module.add_metadata([_INT(1)]))

    def load_masked(self, address: ir.Value, mask: ir.Value) -> ir.Value:
        """The elements at an address whose lanes are set; nothing is read for the others, which are zero."""
        vector = ir.VectorType(self.scalar, mask.type.count)
        function = self.declared(
            f"llvm.masked.load.v{vector.count}f{8 * self.item}.p0",
            vector, [vector.as_pointer(), _INT, mask.type, vector],
        )  # fmt: skip
        zero = ir.Constant(vector, [ir.Constant(self.scalar, 0.0)] * vector.count)
        place = self.builder.inttoptr(address, vector.as_pointer())
        return self.builder.call(function, [place, ir.Constant(_INT, self.item), mask, zero])

    def store_masked(self, value: ir.Value, address: ir.Value, mask: ir.Value) -> None:
        function = self.declared(
            f"llvm.masked.store.v{value.type.count}f{8 * self.item}.p0",
            ir.VoidType(), [value.type, value.type.as_pointer(), _INT, mask.type],
        )  # fmt: skip
        place = self.builder.inttoptr(address, value.type.as_pointer())
        self.builder.call(function, [value, place, ir.Constant(_INT, self.item), mask])

    def prefetch(self, address: ir.Value, size: int) -> None:
        """Ask for the cache lines of so many bytes, which may begin anywhere in the first one."""
        for offset in (*range(0, size, machine_model.CACHE_LINE), size - 1):
            self.prefetch_line(self.offset(address, offset))

    def prefetch_line(self, address: ir.Value, to_write: bool = False, cache: int = 1) -> None:
        function = self.declared("llvm.prefetch.p0i8", ir.VoidType(), [BYTE_POINTER, _INT, _INT, _INT])
        place = self.builder.inttoptr(address, BYTE_POINTER)
        self.builder.call(function, [place, *(ir.Constant(_INT, x) for x in (int(to_write), 4 - cache, 1))])

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        name = f"v{x.type.count}" if isinstance(x.type, ir.VectorType) else ""
        function = self.declared(f"llvm.fma.{name}f{8 * self.item}", x.type, [x.type] * 3)
        return self.builder.call(function, [x, y, z])

    def declared(self, name: str, result: ir.Type, parameters: Sequence[ir.Type]) -> ir.Function:
        return self.module.globals.get(name) or ir.Function(self.module, ir.FunctionType(result, parameters), name)

    def everywhere(self, scalar: ir.Value) -> ir.Value:
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, scalar, ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(first, undefined, _indices([0] * self.vector.count))

    def offset(self, address: ir.Value, count: int) -> ir.Value:
        return self.builder.add(address, word(count)) if count else address

    def pieces(self, width: int) -> list[tuple[int, int]]:
        """Where vectors begin that cover so many elements side by side, and their lanes: powers of two."""
        pieces, start = [], 0
        while start < width:
            count = min(self.vector.count, 1 << (width - start).bit_length() - 1)
            pieces.append((start, count))
            start += count
        return pieces

    def first_lanes(self, wide: ir.Value, start: int, count: int) -> ir.Value:
        """The mask of a vector that begins at element `start`: its lanes below element `wide`."""
        undefined = ir.Constant(ir.VectorType(WORD, count), ir.Undefined)
        first = self.builder.insert_element(undefined, wide, ir.Constant(_INT, 0))
        limit = self.builder.shuffle_vector(first, undefined, _indices([0] * count))
        lanes = ir.Constant(ir.VectorType(WORD, count), [start + lane for lane in range(count)])
        return self.builder.icmp_signed("<", lanes, limit)


def word(value: int) -> ir.Constant:
    return ir.Constant(WORD, value)


def _indices(lanes: Sequence[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(_INT, len(lanes)), list(lanes) if any(lanes) else None)
