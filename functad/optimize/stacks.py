"""Rules for stacked arrays, such as the coordinates of points: what is done to all of them is done to each.

So a step of an equation that is written with vectors, `jnp.stack([y, -x])`, is one loop over points, and no vector is
put together before its end.
"""

from __future__ import annotations

import math
from typing import Any

from functad import machine_model
from functad.editing.rewriting import View, spliced
from functad.ir import Eqn
from functad.lowering_rules import Scalar
from functad.primitives.common import reshape_p
from functad.primitives.joining import stack, stack_p, unstack
from functad.tracing import bind


def slice_of_stack(eqn: Eqn, view: View) -> Eqn | None:
    """All of one of the arrays that were stacked: a step of an unrolled loop."""
    stacked = view.definition(eqn.invars[0], stack_p)
    if not stacked or not eqn.outvars[0].aval.size:
        return None
    axis, shape = stacked.params["axis"], eqn.outvars[0].aval.shape
    part = stacked.invars[eqn.params["start_indices"][axis]]
    if shape[axis] != 1 or part.aval.size != math.prod(shape):
        return None
    return eqn.replace(primitive=reshape_p, invars=[part], params={"new_sizes": shape})


def unstacked(eqn: Eqn, view: View) -> list[Eqn] | None:
    """The arrays that were stacked."""
    stacked = view.definition(eqn.invars[0], stack_p)
    if not stacked or stacked.params != eqn.params:
        return None
    params = {"new_sizes": eqn.outvars[0].aval.shape}
    return [
        eqn.replace(primitive=reshape_p, invars=[part], params=params, outvars=[out])
        for part, out in zip(stacked.invars, eqn.outvars)
    ]


def each_of_stack(eqn: Eqn, view: View) -> list[Eqn] | None:
    """An element-wise operation on each of few stacked arrays."""
    if not isinstance(eqn.primitive.lower, Scalar) or len(eqn.outvars) > 1:
        return None
    stacks = [s for s in (view.definition(a, stack_p) for a in eqn.invars) if s is not None]
    few = stacks and len(stacks[0].invars) <= machine_model.MOST_STACKED_APART
    if not few or any(part.aval.weak_type != s.outvars[0].aval.weak_type for s in stacks for part in s.invars):
        return None
    axis, count = stacks[0].params["axis"], len(stacks[0].invars)

    def each(*operands: Any) -> list[Any]:
        parts = [unstack(x, axis) if x.shape else [x] * count for x in operands]
        return [stack([bind(eqn.primitive, *part, **eqn.params) for part in zip(*parts)], axis)]

    return spliced(each, eqn.invars, eqn)
