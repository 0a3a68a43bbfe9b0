"""`functad.scipy.fft`: discrete cosine transforms of type 2 and their inverses, by way of one Fourier transform.

Knows the public array functions. Source: Makhoul, "A fast cosine transform in one and two dimensions", 1980.

Args:
    x: the signal, an array.

Shapes:
    Axes that are not transformed or convolved are kept.

Raises:
    AxisError: the array has no such axis.
    ArgumentError: a norm or type that there is not.
    DTypeError: an argument is no array of numbers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import functad.numpy as jnp
from functad import lax
from functad.absent import absent
from functad.dtypes import kind_of
from functad.errors import ArgumentError

__all__ = ["dct", "dctn", "idct", "idctn"]


def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:  # noqa: A002
    """The discrete cosine transform 2 Σ x_n cos(π k (2n + 1) / 2N) along one axis.

    Args:
        x: array of numbers.
        type: must be 2.
        n: the length to which the axis is cut or filled with zeros first.
        axis: the axis.
        norm: "ortho" makes the transform orthogonal; None or "backward" leaves it as it is.

    >>> import functad.numpy as jnp
    >>> dct(jnp.array([1., 2., 3.]))
    Array([12.       , -3.4641016,  0.       ], dtype=float32)
    """
    return _along(_cosines, "dct", x, type, None if n is None else [n], [axis], norm)


def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:  # noqa: A002
    """The inverse of `dct` along one axis; arguments as there.

    >>> import functad.numpy as jnp
    >>> idct(jnp.array([12., 0., 0.]))
    Array([2., 2., 2.], dtype=float32)
    """
    return _along(_of_cosines, "idct", x, type, None if n is None else [n], [axis], norm)


def dctn(
    x: Any,
    type: int = 2,  # noqa: A002
    s: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:
    """The discrete cosine transform along several axes.

    Args:
        x: array of numbers.
        type: must be 2.
        s: the lengths to which the axes are cut or filled with zeros first.
        axes: the axes, by default all, or as many of the last as `s` has lengths.
        norm: as for `dct`.

    >>> import functad.numpy as jnp
    >>> dctn(jnp.ones((2, 2)))
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float32)
    """
    return _along(_cosines, "dctn", x, type, s, axes, norm)


def idctn(
    x: Any,
    type: int = 2,  # noqa: A002
    s: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str | None = None,
) -> Any:
    """The inverse of `dctn`; arguments as there.

    >>> import functad.numpy as jnp
    >>> idctn(jnp.array([[16., 0.], [0., 0.]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return _along(_of_cosines, "idctn", x, type, s, axes, norm)


# --- any axes ---------------------------------------------------------------------------------------


def _along(
    transform: Callable[[Any, bool], Any], name: str, x: Any, kind: int, s: Any, axes: Any, norm: str | None
) -> Any:
    """Apply a transform of the last axis to one axis after the other."""
    if kind != 2:
        raise ArgumentError(f"{name}: type must be 2, got {kind}; others are sums of sines and cosines by fft")
    if norm not in (None, "backward", "ortho"):
        raise ArgumentError(f"{name}: norm must be None, 'backward' or 'ortho', got {norm!r}")
    x = jnp.asarray(x)
    if kind_of(x.dtype) == "c":
        parts = (_along(transform, name, part, kind, s, axes, norm) for part in (x.real, x.imag))
        return lax.complex(*parts)
    lengths = None if s is None else _integers(s)
    chosen = _integers(axes) if axes is not None else range(x.ndim)[-len(lengths) if lengths is not None else 0 :]
    if lengths is not None and len(lengths) != len(chosen):
        raise ArgumentError(f"{name}: there must be one length for each axis, got s={s} for axes {list(chosen)}")
    for i, axis in enumerate(chosen):
        last = jnp.moveaxis(x, axis, -1)
        last = last if lengths is None else _resized(last, lengths[i])
        x = jnp.moveaxis(transform(last, norm == "ortho"), -1, axis)
    return x


def _integers(given: Any) -> list[int]:
    return [operator.index(n) for n in (given if isinstance(given, (tuple, list, np.ndarray)) else [given])]


def _resized(x: Any, n: int) -> Any:
    x = x[..., :n]
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n - x.shape[-1])])


# --- the last axis ----------------------------------------------------------------------------------


def _cosines(x: Any, ortho: bool) -> Any:
    """Even elements in front, odd ones backwards behind them: half of its spectrum, turned, has all cosine sums."""
    n = x.shape[-1]
    spectrum = jnp.fft.rfft(jnp.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], -1))
    turned = spectrum * _turn(n, -1, spectrum.dtype)
    rest = -jnp.imag(turned[..., 1 : (n + 1) // 2])[..., ::-1]
    cosines = 2 * jnp.concatenate([jnp.real(turned), rest], -1)
    return cosines * _orthogonal(n, cosines.dtype) if ortho else cosines


def _of_cosines(y: Any, ortho: bool) -> Any:
    n, half = y.shape[-1], y.shape[-1] // 2 + 1
    y = y * 1.0
    y = y / _orthogonal(n, y.dtype) if ortho else y
    backwards = jnp.concatenate([jnp.zeros_like(y[..., :1]), y[..., ::-1][..., : half - 1]], -1)
    turned = lax.complex(y[..., :half], -backwards) / 2
    mixed = jnp.fft.irfft(turned * _turn(n, 1, turned.dtype), n)
    even, odd = mixed[..., : (n + 1) // 2], mixed[..., (n + 1) // 2 :][..., ::-1]
    pairs = jnp.stack([even, _resized(odd, even.shape[-1])], -1)
    return jnp.reshape(pairs, (*y.shape[:-1], -1))[..., :n]


def _turn(n: int, sign: int, dtype: Any) -> np.ndarray:
    """e^(± πi k / 2N) for half of the spectrum."""
    return np.exp(sign * 0.5j * math.pi / n * np.arange(n // 2 + 1)).astype(dtype)


def _orthogonal(n: int, dtype: Any) -> np.ndarray:
    """What makes the rows of the cosine transform unit vectors."""
    factors = np.full(n, math.sqrt(0.5 / n))
    factors[0] = math.sqrt(0.25 / n)
    return factors.astype(dtype)


if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
