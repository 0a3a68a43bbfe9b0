"""The intrinsics of kernel text for matrix products for Numba: a call through the handle. Importing it registers them.

This file must not know who computes the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from functad.backends.cpu.products import in_kernels as gemm_scalars
from functad.backends.cpu.scalars.registry_numba import declare_function, implement

_WORD = ir.IntType(64)
_PARAMETERS = (
    "blas", "ta", "tb", "m", "n", "k", "alpha", "a", "a_off", "lda", "b", "b_off", "ldb", "beta", "c", "c_off", "ldc",
)  # fmt: skip


def _declare(intrinsic: Callable[..., None], parameters: Sequence[str], special: Mapping[str, types.Type]) -> Any:
    """Make calls of the intrinsic known to Numba, with words as arguments but for the special ones; their signature."""
    wanted = signature(types.none, *(special.get(name, types.int64) for name in parameters))
    # The call's arguments are converted to these types, as far as Numba can.
    declare_function(intrinsic, lambda arguments: wanted if len(arguments) == len(parameters) else None)
    return wanted


def _call(builder: ir.IRBuilder, routine: ir.Value, arguments: Sequence[ir.Value]) -> None:
    """Call the routine whose address the first word at `routine` is. Pointers become words."""
    entry_type = ir.FunctionType(ir.VoidType(), [_WORD] * len(arguments))
    entry = builder.inttoptr(builder.load(routine), entry_type.as_pointer())
    builder.call(entry, [w if w.type == _WORD else builder.ptrtoint(w, _WORD) for w in arguments])


def _register(intrinsic: Callable[..., None], element: types.Type) -> None:
    special: dict[str, types.Type] = {name: types.CPointer(element) for name in "abc"}
    special |= {"alpha": element, "beta": element, "blas": types.CPointer(types.int64)}

    @implement(intrinsic, *_declare(intrinsic, _PARAMETERS, special).args)
    def call(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        given = dict(zip(_PARAMETERS, values))
        for name in ("alpha", "beta"):
            # Numba's way to store a value, which a complex one needs.
            place = cgutils.alloca_once(builder, context.get_data_type(element))
            builder.store(context.get_value_as_data(builder, element, given[name]), place)
            given[name] = place
        for name in "abc":
            given[name] = builder.gep(given[name], [given.pop(f"{name}_off")])
        _call(builder, given["blas"], list(given.values()))
        return context.get_dummy_value()


_register(gemm_scalars.gemm_f32, types.float32)
_register(gemm_scalars.gemm_f64, types.float64)
_register(gemm_scalars.gemm_c64, types.complex64)
_register(gemm_scalars.gemm_c128, types.complex128)


_PLACES_PARAMETERS = (
    "blas", "rows", "n", "taps", "features", "places", "places_off", "pitch", "a", "zeros", "zeros_off", "b", "b_off",
    "c", "c_off", "ldc", "ahead", "step",
)  # fmt: skip


def _register_places(intrinsic: Callable[..., None], element: types.Type) -> None:
    special: dict[str, types.Type] = {name: types.CPointer(element) for name in ("a", "zeros", "b", "c")}
    special |= {name: types.CPointer(types.int64) for name in ("blas", "places")}

    @implement(intrinsic, *_declare(intrinsic, _PLACES_PARAMETERS, special).args)
    def call(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        given = dict(zip(_PLACES_PARAMETERS, values))
        given["ahead"] = builder.gep(given["a"], [given["ahead"]])
        for name in ("places", "zeros", "b", "c"):
            given[name] = builder.gep(given[name], [given.pop(f"{name}_off")])
        _call(builder, given["blas"], list(given.values()))
        return context.get_dummy_value()


_register_places(gemm_scalars.gemm_places_f32, types.float32)
_register_places(gemm_scalars.gemm_places_f64, types.float64)


_WINDOWS_PARAMETERS = (
    "blas", "rows", "vectors", "lanes", "terms", "table", "table_off", "places_off", "x", "x_off", "a", "a_off", "lda",
    "added", "c", "c_off", "ldc",
)  # fmt: skip


def _register_windows(intrinsic: Callable[..., None], element: types.Type) -> None:
    special: dict[str, types.Type] = {name: types.CPointer(element) for name in "xac"}
    special |= {name: types.CPointer(types.int64) for name in ("blas", "table")}

    @implement(intrinsic, *_declare(intrinsic, _WINDOWS_PARAMETERS, special).args)
    def call(context: Any, builder: ir.IRBuilder, sig: Any, values: Any) -> ir.Value:
        given = dict(zip(_WINDOWS_PARAMETERS, values))
        del given["lanes"]  # the routine knows
        given["places_off"] = builder.gep(given["table"], [given["places_off"]])
        for name in ("table", "x", "a", "c"):
            given[name] = builder.gep(given[name], [given.pop(f"{name}_off")])
        _call(builder, given["blas"], list(given.values()))
        return context.get_dummy_value()


_register_windows(gemm_scalars.gemm_windows_f32, types.float32)
_register_windows(gemm_scalars.gemm_windows_f64, types.float64)
