"""Running compiled programs: tapes of instructions, how Python calls one, and the pool of threads that all share.

This file must not know what the instructions compute, nor how a Program becomes a tape.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cpu.compile.word_modules import load_words
from functad.backends.cpu.products import gemm_runtime
from functad.backends.cpu.runtime import compiled, compiled_arrays, compiled_entry
from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime.built_in import METH_FASTCALL, METH_O, BuiltIn
from functad.backends.cpu.runtime.pool import Pool
from functad.backends.cpu.runtime.python_objects import layout_problem, tell_makers
from functad.config import config
from functad.errors import ArgumentError
from functad.records import NamedTuple
from functad.system.once import unforked

Words = np.ndarray[Any, np.dtype[np.int64]]
BoundTape = Callable[[list[np.ndarray[Any, Any]]], int]


class TapeInstruction(NamedTuple):
    """One call of a kernel.

    address: of a C function `void kernel(int64_t* slots, int64_t* params, int64_t start, int64_t stop)`.
    params: int64 array, handed to the kernel as it is.
    scale: the kernel's range is that of the block times this.
    blas: whether the kernel calls the BLAS library.
    work: of one step of the kernel's range, in lines of text that run.
    base: the same of a call, besides.
    asks: whether the kernel itself looks whether it shall stop. Else a range with more work than
        `machine_model.POLL_WORK` is run in pieces.
    """

    address: int
    params: Words
    scale: int = 1
    blas: bool = False
    work: float = 0.0
    base: int = machine_model.JUMP_WORK
    asks: bool = False


class TapeBlock(NamedTuple):
    """Instructions that run over the same rows.

    rows: the instructions' range is `0..rows * scale`.
    instructions: of `TapeInstruction`; until addresses are put in (`linking`), calls of kernels by their names.
    chunk: 0: every instruction runs once, over the whole range, one after the other. Else the range is cut into
        chunks of so many rows, which run in any order and on several threads; all instructions run over a chunk.
    """

    rows: int
    instructions: Sequence[Any]
    chunk: int = 0


class Moves(NamedTuple):
    """Slots are set, one after the other: `slots[target] = slots[source] + offset`."""

    moves: Sequence[tuple[int, int, int]]


class Jump(NamedTuple):
    """The tape goes on at the entry of number `target`, always or under a condition.

    kind: JUMP, or AGAIN (if `slots[slot]`, less one, is not zero), UNLESS (if the bool at the address `slots[slot]` is
    not set), SAME (if `slots[slot]` and `slots[other]` are equal).
    """

    kind: int
    target: int
    slot: int = 0
    other: int = 0


class Switch(NamedTuple):
    """The tape goes on at the entry that the int32 at the address `slots[slot]` chooses; it is clamped."""

    slot: int
    targets: Sequence[int]


class Grow(NamedTuple):
    """Stacks get room for as many slices as `slots[steps]` says and `extra` more; `release_stacks` gives it back.

    capacity: the slot that tells for how many there is room. stacks: for each the slot of its address, the slot that
    gets the address of the slice to write, which is the first one or (extra = 1) the one after `steps`, and its bytes.
    """

    steps: int
    capacity: int
    extra: int
    stacks: Sequence[tuple[int, int, int]]


class Repeat(NamedTuple):
    """A block whose chunks run `steps` times, with moves in between, without waiting for other chunks.

    private: the first of the slots that chunks have for themselves, `words` for each: copies of the first `words`
    slots, on which the moves work. Afterwards the slots are what they have become for the first chunk.
    last: so many instructions the last step runs.
    """

    block: TapeBlock
    steps: int
    moves: Moves
    last: int
    private: int = 0
    words: int = 0


TapeEntry = TapeBlock | Moves | Jump | Switch | Grow | Repeat


class Tape:
    """A compiled program as the runtime reads it. Immutable: any number of calls may run it at the same time.

    Args:
        entries: run one after the other, jumps excepted. A target may be the number of entries: the end.
        release_gil: let other Python threads run during a call. That costs little, but a thread that gave up the
            interpreter may wait for it for milliseconds: not worth it for a few microseconds of work.
        token: the slot that gets the address of the call's cancellation token, for instructions that look there.
    """

    def __init__(self, entries: Sequence[TapeEntry], *, release_gil: bool = True, token: int = -1) -> None:
        words = [_words(entry) for entry in entries]
        places = [w.TAPE_HEAD, *(w.TAPE_HEAD + total for total in accumulate(map(len, words)))]
        for entry, its_words in zip(entries, words):
            if isinstance(entry, Jump):
                its_words[w.JUMP_TARGET] = places[entry.target]
            elif isinstance(entry, Switch):
                its_words[w.SWITCH_HEAD :] = [places[target] for target in entry.targets]
        blocks = [entry for entry in entries if isinstance(entry, TapeBlock)]
        blocks += [entry.block for entry in entries if isinstance(entry, Repeat)]
        instructions = [instruction for block in blocks for instruction in block.instructions]
        self.is_parallel = any(_chunks(block)[1] > 1 for block in blocks)
        blas = any(instruction.blas for instruction in instructions)
        head = [runtime().pool.address, places[-1], self.is_parallel, blas, release_gil, token]
        self.words: Words = np.array([*head, *chain.from_iterable(words)], np.int64)
        self._kept = [instruction.params for instruction in instructions]

    @property
    def address(self) -> int:
        return int(self.words.ctypes.data)

    def bind(self, slots: Words, arrays: int) -> BoundTape:
        """The function that runs the tape with these slots; only one call at a time may use them.

        Args:
            slots: addresses of buffers. A call writes those of its arrays to the first slots.
            arrays: the number of arrays that the function takes.

        Returns:
            A function of one list of that many `numpy.ndarray`. It returns 0, or a status to hand to `settle`, or
            raises what a Python function on the tape, or the handler of a signal that came meanwhile, has raised.
        """
        return runtime().bind(self, slots, arrays)

    def start_helpers(self) -> None:
        """Start the pool's threads if the tape has work for them: a first call need not find them missing."""
        if self.is_parallel:
            runtime().pool.start()

    def run(self, slots: Words) -> int:
        """Run the tape with slots that all are filled in; returns 0 or a status to hand to `settle`."""
        return int(runtime().enter(self.address, slots.ctypes.data))


def release_stacks(slots: Words, stacks: Sequence[int]) -> None:
    """Give back the memory of stacks, whose addresses lie in some of the slots."""
    for slot in stacks:
        ctypes.pythonapi.PyMem_RawFree(ctypes.c_void_p(int(slots[slot])))


def settle(status: int) -> None:
    """Do what the status of a call asks for: start the pool's threads, or raise.

    Raises:
        ArgumentError: nothing was run, because an array cannot be used as it is.
        MemoryError: there is no room for the steps of a loop. SystemExit: the process ends.
    """
    if status == w.HELPERS_MISSING:
        runtime().pool.start()
    elif status == w.ENDED:
        raise SystemExit  # this thread is a daemon: nobody waits for it any more
    elif status == w.WRONG_COUNT:
        raise ArgumentError("a compiled program was called with a wrong number of arrays")
    elif status == w.OUT_OF_MEMORY:
        raise MemoryError("a loop of unknown length has more steps than the memory of its derivative can hold")
    elif status > 0:
        raise ArgumentError(f"array {status - 1} of a compiled program is not a C-contiguous, aligned numpy.ndarray")


class Runtime:
    """The compiled runtime, loaded: addresses of its functions, the pool, and how Python enters."""

    def __init__(self) -> None:
        self.kernels = load_words(compiled, compiled_arrays, compiled_entry, gemm_runtime, identity="runtime")
        self.addresses = self.kernels.addresses
        # As a function of Python's own interface, so that an exception that it has set is raised.
        self.enter = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(self.addresses["enter"])
        self.pool = Pool(self.addresses)
        config.watch("num_threads", self.pool.set_threads)
        self._bound = BuiltIn(self.kernels, "call", METH_O)
        self.direct = BuiltIn(self.kernels, "call_directly", METH_FASTCALL)
        self.entry_problem = layout_problem()
        self.direct_problem = self.entry_problem or tell_makers(self.pool.words)
        self.pool.survive_forks()

    def bind(self, tape: Tape, slots: Words, arrays: int) -> BoundTape:
        if self.entry_problem:
            return self._bind_in_python(tape, slots, arrays)
        return self._bound.bound([tape.address, slots.ctypes.data, arrays], tape, slots)

    def _bind_in_python(self, tape: Tape, slots: Words, arrays: int) -> BoundTape:
        def call(given: list[np.ndarray[Any, Any]]) -> int:
            if len(given) != arrays:
                return w.WRONG_COUNT
            for i, array in enumerate(given):
                if type(array) is not np.ndarray or not (array.flags.c_contiguous and array.flags.aligned):
                    return i + 1
                slots[i] = array.__array_interface__["data"][0]
            return int(self.enter(tape.address, slots.ctypes.data))

        return call


def runtime() -> Runtime:
    """The runtime of this process, loaded (and, without a cached object file, compiled) at the first call."""
    if not _runtime:
        with unforked:
            if not _runtime:
                _runtime.append(Runtime())
    return _runtime[0]


_runtime: list[Runtime] = []


def chunk_count(block: TapeBlock) -> int:
    """In how many chunks a block runs."""
    return _chunks(block)[1]


def _chunks(block: TapeBlock) -> tuple[int, int]:
    """Rows of a chunk, and the number of chunks."""
    if block.chunk <= 0 or block.rows <= block.chunk:
        return block.rows, 1
    chunk = max(block.chunk, -(-block.rows // (w.CLAIM_SIZE - 1)))
    return chunk, -(-block.rows // chunk)


def _words(entry: TapeEntry) -> list[int]:
    """An entry as it stands on the tape, but with the numbers of entries in the place of where they begin."""
    if isinstance(entry, Repeat):
        repeat = [entry.steps, entry.private, entry.words, entry.last]
        return [w.REPEAT, *_words(entry.block)[1:], *repeat, *_words(entry.moves)]
    if isinstance(entry, Moves):
        return [w.MOVES, len(entry.moves), *(word for move in entry.moves for word in move)]
    if isinstance(entry, Jump):
        return [entry.kind, entry.target, entry.slot, entry.other]
    if isinstance(entry, Grow):
        head = [w.GROW, entry.steps, entry.capacity, entry.extra, len(entry.stacks)]
        return [*head, *(word for stack in entry.stacks for word in stack)]
    if isinstance(entry, Switch):
        return [w.SWITCH, entry.slot, len(entry.targets), *entry.targets]
    rows, chunks = _chunks(entry)
    work = min(int(rows * sum(i.work * i.scale for i in entry.instructions)), machine_model.POLL_WORK)
    work += sum(i.base for i in entry.instructions)
    words = [w.BLOCK, entry.rows, rows, chunks, work, len(entry.instructions)]
    for instruction in entry.instructions:
        piece = w.WHOLE if instruction.asks or not instruction.work else int(machine_model.POLL_WORK / instruction.work)
        # Vectors of the next piece begin where those of the whole range would.
        piece = piece // 64 * 64 if piece > 64 else max(piece, 1)
        words += [instruction.address, instruction.params.ctypes.data, instruction.scale, piece]
    return words
