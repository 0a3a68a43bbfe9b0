"""The QR factorisation, with and without pivoting, and the reflections that it is made of.

Knows the derivative of Q and R.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import dtypes
from functad.dtypes import kind_of
from functad.errors import ShapeError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Example, Primitive, Zero
from functad.lowering_rules import Loops
from functad.primitives import elementwise as el
from functad.primitives.common import convert_element_type, full, normal
from functad.primitives.joining import concatenate
from functad.primitives.kernels import factorisations as kernels
from functad.primitives.linear_algebra.lu import lu, lu_solve
from functad.primitives.linear_algebra.matrices import (
    adjoint,
    batch_leading,
    block,
    calls_lapack,
    calls_numpy,
    check_matrices,
    check_numbers,
    columns_in_order,
    diagonal,
    eye,
    matmul,
    real,
    rows_of,
    tril,
)
from functad.primitives.linear_algebra.triangular import triangular_solve
from functad.primitives.loops import factorising
from functad.tracing import bind

# --- qr -----------------------------------------------------------------------------------------------


def qr(a: Any, *, pivoting: bool = False, full_matrices: bool = True) -> list[Any]:
    """Q with orthonormal columns and upper triangular R; with pivoting also the order of columns, a[:, order] = Q R."""
    return list(bind(qr_p, a, pivoting=pivoting, full_matrices=full_matrices))


def _qr_aval(a: Aval, *, pivoting: bool, full_matrices: bool) -> list[Aval]:
    check_matrices("qr", a)
    *batch, m, n = a.shape
    k = m if full_matrices else min(m, n)
    order = [Aval((*batch, n), dtypes.int32)] if pivoting else []
    return [Aval((*batch, m, k), a.dtype), Aval((*batch, k, n), a.dtype), *order]


def _qr_impl(a: np.ndarray, *, pivoting: bool, full_matrices: bool) -> list[np.ndarray]:
    return (kernels.pivoted_qr if pivoting else kernels.qr)(a, full_matrices=full_matrices)


def _qr_rule(target: Any, ins: Any, outs: Any, *, pivoting: bool, full_matrices: bool) -> None:
    if pivoting:
        target.call(kernels.pivoted_qr, ins, outs, full_matrices=full_matrices)
    else:
        _unpivoted(target, ins, outs, full_matrices=full_matrices)


_unpivoted = calls_lapack(factorising.qr, kernels.qr)


def _qr_jvp(primals: Any, outs: Any, tangents: Any, *, pivoting: bool, full_matrices: bool) -> list[Any]:
    a, da = primals[0], tangents[0]
    q, r, *order = outs
    if pivoting:
        da = columns_in_order(da, order[0])
    m, n = aval_of(da).shape[-2:]
    if m < n:
        # A = Q (R₁ R₂): the square part gives dQ and dR₁, and R₂ = Qᴴ A₂.
        a = columns_in_order(a, order[0]) if pivoting else a
        dq, first = _square_jvp(q, block(r, (0, m), (0, m)), block(da, (0, m), (0, m)))
        rest = el.add(matmul(adjoint(dq), block(a, (0, m), (m, n))), matmul(adjoint(q), block(da, (0, m), (m, n))))
        dr = concatenate([first, rest], aval_of(first).ndim - 1)
    else:
        dq, dr = _square_jvp(block(q, (0, m), (0, n)), block(r, (0, n), (0, n)), da)
        if full_matrices and m > n:
            shape = aval_of(dr).shape
            dr = concatenate([dr, full((*shape[:-2], m - n, n), aval_of(dr).dtype.type(0))], len(shape) - 2)
            dq = concatenate([dq, _rest_of_basis(q, dq, n)], len(shape) - 1)
    return [dq, dr, *(Zero(Aval(aval_of(p).shape, dtypes.float0)) for p in order)]


def _square_jvp(q: Any, r: Any, da: Any) -> tuple[Any, Any]:
    """For thin factors, m ≥ n. With C = Qᴴ dA R⁻¹: dR = (C − Ω) R and dQ = dA R⁻¹ − Q (C − Ω), Ω skew-Hermitian."""
    moved = triangular_solve(r, da)
    inner = matmul(adjoint(q), moved)
    below = tril(inner, -1)
    skew = el.sub(below, adjoint(below))
    aval = aval_of(inner)
    if kind_of(aval.dtype) == "c":  # R keeps a real diagonal
        on_diagonal = diagonal(inner)
        imaginary = el.sub(on_diagonal, convert_element_type(real(on_diagonal), aval.dtype))
        skew = el.add(skew, el.mul(eye(aval.shape, aval.dtype), rows_of(imaginary, aval.shape)))
    upper = el.sub(inner, skew)
    return el.sub(moved, matmul(q, upper)), matmul(upper, r)


def _rest_of_basis(q: Any, dq: Any, n: int) -> Any:
    """The tangent of the columns of a square Q that span what the first n leave free.

    A product of n reflections is Q = I − W Y, and so its last columns follow from the first: with Q₁ above and Q₂
    below in the first n columns, Z = Q₂ (Q₁ − I)⁻¹ gives dQ_rest = dQ_first Zᴴ − (Q_first + Q_rest Z) (dQ₂ − Z dQ₁)ᴴ.
    """
    m = aval_of(q).shape[-1]
    top, bottom = block(q, (0, n), (0, n)), block(q, (n, m), (0, n))
    aval = aval_of(top)
    factors, _, order = lu(el.sub(top, eye(aval.shape, aval.dtype)))
    z = adjoint(lu_solve(factors, order, adjoint(bottom), trans=2))
    first, rest = block(q, (0, m), (0, n)), block(q, (0, m), (n, m))
    d_top, d_bottom = block(dq, (0, n), (0, n)), block(dq, (n, m), (0, n))
    across = adjoint(el.sub(d_bottom, matmul(z, d_top)))
    return el.sub(matmul(dq, adjoint(z)), matmul(el.add(first, matmul(rest, z)), across))


def _qr_example(*shape: int, pivoting: bool = False, full_matrices: bool = False, **changes: Any) -> Example:
    return Example(args=(normal(*shape),), params={"pivoting": pivoting, "full_matrices": full_matrices}, **changes)


qr_p = Primitive(
    name="qr",
    doc="QR factorisation: orthonormal columns times an upper triangle.",
    multiple_results=True,
    abstract_eval=_qr_aval,
    impl=_qr_impl,
    jvp=_qr_jvp,
    transpose=Absent("the factors are not linear in the matrix; their derivative has a transpose"),
    batch=batch_leading(qr, lambda **params: 2 + params["pivoting"]),
    lower=Loops(_qr_rule),
    examples=lambda: [
        _qr_example(3, 3),
        _qr_example(4, 2),
        _qr_example(4, 2, full_matrices=True),
        _qr_example(2, 2, 3),
        _qr_example(4, 3, pivoting=True),
        _qr_example(2, 3, pivoting=True, full_matrices=True),
        _qr_example(3, 0, full_matrices=True, differentiable=False),
        Example(
            args=(np.ones((1, 1), np.float32),),
            params={"pivoting": False, "full_matrices": False},
            along=([[1]],),
            agreed=(1, 0, 0),
        ),
    ],
)

# --- geqrf, geqp3, householder_product -------------------------------------------------------------------


def geqrf(a: Any) -> tuple[Any, Any]:
    """R with the vectors of the reflections below it, and their factors.

    >>> import functad, functad.numpy as jnp
    >>> packed, factors = functad.lax.linalg.geqrf(jnp.array([[3.0], [4.0]]))
    >>> abs(packed[0, 0])
    Array(5., dtype=float32)
    """
    packed, taus = bind(geqrf_p, a)
    return packed, taus


def _geqrf_aval(a: Aval) -> list[Aval]:
    check_matrices("geqrf", a)
    return [Aval(a.shape, a.dtype), Aval((*a.shape[:-2], min(a.shape[-2:])), a.dtype)]


_NO_JVP = Absent("reflections are a step on the way to Q and R; differentiate lax.linalg.qr instead")
_NO_TRANSPOSE = Absent("it is not linear")

geqrf_p = Primitive(
    name="geqrf",
    doc="The reflections of a QR factorisation, and R.",
    multiple_results=True,
    abstract_eval=_geqrf_aval,
    impl=kernels.geqrf,
    jvp=_NO_JVP,
    transpose=_NO_TRANSPOSE,
    batch=batch_leading(geqrf, 2),
    lower=Loops(calls_lapack(factorising.geqrf, kernels.geqrf)),
    examples=lambda: [
        Example(args=(normal(3, 2),), params={}),
        Example(args=(normal(2, 2, 3),), params={}),
        Example(args=(normal(0, 2),), params={}),
    ],
)


def geqp3(a: Any, jpvt: Any) -> tuple[Any, Any, Any]:
    """As `geqrf` for a of shape (..., m, n), with columns in the order in which the diagonal of R decreases.

    jpvt: integers of shape (..., n): columns that are not 0 there come first. The order is counted from 1.

    >>> import functad, functad.numpy as jnp
    >>> packed, order, factors = functad.lax.linalg.geqp3(jnp.array([[1.0, 2.0]]), jnp.zeros(2, int))
    >>> order
    Array([2, 1], dtype=int32)
    """
    packed, order, taus = bind(geqp3_p, a, jpvt)
    return packed, order, taus


def _geqp3_aval(a: Aval, jpvt: Aval) -> list[Aval]:
    check_matrices("geqp3", a)
    if jpvt.shape != (*a.shape[:-2], a.shape[-1]) or kind_of(jpvt.dtype) != "i":
        raise ShapeError(f"geqp3: for a of type {a.str_short()}, jpvt must have an integer for each column, got {jpvt}")
    return [Aval(a.shape, a.dtype), Aval(jpvt.shape, dtypes.int32), _geqrf_aval(a)[1]]


geqp3_p = Primitive(
    name="geqp3",
    doc="The reflections of a QR factorisation with pivoting, R, and the order of columns.",
    multiple_results=True,
    abstract_eval=_geqp3_aval,
    impl=kernels.geqp3,
    jvp=_NO_JVP,
    transpose=_NO_TRANSPOSE,
    batch=batch_leading(geqp3, 3),
    lower=calls_numpy(kernels.geqp3),
    examples=lambda: [
        Example(args=(normal(3, 2), np.zeros(2, np.int32)), params={}),
        Example(args=(normal(2, 2, 3), np.array([[0, 0, 1], [0, 0, 0]], np.int32)), params={}),
    ],
)


def householder_product(a: Any, taus: Any) -> Any:
    """The first columns of the product of the reflections that `geqrf` gives."""
    return bind(householder_product_p, a, taus)


def _householder_aval(a: Aval, taus: Aval) -> Aval:
    check_matrices("householder_product", a)
    check_numbers("householder_product", a, taus)
    if a.shape[-2] < a.shape[-1] or taus.shape[:-1] != a.shape[:-2] or taus.shape[-1] > a.shape[-1]:
        raise ShapeError(
            "householder_product takes a of shape (..., m, n) with m >= n and taus of shape (..., k) with k <= n, but "
            f"was given {a.shape} and {taus.shape}"
        )
    return Aval(a.shape, a.dtype)


def _reflections(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    packed, taus = kernels.geqrf(normal(*shape))
    return packed, taus


householder_product_p = Primitive(
    name="householder_product",
    doc="The columns of a product of reflections.",
    multiple_results=False,
    abstract_eval=_householder_aval,
    impl=kernels.householder_product,
    jvp=_NO_JVP,
    transpose=_NO_TRANSPOSE,
    batch=batch_leading(householder_product, 0),
    lower=Loops(calls_lapack(factorising.householder_product, kernels.householder_product)),
    examples=lambda: [
        Example(args=_reflections(4, 2), params={}),
        Example(args=_reflections(2, 3, 3), params={}),
        Example(args=(normal(3, 0), normal(0)), params={}),
    ],
)
