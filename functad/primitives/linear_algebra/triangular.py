"""Systems of equations with triangular and with tridiagonal matrices.

Knows their derivatives and transposes; general matrices are factorised elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.errors import ArgumentError, DifferentiationError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval, Example, Primitive, Zero
from functad.primitives import elementwise as el
from functad.primitives.common import full_like, is_linear, normal
from functad.primitives.joining import concatenate
from functad.primitives.kernels import systems as kernels
from functad.primitives.linear_algebra.matrices import (
    batch_leading,
    calls_lapack,
    calls_numpy,
    check_matrices,
    check_numbers,
    columns_of,
    conjugate,
    matmul,
    positive_definite,
    transposed,
    tril,
    triu,
)
from functad.primitives.loops import factorising
from functad.primitives.loops.small_matrices import small_or, triangular_solve_rule
from functad.primitives.reduction import slice_along
from functad.tracing import bind

# --- triangular_solve -----------------------------------------------------------------------------------


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Any:
    """x with x op(a) = b, or with `left_side` op(a) x = b; op may transpose and conjugate; a triangle is read."""
    return bind(
        triangular_solve_p, a, b, left_side=left_side, lower=lower, transpose_a=transpose_a, conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal,
    )  # fmt: skip


def _triangular_solve_aval(a: Aval, b: Aval, *, left_side: bool, **_: Any) -> Aval:
    check_matrices("triangular_solve", a, square=True)
    check_numbers("triangular_solve", a, b)
    if b.ndim != a.ndim or b.shape[:-2] != a.shape[:-2] or b.shape[-2 if left_side else -1] != a.shape[-1]:
        wanted = "(..., n, k)" if left_side else "(..., k, n)"
        raise ShapeError(
            f"triangular_solve: for a of shape {a.shape} (..., n, n), b must have a shape {wanted}, got {b.shape}"
        )
    return Aval(b.shape, b.dtype)


def _triangular_solve_jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any) -> Any:
    # d x = op(a)⁻¹ (db − op(da) x), or (db − x op(da)) op(a)⁻¹
    a, _ = primals
    da, db = tangents
    terms = [] if isinstance(db, Zero) else [triangular_solve(a, db, **params)]
    if not isinstance(da, Zero):
        da = _as_read(da, **params)
        moved = matmul(da, out) if params["left_side"] else matmul(out, da)
        terms.append(triangular_solve(a, el.neg(moved), **params))
    return terms[0] if len(terms) == 1 else el.add(*terms)


def _as_read(
    da: Any, *, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool, left_side: bool
) -> Any:
    da = tril(da, -unit_diagonal) if lower else triu(da, int(unit_diagonal))
    da = transposed(da) if transpose_a else da
    return conjugate(da) if conjugate_a else da


def _triangular_solve_transpose(ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: Any) -> list[Any]:
    if is_linear(a):
        raise DifferentiationError("triangular_solve is not linear in its matrix, so it has no transpose in it")
    # The transpose of op(a)⁻¹ is that of op(a), inverted.
    return [None, triangular_solve(a, ct, transpose_a=not transpose_a, **params)]


def _solve_example(left_side: bool, lower: bool = True, *shape: int, **changes: Any) -> Example:
    params = {"left_side": left_side, "lower": lower, "transpose_a": False, "conjugate_a": False}
    params |= {"unit_diagonal": False} | changes
    n, k = shape[-2:] if shape else (3, 2)
    lead = shape[:-2]
    b = normal(*lead, *((n, k) if left_side else (k, n)), seed=1)
    return Example(args=(positive_definite(*lead, n, n), b), params=params)


_ONE = {"left_side": True, "lower": True, "transpose_a": False, "conjugate_a": False, "unit_diagonal": False}

triangular_solve_p = Primitive(
    name="triangular_solve",
    doc="Solve systems of equations with triangular matrices.",
    multiple_results=False,
    abstract_eval=_triangular_solve_aval,
    impl=kernels.triangular_solve,
    jvp=_triangular_solve_jvp,
    transpose=_triangular_solve_transpose,
    batch=batch_leading(triangular_solve, 0),
    lower=small_or(triangular_solve_rule, calls_lapack(factorising.triangular_solve, kernels.triangular_solve)),
    examples=lambda: [
        _solve_example(True),
        _solve_example(False),
        _solve_example(False, False, transpose_a=True),
        _solve_example(True, False, 2, 3, 1, unit_diagonal=True),
        _solve_example(True, True, 2, 2, transpose_a=True, conjugate_a=True),
        _solve_example(False, True, 2, 1, conjugate_a=True),
        Example(args=(np.zeros((2, 2), np.float32), normal(2, 1)), params=_ONE, differentiable=False),
        Example(args=(normal(2, 2), normal(2, 0)), params=_ONE, differentiable=False),
        # 1 / x at 1
        Example(args=(np.ones((1, 1), np.float32),) * 2, params=_ONE, along=([[1]], None), agreed=(-1, 2, -6)),
    ],
)

# --- tridiagonal_solve ----------------------------------------------------------------------------------


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    """x with T x = b, where T has the diagonals dl (but its first element), d, and du (but its last)."""
    return bind(tridiagonal_solve_p, dl, d, du, b, perturb_singular=perturb_singular)


def _tridiagonal_solve_aval(dl: Aval, d: Aval, du: Aval, b: Aval, *, perturb_singular: bool) -> Aval:
    check_matrices("tridiagonal_solve", b)
    check_numbers("tridiagonal_solve", dl, d, du, b)
    if perturb_singular:
        raise ArgumentError("tridiagonal_solve: perturb_singular=True is not supported; singular systems give NaN")
    if not dl.shape == d.shape == du.shape == b.shape[:-1]:
        raise ShapeError(
            "tridiagonal_solve takes three diagonals of one shape (..., n), and b of shape (..., n, k), but was given "
            f"{dl.shape}, {d.shape}, {du.shape} and {b.shape}"
        )
    return Aval(b.shape, b.dtype)


def _tridiagonal_solve_impl(*operands: np.ndarray, perturb_singular: bool) -> np.ndarray:
    return kernels.tridiagonal_solve(*operands)


def _tridiagonal_solve_jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any) -> Any:
    # d x = T⁻¹ (db − dT x)
    *diagonals, db = tangents
    terms = [] if isinstance(db, Zero) else [db]
    terms += [el.neg(_times(t, out, k - 1)) for k, t in enumerate(diagonals) if not isinstance(t, Zero)]
    total = terms[0]
    for term in terms[1:]:
        total = el.add(total, term)
    return tridiagonal_solve(primals[0], primals[1], primals[2], total, **params)


def _times(diagonal: Any, x: Any, offset: int) -> Any:
    """The product of the matrix with one diagonal and x."""
    return el.mul(columns_of(diagonal, x.shape), _shifted(x, offset, aval_of(x).ndim - 2))


def _shifted(x: Any, offset: int, axis: int) -> Any:
    """The element before (-1) or after (1) each one along an axis, 0 beyond the ends."""
    n = aval_of(x).shape[axis]
    if not offset or not n:
        return x
    end = full_like(slice_along(x, axis, 0, 1), 0)
    if offset > 0:
        return concatenate([slice_along(x, axis, 1, n), end], axis)
    return concatenate([end, slice_along(x, axis, 0, n - 1)], axis)


def _tridiagonal_solve_transpose(ct: Any, dl: Any, d: Any, du: Any, b: Any, **params: Any) -> list[Any]:
    if any(map(is_linear, (dl, d, du))):
        raise DifferentiationError("tridiagonal_solve is not linear in its matrix, so it has no transpose in it")
    axis = aval_of(d).ndim - 1
    return [None, None, None, tridiagonal_solve(_shifted(du, -1, axis), d, _shifted(dl, 1, axis), ct, **params)]


def _tridiagonal_example(*shape: int, **changes: Any) -> Example:
    diagonals = [normal(*shape[:-1], seed=k) + np.float32(3 * (k == 1)) for k in range(3)]
    return Example(args=(*diagonals, normal(*shape, seed=3)), params={"perturb_singular": False}, **changes)


tridiagonal_solve_p = Primitive(
    name="tridiagonal_solve",
    doc="Solve systems of equations with tridiagonal matrices.",
    multiple_results=False,
    abstract_eval=_tridiagonal_solve_aval,
    impl=_tridiagonal_solve_impl,
    jvp=_tridiagonal_solve_jvp,
    transpose=_tridiagonal_solve_transpose,
    batch=batch_leading(tridiagonal_solve, 0),
    lower=calls_numpy(_tridiagonal_solve_impl),
    examples=lambda: [
        _tridiagonal_example(4, 2),
        _tridiagonal_example(2, 3, 1),
        _tridiagonal_example(2, 1),
        _tridiagonal_example(3, 0, differentiable=False),
        # 1 / x at 1
        Example(
            args=(*[np.ones(1, np.float32)] * 3, np.ones((1, 1), np.float32)),
            params={"perturb_singular": False},
            along=(None, [1], None, None),
            agreed=(-1, 2, -6),
        ),
    ],
)
