"""Factorisations of stacks of matrices by NumPy and its LAPACK: Cholesky, LU, QR and what belongs to them.

Knows arrays alone. A matrix that has no factorisation gives NaN, and leaves the others as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.system import lapack
from functad.system.blas_library import on_one_thread

Factorisation = TypeVar("Factorisation", bound=Callable[..., Any])


def each_matrix(function: Callable[[np.ndarray], Sequence[np.ndarray]], a: np.ndarray) -> list[np.ndarray]:
    """The results for a stack of matrices of a function of NumPy's; NaN for those at which it gives up."""
    try:
        return list(function(a))
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            # Of another matrix of the same size it gets the shapes.
            return [np.full_like(r, np.nan) for r in function(np.eye(*a.shape, dtype=a.dtype))]
    parts = [each_matrix(function, m) for m in a.reshape(-1, *a.shape[-2:])]
    return [np.stack(p).reshape(*a.shape[:-2], *p[0].shape) for p in zip(*parts)]


def threads_for_large(function: Factorisation) -> Factorisation:
    """The function of stacks of matrices, during which LAPACK uses threads for large ones only."""

    @wraps(function)
    def call(a: np.ndarray, *rest: Any, **params: Any) -> Any:
        if min(a.shape[-2:]) > machine_model.ONE_THREAD_MATRIX:
            return function(a, *rest, **params)
        return on_one_thread(function, a, *rest, **params)

    return cast(Factorisation, call)


def check_square(a: np.ndarray) -> None:
    """Raise where matrices are not square, before NumPy takes that for a matrix without a factorisation."""
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError("matrices must be square")


def stack(a: np.ndarray) -> np.ndarray:
    """The matrices one behind another."""
    return a.reshape(math.prod(a.shape[:-2]), *a.shape[-2:])


def shaped(x: Any, shape: Sequence[int]) -> np.ndarray:
    """An array of that shape, row by row in memory."""
    return np.ascontiguousarray(x).reshape(tuple(shape))


def columns_first(a: np.ndarray) -> np.ndarray:
    """A copy of the matrices of a stack, in which columns lie one behind another, as Fortran has them."""
    return np.array(np.swapaxes(a, -1, -2), order="C")


def one_by_one(count: int, size: int, routine: str, dtype: Any) -> bool:
    """Whether LAPACK is called for each matrix: not for many small ones, on which NumPy works side by side."""
    many = size <= machine_model.SMALL_MATRIX and count > machine_model.MATRICES_SIDE_BY_SIDE * size
    return not many and lapack.has(routine, dtype)


# --- Cholesky -----------------------------------------------------------------------------------------


@threads_for_large
def cholesky(a: np.ndarray) -> np.ndarray:
    """The lower factor; only the lower triangles are read."""
    check_square(a)
    matrices, n = stack(a), a.shape[-1]
    if a.size and one_by_one(len(matrices), n, "potrf", a.dtype):
        # To Fortran, matrices that lie row by row are transposed: the lower triangle is the upper one, of Lᵀ.
        factors = np.array(matrices, order="C")
        factors[lapack.apply("potrf", a.dtype, len(matrices), "U", n, factors, n) != 0] = np.nan
        _clear_above(factors)
        return factors.reshape(a.shape)
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        (lower,) = each_matrix(lambda m: [np.linalg.cholesky(m)], a)
        return np.tril(lower)


_ABOVE = np.triu(np.ones((64, 64), np.bool_), 1)


def _clear_above(matrices: np.ndarray) -> None:
    """Zeros above the diagonals, in place and a block of rows after another: `np.tril` goes through all elements."""
    n, size = matrices.shape[-1], len(_ABOVE)
    for start in range(0, n, size):
        rows = slice(start, start + size)
        matrices[:, rows, start + size :] = 0
        here = min(size, n - start)
        np.copyto(matrices[:, rows, rows], 0, where=_ABOVE[:here, :here])


# --- LU -----------------------------------------------------------------------------------------------


@threads_for_large
def lu(a: np.ndarray) -> list[np.ndarray]:
    """Both factors in one matrix, the row that each step took, and the order of the rows."""
    m, n = a.shape[-2:]
    k = min(m, n)
    matrices = stack(a)
    if a.size and one_by_one(len(matrices), max(m, n), "getrf", a.dtype):
        columns = columns_first(matrices)
        rows = np.zeros((len(matrices), k), lapack.integer())
        lapack.apply("getrf", a.dtype, len(matrices), m, n, columns, m, rows)
        factors, pivots = np.swapaxes(columns, -1, -2), rows - 1
    else:
        factors, pivots = _lu_side_by_side(matrices.copy(), k)
    pivots = pivots.astype(np.int32).reshape(*a.shape[:-2], k)
    return [shaped(factors, a.shape), pivots, permutation_of(pivots, m)]


def _lu_side_by_side(a: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    count = np.arange(len(a))
    pivots = np.zeros((len(a), steps), np.int64)
    for j in range(steps):
        below = a[:, j:, j]
        size = np.abs(below) if kind_of(a.dtype) != "c" else np.abs(below.real) + np.abs(below.imag)
        chosen = j + np.argmax(size, axis=1)
        pivots[:, j] = chosen
        row = a[count, chosen].copy()
        a[count, chosen] = a[:, j]
        a[:, j] = row
        pivot = row[:, j, None]
        a[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)
        a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 :]
    return a, pivots


def permutation_of(pivots: np.ndarray, size: int) -> np.ndarray:
    """The order in which rows stand after each row has changed places with that of its pivot."""
    flat = pivots.reshape(math.prod(pivots.shape[:-1]), pivots.shape[-1])
    if len(flat) <= machine_model.ORDERS_ONE_BY_ONE:
        return np.array([_order_of(row, size) for row in flat.tolist()], np.int32).reshape(*pivots.shape[:-1], size)
    order = np.tile(np.arange(size, dtype=np.int32), (len(flat), 1))
    count = np.arange(len(flat))
    for j in range(flat.shape[-1]):
        other = flat[:, j]
        kept = order[count, other].copy()
        order[count, other] = order[:, j]
        order[:, j] = kept
    return order.reshape(*pivots.shape[:-1], size)


def _order_of(pivots: list[int], size: int) -> list[int]:
    order = list(range(size))
    for j, other in enumerate(pivots):
        order[j], order[other] = order[other], order[j]
    return order


# --- QR -----------------------------------------------------------------------------------------------


@threads_for_large
def qr(a: np.ndarray, *, full_matrices: bool) -> list[np.ndarray]:
    *batch, m, n = a.shape
    if not a.size or not one_by_one(math.prod(batch), max(m, n), "geqrf", a.dtype):
        q, r = np.linalg.qr(a, mode="complete" if full_matrices else "reduced")
        return [q, r]
    packed, taus = geqrf(a)
    if full_matrices and m > n:
        vectors = np.zeros((*batch, m, m), a.dtype)
        vectors[..., :n] = packed
    else:
        vectors = packed[..., : min(m, n)]
    return [householder_product(vectors, taus), np.triu(packed[..., : vectors.shape[-1], :])]


def pivoted_qr(a: np.ndarray, *, full_matrices: bool) -> list[np.ndarray]:
    """Q, R and the order of columns, in which the diagonal of R decreases."""
    *batch, m, n = a.shape
    k = min(m, n)
    if not a.size:
        return [*qr(a, full_matrices=full_matrices), np.zeros((*batch, n), np.int32)]
    packed, order, taus = geqp3(a, np.zeros((*batch, n), np.int32))
    vectors = np.zeros((*batch, m, m if full_matrices else k), a.dtype)
    vectors[..., :k] = packed[..., :k]
    return [householder_product(vectors, taus), np.triu(packed[..., : vectors.shape[-1], :]), order - 1]


def _work(size: int, dtype: Any) -> np.ndarray:
    return np.zeros((1, size), dtype)


def shared(work: np.ndarray, count: int) -> np.ndarray:
    """Memory that all matrices of a stack use."""
    return np.broadcast_to(work, (count, *work.shape[1:]))


@threads_for_large
def geqrf(a: np.ndarray) -> list[np.ndarray]:
    """R, below it the vectors of the reflections that make it, and their factors."""
    if not a.size:
        return [a.copy(), np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)]
    (*batch, m, n), matrices = a.shape, stack(a)
    if not one_by_one(len(matrices), max(m, n), "geqrf", a.dtype):
        packed, taus = np.linalg.qr(a, mode="raw")
        return [np.ascontiguousarray(np.swapaxes(packed, -1, -2)), taus]
    columns, taus, work = columns_first(matrices), np.zeros((len(matrices), min(m, n)), a.dtype), _work(64 * n, a.dtype)
    lapack.apply("geqrf", a.dtype, len(matrices), m, n, columns, m, taus, shared(work, len(matrices)), work.size)
    return [shaped(np.swapaxes(columns, -1, -2), a.shape), taus.reshape(*batch, min(m, n))]


@threads_for_large
def geqp3(a: np.ndarray, jpvt: np.ndarray) -> list[np.ndarray]:
    """The same with columns in an order in which the diagonal decreases; those with jpvt ≠ 0 come first."""
    m, n = a.shape[-2:]
    matrices, k = stack(a), min(m, n)
    columns, order = columns_first(matrices), np.array(jpvt, lapack.integer(), order="C").reshape(len(matrices), n)
    taus, work = np.zeros((len(matrices), k), a.dtype), np.zeros((1, (n + 1) * 64), a.dtype)
    more = [shared(np.zeros((1, 2 * n), taus.real.dtype), len(matrices))] if kind_of(a.dtype) == "c" else []
    if a.size:
        room = shared(work, len(matrices))
        lapack.apply("geqp3", a.dtype, len(matrices), m, n, columns, m, order, taus, room, work.size, *more)
    packed = np.ascontiguousarray(np.swapaxes(columns, -1, -2)).reshape(a.shape)
    return [packed, order.astype(np.int32).reshape(jpvt.shape), taus.reshape(*a.shape[:-2], k)]


@threads_for_large
def householder_product(a: np.ndarray, taus: np.ndarray) -> np.ndarray:
    """The first columns of the product of reflections, whose vectors lie below the diagonal of a."""
    m, n = a.shape[-2:]
    k = taus.shape[-1]
    matrices, factors = stack(a), np.ascontiguousarray(taus).reshape(math.prod(taus.shape[:-1]), k)
    routine = "ungqr" if kind_of(a.dtype) == "c" else "orgqr"
    if a.size and one_by_one(len(matrices), m, routine, a.dtype):
        columns, work = columns_first(matrices), _work(64 * n, a.dtype)
        room = shared(work, len(matrices))
        lapack.apply(routine, a.dtype, len(matrices), m, n, k, columns, m, factors, room, work.size)
        return shaped(np.swapaxes(columns, -1, -2), a.shape)
    q = np.broadcast_to(np.eye(m, n, dtype=a.dtype), matrices.shape).copy()
    for i in reversed(range(k)):
        vector = matrices[:, i:, i].copy()
        vector[:, 0] = 1
        across = np.einsum("bi,bij->bj", vector.conj(), q[:, i:])
        q[:, i:] -= (factors[:, i, None] * vector)[:, :, None] * across[:, None]
    return shaped(q, a.shape)
