"""Matrix products without a BLAS library: tiles of B are packed, then added row by row to C, vectorised by LLVM.

Importing it imports Numba; that happens only where no BLAS library is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.typing.templates import AbstractTemplate, signature

from functad import machine_model
from functad.backends.cpu.compile.machine import compile_exports
from functad.backends.cpu.scalars.registry_numba import declare, implement


def compile_gemm(dtype: np.dtype[Any]) -> bytes:
    """The object file of a function `gemm` with the signature of `gemm_runtime.gemm`, for one dtype."""
    pointer = types.CPointer(getattr(types, dtype.name))
    word = types.int64
    matrices = (pointer, pointer, word, pointer, word, pointer, pointer, word)
    return compile_exports({"gemm": (_gemm(dtype), (*(word,) * 6, *matrices), types.void)})


def _gemm(dtype: np.dtype[Any]) -> Callable[..., None]:
    zero = dtype.type(0)
    tile_columns = machine_model.FALLBACK_TILE_BYTES // machine_model.FALLBACK_TILE_ROWS // dtype.itemsize
    tile_rows = machine_model.FALLBACK_TILE_ROWS

    def gemm(handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        a_row, a_column = (lda, 1) if ta == 0 else (1, lda)
        b_row, b_column = (ldb, 1) if tb == 0 else (1, ldb)
        for i in range(m):
            row = i * ldc
            if beta[0] == zero:
                for j in range(n):
                    c[row + j] = zero
            else:
                for j in range(n):
                    c[row + j] = beta[0] * c[row + j]
        tile = _tile(b)
        for j_start in range(0, n, tile_columns):
            columns = min(tile_columns, n - j_start)
            for p_start in range(0, k, tile_rows):
                rows = min(tile_rows, k - p_start)
                for p in range(rows):
                    for j in range(columns):
                        tile[p * tile_columns + j] = b[(p_start + p) * b_row + (j_start + j) * b_column]
                for i in range(m):
                    row = i * ldc + j_start
                    place = i * a_row + p_start * a_column
                    p = 0
                    while p + 4 <= rows:
                        x0 = alpha[0] * a[place + p * a_column]
                        x1 = alpha[0] * a[place + (p + 1) * a_column]
                        x2 = alpha[0] * a[place + (p + 2) * a_column]
                        x3 = alpha[0] * a[place + (p + 3) * a_column]
                        first = p * tile_columns
                        for j in range(columns):
                            t0 = x0 * tile[first + j] + x1 * tile[first + tile_columns + j]
                            t1 = x2 * tile[first + 2 * tile_columns + j] + x3 * tile[first + 3 * tile_columns + j]
                            c[row + j] += t0 + t1
                        p += 4
                    while p < rows:
                        x = alpha[0] * a[place + p * a_column]
                        first = p * tile_columns
                        for j in range(columns):
                            c[row + j] += x * tile[first + j]
                        p += 1

    return gemm


def _tile(like: Any) -> Any:
    """Room on the stack for a tile of elements of the type that `like` points to."""
    raise NotImplementedError("it is compiled code's only")


@declare(_tile)
class _TileType(AbstractTemplate):
    def generic(self, arguments: Any, keywords: Any) -> Any:
        return signature(arguments[0], arguments[0])


@implement(_tile, types.CPointer)
def _build_tile(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    element = context.get_data_type(sig.args[0].dtype)
    size = machine_model.FALLBACK_TILE_BYTES // context.get_abi_sizeof(element)
    room = cgutils.alloca_once(builder, element, size)
    room.align = 64
    return room
