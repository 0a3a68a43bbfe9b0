"""What all examples of `vmap(f, axis_name=…)` make together, under JAX's names: sums, maxima, exchanges.

Knows trees and names; there is one device, so all of them become reductions and moves along the mapped axis.

Args:
    x: a pytree of arrays of any shapes.
    axis_name: the name that `vmap` gave the axis, or several.
    axis_index_groups: must be None.

Shapes:
    Each example has a result of the shape of its own array.

Raises:
    UnboundAxisError: no `vmap` around it has such an axis.
    ArgumentError: `axis_index_groups` is given.
    DTypeError: x holds what is no array.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from functad.array import Array
from functad.errors import ArgumentError
from functad.evaluation import aval_of
from functad.lax.operands import axis_of, operand
from functad.lax.slicing import dynamic_index_in_dim
from functad.numpy import arithmetic
from functad.primitives import collectives
from functad.primitives import elementwise as el
from functad.primitives.common import convert_element_type, full_like, move_axis, reshape
from functad.transforms.named_axes import NamedAxis, axis_named
from functad.tree_util import tree_map

AxisName = Hashable | Sequence[Hashable]


def _axes(axis_name: AxisName) -> list[NamedAxis]:
    names = axis_name if isinstance(axis_name, (tuple, list)) else (axis_name,)
    return [axis_named(name) for name in names]


def _no_groups(name: str, axis_index_groups: Any) -> None:
    if axis_index_groups is not None:
        raise ArgumentError(
            f"lax.{name}: axis_index_groups is not supported; reshape the mapped axis into groups and map twice, "
            "each vmap with a name of its own"
        )


def axis_size(axis_name: AxisName) -> int:
    """The number of examples along a named axis (along several, their product).

    Raises:
        UnboundAxisError: no `vmap` around has this name.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: x / axis_size("i"), axis_name="i")(jnp.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    size = 1
    for axis in _axes(axis_name):
        size *= axis.size
    return size


def axis_index(axis_name: AxisName) -> Array:
    """The position of the example along a named axis, an int32 scalar; of several, the first counts slowest.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: x * axis_index("i"), axis_name="i")(jnp.ones(3))
    Array([0., 1., 2.], dtype=float32)
    """
    index: Any = np.int32(0)
    for number, axis in enumerate(_axes(axis_name)):
        index = axis.position if number == 0 else el.add(el.mul(index, np.int32(axis.size)), axis.position)
    return index


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: None = None) -> Any:
    """The sum over all examples along a named axis, the same for each; a Python number is multiplied by their number.

    Args:
        x: a pytree of arrays.
        axis_name: the name, or several.
        axis_index_groups: None.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: x / psum(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([0.25, 0.75], dtype=float32)
    """
    _no_groups("psum", axis_index_groups)
    axes = _axes(axis_name)

    def total(leaf: Any) -> Any:
        if isinstance(leaf, (int, float, complex)) and not isinstance(leaf, np.generic):
            return leaf * axis_size(axis_name)
        leaf = operand("psum", leaf)
        if aval_of(leaf).dtype == np.bool_:
            leaf = convert_element_type(leaf, np.int32)
        for axis in axes:
            leaf = collectives.psum(leaf, axis.position)
        return leaf

    return tree_map(total, x)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: None = None) -> Any:
    """The mean over all examples along a named axis; integers give floats.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: x - pmean(x, "i"), axis_name="i")(jnp.array([1., 3.]))
    Array([-1.,  1.], dtype=float32)
    """
    size = axis_size(axis_name)

    def mean(leaf: Any) -> Any:
        return arithmetic.true_divide(leaf, size) if isinstance(leaf, Array) else leaf / size

    return tree_map(mean, psum(x, axis_name, axis_index_groups=axis_index_groups))


def _extremum(name: str, combine: Callable[..., Any], x: Any, axis_name: AxisName, axis_index_groups: Any) -> Any:
    _no_groups(name, axis_index_groups)
    axes = _axes(axis_name)

    def found(leaf: Any) -> Any:
        leaf = operand(name, leaf)
        for axis in axes:
            leaf = combine(leaf, axis.position)
        return leaf

    return tree_map(found, x)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: None = None) -> Any:
    """The largest of all examples' elements along a named axis.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: x / pmax(x, "i"), axis_name="i")(jnp.array([1., 4.]))
    Array([0.25, 1.  ], dtype=float32)
    """
    return _extremum("pmax", collectives.pmax, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: None = None) -> Any:
    """The smallest of all examples' elements along a named axis.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: x - pmin(x, "i"), axis_name="i")(jnp.array([1., 4.]))
    Array([0., 3.], dtype=float32)
    """
    return _extremum("pmin", collectives.pmin, x, axis_name, axis_index_groups)


def all_gather(
    x: Any, axis_name: AxisName, *, axis_index_groups: None = None, axis: int = 0, tiled: bool = False
) -> Any:
    """The operands of all examples along a named axis, the same for each.

    Args:
        x: a pytree of arrays.
        axis: where they are stacked along a new axis, or with `tiled` joined along one that is there.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: all_gather(x, "i"), axis_name="i")(jnp.arange(2.))
    Array([[0., 1.],
           [0., 1.]], dtype=float32)
    """
    _no_groups("all_gather", axis_index_groups)
    axes = _axes(axis_name)

    def gathered(leaf: Any) -> Any:
        leaf = operand("all_gather", leaf)
        rank = aval_of(leaf).ndim
        for named in reversed(axes):
            leaf = collectives.all_gather(leaf, named.position, named.size)
        shape = aval_of(leaf).shape[len(axes) :]
        leaf = reshape(leaf, (axis_size(axis_name), *shape))
        return _joined(leaf, axis_of("all_gather", axis, rank if tiled else rank + 1), tiled)

    return tree_map(gathered, x)


def _joined(parts: Any, axis: int, tiled: bool) -> Any:
    """The rows of an array stacked along another axis, or joined along it."""
    moved = move_axis(parts, 0, axis)
    shape = aval_of(moved).shape
    return reshape(moved, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])) if tiled else moved


def psum_scatter(
    x: Any, axis_name: AxisName, *, scatter_dimension: int = 0, axis_index_groups: None = None, tiled: bool = False
) -> Any:
    """`psum`, of which each example keeps its own part along an axis, whose size is the number of examples.

    Args:
        scatter_dimension: that axis. With `tiled` its size is a multiple of that number, and the axis stays.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: psum_scatter(x, "i"), axis_name="i")(jnp.arange(4.).reshape(2, 2))
    Array([2., 4.], dtype=float32)
    """
    size, index = axis_size(axis_name), axis_index(axis_name)

    def own(total: Any) -> Any:
        return _part(total, index, size, scatter_dimension, tiled, "psum_scatter")

    return tree_map(own, psum(x, axis_name, axis_index_groups=axis_index_groups))


def _part(x: Any, index: Any, size: int, axis: int, tiled: bool, name: str) -> Any:
    shape = aval_of(x).shape
    axis = axis_of(name, axis, len(shape))
    if shape[axis] % size if tiled else shape[axis] != size:
        what = f"a multiple of {size}" if tiled else f"{size}, the number of examples"
        raise ArgumentError(f"lax.{name}: axis {axis} of an operand of shape {shape} must have the size {what}")
    if tiled:
        x = reshape(x, (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]))
    return dynamic_index_in_dim(x, index, axis, keepdims=False)


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: None = None,
    tiled: bool = False,
) -> Any:
    """Each example gives every other one its part along an axis, and gets theirs.

    Args:
        split_axis: the axis that is handed out; its size is the number of examples (with `tiled`, a multiple).
        concat_axis: where the parts are stacked along a new axis (with `tiled`, joined along one that is there).

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: all_to_all(x, "i", 0, 0), axis_name="i")(jnp.arange(4.).reshape(2, 2))
    Array([[0., 2.],
           [1., 3.]], dtype=float32)
    """
    size, index = axis_size(axis_name), axis_index(axis_name)

    def exchanged(leaf: Any) -> Any:
        leaf = operand("all_to_all", leaf)
        rank = aval_of(leaf).ndim
        split, joint = axis_of("all_to_all", split_axis, rank), axis_of("all_to_all", concat_axis, rank)
        gathered = all_gather(leaf, axis_name, axis_index_groups=axis_index_groups)
        own = _part(gathered, index, size, split + 1, tiled, "all_to_all")
        return _joined(own, joint, tiled)

    return tree_map(exchanged, x)


def pswapaxes(x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: None = None) -> Any:
    """Swap the named axis with an axis of the operand, whose size is the number of examples.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: pswapaxes(x, "i", 0), axis_name="i")(jnp.arange(4.).reshape(2, 2))
    Array([[0., 2.],
           [1., 3.]], dtype=float32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send the operands of examples to others.

    Args:
        perm: pairs `(source, destination)` of positions along the named axis, none twice on either side; an example
            to which nothing is sent gets zeros.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(jnp.arange(1., 4.))
    Array([0., 1., 2.], dtype=float32)
    """
    size, index = axis_size(axis_name), axis_index(axis_name)
    sources, destinations = [s for s, _ in perm], [d for _, d in perm]
    if len(set(sources)) < len(perm) or len(set(destinations)) < len(perm):
        raise ArgumentError(f"lax.ppermute: perm={list(perm)!r} names a source or a destination twice")
    source_of = np.full(size, -1, np.int32)
    source_of[destinations] = sources
    source = dynamic_index_in_dim(source_of, index, 0, keepdims=False)

    def sent(leaf: Any) -> Any:
        gathered = all_gather(leaf, axis_name)
        arriving = dynamic_index_in_dim(gathered, el.max(source, np.int32(0)), 0, keepdims=False)
        return el.select_n(el.ge(source, np.int32(0)), full_like(arriving, 0), arriving)

    return tree_map(sent, x)


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """Give example k the operand of example `perm[k]`.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x: pshuffle(x, "i", [2, 0, 1]), axis_name="i")(jnp.arange(3.))
    Array([2., 0., 1.], dtype=float32)
    """
    if sorted(perm) != list(range(len(perm))):
        raise ArgumentError(f"lax.pshuffle: perm={list(perm)!r} is no permutation of 0 to {len(perm) - 1}")
    return ppermute(x, axis_name, list(zip(perm, range(len(perm)))))
