"""Rematerialisation: what nests had better compute again from what they read than read from memory.

Knows groups, and what is computed where it is used; no memory plan. A nest that ends in a reduction cannot compute what
needs its result, so what both read of a large array would be written and read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from functad import machine_model
from functad.ir import Var
from functad.lowering.fusion.groups import Domain, FusionGroup
from functad.lowering.fusion.inlining import Inlining
from functad.lowering.nests.nest import PRE
from functad.lowering_rules import Scalar


def rematerialised(
    inlining: Inlining, groups: Sequence[FusionGroup], group_of: Mapping[Var, FusionGroup]
) -> frozenset[Var]:
    """The values that each nest that reads them computes, from what lies in memory anyway or instead of them.

    Those of one nest for which no more memory is kept than they take, and that are computed in less time than they are
    written and read.
    """
    readers: dict[Var, list[FusionGroup]] = {}
    for group in groups:
        for var in group.reads:
            if group_of.get(var) is not group:
                readers.setdefault(var, []).append(group)
    return frozenset().union(*(_of_group(inlining, g, readers) for g in groups if g.kind == "nest"))


def computed_of_inputs(
    inlining: Inlining, groups: Sequence[FusionGroup], group_of: Mapping[Var, FusionGroup], lasting: Set[Var]
) -> frozenset[Var]:
    """The values of small nests that read inputs alone, where nests and scatters alone read them: these compute them.

    So a GPU has a kernel less, and nobody waits for it: indices, counted from the end or not, are such values.
    lasting: the inputs whose memory nobody takes.
    """
    readers: dict[Var, list[FusionGroup]] = {}
    for group in groups:
        for var in group.reads:
            readers.setdefault(var, []).append(group)
    found: set[Var] = set()
    for group in groups:
        own = _elementwise(inlining, group) if group.kind == "nest" and group.reads <= lasting else set()
        is_plain = len(own) == len(group.members) and group.weight <= machine_model.CUDA_COMPUTED_ANEW
        kinds = {reader.kind for var in own for reader in readers.get(var, ())}
        stored = sum(_size(var) for var in own if var in readers)
        if is_plain and kinds <= {"nest", "scatter"} and sum(map(_size, group.reads)) <= stored:
            found |= own
    return frozenset(found)


def _of_group(inlining: Inlining, group: FusionGroup, readers: dict[Var, list[FusionGroup]]) -> set[Var]:
    """What is computed anew of the values of a nest: all that nests alone read of what it would store, or nothing."""
    own = {v for v in _elementwise(inlining, group) if all(g.kind == "nest" for g in readers.get(v, ()))}
    kept = {v for v in own if v in readers and inlining.is_read_at_points(v)}
    written = sum(map(_size, kept))
    if written < machine_model.SMALLEST_ANEW:
        return set()
    reading = list(dict.fromkeys(g for v in kept for g in readers[v]))
    found, roots, _ = _sources(inlining, own, kept, group.points)
    if sum(map(_size, roots)) > written:
        return set()
    saved, work = written, 0
    for together in _by_domain(reading):  # nests of one domain that read the same become one
        known = set().union(*(g.reads for g in together))
        _, instead, weight = _sources(inlining, own, kept & known, group.points)
        saved += sum(_size(v) for v in kept for g in together if v in g.reads) - sum(map(_size, instead - known))
        work += weight * group.points
    rate = machine_model.CACHE_BYTES_PER_NS if _share_rows(group, reading) else machine_model.BYTES_PER_NS
    return found if work * machine_model.OPERATION_NS * rate <= saved else set()


def _by_domain(groups: list[FusionGroup]) -> list[list[FusionGroup]]:
    found: dict[Domain, list[FusionGroup]] = {}
    for group in groups:
        found.setdefault(group.domain, []).append(group)
    return list(found.values())


def _elementwise(inlining: Inlining, group: FusionGroup) -> set[Var]:
    """The values that a nest has at each of its points, and that are no results of the Program."""
    returned = {root for out in inlining.outputs for root in (out, *inlining.roots(out))}
    members = (inlining.program.eqns[i] for i in group.members if group.levels[i] == PRE)
    scalar = (e for e in members if isinstance(e.primitive.lower, Scalar) and len(e.outvars) == 1)
    return {e.outvars[0] for e in scalar} - returned


def _sources(inlining: Inlining, own: set[Var], wanted: set[Var], points: int) -> tuple[set[Var], set[Var], int]:
    """What computes some values of a nest: those of its `own`, the large arrays that they read, how many operations."""
    found: set[Var] = set()
    roots: set[Var] = set()
    weight, waiting = 0, list(wanted)
    while waiting:
        var = waiting.pop()
        if var in found:
            continue
        if var not in own:
            if machine_model.ELEMENTS_FROM_ONE * var.aval.size > points:  # few numbers cost nothing
                roots.add(var)
            continue
        found.add(var)
        eqn = inlining.program.eqns[inlining.producer[var]]
        weight += inlining.weight_of(eqn)
        waiting += [r for a in eqn.invars if isinstance(a, Var) for r in inlining.roots(a)]
    return found, roots, weight


def _share_rows(group: FusionGroup, reading: list[FusionGroup]) -> bool:
    """Whether all run over the rows that a nest reduces: a block of them keeps what they share in the cache."""
    by_rows = group.has_post and group.outer_points > 1
    return by_rows and all(not g.axes or (g.shape, g.axes) == (group.shape, group.axes) for g in reading)


def _size(var: Var) -> int:
    return var.aval.size * var.aval.dtype.itemsize
