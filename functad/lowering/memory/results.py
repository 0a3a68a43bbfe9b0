"""Where results lie: the buffers of variables, and which result takes the memory of an operand not needed again.

Knows units and what they read; not how units become steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from functad.config import config
from functad.editing.contracts import check_stage
from functad.ir import Atom, Eqn, Literal, Program, Var
from functad.lowering.barriers import remove_barriers
from functad.lowering.fusion.fuse import Fusion
from functad.lowering.fusion.joins import find_places
from functad.lowering.fusion.units import Unit
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.nests.nest import NestBuilder
from functad.lowering.steps import Stack
from functad.lowering.target import PlaceColumns, StepWriter, no_places
from functad.pretty import letters

NEVER = 1 << 60
SPARE = -1  # instead of the number of a result: any value that is no result may take the memory


@dataclass(eq=False)
class Common:
    """What the schedules of a Program and of its sub-programs share: names, constants and their values, what grows."""

    threads: int = 1
    place_columns: PlaceColumns = no_places
    names: dict[Var, str] = field(default_factory=dict)
    constants: list[Buffer] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    stacks: dict[Storage, Stack] = field(default_factory=dict)  # by the memory that grows

    def add_names(self, program: Program) -> None:
        """Names for the variables of one more Program, which go on where those of the others end."""
        self.name_all(list(variable_names(program)))

    def name_all(self, variables: Sequence[Var]) -> None:
        for var in variables:
            if var not in self.names:
                self.names[var] = letters(len(self.names))


class Results(StepWriter):
    """The memory side of scheduling one Program.

    Args:
        program: without constants of its own, or with ones that `common` takes in.
        inputs: the buffers of its inputs.
        takers: the inputs whose memory results may take, and the number of the result that may; None for any.
        passes: so many leading results may lie wherever their value is; all others get a storage of their own.
    """

    def __init__(
        self,
        program: Program,
        inputs: Sequence[Buffer],
        common: Common,
        takers: Mapping[Storage, int | None],
        passes: int = 0,
    ) -> None:
        super().__init__(common.threads, common.place_columns)
        self.common = common
        self.names = common.names
        common.add_names(program)
        program, phases = remove_barriers(program)
        if config.check_programs:
            check_stage(program, "ordered")
        self.program = program
        self.fusion = Fusion(program, self.names.__getitem__, phases)
        self.places = find_places(self.fusion)
        self.inputs = list(inputs)
        self.buffers: dict[Var, Buffer] = dict(zip(program.invars, self.inputs))
        for var, value in zip(program.constvars, program.consts):
            number = len(common.constants)
            buffer = new_buffer(f"const_{self.names[var]}", var.aval.shape, var.aval.dtype, "const", number)
            common.constants.append(buffer)
            common.values.append(value)
            self.buffers[var] = buffer
        self.outputs: list[Buffer | None] = [None] * len(program.outvars)
        self.passes = passes
        self.takers = takers
        self.input_of = {b.storage: v for v, b in zip(program.invars, self.inputs)}
        self.last: dict[Storage, int] = {}
        self.early = self._early_copies()
        self.last_use = self._last_uses()
        self.claims = self._claims()
        self.own = self._own_inputs()
        products = [u.product for u in self.fusion.units if u.product is not None]
        self.next_of = {p.start: p.out for p in products if isinstance(p.start, Var)}  # what adds a product to it
        self.time = 0

    def start(self) -> None:
        """Copy what is to be copied before it is overwritten."""
        for k in self.early:
            self.outputs[k] = self._copy_to_output(self.program.outvars[k], k)

    def finish(self) -> list[Buffer]:
        """Where all results lie; those that do not lie anywhere yet are copied."""
        self.time = NEVER
        for k, atom in enumerate(self.program.outvars):
            if self.outputs[k] is None:
                found = self.present(atom) if k < self.passes else None
                self.outputs[k] = found or self._copy_to_output(atom, k)
        return [b for b in self.outputs if b is not None]

    # --- what lives how long ---------------------------------------------------------------------------------

    def _early_copies(self) -> list[int]:
        """The results that are copies of an input whose memory another result may take."""
        taken = {v for v, b in zip(self.program.invars, self.inputs) if self.takers.get(b.storage) is not None}
        later = range(self.passes, len(self.program.outvars))
        return [
            k for k in later if isinstance(a := self.program.outvars[k], Var) and self.fusion.alias_root(a) in taken
        ]

    def _last_uses(self) -> dict[Var, int]:
        """For each variable in a buffer, the number of the unit after which nobody reads it."""
        last: dict[Var, int] = {}
        for time, unit in enumerate(self.fusion.units):
            for var in unit.reads:
                last[var] = time
            for var in self._direct_operands(unit):
                for root in self._memory_roots(var):
                    last[root] = time
        for k, atom in enumerate(self.program.outvars):
            if isinstance(atom, Var) and k not in self.early:
                for root in self._memory_roots(atom):
                    last[root] = NEVER
        return last

    def _direct_operands(self, unit: Unit) -> list[Var]:
        if unit.kind in ("loops", "control", "call"):
            return [a for a in self.program.eqns[unit.members[0]].invars if isinstance(a, Var)]
        return unit.product.operands() if unit.product is not None else []

    def _memory_roots(self, var: Var) -> list[Var]:
        """The variables whose buffers a reader of this one may read: its own, if it gets one, included."""
        return [var, self.fusion.alias_root(var), *self.fusion.roots(var)]

    def _claims(self) -> dict[Var, int]:
        """The results whose buffer can be an output from the start."""
        claims: dict[Var, int] = {}
        external = {*self.program.invars, *self.program.constvars}
        count = len(self.program.outvars)
        for k in (*range(self.passes, count), *range(self.passes)):
            atom = self.program.outvars[k]
            if isinstance(atom, Var):
                root = self.fusion.alias_root(atom)
                if root not in external and root not in self.fusion.inline and root not in claims and root.aval.size:
                    claims[root] = k
        return claims

    def _own_inputs(self) -> dict[int, Buffer]:
        """For the number of a result the input whose memory it alone may take, unless it is returned twice."""
        taken = {k: b for b in self.inputs if (k := self.takers.get(b.storage)) is not None}
        count = Counter(self.fusion.alias_root(a) for a in self.program.outvars if isinstance(a, Var))
        alone = {k for var, k in self.claims.items() if count[var] == 1}
        return {k: b for k, b in taken.items() if k in alone}

    # --- buffers ---------------------------------------------------------------------------------------------

    def buffer(self, var: Var) -> Buffer:
        if not var.aval.size and var not in self.buffers:  # nothing computes what has no elements
            self.buffers[var] = new_buffer(f"empty_{self.names[var]}", var.aval.shape, var.aval.dtype)
        return self.buffers[var]

    def result(self, var: Var, candidates: Sequence[Buffer], growing: bool = False) -> Buffer:
        """A buffer for a result: that of an operand which dies here and fits, else a new one.

        Memory of inputs is left for the results of the Program, unless this result is one that is still `growing`.
        """
        k = self.claims.get(var)
        ranked = sorted(candidates, key=lambda b: b.storage not in self.takers)
        own = self.own.get(k) if k is not None else None
        if own is not None and self._last_time(own.storage) < self.time:
            ranked = [*ranked, own] if growing else [own, *ranked]
        for other in ranked:
            fits = other.dtype == var.aval.dtype and other.size == var.aval.size
            if fits and self._can_take(other.storage, var, growing):
                result = other.view(var.aval.shape)
                break
        else:
            kind = "output" if k is not None else "arena"
            name = f"{'out' if k is not None else 'tmp'}_{self.names[var]}"
            result = new_buffer(name, var.aval.shape, var.aval.dtype, kind, -1 if k is None else k)
        self.buffers[var] = result
        self.last[result.storage] = self.last_use.get(var, self.time)
        if k is not None:
            self.outputs[k] = result.view(self.program.outvars[k].aval.shape)
        return result

    def _can_take(self, storage: Storage, var: Var, growing: bool) -> bool:
        claim = self.claims.get(var)
        if self.takers.get(storage, 0) == SPARE:
            return claim is None and self._last_time(storage) <= self.time
        if storage not in self.takers:
            if storage.kind != "arena" or self.last.get(storage, NEVER) != self.time:
                return False
            if claim is not None:
                storage.kind, storage.number = "output", claim
                storage.name = f"out_{storage.name.removeprefix('tmp_')}"
            return True
        if not growing and claim is None:
            return False
        taker = self.takers[storage]
        if taker is not None and (taker not in self.own or self._final_claim(var) != taker):
            return False
        return self._last_time(storage) <= self.time

    def grows(self, var: Var) -> bool:
        """Whether products are added to a variable until it is a result."""
        return var in self.next_of and self._final_claim(var) is not None

    def dies_now(self, buffer: Buffer) -> bool:
        """Whether memory of the arena is read for the last time by the unit that is being written."""
        return buffer.storage.kind == "arena" and self.last.get(buffer.storage, NEVER) == self.time

    def _final_claim(self, var: Var) -> int | None:
        """The number of the result that a variable becomes when products have been added to it."""
        while var not in self.claims and var in self.next_of:
            var = self.next_of[var]
        return self.claims.get(var)

    def _last_time(self, storage: Storage) -> int:
        """When an input's memory, or what has taken it, is read for the last time."""
        return self.last.get(storage, self.last_use.get(self.input_of[storage], -1))

    def joined(self, eqn: Eqn) -> Buffer:
        """The buffer of the result of an equation that joins arrays, which the first nest that stores a part needs."""
        (var,) = eqn.outvars
        return self.buffers[var] if var in self.buffers else self.result(var, ())

    def present(self, atom: Atom) -> Buffer | None:
        """The buffer in which a value lies already, if it does."""
        if isinstance(atom, Var) and (atom in self.buffers or atom in self.fusion.alias):
            return self.in_memory(atom)
        return None

    def in_memory(self, atom: Atom) -> Buffer:
        """An operand as a C-contiguous buffer, copied into one if it is computed where it is used."""
        if isinstance(atom, Literal):
            buffer = new_buffer("literal", (), atom.aval.dtype)
            self.add_copy(atom, buffer, "literal")
            return buffer
        if atom not in self.buffers:
            if atom in self.fusion.alias:
                self.buffers[atom] = self.in_memory(self.fusion.alias[atom]).view(atom.aval.shape)
            else:
                buffer = new_buffer(f"tmp_{self.names[atom]}", atom.aval.shape, atom.aval.dtype)
                if buffer.size:
                    self.add_copy(atom, buffer, self.names[atom])
                self.buffers[atom] = buffer
                self.last[buffer.storage] = self.last_use.get(atom, NEVER)
        return self.buffers[atom]

    def copy_into(self, atom: Atom, buffer: Buffer, name: str) -> None:
        """Write a value to a buffer, from where it lies or as it is computed."""
        if not buffer.size:
            return
        source = self.present(atom)
        if source is None:
            self.add_copy(atom, buffer, name)
        elif source.storage is not buffer.storage:
            self.add_buffer_copy(source.view(buffer.shape), buffer, name)

    def add_copy(self, atom: Atom, buffer: Buffer, name: str) -> None:
        builder = NestBuilder(atom.aval.shape, (), self.fusion.definition, self.buffer, self.names.__getitem__)
        builder.copy(atom, buffer)
        self.add_nest(builder, f"copy_{name}")

    def _copy_to_output(self, atom: Atom, k: int) -> Buffer:
        name = self.names[atom] if isinstance(atom, Var) else "literal"
        buffer = new_buffer(f"out{k}_{name}", atom.aval.shape, atom.aval.dtype, "output", k)
        if buffer.size:
            if isinstance(atom, Var) and atom in self.fusion.alias:
                self.in_memory(atom)
            source = self.buffers.get(atom) if isinstance(atom, Var) else None
            if source is not None:
                self.add_buffer_copy(source, buffer, name)
            else:
                self.add_copy(atom, buffer, name)
        return buffer


def variable_names(program: Program) -> dict[Var, str]:
    """The names under which a Program without sub-programs is printed, and more for results that nobody uses."""
    variables = [*program.constvars, *program.invars, *(v for e in program.eqns for v in e.outvars)]
    used = {a for e in program.eqns for a in e.invars if isinstance(a, Var)}
    used.update((*program.constvars, *program.invars, *(a for a in program.outvars if isinstance(a, Var))))
    names = [v for v in variables if v in used] + [v for v in variables if v not in used]
    return {v: letters(i) for i, v in enumerate(dict.fromkeys(names))}
