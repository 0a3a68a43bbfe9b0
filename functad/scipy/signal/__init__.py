"""`functad.scipy.signal`: convolutions, trends and spectra of signals.

Collects the public names of this package's files, and computes nothing itself.

Args:
    x: the signal, an array.

Shapes:
    Axes that are not transformed or convolved are kept.

Raises:
    ShapeError: the arrays differ in rank, or have no elements.
    ArgumentError: a mode, method, norm or type that there is not.
    DTypeError: an argument is no array of numbers.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.scipy.signal.convolution import convolve, convolve2d, correlate, correlate2d, fftconvolve
from functad.scipy.signal.spectra import csd, istft, stft, welch
from functad.scipy.signal.trends import detrend

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "csd",
    "detrend",
    "fftconvolve",
    "istft",
    "stft",
    "welch",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
