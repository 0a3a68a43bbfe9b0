"""What a loop reads, computed or laid out once before it: invariants, starts of carries, stacks given on.

Knows loops by their parts.
"""

from __future__ import annotations

from functools import partial

from functad.editing.partial_evaluation import split_invariant
from functad.editing.substitution import Substitution
from functad.ir import Atom, Literal, Var
from functad.optimize.loops.parts import LoopBody, Scan
from functad.primitives.common import add_any_p, add_cotangents, broadcast_in_dim, reshape
from functad.primitives.structure import pad_p
from functad.tracing import eval_program


def hoist_invariants(loop: LoopBody) -> None:
    """Compute before the loop what depends on its constants alone."""
    whole, consts = loop.body(), [a for a, _ in loop.consts]
    before, body = split_invariant(whole, [i < len(consts) for i in range(len(whole.invars))])
    if before.eqns:
        invariants = loop.before(lambda *args: eval_program(before, args), consts)
        loop.consts = [*zip(invariants, body.invars), *loop.consts]
        loop.eqns = list(body.eqns)


def start_from_first_slices(scan: Scan) -> None:
    """Add the first slice of a stack to a carry's start, where the others are zeros, and the body only adds them.

    Such is the cotangent of `ys[-1]`: the backward loop would read zeros in all steps but one.
    """
    while len(scan.xs) > 1 and any(_moved_into_start(scan, operand, var) for operand, var in scan.xs):
        pass


def _moved_into_start(scan: Scan, operand: Atom, var: Var) -> bool:
    """Add one stack's first slice to the start of a carry, if all that the body does with both is to add them."""
    first = _first_slice(scan, operand)
    if first is None:
        return False
    uses = scan.uses()
    if uses[var] != 1:
        return False
    for carry in scan.carries:
        adding = next((e for e in scan.eqns if var in e.invars and carry.read in e.invars), None)
        if adding is None or adding.primitive is not add_any_p or uses[carry.read] != 1:
            continue
        (carry.init,) = scan.before(lambda c, x: [add_cotangents(c, reshape(x, c.shape))], [carry.init, first])
        scan.xs.remove((operand, var))
        scan.eqns.remove(adding)
        scan.substitute(Substitution({adding.outvars[0]: carry.read}))
        return True
    return False


def _first_slice(scan: Scan, operand: Atom) -> Atom | None:
    """The one slice that is not zero, if that is the one read first."""
    eqn = scan.view.definition(operand, pad_p)
    if eqn is None:
        return None
    part, value = eqn.invars
    steps, *others = eqn.params["padding_config"]
    wanted = (scan.length - 1, 0, 0) if scan.origin.params["reverse"] else (0, scan.length - 1, 0)
    if part.aval.shape[0] != 1 or tuple(steps) != wanted or any(tuple(c) != (0, 0, 0) for c in others):
        return None
    return part if isinstance(value, Literal) and not value.value else None


def give_stacks_on(scan: Scan) -> None:
    """Let a result whose slices are read as they are be the stack itself, and one of a constant repeat that."""
    stacks: dict[Atom, Atom] = {v: a for a, v in scan.xs}
    same: dict[Atom, Atom] = {v: a for a, v in scan.consts}
    for atom, result in list(scan.ys):
        if atom in stacks:
            scan.view.replace([result], [stacks[atom]])
        elif isinstance(atom, Literal) or atom in same:
            dims = range(1, result.aval.ndim)
            repeated = partial(broadcast_in_dim, shape=result.aval.shape, broadcast_dimensions=dims)
            scan.view.replace([result], scan.before(lambda a, f=repeated: [f(a)], [same.get(atom, atom)]))
        else:
            continue
        scan.ys.remove((atom, result))
