"""The words of matrix products' kernels for `numba.cuda`, as LLVM instructions for NVVM.

Knows what each word does, from `words`; nothing of matrices. Cannot be imported in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.cuda import cudadecl, cudaimpl

from functad.backends.cpu.scalars.elementary_numba import from_numba, to_numba
from functad.backends.cuda.scalars import words as product_words
from functad.backends.cuda.scalars.intrinsics import _DTYPES, CudaArithmetic, Intrinsic, _Builder, templates, types
from functad.backends.cuda.scalars.words import TERMS, vector_alignment
from functad.dtypes import kind_of

IRValues = list[ir.Value]


class _WordWriter:
    """What all words need: the instructions of one call."""

    def __init__(self, context: Any, builder: ir.IRBuilder, call: Any, values: Sequence[ir.Value]) -> None:
        self.context, self.builder, self.call, self.values = context, builder, call, values

    def literal(self, k: int) -> int:
        return int(self.call.args[k].literal_value)

    def number(self, value: int) -> ir.Value:
        return ir.Constant(ir.IntType(64), value)

    def plus(self, at: ir.Value, times: int, step: ir.Value) -> ir.Value:
        return self.builder.add(at, self.builder.mul(self.number(times), step)) if times else at

    def pointer(self, k: int, at: ir.Value) -> ir.Value:
        """The address of an element of the k-th operand, an array."""
        held = self.context.make_array(self.call.args[k])(self.context, self.builder, self.values[k])
        return self.builder.gep(held.data, [at])

    def load(self, k: int, at: ir.Value, width: int) -> IRValues:
        element, pointer = self.context.get_data_type(self.call.args[k].dtype), self.pointer(k, at)
        if width == 1 or not _is_float(self.call.args[k].dtype):
            places = [self.builder.gep(pointer, [self.number(x)]) for x in range(width)]
            return [self.builder.load(place) for place in places]
        vector = ir.VectorType(element, width)
        aligned = vector_alignment(width, self.call.args[k].dtype.bitwidth // 8)
        whole = self.builder.load(self.builder.bitcast(pointer, vector.as_pointer()), align=aligned)
        return [self.builder.extract_element(whole, ir.Constant(ir.IntType(32), x)) for x in range(width)]

    def store(self, k: int, at: ir.Value, parts: IRValues) -> None:
        pointer = self.pointer(k, at)
        if len(parts) < TERMS:
            for x, part in enumerate(parts):
                self.builder.store(part, self.builder.gep(pointer, [self.number(x)]))
            return
        vector = ir.VectorType(parts[0].type, TERMS)
        whole = ir.Constant(vector, ir.Undefined)
        for x, part in enumerate(parts):
            whole = self.builder.insert_element(whole, part, ir.Constant(ir.IntType(32), x))
        aligned = vector_alignment(TERMS, self.call.args[k].dtype.bitwidth // 8)
        self.builder.store(whole, self.builder.bitcast(pointer, vector.as_pointer()), align=aligned)

    def elements(self, k: int) -> IRValues:
        """The elements of the k-th operand, a tuple."""
        return [self.builder.extract_value(self.values[k], x) for x in range(len(self.call.args[k]))]

    def result(self, values: IRValues) -> ir.Value:
        return self.context.make_tuple(self.builder, self.call.return_type, values)


def _is_float(numba_type: Any) -> bool:
    """Whether elements are floats; those of 16 bits are words."""
    return kind_of(_DTYPES[numba_type]) == "f" or numba_type == types.uint16


def _loads(w: _WordWriter) -> ir.Value:
    count, width = w.literal(1), w.literal(2)
    base, line, step, last, row = w.values[3:]
    found: IRValues = []
    for k in range(count):
        place = w.plus(line, k, step)
        place = w.builder.select(w.builder.icmp_signed("<", place, last), place, last)
        found += w.load(0, w.builder.add(base, w.builder.mul(place, row)), width)
    return w.result(found)


def _stores(w: _WordWriter) -> ir.Value:
    width, values = w.literal(1), w.elements(4)
    to, step, at, at_step, end = (w.values[k] for k in (2, 3, 5, 6, 7))
    zero = w.context.get_constant_null(w.call.args[4].dtype)
    for k in range(len(values) // width):
        inside = w.builder.icmp_signed("<", w.plus(at, k, at_step), end)
        parts = [w.builder.select(inside, value, zero) for value in values[k * width : (k + 1) * width]]
        w.store(0, w.plus(to, k, step), parts)
    return w.context.get_dummy_value()


def _along(w: _WordWriter) -> ir.Value:
    at, apart = w.values[2:]
    return w.result([x for r in range(w.literal(1)) for x in w.load(0, w.plus(at, r, apart), TERMS)])


def _across(w: _WordWriter) -> ir.Value:
    at, apart, stride = w.values[2:]
    count = w.literal(1)
    few = min(count, TERMS)
    terms = [
        [x for r in range(0, count, few) for x in w.load(0, w.plus(w.plus(at, k, stride), r // few, apart), few)]
        for k in range(TERMS)
    ]
    return w.result([terms[k][r] for r in range(count) for k in range(TERMS)])


def _add_products(w: _WordWriter) -> ir.Value:
    dtype, builder = _DTYPES[w.call.args[0].dtype], _Builder(w.builder)
    sums, a, b = ([from_numba(builder, x, dtype) for x in w.elements(k)] for k in range(3))
    columns, arithmetic = len(b) // TERMS, CudaArithmetic(builder)
    for k in range(TERMS):
        for n, total in enumerate(sums):
            sums[n] = _fused(arithmetic, a[n // columns * TERMS + k], b[n % columns * TERMS + k], total)
    return w.result([to_numba(w.context, builder, w.call.args[0].dtype, x) for x in sums])


def _add_product(w: _WordWriter) -> ir.Value:
    kind, builder = w.call.args[0], _Builder(w.builder)
    total, x, y = (from_numba(builder, value, _DTYPES[kind]) for value in w.values)
    return to_numba(w.context, builder, kind, _fused(CudaArithmetic(builder), x, y, total))


def _fused(k: Any, x: Any, y: Any, total: Any) -> Any:
    if kind_of(total.dtype) != "c":
        return k.fma(x, y, total)
    real = k.fma(-x.imag, y.imag, k.fma(x.real, y.real, total.real))
    return k.make_complex(real, k.fma(x.imag, y.real, k.fma(x.real, y.imag, total.imag)))


def _word(
    name: str, literals: Sequence[int], results: Callable[..., Any], write: Callable[[_WordWriter], Any]
) -> Intrinsic:
    """A word whose operands at these places are numbers that the text says; all other numbers have 64 bits."""

    def word(*operands: Any) -> Any:
        raise NotImplementedError(f"{name} runs in CUDA kernels only")

    word.__name__ = word.__qualname__ = name

    class Template(templates.AbstractTemplate):
        key = word
        prefer_literal = True

        def generic(self, arguments: Sequence[Any], keywords: Any) -> Any:
            given = [types.unliteral(a) for a in arguments]
            if keywords or any(not isinstance(arguments[k], types.IntegerLiteral) for k in literals):
                return None
            operands = [
                arguments[k] if k in literals else types.int64 if isinstance(a, types.Integer) else a
                for k, a in enumerate(given)
            ]
            return templates.signature(results(*operands), *operands)

    cudadecl.registry.register_global(word, types.Function(Template))

    @cudaimpl.registry.lower(word, types.VarArg(types.Any))
    def lower_call(context: Any, builder: ir.IRBuilder, call: Any, values: Sequence[ir.Value]) -> Any:
        return write(_WordWriter(context, builder, call, values))

    return word


def _terms_of(shared: Any, count: Any, *rest: Any) -> Any:
    return types.UniTuple(shared.dtype, TERMS * count.literal_value)


WORDS: dict[str, Intrinsic] = {
    "copies": _word(
        "copies", (0,), lambda n, value: types.UniTuple(value, n.literal_value),
        lambda w: w.result([w.values[1]] * w.literal(0)),
    ),
    "loads": _word(
        "loads", (1, 2), lambda array, n, width, *_: types.UniTuple(array.dtype, n.literal_value * width.literal_value),
        _loads,
    ),
    "stores": _word("stores", (1,), lambda *_: types.none, _stores),
    "along": _word("along", (1,), _terms_of, _along),
    "across": _word("across", (1,), _terms_of, _across),
    "add_products": _word("add_products", (), lambda sums, a, b: sums, _add_products),
    "add_product": _word("add_product", (), lambda total, *_: total, _add_product),
}  # fmt: skip
assert WORDS.keys() == product_words.WORDS.keys()
