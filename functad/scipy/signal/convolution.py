"""Convolution and correlation of arrays of any rank, directly and by Fourier transforms.

Knows the public array functions.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import functad.numpy as jnp
from functad import lax
from functad.api.mapping import vmap
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError

_MODES = ("full", "same", "valid")


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Any:
    """The convolution of two arrays of one rank.

    Args:
        in1, in2: arrays of numbers; one must be at least as large as the other along every axis.
        mode: "full", all sums; "same", as many as `in1` has elements, from the middle; "valid", those without zeros
            from outside of the arrays.
        method: "direct" (as "auto"), or "fft", which is faster for long ones.
        precision: has no effect.

    >>> import functad.numpy as jnp
    >>> convolve(jnp.array([1., 2., 3.]), jnp.array([1., 1.]))
    Array([1., 3., 5., 3.], dtype=float32)
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("auto", "direct"):
        raise ArgumentError(f"convolve: method must be 'auto', 'direct' or 'fft', got {method!r}")
    return _direct("convolve", in1, in2, mode)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Any:
    """The cross-correlation of two arrays of one rank: the convolution with the conjugate of `in2`, reversed.

    Arguments as for `convolve`.

    >>> import functad.numpy as jnp
    >>> correlate(jnp.array([1., 2., 3.]), jnp.array([0., 1.]))
    Array([1., 2., 3., 0.], dtype=float32)
    """
    return convolve(in1, jnp.flip(jnp.conj(jnp.asarray(in2))), mode, method, precision)


def convolve2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, precision: Any = None
) -> Any:
    """The convolution of two matrices.

    Args:
        in1, in2, mode: as for `convolve`.
        boundary, fillvalue: must be "fill" and 0; pad the matrix for others.
        precision: has no effect.

    >>> import functad.numpy as jnp
    >>> convolve2d(jnp.eye(2), jnp.ones((1, 2)))
    Array([[1., 1., 0.],
           [0., 1., 1.]], dtype=float32)
    """
    return _direct("convolve2d", *_matrices("convolve2d", in1, in2, boundary, fillvalue), mode)


def correlate2d(
    in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: float = 0, precision: Any = None
) -> Any:
    """The cross-correlation of two matrices; arguments as for `convolve2d`.

    >>> import functad.numpy as jnp
    >>> correlate2d(jnp.eye(2), jnp.array([[0., 1.]]))
    Array([[1., 0., 0.],
           [0., 1., 0.]], dtype=float32)
    """
    x, y = _matrices("correlate2d", in1, in2, boundary, fillvalue)
    result = _direct("correlate2d", x, jnp.flip(jnp.conj(y)), mode, later=True)
    # As in SciPy: where in2 is the larger one, the roles of both are exchanged.
    return jnp.conj(result) if mode == "valid" and any(n < m for n, m in zip(x.shape, y.shape)) else result


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: int | Sequence[int] | None = None) -> Any:
    """The convolution of two arrays of one rank as a product of Fourier transforms.

    Args:
        in1, in2, mode: as for `convolve`.
        axes: the axes that are convolved, by default all; along others the arrays are paired, and of equal size.

    >>> import functad.numpy as jnp
    >>> print(jnp.round(fftconvolve(jnp.array([1., 2., 3.]), jnp.array([1., 1.])), 4))
    [1. 3. 5. 3.]
    """
    x, y = _operands("fftconvolve", in1, in2, mode)
    if axes is None:
        return _by_transforms(x, y, mode)
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    chosen = {operator.index(a) % x.ndim for a in given}
    mapped = [i for i in range(x.ndim) if i not in chosen]
    if any(x.shape[i] != y.shape[i] for i in mapped):
        raise ShapeError(
            f"fftconvolve: along the axes {mapped} that are not convolved the arrays must have equal sizes, but their "
            f"shapes are {x.shape} and {y.shape}"
        )

    def paired(x: Any, y: Any) -> Any:
        return _by_transforms(x, y, mode)

    for axis in mapped:  # the last one is mapped away first, and leaves the numbers of the others
        paired = vmap(paired, in_axes=axis, out_axes=axis)
    return paired(x, y)


# --- what they share --------------------------------------------------------------------------------


def _matrices(name: str, in1: Any, in2: Any, boundary: str, fillvalue: float) -> tuple[Any, Any]:
    x, y = jnp.asarray(in1), jnp.asarray(in2)
    if boundary != "fill" or fillvalue != 0:
        raise ArgumentError(f"{name}: boundary must be 'fill' and fillvalue 0; use functad.numpy.pad, and mode='valid'")
    if x.ndim != 2 or y.ndim != 2:
        raise ShapeError(f"{name} takes matrices, got shapes {x.shape} and {y.shape}")
    return x, y


def _operands(name: str, in1: Any, in2: Any, mode: str) -> tuple[Any, Any]:
    x, y = jnp.asarray(in1), jnp.asarray(in2)
    if mode not in _MODES:
        raise ArgumentError(f"{name}: mode must be 'full', 'same' or 'valid', got {mode!r}")
    ordered = all(n >= m for n, m in zip(x.shape, y.shape)) or all(n <= m for n, m in zip(x.shape, y.shape))
    if x.ndim != y.ndim or not (ordered or (mode != "valid" and name == "fftconvolve")) or 0 in (x.size, y.size):
        raise ShapeError(
            f"{name} takes arrays of one rank with elements, one of them at least as large as the other along every "
            f"axis, got shapes {x.shape} and {y.shape}"
        )
    dtype = jnp.result_type(x, y)
    dtype = dtype if kind_of(dtype) in "fc" else jnp.result_type(dtype, 1.0)
    return x.astype(dtype), y.astype(dtype)


def _part(mode: str, n: int, m: int, later: bool = False) -> tuple[int, int]:
    """The first element and the length of the result as a part of the full convolution along one axis."""
    full = n + m - 1
    if mode == "full":
        return 0, full
    if mode == "same":
        return (full - n + later) // 2, n
    return min(n, m) - 1, abs(n - m) + 1


def _direct(name: str, in1: Any, in2: Any, mode: str, later: bool = False) -> Any:
    """later: of two middles of a result of even length take the second."""
    x, y = _operands(name, in1, in2, mode)
    parts = [_part(mode, n, m, later) for n, m in zip(x.shape, y.shape)]
    if any(n < m for n, m in zip(x.shape, y.shape)):
        x, y = y, x
    # Around the elements there are as many zeros as the first and the last sum reach out; or elements are cut off.
    before = [m - 1 - start for m, (start, _) in zip(y.shape, parts)]
    after = [start + length - n for n, (start, length) in zip(x.shape, parts)]
    inside = tuple(slice(max(-b, 0), n - max(-a, 0)) for b, a, n in zip(before, after, x.shape))
    padding = [(max(b, 0), max(a, 0)) for b, a in zip(before, after)]
    return lax.conv_general_dilated(x[inside][None, None], jnp.flip(y)[None, None], (1,) * x.ndim, padding)[0, 0]


def _by_transforms(x: Any, y: Any, mode: str) -> Any:
    if x.ndim == 0:
        return x * y
    lengths = [n + m - 1 for n, m in zip(x.shape, y.shape)]
    forward, inverse = (jnp.fft.fftn, jnp.fft.ifftn) if kind_of(x.dtype) == "c" else (jnp.fft.rfftn, jnp.fft.irfftn)
    full = inverse(forward(x, lengths) * forward(y, lengths), lengths)
    parts = [_part(mode, n, m) for n, m in zip(x.shape, y.shape)]
    return full[tuple(slice(start, start + length) for start, length in parts)]
