"""Special functions as vectorised NumPy: error functions, gamma family, logistic, cumulative log-sum-exp.

It must not know tracing or primitives; SciPy is never imported.

Everything but the logistic function is evaluated in float64 and rounded once to the input's dtype. Callers
run these kernels under `np.errstate(all="ignore")`: out-of-domain points give NaN or infinity, as in JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from functad.dtypes import kind_of
from functad.primitives.kernels import gamma_coefficients as gamma_table
from functad.primitives.kernels import gamma_formulas, strict_math
from functad.primitives.kernels.plain_arithmetic import plain
from functad.primitives.kernels.strict_math import on_arrays

Floats = npt.NDArray[np.float64]
_Formula64 = Callable[[Floats], Floats]
_LGAMMA = plain(gamma_formulas.lgamma), plain(gamma_formulas.lgamma_on_the_right)
_DIGAMMA = plain(gamma_formulas.digamma), plain(gamma_formulas.digamma_on_the_right)


def erf(x: np.ndarray) -> np.ndarray:
    """Error function, that of the C library."""
    return _in_float64(_of_numbers(math.erf), x)


def erfc(x: np.ndarray) -> np.ndarray:
    """Complementary error function, that of the C library: relatively accurate down to the smallest number."""
    return _in_float64(_of_numbers(math.erfc), x)


def erf_inv(x: np.ndarray) -> np.ndarray:
    """Inverse error function on [-1, 1]; infinite at the ends, NaN outside.

    The method is in `strict_math`.
    """
    return on_arrays(strict_math.erf_inv, np.asarray(x))


def lgamma(x: np.ndarray) -> np.ndarray:
    """Logarithm of the absolute value of the gamma function; infinite at its poles.

    The methods of this function and the next are in `gamma_formulas`.
    """
    return _in_float64(lambda flat: _by_sides(_LGAMMA, flat), x)


def digamma(x: np.ndarray) -> np.ndarray:
    """Logarithmic derivative of the gamma function; NaN at its poles."""
    return _in_float64(lambda flat: _by_sides(_DIGAMMA, flat), x)


def trigamma(x: np.ndarray) -> np.ndarray:
    """Derivative of `digamma`; infinite at its poles."""
    return polygamma(1, x)


def polygamma(order: int, x: np.ndarray) -> np.ndarray:
    """Derivative of `digamma` of the given order (`order=0` is `digamma` itself).

    Source: Abramowitz & Stegun 6.4.10 (Hurwitz zeta) and 6.4.7 (reflection for negative arguments).
    """
    if order == 0:
        return digamma(x)
    return _in_float64(lambda flat: _polygamma64(order, flat), x)


def zeta(s: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Hurwitz zeta function, the sum over k >= 0 of `(q + k) ** -s`, for `s > 1` and `q > 0`.

    For other negative `q` only of integers `s`. Infinite at `s = 1` and where `q` is zero or a negative integer, NaN
    elsewhere outside of the domain.
    Source: Euler-Maclaurin summation, Abramowitz & Stegun 23.1.30 and 23.2.7.
    """
    s, q = np.broadcast_arrays(s, q)
    dtype = np.result_type(s, q)
    exponent, start = s.astype(np.float64), q.astype(np.float64)
    left = (start < 0) & (start != np.floor(start)) & (exponent > 1) & (exponent == np.floor(exponent))
    left &= exponent < np.inf
    out = np.asarray(_zeta64(exponent, np.where(left, 1.0, start)))
    if left.any():
        out[left] = _zeta_on_the_left(exponent[left], start[left])
    return out.astype(dtype)


def logistic(x: np.ndarray) -> np.ndarray:
    """Logistic function `1 / (1 + exp(-x))`, relatively accurate in both tails."""
    x = np.asarray(x)
    if kind_of(x.dtype) == "c":
        return np.asarray(1 / (1 + np.exp(-x)), x.dtype)
    work = x.astype(np.float64)
    decay = np.exp(-np.abs(work))
    numerator = np.where(np.signbit(work), decay, work.dtype.type(1))
    decay = decay + work.dtype.type(1)
    return np.asarray(numerator / decay).astype(x.dtype, copy=False)


def log1p(x: np.ndarray) -> np.ndarray:
    """`ln(1 + x)`; the real part of a small complex one is ½ ln(1 + (2 + a) a + b²), whose 1 takes no digits away."""
    x = np.asarray(x)
    if kind_of(x.dtype) != "c":
        return np.asarray(np.log1p(x))
    a, b = x.real.astype(np.float64), x.imag.astype(np.float64)
    near = (np.abs(a) < 0.5) & (np.abs(b) < 0.5)
    result = np.empty(x.shape, np.complex128)
    result.real = np.where(near, 0.5 * np.log1p(np.where(near, a * (a + 2) + b * b, 0)), np.log(np.hypot(1 + a, b)))
    result.imag = np.arctan2(b, 1 + a)
    return result.astype(x.dtype, copy=False)


def expm1(x: np.ndarray) -> np.ndarray:
    """`e^x − 1`; of a complex x with the values at infinities and NaN that the Array API standard gives."""
    if kind_of(x.dtype) != "c":
        return np.asarray(np.expm1(x))
    result = np.array(np.expm1(x))
    a, b = x.real, x.imag
    unknown_angle = np.isinf(a) & ~np.isfinite(b)  # the size still decides
    result.real = np.where(unknown_angle, np.where(a < 0, -1, a), result.real) + 0.0
    result.imag = np.where(b == 0, b, np.where(unknown_angle & (a < 0), 0, result.imag))  # an angle of 0 is kept
    return result


def tanh(x: np.ndarray) -> np.ndarray:
    """NumPy's; at an infinite real part the zero has the sign of the imaginary one, as the Array API standard says."""
    if kind_of(x.dtype) != "c":
        return np.asarray(np.tanh(x))
    result = np.array(np.tanh(x))
    far = np.isinf(x.real) & np.isfinite(x.imag)
    result.imag = np.where(far, np.copysign(0, x.imag), result.imag)
    return result


def cumulative_logsumexp(x: np.ndarray, axis: int) -> np.ndarray:
    """Running `log(sum(exp(x)))` along `axis`, pairwise stable: no common shift, so nothing underflows."""
    work = x.astype(np.float64) if x.dtype.itemsize < 8 else x
    sums = np.logaddexp.accumulate(work, axis=axis) + 0.0  # the first element is the log of a sum, too: never -0
    return sums.astype(x.dtype, copy=False)


def _in_float64(kernel: _Formula64, x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    flat = x.astype(np.float64).ravel()
    return kernel(flat).reshape(x.shape).astype(x.dtype, copy=False)


def _of_numbers(function: Callable[[float], float]) -> _Formula64:
    return lambda x: np.fromiter(map(function, x.tolist()), np.float64, x.size)


def _piecewise(x: Floats, pieces: Sequence[tuple[npt.NDArray[np.bool_], _Formula64]]) -> Floats:
    """Evaluate each kernel where its mask holds (masks are disjoint); NaN where none does."""
    out = np.full(x.shape, np.nan)
    for mask, kernel in pieces:
        where = np.flatnonzero(mask)
        if 0 < where.size == x.size:
            return kernel(x)
        if where.size:
            out[where] = kernel(x[where])
    return out


def _by_sides(intrinsics: tuple[Callable[..., Any], Callable[..., Any]], x: Floats) -> Floats:
    """An intrinsic for all numbers at those below 0, and another, for the others, there."""
    out = np.empty(x.shape)
    for where, intrinsic in zip((x < 0, ~(x < 0)), intrinsics):
        if where.any():
            out[where] = on_arrays(intrinsic, x[where])
    return out


def lgamma_of_two_plus(z: Floats) -> Floats:
    """ln Γ(2 + z) for |z| <= 0.5, relatively accurate near its root 0."""
    return _horner(gamma_table.LGAMMA_SERIES, z)


def _horner(coefficients: Sequence[float], x: Floats) -> Floats:
    """Polynomial with the highest power's coefficient first."""
    total = np.full(x.shape, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= x
        total += coefficient
    return total


# Gamma family.
def _polygamma64(order: int, x: Floats) -> Floats:
    pole = math.inf if order % 2 else math.nan
    return _piecewise(
        x,
        (
            (x > 0, lambda v: _polygamma_positive(order, v)),
            ((x <= 0) & (x == np.floor(x)) & (x > -np.inf), lambda v: np.full(v.shape, pole)),
            ((x < 0) & (x != np.floor(x)), lambda v: _polygamma_negative(order, v)),
        ),
    )


def _polygamma_positive(order: int, x: Floats) -> Floats:
    sign = 1.0 if order % 2 else -1.0
    return sign * math.factorial(order) * _zeta64(np.full(x.shape, order + 1.0), x)


def _polygamma_negative(order: int, x: Floats) -> Floats:
    sign = 1.0 if order % 2 else -1.0
    return sign * math.factorial(order) * _zeta_on_the_left(np.full(x.shape, order + 1.0), x)


def _zeta_on_the_left(s: Floats, q: Floats) -> Floats:
    """For negative q and integers s: the sum over all integers k, which has the period 1, without those below 0."""
    fraction = q - np.rint(q)
    left = np.where(fraction < 0, 1 + fraction, fraction)
    right = np.where(fraction < 0, -fraction, 1 - fraction)
    sign = np.where(np.remainder(s, 2) == 0, 1.0, -1.0)
    periodic = _zeta64(s, left) + sign * _zeta64(s, right)
    negatives: Floats = sign * _zeta64(s, 1 - q)
    return periodic - negatives


_ZETA_DIRECT_TERMS = 10


def _zeta64(s: Floats, q: Floats) -> Floats:
    total = np.zeros(np.shape(s))
    for k in range(_ZETA_DIRECT_TERMS):
        total += (q + k) ** -s
    end = q + _ZETA_DIRECT_TERMS
    power = end**-s
    total += power * (end / (s - 1) + 0.5)
    factor = s * power / end
    for j, coefficient in enumerate(gamma_table.BERNOULLI_OVER_FACTORIAL, start=1):
        total += coefficient * factor
        factor = factor * (s + (2 * j - 1)) * (s + 2 * j) / (end * end)
    pole = (s == 1) | ((q <= 0) & (q == np.floor(q)))
    invalid = (s < 1) | (q <= 0) | np.isnan(s) | np.isnan(q)
    finite = np.where(np.isinf(q) | np.isinf(s), np.where(np.isinf(q), 0.0, q**-s), total)
    return np.where(pole, np.inf, np.where(invalid, np.nan, finite))
