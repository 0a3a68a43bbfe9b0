"""The BLAS library that NumPy multiplies matrices with: where it is, its functions, and the number of its threads.

Knows files and symbols; nothing of products.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from functad.records import NamedTuple

_LETTERS = "sdcz"


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
def numpys_blas() -> Blas | None:
    """The library that NumPy uses, None if that has no `cblas_sgemm`."""
    return next((found for path, reason in _candidates() if (found := library_at(path, reason))), None)


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


def library_at(path: str, reason: str) -> Blas | None:
    """The BLAS library in a file; None if there is none that can be used."""
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


# --- products on one thread -----------------------------------------------------------------------------------

_given_up: dict[int, int] = {}  # by thread of Python's: the library's number of threads before it set that to one


def on_one_thread(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the function returns, during which NumPy's BLAS library uses no threads of its own.

    They wait for one another busily, and beside a busy process in vain, a hundred times as long as they compute.
    The number is one for all: who finds it at 1 leaves it so, as jitted functions do, and who sets it gives it back.
    So it is again what it was when all have returned, in whatever order they came and went.
    """
    get_threads, set_threads = _thread_calls()
    count = get_threads()
    if count == 1:
        return function(*args, **kwargs)
    own = threading.get_ident()
    try:
        _given_up[own] = count
        set_threads(1)
        return function(*args, **kwargs)
    finally:
        set_threads(count)
        _given_up.pop(own, None)


@cache
def _thread_calls() -> tuple[Callable[[], int], Callable[[int], object]]:
    """What tells and sets the number of threads of NumPy's BLAS library; where there is none, 1 and nothing."""
    found = numpys_blas()
    if found is None or not found.get_threads:
        return (lambda: 1), (lambda count: None)
    library = ctypes.CDLL(found.path)
    return getattr(library, found.get_threads), getattr(library, found.set_threads)


def _after_fork() -> None:
    """In a child: give back what threads have set that it does not have."""
    for thread in _given_up.keys() - {threading.get_ident()}:
        _thread_calls()[1](_given_up.pop(thread))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
