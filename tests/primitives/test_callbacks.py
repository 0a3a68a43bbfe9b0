"""pure_callback and io_callback: un-jitted, interpreted and compiled, in loops and branches, under every transform."""

from __future__ import annotations

import math
import threading

import numba
import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.editing.dead_code import eliminate_dead_code
from functad.errors import (
    ArgumentError,
    BatchingError,
    CallbackError,
    DifferentiationError,
    DTypeError,
    NoRuleError,
)
from functad.ir import has_effects
from functad.optimize.pipeline import simplify

jit, vmap, grad = functad.jit, functad.vmap, functad.grad
SCALAR = functad.ShapeDtypeStruct((), np.float32)
METHODS = ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized"]

RUNS = {
    "un-jitted": lambda f: f,
    "interpreter": lambda f: jit(f, backend="interpreter"),
    "cpu": lambda f: jit(f, backend="cpu"),
}


@pytest.fixture(params=RUNS)
def run(request):
    """How a function runs: as it stands, or jitted for a backend."""
    return RUNS[request.param]


def host_sin(x, vmap_method=None):
    return functad.pure_callback(np.sin, functad.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method=vmap_method)


@numba.njit
def running_total(x):
    total = np.zeros_like(x)
    for i in range(len(x)):
        total[i] = x[i] + (total[i - 1] if i else 0)
    return total


def test_what_numba_compiled_is_a_callback(run):
    def f(x):
        return functad.pure_callback(
            running_total, functad.ShapeDtypeStruct((3,), x.dtype), x, vmap_method="sequential"
        )

    assert run(f)(jnp.arange(3.0)).tolist() == [0, 1, 3]
    assert run(vmap(f))(jnp.ones((2, 3))).tolist() == [[1, 2, 3]] * 2


class Recorder:
    """A function that remembers what it was called with, and returns the number of the call."""

    def __init__(self):
        self.seen = []

    def __call__(self, x):
        self.seen.append(float(x))
        return np.float32(len(self.seen))

    def __bool__(self):
        return True


# --- calls --------------------------------------------------------------------------------------------------


def test_results_of_python_take_part_in_the_computation(run):
    x = np.linspace(0, 1, 1000, dtype=np.float32).reshape(50, 20)
    found = run(lambda x: host_sin(x * 2.0) + jnp.cos(x))(x)
    np.testing.assert_allclose(found, np.sin(2 * x) + np.cos(x), rtol=1e-6)


def test_pytrees_go_in_and_out(run):
    def fun(d, k):
        assert isinstance(d["a"], functad.Array) and k.shape == (2,)
        return {"sum": d["a"] + d["b"][0], "pair": (np.asarray(k) * 2, np.bool_(True))}

    types = {"sum": SCALAR, "pair": (functad.ShapeDtypeStruct((2,), np.int32), functad.ShapeDtypeStruct((), bool))}
    f = run(lambda a, b, k: functad.pure_callback(fun, types, {"a": a, "b": [b]}, k=k))
    found = f(np.float32(1), np.float32(2), np.array([3, 4], np.int32))
    assert found["sum"] == 3 and found["pair"][0].tolist() == [6, 8] and found["pair"][1].dtype == bool


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "float64", "complex64"])
def test_every_dtype_passes(run, dtype):
    x = np.array([0, 1, 2], dtype)
    given = []

    def fun(x):
        given.append(np.asarray(x))
        return np.asarray(x)[::-1]

    out = run(lambda x: functad.pure_callback(fun, functad.ShapeDtypeStruct((3,), dtype), x))(x)
    assert out.dtype == x.dtype and out.tolist() == x[::-1].tolist()
    assert given[0].dtype == x.dtype and given[0].tolist() == x.tolist()


def test_arrays_without_elements_pass(run):
    empty = functad.ShapeDtypeStruct((0, 3), np.float32)
    out = run(lambda x: functad.pure_callback(lambda x: x, empty, x))(np.zeros((0, 3), np.float32))
    assert out.shape == (0, 3)


def test_functions_without_arguments_and_without_results(run):
    calls = []

    def f():
        functad.io_callback(lambda: calls.append(1), None)
        return functad.pure_callback(lambda: 2.5, SCALAR)

    assert run(f)() == 2.5 and calls == [1]


def test_what_the_function_gets_is_a_copy_that_it_may_keep(run):
    kept = []
    f = run(lambda x: lax.fori_loop(0, 3, lambda i, c: (functad.io_callback(kept.append, None, c), c + 1)[1], x))
    f(np.zeros(2, np.float32))
    assert [k.tolist() for k in kept] == [[0, 0], [1, 1], [2, 2]]


def test_what_the_function_returns_stays_its_own(run):
    own = np.ones(3, np.float32)
    f = run(lambda: functad.pure_callback(lambda: own, functad.ShapeDtypeStruct((3,), np.float32)))
    out = f()
    own[:] = 7
    assert out.tolist() == [1, 1, 1]


def test_default_results_of_python_and_numpy_are_narrowed(run):
    f = run(lambda f: functad.pure_callback(lambda x: math.sin(x), SCALAR, f))
    assert f(1.0).dtype == np.float32
    g = run(lambda f: functad.pure_callback(lambda x: np.float64(1) / 3, SCALAR, f))
    assert g(1.0) == np.float32(1 / 3)


def test_functad_runs_within_a_callback(run):
    inner = jit(lambda x: jnp.sin(x) * 2)
    f = run(lambda x: functad.pure_callback(lambda y: inner(y) + grad(jnp.sin)(y), SCALAR, x) + 1)
    np.testing.assert_allclose(f(1.0), 2 * np.sin(1) + np.cos(1) + 1, rtol=1e-6)


def test_a_compiled_function_calls_itself_by_a_callback():
    @jit
    def factorial(n):
        step = functad.ShapeDtypeStruct((), np.int32)
        rest = functad.pure_callback(lambda n: factorial(n - 1) if n > 1 else np.int32(1), step, n)
        return rest * n

    assert factorial(np.int32(6)) == 720


# --- errors -------------------------------------------------------------------------------------------------


def test_the_exception_of_the_function_is_the_cause(run):
    def fails(x):
        raise KeyError("nothing there")

    with pytest.raises(CallbackError, match=r"pure_callback at .*test_callbacks.py.*fails raised KeyError") as info:
        run(lambda x: functad.pure_callback(fails, SCALAR, x) * 2)(1.0)
    assert isinstance(info.value.__cause__, KeyError)


def test_a_loop_ends_when_a_call_in_it_raises(run):
    seen = []

    def fails(i):
        seen.append(int(i))
        if i == 3:
            raise ValueError("enough")
        return np.bool_(True)

    def f(x):
        goes_on = functad.ShapeDtypeStruct((), bool)
        return lax.while_loop(lambda c: functad.io_callback(fails, goes_on, c), lambda c: c + 1, x)

    f = run(f)
    for _ in range(2):  # a run that was cut short leaves no trace in the next one
        seen.clear()
        with pytest.raises(CallbackError, match="enough"):
            f(0)
        assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_passes_as_it_is(run, error):
    def stop(x):
        raise error

    with pytest.raises(error):
        run(lambda x: functad.pure_callback(stop, SCALAR, x))(1.0)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (np.ones(3, np.float32), r"returned f32\[3\] as result 0, but .* announces f32\[\]; reshape it"),
        (np.int32(1), r"returned i32\[\] .* convert it, `.astype\('float32'\)`"),
        (1j, r"returned c128\[\]"),
        ((1.0,), "structure"),
        (None, "structure"),
    ],
)
def test_results_that_were_not_announced_raise(run, result, words):
    with pytest.raises(CallbackError, match=words):
        run(lambda x: functad.pure_callback(lambda x: result, SCALAR, x))(1.0)


def test_wrong_arguments_are_named():
    with pytest.raises(ArgumentError, match="vmap_method must be one of .*'sequential'.* but is 'all'"):
        functad.pure_callback(np.sin, SCALAR, 1.0, vmap_method="all")
    with pytest.raises(ArgumentError, match="expects a function"):
        functad.io_callback(3, None)

    def looked_up(table, place):
        return table[place]

    with pytest.raises(DTypeError, match=r"pure_callback: argument `place\['row'\]` of looked_up is 'text'"):
        functad.pure_callback(looked_up, SCALAR, 1.0, place={"row": "text"})
    with pytest.raises(DTypeError, match=r"result_shape_dtypes\['a'\]"):
        functad.pure_callback(np.sin, {"a": "float32"}, 1.0)


# --- effects ------------------------------------------------------------------------------------------------


def test_io_runs_as_often_as_it_is_written_and_in_order(run):
    seen = Recorder()

    def f(x):
        functad.io_callback(seen, SCALAR, x)  # not used
        functad.io_callback(seen, SCALAR, x)  # equal to the first
        lax.cond(x > 0, lambda: functad.io_callback(seen, SCALAR, x + 10), lambda: np.float32(0))
        total = lax.fori_loop(0, 20, lambda i, c: c + functad.io_callback(seen, SCALAR, x + 100), np.float32(0))
        lax.scan(
            lambda c, _: (c, functad.io_callback(seen, SCALAR, c)), x + 1000, None, length=3
        )  # nothing of it is used
        jit(lambda: functad.io_callback(seen, SCALAR, np.float32(5)))()
        return total

    found = run(f)(np.float32(1))
    assert seen.seen == [1.0, 1.0, 11.0, *[101.0] * 20, *[1001.0] * 3, 5.0]
    assert found == sum(range(4, 24))


def test_pure_calls_that_are_not_needed_are_dropped_and_equal_ones_shared():
    def f(x):
        functad.pure_callback(np.cos, SCALAR, x)
        return functad.pure_callback(np.sin, SCALAR, x) + functad.pure_callback(np.sin, SCALAR, x)

    program = simplify(functad.make_jaxpr(f)(1.0))
    assert [e.primitive.name for e in program.eqns] == ["pure_callback", "add"]


def test_loops_with_effects_are_kept_and_lose_what_nobody_needs():
    def f(x):
        def step(carry, _):
            a, b = carry
            functad.debug.print("{}", a)
            return (a + 1, b * 2), b

        lax.scan(step, (x, x), None, length=50)
        return x

    program = eliminate_dead_code(functad.make_jaxpr(f)(1.0))
    (loop,) = program.eqns
    assert has_effects(loop) and len(loop.outvars) == 1 and loop.params["num_carry"] == 1
    optimized = jit(f).lower(1.0).optimized
    assert [e.primitive.name for e in optimized.eqns if has_effects(e)] == ["scan"]


def test_invariant_effects_stay_in_their_loop(run):
    seen = Recorder()
    run(lambda x: lax.fori_loop(0, 50, lambda i, c: c + functad.io_callback(seen, SCALAR, x), np.float32(0)))(2.0)
    assert seen.seen == [2.0] * 50


def test_a_changed_pass_that_forgets_effects_is_noticed(monkeypatch):
    monkeypatch.setattr("functad.editing.dead_code.has_effects", lambda eqn: False)
    program = functad.make_jaxpr(lambda x: (functad.io_callback(np.sin, SCALAR, x), x)[1])(1.0)
    assert len(program.eqns) == 1 and not eliminate_dead_code(program).eqns


# --- vmap ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_vmap_methods_give_the_same(run, method):
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones(3, np.float32)
    shapes = []

    def add(x, y):
        shapes.append((x.shape, y.shape))
        return np.add(x, y)

    def f(x, y):
        return functad.pure_callback(add, functad.ShapeDtypeStruct((3,), np.float32), x, y, vmap_method=method)

    np.testing.assert_array_equal(run(vmap(f, in_axes=(0, None)))(x, y), x + y)
    first = {
        "expand_dims": ((4, 3), (1, 3)),
        "broadcast_all": ((4, 3), (4, 3)),
        "legacy_vectorized": ((4, 3), (3,)),
    }.get(method, ((3,), (3,)))
    assert set(shapes) == {first}


@pytest.mark.parametrize("method", METHODS[:4])
def test_nested_vmaps_over_any_axes(run, method):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    y = np.arange(8, dtype=np.float32).reshape(4, 2)

    def f(a, b):
        return functad.pure_callback(lambda a, b: np.asarray(a * 10 + b, np.float32), SCALAR, a, b, vmap_method=method)

    mapped = vmap(vmap(vmap(f, (0, None)), (1, None), 1), (2, 0))  # axes 0, then 2, then 1 of x; rows, then none, of y
    found = run(lambda x, y: vmap(mapped, (None, 1), 3)(x, y))(x, y)
    want = np.empty((4, 2, 3, 2), np.float32)
    for i, j, k, m in np.ndindex(4, 2, 3, 2):
        want[i, j, k, m] = x[j, k, i] * 10 + y[i, m]
    np.testing.assert_array_equal(found, want)


def test_vmap_of_a_loop_with_a_call(run):
    def f(x):
        return lax.scan(lambda c, _: (c + host_sin(c, "sequential"), c), x, None, length=12)[1]

    x = np.linspace(0, 1, 4, dtype=np.float32)
    want = [x]
    for _ in range(11):
        want.append(want[-1] + np.sin(want[-1]))
    np.testing.assert_allclose(run(vmap(f))(x), np.stack(want, 1), rtol=1e-5)


def test_no_examples_make_no_calls(run):
    found = run(vmap(lambda x: host_sin(x, "sequential")))(np.zeros((0, 2), np.float32))
    assert found.shape == (0, 2)


def test_io_is_mapped_one_by_one(run):
    seen = Recorder()
    out = run(vmap(lambda x: functad.io_callback(seen, SCALAR, x)))(np.array([3, 4, 5], np.float32))
    assert seen.seen == [3, 4, 5] and out.tolist() == [1, 2, 3]


def test_vmap_that_has_no_rule_says_what_to_do():
    with pytest.raises(NoRuleError, match="vmap_method="):
        vmap(host_sin)(np.ones(3, np.float32))
    with pytest.raises(BatchingError, match="ordered=False"):
        vmap(lambda x: functad.io_callback(np.sin, SCALAR, x, ordered=True))(np.ones(3, np.float32))


# --- derivatives --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["un-jitted", "jitted"])
def test_calls_cannot_be_differentiated(wrap):
    with pytest.raises(DifferentiationError, match=r"`pure_callback` at .*functad.custom_jvp"):
        grad(wrap(host_sin))(jnp.float32(1.0))
    with pytest.raises(DifferentiationError, match=r"`io_callback` at .*"):
        functad.jvp(wrap(lambda x: functad.io_callback(np.sin, SCALAR, x)), (1.0,), (1.0,))


def test_calls_of_constants_and_of_stopped_gradients_can(run):
    f = run(grad(lambda x: x * host_sin(lax.stop_gradient(x)) * host_sin(jnp.float32(2))))
    np.testing.assert_allclose(f(1.0), np.sin(1) * np.sin(2), rtol=1e-6)


@functad.custom_jvp
def smooth_sin(x):
    return host_sin(x, "expand_dims")


@smooth_sin.defjvp
def _smooth_sin_jvp(primals, tangents):
    return smooth_sin(*primals), jnp.cos(primals[0]) * tangents[0]


def test_custom_jvp_gives_a_derivative(run):
    x = np.linspace(0, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(run(vmap(grad(smooth_sin)))(x), np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(run(vmap(grad(grad(smooth_sin))))(x), -np.sin(x), rtol=1e-6)
    np.testing.assert_allclose(run(grad(lambda x: functad.checkpoint(smooth_sin)(x[0])))(x), [1, 0, 0, 0], rtol=1e-6)

    def loop(x):
        return lax.scan(lambda c, _: (smooth_sin(c), None), x, None, length=10)[0]

    def plain(x):
        return lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=10)[0]

    np.testing.assert_allclose(run(grad(loop))(1.0), grad(plain)(1.0), rtol=1e-5)


def test_io_in_a_loop_that_is_run_again_is_refused():
    def f(x):
        def step(c):
            return c[0] * functad.io_callback(lambda: np.float32(2), SCALAR), c[1] + 1

        return lax.while_loop(lambda c: c[1] < 3, step, (x, 0))[0]

    assert f(1.0) == 8
    with pytest.raises(DifferentiationError, match=r"`io_callback` at .* runs it a second time.*fori_loop"):
        grad(f)(1.0)


# --- compiled runs ------------------------------------------------------------------------------------------


def test_threads_get_their_own_results_and_exceptions():
    def odd(i):
        if i % 2:
            raise ValueError(f"{int(i)} is odd")
        return np.int32(i)

    f = jit(lambda i: functad.pure_callback(odd, functad.ShapeDtypeStruct((), np.int32), i) + 1)
    f(np.int32(0))
    wrong = []

    def work(number):
        for i in range(number, number + 40):
            try:
                if f(np.int32(i)) != i + 1 or i % 2:
                    wrong.append(i)
            except CallbackError as error:
                if f"{i} is odd" not in str(error):
                    wrong.append(i)

    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_calls_between_kernels_on_many_threads():
    n = 300_000
    x = np.linspace(0, 1, n, dtype=np.float32)
    total = functad.ShapeDtypeStruct((), np.float32)

    @jit
    def f(x):
        y = jnp.sin(x) * 2
        s = functad.pure_callback(lambda y: np.asarray(y).sum(dtype=np.float64), total, y)
        return jnp.cos(y) * s

    want = np.cos(2 * np.sin(x)) * np.float32((2 * np.sin(x)).sum(dtype=np.float64))
    for _ in range(5):
        np.testing.assert_allclose(f(x), want, rtol=1e-4, atol=1e-6 * abs(want).max())


def test_a_result_never_takes_the_memory_that_a_later_call_reads():
    seen = []
    f = jit(lambda x: (x + 1, functad.io_callback(lambda x: seen.append(x[0].item()), None, x))[0], donate_argnums=0)
    f(jnp.full(1000, 4.0))
    assert seen == [4.0]


def test_stages_print_and_profile_without_calling():
    calls = Recorder()
    lowered = jit(lambda x: functad.io_callback(calls, SCALAR, x * 2) + x).lower(1.0)
    assert "io_callback" in str(lowered.jaxpr) and "Recorder" in str(lowered.jaxpr)
    assert any(k.kernel == "io_callback" for k in lowered.cost.kernels) and not calls.seen
    compiled = lowered.compile()
    assert compiled(1.0) == 2.0 and calls.seen == [2.0]
    assert all("callback" not in k.kernel for k in compiled.profile(1.0).kernels)


def test_kernels_as_plain_python_call_too(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    seen = Recorder()
    f = jit(lambda x: lax.fori_loop(0, 12, lambda i, c: functad.io_callback(seen, SCALAR, c) + c, x))
    assert f(1.0) == 1 + sum(range(1, 13))
    assert len(seen.seen) == 12


def test_debug_nans_runs_calls_once():
    seen = Recorder()
    with functad.debug_nans(True):
        jit(lambda x: functad.io_callback(seen, SCALAR, x) + 1)(1.0)
    assert seen.seen == [1.0]
