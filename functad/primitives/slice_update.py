"""Slices at known places that are replaced or added to: `update_slice`, `add_to_slice`.

Knows slices and padding. What lies at a computed place is written by `dynamic_update_slice` and scatters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.dtypes import refuse_keys
from functad.errors import ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval, Example, JointlyLinear, Primitive, Zero
from functad.lowering_rules import Indexed
from functad.primitives.common import (
    full,
    instantiate,
    integers,
    is_linear,
    move_batch_axis_to_front,
    normal,
    scalar_like,
)
from functad.primitives.joining import check_one_dtype
from functad.primitives.loops import moving
from functad.primitives.structure import pad, padding_around, slice_
from functad.tracing import bind

Along = Sequence[int]  # a number for each axis


def update_slice(operand: Any, update: Any, start_indices: Along, strides: Along | None = None) -> Any:
    """The operand with every `strides[i]`-th element along axis i, from `start_indices[i]` on, replaced."""
    return _bind(update_slice_p, operand, update, start_indices, strides)


def add_to_slice(operand: Any, update: Any, start_indices: Along, strides: Along | None = None) -> Any:
    """The operand with an update added to such elements."""
    return _bind(add_to_slice_p, operand, update, start_indices, strides)


def slice_like(operand: Any, update: Any, start_indices: Along, strides: Along | None = None) -> Any:
    """The elements of the operand that an update would replace."""
    steps = strides or (1,) * len(start_indices)
    limits = [start + max((n - 1) * s + 1, 0) for start, n, s in zip(start_indices, aval_of(update).shape, steps)]
    return slice_(operand, start_indices, limits, strides)


def _bind(primitive: Primitive, operand: Any, update: Any, start_indices: Along, strides: Along | None) -> Any:
    plain = strides is None or all(s == 1 for s in strides)
    params = {"start_indices": tuple(start_indices), "strides": None if plain or strides is None else tuple(strides)}
    return bind(primitive, operand, update, **params)


def _aval(name: str, operand: Aval, update: Aval, *, start_indices: Along, strides: Along | None) -> Aval:
    check_one_dtype(name, (operand, update))
    steps = strides or (1,) * len(start_indices)
    if not operand.ndim == update.ndim == len(start_indices) == len(steps):
        raise ShapeError(
            f"{name}: start_indices={start_indices} and strides={strides} must have one entry for each axis of an "
            f"operand of shape {operand.shape}, and so must an update of shape {update.shape}"
        )
    for axis, (n, m, start, step) in enumerate(zip(operand.shape, update.shape, start_indices, steps)):
        if step < 1 or start < 0 or start + max((m - 1) * step + 1, 0) > n:
            raise ShapeError(
                f"{name}: {m} elements from {start} on in steps of {step} do not lie within axis {axis} of an operand "
                f"of shape {operand.shape}"
            )
    return Aval(operand.shape, operand.dtype)


def _add_aval(operand: Aval, update: Aval, **places: Any) -> Aval:
    refuse_keys("add_to_slice", operand.dtype)
    return _aval("add_to_slice", operand, update, **places)


def _window(update: np.ndarray, start_indices: Along, strides: Along | None) -> tuple[Any, ...]:
    steps = strides or (1,) * len(start_indices)
    return (*(slice(a, a + n * s, s) for a, n, s in zip(start_indices, update.shape, steps)), ...)


def _impl(kind: str, x: np.ndarray, update: np.ndarray, *, start_indices: Along, strides: Along | None) -> np.ndarray:
    out = np.array(x)
    window = _window(update, start_indices, strides)
    out[window] = update if kind == "set" else out[window] + update
    return out


def _padded(shape: Sequence[int], update: Any, start_indices: Along, strides: Along | None) -> Any:
    """An update among zeros."""
    return pad(update, scalar_like(update, 0), padding_around(shape, aval_of(update).shape, start_indices, strides))


def _jvp(kind: str, primals: Sequence[Any], out: Any, tangents: Sequence[Any], **places: Any) -> Any:
    x, update = tangents
    if isinstance(x, Zero):
        return _padded(x.shape, update, **places)
    if kind == "set":
        return update_slice(x, instantiate(update), **places)
    return x if isinstance(update, Zero) else add_to_slice(x, update, **places)


def _transpose(kind: str, ct: Any, x: Any, update: Any, **places: Any) -> list[Any]:
    to_x = None
    if is_linear(x):
        to_x = ct if kind == "add" else update_slice(ct, full(update.shape, scalar_like(ct, 0)), **places)
    return [to_x, slice_like(ct, update, **places) if is_linear(update) else None]


def _batch(
    again: Callable[..., Any],
    axis_size: int,
    args: Any,
    dims: Any,
    *,
    start_indices: Along,
    strides: Along | None,
) -> tuple[Any, int]:
    x, update = (move_batch_axis_to_front(a, d, axis_size) for a, d in zip(args, dims))
    return again(x, update, (0, *start_indices), None if strides is None else (1, *strides)), 0


def _examples() -> list[Example]:
    def example(operand: Any, update: Any, starts: Along, strides: Along | None = None, **more: Any) -> Example:
        return Example(args=(operand, update), params={"start_indices": starts, "strides": strides}, **more)

    return [
        example(normal(3, 4), normal(2, 2, seed=1), (0, 1)),
        example(normal(4, 5), normal(2, 2, seed=1), (1, 0), (2, 3)),
        example(normal(3, 2), normal(3, 2, seed=1), (0, 0)),
        example(normal(4), normal(0, seed=1), (2,)),
        example(normal(), normal(seed=1), ()),
        example(integers(4), integers(1, seed=1), (3,), differentiable=False),
    ]


def _record(kind: str, wrapper: Callable[..., Any], doc: str) -> Primitive:
    return Primitive(
        name=wrapper.__name__,
        doc=doc,
        multiple_results=False,
        abstract_eval=partial(_aval, "update_slice") if kind == "set" else _add_aval,
        impl=partial(_impl, kind),
        jvp=JointlyLinear(partial(_jvp, kind), slice(None)),
        transpose=partial(_transpose, kind),
        batch=partial(_batch, wrapper),
        lower=Indexed(partial(moving.update_slice_rule, kind=kind), once=True),
        examples=_examples,
    )


update_slice_p = _record("set", update_slice, "Replace a slice, possibly with strides, at a known place.")
add_to_slice_p = _record("add", add_to_slice, "Add to a slice, possibly with strides, at a known place.")
