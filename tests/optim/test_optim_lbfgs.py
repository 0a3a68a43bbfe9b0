"""L-BFGS by the formula of its inverse Hessian, its line search, and what both converge to."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import optim
from functad.errors import ArgumentError, DTypeError


def inverse_by_hand(pairs, scale):
    """The matrix that updates of rank two make of a multiple of 1 (Nocedal and Wright 2006, equation 7.16)."""
    h = scale * np.eye(len(pairs[0][0]))
    for s, y in pairs:
        rho = 1 / (s @ y)
        v = np.eye(len(s)) - rho * np.outer(y, s)
        h = v.T @ h @ v + rho * np.outer(s, s)
    return h


@pytest.mark.parametrize("scaled", [True, False])
def test_the_direction_is_that_of_the_last_steps(scaled):
    memory, rng = 3, np.random.default_rng(0)
    hessian = np.diag([1.0, 2, 5, 9, 4])
    link = optim.scale_by_lbfgs(memory, scaled)
    xs = rng.normal(size=(6, 5))
    state = link.init({"a": xs[0, :2], "b": xs[0, 2:]})
    for k, x in enumerate(xs):
        g = hessian @ x
        direction, state = link.update({"a": g[:2], "b": g[2:]}, state, {"a": x[:2], "b": x[2:]})
        found = np.concatenate([direction["a"], direction["b"]])
        steps = np.diff(xs[max(k - memory, 0) : k + 1], axis=0)
        pairs = [(s, hessian @ s) for s in steps]
        if not pairs:
            wanted = g / max(np.linalg.norm(g), 1) if scaled else g
        else:
            s, y = pairs[-1]
            wanted = inverse_by_hand(pairs, s @ y / (y @ y) if scaled else 1.0) @ g
        np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_steps_along_which_nothing_curves_up_are_left_out():
    link = optim.scale_by_lbfgs()
    state = link.init(jnp.zeros(2))
    for x, g in ((0.0, 1.0), (1.0, -1.0), (1.0, -1.0)):  # the slope falls; then nothing moves
        direction, state = link.update(jnp.full(2, g), state, jnp.full(2, x))
        assert np.isfinite(np.asarray(direction)).all()
    np.testing.assert_array_equal(direction, [-1.0, -1.0])


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


A = np.random.default_rng(1).normal(size=(12, 4))
Y = np.random.default_rng(2).normal(size=12)


def line(p):
    return jnp.sum((A @ jnp.stack([p["a"], *p["b"]]) - Y) ** 2)


def minimised(loss, params, steps, **options):
    optimizer, value_and_grad = optim.lbfgs(**options), optim.value_and_grad_from_state(loss)

    @functad.jit
    def run(params):
        def step(i, carry):
            params, state = carry
            value, grads = value_and_grad(params, state=state)
            updates, state = optimizer.update(grads, state, params, value=value, grad=grads, value_fn=loss)
            return optim.apply_updates(params, updates), state

        return functad.lax.fori_loop(0, steps, step, (params, optimizer.init(params)))[0]

    return run(params)


def test_it_converges():
    np.testing.assert_allclose(minimised(rosenbrock, np.array([-1.2, 1.0]), 60), [1, 1], rtol=1e-8)
    found = minimised(line, {"a": np.array(0.0), "b": np.zeros(3)}, 30)
    best = np.linalg.lstsq(A, Y)[0]
    np.testing.assert_allclose([found["a"], *found["b"]], best, rtol=1e-8)


def test_value_and_gradient_are_computed_once():
    calls = []

    def loss(x):
        calls.append(1)
        return jnp.sum(x * x)

    optimizer, value_and_grad = optim.lbfgs(), optim.value_and_grad_from_state(loss)
    x = jnp.array([1.0, 2.0])
    state = optimizer.init(x)
    value, grads = value_and_grad(x, state=state)
    updates, state = optimizer.update(grads, state, x, value=value, grad=grads, value_fn=loss)
    x = optim.apply_updates(x, updates)
    value, grads = value_and_grad(x, state=state)
    np.testing.assert_allclose(value, jnp.sum(x * x), rtol=1e-6)
    np.testing.assert_allclose(grads, 2 * x, rtol=1e-6)
    kept = state[2]._replace(value=jnp.array(7.0))  # it is taken from there
    assert float(value_and_grad(x, state=(*state[:2], kept))[0]) == 7.0


def test_the_search_holds_the_wolfe_conditions_and_gives_the_loss_what_it_takes():
    def loss(x, scale):
        return jnp.sum(scale * (x**4 - x**2))

    for first in (1e-3, 100.0):
        search = optim.chain(optim.sgd(first), optim.scale_by_zoom_linesearch(20, curv_rtol=0.5))
        x, scale = np.array([1.5, -2.0]), np.array([1.0, 3.0])
        value, g = functad.value_and_grad(loss)(x, scale)
        updates, state = search.update(g, search.init(x), x, value=value, grad=g, value_fn=loss, scale=scale)
        new, slope = x + np.asarray(updates), np.vdot(updates, g)
        after, g_after = functad.value_and_grad(loss)(new, scale)
        assert float(after) <= float(value) + 1e-4 * slope
        assert abs(np.vdot(updates, g_after)) <= 0.5 * abs(slope)
        np.testing.assert_allclose(state[1].value, after)
        np.testing.assert_allclose(state[1].grad, g_after)


def test_where_no_step_is_better_nothing_moves():
    search = optim.scale_by_zoom_linesearch(5)
    x, g = jnp.array([1.0]), jnp.array([2.0])
    updates, _ = search.update(g, search.init(x), x, value=1.0, grad=g, value_fn=lambda x: jnp.sum(x * x))  # uphill
    np.testing.assert_array_equal(updates, [0.0])


X = jnp.ones(2)
LOSS = {"value": 1.0, "grad": X, "value_fn": jnp.sum}


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: optim.lbfgs().update(X, optim.lbfgs().init(X), X), ArgumentError, "a line search needs the loss"),
        (lambda: optim.sgd(0.1).update(X, optim.sgd(0.1).init(X), X, **LOSS), ArgumentError, "none of the optimizers"),
        (lambda: optim.scale_by_lbfgs().update(X, optim.scale_by_lbfgs().init(X)), ArgumentError, "needs the params"),
        (lambda: optim.lbfgs(memory_size=0), ArgumentError, "memory_size must be an int of at least 1, got 0"),
        (lambda: optim.scale_by_zoom_linesearch(5, initial_guess_strategy="last"), ArgumentError, '"one" or "keep"'),
        (lambda: optim.lbfgs().init(X * 1j), DTypeError, "real params"),
        (lambda: optim.value_and_grad_from_state(jnp.sum)(X, state=()), ArgumentError, "0 states of a line search"),
    ],
)
def test_messages(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_without_a_search_it_takes_no_keywords():
    optimizer = optim.lbfgs(0.5, linesearch=None)
    updates, _ = optimizer.update(X, optimizer.init(X), X)
    np.testing.assert_allclose(updates, -0.5 * np.asarray(X) / np.sqrt(2), rtol=1e-6)
