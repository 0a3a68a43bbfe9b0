"""Errors of GPUs, each with its fix, and what `doctor` says of them.

The driver is a stand-in.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_driver_tools import F32, X, device_of, executable, launches_of
from fake_cuda import FakeCuda

import functad
import functad.numpy as jnp
from functad.backends.cuda.runtime import device as device_module
from functad.backends.cuda.runtime import driver_library
from functad.backends.cuda.runtime.driver_library import PROTOTYPES, library
from functad.backends.cuda.scalars import numba_package
from functad.cli import doctor
from functad.errors import CompilationError, DeviceError, DeviceFaultError

ONES = np.ones(6, F32)


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
    fake.next_code("cuModuleLoadData", code, code)
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


def test_each_kernel_is_waited_for_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second call, too, which would be a graph otherwise."""
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [jnp.cumsum(x[None] + 1, 1), x.sum()], X)
    names = [launch.kernel.name for launch in launches_of(step, device)]
    for _ in range(3):
        fake.calls.clear()
        step.on_device([device.put(np.ones(6, F32))], device)
        assert fake.calls.count("cuLaunchKernel") == fake.calls.count("cuStreamSynchronize") == len(names) > 1
        assert "cuGraphLaunch" not in fake.calls
    fake.next_code("cuStreamSynchronize", 700)
    held = device.put(np.ones(6, F32))
    with pytest.raises(DeviceFaultError, match=f"illegal address.*running the kernel `{names[0]}`"):
        step.on_device([held], device)


def test_after_a_fault_every_call_says_that_the_device_is_lost() -> None:
    """And what goes away with the arrays says nothing: their memory is lost with the rest."""
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [x + 1], X)
    for _ in range(3):
        (result,) = step.on_device([np.ones(6, F32)], device)
    fake.lost = 700
    lost = r"(?s)illegal address.*start Python anew.*Started before, and not known to be finished: step"
    for call in (result.host, device.synchronize, partial(step.on_device, [result], device), partial(device.put, ONES)):
        with pytest.raises(DeviceFaultError, match=lost):
            call()
    del call, step, result
    gc.collect()  # whatever fails in a finaliser would be an error of this test


def test_a_device_is_idle_when_all_is_done_that_was_started() -> None:
    fake = FakeCuda()
    driver = device_of(fake).driver
    for fake.busy in (True, False):
        assert driver.is_idle() is not fake.busy
    fake.lost = 700
    with pytest.raises(DeviceFaultError, match="illegal address"):
        driver.is_idle()


def test_a_kernel_that_cannot_start_is_named() -> None:
    fake = FakeCuda()
    device = device_of(fake)
    step = executable(lambda x: [x + 1], X)
    fake.next_code("cuLaunchKernel", 701)
    name = next(iter(step.generated.kernels))
    with pytest.raises(DeviceFaultError, match=f"registers or shared memory.*starting the kernel `{name}`"):
        step.on_device([np.ones(6, F32)], device)


def test_every_failure_has_a_fix() -> None:
    assert all(f.meaning and f.fix for f in driver_library.FAILURES.values())
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


def test_a_library_that_is_missing_is_no_fault_of_a_kernel() -> None:
    class DynamicLibNotFoundError(RuntimeError):
        """As the package cuda-pathfinder raises it."""

    compiler = importlib.import_module("functad.backends.cuda.compile.compiler")
    text = compiler._explained(DynamicLibNotFoundError("libnvrtc.so.12"))
    assert re.search(r"missing.*libnvrtc.so.12.*functad\[cuda\].*CUDA_HOME", text) and "report" not in text


def test_a_gpu_that_is_too_old_for_the_compiler() -> None:
    class CCSupportError(Exception):
        """As Numba raises it."""

    compiler = importlib.import_module("functad.backends.cuda.compile.compiler")
    text = compiler._explained(CCSupportError("GPU compute capability 6.1 is not supported(requires >=7.5)"))
    assert re.search(r"for this GPU.*6\.1.*CUDA 12 does.*functad\[cuda\]", text) and "report" not in text


def test_a_compiler_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = AttributeError("module 'numpy' has no attribute 'row_stack'")
    text = numba_package.explained(gone)
    assert re.search(r"does not work with numpy \d.*row_stack.*pip install 'numpy<2.5'", text)
    assert "functad[cuda]" in numba_package.explained(ImportError("no libfoo"))
    monkeypatch.setattr(numba_package, "_problem", lambda: gone)
    with pytest.raises(CompilationError, match="numpy<2.5"):
        numba_package.require()
    monkeypatch.setattr(doctor.importlib, "import_module", lambda name: numba_package.require())
    with pytest.raises(doctor.Problem, match="numpy<2.5"):
        doctor._cuda_compiler()


def test_what_the_assembler_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = importlib.import_module("functad.backends.cuda.compile.compiler")
    stand_in = tmp_path / "ptxas"
    monkeypatch.setattr(compiler, "assembler", lambda: str(stand_in))

    def says(text: str) -> None:
        stand_in.write_text(f'#!/bin/sh\necho "ptxas $4, line 7; {text}" >&2\nexit 255\n')
        stand_in.chmod(0o755)

    says("error   : Unknown symbol 'foo'")
    with pytest.raises(CompilationError, match=r"refused a kernel.*: line 7; error   : Unknown symbol 'foo'.*report"):
        compiler.assembled(".entry", (9, 0))
    says("fatal   : Unsupported .version 9.5; current version is '9.0'")
    assert compiler.assembled(".entry", (9, 0)) is None  # the driver translates it, if it is newer


def test_a_function_that_nobody_brings_is_named() -> None:
    compiler = importlib.import_module("functad.backends.cuda.compile.compiler")
    text = ".extern .func  (.param .b32 func_retval0) vprintf\n(\n);\n.extern .func (.param .b32 r) missing\n(\n)\n;"
    with pytest.raises(CompilationError, match="the kernel `k` calls missing, which.*numba_primitive.*indices"):
        compiler._check_calls(text, "k")
    assert "function given to numba_primitive" in compiler._explained(ValueError("np.zeros"), True)


def test_doctor_shows_the_whole_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCuda(memory=3 << 30)
    monkeypatch.setattr(driver_library, "library", lambda: fake)
    monkeypatch.setattr(device_module, "cuda_devices", lambda: [device_of(fake)])

    class Compiler:
        compilers = staticmethod(lambda: "numba-cuda 0.30.4")
        assembler = staticmethod(lambda: None)
        assembled: Any = None
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
    Compiler.assembler = staticmethod(lambda: "/cuda/bin/ptxas")
    for code, said in ((b"code", ""), (None, ", which is older than the compiler: the driver assembles")):
        Compiler.assembled = staticmethod(lambda *how, code=code: code)
        found = {f[0]: f[1] for f in doctor._cuda() if isinstance(f, tuple)}
        assert found["assembler"].startswith(f"/cuda/bin/ptxas{said}")

    def missing(*how: Any) -> str:
        raise CompilationError("NVIDIA's compiler library libNVVM is missing: pip install 'functad[cuda]'")

    Compiler.ptx = staticmethod(missing)
    (problem,) = [f for f in doctor._cuda() if isinstance(f, doctor.Problem)]
    assert "functad[cuda]" in str(problem)


@pytest.mark.parametrize("installed", [False, True])
def test_doctor_without_a_driver_says_what_to_do(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    def missing() -> Any:
        raise DeviceError("there is no driver: install one")

    monkeypatch.setattr(driver_library, "library", missing)
    monkeypatch.setattr(doctor, "find_spec", lambda package: installed or None)
    monkeypatch.setattr(doctor, "_cuda_packages", lambda: iter([("compiler", "numba-cuda")]))
    driver, fix, compiler = [(title, str(text)) for title, text in doctor._cuda()]
    assert driver == ("driver", "none: functad runs on the CPU")
    assert fix == ("to use a GPU", "there is no driver: install one")
    assert compiler == (
        ("compiler", "numba-cuda")
        if installed
        else ("numba-cuda", "not installed: python -m pip install 'functad[cuda]'")
    )


def test_doctor_names_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_is_simulated", lambda: True)
    monkeypatch.setattr(doctor.functad, "devices", lambda kind: [f"{kind}:0", f"{kind}:1"])
    found = dict(doctor._cuda())
    assert found["simulator"] == "NUMBA_ENABLE_CUDASIM is set: cuda:0, cuda:1 are Numba's" and "driver" not in found


def test_doctor_of_a_driver_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its version is shown, and what is installed, before the error says what to do."""
    fake = FakeCuda(version=11080)
    monkeypatch.setattr(driver_library, "library", lambda: fake)
    monkeypatch.setattr(device_module, "cuda_devices", lambda: driver_library.start_driver(fake))
    monkeypatch.setattr(doctor, "_cuda_packages", lambda: iter([("compiler", "numba-cuda")]))
    found = doctor._cuda()
    assert [next(found), next(found)] == [("driver", "for CUDA 11.8"), ("compiler", "numba-cuda")]
    with pytest.raises(DeviceError, match="too old.*Update the driver"):
        next(found)
