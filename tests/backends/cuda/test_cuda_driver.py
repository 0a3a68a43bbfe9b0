"""The driver half of the CUDA backend against a stand-in for NVIDIA's library: order, handles, sizes and arguments.

What only a GPU can tell: that real machine code computes what it should, times, and what a real driver refuses.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import re
import shutil
import subprocess
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeCuda

import functad
import functad.numpy as jnp
from functad import lax, nn
from functad.backends.cuda import device as device_module
from functad.backends.cuda import driver as cuda_driver
from functad.backends.cuda import exchange
from functad.backends.cuda import executable as cuda_backend
from functad.backends.cuda.device import CudaDevice
from functad.backends.cuda.driver import PROTOTYPES, CudaDriver, library
from functad.backends.cuda.launching import ArrayPlace, Kernel, Launch, PackedLaunches
from functad.backends.cuda.memory import DeviceMemory
from functad.backends.cuda.pool import rounded
from functad.cli import doctor
from functad.errors import CompilationError, DeviceError, DeviceFaultError, TooLargeError
from functad.ir import Aval
from functad.optimize.pipeline import simplify
from functad.options import JIT_OPTIONS
from functad.tracing import trace_to_program

F32 = np.dtype(np.float32)


class FakeCompiler:
    """Machine code that says how many parameters it takes: seven for an array, two for a complex number."""

    def __init__(self, blas: str | None = None) -> None:
        self.compiled: list[Any] = []
        self.blas = blas  # the path of cuBLAS, or of what stands for it

    def machine_code(self, launch: Any, capability: tuple[int, int]) -> tuple[bytes, str]:
        self.compiled.append((launch.kernel.name, capability))
        words = sum(7 if kind == "array" else 1 + dtype.startswith("complex") for kind, dtype in launch.types)
        return f"{launch.kernel.name} parameters={words}".encode(), launch.kernel.name

    def ptx(self, function: Any, arguments: Any, capability: tuple[int, int], fused: bool) -> str:
        return f".target sm_{capability[0]}{capability[1]}"

    def found_library(self, pattern: str) -> str | None:
        return self.blas


def device_of(fake: FakeCuda, number: int = 0, blas: str | None = None) -> CudaDevice:
    return CudaDevice(number, CudaDriver(fake, number, FakeCompiler(blas)))


def executable(fun: Any, *avals: Aval, donated: tuple[bool, ...] = ()) -> cuda_backend.CudaExecutable:
    return cuda_backend.CudaExecutable(trace_to_program(fun, avals, name="step"), donated)


def launches_of(step: cuda_backend.CudaExecutable, device: CudaDevice) -> list[Launch]:
    return [launch for row in step.placed(device).rows for launch in row.launches]


X = Aval((6,), F32)


# --- arguments ------------------------------------------------------------------------------------------


def test_arguments_are_packed_as_numba_takes_them() -> None:
    kernel = Kernel("k", lambda *arguments: None)
    assert kernel[3, 64, None]().shared == 0
    first = kernel[3, 64](ArrayPlace(1, 8, F32, 5), np.float32(1.5), np.int64(-2))
    second = kernel[(1, 2, 3), (4, 5), None, 256](ArrayPlace(0, 0, np.dtype(np.int8), 7), np.complex64(1 - 2j), True)
    assert (first.grid, first.block, first.shared) == ((3, 1, 1), (64, 1, 1), 0)
    assert (second.grid, second.block, second.shared) == ((1, 2, 3), (4, 5, 1), 256)
    assert first.types == (("array", "float32"), ("number", "float32"), ("number", "int64"))
    packed = PackedLaunches([first, second])
    packed.place([1000, 2000])
    words = packed.words
    assert packed.spans == [(0, 9), (9, 19)]
    assert words[:7].tolist() == [0, 0, 5, 4, 2008, 5, 4]
    assert words[7:9].view(np.int64)[1] == -2 and words[7:8].view(np.float32)[0] == 1.5
    assert words[9:16].tolist() == [0, 0, 7, 1, 1000, 7, 1]
    assert [words[i : i + 1].view(np.float32)[0] for i in (16, 17)] == [1, -2] and words[18] == 1
    packed.place([3000, 4000])
    assert words[4] == 4008 and words[13] == 3000


def test_kernels_are_told_apart_by_what_they_do() -> None:
    def made(n: int, name: str) -> Any:
        def kernel(a: Any) -> None:
            a[0] = n

        return Kernel(name, kernel)

    assert made(1, "k").text == made(1, "other").text != made(2, "k").text


# --- a call ---------------------------------------------------------------------------------------------


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


def test_a_step_that_comes_again_is_replayed_as_one_graph() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda w, x: [w - jnp.cumsum(w * x)[0] * jnp.cumsum(x)], X, X, donated=(True, False))
    launches = len(launches_of(step, device))
    assert launches >= 2
    x = device.put(np.ones(6, F32))
    w: Any = device.put(np.ones(6, F32))
    address = w.address
    starts = []
    for _ in range(4):
        fake.calls.clear()
        (w,) = step.on_device([w, x], device)
        starts.append((fake.calls.count("cuLaunchKernel"), fake.calls.count("cuGraphLaunch")))
        assert w.address == address  # the step is in place
    assert starts == [(launches, 0), (launches, 1), (0, 1), (0, 1)]  # as it stands, recorded, replayed
    assert len(set(fake.replays)) == 1 and len(fake.launches) == 4 * launches
    assert fake.launches[-launches:] == fake.launches[:launches]
    assert fake.calls == ["cuCtxGetCurrent", "cuGraphLaunch"]


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
    fake.next_code("cuLaunchKernel", 701)
    with pytest.raises(DeviceFaultError):
        step.on_device([np.ones(6, F32)], other)
    assert fake.context == own


def starts_of_calls(fake: FakeCuda, fun: Any, *avals: Aval) -> tuple[list[tuple[int, int]], list[Any]]:
    """Of each of four calls how many kernels, and graphs, are started; and what kernels are given in each."""
    device = device_of(fake)
    step = cuda_backend.CudaExecutable(simplify(trace_to_program(fun, avals)))
    args = [device.put(np.ones(a.shape, a.dtype)) for a in avals]
    starts, launches = [], []
    for _ in range(4):
        fake.calls.clear()
        fake.launches.clear()
        step.on_device(args, device)
        starts.append((fake.calls.count("cuLaunchKernel"), fake.calls.count("cuGraphLaunch")))
        launches.append(list(fake.launches))
    return starts, launches


def attention(x: Any) -> Any:
    return [nn.dot_product_attention(x, x, x, is_causal=True)]


def running_products(x: Any) -> Any:
    carry, ys = lax.scan(lambda c, row: (jnp.cumsum(c) @ jnp.ones((64, 64), F32) + row, c), x[0], x)
    return [jnp.cumsum(carry), ys]


def test_loops_of_known_length_are_parts_of_the_graph() -> None:
    """Attention in blocks, forward and backward, and a loop whose pointers are read behind it."""
    backward = functad.grad(lambda x: attention(x)[0].sum())
    long, wide = Aval((1, 2100, 1, 8), F32), Aval((64, 64), F32)
    for fun, aval in ((attention, long), (lambda x: [backward(x)], long), (running_products, wide)):
        starts, launches = starts_of_calls(FakeCuda(memory=1 << 28), fun, aval)
        count = starts[0][0]
        assert starts == [(count, 0), (count, 1), (0, 1), (0, 1)] and count > 100
        assert launches[1] == launches[0] == launches[2] == launches[3]


def test_pointers_are_behind_a_graph_where_they_are_behind_its_launches() -> None:
    device = device_of(FakeCuda(memory=1 << 28))
    placed = cuda_backend.CudaExecutable(simplify(trace_to_program(running_products, [Aval((64, 64), F32)]))).placed(
        device
    )
    x = device.put(np.ones((64, 64), F32))
    ends = []
    for _ in range(6):  # memory comes in one of two orders
        run = placed._located([x])
        owner = {id(place.memory): storage.name for storage, place in run.places.items()}
        known = len(run.places)
        run.run(placed._plan)
        ends.append({s: (owner[id(place.memory)], place.offset) for s, place in run.places.items()})
        assert len(run.places) > known
        del run
    assert all(end == ends[0] for end in ends)
    (stretch,) = placed._plan
    assert any(recorded is not None for recorded in stretch.graphs.values())


def test_loops_that_a_graph_cannot_take_are_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Aval((64, 64), F32)
    whole, launches = starts_of_calls(FakeCuda(memory=1 << 28), running_products, x)
    monkeypatch.setattr("functad.machine_model.CUDA_GRAPH_NODES", 10)
    parts, again = starts_of_calls(FakeCuda(memory=1 << 28), running_products, x)
    assert parts[0] == parts[3] == whole[0]
    assert [launch["entry"] for launch in launches[3]] == [launch["entry"] for launch in again[3]]


def test_what_another_thread_starts_while_a_graph_is_recorded_is_no_part_of_it() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [jnp.cumsum(jnp.cumsum(x))], X)
    other = executable(lambda x: [x + 1], X)
    x = device.put(np.ones(6, F32))
    other.on_device([x], device)
    kept = step.on_device([x], device)
    begin = fake.cuStreamBeginCapture_v2  # type: ignore[attr-defined]

    def begin_and_more(*arguments: Any) -> int:
        code: int = begin(*arguments)
        count = len(fake.launches)
        thread = Thread(target=other.on_device, args=([device.put(np.ones(6, F32))], device))
        thread.start()
        thread.join()
        assert len(fake.launches) == count + 1  # at once
        return code

    fake.cuStreamBeginCapture_v2 = begin_and_more  # type: ignore[attr-defined]
    del kept
    kept = step.on_device([x], device)
    count = len(fake.launches)
    del kept
    step.on_device([x], device)
    assert fake.replays and len(fake.launches) == count + len(launches_of(step, device))


def test_graphs_of_many_addresses_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_GRAPHS", 2)
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [jnp.cumsum(jnp.cumsum(x))], X)
    kept = []
    for _ in range(5):
        kept.append(device.put(np.ones(6, F32)))
        for _ in range(2):
            step.on_device([kept[-1]], device)  # where its result lay, the next one lies
    assert all(len(part.graphs) <= 2 for part in step.placed(device)._plan) and "cuGraphExecDestroy" in fake.calls


def test_graphs_go_with_their_function() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    x = device.put(np.ones(6, F32))
    for _ in range(2):
        step = executable(lambda x: [jnp.cumsum(jnp.cumsum(x))], X)
        for _ in range(2):
            step.on_device([x], device)
        del step
        gc.collect()
    assert fake.calls.count("cuGraphInstantiate") == 2 and fake.calls.count("cuGraphExecDestroy") == 1


def test_events_tell_how_long_kernels_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_COPY_BYTES", 1 << 12)
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [jnp.cumsum(jnp.sin(x))], X)
    profile = step.profile_on([np.ones(6, F32)], device)
    assert len(profile.kernels) == len(launches_of(step, device))
    assert all(k.time > 0 and k.floor > 0 for k in profile.kernels) and profile.step > 0
    assert fake.calls.count("cuEventCreate") == fake.calls.count("cuEventDestroy")
    assert step.ptx(device) == {k: ".target sm_90" for k in step.generated.kernels}


def test_other_libraries_are_waited_for_and_wait() -> None:
    fake = FakeCuda()
    driver = device_of(fake).driver
    fake.calls.clear()
    driver.wait_for(driver.stream)
    assert fake.calls[-4:] == ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy"]


def test_arrays_of_other_libraries_are_copied_before_their_owner_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda()
    device = device_of(fake)
    monkeypatch.setattr(exchange, "devices", lambda: [device])
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


# --- memory ---------------------------------------------------------------------------------------------


def test_memory_is_used_again() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    first = device.put(np.ones(100, F32))
    address = first.address
    del first
    assert device.put(np.ones(128, F32)).address == address  # of nearly the same size
    assert fake.calls.count("cuMemAllocAsync") == 1 and "cuMemFreeAsync" not in fake.calls
    kept = [device.put(np.ones(100, F32)) for _ in range(3)]
    assert device.memory_stats() == {
        "bytes_in_use": 1536, "peak_bytes_in_use": 1536, "bytes_reserved": 1536, "bytes_limit": 1 << 20, "num_allocs": 3
    }  # fmt: skip
    del kept
    assert device.memory_stats()["bytes_in_use"] == 0 and device.memory_stats()["bytes_reserved"] == 1536


def test_a_copy_to_the_device_is_over_when_the_array_may_change() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    plain, pinned = np.ones(100, F32), np.ones(100, F32)
    fake.pinned.add(pinned.ctypes.data)
    fake.calls.clear()
    device.put(plain)
    assert "cuStreamSynchronize" not in fake.calls  # the driver has copied it
    device.put(pinned)
    assert "cuStreamSynchronize" in fake.calls  # the device reads it when it comes to it


def test_memory_that_others_know_waits_for_them() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    held = device.put(np.ones(100, F32))
    held.block.shared = True
    del held
    device.put(np.ones(100, F32))
    assert "cuCtxSynchronize" in fake.calls


def test_out_of_memory_says_what_was_asked_and_what_is_held() -> None:
    fake = FakeCuda(memory=100_000)
    device = device_of(fake)
    held = [device.put(np.ones(5000, F32), "put there") for _ in range(3)]
    waiting = device.put(np.ones(7000, F32))
    del waiting
    step = executable(lambda x: [jnp.broadcast_to(x, (4000, 6))], X)
    with pytest.raises(
        TooLargeError, match=r"(?s)cuda:0 has no memory left for 93.8 KiB \(float32\[4000,6\]"
    ) as raised:
        step.on_device([np.ones(6, F32)], device)
    text = str(raised.value)
    assert "a result of step" in text and "3 × float32[5000], put there" in text and "donate" in text
    freed = fake.calls.index("cuMemFreeAsync")  # what waited was given back first, and waited for
    assert "cuMemAllocAsync" in fake.calls[fake.calls.index("cuCtxSynchronize", freed) :]
    statistics = device.memory_stats()
    assert statistics["bytes_limit"] == 100_000 and statistics["bytes_in_use"] >= 3 * 20_000
    assert len(held) == 3


def test_sizes_of_pieces_waste_little() -> None:
    for nbytes in (1, 512, 513, 10_000, 1_000_000, 123_456_789):
        assert nbytes <= rounded(nbytes) <= max(nbytes + 512, 1.125 * nbytes + 1)
        assert rounded(rounded(nbytes)) == rounded(nbytes)


# --- cuBLAS ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blas(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library with cuBLAS's functions, which multiplies on the host, where the stand-in's memory is."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler for what stands for cuBLAS")
    path = tmp_path_factory.mktemp("cublas") / "libcublas.so.12"
    source = Path(__file__).with_name("fake_cublas.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    return str(path)


def streams_of_products(path: str) -> list[int]:
    """In which stream each product so far was asked for."""
    library = ctypes.CDLL(path)
    streams = (ctypes.c_size_t * 1000).in_dll(library, "streams")
    return list(streams)[: ctypes.c_int.in_dll(library, "products").value]


PRODUCTS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "plain": (lambda x, y: x @ y, (3, 5), (5, 4)),
    "left transposed": (lambda x, y: x.T @ y, (5, 3), (5, 4)),
    "right transposed": (lambda x, y: x @ y.T, (3, 5), (4, 5)),
    "both transposed": (lambda x, y: x.T @ y.T, (5, 3), (4, 5)),
    "part of an array": (lambda x, y: x[1:, :3] @ y[2:], (3, 5), (5, 4)),
    "scaled": (lambda x, y: -0.5 * (x @ y), (3, 5), (5, 4)),
    "batch": (lambda x, y: x @ y, (2, 3, 5), (2, 5, 4)),
    "one matrix for all": (lambda x, y: np.einsum("bij,jk->bik", x, y), (2, 3, 5), (5, 4)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_cublas_computes_what_is_asked_for(blas: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_CUBLAS_BYTES", 1 << 12)
    monkeypatch.setattr("functad.machine_model.LARGEST_SMALL_PRODUCT", 0)
    device, rng = device_of(FakeCuda(), blas=blas), np.random.default_rng(0)
    compared = 0
    for what, (fun, *shapes) in PRODUCTS.items():
        parts = [rng.normal(size=(2, *shape)) for shape in shapes]
        args = [(p[0] + 1j * p[1] if dtype[0] == "c" else p[0]).astype(dtype) for p in parts]
        program = simplify(trace_to_program(lambda *a, fun=fun: [fun(*a)], [Aval(a.shape, a.dtype) for a in args]))
        step = cuda_backend.CudaExecutable(program)
        before = len(streams_of_products(blas))
        (result,) = step.on_device(args, device)
        assert len(streams_of_products(blas)) == before + 1, what
        if not step.ptx(device):  # the stand-in for the driver runs no kernels
            compared += 1
            np.testing.assert_allclose(result.host(), fun(*args), rtol=1e-5, atol=1e-6, err_msg=what)
    assert compared >= 6


def test_cublas_is_recorded_and_may_be_done_without(blas: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_CUBLAS_BYTES", 1 << 12)
    monkeypatch.setattr("functad.machine_model.CUDA_COPY_BYTES", 1 << 12)
    device = device_of(FakeCuda(), blas=blas)
    square = Aval((40, 40), F32)

    def product(x: Any, y: Any) -> Any:
        return [jnp.sin(x @ y)]

    step, before = executable(product, square, square), len(streams_of_products(blas))
    args = [device.put(np.ones((40, 40), F32)) for _ in range(2)]
    for _ in range(3):
        step.on_device(args, device)
    driver = device.driver
    assert streams_of_products(blas)[before:] == [driver.stream, driver.recording]  # and then it is replayed
    assert doctor._products_of_gpu(driver) == "cuBLAS 12.9.1" and len(step.ptx(device)) == 1
    assert len(step.profile_on(args, device).kernels) == 2
    with functad.config.context(cuda_products="functad"):
        own = executable(product, square, square)
    assert [launch.kernel.name for launch in launches_of(own, device)][0] == "product"
    assert "cuda_products" in JIT_OPTIONS


def test_a_cublas_that_fails_says_how_to_do_without(blas: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_CUBLAS_BYTES", 1 << 12)
    square = Aval((40, 40), F32)
    step = executable(lambda x, y: [x @ y], square, square)
    args = [np.ones((40, 40), F32)] * 2
    (tmp_path / "empty.so").write_bytes(b"")
    for name in ("nothing.so", "empty.so"):
        with pytest.raises(DeviceError, match="cuBLAS cannot be loaded.*nvidia-cublas-cu12.*'cuda_products'"):
            executable(lambda x, y: [x @ y], square, square).on_device(
                args, device_of(FakeCuda(), blas=str(tmp_path / name))
            )
    status = ctypes.c_int.in_dll(ctypes.CDLL(blas), "status")
    device = device_of(FakeCuda(), blas=blas)
    step.on_device(args, device)
    status.value = 13
    try:
        with pytest.raises(DeviceError, match=r"a kernel of it failed \(status 13, in `product_\w+`, of 40×40 and"):
            step.on_device(args, device)
        status.value = 1
        with pytest.raises(DeviceError, match=r"cannot be started \(status 1, in cublasCreate"):
            executable(lambda x, y: [x @ y], square, square).on_device(args, device_of(FakeCuda(), blas=blas))
    finally:
        status.value = 0


# --- errors ---------------------------------------------------------------------------------------------


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(DeviceError, match="no NVIDIA driver.*--gpus all.*doctor.*NUMBA_ENABLE_CUDASIM=1"):
        library()


def test_an_old_driver_and_no_gpu() -> None:
    with pytest.raises(DeviceError, match=r"too old: it has CUDA 11.8, functad needs 12.1"):
        device_of(FakeCuda(version=11080))
    with pytest.raises(DeviceError, match=r"too old: it has CUDA 12.0"):  # kernels take up to 4 KiB of arguments there
        device_of(FakeCuda(version=12000))
    with pytest.raises(DeviceError, match="no GPU.*nvidia-smi.*CUDA_VISIBLE_DEVICES"):
        device_of(FakeCuda(devices=0))
    fake = FakeCuda()
    fake.next_code("cuInit", 100)
    with pytest.raises(DeviceError, match="no GPU"):
        device_of(fake)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, "no memory left for kernels.*nvidia-smi"),
        (209, "another kind of GPU.*cache clear"),
        (222, "older than the compiler.*update.*cu12"),
        (218, "PTX.*report"),
    ],
)
def test_machine_code_that_does_not_fit(code: int, words: str) -> None:
    fake = FakeCuda()
    device = device_of(fake)
    fake.next_code("cuModuleLoadData", code)
    with pytest.raises(DeviceError, match=words):
        executable(lambda x: [x + 1], X).on_device([np.ones(6, F32)], device)


@pytest.mark.parametrize(("code", "words"), [(700, "illegal address"), (719, "kernel failed")])
def test_a_kernel_that_faults_is_found_when_results_are_asked_for(code: int, words: str) -> None:
    fake = FakeCuda()
    device = device_of(fake)
    (result,) = executable(lambda x: [x + 1], X).on_device([np.ones(6, F32)], device)
    fake.next_code("cuStreamSynchronize", code)
    with pytest.raises(DeviceFaultError, match=f"(?s){words}.*CUDA_LAUNCH_BLOCKING=1.*Started before.*step"):
        result.host()


def test_a_kernel_that_cannot_start_is_named() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [x + 1], X)
    fake.next_code("cuLaunchKernel", 701)
    name = next(iter(step.generated.kernels))
    with pytest.raises(DeviceFaultError, match=f"registers or shared memory.*starting the kernel `{name}`"):
        step.on_device([np.ones(6, F32)], device)


def test_every_failure_has_a_fix() -> None:
    assert all(f.meaning and f.fix for f in cuda_driver.FAILURES.values())
    fake = FakeCuda()
    fake.next_code("cuInit", 31337)
    with pytest.raises(DeviceError, match="CUDA_ERROR_31337, error 31337, in cuInit.*doctor"):
        device_of(fake)


def test_the_stand_in_objects_to_what_the_driver_would() -> None:
    fake = FakeCuda()
    with pytest.raises(AssertionError, match="without a context"):
        fake.cuStreamSynchronize(1)  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="takes 1 arguments"):
        fake.cuInit()  # type: ignore[attr-defined]
    device = device_of(fake)
    held = device.put(np.ones(6, F32))
    with pytest.raises(AssertionError, match="beyond memory"):
        device.driver.upload(held.address, np.ones(1000, F32))
    with pytest.raises(TypeError):
        fake.cuStreamCreate(ctypes.byref(ctypes.c_void_p()), "flags")  # type: ignore[attr-defined]
    assert set(PROTOTYPES) >= {"cuLaunchKernel", "cuGraphLaunch"}


# --- machine code ---------------------------------------------------------------------------------------


def compiler_with_nvvm() -> Any:
    compiler = importlib.import_module("functad.backends.cuda.compiler")
    try:
        compiler.ptx(lambda x: None, (("array", "float32"),), (8, 0))
    except CompilationError as problem:
        pytest.skip(f"no NVVM: {problem.__cause__}")
    return compiler


def fake_device() -> CudaDevice:
    return device_of(FakeCuda())


def test_kernels_take_what_is_packed_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real machine code: needs NVIDIA's compiler library (NVVM), but no GPU."""
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
    compiler = compiler_with_nvvm()
    step = executable(lambda x: [(jnp.tanh(x) + 1j)[:, None], x[:, None] @ x[None]], X)
    launches = launches_of(step, device_of(FakeCuda()))
    assert len(launches) == 2
    for launch, (first, last) in zip(launches, PackedLaunches(launches).spans):
        code, entry = compiler.machine_code(launch, (9, 0))
        text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
        parameters = re.findall(r"\.param \.(\w+) ", text[: text.index("{")])
        assert entry and ".target sm_90" in text
        numbers = [n for kind, dtype in launch.types for n in (["u64"] * 7 if kind == "array" else [_WORD[dtype]])]
        assert parameters == numbers and len(parameters) == last - first
        assert code.startswith(b"\x7fELF") or b".entry" in code  # with the assembler, or without
    for fused in (False, True):  # only where the user lets it, or in a matrix product
        with functad.config.context(fuse_multiply_add=fused):
            (launch,) = launches_of(executable(lambda x, y: [x * y - x], X, X), device_of(FakeCuda()))
        text = compiler.ptx(launch.kernel.function, launch.types, (9, 0), launch.kernel.fused)
        assert ("mul.rn.f32" in text) is not fused  # what has no .rn may be added by the assembler
    assert all(launch.kernel.fused == (launch.kernel.name == "product") for launch in launches)
    monkeypatch.setattr(compiler, "ptx", None)  # it is on the disk
    assert [compiler.machine_code(launch, (9, 0))[1] for launch in launches]


@pytest.mark.parametrize(("dtype", "nbytes"), [("float32", 16), ("float64", 16), ("float16", 8), ("int8", 4)])
def test_four_elements_are_one_load_and_one_store(dtype: str, nbytes: int) -> None:
    """Real machine code, as above; nothing loads more than 16 bytes at a time."""
    compiler = compiler_with_nvvm()
    (launch,) = launches_of(executable(lambda x, y: [x + y], *[Aval((1 << 20,), np.dtype(dtype))] * 2), fake_device())
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    for way in ("ld", "st"):
        kinds = re.findall(rf"{way}\.global(?:\.v(\d))?\.[a-z](\d+)", text)
        assert kinds and {int(count or 1) * int(bits) // 8 for count, bits in kinds} == {nbytes}, kinds


def test_what_many_blocks_carry_compiles() -> None:
    """Real machine code, as above: a block that reads a mark sees the total that was left before it."""
    compiler = compiler_with_nvvm()
    _, launch = launches_of(executable(lambda x: [jnp.cumsum(x)], Aval((1 << 20,), F32)), fake_device())
    assert launch.grid[0] == 547
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    assert re.search(r"(?s)st\.global\.f\d\d.*?membar\.gl.*?atom\.global.*?membar\.gl.*?ld\.global\.f\d\d", text)


def test_no_index_of_a_kernel_is_counted_from_the_end() -> None:
    """Real machine code, as above, by the package numba-cuda: no access asks for the sign of its index."""
    compiler = compiler_with_nvvm()
    if compiler._arrays is None:
        pytest.skip("no package numba-cuda")
    (launch,) = launches_of(executable(lambda x: [x[::-1] * 2], X), fake_device())
    assert "selp" not in compiler.ptx(launch.kernel.function, launch.types, (9, 0))

    def user_function_0(array: Any) -> Any:
        return array

    def of_users(x: Any) -> None:
        user_function_0(x)

    usual = compiler._arrays.fix_integer_index
    with compiler._plain_indices(of_users):
        assert compiler._arrays.fix_integer_index is usual


_WORD = {"float32": "f32", "float64": "f64", "int64": "u64"}


def test_a_library_that_is_missing_is_no_fault_of_a_kernel() -> None:
    class DynamicLibNotFoundError(RuntimeError):
        """As the package cuda-pathfinder raises it."""

    compiler = importlib.import_module("functad.backends.cuda.compiler")
    text = compiler._explained(DynamicLibNotFoundError("libnvrtc.so.12"))
    assert re.search(r"missing.*libnvrtc.so.12.*functad\[cuda\].*CUDA_HOME", text) and "report" not in text


# --- doctor ---------------------------------------------------------------------------------------------


def test_doctor_shows_the_whole_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(memory=3 << 30)
    monkeypatch.setattr(cuda_driver, "library", lambda: fake)
    monkeypatch.setattr(device_module, "devices", lambda: [device_of(fake)])

    class Compiler:
        compilers = staticmethod(lambda: "numba-cuda 0.30.4")
        assembler = staticmethod(lambda: None)
        ptx = staticmethod(lambda *how: "")
        found_library = staticmethod(lambda pattern: f"/cuda/lib/{pattern}")

    monkeypatch.setattr(doctor, "_cuda_compiler", lambda: Compiler)
    monkeypatch.setattr(doctor, "_test_of_gpu", lambda device: f"right on {device}")
    found = {f[0]: f[1] for f in doctor._cuda() if isinstance(f, tuple)}
    assert found == {
        "driver": "for CUDA 12.4", "compiler": "numba-cuda 0.30.4", "libNVVM": "works",
        "cuBLAS": "/cuda/lib/libcublas.so*",
        "assembler": "none: the driver assembles kernels whenever they are loaded",
        "cuda:0": "Fake GPU, compute capability 9.0, 132 multiprocessors, 3.0 of 3.0 GiB free",
        "products": "functad's kernels", "test kernel": "right on cuda:0",
    }  # fmt: skip
    with functad.config.context(cuda_products="functad"):
        assert ("products", "functad's kernels, as config.cuda_products says") in list(doctor._cuda())
    wrong = [f for f in doctor._cuda() if isinstance(f, doctor.Problem)]
    assert not wrong

    def missing(*how: Any) -> str:
        raise CompilationError("NVIDIA's compiler library libNVVM is missing: pip install 'functad[cuda]'")

    Compiler.ptx = staticmethod(missing)
    (problem,) = [f for f in doctor._cuda() if isinstance(f, doctor.Problem)]
    assert "functad[cuda]" in str(problem)


def test_doctor_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise DeviceError("none")

    monkeypatch.setattr(cuda_driver, "library", missing)
    assert list(doctor._cuda()) == [("driver", "none: functad runs on the CPU")]
