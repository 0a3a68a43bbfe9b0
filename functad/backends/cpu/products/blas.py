"""Who computes matrix products: the BLAS library that NumPy uses, another one, or functad's own kernel.

This file must not know tapes: it finds functions, and makes the handles through which compiled code calls them.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from functad import machine_model
from functad.backends.cpu.compile import objects
from functad.backends.cpu.compile.loader import Loaded
from functad.backends.cpu.products import gemm_table
from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime.tape import runtime
from functad.errors import ArgumentError

KINDS = {np.dtype(t): i for i, t in enumerate((np.float32, np.float64, np.complex64, np.complex128))}
_LETTERS = "sdcz"
_VARIABLE = "FUNCTAD_BLAS"


class Blas(NamedTuple):
    """What computes matrix products.

    path: the library, empty for functad's own kernel.
    symbols: the names of its functions for float32, float64, complex64, complex128.
    get_threads, set_threads: the names of the functions for its number of threads, empty if it has none.
    reason: why it was chosen.
    """

    path: str
    symbols: tuple[str, ...]
    get_threads: str
    set_threads: str
    reason: str

    @property
    def is_library(self) -> bool:
        return bool(self.symbols)

    @property
    def integers(self) -> int:
        """The bits of the library's integers, as far as the names of its functions tell."""
        return 64 if self.symbols and "64" in self.symbols[0] else 32

    @property
    def description(self) -> str:
        """The library's own description of itself, if it is an OpenBLAS."""
        if not self.set_threads.endswith(("openblas_set_num_threads64_", "openblas_set_num_threads")):
            return ""
        name = self.set_threads.replace("set_num_threads", "get_config")
        function = getattr(ctypes.CDLL(self.path), name, None)
        if function is None:
            return ""
        function.restype = ctypes.c_char_p
        return str(function().decode())

    def threads(self) -> int | None:
        """The number of threads that the library uses outside of functad, if it says."""
        if not self.get_threads:
            return None
        return int(getattr(ctypes.CDLL(self.path), self.get_threads)())


@cache
def blas() -> Blas:
    """What this process uses: what `FUNCTAD_BLAS` says (a path, or `none`), else what is found beside NumPy.

    Raises:
        ArgumentError: the library that `FUNCTAD_BLAS` names cannot be used.
    """
    chosen = os.environ.get(_VARIABLE, "").strip()
    if chosen.lower() == "none":
        return _own(f"{_VARIABLE} is none")
    if chosen:
        found = _in_library(chosen, f"{_VARIABLE} names it")
        if found is None:
            raise ArgumentError(
                f"{_VARIABLE}={chosen!r}: this is not a library with cblas_sgemm that can be loaded. Give the path of "
                "one, `none` for functad's own kernel, or unset the variable"
            )
        return found
    for path, reason in _candidates():
        found = _in_library(path, reason)
        if found is not None:
            return found
    return _own("no library with cblas_sgemm was found beside NumPy")


# For these processors, which have AVX-512, OpenBLAS has kernels that read both matrices where they lie, for up to
# `OPENBLAS_DIRECT` multiplications. Large matrices packed first are slower than the same matrices in tiles of that
# size, unless the packed ones are used often.
_DIRECT_CORES = ("SkylakeX", "Cooperlake", "SapphireRapids")
# Where tiles do not help either, functad's own product does, which packs one panel while it multiplies another: for a B
# to be transposed, and for a large matrix (`OWN_PRODUCT_BYTES`).


def handle(dtype: Any) -> int:
    """The address through which compiled code multiplies matrices of the dtype.

    Raises:
        ArgumentError: the dtype is none of float32, float64, complex64, complex128.
    """
    dtype = np.dtype(dtype)
    if dtype not in KINDS:
        names = ", ".join(kind.name for kind in KINDS)
        raise ArgumentError(f"matrix products have no kernel for {dtype.name}: convert to one of {names}")
    return int(_handle(dtype).ctypes.data)


def named_handle(name: str) -> int:
    """The address behind a buffer of `Target.blas`, by its name."""
    dtype = name.removeprefix("places_")
    return handle(dtype) if dtype == name else int(gemm_table.places_handle(np.dtype(dtype)).ctypes.data)


def handle_for(dtype: Any, m: int, n: int, k: int, *, ta: bool, tb: bool, ldb: int, ldc: int) -> tuple[int, bool]:
    """The address through which one product is best computed, and whether that calls a BLAS library.

    It only depends on the product as a whole, not on how it is cut for threads.
    """
    dtype = np.dtype(dtype)
    if (
        m * n * k > machine_model.OPENBLAS_DIRECT
        and m >= machine_model.OWN_PRODUCT_ROWS
        and n >= machine_model.OWN_PRODUCT_COLUMNS
        and k >= machine_model.OWN_PRODUCT_DEPTH
        and _is_direct(dtype)
    ):
        few = k if ta else m
        largest = max(k * ldb, m * ldc) * dtype.itemsize
        if tb or (few >= machine_model.OWN_PRODUCT_DEPTH and largest >= machine_model.OWN_PRODUCT_BYTES):
            return int(_handle_of_panels(dtype).ctypes.data), False
    return handle(dtype), True


def reads_in_place(dtype: Any) -> bool:
    """Whether small products of the dtype are computed from matrices where they lie, without packing them."""
    return _is_direct(np.dtype(dtype))


@cache
def _handle_of_panels(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return gemm_table.with_table(_new_handle(dtype, 0, 0), dtype)


@cache
def _is_direct(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" and any(core in blas().description for core in _DIRECT_CORES)


@cache
def _handle(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    chosen = blas()
    if not chosen.is_library:
        return _new_handle(dtype, _own_kernel(dtype)["gemm"], 0)
    library = ctypes.CDLL(chosen.path)
    if chosen.set_threads:
        words = runtime().pool.words
        words[w.BLAS_GET] = _address(getattr(library, chosen.get_threads))
        words[w.BLAS_SET] = _address(getattr(library, chosen.set_threads))
    function = _address(getattr(library, chosen.symbols[KINDS[dtype]]))
    direct = machine_model.OPENBLAS_DIRECT if _is_direct(dtype) else 0
    return _new_handle(dtype, runtime().addresses["gemm"], function, direct)


def _new_handle(dtype: np.dtype[Any], entry: int, function: int, direct: int = 0) -> np.ndarray[Any, Any]:
    words = np.zeros(w.GEMM_HANDLE_SIZE, np.int64)
    words[w.GEMM_ENTRY] = entry
    words[w.GEMM_CBLAS] = function
    words[w.GEMM_KIND] = KINDS[dtype]
    words[w.GEMM_ITEM] = dtype.itemsize
    words[w.GEMM_ONE : w.GEMM_ONE + 2] = element_words(dtype, 1)
    words[w.GEMM_DIRECT] = direct
    return words


def element_words(dtype: Any, value: complex) -> np.ndarray[Any, Any]:
    """The bytes of one element, in two words."""
    room = np.zeros(2, np.int64)
    room.view(dtype)[0] = value
    return room


def _own(reason: str) -> Blas:
    return Blas("", (), "", "", reason)


@cache
def _own_kernel(dtype: np.dtype[Any]) -> Loaded:
    def make(_: str) -> bytes:
        # It imports Numba, which a process with a BLAS library or a warm cache can do without.
        fallback = importlib.import_module("functad.backends.cpu.products.gemm_fallback")
        return bytes(fallback.compile_gemm(dtype))

    source = Path(__file__).with_name("gemm_fallback.py").read_text(encoding="utf-8")
    return objects.get(source, dtype.name, ("gemm",), make).addresses


def _candidates() -> Iterator[tuple[str, str]]:
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs", package / ".libs"):
        for file in sorted(folder.glob("*openblas*")):
            yield str(file), "it comes with NumPy"
    # Looking a name up in NumPy's own library also finds it in the libraries that this one is linked to.
    yield str(importlib.import_module("numpy._core._multiarray_umath").__file__), "NumPy is linked to it"
    for path in _loaded_libraries():
        yield path, "it is loaded in this process"
    if sys.platform == "darwin":
        yield "/System/Library/Frameworks/Accelerate.framework/Accelerate", "it comes with macOS"


def _loaded_libraries() -> list[str]:
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split(maxsplit=5)[5].rstrip("\n") for line in maps if "/" in line}
    except OSError:
        return []
    return sorted(p for p in paths if any(word in Path(p).name.lower() for word in ("blas", "mkl_rt", "blis")))


def _in_library(path: str, reason: str) -> Blas | None:
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    for prefix in ("scipy_", ""):
        for suffix in ("64_", "_64", "64", ""):
            symbols = tuple(f"{prefix}cblas_{letter}gemm{suffix}" for letter in _LETTERS)
            if all(hasattr(library, symbol) for symbol in symbols) and _multiplies(library, symbols[0]):
                return Blas(path, symbols, *_thread_functions(library, prefix, suffix), reason)
    return None


def _thread_functions(library: ctypes.CDLL, prefix: str, suffix: str) -> tuple[str, str]:
    for get, set_ in (
        (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}"),
        ("openblas_get_num_threads", "openblas_set_num_threads"),
        ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
        ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
    ):
        if hasattr(library, get) and hasattr(library, set_):
            return get, set_
    return "", ""


def _multiplies(library: ctypes.CDLL, symbol: str) -> bool:
    """Whether the function computes a small product as expected: names do not tell what a library does."""
    a = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    b = np.arange(2, 14, dtype=np.float32).reshape(3, 4)
    c = np.full((2, 4), np.nan, np.float32)
    word, number, place = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
    function = getattr(library, symbol)
    function.restype = None
    function.argtypes = [word] * 6 + [number, place, word, place, word, number, place, word]
    function(101, 111, 111, 2, 4, 3, 1.0, a.ctypes.data, 3, b.ctypes.data, 4, 0.0, c.ctypes.data, 4)
    return np.array_equal(c, np.einsum("ik,kj->ij", a, b))


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
