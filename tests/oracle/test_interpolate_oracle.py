"""`RegularGridInterpolator` against JAX's: values, gradients in points and in the values of the grid."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import functad  # noqa: E402

RNG = np.random.default_rng(0)
GRID = tuple(np.sort(RNG.normal(size=n)).astype(np.float32) for n in (4, 3, 5))
VALUES = RNG.normal(size=(4, 3, 5, 2)).astype(np.float32)
POINTS = RNG.normal(size=(6, 3)).astype(np.float32)


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill_value", [np.nan, 0.5, None])
def test_interpolated_values_are_jaxs(method, fill_value):
    def use(module, points, values):
        return module.scipy.interpolate.RegularGridInterpolator(GRID, values, method, fill_value=fill_value)(points)

    found, expected = use(functad, POINTS, VALUES), use(jax, POINTS, VALUES)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=2e-5, atol=1e-5)
    if fill_value is not np.nan:
        for argument in (0, 1):
            ours, theirs = (
                m.grad(lambda p, v, m=m: (use(m, p, v) ** 2).sum(), argument)(POINTS, VALUES) for m in (functad, jax)
            )
            np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=2e-4, atol=1e-4)
