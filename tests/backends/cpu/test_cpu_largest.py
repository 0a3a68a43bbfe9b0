"""The largest elements of long rows: those of blocks tell which of these have any."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed: the compiled kernels need it")

import functad  # noqa: E402
from functad import lax, machine_model  # noqa: E402

BLOCK = machine_model.BLOCK_OF_LARGEST


def rows(dtype: str, length: int) -> np.ndarray:
    rng = np.random.default_rng(length)
    x = rng.integers(0, 100, (6, length)).astype(dtype)  # with ties
    if np.dtype(dtype).kind == "f":
        x[0] = rng.normal(size=length)
        x[1, rng.integers(0, length, 5)] = np.nan
        x[2] = np.where(rng.uniform(size=length) < 0.5, -0.0, 0.0)
        x[3] = np.sort(x[3])
        x[4] = -np.inf
        x[4, -1] = -1
    return x


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int64", "bool"])
@pytest.mark.parametrize("kept", [1, 3])
@pytest.mark.parametrize("rest", [0, 1, BLOCK - 1])
def test_rows_in_blocks_have_the_same_largest_as_un_jitted(kept: int, dtype: str, axis: int, rest: int) -> None:
    length = -(-machine_model.LARGEST_AMONG * kept // BLOCK) * BLOCK + rest
    x = rows(dtype, length)
    x = x if axis else x.T
    jitted = functad.jit(lambda x: lax.top_k(x, kept, axis=axis))
    assert "best" in jitted.lower(x).kernels
    for mine, other in zip(jitted(x), lax.top_k(x, kept, axis=axis)):
        np.testing.assert_array_equal(mine, other, strict=True)
        if np.dtype(dtype).kind == "f":
            np.testing.assert_array_equal(np.signbit(mine), np.signbit(other))


def test_where_there_are_fewer_blocks_than_elements_are_kept_each_element_is_looked_at() -> None:
    for length, in_blocks in ((10 * BLOCK, True), (10 * BLOCK - 1, False)):
        x = rows("float32", length)
        assert ("best" in functad.jit(lambda x: lax.top_k(x, 10)).lower(x).kernels) == in_blocks
