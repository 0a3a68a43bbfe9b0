"""Random programs through the CPU compiler: fused, with shared memory and in chunks, they compute what the interpreter does.

Most run as plain Python, whatever the order in which threads would take the chunks; some are compiled, many at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from primitive_check_tools import to_array
from random_programs import RandomFunction

import functad
import functad.numpy as jnp
from functad import lax
from functad.backends import interpreter
from functad.backends.cpu.executable import Executable, Lowered
from functad.backends.cpu.plain import load_source, run_plain
from functad.ir import Program
from functad.lowering import fuse, plan, split
from functad.tracing import aval_of, trace_to_program
from functad.transforms.simplify import inline_calls, simplify

FORMS = ("itself", "mapped", "jvp", "gradient")
PER_FORM = 150


def function_of(seed: int, form: str) -> tuple[Callable[..., list[Any]], list[np.ndarray]]:
    """A random function in one of the forms, and its arguments."""
    choose = random.Random(seed * 7 + 1)
    options: dict[str, Any] = {"steps": choose.choice([8, 14, 25, 40])}
    kind = choose.random()
    if form in ("jvp", "gradient"):
        options["smooth"] = True
    elif kind < 0.15:
        options.update(special=True, dtypes=("float32", "float32", "int32"))
    elif kind < 0.3:
        options["empty"] = True
    elif kind < 0.7:
        options["dtypes"] = ("float32", "float32", "float32", "int32")
    f = RandomFunction(seed, **options)
    if form == "mapped":
        stacks = [np.stack([a, a[::-1] if a.ndim else a]) for a in f.args]
        return (lambda *xs: list(functad.vmap(lambda *ys: f(*ys))(*xs))), stacks
    if form == "jvp":
        rng, n = np.random.default_rng(seed), len(f.args)
        tangents = [rng.normal(size=a.shape).astype(a.dtype) for a in f.args]
        return (lambda *xs: list(functad.jvp(lambda *ys: f(*ys), xs[:n], xs[n:])[1])), [*f.args, *tangents]
    if form == "gradient":
        everything = tuple(range(len(f.args)))
        return (lambda *xs: list(functad.grad(lambda *ys: _weighted_sum(f(*ys)), argnums=everything)(*xs))), f.args
    return f, f.args


def _weighted_sum(outs: Sequence[Any]) -> Any:
    total = np.float32(0)
    for out in outs:
        weights = np.cos(np.arange(out.size, dtype=np.float32)).reshape(out.shape)
        total = total + jnp.sum(out * weights)
    return total


def program_of(fun: Callable[..., Any], args: Sequence[np.ndarray], a_pass: Any = simplify) -> Program:
    return a_pass(trace_to_program(lambda *xs: list(fun(*xs)), [aval_of(to_array(a)) for a in args]))


def compare(expected: Any, got: np.ndarray, label: str) -> None:
    expected = np.asarray(expected)
    assert got.shape == expected.shape and got.dtype == expected.dtype, f"{label}: {got.dtype}{got.shape}"
    if expected.dtype.kind in "biu":
        assert np.array_equal(got, expected), f"{label}: {got} instead of {expected}"
        return
    tolerance = {2: 4e-3, 4: 1e-4, 8: 1e-11}[expected.real.dtype.itemsize]
    with np.errstate(all="ignore"):
        scale = max(np.max(np.abs(expected[np.isfinite(expected)]), initial=0), 1e-2)
        wrong = ~np.isclose(got, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    assert not wrong.any(), f"{label}: {got[wrong][:5]} instead of {expected[wrong][:5]}"


def check_plain(program: Program, args: Sequence[np.ndarray], donated: Sequence[bool], seed: int = 0) -> Lowered:
    """Run the kernels as plain Python, the chunks of each block in a random order; nothing else may be written to."""
    expected = [np.array(x) for x in interpreter.compile_program(program)([a.copy() for a in args])]
    lowered = Lowered(program, donated)
    functions = load_source(lowered.generated.source, "random_program.py")
    outputs = lowered.schedule.outputs
    first = {b.storage: b for b in reversed(outputs) if b.storage.kind == "output"}
    storages = list(dict.fromkeys(b.storage for b in outputs if b.storage.kind == "output"))
    fresh = [np.frombuffer(b"Z" * first[s].nbytes, np.uint8).copy().view(first[s].dtype) for s in storages]
    given = [np.array(a, order="C") for a in args]
    order = random.Random(seed)

    def chunks(block: plan.Block) -> list[tuple[int, int]]:
        size = order.choice([1, 1, 2, 3])
        pieces = [(start, min(start + size, block.rows)) for start in range(0, block.rows, size)]
        order.shuffle(pieces)
        return pieces

    run_plain(
        lowered.schedule, lowered.blocks, lowered.memory_plan, functions, given,
        [x.reshape(first[s].shape) for x, s in zip(fresh, storages)], chunks,
    )  # fmt: skip
    memory = dict(zip(storages, fresh))
    for k, (buffer, wanted) in enumerate(zip(outputs, expected)):
        taken = buffer.storage.kind == "input"
        assert not taken or donated[buffer.storage.number], f"seed {seed}: result {k} lies in an input"
        got = given[buffer.storage.number] if taken else memory[buffer.storage]
        compare(wanted, got.reshape(buffer.shape), f"seed {seed}, result {k}")
    for k, (now, before) in enumerate(zip(given, args)):
        same = np.array_equal(now, before, equal_nan=before.dtype.kind in "fc")
        assert same or donated[k], f"seed {seed}: argument {k} was written to"
    return lowered


@pytest.fixture
def knobs(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the limits of fusion, splitting and blocks to what small arrays reach."""

    def turn(seed: int) -> None:
        choose = random.Random(seed * 3 + 5)
        monkeypatch.setattr(split, "WORTH_THREADS", choose.choice([1 << 16, 1, 16]))
        monkeypatch.setattr(split, "WORTH_LANES", choose.choice([1 << 13, 1, 16]))
        monkeypatch.setattr(fuse, "LARGEST_NEST", choose.choice([100, 100, 5]))
        monkeypatch.setattr(fuse, "LARGEST_INLINE", choose.choice([30, 30, 3]))
        monkeypatch.setattr(fuse, "LARGEST_WAIT", choose.choice([1 << 19, 100]))
        monkeypatch.setattr(plan, "FEWEST_ROWS", choose.choice([4, 1, 2]))

    return turn


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("form", FORMS)
def test_chunks_in_any_order_equal_the_interpreter(form: str, part: int, knobs: Callable[[int], None]) -> None:
    for seed in range(part * PER_FORM // 3, (part + 1) * PER_FORM // 3):
        knobs(seed)
        fun, args = function_of(seed, form)
        program = program_of(fun, args, simplify if seed % 3 else inline_calls)
        choose = random.Random(seed)
        check_plain(program, args, [choose.random() < 0.4 for _ in args], seed)


@pytest.mark.parametrize("form", FORMS)
def test_compiled_programs_equal_the_interpreter(form: str, knobs: Callable[[int], None]) -> None:
    knobs(3)
    parts = [function_of(seed, form) for seed in range(200, 206)]
    together = [a for _, args in parts for a in args]

    def fun(*values: Any) -> list[Any]:
        given = iter(values)
        return [out for f, args in parts for out in f(*[next(given) for _ in args])]

    program = program_of(fun, together)
    expected = [np.array(x) for x in interpreter.compile_program(program)(together)]
    executable = Executable(program)
    copies = [a.copy() for a in together]
    for _ in range(2):  # the second call reuses the arena
        for k, (wanted, got) in enumerate(zip(expected, executable(copies), strict=True)):
            compare(wanted, got, f"result {k}")
    for now, before in zip(copies, together):
        assert np.array_equal(now, before, equal_nan=before.dtype.kind in "fc")


# --- programs that went wrong -------------------------------------------------------------------------------


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(np.float32)


def both_ways(fun: Callable[..., Any], *args: np.ndarray, donated: Sequence[bool] = (), a_pass: Any = simplify) -> None:
    program = program_of(fun, args, a_pass)
    check_plain(program, args, list(donated) or [False] * len(args))
    expected = [np.array(x) for x in interpreter.compile_program(program)([a.copy() for a in args])]
    for wanted, got in zip(expected, Executable(program, donated)([a.copy() for a in args]), strict=True):
        compare(wanted, got, "compiled")


def test_a_repeated_constant_that_is_returned_is_not_updated_in_place() -> None:
    def fun(x: Any) -> list[Any]:
        zeros = lax.full((4,), np.float32(0))
        return [zeros, lax.dynamic_update_slice(zeros, x, [np.int32(1)])]

    both_ways(fun, f32(3))


def test_a_slice_that_is_returned_is_not_updated_in_place() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        part = lax.slice(x, (4,), (5,))
        return [lax.dynamic_update_slice(part, y, [np.int32(0)]), part]

    both_ways(fun, f32(5), f32(1))


def test_results_that_nobody_uses_have_no_kernel() -> None:
    def fun(x: Any) -> list[Any]:
        lax.reduce_max(x, (0,))
        lax.cumsum(x)
        return [lax.sin(x)]

    both_ways(fun, f32(4, 6), a_pass=inline_calls)


def test_sums_over_nothing_read_nothing() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        products = lax.dot_general(x, y, (((0,), (0,)), ((), ())))
        return [lax.reduce_sum(x, (0, 1)), lax.reduce_max(x, (0,)), lax.reduce_and(lax.ne(x, x), (0,)), products]

    both_ways(fun, f32(0, 3), f32(0, 2))


def test_products_scaled_by_zero_or_by_much_keep_nan_and_infinity() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        product = lax.dot_general(x, y, (((1,), (0,)), ((), ())))
        twice = lax.mul(lax.mul(product, np.float32(1e-30)), np.float32(1e-30))
        back = lax.mul(lax.mul(lax.dot_general(y, x, (((1,), (0,)), ((), ()))), np.float32(1e30)), np.float32(1e-30))
        return [lax.mul(product, np.float32(0)), lax.mul(product, np.float32(-0.0)), twice, back]

    x = f32(3, 3)
    x[0] = [np.inf, np.nan, 1]
    both_ways(fun, x, np.eye(3, dtype=np.float32))


def test_float16_pointers_give_float32_values_as_plain_python() -> None:
    both_ways(lambda x: [lax.sort(x, 1), lax.cumsum(x, 1), lax.mul(x, x)], f32(4, 6, 3).astype(np.float16))
