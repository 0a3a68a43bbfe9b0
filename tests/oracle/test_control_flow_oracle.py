"""Loops and branches against JAX: values, types, every transform, printed form, and which mistakes raise what."""

from __future__ import annotations

import inspect
from collections import namedtuple
from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import jax.numpy as jax_numpy  # noqa: E402
from jax import lax as jax_lax  # noqa: E402
from test_pretty_oracle import jax_text  # noqa: E402

import functad  # noqa: E402
import functad.numpy as functad_numpy  # noqa: E402
from functad import lax as functad_lax  # noqa: E402


class Jax:
    jnp, lax, api, tree = jax_numpy, jax_lax, jax, jax.tree


class Functad:
    jnp, lax, api, tree = functad_numpy, functad_lax, functad, functad.tree


State = namedtuple("State", "position speed")


def f32(*values):
    return np.array(values, np.float32)


X = f32(0.3, -0.7, 1.1)
XS = f32(0.5, -0.2, 0.9, 0.4)
W = np.linspace(-0.5, 0.6, 9, dtype=np.float32).reshape(3, 3)
ROWS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
N = np.int32(3)
YES = np.bool_(True)


# --- the functions: each of the module (JAX or functad) and of arguments ------------------------------------------


def recurrent(m, w, h, xs):
    def step(h, x):
        h = m.jnp.tanh(h @ w + x)
        return h, (h.sum(), {"square": h * h})

    return m.lax.scan(step, h, xs)


def leapfrog(m, x, force):
    def step(state, _):
        speed = state.speed - 0.125 * m.jnp.sin(state.position) * force
        return State(state.position + 0.125 * speed, speed), speed

    return m.lax.scan(step, State(x, x * 0.5), None, length=4)


def reverse_unrolled(m, c, xs):
    return m.lax.scan(lambda c, x: (c * x + 1, m.jnp.sin(c)), c, xs, reverse=True, unroll=3)


def fully_unrolled(m, c, xs):
    return m.lax.scan(lambda c, x: (m.jnp.sin(c) + x, c * x), c, xs, unroll=True)


def constant_carry(m, w, x, xs):
    """Parameters in the carry, that no step changes, and results that are what was read."""

    def step(carry, x):
        params, total = carry
        return (params, total + params["w"] * x), (x, params["w"] * total)

    return m.lax.scan(step, ({"w": w}, x), xs)


def integer_carry(m, x, xs):
    def step(carry, x):
        i, c, flag = carry
        return (i + 1, c * x + i, ~flag), (i * 2, flag)

    return m.lax.scan(step, (0, x, True), xs)


def weak_carry(m, xs):
    return m.lax.scan(lambda c, x: (c + x, c * 2.0), 0, xs)


def weak_both(m, x):
    changed = m.lax.scan(lambda c, _: (c + 1.5, c), 0.0, None, length=3)
    return changed, m.lax.scan(lambda c, _: (c, c), 2, None, length=2), x


def arrays_of_several_sizes(m, xs, rows):
    return m.lax.scan(lambda c, p: (c + p["a"] * p["b"][1].sum(), None), 1.0, {"a": xs, "b": (None, rows)})


def no_carry(m, rows):
    return m.lax.scan(lambda _, r: (None, (r[0], r * 2)), None, rows)


def no_steps(m, x):
    return m.lax.scan(lambda c, x: (c * 2 + x, (c, 1)), x, m.jnp.zeros((0, 3), "float32"))


def closure_over_arrays(m, x, w):
    table = m.jnp.asarray(W)
    return m.lax.scan(lambda c, r: (c * 0.5 + r @ table * w, r + x), x, table)


def nested_scans(m, w, rows):
    def outer(total, row):
        inner, ys = m.lax.scan(lambda c, v: (m.jnp.sin(c) * w + v, c * v), total, row)
        return inner, ys.sum()

    return m.lax.scan(outer, w * 2, rows)


def scan_of_branches(m, x, xs):
    def step(c, x):
        return m.lax.cond(x > 0, lambda c: c * x, lambda c: m.jnp.sin(c) + x, c), c

    return m.lax.scan(step, x, xs)


def swapped_carry(m, a, b):
    """A carry whose parts change places, so that one that varies reaches all."""
    return m.lax.scan(lambda c, _: ((c[1], c[2], c[0] * c[1]), c[0]), (a, b, 1.5), None, length=5)


def complex_carry(m, x, xs):
    def step(c, x):
        c = c * (x + 0.5j) + 1
        return c, (m.jnp.real(c * c), m.jnp.abs(c))

    last, ys = m.lax.scan(step, x + 0j, xs)
    return m.jnp.imag(last), ys


def looked_up(m, table, x):
    """Integers gone through, one of them an index."""
    rows, tokens = m.jnp.asarray(table), m.jnp.asarray(np.array([3, 0, 2, 3], np.int32))
    return m.lax.scan(lambda c, t: (c * rows[t] + 0.5, (t + 1, m.jnp.sin(c))), x, tokens)


def while_newton(m, x):
    def body(state):
        i, y = state
        return i + 1, 0.5 * (y + x / y)

    return m.lax.while_loop(lambda s: s[0] < 4, body, (0, m.jnp.ones_like(x) + x * 0))


def while_data(m, x, w):
    """A condition on the values carried, closures in both functions, and a part that no step changes."""
    limit = w * 4 + 5

    def body(state):
        return {"x": state["x"] * 1.75 + w, "fixed": state["fixed"], "n": state["n"] + 1}

    return m.lax.while_loop(lambda s: s["x"] < limit, body, {"x": x, "fixed": m.jnp.sin(w), "n": 0})


def while_never(m, x):
    return m.lax.while_loop(lambda x: x.sum() > 1e6, lambda x: x * 2, x)


def while_weak(m, x):
    return m.lax.while_loop(lambda c: c < 3, lambda c: c + 1.0, 0), x


def while_of_scan(m, x, xs):
    def body(state):
        i, c = state
        return i + 1, m.lax.scan(lambda c, x: (m.jnp.sin(c) + x, None), c, xs)[0]

    return m.lax.while_loop(lambda s: s[0] < 2, body, (0, x))[1]


def fori_known(m, x):
    return m.lax.fori_loop(1, 4, lambda i, c: {"c": m.jnp.sin(c["c"]) * i + x}, {"c": x * 2})


def fori_nothing(m, x):
    return m.lax.fori_loop(4, 1, lambda i, c: c * i, x)


def fori_unrolled(m, x):
    return m.lax.fori_loop(0, 5, lambda i, c: m.jnp.cos(c) + i, x, unroll=2)


def fori_traced(m, n, x):
    return m.lax.fori_loop(0, n, lambda i, c: m.jnp.sin(c) * (i + 1), x)


def fori_traced_start(m, n, x):
    return m.lax.fori_loop(n - 2, n, lambda i, c: (c[0] * 0.5 + i, c[1] + 1), (x, 0))


def fori_indexing(m, rows, x):
    def body(i, c):
        row = m.lax.dynamic_index_in_dim(rows, i, keepdims=False)
        return m.lax.dynamic_update_index_in_dim(c, m.jnp.sin(row).sum() * c[i], i, 0)

    return m.lax.fori_loop(0, 3, body, x)


def mapped(m, rows, w):
    return m.lax.map(lambda r: {"sum": (r * w).sum(), "n": 1, "r": m.jnp.sin(r)}, rows)


def mapped_batches(m, rows, w):
    return m.lax.map(lambda p: (p[0] * w + p[1].sum(), p[1]), (m.jnp.sin(rows[:, 0]), rows), batch_size=3)


def branch(m, p, x, y):
    return m.lax.cond(p, lambda x, y: (x * y, m.jnp.sin(y)), lambda x, y: (x + 1, y), x, y)


def branch_on_number(m, x):
    return m.lax.cond(x[0], lambda: x * 2, lambda: m.jnp.sin(x))


def branch_closures(m, p, x, w):
    table = m.jnp.asarray(W)
    return m.lax.cond(p, lambda v: table @ v * w, lambda v: v * w + table[0], x)


def branch_hands_on(m, p, x, y):
    return m.lax.cond(p, lambda x, y: (x, x * y, 1), lambda x, y: (x, y, 2), x, y)


def branch_weak(m, p, w):
    return m.lax.cond(p, lambda: 3.0, lambda: w * 2), m.lax.cond(p, lambda: 1.0, lambda: 2.0)


def branch_one_side(m, p, x, w):
    """Only one branch depends on w, and only the other on x."""
    return m.lax.cond(p, lambda: m.jnp.exp(w) + m.jnp.zeros(3), lambda: m.jnp.tanh(x))


def branch_operand(m, p, x):
    return m.lax.cond(p, lambda x: x["a"] * 2, lambda x: m.jnp.cos(x["a"]), operand={"a": x, "b": None})


def nested_branches(m, p, x):
    inner = partial(m.lax.cond, x.sum() > 0)
    return m.lax.cond(p, lambda x: inner(lambda x: x * x, m.jnp.sin, x), lambda x: inner(m.jnp.cos, lambda x: -x, x), x)


def switched(m, i, x):
    return m.lax.switch(i, [lambda x: x * x, m.jnp.sin, lambda x: m.jnp.exp(x), lambda x: x], x)


def switched_closures(m, i, x, w):
    return m.lax.switch(i, [lambda: x * w, lambda: m.jnp.sin(x), lambda: m.jnp.zeros(3) + w * w])


def branch_of_loops(m, p, x, xs):
    def loop(c):
        return m.lax.scan(lambda c, x: (c * x, m.jnp.sin(c)), c, xs)

    return m.lax.cond(p, loop, lambda c: (c, m.jnp.zeros((4, 3), "float32")), x)


def prefixes(m, rows):
    def after(first, second):
        return second[0] * first[0], second[0] * first[1] + second[1]

    return m.lax.associative_scan(after, (rows, m.jnp.sin(rows)), axis=1)


def prefixes_reversed(m, xs):
    return m.lax.associative_scan(m.jnp.maximum, xs, reverse=True), m.lax.associative_scan(m.lax.mul, xs)


CASES = {
    "recurrent": (recurrent, [W, X, ROWS]),
    "leapfrog": (leapfrog, [X, np.float32(0.7)]),
    "reverse_unrolled": (reverse_unrolled, [np.float32(0.4), XS]),
    "fully_unrolled": (fully_unrolled, [np.float32(0.4), XS]),
    "constant_carry": (constant_carry, [np.float32(0.8), np.float32(0.4), XS]),
    "integer_carry": (integer_carry, [np.float32(0.4), XS]),
    "weak_carry": (weak_carry, [XS]),
    "weak_both": (weak_both, [X]),
    "arrays_of_several_sizes": (arrays_of_several_sizes, [XS, ROWS]),
    "no_carry": (no_carry, [ROWS]),
    "no_steps": (no_steps, [X]),
    "closure_over_arrays": (closure_over_arrays, [X, np.float32(0.7)]),
    "nested_scans": (nested_scans, [np.float32(0.7), ROWS]),
    "scan_of_branches": (scan_of_branches, [np.float32(0.7), XS]),
    "swapped_carry": (swapped_carry, [np.float32(0.7), np.float32(-1.2)]),
    "complex_carry": (complex_carry, [np.float32(0.4), XS]),
    "looked_up": (looked_up, [ROWS, X]),
    "while_newton": (while_newton, [f32(0.3, 2.7)]),
    "while_data": (while_data, [np.float32(0.7), np.float32(0.2)]),
    "while_never": (while_never, [X]),
    "while_weak": (while_weak, [X]),
    "while_of_scan": (while_of_scan, [np.float32(0.7), XS]),
    "fori_known": (fori_known, [X]),
    "fori_nothing": (fori_nothing, [X]),
    "fori_unrolled": (fori_unrolled, [X]),
    "fori_traced": (fori_traced, [N, X]),
    "fori_traced_start": (fori_traced_start, [N, X]),
    "fori_indexing": (fori_indexing, [ROWS, X]),
    "mapped": (mapped, [ROWS, np.float32(0.7)]),
    "mapped_batches": (mapped_batches, [ROWS, np.float32(0.7)]),
    "branch": (branch, [YES, X, np.float32(0.7)]),
    "branch_on_number": (branch_on_number, [X]),
    "branch_closures": (branch_closures, [YES, X, np.float32(0.7)]),
    "branch_hands_on": (branch_hands_on, [YES, X, X * 2]),
    "branch_weak": (branch_weak, [YES, np.float32(0.7)]),
    "branch_one_side": (branch_one_side, [YES, X, np.float32(0.7)]),
    "branch_operand": (branch_operand, [YES, X]),
    "nested_branches": (nested_branches, [YES, X]),
    "switched": (switched, [np.int32(2), X]),
    "switched_closures": (switched_closures, [np.int8(-5), X, np.float32(0.7)]),
    "branch_of_loops": (branch_of_loops, [YES, X, XS]),
    "prefixes": (prefixes, [ROWS]),
    "prefixes_reversed": (prefixes_reversed, [XS]),
}
# JAX differentiates these in forward mode only; functad in both.
FORWARD_IN_JAX = {"while_newton", "while_data", "while_never", "while_of_scan", "fori_traced", "fori_traced_start"}

# --- comparing ------------------------------------------------------------------------------------------------------


def same(ours, theirs, weak=True):
    """Equal structure, shapes, dtypes, weakness, and values up to rounding."""
    assert str(functad.tree_util.tree_structure(ours)) == str(jax.tree_util.tree_structure(theirs))
    for a, b in zip(functad.tree_util.tree_leaves(ours), jax.tree_util.tree_leaves(theirs)):
        b = jax_numpy.asarray(b) if isinstance(b, (int, float)) else b  # JAX hands Python numbers on as they are
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        if weak:
            assert getattr(a, "weak_type", False) == getattr(b, "weak_type", False)
        if np.asarray(b).dtype == jax.dtypes.float0:
            continue
        scale = max(1.0, float(np.abs(np.asarray(b, np.float64)).max(initial=0)))
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=3e-4, atol=3e-5 * scale)


def is_float(x):
    return np.asarray(x).dtype.kind == "f"


def floats_of(name):
    return tuple(i for i, a in enumerate(CASES[name][1]) if is_float(a))


def loss(m, fun, *args):
    """One number that depends on all float results, and not linearly."""
    leaves = [m.jnp.asarray(leaf) for leaf in m.tree.leaves(fun(m, *args))]
    return sum(((leaf + m.jnp.sin(leaf * 2)) * 0.5).sum() for leaf in leaves if leaf.dtype.kind == "f")


def tangents_for(args):
    rng = np.random.default_rng(0)
    return [
        rng.standard_normal(np.shape(a)).astype(np.float32) if is_float(a) else np.zeros(np.shape(a), jax.dtypes.float0)
        for a in args
    ]


def batched(arg, size=3, axis=0):
    """So many variants of an argument: of numbers scaled ones, of truth values both."""
    arg = np.asarray(arg)
    if arg.dtype == bool:
        variants = [arg if i % 2 else ~arg for i in range(size)]
    elif arg.dtype.kind == "f":
        variants = [arg * np.float32(1 - 0.4 * i) for i in range(size)]
    else:
        variants = [arg + arg.dtype.type(i - 1) for i in range(size)]
    return np.stack(variants, axis=axis).astype(arg.dtype)


def both(transform, name, weak=True):
    """Compare `transform(m, fun of the case, its arguments)` for functad with that for JAX."""
    fun, args = CASES[name]
    same(transform(Functad, fun, args), transform(Jax, fun, args), weak)


# --- values and derivatives -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    both(lambda m, fun, args: fun(m, *args), name)


@pytest.mark.parametrize("name", CASES)
def test_jit(name):
    both(lambda m, fun, args: jitted(m, partial(fun, m))(*args), name)


def jitted(m, fun):
    return m.api.jit(fun, backend="interpreter") if m is Functad else jax.jit(fun)


@pytest.mark.parametrize("name", CASES)
def test_jvp(name):
    both(lambda m, fun, args: m.api.jvp(partial(fun, m), tuple(args), tuple(tangents_for(args))), name, weak=False)


@pytest.mark.parametrize("name", CASES)
def test_linearize(name):
    def transform(m, fun, args):
        value, linear = m.api.linearize(partial(fun, m), *args)
        return value, linear(*tangents_for(args))

    both(transform, name, weak=False)


def gradient(m, name):
    """Reverse mode, except where JAX has none."""
    fun = partial(loss, m, CASES[name][0])
    differentiate = m.api.jacfwd if m is Jax and name in FORWARD_IN_JAX else m.api.grad
    return differentiate(fun, argnums=floats_of(name))


@pytest.mark.parametrize("name", CASES)
def test_grad(name):
    both(lambda m, fun, args: gradient(m, name)(*args), name, weak=False)


@pytest.mark.parametrize("name", CASES)
def test_jit_of_grad(name):
    both(lambda m, fun, args: jitted(m, gradient(m, name))(*args), name, weak=False)


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
        chosen = "jacfwd" if m is Jax and name in FORWARD_IN_JAX else mode
        return getattr(m.api, chosen)(lambda *a: only_floats(m, fun(m, *a)), argnums=floats_of(name))(*args)

    both(transform, name, weak=False)


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
OTHER_TEXT = {"prefixes", "prefixes_reversed", "mapped_batches", "fori_indexing", "looked_up"}


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

    both(transform, name, weak=False)


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

    same(transform(Functad), transform(Jax))


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
