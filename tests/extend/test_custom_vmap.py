"""`custom_vmap` and `sequential_vmap`: the rule decides where the function is mapped, and nowhere else."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.custom_batching import custom_vmap, sequential_vmap
from functad.errors import BatchingError, LeakedTracerError

X, Y = np.arange(3.0, dtype=np.float32), np.float32(2)


def made():
    """x + y, which becomes x · y where it is mapped, so that the rule shows."""

    @custom_vmap
    def f(x, y):
        return {"out": x + y}

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        assert axis_size == 3 and in_batched == [True, False]
        return {"out": x * y}, {"out": True}

    return f


@pytest.mark.parametrize("wrap", [lambda f: f, functad.jit, lambda f: functad.jit(functad.jit(f))])
def test_the_rule_serves_vmap_alone(wrap):
    f = made()
    np.testing.assert_array_equal(np.asarray(wrap(f)(X, Y)["out"]), X + Y)
    np.testing.assert_array_equal(np.asarray(wrap(functad.vmap(f, (0, None)))(X, Y)["out"]), X * Y)
    np.testing.assert_array_equal(np.asarray(functad.vmap(wrap(f), (0, None))(X, Y)["out"]), X * Y)


def test_derivatives_are_those_of_the_function():
    f = made()
    out, tangent = functad.jvp(lambda x: f(x, Y)["out"], (X,), (X,))
    np.testing.assert_array_equal([np.asarray(out), np.asarray(tangent)], [X + Y, X])
    for wrap in (lambda f: f, functad.jit):
        grads = wrap(functad.grad(lambda x, y: (f(x, y)["out"] ** 2).sum(), (0, 1)))(X, Y)
        np.testing.assert_allclose(np.asarray(grads[0]), 2 * (X + Y))
        np.testing.assert_allclose(np.asarray(grads[1]), (2 * (X + Y)).sum())


def test_a_result_that_is_not_mapped():
    f = custom_vmap(lambda x: (x, jnp.float32(1)))
    f.def_vmap(lambda size, batched, x: ((x, jnp.float32(7)), (True, False)))
    found = functad.vmap(f, out_axes=(0, None))(X)
    np.testing.assert_array_equal(np.asarray(found[0]), X)
    assert found[1].shape == () and float(found[1]) == 7


@pytest.mark.parametrize("wrap", [lambda f: f, functad.jit])
def test_what_it_closes_over_is_traced_with_it(wrap):
    def loss(w, x, mapped):
        f = custom_vmap(lambda x: x * w)
        f.def_vmap(lambda size, batched, x: (x * (w + 1), True))
        return (functad.vmap(f) if mapped else f)(x).sum()

    for mapped, factor in ((False, 2), (True, 3)):
        of = partial(loss, mapped=mapped)
        assert wrap(of)(2.0, X) == factor * X.sum()
        by_w, by_x = wrap(functad.grad(of, (0, 1)))(2.0, X)
        np.testing.assert_array_equal(np.asarray(by_w), X.sum())
        np.testing.assert_array_equal(np.asarray(by_x), np.full(3, factor))
    out, tangent = wrap(lambda w: functad.jvp(lambda w: loss(w, X, False), (w,), (w,)))(2.0)
    assert out == tangent == 2 * X.sum()
    outs = wrap(lambda xs: lax.scan(lambda c, x: (c + loss(c, x, False), x), 1.0, xs)[0])(jnp.ones((2, 3)))
    assert outs == 16


def test_a_rule_cannot_use_a_mapped_value_that_the_function_closes_over():
    def f(w, x, factor):
        g = custom_vmap(lambda x: x * w)
        g.def_vmap(lambda size, batched, x: (x * factor(w) + size, batched[0]))
        return g(x)

    with pytest.raises(LeakedTracerError, match="argument `w` of vmap"):
        functad.vmap(lambda w, x: f(w, x, lambda w: w))(X, X)
    for wrap in (lambda f: f, functad.jit):
        np.testing.assert_array_equal(wrap(functad.vmap(lambda w, x: f(w, x, lambda w: 2)))(X, X), 2 * X + 3)
        np.testing.assert_array_equal(wrap(functad.vmap(lambda w: f(w, Y, lambda w: 2)))(X), [7, 7, 7])


def test_the_function_asks_for_a_named_axis_and_the_rule_does_not():
    f = custom_vmap(lambda x: x - lax.pmean(x, "i"))
    f.def_vmap(lambda size, batched, x: (x - x.mean(0), True))
    for wrap in (lambda f: f, functad.jit):
        np.testing.assert_array_equal(wrap(functad.vmap(f, axis_name="i"))(X), X - 1)


def test_one_example_after_another():
    shapes = []

    @sequential_vmap
    def f(x, y):
        shapes.append((x.shape, y.shape))
        return x @ y

    a, b = np.arange(12.0).reshape(3, 2, 2), np.eye(2)
    np.testing.assert_array_equal(np.asarray(functad.vmap(f, (0, None))(a, b)), a)
    np.testing.assert_array_equal(np.asarray(functad.jit(functad.vmap(f, (1, None)))(a, b)), a.swapaxes(0, 1))
    assert set(shapes) <= {((2, 2), (2, 2)), ((3, 2), (2, 2))}


def test_mistakes_say_what_is_wrong():
    with pytest.raises(BatchingError, match=r"without a rule: @g.def_vmap registers it"):

        @custom_vmap
        def g(x):
            return x

        g(X)
    f = custom_vmap(lambda x: x)
    f.def_vmap(lambda size, batched, x: x)
    with pytest.raises(BatchingError, match="must return a pair"):
        functad.vmap(f)(X)
    f.def_vmap(lambda size, batched, x: ((x, x), True))
    with pytest.raises(BatchingError, match=r"but <lambda> returns"):
        functad.vmap(f)(X)
