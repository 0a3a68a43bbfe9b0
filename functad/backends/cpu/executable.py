"""The CPU backend: `compile_program(program) -> executable`. A Program that was compiled before is found on disk.

Knows plans and how they run. What makes one (`lowering`) is imported where none is found, or something is to be looked
at or measured.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cpu import kept_plans
from functad.backends.cpu.compile import shared_kernels
from functad.backends.cpu.products.blas import named_handle
from functad.backends.cpu.runtime.direct import DirectCall, DirectTypes, bind_directly
from functad.backends.cpu.runtime.linking import FreshArrays, Plan, ResultPlaces, prepare_tape, with_addresses
from functad.backends.cpu.runtime.tape import BoundTape, Tape, release_stacks, settle
from functad.errors import TooLargeError
from functad.ir import Aval, Program
from functad.records import NamedTuple, Record
from functad.system import numba_here
from functad.system.freed_memory import empty_for, large_empty
from functad.system.once import imported


class NotStartedError(TooLargeError):
    """There was no memory before anything was computed: donated arguments still have their elements.

    It does not leave the call, so that one that ran as a callback is not taken for the call around it.
    """


def compile_program(
    program: Program, donated: Sequence[bool] = (), optimized: Callable[[Program], Program] = lambda p: p
) -> Any:
    """The executable of a Program; results may take the memory of the inputs marked as donated.

    optimized: gives the Program that is compiled, unless the one at hand was compiled before.
    """
    if numba_here.is_switched_off():
        return imported("functad.backends.cpu.plain").PlainExecutable(optimized(program), donated)
    key = kept_plans.plan_key(program, donated)
    plan = None if key is None else kept_plans.find_plan(key)
    addresses = None if plan is None else shared_kernels.find_kernels(plan.kernels)
    lowering = _Lowering(weakref.ref(program), tuple(donated), optimized)
    if plan is not None and addresses is not None:
        return CpuExecutable(plan, addresses, lowering)
    lowered = lowering()
    plan = lowered.assembled().plan
    executable = CpuExecutable(plan, lowered.compiled(lambda: _prepare(plan)), lowering)
    if key is not None:
        kept_plans.keep_plan(key, plan)
    return executable


def _prepare(plan: Plan) -> None:
    """Load what a plan needs besides kernels."""
    prepare_tape(plan.entries)
    for _, name in plan.handles:
        named_handle(name)


def lower_program(program: Program, donated: Sequence[bool] = ()) -> Any:
    """Everything up to machine code."""
    return imported("functad.backends.cpu.lowering").CpuLowering(program, donated)


class _Lowering(Record):
    """Lowers a Program, as long as it lives."""

    program: weakref.ref[Program]
    donated: tuple[bool, ...]
    optimized: Callable[[Program], Program]

    def __call__(self) -> Any:
        program = self.program()
        assert program is not None, "whoever has an executable has its Program"
        return lower_program(self.optimized(program), self.donated)


class CallableProgram:
    """A function of the list of a Program's inputs, ndarrays, to the list of its results.

    Inputs are not changed, except those marked as donated, whose memory results may be. Any number of threads may
    call it at the same time.

    fresh: shape and dtype of the arrays to be made for a call. results: for each result the number of the array, and
    its shape where that is not the array's.
    """

    not_started = NotStartedError  # what `run` raises if donated arguments are as they were

    def __init__(self, name: str, fresh: FreshArrays, results: ResultPlaces, arena_bytes: int) -> None:
        self.fresh, self.results = fresh, results
        self._name, self._arena_bytes = name, arena_bytes

    def run(self, given: list[np.ndarray]) -> bool:
        """Run on inputs followed by the memory of fresh results; then `results` tells where each result lies.

        An input whose memory cannot be used as it is (not contiguous, not aligned) is replaced by a copy; returns
        whether there was one.

        Raises:
            NotStartedError: there is no memory for temporaries or such copies. All inputs are as they were.
        """
        raise NotImplementedError

    def __call__(self, args: Sequence[np.ndarray]) -> list[np.ndarray]:
        try:
            given = [*args, *(empty_for(*t)(*t) for t in self.fresh)]
        except (MemoryError, ValueError) as problem:
            raise self.too_large() from problem
        try:
            self.run(given)
        except NotStartedError as problem:
            raise self.too_large() from problem
        return [given[i] if shape is None else given[i].reshape(shape) for i, shape in self.results]

    def too_large(self) -> TooLargeError:
        """What to raise if there is no memory for results or temporaries."""
        results = sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in self.fresh)
        sizes = [f"{nbytes / 2**30:,.1f} GiB" for nbytes in (results, self._arena_bytes)]
        return TooLargeError(
            f"{self._name or 'a jitted function'} needs {sizes[0]} for its results and {sizes[1]} for temporary "
            "arrays, for which there is no memory. `.lower(...).memory_plan` lists the temporaries. Check shapes: a "
            "broadcast of two vectors makes a matrix. lax.map or lax.scan goes through the parts of what is large"
        )


class CpuExecutable(CallableProgram):
    """A compiled Program. lowering: makes what the plan was made from."""

    def __init__(self, plan: Plan, addresses: Mapping[str, int], lowering: Callable[[], Any]) -> None:
        super().__init__(plan.name, plan.fresh, plan.results, plan.arena_bytes)
        self.plan, self.addresses = plan, addresses
        self.tape = Tape(with_addresses(plan.entries, addresses), release_gil=plan.release_gil, token=plan.token)
        self._lowering = lowering
        self._free: list[CallState] = []

    def run(self, given: list[np.ndarray]) -> bool:
        try:
            run, _, _ = context = self._free.pop()
        except IndexError:
            run, _, _ = context = self.new_context()
        status, copied = run(given), False  # if it raises, the context is of no use any more
        while status:
            if status > 0:
                given[status - 1], copied = self._usable(given[status - 1]), True
                status = run(given)
            else:
                settle(status)
                status = 0
        self._free.append(context)
        return copied

    def _usable(self, given: np.ndarray) -> np.ndarray:
        try:
            return np.array(given, order="C", copy=True)
        except (MemoryError, ValueError) as problem:
            raise NotStartedError(str(self.too_large())) from problem

    def direct_call(
        self,
        constants: Sequence[np.ndarray],
        leaves: Sequence[Aval],
        numbers: Sequence[bool],
        results: Sequence[Aval],
    ) -> DirectCall | None:
        """A function of the leaves themselves, for calls of little work, as `bind_directly` describes it.

        It has slots and an arena of its own. None unless each result is a new array, as it is.
        """
        types = DirectTypes(constants, leaves, numbers, results)
        inputs = len(types.constants) + len(types.leaves)
        own = [(inputs + k, None) for k in range(len(types.results))]
        new = [(aval.shape, aval.dtype) for aval in types.results]
        if list(self.results) != own or list(self.fresh) != new or self.plan.stacks:
            return None
        if any(empty_for(*t) is large_empty for t in new):
            return None
        if self.plan.arena_bytes > machine_model.DIRECT_ARENA_BYTES:
            return None
        slots, arena = self._memory()
        return bind_directly(self.tape, slots, arena, types)

    def new_context(self) -> CallState:
        """Slots and an arena for one call at a time; stacks grow with the first ones, and stay as large."""
        slots, arena = self._memory()
        self.tape.start_helpers()
        return CallState(self.tape.bind(slots, self.plan.arrays), slots, arena)

    def _memory(self) -> tuple[np.ndarray, np.ndarray]:
        try:
            arena = np.empty(self.plan.arena_bytes + machine_model.CACHE_LINE, np.uint8)
        except (MemoryError, ValueError) as problem:
            raise NotStartedError(str(self.too_large())) from problem
        start = -(-arena.ctypes.data // machine_model.CACHE_LINE) * machine_model.CACHE_LINE
        slots = np.zeros(self.plan.slots, np.int64)
        for slot, offset in self.plan.arena:
            slots[slot] = start + offset
        for slot, value in self.plan.constants:
            slots[slot] = value.ctypes.data
        for slot, name in self.plan.handles:
            slots[slot] = named_handle(name)
        if self.plan.stacks:
            weakref.finalize(arena, release_stacks, slots, self.plan.stacks).atexit = False
        return slots, arena

    # --- looking inside ----------------------------------------------------------------------------------

    def profile(self, args: Sequence[np.ndarray], repeats: int = 20) -> Any:
        """The least time of each kernel on its own, over all of its range and on all threads, beside its floor."""
        return self._measurer().profile(args, repeats)

    def measure(self, args: Sequence[np.ndarray], repeats: int = 20) -> list[tuple[Any, int, float]]:
        """Each instruction, how often a call runs it, and its least time in ns on its own."""
        measured: list[tuple[Any, int, float]] = self._measurer().measure(args, repeats)
        return measured

    def _measurer(self) -> Any:
        return imported("functad.backends.cpu.measuring").Measurer(self, self._lowering())


class CallState(NamedTuple):
    """What one call at a time uses: the bound tape, its slots and its arena."""

    run: BoundTape
    slots: np.ndarray
    arena: np.ndarray
