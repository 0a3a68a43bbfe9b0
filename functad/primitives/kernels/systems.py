"""Systems of equations with triangular and tridiagonal matrices, in stacks, by NumPy and its LAPACK.

Knows arrays alone.
"""

from __future__ import annotations

import numpy as np

from functad.primitives.kernels.factorisations import one_by_one, shaped, stack, threads_for_large
from functad.system import lapack


@threads_for_large
def triangular_solve(
    a: np.ndarray,
    b: np.ndarray,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> np.ndarray:
    """x with op(a) x = b, or x op(a) = b; the other triangle of a is not read."""
    if not b.size:
        return np.array(b)
    if conjugate_a and not transpose_a:
        a = a.conj()
    matrices, right = stack(a), stack(b).copy()
    if one_by_one(len(matrices), a.shape[-1], "trsm", a.dtype):
        # To Fortran, matrices that lie row by row are transposed: so the other side, and the other triangle.
        m, n = b.shape[-2:]
        letters = ["R" if left_side else "L", "U" if lower else "L"]
        letters += [("C" if conjugate_a else "T") if transpose_a else "N", "U" if unit_diagonal else "N"]
        one, rows = np.ones((1,), a.dtype), max(a.shape[-1], 1)
        alpha = np.broadcast_to(one, (len(matrices),))
        matrices = np.ascontiguousarray(matrices)
        lapack.apply("trsm", a.dtype, len(matrices), *letters, n, m, alpha, matrices, rows, right, n, info=False)
        return shaped(right, b.shape)
    if transpose_a:
        matrices = np.swapaxes(matrices, -1, -2)
        matrices = matrices.conj() if conjugate_a else matrices
    if not left_side:
        matrices, right = np.swapaxes(matrices, -1, -2), np.swapaxes(right, -1, -2).copy()
    _substitute(matrices, right, lower ^ transpose_a ^ (not left_side), unit_diagonal)
    found = right if left_side else np.swapaxes(right, -1, -2)
    return shaped(found, b.shape)


def _substitute(a: np.ndarray, b: np.ndarray, lower: bool, unit_diagonal: bool) -> None:
    """Solve a x = b for stacks, in the place of b, row after row."""
    n = a.shape[-1]
    for i in range(n) if lower else reversed(range(n)):
        known = slice(0, i) if lower else slice(i + 1, n)
        b[:, i] -= (a[:, i, None, known] @ b[:, known])[:, 0]
        if not unit_diagonal:
            b[:, i] /= a[:, i, i, None]


def tridiagonal_solve(dl: np.ndarray, d: np.ndarray, du: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with T x = b, where T has the diagonals dl (from its element 1 on), d, and du (without its last element)."""
    n, k = b.shape[-2:]
    if not b.size:
        return np.array(b)
    right = np.array(np.swapaxes(stack(b), -1, -2), order="C")
    low, middle, high = (x.reshape(len(right), n).copy() for x in (dl, d, du))
    if lapack.has("gtsv", b.dtype):
        low = low[:, 1:].copy() if n > 1 else low
        status = lapack.apply("gtsv", b.dtype, len(right), n, k, low, middle, high, right, n)
        right[status != 0] = np.nan
        return shaped(np.swapaxes(right, -1, -2), b.shape)
    dense = np.zeros((len(right), n, n), b.dtype)
    places = np.arange(n)
    dense[:, places, places] = middle
    dense[:, places[1:], places[:-1]] = low[:, 1:]
    dense[:, places[:-1], places[1:]] = high[:, :-1]
    singular = np.linalg.det(dense) == 0
    dense[singular] = np.eye(n)
    found = np.linalg.solve(dense, np.swapaxes(right, -1, -2))
    found[singular] = np.nan
    return shaped(found, b.shape)
