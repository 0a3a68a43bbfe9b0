"""Loops and branches on the CPU backend: compiled, as plain Python and interpreted they give the same.

Knows `scan`, `while_loop` and `cond`, and where the carry of a loop can come from.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cpu_program_tools import check_plain, compare
from fuzz.kernels import OpenExecutable

import functad
import functad.numpy as jnp
from functad import grad, interpreter, jit, jvp, lax, machine_model, vmap
from functad.backends.cpu.lowering import CpuLowering
from functad.backends.cpu.runtime.tape import Repeat
from functad.config import config
from functad.evaluation import aval_of
from functad.ir import Program
from functad.lowering import blocks as plan
from functad.lowering.blocks import ControlPlan, leaves
from functad.lowering.steps import BranchStep
from functad.optimize.pipeline import inline_calls, simplify
from functad.tracing import trace_to_program
from functad.tree_util import tree_leaves

pytestmark = pytest.mark.generated(every=6)  # tables of shapes, dtypes and ways

F32 = np.float32
X = np.linspace(-1, 1, 12, dtype=F32).reshape(4, 3)
LONG = np.linspace(-1, 1, 120, dtype=F32).reshape(40, 3)


@pytest.fixture(autouse=True)
def on_the_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of small steps, too, run on the tape; `test_cpu_small_loops` is about those that become functions."""
    monkeypatch.setattr(machine_model, "LONGEST_SMALL_STEP", -1.0)
    monkeypatch.setattr(machine_model, "SMALLEST_SHIFTED_SLICE", 1)


def traced(fun: Callable[..., Any], args: Sequence[Any]) -> Program:
    avals = [aval_of(jnp.asarray(a)) for a in args]
    return trace_to_program(lambda *xs: tree_leaves(fun(*xs)), avals)


def check(fun: Callable[..., Any], *args: Any, donated: Sequence[bool] = ()) -> OpenExecutable:
    """Results of the compiled Program, as traced and simplified, with one thread and two, are the interpreter's."""
    arrays = [np.asarray(jnp.asarray(a)) for a in args]
    program = traced(fun, arrays)
    expected = [np.array(x) for x in interpreter.compile_program(program)(arrays)]
    for compiled in (inline_calls(program), simplify(program)):
        run = OpenExecutable(compiled, donated)
        check_plain(compiled, arrays, donated or [False] * len(arrays), lowered=run)
        found = []
        for threads in (1, 2, 2):
            with config.context(num_threads=threads):
                found.append(run([np.array(a, order="C") for a in arrays]))
        for number, results in enumerate(found):
            for k, (got, wanted, first) in enumerate(zip(results, expected, found[0])):
                compare(wanted, got, f"run {number}, result {k}")
                assert np.array_equal(got, first, equal_nan=got.dtype.kind in "fc")
    return run


# --- where the next carry comes from ------------------------------------------------------------------------


CARRIES: dict[str, tuple[Callable[..., Any], Any]] = {
    "computed": (lambda c, x: (c * 0.5 + x, None), X[0]),
    "computed, also stacked": (lambda c, x: ((n := c * 0.5 + x), n), X[0]),
    "computed, stacked twice": (lambda c, x: ((n := c * 0.5 + x), (n, n)), X[0]),
    "the old one stacked": (lambda c, x: (c * 0.5 + x, c), X[0]),
    "both stacked": (lambda c, x: ((n := c * 0.5 + x), (c, n)), X[0]),
    "itself": (lambda c, x: (c, c + x), X[0]),
    "a slice": (lambda c, x: (x, c + x), X[0]),
    "a slice, and the one before": (lambda c, x: ((x, c[0]), c[1] + x), (X[0], X[1])),
    "a constant": (lambda c, x: (jnp.asarray(X[2]), c * x), X[0]),
    "a number": (lambda c, x: (jnp.float32(2.0), c * x), F32(1)),
    "zeros": (lambda c, x: (jnp.zeros(3), c * x), X[0]),
    "swapped": (lambda c, x: ((c[1], c[0]), c[0] - x), (X[0], X[1])),
    "turned": (lambda c, x: ((c[1], c[2], c[0]), c[0] - x), (X[0], X[1], X[2])),
    "fibonacci": (lambda c, x: ((c[1], c[0] + c[1] * x), None), (X[0], X[1])),
    "fibonacci, stacked": (lambda c, x: ((c[1], (n := c[0] + c[1] * x)), n), (X[0], X[1])),
    "one value twice": (lambda c, x: (((n := c[0] + x), n), c[1]), (X[0], X[1])),
    "one value twice, read after": (lambda c, x: (((n := c[0] + x), n, c[1]), c[2]), (X[0], X[1], X[2])),
    "a tree": (lambda c, x: (((n := c[0] * x + c[3]), n, c[0], c[2]), c[3] + c[1]), (X[0], X[1], X[2], X[3])),
    "a chain behind a slice": (lambda c, x: ((x, c[0], c[1]), c[2] * x), (X[0], X[1], X[2])),
    "a chain behind a constant": (lambda c, x: ((jnp.asarray(X[3]), c[0], c[1] + x), c[2] * x), (X[0], X[1], X[2])),
    "read late": (lambda c, x: ((c[0] + x, jnp.dot(c[0], c[1]) * c[1]), c[0] - c[1]), (X[0], X[1])),
    "reversed": (lambda c, x: (c[::-1] + x, c), X[0]),
    "reversed only": (lambda c, x: (c[::-1], c + x), X[0]),
    "reshaped": (lambda c, x: ((c.reshape(3, 1) * 2).reshape(3) + x, c.reshape(1, 3)), X[0]),
    "seen as another shape": (lambda c, x: ((c[1].reshape(3), (c[0] + x).reshape(3, 1)), None), (X[0], X[:3, :1])),
    "its own product": (lambda c, x: (c + jnp.outer(x, x), None), np.eye(3, dtype=F32)),
    "two products": (lambda c, x: (c - 0.1 * (jnp.outer(x, x) + x[:, None] @ x[None]), None), np.eye(3, dtype=F32)),
    "a product of it": (lambda c, x: (c @ c * 0.1 + x, c), np.eye(3, dtype=F32)),
    "sorted": (lambda c, x: (jnp.sort(c + x), None), X[0]),
    "updated in place": (lambda c, x: (c.at[1].set(x[0]), None), X[0]),
    "integers": (lambda c, x: ((c[0] * 3 + 1, c[1] ^ (x[0] > 0)), c[0]), (np.int32(1), np.bool_(True))),
    "float64": (lambda c, x: (c * 0.5 + x.astype("float64"), c), X[0].astype(np.float64)),
    "complex": (lambda c, x: (c * (0.5 + 0.5j) + x, c), X[0].astype(np.complex64)),
    "empty": (lambda c, x: ((c[0] * 2, c[1] + x), c[0]), (np.zeros((0, 2), F32), X[0])),
}


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("case", CARRIES)
@pytest.mark.parametrize("length", [0, 1, 3, 4])
def test_a_carry_can_come_from_anywhere(case: str, length: int) -> None:
    step, init = CARRIES[case]
    leaves = tree_leaves(init)

    def fun(x: Any, *given: Any) -> Any:
        return lax.scan(step, given[0] if not isinstance(init, tuple) else given, x)

    def backwards(x: Any, *given: Any) -> Any:
        carry, ys = lax.scan(step, given[0] if not isinstance(init, tuple) else given, x, reverse=True)
        return ys, tree_leaves(carry), [leaf * 1 for leaf in given]  # the first carry is needed afterwards

    check(fun, X[:length], *leaves)
    if length in (0, 3):
        check(fun, X[:length], *leaves, donated=[True] * (1 + len(leaves)))
        check(backwards, X[:length], *leaves)


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("case", CARRIES)
def test_a_carry_of_a_while_loop_can_come_from_anywhere(case: str) -> None:
    step, init = CARRIES[case]
    leaves = tree_leaves(init)

    def fun(n: Any, x: Any, *given: Any) -> Any:
        carry = given if isinstance(init, tuple) else given[0]
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, step(s[1], x)[0]), (0, carry))

    for n in (0, 1, 2, 5):
        check(fun, np.int32(n), X[1], *leaves)
    check(fun, np.int32(3), X[1], *leaves, donated=[False, False] + [True] * len(leaves))


# --- while, cond ----------------------------------------------------------------------------------------------


def test_conditions() -> None:
    check(lambda go, x: lax.while_loop(lambda s: s[0], lambda s: (s[1].sum() < 9, s[1] + 1), (go, x)), True, X)
    check(lambda go, x: lax.while_loop(lambda s: s[0], lambda s: (s[1].sum() < 9, s[1] + 1), (go, x)), False, X)
    check(lambda x: lax.while_loop(lambda s: jnp.all(s < 3), lambda s: s + abs(s) + 0.1, x), X)
    check(lambda x, limit: lax.while_loop(lambda s: (s @ limit).max() < 9, lambda s: s * 2, x), abs(X), abs(X[0]))


@pytest.mark.parametrize("index", [-7, 0, 1, 2, 3, 9])
def test_branches(index: int) -> None:
    branches = [
        lambda x, y: (x, y, x.sum()),
        lambda x, y: (y, x, x[0, 0]),
        lambda x, y: (x * y, x @ y.T @ x, jnp.float32(3)),
        lambda x, y: (jnp.zeros_like(x), x + y, (x + y)[1, 1]),
    ]
    check(lambda i, x, y: lax.switch(i, branches, x, y), np.int32(index), X, X + 1)
    check(lambda i, x, y: lax.switch(i, branches, x * 2, y + 1), np.int32(index), X, X + 1)
    same = [lambda x, y: ((z := x * y), z), lambda x, y: (x, x), lambda x, y: (jnp.ones((4, 3)), y)]
    check(lambda i, x, y: lax.switch(i, same, x, y), np.int32(index), X, X + 1, donated=[False, True, True])


def test_a_branch_that_passes_a_temporary_on_copies_nothing() -> None:
    def fun(go: Any, x: Any, y: Any) -> Any:
        update = [lambda s, t: (s, t), lambda s, t: (s + t, t[::-1]), lambda s, t: (jnp.sort(s) * s, t)]
        return lax.switch(go, update, x @ x.T, y @ y.T)

    for index in range(3):
        check(fun, np.int32(index), X, X + 1)
    (branch,) = [s for s in lowered(fun, np.int32(0), X, X).schedule.steps if isinstance(s, BranchStep)]
    assert [len(steps) for steps in branch.branches] == [0, 3, 2]


def test_operands_change_places_in_a_branch() -> None:
    swaps = [
        lambda a, b, c: (a, b, c),
        lambda a, b, c: (b, a, c * 2),
        lambda a, b, c: (a, b + c, a),
        lambda a, b, c: (a[::-1], c, b),
        lambda a, b, c: (jnp.zeros_like(a), a, b.T.reshape(4, 4) + a),
    ]
    for chosen in ((0, 1), (0, 2), (0, 3), (0, 4), (0, 1, 2, 3, 4)):
        branches = [swaps[i] for i in chosen]
        for index in range(len(chosen)):
            check(lambda i, x, y, b=branches: lax.switch(i, b, x @ x.T, y @ y.T, x @ y.T), np.int32(index), X, X + 1)


def test_branches_without_results_or_elements() -> None:
    check(lambda p, x: lax.cond(p, lambda x: (x * 2, x[:, :0]), lambda x: (x, x[:, 3:]), x), True, X)
    check(lambda p, x: lax.cond(p, lambda x: x * 2, lambda x: x + 1, x), False, X[:, :0])
    check(lambda p, x: (lax.cond(p, lambda x: (), lambda x: (), x), x + 1), False, X)


# --- nesting ----------------------------------------------------------------------------------------------------


def rows_of_powers(x: Any) -> Any:
    def power(row: Any, k: Any) -> Any:
        return row * k, (row.sum(), row)

    def outer(total: Any, row: Any) -> Any:
        last, (sums, rows) = lax.scan(power, row, jnp.arange(1.0, 4.0))
        return total + last, (sums, rows[::-1], last)

    return lax.scan(outer, jnp.zeros(x.shape[1]), x, reverse=True)


def collatz(n: Any) -> Any:
    def step(state: Any) -> Any:
        value, count = state
        value = lax.cond(value % 2 == 0, lambda v: v // 2, lambda v: 3 * v + 1, value)
        return value, count + 1

    return lax.while_loop(lambda s: s[0] != 1, step, (n, 0))


def nested_loops(x: Any, n: Any) -> Any:
    def body(carry: Any, row: Any) -> Any:
        def inner(state: Any) -> Any:
            i, value = state
            return i + 1, lax.cond(i % 2 == 0, lambda v: v * 0.5 + row, lambda v: lax.fori_loop(0, 3, half, v), value)

        i, value = lax.while_loop(lambda s: s[0] < n, inner, (0, carry))
        return value, (i, value @ value, carry)

    def half(i: Any, v: Any) -> Any:
        return v * 0.5 + i

    return lax.scan(body, x[0], x)


def test_nesting() -> None:
    check(rows_of_powers, X)
    check(collatz, np.int32(27))
    check(lambda x: lax.map(collatz, x), np.arange(1, 12, dtype=np.int32))
    for n in (0, 1, 4):
        check(nested_loops, X, np.int32(n))
    check(lambda x: lax.fori_loop(0, 4, lambda i, v: lax.fori_loop(0, i, lambda j, w: w * 0.9 + j, v), x), X)
    check(lambda p, x: lax.cond(p, rows_of_powers, lambda x: rows_of_powers(x * 2), x), True, X)
    inner = jit(lambda a, b: (jnp.tanh(a) + b, a * b))
    check(lambda x: lax.scan(lambda c, r: inner(c, r), x[0], x), X)
    check(lambda x: lax.scan(lambda c, r: jit(lambda a, b: lax.scan(inner, a, x + b))(c, r), x[0], x), X)


# --- derivatives and batches --------------------------------------------------------------------------------------


def rnn(w: Any, u: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ w + x @ u)
        return h, h

    last, hs = lax.scan(step, jnp.zeros((xs.shape[1], w.shape[0])), xs)
    return (last * last).sum() + hs[3].sum()


def test_derivatives() -> None:
    rng = np.random.default_rng(0)
    w, u = (rng.normal(size=s).astype(F32) * 0.3 for s in ((5, 5), (3, 5)))
    xs = rng.normal(size=(40, 6, 3)).astype(F32)
    check(functad.value_and_grad(rnn, (0, 1, 2)), w, u, xs)
    check(lambda w, u, xs: jvp(lambda w: rnn(w, u, xs), (w,), (w * 2,)), w, u, xs)
    check(grad(lambda w: grad(lambda w: rnn(w, u, xs[:9]))(w).sum()), w)
    check(lambda w, x: vmap(rnn, (None, None, 0))(w, u, x), w, xs.reshape(4, 10, 6, 3))
    check(grad(lambda x: lax.cond(x.sum() > 0, lambda x: (x**2).sum(), lambda x: jnp.sin(x).prod(), x)), X + 1)
    check(grad(lambda x: rows_of_powers(x)[1][1].sum() + (rows_of_powers(x)[0] ** 2).sum()), X)
    check(lambda x: jvp(lambda v: lax.while_loop(lambda s: s.sum() < 50, lambda s: s * 1.5, v), (x,), (x,)), abs(X))
    check(vmap(lambda x: lax.while_loop(lambda s: s.sum() < 50, lambda s: s * 1.5, x)), abs(X))
    check(vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x)), X[:, 0] > 0, X)
    check(vmap(collatz), np.arange(1, 9, dtype=np.int32))


def test_the_derivative_of_a_loop_of_unknown_length() -> None:
    def square_until(x: Any, limit: Any) -> Any:
        def step(state: Any) -> Any:
            i, v, before = state
            return i + 1, jnp.sin(v) * 0.5 + x * jnp.cos(1.0 * i), v

        return lax.while_loop(lambda s: s[0] < limit, step, (0, x, x * 2))[1:]

    def twice(x: Any, limit: Any) -> Any:
        first = square_until(x, limit)[0]
        return square_until(first, limit - 1)

    for limit in (0, 1, 2, 17, 40):
        for fun in (square_until, twice):
            check(lambda x, n, fun=fun: jvp(lambda v: fun(v, n), (x,), (x + 1,)), X, np.int32(limit))
    check(vmap(lambda x, n: jvp(lambda v: square_until(v, n), (x,), (x,))), X, np.arange(4, dtype=np.int32))
    check(lambda x, n: lax.map(lambda r: jvp(lambda v: square_until(v, n), (r,), (r,)), x), X, np.int32(5))
    compiled = jit(lambda x, n: jvp(lambda v: square_until(v, n), (x,), (x,))).lower(X, np.int32(5)).compile()
    instructions = list(leaves(compiled._executable._lowering().generated.instructions))
    assert len(compiled.profile(X, np.int32(5)).kernels) == len(instructions) > 3


# --- memory -----------------------------------------------------------------------------------------------------


def lowered(fun: Callable[..., Any], *args: Any, donated: Sequence[bool] = ()) -> CpuLowering:
    return CpuLowering(simplify(traced(fun, args)), donated)


def test_the_arena_does_not_grow_with_the_length() -> None:
    def fun(x: Any) -> Any:
        return lax.scan(lambda c, r: (jnp.tanh(c @ c) + r, jnp.sort(c, axis=1).sum()), jnp.eye(3), x)

    sizes = [lowered(fun, np.ones((n, 3), F32)).memory_plan.arena_bytes for n in (40, 400, 4000)]
    assert sizes[0] == sizes[1] == sizes[2]


def test_a_carry_of_donated_memory_costs_nothing() -> None:
    def train(p: Any, xs: Any) -> Any:
        return lax.fori_loop(0, 100, lambda i, p: p - 0.1 * (p - xs), p)

    p = np.ones((50, 50), F32)
    found = lowered(train, p, p, donated=[True, False])
    assert found.memory_plan.arena_bytes <= 256
    assert found.schedule.outputs[0].storage.kind == "input"
    assert found.memory_plan.donated == [(found.schedule.inputs[0].name, "result 0")]


def test_two_loops_share_memory() -> None:
    def once(x: Any) -> Any:
        return lax.scan(lambda c, r: (jnp.dot(c, c) * 1e-3 + r, None), x, x)[0]

    x = np.ones((60, 60), F32)
    one = lowered(once, x).memory_plan.arena_bytes
    assert lowered(lambda x: once(once(x)), x).memory_plan.arena_bytes <= one + x.nbytes + 4096


def test_every_stage_prints() -> None:
    found = lowered(nested_loops, LONG, np.int32(3))
    text = str(found.schedule)
    assert "40 times" in text and "while" in text and "branch by" in text
    assert "arena:" in str(found.memory_plan) and "def " in str(found.kernels)
    profile = jit(nested_loops).lower(LONG, np.int32(3)).compile().profile(LONG, np.int32(3))
    assert "40 times" in str(profile)


def test_cost_counts_the_steps_of_a_loop() -> None:
    def fun(x: Any) -> Any:
        return lax.scan(lambda c, r: (c @ x, None), x, None, length=50)[0]

    x = np.ones((8, 8), F32)
    assert lowered(fun, x).cost.flops >= 50 * 2 * 8**3


def test_kernels_of_equal_bodies_are_written_once() -> None:
    def step(c: Any, r: Any) -> Any:
        return jnp.sort(c * 2 + r), None

    def fun(x: Any) -> Any:
        return lax.scan(step, lax.scan(step, x[0], x)[0], x + 1)[0]

    assert str(lowered(fun, LONG).kernels).count("def sort") == 1


# --- runs ---------------------------------------------------------------------------------------------------------


def test_python_threads_may_run_a_loop_at_the_same_time() -> None:
    f = jit(lambda n, x: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1][::-1] * 0.999 + 1), (0, x)))
    expected = {n: np.asarray(f(np.int32(n), LONG)[1]) for n in range(200, 230)}
    wrong = []

    def work(numbers: Sequence[int]) -> None:
        for _ in range(20):
            for n in numbers:
                if not np.array_equal(f(np.int32(n), LONG)[1], expected[n]):
                    wrong.append(n)

    threads = [threading.Thread(target=work, args=(range(start, 230, 3),)) for start in (200, 201, 202)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_large_bodies_run_on_several_threads() -> None:
    x = np.random.default_rng(0).normal(size=(300, 200)).astype(F32)
    w = np.random.default_rng(1).normal(size=(200, 200)).astype(F32) * 0.05

    def fun(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 20, lambda i, c: jnp.tanh(c[0] @ w + i) + c[1].sum(1)[:, None] * 1e-3, (x, x))

    def pair(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 20, lambda i, c: (jnp.tanh(c[0] @ w + i), jnp.tanh(c[1]) + c[0]), (x, x))

    run = OpenExecutable(simplify(traced(pair, [x, w])))
    results = []
    for threads in (1, 2):
        with config.context(num_threads=threads):
            results.append([np.array(r) for r in run([x.copy(), w])])
    assert any(b.parallel for b in _blocks(run))
    for one, two in zip(*results):
        assert np.array_equal(one, two)
    compare(interpreter.compile_program(traced(pair, [x, w]))([x, w])[0], results[0][0], "a large loop")


def test_small_bodies_run_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "available_cores", lambda: (3, "for this test"))
    monkeypatch.setattr(machine_model, "SMALLEST_SHARE", 1000.0)
    monkeypatch.setattr(machine_model, "SMALLEST_CHUNK", 100.0)
    monkeypatch.setattr(machine_model, "FEWEST_ROWS_OF_PRODUCTS", 4)
    rng = np.random.default_rng(0)
    w, u = (rng.normal(size=s).astype(F32) * 0.1 for s in ((8, 8), (4, 8)))
    xs = rng.normal(size=(12, 16, 4)).astype(F32)

    def cell(w: Any, u: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = state
            c = jnp.tanh(h @ w + x @ u) * 0.5 + c
            return (c * 0.5, c - h), h

        last, hs = lax.scan(step, (jnp.zeros((16, 8)), jnp.ones((16, 8))), xs)
        return (last[0] ** 2).sum() + (hs * hs).sum() + last[1].sum()

    run = check(functad.value_and_grad(cell, (0, 1, 2)), w, u, xs)
    loops = [item for item in run.blocks if isinstance(item, ControlPlan)]
    assert [loop.by_rows for loop in loops[:2]] == [True, True]

    def mixes_rows(w: Any, u: Any, xs: Any) -> Any:
        return lax.scan(lambda h, x: (jnp.tanh((h @ w + x @ u)[::-1]), h.sum()), jnp.zeros((16, 8)), xs)

    run = check(mixes_rows, w, u, xs)
    assert not any(item.by_rows for item in run.blocks if isinstance(item, ControlPlan))

    def changes_places(w: Any, u: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            a, b, c = state
            return (b, c, jnp.tanh(a @ w + x @ u + b)), c

        return lax.scan(step, (jnp.zeros((16, 8)), jnp.ones((16, 8)), jnp.ones((16, 8))), xs, reverse=True)

    run = check(changes_places, w, u, xs)
    assert [item.by_rows for item in run.blocks if isinstance(item, ControlPlan)] == [True]


def test_the_last_step_computes_no_carry_that_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "available_cores", lambda: (2, "for this test"))
    monkeypatch.setattr(machine_model, "SMALLEST_SHARE", 1000.0)
    monkeypatch.setattr(machine_model, "SMALLEST_CHUNK", 100.0)
    monkeypatch.setattr(machine_model, "FEWEST_ROWS_OF_PRODUCTS", 4)
    rng = np.random.default_rng(0)
    w, xs = rng.normal(size=(8, 8)).astype(F32), rng.normal(size=(12, 16, 8)).astype(F32)

    def left_out(results: Callable[..., Any]) -> list[int]:
        def fun(w: Any, xs: Any) -> Any:
            def step(state: Any, x: Any) -> Any:
                h, c = state
                out = jnp.tanh(x + h)
                return (out @ w, c + out), out

            return results(*lax.scan(step, (jnp.zeros((16, 8)), jnp.ones((16, 8))), xs))

        run = check(fun, w, xs)
        assert [item.by_rows for item in run.blocks if isinstance(item, ControlPlan)] == [True]
        repeats = [e for e in run.assembled().plan.entries if isinstance(e, Repeat)]
        return [len(r.block.instructions) - r.last for r in repeats]

    assert left_out(lambda last, outs: outs) == [1]
    assert left_out(lambda last, outs: (outs, last[1])) == [1]
    assert left_out(lambda last, outs: (outs, last[0])) == [0]
    assert left_out(lambda last, outs: (outs[0], last[0].sum())) == [0]


def _blocks(run: CpuLowering) -> list[Any]:
    return list(leaves(run.blocks))


# --- random programs ----------------------------------------------------------------------------------------------


class RandomControl:
    """A random function of small whole numbers with loops and branches: the same seed gives the same function."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = np.random.default_rng(seed)
        self.args = [rng.integers(-3, 4, (4, 3)).astype(F32) for _ in range(3)]

    def __call__(self, *args: Any) -> Any:
        self.choose = random.Random(self.seed)
        return self.block(list(args), 3, 5)

    def block(self, values: list[Any], depth: int, steps: int) -> list[Any]:
        """As many arrays as given, each made of some of them."""
        pool = list(values)
        for _ in range(steps):
            pool.append(self.operation(pool, depth))
        pick = self.choose.choices(pool[-steps - 1 :] + values[:1], k=len(values))
        return [jnp.clip(p, -50, 50) if self.choose.random() < 0.5 else jnp.rint(p * 0.25) for p in pick]

    def operation(self, pool: list[Any], depth: int) -> Any:
        choose = self.choose
        a, b = choose.choice(pool), choose.choice(pool)
        deeper = ["scan", "while", "cond"] * (2 if depth else 0)
        kind = choose.choice(["add", "mul", "flip", "where", "dot", "sort", *deeper])
        if kind == "add":
            return a + b
        if kind == "mul":
            return jnp.clip(a, -9, 9) * jnp.clip(b, -9, 9)
        if kind == "flip":
            return a[::-1] if choose.random() < 0.5 else a[:, ::-1]
        if kind == "where":
            return jnp.where(a > b, a, -b)
        if kind == "dot":
            return jnp.clip(a, -9, 9) @ jnp.clip(b, -9, 9).T @ jnp.ones((4, 3), F32)
        if kind == "sort":
            return jnp.sort(a, axis=choose.randrange(2))
        count = choose.randint(1, 3)
        carry = [choose.choice(pool) for _ in range(count)]
        seed = choose.random()
        if kind == "scan":
            return self.scan(carry, pool, depth, seed)
        if kind == "while":
            return self.loop(carry, pool, depth, seed)
        return self.cond(carry, pool, depth, seed)

    def scan(self, carry: list[Any], pool: list[Any], depth: int, seed: float) -> Any:
        length, reverse = self.choose.choice([0, 1, 2, 3, 5]), self.choose.random() < 0.5
        xs = jnp.stack([self.choose.choice(pool) for _ in range(length)]) if length else jnp.zeros((0, 4, 3), F32)

        def step(c: Any, x: Any) -> Any:
            self.choose = random.Random(seed)
            new = self.block([*c, x, pool[0]], depth - 1, self.choose.randint(1, 3))
            order = self.choose.sample(range(len(new)), len(new))
            ys = new[: self.choose.randint(0, 2)]
            return [new[i] for i in order[: len(c)]] if self.choose.random() < 0.7 else list(c), ys

        last, ys = lax.scan(step, carry, xs, reverse=reverse)
        return sum((y.sum(0) * 0.5 for y in ys), jnp.rint(last[-1]))

    def loop(self, carry: list[Any], pool: list[Any], depth: int, seed: float) -> Any:
        times = self.choose.randint(0, 4)

        def step(state: Any) -> Any:
            self.choose = random.Random(seed)
            return state[0] + 1, self.block(state[1], depth - 1, self.choose.randint(1, 3))

        return lax.while_loop(lambda s: (s[0] < times) & (s[1][0].sum() > -999), step, (0, carry))[1][-1]

    def cond(self, carry: list[Any], pool: list[Any], depth: int, seed: float) -> Any:
        def branch(number: int) -> Callable[..., Any]:
            def run(*values: Any) -> Any:
                self.choose = random.Random(seed + number)
                return self.block([*values, pool[-1]], depth - 1, number)[0]

            return run

        index = (pool[0].sum()).astype(np.int32) % 5 - 1
        return lax.switch(index, [branch(k) for k in range(3)], *carry)


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    f = RandomControl(seed)
    check(f, *f.args, donated=[random.Random(seed).random() < 0.5 for _ in f.args])
