"""Products of windows: machine code and plain Python against the sum that they are, and what they must not touch."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest
from test_cpu_gemm_panels import before_a_wall

from functad.backends.cpu.compile.processor import processor
from functad.backends.cpu.products import in_kernels
from functad.backends.cpu.products.own import gemm_table, gemm_windows

WORDS = {"float32": in_kernels.gemm_windows_f32, "float64": in_kernels.gemm_windows_f64}
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}
LANES = {"float32": 8, "float64": 4}


def has_avx2():
    return {"+avx2", "+fma"}.issubset(processor()[1].split(","))


@pytest.mark.skipif(not has_avx2(), reason="the processor has no such vectors")
@pytest.mark.parametrize("dtype", WORDS)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 11, 16])
@pytest.mark.parametrize(
    "vectors, terms, added", [(1, 1, 0), (2, 75, 0), (5, 256, 0), (4, 601, 0), (3, 49, 1), (4, 300, 1)]
)
def test_machine_code_and_plain_python(dtype, rows, vectors, terms, added):
    """The last two vectors overlap where their number is even, as those of a row do, unless they are added."""
    rng, lanes = np.random.default_rng(rows + terms), LANES[dtype]
    x, a = rng.standard_normal(900).astype(dtype), rng.standard_normal((rows, terms + 3)).astype(dtype)
    offsets, places = rng.integers(0, 700, terms), rng.integers(0, 200 - 2 * lanes, vectors)
    offsets[-1], places[-1] = 700, 200 - lanes
    to = lanes * np.arange(vectors)
    if vectors % 2 == 0 and not added:
        to[-1] -= 3
        places[-1] = places[-2] + lanes - 3
    table = np.concatenate([offsets, np.stack([places, to], 1).reshape(-1)])
    c = np.full((rows, lanes * vectors + 5), 7, dtype)
    expected = c.astype("f8")
    for v in range(vectors):
        windows = x.astype("f8")[offsets[:, None] + places[v] + np.arange(lanes)]
        expected[:, to[v] : to[v] + lanes] = 7 * added + a[:, :terms].astype("f8") @ windows
    plain = c.copy().reshape(-1)
    WORDS[dtype](
        None, rows, vectors, lanes, terms, table, 0, terms, x, 0, a.reshape(-1), 0, terms + 3, added, plain, 0,
        c.shape[1],
    )  # fmt: skip
    if sys.platform == "linux":
        x, table = before_a_wall(x), before_a_wall(table)
        a = before_a_wall(a.reshape(-1)[: a.size - 3])
    handle = gemm_table.windows_handle(np.dtype(dtype))
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 12)(int(handle[0]))(
        handle.ctypes.data, rows, vectors, terms, table.ctypes.data, table[terms:].ctypes.data, x.ctypes.data,
        a.ctypes.data, terms + 3, added, c.ctypes.data, c.shape[1],
    )  # fmt: skip
    tolerance = TOLERANCE[dtype] * 10 * terms**0.5
    np.testing.assert_allclose(c, expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(plain.reshape(c.shape), expected, rtol=0, atol=tolerance)


def test_it_serves_processors_without_longer_vectors():
    wide = gemm_table.place_columns("float32") > 0
    assert gemm_table.window_lanes("float32") == (8 if has_avx2() and not wide else 0)
    assert gemm_table.window_lanes("float64") == gemm_table.window_lanes("float32") // 2
    assert gemm_table.window_lanes("int32") == gemm_table.window_lanes("complex64") == 0


def test_a_tile_stays_in_registers():
    """With two vectors of B and an element of A everywhere."""
    assert 2 * gemm_windows.ROWS + 3 <= 16
