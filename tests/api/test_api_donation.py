"""Donated arguments: their memory is reused where nobody else can see it, and using them afterwards is an error."""

from __future__ import annotations

import gc
import operator
import pickle
import sys
import threading
import tracemalloc
from collections import namedtuple
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from compiler_tools import needs_numba

import functad
import functad.numpy as jnp
from functad.api import arguments, dispatch
from functad.array import consume
from functad.config import config
from functad.errors import DonatedArrayError, TooLargeError

jit = functad.jit
State = namedtuple("State", "params count")


def address(x):
    return np.asarray(x).__array_interface__["data"][0]


def fresh(n=1000, value=1.0):
    return jit(lambda: jnp.full(n, value, np.float32))()


@needs_numba
def test_the_memory_is_reused_call_after_call():
    step = jit(lambda p, g: p - 0.5 * g, donate_argnums=0)
    p, g = fresh(), np.ones(1000, np.float32)
    where = address(p)
    for i in range(4):
        p = step(p, g)
        assert address(p) == where and p[0] == 1 - 0.5 * (i + 1) and not np.asarray(p).flags.writeable


@needs_numba
def test_a_pytree_is_donated_leaf_by_leaf():
    def step(state, x):
        params = {k: v + x for k, v in state.params.items()}
        return State(params, state.count + 1)

    f = jit(step, donate_argnames="state")
    state = State({"w": fresh(), "b": fresh(10)}, jit(lambda: jnp.int32(0))())
    for call in ("positional", "positional", "keyword", "keyword"):
        before = state
        where = [address(state.params["w"]), address(state.params["b"])]
        state = f(state, 2.0) if call == "positional" else f(state=state, x=2.0)
        assert [address(state.params["w"]), address(state.params["b"])] == where
        with pytest.raises(DonatedArrayError, match=r"argument `state.params\['w'\]` of step was donated"):
            before.params["w"] + 1
    assert state.count == 4 and state.params["w"][0] == 9


@pytest.mark.parametrize(
    "use",
    [
        np.asarray, float, bool, pickle.dumps, jnp.sin, lambda x: x + 1, lambda x: x[0], lambda x: x.sum(), list,
        lambda x: x.tolist(), lambda x: jit(lambda y: y)(x), lambda x: functad.grad(lambda y: y.sum())(x),
        lambda x: jit(lambda y: y, donate_argnums=0)(x), lambda x: jit(lambda y: y + x)(1.0), lambda x: x == x,
        lambda x: x.at[0].set(1.0), lambda x: functad.vmap(jnp.sin)(x), lambda x: np.add(x, 1),
    ],
)  # fmt: skip
def test_every_use_afterwards_raises(use):
    x = jit(lambda: jnp.ones(1))()
    jit(lambda x: x * 2, donate_argnums=0)(x)
    with pytest.raises(DonatedArrayError, match="argument `x` of <lambda> was donated"):
        use(x)


@pytest.mark.parametrize("use", [bool, int, float, complex, operator.index])
def test_numbers_of_several_donated_elements_raise_alike(use):
    x = jit(lambda: jnp.ones(2))()
    jit(lambda x: x * 2, donate_argnums=0)(x)
    with pytest.raises(DonatedArrayError, match="argument `x` of <lambda> was donated"):
        use(x)


def test_the_names_of_many_leaves_are_worked_out_once(monkeypatch):
    def counted(fun, count):
        asked.append(count)
        return positional_names(fun, count)

    asked: list[int] = []
    leaves = [fresh(3) for _ in range(20)]
    positional_names = arguments.positional_names
    monkeypatch.setattr(arguments, "positional_names", counted)
    jit(lambda p: [x * 2 for x in p], donate_argnums=0)(leaves)
    assert 1 <= len(asked) < 4


def test_a_donated_array_prints_as_what_it_is():
    x = fresh(3)
    jit(lambda x: x * 2, donate_argnums=0)(x)
    assert f"{x}" == str(x) == "<donated Array of type f32[3]>" and len(x) == 3


def test_a_donated_array_is_deleted():
    state = {"x": fresh(), "key": functad.random.key(0)}
    new = jit(lambda s: {"x": s["x"] + 1, "key": functad.random.fold_in(s["key"], 1)}, donate_argnums=0)(state)
    assert all(leaf.is_deleted() for leaf in functad.tree.leaves(state))
    assert not any(leaf.is_deleted() for leaf in functad.tree.leaves(new))


def test_a_donated_array_still_has_its_type():
    x = fresh()
    jit(lambda x: x * 2, donate_argnums=0)(x)
    assert x.shape == (1000,) and x.dtype == np.float32 and x.ndim == 1 and x.size == 1000 and not x.weak_type


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_all_backends_consume_what_is_donated(backend):
    with config.context(default_backend=backend):
        step = jit(lambda x: x + 1, donate_argnums=0)
        for _ in range(2):
            x = fresh()
            assert step(x)[0] == 2
            with pytest.raises(DonatedArrayError, match="argument `x`"):
                x + 1


def test_numpy_arrays_are_never_changed():
    step = jit(lambda x: x + 1, donate_argnums=0)
    x = np.ones(1000, np.float32)
    for _ in range(3):
        assert step(x)[0] == 2
    assert x.flags.writeable and (x == 1).all()
    assert step(np.ones(1000, ">f4"))[0] == 2 and step(np.float32(1)) == 2 and step(1.0) == 2


@pytest.mark.parametrize(
    "see",
    [
        np.asarray, lambda x: np.asarray(x)[3:7], lambda x: memoryview(np.asarray(x)),
        lambda x: np.asarray(x).reshape(10, 100),
    ],
)  # fmt: skip
def test_memory_that_somebody_sees_is_not_reused(see):
    step = jit(lambda x: x + 1, donate_argnums=0)
    step(fresh())
    x = fresh()
    where = address(x)
    view = see(x)
    y = step(x)
    assert address(y) != where and y[0] == 2 and np.asarray(view).ravel()[0] == 1
    with pytest.raises(DonatedArrayError):
        x + 1


def test_an_array_that_does_not_own_its_memory_is_not_reused():
    base = np.ones(1000, np.float32)
    x = functad.array.ArrayImpl(base.view())
    step = jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(2):
        assert step(x)[0] == 2 and base[0] == 1
        x = functad.array.ArrayImpl(base.view())


def test_the_same_array_twice():
    both = jit(lambda x, y: (x + 1, y * 3), donate_argnums=(0, 1))
    one = jit(lambda x, y: (x + 1, y * 3), donate_argnums=0)
    for f in (both, one, both, one):
        x = fresh()
        a, b = f(x, x)
        assert a[0] == 2 and b[0] == 3 and (np.asarray(a) == 2).all() and (np.asarray(b) == 3).all()
        with pytest.raises(DonatedArrayError):
            x + 1


def test_a_donated_array_that_is_also_a_constant():
    x = fresh()
    f = jit(lambda y: x + y, donate_argnums=0)
    assert f(x)[0] == 2
    with pytest.raises(DonatedArrayError):
        x + 1


def test_memory_that_fits_no_result():
    shrink = jit(lambda x: x.sum(), donate_argnums=0)
    convert = jit(lambda x: x.astype(np.int32) if x.dtype == np.float32 else x, donate_argnums=0)
    for f, wanted in ((shrink, 1000), (convert, 1)):
        x = fresh()
        for _ in range(2):
            assert np.asarray(f(x)).ravel()[0] == wanted
            with pytest.raises(DonatedArrayError):
                f(x)
            x = fresh()


def test_results_that_are_the_input_or_come_from_it_in_another_shape():
    same = jit(lambda x: (x, x, x.reshape(10, 100), x + 1), donate_argnums=0)
    for _ in range(3):
        x = fresh()
        a, b, c, d = same(x)
        assert a[0] == b[0] == c[0, 0] == 1 and d[0] == 2
        arrays = [np.asarray(r) for r in (a, b, c, d)]
        assert not any(np.shares_memory(r, s) for i, r in enumerate(arrays) for s in arrays[:i])


def test_what_is_swapped_stays_right():
    swap = jit(lambda x, y: (y, x), donate_argnums=(0, 1))
    cross = jit(lambda x, y: (y + 1, x + y), donate_argnums=(0, 1))
    x, y = fresh(value=1.0), fresh(value=2.0)
    for _ in range(4):
        x, y = swap(x, y)
    assert (np.asarray(x) == 1).all() and (np.asarray(y) == 2).all()
    for _ in range(3):
        x, y = cross(x, y)
    assert (np.asarray(x) == 7).all() and (np.asarray(y) == 10).all()


def test_transposed_reads_of_donated_memory():
    f = jit(lambda x: x.T + x, donate_argnums=0)
    square = np.arange(1024.0, dtype=np.float32).reshape(32, 32)
    for _ in range(2):
        np.testing.assert_array_equal(f(jnp.asarray(square)), square.T + square)


def test_within_a_trace_nothing_is_taken():
    step = jit(lambda p: p * p, donate_argnums=0)
    p = fresh()
    outer = jit(lambda p: step(p) + p)
    for _ in range(2):
        assert outer(p)[0] == 2
        assert functad.grad(lambda p: step(p).sum())(p)[0] == 2
        assert functad.vmap(step)(jnp.ones((2, 3)))[0, 0] == 1
    assert p[0] == 1


@pytest.mark.parametrize("options", [{"disable_jit": True}, {"debug_nans": True}])
def test_while_debugging_nothing_is_taken(options):
    step = jit(lambda p: p + 1, donate_argnums=0)
    p = fresh()
    with config.context(**options):
        assert step(p)[0] == 2 and step(p)[0] == 2
    assert p[0] == 1


def test_a_failed_call_takes_nothing():
    step = jit(lambda p, g: p - g, donate_argnums=0)
    p = fresh()
    step(fresh(), fresh())
    with pytest.raises(functad.errors.ShapeError):
        step(p, np.ones(3, np.float32))
    with pytest.raises(functad.errors.DTypeError):
        step(p, "text")
    assert p[0] == 1


@needs_numba
def test_compiled_stages_donate_too():
    compiled = jit(lambda p, g: p - g, donate_argnums=0).lower(fresh(), fresh()).compile()
    for _ in range(2):
        p = fresh()
        where = address(p)
        q = compiled(p, fresh())
        assert address(q) == where and q[0] == 0
        with pytest.raises(DonatedArrayError, match="argument `p` of <lambda>"):
            p + 1


def test_the_memory_plan_tells_what_is_reused():
    plan = jit(lambda p, g: p - g, donate_argnums=0).lower(fresh(), fresh()).memory_plan
    assert "result 0 takes the memory of input_a" in str(plan)


@needs_numba
def test_a_steady_step_allocates_only_what_cannot_be_reused():
    def loss(params, x, y):
        h = jnp.maximum(x @ params["w1"] + params["b1"], 0)
        return ((h @ params["w2"] + params["b2"] - y) ** 2).mean()

    @jit
    def initial():
        shapes = {"w1": (64, 256), "b1": (256,), "w2": (256, 32), "b2": (32,)}
        return {k: jnp.full(s, 0.01, np.float32) for k, s in shapes.items()}

    def update(params, momentum, x, y):
        value, grads = functad.value_and_grad(loss)(params, x, y)
        momentum = {k: 0.9 * momentum[k] + grads[k] for k in grads}
        return {k: params[k] - 0.1 * momentum[k] for k in grads}, momentum, value

    step = jit(update, donate_argnums=(0, 1))
    params, momentum = initial(), initial()
    x, y = np.ones((128, 64), np.float32), np.zeros((128, 32), np.float32)
    for _ in range(3):
        params, momentum, value = step(params, momentum, x, y)
    where = {k: address(v) for k, v in params.items()}
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(5):
            start = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            params, momentum, value = step(params, momentum, x, y)
            grown = tracemalloc.get_traced_memory()[1] - start
            assert grown < 8192, f"{grown} bytes: Python objects take some, the smallest matrix would take 32768"
    finally:
        tracemalloc.stop()
    assert {k: address(v) for k, v in params.items()} == where and np.isfinite(value)


def _rows_and_their_sums(x, y, z, w):
    v = jnp.tanh(w)
    return x + y + v, jnp.sum(x, 1) + jnp.sum(v, 1)


def _choices_and_their_sums(x, y, z, w):
    v = jnp.tanh(w)
    return v, jnp.sum(jnp.where(x > y, z, x)), jnp.sum(jnp.where(v > y, z, v))


@pytest.mark.parametrize(("fun", "shape"), [(_rows_and_their_sums, (64, 40)), (_choices_and_their_sums, (300,))])
def test_sums_are_the_same_to_the_bit_whether_or_not_memory_is_reused(fun, shape):
    random = np.random.default_rng(0)
    plain, reusing = jit(fun), jit(fun, donate_argnums=0)
    for _ in range(10):
        x, *others = (random.standard_normal(shape).astype(np.float32) for _ in range(4))
        for given, wanted in zip(reusing(jnp.array(x), *others), plain(jnp.array(x), *others), strict=True):
            np.testing.assert_array_equal(given, wanted, strict=True)


NO_MEMORY = {  # what a call needs before its first kernel runs, and cannot have
    "temporary": (lambda w, x: jnp.sort(jnp.broadcast_to(x[0], (1 << 26, 1 << 26)) * w[0])[0, 0], np.ones(1, "f4")),
    "copy of an argument": (lambda w, x: x[0] * w[0], np.broadcast_to(np.float32(1), (1 << 48,))),
}


@needs_numba
@pytest.mark.parametrize("name", NO_MEMORY)
def test_without_memory_to_start_donated_arguments_keep_their_elements(name):
    needs, x = NO_MEMORY[name]

    def step(state, x):
        w, again, array = state
        return w + 1, again + 2, array + 3, needs(w, x)

    w, seen = fresh(), fresh()
    view = np.asarray(seen)
    array = np.ones(3, np.float32)
    call = jit(step, donate_argnums=0)
    for _ in range(3):
        with pytest.raises(TooLargeError, match="temporary arrays, for which there is no memory") as found:
            call((w, seen, array), x)
        assert type(found.value) is TooLargeError
        for kept in (w, seen):
            assert not np.asarray(kept).flags.writeable and float(jnp.sum(kept)) == 1000
        with pytest.raises(TooLargeError):
            call((w, w, array), x)
    assert np.all(view == 1) and np.all(array == 1)
    where = address(w)
    assert address(jit(lambda w: w * 2, donate_argnums=0)(w)) == where


@needs_numba
def test_a_donated_argument_without_memory_for_its_copy_keeps_its_elements():
    huge = functad.array.ArrayImpl(np.broadcast_to(np.float32(1), (1 << 48,)))
    w = fresh()
    call = jit(lambda x, w: (x[0] + w[0], w + 1), donate_argnums=(0, 1))
    for _ in range(2):
        with pytest.raises(TooLargeError):
            call(huge, w)
        assert huge[0] == 1 and w[0] == 1


@needs_numba
def test_a_thread_that_reads_an_array_while_it_is_donated_does_not_see_the_result(monkeypatch):
    def read():
        with suppress(DonatedArrayError):
            seen.append(np.asarray(x))

    def interrupted(*args):
        if x is not None:
            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
        return empty(*args)

    x, seen = None, []
    empty = dispatch.aligned_empty
    monkeypatch.setattr(dispatch, "aligned_empty", interrupted)
    step = jit(lambda x: (x + 1, x * 2), donate_argnums=0)
    step(fresh(1 << 16))
    x = fresh(1 << 16)
    y, z = step(x)
    assert y[0] == z[0] == 2 and all((array == 1).all() for array in seen)


def test_an_array_that_is_donated_while_a_call_keeps_its_copy_stays_donated():
    class Copy(np.ndarray):
        def setflags(self, write):
            consume(x, "argument `x` of f")  # what another thread may do here

    x = fresh()
    dispatch.keep_copies([x], [np.ones(1000, np.float32).view(Copy)])
    with pytest.raises(DonatedArrayError):
        x + 1


@pytest.mark.parametrize("made", [jnp.array, jnp.copy])
def test_a_copy_is_donated_without_its_original(made):
    x = jnp.ones(3)
    y = made(x)
    assert y is not x and jnp.array(x, copy=False) is x
    functad.jit(lambda x: x + 1, donate_argnums=0)(y)
    assert np.array_equal(x, np.ones(3)) and y.is_deleted()


@pytest.mark.parametrize("made", [jnp.array, partial(jnp.asarray, copy=True)])
def test_a_copy_of_what_holds_an_array_is_donated_without_it(made):
    class Parameter:
        value = jnp.ones(3)

        def __jax_array__(self):
            return self.value

    functad.jit(lambda x: x + 1, donate_argnums=0)(made(Parameter()))
    assert np.array_equal(Parameter.value, np.ones(3))
    assert jnp.asarray(Parameter()) is Parameter.value


@pytest.mark.parametrize("how", ["consume", "jit"])
def test_at_no_moment_does_another_thread_take_a_name_for_elements(how):
    """A trace function looks between all operations of Python's, as a thread might."""
    x = jnp.ones(3)
    step = functad.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(2):
        step(jnp.ones(3))
    seen = []

    def look(frame, event, arg):
        frame.f_trace_opcodes = True
        try:
            seen.append(type(x._value))
        except DonatedArrayError:
            seen.append(DonatedArrayError)
        return look

    tracer = sys.gettrace()
    sys.settrace(look)
    try:
        consume(x, "argument `x` of f") if how == "consume" else step(x)
    finally:
        sys.settrace(tracer)
    assert set(seen) == {np.ndarray, DonatedArrayError}
