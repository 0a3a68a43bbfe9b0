"""From Python functions to LLVM IR: Numba's type inference and lowering, without its wrappers and its own caches.

This file must not know what a kernel computes, nor how IR becomes machine code.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import codegen, compiler, interpreter, transforms, types, typing
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.cpu import CPUContext
from numba.core.cpu_options import FastMathOptions
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.funcdesc import FunctionDescriptor
from numba.core.imputils import lower_builtin
from numba.core.registry import cpu_target
from numba.core.typed_passes import NativeLowering, NopythonTypeInference
from numba.core.typing.templates import AbstractTemplate, infer, infer_global, signature
from numba.core.untyped_passes import FixupArgs, IRProcessing

from functad.backends.cpu.compile.counting import CountingFunction
from functad.errors import CompilationError

PythonFunction = Callable[..., Any]


class Specialization(NamedTuple):
    """One Python function for one list of argument types, as an LLVM module that is not yet text."""

    library: Library
    fndesc: FunctionDescriptor
    return_type: types.Type

    @property
    def module(self) -> ir.Module:
        return self.library.module

    @property
    def function(self) -> ir.Function:
        return self.module.get_global(self.fndesc.mangled_name)


class PackedPointer(types.Type):
    """A pointer whose elements look different in memory than in registers: bool (a byte) and float16 (half)."""

    mutable = True

    def __init__(self, name: str, element: types.Type, memory: ir.Type) -> None:
        super().__init__(name=name)
        self.element = element
        self.memory = memory


BoolPointer = PackedPointer("BoolPointer", types.boolean, ir.IntType(8))
HalfPointer = PackedPointer("HalfPointer", types.float32, ir.HalfType())


def pointer_type(dtype: np.dtype[Any]) -> types.Type:
    """The Numba type of a pointer to elements of the dtype."""
    packed = {"bool": BoolPointer, "float16": HalfPointer}.get(dtype.name)
    return packed or types.CPointer(getattr(types, dtype.name))


def lower(
    function: PythonFunction,
    arguments: tuple[types.Type, ...],
    result: types.Type | None = None,
    *,
    distinct_pointers: bool = False,
    fused: bool = True,
) -> Specialization:
    """The LLVM module of the function for arguments of these types.

    Args:
        function: a Python function in Numba's language: no arrays, no objects, a variable has one type.
        arguments: the Numba types of the arguments.
        result: the type to convert the result to; inferred if it is not given.
        distinct_pointers: whether no two pointer arguments ever reach the same memory.
        fused: whether any product may be added without being rounded first; formulas and sums of products always may.

    Raises:
        CompilationError: Numba does not understand the function.
    """
    with global_compiler_lock:
        library = Library(_target.codegen(), function.__name__)
        flags: Any = compiler.Flags()
        flags.no_compile = True
        flags.no_cpython_wrapper = True
        flags.no_cfunc_wrapper = True
        flags.nrt = False
        flags.error_model = "numpy"
        flags.fastmath = FastMathOptions({"contract"} if fused else set())
        flags.noalias = distinct_pointers
        pipeline = _Pipeline(_typing, _target, library, arguments, result, flags, {})
        try:
            pipeline.compile_extra(function)
        except CompilationError:
            raise
        except (
            Exception
        ) as problem:  # Numba also raises KeyError, AssertionError and so on for what it does not foresee
            where = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
            raise CompilationError(f"{function.__name__} ({where}) cannot be compiled: {problem}") from problem
    state = pipeline.state
    return Specialization(library, state.cr.fndesc, state.return_type)


def refresh() -> None:
    """Make Numba aware of the functions registered since the last call."""
    with global_compiler_lock:
        _typing.refresh()
        _target.refresh()


def subroutine(function: PythonFunction, *, inline: bool = True) -> PythonFunction:
    """Let compiled functions call the plain Python function; it is compiled once for each list of argument types.

    Args:
        function: a Python function in Numba's language, not recursive. It remains what it is.
        inline: whether every call is replaced by the function's body.

    Returns:
        The function, so that this serves as a decorator.
    """
    compiled: dict[tuple[types.Type, ...], Specialization] = {}

    def version(arguments: tuple[types.Type, ...]) -> Specialization:
        if arguments not in compiled:
            lowered = lower(function, arguments)
            lowered.function.linkage = "linkonce_odr"
            if inline:
                lowered.function.attributes.add("alwaysinline")
            compiled[arguments] = lowered
        return compiled[arguments]

    class Template(AbstractTemplate):
        key = function

        def generic(self, arguments: tuple[types.Type, ...], keywords: dict[str, types.Type]) -> Any:
            if keywords:
                return None
            plain = tuple(types.unliteral(argument) for argument in arguments)
            return signature(version(plain).return_type, *plain)

    infer(Template)
    infer_global(function, types.Function(Template))

    @lower_builtin(function, types.VarArg(types.Any))
    def call(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
        lowered = version(sig.args)
        context.active_code_library.add_linking_library(lowered.library)
        return context.call_internal(builder, lowered.fndesc, sig, arguments)

    return function


class Library(codegen.CodeLibrary):
    """What Numba takes for a library of machine code: only holds IR, and the libraries that the IR calls."""

    def __init__(self, owner: Any, name: str) -> None:
        super().__init__(owner, name)
        self.linked: list[Any] = []
        self._text = ""

    def add_ir_module(self, module: ir.Module) -> None:
        # Numba's environments hold Python objects, which no function here uses; their symbols are not exported.
        for value in module.global_values:
            if value.name.startswith("_ZN08NumbaEnv"):
                value.linkage = "internal"
        self.module = module

    def add_linking_library(self, library: Any) -> None:
        if library not in self.linked:
            self.linked.append(library)

    def finalize(self) -> None:
        self._finalized = True

    def get_function(self, name: str) -> ir.Function:
        return self.module.get_global(name)

    def get_llvm_str(self) -> str:
        # Only asked when nothing is added any more; what many kernels call is asked for each of them.
        self._text = self._text or str(self.module)
        return self._text

    def get_asm_str(self) -> str:
        raise NotImplementedError("the library holds IR, no machine code")

    def _get_module_for_linking(self) -> llvm.ModuleRef:
        # Called when a function that Numba compiles on its own (njit) calls a subroutine.
        module = llvm.parse_assembly(self.get_llvm_str())
        for library in self.linked:
            module.link_in(library._get_module_for_linking(), preserve=True)
        return module


class _Interpreter(interpreter.Interpreter):
    # Numba then looks for `with`, lists and dictionaries to rewrite: only long lists of arguments become lists here.
    def post_process(self, peepholes: Any, function: Any) -> Any:
        spreads = any(instruction.opname == "CALL_FUNCTION_EX" for instruction in self.bytecode.table.values())
        return super().post_process(peepholes, function) if spreads else function


@register_pass(mutates_CFG=True, analysis_only=False)
class _Translate(FunctionPass):
    # Bytecode to Numba's IR. How long variables live matters to what counts references, and to generators.
    _name = "functad_translate"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.func_ir = _Interpreter(state.func_id).interpret(state.bc)
        if state.func_ir.is_generator:
            return bool(IRProcessing().run_pass(state))
        state.func_ir.blocks = transforms.canonicalize_cfg(state.func_ir.blocks)
        return True


class _Pipeline(compiler.CompilerBase):
    # Without SSA, rewrites, legality checks and annotations: two thirds of the usual time for such functions.
    def define_pipelines(self) -> list[PassManager]:
        passes = PassManager("functad")
        for stage in (_Translate, FixupArgs, NopythonTypeInference, NativeLowering):
            passes.add_pass(stage, stage.__name__)
        passes.finalize()
        return [passes]


@register_default(PackedPointer)
class _PackedPointerModel(models.PrimitiveModel):
    def __init__(self, manager: Any, pointer: PackedPointer) -> None:
        super().__init__(manager, pointer, pointer.memory.as_pointer())


@infer_global(operator.getitem)
class _GetPacked(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        pointer, index = arguments
        if isinstance(pointer, PackedPointer) and isinstance(index, types.Integer):
            return signature(pointer.element, pointer, types.intp)
        return None


@infer_global(operator.setitem)
class _SetPacked(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        pointer, index, _ = arguments
        if isinstance(pointer, PackedPointer) and isinstance(index, types.Integer):
            return signature(types.none, pointer, types.intp, pointer.element)
        return None


@lower_builtin(operator.getitem, PackedPointer, types.Integer)
def _load_packed(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
    pointer, index = arguments
    value = builder.load(builder.gep(pointer, [index]))
    if sig.args[0] == BoolPointer:
        return builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
    return builder.fpext(value, ir.FloatType())


@lower_builtin(operator.setitem, PackedPointer, types.Integer, types.Any)
def _store_packed(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> None:
    pointer, index, value = arguments
    convert = builder.zext if sig.args[0] == BoolPointer else builder.fptrunc
    builder.store(convert(value, sig.args[0].memory), builder.gep(pointer, [index]))


class _Typing(typing.Context):
    # Shares Numba's own state, and remembers the types of calls: that is a third of the time of a kernel.
    def __init__(self, shared: typing.Context) -> None:
        self.__dict__ = shared.__dict__

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
        if value is range:
            if range not in _operator_memo:
                _operator_memo[range] = CountingFunction(super().resolve_value_type(range))
            return _operator_memo[range]
        if not isinstance(value, BuiltinFunctionType) or value.__module__ != operator.add.__module__:
            return super().resolve_value_type(value)
        if value not in _operator_memo:
            found = super().resolve_value_type(value)
            _operator_memo[value] = _Operator(found) if type(found) is types.Function else found
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


class _NumbaTarget(CPUContext):
    # The same for the sizes of types, which Numba asks LLVM for at every variable. And the functions by which Numba
    # defines some operations (such as the product of complex numbers) are compiled in the short way, too.
    def __init__(self, shared: CPUContext) -> None:
        self.__dict__ = {**shared.__dict__, "cached_internal_func": {}, "typing_context": _typing}

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

    def _compile_subroutine_no_cache(
        self, builder: ir.IRBuilder, impl: Any, sig: Any, locals: Any = None, flags: Any = None
    ) -> Any:
        try:
            lowered = lower(impl, sig.args, sig.return_type)
        except CompilationError:
            # It uses more of the language, such as a variable of two types.
            return super()._compile_subroutine_no_cache(builder, impl, sig, locals, flags)
        lowered.function.linkage = "linkonce_odr"
        return lowered


class _Implementation:
    # What writes the instructions of an operation on given types. Numba looks at its parameters each time.
    def __init__(self, implementation: Any, context: Any, sig: Any) -> None:
        self._imp, self._context, self._sig = implementation, context, sig

    def __call__(self, builder: ir.IRBuilder, arguments: Any, loc: Any = None) -> Any:
        result = self._imp(self._context, builder, self._sig, arguments, loc=loc)
        self._context.add_linking_libs(getattr(self, "libs", ()))
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._imp, name)


_typing_memo: dict[Any, Any] = {}
_implementation_memo: dict[Any, Any] = {}
_operator_memo: dict[Any, Any] = {}
_size_memo: dict[str, int] = {}
_typing = _Typing(cpu_target.typing_context)
_target = _NumbaTarget(cpu_target.target_context)
