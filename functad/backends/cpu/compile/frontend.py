"""From Python functions to LLVM IR: Numba's type inference and lowering, without its wrappers and its own caches.

This file must not know what a kernel computes, nor how IR becomes machine code.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import count
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.ir._utils import NameScope
from numba.core import codegen, compiler, types
from numba.core.bytecode import ByteCode, FunctionIdentity
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu_options import FastMathOptions
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.errors import NumbaError
from numba.core.funcdesc import FunctionDescriptor, PythonFunctionDescriptor
from numba.core.interpreter import Interpreter
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import type_inference_stage
from numba.core.typing.templates import AbstractTemplate, signature

from functad.backends.cpu.compile.contexts import KernelTarget, KernelTyping
from functad.backends.cpu.compile.debug_lines import DebugLines
from functad.backends.cpu.compile.instructions import KernelLower
from functad.backends.cpu.compile.translation import KernelTranslation, NotSimple
from functad.backends.cpu.scalars.integers_numba import mark_positive
from functad.backends.cpu.scalars.registry_numba import declare, declare_function, implement
from functad.errors import CompilationError
from functad.records import NamedTuple

PythonFunction = Callable[..., Any]


class Specialization(NamedTuple):
    """One Python function for one list of argument types, as an LLVM module that is not yet text.

    fndesc: how other functions call it; a kernel is called by none.
    """

    library: Library
    function: ir.Function
    return_type: types.Type
    fndesc: FunctionDescriptor | None

    @property
    def module(self) -> ir.Module:
        return self.library.module


class PackedPointer(types.Type):
    """A pointer whose elements look different in memory than in registers: bool (a byte) and floats of 16 bits."""

    mutable = True

    def __init__(self, name: str, element: types.Type, memory: ir.Type) -> None:
        super().__init__(name=name)
        self.element = element
        self.memory = memory


BoolPointer = PackedPointer("BoolPointer", types.boolean, ir.IntType(8))
HalfPointer = PackedPointer("HalfPointer", types.float32, ir.HalfType())
BrainPointer = PackedPointer("BrainPointer", types.float32, ir.IntType(16))  # bfloat16, which was Google Brain's
_PACKED = {"bool": BoolPointer, "float16": HalfPointer, "bfloat16": BrainPointer}


@cache
def pointer_type(dtype: np.dtype[Any]) -> types.Type:
    """The Numba type of a pointer to elements of the dtype."""
    return _PACKED.get(dtype.name) or types.CPointer(getattr(types, dtype.name))


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
        function: a Python function in Numba's language: numbers, tuples and ranges only, a variable has one type.
        arguments: the Numba types of the arguments.
        result: the type to convert the result to; inferred if it is not given.
        distinct_pointers: whether no two pointer arguments ever reach the same memory.
        fused: whether any product may be added without being rounded first; formulas and sums of products always may.

    Raises:
        CompilationError: Numba does not understand the function.
    """
    with global_compiler_lock:
        library = Library(_target.codegen(), function.__name__)
        try:
            return _lower_into(library, function, arguments, result, _flags(distinct_pointers, fused))
        except CompilationError:
            raise
        except (
            Exception
        ) as problem:  # Numba also raises KeyError, AssertionError and so on for what it does not foresee
            where = f"{function.__code__.co_filename}:{function.__code__.co_firstlineno}"
            raise CompilationError(f"{function.__name__} ({where}) cannot be compiled: {problem}") from problem


def lower_kernel(
    node: ast.FunctionDef,
    names: Mapping[str, Any],
    arguments: tuple[types.Type, ...],
    *,
    counts: Sequence[int],
    fused: bool,
    filename: str = "",
) -> Specialization:
    """The LLVM module of a kernel, whose pointers never reach the same memory.

    Args:
        node: its text.
        names: what the names mean that are not its own, as in a module.
        arguments: the Numba types of its arguments.
        counts: which arguments are integers that, as divisors, are positive.
        fused: whether any product may be added without being rounded first.
        filename: of the file whose lines instructions shall name; they name none without.

    Raises:
        CompilationError: Numba does not understand the function.
    """
    flags = _flags(distinct_pointers=True, fused=fused)
    with global_compiler_lock, ConfigStack().enter(flags):
        target = compiler._make_subtarget(_target, flags)
        library = Library(target.codegen(), node.name)
        module = library.create_ir_module(node.name)
        kind = target.call_conv.get_function_type(types.none, arguments)
        function = ir.Function(module, kind, f"kernel.{node.name}")
        function.scope = _Names()
        names_of_arguments = [argument.arg for argument in node.args.args]
        target.call_conv.decorate_function(function, names_of_arguments, arguments, noalias=True)
        for k in counts:
            mark_positive(function.args[2 + k])  # behind the places of result and exception
        try:
            with target.push_code_library(library):
                locate = None
                if filename:
                    library.lines = DebugLines(module, filename)
                    locate = partial(library.lines.location, library.lines.scope(function, node.lineno))
                translation = KernelTranslation(target, names, node, locate)
                translation.write(function, arguments)
        except (NotSimple, NumbaError):
            return lower(_python_function(node, names), arguments, distinct_pointers=True, fused=fused)
        target.post_lowering(module, library)
        library.add_ir_module(module)
        library.has_wide_loop = translation.has_wide_loop
        library.only_calls = translation.only_calls and not library.linked
        return Specialization(library, function, types.none, None)


def _python_function(node: ast.FunctionDef, names: Mapping[str, Any]) -> PythonFunction:
    """The function of a text, in a module of these names."""
    module = dict(names)
    exec(compile(ast.Module([node], []), module["__file__"], "exec"), module)
    function: PythonFunction = module[node.name]
    return function


@cache
def _triple_and_layout() -> tuple[str, str]:
    module = _target.codegen()._create_empty_module("target")
    return module.triple, module.data_layout


def _flags(distinct_pointers: bool, fused: bool) -> compiler.Flags:
    flags: Any = compiler.Flags()
    flags.nrt = False
    flags.error_model = "numpy"
    flags.fastmath = FastMathOptions({"contract"} if fused else set())
    flags.noalias = distinct_pointers
    return flags


def _lower_into(
    library: Library,
    function: PythonFunction,
    arguments: tuple[types.Type, ...],
    result: types.Type | None,
    flags: Any,
) -> Specialization:
    # Numba's four stages, without its driver, which analyses and checks between any two of them, without SSA, rewrites,
    # and the lifetimes of variables, which matter where references are counted: a third of the usual time.
    with ConfigStack().enter(flags):
        target = compiler._make_subtarget(_target, flags)
        identity = FunctionIdentity.from_function(function)
        numba_ir = _Interpreter(identity).interpret(ByteCode(identity))
        typed = type_inference_stage(_typing, target, numba_ir, arguments, result)
        fndesc = PythonFunctionDescriptor.from_specialized_function(
            numba_ir,
            typed.typemap,
            typed.return_type,
            typed.calltypes,
            mangler=target.mangler,
            inline=False,
            noalias=flags.noalias,
            abi_tags=[flags.get_mangle_string()],
        )
        with target.push_code_library(library):
            KernelLower(target, library, fndesc, numba_ir, metadata={}).lower()
    return Specialization(library, library.get_function(fndesc.mangled_name), typed.return_type, fndesc)


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

    def signature_of(arguments: tuple[types.Type, ...]) -> Any:
        plain = tuple(types.unliteral(argument) for argument in arguments)
        return signature(version(plain).return_type, *plain)

    declare_function(function, signature_of)

    @implement(function, types.VarArg(types.Any))
    def call(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
        lowered = version(sig.args)
        context.active_code_library.add_linking_library(lowered.library)
        return context.call_internal(builder, lowered.fndesc, sig, arguments)

    return function


class Library(codegen.CodeLibrary):
    """What Numba takes for a library of machine code: only holds IR, and the libraries that the IR calls.

    has_wide_loop: whether vectors are made of its loops, and none of what else it does. only_calls: whether it touches
    no element of an array itself: functions that it calls by their addresses do.
    """

    def __init__(self, owner: Any, name: str) -> None:
        super().__init__(owner, name)
        self.linked: list[Any] = []
        self.lines: DebugLines | None = None
        self.has_wide_loop = self.only_calls = False
        self._text = ""

    def create_ir_module(self, name: str) -> ir.Module:
        # Numba asks LLVM for the target each time, and may have to wait for the thread that compiles.
        module = ir.Module(name)
        module.triple, module.data_layout = _triple_and_layout()
        return module

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
        if not self._text:
            self._text = str(self.module)
            _forget_blocks(self.module)
        return self._text

    def get_asm_str(self) -> str:
        raise NotImplementedError("the library holds IR, no machine code")


def _forget_blocks(module: ir.Module) -> None:
    """Let go of what functions do, which is text now: blocks and instructions know one another, until a search for
    garbage finds them.
    """
    for function in module.functions:
        for block in function.blocks:
            for value in (*block.instructions, block):
                vars(value).clear()
        function.blocks.clear()


class _Names(NameScope):
    """The names of a function's values: numbers for those that have none, which llvmlite would look up first."""

    def __init__(self) -> None:
        super().__init__()
        self._unnamed = count(1)

    def register(self, name: str, deduplicate: bool = False) -> str:
        return super().register(name, deduplicate) if name else f".{next(self._unnamed)}"


class _Interpreter(Interpreter):
    # Numba then looks for `with`, lists and dictionaries to rewrite: only long lists of arguments become lists here.
    def post_process(self, peepholes: Any, function: Any) -> Any:
        spreads = any(instruction.opname == "CALL_FUNCTION_EX" for instruction in self.bytecode.table.values())
        return super().post_process(peepholes, function) if spreads else function


@register_default(PackedPointer)
class _PackedPointerModel(models.PrimitiveModel):
    def __init__(self, manager: Any, pointer: PackedPointer) -> None:
        super().__init__(manager, pointer, pointer.memory.as_pointer())


@declare(operator.getitem)
class _GetPacked(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        pointer, index = arguments
        if isinstance(pointer, PackedPointer) and isinstance(index, types.Integer):
            return signature(pointer.element, pointer, types.intp)
        return None


@declare(operator.setitem)
class _SetPacked(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        pointer, index, _ = arguments
        if isinstance(pointer, PackedPointer) and isinstance(index, types.Integer):
            return signature(types.none, pointer, types.intp, pointer.element)
        return None


@implement(operator.getitem, PackedPointer, types.Integer)
def _load_packed(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> ir.Value:
    pointer, index = arguments
    value = builder.load(builder.gep(pointer, [index]))
    if sig.args[0] == BoolPointer:
        return builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
    if sig.args[0] == BrainPointer:
        word = builder.zext(value, ir.IntType(32))
        return builder.bitcast(builder.shl(word, ir.Constant(word.type, 16)), ir.FloatType())
    return builder.fpext(value, ir.FloatType())


@implement(operator.setitem, PackedPointer, types.Integer, types.Any)
def _store_packed(context: Any, builder: ir.IRBuilder, sig: Any, arguments: Any) -> None:
    pointer, index, value = arguments
    if sig.args[0] == BrainPointer:
        packed = _rounded_to_brain(builder, value)
    else:
        convert = builder.zext if sig.args[0] == BoolPointer else builder.fptrunc
        packed = convert(value, sig.args[0].memory)
    builder.store(packed, builder.gep(pointer, [index]))


def _rounded_to_brain(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """What the word `bits_bf16` of kernels makes of a float32."""
    word = ir.IntType(32)
    pattern = builder.bitcast(value, word)
    is_odd = builder.and_(builder.lshr(pattern, word(16)), word(1))
    rounded = builder.add(pattern, builder.add(is_odd, word(0x7FFF)))
    is_nan = builder.fcmp_unordered("uno", value, value)
    rounded = builder.select(is_nan, builder.or_(pattern, word(0x400000)), rounded)
    return builder.trunc(builder.lshr(rounded, word(16)), ir.IntType(16))


class _CompilingTarget(KernelTarget):
    # The functions by which Numba defines some operations (such as the product of complex numbers) are compiled in the
    # short way, too.
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


_typing = KernelTyping()
_target = _CompilingTarget(_typing, "cpu")
