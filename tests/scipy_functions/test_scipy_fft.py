"""`functad.scipy.fft`: cosine transforms against their definition, and back; their derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError
from functad.scipy import fft


def cosines(x, norm=None):
    n = x.shape[-1]
    k, places = np.arange(n)[:, None], np.arange(n)
    matrix = 2 * np.cos(np.pi * k * (2 * places + 1) / (2 * n))
    if norm == "ortho":
        matrix *= np.where(k == 0, np.sqrt(0.25 / n), np.sqrt(0.5 / n))
    return x @ matrix.T


X = np.random.default_rng(0).standard_normal((3, 4, 7))


@pytest.mark.parametrize("norm", [None, "backward", "ortho"])
@pytest.mark.parametrize("n", [1, 2, 5, 7, 8])
def test_one_axis(n, norm):
    x = np.pad(X, [(0, 0), (0, 0), (0, max(n - 7, 0))])[..., :n]
    expected = cosines(x, norm)
    for way in (lambda f: f, functad.jit):
        found = way(lambda x: fft.dct(x, n=n, norm=norm))(X)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(way(lambda y: fft.idct(y, norm=norm))(found), x, atol=1e-12)


def test_several_axes():
    expected = np.moveaxis(cosines(np.moveaxis(cosines(X), 1, -1)), -1, 1)
    np.testing.assert_allclose(fft.dctn(X, axes=(1, 2)), expected, atol=1e-11)
    np.testing.assert_allclose(fft.dctn(X, axes=[-1, -2]), expected, atol=1e-11)
    np.testing.assert_allclose(fft.idctn(fft.dctn(X, norm="ortho"), norm="ortho"), X, atol=1e-12)
    np.testing.assert_allclose(fft.dctn(X, s=(4, 7)), expected, atol=1e-11)
    np.testing.assert_allclose(fft.dctn(X, s=7, axes=-1), fft.dct(X), atol=1e-12)


def test_complex_and_narrow_numbers():
    np.testing.assert_allclose(fft.dct(X + 2j * X[::-1]), cosines(X) + 2j * cosines(X[::-1]), atol=1e-12)
    assert fft.dct(jnp.ones(4, "float32")).dtype == fft.idct(jnp.ones(4, "int32")).dtype == np.float32


def test_derivatives_are_transposes():
    matrix = cosines(np.eye(7)).T
    np.testing.assert_allclose(functad.jacfwd(fft.dct)(X[0, 0]), matrix, atol=1e-12)
    np.testing.assert_allclose(functad.jacrev(fft.dct)(X[0, 0]), matrix, atol=1e-12)
    np.testing.assert_allclose(functad.jacrev(fft.idct)(X[0, 0]), np.linalg.inv(matrix), atol=1e-12)


def test_refused():
    for call, message in (
        (lambda: fft.dct(X, type=3), "type must be 2"),
        (lambda: fft.idctn(X, norm="forward"), "norm must be None"),
        (lambda: fft.dctn(X, s=(2, 3), axes=(0,)), "one length for each axis"),
    ):
        with pytest.raises(ArgumentError, match=message):
            call()
