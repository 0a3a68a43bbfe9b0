"""Loops of small steps that become one Python function: the same results as on the tape, and as interpreted.

Knows where the carry of a loop can come from, and what is too large or too much for one function.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cpu_program_tools import check_plain, compare
from fuzz.kernels import OpenExecutable
from test_cpu_control import CARRIES, RandomControl, collatz, nested_loops, traced

import functad
import functad.numpy as jnp
from functad import grad, interpreter, jit, jvp, lax, machine_model, vmap
from functad.lowering.blocks import ControlPlan, may_run_long
from functad.optimize.pipeline import inline_calls, simplify
from functad.tree_util import tree_leaves

pytestmark = pytest.mark.generated(every=6)  # tables of shapes, dtypes and ways

F32 = np.float32
STEPS = np.linspace(-1, 1, 60, dtype=F32)
ROWS = STEPS.reshape(20, 3)


def check(
    fun: Callable[..., Any], *args: Any, donated: Sequence[bool] = (), fits: bool | None = True
) -> OpenExecutable:
    """One function for each loop (`fits`) gives what the tape gives, what plain Python gives and what NumPy gives."""
    arrays = [np.asarray(jnp.asarray(a)) for a in args]
    program = traced(fun, arrays)
    expected = [np.array(x) for x in interpreter.compile_program(program)(arrays)]
    for compiled in (inline_calls(program), simplify(program)):
        run = OpenExecutable(compiled, donated)
        check_plain(compiled, arrays, donated or [False] * len(arrays), lowered=run)
        assert fits is None or any(isinstance(item, ControlPlan) for item in run.blocks) != fits, str(run.kernels)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(machine_model, "LONGEST_SMALL_STEP", -1.0)
            on_tape = OpenExecutable(compiled, donated)
        results = [one([np.array(a, order="C") for a in arrays]) for one in (run, run, on_tape)]
        for k, (first, again, tape, wanted) in enumerate(zip(*results, expected)):
            compare(wanted, first, f"result {k}")
            compare(wanted, tape, f"result {k} of the tape")
            assert np.array_equal(first, again, equal_nan=first.dtype.kind in "fc")
    return run


def test_numbers_can_be_handed_on_through_several_carries() -> None:
    def fun(rows: Any, first: Any, second: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            return (row[0], row[2] * h[0] + row[1]), 2 * h[1]

        return lax.scan(step, (first, second), rows)

    check(fun, ROWS, F32(0.5), F32(2))


# What a body does that one function cannot: kernels that are no loop nests.
TOO_MUCH = ("sorted",)


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("case", CARRIES)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_carry_can_come_from_anywhere(case: str, reverse: bool) -> None:
    step, init = CARRIES[case]
    leaves = tree_leaves(init)

    def fun(x: Any, *given: Any) -> Any:
        carry, ys = lax.scan(step, given if isinstance(init, tuple) else given[0], x, reverse=reverse)
        return ys, tree_leaves(carry)

    fits = case not in TOO_MUCH
    check(fun, ROWS, *leaves, fits=fits)
    check(fun, ROWS[:1], *leaves, fits=fits or None)  # one step may be no loop
    check(fun, ROWS, *leaves, donated=[True] * (1 + len(leaves)), fits=fits)
    check(lambda *a: (fun(*a), [x * 1 for x in a]), ROWS, *leaves, fits=fits)  # what it starts from is needed again


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("case", CARRIES)
def test_a_carry_of_a_while_loop_can_come_from_anywhere(case: str) -> None:
    step, init = CARRIES[case]
    leaves = tree_leaves(init)

    def fun(n: Any, x: Any, *given: Any) -> Any:
        carry = given if isinstance(init, tuple) else given[0]
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, step(s[1], x)[0]), (0, carry))

    for n in (0, 1, 5):
        check(fun, np.int32(n), ROWS[1], *leaves, fits=case not in TOO_MUCH)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int32", "uint32", "int64", "float16", "float64", "complex64"]
)
def test_carries_of_every_kind_of_dtype(dtype: str) -> None:
    def step(c: Any, x: Any) -> Any:
        a, b = c
        if dtype == "bool":
            return (b ^ x, a | x), (a & b, a)
        new = (a * x + b, a - x)
        return new, (new[0], jnp.where(x == a, a, b), a == x)

    values = np.arange(24).reshape(24) % 7
    xs = values.astype(dtype) if dtype != "complex64" else (values * (0.3 + 0.2j)).astype(dtype)
    if dtype in ("float16", "float64"):
        xs = (xs / np.asarray(9, dtype)).astype(dtype)
    # Arrays of rank 0: a 64-bit scalar would adapt to the default dtype.
    check(lambda a, b, xs: lax.scan(step, (a, b), xs), np.asarray(xs[3]), np.asarray(xs[2]), xs)
    check(lambda a, b, xs: lax.scan(step, (a, b), xs), xs[3:6], xs[2:5], np.repeat(xs, 3).reshape(24, 3))


# --- nesting ----------------------------------------------------------------------------------------------------


def powers(x: Any, rows: Any) -> Any:
    def inner(c: Any, r: Any) -> Any:
        return (c[1], c[0] * r + c[1]), c[0]

    def outer(total: Any, row: Any) -> Any:
        (a, b), ys = lax.scan(inner, (total, row[0]), row, reverse=True)
        return a * 0.5 + b, (ys, total)

    return lax.scan(outer, x, rows)


def guarded(x: Any, xs: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        c = lax.switch((r * 4).astype("int32"), [lambda v: v * 0.5, lambda v: v - r, lambda v: r], c)
        return lax.while_loop(lambda v: v < 1, lambda v: v * 2 + 0.75, c) % 3, c

    return lax.scan(step, x, xs)


def test_loops_and_branches_within_loops() -> None:
    check(powers, F32(0.5), ROWS)
    for n in (0, 1, 4):
        check(nested_loops, ROWS, np.int32(n))
    check(guarded, F32(0.5), STEPS)
    check(collatz, np.int32(27))
    check(lambda ns: lax.map(collatz, ns), np.arange(1, 30, dtype=np.int32))
    check(lambda x: lax.fori_loop(0, 7, lambda i, v: lax.fori_loop(0, i, lambda j, w: w * 0.9 + j, v), x), F32(2))
    swaps = [lambda a, b: (b, a), lambda a, b: (a, a + b)]
    check(lambda x, y: lax.fori_loop(0, 9, lambda i, s: lax.switch(i % 3, swaps, *s), (x, y)), ROWS[0], ROWS[1])
    for go in (False, True):
        check(lambda p, x: lax.cond(p, lambda v: (v * 2, v[0]), lambda v: (v[::-1], v[2]), x), go, ROWS[0])
    check(lambda x: lax.scan(lambda c, r: lax.scan(lambda d, _: (d + r, d * r), c, None, length=30), x, STEPS), F32(1))


@pytest.mark.generated(every=8)
@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    f = RandomControl(seed)
    check(f, *f.args, donated=[random.Random(seed).random() < 0.5 for _ in f.args], fits=None)


def test_steps_on_a_few_elements() -> None:
    w = ROWS[:3] * 0.4
    check(lambda h, xs, w: lax.scan(lambda h, x: (jnp.tanh(jnp.sum(w * h, 1) + x), h.max()), h, xs), ROWS[0], ROWS, w)
    check(
        lambda h, xs: lax.scan(lambda h, x: (jnp.concatenate([h[1:], x[:1]]), jnp.stack([h, x], 1)), h, xs),
        ROWS[0],
        ROWS,
    )
    square = w @ w.T
    check(lambda h, xs: lax.scan(lambda h, x: (h @ square * 0.5 + x[:, None], x @ h), h, xs), w, ROWS)
    check(grad(lambda h, xs: lax.scan(lambda h, x: (h @ square + x[:, None], x @ h), h, xs)[1].sum()), w, ROWS)
    check(
        lambda h, i: lax.scan(lambda h, i: (h + 1, (i, jnp.asarray(ROWS)[i] + h)), h, i),
        ROWS[0],
        np.arange(-2, 19, dtype=np.int32),
    )
    check(lambda h: lax.fori_loop(0, 40, lambda i, h: h * 0.5 + i, h), np.linspace(0, 1, 100, dtype=F32))


def test_derivatives_and_batches() -> None:
    def logistic(x: Any, r: Any) -> Any:
        return lax.scan(lambda x, _: ((y := r * x * (1 - x)), y), x, None, length=50)[1].mean()

    check(functad.value_and_grad(logistic, (0, 1)), F32(0.3), F32(2.2))
    check(grad(grad(logistic)), F32(0.3), F32(2.2))
    check(lambda x, r: jvp(logistic, (x, r), (r, x)), F32(0.3), F32(2.2))
    check(vmap(grad(logistic), (0, None)), ROWS[0], F32(2.2))
    check(grad(lambda x: powers(x, ROWS)[0] ** 2), F32(0.5))
    check(vmap(collatz), np.arange(1, 9, dtype=np.int32))
    check(vmap(lambda x: guarded(x, STEPS)[0]), ROWS[0])


# --- what is one function -----------------------------------------------------------------------------------------


LOGISTIC = """
    carry_d = out_b[0]
    for step in range(1000):
        out_c[step] = carry_d
        # g:f32[] = mul e f
        # e:f32[] = mul 3.7:f32[] d
        # f:f32[] = sub 1.0:f32[] d
        mul_e = c_1 * carry_d
        sub_f = f32(1.0) - carry_d
        mul_g = mul_e * sub_f
        carry_d = mul_g
    out_b[0] = carry_d
"""


def test_a_loop_is_a_python_loop() -> None:
    def logistic(x: Any) -> Any:
        return lax.scan(lambda x, _: (3.7 * x * (1 - x), x), x, None, length=1000)

    kernels = str(jit(logistic).lower(F32(0.3)).kernels)
    assert LOGISTIC in kernels, kernels


def test_a_while_loop_and_a_branch_are_those_of_python() -> None:
    kernels = str(jit(collatz).lower(np.int32(27)).kernels)
    lines = [line.strip().partition(" ")[0] for line in kernels.splitlines()]
    # Besides those of the function two that ask, after many steps, whether to stop.
    assert [lines.count(word) for word in ("while", "if", "break", "else:")] == [1, 4, 1, 1], kernels


def test_swapped_numbers_are_variables_that_change_places() -> None:
    def fibonacci(n: Any) -> Any:
        return lax.fori_loop(0, n, lambda _, c: (c[1], c[0] + c[1]), (0, 1))[0]

    assert [int(jit(fibonacci)(np.int32(n))) for n in (0, 1, 2, 10, 40)] == [0, 1, 1, 55, 102334155]
    inside = str(jit(fibonacci).lower(np.int32(3)).kernels).partition("while True:")[2]
    inside = "\n".join(line for line in inside.splitlines() if line.startswith(" " * 8))
    assert "[" not in inside.replace("i32[]", "").replace("[0]:\n", "").partition("break")[2], inside


def test_what_is_too_much_stays_on_the_tape(monkeypatch: pytest.MonkeyPatch) -> None:
    w = np.linspace(-1, 1, 20 * 20, dtype=F32).reshape(20, 20) / 20
    check(lambda h: lax.fori_loop(0, 20, lambda i, h: jnp.tanh(h @ w), h), w, fits=False)  # products, and much to do
    check(lambda h: lax.fori_loop(0, 20, lambda i, h: jnp.sort(h) + 1, h), ROWS[0], fits=False)
    check(lambda h: lax.fori_loop(0, 20, lambda i, h: h[::-1] + 1, h), w[0], fits=False)  # buffers change places
    monkeypatch.setattr(machine_model, "MOST_STATEMENTS", 10)
    check(powers, F32(0.5), ROWS, fits=False)


def test_a_small_loop_in_a_large_one_is_one_function() -> None:
    def outer(c: Any, row: Any) -> Any:
        total, before = lax.scan(lambda t, r: (jnp.sin(t) * 0.5 + r, t), c.sum(), row)
        return jnp.sort(c)[::-1] + total, (before, c)

    run = check(lambda x, rows: lax.scan(outer, x, rows), ROWS[0], jnp.resize(STEPS, (12, 30)), fits=False)
    assert str(run.kernels).count("for step in range(30):") == 1


def test_a_while_loop_in_one_function_may_run_long() -> None:
    run = check(collatz, np.int32(27))
    assert may_run_long(run.blocks)
    assert not may_run_long(check(powers, F32(0.5), ROWS).blocks)


def test_every_stage_knows_such_a_loop() -> None:
    compiled = jit(powers).lower(F32(0.5), ROWS).compile()
    assert "scan" in str(compiled.profile(F32(0.5), ROWS))
    assert jit(powers).lower(F32(0.5), ROWS).cost.flops >= 20 * 3 * 2


def test_sums_over_one_element_read_the_carry_before_it_is_overwritten() -> None:
    def step(b: Any, _: Any) -> Any:
        return jnp.exp(-b * b), jnp.sin(b.sum(0))

    check(lambda b: lax.scan(step, b, None, length=50), np.full(1, 0.3, F32))
    check(lambda b: lax.scan(step, b, None, length=50), np.full((1, 3), 0.3, F32), fits=None)


@pytest.mark.parametrize("length", [4, 20])  # written out point by point, and as loops
@pytest.mark.parametrize("dtype", ["int32", "float32", "complex64"])
@pytest.mark.parametrize("reverse", [False, True])
def test_values_carried_along_an_axis_within_a_step(length: int, dtype: str, reverse: bool) -> None:
    def run(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            total = lax.cumsum(carry * row, 0, reverse) + 1
            return lax.cumprod(row, 0, reverse), total

        return lax.scan(step, x[0], x)

    numbers = np.arange(9 * length).reshape(9, length) % 3
    check(run, numbers.astype(dtype))


def test_values_carried_along_columns_within_a_step() -> None:
    def run(x: Any) -> Any:
        return lax.scan(lambda c, y: (lax.cummax(c * y, 0), jnp.cumsum(c - y, 1)), x[0], x)

    check(run, np.linspace(-1, 1, 5 * 4 * 3, dtype=F32).reshape(5, 4, 3))
