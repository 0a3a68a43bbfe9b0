"""The polar decomposition by dynamically weighted Halley iterations (Nakatsukasa, Bai, Gygi 2010).

Knows the iteration; `functad.scipy.linalg.polar` has the factors, with derivatives of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.array import Array
from functad.dtypes import finfo, kind_of
from functad.errors import DTypeError, ShapeError
from functad.lax.branches import cond
from functad.lax.loops import while_loop
from functad.numpy import arithmetic, complex_parts, creation, logic, reductions, selecting, ufuncs
from functad.numpy.building import as_array
from functad.numpy.concatenation import concatenate
from functad.numpy.linalg.factorisations import adjoint, qr
from functad.numpy.linalg.systems import solve
from functad.numpy.promotion import convert
from functad.numpy.special_matrices import eye


def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[int, int] | None = None,
) -> tuple[Array, Array, Array, Array]:
    """u with orthonormal columns and semidefinite h with x = u h, the number of iterations, and whether they sufficed.

    Args:
        x: array of shape (m, n) and full rank, m ≥ n.
        is_hermitian: has no effect.
        max_iterations: how many iterations at most, by default 10.
        eps: u changes by less than (4 eps)^⅓ of its norm in the last one; by default the accuracy of the dtype.
        dynamic_shape: how many rows and columns count, if x is padded; u and h are 0 elsewhere.

    Raises:
        ShapeError: x is no such matrix.
        DTypeError: x holds no floats or complex numbers.

    >>> import functad.numpy as jnp
    >>> from functad import lax
    >>> u, h, steps, done = lax.linalg.qdwh(jnp.array([[0., -2.], [3., 0.]]))
    >>> u.round(4), h.round(4), done
    (Array([[ 0., -1.],
           [ 1.,  0.]], dtype=float32), Array([[3., 0.],
           [0., 2.]], dtype=float32), Array(True, dtype=bool))
    """
    a = as_array("linalg.qdwh", x)
    if kind_of(a.dtype) not in "fc":
        raise DTypeError(f"linalg.qdwh takes floats and complex numbers, got {a.dtype}")
    if a.ndim != 2 or a.shape[0] < a.shape[1]:
        raise ShapeError(f"linalg.qdwh takes one matrix with at least as many rows as columns, got shape {a.shape}")
    if dynamic_shape is not None:
        rows, columns = (creation.arange(n) < size for n, size in zip(a.shape, dynamic_shape))
        a = selecting.where(rows[:, None] & columns, a, 0)
    accuracy = float(finfo(a.dtype).eps) if eps is None else eps
    u, count, is_converged = _unitary_factor(a, accuracy, 10 if max_iterations is None else max_iterations)
    h = arithmetic.multiply(0.5, adjoint(u) @ a)
    return u, h + adjoint(h), count, is_converged


def _unitary_factor(a: Any, eps: float, most: int) -> tuple[Any, Any, Any]:
    real = complex_parts.real(a).dtype
    tolerance = (4 * eps) ** (1 / 3)
    size = arithmetic.absolute(a)
    norms = [reductions.max(reductions.sum(size, axis=axis), initial=0) for axis in (0, 1)]
    scale = ufuncs.sqrt(norms[0]) * ufuncs.sqrt(norms[1])  # no overflow
    start = a / convert(selecting.where(scale == 0, 1, scale), a.dtype)

    def goes_on(state: Any) -> Any:
        _, least, count, is_converged = state
        return logic.logical_and(count < most, logic.logical_not(is_converged))

    def step(state: Any) -> Any:
        u, least, count, _ = state
        weights, risen = _weights(least)
        new = cond(weights[2] > 100, _by_qr, _by_solving, u, *weights)
        change, length = (
            ufuncs.sqrt(reductions.sum(arithmetic.square(arithmetic.absolute(y)))) for y in (new - u, new)
        )
        is_converged = logic.logical_and(change <= length * tolerance, arithmetic.absolute(1 - risen) < 5 * eps)
        return new, risen, count + 1, is_converged

    least = convert(np.float64(eps), real)
    u, _, count, is_converged = while_loop(goes_on, step, (start, least, 0, np.bool_(False)))
    return 1.5 * u - 0.5 * u @ (adjoint(u) @ u), count, is_converged  # one step of Newton and Schulz


def _weights(least: Any) -> tuple[tuple[Any, Any, Any], Any]:
    """a, b, c of u (a + b uᴴu) / (1 + c uᴴu), and what that makes of the least singular value."""
    square = least * least
    d = ufuncs.cbrt(4 * (1 / square - 1) / square)
    root = ufuncs.sqrt(1 + d)
    a = root + ufuncs.sqrt(2 - d + 2 * (2 - square) / (square * root))
    b = arithmetic.square(a - 1) / 4
    c = a + b - 1
    return (a, b, c), least * (a + b * square) / (1 + c * square)


def _by_qr(u: Any, a: Any, b: Any, c: Any) -> Any:
    m, n = u.shape
    root = convert(ufuncs.sqrt(c), u.dtype)
    q, _ = qr(concatenate([root * u, eye(n, dtype=u.dtype)]))
    return _real(b / c, u) * u + _real((a - b / c) / ufuncs.sqrt(c), u) * (q[:m] @ adjoint(q[m:]))


def _by_solving(u: Any, a: Any, b: Any, c: Any) -> Any:
    gram = eye(u.shape[1], dtype=u.dtype) + _real(c, u) * (adjoint(u) @ u)
    return _real(b / c, u) * u + _real(a - b / c, u) * adjoint(solve(gram, adjoint(u)))


def _real(number: Any, like: Any) -> Any:
    return convert(number, like.dtype)
