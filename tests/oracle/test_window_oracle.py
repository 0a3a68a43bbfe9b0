"""Window reductions and their derivatives against JAX on seeded random configurations."""

from __future__ import annotations

import numpy as np
import pytest

from functad.array import ArrayImpl
from functad.primitives.window import reduce_window_max, reduce_window_min, reduce_window_sum
from functad.primitives.window_geometry import windows_shape
from functad.transforms.batching import batch_flat, place_batch_axis
from functad.transforms.forward import jvp_flat
from functad.transforms.reverse import linearize_flat

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

OPERATIONS = {
    "sum": (reduce_window_sum, 0.0, jax.lax.add),
    "max": (reduce_window_max, -np.inf, jax.lax.max),
    "min": (reduce_window_min, np.inf, jax.lax.min),
}
SEEDS = range(24)


def _random_configuration(rng, window_dilation=True):
    while True:
        rank = int(rng.integers(1, 4))
        shape = tuple(rng.integers(1, 8 if rank < 3 else 5, rank).tolist())
        windows = {
            "window_dimensions": tuple(rng.integers(1, 4, rank).tolist()),
            "window_strides": tuple(rng.integers(1, 4, rank).tolist()),
            "padding": tuple(map(tuple, rng.integers(0, 3, (rank, 2)).tolist())),
            "base_dilation": tuple(rng.integers(1, 3, rank).tolist()),
            "window_dilation": tuple(rng.integers(1, 3 if window_dilation else 2, rank).tolist()),
        }
        if min(windows_shape("", shape, **windows)) > 0:
            return shape, windows


def _normal(rng, shape):
    return rng.standard_normal(shape).astype(np.float32)


def _jax_reduce(op, windows):
    _, init, computation = OPERATIONS[op]
    return lambda x: jax.lax.reduce_window(x, np.float32(init), computation, **windows)


def _reduce(op, windows):
    return lambda x: [OPERATIONS[op][0](x, **windows)]


def _assert_close(actual, expected):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_values_and_tangents(seed, op):
    rng = np.random.default_rng(seed)
    shape, windows = _random_configuration(rng)
    x, tangent = _normal(rng, shape), _normal(rng, shape)
    outs, tangents = jvp_flat(_reduce(op, windows), [ArrayImpl(x)], [ArrayImpl(tangent)])
    expected, expected_tangent = jax.jvp(_jax_reduce(op, windows), (x,), (tangent,))
    _assert_close(outs[0], expected)
    _assert_close(tangents[0], expected_tangent)


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("seed", SEEDS)
def test_gradients(seed, op):
    rng = np.random.default_rng(seed)
    # JAX cannot transpose maxima of dilated windows; those are checked against its tangents below.
    shape, windows = _random_configuration(rng, window_dilation=op == "sum")
    x = _normal(rng, shape)
    outs, linear = linearize_flat(_reduce(op, windows), [ArrayImpl(x)], [True])
    ct = _normal(rng, outs[0].shape)
    _, pullback = jax.vjp(_jax_reduce(op, windows), x)
    _assert_close(linear.transpose([ArrayImpl(ct)])[0], pullback(ct)[0])


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("seed", SEEDS)
def test_gradients_of_dilated_windows_are_the_transpose_of_the_tangents(seed, op):
    rng = np.random.default_rng(seed)
    shape, windows = _random_configuration(rng)
    x, tangent = _normal(rng, shape), _normal(rng, shape)
    outs, linear = linearize_flat(_reduce(op, windows), [ArrayImpl(x)], [True])
    ct = _normal(rng, outs[0].shape)
    _, expected_tangent = jax.jvp(_jax_reduce(op, windows), (x,), (tangent,))
    gradient = np.asarray(linear.transpose([ArrayImpl(ct)])[0])
    np.testing.assert_allclose(np.vdot(gradient, tangent), np.vdot(ct, expected_tangent), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("seed", SEEDS[:10])
def test_tied_elements_get_the_gradient_of_jax(seed, op):
    rng = np.random.default_rng(seed)
    shape, windows = _random_configuration(rng, window_dilation=False)
    x = rng.integers(0, 2, shape).astype(np.float32)
    outs, linear = linearize_flat(_reduce(op, windows), [ArrayImpl(x)], [True])
    ct = _normal(rng, outs[0].shape)
    _assert_close(linear.transpose([ArrayImpl(ct)])[0], jax.vjp(_jax_reduce(op, windows), x)[1](ct)[0])


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("seed", SEEDS[:8])
def test_batched_gradients(seed, op):
    rng = np.random.default_rng(seed)
    shape, windows = _random_configuration(rng, window_dilation=False)
    size, dim = 3, int(rng.integers(len(shape) + 1))
    x = _normal(rng, (*shape[:dim], size, *shape[dim:]))
    ct = _normal(rng, windows_shape("", shape, **windows))

    def gradient(x):
        _, linear = linearize_flat(_reduce(op, windows), [x], [True])
        return linear.transpose([ArrayImpl(ct)])

    (out,), (out_dim,) = batch_flat(gradient, size, [ArrayImpl(x)], [dim])
    expected = jax.vmap(lambda x: jax.vjp(_jax_reduce(op, windows), x)[1](ct)[0], dim)(x)
    _assert_close(place_batch_axis(out, out_dim, 0, size), expected)


@pytest.mark.parametrize("dtype", ["float16", "int32", "uint8"])
@pytest.mark.parametrize("op", ["max", "min", "sum"])
def test_dtypes(op, dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 20, (4, 5)).astype(dtype)
    windows = {"window_dimensions": (2, 3), "window_strides": (1, 2), "padding": ((1, 0), (0, 1))}
    reducer, _, computation = OPERATIONS[op]
    limits = np.iinfo if x.dtype.kind in "iu" else np.finfo
    init = {"sum": 0, "max": limits(dtype).min, "min": limits(dtype).max}[op]
    actual = np.asarray(reducer(ArrayImpl(x), **windows))
    expected = np.asarray(jax.lax.reduce_window(x, np.dtype(dtype).type(init), computation, **windows))
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
