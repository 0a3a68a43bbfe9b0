"""Joining and cutting arrays: concatenate, split, stack, unstack, tile.

Knows no arithmetic and nothing of positions within an array; those belong to `structure`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from functad.errors import DTypeError, ShapeError
from functad.ir import Aval, Example, JointlyLinear, OwnDerivative, Primitive, UndefinedPrimal
from functad.lowering_rules import Indexed, Loops
from functad.primitives.common import (
    instantiate,
    integers,
    move_batch_axis_to_front,
    normal,
    reduce_sum,
    reshape,
)
from functad.primitives.loops import joining, moving
from functad.tracing import bind

# --- concatenate and split ----------------------------------------------------------------------------


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Join arrays along an existing axis."""
    return operands[0] if len(operands) == 1 else bind(concatenate_p, *operands, dimension=dimension)


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> Any:
    """Cut an array along an axis into parts of the given sizes."""
    return bind(split_p, operand, sizes=tuple(sizes), axis=axis)


def _concatenate_aval(*avals: Aval, dimension: int) -> Aval:
    first = avals[0]
    check_axes("concatenate", "dimension", (dimension,), first)
    check_one_dtype("concatenate", avals)

    def others(a: Aval) -> tuple[int, ...]:
        return a.shape[:dimension] + a.shape[dimension + 1 :]

    if any(a.ndim != first.ndim or others(a) != others(first) for a in avals):
        raise ShapeError(
            f"concatenate: operands of shapes {', '.join(str(a.shape) for a in avals)} must have equal sizes "
            f"along all axes but dimension={dimension}"
        )
    total = sum(a.shape[dimension] for a in avals)
    return Aval((*first.shape[:dimension], total, *first.shape[dimension + 1 :]), first.dtype)


def _concatenate_transpose(ct: Any, *operands: Any, dimension: int) -> list[Any]:
    sizes = [x.shape[dimension] for x in operands]
    parts = split(ct, sizes, dimension)
    return [part if isinstance(x, UndefinedPrimal) else None for part, x in zip(parts, operands)]


def _join_batch(join: Callable[[Sequence[Any], int], Any]) -> Callable[..., tuple[Any, int]]:
    """The batch rule of primitives that join arrays along the axis that their one parameter names."""

    def batch(axis_size: int, args: Any, dims: Any, **params: int) -> tuple[Any, int]:
        ((_, axis),) = params.items()
        rows = [move_batch_axis_to_front(a, d, axis_size) for a, d in zip(args, dims)]
        return join(rows, axis + 1), 0

    return batch


concatenate_p = Primitive(
    name="concatenate",
    doc="Join arrays along an existing axis.",
    multiple_results=False,
    abstract_eval=_concatenate_aval,
    impl=lambda *operands, dimension: np.concatenate(operands, axis=dimension),
    jvp=JointlyLinear(
        lambda primals, out, tangents, *, dimension: concatenate([instantiate(t) for t in tangents], dimension),
        slice(None),
    ),
    transpose=_concatenate_transpose,
    batch=_join_batch(concatenate),
    lower=Loops(joining.concatenate_kernels, joins="dimension", indexed=Indexed(moving.concatenate_rule, once=True)),
    examples=lambda: [
        Example(args=(normal(2, 3), normal(2, 1, seed=1)), params={"dimension": 1}),
        Example(args=(normal(2), normal(0, seed=1), normal(3, seed=2)), params={"dimension": 0}),
        Example(args=(integers(1, 2), integers(2, 2, seed=1)), params={"dimension": 0}, differentiable=False),
    ],
)


def _split_aval(x: Aval, *, sizes: tuple[int, ...], axis: int) -> list[Aval]:
    check_axes("split", "axis", (axis,), x)
    if sum(sizes) != x.shape[axis] or any(n < 0 for n in sizes):
        raise ShapeError(
            f"split: sizes={sizes} must not be negative and sum up to {x.shape[axis]}, "
            f"the size of axis {axis} of an operand of shape {x.shape}, but their sum is {sum(sizes)}"
        )
    return [Aval((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype, x.weak_type) for n in sizes]


def _split_impl(x: np.ndarray, *, sizes: tuple[int, ...], axis: int) -> list[np.ndarray]:
    return np.split(x, list(accumulate(sizes))[:-1], axis)


def _split_batch(axis_size: int, args: Any, dims: Any, *, sizes: tuple[int, ...], axis: int) -> tuple[Any, Any]:
    (d,) = dims
    return split(args[0], sizes, axis + (axis >= d)), [d] * len(sizes)


split_p = Primitive(
    name="split",
    doc="Cut an array along an axis into parts of given sizes.",
    multiple_results=True,
    abstract_eval=_split_aval,
    impl=_split_impl,
    jvp=OwnDerivative(),
    transpose=lambda cts, x, *, sizes, axis: [concatenate([instantiate(ct) for ct in cts], axis)],
    batch=_split_batch,
    lower=Indexed(moving.split_rule, free=True),
    examples=lambda: [
        Example(args=(normal(5, 2),), params={"sizes": (1, 4), "axis": 0}),
        Example(args=(normal(2, 3),), params={"sizes": (1, 0, 2), "axis": 1}),
        Example(args=(integers(3),), params={"sizes": (3,), "axis": 0}, differentiable=False),
    ],
)

# --- stack and unstack --------------------------------------------------------------------------------


def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Join arrays of one shape along a new axis."""
    return bind(stack_p, *operands, axis=axis)


def unstack(x: Any, axis: int = 0) -> Any:
    """Cut an array along an axis into arrays without that axis."""
    return bind(unstack_p, x, axis=axis)


def _stack_aval(*avals: Aval, axis: int) -> Aval:
    first = avals[0]
    check_one_dtype("stack", avals)
    if any(a.shape != first.shape for a in avals):
        shapes = ", ".join(str(a.shape) for a in avals)
        raise ShapeError(f"stack: the operands have the different shapes {shapes}; broadcast them first")
    if not 0 <= axis <= first.ndim:
        raise ShapeError(
            f"stack: axis={axis} does not fit operands of shape {first.shape}: it must lie in 0..{first.ndim}"
        )
    return Aval((*first.shape[:axis], len(avals), *first.shape[axis:]), first.dtype)


def _stack_transpose(ct: Any, *operands: Any, axis: int) -> list[Any]:
    return [part if isinstance(x, UndefinedPrimal) else None for part, x in zip(unstack(ct, axis), operands)]


stack_p = Primitive(
    name="stack",
    doc="Join arrays of one shape along a new axis.",
    multiple_results=False,
    abstract_eval=_stack_aval,
    impl=lambda *operands, axis: np.stack(operands, axis),
    jvp=JointlyLinear(
        lambda primals, out, tangents, *, axis: stack([instantiate(t) for t in tangents], axis), slice(None)
    ),
    transpose=_stack_transpose,
    batch=_join_batch(stack),
    lower=Loops(joining.stack_kernels, joins="axis", indexed=Indexed(moving.stack_rule, once=True)),
    examples=lambda: [
        Example(args=(normal(2, 3), normal(2, 3, seed=1)), params={"axis": 1}),
        Example(args=(normal(), normal(seed=1), normal(seed=2)), params={"axis": 0}),
        Example(args=(integers(2),), params={"axis": 1}, differentiable=False),
    ],
)


def _unstack_aval(x: Aval, *, axis: int) -> list[Aval]:
    check_axes("unstack", "axis", (axis,), x)
    return [Aval(x.shape[:axis] + x.shape[axis + 1 :], x.dtype, x.weak_type)] * x.shape[axis]


def _unstack_batch(axis_size: int, args: Any, dims: Any, *, axis: int) -> tuple[Any, Any]:
    (d,) = dims
    parts = unstack(args[0], axis + (axis >= d))
    return parts, [d - (axis < d)] * len(parts)


unstack_p = Primitive(
    name="unstack",
    doc="Cut an array along an axis into arrays without that axis.",
    multiple_results=True,
    abstract_eval=_unstack_aval,
    impl=lambda x, *, axis: list(np.moveaxis(x, axis, 0) if axis else x),
    jvp=OwnDerivative(),
    transpose=lambda cts, x, *, axis: [stack([instantiate(ct) for ct in cts], axis)],
    batch=_unstack_batch,
    lower=Indexed(moving.unstack_rule, free=True),
    examples=lambda: [
        Example(args=(normal(2, 3),), params={"axis": 0}),
        Example(args=(normal(2, 3),), params={"axis": 1}),
        Example(args=(integers(2),), params={"axis": 0}, differentiable=False),
    ],
)

# --- tile ---------------------------------------------------------------------------------------------


def tile(operand: Any, reps: Sequence[int]) -> Any:
    """Repeat an array as a whole, `reps[i]` times along axis i."""
    return bind(tile_p, operand, reps=tuple(reps))


def _tile_aval(x: Aval, *, reps: tuple[int, ...]) -> Aval:
    if len(reps) != x.ndim or any(r < 0 for r in reps):
        raise ShapeError(
            f"tile: reps={reps} must have one number, not negative, for each axis of an operand of shape {x.shape}"
        )
    return Aval([n * r for n, r in zip(x.shape, reps)], x.dtype)


def _tile_transpose(ct: Any, x: UndefinedPrimal, *, reps: tuple[int, ...]) -> list[Any]:
    pairs = [size for pair in zip(reps, x.shape) for size in pair]
    return [reduce_sum(reshape(ct, pairs), axes=range(0, len(pairs), 2))]


def _tile_batch(axis_size: int, args: Any, dims: Any, *, reps: tuple[int, ...]) -> tuple[Any, int]:
    (d,) = dims
    return tile(args[0], insert(reps, d, 1)), d


tile_p = Primitive(
    name="tile",
    doc="Repeat an array as a whole along its axes.",
    multiple_results=False,
    abstract_eval=_tile_aval,
    impl=lambda x, *, reps: np.tile(x, reps),
    jvp=OwnDerivative(),
    transpose=_tile_transpose,
    batch=_tile_batch,
    lower=Indexed(moving.tile_rule),
    examples=lambda: [
        Example(args=(normal(2, 3),), params={"reps": (2, 1)}),
        Example(args=(normal(2),), params={"reps": (0,)}),
        Example(args=(integers(1, 2),), params={"reps": (3, 2)}, differentiable=False),
    ],
)

# --- helpers ------------------------------------------------------------------------------------------


def insert(values: Sequence[Any], position: int, value: Any) -> tuple[Any, ...]:
    return (*values[:position], value, *values[position:])


def check_axes(name: str, parameter: str, axes: Sequence[int], x: Aval) -> None:
    if len(set(axes)) != len(axes) or any(not 0 <= a < x.ndim for a in axes):
        given = axes[0] if len(axes) == 1 and parameter in ("axis", "dimension") else tuple(axes)
        raise ShapeError(
            f"{name}: {parameter}={given} does not fit an operand of shape {x.shape}: "
            f"axes must be distinct and lie in 0..{x.ndim - 1}"
        )


def check_one_dtype(name: str, avals: Sequence[Aval]) -> None:
    if any(a.dtype != avals[0].dtype for a in avals):
        raise DTypeError(
            f"{name}: the operands must have one dtype, but are {', '.join(a.str_short() for a in avals)}; "
            "convert them first, for instance with x.astype(...)"
        )
