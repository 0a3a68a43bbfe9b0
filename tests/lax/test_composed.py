"""Primitives that JAX alone has: `bind` makes of arrays what JAX's does, in every mode."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError

X = np.float32([3, 1, 2])


@pytest.mark.parametrize("run", [lambda f: f, functad.jit])
def test_reductions_by_a_program(run):
    program = functad.make_jaxpr(lambda x, y: x * y)(1.0, 1.0)
    params = {"computation": None, "jaxpr": program, "dimensions": (0,)}
    assert [float(y) for y in run(lambda x: lax.reduce_p.bind(x, np.float32(1), **params))(X)] == [6]
    windows = {"window_dimensions": (2,), "window_strides": (1,), "padding": ((0, 0),)}
    windows |= {"base_dilation": (1,), "window_dilation": (1,)}
    (found,) = run(lambda x: lax.reduce_window_p.bind(x, np.float32(1), jaxpr=program, consts=(), **windows))(X)
    np.testing.assert_array_equal(found, [3, 2])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_total_order(dtype):
    ordered = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan], dtype)
    ordered[0] = np.copysign(ordered[0], dtype(-1))
    rows, columns = np.broadcast_arrays(ordered[:, None], ordered)
    i = np.arange(8)
    for primitive, expected in (
        (lax.lt_to_p, i[:, None] < i),
        (lax.le_to_p, i[:, None] <= i),
        (lax.eq_to_p, i[:, None] == i),
    ):
        np.testing.assert_array_equal(functad.jit(primitive.bind)(rows, columns), expected)
    np.testing.assert_array_equal(lax.lt_to_p.bind(i, i + 1), True)


def test_what_moves_between_examples():
    moved = functad.vmap(lambda x: lax.ppermute_p.bind(x, axis_name="i", perm=[(0, 1), (1, 2)])[0], axis_name="i")(X)
    np.testing.assert_array_equal(moved, [0, 3, 1])
    places = functad.vmap(lambda x: lax.axis_index_p.bind(axis_name="i"), axis_name="i")(X)
    np.testing.assert_array_equal(places, [0, 1, 2])


def test_others_are_the_functions_that_they_are_named_after():
    values, positions = lax.approx_top_k_p.bind(X, k=1, is_max_k=True, reduction_dimension=0, recall_target=0.9)
    assert (float(values[0]), int(positions[0])) == (3, 0)
    gram = lax.linalg.symmetric_product_p.bind(X[:, None], np.eye(3, dtype=np.float32), alpha=1.0, beta=1.0)
    np.testing.assert_allclose(gram, np.outer(X, X) + np.eye(3))
    key = functad.random.key(0)
    draw = functad.random.random_gamma_p.bind(key, 2.0, log_space=True)
    assert draw == functad.random.loggamma(key, 2.0)
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    scattered = lax.ScatterDimensionNumbers((), numbers.collapsed_slice_dims, numbers.start_index_map)
    found = lax.scatter_sub_p.bind(X, np.int32([[1]]), np.float32([5]), dimension_numbers=scattered)
    np.testing.assert_array_equal(found, [3, -4, 2])
    with pytest.raises(ArgumentError, match="call functad.lax.custom_linear_solve"):
        lax.linear_solve_p.bind(X)


def test_a_name_is_one_primitive():
    assert lax.reduce_p is lax.reduce_p and isinstance(lax.reduce_p, functad.extend.core.Primitive)
    assert not hasattr(lax, "ormqr_q_p") and not hasattr(functad.random, "reduce_p")


@pytest.mark.parametrize("run", [lambda f: f, functad.jit])
def test_tokens_and_kept_values(run):
    def step(x):
        token = lax.after_all(lax.create_token(), lax.create_token_p.bind())
        lax.dce_sink(jnp.sin(x))
        return x + 1 + jnp.sum(token)

    assert run(step)(1.0) == 2
    with pytest.raises(functad.errors.DTypeError, match="lax.after_all takes tokens"):
        lax.after_all(1.0)
