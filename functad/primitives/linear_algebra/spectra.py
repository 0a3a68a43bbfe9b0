"""Eigenvalues and singular values: `eigh`, `svd`, `eig`.

Knows the derivatives where eigenvalues are simple. Vectors of equal ones are not determined, and have none: dV and dw
that are linear in dA cannot give V f(w) Vᴴ its derivative there, and zeros in the place of 1/0 would make it wrong.
Nor can they give symmetric functions of k equal ones a second derivative, which depends on all k (k + 1) / 2 elements
of their block of Vᴴ dA V, while dw carries k numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.errors import DifferentiationError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Example, Primitive
from functad.lowering_rules import Loops
from functad.primitives import elementwise as el
from functad.primitives import positions
from functad.primitives.common import broadcast_in_dim, convert_element_type, full_like, normal, reduce_sum, scalar_like
from functad.primitives.kernels import spectra as kernels
from functad.primitives.linear_algebra.lu import lu, lu_solve
from functad.primitives.linear_algebra.matrices import (
    adjoint,
    batch_leading,
    calls_lapack,
    calls_numpy,
    check_matrices,
    columns_of,
    diagonal,
    eye,
    hermitian,
    matmul,
    positive_definite,
    real,
    real_dtype,
    reciprocal_or_zero,
    rows_of,
)
from functad.primitives.loops import factorising
from functad.primitives.structure import iota
from functad.tracing import bind

_NOT_LINEAR = Absent("it is not linear; its derivative has a transpose")

# --- eigh ---------------------------------------------------------------------------------------------


def eigh(a: Any, *, lower: bool = True) -> list[Any]:
    """Eigenvectors as columns, and ascending eigenvalues, of Hermitian matrices, of which one triangle is read."""
    return list(bind(eigh_p, a, lower=lower))


def _eigh_aval(a: Aval, *, lower: bool) -> list[Aval]:
    check_matrices("eigh", a, square=True)
    return [Aval(a.shape, a.dtype), Aval(a.shape[:-1], real_dtype(a.dtype))]


def _eigh_jvp(primals: Any, outs: Any, tangents: Any, *, lower: bool) -> list[Any]:
    # With M = Vᴴ dA V: dw = diag M, and dV = V (F ∘ M), where F_ij = 1/(w_j − w_i), and 0 on the diagonal.
    v, w = outs
    shape = aval_of(v).shape
    moved = matmul(matmul(adjoint(v), hermitian(tangents[0], lower)), v)
    gaps = el.sub(rows_of(w, shape), columns_of(w, shape))
    factor = convert_element_type(reciprocal_or_zero(gaps), aval_of(v).dtype)
    return [matmul(v, el.mul(factor, moved)), real(diagonal(moved))]


eigh_p = Primitive(
    name="eigh",
    doc="Eigenvectors and eigenvalues of Hermitian matrices.",
    multiple_results=True,
    abstract_eval=_eigh_aval,
    impl=kernels.eigh,
    jvp=_eigh_jvp,
    transpose=_NOT_LINEAR,
    batch=batch_leading(eigh, 2),
    lower=Loops(calls_lapack(factorising.eigh, kernels.eigh)),
    examples=lambda: [
        Example(args=(positive_definite(3, 3),), params={"lower": True}),
        Example(args=(normal(2, 2, 2),), params={"lower": False}),
        Example(args=(np.full((2, 2), np.nan, np.float32),), params={"lower": True}, differentiable=False),
        Example(args=(np.zeros((0, 0), np.float32),), params={"lower": True}, differentiable=False),
        Example(args=(np.zeros((1, 1), np.float32),), params={"lower": True}, along=([[1]],), agreed=(1, 0, 0)),
    ],
)

# --- svd ----------------------------------------------------------------------------------------------


def svd(a: Any, *, full_matrices: bool = True, compute_uv: bool = True) -> list[Any]:
    """Descending singular values, and with `compute_uv` U and Vᴴ with a = U diag(s) Vᴴ."""
    return list(bind(svd_p, a, full_matrices=full_matrices, compute_uv=compute_uv))


def _svd_aval(a: Aval, *, full_matrices: bool, compute_uv: bool) -> list[Aval]:
    check_matrices("svd", a)
    *batch, m, n = a.shape
    k = min(m, n)
    values = Aval((*batch, k), real_dtype(a.dtype))
    if not compute_uv:
        return [values]
    u, vt = (m, m if full_matrices else k), (n if full_matrices else k, n)
    return [values, Aval((*batch, *u), a.dtype), Aval((*batch, *vt), a.dtype)]


def _svd_jvp(primals: Any, outs: Any, tangents: Any, *, full_matrices: bool, compute_uv: bool) -> list[Any]:
    # With D = Uᴴ dA V and S = diag(s): ds = Re diag D, and U and V turn by what is skew in F ∘ (D S), F ∘ (S D),
    # where F_ij = 1/(s_j² − s_i²); where A is not square, also by what leaves the space of their columns.
    a, da = primals[0], tangents[0]
    m, n = aval_of(a).shape[-2:]
    if compute_uv and full_matrices and m != n:
        raise DifferentiationError(
            f"svd of matrices of shape {(m, n)} has no derivative with full_matrices=True: the vectors beyond the "
            f"first {min(m, n)} are not determined; use full_matrices=False"
        )
    s, u, vt = outs if compute_uv else svd(a, full_matrices=False)
    uh, v = adjoint(u), adjoint(vt)
    inner = matmul(matmul(uh, da), v)
    ds = real(diagonal(inner))
    if not compute_uv:
        return [ds]
    shape, dtype = aval_of(inner).shape, aval_of(inner).dtype
    across, down = rows_of(s, shape), columns_of(s, shape)
    factor = reciprocal_or_zero(el.mul(el.add(across, down), el.sub(across, down)))
    factor, across, down = (convert_element_type(x, dtype) for x in (factor, across, down))
    left, right = el.mul(across, inner), el.mul(down, inner)
    turn_u = el.mul(factor, el.add(left, adjoint(left)))
    turn_v = el.mul(factor, el.add(right, adjoint(right)))
    if kind_of(dtype) == "c":
        phase = el.mul(el.sub(inner, adjoint(inner)), eye(shape, dtype))
        turn_u = el.add(turn_u, el.mul(phase, _inverse_or_zero(across, scale=0.5)))
    du, dv = matmul(u, turn_u), matmul(v, turn_v)
    if m > n:
        outside = matmul(da, v)
        du = el.add(du, _over(el.sub(outside, matmul(u, matmul(uh, outside))), s))
    if n > m:
        outside = matmul(adjoint(da), u)
        dv = el.add(dv, _over(el.sub(outside, matmul(v, matmul(vt, outside))), s))
    return [ds, du, adjoint(dv)]


def _over(x: Any, s: Any) -> Any:
    """The columns of x divided by singular values."""
    aval = aval_of(x)
    return el.div(x, convert_element_type(rows_of(s, aval.shape), aval.dtype))


def _inverse_or_zero(x: Any, scale: float) -> Any:
    """scale/x, 0 where x is 0."""
    zero = scalar_like(x, 0)
    is_zero = el.eq(x, zero)
    shape = aval_of(x).shape
    ones, zeros = (broadcast_in_dim(scalar_like(x, c), shape=shape, broadcast_dimensions=()) for c in (1, 0))
    return el.select_n(is_zero, el.div(scalar_like(x, scale), el.select_n(is_zero, x, ones)), zeros)


def _svd_example(*shape: int, full_matrices: bool = False, compute_uv: bool = True, **changes: Any) -> Example:
    params = {"full_matrices": full_matrices, "compute_uv": compute_uv}
    return Example(args=(normal(*shape),), params=params, **changes)


svd_p = Primitive(
    name="svd",
    doc="Singular values and vectors.",
    multiple_results=True,
    abstract_eval=_svd_aval,
    impl=kernels.svd,
    jvp=_svd_jvp,
    transpose=_NOT_LINEAR,
    batch=batch_leading(svd, lambda **params: 3 if params["compute_uv"] else 1),
    lower=Loops(calls_lapack(factorising.svd, kernels.svd)),
    examples=lambda: [
        _svd_example(3, 3),
        _svd_example(4, 2),
        _svd_example(2, 2, 3),
        _svd_example(3, 2, compute_uv=False),
        _svd_example(2, 2, full_matrices=True),
        _svd_example(0, 2, differentiable=False),
        Example(
            args=(np.ones((1, 1), np.float32),),
            params={"full_matrices": False, "compute_uv": False},
            along=([[1]],),
            agreed=(1, 0, 0),
        ),
    ],
)

# --- eig ----------------------------------------------------------------------------------------------


def eig(
    a: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
) -> list[Any]:
    """Complex eigenvalues, and left and right eigenvectors of length 1 whose largest component is real."""
    return list(
        bind(
            eig_p, a, compute_left_eigenvectors=compute_left_eigenvectors,
            compute_right_eigenvectors=compute_right_eigenvectors, enable_eigvec_derivs=enable_eigvec_derivs,
        )
    )  # fmt: skip


def _eig_aval(
    a: Aval, *, compute_left_eigenvectors: bool, compute_right_eigenvectors: bool, enable_eigvec_derivs: bool
) -> list[Aval]:
    check_matrices("eig", a, square=True)
    dtype = np.result_type(a.dtype, np.complex64)
    return [Aval(a.shape[:-1], dtype)] + [Aval(a.shape, dtype)] * (
        compute_left_eigenvectors + compute_right_eigenvectors
    )


def _eig_impl(a: np.ndarray, *, enable_eigvec_derivs: bool, **wanted: bool) -> list[np.ndarray]:
    return kernels.eig(a, **wanted)


def _eig_jvp(
    primals: Any,
    outs: Any,
    tangents: Any,
    *,
    compute_left_eigenvectors: bool,
    compute_right_eigenvectors: bool,
    enable_eigvec_derivs: bool,
) -> list[Any]:
    a, (w, *vectors) = primals[0], outs
    if not aval_of(a).size:
        return [full_like(x, 0) for x in outs]
    if vectors and not enable_eigvec_derivs:
        raise DifferentiationError(
            "eig: eigenvectors of matrices that are not symmetric have a derivative only where all eigenvalues differ, "
            "which cannot be checked; if they do, say lax.linalg.eig(…, enable_eigvec_derivs=True). Eigenvalues alone "
            "have one: numpy.linalg.eigvals; of symmetric matrices take eigh"
        )
    da = convert_element_type(tangents[0], aval_of(w).dtype)
    if not vectors:
        v = eig(a, compute_left_eigenvectors=False, enable_eigvec_derivs=True)[1]
        return [diagonal(_in_basis(v, da))]
    results = []
    if compute_left_eigenvectors:
        # Those of A are the right ones of Aᴴ, whose eigenvalues are the conjugate ones.
        dw, dv = _vector_jvp(el.conj(w), vectors[0], adjoint(da))
        dw = el.conj(dw)
        results.append(dv)
    if compute_right_eigenvectors:
        dw, dv = _vector_jvp(w, vectors[-1], da)
        results.append(dv)
    return [dw, *results]


def _in_basis(v: Any, da: Any) -> Any:
    factors, _, order = lu(v)
    return matmul(lu_solve(factors, order, da), v)


def _vector_jvp(w: Any, v: Any, da: Any) -> tuple[Any, Any]:
    """With P = V⁻¹ dA V: dw = diag P, dV = V (F ∘ P) and of each vector as much as keeps its length and phase."""
    shape, dtype = aval_of(v).shape, aval_of(v).dtype
    n = len(shape)
    inner = _in_basis(v, da)
    factor = reciprocal_or_zero(el.sub(rows_of(w, shape), columns_of(w, shape)))
    moved = matmul(v, el.mul(factor, inner))
    largest = positions.argmax(el.abs(v), axis=n - 2, index_dtype=np.int32)
    is_largest = el.eq(iota(np.int32, shape, n - 2), rows_of(largest, shape))
    mask = convert_element_type(is_largest, dtype)
    along = reduce_sum(el.mul(el.conj(v), moved), axes=(n - 2,))
    turn = el.div(
        el.imag(reduce_sum(el.mul(mask, moved), axes=(n - 2,))), el.real(reduce_sum(el.mul(mask, v), axes=(n - 2,)))
    )
    back = el.complex(el.neg(el.real(along)), el.neg(turn))
    return diagonal(inner), el.add(moved, el.mul(v, rows_of(back, shape)))


def _eig_example(*shape: int, left: bool, right: bool, **changes: Any) -> Example:
    params = {"compute_left_eigenvectors": left, "compute_right_eigenvectors": right, "enable_eigvec_derivs": True}
    return Example(args=(normal(*shape),), params=params, **changes)


eig_p = Primitive(
    name="eig",
    doc="Eigenvalues and eigenvectors of any square matrices, always complex.",
    multiple_results=True,
    abstract_eval=_eig_aval,
    impl=_eig_impl,
    jvp=_eig_jvp,
    transpose=_NOT_LINEAR,
    batch=batch_leading(
        eig, lambda **params: 1 + params["compute_left_eigenvectors"] + params["compute_right_eigenvectors"]
    ),
    lower=calls_numpy(_eig_impl),
    examples=lambda: [
        _eig_example(3, 3, left=True, right=True),
        _eig_example(2, 2, 2, left=False, right=True),
        _eig_example(2, 2, left=False, right=False),
        _eig_example(0, 0, left=True, right=False, differentiable=False),
        Example(
            args=(np.zeros((1, 1), np.float32),),
            params={
                "compute_left_eigenvectors": False,
                "compute_right_eigenvectors": False,
                "enable_eigvec_derivs": False,
            },
            along=([[1]],),
            agreed=(1, 0, 0),
        ),
    ],
)
