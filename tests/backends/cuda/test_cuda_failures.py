"""Failures half-way: each call of the driver, and of the compiler, fails once, in programs of all kinds.

Whatever fails, arrays that were not donated can be read, those that were as long as nothing was started; no memory,
graph or event is lost, and the next call does what it always does. The driver is a stand-in, which runs no kernels.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cuda_driver_tools import F32, FakeCompiler
from fake_cuda import FakeCuda

import functad
import functad.numpy as jnp
from functad import execution, lax
from functad.array import DonatedArray
from functad.backends.cuda import executable as cuda_backend
from functad.backends.cuda.runtime import exchange
from functad.backends.cuda.runtime.device import CudaDevice
from functad.backends.cuda.runtime.driver import CudaDriver
from functad.device_arrays import DeviceArray, memory_of, on_device, set_device_runner
from functad.errors import CompilationError, DeviceError, TooLargeError
from functad.ir import Aval

ONES = np.ones(6, F32)
Run = Callable[[list[Any]], list[Any]]


class FailingCompiler(FakeCompiler):
    """One that fails when its call's turn comes."""

    def __init__(self, fake: FakeCuda) -> None:
        super().__init__()
        self._fake = fake

    def machine_code(self, launch: Any, capability: tuple[int, int]) -> tuple[bytes, str]:
        self._fake.calls.append("machine_code")
        if self._fake.fault("machine_code"):
            raise CompilationError("refused")
        return super().machine_code(launch, capability)


class Machine:
    """A device of a stand-in for the driver, and arrays on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fake = FakeCuda()
        self.device = CudaDevice(0, CudaDriver(self.fake, 0, FailingCompiler(self.fake)))
        for module in (cuda_backend, exchange):
            monkeypatch.setattr(module, "cuda_devices", lambda: [self.device])
        self.forget_operations()

    @staticmethod
    def forget_operations() -> None:
        """Those that are not jitted are compiled once, for all arrays."""
        execution._program_of.cache_clear()
        set_device_runner(execution._OnDevices())

    def array(self, number: int) -> DeviceArray:
        return on_device(self.device.put(ONES * number), Aval((6,), F32))

    def in_use(self) -> int:
        return self.device.memory_stats()["bytes_in_use"]

    def check_accounts(self, before: int, destroyed: bool) -> None:
        """All memory is the pool's or somebody's, and of graphs and events only those are left that are in use."""
        self.forget_operations()
        gc.collect()
        statistics = self.device.memory_stats()
        assert statistics["bytes_in_use"] == before
        assert self.fake._used() == statistics["bytes_reserved"]
        self.device.driver._destroy_forgotten()
        assert self.fake.alive("graph", "ready graph", "event") <= destroyed


def steps(donated: bool, held: bool = False) -> Callable[[], Run]:
    """A step called again and again, as a graph from the second time on; held: somebody else holds the memory, too."""

    def made() -> Run:
        step = functad.jit(lambda w, x: (w - 0.5 * x, jnp.cumsum(x)), donate_argnums=0 if donated else ())

        def run(arrays: list[Any]) -> list[Any]:
            w, x = arrays
            holders = []
            for _ in range(4):
                holders.append(memory_of(w) if held else None)
                w, y = step(w, x)
            return [w, y]

        return run

    return made


def one_call(fun: Callable[..., Any], **options: Any) -> Callable[[], Run]:
    def made() -> Run:
        step = functad.jit(lambda w, x: fun(w, x), **options)
        return lambda arrays: [step(*arrays)]

    return made


def while_of(w: Any, x: Any) -> Any:
    """Python reads the condition: it is 0, as no kernel runs."""
    return lax.while_loop(lambda c: c[0] < -1e9, lambda c: c * x, w)


def grown(w: Any, x: Any) -> Any:
    """A loop of which no one knows the length keeps its steps, for a gradient."""
    total = lambda w: lax.while_loop(lambda c: c[0] < 10, lambda c: jnp.tanh(c) * x, w).sum()  # noqa: E731
    return functad.jvp(total, (w,), (x,))[1]


def called_back(w: Any, x: Any) -> Any:
    twice = functad.pure_callback(lambda x: 2 * x, functad.ShapeDtypeStruct((6,), F32), w)
    return jnp.cumsum(twice * x)


def moved() -> Run:
    def run(arrays: list[Any]) -> list[Any]:
        w, x = arrays
        copied = copy.copy(w)
        capsule = x.__dlpack__(max_version=(1, 0), stream=7)
        exchange._given.clear()  # as if whoever took it were done
        del capsule
        taken = jnp.negative(exchange.array_of_interface(copied))
        exchange._given.clear()
        return [copied, taken, taken.block_until_ready()]

    return run


PROGRAMS: dict[str, Callable[[], Run]] = {
    "operations": lambda: lambda arrays: [jnp.tanh(arrays[0]) + arrays[1]],
    "steps": steps(donated=False),
    "steps that take their arguments": steps(donated=True),
    "steps that copy what others hold": steps(donated=True, held=True),
    "arguments from the host": lambda: (
        lambda step: lambda arrays: [step(arrays[0], ONES)]
    )(functad.jit(lambda w, x: w * x, donate_argnums=0)),
    "a loop of known length": one_call(lambda w, x: lax.fori_loop(0, 3, lambda i, c: jnp.cumsum(c) * x, w)),
    "a condition": one_call(while_of, donate_argnums=0),
    "a branch": one_call(lambda w, x: lax.cond(w[0] > 0, jnp.cumsum, lambda w: w * x, w), donate_argnums=0),
    "a loop that keeps its steps": one_call(grown),
    "a function of Python's": one_call(called_back),
    "a sort": one_call(lambda w, x: jnp.sort(w) + x.sum()),
    "copies and other libraries": moved,
}  # fmt: skip


def read(arrays: list[Any]) -> Iterator[bool]:
    """Whether each array has its elements; it has those that it had, if it is not donated."""
    for number, array in enumerate(arrays, 1):
        is_there = type(array) is DeviceArray
        assert is_there or type(array) is DonatedArray
        if is_there:
            memory_of(array).kept = None
            np.testing.assert_array_equal(np.asarray(array), ONES * number)
        yield is_there


# What a call does once it has all memory: from then on donated arguments are its own.
STARTING = {"cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyDtoHAsync"}


@pytest.mark.generated(every=6)
@pytest.mark.parametrize("name", PROGRAMS)
def test_whatever_fails_nothing_is_lost(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count, launched, number = 1, [], -1
    while number < count:
        machine = Machine(monkeypatch)
        fake, run = machine.fake, PROGRAMS[name]()
        before = machine.in_use()
        arrays = [machine.array(1), machine.array(2)]
        del fake.calls[:], fake.launches[:]
        if number >= 0:
            fake.fail_after(number, (2, 999)[number % 2])  # no memory, or something unknown
        try:
            results = run(arrays)
        except (DeviceError, TooLargeError, CompilationError):
            assert number >= 0
            results = []
        fake.all_well()
        if number < 0:
            launched = [launch["entry"] for launch in fake.launches]
            count = sum(not called.startswith("cuCtx") for called in fake.calls)
            assert launched and count > 5
        told = f"{name}: call {number}, {fake.failed}"
        is_there = list(read(arrays))
        assert is_there[1] and (is_there[0] or fake.launches or fake.failed in STARTING), told
        del results
        arrays = [array if there else machine.array(k) for k, (array, there) in enumerate(zip(arrays, is_there), 1)]
        del fake.launches[:]
        run(arrays)  # once more, without a failure
        assert [launch["entry"] for launch in fake.launches] == launched, told
        del arrays, run
        machine.check_accounts(before, destroyed="Destroy" in (fake.failed or ""))
        number += 1
