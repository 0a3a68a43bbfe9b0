"""The functions on which loops and branches are compared with JAX, and how: each takes the module and arguments."""

from __future__ import annotations

from collections import namedtuple
from functools import partial

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import jax.numpy as jax_numpy  # noqa: E402
from jax import lax as jax_lax  # noqa: E402

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
        # Python numbers are handed on as they are.
        a = functad_numpy.asarray(a) if isinstance(a, (int, float)) else a
        b = jax_numpy.asarray(b) if isinstance(b, (int, float)) else b
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


def both(transform, name, weak=True, at_once=True, kind=None):
    """Compare `transform(m, fun of the case, its arguments)` for functad with that for JAX.

    at_once: whether JAX compiles all of its side at once: else it compiles each operation, which takes far longer.
    kind: a name for what is computed, where tests compute it in several ways: JAX does it once, in that of the first.
    """
    fun, args = CASES[name]
    theirs = JAXS.get((kind, name))
    if theirs is None:
        compute = partial(transform, Jax, fun, args)
        theirs = jax.jit(compute)() if at_once else compute()
    if kind is not None:
        JAXS[kind, name] = theirs
    same(transform(Functad, fun, args), theirs, weak)


JAXS = {}
