"""The gather, scatter and dynamic-slice kernels against loops that follow XLA's definition.

Knows kernels/indexing.py only.
"""

from __future__ import annotations

import numpy as np
import pytest
from gather_tools import random_gather

from functad.primitives.kernels import indexing

COMBINE = {
    "set": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": min,
    "max": max,
}
SEEDS = range(60)


def naive_places(shape, indices, params, mode):
    """The output's shape, and each of its indices with its place in the operand (None: out of bounds)."""
    sizes, offset_dims = params["slice_sizes"], params["offset_dims"]
    dropped = [*params["collapsed_slice_dims"], *params["operand_batching_dims"]]
    kept = [d for d in range(len(shape)) if d not in dropped]
    rank = indices.ndim - 1 + len(offset_dims)
    batch_dims = [d for d in range(rank) if d not in offset_dims]
    out_shape = [0] * rank
    for dim, operand_dim in zip(offset_dims, kept, strict=True):
        out_shape[dim] = sizes[operand_dim]
    for dim, size in zip(batch_dims, indices.shape[:-1], strict=True):
        out_shape[dim] = size
    places = {}
    for out_index in np.ndindex(*out_shape):
        batch = tuple(out_index[d] for d in batch_dims)
        start = [0] * len(shape)
        for column, dim in enumerate(params["start_index_map"]):
            start[dim] = int(indices[batch][column])
        fits = all(0 <= s <= n - k for s, n, k in zip(start, shape, sizes, strict=True))
        place = [min(max(s, 0), n - k) for s, n, k in zip(start, shape, sizes, strict=True)]
        pairs = zip(params["operand_batching_dims"], params["start_indices_batching_dims"], strict=True)
        for dim, axis in pairs:
            place[dim] = batch[axis]
        for dim, operand_dim in zip(offset_dims, kept, strict=True):
            place[operand_dim] += out_index[dim]
        places[out_index] = tuple(place) if fits or mode == "clip" else None
    return tuple(out_shape), places


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("batching", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_gather_against_loops(seed, batching, mode):
    operand, indices, params = random_gather(np.random.default_rng(seed), batching)
    shape, places = naive_places(operand.shape, indices, params, mode)
    expected = np.full(shape, np.nan)
    for index, place in places.items():
        if place is not None:
            expected[index] = operand[place]
    for layout in (operand, np.asfortranarray(operand)):
        np.testing.assert_array_equal(indexing.gather(layout, indices, mode=mode, **params), expected)


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("kind", COMBINE)
@pytest.mark.parametrize("seed", SEEDS)
def test_scatter_against_loops(seed, kind, mode):
    rng = np.random.default_rng(seed)
    operand, indices, params = random_gather(rng, seed % 2)
    shape, places = naive_places(operand.shape, indices, params, mode)
    updates = rng.normal(size=shape)
    expected = operand.copy()
    # In order of the scatter's batch, which decides which of several updates is the last one set.
    batch_dims = [d for d in range(len(shape)) if d not in params["offset_dims"]]
    for index in sorted(places, key=lambda index: [index[d] for d in batch_dims]):
        place = places[index]
        if place is not None:
            expected[place] = COMBINE[kind](expected[place], updates[index])
    got = indexing.scatter(
        operand,
        indices,
        updates,
        kind=kind,
        update_window_dims=params["offset_dims"],
        inserted_window_dims=params["collapsed_slice_dims"],
        scatter_dims_to_operand_dims=params["start_index_map"],
        operand_batching_dims=params["operand_batching_dims"],
        scatter_indices_batching_dims=params["start_indices_batching_dims"],
        mode=mode,
    )
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


ROWS = {"offset_dims": (1,), "collapsed_slice_dims": (0,), "start_index_map": (0,), "slice_sizes": (1, 3)}
ROW_UPDATES = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
}


def test_embedding_and_its_gradient():
    table = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    tokens = np.array([[1], [3], [1]])
    np.testing.assert_array_equal(indexing.gather(table, tokens, **ROWS), table[[1, 3, 1]])
    got = indexing.scatter(table, tokens, np.ones((3, 3), np.float32), kind="add", **ROW_UPDATES)
    np.testing.assert_array_equal(got, table + np.array([[0], [2], [0], [1]], np.float32))


def test_many_rows_in_blocks():
    rng = np.random.default_rng(0)
    table, rows = np.zeros((50, 300)), rng.integers(0, 50, (700, 1))
    updates = rng.normal(size=(700, 300))
    expected = np.stack([updates[rows[:, 0] == row].sum(axis=0) for row in range(50)])
    got = indexing.scatter(table, rows, updates, kind="add", **ROW_UPDATES)
    np.testing.assert_allclose(got, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (np.float16, np.nan),
        (np.float32, np.nan),
        (np.int8, -128),
        (np.int32, -(2**31)),
        (np.uint8, 255),
        (np.bool_, True),
    ],
)
def test_default_fill_values(dtype, expected):
    x = np.zeros(3, dtype)
    single = {"offset_dims": (), "collapsed_slice_dims": (0,), "start_index_map": (0,), "slice_sizes": (1,)}
    got = indexing.gather(x, np.array([[1], [3]]), **single)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.array([0, expected], dtype))
    np.testing.assert_array_equal(indexing.gather(x, np.array([[-1]]), fill_value=1, **single), [1])


def test_large_unsigned_indices_are_out_of_bounds():
    x = np.array([[1.0, 2.0, 3.0]])
    far = np.array([[2**64 - 1], [0]], np.uint64)
    got = indexing.gather(x, far, **ROWS)
    np.testing.assert_array_equal(got, [[np.nan] * 3, [1.0, 2.0, 3.0]])


@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds"])
def test_no_rows(mode):
    table, none = np.ones((4, 3)), np.zeros((0, 1), np.int32)
    assert indexing.gather(table, none, mode=mode, **ROWS).shape == (0, 3)
    got = indexing.scatter(table, none, np.ones((0, 3)), kind="add", mode=mode, **ROW_UPDATES)
    np.testing.assert_array_equal(got, table)
    assert got is not table


def test_half_precision_adds_in_single():
    zeros, rows = np.zeros((1, 1), np.float16), np.zeros((4096, 1), np.int32)
    got = indexing.scatter(zeros, rows, np.ones((4096, 1), np.float16), kind="add", **ROW_UPDATES)
    np.testing.assert_array_equal(got, np.array([[4096]], np.float16))


def test_dynamic_slices_are_clamped():
    x = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(indexing.dynamic_slice(x, (1, 1), (2, 2)), x[1:3, 1:3])
    np.testing.assert_array_equal(indexing.dynamic_slice(x, (9, -5), (2, 2)), x[1:3, 0:2])
    got = indexing.dynamic_update_slice(x, np.full((2, 2), -1), (np.array(9), np.array(-5)))
    np.testing.assert_array_equal(got[1:, :2], np.full((2, 2), -1))
    np.testing.assert_array_equal(got[0], x[0])
    assert x[1, 0] == 4
    assert indexing.dynamic_slice(np.array(5), (), ()) == 5
