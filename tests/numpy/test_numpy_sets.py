"""Sets of values: NumPy's, and where their size is given, the same values and what fills them up."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, ConcretizationError

X, Y = np.array([5, 1, 1, 3, 7, 9]), np.array([3, 7, 2, 2])
N = np.array([np.nan, 1.0, np.nan, -0.0], np.float32)


@pytest.mark.parametrize("name", ["union1d", "intersect1d", "setdiff1d", "setxor1d"])
@pytest.mark.parametrize("pair", [(X, Y), (X, X), (Y, X), (N, N), (N, N[1:2]), (X[:0], Y)])
def test_with_and_without_a_size(name, pair):
    x, y = pair
    expected = getattr(np, name)(x, y)
    np.testing.assert_array_equal(np.asarray(getattr(jnp, name)(x, y)), expected)
    found = functad.jit(lambda x, y: getattr(jnp, name)(x, y, size=12, fill_value=77))(x, y)
    np.testing.assert_array_equal(np.asarray(found), [*expected, *[77] * (12 - len(expected))])
    np.testing.assert_array_equal(
        np.asarray(functad.jit(lambda x, y: getattr(jnp, name)(x, y, size=1, fill_value=77))(x, y)),
        [*expected, 77][:1],
    )


def test_where_the_common_values_first_stand():
    values, first, second = functad.jit(lambda x, y: jnp.intersect1d(x, y, return_indices=True, size=3))(X, Y)
    expected = np.intersect1d(X, Y, return_indices=True)
    for found, known, fill in zip((values, first, second), expected, (3, X.size, Y.size)):
        np.testing.assert_array_equal(np.asarray(found), [*known, fill])


def test_an_order_that_is_kept():
    found = functad.jit(lambda x, y: jnp.setdiff1d(x, y, assume_unique=True, size=5))(np.array([9, 1, 5]), Y)
    np.testing.assert_array_equal(np.asarray(found), [9, 1, 5, 0, 0])


def test_a_traced_array_needs_the_size():
    for name in ("intersect1d", "setdiff1d", "setxor1d"):
        with pytest.raises(ConcretizationError, match="size=largest"):
            functad.jit(getattr(jnp, name))(X, Y)


def test_weights_of_quantiles_are_checked():
    with pytest.raises(ArgumentError, match="inverted_cdf"):
        jnp.quantile(X, 0.5, weights=X)
    with pytest.raises(functad.errors.ShapeError, match="weights have shape"):
        jnp.quantile(X, 0.5, method="inverted_cdf", weights=Y)
    found = functad.jit(
        lambda w: jnp.quantile(np.arange(4.0), np.array([0.0, 0.5, 1.0]), method="inverted_cdf", weights=w)
    )
    np.testing.assert_array_equal(np.asarray(found(np.array([0.0, 1.0, 2.0, 0.0]))), [1, 2, 2])
    expected = np.quantile(np.arange(4.0), [0.0, 0.5, 1.0], method="inverted_cdf", weights=[0.0, 1.0, 2.0, 0.0])
    np.testing.assert_array_equal(expected, [1, 2, 2])


@pytest.mark.parametrize(
    ("function", "slopes"),
    [
        (lambda x, y: jnp.unique(x), ([3, 1, 0, 2], [0, 0])),
        (lambda x, y: jnp.unique(x, return_counts=True)[0], ([3, 1, 0, 2], [0, 0])),
        (lambda x, y: jnp.unique(x[None], axis=1)[0], ([3, 1, 0, 2], [0, 0])),
        (lambda x, y: jnp.union1d(x, y), ([3, 1, 0, 2], [0, 4])),
        (lambda x, y: jnp.intersect1d(x, y), ([0, 0, 0, 1], [0, 0])),
        (lambda x, y: jnp.setdiff1d(x, y), ([2, 1, 0, 0], [0, 0])),
        (lambda x, y: jnp.setxor1d(x, y), ([2, 1, 0, 0], [0, 3])),
    ],
)
def test_values_have_the_derivative_of_the_elements_they_come_from(function, slopes):
    def loss(x, y):
        values = function(x, y)
        return jnp.sum(values * np.arange(1.0, values.size + 1))

    x, y = jnp.array([3.0, 1.0, 3.0, 2.0]), jnp.array([2.0, 5.0])
    found = functad.grad(loss, (0, 1))(x, y)
    assert tuple(g.tolist() for g in found) == slopes


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_different_slices_of_a_traced_array(axis):
    x = np.array([[[1, 0], [1, 0], [0, 1]], [[1, 0], [1, 0], [0, 1]]])
    flags = {"return_index": True, "return_inverse": True, "return_counts": True}
    expected = np.unique(x, axis=axis, **flags)
    count = expected[0].shape[axis]

    def f(x, size):
        return jnp.unique(x, axis=axis, size=size, fill_value=7, **flags)

    for found, known in zip(functad.jit(lambda x: f(x, count))(x), expected, strict=True):
        np.testing.assert_array_equal(found, known.reshape(found.shape))
    filled = np.moveaxis(np.asarray(f(x, count + 1)[0]), axis, 0)
    np.testing.assert_array_equal(filled[:count], np.moveaxis(expected[0], axis, 0))
    assert (filled[count] == 7).all()
