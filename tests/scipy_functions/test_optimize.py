"""`functad.scipy.optimize`: known minima, compiled, mapped, differentiated; and searches that cannot succeed."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.scipy.optimize import minimize
from functad.scipy.optimize.line_search import Point, line_search


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def bowl(x, centre, steepness=1.0):
    return jnp.sum(steepness * (x - centre) ** 2)


@pytest.mark.parametrize(
    ("function", "start", "end"),
    [
        (rosenbrock, [-1.2, 1.0], [1, 1]),
        (rosenbrock, [-1.2, 1.0, 2.0, -1.0, 0.5], [1] * 5),
        (himmelblau, [1.0, 1.0], [3, 2]),
        (himmelblau, [-3.0, 2.0], [-2.805118, 3.131312]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_known_minima(function, start, end, dtype):
    search = lambda x: minimize(function, x, method="bfgs", tol=1e-3)  # noqa: E731
    for found in (search(np.array(start, dtype)), functad.jit(search)(np.array(start, dtype))):
        assert found.success and found.status == 0
        assert found.x.dtype == found.fun.dtype == found.jac.dtype == dtype
        np.testing.assert_allclose(found.x, end, atol=2e-3)
        value, gradient = functad.value_and_grad(function)(found.x)
        np.testing.assert_allclose(found.fun, value, atol=1e-5)
        np.testing.assert_allclose(found.jac, gradient, atol=1e-3)
        assert np.max(np.abs(found.jac)) < 1e-3
        assert found.nit < found.nfev == found.njev < 200


def test_the_inverse_of_second_derivatives_is_found():
    a = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
    found = minimize(lambda x: x @ a @ x / 2 + jnp.cos(x).sum() * 0, np.ones(3), method="BFGS", tol=1e-9)
    np.testing.assert_allclose(found.hess_inv, np.linalg.inv(a), atol=1e-2)
    np.testing.assert_allclose(found.hess_inv, found.hess_inv.T, atol=1e-15)


def test_mapped_over_starts_and_arguments():
    starts = np.array([[1.0, 1.0], [-3.0, 2.0], [3.0, -1.0]])
    found = functad.jit(functad.vmap(lambda x: minimize(himmelblau, x, method="BFGS")))(starts)
    for i, start in enumerate(starts):
        alone = minimize(himmelblau, start, method="BFGS")
        np.testing.assert_allclose(found.x[i], alone.x, atol=1e-6)
        assert found.nit[i] == alone.nit


def test_differentiated_through_all_steps():
    place = lambda c: minimize(bowl, np.zeros(2), (c, jnp.array([1.0, 3.0])), method="BFGS", tol=1e-8).x  # noqa: E731
    for jacobian in (functad.jacfwd(place), functad.jacrev(place)):
        np.testing.assert_allclose(jacobian(np.array([0.5, 2.0])), np.eye(2), atol=1e-5)


def test_integers_and_a_start_at_the_minimum():
    found = minimize(bowl, np.array([2, 2]), (2.0,), method="BFGS")
    assert found.success and found.nit == 0 and found.nfev == 1
    assert minimize(bowl, [0, 0], (2.0,), method="BFGS").success


@pytest.mark.parametrize(
    ("function", "options", "status"),
    [
        (rosenbrock, {"maxiter": 3}, 1),
        (lambda x: jnp.sum(x), {}, 5),  # falls for ever
        (lambda x: jnp.sum(jnp.abs(x)), {}, 3),  # its slope never becomes small
        (lambda x: jnp.sum(x) * jnp.nan, {}, 3),
    ],
)
def test_what_has_no_result_says_why(function, options, status):
    start = np.array([1.5, -0.7])
    found = minimize(function, start, method="BFGS", options=options)
    assert not found.success and found.status == status
    if status != 3 or np.isfinite(found.fun):
        assert found.fun <= function(start)
        assert found.fun == function(found.x)  # value and place belong together, whatever was tried last


def test_a_step_that_is_not_finite_is_too_long():
    found = minimize(lambda x: jnp.sum(x - jnp.log(x)), np.array([0.01, 5.0]), method="BFGS", tol=1e-6)
    assert found.success
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-6)


@pytest.mark.parametrize("first_step", [1e-6, 0.3, 1.0, 1e6])
def test_steps_satisfy_the_strong_wolfe_conditions(first_step):
    function = lambda t: jnp.sin(3 * t) * 0.4 + (t - 2.0) ** 2  # noqa: E731

    def at(t):
        value, slope = functad.value_and_grad(function)(t)
        return Point(t, value, slope, slope)

    start = at(jnp.zeros((), "float64"))
    found = line_search(at, start, jnp.asarray(first_step, "float64"), 40)
    assert found.done
    assert found.low.value <= start.value + 1e-4 * found.low.step * start.slope
    assert abs(found.low.slope) <= 0.9 * abs(start.slope)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: minimize(bowl, np.ones(2), (1.0,), method="Powell"), ArgumentError, 'must be "BFGS"'),
        (lambda: minimize(bowl, np.ones(2), 1.0, method="BFGS"), ArgumentError, "args must be a tuple"),
        (lambda: minimize(bowl, np.ones((2, 1)), (1.0,), method="BFGS"), ShapeError, r"x0 of shape \(n,\)"),
        (lambda: minimize(bowl, np.ones(2) * 1j, (1.0,), method="BFGS"), DTypeError, "real x0"),
        (lambda: minimize(bowl, np.ones(2), (1.0,), method="BFGS", options={"xtol": 1}), ArgumentError, "options are"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
