"""What the schedules of a Program and of its sub-programs share: names, constants, memory that grows.

Knows variables and buffers; no steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from functad.ir import Program, Var
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.steps import Stack
from functad.pretty import letters


@dataclass(eq=False)
class Shared:
    """One for a Program and all that its loops and branches run.

    constants: their buffers, whose contents are `values`. stacks: by the memory that grows.
    """

    names: dict[Var, str] = field(default_factory=dict)
    constants: list[Buffer] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    stacks: dict[Storage, Stack] = field(default_factory=dict)

    def name_of(self, var: Var) -> str:
        return self.names[var]

    def add_names(self, program: Program) -> None:
        """Names for the variables of one more Program, which go on where those of the others end."""
        self.name_all(list(variable_names(program)))

    def name_all(self, variables: Sequence[Var]) -> None:
        taken = set(self.names.values())
        numbers = count(len(self.names))
        for var in variables:
            if var not in self.names:
                self.names[var] = next(name for i in numbers if (name := letters(i)) not in taken)

    def add_constants(self, program: Program) -> dict[Var, Buffer]:
        """Buffers for the constants of one more Program."""
        added: dict[Var, Buffer] = {}
        for var, value in zip(program.constvars, program.consts):
            name, number = f"const_{self.names[var]}", len(self.constants)
            added[var] = new_buffer(name, var.aval.shape, var.aval.dtype, "const", number)
            self.constants.append(added[var])
            self.values.append(value)
        return added


def variable_names(program: Program) -> dict[Var, str]:
    """The names under which a Program without sub-programs is printed, and more for results that nobody uses."""
    variables = [*program.constvars, *program.invars, *(v for e in program.eqns for v in e.outvars)]
    used = {a for e in program.eqns for a in e.invars if isinstance(a, Var)}
    used.update((*program.constvars, *program.invars, *(a for a in program.outvars if isinstance(a, Var))))
    names = [v for v in variables if v in used] + [v for v in variables if v not in used]
    return {v: letters(i) for i, v in enumerate(dict.fromkeys(names))}
