"""Operations with positions outside of the array: functions of (modules, array of 5 floats, positions [1, 7, -9])."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Modules(NamedTuple):
    """functad's, or JAX's."""

    np: Any
    lax: Any
    vmap: Any
    grad: Any


CASES: dict[str, Callable[[Modules, Any, Any], Any]] = {
    "x[i]": lambda m, x, i: x[i],
    "x[i0]": lambda m, x, i: x[i[1]],
    "x[-i0]": lambda m, x, i: x[i[2]],
    "x[i0, i]": lambda m, x, i: m.np.reshape(x[:4], (2, 2))[i[1], i],
    "x[i, 1:]": lambda m, x, i: m.np.reshape(x[:4], (2, 2))[i, 1:],
    "x[1, i0]": lambda m, x, i: m.np.reshape(x[:4], (2, 2))[1, i[1]],
    "integers": lambda m, x, i: m.np.arange(5)[i],
    "booleans": lambda m, x, i: (x > 2)[i],
    "get": lambda m, x, i: x.at[i].get(),
    "get clip": lambda m, x, i: x.at[i].get(mode="clip"),
    "get fill": lambda m, x, i: x.at[i].get(mode="fill", fill_value=-1),
    "set": lambda m, x, i: x.at[i].set(9.0),
    "set scalar": lambda m, x, i: x.at[i[1]].set(9.0),
    "set clip": lambda m, x, i: x.at[i].set(9.0, mode="clip"),
    "set drop": lambda m, x, i: x.at[i].set(9.0, mode="drop"),
    "add": lambda m, x, i: x.at[i].add(1.0),
    "mul": lambda m, x, i: x.at[i].mul(2.0),
    "min": lambda m, x, i: x.at[i].min(-1.0),
    "max": lambda m, x, i: x.at[i].max(3.0),
    "apply": lambda m, x, i: x.at[i].apply(m.np.square),
    "take": lambda m, x, i: m.np.take(x, i),
    "take integers": lambda m, x, i: m.np.take(m.np.arange(5), i),
    "take clip": lambda m, x, i: m.np.take(x, i, mode="clip"),
    "take wrap": lambda m, x, i: m.np.take(x, i, mode="wrap"),
    "take_along_axis": lambda m, x, i: m.np.take_along_axis(x, i, 0),
    "put_along_axis": lambda m, x, i: m.np.put_along_axis(x, i, 9.0, 0, inplace=False),
    "unravel_index": lambda m, x, i: m.np.stack(m.np.unravel_index(i * 10, (2, 3))),
    "dynamic_slice": lambda m, x, i: m.lax.dynamic_slice(x, (i[1],), (3,)),
    "dynamic_slice below": lambda m, x, i: m.lax.dynamic_slice(x, (i[2],), (3,)),
    "dynamic_slice of an int": lambda m, x, i: m.lax.dynamic_slice(x, (7,), (3,)),
    "dynamic_slice of an int below": lambda m, x, i: m.lax.dynamic_slice(x, (-9,), (3,)),
    "dynamic_slice from the end": lambda m, x, i: m.lax.dynamic_slice(x, (-1,), (3,)),
    "dynamic_index_in_dim": lambda m, x, i: m.lax.dynamic_index_in_dim(x, i[1], 0),
    "dynamic_index_in_dim of an int": lambda m, x, i: m.lax.dynamic_index_in_dim(x, 7, 0),
    "dynamic_update_slice": lambda m, x, i: m.lax.dynamic_update_slice(x, m.np.ones(2), (i[1],)),
    "dynamic_update_slice of an int": lambda m, x, i: m.lax.dynamic_update_slice(x, m.np.ones(2), (7,)),
    "vmap of x[i]": lambda m, x, i: m.vmap(lambda j: x[j])(i),
    "vmap of set": lambda m, x, i: m.vmap(lambda j: x.at[j].set(9.0))(i),
    "grad of x[i]": lambda m, x, i: m.grad(lambda x: m.np.sum(x[i] ** 2))(x),
    "grad of set": lambda m, x, i: m.grad(lambda x: m.np.sum(x.at[i].set(9.0) ** 2))(x),
    "grad of take": lambda m, x, i: m.grad(lambda x: m.np.nansum(m.np.take(x, i) ** 2))(x),
}
"""What JAX computes for all of these is one thing, traced or not."""

MEANT = {"get clip", "get fill", "set clip", "set drop", "take clip", "take wrap", "unravel_index"}
"""The cases that say what happens outside, or for which it is the function's business."""
