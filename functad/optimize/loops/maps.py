"""Loops without carries, on a GPU: all steps at once, where that takes fewer launches.

Knows `scan` equations by their parts; nothing of kernels.
"""

from __future__ import annotations

from functools import partial

from functad import machine_model
from functad.editing.dead_code import eliminate_dead_code
from functad.editing.partial_evaluation import may_move
from functad.ir import Eqn, Program, Var, all_eqns
from functad.lowering_rules import Callback
from functad.optimize.loops.devices import takes_fewer_launches
from functad.optimize.loops.parts import AllSteps, Scan
from functad.tracing import trace_to_program


def compute_at_once(scan: Scan) -> None:
    """Let a loop without carries be one step for all, where that takes fewer launches, and not much memory."""
    found = None if scan.carries else _mapped(scan)
    if found is None:
        return
    at_once, in_turn = partial(_at_once, scan, found), partial(_in_turn, scan.eqn())
    if takes_fewer_launches(at_once, in_turn, machine_model.CUDA_STRIP_BYTES):
        wanted = _computed(scan)
        scan.eqns = []
        scan.xs += zip(scan.before(found.run, found.operands), wanted)


def _mapped(scan: Scan) -> AllSteps | None:
    """What a loop stacks, and computes itself, for all steps; None where something must be computed step by step."""
    wanted, inputs = _computed(scan), [v for _, v in (*scan.consts, *scan.xs)]
    if not wanted or not all(map(may_move, scan.eqns)) or _calls_python(scan):
        return None
    program = eliminate_dead_code(Program(inputs, (), (), scan.eqns, wanted, f"steps_{scan.name}"))
    found = scan.for_all_steps(program, inputs)
    return found if found is not None and all(found.stacked) else None


def _computed(scan: Scan) -> list[Var]:
    """What a loop stacks, but neither reads nor knows."""
    outs = {v for e in scan.eqns for v in e.outvars}
    return list(dict.fromkeys(a for a, _ in scan.ys if isinstance(a, Var) and a in outs))


def _calls_python(scan: Scan) -> bool:
    return any(isinstance(e.primitive.lower, Callback) for e in all_eqns(scan.eqns))


def _at_once(scan: Scan, found: AllSteps) -> Program:
    return scan.simplify(trace_to_program(found.run, [a.aval for a in found.operands]))


def _in_turn(eqn: Eqn) -> Program:
    given = [Var(a.aval) for a in eqn.invars]
    return Program(given, (), (), [eqn.replace(invars=given)], eqn.outvars)
