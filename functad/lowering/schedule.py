"""The schedule: groups become steps on buffers, with memory shared in place where an operand is not needed again.

Knows what a step reads and writes; no target and no addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from functad import machine_model
from functad.config import config
from functad.editing.contracts import check_stage
from functad.ir import Atom, Eqn, Program, Var
from functad.lowering.barriers import remove_barriers
from functad.lowering.composites import take_composites_apart
from functad.lowering.control import Scheduled, write_control
from functad.lowering.fusion.fuse import Fusion
from functad.lowering.fusion.groups import FusionGroup
from functad.lowering.fusion.inlining import joins, parts_in
from functad.lowering.fusion.joins import find_places, runs_by_rows
from functad.lowering.fusion.order import check_order
from functad.lowering.matrices import write_product
from functad.lowering.memory.assignment import BufferAssignment
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.memory.lifetimes import NEVER, Lifetimes
from functad.lowering.memory.values import Values
from functad.lowering.nests.builder import NestBuilder
from functad.lowering.nests.nest import PRE, Load
from functad.lowering.scatters import write_scatter
from functad.lowering.shared import Shared
from functad.lowering.steps import CallStep, Step, with_waiting
from functad.lowering.target import ANY_MACHINE, Machine, StepWriter, Target
from functad.lowering_rules import Loops
from functad.observing import watching
from functad.optimize.pipeline import sum_few_terms
from functad.primitives.loops.joining import Part


@dataclass(eq=False)
class Schedule:
    """The steps of a Program in order.

    inputs: the buffer of each input. constants: of each constant, those of sub-programs included, whose values are
    `values`. outputs: where each result lies, an "output" storage, or that of a donated input.
    """

    program: Program
    names: dict[Var, str]
    steps: list[Step]
    inputs: list[Buffer]
    constants: list[Buffer]
    values: list[Any]
    outputs: list[Buffer]

    def __str__(self) -> str:
        """The steps in order, what each reads and writes, and where the results lie."""
        return "\n".join([*map(str, self.steps), f"results: {', '.join(b.name for b in self.outputs)}"])


def make_schedule(
    program: Program,
    donated: Sequence[bool] = (),
    machine: Machine = ANY_MACHINE,
    names: Mapping[Var, str] | None = None,
) -> Schedule:
    """Fuse a Program and lay out its steps.

    `donated` tells which inputs' memory results may take, `names` what some variables are called.
    """
    shared = Shared(dict(names or {}))
    shared.add_names(program)
    inputs = [
        new_buffer(f"input_{shared.names[v]}", v.aval.shape, v.aval.dtype, "input", k)
        for k, v in enumerate(program.invars)
    ]
    takers = {b.storage: None for b, is_donated in zip(inputs, donated) if is_donated}
    steps, outputs = _Scheduler(program, inputs, takers, shared, machine).run()
    return Schedule(program, shared.names, steps, inputs, shared.constants, shared.values, outputs)


class _Scheduler:
    """Writes the steps of one Program, group after group.

    Args:
        inputs: the buffers of its inputs.
        takers: the inputs whose memory results may take, and the number of the result that may; None for any.
        shared: with all Programs around this one.
        passes: so many leading results may lie wherever their value is; all others get a storage of their own.
    """

    def __init__(
        self,
        program: Program,
        inputs: Sequence[Buffer],
        takers: Mapping[Storage, int | None],
        shared: Shared,
        machine: Machine,
        passes: int = 0,
    ) -> None:
        shared.add_names(program)
        given, program = program, sum_few_terms(take_composites_apart(program), machine.on_device)
        shared.add_names(program)
        program, phases = remove_barriers(program)
        if watching.observer is not None:
            reason = "What is made of other operations is taken apart; sums of few terms are written as sums."
            watching.observer.passed("prepare_for_loops", reason, given, program)
        if config.check_programs:
            check_stage(program, "ordered")
        self.program = program
        self.passes = passes
        lasting = {v for v, b in zip(program.invars, inputs) if b.storage not in takers} if machine.on_device else set()
        self.fusion = Fusion(program, shared.name_of, phases, crosses=not machine.on_device, lasting=lasting)
        if config.check_programs:
            check_order(self.fusion.groups, self.fusion.group_of, self.fusion.inlining.phase)
        self.places = find_places(self.fusion)
        self.lifetimes = Lifetimes(self.fusion, inputs, takers, passes)
        buffers = dict(zip(program.invars, inputs)) | shared.add_constants(program)
        self.assignment = BufferAssignment(program, buffers, takers, self.lifetimes, shared.names)
        self.writer = StepWriter(machine)
        self.values = Values(shared, self.fusion, self.lifetimes, self.assignment, self.writer)

    def run(self) -> Scheduled:
        outputs = self.assignment.outputs
        for k in self.lifetimes.early:
            outputs[k] = self.values.copy_to_output(self.program.outvars[k], k)
        write = {
            "nest": self._nest,
            "loops": self._loops,
            "scatter": self._scatter,
            "product": self._product,
            "contraction": self._contraction,
            "control": self._control,
            "call": self._call,
        }
        for time, group in enumerate(self.fusion.groups):
            self.assignment.time = time
            write[group.kind](group)
        self.assignment.time = NEVER
        for k, atom in enumerate(self.program.outvars):
            if outputs[k] is None:
                found = self.values.present(atom) if k < self.passes else None
                outputs[k] = found or self.values.copy_to_output(atom, k)
        return Scheduled(with_waiting(self.writer.steps), [b for b in outputs if b is not None])

    def _control(self, group: FusionGroup) -> None:
        write_control(self.values, self.program.eqns[group.members[0]], self._schedule_body)

    def _schedule_body(
        self, program: Program, inputs: Sequence[Buffer], takers: Mapping[Storage, int | None], passes: int
    ) -> Scheduled:
        return _Scheduler(program, inputs, takers, self.values.shared, self.writer.machine, passes).run()

    def _product(self, group: FusionGroup) -> None:
        assert group.product is not None
        write_product(self.values, group.product, [self.program.eqns[i] for i in group.members])

    def _nest(self, group: FusionGroup) -> None:
        builders = self.fusion.builders(group, self.assignment.buffer)
        stored = [v for i in group.members for v in self.program.eqns[i].outvars if v in self.fusion.stored]
        for var in stored:
            if var in self.places:
                whole, parts = self.places[var]
                for builder in builders:
                    for part in parts:
                        builder.store(var, self.assignment.joined(whole), part.place)
                    builder.nest.eqns.append(whole)
                continue
            aligned = [self._read_at_store(builder, var) for builder in builders]
            elsewhere = {storage for _, others in aligned for storage in others}
            candidates = {b.storage: b for found, _ in aligned for b in found if b.storage not in elsewhere}
            result = self.assignment.result(var, list(candidates.values()), growing=self.lifetimes.grows(var))
            for builder in builders:
                builder.store(var, result)
        for builder in builders:
            self.writer.add_nest(builder, self._group_name(group, stored))

    def _read_at_store(self, builder: NestBuilder, var: Var) -> tuple[list[Buffer], set[Storage]]:
        """The buffers that a nest reads only at the point at which it stores a variable; the others that it touches."""
        level, nest = builder.level(var), builder.nest
        position = builder.position if level == PRE else builder.outer_position
        reads: dict[Storage, list[Load]] = {}
        for s in nest.statements:
            if isinstance(s, Load):
                reads.setdefault(s.buffer.storage, []).append(s)
        others = {s.buffer.storage for s in nest.stores}
        others |= {x for x, loads in reads.items() if any(s.offset != position or s.level != level for s in loads)}
        return [loads[0].buffer for storage, loads in reads.items() if storage not in others], others

    def _group_name(self, group: FusionGroup, stored: Sequence[Var]) -> str:
        names = [self.program.eqns[i].primitive.name.replace("-", "_") for i in group.members]
        shown = list(dict.fromkeys(names))
        kept = shown if len(shown) <= 3 else [shown[0], "to", shown[-1]]
        return "_".join([*kept, self.values.names[stored[-1]] if stored else "unused"])

    def _loops(self, group: FusionGroup) -> None:
        eqn = self.program.eqns[group.members[0]]
        rule = eqn.primitive.lower
        assert isinstance(rule, Loops)
        if joins(eqn):
            ins, outs = self._joined_operands(eqn), [self.assignment.joined(eqn)]
        else:
            ins, outs = [self.values.in_memory(a) for a in eqn.invars], []
            for o, var in enumerate(eqn.outvars):
                shared = [ins[i] for i, j in rule.in_place if j == o]
                free = [b for b in shared if sum(b.storage is x.storage for x in ins) == 1]
                outs.append(self.assignment.result(var, free))
        name = f"{eqn.primitive.name.replace('-', '_')}_{self.values.names[eqn.outvars[0]]}"
        rule.rule(Target(self.writer, eqn, name), ins, outs, **eqn.params)

    def _joined_operands(self, eqn: Eqn) -> list[Buffer]:
        """Where the operands of an equation that joins them lie: in their parts of the result unless in memory before.

        Nests of theirs have stored some parts already; what is computed where it is used is computed there now.
        """
        out = self.assignment.joined(eqn)
        ins: list[Buffer] = []
        computed: dict[tuple[int, ...], list[tuple[Atom, Part]]] = {}  # by shape
        for atom, part in parts_in(eqn):
            root = self.fusion.inlining.alias_root(atom) if isinstance(atom, Var) else None
            if root not in self.places:
                if (root and self.assignment.find(root)) or not runs_by_rows(part, atom.aval.size):
                    ins.append(self.values.in_memory(atom))
                    continue
                if atom.aval.size:
                    computed.setdefault(atom.aval.shape, []).append((atom, part))
            ins.append(Buffer(out.storage, atom.aval.shape, atom.aval.dtype))
        for shape, operands in computed.items():
            for k in range(0, len(operands), machine_model.MOST_JOINED):
                builder = self.values.nest(shape)
                for atom, part in operands[k : k + machine_model.MOST_JOINED]:
                    builder.copy(atom, out, part.place)
                builder.nest.eqns.append(eqn)
                self.writer.add_nest(builder, f"{eqn.primitive.name}_{self.values.names[eqn.outvars[0]]}")
        return ins

    def _scatter(self, group: FusionGroup) -> None:
        write_scatter(self.values, self.program.eqns[group.members[0]])

    def _call(self, group: FusionGroup) -> None:
        eqn = self.program.eqns[group.members[0]]
        ins = [self.values.in_memory(a) for a in eqn.invars]
        outs = [self.assignment.result(var, ()) for var in eqn.outvars]
        self.writer.steps.append(CallStep(eqn.primitive.name, eqn.params["callback"], ins, outs, [eqn]))

    def _contraction(self, group: FusionGroup) -> None:
        eqn = self.program.eqns[group.members[0]]
        out, lhs = eqn.outvars[0], eqn.invars[0].aval
        contracted = [lhs.shape[d] for d in eqn.params["dimension_numbers"][0][0]]
        axes = range(out.aval.ndim, out.aval.ndim + len(contracted))
        builder = self.values.nest([*out.aval.shape, *contracted], axes)
        builder.add_contraction(eqn)
        builder.store(out, self.assignment.result(out, ()))
        self.writer.add_nest(builder, f"product_{self.values.names[out]}")
