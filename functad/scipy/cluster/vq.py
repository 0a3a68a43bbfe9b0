"""`functad.scipy.cluster.vq`: vector quantisation, the nearest of given points.

Knows distances only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.array import Array
from functad.errors import ShapeError
from functad.numpy.promotion import operand, promote_dtypes_inexact

__all__ = ["vq"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Array, Array]:
    """The point of a code book that is nearest to each observation.

    Args:
        obs: observations, of shape (n, d), or (n,) for numbers.
        code_book: points, of shape (k, d), or (k,) for numbers.
        check_finite: there for SciPy's sake; nothing is checked.

    Returns:
        The position of the nearest point for each observation, integers of shape (n,), and its distance.

    Raises:
        ShapeError: the ranks differ, or are neither 1 nor 2.

    >>> import functad.numpy as jnp
    >>> codes, distances = vq(jnp.array([[0.0, 0.0], [3.0, 4.0]]), jnp.array([[0.0, 1.0], [3.0, 3.0]]))
    >>> codes, distances
    (Array([0, 1], dtype=int32), Array([1., 1.], dtype=float32))
    """
    points, codes = (jnp.asarray(a) for a in promote_dtypes_inexact(operand("vq", obs), operand("vq", code_book)))
    if points.ndim != codes.ndim or points.ndim not in (1, 2):
        raise ShapeError(
            f"vq: obs and code_book must have shapes (n, d) and (k, d), or (n,) and (k,), but have {points.shape} and "
            f"{codes.shape}"
        )
    if points.ndim == 1:
        points, codes = points[:, None], codes[:, None]
    distances = jnp.linalg.norm(points[:, None] - codes, axis=-1)
    nearest = jnp.argmin(distances, axis=-1)
    return nearest, jnp.take_along_axis(distances, nearest[:, None], -1)[:, 0]
