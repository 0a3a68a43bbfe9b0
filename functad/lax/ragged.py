"""Products of matrices whose rows, or summands, belong to groups of sizes that are data.

Knows masks and `dot_general`.

Shapes:
    Leading axes of matrices are those of a stack; other axes are counted in the function's words.

Raises:
    DTypeError: an operand is no array, or of a dtype that the operation does not take.
    ShapeError: shapes do not fit together, or an array has too few axes.
    ArgumentError: a padding, layout or option that there is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functad import numpy as jnp
from functad.array import Array
from functad.errors import ArgumentError, ShapeError
from functad.evaluation import aval_of
from functad.lax.loops import scan
from functad.lax.operands import operand, same_dtype
from functad.lax.products import dot_general
from functad.lax.shapes import broadcast_in_dim, broadcasted_iota
from functad.records import NamedTuple


class RaggedDotDimensionNumbers(NamedTuple):
    """Which axes a ragged product sums over, pairs, and divides into groups.

    Attributes:
        dot_dimension_numbers: as those of `dot_general`.
        lhs_ragged_dimensions: the axis of the left operand whose indices belong to groups.
        rhs_group_dimensions: the axis of the right operand along which the groups' matrices lie.

    >>> import numpy as np
    >>> from functad import lax
    >>> rows = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    >>> left, right = np.float32([[1], [2], [3]]), np.float32([[[1]], [[10]]])
    >>> lax.ragged_dot_general(left, right, np.int32([1, 2]), rows).tolist()
    [[1.0], [20.0], [30.0]]
    """

    dot_dimension_numbers: tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]


_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
    out_sharding: None = None,
) -> Array:
    """Rows of a matrix times matrices, one for each group of consecutive rows; rows after the last group give 0.

    Args:
        lhs: (m, k).
        rhs: (g, k, n), a matrix for each group.
        group_sizes: (g,) integers: how many rows each group has.
        precision: as in `dot_general`.
        preferred_element_type: the dtype of the result, in which it is computed.
        group_offset, out_sharding: accepted for JAX's sake; only None.

    Returns:
        An array (m, n). Its cost is that of g products of all rows.

    >>> import numpy as np
    >>> ragged_dot(np.float32([[1], [2], [3]]), np.float32([[[1]], [[10]]]), np.int32([1, 2]))
    Array([[ 1.],
           [20.],
           [30.]], dtype=float32)
    """
    shapes = tuple(aval_of(operand("ragged_dot", v)).shape for v in (lhs, rhs, group_sizes))
    if tuple(map(len, shapes)) != (2, 3, 1):
        raise ShapeError(f"lax.ragged_dot takes lhs (m, k), rhs (g, k, n) and group_sizes (g,), got {shapes}")
    return ragged_dot_general(
        lhs, rhs, group_sizes, _ROWS, precision, preferred_element_type, group_offset, out_sharding
    )


def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
    out_sharding: None = None,
) -> Array:
    """As `dot_general`, with one axis of lhs divided into groups.

    An axis of rows multiplies each group with its own part of rhs, which has an axis of groups. An axis summed over
    gives one product for each group, along a new first axis. An axis of pairs gives 0 where no group is.

    Args:
        lhs, rhs: arrays of one dtype.
        group_sizes: integers (g,), or one such vector for each index of the axes of lhs that are paired, or of its
            kind and before the divided one.
        ragged_dot_dimension_numbers: which axes are what.
        precision: as in `dot_general`.
        preferred_element_type: the dtype of the result, in which it is computed.
        group_offset, out_sharding: accepted for JAX's sake; only None.

    >>> import numpy as np
    >>> summed = RaggedDotDimensionNumbers((((0,), (0,)), ((), ())), (0,), ())
    >>> ragged_dot_general(np.float32([[1], [2], [3]]), np.ones((3, 1), np.float32), np.int32([1, 2]), summed)
    Array([[[1.]],
    <BLANKLINE>
           [[5.]]], dtype=float32)
    """
    if group_offset is not None or out_sharding is not None:
        raise ArgumentError("lax.ragged_dot: group_offset and out_sharding must be None; slice rhs and group_sizes")
    x, y = same_dtype("ragged_dot", lhs, rhs)
    sizes = jnp.asarray(operand("ragged_dot", group_sizes))
    numbers, (ragged,), of_groups = ragged_dot_dimension_numbers
    (contracting, _), (batch, _) = numbers
    masks = _masks(x, sizes, ragged, numbers)
    multiply = partial(dot_general, precision=precision, preferred_element_type=preferred_element_type)
    if ragged in batch:
        return multiply(jnp.where(masks.any(0), x, 0), y, numbers)
    if ragged in contracting:
        return _sums(multiply, x, y, masks, numbers)
    if len(of_groups) != 1:
        raise ArgumentError(f"lax.ragged_dot: rhs needs one axis of groups, but rhs_group_dimensions={of_groups}")
    return _rows(multiply, x, y, masks, numbers, of_groups[0])


def _masks(x: Any, sizes: Any, ragged: int, numbers: Any) -> Any:
    """(g, *shape of x): whether an element is in a group."""
    shape = aval_of(x).shape
    (contracting, _), (batch, _) = numbers
    kind = [d for d in range(len(shape)) if d not in batch and (d in contracting) == (ragged in contracting)]
    outer = [d for d in (batch if ragged in batch else kind) if d < ragged]
    outer = outer if ragged in batch else [*batch, *outer]
    groups = sizes.shape[-1]
    sizes = jnp.broadcast_to(sizes, (*(shape[d] for d in outer), groups))
    ends = jnp.moveaxis(jnp.cumsum(sizes, axis=-1), -1, 0)
    starts = ends - jnp.moveaxis(sizes, -1, 0)
    full, places = (groups, *shape), [0, *(d + 1 for d in outer)]
    starts, ends = (jnp.asarray(broadcast_in_dim(v, full, places)) for v in (starts, ends))
    at = broadcasted_iota(starts.dtype, full, ragged + 1)
    return (starts <= at) & (at < ends)


def _rows(multiply: Callable[..., Any], x: Any, y: Any, masks: Any, numbers: Any, group_axis: int) -> Array:
    (contracting, of_y), (batch, batch_of_y) = numbers
    without = [[d - (d > group_axis) for d in axes] for axes in (of_y, batch_of_y)]
    inner = ((contracting, without[0]), (batch, without[1]))
    kept = [*batch, *(d for d in range(aval_of(x).ndim) if d not in contracting and d not in batch)]
    # What is constant along summed axes, as every mask is, in the order of the result's axes
    masks = jnp.transpose(masks, (0, *(d + 1 for d in kept), *(d + 1 for d in contracting)))
    masks = _first(masks, len(contracting))

    def step(total: Any, group: Any) -> Any:
        part, mask = group
        product = jnp.asarray(multiply(x, part, inner))
        mask = mask.reshape(mask.shape + (1,) * (product.ndim - mask.ndim))
        return jnp.where(mask, product, total), None

    parts = jnp.moveaxis(y, group_axis, 0)
    first = multiply(x, jnp.zeros_like(parts[0]), inner)
    return jnp.asarray(scan(step, jnp.zeros_like(first), (parts, masks))[0])


def _sums(multiply: Callable[..., Any], x: Any, y: Any, masks: Any, numbers: Any) -> Array:
    (contracting, of_y), (batch, batch_of_y) = numbers
    pairs = dict(zip((*contracting, *batch), (*of_y, *batch_of_y)))
    rank = aval_of(x).ndim
    kept = [d for d in range(rank) if d in pairs]
    mask_of_y = jnp.transpose(masks, (0, *(d + 1 for d in kept), *(d + 1 for d in range(rank) if d not in pairs)))
    mask_of_y = _first(mask_of_y, rank - len(kept))
    full = (masks.shape[0], *aval_of(y).shape)
    mask_of_y = broadcast_in_dim(mask_of_y, full, [0, *(pairs[d] + 1 for d in kept)])

    def step(_: Any, group: Any) -> Any:
        of_x, of_y = group
        return None, multiply(jnp.where(of_x, x, 0), jnp.where(of_y, y, 0), numbers)

    return jnp.asarray(scan(step, None, (masks, mask_of_y))[1])


def _first(x: Any, count: int) -> Any:
    """The first element along so many last axes."""
    return x.reshape(*x.shape[: x.ndim - count], -1)[..., 0]
