"""Products of places: machine code and plain Python against the sum that they are, and what they must not touch."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest
from test_cpu_gemm_panels import before_a_wall

from functad.backends.cpu.products import in_kernels as gemm_scalars
from functad.backends.cpu.products.own import gemm_table

WORDS = {"float32": gemm_scalars.gemm_places_f32, "float64": gemm_scalars.gemm_places_f64}
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


def operands(dtype, rows, taps, features):
    """A table with gaps and some padding, pixels, zeros, panel and room for the result, with gaps, too."""
    rng = np.random.default_rng(rows + taps + features)
    n = gemm_table.place_columns(dtype)
    pixels = rng.standard_normal(40 * features).astype(dtype)
    table = rng.integers(-8, 39 * features + 1, (taps, rows + 3))
    table[0, 0], table[-1, rows - 1] = 39 * features, -1
    panel = rng.standard_normal((taps, features, n)).astype(dtype)
    return n, table, pixels, np.zeros(features, dtype), panel, np.full((rows, n + 5), 7, dtype)


def expected(n, table, pixels, zeros, panel, c):
    result = np.zeros((len(c), n))
    for t, r in np.ndindex(len(table), len(c)):
        place = table[t, r]
        if place >= 0:
            result[r] += pixels[place : place + len(zeros)].astype("f8") @ panel[t].astype("f8")
    return result


needs_vectors = pytest.mark.skipif(not gemm_table.place_columns("float32"), reason="the processor has no such vectors")


@needs_vectors
@pytest.mark.parametrize("dtype", WORDS)
@pytest.mark.parametrize("rows", [4, 8, 12])
@pytest.mark.parametrize("taps, features", [(1, 4), (9, 64), (6, 20), (25, 4)])
def test_machine_code_and_plain_python(dtype, rows, taps, features):
    n, table, pixels, zeros, panel, c = operands(dtype, rows, taps, features)
    if sys.platform == "linux":
        pixels, panel, table = before_a_wall(pixels), before_a_wall(panel), before_a_wall(table)
    want = expected(n, table, pixels, zeros, panel, c)
    handle, pitch, ldc = gemm_table.places_handle(np.dtype(dtype)), table.shape[1], c.shape[1]
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 14)(int(handle[0]))(
        handle.ctypes.data, rows, n, taps, features, table.ctypes.data, pitch, pixels.ctypes.data, zeros.ctypes.data,
        panel.ctypes.data, c.ctypes.data, ldc, pixels.ctypes.data + pixels.nbytes, 64,
    )  # fmt: skip
    tolerance = TOLERANCE[dtype] * 10 * (taps * features) ** 0.5
    np.testing.assert_allclose(c[:, :n], want, rtol=0, atol=tolerance)
    np.testing.assert_array_equal(c[:, n:], 7)
    plain = np.full(c.size, 7, dtype)
    WORDS[dtype](
        None, rows, n, taps, features, table.reshape(-1), 0, pitch, pixels, zeros, 0, panel.reshape(-1), 0,
        plain, 0, ldc, 0, 0,
    )  # fmt: skip
    np.testing.assert_allclose(plain.reshape(c.shape), c, rtol=0, atol=2 * tolerance)


def test_columns_are_two_vectors_of_the_dtype():
    assert gemm_table.place_columns("float32") in (0, 32)
    assert gemm_table.place_columns("float64") == gemm_table.place_columns("float32") // 2
    assert gemm_table.place_columns("int32") == gemm_table.place_columns("complex64") == 0
