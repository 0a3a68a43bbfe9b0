"""`vmap` for users: axes given as ints, None, or pytree prefixes.

Knows pytrees and axes; the batch rules are run by `functad.transforms.batching`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functad.api.arguments import (
    FlatFunction,
    LeafNames,
    P,
    R,
    as_value,
    check_callable,
    described_like,
    function_name,
    is_array_like,
)
from functad.errors import BatchingError, TreeError
from functad.evaluation import aval_of
from functad.transforms.batching import batch_flat, place_batch_axis
from functad.tree_util import broadcast_prefix, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten

MappedAxes = Any  # int, None, or a pytree of them that is a prefix of the arguments


def vmap(
    fun: Callable[P, R],
    in_axes: MappedAxes = 0,
    out_axes: MappedAxes = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
) -> Callable[P, R]:
    """Map a function over array axes, without a loop.

    Args:
        fun: a function of one example.
        in_axes: for the arguments, which axis to map: an int (negative counts from the end), None (not mapped: any
            object), or a tuple with one entry an argument; entries may be pytrees that are prefixes of the argument.
            Keyword arguments are mapped over axis 0.
        out_axes: where the mapped axis goes in the outputs: the same forms; None wants an output that does not
            depend on the mapped arguments.
        axis_name: a name for the mapped axis: `functad.lax.psum(x, axis_name)` is then the sum over all examples, and
            `functad.lax.axis_index(axis_name)` the position of the example.
        axis_size: the size of the mapped axis, needed only when no argument is mapped.

    Raises:
        BatchingError: axes that do not exist, or mapped axes of different sizes.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(lambda x, y: x + y, in_axes=(0, None))(jnp.arange(3.), 10.)
    Array([10., 11., 12.], dtype=float32)
    """
    check_callable(fun, "vmap")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)

    @described_like(fun)
    def vmapped(*args: Any, **kwargs: Any) -> Any:
        name = function_name(fun)
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise BatchingError(
                f"vmap: in_axes={in_axes} has {len(in_axes)} entries, but {name} was called with {len(args)} "
                f"positional argument{'s' if len(args) != 1 else ''}; give one entry an argument, or one int for all"
            )
        leaves, in_tree = tree_flatten((args, kwargs))
        names = LeafNames(fun, dict(enumerate(args)), kwargs)
        alone = type(in_axes) is int and not kwargs  # so it is every leaf's
        axes = [in_axes] * len(leaves) if alone else _flat_axes((in_axes, 0), (args, kwargs), name)
        values = [
            as_value(x, names.describe(i)) if d is not None or is_array_like(x) else x
            for i, (x, d) in enumerate(zip(leaves, axes))
        ]
        dims = [_checked_axis(d, v, names, i, in_axes) for i, (d, v) in enumerate(zip(axes, values))]
        size = _mapped_size(dims, values, names, axis_size, name, in_axes, axis_name)
        flat_fun = FlatFunction(fun, in_tree, transform="vmap")
        outs, out_dims = batch_flat(flat_fun, size, values, dims, names.origins(len(values)), axis_name)
        assert flat_fun.out_tree is not None
        out_tree = flat_fun.out_tree
        if type(out_axes) is int:
            wanted: list[int | None] = [out_axes] * len(outs)
        else:
            wanted = _flat_out_axes(out_axes, tree_unflatten(out_tree, outs), name)

        def where(i: int) -> str:
            path, _ = tree_flatten_with_path(tree_unflatten(out_tree, outs))[0][i]
            return f"output{keystr(path)} of {name}"

        placed = [_placed(o, d, w, size, partial(where, i)) for i, (o, d, w) in enumerate(zip(outs, out_dims, wanted))]
        return tree_unflatten(out_tree, placed)

    return vmapped


def _flat_axes(prefix: Any, args: Any, name: str) -> list[int | None]:
    try:
        return broadcast_prefix(prefix, args, is_leaf=lambda x: x is None)
    except (TreeError, ValueError) as problem:
        raise BatchingError(
            f"vmap: in_axes must be a pytree prefix of the arguments of {name}: an int or None for a whole argument, "
            f"or a container of the same structure with ints or Nones inside. {problem}"
        ) from None


def _flat_out_axes(prefix: Any, out: Any, name: str) -> list[int | None]:
    try:
        return broadcast_prefix(prefix, out, is_leaf=lambda x: x is None)
    except (TreeError, ValueError) as problem:
        raise BatchingError(
            f"vmap: out_axes must be a pytree prefix of the output of {name}: an int or None for a whole "
            f"output, or a container of the same structure. {problem}"
        ) from None


def _checked_axis(axis: Any, value: Any, names: LeafNames, i: int, in_axes: Any) -> int | None:
    if axis is None:
        return None
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise BatchingError(f"vmap: in_axes={in_axes!r} holds {axis!r} for `{names[i]}`; axes are ints or None")
    if not -value.ndim <= axis < value.ndim:
        raise BatchingError(
            f"vmap: cannot map axis {axis} of `{names[i]}`, which has shape {value.shape} "
            f"({value.ndim} axes). Choose an axis in -{value.ndim}..{value.ndim - 1}, or None (in in_axes={in_axes!r}) "
            "not to map this argument"
            if value.ndim
            else f"vmap: cannot map axis {axis} of `{names[i]}`, which is a scalar (shape ()). "
            f"Pass an array, or None for this argument in in_axes={in_axes!r}"
        )
    return axis % value.ndim


def _mapped_size(
    dims: Sequence[int | None],
    values: Sequence[Any],
    names: LeafNames,
    axis_size: int | None,
    name: str,
    in_axes: Any,
    axis_name: Any,
) -> int:
    sizes = {i: v.shape[d] for i, (v, d) in enumerate(zip(values, dims)) if d is not None}
    if axis_size is not None:
        sizes[-1] = axis_size
    if not sizes:
        raise BatchingError(
            f"vmap: no argument of {name} is mapped (in_axes={in_axes!r}), so the size of the mapped axis is unknown; "
            "map at least one argument, or give axis_size"
        )
    if len(set(sizes.values())) > 1:
        lines = "\n".join(
            f"  axis_size: {size}"
            if i < 0
            else f"  `{names[i]}`: shape {values[i].shape}, axis {dims[i]} has size {size}"
            for i, size in sizes.items()
        )
        axis = f" {axis_name!r}" if axis_name is not None else ""
        raise BatchingError(
            f"vmap: the mapped axes{axis} of the arguments of {name} must have one size, but have several:\n{lines}\n"
            "Slice or pad them to one size, or do not map the odd one (None in in_axes)"
        )
    return next(iter(sizes.values()))


def _placed(out: Any, dim: int | None, wanted: Any, size: int, where: Callable[[], str]) -> Any:
    if wanted is None:
        if dim is not None:
            raise BatchingError(
                f"vmap: out_axes is None for {where()}, but that output depends on the mapped arguments; "
                "give the axis where its examples shall be stacked, for instance 0"
            )
        return out
    rank = aval_of(out).ndim + (dim is None)
    if not isinstance(wanted, int) or not -rank <= wanted < rank:
        raise BatchingError(
            f"vmap: out_axes={wanted!r} does not fit {where()}, which has {rank} axes with the mapped one; "
            f"choose one in -{rank}..{rank - 1}"
        )
    return place_batch_axis(out, dim, wanted % rank, size)
