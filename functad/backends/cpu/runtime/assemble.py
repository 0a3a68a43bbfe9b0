"""From blocks, loops and branches to a tape: a slot for every piece of memory, and entries that name slots and kernels.

Knows how the runtime's entries look; nothing of how kernels are made, nor where their code lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cpu.kernels.arguments import words
from functad.backends.cpu.products.gemm import Matrix, best_split
from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime.calls import PythonCall, SlotArray
from functad.backends.cpu.runtime.linking import KernelCall, ProductCall
from functad.backends.cpu.runtime.tape import (
    Grow,
    Jump,
    Moves,
    Repeat,
    Switch,
    TapeBlock,
    TapeEntry,
    chunk_count,
)
from functad.lowering import blocks as plan
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.schedule import Schedule
from functad.lowering.steps import BranchStep, CallStep, GemmStep, LoopStep, Move


class Slots:
    """The slots of one call: inputs, fresh outputs, constants, temporaries, pointers, counters, addresses of products.

    arrays: how many of the first slots hold the arrays of a call. fresh: shape and dtype of the arrays to be made.
    results: for each result the slot, and its shape where that is not the array's. numbers: the slot of each storage.
    handles: the slots of the products' handles, by their names.
    """

    def __init__(self, schedule: Schedule, temporaries: Iterable[Storage], instructions: Iterable[plan.Instruction]):
        self.numbers: dict[Storage, int] = {b.storage: i for i, b in enumerate(schedule.inputs)}
        self.fresh: list[tuple[tuple[int, ...], np.dtype]] = []
        shapes = [buffer.shape for buffer in schedule.inputs]
        self.results: list[tuple[int, tuple[int, ...] | None]] = []
        for buffer in schedule.outputs:
            storage = buffer.storage
            if storage not in self.numbers:
                self.numbers[storage] = len(self.numbers)
                self.fresh.append((buffer.shape, buffer.dtype))
                shapes.append(buffer.shape)
                self.results.append((self.numbers[storage], None))
            else:
                # A reshaped view would hide from the next call that it may take over the memory.
                slot = self.numbers[storage]
                same = shapes[slot] == buffer.shape
                self.results.append((slot, None if same else buffer.shape))
        self.arrays = len(self.numbers)
        for storage in (*(b.storage for b in schedule.constants), *temporaries):
            self.numbers[storage] = len(self.numbers)
        self.count = len(self.numbers)
        self.private = 0  # how many more there are behind all these, for chunks that have slots of their own
        self.handles: dict[str, int] = {}
        self.token = self.new()  # of the address of the call's cancellation token
        for instruction in instructions:
            for _, buffer, _ in instruction.parameters:
                if buffer.storage.kind == "blas" and buffer.name not in self.handles:
                    self.handles[buffer.name] = self.new()

    def new(self) -> int:
        """One more slot, which starts with 0."""
        self.count += 1
        return self.count - 1

    def of(self, storage: Storage) -> int:
        """The slot of a storage; one that is not known yet is a pointer, which moves set."""
        storage = storage.memory
        if storage not in self.numbers:
            assert storage.kind in ("pointer", "stack"), f"nobody writes the address of {storage}"
            self.numbers[storage] = self.new()
        return self.numbers[storage]

    def of_buffer(self, buffer: Buffer) -> int:
        if buffer.storage.kind == "token":
            return self.token
        return self.handles[buffer.name] if buffer.storage.kind == "blas" else self.of(buffer.storage)


class Assembler:
    """Makes the entries of a tape. stacks: the slots that hold addresses of memory that grows, and stays."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.entries: list[TapeEntry] = []
        self._zero = -1
        self.stacks: list[int] = []

    def add(self, items: Sequence[plan.Block | plan.ControlPlan]) -> None:
        """The entries of blocks, loops and branches, in order."""
        together: list[TapeBlock] = []  # whole blocks, each of which can only be reached from the one before it
        for item in items:
            if isinstance(item, plan.Block):
                block = self._block(item)
                if chunk_count(block) > 1:
                    self._add_joined(together)
                    self.entries.append(block)
                else:
                    together.append(block)
                if isinstance(item.instructions[0].step, CallStep):
                    self._add_joined(together)  # the tape may stop behind a call
                continue
            self._add_joined(together)
            if isinstance(item.step, LoopStep) and item.by_rows:
                self._loop_by_rows(item.step, item.parts[1][0], item.parts[2])
            elif isinstance(item.step, LoopStep):
                self._loop(item.step, *item.parts)
            elif isinstance(item.step, BranchStep):
                self._branch(item.step, item.parts)
            else:
                here = self._jump(w.SAME, self.slots.of(item.step.one), self.slots.of(item.step.other))
                self.add(item.parts[0])
                self._lands(here)
        self._add_joined(together)

    def _add_joined(self, blocks: list[TapeBlock]) -> None:
        """Add blocks, none of which is cut into chunks, as one, and forget them."""
        if len(blocks) == 1:
            self.entries.append(blocks[0])
        elif blocks:
            scaled = [i._replace(scale=i.scale * block.rows) for block in blocks for i in block.instructions]
            self.entries.append(TapeBlock(1, scaled))
        blocks.clear()

    def finish(self) -> list[TapeEntry]:
        """All entries, of a tape that ends here."""
        count, repeats = self.slots.count, [e for e in self.entries if isinstance(e, Repeat)]
        self.slots.private = count * max((chunk_count(r.block) for r in repeats), default=0)
        return [e._replace(private=count, words=count) if isinstance(e, Repeat) else e for e in self.entries]

    # --- loops and branches --------------------------------------------------------------------------------

    def _loop(self, step: LoopStep, condition: list[Any], body: list[Any], after: list[Any]) -> None:
        starts = self._moves(step.starts)
        if step.predicate is not None:
            counts = [] if step.count is None else [(self.slots.of(step.count), self._zero_slot(), 0)]
            self._add_moves(starts + counts)
            begin = len(self.entries)
            self.add(condition)
            leave = self._jump(w.UNLESS, self.slots.of(step.predicate.storage))
            self._grow(step, 1)
            self.add(body)
            self._add_moves(self._moves(step.moves) + [(slot, slot, 1) for slot, _, _ in counts])
            self.entries.append(Jump(w.JUMP, begin))
            self._lands(leave)
        else:
            counter = self.slots.new()
            count = (counter, self._zero_slot(), step.length or 0)
            if step.count is not None:
                count = (counter, self.slots.of(step.count), 0)
            self._add_moves([*starts, count])
            self._grow(step, 0)
            none = self._jump(w.SAME, counter, self._zero_slot()) if step.count is not None else -1
            begin = len(self.entries)
            self.add(body)
            self._add_moves(self._moves(step.moves))
            self.entries.append(Jump(w.AGAIN, begin, counter))
            if none >= 0:
                self._lands(none)
        self.add(after)

    def _loop_by_rows(self, step: LoopStep, block: plan.Block, after: list[Any]) -> None:
        assert step.length is not None
        self._add_moves(self._moves(step.starts))
        instructions = [self._instruction(i, s) for i, s in zip(block.instructions, block.scales)]
        moves = Moves(self._moves(step.moves))
        unread = step.body[len(step.body) - step.unread :]
        last = sum(i.step not in unread for i in block.instructions)
        self.entries.append(Repeat(TapeBlock(block.rows, instructions, block.chunk), step.length, moves, last))
        self.add(after)

    def _grow(self, step: LoopStep, extra: int) -> None:
        if step.stacks and step.count is not None:
            stacks = [(self.slots.of(s.memory), self.slots.of(s.pointer), s.pointer.nbytes) for s in step.stacks]
            self.entries.append(Grow(self.slots.of(step.count), self.slots.new(), extra, stacks))
            self.stacks += [memory for memory, _, _ in stacks]

    def _branch(self, step: BranchStep, branches: list[list[Any]]) -> None:
        switch = len(self.entries)
        self.entries.append(Switch(self.slots.of(step.index.storage), ()))
        begins, ends = [], []
        for branch in branches:
            begins.append(len(self.entries))
            self.add(branch)
            if branch is not branches[-1]:
                ends.append(self._jump(w.JUMP))
        self.entries[switch] = Switch(self.slots.of(step.index.storage), begins)
        for end in ends:
            self._lands(end)

    def _moves(self, moves: Sequence[Move]) -> list[tuple[int, int, int]]:
        return [(self.slots.of(m.target), self.slots.of(m.source), m.offset) for m in moves]

    def _add_moves(self, moves: list[tuple[int, int, int]]) -> None:
        if moves:
            self.entries.append(Moves(moves))

    def _jump(self, kind: int, slot: int = 0, other: int = 0) -> int:
        """A jump whose target `_lands` sets."""
        self.entries.append(Jump(kind, 0, slot, other))
        return len(self.entries) - 1

    def _lands(self, jump: int) -> None:
        entry = self.entries[jump]
        assert isinstance(entry, Jump)
        self.entries[jump] = entry._replace(target=len(self.entries))

    def _zero_slot(self) -> int:
        if self._zero < 0:
            self._zero = self.slots.new()
        return self._zero

    # --- blocks ----------------------------------------------------------------------------------------------

    def _block(self, block: plan.Block) -> TapeBlock:
        if len(block.instructions) == 1 and isinstance(block.instructions[0].step, GemmStep):
            step = block.instructions[0].step
            split, rows, chunk = best_split(step.a.dtype, step.m, step.n, step.k, step.batch)
            return TapeBlock(rows, [self._product(step, split)], chunk)
        instructions = [self._instruction(i, s) for i, s in zip(block.instructions, block.scales)]
        return TapeBlock(block.rows, instructions, block.chunk if block.parallel else 0)

    def _instruction(self, instruction: plan.Instruction, scale: int) -> Any:
        if isinstance(instruction.step, GemmStep):
            split = "rows" if instruction.step.batch == 1 else "batch"
            return self._product(instruction.step, split)._replace(scale=scale)
        if isinstance(instruction.step, CallStep):
            return self._call(instruction.step)
        pointers = [(self.slots.of_buffer(buffer), buffer.dtype, offset) for buffer, offset in instruction.arguments]
        params = words(pointers, instruction.constants)
        blas = any(b.storage.kind == "blas" for _, b, _ in instruction.parameters)
        counts = any(b.storage.kind == "token" for _, b, _ in instruction.parameters)
        base = machine_model.POLL_BUDGET if counts else machine_model.JUMP_WORK
        return KernelCall(instruction.function, params, scale, blas, instruction.work, base)

    def _call(self, step: CallStep) -> PythonCall:
        operands, results = (
            [SlotArray(self.slots.of_buffer(b), b.shape, b.dtype) for b in side] for side in (step.ins, step.outs)
        )
        return PythonCall(step.callback, operands, results, self.slots.token)

    def _product(self, step: GemmStep, split: str) -> ProductCall:
        sizes: dict[str, Any] = {"m": step.m, "n": step.n, "k": step.k, "ta": bool(step.ta), "tb": bool(step.tb)}
        sizes |= {"alpha": step.alpha, "beta": step.beta, "packed": step.panel > 0}
        return ProductCall(step.a.dtype, *self._matrices(step), sizes, split, self.slots.token)

    def _matrices(self, step: GemmStep) -> tuple[Matrix, Matrix, Matrix]:
        return (
            Matrix(self.slots.of_buffer(step.a), step.lda, step.a_offset, step.a_batch),
            Matrix(self.slots.of_buffer(step.b), step.ldb, step.b_offset, step.b_batch),
            Matrix(self.slots.of_buffer(step.c), step.ldc, step.c_offset, step.c_batch),
        )
