"""Modified Bessel functions of the first kind, exponentially scaled, as vectorised NumPy.

It must not know tracing or primitives; SciPy is never imported.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]

_SERIES_TO = 20.0  # from here on the asymptotic series reaches float64's accuracy
_SERIES_TERMS = 45
_ASYMPTOTIC_TERMS = 28


def bessel_i0e(x: np.ndarray) -> np.ndarray:
    """`exp(-|x|) I0(x)`, evaluated in float64.

    Sources: NIST Digital Library of Mathematical Functions 10.25.2 (power series, all of whose terms are
    positive) for `|x| < 20`, 10.40.1 (asymptotic expansion) beyond.
    """
    size = np.abs(x.astype(np.float64))
    return np.asarray(_scaled(0, size)).astype(x.dtype)


def bessel_i1e(x: np.ndarray) -> np.ndarray:
    """`exp(-|x|) I1(x)`, evaluated in float64; sources as for `bessel_i0e`."""
    wide = x.astype(np.float64)
    return np.asarray(np.copysign(_scaled(1, np.abs(wide)), wide)).astype(x.dtype)


def _scaled(order: int, size: _Floats) -> _Floats:
    near = np.minimum(size, _SERIES_TO)
    far = np.maximum(size, _SERIES_TO)
    series = (near / 2) ** order * np.polyval(_POWER_SERIES[order], near * near / 4) * np.exp(-near)
    expansion = np.polyval(_ASYMPTOTIC_SERIES[order], 1 / far) / np.sqrt(2 * math.pi * far)
    chosen: _Floats = np.where(size < _SERIES_TO, series, expansion)
    return np.where(np.isnan(size), np.nan, chosen)


def _power_series(order: int) -> list[float]:
    """Coefficients of `I(x) / (x/2)^order` in powers of `x^2 / 4`, the highest first."""
    return [1 / (math.factorial(k) * math.factorial(k + order)) for k in reversed(range(_SERIES_TERMS))]


def _asymptotic_series(order: int) -> list[float]:
    """Coefficients of `I(x) exp(-x) sqrt(2 pi x)` in powers of `1/x`, the highest first."""
    coefficients = [1.0]
    for k in range(1, _ASYMPTOTIC_TERMS):
        coefficients.append(-coefficients[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))
    return coefficients[::-1]


_POWER_SERIES = [_power_series(0), _power_series(1)]
_ASYMPTOTIC_SERIES = [_asymptotic_series(0), _asymptotic_series(1)]
