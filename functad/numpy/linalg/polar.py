"""The polar factors of matrices, and the sum of their singular values, which is a trace of one of them.

Knows derivatives that singular vectors have not where singular values are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.api.custom_rules import custom_jvp
from functad.api.implicit import custom_linear_solve
from functad.numpy import arithmetic, complex_parts, linear, manipulation, reductions
from functad.numpy.indexing import getitem
from functad.numpy.linalg.factorisations import adjoint, eigh, svd, svdvals
from functad.numpy.linalg.systems import solve
from functad.numpy.promotion import convert


@custom_jvp
def polar(a: Any) -> tuple[Any, Any]:
    """P with orthonormal columns and positive semidefinite H with a = P H, for a of shape (..., m, n) with m ≥ n.

    Source: of the derivative Higham, Functions of Matrices (SIAM 2008), section 8.1.

    >>> import functad.numpy as jnp
    >>> polar(jnp.array([[-2.]]))
    (Array([[-1.]], dtype=float32), Array([[2.]], dtype=float32))
    """
    u, s, vh = svd(a, full_matrices=False)
    return linear.matmul(u, vh), linear.matmul(
        arithmetic.multiply(adjoint(vh), convert(getitem(s, (..., None, slice(None))), a.dtype)), vh
    )


@polar.defjvp
def _polar_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    # With B = Pᴴ dA and H X + X H = B − Bᴴ: dH = B − X H, and dP = P X + (dA − P B) H⁻¹.
    (a,), (da,) = primals, tangents
    p, h = polar(a)
    b = linear.matmul(adjoint(p), da)
    x = _skew_solution(h, arithmetic.subtract(b, adjoint(b)))
    dp = linear.matmul(p, x)
    if a.shape[-2] > a.shape[-1]:
        outside = arithmetic.subtract(da, linear.matmul(p, b))
        dp = arithmetic.add(dp, adjoint(solve(h, adjoint(outside))))
    return (p, h), (dp, arithmetic.subtract(b, linear.matmul(x, h)))


def _skew_solution(h: Any, right: Any) -> Any:
    """X with H X + X H = R for positive definite H: in its eigenvectors R_ij / (h_i + h_j).

    Derivatives solve again, so that eigenvectors have none.
    """
    values, vectors = eigh(h)
    sums = arithmetic.add(getitem(values, (..., None)), getitem(values, (..., None, slice(None))))

    def both_sides(x: Any) -> Any:
        return arithmetic.add(linear.matmul(h, x), linear.matmul(x, h))

    def solution(_: Any, r: Any) -> Any:
        inner = linear.matmul(linear.matmul(adjoint(vectors), r), vectors)
        inner = arithmetic.divide(inner, convert(sums, inner.dtype))
        return linear.matmul(linear.matmul(vectors, inner), adjoint(vectors))

    def transposed(_: Any, r: Any) -> Any:
        return complex_parts.conj(solution(_, complex_parts.conj(r)))

    return custom_linear_solve(both_sides, right, solution, transposed)


@custom_jvp
def nuclear_norm(a: Any) -> Any:
    """The sum of the singular values.

    >>> import functad.numpy as jnp
    >>> nuclear_norm(jnp.array([[3., 0.], [0., -4.]])).round(4)
    Array(7., dtype=float32)
    """
    return reductions.sum(svdvals(a), axis=-1)


@nuclear_norm.defjvp
def _nuclear_norm_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    # d Σ s = Re trace(Pᴴ dA)
    (a,), (da,) = primals, tangents
    if a.shape[-2] < a.shape[-1]:
        a, da = manipulation.swapaxes(a, -1, -2), manipulation.swapaxes(da, -1, -2)
    p, _ = polar(a)
    return nuclear_norm(a), complex_parts.real(
        reductions.sum(arithmetic.multiply(complex_parts.conj(p), da), axis=(-2, -1))
    )
