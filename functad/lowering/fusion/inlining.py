"""Inlining: which values are computed where they are used, and which share the memory of another.

Knows the kinds of lowering rules; neither groups nor memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from functad import machine_model
from functad.errors import NoRuleError
from functad.ir import Absent, Atom, Eqn, Literal, Program, Var
from functad.lowering.fusion.products import find_products
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.nests.builder import NestBuilder
from functad.lowering.nests.nest import PRE
from functad.lowering_rules import Call, Defined, Indexed, Loops, Reduction, Running, Scalar, Scattered
from functad.primitives.cost import weight_of
from functad.primitives.loops.joining import Part, parts_of


class Inlining:
    """What one Program computes where it is used; the rest is for groups.

    inline: those variables, with their equations. spread: of such a variable, the large ones among what it is computed
    from, and itself, that come from few numbers. alias: a variable whose memory is that of another. products: by the
    position of their last equation; absorbed: the equations that they take in. phases: of each equation the number of
    barriers before it; none if empty. rematerialised: variables that are computed where they are used in any case.
    """

    def __init__(
        self, program: Program, phases: Sequence[int] = (), rematerialised: frozenset[Var] = frozenset()
    ) -> None:
        self.program = program
        self.phases = phases
        self.rematerialised = rematerialised
        self.producer: dict[Var, int] = {v: i for i, e in enumerate(program.eqns) for v in e.outvars}
        self.uses: dict[Var, list[int]] = {}
        for i, eqn in enumerate(program.eqns):
            for atom in dict.fromkeys(a for a in eqn.invars if isinstance(a, Var)):
                self.uses.setdefault(atom, []).append(i)
        self.outputs = {a for a in program.outvars if isinstance(a, Var)}
        self.products = find_products(program, self._only_user)
        self.absorbed = {i for p in self.products.values() for i in p.members}
        self.inline: dict[Var, Eqn] = {}
        self.weight: dict[Var, int] = {}
        self.depth: dict[Var, int] = {}
        self.spread: dict[Var, frozenset[Var]] = {}
        self.constants: set[Var] = set()  # inline ones that come from literals alone
        self.alias: dict[Var, Var] = {}
        self._roots: dict[Var, list[Var]] = {}
        self._steps: dict[Var, frozenset[tuple[int, ...]]] = {}
        self._choose_inline()

    def definition(self, var: Var) -> Eqn | None:
        """The equation of a variable that is computed where it is used."""
        return self.inline.get(var)

    def roots(self, var: Var) -> list[Var]:
        """The variables in buffers from which a variable is computed where it is used; itself if it has a buffer."""
        return self._roots[var] if var in self._roots else [var]

    def alias_root(self, var: Var) -> Var:
        """The variable whose memory a variable shares; itself if it shares none."""
        while var in self.alias:
            var = self.alias[var]
        return var

    def phase(self, i: int) -> int:
        """The number of barriers before an equation."""
        return self.phases[i] if self.phases else 0

    def _only_user(self, var: Var) -> int | None:
        """The one equation that reads a computed variable, no result; None if there is none, or more, or a barrier."""
        users = self.uses.get(var, [])
        is_alone = len(users) == 1 and var not in self.outputs
        return users[0] if is_alone and self.phase(users[0]) == self.phase(self.producer[var]) else None

    def _choose_inline(self) -> None:
        for i, eqn in enumerate(self.program.eqns):
            rule = eqn.primitive.lower
            if isinstance(rule, Absent):
                raise NoRuleError(f"`{eqn.primitive.name}` cannot be compiled: {rule.why}")
            if isinstance(rule, (Call, Defined)):
                raise NoRuleError(f"`{eqn.primitive.name}` calls a Program: `inline_calls` comes before lowering")
            if i in self.absorbed:
                continue
            if isinstance(rule, Indexed):
                one = not eqn.primitive.multiple_results  # several results are always computed where they are used
                if one and (self._is_run_through_across(eqn) or self._is_far_from_memory(eqn, rule)):
                    continue
                if _same_memory(eqn, rule) and isinstance(eqn.invars[0], Var):
                    self.alias[eqn.outvars[0]] = self.alias.get(eqn.invars[0], eqn.invars[0])
                if rule.free or self._used_once(eqn):
                    self._make_inline(eqn)
            elif isinstance(rule, Loops) and self._is_joined_where_read(eqn):
                self._make_inline(eqn)
            elif isinstance(rule, Scalar):
                is_light = self.weight_of(eqn) <= machine_model.LARGEST_INLINE
                if eqn.outvars[0] in self.rematerialised and self._depth_of(eqn) <= machine_model.DEEPEST_INLINE:
                    self._make_inline(eqn)
                elif is_light and (self._is_constant_result(eqn) or self._flows_on(eqn)):
                    self._make_inline(eqn)
                elif self._comes_from_few(eqn):
                    self._make_inline(eqn)
                    self.spread[eqn.outvars[0]] = self.spread_in(eqn) | {eqn.outvars[0]}

    def spread_in(self, eqn: Eqn) -> frozenset[Var]:
        """The large values that come from few numbers among what an equation is computed from where it is."""
        return frozenset().union(*(self.spread.get(a, ()) for a in eqn.invars if isinstance(a, Var)))

    def _make_inline(self, eqn: Eqn) -> None:
        operands = [a for a in eqn.invars if isinstance(a, Var)]
        roots = list(dict.fromkeys(root for a in operands for root in self.roots(a)))
        weight = self.weight_of(eqn) if isinstance(eqn.primitive.lower, Scalar) else self._heaviest(operands)
        depth, constant = self._depth_of(eqn), self._is_constant_result(eqn)
        for var in eqn.outvars:
            self.inline[var] = eqn
            self.weight[var], self.depth[var], self._roots[var] = weight, depth, roots
            self.spread[var] = self.spread_in(eqn)
            if constant:
                self.constants.add(var)

    def _is_constant_result(self, eqn: Eqn) -> bool:
        return all(isinstance(a, Literal) or a in self.constants for a in eqn.invars)

    def _flows_on(self, eqn: Eqn) -> bool:
        """Whether an element-wise result is used at one place only, as often as it is computed.

        Behind a barrier only if no more operands than one have to be kept until then.
        """
        if len(eqn.outvars) > 1 or self._depth_of(eqn) > machine_model.DEEPEST_INLINE:
            return False
        (var,) = eqn.outvars
        return self._is_read_once(var, eqn)

    def _is_read_once(self, var: Var, eqn: Eqn) -> bool:
        """Whether one place only reads what an equation computes, `var`, or each part of it that is moved."""
        waiting = [var]
        while waiting:
            var = waiting.pop()
            users = self.uses.get(var, [])
            if len(users) != 1 or var in self.outputs or users[0] in self.absorbed:
                return False
            user = self.program.eqns[users[0]]
            if sum(a is var for a in user.invars) != 1:
                return False
            if self.phase(users[0]) != self.phase(self.producer[eqn.outvars[0]]) and len(self._arrays_read(eqn)) > 1:
                return False
            if self._is_moved_on(user, var):
                waiting += user.outvars
            elif not self._is_computed_in(user, var, eqn):
                return False
        return True

    def _is_moved_on(self, user: Eqn, var: Var) -> bool:
        """Whether an equation does nothing but move a variable, all of it; maybe each part of it somewhere else."""
        rule = user.primitive.lower
        if not isinstance(rule, Indexed) or rule.once or sum(v.aval.size for v in user.outvars) != var.aval.size:
            return False
        return rule.free or len(user.outvars) > 1

    def _is_computed_in(self, user: Eqn, var: Var, eqn: Eqn) -> bool:
        """Whether an equation that reads a variable may compute it by another, moved from which it is."""
        rule = user.primitive.lower
        if isinstance(rule, Loops):
            return self._is_joined_where_read(user) or self.is_joined_in_nest(user)
        if isinstance(rule, Scattered):
            return self._may_be_read_by(user, var, eqn) and self._pays_one_by_one(user, var, eqn)
        if isinstance(rule, Indexed) and rule.once:  # most of the points of its pieces are such as read it
            return 2 * var.aval.size >= user.outvars[0].aval.size
        is_scalar = isinstance(rule, Scalar) and len(user.outvars) == 1 and user.outvars[0].aval.size == var.aval.size
        return isinstance(rule, Reduction) or is_scalar

    def _may_be_read_by(self, scatter: Eqn, var: Var, eqn: Eqn) -> bool:
        """Whether a scatter may compute one of its operands by an equation: the one that it updates lies in memory.

        What reads that memory would keep the result from taking it.
        """
        operand, *others = scatter.invars
        roots = {self.alias_root(r) for a in eqn.invars if isinstance(a, Var) for r in self.roots(a)}
        is_once = sum(a is var for a in others) == 1
        return is_once and var is not operand and self._lies_in(operand) not in roots

    def _pays_one_by_one(self, scatter: Eqn, var: Var, eqn: Eqn) -> bool:
        """Whether an element-wise equation had better be computed where a scatter reads it than stored.

        It had not if that took many operations for each update, one by one, or if what it reads were stored for this.
        """
        rule = scatter.primitive.lower
        assert isinstance(rule, Scattered)
        loops = rule.loops(*[a.aval for a in scatter.invars], **scatter.params)
        if True in loops.ordered:
            first, end = loops.ordered.index(True), len(loops.ordered) - loops.ordered[::-1].index(True)
            in_vectors = math.prod(loops.shape[end:]) >= machine_model.FLOATS_OF_VECTOR and var is scatter.invars[-1]
            most = machine_model.FUNCTION_OPERATIONS - 1 if in_vectors else machine_model.SCATTERED_OPERATIONS
            if self.weight_of(eqn) * var.aval.size > most * math.prod(loops.shape[first:]):
                return False
        roots = {r for a in eqn.invars if isinstance(a, Var) for r in self.roots(a)} - self.outputs
        makers = (self.program.eqns[self.producer[r]] for r in roots if r in self.producer)
        return not any(isinstance(maker.primitive.lower, Scalar) for maker in makers)

    def _lies_in(self, atom: Atom) -> Atom:
        """The value whose memory an atom shares, as far as moves that keep the order of elements tell."""
        while isinstance(atom, Var) and atom in self.producer:
            eqn = self.program.eqns[self.producer[atom]]
            rule = eqn.primitive.lower
            if not isinstance(rule, Indexed) or not _same_memory(eqn, rule):
                break
            atom = eqn.invars[0]
        return atom

    def _comes_from_few(self, eqn: Eqn) -> bool:
        """Whether a large element-wise result comes from few numbers, as one for each pair does, and needs no buffer.

        Each nest that reads it then computes it anew, and memory grows with the few numbers, not with their pairs.
        """
        if len(eqn.outvars) > 1 or self._depth_of(eqn) > machine_model.DEEPEST_INLINE:
            return False
        aval = eqn.outvars[0].aval
        if aval.size * aval.dtype.itemsize < machine_model.SMALLEST_RECOMPUTED:
            return False
        if self._weight_once(eqn) > machine_model.LARGEST_RECOMPUTED or not self.is_read_at_points(eqn.outvars[0]):
            return False
        roots = {root for a in eqn.invars if isinstance(a, Var) for root in self.roots(a)}
        return machine_model.ELEMENTS_FROM_ONE * sum(root.aval.size for root in roots) <= aval.size

    def _weight_once(self, eqn: Eqn) -> int:
        """How many operations compute a result where it is read, what several operands come from counted once."""
        return sum(weight_of(self.program.eqns[i]) for *_, i in self._steps_of(eqn))

    def _steps_of(self, eqn: Eqn) -> frozenset[tuple[int, ...]]:
        """The element-wise equations that compute a result where it is read, each behind those that move it there."""
        if eqn.outvars[0] not in self._steps:
            i, is_scalar = self.producer[eqn.outvars[0]], isinstance(eqn.primitive.lower, Scalar)
            found: set[tuple[int, ...]] = {(i,)} if is_scalar else set()
            for inner in (self.inline[a] for a in eqn.invars if isinstance(a, Var) and a in self.inline):
                found.update(step if is_scalar else (i, *step) for step in self._steps_of(inner))
            self._steps[eqn.outvars[0]] = frozenset(found)
        return self._steps[eqn.outvars[0]]

    def is_read_at_points(self, var: Var) -> bool:
        """Whether only element-wise equations and reductions read a variable, or what is moved from it, once each."""
        waiting = [var]
        while waiting:
            var = waiting.pop()
            if var in self.outputs:
                return False
            for i in self.uses.get(var, []):
                eqn = self.program.eqns[i]
                rule = eqn.primitive.lower
                if i in self.absorbed or not isinstance(rule, (Scalar, Reduction, Indexed)):
                    return False
                if isinstance(rule, Indexed):
                    if not rule.free or eqn.outvars[0].aval.size > var.aval.size:
                        return False
                    waiting += eqn.outvars
        return True

    def _is_joined_where_read(self, eqn: Eqn) -> bool:
        """Whether an equation joins a few arrays for one element-wise equation, whose pieces are long loops then."""
        out = eqn.outvars[0]
        is_alone = len(self.uses.get(out, [])) == 1 and out not in self.outputs
        return is_alone and self._has_long_pieces(eqn) and self._is_read_by_elements(out)

    def is_joined_in_nest(self, eqn: Eqn) -> bool:
        """Whether an equation that joins a few arrays is a nest, as one that reads the result element by element is.

        Then one nest computes both, and the parts besides, where each of them is element-wise or in memory.
        """
        out = eqn.outvars[0]
        is_alone = len(self.uses.get(out, [])) == 1 and out not in self.outputs
        if is_alone or out.aval.size * out.aval.dtype.itemsize < machine_model.SMALLEST_JOINED_IN_NEST:
            return False
        if not (self._has_long_pieces(eqn) and self._is_read_by_elements(out)):
            return False
        makers = [self.program.eqns[self.producer[a]] for a in eqn.invars if a in self.producer]
        return all(isinstance(maker.primitive.lower, (Scalar, Indexed)) for maker in makers)

    def _has_long_pieces(self, eqn: Eqn) -> bool:
        """Whether an equation joins a few arrays, so that its pieces are long loops."""
        if len(eqn.invars) > machine_model.MOST_JOINED_WHERE_READ or not joins(eqn):
            return False
        if self._depth_of(eqn) > machine_model.DEEPEST_INLINE:
            return False
        (_, part), *_ = parts = parts_in(eqn)
        return len(parts) <= machine_model.MOST_JOINED_WHERE_READ and part.width >= machine_model.SHORTEST_JOINED * len(
            parts
        )

    def _is_read_by_elements(self, var: Var) -> bool:
        """Whether an element-wise equation of the same phase reads a variable at its own points."""
        for i in self.uses.get(var, []):
            user = self.program.eqns[i]
            if i not in self.absorbed and self.phase(self.producer[var]) == self.phase(i):
                if isinstance(user.primitive.lower, Scalar) and user.outvars[0].aval.size == var.aval.size:
                    return True
        return False

    def _is_run_through_across(self, eqn: Eqn) -> bool:
        """Whether a running combination would read this across the rows of where it is moved from.

        To move it before is faster: that runs square by square.
        """
        users = [self.program.eqns[i].primitive.lower for v in eqn.outvars for i in self.uses.get(v, [])]
        out = eqn.outvars[0].aval
        if not out.size or not any(isinstance(rule, Running) for rule in users):
            return False
        return reads_across(self._alone(eqn))

    def _is_far_from_memory(self, eqn: Eqn, rule: Indexed) -> bool:
        """Whether many equations stand between a moved value and memory, or it is long to say where it lies there.

        Each reshape behind a transpose divides an index and takes what is left: it says twice where the operand lies.
        """
        depth = self._depth_of(eqn)
        if depth > machine_model.DEEPEST_INLINE:
            return True
        if not rule.same_memory or depth < machine_model.SHALLOWEST_LONG_INDEX or not eqn.outvars[0].aval.size:
            return False
        if eqn.invars[0] not in self.inline:
            return False
        return any(position.length > machine_model.LONGEST_INDEX for _, position in self._alone(eqn).loaded)

    def _alone(self, eqn: Eqn) -> NestBuilder:
        """An equation in a nest, with what is computed within it."""
        builder = NestBuilder(eqn.outvars[0].aval.shape, (), self.definition, no_buffer, lambda v: "")
        builder.add_pointwise(eqn, PRE)
        return builder

    def _arrays_read(self, eqn: Eqn) -> set[Var]:
        return {r for a in eqn.invars if isinstance(a, Var) for r in self.roots(a) if r.aval.shape}

    def weight_of(self, eqn: Eqn) -> int:
        """How many operations of element-wise equations are computed where this one is."""
        return weight_of(eqn) + sum(self.weight.get(a, 0) for a in eqn.invars if isinstance(a, Var))

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
        if isinstance(user.primitive.lower, Scattered):
            return self._may_be_read_by(user, out, eqn)
        return isinstance(user.primitive.lower, Indexed) and user.outvars[0].aval.size <= out.aval.size


def reads_across(builder: NestBuilder) -> bool:
    """Whether a nest reads something whose elements do not lie side by side, or are one, along its last loop."""
    if not builder.nest.loops:
        return False
    loops, last = builder.nest.loops, builder.nest.loops[-1]
    positions = [position for _, position in builder.loaded]
    return not all(abs(p.coefficient(last)) <= 1 and p.symbols() <= {*loops} for p in positions)


def no_buffer(var: Var) -> Buffer:
    """Stands for the buffer of a variable while nobody knows where it will lie."""
    return new_buffer("", (), np.dtype(np.float32))


def joins(eqn: Eqn) -> bool:
    """Whether an equation does nothing but join its operands."""
    return isinstance(eqn.primitive.lower, Loops) and eqn.primitive.lower.joins is not None


def parts_in(eqn: Eqn) -> list[tuple[Atom, Part]]:
    """The operands of an equation that joins them, and the part of each."""
    rule, shape = eqn.primitive.lower, eqn.outvars[0].aval.shape
    assert isinstance(rule, Loops) and rule.joins is not None
    return list(zip(eqn.invars, parts_of([a.aval.size for a in eqn.invars], shape, eqn.params[rule.joins])))


def _same_memory(eqn: Eqn, rule: Indexed) -> bool:
    """Whether the result can be the operand's memory; to repeat it may add nothing but axes of one element."""
    adds_unit_axes = rule.repeats and eqn.invars[0].aval.size == eqn.outvars[0].aval.size
    return rule.same_memory or adds_unit_axes
