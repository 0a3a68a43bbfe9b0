"""From a schedule to the source file of its CUDA kernels and the launches that call them.

Knows how kernels are written as Python for `numba.cuda`; no compiler and no addresses.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from functad import machine_model
from functad.backends.cpu.kernels.emit_loop import emit_loop
from functad.backends.cpu.kernels.small_loops import cost_of_steps, step_cost, touched_by
from functad.backends.cpu.scalars.user_functions import array_view
from functad.backends.cuda.kernels.carried import emit_parted
from functad.backends.cuda.kernels.emit import TICKETS, CudaKernel, emit, emit_rows
from functad.backends.cuda.kernels.finishing import finished
from functad.backends.cuda.kernels.rows import joined_rows
from functad.backends.cuda.kernels.segments import emit_segments
from functad.backends.cuda.kernels.sorting import emit_sort
from functad.backends.cuda.kernels.text_kernels import emit_text
from functad.backends.cuda.kernels.transposes import emit_tiled
from functad.backends.cuda.products.convolution import (
    JoinedConvolution,
    emit_convolution,
    in_parts,
    joined_convolutions,
)
from functad.backends.cuda.products.epilogues import JoinedProduct, joined_products
from functad.backends.cuda.products.followed_updates import FollowedUpdates, followed_updates
from functad.backends.cuda.products.kernels import emit_product, sizes_of
from functad.backends.cuda.products.library import has_numbers_for
from functad.backends.cuda.products.owned_rows import emit_owned_rows
from functad.backends.cuda.products.points import joined_points
from functad.backends.cuda.products.row_loop_text import emit_row_loop
from functad.backends.cuda.products.row_loops import row_loop
from functad.backends.cuda.products.tiles import shared_elements, taken_by_library, tile_for, tile_of_whole_rows
from functad.backends.cuda.runtime.cublas import takes
from functad.backends.cuda.scalars.registry import HAS_ALIGNED_MEMORY, INTRINSICS
from functad.lowering.blocks import ControlPlan, Instruction
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.cost import work_of
from functad.lowering.nests.names import words_in
from functad.lowering.nests.nest import typed_literal
from functad.lowering.nests.printing import comments, own_names_apart
from functad.lowering.nests.updates import updates_in_turn
from functad.lowering.schedule import Schedule
from functad.lowering.small_products import without_small_products
from functad.lowering.steps import (
    CallStep,
    ControlStep,
    ConvolutionStep,
    GemmStep,
    KernelStep,
    LoopStep,
    NestStep,
    PlainStep,
    SortStep,
    Step,
    UnlessSameStep,
    with_changed,
)
from functad.pretty import escaped
from functad.primitives.user_kernels import PREFIX

NUMBA_NAMES = {
    "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "complex64", "complex128",
}  # fmt: skip
_OF_FILES = {"cuda", "THREADS"}


@dataclass(eq=False)
class CudaKernels:
    """The kernels of a Program.

    source: the Python file. instructions: the calls, in order, and loops and branches of calls. kernels: by name.
    An instruction without a kernel is a call of Python. tickets: memory that is 0 before the first call, which kernels
    leave so.
    """

    source: str
    instructions: list[Instruction | ControlPlan]
    kernels: dict[str, CudaKernel]
    tickets: list[Buffer]


def generate(schedule: Schedule, threads: int, by_library: bool) -> CudaKernels:
    """Write the kernels of a schedule for blocks of `threads`; steps with the same text share a function.

    by_library: whether a library multiplies large matrices where it is found.
    """
    return _CudaWriter(schedule, threads, by_library).run()


class _CudaWriter:
    def __init__(self, schedule: Schedule, threads: int, by_library: bool) -> None:
        self.schedule, self.threads, self.by_library = schedule, threads, by_library
        self.functions: dict[str, str] = {}
        self.kernels: dict[str, CudaKernel] = {}
        self.known: dict[tuple[str, tuple[str, ...]], str] = {}
        self.tickets: list[Buffer] = []

    def run(self) -> CudaKernels:
        instructions = self._instructions(self.schedule.steps)
        source = _file(self.schedule.program.name, self.functions, self.threads)
        return CudaKernels(source, instructions, self.kernels, self.tickets)

    def _instructions(self, steps: Sequence[Step]) -> list[Instruction | ControlPlan]:
        found: list[Instruction | ControlPlan] = []
        whole = finished(in_parts(steps, self.threads), self._touched)
        rows = partial(shared_for_rows, threads=self.threads)
        for part in joined_products(whole, self._outside(steps), self._is_own, rows):
            found += [self._product(part)] if isinstance(part, JoinedProduct) else self._others(part)
        return found

    def _outside(self, steps: Sequence[Step]) -> set[Storage]:
        """The memory of some steps that others of the Program use, too."""
        return {storage for storage, count in touched_by(steps).items() if count != self._touched[storage]}

    def _others(self, steps: Sequence[Step]) -> list[Instruction | ControlPlan]:
        """The calls of steps without matrix products."""
        found: list[Instruction | ControlPlan] = []
        steps = joined_convolutions(joined_points(steps, self._touched), self._touched)
        for step in joined_rows(followed_updates(steps, self._touched), self.threads):
            if isinstance(step, list):
                found.append(self._rows(step))
            elif isinstance(step, NestStep):
                found += self._nest(step)
            elif isinstance(step, SortStep):
                found += self._sort(step)
            else:
                found.append(self._instruction(step) if isinstance(step, PlainStep) else self._control(step))
        return found

    def _nest(self, step: NestStep) -> list[Instruction]:
        """The calls of a nest: one, or two where a value is carried along a long loop."""
        if step.nest.owned_rows is not None:
            return [self._owned_rows(step)]
        if step.nest.segments is not None:
            return self._segments(step)
        work, parted = work_of(step.nest), emit_parted(step.nest, step.name, self.threads)
        if parted is None:
            kernel = emit_tiled(step.nest, self.threads) or emit(step.nest, self.threads)
            return [self._call_of(kernel, step, work.flops, work.bytes)]
        cleared, carried = parted
        first = replace(step, name=f"clear_{step.name}")
        nbytes = float(sum(b.nbytes for _, b, _ in cleared.parameters))
        return [
            self._call_of(cleared, first, 0.0, nbytes),
            self._call_of(carried, step, work.flops, work.bytes),
        ]

    def _owned_rows(self, step: NestStep) -> Instruction:
        """The call of updates whose rows blocks own, with what they take in."""
        nests = [step.nest, *(nest.nest for nest in step.nests)] if isinstance(step, FollowedUpdates) else [step.nest]
        works = [work_of(nest) for nest in nests]
        kernel = emit_owned_rows(step, self.threads, {*INTRINSICS, *NUMBA_NAMES, *_OF_FILES})
        return self._call_of(kernel, step, sum(w.flops for w in works), sum(w.bytes for w in works))

    def _segments(self, step: NestStep) -> list[Instruction]:
        """The calls of updates that have been sorted: sums of parts where many go to one place, and the updates."""
        work = work_of(step.nest)
        *sums, (name, updates) = emit_segments(step.nest, step.name, self.threads)
        calls = [
            self._call_of(kernel, replace(step, name=summed), 0.0, float(kernel.parameters[-1][1].nbytes))
            for summed, kernel in sums
        ]
        return [*calls, self._call_of(updates, replace(step, name=name), work.flops, work.bytes)]

    def _sort(self, step: SortStep) -> list[Instruction]:
        """The calls of a sort: one for its tiles, and one for each merge."""
        return [
            self._call_of(kernel, replace(step, name=name), flops, nbytes)
            for name, kernel, flops, nbytes in emit_sort(step, self.threads)
        ]

    def _is_own(self, step: GemmStep, followers: int) -> bool:
        """Whether functad's own kernel computes a product, with so many steps that follow, if there is a library."""
        if not (self.by_library and takes(step.a.dtype) and has_numbers_for(step)):
            return True
        return not taken_by_library(sizes_of([step]), self.threads, followers)

    def _product(self, joined: JoinedProduct) -> Instruction:
        """The call of a product with what it takes in. What a library computes has a kernel, too: there may be none."""
        (step, *_), sizes, may_part = joined.products, sizes_of(joined.products), len(joined.products) == 1
        whole = tile_of_whole_rows(sizes, self.threads, may_part) if joined.rows else None
        tile = whole or tile_for(sizes, self.threads, joined.is_own and may_part)
        nests, rows = ([one.nest for one in some] for some in (joined.nests, joined.rows))
        names = {*INTRINSICS, *NUMBA_NAMES, *_OF_FILES}
        kernel = emit_product(joined.products, tile, nests, joined.is_kept, names, rows)
        works = [work_of(nest) for nest in (*nests, *rows)]
        terms = sum(product.k for product in joined.products)
        flops = 2.0 * step.batch * step.m * step.n * terms + sum(w.flops for w in works)
        elements = step.batch * ((step.m + step.n) * terms + step.m * step.n)
        nbytes = step.a.dtype.itemsize * elements + sum(w.bytes for w in works)
        if not joined.is_own:
            return self._call_of(kernel, step, flops, nbytes)
        behind = [*joined.nests, *joined.rows]
        of_all = [*(product.eqns for product in joined.products), *(nest.eqns for nest in behind)]
        eqns = list(dict.fromkeys(eqn for own in of_all for eqn in own))
        name = "_".join([step.name, *(nest.name for nest in behind[-1:])])
        work = kernel.mapping.work
        one = KernelStep(name, kernel.body, kernel.parameters, work, flops, nbytes, False, (), eqns)
        return self._call_of(kernel, one, flops, nbytes)

    def _rows(self, steps: Sequence[NestStep]) -> Instruction:
        """Nests over the same rows as one kernel."""
        kernel = emit_rows([step.nest for step in steps], {*INTRINSICS, *NUMBA_NAMES, *_OF_FILES}, self.threads)
        works = [work_of(step.nest) for step in steps]
        flops, nbytes = sum(w.flops for w in works), sum(w.bytes for w in works)
        eqns = list(dict.fromkeys(eqn for step in steps for eqn in step.eqns))
        name, rows = f"rows_{steps[-1].name}", kernel.mapping.work
        step = KernelStep(name, kernel.body, kernel.parameters, rows, flops, nbytes, False, (), eqns)
        return self._call_of(kernel, step, flops, nbytes)

    def _control(self, step: ControlStep) -> Instruction | ControlPlan:
        """A loop or branch: one thread's kernel if it is small, or else what its parts are."""
        small = with_changed(without_small_products(step), _by_one_thread)
        if not isinstance(small, UnlessSameStep) and step_cost(small) < machine_model.CUDA_SMALL_STEP:
            found = emit_loop(small, self._touched, self.schedule.names)
            if found is not None:
                constants = [f"{name} = {typed_literal(c, c.dtype)}" for name, c in found.constants.items()]
                body = "\n".join([*constants, found.body])
                flops, nbytes, ns = cost_of_steps([small])
                one = KernelStep(step.name, body, found.parameters, 1, flops, nbytes, False, (), step.eqns)
                return replace(self._instruction(one), cost=ns)
        if isinstance(step, LoopStep) and (rows := self._row_loop(step)):
            return rows
        return ControlPlan(step, [self._instructions(part) for part in step.parts])

    def _row_loop(self, step: LoopStep) -> Instruction | None:
        """A loop as one kernel, if blocks of threads have rows of their own."""
        found = row_loop(step, self._touched)
        kernel = emit_row_loop(found, self.threads, {*INTRINSICS, *NUMBA_NAMES, *_OF_FILES}) if found else None
        if kernel is None:
            return None
        flops = found.flops if found else 0.0
        nbytes = float(sum(buffer.nbytes for _, buffer, _ in kernel.parameters))
        one = KernelStep(step.name, kernel.body, kernel.parameters, 1, flops, nbytes, False, (), step.eqns)
        return self._call_of(kernel, one, flops, nbytes)

    @cached_property
    def _touched(self) -> Mapping[Storage, int]:
        return touched_by(self.schedule.steps)

    def _instruction(self, step: PlainStep) -> Instruction:
        if isinstance(step, CallStep):
            nbytes = float(sum(b.nbytes for _, b, _ in step.parameters))
            return Instruction(step.name, step.parameters, 1, {}, 0.0, 0.0, nbytes, step)
        if isinstance(step, KernelStep):
            return self._call_of(emit_text(step, self.threads), step, step.flops, step.bytes, step.offsets)
        assert not isinstance(step, NestStep | SortStep | GemmStep)
        return self._convolution(step)

    def _convolution(self, step: ConvolutionStep) -> Instruction:
        """The call of a convolution with what it takes in."""
        kernel = emit_convolution(step, self.threads, {*INTRINSICS, *NUMBA_NAMES, *_OF_FILES})
        flops, nbytes = float(step.conv.flops), float(sum(b.nbytes for _, b, _ in kernel.parameters))
        if isinstance(step, JoinedConvolution) and step.nests:
            eqns = list(dict.fromkeys([*step.eqns, *(eqn for nest in step.nests for eqn in nest.eqns)]))
            flops += sum(work_of(nest.nest).flops for nest in step.nests)
            step = replace(step, name=f"{step.name}_{step.nests[-1].name}", eqns=eqns)
        return self._call_of(kernel, step, flops, nbytes)

    def _call_of(
        self, kernel: CudaKernel, step: PlainStep, flops: float, nbytes: float, offsets: tuple[int, ...] = ()
    ) -> Instruction:
        """The call of a kernel, which is a new function unless there is one that does the same."""
        given = [p for p, _, _ in kernel.parameters]
        body, names = own_names_apart(kernel.body, given, {*INTRINSICS, *NUMBA_NAMES, *_OF_FILES})
        parameters = tuple([(name, buffer, mode) for name, (_, buffer, mode) in zip(names, kernel.parameters)])
        kernel = replace(kernel, body=body, parameters=parameters)
        key = (kernel.body, tuple(f"{p}:{b.dtype.name}" for p, b, _ in kernel.parameters))
        if key not in self.known:
            self.known[key] = _unique(step.name, self.functions)
            self.functions[self.known[key]] = _function_text(self.known[key], kernel, step, self.schedule)
            self.kernels[self.known[key]] = kernel
        self.tickets += [buffer for _, buffer, _ in parameters if buffer.storage.kind == TICKETS]
        work = kernel.mapping.work
        return Instruction(self.known[key], kernel.parameters, work, {}, 0.0, flops, nbytes, step, offsets=offsets)


def shared_for_rows(products: Sequence[GemmStep], threads: int) -> tuple[int, int] | None:
    """The threads of a block that has whole rows of products, and its bytes of shared memory; None if none had better.

    threads: of blocks of other kernels.
    """
    sizes = sizes_of(products)
    tile = tile_of_whole_rows(sizes, threads, len(products) == 1)
    # Without it, the one array of shared memory begins at a round place: rows need others.
    if tile is None or not HAS_ALIGNED_MEMORY:
        return None
    return tile.threads, shared_elements(tile) * sizes.itemsize


def _by_one_thread(step: PlainStep) -> Step:
    """A step as one thread does it."""
    return replace(step, nest=updates_in_turn(step.nest)) if isinstance(step, NestStep) else step


def _unique(name: str, taken: dict[str, str]) -> str:
    unique, number = name, 2
    while unique in taken or unique in INTRINSICS or unique in NUMBA_NAMES:
        unique, number = f"{name}_{number}", number + 1
    return unique


def _function_text(name: str, kernel: CudaKernel, step: PlainStep, schedule: Schedule) -> str:
    head = f"def {name}({', '.join(p for p, _, _ in kernel.parameters)}):\n"
    notes = f"{comments(step.eqns, schedule.names)}# {kernel.mapping}\n"
    return head + textwrap.indent(notes + kernel.body.strip("\n"), "    ")


def _file(name: str, functions: dict[str, str], threads: int) -> str:
    text = "\n\n\n".join(functions.values())
    names = words_in(text)
    lines = [
        f'"""CUDA kernels of `{escaped(name)}`, written by functad. Shapes are fixed."""',
        "",
    ]
    if names & {"inf", "nan"}:
        lines.append(f"from math import {', '.join(sorted(names & {'inf', 'nan'}))}")
    lines.append(f"from numba import {', '.join(['cuda', *sorted(names & NUMBA_NAMES)])}")
    if names & INTRINSICS.keys():
        lines.append(
            f"from functad.backends.cuda.scalars.registry import {', '.join(sorted(names & INTRINSICS.keys()))}"
        )
    of_users = sorted(w for w in names if w.startswith(PREFIX) or w == array_view.__name__)
    if of_users:
        lines.append(f"from functad.backends.cuda.compile.user_functions import {', '.join(of_users)}")
    lines += ["", f"THREADS = {threads}  # in a block"]
    return "\n".join(lines) + "\n\n\n" + text + "\n"
