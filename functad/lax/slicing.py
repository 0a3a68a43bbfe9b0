"""Reading and writing parts of arrays, at static and at computed positions, under JAX's names.

Knows no bracket syntax: that of `x[index]` and `x.at[index]` is in `functad.numpy`.

Args:
    scatter_indices, updates: where, and what is put there.

Shapes:
    The elements keep their dtype, and the result has the shape that the function says: an axis that is sorted,
    reversed or updated keeps its size.

Raises:
    DTypeError: an operand is no array, or of a dtype that the operation does not take.
    ShapeError: an array has no such axis, or does not fit the sizes that are asked for.
    ArgumentError: dimension numbers are none, or there is no such mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from functad import dtypes
from functad.api.mapping import vmap
from functad.array import Array
from functad.debug.bounds import check_positions
from functad.errors import ArgumentError, OutOfBoundsError, ShapeError
from functad.evaluation import aval_of
from functad.lax.loops import while_loop
from functad.lax.operands import axis_of, bind_checked, integers_of, same_dtype
from functad.lax.operands import operand as _operand
from functad.numpy import arithmetic
from functad.numpy.index_plan import position_dtype
from functad.numpy.promotion import asarray
from functad.primitives import elementwise as el
from functad.primitives import gather_scatter, joining, structure
from functad.primitives.common import convert_element_type, scalar_like
from functad.primitives.dimension_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from functad.primitives.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p
from functad.primitives.gather_scatter import gather_p
from functad.primitives.kernels.indexing import default_fill_value

N = TypeVar("N", GatherDimensionNumbers, ScatterDimensionNumbers)

# --- static slices ----------------------------------------------------------------------------------------


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """A rectangular part of an array.

    Args:
        operand: an array.
        start_indices, limit_indices: for each axis the first index, and the one after the last; not negative.
        strides: for each axis the step, by default 1.

    Raises:
        ShapeError: the part does not lie within the array.

    >>> import numpy as np
    >>> slice(np.int32([0, 1, 2, 3, 4]), (1,), (5,), (2,))
    Array([1, 3], dtype=int32)
    """
    return bind_checked(
        structure.slice_p,
        _operand("slice", operand),
        start_indices=integers_of("slice", "start_indices", start_indices),
        limit_indices=integers_of("slice", "limit_indices", limit_indices),
        strides=None if strides is None else integers_of("slice", "strides", strides),
    )


def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Array:
    """A part of an array along one axis, whole along the others.

    Args:
        operand: an array.
        start_index, limit_index: the first index and the one after the last; negative ones count from the end, and
            None is the end of the axis.
        stride: the step.
        axis: the axis.

    >>> import numpy as np
    >>> slice_in_dim(np.int32([0, 1, 2, 3]), 1, -1)
    Array([1, 2], dtype=int32)
    """
    x = _operand("slice_in_dim", operand)
    shape = aval_of(x).shape
    axis = axis_of("slice_in_dim", axis, len(shape))
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = 0 if start_index is None else _from_end(start_index, shape[axis])
    limits[axis] = shape[axis] if limit_index is None else _from_end(limit_index, shape[axis])
    strides[axis] = stride
    return slice(x, starts, limits, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """One position along an axis.

    Args:
        operand: an array.
        index: a Python integer; a negative one counts from the end.
        axis: the axis, which keeps size 1 with `keepdims`, and else is dropped.

    Raises:
        OutOfBoundsError: there is no such position.

    >>> import numpy as np
    >>> index_in_dim(np.int32([0, 1, 2]), -1, keepdims=False)
    Array(2, dtype=int32)
    """
    x = _operand("index_in_dim", operand)
    axis = axis_of("index_in_dim", axis, aval_of(x).ndim)
    size = aval_of(x).shape[axis]
    (index,) = integers_of("index_in_dim", "index", (index,))
    if not -size <= index < size:
        raise OutOfBoundsError(f"lax.index_in_dim: index {index} is out of bounds for axis {axis} of size {size}")
    part = slice_in_dim(x, index % size, index % size + 1, 1, axis)
    return part if keepdims else structure.squeeze(part, (axis,))


# --- slices at a computed position ------------------------------------------------------------------------


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A slice of static size whose position may be computed.

    Args:
        operand: an array.
        start_indices: for each axis an integer scalar, or all of them in one array. Where the slice would not lie
            within the operand, it is moved until it does (with `config.debug_index` that raises).
        slice_sizes: for each axis the size of the slice, static.
        allow_negative_indices: whether negative indices count from the end, for all axes or for each.

    >>> import numpy as np
    >>> dynamic_slice(np.int32([0, 1, 2, 3]), (np.int32(1),), (2,))
    Array([1, 2], dtype=int32)
    """
    x = _operand("dynamic_slice", operand)
    sizes = integers_of("dynamic_slice", "slice_sizes", slice_sizes)
    starts = _starts("dynamic_slice", aval_of(x).shape, start_indices, sizes, allow_negative_indices)
    return bind_checked(dynamic_slice_p, x, *starts, slice_sizes=sizes)


def dynamic_slice_in_dim(
    operand: Any, start_index: Any, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Array:
    """`dynamic_slice` along one axis, whole along the others.

    >>> import numpy as np
    >>> dynamic_slice_in_dim(np.int32([0, 1, 2, 3]), np.int32(1), 2)
    Array([1, 2], dtype=int32)
    """
    x = _operand("dynamic_slice_in_dim", operand)
    shape = aval_of(x).shape
    axis = axis_of("dynamic_slice_in_dim", axis, len(shape))
    starts: list[Any] = [0] * len(shape)
    sizes = list(shape)
    starts[axis], sizes[axis] = start_index, slice_size
    return dynamic_slice(x, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: Any, index: Any, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Array:
    """One position, which may be computed, along an axis.

    >>> import numpy as np
    >>> dynamic_index_in_dim(np.int32([0, 1, 2]), np.int32(-1), keepdims=False)
    Array(2, dtype=int32)
    """
    part = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return part if keepdims else structure.squeeze(part, (axis_of("dynamic_index_in_dim", axis, part.ndim),))


def dynamic_update_slice(
    operand: Any, update: Any, start_indices: Any, *, allow_negative_indices: bool | Sequence[bool] = True
) -> Array:
    """An array with a slice replaced, whose position may be computed.

    Args:
        operand: an array.
        update: what replaces the slice: as many axes, no size larger, the same dtype.
        start_indices, allow_negative_indices: as for `dynamic_slice`.

    >>> import numpy as np
    >>> dynamic_update_slice(np.int32([0, 1, 2, 3]), np.int32([7, 8]), (np.int32(1),))
    Array([0, 7, 8, 3], dtype=int32)
    """
    x, update = same_dtype("dynamic_update_slice", operand, update)
    sizes = aval_of(update).shape
    starts = _starts("dynamic_update_slice", aval_of(x).shape, start_indices, sizes, allow_negative_indices)
    return bind_checked(dynamic_update_slice_p, x, update, *starts)


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """`dynamic_update_slice` along one axis, from the start along the others.

    >>> import numpy as np
    >>> dynamic_update_slice_in_dim(np.int32([0, 1, 2, 3]), np.int32([7]), np.int32(-1), axis=0)
    Array([0, 1, 2, 7], dtype=int32)
    """
    x = _operand("dynamic_update_slice_in_dim", operand)
    ndim = aval_of(x).ndim
    starts: list[Any] = [0] * ndim
    starts[axis_of("dynamic_update_slice_in_dim", axis, ndim)] = start_index
    return dynamic_update_slice(x, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """An array with one position along an axis replaced; the update may lack that axis.

    >>> import numpy as np
    >>> dynamic_update_index_in_dim(np.int32([0, 1, 2]), 7, np.int32(1), axis=0)
    Array([0, 7, 2], dtype=int32)
    """
    x, update = same_dtype("dynamic_update_index_in_dim", operand, update)
    ndim = aval_of(x).ndim
    axis = axis_of("dynamic_update_index_in_dim", axis, ndim)
    if aval_of(update).ndim != ndim:
        update = structure.expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(x, update, index, axis, allow_negative_indices=allow_negative_indices)


def _starts(
    name: str,
    shape: tuple[int, ...],
    indices: Any,
    sizes: Sequence[int],
    allow_negative: bool | Sequence[bool],
) -> list[Any]:
    """Start indices as scalars of one integer dtype; negative ones count from the end where that is allowed."""
    if isinstance(indices, Array):
        if indices.ndim != 1:
            raise ShapeError(f"lax.{name}: an array of start indices must have 1 axis, got shape {indices.shape}")
        indices = [index_in_dim(indices, i, keepdims=False) for i in range(indices.shape[0])]
    if not hasattr(indices, "__len__") or len(indices) != len(shape) or len(sizes) != len(shape):
        raise ShapeError(
            f"lax.{name}: start_indices={indices!r:.80} and the slice's sizes {tuple(sizes)} must have one entry "
            f"for each axis of an operand of shape {shape}"
        )
    wraps = [allow_negative] * len(shape) if isinstance(allow_negative, bool) else list(allow_negative)
    indices = [el.wide_indices(i, max(shape)) if isinstance(i, Array) else i for i in indices]
    computed = {i.dtype for i in indices if isinstance(i, Array)}
    dtype = max(computed, key=lambda d: d.itemsize) if computed else dtypes.default_int_dtype()
    starts: list[Any] = []
    for axis, (index, n, size, wrap) in enumerate(zip(indices, shape, sizes, wraps, strict=True)):
        start: Any
        if isinstance(index, Array):
            start = convert_element_type(index, dtype)
            start = _wrapped(start, n) if wrap else start
        else:
            (number,) = integers_of(name, "start_indices", (index,))
            start = dtype.type(min(max(_from_end(number, n) if wrap else number, -1), n))  # outside stays outside
        check_positions(start, 0, n - size, partial(_does_not_fit, name, size, axis, shape))
        starts.append(start)
    return starts


def _does_not_fit(name: str, size: int, axis: int, shape: tuple[int, ...], start: int) -> OutOfBoundsError:
    return OutOfBoundsError(
        f"lax.{name}: a slice of size {size} that starts at {start} does not lie within axis {axis} of an operand of "
        f"shape {shape}, so it would be moved until it does"
    )


def _wrapped(index: Any, size: int) -> Any:
    return el.select_n(el.lt(index, scalar_like(index, 0)), index, el.add(index, scalar_like(index, size)))


def _from_end(index: int, size: int) -> int:
    return index + size if index < 0 else index


# --- gather and scatter -----------------------------------------------------------------------------------


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """Slices of an array at positions given by an array of indices; `x[index]` is easier to write.

    Args:
        operand: an array.
        start_indices: integers `(*batch, k)`: index vectors of k components.
        dimension_numbers: which axes are what, see `GatherDimensionNumbers`.
        slice_sizes: for each axis of the operand the size of a slice.
        unique_indices, indices_are_sorted: promises that allow a faster way.
        mode: "clip", "fill" or "promise_in_bounds" (the default), see `GatherScatterMode`.
        fill_value: what "fill" fills with; by default NaN, the lowest signed or highest unsigned integer, True.

    >>> import numpy as np
    >>> rows = GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> gather(np.int32([[1, 2], [3, 4]]), np.int32([[1], [0], [1]]), rows, slice_sizes=(1, 2))
    Array([[3, 4],
           [1, 2],
           [3, 4]], dtype=int32)
    """
    x = _operand("gather", operand)
    gather_mode = GatherScatterMode.from_any("promise_in_bounds" if mode is None else mode)
    if gather_mode is not GatherScatterMode.FILL_OR_DROP:
        fill_value = None
    elif fill_value is None:
        fill_value = default_fill_value(aval_of(x).dtype)
    return bind_checked(
        gather_p,
        x,
        _operand("gather", start_indices),
        dimension_numbers=_numbers_of("gather", GatherDimensionNumbers, dimension_numbers),
        slice_sizes=integers_of("gather", "slice_sizes", slice_sizes),
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        mode=gather_mode,
        fill_value=fill_value,
    )


def _numbers_of(name: str, kind: type[N], numbers: Any) -> N:
    """Dimension numbers with tuples of axes."""
    if not isinstance(numbers, tuple):
        raise ArgumentError(f"lax.{name}: dimension_numbers must be lax.{kind.__name__}(...), got {numbers!r:.80}")
    return kind(*map(tuple, numbers))


def _scatter(name: str, what: str, result: str) -> Callable[..., Array]:
    primitive = getattr(gather_scatter, f"{name}_p")

    def fun(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Any:
        x, values = same_dtype(name, operand, updates)
        return bind_checked(
            primitive,
            x,
            _operand(name, scatter_indices),
            values,
            dimension_numbers=_numbers_of(name, ScatterDimensionNumbers, dimension_numbers),
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=GatherScatterMode.from_any(mode),
        )

    method = {"scatter": "set", "scatter_mul": "multiply"}.get(name, name.removeprefix("scatter_"))
    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"""{what}; `x.at[index].{method}(...)` is easier to write.

    Args:
        operand: an array.
        scatter_indices: integers `(*batch, k)`: index vectors of k components.
        updates: slices, one for each index vector, of the dtype of the operand.
        dimension_numbers: which axes are what, see `ScatterDimensionNumbers`.
        indices_are_sorted, unique_indices: promises that allow a faster way.
        mode: "drop" (the default), "clip" or "promise_in_bounds", see `GatherScatterMode`.

    >>> import numpy as np
    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> {name}(np.int32([2, 4, 6]), np.int32([[1], [1]]), np.int32([5, 3]), places)
    {result}
    """
    return fun


scatter = _scatter(
    "scatter", "An array with slices replaced, of which the last one stays", "Array([2, 3, 6], dtype=int32)"
)
scatter_add = _scatter("scatter_add", "An array with slices added to it", "Array([ 2, 12,  6], dtype=int32)")
scatter_mul = _scatter("scatter_mul", "An array multiplied by slices", "Array([ 2, 60,  6], dtype=int32)")
scatter_min = _scatter("scatter_min", "The minimum of an array and slices", "Array([2, 3, 6], dtype=int32)")
scatter_max = _scatter("scatter_max", "The maximum of an array and slices", "Array([2, 5, 6], dtype=int32)")


def scatter_sub(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """An array with slices subtracted from it; the arguments are those of `scatter_add`.

    >>> import numpy as np
    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_sub(np.int32([2, 4]), np.int32([[1]]), np.int32([3]), places)
    Array([2, 1], dtype=int32)
    """
    x, values = same_dtype("scatter_sub", operand, updates)
    return scatter_add(
        x,
        scatter_indices,
        el.neg(values),
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """An array with a function applied to its slices, as often as an index is there; `x.at[index].apply(f)` is easier.

    Args:
        operand: an array.
        scatter_indices: integers `(*batch, k)`: index vectors of k components.
        func: a function of one element, which keeps its dtype.
        dimension_numbers: which axes are what, see `ScatterDimensionNumbers`.
        update_shape: the shape that updates would have: `batch`, and the sizes of a slice.
        indices_are_sorted, unique_indices, mode: as in `scatter_add`.

    >>> import numpy as np
    >>> places = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    >>> scatter_apply(np.int32([2, 4]), np.int32([[1], [1]]), lambda x: 2 * x, places, update_shape=(2,))
    Array([ 2, 16], dtype=int32)
    """
    x = asarray(_operand("scatter_apply", operand))
    shape = x.shape
    counts = scatter_add(
        np.zeros(shape, np.int32),
        scatter_indices,
        np.ones(tuple(update_shape), np.int32),
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )

    def is_left(state: Any) -> Any:
        return (state[1] > 0).any()

    def apply(state: Any) -> Any:
        values, left = state
        applied = vmap(func)(values.reshape(-1)).reshape(shape)
        return el.select_n(left > 0, values, applied), left - 1

    return asarray(while_loop(is_left, apply, (x, counts))[0])


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """Slices of an array at positions along some axes, one for each element of vectors of indices, from 0 on.

    Args:
        src: an array.
        idxs: for each of the axes a vector of integers; negative ones count from the end.
        axes: the axes.

    Returns:
        An array of shape (indices, *other axes of src).

    >>> import numpy as np
    >>> index_take(np.int32([[1, 2], [3, 4]]), [np.int32([1, 0])], [1])
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    x = asarray(_operand("index_take", src))
    sizes, taken = list(x.shape), tuple(axes)
    vectors = [el.wide_indices(_operand("index_take", i), max(sizes)) for i in idxs]
    dtype = position_dtype(x.shape)
    vectors = [convert_element_type(arithmetic.mod(v, sizes[axis]), dtype) for v, axis in zip(vectors, taken)]
    indices = joining.concatenate([v.reshape(-1, 1) for v in vectors], dimension=1)
    for axis in taken:
        sizes[axis] = 1
    numbers = GatherDimensionNumbers(tuple(range(1, len(sizes) - len(taken) + 1)), taken, taken)
    return gather(x, indices, numbers, sizes)
