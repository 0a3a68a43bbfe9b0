"""Kernels that primitives bring as text: convolutions, windows, extrema, sorting.

Knows functad's public names, and the names of numbers.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import functad
import functad.numpy as jnp
from benchmarks.tuning_cases.case import APART, Case
from benchmarks.tuning_cases.programs import (
    convolution,
    convolution_of_last,
)
from functad import lax


def _of_weights(x: Any, w: Any, **others: Any) -> Any:
    """The gradient of a sum over a convolution with respect to its weights."""
    return functad.grad(lambda w: jnp.sum(convolution(x, w, **others) ** 2))(w)


def _largest_in_windows(x: Any, *window: int, strides: Any = None, padding: str = "VALID") -> Any:
    sides = (1,) * (x.ndim - len(window)) + window
    strides = (1,) * x.ndim if strides is None else (1,) * (x.ndim - len(window)) + strides
    return lax.reduce_window(x, -jnp.inf, lax.max, sides, strides, padding)


CONVOLUTIONS = [
    Case(
        "MOST_COPIED_ELEMENTS",
        "32 of 8, 5 × 5, rows of 6,000",
        partial(convolution_of_last, padding="SAME"),
        "f32[1,8,6000,8] f32[5,5,8,32]",
    ),
    Case(
        "MOST_COPIED_ELEMENTS MOST_PARTS",
        "gradient of 256 × 512 weights of 3 × 3",
        _of_weights,
        "f32[8,256,16,16] f32[512,256,3,3]",
    ),
    Case(
        "DILATION_WORTH_SPLITTING",
        "a transposed convolution, 32 of 64, 4 × 4, 56 × 56",
        lambda x, w: convolution_of_last(x, w, padding=((2, 2), (2, 2)), lhs_dilation=(2, 2)),
        "f32[1,28,28,20] f32[4,4,20,32]",
    ),
    Case(
        "DILATION_WORTH_SPLITTING",
        "a transposed convolution, 64 of 32, 4 × 4, 56 × 56",
        lambda x, w: convolution_of_last(x, w, padding=((2, 2), (2, 2)), lhs_dilation=(2, 2)),
        "f32[1,28,28,32] f32[4,4,32,32]",
    ),
    Case(
        "CONVOLUTION_BLOCK_PLACES",
        "64 of 64, 3 × 3, 28 × 28, batch 8",
        partial(convolution_of_last, padding="SAME"),
        "f32[8,28,28,64] f32[3,3,64,64]",
    ),
    Case(
        "WIDE_ROW",
        "64 of 64, 3 × 3, rows of 40",
        partial(convolution_of_last, padding="SAME"),
        "f32[8,40,40,64] f32[3,3,64,64]",
    ),
    Case(
        "WIDE_ROW",
        "64 of 64, 3 × 3, rows of 24",
        partial(convolution_of_last, padding="SAME"),
        "f32[8,24,24,64] f32[3,3,64,64]",
    ),
    Case(
        "UNROLLED_FEATURES",
        "64 of 48, 3 × 3, rows of 60",
        partial(convolution_of_last, padding="SAME"),
        "f32[8,60,60,48] f32[3,3,48,64]",
    ),
    Case(
        "UNROLLED_FEATURES",
        "64 of 20, 3 × 3, rows of 60",
        partial(convolution_of_last, padding="SAME"),
        "f32[8,60,60,20] f32[3,3,20,64]",
    ),
    Case(
        "MOST_EXTRA_WORK",
        "64 of 64, 3 × 3, rows of 30",
        partial(convolution_of_last, padding="SAME"),
        "f32[8,30,30,64] f32[3,3,64,64]",
    ),
    Case(
        "SHORT_ROW_OF_A_COPY",
        "6 of 1, 3 × 3, stride 2, 28 × 28",
        partial(convolution, stride=2, padding="SAME"),
        "f32[16,1,28,28] f32[6,1,3,3]",
    ),
    Case(
        "SHORT_ROW_OF_A_COPY",
        "4 of 1, 5 × 5, 12 × 12",
        partial(convolution_of_last, padding="SAME"),
        "f32[16,12,12,1] f32[5,5,1,4]",
    ),
    Case(
        "LONG_ROW_OF_A_COPY",
        "64 of 16, 3 × 3, 100 × 100",
        partial(convolution, padding="SAME"),
        "f32[2,16,100,100] f32[64,16,3,3]",
        APART,
    ),
    Case(
        "LONG_ROW_OF_A_COPY",
        "64 of 16, 3 × 3, 200 × 200",
        partial(convolution, padding="SAME"),
        "f32[2,16,200,200] f32[64,16,3,3]",
        APART,
    ),
    Case(
        "DIRECT_TIME KERNEL_FLOPS_PER_NS",
        "1 of 1, 5 × 5, 60 × 60",
        partial(convolution, padding="SAME"),
        "f32[16,1,60,60] f32[1,1,5,5]",
    ),
    Case("DIRECT_TIME", "2 of 1, 3 × 3, 28 × 28", partial(convolution, padding="SAME"), "f32[16,1,28,28] f32[2,1,3,3]"),
    Case("WINDOW_COPY_TERMS", "16 of 6, 5 × 5, 14 × 14", convolution, "f32[32,6,14,14] f32[16,6,5,5]"),
    Case(
        "UNROLLED_OUTPUTS UNROLLED_ROW",
        "32 of 1, 5 × 5, stride 2, 12 × 12",
        partial(convolution, stride=2, padding="SAME"),
        "f32[32,1,12,12] f32[32,1,5,5]",
    ),
    Case(
        "UNROLLED_OUTPUTS UNROLLED_ROW",
        "64 of 1, 5 × 5, stride 2, 12 × 12",
        partial(convolution, stride=2, padding="SAME"),
        "f32[32,1,12,12] f32[64,1,5,5]",
    ),
    Case(
        "SHIFTED_FEATURES",
        "4 of 32, 3 × 3, stride 2, 60 × 60",
        partial(convolution, stride=2, padding="SAME"),
        "f32[4,32,60,60] f32[4,32,3,3]",
    ),
    Case(
        "SHIFTED_FEATURES",
        "4 of 48, 3 × 3, stride 2, 60 × 60",
        partial(convolution, stride=2, padding="SAME"),
        "f32[4,48,60,60] f32[4,48,3,3]",
    ),
    Case(
        "WEIGHTS_IN_REGISTERS",
        "1 of 2, 5 × 5, 28 × 28",
        partial(convolution, padding="SAME"),
        "f32[16,2,28,28] f32[1,2,5,5]",
    ),
    Case("DIRECT_PRODUCTS", "1 of 60, 4 × 4, 64 × 64", convolution, "f32[8,60,67,67] f32[1,60,4,4]"),
    Case(
        "DIRECT_PRODUCTS",
        "1 of 48, 3 × 3, 64 × 64",
        partial(convolution, padding="SAME"),
        "f32[8,48,64,64] f32[1,48,3,3]",
    ),
    Case(
        "SINGLE_OUTPUTS SINGLE_OUTPUTS_WINDOW",
        "2 of 32, 5 × 5, 64 × 64",
        partial(convolution, padding="SAME"),
        "f32[8,32,64,64] f32[2,32,5,5]",
    ),
    Case("SINGLE_OUTPUTS_WINDOW", "1 of 60, 4 × 4, 33 × 33", convolution, "f32[8,60,36,36] f32[1,60,4,4]"),
    Case(
        "SUMMED_WINDOW TAPS_AT_ONCE ACCUMULATORS",
        "gradient of 32 × 6 weights of 5 × 5",
        _of_weights,
        "f32[8,6,32,32] f32[32,6,5,5]",
    ),
    Case(
        "SUMMED_WINDOW SUMMED_WINDOWS FEW_WEIGHTS_READ",
        "gradient of 32 × 12 weights of 5 × 5",
        _of_weights,
        "f32[8,12,28,28] f32[32,12,5,5]",
    ),
    Case("FEW_WEIGHTS_SPILLED", "gradient of 24 × 12 weights of 3 × 3", _of_weights, "f32[8,12,28,28] f32[24,12,3,3]"),
    Case("FEW_WEIGHTS_TIME", "gradient of 32 × 16 weights of 3 × 3", _of_weights, "f32[8,16,32,32] f32[32,16,3,3]"),
    Case(
        "FEW_OUTPUTS",
        "8 of 64, 5 × 5, 28 × 28",
        partial(convolution_of_last, padding="SAME"),
        "f32[4,28,28,64] f32[5,5,64,8]",
    ),
    Case(
        "FEW_OUTPUTS",
        "24 of 64, 3 × 3, 28 × 28",
        partial(convolution_of_last, padding="SAME"),
        "f32[4,28,28,64] f32[3,3,64,24]",
    ),
    Case("WINDOW_WRITTEN_OUT", "largest of windows of 5 × 5", lambda x: _largest_in_windows(x, 5, 5), "f32[32,64,64]"),
    Case("WINDOW_WRITTEN_OUT", "largest of windows of 6 × 6", lambda x: _largest_in_windows(x, 6, 6), "f32[32,64,64]"),
    Case(
        "WINDOWS_CUT_OFF",
        "gradient of the largest of windows of 3 × 1",
        lambda x: functad.grad(lambda x: jnp.sum(_largest_in_windows(x, 3, 1, strides=(2, 1), padding="SAME")))(x),
        "f32[8,40,64]",
    ),
    Case(
        "WINDOWS_CUT_OFF",
        "gradient of the largest of windows of 3 × 1",
        lambda x: functad.grad(lambda x: jnp.sum(_largest_in_windows(x, 3, 1, strides=(2, 1), padding="SAME")))(x),
        "f32[8,20,64]",
    ),
    Case("WINDOW_LONG_AXIS", "largest of windows of 30", lambda x: _largest_in_windows(x, 30), "f32[64,1000]"),
    Case("WINDOW_LONG_AXIS", "largest of windows of 40", lambda x: _largest_in_windows(x, 40), "f32[64,1000]"),
    Case(
        "NEAR_WINDOWS",
        "largest of windows of 30 float32, two apart",
        lambda x: _largest_in_windows(x, 30, strides=(2,)),
        "f32[64,1000]",
    ),
    Case(
        "NEAR_WINDOWS",
        "largest of windows of 30 float32, three apart",
        lambda x: _largest_in_windows(x, 30, strides=(3,)),
        "f32[64,1000]",
    ),
]

SEARCH = [
    Case("ROW_LOOKED_THROUGH", "rows of 300 sorted", lambda x: jnp.sort(x, 1), "f32[100,300]"),
    Case("ROW_LOOKED_THROUGH", "rows of 700 sorted", lambda x: jnp.sort(x, 1), "f32[100,700]"),
    Case(
        "LONG_EXTREMUM_BLOCK LONG_EXTREMUM_ROW",
        "places of the largest of rows of 400",
        lambda x: jnp.argmax(x, 1),
        "f32[1000,400]",
    ),
    Case(
        "EXTREMUM_BLOCK LONG_EXTREMUM_ROW",
        "places of the largest of rows of 200",
        lambda x: jnp.argmax(x, 1),
        "f32[1000,200]",
    ),
    Case("EXTREMUM_BLOCK", "places of the largest of rows of 40", lambda x: jnp.argmax(x, 1), "f32[1000,40]"),
    Case("FEWEST_LEVELLED", "places of rows of 50 in order", lambda x: jnp.argsort(x, 1), "f32[1000,50]"),
    Case("FEWEST_LEVELLED", "places of rows of 100 in order", lambda x: jnp.argsort(x, 1), "f32[1000,100]"),
    Case("COLUMNS_IN_ONE_LOOP", "places of the largest in 8 columns", lambda x: jnp.argmax(x, 1), "f32[2000,10,8]"),
    Case(
        "COLUMNS_IN_ONE_LOOP",
        "places of the largest in 8 columns of float64",
        lambda x: jnp.argmax(x, 1),
        "f64[2000,10,8]",
    ),
    Case("COMPARISONS_OF_SEARCH", "10,000 elements among 200", jnp.isin, "i32[10000] i32[200]"),
    Case("COMPARISONS_OF_SEARCH", "10,000 elements among 100", jnp.isin, "i32[10000] i32[100]"),
    Case(
        "COLUMNS_READ_AGAIN REDUCED_TOGETHER",
        "a product of integers, 1,000 × 1,000",
        lambda a, b: a @ b,
        "i32[1000,1000] i32[1000,1000]",
    ),
    Case(
        "COLUMNS_READ_AGAIN",
        "a product of integers, 1,500 × 300 by 300 × 1,500",
        lambda a, b: a @ b,
        "i32[300,300] i32[300,1500]",
    ),
    Case("SUMMED_TOGETHER", "sums of 2,048 columns", lambda x: jnp.sum(x, 0), "f32[2048,2048]"),
    Case("SUMMED_TOGETHER", "sums of 50 columns", lambda x: jnp.sum(x, 0), "f32[1200,50]"),
    Case(
        "ROWS_READ_ALONE", "sums of what is positive in 128 columns", lambda x: jnp.sum(x * (x > 0), 0), "f32[3906,128]"
    ),
    Case("LONG_POLYNOMIAL", "erf of 10,000 float64", lax.erf, "f64[10000]", in_code=True),
    Case("LONG_POLYNOMIAL", "tanh of 10,000 float64", jnp.tanh, "f64[10000]", in_code=True),
    Case("RUNNING_BLOCK", "running sums of rows of 1,000", lambda x: jnp.cumsum(x, 1), "f32[1000,1000]"),
    Case("RUNNING_BLOCK", "running maxima of rows of 1,000", lambda x: lax.cummax(x, 1), "f32[1000,1000]"),
    Case("COUNTED_ROW", "places of rows of 200 float64 in order", lambda x: jnp.argsort(x, 1), "f64[1000,200]"),
    Case("LEAST_POLLED_BRANCH", "places of rows of 190 in order", lambda x: jnp.argsort(x, 1), "f32[1000,190]"),
    Case("LEAST_POLLED_STEP", "the 20 largest of rows of 20,000", lambda x: lax.top_k(x, 20), "f32[100,20000]"),
    Case("COUNTED_ROW", "places of rows of 120 float64 in order", lambda x: jnp.argsort(x, 1), "f64[1000,120]"),
    Case("NETWORK_ROW_BESIDE_NUMPY NETWORK_BYTES", "rows of 40 sorted", lambda x: jnp.sort(x, 1), "f32[1000,40]"),
    Case("NETWORK_ROW_BESIDE_NUMPY", "rows of 80 sorted", lambda x: jnp.sort(x, 1), "f32[1000,80]"),
    Case("NETWORK_ROW", "rows of 400 float16 sorted", lambda x: jnp.sort(x, 1), "f16[1000,400]"),
    Case("NETWORK_ROW", "rows of 800 float16 sorted", lambda x: jnp.sort(x, 1), "f16[1000,800]"),
    Case("FEWEST_NETWORK_ROWS", "6 rows of 40 sorted", lambda x: jnp.sort(x, 1), "f32[6,40]"),
    Case("FEWEST_NETWORK_ROWS", "12 rows of 40 sorted", lambda x: jnp.sort(x, 1), "f32[12,40]"),
    Case("LEVELLED_ROW LEVEL_MOVES", "places of 10,000 in order", jnp.argsort, "f32[10000]"),
    Case("LEVELLED_ROW", "places of 8 rows of 20,000 in order", lambda x: jnp.argsort(x, 1), "f32[8,20000]"),
    Case(
        "DIGIT_BITS LONG_DIGITS_ROW",
        "8 rows of 3,000 words of 64 bits in order",
        lambda x: jnp.argsort(x, 1),
        "f64[8,3000]",
    ),
    Case(
        "LARGER_DIGIT_BITS LONG_DIGITS_ROW PARTS_A_THREAD",
        "8 rows of 6,000 words of 64 bits in order",
        lambda x: jnp.argsort(x, 1),
        "f64[8,6000]",
    ),
    Case("NUMPY_SORT_CORES", "1,000,000 floats sorted", jnp.sort, "f32[1000000]"),
    Case("PARTED_ROW", "places of 2 rows of 400,000 in order", lambda x: jnp.argsort(x, 1), "f64[2,400000]"),
    Case("PARTED_ROW", "places of 2 rows of 800,000 in order", lambda x: jnp.argsort(x, 1), "f64[2,800000]"),
    Case("PARTED_ROW_ALONE", "places of 12,000 float64 in order", jnp.argsort, "f64[12000]"),
    Case("PARTED_ROW_ALONE", "places of 24,000 float64 in order", jnp.argsort, "f64[24000]"),
    Case("BUCKETED_ROW", "places of 3,000 words in order", jnp.argsort, "u32[3000]<4000000000"),
    Case("BUCKETED_ROW SMALLEST_PIECE", "places of 6,000 words in order", jnp.argsort, "u32[6000]<4000000000"),
    Case("BUCKETED_FLOATS", "places of 400,000 in order", jnp.argsort, "f32[400000]"),
    Case("BUCKETED_FLOATS MOST_BUCKET_BITS", "places of 1,000,000 in order", jnp.argsort, "f32[1000000]"),
    Case("WRITTEN_BY_LINES", "places of 400,000 words in order", jnp.argsort, "u32[400000]<4000000000"),
    Case("WRITTEN_BY_LINES", "places of 700,000 words in order", jnp.argsort, "u32[700000]<4000000000"),
    Case("BLOCK_OF_LARGEST", "the 10 largest of rows of 1,000", lambda x: lax.top_k(x, 10), "f32[1000,1000]"),
    Case("KEPT_LARGEST", "the 24 largest of rows of 1,000", lambda x: lax.top_k(x, 24), "f32[100,1000]"),
    Case("KEPT_LARGEST", "the 48 largest of rows of 1,000", lambda x: lax.top_k(x, 48), "f32[100,1000]"),
]
