"""Jacobians and Hessians for users: the linear function of `linearize`, or its transpose, mapped over a basis.

Knows how to lay out the blocks in pytrees; the function itself runs once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from functad.api.arguments import LeafNames, check_callable, function_name, normalize_argnums
from functad.api.autodiff import linearized, raise_integer_input
from functad.array import ArrayImpl
from functad.ir import Aval, UndefinedPrimal
from functad.primitives.common import instantiate, reshape
from functad.tracing import aval_of
from functad.transforms.batching import batch_flat, place_batch_axis
from functad.transforms.reverse import LinearMap
from functad.tree_util import tree_unflatten


def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by forward mode, column by column (all at once through `vmap`): for wide outputs.

    Returns:
        A function that gives, for every output leaf and input leaf, an array of shape output shape + input shape.

    >>> import functad, functad.numpy as jnp
    >>> functad.jacfwd(lambda x: x * 2.)(jnp.ones(2))
    Array([[2., 0.],
           [0., 2.]], dtype=float32)
    """
    return _jacobian(fun, argnums, has_aux, "jacfwd", _push_basis)


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode, row by row (all at once through `vmap`): for wide inputs.

    >>> import functad, functad.numpy as jnp
    >>> functad.jacrev(lambda x: jnp.sum(x * x))(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    return _jacobian(fun, argnums, has_aux, "jacrev", _pull_basis)


jacobian = jacrev


def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """The matrix of second derivatives, forward over reverse.

    >>> import functad, functad.numpy as jnp
    >>> functad.hessian(lambda x: jnp.sum(x ** 3))(jnp.array([1., 2.]))
    Array([[ 6.,  0.],
           [ 0., 12.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux), argnums, has_aux)


def _jacobian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    transform: str,
    blocks_of: Callable[[LinearMap, Sequence[Aval], Sequence[Aval]], list[list[Any]]],
) -> Callable[..., Any]:
    check_callable(fun, transform)

    @wraps(fun, updated=())
    def jacobian_fun(*args: Any, **kwargs: Any) -> Any:
        numbers = normalize_argnums(argnums, len(args), transform, function_name(fun))

        def of_dynamic(*dynamic: Any) -> Any:
            given = list(args)
            for n, arg in zip(numbers, dynamic):
                given[n] = arg
            return fun(*given, **kwargs)

        dynamic = tuple(args[n] for n in numbers)
        outs, linear, record = linearized(of_dynamic, dynamic, has_aux, transform)
        record.names = LeafNames(fun, {n: args[n] for n in numbers})
        if not all(record.active):
            raise_integer_input(fun, [UndefinedPrimal(a) for a in record.avals], record.active, record.names)
        out_avals = [aval_of(o) for o in outs[: record.out_tree.num_leaves]]
        rows = blocks_of(linear, record.avals, out_avals)
        per_output = []
        for row in rows:
            grads, _ = tree_unflatten(record.in_tree, row)
            per_output.append(grads[0] if isinstance(argnums, (int, np.integer)) else grads)
        result = tree_unflatten(record.out_tree, per_output)
        return (result, *record.aux(outs)) if has_aux else result

    return jacobian_fun


def _basis(avals: Sequence[Aval]) -> list[Any]:
    """All unit vectors of a list of arrays, stacked along a new leading axis of each."""
    total = sum(a.size for a in avals)
    parts, start = [], 0
    for a in avals:
        part = np.zeros((total, a.size), a.dtype)
        part[np.arange(start, start + a.size), np.arange(a.size)] = 1
        parts.append(ArrayImpl(part.reshape(total, *a.shape)))
        start += a.size
    return parts


def _push_basis(linear: LinearMap, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> list[list[Any]]:
    total = sum(a.size for a in in_avals)
    found = _batched(lambda *tangents: linear(tangents), total, _basis(in_avals), out_axis=-1)
    blocks = []
    for column, out in zip(found, out_avals):
        parts = _split(column, [a.size for a in in_avals], axis=out.ndim)
        blocks.append([reshape(p, out.shape + a.shape) for p, a in zip(parts, in_avals)])
    return blocks


def _pull_basis(linear: LinearMap, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> list[list[Any]]:
    total = sum(a.size for a in out_avals)
    found = _batched(lambda *cts: linear.transpose(cts), total, _basis(out_avals), out_axis=0)
    per_input = [_split(f, [o.size for o in out_avals], axis=0) for f in found]
    return [
        [reshape(parts[i], out.shape + a.shape) for parts, a in zip(per_input, in_avals)]
        for i, out in enumerate(out_avals)
    ]


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
