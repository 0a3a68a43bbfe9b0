"""A choice among many cases, of which NumPy takes 63 at once and Python's parser nests 200."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import lax


@pytest.mark.parametrize("count", [1, 2, 3, 4, 62, 63, 64, 65, 70, 300])
@pytest.mark.parametrize("dtype", [np.int32, np.uint64])
def test_each_of_many_cases_is_chosen(count: int, dtype: type) -> None:
    which = np.arange(count + 2, dtype=dtype)
    which[-1] = np.iinfo(dtype).max
    if dtype is np.int32:
        which = np.append(which, np.int32(-1))
    cases = [np.full(which.shape, k, np.float32) for k in range(count)]
    expected = np.clip(which.astype(np.float64), 0, count - 1)
    for select in (lax.select_n, functad.jit(lax.select_n)) if count in (3, 4, 65, 300) else (lax.select_n,):
        np.testing.assert_array_equal(np.asarray(select(which, *cases)), expected)
    one = lax.select_n(which[-2], *[np.float32(k) for k in range(count)])
    assert one.shape == () and float(one) == count - 1


def test_a_mapped_switch_of_many_branches() -> None:
    branches = [lambda x, k=k: x + k for k in range(300)]
    fun = functad.vmap(lambda i, x: lax.switch(i, branches, x))
    places, x = np.int32([0, 299, 150, 77]), np.zeros(4, np.float32)
    for way in (fun, functad.jit(fun)):
        np.testing.assert_array_equal(np.asarray(way(places, x)), places)
