"""Steps made of the primitives' records: their examples, with other values, dtypes and sizes if the shape rule agrees.

Knows the fields of a `Primitive`; no primitive by name, but those that need care.
"""

from __future__ import annotations

import enum
import functools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.all_primitives import registry
from functad.errors import FunctadError
from functad.evaluation import infer_avals
from functad.ir import Absent, Aval, Example, Primitive, subprograms
from functad.lax import GatherScatterMode
from functad.layouts import Device
from functad.lowering_rules import Scalar

from .generator import Maker, Value
from .values import count, shape_of

OTHER_DTYPES = (
    "float32", "float32", "float64", "float16", "int32", "bool", "complex64", "int8", "uint8", "uint32", "int64",
)  # fmt: skip
# Made by passes and transforms alone, or slow beyond what they are worth here.
LEFT_OUT = frozenset("select_and_gather_add add_any iota".split())
# Of nearly singular matrices, and with pivots or eigenvalues that are nearly equal, rounding decides about results.
LEFT_OUT |= {name for name, p in registry.items() if "linear_algebra" in p.abstract_eval.__module__}
PROMISES = {"unique_indices": False, "indices_are_sorted": False}  # which other indices would break
SLOW = frozenset("igamma igammac regularized_incomplete_beta zeta polygamma".split())


@functools.cache
def examples() -> dict[str, tuple[Example, ...]]:
    """The examples of all primitives that have some, and whose parameters can be written down."""
    found = {}
    for name, primitive in sorted(registry.items()):
        if isinstance(primitive.examples, Absent) or name in LEFT_OUT:
            continue
        usable = tuple(e for e in primitive.examples() if not any(True for _ in subprograms(e.params)))
        if usable:
            found[name] = usable
    return found


def from_record(m: Maker) -> None:
    """A step that is an example of some primitive, more or less changed."""
    name = m.choose.choice(list(examples()))
    if name in SLOW and m.choose.random() < 0.7:
        return
    primitive, example = registry[name], m.choose.choice(examples()[name])
    args = [np.asarray(a) for a in example.args]
    if m.profile.wide:
        args = [a.astype(m.profile.dtype(a.dtype)) for a in args]
    profile = m.profile
    avals, params = varied(
        m.choose, primitive, args, example.params, profile.sizes, profile.dtypes, profile.largest_of_records
    )
    if sum(count(a.shape) for a in avals) > 3 * profile.largest_of_records:
        return
    params = {k: PROMISES.get(k, v) for k, v in params.items()}
    if params.get("mode") == GatherScatterMode.PROMISE_IN_BOUNDS:
        params["mode"] = m.choose.choice([GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP])
    operands = [_operand(m, primitive, i, aval, args) for i, aval in enumerate(avals)]
    if any(v.dtype != a.dtype for v, a in zip(operands, avals)):
        return  # where all floats are wide, none of another dtype is made
    places = ", ".join(f"${i}" for i in range(len(operands)))
    written = "".join(f", {k}={text_of(v)}" for k, v in params.items())
    out = infer_avals(primitive, avals, params)
    if primitive.multiple_results:
        m.emit(f"bind({name!r}, {places}{written})" + ("[0]" if len(out) == 1 else ""), *operands, results=len(out))
    else:
        m.emit(f"bind({name!r}, {places}{written})", *operands)


def text_of(x: Any) -> str:
    """A parameter as Python text."""
    if isinstance(x, enum.Enum):
        return f"lax.{type(x).__name__}.{x.name}"
    if isinstance(x, np.dtype):
        return f"np.dtype({x.name!r})"
    if isinstance(x, np.generic):
        return f"np.{x.dtype.name}({x.item()!r})".replace("(nan)", "('nan')").replace("inf)", "np.inf)")
    if isinstance(x, float) and not np.isfinite(x):
        return f"float('{x}')"
    if isinstance(x, Device):
        return f"functad.devices({x.prefix!r})[{x.id}]"
    if type(x) is tuple:
        return f"({''.join(f'{text_of(part)}, ' for part in x)})"
    return repr(x)


def varied(
    choose: random.Random,
    primitive: Primitive,
    args: Sequence[np.ndarray],
    params: dict[str, Any],
    sizes: Sequence[int],
    dtypes: Sequence[str],
    largest: int,
) -> tuple[list[Aval], dict[str, Any]]:
    """The types of the operands and the parameters: those of an example, or others that the shape rule accepts.

    largest: elements of a result.
    """
    avals = [Aval(a.shape, a.dtype) for a in args]
    if choose.random() < 0.6 and avals:
        wanted = choose.choice(dtypes if choose.random() < 0.7 else OTHER_DTYPES)
        first = avals[0].dtype
        other = [Aval(a.shape, np.dtype(wanted)) if a.dtype == first else a for a in avals]
        if first.kind in "fciub" and _accepted(primitive, other, params, largest):
            avals = other
    if isinstance(primitive.lower, Scalar):
        shape = shape_of(choose, sizes, choose.randint(0, 3), largest)
        other = [Aval(shape if choose.random() < 0.8 else (), a.dtype) for a in avals]
        return (other if _accepted(primitive, other, params, largest) else avals), params
    for _ in range(choose.choice([0, 1, 2, 2])):
        present = sorted({n for a in avals for n in a.shape if n > 1})
        if not present:
            break
        n, m = choose.choice(present), choose.choice(sizes)
        other = [Aval([m if d == n else d for d in a.shape], a.dtype) for a in avals]
        changed = {k: _resized(v, n, m) for k, v in params.items()} if choose.random() < 0.7 else params
        if sum(count(a.shape) for a in other) <= 2 * largest and _accepted(primitive, other, changed, largest):
            avals, params = other, changed
    return avals, params


def _accepted(primitive: Primitive, avals: Sequence[Aval], params: dict[str, Any], largest: int) -> bool:
    try:
        out = infer_avals(primitive, avals, params)
    except (FunctadError, ValueError, IndexError, ZeroDivisionError):
        return False
    return all(0 <= count(a.shape) <= largest for a in out)


def _resized(x: Any, n: int, m: int) -> Any:
    if type(x) is tuple:
        return tuple(_resized(v, n, m) for v in x)
    return m if type(x) is int and x == n else x


def _operand(m: Maker, primitive: Primitive, i: int, aval: Aval, args: Sequence[np.ndarray]) -> Value:
    """A value of the type; where not any will do, that of the example: indices, and what says how others are read."""
    x = args[i]
    exemplary = x.shape == aval.shape and x.dtype == aval.dtype
    picky = i > 0 and x.dtype.kind in "iu" and not isinstance(primitive.lower, Scalar)
    if picky or primitive.name in SLOW:
        return m.given(x if exemplary else np.resize(x, aval.shape).astype(aval.dtype))
    if exemplary and m.choose.random() < 0.2:
        return m.given(x)
    return m.of_type(aval.shape, aval.dtype)
