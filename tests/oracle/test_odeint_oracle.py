"""`functad.experimental.ode.odeint` against JAX's: solutions and the adjoint's gradients, in 32 and 64 bits."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
from jax.experimental.ode import odeint as jax_odeint  # noqa: E402

import functad  # noqa: E402
from functad.experimental.ode import odeint  # noqa: E402

TIMES = np.array([0.0, 0.2, 1.0, 2.5])
RNG = np.random.default_rng(5)
DYNAMICS = {
    "pendulum": (lambda m, y, t, a, b: (y[1], -a * m.numpy.sin(y[0]) - b * y[1]), (0.5, -0.1)),
    "van der Pol": (lambda m, y, t, a, b: (y[1], b * (1 - y[0] ** 2) * y[1] - a * y[0]), (2.0, 0.0)),
    "driven network": (lambda m, y, t, a, b: m.numpy.tanh(W @ y * a + b * m.numpy.sin(t)), RNG.normal(size=3)),
}
W = RNG.normal(size=(3, 3))


@pytest.mark.parametrize(("name", "x64"), [*((name, True) for name in DYNAMICS), ("pendulum", False)])
def test_solutions_and_gradients_are_jaxs(name, x64):
    dynamics, start = DYNAMICS[name]
    dtype = np.float64 if x64 else np.float32

    def loss(module, solve, y, t, a, b):
        ys = solve(lambda *args: dynamics(module, *args), y, t, a, b)
        return sum(module.numpy.sum(module.numpy.sin(x)) for x in module.tree.leaves(ys))

    with jax.enable_x64(x64):
        given = jax.tree.map(lambda x: np.asarray(x, dtype), (start, TIMES, 1.2, 0.3))
        expected = jax.device_get(
            jax.jit(jax.value_and_grad(lambda *args: loss(jax, jax_odeint, *args), (0, 1, 2, 3)))(*given)
        )
        ours = functad.value_and_grad(lambda *args: loss(functad, odeint, *args), (0, 1, 2, 3))
        for wrap in (lambda f: f, functad.jit):
            found = wrap(ours)(*given)
            for a, b in zip(functad.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6 if x64 else 2e-4, atol=1e-6 if x64 else 2e-4)


def test_arguments_are_jaxs():
    ours, theirs = (inspect.signature(f).parameters.values() for f in (odeint, jax_odeint))
    assert [(p.name, p.kind, p.default) for p in ours] == [(p.name, p.kind, p.default) for p in theirs]
