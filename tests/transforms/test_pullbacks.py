"""Printed pullbacks do what their rules do, to the bit, and what cannot be printed stays a rule."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.all_primitives import registry
from functad.dtypes import kind_of
from functad.eager import run_bare
from functad.errors import TooLargeError
from functad.evaluation import aval_of
from functad.ir import Absent, Diagonal, JointlyLinear, OwnDerivative
from functad.primitives.common import reshape_p
from functad.primitives.elementwise import cos_p, max_p, sin_p, tanh_p
from functad.tracing import Op, Trace
from functad.transforms.pullbacks import _printed_if_plain, _transposes, transpose_of

ELEMENTWISE = sorted({name for name, p in registry.items() if isinstance(p.jvp, Diagonal)} - {"complex"})
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.3], np.float32)


def points_of(primitive):
    """Operands of one dtype of floats, with parameters: those of the examples, and zeros, infinities and NaN."""
    for example in primitive.examples():
        args = [np.asarray(a) for a in example.args]
        if all(kind_of(a.dtype) == "f" for a in args):
            for dtype in (np.float32, np.float64, np.float16):
                yield [a.astype(dtype) for a in args], example.params
            yield [np.roll(SPECIAL, i) for i, _ in enumerate(args)], example.params


def is_printed(pullback):
    return not isinstance(pullback, partial)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_printed_pullback_is_its_rule_to_the_bit(name):
    primitive = registry[name]
    for args, params in points_of(primitive):
        with np.errstate(all="ignore"):
            values = [jnp.asarray(a) for a in args]
            out = primitive.bind(*values, **params)
        if out.dtype != args[0].dtype:
            continue
        ct = np.linspace(-2, 3, out.size).reshape(out.shape).astype(out.dtype)
        for share in primitive.jvp.shares:
            if share is None or isinstance(share, Absent):
                continue
            pullback = _printed_if_plain(share, len(args), out.dtype, *params.items())
            if not is_printed(pullback):
                continue
            found = run_bare(pullback, ct, out, *values)
            wanted = run_bare(share, ct, out, *values, **params)
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            assert np.array_equal(found, wanted, equal_nan=True)
            assert np.array_equal(np.signbit(found), np.signbit(wanted))


LINEAR = sorted(
    name for name, p in registry.items() if isinstance(p.jvp, (OwnDerivative, JointlyLinear)) and not p.multiple_results
)


def operations_of(primitive):
    """Records of an operation on the examples' operands, with the places in which it is transposed."""
    for example in primitive.examples():
        if not example.differentiable:
            continue
        args = [jnp.asarray(a) for a in example.args]
        with Trace("f", keeps_values=True) as trace:
            given = [trace.new_input(aval_of(a), "x", a) if kind_of(a.dtype) in "fc" else a for a in args]
            primitive.bind(*given, **example.params)
        (op,) = trace.take_ops()
        floats = [i for i, a in enumerate(args) if kind_of(a.dtype) in "fc"]
        for places in [(i,) for i in floats] + [tuple(floats)]:
            yield op, places


def is_rule(transpose):
    return transpose.__code__.co_filename != "<a printed function>"


@pytest.mark.parametrize("name", LINEAR)
def test_a_printed_transpose_is_its_rule_to_the_bit(name):
    for op, places in operations_of(registry[name]):
        ct = jnp.asarray(np.linspace(-2, 3, op.results.size).reshape(op.results.shape).astype(op.results.dtype))
        _transposes.cache_clear()
        first, second, third = [transpose_of(op, places, True) for _ in range(3)]
        assert is_rule(first) and second is third
        found = run_bare(second, np.asarray(ct), *op.values)
        wanted = run_bare(first, np.asarray(ct), *op.values)
        for i, x, y in zip(places, found, wanted, strict=True):
            assert x.dtype == y.dtype == op.args[i].dtype and x.shape == y.shape
            assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_transposes_are_printed_where_a_type_is_met_again():
    def printed(*ops):
        _transposes.cache_clear()
        return [not is_rule(transpose_of(op, (0,), True)) for op in ops]

    def reshaped(shape, params):
        x = jnp.ones(shape)
        return Op(reshape_p, [x], params, [reshape_p.bind(x, **params)], None, [x])

    flat = {"new_sizes": (6,)}
    assert printed(reshaped((2, 3), flat), reshaped((3, 2), flat), reshaped((6, 1), flat)) == [False] * 3
    assert printed(reshaped((2, 3), flat), reshaped((2, 3), {"new_sizes": (3, 2)})) == [False] * 2
    assert printed(*[reshaped((2, 3), flat)] * 3) == [False, True, True]


def test_gradients_are_the_same_each_time():
    def f(w, b, x, index):
        h = jnp.where(x @ w > 0, x @ w, b)[:, index]
        return jnp.sum(jnp.concatenate([h, jnp.pad(h.T, 1)[:3, :2]]) ** 2)

    x = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    _transposes.cache_clear()
    first, *others = [functad.grad(f, (0, 1))(x, x[0], 2 * x, jnp.array([2, 0])) for _ in range(3)]
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(a, b)


def highest(*call):
    """The most bytes that a call needs at a time, its result among them."""
    tracemalloc.start()
    try:
        run_bare(*call)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["tanh", "div", "asin", "acosh", "atan2", "rsqrt", "cbrt", "atanh"])
def test_a_printed_pullback_needs_no_more_memory_than_its_rule(name):
    primitive, x = registry[name], jnp.full(100_000, 0.5)
    values = [x] * len(primitive.jvp.shares)
    for share in primitive.jvp.shares:
        pullback = _printed_if_plain(share, len(values), x.dtype)
        assert is_printed(pullback)
        call = np.asarray(x), x, *values
        run_bare(pullback, *call)
        assert highest(pullback, *call) < highest(share, *call) + x.nbytes // 2


def test_rules_of_element_wise_operations_are_printed_and_others_are_not():
    float32 = np.dtype("float32")
    for primitive in (sin_p, cos_p, tanh_p):
        assert is_printed(_printed_if_plain(primitive.jvp.shares[0], 1, float32))
    assert not is_printed(_printed_if_plain(max_p.jvp.shares[0], 2, float32))  # it repeats scalars


def test_one_recording_serves_all_shapes(monkeypatch):
    def share(t, out, x):
        recorded.append(x.shape)
        return of_sin(t, out, x)

    recorded: list[tuple[int, ...]] = []
    (of_sin,) = sin_p.jvp.shares
    monkeypatch.setitem(sin_p.__dict__, "jvp", Diagonal(sin_p.jvp.rule, [share]))
    for shape in [(), (3,), (2, 4), (0, 5)]:
        x = np.full(shape, 0.3, np.float32)
        np.testing.assert_array_equal(functad.grad(lambda v: jnp.sum(jnp.sin(v)))(x), np.cos(x))
    assert recorded == [(1,)]


def test_a_power_with_integer_exponents_keeps_its_own_rule():
    x, y = np.float32(0), np.array([0, 1, 2, 3])
    assert float(functad.grad(lambda v: jnp.sum(v**y))(x)) == 1.0


def test_what_memory_does_not_hold_is_said_with_types(monkeypatch):
    def cos(x):
        raise MemoryError

    monkeypatch.setitem(cos_p.__dict__, "impl", cos)
    _printed_if_plain.cache_clear()
    try:
        with pytest.raises(TooLargeError, match=r"`cos` would make f32\[3\].*\nYour line: "):
            functad.grad(lambda x: jnp.sum(jnp.sin(x)))(jnp.ones(3))
    finally:
        _printed_if_plain.cache_clear()
