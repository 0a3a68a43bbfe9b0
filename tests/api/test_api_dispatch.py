"""The short way into compiled code: the same answers as the long way, for every kind of argument and of pytree."""

from __future__ import annotations

import gc
import os
import weakref
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from functools import partial
from timeit import repeat

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.api.dispatch import MISS, Arguments, Results, make_call
from functad.backends.cpu.executable import CpuExecutable
from functad.config import config
from functad.errors import DTypeError, LeakedTracerError
from functad.ir import Aval
from functad.tree_util import register_pytree_node_class, tree_structure

jit = functad.jit
Pair = namedtuple("Pair", "first second")


@register_pytree_node_class
@dataclass
class Scaled:
    value: object
    factor: float

    def tree_flatten(self):
        return (self.value,), self.factor

    @classmethod
    def tree_unflatten(cls, factor, children):
        return cls(*children, factor)


def counted(fun):
    def wrapped(*args, **kwargs):
        wrapped.traces += 1
        return fun(*args, **kwargs)

    wrapped.traces = 0
    return wrapped


TREES = [
    (1.0, 2.0),
    [1.0, [2.0, ()]],
    {"b": 1.0, "a": 2.0},
    {2: 1.0, 1: {"x": 3.0}},
    {(1, 2): 1.0, (0, 1): 2.0},
    Pair(1.0, None),
    OrderedDict(b=1.0, a=2.0),
    defaultdict(list, b=1.0, a=2.0),
    Scaled(1.0, 3.0),
    {"deep": [Pair({"x": Scaled(1.0, 2.0)}, (2.0,)), None]},
    None,
    (),
    {},
    [],
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_every_pytree_goes_in_and_out(tree):
    f = counted(lambda tree: functad.tree_util.tree_map(lambda x: x * 2, tree))
    g = jit(f)
    expected = functad.tree_util.tree_map(lambda x: x * 2, tree)
    for _ in range(3):
        result = g(tree)
        assert tree_structure(result) == tree_structure(expected) and type(result) is type(expected)
        assert functad.tree_util.tree_leaves(result) == functad.tree_util.tree_leaves(expected)
    assert f.traces == 1


def test_structures_are_told_apart():
    f = counted(lambda tree: functad.tree_util.tree_map(lambda x: x + 1, tree))
    g = jit(f)
    trees = [
        {"a": 1.0, "b": 2.0}, {"a": 1.0, "c": 2.0}, {"a": 1.0}, [1.0, 2.0], (1.0, 2.0), Pair(1.0, 2.0), [1.0], 1.0,
        [1.0, None], [None, 1.0], [(1.0,), 2.0], Scaled(1.0, 1.0), Scaled(1.0, 2.0), OrderedDict(a=1.0, b=2.0),
        OrderedDict(b=1.0, a=2.0), defaultdict(list, a=1.0), defaultdict(int, a=1.0), {"a": {}}, {"a": []},
    ]  # fmt: skip
    for _ in range(2):
        for tree in trees:
            assert g(tree) == functad.tree_util.tree_map(lambda x: x + 1, tree)
    assert f.traces == len(trees)


def test_the_order_of_keys_does_not_matter():
    f = counted(lambda d, **k: {"z": d["a"] - d["b"], "y": k["p"] - k["q"]})
    g = jit(f)
    assert g({"a": 3.0, "b": 1.0}, p=5.0, q=1.0) == g({"b": 1.0, "a": 3.0}, q=1.0, p=5.0) == {"y": 4.0, "z": 2.0}
    assert f.traces == 1 and list(g({"a": 1.0, "b": 1.0}, p=1.0, q=1.0)) == ["y", "z"]


@pytest.mark.parametrize(
    "x",
    [
        3.0, 2, True, 1j, np.float32(2), np.float64(2), np.float16(2), np.int8(3), np.bool_(True), np.array(2.0),
        np.ones(3, ">f4"), np.ones(3, "<f8"), np.arange(12.0)[::-2], np.arange(12.0).reshape(3, 4).T,
        np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.ones((0, 3), np.float32), np.ones((2, 0)),
        np.frombuffer(b"x" + np.arange(4, dtype=np.float32).tobytes(), np.float32, offset=1),
        np.broadcast_to(np.float32(3), (2, 3)), np.ones(5, np.float16), np.array([True, False]),
        np.arange(3, dtype=np.uint64), np.ones(3, np.complex64), np.ones((1,) * 9), [1.0, 2.0],
    ],
    ids=lambda x: f"{type(x).__name__}-{getattr(x, 'dtype', x)}-{getattr(x, 'shape', '')}",
)  # fmt: skip
def test_every_kind_of_argument(x):
    def double(x):
        return functad.tree_util.tree_map(lambda leaf: jnp.asarray(leaf) * 2, x)

    f = counted(double)
    g = jit(f)
    before = np.array(x, copy=True)
    wanted = double(x)
    for _ in range(3):
        got = g(x)
        for a, b in zip(functad.tree_util.tree_leaves(got), functad.tree_util.tree_leaves(wanted), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.weak_type == b.weak_type
            np.testing.assert_array_equal(a, b)
    assert f.traces == 1
    np.testing.assert_array_equal(np.asarray(x), before)


def test_read_only_arrays_stay_so_and_writable_ones_too():
    x, y = np.ones(3), np.ones(3)
    y.flags.writeable = False
    f = jit(lambda x, y: x + y)
    for _ in range(2):
        f(x, y)
    assert x.flags.writeable and not y.flags.writeable


def test_subclasses_of_ndarray_are_arrays():
    class Tagged(np.ndarray):
        pass

    x = np.arange(3.0).view(Tagged)
    f = jit(lambda x: x * 2)
    for _ in range(2):
        assert f(x).tolist() == [0, 2, 4]
    assert x.flags.writeable


class HoldsArray:
    def __array__(self, dtype=None, copy=None):
        return np.arange(3.0)


def test_objects_that_turn_into_arrays():
    f = jit(lambda x: x * 2)
    for _ in range(2):
        assert f(HoldsArray()).tolist() == [0, 2, 4]
    assert f._cache_size() == 1


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (np.array([1, None], object), "argument `x` of double: dtype object is not supported"),
        (np.array(["a"]), "argument `x` of double: dtype <U1 is not supported"),
        ("text", "argument `x` of double is 'text' of type str"),
        (2**40, "argument `x` of double is 1099511627776, which does not fit in int32"),
        (np.ma.masked_array([1.0, 2.0], [0, 1]), "argument `x` of double: a masked array"),
        (object(), "argument `x` of double is <object object"),
    ],
)
def test_what_is_no_array_is_named_and_leaves_no_half_state(bad, text):
    def double(x):
        return x * 2

    f = jit(double)
    for x in (1, 1.0, np.ones(2)):
        f(x)
    for _ in range(2):
        with pytest.raises(DTypeError, match=text):
            f(bad)
    assert f(1) == 2 and f._cache_size() == 3


def test_types_are_told_apart():
    f = counted(lambda x: x * 2)
    g = jit(f)
    for x, dtype in [(3.0, "f4"), (np.float32(3), "f4"), (3, "i4"), (np.int32(3), "i4"), (True, "i4"), (1j, "c8")] * 2:
        assert g(x).dtype == dtype
    assert g(3.0).weak_type and not g(np.float32(3)).weak_type and f.traces == 6
    g(jnp.float32(3.0)), g(jnp.asarray(3.0, np.float32))
    assert f.traces == 6


def test_weak_types_as_in_jax():
    f = jit(lambda x, y: x + y)
    half, long = np.ones(2, np.float16), np.ones(2, np.float64)
    for _ in range(2):
        assert f(1.0, half).dtype == np.float16 and f(np.float32(1), half).dtype == np.float32
        assert f(1.0, long).dtype == np.float64 and f(1, half).dtype == np.float16


class Box:
    """Equal by value."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value

    def __hash__(self):
        return hash(self.value)


def test_static_arguments_are_compared_by_class_and_value():
    f = counted(lambda x, n: x * getattr(n, "value", n))
    g = jit(f, static_argnums=1)
    for _ in range(2):
        assert g(2.0, Box(3.0)) == 6 and g(2.0, Box(4.0)) == 8
        assert g(2, 1).dtype == g(2, True).dtype == np.int32 and g(2, 1.0).dtype == np.float32
    assert f.traces == 5
    nan = float("nan")
    g(1.0, nan), g(1.0, nan)
    assert f.traces == 6 and np.isnan(g(1.0, nan))


def test_static_keywords_defaults_and_positions():
    def f(x, n=2, *, mode="up", scale=1.0):
        return (x * n if mode == "up" else x / n) * scale

    g = jit(f, static_argnames=("n", "mode"))
    calls = [((4.0,), {}), ((4.0, 3), {}), ((4.0,), {"n": 3}), ((4.0,), {"mode": "down"}), ((4.0,), {"scale": 5.0})]
    for _ in range(2):
        for args, kwargs in calls:
            assert g(*args, **kwargs) == f(*args, **kwargs)
    assert g._cache_size() == 5


def test_static_positions_between_others():
    g = jit(lambda a, op, b, *rest: op(a, b) + sum(rest), static_argnums=1)
    for _ in range(2):
        assert g(5.0, jnp.add, 2.0, 1.0) == 8
        assert g(2.0, jnp.subtract, 3.0) == -1


def test_a_keyword_may_be_called_self_args_or_kwargs():
    f = jit(lambda **k: k["self"] + k["args"] * k["kwargs"])
    for _ in range(2):
        assert f(self=1.0, args=2.0, kwargs=3.0) == 7


def test_methods_and_partials():
    class Model:
        scale = 3.0

        @partial(jit, static_argnums=0)
        def apply(self, x, *, shift=0.0):
            return x * self.scale + shift

    model = Model()
    for _ in range(2):
        assert model.apply(2.0) == 6 and model.apply(2.0, shift=1.0) == 7
        assert jit(model.apply)(2.0) == 6
        assert jit(partial(lambda n, x: x * n, 3))(2.0) == 6


def test_results_are_read_only_and_apart_from_memory_that_may_change():
    constant = jnp.arange(3.0)
    f = jit(lambda x: (x, x, constant, x + 1))
    x = np.arange(3.0, dtype=np.float32)
    for _ in range(2):
        first, second = f(x), f(x)
        arrays, others = [[np.asarray(a) for a in results] for results in (first, second)]
        for a in arrays:
            assert not a.flags.writeable and a.flags.c_contiguous
            assert not any(np.shares_memory(a, b) for b in (*others, x, np.asarray(constant)))
        with pytest.raises(ValueError, match="read-only"):
            arrays[0][0] = 5
    x[:] = 9
    assert first[0].tolist() == [0, 1, 2]


def test_inputs_are_read_where_they_lie():
    x = np.arange(5.0)
    f = jit(lambda x: x * 2)
    for value in range(3):
        x[0] = value  # a copy kept by an earlier call would show
        assert f(x)[0] == 2 * value


def test_results_without_arrays():
    assert jit(lambda x: None)(1.0) is None
    assert jit(lambda: ())() == () and jit(lambda x: {"a": None})(1.0) == {"a": None}
    f = jit(lambda: (jnp.ones(2), 3))
    assert f()[1] == f()[1] == 3


def test_options_between_calls():
    f = counted(lambda x: x * 2.0)
    g = jit(f)
    assert g(1.0).dtype == np.float32
    with config.context(enable_x64=True):
        assert g(1.0).dtype == np.float64
        config.update("log_compiles", False)
        assert g(1.0).dtype == np.float64
    assert g(1.0).dtype == np.float32 and f.traces == 2
    with config.context(default_backend="interpreter"):
        assert g(1.0) == 2
    with config.context(disable_jit=True):
        g(1.0)
        assert f.traces == 3
        with config.context(disable_jit=False):
            g(1.0)
            assert f.traces == 3
        g(1.0)
        assert f.traces == 4
    g(1.0)
    assert f.traces == 4
    with config.context(debug_nans=True), pytest.raises(FloatingPointError, match="NaN"):
        jit(lambda x: x / x)(0.0)
    with config.context(num_threads=1):
        assert g(1.0) == 2
    config.update("enable_x64", True)
    try:
        assert g(1.0).dtype == np.float64
    finally:
        config.update("enable_x64", False)


def test_the_short_way_within_transforms():
    f = jit(lambda x: jnp.sin(x) * x)
    f(1.0)
    wanted = np.cos(1.0) + np.sin(1.0)
    for _ in range(2):
        assert functad.grad(f)(1.0) == pytest.approx(wanted, rel=1e-6)
        assert jit(functad.grad(f))(1.0) == pytest.approx(wanted, rel=1e-6)
        assert functad.vmap(f)(np.ones(2, np.float32)).tolist() == pytest.approx([np.sin(1)] * 2, rel=1e-6)
        assert jit(lambda x: f(x) + f(1.0))(1.0) == pytest.approx(2 * np.sin(1), rel=1e-6)
        assert functad.grad(lambda x: x * f(2.0))(1.0) == pytest.approx(2 * np.sin(2), rel=1e-6)
    assert len(functad.make_jaxpr(f)(1.0).eqns) == 1


def test_an_exception_while_tracing_leaves_nothing_behind():
    fails = True

    def f(x):
        if fails:
            raise RuntimeError("not now")
        return x + 1

    g = jit(f)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not now"):
            g(1.0)
    fails = False
    assert g._cache_size() == 0 and g(1.0) == 2 and jnp.sin(0.0) == 0


def test_a_leaked_tracer_is_refused():
    leaked = []
    jit(lambda x: leaked.append(x) or x)(1.0)
    f = jit(lambda x: x + 1)
    f(jnp.float32(1.0))
    with pytest.raises(LeakedTracerError):
        f(leaked[0])


def test_recursion_through_jit():
    @partial(jit, static_argnums=1)
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    assert power(2.0, 5) == 32 and power(2.0, 3) == 8 and power(3.0, 5) == 243


def test_many_signatures():
    f = counted(lambda x: x.sum())
    g = jit(f)
    for _ in range(3):
        for n in range(1, 30):
            assert g(np.ones(n, np.float32)) == n
    assert f.traces == 29 and len(g._fast) <= 8


def test_nothing_keeps_the_arguments_alive():
    f = jit(lambda tree: tree["a"] * 2)
    arrays = [np.ones(1000, np.float32) for _ in range(3)]
    references = [weakref.ref(a) for a in arrays]
    wrapped = jnp.ones(10)
    references.append(weakref.ref(wrapped))
    f({"a": arrays[0]}), f({"a": arrays[1]}), f.lower({"a": arrays[2]}), f.explain({"a": arrays[2]})
    f({"a": wrapped})
    del arrays, wrapped
    gc.collect()
    assert [r() for r in references] == [None] * 4


def test_a_jitted_function_dies_with_its_last_reference():
    table = np.ones(1000)
    f = jit(lambda x: x + table)
    f(1.0)
    reference = weakref.ref(f)
    gc.collect()
    gc.disable()
    try:
        del f
        assert reference() is None
    finally:
        gc.enable()


def test_make_call_says_miss_for_every_difference():
    aval = Aval((2,), np.dtype(np.float32))
    arguments = Arguments(
        tree_structure((({"a": 1},), {"k": 1})), [(1, "s"), ("m", 3)], [aval] * 2, [float] * 2, [None] * 2
    )
    results = Results(tree_structure((1, [1])), [aval] * 2)
    call = make_call("f", arguments, [np.ones(1)], lambda v: [v[0] + v[1], v[0] + v[2]], results)
    x, y = np.ones(2, np.float32), np.zeros(2, np.float32)
    one, (two,) = call(({"a": x}, "s"), {"k": y, "m": 3})
    assert one.tolist() == [2, 2] and two.tolist() == [1, 1]
    for args, kwargs in [
        (({"a": x},), {"k": y, "m": 3}), (({"a": x}, "t"), {"k": y, "m": 3}), (({"a": x}, "s"), {"k": y, "m": 3.0}),
        (({"a": x}, "s"), {"k": y}), (({"b": x}, "s"), {"k": y, "m": 3}), (([x], "s"), {"k": y, "m": 3}),
        (({"a": x[:1]}, "s"), {"k": y, "m": 3}), (({"a": x}, "s"), {"k": y.astype(int), "m": 3}),
        (({"a": {}}, "s"), {"k": y, "m": 3}), (({"a": x}, "s"), {"j": y, "m": 3}),
        (({"a": None}, "s"), {"k": y, "m": 3}),
    ]:  # fmt: skip
        assert call(args, kwargs) is MISS
    assert arguments.with_leaves([x, y]) == (({"a": x}, "s"), {"k": y, "m": 3})


def test_a_call_costs_microseconds():
    """Far above what it takes on a quiet machine (1 and 5 µs), far below what a flattening would."""
    scalar = jit(lambda x: x * 2.0 + 1.0)
    x = jnp.float32(3.0)
    tree = jit(lambda d: {k: v * 2.0 for k, v in d.items()})
    leaves = {f"k{i}": jnp.ones(3) for i in range(10)}
    scalar(x), tree(leaves)
    assert min(repeat(lambda: scalar(x), number=100, repeat=50)) / 100 < 5e-6
    assert min(repeat(lambda: tree(leaves), number=100, repeat=50)) / 100 < 20e-6


# --- arrays whose memory kernels cannot use as it is ---------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        lambda: jnp.ones((3, 4)),
        lambda: jnp.arange(12.0).reshape(4, 3).T,
        lambda: jnp.arange(24.0).reshape(3, 8)[:, ::2],
    ],
    ids=["broadcast", "transposed", "sliced"],
)
def test_an_array_is_copied_for_kernels_once(made, monkeypatch):
    copies = []
    usable = CpuExecutable._usable

    def counted_usable(self, given):
        copies.append(given)
        return usable(self, given)

    monkeypatch.setattr(CpuExecutable, "_usable", counted_usable)
    x, double = made(), jit(lambda x, y: {"sum": x + y, "same": x})
    expected = np.asarray(x).copy()
    for _ in range(3):
        found = double(x, 1.0)
        np.testing.assert_array_equal(found["sum"], expected + 1)
        np.testing.assert_array_equal(found["same"], expected)
    np.testing.assert_array_equal(x, expected)
    assert len(copies) == (os.environ.get("NUMBA_DISABLE_JIT", "0") == "0")
    assert not np.asarray(x).flags.writeable


def test_the_copy_of_a_donated_array_is_the_results():
    step = jit(lambda x, y: x + y, donate_argnums=0)
    for _ in range(2):  # the first call makes the short way, the second one takes it
        x, y = jnp.ones((3, 4)), jnp.zeros((3, 4))
        np.testing.assert_array_equal(step(x, y), np.ones((3, 4)))
        with pytest.raises(functad.errors.DonatedArrayError):
            np.asarray(x)
        np.testing.assert_array_equal(y, np.zeros((3, 4)))


def test_a_view_that_a_function_closes_over_is_copied_when_it_is_compiled(monkeypatch):
    table = jnp.arange(12.0).reshape(4, 3).T
    look_up = jit(lambda i: table[i])
    look_up(1)
    monkeypatch.setattr(CpuExecutable, "_usable", None)
    np.testing.assert_array_equal(look_up(2), np.arange(12.0).reshape(4, 3).T[2])


def test_what_is_returned_as_it_was_given_or_twice_is_not_copied():
    x = jnp.arange(4.0)

    def f(x, y, key):
        total = x + y
        return x, total, {"y": y, "again": total}, key

    jitted, key = functad.jit(f), functad.random.key(0)
    for given in ((x, x), (x, 2.0), (x, np.ones(4, np.float32)), (np.zeros(4, np.float32), x)):
        for call in range(3):  # the first compiles, the others go the short way
            got = jitted(*given, key)
            expected = f(*map(jnp.asarray, given), key)
            assert functad.tree.structure(got) == functad.tree.structure(expected)
            for out, value in zip(functad.tree.leaves(got)[:4], functad.tree.leaves(expected)[:4]):
                np.testing.assert_array_equal(out, value)
            assert functad.random.key_data(got[3]).tolist() == functad.random.key_data(key).tolist()
            for out, leaf in ((got[0], given[0]), (got[2]["y"], given[1])):
                assert out is not leaf
                shared = np.shares_memory(np.asarray(out), np.asarray(leaf))
                assert shared == isinstance(leaf, functad.Array), (call, given)
            assert np.shares_memory(np.asarray(got[1]), np.asarray(got[2]["again"]))


def test_results_that_share_memory_survive_donation_of_one_another():
    x = jnp.arange(4.0)
    given, _ = functad.jit(lambda x: (x, x + 1))(x)
    once, twice = functad.jit(lambda x: (x + 1,) * 2)(x)
    negate = functad.jit(jnp.negative, donate_argnums=0)
    for donated, kept, values in ((once, twice, [1, 2, 3, 4]), (given, x, [0, 1, 2, 3])):
        np.testing.assert_array_equal(negate(donated), -np.array(values, np.float32))
        np.testing.assert_array_equal(kept, values)
        with pytest.raises(functad.errors.DonatedArrayError):
            donated.sum()


def test_an_argument_that_numpy_may_change_is_copied_into_the_results():
    mine = np.arange(4, dtype=np.float32)
    jitted = functad.jit(lambda x: (x, x + 1))
    for _ in range(3):
        out = jitted(mine)[0]
        mine[0] += 1
        assert float(out[0]) == mine[0] - 1
