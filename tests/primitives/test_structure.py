"""Structural primitives beyond their examples: views, exactness, and what their rules turn into."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import lax
from functad.primitives import joining, sorting, structure


def _names(fun, *args):
    return [e.primitive.name for e in functad.make_jaxpr(fun)(*args).eqns]


def test_cutting_copies_nothing():
    x = np.arange(12.0).reshape(3, 4)
    slices = structure.slice_p.impl(x, start_indices=(0, 1), limit_indices=(3, 4), strides=(1, 2))
    cropped = structure.pad_p.impl(x, np.float64(0), padding_config=((-1, 0, 0), (0, -2, 0)))
    (_, last) = joining.split_p.impl(x, sizes=(2, 1), axis=0)
    for part in (slices, cropped, last, structure.rev_p.impl(x, dimensions=(0,))):
        assert np.shares_memory(part, x)


@pytest.mark.parametrize(
    "low, high, interior", [(2, 0, 0), (0, -2, 0), (-1, 3, 2), (-5, 4, 1), (-2, -2, 1), (-3, -4, 3)]
)
def test_pad_equals_inserting_then_cropping(low, high, interior):
    x = np.arange(1.0, 5.0)
    spread = np.zeros(len(x) + (len(x) - 1) * interior)
    spread[:: interior + 1] = x
    expected = np.concatenate([np.zeros(max(low, 0)), spread, np.zeros(max(high, 0))])
    expected = expected[max(-low, 0) : len(expected) - max(-high, 0)]
    found = structure.pad(x, np.float64(0), [(low, high, interior)])
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_padding_values_of_each_example_may_be_nan():
    values = np.float32([np.nan, np.inf])
    found = functad.vmap(lambda x, v: lax.pad(x, v, [(1, 0, 1)]))(np.ones((2, 2), np.float32), values)
    expected = np.float32([[np.nan, 1, np.nan, 1], [np.inf, 1, np.inf, 1]])
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_gradient_of_a_slice_is_one_pad():
    gradient = functad.grad(lambda x: lax.reduce_sum(lax.slice(x, (1,), (8,), (3,)), (0,)))
    names = _names(gradient, np.arange(9.0))
    assert names[-1] == "pad"
    np.testing.assert_array_equal(np.asarray(gradient(np.arange(9.0))), [0, 1, 0, 0, 1, 0, 0, 1, 0])


def test_gradient_of_concatenate_is_one_split():
    gradient = functad.grad(lambda x, y: lax.reduce_sum(lax.concatenate([x, y], 0), (0,)), (0, 1))
    assert _names(gradient, np.ones(2), np.ones(3)).count("split") == 1


def test_sorting_for_a_gradient_sorts_once():
    gradient = functad.grad(lambda x: lax.sort(x)[0])
    assert _names(gradient, np.array([3.0, 1.0, 2.0])).count("sort") == 1
    np.testing.assert_array_equal(np.asarray(gradient(np.array([3.0, 1.0, 2.0]))), [0, 1, 0])


def test_derivatives_of_arrays_that_are_sorted_along():
    keys, values = np.int32([2, 0, 1]), np.float32([10, 20, 30])
    _, tangent = functad.jvp(lambda v: lax.sort((keys, v))[1], (values,), (np.float32([1, 2, 3]),))
    np.testing.assert_array_equal(np.asarray(tangent), [2, 3, 1])


def test_top_k_takes_the_first_of_equal_elements():
    values, where = sorting.top_k(np.int32([1, 7, 7, 3]), k=3, axis=0)
    np.testing.assert_array_equal(np.asarray(values), [7, 7, 3])
    np.testing.assert_array_equal(np.asarray(where), [1, 2, 3])


@pytest.mark.parametrize(
    "call, text",
    [
        (
            lambda x: lax.slice(lax.pad(x, 0.0, [(1, 0, 0)]), (0,), (4,)),
            "pad[padding_config=((1, 0, 0),)] a 0.0:f32[]",
        ),
        (lambda x: lax.rev(lax.tile(x, (2,)), (0,)), "tile[reps=(2,)] a"),
        (lambda x: lax.split(x, (1, 2)), "split[axis=0 sizes=(1, 2)] a"),
        (lambda x: lax.stack([x, x]), "stack[axis=0] a a"),
        (lambda x: lax.sort((x, x)), "sort[dimension=0 is_stable=True num_keys=1] a a"),
        (lambda x: lax.top_k(x, 1), "top_k[axis=0 k=1] a"),
    ],
)
def test_printing(call, text):
    assert text in str(functad.make_jaxpr(call)(np.zeros(3, np.float32)))
