"""Matrix products: OpenBLAS and functad's own kernel against NumPy, as instructions of a tape and in kernel text."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from functad.backends.cpu.compile import machine
from functad.backends.cpu.compile.loader import load_object
from functad.backends.cpu.products import blas, gemm
from functad.backends.cpu.products import in_kernels as gemm_scalars
from functad.backends.cpu.products import in_kernels_numba as in_kernels_numba
from functad.backends.cpu.products.gemm import Matrix, best_split, gemm_block, gemm_instruction
from functad.backends.cpu.runtime import layout as w
from functad.backends.cpu.runtime.tape import Tape, TapeBlock, TapeInstruction, settle
from functad.errors import ArgumentError

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

DTYPES = ["float32", "float64", "complex64", "complex128"]
TOLERANCE = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-12, "complex128": 1e-12}


@pytest.fixture(params=["library", "own"])
def provider(request, monkeypatch):
    """Who computes: the library, then functad's own kernel."""
    if request.param == "own":
        monkeypatch.setattr(blas, "_handle", cache(own_handle))
    else:
        assert blas.blas().is_library, "NumPy comes without a BLAS library that functad knows"
    return request.param


def own_handle(dtype):
    return blas._new_handle(dtype, blas._own_kernel(dtype)["gemm"], 0)


def numbers(dtype: str, *shape: int) -> np.ndarray:
    random = np.random.default_rng(sum(shape) + len(dtype))
    values = random.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def run(blocks, *arrays, tape_slots=0):
    slots = np.zeros(len(arrays) + tape_slots, np.int64)
    tape = Tape(blocks)
    call = tape.bind(slots, len(arrays))
    status = call(list(arrays))
    settle(status)
    return status


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (7, 5, 3), (33, 70, 81), (1, 300, 9), (130, 1, 67), (4, 3, 300)])
def test_products(provider, dtype, ta, tb, m, n, k):
    a, b = numbers(dtype, k, m) if ta else numbers(dtype, m, k), numbers(dtype, n, k) if tb else numbers(dtype, k, n)
    expected = (a.T if ta else a) @ (b.T if tb else b)
    for split, extent in (("rows", m), ("columns", n)):
        for chunk in (0, 1, 3):
            c = np.full((m, n), np.nan, dtype)
            matrices = Matrix(0, a.shape[1]), Matrix(1, b.shape[1]), Matrix(2, n)
            instruction = gemm_instruction(dtype, *matrices, m=m, n=n, k=k, ta=ta, tb=tb, split=split)
            run([TapeBlock(extent, [instruction], chunk)], a, b, c)
            np.testing.assert_allclose(c, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * k)


@pytest.mark.parametrize("dtype", DTYPES)
def test_alpha_and_beta(provider, dtype):
    a, b, c = (numbers(dtype, *shape) for shape in ((5, 4), (4, 6), (5, 6)))
    alpha, beta = (0.5 - 2j, 1.5 + 1j) if dtype.startswith("complex") else (0.5, 1.5)
    expected = alpha * (a @ b) + beta * c
    matrices = Matrix(0, 4), Matrix(1, 6), Matrix(2, 6)
    block = gemm_block(dtype, *matrices, m=5, n=6, k=4, alpha=alpha, beta=beta)
    run([block], a, b, c)
    np.testing.assert_allclose(c, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_products(provider, dtype):
    c = np.full((3, 2), 2, dtype)
    a, b = np.zeros((3, 0), dtype), np.zeros((0, 2), dtype)
    matrices = Matrix(0, 1), Matrix(1, 2), Matrix(2, 2)
    run([gemm_block(dtype, *matrices, m=3, n=2, k=0, beta=3.0)], a, b, c)
    np.testing.assert_array_equal(c, np.full((3, 2), 6, dtype))
    c[...] = np.nan
    run([gemm_block(dtype, *matrices, m=3, n=2, k=0)], a, b, c)
    np.testing.assert_array_equal(c, np.zeros((3, 2), dtype))
    c[...] = 5
    run([gemm_block(dtype, *matrices, m=0, n=2, k=4), gemm_block(dtype, *matrices, m=3, n=0, k=4)], a, b, c)
    np.testing.assert_array_equal(c, np.full((3, 2), 5, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_overlapping_rows_offsets_and_gaps(provider, dtype, ta, tb):
    # Windows of 7 at distance 2 of a signal: a matrix whose rows overlap, which BLAS libraries refuse.
    m, n, k, pitch = 5, 6, 7, 2
    flat_a, flat_b, flat_c = numbers(dtype, 40), numbers(dtype, 41), numbers(dtype, 70)
    item = flat_a.itemsize
    a_shape, b_shape = (k, m) if ta else (m, k), (n, k) if tb else (k, n)
    a = np.lib.stride_tricks.as_strided(flat_a[3:], a_shape, (pitch * item, item))
    b = np.lib.stride_tricks.as_strided(flat_b[1:], b_shape, ((pitch + 1) * item, item))
    expected = flat_c.copy()
    target = np.lib.stride_tricks.as_strided(expected[4:], (m, n), (11 * item, item))
    target[...] = 2 * ((a.T if ta else a) @ (b.T if tb else b)) - target
    matrices = Matrix(0, pitch, 3), Matrix(1, pitch + 1, 1), Matrix(2, 11, 4)
    instruction = gemm_instruction(dtype, *matrices, m=m, n=n, k=k, ta=ta, tb=tb, alpha=2.0, beta=-1.0)
    run([TapeBlock(m, [instruction], 3)], flat_a, flat_b, flat_c)
    np.testing.assert_allclose(flat_c, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches(provider, dtype):
    a, b, c = numbers(dtype, 9, 4, 5), numbers(dtype, 5, 6), np.full((9, 4, 6), np.nan, dtype)
    matrices = Matrix(0, 5, stride=20), Matrix(1, 6), Matrix(2, 6, stride=24)
    instruction = gemm_instruction(dtype, *matrices, m=4, n=6, k=5, split="batch")
    run([TapeBlock(9, [instruction], 2)], a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_epilogue_runs_on_the_rows_that_the_product_just_made():
    text = "def relu(c, start, stop):\n    for i in range(start, stop):\n        c[i] = c[i] if c[i] > zero else zero\n"
    kernels = load_object(
        machine.compile_kernels(
            "import numpy as np\nzero = np.float32(0)\n" + text, "relu", {"relu": [np.dtype("f4")]}
        ),
        ["relu"],
    )
    a, b, c = numbers("float32", 200, 30), numbers("float32", 30, 40), np.empty((200, 40), np.float32)
    product = gemm_instruction("float32", Matrix(0, 30), Matrix(1, 40), Matrix(2, 40), m=200, n=40, k=30)
    epilogue = TapeInstruction(kernels["relu"], np.array([2], np.int64), scale=40)
    run([TapeBlock(200, [product, epilogue], 32)], a, b, c)
    np.testing.assert_allclose(c, np.maximum(a @ b, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernel_text(provider, dtype):
    word = {"float32": "gemm_f32", "float64": "gemm_f64", "complex64": "gemm_c64", "complex128": "gemm_c128"}[dtype]
    text = f"""
from functad.backends.cpu.products.in_kernels import {word}
def product(blas, a, b, c, start, stop):
    for i in range(start, stop):
        {word}(blas, 1, 0, 3, 4, 5, 2, a, 15 * i, 3, b, 1, 4, 0, c, 12 * i, 4)
"""
    a, b, c = numbers(dtype, 2, 5, 3), numbers(dtype, 21), np.full((2, 3, 4), np.nan, dtype)
    expected = 2 * np.swapaxes(a, 1, 2) @ b[1:].reshape(5, 4)
    kernels = load_object(
        machine.compile_kernels(text, "product", {"product": [np.dtype(np.int64), *[np.dtype(dtype)] * 3]}), ["product"]
    )
    slots = np.array([a.ctypes.data, b.ctypes.data, c.ctypes.data, blas.handle(dtype)], np.int64)
    instruction = TapeInstruction(kernels["product"], np.array([3, 0, 1, 2], np.int64), blas=True)
    settle(Tape([TapeBlock(2, [instruction])]).run(slots))
    np.testing.assert_allclose(c, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    plain = np.full(24, np.nan, dtype)
    for i in range(2):
        getattr(gemm_scalars, word)(
            None, 1, 0, 3, 4, 5, 2, a.reshape(-1), 15 * i, 3, b, 1, 4, 0, plain, 12 * i, 4
        )  # fmt: skip
    np.testing.assert_allclose(plain.reshape(2, 3, 4), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_the_library_has_one_thread_during_a_tape_and_its_own_afterwards():
    chosen = blas.blas()
    if not chosen.set_threads:
        pytest.skip("the BLAS library has no number of threads")
    import ctypes

    library = ctypes.CDLL(chosen.path)
    seen = np.zeros(1, np.int64)
    get = ctypes.cast(getattr(library, chosen.get_threads), ctypes.c_void_p).value

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    def spy(slots, params, start, stop):
        seen[0] = ctypes.CFUNCTYPE(ctypes.c_int)(get)()

    blas.handle("float32")
    before = chosen.threads()
    getattr(library, chosen.set_threads)(2)
    address = ctypes.cast(spy, ctypes.c_void_p).value
    Tape([TapeBlock(1, [TapeInstruction(address, np.zeros(1, np.int64), blas=True)])]).run(np.zeros(1, np.int64))
    assert (seen[0], chosen.threads()) == (1, 2)
    Tape([TapeBlock(1, [TapeInstruction(address, np.zeros(1, np.int64))])]).run(np.zeros(1, np.int64))
    assert seen[0] == 2
    getattr(library, chosen.set_threads)(before)


@pytest.mark.parametrize("cores", [1, 2, 16])
def test_best_split(monkeypatch, cores):
    monkeypatch.setattr(gemm, "available_cores", lambda: (cores, ""))
    whole = 0
    assert best_split("float32", 10, 10, 10) == ("rows", 10, whole)
    assert best_split("float32", 100, 64, 196) == ("rows", 100, {1: whole, 2: 50, 16: 17}[cores])
    assert best_split("float32", 1024, 1024, 1024) == ("rows", 1024, {1: 512, 2: 256, 16: 64}[cores])
    assert best_split("float32", 10, 5000, 50) == ("columns", 5000, {1: 2512, 2: 1264, 16: 432}[cores])
    assert best_split("complex128", 64, 64, 64, batch=50) == ("batch", 50, {1: 13, 2: 7, 16: 1}[cores])


def test_refuses_what_no_product_can_be():
    with pytest.raises(ArgumentError, match="pitches 4, 3, 2"):
        gemm_instruction("float32", Matrix(0, 4), Matrix(1, 3), Matrix(2, 2), m=2, n=3, k=4)
    with pytest.raises(ArgumentError, match="int32"):
        blas.handle("int32")


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("none", "own kernel"), ("/nowhere/libblas.so", "not a library with cblas_sgemm")],
)
def test_the_environment_chooses(choice, expected):
    program = """
import numpy as np
from functad.backends.cpu.products import blas
from functad.backends.cpu.products.gemm import Matrix, gemm_block
from functad.backends.cpu.runtime.tape import Tape, settle
from functad.errors import ArgumentError
try:
    block = gemm_block("float32", Matrix(0, 2), Matrix(1, 2), Matrix(2, 2), m=2, n=2, k=2)
except ArgumentError as problem:
    print(problem)
else:
    a, c = np.array([[1, 2], [3, 4]], "f4"), np.zeros((2, 2), "f4")
    settle(Tape([block]).bind(np.zeros(3, np.int64), 3)([a, a, c]))
    assert (c == a @ a).all() and not blas.blas().is_library
    print("own kernel")
"""
    environment = {**os.environ, "FUNCTAD_BLAS": choice}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert expected in result.stdout


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("m", "n", "k", "ta"), [(7, 50, 130, 0), (130, 33, 257, 0), (256, 20, 3, 0), (70, 129, 100, 1), (3, 300, 256, 1)]
)
def test_products_in_tiles(dtype: str, m: int, n: int, k: int, ta: int) -> None:
    """Tiles that a library multiplies without packing: every shape of remainder, C read or overwritten."""
    handle = blas._handle(np.dtype(dtype))
    rng = np.random.default_rng(m)
    a = rng.normal(size=(k, m) if ta else (m, k)).astype(dtype)
    b = rng.normal(size=(k, n)).astype(dtype)
    limit = handle[w.GEMM_DIRECT]
    try:
        handle[w.GEMM_DIRECT] = 20_000
        for beta in (0.0, 1.0, -0.5):
            c = np.full((m, n), np.nan if beta == 0 else 1.0, dtype)
            expected = 2.0 * ((a.T if ta else a) @ b) + (0 if beta == 0 else beta)
            matrices = Matrix(0, a.shape[1]), Matrix(1, n), Matrix(2, n)
            run([gemm_block(dtype, *matrices, m=m, n=n, k=k, ta=bool(ta), alpha=2.0, beta=beta)], a, b, c)
            np.testing.assert_allclose(c, expected, rtol=1e-4, atol=1e-3)
    finally:
        handle[w.GEMM_DIRECT] = limit
