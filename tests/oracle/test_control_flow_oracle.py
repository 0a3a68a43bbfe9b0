"""Loops and branches against JAX: values, types, every transform, printed form, and which mistakes raise what."""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import jax.numpy as jax_numpy  # noqa: E402
from control_flow_cases import (  # noqa: E402
    CASES,
    FORWARD_IN_JAX,
    ROWS,
    XS,
    Functad,
    Jax,
    N,
    X,
    batched,
    both,
    floats_of,
    loss,
    same,
    tangents_for,
)
from test_pretty_oracle import jax_text  # noqa: E402

import functad  # noqa: E402
import functad.numpy as functad_numpy  # noqa: E402

# --- values and derivatives -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    both(lambda m, fun, args: fun(m, *args), name, at_once=False)


@pytest.mark.parametrize("name", CASES)
def test_jit(name):
    both(lambda m, fun, args: jitted(m, partial(fun, m))(*args), name)


def jitted(m, fun):
    return m.api.jit(fun, backend="interpreter") if m is Functad else jax.jit(fun)


@pytest.mark.parametrize("name", CASES)
def test_jvp(name):
    both(
        lambda m, fun, args: m.api.jvp(partial(fun, m), tuple(args), tuple(tangents_for(args))),
        name,
        weak=False,
        kind="jvp",
    )


@pytest.mark.parametrize("name", CASES)
def test_linearize(name):
    def transform(m, fun, args):
        value, linear = m.api.linearize(partial(fun, m), *args)
        return value, linear(*tangents_for(args))

    both(transform, name, weak=False, kind="jvp")


def test_loops_between_floats():
    def f(m, x):
        loop = m.api.jit(lambda n: m.lax.fori_loop(0 * n, n, lambda i, c: m.jnp.sin(c) + i, x))
        return loop(m.jnp.float32(3)), loop(m.jnp.float32(2.5)), m.lax.fori_loop(0.0, 3.0, lambda i, c: c + i, x)

    same(f(Functad, X), f(Jax, X), weak=False)


def gradient(m, name):
    """Reverse mode, except where JAX has none."""
    fun = partial(loss, m, CASES[name][0])
    differentiate = m.api.jacfwd if m is Jax and name in FORWARD_IN_JAX else m.api.grad
    return differentiate(fun, argnums=floats_of(name))


@pytest.mark.parametrize("name", CASES)
def test_grad(name):
    both(lambda m, fun, args: gradient(m, name)(*args), name, weak=False, kind="grad")


@pytest.mark.parametrize("name", CASES)
def test_jit_of_grad(name):
    both(lambda m, fun, args: jitted(m, gradient(m, name))(*args), name, weak=False, kind="grad")


@pytest.mark.parametrize("name", CASES)
def test_grad_of_grad(name):
    def transform(m, fun, args):
        def norm(*args):
            return sum((g * g).sum() for g in gradient(m, name)(*args))

        differentiate = m.api.jacfwd if m is Jax and name in FORWARD_IN_JAX else m.api.grad
        return differentiate(norm, argnums=floats_of(name))(*args)

    both(transform, name, weak=False)


# One of each kind: JAX takes seconds to compile each.
HESSIANS = ["recurrent", "integer_carry", "scan_of_branches", "while_data", "fori_traced", "switched_closures"]


@pytest.mark.parametrize("name", HESSIANS)
def test_hessian(name):
    def transform(m, fun, args):
        if m is Jax and name in FORWARD_IN_JAX:
            return jax.jacfwd(gradient(m, name), argnums=floats_of(name))(*args)
        return m.api.hessian(partial(loss, m, fun), argnums=floats_of(name))(*args)

    both(transform, name, weak=False)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["jacfwd", "jacrev"])
def test_jacobians(name, mode):
    def transform(m, fun, args):
        chosen = "jacfwd" if m is Jax else mode
        return getattr(m.api, chosen)(lambda *a: only_floats(m, fun(m, *a)), argnums=floats_of(name))(*args)

    both(transform, name, weak=False, kind="Jacobian")


def only_floats(m, tree):
    return [leaf for leaf in map(m.jnp.asarray, m.tree.leaves(tree)) if leaf.dtype.kind == "f"]


# --- batching -------------------------------------------------------------------------------------------------------


def subsets(name):
    """Every argument alone, and all together along the last axis."""
    count = len(CASES[name][1])
    alone = [[0 if i == k else None for i in range(count)] for k in range(count)]
    return [*alone, [-1] * count]


BATCHED = [(name, axes) for name in CASES for axes in subsets(name)]
BATCHED_IDS = [f"{name}-{'_'.join(map(str, axes))}" for name, axes in BATCHED]


def batched_args(args, axes):
    return [a if axis is None else batched(a, axis=axis) for a, axis in zip(args, axes)]


@pytest.mark.parametrize("name, axes", BATCHED, ids=BATCHED_IDS)
def test_vmap(name, axes):
    def transform(m, fun, args):
        return m.api.vmap(partial(fun, m), in_axes=tuple(axes))(*batched_args(args, axes))

    both(transform, name, weak=False)


FIRST_OR_ALL = [i for i, (_, axes) in enumerate(BATCHED) if axes[0] is not None]


@pytest.mark.parametrize("name, axes", [BATCHED[i] for i in FIRST_OR_ALL], ids=[BATCHED_IDS[i] for i in FIRST_OR_ALL])
def test_vmap_of_grad(name, axes):
    def transform(m, fun, args):
        return m.api.vmap(gradient(m, name), in_axes=tuple(axes))(*batched_args(args, axes))

    both(transform, name, weak=False)


@pytest.mark.parametrize("name", CASES)
def test_grad_of_vmap(name):
    def transform(m, fun, args):
        axes = [-1] * len(args)

        def total(*args):
            return m.api.vmap(partial(loss, m, fun), in_axes=tuple(axes))(*args).sum()

        differentiate = m.api.jacfwd if m is Jax and name in FORWARD_IN_JAX else m.api.grad
        return differentiate(total, argnums=floats_of(name))(*batched_args(args, axes))

    both(transform, name, weak=False)


@pytest.mark.parametrize("name", CASES)
def test_vmap_of_jit_of_vmap(name):
    def transform(m, fun, args):
        inner = jitted(m, m.api.vmap(partial(fun, m)))
        return m.api.vmap(inner, out_axes=1)(*[batched(batched(a, 2), 2) for a in args])

    both(transform, name, weak=False)


# --- printing -------------------------------------------------------------------------------------------------------

# `associative_scan` puts halves together in another way, `map` cuts batches off in another order, and JAX has functions
# for indexing that are jitted. Constants in the functions above have few bits: JAX prints 0.1 in a body with all.
# The counter of `fori_loop` is like a Python integer, whether its bounds are known or traced; JAX's if they are known.
OTHER_TEXT = {"prefixes", "prefixes_reversed", "mapped_batches", "fori_indexing", "looked_up"}
OTHER_TEXT |= {"fori_traced", "fori_traced_start"}


@pytest.mark.parametrize("name", sorted(set(CASES) - OTHER_TEXT))
def test_prints_as_jax(name):
    fun, args = CASES[name]
    assert str(functad.make_jaxpr(partial(fun, Functad))(*args)) == jax_text(partial(fun, Jax), *args)


@pytest.mark.parametrize("name", CASES)
def test_programs_are_well_formed(name):
    fun, args = CASES[name]
    functad.check_program(functad.make_jaxpr(partial(fun, Functad))(*args))
    functad.check_program(functad.make_jaxpr(gradient(Functad, name))(*args))
    functad.check_program(functad.make_jaxpr(functad.vmap(partial(fun, Functad)))(*map(batched, args)))


# --- without jit ----------------------------------------------------------------------------------------------------


# Without steps nothing tells the types of results, and JAX leaves Python numbers in the carry as they are.
@pytest.mark.parametrize("name", sorted(set(CASES) - {"no_steps", "integer_carry"}))
def test_disable_jit(name):
    def transform(m, fun, args):
        with m.api.disable_jit():
            return fun(m, *args), gradient(m, name)(*args)

    both(transform, name, weak=False, at_once=False)


# --- the functions that go with loops ---------------------------------------------------------------------------------

NAMES = """select cumsum cumprod cummax cummin cumlogsumexp dynamic_slice dynamic_slice_in_dim dynamic_index_in_dim
dynamic_update_slice dynamic_update_slice_in_dim dynamic_update_index_in_dim scan while_loop fori_loop map cond switch
associative_scan""".split()


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_those_of_jax(name):
    ours, theirs = (list(inspect.signature(getattr(m.lax, name)).parameters.values()) for m in (Functad, Jax))
    assert [p.name for p in ours[: len(theirs)]] == [p.name for p in theirs]
    for a, b in zip(ours, theirs):
        assert a.kind == b.kind
        assert a.default == b.default or {type(a.default), type(b.default)} == {object}
    for own in ours[len(theirs) :]:  # what functad has besides
        assert own.kind == own.KEYWORD_ONLY and own.default is not own.empty


HELPERS = {
    "slice": lambda m, x, i: m.lax.dynamic_slice(x, (i, i - 1), (2, 1)),
    "slice_array": lambda m, x, i: m.lax.dynamic_slice(x, m.jnp.asarray([1, 2]), (2, 1), allow_negative_indices=False),
    "slice_in_dim": lambda m, x, i: m.lax.dynamic_slice_in_dim(x, i, 2, axis=-1),
    "slice_beyond": lambda m, x, i: m.lax.dynamic_slice_in_dim(x, i + 9, 2),
    "slice_negative": lambda m, x, i: m.lax.dynamic_slice_in_dim(x, i - 3, 2),
    "slice_no_negative": lambda m, x, i: m.lax.dynamic_slice_in_dim(x, i - 3, 2, allow_negative_indices=False),
    "index_in_dim": lambda m, x, i: m.lax.dynamic_index_in_dim(x, i, 1),
    "index_dropped": lambda m, x, i: m.lax.dynamic_index_in_dim(x, i - 2, -1, keepdims=False),
    "update_slice": lambda m, x, i: m.lax.dynamic_update_slice(x, x[:2, 1:] * 2, (i, i)),
    "update_in_dim": lambda m, x, i: m.lax.dynamic_update_slice_in_dim(x, x[:2] * 2, i + 5, 0),
    "update_index": lambda m, x, i: m.lax.dynamic_update_index_in_dim(x, x[0] * 2, i, 0),
    "update_index_kept": lambda m, x, i: m.lax.dynamic_update_index_in_dim(x, x[:, :1] * 2, i, axis=-1),
    "select": lambda m, x, i: m.lax.select(x > 0, x, m.jnp.sin(x)),
    "select_scalar": lambda m, x, i: m.lax.select(i > 0, x, m.jnp.sin(x)),
    "cumsum": lambda m, x, i: m.lax.cumsum(x, axis=1, reverse=True),
    "cumprod": lambda m, x, i: m.lax.cumprod(x, 0, True),
    "cummax": lambda m, x, i: m.lax.cummax(x, axis=1),
    "cummin": lambda m, x, i: m.lax.cummin(x, axis=0, reverse=True),
    "cumlogsumexp": lambda m, x, i: m.lax.cumlogsumexp(x, axis=1),
}


@pytest.mark.parametrize("name", HELPERS)
def test_helpers(name):
    def transform(m):
        fun, table = partial(HELPERS[name], m), m.jnp.asarray(ROWS)
        one, two = m.jnp.asarray(np.int32([1, 2]))
        values = fun(table, one)
        mapped = m.api.vmap(fun, in_axes=(None, 0))(table, np.array([0, 2], np.int32))
        both = m.api.vmap(fun, in_axes=(1, None), out_axes=1)(m.jnp.stack([table, -table], 1), one)
        return values, mapped, both, m.api.grad(lambda x: m.jnp.sin(fun(x, two)).sum())(table)

    same(transform(Functad), jax.jit(lambda: transform(Jax))())


# --- mistakes -------------------------------------------------------------------------------------------------------

MISTAKES = {
    "carry_dtype": (lambda m: m.lax.scan(lambda c, x: (c.astype("int32"), x), m.jnp.float32(0), X), "astype"),
    "carry_shape": (lambda m: m.lax.scan(lambda c, x: ((c[0], c[1][None]), x), (X, X), X), r"`\[1\]`.*f32\[1,3\]"),
    "carry_tree": (lambda m: m.lax.scan(lambda c, x: ((c[0],), x), (X, X), X), r"`\[1\]`"),
    "carry_container": (lambda m: m.lax.scan(lambda c, x: (list(c), x), (X, X), X), "containers"),
    "no_pair": (lambda m: m.lax.scan(lambda c, x: c, 1.0, X), "must return a pair"),
    "triple": (lambda m: m.lax.scan(lambda c, x: (c, x, x), 1.0, X), "must return a pair"),
    "scalar_xs": (lambda m: m.lax.scan(lambda c, x: (c, x), 1.0, 1.0), "leading axis"),
    "lengths": (lambda m: m.lax.scan(lambda c, x: (c, x), 1.0, (X, XS)), r"xs\[0\] has 3, xs\[1\] has 4"),
    "length": (lambda m: m.lax.scan(lambda c, x: (c, x), 1.0, X, length=4), "length=4"),
    "no_length": (lambda m: m.lax.scan(lambda c, x: (c, x), 1.0), "length"),
    "unroll": (lambda m: m.lax.scan(lambda c, x: (c, x), 1.0, X, unroll=-1), "unroll"),
    "while_dtype": (
        lambda m: m.lax.while_loop(lambda c: c["a"] < 3, lambda c: {"a": c["a"] * 1.5}, {"a": np.int32(1)}),
        r"`\['a'\]`.*f32\[\].*i32\[\]",
    ),
    "while_tree": (lambda m: m.lax.while_loop(lambda c: c[0] < 3, lambda c: c[0], (1,)), "structure"),
    "while_cond_dtype": (lambda m: m.lax.while_loop(lambda c: c, lambda c: c - 1, 3), "scalar bool"),
    "while_cond_shape": (lambda m: m.lax.while_loop(lambda c: c > 0, lambda c: c - 1, X), r"bool\[3\].*all"),
    "while_cond_tree": (lambda m: m.lax.while_loop(lambda c: (c > 0,), lambda c: c - 1, 3.0), "scalar bool"),
    "fori_bound": (lambda m: m.lax.fori_loop(0, 3.5, lambda i, c: c, 0.0), "upper"),
    "fori_carry": (lambda m: m.lax.fori_loop(0, 3, lambda i, c: c[:1], X), "must have the same types"),
    "branch_dtype": (
        lambda m: m.lax.cond(True, lambda x: {"a": x}, lambda x: {"a": x > 0}, X),
        r"`\['a'\]`.*bool\[3\].*f32\[3\].*astype",
    ),
    "branch_shape": (lambda m: m.lax.cond(True, lambda x: x, lambda x: x[:1], X), r"f32\[1\].*f32\[3\].*broadcast"),
    "branch_tree": (lambda m: m.lax.cond(True, lambda x: (x, x), lambda x: (x,), X), r"`\[1\]`"),
    "branch_none": (lambda m: m.lax.cond(True, lambda x: None, lambda x: x, X), "None holds no leaf"),
    "pred_shape": (lambda m: m.lax.cond(X > 0, lambda: 1.0, lambda: 2.0), r"bool\[3\].*where"),
    "pred_list": (lambda m: m.lax.cond([True], lambda: 1.0, lambda: 2.0), "scalar"),
    "pred_none": (lambda m: m.lax.cond(None, lambda: 1.0, lambda: 2.0), "scalar"),
    "pred_complex": (lambda m: m.lax.cond(1j, lambda: 1.0, lambda: 2.0), "complex"),
    "both_operands": (lambda m: m.lax.cond(True, lambda x: x, lambda x: x, 1.0, operand=2.0), "not both"),
    "index_float": (lambda m: m.lax.switch(1.0, [lambda: 1.0, lambda: 2.0]), "integer"),
    "index_bool": (lambda m: m.lax.switch(True, [lambda: 1.0, lambda: 2.0]), "integer"),
    "index_shape": (lambda m: m.lax.switch(N[None], [lambda: 1.0, lambda: 2.0]), "scalar"),
    "no_branches": (lambda m: m.lax.switch(1, []), "at least one branch"),
    "branches_dtype": (
        lambda m: m.lax.switch(1, [lambda: N, lambda: np.float32(1)]),
        r"branches\[1\] has type f32\[\], that of branches\[0\] i32\[\]",
    ),
    "no_function": (lambda m: m.lax.scan(3, 1.0, X), "function"),
    "no_body": (lambda m: m.lax.while_loop(lambda c: True, 3, 1.0), "function"),
    "no_branch": (lambda m: m.lax.switch(0, [3]), "function"),
    "prefix_types": (lambda m: m.lax.associative_scan(lambda a, b: (a, b), m.jnp.asarray(ROWS)), "same structure"),
    "prefix_sizes": (lambda m: m.lax.associative_scan(lambda a, b: a, (X, XS)), "equally many"),
}


# Where JAX has a TypeError, functad says that an argument has a value that it does not take: a ValueError.
ARGUMENTS = {"pred_shape", "pred_list", "pred_none", "pred_complex", "both_operands", "index_float", "index_bool"}
ARGUMENTS |= {"index_shape", "fori_bound", "no_function", "no_body", "no_branch"}
# And where JAX has a ValueError because of a shape, or any other error from within.
OTHERS = {"scalar_xs", "prefix_types", "prefix_sizes"}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_raise_as_in_jax(name):
    mistake, text = MISTAKES[name]
    with pytest.raises((TypeError, ValueError)) as theirs:
        mistake(Jax)
    with pytest.raises(functad.errors.FunctadError, match=f"(?s){text}") as ours:
        mistake(Functad)
    if name not in OTHERS:
        expected = ValueError if name in ARGUMENTS else TypeError if theirs.errisinstance(TypeError) else ValueError
        assert issubclass(ours.type, expected), ours.type


def test_the_comparisons_can_fail():
    with pytest.raises(AssertionError):
        same(functad_numpy.ones(3), jax_numpy.ones(3) * 2)
    with pytest.raises(AssertionError):
        same(functad_numpy.asarray(1.0), jax_numpy.float32(1.0))
