"""`functad.image` compared with `jax.image`: values, dtypes, derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import image

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 7, 3)).astype(np.float32)
METHODS = "nearest linear bilinear lanczos3 lanczos5 cubic cubic-pytorch area".split()


def assert_close(ours, theirs, rtol=1e-4, atol=5e-5):
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=rtol, atol=atol)


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", [(10, 14, 3), (3, 7, 3), (2, 16, 3), (1, 1, 1), (5, 7, 3)])
def test_resize(shape, method, antialias):
    xs = (X, (10 * X).astype(np.int32), X[:1])
    expected = jax.jit(lambda *xs: [jax.image.resize(x, shape, method, antialias) for x in xs])(*xs)
    for x, e in zip(xs, expected, strict=True):
        assert_close(image.resize(x, shape, method, antialias), e)
    assert_close(functad.jit(lambda x: image.resize(x, shape, method, antialias))(X[:1]), expected[-1])


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", [m for m in METHODS if m != "nearest"])
def test_scale_and_translate(method, antialias):
    def run(module, x, scale, translation):
        return module.scale_and_translate(x, (6, 9, 3), (0, -2), scale, translation, method, antialias)

    theirs = jax.jit(lambda *args: run(jax.image, *args))
    for scale, translation in ([1.5, 0.7], [0.3, -1.0]), ([0.6, 2.0], [-9.0, 1.5]), ([1.0, 1.0], [0.0, 0.0]):
        args = [np.array(v, np.float32) for v in (scale, translation)]
        assert_close(run(image, X, *args), theirs(X, *args), atol=1e-4)


@pytest.mark.parametrize("method", [m for m in METHODS if m != "nearest"])
def test_derivatives(method):
    scale, translation = np.array([1.3, 0.6], np.float32), np.array([0.21, 0.43], np.float32)
    weights = RNG.normal(size=(6, 9, 3)).astype(np.float32)

    def loss(package, x, scale, translation):
        moved = package.image.scale_and_translate(x, (6, 9, 3), (0, 1), scale, translation, method)
        return (moved * weights).sum()

    ours = functad.grad(lambda *a: loss(functad, *a), (0, 1, 2))(X, scale, translation)
    theirs = jax.jit(jax.grad(lambda *a: loss(jax, *a), (0, 1, 2)))(X, scale, translation)
    for a, b in zip(ours, theirs):
        assert_close(a, b, rtol=2e-3, atol=2e-3)


def test_names_of_methods():
    for name in (*METHODS, "trilinear", "triangle", "bicubic", "tricubic", "bicubic-pytorch"):
        assert image.ResizeMethod.from_string(name).name == jax.image.ResizeMethod.from_string(name).name
