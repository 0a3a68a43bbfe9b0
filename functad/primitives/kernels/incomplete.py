"""The regularised incomplete gamma and beta functions as vectorised NumPy.

It must not know tracing or primitives; SciPy is never imported.

Evaluated in float64 and rounded once to the operands' dtype. Callers run these kernels under
`np.errstate(all="ignore")`; out of the domain they give NaN, as in JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

import numpy as np
import numpy.typing as npt

from functad.primitives.kernels import gamma_coefficients as table
from functad.primitives.kernels.special import Floats, erfc, lgamma, lgamma_of_two_plus

_Flags = npt.NDArray[np.bool_]
_Positions = npt.NDArray[np.intp]
_Iteration = Callable[[int, _Positions], _Flags]

_EPSILON = 2.0**-53
_TINY = 1e-290
_MOST_STEPS = 20_000
_STIRLING_FROM = 10.0
_UNIFORM_FROM = 1e5
_BLOCK = 1 << 15  # elements, of which the arrays that a step takes stay in caches


def _in_blocks(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The element-wise function, of a block of the operands' elements at a time."""

    @wraps(function)
    def of_arrays(*operands: np.ndarray) -> np.ndarray:
        whole = np.broadcast_arrays(*operands)
        if whole[0].size <= _BLOCK:
            return function(*whole)
        flat = [v.ravel() for v in whole]
        parts = [function(*[v[k : k + _BLOCK] for v in flat]) for k in range(0, flat[0].size, _BLOCK)]
        return np.concatenate(parts).reshape(whole[0].shape)

    return of_arrays


@_in_blocks
def igamma(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Lower regularised incomplete gamma function P(a, x), relatively accurate where it is small.

    Sources: NIST Digital Library of Mathematical Functions 8.11.4 (series below x = a + 1) and 8.9.2
    (continued fraction above, by Lentz's method); for a > 1e5 the uniform expansion of N. M. Temme,
    "The asymptotic expansion of the incomplete gamma functions", SIAM J. Math. Anal. 10 (1979).
    """
    return _gamma_parts(a, x)[0]


@_in_blocks
def igammac(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Upper regularised incomplete gamma function Q(a, x), relatively accurate where it is small.

    Sources: those of `igamma`; for small a and x, where P is almost 1, DLMF 8.7.1 with the 1 taken out.
    """
    return _gamma_parts(a, x)[1]


@_in_blocks
def betainc(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Regularised incomplete beta function I_x(a, b).

    Source: the continued fraction DLMF 8.17.22, by Lentz's method, and the symmetry 8.17.4 where it would
    converge slowly (there a result far below 1 is accurate in absolute terms only).
    """
    operands = np.broadcast_arrays(a, b, x)
    left, right, at = (np.asarray(v).astype(np.float64).ravel() for v in operands)
    out = np.full(at.shape, np.nan)
    valid = (left >= 0) & (right >= 0) & (at >= 0) & (at <= 1)
    valid &= (left != right) | ((left > 0) & np.isfinite(left))
    # The limits: at the ends; for a → 0 or b → ∞ all mass is at 0, for b → 0 or a → ∞ at 1.
    ends, all_at_0, all_at_1 = (at == 0) | (at == 1), (left == 0) | np.isinf(right), (right == 0) | np.isinf(left)
    out[valid & all_at_0] = 1
    out[valid & all_at_1] = 0
    out[valid & ends] = at[valid & ends]
    inside = valid & ~ends & ~all_at_0 & ~all_at_1
    left, right, at = left[inside], right[inside], at[inside]
    prefix = _beta_prefix(left, right, at)
    # For a small b the result is small too, and not to be had as a difference from 1.
    below = (at < (left + 1) / (left + right + 2)) | ((right < 0.1) & (at < 0.995))
    fraction = _beta_fraction(np.where(below, left, right), np.where(below, right, left), np.where(below, at, 1 - at))
    part = prefix * fraction / np.where(below, left, right)
    out[inside] = np.where(below, part, 1 - part)
    return out.reshape(operands[0].shape).astype(operands[0].dtype)


# --- incomplete gamma ---------------------------------------------------------------------------------


def _gamma_parts(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P and Q, one of them computed and the other its complement to 1 where that loses nothing."""
    operands = np.broadcast_arrays(a, x)
    order, at = (np.asarray(v).astype(np.float64).ravel() for v in operands)
    lower, upper = np.full(at.shape, np.nan), np.full(at.shape, np.nan)
    valid = (order >= 0) & (at >= 0)
    # The limits: at 0 nothing lies below, at infinity nothing above; for a → 0 all mass is at 0.
    nothing_below = valid & (((at == 0) & (order > 0)) | (np.isinf(order) & np.isfinite(at)))
    nothing_above = valid & (((order == 0) & (at > 0)) | np.isinf(at))
    lower[nothing_below], upper[nothing_below] = 0, 1
    lower[nothing_above], upper[nothing_above] = 1, 0
    inside = valid & (order > 0) & (at > 0) & np.isfinite(order) & np.isfinite(at)
    uniform = inside & (order > _UNIFORM_FROM)
    small = inside & (order < 1) & (at <= 1.5)
    series = inside & ~uniform & ~small & (at < order + 1)
    fraction = inside & ~uniform & ~small & ~series
    for mask, parts in ((uniform, _gamma_uniform), (small, _gamma_small)):
        lower[mask], upper[mask] = parts(order[mask], at[mask])
    lower[series] = _gamma_series(order[series], at[series])
    upper[series] = 1 - lower[series]
    upper[fraction] = _gamma_fraction(order[fraction], at[fraction])
    lower[fraction] = 1 - upper[fraction]
    shape, dtype = operands[0].shape, operands[0].dtype
    return lower.reshape(shape).astype(dtype), upper.reshape(shape).astype(dtype)


def _gamma_series(a: Floats, x: Floats) -> Floats:
    """P = x^a e^−x / Γ(a + 1) · (1 + x/(a+1) + x²/((a+1)(a+2)) + ...)."""
    total, term = np.ones_like(x), np.ones_like(x)

    def step(k: int, active: _Positions) -> _Flags:
        term[active] *= x[active] / (a[active] + k)
        total[active] += term[active]
        return term[active] > _EPSILON * total[active]

    _until_converged(step, x.size)
    return _gamma_prefix(a, x) * total


def _gamma_fraction(a: Floats, x: Floats) -> Floats:
    """Q = x^a e^−x / Γ(a) · 1/(x+1−a− 1·(1−a)/(x+3−a− 2·(2−a)/(x+5−a− ...)))."""
    first = x + 1 - a
    result, c, d = 1 / first, np.full(x.shape, 1 / _TINY), 1 / first

    def step(k: int, active: _Positions) -> _Flags:
        numerator = -k * (k - a[active])
        denominator = first[active] + 2 * k
        d[active] = 1 / _away_from_zero(denominator + numerator * d[active])
        c[active] = _away_from_zero(denominator + numerator / c[active])
        change = c[active] * d[active]
        result[active] *= change
        return np.abs(change - 1) > 2 * _EPSILON

    _until_converged(step, x.size)
    return a * _gamma_prefix(a, x) * result


def _gamma_small(a: Floats, x: Floats) -> tuple[Floats, Floats]:
    """P = x^a / Γ(1 + a) · (1 + a · Σ (−x)^n / ((a + n) n!)), and Q without the 1 that P starts with."""
    near_two = a >= 0.5
    log_gamma = lgamma_of_two_plus(np.where(near_two, a - 1, a)) - np.where(near_two, 0.0, np.log1p(a))
    log_scale = a * np.log(x) - log_gamma
    total, power = np.zeros_like(x), np.ones_like(x)
    for n in range(1, 26):
        power = power * -x / n
        total += power / (a + n)
    scale = np.exp(log_scale)
    return scale * (1 + a * total), -np.expm1(log_scale) - scale * a * total


def _gamma_uniform(a: Floats, x: Floats) -> tuple[Floats, Floats]:
    """Q = erfc(η √(a/2)) / 2 + e^(−a η²/2) / √(2πa) · Σ C_k(η) a^−k, with η²/2 = λ − 1 − ln λ, λ = x/a."""
    distance = (x - a) / a
    half_square = -_log1p_minus(distance)
    eta = np.copysign(np.sqrt(2 * half_square), distance)
    exponent = a * half_square
    correction = np.zeros_like(x)
    for k in reversed(range(len(table.TEMME))):
        correction = correction / a + np.polyval(table.TEMME[k], eta)
    # Beyond |η| = 0.2 the exponential underflows, and the polynomials do not matter.
    remainder = np.where(exponent < 745, np.exp(-exponent) / np.sqrt(2 * math.pi * a) * correction, 0.0)
    tail = 0.5 * erfc(np.sqrt(exponent))
    below, above = tail - remainder, tail + remainder
    left = distance < 0
    return np.where(left, below, 1 - above), np.where(left, 1 - below, above)


def _gamma_prefix(a: Floats, x: Floats) -> Floats:
    """x^a e^−x / Γ(a + 1)."""
    small = np.minimum(a, _STIRLING_FROM)
    direct = np.where(x < 1e4, np.power(x, small) * np.exp(-x - lgamma(small + 1)), 0.0)
    large = np.maximum(a, _STIRLING_FROM)
    # Stirling's formula, with what is large in x^a, e^−x and Γ cancelled beforehand.
    exponent = large * _log_ratio_minus(x, large) - _stirling_correction(large)
    return np.where(a < _STIRLING_FROM, direct, np.exp(exponent) / np.sqrt(2 * math.pi * large))


def _log_ratio_minus(x: Floats, centre: Floats) -> Floats:
    """ln(x/centre) − (x/centre − 1)."""
    return _log_minus(x / centre, (x - centre) / centre)


def _log_minus(ratio: Floats, distance: Floats) -> Floats:
    """ln(ratio) − (ratio − 1), where `distance` is ratio − 1 without the rounding of ratio."""
    return np.where(distance < -0.5, np.log(ratio) - distance, _log1p_minus(distance))


# --- incomplete beta ----------------------------------------------------------------------------------


def _beta_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """1/(1+ d_1/(1+ d_2/(1+ ...)))."""
    result, c, d = np.ones_like(x), np.full(x.shape, 1 / _TINY), np.ones_like(x)

    def step(k: int, active: _Positions) -> _Flags:
        m, p, q = k // 2, a[active], b[active]
        factors = -(p + m) * (p + q + m) if k % 2 else m * (q - m)
        numerator = factors * x[active] / ((p + (k - 1)) * (p + k))
        d[active] = 1 / _away_from_zero(1 + numerator * d[active])
        c[active] = _away_from_zero(1 + numerator / c[active])
        change = c[active] * d[active]
        result[active] *= change
        return np.abs(change - 1) > 2 * _EPSILON

    _until_converged(step, x.size)
    return result


def _beta_prefix(a: Floats, b: Floats, x: Floats) -> Floats:
    """x^a (1 − x)^b / B(a, b)."""
    direct = np.exp(a * np.log(x) + b * np.log1p(-x) - _log_beta(a, b))
    both = np.minimum(a, b) >= _STIRLING_FROM
    p, q = np.where(both, a, _STIRLING_FROM), np.where(both, b, _STIRLING_FROM)
    # Relative to the maximum at x = p/(p+q), so that nothing large cancels.
    offset = q * x - p * (1 - x)
    exponent = p * _log_minus(x * ((p + q) / p), offset / p) + q * _log_minus((1 - x) * ((p + q) / q), -offset / q)
    exponent += _stirling_correction(p + q) - _stirling_correction(p) - _stirling_correction(q)
    return np.where(both, np.sqrt(p / (p + q) * q / (2 * math.pi)) * np.exp(exponent), direct)


def _log_beta(a: Floats, b: Floats) -> Floats:
    """ln B(a, b) where at most one of a and b is large."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    far = np.maximum(high, _STIRLING_FROM)
    # ln Γ(far) − ln Γ(low + far), by Stirling's formula, in terms that are no larger than the result
    ratio = low * (1 - np.log(low + far)) - (far - 0.5) * np.log1p(low / far)
    ratio += _stirling_correction(far) - _stirling_correction(low + far)
    log_beta: Floats = lgamma(low) + np.where(high < _STIRLING_FROM, lgamma(high) - lgamma(low + high), ratio)
    return log_beta


# --- common -------------------------------------------------------------------------------------------


def _until_converged(step: _Iteration, size: int) -> None:
    """Call `step(k, active)`, k = 1, 2, ..., on the positions that it still reports as changing."""
    active = np.arange(size)
    for k in range(1, _MOST_STEPS):
        if not active.size:
            return
        active = active[step(k, active)]


def _away_from_zero(x: Floats) -> Floats:
    return np.where(np.abs(x) < _TINY, _TINY, x)


def _stirling_correction(a: Floats) -> Floats:
    """ln Γ(a) − ((a − 1/2) ln a − a + ln(2π)/2) for a >= 10 (Abramowitz & Stegun 6.1.41)."""
    inverse = 1 / a
    correction: Floats = inverse * np.polyval(table.STIRLING, inverse * inverse)
    return correction


def _log1p_minus(x: Floats) -> Floats:
    """ln(1 + x) − x, relatively accurate near 0: by ln(1 + x) = 2 artanh(r) with r = x/(2 + x)."""
    near = np.clip(x, -0.6, 1.0)
    r = near / (2 + near)
    square = r * r
    series = 2 * r * square * np.polyval(table.ATANH, square) - near * r
    return np.where(near == x, series, np.log1p(x) - x)
