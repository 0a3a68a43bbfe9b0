"""The LU factorisation with partial pivoting, and what follows from its pivots.

Knows the derivative of the factors; determinants and inverses are built on them in the layers above.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import dtypes
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Example, Primitive, Zero, ZeroDerivative
from functad.primitives import elementwise as el
from functad.primitives.common import integers, normal
from functad.primitives.kernels import factorisations as kernels
from functad.primitives.linear_algebra.matrices import (
    batch_leading,
    block,
    calls_lapack,
    calls_numpy,
    check_matrices,
    eye,
    matmul,
    rows_in_order,
    tril,
    triu,
)
from functad.primitives.linear_algebra.triangular import triangular_solve
from functad.primitives.loops import factorising
from functad.primitives.loops.small_matrices import lu_rule, small_or
from functad.primitives.sorting import sort
from functad.primitives.structure import iota, pad
from functad.tracing import bind

# --- lu -----------------------------------------------------------------------------------------------


def lu(a: Any) -> list[Any]:
    """L (without its ones) and U in one matrix, the pivots, and the order of rows with which L U = a[order]."""
    return list(bind(lu_p, a))


def _lu_aval(a: Aval) -> list[Aval]:
    check_matrices("lu", a)
    *batch, m, n = a.shape
    return [
        Aval(a.shape, a.dtype),
        Aval((*batch, min(m, n)), dtypes.int32),
        Aval((*batch, m), dtypes.int32),
    ]


def _lu_jvp(primals: Any, outs: Any, tangents: Any) -> list[Any]:
    # With P A = L U: dL = L tril(L⁻¹ P dA U⁻¹, −1) and dU = triu(L⁻¹ P dA U⁻¹) U.
    factors, pivots, permutation = outs
    m, n = aval_of(factors).shape[-2:]
    lower, upper = _square_factors(factors)
    moved = rows_in_order(tangents[0], permutation)
    moved = triangular_solve(lower, moved, left_side=True, lower=True, unit_diagonal=True)
    moved = triangular_solve(upper, moved)
    slope = el.add(matmul(lower, tril(moved, -1)), matmul(triu(moved), upper))
    return [slope, *(Zero(Aval(aval_of(x).shape, dtypes.float0)) for x in (pivots, permutation))]


def _square_factors(factors: Any) -> tuple[Any, Any]:
    """L of shape (m, m) and U of shape (n, n): where a factor has fewer columns or rows, those of the identity."""
    *batch, m, n = aval_of(factors).shape
    k, zero, dtype = min(m, n), aval_of(factors).dtype.type(0), aval_of(factors).dtype
    keep = [(0, 0, 0)] * len(batch)
    lower = pad(tril(block(factors, (0, m), (0, k)), -1), zero, [*keep, (0, 0, 0), (0, m - k, 0)])
    upper = pad(triu(block(factors, (0, k), (0, n))), zero, [*keep, (0, n - k, 0), (0, 0, 0)])
    ones = pad(eye((*batch, n - k, n - k), dtype), zero, [*keep, (k, 0, 0), (k, 0, 0)])
    return el.add(lower, eye((*batch, m, m), dtype)), el.add(upper, ones)


lu_p = Primitive(
    name="lu",
    doc="LU factorisation with partial pivoting: both factors in one matrix, pivots, order of rows.",
    multiple_results=True,
    abstract_eval=_lu_aval,
    impl=kernels.lu,
    jvp=_lu_jvp,
    transpose=Absent("the factors are not linear in the matrix; their derivative has a transpose"),
    batch=batch_leading(lu, 3),
    lower=small_or(lu_rule, calls_lapack(factorising.lu, kernels.lu)),
    examples=lambda: [
        Example(args=(normal(3, 3),), params={}),
        Example(args=(normal(4, 2),), params={}),
        Example(args=(normal(2, 2, 3),), params={}),
        Example(args=(np.zeros((2, 2), np.float32),), params={}, differentiable=False),
        Example(args=(normal(0, 2),), params={}, differentiable=False),
        # [[x, 1], [1, 1]] at x = 2: x + 2 + 3/x + 4 (1 − 1/x)
        Example(
            args=(np.array([[2, 1], [1, 1]], np.float32),),
            params={},
            along=([[1, 0], [0, 0]],),
            agreed=(1.25, -0.25, 0.375),
        ),
    ],
)


def lu_solve(factors: Any, permutation: Any, b: Any, trans: int = 0) -> Any:
    """x with a x = b (trans=0), aᵀ x = b (1) or aᴴ x = b (2), by what `lu` gives for a."""
    if trans == 0:
        y = triangular_solve(factors, rows_in_order(b, permutation), left_side=True, lower=True, unit_diagonal=True)
        return triangular_solve(factors, y, left_side=True)
    flags: dict[str, Any] = {"left_side": True, "transpose_a": True, "conjugate_a": trans == 2}
    y = triangular_solve(factors, triangular_solve(factors, b, **flags), lower=True, unit_diagonal=True, **flags)
    return rows_in_order(y, inverse_order(permutation))


def inverse_order(permutation: Any) -> Any:
    """The order that undoes another one."""
    shape = aval_of(permutation).shape
    last = len(shape) - 1
    return sort((permutation, iota(np.int32, shape, last)), dimension=last)[1]


# --- lu_pivots_to_permutation ---------------------------------------------------------------------------


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The order of rows that follows from the row with which each step has exchanged its own."""
    return bind(lu_pivots_to_permutation_p, pivots, permutation_size=permutation_size)


def _permutation_aval(pivots: Aval, *, permutation_size: int) -> Aval:
    if kind_of(pivots.dtype) not in "iu" or not pivots.ndim:
        raise DTypeError(f"lu_pivots_to_permutation takes integers of shape (..., k), but was given {pivots}")
    if permutation_size < pivots.shape[-1]:
        raise ArgumentError(
            f"lu_pivots_to_permutation: permutation_size={permutation_size} is less than the number of pivots, "
            f"{pivots.shape[-1]}"
        )
    return Aval((*pivots.shape[:-1], permutation_size), dtypes.int32)


def _permutation_impl(pivots: np.ndarray, *, permutation_size: int) -> np.ndarray:
    inside = np.clip(pivots, 0, max(permutation_size - 1, 0))
    return kernels.permutation_of(inside, permutation_size)


lu_pivots_to_permutation_p = Primitive(
    name="lu_pivots_to_permutation",
    doc="The order of rows that follows from the pivots of an LU factorisation.",
    multiple_results=False,
    abstract_eval=_permutation_aval,
    impl=_permutation_impl,
    jvp=ZeroDerivative("integers have no derivative"),
    transpose=Absent("integers have no derivative"),
    batch=batch_leading(lu_pivots_to_permutation, 0),
    lower=calls_numpy(_permutation_impl),
    examples=lambda: [
        Example(args=(np.array([2, 1, 2], np.int32),), params={"permutation_size": 4}),
        Example(args=(integers(2, 3, high=3),), params={"permutation_size": 3}),
    ],
)
