"""`functad.numpy.fft`: discrete Fourier transforms with NumPy's arguments and JAX's dtypes.

Knows axes, lengths and norms; the transform of the last axes is one primitive.

Shapes:
    The result has the shape of the array, but the lengths n or s along the transformed axes; of `rfft` and its like n
    // 2 + 1 along the last one.

Raises:
    AxisError: the array has no such axis.
    ArgumentError: a norm or a length that there is not.
    DTypeError: real numbers are needed, but the array is complex.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import dtypes
from functad.absent import absent
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError
from functad.numpy import arithmetic, complex_parts, manipulation, padding
from functad.numpy.building import as_array, named
from functad.numpy.promotion import asarray, canonical_axes, convert, on_wanted_device, promote_args_inexact
from functad.primitives import fourier
from functad.primitives.fourier import FftType

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

# --- the transform of any axes ----------------------------------------------------------------------


def _transform(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: str | None) -> Any:
    """Transform some axes (by default all, or as many of the last as there are lengths) to lengths `s`."""
    (x,) = promote_args_inexact(f"fft.{name}", as_array(f"fft.{name}", a))
    x = _converted(name, kind, x)
    lengths = None if s is None else tuple(operator.index(n) for n in s)
    if axes is None and lengths is not None:
        axes = range(-len(lengths), 0)
    chosen = canonical_axes(f"fft.{name}", None if axes is None else tuple(axes), x.ndim)
    if lengths is None:
        lengths = tuple(x.shape[i] for i in chosen)
        if kind is FftType.IRFFT and chosen:
            lengths = (*lengths[:-1], 2 * (lengths[-1] - 1))
    if len(lengths) != len(chosen) or any(n < 1 for n in lengths):
        raise ArgumentError(
            f"fft.{name}: there must be one positive length for each transformed axis, but axes {chosen} of shape "
            f"{x.shape} have the lengths {lengths}"
        )
    if not chosen:
        return x
    last = tuple(range(x.ndim - len(chosen), x.ndim))
    x = _resized(manipulation.moveaxis(x, chosen, last), kind, lengths)
    out = fourier.fft(x, kind, lengths)
    scale = _scale(name, kind, lengths, norm)
    return manipulation.moveaxis(out if scale == 1 else out * scale, last, chosen)


def _converted(name: str, kind: FftType, x: Any) -> Any:
    if kind is not FftType.RFFT:
        return convert(x, np.result_type(x.dtype, np.complex64))
    if kind_of(x.dtype) == "c":
        raise DTypeError(f"fft.{name} takes real numbers, but was given {x.dtype}; use functad.numpy.real(x)")
    return convert(x, np.result_type(x.dtype, np.float32))


def _resized(x: Any, kind: FftType, lengths: Sequence[int]) -> Any:
    """The last axes cut, or filled with zeros, to what a transform of these lengths takes."""
    wanted = (*lengths[:-1], lengths[-1] // 2 + 1) if kind is FftType.IRFFT else tuple(lengths)
    kept = x.ndim - len(wanted)
    if x.shape[kept:] == wanted:
        return x
    x = x[(slice(None),) * kept + tuple(slice(n) for n in wanted)]
    return padding.pad(x, [(0, 0)] * kept + [(0, n - m) for n, m in zip(wanted, x.shape[kept:])])


# What each norm divides the plain sum by, as a power of the number of elements: forward, inverse.
_NORMS = {"backward": (0.0, 1.0), "ortho": (0.5, 0.5), "forward": (1.0, 0.0)}


def _scale(name: str, kind: FftType, lengths: Sequence[int], norm: str | None) -> float:
    """What to multiply the primitive's result by, which is divided by their number in the inverse kinds."""
    if norm is not None and norm not in _NORMS:
        raise ArgumentError(f"fft.{name}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    wanted = _NORMS[norm or "backward"][name.startswith("i")]
    done = 1.0 if kind in (FftType.IFFT, FftType.IRFFT) else 0.0
    return float(math.prod(lengths) ** (done - wanted))


_NORM = """norm: what divides the sum: "backward" (the default) the inverse by the number of elements, "forward" the
            forward transform, "ortho" both by its square root."""


def _of_one_axis(name: str, kind: FftType, what: str, example: str, result: str) -> Callable[..., Any]:
    def fun(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return _transform(name, kind, a, None if n is None else (n,), (_one(name, axis),), norm)

    doc = f"""{what} along one axis.

    Args:
        a: array of numbers.
        n: the length to which the axis is cut or filled with zeros first; of irfft that of the real result.
        axis: the axis.
        {_NORM}

    >>> import functad.numpy as jnp
    >>> jnp.fft.{name}(jnp.array({example}))
    {result}
    """
    return named(fun, name, doc)


def _one(name: str, axis: Any) -> int:
    if not hasattr(axis, "__index__"):
        raise ArgumentError(f"fft.{name} transforms one axis, got axis={axis}; fftn and its like take several")
    return operator.index(axis)


def _of_axes(name: str, kind: FftType, what: str, example: str, result: str) -> Callable[..., Any]:
    two = name.endswith("2")
    default: Any = (-2, -1) if two else None

    def fun(a: Any, s: Any = None, axes: Any = default, norm: str | None = None) -> Any:
        if two and np.shape(axes) != (2,):
            raise ArgumentError(f"fft.{name} transforms two axes, got axes={axes}; use {name[:-1]}n")
        return _transform(name, kind, a, s, axes, norm)

    doc = f"""{what} along {"two" if two else "several"} axes.

    Args:
        a: array of numbers.
        s: the lengths to which the axes are cut or filled with zeros first; of irfft those of the real result.
        axes: the axes, by default {"the last two" if two else "all, or as many of the last as `s` has lengths"}.
        {_NORM}

    >>> import functad.numpy as jnp
    >>> jnp.fft.{name}(jnp.array({example}))
    {result}
    """
    return named(fun, name, doc)


def _family(kind: FftType, what: str, *examples: str) -> tuple[Callable[..., Any], ...]:
    """The transforms of one, two and more axes. examples: an input and its result; and of two axes."""
    name, (example, result, example2, result2) = kind.name.lower(), examples
    return (
        _of_one_axis(name, kind, what, example, result),
        _of_axes(f"{name}2", kind, what, example2, result2),
        _of_axes(f"{name}n", kind, what, example2, result2),
    )


fft, fft2, fftn = _family(
    FftType.FFT, "The discrete Fourier transform, Σ x_n e^(−2πi kn/N),",
    "[1., 0., -1., 0.]", "Array([0.+0.j, 2.+0.j, 0.+0.j, 2.+0.j], dtype=complex64)",
    "[[1., -1.]]", "Array([[0.+0.j, 2.+0.j]], dtype=complex64)",
)  # fmt: skip
ifft, ifft2, ifftn = _family(
    FftType.IFFT, "The inverse discrete Fourier transform",
    "[4., 0.]", "Array([2.+0.j, 2.+0.j], dtype=complex64)",
    "[[4., 0.]]", "Array([[2.+0.j, 2.+0.j]], dtype=complex64)",
)  # fmt: skip
rfft, rfft2, rfftn = _family(
    FftType.RFFT, "The half of the discrete Fourier transform of real numbers that determines the other half",
    "[1., 0., -1., 0.]", "Array([0.+0.j, 2.+0.j, 0.+0.j], dtype=complex64)",
    "[[1., -1.]]", "Array([[0.+0.j, 2.+0.j]], dtype=complex64)",
)  # fmt: skip
irfft, irfft2, irfftn = _family(
    FftType.IRFFT, "The real numbers of which half the discrete Fourier transform is given",
    "[0., 2., 0.]", "Array([ 1.,  0., -1.,  0.], dtype=float32)",
    "[[2., 0.]]", "Array([[1., 1.]], dtype=float32)",
)  # fmt: skip

# --- of numbers with a real spectrum ----------------------------------------------------------------


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The real discrete Fourier transform of numbers of which half is given: the others are their conjugates.

    Args:
        a: array of numbers.
        n: the length of the result, by default twice that of `a` less 2.
        axis: the axis.
        norm: as for `fft`.

    >>> import functad.numpy as jnp
    >>> jnp.fft.hfft(jnp.array([1., 1.j, 0.]))
    Array([ 1.,  3.,  1., -1.], dtype=float32)
    """
    x = as_array("fft.hfft", a)
    return _transform(
        "hfft", FftType.IRFFT, complex_parts.conj(x), None if n is None else (n,), (_one("hfft", axis),), norm
    )


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """The non-redundant half of the inverse discrete Fourier transform of real numbers.

    Args:
        a: array of real numbers.
        n: the length to which the axis is cut or filled with zeros first.
        axis: the axis.
        norm: as for `fft`.

    >>> import functad.numpy as jnp
    >>> jnp.fft.ihfft(jnp.array([1., 3., 1., -1.]))
    Array([1.-0.j, 0.+1.j, 0.-0.j], dtype=complex64)
    """
    return complex_parts.conj(
        _transform("ihfft", FftType.RFFT, a, None if n is None else (n,), (_one("ihfft", axis),), norm)
    )


# --- frequencies and their order --------------------------------------------------------------------


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of the elements of `fft`, in cycles per unit of `d`: first those from 0, then the negative ones.

    Args:
        n: the length of the transform.
        d: the distance of the samples.
        dtype: of the result, by default float32.
        device: where it shall lie, a device or its name.

    >>> import functad.numpy as jnp
    >>> jnp.fft.fftfreq(4, 0.5)
    Array([ 0. ,  0.5, -1. , -0.5], dtype=float32)
    """
    steps = np.fft.ifftshift(np.arange(-(n // 2), (n + 1) // 2))
    return on_wanted_device(_frequencies("fftfreq", steps, n, d, dtype), device)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of the elements of `rfft`, in cycles per unit of `d`; arguments as for `fftfreq`.

    >>> import functad.numpy as jnp
    >>> jnp.fft.rfftfreq(4, 0.5)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return on_wanted_device(_frequencies("rfftfreq", np.arange(n // 2 + 1), n, d, dtype), device)


def _frequencies(name: str, steps: np.ndarray, n: int, d: Any, dtype: Any) -> Any:
    wanted = dtypes.default_float_dtype() if dtype is None else dtypes.requested_dtype(dtype)
    length = as_array(f"fft.{name}", d)
    if length.ndim or operator.index(n) < 1:
        raise ArgumentError(f"fft.{name} takes a positive integer n and one number d, got n={n} and d={d}")
    return arithmetic.divide(asarray(steps, wanted), convert(length * n, wanted))


def fftshift(x: Any, axes: Any = None) -> Array:
    """Move frequency 0 to the middle of the axes, by default of all.

    >>> import functad.numpy as jnp
    >>> jnp.fft.fftshift(jnp.fft.fftfreq(4, 0.5))
    Array([-1. , -0.5,  0. ,  0.5], dtype=float32)
    """
    return _shifted("fftshift", x, axes, lambda n: n // 2)


def ifftshift(x: Any, axes: Any = None) -> Array:
    """Undo `fftshift`.

    >>> import functad.numpy as jnp
    >>> jnp.fft.ifftshift(jnp.array([-1. , -0.5,  0. ,  0.5]))
    Array([ 0. ,  0.5, -1. , -0.5], dtype=float32)
    """
    return _shifted("ifftshift", x, axes, lambda n: -(n // 2))


def _shifted(name: str, x: Any, axes: Any, shift: Callable[[int], int]) -> Any:
    x = as_array(f"fft.{name}", x)
    chosen = canonical_axes(f"fft.{name}", axes, x.ndim)
    return manipulation.roll(x, tuple(shift(x.shape[i]) for i in chosen), chosen)


if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
