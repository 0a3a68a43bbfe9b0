"""functad's own matrix products, loaded: the tables that `gemm_panels` and others read, and rooms to pack in.

Also the products that convolutions take, of places and of windows (`products.in_kernels`). This file must not know
which products are computed this way: `blas.handle_for` and the rules of convolutions choose.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from functad.backends.cpu.compile import objects
from functad.backends.cpu.compile.loader import Loaded
from functad.backends.cpu.compile.processor import processor
from functad.backends.cpu.compile.word_modules import word_functions
from functad.backends.cpu.products.own import gemm_direct as d
from functad.backends.cpu.products.own import gemm_panels as p
from functad.backends.cpu.products.own import gemm_thin as t
from functad.backends.cpu.products.own import gemm_windows
from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime.tape import runtime
from functad.options import available_cores
from functad.system.source_files import text_of

# The functions of `gemm_vectors`, in the order of their words in the table.
_VECTORS = (
    "multiply_rows", "multiply_and_pack", "multiply_half", "multiply_few_rows",
    "copy_rows", "copy_columns", "copy_part_rows", "copy_part_columns", "transpose", "copy_any", "merge",
)  # fmt: skip
_DIRECT = tuple(f"multiply_direct_{height}" for height in range(d.LEAST_HEIGHT, d.ROWS + 1))
_WINDOWS = tuple(f"multiply_windows_{height}" for height in range(1, gemm_windows.ROWS + 1))
_THIN = ("transpose", "copy_any", *(f"multiply_thin_{height}" for height in t.HEIGHTS))
_kept: list[Any] = []


def with_table(
    handle: np.ndarray[Any, Any], dtype: np.dtype[Any], others: np.ndarray[Any, Any] | None = None
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The handle followed by its table, for products of float32 or float64 by `gemm_panels.multiply_packed`.

    others: the handle of who computes those with a short side; if None, they are computed in the same way.
    """
    panels, vectors = word_functions(p), _vectors(dtype, "compile_vectors", dtype.name, _VECTORS)
    # A room for everybody who may multiply at once; should there be more, they wait for each other.
    rooms = 2 * available_cores()[0]
    memory = np.empty(rooms * p.ROOM_BYTES + 4096, np.uint8)
    words = np.zeros(p.TAKEN + rooms, np.int64)
    words[: p.TABLE] = handle
    words[w.GEMM_ENTRY] = panels["multiply_packed" if others is None else "multiply_or_pass"]
    words[p.OTHERS] = 0 if others is None else others.ctypes.data
    words[p.COLUMNS] = p.TILE_BYTES // dtype.itemsize
    words[p.YIELD] = runtime().pool.words[w.YIELD]
    words[p.MULTIPLY_ROWS : p.MULTIPLY_ROWS + len(_VECTORS)] = [vectors[name] for name in _VECTORS]
    words[p.ROOM] = memory.ctypes.data + -memory.ctypes.data % 4096
    words[p.ROOMS] = rooms
    _kept.append((panels, vectors, memory, others))
    if hasattr(os, "register_at_fork"):
        # The threads that used rooms are not in the child.
        os.register_at_fork(after_in_child=lambda: words[p.TAKEN :].fill(0))
    return words


def direct_table(
    handle: np.ndarray[Any, Any], dtype: np.dtype[Any], others: np.ndarray[Any, Any]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The handle followed by its table, for products of float32 or float64 by `gemm_direct.multiply_direct`.

    others: the handle of who computes what fills no tile.
    """
    vectors = _vectors(dtype, "compile_direct", f"direct_{dtype.name}", _DIRECT)
    return _with_functions(handle, others, word_functions(d), "multiply_direct", vectors, _DIRECT)


def thin_table(
    handle: np.ndarray[Any, Any], dtype: np.dtype[Any], others: np.ndarray[Any, Any]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The same, for products of few terms by `gemm_thin.multiply_thin`."""
    return _with_functions(handle, others, word_functions(t), "multiply_thin", _thin_vectors(dtype), _THIN)


def weights_table(handle: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The same, for products of packed weights by `gemm_thin.multiply_weights`, which does them all."""
    return _with_functions(handle, handle, word_functions(t), "multiply_weights", _thin_vectors(dtype), _THIN)


def weight_columns(dtype: Any) -> int:
    """The columns of a panel of a packed weight; 0 where others are faster."""
    dtype = np.dtype(dtype)
    return t.TILE_BYTES // dtype.itemsize if is_for_avx2(dtype) else 0


def _thin_vectors(dtype: np.dtype[Any]) -> Loaded:
    return _vectors(dtype, "compile_thin", f"thin_{dtype.name}", _THIN)


def _with_functions(
    handle: np.ndarray[Any, Any],
    others: np.ndarray[Any, Any],
    tiles: Loaded,
    entry: str,
    vectors: Loaded,
    names: Sequence[str],
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A handle by which the function `entry` is called, then the address of that of others, then those of functions."""
    words = np.array([*handle, others.ctypes.data, *(vectors[name] for name in names)], np.int64)
    words[w.GEMM_ENTRY] = tiles[entry]
    _kept.append((tiles, vectors, others))
    return words


def is_for_avx2(dtype: Any) -> bool:
    """Whether the processor has the vectors that `gemm_thin` and `gemm_windows` are written for, and no longer ones."""
    features = processor()[1].split(",")
    return dtype in (np.float32, np.float64) and {"+avx2", "+fma"} <= {*features} and "+avx512f" not in features


def place_columns(dtype: Any) -> int:
    """The columns of a product of places (`in_kernels.gemm_places_f32`); 0 where the processor has not its vectors."""
    dtype = np.dtype(dtype)
    fits = dtype in (np.float32, np.float64) and "+avx512f" in processor()[1].split(",")
    return p.TILE_BYTES // dtype.itemsize if fits else 0


@cache
def places_handle(dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The handle through which kernels compute products of places."""
    loaded = _vectors(dtype, "compile_places", f"places_{dtype.name}", ("multiply_places",))
    _kept.append(loaded)
    return np.array([loaded["multiply_places"]], np.int64)


def window_lanes(dtype: Any) -> int:
    """The neighbours in a vector of a product of windows (`in_kernels.gemm_windows_f32`); 0 where others are faster."""
    dtype = np.dtype(dtype)
    return gemm_windows.VECTOR_BYTES // dtype.itemsize if is_for_avx2(dtype) else 0


@cache
def windows_handle(dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The handle through which kernels compute products of windows, with its table."""
    tiles = word_functions(gemm_windows)
    vectors = _vectors(dtype, "compile_windows", f"windows_{dtype.name}", _WINDOWS)
    _kept.append((tiles, vectors))
    words = np.zeros(gemm_windows.FUNCTIONS + len(_WINDOWS), np.int64)
    words[w.GEMM_ENTRY] = tiles["multiply_windows"]
    words[w.GEMM_ITEM] = dtype.itemsize
    words[gemm_windows.FUNCTIONS :] = [vectors[name] for name in _WINDOWS]
    return words


def _vectors(dtype: np.dtype[Any], compiler: str, identity: str, names: Sequence[str]) -> Loaded:
    """Functions of `gemm_vectors`, which its function of the name `compiler` compiles."""
    source = "\n".join(text_of(sys.modules[__name__], name) for name in ("gemm_code.py", "gemm_vectors.py"))

    def make(_: str) -> bytes:
        vectors = importlib.import_module("functad.backends.cpu.products.own.gemm_vectors")
        return bytes(getattr(vectors, compiler)(dtype))

    return objects.get_functions(source, identity, names, make).addresses
