"""The gamma function and its relatives, element-wise, with NumPy's promotion and broadcasting.

Knows identities between them; the algorithms are those of the primitives.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from functad import dtypes
from functad import numpy as jnp
from functad.array import Array
from functad.custom_derivatives import SymbolicZero, custom_jvp
from functad.errors import ArgumentError
from functad.evaluation import aval_of
from functad.numpy.promotion import convert, promote_args_inexact
from functad.primitives import elementwise as el
from functad.primitives import incomplete
from functad.scipy.special import complex_gamma, gamma_ratios
from functad.scipy.special.widening import in_float64


def gammaln(x: Any) -> Array:
    """log |Γ(x)|, element-wise.

    >>> gammaln(5.0)
    Array(3.178054, dtype=float32, weak_type=True)
    """
    return el.lgamma(*promote_args_inexact("gammaln", x))


def loggamma(x: Any) -> Array:
    """log Γ(x), element-wise; of a real x below 0 NaN, as the logarithm is complex there.

    >>> loggamma(5.0)
    Array(3.178054, dtype=float32, weak_type=True)
    """

    def of_real(x: Any) -> Any:
        return jnp.where(x < 0, jnp.nan, el.lgamma(x))

    return in_float64("loggamma", of_real, x, of_complex=complex_gamma.log_gamma, stays_weak=True)


def gammasgn(x: Any) -> Array:
    """The sign of Γ(x), element-wise: 1 or −1; at 0 that of the zero, NaN at the other poles.

    >>> gammasgn(-0.5)
    Array(-1., dtype=float32)
    """
    (x,) = promote_args_inexact("gammasgn", x)
    below = el.floor(x)
    odd = jnp.where(jnp.mod(below, 2) == 1, -1.0, 1.0)
    negative = jnp.where(below == x, jnp.nan, odd)
    sign = jnp.where(x > 0, 1.0, jnp.where(x == 0, jnp.copysign(1.0, x), negative))
    return convert(el.stop_gradient(jnp.where(jnp.isnan(x), jnp.nan, sign)), aval_of(x).dtype)


def gamma(x: Any) -> Array:
    """Γ(x), element-wise; infinite at 0, NaN at the other poles.

    >>> gamma(5.0)
    Array(24., dtype=float32)
    """
    return in_float64("gamma", lambda x: gammasgn(x) * jnp.exp(el.lgamma(x)), x, of_complex=complex_gamma.gamma)


def betaln(a: Any, b: Any) -> Array:
    """log |B(a, b)| = log |Γ(a) Γ(b) / Γ(a + b)|, element-wise.

    >>> betaln(2.0, 3.0)
    Array(-2.484907, dtype=float32, weak_type=True)
    """
    return in_float64("betaln", gamma_ratios.log_beta, a, b, stays_weak=True)


def beta(a: Any, b: Any) -> Array:
    """B(a, b) = Γ(a) Γ(b) / Γ(a + b), element-wise.

    >>> beta(2.0, 3.0)
    Array(0.0833333, dtype=float32)
    """
    return in_float64("beta", _beta, a, b)


def _beta(a: Any, b: Any) -> Any:
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    for one, other in ((a, b), (b, a)):
        odd = gamma_ratios.has_common_pole(one, other) & (jnp.remainder(other, 2.0) == 1)
        sign = jnp.where(odd, -1.0, sign)
    log_size = gamma_ratios.log_beta(a, b)
    return jnp.where((log_size == jnp.inf) | jnp.isnan(sign), 1.0, sign) * jnp.exp(log_size)


def comb(N: Any, k: Any, *, repetition: bool = False) -> Array:  # noqa: N803
    """How many ways there are to take k of N things: N! / (k! (N − k)!), element-wise, also between integers.

    Args:
        N, k: numbers; where one is negative there is no way, nor where k > N.
        repetition: whether a thing may be taken more than once.

    >>> comb(5, 2)
    Array(10., dtype=float32, weak_type=True)
    >>> comb(5, 2, repetition=True)
    Array(15., dtype=float32, weak_type=True)
    """
    return in_float64("comb", _multisets if repetition else _subsets, N, k, stays_weak=True)


def _subsets(n: Any, k: Any) -> Any:
    possible = (n >= 0) & (k >= 0) & (k <= n)
    total, taken = jnp.where(possible, n, 1.0), jnp.where(possible, k, 0.0)
    # N! / (k! (N − k)!) = 1 / ((N + 1) B(N − k + 1, k + 1)), an integer where N and k are.
    found = jnp.exp(-gamma_ratios.log_beta(total - taken + 1, taken + 1)) / (total + 1)
    integral = (total == jnp.rint(total)) & (taken == jnp.rint(taken))
    found = found + jnp.where(integral, el.stop_gradient(jnp.rint(found) - found), 0.0)
    return jnp.where(jnp.isnan(n + k), jnp.nan, jnp.where(possible, found, 0.0))


def _multisets(n: Any, k: Any) -> Any:
    possible = (n >= 0) & (k >= 0)
    none = possible & (k == 0)
    found = _subsets(jnp.where(none, 0.0, n + k - 1), k)
    return jnp.where(jnp.isnan(n + k) | possible, found, 0.0)


def poch(z: Any, m: Any) -> Array:
    """Γ(z + m) / Γ(z), the Pochhammer symbol, element-wise; also where z is a pole, as the limit.

    >>> poch(2.0, 3.0)
    Array(24., dtype=float32)
    """
    return in_float64("poch", gamma_ratios.pochhammer, z, m)


def factorial(n: Any, exact: bool = False) -> Array:
    """n! = Γ(n + 1), element-wise; 0 for negative n.

    >>> factorial(4)
    Array(24., dtype=float32, weak_type=True)
    """
    if exact:
        raise ArgumentError("factorial: exact=True needs integers of any size; use math.factorial(n) for one of them")
    return in_float64("factorial", lambda n: jnp.where(n < 0, 0, jnp.exp(el.lgamma(n + 1))), n, stays_weak=True)


def gammainc(a: Any, x: Any) -> Array:
    """P(a, x), the regularised lower incomplete gamma function, element-wise.

    >>> gammainc(1.0, 1.0)
    Array(0.6321206, dtype=float32, weak_type=True)
    """
    return incomplete.igamma(*promote_args_inexact("gammainc", a, x))


def gammaincc(a: Any, x: Any) -> Array:
    """Q(a, x) = 1 − P(a, x), the regularised upper incomplete gamma function, element-wise.

    >>> gammaincc(1.0, 1.0)
    Array(0.3678794, dtype=float32, weak_type=True)
    """
    return incomplete.igammac(*promote_args_inexact("gammaincc", a, x))


def betainc(a: Any, b: Any, x: Any) -> Array:
    """I_x(a, b), the regularised incomplete beta function, element-wise; differentiable in x.

    >>> betainc(2.0, 2.0, 0.5)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return incomplete.betainc(*promote_args_inexact("betainc", a, b, x))


def rgamma(x: Any) -> Array:
    """1 / Γ(x), element-wise, which is 0 at 0, −1, −2, …

    >>> rgamma(4.0)
    Array(0.1666667, dtype=float32)
    """
    return in_float64("rgamma", _rgamma, x)


@custom_jvp
def _rgamma(x: Any) -> Any:
    right, low = jnp.where(x < 0.5, 1.0, x), jnp.where(x < 0.5, x, 0.0)
    sine, _, factor = _reflection(low)
    left = jnp.where(sine == 0, 0.0, sine / np.pi * factor)
    return jnp.where(x < 0.5, left, 1 / gamma(right))


@_rgamma.defjvp
def _rgamma_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    right, low = jnp.where(x < 0.5, 1.0, x), jnp.where(x < 0.5, x, 0.0)
    sine, cosine, factor = _reflection(low)
    # d 1/Γ(x) = −ψ(x) / Γ(x) dx = Γ(1 − x) (cos(πx) − ψ(1 − x) sin(πx) / π) dx
    left = factor * (cosine - sine / np.pi * el.digamma(1 - low))
    return _rgamma(x), t * jnp.where(x < 0.5, left, -el.digamma(right) / gamma(right))


def _reflection(x: Any) -> tuple[Any, Any, Any]:
    """sin(πx), cos(πx) and Γ(1 − x): 1/Γ(x) = Γ(1 − x) sin(πx) / π, where neither factor has a pole."""
    whole = el.stop_gradient(jnp.round(x))
    sign = jnp.where(jnp.mod(whole, 2) == 1, -1.0, 1.0)
    return sign * jnp.sin(np.pi * (x - whole)), sign * jnp.cos(np.pi * (x - whole)), gamma(1 - x)


def digamma(x: Any) -> Array:
    """ψ(x) = Γ'(x) / Γ(x), element-wise.

    >>> digamma(1.0)
    Array(-0.5772157, dtype=float32, weak_type=True)
    """
    return el.digamma(*promote_args_inexact("digamma", x))


def polygamma(n: Any, x: Any) -> Array:
    """The derivative of order n of ψ(x), element-wise.

    >>> polygamma(1, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return el.polygamma(*promote_args_inexact("polygamma", n, x))


def zeta(x: Any, q: Any = None) -> Array:
    """The Hurwitz zeta function Σ (q + k)^−x over k ≥ 0, element-wise.

    >>> zeta(2.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return _zeta(*promote_args_inexact("zeta", x, 1.0 if q is None else q))


@custom_jvp
def _zeta(x: Any, q: Any) -> Any:
    return incomplete.zeta(x, q)


@partial(_zeta.defjvp, symbolic_zeros=True)
def _zeta_jvp(primals: Any, tangents: Any) -> Any:
    (x, q), (x_dot, q_dot) = primals, tangents
    change = 0.0
    if not isinstance(x_dot, SymbolicZero):
        change = change + in_float64("zeta", _zeta_slope, x, q) * x_dot
    if not isinstance(q_dot, SymbolicZero):
        change = change - x * _zeta(x + 1, q) * q_dot
    return _zeta(x, q), change


def multigammaln(a: Any, d: int) -> Array:
    """log Γ_d(a), the multivariate gamma function of dimension d: Σ log Γ(a − j/2) over j < d, and a constant.

    a has any shape, which the result has; d is a Python integer.

    >>> multigammaln(3.0, 2)
    Array(1.550195, dtype=float32, weak_type=True)
    """
    (a,) = promote_args_inexact("multigammaln", a)
    constant = d * (d - 1) / 4 * math.log(math.pi)
    return constant + sum(el.lgamma(jnp.subtract(a, j / 2)) for j in range(d))


def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B0 … Bn, with B1 = −1/2, for an integer n: an array of shape (n + 1,).

    >>> bernoulli(4)
    Array([ 1.        , -0.5       ,  0.16666667,  0.        , -0.03333334], dtype=float32)
    """
    if n < 0:
        raise ArgumentError(f"bernoulli: n must not be negative, got {n}")
    return jnp.asarray(np.array([float(b) for b in bernoulli_numbers(n)], dtypes.default_float_dtype()))


def bernoulli_numbers(n: int) -> list[Fraction]:
    """B0 … Bn."""
    numbers: list[Fraction] = []
    for k in range(n + 1):  # Σ C(k + 1, j) B_j over j ≤ k is 0
        total = sum((math.comb(k + 1, j) * b for j, b in enumerate(numbers)), Fraction(0))
        numbers.append(Fraction(1) if k == 0 else -total / (k + 1))
    return numbers


# --- the slope of zeta ----------------------------------------------------------------------------------

_ZETA_TERMS = 12  # before the Euler–Maclaurin formula, whose terms then shrink below float64's rounding
_ZETA_FACTORS = [float(b) / math.factorial(k) for k, b in enumerate(bernoulli_numbers(20)) if k > 1 and k % 2 == 0]


def _zeta_slope(x: Any, q: Any) -> Any:
    """∂ζ(x, q)/∂x: what it is of each term of the sum, and of the rest by Euler and Maclaurin (DLMF 25.11.43)."""
    total = sum(-jnp.log(q + k) * jnp.power(q + k, -x) for k in range(_ZETA_TERMS))
    end = q + _ZETA_TERMS
    log_end = jnp.log(end)
    power = jnp.power(end, -x)
    total = total - power * end / (x - 1) * (log_end + 1 / (x - 1)) - power * log_end / 2
    rising, slope = x, 1 / x - log_end  # of x (x + 1) … (x + 2j), and the slope of its logarithm less that of the end's
    power = power / end
    for j, factor in enumerate(_ZETA_FACTORS):
        total = total + factor * rising * power * slope
        low, high = x + 2 * j + 1, x + 2 * j + 2
        rising, slope, power = rising * low * high, slope + 1 / low + 1 / high, power / (end * end)
    return total
