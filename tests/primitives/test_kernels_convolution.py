"""The convolution and window kernels against loops over every output.

Knows kernels/convolution.py only.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from functad import machine_model
from functad.primitives.kernels import convolution

REDUCERS = {"max": (np.max, -np.inf), "min": (np.min, np.inf), "sum": (np.sum, 0.0)}


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def naive_pad(x, padding, dilation, fill):
    """Element by element; an output is where its source index says."""
    shape = [
        max(0, low + max(0, (n - 1) * d + 1) + high)
        for n, (low, high), d in zip(x.shape, padding, dilation, strict=True)
    ]
    out = np.full(shape, fill, x.dtype)
    for index in np.ndindex(x.shape):
        place = tuple(low + i * d for i, (low, _), d in zip(index, padding, dilation, strict=True))
        if all(0 <= p < n for p, n in zip(place, shape, strict=True)):
            out[place] = x[index]
    return out


def naive_windows(padded, window, strides, dilation):
    """How many windows there are along each axis, and each one's position and places, in row-major order."""
    counts = tuple(
        max(0, (n - (w - 1) * d - 1) // s + 1)
        for n, w, s, d in zip(padded.shape, window, strides, dilation, strict=True)
    )
    places = {
        position: [
            tuple(p * s + o * d for p, s, o, d in zip(position, strides, offset, dilation, strict=True))
            for offset in itertools.product(*map(range, window))
        ]
        for position in itertools.product(*map(range, counts))
    }
    return counts, places


def naive_convolution(
    lhs,
    rhs,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    feature_group_count=1,
    batch_group_count=1,
):
    padded = naive_pad(lhs, [(0, 0), (0, 0), *padding], (1, 1, *lhs_dilation), 0)
    batch, features = len(lhs) // batch_group_count, rhs.shape[1]
    counts, windows = naive_windows(padded[0, 0], rhs.shape[2:], window_strides, rhs_dilation)
    out = np.zeros((batch, len(rhs), *counts), lhs.dtype)
    for image, output in np.ndindex(out.shape[:2]):
        feature_group = output // (len(rhs) // feature_group_count)
        batch_group = output // (len(rhs) // batch_group_count)
        block = padded[batch_group * batch + image, feature_group * features : (feature_group + 1) * features]
        for position, places in windows.items():
            patch = np.array([[channel[place] for place in places] for channel in block])
            out[(image, output, *position)] = np.sum(patch * rhs[output].reshape(features, -1))
    return out


def random_convolution(rng):
    rank = int(rng.integers(0, 4))
    feature_groups, batch_groups = [(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)][rng.integers(6)]
    features = int(rng.integers(1, 5))
    outputs = feature_groups * batch_groups * int(rng.integers(1, 4))
    batch = batch_groups * int(rng.integers(1, 3))
    sizes, window = rng.integers(1, 7, rank), rng.integers(1, 4, rank)
    lhs = rng.normal(size=(batch, features * feature_groups, *sizes))
    rhs = rng.normal(size=(outputs, features, *window))
    params = {
        "window_strides": tuple(rng.integers(1, 4, rank).tolist()),
        "padding": tuple((int(low), int(high)) for low, high in rng.integers(-1, 4, (rank, 2))),
        "lhs_dilation": tuple(rng.integers(1, 3, rank).tolist()),
        "rhs_dilation": tuple(rng.integers(1, 3, rank).tolist()),
        "feature_group_count": feature_groups,
        "batch_group_count": batch_groups,
    }
    return lhs, rhs, params


@pytest.mark.parametrize("seed", range(60))
def test_convolution_against_loops(seed):
    lhs, rhs, params = random_convolution(np.random.default_rng(seed))
    got = convolution.conv_general_dilated(lhs, rhs, **params)
    np.testing.assert_allclose(got, naive_convolution(lhs, rhs, **params), rtol=1e-10, atol=1e-12)


# Small enough blocks make even these small convolutions use several.
@pytest.mark.parametrize("block_bytes", [1, 300, 2000])
@pytest.mark.parametrize("seed", range(20))
def test_blocks_do_not_change_the_result(seed, block_bytes, monkeypatch):
    lhs, rhs, params = random_convolution(np.random.default_rng(seed))
    whole = convolution.conv_general_dilated(lhs, rhs, **params)
    monkeypatch.setattr(machine_model, "WINDOWS_BLOCK_BYTES", block_bytes)
    np.testing.assert_allclose(convolution.conv_general_dilated(lhs, rhs, **params), whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("lhs_shape", "rhs_shape", "padding"),
    [
        ((3, 2, 14, 14), (4, 2, 3, 3), 0),  # an image has enough outputs for a product of its own
        ((3, 2, 4, 4), (4, 2, 3, 3), 1),  # few outputs: one product over the batch
        ((2, 3, 14, 14), (4, 3, 12, 12), 0),  # the window is larger than the output: a weight gradient
        ((2, 8, 9, 9), (2, 8, 3, 3), 1),  # fewer outputs than features: product first, then shifts
        ((2, 3, 6, 6), (4, 3, 1, 1), 0),  # nothing to unroll
    ],
)
def test_every_way_to_unroll(lhs_shape, rhs_shape, padding):
    rng = np.random.default_rng(0)
    lhs, rhs = rng.normal(size=lhs_shape), rng.normal(size=rhs_shape)
    params = {
        "window_strides": (1, 1),
        "padding": ((padding, padding),) * 2,
        "lhs_dilation": (1, 1),
        "rhs_dilation": (1, 1),
    }
    got = convolution.conv_general_dilated(lhs, rhs, **params)
    np.testing.assert_allclose(got, naive_convolution(lhs, rhs, **params), rtol=1e-10)


PLAIN = {"window_strides": (1,), "padding": ((0, 0),), "lhs_dilation": (1,), "rhs_dilation": (1,)}


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.float16, np.float32, np.complex64])
def test_convolution_keeps_the_dtype(dtype):
    lhs, rhs = np.ones((1, 2, 5), dtype), np.full((3, 2, 2), 2, dtype)
    got = convolution.conv_general_dilated(lhs, rhs, **PLAIN)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.full((1, 3, 4), 8, dtype))


def test_half_precision_accumulates_in_single():
    lhs, rhs = np.ones((1, 1, 4096), np.float16), np.full((1, 1, 4096), 0.001, np.float16)
    got = convolution.conv_general_dilated(lhs, rhs, **PLAIN)
    np.testing.assert_allclose(got, [[[4096 * float(np.float16(0.001))]]], rtol=1e-3)


@pytest.mark.parametrize(
    ("lhs_shape", "rhs_shape", "out_shape"),
    [
        ((0, 2, 5), (3, 2, 2), (0, 3, 4)),
        ((1, 0, 5), (3, 0, 2), (1, 3, 4)),
        ((1, 2, 5), (0, 2, 2), (1, 0, 4)),
        ((1, 2, 1), (3, 2, 2), (1, 3, 0)),
    ],
)
def test_empty_convolutions(lhs_shape, rhs_shape, out_shape):
    got = convolution.conv_general_dilated(np.ones(lhs_shape), np.ones(rhs_shape), **PLAIN)
    np.testing.assert_array_equal(got, np.zeros(out_shape))


def random_windows(rng):
    rank = int(rng.integers(1, 4))
    x = rng.normal(size=rng.integers(1, 7, rank)).round(int(rng.integers(0, 2)))
    params = {
        "window_dimensions": tuple(rng.integers(1, 4, rank).tolist()),
        "window_strides": tuple(rng.integers(1, 4, rank).tolist()),
        "padding": tuple((int(low), int(high)) for low, high in rng.integers(-1, 3, (rank, 2))),
    }
    dilations = {
        "base_dilation": tuple(rng.integers(1, 3, rank).tolist()),
        "window_dilation": tuple(rng.integers(1, 3, rank).tolist()),
    }
    return x, params, dilations


@pytest.mark.parametrize("op", REDUCERS)
@pytest.mark.parametrize("seed", range(25))
def test_reduce_window_against_loops(op, seed):
    x, params, dilations = random_windows(np.random.default_rng(seed))
    reduce, identity = REDUCERS[op]
    for init in (identity, 1.5):
        got = convolution.reduce_window(x, op, init, **params, **dilations)
        padded = naive_pad(x, params["padding"], dilations["base_dilation"], identity)
        counts, windows = naive_windows(
            padded, params["window_dimensions"], params["window_strides"], dilations["window_dilation"]
        )
        assert got.shape == counts
        for position, places in windows.items():
            expected = reduce([init, *(padded[place] for place in places)])
            np.testing.assert_allclose(got[position], expected, atol=1e-13)


def first_selected(select, values):
    """The place of the first maximum ("ge") or minimum ("le")."""
    return int(np.argmax(values) if select == "ge" else np.argmin(values))


@pytest.mark.parametrize("select", ["ge", "le"])
@pytest.mark.parametrize("seed", range(25))
def test_selecting_scatter_and_gather_against_loops(select, seed):
    rng = np.random.default_rng(seed)
    x, params, dilations = random_windows(rng)
    ones = (1,) * x.ndim
    fill = -np.inf if select == "ge" else np.inf
    padding, window, strides = (params[k] for k in ("padding", "window_dimensions", "window_strides"))

    padded = naive_pad(x, padding, ones, fill)
    shape, windows = naive_windows(padded, window, strides, ones)
    source = rng.normal(size=shape)
    scattered = np.zeros_like(padded)
    for position, places in windows.items():
        scattered[places[first_selected(select, [padded[place] for place in places])]] += source[position]
    unpadded = [(-low, -high) for low, high in padding]
    expected = naive_pad(scattered, unpadded, ones, 0) if source.size else np.zeros_like(x)
    got = convolution.select_and_scatter_add(source, x, select=select, **params)
    np.testing.assert_allclose(got, expected, atol=1e-13)

    tangents = rng.normal(size=x.shape)
    gathered = convolution.select_and_gather_add(tangents, x, select=select, **params, **dilations)
    padded = naive_pad(x, padding, dilations["base_dilation"], fill)
    moved = naive_pad(tangents, padding, dilations["base_dilation"], 0)
    counts, windows = naive_windows(padded, window, strides, dilations["window_dilation"])
    assert gathered.shape == counts
    for position, places in windows.items():
        place = places[first_selected(select, [padded[place] for place in places])]
        assert gathered[position] == moved[place]


POOL = {"window_dimensions": (2,), "window_strides": (2,), "padding": ((0, 0),)}


def test_scatter_and_gather_are_transposes_also_with_nan():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    x[rng.integers(0, 40, 8)] = np.nan
    source, tangents = rng.normal(size=20), rng.normal(size=40)
    scattered = convolution.select_and_scatter_add(source, x, select="ge", **POOL)
    gathered = convolution.select_and_gather_add(tangents, x, select="ge", **POOL)
    np.testing.assert_allclose(scattered @ tangents, source @ gathered)


def test_nan_and_infinite_sources_stay_where_they_belong():
    source = np.array([np.inf, np.nan], np.float32)
    x = np.array([1, 2, 4, 3], np.float32)
    got = convolution.select_and_scatter_add(source, x, select="ge", **POOL)
    np.testing.assert_array_equal(got, np.array([0, np.inf, np.nan, 0], np.float32))


def test_nan_wins_a_maximum():
    got = convolution.reduce_window(np.array([1.0, np.nan, 3.0, 4.0]), "max", -np.inf, **POOL)
    np.testing.assert_array_equal(got, [np.nan, 4.0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float16, np.float32])
def test_window_kernels_keep_the_dtype(dtype):
    x = np.array([3, 1, 2, 2], dtype)
    source = np.array([5, 7], dtype)
    reduced = convolution.reduce_window(x, "sum", 0, **POOL)
    scattered = convolution.select_and_scatter_add(source, x, select="ge", **POOL)
    gathered = convolution.select_and_gather_add(x, x, select="le", **POOL)
    for got, expected in ((reduced, [4, 4]), (scattered, [5, 0, 7, 0]), (gathered, [1, 2])):
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, expected)


def test_arguments_are_never_written_to():
    x = np.arange(6.0)
    x.setflags(write=False)
    params = {"window_dimensions": (1,), "window_strides": (1,), "padding": ((0, 0),)}
    np.testing.assert_array_equal(convolution.reduce_window(x, "max", -np.inf, **params), x)
    np.testing.assert_array_equal(convolution.select_and_scatter_add(x, x, select="ge", **params), x)
