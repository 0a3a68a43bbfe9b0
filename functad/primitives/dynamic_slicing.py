"""Slices of static size at a computed position, read with dynamic_slice, replaced with dynamic_update_slice.

Knows gather and scatter, to which they turn when each example of a batch has its own position.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval, Example, JointlyLinear, Primitive, UndefinedPrimal
from functad.lowering_rules import Indexed, Scattered
from functad.primitives.common import (
    broadcast_in_dim,
    convert_element_type,
    full,
    instantiate,
    integers,
    is_linear,
    move_batch_axis_to_front,
    normal,
    scalar_like,
    zeros_of,
)
from functad.primitives.dimension_numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from functad.primitives.gather_scatter import gather_batch, scatter_batch
from functad.primitives.joining import concatenate, insert
from functad.primitives.kernels import indexing as kernels
from functad.primitives.loops import moving, scattering
from functad.tracing import bind

# --- dynamic_slice ----------------------------------------------------------------------------------------


def dynamic_slice(operand: Any, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> Any:
    """The slice that starts at the given scalars, each moved so that the slice lies within the operand."""
    return bind(dynamic_slice_p, operand, *start_indices, slice_sizes=tuple(slice_sizes))


def _dynamic_slice_aval(operand: Aval, *starts: Aval, slice_sizes: tuple[int, ...]) -> Aval:
    _check_starts("dynamic_slice", operand, starts)
    _check_sizes("dynamic_slice", operand, slice_sizes)
    return Aval(slice_sizes, operand.dtype)


def _dynamic_slice_transpose(
    ct: Any, operand: UndefinedPrimal, *starts: Any, slice_sizes: tuple[int, ...]
) -> list[Any]:
    return [dynamic_update_slice(zeros_of(operand.aval), ct, starts), *[None] * len(starts)]


def _dynamic_slice_batch(
    axis_size: int, args: Sequence[Any], dims: Sequence[int | None], *, slice_sizes: tuple[int, ...]
) -> tuple[Any, int]:
    (operand, *starts), (operand_dim, *start_dims) = args, dims
    if all(d is None for d in start_dims):
        assert operand_dim is not None
        all_starts = insert(starts, operand_dim, _zero_like(starts))
        return dynamic_slice(operand, all_starts, insert(slice_sizes, operand_dim, axis_size)), operand_dim
    axes = tuple(range(len(starts)))
    return gather_batch(
        axis_size,
        (operand, _index_vectors(axis_size, starts, start_dims)),
        (operand_dim, 0),
        dimension_numbers=GatherDimensionNumbers(axes, (), axes),
        slice_sizes=slice_sizes,
        unique_indices=True,
        indices_are_sorted=True,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )


dynamic_slice_p = Primitive(
    name="dynamic_slice",
    doc="A slice of static size at a position that is computed.",
    multiple_results=False,
    abstract_eval=_dynamic_slice_aval,
    impl=lambda operand, *starts, slice_sizes: kernels.dynamic_slice(operand, starts, slice_sizes),
    jvp=JointlyLinear(
        lambda primals, out, tangents, *, slice_sizes: dynamic_slice(tangents[0], primals[1:], slice_sizes), slice(1)
    ),
    transpose=_dynamic_slice_transpose,
    batch=_dynamic_slice_batch,
    lower=Indexed(moving.dynamic_slice_rule),
    examples=lambda: [
        Example(args=(normal(3, 4), np.int32(1), np.int32(2)), params={"slice_sizes": (2, 1)}),
        Example(args=(normal(3, 4), np.int32(5), np.int32(-1)), params={"slice_sizes": (2, 3)}),
        Example(args=(normal(4), np.uint8(2)), params={"slice_sizes": (0,)}),
        Example(args=(normal(),), params={"slice_sizes": ()}),
        Example(args=(integers(4), np.int32(1)), params={"slice_sizes": (2,)}, differentiable=False),
    ],
)

# --- dynamic_update_slice ---------------------------------------------------------------------------------


def dynamic_update_slice(operand: Any, update: Any, start_indices: Sequence[Any]) -> Any:
    """The operand with a slice replaced, which starts at the given scalars (moved so that it fits)."""
    return bind(dynamic_update_slice_p, operand, update, *start_indices)


def _dynamic_update_slice_aval(operand: Aval, update: Aval, *starts: Aval) -> Aval:
    _check_starts("dynamic_update_slice", operand, starts)
    if update.dtype != operand.dtype:
        raise DTypeError(
            f"dynamic_update_slice: the update has dtype {update.dtype}, but the operand has "
            f"{operand.dtype}; use update.astype({operand.dtype.name!r})"
        )
    _check_sizes("dynamic_update_slice", operand, update.shape)
    return Aval(operand.shape, operand.dtype)


def _dynamic_update_slice_jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any]) -> Any:
    return dynamic_update_slice(instantiate(tangents[0]), instantiate(tangents[1]), primals[2:])


def _dynamic_update_slice_transpose(ct: Any, operand: Any, update: Any, *starts: Any) -> list[Any]:
    operand_ct = update_ct = None
    if is_linear(operand):
        operand_ct = dynamic_update_slice(ct, full(update.shape, scalar_like(ct, 0)), starts)
    if is_linear(update):
        update_ct = dynamic_slice(ct, starts, update.shape)
    return [operand_ct, update_ct, *[None] * len(starts)]


def _dynamic_update_slice_batch(axis_size: int, args: Sequence[Any], dims: Sequence[int | None]) -> tuple[Any, int]:
    (operand, update, *starts), (operand_dim, update_dim, *start_dims) = args, dims
    if all(d is None for d in start_dims):
        operand = move_batch_axis_to_front(operand, operand_dim, axis_size)
        update = move_batch_axis_to_front(update, update_dim, axis_size)
        return dynamic_update_slice(operand, update, (_zero_like(starts), *starts)), 0
    axes = tuple(range(len(starts)))
    return scatter_batch(
        axis_size,
        (operand, _index_vectors(axis_size, starts, start_dims), update),
        (operand_dim, 0, update_dim),
        dimension_numbers=ScatterDimensionNumbers(axes, (), axes),
        unique_indices=True,
        indices_are_sorted=True,
        mode=GatherScatterMode.CLIP,
    )


dynamic_update_slice_p = Primitive(
    name="dynamic_update_slice",
    doc="Replace a slice at a position that is computed.",
    multiple_results=False,
    abstract_eval=_dynamic_update_slice_aval,
    impl=lambda operand, update, *starts: kernels.dynamic_update_slice(operand, update, starts),
    jvp=JointlyLinear(_dynamic_update_slice_jvp, slice(2)),
    transpose=_dynamic_update_slice_transpose,
    batch=_dynamic_update_slice_batch,
    lower=Scattered(scattering.slice_loops, scattering.update_slice_at_rule),
    examples=lambda: [
        Example(args=(normal(3, 4), normal(2, 1, seed=1), np.int32(1), np.int32(2)), params={}),
        Example(args=(normal(3, 4), normal(1, 4, seed=1), np.int32(7), np.int32(-1)), params={}),
        Example(args=(normal(4), normal(0, seed=1), np.uint8(2)), params={}),
        Example(args=(normal(), normal(seed=1)), params={}),
        Example(args=(integers(4), integers(2, seed=1), np.int32(1)), params={}, differentiable=False),
    ],
)

# --- helpers ----------------------------------------------------------------------------------------------


def _check_starts(name: str, operand: Aval, starts: Sequence[Aval]) -> None:
    types = ", ".join(a.str_short() for a in starts)
    if len(starts) != operand.ndim:
        raise ShapeError(
            f"{name}: an operand of shape {operand.shape} needs {operand.ndim} start indices, one an axis, "
            f"but got {len(starts)}: {types}"
        )
    if any(a.shape or kind_of(a.dtype) not in "iu" for a in starts):
        raise DTypeError(f"{name}: start indices must be integer scalars, but are {types}")


def _check_sizes(name: str, operand: Aval, sizes: Sequence[int]) -> None:
    """Whether a slice of such sizes fits into the operand."""
    if len(sizes) != operand.ndim:
        raise ShapeError(
            f"{name}: a slice of shape {tuple(sizes)} needs as many axes as an operand of shape {operand.shape}"
        )
    for axis, (size, n) in enumerate(zip(sizes, operand.shape)):
        if size < 0:
            raise ShapeError(f"{name}: a slice has no negative sizes, but its shape is {tuple(sizes)}")
        if size > n:
            empty = "is empty" if n == 0 else f"has {n} position{'s' if n > 1 else ''}"
            raise ShapeError(
                f"{name}: axis {axis} of an operand of shape {operand.shape} {empty}, so no slice of size {size} "
                "lies within it, wherever it starts"
            )


def _zero_like(starts: Sequence[Any]) -> Any:
    return scalar_like(starts[0], 0) if starts else np.int32(0)


def _index_vectors(axis_size: int, starts: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """The start indices of each example as the rows of one array."""
    types = {aval_of(s).dtype for s in starts}
    dtype = types.pop() if len(types) == 1 else np.dtype(np.int64)
    columns = []
    for start, dim in zip(starts, dims):
        kept = () if dim is None else (0,)
        column = broadcast_in_dim(start, shape=(axis_size, 1), broadcast_dimensions=kept)
        columns.append(convert_element_type(column, dtype))
    return concatenate(columns, 1)
