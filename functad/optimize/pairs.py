"""Large values that come from few numbers, such as one for each pair of points, and rules for how they are reduced.

Fusion computes such a value anew in each loop that reads it, so that no buffer holds it, if only element-wise
equations and reductions of long axes read it. These rules make such of what else reads it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import Any

from functad import machine_model
from functad.dtypes import kind_of
from functad.editing.rewriting import View, spliced
from functad.ir import Atom, Aval, Eqn, Var
from functad.lowering_rules import Indexed, Reduction, Scalar
from functad.primitives import ordering
from functad.primitives.arithmetic import add, mul
from functad.primitives.common import broadcast_in_dim, broadcast_in_dim_p, scalar_like
from functad.primitives.joining import stack
from functad.primitives.reduction import slice_along
from functad.primitives.structure import slice_, squeeze
from functad.tracing import bind

_COMBINED_BY = {"sum": add, "prod": mul, "max": ordering.max, "min": ordering.min}


def few_terms(eqn: Eqn, view: View) -> list[Eqn] | None:
    """A reduction of few terms, such as a distance, as an element-wise expression of slices."""
    rule = eqn.primitive.lower
    if not isinstance(rule, Reduction) or rule.kind not in _COMBINED_BY or not are_pairs(eqn.invars[0], view):
        return None
    (operand,), axes = eqn.invars, rule.axes(eqn)
    extents = [operand.aval.shape[d] for d in axes]
    if not 1 < math.prod(extents) <= machine_model.MOST_SUMMED_AT_ONCE or not _is_rounded_once(operand.aval):
        return None

    def expression(x: Any) -> list[Any]:
        terms = [_at(x, axes, place) for place in product(*map(range, extents))]
        start = [scalar_like(x, 0)] if rule.kind == "sum" else []
        return [reduce(_COMBINED_BY[rule.kind], [*start, *terms])]

    return spliced(expression, [operand], eqn)


def few_kept(eqn: Eqn, view: View) -> list[Eqn] | None:
    """A reduction that keeps a short axis, such as the coordinates of a force: one for each place, all in one loop."""
    rule = eqn.primitive.lower
    if not isinstance(rule, Reduction) or eqn.primitive.is_open or not are_pairs(eqn.invars[0], view):
        return None
    (operand,), axes = eqn.invars, rule.axes(eqn)
    kept = [d for d in range(operand.aval.ndim) if d not in axes]
    short = [d for d in kept if 1 < operand.aval.shape[d] <= machine_model.MOST_SUMMED_AT_ONCE]
    if not short or math.prod(operand.aval.shape[d] for d in short) > machine_model.MOST_SUMMED_AT_ONCE:
        return None
    (axis, *_) = short
    params = {**eqn.params, "axes": tuple(d - (d > axis) for d in axes)}

    def each(x: Any) -> list[Any]:
        parts = [_at(x, [axis], [k]) for k in range(operand.aval.shape[axis])]
        return [stack([bind(eqn.primitive, part, **params) for part in parts], kept.index(axis))]

    return spliced(each, [operand], eqn)


def part_of_pairs(eqn: Eqn, view: View) -> Atom | list[Eqn] | None:
    """A slice of an element-wise or repeated value, as that of slices: nothing is computed that nobody reads."""
    (operand,), part = eqn.invars, eqn.outvars[0]
    steps = _steps_to(operand, view) if are_pairs(operand, view) else None
    if steps is None or not (steps or view.definition(operand, broadcast_in_dim_p)):
        return None
    computed = {s.outvars[0] for s in steps}
    leaves = [*dict.fromkeys(a for s in steps for a in s.invars if a not in computed)] or [operand]
    repeats = [view.definition(a, broadcast_in_dim_p) for a in leaves]
    given = [a if r is None else r.invars[0] for a, r in zip(leaves, repeats)]
    if not steps and given[0].aval.shape == part.aval.shape:
        return given[0]  # which is repeated along the axis that is cut

    def of_slices(*values: Any) -> list[Any]:
        parts = {a: _sliced(x, repeat, eqn) for a, repeat, x in zip(leaves, repeats, values)}
        for s in steps:
            parts[s.outvars[0]] = bind(s.primitive, *[parts[a] for a in s.invars], **s.params)
        return [parts[operand]]

    return spliced(of_slices, given, eqn)


def _steps_to(array: Atom, view: View) -> list[Eqn] | None:
    """The element-wise equations that compute an array, in order; None if they are more than fusion follows."""
    steps: dict[Var, Eqn] = {}

    def follow(atom: Atom, depth: int = 0) -> bool:
        eqn = view.definition(atom)
        if eqn is None or eqn.outvars[0] in steps or not _is_step(eqn, array.aval):
            return True
        few = depth < machine_model.DEEPEST_INLINE and all(follow(a, depth + 1) for a in eqn.invars)
        steps[eqn.outvars[0]] = eqn
        return few and len(steps) <= machine_model.DEEPEST_INLINE

    return [*steps.values()] if follow(array) else None


def _is_step(eqn: Eqn, aval: Aval) -> bool:
    if not isinstance(eqn.primitive.lower, Scalar) or eqn.primitive.is_open:
        return False
    return len(eqn.outvars) == 1 and eqn.outvars[0].aval.shape == aval.shape


def _sliced(x: Any, repeat: Eqn | None, cut: Eqn) -> Any:
    """The part of an operand that an equation cuts out, or of what repeats it."""
    starts, limits, strides = (cut.params[k] for k in ("start_indices", "limit_indices", "strides"))
    dims = repeat.params["broadcast_dimensions"] if repeat else range(x.ndim)
    places = [(starts[d], limits[d], strides[d] if strides else 1) for d in dims]
    bounds = [(0, 1, 1) if repeat and n == 1 else place for n, place in zip(x.shape, places)]
    if any(bound != (0, n, 1) for n, bound in zip(x.shape, bounds)):
        x = slice_(x, *zip(*bounds))
    shape = cut.outvars[0].aval.shape
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=dims) if repeat else x


def are_pairs(atom: Atom, view: View, least: int | None = None) -> bool:
    """Whether an array has at least so many bytes, and is computed from few numbers by what can be computed again."""
    least = machine_model.SMALLEST_PAIRS if least is None else least
    return _bytes(atom.aval) >= least and _comes_from_few(atom, view)


def would_be_pairs(out: Aval, operands: Sequence[Atom], least: int) -> bool:
    """Whether a result of at least so many bytes comes from operands of few numbers."""
    numbers = sum(a.aval.size for a in operands if isinstance(a, Var))
    return _bytes(out) >= least and machine_model.ELEMENTS_FROM_ONE * numbers <= out.size


def _bytes(aval: Aval) -> int:
    return aval.size * aval.dtype.itemsize


def _comes_from_few(atom: Atom, view: View) -> bool:
    """Whether what an array is computed from, through what is computed where it is read, is a small part of it."""
    waiting, seen, numbers = [atom], set[Var](), 0
    while waiting and machine_model.ELEMENTS_FROM_ONE * numbers <= atom.aval.size:
        reached = waiting.pop()
        if not isinstance(reached, Var) or reached in seen:
            continue
        seen.add(reached)
        eqn = view.definition(reached)
        if eqn is not None and isinstance(eqn.primitive.lower, (Scalar, Indexed)):
            waiting += eqn.invars
        else:
            numbers += reached.aval.size
    return machine_model.ELEMENTS_FROM_ONE * numbers <= atom.aval.size


def _at(x: Any, axes: Sequence[int], place: Sequence[int]) -> Any:
    """An array at one place of some axes, which it loses."""
    for d, k in zip(axes, place):
        x = slice_along(x, d, k, k + 1)
    return squeeze(x, axes)


def _is_rounded_once(aval: Aval) -> bool:
    """Whether a sum of two in the dtype is what an accumulator takes in: those of float16 are kept in float32."""
    return kind_of(aval.dtype) in "iuf" and aval.dtype.itemsize > 2
