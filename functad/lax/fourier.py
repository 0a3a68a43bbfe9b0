"""The Fourier transform under JAX's name.

Knows the primitive and how operands are taken; norms, lengths and other axes are in `functad.numpy.fft`.

Shapes:
    Leading axes of matrices are those of a stack; other axes are counted in the function's words.

Raises:
    DTypeError: an operand is no array, or of a dtype that the operation does not take.
    ShapeError: shapes do not fit together, or an array has too few axes.
    ArgumentError: a padding, layout or option that there is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError
from functad.evaluation import aval_of
from functad.lax.operands import bind_checked
from functad.lax.operands import operand as _operand
from functad.numpy.promotion import convert, promote_dtypes_inexact
from functad.primitives.fourier import FftType, fft_p


def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Array:
    """The discrete Fourier transform of the last axes, not normalised but for 1 / N in the inverse ones.

    Args:
        x: an array; of complex numbers, which others are converted to, but for RFFT of real ones.
        fft_type: an `FftType`, or its name: FFT, IFFT, RFFT (of real numbers; half of the last axis) or IRFFT.
        fft_lengths: the sizes of the axes; with RFFT and IRFFT those of the real array.

    Returns:
        A complex array; of IRFFT a real one.

    >>> import numpy as np
    >>> fft(np.float32([1, 2, 3]), FftType.RFFT, (3,))
    Array([ 6. +0.j       , -1.5+0.8660254j], dtype=complex64)
    """
    kind = _fft_type(fft_type)
    (operand,) = promote_dtypes_inexact(_operand("fft", x))
    aval = aval_of(operand)
    if kind is FftType.RFFT:
        if kind_of(aval.dtype) == "c":
            raise DTypeError(f"lax.fft: RFFT takes real numbers, but x is {aval.str_short()}; use FFT, or real(x)")
    else:
        operand = convert(operand, np.result_type(aval.dtype, np.complex64))
    lengths = tuple(int(n) for n in fft_lengths)
    return bind_checked(fft_p, operand, fft_type=kind, fft_lengths=lengths) if lengths else operand


def _fft_type(given: Any) -> FftType:
    if isinstance(given, FftType):
        return given
    name = given.upper() if isinstance(given, str) else ""
    if name not in FftType.__members__:
        raise ArgumentError(f"lax.fft: fft_type must be an FftType, or one of FFT, IFFT, RFFT, IRFFT, got {given!r}")
    return FftType[name]
