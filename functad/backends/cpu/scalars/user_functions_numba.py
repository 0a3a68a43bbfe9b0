"""The functions of users, and `array_view`, for Numba: what a kernel's text calls becomes calls of compiled code.

Knows how Numba lays out an array and compiles a function; nothing of what the functions compute.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba.core import cgutils, compiler, types
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import AbstractTemplate, signature
from numba.np.arrayobj import make_array, populate_array

from functad.backends.cpu.compile.frontend import BoolPointer, PackedPointer
from functad.backends.cpu.scalars.registry_numba import declare, declare_function, implement
from functad.backends.cpu.scalars.user_functions import array_view
from functad.primitives.user_kernels import UserFunction


@declare(array_view)
class _ArrayView(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        pointer, _, shape = arguments
        element = types.boolean if pointer == BoolPointer else pointer.dtype
        sizes = types.UniTuple(types.intp, len(shape))
        return signature(types.Array(element, len(shape), "C"), pointer, types.intp, sizes)


@implement(array_view, types.CPointer, types.Integer, types.UniTuple)
@implement(array_view, PackedPointer, types.Integer, types.UniTuple)
def _array_view(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
    pointer, start, shape = arguments
    array = make_array(sig.return_type)(context, builder)
    itemsize = context.get_constant(types.intp, context.get_abi_sizeof(pointer.type.pointee))
    sizes = cgutils.unpack_tuple(builder, shape)
    strides = [itemsize]
    for size in sizes[:0:-1]:
        strides.insert(0, builder.mul(strides[0], size))
    populate_array(
        array, data=builder.gep(pointer, [start]), shape=sizes, strides=strides, itemsize=itemsize, meminfo=None
    )
    return array._getvalue()


@cache
def in_kernels(function: UserFunction) -> Callable[..., Any]:
    """What stands for a user's function in the text of kernels: compiled by Numba as the user would, and linked in."""
    compiled: dict[tuple[types.Type, ...], Any] = {}

    def version(arguments: tuple[types.Type, ...]) -> Any:
        if arguments not in compiled:
            # A function compiled within another one's compilation inherits its flags; kernels have no heap.
            flags: Any = compiler.Flags()
            flags.nrt = True
            with ConfigStack().enter(flags):
                function.compiled.compile(arguments)  # type: ignore[attr-defined]
            compiled[arguments] = function.compiled.overloads[arguments]  # type: ignore[attr-defined]
        return compiled[arguments]

    def stand_in(*args: Any) -> Any:
        return function.python(*args)

    def signature_of(arguments: tuple[types.Type, ...]) -> Any:
        plain = tuple(types.unliteral(argument) for argument in arguments)
        return signature(version(plain).signature.return_type, *plain)

    declare_function(stand_in, signature_of)

    @implement(stand_in, types.VarArg(types.Any))
    def call(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
        found = version(sig.args)
        context.active_code_library.add_linking_library(found.library)
        return context.call_internal(builder, found.fndesc, sig, arguments)

    return stand_in
