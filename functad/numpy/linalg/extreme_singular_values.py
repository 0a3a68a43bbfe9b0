"""The largest and the least singular value of matrices.

Knows their derivatives of all orders where that one differs from the others, which may be equal among themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from functad.api.custom_rules import custom_jvp
from functad.numpy import arithmetic, complex_parts, creation, linear, logic, reductions
from functad.numpy.concatenation import concatenate
from functad.numpy.indexing import getitem
from functad.numpy.linalg.factorisations import adjoint, svd, svdvals
from functad.numpy.linalg.systems import solve
from functad.numpy.promotion import convert
from functad.numpy.special_matrices import eye

LARGEST, LEAST = 0, -1


@partial(custom_jvp, nondiff_argnums=(1,))
def singular_value(a: Any, which: int) -> Any:
    """The LARGEST or LEAST singular value of matrices of shape (..., m, n) with elements.

    >>> import functad.numpy as jnp
    >>> singular_value(jnp.array([[3., 0.], [0., -4.]]), LEAST).round(4)
    Array(3., dtype=float32)
    """
    return getitem(svdvals(a), (..., which))


@singular_value.defjvp
def _value_jvp(which: int, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    # dσ = Re trace((u vᴴ)ᴴ dA)
    (a,), (da,) = primals, tangents
    aligned = arithmetic.multiply(complex_parts.conj(_dyad(a, which)), da)
    return singular_value(a, which), complex_parts.real(reductions.sum(aligned, axis=(-2, -1)))


@partial(custom_jvp, nondiff_argnums=(1,))
def _dyad(a: Any, which: int) -> Any:
    """u vᴴ of the singular vectors; where several values are the extreme one, the mean of all theirs."""
    u, s, vh = svd(a, full_matrices=False)
    ties = convert(logic.equal(s, getitem(s, (..., [which]))), a.dtype)
    weights = arithmetic.divide(ties, reductions.sum(ties, axis=-1, keepdims=True))
    return linear.matmul(arithmetic.multiply(u, getitem(weights, (..., None, slice(None)))), vh)


@_dyad.defjvp
def _dyad_jvp(which: int, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (a,), (da,) = primals, tangents
    triple = _triple(a, which)
    _, u, v = triple
    _, du, dv = _moved(a, triple, da)
    return _dyad(a, which), arithmetic.add(linear.matmul(du, adjoint(v)), linear.matmul(u, adjoint(dv)))


@partial(custom_jvp, nondiff_argnums=(1,))
def _triple(a: Any, which: int) -> tuple[Any, Any, Any]:
    """The singular value, of shape (..., 1, 1), and its vectors as columns."""
    u, s, vh = svd(a, full_matrices=False)
    place = (..., slice(None), [which])
    return getitem(s, (..., None, [which])), getitem(u, place), getitem(adjoint(vh), place)


@_triple.defjvp
def _triple_jvp(which: int, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (a,), (da,) = primals, tangents
    triple = _triple(a, which)
    return triple, _moved(a, triple, da)


def _moved(a: Any, triple: tuple[Any, Any, Any], da: Any) -> tuple[Any, Any, Any]:
    """How a simple singular value and its vectors change with a.

    With H = (0 a; aᴴ 0) and x = (u; v), (H − σ) dx = (dσ − dH) x where xᴴ dx = 0: no other singular value is looked at.
    """
    value, u, v = triple
    m = a.shape[-2]
    x = concatenate([u, v], axis=-2)
    dx = concatenate([linear.matmul(da, v), linear.matmul(adjoint(da), u)], axis=-2)
    slope = complex_parts.real(linear.matmul(adjoint(u), linear.matmul(da, v)))
    right = arithmetic.subtract(arithmetic.multiply(convert(slope, a.dtype), x), dx)
    moved = solve(_bordered(a, value, x), concatenate([right, _zeros(right, 1)], axis=-2))
    return slope, getitem(moved, (..., slice(m), slice(None))), getitem(moved, (..., slice(m, -1), slice(None)))


def _bordered(a: Any, value: Any, x: Any) -> Any:
    """(H − σ, x; xᴴ, 0), which can be inverted if σ is simple."""
    m, n = a.shape[-2:]
    upper = concatenate([_zeros(a, m, m), a], axis=-1)
    lower = concatenate([adjoint(a), _zeros(a, n, n)], axis=-1)
    inner = arithmetic.subtract(
        concatenate([upper, lower], axis=-2), arithmetic.multiply(convert(value, a.dtype), eye(m + n, dtype=a.dtype))
    )
    rows = concatenate([inner, adjoint(x)], axis=-2)
    return concatenate([rows, concatenate([x, _zeros(a, 1, 1)], axis=-2)], axis=-1)


def _zeros(like: Any, rows: int, columns: int = 1) -> Any:
    return creation.zeros((*like.shape[:-2], rows, columns), like.dtype)
