"""Fusion: partitions the equations of a Program into units: loop nests, matrix products, operations of their own.

Knows the kinds of lowering rules; no target, no memory. The partition is greedy in program order: an equation joins
the nests of its operands where every value that flows between them is used at the point at which it was computed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from functad.errors import NoRuleError
from functad.ir import Absent, Eqn, Literal, Program, Var, has_effects
from functad.lowering.buffers import Buffer, new_buffer
from functad.lowering.nest import POST, PRE, NestBuilder
from functad.lowering.products import Product, find_products
from functad.lowering.units import Unit, domain_of, domains_fit
from functad.lowering_rules import Callback, Contraction, Control, Indexed, Loops, Reduction, Scalar
from functad.pretty import literal_text

# Moves that cost nothing where they are used: nothing but index arithmetic.
FREE_MOVES = {"broadcast_in_dim", "reshape", "transpose", "squeeze", "slice", "rev", "iota", "copy", "unstack", "split"}
# Moves that keep the row-major order of the elements: the result can be the operand's memory.
SAME_MEMORY = {"reshape", "squeeze"}
_KINDS: dict[type, str] = {Loops: "loops", Contraction: "contraction", Control: "control", Callback: "call"}
LARGEST_NEST = 100  # equations; keeps the compiler's time linear
LARGEST_INLINE = 30
DEEPEST_INLINE = 50  # equations one behind another; keeps the recursion shallow
LARGEST_WAIT = 1 << 19  # bytes of a result that may lie waiting for the sake of a better order


@dataclass(frozen=True)
class _Reads:
    """What an equation reads from buffers when its operands' free moves are followed."""

    aligned: set[Var]  # at the equation's own point only
    elsewhere: set[Var]

    @property
    def all(self) -> set[Var]:
        return self.aligned | self.elsewhere


class Fusion:
    """The partition of one Program.

    units: in an order in which they can run. inline: variables computed where they are used. stored: those that need
    a buffer. alias: a variable whose memory is that of another.
    """

    def __init__(self, program: Program, name: Callable[[Var], str], phases: Sequence[int] = ()) -> None:
        self.program = program
        self.phases = phases  # of each equation the number of barriers before it; none if empty
        self.name = name
        self.producer: dict[Var, int] = {v: i for i, e in enumerate(program.eqns) for v in e.outvars}
        self.uses: dict[Var, list[int]] = {}
        for i, eqn in enumerate(program.eqns):
            for atom in dict.fromkeys(a for a in eqn.invars if isinstance(a, Var)):
                self.uses.setdefault(atom, []).append(i)
        self.outputs = {a for a in program.outvars if isinstance(a, Var)}
        self.products = find_products(program, self.uses, self.outputs)
        self.absorbed = {i for p in self.products.values() for i in p.members}
        self.inline: dict[Var, Eqn] = {}
        self.weight: dict[Var, int] = {}
        self.depth: dict[Var, int] = {}
        self.constants: set[Var] = set()  # inline ones that come from literals alone
        self._roots: dict[Var, list[Var]] = {}
        self._known_reads: dict[int, _Reads] = {}
        self.alias: dict[Var, Var] = {}
        self._choose_inline()
        self.all_units: list[Unit] = []
        self.unit_of: dict[Var, Unit] = {}
        self._last_to_act: Unit | None = None
        for i in range(len(program.eqns)):
            self._place(i)
        self._let_readers_go_first()
        self.units = self._ordered()
        self.stored = self._stored()

    def __str__(self) -> str:
        """The units in the order in which they run, each with its equations, and what is computed within others."""
        lines = []
        for number, unit in enumerate(self.units):
            domain = f" over {list(unit.shape)}" if unit.kind == "nest" else ""
            reduced = f", axes {list(unit.axes)} reduced" if unit.axes else ""
            lines.append(f"{number}: {unit.kind}{domain}{reduced}")
            lines += [f"     {self._line(self.program.eqns[i])}" for i in unit.members]
        within = list(dict.fromkeys(self.inline.values()))
        lines += ["where they are used:"] * bool(within)
        return "\n".join([*lines, *(f"     {self._line(e)}" for e in within)])

    def _line(self, eqn: Eqn) -> str:
        outs = ", ".join(f"{self.name(v)}:{v.aval.str_short()}" for v in eqn.outvars)
        operands = [self.name(a) if isinstance(a, Var) else literal_text(a.value) for a in eqn.invars]
        return " ".join([outs, "=", eqn.primitive.name, *operands])

    # --- what is computed where it is used -----------------------------------------------------------------

    def _choose_inline(self) -> None:
        for i, eqn in enumerate(self.program.eqns):
            rule = eqn.primitive.lower
            if isinstance(rule, Absent):
                raise NoRuleError(f"`{eqn.primitive.name}` cannot be compiled: {rule.why}")
            if i in self.absorbed:
                continue
            if isinstance(rule, Indexed):
                name = eqn.primitive.name
                if not eqn.primitive.multiple_results and self._depth_of(eqn) > DEEPEST_INLINE:
                    continue
                same = name in SAME_MEMORY or (name == "broadcast_in_dim" and _only_adds_unit_axes(eqn))
                if same and isinstance(eqn.invars[0], Var):
                    self.alias[eqn.outvars[0]] = self.alias.get(eqn.invars[0], eqn.invars[0])
                if name in FREE_MOVES or self._used_once(eqn):
                    self._make_inline(eqn)
            elif isinstance(rule, Scalar) and self._weight_of(eqn) <= LARGEST_INLINE:
                if self._is_constant_result(eqn) or self._flows_on(eqn):
                    self._make_inline(eqn)

    def _make_inline(self, eqn: Eqn) -> None:
        operands = [a for a in eqn.invars if isinstance(a, Var)]
        roots = list(dict.fromkeys(root for a in operands for root in self.roots(a)))
        weight = self._weight_of(eqn) if isinstance(eqn.primitive.lower, Scalar) else self._heaviest(operands)
        depth, constant = self._depth_of(eqn), self._is_constant_result(eqn)
        for var in eqn.outvars:
            self.inline[var] = eqn
            self.weight[var], self.depth[var], self._roots[var] = weight, depth, roots
            if constant:
                self.constants.add(var)

    def _is_constant_result(self, eqn: Eqn) -> bool:
        return all(isinstance(a, Literal) or a in self.constants for a in eqn.invars)

    def _flows_on(self, eqn: Eqn) -> bool:
        """Whether an element-wise result is used at one place only, as often as it is computed.

        Behind a barrier only if no more operands than one have to be kept until then.
        """
        if len(eqn.outvars) > 1 or self._depth_of(eqn) > DEEPEST_INLINE:
            return False
        (var,) = eqn.outvars
        phase = self._phase(self.producer[var])
        while True:
            users = self.uses.get(var, [])
            if len(users) != 1 or var in self.outputs or users[0] in self.absorbed:
                return False
            user = self.program.eqns[users[0]]
            if sum(a is var for a in user.invars) != 1:
                return False
            if self._phase(users[0]) != phase and len(self._arrays_read(eqn)) > 1:
                return False
            rule = user.primitive.lower
            if isinstance(rule, Reduction):
                return True
            if len(user.outvars) != 1 or user.outvars[0].aval.size != var.aval.size:
                return False
            if isinstance(rule, Scalar):
                return True
            if not isinstance(rule, Indexed) or user.primitive.name not in FREE_MOVES:
                return False
            (var,) = user.outvars

    def _phase(self, i: int) -> int:
        return self.phases[i] if self.phases else 0

    def _arrays_read(self, eqn: Eqn) -> set[Var]:
        return {r for a in eqn.invars if isinstance(a, Var) for r in self.roots(a) if r.aval.shape}

    def _weight_of(self, eqn: Eqn) -> int:
        """How many element-wise equations are computed where this one is."""
        return 1 + sum(self.weight.get(a, 0) for a in eqn.invars if isinstance(a, Var))

    def _heaviest(self, operands: Sequence[Var]) -> int:
        return max((self.weight.get(a, 0) for a in operands), default=0)

    def _depth_of(self, eqn: Eqn) -> int:
        return 1 + max((self.depth.get(a, 0) for a in eqn.invars if isinstance(a, Var)), default=0)

    def _used_once(self, eqn: Eqn) -> bool:
        """Whether inlining computes no element twice."""
        if eqn.primitive.multiple_results:
            return True
        (out,) = eqn.outvars
        users = self.uses.get(out, [])
        if len(users) != 1 or out in self.outputs or users[0] in self.absorbed:
            return False
        user = self.program.eqns[users[0]]
        if isinstance(user.primitive.lower, (Scalar, Reduction)):
            return True
        return isinstance(user.primitive.lower, Indexed) and user.outvars[0].aval.size <= out.aval.size

    def definition(self, var: Var) -> Eqn | None:
        return self.inline.get(var)

    # --- the partition -------------------------------------------------------------------------------------

    def _place(self, i: int) -> None:
        eqn = self.program.eqns[i]
        if i in self.products:
            self._new_product(self.products[i])
        elif has_effects(eqn):
            self._act(self._new_unit(_KINDS[type(eqn.primitive.lower)], [i]), eqn)
        elif i in self.absorbed or _is_empty(eqn) or eqn.outvars[0] in self.inline:
            pass
        elif isinstance(eqn.primitive.lower, tuple(_KINDS)):
            unit = self._new_unit(_KINDS[type(eqn.primitive.lower)], [i])
            self._depend(unit, (a for a in eqn.invars if isinstance(a, Var)))
        else:
            self._place_in_nest(i)

    def _new_unit(self, kind: str, members: list[int]) -> Unit:
        unit = Unit(kind, len(self.all_units), members)
        self.all_units.append(unit)
        for i in members:
            self.unit_of.update((v, unit) for v in self.program.eqns[i].outvars)
        return unit

    def _act(self, unit: Unit, eqn: Eqn) -> None:
        """Note what a unit reads, and that it acts after all units before it that do."""
        self._depend(unit, (a for a in eqn.invars if isinstance(a, Var)))
        last, self._last_to_act = self._last_to_act, unit
        if last is not None:
            unit.waits_for.add(last.number)
            unit.before |= last.before | (1 << last.number)

    def _new_product(self, product: Product) -> None:
        unit = self._new_unit("product", list(product.members))
        unit.product = product
        self._depend(unit, (a for a in (product.lhs, product.rhs, product.start) if isinstance(a, Var)))

    def _depend(self, unit: Unit, variables: object) -> None:
        """Note that a unit reads variables, following free moves to what lies in a buffer."""
        for var in variables:  # type: ignore[attr-defined]
            for root in self.roots(var):
                unit.reads.add(root)
                owner = self.unit_of.get(root)
                if owner is not None and owner is not unit:
                    unit.before |= owner.before | (1 << owner.number)

    def roots(self, var: Var) -> list[Var]:
        """The variables in buffers from which a variable is computed where it is used; itself if it has a buffer."""
        return self._roots[var] if var in self._roots else [var]

    def _place_in_nest(self, i: int) -> None:
        eqn = self.program.eqns[i]
        reduction = isinstance(eqn.primitive.lower, Reduction)
        shape, axes = domain_of(eqn)
        reads = self._reads(i)
        unit = Unit("nest", -1, [i], shape=shape, axes=axes, flat=not (reads.elsewhere or reduction), levels={i: PRE})
        unit.reads = set(reads.all)
        for root in reads.all:
            owner = self.unit_of.get(root)
            if owner is not None:
                unit.before |= owner.before | (1 << owner.number)
        joined: Unit | None = None
        for other in self._candidates(reads, shape):
            if joined is None:
                if self._can_join(unit, reads, other):
                    joined = self._merge(other, unit)
            elif self._can_unite(joined, other):
                joined = self._merge(other, joined)
        if joined is None:
            unit.number = len(self.all_units)
            self.all_units.append(unit)
            joined = unit
        self.unit_of.update((v, joined) for v in eqn.outvars)

    def _reads(self, i: int) -> _Reads:
        known = self._known_reads.get(i)
        if known is not None:
            return known
        eqn = self.program.eqns[i]
        shape, axes = domain_of(eqn)
        builder = NestBuilder(shape, axes, self.definition, _no_buffer, self.name)
        if isinstance(eqn.primitive.lower, Reduction):
            builder.add_reduction(eqn)
        else:
            builder.add_pointwise(eqn, PRE)
        elsewhere = {v for v, position in builder.loaded if position != builder.position}
        reads = _Reads({v for v, _ in builder.loaded} - elsewhere, elsewhere)
        self._known_reads[i] = reads
        return reads

    def _candidates(self, reads: _Reads, shape: tuple[int, ...]) -> list[Unit]:
        """Nests that an equation may join: those of its operands, then those that read what it reads; latest first."""
        owners = {u.number: u for v in reads.all if (u := self.unit_of.get(v)) is not None and u.kind == "nest"}
        found = [owners[n] for n in sorted(owners, reverse=True)]
        if reads.aligned:
            size = int(np.prod(shape, dtype=np.int64))
            for unit in reversed(self.all_units[-12:]):
                if unit.kind == "nest" and unit not in found and unit.points == size and unit.reads & reads.aligned:
                    found.append(unit)
        return found

    def _can_join(self, unit: Unit, reads: _Reads, other: Unit) -> bool:
        (i,) = unit.members
        if self._phase(i) != self._phase(other.members[0]):
            return False  # the earlier one would have to wait, and what it reads would be kept
        level = self._joining_level(unit, reads, other)
        if level is None or len(other.members) >= LARGEST_NEST or self._would_cycle(unit, other):
            return False
        unit.levels = {i: level}
        return True

    def _joining_level(self, unit: Unit, reads: _Reads, other: Unit) -> int | None:
        inside = {v for v in reads.all if self.unit_of.get(v) is other}
        at_points = {v for v in inside if self._level_of(v, other) == PRE}
        if inside & reads.elsewhere:
            return None
        if at_points == inside and unit.points == other.points and domains_fit(unit, other):
            return PRE
        if not at_points and not unit.axes and other.has_post and unit.points == other.outer_points:
            return POST if inside or other.outer_points > 1 else None
        return None

    def _level_of(self, var: Var, unit: Unit) -> int:
        i = self.producer[var]
        return POST if isinstance(self.program.eqns[i].primitive.lower, Reduction) else unit.levels[i]

    def _would_cycle(self, unit: Unit, other: Unit) -> bool:
        """Whether something that must run before one of two units must run after the other."""
        return self._between(unit, other) or self._between(other, unit)

    def _between(self, later: Unit, earlier: Unit) -> bool:
        if earlier.number < 0:
            return False
        bit, rest = 1 << earlier.number, later.before & ~(1 << earlier.number)
        return any(u.before & bit for u in self._units_in(rest & ~earlier.before))

    def _units_in(self, bits: int) -> list[Unit]:
        found = []
        while bits:
            low = bits & -bits
            found.append(self.all_units[low.bit_length() - 1])
            bits ^= low
        return found

    def _can_unite(self, joined: Unit, other: Unit) -> bool:
        if self._phase(joined.members[0]) != self._phase(other.members[0]):
            return False
        if joined.points != other.points or len(joined.members) + len(other.members) > LARGEST_NEST:
            return False
        if POST in (*joined.levels.values(), *other.levels.values()) or not domains_fit(joined, other):
            return False
        for one, two in ((joined, other), (other, joined)):
            for v in one.reads:
                if self.unit_of.get(v) is two and not self._is_aligned(v, one, two):
                    return False
        return not self._would_cycle(joined, other)

    def _is_aligned(self, var: Var, reader: Unit, owner: Unit) -> bool:
        if self._level_of(var, owner) != PRE:
            return False
        return not any(var in self._reads(i).elsewhere for i in reader.members)

    def _merge(self, kept: Unit, gone: Unit) -> Unit:
        """Make one unit of two, under the number of the first."""
        if (
            gone.axes
            and not kept.axes
            or (kept.flat and not gone.flat and not kept.axes and PRE in gone.levels.values())
        ):
            kept.shape, kept.axes = gone.shape, gone.axes
        kept.flat = kept.flat and gone.flat
        kept.members = sorted(kept.members + gone.members)
        kept.levels.update(gone.levels)
        kept.reads |= gone.reads
        old = 1 << gone.number if gone.number >= 0 else 0
        bit = 1 << kept.number
        before = (kept.before | gone.before) & ~bit & ~old
        if old or before != kept.before:  # else those that come later know already
            for unit in self.all_units:
                if unit is not gone and unit is not kept and unit.before & (bit | old):
                    unit.before = (unit.before & ~old) | bit | before
        kept.before = before
        if gone.number >= 0:
            for i in gone.members:
                self.unit_of.update((v, kept) for v in self.program.eqns[i].outvars)
            gone.members, gone.number = [], -1
            gone.kind = "gone"
        return kept

    # --- results -------------------------------------------------------------------------------------------

    def _let_readers_go_first(self) -> None:
        """Put the unit that updates an input behind all others that read it, so that it can do so in place."""
        for var in self.program.invars:
            readers = [u for u in self.all_units if u.kind != "gone" and var in u.reads]
            updating = [u for u in readers if self._updates(u, var)]
            if len(updating) != 1:
                continue
            (last,) = updating
            bit = 1 << last.number
            waiting = [u for u in readers if u is not last and not u.before & bit]
            last.waits_for.update(u.number for u in waiting)
            for unit in waiting:
                last.before |= unit.before | (1 << unit.number)
            for unit in self.all_units:
                if unit.before & bit:
                    unit.before |= last.before

    def _updates(self, unit: Unit, var: Var) -> bool:
        """Whether a unit makes a result out of an input that it reads point by point."""
        if unit.product is not None:
            return unit.product.start is var
        if unit.kind == "control":
            return self._carries(self.program.eqns[unit.members[0]], var)
        outs = (v for i in unit.members for v in self.program.eqns[i].outvars)
        return unit.kind == "nest" and any(v in self.outputs and v.aval.same_type(var.aval) for v in outs)

    def _carries(self, eqn: Eqn, var: Var) -> bool:
        """Whether a loop carries an input along, to a result."""
        first = eqn.params.get("num_consts", 0) + eqn.params.get("cond_nconsts", 0) + eqn.params.get("body_nconsts", 0)
        carries = zip(eqn.invars[first:], eqn.outvars[: eqn.params.get("num_carry")])
        return "branches" not in eqn.params and any(a is var and out in self.outputs for a, out in carries)

    def _ordered(self) -> list[Unit]:
        """The units in an order in which they can run: program order, but units over the same rows stay together.

        What works on the same rows can run chunk by chunk while it is in the cache, without waiting for other threads.
        But what comes before a barrier runs before what comes behind it.
        """
        live = [u for u in self.all_units if u.kind != "gone"]
        by_number = {u.number: u for u in live}
        waiting = {u.number: self._read_units(u) for u in live}
        followers: dict[int, list[int]] = {}
        for unit in live:
            for other in waiting[unit.number]:
                followers.setdefault(other, []).append(unit.number)
        ready: list[tuple[int, int, int]] = []  # phase, position, number
        of_rows: dict[int, list[tuple[int, int, int]]] = {}
        rows = {u.number: self._rows(u) for u in live}

        def release(number: int) -> None:
            first = by_number[number].members[0]
            entry = (self._phase(first), first, number)
            heapq.heappush(ready, entry)
            heapq.heappush(of_rows.setdefault(rows[number], []), entry)

        for unit in live:
            if not waiting[unit.number]:
                release(unit.number)
        ordered: list[Unit] = []
        done: set[int] = set()
        current = 0
        while len(ordered) < len(live):
            like_last = of_rows.get(current, []) if current else []
            for heap in (ready, like_last):
                while heap and heap[0][-1] in done:
                    heapq.heappop(heap)
            is_early = bool(like_last) and like_last[0][0] == ready[0][0]
            *_, number = heapq.heappop(like_last if is_early else ready)
            done.add(number)
            ordered.append(by_number[number])
            current = rows[number]
            for follower in followers.get(number, []):
                waiting[follower].discard(number)
                if not waiting[follower]:
                    release(follower)
        return ordered

    def _read_units(self, unit: Unit) -> set[int]:
        """The numbers of the units whose results a unit reads."""
        owners = (self.unit_of.get(v) for v in unit.reads)
        return {o.number for o in owners if o is not None and o is not unit} | unit.waits_for

    def _rows(self, unit: Unit) -> int:
        """The number of rows that a unit works through one by one; 0 where it does not, or waiting costs memory."""
        outs = [v.aval for i in unit.members for v in self.program.eqns[i].outvars]
        if unit.kind in ("control", "call") or max(a.size * a.dtype.itemsize for a in outs) > LARGEST_WAIT:
            return 0
        if unit.product is not None:
            return unit.product.out.aval.shape[0] if unit.product.out.aval.shape else 0
        if unit.kind == "loops":
            return outs[0].shape[0] if outs[0].shape else 0
        return next((n for d, n in enumerate(unit.shape) if n != 1 and d not in unit.axes), 0)

    def _stored(self) -> set[Var]:
        """The variables that are read by another unit than their own, or returned."""
        stored = {root for out in self.outputs for root in (out, *self.roots(out))}
        for unit in self.units:
            for var in unit.reads:
                if self.unit_of.get(var) is not unit:
                    stored.add(var)
            if unit.kind in ("loops", "control", "call"):
                eqn = self.program.eqns[unit.members[0]]
                stored.update(a for a in eqn.invars if isinstance(a, Var))
            elif unit.product is not None:
                stored.update(unit.product.operands())
        return stored

    def builder(self, unit: Unit, buffer: Callable[[Var], Buffer]) -> NestBuilder:
        """The nest of a unit, without its stores."""
        builder = NestBuilder(unit.shape, unit.axes, self.definition, buffer, self.name)
        for i in unit.members:
            eqn = self.program.eqns[i]
            if isinstance(eqn.primitive.lower, Reduction):
                builder.add_reduction(eqn)
            else:
                builder.add_pointwise(eqn, unit.levels[i])
        return builder


def _only_adds_unit_axes(eqn: Eqn) -> bool:
    return eqn.invars[0].aval.size == eqn.outvars[0].aval.size


def _is_empty(eqn: Eqn) -> bool:
    return all(v.aval.size == 0 for v in eqn.outvars)


def _no_buffer(var: Var) -> Buffer:
    return new_buffer("", (), np.dtype(np.float32))
