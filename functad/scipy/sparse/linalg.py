"""Linear equations of whose matrix only products with vectors are known, solved step by step: `cg` and its like.

Knows pytrees as vectors, and `custom_linear_solve`, by which derivatives solve another such equation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import matmul
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import lax
from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.errors import ArgumentError, DTypeError, TreeError
from functad.flatten_util import ravel_pytree
from functad.numpy.promotion import convert
from functad.scipy.linalg import solve_triangular
from functad.tree_util import tree_leaves, tree_map, tree_structure

__all__ = ["bicgstab", "cg", "gmres"]

_MatrixProduct = Callable[[Any], Any]

# --- public functions -------------------------------------------------------------------------------


def cg(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, None]:
    """The solution of A x = b by conjugate gradients, for a Hermitian positive definite A.

    Args:
        A: a linear function of a pytree like b, which returns another; a matrix of shape (n, n); or what has `@`.
        b: a pytree of floating or complex arrays, together one vector.
        x0: where to start, like b; zeros by default.
        tol, atol: the steps end where |b − A x| ≤ max(tol |b|, atol).
        maxiter: the most steps, 10 times the number of elements of b by default.
        M: like A, and close to its inverse: with a good one fewer steps are needed.

    Returns:
        x, and None. Its derivatives are those of the solution: they solve once more, as accurately.

    Raises:
        ArgumentError: a matrix is not square. DTypeError: an operator is none. TreeError: x0 is not like b.

    >>> import functad.numpy as jnp
    >>> cg(jnp.array([[2.0, 1.0], [1.0, 3.0]]), jnp.array([3.0, 4.0]))[0].round(4)
    Array([1., 1.], dtype=float32)
    """
    return _solution("cg", _conjugate_gradients, A, b, x0, tol, atol, maxiter, M), None


def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0, maxiter: int | None = None, M: Any = None
) -> tuple[Any, None]:
    """The solution of A x = b by stabilised bi-conjugate gradients, for any A; arguments and shapes as for `cg`.

    >>> import functad.numpy as jnp
    >>> x, _ = bicgstab(lambda x: (2 * x[0] + x[1], 3 * x[1]), (jnp.array([3.0]), jnp.array([3.0])))
    >>> x[0].round(4)
    Array([1.], dtype=float32)
    """
    return _solution("bicgstab", _stabilised, A, b, x0, tol, atol, maxiter, M), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Array]:
    """The solution of A x = b by generalised minimal residuals, for any A.

    Args:
        restart: so many products of A make the space in which |M (b − A x)| is made smallest, before it begins anew
            from there; with more memory, n · restart numbers, fewer products are needed.
        maxiter: how often it begins, at most.
        solve_method: "incremental" ends where the residual is small enough, "batched" after `restart` products.
        A, b, x0, tol, atol, M: as for `cg`.

    Returns:
        x, of the structure and shapes of b, and 0, or −1 where x is not finite.

    Raises:
        ArgumentError: `solve_method` is another; and as `cg`.

    >>> import functad.numpy as jnp
    >>> gmres(jnp.array([[2.0, 1.0], [0.0, 3.0]]), jnp.array([3.0, 3.0]))[0].round(4)
    Array([1., 1.], dtype=float32)
    """
    if solve_method not in ("batched", "incremental"):
        raise ArgumentError(f"gmres: solve_method must be 'batched' or 'incremental', got {solve_method!r}")
    method = partial(_minimal_residuals, restart=restart, incremental=solve_method == "incremental")
    x = _solution("gmres", method, A, b, x0, tol, atol, maxiter, M)
    size = sum(jnp.sum(jnp.abs(leaf)) for leaf in tree_leaves(x))
    return x, jnp.where(jnp.isfinite(size), 0, -1)


# --- pytrees as vectors -----------------------------------------------------------------------------


def _solution(
    name: str, method: Callable[..., Any], A: Any, b: Any, x0: Any, tol: Any, atol: Any, maxiter: Any, M: Any
) -> Any:
    b = tree_map(jnp.asarray, b)
    x0 = tree_map(jnp.zeros_like, b) if x0 is None else tree_map(jnp.asarray, x0)
    _check_alike(name, x0, b)
    product, closer = _operator(name, "A", A), _operator(name, "M", (lambda x: x) if M is None else M)
    most = 10 * sum(leaf.size for leaf in tree_leaves(b)) if maxiter is None else maxiter

    def solve(product: _MatrixProduct, b: Any) -> Any:
        vector, as_tree = ravel_pytree(b)
        operators = (lambda v, f=f: ravel_pytree(f(as_tree(v)))[0] for f in (product, closer))
        limit = jnp.maximum(tol * jnp.sqrt(_dot(vector, vector)), atol)
        return as_tree(method(*operators, vector, ravel_pytree(x0)[0], limit, most))

    # A Hermitian matrix of real numbers is symmetric.
    symmetric = method is _conjugate_gradients and not any(jnp.iscomplexobj(leaf) for leaf in tree_leaves(b))
    x = lax.custom_linear_solve(product, b, solve, transpose_solve=solve, symmetric=symmetric)
    # As JAX's: conjugate gradients forget that b is weak, the others do not.
    weak = method is not _conjugate_gradients and all(leaf.weak_type for leaf in tree_leaves(b))
    return tree_map(lambda x: convert(x, x.dtype, weak), x)


def _operator(name: str, argument: str, given: Any) -> _MatrixProduct:
    if callable(given):
        return given
    if not (isinstance(given, (np.ndarray, Array)) or hasattr(given, "__matmul__")):
        raise DTypeError(
            f"{name}: {argument} is {given!r:.80}, but a linear operator must be either a function or ndarray: give "
            "a function x ↦ A x of what is like b, or a matrix"
        )
    shape = getattr(given, "shape", None)
    if shape is not None and (len(shape) != 2 or shape[0] != shape[1]):
        raise ArgumentError(
            f"{name}: {argument} is a linear operator that must be a square matrix, but has shape: {tuple(shape)}; a "
            "function takes other vectors than those with one axis"
        )
    return partial(jnp.matmul if isinstance(given, np.ndarray) else matmul, given)


def _check_alike(name: str, x0: Any, b: Any) -> None:
    if tree_structure(x0) != tree_structure(b):
        raise TreeError(
            f"{name}: x0 and b must have matching tree structure: {tree_structure(x0)} vs {tree_structure(b)}"
        )
    first, second = ([leaf.shape for leaf in tree_leaves(tree)] for tree in (x0, b))
    if first != second:
        raise TreeError(f"{name}: arrays in x0 and b must have matching shapes: {first} vs {second}")


# --- the methods, on vectors ------------------------------------------------------------------------
# Each takes the products with A and M, b, where to start, how small a residual is small enough, and the most steps.


def _dot(x: Any, y: Any) -> Any:
    """The real part of xᴴ y."""
    return jnp.real(jnp.vdot(x, y))


def _conjugate_gradients(product: _MatrixProduct, closer: _MatrixProduct, b: Any, x: Any, limit: Any, most: Any) -> Any:
    """Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems" (1952), with M."""

    def unfinished(state: Any) -> Any:
        _, residual, _, _, count = state
        return (_dot(residual, residual) > limit * limit) & (count < most)

    def step(state: Any) -> Any:
        x, residual, along, size, count = state
        image = product(along)
        length = size / _dot(along, image)
        x, residual = x + length * along, residual - length * image
        steepest = closer(residual)
        size_before, size = size, _dot(residual, steepest)
        return x, residual, steepest + size / size_before * along, size, count + 1

    residual = b - product(x)
    steepest = closer(residual)
    return lax.while_loop(unfinished, step, (x, residual, steepest, _dot(residual, steepest), 0))[0]


def _stabilised(product: _MatrixProduct, closer: _MatrixProduct, b: Any, x: Any, limit: Any, most: Any) -> Any:
    """Van der Vorst, "Bi-CGSTAB" (1992), with M; it ends where a divisor has become 0."""
    smallest = limit * limit

    def unfinished(state: Any) -> Any:
        _, residual, *_, broken, count = state
        return (_dot(residual, residual) > smallest) & (count < most) & ~broken

    def step(state: Any) -> Any:
        x, residual, along, image, rho_before, alpha, omega, _, count = state
        rho = jnp.vdot(shadow, residual)
        along = residual + rho / rho_before * alpha / omega * (along - omega * image)
        closer_along = closer(along)
        image = product(closer_along)
        alpha = rho / jnp.vdot(shadow, image)
        half = residual - alpha * image
        closer_half = closer(half)
        turned = product(closer_half)
        enough = _dot(half, half) <= smallest
        omega = jnp.where(enough, 1, jnp.vdot(turned, half) / jnp.vdot(turned, turned))
        x = x + alpha * closer_along + jnp.where(enough, 0, omega * closer_half)
        residual = jnp.where(enough, half, half - omega * turned)
        broken = (rho == 0) | (alpha == 0) | (omega == 0)
        return x, residual, along, image, rho, alpha, omega, broken, count + 1

    shadow = residual = b - product(x)
    one = jnp.ones((), residual.dtype)
    start = (x, residual, residual, residual, one, one, one, jnp.asarray(False), 0)
    return lax.while_loop(unfinished, step, start)[0]


def _minimal_residuals(
    product: _MatrixProduct,
    closer: _MatrixProduct,
    b: Any,
    x: Any,
    limit: Any,
    most: Any,
    *,
    restart: int,
    incremental: bool,
) -> Any:
    """Saad and Schultz, "GMRES" (1986), with M on the left."""
    near, square = closer(b), _dot(b, b)
    enough = limit * jnp.sqrt(jnp.where(square > 0, _dot(near, near) / square, 1)) if incremental else 0.0

    def unfinished(state: Any) -> Any:
        _, residual, count = state
        return (_dot(residual, residual) > limit * limit) & (count < most)

    def step(state: Any) -> Any:
        x, residual, count = state
        x = x + _least(lambda v: closer(product(v)), residual, min(restart, b.size), enough)
        return x, closer(b - product(x)), count + 1

    return lax.while_loop(unfinished, step, (x, closer(b - product(x)), 0))[0]


def _least(operator: _MatrixProduct, residual: Any, most: int, enough: Any) -> Any:
    """The d with the smallest |residual − A d| in the space of residual, A residual, A² residual …

    Rows of `basis` are unit vectors of that space, with A basis[:k]ᵀ = basisᵀ H for a Hessenberg H; `turns` is the
    product of the rotations that make H triangular, and `triangle` the transpose of what they make of it.
    """
    size = jnp.sqrt(_dot(residual, residual))
    numbers = jnp.arange(most)

    def unfinished(state: Any) -> Any:
        k, _, _, turns = state
        return (k < most) & (size * jnp.abs(turns[k, 0]) > enough)  # what is left of the residual

    def step(state: Any) -> Any:
        k, basis, triangle, turns = state
        new = operator(basis[k])
        column, new_size = jnp.zeros(most + 1, basis.dtype), jnp.sqrt(_dot(new, new))
        for _ in range(2):  # the second time takes away what rounding has left
            parts = basis.conj() @ new
            new, column = new - parts @ basis, column + parts
        length = jnp.sqrt(_dot(new, new))
        length = jnp.where(length > jnp.finfo(basis.dtype).eps * new_size, length, 0)  # the rest is rounding
        basis = basis.at[k + 1].set(jnp.where(length > 0, new / length, 0))
        column = column.at[k + 1].set(length.astype(column.dtype))
        turns = _turned(turns, k, (turns @ column)[k], length)
        return k + 1, basis, triangle.at[k].set((turns @ column)[:most]), turns

    basis = jnp.zeros((most + 1, residual.size), residual.dtype).at[0].set(residual / size)
    triangle, turns = (jnp.eye(n, dtype=residual.dtype) for n in (most, most + 1))
    k, basis, triangle, turns = lax.while_loop(unfinished, step, (0, basis, triangle, turns))
    right = jnp.where(numbers < k, size * turns[:most, 0], 0)
    return solve_triangular(triangle, right, trans=1, lower=True) @ basis[:most]


def _turned(turns: Any, k: Any, x: Any, y: Any) -> Any:
    """Before a product of rotations another one, of elements k and k + 1, which makes (r, 0) of (x, y) for a real y."""
    r = jnp.sqrt(jnp.square(jnp.abs(x)) + y * y)
    c, s = jnp.where(r > 0, x / r, 1), jnp.where(r > 0, y / r, 0)
    above, below = turns[k], turns[k + 1]
    return turns.at[k].set(jnp.conj(c) * above + s * below).at[k + 1].set(c * below - s * above)


if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
