"""conv_general_dilated against JAX on seeded random configurations: values, gradients, batching."""

from __future__ import annotations

import numpy as np
import pytest

from functad.array import ArrayImpl
from functad.primitives.convolution import ConvDimensionNumbers, conv_dimension_numbers, conv_general_dilated
from functad.primitives.window_geometry import dilated, padtype_to_pads, window_count
from functad.transforms.batching import batch_flat, place_batch_axis
from functad.transforms.reverse import linearize_flat

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

SEEDS = range(60)
AXIS_SIZE = 3


def _random_configuration(rng):
    """Operands and parameters of a convolution whose result is not empty."""
    while True:
        rank = int(rng.integers(1, 4))
        groups = int(rng.choice([1, 1, 2, 3]))
        feature_groups, batch_groups = (groups, 1) if rng.random() < 0.5 else (1, groups)
        features = int(rng.integers(1, 4))
        lhs = [int(rng.integers(1, 3)) * batch_groups, features * feature_groups]
        rhs = [int(rng.integers(1, 3)) * groups, features]
        lhs += rng.integers(1, 7 if rank < 3 else 5, rank).tolist()
        rhs += rng.integers(1, 4, rank).tolist()
        params = {
            "window_strides": tuple(rng.integers(1, 4, rank).tolist()),
            "padding": tuple(map(tuple, rng.integers(-1, 4, (rank, 2)).tolist())),
            "lhs_dilation": tuple(rng.integers(1, 3, rank).tolist()),
            "rhs_dilation": tuple(rng.integers(1, 3, rank).tolist()),
        }
        if all(
            dilated(n, base) + min(pads) >= 0 and window_count(n, k, stride, pads, base, dilation) > 0
            for n, k, stride, pads, base, dilation in zip(lhs[2:], rhs[2:], *params.values(), strict=True)
        ):
            break
    specs = [tuple(rng.permutation(rank + 2).tolist()) for _ in range(3)]
    params["dimension_numbers"] = ConvDimensionNumbers(*specs)
    params["feature_group_count"] = feature_groups
    params["batch_group_count"] = batch_groups
    return _in_layout(lhs, specs[0]), _in_layout(rhs, specs[1]), params


def _in_layout(canonical, spec):
    shape = [0] * len(spec)
    for size, axis in zip(canonical, spec, strict=True):
        shape[axis] = size
    return tuple(shape)


def _jax_conv(params):
    numbers = jax.lax.ConvDimensionNumbers(*params["dimension_numbers"])
    keywords = {**params, "dimension_numbers": numbers}

    def conv(lhs, rhs):
        return jax.lax.conv_general_dilated(lhs, rhs, precision="highest", **keywords)

    return jax.jit(conv)


def _normal(rng, shape):
    return rng.standard_normal(shape).astype(np.float32)


def _assert_close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("seed", SEEDS)
def test_values_and_gradients(seed):
    rng = np.random.default_rng(seed)
    lhs_shape, rhs_shape, params = _random_configuration(rng)
    lhs, rhs = _normal(rng, lhs_shape), _normal(rng, rhs_shape)
    expected, pullback = jax.vjp(_jax_conv(params), lhs, rhs)
    ct = _normal(rng, expected.shape)
    outs, linear = linearize_flat(
        lambda x, w: [conv_general_dilated(x, w, **params)], [ArrayImpl(lhs), ArrayImpl(rhs)], [True, True]
    )
    _assert_close(outs[0], expected)
    for actual, wanted in zip(linear.transpose([ArrayImpl(ct)]), pullback(ct), strict=True):
        _assert_close(actual, wanted)


@pytest.mark.parametrize("mapped", ["lhs", "rhs", "both"])
@pytest.mark.parametrize("seed", SEEDS[::3])
def test_batching(seed, mapped):
    rng = np.random.default_rng(seed)
    lhs_shape, rhs_shape, params = _random_configuration(rng)
    lhs_dim = None if mapped == "rhs" else int(rng.integers(len(lhs_shape) + 1))
    rhs_dim = None if mapped == "lhs" else int(rng.integers(len(rhs_shape) + 1))
    lhs = _normal(rng, _with_axis(lhs_shape, lhs_dim))
    rhs = _normal(rng, _with_axis(rhs_shape, rhs_dim))
    expected = jax.vmap(_jax_conv(params), (lhs_dim, rhs_dim))(lhs, rhs)
    (out,), (dim,) = batch_flat(
        lambda x, w: [conv_general_dilated(x, w, **params)],
        AXIS_SIZE,
        [ArrayImpl(lhs), ArrayImpl(rhs)],
        [lhs_dim, rhs_dim],
    )
    _assert_close(place_batch_axis(out, dim, 0, AXIS_SIZE), expected)


def _with_axis(shape, dim):
    return shape if dim is None else (*shape[:dim], AXIS_SIZE, *shape[dim:])


def test_second_order():
    rng = np.random.default_rng(0)
    lhs, rhs, other = _normal(rng, (2, 4, 6)), _normal(rng, (4, 2, 3)), _normal(rng, (4, 2, 3))
    params = {
        "window_strides": (2,),
        "padding": ((1, 0),),
        "lhs_dilation": (2,),
        "rhs_dilation": (1,),
        "dimension_numbers": ConvDimensionNumbers(*[(0, 1, 2)] * 3),
        "feature_group_count": 2,
        "batch_group_count": 1,
    }
    conv = _jax_conv(params)
    ct = _normal(rng, conv(lhs, rhs).shape)

    def gradient(lhs):
        _, linear = linearize_flat(lambda w: [conv_general_dilated(lhs, w, **params)], [ArrayImpl(rhs)], [True])
        return linear.transpose([ArrayImpl(ct)])

    _, linear = linearize_flat(gradient, [ArrayImpl(lhs)], [True])
    actual = linear.transpose([ArrayImpl(other)])[0]
    _, pullback = jax.vjp(lambda x: jax.vjp(lambda w: conv(x, w), rhs)[1](ct)[0], lhs)
    _assert_close(actual, pullback(other)[0])


@pytest.mark.parametrize("padding", ["VALID", "SAME", "SAME_LOWER"])
def test_padding_names(padding):
    rng = np.random.default_rng(1)
    for _ in range(50):
        sizes, windows, strides = rng.integers(1, 9, (3, 2)).tolist()
        expected = jax.lax.padtype_to_pads(sizes, windows, strides, padding)
        assert padtype_to_pads(sizes, windows, strides, padding) == [tuple(map(int, p)) for p in expected]


@pytest.mark.parametrize(
    "layouts", [None, ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NHWC"), ("CWNH", "WOIH", "HNWC")]
)
def test_dimension_numbers(layouts):
    expected = jax.lax.conv_dimension_numbers((1, 2, 3, 4), (2, 2, 3, 3), layouts)
    assert tuple(conv_dimension_numbers((1, 2, 3, 4), (2, 2, 3, 3), layouts)) == tuple(expected)


@pytest.mark.parametrize(
    ("dtype", "preferred"), [("float16", None), ("float16", "float32"), ("int8", "int32"), ("int32", None)]
)
def test_dtypes(dtype, preferred):
    rng = np.random.default_rng(2)
    lhs = rng.integers(-5, 5, (2, 2, 5)).astype(dtype)
    rhs = rng.integers(-5, 5, (3, 2, 3)).astype(dtype)
    params = {"window_strides": (1,), "padding": ((1, 1),), "lhs_dilation": (1,), "rhs_dilation": (1,)}
    expected = jax.lax.conv_general_dilated(lhs, rhs, **params, preferred_element_type=preferred)
    actual = conv_general_dilated(
        ArrayImpl(lhs),
        ArrayImpl(rhs),
        **params,
        dimension_numbers=conv_dimension_numbers(lhs.shape, rhs.shape, None),
        preferred_element_type=None if preferred is None else np.dtype(preferred),
    )
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(np.asarray(actual), np.asarray(expected))
