"""Batching: trace for one example, then run the batch rules over the recorded operations.

Knows the batch rules of primitives; nothing of pytrees or of `in_axes`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from functad.array import ArrayImpl
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.observing import watching
from functad.primitives.common import move_axis
from functad.primitives.structure import broadcast_in_dim
from functad.tracing import Origin, Trace, Tracer, bind, last_reads
from functad.transforms.named_axes import batching, naming
from functad.user_source import set_source, transforming


def batch_flat(
    fun: Callable[..., Sequence[Any]],
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    arg_names: Sequence[Origin] | None = None,
    axis_name: Hashable = None,
) -> tuple[list[Any], list[int | None]]:
    """Outputs of `fun` mapped over axis `dims[i]` of each argument (None: not mapped), and their axes.

    axis_name: what `fun`, and rules that run later, call the mapped axis, if it has a name.
    """
    with Trace("vmap", replays=True) as trace:
        names = arg_names or [f"argument {i}" for i in range(len(args))]
        inputs = [
            a if d is None else trace.new_input(without_axis(aval_of(a), d), n) for a, d, n in zip(args, dims, names)
        ]
        if axis_name is None:
            outs = list(fun(*inputs))
        else:
            positions = ArrayImpl(np.arange(axis_size, dtype=np.int32))
            position = trace.new_input(Aval((), positions.dtype), f"the position along axis {axis_name!r}")
            with naming(axis_name, axis_size, position):
                outs = list(fun(*inputs))
            inputs, args, dims = [*inputs, position], [*args, positions], [*dims, 0]
    env: dict[int, tuple[Any, int | None]] = {id(t): (a, d) for t, a, d in zip(inputs, args, dims) if d is not None}

    def read(x: Any) -> tuple[Any, int | None]:
        return env[id(x)] if type(x) is Tracer and x.owner is trace else (x, None)

    ops = trace.take_ops()
    if watching.observer is not None:
        watching.observer.batched(trace, ops, [i for i, d in zip(inputs, dims) if d is not None], outs)
    last = last_reads(ops, outs)
    with transforming(), batching(axis_name):
        for op in ops:
            set_source(op.source)
            found = [read(a) for a in op.args]
            values, value_dims = tuple(v for v, _ in found), tuple(d for _, d in found)
            if value_dims.count(None) == len(value_dims):  # it depends on a call's result that is not mapped
                result, result_dims = bind(op.primitive, *values, **op.params), None
            else:
                result, result_dims = op.primitive.batch(axis_size, values, value_dims, **op.params)
            if not op.primitive.multiple_results:
                result, result_dims = (result,), (result_dims,)
            env.update(zip(map(id, op.outs), zip(result, result_dims or [None] * len(result))))
            for a in op.args:
                if last.get(id(a)) is op:
                    env.pop(id(a), None)
    pairs = [read(o) for o in outs]
    return [v for v, _ in pairs], [d for _, d in pairs]


def place_batch_axis(x: Any, dim: int | None, wanted: int, axis_size: int) -> Any:
    """Move the mapped axis of an output where it is wanted; an unmapped output is repeated along it."""
    if dim is not None:
        return move_axis(x, dim, wanted)
    aval = aval_of(x)
    shape = (*aval.shape[:wanted], axis_size, *aval.shape[wanted:])
    kept = tuple(i for i in range(len(shape)) if i != wanted)
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=kept)


def without_axis(aval: Aval, dim: int | None) -> Aval:
    """The type of one example."""
    if dim is None:
        return aval
    return Aval(aval.shape[:dim] + aval.shape[dim + 1 :], aval.dtype, aval.weak_type)
