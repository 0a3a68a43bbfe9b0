"""How a call of a Program becomes launches on a GPU: arguments, order, contexts, events, other libraries' arrays.

The driver is a stand-in.
"""

from __future__ import annotations

import ctypes
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16, needs_bfloat16
from cuda_driver_tools import F32, X, device_of, executable, launches_of
from fake_cuda import FakeCuda

import functad.numpy as jnp
from functad import machine_model
from functad.backends.cuda.products.library import has_numbers_for
from functad.backends.cuda.products.tiles import ProductSizes, clocks, shared_elements, taken_by_library, tile_for
from functad.backends.cuda.runtime import exchange
from functad.backends.cuda.runtime.driver_library import PROTOTYPES
from functad.backends.cuda.runtime.launching import ArrayPlace, Kernel, Launch, LaunchNode, PackedLaunch
from functad.backends.cuda.runtime.memory import DeviceMemory
from functad.dtypes import as_dtype
from functad.errors import DeviceFaultError
from functad.ir import Aval


def test_arguments_are_packed_as_numba_takes_them() -> None:
    kernel = Kernel("k", lambda *arguments: None)
    first = Launch(kernel, 3, 64, (ArrayPlace(1, 8, F32, 5), np.float32(1.5), np.int64(-2)))
    second = Launch(kernel, 1, 4, (ArrayPlace(0, 0, np.dtype(np.int8), 7), np.complex64(1 - 2j), True))
    assert first.types == (("array", "float32"), ("number", "float32"), ("number", "int64"))
    one = PackedLaunch(LaunchNode(first, ((None, 7), (1, 16))))  # the second memory is a part of a base
    other = PackedLaunch(LaunchNode(second, ((None, 512),)))  # a constant's
    for packed in (one, other):
        packed.place([1000, 2000])
        assert [ctypes.c_uint64.from_address(p).value for p in packed.pointers] == list(packed.words)
    words = np.array(one.words)
    assert words[:7].tolist() == [0, 0, 5, 4, 2024, 5, 4]
    assert words[7:9].view(np.int64)[1] == -2 and words[7:8].view(np.float32)[0] == 1.5
    words = np.array(other.words)
    assert words[:7].tolist() == [0, 0, 7, 1, 512, 7, 1]
    assert [words[i : i + 1].view(np.float32)[0] for i in (7, 8)] == [1, -2] and words[9] == 1
    one.place([3000, 4000])
    assert one.words[4] == 4024


def test_kernels_are_told_apart_by_what_they_do() -> None:
    def made(n: int, name: str) -> Any:
        def kernel(a: Any) -> None:
            a[0] = n

        return Kernel(name, kernel)

    assert made(1, "k").text == made(1, "other").text != made(2, "k").text


def test_a_call_starts_kernels_in_order_and_waits_for_nothing() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [jnp.cumsum(jnp.sin(x)) @ jnp.ones(6, np.float32)], X)
    x = device.put(np.arange(6, dtype=F32))
    fake.calls.clear()
    (result,) = step.on_device([x], device)
    assert isinstance(result, DeviceMemory) and result.shape == () and result.dtype == F32
    assert "cuStreamSynchronize" not in fake.calls and "cuMemcpyDtoHAsync" not in fake.calls
    names = [launch["entry"] for launch in fake.launches]
    assert names == [launch.kernel.name for launch in launches_of(step, device)] and len(names) >= 2
    assert fake.launches[0]["words"][4] == x.address and result.address in fake.launches[-1]["words"]
    result.host()
    assert fake.calls[-2:] == ["cuMemcpyDtoHAsync", "cuStreamSynchronize"]
    count = len(fake.calls)
    result.host()
    assert len(fake.calls) == count  # copied once


def test_each_kernel_is_compiled_once_for_a_device() -> None:
    fake = FakeCuda(devices=2)
    one, other = device_of(fake, 0), device_of(fake, 1)
    step = executable(lambda x: [x + 1], X)
    for device in (one, one, other):
        step.on_device([np.ones(6, F32)], device)
    assert [len(d.driver._compiler.compiled) for d in (one, other)] == [1, 1]
    assert one.driver._compiler.compiled[0][1] == (9, 0)
    again = executable(lambda x: [x + 1], X)
    again.on_device([np.ones(6, F32)], one)
    assert len(one.driver._compiler.compiled) == 1 and fake.calls.count("cuModuleLoadData") == 2


def test_the_context_of_other_libraries_is_current_again_after_each_call() -> None:
    fake = FakeCuda(devices=2)
    one, other = device_of(fake), device_of(fake, 1)
    own, foreign = one.driver._context, other.driver._context
    assert fake.context == own  # GPU 0's, which CUDA's runtime library chooses by itself
    step = executable(lambda x: [jnp.cumsum(jnp.sin(x))], X)
    for before, after in ((None, own), (own, own), (foreign, foreign)):
        fake.context = before
        x = one.put(np.ones(6, F32))
        assert fake.context == after
        for _ in range(3):  # as it stands, recorded, replayed
            fake.context = before
            (result,) = step.on_device([x], one)
            assert fake.context == after
            del result
        fake.context = before
        one.synchronize()
        assert fake.context == after
    fake.context = None
    step.on_device([np.ones(6, F32)], other)
    assert fake.context is None
    fake.context = own
    for name in ("cuGraphAddKernelNode", "cuGraphLaunch"):
        fake.next_code(name, 701)
        with pytest.raises(DeviceFaultError):
            step.on_device([np.ones(6, F32)], other)
        assert fake.context == own


def test_events_tell_how_long_kernels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_COPY_BYTES", 1 << 12)
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [jnp.cumsum(jnp.sin(x))], X)
    profile = step.profile_on([np.ones(6, F32)], device)
    assert len(profile.kernels) == len(launches_of(step, device))
    assert all(k.time > 0 and k.floor > 0 for k in profile.kernels) and profile.step > 0
    assert fake.calls.count("cuEventCreate") == fake.calls.count("cuEventDestroy")
    assert step.ptx_on(device) == {k: ".target sm_90" for k in step.generated.kernels}


def test_a_profile_needs_no_cublas_and_no_other_call_comes_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_COPY_BYTES", 1 << 12)
    monkeypatch.setattr("functad.machine_model.CUDA_REPEATS", 1)
    fake = FakeCuda()
    device = device_of(fake, blas="no such library")
    step = executable(lambda x: [jnp.cumsum(jnp.sin(x))], X)
    (stretch,) = step.placed(device).plan
    begin, taken = fake.cuStreamBeginCapture_v2, []  # type: ignore[attr-defined]

    def begin_and_look(*arguments: Any) -> int:
        other = Thread(target=lambda: taken.append(stretch._lock.acquire(blocking=False)))
        other.start()
        other.join()
        return int(begin(*arguments))

    monkeypatch.setattr(fake, "cuStreamBeginCapture_v2", begin_and_look)
    assert step.profile_on([np.ones(6, F32)], device).kernels
    assert taken and not any(taken)


def test_a_profile_starts_kernels_many_times_and_copies_whole_numbers_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_COPY_BYTES", 1 << 12)
    monkeypatch.setattr("functad.machine_model.CUDA_REPEATS", 1)
    monkeypatch.setattr("functad.machine_model.CUDA_PROFILE_STARTS", 5)
    fake = FakeCuda()
    device = device_of(fake)
    whole = Aval((6,), np.dtype(np.int32))
    step = executable(lambda n, x: [n + 1, x * 2], whole, Aval((7,), F32), donated=(True, True))
    n, x = device.put(np.arange(6, dtype=np.int32)), device.put(np.ones(7, F32))
    device.copy_speed()  # measured once
    fake.launches.clear()
    copied = fake._cuMemcpyAsync
    copies: list[tuple[int, int]] = []

    def copy(target: int, source: int, nbytes: int, stream: int) -> None:
        copies.append((target, source))
        copied(target, source, nbytes, stream)

    fake._cuMemcpyAsync = copy  # type: ignore[method-assign]
    fake.cuMemcpyAsync = fake._entry("cuMemcpyAsync", PROTOTYPES["cuMemcpyAsync"][1])  # type: ignore[attr-defined]
    profile = step.profile_on([n, x], device)
    entries = [launch["entry"] for launch in fake.launches]
    steps = 2 + machine_model.CUDA_PROFILE_STEPS
    for kernel in profile.kernels:  # once and six times between events, once for those that follow; and in all steps
        assert entries.count(kernel.kernel) == 1 + 6 + 1 + steps and kernel.time > 0
    assert n.address not in [target for target, _ in copies]  # it was copied first: a profile donates nothing
    back = [pair for pair in set(copies) if copies.count(pair) > 5]
    assert len(profile.kernels) == 2 and len(back) == 1


def test_other_libraries_are_waited_for_and_wait() -> None:
    fake = FakeCuda()
    driver = device_of(fake).driver
    fake.calls.clear()
    driver.wait_for(driver.stream)
    assert fake.calls[-4:] == ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy"]


def test_of_two_failures_the_first_one_is_told() -> None:
    """Once a kernel has gone wrong each call says so, also those that destroy what was used."""
    fake = FakeCuda()
    driver = device_of(fake).driver
    first, then = driver.mark(), driver.mark()
    actions = {
        "cuStreamWaitEvent": lambda: driver.wait_for(driver.stream),
        "cuEventSynchronize": lambda: driver.microseconds_between(first, then),
    }
    for name, action in actions.items():
        for failing in (name, "cuEventDestroy"):
            fake.next_code(failing, 700)
        with pytest.raises(DeviceFaultError, match=f"in {name}"):
            action()
        assert not fake.code_of["cuEventDestroy"], "it was called"


def test_arrays_of_other_libraries_are_copied_before_their_owner_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda()
    device = device_of(fake)
    monkeypatch.setattr(exchange, "cuda_devices", lambda: [device])
    owned = device.put(np.arange(6, dtype=F32))
    for version, stream, first in ((3, device.driver.stream, "cuStreamWaitEvent"), (2, None, "cuCtxSynchronize")):
        interface = {"version": version, "shape": (6,), "typestr": "<f4", "data": (owned.address, False)}
        fake.calls.clear()
        taken = exchange.array_of_interface(
            SimpleNamespace(__cuda_array_interface__={**interface, **({"stream": stream} if stream else {})})
        )
        order = [name for name in fake.calls if name in (first, "cuMemcpyAsync", "cuStreamSynchronize")]
        assert order == [first, "cuMemcpyAsync", "cuStreamSynchronize"]
        assert np.array_equal(taken, np.arange(6))


@pytest.mark.parametrize("dtype", ["float32", BFLOAT16, "complex64", "bool"])
@pytest.mark.parametrize("shape", [(6,), (2, 1, 3), (3, 0), (0, 3)])
def test_what_dlpack_gives_it_takes(dtype: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    device = device_of(FakeCuda())
    monkeypatch.setattr(exchange, "cuda_devices", lambda: [device])
    owned = device.put(np.arange(np.prod(shape)).reshape(shape).astype(as_dtype(dtype)))
    strides = (ctypes.c_int64 * len(shape))(*reversed(np.cumprod([1, *(max(n, 1) for n in shape[:0:-1])]).tolist()))

    def capsule(stream: Any, max_version: Any) -> Any:
        found = exchange.capsule_of(owned, stream, max_version, None)
        [(managed, _, _)] = exchange._given.values()
        managed.tensor.strides = strides  # as PyTorch says them, of empty arrays too
        return found

    taken = exchange.array_of_dlpack(SimpleNamespace(__dlpack__=capsule, __dlpack_device__=lambda: (exchange.CUDA, 0)))
    assert taken.dtype == owned.dtype and taken.shape == shape and np.array_equal(np.asarray(taken), owned.host())
    assert not exchange._given


@needs_bfloat16
def test_bfloat16_is_taken_from_dlpack() -> None:
    assert exchange._dtype_of(exchange._BFLOAT16, 16) == as_dtype("bfloat16")


def test_dtypes_that_arrays_cannot_have_are_not_taken_from_dlpack() -> None:
    assert exchange._dtype_of(2, 16) == np.float16
    for code, bits in ((0, 4), (2, 8), (3, 64), (4, 32), (6, 1), (7, 8)):  # int4, float8, pointers, …
        assert exchange._dtype_of(code, bits) is None


def test_a_library_is_given_no_sizes_that_are_no_numbers_of_its_own() -> None:
    step: Any = SimpleNamespace(m=1, n=1, k=1, lda=1, ldb=1, ldc=1, batch=1)
    assert has_numbers_for(step)
    for name in vars(step):
        assert not has_numbers_for(SimpleNamespace(**{**vars(step), name: 1 << 31}))  # type: ignore[arg-type]


def test_tiles_of_products_keep_a_large_gpu_busy() -> None:
    """Few results of many terms are summed in parts; what is large is a library's, if there is one."""
    layer, narrow = ProductSizes(1, 100, 128, 784, 4, 4), ProductSizes(1, 100, 10, 4096, 4, 1)
    for sizes in (layer, narrow):
        tile = tile_for(sizes, 128, True)
        blocks = -(-sizes.rows // tile.height) * -(-sizes.columns // tile.width) * tile.parts
        assert 100 <= blocks <= 132
        assert shared_elements(tile) * sizes.itemsize <= machine_model.CUDA_SHARED_BYTES
        assert clocks(sizes, tile) <= clocks(sizes, tile_for(sizes, 128, False))
    assert tile_for(narrow, 128, True).parts > 1
    large = ProductSizes(1, 4096, 4096, 4096, 4, 4)
    assert [taken_by_library(sizes, 128, 0) for sizes in (layer, narrow, large)] == [False, False, True]
