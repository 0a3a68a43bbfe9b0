"""Special functions of several arguments, and rounding to fewer bits, under JAX's names.

Knows the primitives and how operands are taken; no algorithms.
"""

from __future__ import annotations

from typing import Any

from functad.array import Array
from functad.lax.operands import bind_checked, same_shape
from functad.lax.operands import operand as take
from functad.primitives import elementwise as el
from functad.primitives import incomplete


def bessel_i0e(x: Any) -> Array:
    """e^−|x| I0(x), the modified Bessel function of order 0, scaled so that it does not overflow.

    Args:
        x: a float array or number.

    Returns:
        An array of the shape of x.

    >>> bessel_i0e(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return bind_checked(incomplete.bessel_i0e_p, take("bessel_i0e", x))


def bessel_i1e(x: Any) -> Array:
    """e^−|x| I1(x), the modified Bessel function of order 1, scaled so that it does not overflow.

    Args:
        x: a float array or number.

    Returns:
        An array of the shape of x.

    >>> bessel_i1e(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return bind_checked(incomplete.bessel_i1e_p, take("bessel_i1e", x))


def zeta(x: Any, q: Any) -> Array:
    """The Hurwitz zeta function, Σ (q + k)^−x over k ≥ 0; differentiable in q.

    Args:
        x, q: float arrays or numbers of one dtype; of one shape, or scalars; x > 1 and q > 0.

    Returns:
        An array of that shape, NaN outside of the domain.

    >>> zeta(2.0, 1.0)
    Array(1.644934, dtype=float32, weak_type=True)
    """
    return bind_checked(incomplete.zeta_p, *same_shape("zeta", x, q))


def igamma(a: Any, x: Any) -> Array:
    """P(a, x) = ∫₀ˣ t^(a−1) e^−t dt / Γ(a), the regularised lower incomplete gamma function.

    Args:
        a, x: float arrays or numbers of one dtype; of one shape, or scalars; a > 0 and x ≥ 0.

    Returns:
        An array of that shape, NaN outside of the domain.

    >>> igamma(1.0, 1.0)
    Array(0.6321206, dtype=float32, weak_type=True)
    """
    return bind_checked(incomplete.igamma_p, *same_shape("igamma", a, x))


def igammac(a: Any, x: Any) -> Array:
    """Q(a, x) = 1 − P(a, x), the regularised upper incomplete gamma function.

    Args:
        a, x: float arrays or numbers of one dtype; of one shape, or scalars; a > 0 and x ≥ 0.

    Returns:
        An array of that shape, NaN outside of the domain.

    >>> igammac(1.0, 1.0)
    Array(0.3678794, dtype=float32, weak_type=True)
    """
    return bind_checked(incomplete.igammac_p, *same_shape("igammac", a, x))


def igamma_grad_a(a: Any, x: Any) -> Array:
    """∂P(a, x)/∂a, the derivative of `igamma` in its first argument.

    Args:
        a, x: float arrays or numbers of one dtype; of one shape, or scalars; a > 0 and x ≥ 0.

    Returns:
        An array of that shape, NaN outside of the domain.

    >>> igamma_grad_a(1.0, 1.0)
    Array(-0.4317..., dtype=float32)
    """
    return incomplete.igamma_grad_a(*same_shape("igamma_grad_a", a, x))


def random_gamma_grad(a: Any, x: Any) -> Array:
    """The derivative in a of a random number x of the gamma distribution, implicit in P(a, x) = constant.

    Args:
        a, x: float arrays or numbers of one dtype; of one shape, or scalars; a > 0 and x > 0.

    Returns:
        An array of that shape, NaN outside of the domain.

    >>> random_gamma_grad(1.0, 1.0)
    Array(1.1736..., dtype=float32)
    """
    return incomplete.random_gamma_grad(*same_shape("random_gamma_grad", a, x))


def betainc(a: Any, b: Any, x: Any) -> Array:
    """∫₀ˣ t^(a−1) (1−t)^(b−1) dt / B(a, b), the regularised incomplete beta function; differentiable in x.

    Args:
        a, b, x: float arrays or numbers of one dtype; of one shape, or scalars; a, b > 0 and 0 ≤ x ≤ 1.

    Returns:
        An array of that shape, NaN outside of the domain.

    >>> betainc(2.0, 2.0, 0.5)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return bind_checked(incomplete.regularized_incomplete_beta_p, *same_shape("betainc", a, b, x))


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Array:
    """An array rounded, to nearest and halves to even, to floats of fewer bits; its dtype stays.

    Numbers above their range become infinite, those below their normal range 0. A derivative passes,
    rounded likewise.

    Args:
        operand: a float array or number.
        exponent_bits: bits of the exponent, at least 1.
        mantissa_bits: bits of the mantissa, without the leading one.

    Returns:
        An array of the shape and dtype of the operand.

    >>> import numpy as np
    >>> reduce_precision(np.float32([1.2345, 1e30]), 5, 2)
    Array([1.25,  inf], dtype=float32)
    """
    return bind_checked(
        el.reduce_precision_p,
        take("reduce_precision", operand),
        exponent_bits=exponent_bits,
        mantissa_bits=mantissa_bits,
    )
