"""Barriers: taken out of a Program before fusion, as they cost nothing; the order that they ask for remains.

Knows `optimization_barrier` by name; nothing of groups or memory. What remains is a phase for each equation: groups of
different phases make no common loop, and phases run in order. So nothing is computed again before its time, and the
arena of a network of n layers in √n checkpointed parts grows as √n.
"""

from __future__ import annotations

from functad.editing.substitution import Substitution
from functad.ir import Eqn, Program
from functad.primitives.barrier import optimization_barrier_p


def remove_barriers(program: Program) -> tuple[Program, tuple[int, ...]]:
    """The Program without its barriers, and the phase of each equation: how many barriers came before it.

    Nothing of a phase runs before all of the phases before it has run, nor in one loop with it. No phases at all are
    returned if there is no barrier.

    >>> import functad
    >>> from functad import lax
    >>> def f(x, y):
    ...     a, b = lax.optimization_barrier((x, -y))
    ...     return a * b
    >>> program, phases = remove_barriers(functad.make_jaxpr(f)(1., 2.))
    >>> print(program)
    { lambda ; a:f32[] b:f32[]. let c:f32[] = neg b; d:f32[] = mul a c in (d,) }
    >>> phases
    (0, 1)
    """
    if not any(e.primitive is optimization_barrier_p for e in program.eqns):
        return program, ()
    passed = Substitution()  # the results of barriers, as what they are
    phases: list[int] = []
    eqns: list[Eqn] = []
    phase = 0
    for eqn in program.eqns:
        eqn = passed.within_one(eqn)
        if eqn.primitive is optimization_barrier_p:
            phase += 1
            passed.update(zip(eqn.outvars, eqn.invars))
        else:
            phases.append(phase)
            eqns.append(eqn)
    return program.replace(eqns=eqns, outvars=passed.read_all(program.outvars)), tuple(phases)
