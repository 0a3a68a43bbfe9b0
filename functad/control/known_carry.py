"""The part of a scan's carry that no linear operand reaches, such as a counter: it can run in a loop of its own.

Knows the body of a scan, `(constants, carry, slices) → (carry, slices of results)`; binds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from functad.calls.common import group, split_at
from functad.ir import Program, Var, memoised
from functad.records import NamedTuple


class KnownCarry(NamedTuple):
    """A body cut in two.

    known: (known constants, known carry, known slices) → (known carry, that before the step, to be stacked).
    rest: (constants, linear carry, slices, known carry before the step) → (linear carry, slices of results).
    """

    is_linear: list[bool]  # of the carry
    known: Program
    rest: Program


def split_known_carry(body: Program, linear: tuple[bool, ...], num_consts: int, num_carry: int) -> KnownCarry | None:
    """The body without the carry that is known, or None where all depends on linear operands."""
    key = ("known carry", linear, num_consts, num_carry)
    return memoised(body, key, lambda: _split(body, linear, num_consts, num_carry))


def _split(body: Program, linear: Sequence[bool], num_consts: int, num_carry: int) -> KnownCarry | None:
    in_carry = linear[num_consts : num_consts + num_carry]
    consts, carry, slices = split_at(body.invars, num_consts, num_carry)
    is_linear = list(in_carry)
    while True:
        reached = {*group(linear, body.invars), *group(is_linear, carry)}
        for eqn in body.eqns:
            if any(isinstance(a, Var) and a in reached for a in eqn.invars):
                reached.update(eqn.outvars)
        grown = [li or (isinstance(a, Var) and a in reached) for li, a in zip(is_linear, body.outvars)]
        if grown == is_linear:
            break
        is_linear = grown
    if all(is_linear):
        return None
    is_known = [not li for li in is_linear]
    known_carry = group(is_known, carry)
    known = Program(
        [*(v for v in consts if v not in reached), *known_carry, *(v for v in slices if v not in reached)],
        (),
        (),
        [e for e in body.eqns if not any(v in reached for v in e.outvars)],
        [*group(is_known, body.outvars), *known_carry],
        f"known_{body.name}",
    )
    rest = body.replace(
        invars=[*consts, *group(is_linear, carry), *slices, *known_carry],
        outvars=[*group(is_linear, body.outvars), *body.outvars[num_carry:]],
    )
    return KnownCarry(is_linear, known, rest)
