"""A carry stacked before and after each step: both stacks are one, a slice longer, seen from two places.

Knows the operands of `scan`, no steps. The derivative of a loop reads what each step started from. That is where the
loop itself started, and then what each step left: values that it often stacks, too. So what a step leaves is written
once, where the next step reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from functad import machine_model
from functad.ir import Atom, Eqn, Program, Var
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.memory.lifetimes import NEVER
from functad.lowering.memory.values import Values


@dataclass(frozen=True)
class ShiftedStack:
    """The carry with number `carry`: its stack `before` each step, which is that `after` each step, one slice later."""

    carry: int
    before: Var
    after: Var

    def lay_out(self, around: Values, init: Atom, reverse: bool) -> None:
        """Give both stacks their places in one buffer, which starts with the first carry; in reverse it ends so."""
        length, *shape = self.before.aval.shape
        name, dtype = around.names[self.before], self.before.aval.dtype
        whole = new_buffer(f"tmp_{name}", (length + 1, *shape), dtype)
        stride = whole.nbytes // (length + 1)
        first = Buffer(whole.storage.part(f"first_{name}", length * stride if reverse else 0, stride), shape, dtype)
        around.copy_into(init, first, f"first_{name}")
        for var, start in ((self.before, stride if reverse else 0), (self.after, 0 if reverse else stride)):
            part = whole.storage.part(f"tmp_{around.names[var]}", start, length * stride)
            # Kept for ever: other results would overwrite the other stack.
            around.assignment.place(var, Buffer(part, var.aval.shape, dtype), NEVER)


def shift_stacks(around: Values, eqn: Eqn, body: Program) -> tuple[Program, list[Var], list[ShiftedStack]]:
    """The body without the stacks of its carry before each step that need not be written, what it stacks, and those.

    Stacks that are results of the Program around the loop, or that have no known length, stay as they are.
    """
    length, n_consts, n_carry = (eqn.params[name] for name in ("length", "num_consts", "num_carry"))
    carries = {v: k for k, v in enumerate(body.invars[n_consts : n_consts + n_carry])}
    computed = {v for e in body.eqns for v in e.outvars}
    stacked = dict(zip(eqn.outvars[n_carry:], body.outvars[n_carry:]))
    shifted: list[ShiftedStack] = []
    for before, carry in list(stacked.items()):
        k = carries.pop(carry, None) if isinstance(carry, Var) else None
        given = None if k is None else body.outvars[k]
        if k is None or given not in computed or before in around.lifetimes.claims:
            continue
        if length < 1 or before.aval.size * before.aval.dtype.itemsize < length * machine_model.SMALLEST_SHIFTED_SLICE:
            continue
        after = next((v for v, atom in stacked.items() if atom is given), None)
        if after is None:
            after = Var(before.aval)
            around.shared.name_all([after])
        if after in around.lifetimes.claims or any(after is other.after for other in shifted):
            continue
        shifted.append(ShiftedStack(k, before, after))
        del stacked[before]
        stacked[after] = given
    outvars = [*body.outvars[:n_carry], *stacked.values()]
    return body.replace(outvars=outvars) if shifted else body, list(stacked), shifted
