"""Single operations of the table: what moves, gathers, sums and compares numbers, and functions of them.

Knows each in functad's and JAX's words, which are the same, in NumPy's and in PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.workloads.operation import (
    Family,
    Maker,
    all_of,
    integers,
    normal,
    positive,
    rows,
    square,
    stacked,
    together,
)


def distinct(high: Callable[[int], int], count: Callable[[int], int]) -> Maker:
    return lambda n: (np.random.default_rng(7).permutation(high(n))[: count(n)].astype(np.int32),)


def tenth(n: int) -> int:
    return n // 10


def inside(n: int) -> tuple[int, ...]:
    """The square without its borders."""
    return tuple(side - 2 for side in square(n))


def heat(roll: Callable[..., Any], u: Any) -> Any:
    """Ten explicit steps of the heat equation on a ring."""
    for _ in range(10):
        u = u + 0.1 * (roll(u, 1) - 2.0 * u + roll(u, -1))
    return u


def pairs(sum_of: Callable[..., Any], x: Any, y: Any) -> Any:
    """Σⱼ 1 / (1 + (xᵢ − yⱼ)²)."""
    return sum_of(1.0 / (1.0 + (x[:, None] - y[None, :]) ** 2), 1)


def numpy_set(x: Any, v: Any, i: Any) -> Any:
    y = x.copy()
    y[i] = v
    return y


def numpy_window_add(u: Any, v: Any) -> Any:
    w = u.copy()
    w[1:-1, 1:-1] += v
    return w


def row_sums(x: Any, i: Any, count: int) -> Any:
    found = np.zeros((count, x.shape[1]), x.dtype)
    np.add.at(found, i, x)
    return found


def function(name: str, arguments: Maker, title: str, torch_name: str = "", numpy_name: str = "") -> Family:
    """A function of each element."""

    def functional(np_: Any, module: Any, n: int) -> Callable[..., Any]:
        return getattr(np_, name, None) or getattr(module.lax, name)

    return Family(
        title,
        arguments,
        functional,
        lambda torch, n: getattr(torch, torch_name or name),
        lambda np_, n: getattr(np_, numpy_name or name),
    )


def lgamma(arguments: Maker, title: str) -> Family:
    return Family(
        title,
        arguments,
        lambda _, module, n: module.lax.lgamma,
        lambda torch, n: torch.lgamma,
        lambda np_, n: lambda x: np_.fromiter(map(math.lgamma, x.tolist()), x.dtype, len(x)),
        timed=False,
    )


MOVING = {
    "take": Family(
        "x[i], as many of as many",
        together(normal(all_of), integers(all_of, high=lambda n: n)),
        lambda np_, _, n: lambda x, i: x[i],
        lambda torch, n: lambda x, i: x[i],
        indices=(1,),
    ),
    "set": Family(
        "x.at[i].set(v) of a tenth",
        together(normal(all_of, lambda n: (tenth(n),)), distinct(lambda n: n, tenth)),
        lambda np_, _, n: lambda x, v, i: x.at[i].set(v),
        lambda torch, n: lambda x, v, i: torch.index_put(x, (i,), v),
        lambda np_, n: numpy_set,
        indices=(2,),
    ),
    "scatter-add": Family(
        "scatter-add into a tenth",
        together(normal(all_of), integers(all_of, high=tenth)),
        lambda np_, _, n: lambda x, i: np_.zeros(tenth(n), x.dtype).at[i].add(x),
        lambda torch, n: lambda x, i: torch.zeros(tenth(n)).index_add_(0, i, x),
        lambda np_, n: lambda x, i: np_.bincount(i, x, tenth(n)).astype(x.dtype),
        indices=(1,),
    ),
    "bincount": Family(
        "bincount in a tenth",
        integers(all_of, high=tenth),
        lambda np_, _, n: lambda i: np_.bincount(i, length=tenth(n)),
        lambda torch, n: lambda i: torch.bincount(i, minlength=tenth(n)),
        lambda np_, n: lambda i: np_.bincount(i, minlength=tenth(n)),
    ),
    "segment-sum": Family(
        "segment sum, 100 segments",
        together(normal(all_of), integers(all_of, high=lambda n: 100)),
        lambda _, module, n: lambda x, i: module.ops.segment_sum(x, i, 100),
        lambda torch, n: lambda x, i: torch.zeros(100).index_add_(0, i, x),
        lambda np_, n: lambda x, i: np_.bincount(i, x, 100).astype(x.dtype),
        indices=(1,),
    ),
    "segment-rows": Family(
        "segment sum of rows of 16, 1,000 segments",
        together(normal(rows(16)), integers(lambda n: (n // 16,), high=lambda n: 1_000)),
        lambda _, module, n: lambda x, i: module.ops.segment_sum(x, i, 1_000),
        lambda torch, n: lambda x, i: torch.zeros(1_000, 16).index_add_(0, i, x),
        lambda np_, n: partial(row_sums, count=1_000),
        indices=(1,),
    ),
    "window-add": Family(
        "u.at[1:-1, 1:-1].add(v), square",
        normal(square, inside),
        lambda np_, _, n: lambda u, v: u.at[1:-1, 1:-1].add(v),
        lambda torch, n: lambda u, v: (w := u.clone(), w[1:-1, 1:-1].add_(v))[0],
        lambda np_, n: numpy_window_add,
    ),
    "repeat": Family(
        "repeat, four times each",
        normal(lambda n: (n // 4,)),
        lambda np_, _, n: lambda x: np_.repeat(x, 4),
        lambda torch, n: lambda x: torch.repeat_interleave(x, 4),
    ),
    "pad": Family(
        "pad by one, square",
        normal(square),
        lambda np_, _, n: lambda x: np_.pad(x, 1),
        lambda torch, n: lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1)),
    ),
    "tile": Family(
        "tile, twice each way, square",
        normal(lambda n: square(n // 4)),
        lambda np_, _, n: lambda x: np_.tile(x, (2, 2)),
        lambda torch, n: lambda x: torch.tile(x, (2, 2)),
    ),
}

SUMS = {
    "sum": Family("sum", normal(all_of), lambda np_, _, n: np_.sum, lambda torch, n: torch.sum),
    **{
        f"sum-last-{k}": Family(
            f"sum over a last axis of {k}",
            normal(rows(k)),
            lambda np_, _, n: lambda x: np_.sum(x, 1),
            lambda torch, n: lambda x: torch.sum(x, 1),
        )
        for k in (2, 3)
    },
    "sum-turned": Family(
        "sum of x.T along its columns, square",
        normal(square),
        lambda np_, _, n: lambda x: np_.sum(x.T, 0),
        lambda torch, n: lambda x: torch.sum(x.T, 0),
    ),
    "argmax": Family(
        "argmax along rows of 100",
        normal(rows(100)),
        lambda np_, _, n: lambda x: np_.argmax(x, 1),
        lambda torch, n: lambda x: torch.argmax(x, 1),
    ),
    "dot": Family("dot", normal(all_of, all_of), lambda np_, _, n: np_.dot, lambda torch, n: torch.dot),
    "cumsum": Family(
        "cumsum",
        normal(all_of),
        lambda np_, _, n: np_.cumsum,
        lambda torch, n: lambda x: torch.cumsum(x, 0),
        # NumPy adds up in float32, one after another, by which ten million differ in the fourth digit.
        tolerance=lambda n: 1e-3,
    ),
    "cumulative-max": Family(
        "running maximum along rows of 1,000",
        normal(rows(1_000)),
        lambda _, module, n: lambda x: module.lax.cummax(x, 1),
        lambda torch, n: lambda x: torch.cummax(x, 1)[0],
        lambda np_, n: lambda x: np_.maximum.accumulate(x, 1),
    ),
    "row-dots": Family(
        "einsum('ij,ij->i'), rows of 10",
        normal(rows(10), rows(10)),
        lambda np_, _, n: lambda a, b: np_.einsum("ij,ij->i", a, b),
        lambda torch, n: lambda a, b: torch.einsum("ij,ij->i", a, b),
    ),
    "mapped-dot": Family(
        "vmap of dot of 3-vectors",
        normal(rows(3), rows(3)),
        lambda np_, module, n: module.vmap(np_.dot),
        lambda torch, n: torch.vmap(torch.dot),
        lambda np_, n: np_.vecdot,
    ),
    "small-products": Family(
        "products 3×3",
        normal(stacked(3), stacked(3)),
        lambda np_, _, n: lambda a, b: a @ b,
        lambda torch, n: lambda a, b: a @ b,
    ),
    "product-chain": Family(
        "einsum('ij,jk,kl->il') with sides of 10 and n / 10",
        normal(lambda n: (n // 10, 10), lambda n: (10, n // 10), lambda n: (n // 10, 10)),
        lambda np_, _, n: lambda *x: np_.einsum("ij,jk,kl->il", *x),
        lambda torch, n: lambda a, b, c: torch.linalg.multi_dot([a, b, c]),
        lambda np_, n: lambda *x: np_.einsum("ij,jk,kl->il", *x, optimize=True),
    ),
    "product": Family(
        "product of square matrices",
        normal(square, square),
        lambda np_, _, n: lambda a, b: a @ b,
        lambda torch, n: lambda a, b: a @ b,
    ),
    "integer-product": Family(
        "int32 product of square matrices",
        integers(square, square, high=lambda n: 1_000),
        lambda np_, _, n: lambda a, b: a @ b,
        lambda torch, n: lambda a, b: a @ b,
        sizes=(1_000, 10_000, 100_000, 1_000_000),
    ),
    "heat": Family(
        "heat equation with roll, 10 steps",
        normal(all_of),
        lambda np_, _, n: partial(heat, np_.roll),
        lambda torch, n: partial(heat, torch.roll),
    ),
    "pairs": Family(
        "all pairs, summed",
        normal(lambda n: square(n)[:1], lambda n: square(n)[:1]),
        lambda np_, _, n: partial(pairs, np_.sum),
        lambda torch, n: partial(pairs, torch.sum),
    ),
}

FUNCTIONS = {
    name + suffix: family
    for bits, suffix in ((64, ""), (32, "-32"))
    for name, family in {
        **{f: function(f, normal(all_of, dtype=f"float{bits}"), f"{f}, float{bits}") for f in ("sin", "tanh", "exp")},
        "log": function("log", positive(all_of, dtype=f"float{bits}"), f"log, float{bits}"),
        "power": function("power", positive(all_of, all_of, dtype=f"float{bits}"), f"power, float{bits}", "pow"),
        "lgamma": lgamma(positive(all_of, dtype=f"float{bits}"), f"lgamma, float{bits}"),
    }.items()
}
FUNCTIONS["sin-large-32"] = function(
    "sin", lambda n: (np.random.default_rng(0).uniform(2**18, 2**30, n).astype(np.float32),), "sin beyond 2¹⁸, float32"
)
