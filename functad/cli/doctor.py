"""`python -m functad doctor`: what functad finds on this machine, whether it works, and what to do where it does not.

Knows whom to ask, not how the parts work. A part that cannot even be imported is a finding, so each is imported
when its turn comes.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np

import functad
from functad import machine_model
from functad.config import config
from functad.errors import DeviceError, FunctadError
from functad.options import OPTIONS, available_cores
from functad.system import lapack, numba_here


class Problem(FunctadError):
    """Something that does not work; the message says what to do."""


# What a part yields: a name and a value, or a problem that does not end it.
Findings = Iterator[tuple[str, object] | Problem]


def add_parser(commands: Any) -> None:
    """Add `doctor` to the sub-commands of a parser."""
    parser = commands.add_parser(
        "doctor",
        help="show what functad uses on this machine and test it",
        description="Show what functad uses on this machine, and test it; the exit code is 1 where something is wrong.",
    )
    parser.add_argument(
        "--measure",
        nargs="*",
        metavar="NUMBER",
        help="measure what functad takes for granted about machines, all or these numbers of functad/machine_model/, "
        "in less than a minute; nothing is written",
    )
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    """Print the findings of all parts; returns 0, or 1 if there are problems."""
    if options.measure is not None:
        for line in importlib.import_module("functad.cli.measure").measured_lines(options.measure):
            print(line, flush=True)
        return 0
    problems = 0
    parts = PARTS if numba_here.is_installed() else {**{t: PARTS[t] for t in _OF_NUMPY}, "Numba": _without_numba}
    for title, part in parts.items():
        print(f"{title}")
        try:
            for finding in part():
                if isinstance(finding, Problem):
                    problems += 1
                    print(f"  PROBLEM: {finding}")
                else:
                    print(f"  {finding[0]:<14}{finding[1]}")
        # Whatever breaks is what the user wants to know, and must not hide the parts that follow.
        except Exception as problem:
            problems += 1
            kind = "" if isinstance(problem, FunctadError) else f"{type(problem).__name__}: "
            print(f"  PROBLEM: {kind}{problem}")
    print(f"\n{problems} problem{'s' if problems != 1 else ''} found" if problems else "\nno problems found")
    return 1 if problems else 0


def _versions() -> Findings:
    yield "functad", functad.__version__
    yield "Python", f"{platform.python_version()} ({platform.python_implementation()}), {sys.executable}"
    yield "system", f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield "NumPy", np.__version__
    for package in ("numba", "llvmlite") if numba_here.is_installed() else ():
        try:
            yield package, version(package)
        except PackageNotFoundError:
            yield Problem(f"{package} is not installed: python -m pip install numba")
    if sys.maxsize < 2**32:
        yield Problem("this Python has 32 bits; compiled functions need one with 64")


def _without_numba() -> Findings:
    yield "Numba", "not installed, which is no problem but for speed"
    yield "works", "everything, run by NumPy operation by operation, jitted functions, too; kernels are shown"
    yield "does not", 'machine code, profile, and the backend "cuda"'
    yield "to add it", "python -m pip install numba"


def _processor() -> Findings:
    target = _backend("compile.target")
    name, features = target.host()
    yield "name", name
    yield "vectors", f"{_vector_bits(features.split(','))} bits"


def _vector_bits(features: list[str]) -> int:
    for feature, bits in (("+avx512f", 512), ("+avx", 256)):
        if feature in features:
            return bits
    return 128


def _threads() -> Findings:
    cores, why = available_cores()
    variable = "FUNCTAD_NUM_THREADS"
    if variable in os.environ:
        why = f"{variable}={os.environ[variable]}"
    elif config.num_threads != OPTIONS["num_threads"].default:
        why = "set by the program"
    yield "threads", f"{config.num_threads}: {why}"
    if config.num_threads > cores:
        yield Problem(
            f"{config.num_threads} threads on {cores} cores wait for each other: set {variable} to {cores} or less"
        )


def _matrix_products() -> Findings:
    blas = _backend("products.blas")
    chosen = blas.blas()
    narrow = blas.is_narrow(np.dtype(np.float32))
    if not chosen.is_library:
        yield "BLAS", f"none ({chosen.reason}): functad's own kernel"
        if narrow:
            return
        yield Problem(
            "matrix products take two to five times as long as with a BLAS library: install NumPy from PyPI or "
            "conda-forge, or set FUNCTAD_BLAS to the path of a library with cblas_sgemm"
        )
        return
    yield "BLAS", f"{chosen.path} ({chosen.reason})"
    yield "function", f"{chosen.symbols[0]}, {chosen.integers}-bit integers"
    if chosen.description:
        yield "build", chosen.description
    if narrow:
        yield (
            "kernels", "without AVX-512, which this processor has: compiled products are functad's own; for those of "
            "NumPy, OPENBLAS_CORETYPE=SkylakeX may help",
        )  # fmt: skip
    threads = chosen.threads()
    yield "threads", "unknown" if threads is None else f"{threads} outside of compiled functions, 1 inside"
    if threads is None:
        yield Problem(
            "functad cannot set this library's number of threads, which may fight with functad's own: set it to 1 "
            "by the library's environment variable"
        )


def _linear_algebra() -> Findings:
    """How compiled functions factorise: in kernels of their own, which may call LAPACK, or by a call of Python."""
    size = machine_model.SMALL_MATRIX
    yield "small", f"real ones up to {size} × {size} in Cholesky, LU and triangular systems: kernels of functad's own"
    blas = _backend("products.blas")
    in_kernels = [name for name in _IN_KERNELS if blas.has_routine(name, np.float64)]
    found = [name for name in _IN_KERNELS + _FROM_PYTHON if name not in in_kernels and lapack.has(name)]
    others = [name for name in _IN_KERNELS + _FROM_PYTHON if name not in in_kernels + found]
    if in_kernels:
        rows = machine_model.ONE_THREAD_MATRIX
        yield "in kernels", f"{', '.join(in_kernels)} of LAPACK, up to {rows} rows; else from a call of Python"
    if found:
        yield "by address", f"{', '.join(found)} of LAPACK, in the library of matrix products, from a call of Python"
    if others:
        yield "by NumPy", f"{', '.join(others)}: numpy.linalg or nothing stands for them"


_IN_KERNELS = ("potrf", "getrf", "trsm", "geqrf", "orgqr", "syevd", "gesdd")
_FROM_PYTHON = ("geqp3", "gtsv")


def _pool() -> Findings:
    runtime = _backend("runtime.tape")
    loaded = runtime.runtime()
    yield "runtime", "compiled now" if loaded.kernels.compiled else "from the cache"
    if loaded.entry_problem:
        yield Problem(f"calls take some microseconds longer, since {loaded.entry_problem}; please report this")
    yield "products", f"{_products_that_agree(runtime)} of 200, cut into chunks, agree with NumPy"
    yield "fork and join", f"{_microseconds_of_an_empty_block(runtime):.2f} microseconds"
    yield "helpers", f"{loaded.pool.running} of {loaded.pool.threads - 1} run"


def _products_that_agree(runtime: Any) -> int:
    gemm = _backend("products.gemm")
    a = np.arange(64 * 32, dtype=np.float32).reshape(64, 32) % 7
    c = np.empty((64, 64), np.float32)
    instruction = gemm.gemm_instruction(
        np.float32, gemm.Matrix(0, 32), gemm.Matrix(0, 32), gemm.Matrix(1, 64), m=64, n=64, k=32, tb=True
    )
    call = runtime.Tape([runtime.TapeBlock(64, [instruction], 8)]).bind(np.zeros(2, np.int64), 2)
    agree = 0
    for _ in range(200):
        c[...] = np.nan
        runtime.settle(call([a, c]))
        agree += np.array_equal(c, np.einsum("ik,jk->ij", a, a))
    if agree < 200:
        raise Problem(f"{200 - agree} of 200 matrix products are wrong: set FUNCTAD_NUM_THREADS=1 and report this")
    return agree


def _microseconds_of_an_empty_block(runtime: Any) -> float:
    call = runtime.Tape([runtime.TapeBlock(16, [], 1)] * 100).bind(np.zeros(0, np.int64), 0)
    seconds = []
    for _ in range(101):
        start = time.perf_counter()
        runtime.settle(call([]))
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[50] / 100 * 1e6


def _cache() -> Findings:
    objects = _backend("compile.objects")
    folder = objects.cache_folder()
    yield "folder", folder
    files = objects.cached_files()
    yield "files", f"{len(files)}, {sum(status.st_size for _, status in files) / 1e6:.2f} MB"
    problem = _why_not_writable(folder)
    if problem:
        yield Problem(
            f"{problem}, so every process compiles again: make the folder yours and writable for you alone, "
            "or set FUNCTAD_CACHE_DIR to another one"
        )


def _why_not_writable(folder: Any) -> str:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        return f"the cache folder cannot be made ({problem.strerror})"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "the cache folder cannot be written to"
    if hasattr(os, "geteuid"):
        status = folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return "the cache folder belongs to, or can be written to by, others"
    return ""


def _compiler() -> Findings:
    try:
        importlib.import_module("numba")
    except Exception as problem:
        raise Problem(
            f"Numba cannot be imported ({type(problem).__name__}: {problem}), so nothing new can be compiled: "
            "python -m pip install --upgrade numba, in a version that supports this Python and NumPy"
        ) from problem
    machine = _backend("compile.machine")
    loader = _backend("compile.loader")
    text = "def double(x, start, stop):\n    for i in range(start, stop):\n        x[i] = x[i] + x[i]\n"
    start = time.perf_counter()
    kernels = loader.load_object(
        machine.compile_kernels(text, "doctor", {"double": [np.dtype(np.float32)]}), ["double"]
    )
    seconds = time.perf_counter() - start
    x = np.arange(100, dtype=np.float32)
    slots, params = np.array([x.ctypes.data], np.int64), np.zeros(1, np.int64)
    word = ctypes.c_int64
    double = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, word, word)(kernels["double"])
    double(slots.ctypes.data, params.ctypes.data, 0, 100)
    if not np.array_equal(x, 2 * np.arange(100)):
        raise Problem("a compiled kernel computes wrong numbers: please report this with the output above")
    yield "test kernel", f"compiled in {1e3 * seconds:.0f} ms, right"


def _cuda() -> Findings:
    """The driver and its GPUs; what compiles for them; and libraries that are used where they are found."""
    driver = importlib.import_module("functad.backends.cuda.runtime.driver_library")
    if _is_simulated():
        yield "simulator", f"NUMBA_ENABLE_CUDASIM is set: {', '.join(map(str, functad.devices('cuda')))} are Numba's"
        yield "to use GPUs", "unset it, and start Python anew"
        return
    try:
        calls = driver.library()
    except DeviceError as problem:
        yield "driver", "none: functad runs on the CPU"
        yield "to use a GPU", problem
        if find_spec("numba_cuda"):
            yield from _cuda_packages()
        else:
            yield "numba-cuda", "not installed: python -m pip install 'functad[cuda]'"
        return
    number = driver.version(calls)
    yield "driver", f"for CUDA {number // 1000}.{number % 1000 // 10}"
    yield from _cuda_packages()
    for device in importlib.import_module("functad.backends.cuda.runtime.device").cuda_devices():
        free, total = device.driver.capacity()
        yield (
            str(device), f"{device.device_kind}, compute capability {device.compute_capability}, {device.core_count} "
            f"multiprocessors, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free",
        )  # fmt: skip
        yield "products", _products_of_gpu(device.driver)
        yield "test kernel", _test_of_gpu(device)


def _cuda_packages() -> Findings:
    """What is installed to make machine code for GPUs, and to multiply matrices there."""
    compiler = _cuda_compiler()
    yield "compiler", compiler.compilers()
    path, each_time = compiler.assembler(), "the driver assembles kernels whenever they are loaded"
    try:
        text = compiler.ptx(_nothing, (("array", "float32"),), _TRIED)
        yield "libNVVM", "works"
        if path and compiler.assembled(text, _TRIED) is None:
            path = f"{path}, which is older than the compiler: {each_time}"
    except FunctadError as problem:
        yield Problem(str(problem))
    yield "assembler", path or f"none: {each_time}"
    path = compiler.found_library("libcublas.so*")
    yield "cuBLAS", path or "none: matrix products are functad's own kernels"


_TRIED = (8, 0)  # a GPU's compute capability, for which all compilers make code


def _nothing(x: Any) -> None:
    """A kernel."""


def _cuda_compiler() -> Any:
    try:
        compiler = importlib.import_module("functad.backends.cuda.compile.compiler")
    except FunctadError as problem:
        raise Problem(str(problem)) from problem
    except Exception as problem:
        raise Problem(
            f"the CUDA compiler cannot be imported ({type(problem).__name__}: {problem}): python -m pip install "
            "'functad[cuda]'"
        ) from problem
    return compiler


def _is_simulated() -> bool:
    return bool(importlib.import_module("numba").config.ENABLE_CUDASIM)


def _products_of_gpu(driver: Any) -> str:
    """What multiplies matrices on a GPU."""
    if functad.config.cuda_products == "functad":
        return "functad's kernels, as config.cuda_products says"
    try:
        return f"cuBLAS {driver.blas.version()}" if driver.blas else "functad's kernels"
    except DeviceError as problem:
        raise Problem(str(problem)) from problem


def _test_of_gpu(device: Any) -> str:
    """Compile and run a kernel."""
    start = time.perf_counter()
    double = functad.jit(lambda x: x + x, device=device)
    x = np.arange(100, dtype=np.float32)
    if not np.array_equal(np.asarray(double(x)), 2 * x):
        raise Problem(f"a kernel computes wrong numbers on {device}: please report this with the output above")
    return f"ready in {1e3 * (time.perf_counter() - start):.0f} ms, right"


def _backend(name: str) -> Any:
    try:
        return importlib.import_module(f"functad.backends.cpu.{name}")
    except (ImportError, OSError) as problem:
        raise Problem(
            f"the compiler cannot be loaded ({type(problem).__name__}: {problem}): "
            "python -m pip install --force-reinstall numba llvmlite"
        ) from problem


PARTS: dict[str, Callable[[], Findings]] = {
    "Versions": _versions,
    "Processor": _processor,
    "Threads": _threads,
    "Matrix products": _matrix_products,
    "Linear algebra": _linear_algebra,
    "Pool of threads": _pool,
    "Cache of compiled kernels": _cache,
    "Compiler": _compiler,
    "CUDA": _cuda,
}
_OF_NUMPY = ("Versions",)  # the parts that say something where nothing is compiled
