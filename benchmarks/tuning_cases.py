"""For each tuned number that was compared, small programs which half of it, or twice as much, changes.

Knows functad's public names, and the names of numbers; how programs are told apart and timed is in `tuning_table.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import functad
import functad.numpy as jnp
from functad import lax, nn

# What is timed: a call of a jitted function, or of one that is not; compiling it; a call in a process of its own, on
# all threads, of what reads the number only once, or runs beside the call.
JITTED, UNJITTED, COMPILED, APART = "jitted", "not jitted", "compiling", "apart"

# What to try where half and twice are nothing.
OTHER_VALUES: dict[str, tuple[Any, ...]] = {
    "SQUARE_SIDES": ((8,), (16,)),
    "SQUARES_TOGETHER": ((4, 2), (16, 8, 4, 2)),
}


class Case(NamedTuple):
    """A program.

    Attributes:
        numbers: that decide in it, with spaces.
        title: what it is called in the table.
        function: of arrays.
        arguments: their dtypes and shapes, such as `f32[10,3] i32[7]<10`: normal numbers, and integers below a limit.
        way: what is timed.
        in_code: whether the number decides what LLVM makes of the same kernels.
        environment: variables of a process of its own. pause: its seconds between calls.
    """

    numbers: str
    title: str
    function: Callable[..., Any]
    arguments: str
    way: str = JITTED
    in_code: bool = False
    environment: str = ""
    pause: float = 0.0


def _normalised(x: Any) -> Any:
    differences = x - jnp.mean(x, -1, keepdims=True)
    return differences / jnp.sqrt(jnp.mean(differences**2, -1, keepdims=True) + 1e-5)


def _sum_of_stacked(*xs: Any) -> Any:
    changed = jnp.tanh(jnp.stack(xs) * 2.0)
    return sum(changed[k] * (k + 1.0) for k in range(len(xs)))


def _lorenz(x: Any, steps: int = 20) -> Any:
    def slope(s: Any) -> Any:
        return jnp.stack([10.0 * (s[1] - s[0]), s[0] * (28.0 - s[2]) - s[1], s[0] * s[1] - 2.7 * s[2]])

    for _ in range(steps):
        a = slope(x)
        b = slope(x + 0.005 * a)
        c = slope(x + 0.005 * b)
        x = x + 0.01 / 6 * (a + 2.0 * b + 2.0 * c + slope(x + 0.01 * c))
    return x


def _last_state(step: Callable[[Any], Any], length: int) -> Callable[[Any], Any]:
    return lambda c: lax.scan(lambda c, _: (step(c), None), c, length=length)[0]


def _with_the_next(c: Any) -> Any:
    """The sum of the states of some steps, each times the next one."""
    before, after = lax.scan(lambda c, _: (d := jnp.sin(c), (c, d)), c, length=1000)[1]
    return jnp.sum(before * after, 0)


def _squares_by_root(x: Any) -> Any:
    squares = (x - jnp.mean(x, -1, keepdims=True)) ** 2 + 0.1
    return squares / jnp.sqrt(jnp.mean(squares, -1, keepdims=True))


_NESTS = [
    Case("MOST_STACKED_APART", "tanh of 5 stacked arrays of 10,000", _sum_of_stacked, " ".join(["f32[10000]"] * 5)),
    Case("MOST_STACKED_APART", "tanh of 12 stacked arrays of 10,000", _sum_of_stacked, " ".join(["f32[10000]"] * 12)),
    Case(
        "CACHE_BYTES_PER_NS",
        "rows of 2,048 of 2 x + 1 normalised",
        lambda x: _normalised(x * 2.0 + 1.0),
        "f32[512,2048]",
    ),
    Case(
        "CACHE_BYTES_PER_NS", "squares of rows of 2,048 less their mean, by its root", _squares_by_root, "f32[512,2048]"
    ),
    Case(
        "SMALLEST_PAIRS",
        "sums of 3 for each pair of 8 and 12",
        lambda x: jnp.sum(jnp.exp(-((x[:, None, None] - lax.broadcasted_iota(x.dtype, (8, 12, 3), 1)) ** 2)), -1),
        "f32[8]",
    ),
    Case(
        "CARRIED_OPERATIONS",
        "a running sum of 1,000,000 of x² + 1, plus 2",
        lambda x: jnp.cumsum(x * x + 1.0) * 0.5 + 2.0,
        "f32[1000000]",
    ),
    Case(
        "CARRIED_OPERATIONS",
        "a running sum of 1,000,000 of 2 x",
        lambda x: jnp.cumsum(x * 2.0) + 2.0,
        "f32[1000000]",
    ),
    Case(
        "CARRIED_COLUMNS",
        "running sums along columns, 16 × 1,000 × 48",
        lambda x: jnp.cumsum(x * 2.0 + 1.0, 1) * 0.5 + 2.0,
        "f32[16,1000,48]",
    ),
    Case(
        "CARRIED_PARTS",
        "running sums of 3 rows of 10,000",
        lambda x: jnp.cumsum(x * 2.0 + 1.0, 1) * 0.5 + 2.0,
        "f32[3,10000]",
    ),
    Case(
        "CARRIED_PARTS",
        "running sums of 6 rows of 10,000",
        lambda x: jnp.cumsum(x * 2.0 + 1.0, 1) * 0.5 + 2.0,
        "f32[6,10000]",
    ),
    Case(
        "CARRIED_COLUMN_PARTS COLUMNS_TOGETHER",
        "running sums of 1,000 columns of 1,000",
        lambda x: jnp.cumsum(x * 2.0 + 1.0, 0) * 0.5 + 2.0,
        "f32[1000,1000]",
    ),
    Case(
        "CARRIED_COLUMN_PARTS",
        "running sums of 512 columns of 1,000",
        lambda x: jnp.cumsum(x * 2.0 + 1.0, 0) * 0.5 + 2.0,
        "f32[1000,512]",
    ),
    Case("SHORTEST_FROM_VECTORS", "1,500 elements and two around", lambda x: jnp.pad(x * 2.0, (1, 1)), "f32[1500]"),
    Case("SHORTEST_FROM_VECTORS", "3,000 elements and two around", lambda x: jnp.pad(x * 2.0, (1, 1)), "f32[3000]"),
    Case(
        "LARGEST_REST",
        "exponentials of rows of 200 and of 100 joined",
        lambda x, y: jnp.concatenate([jnp.exp(x), jnp.exp(y)], 1),
        "f32[1000,200] f32[1000,104]",
    ),
    Case("LARGEST_SMALL_PRODUCT", "a product of 4 × 4 matrices", lambda a, b: a @ b, "f32[4,4] f32[4,4]"),
    Case("LARGEST_SMALL_PRODUCT", "a product of 5 × 5 matrices", lambda a, b: a @ b, "f32[5,5] f32[5,5]"),
    Case(
        "LONGEST_WRITTEN_OUT",
        "rows of 3 times a number each",
        lambda x, y: x * y[:, None] + 1.0,
        "f32[10000,3] f32[10000]",
    ),
    Case(
        "LONGEST_WRITTEN_OUT",
        "rows of 5 times a number each",
        lambda x, y: x * y[:, None] + 1.0,
        "f32[10000,5] f32[10000]",
    ),
    Case(
        "LONGEST_FUNCTIONS_WRITTEN_OUT",
        "exponentials of rows of 5 times a number each",
        lambda x, y: jnp.exp(x * y[:, None]),
        "f32[10000,5] f32[10000]",
    ),
    Case(
        "MOST_VARIABLES", "1,000 steps of 12 numbers", _last_state(lambda c: c * 0.9 + c[::-1] * 0.1, 1000), "f32[12]"
    ),
    Case(
        "LONGEST_SMALL_STEP ROWS_WEIGH",
        "1,000 steps of 200 numbers",
        _last_state(lambda c: c * 0.9 + 0.1, 1000),
        "f32[200]",
    ),
    Case(
        "LONGEST_SMALL_STEP ROWS_WEIGH",
        "1,000 steps of 300 numbers",
        _last_state(lambda c: c * 0.9 + 0.1, 1000),
        "f32[300]",
    ),
    Case(
        "ONE_BY_ONE",
        "1,000 steps with running sums of 100",
        _last_state(lambda c: jnp.cumsum(c) * 0.01, 1000),
        "f32[100]",
    ),
    Case("SMALLEST_SHIFTED_SLICE", "1,000 steps of 600 numbers, multiplied with the next", _with_the_next, "f32[600]"),
    Case(
        "SMALLEST_SHIFTED_SLICE", "1,000 steps of 1,500 numbers, multiplied with the next", _with_the_next, "f32[1500]"
    ),
    Case("SQUARE_SIDES SQUARES_TOGETHER", "a transpose, 1,024 × 1,024", lambda x: x.T * 2.0, "f32[1024,1024]"),
    Case("SQUARES_AHEAD", "a transpose, 512 × 512", lambda x: x.T * 2.0, "f32[512,512]", in_code=True),
]


def _convolution(x: Any, w: Any, stride: int = 1, padding: Any = "VALID", layout: str = "NCHW", **others: Any) -> Any:
    kernel = "OIHW" if layout == "NCHW" else "HWIO"
    strides = (stride,) * 2
    return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=(layout, kernel, layout), **others)


def _of_weights(x: Any, w: Any, **others: Any) -> Any:
    """The gradient of a sum over a convolution with respect to its weights."""
    return functad.grad(lambda w: jnp.sum(_convolution(x, w, **others) ** 2))(w)


def _last(x: Any, w: Any, **others: Any) -> Any:
    return _convolution(x, w, layout="NHWC", **others)


def _largest_in_windows(x: Any, *window: int, strides: Any = None, padding: str = "VALID") -> Any:
    sides = (1,) * (x.ndim - len(window)) + window
    strides = (1,) * x.ndim if strides is None else (1,) * (x.ndim - len(window)) + strides
    return lax.reduce_window(x, -jnp.inf, lax.max, sides, strides, padding)


_CONVOLUTIONS = [
    Case(
        "MOST_COPIED_ELEMENTS",
        "32 of 8, 5 × 5, rows of 6,000",
        partial(_last, padding="SAME"),
        "f32[1,8,6000,8] f32[5,5,8,32]",
    ),
    Case(
        "MOST_COPIED_ELEMENTS MOST_PARTS",
        "gradient of 256 × 512 weights of 3 × 3",
        _of_weights,
        "f32[8,256,16,16] f32[512,256,3,3]",
    ),
    Case(
        "CONVOLUTION_WORTH_PRODUCTS",
        "8 outputs of 8 features, 3 × 3, 8 × 8 pixels",
        _last,
        "f32[1,10,10,8] f32[3,3,8,6]",
    ),
    Case(
        "CONVOLUTION_WORTH_PRODUCTS",
        "8 outputs of 8 features, 3 × 3, 11 × 11 pixels",
        _last,
        "f32[1,12,12,8] f32[3,3,8,8]",
    ),
    Case(
        "DILATION_WORTH_SPLITTING",
        "a transposed convolution, 32 of 64, 4 × 4, 56 × 56",
        lambda x, w: _last(x, w, padding=((2, 2), (2, 2)), lhs_dilation=(2, 2)),
        "f32[1,28,28,20] f32[4,4,20,32]",
    ),
    Case(
        "DILATION_WORTH_SPLITTING",
        "a transposed convolution, 64 of 32, 4 × 4, 56 × 56",
        lambda x, w: _last(x, w, padding=((2, 2), (2, 2)), lhs_dilation=(2, 2)),
        "f32[1,28,28,32] f32[4,4,32,32]",
    ),
    Case(
        "CONVOLUTION_BLOCK_PLACES",
        "64 of 64, 3 × 3, 28 × 28, batch 8",
        partial(_last, padding="SAME"),
        "f32[8,28,28,64] f32[3,3,64,64]",
    ),
    Case("WIDE_ROW", "64 of 64, 3 × 3, rows of 40", partial(_last, padding="SAME"), "f32[8,40,40,64] f32[3,3,64,64]"),
    Case("WIDE_ROW", "64 of 64, 3 × 3, rows of 24", partial(_last, padding="SAME"), "f32[8,24,24,64] f32[3,3,64,64]"),
    Case(
        "FEW_FEATURES",
        "64 of 24, 3 × 3, rows of 60",
        partial(_last, padding="SAME"),
        "f32[8,60,60,24] f32[3,3,24,64]",
    ),
    Case(
        "FEW_FEATURES", "64 of 12, 3 × 3, rows of 60", partial(_last, padding="SAME"), "f32[8,60,60,12] f32[3,3,12,64]"
    ),
    Case(
        "MOST_EXTRA_WORK",
        "64 of 64, 3 × 3, rows of 30",
        partial(_last, padding="SAME"),
        "f32[8,30,30,64] f32[3,3,64,64]",
    ),
    Case(
        "SHORT_ROW_OF_A_COPY",
        "6 of 1, 3 × 3, stride 2, 28 × 28",
        partial(_convolution, stride=2, padding="SAME"),
        "f32[16,1,28,28] f32[6,1,3,3]",
    ),
    Case(
        "SHORT_ROW_OF_A_COPY", "4 of 1, 5 × 5, 12 × 12", partial(_last, padding="SAME"), "f32[16,12,12,1] f32[5,5,1,4]"
    ),
    Case(
        "LONG_ROW_OF_A_COPY",
        "64 of 16, 3 × 3, 100 × 100",
        partial(_convolution, padding="SAME"),
        "f32[2,16,100,100] f32[64,16,3,3]",
        APART,
    ),
    Case(
        "LONG_ROW_OF_A_COPY",
        "64 of 16, 3 × 3, 200 × 200",
        partial(_convolution, padding="SAME"),
        "f32[2,16,200,200] f32[64,16,3,3]",
        APART,
    ),
    Case(
        "DIRECT_TIME KERNEL_FLOPS_PER_NS",
        "1 of 1, 5 × 5, 60 × 60",
        partial(_convolution, padding="SAME"),
        "f32[16,1,60,60] f32[1,1,5,5]",
    ),
    Case(
        "DIRECT_TIME", "2 of 1, 3 × 3, 28 × 28", partial(_convolution, padding="SAME"), "f32[16,1,28,28] f32[2,1,3,3]"
    ),
    Case("WINDOW_COPY_TERMS", "16 of 6, 5 × 5, 14 × 14", _convolution, "f32[32,6,14,14] f32[16,6,5,5]"),
    Case(
        "UNROLLED_OUTPUTS UNROLLED_ROW",
        "32 of 1, 5 × 5, stride 2, 12 × 12",
        partial(_convolution, stride=2, padding="SAME"),
        "f32[32,1,12,12] f32[32,1,5,5]",
    ),
    Case(
        "UNROLLED_OUTPUTS",
        "16 of 1, 5 × 5, stride 2, 12 × 12",
        partial(_convolution, stride=2, padding="SAME"),
        "f32[32,1,12,12] f32[16,1,5,5]",
    ),
    Case(
        "UNROLLED_ROW",
        "16 of 2, 3 × 3, stride 2, 12 × 12",
        partial(_convolution, stride=2, padding="SAME"),
        "f32[32,2,12,12] f32[16,2,3,3]",
    ),
    Case(
        "SHIFTED_FEATURES",
        "4 of 24, 3 × 3, stride 2, 60 × 60",
        partial(_convolution, stride=2, padding="SAME"),
        "f32[4,24,60,60] f32[4,24,3,3]",
    ),
    Case(
        "SHIFTED_FEATURES",
        "6 of 24, 3 × 3, stride 2, 60 × 60",
        partial(_convolution, stride=2, padding="SAME"),
        "f32[4,24,60,60] f32[6,24,3,3]",
    ),
    Case(
        "WEIGHTS_IN_REGISTERS",
        "1 of 2, 5 × 5, 28 × 28",
        partial(_convolution, padding="SAME"),
        "f32[16,2,28,28] f32[1,2,5,5]",
    ),
    Case(
        "DIRECT_PRODUCTS",
        "1 of 24, 3 × 3, 64 × 64",
        partial(_convolution, padding="SAME"),
        "f32[8,24,64,64] f32[1,24,3,3]",
    ),
    Case(
        "DIRECT_PRODUCTS",
        "1 of 48, 3 × 3, 64 × 64",
        partial(_convolution, padding="SAME"),
        "f32[8,48,64,64] f32[1,48,3,3]",
    ),
    Case(
        "SINGLE_OUTPUTS SINGLE_OUTPUTS_WINDOW",
        "2 of 16, 5 × 5, 64 × 64",
        partial(_convolution, padding="SAME"),
        "f32[8,16,64,64] f32[2,16,5,5]",
    ),
    Case("SINGLE_OUTPUTS_WINDOW", "1 of 24, 4 × 4, 64 × 64", _convolution, "f32[8,24,67,67] f32[1,24,4,4]"),
    Case(
        "SUMMED_WINDOW TAPS_AT_ONCE ACCUMULATORS",
        "gradient of 32 × 6 weights of 5 × 5",
        _of_weights,
        "f32[8,6,32,32] f32[32,6,5,5]",
    ),
    Case(
        "SUMMED_WINDOWS TAPS_AT_ONCE",
        "gradient of 20 × 20 weights of 3 × 3",
        _of_weights,
        "f32[8,20,32,32] f32[20,20,3,3]",
    ),
    Case("SUMMED_WINDOWS", "gradient of 24 × 32 weights of 3 × 3", _of_weights, "f32[8,32,32,32] f32[24,32,3,3]"),
    Case("SUMMED_WINDOW", "gradient of 8 × 6 weights of 6 × 6", _of_weights, "f32[8,6,32,32] f32[16,6,6,6]"),
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
    Case("WINDOW_LONG_AXIS", "largest of windows of 60", lambda x: _largest_in_windows(x, 28), "f32[64,1000]"),
]

_SEARCH = [
    Case(
        "EXTREMUM_BLOCK LONG_EXTREMUM_ROW",
        "places of the largest of rows of 900",
        lambda x: jnp.argmax(x, 1),
        "f32[1000,900]",
    ),
    Case("LONG_EXTREMUM_ROW", "places of the largest of rows of 400", lambda x: jnp.argmax(x, 1), "f32[1000,400]"),
    Case("TALL_COLUMNS", "places of the largest of 100 columns of 1,000", lambda x: jnp.argmax(x, 0), "f32[1000,100]"),
    Case("TALL_COLUMNS", "places of the largest of 100 columns of 2,000", lambda x: jnp.argmax(x, 0), "f32[2000,100]"),
    Case("COMPARISONS_OF_SEARCH", "10,000 elements among 200", jnp.isin, "i32[10000] i32[200]"),
    Case("COMPARISONS_OF_SEARCH", "10,000 elements among 400", jnp.isin, "i32[10000] i32[400]"),
    Case(
        "COLUMNS_OF_INTEGERS REDUCED_TOGETHER",
        "a product of integers, 1,000 × 1,000",
        lambda a, b: a @ b,
        "i32[1000,1000] i32[1000,1000]",
    ),
    Case(
        "COLUMNS_OF_INTEGERS",
        "a product of integers, 1,500 × 300 by 300 × 1,500",
        lambda a, b: a @ b,
        "i32[300,300] i32[300,1500]",
    ),
    Case("LONG_POLYNOMIAL", "erf of 10,000 float64", lax.erf, "f64[10000]", in_code=True),
    Case("LONG_POLYNOMIAL", "tanh of 10,000 float64", jnp.tanh, "f64[10000]", in_code=True),
    Case("RUNNING_BLOCK", "running sums of rows of 1,000", lambda x: jnp.cumsum(x, 1), "f32[1000,1000]"),
    Case("RUNNING_BLOCK", "running maxima of rows of 1,000", lambda x: lax.cummax(x, 1), "f32[1000,1000]"),
    Case("COUNTED_ROW", "places of rows of 60 in order", lambda x: jnp.argsort(x, 1), "f32[1000,60]"),
    Case("LEAST_POLLED_BRANCH", "places of rows of 190 in order", lambda x: jnp.argsort(x, 1), "f32[1000,190]"),
    Case("LEAST_POLLED_STEP", "the 20 largest of rows of 20,000", lambda x: lax.top_k(x, 20), "f32[100,20000]"),
    Case("COUNTED_ROW", "places of rows of 120 in order", lambda x: jnp.argsort(x, 1), "f32[1000,120]"),
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
        "8 rows of 6,000 words of 64 bits sorted",
        lambda x: jnp.argsort(x, 1),
        "f64[8,6000]",
    ),
    Case(
        "LARGER_DIGIT_BITS LONG_DIGITS_ROW PARTS_A_THREAD",
        "8 rows of 12,000 words of 64 bits sorted",
        lambda x: jnp.argsort(x, 1),
        "f64[8,12000]",
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
    Case("WRITTEN_BY_LINES", "places of 200,000 words in order", jnp.argsort, "u32[200000]<4000000000"),
    Case("WRITTEN_BY_LINES", "places of 400,000 words in order", jnp.argsort, "u32[400000]<4000000000"),
    Case("BLOCK_OF_LARGEST", "the 10 largest of rows of 1,000", lambda x: lax.top_k(x, 10), "f32[1000,1000]"),
    Case("KEPT_LARGEST", "the 24 largest of rows of 1,000", lambda x: lax.top_k(x, 24), "f32[100,1000]"),
    Case("KEPT_LARGEST", "the 48 largest of rows of 1,000", lambda x: lax.top_k(x, 48), "f32[100,1000]"),
]


def _sum_of_states(u: Any, w: Any, c: Any, xs: Any) -> Any:
    return jnp.sum(lax.scan(lambda c, x: (jnp.tanh(c @ w + x @ u), None), c, xs)[0] ** 2)


_of_recurrent_weights = functad.grad(_sum_of_states, (0, 1))


def _linear_recurrence(count: int, length: int) -> Callable[[Any], Any]:
    """The gradient of steps of a nonlinear map of a few numbers: linear, with coefficients that differ."""

    def loss(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return tuple(jnp.sin(c[k]) * 0.9 + c[k - 1] * 0.3 for k in range(count)), None

        return sum(lax.scan(step, tuple(x[k] for k in range(count)), length=length)[0])

    return functad.grad(loss)


def _by_transposed(w: Any, c: Any, xs: Any) -> Any:
    return lax.scan(lambda c, x: (jnp.tanh(c @ w.T) + _lorenz(x, 5), None), c, xs)[0]


_of_roots = functad.grad(
    lambda c, xs: jnp.sum(lax.scan(lambda c, x: (jnp.sqrt(c * c + x * x), None), c, xs)[0]), argnums=(0, 1)
)

_LOOPS = [
    Case("UNROLLED_STEPS", "6 steps of 1,000 numbers", _last_state(jnp.sin, 6), "f32[1000]"),
    Case("UNROLLED_STEPS", "12 steps of 1,000 numbers", _last_state(jnp.sin, 12), "f32[1000]"),
    Case("CHEAP_OPERATIONS", "the gradient of 100 steps of 1,000 roots", _of_roots, "f32[1000] f32[100,1000]"),
    Case(
        "LARGEST_HOISTED_PRODUCT",
        "30 steps, 64 × 400 by 400 × 500",
        _sum_of_states,
        "f32[400,500] f32[500,500] f32[64,500] f32[30,64,400]",
    ),
    Case(
        "LARGEST_HOISTED_PRODUCT",
        "100 steps, 128 × 400 by 400 × 500",
        _sum_of_states,
        "f32[400,500] f32[500,500] f32[128,500] f32[30,128,400]",
    ),
    Case(
        "MOST_EXTRA_BYTES",
        "gradient of 500 steps of a recurrent network of 512",
        _of_recurrent_weights,
        "f32[100,512] f32[512,512] f32[64,512] f32[500,64,100]",
    ),
    Case(
        "SMALLEST_WEIGHT",
        "9 steps by a transposed weight of 40 × 40",
        lambda w, c: _last_state(lambda c: jnp.tanh(c @ w.T), 9)(c),
        "f32[40,40] f32[100,40]",
    ),
    Case(
        "FEWEST_STEPS",
        "6 steps by a transposed weight of 40 × 40, which add up Lorenz's equations",
        _by_transposed,
        "f32[40,40] f32[3,40] f32[6,3,40]",
    ),
    Case(
        "FEWEST_STEPS",
        "3 steps by a transposed weight of 40 × 40, which add up Lorenz's equations",
        _by_transposed,
        "f32[40,40] f32[3,40] f32[3,3,40]",
    ),
    Case(
        "SMALLEST_SUNK_SLICE",
        "100 steps of 48 numbers",
        lambda c, x: lax.scan(lambda c, x: (jnp.sin(c) + x, c), c, x * 2.0 + 1.0),
        "f32[48] f32[100,48]",
    ),
    Case(
        "SMALLEST_SUNK_SLICE",
        "100 steps of 100 numbers",
        lambda c, x: lax.scan(lambda c, x: (jnp.sin(c) + x, c), c, x * 2.0 + 1.0),
        "f32[100] f32[100,100]",
    ),
    Case(
        "THIN_PRODUCT_TERMS SMALLEST_SUNK_PRODUCT",
        "28 steps of a recurrent network on rows of 28",
        _sum_of_states,
        "f32[28,256] f32[256,256] f32[100,256] f32[100,100,28]",
    ),
    Case("LEAST_SAVED", "the gradient of 30 steps of a number", _linear_recurrence(1, 30), "f32[1]"),
    Case("COEFFICIENT_OPERATIONS", "the gradient of 51 steps of a number", _linear_recurrence(1, 51), "f32[1]"),
    Case("COEFFICIENT_OPERATIONS", "the gradient of 42 steps of a number", _linear_recurrence(1, 42), "f32[1]"),
    Case(
        "MOST_IN_PAIRS OPERATIONS_MEANWHILE",
        "the gradient of 1,000 steps of 2 numbers",
        _linear_recurrence(2, 1000),
        "f32[2]",
    ),
    Case(
        "MOST_IN_PAIRS OPERATIONS_MEANWHILE",
        "the gradient of 1,000 steps of 3 numbers",
        _linear_recurrence(3, 1000),
        "f32[3]",
    ),
    Case("OPERATIONS_MEANWHILE", "the gradient of 1,000 steps of 4 numbers", _linear_recurrence(4, 1000), "f32[4]"),
    Case(
        "LARGEST_COEFFICIENT_STACKS",
        "the gradient of 1,000,000 steps of a number",
        _linear_recurrence(1, 3_000_000),
        "f32[1]",
    ),
    Case(
        "GATHERED_USES",
        "a table of 1,000 rows read 1,500 times",
        lambda t, i, w: t[i] @ w,
        "f32[1000,100] i32[1500]<1000 f32[100,100]",
    ),
    Case(
        "GATHERED_USES GATHERED_PRODUCT",
        "a table of 1,000 rows read 3,000 times",
        lambda t, i, w: t[i] @ w,
        "f32[1000,40] i32[3000]<1000 f32[40,64]",
    ),
    Case(
        "GATHERED_ROW",
        "a table of rows of 48 read 4 times each",
        lambda t, i, w: t[i] @ w,
        "f32[1000,48] i32[4000]<1000 f32[48,64]",
    ),
    Case(
        "GATHERED_ROW",
        "a table of rows of 24 read 4 times each",
        lambda t, i, w: t[i] @ w,
        "f32[1000,24] i32[4000]<1000 f32[24,100]",
    ),
    Case(
        "GATHERED_PRODUCT",
        "a table of rows of 32 read 4 times each",
        lambda t, i, w: t[i] @ w,
        "f32[1000,32] i32[4000]<1000 f32[32,32]",
    ),
    Case(
        "UPDATES_OF_PART",
        "100,000 updates of 1,000 elements",
        lambda x, i, u: x.at[i].add(u),
        "f32[10000] i32[100000]<10000 f32[100000]",
    ),
    Case(
        "SCATTERED_OPERATIONS",
        "100,000 updates by a x + 1",
        lambda x, i, u: x.at[i].add(u * 2.0),
        "f32[1000] i32[100000]<1000 f32[100000]",
    ),
    Case(
        "SCATTERED_OPERATIONS",
        "100,000 updates by 2 x² + 1",
        lambda x, i, u: x.at[i].add(u * u * 2.0 + 1.0),
        "f32[1000] i32[100000]<1000 f32[100000]",
    ),
    Case(
        "SHARED_ROW_BYTES",
        "10,000 updates of rows of 100",
        lambda x, i, u: x.at[i].add(u),
        "f32[10000,100] i32[10000]<10000 f32[10000,100]",
    ),
    Case(
        "SHARED_ROW_BYTES",
        "10,000 updates of rows of 200",
        lambda x, i, u: x.at[i].add(u),
        "f32[10000,200] i32[10000]<10000 f32[10000,200]",
    ),
    Case(
        "LARGEST_ONE_HOT",
        "the gradient of a choice of 200",
        functad.grad(lambda x, i: jnp.sum(jnp.take_along_axis(x, i, 1) ** 2)),
        "f32[1000,200] i32[1000,1]<200",
    ),
    Case(
        "LARGEST_ONE_HOT",
        "the gradient of a choice of 400",
        functad.grad(lambda x, i: jnp.sum(jnp.take_along_axis(x, i, 1) ** 2)),
        "f32[1000,400] i32[1000,1]<400",
    ),
    Case(
        "UPDATES_WORTH_WIDTH",
        "1,200,000 updates of 100,000 elements",
        lambda x, i, u: x.at[i].add(u),
        "f32[100000] i32[1200000]<100000 f32[1200000]",
    ),
    Case(
        "UPDATES_WORTH_WIDTH",
        "1,200,000 updates of 200,000 elements",
        lambda x, i, u: x.at[i].add(u),
        "f32[200000] i32[1200000]<200000 f32[1200000]",
    ),
]


def _softmax(x: Any) -> Any:
    return nn.softmax(x, -1)


def _rows_of_network(steps: int) -> Callable[..., Any]:
    return lambda w, c: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), c, length=steps)[0]


_RUNNING = [
    Case("MOST_PARTS", "softmax of 512 rows of 512", _softmax, "f32[512,512]"),
    Case(
        "COARSE_CHUNK LITTLE_EXTRA_WORK",
        "two products of 300 rows, and their softmax",
        lambda x, w, v: nn.softmax(jnp.tanh(x @ w) @ v),
        "f32[300,256] f32[256,256] f32[256,256]",
    ),
    Case("FEWEST_ROWS", "softmax of 3 rows of 100,000", _softmax, "f32[3,100000]"),
    Case("FEWEST_ROWS", "softmax of 6 rows of 100,000", _softmax, "f32[6,100000]"),
    Case(
        "FEWEST_ROWS_OF_PRODUCTS", "100 steps of a network, 24 rows", _rows_of_network(100), "f32[128,128] f32[24,128]"
    ),
    Case(
        "FEWEST_ROWS_OF_PRODUCTS", "100 steps of a network, 48 rows", _rows_of_network(100), "f32[128,128] f32[48,128]"
    ),
    Case("LONGEST_STEP", "10 steps of a network, 1,000 rows", _rows_of_network(10), "f32[128,128] f32[1000,128]"),
    Case("LONGEST_STEP", "10 steps of a network, 600 rows", _rows_of_network(10), "f32[128,128] f32[600,128]"),
    Case("FEW_ROWS", "running sums along columns, 6 × 1,000 × 100", lambda x: jnp.cumsum(x, 1), "f32[6,1000,100]"),
    Case("FEW_ROWS", "running sums along columns, 12 × 1,000 × 100", lambda x: jnp.cumsum(x, 1), "f32[12,1000,100]"),
    Case(
        "ELEMENTS_WORTH_THREADS",
        "12,000 updates of 100 elements",
        lambda x, i, u: x.at[i].add(u),
        "f32[100] i32[12000]<100 f32[12000]",
    ),
    Case(
        "ELEMENTS_WORTH_THREADS",
        "24,000 updates of 100 elements",
        lambda x, i, u: x.at[i].add(u),
        "f32[100] i32[24000]<100 f32[24000]",
    ),
    Case("POINTS_WORTH_PARTS", "a sum of 50,000", jnp.sum, "f32[50000]"),
    Case("POINTS_WORTH_PARTS", "a sum of 100,000", jnp.sum, "f32[100000]"),
    Case("POINTS_WORTH_LANES", "sums of 4 columns of 800", lambda x: jnp.sum(x, 0), "f32[800,4]"),
    Case("POINTS_WORTH_LANES", "sums of 4 columns of 1,600", lambda x: jnp.sum(x, 0), "f32[1600,4]"),
    Case("PARTS_A_THREAD", "Fourier transforms of 100 rows of 1,000", lambda x: jnp.fft.fft(x), "c64[100,1000]"),
    Case(
        "POLL_BUDGET",
        "a loop until a sum is large",
        lambda x: lax.while_loop(lambda c: jnp.sum(c) < 1e6, lambda c: c * 1.001 + 0.1, x),
        "f32[5]",
    ),
]
_PRODUCTS = [
    Case("PRODUCT_CHUNK", "64 × 64 by 64 × 64", lambda a, b: a @ b, "f32[64,64] f32[64,64]"),
    Case("PRODUCT_CHUNK", "100 × 100 by 100 × 100", lambda a, b: a @ b, "f32[64,100] f32[100,64]"),
    Case("PRODUCT_CHUNK_EXTENT", "1,000 × 256 by 256 × 256", lambda a, b: a @ b, "f32[1000,256] f32[256,256]"),
    Case("PRODUCT_CHUNK_EXTENT", "600 × 256 by 256 × 256", lambda a, b: a @ b, "f32[600,256] f32[256,256]"),
    Case("ROWS_PACK_BETTER", "200 × 256 by 256 × 600", lambda a, b: a @ b, "f32[200,256] f32[256,600]"),
    Case("ROWS_PACK_BETTER", "200 × 256 by 256 × 1,200", lambda a, b: a @ b, "f32[200,256] f32[256,1200]"),
    Case("THIN_TERMS", "1,000 × 24 by 24 × 1,000", lambda a, b: a @ b, "f32[1000,24] f32[24,1000]"),
    Case("THIN_TERMS", "1,000 × 48 by 48 × 1,000", lambda a, b: a @ b, "f32[1000,48] f32[48,1000]"),
    Case("THIN_TURNED_TERMS", "12 × 1,000 transposed by 12 × 1,000", lambda a, b: a.T @ b, "f32[12,1000] f32[12,1000]"),
    Case("THIN_TURNED_TERMS", "24 × 1,000 transposed by 24 × 1,000", lambda a, b: a.T @ b, "f32[24,1000] f32[24,1000]"),
    Case("THIN_ROWS", "48 × 16 by 16 × 10,000", lambda a, b: a @ b, "f32[48,16] f32[16,10000]"),
    Case("THIN_ROWS", "100 × 16 by 16 × 10,000", lambda a, b: a @ b, "f32[100,16] f32[16,10000]"),
    Case("FFT_AS_MATRIX", "a Fourier transform of 6,000", jnp.fft.fft, "c64[6000]"),
    Case("FFT_AS_MATRIX", "a Fourier transform of 12,000", jnp.fft.fft, "c64[12000]"),
    Case("FFT_ROWS", "Fourier transforms of 12 rows of 81,920", jnp.fft.fft, "c64[12,81920]"),
    Case("FFT_ROWS", "Fourier transforms of 32 rows of 163,840", jnp.fft.fft, "c64[24,163840]"),
    Case(
        "SMALL_MATRIX",
        "Cholesky factors of 100 matrices of 24 rows",
        lambda x: jnp.linalg.cholesky(x @ jnp.matrix_transpose(x) + 9 * jnp.eye(24)),
        "f32[100,24,24]",
    ),
    Case(
        "SMALL_MATRIX",
        "Cholesky factors of 100 matrices of 48 rows",
        lambda x: jnp.linalg.cholesky(x @ jnp.matrix_transpose(x) + 9 * jnp.eye(48)),
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


def _of_network(x: Any, w: Any, v: Any) -> Any:
    return functad.grad(lambda w, v: jnp.sum(nn.log_softmax(jnp.tanh(x @ w) @ v) ** 2), argnums=(0, 1))(w, v)


def _by_weight(x: Any, w: Any) -> Any:
    return x @ w.T


def _cholesky(size: int, x: Any) -> Any:
    return jnp.linalg.cholesky(x @ jnp.matrix_transpose(x) + 9.0 * jnp.eye(size))


_MACHINE_CODE = [
    Case("VECTORS_ADDED_AT_ONCE", "a sum of 10,000", jnp.sum, "f32[10000]", in_code=True),
    Case(
        "MOST_VECTORS_OF_SUMS",
        "five sums of 10,000",
        lambda x: [jnp.sum(x), jnp.sum(x * x), jnp.sum(x * x * x), jnp.sum(x * 3.0 + x * x), jnp.sum(1.0 - x)],
        "f32[10000]",
        in_code=True,
    ),
    Case(
        "LARGEST_ADDED_AT_ONCE", "a sum of 10,000 logarithms", lambda x: jnp.sum(jnp.log(x)), "f32[10000]", in_code=True
    ),
    Case(
        "LARGEST_ADDED_AT_ONCE",
        "a sum of 10,000 hyperbolic tangents",
        lambda x: jnp.sum(jnp.tanh(x)),
        "f32[10000]",
        in_code=True,
    ),
    Case("MOST_INTERLEAVED", "each sixth of 60,000", lambda x: x.reshape(10000, 6)[:, 0], "f32[60000]", in_code=True),
    Case(
        "MOST_INTERLEAVED", "each twelfth of 120,000", lambda x: x.reshape(10000, 12)[:, 0], "f32[120000]", in_code=True
    ),
    Case("FEW_STEPS", "sines of 48", jnp.sin, "f32[48]"),
    Case("FEW_STEPS", "sines of 100", jnp.sin, "f32[100]"),
    Case("WIDE_LOOP", "compiling two steps of Lorenz's equations", partial(_lorenz, steps=2), "f32[3,1000]", COMPILED),
    Case("WIDE_LOOP", "compiling a step of Lorenz's equations", partial(_lorenz, steps=1), "f32[3,1000]", COMPILED),
    Case(
        "BATCH_FOR_LLVM SWITCH_S",
        "compiling a gradient of a small network",
        _of_network,
        "f32[100,64] f32[64,100] f32[100,10]",
        COMPILED,
    ),
]


def _random(count: int) -> Callable[[], Any]:
    return lambda: functad.random.bits(functad.random.key(0), (count,))


def _product(a: Any, b: Any) -> Any:
    return a @ b


def _updated(x: Any, i: Any, u: Any) -> Any:
    return x.at[i].add(u)


def _permutations(x: Any) -> Any:
    return functad.scipy.linalg.lu(x)


_UNJITTED = [
    Case("THREEFRY_PACKED", "100 random words", _random(100), "", UNJITTED),
    Case("THREEFRY_PACKED", "250 random words", _random(250), "", UNJITTED),
    Case("PAIRED_ROW", "the order of 700", jnp.argsort, "f32[700]", UNJITTED),
    Case("PAIRED_ROW", "the order of 1,500", jnp.argsort, "f32[1500]", UNJITTED),
    Case(
        "GATHER_BLOCK", "30,000 updates of rows of 10", _updated, "f32[1000,10] i32[30000]<1000 f32[30000,10]", UNJITTED
    ),
    Case(
        "WINDOWS_FEW_OUTPUTS",
        "a convolution, 16 of 16, 3 × 3, 10 × 10",
        partial(_convolution, padding="SAME"),
        "f32[32,16,10,10] f32[16,16,3,3]",
        UNJITTED,
    ),
    Case(
        "WINDOWS_FEW_OUTPUTS",
        "a convolution, 16 of 16, 3 × 3, 14 × 14",
        partial(_convolution, padding="SAME"),
        "f32[32,16,14,14] f32[16,16,3,3]",
        UNJITTED,
    ),
    Case("ONE_THREAD_PRODUCT", "a product of 230 × 230", _product, "f32[230,230] f32[230,230]", UNJITTED),
    Case("ONE_THREAD_PRODUCT", "a product of 290 × 290", _product, "f32[290,290] f32[290,290]", UNJITTED),
    Case("OTHER_PRODUCT_COST", "a product of integers, 90 × 90", _product, "i32[90,90] i32[90,90]", UNJITTED),
    Case(
        "MATRICES_SIDE_BY_SIDE",
        "Cholesky factors of 50 matrices of 8 rows",
        partial(_cholesky, 8),
        "f32[50,8,8]",
        UNJITTED,
    ),
    Case(
        "MATRICES_SIDE_BY_SIDE",
        "Cholesky factors of 100 matrices of 8 rows",
        partial(_cholesky, 8),
        "f32[100,8,8]",
        UNJITTED,
    ),
    Case("ORDERS_ONE_BY_ONE", "LU factors of 12 matrices of 10 rows", _permutations, "f32[12,10,10]", UNJITTED),
    Case("ORDERS_ONE_BY_ONE", "LU factors of 24 matrices of 10 rows", _permutations, "f32[24,10,10]", UNJITTED),
    Case("ALIGNED_BYTES", "a copy of 40,000 bytes", lambda x: jnp.array(np.asarray(x)), "f32[10000]", UNJITTED),
    Case("ALIGNED_BYTES", "a copy of 100,000 bytes", lambda x: jnp.array(np.asarray(x)), "f32[25000]", UNJITTED),
]

_APART = [
    Case(
        "FALLBACK_TILE_ROWS",
        "a product of 300 × 300 without a library",
        _product,
        "f32[300,300] f32[300,300]",
        APART,
        environment="FUNCTAD_BLAS=none",
    ),
    Case(
        "PANEL_DEPTH",
        "64 of 64, 3 × 3, 32 × 32",
        partial(_convolution, padding="SAME"),
        "f32[8,64,32,32] f32[64,64,3,3]",
        APART,
    ),
    Case(
        "PART_EXTENT", "a product of 2,048 × 4,096 by 4,096 × 2,048", _product, "f32[2048,4096] f32[4096,2048]", APART
    ),
    Case("BEFORE_A_RESULT", "quotients of 512 × 512", lambda x, y: x / y, "f32[512,512] f32[512,512]", APART),
    Case(
        "SPIN_SECONDS",
        "softmax of 512 rows of 512, 150 µs after another",
        _softmax,
        "f32[512,512]",
        APART,
        pause=150e-6,
    ),
    Case("PATIENCE_SECONDS", "softmax of 512 rows of 512, call after call", _softmax, "f32[512,512]", APART),
]

# Those of which a processor without AVX-512 makes nothing.
AVX512 = [
    Case("LONG_LOOP", "six steps of Lorenz's equations", partial(_lorenz, steps=6), "f32[3,1000]", in_code=True),
    Case("COPIED_WEIGHT_ROWS", "48 rows by a transposed weight of 40 × 40", _by_weight, "f32[48,40] f32[40,40]"),
    Case("COPIED_WEIGHT_ROWS", "100 rows by a transposed weight of 40 × 40", _by_weight, "f32[100,40] f32[40,40]"),
    Case("COPIED_WEIGHT_PRODUCT", "100 rows by a transposed weight of 20 × 24", _by_weight, "f32[100,20] f32[24,20]"),
    Case("COPIED_WEIGHT_PRODUCT", "100 rows by a transposed weight of 14 × 14", _by_weight, "f32[100,14] f32[14,14]"),
    Case(
        "COPIED_WEIGHT_BYTES_A_ROW",
        "600 rows by a transposed weight of 500 × 500",
        _by_weight,
        "f32[600,500] f32[500,500]",
    ),
    Case(
        "COPIED_WEIGHT_BYTES_A_ROW",
        "1,000 rows by a transposed weight of 500 × 500",
        _by_weight,
        "f32[1000,500] f32[500,500]",
    ),
    Case("OWN_PRODUCT_EXTENT", "6 × 400 by 400 × 500", _product, "f32[6,400] f32[400,500]", APART),
    Case(
        "FEW_TILE_ROWS",
        "302 rows by a transposed weight of 1,000 × 500",
        _by_weight,
        "f32[302,1000] f32[500,1000]",
        APART,
    ),
    Case("DIRECT_TILE", "200 × 200 by 200 × 200", _product, "f32[200,200] f32[200,200]", APART),
    Case(
        "DIRECT_FEW OWN_PRODUCT_FEW_ROWS",
        "24 of 400 rows transposed by 400 × 500",
        lambda a, b: a.T @ b,
        "f32[400,24] f32[400,500]",
    ),
    Case(
        "OWN_PRODUCT_MULTIPLICATIONS OWN_PRODUCT_SIDE",
        "100 × 1,024 by 1,024 × 260",
        _product,
        "f32[100,1024] f32[1024,260]",
    ),
    Case(
        "OWN_PRODUCT_ROWS",
        "6 rows, 300 terms, transposed weight of 300 × 2,000",
        _by_weight,
        "f32[6,300] f32[2000,300]",
    ),
    Case(
        "OWN_PRODUCT_COLUMNS", "100 rows by a transposed weight of 200 × 200", _by_weight, "f32[100,200] f32[200,200]"
    ),
    Case(
        "OWN_PRODUCT_DEPTH",
        "500 × 48 by twice 500 × 48, transposed",
        lambda a, b: _by_weight(a, b * 2.0),
        "f32[500,48] f32[500,48]",
    ),
    Case("OWN_DIRECT_TILE_ROWS", "120 × 256 by 256 × 256", _product, "f32[120,256] f32[256,256]", APART),
    Case("OWN_DIRECT_ROWS", "24 × 256 by 256 × 256", _product, "f32[24,256] f32[256,256]"),
    Case("OWN_DIRECT_DEPTH", "128 × 200 by 200 × 256", _product, "f32[128,200] f32[200,256]"),
    Case("OWN_DIRECT_COLUMNS", "300 × 300 by 300 × 192", _product, "f32[300,300] f32[300,384]"),
    Case(
        "PLACES_PRODUCTS", "32 of 8, 3 × 3, rows of 24", partial(_last, padding="SAME"), "f32[8,24,24,8] f32[3,3,8,32]"
    ),
]

CASES = [
    *_NESTS,
    *_CONVOLUTIONS,
    *_SEARCH,
    *_LOOPS,
    *_RUNNING,
    *_PRODUCTS,
    *_MACHINE_CODE,
    *_UNJITTED,
    *_APART,
]
