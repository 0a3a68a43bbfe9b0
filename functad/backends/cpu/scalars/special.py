"""Words of kernel text for the rarer functions, in float64: gamma family, incomplete functions, Bessel functions.

It must not import Numba: these are plain functions of one number, of the language that the compiler understands, and
short formulas. The methods and their sources are those of `functad.primitives.kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from functad.backends.cpu.scalars.elementary import copysign, floor, round_even, sqrt
from functad.backends.cpu.scalars.exact import routine
from functad.primitives.kernels import bessel, gamma_formulas
from functad.primitives.kernels import gamma_coefficients as gamma_table
from functad.primitives.kernels.plain_arithmetic import plain

_PI = math.pi
_INF = math.inf
_NAN = math.nan


def _libm(name: str) -> Callable[..., Any]:
    return plain(lambda k, *operands: k.libm(name, *operands), inline=True)


_exp, _expm1, _log, _log1p, _pow, _erfc = map(_libm, ("exp", "expm1", "log", "log1p", "pow", "erfc"))


def _polynomial(name: str, coefficients: Sequence[float]) -> Callable[..., Any]:
    """A polynomial, the coefficient of the highest power first."""

    def formula(k: Any, x: Any) -> Any:
        total = x * coefficients[0] + coefficients[1]
        for coefficient in coefficients[2:]:
            total = total * x + coefficient
        return total

    formula.__name__ = name
    return plain(formula)


# --- the gamma function's logarithm and derivatives -------------------------------------------------

_lgamma_of_two_plus = _polynomial("lgamma_of_two_plus", gamma_table.LGAMMA_SERIES)

lgamma = plain(gamma_formulas.lgamma)
digamma = plain(gamma_formulas.digamma)


@routine
def _lgamma(x: Any) -> Any:
    """`lgamma`, once in machine code for all who use it here."""
    return lgamma(x)


@routine
def polygamma(m: Any, x: Any) -> Any:
    """ψ⁽ᵐ⁾(x), the m-th derivative of ψ, by Hurwitz zeta functions; NaN where m is no natural number."""
    if m == 0:
        return digamma(x)
    if m < 0 or m == _INF or m != floor(m):
        return _NAN
    sign = 1.0 if m % 2 == 1 else -1.0
    scale = sign * _factorial(m)
    if x > 0:
        return scale * _zeta_on_the_right(m + 1, x)
    if x == floor(x):
        return _INF if sign > 0 and x > -_INF else _NAN
    return scale * _zeta_on_the_left(m + 1, x)


@routine
def _factorial(m: Any) -> Any:
    product, k = 1.0, 1.0
    while k < m and product < _INF:
        k = k + 1
        product = product * k
    return product


_BERNOULLI = gamma_table.BERNOULLI_OVER_FACTORIAL


@plain
def _zeta_tail(k: Any, s: Any, end: Any, power: Any) -> Any:
    """What Euler and Maclaurin add to the first terms of a zeta function."""
    total = power * (end / (s - 1) + 0.5)
    factor = s * power / end
    for j, coefficient in enumerate(_BERNOULLI, start=1):
        total = total + factor * coefficient
        factor = factor * (s + (2 * j - 1)) * (s + 2 * j) / (end * end)
    return total


@routine
def zeta(s: Any, q: Any) -> Any:
    """Hurwitz zeta function, the sum of (q + k)^−s over k >= 0, for s > 1; for negative q only of integers s."""
    if s == 1 or (q <= 0 and q == floor(q)):
        return _INF
    if not s > 1 or q != q:
        return _NAN
    if q > 0:
        return _zeta_on_the_right(s, q)
    return _zeta_on_the_left(s, q) if s == floor(s) and s < _INF else _NAN


@routine
def _zeta_on_the_left(s: Any, q: Any) -> Any:
    """For negative q and integers s: the sum over all integers k, which has the period 1, without those below 0."""
    sign = 1.0 if s % 2 == 0 else -1.0
    fraction = q - round_even(q)
    left, right = fraction, 1 - fraction
    if fraction < 0:
        left, right = 1 + fraction, -fraction
    periodic = _zeta_on_the_right(s, left) + sign * _zeta_on_the_right(s, right)
    return periodic - sign * _zeta_on_the_right(s, 1 - q)


@routine
def _zeta_on_the_right(s: Any, q: Any) -> Any:
    if q == _INF:
        return 0.0
    if s == _INF:
        return _pow(q, -s)
    total = 0.0
    for k in range(10):
        total = total + _pow(q + k, -s)
    end = q + 10
    return total + _zeta_tail(s, end, _pow(end, -s))


# --- incomplete gamma functions ---------------------------------------------------------------------

_EPSILON = 2.0**-53
_TINY = 1e-290
_MOST_STEPS = 20_000
_STIRLING_FROM = 10.0
_UNIFORM_FROM = 1e5
_temme_0, _temme_1, _temme_2 = (_polynomial(f"temme_{i}", c) for i, c in enumerate(gamma_table.TEMME))
_stirling = _polynomial("stirling", gamma_table.STIRLING)
_atanh = _polynomial("atanh_series", gamma_table.ATANH)


@routine
def igamma(a: Any, x: Any) -> Any:
    """P(a, x), the regularised lower incomplete gamma function."""
    lower, _ = _gamma_parts(a, x)
    return lower


@routine
def igammac(a: Any, x: Any) -> Any:
    """Q(a, x) = 1 − P(a, x), accurate where it is small."""
    _, upper = _gamma_parts(a, x)
    return upper


@routine
def _gamma_parts(a: Any, x: Any) -> Any:
    if not (a >= 0 and x >= 0) or (a == 0 and x == 0):
        return _NAN, _NAN
    if x == _INF or a == 0:
        return 1.0, 0.0
    if x == 0 or a == _INF:
        return 0.0, 1.0
    if a > _UNIFORM_FROM:
        return _gamma_uniform(a, x)
    if a < 1 and x <= 1.5:
        return _gamma_small(a, x)
    if x < a + 1:
        lower = _gamma_series(a, x)
        return lower, 1 - lower
    upper = _gamma_fraction(a, x)
    return 1 - upper, upper


@routine
def _gamma_series(a: Any, x: Any) -> Any:
    total, term = 1.0, 1.0
    for k in range(1, _MOST_STEPS):
        term = term * (x / (a + k))
        total = total + term
        if not term > _EPSILON * total:
            break
    return _gamma_prefix(a, x) * total


@routine
def _gamma_fraction(a: Any, x: Any) -> Any:
    first = x + 1 - a
    result, c, d = 1 / first, 1 / _TINY, 1 / first
    for k in range(1, _MOST_STEPS):
        numerator = -k * (k - a)
        denominator = first + 2 * k
        d = 1 / _away_from_zero(denominator + numerator * d)
        c = _away_from_zero(denominator + numerator / c)
        result = result * (c * d)
        if not abs(c * d - 1) > 2 * _EPSILON:
            break
    return a * _gamma_prefix(a, x) * result


@routine
def _gamma_small(a: Any, x: Any) -> Any:
    log_gamma = _lgamma_of_two_plus(a - 1) if a >= 0.5 else _lgamma_of_two_plus(a) - _log1p(a)
    log_scale = a * _log(x) - log_gamma
    total, power = 0.0, 1.0
    for n in range(1, 26):
        power = power * -x / n
        total = total + power / (a + n)
    scale = _exp(log_scale)
    return scale * (1 + a * total), -_expm1(log_scale) - scale * a * total


@routine
def _gamma_uniform(a: Any, x: Any) -> Any:
    distance = (x - a) / a
    half_square = -_log1p_minus(distance)
    eta = copysign(sqrt(2 * half_square), distance)
    exponent = a * half_square
    remainder = 0.0
    if exponent < 745:  # beyond, the exponential underflows
        correction = (_temme_2(eta) / a + _temme_1(eta)) / a + _temme_0(eta)
        remainder = _exp(-exponent) / sqrt(2 * _PI * a) * correction
    tail = 0.5 * _erfc(sqrt(exponent))
    if distance < 0:
        return tail - remainder, 1 - (tail - remainder)
    return 1 - (tail + remainder), tail + remainder


@routine
def _gamma_prefix(a: Any, x: Any) -> Any:
    """x^a e^−x / Γ(a + 1)."""
    if a < _STIRLING_FROM:
        return _pow(x, a) * _exp(-x - _lgamma(a + 1)) if x < 1e4 else 0.0
    return _exp(a * _log_minus(x / a, (x - a) / a) - _stirling_correction(a)) / sqrt(2 * _PI * a)


@routine
def _away_from_zero(x: Any) -> Any:
    return _TINY if abs(x) < _TINY else x


@routine
def _stirling_correction(a: Any) -> Any:
    """ln Γ(a) − ((a − 1/2) ln a − a + ln(2π)/2) for a >= 10."""
    inverse = 1 / a
    return inverse * _stirling(inverse * inverse)


@routine
def _log1p_minus(x: Any) -> Any:
    """ln(1 + x) − x, relatively accurate near 0."""
    if x < -0.6 or x > 1:
        return _log1p(x) - x
    r = x / (2 + x)
    square = r * r
    return 2 * r * square * _atanh(square) - x * r


@routine
def _log_minus(ratio: Any, distance: Any) -> Any:
    """ln(ratio) − (ratio − 1), where `distance` is ratio − 1 without the rounding of ratio."""
    return _log(ratio) - distance if distance < -0.5 else _log1p_minus(distance)


# --- the incomplete beta function -------------------------------------------------------------------


@routine
def betainc(a: Any, b: Any, x: Any) -> Any:
    """I_x(a, b), the regularised incomplete beta function."""
    if not (a >= 0 and b >= 0 and x >= 0 and x <= 1) or (a == b and (a == 0 or a == _INF)):
        return _NAN
    if x == 0 or x == 1:
        return x
    if a == 0 or b == 0 or a == _INF or b == _INF:  # all mass is at 0, or at 1
        return 1.0 if a == 0 or b == _INF else 0.0
    prefix = _beta_prefix(a, b, x)
    # For a small b the result is small too, and not to be had as a difference from 1.
    if x < (a + 1) / (a + b + 2) or (b < 0.1 and x < 0.995):
        return prefix * _beta_fraction(a, b, x) / a
    return 1 - prefix * _beta_fraction(b, a, 1 - x) / b


@routine
def _beta_fraction(a: Any, b: Any, x: Any) -> Any:
    result, c, d = 1.0, 1 / _TINY, 1.0
    for k in range(1, _MOST_STEPS):
        m = k // 2
        factors = m * (b - m)
        if k % 2 == 1:
            factors = -(a + m) * (a + b + m)
        numerator = factors * x / ((a + (k - 1)) * (a + k))
        d = 1 / _away_from_zero(1 + numerator * d)
        c = _away_from_zero(1 + numerator / c)
        result = result * (c * d)
        if not abs(c * d - 1) > 2 * _EPSILON:
            break
    return result


@routine
def _beta_prefix(a: Any, b: Any, x: Any) -> Any:
    """x^a (1 − x)^b / B(a, b)."""
    if a < _STIRLING_FROM or b < _STIRLING_FROM:
        return _exp(a * _log(x) + b * _log1p(-x) - _log_beta(a, b))
    # Relative to the maximum at x = a/(a+b), so that nothing large cancels.
    offset = b * x - a * (1 - x)
    left, right = _log_minus(x * ((a + b) / a), offset / a), _log_minus((1 - x) * ((a + b) / b), -offset / b)
    exponent = a * left + b * right
    corrections = _stirling_correction(a + b) - _stirling_correction(a) - _stirling_correction(b)
    return sqrt(a / (a + b) * b / (2 * _PI)) * _exp(exponent + corrections)


@routine
def _log_beta(a: Any, b: Any) -> Any:
    """ln B(a, b) where at most one of a and b is large."""
    low, high = a, b
    if b < a:
        low, high = b, a
    if high < _STIRLING_FROM:
        return _lgamma(low) + (_lgamma(high) - _lgamma(low + high))
    # ln Γ(high) − ln Γ(low + high), by Stirling's formula, in terms that are no larger than the result
    ratio = low * (1 - _log(low + high)) - (high - 0.5) * _log1p(low / high)
    return _lgamma(low) + (ratio + (_stirling_correction(high) - _stirling_correction(low + high)))


# --- Bessel functions -------------------------------------------------------------------------------

bessel_i0e = plain(bessel.scaled_i0)
bessel_i1e = plain(bessel.scaled_i1)
