"""Threads, finalizers and signal handlers that use a GPU at one time: all see the same device, and nothing is lost.

A profiler's function stands for signals: Python lets them in where it lets in that one. The driver is a stand-in.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from cuda_driver_tools import F32, FakeCompiler, X, device_of, executable
from fake_cuda import FakeCuda

import functad.numpy as jnp
from functad.backends.cuda.runtime import cublas, driver_library, pool, profiling, running
from functad.backends.cuda.runtime import device as device_module
from functad.errors import DeviceError

THREADS = 4
ONES = np.ones(6, F32)


def in_threads(action: Callable[[], Any]) -> list[Any]:
    """What an action gives in threads that begin at one time."""
    found: list[Any] = []
    begin = threading.Barrier(THREADS)

    def run() -> None:
        begin.wait()
        found.append(action())

    threads = [threading.Thread(target=run, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(found) == THREADS
    return found


def slowly(action: Callable[..., Any]) -> Callable[..., Any]:
    def slow(*args: Any) -> Any:
        time.sleep(0.05)
        return action(*args)

    return slow


def test_threads_find_the_same_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(devices=2)
    monkeypatch.setattr(device_module, "gpus", [])
    monkeypatch.setattr(driver_library, "library", slowly(lambda: fake))
    found = in_threads(device_module.cuda_devices)
    assert len({tuple(map(id, devices)) for devices in found}) == 1 and len(found[0]) == 2


def test_threads_share_one_cublas_and_one_place_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(cublas, "cublas_library", slowly(lambda path: path))
    monkeypatch.setattr(cublas, "Cublas", lambda *arguments: made.append(arguments) or made[-1])
    device, step = device_of(FakeCuda(), blas="a library"), executable(lambda x: [x + 1], X)
    assert len(set(map(id, in_threads(lambda: device.driver.blas)))) == 1 == len(made)
    monkeypatch.setattr(FakeCompiler, "machine_code", slowly(FakeCompiler.machine_code))
    assert len(set(map(id, in_threads(lambda: step.placed(device))))) == 1


def test_a_graph_that_another_thread_has_destroyed_is_no_failure() -> None:
    class Emptied(list[Any]):
        """One whose last item goes between a look and `pop`."""

        def __len__(self) -> int:
            return 1

    driver = device_of(FakeCuda()).driver
    driver._forgotten = Emptied()
    driver._destroy_forgotten()


class Source:
    """Memory of a device: addresses alone."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.given: dict[int, int] = {}

    def allocate(self, nbytes: int) -> int:
        if sum(self.given.values()) + nbytes > self.memory:
            raise pool.NoMemoryError
        address = max(self.given, default=0) + 4096
        self.given[address] = nbytes
        return address

    def release(self, address: int) -> None:
        del self.given[address]

    def synchronize_all(self) -> None: ...


@contextmanager
def interrupted(number: int, action: Callable[[], None], *modules: ModuleType) -> Iterator[list[bool]]:
    """Something is done where Python lets signals in, at the place of that number; whether there is such a place."""
    files = [module.__file__ for module in modules]
    came: list[bool] = []
    count = 0

    def look(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        code = frame.f_code
        if code.co_filename not in files or code.co_name == "__del__" or event not in ("call", "c_return"):
            return
        count += 1
        if count > number and not came:
            came.append(True)
            action()

    sys.setprofile(look)
    try:
        yield came
    finally:
        sys.setprofile(None)


def busy_pool() -> tuple[Source, pool.MemoryPool, list[pool.PoolBlock]]:
    """One that must sort in what others knew, and give all back to the driver, before it has memory."""
    source = Source(5 << 14)
    memory = pool.MemoryPool(source, "a device", lambda: (0, 5 << 14))
    held = [memory.take(1 << 12, "held", "by a test") for _ in range(4)]
    waiting = memory.take_all([pool.request(1 << 14, "waiting", "to be used again")] * 2)
    for block in waiting:
        block.shared = True
    del block, waiting
    return source, memory, held


def check_accounts(source: Source, memory: pool.MemoryPool, held: list[pool.PoolBlock]) -> None:
    gc.collect()
    statistics = memory.statistics()
    assert len({block.address for block in held}) == len(held) == statistics["num_allocs"]
    assert {block.address for block in held} <= source.given.keys()
    assert statistics["bytes_in_use"] == sum(block.nbytes for block in held)
    assert statistics["bytes_reserved"] == sum(source.given.values())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("what", ["Ctrl-C", "memory", "trim"])
def test_signals_find_the_pool_whole(what: str) -> None:
    number, came = 0, [True]
    requests = [pool.request(nbytes, "taken", "by a test") for nbytes in (1 << 14, 1 << 12, 1 << 15)]
    while came:
        source, memory, held = busy_pool()

        def action(memory: pool.MemoryPool = memory, held: list[pool.PoolBlock] = held) -> None:
            if what == "Ctrl-C":
                raise KeyboardInterrupt
            if what == "trim":
                memory.trim()
            else:
                held.append(memory.take(1 << 9, "taken", "by a handler"))

        try:
            with interrupted(number, action, pool) as came:
                held += memory.take_all(requests)
        except KeyboardInterrupt:
            assert what == "Ctrl-C"
        check_accounts(source, memory, held)
        held.clear()
        check_accounts(source, memory, held)
        number += 1
    assert number > 10


def ends(action: Callable[[], Any]) -> Any:
    """What an action gives, or raises, which must come to an end."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(action())
        except BaseException as problem:
            found.append(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waits for itself"
    return found[0]


@pytest.mark.parametrize("name", ["cuLaunchKernel", "cuGraphAddKernelNode_v2", "cuStreamBeginCapture_v2"])
def test_who_comes_while_the_same_thread_starts_kernels_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda()
    device = device_of(fake)
    monkeypatch.setattr("functad.machine_model.CUDA_COPY_BYTES", 1 << 12)
    step = executable(lambda x: [jnp.cumsum(jnp.cumsum(x))], X)
    x, refused, results = device.put(ONES), [], []
    results += step.on_device([x], device) if name == "cuGraphAddKernelNode_v2" else []
    plain = getattr(fake, name)

    def start_and_more(*arguments: Any) -> int:
        monkeypatch.setattr(fake, name, plain)
        device.driver.launch_kernel = plain if name == "cuLaunchKernel" else device.driver.launch_kernel
        with pytest.raises(DeviceError, match="__del__.*signal handler"):
            step.on_device([x], device)
        refused.append(name)
        return int(plain(*arguments))

    monkeypatch.setattr(fake, name, start_and_more)
    if name == "cuLaunchKernel":
        device.driver.launch_kernel = start_and_more
    if name == "cuStreamBeginCapture_v2":
        profile = ends(lambda: step.profile_on([x], device))
        assert len(profile.kernels) == 2
    else:
        results += ends(lambda: step.on_device([x], device))
    assert refused == [name]
    results += ends(lambda: step.on_device([x], device))
    assert all(result.address for result in results)


def test_a_graph_is_started_as_it_was_found() -> None:
    """Whoever comes in the midst, with other memory, changes it before or is refused."""
    number, came, refused = 0, [True], 0
    while came:
        fake = FakeCuda()
        device = device_of(fake)
        step = executable(lambda x: [jnp.cumsum(jnp.cumsum(x))], X)
        x, y = device.put(ONES), device.put(ONES)
        for _ in range(3):
            step.on_device([x], device)
        fake.launches.clear()
        others: list[Any] = []

        def other(step: Any = step, y: Any = y, device: Any = device, others: list[Any] = others) -> None:
            others.append(None)
            with contextlib.suppress(DeviceError):
                others[:] = step.on_device([y], device)

        with interrupted(number, other, running) as came:
            results = step.on_device([x], device)
        assert results and any(x.address in launch["words"] for launch in fake.launches)
        refused += others == [None]
        number += 1
    assert number > refused > 0


def test_ctrl_c_leaves_no_lock_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even as long as its traceback is kept, which refers to all that was under way."""
    monkeypatch.setattr("functad.machine_model.CUDA_COPY_BYTES", 1 << 12)
    for name in ("CUDA_REPEATS", "CUDA_PROFILE_STARTS", "CUDA_PROFILE_STEPS"):
        monkeypatch.setattr(f"functad.machine_model.{name}", 1)
    number, came, kept = 0, [True], list[BaseException]()
    while came:
        device, step = device_of(FakeCuda()), executable(lambda x: [x + 1], X)
        x = device.put(ONES)
        step.placed(device)

        def action() -> None:
            raise KeyboardInterrupt

        try:
            with interrupted(number, action, running, profiling, contextlib) as came:
                step.profile_on([x], device)
        except KeyboardInterrupt as problem:
            kept.append(problem)
        assert ends(lambda: step.on_device([x], device))[0].address  # noqa: B023
        ends(device.driver.synchronize_all)
        number += 1
    assert number > len(kept) > 10


def test_who_waits_for_all_streams_while_the_same_thread_records_is_refused() -> None:
    driver = device_of(FakeCuda()).driver

    def action(stream: int) -> None:
        with pytest.raises(DeviceError, match="a graph is recorded"):
            driver.synchronize_all()

    ends(lambda: driver.forget(driver.captured(action, 1)))
    driver.synchronize_all()
