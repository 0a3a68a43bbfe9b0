"""The schedule: units become steps on buffers, with memory shared in place where an operand is not needed again.

Knows what a step reads and writes; no target and no addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from functad import machine_model
from functad.ir import Atom, Eqn, Program, Var
from functad.lowering.control import Scheduled, write_control
from functad.lowering.fusion.joins import joins, parts_in, runs_by_rows
from functad.lowering.fusion.products import Matrices, as_matrices
from functad.lowering.fusion.units import Unit
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.memory.results import Common, Results
from functad.lowering.nests.affine import Affine
from functad.lowering.nests.nest import PRE, Load, Nest, NestBuilder
from functad.lowering.steps import CallStep, GemmStep, Step
from functad.lowering.target import PlaceColumns, Target, no_places
from functad.lowering_rules import Loops
from functad.primitives.loops.joining import Part

Groups = tuple[Sequence[int], Sequence[int], Sequence[int]]  # axes of batch, rows and columns


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
    threads: int = 1,
    place_columns: PlaceColumns = no_places,
) -> Schedule:
    """Fuse a Program and lay out its steps.

    `donated` tells which inputs' memory results may take, `place_columns` what `Target.place_columns` answers.
    """
    common = Common(threads, place_columns)
    common.add_names(program)
    inputs = [
        new_buffer(f"input_{common.names[v]}", v.aval.shape, v.aval.dtype, "input", k)
        for k, v in enumerate(program.invars)
    ]
    takers = {b.storage: None for b, is_donated in zip(inputs, donated) if is_donated}
    steps, outputs = _Scheduler(program, inputs, common, takers).run()
    return Schedule(program, common.names, steps, inputs, common.constants, common.values, outputs)


class _Scheduler(Results):
    def run(self) -> Scheduled:
        self.start()
        for time, unit in enumerate(self.fusion.units):
            self.time = time
            write = {
                "nest": self._nest,
                "loops": self._loops,
                "product": self._product,
                "contraction": self._contraction,
                "control": self._control,
                "call": self._call,
            }
            write[unit.kind](unit)
        return Scheduled(self.steps, self.finish())

    def _control(self, unit: Unit) -> None:
        write_control(self, self.program.eqns[unit.members[0]], self._schedule_body)

    def _schedule_body(
        self, program: Program, inputs: Sequence[Buffer], takers: Mapping[Storage, int | None], passes: int
    ) -> Scheduled:
        return _Scheduler(program, inputs, self.common, takers, passes).run()

    def _nest(self, unit: Unit) -> None:
        builder = self.fusion.builder(unit, self.buffer)
        stored = [v for i in unit.members for v in self.program.eqns[i].outvars if v in self.fusion.stored]
        for var in stored:
            if var in self.places:
                whole, parts = self.places[var]
                for part in parts:
                    builder.store(var, self.joined(whole), part.place)
                builder.nest.eqns.append(whole)
                continue
            level = builder.level(var)
            position = builder.position if level == PRE else builder.outer_position
            candidates = self._aligned_buffers(builder.nest, position, level)
            builder.store(var, self.result(var, candidates, growing=self.grows(var)))
        self.add_nest(builder, self._unit_name(unit, stored))

    def _aligned_buffers(self, nest: Nest, position: Affine, level: int) -> list[Buffer]:
        """The buffers that a nest reads only at the point at which it writes its result."""
        reads: dict[Storage, list[Load]] = {}
        for s in nest.statements:
            if isinstance(s, Load):
                reads.setdefault(s.buffer.storage, []).append(s)
        written = {s.buffer.storage for s in nest.stores}
        return [
            loads[0].buffer
            for storage, loads in reads.items()
            if storage not in written and all(x.offset == position and x.level == level for x in loads)
        ]

    def _unit_name(self, unit: Unit, stored: Sequence[Var]) -> str:
        names = [self.program.eqns[i].primitive.name.replace("-", "_") for i in unit.members]
        shown = list(dict.fromkeys(names))
        kept = shown if len(shown) <= 3 else [shown[0], "to", shown[-1]]
        return "_".join([*kept, self.names[stored[-1]] if stored else "unused"])

    def _loops(self, unit: Unit) -> None:
        eqn = self.program.eqns[unit.members[0]]
        rule = eqn.primitive.lower
        assert isinstance(rule, Loops)
        if joins(eqn):
            ins, outs = self._joined_operands(eqn), [self.joined(eqn)]
        else:
            ins, outs = [self.in_memory(a) for a in eqn.invars], []
            for o, var in enumerate(eqn.outvars):
                shared = [ins[i] for i, j in rule.in_place if j == o]
                free = [b for b in shared if sum(b.storage is x.storage for x in ins) == 1]
                outs.append(self.result(var, free))
        name = f"{eqn.primitive.name.replace('-', '_')}_{self.names[eqn.outvars[0]]}"
        rule.rule(Target(self, eqn, name), ins, outs, **eqn.params)

    def _joined_operands(self, eqn: Eqn) -> list[Buffer]:
        """Where the operands of an equation that joins them lie: in their parts of the result unless in memory before.

        Nests of theirs have stored some parts already; what is computed where it is used is computed there now.
        """
        out = self.joined(eqn)
        ins: list[Buffer] = []
        computed: dict[tuple[int, ...], list[tuple[Atom, Part]]] = {}  # by shape
        for atom, part in parts_in(eqn):
            root = self.fusion.alias_root(atom) if isinstance(atom, Var) else None
            if root not in self.places:
                if root in self.buffers or not runs_by_rows(part, atom.aval.size):
                    ins.append(self.in_memory(atom))
                    continue
                if atom.aval.size:
                    computed.setdefault(atom.aval.shape, []).append((atom, part))
            ins.append(Buffer(out.storage, atom.aval.shape, atom.aval.dtype))
        for shape, operands in computed.items():
            for k in range(0, len(operands), machine_model.MOST_JOINED):
                builder = NestBuilder(shape, (), self.fusion.definition, self.buffer, self.names.__getitem__)
                for atom, part in operands[k : k + machine_model.MOST_JOINED]:
                    builder.copy(atom, out, part.place)
                builder.nest.eqns.append(eqn)
                self.add_nest(builder, f"{eqn.primitive.name}_{self.names[eqn.outvars[0]]}")
        return ins

    def _call(self, unit: Unit) -> None:
        eqn = self.program.eqns[unit.members[0]]
        ins = [self.in_memory(a) for a in eqn.invars]
        outs = [self.result(var, ()) for var in eqn.outvars]
        self.steps.append(CallStep(eqn.primitive.name, eqn.params["callback"], ins, outs, [eqn]))

    def _contraction(self, unit: Unit) -> None:
        eqn = self.program.eqns[unit.members[0]]
        out, lhs = eqn.outvars[0], eqn.invars[0].aval
        contracted = [lhs.shape[d] for d in eqn.params["dimension_numbers"][0][0]]
        axes = range(out.aval.ndim, out.aval.ndim + len(contracted))
        builder = NestBuilder(
            [*out.aval.shape, *contracted], axes, self.fusion.definition, self.buffer, self.names.__getitem__
        )
        builder.add_contraction(eqn)
        builder.store(out, self.result(out, ()))
        self.add_nest(builder, f"product_{self.names[out]}")

    def _product(self, unit: Unit) -> None:
        product = unit.product
        assert product is not None
        eqns = [self.program.eqns[i] for i in unit.members]
        contract, (lhs_batch, rhs_batch) = product.dimension_numbers
        lhs_free = [d for d in range(product.lhs.aval.ndim) if d not in (*contract[0], *lhs_batch)]
        rhs_free = [d for d in range(product.rhs.aval.ndim) if d not in (*contract[1], *rhs_batch)]
        lhs_contract, rhs_contract = self._contract_order(
            contract, lambda order: (product.lhs, (lhs_batch, lhs_free, order)),
            lambda order: (product.rhs, (rhs_batch, order, rhs_free)),
        )  # fmt: skip
        m, n, k, batch = (
            math.prod(atom.aval.shape[d] for d in dims)
            for atom, dims in (
                (product.lhs, lhs_free),
                (product.rhs, rhs_free),
                (product.lhs, lhs_contract),
                (product.lhs, lhs_batch),
            )
        )
        a, a_at, ta = self._matrix(product.lhs, (lhs_batch, lhs_free, lhs_contract), (batch, m, k))
        b, b_at, tb = self._matrix(product.rhs, (rhs_batch, rhs_contract, rhs_free), (batch, k, n))
        candidates = []
        start = None
        if product.start is not None:
            start = self.in_memory(product.start)
            if start.storage is not a.storage and start.storage is not b.storage:
                candidates.append(start)
        c = self.result(product.out, candidates, growing=True)
        if start is not None and c.storage is not start.storage:
            self.add_buffer_copy(start, c, self.names[product.out])
        self.steps.append(
            GemmStep(
                f"product_{self.names[product.out]}",
                a, b, c, ta, tb, m, n, k,
                lda=max(a_at.row if not ta else a_at.column, 1),
                ldb=max(b_at.row if not tb else b_at.column, 1),
                ldc=n,
                alpha=product.alpha,
                beta=product.start_factor,
                a_offset=a_at.offset,
                b_offset=b_at.offset,
                batch=batch,
                a_batch=a_at.batch,
                b_batch=b_at.batch,
                c_batch=m * n,
                eqns=eqns,
            )
        )  # fmt: skip

    def _matrix(self, atom: Atom, groups: Groups, sizes: tuple[int, int, int]) -> tuple[Buffer, Matrices, int]:
        """A buffer in which an operand lies as matrices that a BLAS takes, and whether they are transposed."""
        found = self._matrix_in_place(atom, groups)
        if found is not None:
            return found
        _, rows, columns = sizes
        permutation = [d for group in groups for d in group]
        shape = [atom.aval.shape[d] for d in permutation]
        name = self.names[atom] if isinstance(atom, Var) else "literal"
        buffer = new_buffer(f"packed_{name}", shape, atom.aval.dtype)
        builder = NestBuilder(shape, (), self.fusion.definition, self.buffer, self.names.__getitem__)
        index: list[Affine] = [Affine(0)] * len(permutation)
        for i, d in zip(builder.index, permutation):
            index[d] = i
        builder.copy_element(builder.value(atom, index, PRE), buffer)
        self.add_nest(builder, f"pack_{name}")
        return buffer, Matrices(0, rows * columns, columns, 1), 0

    def _matrix_in_place(self, atom: Atom, groups: Groups) -> tuple[Buffer, Matrices, int] | None:
        """The same, if the operand lies like that already."""
        _, rows, columns = (math.prod(atom.aval.shape[d] for d in group) for group in groups)
        found = self._layout(atom, groups)
        if found is not None:
            buffer, layout = found
            row, column = layout.row, layout.column
            if (column == 1 or columns == 1) and (row >= columns or rows == 1):
                return buffer, Matrices(layout.offset, layout.batch, max(row, columns), 1), 0
            if (row == 1 or rows == 1) and (column >= rows or columns == 1):
                return buffer, Matrices(layout.offset, layout.batch, 1, max(column, rows)), 1
        return None

    def _contract_order(
        self,
        contract: tuple[Sequence[int], Sequence[int]],
        lhs: Callable[[Sequence[int]], tuple[Atom, Groups]],
        rhs: Callable[[Sequence[int]], tuple[Atom, Groups]],
    ) -> tuple[Sequence[int], Sequence[int]]:
        """The contracted axes of both operands in the order for which the fewest bytes must be moved first."""
        pairs = list(zip(*contract))
        if not 2 <= len(pairs) <= 3:
            return contract

        def moved(order: Sequence[tuple[int, int]]) -> int:
            sides = lhs([a for a, _ in order]), rhs([b for _, b in order])
            return sum(
                atom.aval.size * atom.aval.dtype.itemsize
                for atom, groups in sides
                if self._matrix_in_place(atom, groups) is None
            )

        best = min(permutations(pairs), key=moved)
        return [a for a, _ in best], [b for _, b in best]

    def _layout(self, atom: Atom, groups: Any) -> tuple[Buffer, Matrices] | None:
        """Where an operand lies, if its elements are those of one buffer at regular distances."""
        builder = NestBuilder(atom.aval.shape, (), self.fusion.definition, self.buffer, self.names.__getitem__)
        builder.value(atom, builder.index, PRE)
        if len(builder.nest.statements) != 1 or not builder.loaded:
            return None
        ((var, position),) = builder.loaded
        layout = as_matrices(position, builder.index, groups)
        return None if layout is None else (self.buffers[var], layout)
