"""From Python functions to the bytes of object files: trampolines, linking, optimisation, code generation.

This file must not know what a kernel computes, nor where object files are kept.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock

from functad import machine_model
from functad.backends.cpu.compile.behind import do_behind
from functad.backends.cpu.compile.debug_lines import CodeLine, DebugLines, lines_of_assembly, lines_of_ir
from functad.backends.cpu.compile.frontend import (
    Library,
    PythonFunction,
    Specialization,
    lower,
    lower_kernel,
    pointer_type,
    refresh,
)
from functad.backends.cpu.compile.loader import PREFIX, archive
from functad.backends.cpu.compile.target import emitted, kept_machine, run_passes
from functad.backends.cpu.kernels.arguments import Argument, Count, Number, Shifted
from functad.backends.cpu.products import in_kernels_numba as in_kernels_numba
from functad.backends.cpu.products import routines_numba as routines_numba
from functad.backends.cpu.scalars import copies_numba as copies_numba
from functad.backends.cpu.scalars import elementary_numba as elementary_numba
from functad.backends.cpu.scalars import integers_numba as integers_numba
from functad.backends.cpu.scalars import interrupts_numba as interrupts_numba
from functad.backends.cpu.scalars import lines_numba as lines_numba
from functad.backends.cpu.scalars import rare_branches
from functad.backends.cpu.scalars import running_numba as running_numba
from functad.backends.cpu.scalars import sorts_numba as sorts_numba
from functad.backends.cpu.scalars import special_numba as special_numba
from functad.backends.cpu.scalars import squares_numba as squares_numba
from functad.errors import CompilationError
from functad.records import NamedTuple
from functad.system.garbage import spare_from_search
from functad.system.once import unforked

_I64 = ir.IntType(64)
refresh()  # the first time takes long, which the import is to bear
spare_from_search()  # of Numba's modules, after the first compilation


def compile_kernels(
    source: str,
    filename: str,
    signatures: Mapping[str, Sequence[Argument]],
    exports: Mapping[str, str] | None = None,
    *,
    fused: bool = False,
    meanwhile: Callable[[], object] = lambda: None,
) -> bytes:
    """Compile kernels, which are functions of pointers, numbers, `start` and `stop`, into object files.

    They export each kernel, to be looked up under its name with `loader.load_object`, as
    `void kernel(int64_t* slots, int64_t* params, int64_t start, int64_t stop)`; `arguments` says what the words in
    `params` are. A pointer is `slots[word]`. All pointers of one call must be distinct buffers.

    Args:
        source: the text of a Python module that defines the functions.
        filename: the file that tracebacks shall name; it need not exist.
        signatures: what each function to compile is given before `start` and `stop`.
        exports: the names under which they are exported, if not under their own.
        fused: whether any product may be added without being rounded first.
        meanwhile: called when Python has done its part, and LLVM perhaps not.

    Returns:
        What `loader.archive` makes of relocatable object files for this machine's processor.

    Raises:
        CompilationError: Numba does not understand a function.
    """
    with unforked, global_compiler_lock:
        return _object_file(_kernels(source, filename, signatures, exports or {}, fused=fused), meanwhile)


class ReadableCode(NamedTuple):
    """The functions of kernels in LLVM IR, optimised, and in assembly: by the names of the kernels."""

    llvm: dict[str, list[CodeLine]]
    assembly: dict[str, list[CodeLine]]


def machine_code(source: str, signatures: Mapping[str, Sequence[Argument]], *, fused: bool) -> ReadableCode:
    """Kernels as the processor runs them, for people to read, each line with the line of `source` it comes from.

    These are the instructions of `compile_kernels`: metadata for debuggers changes none.
    """
    names = {PREFIX + name: name for name in signatures}
    in_ir: dict[str, list[CodeLine]] = {}
    in_assembly: dict[str, list[CodeLine]] = {}
    with unforked, global_compiler_lock:
        for batch in _batches(_kernels(source, "kernels.py", signatures, {}, fused=fused, named_lines=True)):
            with kept_machine(batch.effort) as machine:
                module = _optimized(batch, llvm.create_context(), machine)
                _keep_apart(module)
                in_ir |= lines_of_ir(str(module))
                in_assembly |= lines_of_assembly(machine.emit_assembly(module), set(names))
    return ReadableCode(
        {name: in_ir[symbol] for symbol, name in names.items() if symbol in in_ir},
        {name: in_assembly[symbol] for symbol, name in names.items() if symbol in in_assembly},
    )


def compile_exports(functions: Mapping[str, tuple[PythonFunction, Sequence[types.Type], types.Type]]) -> bytes:
    """Compile functions of any scalars and pointers into object files.

    Args:
        functions: for each exported name a Python function, the Numba types of its arguments (integers, floats
            and pointers) and of its result (an integer, a float or `types.void`). They may call functions
            that `frontend.subroutine` has registered.

    Returns:
        What `loader.archive` makes of relocatable object files, which export C functions of the given types.

    Raises:
        CompilationError: Numba does not understand a function, or it returns another type.
    """
    with unforked, global_compiler_lock:
        refresh()
        parts = []
        for name, (function, arguments, result) in functions.items():
            lowered = lower(function, tuple(arguments))
            _add_wrapper(name, lowered, result)
            parts.append(lowered)
        return _object_file(parts)


def _object_file(parts: Iterable[Specialization], meanwhile: Callable[[], object] = lambda: None) -> bytes:
    """The object files of all the parts: LLVM works on some parts while Python makes the next ones."""
    made: dict[int, bytes] = {}

    def compile_batch(number: int, batch: _Batch) -> None:
        with kept_machine(batch.effort) as machine:
            module = _optimized(batch, llvm.create_context(), machine)
            _keep_apart(module)
            made[number] = emitted(machine, module)

    def jobs() -> Iterator[Callable[[], None]]:
        for number, batch in enumerate(_batches(parts)):
            yield partial(compile_batch, number, batch)
        meanwhile()

    do_behind(jobs())
    return archive([made[number] for number in sorted(made)])


def _keep_apart(module: llvm.ModuleRef) -> None:
    """Export nothing but what is looked up by name: other object files have what is called by many, too."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and not value.name.startswith(PREFIX):
            value.linkage = "internal"


def _kernels(
    source: str,
    filename: str,
    signatures: Mapping[str, Sequence[Argument]],
    exports: Mapping[str, str],
    *,
    fused: bool,
    named_lines: bool = False,
) -> Iterator[Specialization]:
    namespace: dict[str, Any] = {"__name__": "functad_kernels", "__file__": filename}
    text = ast.parse(source, filename)
    nodes = {node.name: node for node in text.body if isinstance(node, ast.FunctionDef) and node.name in signatures}
    others = [node for node in text.body if getattr(node, "name", "") not in nodes]
    exec(compile(ast.Module(others, []), filename, "exec"), namespace)
    refresh()
    for name, signature in signatures.items():
        arguments = (*map(_type_of, signature), types.int64, types.int64)
        counts = [k for k, argument in enumerate(signature) if isinstance(argument, Count)]
        lowered = lower_kernel(
            nodes[name], namespace, arguments, counts=counts, fused=fused, filename=filename * named_lines
        )
        exported = _add_trampoline(exports.get(name, name), signature, lowered)
        if named_lines:
            _name_line(exported, lowered.library.lines or DebugLines(lowered.module, filename), nodes[name].lineno)
        yield lowered


class _Batch(NamedTuple):
    """What LLVM is given at a time.

    in_straight_code: whether it is to look for vectors in what is no loop, too. effort: 0 if the time is spent in what
    is called: passes and well chosen instructions, which are most of LLVM's work, would save nothing.
    """

    texts: Sequence[str]
    in_straight_code: bool = False
    effort: int = 3


def _batches(parts: Iterable[Specialization]) -> Iterator[_Batch]:
    """The texts of parts and of what they call, some parts at a time: a function of the parts alone, not of time."""
    libraries: list[Any] = []
    only_calls: list[Any] = []
    size = 0
    for part in parts:
        if getattr(part.library, "only_calls", False):
            only_calls.append(part.library)
            continue
        if getattr(part.library, "has_wide_loop", False):
            yield _Batch(_with_callees([part.library]))
            continue
        libraries.append(part.library)
        size += len(part.library.get_llvm_str())
        if size > machine_model.BATCH_FOR_LLVM:
            yield _Batch(_with_callees(libraries), in_straight_code=True)
            libraries, size = [], 0
    if libraries:
        yield _Batch(_with_callees(libraries), in_straight_code=True)
    if only_calls:
        yield _Batch(_with_callees(only_calls), effort=0)


def _with_callees(libraries: Iterable[Any]) -> list[str]:
    """The texts of libraries and of all that they call."""
    pending = list(libraries)
    seen: dict[int, Any] = {}
    while pending:
        library = pending.pop()
        if id(library) not in seen:
            seen[id(library)] = library
            pending.extend(library.linked if isinstance(library, Library) else [])
    # A function compiled by Numba itself (njit, overload) has linked what it calls.
    return [
        one.get_llvm_str() if isinstance(one, Library) else str(one._get_module_for_linking()) for one in seen.values()
    ]


def _optimized(batch: _Batch, context: llvm.ContextRef, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    module = _joined([llvm.parse_assembly(text, context) for text in ("", *batch.texts)])
    # Level 3 and unrolling double the time of this call; the kernels of whole training steps ran no faster with them.
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_unrolling = False
    tuning.loop_vectorization = True
    tuning.slp_vectorization = batch.in_straight_code
    builder = llvm.create_pass_builder(machine, tuning)
    if batch.effort:
        run_passes(builder.getModulePassManager(), module, builder)
    # Loops are vectors now: who asks whether a lane takes a rare branch need not be called, with all registers saved;
    # and kernels come into the functions that are exported. Before, all passes would have gone over them twice.
    for function in module.functions:
        if function.linkage == llvm.Linkage.weak_any:
            function.add_function_attribute("alwaysinline")
            function.linkage = "internal"
        elif function.name.startswith(rare_branches.PREFIX):
            function.linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_sroa_pass()  # nobody writes to the places of result and exception
    passes.add_post_order_function_attributes_pass()  # what calls nothing needs no tables for who unwinds the stack
    run_passes(passes, module, builder)
    return module


def _joined(modules: Sequence[llvm.ModuleRef]) -> llvm.ModuleRef:
    first, *others = modules
    for other in others:
        first.link_in(other)
    return first


def _type_of(argument: Argument) -> types.Type:
    if isinstance(argument, Number):
        return getattr(types, argument.dtype.name)
    return pointer_type(argument.dtype if isinstance(argument, Shifted) else argument)


def _name_line(function: ir.Function, lines: DebugLines, line: int) -> None:
    """Let all instructions of a function name one line."""
    location = lines.location(lines.scope(function, line), line)
    for block in function.blocks:
        for instruction in block.instructions:
            instruction.set_metadata("dbg", location)


def _add_trampoline(name: str, signature: Sequence[Argument], lowered: Specialization) -> ir.Function:
    words = _I64.as_pointer()
    exported = ir.Function(lowered.module, ir.FunctionType(ir.VoidType(), [words, words, _I64, _I64]), PREFIX + name)
    slots, params, start, stop = exported.args
    builder = ir.IRBuilder(exported.append_basic_block())
    position = count()
    values = []

    def word() -> ir.Value:
        return builder.load(builder.gep(params, [ir.Constant(_I64, next(position))]))

    for kind, argument in zip(signature, lowered.function.args[2:-2]):
        if isinstance(kind, Number):
            bits = builder.trunc(word(), ir.IntType(8 * kind.dtype.itemsize))
            values.append(builder.bitcast(bits, argument.type))
            continue
        address = builder.load(builder.gep(slots, [word()]))
        if isinstance(kind, Shifted):
            address = builder.add(address, word())
        values.append(builder.inttoptr(address, argument.type))
    _call(builder, lowered, [*values, start, stop])
    lowered.function.linkage = "weak"  # for all that LLVM knows, another one is called in the end: see `_optimized`
    for extent in lowered.function.args[-2:]:
        # Known to be small, they let LLVM see that indices such as 1000 * i + j do not overflow.
        set.add(extent.attributes, f"range(i64 0, {1 << 40})")  # llvmlite knows no such attribute
    builder.ret_void()
    return exported


def _add_wrapper(name: str, lowered: Specialization, result: types.Type) -> None:
    returns_nothing = result in (types.void, types.none)
    if types.unliteral(lowered.return_type) != (types.none if returns_nothing else result):
        raise CompilationError(f"{name} returns {lowered.return_type}, not {result}")
    function = lowered.function
    value_type = ir.VoidType() if returns_nothing else function.args[0].type.pointee
    exported = ir.Function(
        lowered.module, ir.FunctionType(value_type, [a.type for a in function.args[2:]]), PREFIX + name
    )
    builder = ir.IRBuilder(exported.append_basic_block())
    value = _call(builder, lowered, exported.args)
    if returns_nothing:
        builder.ret_void()
    else:
        builder.ret(builder.load(value))


def _call(builder: ir.IRBuilder, lowered: Specialization, arguments: Sequence[ir.Value]) -> ir.Value:
    # Numba's functions write result and exception through their first two arguments; ours raise nothing.
    function = lowered.function
    function.linkage = "internal"
    value = builder.alloca(function.args[0].type.pointee)
    problem = builder.alloca(function.args[1].type.pointee)
    builder.call(function, [value, problem, *arguments])
    return value
