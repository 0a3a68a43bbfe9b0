"""The Cholesky factor of positive definite matrices.

Knows the derivative of the factor; systems with it are solved by `triangular_solve`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.ir import Absent, Aval, Example, Primitive
from functad.primitives import elementwise as el
from functad.primitives.common import scalar_like
from functad.primitives.kernels import factorisations as kernels
from functad.primitives.linear_algebra.matrices import (
    batch_leading,
    calls_lapack,
    check_matrices,
    eye,
    hermitian,
    matmul,
    positive_definite,
    tril,
)
from functad.primitives.linear_algebra.triangular import triangular_solve
from functad.primitives.loops import factorising
from functad.primitives.loops.small_matrices import cholesky_rule, small_or
from functad.tracing import bind


def cholesky(a: Any) -> Any:
    """The lower triangular L with positive diagonal and L Lᴴ = a; only the lower triangle of a is read."""
    return bind(cholesky_p, a)


def _cholesky_aval(a: Aval) -> Aval:
    check_matrices("cholesky", a, square=True)
    return Aval(a.shape, a.dtype)


def _cholesky_jvp(primals: Any, out: Any, tangents: Any) -> Any:
    # dL = L φ(L⁻¹ dA L⁻ᴴ), where φ takes the lower triangle and half of the diagonal.
    right = triangular_solve(out, hermitian(tangents[0], lower=True), lower=True, transpose_a=True, conjugate_a=True)
    middle = triangular_solve(out, right, left_side=True, lower=True)
    halved = el.add(eye(middle.shape, middle.dtype), scalar_like(middle, 1))
    return matmul(out, el.div(tril(middle), halved))


cholesky_p = Primitive(
    name="cholesky",
    doc="The lower Cholesky factor of Hermitian positive definite matrices; NaN for others.",
    multiple_results=False,
    abstract_eval=_cholesky_aval,
    impl=kernels.cholesky,
    jvp=_cholesky_jvp,
    transpose=Absent("the Cholesky factor is not linear in the matrix; its derivative has a transpose"),
    batch=batch_leading(cholesky, 0),
    lower=small_or(cholesky_rule, calls_lapack(factorising.cholesky, kernels.cholesky)),
    examples=lambda: [
        Example(args=(positive_definite(3, 3),), params={}),
        Example(args=(positive_definite(2, 2, 2),), params={}),
        Example(args=(np.array([[1, 2], [2, 1]], np.float32),), params={}, differentiable=False),
        Example(args=(np.zeros((0, 0), np.float32),), params={}),
        # √x at 1
        Example(args=(np.ones((1, 1), np.float32),), params={}, along=([[1]],), agreed=(1 / 2, -1 / 4, 3 / 8)),
    ],
)
