"""The intrinsics of kernel text for `numba.cuda`: their types, and their machine code as LLVM instructions for NVVM.

It must not know formulas: it evaluates those of the CPU on LLVM values. Cannot be imported in the simulator.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cuda
from numba.cuda import cudadecl, cudaimpl

from functad.backends.cpu.scalars import elementary as scalars
from functad.backends.cpu.scalars import vector_calls
from functad.backends.cpu.scalars.elementary_numba import (
    IRArithmetic,
    IRComplex,
    IRValue,
    from_numba,
    llvm_type,
    to_numba,
)
from functad.backends.cuda.scalars import complex_functions, words
from functad.backends.cuda.scalars.words import WIDTH
from functad.dtypes import kind_of
from functad.primitives.kernels.plain_arithmetic import PLAIN

# The package numba-cuda brings its own types; the numba.cuda that is a part of Numba uses Numba's.
_OWNER = "numba.cuda" if find_spec("numba.cuda.typing") else "numba.core"
types: Any = import_module(f"{_OWNER}.types")
templates: Any = import_module(f"{_OWNER}.typing.templates")

_TYPES: dict[Any, Any] = {
    np.dtype(np.bool_): types.boolean,
    **{np.dtype(name): getattr(types, name) for name in ("int8", "int16", "int32", "int64")},
    **{np.dtype(name): getattr(types, name) for name in ("uint8", "uint16", "uint32", "uint64")},
    **{np.dtype(name): getattr(types, name) for name in ("float32", "float64", "complex64", "complex128")},
}
_DTYPES = {numba_type: dtype for dtype, numba_type in _TYPES.items()}

Intrinsic = Callable[..., Any]


def on_cuda(intrinsics: Mapping[str, Intrinsic]) -> dict[str, Intrinsic]:
    """Functions that CUDA kernels can call in place of these intrinsics."""
    with _lock:
        converted = {name: _converted(intrinsic) for name, intrinsic in intrinsics.items()}
    # Numba's own package of CUDA cannot compile Python's `min` and `max`, which index arithmetic uses.
    return {**converted, "min": converted["minimum"], "max": converted["maximum"]}


def _converted(intrinsic: Intrinsic) -> Intrinsic:
    if intrinsic not in _conversions:
        if intrinsic in _OF_VECTORS:
            _conversions[intrinsic] = _OF_VECTORS[intrinsic]()
        elif intrinsic is scalars.accumulate:
            _conversions[intrinsic] = _of_formula(_sum, "accumulate")
        elif hasattr(intrinsic, "formula"):
            _conversions[intrinsic] = _of_formula(intrinsic.formula, intrinsic.__name__)
        else:
            _conversions[intrinsic] = _of_routine(intrinsic)
    return _conversions[intrinsic]


_lock = threading.Lock()
_conversions: dict[Intrinsic, Intrinsic] = {}
_namespaces: dict[str, dict[str, Any]] = {}


def _of_routine(intrinsic: Any) -> Intrinsic:
    """A device function with the text of a routine, whose intrinsics are those of CUDA."""
    known = intrinsic.__module__ in _namespaces
    namespace = _namespaces.setdefault(intrinsic.__module__, dict(intrinsic.__globals__))
    copy = FunctionType(intrinsic.__code__, namespace, intrinsic.__name__)
    device: Intrinsic = cuda.jit(device=True)(copy)
    _conversions[intrinsic] = device
    if not known:
        for name, value in intrinsic.__globals__.items():
            if hasattr(value, "formula") or hasattr(value, "routine"):
                namespace[name] = _converted(value)
    return device


def _of_formula(formula: Any, name: str) -> Intrinsic:
    """A function that Numba compiles to the instructions of a formula, at every call."""

    def intrinsic(*operands: Any) -> Any:
        raise NotImplementedError(f"{name} runs in CUDA kernels only")

    intrinsic.__name__ = intrinsic.__qualname__ = name

    class Template(templates.AbstractTemplate):
        key = intrinsic

        def generic(self, arguments: Sequence[Any], keywords: Any) -> Any:
            operands = [types.unliteral(a) for a in arguments]
            if keywords or any(t not in _DTYPES for t in operands):
                return None
            return templates.signature(_result_type(formula, [_DTYPES[t] for t in operands]), *operands)

    cudadecl.registry.register_global(intrinsic, types.Function(Template))

    @cudaimpl.registry.lower(intrinsic, types.VarArg(types.Any))
    def lower_call(context: Any, builder: ir.IRBuilder, call: Any, values: Sequence[ir.Value]) -> ir.Value:
        builder = _Builder(builder)
        operands = [from_numba(builder, v, _DTYPES[t]) for v, t in zip(values, call.args)]
        return to_numba(context, builder, call.return_type, formula(CudaArithmetic(builder), *operands))

    return intrinsic


# --- four elements at a time ----------------------------------------------------------------------------


def _load4() -> Intrinsic:
    """`words.load4` as one instruction: the address must be that of a whole vector."""

    def load4(array: Any, first: int) -> Any:
        raise NotImplementedError("load4 runs in CUDA kernels only")

    class Template(templates.AbstractTemplate):
        key = load4

        def generic(self, arguments: Sequence[Any], keywords: Any) -> Any:
            array, _ = arguments
            return templates.signature(types.UniTuple(array.dtype, WIDTH), array, types.int64)

    cudadecl.registry.register_global(load4, types.Function(Template))

    @cudaimpl.registry.lower(load4, types.Array, types.int64)
    def lower_call(context: Any, builder: ir.IRBuilder, call: Any, values: Sequence[ir.Value]) -> Any:
        array, first = values
        pointer, alignment = _vector_pointer(context, builder, call.args[0], array, first)
        parts = _parts(builder, builder.load(pointer, align=alignment), context.get_data_type(call.args[0].dtype))
        return context.make_tuple(builder, call.return_type, parts)

    return load4


def _store4() -> Intrinsic:
    """`words.store4` as one instruction: the address must be that of a whole vector."""

    def store4(array: Any, first: int, *values: Any) -> None:
        raise NotImplementedError("store4 runs in CUDA kernels only")

    class Template(templates.AbstractTemplate):
        key = store4

        def generic(self, arguments: Sequence[Any], keywords: Any) -> Any:
            array = arguments[0]
            return templates.signature(types.none, array, types.int64, *[array.dtype] * WIDTH)

    cudadecl.registry.register_global(store4, types.Function(Template))

    @cudaimpl.registry.lower(store4, types.Array, types.int64, types.VarArg(types.Any))
    def lower_call(context: Any, builder: ir.IRBuilder, call: Any, values: Sequence[ir.Value]) -> Any:
        array, first, *parts = values
        pointer, alignment = _vector_pointer(context, builder, call.args[0], array, first)
        builder.store(_joined(builder, parts), pointer, align=alignment)
        return context.get_dummy_value()

    return store4


def _vector_pointer(
    context: Any, builder: ir.IRBuilder, array_type: Any, array: ir.Value, first: ir.Value
) -> tuple[ir.Value, int]:
    """The address of four elements as that of what they are loaded as, and to how many bytes it is aligned.

    NVVM loads no more than two elements of less than 32 bits at a time, so those are loaded as one integer.
    """
    element, bits = context.get_data_type(array_type.dtype), WIDTH * array_type.dtype.bitwidth
    whole = ir.IntType(bits) if array_type.dtype.bitwidth < 32 else ir.VectorType(element, WIDTH)
    held = context.make_array(array_type)(context, builder, array)
    return builder.bitcast(builder.gep(held.data, [first]), whole.as_pointer()), bits // 8


def _parts(builder: ir.IRBuilder, whole: ir.Value, element: ir.Type) -> list[ir.Value]:
    """The four elements of what was loaded."""
    if isinstance(whole.type, ir.VectorType):
        return [builder.extract_element(whole, ir.Constant(ir.IntType(32), k)) for k in range(WIDTH)]
    shifts = [ir.Constant(whole.type, k * element.width) for k in range(WIDTH)]
    return [builder.trunc(builder.lshr(whole, shift), element) for shift in shifts]


def _joined(builder: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    """What is stored for four elements."""
    element = parts[0].type
    if not isinstance(element, ir.IntType) or element.width >= 32:
        vector = ir.Constant(ir.VectorType(element, WIDTH), ir.Undefined)
        for k, part in enumerate(parts):
            vector = builder.insert_element(vector, part, ir.Constant(ir.IntType(32), k))
        return vector
    kind = ir.IntType(WIDTH * element.width)
    whole = ir.Constant(kind, 0)
    for k, part in enumerate(parts):
        whole = builder.or_(whole, builder.shl(builder.zext(part, kind), ir.Constant(kind, k * element.width)))
    return whole


_OF_VECTORS: dict[Intrinsic, Callable[[], Intrinsic]] = {words.load4: _load4, words.store4: _store4}


# --- arrays for users' functions ------------------------------------------------------------------------


def view() -> Intrinsic:
    """`array_view` as Numba describes an array: its own `reshape` calls a function that nobody links."""

    def array_view(array: Any, start: int, shape: tuple[int, ...]) -> Any:
        raise NotImplementedError("array_view runs in CUDA kernels only")

    class Template(templates.AbstractTemplate):
        key = array_view

        def generic(self, arguments: Sequence[Any], keywords: Any) -> Any:
            array, _, shape = arguments
            sizes = types.UniTuple(types.int64, len(shape))
            return templates.signature(types.Array(array.dtype, len(shape), "C"), array, types.int64, sizes)

    cudadecl.registry.register_global(array_view, types.Function(Template))

    @cudaimpl.registry.lower(array_view, types.Array, types.int64, types.UniTuple)
    def lower_call(context: Any, builder: ir.IRBuilder, call: Any, values: Sequence[ir.Value]) -> Any:
        array, start, shape = values
        held = context.make_array(call.args[0])(context, builder, array)
        made = context.make_array(call.return_type)(context, builder)
        sizes = [builder.extract_value(shape, k) for k in range(len(call.args[2]))]
        strides = [held.itemsize]
        for size in sizes[:0:-1]:
            strides.insert(0, builder.mul(strides[0], size))
        count = strides[0].type(1)
        for size in sizes:
            count = builder.mul(count, size)
        made.meminfo, made.parent, made.nitems, made.itemsize = held.meminfo, held.parent, count, held.itemsize
        made.data = builder.gep(held.data, [start])
        made.shape, made.strides = (_array_of(builder, parts) for parts in (sizes, strides))
        return made._getvalue()

    return array_view


def _array_of(builder: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    whole = ir.Constant(ir.ArrayType(parts[0].type, len(parts)), ir.Undefined)
    for k, part in enumerate(parts):
        whole = builder.insert_value(whole, part, k)
    return whole


def _sum(k: Any, total: Any, x: Any) -> Any:
    if kind_of(total.dtype) == "c":
        return k.make_complex(total.real + x.real, total.imag + x.imag)
    return total | x if kind_of(total.dtype) == "b" else total + x


def _result_type(formula: Any, dtypes: Sequence[Any]) -> Any:
    """The type of a formula's result, found by evaluating it on plain numbers."""
    with np.errstate(all="ignore"):
        result = formula(PLAIN, *[d.type(1) for d in dtypes])
    if isinstance(result, tuple):
        return types.BaseTuple.from_types([_TYPES[r.dtype] for r in result])
    return _TYPES[result.dtype]


# LLVM's intrinsics that NVVM does not have, and NVIDIA's device library instead; float32 functions end in f.
_LIBDEVICE = {
    "llvm.sqrt": "sqrt",
    "llvm.fabs": "fabs",
    "llvm.copysign": "copysign",
    "llvm.floor": "floor",
    "llvm.ceil": "ceil",
    "llvm.trunc": "trunc",
    "llvm.rint": "rint",
    "llvm.fma": "fma",
    "llvm.fmuladd": "fma",
}


class _Builder(ir.IRBuilder):
    """Writes where another builder writes, without the instruction `fneg`, which NVVM does not have."""

    def __init__(self, other: ir.IRBuilder) -> None:
        self.__dict__ = other.__dict__

    def fneg(self, x: ir.Value, name: str = "", flags: Sequence[str] = ()) -> ir.Value:
        return self.fsub(ir.Constant(x.type, -0.0), x, name, flags)


class CudaArithmetic(IRArithmetic):
    """What a formula may do besides operators, in the language of NVVM."""

    prefers_libm = True
    has_parts = False

    def rarely(
        self,
        condition: IRValue,
        usual: IRValue,
        formula: Callable[..., Any],
        *operands: IRValue,
        optimized: bool = True,
    ) -> IRValue:
        """A branch as it stands: there are no loops here that LLVM could turn into vector instructions."""
        builder, before = self.builder, self.builder.block
        with builder.if_then(condition.value, likely=False):
            unusual = formula(self, *operands).value
            after = builder.block
        value = builder.phi(usual.value.type)
        value.add_incoming(usual.value, before)
        value.add_incoming(unusual, after)
        return IRValue(builder, value, usual.dtype)

    def value_at(self, table: Sequence[float], index: IRValue, dtype: Any) -> IRValue:
        """Read from global memory, where a table fills a cache line or two."""
        builder, number = self.builder, llvm_type(dtype)
        module, array = builder.module, ir.ArrayType(number, len(table))
        name = f"functad_table_{vector_calls.table_name(number, table)}"
        if name not in module.globals:
            values = ir.GlobalVariable(module, array, name, addrspace=1)  # the memory that all blocks see
            values.global_constant, values.linkage = True, "internal"
            values.initializer = ir.Constant(array, [ir.Constant(number, value) for value in table])
        place = builder.and_(index.value, index.value.type(len(table) - 1))
        found = builder.load(builder.gep(module.globals[name], [place.type(0), place], inbounds=True))
        return IRValue(builder, found, dtype)

    def remainder(self, x: IRValue, y: IRValue) -> IRValue:
        return self._libdevice("fmod", x, y) if kind_of(x.dtype) == "f" else super().remainder(x, y)

    def libm(self, name: str, *args: IRValue) -> IRValue:
        return self._libdevice(name, *args)

    def complex_libm(self, name: str, *args: IRComplex) -> IRComplex:
        parts = [part for z in args for part in (z.real, z.imag)]
        return IRComplex(*complex_functions.FUNCTIONS[name](self, *parts))

    def _extremum(self, name: str, operator: str, x: IRValue, y: IRValue) -> IRValue:
        if kind_of(x.dtype) != "f":
            return super()._extremum(name, operator, x, y)
        found = self._libdevice("fmax" if name == "maximum" else "fmin", x, y)  # ignoring NaN; +0 is above -0
        return self.where((x != x) | (y != y), x + y, found)

    def _intrinsic(self, name: str, *args: IRValue) -> IRValue:
        if name in _LIBDEVICE:
            return self._libdevice(_LIBDEVICE[name], *args)
        return super()._intrinsic(name, *args)

    def _libdevice(self, name: str, *args: IRValue) -> IRValue:
        dtype = args[0].dtype
        kind = args[0].value.type
        full = f"__nv_{name}{'f' if dtype == np.float32 else ''}"
        module = self.builder.module
        callee = module.globals.get(full) or ir.Function(module, ir.FunctionType(kind, [kind] * len(args)), full)
        return IRValue(self.builder, self.builder.call(callee, [x.value for x in args]), dtype)
