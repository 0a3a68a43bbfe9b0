"""What shares a nest, how threads share it, and what LLVM makes of it.

Knows functad's public names, and the names of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import functad
import functad.numpy as jnp
from benchmarks.tuning_cases.case import COMPILED, Case
from benchmarks.tuning_cases.programs import (
    last_state,
    lorenz,
    softmax,
)
from functad import lax, nn


def _polynomial_by_root(x: Any) -> Any:
    values = (((x - jnp.mean(x, -1, keepdims=True)) * 2.0 + 1.0) ** 2 + x) ** 2 + 1.0
    return values / jnp.sqrt(jnp.mean(values, -1, keepdims=True))


def _above_any(x: Any, values: Any) -> Any:
    return jnp.any(x[:, None] > values, 1)


def _sum_of_stacked(*xs: Any) -> Any:
    changed = jnp.tanh(jnp.stack(xs) * 2.0)
    return sum(changed[k] * (k + 1.0) for k in range(len(xs)))


def _with_the_next(c: Any) -> Any:
    """The sum of the states of some steps, each times the next one."""
    before, after = lax.scan(lambda c, _: (d := jnp.sin(c), (c, d)), c, length=1000)[1]
    return jnp.sum(before * after, 0)


def _squares_by_root(x: Any) -> Any:
    squares = (x - jnp.mean(x, -1, keepdims=True)) ** 2 + 0.1
    return squares / jnp.sqrt(jnp.mean(squares, -1, keepdims=True))


def _rows_of_network(steps: int) -> Callable[..., Any]:
    return lambda w, c: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), c, length=steps)[0]


def _of_network(x: Any, w: Any, v: Any) -> Any:
    return functad.grad(lambda w, v: jnp.sum(nn.log_softmax(jnp.tanh(x @ w) @ v) ** 2), argnums=(0, 1))(w, v)


NESTS = [
    Case("STREAMED_TOGETHER", "twice 2,048 × 2,048", lambda x: x * 2.0, "f32[2048,2048]"),
    Case("MOST_STACKED_APART", "tanh of 5 stacked arrays of 10,000", _sum_of_stacked, " ".join(["f32[10000]"] * 5)),
    Case("MOST_STACKED_APART", "tanh of 12 stacked arrays of 10,000", _sum_of_stacked, " ".join(["f32[10000]"] * 12)),
    Case(
        "CACHE_BYTES_PER_NS",
        "a polynomial of rows of 2,048 less their mean, by its root",
        _polynomial_by_root,
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
    Case("MOST_VARIABLES", "1,000 steps of 12 numbers", last_state(lambda c: c * 0.9 + c[::-1] * 0.1, 1000), "f32[12]"),
    Case(
        "LONGEST_SMALL_STEP ROWS_WEIGH",
        "1,000 steps of 300 numbers",
        last_state(lambda c: c * 0.9 + 0.1, 1000),
        "f32[300]",
    ),
    Case(
        "LONGEST_SMALL_STEP ROWS_WEIGH",
        "1,000 steps of 450 numbers",
        last_state(lambda c: c * 0.9 + 0.1, 1000),
        "f32[450]",
    ),
    Case(
        "ONE_BY_ONE",
        "1,000 steps with running sums of 200",
        last_state(lambda c: jnp.cumsum(c) * 0.01, 1000),
        "f32[200]",
    ),
    Case(
        "ONE_BY_ONE",
        "1,000 steps with running sums of 150",
        last_state(lambda c: jnp.cumsum(c) * 0.01, 1000),
        "f32[150]",
    ),
    Case("SMALLEST_SHIFTED_SLICE", "1,000 steps of 200 numbers, multiplied with the next", _with_the_next, "f32[200]"),
    Case("SMALLEST_SHIFTED_SLICE", "1,000 steps of 400 numbers, multiplied with the next", _with_the_next, "f32[400]"),
    Case("SQUARE_SIDES SQUARES_TOGETHER", "a transpose, 1,024 × 1,024", lambda x: x.T * 2.0, "f32[1024,1024]"),
    Case("TRANSPOSED_TILES", "a transposed copy, 640 × 640", lambda x: x.T, "f32[640,640]"),
    Case("SQUARES_AHEAD", "a transpose, 512 × 512", lambda x: x.T * 2.0, "f32[512,512]", in_code=True),
]

RUNNING = [
    Case("MOST_PARTS", "softmax of 512 rows of 512", softmax, "f32[512,512]"),
    Case(
        "COARSE_CHUNK PRODUCT_CHUNK_EXTENT",
        "two products of 3,000 rows, and their softmax",
        lambda x, w, v: nn.softmax(jnp.tanh(x @ w) @ v),
        "f32[3000,64] f32[64,64] f32[64,64]",
    ),
    Case("LITTLE_EXTRA_WORK", "softmax of 300 rows of 1,000", softmax, "f32[300,1000]"),
    Case("FEWEST_ROWS", "softmax of 3 rows of 100,000", softmax, "f32[3,100000]"),
    Case("FEWEST_ROWS", "softmax of 6 rows of 100,000", softmax, "f32[6,100000]"),
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
    Case("TERMS_OF_A_PART", "sums of 3,000 columns of 32", lambda x: jnp.sum(x, 0), "f32[32,3000]"),
    Case("TERMS_OF_A_PART", "sums of 100,000 columns of 64", lambda x: jnp.sum(x, 0), "f32[64,100000]"),
    Case("POINTS_WORTH_LANES", "sums of 4 columns of 800", lambda x: jnp.sum(x, 0), "f32[800,4]"),
    Case("POINTS_WORTH_LANES", "sums of 4 columns of 400", lambda x: jnp.sum(x, 0), "f32[400,4]"),
    Case("PARTS_A_THREAD", "Fourier transforms of 100 rows of 1,000", lambda x: jnp.fft.fft(x), "c64[100,1000]"),
    Case(
        "POLL_BUDGET",
        "a loop until a sum is large",
        lambda x: lax.while_loop(lambda c: jnp.sum(c) < 1e6, lambda c: c * 1.001 + 0.1, x),
        "f32[5]",
    ),
]

MACHINE_CODE = [
    Case("MOST_QUESTIONS", "10,000 elements above one of 180", _above_any, "i32[10000] i32[180]", in_code=True),
    Case("MOST_QUESTIONS", "10,000 elements above one of 300", _above_any, "i32[10000] i32[300]", in_code=True),
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
    Case("WIDE_LOOP", "compiling two steps of Lorenz's equations", partial(lorenz, steps=2), "f32[3,1000]", COMPILED),
    Case("WIDE_LOOP", "compiling a step of Lorenz's equations", partial(lorenz, steps=1), "f32[3,1000]", COMPILED),
    Case(
        "BATCH_FOR_LLVM SWITCH_S",
        "compiling a gradient of a small network",
        _of_network,
        "f32[100,64] f32[64,100] f32[100,10]",
        COMPILED,
    ),
]
