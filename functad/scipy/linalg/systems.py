"""Systems of equations, by factorisations that can be kept; determinants and inverses.

Knows `lax.linalg`. Arguments that say what may be overwritten or checked are SciPy's, and have no effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad import numpy as jnp
from functad.api.custom_rules import custom_jvp
from functad.array import Array
from functad.errors import ArgumentError, ShapeError
from functad.lax import linalg
from functad.scipy.linalg.operands import adjoint, inexact, matrix_arguments, right_hand_side


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The triangular factor with positive diagonal: U with Uᴴ U = a, or with `lower` L with L Lᴴ = a.

    Args:
        a: array of shape (..., n, n), Hermitian and positive definite; that triangle of it is read. Else NaN.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 1.],
           [0., 2.]], dtype=float32)
    """
    (x,) = matrix_arguments("cholesky", a, square=True)
    factor = linalg.cholesky(x if lower else adjoint(x), symmetrize_input=False)
    return factor if lower else adjoint(factor)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """What `cho_solve` takes: a Cholesky factor, and whether it is the lower one.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.cho_factor(jnp.array([[4.]]))
    (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower=lower), lower


def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Array:
    """x with a x = b, by what `cho_factor` gives for a.

    Args:
        b: array of shape (n,) or (..., n, k).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.cho_solve((jnp.array([[2.]]), False), jnp.array([4.]))
    Array([1.], dtype=float32)
    """
    factor, lower = c_and_lower
    c, y, is_vector = right_hand_side("cho_solve", factor, b)
    flags: dict[str, Any] = {"left_side": True, "lower": lower}
    y = linalg.triangular_solve(c, y, transpose_a=not lower, conjugate_a=not lower, **flags)
    x = linalg.triangular_solve(c, y, transpose_a=lower, conjugate_a=lower, **flags)
    return x[..., 0] if is_vector else x


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """What `lu_solve` takes: L (without its ones) and U in one matrix of shape (..., m, n), and the pivots.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.lu_factor(jnp.array([[1., 2.], [2., 4.]]))[1]
    Array([1, 1], dtype=int32)
    """
    factors, pivots, _ = linalg.lu(*matrix_arguments("lu_factor", a))
    return factors, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """x with a x = b (trans=0), aᵀ x = b (1) or aᴴ x = b (2), by what `lu_factor` gives for a.

    Args:
        b: array of shape (n,) or (..., n, k).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> factors = functad.scipy.linalg.lu_factor(jnp.array([[2., 0.], [0., 4.]]))
    >>> functad.scipy.linalg.lu_solve(factors, jnp.array([2., 2.]))
    Array([1. , 0.5], dtype=float32)
    """
    if trans not in (0, 1, 2):
        raise ArgumentError(f"linalg.lu_solve: trans={trans!r} must be 0, 1 or 2")
    factors, y, is_vector = right_hand_side("lu_solve", lu_and_piv[0], b)
    order = linalg.lu_pivots_to_permutation(lu_and_piv[1], factors.shape[-1])
    order = jnp.broadcast_to(order, factors.shape[:-1])[..., None]
    flags: dict[str, Any] = {"left_side": True, "transpose_a": trans > 0, "conjugate_a": trans == 2}
    if trans == 0:
        y = jnp.take_along_axis(y, order, axis=-2)
        y = linalg.triangular_solve(factors, y, lower=True, unit_diagonal=True, **flags)
        x = linalg.triangular_solve(factors, y, **flags)
    else:
        y = linalg.triangular_solve(factors, y, **flags)
        y = linalg.triangular_solve(factors, y, lower=True, unit_diagonal=True, **flags)
        x = jnp.take_along_axis(y, jnp.argsort(order, axis=-2), axis=-2)
    return x[..., 0] if is_vector else x


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """x with a x = b.

    Args:
        a: array of shape (..., n, n).
        b: array of shape (n,) or (..., n, k).
        assume_a: "pos": a is Hermitian and positive definite, and one triangle of it is read. Else "gen", "sym", "her".
        lower: which triangle that is.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.solve(jnp.array([[4., 0.], [0., 16.]]), jnp.array([2., 4.]), assume_a="pos")
    Array([0.5 , 0.25], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ArgumentError(f'linalg.solve: assume_a={assume_a!r} must be "gen", "sym", "her" or "pos"')
    x, y, is_vector = right_hand_side("solve", a, b)
    if assume_a != "pos":
        found = jnp.linalg.solve(x, y)
    else:
        found = (_solve_lower if lower else _solve_upper)(x, y)
    return found[..., 0] if is_vector else found


@custom_jvp
def _solve_lower(a: Any, b: Any) -> Any:
    return cho_solve(cho_factor(a, lower=True), b)


@custom_jvp
def _solve_upper(a: Any, b: Any) -> Any:
    return cho_solve(cho_factor(a), b)


@_solve_lower.defjvp
def _solve_lower_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    return _solution_and_tangent(cho_factor(primals[0], lower=True), primals[1], *tangents)


@_solve_upper.defjvp
def _solve_upper_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    return _solution_and_tangent(cho_factor(primals[0]), primals[1], *tangents)


def _solution_and_tangent(factor: tuple[Any, bool], b: Any, da: Any, db: Any) -> tuple[Any, Any]:
    # d x = a⁻¹ (db − da x)
    x = cho_solve(factor, b)
    return x, cho_solve(factor, db - da @ x)


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """x with op(a) x = b for triangular a, of which the other half is not read.

    Args:
        a: array of shape (..., n, n).
        b: array of shape (n,) or (..., n, k).
        trans: op is nothing (0 or "N"), transposes (1 or "T"), or also conjugates (2 or "C").
        unit_diagonal: take the diagonal of a to be ones.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.solve_triangular(jnp.array([[2., 0.], [1., 1.]]), jnp.array([2., 3.]), lower=True)
    Array([1., 2.], dtype=float32)
    """
    names = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in names:
        raise ArgumentError(f'linalg.solve_triangular: trans={trans!r} must be 0, 1, 2, "N", "T" or "C"')
    x, y, is_vector = right_hand_side("solve_triangular", a, b)
    found = linalg.triangular_solve(
        x, y, left_side=True, lower=lower, transpose_a=names[trans] > 0, conjugate_a=names[trans] == 2,
        unit_diagonal=unit_diagonal,
    )  # fmt: skip
    return found[..., 0] if is_vector else found


def solve_banded(
    l_and_u: tuple[int, int],
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """x with a x = b, for a matrix of which all but some diagonals are zero; not finite where it is singular.

    Tridiagonal systems take time in proportion to n; others are solved as full ones.

    Args:
        l_and_u: how many diagonals there are below and above the main one.
        ab: array of shape (l + u + 1, n), the diagonals from the topmost on: ab[u + i − j, j] = a[i, j].
        b: array of shape (n,) or (n, k).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> ab = jnp.array([[0., 0., 0.], [2., 2., 2.], [2., 2., 0.]])
    >>> functad.scipy.linalg.solve_banded((1, 1), ab, jnp.array([2., 4., 4.]))
    Array([1., 1., 1.], dtype=float32)
    """
    below, above = l_and_u
    diagonals, right = inexact(ab, b)
    n = diagonals.shape[-1] if diagonals.ndim else 0
    if diagonals.ndim != 2 or len(diagonals) != below + above + 1 or right.ndim not in (1, 2) or len(right) != n:
        raise ShapeError(
            f"linalg.solve_banded takes ab of shape ({below + above + 1}, n), as l_and_u={l_and_u} says, and b of "
            f"shape (n,) or (n, k), got {diagonals.shape} and {right.shape}"
        )
    column = right[:, None] if right.ndim == 1 else right
    if (below, above) == (1, 1):
        lower, upper = (jnp.roll(diagonals[2], 1), jnp.roll(diagonals[0], -1)) if n else (diagonals[2], diagonals[0])
        found = linalg.tridiagonal_solve(lower.at[:1].set(0), diagonals[1], upper.at[-1:].set(0), column)
    else:
        i, j = jnp.arange(n)[:, None], jnp.arange(n)
        row = above + i - j
        inside = (row >= 0) & (row <= below + above)
        full = jnp.where(inside, diagonals[jnp.clip(row, 0, below + above), j], 0)
        found = jnp.linalg.solve(full, column)
    return found[:, 0] if right.ndim == 1 else found


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverses of square matrices of shape (..., n, n).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.inv(jnp.array([[2.]]))
    Array([[0.5]], dtype=float32)
    """
    return jnp.linalg.inv(*inexact(a))


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinants of square matrices of shape (..., n, n).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.det(jnp.array([[2.]]))
    Array(2., dtype=float32)
    """
    return jnp.linalg.det(*inexact(a))
