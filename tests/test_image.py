"""`functad.image`: resized images against their meaning, batches, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import image
from functad import numpy as jnp
from functad.errors import ArgumentError, ShapeError

X = jnp.arange(12.0).reshape(3, 4)


def test_an_image_twice_as_large_repeats_its_nearest_pixels():
    found = image.resize(X, (6, 8), "nearest")
    assert found.tolist() == np.repeat(np.repeat(np.asarray(X), 2, 0), 2, 1).tolist()


def test_the_mean_of_areas():
    found = functad.jit(lambda x: image.resize(x, (3, 2), image.ResizeMethod.AREA))(X)
    np.testing.assert_allclose(np.asarray(found), np.asarray(X).reshape(3, 2, 2).mean(-1), rtol=1e-6)


@pytest.mark.parametrize("method", ["linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area"])
def test_one_colour_stays_that_colour(method):
    for shape in ((7, 9), (2, 3), (1, 1)):
        np.testing.assert_allclose(np.asarray(image.resize(jnp.full((3, 4), 2.5), shape, method)), 2.5, rtol=1e-5)


def test_a_straight_line_stays_one_inside():
    found = image.resize(jnp.arange(10.0), (20,), "cubic")
    np.testing.assert_allclose(np.diff(np.asarray(found))[4:-4], 0.5, rtol=1e-4)


def test_batches_and_slopes():
    many = jnp.stack([X, 2 * X])
    one_by_one = functad.vmap(lambda x: image.resize(x, (2, 6), "linear"))(many)
    np.testing.assert_allclose(np.asarray(one_by_one), np.asarray(image.resize(many, (2, 2, 6), "linear")), rtol=1e-6)
    # Moved to the right, a ramp of slope 1 loses 1 at every pixel inside.
    moved = lambda t: image.scale_and_translate(jnp.arange(8.0), (8,), (0,), jnp.ones(1), t[None], "linear")  # noqa: E731
    np.testing.assert_allclose(np.asarray(functad.jacfwd(moved)(0.25))[1:-1], -1, rtol=1e-5)


REFUSED = [
    (lambda: image.resize(X, (6,), "linear"), ShapeError, "as many sizes as the image has axes"),
    (lambda: image.resize(X, (6, 6), "blurred"), ArgumentError, "resize method 'blurred' is none of nearest"),
    (lambda: image.resize(X, (6, 6), 3), ArgumentError, "must be a ResizeMethod or its name"),
    (
        lambda: image.scale_and_translate(X, (3, 4), (0,), jnp.ones(2), jnp.ones(2), "linear"),
        ShapeError,
        "as many scales and translations",
    ),
    (
        lambda: image.scale_and_translate(X, (3, 4), (0,), jnp.ones(1), jnp.ones(1), "nearest"),
        ArgumentError,
        "cannot take the nearest pixel",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
