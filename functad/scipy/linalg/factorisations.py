"""Factorisations with SciPy's names, arguments and order of results: LU, QR, singular values, eigenvalues, Schur forms.

Knows `lax.linalg`. Arguments that say what may be overwritten or checked are SciPy's, and have no effect.
"""

from __future__ import annotations

from typing import Any

from functad import lax
from functad import numpy as jnp
from functad.errors import ArgumentError, ShapeError
from functad.lax import linalg
from functad.numpy.linalg.polar import polar as polar_factors
from functad.scipy.linalg.operands import adjoint, inexact, matrix_arguments


def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, ...]:
    """P, L and U with a = P L U; with `permute_l` P L and U.

    Args:
        a: array of shape (..., m, n).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.lu(jnp.array([[1., 2.], [2., 4.]]))[1]
    Array([[1. , 0. ],
           [0.5, 1. ]], dtype=float32)
    """
    (x,) = matrix_arguments("lu", a)
    factors, _, order = linalg.lu(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    moved = order[..., None, :] == jnp.arange(m).reshape((1,) * (x.ndim - 2) + (m, 1))
    permutation = jnp.real(moved.astype(x.dtype))
    below = jnp.tril(factors, -1)[..., :k]
    lower = below + jnp.broadcast_to(jnp.eye(m, k, dtype=x.dtype), below.shape)
    upper = jnp.triu(factors)[..., :k, :]
    return (permutation @ lower, upper) if permute_l else (permutation, lower, upper)


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Any, ...]:
    """Q and R with Q R = a; with pivoting also the order of columns, Q R = a[..., order].

    Args:
        a: array of shape (..., m, n).
        mode: "full": Q has m columns; "economic": min(m, n) of them; "r": without Q, in a tuple.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.qr(jnp.array([[1., 3.]]), mode="r", pivoting=True)[1]
    Array([1, 0], dtype=int32)
    """
    if mode not in ("full", "r", "economic"):
        raise ArgumentError(f'linalg.qr: mode={mode!r} must be "full", "economic" or "r"')
    found = linalg.qr(*matrix_arguments("qr", a), pivoting=pivoting, full_matrices=mode != "economic")
    return found[1:] if mode == "r" else found


def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Any, ...]:
    """The product of c with the Q of a = Q R, and R; with pivoting also the order of columns.

    Args:
        a: array of shape (..., m, n).
        c: mode "right": array of shape (..., p, m) or (m,), for c Q; "left": (..., k, p) or (k,), for Q c,
            where k = min(m, n).
        conjugate: take the conjugate of Q.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> product, r = functad.scipy.linalg.qr_multiply(jnp.eye(2), jnp.array([[1., 2.]]))
    >>> product
    Array([[1., 2.]], dtype=float32)
    """
    if mode not in ("right", "left"):
        raise ArgumentError(f'linalg.qr_multiply: mode={mode!r} must be "right" or "left"')
    x, y = inexact(a, c)
    is_vector = y.ndim == 1
    if is_vector:
        y = y[:, None] if mode == "left" else y[None]
    q, r, *order = linalg.qr(x, pivoting=pivoting, full_matrices=False)
    fits = y.shape[-2] == q.shape[-1] if mode == "left" else y.shape[-1] == q.shape[-2]
    if not fits:
        raise ShapeError(f"linalg.qr_multiply: Q has shape {q.shape}, which does not fit c of shape {y.shape} ({mode})")
    q = jnp.conj(q) if conjugate else q
    product = q @ y if mode == "left" else y @ q
    return (product.ravel() if is_vector else product, r, *order)


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """U, s (descending) and Vᴴ with U diag(s) Vᴴ = a, of shape (..., m, n); or s alone.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.svd(jnp.array([[3., 0.], [0., 4.]]), compute_uv=False)
    Array([4., 3.], dtype=float32)
    """
    return linalg.svd(*matrix_arguments("svd", a), full_matrices=full_matrices, compute_uv=compute_uv)


def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: Any = None,
    type: int = 1,  # noqa: A002
    check_finite: bool = True,
) -> Any:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices of shape (..., n, n); or eigenvalues alone.

    Args:
        b, eigvals, type: only their defaults are supported.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.eigh(jnp.array([[2., 0.], [0., 1.]]), eigvals_only=True)
    Array([1., 2.], dtype=float32)
    """
    if b is not None or eigvals is not None or type != 1:
        raise ArgumentError(
            "linalg.eigh: b, eigvals and type other than 1 are not supported; for a x = w b x take the eigenvalues of "
            "L⁻¹ a L⁻ᴴ, with L = cholesky(b, lower=True)"
        )
    v, w = linalg.eigh(*matrix_arguments("eigh", a, square=True), lower=lower)
    return w if eigvals_only else (w, v)


def eigh_tridiagonal(
    d: Any,
    e: Any,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | None = None,
    tol: Any = None,
    key: Any = None,
) -> Any:
    """Eigenvalues and eigenvectors of a symmetric tridiagonal matrix; or eigenvalues alone.

    Args:
        d: array of shape (n,): the diagonal.
        e: array of shape (n - 1,): the one beside it.
        select: "a": all, ascending; "i": those of the numbers select_range[0] to select_range[1].
        tol, key: of JAX's algorithm; here it is LAPACK's, on the whole matrix.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.eigh_tridiagonal(jnp.array([1., 3.]), jnp.array([0.]), eigvals_only=True)
    Array([1., 3.], dtype=float32)
    """
    middle, beside = inexact(d, e)
    if middle.ndim != 1 or beside.shape != (max(middle.size - 1, 0),):
        raise ShapeError(f"linalg.eigh_tridiagonal takes shapes (n,) and (n - 1,), got {middle.shape}, {beside.shape}")
    if select not in ("a", "i") or (select == "i" and select_range is None):
        raise ArgumentError(f'linalg.eigh_tridiagonal: select={select!r} must be "a", or "i" with a select_range')
    first, last = (0, middle.size) if select_range is None or select == "a" else (select_range[0], select_range[1] + 1)
    whole = jnp.diag(middle) + jnp.diag(beside, -1) + jnp.diag(jnp.conj(beside), 1)
    v, w = linalg.eigh(whole)
    return w[first:last] if eigvals_only else (w[first:last], v[:, first:last])


def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """T and unitary Z with a = Z T Zᴴ, for matrices of shape (..., n, n).

    Args:
        output: "real": T has blocks of 2x2 for pairs of complex eigenvalues; "complex": it is upper triangular.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.schur(jnp.array([[1., 2.], [0., 3.]]))[0]
    Array([[1., 2.],
           [0., 3.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ArgumentError(f'linalg.schur: output={output!r} must be "real" or "complex"')
    (x,) = matrix_arguments("schur", a, square=True)
    t, z = linalg.schur(as_complex(x) if output == "complex" else x)
    return t, z


def as_complex(x: Any) -> Any:
    """The array with complex numbers of its precision."""
    return x.astype(jnp.result_type(x.dtype, jnp.complex64))


def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Any, Any]:  # noqa: N803
    """The complex Schur form from the real one: rotations make its blocks of 2x2 triangular.

    Args:
        T, Z: what `schur` gives for real matrices, of shape (..., n, n).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> t, z = functad.scipy.linalg.rsf2csf(*functad.scipy.linalg.schur(jnp.array([[0., 1.], [-1., 0.]])))
    >>> bool(abs(t[1, 0]) < 1e-6)
    True
    """
    return jnp.vectorize(_rsf2csf, signature="(n,n),(n,n)->(n,n),(n,n)")(*map(as_complex, inexact(T, Z)))


def _rsf2csf(t: Any, z: Any) -> tuple[Any, Any]:
    n, eps = t.shape[0], float(jnp.finfo(t.dtype).eps)

    def rotate(step: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        t, z = carry
        rows = n - 2 - step + jnp.arange(2)
        (a, b), (c, d) = t[rows[0], rows], t[rows[1], rows]
        half = (a - d) / 2
        shift = half + jnp.sqrt(half * half + b * c)  # an eigenvalue of the block, less d
        length = jnp.sqrt(jnp.abs(shift) ** 2 + jnp.abs(c) ** 2)
        is_block = jnp.abs(c) > eps * (jnp.abs(a) + jnp.abs(d))
        safe = jnp.where(is_block, length, 1)
        cosine, sine = jnp.where(is_block, shift / safe, 1), jnp.where(is_block, c / safe, 0)
        turn = jnp.stack([jnp.stack([jnp.conj(cosine), sine]), jnp.stack([-sine, cosine])])
        t = t.at[rows].set(turn @ t[rows])
        t = t.at[:, rows].set(t[:, rows] @ adjoint(turn)).at[rows[1], rows[0]].set(0)
        return t, z.at[:, rows].set(z[:, rows] @ adjoint(turn))

    found: tuple[Any, Any] = lax.fori_loop(0, n - 1, rotate, (t, z)) if n > 1 else (t, z)
    return found


def hessenberg(a: Any, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The Hessenberg form H, zero below the diagonal beside the main one; with `calc_q` also unitary Q, a = Q H Qᴴ.

    Args:
        a: array of shape (..., n, n).

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.hessenberg(jnp.array([[1., 2.], [3., 4.]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    (x,) = matrix_arguments("hessenberg", a, square=True)
    packed, taus = linalg.hessenberg(x)
    h = jnp.triu(packed, -1)
    if not calc_q:
        return h
    n = x.shape[-1]
    q = jnp.broadcast_to(jnp.eye(n, dtype=x.dtype), x.shape)
    if n > 1:
        q = q.at[..., 1:, 1:].set(linalg.householder_product(packed[..., 1:, :-1], taus))
    return h, q


def polar(
    a: Any, side: str = "right", *, method: str = "qdwh", eps: Any = None, max_iterations: Any = None
) -> tuple[Any, Any]:
    """U with orthonormal columns or rows and positive semidefinite P with a = U P, or a = P U for the left side.

    Args:
        a: array of shape (..., m, n).
        side: "right" or "left": on which side of U stands P.
        method, eps, max_iterations: of JAX's algorithms; here it is the singular value decomposition.

    >>> import functad.numpy as jnp, functad.scipy.linalg
    >>> functad.scipy.linalg.polar(jnp.array([[-2.]]))
    (Array([[-1.]], dtype=float32), Array([[2.]], dtype=float32))
    """
    if side not in ("right", "left") or method not in ("qdwh", "svd"):
        raise ArgumentError(
            f'linalg.polar: side={side!r} must be "right" or "left", and method={method!r} "qdwh" or "svd"'
        )
    (x,) = matrix_arguments("polar", a)
    if x.shape[-2] < x.shape[-1]:
        p, h = polar_factors(adjoint(x))
        return adjoint(p), h if side == "left" else p @ h @ adjoint(p)
    p, h = polar_factors(x)
    return p, h if side == "right" else p @ h @ adjoint(p)
