"""`functad.scipy.optimize.minimize` against JAX's: the same minima, the same meaning of what says how it went."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
from jax.scipy.optimize import minimize as jax_minimize  # noqa: E402

import functad  # noqa: E402
from functad.scipy.optimize import minimize  # noqa: E402

FUNCTIONS = {
    "rosenbrock": (lambda m, x: m.numpy.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), [-1.2, 1.0, 0.3]),
    "himmelblau": (lambda m, x: (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2, [1.0, 1.0]),
    "matyas": (lambda m, x: 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1], [2.0, -3.0]),
    "logistic": (lambda m, x: m.numpy.sum(m.nn.softplus(x) - 0.3 * x), [4.0, -2.0, 0.0]),
}


@pytest.mark.parametrize("options", [{}, {"norm": 2, "gtol": 1e-7}, {"maxiter": 2}])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_minima_are_jaxs(name, options):
    function, start = FUNCTIONS[name]
    with jax.enable_x64(True):
        x, keywords = np.array(start), {"method": "BFGS", "options": options}
        theirs = jax.jit(lambda x: jax_minimize(lambda x: function(jax, x), x, **keywords))
        expected = jax.device_get(theirs(x))
        found = functad.device_get(minimize(lambda x: function(functad, x), x, **keywords))
    assert found._fields == expected._fields
    if "maxiter" in options:
        assert not found.success and found.status == expected.status == 1 and found.nit == expected.nit == 2
        return
    assert found.success and found.status == 0  # JAX's line search gives up in Rosenbrock's valley
    if expected.success:
        assert expected.status == 0
        np.testing.assert_allclose(found.x, expected.x, atol=1e-4)
        np.testing.assert_allclose(found.fun, expected.fun, atol=1e-9)
        assert found.nfev <= 2 * expected.nfev
    else:
        assert name == "rosenbrock" and found.fun < expected.fun


IN_FLOAT32 = {
    "rosenbrock": ([-1.2, 1.0], FUNCTIONS["rosenbrock"][0]),
    "quartic": ([5.0, -3.0], lambda m, x: m.numpy.sum((x - 2) ** 4) + m.numpy.sum(x**2)),
    "unlike scales": ([3.0, -2.0, 2.0], lambda m, x: m.numpy.sum(m.numpy.array([1, 1e2, 1e4]) * (x - 1) ** 2)),
    "a large value": ([5.0, -3.0], lambda m, x: m.numpy.sum((x - 1) ** 2) + 1000.0),
}


@pytest.mark.parametrize("name", IN_FLOAT32)
def test_in_float32_minima_are_no_worse_than_jaxs(name):
    start, function = IN_FLOAT32[name]
    x = np.float32(start)
    expected = jax.jit(lambda x: jax_minimize(lambda x: function(jax, x), x, method="BFGS"))(x)
    found = minimize(lambda x: function(functad, x), x, method="BFGS")
    assert found.x.dtype == expected.x.dtype == np.float32
    assert found.success and np.abs(found.jac).max() < 1e-5
    assert float(found.fun) <= float(expected.fun) + 1e-6 * abs(float(expected.fun))


def test_arguments_are_jaxs():
    ours, theirs = (inspect.signature(f).parameters.values() for f in (minimize, jax_minimize))
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]
