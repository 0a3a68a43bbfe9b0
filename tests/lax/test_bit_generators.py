"""Random bits from a state: the numbers of JAX 0.10.1 on a CPU, in every mode."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import lax
from functad.errors import DTypeError, ShapeError

STATE = np.uint32([1, 2, 2**32 - 1, 7])
THREEFRY = [3056124836, 2463641163, 3856022808, 4064180468, 3751333951, 42289287, 1419315569, 883606440, 2920860887]
PHILOX = [260180199, 1045408789, 956223665, 3419254304, 908812636, 997141949, 2836466199, 3343264311, 1126918642]


@pytest.mark.parametrize("run", [lambda f: f, functad.jit])
def test_numbers_are_those_of_jax(run):
    for algorithm, state, bits in ((0, [1, 2, 2, 8], PHILOX), (1, [1, 2, 4, 8], THREEFRY), (2, [1, 2, 2, 8], PHILOX)):
        found = run(lambda key, a=algorithm: lax.rng_bit_generator(key, (9,), algorithm=a))(STATE)
        np.testing.assert_array_equal(found[0], state)
        np.testing.assert_array_equal(found[1], bits)
    state, bits = run(lambda key: lax.rng_bit_generator(key, (3,), np.uint64))(np.uint64([1, 2]))
    np.testing.assert_array_equal(state, [1, 4])
    np.testing.assert_array_equal(bits, np.uint64([12229731395331991369, 3437131457114678231, 13465615291114923006]))
    state, bits = run(lambda key: lax.rng_bit_generator(key, (5,), np.uint8, 1))(np.uint32([1, 2, 3, 4]))
    np.testing.assert_array_equal(state, [1, 2, 6, 4])
    np.testing.assert_array_equal(bits, np.uint8([236, 142, 168, 94, 67]))


def test_a_counter_that_overflows_counts_on_in_the_key():
    state, bits = lax.rng_bit_generator(np.uint32([1, 2, 2**32 - 1, 2**32 - 1]), (6,), np.uint32)
    np.testing.assert_array_equal(state, [1, 2, 1, 0])
    np.testing.assert_array_equal(bits, [875035680, 2457449792, 952865925, 536199321, 67759320, 265751716])


def test_each_of_mapped_states_makes_numbers_of_its_own():
    states = np.stack([STATE, STATE[::-1]])
    found = functad.vmap(lambda state: lax.rng_bit_generator(state, (3,)))(states)
    for k, state in enumerate(states):
        for mapped, alone in zip(found, lax.rng_bit_generator(state, (3,))):
            np.testing.assert_array_equal(mapped[k], alone)


def test_no_numbers_take_no_state():
    state, bits = lax.rng_bit_generator(STATE, (0,))
    np.testing.assert_array_equal(state, STATE)
    assert bits.shape == (0,) and bits.dtype == np.uint32


def test_errors():
    with pytest.raises(ShapeError, match=r"a state has shape \(4,\)"):
        lax.rng_bit_generator(STATE[:2], (1,))
    with pytest.raises(DTypeError, match="makes unsigned integers"):
        lax.rng_bit_generator(STATE, (1,), np.float32)
    with pytest.raises(DTypeError, match="two ends of one dtype, got float32 and int32"):
        lax.rng_uniform(np.float32(0), np.int32(1), (2,))
    with pytest.raises(ShapeError, match=r"scalars as ends, got shapes \(3,\) and \(\)"):
        lax.rng_uniform(np.zeros(3, np.float32), np.float32(1), (2, 3))


def test_rng_uniform():
    draw = functad.jit(lambda: lax.rng_uniform(np.float32(2), np.float32(3), (100,)))
    first, second = np.asarray(draw()), np.asarray(draw())
    assert ((first >= 2) & (first <= 3)).all() and (first != second).any() and first.dtype == np.float32
    whole = np.asarray(lax.rng_uniform(np.int32(-1), np.int32(1), (50,)))
    assert set(whole) == {-1, 0} and whole.dtype == np.int32
