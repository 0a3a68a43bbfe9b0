"""Named axes: what is kept of a function that asks for one, and the rules of the user's that do so."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import UnboundAxisError

SIZES = {
    "axis_size": lambda x: x / lax.axis_size("i"),
    "psum": lambda x: x / lax.psum(1, "i"),
}
KEEPERS = {
    "jit": functad.jit,
    "checkpoint": functad.checkpoint,
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(x), None), x, None, length=2)[0],
    "scan of a known body": lambda f: _scanned(lambda c, _: (f(c), None)),
    "cond": lambda f: lambda x: lax.cond(x > -1, f, lambda x: x, x),
    "while": lambda f: _repeated(lambda c: (c[0] + 1, f(c[1]))),
    "jit of checkpoint": lambda f: functad.jit(functad.checkpoint(f)),
}


def _scanned(step):
    return lambda x: lax.scan(step, x, None, length=1)[0]


def _repeated(step):
    return lambda x: lax.while_loop(lambda c: c[0] < 1, step, (0, x))[1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_kept_function_knows_the_size_of_each_axis_it_is_mapped_over(keeper, size):
    kept = KEEPERS[keeper](SIZES[size])
    for n in (2, 4, 2):
        found = functad.vmap(kept, axis_name="i")(jnp.ones(n))
        np.testing.assert_allclose(found, np.full(n, 1 / n))
    with pytest.raises(UnboundAxisError, match="unbound axis name: 'i'"):
        kept(jnp.float32(1))


def test_a_function_that_asked_in_vain_asks_again():
    @functad.jit
    def share(x):
        try:
            return x / lax.axis_size("i")
        except UnboundAxisError:
            return x

    np.testing.assert_array_equal(share(jnp.ones(2)), [1, 1])
    np.testing.assert_array_equal(functad.vmap(share, axis_name="i")(jnp.ones(2)), [0.5, 0.5])
    np.testing.assert_array_equal(share(jnp.ones(2)), [1, 1])


def test_what_names_its_own_axis_is_kept():
    traced = []

    @functad.jit
    def normalized(x):
        traced.append(x)
        return functad.vmap(lambda x: x / lax.axis_size("i"), axis_name="i")(x)

    normalized(jnp.ones(2)), normalized(jnp.ones(2))
    assert len(traced) == 1


def test_what_is_traced_within_named_axes_is_kept_for_these():
    traced = []

    @functad.jit
    def f(x):
        traced.append(x)
        return x / lax.axis_size("i")

    for n in (2, 3, 2, 3):
        np.testing.assert_allclose(functad.vmap(f, axis_name="i")(jnp.ones(n)), np.full(n, 1 / n), rtol=1e-6)
    assert len(traced) == 2


@pytest.mark.parametrize("keeper", KEEPERS)
def test_what_asks_for_an_axis_in_vain_is_kept(keeper):
    asked = []

    def share(x):
        asked.append(x)
        try:
            return lax.pmean(x, "i") * 2
        except UnboundAxisError:
            return x

    kept = KEEPERS[keeper](share)
    kept(jnp.float32(1))
    count = len(asked)
    kept(jnp.float32(1))
    if keeper not in ("scan", "cond", "while"):  # of a function that is new at each call
        assert len(asked) == count
    np.testing.assert_array_equal(functad.vmap(kept, axis_name="i")(jnp.array([1.0, 3.0])) > 3, [True, True])
    np.testing.assert_array_equal(kept(jnp.float32(1)), 1)


# --- rules of the user's ------------------------------------------------------------------------------


def _by_jvp():
    f = functad.custom_jvp(lambda x: x)
    f.defjvp(lambda primals, tangents: (primals[0], lax.pmean(tangents[0], "i")))
    return f


def _by_fwd():
    f = functad.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, jnp.float32(1 / lax.axis_size("i"))), lambda share, ct: (share * lax.psum(ct, "i"),))
    return f


def _by_bwd():
    f = functad.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (lax.pmean(ct, "i"),))
    return f


RULES = {"jvp": _by_jvp, "fwd": _by_fwd, "bwd": _by_bwd}  # the derivative is the mean over the axis
WITHIN = {
    "nothing": lambda f: f,
    "jit": functad.jit,
    "checkpoint": functad.checkpoint,
    "scan": lambda f: _scanned(lambda c, _: (f(c), None)),
    "cond": lambda f: lambda x: lax.cond(x > 0, f, lambda x: x, x),
    "the same branch for all": lambda f: lambda x: lax.cond(jnp.zeros(()) == 0, f, lambda x: x, x),
    "vmap": lambda f: lambda x: functad.vmap(f)(x[None])[0],
    "vmap by another name": lambda f: lambda x: functad.vmap(f, axis_name="j")(x[None])[0],
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("within", WITHIN)
def test_rules_see_the_axis_that_is_mapped_within_the_derivative_and_around_it(rule, within):
    f = WITHIN[within](RULES[rule]())

    def weighted(w):
        return lambda x: (w * functad.vmap(f, axis_name="i")(x)).sum()

    for n in (2, 4, 2):
        w = jnp.arange(float(n))
        for wrap in (lambda f: f, functad.jit):
            within_grad = wrap(functad.grad(weighted(w)))(jnp.ones(n))
            around_grad = wrap(functad.vmap(functad.grad(lambda x, w: w * f(x)), axis_name="i"))(jnp.ones(n), w)
            np.testing.assert_allclose(within_grad, np.full(n, (n - 1) / 2))
            np.testing.assert_allclose(around_grad, np.full(n, (n - 1) / 2))
    with pytest.raises(UnboundAxisError):
        functad.grad(f)(1.0)


@pytest.mark.parametrize("rule", RULES)
def test_what_is_mapped_without_a_name_and_then_with_one_is_mapped_twice(rule):
    f = functad.jit(RULES[rule]())
    with pytest.raises(UnboundAxisError):
        functad.grad(lambda x: functad.vmap(f)(x).sum())(jnp.ones(3))
    found = functad.grad(lambda x: functad.vmap(f, axis_name="i")(x)[0])(jnp.ones(3))
    np.testing.assert_allclose(found, np.full(3, 1 / 3), rtol=1e-6)


MAPPERS = {  # of functions that stay the same from call to call
    "jit": functad.jit,
    "scan": lambda f: _scanned(lambda c, _: (f(c), None)),
    "cond": lambda f: lambda x: lax.cond(x[0] > 0, f, f, x),
    "while": lambda f: _repeated(lambda c: (c[0] + 1, f(c[1]))),
}


@pytest.mark.parametrize("mapper", MAPPERS)
def test_what_rules_ask_of_an_axis_that_is_named_within_is_kept(mapper):
    ruled = []
    f = functad.custom_jvp(lambda x: x)

    @f.defjvp
    def rule(primals, tangents):
        ruled.append(primals)
        return primals[0], lax.pmean(tangents[0], "i")

    mapped = MAPPERS[mapper](lambda x: functad.vmap(f, axis_name="i")(x))
    for n in (3, 2, 3):
        _, found = functad.jvp(mapped, (jnp.ones(n),), (jnp.ones(n),))
        np.testing.assert_allclose(found, np.ones(n), rtol=1e-6)
    count = len(ruled)
    functad.jvp(mapped, (jnp.ones(3),), (jnp.ones(3),))
    assert len(ruled) == count > 0


def test_a_rule_sees_both_of_two_axes():
    f = functad.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (lax.psum(ct, ("i", "j")),))
    both = functad.vmap(functad.vmap(f, axis_name="j"), axis_name="i")
    found = functad.grad(lambda x: (x.shape[0] * both(x)).sum())(jnp.ones((2, 3)))
    np.testing.assert_array_equal(found, np.full((2, 3), 12))
