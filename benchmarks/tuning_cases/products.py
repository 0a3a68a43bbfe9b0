"""Matrix products, what is not jitted, and what a process reads once.

Knows functad's public names, and the names of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.tuning_cases.case import APART, UNJITTED, Case
from benchmarks.tuning_cases.programs import (
    cholesky,
    convolution,
    convolution_of_last,
    lorenz,
    product,
    times_transposed,
    updated,
)


def _random(count: int) -> Callable[[], Any]:
    return lambda: functad.random.bits(functad.random.key(0), (count,))


def _permutations(x: Any) -> Any:
    return functad.scipy.linalg.lu(x)


PRODUCTS = [
    Case("PRODUCT_CHUNK", "64 × 64 by 64 × 64", lambda a, b: a @ b, "f32[64,64] f32[64,64]"),
    Case("PRODUCT_CHUNK", "100 × 100 by 100 × 100", lambda a, b: a @ b, "f32[64,100] f32[100,64]"),
    Case("PRODUCT_CHUNK_EXTENT", "1,000 × 256 by 256 × 256", lambda a, b: a @ b, "f32[1000,256] f32[256,256]"),
    Case("PRODUCT_CHUNK_EXTENT", "600 × 256 by 256 × 256", lambda a, b: a @ b, "f32[600,256] f32[256,256]"),
    Case("ROWS_PACK_BETTER", "200 × 256 by 256 × 600", lambda a, b: a @ b, "f32[200,256] f32[256,600]"),
    Case("ROWS_PACK_BETTER", "200 × 256 by 256 × 1,200", lambda a, b: a @ b, "f32[200,256] f32[256,1200]"),
    Case("THIN_TERMS", "1,000 × 100 by 100 × 1,000", lambda a, b: a @ b, "f32[1000,100] f32[100,1000]"),
    Case("THIN_TERMS", "1,000 × 48 by 48 × 1,000", lambda a, b: a @ b, "f32[1000,48] f32[48,1000]"),
    Case("THIN_TURNED_TERMS", "12 × 1,000 transposed by 12 × 1,000", lambda a, b: a.T @ b, "f32[12,1000] f32[12,1000]"),
    Case("THIN_TURNED_TERMS", "24 × 1,000 transposed by 24 × 1,000", lambda a, b: a.T @ b, "f32[24,1000] f32[24,1000]"),
    Case("THIN_ROWS", "48 × 16 by 16 × 10,000", lambda a, b: a @ b, "f32[48,16] f32[16,10000]"),
    Case("THIN_ROWS", "100 × 16 by 16 × 10,000", lambda a, b: a @ b, "f32[100,16] f32[16,10000]"),
    Case("FFT_AS_MATRIX", "a Fourier transform of 6,000", jnp.fft.fft, "c64[6000]"),
    Case("FFT_AS_MATRIX", "a Fourier transform of 12,000", jnp.fft.fft, "c64[12000]"),
    Case("FFT_ROWS", "Fourier transforms of 40 rows of 300,000", jnp.fft.fft, "c64[40,300000]"),
    Case(
        "SMALL_MATRIX",
        "Cholesky factors of 100 matrices of 24 rows",
        partial(cholesky, 24),
        "f32[100,24,24]",
    ),
    Case(
        "SMALL_MATRIX",
        "Cholesky factors of 100 matrices of 48 rows",
        partial(cholesky, 48),
        "f32[100,48,48]",
    ),
    Case(
        "ONE_THREAD_MATRIX",
        "a Cholesky factor of 400 rows",
        lambda x: jnp.linalg.cholesky(x @ x.T + 99 * jnp.eye(400)),
        "f32[400,400]",
    ),
    Case(
        "ONE_THREAD_MATRIX",
        "a Cholesky factor of 800 rows",
        lambda x: jnp.linalg.cholesky(x @ x.T + 99 * jnp.eye(800)),
        "f32[800,800]",
    ),
]

UNJITTED_CASES = [
    Case("THREEFRY_PACKED", "250 random words", _random(250), "", UNJITTED),
    Case("THREEFRY_PACKED", "400 random words", _random(400), "", UNJITTED),
    Case("PAIRED_ROW", "the order of 700", jnp.argsort, "f32[700]", UNJITTED),
    Case("PAIRED_ROW", "the order of 1,500", jnp.argsort, "f32[1500]", UNJITTED),
    Case(
        "GATHER_BLOCK", "30,000 updates of rows of 10", updated, "f32[1000,10] i32[30000]<1000 f32[30000,10]", UNJITTED
    ),
    Case(
        "WINDOWS_FEW_OUTPUTS",
        "a convolution, 16 of 16, 3 × 3, 10 × 10",
        partial(convolution, padding="SAME"),
        "f32[32,16,10,10] f32[16,16,3,3]",
        UNJITTED,
    ),
    Case(
        "WINDOWS_FEW_OUTPUTS",
        "a convolution, 16 of 16, 3 × 3, 7 × 7",
        partial(convolution, padding="SAME"),
        "f32[32,16,7,7] f32[16,16,3,3]",
        UNJITTED,
    ),
    Case("ONE_THREAD_PRODUCT", "a product of 230 × 230", product, "f32[230,230] f32[230,230]", UNJITTED),
    Case("ONE_THREAD_PRODUCT", "a product of 290 × 290", product, "f32[290,290] f32[290,290]", UNJITTED),
    Case("OTHER_PRODUCT_COST", "a product of integers, 90 × 90", product, "i32[90,90] i32[90,90]", UNJITTED),
    Case(
        "MATRICES_SIDE_BY_SIDE",
        "Cholesky factors of 50 matrices of 8 rows",
        partial(cholesky, 8),
        "f32[50,8,8]",
        UNJITTED,
    ),
    Case(
        "MATRICES_SIDE_BY_SIDE",
        "Cholesky factors of 100 matrices of 8 rows",
        partial(cholesky, 8),
        "f32[100,8,8]",
        UNJITTED,
    ),
    Case("ORDERS_ONE_BY_ONE", "LU factors of 12 matrices of 10 rows", _permutations, "f32[12,10,10]", UNJITTED),
    Case("ORDERS_ONE_BY_ONE", "LU factors of 24 matrices of 10 rows", _permutations, "f32[24,10,10]", UNJITTED),
    Case("ALIGNED_BYTES", "a copy of 40,000 bytes", lambda x: jnp.array(np.asarray(x)), "f32[10000]", UNJITTED),
    Case("ALIGNED_BYTES", "a copy of 100,000 bytes", lambda x: jnp.array(np.asarray(x)), "f32[25000]", UNJITTED),
]

APART_CASES = [
    Case(
        "FALLBACK_TILE_ROWS",
        "a product of 300 × 300 without a library",
        product,
        "f32[300,300] f32[300,300]",
        APART,
        environment="FUNCTAD_BLAS=none",
    ),
    Case(
        "PANEL_DEPTH",
        "64 of 64, 3 × 3, 32 × 32",
        partial(convolution, padding="SAME"),
        "f32[8,64,32,32] f32[64,64,3,3]",
        APART,
    ),
    Case("PART_EXTENT", "a product of 2,048 × 4,096 by 4,096 × 2,048", product, "f32[2048,4096] f32[4096,2048]", APART),
    Case("BEFORE_A_RESULT", "quotients of 512 × 512", lambda x, y: x / y, "f32[512,512] f32[512,512]", APART),
]

AVX512 = [
    Case("LONG_LOOP", "six steps of Lorenz's equations", partial(lorenz, steps=6), "f32[3,1000]", in_code=True),
    Case("COPIED_WEIGHT_ROWS", "48 rows by a transposed weight of 40 × 40", times_transposed, "f32[48,40] f32[40,40]"),
    Case(
        "COPIED_WEIGHT_ROWS", "100 rows by a transposed weight of 40 × 40", times_transposed, "f32[100,40] f32[40,40]"
    ),
    Case(
        "COPIED_WEIGHT_PRODUCT",
        "100 rows by a transposed weight of 20 × 24",
        times_transposed,
        "f32[100,20] f32[24,20]",
    ),
    Case(
        "COPIED_WEIGHT_PRODUCT",
        "100 rows by a transposed weight of 14 × 14",
        times_transposed,
        "f32[100,14] f32[14,14]",
    ),
    Case(
        "COPIED_WEIGHT_BYTES_A_ROW",
        "600 rows by a transposed weight of 500 × 500",
        times_transposed,
        "f32[600,500] f32[500,500]",
    ),
    Case(
        "COPIED_WEIGHT_BYTES_A_ROW",
        "1,000 rows by a transposed weight of 500 × 500",
        times_transposed,
        "f32[1000,500] f32[500,500]",
    ),
    Case("OWN_PRODUCT_EXTENT", "6 × 400 by 400 × 500", product, "f32[6,400] f32[400,500]", APART),
    Case(
        "FEW_TILE_ROWS",
        "302 rows by a transposed weight of 1,000 × 500",
        times_transposed,
        "f32[302,1000] f32[500,1000]",
        APART,
    ),
    Case("DIRECT_TILE", "200 × 200 by 200 × 200", product, "f32[200,200] f32[200,200]", APART),
    Case(
        "DIRECT_FEW OWN_PRODUCT_FEW_ROWS",
        "24 of 400 rows transposed by 400 × 500",
        lambda a, b: a.T @ b,
        "f32[400,24] f32[400,500]",
    ),
    Case(
        "OWN_PRODUCT_MULTIPLICATIONS OWN_PRODUCT_SIDE",
        "100 × 1,024 by 1,024 × 260",
        product,
        "f32[100,1024] f32[1024,260]",
    ),
    Case(
        "OWN_PRODUCT_ROWS",
        "6 rows, 300 terms, transposed weight of 300 × 2,000",
        times_transposed,
        "f32[6,300] f32[2000,300]",
    ),
    Case(
        "OWN_PRODUCT_COLUMNS",
        "100 rows by a transposed weight of 200 × 200",
        times_transposed,
        "f32[100,200] f32[200,200]",
    ),
    Case(
        "OWN_PRODUCT_DEPTH",
        "500 × 48 by twice 500 × 48, transposed",
        lambda a, b: times_transposed(a, b * 2.0),
        "f32[500,48] f32[500,48]",
    ),
    Case("OWN_DIRECT_TILE_ROWS", "120 × 256 by 256 × 256", product, "f32[120,256] f32[256,256]", APART),
    Case("OWN_DIRECT_ROWS", "24 × 256 by 256 × 256", product, "f32[24,256] f32[256,256]"),
    Case("OWN_DIRECT_DEPTH", "128 × 200 by 200 × 256", product, "f32[128,200] f32[200,256]"),
    Case("OWN_DIRECT_COLUMNS", "300 × 300 by 300 × 192", product, "f32[300,300] f32[300,384]"),
    Case(
        "PLACES_PRODUCTS",
        "32 of 8, 3 × 3, rows of 24",
        partial(convolution_of_last, padding="SAME"),
        "f32[8,24,24,8] f32[3,3,8,32]",
    ),
]
