"""Gather, scatter and dynamic slices beyond their examples: duplicates, ties, zeros, and what batching gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import DifferentiationError
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


PROMISES = {"unique_indices": True, "indices_are_sorted": True}
READS = {
    "gather": lambda table, place: lax.gather(table, lax.reshape(place, (1, 1)), ROWS, (1, 2), **PROMISES),
    "take": lambda table, place: jnp.take(table, place, axis=0),
    "dynamic_slice": lambda table, place: lax.dynamic_slice(table, (place, 0), (1, 2)),
}


def _promised(fun, *args):
    """What the equations of a function's Program promise of their indices."""
    params = [e.params for e in functad.make_jaxpr(fun)(*args).eqns]
    return {p[name] for p in params for name in PROMISES if name in p}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_what_is_promised_of_each_example_is_promised_of_a_batch_only_if_each_has_its_operand(name, axes):
    table = np.ones((3, 6, 2) if axes[0] == 0 else (6, 2), np.float32)
    place = np.zeros((3,) if axes[1] == 0 else (), np.int32)
    read = functad.vmap(READS[name], axes)
    gradient = functad.grad(lambda table, place: read(table, place).sum())
    stays_a_slice = name == "dynamic_slice" and axes[1] is None
    expected = set() if stays_a_slice else {axes[0] == 0}
    assert _promised(read, table, place) == _promised(gradient, table, place) == expected
    for fun in (gradient, functad.jit(gradient)):
        np.testing.assert_array_equal(np.asarray(fun(table, place))[..., 0, :], 1 if axes[0] == 0 else 3)


@pytest.mark.parametrize("axes", [c for c in itertools.product((0, None), repeat=3) if any(a == 0 for a in c)])
def test_a_batch_of_scatters_keeps_what_is_promised(axes):
    operand, indices, updates = np.zeros(4, np.float32), np.int32([[0], [3]]), np.ones(2, np.float32)
    args = [x if a is None else np.stack([x] * 3) for x, a in zip((operand, indices, updates), axes)]
    fun = functad.vmap(lambda *args: lax.scatter_add(*args, ELEMENTS, **PROMISES), axes)
    assert _promised(fun, *args) == {True}
    np.testing.assert_array_equal(np.asarray(functad.jit(fun)(*args)), [[1, 0, 0, 1]] * 3)


def test_threads_add_each_example_to_the_row_that_all_of_them_read():
    n = 1 << 21
    gradient = functad.grad(lambda table, places: functad.vmap(READS["take"], (None, 0))(table, places).sum())
    found = functad.jit(gradient)(np.ones((4, 2), np.float32), np.zeros(n, np.int32))
    np.testing.assert_array_equal(np.asarray(found), [[n, n], [0, 0], [0, 0], [0, 0]])


@pytest.mark.parametrize("name, expected", [("scatter", [0, 1]), ("scatter_mul", [3, 2]), ("scatter_add", [1, 1])])
def test_unique_indices_that_are_moved_into_bounds_may_meet(name, expected):
    def fun(u):
        return getattr(lax, name)(np.ones(4, np.float32), np.int32([[3], [4]]), u, ELEMENTS, mode="clip", **PROMISES)

    u = np.float32([2, 3])
    forward = [lax.reduce_sum(functad.jvp(fun, (u,), (t,))[1], (0,)) for t in np.eye(2, dtype=np.float32)]
    np.testing.assert_array_equal(np.asarray(forward), expected)
    np.testing.assert_array_equal(_gradients(fun, u)[0], expected)


def test_a_product_of_updates_is_no_linear_function():
    def transposed(fun, *args):
        return functad.linear_transpose(fun, *args)(np.ones(2, np.float32))

    def multiplied(x, u, *places, **promises):
        return lax.scatter_mul(x, np.int32(places), u, ELEMENTS, **promises)

    x, u = np.float32([2, 5]), np.ones(2, np.float32)
    with pytest.raises(DifferentiationError, match="unique_indices=True"):
        transposed(lambda u: multiplied(x, u, [0], [0]), u)
    with pytest.raises(DifferentiationError, match="unique_indices=True"):
        transposed(lambda u: multiplied(x, u, [1], [2], mode="clip", **PROMISES), u)
    with pytest.raises(DifferentiationError, match="both of its operands"):
        transposed(lambda x: multiplied(x, x, [0], [1], **PROMISES), x)
    (found,) = transposed(lambda u: multiplied(x, u, [0], [1], **PROMISES), u)
    np.testing.assert_array_equal(np.asarray(found), x)
    (one,) = transposed(lambda u: multiplied(x, u, [1]), u[:1])
    np.testing.assert_array_equal(np.asarray(one), [5])


def test_printing():
    def fun(x, i):
        return lax.gather(x, i, ROWS, (1, 2))

    text = str(functad.make_jaxpr(fun)(np.zeros((2, 2), np.float32), np.int32([[1]])))
    assert "mode=GatherScatterMode.PROMISE_IN_BOUNDS" in text
    assert "dimension_numbers=GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,)" in text
