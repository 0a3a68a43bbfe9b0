"""`optimization_barrier`: an order of computation that every pass respects and that costs nothing."""

from __future__ import annotations

from functools import partial

import numpy as np

import functad
import functad.numpy as jnp
from functad import lax
from functad.backends.cpu.lowering import CpuLowering
from functad.lowering.barriers import remove_barriers


def random(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_nothing_behind_a_barrier_runs_before_it():
    def f(x, barrier):
        y = jnp.sin(x)
        z = jnp.sort(y)
        x, z = barrier((x, z))
        return y, z, jnp.cos(x), jnp.tan(x)

    assert steps_of(partial(f, barrier=lax.optimization_barrier)) == ["sin", "sort", "cos"]
    assert steps_of(partial(f, barrier=lambda x: x)) == ["sin", "sort"]


def test_what_is_computed_where_it_is_used_waits_too():
    def f(x):
        x, z = lax.optimization_barrier((x, jnp.sort(x)))
        return lax.reduce_max(jnp.transpose(jnp.reshape(-x, (20, 5))), (0,)), z

    assert steps_of(f) == ["sort", "reduce"]


def test_a_barrier_in_a_chain_costs_no_loop():
    assert steps_of(lambda x: jnp.cos(lax.optimization_barrier(jnp.sin(x)))) == ["cos"]


def steps_of(f):
    """The names of the steps that a function of an array becomes, as far as their first word."""
    steps = CpuLowering(functad.make_jaxpr(f)(functad.ShapeDtypeStruct((100,), np.float32))).schedule.steps
    return [step.name.partition("_")[0] for step in steps]


def test_a_barrier_costs_nothing_and_changes_nothing():
    x, n = random(3), np.arange(3)

    def f(x, n):
        y, n, two = lax.optimization_barrier((jnp.sin(x), n, 2.0))
        return jnp.sum(y * two) + n, y, lax.optimization_barrier(n)

    for found, wanted in zip(functad.jit(f)(x, n), f(x, n)):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert lax.optimization_barrier(()) == () and lax.optimization_barrier({"a": None}) == {"a": None}
    program, phases = remove_barriers(functad.jit(f).lower(x, n).optimized)
    assert "optimization_barrier" not in [e.primitive.name for e in program.eqns]
    assert functad.check_program(program) is None and len(phases) == len(program.eqns)
    gradient = functad.grad(lambda x: jnp.sum(lax.optimization_barrier((x, x**2))[1]))
    np.testing.assert_allclose(functad.jit(gradient)(x), 2 * x, rtol=1e-6)
    np.testing.assert_allclose(gradient(x), 2 * x, rtol=1e-6)


def test_what_a_barrier_hands_through_and_nobody_uses_is_dead():
    program = functad.jit(lambda x, y: lax.optimization_barrier((x, jnp.sin(y)))[0] * 2.0).lower(1.0, 2.0).optimized
    assert [e.primitive.name for e in program.eqns] == ["optimization_barrier", "mul"]
    assert len(program.eqns[0].invars) == 1


def test_barriers_are_not_seen_through():
    def f(x):
        (y,) = lax.optimization_barrier((x,))
        return jnp.sin(x) + jnp.sin(y), -lax.optimization_barrier(-x)

    names = [e.primitive.name for e in functad.jit(f).lower(1.0).optimized.eqns]
    assert names.count("sin") == 2 and names.count("neg") == 2
