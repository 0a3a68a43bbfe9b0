"""Identities that say something to those who transform or run a Program: `optimization_barrier`, `name`, `device_put`.

Knows nothing of what is done about it: `lowering/barriers.py` keeps order, policies of checkpoints read names, and
`execution.py` moves arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.array import ArrayImpl
from functad.device_arrays import DevicePlace, device_of, is_committed
from functad.ir import Absent, Aval, Example, Primitive, UndefinedPrimal, Zero
from functad.layouts import CPU, Device
from functad.lowering_rules import Placement, Scalar
from functad.primitive_record import takes_narrow
from functad.primitives.common import integers, normal
from functad.tracing import bind, value_behind


def optimization_barrier(*operands: Any) -> list[Any]:
    """The operands, none of which can be had before all of them are computed."""
    results: list[Any] = bind(optimization_barrier_p, *operands)
    return results


def name(x: Any, name: str) -> Any:
    return bind(name_p, x, name=name)


Location = Device | DevicePlace | None
_ANYWHERE = DevicePlace(None, False)


def put_on_devices(values: Sequence[Any], devices: Sequence[Location], srcs: Sequence[Location]) -> list[Any]:
    """The values, each where `device_arrays.put_on` puts it; `Zero` lies nowhere.

    srcs: where they are, to which their cotangents go back; None if nobody knows: then these follow others.
    """
    known = [i for i, v in enumerate(values) if not isinstance(v, Zero)]
    to, back = (tuple([side[i] for i in known]) for side in (devices, srcs))
    moved = iter(bind(device_put_p, *[values[i] for i in known], devices=to, srcs=back) if known else ())
    return [v if isinstance(v, Zero) else next(moved) for v in values]


def put_traced(x: Any, place: Location) -> Any:
    """A traced value at a place, and its cotangents back where the array lies that it stands for."""
    return put_on_devices([x], [place], [source_of(x)])[0]


def source_of(x: Any) -> Location:
    """Where an array lies, or the one that a tracer stands for: a device, if on purpose; None if there is none."""
    known = value_behind(x)
    if not isinstance(known, ArrayImpl):
        return None
    return device_of(known) if is_committed(known) else DevicePlace(device_of(known), False)


def _put_transposed(cts: Sequence[Any], *operands: Any, devices: Any, srcs: Any, **_: Any) -> list[Any]:
    arriving = [ct if isinstance(x, UndefinedPrimal) else Zero(ct.aval) for ct, x in zip(cts, operands)]
    back = [_ANYWHERE if src is None else src for src in srcs]
    found = put_on_devices(arriving, back, devices)  # the other way
    return [ct if isinstance(x, UndefinedPrimal) else None for ct, x in zip(found, operands)]


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
device_put_p: Primitive = Primitive(
    name="device_put",
    doc="The operands on devices: each on that in `devices`. `srcs` are those where cotangents are put; JAX's "
    "`copy_semantics` says nothing here.",
    multiple_results=True,
    abstract_eval=lambda *avals, **places: list(avals),
    impl=takes_narrow(lambda *operands, **places: list(operands)),
    jvp=lambda primals, outs, tangents, *, devices, srcs, **_: put_on_devices(tangents, devices, srcs),
    transpose=_put_transposed,
    batch=lambda axis_size, args, dims, **places: (bind(device_put_p, *args, **places), tuple(dims)),
    lower=Placement(),
    examples=lambda: [
        Example(args=(normal(2, 3), normal(2, seed=1)), params={"devices": (CPU, None), "srcs": (CPU, CPU)}),
        Example(
            args=(normal(0, 2), integers(2)), params={"devices": (CPU,) * 2, "srcs": (None,) * 2}, differentiable=False
        ),
    ],
)
