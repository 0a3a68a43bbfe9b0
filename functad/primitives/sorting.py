"""Sorting along an axis, of one or several arrays together, and the largest elements.

Knows gather, which carries tangents to their sorted places; searching is built on it in the layers above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Example, Linearize, Primitive, Zero
from functad.lowering_rules import Loops
from functad.primitives.builders import RowKinks, kinks_of_rows
from functad.primitives.common import integers, move_batch_axis_to_front, normal
from functad.primitives.gather_scatter import gather_along
from functad.primitives.joining import check_axes
from functad.primitives.kernels import sorting as kernels
from functad.primitives.loops import sorting as loops
from functad.primitives.structure import iota
from functad.tracing import bind

# --- sort -------------------------------------------------------------------------------------------------


def sort(operands: Sequence[Any], *, dimension: int, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Reorder arrays of one shape together, by the first `num_keys` of them, along an axis."""
    return bind(sort_p, *operands, dimension=dimension, is_stable=is_stable, num_keys=num_keys)


def _sort_aval(*operands: Aval, dimension: int, is_stable: bool, num_keys: int) -> list[Aval]:
    check_axes("sort", "dimension", (dimension,), operands[0])
    if any(a.shape != operands[0].shape for a in operands):
        shapes = ", ".join(str(a.shape) for a in operands)
        raise ShapeError(f"sort: operands that are sorted together must have one shape, but have {shapes}")
    if not 1 <= num_keys <= len(operands):
        raise ArgumentError(f"sort: num_keys={num_keys} must be between 1 and {len(operands)}, the number of operands")
    return [Aval(a.shape, a.dtype, a.weak_type) for a in operands]


def _sort_impl(*operands: np.ndarray, dimension: int, is_stable: bool, num_keys: int) -> list[np.ndarray]:
    return list(kernels.sort(operands, dimension=dimension, num_keys=num_keys))


def _sort_linearize(
    primals: Sequence[Any], active: Sequence[bool], *, dimension: int, **params: Any
) -> tuple[Sequence[Any], Callable[[Sequence[Any]], Sequence[Any]]]:
    # d sort(x) = the dx in the order of the sorted x; the positions are sorted along, once.
    positions = iota(np.uint32, aval_of(primals[0]).shape, dimension)
    *outs, order = sort((*primals, positions), dimension=dimension, **params)

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        return [t if isinstance(t, Zero) else gather_along(t, order, dimension) for t in tangents]

    return outs, pushforward


def _sort_batch(axis_size: int, args: Any, dims: Any, *, dimension: int, **params: Any) -> tuple[Any, Any]:
    rows = [move_batch_axis_to_front(a, d, axis_size) for a, d in zip(args, dims)]
    return sort(rows, dimension=dimension + 1, **params), [0] * len(rows)


def _sort_example(*args: np.ndarray, dimension: int = 0, num_keys: int = 1, differentiable: bool = True) -> Example:
    params = {"dimension": dimension, "is_stable": True, "num_keys": num_keys}
    return Example(args=args, params=params, differentiable=differentiable)


_TIES: RowKinks = [((1, 1, 0), (1, 0, 0), (2, 0, 0)), ((1, 1, 1), (1, -2, 0.5), (-1.5, 0, 0))]

sort_p = Primitive(
    name="sort",
    doc="Reorder arrays together along an axis, by one or several of them.",
    multiple_results=True,
    abstract_eval=_sort_aval,
    impl=_sort_impl,
    jvp=Linearize(_sort_linearize),
    transpose=Absent("sort is not linear; its derivative is a gather, which has a transpose"),
    batch=_sort_batch,
    lower=Loops(loops.sort_rule),
    examples=lambda: [
        _sort_example(normal(2, 4), dimension=1),
        _sort_example(normal(3, 2), normal(3, 2, seed=1)),
        _sort_example(np.array([1, 0, 1, 0], np.float32), normal(4), num_keys=2, differentiable=False),
        _sort_example(integers(6, high=3), normal(6)),
        _sort_example(np.array([np.nan, 1, -np.inf, np.inf], np.float32), differentiable=False),
        _sort_example(normal(0, 2)),
        _sort_example(integers(5) > 4, differentiable=False),
        *kinks_of_rows(_TIES, dimension=0, is_stable=True, num_keys=1),
    ],
)

# --- top_k ------------------------------------------------------------------------------------------------


def top_k(operand: Any, *, k: int, axis: int) -> Any:
    """The k largest elements along an axis, in descending order, and where they were."""
    return bind(top_k_p, operand, k=k, axis=axis)


def _top_k_aval(x: Aval, *, k: int, axis: int) -> list[Aval]:
    check_axes("top_k", "axis", (axis,), x)
    if kind_of(x.dtype) == "c":
        raise DTypeError(f"top_k needs numbers that have an order, but was given {x.str_short()}")
    if not 0 <= k <= x.shape[axis]:
        raise ArgumentError(
            f"top_k: k={k} must lie in 0..{x.shape[axis]}, axis {axis} of an operand of shape {x.shape}"
        )
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [Aval(shape, x.dtype), Aval(shape, dtypes.int32)]


def _top_k_impl(x: np.ndarray, *, k: int, axis: int) -> list[np.ndarray]:
    # Sorting backwards and reading the result backwards keeps equal elements in their order.
    ascending = np.argsort(np.flip(_total_order(x), axis), axis=axis, kind="stable")
    order = np.flip(x.shape[axis] - 1 - ascending, axis)
    order = np.take(order, np.arange(k), axis=axis)
    return [np.take_along_axis(x, order, axis=axis), order.astype(np.int32)]


def _total_order(x: np.ndarray) -> np.ndarray:
    """Integers in the order in which top_k takes numbers: −0 is below 0, and NaN above infinity, whatever its sign."""
    if kind_of(x.dtype) != "f":
        return x
    bits: np.ndarray = np.ascontiguousarray(x).view(f"i{x.itemsize}").reshape(x.shape)
    highest = np.iinfo(bits.dtype).max
    return np.where(np.isnan(x), highest, np.where(bits < 0, bits ^ highest, bits))


def _top_k_jvp(primals: Any, outs: Any, tangents: Any, *, k: int, axis: int) -> list[Any]:
    # d top_k(x) = the dx at the places of the largest x
    values, indices = outs
    return [gather_along(tangents[0], indices, axis), Zero(Aval(aval_of(indices).shape, dtypes.float0))]


def _top_k_batch(axis_size: int, args: Any, dims: Any, *, k: int, axis: int) -> tuple[Any, Any]:
    (d,) = dims
    return top_k(args[0], k=k, axis=axis + (axis >= d)), [d, d]


top_k_p = Primitive(
    name="top_k",
    doc="The k largest elements along an axis, in descending order, and where they were.",
    multiple_results=True,
    abstract_eval=_top_k_aval,
    impl=_top_k_impl,
    jvp=_top_k_jvp,
    transpose=Absent("top_k is not linear; its derivative is a gather, which has a transpose"),
    batch=_top_k_batch,
    lower=Loops(loops.top_k_rule),
    examples=lambda: [
        Example(args=(normal(2, 4),), params={"k": 2, "axis": 1}),
        Example(args=(normal(4, 2),), params={"k": 4, "axis": 0}),
        Example(args=(np.array([0, np.nan, 3, 3], np.float32),), params={"k": 3, "axis": 0}, differentiable=False),
        Example(args=(integers(5, high=3),), params={"k": 0, "axis": 0}, differentiable=False),
        *kinks_of_rows([((1, 1, 0), (1, -1, 1), (-1, 0, 0)), ((1, 1, 1), (1, -2, 0.5), (-3, 0, 0))], k=2, axis=0),
    ],
)
