"""Programs that random ones once showed to go wrong, and values that need care, compiled and as plain Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cpu_program_tools import check_plain, compare, program_of
from fuzz.kernels import OpenExecutable

import functad
from functad import interpreter, lax
from functad.backends.cpu.lowering import CpuLowering
from functad.optimize.pipeline import inline_calls, simplify

# --- programs that went wrong -------------------------------------------------------------------------------


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-4, 5, shape).astype(np.float32)


def both_ways(fun: Callable[..., Any], *args: np.ndarray, donated: Sequence[bool] = (), a_pass: Any = simplify) -> None:
    program = program_of(fun, args, a_pass)
    run = OpenExecutable(program, donated)
    check_plain(program, args, list(donated) or [False] * len(args), lowered=run)
    expected = [np.array(x) for x in interpreter.compile_program(program)([a.copy() for a in args])]
    for wanted, got in zip(expected, run([a.copy() for a in args]), strict=True):
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

    x = f32(4, 6)
    both_ways(fun, x, a_pass=inline_calls)
    assert str(CpuLowering(program_of(fun, (x,), inline_calls)).kernels).count("def ") == 1


def test_sums_over_nothing_read_nothing() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        products = lax.dot_general(x, y, (((0,), (0,)), ((), ())))
        return [lax.reduce_sum(x, (0, 1)), lax.reduce_max(x, (0,)), lax.reduce_and(lax.ne(x, x), (0,)), products]

    both_ways(fun, f32(0, 3), f32(0, 2))


def test_a_sum_that_turns_out_unused_leaves_no_empty_loop() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        positions = lax.reduce_sum(lax.convert_element_type(x, np.int32), (1,))
        starts = lax.reshape(positions, (2, 1))
        rows = functad.lax.GatherDimensionNumbers((1,), (), (1,), (0,), (0,))
        first = lax.gather(y, starts, rows, (1, 1), mode="clip")  # the only element there is
        return [lax.lt(first, np.float32(1)), lax.sin(y)]

    both_ways(fun, f32(2, 9), f32(2, 1))


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


def test_one_matrix_for_a_whole_batch_is_there_before_the_first_product() -> None:
    def fun(x: Any) -> list[Any]:
        y = lax.sin(x)
        one = lax.broadcast_in_dim(lax.slice(y, (3, 0, 0), (4, 3, 3)), (4, 3, 3), (0, 1, 2))
        return [lax.dot_general(y, one, (((2,), (1,)), ((0,), (0,))))]

    for seed in range(5):
        program = program_of(fun, [f32(4, 3, 3)])
        check_plain(program, [f32(4, 3, 3)], [False], seed)


def test_batches_whose_matrices_interleave_wait_for_all_rows() -> None:
    def fun(x: Any) -> list[Any]:
        y = lax.sin(x)
        rows, columns = (((2,), (2,)), ((1,), (1,))), (((0,), (0,)), ((1,), (1,)))
        return [lax.dot_general(y, y, rows), lax.dot_general(y, x, columns)]

    for seed in range(5):
        program = program_of(fun, [f32(5, 4, 6)])
        check_plain(program, [f32(5, 4, 6)], [False], seed)


# --- values that need care ----------------------------------------------------------------------------------

SPECIAL = np.array([[np.nan, np.inf, -np.inf, -0.0], [0.0, 1, -1, 2], [-0.0, -0.0, -0.0, -0.0]], np.float32)
OPERANDS = {
    "float32": SPECIAL,
    "float16": SPECIAL.astype(np.float16),
    "float64": SPECIAL.astype(np.float64),
    "complex64": SPECIAL.astype(np.complex64)[1:] - np.complex64(2j),
    "int32": np.array([[2**31 - 1, -(2**31), 3], [4, 5, -6]], np.int32),
    "uint8": np.array([[255, 0, 3], [4, 5, 6]], np.uint8),
    "bool": np.array([[True, False], [True, True]]),
}


def same_signs(fun: Callable[..., Any], *args: np.ndarray) -> None:
    """Compiled and as plain Python, the results are those of the interpreter, signs of zeros included."""
    program = program_of(fun, args)
    check_plain(program, args, [False] * len(args))
    expected = interpreter.compile_program(program)([a.copy() for a in args])
    for k, (wanted, got) in enumerate(zip(expected, OpenExecutable(program)(list(args)), strict=True)):
        wanted = np.asarray(wanted)
        compare(wanted, got, f"result {k}")
        if wanted.dtype.kind == "f":
            known = ~np.isnan(wanted)
            assert np.array_equal(np.signbit(wanted)[known], np.signbit(got)[known]), f"result {k}: {got}"


@pytest.mark.parametrize("dtype", OPERANDS)
def test_reductions_and_products_of_special_values(dtype: str) -> None:
    x = OPERANDS[dtype]

    def fun(x: Any) -> list[Any]:
        reductions = [] if dtype == "bool" else [lax.reduce_sum, lax.reduce_prod]
        if x.dtype.kind != "c":
            reductions += [lax.reduce_max, lax.reduce_min]
        if x.dtype.kind in "biu":
            reductions += [lax.reduce_and, lax.reduce_or, lax.reduce_xor]
        products = [lax.dot_general(x, x, (((d,), (d,)), ((), ()))) for d in (0, 1)]
        return [reduce(x, axes) for reduce in reductions for axes in ((0,), (1,), (0, 1))] + products

    same_signs(fun, x)


def test_arithmetic_with_zeros_and_ones_keeps_nan_infinity_and_signs() -> None:
    def fun(x: Any) -> list[Any]:
        zero, one, minus = np.float32(0), np.float32(1), np.float32(-0.0)
        sums = [lax.add(x, zero), lax.add(x, minus), lax.sub(x, zero), lax.sub(zero, x), lax.sub(minus, x)]
        products = [lax.mul(x, one), lax.mul(x, zero), lax.mul(x, minus), lax.div(x, one), lax.div(one, x)]
        return [*sums, *products, lax.neg(lax.neg(x)), lax.neg(lax.sub(zero, x)), lax.abs(x), lax.sub(x, x)]

    same_signs(fun, SPECIAL)
