"""Reductions whose loops are unrolled or interchanged compute what those of NumPy do."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16

import functad
import functad.numpy as jnp
from functad import lax, machine_model

DTYPES = ["bool", "int8", "uint16", "int32", "int64", "float16", "float32", "float64", "complex64"]


def array(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def kernels(fun: Any, *args: np.ndarray) -> str:
    return str(functad.jit(fun).lower(*args).kernels)


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [0, 1, 2, (1, 2), (0, 1), (0, 2)])
def test_short_reductions_along_any_axes(axis: Any, dtype: str) -> None:
    x = array(3, 4, 2, dtype=dtype)
    of_bits = [jnp.any, jnp.all] if np.dtype(dtype).kind in "biu" else []

    def f(x: Any) -> Any:
        return [reduce(x, axis=axis) for reduce in (jnp.sum, jnp.prod, jnp.max, jnp.min, *of_bits)]

    for found, plain in zip(functad.jit(f)(x), f(jnp.asarray(x)), strict=True):
        np.testing.assert_array_equal(found, np.asarray(plain), strict=True)


def test_a_short_reduction_has_no_loop_of_its_own() -> None:
    assert kernels(lambda x: jnp.sum(x, 1), array(50, 3)).count("for ") == 1
    assert kernels(lambda x: jnp.sum(x, 1), array(50, 300)).count("for ") == 2


@pytest.mark.parametrize("length", [2, 3, 6, 7, 15, 16])
def test_short_rows_are_written_out_where_vectors_had_better_run_along_the_rows(length: int) -> None:
    x = np.linspace(-2, 2, 40 * length, dtype=np.float32).reshape(40, length)
    row = np.arange(length, dtype=np.float32)

    def loops(f: Any, x: np.ndarray, donate: tuple[int, ...] = ()) -> int:
        jitted = functad.jit(lambda x, row: f(x, row), donate_argnums=donate)
        found = str(jitted.lower(x, row).kernels).count("for ")
        np.testing.assert_allclose(jitted(jnp.array(x), row), f(jnp.asarray(x), row), rtol=1e-6)
        return found

    assert (loops(lambda x, row: x * row + row, x) == 1) == (length <= 3)
    assert (loops(lambda x, row: jnp.exp(x * row), x) == 1) == (length <= 6)
    assert (loops(lambda x, row: x * row, x, donate=(0,)) == 1) == (
        length <= 15
    )  # a mask would wait for the row before
    assert loops(lambda x, row: x * row + row, x[:8]) == 2  # there are no rows for a vector
    apart = np.concatenate([x] * 5, 1)
    assert loops(lambda y, row: y[:, 2 : 2 + length] * row, apart) == 2  # a vector along the rows would gather


def test_a_sum_whose_parts_are_its_terms_keeps_the_short_rows_of_its_result() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.transpose(x, (0, 2, 1)) / 5, axis=0)

    x = np.arange(120_000, dtype=np.float32).reshape(4, 3, 10_000)
    np.testing.assert_array_equal(functad.jit(f)(x), f(x))


@pytest.mark.parametrize(("rows", "kernels"), [(2, 1), (16, 1), (32, 1), (64, 2)])
def test_few_rows_are_summed_without_partial_sums(rows: int, kernels: int) -> None:
    x = np.random.default_rng(4).integers(-9, 9, (rows, 40_000)).astype(np.float32)
    step = functad.jit(lambda x: jnp.sum(x, 0))
    assert str(step.lower(x).kernels).count("def ") == kernels
    np.testing.assert_array_equal(step(x), x.sum(0))


def test_what_comes_before_and_after_a_short_reduction() -> None:
    x = np.linspace(-2, 2, 60, dtype=np.float32).reshape(20, 3)

    def softmax(x: Any) -> Any:
        e = jnp.exp(x - jnp.max(x, 1, keepdims=True))
        return e / jnp.sum(e, 1, keepdims=True), jnp.mean(x, 1), x[:, ::-1] * 2

    for found, plain in zip(functad.jit(softmax)(x), softmax(jnp.asarray(x)), strict=True):
        np.testing.assert_allclose(found, plain, rtol=1e-6)


def test_positions_computed_within_a_short_reduction() -> None:
    table, places = array(9, seed=1), array(12, 4, dtype="int32") % 9
    found = functad.jit(lambda t, i: jnp.sum(t[i] * jnp.pad(t, (0, 3))[i], 1))(table, places)
    np.testing.assert_array_equal(found, (table[places] ** 2).sum(1))


@pytest.mark.parametrize("reduce", [jnp.sum, jnp.max, jnp.min, jnp.prod])
def test_special_numbers_in_short_reductions(reduce: Any) -> None:
    x = np.array([*itertools.product([0.0, -0.0, np.nan, np.inf, -np.inf, 2.0], repeat=2)], np.float32)
    for axis, y in ((1, x), (0, x.T.copy())):
        found, plain = functad.jit(lambda y, axis=axis: reduce(y, axis))(y), reduce(jnp.asarray(y), axis)
        np.testing.assert_array_equal(found, plain)
        if reduce in (jnp.max, jnp.min):
            np.testing.assert_array_equal(np.signbit(found), np.signbit(plain))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("reduce", [jnp.max, jnp.min])
def test_extrema_of_long_rows_are_found_among_integers(reduce: Any, dtype: str) -> None:
    pairs = np.array([*itertools.product([0.0, -0.0, np.nan, np.inf, -np.inf, 2.0, -2.0], repeat=2)], dtype)
    rows = np.repeat(pairs, 50, 1)[:, 25:75]

    def f(x: Any) -> Any:
        largest = reduce(x, 1)
        return largest, jnp.sum(x - largest[:, None], 1) + largest * 2

    for found, plain in zip(functad.jit(f)(rows), f(jnp.asarray(rows)), strict=True):
        np.testing.assert_array_equal(found, plain, strict=True)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(plain))
    for one in (rows[:, :1], rows[0, :1, None]):
        np.testing.assert_array_equal(functad.jit(f)(one)[0], reduce(jnp.asarray(one), 1), strict=True)
    found, others = "best" if dtype == "float64" else "most", f"{reduce.__name__}imum({reduce.__name__}"
    for x in (rows, np.zeros(10**5, dtype)):  # one long row is cut into parts
        text = kernels(lambda x: reduce(x, -1), x)
        assert f"imum({found}" in text and others not in text
    assert "imum(best" not in (text := kernels(lambda x: reduce(x, 0), rows))  # vectors run along columns
    assert "imum(most" not in text
    empty = functad.jit(lambda x: reduce(x[:, :0], 1, initial=3.0))(rows)
    np.testing.assert_array_equal(empty, np.full(49, 3.0, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [1, 7, 50, 70_000])
def test_ones_and_zeros_of_rows_are_counted_in_integers(columns: int, dtype: str) -> None:
    x = array(3, columns, dtype=dtype)

    def f(x: Any) -> list[Any]:
        positive = x > 0
        ones = positive.astype(dtype)
        return [jnp.mean(positive, 1, dtype), ones.sum(1), ones * x, x.sum(1), jnp.sum(ones), jnp.sum(ones[:, :0], 1)]

    for found, plain in zip(functad.jit(f)(x), f(jnp.asarray(x)), strict=True):
        np.testing.assert_allclose(found, plain, 1e-5, 1e-3, strict=True)
    np.testing.assert_array_equal(functad.jit(f)(x)[1], (x > 0).sum(1), strict=False)
    text = kernels(lambda x: jnp.sum((x > 0).astype(dtype), 1), x)
    assert ("count_sum" in text) == (columns > 1)
    assert (f"= f{dtype[5:]}(gt" in text) == (columns == 1)  # no other use of ones


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
def test_sums_of_ones_of_narrow_floats_are_rounded_once(dtype: str) -> None:
    x = array(7, 5001)
    found = np.asarray(functad.jit(lambda x: jnp.sum((x > 0).astype(dtype), 1))(x))
    np.testing.assert_array_equal(found, (x > 0).sum(1).astype(found.dtype), strict=True)
    assert "count_sum" in kernels(lambda x: jnp.sum((x > 0).astype(dtype), 1), x)


@pytest.mark.parametrize(
    "f", [lambda x: jnp.sum(jnp.where(x > 0, x, 1), 1), lambda x: jnp.sum((x > 0).astype("float32"), 0)]
)
def test_sums_of_other_numbers_and_of_columns_are_not_counts(f: Any) -> None:
    assert "count_sum" not in kernels(f, array(30, 50))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("reduce", [jnp.max, jnp.min])
def test_extrema_know_nan_whatever_its_bits(reduce: Any, dtype: str) -> None:
    size = np.dtype(dtype).itemsize
    signed_infinities = np.array([np.inf, -np.inf], dtype).view(f"u{size}")
    nans = np.concatenate([signed_infinities + 1, np.array([np.nan, -np.nan], dtype).view(f"u{size}")]).view(dtype)
    for others in ([1.0, 2.0], [-1.0, -2.0], [-1.0, 2.0], [-np.inf, np.inf], [-0.0, 0.0]):
        rows = np.tile(np.array(others, dtype), (5, 32))
        rows[:4, 7] = nans
        found = functad.jit(lambda x: reduce(x, 1))(rows)
        np.testing.assert_array_equal(np.isnan(found), [True] * 4 + [False])
        np.testing.assert_array_equal(found[4], (max if reduce is jnp.max else min)(others))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "int64", "uint64", "float16"])
@pytest.mark.parametrize("lhs, rhs", [*itertools.product([(0, 1), (1, 0)], repeat=2)])
def test_products_without_a_library(lhs: tuple[int, int], rhs: tuple[int, int], dtype: str) -> None:
    a, b = array(17, 20, dtype=dtype), array(20, 19, dtype=dtype, seed=1)
    found = functad.jit(lambda a, b: jnp.matmul(lax.transpose(a, lhs), lax.transpose(b, rhs)))(
        a.transpose(lhs).copy(), b.transpose(rhs).copy()
    )
    np.testing.assert_array_equal(found, a @ b, strict=True)


def test_integer_products_run_along_rows_of_the_right_operand() -> None:
    text = kernels(lambda a, b: a @ b, array(17, 20, dtype="int32"), array(20, 24, dtype="int32"))
    assert (
        text.index("for k_group in range(2)") < text.index("for k in range(16, 20)") < text.rindex("for j in range(24)")
    )
    sums = kernels(lambda a: jnp.sum(a.T, 1), array(200, 300, dtype="int32"))
    assert sums.rindex("in range(25)") < sums.rindex("in range(start, stop)")
    more = kernels(lambda a, b: a @ b, array(17, 20, dtype="int32"), array(20, 19, dtype="int32"))
    assert more.index("for k in range(16, 20)") < more.rindex("for j in range(19)")
    few = kernels(lambda a, b: a @ b, array(17, 20, dtype="int32"), array(20, 13, dtype="int32"))
    assert few.rindex("for j in range(13)") < few.rindex("for k in range(20)")  # of no vector, as sums of floats


@pytest.mark.parametrize("rows", [16, 17, 18, 203])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_sums_of_columns_take_in_several_rows_at_a_time(rows: int, dtype: str) -> None:
    x, weights = array(2, rows, 40, dtype=dtype), array(2, rows, 1, seed=1)

    def f(x: Any, weights: Any) -> list[Any]:
        return [jnp.sum(x, 1), jnp.sum(x * weights, 1), jnp.sum(x[0], 0)]

    for found, plain in zip(functad.jit(f)(x, weights), f(jnp.asarray(x), jnp.asarray(weights)), strict=True):
        np.testing.assert_allclose(found, plain, 1e-5, 1e-5, strict=True)
    text = kernels(lambda x: jnp.sum(x, 1), x)
    assert "accumulate(at_a_2, at_a_3)" in text and ("b[40*i + k], at_a)" in text) == (rows % 4 > 0)
    assert "_block in" not in text  # nothing is read again for other columns


def test_rows_are_taken_one_by_one_where_each_takes_long() -> None:
    x = array(32, 400)
    for f in (lambda x: jnp.max(x, 0), lambda x: jnp.sum(jnp.exp(x), 0)):
        assert "_group in" not in kernels(f, x)
    assert "_group in" in kernels(lambda x: jnp.sum(x * x, 0), x)


@pytest.mark.parametrize("columns, is_grouped", [(100, True), (200, False), (1000, True)])
def test_rows_of_large_arrays_are_read_one_by_one_where_pages_hold_some(columns: int, is_grouped: bool) -> None:
    large = np.zeros((machine_model.SECOND_CACHE // 100, columns), np.float32)
    assert ("r_group in" in kernels(lambda x: jnp.sum(x, 0), large)) == is_grouped
    assert "_group in" in kernels(lambda x: jnp.sum(x, 0), large[:64])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64"])
@pytest.mark.parametrize("terms", [1, 16, 25])
def test_integer_products_of_many_columns_go_block_by_block(
    terms: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_model, "COLUMNS_READ_AGAIN", 16)
    a, b = array(2, 5, terms, dtype=dtype), array(2, terms, 40, dtype=dtype, seed=1)
    np.testing.assert_array_equal(functad.jit(jnp.matmul)(a, b), a @ b, strict=True)
    if terms > 1:
        text = kernels(jnp.matmul, a[0], b[0])
        assert (
            text.index("for j_block in range(3)")
            < text.rindex("for i in range(")
            < text.rindex("for j in range(j_count)")
        )


def test_integers_of_no_rows_and_many_columns() -> None:
    def f(x: Any) -> list[Any]:
        return [jnp.sum(x, axis=1), jnp.prod(x, axis=(0, 1)), jnp.any(x, axis=1)]

    for found, plain in zip(functad.jit(f)(np.ones((3, 0, 300), np.int32)), f(jnp.ones((3, 0, 300), "int32"))):
        np.testing.assert_array_equal(found, plain, strict=True)


def test_more_than_few_terms_are_gathered_by_vectors() -> None:
    def kernel_of(length: int) -> str:
        return kernels(lambda x: jnp.sum(jnp.exp(jnp.sin(jnp.tanh(x))), 1), array(40, length))

    for length, is_by_vectors in ((7, False), (8, True)):
        text = kernel_of(length)
        assert f"for j in range({length})" in text  # too much to be written out
        assert ("accumulate(" in text) == is_by_vectors


OVERFLOWING = [[3e38, -3e38, 3e38], [3e38, 3e38, -np.inf], [1, 1e30, -1e30, 1], [3e38, 3e38, -3e38, -3e38]]


@pytest.mark.parametrize("terms", OVERFLOWING)
def test_few_terms_are_added_in_their_order(terms: list[float]) -> None:
    x = np.array(terms, np.float32)
    for axis, y in ((0, x), (0, np.tile(x[:, None], 33)), (1, np.tile(x, (33, 1)))):

        def both(y: Any, axis: int = axis) -> Any:
            return [jnp.sum(y, axis), jnp.mean(y, axis)]

        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(functad.jit(both)(y), both(jnp.asarray(y)))

    def steps(y: Any) -> Any:
        return lax.scan(lambda c, row: (c, jnp.sum(row)), 0, y)[1]

    rows = np.tile(x, (50, 1))
    np.testing.assert_array_equal(functad.jit(steps)(rows), steps(rows))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
@pytest.mark.parametrize("width", [2, 3, 8, 24])
def test_sums_over_short_rows_run_side_by_side(width: int, dtype: str) -> None:
    x, table, i = (
        array(3000, width, dtype=dtype),
        array(10, width, dtype=dtype, seed=1),
        array(3000, dtype="int32") % 10,
    )

    def f(x: Any, table: Any, i: Any) -> Any:
        return jnp.sum((x - table[i]) ** 2), jnp.max(jnp.abs(x - table[i]))

    text = kernels(lambda *args: f(*args)[0], x, table, i)
    assert ("_lanes" in text) == (width != 3)
    for found, wanted in zip(functad.jit(f)(x, table, i), f(*map(jnp.asarray, (x, table, i))), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert "_lanes" not in kernels(lambda x: jnp.sum(x**2), x)  # one loop through memory


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (1, 2), (0, 2)])
@pytest.mark.parametrize("order", [(1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_reductions_of_turned_arrays_read_along_rows(order: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = array(18, 24, 30, seed=1)
    kept = [axis for place, axis in enumerate(order) if place not in axes]
    if kept == sorted(kept):  # else rows of the result run across those of x
        loops, read, *_ = re.split(r"at_a\w* = input_a\[", kernels(lambda x: jnp.sum(jnp.transpose(x, order), axes), x))
        innermost = re.findall(r"for (\w+) in", loops)[-1]
        assert read.split("]")[0].endswith(f"+ {innermost}")
    for reduce in (jnp.sum, jnp.max):
        found = functad.jit(lambda x, f=reduce: f(jnp.transpose(x, order), axes))(x)
        np.testing.assert_array_equal(found, np.asarray(reduce(jnp.asarray(np.transpose(x, order)), axes)))
