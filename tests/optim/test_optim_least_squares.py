"""Levenberg-Marquardt on standard problems, whose minima are known; ranks, pytrees, dtypes, messages."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import optim
from functad.errors import ArgumentError, DTypeError

MISRA_X = np.array([77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0])
MISRA_Y = np.array([10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78])
KOWALIK_Y = np.array([0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
KOWALIK_U = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])


def rosenbrock(x):
    return jnp.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def powell_singular(x):
    """Of rank 2 at the minimum."""
    a, b, c, d = x
    return jnp.stack([a + 10 * b, 5**0.5 * (c - d), (b - 2 * c) ** 2, 10**0.5 * (a - d) ** 2])


def helical_valley(x):
    turns = jnp.arctan2(x[1], x[0]) / (2 * np.pi)
    return jnp.stack([10 * (x[2] - 10 * turns), 10 * (jnp.hypot(x[0], x[1]) - 1), x[2]])


def misra(b):
    """Of the NIST's reference datasets for nonlinear regression: Misra1a."""
    return b[0] * (1 - jnp.exp(-b[1] * MISRA_X)) - MISRA_Y


def kowalik(x):
    u = KOWALIK_U
    return KOWALIK_Y - x[0] * (u * u + u * x[1]) / (u * u + u * x[2] + x[3])


# What to minimise, where from, the sum of squares there (Moré, Garbow and Hillstrom 1981; NIST), the place.
PROBLEMS = {
    "Rosenbrock": (rosenbrock, [-1.2, 1.0], 0.0, [1.0, 1.0]),
    "Rosenbrock, from afar": (rosenbrock, [-120.0, 100.0], 0.0, [1.0, 1.0]),
    "Powell's singular function": (powell_singular, [3.0, -1.0, 0.0, 1.0], 0.0, None),
    "helical valley": (helical_valley, [-1.0, 0.0, 0.0], 0.0, [1.0, 0.0, 0.0]),
    "Misra1a": (misra, [500.0, 0.0001], 1.2455138894e-01, [2.3894212918e02, 5.5015643181e-04]),
    "Kowalik and Osborne": (
        kowalik,
        [0.25, 0.39, 0.415, 0.39],
        3.075056038492366e-04,
        [0.19281, 0.19128, 0.12306, 0.13606],
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_standard_problems(name):
    residuals, start, least, place = PROBLEMS[name]
    found = functad.jit(lambda x: optim.levenberg_marquardt(residuals, x))(np.array(start))
    assert bool(found.success) and int(found.status) == 0
    np.testing.assert_allclose(2 * found.value, least, rtol=1e-9, atol=1e-12)
    if place is not None:
        np.testing.assert_allclose(found.params, place, rtol=5e-5, atol=1e-6)


def test_float32_pytrees_and_plain_calls():
    def residuals(p, t, y):
        return {"fit": p["a"] * jnp.exp(-p["rate"] * t) - y, "prior": [0.0 * p["a"]]}

    t = jnp.linspace(0.0, 4.0, 20)
    first = {"a": jnp.array(1.0), "rate": jnp.array(1.0)}
    found = optim.levenberg_marquardt(residuals, first, (t, 3 * jnp.exp(-0.5 * t)))
    assert found.params["a"].dtype == jnp.float32 and found.residuals["fit"].shape == (20,)
    np.testing.assert_allclose([found.params["a"], found.params["rate"]], [3.0, 0.5], rtol=1e-5)
    jitted = functad.jit(lambda p: optim.levenberg_marquardt(residuals, p, (t, 3 * jnp.exp(-0.5 * t))))(first)
    np.testing.assert_allclose(jitted.params["rate"], found.params["rate"], rtol=1e-5)


@pytest.mark.parametrize("shape", [(6, 4), (3, 5)])
def test_jacobians_without_full_rank(shape):
    """Columns that depend on each other, are zero, or are more than the rows: residuals are the least all the same."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=shape)
    a[:, 1], a[:, 2] = 2 * a[:, 0], 0
    y = rng.normal(size=shape[0])
    found = optim.levenberg_marquardt(lambda x: a @ x - y, np.full(shape[1], 0.5))
    best = np.linalg.lstsq(a, y)[0]
    assert bool(found.success)
    np.testing.assert_allclose(found.value, np.sum((a @ best - y) ** 2) / 2, rtol=1e-8, atol=1e-12)
    assert float(found.params[2]) == 0.5  # nothing says that it should move


def test_what_is_no_minimum_is_said():
    few = optim.levenberg_marquardt(rosenbrock, np.array([-1.2, 1.0]), maxiter=2)
    assert (bool(few.success), int(few.status), int(few.nit)) == (False, 1, 2)
    wrong = optim.levenberg_marquardt(lambda x: jnp.log(x), np.array([-1.0]))
    assert (bool(wrong.success), int(wrong.status), int(wrong.nit)) == (False, 2, 0)


def test_steps_to_where_there_are_no_values_are_not_taken():
    found = optim.levenberg_marquardt(lambda x: jnp.sqrt(x) - 0.1, np.array([4.0]))  # Newton's first step is below 0
    assert bool(found.success)
    np.testing.assert_allclose(found.params, [0.01], rtol=1e-6)


def test_a_start_at_the_minimum_is_one():
    found = optim.levenberg_marquardt(lambda x: x - 3.0, jnp.full(2, 3.0))
    assert bool(found.success) and int(found.nit) == 0


@pytest.mark.parametrize(
    "call, error, text",
    [
        (
            lambda: optim.levenberg_marquardt(jnp.sin, jnp.ones(2), maxiter=-1),
            ArgumentError,
            "maxiter must be an int of at least 0, got -1",
        ),
        (lambda: optim.levenberg_marquardt(jnp.sin, jnp.ones(2), tol=-1.0), ArgumentError, "tol=-1.0"),
        (lambda: optim.levenberg_marquardt(jnp.sin, ()), ArgumentError, "the params have no elements"),
        (lambda: optim.levenberg_marquardt(lambda x: (), jnp.ones(2)), ArgumentError, "the residuals have no elements"),
        (lambda: optim.levenberg_marquardt(jnp.sin, jnp.ones(2, "float16")), DTypeError, "params have dtype float16"),
        (
            lambda: optim.levenberg_marquardt(lambda x: x * 1j, jnp.ones(2)),
            DTypeError,
            "residuals have dtype complex64",
        ),
    ],
)
def test_messages(call, error, text):
    with pytest.raises(error, match=text):
        call()
