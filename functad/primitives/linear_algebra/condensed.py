"""Forms that unitary transformations reach: `schur`, `hessenberg`, `tridiagonal`.

Knows no derivative of theirs: JAX has none either.
"""

from __future__ import annotations

from typing import Any

from functad.errors import ArgumentError
from functad.ir import Absent, Aval, Example, Primitive
from functad.primitives.common import normal
from functad.primitives.kernels import spectra as kernels
from functad.primitives.linear_algebra.matrices import batch_leading, calls_numpy, check_matrices, real_dtype
from functad.tracing import bind

_NO_JVP = Absent("no derivative of such a form is known here, nor in JAX; eigenvalues have one, and expm and solve")
_NO_TRANSPOSE = Absent("it is not linear")

# --- schur --------------------------------------------------------------------------------------------


def schur(a: Any, *, compute_schur_vectors: bool = True) -> list[Any]:
    """T, upper triangular but for blocks of 2x2 of real matrices, and Q, unitary, with a = Q T Qᴴ."""
    return list(bind(schur_p, a, compute_schur_vectors=compute_schur_vectors))


def _schur_aval(a: Aval, *, compute_schur_vectors: bool) -> list[Aval]:
    check_matrices("schur", a, square=True)
    return [Aval(a.shape, a.dtype)] * (1 + compute_schur_vectors)


schur_p = Primitive(
    name="schur",
    doc="The Schur form of square matrices.",
    multiple_results=True,
    abstract_eval=_schur_aval,
    impl=kernels.schur,
    jvp=_NO_JVP,
    transpose=_NO_TRANSPOSE,
    batch=batch_leading(schur, lambda **params: 1 + params["compute_schur_vectors"]),
    lower=calls_numpy(kernels.schur),
    examples=lambda: [
        Example(args=(normal(3, 3),), params={"compute_schur_vectors": True}),
        Example(args=(normal(2, 2, 2),), params={"compute_schur_vectors": False}),
        Example(args=(normal(0, 0),), params={"compute_schur_vectors": True}),
    ],
)

# --- hessenberg ---------------------------------------------------------------------------------------


def hessenberg(a: Any) -> list[Any]:
    """The Hessenberg form with the vectors of reflections below it, and their factors."""
    return list(bind(hessenberg_p, a))


def _hessenberg_aval(a: Aval) -> list[Aval]:
    check_matrices("hessenberg", a, square=True)
    return [Aval(a.shape, a.dtype), Aval((*a.shape[:-2], max(a.shape[-1] - 1, 0)), a.dtype)]


hessenberg_p = Primitive(
    name="hessenberg",
    doc="The Hessenberg form of square matrices, and the reflections that make it.",
    multiple_results=True,
    abstract_eval=_hessenberg_aval,
    impl=kernels.hessenberg,
    jvp=_NO_JVP,
    transpose=_NO_TRANSPOSE,
    batch=batch_leading(hessenberg, 2),
    lower=calls_numpy(kernels.hessenberg),
    examples=lambda: [
        Example(args=(normal(4, 4),), params={}),
        Example(args=(normal(2, 3, 3),), params={}),
        Example(args=(normal(1, 1),), params={}),
    ],
)

# --- tridiagonal --------------------------------------------------------------------------------------


def tridiagonal(a: Any, *, lower: bool = True) -> list[Any]:
    """Reflections that make Hermitian matrices tridiagonal, the diagonal, the one beside it, and their factors."""
    return list(bind(tridiagonal_p, a, lower=lower))


def _tridiagonal_aval(a: Aval, *, lower: bool) -> list[Aval]:
    check_matrices("tridiagonal", a, square=True)
    *batch, n, _ = a.shape
    if not n:
        raise ArgumentError(f"tridiagonal takes matrices of at least one row, but was given {a.str_short()}")
    diagonals = [Aval((*batch, k), real_dtype(a.dtype)) for k in (n, n - 1)]
    return [Aval(a.shape, a.dtype), *diagonals, Aval((*batch, n - 1), a.dtype)]


tridiagonal_p = Primitive(
    name="tridiagonal",
    doc="The tridiagonal form of Hermitian matrices, and the reflections that make it.",
    multiple_results=True,
    abstract_eval=_tridiagonal_aval,
    impl=kernels.tridiagonal,
    jvp=_NO_JVP,
    transpose=_NO_TRANSPOSE,
    batch=batch_leading(tridiagonal, 4),
    lower=calls_numpy(kernels.tridiagonal),
    examples=lambda: [
        Example(args=(normal(4, 4),), params={"lower": True}),
        Example(args=(normal(2, 3, 3),), params={"lower": False}),
        Example(args=(normal(1, 1),), params={"lower": True}),
    ],
)
