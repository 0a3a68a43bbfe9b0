"""Fusion: partitions the equations of a Program into groups: loop nests, matrix products, operations of their own.

Knows the kinds of lowering rules; no target, no memory. The partition is greedy in program order: an equation joins
the nests of its operands where every value that flows between them is used at the point at which it was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass

from functad import machine_model
from functad.ir import Atom, Eqn, Program, Var, has_effects
from functad.lowering.fusion.groups import Domain, FusionGroup, domain_of, domains_fit, gathers_in_memory, may_cross
from functad.lowering.fusion.inlining import Inlining, no_buffer, reads_across
from functad.lowering.fusion.order import let_readers_go_first, topological_order
from functad.lowering.fusion.products import Product
from functad.lowering.fusion.rematerialisation import computed_of_inputs, rematerialised
from functad.lowering.memory.buffers import Buffer
from functad.lowering.nests.builder import NestBuilder
from functad.lowering.nests.nest import ACROSS, POST, PRE, goes_across
from functad.lowering.nests.pieces import Box, built_in_pieces
from functad.lowering_rules import Callback, Contraction, ControlFlow, Loops, Reduction, Running, Scattered
from functad.pretty import literal_text

_KINDS: dict[type, str] = {
    Loops: "loops",
    Scattered: "scatter",
    Contraction: "contraction",
    ControlFlow: "control",
    Callback: "call",
}


@dataclass(frozen=True)
class _Reads:
    """What an equation reads from buffers when its operands' free moves are followed."""

    aligned: set[Var]  # at the equation's own point only
    elsewhere: set[Var]
    pieces: int  # into which the domain is cut so that this is so
    by_pieces: bool  # whether something else, or something elsewhere, is read unless it is cut
    across: bool  # whether something is read that does not lie along the rows of the domain

    @property
    def all(self) -> set[Var]:
        return self.aligned | self.elsewhere


class Fusion:
    """The partition of one Program.

    inlining: what is computed where it is used; the rest is for groups. groups: in an order in which they can run.
    stored: the variables that need a buffer. name: of each variable. crosses: whether a nest may reduce rows and
    columns. lasting: where kernels are few, the inputs of which small nests are computed by who reads them.
    """

    def __init__(
        self,
        program: Program,
        name: Callable[[Var], str],
        phases: Sequence[int] = (),
        crosses: bool = True,
        lasting: Set[Var] = frozenset(),
    ) -> None:
        self.program, self.name, self._crosses = program, name, crosses
        self._known_reads: dict[int, _Reads] = {}
        self._divide(Inlining(program, phases))
        again = rematerialised(self.inlining, self.groups, self.group_of)
        again |= computed_of_inputs(self.inlining, self.groups, self.group_of, lasting) if lasting else frozenset()
        if again:
            before, inlining = self.inlining.inline.keys(), Inlining(program, phases, again)
            more, same = inlining.inline.keys() - before, before <= inlining.inline.keys()
            self._known_reads = {i: r for i, r in self._known_reads.items() if same and more.isdisjoint(r.all)}
            self._divide(inlining)

    def __str__(self) -> str:
        """The groups in the order in which they run, each with its equations, and what is computed within others."""
        lines = []
        for number, group in enumerate(self.groups):
            domain = f" over {list(group.shape)}" if group.kind == "nest" else ""
            kind = f", axes {list(group.axes)} reduced" if group.axes else ""
            kind += f", carried along axis {group.direction.axis}" if group.direction else ""
            lines.append(f"{number}: {group.kind}{domain}{kind}")
            lines += [f"     {self._line(self.program.eqns[i])}" for i in group.members]
        within = list(dict.fromkeys(self.inlining.inline.values()))
        lines += ["where they are used:"] * bool(within)
        return "\n".join([*lines, *(f"     {self._line(e)}" for e in within)])

    def _line(self, eqn: Eqn) -> str:
        outs = ", ".join(f"{self.name(v)}:{v.aval.str_short()}" for v in eqn.outvars)
        operands = [self.name(a) if isinstance(a, Var) else literal_text(a.value) for a in eqn.invars]
        return " ".join([outs, "=", eqn.primitive.name, *operands])

    # --- the partition -------------------------------------------------------------------------------------

    def _divide(self, inlining: Inlining) -> None:
        self.inlining = inlining
        self.all_groups: list[FusionGroup] = []
        self.group_of: dict[Var, FusionGroup] = {}
        self._last_to_act: FusionGroup | None = None
        for i in range(len(self.program.eqns)):
            self._place(i)
        live = [g for g in self.all_groups if g.kind != "gone"]
        let_readers_go_first(self.program, live, self.group_of, self.inlining.outputs, self.inlining.phase)
        self.groups = topological_order(self.program, live, self.group_of, self.inlining.phase)
        self.stored = self._stored()

    def _place(self, i: int) -> None:
        eqn = self.program.eqns[i]
        if i in self.inlining.products:
            self._new_product(self.inlining.products[i])
        elif has_effects(eqn):
            self._act(self._new_group(_KINDS[type(eqn.primitive.lower)], [i]), eqn)
        elif i in self.inlining.absorbed or _is_empty(eqn) or eqn.outvars[0] in self.inlining.inline:
            pass
        elif isinstance(eqn.primitive.lower, tuple(_KINDS)) and not self.inlining.is_joined_in_nest(eqn):
            group = self._new_group(_KINDS[type(eqn.primitive.lower)], [i])
            self._depend(group, eqn.invars)
        else:
            self._place_in_nest(i)

    def _new_group(self, kind: str, members: list[int]) -> FusionGroup:
        group = FusionGroup(kind, len(self.all_groups), members)
        self.all_groups.append(group)
        for i in members:
            self.group_of.update((v, group) for v in self.program.eqns[i].outvars)
        return group

    def _act(self, group: FusionGroup, eqn: Eqn) -> None:
        """Note what a group reads, and that it acts after all groups before it that do."""
        self._depend(group, eqn.invars)
        last, self._last_to_act = self._last_to_act, group
        if last is not None:
            group.waits_for.add(last.number)
            group.before |= last.before | (1 << last.number)

    def _new_product(self, product: Product) -> None:
        group = self._new_group("product", list(product.members))
        group.product = product
        self._depend(group, product.operands())

    def _depend(self, group: FusionGroup, atoms: Iterable[Atom]) -> None:
        """Note that a group reads variables, following free moves to what lies in a buffer."""
        for var in atoms:
            for root in self.inlining.roots(var) if isinstance(var, Var) else ():
                group.reads.add(root)
                owner = self.group_of.get(root)
                if owner is not None and owner is not group:
                    group.before |= owner.before | (1 << owner.number)

    def _place_in_nest(self, i: int) -> None:
        eqn = self.program.eqns[i]
        shape, axes, direction = domain_of(eqn)
        reads = self._reads(i)
        flat = not (reads.elsewhere or reads.by_pieces or isinstance(eqn.primitive.lower, (Reduction, Running)))
        group = FusionGroup("nest", -1, [i], shape=shape, axes=axes, direction=direction, flat=flat, levels={i: PRE})
        group.reads = set(reads.all)
        group.weight, group.pieces, group.by_pieces = self.inlining.weight_of(eqn), reads.pieces, reads.by_pieces
        group.across = reads.across
        group.may_cross = gathers_in_memory(eqn)
        group.results = sum(v in self.inlining.outputs for v in eqn.outvars)
        for root in reads.all:
            owner = self.group_of.get(root)
            if owner is not None:
                group.before |= owner.before | (1 << owner.number)
        joined: FusionGroup | None = None
        group.spread = self.inlining.spread_in(eqn)
        for other in self._candidates(reads, group):
            if joined is None:
                if self._can_join(group, reads, other):
                    joined = self._merge(other, group)
            elif self._can_unite(joined, other):
                joined = self._merge(other, joined)
        if joined is None:
            group.number = len(self.all_groups)
            self.all_groups.append(group)
            joined = group
        self.group_of.update((v, joined) for v in eqn.outvars)

    def _reads(self, i: int) -> _Reads:
        known = self._known_reads.get(i)
        if known is not None:
            return known
        eqn = self.program.eqns[i]
        domain = domain_of(eqn)
        pieces = self._pieces(domain, [(eqn, PRE)], no_buffer, machine_model.MOST_PIECES)
        elsewhere, by_pieces = _read_elsewhere(pieces), False
        aligned = {v for piece in pieces for v, _ in piece.loaded} - elsewhere
        if len(pieces) > 1:
            (uncut,) = self._pieces(domain, [(eqn, PRE)], no_buffer, most=1)
            more = {v for v, _ in uncut.loaded} - elsewhere - aligned
            by_pieces = bool(more) or not aligned.isdisjoint(_read_elsewhere([uncut]))
        reads = _Reads(aligned, elsewhere, len(pieces), by_pieces, any(map(reads_across, pieces)))
        self._known_reads[i] = reads
        return reads

    def _candidates(self, reads: _Reads, own: FusionGroup) -> list[FusionGroup]:
        """Nests that an equation may join: those of its operands, then those that read what it reads; latest first.

        own: the nest of the equation alone.
        """
        owners = {g.number: g for v in reads.all if (g := self.group_of.get(v)) is not None and g.kind == "nest"}
        found = [owners[n] for n in sorted(owners, reverse=True)]
        if reads.aligned or own.spread:
            for group in reversed(self.all_groups[-machine_model.NESTS_LOOKED_BACK :]):
                shares = group.reads & reads.aligned or group.spread & own.spread
                if shares and group.kind == "nest" and group not in found and group.points == own.points:
                    found.append(group)
        return found

    def _can_join(self, group: FusionGroup, reads: _Reads, other: FusionGroup) -> bool:
        (i,) = group.members
        if self.inlining.phase(i) != self.inlining.phase(other.members[0]):
            return False  # the earlier one would have to wait, and what it reads would be kept
        level = self._joining_level(group, reads, other)
        if level is None or _do_not_fit(group, other) or self._would_cycle(group, other):
            return False
        group.levels = {i: level}
        return True

    def _joining_level(self, group: FusionGroup, reads: _Reads, other: FusionGroup) -> int | None:
        inside = {v for v in reads.all if self.group_of.get(v) is other}
        levels = {v: self.level_of(v, other) for v in inside}
        at_points = {v for v, level in levels.items() if level == PRE}
        if inside & reads.elsewhere or ACROSS in levels.values():
            return None
        if at_points == inside and group.points == other.points and self._domains_fit(group, other):
            return PRE
        is_plain = not group.axes and group.direction is None
        if not at_points and is_plain and other.has_post and group.points == other.outer_points:
            return POST if inside or other.outer_points > 1 else None
        return None

    def _domains_fit(self, one: FusionGroup, two: FusionGroup) -> bool:
        return domains_fit(one, two) or (self._crosses and may_cross(one, two))

    def level_of(self, var: Var, group: FusionGroup) -> int:
        """Whether a variable of a nest is known at each of its points, after its reduction, or after all of it."""
        i = self.inlining.producer[var]
        rule = self.program.eqns[i].primitive.lower
        if not isinstance(rule, Reduction):
            return group.levels[i]
        return ACROSS if goes_across(rule.axes(self.program.eqns[i]), group.axes) else POST

    def _would_cycle(self, group: FusionGroup, other: FusionGroup) -> bool:
        """Whether something that must run before one of two groups must run after the other."""
        return self._between(group, other) or self._between(other, group)

    def _between(self, later: FusionGroup, earlier: FusionGroup) -> bool:
        if earlier.number < 0:
            return False
        bit = 1 << earlier.number
        last = [self.group_of.get(v) for v in later.reads] + [self.all_groups[n] for n in later.waits_for]
        return any(g is not None and g is not earlier and g is not later and g.before & bit for g in last)

    def _can_unite(self, joined: FusionGroup, other: FusionGroup) -> bool:
        if self.inlining.phase(joined.members[0]) != self.inlining.phase(other.members[0]):
            return False
        if joined.points != other.points or _do_not_fit(joined, other):
            return False
        if POST in (*joined.levels.values(), *other.levels.values()) or not self._domains_fit(joined, other):
            return False
        for one, two in ((joined, other), (other, joined)):
            for v in one.reads:
                if self.group_of.get(v) is two and not self._is_aligned(v, one, two):
                    return False
        return not self._would_cycle(joined, other)

    def _is_aligned(self, var: Var, reader: FusionGroup, owner: FusionGroup) -> bool:
        if self.level_of(var, owner) != PRE:
            return False
        return not any(var in self._reads(i).elsewhere for i in reader.members)

    def _merge(self, kept: FusionGroup, gone: FusionGroup) -> FusionGroup:
        """Make one group of two, under the number of the first."""
        is_plain = not kept.axes and kept.direction is None
        has_order = gone.axes or gone.direction is not None
        if is_plain and (has_order or (kept.flat and not gone.flat and PRE in gone.levels.values())):
            kept.shape, kept.axes, kept.direction = gone.domain
        if kept.axes and gone.has_post:  # of rows and columns, rows are the nest's
            kept.axes = gone.axes
        kept.may_cross = kept.may_cross and gone.may_cross
        kept.across = kept.across or gone.across
        kept.flat = kept.flat and gone.flat
        kept.members = sorted(kept.members + gone.members)
        kept.levels.update(gone.levels)
        kept.reads |= gone.reads
        kept.spread |= gone.spread
        kept.pieces, kept.by_pieces = kept.pieces * gone.pieces, kept.by_pieces or gone.by_pieces
        kept.weight, kept.results = kept.weight + gone.weight, kept.results + gone.results
        old = 1 << gone.number if gone.number >= 0 else 0
        bit = 1 << kept.number
        before = (kept.before | gone.before) & ~bit & ~old
        if old or before != kept.before:  # else those that come later know already
            for group in self.all_groups:
                if group is not gone and group is not kept and group.before & (bit | old):
                    group.before = (group.before & ~old) | bit | before
        kept.before = before
        if gone.number >= 0:
            for i in gone.members:
                self.group_of.update((v, kept) for v in self.program.eqns[i].outvars)
            gone.members, gone.number = [], -1
            gone.kind = "gone"
        return kept

    # --- results -------------------------------------------------------------------------------------------

    def _stored(self) -> set[Var]:
        """The variables that are read by another group than their own, or returned."""
        stored = {root for out in self.inlining.outputs for root in (out, *self.inlining.roots(out))}
        for group in self.groups:
            for var in group.reads:
                if self.group_of.get(var) is not group:
                    stored.add(var)
        return stored

    def builders(self, group: FusionGroup, buffer: Callable[[Var], Buffer]) -> list[NestBuilder]:
        """The nests of a group, one for each piece of its domain, without their stores."""
        members = [(self.program.eqns[i], group.levels[i]) for i in group.members]
        most = machine_model.LARGEST_CUT_NEST if group.pieces > 1 else 1
        return self._pieces(group.domain, members, buffer, most)

    def _pieces(
        self,
        domain: Domain,
        members: Sequence[tuple[Eqn, int]],
        buffer: Callable[[Var], Buffer],
        most: int,
    ) -> list[NestBuilder]:
        """What equations are over the pieces of a domain; with a reduction, or what is carried, it is one piece."""
        builder: NestBuilder
        shape, axes, direction = domain
        most = 1 if axes or direction is not None else most

        def lies_in(var: Var) -> Buffer:
            """Its buffer; what is cut further may read what its pieces do not, and what has no buffer."""
            is_kept = most == 1 or builder.cuts.first is None
            return buffer(var) if is_kept else no_buffer(var)

        def build(box: Box) -> NestBuilder:
            nonlocal builder
            builder = NestBuilder(shape, axes, self.inlining.definition, lies_in, self.name, box, direction)
            for eqn, level in members:
                if isinstance(eqn.primitive.lower, Reduction):
                    builder.add_reduction(eqn)
                elif isinstance(eqn.primitive.lower, Running):
                    builder.add_running(eqn)
                else:
                    builder.add_pointwise(eqn, level)
            return builder

        return built_in_pieces(shape, build, most)


def _read_elsewhere(pieces: Sequence[NestBuilder]) -> set[Var]:
    """What is read at another point than one's own."""
    return {v for piece in pieces for v, position in piece.loaded if position != piece.position}


def _do_not_fit(one: FusionGroup, other: FusionGroup) -> bool:
    """Whether a nest of both would be too large, or could not be cut as one of them must be."""
    buffers = len(one.reads | other.reads) + one.results + other.results
    carries = one.direction is not None or other.direction is not None
    if (one.axes or other.axes or carries) and (one.by_pieces or other.by_pieces):
        return True  # what is reduced or carried is not cut
    if carries and _would_wait(one, other):
        return True
    pieces, weight = one.pieces * other.pieces, one.weight + other.weight
    if pieces > 1 and (pieces > machine_model.MOST_PIECES or pieces * weight > machine_model.LARGEST_CUT_NEST):
        return True
    return weight > machine_model.LARGEST_NEST or buffers > machine_model.MOST_BUFFERS


def _would_wait(one: FusionGroup, other: FusionGroup) -> bool:
    """Whether what vectors or threads do faster would be done step by step, as something is carried along."""
    if one.across or other.across:
        return True
    if all(g.runs_in_vectors for g in (one, other) if g.direction is not None):
        most = machine_model.FUNCTION_OPERATIONS
    else:
        is_large = max(one.points, other.points) >= machine_model.CARRIED_FROM_MEMORY
        most = machine_model.CARRIED_OPERATIONS if is_large else 0
    return one.weight + other.weight > most


def _is_empty(eqn: Eqn) -> bool:
    return all(v.aval.size == 0 for v in eqn.outvars)
