"""`functad.experimental.ode.odeint`: known solutions, the order of its method, and derivatives by the adjoint."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import DTypeError, ShapeError
from functad.experimental.ode import _IntegratorState, _interpolated, _Options, _step, odeint
from functad.test_util import check_grads

TIMES = np.array([0.0, 0.3, 1.1, 2.0])


def pendulum(y, t, damping, drive):
    return {"angle": y["speed"], "speed": -jnp.sin(y["angle"]) - damping * y["speed"] + drive * jnp.cos(t)}


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-6), (np.float64, 5e-8), (np.complex128, 5e-8)])
def test_an_exponential(dtype, tolerance):
    rate = dtype(-1.5 + 2j) if dtype is np.complex128 else dtype(-1.5)
    start = np.array([1, 2], dtype)
    solve = lambda y, t: odeint(lambda y, t, a: a * y, y, t, rate)  # noqa: E731
    times = TIMES.astype(rate.real.dtype)
    for found in (solve(start, times), functad.jit(solve)(start, times)):
        assert found.dtype == dtype and found.shape == (4, 2)
        np.testing.assert_allclose(found, np.exp(rate * times)[:, None] * start, rtol=tolerance, atol=tolerance)


def test_trees_mapped_over_starts():
    start = {"angle": np.array([0.1, 1.0, 3.0]), "speed": np.zeros(3)}
    solve = lambda y: odeint(pendulum, y, TIMES, 0.1, 0.5)  # noqa: E731
    found = functad.jit(functad.vmap(solve))(start)
    assert found["angle"].shape == (3, 4)
    for i in range(3):
        alone = solve({k: np.array(v[i]) for k, v in start.items()})
        for k in alone:
            np.testing.assert_allclose(found[k][i], alone[k], rtol=1e-9, atol=1e-12)


def test_the_orders_of_step_and_interpolant():
    solution = lambda t: np.exp(np.sin(t))  # noqa: E731
    slope = lambda y, t: y * jnp.cos(t)  # noqa: E731
    y = jnp.ones(1, "float64")
    errors = []
    for h in (0.4, 0.2, 0.1):
        state = _IntegratorState(
            y, slope(y, 0.0), jnp.zeros((), "float64"), jnp.full((), h, "float64"), 0.0, jnp.zeros((5, 1), "float64")
        )
        new = _step(slope, _Options(1.0, 1.0, jnp.inf, jnp.inf), state._replace(t_before=state.t))
        middle = max(abs(_interpolated(new, s * h)[0] - solution(s * h)) for s in (0.25, 0.5, 0.8))
        errors.append((float(abs(new.y[0] - solution(h))), float(middle)))
    (a0, b0), (a1, b1), (a2, b2) = errors
    assert a0 / a1 > 2**5.5 and a1 / a2 > 2**5.5  # local errors: one order more than the method's 5, and 4
    assert b0 / b1 > 2**4.5 and b1 / b2 > 2**4.5


ARGUMENTS = ({"angle": np.array([0.7]), "speed": np.zeros(1)}, TIMES, np.array([0.2]), np.array([0.9]))


def test_derivatives_of_all_arguments():
    solve = lambda y, t, a, b: odeint(pendulum, y, t, a, b, rtol=1e-11, atol=1e-11)  # noqa: E731
    check_grads(solve, ARGUMENTS, order=1, modes="rev")
    check_grads(functad.jit(solve), ARGUMENTS, order=1, modes="rev")
    check_grads(lambda a: solve(*ARGUMENTS[:2], a, ARGUMENTS[3])["angle"], (ARGUMENTS[2],), order=2, modes="rev")


def test_derivatives_mapped():
    slope = functad.grad(lambda a: odeint(lambda y, t, a: -a * y, np.ones(2), TIMES, a)[-1].sum())
    rates = np.array([0.5, 1.0, 2.0])
    np.testing.assert_allclose(functad.jit(functad.vmap(slope))(rates), -4 * np.exp(-2 * rates), rtol=1e-6)


def test_what_is_closed_over_and_integers():
    def end(rate, powers):
        return odeint(lambda y, t, n: -rate * y * n[1], np.ones(1), TIMES, powers)[-1, 0]

    for wrap in (lambda f: f, functad.jit):
        slope = wrap(functad.grad(end))(np.array(0.5), np.array([1, 3]))
        np.testing.assert_allclose(slope, -6 * np.exp(-3.0), rtol=1e-6)


def test_the_rest_is_nan_where_steps_do_not_suffice():
    found = odeint(lambda y, t: 1e3 * jnp.cos(1e3 * t), np.zeros(1), np.array([0.0, 1e-4, 10.0, 20.0]), mxstep=30)
    assert np.isfinite(found[:2]).all() and np.isnan(found[2:]).all()
    blown_up = odeint(lambda y, t: y**2, np.ones(1), np.array([0.0, 0.5, 2.0]), mxstep=2000)
    np.testing.assert_allclose(blown_up[:2, 0], [1, 2], rtol=1e-6)
    assert np.isnan(blown_up[2, 0])


def test_no_step_is_longer_than_hmax():
    bump = lambda y, t: jnp.where(abs(t - 5.0) < 0.1, 1.0, 0.0) * jnp.ones_like(y)  # noqa: E731
    times = np.array([0.0, 10.0])
    assert odeint(bump, np.zeros(1), times)[1, 0] == 0  # stepped over
    np.testing.assert_allclose(odeint(bump, np.zeros(1), times, hmax=0.05)[1, 0], 0.2, rtol=1e-4)


@pytest.mark.parametrize(
    ("times", "error", "text"),
    [(np.arange(3), DTypeError, "times that are floats"), (np.float64(1.0), ShapeError, r"times of shape \(k,\)")],
)
def test_what_is_refused(times, error, text):
    with pytest.raises(error, match=text):
        odeint(lambda y, t: -y, 1.0, times)


@pytest.mark.parametrize("times", [[50.0, 51.0], [-51.0, -50.0], [1e6, 1e6 + 1]])
def test_a_first_step_is_no_shorter_than_the_spacing_of_times(times):
    found = odeint(lambda y, t: -y, jnp.zeros(1), jnp.array(times))
    assert found.dtype == "float32" and found.tolist() == [[0.0], [0.0]]


def test_steps_below_the_spacing_of_times_end():
    times = np.array([1.0, 2.0, 3.0], np.float32)
    found = odeint(lambda y, t: -1e9 * (y - 1.0), np.float32(0), times, rtol=1e-4, atol=1e-4)
    assert found[0] == 0 and np.isnan(np.asarray(found[1:])).all()
