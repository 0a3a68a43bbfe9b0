"""What the table-driven tests do not cover of window reductions: known values, ties, messages."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import functad
from functad.array import ArrayImpl
from functad.errors import ArgumentError, DTypeError, NoRuleError, ShapeError
from functad.ir import UndefinedPrimal
from functad.primitives.window import (
    reduce_window_max,
    reduce_window_max_p,
    reduce_window_min,
    reduce_window_sum,
)
from functad.primitives.window_select import select_and_gather_add, select_and_scatter_add
from functad.tracing import trace_to_program
from functad.transforms.reverse import linearize_flat


def array(values):
    return ArrayImpl(np.array(values, np.float32))


def gradient(fun, x, ct):
    _, linear = linearize_flat(lambda x: [fun(x)], [x], [True])
    return np.asarray(linear.transpose([array(ct)])[0])


def test_known_values():
    x = array([3, 1, 4, 1, 5, 9])
    np.testing.assert_array_equal(reduce_window_sum(x, window_dimensions=(3,)), [8, 6, 10, 15])
    pairs = {"window_dimensions": (2,), "window_strides": (2,)}
    np.testing.assert_array_equal(reduce_window_max(x, **pairs), [3, 4, 9])
    np.testing.assert_array_equal(reduce_window_min(x, **pairs), [1, 1, 5])


def test_padding_changes_no_result():
    x = array([-3, -1])
    windows = {"window_dimensions": (2,), "padding": ((1, 1),)}
    np.testing.assert_array_equal(reduce_window_sum(x, **windows), [-3, -4, -1])
    np.testing.assert_array_equal(reduce_window_max(x, **windows), [-3, -1, -1])
    np.testing.assert_array_equal(reduce_window_min(x, **windows), [-3, -3, -1])


def test_dilations():
    x = array([1, 2, 3, 4])
    np.testing.assert_array_equal(reduce_window_sum(x, window_dimensions=(2,), window_dilation=(2,)), [4, 6])
    np.testing.assert_array_equal(reduce_window_sum(x, window_dimensions=(2,), base_dilation=(2,)), [1, 2, 2, 3, 3, 4])


def test_the_gradient_of_a_maximum_goes_to_the_first_of_equal_elements():
    x = array([[1, 1], [1, 1]])
    assert gradient(lambda x: reduce_window_max(x, window_dimensions=(2, 2)), x, [[5]]).tolist() == [
        [5, 0],
        [0, 0],
    ]


def test_overlapping_windows_add_their_cotangents():
    x = array([0, 7, 0])
    assert gradient(lambda x: reduce_window_max(x, window_dimensions=(2,)), x, [1, 10]).tolist() == [0, 11, 0]


def test_the_gradient_of_dilated_windows():
    x = array([5, 0, 1, 9, 2])
    reduce = lambda x: reduce_window_max(x, window_dimensions=(2,), window_dilation=(2,), padding=((1, 0),))  # noqa: E731
    # Windows: (padding, 0), (5, 1), (0, 9), (1, 2)
    assert gradient(reduce, x, [1, 2, 3, 4]).tolist() == [2, 1, 0, 3, 4]


def test_the_gradient_of_padding_that_crops():
    x = array([9, 1, 2, 9])
    reduce = lambda x: reduce_window_max(x, window_dimensions=(2,), padding=((-1, -1),))  # noqa: E731
    assert gradient(reduce, x, [3]).tolist() == [0, 0, 3, 0]


@pytest.mark.parametrize(
    ("windows", "error", "text"),
    [
        (
            {"window_dimensions": (2,)},
            ArgumentError,
            r"window_dimensions=\(2,\) must have one entry for each axis",
        ),
        ({"window_dimensions": (2, 0)}, ArgumentError, r"window_dimensions=\(2, 0\) must be at least 1"),
        (
            {"window_dimensions": (1, 1), "window_strides": (1, 0)},
            ArgumentError,
            r"window_strides=\(1, 0\) must be at least 1",
        ),
    ],
)
def test_errors_name_the_argument(windows, error, text):
    with pytest.raises(error, match=f"reduce_window_max: {text}"):
        trace_to_program(lambda x: [reduce_window_max(x, **windows)], [array(np.zeros((3, 4))).aval])


def test_sums_of_booleans():
    with pytest.raises(DTypeError, match=r"reduce_window_sum takes numbers, but was given bool\[3\]"):
        x = ArrayImpl(np.zeros(3, np.bool_))
        trace_to_program(lambda x: [reduce_window_sum(x, window_dimensions=(2,))], [x.aval])


def test_a_maximum_has_no_transpose():
    x = array([1, 2])
    with pytest.raises(NoRuleError, match="not linear; its derivative, select_and_gather_add, is"):
        reduce_window_max_p.transpose(array([1]), UndefinedPrimal(x.aval), window_dimensions=(2,))


WINDOWS = {"window_dimensions": (2,), "window_strides": (1,), "padding": ((0, 0),)}
UNDILATED = {**WINDOWS, "base_dilation": (1,), "window_dilation": (1,)}


@pytest.mark.parametrize(
    ("fun", "shapes", "params", "error", "text"),
    [
        (select_and_gather_add, [(3,), (4,)], UNDILATED, ShapeError, "must have one shape"),
        (
            select_and_scatter_add,
            [(3,), (3,)],
            WINDOWS,
            ShapeError,
            r"has \(2,\) windows, but the source has shape",
        ),
        (
            select_and_gather_add,
            [(3,), (3,)],
            {**UNDILATED, "select_prim": "gt"},
            ArgumentError,
            "must be 'ge'",
        ),
    ],
)
def test_errors_of_selections(fun, shapes, params, error, text):
    avals = [array(np.zeros(s)).aval for s in shapes]
    with pytest.raises(error, match=text):
        trace_to_program(lambda a, b: [fun(a, b, **{"select_prim": "ge", **params})], avals)


@pytest.mark.parametrize("padding", [((0, 0), (0, 0)), ((1, 0), (0, 1))])
def test_sums_of_negative_zeros_are_zero(padding: Any) -> None:
    x = functad.numpy.full((4, 2), -0.0)
    sums = partial(reduce_window_sum, window_dimensions=(2, 2), padding=padding)
    for found in (sums(x), functad.jit(sums)(x)):
        np.testing.assert_array_equal(np.signbit(found), False)
