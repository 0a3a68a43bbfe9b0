"""Trends of signals: what is taken off before their spectra are computed.

Knows the public array functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import functad.numpy as jnp
from functad.errors import ArgumentError
from functad.numpy.promotion import promote_dtypes_inexact


def detrend(
    data: Any,
    axis: int = -1,
    type: str = "linear",  # noqa: A002
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Any:
    """A signal without its mean, or without the straight lines that fit it best.

    Args:
        data: array of numbers.
        axis: the axis of the signal.
        type: "constant", the mean is taken off, or "linear".
        bp: where a new line begins.
        overwrite_data: must be None.

    >>> import functad.numpy as jnp
    >>> detrend(jnp.array([1., 2., 6.]), type="constant")
    Array([-2., -1.,  3.], dtype=float32)
    """
    if overwrite_data is not None:
        raise ArgumentError("detrend: overwrite_data must be None, as arrays are immutable")
    if type not in ("constant", "linear"):
        raise ArgumentError(f"detrend: type must be 'constant' or 'linear', got {type!r}")
    x = jnp.moveaxis(promote_dtypes_inexact(jnp.asarray(data))[0], axis, -1)
    if type == "constant":
        return jnp.moveaxis(x - jnp.mean(x, -1, keepdims=True), -1, axis)
    n = x.shape[-1]
    ends = np.unique(np.r_[0, bp, n])
    if ends[0] < 0 or ends[-1] > n:
        raise ArgumentError(f"detrend: the breakpoints bp={bp} must lie in 0..{n}")
    pieces = [_without_line(x[..., start:end]) for start, end in zip(ends, ends[1:])]
    return jnp.moveaxis(jnp.concatenate(pieces, -1), -1, axis)


def _without_line(x: Any) -> Any:
    """x less its projection onto constants and lines, of which an orthonormal basis is known."""
    steps = np.arange(x.shape[-1])
    basis = np.linalg.qr(np.stack([np.ones_like(steps), steps], -1))[0] if len(steps) > 1 else np.ones((1, 1))
    basis = basis.astype(x.dtype)
    return x - (x @ basis) @ basis.T
