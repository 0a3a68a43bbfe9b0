"""The intrinsics of kernel text for matrix products, and what they compute when kernel text runs as plain Python.

This file must not know who computes matrix products in compiled code, and never imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _word(name: str, dtype: type[np.generic]) -> Callable[..., None]:
    def gemm(
        blas: Any, ta: int, tb: int, m: int, n: int, k: int,
        alpha: Any, a: Any, a_off: int, lda: int, b: Any, b_off: int, ldb: int,
        beta: Any, c: Any, c_off: int, ldc: int,
    ) -> None:  # fmt: skip
        """C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C, row-major, where op transposes if ta or tb is 1.

        a, b, c are flat; the matrices begin at the offsets, rows lie lda, ldb, ldc elements apart. Rows of A and
        of B may overlap. With beta = 0, C is only written. `blas` is the handle of `blas.handle(dtype)`.
        """
        left = _matrix(a, a_off, lda, (k, m) if ta else (m, k))
        right = _matrix(b, b_off, ldb, (n, k) if tb else (k, n))
        result = _matrix(c, c_off, ldc, (m, n))
        product = dtype(alpha) * ((left.T if ta else left) @ (right.T if tb else right))
        result[...] = product if beta == 0 else product + dtype(beta) * result

    gemm.__name__ = gemm.__qualname__ = name
    return gemm


def _matrix(flat: np.ndarray[Any, Any], offset: int, pitch: int, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    item = flat.itemsize
    return np.lib.stride_tricks.as_strided(flat[offset:], shape, (pitch * item, item))


gemm_f32 = _word("gemm_f32", np.float32)
gemm_f64 = _word("gemm_f64", np.float64)
gemm_c64 = _word("gemm_c64", np.complex64)
gemm_c128 = _word("gemm_c128", np.complex128)


def _places_word(name: str, dtype: type[np.generic]) -> Callable[..., None]:
    def gemm(
        blas: Any, rows: int, n: int, taps: int, features: int, places: Any, p_off: int, pitch: int, a: Any,
        zeros: Any, z_off: int, b: Any, b_off: int, c: Any, c_off: int, ldc: int, ahead: int, step: int,
    ) -> None:  # fmt: skip
        """C[rows, n] = the sum over taps t of A[t] B[t], where row r of A[t] begins in `a` at `places[t pitch + r]`.

        A[t] has `features` columns; a place below 0 stands for `zeros`. B is [taps, features, n] without gaps. There
        are 12, 8 or 4 rows; n must be what `Target.place_columns` says, and features a multiple of 4. From element
        `ahead` of `a` on, the processor may fetch what is needed next, `step` bytes further each time. `blas` is the
        handle of `Target.blas(dtype, places=True)`.
        """
        numbers = _matrix(places, p_off, pitch, (taps, rows))
        left = np.empty((rows, taps, features), dtype)
        for t, r in np.ndindex(taps, rows):
            start = numbers[t, r]
            left[r, t] = zeros[z_off : z_off + features] if start < 0 else a[start : start + features]
        right = _matrix(b, b_off, n, (taps * features, n))
        _matrix(c, c_off, ldc, (rows, n))[...] = left.reshape(rows, -1) @ right

    gemm.__name__ = gemm.__qualname__ = name
    return gemm


gemm_places_f32 = _places_word("gemm_places_f32", np.float32)
gemm_places_f64 = _places_word("gemm_places_f64", np.float64)


def _windows_word(name: str, dtype: type[np.generic]) -> Callable[..., None]:
    def gemm(
        blas: Any, rows: int, vectors: int, lanes: int, terms: int, table: Any, t_off: int, v_off: int, x: Any,
        x_off: int, a: Any, a_off: int, lda: int, added: int, c: Any, c_off: int, ldc: int,
    ) -> None:  # fmt: skip
        """C = A X: for each row of A[rows, terms] and each vector of X the sum of terms, a vector of `lanes` in C.

        The table has a place for each term, from `t_off` on, and two for each vector, from `v_off` on: term t of vector
        v is the vector in `x` at `table[t] + table[2 v]`, and its sum for row r lies in `c` at `r ldc + table[2 v +
        1]`. Vectors may overlap. If `added` is not 0, what C holds is added; vectors then may not overlap in C. lanes
        must be what `Target.window_lanes` says; `blas` is the handle of `Target.blas(dtype, "windows")`.
        """
        left = _matrix(a, a_off, lda, (rows, terms))
        for v in range(vectors):
            place, to = table[v_off + 2 * v : v_off + 2 * v + 2]
            windows = np.stack([x[x_off + place + t :][:lanes] for t in table[t_off : t_off + terms]])
            result = _matrix(c, c_off + to, ldc, (rows, lanes))
            result[...] = left @ windows + (result if added else 0)

    gemm.__name__ = gemm.__qualname__ = name
    return gemm


gemm_windows_f32 = _windows_word("gemm_windows_f32", np.float32)
gemm_windows_f64 = _windows_word("gemm_windows_f64", np.float64)
