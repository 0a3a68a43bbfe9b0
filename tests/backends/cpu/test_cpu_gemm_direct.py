"""functad's own product of matrices where they lie: its results against NumPy, and what it must not touch."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from test_cpu_gemm_panels import DTYPES, TOLERANCE, before_a_wall, check_products, multiply, numbers

from functad import machine_model
from functad.backends.cpu.products import blas

# Tiles have 4, 5 or 6 rows and 64 columns (float64: 32); fewer than 8 rows, and columns that fill no tile, are others'.
SIZES = [(8, 64, 1), (9, 64, 5), (11, 128, 2), (13, 64, 130), (50, 96, 7), (12, 70, 3), (7, 64, 4), (20, 31, 6)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_products(dtype, ta, m, n, k):
    a, b = numbers(dtype, k, m) if ta else numbers(dtype, m, k), numbers(dtype, k, n)
    if sys.platform == "linux":
        a, b = before_a_wall(a), before_a_wall(b)
    check_products(a, b, ta, handle=blas._handle_of_direct(np.dtype(dtype)))


@pytest.mark.parametrize("ta", [False, True])
def test_large_operands_are_read_in_parts(ta):
    # One row of the larger operand has a hundredth of what stays in the cache, and the terms are no multiple of that.
    m, n, k = (machine_model.OWN_DIRECT_SLAB_BYTES // 400, 64, 257)
    if not ta:
        m, n = 8, m - m % 64
    a, b = numbers("float32", k, m) if ta else numbers("float32", m, k), numbers("float32", k, n)
    c = np.ones((m, n), np.float32)
    expected = 1 + (a.T if ta else a) @ b
    multiply("float32", m, n, k, 1, a, a.shape[1], b, n, 1, c, n, ta, handle=blas._handle_of_direct(np.dtype("f4")))
    np.testing.assert_allclose(c, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
def test_rows_that_overlap(dtype, ta):
    m, n, k, pitch = 40, 64, 70, 3
    signal = numbers(dtype, 400)
    item = signal.itemsize
    a = np.lib.stride_tricks.as_strided(signal, (k, m) if ta else (m, k), (pitch * item, item))
    b = np.lib.stride_tricks.as_strided(signal, (k, n), (2 * item, item))
    c = np.full((m, n), np.nan, dtype)
    multiply(dtype, m, n, k, 1, signal, pitch, signal, 2, 0, c, n, ta, handle=blas._handle_of_direct(np.dtype(dtype)))
    expected = (a.T if ta else a).astype("f8") @ b.astype("f8")
    np.testing.assert_allclose(c, expected, rtol=0, atol=100 * TOLERANCE[dtype])


def test_what_is_not_finite_stays_in_its_row_and_column():
    m, n, k = 31, 64, 37
    a, b, c = numbers("float32", m, k), numbers("float32", k, n), np.zeros((m, n), np.float32)
    a[-1, 3], b[5, -1] = np.inf, np.nan
    multiply("float32", m, n, k, 1, a, k, b, n, 1, c, n, handle=blas._handle_of_direct(np.dtype("f4")))
    assert np.isfinite(c[:-1, :-1]).all()
    assert np.isnan(c[:, -1]).all() and np.isinf(c[-1, :-1]).all()
