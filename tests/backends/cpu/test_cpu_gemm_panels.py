"""functad's own matrix product: its results against NumPy, which products it gets, and what it must not touch."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from functad.backends.cpu.products import blas
from functad.backends.cpu.products.own import gemm_panels, gemm_table
from functad.backends.cpu.runtime import layout as w
from functad.config import config

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

DTYPES = ["float32", "float64"]
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}


def numbers(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def multiply(dtype, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, ta=False, tb=False, handle=None):
    """C = alpha op(A) op(B) + beta C; a, b and c are arrays that begin with the matrix."""
    handle = blas._handle_of_panels(np.dtype(dtype)) if handle is None else handle
    factors = np.array([alpha, beta], dtype)
    address = factors.ctypes.data
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 14)(int(handle[w.GEMM_ENTRY]))(
        handle.ctypes.data, ta, tb, m, n, k, address, a.ctypes.data, lda, b.ctypes.data, ldb,
        address + factors.itemsize, c.ctypes.data, ldc,
    )  # fmt: skip


def check_products(a, b, ta=False, tb=False, handle=None):
    """Products of these operands, scaled and added, against NumPy's in float64; what lies around C stays as it is."""
    (m, k), n, dtype = a.T.shape if ta else a.shape, b.shape[0 if tb else 1], a.dtype.name
    exact = (a.T if ta else a).astype("f8") @ (b.T if tb else b).astype("f8")
    for alpha, beta in ((1, 0), (-0.5, 1), (2, -1.5)):
        # Around C lies what must stay as it is; with beta = 0, C is not read.
        whole = np.full((m + 2, n + 3), 7, dtype)
        whole[1:-1, 2:-1] = np.nan if beta == 0 else 3
        expected = whole.copy()
        expected[1:-1, 2:-1] = alpha * exact + (3 * beta if beta else 0)
        inside = whole.reshape(-1)[n + 5 :]
        multiply(dtype, m, n, k, alpha, a, a.shape[1], b, b.shape[1], beta, inside, n + 3, ta, tb, handle)
        np.testing.assert_allclose(whole, expected, rtol=0, atol=TOLERANCE[dtype] * max(10, k**0.5 * 10))
        np.testing.assert_array_equal(whole[[0, -1]], 7)
        np.testing.assert_array_equal(whole[:, [0, 1, -1]], 7)


# Tiles are 12 x 32 (float64: 12 x 16), sums are cut at 256, resident parts at 256 KB: sizes around all of these.
SIZES = [
    (1, 1, 1), (12, 32, 4), (13, 33, 5), (4, 16, 3), (9, 17, 2), (24, 64, 256), (100, 130, 257), (130, 100, 300),
    (7, 500, 31), (500, 7, 31), (300, 310, 520), (40, 2500, 10), (2500, 40, 10),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_products(dtype, ta, tb, m, n, k):
    a, b = numbers(dtype, k, m) if ta else numbers(dtype, m, k), numbers(dtype, n, k) if tb else numbers(dtype, k, n)
    check_products(a, b, ta, tb)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_rows_that_overlap(dtype, ta, tb):
    m, n, k, pitch = 40, 50, 70, 3
    signal = numbers(dtype, 400)
    item = signal.itemsize
    a = np.lib.stride_tricks.as_strided(signal, (k, m) if ta else (m, k), (pitch * item, item))
    b = np.lib.stride_tricks.as_strided(signal, (n, k) if tb else (k, n), (2 * item, item))
    c = np.full((m, n), np.nan, dtype)
    multiply(dtype, m, n, k, 1, signal, pitch, signal, 2, 0, c, n, ta, tb)
    expected = (a.T if ta else a).astype("f8") @ (b.T if tb else b).astype("f8")
    np.testing.assert_allclose(c, expected, rtol=0, atol=100 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_what_is_not_finite_stays_in_its_row_and_column(dtype, ta, tb):
    m, n, k = 31, 45, 37
    a, b = numbers(dtype, m, k), numbers(dtype, k, n)
    a[-1, 3], b[5, -1] = np.inf, np.nan
    left, right = np.ascontiguousarray(a.T if ta else a), np.ascontiguousarray(b.T if tb else b)
    c = np.zeros((m, n), dtype)
    multiply(dtype, m, n, k, 1, left, left.shape[1], right, right.shape[1], 1, c, n, ta, tb)
    assert np.isfinite(c[:-1, :-1]).all()
    assert np.isnan(c[:, -1]).all() and np.isinf(c[-1, :-1]).all()


def test_what_is_right_of_a_strip_is_zero():
    # Nobody stores what a tile makes of it, but products of denormal numbers take a hundred times as long.
    handle = blas._handle_of_panels(np.dtype("float32"))
    m, n, k = 50, 128, 64
    words = (ctypes.c_float * (60 * k)).from_address(int(handle[gemm_panels.ROOM]))
    room = np.ctypeslib.as_array(words)
    room[:] = 1e-42
    a, b, c = numbers("float32", m, k), numbers("float32", k, n), np.empty((m, n), np.float32)
    multiply("float32", m, n, k, 1, a, k, b, n, 0, c, n)
    strip = room[48 * k :].reshape(k, 12)  # rows 48 and 49, in a tile of four
    np.testing.assert_array_equal(strip[:, :2], a[48:].T)
    assert not strip[:, 2:4].any()


@pytest.mark.skipif(sys.platform != "linux", reason="protects memory with mprotect")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(12, 32, 8), (13, 47, 21), (100, 40, 9), (30, 20, 300)])
def test_touches_no_memory_beyond_its_matrices(dtype, ta, tb, m, n, k):
    a, b, c = (
        before_a_wall(numbers(dtype, *shape)) for shape in ((k, m) if ta else (m, k), (n, k) if tb else (k, n), (m, n))
    )
    expected = (a.T if ta else a) @ (b.T if tb else b) + c
    multiply(dtype, m, n, k, 1, a, a.shape[1], b, b.shape[1], 1, c, n, ta, tb)
    np.testing.assert_allclose(c, expected, rtol=0, atol=300 * TOLERANCE[dtype])


def before_a_wall(array: np.ndarray) -> np.ndarray:
    """A copy of the array that ends where a page begins that nobody may read."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, size + page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + size), ctypes.c_size_t(page), 0) == 0
    copy = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes).reshape(array.shape)
    copy[...] = array
    return copy


def test_more_threads_than_rooms():
    handle = blas._handle_of_panels(np.dtype("float32"))
    m, n, k = 50, 300, 200
    a, b = numbers("float32", m, k), numbers("float32", k, n)
    alone = np.empty((m, n), np.float32)
    multiply("float32", m, n, k, 1, a, k, b, n, 0, alone, n)
    results = np.zeros((int(handle[gemm_panels.ROOMS]) + 3, 20, m, n), np.float32)
    barrier = threading.Barrier(len(results))

    def work(own):
        barrier.wait()
        for c in own:
            multiply("float32", m, n, k, 1, a, k, b, n, 0, c, n)

    threads = [threading.Thread(target=work, args=(own,)) for own in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(results, np.broadcast_to(alone, results.shape))
    assert not handle[gemm_panels.TAKEN :].any()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_has_all_rooms():
    handle = blas._handle_of_panels(np.dtype("float32"))
    taken = handle[gemm_panels.TAKEN :]
    config.num_threads, before = 1, config.num_threads
    taken[:] = 1
    try:
        child = os.fork()
        if child == 0:
            os._exit(int(taken.any()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert taken.all()
    finally:
        taken[:] = 0
        config.num_threads = before


@pytest.fixture(params=["SkylakeX", "Haswell", "unknown"])
def core(request, monkeypatch):
    """The processor that OpenBLAS takes this one, which has AVX-512, for while the test runs; or another library."""
    monkeypatch.setattr(blas, "_is_direct", lambda dtype: dtype.kind == "f" and request.param in blas._DIRECT_CORES)
    monkeypatch.setattr(blas, "is_narrow", lambda dtype: dtype.kind == "f" and request.param == "Haswell")
    monkeypatch.setattr(blas, "has_thin_products", lambda dtype: False)
    return request.param


@pytest.mark.parametrize(
    ("m", "n", "k", "ta", "tb", "own"),
    [
        (100, 2048, 2048, False, False, "panels"),  # B has 16 MB
        (2048, 2048, 100, True, False, "panels"),  # C has
        (100, 512, 512, False, False, "panels"),  # There is much to do,
        (1024, 512, 32, False, False, "library"),  # on all sides.
        (100, 512, 512, False, True, "panels"),  # B has to be transposed,
        (100, 128, 64, False, True, "library"),  # but the product is small,
        (100, 64, 2048, False, True, "library"),  # narrow,
        (3, 2048, 2048, False, True, "library"),  # of hardly any rows
        (1024, 1024, 8, False, True, "library"),  # or of short sums.
        (2048, 2048, 16, True, False, "library"),
        (50, 512, 512, False, False, "direct"),  # B stays in the second cache
        (1000, 256, 256, False, False, "direct"),  # although there is much to do.
        (8, 512, 512, False, False, "library"),  # Each row of B is used too seldom,
        (8, 512, 512, True, False, "direct"),  # but the library would pack a transposed A.
        (16, 512, 2800, True, False, "panels"),  # Neither would stay in a cache.
        (16, 512, 2800, False, False, "direct"),  # B would not, but is fetched meanwhile.
        (50, 512, 127, False, False, "library"),  # short sums
        (100, 500, 256, False, False, "library"),  # Some columns fill no tile.
    ],
)
def test_which_products_it_gets(core, m, n, k, ta, tb, own):
    ldb = k if tb else n
    own = {"SkylakeX": own, "Haswell": "panels" if m > 3 else "library", "unknown": "library"}[core]
    handle, calls_blas = blas.handle_for("float32", m, n, k, ta=ta, tb=tb, ldb=ldb, ldc=n)
    handles = {"library": blas._handle, "panels": blas._handle_of_panels, "direct": blas._handle_of_direct}
    expected = handles[own](np.dtype("float32")).ctypes.data
    assert (handle, calls_blas) == (expected, own != "panels")
    complex_handle, _ = blas.handle_for("complex64", m, n, k, ta=ta, tb=tb, ldb=ldb, ldc=n)
    assert complex_handle == blas.handle("complex64")


@pytest.mark.parametrize(
    ("description", "vectors", "narrow"),
    [
        ("OpenBLAS 0.3.34 DYNAMIC_ARCH Haswell MAX_THREADS=64", 32, True),
        ("OpenBLAS 0.3.34 DYNAMIC_ARCH Haswell MAX_THREADS=64", 0, False),  # so is the processor
        ("OpenBLAS 0.3.34 DYNAMIC_ARCH SkylakeX MAX_THREADS=64", 32, False),
        ("", 32, False),  # a library that does not say
        (None, 32, True),  # no library
    ],
)
def test_whether_the_library_has_shorter_vectors(description, vectors, narrow, monkeypatch):
    monkeypatch.setattr(blas.Blas, "description", description or "")
    monkeypatch.setattr(blas, "blas", lambda: blas.Blas("", ("sgemm",) if description is not None else (), "", "", ""))
    monkeypatch.setattr(blas, "columns_of_places", lambda dtype: vectors)
    for cached in (blas._is_direct, blas.is_narrow):
        cached.cache_clear()
    try:
        assert blas.is_narrow(np.dtype("float32")) is narrow
    finally:
        blas._is_direct.cache_clear()
        blas.is_narrow.cache_clear()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(100, 7, 50), (7, 100, 50), (100, 50, 7), (20, 30, 40), (8, 8, 8)])
def test_leaves_short_sides_to_others(dtype, shape):
    m, n, k = shape
    library = blas._handle_of_library(np.dtype(dtype))
    handle = gemm_table.with_table(blas._new_handle(np.dtype(dtype), 0, 0), np.dtype(dtype), library)
    a, b, c = numbers(dtype, m, k), numbers(dtype, k, n), np.full((m, n), np.nan, dtype)
    multiply(dtype, m, n, k, 1, a, k, b, n, 0, c, n, handle=handle)
    np.testing.assert_allclose(c, a.astype("f8") @ b.astype("f8"), rtol=0, atol=100 * TOLERANCE[dtype])


def test_compiles_without_numba(tmp_path):
    program = """
import sys
import numpy as np
from functad.backends.cpu.products import blas
blas._handle_of_panels(np.dtype("float32"))
assert not any(name.partition(".")[0] == "numba" for name in sys.modules)
"""
    environment = {**os.environ, "FUNCTAD_CACHE_DIR": str(tmp_path)}
    for _ in ("cold", "warm"):
        subprocess.run([sys.executable, "-W", "error", "-c", program], env=environment, check=True)
