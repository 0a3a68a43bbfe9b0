"""Arguments of `functad.scipy.linalg`: as matrices, with vectors for columns, and broadcast over batch axes.

Knows shapes and dtypes; nothing of what is computed.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad.dtypes import kind_of
from functad.errors import ShapeError


def matrix_arguments(name: str, *args: Any, square: bool = False) -> tuple[Any, ...]:
    """The arguments as arrays of matrices of one dtype, none of integers.

    Raises:
        ShapeError: one has fewer than two axes, or is not square.
    """
    arrays = inexact(*args)
    for x in arrays:
        if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
            raise ShapeError(f"linalg.{name} takes {'square ' if square else ''}matrices, got shape {x.shape}")
    return arrays


def inexact(*args: Any) -> tuple[Any, ...]:
    """The arguments as arrays of one dtype, none of integers."""
    arrays = [jnp.asarray(x) for x in args]
    dtype = jnp.result_type(*arrays)
    if kind_of(dtype) not in "fc":
        dtype = jnp.result_type(*arrays, 1.0)
    return tuple(x.astype(dtype) for x in arrays)


def right_hand_side(name: str, a: Any, b: Any) -> tuple[Any, Any, bool]:
    """Square a and b with shapes of one batch, and whether b was one vector, or a stack of them.

    Raises:
        ShapeError: they do not fit.
    """
    a, b = inexact(a, b)
    is_vector = b.ndim == 1 or (a.ndim == b.ndim + 1 and a.shape[-1] == b.shape[-1])
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or not b.ndim or b.shape[-1 if is_vector else -2] != a.shape[-1]:
        raise ShapeError(
            f"linalg.{name} takes square a of shape (..., n, n), and b of shape (n,) or (..., n, k), got {a.shape} and "
            f"{b.shape}"
        )
    b = b[..., None] if is_vector else b
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return jnp.broadcast_to(a, (*batch, *a.shape[-2:])), jnp.broadcast_to(b, (*batch, *b.shape[-2:])), is_vector


def adjoint(x: Any) -> Any:
    """The matrices, transposed and conjugated."""
    return jnp.conj(x.mT) if kind_of(x.dtype) == "c" else x.mT
