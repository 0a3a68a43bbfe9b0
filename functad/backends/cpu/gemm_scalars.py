"""The words of kernel text for matrix products, and what they compute when kernel text runs as plain Python.

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
