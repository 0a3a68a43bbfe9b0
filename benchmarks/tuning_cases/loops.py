"""Loops, gathers and scatters.

Knows functad's public names, and the names of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import functad
import functad.numpy as jnp
from benchmarks.tuning_cases.case import Case
from benchmarks.tuning_cases.programs import (
    last_state,
    lorenz,
)
from functad import lax


def _sum_of_states(u: Any, w: Any, c: Any, xs: Any) -> Any:
    return jnp.sum(lax.scan(lambda c, x: (jnp.tanh(c @ w + x @ u), None), c, xs)[0] ** 2)


def _linear_recurrence(count: int, length: int) -> Callable[[Any], Any]:
    """The gradient of steps of a nonlinear map of a few numbers: linear, with coefficients that differ."""

    def loss(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return tuple(jnp.sin(c[k]) * 0.9 + c[k - 1] * 0.3 for k in range(count)), None

        return sum(lax.scan(step, tuple(x[k] for k in range(count)), length=length)[0])

    return functad.grad(loss)


def _by_transposed(w: Any, c: Any, xs: Any) -> Any:
    return lax.scan(lambda c, x: (jnp.tanh(c @ w.T) + lorenz(x, 5), None), c, xs)[0]


_of_recurrent_weights = functad.grad(_sum_of_states, (0, 1))
_of_roots = functad.grad(
    lambda c, xs: jnp.sum(lax.scan(lambda c, x: (jnp.sqrt(c * c + x * x), None), c, xs)[0]), argnums=(0, 1)
)


LOOPS = [
    Case(
        "PACKED_WEIGHT_ROWS",
        "12 steps of a network of 256, one row",
        lambda w, c: last_state(lambda c: jnp.tanh(c @ w), 12)(c),
        "f32[256,256] f32[1,256]",
    ),
    Case("UNROLLED_STEPS", "6 steps of 1,000 numbers", last_state(jnp.sin, 6), "f32[1000]"),
    Case("UNROLLED_STEPS", "12 steps of 1,000 numbers", last_state(jnp.sin, 12), "f32[1000]"),
    Case("CHEAP_OPERATIONS", "the gradient of 100 steps of 1,000 roots", _of_roots, "f32[1000] f32[100,1000]"),
    Case(
        "LARGEST_HOISTED_PRODUCT",
        "10 steps, 256 × 512 by 512 × 512",
        _sum_of_states,
        "f32[512,512] f32[512,512] f32[256,512] f32[10,256,512]",
    ),
    Case(
        "LARGEST_HOISTED_PRODUCT",
        "10 steps, 256 × 256 by 256 × 512",
        _sum_of_states,
        "f32[256,512] f32[512,512] f32[256,512] f32[10,256,256]",
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
        lambda w, c: last_state(lambda c: jnp.tanh(c @ w.T), 9)(c),
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
        "a table of 1,000 rows read 1,200 times",
        lambda t, i, w: t[i] @ w,
        "f32[1000,100] i32[1200]<1000 f32[100,100]",
    ),
    Case(
        "GATHERED_USES",
        "a table of 1,000 rows read 1,400 times",
        lambda t, i, w: t[i] @ w,
        "f32[1000,40] i32[1400]<1000 f32[40,64]",
    ),
    Case(
        "GATHERED_ROW",
        "a table of rows of 12 read 4 times each",
        lambda t, i, w: t[i] @ w,
        "f32[1000,12] i32[4000]<1000 f32[12,64]",
    ),
    Case(
        "GATHERED_ROW",
        "a table of rows of 24 read 4 times each",
        lambda t, i, w: t[i] @ w,
        "f32[1000,24] i32[4000]<1000 f32[24,100]",
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
