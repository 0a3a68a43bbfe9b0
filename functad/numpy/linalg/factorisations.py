"""Factorisations of matrices: Cholesky, QR, singular values, eigenvalues.

Knows the primitives of linear algebra, and NumPy's names and results.
"""

from __future__ import annotations

from typing import Any

from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.numpy import arithmetic, complex_parts, logic, manipulation, selecting, sorting
from functad.numpy.building import as_array
from functad.numpy.promotion import promote_args_inexact
from functad.numpy.selecting import take_along_axis
from functad.primitives.linear_algebra import cholesky as cholesky_primitive
from functad.primitives.linear_algebra import qr as qr_primitive
from functad.primitives.linear_algebra import spectra
from functad.records import NamedTuple


class QRResult(NamedTuple):
    """What `qr` gives: Q of shape (..., m, k) and R of shape (..., k, n)."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """What `svd` gives: U of shape (..., m, k), S of shape (..., k), Vh of shape (..., k, n)."""

    U: Any
    S: Any
    Vh: Any


class EigResult(NamedTuple):
    """What `eig` gives: eigenvalues of shape (..., n), and eigenvectors as columns of shape (..., n, n)."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """What `eigh` gives: eigenvalues of shape (..., n), and eigenvectors as columns of shape (..., n, n)."""

    eigenvalues: Any
    eigenvectors: Any


def matrices(name: str, x: Any) -> Any:
    """An argument as matrices of numbers that are not integers."""
    (v,) = promote_args_inexact(f"linalg.{name}", as_array(f"linalg.{name}", x))
    if v.ndim < 2:
        raise ShapeError(f"linalg.{name} takes matrices, got shape {v.shape}")
    return v


def square(name: str, x: Any) -> Array:
    """An argument as square matrices."""
    v = matrices(name, x)
    if v.shape[-1] != v.shape[-2]:
        raise ShapeError(f"linalg.{name} takes square matrices, got shape {v.shape}")
    return v


def adjoint(x: Any) -> Array:
    """The matrices transposed, and conjugated if they are complex."""
    turned = manipulation.matrix_transpose(x)
    return complex_parts.conj(turned) if kind_of(turned.dtype) == "c" else turned


def symmetrized(x: Any) -> Array:
    """The mean of matrices and their adjoints."""
    return arithmetic.divide(arithmetic.add(x, adjoint(x)), 2)


def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The triangular L with positive diagonal and L Lᴴ = a.

    Args:
        a: array of shape (..., n, n), Hermitian and positive definite; for matrices that are not, the result is NaN.
        upper: give Lᴴ instead.
        symmetrize_input: take the mean of a and aᴴ first, so that derivatives are symmetric; else the lower triangle
            is read.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    v = square("cholesky", a)
    factor = cholesky_primitive.cholesky(symmetrized(v) if symmetrize_input else v)
    return adjoint(factor) if upper else factor


def qr(a: Any, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and upper triangular R with Q R = a.

    Args:
        a: array of shape (..., m, n).
        mode: "reduced": k = min(m, n) columns of Q; "complete": m of them; "r": R alone; "raw": the reflections of
            LAPACK, transposed, and their factors.

    >>> import functad.numpy as jnp
    >>> q, r = jnp.linalg.qr(jnp.array([[3., 1.], [4., 2.]]))
    >>> bool(jnp.allclose(q @ r, jnp.array([[3., 1.], [4., 2.]]), atol=1e-5))
    True
    """
    v = matrices("qr", a)
    if mode == "raw":
        packed, taus = qr_primitive.geqrf(v)
        return QRResult(manipulation.matrix_transpose(packed), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ArgumentError(f'linalg.qr: mode={mode!r} must be "reduced", "complete", "r" or "raw"')
    q, r = qr_primitive.qr(v, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False, subset_by_index: Any = None
) -> Any:
    """Singular values s, descending, and U and Vᴴ with U diag(s) Vᴴ = a.

    Args:
        a: array of shape (..., m, n).
        full_matrices: all m columns of U and n rows of Vᴴ, not k = min(m, n); then only values have a derivative unless
            m = n.
        compute_uv: else the singular values alone.
        hermitian: a is Hermitian, and its eigenvalues give the result.
        subset_by_index: not supported.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.svd(jnp.array([[3., 0.], [0., 4.]])).S
    Array([4., 3.], dtype=float32)
    """
    if subset_by_index is not None:
        raise ArgumentError("linalg.svd: subset_by_index is not supported; slice the result")
    v = matrices("svd", a)
    if hermitian:
        return _hermitian_svd(square("svd", v), compute_uv)
    if not compute_uv:
        return spectra.svd(v, full_matrices=False, compute_uv=False)[0]
    s, u, vh = spectra.svd(v, full_matrices=full_matrices)
    return SVDResult(u, s, vh)


def _hermitian_svd(a: Any, compute_uv: bool) -> Any:
    w, v = eigh(a)
    size = arithmetic.absolute(w)
    order = manipulation.flip(sorting.argsort(size, axis=-1), -1)
    values = take_along_axis(size, order, axis=-1)
    if not compute_uv:
        return values
    columns = manipulation.expand_dims(order, -2)
    u = take_along_axis(v, columns, axis=-1)
    signs = manipulation.expand_dims(take_along_axis(w, order, axis=-1), -2)
    signed = selecting.where(logic.less(signs, 0), arithmetic.negative(u), u)
    return SVDResult(u, values, adjoint(signed))


def svdvals(x: Any, /) -> Array:
    """The singular values of matrices of shape (..., m, n), descending.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.svdvals(jnp.array([[3., 0.], [0., 4.]]))
    Array([4., 3.], dtype=float32)
    """
    return svd(x, compute_uv=False)


def _eigh(name: str, a: Any, UPLO: str | None, symmetrize_input: bool) -> list[Any]:  # noqa: N803
    if UPLO not in (None, "L", "U"):
        raise ArgumentError(f"linalg.{name}: UPLO={UPLO!r} must be 'L' or 'U', the triangle that is read")
    v = square(name, a)
    return spectra.eigh(symmetrized(v) if symmetrize_input else v, lower=UPLO != "U")


def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:  # noqa: N803
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices.

    Args:
        a: array of shape (..., n, n).
        UPLO: the triangle that is read: "L", the lower one, or "U".
        symmetrize_input: take the mean of a and aᴴ first.

    Where eigenvalues are equal, their symmetric functions (the sum of squares, of logarithms) have a first derivative.
    Higher ones of them, and those of eigenvectors, are NaN there, and without meaning where a rounding parts the
    eigenvalues. The other eigenvalues have a first derivative, in forward mode a second one and their vectors a first.
    `expm`, `sqrtm`, `polar`, `inv`, `pinv`, `det`, `slogdet`, `matrix_power` and the nuclear norm have all of theirs:
    `trace(expm(a))` stands for the sum of exponentials, `slogdet(a)[1]` for that of logarithms. So have `norm(a, 2)`,
    `norm(a, -2)` and `cond(a)` where the extreme singular value differs from the others.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.eigh(jnp.array([[2., 0.], [0., 1.]])).eigenvalues
    Array([1., 2.], dtype=float32)
    """
    v, w = _eigh("eigh", a, UPLO, symmetrize_input)
    return EighResult(w, v)


def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:  # noqa: N803
    """The eigenvalues of Hermitian matrices of shape (..., n, n), ascending.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.eigvalsh(jnp.array([[2., 1.], [1., 2.]])).round(4)
    Array([1., 3.], dtype=float32)
    """
    return _eigh("eigvalsh", a, UPLO, symmetrize_input)[1]


def eig(a: Any) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices, complex, in no order.

    Args:
        a: array of shape (..., n, n).

    An eigenvector has length 1, and its largest component is real; its derivative keeps both. It has one where all
    eigenvalues differ.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.eig(jnp.array([[1., 0.], [0., 2.]])).eigenvalues
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    w, v = spectra.eig(square("eig", a), compute_left_eigenvectors=False, enable_eigvec_derivs=True)
    return EigResult(w, v)


def eigvals(a: Any) -> Array:
    """The eigenvalues of square matrices of shape (..., n, n), complex, in no order.

    >>> import functad.numpy as jnp
    >>> jnp.linalg.eigvals(jnp.array([[0., 1.], [-1., 0.]]))
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return spectra.eig(square("eigvals", a), compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]
