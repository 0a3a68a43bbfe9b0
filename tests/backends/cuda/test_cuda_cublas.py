"""Products by cuBLAS: a stand-in for the library, which multiplies on the CPU, and the driver's."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from cuda_driver_tools import F32, device_of, executable, launches_of
from fake_cuda import FakeCuda

import functad
import functad.numpy as jnp
from functad import lax
from functad.backends.cuda import executable as cuda_backend
from functad.backends.cuda.runtime import cublas
from functad.cli import doctor
from functad.errors import DeviceError
from functad.ir import Aval
from functad.optimize.pipeline import simplify
from functad.options import JIT_OPTIONS
from functad.tracing import trace_to_program


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


@pytest.fixture(autouse=True)
def all_by_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small: functad's own kernel multiplies small matrices otherwise."""
    monkeypatch.setattr("functad.machine_model.CUDA_LIBRARY_CLOCKS", -1e9)


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
        if not step.ptx_on(device):  # the stand-in for the driver runs no kernels
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
    assert streams_of_products(blas)[before:] == [driver.stream, driver.recording[0]]  # and then it is replayed
    assert doctor._products_of_gpu(driver) == "cuBLAS 12.9.1" and len(step.ptx_on(device)) == 1
    assert len(step.profile_on(args, device).kernels) == 2
    with functad.config.context(cuda_products="functad"):
        own = executable(product, square, square)
    assert [launch.kernel.name for launch in launches_of(own, device)] == ["product_c_sin_d"]
    monkeypatch.setattr("functad.machine_model.CUDA_LIBRARY_CLOCKS", 9000)
    assert len(launches_of(executable(product, square, square), device)) == 1
    assert "cuda_products" in JIT_OPTIONS


def test_products_run_at_one_time_with_memory_of_their_own(blas: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a product of other arrays takes the place of what was recorded."""
    monkeypatch.setattr("functad.machine_model.CUDA_CUBLAS_BYTES", 1 << 12)
    monkeypatch.setattr("functad.machine_model.CUDA_LANES", 2)
    monkeypatch.setattr("functad.machine_model.CUDA_CHANGES", 100)
    fake = FakeCuda()
    device = device_of(fake, blas=blas)
    square = Aval((40, 40), F32)

    def products(x: Any, y: Any) -> Any:
        return [x @ y, y @ x, x @ x, (x @ y) @ (y @ x)]

    step, before = executable(products, square, square), len(streams_of_products(blas))
    x, y, *others = (device.put(np.full((40, 40), k, F32)) for k in range(1, 6))
    for _ in range(2):
        results = step.on_device([x, y], device)
    (stretch,) = step.placed(device).plan
    lanes = [node.lane for node in stretch.nodes]
    streams = streams_of_products(blas)[before:]
    assert set(lanes) == {0, 1} and streams[len(lanes) :] == [device.driver.recording[lane] for lane in lanes]
    for one in range(2):  # of two in one lane the later one waits for the earlier
        users = [number for number, lane in enumerate(lanes) if lane == one]
        assert all(reaches(stretch.nodes, first, then) for first, then in itertools.pairwise(users))
    del results
    for other in others:
        fake.calls.clear()
        results = step.on_device([x, other], device)
        assert fake.calls.count("cuGraphLaunch") == 1 and "cuGraphAddChildGraphNode" not in fake.calls
        assert np.array_equal(results[0].host(), x.host() @ other.host())


def test_products_are_profiled_before_they_are_called(blas: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_CUBLAS_BYTES", 1 << 12)
    monkeypatch.setattr("functad.machine_model.CUDA_COPY_BYTES", 1 << 12)
    monkeypatch.setattr("functad.machine_model.CUDA_REPEATS", 1)
    square = Aval((40, 40), F32)
    step = executable(lambda x, y: [x @ y], square, square)
    assert len(step.profile_on([np.ones((40, 40), F32)] * 2, device_of(FakeCuda(), blas=blas)).kernels) == 1


def reaches(nodes: Any, first: int, then: int) -> bool:
    """Whether one node waits for another."""
    return first in nodes[then].after or any(reaches(nodes, first, other) for other in nodes[then].after)


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
            executable(lambda x, y: [y @ x], square, square).on_device(args, device)
        status.value = 1
        with pytest.raises(DeviceError, match=r"cannot be started \(status 1, in cublasCreate"):
            executable(lambda x, y: [x @ y], square, square).on_device(args, device_of(FakeCuda(), blas=blas))
    finally:
        status.value = 0


def test_a_cublas_that_cannot_be_set_up_leaves_nothing(blas: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_CUBLAS_BYTES", 1 << 12)
    square, args = Aval((40, 40), F32), [np.ones((40, 40), F32)] * 2
    alive, status = (ctypes.c_int.in_dll(ctypes.CDLL(blas), name) for name in ("alive", "status_of_settings"))
    before, fake, step = alive.value, FakeCuda(), executable(lambda x, y: [x @ y], square, square)
    status.value = 1
    try:
        with pytest.raises(DeviceError, match=r"cannot be started \(status 1, in cublasSetStream"):
            step.on_device(args, device := device_of(fake, blas=blas))
    finally:
        status.value = 0
    assert alive.value == before
    step.on_device(args, device)
    assert alive.value == before + 1


class ProductsOfPython:
    """What stands for the library, in Python: `cublasCreate` gives these numbers first."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: 0

    def cublasCreate_v2(self, handle: Any) -> int:
        handle._obj.value = 1
        return self.codes.pop(0) if self.codes else 0


def test_a_handle_has_the_memory_that_waits_to_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_CUBLAS_BYTES", 1 << 12)
    fake = FakeCuda()
    device = device_of(fake)
    for code in (1, 3):
        device.put(np.ones(7000, F32))
        fake.calls.clear()
        cublas.Cublas(ProductsOfPython(code), device.driver.stream, device.pool)
        assert "cuMemFreeAsync" in fake.calls
        with pytest.raises(DeviceError, match="cublasCreate"):
            cublas.Cublas(ProductsOfPython(code, code), device.driver.stream, device.pool)


def test_a_product_is_recorded_while_another_thread_waits_for_memory_of_a_handle(
    blas: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_CUBLAS_BYTES", 1 << 12)
    fake = FakeCuda()
    device = device_of(fake, blas=blas)
    driver, square = device.driver, Aval((40, 40), F32)
    step = executable(lambda x: [x @ x], square)
    x = device.put(np.ones((40, 40), F32))
    known = step.on_device([x], device)
    begin, wait, waits = fake.cuStreamBeginCapture_v2, driver.synchronize_all, Event()  # type: ignore[attr-defined]

    def prepare() -> None:
        shared = device.put(np.ones(6, F32))
        shared.block.shared = True
        del shared  # so whoever takes memory waits for all streams
        driver.blas.prepare(driver.recording[1])

    def wait_for_all() -> None:
        waits.set()
        wait()

    def begin_and_more(*arguments: Any) -> int:
        others.append(Thread(target=prepare, daemon=True))
        others[0].start()
        assert waits.wait(20)
        return int(begin(*arguments))

    others: list[Thread] = []
    monkeypatch.setattr(driver, "synchronize_all", wait_for_all)
    monkeypatch.setattr(fake, "cuStreamBeginCapture_v2", begin_and_more)
    recording = Thread(target=lambda: known.extend(step.on_device([x], device)), daemon=True)
    recording.start()
    recording.join(5)
    others[0].join(5)
    assert not recording.is_alive() and not others[0].is_alive() and len(known) == 2


def test_less_exact_units_multiply_where_that_is_asked_for(blas: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of single precision alone, and only in the context."""
    monkeypatch.setattr("functad.machine_model.CUDA_CUBLAS_BYTES", 1 << 12)
    device, fast = device_of(FakeCuda(), blas=blas), ctypes.c_int.in_dll(ctypes.CDLL(blas), "fast")
    asked = {}
    for precision in (None, "high", "tensorfloat32", "bfloat16", "highest", "float32"):
        for dtype in ("float32", "float64"):
            square = np.ones((40, 40), dtype)
            with functad.default_matmul_precision(precision):
                executable(lambda x: [x @ x], Aval((40, 40), square.dtype)).on_device([square], device)
            asked[precision, dtype] = fast.value
    assert {words: units for words, units in asked.items() if units} == {
        ("high", "float32"): 77, ("tensorfloat32", "float32"): 77, ("bfloat16", "float32"): 75,
    }  # fmt: skip
    assert "default_matmul_precision" in JIT_OPTIONS


def test_a_product_that_says_how_exact_it_is_does_not_ask_the_context(
    blas: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functad.machine_model.CUDA_CUBLAS_BYTES", 1 << 12)
    device, fast = device_of(FakeCuda(), blas=blas), ctypes.c_int.in_dll(ctypes.CDLL(blas), "fast")
    square = np.ones((40, 40), F32)
    for context, own, unit in (
        (None, "high", 77), (None, lax.Precision.HIGHEST, 0), ("high", "highest", 0), ("high", "bfloat16", 75),
        ("high", None, 77), ("high", lax.Precision.DEFAULT, 0),
    ):  # fmt: skip

        def gradient(x: Any, own: Any = own) -> Any:
            return functad.grad(lambda x: jnp.matmul(x, x, precision=own).sum())(x)

        for fun in (lambda x, own=own: lax.dot(x, x, precision=own), gradient):
            fast.value = -1
            with functad.default_matmul_precision(context):
                executable(lambda x, fun=fun: [fun(x)], Aval((40, 40), F32)).on_device([square], device)
            assert fast.value == unit, (context, own)
