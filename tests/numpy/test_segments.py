"""`functad.ops`: segments reduced, as loops over their parts reduce them."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import ops
from functad.errors import ArgumentError, DTypeError, ShapeError

DATA = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)
IDS = np.array([0, 2, 0, -1, 5, 2, 2])
REDUCE = {"segment_sum": np.sum, "segment_prod": np.prod, "segment_max": np.max, "segment_min": np.min}
EMPTY = {"segment_sum": 0, "segment_prod": 1, "segment_max": -np.inf, "segment_min": np.inf}


def expected(name, data, count):
    rows = [data[IDS == k] for k in range(count)]
    return np.array([REDUCE[name](r, 0) if len(r) else np.full(2, EMPTY[name]) for r in rows], data.dtype)


@pytest.mark.parametrize("name", REDUCE)
def test_segments(name):
    reduce = getattr(ops, name)
    for count in (3, 6):
        for call in (reduce, functad.jit(reduce, static_argnums=2)):
            np.testing.assert_allclose(np.asarray(call(DATA, IDS, count)), expected(name, DATA, count), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(reduce(DATA, IDS)), expected(name, DATA, 6), rtol=1e-6)
    mapped = functad.vmap(lambda d: reduce(d, IDS, 3))(np.stack([DATA, -DATA]))
    np.testing.assert_allclose(np.asarray(mapped[1]), expected(name, -DATA, 3), rtol=1e-6)
    functad.test_util.check_grads(lambda d: reduce(d, IDS, 3)[np.array([0, 2])], (DATA.astype(np.float64),), 2)


@pytest.mark.parametrize(("dtype", "least", "most"), [("int8", -128, 127), ("uint16", 0, 65535), ("bool", 0, 1)])
def test_what_a_segment_without_parts_is(dtype, least, most):
    data, ids = np.ones(2, dtype), np.array([1, 1])
    assert ops.segment_max(data, ids, 2)[0] == least and ops.segment_min(data, ids, 2)[0] == most
    assert ops.segment_max(data, ids, 2).dtype == dtype


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ops.segment_sum(DATA, IDS.astype(float)), DTypeError, "must be integers"),
        (lambda: ops.segment_sum(DATA, IDS[:3]), ShapeError, "one number a part"),
        (lambda: ops.segment_sum(DATA, IDS, -1), ArgumentError, "must not be negative"),
        (lambda: functad.jit(ops.segment_sum)(DATA, IDS), ArgumentError, "give num_segments="),
    ],
)
def test_what_does_not_fit_says_why(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("name", REDUCE)
def test_negative_numbers_are_no_positions_from_the_end(name):
    data, ids = np.array([1.0, 2.0, 3.0, 4.0], np.float32), np.array([-1, 0, 1, 5], np.int8)
    for transform in (lambda f: f, functad.jit):
        dropped = transform(lambda d, i: getattr(ops, name)(d, i, 200)[:2])(data, ids)
        np.testing.assert_array_equal(np.asarray(dropped), [2, 3])
        clipped = transform(lambda d, i: getattr(ops, name)(d, i, 200, mode="clip")[:2])(data, ids)
        np.testing.assert_array_equal(np.asarray(clipped), [REDUCE[name]([1.0, 2.0]), 3])
    with functad.config.context(debug_index=True):
        assert ops.segment_sum(data, ids, 2)[0] == 2
