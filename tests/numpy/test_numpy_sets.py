"""Where elements occur among others, by whichever method."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import functad.numpy as jnp
from functad import jit
from functad.errors import ArgumentError


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "float16", "uint64", "complex64"])
@pytest.mark.parametrize("method", ["auto", "compare_all", "binary_search", "sort"])
def test_isin_finds_the_same_by_any_method(method: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, many, few = (rng.integers(0, 90, shape).astype(dtype) for shape in ((7, 50), (300,), (12,)))
    among = [many, few, few[:1], few[:0], few.reshape(3, 4)]
    if np.dtype(dtype).kind == "f":
        x[0, :4] = np.nan, -0.0, np.inf, -np.inf
        among.append(np.array([np.nan, 0.0, np.nan, -np.inf], dtype))
    for values in among:
        for invert in (False, True):
            isin = partial(jnp.isin, invert=invert, method=method)
            for fun in (isin, jit(isin)):
                np.testing.assert_array_equal(np.asarray(fun(x, values)), np.isin(x, values, invert=invert))


def test_isin_refuses_a_method_that_there_is_not() -> None:
    with pytest.raises(ArgumentError, match="isin: method must be 'auto', 'compare_all', 'binary_search' or 'sort'"):
        jnp.isin([1], [1], method="hash")
