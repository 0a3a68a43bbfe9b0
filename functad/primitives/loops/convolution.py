"""Chooses how a convolution is computed, and brings its operands to one dtype.

Knows the sizes; the loops and matrix products are written by its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.kernels.product_dtypes import wide_for
from functad.primitives.loops import convolution_direct as direct
from functad.primitives.loops import convolution_places as places
from functad.primitives.loops import convolution_products as products
from functad.primitives.loops import convolution_weight_products as weight_products
from functad.primitives.loops import convolution_weight_windows as weight_windows
from functad.primitives.loops import convolution_weights as weights
from functad.primitives.loops import convolution_windows as windows
from functad.primitives.loops.convolution_geometry import Convolution, geometry_of, without_dilation
from functad.primitives.loops.text import rounding


def lower_conv_general_dilated(
    target: Any, ins: Sequence[Any], outs: Sequence[Any], *, preferred_element_type: np.dtype | None, **params: Any
) -> None:
    """The `Loops` rule of conv_general_dilated."""
    (lhs, rhs), (out,) = ins, outs
    if out.size == 0:
        return
    if lhs.size == 0 or rhs.size == 0:
        target.fill(out, 0)
        return
    dtype = wide_for(lhs.dtype, out.dtype)
    result = out if out.dtype == dtype else target.scratch(out.shape, dtype)
    left = _converted(target, lhs, dtype)
    right = left if rhs is lhs else _converted(target, rhs, dtype)
    conv = geometry_of(lhs.shape, rhs.shape, out.shape, **params)
    if target.on_device:
        target.convolution(left, right, result, conv)
        if result is not out:
            _convert(target, result, out)
        return
    of_weights = conv.positions < conv.taps
    splits = conv.flops > machine_model.DILATION_WORTH_SPLITTING and not of_weights
    parts = without_dilation(conv) if splits else [conv]
    if any(part.taps == 0 for part in parts):
        target.fill(result, 0)
    for part in parts:
        if part.taps:
            strategy = _strategy(part, dtype, of_weights, target)
            strategy(target, left, right, result, part)
    if result is not out:
        _convert(target, result, out)


def _strategy(
    conv: Convolution, dtype: np.dtype, of_weights: bool, target: Any
) -> Callable[[Any, Any, Any, Any, Convolution], None]:
    """The fastest way, as measured.

    of_weights: the convolution that this is, or is a part of, has larger windows than results, as the gradients of
        weights have. Their strategies take no parts.
    """
    if kind_of(dtype) in "iu":
        return direct.any_convolution
    if direct.suits_groups(conv):
        return direct.all_groups
    if of_weights:
        return _strategy_of_weights(conv, dtype, target)
    in_loops = direct.suits_rows(conv)
    time = machine_model.DIRECT_TIME if in_loops else products.time_of_products(conv)
    if windows.time_of_windows(conv, target.window_lanes(dtype)) < time:
        return windows.window_products
    if in_loops:
        return direct.rows
    return places.places if places.suits_places(conv, dtype, target.place_columns(dtype)) else products.products


def _strategy_of_weights(
    conv: Convolution, dtype: np.dtype, target: Any
) -> Callable[[Any, Any, Any, Any, Convolution], None]:
    is_few = weights.suits_few_weights(conv, dtype.itemsize)
    time = weights.time_of_few_weights(conv) if is_few else weight_products.time_of_weight_products(conv)
    if weight_windows.time_of_weight_windows(conv, dtype.itemsize, target.window_lanes(dtype)) < time:
        return weight_windows.weight_windows
    return weights.few_weights if is_few else weight_products.weight_products


def _converted(target: Any, source: Any, dtype: np.dtype) -> Any:
    if source.dtype == dtype:
        return source
    converted = target.scratch(source.shape, dtype)
    _convert(target, source, converted)
    return converted


def _convert(target: Any, source: Any, result: Any) -> None:
    body = f"for i in range(start, stop):\n    out[i] = {rounding(result.dtype)}(x[i])"
    buffers = {"x": (source, "r"), "out": (result, "w")}
    size = source.size
    moved = size * (source.dtype.itemsize + result.dtype.itemsize)
    target.kernel("convert", body, buffers, size, bytes=moved, rows=True, row_reads=("x",))
