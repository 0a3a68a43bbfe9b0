"""Functions of matrices: `expm`, `sqrtm`, `funm`; and Sylvester's equation, which such functions meet.

Knows the Schur form, of which a function is computed column by column: each is a triangular system.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import lax
from functad import numpy as jnp
from functad.api import jvp
from functad.api.custom_rules import custom_jvp
from functad.api.implicit import custom_linear_solve
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.lax import linalg
from functad.scipy.linalg.factorisations import schur
from functad.scipy.linalg.operands import adjoint, inexact, matrix_arguments

# --- the exponential --------------------------------------------------------------------------------------

# Coefficients of the numerators of Padé approximants, and the largest 1-norm for which they are exact to rounding.
# Source: Higham, "The scaling and squaring method for the matrix exponential revisited" (2005), table 2.3.
_PADE = {
    "single": ((17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0), 3.925724783138660),
    "double": (
        (
            64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
            10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
        ),
        5.371920351148152,
    ),
}  # fmt: skip


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:  # noqa: N803
    """The matrix exponential 1 + A + A²/2 + …, by scaling, a Padé approximant and squaring.

    Args:
        A: array of shape (..., n, n).
        upper_triangular: A is upper triangular.
        max_squarings: the result is NaN where more would be needed: for norms of about 4 · 2^max_squarings.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.expm(jnp.array([[0., 1.], [0., 0.]]))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    (a,) = matrix_arguments("expm", A, square=True)
    coefficients, limit = _PADE["double" if a.dtype.itemsize // (1 + (kind_of(a.dtype) == "c")) == 8 else "single"]
    if not a.size:
        return a
    size = lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(a), axis=-2), axis=-1))
    squarings = jnp.maximum(0, jnp.ceil(jnp.log2(size / limit)))[..., None, None]
    odd, even = _odd_and_even(a * jnp.exp2(-squarings).astype(a.dtype), coefficients)
    above, below = odd + even, even - odd
    if upper_triangular:
        result = linalg.triangular_solve(below, above, left_side=True)
    else:
        result = jnp.linalg.solve(below, above)

    def square(x: Any, i: Any) -> tuple[Any, None]:
        wanted = i < squarings
        return lax.cond(jnp.any(wanted), lambda y: jnp.where(wanted, y @ y, y), lambda y: y, x), None

    result, _ = lax.scan(square, result, jnp.arange(max_squarings, dtype=squarings.dtype))
    return jnp.where(squarings > max_squarings, jnp.nan, result)


def _odd_and_even(a: Any, coefficients: tuple[float, ...]) -> tuple[Any, Any]:
    """The odd and the even part of a polynomial of matrices."""
    one = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    squared = a @ a
    odd, even, power = coefficients[1] * one, coefficients[0] * one, one
    for k in range(2, len(coefficients), 2):
        power = power @ squared if k > 2 else squared
        even = even + coefficients[k] * power
        if k + 1 < len(coefficients):
            odd = odd + coefficients[k + 1] * power
    return a @ odd, even


def expm_frechet(A: Any, E: Any, *, method: Any = None, compute_expm: bool = True) -> Any:  # noqa: N803
    """The matrix exponential, and its derivative in the direction E; or that alone.

    Args:
        A, E: arrays of one shape (..., n, n).
        method: accepted for SciPy's sake.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.expm_frechet(jnp.zeros((1, 1)), jnp.ones((1, 1)), compute_expm=False)
    Array([[1.]], dtype=float32)
    """
    a, e = matrix_arguments("expm_frechet", A, E, square=True)
    if a.shape != e.shape:
        raise ShapeError(f"linalg.expm_frechet takes arrays of one shape, got {a.shape} and {e.shape}")
    value, slope = jvp(expm, (a,), (e,))
    return (value, slope) if compute_expm else slope


# --- functions by the Schur form ----------------------------------------------------------------------------


def _by_columns(t: Any, on_diagonal: Any, column: Callable[[Any, Any, Any, Any], tuple[Any, Any]]) -> Any:
    """An upper triangular matrix F with a given diagonal, column after column.

    column: of the matrix so far, the number j of a column, the elements of T above its diagonal there, and which those
    are, gives M and b; then the elements of F above the diagonal are the solution of M f = b, with upper triangular M.
    """
    n = t.shape[-1]
    places = jnp.arange(n)

    def step(j: Any, f: Any) -> Any:
        above = places < j
        matrix, right = column(f, j, jnp.where(above, t[:, j], 0), above)
        inside = above[:, None] & above[None]
        matrix = jnp.where(inside, matrix, jnp.eye(n, dtype=t.dtype))
        matrix = jnp.where((matrix == 0) & (places[:, None] == places[None]), 1, matrix)
        found = linalg.triangular_solve(matrix, jnp.where(above, right, 0)[:, None], left_side=True)[:, 0]
        return f.at[:, j].add(found)

    return lax.fori_loop(1, n, step, jnp.diag(on_diagonal)) if n > 1 else jnp.diag(on_diagonal)


def sqrtm(A: Any, blocksize: int = 1) -> Array:  # noqa: N803
    """The principal square root of a square matrix, complex.

    Args:
        A: array of shape (n, n).
        blocksize: only 1 is supported.

    Source: Björck and Hammarling, "A Schur method for the square root of a matrix" (1983).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.sqrtm(jnp.array([[4.]]))
    Array([[2.+0.j]], dtype=complex64)
    """
    if blocksize > 1:
        raise ArgumentError(f"linalg.sqrtm: blocksize={blocksize} is not supported")
    (x,) = matrix_arguments("sqrtm", A, square=True)
    return _sqrtm(x.astype(np.promote_types(x.dtype, np.complex64)))


@custom_jvp
def _sqrtm(a: Any) -> Any:
    t, z = _schur_of_one("sqrtm", a)
    roots = jnp.sqrt(jnp.diag(t))

    def column(f: Any, j: Any, above: Any, which: Any) -> tuple[Any, Any]:
        # F F = T: in column j (F + f_jj) f = t.
        return f + roots[j] * jnp.eye(t.shape[0], dtype=t.dtype), above

    return z @ _by_columns(t, roots, column) @ adjoint(z)


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    # R R = A: R dR + dR R = dA
    root = _sqrtm(*primals)
    return root, solve_sylvester(root, root, tangents[0], tol=0.0)


def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:  # noqa: N803
    """A function of a square matrix with eigenvalues that differ, complex.

    Args:
        A: array of shape (n, n).
        func: the function of an array of complex numbers, element by element.
        disp: else an estimate of the relative error is returned, too.

    Source: Parlett's recurrence; Golub and Van Loan, "Matrix Computations", section 9.1.4.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.funm(jnp.array([[2.]]), jnp.square)
    Array([[4.+0.j]], dtype=complex64)
    """
    t, z = _schur_of_one("funm", A)
    values = jnp.asarray(func(jnp.diag(t))).astype(t.dtype)

    def column(f: Any, j: Any, above: Any, which: Any) -> tuple[Any, Any]:
        # F T = T F: in column j (T − t_jj) f = F t − f_jj t.
        inside = jnp.where(which[:, None] & which, f, 0)
        return t - t[j, j] * jnp.eye(t.shape[0], dtype=t.dtype), inside @ above - values[j] * above

    triangular = _by_columns(t, values, column)
    result = z @ triangular @ adjoint(z)
    if disp:
        return result
    n, eps = t.shape[0], jnp.finfo(t.dtype).eps
    diagonal = jnp.diag(t)
    gaps = jnp.where(jnp.eye(n, dtype=bool), jnp.inf, jnp.abs(diagonal[:, None] - diagonal))
    least = jnp.minimum(jnp.abs(diagonal[0]), jnp.min(gaps))
    least = jnp.where(least == 0, eps, least)
    error = jnp.minimum(1, jnp.maximum(eps, eps / least * jnp.linalg.norm(jnp.triu(t, 1), 1)))
    return result, jnp.where(jnp.all(jnp.isfinite(result)), error, jnp.inf)


def _schur_of_one(name: str, a: Any) -> tuple[Any, Any]:
    (x,) = matrix_arguments(name, a, square=True)
    if x.ndim != 2:
        raise ShapeError(f"linalg.{name} takes one square matrix, got shape {x.shape}; map over more with functad.vmap")
    return schur(x, output="complex")


def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Array:  # noqa: N803
    """X with A X + X B = C; NaN where eigenvalues of A and −B are closer than `tol`.

    Args:
        A: array of shape (..., m, m).
        B: array of shape (..., n, n).
        C: array of shape (..., m, n).
        method: "schur" or "eigen": of JAX's algorithms; here it is the first.

    Source: Bartels and Stewart, "Solution of the matrix equation AX + XB = C" (1972).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.solve_sylvester(jnp.array([[1.]]), jnp.array([[2.]]), jnp.array([[6.]]))
    Array([[2.]], dtype=float32)
    """
    if method not in ("schur", "eigen"):
        raise ArgumentError(f'linalg.solve_sylvester: method={method!r} must be "schur" or "eigen"')
    a, b, c = inexact(A, B, C)
    if min(a.ndim, b.ndim, c.ndim) < 2 or a.shape[-2:] != (c.shape[-2],) * 2 or b.shape[-2:] != (c.shape[-1],) * 2:
        raise ShapeError(
            "linalg.solve_sylvester takes shapes (..., m, m), (..., n, n) and (..., m, n), got "
            f"{a.shape}, {b.shape} and {c.shape}"
        )

    def one(a: Any, b: Any, c: Any) -> Any:
        # Its derivatives are solutions of such equations, too: A dX + dX B = dC − dA X − X dB.
        return custom_linear_solve(
            lambda x: a @ x + x @ b,
            c,
            lambda _, c: _sylvester(a, b, c, tol),
            lambda _, c: _sylvester(a.T, b.T, c, tol),
        )

    return jnp.vectorize(one, signature="(m,m),(n,n),(m,n)->(m,n)")(a, b, c)


def _sylvester(a: Any, b: Any, c: Any, tol: float) -> Any:
    (r, u), (s, v) = schur(a, output="complex"), schur(b, output="complex")
    right = adjoint(u) @ c.astype(r.dtype) @ v
    n = s.shape[0]

    def step(j: Any, y: Any) -> Any:
        # With A = U R Uᴴ and B = V S Vᴴ, column j of R Y + Y S = F is (R + s_jj) y = f − Y s.
        known = jnp.where(jnp.arange(n) < j, s[:, j], 0)
        matrix = r + s[j, j] * jnp.eye(r.shape[0], dtype=r.dtype)
        found = linalg.triangular_solve(matrix, (right[:, j] - y @ known)[:, None], left_side=True)
        return y.at[:, j].set(found[:, 0])

    y = lax.fori_loop(0, n, step, jnp.zeros_like(right))
    x = u @ y @ adjoint(v)
    sums = jnp.abs(jnp.diag(r)[:, None] + jnp.diag(s))
    return jnp.where(jnp.any(sums < tol), jnp.nan, x if kind_of(c.dtype) == "c" else jnp.real(x))
