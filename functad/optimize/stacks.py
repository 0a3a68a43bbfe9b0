"""Rules for stacked arrays, such as the coordinates of points: what is done to all of them is done to each.

So a step of an equation that is written with vectors, `jnp.stack([y, -x])`, is one loop over points, and no vector is
put together before its end. That pays where the vectors are taken apart again: to stack arrays that lie in memory, and
then to compute, is faster than to compute and to store between.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from functad import machine_model
from functad.editing.rewriting import View
from functad.ir import Atom, Eqn, Program, Var, memoised
from functad.lowering_rules import Scalar
from functad.primitives.common import reshape_p
from functad.primitives.joining import stack_p, unstack_p
from functad.primitives.structure import slice_p


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
    """An element-wise operation on each of few stacked arrays, if its result, or an operand, is taken apart, too."""
    stacks = [s for s in (view.definition(a, stack_p) for a in eqn.invars) if s is not None]
    if not stacks or not _is_element_wise(eqn) or len(stacks[0].invars) > machine_model.MOST_STACKED_APART:
        return None
    if any(part.aval.weak_type != s.outvars[0].aval.weak_type for s in stacks for part in s.invars):
        return None
    axis, count = stacks[0].params["axis"], len(stacks[0].invars)
    apart = memoised(view.program, ("taken apart",), lambda: _taken_apart(view.program))
    if axis not in apart[eqn.outvars[0]]:
        return None

    made: list[Eqn] = []
    operands = [_parts(atom, stacks[0], eqn, view, made) for atom in eqn.invars]
    (out,) = eqn.outvars
    results = [Var(out.aval.update(shape=_without(out.aval.shape, axis))) for _ in range(count)]
    made += [eqn.replace(invars=part, outvars=[result]) for part, result in zip(zip(*operands), results)]
    return [*made, eqn.replace(primitive=stack_p, invars=results, params={"axis": axis})]


def _parts(atom: Atom, stacked: Eqn, eqn: Eqn, view: View, made: list[Eqn]) -> Sequence[Atom]:
    """What stands in an equation for each of the stacked arrays; `made` gets what cuts an array apart for that."""
    axis, count = stacked.params["axis"], len(stacked.invars)
    if not atom.aval.shape:
        return [atom] * count
    known = view.definition(atom, stack_p)
    if known and known.params["axis"] == axis:
        return known.invars
    parts = [Var(atom.aval.update(shape=_without(atom.aval.shape, axis))) for _ in range(count)]
    made.append(Eqn(unstack_p, [atom], {"axis": axis}, parts, eqn.source))
    return parts


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _is_element_wise(eqn: Eqn) -> bool:
    return isinstance(eqn.primitive.lower, Scalar) and len(eqn.outvars) == 1


def _taken_apart(program: Program) -> Mapping[Atom, set[int]]:
    """The axes along which arrays are taken apart, or what they are computed from, or what is computed of them."""
    found: defaultdict[Atom, set[int]] = defaultdict(set)
    for eqn in reversed(program.eqns):
        axes = found[eqn.outvars[0]] if _is_element_wise(eqn) else _cut(eqn)
        for atom in eqn.invars if axes else ():
            found[atom] |= axes
    stacked: set[Atom] = set()
    for eqn in program.eqns:
        operands = stacked.intersection(eqn.invars) if _is_element_wise(eqn) else set()
        if eqn.primitive is stack_p or operands:
            stacked.update(eqn.outvars)
            found[eqn.outvars[0]].update(*(found[a] for a in operands))
    return found


def _cut(eqn: Eqn) -> set[int]:
    """The axis of which an equation takes all places apart, or one."""
    if eqn.primitive is unstack_p:
        return {eqn.params["axis"]}
    if eqn.primitive is not slice_p:
        return set()
    shapes = zip(eqn.invars[0].aval.shape, eqn.outvars[0].aval.shape)
    axes = {d for d, (whole, part) in enumerate(shapes) if part == 1 < whole}
    return axes if len(axes) == 1 else set()
