"""Gather, scatter and dynamic slices beyond their examples: duplicates, ties, zeros, and what batching gives."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import lax
from functad.primitives.indexing import GatherDimensionNumbers, ScatterDimensionNumbers, gather_along

ELEMENTS = ScatterDimensionNumbers((), (0,), (0,))
ROWS = GatherDimensionNumbers((1,), (0,), (0,))


def _gradients(fun, *args, weights=None):
    def weighted(*args):
        out = fun(*args)
        return lax.reduce_sum(out if weights is None else lax.mul(out, weights), (0,))

    return [np.asarray(g) for g in functad.grad(weighted, tuple(range(len(args))))(*args)]


def test_of_duplicates_the_last_one_stays_and_has_the_gradient():
    indices, updates = np.int32([[1], [1], [5]]), np.float32([5, 6, 7])

    def fun(x, u):
        return lax.scatter(x, indices, u, ELEMENTS)

    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(np.asarray(fun(x, updates)), [1, 6, 3])
    dx, du = _gradients(fun, x, updates, weights=np.float32([1, 2, 3]))
    np.testing.assert_array_equal(dx, [1, 0, 3])
    np.testing.assert_array_equal(du, [0, 2, 0])


@pytest.mark.parametrize("name", ["scatter_max", "scatter_min"])
def test_ties_share_the_derivative(name):
    def fun(x, u):
        return getattr(lax, name)(x, np.int32([[0], [0], [1]]), u, ELEMENTS)

    dx, du = _gradients(fun, np.float32([2, 1]), np.float32([2, 2, 1]))
    np.testing.assert_allclose(dx, [1 / 3, 1 / 2], rtol=1e-6)
    np.testing.assert_allclose(du, [1 / 3, 1 / 3, 1 / 2], rtol=1e-6)


def test_windows_that_are_clipped_keep_their_derivative():
    def fun(x, u):
        return lax.scatter_max(x, np.int32([[9]]), u, ELEMENTS, mode="clip")

    dx, du = _gradients(fun, np.zeros(3, np.float32), np.ones(1, np.float32))
    np.testing.assert_array_equal(dx, [1, 1, 0])
    np.testing.assert_array_equal(du, [1])


@pytest.mark.parametrize(
    "factors, expected", [([3, 4], [8, 6]), ([0, 4], [8, 0]), ([0, 0], [0, 0])], ids=["none", "one", "two"]
)
def test_products_of_duplicates_with_zeros(factors, expected):
    def fun(x, u):
        return lax.scatter_mul(x, np.int32([[0], [0]]), u, ELEMENTS)

    dx, du = _gradients(fun, np.float32([2, 5]), np.float32(factors))
    np.testing.assert_array_equal(dx, [np.prod(factors), 1])
    np.testing.assert_array_equal(du, expected)


def test_gather_out_of_bounds():
    x = np.float32([[1, 2], [3, 4]])
    indices = np.int32([[1], [2], [-1]])
    filled = lax.gather(x, indices, ROWS, (1, 2), mode="fill")
    np.testing.assert_array_equal(np.asarray(filled), np.float32([[3, 4], [np.nan] * 2, [np.nan] * 2]))
    clipped = lax.gather(x, indices, ROWS, (1, 2), mode="clip")
    np.testing.assert_array_equal(np.asarray(clipped), [[3, 4], [3, 4], [1, 2]])


def test_gather_along_an_axis():
    x = np.arange(6.0).reshape(2, 3)
    indices = np.array([[2, 0], [1, 1]])
    np.testing.assert_array_equal(np.asarray(gather_along(x, indices, 1)), np.take_along_axis(x, indices, 1))


def test_a_mapped_operand_with_one_position_stays_a_dynamic_slice():
    x = np.arange(12.0).reshape(3, 4)
    program = functad.make_jaxpr(functad.vmap(lambda x: lax.dynamic_slice(x, (1,), (2,))))(x)
    assert [e.primitive.name for e in program.eqns] == ["dynamic_slice"]


def test_positions_of_their_own_become_a_gather_and_a_scatter():
    x, starts = np.arange(12.0).reshape(3, 4), np.int32([0, 3, 1])
    read = functad.vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,), allow_negative_indices=False))
    write = functad.vmap(lambda x, i: lax.dynamic_update_slice(x, -x[:2], (i,), allow_negative_indices=False))
    np.testing.assert_array_equal(np.asarray(read(x, starts)), [x[0, :2], x[1, 2:], x[2, 1:3]])
    assert "gather" in str(functad.make_jaxpr(read)(x, starts))
    assert "scatter" in str(functad.make_jaxpr(write)(x, starts))
    expected = x.copy()
    for row, start in enumerate([0, 2, 1]):
        expected[row, start : start + 2] = -x[row, :2]
    np.testing.assert_array_equal(np.asarray(write(x, starts)), expected)


def test_printing():
    def fun(x, i):
        return lax.gather(x, i, ROWS, (1, 2))

    text = str(functad.make_jaxpr(fun)(np.zeros((2, 2), np.float32), np.int32([[1]])))
    assert "mode=GatherScatterMode.PROMISE_IN_BOUNDS" in text
    assert "dimension_numbers=GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,)" in text
