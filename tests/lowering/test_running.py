"""Running sums, products and extrema as loop nests: the values, and what shares a kernel with them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from cpu_program_tools import check_plain

import functad
import functad.numpy as jnp
from functad import lax, machine_model
from functad.backends.cpu.lowering import CpuLowering
from functad.errors import ProgramError
from functad.lowering.contracts import check_schedule
from functad.lowering.steps import NestStep
from functad.optimize.pipeline import simplify

RUNNING = {"cumsum": lax.cumsum, "cumprod": lax.cumprod, "cummax": lax.cummax, "cummin": lax.cummin}
DTYPES = ["int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]
# Rows in groups and short ones; columns in registers, in memory, shared by threads; and between other axes.
SHAPES = [((1,), 0), ((5,), 0), ((43,), 0), ((3, 40), 1), ((30, 3), 0), ((9, 4, 3), 1), ((2, 5, 10), 1)]
SHAPES += [((9, 3, 11), 1), ((6, 300), 0), ((2, 1, 6), 1), ((1, 7), 0), ((3, 2, 2, 2), 1), ((4, 0), 0)]
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 2.0, -2.0]


@pytest.fixture(autouse=True)
def small_arrays_count_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "CARRIED_FROM_MEMORY", 0)


def kernels(fun: Any, *args: Any) -> int:
    return str(functad.jit(fun).lower(*args).kernels).count("\ndef ")


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(dtype)


# --- values -----------------------------------------------------------------------------------------------


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RUNNING)
def test_along_any_axis(name: str, dtype: str) -> None:
    for number, (shape, axis) in enumerate(SHAPES):
        x = array(*shape, dtype=dtype)
        for reverse in (False, True):

            def f(x: Any, axis: int = axis, reverse: bool = reverse) -> Any:
                return RUNNING[name](x, axis=axis, reverse=reverse)

            np.testing.assert_array_equal(functad.jit(f)(x), np.asarray(f(jnp.asarray(x))), f"{number}", strict=True)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("name", RUNNING)
def test_special_numbers(name: str, dtype: str) -> None:
    if dtype[0] == "c" and name not in ("cumsum", "cumprod"):
        return
    pairs = np.array([*itertools.product(SPECIAL, repeat=2)]).astype(dtype)
    repeated = np.repeat(pairs, 10, 1)  # long enough for groups
    for x, axis in ((pairs, 1), (repeated, 1), (pairs.T.copy(), 0), (repeated.T.copy(), 0), (pairs[:3].T.copy(), 0)):
        for reverse in (False, True):

            def f(x: Any, axis: int = axis, reverse: bool = reverse) -> Any:
                return RUNNING[name](x, axis=axis, reverse=reverse)

            found, plain = np.asarray(functad.jit(f)(x)), np.asarray(f(jnp.asarray(x)))
            np.testing.assert_array_equal(found, plain)
            for one, other in ((found.real, plain.real), (found.imag, plain.imag)):
                numbers = ~np.isnan(one)
                np.testing.assert_array_equal(np.signbit(one)[numbers], np.signbit(other)[numbers])


def test_a_sum_is_kept_in_a_wider_dtype_wherever_it_lies() -> None:
    tenth = np.full((3000, 130), 0.1, np.float32)
    exact = np.arange(1, 3001) * np.float64(np.float32(0.1))
    for x, axis in ((tenth, 0), (tenth.T.copy(), 1), (tenth[:, :2].copy(), 0)):
        found = np.asarray(functad.jit(lambda x, axis=axis: jnp.cumsum(x, axis) + 0)(x))
        np.testing.assert_allclose(found, np.broadcast_to(exact[:, None] if axis == 0 else exact, x.shape), rtol=1e-7)


@pytest.mark.parametrize("shape, axis", [((50, 20), 0), ((50, 20), 1), ((10, 20, 3), 1), ((4, 6, 300), 1)])
def test_in_the_memory_of_a_donated_argument(shape: tuple[int, ...], axis: int) -> None:
    x = array(*shape, dtype="int32")
    f = functad.jit(lambda x: jnp.cumsum(x * 3, axis), donate_argnums=0)
    np.testing.assert_array_equal(f(jnp.asarray(x)), np.cumsum(x * 3, axis))
    assert "input" in str(f.lower(x).memory_plan)


# --- rows in blocks -----------------------------------------------------------------------------------------


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float64"])
def test_rows_of_several_blocks(name: str, dtype: str) -> None:
    x = np.random.default_rng(0).integers(0 if dtype[0] == "u" else -2, 3, (3, 2 * machine_model.RUNNING_BLOCK + 21))
    x[:, ::3] = 1
    x = np.where(x == 0, 1, x).astype(dtype)

    def f(x: Any, reverse: bool) -> Any:  # straight from memory to memory, and computed before and after
        return RUNNING[name](x, axis=1, reverse=reverse), RUNNING[name](x + x[0, 0], axis=1, reverse=reverse) * x

    for reverse in (False, True):
        for found, plain in zip(functad.jit(f, static_argnums=1)(x, reverse), f(jnp.asarray(x), reverse)):
            np.testing.assert_array_equal(found, np.asarray(plain), strict=True)


@pytest.mark.parametrize("block", [64, 1024])
def test_blocks_of_another_size(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "RUNNING_BLOCK", block)
    x = array(3, 2500, dtype="int32")
    f = functad.jit(lambda x: jnp.cumsum(x * 2 + x[0, 0], 1) * x)
    assert f"minimum({block}, 2500" in str(f.lower(x).kernels)
    np.testing.assert_array_equal(f(x), np.cumsum(x * 2 + x[0, 0], 1, dtype=np.int32) * x)


def test_the_text_of_blocks() -> None:
    x = array(4, 600, dtype="int32")
    text = str(functad.jit(lambda x: lax.cummax(x, 1)).lower(x).kernels)
    assert "running_max(input_a, 600*i + 256*j_block, out_b, 600*i + 256*j_block, j_count, " in text
    assert "room_" not in text
    text = str(functad.jit(lambda x: jnp.cumsum(x * 2, 1) + x).lower(x).kernels)
    assert "= room_i32()" in text and text.count("for j_in_block in range(j_count):") == 2


def test_blocks_as_plain_python() -> None:
    x = array(2, 300, dtype="int32")
    program = functad.make_jaxpr(lambda x: (jnp.cumsum(x, 1) * 2, jnp.cumprod(x, 1), lax.cummin(x * 3, 1)))(x)
    assert "running_min(" in str(check_plain(program, [x], [False]).kernels)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_products_that_overflow_on_their_way_do_so_in_their_order(dtype: str) -> None:
    limits = jnp.finfo(dtype)
    huge, tiny = float(limits.max) / 2, float(limits.smallest_subnormal)
    # To multiply neighbours first would give other results: numbers for infinities and zeros, or the other way round.
    parts = [[huge, huge, tiny, tiny], [tiny, tiny, huge, huge], [tiny, huge, huge, huge], [1, huge, 0, 2]]
    x = np.array([4 * p for p in parts] + [[2] * 4 + p + [0.5] * 8 for p in parts]).astype(dtype)
    for reverse in (False, True):
        found = functad.jit(lambda x, reverse=reverse: lax.cumprod(x, 1, reverse))(x)
        plain = lax.cumprod(jnp.asarray(x), 1, reverse)
        np.testing.assert_allclose(found, plain, rtol=1e-3 if dtype == "float16" else 1e-6)


def test_products_behind_a_large_one_are_done_in_their_order() -> None:
    x = np.ones((5, 80))
    x[:, 15] = 1e300
    x[:, 16:18] = 1e-161  # their product is no normal number: it has few digits
    np.testing.assert_allclose(functad.jit(lambda x: lax.cumprod(x, 1))(x), np.cumprod(x, 1), rtol=1e-12)


def test_what_is_computed_twice_is_no_function() -> None:
    x = np.random.default_rng(0).normal(size=(5, 40)).astype(np.float32)

    def f(x: Any) -> Any:
        y = jnp.tanh(x)
        return jnp.cumsum(y, 1) * y

    np.testing.assert_allclose(functad.jit(f)(x), f(jnp.asarray(x)), rtol=1e-5, atol=1e-6)


# --- what shares a kernel -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape, axis", [((40,), 0), ((6, 50), 1), ((50, 6), 0), ((6, 900), 0), ((9, 5, 80), 1)])
@pytest.mark.parametrize("reverse", [False, True])
def test_cheap_operations_before_and_after_are_in_the_kernel(shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    def f(x: Any) -> Any:
        return lax.cumsum(x * 2, axis, reverse) + 1

    x = array(*shape)
    assert kernels(f, x) == 1
    np.testing.assert_array_equal(functad.jit(f)(x), f(jnp.asarray(x)))


def test_what_vectors_do_faster_is_not_done_step_by_step() -> None:
    x = array(12, 900)
    for run in (lambda x, a: jnp.cumsum(jnp.tanh(x), a), lambda x, a: jnp.tanh(jnp.cumsum(x, a))):
        for axis in (0, 1):
            assert kernels(lambda x, run=run, axis=axis: run(x, axis), x) == 2
    for axis in (0, 1):
        assert kernels(lambda x, axis=axis: jnp.cumsum((x * x - 1) * (x + 3) * x, axis), x) == 1
    assert kernels(lambda x: jnp.cumsum((x * x - 1) * (x + 3) * x, 1), x[:3]) == 2  # too few rows
    assert kernels(lambda x: jnp.cumsum((x * x - 1) * (x + 3) * x, 1), x[:, :15]) == 2  # no vector
    assert kernels(lambda x: jnp.cumsum((x * x - 1) * x, 0), x[:, :100]) == 2  # too few columns for threads to share


def test_in_a_cache_short_rows_are_vectors_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "CARRIED_FROM_MEMORY", 1000)
    for rows, columns, count in ((12, 9, 3), (120, 9, 1), (12, 90, 1)):
        assert kernels(lambda x: jnp.cumsum(x * 2, 1) + 1, array(rows, columns)) == count


def test_running_values_of_one_direction_share_a_kernel() -> None:
    x = array(6, 40)

    def both(x: Any, axis: int, reverse: bool) -> Any:
        return lax.cummax(x, 1), lax.cummin(x, axis, reverse)

    assert kernels(lambda x: both(x, 1, False), x) == 1
    assert kernels(lambda x: both(x, 1, True), x) == 2
    assert kernels(lambda x: both(x, 0, False), x) == 2
    for axis, reverse in ((1, False), (1, True), (0, False)):
        for found, plain in zip(functad.jit(both, static_argnums=(1, 2))(x, axis, reverse), both(x, axis, reverse)):
            np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("axis", [0, 1])
def test_totals_of_totals(axis: int) -> None:
    x = array(30, 60, dtype="int32")
    for f in (lambda x: jnp.cumsum(jnp.cumsum(x, axis), axis), lambda x: lax.cummax(jnp.cumsum(x, axis), axis)):
        assert kernels(f, x) == 1
        np.testing.assert_array_equal(functad.jit(f)(x), f(x))


def test_sums_of_running_sums_have_kernels_of_their_own() -> None:
    x = array(30, 60, dtype="int32")
    for f in (lambda x: jnp.sum(jnp.cumsum(x, 1), 1), lambda x: jnp.cumsum(x - jnp.sum(x, 1, keepdims=True), 1)):
        assert kernels(f, x) == 2
        np.testing.assert_array_equal(functad.jit(f)(x), f(x))


def test_what_lies_across_rows_is_moved_before() -> None:
    x = array(40, 60)
    assert kernels(lambda x: jnp.cumsum(x.T, 1), x) == 2
    assert kernels(lambda x: jnp.cumsum(x[::-1, 1:], 1), x) == 1
    for f in (lambda x: jnp.cumsum(x.T, 1), lambda x: jnp.cumsum(x.T * 2, 1), lambda x: jnp.cumsum(x[::-1, 1:], 1)):
        np.testing.assert_array_equal(functad.jit(f)(x), f(jnp.asarray(x)))


def test_values_that_do_not_change_along_the_axis() -> None:
    x = array(30)

    def f(x: Any) -> Any:
        return jnp.cumsum(jnp.broadcast_to(x[:, None], (30, 50)), 1), jnp.cumsum(jnp.full((4, 90), x[3]), 0)

    for found, plain in zip(functad.jit(f)(x), f(jnp.asarray(x)), strict=True):
        np.testing.assert_array_equal(found, plain)


def test_a_total_is_stored_in_its_part_of_a_joined_array() -> None:
    x = array(9, 20)

    def f(x: Any) -> Any:
        return jnp.concatenate([x, jnp.cumsum(x, 0), lax.cummax(x, 0, reverse=True)], 1)

    np.testing.assert_array_equal(functad.jit(f)(x), f(jnp.asarray(x)))


# --- stages -------------------------------------------------------------------------------------------------


def lowering() -> CpuLowering:
    return CpuLowering(simplify(functad.make_jaxpr(lambda x: jnp.cumsum(x, 1))(array(30, 60))))


def test_what_is_carried_is_seen_in_the_schedule_and_costs() -> None:
    lowered = lowering()
    (step,) = lowered.schedule.steps
    assert isinstance(step, NestStep) and "i<30, j<60 carried" in str(step)
    assert lowered.cost.flops >= 30 * 60 and lowered.cost.bytes == 2 * 30 * 60 * 4


def test_a_nest_that_carries_a_value_along_no_loop_of_its_own_is_refused() -> None:
    schedule = lowering().schedule
    (step,) = schedule.steps
    check_schedule(schedule)
    step.nest.carried = None
    with pytest.raises(ProgramError, match="carries `.*` along none of its loops"):
        check_schedule(schedule)


def test_threads_share_wide_columns_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "COLUMNS_TOGETHER", 16)
    x = array(5, 100, dtype="int32")
    text = str(functad.jit(lambda x: jnp.cumsum(x, 0)).lower(x).kernels)
    assert "range(16 * start, min(16 * stop, 100))" in text
    np.testing.assert_array_equal(functad.jit(lambda x: jnp.cumsum(x, 0))(x), np.cumsum(x, 0))
    assert "start, stop)" not in str(functad.jit(lambda x: jnp.cumsum(x, 0)).lower(x[:, :16]).kernels).split(":", 2)[2]
