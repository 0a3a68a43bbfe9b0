"""Kernels looked after as they run: each kind of fault is found, what is right passes; functad's kernels have none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_interleaving import OrderedRuns
from cuda_sanitizer import aligned
from cuda_shadow_memory import KernelFault, RecordedArray, ShadowMemory
from cuda_simulated import CHECKS

from functad.backends.cuda.scalars import words

THREADS = 4
ROOT = Path(__file__).parents[3]
cuda: Any = None  # what threads have in its place
load4, loads, stores, along, across = (
    aligned(getattr(words, name)) for name in ("load4", "loads", "stores", "along", "across")
)


def run(kernel: Callable[..., None], *arrays: np.ndarray, blocks: int = 3, known: bool = True) -> None:
    """Run a kernel in some orders; known: whether something has been written to the arrays."""
    flags = [np.full((a.size, a.itemsize), known) for a in arrays]

    def arguments(shadow: ShadowMemory) -> list[RecordedArray]:
        names = kernel.__code__.co_varnames
        return [
            RecordedArray(shadow, name, a, range(a.ctypes.data, a.ctypes.data + a.nbytes, a.itemsize), f)
            for name, a, f in zip(names, arrays, flags)
        ]

    OrderedRuns(kernel, (blocks, 1, 1), (THREADS, 1, 1), arguments, [*arrays, *flags]).check()


def numbers(size: int = 16) -> np.ndarray:
    return np.zeros(size, np.int32)


# --- faults within a block ------------------------------------------------------------------------------


def no_barrier(out: Any) -> None:
    thread = cuda.threadIdx.x
    shared = cuda.shared.array(4, "int32")
    shared[thread] = thread
    out[cuda.grid(1)] = shared[3 - thread]


def no_barrier_before_the_next_step(out: Any) -> None:
    thread = cuda.threadIdx.x
    shared = cuda.shared.array(4, "int32")
    for step in range(2):
        shared[thread] = thread + step
        cuda.syncthreads()
        out[cuda.grid(1)] = shared[3 - thread]


def two_writers(out: Any) -> None:
    shared = cuda.shared.array(1, "int32")
    shared[0] = 7
    cuda.syncthreads()
    out[cuda.grid(1)] = shared[0]


def a_barrier_that_some_do_not_reach(out: Any) -> None:
    if cuda.threadIdx.x < 2:
        cuda.syncthreads()
    out[cuda.grid(1)] = 1


def two_barriers_at_a_time(out: Any) -> None:
    if cuda.threadIdx.x < 2:
        cuda.syncthreads()
    else:
        cuda.syncthreads()
    out[cuda.grid(1)] = 1


def an_atomic_beside_a_read(out: Any) -> None:
    shared = cuda.shared.array(1, "int32")
    if cuda.threadIdx.x == 0:
        shared[0] = 0
    cuda.syncthreads()
    cuda.atomic.add(shared, 0, 1)
    out[cuda.grid(1)] = shared[0]


# --- faults between blocks ------------------------------------------------------------------------------


def two_blocks_write(out: Any) -> None:
    if cuda.threadIdx.x == 0:
        out[0] = 1


def reads_what_another_block_writes(out: Any) -> None:
    at = cuda.grid(1)
    out[at] = out[at] + out[(at + 4) % 12]


def reads_what_it_does_not_use(out: Any) -> None:
    at = cuda.grid(1)
    other = out[(at + 4) % 12]
    out[at] = at if at < 12 else other


def takes_a_number_without_a_ticket(out: Any, marks: Any) -> None:
    """The next block may never begin while this one waits."""
    block = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(marks, block, 1)
        if block < 2:
            while cuda.atomic.add(marks, block + 1, 0) == 0:
                pass
        out[block] = 1


def leaves_the_order_of_blocks(out: Any, marks: Any) -> None:
    out[cuda.grid(1)] = cuda.atomic.add(marks, 0, 1)


def a_flag_without_atomics(out: Any, marks: Any) -> None:
    if cuda.grid(1) == 0:
        out[0] = 5
        cuda.threadfence()
        marks[0] = 1
    elif cuda.grid(1) == 4:
        if marks[0] == 1:
            cuda.threadfence()
            out[1] = out[0]


def _last_block(before: str, inside: str, after: str, behind: str) -> str:
    """A sum over blocks by the last of them to finish, with fences at these places or without."""
    return f"""
def last_block(out, parts, tickets):
    thread = cuda.threadIdx.x
    parts[cuda.grid(1)] = cuda.grid(1)
    {before}
    cuda.syncthreads()
    is_last = 0
    if thread == 0:
        {inside}
        is_last = cuda.atomic.inc(tickets, 0, 2) == 2
        {after}
    if cuda.syncthreads_or(is_last):
        {behind}
        for block in range(3):
            out[thread] = out[thread] + parts[4 * block + 3 - thread]
"""


FENCE = "cuda.threadfence()"


def last_block(folder: Path, *fences: str) -> None:
    text, file = _last_block(*fences), folder / "last_block.py"
    file.write_text(text)
    names: dict[str, Any] = {}
    exec(compile(text, str(file), "exec"), names)
    out = numbers(THREADS)
    run(names["last_block"], out, numbers(12), numbers(1).astype(np.uint32))
    np.testing.assert_array_equal(out, [21, 18, 15, 12])


def looks_back(out: Any, totals: Any, marks: Any) -> None:
    """Each block adds what the one before has come to, and blocks take their numbers in the order of their begin."""
    thread = cuda.threadIdx.x
    ticket = cuda.shared.array(1, "int32")
    if thread == 0:
        ticket[0] = cuda.atomic.add(marks, 0, 1)
    cuda.syncthreads()
    part = ticket[0]
    if thread == 1:
        before = 0
        if part > 0:
            while cuda.atomic.add(marks, part, 0) == 0:
                pass
            cuda.threadfence()
            before = totals[part - 1]
        totals[part] = before + part
        cuda.threadfence()
        cuda.atomic.add(marks, 1 + part, 1)
        out[part] = before + part


# --- faults of one thread -------------------------------------------------------------------------------


def reads_shared_memory_that_nobody_wrote(out: Any) -> None:
    out[cuda.grid(1)] = cuda.shared.array(4, "int32")[0]


def reads_beyond(out: Any) -> None:
    at = cuda.grid(1)
    out[at] = out[at + 16]


def writes_before_the_first(out: Any) -> None:
    out[cuda.grid(1) - 1] = 1


def loads_beside(out: Any) -> None:
    at = cuda.grid(1)
    out[at] = load4(out, 1)[0]


FAULTS: dict[str, tuple[Callable[..., None], Sequence[int], str]] = {
    f.__name__: (f, sizes, says)
    for f, sizes, says in (
        (no_barrier, [16], r"reads element \d of shared memory .* in no order with a write at line|nothing has been"),
        (no_barrier_before_the_next_step, [16], r"s element \d of shared memory .* in no order with a (read|write)"),
        (two_writers, [16], r"writes element 0 of shared memory .* in no order with a write"),
        (a_barrier_that_some_do_not_reach, [16], r"2 threads of its block have ended, and others wait"),
        (two_barriers_at_a_time, [16], r"threads of its block wait at barriers at lines \[\d+, \d+\]"),
        (an_atomic_beside_a_read, [16], r"in no order with (an atomic|a read)"),
        (two_blocks_write, [16], r"writes element 0 of out in no order with a write .* of block"),
        (reads_what_another_block_writes, [16], r"of out in no order with a (read|write)"),
        (takes_a_number_without_a_ticket, [16, 3], r"waits for what no thread that runs will do"),
        (leaves_the_order_of_blocks, [16, 1], r"depends on the order of blocks and threads"),
        (a_flag_without_atomics, [16, 1], r"element 0 of marks in no order with a (read|write)"),
        (reads_shared_memory_that_nobody_wrote, [16], r"reads element 0 of shared memory .* nothing has been written"),
        (reads_beyond, [16], r"reads element 1\d|2\d of out, which has \(16,\)"),
        (writes_before_the_first, [16], r"writes element -1 of out"),
        (loads_beside, [16], r"vector from element 1 of out on, which does not lie at a multiple of 16"),
    )
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    kernel, sizes, says = FAULTS[name]
    with pytest.raises(KernelFault, match=says):
        run(kernel, *map(numbers, sizes))


def test_memory_of_which_nothing_is_known_must_be_written_first() -> None:
    def copies(out: Any) -> None:
        out[cuda.grid(1)] = out[cuda.grid(1)] + 1

    run(copies, numbers())
    with pytest.raises(KernelFault, match=r"reads element \d+ of out, where nothing has been written"):
        run(copies, numbers(), known=False)


def test_the_last_block_needs_both_fences_of_the_thread_that_takes_the_ticket(tmp_path: Path) -> None:
    last_block(tmp_path, "pass", FENCE, FENCE, "pass")
    for fences in (("pass", "pass", FENCE, "pass"), ("pass", FENCE, "pass", "pass"), (FENCE, "pass", FENCE, "pass"),
                   ("pass", FENCE, "pass", FENCE)):  # fmt: skip
        with pytest.raises(KernelFault, match="of parts in no order with a write"):
            last_block(tmp_path, *fences)


def test_a_read_in_a_race_may_find_anything_if_it_is_not_used() -> None:
    run(reads_what_it_does_not_use, out := numbers(12))
    np.testing.assert_array_equal(out, np.arange(12))


def test_totals_of_earlier_blocks_may_be_read_behind_their_marks() -> None:
    out = numbers(3)
    run(looks_back, out, numbers(3), numbers(4))
    np.testing.assert_array_equal(out, [0, 1, 3])


# --- functad's kernels ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sanitized(request: pytest.FixtureRequest) -> dict[str, str]:
    """What the process says of each of the checks that were chosen."""
    chosen = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    checks = [call.params["check"] for call in chosen if call is not None and "check" in call.params]
    path = os.pathsep.join([str(ROOT / "tests" / "tools"), str(ROOT / "tests"), str(ROOT)])
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": path}
    command = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "cuda_sanitizer.py"), *checks]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    lines = [line for line in process.stdout.splitlines() if re.match("ok |FAIL |skip ", line)]
    return {line.partition(" ")[2].partition(":")[0]: line for line in lines}


# What is carried by many blocks, sorted, put to rows, or shared by blocks or their threads in some way of its own.
PROTOCOLS = [
    "long_reductions_keep_all_blocks_busy", "products_in_parts", "products_and_what_follows", "rows_by_block",
    "what_follows_from_reductions", "what_is_carried_by_many_blocks", "squares_in_shared_memory",
    "updates_of_owned_rows", "many_updates_of_one_element", "updates_in_any_order", "long_rows", "sorts_by_digits",
    "rows_of_other_loops",
]  # fmt: skip
OTHERS = sorted({*CHECKS} - {*PROTOCOLS})[::24]


@pytest.mark.parametrize("check", [*PROTOCOLS, *OTHERS])
def test_kernels_have_no_fault(sanitized: dict[str, str], check: str) -> None:
    """The others, in `python cuda_sanitizer.py`, take minutes."""
    assert sanitized[check].startswith("ok "), sanitized[check]
