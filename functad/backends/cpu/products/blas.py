"""Who computes matrix products: the BLAS library that NumPy uses, another one, or functad's own kernel.

This file must not know tapes: it chooses functions, and makes the handles through which compiled code calls them.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cpu.compile import objects
from functad.backends.cpu.compile.loader import Loaded
from functad.backends.cpu.compile.word_modules import word_functions
from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime import strided_copies
from functad.backends.cpu.runtime.pool import address_of
from functad.backends.cpu.runtime.tape import runtime
from functad.dtypes import kind_of
from functad.errors import ArgumentError
from functad.system import lapack, numpy_sort
from functad.system.blas_library import Blas, library_at, numpys_blas
from functad.system.source_files import text_of

try:
    from functad.backends.cpu.products.own import gemm_table as own
except ModuleNotFoundError as missing:
    if not str(missing.name).endswith(".own"):  # the folder is optional, what it imports is not
        raise
    own = None  # type: ignore[assignment]

KINDS = {np.dtype(t): i for i, t in enumerate((np.float32, np.float64, np.complex64, np.complex128))}
_VARIABLE = "FUNCTAD_BLAS"


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
        found = library_at(chosen, f"{_VARIABLE} names it")
        if found is None:
            raise ArgumentError(
                f"{_VARIABLE}={chosen!r}: this is not a library with cblas_sgemm that can be loaded. Give the path of "
                "one, `none` for functad's own kernel, or unset the variable"
            )
        return found
    return numpys_blas() or _own("no library with cblas_sgemm was found beside NumPy")


# For these processors, which have AVX-512, OpenBLAS has kernels that read both matrices where they lie, for up to
# `OPENBLAS_DIRECT` multiplications. Large matrices packed first are slower than the same matrices in tiles of that
# size, unless the packed ones are used often.
_DIRECT_CORES = ("SkylakeX", "Cooperlake", "SapphireRapids")
# Above that, functad's own product of matrices where they lie is faster still: its tiles need fewer elements of A. It
# also reads a transposed A, which OpenBLAS packs. Where an operand stays in no cache, functad's other product is
# faster. It packs one panel while it multiplies another: for a B to be transposed, for a large matrix
# (`OWN_PRODUCT_BYTES`), for many terms of a transposed A, and where there is much to do
# (`OWN_PRODUCT_MULTIPLICATIONS`). Where the processor has AVX-512, but OpenBLAS takes it for one that has not, as
# NumPy's does with AMD's, and where there is no library, it does nearly all of them.


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
    """The address behind a handle that `Target` gives (`blas`, `copier`, `lapack`, `numpy_sort`), by its name."""
    if name == "copier":
        return int(copier().ctypes.data)
    what, _, dtype = name.rpartition("_")
    if not what:
        return handle(dtype)
    if what in ("places", "windows"):
        of_own = own.places_handle if what == "places" else own.windows_handle
        return int(of_own(np.dtype(dtype)).ctypes.data)
    made = numpy_sort.sort_word(np.dtype(dtype)) if what == "sort" else _handle_of_routine(what, np.dtype(dtype))
    return int(made.ctypes.data)


def has_routine(name: str, dtype: Any) -> bool:
    """Whether compiled code can call a routine of LAPACK, such as `getrf`, for a dtype.

    It must be in the library that multiplies, whose number of threads compiled code sets.
    """
    numpys = numpys_blas()
    return numpys is not None and numpys.path == blas().path and lapack.has(name, dtype)


@cache
def copier() -> np.ndarray[Any, Any]:
    """The word through which kernels copy between arrays of any layout (`scalars.copies`)."""
    return np.array([_copies()["copy_elements"]], np.int64)


@cache
def _copies() -> Loaded:
    return word_functions(strided_copies, effort=3)


@cache
def _handle_of_routine(name: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    _let_tapes_set_threads(blas())
    address = lapack.routine_address(name, dtype)
    if not address:
        raise lapack.missing(name, dtype)
    return np.array([address], np.int64)


def handle_for(
    dtype: Any, m: int, n: int, k: int, *, ta: bool, tb: bool, ldb: int, ldc: int, packed: bool = False
) -> tuple[int, bool]:
    """The address through which one product is best computed, and whether that may call a BLAS library.

    It only depends on the product as a whole, not on how it is cut for threads. packed: B is (`panel_columns`).
    """
    dtype = np.dtype(dtype)
    if packed:
        return int(_handle_of_weights(dtype).ctypes.data), False
    if is_narrow(dtype):
        owns = min(m, n, k) >= machine_model.OWN_PRODUCT_EXTENT
        return (int(_handle_of_panels(dtype).ctypes.data), False) if owns else (handle(dtype), True)
    if own is not None and m * n * k > machine_model.OPENBLAS_DIRECT and _is_direct(dtype):
        best = _best_own(dtype, m, n, k, ta=ta, tb=tb, ldb=ldb, ldc=ldc)
        if best is not None:
            # Of a product where the matrices lie, what fills no tile is the library's.
            return int(best(dtype).ctypes.data), best is _handle_of_direct
    if has_thin_products(dtype) and _is_thin(m, n, k, ta, dtype.itemsize):
        return int(_handle_of_thin(dtype).ctypes.data), True
    return handle(dtype), True


def _best_own(
    dtype: np.dtype[Any], m: int, n: int, k: int, *, ta: bool, tb: bool, ldb: int, ldc: int
) -> Callable[[np.dtype[Any]], np.ndarray[Any, Any]] | None:
    """What makes the handle of that one of functad's own products which is faster than the library; None if none is."""
    item = dtype.itemsize
    few = k if ta else m
    largest = max(k * ldb, m * ldc) * item
    is_large = few >= machine_model.OWN_PRODUCT_DEPTH and largest >= machine_model.OWN_PRODUCT_BYTES
    many = m * n * k >= machine_model.OWN_PRODUCT_MULTIPLICATIONS and min(m, n, k) >= machine_model.OWN_PRODUCT_SIDE
    is_deep = ta and k > machine_model.DIRECT_FEW and m >= machine_model.OWN_PRODUCT_FEW_ROWS
    fills_tiles = not tb and (
        m >= (machine_model.OWN_DIRECT_LEAST_ROWS if ta else machine_model.OWN_DIRECT_ROWS)
        and n * item % machine_model.OWN_DIRECT_TILE_BYTES == 0
        and k >= machine_model.OWN_DIRECT_DEPTH
    )
    slab = k * (max(ldb, m) if ta else ldb) * item
    stays = slab <= machine_model.OWN_DIRECT_SLAB_BYTES and not is_large
    if fills_tiles and stays and (n <= machine_model.OWN_DIRECT_COLUMNS or not many):
        return _handle_of_direct
    fills_panels = (
        m >= machine_model.OWN_PRODUCT_ROWS
        and n >= machine_model.OWN_PRODUCT_COLUMNS
        and k >= machine_model.OWN_PRODUCT_DEPTH
    )
    if fills_panels and (tb or is_large or many or is_deep):
        return _handle_of_panels
    return _handle_of_direct if fills_tiles else None


def _is_thin(m: int, n: int, k: int, ta: bool, item: int) -> bool:
    """Whether functad's own product of few terms is faster than the library, where the processor has it."""
    most = machine_model.THIN_TURNED_TERMS if ta else machine_model.THIN_TERMS
    is_large = m >= machine_model.THIN_ROWS and m * n * item >= machine_model.THIN_RESULT_BYTES
    return 1 <= k <= most and is_large


def reads_in_place(dtype: Any) -> bool:
    """Whether small products of the dtype are computed from matrices where they lie, without packing them."""
    return _is_direct(np.dtype(dtype))


def panel_columns(dtype: Any) -> int:
    """How many columns of a packed weight lie side by side, [n / columns, k, columns]; 0 where none is to be packed."""
    return 0 if own is None else own.weight_columns(dtype)


def columns_of_places(dtype: Any) -> int:
    """What `Target.place_columns` answers: 0 where nobody computes products of places."""
    return 0 if own is None else own.place_columns(dtype)


def lanes_of_windows(dtype: Any) -> int:
    """What `Target.window_lanes` answers: 0 where nobody computes products of windows."""
    return 0 if own is None else own.window_lanes(dtype)


@cache
def has_thin_products(dtype: np.dtype[Any]) -> bool:
    """Whether functad has products of few terms for the processor at hand."""
    return own is not None and own.is_for_avx2(dtype)


@cache
def _handle_of_thin(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return own.thin_table(_new_handle(dtype, 0, 0), dtype, _handle_of_library(dtype))


@cache
def _handle_of_weights(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return own.weights_table(_new_handle(dtype, 0, 0), dtype)


@cache
def _handle_of_panels(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return own.with_table(_new_handle(dtype, 0, 0), dtype)


@cache
def _handle_of_direct(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return own.direct_table(_new_handle(dtype, 0, 0), dtype, _handle_of_library(dtype))


@cache
def _is_direct(dtype: np.dtype[Any]) -> bool:
    return kind_of(dtype) == "f" and any(core in blas().description for core in _DIRECT_CORES)


@cache
def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether functad's own product has longer vectors than what the library computes with, as far as that says."""
    known = not blas().is_library or bool(blas().description)
    return known and not _is_direct(dtype) and bool(columns_of_places(dtype))


@cache
def _handle(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    others = _handle_of_library(dtype)
    if not is_narrow(dtype):
        return others
    return own.with_table(_new_handle(dtype, 0, 0), dtype, others)


@cache
def _handle_of_library(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    chosen = blas()
    if not chosen.is_library:
        return _new_handle(dtype, _own_kernel(dtype)["gemm"], 0)
    _let_tapes_set_threads(chosen)
    function = address_of(getattr(ctypes.CDLL(chosen.path), chosen.symbols[KINDS[dtype]]))
    direct = machine_model.OPENBLAS_DIRECT if _is_direct(dtype) else 0
    return _new_handle(dtype, runtime().addresses["gemm"], function, direct)


def _let_tapes_set_threads(chosen: Blas) -> None:
    if chosen.set_threads:
        library, words = ctypes.CDLL(chosen.path), runtime().pool.words
        words[w.BLAS_GET] = address_of(getattr(library, chosen.get_threads))
        words[w.BLAS_SET] = address_of(getattr(library, chosen.set_threads))


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

    source = text_of(sys.modules[__name__], "gemm_fallback.py")
    return objects.get_functions(source, dtype.name, ("gemm",), make).addresses
