"""Eigenvalues, singular values and Schur forms of stacks of matrices, and reductions to forms close to diagonal.

Knows arrays alone. Where an iteration does not converge, as with NaN, results are NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.primitives.kernels.factorisations import check_square, columns_first, each_matrix, stack, threads_for_large
from functad.system import lapack


@threads_for_large
def eigh(a: np.ndarray, *, lower: bool) -> list[np.ndarray]:
    """Eigenvectors and ascending eigenvalues; only one triangle is read."""
    check_square(a)
    w, v = each_matrix(lambda m: np.linalg.eigh(m, UPLO="L" if lower else "U"), a)
    return [v, w]


@threads_for_large
def svd(a: np.ndarray, *, full_matrices: bool, compute_uv: bool) -> list[np.ndarray]:
    """Singular values; and before and behind them U and Vᴴ."""
    if not compute_uv:
        return each_matrix(lambda m: [np.linalg.svd(m, compute_uv=False)], a)
    u, s, vt = each_matrix(lambda m: np.linalg.svd(m, full_matrices=full_matrices), a)
    return [s, u, vt]


@threads_for_large
def eig(a: np.ndarray, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool) -> list[np.ndarray]:
    """Eigenvalues, left and right eigenvectors, always complex."""
    check_square(a)
    dtype = np.result_type(a.dtype, np.complex64)
    if compute_left_eigenvectors and a.size:
        results = _both_eigenvectors(a)
        kept = [True, True, compute_right_eigenvectors]
        return [r.astype(dtype) for r, wanted in zip(results, kept) if wanted]
    if compute_right_eigenvectors or compute_left_eigenvectors:
        w, v = each_matrix(lambda m: [x.astype(dtype) for x in np.linalg.eig(m)], a)
        return [w, *[v] * (compute_left_eigenvectors + compute_right_eigenvectors)]
    return each_matrix(lambda m: [np.linalg.eigvals(m).astype(dtype)], a)


def _both_eigenvectors(a: np.ndarray) -> list[np.ndarray]:
    n, matrices = a.shape[-1], stack(a)
    count, real = len(matrices), kind_of(a.dtype) == "f"
    columns, left, right = columns_first(matrices), *(np.zeros((count, n, n), a.dtype) for _ in range(2))
    values = [np.zeros((count, n), a.dtype) for _ in range(2 if real else 1)]
    work = np.zeros((1, 8 * n), a.dtype)
    more = [] if real else [_same(np.zeros((1, 2 * n), a.real.dtype), count)]
    status = lapack.apply(
        "geev", a.dtype, count, "V", "V", n, columns, n, *values, left, n, right, n,
        _same(work, count), work.size, *more,
    )  # fmt: skip
    w = values[0] + 1j * values[1] if real else values[0]
    vectors = [np.swapaxes(v, -1, -2) for v in (left, right)]
    if real:
        vectors = [_from_pairs(w, v) for v in vectors]
    for result in (w, *vectors):
        result[status != 0] = np.nan
    return [x.reshape(*a.shape[:-2], *x.shape[1:]) for x in (w, *vectors)]


def _from_pairs(w: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Complex eigenvectors from columns of real and imaginary parts, one such pair for two conjugate eigenvalues."""
    found = v.astype(np.result_type(v.dtype, np.complex64))
    first = w.imag > 0
    places = np.nonzero(first)
    real, imag = v[places[0], :, places[1]], v[places[0], :, places[1] + 1]
    found[places[0], :, places[1]] = real + 1j * imag
    found[places[0], :, places[1] + 1] = real - 1j * imag
    return found


def _same(work: np.ndarray, count: int) -> np.ndarray:
    return np.broadcast_to(work, (count, *work.shape[1:]))


@threads_for_large
def schur(a: np.ndarray, *, compute_schur_vectors: bool) -> list[np.ndarray]:
    """The Schur form T, and Q with a = Q T Qᴴ."""
    check_square(a)
    n, matrices = a.shape[-1], stack(a)
    if not a.size:
        return [a.copy(), *[a.copy()] * compute_schur_vectors]
    count, real = len(matrices), kind_of(a.dtype) == "f"
    columns, vectors = columns_first(matrices), np.zeros((count, n, n), a.dtype)
    values = [np.zeros((count, n), a.dtype) for _ in range(2 if real else 1)]
    work, found = np.zeros((1, 8 * n), a.dtype), np.zeros((count, 1), lapack.integer())
    more = [] if real else [_same(np.zeros((1, n), a.real.dtype), count)]
    unsorted = np.zeros((count, n), lapack.integer())  # in the place of a function and of what it says
    status = lapack.apply(
        "gees", a.dtype, count, "V" if compute_schur_vectors else "N", "N", unsorted, n, columns, n, found, *values,
        vectors, n, _same(work, count), work.size, *more, unsorted,
    )  # fmt: skip
    columns[status != 0], vectors[status != 0] = np.nan, np.nan
    results = [columns, vectors] if compute_schur_vectors else [columns]
    return [np.ascontiguousarray(np.swapaxes(x, -1, -2)).reshape(a.shape) for x in results]


@threads_for_large
def hessenberg(a: np.ndarray) -> list[np.ndarray]:
    """The Hessenberg form, below it the vectors of the reflections that make it, and their factors."""
    check_square(a)
    n, matrices = a.shape[-1], stack(a)
    columns = columns_first(matrices)
    taus = np.zeros((len(matrices), max(n - 1, 0)), a.dtype)
    if a.size and n > 1:
        work = np.zeros((1, 64 * n), a.dtype)
        status = lapack.apply(
            "gehrd", a.dtype, len(matrices), n, 1, n, columns, n, taus, _same(work, len(matrices)), work.size
        )
        columns[status != 0], taus[status != 0] = np.nan, np.nan
    packed = np.ascontiguousarray(np.swapaxes(columns, -1, -2)).reshape(a.shape)
    return [packed, taus.reshape(*a.shape[:-2], taus.shape[-1])]


@threads_for_large
def tridiagonal(a: np.ndarray, *, lower: bool) -> list[np.ndarray]:
    """The vectors of reflections that make a Hermitian matrix tridiagonal, its two diagonals, and their factors."""
    check_square(a)
    n, matrices = a.shape[-1], stack(a)
    count = len(matrices)
    columns, real = columns_first(matrices), a.real.dtype
    middle, beside = np.zeros((count, n), real), np.zeros((count, n - 1), real)
    taus = np.zeros((count, n - 1), a.dtype)
    if count:
        work = np.zeros((1, 64 * n), a.dtype)
        status = lapack.apply(
            "hetrd" if kind_of(a.dtype) == "c" else "sytrd", a.dtype, count, "L" if lower else "U", n, columns, n,
            middle, _at_least_one(beside), _at_least_one(taus), _same(work, count), work.size,
        )  # fmt: skip
        for result in (columns, middle, beside, taus):
            result[status != 0] = np.nan
    packed = np.ascontiguousarray(np.swapaxes(columns, -1, -2))
    results: list[Any] = [packed, middle, beside, taus]
    return [x.reshape(*a.shape[:-2], *x.shape[1:]) for x in results]


def _at_least_one(x: np.ndarray) -> np.ndarray:
    """The array, or where it is empty another one, whose memory nobody reads."""
    return x if x.size else np.zeros((len(x), 1), x.dtype)
