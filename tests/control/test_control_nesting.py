"""Loops, branches and transforms inside each other: all pairs, and some triples, against the same in plain Python.

Each construct makes another function of a function `f(w, x) → array like x`, twice: with functad's construct, and with
the control flow of Python. Values, gradients and maps of both must agree, un-jitted and compiled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax

Function = Callable[[Any, Any], Any]
SCALES = jnp.array([0.9, -0.6, 0.4], np.float64)
W = jnp.array(0.8, np.float64)
X = jnp.array([0.7, -0.4, 0.5], np.float64)
WS = jnp.array([0.8, -0.5], np.float64)
ROWS = jnp.array([[0.7, -0.4, 0.5], [-0.9, 0.2, -0.3]], np.float64)


def base(w: Any, x: Any) -> Any:
    return jnp.sin(x) * w + 0.25 * x * x


# --- the constructs, and what they mean -----------------------------------------------------------------------------


def scan(f: Function) -> Function:
    def step(w: Any, x: Any, scale: Any) -> Any:
        x = f(w, x) * scale
        return x, x * w

    def g(w: Any, x: Any) -> Any:
        last, ys = lax.scan(lambda x, scale: step(w, x, scale), x, SCALES)
        return last + ys.sum(axis=0)

    return g


def plain_scan(f: Function) -> Function:
    def g(w: Any, x: Any) -> Any:
        total = 0.0
        for scale in SCALES:
            x = f(w, x) * scale
            total = total + x * w
        return x + total

    return g


def reverse_scan(f: Function) -> Function:
    """Slices that are differentiated, and a carry that passes through."""

    def g(w: Any, x: Any) -> Any:
        def step(carry: Any, v: Any) -> Any:
            w, count, total = carry
            return (w, count + 1, total + f(w, total * 0.5 + v)), None

        return lax.scan(step, (w, 0, x * w), jnp.stack([x, x * 0.5]), reverse=True)[0][2]

    return g


def plain_reverse_scan(f: Function) -> Function:
    def g(w: Any, x: Any) -> Any:
        total = x * w
        for v in (x * 0.5, x):
            total = total + f(w, total * 0.5 + v)
        return total

    return g


def while_loop(f: Function) -> Function:
    """A number of steps that depends on the data."""

    def g(w: Any, x: Any) -> Any:
        def goes_on(state: Any) -> Any:
            i, x = state
            return (i < 4) & (x.sum() < 1.5) & (x.sum() > -1.5)

        return lax.while_loop(goes_on, lambda s: (s[0] + 1, f(w, s[1]) + 0.3), (0, x))[1]

    return g


def plain_while_loop(f: Function) -> Function:
    def g(w: Any, x: Any) -> Any:
        i = 0
        while i < 4 and x.sum() < 1.5 and x.sum() > -1.5:
            i, x = i + 1, f(w, x) + 0.3
        return x

    return g


def cond(f: Function) -> Function:
    def g(w: Any, x: Any) -> Any:
        return lax.cond(x[0] > 0.2, lambda x: f(w, x), lambda x: x - f(w * 0.5, x), x)

    return g


def plain_cond(f: Function) -> Function:
    return lambda w, x: f(w, x) if x[0] > 0.2 else x - f(w * 0.5, x)


def switch(f: Function) -> Function:
    def g(w: Any, x: Any) -> Any:
        index = jnp.sign(x[1] + 0.1).astype("int32") + 1
        return lax.switch(index, [lambda: f(w, x), lambda: x * w, lambda: f(x[2], x + 0.5)])

    return g


def plain_switch(f: Function) -> Function:
    return lambda w, x: f(x[2], x + 0.5) if x[1] + 0.1 > 0 else f(w, x) if x[1] + 0.1 < 0 else x * w


def vmap(f: Function) -> Function:
    def g(w: Any, x: Any) -> Any:
        of_rows = functad.vmap(f, in_axes=(None, 1), out_axes=1)(w, jnp.stack([x, x * -0.5], axis=1))
        return of_rows.sum(axis=1) + functad.vmap(f, in_axes=(0, None))(jnp.stack([w, w * w]), x).sum(axis=0)

    return g


def plain_vmap(f: Function) -> Function:
    return lambda w, x: f(w, x) + f(w, x * -0.5) + (f(w, x) + f(w * w, x))


def grad(f: Function) -> Function:
    """In the reference `grad` differentiates plain Python: other tests compare that with differences."""
    return lambda w, x: functad.grad(lambda x: (f(w, x) ** 2).sum())(x) * 0.5


def forward(f: Function) -> Function:
    return lambda w, x: functad.jvp(f, (w, x), (w * 0 + 1.0, jnp.cos(x)))[1]


def identity(f: Function) -> Function:
    return f


class Construct(NamedTuple):
    ours: Callable[[Function], Function]
    plain: Callable[[Function], Function]


CONSTRUCTS = {
    "scan": Construct(scan, plain_scan),
    "reverse_scan": Construct(reverse_scan, plain_reverse_scan),
    "while": Construct(while_loop, plain_while_loop),
    "cond": Construct(cond, plain_cond),
    "switch": Construct(switch, plain_switch),
    "jit": Construct(functad.jit, identity),
    "vmap": Construct(vmap, plain_vmap),
    "grad": Construct(grad, grad),
    "jvp": Construct(forward, forward),
    "checkpoint": Construct(functad.checkpoint, identity),
}

# --- checking -------------------------------------------------------------------------------------------------------


def nested(names: tuple[str, ...]) -> tuple[Function, Function]:
    """The composition of constructs, the first one outermost: ours and the reference."""
    ours, plain = base, base
    for name in reversed(names):
        ours, plain = CONSTRUCTS[name].ours(ours), CONSTRUCTS[name].plain(plain)
    return ours, plain


def loss(f: Function) -> Callable[[Any, Any], Any]:
    return lambda w, x: (f(w, x) * jnp.array([1.0, -0.7, 0.4], "float64")).sum()


def everything(f: Function) -> Callable[[Any, Any, Any, Any], Any]:
    """Value, gradient, and maps of value and gradient, of a function made of functad's constructs."""
    both = functad.value_and_grad(loss(f), argnums=(0, 1))

    def g(w: Any, x: Any, ws: Any, rows: Any) -> Any:
        mapped = functad.vmap(both)(ws, rows)
        return f(w, x), both(w, x), mapped, functad.vmap(f, in_axes=(None, 0), out_axes=1)(w, rows)

    return g


def everything_plain(f: Function, w: Any, x: Any, ws: Any, rows: Any) -> Any:
    both = functad.value_and_grad(loss(f), argnums=(0, 1))
    mapped = [both(*pair) for pair in zip(ws, rows)]
    stacked = functad.tree.map(lambda *leaves: np.stack(leaves), *mapped)
    return f(w, x), both(w, x), stacked, np.stack([f(w, row) for row in rows], axis=1)


def agree(ours: Any, expected: Any) -> None:
    assert functad.tree_util.tree_structure(ours) == functad.tree_util.tree_structure(expected)
    for a, b in zip(functad.tree_util.tree_leaves(ours), functad.tree_util.tree_leaves(expected)):
        assert np.asarray(a).dtype == np.asarray(b).dtype == np.float64
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-10)


ONES = [(name,) for name in CONSTRUCTS]
PAIRS = list(itertools.product(CONSTRUCTS, repeat=2))
_TRIPLES = list(itertools.product(["scan", "while", "cond", "vmap", "grad", "checkpoint"], repeat=3))
TRIPLES = [_TRIPLES[i] for i in np.random.default_rng(0).choice(len(_TRIPLES), 30, replace=False)]
ARGUMENTS = (W, X, WS, ROWS)


@pytest.mark.generated(every=6)
@pytest.mark.parametrize("names", ONES + PAIRS, ids="-".join)
def test_nestings_agree_with_python(names):
    ours, plain = nested(names)
    with functad.config.context(default_backend="interpreter"):
        expected = everything_plain(plain, *ARGUMENTS)
        agree(everything(ours)(*ARGUMENTS), expected)
        jitted = functad.jit(everything(ours))
        agree(jitted(*ARGUMENTS), expected)
        functad.check_program(jitted.trace(*ARGUMENTS).jaxpr)


@pytest.mark.generated(every=24)
@pytest.mark.parametrize("names", ONES + PAIRS, ids="-".join)
def test_compiled_nestings_agree_with_python(names):
    ours, plain = nested(names)
    value, _, mapped, _ = everything_plain(plain, *ARGUMENTS)

    def value_and_mapped_gradients(w: Any, x: Any, ws: Any, rows: Any) -> Any:  # half of `everything`
        return ours(w, x), functad.vmap(functad.value_and_grad(loss(ours), argnums=(0, 1)))(ws, rows)

    agree(functad.jit(value_and_mapped_gradients, backend="cpu")(*ARGUMENTS), (value, mapped))


@pytest.mark.parametrize("names", TRIPLES, ids="-".join)
def test_nestings_of_three_agree_with_python(names):
    ours, plain = nested(names)
    with functad.config.context(default_backend="interpreter"):
        expected = plain(W, X), functad.grad(loss(plain), argnums=(0, 1))(W, X)
        agree((ours(W, X), functad.grad(loss(ours), argnums=(0, 1))(W, X)), expected)


def test_the_constructs_do_what_the_reference_says():
    """The inputs reach every branch, and the data decide how long the loop runs."""
    assert {bool(x[0] > 0.2) for x in ROWS} == {True, False}
    assert {bool(x[1] + 0.1 > 0) for x in ROWS} == {True, False}
    steps = []
    counted = plain_while_loop(lambda w, x: steps.append(1) or base(w, x))
    counts = []
    for x in (X, *ROWS, ROWS[0] * 3, ROWS[0] * 2):
        steps.clear()
        counted(W, x)
        counts.append(len(steps))
    assert len(set(counts)) > 2


def test_the_comparison_can_fail():
    expected = everything_plain(plain_scan(base), *ARGUMENTS)
    with pytest.raises(AssertionError):
        agree(everything(reverse_scan(base))(*ARGUMENTS), expected)


@pytest.mark.parametrize("rule", ["custom_jvp", "custom_vjp"])
def test_a_loop_within_a_custom_rule_takes_no_step_for_examples_that_do_not_need_it(rule):
    def halve(x):  # ends for powers of two alone
        return lax.while_loop(lambda c: c != 1.0, lambda c: c * 0.5, x)

    fun = getattr(functad, rule)(halve)
    if rule == "custom_jvp":
        fun.defjvp(lambda primals, tangents: (primals[0] * 0 + 1, tangents[0] * 3))
    else:
        fun.defvjp(lambda x: (x * 0 + 1, None), lambda _, ct: (ct * 3,))

    def pick(x):
        return lax.cond(x == 4.0, lambda x: fun(x), lambda x: x * 2, x)

    def once(x):
        return lax.while_loop(lambda c: c[1] < 1, lambda c: (pick(c[0]), c[1] + 1), (x, 0))[0]

    xs = np.array([4.0, 3.0, -1.0], np.float32)
    for mapped in (functad.vmap(pick), functad.vmap(once), functad.jit(functad.vmap(pick))):
        np.testing.assert_array_equal(mapped(xs), [1.0, 6.0, -2.0])
    gradient = functad.grad(lambda xs: functad.vmap(pick)(xs).sum())
    for fun_ in (gradient, functad.jit(gradient)):
        np.testing.assert_array_equal(fun_(xs), [3.0, 2.0, 2.0])
