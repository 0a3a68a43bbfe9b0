"""Collectives: what all examples of a named `vmap` make together, such as their sum.

Each takes, besides its operand, the position of the example along the named axis: by that it depends on the `vmap` of
this name, whatever stands between, and its batch rule tells that axis from others by whether the position is mapped.
Knows no names; they are looked up in `functad.lax`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Primitive, UndefinedPrimal, Zero
from functad.primitives.arithmetic import mul
from functad.primitives.common import NOT_LINEAR, move_axis, reduce_sum
from functad.primitives.dynamic_slicing import dynamic_slice
from functad.primitives.reduction import reduce_max, reduce_min
from functad.primitives.structure import broadcast_in_dim, squeeze
from functad.tracing import bind

_WITHIN = "it has a meaning only under the vmap that names its axis, which turns it into other operations"
_TESTED = "it takes the position along a named axis; tests/lax/test_collectives.py tests it under all transforms"


def psum(x: Any, position: Any) -> Any:
    """The sum over all examples, the same for each."""
    return bind(psum_p, x, position)


def pmax(x: Any, position: Any) -> Any:
    """The largest of all examples' elements."""
    return bind(pmax_p, x, position)


def pmin(x: Any, position: Any) -> Any:
    """The smallest of all examples' elements."""
    return bind(pmin_p, x, position)


def all_gather(x: Any, position: Any, size: int) -> Any:
    """The operands of all examples, along a new first axis."""
    return bind(all_gather_p, x, position, axis_size=size)


def _never_runs(x: np.ndarray, position: np.ndarray, **params: Any) -> Any:
    raise AssertionError("a collective has no value outside of its vmap")


def _all_together(again: Callable[..., Any], over: Callable[[Any, int | None, int], Any]) -> Callable[..., Any]:
    """The batch rule of a collective: `over(x, dim, size)` where this is its axis; of another axis each has its own."""

    def batch(size: int, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, int | None]:
        (x, position), (dim, position_dim) = args, dims
        if position_dim is not None:
            return over(x, dim, size), None
        assert dim is not None
        result = again(x, position, *params.values())
        return result, dim + (aval_of(result).ndim - aval_of(x).ndim)

    return batch


def _sum(x: Any, dim: int | None, size: int) -> Any:
    return mul(x, aval_of(x).dtype.type(size)) if dim is None else reduce_sum(x, axes=(dim,))


def _largest(x: Any, dim: int | None, size: int) -> Any:
    return x if dim is None else reduce_max(x, axes=(dim,))


def _smallest(x: Any, dim: int | None, size: int) -> Any:
    return x if dim is None else reduce_min(x, axes=(dim,))


def _gathered(x: Any, dim: int | None, size: int) -> Any:
    if dim is not None:
        return move_axis(x, dim, 0)
    shape = aval_of(x).shape
    return broadcast_in_dim(x, shape=(size, *shape), broadcast_dimensions=tuple(range(1, len(shape) + 1)))


def _own_part(gathered: Any, position: Any) -> Any:
    """The example's own row of what is the same for all."""
    aval = aval_of(gathered)
    starts = [position, *[np.int32(0)] * (aval.ndim - 1)]
    return squeeze(dynamic_slice(gathered, starts, (1, *aval.shape[1:])), (0,))


def _linear_jvp(again: Callable[..., Any], primals: Any, out: Any, tangents: Any, **params: Any) -> Any:
    tangent = tangents[0]
    return Zero(aval_of(out)) if isinstance(tangent, Zero) else again(tangent, primals[1], *params.values())


def _collective(
    again: Callable[..., Any],
    doc: str,
    over: Callable[..., Any],
    shape: Callable[..., Aval],
    jvp: Any,
    transpose: Any,
) -> Primitive:
    return Primitive(
        name=again.__name__,
        doc=doc,
        multiple_results=False,
        abstract_eval=shape,
        impl=_never_runs,
        jvp=jvp,
        transpose=transpose,
        batch=_all_together(again, over),
        lower=Absent(_WITHIN),
        examples=Absent(_TESTED),
    )


def _same(x: Aval, position: Aval) -> Aval:
    return Aval(x.shape, x.dtype)


def _with_axis(x: Aval, position: Aval, *, axis_size: int) -> Aval:
    return Aval((axis_size, *x.shape), x.dtype)


def _psum_transpose(ct: Any, x: UndefinedPrimal, position: Any) -> list[Any]:
    return [psum(ct, position), None]


def _all_gather_transpose(ct: Any, x: UndefinedPrimal, position: Any, *, axis_size: int) -> list[Any]:
    return [_own_part(psum(ct, position), position), None]


_NO_SLOPE = Absent("JAX has no rule for it; take the maximum of lax.all_gather(x, axis_name) along its first axis")

psum_p = _collective(psum, "Sum over a named axis.", _sum, _same, partial(_linear_jvp, psum), _psum_transpose)
pmax_p = _collective(pmax, "Maximum over a named axis.", _largest, _same, _NO_SLOPE, NOT_LINEAR)
pmin_p = _collective(pmin, "Minimum over a named axis.", _smallest, _same, _NO_SLOPE, NOT_LINEAR)
all_gather_p = _collective(
    all_gather,
    "All examples along a named axis.",
    _gathered,
    _with_axis,
    partial(_linear_jvp, all_gather),
    _all_gather_transpose,
)
