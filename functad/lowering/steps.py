"""Steps: what a schedule consists of. Loop nests, kernels, matrix products, calls of Python, and loops and branches.

Knows what a step reads and writes; no target and no addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from functad.ir import Eqn
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.nest import Nest
from functad.primitives.loops.convolution_geometry import Convolution
from functad.primitives.loops.sort_keys import RowSort
from functad.records import NamedTuple


@dataclass(eq=False)
class NestStep:
    """A loop nest.

    may_wait: whether it had better run after those that follow, as far as they do not touch what it does.
    """

    name: str
    nest: Nest
    eqns: list[Eqn]
    may_wait: bool = False

    def __str__(self) -> str:
        loops = [
            f"{s.name}<{s.extent}{' reduced' if r else ' carried' if s is self.nest.carried else ''}"
            for s, r in zip(self.nest.loops, self.nest.reduced)
        ]
        accesses = self.nest.accesses()
        reads = dict.fromkeys(b.name for b, _, is_written in accesses if not is_written)
        writes = dict.fromkeys(b.name for b, _, is_written in accesses if is_written)
        return f"{self.name}: nest ({', '.join(loops)}) {', '.join(reads) or 'nothing'} -> {', '.join(writes)}"


@dataclass(eq=False)
class KernelStep:
    """A kernel whose text a primitive's rule has written.

    offsets: with which element a parameter's buffer begins.
    """

    name: str
    body: str
    parameters: tuple[tuple[str, Buffer, str], ...]
    n: int
    flops: float
    bytes: float
    rows: bool
    row_reads: tuple[str, ...]
    eqns: list[Eqn]
    offsets: tuple[int, ...] = ()

    def __str__(self) -> str:
        reads = [b.name for _, b, mode in self.parameters if mode != "w"]
        writes = [b.name for _, b, mode in self.parameters if mode != "r"]
        return f"{self.name}: kernel (range {self.n}) {', '.join(reads) or 'nothing'} -> {', '.join(writes)}"


@dataclass(eq=False)
class GemmStep:
    """`c = beta · c + alpha · a · b` for row-major matrices in buffers, `batch` times.

    precision: JAX's word for how exact it is to be, where a library has a choice; None: as the target does by default.
    panel: if not 0, b is packed: it lies in panels of so many columns, [n / panel, k, panel], which are as far apart as
    in a transposed b (tb = 1, ldb = k).
    """

    name: str
    a: Buffer
    b: Buffer
    c: Buffer
    ta: int
    tb: int
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    alpha: float = 1.0
    beta: float = 0.0
    a_offset: int = 0
    b_offset: int = 0
    c_offset: int = 0
    batch: int = 1
    a_batch: int = 0
    b_batch: int = 0
    c_batch: int = 0
    precision: str | None = None
    panel: int = 0
    eqns: list[Eqn] = field(default_factory=list)

    def __str__(self) -> str:
        times = f"{self.batch} x " if self.batch > 1 else ""
        is_turned = self.tb and not self.panel
        a, b = (f"{x.name}{'^T' if t else ''}" for x, t in ((self.a, self.ta), (self.b, is_turned)))
        start = f"{self.beta:g} {self.c.name} + " if self.beta else ""
        sizes = f"[{self.m},{self.k}]·[{self.k},{self.n}]"
        return f"{self.name}: {times}{sizes} {start}{self.alpha:g} {a} {b} -> {self.c.name}"


@dataclass(eq=False)
class ConvolutionStep:
    """A convolution of buffers, for a device: `conv` says what is summed, and where it lies.

    parts: of the terms; `out` has the sums of each, one after the other.
    """

    name: str
    conv: Convolution
    lhs: Buffer
    rhs: Buffer
    out: Buffer
    eqns: list[Eqn]
    parts: int = 1

    @property
    def parameters(self) -> tuple[tuple[str, Buffer, str], ...]:
        # A part of a convolution leaves the elements of other parts.
        return (("lhs", self.lhs, "r"), ("rhs", self.rhs, "r"), ("out", self.out, "rw"))

    def __str__(self) -> str:
        return f"{self.name}: convolution {self.lhs.name}, {self.rhs.name} -> {self.out.name}"


@dataclass(eq=False)
class SortStep:
    """A sort of rows, for a device: `sort` says by which keys, and how what is sorted is put down.

    parameters: the operands that its texts read, and the results.
    """

    name: str
    sort: RowSort
    parameters: tuple[tuple[str, Buffer, str], ...]
    eqns: list[Eqn]

    def __str__(self) -> str:
        reads, writes = ([b.name for _, b, mode in self.parameters if mode == m] for m in "rw")
        rows = f"{self.sort.rows.count} rows of {self.sort.rows.length}"
        return f"{self.name}: sort of {rows} {', '.join(reads)} -> {', '.join(writes)}"


@dataclass(eq=False)
class CallStep:
    """A Python function is called with what lies in `ins`, and its results are written to `outs`.

    callback: has a method `run(arrays, avals) -> arrays`, with the types of the results.
    """

    name: str
    callback: Any
    ins: list[Buffer]
    outs: list[Buffer]
    eqns: list[Eqn]

    @property
    def parameters(self) -> tuple[tuple[str, Buffer, str], ...]:
        reads = [(f"in_{k}", b, "r") for k, b in enumerate(self.ins)]
        return (*reads, *((f"out_{k}", b, "w") for k, b in enumerate(self.outs)))

    def __str__(self) -> str:
        reads, writes = (", ".join(b.name for b in side) or "nothing" for side in (self.ins, self.outs))
        return f"{self.name}: call of {self.callback} {reads} -> {writes}"


class Move(NamedTuple):
    """A pointer is set: `target = source + offset`, in bytes."""

    target: Storage
    source: Storage
    offset: int = 0

    def __str__(self) -> str:
        if self.target is self.source:
            return f"{self.target.name} += {self.offset}"
        return f"{self.target.name} = {self.source.name}" + (f" + {self.offset}" if self.offset else "")


class CountedBy(NamedTuple):
    """An integer that each step of a loop changes by `step`, and that has not come to `limit` before it."""

    number: Buffer
    limit: Buffer | np.generic
    step: int


class Stack(NamedTuple):
    """Memory that grows with the number of steps of a loop, which write one slice each, always in ascending order.

    memory: where it begins. pointer: the slice that a step writes; after the loop the last one, plus `past` bytes.
    steps: where the number of slices is kept. backwards: the last slice comes first, as a loop in reverse wrote them.
    """

    memory: Storage
    pointer: Storage
    steps: Storage
    past: int
    backwards: bool


@dataclass(eq=False)
class LoopStep:
    """A loop: of known length, as long as a condition holds, or as often as an earlier loop had steps.

    length: the number of steps, or None. count: for a loop with `stacks` where the number of its steps is kept; for one
    of neither length nor condition, where to find it.
    starts: moves of pointers before the first step; moves: after each, one after the other.
    condition: what computes `predicate`, one bool, before each step. body: one step. after: copies behind the loop.
    counters: if there are any, the condition holds just until one of them has come to its limit.
    unread: how many steps at the end of the body the last step of the loop leaves out: nobody reads what they write.
    holds: memory that is in use from the start of the loop to the end of those copies.
    """

    name: str
    length: int | None
    starts: list[Move]
    condition: list[Step]
    predicate: Buffer | None
    body: list[Step]
    moves: list[Move]
    after: list[Step]
    holds: list[Storage]
    eqns: list[Eqn]
    count: Storage | None = None
    stacks: Sequence[Stack] = ()
    counters: Sequence[CountedBy] = ()
    unread: int = 0

    @property
    def parts(self) -> list[list[Step]]:
        return [self.condition, self.body, self.after]

    def __str__(self) -> str:
        times = f"{self.length} times" if self.length is not None else f"{self.count.name if self.count else ''} times"
        times = times if self.predicate is None else f"while {self.predicate.name}"
        lines = [f"{self.name}: loop, {times}"]
        lines += [f"  start: {m}" for m in self.starts]
        lines += [f"  {s.pointer.name} goes along {s.memory.name}, which grows" for s in self.stacks]
        if self.condition:
            lines += ["  condition:", *_indented(self.condition, "    ")]
        lines += ["  body:", *_indented(self.body, "    ")]
        lines += [f"    then {m}" for m in self.moves]
        return "\n".join([*lines, *_indented(self.after, "  ")])


@dataclass(eq=False)
class BranchStep:
    """The one of several lists of steps that `index`, an int32, chooses; it is clamped."""

    name: str
    index: Buffer
    branches: list[list[Step]]
    holds: list[Storage]
    eqns: list[Eqn]

    @property
    def parts(self) -> list[list[Step]]:
        return self.branches

    def __str__(self) -> str:
        lines = [f"{self.name}: branch by {self.index.name}"]
        for k, steps in enumerate(self.branches):
            lines += [f"  {k}:", *_indented(steps, "    ")]
        return "\n".join(lines)


@dataclass(eq=False)
class UnlessSameStep:
    """Steps that run unless two pointers are equal: a copy that is not needed where the value lies in its place."""

    name: str
    one: Storage
    other: Storage
    steps: list[Step]
    eqns: list[Eqn]

    @property
    def holds(self) -> list[Storage]:
        return [self.one, self.other]

    @property
    def parts(self) -> list[list[Step]]:
        return [self.steps]

    def __str__(self) -> str:
        return "\n".join([f"unless {self.one.name} is {self.other.name}:", *_indented(self.steps, "  ")])


ControlStep = LoopStep | BranchStep | UnlessSameStep
PlainStep = NestStep | KernelStep | GemmStep | ConvolutionStep | SortStep | CallStep
Step = PlainStep | ControlStep


def inner_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, those within loops and branches included."""
    for step in steps:
        yield step
        if isinstance(step, ControlStep):
            for part in step.parts:
                yield from inner_steps(part)


def with_changed(step: ControlStep, change: Callable[[PlainStep], Step]) -> ControlStep:
    """A loop or branch in which all other steps are as `change` makes them."""

    def changed(one: Step) -> Step:
        return with_changed(one, change) if isinstance(one, ControlStep) else change(one)

    return with_parts(step, [[changed(one) for one in part] for part in step.parts])


def with_parts(step: ControlStep, parts: list[list[Step]]) -> ControlStep:
    """A loop or branch with other steps in the place of its own."""
    if isinstance(step, LoopStep):
        condition, body, after = parts
        return replace(step, condition=condition, body=body, after=after)
    return replace(step, branches=parts) if isinstance(step, BranchStep) else replace(step, steps=parts[0])


def with_waiting(steps: Sequence[Step]) -> list[Step]:
    """The steps, those that may wait after others: what is done row by row before and after them is one block then."""
    found: list[Step] = []
    waiting: list[NestStep] = []
    for step in steps:
        if isinstance(step, NestStep) and step.may_wait:
            waiting.append(step)
            continue
        if isinstance(step, ControlStep) or not set().union(*map(memory_touched, waiting)).isdisjoint(
            memory_touched(step)
        ):
            found += waiting
            waiting = []
        found.append(step)
    return found + waiting


def accesses(step: PlainStep) -> list[tuple[Buffer, bool]]:
    """Each buffer of a step, and whether it is written."""
    if isinstance(step, NestStep):
        return [(buffer, is_written) for buffer, _, is_written in step.nest.accesses()]
    if isinstance(step, GemmStep):
        return [(step.a, False), (step.b, False), (step.c, True)]
    return [(buffer, mode != "r") for _, buffer, mode in step.parameters]


def memory_touched(step: PlainStep) -> set[Storage]:
    """The memory that a step reads or writes to."""
    return {buffer.storage.memory for buffer, _ in accesses(step)}


def written_by(step: Step) -> set[Storage]:
    """What a step may write to; of a loop or branch, all that it holds, too."""
    found: set[Storage] = set()
    for one in inner_steps([step]):
        if isinstance(one, ControlStep):
            found.update(s.memory for s in one.holds)
        else:
            found.update(buffer.storage.memory for buffer, is_written in accesses(one) if is_written)
    return found


def _indented(steps: Sequence[Step], indent: str) -> Iterator[str]:
    return (indent + line for step in steps for line in str(step).split("\n"))
