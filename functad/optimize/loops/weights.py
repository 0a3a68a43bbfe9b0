"""Weights of a loop, laid out before it the way its products read them.

Knows `scan` equations by their parts. A matrix product reads its right operand fastest if the summed axis comes first;
a library packs one that lies otherwise each time. What is the same in all steps is worth transposing once.
"""

from __future__ import annotations

from functad import machine_model
from functad.ir import Var
from functad.optimize.loops.parts import Scan
from functad.primitives.common import transpose
from functad.primitives.contraction import dot_general_p


def transpose_weights(scan: Scan) -> None:
    """Let products with a transposed constant of the loop read a copy that is made before it."""
    if scan.length < machine_model.FEWEST_STEPS:
        return
    operands = {v: a for a, v in scan.consts}
    copies: dict[Var, Var] = {}  # constants of the body, and the copies that the body reads
    for i, eqn in enumerate(scan.eqns):
        if eqn.primitive is not dot_general_p:
            continue
        (lhs_sum, rhs_sum), batch = eqn.params["dimension_numbers"]
        lhs, weight = eqn.invars
        if not isinstance(weight, Var) or weight not in operands or batch != ((), ()) or tuple(rhs_sum) != (1,):
            continue
        if weight.aval.ndim == 2 and weight.aval.size >= machine_model.SMALLEST_WEIGHT:
            if weight not in copies:
                (copy,) = scan.before(lambda w: [transpose(w, (1, 0))], [operands[weight]])
                copies[weight] = Var(copy.aval)
                scan.consts.append((copy, copies[weight]))
            params = {**eqn.params, "dimension_numbers": ((lhs_sum, (0,)), batch)}
            scan.eqns[i] = eqn.replace(invars=[lhs, copies[weight]], params=params)
    uses = scan.uses()
    scan.consts = [(a, v) for a, v in scan.consts if v not in copies or uses[v]]
