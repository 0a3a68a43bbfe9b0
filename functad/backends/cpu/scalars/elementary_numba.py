"""The intrinsics of kernel text for Numba: their types, and their machine code as LLVM instructions.

It must not know formulas: it evaluates those of `scalars` on LLVM values. Importing it registers the intrinsics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import signature

from functad.backends.cpu.scalars import elementary as scalars
from functad.backends.cpu.scalars import rare_branches, vector_calls
from functad.backends.cpu.scalars.registry_numba import declare_function, implement
from functad.backends.cpu.scalars.strict_builder import StrictBuilder
from functad.dtypes import kind_of
from functad.primitives.kernels import scalar_formulas
from functad.primitives.kernels.plain_arithmetic import PLAIN, Arithmetic

_NUMBA_TYPES = {
    np.dtype(np.bool_): types.boolean,
    **{np.dtype(f"i{n}"): getattr(types, f"int{8 * n}") for n in (1, 2, 4, 8)},
    **{np.dtype(f"u{n}"): getattr(types, f"uint{8 * n}") for n in (1, 2, 4, 8)},
    np.dtype(np.float32): types.float32,
    np.dtype(np.float64): types.float64,
    np.dtype(np.complex64): types.complex64,
    np.dtype(np.complex128): types.complex128,
}
_DTYPES = {numba_type: dtype for dtype, numba_type in _NUMBA_TYPES.items()}


def register_module(module: ModuleType) -> None:
    """Make every function of the module that `scalars.plain` made known to Numba."""
    for function in vars(module).values():
        if hasattr(function, "formula") and function not in _registered:
            register(function)


def register(function: Callable[..., Any]) -> None:
    """Make one function that `scalars.plain` made known to Numba, for operands of every dtype."""
    _registered.add(function)
    formula, inline = function.formula, function.inline  # type: ignore[attr-defined]

    def result_type(operands: Sequence[Any]) -> Any:
        dtypes = _operand_dtypes(operands)
        return None if dtypes is None else _numba_type(_result_dtype(formula, dtypes))

    _register_type(function, result_type)

    @implement(function, types.VarArg(types.Any))
    def lower_call(context: Any, builder: ir.IRBuilder, call: Any, values: Sequence[ir.Value]) -> ir.Value:
        dtypes = [_DTYPES[t] for t in call.args]
        operands = [from_numba(builder, value, dtype) for value, dtype in zip(values, dtypes)]
        result = emit_formula(builder, formula, operands, inline=inline)
        return to_numba(context, builder, call.return_type, result)


def _register_type(function: Callable[..., Any], result_type: Callable[[Sequence[Any]], Any]) -> None:
    """Give calls of the function the type `result_type(types of the operands)`; None refuses them."""

    def signature_of(arguments: Sequence[Any]) -> Any:
        operands = [types.unliteral(a) for a in arguments]
        result = result_type(operands)
        return None if result is None else signature(result, *operands)

    declare_function(function, signature_of)


_registered: set[Callable[..., Any]] = set()
_result_dtypes: dict[tuple[Any, ...], Any] = {}


def emit_formula(builder: ir.IRBuilder, formula: Callable[..., Any], operands: Sequence[Any], *, inline: bool) -> Any:
    """The value of a formula: its instructions, or a call of the one function with them in this module."""
    dtypes = tuple(x.dtype for x in operands)
    result = None if inline else _result_dtype(formula, dtypes)
    if not isinstance(result, np.dtype) or "c" in (kind_of(result), *[kind_of(d) for d in dtypes]):
        return formula(IRArithmetic(builder), *operands)
    module = builder.module
    zeros = tuple(_is_zero(x.value) for x in operands)
    name = "functad." + _name_of(formula, dtypes) + "".join(f".{i}is0" for i, is_zero in enumerate(zeros) if is_zero)
    if name not in module.globals:
        _define(module, name, formula, dtypes, result, zeros)
    return IRValue(builder, builder.call(module.globals[name], [x.value for x in operands]), result)


def _name_of(formula: Callable[..., Any], dtypes: Sequence[Any]) -> str:
    return f"{formula.__name__}.{'.'.join(d.str[1:] for d in dtypes)}"


def _is_zero(value: ir.Value) -> bool:
    return isinstance(value, ir.Constant) and str(value.constant) in ("0", "0.0")  # not −0


def _define(
    module: ir.Module, name: str, formula: Callable[..., Any], dtypes: Sequence[Any], result: Any, zeros: Sequence[bool]
) -> None:
    kind = ir.FunctionType(llvm_type(result), [llvm_type(d) for d in dtypes])
    function = ir.Function(module, kind, name)
    function.linkage = "linkonce_odr"
    function.attributes.add("alwaysinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block())
    values = [_constant(0, d) if is_zero else a for a, d, is_zero in zip(function.args, dtypes, zeros)]
    operands = [IRValue(builder, value, dtype) for value, dtype in zip(values, dtypes)]
    builder.ret(formula(IRArithmetic(builder), *operands).value)


def _operand_dtypes(operands: Sequence[Any]) -> tuple[Any, ...] | None:
    """The dtypes of operands of Numba's types; None if one of them is not a number."""
    found = [_DTYPES.get(operand) for operand in operands]
    return None if any(d is None for d in found) else tuple(found)


def _result_dtype(formula: Callable[..., Any], dtypes: tuple[Any, ...]) -> Any:
    """The dtype of a formula's result (a tuple of them for several), found by evaluating it on plain ones."""
    key = (formula, dtypes)
    if key not in _result_dtypes:
        with np.errstate(all="ignore"):
            result = formula(PLAIN, *[d.type(1) for d in dtypes])
        _result_dtypes[key] = tuple(r.dtype for r in result) if isinstance(result, tuple) else result.dtype
    return _result_dtypes[key]


def _numba_type(dtype: Any) -> Any:
    if isinstance(dtype, tuple):
        return types.BaseTuple.from_types([_NUMBA_TYPES[d] for d in dtype])
    return _NUMBA_TYPES[dtype]


def from_numba(builder: ir.IRBuilder, value: ir.Value, dtype: Any) -> Any:
    """The number that formulas compute with, of a value of Numba's."""
    if kind_of(dtype) == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return IRComplex(*[IRValue(builder, builder.extract_value(value, n), part) for n in (0, 1)])
    return IRValue(builder, value, dtype)


def to_numba(context: Any, builder: ir.IRBuilder, numba_type: Any, result: Any) -> ir.Value:
    """The value of a formula, or several, as Numba keeps one of this type."""
    if isinstance(result, tuple):
        parts = [to_numba(context, builder, t, r) for t, r in zip(numba_type, result)]
        return context.make_tuple(builder, numba_type, parts)
    if isinstance(result, IRComplex):
        pair = context.make_complex(builder, numba_type)
        pair.real, pair.imag = result.real.value, result.imag.value
        return pair._getvalue()
    return result.value


# --- values -----------------------------------------------------------------------------------------


class IRValue:
    """A number in a register: operators emit instructions, and mean what they mean for NumPy scalars."""

    __array_ufunc__ = None  # so that operators of NumPy scalars leave the work to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, builder: ir.IRBuilder, value: ir.Value, dtype: Any) -> None:
        self.builder = builder
        self.value = value
        self.dtype = np.dtype(dtype)

    def _with(self, other: Any) -> IRValue:
        if isinstance(other, IRValue):
            if other.dtype != self.dtype:
                raise AssertionError(f"a formula mixes {self.dtype} and {other.dtype}")
            return other
        return IRValue(self.builder, _constant(other, self.dtype), self.dtype)

    def _binary(self, other: Any, names: tuple[str, str, str], swap: bool = False) -> IRValue:
        x, y = (self._with(other), self) if swap else (self, self._with(other))
        name = names["fiu".index("u" if kind_of(self.dtype) == "b" else kind_of(self.dtype))]
        result = getattr(self.builder, name)(x.value, y.value)
        if kind_of(self.dtype) == "f" and not result.flags:
            result.flags = ["contract"]  # the roundings of a formula are its own business
        return IRValue(self.builder, result, self.dtype)

    def __add__(self, other: Any) -> IRValue:
        return self._binary(other, ("fadd", "add", "add"))

    __radd__ = __add__

    def __mul__(self, other: Any) -> IRValue:
        return self._binary(other, ("fmul", "mul", "mul"))

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> IRValue:
        return self._binary(other, ("fsub", "sub", "sub"))

    def __rsub__(self, other: Any) -> IRValue:
        return self._binary(other, ("fsub", "sub", "sub"), swap=True)

    def __truediv__(self, other: Any) -> IRValue:
        return self._binary(other, ("fdiv", "", ""))

    def __rtruediv__(self, other: Any) -> IRValue:
        return self._binary(other, ("fdiv", "", ""), swap=True)

    def __and__(self, other: Any) -> IRValue:
        return self._binary(other, ("", "and_", "and_"))

    __rand__ = __and__

    def __or__(self, other: Any) -> IRValue:
        return self._binary(other, ("", "or_", "or_"))

    __ror__ = __or__

    def __xor__(self, other: Any) -> IRValue:
        return self._binary(other, ("", "xor", "xor"))

    __rxor__ = __xor__

    def __lshift__(self, other: Any) -> IRValue:
        return self._binary(other, ("", "shl", "shl"))

    def __rshift__(self, other: Any) -> IRValue:
        return self._binary(other, ("", "ashr", "lshr"))

    def __invert__(self) -> IRValue:
        return IRValue(self.builder, self.builder.not_(self.value), self.dtype)

    def __neg__(self) -> IRValue:
        b = self.builder
        return IRValue(b, (b.fneg if kind_of(self.dtype) == "f" else b.neg)(self.value), self.dtype)

    def _compare(self, other: Any, operator: str) -> IRValue:
        b, y = self.builder, self._with(other)
        if kind_of(self.dtype) == "f":
            compare = b.fcmp_unordered if operator == "!=" else b.fcmp_ordered
        else:
            compare = b.icmp_signed if kind_of(self.dtype) == "i" else b.icmp_unsigned
        return IRValue(b, compare(operator, self.value, y.value), np.bool_)

    def __lt__(self, other: Any) -> IRValue:
        return self._compare(other, "<")

    def __le__(self, other: Any) -> IRValue:
        return self._compare(other, "<=")

    def __gt__(self, other: Any) -> IRValue:
        return self._compare(other, ">")

    def __ge__(self, other: Any) -> IRValue:
        return self._compare(other, ">=")

    def __eq__(self, other: Any) -> Any:
        return self._compare(other, "==")

    def __ne__(self, other: Any) -> Any:
        return self._compare(other, "!=")


class IRComplex:
    """A complex number in registers, as its two parts; formulas do arithmetic on those."""

    def __init__(self, real: IRValue, imag: IRValue) -> None:
        self.real = real
        self.imag = imag
        self.dtype = np.dtype(f"c{2 * real.dtype.itemsize}")


def llvm_type(dtype: Any) -> ir.Type:
    """What LLVM keeps a number of the dtype in."""
    dtype = np.dtype(dtype)
    if kind_of(dtype) == "f":
        return ir.FloatType() if dtype.itemsize == 4 else ir.DoubleType()
    return ir.IntType(1 if kind_of(dtype) == "b" else 8 * dtype.itemsize)


def _constant(value: Any, dtype: Any) -> ir.Constant:
    value = np.dtype(dtype).type(value)
    return ir.Constant(llvm_type(dtype), float(value) if kind_of(dtype) == "f" else int(value))


# --- the arithmetic of formulas ---------------------------------------------------------------------


class IRArithmetic(Arithmetic):
    """What `PlainArithmetic` does, by LLVM instructions."""

    prefers_libm = False
    has_parts = vector_calls.has_wide_registers()

    def __init__(self, builder: Any, strict: bool = False) -> None:
        self.builder = builder
        self.strict = strict

    def strictly(self, operands: Sequence[IRValue]) -> tuple[Any, ...]:
        builder = StrictBuilder(self.builder)
        return (type(self)(builder, strict=True), *(IRValue(builder, x.value, x.dtype) for x in operands))

    def constant(self, value: Any, dtype: Any) -> IRValue:
        return IRValue(self.builder, _constant(value, np.dtype(dtype)), dtype)

    def constants(self, values: Sequence[float], dtype: Any) -> Sequence[IRValue]:
        return [self.constant(value, dtype) for value in values]

    def cast(self, x: Any, dtype: Any) -> Any:
        dtype = np.dtype(dtype)
        if kind_of(dtype) == "c":
            real, imag = (x.real, x.imag) if isinstance(x, IRComplex) else (x, None)
            real = self.cast(real, part := np.dtype(f"f{dtype.itemsize // 2}"))
            return IRComplex(real, self.constant(0, part) if imag is None else self.cast(imag, part))
        if isinstance(x, IRComplex):
            return (x.real != 0) | (x.imag != 0) if kind_of(dtype) == "b" else self.cast(x.real, dtype)
        if kind_of(dtype) == "b":
            return x if kind_of(x.dtype) == "b" else x != 0
        if dtype == x.dtype:
            return x
        if kind_of(dtype) == "f":
            return self._to_float(x, dtype)
        if kind_of(x.dtype) == "f":
            return scalar_formulas.float_to_integer(self, x, dtype)
        return self._int_to_int(x, dtype)

    def _to_float(self, x: IRValue, dtype: Any) -> IRValue:
        b, kind = self.builder, llvm_type(dtype)
        if kind_of(x.dtype) == "f" and isinstance(x.value, ir.Constant):
            return self.constant(x.value.constant, dtype)
        if kind_of(x.dtype) == "f":
            convert = b.fpext if dtype.itemsize > x.dtype.itemsize else b.fptrunc
        elif kind_of(x.dtype) == "b":  # of integers LLVM makes numbers first
            return self.where(x, self.constant(1, dtype), self.constant(0, dtype))
        else:
            convert = b.sitofp if kind_of(x.dtype) == "i" else b.uitofp
        return IRValue(b, convert(x.value, kind), dtype)

    def _int_to_int(self, x: IRValue, dtype: Any) -> IRValue:
        b, width = self.builder, dtype.itemsize * 8
        if x.value.type.width >= width:
            value = b.trunc(x.value, ir.IntType(width)) if x.value.type.width > width else x.value
        else:
            value = (b.sext if kind_of(x.dtype) == "i" else b.zext)(x.value, ir.IntType(width))
        return IRValue(b, value, dtype)

    def truncated(self, x: IRValue, dtype: Any) -> IRValue:
        convert = self.builder.fptosi if kind_of(np.dtype(dtype)) == "i" else self.builder.fptoui
        return IRValue(self.builder, convert(x.value, llvm_type(dtype)), dtype)

    def bits(self, x: IRValue) -> IRValue:
        return self.from_bits(x, np.dtype(f"u{x.dtype.itemsize}"))

    def from_bits(self, x: IRValue, dtype: Any) -> IRValue:
        kind = llvm_type(dtype)
        value = x.value if x.value.type == kind else self.builder.bitcast(x.value, kind)
        return IRValue(self.builder, value, dtype)

    def where(self, condition: IRValue, x: Any, y: Any) -> Any:
        if isinstance(x, IRComplex):
            return IRComplex(self.where(condition, x.real, y.real), self.where(condition, x.imag, y.imag))
        if not isinstance(x, IRValue):
            x = y._with(x)
        y = x._with(y)
        return IRValue(self.builder, self.builder.select(condition.value, x.value, y.value), x.dtype)

    def either(self, condition: Any, first: Sequence[float], second: Sequence[float], dtype: Any) -> Sequence[Any]:
        pairs = zip(self.constants(first, dtype), self.constants(second, dtype))
        return [self.where(condition, x, y) for x, y in pairs]

    def first_of(self, *conditions: IRValue) -> tuple[IRValue, ...]:
        return conditions

    def one_of(self, which: tuple[IRValue, ...], values: Sequence[float], dtype: Any) -> IRValue:
        first = self.constant(values[0], dtype)
        return self.where(which[0], first, self.one_of(which[1:], values[1:], dtype)) if which else first

    def is_zero(self, x: IRValue) -> bool:
        return _is_zero(x.value)

    def rarely(
        self,
        condition: IRValue,
        usual: IRValue,
        formula: Callable[..., Any],
        *operands: IRValue,
        optimized: bool = True,
    ) -> IRValue:
        flag = self.where(condition, self.constant(1, np.float32), self.constant(0, np.float32))
        values = [flag.value, usual.value, *(x.value for x in operands)]
        name = rare_branches.PREFIX + _name_of(formula, [x.dtype for x in operands])

        def emit_formula(builder: ir.IRBuilder, values: Sequence[ir.Value]) -> ir.Value:
            numbers = [IRValue(builder, value, x.dtype) for value, x in zip(values, operands)]
            return formula(IRArithmetic(builder), *numbers).value

        kinds = [v.type for v in values]
        call = rare_branches.function_of(self.builder.module, name, kinds, emit_formula, optimized)
        return IRValue(self.builder, self.builder.call(call, values), usual.dtype)

    def value_at(self, table: Sequence[float], index: IRValue, dtype: Any) -> IRValue:
        function = vector_calls.table_function(self.builder.module, llvm_type(dtype), table)
        return IRValue(self.builder, self.builder.call(function, [index.value]), dtype)

    def ldexp(self, x: IRValue, n: IRValue) -> IRValue:
        return self._vector_call(vector_calls.scaling_function, x, n)

    def frexp(self, x: IRValue) -> tuple[IRValue, IRValue]:
        parts = vector_calls.mantissa_function, vector_calls.exponent_function
        mantissa, exponent = (self._vector_call(part, x) for part in parts)
        return mantissa, exponent

    def log_at_ends(self, result: IRValue, x: IRValue) -> IRValue:
        return self._vector_call(vector_calls.logarithm_function, result, x)

    def _vector_call(self, function_of: Callable[[ir.Module, ir.Type], ir.Function], *operands: IRValue) -> IRValue:
        function = function_of(self.builder.module, operands[0].value.type)
        return IRValue(self.builder, self.builder.call(function, [x.value for x in operands]), operands[0].dtype)

    def row_of(self, table: Sequence[Sequence[float]], index: IRValue) -> list[IRValue]:
        module, row = self.builder.module, ir.ArrayType(ir.DoubleType(), len(table[0]))
        name = f"functad.table.{hashlib.sha256(repr(table).encode()).hexdigest()[:16]}"
        if name not in module.globals:
            rows = [ir.Constant(row, [ir.Constant(ir.DoubleType(), value) for value in values]) for values in table]
            constant = ir.GlobalVariable(module, kind := ir.ArrayType(row, len(table)), name)
            constant.global_constant, constant.linkage = True, "internal"
            constant.initializer = ir.Constant(kind, rows)
        b, zero = self.builder, ir.Constant(ir.IntType(64), 0)
        places = [ir.Constant(ir.IntType(64), column) for column in range(len(table[0]))]
        loads = [b.load(b.gep(module.globals[name], [zero, index.value, place], inbounds=True)) for place in places]
        return [IRValue(b, load, np.float64) for load in loads]

    def fma(self, x: IRValue, y: Any, z: Any) -> IRValue:
        if self.strict:
            return x * y + z
        return self._intrinsic("llvm.fmuladd", x, x._with(y), x._with(z))

    def product_error(self, x: IRValue, y: IRValue, product: IRValue) -> IRValue:
        return self._intrinsic("llvm.fma", x, y, -product)

    def maximum(self, x: IRValue, y: IRValue) -> IRValue:
        return self._extremum("maximum", ">", x, x._with(y))

    def minimum(self, x: IRValue, y: IRValue) -> IRValue:
        return self._extremum("minimum", "<", x, x._with(y))

    def _extremum(self, name: str, operator: str, x: IRValue, y: IRValue) -> IRValue:
        if kind_of(x.dtype) == "f":
            return self._intrinsic(f"llvm.{name}", x, y)
        if kind_of(x.dtype) == "b":
            return x | y if name == "maximum" else x & y
        return self.where(x._compare(y, operator), x, y)

    def sqrt(self, x: IRValue) -> IRValue:
        return self._intrinsic("llvm.sqrt", x)

    def absolute(self, x: IRValue) -> IRValue:
        if kind_of(x.dtype) == "f":
            return self._intrinsic("llvm.fabs", x)
        return x if kind_of(x.dtype) in "ub" else self.where(x < 0, -x, x)

    def copysign(self, x: IRValue, y: Any) -> IRValue:
        return self._intrinsic("llvm.copysign", x, x._with(y))

    def floor(self, x: IRValue) -> IRValue:
        return self._intrinsic("llvm.floor", x)

    def ceil(self, x: IRValue) -> IRValue:
        return self._intrinsic("llvm.ceil", x)

    def trunc(self, x: IRValue) -> IRValue:
        return self._intrinsic("llvm.trunc", x)

    def rint(self, x: IRValue) -> IRValue:
        return self._intrinsic("llvm.rint", x)

    def quotient(self, x: IRValue, y: IRValue) -> IRValue:
        return x._binary(y, ("", "sdiv", "udiv"))

    def remainder(self, x: IRValue, y: IRValue) -> IRValue:
        if kind_of(x.dtype) == "f":
            return scalar_formulas.float_remainder(self, x, y)
        return x._binary(y, ("", "srem", "urem"))

    def bit_count(self, x: IRValue) -> IRValue:
        return self._intrinsic("llvm.ctpop", x)

    def leading_zeros(self, x: IRValue) -> IRValue:
        count = self._function("llvm.ctlz", x.value.type, [x.value.type, ir.IntType(1)], x.dtype)
        return IRValue(self.builder, self.builder.call(count, [x.value, ir.Constant(ir.IntType(1), 0)]), x.dtype)

    def half_bits(self, x: IRValue) -> IRValue:
        half = self.builder.fptrunc(x.value, ir.HalfType())
        return IRValue(self.builder, self.builder.bitcast(half, ir.IntType(16)), np.uint16)

    def from_half_bits(self, x: IRValue) -> IRValue:
        b = self.builder
        return IRValue(b, b.fpext(b.bitcast(x.value, ir.HalfType()), ir.FloatType()), np.float32)

    def make_complex(self, real: IRValue, imaginary: IRValue) -> IRComplex:
        return IRComplex(real, real._with(imaginary))

    def complex_product(self, x: IRComplex, y: IRComplex) -> IRComplex:
        """As NumPy computes it: of the two products of each part one is added unrounded, where the machine can."""
        real = self._intrinsic("llvm.fmuladd", x.real, y.real, -(x.imag * y.imag))
        return IRComplex(real, self._intrinsic("llvm.fmuladd", x.real, y.imag, x.imag * y.real))

    def libm(self, name: str, *args: IRValue) -> IRValue:
        function = ir.FunctionType(args[0].value.type, [x.value.type for x in args])
        module = self.builder.module
        callee = module.globals.get(name) or ir.Function(module, function, name)
        return IRValue(self.builder, self.builder.call(callee, [x.value for x in args]), args[0].dtype)

    def complex_libm(self, name: str, *args: IRComplex) -> IRComplex:
        parts = [part.value for z in args for part in (z.real, z.imag)]
        pair = ir.LiteralStructType([ir.DoubleType(), ir.DoubleType()])
        function = ir.FunctionType(pair, [part.type for part in parts])
        module = self.builder.module
        callee = module.globals.get("c" + name) or ir.Function(module, function, "c" + name)
        result = self.builder.call(callee, parts)
        return IRComplex(*[IRValue(self.builder, self.builder.extract_value(result, n), np.float64) for n in (0, 1)])

    def _intrinsic(self, name: str, *args: IRValue) -> IRValue:
        first = args[0]
        callee = self._function(name, first.value.type, [x.value.type for x in args], first.dtype)
        return IRValue(self.builder, self.builder.call(callee, [x.value for x in args]), first.dtype)

    def _function(self, name: str, result: ir.Type, arguments: Sequence[ir.Type], dtype: Any) -> ir.Function:
        name = f"{name}.{'f' if kind_of(dtype) == 'f' else 'i'}{8 * dtype.itemsize}"
        module = self.builder.module
        return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)


# --- sums -------------------------------------------------------------------------------------------


def _accumulated_type(operands: Sequence[Any]) -> Any:
    total, x = operands
    return total if total in _DTYPES and x == total else None


_register_type(scalars.accumulate, _accumulated_type)


@implement(scalars.accumulate, types.Any, types.Any)
def _lower_accumulate(context: Any, builder: ir.IRBuilder, call: Any, values: Sequence[ir.Value]) -> ir.Value:
    dtype = _DTYPES[call.return_type]
    x, y = (from_numba(builder, value, dtype) for value in values)
    if kind_of(dtype) == "c":
        result: Any = IRComplex(_reorderable_sum(x.real, y.real), _reorderable_sum(x.imag, y.imag))
    elif kind_of(dtype) == "f":
        result = _reorderable_sum(x, y)
    else:
        result = x | y if kind_of(dtype) == "b" else x + y
    return to_numba(context, builder, call.return_type, result)


def _reorderable_sum(x: IRValue, y: IRValue) -> IRValue:
    return IRValue(x.builder, x.builder.fadd(x.value, y.value, flags=("reassoc", "contract")), x.dtype)


register_module(scalars)
