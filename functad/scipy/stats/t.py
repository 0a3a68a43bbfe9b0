"""Student's distribution of df degrees of freedom.

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
from functad.scipy.special import betainc, betaln, ndtr
from functad.scipy.stats.shared import PI_TWICE_LOG, in_float64_once, inside

_ALMOST_NORMAL = 1e5  # degrees of freedom, from which on z lies so close to a normal variable that a series ends


@in_float64_once
def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the density.

    >>> pdf(0.0, 1.0)
    Array(0.3183099, dtype=float32, weak_type=True)
    """
    z = (x - loc) / scale
    is_normal = df == jnp.inf
    few = inside(jnp.logical_not(is_normal), df, 1)
    found = -betaln(few / 2, 0.5) - 0.5 * jnp.log(few) - (few + 1) / 2 * jnp.log1p(z * z / few)
    return jnp.where(is_normal, -0.5 * (PI_TWICE_LOG + z * z), found) - jnp.log(scale)


def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The density.

    >>> pdf(0.5, 3.5)
    Array(0.318317, dtype=float32, weak_type=True)
    """
    return jnp.exp(logpdf(x, df, loc, scale))


@in_float64_once
def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of at most x; differentiable in all arguments.

    >>> cdf(1.0, 1.0)
    Array(0.75, dtype=float32, weak_type=True)
    """
    return _tail((loc - x) / scale, df)


@in_float64_once
def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The probability of more than x; differentiable in all arguments.

    >>> sf(1.0, 1.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    return _tail((x - loc) / scale, df)


@in_float64_once
def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of at most x; differentiable in all arguments.

    >>> logcdf(-10.0, 5.0)
    Array(-9.367301, dtype=float32, weak_type=True)
    """
    return jnp.log(_tail((loc - x) / scale, df))


@in_float64_once
def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
    """The logarithm of the probability of more than x; differentiable in all arguments.

    >>> logsf(10.0, 5.0)
    Array(-9.367301, dtype=float32, weak_type=True)
    """
    return jnp.log(_tail((x - loc) / scale, df))


@custom_jvp
def _tail(z: Any, df: Any) -> Any:
    """The probability of more than z: half of I(df/2, 1/2) at df / (df + z²), which is small where z is large."""
    z, df = jnp.broadcast_arrays(z, df)
    is_normal = df > _ALMOST_NORMAL
    few = jnp.where(is_normal, 1.0, df)
    half = 0.5 * betainc(0.5 * few, 0.5, few / (few + z * z))
    return jnp.where(is_normal, _almost_normal_tail(z, df), jnp.where(z < 0, 1 - half, half))


def _almost_normal_tail(z: Any, df: Any) -> Any:
    """G. W. Hill, "Algorithm 395: Student's t-distribution" (1970), of many degrees of freedom."""
    df = jnp.clip(df, _ALMOST_NORMAL, 1e150)  # more of them change nothing
    share = z * z / df
    share = jnp.where(share < jnp.inf, share, 0.0)
    size = (df - 0.5) / df * jnp.where(share == 0, 1.0, jnp.log1p(share) / jnp.where(share == 0, 1.0, share))
    w = z * jnp.sqrt(size)
    return ndtr(-(w + w * (w * w + 3) / (48 * (df - 0.5) ** 2)))


@partial(_tail.defjvp, symbolic_zeros=True)
def _tail_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
    # dP = −density(z) (dz − z/(2 df) ddf) ± ½ ∂I/∂a(df/2, 1/2) ddf/2 at a constant w = df / (df + z²): what the
    # incomplete beta function makes of w's change is 0 times infinity at z = 0.
    (z, df), (dz, ddf) = primals, tangents
    density = pdf(z, df)
    change = 0.0 if isinstance(dz, SymbolicZero) else -density * dz
    if not isinstance(ddf, SymbolicZero):
        is_normal = df > _ALMOST_NORMAL
        few = jnp.where(is_normal, 1.0, df)
        w = few / (few + z * z)
        _, of_order = jvp(lambda order: betainc(order, 0.5, w), (0.5 * few,), (0.5 * ddf,))
        _, of_many = jvp(lambda df: _almost_normal_tail(z, df), (df,), (ddf,))
        of_few = density * z / (2 * few) * ddf + 0.5 * jnp.sign(z) * of_order
        change = change + jnp.where(is_normal, of_many, of_few)
    return _tail(z, df), change


__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
