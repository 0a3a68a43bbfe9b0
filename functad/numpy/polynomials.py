"""Polynomials, as vectors of coefficients from that of the highest power to the constant.

Knows the whole package, whose linear algebra loads when roots or a fit first ask for it.

Shapes:
    A polynomial is a vector of coefficients, that of the highest power first; so is the result.

Raises:
    ShapeError: the coefficients are no vector.
    ArgumentError: an order or a degree is negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.array import Array
from functad.calls.compound import compound
from functad.dtypes import finfo
from functad.errors import ArgumentError, ShapeError
from functad.numpy.building import as_array, filled, scalar
from functad.numpy.promotion import (
    asarray,
    broadcast_operand,
    concrete_value,
    operand,
    promote_dtypes,
    promote_dtypes_inexact,
)
from functad.primitives import structure
from functad.tree_util import tree_leaves

__all__ = [
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
    "roots",
]

# --- arithmetic -------------------------------------------------------------------------------------


@compound
def polyval(p: Any, x: Any, *, unroll: int = 16) -> Array:
    """The value at x of the polynomial with the given coefficients, that of the highest power first.

    >>> import functad.numpy as jnp
    >>> jnp.polyval(jnp.array([1, 2, 3]), 2)
    Array(11, dtype=int32)
    """
    coefficients, at = promote_dtypes(operand("polyval", p), operand("polyval", x))
    coefficients, at = asarray(coefficients), asarray(at)
    result = filled(at.dtype.type(0), at.shape)
    for i in range(coefficients.shape[0]):
        result = result * at + coefficients[i]
    return asarray(result)


def polyadd(a1: Any, a2: Any) -> Array:
    """The coefficients of the sum of two polynomials.

    >>> import functad.numpy as jnp
    >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([1, 0, 0]))
    Array([1, 1, 2], dtype=int32)
    """
    x, y = (jnp.atleast_1d(v) for v in promote_dtypes(operand("polyadd", a1), operand("polyadd", a2)))
    size = max(x.size, y.size)
    x, y = (structure.pad(v, scalar(v, 0), [(size - v.size, 0, 0)]) for v in (x, y))
    return x + y


def polysub(a1: Any, a2: Any) -> Array:
    """The coefficients of the difference of two polynomials.

    >>> import functad.numpy as jnp
    >>> jnp.polysub(jnp.array([1, 2]), jnp.array([1, 0, 0]))
    Array([-1,  1,  2], dtype=int32)
    """
    return polyadd(a1, jnp.negative(asarray(a2)))


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Array:
    """The coefficients of the product of two polynomials.

    trim_leading_zeros: leave out those of both that are zero, which must be known then.

    >>> import functad.numpy as jnp
    >>> jnp.polymul(jnp.array([1, 1]), jnp.array([1, -1]))
    Array([ 1.,  0., -1.], dtype=float32)
    """
    x, y = (jnp.atleast_1d(v) for v in promote_dtypes_inexact(operand("polymul", a1), operand("polymul", a2)))
    if trim_leading_zeros and (x.size > 1 or y.size > 1):
        x, y = (jnp.trim_zeros(v, "f") for v in (x, y))
    x, y = (v if v.size else jnp.zeros(1, v.dtype) for v in (x, y))
    return jnp.convolve(x, y, "full")


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The coefficients of the quotient of two polynomials, and of the remainder, as long as u.

    trim_leading_zeros: leave out those of the remainder that are almost zero, which must be known then.

    >>> polydiv(jnp.array([1.0, 0.0, -1.0]), jnp.array([1.0, 1.0]))
    (Array([ 1., -1.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    rest, divisor = promote_dtypes_inexact(as_array("polydiv", u), as_array("polydiv", v))
    if rest.ndim != 1 or divisor.ndim != 1 or not divisor.size:
        raise ShapeError(f"polydiv divides vectors of coefficients, got the shapes {rest.shape} and {divisor.shape}")
    count = rest.size - divisor.size + 1
    scale, quotient = 1 / divisor[0], []
    for k in range(count):
        quotient.append(scale * rest[k])
        rest = rest.at[k : k + divisor.size].add(-quotient[-1] * divisor)
    if trim_leading_zeros:
        known = concrete_value(rest, "polydiv with trim_leading_zeros=True", _TRIM_REWRITE)
        large = np.flatnonzero(np.abs(known) >= np.sqrt(finfo(rest.dtype).eps))
        rest = rest[large[0] :] if large.size else rest[:0]
    return jnp.stack(quotient) if quotient else jnp.zeros(1, rest.dtype), rest


_TRIM_REWRITE = "Leave trim_leading_zeros=False in transformed functions: the size of the result depends on the values."

# --- calculus ---------------------------------------------------------------------------------------


def polyder(p: Any, m: int = 1) -> Array:
    """The coefficients of the m-th derivative of a polynomial.

    >>> import functad.numpy as jnp
    >>> jnp.polyder(jnp.array([1, 2, 3]))
    Array([2., 2.], dtype=float32)
    """
    (x,) = promote_dtypes_inexact(operand("polyder", p))
    if m < 0:
        raise ArgumentError(f"polyder: m must not be negative, got {m}")
    for _ in range(m):
        powers = np.arange(x.size - 1, 0, -1).astype(x.dtype)
        x = x[:-1] * asarray(powers)
    return x


def polyint(p: Any, m: int = 1, k: Any = None) -> Array:
    """The coefficients of the m-th integral of a polynomial, with the given integration constants (0 by default).

    >>> import functad.numpy as jnp
    >>> jnp.polyint(jnp.array([2, 3]))
    Array([1., 3., 0.], dtype=float32)
    """
    (x,) = promote_dtypes_inexact(asarray(p))
    k = 0 if k is None else k
    if all(type(c) in (bool, int, float) for c in tree_leaves(k)):  # Python's take the dtype of p
        k = asarray(k, x.dtype)
    x, constants = promote_dtypes_inexact(x, jnp.ravel(k))
    if constants.size not in (1, m):
        raise ArgumentError(f"polyint: k must be one constant or {m} of them, got {k}")
    constants = broadcast_operand(constants, (m,))
    for i in range(m):
        powers = np.arange(x.size, 0, -1).astype(x.dtype)
        x = jnp.append(x / asarray(powers), constants[i : i + 1])
    return x


# --- roots ------------------------------------------------------------------------------------------


def poly(seq_of_zeros: Any) -> Array:
    """The coefficients of the polynomial with these roots; of a square matrix, of its characteristic polynomial.

    >>> poly(jnp.array([1.0, 2.0]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    (zeros,) = promote_dtypes_inexact(as_array("poly", seq_of_zeros))
    zeros = jnp.atleast_1d(zeros)
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] != 0:
        zeros = jnp.linalg.eigvals(zeros)
    if zeros.ndim != 1:
        raise ShapeError(f"poly takes a vector of roots, or a square matrix, got shape {zeros.shape}")
    if not zeros.size:
        return jnp.ones((), zeros.dtype)
    result = jnp.ones(1, zeros.dtype)
    for k in range(zeros.size):
        result = polyadd(jnp.append(result, jnp.zeros(1, zeros.dtype)), -zeros[k] * result)
    return result


_STRIP_REWRITE = """The number of roots depends on the leading zeros. Instead of
    jnp.roots(p)
write
    jnp.roots(p, strip_zeros=False)
whose roots that do not exist are NaN"""


def roots(p: Any, *, strip_zeros: bool = True) -> Array:
    """The roots of a polynomial, complex: the eigenvalues of its companion matrix.

    strip_zeros: leave out leading zeros, which must be known then; otherwise the roots that do not exist are NaN,
        behind the others.

    >>> jnp.sort(roots(jnp.array([1.0, 0.0, -4.0])).real)
    Array([-2.,  2.], dtype=float32)
    """
    (coefficients,) = promote_dtypes_inexact(as_array("roots", p))
    coefficients = jnp.atleast_1d(coefficients)
    if coefficients.ndim != 1:
        raise ShapeError(f"roots takes a vector of coefficients, got shape {coefficients.shape}")
    size = coefficients.size
    if strip_zeros:
        known = np.flatnonzero(concrete_value(coefficients, "roots", _STRIP_REWRITE))
        return _roots(coefficients[known[0] if known.size else size :])
    if size < 2:
        return _roots(coefficients)
    is_zero = coefficients == 0
    missing = jnp.where(jnp.all(is_zero), size, jnp.argmin(is_zero))
    rolled = jnp.take(jnp.where(missing == size, 1, coefficients), (jnp.arange(size) + missing) % size)
    found = _roots(rolled)
    found = jnp.take(found, jnp.argsort(found == 0, stable=True))
    return jnp.where(jnp.arange(size - 1) < size - 1 - missing, found, complex(np.nan, np.nan))


def _roots(p: Any) -> Any:
    """The roots where the first coefficient is not zero."""
    if p.size < 2:
        return jnp.zeros(0, jnp.result_type(p.dtype, np.complex64))
    companion = jnp.eye(p.size - 1, k=-1, dtype=p.dtype)
    return jnp.linalg.eigvals(companion.at[0].set(-p[1:] / p[0]))


# --- least squares ----------------------------------------------------------------------------------


def polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: bool | str = False
) -> Array | tuple[Array, ...]:
    """The coefficients of the polynomial that is nearest to points, by least squares.

    Args:
        x: where the points lie, a vector.
        y: their values, a vector, or a matrix of one column for each polynomial.
        deg: the degree.
        rcond: singular values below this part of the largest count as zero; by default the points times epsilon.
        full: also return the sums of squared residuals, rank, singular values, and rcond.
        w: what each residual is multiplied by.
        cov: also return the covariance of the coefficients; "unscaled": as if residuals had variance 1.

    >>> x = jnp.array([0.0, 1.0, 2.0, 3.0])
    >>> jnp.round(polyfit(x, 2 * x + 1, 1), 3)
    Array([2., 1.], dtype=float32)
    """
    at, rhs = promote_dtypes_inexact(as_array("polyfit", x), as_array("polyfit", y))
    _check_points(at, rhs, deg)
    order, count = deg + 1, at.size
    if rcond is None:
        rcond = count * float(finfo(at.dtype).eps)
    lhs = jnp.vander(at, order)
    if w is not None:
        (weights,) = promote_dtypes_inexact(as_array("polyfit", w))
        if weights.shape != (count,):
            raise ShapeError(f"polyfit: w has shape {weights.shape}, but there are {count} points")
        lhs = lhs * weights[:, None]
        rhs = rhs * (weights if rhs.ndim == 1 else weights[:, None])
    scale = jnp.sqrt(jnp.sum(lhs * lhs, 0))  # columns of length 1 improve the condition
    lhs = lhs / scale[None]
    solution, residuals, rank, singular_values = jnp.linalg.lstsq(lhs, rhs, rcond)
    coefficients = solution / (scale if solution.ndim == 1 else scale[:, None])
    if full:
        return coefficients, residuals, rank, singular_values, asarray(rcond)
    if not cov:
        return coefficients
    base = jnp.linalg.inv(lhs.T @ lhs) / jnp.outer(scale, scale)
    if cov == "unscaled":
        factor = jnp.ones((), at.dtype)
    elif count > order:
        factor = residuals / (count - order)
    else:
        raise ArgumentError(f'polyfit: {count} points have no covariance of {order} coefficients; use cov="unscaled"')
    factor = jnp.atleast_1d(factor)
    return coefficients, base * factor[None] if rhs.ndim == 1 else base[:, :, None] * factor[None, None]


def _check_points(x: Any, y: Any, deg: int) -> None:
    if not isinstance(deg, (int, np.integer)) or deg < 0:
        raise ArgumentError(f"polyfit: deg must be an integer that is not negative, got {deg!r}")
    if x.ndim != 1 or not x.size or y.ndim not in (1, 2) or y.shape[0] != x.size:
        raise ShapeError(
            f"polyfit takes a vector x, not empty, and y of its length, a vector or matrix; got shapes "
            f"{x.shape} and {y.shape}"
        )
