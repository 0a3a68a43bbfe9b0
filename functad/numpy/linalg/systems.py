"""Systems of equations, inverses and determinants.

Knows LU factorisations and singular values; each derivative uses the factors that the value was computed with.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.api import jvp
from functad.api.custom_rules import custom_jvp
from functad.array import Array
from functad.control.forwarding import bind_cond, bind_scan
from functad.dtypes import finfo, kind_of
from functad.errors import ArgumentError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.numpy import (
    arithmetic,
    complex_parts,
    creation,
    linear,
    logic,
    manipulation,
    reductions,
    selecting,
    special_matrices,
    ufuncs,
)
from functad.numpy.building import as_array
from functad.numpy.indexing import getitem
from functad.numpy.linalg.factorisations import adjoint, matrices, square, svd, symmetrized
from functad.numpy.promotion import broadcast_shapes, convert, promote_dtypes_inexact
from functad.primitives.linear_algebra.lu import lu, lu_solve
from functad.primitives.linear_algebra.matrices import matmul
from functad.primitives.linear_algebra.triangular import triangular_solve
from functad.records import NamedTuple
from functad.tracing import trace_to_program

# --- systems ------------------------------------------------------------------------------------------


def solve(a: Any, b: Any) -> Array:
    """x with a x = b; not finite where a is singular.

    Args:
        a: array of shape (..., n, n).
        b: array of shape (n,) or (..., n, k); batch axes are broadcast.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.solve(jnp.array([[2., 0.], [0., 4.]]), jnp.array([2., 2.]))
    Array([1. , 0.5], dtype=float32)
    """
    x, y = promote_dtypes_inexact(as_array("linalg.solve", a), as_array("linalg.solve", b))
    x = square("solve", x)
    n = x.shape[-1]
    is_vector = y.ndim == 1
    if not y.ndim or y.shape[0 if is_vector else -2] != n:
        raise ShapeError(
            f"linalg.solve: a of shape {x.shape} takes b of shape ({n},) or (..., {n}, k), got {y.shape}; a stack of "
            "vectors is b[..., None]"
        )
    y = getitem(y, (slice(None), None)) if is_vector else y
    batch = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    solution = _solve(
        manipulation.broadcast_to(x, (*batch, n, n)), manipulation.broadcast_to(y, (*batch, *y.shape[-2:]))
    )
    return manipulation.squeeze(solution, -1) if is_vector else solution


@custom_jvp
def _solve(a: Any, b: Any) -> Any:
    factors, _, order = lu(a)
    return lu_solve(factors, order, b)


@_solve.defjvp
def _solve_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    # d x = a⁻¹ (db − da x)
    (a, b), (da, db) = primals, tangents
    factors, _, order = lu(a)
    x = lu_solve(factors, order, b)
    return x, lu_solve(factors, order, arithmetic.subtract(db, matmul(da, x)))


def inv(a: Any) -> Array:
    """The inverses of square matrices of shape (..., n, n); to solve a system, `solve` is faster and more accurate.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.inv(jnp.array([[2., 0.], [0., 4.]]))
    Array([[0.5 , 0.  ],
           [0.  , 0.25]], dtype=float32)
    """
    v = square("inv", a)
    return solve(v, special_matrices.eye(v.shape[-1], dtype=v.dtype))


def lstsq(a: Any, b: Any, rcond: Any = None, *, numpy_resid: bool = False) -> tuple[Any, Any, Any, Any]:
    """The x of least norm with the least |a x − b|; also the squares |a x − b|², the rank and the singular values.

    Args:
        a: array of shape (m, n).
        b: array of shape (m,) or (m, k).
        rcond: singular values below the largest times this count as 0; by default max(m, n) times the precision.
        numpy_resid: give no squares where the rank is less than n or m ≤ n, as NumPy does; not within jit.

    >>> import functad.numpy as jnp
    >>> x, residuals, rank, s = jnp.linalg.lstsq(jnp.array([[1.], [1.]]), jnp.array([1., 3.]))
    >>> x.round(4), int(rank)
    (Array([2.], dtype=float32), 1)
    """
    x, y = promote_dtypes_inexact(as_array("linalg.lstsq", a), as_array("linalg.lstsq", b))
    if x.ndim != 2 or y.ndim not in (1, 2) or x.shape[0] != y.shape[0]:
        raise ShapeError(
            f"linalg.lstsq takes a of shape (m, n) and b of shape (m,) or (m, k), got {x.shape}, {y.shape}"
        )
    (m, n), right = x.shape, y if y.ndim == 2 else getitem(y, (slice(None), None))
    if not x.size:
        values = creation.zeros(0, complex_parts.real(x).dtype)
        rank, solution = creation.asarray(0), creation.zeros((n, right.shape[1]), x.dtype)
    else:
        u, values, vh = svd(x, full_matrices=False)
        eps = float(finfo(values.dtype).eps)
        limit = eps * max(n, m) if rcond is None else selecting.where(logic.less(rcond, 0), eps, rcond)
        largest = getitem(values, 0)
        kept = logic.logical_and(
            logic.greater(values, 0),
            logic.greater_equal(values, arithmetic.multiply(convert(as_array("lstsq", limit), values.dtype), largest)),
        )
        rank = reductions.sum(kept)
        inverse = selecting.where(kept, arithmetic.divide(1, selecting.where(kept, values, 1)), 0)
        # Where `rcond` leaves singular values out that are not zero, vectors turn with them.
        solution = (_shortest if rcond is None else _shortest_of)(x, right, u, inverse, vh)
    if numpy_resid and (m <= n or rank < n):
        residuals = creation.zeros(0, values.dtype)
    else:
        missing = arithmetic.absolute(arithmetic.subtract(right, linear.matmul(x, solution)))
        residuals = reductions.sum(arithmetic.square(missing), axis=0)
    return (manipulation.ravel(solution) if y.ndim == 1 else solution), residuals, rank, values


def _shortest_of(a: Any, b: Any, u: Any, inverse: Any, vh: Any) -> Any:
    along = arithmetic.multiply(getitem(inverse, (slice(None), None)), linear.matmul(adjoint(u), b))
    return linear.matmul(adjoint(vh), along)


_shortest = custom_jvp(_shortest_of)


@_shortest.defjvp
def _shortest_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    # With x = a⁺ b: dx = a⁺ (db − da x) + a⁺ a⁺ᴴ daᴴ (b − a x) + (1 − a⁺ a) daᴴ a⁺ᴴ x
    (a, b, *factors), (da, db) = primals, tangents[:2]
    x, p = _shortest(*primals), _pinv_of(a, *factors)
    back, outside = adjoint(da), arithmetic.subtract(b, linear.matmul(a, x))
    inside = arithmetic.subtract(db, linear.matmul(da, x))
    inside = arithmetic.add(inside, linear.matmul(adjoint(p), linear.matmul(back, outside)))
    free = linear.matmul(back, linear.matmul(adjoint(p), x))
    free = arithmetic.subtract(free, linear.matmul(p, linear.matmul(a, free)))
    return x, arithmetic.add(linear.matmul(p, inside), free)


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Array:
    """The Moore–Penrose inverses of matrices: a⁺ b is the shortest of the best solutions of a x = b.

    Args:
        a: array of shape (..., m, n).
        rtol: singular values up to the largest times this count as 0; by default 10 max(m, n) times the precision.
        hermitian: a is Hermitian.
        rcond: another name of `rtol`.

    Source: for the derivative Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), 413–432.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.pinv(jnp.array([[2., 0.], [0., 0.]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    if rtol is not None and rcond is not None:
        raise ArgumentError("linalg.pinv takes rtol or rcond, which is its other name, but was given both")
    v = matrices("pinv", a)
    limit = rcond if rtol is None else rtol
    if limit is None:
        limit = 10.0 * max(v.shape[-2:]) * float(finfo(v.dtype).eps)
    if not v.size:
        return creation.zeros((*v.shape[:-2], v.shape[-1], v.shape[-2]), v.dtype)
    return _pinv(v, convert(as_array("linalg.pinv", limit), complex_parts.real(v).dtype), hermitian)


def _pinv(a: Any, limit: Any, hermitian: bool) -> Any:
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    largest = getitem(s, (..., slice(0, 1)))
    limit = manipulation.expand_dims(limit, -1) if limit.ndim else limit
    kept = logic.greater(s, arithmetic.multiply(limit, largest))
    inverse = selecting.where(kept, arithmetic.divide(1, selecting.where(kept, s, 1)), 0)
    return _pinv_of(symmetrized(a) if hermitian else a, u, inverse, vh)


@custom_jvp
def _pinv_of(a: Any, u: Any, inverse: Any, vh: Any) -> Any:
    scaled = arithmetic.multiply(adjoint(vh), manipulation.expand_dims(convert(inverse, vh.dtype), -2))
    return linear.matmul(scaled, adjoint(u))


@_pinv_of.defjvp
def _pinv_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    p = _pinv_of(*primals)
    return p, _pinv_tangent(p, primals[0], tangents[0])


def _pinv_tangent(p: Any, a: Any, da: Any) -> Any:
    # d a⁺ = −a⁺ da a⁺ + a⁺ a⁺ᴴ daᴴ (1 − a a⁺) + (1 − a⁺ a) daᴴ a⁺ᴴ a⁺
    s = linear.matmul(linear.matmul(p, adjoint(p)), adjoint(da))
    t = linear.matmul(adjoint(da), linear.matmul(adjoint(p), p))
    along = linear.matmul(linear.matmul(p, da), p)
    left = arithmetic.subtract(s, linear.matmul(linear.matmul(s, a), p))
    right = arithmetic.subtract(t, linear.matmul(p, linear.matmul(a, t)))
    return arithmetic.subtract(arithmetic.add(left, right), along)


# --- determinants ---------------------------------------------------------------------------------------


class SlogdetResult(NamedTuple):
    """What `slogdet` gives: the sign, or phase, of determinants, and the logarithm of their size."""

    sign: Any
    logabsdet: Any


def _parity(pivots: Any, dtype: Any) -> Any:
    """1 for an even number of exchanges of rows, −1 for an odd one."""
    places = manipulation.broadcast_to(creation.arange(pivots.shape[-1], dtype=pivots.dtype), pivots.shape)
    moved = reductions.sum(logic.not_equal(pivots, places), axis=-1)
    return convert(arithmetic.subtract(1, arithmetic.multiply(2, arithmetic.mod(moved, 2))), dtype)


def det(a: Any) -> Array:
    """The determinants of square matrices of shape (..., n, n).

    Derivatives are those of a polynomial, of singular matrices, too.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.det(jnp.array([[1., 2.], [3., 4.]])).round(4)
    Array(-2., dtype=float32)
    """
    return _det(square("det", a))


@custom_jvp
def _det(a: Any) -> Any:
    factors, pivots, _ = lu(a)
    return arithmetic.multiply(_parity(pivots, a.dtype), reductions.prod(linear.diagonal(factors, 0, -2, -1), axis=-1))


@_det.defjvp
def _det_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    # d det a = trace(adj(a) da)
    value, adjugate = _det_and_adjugate(*primals)
    return value, _trace_of_product(adjugate, tangents[0])


def _trace_of_product(x: Any, y: Any) -> Any:
    return reductions.sum(arithmetic.multiply(x, manipulation.swapaxes(y, -1, -2)), axis=(-2, -1))


@custom_jvp
def _det_and_adjugate(a: Any) -> tuple[Any, Any]:
    # With P a = L U, adj(a) = ± adj(U) L⁻¹ P, and y = adj(U) z solves U y = det(U) z, whose last row is
    # y_n = u_11 ⋯ u_{n−1,n−1} z_n, whether u_nn is zero or not. If another u_ii is 0,
    # the rank is n − 2 at most, and adj(a) is 0.
    n = a.shape[-1]
    if n == 0:
        return _det(a), a
    moved, places, turns, is_regular = _zero_pivot_last(a)
    factors, pivots, order = lu(moved)
    on_diagonal = linear.diagonal(factors, 0, -2, -1)
    others = reductions.prod(getitem(on_diagonal, (..., slice(None, -1))), axis=-1)
    whole = arithmetic.multiply(others, getitem(on_diagonal, (..., -1)))
    regular = _as_matrices(logic.not_equal(others, 0))
    is_last = logic.equal(creation.arange(n), n - 1)
    corner = logic.logical_and(getitem(is_last, (slice(None), None)), getitem(is_last, (None, slice(None))))
    identity = special_matrices.eye(n, dtype=a.dtype)
    upper = selecting.where(corner, arithmetic.divide(1, _as_matrices(others)), factors)
    upper = selecting.where(regular, upper, identity)
    z = _in_order(manipulation.broadcast_to(identity, a.shape), order)
    z = triangular_solve(factors, z, left_side=True, lower=True, unit_diagonal=True)
    z = selecting.where(getitem(is_last, (slice(None), None)), z, arithmetic.multiply(_as_matrices(whole), z))
    y = selecting.where(regular, triangular_solve(upper, z, left_side=True), 0)
    parity = arithmetic.multiply(_parity(pivots, a.dtype), convert(turns, a.dtype))
    value = selecting.where(is_regular, arithmetic.multiply(parity, whole), 0)
    return value, arithmetic.multiply(_as_matrices(parity), _in_order(y, places))


def _zero_pivot_last(a: Any) -> tuple[Any, Any, Any, Any]:
    """The matrices with the first column whose pivot is 0, a sum of those before it, moved behind all others.

    Returns: the matrices, where each column went, the sign that their determinants got, and whether none was moved.
    """
    last = a.shape[-1] - 1
    places = creation.arange(last + 1)
    is_zero = logic.equal(linear.diagonal(lu(a)[0], 0, -2, -1), 0)
    first = reductions.argmax(logic.logical_or(is_zero, logic.equal(places, last)), axis=-1, keepdims=True)
    order = selecting.where(
        logic.equal(places, last),
        first,
        arithmetic.add(places, convert(logic.greater_equal(places, first), places.dtype)),
    )
    went = selecting.where(
        logic.equal(places, first),
        last,
        arithmetic.subtract(places, convert(logic.greater(places, first), places.dtype)),
    )
    moved = selecting.take_along_axis(a, getitem(order, (..., None, slice(None))), axis=-1)
    first = manipulation.squeeze(first, -1)
    turns = arithmetic.subtract(1, arithmetic.multiply(2, arithmetic.mod(arithmetic.subtract(last, first), 2)))
    return moved, went, turns, logic.equal(first, last)


@_det_and_adjugate.defjvp
def _det_and_adjugate_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    # d adj(a) = (trace(adj(a) da) adj(a) − adj(a) da adj(a)) / det(a): where that loses its digits, the polynomial's.
    (a,), (da,) = primals, tangents
    value, adjugate = _det_and_adjugate(a)
    slope = _trace_of_product(adjugate, da)
    if a.shape[-1] < 2:
        return (value, adjugate), (slope, creation.zeros_like(adjugate))
    largest = arithmetic.multiply(*(_largest(x) for x in (a, adjugate)))
    precision = float(finfo(a.dtype).eps) ** 0.5
    singular = logic.less_equal(arithmetic.absolute(value), arithmetic.multiply(precision, largest))
    operands = [a, da, value, adjugate, slope, singular]
    branches = [trace_to_program(f, [aval_of(x) for x in operands]) for f in (_regular_slope, _mixed_slope)]
    (turned,) = bind_cond(branches, convert(reductions.any(singular), np.dtype(np.int32)), operands)
    return (value, adjugate), (slope, turned)


def _largest(x: Any) -> Any:
    return reductions.max(arithmetic.absolute(x), axis=(-2, -1))


def _regular_slope(a: Any, da: Any, value: Any, adjugate: Any, slope: Any, singular: Any) -> list[Any]:
    along = linear.matmul(linear.matmul(adjugate, da), adjugate)
    turned = arithmetic.subtract(arithmetic.multiply(_as_matrices(slope), adjugate), along)
    return [arithmetic.divide(turned, _as_matrices(value))]


def _mixed_slope(a: Any, da: Any, value: Any, adjugate: Any, slope: Any, singular: Any) -> list[Any]:
    (regular,) = _regular_slope(a, da, selecting.where(singular, 1, value), adjugate, slope, singular)
    polynomial = jvp(_adjugate_polynomial, (selecting.where(_as_matrices(singular), a, 0),), (da,))[1]
    return [selecting.where(_as_matrices(singular), polynomial, regular)]


def _adjugate_polynomial(a: Any) -> Any:
    """adj(a) by products and traces alone, for which a may be singular.

    Source: Faddeev and Sominsky; Householder, The Theory of Matrices in Numerical Analysis (1964), 6.7.
    """
    n = a.shape[-1]
    identity = manipulation.broadcast_to(special_matrices.eye(n, dtype=a.dtype), a.shape)

    def step(a: Any, made: Any, k: Any) -> list[Any]:
        product = linear.matmul(a, made)
        share = arithmetic.divide(linear.trace(product, 0, -2, -1), k)
        return [a, arithmetic.subtract(product, arithmetic.multiply(_as_matrices(share), identity))]

    steps = creation.arange(1, n, dtype=complex_parts.real(a).dtype)
    body = trace_to_program(step, [aval_of(a), aval_of(a), Aval((), steps.dtype)])
    _, made = bind_scan(body, [a, identity], [steps], length=n - 1, reverse=False, unroll=1)[0]
    return arithmetic.negative(made) if n % 2 == 0 else made


def _as_matrices(x: Any) -> Any:
    return getitem(x, (..., None, None))


def _in_order(x: Any, order: Any) -> Any:
    return selecting.take_along_axis(x, getitem(order, (..., None)), axis=-2)


def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """The sign of determinants, and the logarithm of their size, which does not overflow.

    Args:
        a: array of shape (..., n, n).
        method: "lu" (the default) or "qr" say how JAX computes it; here it is LU.

    Returns:
        sign: 1 or −1, of complex matrices a phase; 0 of singular ones.
        logabsdet: real; −inf of singular matrices.

    >>> import functad.numpy as jnp
    >>> sign, size = jnp.linalg.slogdet(jnp.array([[1., 2.], [3., 4.]]))
    >>> sign, jnp.exp(size).round(4)
    (Array(-1., dtype=float32), Array(2., dtype=float32))
    """
    if method not in (None, "lu", "qr"):
        raise ArgumentError(f'linalg.slogdet: method={method!r} must be None, "lu" or "qr"')
    return SlogdetResult(*_slogdet(square("slogdet", a)))


@custom_jvp
def _slogdet(a: Any) -> tuple[Any, Any]:
    factors, pivots, _ = lu(a)
    return _slogdet_of(factors, pivots)


def _slogdet_of(factors: Any, pivots: Any) -> tuple[Any, Any]:
    on_diagonal = linear.diagonal(factors, 0, -2, -1)
    size = arithmetic.absolute(on_diagonal)
    phases = arithmetic.sign(on_diagonal)
    sign = arithmetic.multiply(_parity(pivots, factors.dtype), reductions.prod(phases, axis=-1))
    return sign, reductions.sum(ufuncs.log(size), axis=-1)


@_slogdet.defjvp
def _slogdet_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    # d log det a = trace(a⁻¹ da): its real part changes the size, its imaginary part the phase.
    (a,), (da,) = primals, tangents
    factors, pivots, order = lu(a)
    sign, size = _slogdet_of(factors, pivots)
    slope = linear.trace(lu_solve(factors, order, da), 0, -2, -1)
    if kind_of(a.dtype) != "c":
        return (sign, size), (creation.zeros_like(sign), slope)
    turn = arithmetic.multiply(sign, arithmetic.subtract(slope, convert(complex_parts.real(slope), a.dtype)))
    return (sign, size), (turn, complex_parts.real(slope))


# --- systems of tensors -----------------------------------------------------------------------------------


def tensorinv(a: Any, ind: int = 2) -> Array:
    """The array that undoes `tensordot` with a over its last axes.

    Args:
        a: array whose first `ind` axes have as many elements as the others.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.tensorinv(2 * jnp.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    x, count = as_array("linalg.tensorinv", a), operator.index(ind)
    if count <= 0:
        raise ArgumentError(f"linalg.tensorinv: ind={ind} must be positive")
    first, last = x.shape[:count], x.shape[count:]
    if math.prod(first) != math.prod(last):
        raise ShapeError(
            f"linalg.tensorinv: of an array of shape {x.shape} the first {count} axes have {math.prod(first)} "
            f"elements, and the others {math.prod(last)}; both must be the same"
        )
    return manipulation.reshape(inv(manipulation.reshape(x, (math.prod(first), math.prod(last)))), (*last, *first))


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Array:
    """x with tensordot(a, x, x.ndim) = b.

    Args:
        a: array whose first axes are those of b; the others are those of x, with as many elements.
        axes: axes of a that are moved to its end first.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.tensorsolve(2 * jnp.eye(4).reshape(2, 2, 4), jnp.ones((2, 2)))
    Array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    x, y = as_array("linalg.tensorsolve", a), as_array("linalg.tensorsolve", b)
    if axes is not None:
        x = manipulation.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
    shape = x.shape[y.ndim :]
    if x.shape[: y.ndim] != y.shape or y.size != math.prod(shape):
        raise ShapeError(
            f"linalg.tensorsolve: the first axes of a, of shape {x.shape}, must be those of b, of shape {y.shape}, and "
            "its others have as many elements"
        )
    flat = manipulation.reshape(x, (y.size, y.size))
    return manipulation.reshape(solve(flat, manipulation.ravel(y)), shape)
