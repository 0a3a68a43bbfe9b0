"""Loops that count: steps known ahead run without a question, wherever a counter starts, ends or wraps around.

Knows what ends a `while`; the kernels are compared with NumPy's results in `test_cpu_small_loops.check`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_ir import optimized_kernels
from test_cpu_control import traced
from test_cpu_small_loops import check

import functad.numpy as jnp
from functad import jit, lax
from functad.backends.cpu.executable import lower_program
from functad.backends.cpu.kernels.polls import with_polls
from functad.backends.cpu.scalars.exact import steps_left
from functad.machine_model import POLL_WORK
from functad.optimize.pipeline import simplify

DTYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64"]
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "!=": lambda x, y: x != y,
    "limit first": lambda x, y: y > x,
}


def counting(compare: Callable[[Any, Any], Any], step: int) -> Callable[..., Any]:
    """At most 60 steps, however the counter wraps; and something that each step does."""

    def fun(start: Any, limit: Any) -> Any:
        def body(carry: Any) -> Any:
            i, taken, total = carry
            return (i + step if step > 0 else i - (-step)), taken + 1, total * 3 + i

        return lax.while_loop(lambda c: compare(c[0], limit) & (c[1] < 60), body, (start, 0, start))

    return fun


@pytest.mark.generated(every=6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("comparison", COMPARISONS)
@pytest.mark.parametrize("step", [1, 3, -1, -7])
def test_counters_of_all_dtypes_start_end_and_wrap_anywhere(dtype: str, comparison: str, step: int) -> None:
    number, info, compare = np.dtype(dtype).type, np.iinfo(dtype), COMPARISONS[comparison]
    middle = (info.max + info.min) // 2
    ends = [info.min, info.min + 1, middle, middle + 20, info.max - 20, info.max - 1, info.max]
    compiled = jit(counting(compare, step))
    for start in ends:
        for limit in ends:
            found = [np.asarray(x).item() for x in compiled(np.asarray(start, dtype), np.asarray(limit, dtype))]
            assert found == by_hand(compare, step, number(start), number(limit)), (start, limit)
    text = str(compiled.lower(*[np.asarray(0, dtype)] * 2).kernels)
    upwards, downwards = comparison not in (">", ">="), comparison in (">", ">=", "!=")
    assert ("steps_left(" in text) == (upwards if step > 0 else downwards)


def by_hand(compare: Callable[[Any, Any], Any], step: int, i: Any, limit: Any) -> list[int]:
    taken, total, number = 0, i, type(i)
    with np.errstate(all="ignore"):
        while compare(i, limit) and taken < 60:
            total = total * number(3) + i
            i = i + number(step) if step > 0 else i - number(-step)
            taken += 1
    return [int(i), taken, int(total)]


def test_what_counts_and_what_does_not() -> None:
    n, x = np.int32(50), np.float32(0.3)

    def kernels(condition: Any, body: Any, *init: Any) -> str:
        run = check(lambda n, x: lax.while_loop(lambda c: condition(n, *c), lambda c: body(n, *c), init), n, x)
        return str(run.kernels)

    def counts(*loop: Any) -> bool:
        return "steps_left(" in kernels(*loop)

    assert counts(lambda n, i, t: i < n, lambda n, i, t: (i + 1, t + i), 0, 0)
    assert counts(lambda n, i, t: i < 40, lambda n, i, t: (2 + i, t + i), 0, 0)
    assert counts(lambda n, i, m: i < m, lambda n, i, m: (i + 1, m), 0, 9)  # a carry that never changes
    assert counts(lambda n, i, j: (i < n) & (j > 3), lambda n, i, j: (i + 1, j - 2), 0, 90)
    assert not counts(lambda n, i, t: (i < n) & (t < 5), lambda n, i, t: (i + 1, t + i * 0.5), 0, 0.0)
    assert not counts(lambda n, i, t: (i < n) | (t < 5), lambda n, i, t: (i + 1, t + 1), 0, 0)
    assert not counts(lambda n, i, m: i < m, lambda n, i, m: (i + 1, m - 1), 0, 9)  # the limit moves
    assert not counts(lambda n, i, t: i < n, lambda n, i, t: (i + t % 2 + 1, t + 1), 0, 0)
    assert not counts(lambda n, i, t: i < n, lambda n, i, t: (i * 2 + 1, t + 1), 0, 0)
    assert not counts(lambda n, x: x < n, lambda n, x: (x + 0.7,), 0.0)  # floats are rounded


def test_loops_that_count_within_loops() -> None:
    def triangle(n: Any, x: Any) -> Any:
        inner = lambda i, t: lax.fori_loop(i, n, lambda j, u: u * 0.9 + (i - j) * x, t)  # noqa: E731
        return lax.fori_loop(0, n, inner, x)

    for n in (0, 1, 2, 20):
        run = check(triangle, np.int32(n), np.float32(0.3))
        assert str(run.kernels).count("steps_left(") == 2, run.kernels


def test_steps_left() -> None:
    for dtype in DTYPES:
        number, info = np.dtype(dtype).type, np.iinfo(dtype)
        for step, first, last, wanted in [
            (1, 3, 4, 1),
            (1, 0, 100, 100),
            (7, 3, 10, 1),
            (7, 3, 11, 2),
            (1, 5, 5, 1),
            (1, info.min, info.max, min(2**info.bits - 1, 2**62)),
            (2, info.max, info.min + 2, 2),  # around the end
        ]:
            assert steps_left(number(first), number(last), np.int64(step)) == wanted, (dtype, step, first, last)


AHEAD = """k = 0
while True:
    if not k < n[0]:
        break
    for step in range(steps_left(k, n[0], 1)):
        k = k + 1
out[0] = k
"""


@pytest.mark.parametrize("n", [0, 1, 100, POLL_WORK])
def test_questions_stand_between_strips_of_steps(n: int) -> None:
    polled = with_polls(AHEAD, ["n", "out"])
    inner = polled.body.partition("for step")[2]
    assert "budget" not in inner and "interrupted" not in inner, polled.body
    asked: list[int] = []
    namespace: dict[str, Any] = {"steps_left": lambda i, n, k: n - i, "interrupted": lambda _: asked.append(1)}
    text = f"def kernel(n, out, {polled.token}):\n" + "".join(f"    {line}\n" for line in polled.body.splitlines())
    exec(text, namespace)
    out = [-1]
    namespace["kernel"]([n], out, None)
    assert out == [n] and len(asked) <= 8 and bool(asked) == (n == POLL_WORK)


def test_a_loop_without_end_around_one_that_counts_to_nothing_asks() -> None:
    inner = "".join(f"    {line}\n" for line in AHEAD.splitlines())
    polled = with_polls("while True:\n    if n[0] > 5:\n        break\n" + inner, ["n", "out"])
    before_inner = polled.body.split("while True:")[1]
    assert f"interrupted({polled.token})" in before_inner, polled.body


def test_such_a_loop_is_vectorised() -> None:
    x = np.arange(1000, dtype=np.int32)
    fun = lambda n, x: lax.fori_loop(0, n, lambda i, t: t ^ (x[i] * 3), 0)  # noqa: E731
    generated = lower_program(simplify(traced(fun, [np.asarray(9, np.int32), x]))).generated
    module = optimized_kernels(generated.source, "kernels.py", generated.signatures)
    assert re.search(r"xor <(4|8|16) x i32>", str(module)), generated.source


def test_int64_arithmetic_wraps_where_a_comparison_follows() -> None:
    most = np.iinfo(np.int64).max

    def fun(x: Any, y: Any) -> Any:
        return x + 1 > x, x - y > x, x * y // y == x, x**2 >= 0, jnp.prod(jnp.stack([x, y, y])) > 0

    args = [np.asarray(most - 3, np.int64), np.asarray(-5, np.int64)]
    for start in (most, most - 3, -most):
        args[0] = np.asarray(start, np.int64)
        wanted = [bool(w) for w in fun(*map(jnp.asarray, args))]
        assert [bool(f) for f in jit(fun)(*args)] == wanted, start
