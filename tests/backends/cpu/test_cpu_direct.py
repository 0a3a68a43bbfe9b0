"""The direct way in: the results of the way by lists of ndarrays, no reference lost, None for what it does not know."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.array import ArrayImpl
from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime.tape import runtime
from functad.config import config, exceptional
from functad.eager import outside_traces
from functad.errors import CallbackError
from functad.system.freed_memory import AlignedMemory


def direct_of(jitted, *args):
    """The built-in function that calls with such arguments try first; None if there is none."""
    jitted(*args)
    return jitted._fast[0][1].__globals__.get("direct")


def equal(found, wanted):
    assert type(found) is type(wanted) is ArrayImpl
    assert (found.dtype, found.shape, found.weak_type, found.aval) == (
        wanted.dtype,
        wanted.shape,
        wanted.weak_type,
        wanted.aval,
    )
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


LEAVES = {
    "array": lambda: jnp.arange(6.0).reshape(2, 3),
    "array without a type": lambda: ArrayImpl(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "ndarray": lambda: np.arange(6, dtype=np.float32).reshape(2, 3),
    "ndarray of rank 0": lambda: np.array(2.0, np.float32),
    "float": lambda: 2.5,
    "weak array": lambda: jnp.asarray(2.5),
    "integers": lambda: jnp.arange(3),
    "bools": lambda: np.array([True, False]),
    "complex": lambda: jnp.ones(2, "complex64"),
    "half": lambda: jnp.ones(2, "float16"),
    "double": lambda: np.ones(2),
    "empty": lambda: jnp.ones((0, 3)),
}


@pytest.mark.parametrize("make", LEAVES.values(), ids=LEAVES)
def test_leaves_that_it_knows(make):
    f = functad.jit(lambda x: x * x)
    leaf = make()
    call = direct_of(f, leaf)
    equal(call(leaf), f._long_call((leaf,), {}))
    equal(call(leaf), functad.jit(lambda x: x * x, backend="interpreter")(leaf))


@pytest.mark.parametrize("x64", [False, True])
def test_a_float_is_rounded_as_numpy_rounds_it(x64):
    with config.context(enable_x64=x64):
        f = functad.jit(lambda x: x * 1.0)
        call = direct_of(f, 1.0)
        for x in (0.1, -0.0, 1e-45, 1e-320, 3.4028234e38, 1 / 3, 16777217.0):
            found = call(x)
            assert found.dtype == (np.float64 if x64 else np.float32) and found.weak_type
            assert np.asarray(found).tobytes() == np.asarray(x).astype(found.dtype).tobytes()
        for x in (np.inf, np.nan, 1e300):  # NumPy warns of the last, so the long way makes all such float32s
            assert (call(x) is None) == (not x64)
    with config.context(enable_x64=not x64):
        assert f(1.0).dtype == (np.float32 if x64 else np.float64)


def test_leaves_that_it_does_not_know():
    f = functad.jit(lambda x: x + 1)
    x = np.zeros((3, 3), np.float32)
    call = direct_of(f, x)
    donated = jnp.zeros((3, 3))
    functad.jit(lambda x: x + 1, donate_argnums=0)(donated)
    others = [x[:2], x[0], x.T, np.zeros((3, 6), "f4")[:, ::2], x.astype("f8"), x.view("i4"), x.view(np.matrix)]
    others += [x.astype(">f4"), 1.0, 1, True, None, [x], "x", x[0, 0], donated, jnp.zeros((3, 3), "int32"), object()]
    others += [np.frombuffer(bytes(37), "u1", 36, 1).view("f4").reshape(3, 3)]
    others[2] = x[:, :1].repeat(3, 1).T
    for leaf in others:
        assert call(leaf) is None, leaf
    assert call() is None and call(x, x) is None
    equal(call(x), jnp.ones((3, 3)))


def test_weak_types_are_told_apart():
    f = functad.jit(lambda x: x + 1)
    weak, strong = jnp.asarray(1.0), jnp.float32(1)
    call = direct_of(f, weak)
    assert call(strong) is None and call(np.array(1, np.float32)) is None
    assert call(weak).weak_type and call(ArrayImpl(np.array(1, np.float32), True)).weak_type
    call = direct_of(f, strong)
    assert call(weak) is None and call(1.0) is None and call(ArrayImpl(np.array(1, np.float32), True)) is None
    assert not call(np.array(1, np.float32)).weak_type


def test_an_array_that_is_not_contiguous_is_copied_once():
    f = functad.jit(lambda x: x + 1)
    x = jnp.asarray(np.arange(6.0, dtype="f4").reshape(2, 3).T)
    call = direct_of(f, jnp.zeros((3, 2)))
    assert call(x) is None or x._value.flags.c_contiguous
    equal(f(x), x + 1)
    equal(call(x), x + 1)


def test_several_results_and_a_pytree_around_them():
    f = functad.jit(lambda t: {"sum": t["a"] + t["b"], "two": (t["a"] * 2, [jnp.sum(t["b"])])})
    t = {"a": jnp.arange(3.0), "b": np.ones(3, np.float32)}
    assert len(direct_of(f, t)(t["a"], t["b"])) == 3
    found = f(t)
    equal(found["sum"], t["a"] + 1)
    equal(found["two"][0], t["a"] * 2)
    equal(found["two"][1][0], jnp.float32(3))


def test_deep_results():
    def deep(x):
        for _ in range(50):
            x = [x]
        return x

    f = functad.jit(lambda x: deep(x + 1))
    assert direct_of(f, 1.0) is not None
    assert functad.tree.leaves(f(1.0)) == [2.0]


def test_constants_come_along():
    f = functad.jit(lambda i: jnp.asarray(np.arange(10.0, dtype=np.float32) ** 2)[i] + np.float32(81))
    i = jnp.array([3, 5])
    direct = direct_of(f, i)
    gc.collect()
    np.testing.assert_array_equal(np.asarray(direct(i)), [90, 106])


def test_results_are_read_only_and_independent():
    f = functad.jit(lambda x: x + 1)
    first, second = direct_of(f, 1.0)(1.0), f(2.0)
    assert float(first) == 2 and float(second) == 3
    assert not first._value.flags.writeable and first._value.flags.owndata
    assert first.aval is second.aval and gc.is_tracked(first) == gc.is_tracked(jnp.ones(1))
    gone = weakref.ref(first)
    del first
    assert gone() is None


def test_results_of_some_size_begin_at_a_cache_line():
    f = functad.jit(lambda x: (x + 1, -x))
    x = jnp.arange(20_000.0).reshape(100, 200)
    direct = direct_of(f, x)
    for found, wanted in zip(direct(x), f._long_call((x,), {}), strict=True):
        equal(found, wanted)
        for array in (found._value, wanted._value):
            assert type(array.base) is AlignedMemory and array.ctypes.data % 64 == 0
        assert found._value.flags.num == wanted._value.flags.num and found._value.strides == wanted._value.strides
        inner, memory = found._value.base, weakref.ref(found._value.base)
        assert inner.flags.owndata and inner.nbytes == wanted._value.base.nbytes
        del inner, found, array
        gc.collect()
    del wanted
    assert memory() is None


@pytest.mark.parametrize(
    "leaf",
    [1.0, jnp.ones(4), np.ones(4, np.float32), jnp.ones(1 << 15)],
    ids=["float", "array", "ndarray", "at a cache line"],
)
def test_no_reference_is_kept_or_lost(leaf):
    f = functad.jit(lambda x, y: (x + y, x * y))
    call = direct_of(f, leaf, leaf)
    result = call(leaf, leaf)[0]
    watched = [
        None,
        result.dtype,
        np.dtype(np.uint8),
        AlignedMemory,
        result.aval,
        leaf,
        getattr(leaf, "_value", leaf),
        result.weak_type,
        ArrayImpl,
    ]
    before = [sys.getrefcount(x) for x in watched]
    for _ in range(500):
        call(leaf, leaf)
        call(leaf, "no leaf")
        call()
    changes = [sys.getrefcount(x) - n for x, n in zip(watched, before)]
    assert max(map(abs, changes)) < 100, changes


def test_an_exception_leaves_nothing_behind():
    def refuse(x):
        if x[0] > 1:
            raise KeyError("too much")
        return x

    f = functad.jit(lambda x: functad.pure_callback(refuse, x, x) + 1)
    good, bad = jnp.ones(2), jnp.ones(2) * 2
    call = direct_of(f, good)
    before = sys.getrefcount(bad._value)
    for _ in range(20):
        with pytest.raises(CallbackError, match="too much"):
            call(bad)
    gc.collect()
    after = sys.getrefcount(bad._value)
    assert after == before
    equal(call(good), good + 1)


def test_a_call_within_its_own_callback_takes_the_long_way():
    depth = []

    def inner(x):
        depth.append(len(depth))
        return np.asarray(f(jnp.asarray(x) - 1)) if x[0] > 0 else np.asarray(x)

    f = functad.jit(lambda x: functad.pure_callback(inner, x, x) + 1)
    x = jnp.full(2, 3.0)
    direct_of(f, jnp.zeros(2))
    depth.clear()
    np.testing.assert_array_equal(np.asarray(f(x)), [4, 4])
    assert len(depth) == 4


def test_many_threads_at_once():
    f = functad.jit(lambda x: jnp.cumsum(x * 2))
    inputs = [jnp.full(3000, float(i)) for i in range(4)]
    wanted = [np.asarray(f(x)) for x in inputs]
    wrong = []

    def work(i):
        for _ in range(300):
            if not np.array_equal(np.asarray(f(inputs[i])), wanted[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(("size", "failing"), [(3, 0), (3, 1), (20_000, 0), (20_000, 1), (20_000, 2), (20_000, 3)])
def test_without_memory_for_a_result_the_long_way_judges(size, failing):
    f = functad.jit(lambda x: (x + 1, x * 2))
    x = jnp.ones(size)
    call = direct_of(f, x)
    pool = runtime().pool.words
    types = [
        ctypes.c_void_p,
        *[ctypes.c_void_p] * 2,
        ctypes.c_int,
        *[ctypes.c_void_p] * 3,
        ctypes.c_int,
        ctypes.c_void_p,
    ]
    make, asked = ctypes.PYFUNCTYPE(*types)(int(pool[w.NEW_ARRAY])), []
    # A function of its own: Numba's CUDA driver, once imported, changes what the shared `pythonapi.Py_DecRef` takes.
    decref = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(int(pool[w.DECREF]))

    def fail(*args):
        asked.append(args)
        if len(asked) <= failing:
            return make(*args)
        decref(args[1])  # NumPy takes the dtype over in any case
        return None

    failing_maker = ctypes.PYFUNCTYPE(*types)(fail)
    watched = [x._value, x.dtype, np.dtype(np.uint8), AlignedMemory]
    before = [sys.getrefcount(y) for y in watched]
    own = int(pool[w.NEW_ARRAY])
    pool[w.NEW_ARRAY] = ctypes.cast(failing_maker, ctypes.c_void_p).value
    try:
        for _ in range(100):
            del asked[:]
            assert call(x) is None and len(asked) == failing + 1
        equal(f(x)[1], jnp.full(size, 2.0, "float32"))
    finally:
        pool[w.NEW_ARRAY] = own
    after = [sys.getrefcount(y) for y in watched]
    changes = [n - m for n, m in zip(after, before)]
    assert changes[0] == 0 and max(map(abs, changes)) < 50, changes  # less than one a call
    equal(call(x)[0], jnp.full(size, 2.0, "float32"))


def test_where_objects_lie_in_another_way_there_is_none(monkeypatch):
    assert runtime().direct_problem == ""
    monkeypatch.setattr(runtime(), "direct_problem", "for a test")
    f = functad.jit(lambda x: x + 1)
    assert direct_of(f, 1.0) is None
    assert f(1.0) == 2


def test_what_has_none():
    assert direct_of(functad.jit(lambda x: x + 1, donate_argnums=0), jnp.ones(2)) is None
    assert direct_of(functad.jit(lambda x: []), jnp.ones(2)) is None
    assert direct_of(functad.jit(lambda x: x + 1), 1) is None
    assert direct_of(functad.jit(lambda x: (x + 1)[0]), jnp.ones(2)) is not None
    assert direct_of(functad.jit(lambda x: x + 1), np.ones((1 << 22) + 1, np.float64)) is None  # too large for the heap


def test_calls_under_a_trace_or_options_of_the_thread_are_seen():
    assert exceptional == []
    f = functad.jit(lambda x: x + 1.0)
    assert direct_of(f, 1.0)(1.0) == 2
    with config.context(enable_x64=True):
        assert f(1.0).dtype == np.float64
    assert "pjit" in str(functad.make_jaxpr(f)(1.0)) or "jit" in str(functad.make_jaxpr(f)(1.0))
    seen = []

    def outer(x):
        with outside_traces():
            seen.append(f(1.0))
        return f(x)

    functad.make_jaxpr(outer)(1.0)
    assert seen == [2.0] and type(seen[0]) is ArrayImpl
    with pytest.raises(ZeroDivisionError), config.context(debug_nans=True):
        functad.grad(lambda x: f(x) / (1 // 0))(1.0)
    assert exceptional == []


def test_a_trace_in_one_thread_leaves_others_alone():
    f = functad.jit(lambda x: x + 1.0)
    f(1.0)
    entered, leave, found = threading.Event(), threading.Event(), []

    def traced(x):
        entered.set()
        leave.wait(10)
        found.append(type(f(x)).__name__)
        return x

    thread = threading.Thread(target=lambda: functad.make_jaxpr(traced)(1.0))
    thread.start()
    entered.wait(10)
    assert type(f(1.0)) is ArrayImpl and exceptional
    leave.set()
    thread.join()
    assert found == ["Tracer"] and exceptional == []
