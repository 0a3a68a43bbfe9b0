"""Identities that say something to those who transform a Program: `optimization_barrier` and `name`.

Knows nothing of what is done about it: `lowering/barriers.py` keeps order, policies of checkpoints read names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.ir import Absent, Aval, Example, Primitive, UndefinedPrimal, Zero
from functad.lowering_rules import Scalar
from functad.primitives.common import integers, normal
from functad.tracing import bind


def optimization_barrier(*operands: Any) -> list[Any]:
    """The operands, none of which can be had before all of them are computed."""
    results: list[Any] = bind(optimization_barrier_p, *operands)
    return results


def name(x: Any, name: str) -> Any:
    return bind(name_p, x, name=name)


def _of_those_known(values: Sequence[Any]) -> list[Any]:
    """A barrier for the values that are not `Zero`."""
    passed = iter(optimization_barrier(*[v for v in values if not isinstance(v, Zero)]))
    return [v if isinstance(v, Zero) else next(passed) for v in values]


def _barrier_transpose(cts: Sequence[Any], *operands: Any) -> list[Any]:
    arriving = [ct if isinstance(x, UndefinedPrimal) else Zero(ct.aval) for ct, x in zip(cts, operands)]
    return [ct if isinstance(x, UndefinedPrimal) else None for ct, x in zip(_of_those_known(arriving), operands)]


optimization_barrier_p = Primitive(
    name="optimization_barrier",
    doc="The operands, none of which can be had before all of them are computed.",
    multiple_results=True,
    abstract_eval=lambda *avals: list(avals),
    impl=lambda *operands: list(operands),
    jvp=lambda primals, outs, tangents: _of_those_known(tangents),
    transpose=_barrier_transpose,
    batch=lambda axis_size, args, dims: (optimization_barrier(*args), tuple(dims)),
    lower=Absent("it is an order of computation, not a computation, and is taken out before Programs become loops"),
    examples=lambda: [
        Example(args=(normal(2, 3), normal(2, seed=1)), params={}),
        Example(args=(normal(2, 3), integers(2)), params={}, differentiable=False),
    ],
)
name_p: Primitive = Primitive(
    name="name",
    doc="x under a name, which policies of rematerialisation know it by.",
    multiple_results=False,
    abstract_eval=lambda x, *, name: Aval(x.shape, x.dtype),
    impl=lambda x, *, name: x,
    jvp=lambda primals, out, tangents, *, name: tangents[0],
    transpose=Absent("tangents have no name, so it is never applied to one"),
    batch=lambda axis_size, args, dims, *, name: (bind(name_p, *args, name=name), dims[0]),
    lower=Scalar("{0}"),
    examples=lambda: [
        Example(args=(normal(2, 3),), params={"name": "x"}),
        Example(args=(integers(2),), params={"name": "x"}, differentiable=False),
        Example(args=(np.float32(0),), params={"name": "x"}, along=(1,), agreed=(1, 0, 0)),
    ],
)
