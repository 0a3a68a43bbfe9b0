"""What dead arrays leave is used again: large results of call after call take no page faults."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16

import functad
from functad import machine_model
from functad.system import freed_memory
from functad.system.freed_memory import _SETTINGS, LARGEST_OF_THE_HEAP, keep_freed_memory, large_empty

needs_glibc = pytest.mark.skipif(
    not keep_freed_memory(), reason="not glibc, or the environment has settings for its malloc"
)

FAULTS = """
import resource
import numpy as np
import functad
from functad.system.freed_memory import keep_freed_memory

def faults(call):
    for _ in range(3):
        call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 10

x = functad.numpy.asarray(np.ones(1 << 18, np.float32))
several = lambda x: [x * k for k in range(2, 8)]
print(keep_freed_memory(), faults(lambda: several(x)), faults(lambda: functad.jit(several)(x)))
"""
NEEDED = 6 * (1 << 20) // mmap.PAGESIZE  # page faults to write six results of 1 MB


def counted(**settings: str) -> list[str]:
    """Whether freed memory is kept, and the page faults of six results, un-jitted and jitted, in a new process."""
    environment = {name: value for name, value in os.environ.items() if name not in _SETTINGS} | settings
    ran = subprocess.run([sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.split()


@needs_glibc
def test_large_results_of_call_after_call_use_the_same_memory() -> None:
    kept, *faults = counted()
    assert kept == "True"
    assert all(int(n) < NEEDED / 4 for n in faults), faults


@needs_glibc
def test_settings_of_the_environment_stay() -> None:
    kept, *faults = counted(MALLOC_TRIM_THRESHOLD_="131072")
    assert kept == "False"
    assert max(map(int, faults)) > NEEDED / 2, faults


def address(x: np.ndarray) -> int:
    return x.ctypes.data


SHAPE = (LARGEST_OF_THE_HEAP // 4 + 1000,)


def test_a_large_array_takes_the_memory_of_a_dead_one_of_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "_kept", {})
    monkeypatch.setattr(freed_memory, "_lent", {})
    first = large_empty(SHAPE, "float32")
    first[-1] = 3.0
    part, place = first[5:], address(first)
    del first
    second = large_empty(SHAPE, "float32")
    assert address(second) != place and part[-1] == 3.0  # somebody still reads it
    del part
    third = large_empty((SHAPE[0] // 2, 2), "int32")
    assert address(third) == place and third.dtype == np.int32 and third.flags.writeable
    assert large_empty((SHAPE[0] + 1,), "float32").shape == (SHAPE[0] + 1,)


def test_it_is_memory_that_is_too_large_for_the_heap_not_only_what_begins_within_it() -> None:
    for nbytes in (LARGEST_OF_THE_HEAP, LARGEST_OF_THE_HEAP - freed_memory.memory_bytes(0)):
        assert freed_memory.empty_for((nbytes // 4,), "float32") is large_empty
    below = LARGEST_OF_THE_HEAP - freed_memory.memory_bytes(0) - 4
    assert freed_memory.empty_for((below // 4,), "float32") is freed_memory.aligned_empty


def test_no_more_is_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "_kept", {})
    monkeypatch.setattr(freed_memory, "_lent", {})
    monkeypatch.setattr(machine_model, "KEPT_FREED_BYTES", 4 * freed_memory.memory_bytes(SHAPE[0] * 4))
    arrays = [large_empty(SHAPE, "float32") for _ in range(6)]
    newest = address(arrays[-1])
    while arrays:
        del arrays[0]
    assert len(freed_memory._kept) == 4
    assert any(
        0 <= newest - memory.ctypes.data < freed_memory.memory_bytes(0) for memory in freed_memory._kept.values()
    )
    monkeypatch.setattr(machine_model, "KEPT_FREED_BYTES", 1000)
    large_empty((SHAPE[0] + 7,), "float32")
    assert not freed_memory._kept


def lazily_freed(places: list[int], nbytes: int) -> int:
    """Bytes that the system may take, of the mappings in which blocks of so many bytes lie."""
    total, wanted = 0, False
    with open("/proc/self/smaps") as file:
        for line in file:
            if line.startswith("LazyFree:"):
                total += 1024 * int(line.split()[1]) * wanted
            elif "-" in line.split()[0]:
                start, end = (int(x, 16) for x in line.split()[0].split("-"))
                wanted = any(start < place + nbytes and place < end for place in places)
    return total


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")
def test_what_is_beyond_the_limit_is_lent_to_the_system_up_to_a_part_of_the_machines_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nbytes = freed_memory.memory_bytes(SHAPE[0] * 4)
    monkeypatch.setattr(freed_memory, "_kept", {})
    monkeypatch.setattr(freed_memory, "_lent", {})
    monkeypatch.setattr(machine_model, "KEPT_FREED_BYTES", 1000)
    monkeypatch.setattr(freed_memory, "_memory_of_process", lambda: 2 * nbytes / machine_model.LENT_SHARE)
    arrays = [large_empty(SHAPE, "float32") for _ in range(3)]
    for k in range(3):
        arrays[k][:] = 3.0
    places = [address(x) for x in arrays]
    while arrays:
        del arrays[0]
    assert not freed_memory._kept and len(freed_memory._lent) == 2
    lent = lazily_freed(places[1:], nbytes)
    assert lent > 1.9 * nbytes
    again = [large_empty(SHAPE, "float32") for _ in range(2)]
    assert [address(x) for x in again] == places[1:] and not freed_memory._lent
    again[0][:] = again[1][:] = 4.0
    assert lazily_freed(places[1:], nbytes) < lent - 1.9 * nbytes


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_what_is_lent_is_a_part_of_what_the_process_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    of_process = freed_memory._memory_of_process.__wrapped__
    whole = of_process()
    for limit, expected in ((whole // 2, whole // 2), (2 * whole, whole), (resource.RLIM_INFINITY, whole)):
        monkeypatch.setattr(resource, "getrlimit", lambda what, limit=limit: (limit, limit))
        assert of_process() == expected


def test_what_lives_until_the_interpreter_ends_is_left_alone() -> None:
    code = (
        "from functad import machine_model\n"
        "machine_model.KEPT_FREED_BYTES = 1000\n"
        "from functad.system.freed_memory import large_empty\n"
        "x = large_empty((9 << 20,), 'float32')\n"
        "import builtins\n"
        "builtins.kept = x\n"  # is freed when the other names are gone
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == ""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_what_is_lent_is_a_part_of_what_the_container_may_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    of_process, limit = freed_memory._memory_of_process.__wrapped__, tmp_path / "memory.max"
    monkeypatch.setattr(freed_memory, "_LIMIT_OF_CONTAINER", str(limit))
    whole = of_process()  # there is no such file
    for text, expected in ((f"{whole // 3}\n", whole // 3), (f"{2 * whole}\n", whole), ("max\n", whole), ("", whole)):
        limit.write_text(text)
        assert of_process() == expected, text


@pytest.mark.parametrize("dtype", ["float32", BFLOAT16])
def test_large_results_are_donated_in_place_and_are_nobody_elses(dtype: str) -> None:
    twice = functad.jit(lambda x: 2 * x)
    once_more = functad.jit(lambda x: 2 * x, donate_argnums=0)
    x = twice(functad.numpy.ones((2, *SHAPE), dtype))
    kept = twice(x)
    place = address(np.asarray(x))
    x = once_more(x)
    assert address(np.asarray(x)) == place
    view = np.asarray(x)[0, :3]
    x = once_more(x)
    assert address(np.asarray(x)) != place
    np.testing.assert_array_equal(view.astype("float32"), 4)
    assert float(x[0, 0]) == 8 and float(kept[-1, -1]) == 4


@pytest.mark.parametrize("shape", [(machine_model.ALIGNED_BYTES // 4,), (300, 1001), SHAPE])
def test_results_of_some_size_begin_at_a_cache_line(shape: tuple[int, ...]) -> None:
    twice = functad.jit(lambda x: 2 * x)
    results = [twice(np.ones(shape, np.float32)) for _ in range(5)]
    results += [functad.numpy.asarray(np.ones(shape, np.float32)) for _ in range(5)]
    assert {address(np.asarray(x)) % machine_model.CACHE_LINE for x in results} == {0}
    assert freed_memory.empty_for((machine_model.ALIGNED_BYTES // 4 - 1,), "float32") is np.empty


def test_donated_memory_is_aligned_after_a_step_and_then_stays() -> None:
    step = functad.jit(lambda x: 2 * x, donate_argnums=0)
    # Of several sizes, lest all begin at a cache line by chance.
    several = [functad.numpy.ones((300, 301 + k)) + 0.0 for k in range(8)]
    assert {address(np.asarray(x)) % machine_model.CACHE_LINE for x in several} != {0}
    several = [step(x) for x in several]
    places = [address(np.asarray(x)) for x in several]
    assert {place % machine_model.CACHE_LINE for place in places} == {0}
    several = [step(x) for x in several]
    assert [address(np.asarray(x)) for x in several] == places
    view = np.asarray(several[0])[:3]
    other = step(several[0])
    assert address(np.asarray(other)) != places[0]
    np.testing.assert_array_equal(view, 4)
    np.testing.assert_array_equal(np.asarray(other), 8)


@pytest.mark.parametrize("elements", [1 << 15, 9 << 20])
def test_results_begin_half_a_page_behind_the_start_of_their_memory(elements: int) -> None:
    """So that arrays which are allocated one after another do not lie a few bytes further in their pages each."""
    x = np.ones(elements, np.float32)
    own = freed_memory.empty_for(x.shape, x.dtype)(x.shape, x.dtype)
    for result in (own, functad.jit(lambda x: -x)(x)._value):
        memory = result
        while type(memory) is not freed_memory.AlignedMemory:
            memory = memory.base
        behind = address(result) - address(memory)
        assert 0 <= behind - machine_model.BEFORE_A_RESULT < machine_model.CACHE_LINE
        assert address(result) + result.nbytes <= address(memory) + memory.nbytes
