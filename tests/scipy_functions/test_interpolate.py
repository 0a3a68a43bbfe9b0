"""`RegularGridInterpolator`: multilinear functions come out exactly, and derivatives are those of the cell."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.scipy.interpolate import RegularGridInterpolator

GRID = (np.array([0.0, 1.0, 2.5, 3.0]), np.array([-1.0, 0.0, 4.0]))
A, B = np.meshgrid(*GRID, indexing="ij")
VALUES = 2 * A - 3 * B + A * B + 1
POINTS = np.array([[0.5, -0.5], [2.6, 3.0], [0.0, 4.0], [3.0, -1.0]])


def exact(p):
    return 2 * p[..., 0] - 3 * p[..., 1] + p[..., 0] * p[..., 1] + 1


def test_a_multilinear_function_is_interpolated_exactly():
    f = RegularGridInterpolator(GRID, VALUES)
    for call in (f, functad.jit(f), functad.vmap(lambda p: f(p)[0])):
        np.testing.assert_allclose(np.asarray(call(POINTS)), exact(POINTS), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(f((POINTS[:, 0], POINTS[:, 1]))), exact(POINTS), rtol=1e-12)
    assert f(POINTS.reshape(2, 2, 2)).shape == (2, 2)
    slope = functad.grad(lambda p: f(p)[0])(POINTS[0])
    np.testing.assert_allclose(np.asarray(slope), [2 + POINTS[0, 1], -3 + POINTS[0, 0]], rtol=1e-12)
    more = RegularGridInterpolator(GRID, np.stack([VALUES, -VALUES], -1))(POINTS)
    np.testing.assert_allclose(np.asarray(more), np.stack([exact(POINTS), -exact(POINTS)], -1), rtol=1e-12)


def test_outside_of_the_grid():
    outside = np.array([[-1.0, 0.0], [1.0, 9.0]])
    assert np.isnan(np.asarray(RegularGridInterpolator(GRID, VALUES)(outside))).all()
    assert RegularGridInterpolator(GRID, VALUES, fill_value=7.0)(outside).tolist() == [7, 7]
    found = RegularGridInterpolator(GRID, VALUES, fill_value=None)(outside)
    np.testing.assert_allclose(np.asarray(found), exact(outside), rtol=1e-12)


def test_the_nearest_point():
    f = RegularGridInterpolator(GRID, VALUES, "nearest")
    np.testing.assert_allclose(np.asarray(f(np.array([[0.5, -0.4], [2.8, 2.1]]))), [VALUES[0, 1], VALUES[3, 2]])
    assert RegularGridInterpolator((GRID[0],), GRID[0] ** 2)(np.array([0.5, 2.75])).shape == (2,)


def test_mistakes_say_what_is_wrong():
    for call, error, text in (
        (lambda: RegularGridInterpolator(GRID, VALUES, "cubic"), ArgumentError, "method='cubic'"),
        (lambda: RegularGridInterpolator(GRID, VALUES, bounds_error=True), ArgumentError, "bounds_error"),
        (lambda: RegularGridInterpolator(GRID, VALUES.T), ShapeError, "first axes of values"),
        (lambda: RegularGridInterpolator(GRID, VALUES, fill_value=1j), DTypeError, "fill_value=1j"),
        (lambda: RegularGridInterpolator(GRID, VALUES)(np.ones((2, 3))), ShapeError, "3 coordinates, but the grid 2"),
    ):
        with pytest.raises(error, match=text):
            call()


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill_value", [np.nan, None, 7.0])
def test_nan_is_nowhere(method, fill_value):
    f = RegularGridInterpolator(GRID, VALUES, method, fill_value=fill_value)
    found = np.asarray(f(np.array([[np.nan, 0.0], [1.0, np.nan], [1.0, 0.0]])))
    assert np.isnan(found).tolist() == [True, True, False]
