"""Derivatives of loops of unknown length on the CPU backend: compiled, as plain Python and interpreted, all the same.

Knows `while_loop` and `fori_loop` with bounds that are values; expects what a loop of Python gives.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cpu_program_tools import check_plain, compare
from fuzz.kernels import OpenExecutable

import functad
import functad.numpy as jnp
from functad import grad, hessian, interpreter, jacfwd, jacrev, jit, jvp, lax, value_and_grad, vmap
from functad.backends.cpu.runtime import layout as runtime_words
from functad.backends.cpu.runtime.tape import runtime
from functad.config import config
from functad.errors import ArgumentError, NoRuleError
from functad.evaluation import aval_of
from functad.ir import Program
from functad.optimize.pipeline import inline_calls, simplify
from functad.tracing import trace_to_program
from functad.tree_util import tree_leaves

pytestmark = pytest.mark.generated(every=6)  # tables of shapes, dtypes and ways

F64 = functools.partial(jnp.array, dtype=np.float64)
MATRIX = np.array([[0.9, -0.3, 0.2], [0.1, 0.8, -0.4], [0.3, 0.2, 1.1]])
VECTOR = np.array([0.5, -0.2, 0.9])


def traced(fun: Callable[..., Any], args: Sequence[Any]) -> Program:
    return trace_to_program(lambda *xs: tree_leaves(fun(*xs)), [aval_of(jnp.asarray(a)) for a in args])


def check(fun: Callable[..., Any], *args: Any, plain: bool = True) -> list[np.ndarray]:
    """Results of the compiled Program, which are the interpreter's, with one thread and with two."""
    arrays = [np.asarray(jnp.asarray(a)) for a in args]
    program = traced(fun, arrays)
    expected = [np.array(x) for x in interpreter.compile_program(program)(arrays)]
    optimized = simplify(program)
    run = OpenExecutable(optimized)
    if plain:
        check_plain(optimized, arrays, [False] * len(arrays), lowered=run)
    found: list[np.ndarray] = []
    for threads in (1, 2, 2):
        with config.context(num_threads=threads):
            found = run([np.array(a) for a in arrays])
        for k, (got, wanted) in enumerate(zip(found, expected)):
            compare(wanted, got, f"result {k} with {threads} threads")
    return found


def check_against(reference: Callable[..., Any], fun: Callable[..., Any], *args: Any, plain: bool = True) -> None:
    """And they are those of an un-jitted function that uses loops of Python."""
    with config.context(disable_jit=True):
        expected = tree_leaves(reference(*args))
    for got, wanted in zip(check(fun, *args, plain=plain), expected):
        compare(np.asarray(wanted), got, "against a loop of Python")


def grow(x: Any, a: Any) -> Any:
    """The sum of squares of x, a·x + sin(x)/10, … as long as they are less than 50."""
    start = (x, x * 0)
    return lax.while_loop(lambda c: c[0] < 50, lambda c: (a * c[0] + 0.1 * jnp.sin(c[0]), c[1] + c[0] * c[0]), start)[1]


def grow_in_python(x: Any, a: Any) -> Any:
    total = x * 0
    while x < 50:
        x, total = a * x + 0.1 * jnp.sin(x), total + x * x
    return total


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value and gradient": lambda f: value_and_grad(f, (0, 1)),
    "gradient of gradient": lambda f: grad(lambda x, a: grad(f, 1)(x, a) * x, (0, 1)),
    "third": lambda f: grad(grad(grad(f, 1), 0), 1),
    "hessian": lambda f: hessian(f, (0, 1)),
    "reverse over reverse": lambda f: jacrev(jacrev(f, (0, 1)), (0, 1)),
    "forward over forward": lambda f: jacfwd(jacfwd(f, (0, 1)), (0, 1)),
    "reverse over forward": lambda f: jacrev(jacfwd(f, (0, 1)), (0, 1)),
    "jvp": lambda f: lambda x, a: jvp(f, (x, a), (x + 1, a)),
    "jvp of gradient": lambda f: lambda x, a: jvp(grad(f), (x, a), (x, a + 1)),
    "gradient of jit": lambda f: grad(jit(grad(jit(f), 1))),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_a_loop(name: str) -> None:
    transform = TRANSFORMS[name]
    for start in (F64(1.5), F64(60.0)):  # several steps, none
        check_against(transform(grow_in_python), transform(grow), start, F64(1.3))


def test_examples_with_trip_counts_of_their_own() -> None:
    xs = np.array([1.5, 40.0, 60.0, 2.0])
    for one, fun in (
        (grad(grow_in_python), grad(grow)),
        (grad(grad(grow_in_python)), grad(grad(grow))),
        (grad(grad(grad(grow_in_python), 1)), grad(grad(grad(grow), 1))),
    ):
        check_against(lambda v, a, one=one: jnp.stack([one(x, a) for x in v]), vmap(fun, (0, None)), F64(xs), F64(1.3))
    total = grad(lambda v, a: jnp.sum(vmap(grad(grow, 1), (0, None))(v, a)), (0, 1))
    for got, argument in zip(check(total, xs, F64(1.2)), (0, 1)):
        each = np.array([float(grad(grad(grow, 1), argument)(F64(x), F64(1.2))) for x in xs])
        compare(each if got.ndim else each.sum(), got, "one example at a time")
    both = np.stack([xs, xs + 1])
    check(vmap(vmap(grad(grow), (0, None)), (0, None)), both, F64(1.2))
    check(grad(lambda v, a: jnp.sum(vmap(grow, (0, None))(v, a))), xs, F64(1.2))


def norm_limited(x: Any, w: Any, limit: Any) -> Any:
    """x → tanh(W x) + x/2, as often as `limit` says: the old state, a matrix and a counter go along."""

    def step(state: Any) -> Any:
        i, v, old, m = state
        return i + 1, jnp.tanh(w @ v) + 0.5 * v, v, m @ w * 0.7 + jnp.outer(v, old)

    _, v, old, m = lax.while_loop(lambda s: s[0] < limit, step, (0, x, x * 2, w))
    return jnp.sum(v * v) + jnp.sum(old) + jnp.sum(m * m)


def norm_limited_in_python(x: Any, w: Any, limit: Any) -> Any:
    v, old, m = x, x * 2, w
    for _ in range(int(limit)):
        v, old, m = jnp.tanh(w @ v) + 0.5 * v, v, m @ w * 0.7 + jnp.outer(v, old)
    return jnp.sum(v * v) + jnp.sum(old) + jnp.sum(m * m)


@pytest.mark.parametrize("limit", [0, 1, 2, 17, 40])
def test_matrices_and_integers_in_the_carry(limit: int) -> None:
    args = (VECTOR, MATRIX, np.int32(limit))
    check_against(value_and_grad(norm_limited_in_python, (0, 1)), value_and_grad(norm_limited, (0, 1)), *args)
    if limit <= 2:
        check_against(hessian(norm_limited_in_python), hessian(norm_limited), *args)


def test_thousands_of_steps() -> None:
    def decay(x: Any, limit: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < limit, lambda s: (s[0] + 1, s[1] * jnp.cos(s[1] * 0.01)), (0, x))[1]

    x = np.array(2.0)
    wanted, factor = x, 1.0
    for _ in range(5000):
        factor *= np.cos(wanted * 0.01) - 0.01 * wanted * np.sin(wanted * 0.01)
        wanted = wanted * np.cos(wanted * 0.01)
    value, slope = check(value_and_grad(decay), x, np.int32(5000), plain=False)
    assert np.isclose(value, wanted, rtol=1e-12) and np.isclose(slope, factor, rtol=1e-10)


def test_memory_is_used_again() -> None:
    fun = value_and_grad(norm_limited, (0, 1))
    args = [VECTOR, MATRIX, np.int32(0)]
    run = OpenExecutable(simplify(traced(fun, args)))
    for limit in (3, 40, 2, 0, 39, 300, 1):
        found = run([VECTOR, MATRIX, np.array(limit, np.int32)])
        for got, wanted in zip(found, tree_leaves(fun(VECTOR, MATRIX, np.int32(limit)))):
            compare(np.asarray(wanted), got, f"{limit} steps")
    (context,) = run.executable._free
    addresses = [int(context.slots[slot]) for slot in run.executable.plan.stacks]
    run([VECTOR, MATRIX, np.array(299, np.int32)])
    assert addresses and addresses == [int(context.slots[slot]) for slot in run.executable.plan.stacks]


def inner(x: Any, a: Any) -> Any:
    return lax.while_loop(lambda v: v < 20 + a, lambda v: v * a + 0.3 * jnp.sin(v), x)


def inner_in_python(x: Any, a: Any) -> Any:
    while x < 20 + a:
        x = x * a + 0.3 * jnp.sin(x)
    return x


def nested(x: Any, a: Any) -> Any:
    return lax.while_loop(lambda v: v < 500, lambda v: inner(v * 0.1, a) + v, x)


def nested_in_python(x: Any, a: Any) -> Any:
    while x < 500:
        x = inner_in_python(x * 0.1, a) + x
    return x


def branched(x: Any, a: Any) -> Any:
    return lax.cond(x > 1, lambda v: inner(v, a) * a, lambda v: inner(v + 1, a) - v, x)


def branched_in_python(x: Any, a: Any) -> Any:
    return inner_in_python(x, a) * a if x > 1 else inner_in_python(x + 1, a) - x


TEN = np.array([1.5, 30.0, 2.0, 0.7, 19.0, 5.0, 1.0, 1.2, 1.9, 2.2])
ORDERS = (lambda f: value_and_grad(f, (0, 1)), lambda f: grad(grad(f, 1), 1))


def test_loops_in_loops() -> None:
    def around_scan(x: Any, a: Any) -> Any:
        def step(v: Any) -> Any:
            return lax.scan(lambda c, y: (c * a + y, c), v, jnp.arange(10.0) * v)[0]

        return lax.while_loop(lambda v: v < 1e6, step, x)

    def around_scan_in_python(x: Any, a: Any) -> Any:
        while x < 1e6:
            start = x
            for k in range(10):
                x = x * a + k * start
        return x

    for order in ORDERS:
        check_against(order(nested_in_python), order(nested), F64(1.5), F64(1.3))
        check_against(order(around_scan_in_python), order(around_scan), F64(1.5), F64(1.3))
    check(vmap(grad(nested), (0, None)), TEN, F64(1.3))
    check(grad(lambda x, a: jnp.sum(lax.map(lambda y: grad(inner)(y, a), x))), TEN, F64(1.3))


def test_loops_in_scans_and_branches() -> None:
    def scanned(xs: Any, a: Any) -> Any:
        return lax.scan(lambda total, x: (total * 0.5 + inner(x, a), total), 0.0 * a, xs)[0]

    def scanned_in_python(xs: Any, a: Any) -> Any:
        total = 0.0 * a
        for x in jnp.asarray(xs):
            total = total * 0.5 + inner_in_python(x, a)
        return total

    for order in ORDERS:
        check_against(order(scanned_in_python), order(scanned), TEN, F64(1.4))
        for x in (F64(0.5), F64(1.5)):
            check_against(order(branched_in_python), order(branched), x, F64(1.4))
    check(vmap(grad(branched), (0, None)), TEN, F64(1.3))


def test_examples_that_have_no_use_for_a_loop_do_not_wait_for_it() -> None:
    def halved(x: Any) -> Any:  # endless where x < 0
        return lax.while_loop(lambda v: abs(v) > 1, lambda v: jnp.where(v > 0, v / 2, v), x)

    def only_positive(x: Any) -> Any:
        return lax.cond(x > 0, halved, lambda v: v * v, x)

    def in_loop(x: Any) -> Any:  # from the third step on x is negative
        return lax.while_loop(lambda v: v > 0, lambda v: only_positive(v * 3) - 0.6, x)

    xs = np.array([-4.0, 1.5, 7.0, -0.5, 40.0])
    for f in (only_positive, in_loop):
        for fun in (f, grad(f), grad(grad(f))):
            found = check(vmap(fun), xs)[0]
            compare(np.array([float(fun(F64(x))) for x in xs]), found, "one example at a time")
    shared = vmap(lambda x, y: lax.cond(x > 0, halved, lambda v: v * 2, y), (0, None))
    assert np.array_equal(check(shared, xs[::3], F64(-2.0))[0], [-4.0, -4.0])


def test_a_residual_that_stays_the_same_leaves_the_loop_around() -> None:
    def total(xs: Any, a: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            return carry + x * lax.while_loop(lambda v: v < 30, lambda v: v * a, a), None

        return lax.scan(step, 0.0 * a, xs)[0]

    check(value_and_grad(total, (0, 1)), np.linspace(0, 1, 20), F64(1.7))


def test_fori_loop_with_a_bound_that_is_a_value() -> None:
    def power(x: Any, n: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, v: v * x + i, x)

    def power_in_python(x: Any, n: Any) -> Any:
        value = x
        for i in range(int(n)):
            value = value * x + i
        return value

    for n in (0, 1, 5):
        for order in (value_and_grad, lambda f: grad(grad(f))):
            check_against(order(power_in_python), order(power), F64(1.1), np.int32(n))


def test_at_most_so_many_steps() -> None:
    def doubled(x: Any, most: Any = None) -> Any:
        return lax.while_loop(lambda v: v < 100, lambda v: v * v + 1, x, max_steps=most)

    for most in (0, 1, 2, 3, 30):
        wanted, slope, steps = 2.0, 1.0, 0
        while wanted < 100 and steps < most:
            wanted, slope, steps = wanted * wanted + 1, slope * 2 * wanted, steps + 1
        value, found = check(value_and_grad(lambda x, most=most: doubled(x, most)), F64(2.0))
        assert value == wanted and found == slope
        assert doubled(2.0, most) == wanted
        with config.context(disable_jit=True):
            assert doubled(2.0, most) == wanted
    mapped = vmap(lambda x: doubled(x, 2))(jnp.array([1.0, 50.0, 200.0]))
    assert np.array_equal(np.asarray(mapped), [5.0, 2501.0, 200.0])
    for wrong in (-1, 2.5, True, 1 << 31):
        with pytest.raises(ArgumentError, match="max_steps must be None or an int"):
            doubled(2.0, wrong)
    with pytest.raises(ArgumentError, match="max_steps"):
        jit(lambda n: doubled(2.0, n))(3)


def test_two_threads_of_python_at_once() -> None:
    run = jit(grad(grow))
    arguments = [(1.0 + 0.01 * k, 1.2 + 0.01 * (k % 7)) for k in range(40)]
    expected = [np.asarray(run(*a)) for a in arguments]
    found: dict[int, list[np.ndarray]] = {}

    def work(number: int) -> None:
        found[number] = [np.asarray(run(*a)) for _ in range(5) for a in arguments]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == expected * 5


def test_no_memory_left() -> None:
    def endless(x: Any, limit: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < limit, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))[1].sum()

    x, few, many = np.ones(1 << 10), np.int32(3), np.int32(20)
    run = OpenExecutable(simplify(traced(grad(endless), [x, few])))
    expected = run([x, np.array(few)])[0]
    words = runtime().pool.words
    refuse = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)(lambda place, size: None)
    before = int(words[runtime_words.REALLOC])
    words[runtime_words.REALLOC] = ctypes.cast(refuse, ctypes.c_void_p).value
    try:
        with pytest.raises(MemoryError, match="steps"):
            run([x, np.array(many)])
    finally:
        words[runtime_words.REALLOC] = before
    gc.collect()
    assert np.array_equal(run([x, np.array(few)])[0], expected)
    assert len(run([x, np.array(many)])[0]) == len(x)


def test_the_memory_plan_tells_what_grows() -> None:
    lowered = jit(grad(norm_limited)).lower(VECTOR, MATRIX, np.int32(3))
    text = str(lowered.memory_plan)
    assert "grows: stack_" in text and "24 bytes a step" in text
    assert "grows" not in str(jit(norm_limited).lower(VECTOR, MATRIX, np.int32(3)).memory_plan)
    assert "tanh" in str(lowered.compile().profile(VECTOR, MATRIX, np.int32(3)))
    assert "tanh" in str(lowered.compile().profile(VECTOR, MATRIX, np.int32(0)))


def test_sums_of_stacks_must_be_simplified_first() -> None:
    program = traced(grad(grad(grad(grow))), [F64(1.5), F64(1.3)])
    with pytest.raises(NoRuleError, match="length only a run tells"):
        OpenExecutable(inline_calls(program))


def test_a_wrong_derivative_is_found() -> None:
    with pytest.raises(AssertionError, match="against a loop of Python"):
        check_against(grad(lambda x, a: 1.001 * grow_in_python(x, a)), grad(grow), F64(1.5), F64(1.3))
    assert functad.grad(grow)(1.5, 1.3).dtype == np.float32
