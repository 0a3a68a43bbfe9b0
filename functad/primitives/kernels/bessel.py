"""Modified Bessel functions of the first kind, exponentially scaled, as vectorised NumPy.

It must not know tracing or primitives; SciPy is never imported.
"""

from __future__ import annotations

import math

import numpy as np

from functad.primitives.kernels import gamma_coefficients as table
from functad.primitives.kernels.special import Floats

_SERIES_TO = 20.0  # from here on the asymptotic series reaches float64's accuracy


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


def _scaled(order: int, size: Floats) -> Floats:
    near = np.minimum(size, _SERIES_TO)
    far = np.maximum(size, _SERIES_TO)
    series = (near / 2) ** order * np.polyval(table.BESSEL_POWER_SERIES[order], near * near / 4) * np.exp(-near)
    expansion = np.polyval(table.BESSEL_ASYMPTOTIC_SERIES[order], 1 / far) / (math.sqrt(2 * math.pi) * np.sqrt(far))
    chosen: Floats = np.where(size < _SERIES_TO, series, expansion)
    return np.where(np.isnan(size), np.nan, chosen)
