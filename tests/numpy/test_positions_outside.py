"""Positions outside of an array mean one thing, traced or not; with `config.debug_index` they raise in every mode."""

from __future__ import annotations

import numpy as np
import pytest
from position_cases import CASES, MEANT, Modules

import functad
import functad.numpy as jnp
from functad import lax
from functad.config import config
from functad.errors import OutOfBoundsError

OURS = Modules(jnp, lax, functad.vmap, functad.grad)
X = jnp.arange(5.0)
POSITIONS = jnp.array([1, 7, -9])


@pytest.mark.parametrize("name", CASES)
def test_traced_or_not_they_mean_the_same(name: str) -> None:
    case = CASES[name]
    expected = np.asarray(functad.jit(lambda x, i: case(OURS, x, i))(X, POSITIONS))
    np.testing.assert_array_equal(np.asarray(case(OURS, X, POSITIONS)), expected)
    np.testing.assert_array_equal(np.asarray(case(OURS, X, np.asarray(POSITIONS))), expected)
    inside = case(OURS, X, jnp.array([1, 3, -2]))
    assert inside.shape == expected.shape


@pytest.mark.parametrize("name", sorted(CASES.keys() - MEANT))
def test_debug_index_raises_in_every_mode(name: str) -> None:
    case = CASES[name]
    jitted = functad.jit(lambda x, i: case(OURS, x, i))
    mapped = functad.vmap(lambda x, i: case(OURS, x, i), (None, 0))
    before = jitted(X, POSITIONS)
    with config.context(debug_index=True):
        for call, positions in (
            (lambda x, i: case(OURS, x, i), POSITIONS),
            (jitted, POSITIONS),
            (mapped, jnp.stack([POSITIONS] * 2)),
            (functad.jit(mapped), jnp.stack([POSITIONS] * 2)),
        ):
            with pytest.raises(OutOfBoundsError, match="out of bounds|does not lie within"):
                call(X, positions)
    np.testing.assert_array_equal(np.asarray(jitted(X, POSITIONS)), np.asarray(before))


@pytest.mark.parametrize("name", sorted(MEANT))
def test_debug_index_leaves_what_is_meant(name: str) -> None:
    expected = np.asarray(CASES[name](OURS, X, POSITIONS))
    with config.context(debug_index=True):
        jitted = functad.jit(lambda x, i: CASES[name](OURS, x, i))
        for found in (jitted(X, POSITIONS), CASES[name](OURS, X, POSITIONS)):
            np.testing.assert_array_equal(np.asarray(found), expected)


def test_debug_index_shows_the_users_line() -> None:
    @functad.jit
    def f(x, i):
        return x[i] * 2.0  # here

    with config.context(debug_index=True):
        assert f(X, jnp.array([-5, 4])).shape == (2,)
        with pytest.raises(OutOfBoundsError, match=r"index 5 is out of bounds for axis 0 of size 5[^$]*test_positions"):
            f(X, jnp.array([0, 5]))


def test_a_slice_that_starts_too_late_is_found() -> None:
    with config.context(debug_index=True):
        lax.dynamic_slice(X, (2,), (3,))
        lax.dynamic_slice(X, (-3,), (3,))
        for start in (3, -2, jnp.array(3), jnp.array(-2)):
            with pytest.raises(OutOfBoundsError, match="size 3 that starts at 3 does not lie within axis 0"):
                lax.dynamic_slice(X, (start,), (3,))


def test_an_empty_axis_has_no_nearest_element() -> None:
    for index in (jnp.array(0), np.int64(0), np.array([0])):
        with pytest.raises(OutOfBoundsError, match="is empty"):
            X[:0][index]
