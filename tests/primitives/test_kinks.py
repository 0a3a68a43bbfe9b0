"""Derivatives of public functions at ties, kinks and ends of domains: the values that are agreed on, which are JAX's.

Knows no primitive: those have such points among their examples (`test_primitives.py`).
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from derivative_tools import MODES, WAYS, assert_agreed, derivatives, scalar_valued

import functad
from functad import nn
from functad import numpy as jnp

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

LN2 = math.log(2)
INF = np.inf

_LINE = np.float32([1, -1, 2, 1]).reshape(1, 1, 4)  # times 0: all elements are equal

# Function, point, direction (None: kept), and the derivatives of order 1, 2, 3 along it.
POINTS = [
    ("softplus", nn.softplus, (0.0,), (1.0,), (0.5, 0.25, 0.0)),
    ("log_sigmoid", nn.log_sigmoid, (0.0,), (1.0,), (0.5, -0.25, 0.0)),
    ("mish", nn.mish, (0.0,), (1.0,), (0.6, 0.64, -0.096)),
    ("relu", nn.relu, (0.0,), (1.0,), (0.0, 0.0, 0.0)),
    ("relu6", nn.relu6, (6.0,), (1.0,), (0.0, 0.0, 0.0)),
    ("huber_loss", nn.huber_loss, (0.0, 0.0), (1.0, None), (0.0, 1.0, 0.0)),
    ("huber_loss", nn.huber_loss, (1.0, 0.0), (1.0, None), (1.0, 0.25, 0.0)),
    ("squared_error", nn.squared_error, (0.0, 0.0), (1.0, -1.0), (0.0, 8.0, 0.0)),
    ("l2_loss", nn.l2_loss, (0.0, 0.0), (1.0, -1.0), (0.0, 4.0, 0.0)),
    ("sigmoid_binary_cross_entropy", nn.sigmoid_binary_cross_entropy, (0.0, 1.0), (1.0, None), (-0.5, 0.25, 0.0)),
    ("sigmoid_binary_cross_entropy", nn.sigmoid_binary_cross_entropy, (0.0, 0.0), (1.0, None), (0.5, 0.25, 0.0)),
    (
        "softmax_cross_entropy",
        lambda x: nn.softmax_cross_entropy(x * np.float32([1, 0]), np.float32([1, 0])),
        (0.0,),
        (1.0,),
        (-0.5, 0.25, 0.0),
    ),
    ("max_pool", lambda x: nn.MaxPool((2,), (1,)).apply((), x * _LINE), (0.0,), (1.0,), (5.0, 0.0, 0.0)),
    ("logaddexp", jnp.logaddexp, (0.0, 0.0), (1.0, None), (0.5, 0.25, 0.0)),
    ("logaddexp", jnp.logaddexp, (0.0, 0.0), (1.0, 1.0), (1.0, 0.0, 0.0)),
    ("logaddexp", jnp.logaddexp, (0.0, 0.0), (1.0, -1.0), (0.0, 1.0, 0.0)),
    ("logaddexp", jnp.logaddexp, (-INF, 0.0), (None, 1.0), (1.0, 0.0, 0.0)),
    ("logaddexp", jnp.logaddexp, (INF, 0.0), (None, 1.0), (0.0, 0.0, 0.0)),
    ("logaddexp", jnp.logaddexp, (INF, INF), (1.0, None), (1.0, 0.0, 0.0)),
    ("logaddexp", jnp.logaddexp, (INF, -INF), (1.0, None), (1.0, 0.0, 0.0)),
    ("logaddexp", jnp.logaddexp, (-INF, -INF), (1.0, None), (np.nan, np.nan, np.nan)),
    ("logaddexp2", jnp.logaddexp2, (0.0, 0.0), (1.0, None), (0.5, LN2 / 4, 0.0)),
    ("logaddexp2", jnp.logaddexp2, (1.0, 1.0), (1.0, -1.0), (0.0, LN2, 0.0)),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", [pytest.param(p, id=f"{i}-{p[0]}") for i, p in enumerate(POINTS)])
def test_derivatives_are_those_agreed_on(case, way):
    name, function, point, along, agreed = case
    args = [np.float32(x) for x in point]
    along = [v if v is None else np.float32(v) for v in along]
    for modes in MODES:
        with np.errstate(all="ignore"):
            found = WAYS[way](derivatives(scalar_valued(function), along, modes), *args)
        assert_agreed(found, agreed, f"{name} at {point} along {along}, {way}, {modes}")


def _row(*values):
    return np.array(values, np.float32)


# Elements that take no part, or a side that is not taken, may be NaN or infinite, and must not reach the derivative.
GRADIENTS = [
    ("sinc", lambda x: jnp.sum(jnp.sinc(x)), _row(0.0, 3e7, 1e30), [0.0, 0.0, 0.0]),
    ("nanvar", jnp.nanvar, _row(np.nan, 1.0, 3.0), [0.0, -1.0, 1.0]),
    ("nanstd", jnp.nanstd, _row(np.nan, 1.0, 3.0), [0.0, -0.5, 0.5]),
    ("var", lambda x: jnp.var(x, where=np.isfinite([INF, 1, 3])), _row(INF, 1.0, 3.0), [0.0, -1.0, 1.0]),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "function", "x", "expected"), GRADIENTS, ids=[g[0] for g in GRADIENTS])
def test_what_takes_no_part_does_not_reach_the_gradient(name, function, x, expected, way):
    with np.errstate(all="ignore"):
        found = WAYS[way](lambda v: [functad.grad(function)(v)], x)[0]
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_polynomials_of_zero(way):
    """Powers with an array of integer exponents: every derivative of x⁰ and x¹ is known."""
    for modes in MODES:
        along = [np.float32(1)]
        function = scalar_valued(lambda x: x ** np.array([0, 1, 2, 3]))
        with np.errstate(all="ignore"):
            found = WAYS[way](derivatives(function, along, modes), np.float32(0))
        assert_agreed(found, (2.0, 6.0, 24.0), f"powers of 0, {way}, {modes}")
