"""Random bits: the Threefry-2x32 block function as a primitive.

Knows no keys, shapes or distributions; those are in `functad.random`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.errors import DTypeError
from functad.ir import Aval, Example, Primitive, ZeroDerivative
from functad.lowering_rules import Scalar
from functad.primitives.builders import elementwise_aval, elementwise_batch
from functad.primitives.common import NOT_LINEAR, integers
from functad.primitives.kernels import threefry as kernels
from functad.tracing import bind


def threefry2x32(key1: Any, key2: Any, counter1: Any, counter2: Any) -> list[Any]:
    """Encrypt 64-bit counters with 64-bit keys, each given as two uint32 halves of equal shape or rank 0."""
    return list(bind(threefry2x32_p, key1, key2, counter1, counter2))


def _threefry_aval(*avals: Aval) -> list[Aval]:
    for aval in avals:
        if aval.dtype != dtypes.uint32:
            raise DTypeError(f"threefry2x32 takes uint32 keys and counters, but was given {aval.str_short()}")
    return [elementwise_aval("threefry2x32", "u", None, *avals)] * 2


def _threefry_batch(
    axis_size: int, args: Sequence[Any], dims: Sequence[int | None]
) -> tuple[Sequence[Any], Sequence[int]]:
    outs, dim = elementwise_batch(lambda: threefry2x32_p, axis_size, args, dims)
    return outs, (dim, dim)


def _threefry_examples() -> list[Example]:
    words = [integers(2, 3, high=2**32, seed=seed, dtype=np.uint32) for seed in range(4)]
    key = words[0][0, :2]
    return [
        Example(args=tuple(words), params={}, differentiable=False),
        Example(args=(key[0], key[1], *words[2:]), params={}, differentiable=False),
        Example(args=(key[0], key[1], np.uint32(0), np.uint32(7)), params={}, differentiable=False),
        Example(args=tuple(w[:0] for w in words), params={}, differentiable=False),
    ]


threefry2x32_p = Primitive(
    name="threefry2x32",
    doc="The Threefry-2x32 block cipher, which turns counters into random bits.",
    multiple_results=True,
    abstract_eval=_threefry_aval,
    impl=kernels.threefry2x32,
    jvp=ZeroDerivative("the operands are integers"),
    transpose=NOT_LINEAR,
    batch=_threefry_batch,
    lower=Scalar("threefry2x32({0}, {1}, {2}, {3})"),
    examples=_threefry_examples,
)
