"""Names of `functad.lax` that are built of others: what is exact where JAX's is not, and errors."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import lax
from functad.errors import ArgumentError


def test_a_group_knows_nothing_of_the_others_infinities():
    rows, matrices = np.float32([[1], [2]]), np.float32([[[np.inf]], [[3]]])
    assert lax.ragged_dot(rows, matrices, np.int32([1, 1])).tolist() == [[np.inf], [6]]


def test_a_patch_knows_nothing_of_infinities_beside_it():
    x = np.float32([[[np.inf, 1, 2]]])
    assert lax.conv_general_dilated_patches(x, (2,), (1,), "VALID").tolist() == [[[np.inf, 1], [1, 2]]]


def test_the_least_integers():
    x = np.int8([-128, 127, 0])
    assert lax.approx_min_k(x, 2)[0].tolist() == [-128, 0]
    assert lax.approx_min_k(np.uint8([0, 255, 7]), 2)[0].tolist() == [0, 7]


def test_a_function_is_applied_as_often_as_an_index_is_there():
    places = lax.ScatterDimensionNumbers((), (0,), (0,))

    def f(x):
        indices = np.int32([[1], [1], [0]])
        return lax.scatter_apply(x, indices, lambda v: v * v, places, update_shape=(3,))

    x = np.float32([2, 3, 5])
    assert f(x).tolist() == [4, 81, 5]
    assert functad.grad(lambda x: f(x).sum())(x).tolist() == [4, 108, 1]
    assert functad.jit(f)(x).tolist() == [4, 81, 5]


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: lax.platform_dependent(1.0, tpu=lambda x: x), "give cpu= or default= beside tpu"),
        (lambda: lax.approx_max_k(np.ones(3), 2, aggregate_to_topk=False), "leave aggregate_to_topk True"),
        (lambda: lax.conv_general_dilated_patches(np.ones((1, 1, 4)), (2, 2), (1,), "SAME"), "one size for each"),
        (lambda: lax.conv_shape_tuple((1, 1, 4), (1, 1, 2), (1, 1), "VALID"), "window_strides|one entry"),
        (lambda: lax.ragged_dot(np.ones((2, 1)), np.ones((1, 1, 1)), np.int32([2]), group_offset=0), "must be None"),
    ],
)
def test_errors(call, text):
    with pytest.raises(ArgumentError, match=text):
        call()
