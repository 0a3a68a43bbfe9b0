"""Pooling over chosen axes, and over all of them, beside NumPy and beside layouts."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import nn
from functad.errors import ArgumentError, ShapeError

X = np.random.default_rng(0).normal(size=(2, 3, 8, 6)).astype(np.float32)


@pytest.mark.parametrize("make", [nn.MaxPool, nn.AvgPool])
@pytest.mark.parametrize("padding", ["VALID", "SAME", ((1, 0), (0, 1))])
def test_axes_in_any_order_are_a_layout(make, padding):
    wanted = make((2, 3), (2, 1), padding).apply((), X)
    np.testing.assert_array_equal(make((2, 3), (2, 1), padding, axes=(2, 3)).apply((), X), wanted)
    np.testing.assert_array_equal(make((2, 3), (2, 1), padding, axes=(-2, -1)).apply((), X), wanted)
    turned = padding if isinstance(padding, str) else padding[::-1]
    np.testing.assert_array_equal(make((3, 2), (1, 2), turned, axes=(3, 2)).apply((), X), wanted)


def test_any_axes_of_any_rank():
    pairs = X.reshape(2, 3, 4, 2, 6)
    np.testing.assert_array_equal(nn.MaxPool((2,), axes=(2,)).apply((), X), pairs.max(3))
    np.testing.assert_allclose(nn.AvgPool(2, axes=(2,)).apply((), X), pairs.mean(3), rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(nn.MaxPool((2, 3), axes=(0, 1)).apply((), X), X.max((0, 1), keepdims=True))
    assert nn.MaxPool((3,), 1, axes=(0,)).apply((), jnp.arange(5)).tolist() == [2, 3, 4]


def test_numpys_integers_are_sizes():
    pooled = nn.MaxPool(np.int64(2), layout="NCHW").apply((), X)
    np.testing.assert_array_equal(pooled, nn.MaxPool((2, 2), layout="NCHW").apply((), X))
    params = nn.Conv(8, (3, 3), padding=1).init(functad.random.key(0), X)
    for padding in (np.int64(1), (np.uint8(1), (1, np.int8(1)))):
        found = nn.Conv(8, (3, 3), padding=padding).apply(params, X)
        np.testing.assert_array_equal(found, nn.Conv(8, (3, 3), padding=1).apply(params, X))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_all_of_the_axes(dtype):
    x = X.astype(dtype)
    for make, numpys in ((nn.MaxPool, np.max), (nn.AvgPool, np.mean)):
        wanted = numpys(x.astype(np.float64), (2, 3), keepdims=True)
        for layer in (make(None, axes=(3, 2)), make(None, layout="NCHW")):
            found = functad.jit(lambda x, layer=layer: layer.apply((), x))(x)
            assert found.dtype == dtype and found.shape == (2, 3, 1, 1)
            np.testing.assert_allclose(found, wanted, rtol=2e-3 if dtype == "float16" else 1e-5, atol=1e-3)
    gradient = functad.grad(lambda x: nn.AvgPool(None, axes=(1,)).apply((), x).sum())(X)
    np.testing.assert_allclose(gradient, np.full(X.shape, 1 / 3), rtol=1e-6)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: nn.MaxPool((2,), layout="NCW", axes=(1,)), ArgumentError, "tells the axes already"),
        (lambda: nn.MaxPool(None), ArgumentError, "takes axes or a layout"),
        (lambda: nn.MaxPool(None, 2, axes=(1,)), ArgumentError, "no strides or padding"),
        (lambda: nn.MaxPool((2, 2), axes=(1,)), ArgumentError, "window"),
        (lambda: nn.MaxPool((2,), axes=(4,)).apply((), X), ShapeError, r"axes=\(4,\) must be different axes"),
        (lambda: nn.MaxPool((2, 2), axes=(1, -3)).apply((), X), ShapeError, "must be different axes"),
        (lambda: nn.MaxPool((9,), axes=(2,)).apply((), X), ShapeError, r"\(axes \(2,\)\) is smaller than the window"),
    ],
)
def test_messages(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("padding", ["VALID", "SAME", None])
@pytest.mark.parametrize("transform", [lambda f: f, functad.jit])
def test_means_of_16_bits_are_not_sums_of_16_bits(padding, transform):
    layer = nn.AvgPool(None, axes=(2, 3)) if padding is None else nn.AvgPool((32, 32), padding=padding)
    x = jnp.full((1, 1, 32, 32), 100.0, "float16")
    y = transform(lambda x: layer.apply((), x))(x)
    assert y.dtype == x.dtype and y.tolist() == [[[[100.0]]]]


def test_a_window_of_padding_alone_gives_zero():
    layer, x = nn.AvgPool((1, 1), padding=1), jnp.ones((1, 1, 2, 2))
    np.testing.assert_array_equal(layer.apply((), x), np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))))
    np.testing.assert_array_equal(functad.grad(lambda x: layer.apply((), x).sum())(x), x)
