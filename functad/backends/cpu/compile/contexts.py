"""What the compiler of kernels knows of Numba: the types of intrinsics and their code, for numbers, tuples and ranges.

Importing all of Numba's own declarations would be a third of the first compilation of a process; what it looks up again
and again is remembered here. This file must not know how a function is compiled.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from types import BuiltinFunctionType
from typing import Any

from llvmlite import ir
from numba.core import fastmathpass, optional, types, typing
from numba.core.cpu import CPUContext
from numba.core.typing import builtins as typed_builtins
from numba.core.typing import cmathdecl, mathdecl, templates
from numba.cpython import builtins, cmathimpl, iterators, mathimpl, numbers, rangeobj, tupleobj

from functad.backends.cpu.compile.counting import CountingFunction, field
from functad.backends.cpu.scalars.registry_numba import code_of_intrinsics, types_of_intrinsics

_IN_PYTHON = frozenset({templates._TemplateTargetHelperMixin, templates._OverloadFunctionTemplate})
# Importing these declares to Numba what it knows of numbers, tuples and ranges.
_DECLARED = (typed_builtins, builtins, iterators, numbers, optional, rangeobj, tupleobj)


class _Loader(templates.RegistryLoader):
    # Leaves out what Numba defines in Python (`overload`): most of it is about arrays and strings, and to compile any
    # of it is to load all of Numba.
    def new_registrations(self, name: str) -> Iterator[Any]:
        for item in super().new_registrations(name):
            kinds = item[1].templates if name == "globals" and isinstance(item[1], types.Function) else (item,)
            # Not by `issubclass`, which asks all classes below these two each time: 12 ms in all.
            if not any(isinstance(kind, type) and _IN_PYTHON.intersection(kind.__mro__) for kind in kinds):
                yield item


class KernelTyping(typing.Context):
    """The types of what kernels consist of. Remembering those of calls saves a third of the time of a kernel."""

    def init(self) -> None:
        self._registries[templates.builtin_registry] = _Loader(templates.builtin_registry)

    def load_additional_registries(self) -> None:
        self.install_registry(mathdecl.registry)
        self.install_registry(cmathdecl.registry)
        self.install_registry(types_of_intrinsics)

    def _load_builtins(self) -> None:
        self.install_registry(templates.builtin_registry)

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        key = (function, tuple(arguments))
        if keywords:
            return super().resolve_function_type(function, arguments, keywords)
        if key not in _typing_memo:
            found = super().resolve_function_type(function, arguments, keywords)
            if found is None:
                return None
            _typing_memo[key] = found
        return _typing_memo[key]

    def resolve_value_type(self, value: Any) -> Any:
        # What is declared first: Numba would first import whatever else the value might be.
        found = (self._lookup_global(value) if callable(value) else None) or super().resolve_value_type(value)
        if value is range:
            made: Any = CountingFunction
        elif isinstance(value, BuiltinFunctionType) and value.__module__ == operator.add.__module__:
            made = _Operator if type(found) is types.Function else lambda found: found
        else:
            return found
        if value not in _operator_memo:
            _operator_memo[value] = made(found)
        return _operator_memo[value]


class _Operator(types.Function):
    # The type of an operator, which Numba's lowering asks once more for the types of each call.
    _memo: dict[Any, Any]

    def __init__(self, shared: types.Function) -> None:
        self.__dict__ = {**shared.__dict__, "_memo": {}}

    def get_call_type(self, context: Any, arguments: Any, keywords: Any) -> Any:
        key = tuple(arguments)
        if keywords:
            return super().get_call_type(context, arguments, keywords)
        if key not in self._memo:
            self._memo[key] = super().get_call_type(context, arguments, keywords)
        return self._memo[key]


class KernelTarget(CPUContext):
    """The code of what kernels consist of, and the sizes of types, which Numba asks LLVM for at every variable."""

    def load_additional_registries(self) -> None:
        self.install_registry(mathimpl.registry)
        self.install_registry(cmathimpl.registry)
        self.install_registry(code_of_intrinsics)

    def post_lowering(self, mod: Any, library: Any) -> None:
        # Without Numba's runtime, which counts references.
        if self.fastmath:
            fastmathpass.rewrite_module(mod, self.fastmath)

    def pair_first(self, builder: ir.IRBuilder, val: ir.Value, ty: Any) -> ir.Value:
        return field(builder, val, 0)

    def pair_second(self, builder: ir.IRBuilder, val: ir.Value, ty: Any) -> ir.Value:
        return field(builder, val, 1)

    def get_abi_sizeof(self, value_type: ir.Type) -> int:
        text = str(value_type)
        if text not in _size_memo:
            _size_memo[text] = super().get_abi_sizeof(value_type)
        return _size_memo[text]

    def get_function(self, function: Any, sig: Any, _firstcall: bool = True) -> Any:
        key = (function, sig)
        if key not in _implementation_memo:
            _implementation_memo[key] = super().get_function(function, sig, _firstcall)._imp
        return _Implementation(_implementation_memo[key], self, sig)


class _Implementation:
    # What writes the instructions of an operation on given types. Numba looks at its parameters each time.
    def __init__(self, implementation: Any, context: Any, sig: Any) -> None:
        self._imp, self._context, self._sig = implementation, context, sig
        self._libraries = getattr(implementation, "libs", ())

    def of(self, context: Any) -> _Implementation:
        return _Implementation(self._imp, context, self._sig)

    def __call__(self, builder: ir.IRBuilder, arguments: Any, loc: Any = None) -> Any:
        return self.write(self._context, builder, arguments, loc)

    def write(self, context: Any, builder: ir.IRBuilder, arguments: Any, loc: Any = None) -> Any:
        result = self._imp(context, builder, self._sig, arguments, loc=loc)
        if self._libraries:
            context.add_linking_libs(self._libraries)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._imp, name)


_typing_memo: dict[Any, Any] = {}
_implementation_memo: dict[Any, Any] = {}
_operator_memo: dict[Any, Any] = {}
_size_memo: dict[str, int] = {}
