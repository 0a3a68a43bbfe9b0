"""The sorting and cumulative kernels against Python's own sort and loops.

Knows kernels/sorting.py only.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from functad import machine_model
from functad.primitives.kernels import sorting


def test_lexicographic_stable_sort_of_several_operands():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 4, (3, 50)), rng.integers(0, 4, (3, 50)).astype(np.float32)
    position = np.broadcast_to(np.arange(50), (3, 50))
    for num_keys in (1, 2):
        got = sorting.sort((first, second, position), dimension=1, num_keys=num_keys)
        for row in range(3):
            triples = list(zip(first[row], second[row], position[row], strict=True))
            expected = sorted(triples, key=lambda triple: triple[:num_keys])
            assert list(zip(*(operand[row] for operand in got), strict=True)) == expected


@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint32, np.float16, np.float64])
def test_sort_of_one_operand(dimension, dtype):
    x = np.random.default_rng(0).integers(0, 50, (7, 9)).astype(dtype)
    (got,) = sorting.sort((x,), dimension=dimension)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.sort(x, axis=dimension))


def test_nan_comes_last_and_zeros_are_equal():
    x = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 0.0])
    (alone,) = sorting.sort((x,), dimension=0)
    np.testing.assert_array_equal(alone, [-np.inf, 0, 0, 0, np.inf, np.nan])
    np.testing.assert_array_equal(np.signbit(alone[1:4]), [False, True, False])
    for keys in ((x,), (x, np.zeros(6))):
        order = sorting.sort((*keys, np.arange(6)), dimension=0, num_keys=len(keys))[-1]
        np.testing.assert_array_equal(order, [4, 1, 2, 5, 3, 0])


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
def test_orders_of_numbers_with_their_positions(dtype, monkeypatch):
    rng, kinds_of_sort = np.random.default_rng(3), []
    argsort = np.argsort
    monkeypatch.setattr(machine_model, "PAIRED_ROW", 1)
    monkeypatch.setattr(np, "argsort", lambda *args, **kwargs: kinds_of_sort.append(kwargs) or argsort(*args, **kwargs))
    x = rng.integers(0, 9, (40, 30)).astype(dtype)
    x[::7] = rng.choice([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf] if dtype == "float32" else [0, 2**31 - 1], 30)
    for axis, given in ((0, x), (1, x), (1, x[::2, ::3]), (0, -x.T if dtype != "uint32" else x.T)):
        (_, found) = sorting.sort((given, np.indices(given.shape)[axis]), dimension=axis)
        np.testing.assert_array_equal(found, argsort(given, axis=axis, kind="stable"))
    assert not kinds_of_sort


CUMULATIVE = {
    "cumsum": lambda a, b: a + b,
    "cumprod": lambda a, b: a * b,
    "cummax": max,
    "cummin": min,
    "cumlogsumexp": lambda a, b: math.log(math.exp(a) + math.exp(b)),
}


@pytest.mark.parametrize("name", CUMULATIVE)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_cumulative_against_a_loop(name, reverse, axis):
    x = np.random.default_rng(0).uniform(-2, 2, (4, 5))
    got = getattr(sorting, name)(x, axis=axis, reverse=reverse)
    lines, results = np.moveaxis(x, axis, -1), np.moveaxis(got, axis, -1)
    for line, result in zip(lines, results, strict=True):
        values = list(line[::-1] if reverse else line)
        for k in range(1, len(values)):
            values[k] = CUMULATIVE[name](values[k - 1], values[k])
        np.testing.assert_allclose(result[::-1] if reverse else result, values, rtol=1e-13)


@pytest.mark.parametrize("name", CUMULATIVE)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_cumulative_keeps_dtype_and_takes_empty_arrays(name, dtype):
    got = getattr(sorting, name)(np.zeros((0, 3), dtype), axis=0)
    assert (got.shape, got.dtype) == ((0, 3), dtype)


def test_integers_wrap_in_their_own_dtype():
    x = np.array([100, 100, 1], np.int8)
    np.testing.assert_array_equal(sorting.cumsum(x, axis=0), np.array([100, -56, -55], np.int8))
    np.testing.assert_array_equal(sorting.cumprod(x, axis=0), np.array([100, 16, 16], np.int8))


def test_nan_persists_in_running_extremes():
    x = np.array([1.0, np.nan, 3.0])
    np.testing.assert_array_equal(sorting.cummax(x, axis=0), [1.0, np.nan, np.nan])
    np.testing.assert_array_equal(sorting.cummin(x, axis=0, reverse=True), [np.nan, np.nan, 3.0])


def test_the_error_of_a_long_sum_does_not_grow():
    tenth = np.full(100_000, 0.1, np.float32)
    expected = np.arange(1, 100_001) * float(np.float32(0.1))
    np.testing.assert_allclose(sorting.cumsum(tenth, axis=0), expected, rtol=1e-7)
