"""Stacked arrays that are taken apart again: what is done to all of them is done to each; nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optimized_tools import optimized_program

import functad
import functad.numpy as jnp
from functad import lax, machine_model

X, Y = (np.linspace(a, b, 12, dtype=np.float32) for a, b in ((-2, 2), (0.5, 3)))
STARTS = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)


def names(program: Any) -> list[str]:
    return [e.primitive.name for e in program.eqns]


def lorenz(state: Any) -> Any:
    x, y, z = state
    return jnp.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - 2.6 * z])


def runge_kutta(state: Any, _: Any) -> Any:
    k1 = lorenz(state)
    k2 = lorenz(state + 0.005 * k1)
    k3 = lorenz(state + 0.005 * k2)
    k4 = lorenz(state + 0.01 * k3)
    return state + 0.01 / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None


def simulated(starts: Any) -> Any:
    return functad.vmap(lambda s: lax.scan(runge_kutta, s, None, length=20)[0])(starts)


def test_a_step_of_stacked_derivatives_is_one_kernel() -> None:
    program = optimized_program(simulated, STARTS)
    (scan,) = (e for e in program.eqns if e.primitive.name == "scan")
    assert names(scan.params["jaxpr"]).count("stack") == 1
    kernels = str(functad.jit(simulated).lower(STARTS).kernels)
    assert kernels.count("\ndef ") == 2  # a step, and one that copies the start
    np.testing.assert_allclose(functad.jit(simulated)(STARTS), simulated(STARTS), rtol=2e-5)


def test_gradients_are_taken_apart_too() -> None:
    gradient = functad.grad(lambda starts: jnp.sum(simulated(0.1 * starts) ** 2))
    np.testing.assert_allclose(functad.jit(gradient)(STARTS), gradient(STARTS), rtol=1e-3)


def parts_of(axis: int, cut: Any) -> Any:
    def fun(x: Any, y: Any) -> Any:
        both = jnp.tanh(jnp.stack([x, y], axis)) * 2.0
        return cut(both, axis), both + 1.0

    return fun


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "cut",
    [
        lambda both, axis: lax.unstack(both, axis),
        lambda both, axis: lax.index_in_dim(both, 1, axis),
        lambda both, axis: lax.index_in_dim(both, 0, axis, keepdims=False) * 3.0,
    ],
)
def test_what_is_taken_apart_is_computed_apart(cut: Any, axis: int) -> None:
    fun = parts_of(axis, cut)
    program = optimized_program(fun, X, Y)
    (tanh, *others) = (e for e in program.eqns if e.primitive.name == "tanh")
    assert others and tanh.outvars[0].aval.shape == (12,)
    for found, wanted in zip(functad.tree.leaves(functad.jit(fun)(X, Y)), functad.tree.leaves(fun(X, Y)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-7)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x, y: jnp.tanh(jnp.stack([x, y], 1)) * 2.0,
        lambda x, y: jnp.tanh(jnp.stack([x, y])).sum(0),
        lambda x, y: jnp.tanh(jnp.stack([x, y], 1))[:3],
    ],
)
def test_what_stays_together_is_computed_at_once(fun: Any) -> None:
    assert names(optimized_program(fun, X, Y)).count("tanh") == 1


@pytest.mark.parametrize("axis", [0, 1])
def test_what_is_not_stacked_is_cut_where_it_meets_what_is(axis: int) -> None:
    def fun(x: Any, y: Any, both: Any, number: Any) -> Any:
        return lax.unstack(jnp.where(both > number, jnp.stack([x, y], axis) * number, both), axis)

    both = np.stack([Y, X], axis)
    program = optimized_program(fun, X, Y, both, np.float32(0.7))
    assert "stack" not in names(program) and names(program).count("unstack") >= 1
    assert names(program).count("select_n") == 2
    for found, wanted in zip(functad.jit(fun)(X, Y, both, 0.7), fun(X, Y, both, 0.7), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_programs_grow_by_as_much_for_each_step_written_out() -> None:
    def steps(count: int) -> int:
        def fun(state: Any) -> Any:
            for _ in range(count):
                state, _ = runge_kutta(state, None)
            return state

        return len(optimized_program(functad.vmap(fun), STARTS).eqns)

    assert steps(3) - steps(2) == steps(2) - steps(1) <= 90


def test_many_stacked_arrays_stay_together() -> None:
    def fun(*xs: Any) -> Any:
        return lax.unstack(jnp.tanh(jnp.stack(xs)))

    most = machine_model.MOST_STACKED_APART
    counts = [names(optimized_program(fun, *[X] * n)).count("tanh") for n in (most, most + 1)]
    assert counts == [most, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0])
def test_special_numbers_and_weak_types_stay(value: float) -> None:
    def fun(x: Any, y: Any) -> Any:
        a, b = lax.unstack(-jnp.stack([x * value, y]) + jnp.stack([y, x]))
        return a, b, jnp.stack([jnp.sum(x), 2.0]) * value

    for found, wanted in zip(functad.jit(fun)(X, Y), fun(X, Y), strict=True):
        np.testing.assert_array_equal(found, wanted)
        if not np.isnan(value):  # which has no sign that counts
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
        assert found.aval.same_type(wanted.aval)


def test_stacks_of_stacks_and_of_numbers() -> None:
    def turned(angle: Any, point: Any) -> Any:
        c, s = jnp.cos(angle), jnp.sin(angle)
        matrix = jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])]) * 0.5
        (a, b), (d, e) = matrix
        return jnp.stack([a * point[0] + b * point[1], d * point[0] + e * point[1]])

    angles, points = np.float32([0.1, 2.0, 3.0]), STARTS[:3, :2]
    for fun, args in ((turned, (angles[0], points[0])), (functad.vmap(turned), (angles, points))):
        np.testing.assert_allclose(functad.jit(fun)(*args), fun(*args), rtol=1e-5, atol=1e-6)
