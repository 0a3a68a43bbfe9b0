"""`experimental.checkify` beside JAX's: the messages, the results, through control flow and transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
theirs = pytest.importorskip("jax.experimental.checkify", reason="this JAX has no checkify")

import functad  # noqa: E402
from functad.experimental import checkify as ours  # noqa: E402

F, I = np.float32, np.int32  # noqa: E741


def user(m: Any, c: Any) -> Any:
    def f(x):
        c.check(x > 0, "{x} is not positive", x=x)
        c.check(x < 10, "{} is large, {two}", x, two=m.numpy.float32(2))
        return m.numpy.log(x)

    return f


def looped(m: Any, c: Any) -> Any:
    def f(x):
        def step(carry, k):
            c.check(carry < 5, "step {}: {} is too much", k, carry)
            return carry * 2, carry

        return m.lax.scan(step, x, m.numpy.arange(4))

    return f


def while_looped(m: Any, c: Any) -> Any:
    def f(x):
        def holds(x):
            c.check(x != 16, "met 16")
            return x < 40

        def step(x):
            c.check(x != 12, "met {}", x)
            return 2 * x

        return m.lax.while_loop(holds, step, x)

    return f


def branched(m: Any, c: Any) -> Any:
    def f(x):
        def small(x):
            c.check(x > -5, "very small: {}", x)
            return -x

        def large(x):
            c.check(x < 50, "very large: {}", x)
            return x

        return m.lax.cond(x > 0, large, small, x)

    return f


def nested(m: Any, c: Any) -> Any:
    def f(x):
        inner = m.jit(lambda y: (c.check(y > 0, "inner {}", y), y * 2)[1])
        return m.checkpoint(lambda y: inner(y) + 1)(x) + m.lax.fori_loop(0, 3, lambda i, y: inner(y), x)

    return f


def differentiated(m: Any, c: Any) -> Any:
    def f(x):
        def loss(y):
            c.check(y > 0, "no gradient at {}", y)
            return y**3

        return m.value_and_grad(loss)(x)

    return f


def mapped_inside(m: Any, c: Any) -> Any:
    def f(x):
        def one(k):
            c.check(x + k != 3, "{} of {}", k, x)
            return x * k

        return m.vmap(m.vmap(one))(m.numpy.arange(4, dtype="float32").reshape(2, 2))

    return f


def passed_on(m: Any, c: Any) -> Any:
    def f(x):
        error, out = c.checkify(user(m, c))(x)
        c.check_error(error)
        return out

    return f


USER = {
    user: [F(1), F(-1), F(20)],
    looped: [F(0.1), F(1), F(5)],
    while_looped: [I(5), I(3), I(1), I(16)],
    branched: [F(1), F(60), F(-1), F(-6)],
    nested: [F(1), F(-2)],
    differentiated: [F(2), F(-2)],
    mapped_inside: [F(0), F(1), F(7)],
    passed_on: [F(1), F(-1)],
}

AUTOMATIC = {
    "division": (lambda m: lambda x: 1 / x, "div_checks", [F(1), F(0)]),
    "division of vectors": (
        lambda m: lambda x: x / (x - 1),
        "float_checks",
        [np.array([2, 1], F), np.array([2, 3], F)],
    ),
    "nan": (lambda m: lambda x: m.numpy.sin(m.numpy.log(x)), "nan_checks", [F(1), F(-1)]),
    "infinity minus itself": (lambda m: lambda x: x - x, "nan_checks", [F(1), F(np.inf)]),
    "index": (lambda m: lambda i: m.numpy.arange(3.0)[i], "index_checks", [I(1), I(3), I(7), I(-1), I(-5)]),
    "indices": (
        lambda m: lambda i: m.numpy.ones((3, 4))[i, 2 * i],
        "index_checks",
        [np.array([0, 1], I), np.array([0, 2], I), np.array([3, 1], I)],
    ),
    "written": (lambda m: lambda i: m.numpy.zeros(3).at[i].add(1.0), "index_checks", [I(1), I(3)]),
    "slices": (lambda m: lambda i: m.lax.dynamic_slice(m.numpy.arange(5.0), (i,), (3,)), "index_checks", [I(2), I(3)]),
    "slices written": (
        lambda m: lambda i: m.lax.dynamic_update_slice(m.numpy.zeros(5), m.numpy.ones(2), (i,)),
        "index_checks",
        [I(3), I(4)],
    ),
    "in loops": (
        lambda m: lambda x: m.lax.fori_loop(0, 4, lambda i, y: m.numpy.log(y), x),
        "float_checks",
        [F(100), F(1e30)],
    ),
    "all": (lambda m: lambda x: m.numpy.arange(3.0)[x] / x, "all_checks", [I(1), I(0), I(5)]),
}


def same(mine: Any, other: Any) -> None:
    (error, out), (their_error, their_out) = mine, other
    assert error.get() == their_error.get()
    for a, b in zip(functad.tree_util.tree_leaves(out), jax.tree_util.tree_leaves(their_out), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("make", USER, ids=lambda f: f.__name__)
@pytest.mark.parametrize("jit", [False, True])
def test_what_is_asked_for(make: Any, jit: bool) -> None:
    mine, other = ours.checkify(make(functad, ours)), theirs.checkify(make(jax, theirs))
    mine = functad.jit(mine) if jit else mine
    for x in USER[make]:
        same(mine(x), jax.jit(other)(x))


# JAX cannot map a loop whose condition has a check.
@pytest.mark.parametrize("make", [f for f in USER if f is not while_looped], ids=lambda f: f.__name__)
def test_mapped_functions_tell_of_each_example(make: Any) -> None:
    examples = np.stack(USER[make])
    mine = functad.jit(functad.vmap(ours.checkify(make(functad, ours))))(examples)
    same(mine, jax.vmap(theirs.checkify(make(jax, theirs)))(examples))


@pytest.mark.parametrize("name", AUTOMATIC)
@pytest.mark.parametrize("jit", [False, True])
def test_what_need_not_be_asked_for(name: str, jit: bool) -> None:
    make, errors, values = AUTOMATIC[name]
    mine = ours.checkify(make(functad), errors=getattr(ours, errors))
    mine = functad.jit(mine) if jit else mine
    other = theirs.checkify(make(jax), errors=getattr(theirs, errors))
    for x in values:
        same(mine(x), jax.jit(other)(x))
