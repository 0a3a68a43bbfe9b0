"""What holds of a Program after each stage of compiling; with `config.check_programs` every pass is held to it."""

from __future__ import annotations

from collections.abc import Callable

from functad.editing.dead_code import eliminate_dead_code
from functad.errors import ProgramError
from functad.ir import UNKNOWN, Program, all_eqns, check_program, memoised, subprograms
from functad.lowering_rules import Call, ControlFlow, Defined, Placement
from functad.primitives.barrier import optimization_barrier_p


def check_stage(program: Program, stage: str) -> None:
    """Raise ProgramError unless a Program is well formed, and is what a stage promises.

    stage: "inlined", "optimized", or "ordered", which barriers have been taken out of.

    >>> import functad
    >>> program = functad.make_jaxpr(functad.jit(lambda x: x + 1.))(2.)
    >>> check_stage(program, "inlined")
    Traceback (most recent call last):
      ...
    functad.errors.ProgramError: after the stage "inlined" of `<lambda>`: `jit` calls a Program
    { lambda ; ...
    """
    memoised(program, ("held to", stage), lambda: _hold(program, stage))


def _hold(program: Program, stage: str) -> None:
    check_program(program)
    for contract in STAGES[stage]:
        broken = contract(program)
        if broken:
            raise ProgramError(f'after the stage "{stage}" of `{program.name}`: {broken}\n{program}')


def _calls_nothing(program: Program) -> str:
    calls = [e.primitive for e in all_eqns(program.eqns) if isinstance(e.primitive.lower, (Call, Defined))]
    return f"`{calls[0]}` calls a Program" if calls else ""


def _puts_nothing(program: Program) -> str:
    puts = any(isinstance(e.primitive.lower, Placement) for e in all_eqns(program.eqns))
    return "a value is put on a device, but all of a Program runs on one" if puts else ""


def _bodies_are_closed(program: Program) -> str:
    for eqn in all_eqns(program.eqns):
        if any(inner.consts for inner in subprograms(eqn.params)):
            return f"a Program of `{eqn.primitive}` has constants"
    return ""


def _nothing_is_unused(program: Program) -> str:
    slim = eliminate_dead_code(program)
    if slim is program:
        return ""
    unused = len(program.eqns) - len(slim.eqns)
    return f"{unused} equations are of no use" if unused else "a loop or branch computes what is of no use"


def _unknown_sizes_stay_in_loops(program: Program) -> str:
    for eqn in program.eqns:
        sizes = {n for v in (*eqn.invars, *eqn.outvars) for n in v.aval.shape}
        if UNKNOWN in sizes and not isinstance(eqn.primitive.lower, ControlFlow):
            return f"`{eqn.primitive}` takes or gives an array whose length only a run tells"
    return ""


def _has_no_barrier(program: Program) -> str:
    return "a barrier is left" if any(e.primitive is optimization_barrier_p for e in program.eqns) else ""


Contract = Callable[[Program], str]  # what is wrong, or nothing

INLINED: tuple[Contract, ...] = (_calls_nothing, _bodies_are_closed)
ON_ONE_DEVICE: tuple[Contract, ...] = (*INLINED, _puts_nothing)
STAGES: dict[str, tuple[Contract, ...]] = {
    "inlined": INLINED,
    "optimized": (*ON_ONE_DEVICE, _nothing_is_unused, _unknown_sizes_stay_in_loops),
    "ordered": (*ON_ONE_DEVICE, _has_no_barrier),
}
