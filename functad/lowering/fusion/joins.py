"""Joins in place: which results of nests are stored in a joined array from the start, so that nobody copies them there.

Knows groups and what they read; no memory.
"""

from __future__ import annotations

import math

from functad import machine_model
from functad.ir import Eqn, Var
from functad.lowering.fusion.fuse import Fusion
from functad.lowering.fusion.groups import FusionGroup
from functad.lowering.fusion.inlining import joins, no_buffer, parts_in
from functad.lowering.nests.collapse import collapse_loops
from functad.lowering.nests.cost import work_of
from functad.lowering.nests.nest import ACROSS, PRE
from functad.primitives.loops.joining import Part
from functad.records import NamedTuple


class Places(NamedTuple):
    """Where a value lies in the result of an equation that joins it with others, maybe more than once."""

    eqn: Eqn
    parts: list[Part]


def runs_by_rows(part: Part, size: int) -> bool:
    """Whether threads can share what stores a value of some size in a part, row by row or in one piece."""
    if size in (part.length, 0) or size <= machine_model.ELEMENTS_WORTH_THREADS:
        return True
    return size // part.length >= machine_model.FEW_ROWS


def find_places(fusion: Fusion) -> dict[Var, Places]:
    """For results of nests that have no buffer of their own, where in a joined array they lie instead.

    Those are what nobody but one joining equation reads from memory, and what is not returned.
    """
    joining = [g for g in fusion.groups if g.kind == "loops" and joins(fusion.program.eqns[g.members[0]])]
    if not joining:
        return {}
    returned = {root for out in fusion.inlining.outputs for root in (out, *fusion.inlining.roots(out))}
    readers: dict[Var, list[FusionGroup]] = {}
    for group in fusion.groups:
        for var in group.reads:
            if fusion.group_of.get(var) is not group:
                readers.setdefault(var, []).append(group)
    found: dict[Var, Places] = {}
    for group in joining:
        eqn = fusion.program.eqns[group.members[0]]
        parts: dict[Var, list[Part]] = {}
        moved: set[Var] = set()  # what is also read in another order
        for atom, part in parts_in(eqn):
            if isinstance(atom, Var) and atom.aval.size:
                root = fusion.inlining.alias_root(atom)
                parts.setdefault(root, []).append(part)
                moved.update(r for r in fusion.inlining.roots(root) if r is not root)
        alone = [v for v in parts if v not in returned | moved and readers.get(v) == [group]]
        fitting = [v for v in alone if _fits(fusion, v, parts[v], group)]
        found.update((v, Places(eqn, parts[v])) for v in _without_waiting(fusion, fitting, eqn))
    return found


def _without_waiting(fusion: Fusion, fitting: list[Var], eqn: Eqn) -> list[Var]:
    """Those variables that can be stored in their parts while all nests still run together, row by row.

    Where parts lie one behind another, a row of the nests is none of the array: then only one nest may write to it.
    """
    sizes: dict[FusionGroup, int] = {}
    for var in fitting:
        owner = fusion.group_of[var]
        if owner.outer_points > 1:
            sizes[owner] = sizes.get(owner, 0) + var.aval.size
    has_rows = any(part.width < eqn.outvars[0].aval.size for _, part in parts_in(eqn))
    if has_rows or len(sizes) <= 1:
        return fitting
    largest = max(sizes, key=lambda owner: sizes[owner])
    return [v for v in fitting if fusion.group_of[v] not in sizes or fusion.group_of[v] is largest]


def _fits(fusion: Fusion, var: Var, parts: list[Part], joining: FusionGroup) -> bool:
    """Whether the nest that computes a variable can as well store it in these parts."""
    owner = fusion.group_of.get(var)
    if owner is None or owner.kind != "nest":
        return False
    if fusion.inlining.phase(owner.members[0]) != fusion.inlining.phase(joining.members[0]):
        return False  # all of the result would be kept until then
    level = fusion.level_of(var, owner)
    if level == ACROSS:
        return False
    at_points = level == PRE
    if len(parts) > (machine_model.MOST_JOINED if at_points else 1):
        return False  # sums by columns are gathered where they are stored, at one place
    if not all(runs_by_rows(part, var.aval.size) for part in parts):
        return False
    shape = owner.shape if at_points else owner.outer_shape
    lengths = {part.length for part in parts} - {1, var.aval.size}
    if any(all(length != math.prod(shape[d:]) for d in range(len(shape))) for length in lengths):
        return False  # a row is no loop: its elements would be found by dividing
    rest, most = machine_model.FLOATS_OF_VECTOR, machine_model.LARGEST_REST
    short = [length for length in lengths if length % rest > most * length]
    return not short or not _cuts_vectors(fusion, owner, min(short))


def _cuts_vectors(fusion: Fusion, group: FusionGroup, length: int) -> bool:
    """Whether a nest that calls functions such as `exp`, which are fast in long loops, would have to run by rows."""
    nests = [builder.nest for builder in fusion.builders(group, no_buffer)]
    for nest in nests:
        collapse_loops(nest)
    return any(work_of(nest).calls > 0 and nest.loops[-1].extent > length for nest in nests if nest.loops)
