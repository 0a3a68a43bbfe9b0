"""Remainders of floats: exact for all pairs of numbers, in every lane, and computed by vectors where they can."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kernel_ir import optimized_kernels

from functad import jit, lax

FLOATS = [np.float32, np.float64]


def _pairs(dtype: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    rng, info = np.random.default_rng(0), np.finfo(dtype)
    word, count = np.dtype(f"u{info.bits // 8}"), 4_000
    yield tuple(rng.integers(0, np.iinfo(word).max, (2, count), dtype=word).view(dtype))
    y = np.ldexp(rng.normal(size=count), rng.integers(-40, 40, count)).astype(dtype)
    multiples = (np.rint(2.0 ** rng.uniform(0, info.nmant + 2, count)) * y).astype(dtype)
    for x in (multiples, np.nextafter(multiples, dtype(0)), np.nextafter(multiples, dtype(np.inf))):
        yield x, y
    yield (y * rng.uniform(-2.5, 2.5, count)).astype(dtype), y
    yield np.nextafter(y, dtype(0)), y
    subnormal = rng.integers(0, 2000, count).astype(word).view(dtype)
    yield rng.permutation(subnormal), subnormal
    ends = np.array([0, 1, 0.5, 3, 1e30, info.max, info.tiny, info.smallest_subnormal, np.inf, np.nan], dtype)
    x, y = np.meshgrid(np.concatenate([ends, -ends]), np.concatenate([ends, -ends]))
    yield x.ravel(), y.ravel()


@pytest.mark.parametrize("dtype", FLOATS)
def test_remainders_are_those_of_numpy_to_the_bit(dtype: Any) -> None:
    remainder = jit(lax.rem)
    for x, y in _pairs(dtype):
        found = np.asarray(remainder(x, y))
        with np.errstate(all="ignore"):
            wanted = np.fmod(x, y)
        np.testing.assert_array_equal(found, wanted)
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])


@pytest.mark.parametrize("dtype", FLOATS)
def test_pairs_with_large_quotients_are_looked_after_in_every_lane(dtype: Any) -> None:
    remainder, y = jit(lax.rem), np.full(67, 0.7, dtype)
    for i in range(40):
        x = np.linspace(-9, 9, 67).astype(dtype)
        x[i] = 1e30
        np.testing.assert_array_equal(np.asarray(remainder(x, y)), np.fmod(x, y))


@pytest.mark.parametrize("dtype", FLOATS)
def test_loops_over_remainders_become_vector_code(dtype: Any) -> None:
    source = """from functad.backends.cpu.scalars.exact import remainder
def kernel(x, y, out, start, stop):
    for i in range(start, stop):
        out[i] = remainder(x[i], y[i])
"""
    module = optimized_kernels(source, "kernels.py", {"kernel": [np.dtype(dtype)] * 3})
    assert re.search(r"fdiv[^\n]* <\d+ x ", str(module))
