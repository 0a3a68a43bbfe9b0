"""Kernels as coroutines: threads of several blocks take turns in any order, and stop at barriers, atomics and fences.

Knows the text of kernels, which it rewrites, and the words of `cuda` in it; no Programs. What threads do to memory
stands in `cuda_shadow_memory`.
"""

from __future__ import annotations

import ast
import dis
import inspect
import random
import textwrap
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from cuda_shadow_memory import KernelFault, RacingRead, RecordedArray, ShadowMemory, SimulatedThread, meet

from functad.records import NamedTuple

Request = tuple[Any, ...]  # the name of what a thread asks for, and operands
Coroutine = Generator[Request, Any, None]
SPINS = 20_000  # atomics in a row, and no thread gets to a barrier or to its end: nobody will any more
BARRIERS = {
    "syncthreads": lambda votes: None,
    "syncthreads_or": lambda votes: int(any(votes)),
    "syncthreads_and": lambda votes: int(all(votes)),
    "syncthreads_count": lambda votes: sum(map(bool, votes)),
}
ATOMICS: dict[str, Callable[..., Any]] = {
    "add": lambda before, value: before + value,
    "min": lambda before, value: np.minimum(before, value),
    "max": lambda before, value: np.maximum(before, value),
    "exch": lambda before, value: value,
    "inc": lambda before, value: 0 if before >= value else before + 1,
}


class _Asking(ast.NodeTransformer):
    """Makes of each word with which threads wait for one another a question to who runs them."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        words = ast.unparse(node.func).split(".")
        if words[0] != "cuda" or words[-1] not in {*BARRIERS, *ATOMICS, "threadfence"}:
            return node
        asked = ast.Tuple([ast.Constant(words[-1]), *node.args], ast.Load())
        return ast.copy_location(ast.Yield(asked), node)


@cache
def coroutine_of(function: FunctionType) -> Callable[..., Coroutine]:
    """The kernel as a function of what `cuda` is for a thread, and of its own parameters."""
    lines, first = inspect.getsourcelines(function)
    tree = _Asking().visit(ast.parse(textwrap.dedent("".join(lines))))
    (kernel,) = tree.body
    kernel.decorator_list = []
    kernel.args.args.insert(0, ast.arg("cuda"))
    kernel.body += ast.parse("if False: yield").body
    ast.increment_lineno(tree, first - 1)
    names = dict(function.__globals__)
    exec(compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec"), names)
    made: Callable[..., Coroutine] = names[function.__name__]
    return made


class _Order(NamedTuple):
    """An order of blocks and threads, and how many blocks run at a time."""

    seed: int
    resident: int


ORDERS = (_Order(0, 1), _Order(1, 3))
MORE_ORDERS = (_Order(2, 2), _Order(3, 1), _Order(4, 4))  # for kernels that have a race


@dataclass(eq=False)
class _Running:
    """A thread that has begun. request: what it waits for, at which
    place, an instruction. answer: what it is told when it goes on."""

    thread: SimulatedThread
    coroutine: Coroutine
    request: Request = ()
    answer: Any = None
    place: int = 0
    is_over: bool = False


@dataclass(eq=False)
class _Block:
    threads: list[_Running] = field(default_factory=list)
    waiting: int = 0
    over: int = 0


class Launch:
    """One start of a kernel.

    garbled: reads that find something else than what is there. has_sums: whether floats were added by atomics, so that
    results depend on the order.
    """

    def __init__(
        self,
        function: FunctionType,
        grid: Sequence[int],
        block: Sequence[int],
        order: _Order,
        garbled: Container[RacingRead],
    ) -> None:
        self.kernel = coroutine_of(function)
        self.grid, self.block, self.resident = tuple(grid), tuple(block), order.resident
        self.choose = random.Random(order.seed)
        self.shadow = ShadowMemory(function.__name__, self._where, self._line_of, garbled)
        self._running: _Running | None = None
        self._ready: list[_Running] = []
        self._block_of: dict[SimulatedThread, _Block] = {}
        self.has_sums = False
        self._spins = 0

    def run(self, arguments: Sequence[Any]) -> None:
        places = [*np.ndindex(*self.grid)]
        self.choose.shuffle(places)
        active = 0
        while places or self._ready:
            while places and active < self.resident:
                self._begin(places.pop(), arguments)
                active += 1
            at = self.choose.randrange(len(self._ready))
            self._ready[at], self._ready[-1] = self._ready[-1], self._ready[at]
            active -= self._go_on(self._ready.pop())

    def _where(self) -> int:
        """The instruction at which the thread is that runs, or has run last."""
        frame = None if self._running is None else self._running.coroutine.gi_frame
        return -1 if frame is None else frame.f_lasti

    def _line_of(self, instruction: int) -> int:
        starts = [(at, line) for at, line in dis.findlinestarts(self.kernel.__code__) if at <= instruction]
        return starts[-1][1] or 0 if starts else 0

    def _begin(self, place: tuple[int, ...], arguments: Sequence[Any]) -> None:
        number = int(np.ravel_multi_index(place, self.grid))
        count, block = int(np.prod(self.block)), _Block()
        shared = _SharedMemory(self.shadow)
        for k in range(count):
            x, y, z = k % self.block[0], k // self.block[0] % self.block[1], k // (self.block[0] * self.block[1])
            thread = SimulatedThread(number * count + k, number, k)
            self.shadow.threads[thread.number] = thread
            words = _Words(_three(place), _three((x, y, z)), _three(self.grid), _three(self.block), shared)
            running = _Running(thread, self.kernel(words, *arguments))
            block.threads.append(running)
            self._block_of[thread] = block
        self._ready += block.threads

    def _go_on(self, running: _Running) -> bool:
        """Let a thread run until it waits; whether its block is over."""
        block = self._block_of[running.thread]
        while True:
            self._running, self.shadow.thread = running, running.thread
            try:
                running.request = running.coroutine.send(running.answer)
            except StopIteration:
                running.is_over = True
                block.over += 1
                break
            word = running.request[0]
            if word == "threadfence":
                running.thread.fence()
                running.answer = None
                continue
            if word in ATOMICS:
                self._atomic(running, *running.request)
                return False
            running.place = self._where()
            block.waiting += 1
            break
        self._spins = 0
        if block.waiting and block.waiting + block.over == len(block.threads):
            self._meet(block)
        return block.over == len(block.threads)

    def _atomic(self, running: _Running, word: str, array: RecordedArray, index: Any, value: Any) -> None:
        self.has_sums |= word == "add" and array.dtype.kind in "fc"
        running.answer = array.change(index, lambda before: ATOMICS[word](before, value))
        self._ready.append(running)
        self._spins += 1
        if self._spins > SPINS:
            raise self.shadow.fault("waits for what no thread that runs will do")

    def _meet(self, block: _Block) -> None:
        places = {t.place for t in block.threads if not t.is_over}
        if block.over or len(places) > 1:
            lines = sorted({self._line_of(place) for place in places})
            ended = f"{block.over} threads of its block have ended, and others wait at lines {lines}"
            raise self.shadow.fault(ended if block.over else f"threads of its block wait at barriers at lines {lines}")
        votes = [t.request[1] if len(t.request) > 1 else None for t in block.threads]
        answer = BARRIERS[block.threads[0].request[0]](votes)
        for running in block.threads:
            running.answer = answer
        meet([t.thread for t in block.threads])
        block.waiting = 0
        self._ready += block.threads


def _three(sizes: Sequence[int]) -> Any:
    return SimpleNamespace(x=sizes[0], y=sizes[1], z=sizes[2])


class _SharedMemory:
    """The shared memory of a block: the first array lies at a round place, the others where the one before ends."""

    def __init__(self, shadow: ShadowMemory) -> None:
        self._shadow = shadow
        self._arrays: dict[int, RecordedArray] = {}
        self._end = _SHARED

    def array(self, shape: int, dtype: Any, alignment: int = 0) -> RecordedArray:
        line = inspect.currentframe().f_back.f_lineno  # type: ignore[union-attr]
        if line not in self._arrays:
            view = np.empty(shape, "bool" if str(dtype) == "boolean" else str(dtype))
            rounded = alignment or view.itemsize
            begin = -(-self._end // rounded) * rounded
            self._end = begin + view.nbytes
            places = range(begin, self._end, view.itemsize)
            block = self._shadow.thread.block
            apart = block << 20  # the words of one block are not those of another
            places = range(places.start + apart, places.stop + apart, places.step)
            name = f"shared memory ({self._shadow.name}, line {line})"
            self._arrays[line] = RecordedArray(self._shadow, name, view, places, np.zeros((shape, 1), np.bool_))
        return self._arrays[line]


_SHARED = 1 << 60  # an address, beyond those of other memory


class _Words:
    """What `cuda` is for a thread."""

    def __init__(self, block_at: Any, thread_at: Any, grid: Any, block: Any, shared: _SharedMemory) -> None:
        self.blockIdx, self.threadIdx, self.gridDim, self.blockDim = block_at, thread_at, grid, block
        self.shared = shared

    def grid(self, dimensions: int) -> int:
        assert dimensions == 1
        return int(self.blockIdx.x * self.blockDim.x + self.threadIdx.x)

    def gridsize(self, dimensions: int) -> int:
        assert dimensions == 1
        return int(self.gridDim.x * self.blockDim.x)


_harmless: set[tuple[FunctionType, int]] = set()


class OrderedRuns:
    """Runs of a kernel, after each of which its memory must be the same.

    arguments: gives recorded arrays, for each run. memories: all bytes that the kernel may change, and what is known of
    them.
    """

    def __init__(
        self,
        function: FunctionType,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Callable[[ShadowMemory], Sequence[Any]],
        memories: Sequence[np.ndarray],
    ) -> None:
        self._function, self._grid, self._block, self._arguments = function, grid, block, arguments
        self._memories = memories
        self._before = [memory.copy() for memory in memories]
        self._after: list[np.ndarray] | None = None

    def check(self) -> None:
        """Run it in some orders.

        What a read finds that is in a race with a write is undefined. Such a race is a fault unless it does not matter:
        the kernel leaves the same where that read finds another number.

        Raises:
            KernelFault: what the kernel must not do.
        """
        for order in ORDERS:
            racing = self._unknown(self._run(order))
            if racing:
                for other in MORE_ORDERS:
                    self._run(other)
                text = next(iter(racing.values()))
                try:
                    self._run(order, racing)
                except KernelFault as fault:
                    raise KernelFault(text) from fault
                _harmless.update((self._function, instruction) for _, instruction, _ in racing)

    def _unknown(self, racing: Mapping[RacingRead, str]) -> Mapping[RacingRead, str]:
        """Those of which another run has not shown that they do not matter."""
        return {read: text for read, text in racing.items() if (self._function, read[1]) not in _harmless}

    def _run(self, order: _Order, garbled: Mapping[RacingRead, str] | None = None) -> Mapping[RacingRead, str]:
        """The reads that are in a race, and what to say of them."""
        for memory, old in zip(self._memories, self._before):
            memory[...] = old
        launch = Launch(self._function, self._grid, self._block, order, garbled or {})
        launch.run(self._arguments(launch.shadow))
        if launch.has_sums and garbled is None:
            return launch.shadow.racing
        if self._after is None:
            self._after = [memory.copy() for memory in self._memories]
        elif any(one.tobytes() != other.tobytes() for one, other in zip(self._after, self._memories)):
            racing = next(iter(launch.shadow.racing.values()), "")
            raise KernelFault(
                f"{self._function.__name__}: what it leaves depends on the order of blocks and threads {racing}"
            )
        return launch.shadow.racing
