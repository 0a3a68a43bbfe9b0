"""Images changed at random: against plain NumPy, the same for the same key, and what is kept of them."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import random
from functad.data import augment
from functad.errors import ShapeError

KEY = random.key(5)
RNG = np.random.default_rng(0)
IMAGES = RNG.random((4, 7, 9)).astype(np.float32)
FUNCTIONS = [augment.shift, augment.rotate, augment.elastic]


def read(image, rows, columns):
    """The bilinear mean of the four pixels about each place; 0 outside. Loops and float64."""
    found = np.zeros(image.shape)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            y, x = rows[i, j], columns[i, j]
            for row in (int(np.floor(y)), int(np.floor(y)) + 1):
                for column in (int(np.floor(x)), int(np.floor(x)) + 1):
                    if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                        weight = (1 - abs(y - row)) * (1 - abs(x - column))
                        found[i, j] += weight * image[row, column]
    return found


def shifted(key, image):
    down, right = np.asarray(random.uniform(key, (2,), minval=-2.0, maxval=2.0), np.float64)
    rows, columns = np.indices(image.shape)
    return read(image, rows - down, columns - right)


def rotated(key, image):
    angle = np.radians(float(random.uniform(key, minval=-15.0, maxval=15.0)))
    rows, columns = np.indices(image.shape)
    y, x = (image.shape[0] - 1) / 2, (image.shape[1] - 1) / 2
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    places = np.einsum("ab,bij->aij", turn, [rows - y, columns - x])
    return read(image, y + places[0], x + places[1])


def bent(key, image):
    fields = np.asarray(random.uniform(key, (2, *image.shape), minval=-1.0, maxval=1.0), np.float64)
    smooth = np.zeros_like(fields)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            rows, columns = np.indices(image.shape)
            weights = np.exp(-((rows - i) ** 2 + (columns - j) ** 2) / (2 * 4.0**2))
            smooth[:, i, j] = (fields * weights).sum((1, 2)) / weights.sum()
    rows, columns = np.indices(image.shape)
    return read(image, rows + 8 * smooth[0], columns + 8 * smooth[1])


@pytest.mark.parametrize(
    "function, reference", [(augment.shift, shifted), (augment.rotate, rotated), (augment.elastic, bent)]
)
def test_as_plain_numpy(function, reference):
    found = function(KEY, IMAGES)
    expected = [reference(key, image) for key, image in zip(random.split(KEY, 4), IMAGES.astype(np.float64))]
    assert found.dtype == np.float32 and np.abs(np.asarray(found) - IMAGES).max() > 0.1
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=2e-5)
    with functad.disable_jit():
        np.testing.assert_allclose(np.asarray(function(KEY, IMAGES)), np.asarray(found), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_key_decides(function):
    found = np.asarray(function(KEY, IMAGES))
    np.testing.assert_array_equal(function(KEY, IMAGES), found)
    assert (np.asarray(function(random.key(6), IMAGES)) != found).any()
    same = np.asarray(function(KEY, np.repeat(IMAGES[:1], 4, 0)))
    assert all((same[i] != same[j]).any() for i in range(4) for j in range(i)), "each image is changed in another way"
    np.testing.assert_array_equal(function(KEY, IMAGES, 0.0), IMAGES)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_channels_go_together_and_pixels_stay_pixels(function):
    found = np.asarray(function(KEY, np.stack([IMAGES, 2 * IMAGES], -1)))
    np.testing.assert_allclose(found[..., 1], 2 * found[..., 0], rtol=1e-6)
    np.testing.assert_allclose(found[..., 0], np.asarray(function(KEY, IMAGES)), rtol=1e-4, atol=1e-6)
    pixels = (IMAGES * 255).astype(np.uint8)
    found = function(KEY, pixels)
    assert found.dtype == np.uint8
    exact = np.asarray(function(KEY, pixels.astype(np.float32)))
    assert np.abs(np.asarray(found) - exact).max() <= 0.51
    with pytest.raises(ShapeError, match=r"images have shape \(7, 9\); it must be \(n, height, width\)"):
        function(KEY, IMAGES[0])


def test_a_whole_pixel_to_the_right_and_a_quarter_turn(monkeypatch):
    image = jnp.asarray(IMAGES[:1, :, :7])
    monkeypatch.setattr(augment.random, "uniform", lambda key, shape=(), **_: jnp.array([0.0, 1.0]) if shape else 90.0)
    with functad.disable_jit():
        moved, turned = augment.shift(KEY, image, 2.5), augment.rotate(KEY, image, 90.5)
    np.testing.assert_allclose(moved[0, :, 1:], image[0, :, :-1], rtol=1e-6)
    assert (np.asarray(moved)[0, :, 0] == 0).all()
    np.testing.assert_allclose(np.asarray(turned)[0], np.rot90(np.asarray(image)[0]), rtol=1e-4, atol=1e-5)


def test_fields_that_are_not_smoothed():
    found = augment.elastic(KEY, jnp.asarray(IMAGES), 1.0, 0.0)
    assert np.isfinite(found).all() and np.abs(np.asarray(found) - IMAGES).max() > 0.1
