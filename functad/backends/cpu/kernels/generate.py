"""From a schedule to the source file of its kernels and the instructions that call them.

Knows how kernels are written as Python; no compiler and no addresses.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from functad import machine_model
from functad.backends.cpu.kernels.arguments import Argument, Count, argument_text, signature_of
from functad.backends.cpu.kernels.emit import emit
from functad.backends.cpu.kernels.emit_loop import emit_loop
from functad.backends.cpu.kernels.form import CpuKernel
from functad.backends.cpu.kernels.numbers_apart import numbers_apart, numbers_of, with_names
from functad.backends.cpu.kernels.polls import with_polls
from functad.backends.cpu.kernels.small_loops import cost_of_nest, cost_of_steps, step_cost, touched_by
from functad.backends.cpu.products import in_kernels as gemm_scalars
from functad.backends.cpu.products import routines
from functad.backends.cpu.products.gemm import shares_rows
from functad.backends.cpu.scalars import complex as complex_scalars
from functad.backends.cpu.scalars import copies, interrupts, lines, running, sorts, squares, user_functions
from functad.backends.cpu.scalars import elementary as scalars
from functad.backends.cpu.scalars import exact as exact_scalars
from functad.backends.cpu.scalars import special as special_scalars
from functad.lowering.blocks import Block, ControlPlan, Instruction, leaves, make_blocks
from functad.lowering.memory.buffers import Storage, new_buffer
from functad.lowering.nests.names import words_in
from functad.lowering.nests.nest import fresh
from functad.lowering.nests.printing import comments, own_names_apart
from functad.lowering.schedule import Schedule
from functad.lowering.small_products import without_small_products
from functad.lowering.steps import (
    BranchStep,
    CallStep,
    ControlStep,
    GemmStep,
    KernelStep,
    LoopStep,
    NestStep,
    PlainStep,
    Step,
    UnlessSameStep,
)
from functad.pretty import escaped

_MODULES = (
    complex_scalars, exact_scalars, special_scalars, gemm_scalars, routines, copies, interrupts, lines,
    running, sorts, squares, scalars,
)  # fmt: skip
VOCABULARY = {
    name: module.__name__
    for module in _MODULES
    for name, value in vars(module).items()
    if callable(value) and not name.startswith("_") and value.__module__.startswith("functad.")
}
_NAME = re.compile(r"([A-Za-z_]\w*)")
_NUMBER = re.compile(r"\b\d+\b")
_Alike = dict[str, list[str]]  # functions by their names, with the numbers in their texts


@dataclass(eq=False)
class CpuKernels:
    """The kernels of a Program.

    source: the Python file. signatures: what each function is given. keys: of each function a text that is equal for
    functions that do the same. instructions: the calls, in order, and loops and branches of calls. blocks: the same, as
    they run together.
    """

    source: str
    signatures: dict[str, tuple[Argument, ...]]
    keys: dict[str, str]
    instructions: list[Instruction | ControlPlan]
    blocks: list[Block | ControlPlan]


def generate(schedule: Schedule) -> CpuKernels:
    """Write the kernels of a schedule; steps with the same text share a function."""
    return _Generator(schedule).run()


class _Generator:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.functions: dict[str, _KernelFunction] = {}  # by name
        self.known: dict[str, str] = {}
        self.signatures: dict[str, tuple[Argument, ...]] = {}

    def run(self) -> CpuKernels:
        instructions = self._instructions(self.schedule.steps)
        blocks = make_blocks(instructions)
        self._know_short_ranges(blocks)
        keys = {name: key for key, name in self.known.items()}
        for group in list(self._alike(keys)):
            keys = {name: key for name, key in keys.items() if name not in group}
            joined = self._join(group)
            keys[joined] = self._key(joined, self.functions[joined].kernel.body)
        return CpuKernels(self._file(), self.signatures, keys, instructions, blocks)

    def _instructions(self, steps: Sequence[Step]) -> list[Instruction | ControlPlan]:
        return [self._instruction(step) if isinstance(step, PlainStep) else self._control(step) for step in steps]

    def _control(self, step: ControlStep) -> Instruction | ControlPlan:
        """A loop or branch: one function if it is small, or else what its parts are."""
        small = without_small_products(step)
        if not isinstance(small, UnlessSameStep) and _has_small_steps(small):
            kernel = emit_loop(small, self._touched, self.schedule.names)
            if kernel is not None:
                return self._call_of(kernel, step, cost_of_steps([small]))
        return ControlPlan(step, [self._instructions(part) for part in step.parts])

    @cached_property
    def _touched(self) -> Mapping[Storage, int]:
        return touched_by(self.schedule.steps)

    def _instruction(self, step: PlainStep) -> Instruction:
        if isinstance(step, GemmStep):
            return _gemm_instruction(step)
        if isinstance(step, CallStep):
            nbytes = float(sum(b.nbytes for _, b, _ in step.parameters))
            return Instruction(
                step.name, step.parameters, 1, {}, machine_model.PYTHON_CALL_NS + nbytes, 0, nbytes, step
            )
        if isinstance(step, KernelStep):
            cost = step.flops / machine_model.KERNEL_FLOPS_PER_NS + step.bytes / machine_model.BYTES_PER_NS
            body, rows = textwrap.dedent(step.body), _rows_of_kernel(step)
            kernel = CpuKernel(body, step.parameters, step.n, rows, offsets=step.offsets)
            return self._call_of(kernel, step, (step.flops, step.bytes, cost))
        assert isinstance(step, NestStep), f"{step.name} is a step of devices"
        written = {s.buffer.storage for s in step.nest.stores}
        unread = [s for s in written if s.kind == "output" and self._touched[s] == 1]
        return self._call_of(emit(step.nest, unread), step, cost_of_nest(step.nest))

    def _call_of(self, kernel: CpuKernel, step: Step, work: tuple[float, float, float]) -> Instruction:
        """The call of a kernel, which is a new function unless there is one that does the same."""
        flops, nbytes, cost = work
        kernel = _named_apart(kernel)
        kernel, lines = _asking(kernel, is_long=cost > machine_model.LONG_STEP * kernel.n)
        constants = tuple(kernel.constants.values())
        call = Instruction(
            "", kernel.parameters, kernel.n, kernel.rows, cost, flops, nbytes, step,
            constants=constants, offsets=kernel.offsets, work=lines,
        )  # fmt: skip
        names = [*(p for p, _, _ in kernel.parameters), *kernel.constants]
        signature = signature_of([(b.dtype, offset) for b, offset in call.arguments], constants)
        key = f"{' '.join(map(argument_text, signature))}\n{_canonical(kernel.body, names)}"
        if key not in self.known:
            unique, number = step.name, 2
            while unique in self.functions or unique in VOCABULARY:
                unique, number = f"{step.name}_{number}", number + 1
            self.known[key] = unique
            self.functions[unique] = _KernelFunction(names, comments(step.eqns, self.schedule.names), kernel)
            self.signatures[unique] = signature
        call.function = self.known[key]
        self.functions[call.function].calls.append(call)
        return call

    def _know_short_ranges(self, blocks: Sequence[Block | ControlPlan]) -> None:
        """Write into the text of a nest how few steps its range has, if all calls are over so many at once.

        But not if threads share it, or it is run in pieces, with looks at the clock in between. Other texts have long
        steps: to share them is worth more.
        """
        in_parts = {id(call) for block in leaves(blocks) if block.chunk < block.rows for call in block.instructions}
        for key, name in list(self.known.items()):
            function = self.functions[name]
            n, *others = {call.n for call in function.calls}
            if others or n > machine_model.FEW_STEPS or any(id(call) in in_parts for call in function.calls):
                continue
            if n > 1 and any(n * call.work > machine_model.POLL_WORK for call in function.calls):
                continue
            if any(isinstance(call.step, KernelStep) for call in function.calls):
                continue
            body = function.kernel.body.replace("in range(start, stop):", f"in range({n}):")
            if (known := self._key(name, body)) not in self.known:
                function.kernel = replace(function.kernel, body=body)
                del self.known[key]
                self.known[known] = name

    def _alike(self, keys: Mapping[str, str]) -> Iterator[_Alike]:
        """Functions that differ in numbers alone that may as well be given to them."""
        roughly: dict[str, list[str]] = {}
        for name, key in keys.items():
            roughly.setdefault("_".join(_NUMBER.split(key)), []).append(name)
        for names in roughly.values():
            if len(names) > 1:
                least = numbers_apart(self.functions[names[0]].kernel.body)
                groups: dict[tuple[str, ...], _Alike] = {}
                for name in names:
                    numbers = numbers_of(self.functions[name].kernel.body)
                    apart = {k for k, number in enumerate(numbers) if k in least and int(number) >= least[k]}
                    others = tuple(["" if k in apart else number for k, number in enumerate(numbers)])
                    groups.setdefault(others, {})[name] = numbers
                yield from (group for group in groups.values() if len(group) > 1)

    def _join(self, group: _Alike) -> str:
        """Let the first of some functions do what all do, given the numbers that they differ in; returns its name."""
        keep = next(iter(group))
        first = self.functions[keep]
        columns = list(zip(*group.values(), strict=True))
        taken = {*VOCABULARY, *words_in(first.kernel.body), *first.names}
        given = {column: fresh("n", taken) for column in dict.fromkeys(columns) if len(set(column)) > 1}
        for k, name in enumerate(group):
            numbers = tuple([np.int64(column[k]) for column in given])
            for call in self.functions[name].calls:
                call.function, call.constants = keep, (*call.constants, *numbers)
            if name != keep:
                first.calls += self.functions.pop(name).calls
                del self.signatures[name]
        body = with_names(first.kernel.body, {k: given[column] for k, column in enumerate(columns) if column in given})
        constants = {**first.kernel.constants, **{name: np.int64(column[0]) for column, name in given.items()}}
        first.kernel = replace(first.kernel, body=body, constants=constants)
        first.names += given.values()
        self.signatures[keep] += (Count(np.dtype(np.int64)),) * len(given)
        return keep

    def _key(self, name: str, body: str) -> str:
        """A text that is equal for functions that do the same."""
        return f"{' '.join(map(argument_text, self.signatures[name]))}\n{_canonical(body, self.functions[name].names)}"

    def _file(self) -> str:
        text = "\n\n\n".join(function.text(name) for name, function in self.functions.items())
        used = words_in(re.sub("#.*", "", text))
        imports: dict[str, list[str]] = {}
        for name in sorted(used & VOCABULARY.keys()):
            imports.setdefault(VOCABULARY[name], []).append(name)
        of_users = sorted(filter(user_functions.is_user_function, used))
        if of_users:
            imports[user_functions.__name__] = of_users
        shown = escaped(self.schedule.program.name)
        head = [f'"""Kernels of `{shown}`, written by functad. Shapes are fixed."""', ""]
        if used & {"inf", "nan"}:
            head.append(f"from math import {', '.join(sorted(used & {'inf', 'nan'}))}")
        head += [f"from {module} import {', '.join(names)}" for module, names in sorted(imports.items())]
        return "\n".join(head) + "\n\n\n" + text + "\n"


def _named_apart(kernel: CpuKernel) -> CpuKernel:
    """The kernel, in which no name of its own is an intrinsic of the vocabulary."""
    given = [*(p for p, _, _ in kernel.parameters), *kernel.constants]
    body, names = own_names_apart(kernel.body, given, VOCABULARY)
    parameters = tuple([(name, buffer, mode) for name, (_, buffer, mode) in zip(names, kernel.parameters)])
    constants = dict(zip(names[len(parameters) :], kernel.constants.values()))
    return replace(kernel, body=body, parameters=parameters, constants=constants)


def _asking(kernel: CpuKernel, is_long: bool) -> tuple[CpuKernel, float]:
    """The kernel, which now asks now and then whether it shall stop, and the lines that run for each step of it."""
    polled = with_polls(kernel.body, [*(p for p, _, _ in kernel.parameters), *kernel.constants], is_long=is_long)
    if not polled.token:
        return kernel, polled.work
    parameter = (polled.token, new_buffer(polled.token, (1,), np.dtype(np.int64), "token"), "r")
    offsets = (*kernel.offsets, 0) if kernel.offsets else ()
    asking = replace(kernel, body=polled.body, parameters=(*kernel.parameters, parameter), offsets=offsets)
    return asking, polled.work


class _KernelFunction:
    """A function of the file, and who calls it."""

    def __init__(self, names: Sequence[str], head: str, kernel: CpuKernel) -> None:
        self.names, self.head, self.kernel = list(names), head, kernel
        self.calls: list[Instruction] = []

    def text(self, name: str) -> str:
        """The definition; what it is given is in comments."""
        body = self.head + "".join(self._given()) + self.kernel.body.strip("\n")
        return f"def {name}({', '.join([*self.names, 'start', 'stop'])}):\n" + textwrap.indent(body, "    ")

    def _given(self) -> Iterator[str]:
        for k, (parameter, _, _) in enumerate(self.kernel.parameters):
            if any(self.kernel.offsets):
                offsets = list(dict.fromkeys(call.offsets[k] for call in self.calls))
                if any(offsets):
                    yield f"# {parameter} begins at element {_list(offsets)}\n"
        for k, constant in enumerate(self.kernel.constants):
            yield f"# {constant} = {_list(list(dict.fromkeys(str(call.constants[k]) for call in self.calls)))}\n"


def _list(values: Sequence[object]) -> str:
    more = [f"… ({len(values)} values)"] if len(values) > 4 else []
    return ", ".join([*map(str, values[: 3 if more else 4]), *more])


def _canonical(body: str, parameters: Sequence[str]) -> str:
    """The text with its own names replaced by numbers, comments dropped: equal for kernels that do the same."""
    numbers = _Numbers((p, f"p{i}") for i, p in enumerate(parameters))
    code = "\n".join(line.partition("#")[0] for line in body.split("\n")) if "#" in body else body
    parts = _NAME.split(code)
    parts[1::2] = [numbers[name] for name in parts[1::2]]
    return "".join(parts)


class _Numbers(dict[str, str]):
    """What stands for names; those with a meaning of their own stand for themselves."""

    def __missing__(self, name: str) -> str:
        is_kept = name in VOCABULARY or name in _KEPT or user_functions.is_user_function(name)
        self[name] = other = name if is_kept else f"v{len(self)}"
        return other


_KEPT = {
    "for", "in", "range", "if", "else", "elif", "while", "and", "or", "not", "start", "stop", "min", "max", "True",
    "False", "inf", "nan", "complex", "real", "imag", "int", "float", "abs", "break", "continue", "return", "pass",
}  # fmt: skip


def _rows_of_kernel(step: KernelStep) -> dict[Storage, int | None]:
    rows: dict[Storage, int | None] = {}
    for name, buffer, mode in step.parameters:
        local = step.rows and step.n > 0 and buffer.size % step.n == 0 and (mode != "r" or name in step.row_reads)
        rows[buffer.storage] = buffer.size // step.n if local else None
    return rows


def _gemm_instruction(step: GemmStep) -> Instruction:
    parameters = (("a", step.a, "r"), ("b", step.b, "r"), ("c", step.c, "rw" if step.beta else "w"))
    flops = 2.0 * step.m * step.n * step.k * step.batch
    nbytes = float(step.a.dtype.itemsize * step.batch * (step.m * step.k + step.k * step.n + step.m * step.n))
    flops_ns = flops * machine_model.PRODUCT_COST[step.a.dtype.name] / machine_model.PRODUCT_FLOPS_PER_NS
    cost = machine_model.PRODUCT_CALL_NS * step.batch + max(flops_ns, nbytes / machine_model.BYTES_PER_NS)
    rows: dict[Storage, int | None] = {step.b.storage: None}
    if step.batch == 1:
        rows[step.c.storage] = step.ldc if step.c_offset + step.n <= step.ldc else None
        rows[step.a.storage] = step.lda if not step.ta and step.a_offset + step.k <= step.lda else None
        if step.a.storage is step.b.storage:
            rows[step.a.storage] = None
        return Instruction(
            "gemm", parameters, step.m, rows, cost, flops, nbytes, step, coarse=True,
            by_columns=not shares_rows(step.m, step.n),
        )  # fmt: skip
    rows[step.c.storage] = _matrix_of_batch(step.c_offset, step.c_batch, step.ldc, step.m, step.n)
    a_rows, a_columns = (step.k, step.m) if step.ta else (step.m, step.k)
    if step.a.storage is not step.b.storage:
        rows[step.a.storage] = _matrix_of_batch(step.a_offset, step.a_batch, step.lda, a_rows, a_columns)
    return Instruction("gemm_batch", parameters, step.batch, rows, cost, flops, nbytes, step)


def _matrix_of_batch(offset: int, batch: int, stride: int, rows: int, columns: int) -> int | None:
    """The elements from one matrix of a batch to the next, if each lies within them."""
    return batch if offset + (rows - 1) * stride + columns <= batch else None


def _has_small_steps(step: LoopStep | BranchStep) -> bool:
    return step_cost(step) < machine_model.LONGEST_SMALL_STEP
