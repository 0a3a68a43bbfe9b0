"""Jacobians and Hessians for users: the linear function of `linearize`, or its transpose, mapped over a basis.

Knows how to lay out the blocks in pytrees; the function itself runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.api.arguments import (
    LeafNames,
    P,
    check_argnums,
    check_callable,
    described_like,
    function_name,
    normalize_argnums,
    of_positions,
)
from functad.api.autodiff import LinearizedTypes, linearized
from functad.api.derivative_types import check_inputs, check_outputs
from functad.array import ArrayImpl
from functad.device_arrays import Place, at_place
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.primitives.common import convert_element_type, instantiate, reshape
from functad.transforms.batching import batch_flat, place_batch_axis
from functad.transforms.reverse import LinearMap
from functad.tree_util import tree_unflatten


def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """The Jacobian by forward mode, column by column (all at once through `vmap`): for wide outputs.

    Args:
        fun: returns a pytree of arrays (with `has_aux` a pair of it and anything).
        argnums: which positional arguments to differentiate, an int or several.
        has_aux: `fun` returns `(output, auxiliary)`.
        holomorphic: promises that `fun` is complex differentiable; arguments and outputs must then be complex.
            Without it arguments must be real.

    Returns:
        A function that gives, for every output leaf and input leaf, an array of shape output shape + input shape.

    >>> import functad, functad.numpy as jnp
    >>> functad.jacfwd(lambda x: x * 2.)(jnp.ones(2))
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    return _jacobian(fun, argnums, has_aux, holomorphic, False, "jacfwd", _push_basis)


def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """The Jacobian by reverse mode, row by row (all at once through `vmap`): for wide inputs.

    Arguments as for `jacfwd`, but that without `holomorphic` the outputs must be real, and arguments may be complex.

    >>> import functad, functad.numpy as jnp
    >>> functad.jacrev(lambda x: jnp.sum(x * x))(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    return _jacobian(fun, argnums, has_aux, holomorphic, allow_int, "jacrev", _pull_basis)


jacobian = jacrev


def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """The matrix of second derivatives, forward over reverse.

    >>> import functad, functad.numpy as jnp
    >>> functad.hessian(lambda x: jnp.sum(x ** 3))(jnp.array([1., 2.]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)


def _jacobian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    transform: str,
    blocks_of: Callable[[LinearMap, LinearizedTypes], list[list[Any]]],
) -> Callable[..., Any]:
    check_callable(fun, transform)
    check_argnums(argnums, transform)

    @described_like(fun)
    def jacobian_fun(*args: Any, **kwargs: Any) -> Any:
        numbers = normalize_argnums(argnums, len(args), transform, function_name(fun))

        dynamic = tuple(args[n] for n in numbers)
        names = LeafNames(fun, {n: args[n] for n in numbers})
        outs, linear, record = linearized(of_positions(fun, args, kwargs, numbers), dynamic, has_aux, transform, names)
        signature = record.signature
        check_inputs(transform, fun, signature.in_avals, names, holomorphic, allow_int)
        check_outputs(transform, fun, signature.out_avals, holomorphic)
        per_output = []
        for row, out in zip(blocks_of(linear, signature), signature.out_avals):
            found = iter(row)
            leaves = [
                next(found) if active else np.zeros(out.shape + a.shape, dtypes.float0)
                for a, active in zip(signature.in_avals, signature.active)
            ]
            grads, _ = tree_unflatten(signature.in_tree, leaves)
            per_output.append(grads[0] if isinstance(argnums, (int, np.integer)) else grads)
        result = tree_unflatten(signature.out_tree, per_output)
        return (result, *record.aux(outs)) if has_aux else result

    return jacobian_fun


def _basis(avals: Sequence[Aval], places: Sequence[Place | None]) -> list[Any]:
    """All unit vectors of a list of arrays, stacked along a new leading axis of each, where the arrays lie."""
    total = sum(a.size for a in avals)
    parts, start = [], 0
    for a, place in zip(avals, places):
        part = np.zeros((total, a.size), a.dtype)
        part[np.arange(start, start + a.size), np.arange(a.size)] = 1
        parts.append(at_place(ArrayImpl(part.reshape(total, *a.shape)), place))
        start += a.size
    return parts


def _push_basis(linear: LinearMap, s: LinearizedTypes) -> list[list[Any]]:
    in_avals, places = s.differentiable()
    total = sum(a.size for a in in_avals)
    found = _batched(lambda *tangents: linear(tangents), total, _basis(in_avals, places), out_axis=-1)
    blocks = []
    for column, out, place in zip(found, s.out_avals, s.out_places):
        parts = _split(at_place(column, place), [a.size for a in in_avals], axis=out.ndim)
        blocks.append([_as_weak_as(out, reshape(p, out.shape + a.shape)) for p, a in zip(parts, in_avals)])
    return blocks


def _pull_basis(linear: LinearMap, s: LinearizedTypes) -> list[list[Any]]:
    in_avals, places = s.differentiable()
    total = sum(a.size for a in s.out_avals)
    found = _batched(lambda *cts: linear.transpose(cts), total, _basis(s.out_avals, s.out_places), out_axis=0)
    sizes = [o.size for o in s.out_avals]
    per_input = [_split(at_place(f, place), sizes, axis=0) for f, place in zip(found, places)]
    return [
        [_as_weak_as(a, reshape(parts[i], out.shape + a.shape)) for parts, a in zip(per_input, in_avals)]
        for i, out in enumerate(s.out_avals)
    ]


def _as_weak_as(like: Aval, block: Any) -> Any:
    return convert_element_type(block, aval_of(block).dtype, like.weak_type)


def _batched(fun: Callable[..., Sequence[Any]], size: int, args: Sequence[Any], out_axis: int) -> list[Any]:
    outs, dims = batch_flat(lambda *xs: [instantiate(o) for o in fun(*xs)], size, args, [0] * len(args))
    return [place_batch_axis(o, d, out_axis % (aval_of(o).ndim + (d is None)), size) for o, d in zip(outs, dims)]


def _split(x: Any, sizes: Sequence[int], axis: int) -> list[Any]:
    parts, start = [], 0
    for size in sizes:
        index = (slice(None),) * axis + (slice(start, start + size),)
        parts.append(x if len(sizes) == 1 else x[index])
        start += size
    return parts
