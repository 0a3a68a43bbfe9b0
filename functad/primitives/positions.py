"""The positions of extrema along an axis: argmax, argmin.

Knows reductions, which make them up where a kernel of their own is no faster. A NaN counts as the extremum; the first
one wins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from functad import dtypes, machine_model
from functad.dtypes import compute_dtype, kind_of
from functad.errors import DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval, Example, Primitive, ZeroDerivative
from functad.lowering_rules import Loops
from functad.primitives.builders import REALS, check_kind
from functad.primitives.common import (
    NOT_LINEAR,
    batched_axes,
    convert_element_type,
    expand_reduced,
    full,
    integers,
    normal,
    reduced_aval,
    reshape,
)
from functad.primitives.dimension_numbers import GatherDimensionNumbers, GatherScatterMode
from functad.primitives.elementwise import add, and_, eq, gt, lt, min, mul, ne, or_, select_n
from functad.primitives.gather_scatter import gather
from functad.primitives.joining import concatenate
from functad.primitives.loops.positions import position_rule
from functad.primitives.reduction import reduce_max, reduce_min, slice_along
from functad.primitives.structure import iota
from functad.tracing import bind


def argmax(operand: Any, *, axis: int, index_dtype: Any) -> Any:
    """Position of the first maximum along an axis; that of the first NaN where there is one."""
    return bind(argmax_p, operand, axes=(axis,), index_dtype=dtypes.as_dtype(index_dtype))


def argmin(operand: Any, *, axis: int, index_dtype: Any) -> Any:
    """Position of the first minimum along an axis; that of the first NaN where there is one."""
    return bind(argmin_p, operand, axes=(axis,), index_dtype=dtypes.as_dtype(index_dtype))


# --- as reductions ------------------------------------------------------------------------------------


def _as_reductions(kind: str, x: Aval, *, axes: tuple[int, ...], index_dtype: np.dtype) -> Callable[[Any], Any] | None:
    """The extremum, then the first place that has it, but of many blocks of columns that fit into a vector each."""
    (axis,), shape = axes, x.shape
    outer, length, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    row_bytes = inner * max(x.dtype.itemsize, index_dtype.itemsize)
    fits = inner in (2, 4, 8) and row_bytes <= machine_model.COLUMNS_IN_ONE_LOOP
    if not x.size or (fits and outer >= machine_model.FEW_ROWS):
        return None
    reduce = reduce_max if kind == "max" else reduce_min

    def place(x: Any) -> Any:
        x = _comparable(x, inner)
        if inner == 1 and length == 2:
            found = _place_of_two(kind, x, axis)
        elif inner == 1 and length > machine_model.EXTREMUM_BLOCK:
            found = reshape(_place_by_blocks(reduce, reshape(x, (outer, length))), (*shape[:axis], *shape[axis + 1 :]))
        else:
            found = _first_place(x, reduce(x, axes=axes), axis)
        return convert_element_type(found, index_dtype)

    return place


def _comparable(x: Any, inner: int) -> Any:
    """Booleans as numbers, and columns of narrow floats as float32, which vectors hold."""
    dtype = aval_of(x).dtype
    if dtype == np.bool_:
        return convert_element_type(x, np.uint8)
    return convert_element_type(x, compute_dtype(dtype)) if inner > 1 else x


def _first_place(x: Any, extremum: Any, axis: int) -> Any:
    """The first place along an axis at which an element equals the extremum, or is NaN as that is then."""
    shape = aval_of(x).shape
    dtype = np.int32 if shape[axis] <= np.iinfo(np.int32).max else np.int64
    is_there = eq(x, expand_reduced(extremum, (axis,), shape))
    if kind_of(aval_of(x).dtype) == "f":
        is_there = or_(is_there, ne(x, x))
    places = select_n(is_there, full(shape, dtype(shape[axis] - 1)), iota(dtype, shape, axis))
    return reduce_min(places, axes=(axis,))


def _place_of_two(kind: str, x: Any, axis: int) -> Any:
    """1 where the second element of two is beyond the first, or is the first NaN; else 0."""
    shape = aval_of(x).shape
    one, two = (reshape(slice_along(x, axis, k, k + 1), (*shape[:axis], *shape[axis + 1 :])) for k in (0, 1))
    is_second = gt(two, one) if kind == "max" else lt(two, one)
    if kind_of(aval_of(x).dtype) == "f":
        is_second = or_(is_second, and_(ne(two, two), eq(one, one)))
    return convert_element_type(is_second, np.int32)


def _place_by_blocks(reduce: Callable[..., Any], x: Any) -> Any:
    """Of each row the extrema of blocks, then the first block that has it, which alone is searched."""
    rows, length = aval_of(x).shape
    is_long = length >= machine_model.LONG_EXTREMUM_ROW
    size = machine_model.LONG_EXTREMUM_BLOCK if is_long else machine_model.EXTREMUM_BLOCK
    blocks, rest = divmod(length, size)
    whole = reshape(slice_along(x, 1, 0, blocks * size), (rows, blocks, size))
    extrema = [reduce(whole, axes=(2,))]
    if rest:
        extrema.append(reduce(slice_along(x, 1, blocks * size, length), axes=(1,)))
        extrema[1] = reshape(extrema[1], (rows, 1))
    extrema_of_blocks = concatenate(extrema, 1)
    extremum = reduce(extrema_of_blocks, axes=(1,))
    block = _first_place(extrema_of_blocks, extremum, 1)
    # The last block of all reaches back to where it is whole: what it has before its own elements is not the extremum.
    wide = np.int32 if length <= np.iinfo(np.int32).max else np.int64
    start = min(mul(convert_element_type(block, wide), full((rows,), wide(size))), full((rows,), wide(length - size)))
    numbers = GatherDimensionNumbers(
        offset_dims=(1,),
        collapsed_slice_dims=(),
        start_index_map=(1,),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
    )
    mode = GatherScatterMode.PROMISE_IN_BOUNDS
    searched = gather(x, reshape(start, (rows, 1)), numbers, (1, size), mode=mode)
    return add(start, convert_element_type(_first_place(searched, extremum, 1), wide))


# --- records -----------------------------------------------------------------------------------------


def _position(name: str, find: Callable[..., Any], extremum: str, doc: str) -> Primitive:
    def abstract_eval(x: Aval, *, axes: tuple[int, ...], index_dtype: np.dtype) -> Aval:
        check_kind(name, REALS + "b", x)
        if kind_of(index_dtype) not in "iu":
            raise DTypeError(f"{name}: index_dtype={index_dtype} is no integer dtype; use int32 or int64")
        out = reduced_aval(name, x, axes, index_dtype)
        if len(axes) != 1 or x.shape[axes[0]] == 0:
            raise ShapeError(
                f"{name}: axes={axes} do not fit an operand of shape {x.shape}: "
                "there must be one axis, and an element along it"
            )
        return out

    def batch(axis_size: int, args: Any, dims: Any, *, axes: tuple[int, ...], index_dtype: np.dtype) -> Any:
        new_axes, out_dim = batched_axes(dims[0], axes)
        return bind(made, args[0], axes=new_axes, index_dtype=index_dtype), out_dim

    def examples() -> list[Example]:
        int32, uint8 = np.dtype(np.int32), np.dtype(np.uint8)
        ties = np.array([[1, 2, 2], [3, np.nan, np.nan]], np.float32)
        shown = [
            (normal(3, 4), 0, int32, True),
            (normal(2, 3, 4), 1, uint8, True),
            (normal(5), 0, int32, True),
        ]
        shown += [(ties, 1, int32, False), (normal(0, 3), 1, int32, True)]
        shown += [(integers(2, 3), 1, int32, False)]
        return [
            Example(args=(x,), params={"axes": (a,), "index_dtype": dtype}, differentiable=d)
            for x, a, dtype, d in shown
        ]

    made = Primitive(
        name=name,
        doc=doc,
        multiple_results=False,
        abstract_eval=abstract_eval,
        impl=lambda x, *, axes, index_dtype: find(x, axis=axes[0]).astype(index_dtype),
        jvp=ZeroDerivative("a position is an integer"),
        transpose=NOT_LINEAR,
        batch=batch,
        lower=Loops(position_rule(extremum), composite=partial(_as_reductions, extremum)),
        examples=examples,
    )
    return made


argmax_p = _position("argmax", np.argmax, "max", "Position of the first maximum along an axis.")
argmin_p = _position("argmin", np.argmin, "min", "Position of the first minimum along an axis.")
