"""`custom_root`, `custom_linear_solve`: derivatives of all orders and modes, mapped and compiled, and errors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError, DifferentiationError, ShapeError

A = np.array([[3.0, 1.0, 0.5], [0.2, 2.0, 0.3], [0.1, 0.4, 4.0]])
B = np.array([1.0, -2.0, 0.7])
V, W = np.array([[0.3, 0.1, -0.2], [0.5, 0.2, 0.1], [0.0, 1.0, 0.3]]), np.array([0.5, 1.0, 2.0])


def _by_elimination(matvec, b):
    return jnp.linalg.solve(functad.jacobian(matvec)(b), b)


def _by_iteration(matvec, b):
    """Jacobi's method, which reverse mode cannot go through in time, and need not."""

    def step(x):
        return x + (b - matvec(x)) / 4

    return lax.while_loop(lambda s: jnp.abs(b - matvec(s)).max() > 1e-13, step, b)


def _solution(solve):
    def solution(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, solve, solve)

    return solution


@pytest.mark.parametrize("run", [lambda f: f, functad.jit], ids=["un-jitted", "jit"])
@pytest.mark.parametrize("solve", [_by_elimination, _by_iteration])
def test_derivatives_of_a_linear_solve(solve, run):
    found, expected = _solution(solve), jnp.linalg.solve

    def loss(of):
        return lambda a, b: (of(a, b) ** 3).sum()

    calls = [
        lambda of, a, b: of(a, b),
        lambda of, a, b: functad.jvp(of, (a, b), (V, W))[1],
        lambda of, a, b: functad.grad(loss(of), (0, 1))(a, b),
        lambda of, a, b: functad.jvp(functad.grad(loss(of), (0, 1)), (a, b), (V, W))[1],
        lambda of, a, b: functad.vmap(of, (None, 0))(a, jnp.stack([b, W])),
        lambda of, a, b: functad.vmap(of, (0, None))(jnp.stack([a, a.T]), b),
        lambda of, a, b: functad.vmap(functad.grad(loss(of)), (2, 1))(jnp.stack([a, a.T], 2), jnp.stack([b, W], 1)),
    ]
    for call in calls:
        for x, y in zip(*(functad.tree.leaves(run(partial(call, of))(A, B)) for of in (found, expected))):
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-9, atol=1e-10)


def test_a_symmetric_matrix_of_a_pytree():
    def solution(d, b):
        def solve(matvec, b):
            ones = functad.tree.map(jnp.ones_like, b)
            return functad.tree.map(lambda x, y: x / y, b, matvec(ones)), {"steps": 1}

        return lax.custom_linear_solve(lambda x: {"p": d * x["p"]}, b, solve, symmetric=True, has_aux=True)

    (x, aux), d = solution(np.float64([2, 4]), {"p": np.float64([2, 8])}), np.float64([2, 4])
    assert x["p"].tolist() == [1, 2] and aux["steps"] == 1
    slope = functad.grad(lambda d: solution(d, {"p": np.float64([2, 8])})[0]["p"].sum())(d)
    assert slope.tolist() == [-0.5, -0.5]
    assert functad.vmap(lambda d: solution(d, {"p": d})[1]["steps"])(np.ones((3, 2))).tolist() == [1, 1, 1]


def _root(f, guess):
    slope = functad.vmap(functad.grad(f)) if np.ndim(guess) else functad.grad(f)
    return lax.fori_loop(0, 30, lambda _, x: x - f(x) / slope(x), guess)


def _cube_root(a, n=3):
    def f(x):
        return x**n - a

    return lax.custom_root(f, jnp.ones_like(a), _root, lambda g, y: y / g(jnp.ones_like(y)))


@pytest.mark.parametrize("run", [lambda f: f, functad.jit], ids=["un-jitted", "jit"])
def test_derivatives_of_a_root(run):
    a = np.array(5.0)
    for order, expected in enumerate([a ** (1 / 3), a ** (-2 / 3) / 3, -2 / 9 * a ** (-5 / 3)]):
        f = _cube_root
        for _ in range(order):
            f = functad.grad(f)
        np.testing.assert_allclose(run(f)(a), expected, rtol=1e-12)
    np.testing.assert_allclose(run(functad.jacfwd(_cube_root))(a), a ** (-2 / 3) / 3, rtol=1e-12)
    both = np.float64([2, 5])
    np.testing.assert_allclose(run(functad.vmap(functad.grad(_cube_root)))(both), both ** (-2 / 3) / 3, rtol=1e-12)


def test_a_root_of_integers_too_and_what_a_solver_says_besides():
    def root(a, n):
        def solve(f, guess):
            return _root(f, guess), {"guess": guess}

        def f(x):
            return jnp.where(n == 2, x * x, x**3) - a

        return lax.custom_root(f, 1.0, solve, lambda g, y: y / g(1.0), has_aux=True)

    assert root(4.0, 2)[1]["guess"] == 1
    (slope, aux), n = functad.jit(functad.grad(root, has_aux=True))(np.float32(4), 2), 2
    assert aux["guess"] == 1 and n == 2
    np.testing.assert_allclose(slope, 0.25)


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: lax.custom_root(lambda x: x, 1.0, lambda f, x: (x, 1), lambda g, y: y), ArgumentError, "has_aux=True"),
        (
            lambda: lax.custom_root(lambda x: x, 1.0, lambda f, x: x, lambda g, y: y, has_aux=True),
            ArgumentError,
            "custom_root: with has_aux=True the solver returns a pair",
        ),
        (lambda: lax.custom_linear_solve(lambda x: x[:2], B, _by_elimination), ShapeError, "matvec must return"),
        (lambda: lax.custom_linear_solve(lambda x: x, B, lambda f, b: (b, 1)), ArgumentError, "has_aux=True"),
        (lambda: lax.custom_linear_solve(lambda x: x, B, lambda f, b: b, has_aux=True), ArgumentError, "a pair"),
        (lambda: lax.custom_linear_solve(lambda x: x, B, lambda f, b: b[:2]), ShapeError, "solve must return"),
        (
            lambda: functad.grad(lambda b: lax.custom_linear_solve(lambda x: x, b, lambda f, b: b).sum())(B),
            DifferentiationError,
            "give transpose_solve=",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("transform", [functad.grad, lambda f: functad.jit(functad.grad(f))])
def test_solvers_of_a_root_may_close_over_what_is_differentiated(transform):
    def root(a):
        return lax.custom_root(lambda x: x * x - a, 1.0, lambda f, x: jnp.sqrt(a), lambda g, y: y / (2 * jnp.sqrt(a)))

    assert float(transform(root)(4.0)) == pytest.approx(0.25)
    assert float(transform(functad.grad(root))(4.0)) == pytest.approx(-1 / 32)


def test_a_solver_that_looks_at_values_stays_as_it_is():
    def bisect(f, x):
        low, high = 0.0, 4.0
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (middle, high) if f(middle) < 0 else (low, middle)
        return x * 0 + low

    def root(a):
        return lax.custom_root(lambda x: x * x - a, 1.0, bisect, lambda g, y: y / g(1.0))

    assert float(functad.grad(root)(4.0)) == pytest.approx(0.25, abs=1e-5)
