"""Error and gamma functions of extended precision, where NumPy has it: exact values for functions of float64.

Logarithms of sums near their zeros have fifty digits. Knows nothing of functad: its methods are others.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal

import numpy as np

Wide = np.ndarray  # of longdouble

_ONE = np.longdouble(1)
_PI = np.longdouble("3.14159265358979323846264338327950288")
_EULER = np.longdouble("0.57721566490153286060651209008240243")
_HALF_LOG_TWO_PI = np.longdouble("0.91893853320467274178032973640561764")
_ROOT = (0.46163214496836236, -1.5522348162858677e-17)  # their sum and 1 are the root of digamma
_BERNOULLI = [
    _ONE * p / q for p, q in ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510))
]
_FAR = 24  # from here on the asymptotic series are exact


def _on_pieces(x: Wide, pieces: list[tuple[np.ndarray, Callable[[Wide], Wide]]]) -> Wide:
    """Each function where its mask holds, the first that does; NaN where none does."""
    out, left = np.full(x.shape, np.nan, x.dtype), np.ones(x.shape, bool)
    for mask, function in pieces:
        if (here := mask & left).any():
            out[here] = function(x[here])
        left &= ~mask
    return out


def _zeta(s: int, q: np.longdouble) -> np.longdouble:
    """The sum of (q + n)^−s over n ≥ 0, by Euler and Maclaurin."""
    end = q + _FAR
    total = sum((q + n) ** -s for n in range(_FAR)) + end ** (1 - s) / (s - 1) + end**-s / 2
    factor = s * end ** (-s - 1) / 2
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        total += bernoulli * factor
        factor *= (s + 2 * j - 1) * (s + 2 * j) / ((2 * j + 1) * (2 * j + 2) * end**2)
    return total


_LGAMMA = [(-1) ** k * _zeta(k, 2 * _ONE) / k for k in range(2, 40)]
_DIGAMMA = [(-1) ** (k + 1) * _zeta(k + 1, _ONE + _ROOT[0] + _ROOT[1]) for k in range(1, 40)]


def _series(coefficients: list[np.longdouble], z: Wide) -> Wide:
    total = np.zeros_like(z)
    for coefficient in reversed(coefficients):
        total = total * z + coefficient
    return total


# --- the gamma function ------------------------------------------------------------------------------


def lgamma(x: Wide) -> Wide:
    """ln |Γ(x)|."""
    pieces = [
        (np.isinf(x) | (x == 0) | ((x < 0) & (x == np.rint(x))), lambda v: np.full_like(v, np.inf)),
        (x < 0, lambda v: -np.log(np.abs(v * np.sin(_PI * (v - np.rint(v))) / _PI)) - lgamma(-v)),
        (x < 0.5, lambda v: _lgamma_of_two_plus(v) - np.log1p(v) - np.log(v)),
        (x < 1.5, lambda v: _lgamma_of_two_plus(v - 1) - np.log1p(v - 1)),
        (x < 2.5, lambda v: _lgamma_of_two_plus(v - 2)),
        (x >= 2.5, _lgamma_far),
    ]
    return _on_pieces(x, pieces)


def _lgamma_of_two_plus(z: Wide) -> Wide:
    return z * (1 - _EULER + z * _series(_LGAMMA, z))


def _lgamma_far(x: Wide) -> Wide:
    product = np.ones_like(x)
    for _ in range(_FAR):
        product = np.where(x < _FAR, product * x, product)
        x = np.where(x < _FAR, x + 1, x)
    terms = [b / (2 * j * (2 * j - 1)) for j, b in enumerate(_BERNOULLI, start=1)]
    return (x - 0.5) * np.log(x) - x + _HALF_LOG_TWO_PI + _series(terms, 1 / (x * x)) / x - np.log(product)


def digamma(x: Wide) -> Wide:
    """ψ(x); NaN at the poles."""
    pieces = [
        ((x <= 0) & (x == np.rint(x)), lambda v: np.full_like(v, np.nan)),
        (x < 0, lambda v: digamma(1 - v) - _PI / np.tan(_PI * (v - np.rint(v)))),
        (np.abs(x - 1 - _ROOT[0]) < 0.3, _digamma_near_root),
        (x > 0, _digamma_far),
    ]
    return _on_pieces(x, pieces)


def _digamma_near_root(x: Wide) -> Wide:
    distance = (x - 1 - _ROOT[0]) - _ROOT[1]
    return distance * _series(_DIGAMMA, distance)


def _digamma_far(x: Wide) -> Wide:
    total = np.zeros_like(x)
    for _ in range(_FAR):
        total = np.where(x < _FAR, total + 1 / x, total)
        x = np.where(x < _FAR, x + 1, x)
    terms = [b / (2 * j) for j, b in enumerate(_BERNOULLI, start=1)]
    square = 1 / (x * x)
    return np.log(x) - 0.5 / x - square * _series(terms, square) - total


# --- error functions ---------------------------------------------------------------------------------


def _gaussian(x: Wide) -> Wide:
    """e^(−x²): the square of a number of few digits is exact."""
    high = np.clip(x, -200, 200).astype(np.float32).astype(x.dtype)
    return np.exp(-high * high) * np.exp(-(x - high) * (x + high))


def erf(x: Wide) -> Wide:
    return _on_pieces(
        x, [(np.abs(x) <= 1.5, _erf_near), (np.abs(x) > 1.5, lambda v: np.sign(v) * (1 - erfc(np.abs(v))))]
    )


def erfc(x: Wide) -> Wide:
    return _on_pieces(
        x, [(x > 1.5, _erfc_far), (x >= -1.5, lambda v: 1 - _erf_near(v)), (x < -1.5, lambda v: 2 - erfc(-v))]
    )


def _erf_near(x: Wide) -> Wide:
    total = term = x
    for n in range(1, 60):
        term = term * (2 * x * x) / (2 * n + 1)
        total = total + term
    return 2 / np.sqrt(_PI) * _gaussian(x) * total


def _erfc_far(x: Wide) -> Wide:
    """Laplace's continued fraction."""
    x = np.minimum(x, 200)
    fraction = x
    for n in range(200, 0, -1):
        fraction = x + 0.5 * n / fraction
    return _gaussian(x) / (np.sqrt(_PI) * fraction)


def erf_inv(x: Wide, near: Callable[[np.ndarray], np.ndarray]) -> Wide:
    """The number whose error function is x, by Newton's method from what the function `near` finds."""
    size = np.abs(x)
    y = np.abs(np.asarray(near(x.astype(np.float64))).astype(x.dtype))
    for _ in range(2):
        excess = np.where(size > 0.5, (1 - size) - erfc(y), erf(y) - size)
        y = y - excess * (np.sqrt(_PI) / 2) / _gaussian(y)
    ends = np.where(size == 1, np.inf, np.where(size < 1, np.copysign(y, x), np.nan))
    return np.where(size == 1, np.copysign(ends, x), ends)


# --- logarithms of sums ------------------------------------------------------------------------------


def logaddexp(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _log_add(np.logaddexp(x, y), x, y, Decimal(1))


def logaddexp2(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _log_add(np.logaddexp2(x, y), x, y, _DIGITS.ln(Decimal(2)))


def _log_add(total: np.ndarray, x: np.ndarray, y: np.ndarray, unit: Decimal) -> np.ndarray:
    """The total, but where most of it has cancelled, ln(e^(unit x) + e^(unit y)) / unit to fifty digits."""
    few = np.flatnonzero(np.abs(total) < 2.0**-8 * np.abs(np.maximum(x, y)))
    for i in few:
        powers = [_DIGITS.exp(_DIGITS.multiply(_DIGITS.create_decimal(float(v)), unit)) for v in (x[i], y[i])]
        total[i] = total.dtype.type(str(_DIGITS.divide(_DIGITS.ln(_DIGITS.add(*powers)), unit)))
    return total


_DIGITS = Context(prec=50)
