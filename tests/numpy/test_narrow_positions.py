"""Positions mean the same in every integer dtype, also where the axis is longer than the dtype counts."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax

X = jnp.arange(1200).reshape(3, 400)
ROW = jnp.arange(300)
DTYPES = ["int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64"]

# Functions of rows 1 and 2, or of the row 1.
OF_ROWS = {
    "beside a position": lambda i: X[i, 300],
    "beside a negative position": lambda i: X[i, -1],
    "beside positions": lambda i: X[i, np.array([300, -1])],
    "beside a slice": lambda i: X[i, 300:303],
    "beside an int32": lambda i: X[i, 300 + i.astype("int32")],
    "set": lambda i: X.at[i, 300].set(-1),
    "set a slice": lambda i: X.at[i, 300:303].set(-1),
    "set every second": lambda i: X.at[i, ::2].set(-1),
    "mapped": lambda i: functad.vmap(lambda k: X[k, 300])(i),
    "mapped, set": lambda i: functad.vmap(lambda k: X.at[k, 300:303].set(-1))(i),
}
OF_ONE = {
    "a position": lambda i: X[i, 300],
    "a negative position": lambda i: X[i, -1],
    "set": lambda i: X.at[i, 300].set(-1),
    "set a slice": lambda i: X.at[i, 300:303].set(-1),
}
# Functions of the positions 100 and 7 of 300, or of 100 and 100 repetitions.
OF_PLACES = {
    "put, wrap": lambda i: jnp.put(ROW, i, -1, mode="wrap", inplace=False),
    "put, clip": lambda i: jnp.put(ROW, i, -1, mode="clip", inplace=False),
    "take, wrap": lambda i: jnp.take(ROW, i, mode="wrap"),
    "take, clip": lambda i: jnp.take(ROW, i, mode="clip"),
    "choose, wrap": lambda i: jnp.choose(i, list(range(200)), mode="wrap"),
    "choose, clip": lambda i: jnp.choose(i, list(range(200)), mode="clip"),
    "index_take": lambda i: lax.index_take(ROW, [i], [0]),
    "repeat": lambda i: jnp.repeat(jnp.arange(2), i, total_repeat_length=300),
    "repeat all": lambda i: jnp.repeat(jnp.arange(3), i[0], total_repeat_length=300),
}


def agree(function, index, dtype):
    expected = np.asarray(function(index.astype("int32")))
    for wrap in (lambda f: f, functad.jit):
        np.testing.assert_array_equal(np.asarray(wrap(function)(index.astype(dtype))), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_ROWS)
def test_rows(name, dtype):
    agree(OF_ROWS[name], jnp.array([1, 2]), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_ONE)
def test_one_row(name, dtype):
    agree(OF_ONE[name], jnp.array(1), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OF_PLACES)
def test_places_of_a_long_axis(name, dtype):
    agree(OF_PLACES[name], jnp.array([100, 7]), dtype)


def test_repetitions_in_any_dtype():
    for dtype in DTYPES:
        np.testing.assert_array_equal(jnp.repeat(jnp.arange(2), jnp.array([1, 2], dtype)), [0, 1, 1])


def test_positions_along_several_axes_may_differ_in_dtype():
    for wrap in (lambda f: f, functad.jit):
        found = wrap(lambda i, j: lax.index_take(X, [i, j], [0, 1]))(jnp.array([1, 2], "uint32"), jnp.array([300, -1]))
        np.testing.assert_array_equal(found, [X[1, 300], X[2, 399]])


def test_a_position_of_64_bits_keeps_them():
    x, far = jnp.arange(12).reshape(3, 4), np.int64(2**32 + 1)
    found = functad.jit(lambda i, j: (x[i, j], x[j, i], x.at[i, j].set(-1)))(jnp.array(1), jnp.array(far, "int64"))
    for result, expected in zip(found, (7, 9, x), strict=True):
        np.testing.assert_array_equal(np.asarray(result), np.asarray(expected))


def test_positions_on_an_axis_beyond_32_bits():
    n = 3_000_000_000
    long, pair = functad.ShapeDtypeStruct((n,), np.int8), functad.ShapeDtypeStruct((3, n), np.int8)
    row = functad.ShapeDtypeStruct((), np.uint8)
    for function, args, wanted in (
        (lambda x: x[-1], [long], n - 1),
        (lambda x: x.at[-1].set(0), [long], n - 1),
        (lambda x, i: x[i, -3], [pair, row], n - 3),
        (lambda x, i: x.at[i, -3:].set(0), [pair, row], n - 3),
    ):
        assert f"{wanted}" in str(functad.make_jaxpr(function)(*args))
    program = functad.make_jaxpr(lambda x: x[jnp.array([-1, -3])])(long)
    np.testing.assert_array_equal(np.asarray(program.consts[0])[:, 0], [n - 1, n - 3])
