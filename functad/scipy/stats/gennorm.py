"""The generalised normal distribution: density β exp(−|x|^β) / (2 Γ(1/β)).

Knows special functions alone.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.api import jvp
from functad.array import Array
from functad.custom_derivatives import SymbolicZero, custom_jvp
from functad.scipy.special import gammaincc, gammaln
from functad.scipy.stats.shared import in_float64_once, inside


@in_float64_once
def logpdf(x: Any, beta: Any) -> Array:
    """The logarithm of the density.

    >>> pdf(0.0, 1.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return jnp.log(0.5 * beta) - gammaln(1 / beta) - jnp.abs(x) ** beta


def pdf(x: Any, beta: Any) -> Array:
    """The density.

    >>> pdf(0.5, 1.4)
    Array(0.37556317, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, beta))


@in_float64_once
def cdf(x: Any, beta: Any) -> Array:
    """The probability of at most x.

    >>> cdf(0.5, 1.4)
    Array(0.73572594, dtype=float32, weak_type=True)
    """
    return _below(x, beta)


@custom_jvp
def _below(x: Any, beta: Any) -> Any:
    return _from_tail(x, beta)


def _from_tail(x: Any, beta: Any) -> Any:
    tail = 0.5 * gammaincc(1 / beta, jnp.abs(inside(x != 0, x, 1)) ** beta)
    tail = jnp.where(x == 0, 0.5, tail)
    return jnp.where(x <= 0, tail, 1 - tail)


@partial(_below.defjvp, symbolic_zeros=True)
def _below_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    # The slope in x is the density, also at 0, where that in |x|^β is infinite: there the value is 1/2 + x pdf(0) + ….
    (x, beta), (dx, dbeta) = primals, tangents
    change = 0.0 if isinstance(dx, SymbolicZero) else pdf(x, beta) * dx
    if not isinstance(dbeta, SymbolicZero):
        _, of_beta = jvp(lambda b: jnp.where(x == 0, x * pdf(0.0, b), _from_tail(x, b)), (beta,), (dbeta,))
        change = change + of_beta
    return _below(x, beta), change


__all__ = ["cdf", "logpdf", "pdf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
