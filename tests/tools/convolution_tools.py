"""Convolutions at random, and the ways to compute one.

Knows the choices of `primitives.loops.convolution`, which it can force.
"""

from __future__ import annotations

import itertools

import loops_tools
import numpy as np
from loops_tools import record

import functad.primitives.loops.convolution as convolution
from functad import machine_model
from functad.ir import Aval
from functad.primitives.convolution import ConvDimensionNumbers, conv_general_dilated_p
from functad.primitives.loops import (
    convolution_direct,
    convolution_places,
    convolution_products,
    convolution_weight_products,
    convolution_weight_windows,
    convolution_weights,
    convolution_windows,
)

CHANNELS_LAST = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))


def parameters(rank, dimension_numbers=None, **changes):
    axes = tuple(range(rank + 2))
    return {
        "window_strides": (1,) * rank,
        "padding": ((0, 0),) * rank,
        "lhs_dilation": (1,) * rank,
        "rhs_dilation": (1,) * rank,
        "dimension_numbers": ConvDimensionNumbers(*(dimension_numbers or (axes, axes, axes))),
        "feature_group_count": 1,
        "batch_group_count": 1,
        "preferred_element_type": None,
        **changes,
    }


def numbers(shape, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def random_case(rng, dtype="float32"):
    """Operands and parameters of any rank and layout; half of them have windows larger than what comes out."""
    rank = int(rng.integers(0, 4))
    feature_groups, batch_groups = [(1, 1), (int(rng.integers(2, 4)), 1), (1, int(rng.integers(2, 4)))][rng.integers(3)]
    batch, features, outputs = (int(n) for n in rng.integers(1, 5 if rank < 3 else 3, 3))

    def each(low, high):
        return tuple(int(n) for n in rng.integers(low, high, rank))

    sizes, windows = each(1, 9 - rank), each(1, 5)
    if rng.random() < 0.3:
        sizes, windows = windows, sizes
    axes = tuple(range(rank + 2))
    layouts = [tuple(int(a) for a in rng.permutation(rank + 2)) for _ in range(3)]
    kind = rng.integers(3)
    if kind == 0:
        layouts = [axes] * 3
    elif kind == 1:
        layouts = [(0, rank + 1, *axes[1:-1]), (rank + 1, rank, *axes[:-2]), (0, rank + 1, *axes[1:-1])]
        features, outputs = (features, outputs) if rng.random() < 0.5 else (1, 1)
    lhs_shape, rhs_shape = [0] * (rank + 2), [0] * (rank + 2)
    for axis, size in zip(layouts[0], (batch * batch_groups, features * feature_groups, *sizes), strict=True):
        lhs_shape[axis] = size
    groups = feature_groups * batch_groups
    for axis, size in zip(layouts[1], (outputs * groups, features, *windows), strict=True):
        rhs_shape[axis] = size
    ones = (1,) * rank
    params = parameters(
        rank,
        layouts,
        window_strides=each(1, 4) if rng.random() < 0.5 else ones,
        padding=tuple(zip(each(-1, 4), each(-1, 4), strict=True)) if rng.random() < 0.7 else ((0, 0),) * rank,
        lhs_dilation=each(1, 4) if rng.random() < 0.4 else ones,
        rhs_dilation=each(1, 3) if rng.random() < 0.4 else ones,
        feature_group_count=feature_groups,
        batch_group_count=batch_groups,
    )
    return numbers(lhs_shape, dtype), numbers(rhs_shape, dtype, seed=1), params


def random_cases(count, seed, dtype="float32"):
    """So many, none of them large: the kernels run as plain Python."""
    rng = np.random.default_rng(seed)
    cases = []
    while len(cases) < count:
        lhs, rhs, params = random_case(rng, dtype)
        out = conv_general_dilated_p.abstract_eval(Aval(lhs.shape, lhs.dtype), Aval(rhs.shape, rhs.dtype), **params)
        if max(lhs.size, rhs.size, out.size) <= 250:
            cases.append((lhs, rhs, params))
    return cases


def plain_rows(conv):
    return bool(conv.axes) and conv.axes[-1].out_step == conv.axes[-1].lhs_step == 1 and conv.taps <= 64


def plain_groups(conv):
    return conv.lhs_steps[1] == conv.rhs_steps[0] == conv.out_steps[1] == 1


def plain_cotangent(conv):
    """Rows of the window follow each other in memory."""
    if len(conv.axes) not in (1, 2) or conv.axes[-1].rhs_step != 1:
        return False
    return all(axis.rhs_step == conv.axes[1].window for axis in conv.axes[:-1])


def always(conv):
    return True


def plain_places(conv):
    return convolution_places.suits_places(conv, np.dtype("float32"), 1)


def plain_windows(conv):
    return convolution_windows.time_of_windows(conv, 2) < np.inf


def plain_weight_windows(conv):
    return convolution_weight_windows.time_of_weight_windows(conv, 4, 2) < np.inf


WAYS = {
    "any": (convolution_direct.any_convolution, always),
    "rows": (convolution_direct.rows, plain_rows),
    "groups": (convolution_direct.all_groups, plain_groups),
    "few weights": (convolution_weights.few_weights, plain_cotangent),
    "places": (convolution_places.places, plain_places),
    "windows": (convolution_windows.window_products, plain_windows),
    "products": (convolution_products.products, always),
    "weight windows": (convolution_weight_windows.weight_windows, plain_weight_windows),
    "weight products": (convolution_weight_products.weight_products, always),
}


def force(monkeypatch, name, places=6):
    """Compute every convolution that it can serve in the named way; returns the list of those it did."""
    way, suits = WAYS[name]
    used = []

    def strategy(conv, dtype, of_weights, target):
        if not suits(conv):
            return convolution_direct.any_convolution
        used.append(conv)
        return way

    monkeypatch.setattr(convolution, "_strategy", strategy)
    kinds = itertools.cycle(["unrolled", "shifted", "summed"])

    def way_of_products(conv):
        kind = next(kinds)
        return "shifted" if kind == "summed" and any(axis.stride > 1 for axis in conv.axes) else kind

    monkeypatch.setattr(convolution_products, "way_of_products", way_of_products)
    monkeypatch.setattr(machine_model, "CONVOLUTION_BLOCK_PLACES", places)
    monkeypatch.setattr(machine_model, "WIDE_ROW", 2)
    monkeypatch.setattr(machine_model, "MOST_PARTS", 3)
    monkeypatch.setattr(loops_tools, "PLACE_COLUMNS", dict.fromkeys(["float32", "float64"], 1))
    monkeypatch.setattr(loops_tools, "WINDOW_LANES", dict.fromkeys(["float32", "float64"], 2))
    monkeypatch.setattr(machine_model, "WINDOW_BLOCK_BYTES", 60 * places)
    monkeypatch.setattr(machine_model, "WINDOW_BLOCKS", 2)
    monkeypatch.setattr(machine_model, "WINDOW_COPY_TERMS", 1)
    monkeypatch.setattr(machine_model, "PLACE_HEIGHTS", (3, 2))
    monkeypatch.setattr(machine_model, "MOST_EXTRA_WORK", 2)
    monkeypatch.setattr(machine_model, "FEATURES_UNIT", 1)
    monkeypatch.setattr(machine_model, "PLACES_PRODUCTS", 0)
    return used


def zeros(shape):
    return np.broadcast_to(np.float32(0), shape)


def kernels(lhs_shape, rhs_shape, params):
    args = [zeros(lhs_shape), zeros(rhs_shape)]
    return [step.name for step in record(conv_general_dilated_p, args, params).instructions if hasattr(step, "body")]
