"""`functad.lax.linalg`: factorisations and systems of equations, with JAX's names and order of results.

Knows the primitives of linear algebra; `functad.numpy.linalg` has the same with NumPy's names.

Shapes:
    Leading axes of matrices are those of a stack; other axes are counted in the function's words.

Raises:
    DTypeError: an operand is no array, or of a dtype that the operation does not take.
    ShapeError: shapes do not fit together, or an array has too few axes.
    ArgumentError: a padding, layout or option that there is not.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from functad.absent import absent
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.lax.qdwh import qdwh
from functad.numpy import arithmetic, linear, manipulation
from functad.numpy.building import as_array
from functad.numpy.linalg import factorisations
from functad.numpy.linalg.factorisations import adjoint, symmetrized
from functad.numpy.padding import pad
from functad.primitives.linear_algebra import cholesky as _cholesky
from functad.primitives.linear_algebra import condensed as _condensed
from functad.primitives.linear_algebra import lu as _lu
from functad.primitives.linear_algebra import qr as _qr
from functad.primitives.linear_algebra import spectra as _spectra
from functad.primitives.linear_algebra import triangular as _triangular
from functad.primitives.linear_algebra.cholesky import cholesky_p
from functad.primitives.linear_algebra.condensed import hessenberg_p, schur_p, tridiagonal_p
from functad.primitives.linear_algebra.lu import lu_p, lu_pivots_to_permutation_p
from functad.primitives.linear_algebra.qr import geqp3, geqp3_p, geqrf, geqrf_p, householder_product_p, qr_p
from functad.primitives.linear_algebra.spectra import eig_p, eigh_p, svd_p
from functad.primitives.linear_algebra.triangular import triangular_solve_p, tridiagonal_solve_p
from functad.system.once import imported

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_p",
    "cholesky_update",
    "eig",
    "eig_p",
    "eigh",
    "eigh_p",
    "geqp3",
    "geqp3_p",
    "geqrf",
    "geqrf_p",
    "hessenberg",
    "hessenberg_p",
    "householder_product",
    "householder_product_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "ormqr",
    "qdwh",
    "qr",
    "qr_p",
    "schur",
    "schur_p",
    "svd",
    "svd_p",
    "symmetric_product",
    "triangular_solve",
    "triangular_solve_p",
    "tridiagonal",
    "tridiagonal_p",
    "tridiagonal_solve",
    "tridiagonal_solve_p",
]


class EigImplementation(enum.Enum):
    """How JAX computes eigenvalues; here it is always LAPACK.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.eig(2 * jnp.eye(2), implementation=lax.linalg.EigImplementation.LAPACK)[0].tolist()
    [(2+0j), (2+0j)]
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """How JAX computes eigenvalues of Hermitian matrices; here it is always LAPACK, which is a QR method.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.eigh(2 * jnp.eye(2), implementation=lax.linalg.EighImplementation.QR)[1].tolist()
    [2.0, 2.0]
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """How JAX computes singular values; here it is always LAPACK's divide and conquer.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.svd(2 * jnp.eye(2), algorithm=lax.linalg.SvdAlgorithm.QR)[1].tolist()
    [2.0, 2.0]
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with positive diagonal and L Lᴴ = x, shape (..., n, n); NaN where there is none.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.cholesky(jnp.array([[4., 2.], [2., 5.]]))
    Array([[2., 0.],
           [1., 2.]], dtype=float32)
    """
    return factorisations.cholesky(x, symmetrize_input=symmetrize_input)


def cholesky_update(r_matrix: Any, w_vector: Any) -> Array:
    """The upper triangular factor of Rᵀ R + w wᵀ, for R (`r_matrix`) of shape (n, n), w (`w_vector`) of shape (n,).

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.cholesky_update(jnp.eye(1) * 3, jnp.array([4.]))
    Array([[5.]], dtype=float32)
    """
    r, w = as_array("linalg.cholesky_update", r_matrix), as_array("linalg.cholesky_update", w_vector)
    if r.ndim != 2 or w.shape != r.shape[1:] or r.shape[0] != r.shape[1]:
        raise ShapeError(f"linalg.cholesky_update takes shapes (n, n) and (n,), got {r.shape} and {w.shape}")
    total = arithmetic.add(linear.matmul(adjoint(r), r), linear.outer(w, w))
    return adjoint(_cholesky.cholesky(total))


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Any]:
    """Eigenvalues, then left, then right eigenvectors, as far as they are asked for; always complex.

    Args:
        x: array of shape (..., n, n).
        enable_eigvec_derivs: let eigenvectors have a derivative, which is right where all eigenvalues differ.
        implementation, use_magma: accepted for JAX's sake.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> w, vl, vr = lax.linalg.eig(jnp.array([[1., 0.], [0., 2.]]))
    >>> w
    Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    return _spectra.eig(
        as_array("linalg.eig", x), compute_left_eigenvectors=compute_left_eigenvectors,
        compute_right_eigenvectors=compute_right_eigenvectors, enable_eigvec_derivs=enable_eigvec_derivs,
    )  # fmt: skip


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Any, Any]:
    """Eigenvectors as columns, and eigenvalues, ascending, of Hermitian matrices of shape (..., n, n).

    Args:
        lower: the triangle that is read.
        symmetrize_input: take the mean of x and xᴴ first.
        sort_eigenvalues, implementation: accepted for JAX's sake. subset_by_index: not supported.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> v, w = lax.linalg.eigh(jnp.array([[2., 0.], [0., 1.]]))
    >>> w
    Array([1., 2.], dtype=float32)
    """
    a = as_array("linalg.eigh", x)
    _refuse_subset("eigh", subset_by_index, a.shape[-1:])
    v, w = _spectra.eigh(symmetrized(a) if symmetrize_input else a, lower=lower)
    return v, w


def _refuse_subset(name: str, subset: Any, size: tuple[int, ...]) -> None:
    if subset is not None and tuple(subset) != (0, *size):
        raise ArgumentError(f"linalg.{name}: subset_by_index={subset} is not supported; slice the result")


def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """U, singular values s (descending) and Vᴴ with U diag(s) Vᴴ = x, of shape (..., m, n); or s alone.

    Args:
        full_matrices: all m columns of U and n rows of Vᴴ.
        algorithm: accepted for JAX's sake. subset_by_index: not supported.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.svd(jnp.array([[3., 0.], [0., 4.]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    a = as_array("linalg.svd", x)
    _refuse_subset("svd", subset_by_index, (min(a.shape[-2:], default=0),))
    if not compute_uv:
        return _spectra.svd(a, full_matrices=False, compute_uv=False)[0]
    s, u, vt = _spectra.svd(a, full_matrices=full_matrices)
    return u, s, vt


def hessenberg(a: Any) -> tuple[Any, Any]:
    """The Hessenberg form of matrices of shape (..., n, n), with the vectors of reflections below it; their factors.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.hessenberg(jnp.ones((3, 3)))[0].shape
    (3, 3)
    """
    packed, taus = _condensed.hessenberg(as_array("linalg.hessenberg", a))
    return packed, taus


def householder_product(a: Any, taus: Any) -> Array:
    """The first n columns of the product of reflections.

    Args:
        a: array of shape (..., m, n), m ≥ n, with the vectors below its diagonal, as `geqrf` gives them.
        taus: array of shape (..., k), k ≤ n, of their factors.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.householder_product(jnp.zeros((1, 1)), jnp.array([2.]))
    Array([[-1.]], dtype=float32)
    """
    vectors, factors = (as_array("linalg.householder_product", x) for x in (a, taus))
    return _qr.householder_product(vectors, factors)


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Array:
    """Q c, Qᴴ c (transpose), c Q or c Qᴴ, where Q is the square product of the reflections that `geqrf` gives.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.ormqr(jnp.zeros((1, 1)), jnp.array([2.]), jnp.array([[3.]]))
    Array([[-3.]], dtype=float32)
    """
    packed, factors, other = (as_array("linalg.ormqr", x) for x in (a, taus, c))
    m, k = packed.shape[-2:]
    widths = [(0, 0)] * (packed.ndim - 1) + [(0, max(m - k, 0))]
    q = householder_product(pad(packed, widths)[..., :m], factors)
    q = adjoint(q) if transpose else q
    return linear.matmul(q, other) if left else linear.matmul(other, q)


def lu(x: Any) -> tuple[Any, Any, Any]:
    """L (without its ones) and U in one matrix of shape (..., m, n), the pivots, and the order of rows.

    Returns:
        lu: L below the diagonal, U on and above it, with L U = x[order].
        pivots: int32 of shape (..., min(m, n)): the row with which each step has exchanged its own.
        permutation: int32 of shape (..., m): the order.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.lu(jnp.array([[1., 2.], [2., 4.]]))[0]
    Array([[2. , 4. ],
           [0.5, 0. ]], dtype=float32)
    """
    factors, pivots, permutation = _lu.lu(as_array("linalg.lu", x))
    return factors, pivots, permutation


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Array:
    """The order of rows that follows from the pivots of an LU factorisation, int32 of shape (..., permutation_size).

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.lu_pivots_to_permutation(jnp.array([2, 1, 2]), 3)
    Array([2, 1, 0], dtype=int32)
    """
    return _lu.lu_pivots_to_permutation(as_array("linalg.lu_pivots_to_permutation", pivots), int(permutation_size))


def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None) -> tuple[Any, ...]:
    """Q with orthonormal columns and upper triangular R with Q R = x; with pivoting also the order of columns.

    Args:
        x: array of shape (..., m, n).
        pivoting: order the columns so that the diagonal of R decreases: Q R = x[..., order].
        full_matrices: m columns of Q, not min(m, n). use_magma: accepted for JAX's sake.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> q, r, order = lax.linalg.qr(jnp.array([[1., 3.]]), pivoting=True)
    >>> order
    Array([1, 0], dtype=int32)
    """
    return tuple(_qr.qr(as_array("linalg.qr", x), pivoting=pivoting, full_matrices=full_matrices))


def schur(
    x: Any, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False, select_callable: Any = None
) -> tuple[Any, ...]:
    """T, upper triangular but for 2x2 blocks of real matrices, and unitary Q, with Q T Qᴴ = x of shape (..., n, n).

    Args:
        compute_schur_vectors: else T alone. sort_eig_vals, select_callable: not supported.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.schur(jnp.array([[1., 2.], [0., 3.]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if sort_eig_vals or select_callable is not None:
        raise ArgumentError("linalg.schur: sorting is not supported")
    return tuple(_condensed.schur(as_array("linalg.schur", x), compute_schur_vectors=compute_schur_vectors))


def symmetric_product(
    a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Array:
    """alpha a aᵀ + beta c, for a of shape (..., n, k) and c of shape (..., n, n).

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.symmetric_product(jnp.ones((1, 2)), jnp.ones((1, 1)), beta=3.)
    Array([[5.]], dtype=float32)
    """
    a, c = as_array("linalg.symmetric_product", a_matrix), as_array("linalg.symmetric_product", c_matrix)
    product = linear.matmul(a, manipulation.matrix_transpose(a))
    return arithmetic.add(arithmetic.multiply(alpha, product), arithmetic.multiply(beta, c))


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """x with op(a) x = b (left_side) or x op(a) = b, where a is triangular; what lies in its other half is not read.

    Args:
        a: array of shape (..., n, n).
        b: array of shape (..., n, k), or without `left_side` (..., k, n); or with one axis less: a vector.
        transpose_a, conjugate_a: what op does. unit_diagonal: take the diagonal of a to be ones.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.triangular_solve(jnp.array([[2., 0.], [1., 1.]]), jnp.array([2., 3.]), left_side=True, lower=True)
    Array([1., 2.], dtype=float32)
    """
    x, y = as_array("linalg.triangular_solve", a), as_array("linalg.triangular_solve", b)
    is_vector = y.ndim == x.ndim - 1
    axis = -1 if left_side else -2
    found = _triangular.triangular_solve(
        x, manipulation.expand_dims(y, axis) if is_vector else y, left_side=left_side, lower=lower,
        transpose_a=transpose_a, conjugate_a=conjugate_a and kind_of(x.dtype) == "c", unit_diagonal=unit_diagonal,
    )  # fmt: skip
    return manipulation.squeeze(found, axis) if is_vector else found


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """The tridiagonal form of Hermitian matrices a of shape (..., n, n); the `lower` or upper triangle is read.

    Returns:
        Vectors of reflections, the diagonal, the one beside it, and the factors of the reflections.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.tridiagonal(jnp.array([[1., 2.], [2., 3.]]))[1]
    Array([1., 3.], dtype=float32)
    """
    packed, d, e, taus = _condensed.tridiagonal(as_array("linalg.tridiagonal", a), lower=lower)
    return packed, d, e, taus


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Array:
    """x with T x = b, for tridiagonal T.

    Args:
        dl: array of shape (..., n): the diagonal below, from its element 1 on.
        d: array of shape (..., n): the diagonal. du: the one above, without its last element.
        b: array of shape (..., n, k). perturb_singular: not supported.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> lax.linalg.tridiagonal_solve(jnp.array([0., 1.]), jnp.ones(2), jnp.zeros(2), jnp.array([[1.], [3.]]))
    Array([[1.],
           [2.]], dtype=float32)
    """
    operands = [as_array("linalg.tridiagonal_solve", x) for x in (dl, d, du, b)]
    return _triangular.tridiagonal_solve(*operands, perturb_singular=perturb_singular)


if not TYPE_CHECKING:
    __getattr__ = absent(__name__, found=lambda name: imported("functad.lax.composed").linalg_primitive(name))


def __dir__() -> list[str]:
    return __all__
