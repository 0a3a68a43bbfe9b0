"""Which integers of a `while` count towards its end, so that it is known for some steps ahead that it goes on.

Knows the Programs of a loop's condition and body; nothing of buffers.
"""

from __future__ import annotations

from collections.abc import Callable

from functad.dtypes import kind_of
from functad.ir import Atom, Eqn, Literal, Program, Var, definitions
from functad.primitives.arithmetic import add_p, sub_p
from functad.primitives.logic import and_p, ge_p, gt_p, le_p, lt_p, ne_p
from functad.records import NamedTuple

_MIRRORED = {lt_p: gt_p, le_p: ge_p, gt_p: lt_p, ge_p: le_p, ne_p: ne_p}
_UPWARDS = (lt_p, le_p, ne_p)  # of what the condition may be for a number that grows
_DOWNWARDS = (gt_p, ge_p, ne_p)
_LARGEST_STEP = 1 << 31


class Counter(NamedTuple):
    """An integer that each step of a loop changes by `step`, which goes on as long as it has not come to `limit`.

    number, limit: inputs of the condition's Program; the limit does not change, and may be a number instead.
    """

    number: Var
    limit: Atom
    step: int


def counters_of(cond: Program, cond_consts: int, body: Program, body_consts: int) -> list[Counter]:
    """The counters that a loop goes on with until the first has come to its limit; none if it ends otherwise, too."""
    places = {v: k for k, v in enumerate(cond.invars[cond_consts:])}

    def change(number: Atom) -> int:
        """How much each step adds to an input of the condition, if it is an integer of the carry; or else 0."""
        k = places.get(number) if isinstance(number, Var) else None
        if k is None or kind_of(number.aval.dtype) not in "iu" or number.aval.shape:
            return 0
        return _added(body, body.outvars[k], body.invars[body_consts + k])

    def is_fixed(limit: Atom) -> bool:
        if isinstance(limit, Literal):
            return True
        k = places.get(limit)
        return limit in cond.invars if k is None else body.outvars[k] is body.invars[body_consts + k]

    found: list[Counter] = []
    pending: list[Atom] = [cond.outvars[0]]
    while pending:
        atom = pending.pop()
        eqn = definitions(cond).get(atom)
        if eqn is not None and eqn.primitive is and_p:
            pending += eqn.invars
            continue
        counter = None if eqn is None else _counter(eqn, change, is_fixed)
        if counter is None:
            return []
        found.append(counter)
    return found


def _counter(eqn: Eqn, change: Callable[[Atom], int], is_fixed: Callable[[Atom], bool]) -> Counter | None:
    if eqn.primitive not in _MIRRORED:
        return None
    x, y = eqn.invars
    for number, limit, comparison in ((x, y, eqn.primitive), (y, x, _MIRRORED[eqn.primitive])):
        step = change(number)
        if step and comparison in (_UPWARDS if step > 0 else _DOWNWARDS) and is_fixed(limit):
            assert isinstance(number, Var)
            return Counter(number, limit, step)
    return None


def _added(body: Program, result: Atom, number: Var) -> int:
    """The integer that a body adds to a number to give its result; 0 if it does something else."""
    eqn = definitions(body).get(result)
    if eqn is None or eqn.primitive not in (add_p, sub_p):
        return 0
    x, y = eqn.invars
    if eqn.primitive is add_p and y is number:
        x, y = y, x
    if x is not number or not isinstance(y, Literal):
        return 0
    step = int(y.value) if eqn.primitive is add_p else -int(y.value)
    return step if abs(step) < _LARGEST_STEP else 0
