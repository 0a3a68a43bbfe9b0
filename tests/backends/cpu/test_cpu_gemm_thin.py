"""functad's own product of few terms: its results against NumPy, what it must not touch, and which products it gets."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from test_cpu_gemm_panels import DTYPES, before_a_wall, check_products, multiply, numbers

from functad import machine_model
from functad.backends.cpu.compile.processor import processor
from functad.backends.cpu.products import blas

pytestmark = pytest.mark.skipif("+fma" not in processor()[1].split(","), reason="the processor is not one of AVX2")

# Tiles have 5 or 6 rows and 16 columns (float64: 8); fewer than 64 rows, and narrower products, are the library's. A B
# to be transposed is turned around in squares of 4.
SIZES = [(64, 16, 1), (65, 17, 3), (66, 40, 16), (70, 33, 4), (71, 100, 15), (63, 64, 4), (64, 7, 6), (97, 24, 32)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_products(dtype, ta, tb, m, n, k):
    a = numbers(dtype, k, m) if ta else numbers(dtype, m, k)
    b = numbers(dtype, n, k) if tb else numbers(dtype, k, n)
    if sys.platform == "linux":
        a, b = before_a_wall(a), before_a_wall(b)
    check_products(a, b, ta, tb, handle=blas._handle_of_thin(np.dtype(dtype)))


@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("more", [0, 1, 17, 64])
def test_a_wide_operand_is_packed_in_parts(tb, more):
    k = 16
    m, n = 64, 2 * (machine_model.THIN_PACKED_BYTES // (4 * k)) + more
    a, b = numbers("float32", m, k), numbers("float32", *((n, k) if tb else (k, n)))
    check_products(a, b, tb=tb, handle=blas._handle_of_thin(np.dtype("float32")))


@pytest.mark.parametrize(("n", "pitch", "beside"), [(32, 32, 0), (32, 48, 0), (33, 48, 0), (32, 33, 0), (32, 32, 1)])
def test_what_passes_by_the_caches_is_the_same(monkeypatch, n, pitch, beside):
    m, k = machine_model.THIN_STREAMED_BYTES // (4 * n) + 1, 3
    a, b = numbers("float32", m, k), numbers("float32", k, n)
    room = np.full(m * pitch + 64, 7, np.float32)
    first = -(room.ctypes.data // 4) % 16 + beside
    c = room[first:]
    multiply("float32", m, n, k, 2, a, k, b, n, 0, c, pitch, handle=blas._handle_of_thin(np.dtype("float32")))
    rows = np.lib.stride_tricks.as_strided(c, (m, pitch), (4 * pitch, 4))
    np.testing.assert_allclose(rows[:, :n], 2 * (a @ b), rtol=0, atol=1e-5)
    assert (rows[:, n:] == 7).all() and (room[:first] == 7).all() and (c[m * pitch :] == 7).all()


def test_rows_that_overlap():
    m, n, k, pitch = 80, 48, 9, 3
    signal = numbers("float32", 400)
    a = np.lib.stride_tricks.as_strided(signal, (m, k), (4 * pitch, 4))
    b = np.lib.stride_tricks.as_strided(signal, (k, n), (8, 4))
    c = np.full((m, n), np.nan, np.float32)
    multiply("float32", m, n, k, 1, signal, pitch, signal, 2, 0, c, n, handle=blas._handle_of_thin(np.dtype("f4")))
    np.testing.assert_allclose(c, a.astype("f8") @ b.astype("f8"), rtol=0, atol=1e-4)


def test_what_is_not_finite_stays_in_its_row_and_column():
    m, n, k = 75, 45, 5
    a, b, c = numbers("float32", m, k), numbers("float32", k, n), np.zeros((m, n), np.float32)
    a[-1, 3], b[4, -1] = np.inf, np.nan
    multiply("float32", m, n, k, 1, a, k, b, n, 0, c, n, handle=blas._handle_of_thin(np.dtype("f4")))
    assert np.isfinite(c[:-1, :-1]).all()
    assert np.isnan(c[:, -1]).all() and np.isinf(c[-1, :-1]).all()


FEW, TURNED = machine_model.THIN_TERMS, machine_model.THIN_TURNED_TERMS
WIDE = machine_model.THIN_RESULT_BYTES // (4 * 64)  # columns that 64 rows need


@pytest.mark.parametrize(
    ("m", "n", "k", "ta", "is_thin"),
    [
        (64, WIDE, 0, False, False), (64, WIDE, 1, False, True), (64, WIDE, FEW, False, True),
        (64, WIDE, FEW + 1, False, False), (64, WIDE, FEW, True, False), (64, WIDE, TURNED, True, True),
        (64, WIDE - 1, 1, False, False), (63, 2 * WIDE, 1, False, False),
    ],
)  # fmt: skip
def test_which_products_it_gets(monkeypatch, m, n, k, ta, is_thin):
    monkeypatch.setattr(blas, "_is_direct", lambda dtype: False)
    monkeypatch.setattr(blas, "is_narrow", lambda dtype: False)
    monkeypatch.setattr(blas, "has_thin_products", lambda dtype: True)
    handle, calls_library = blas.handle_for("float32", m, n, k, ta=ta, tb=True, ldb=n, ldc=n)
    assert calls_library and (handle != blas.handle("float32")) is is_thin


def test_complex_products_are_the_librarys():
    assert not blas.has_thin_products(np.dtype("complex64"))


def packed(b: np.ndarray, columns: int) -> np.ndarray:
    k, n = b.shape
    return np.ascontiguousarray(b.reshape(k, n // columns, columns).swapaxes(0, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6, 7, 13, 50])
@pytest.mark.parametrize(("panels", "k"), [(1, 1), (3, 20), (2, 300)])
def test_products_of_packed_weights(dtype, ta, m, panels, k):
    columns = 64 // np.dtype(dtype).itemsize
    n = panels * columns
    a, b = numbers(dtype, k, m) if ta else numbers(dtype, m, k), numbers(dtype, k, n)
    panels_of_b = packed(b, columns)
    if sys.platform == "linux":
        a, panels_of_b = before_a_wall(a), before_a_wall(panels_of_b)
    exact = (a.T if ta else a).astype("f8") @ b.astype("f8")
    handle = blas._handle_of_weights(np.dtype(dtype))
    for alpha, beta in ((1, 0), (-0.5, 1), (2, -1.5)):
        c = np.full((m, n + 3), np.nan if beta == 0 else 3, dtype)
        c[:, n:] = 7
        multiply(dtype, m, n, k, alpha, a, a.shape[1], panels_of_b, k, beta, c, n + 3, ta, True, handle)
        expected = alpha * exact + (3 * beta if beta else 0)
        np.testing.assert_allclose(c[:, :n], expected, rtol=0, atol=1e-4 if dtype == "float32" else 1e-12)
        assert (c[:, n:] == 7).all()
