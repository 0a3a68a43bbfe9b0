"""Rematerialisation against JAX: values, what is kept under each policy, and the printed equations."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
pytest.importorskip("jax.ad_checkpoint")  # jax does not load it by itself

import jax.numpy as jax_numpy  # noqa: E402
from jax._src.ad_checkpoint import saved_residuals as jax_saved_residuals  # noqa: E402
from test_pretty_oracle import jax_text  # noqa: E402

import functad  # noqa: E402
import functad.ad_checkpoint  # noqa: E402
import functad.numpy as functad_numpy  # noqa: E402
from functad.dtypes import short_name  # noqa: E402


@pytest.fixture(autouse=True)
def interpreted():
    """Jitted functions are interpreted: these tests run where there is no compiler."""
    before = functad.config.default_backend
    functad.config.update("default_backend", "interpreter")
    yield
    functad.config.update("default_backend", before)


def array(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


W, B, X = array(3, 3), array(3, seed=1), array(3, seed=2)
STACK = array(2, 3, 3, seed=3)

# Each takes the package (jax or functad), its numpy, and arrays.


def sines(ad, np_, x):
    return np_.sum(np_.sin(np_.sin(np_.sin(x))))


def layers(ad, np_, params, x):
    for w, b in params:
        x = np_.sin(w @ x + b)
    return np_.sum(x)


def named(ad, np_, w, x):
    hidden = ad.ad_checkpoint.checkpoint_name(np_.sin(w @ x), "hidden")
    out = ad.ad_checkpoint.checkpoint_name(np_.exp(w @ hidden), "out")
    return np_.sum(np_.sin(out * 2.0))


def batched(ad, np_, stack, x):
    return np_.sum(np_.cos(np_.einsum("bij,bjk->bik", stack, np_.sin(stack)) @ x))


def unused(ad, np_, x, y, z):
    return np_.sum(np_.sin(x) * 2.0 + y)


def jitted(ad, np_, w, x):
    inner = ad.jit(lambda x: np_.sin(w @ x))
    return np_.sum(np_.cos(inner(inner(x))))


FUNCTIONS = {
    "sines": (sines, (X,)),
    "layers": (layers, ([(W, B), (W.T.copy(), B)], X)),
    "named": (named, (W, X)),
    "batched": (batched, (STACK, X)),
    "unused": (unused, (X, B, X)),
    "jitted": (jitted, (W, X)),
}
POLICIES = {
    "None": lambda policies: None,
    "nothing_saveable": lambda policies: policies.nothing_saveable,
    "everything_saveable": lambda policies: policies.everything_saveable,
    "dots_saveable": lambda policies: policies.dots_saveable,
    "checkpoint_dots": lambda policies: policies.checkpoint_dots,
    "dots_with_no_batch_dims_saveable": lambda policies: policies.dots_with_no_batch_dims_saveable,
    "save_only_these_names": lambda policies: policies.save_only_these_names("hidden"),
    "save_any_names_but_these": lambda policies: policies.save_any_names_but_these("hidden"),
    "save_from_both_policies": lambda policies: policies.save_from_both_policies(
        policies.dots_saveable, policies.save_only_these_names("out")
    ),
}
CASES = [pytest.param(f, p, id=f"{f}-{p}") for f in FUNCTIONS for p in POLICIES]


def both(function, policy):
    """The checkpointed function in JAX and in functad."""
    fun, args = FUNCTIONS[function]
    made = [
        ad.checkpoint(partial(fun, ad, np_), policy=POLICIES[policy](ad.checkpoint_policies))
        for ad, np_ in ((jax, jax_numpy), (functad, functad_numpy))
    ]
    return *made, args


@pytest.mark.parametrize("function, policy", CASES)
def test_values_and_derivatives(function, policy):
    in_jax, here, args = both(function, policy)
    numbers = tuple(range(len(args)))
    wanted = jax.tree_util.tree_leaves(jax.value_and_grad(in_jax, numbers)(*args))
    found = functad.tree_util.tree_leaves(functad.value_and_grad(here, numbers)(*args))
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted):
        assert f.shape == w.shape and f.dtype == w.dtype
        np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)
    last = len(args) - 1
    second = [ad.hessian(lambda x, f=f: f(*args[:-1], x))(args[last]) for ad, f in ((functad, here), (jax, in_jax))]
    np.testing.assert_allclose(*second, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("function, policy", CASES)
def test_the_same_values_are_kept(function, policy):
    in_jax, here, args = both(function, policy)
    wanted = sorted((_short(aval), _kind(origin)) for aval, origin in jax_saved_residuals(in_jax, *args))
    found = sorted((r.aval.str_short(), _kind(r.origin)) for r in functad.ad_checkpoint.saved_residuals(here, *args))
    assert found == wanted


def _inner(ad, np_, policy):
    named = ad.ad_checkpoint.checkpoint_name
    return ad.checkpoint(lambda w, x: np_.sin(named(np_.cos(w @ x), "hidden")), policy=policy)


def _twice(ad, np_, policy):
    inner = _inner(ad, np_, policy)
    return lambda w, x: np_.sum(np_.exp(inner(w, inner(w, x) * 2.0)))


def _in_three_levels(ad, np_, policy):
    inner = _inner(ad, np_, None)
    named = ad.ad_checkpoint.checkpoint_name
    middle = ad.checkpoint(lambda w, x: np_.exp(named(inner(w, x), "out")) * inner(w, x * 3.0), policy=policy)
    return lambda w, x: np_.sum(middle(w, np_.cos(middle(w, x))))


def _within_jit(ad, np_, policy):
    inner = ad.jit(_inner(ad, np_, policy))
    return lambda w, x: np_.sum(np_.exp(inner(w, inner(w, x))))


def _partly_differentiated(ad, np_, policy):
    inner = ad.checkpoint(lambda w, x: (_inner(ad, np_, None)(w, x), np_.sum(x * x)), policy=policy)

    def f(w, x):
        a, b = inner(w, x)
        c, d = inner(ad.lax.stop_gradient(w), a * b)
        return np_.sum(c * np_.sin(d) * a)

    return f


NESTED = {f.__name__[1:]: f for f in (_twice, _in_three_levels, _within_jit, _partly_differentiated)}


@pytest.mark.parametrize("inner", ["None", "everything_saveable", "dots_saveable"])
@pytest.mark.parametrize("outer", POLICIES)
@pytest.mark.parametrize("nesting", NESTED)
def test_the_same_values_are_kept_of_nested_checkpoints(nesting, outer, inner):
    in_jax, here = (
        ad.checkpoint(
            NESTED[nesting](ad, np_, POLICIES[inner](ad.checkpoint_policies)),
            policy=POLICIES[outer](ad.checkpoint_policies),
        )
        for ad, np_ in ((jax, jax_numpy), (functad, functad_numpy))
    )
    wanted = sorted((_short(aval), _kind(origin)) for aval, origin in jax_saved_residuals(in_jax, W, X))
    found = sorted((r.aval.str_short(), _kind(r.origin)) for r in functad.ad_checkpoint.saved_residuals(here, W, X))
    assert found == wanted
    for f, w in zip(functad.grad(here, (0, 1))(W, X), jax.grad(in_jax, (0, 1))(W, X)):
        np.testing.assert_allclose(f, w, rtol=1e-4, atol=1e-5)


def _short(aval):
    return f"{short_name(np.dtype(aval.dtype))}[{','.join(map(str, aval.shape))}]"


def _kind(origin):
    """Where a residual comes from, without the source line; arguments with their names."""
    return origin if origin.startswith("from the argument") else "computed"


def test_residuals_of_functions_without_checkpoint():
    def f(ad, np_, params, x):
        g = ad.checkpoint(lambda w, x: np_.sin(np_.sin(w @ x)))
        return np_.sum(np_.exp(g(params["w"], x)))

    wanted = jax_saved_residuals(partial(f, jax, jax_numpy), {"w": W}, x=X)
    found = functad.ad_checkpoint.saved_residuals(partial(f, functad, functad_numpy), {"w": W}, x=X)
    assert [(r.aval.str_short(), _kind(r.origin)) for r in found] == [(_short(a), _kind(o)) for a, o in wanted]


def _nested(ad, np_, x):
    one = ad.checkpoint(lambda x: np_.sin(np_.sin(x)))
    other = ad.checkpoint(lambda x: np_.cos(np_.sin(x)))
    return ad.checkpoint(lambda x: one(other(x)))(x)


def _layer(ad, np_, w, x):
    return np_.sum(ad.checkpoint(lambda w, x: np_.sin(w @ x))(w, x))


PRINTED = {
    "sines": lambda ad, np_: (ad.checkpoint(lambda x: np_.sin(np_.sin(x))), (2.0,)),
    "gradient": lambda ad, np_: (ad.grad(ad.checkpoint(lambda x: np_.sin(np_.sin(x)))), (2.0,)),
    "options": lambda ad, np_: (ad.grad(ad.checkpoint(np_.sin, prevent_cse=False)), (2.0,)),
    "layer": lambda ad, np_: (partial(_layer, ad, np_), (W, X)),
    "gradient of a layer": lambda ad, np_: (ad.grad(partial(_layer, ad, np_)), (W, X)),
    "nested": lambda ad, np_: (ad.grad(partial(_nested, ad, np_)), (2.0,)),
    "linearized": lambda ad, np_: (ad.linearize(ad.checkpoint(lambda x: np_.sin(np_.sin(x))), 2.0)[1], (1.0,)),
    "name": lambda ad, np_: (lambda x: ad.ad_checkpoint.checkpoint_name(np_.sin(x), "x"), (2.0,)),
    "barrier": lambda ad, np_: (lambda x: ad.lax.optimization_barrier((x, np_.sin(x))), (2.0,)),
}


@pytest.mark.parametrize("name", PRINTED)
def test_jaxprs_are_the_same(name):
    in_jax, args = PRINTED[name](jax, jax_numpy)
    here = PRINTED[name](functad, functad_numpy)[0]
    assert str(functad.make_jaxpr(here)(*args)) == jax_text(in_jax, *args)


def test_public_names():
    assert set(functad.checkpoint_policies.__all__) == set(vars(jax.checkpoint_policies))
