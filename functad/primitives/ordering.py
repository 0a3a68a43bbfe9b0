"""The larger and the smaller of values, and what is kept between bounds.

Knows arithmetic and comparisons. Complex numbers are ordered by their real part first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.evaluation import aval_of
from functad.ir import Example
from functad.lowering_rules import Scalar
from functad.primitives.arithmetic import div, imag, mul, real
from functad.primitives.builders import ANY, Kinks, binary, by_kind, kinks_of, nary
from functad.primitives.common import convert_element_type, full, full_like, integers, normal, scalar_like, uniform
from functad.primitives.kernels import extrema
from functad.primitives.logic import and_, eq, lt, select_n
from functad.tracing import bind

# --- larger and smaller -----------------------------------------------------------------------------


def max(x: Any, y: Any) -> Any:
    return bind(max_p, x, y)


def min(x: Any, y: Any) -> Any:
    return bind(min_p, x, y)


def share_of_extremum(t: Any, out: Any, x: Any, y: Any) -> Any:
    """The tangent t of x where x is the larger (or smaller) of x and y; half of it where they are equal."""
    ones, zeros, twos = (full_like(out, value) for value in (1, 0, 2))
    return mul(t, div(select_n(eq(x, out), zeros, ones), select_n(eq(y, out), ones, twos)))


_EXTREMUM_JVPS = [
    lambda t, out, x, y: share_of_extremum(t, out, x, y),
    lambda t, out, x, y: share_of_extremum(t, out, y, x),
]

_TIES: Kinks = {
    (1, 1): {(1, None): (1 / 2, 0, 0), (None, 1): (1 / 2, 0, 0), (1, 1): (1, 0, 0), (1, -1): (0, 0, 0)},
    (0.0, -0.0): {(1, None): (1 / 2, 0, 0), (None, 1): (1 / 2, 0, 0)},
}

max_p = binary(
    "max",
    extrema.maximum,
    jvps=_EXTREMUM_JVPS,
    kinds=ANY,
    kinks=_TIES,
    lower=Scalar(by_kind("maximum({0}, {1})", b="{0} | {1}", c="complex_maximum({0}, {1})")),
    doc="The larger; NaN if either is, and +0 of zeros. Complex numbers are ordered by their real part first.",
)
min_p = binary(
    "min",
    extrema.minimum,
    jvps=_EXTREMUM_JVPS,
    kinds=ANY,
    kinks=_TIES,
    lower=Scalar(by_kind("minimum({0}, {1})", b="{0} & {1}", c="complex_minimum({0}, {1})")),
    doc="The smaller; NaN if either is, and -0 of zeros. Complex numbers are ordered as by max.",
)


def clamp(min: Any, operand: Any, max: Any) -> Any:
    """min(max(min, operand), max); the bounds have the shape of the operand, or rank 0."""
    return bind(clamp_p, min, operand, max)


def _below(x: Any, y: Any) -> Any:
    """x < y; complex numbers in the order of max."""
    if kind_of(x.dtype) != "c":
        return lt(x, y)
    return select_n(eq(real(x), real(y)), lt(real(x), real(y)), lt(imag(x), imag(y)))


def _where(mask: Any, t: Any, out: Any) -> Any:
    """The tangent t, which may be a scalar's, where the mask holds; zero elsewhere."""
    if aval_of(t).shape != out.shape:
        t = full(out.shape, t)
    return select_n(mask, full_like(t, 0), t)


_AT_BOUNDS: Kinks = {
    (0, 0, 1): {(None, 1, None): (0, 0, 0), (1, None, None): (0, 0, 0), (None, None, 1): (0, 0, 0)},
    (0, 1, 1): {(None, 1, None): (0, 0, 0), (None, None, 1): (0, 0, 0)},
    (1, 1, 1): {(1, 1, 1): (0, 0, 0)},
    (2, 1.5, 1): {(None, 1, None): (0, 0, 0), (1, None, None): (0, 0, 0), (None, None, 1): (1, 0, 0)},
}

clamp_p = nary(
    "clamp",
    lambda low, x, high: extrema.minimum(extrema.maximum(low, x), high),
    jvps=[
        # The derivative is 1 in whichever of the three is the result; on the bounds themselves it is 0.
        lambda t, out, low, x, high: _where(and_(_below(x, low), _below(low, high)), t, out),
        lambda t, out, low, x, high: _where(and_(_below(low, x), _below(x, high)), t, out),
        lambda t, out, low, x, high: _where(_below(high, x), t, out),
    ],
    kinds=ANY,
    lower=Scalar(
        by_kind(
            "minimum(maximum({0}, {1}), {2})",
            b="({0} | {1}) & {2}",
            c="complex_minimum(complex_maximum({0}, {1}), {2})",
        )
    ),
    doc="x, but at least the lower and at most the upper bound.",
    examples=lambda: [
        Example(args=(np.float32(-0.3), normal(2, 3), np.float32(0.4)), params={}),
        Example(args=(uniform(2, 3, low=-0.5), normal(2, 3), uniform(2, 3, low=1.0, high=1.5)), params={}),
        Example(args=(np.float32(-0.3), normal(2, 3), normal(2, 3, seed=2)), params={}),
        Example(args=(np.float32(-0.3), np.float32(0.1), np.float32(0.4)), params={}),
        Example(args=(np.float32(0), normal(0, 3), np.float32(1)), params={}),
        Example(args=(np.int32(2), integers(2, 3), np.int32(5)), params={}, differentiable=False),
        *kinks_of(_AT_BOUNDS),
    ],
)

# --- indices ------------------------------------------------------------------------------------------


def wide_indices(indices: Any, size: int) -> Any:
    """Indices in a signed dtype that holds `-size..size`, before they are clamped, wrapped or compared with places.

    Too large unsigned ones stay too large. What is no integer is returned as it is.
    """
    dtype = aval_of(indices).dtype
    if kind_of(dtype) not in "iu":
        return indices
    narrow = dtype.itemsize < 4 or dtype == np.int32
    wanted = np.dtype(np.int32 if narrow and size <= np.iinfo(np.int32).max else np.int64)
    if dtype == np.uint64:
        indices = min(indices, scalar_like(indices, np.iinfo(np.int64).max))
    return convert_element_type(indices, wanted)
