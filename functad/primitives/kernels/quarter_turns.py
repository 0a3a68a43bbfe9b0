"""Angles as a number of quarter turns and the rest, of float32 and float64.

A formula is written against the arithmetic `k` (`PlainArithmetic`); it must not know NumPy's or LLVM's values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.primitives.kernels.error_free import product_of, sum_of

HALF_PI = 1.5707963267948966
# π/2 as a sum of numbers of the format, each what those before it leave off.
_HALF_PI_PARTS = {
    np.float32: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    np.float64: (HALF_PI, 6.123233995736766e-17, -1.4973849048591698e-33),
}
# 1.5 · 2^23 and 2^52: adding it rounds to an integer, which then stands in the lowest bits.
ROUNDER = {np.float32: 12582912.0, np.float64: 6755399441055744.0}


def half_pi_parts(k: Any, dtype: Any) -> tuple[Any, Any]:
    """π/2 as a number of the dtype, and what that rounds off."""
    first, second, _ = _HALF_PI_PARTS[np.dtype(dtype).type]
    return k.constant(first, dtype), k.constant(second, dtype)


def reduced(k: Any, x: Any) -> tuple[Any, Any, Any]:
    """The number of quarter turns nearest to x (modulo 4), and the angle that remains, as a sum; `k` is strict.

    π/2 is taken off in three parts (after Cody and Waite, 1980), for |x| < 2^18 in float32 and 2^40 in float64. The
    first difference is exact. No finite float64 is nearer to a multiple than 2^-62, and its errors are below 2^-120.
    """
    kind = np.dtype(x.dtype).type
    first, second, third = (k.constant(part, kind) for part in _HALF_PI_PARTS[kind])
    turns = x * (1 / HALF_PI) + ROUNDER[kind]
    n = turns - ROUNDER[kind]
    less = k.product_error(n, first, x)
    product, error = product_of(k, n, second)
    r, lost = sum_of(-less, -product)
    return k.bits(turns), r, lost - (error + n * third)


def turned(k: Any, quarter: Any, cosine: Any, sine: Any) -> Any:
    """The sine of an angle of so many quarters of a turn more than that of `sine` and `cosine`."""
    value = k.where((quarter & 1) != 0, cosine, sine)
    kind = np.dtype(value.dtype)
    return k.from_bits(k.bits(value) ^ ((quarter & 2) << (8 * kind.itemsize - 2)), kind.type)
