"""`functad.scipy.special`: known values, tails, and slopes against differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import functad
from functad.errors import ArgumentError
from functad.scipy import special

KNOWN = [
    (special.gamma, (0.5,), math.gamma(0.5)),
    (special.gamma, (-2.5,), math.gamma(-2.5)),
    (special.beta, (2.0, 3.0), 1 / 12),
    (special.poch, (3.0, 2.0), 12.0),
    (special.factorial, (6.0,), 720.0),
    (special.erfcx, (-1.0,), math.exp(1) * math.erfc(-1)),
    (special.erfcx, (1e6,), (1 - 5e-13) / (1e6 * math.sqrt(math.pi))),
    (special.erfcx, (1.0,), math.exp(1) * math.erfc(1)),
    (special.log_ndtr, (-40.0,), -804.6084420137538),
    (special.log_ndtr, (0.3,), math.log(0.5 * math.erfc(-0.3 / math.sqrt(2)))),
    (special.ndtri, (1e-12,), -7.034483825301131),
    (special.ndtri, (0.3,), -0.5244005127080407),
    (special.xlogy, (0.0, 0.0), 0.0),
    (special.entr, (0.0,), 0.0),
    (special.rel_entr, (1.0, 0.0), math.inf),
    (special.kl_div, (0.0, 2.0), 2.0),
    (special.multigammaln, (3.0, 2), math.log(math.sqrt(math.pi) * math.gamma(3) * math.gamma(2.5))),
]


@pytest.mark.parametrize("function, args, expected", KNOWN)
def test_known_values(function, args, expected):
    with functad.enable_x64(True):
        found = function(*args)
        assert found.dtype == np.float64
        np.testing.assert_allclose(np.asarray(found), expected, rtol=3e-14)


@pytest.mark.parametrize("name", ["erfcx", "log_ndtr", "ndtri", "entr", "gamma"])
def test_slopes_against_differences(name):
    f = getattr(special, name)
    x, step = np.array([0.011, 0.2, 0.7]), 1e-5
    slope = functad.vmap(functad.grad(f))(x)
    differences = (np.asarray(f(x + step)) - np.asarray(f(x - step))) / (2 * step)
    np.testing.assert_allclose(np.asarray(slope), differences, rtol=1e-5)
    curvature = functad.vmap(functad.grad(functad.grad(f)))(x)
    g = functad.vmap(functad.grad(f))
    np.testing.assert_allclose(
        np.asarray(curvature), (np.asarray(g(x + step)) - np.asarray(g(x - step))) / (2 * step), rtol=1e-4
    )


def test_errors():
    with pytest.raises(ArgumentError, match="math.factorial"):
        special.factorial(3, exact=True)
    with pytest.raises(ArgumentError, match="must not be negative"):
        special.bernoulli(-1)
    with pytest.raises(ArgumentError, match="series_order"):
        special.log_ndtr(0.0, 50)
