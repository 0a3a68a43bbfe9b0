"""Running a Program a second time: what its first run has printed is not printed again.

Knows which equations have effects; not what they do.
"""

from __future__ import annotations

from typing import Any

from functad.errors import DifferentiationError
from functad.ir import Eqn, Program, has_effects, memoised, program_has_effects


def without_actions(program: Program) -> Program:
    """The Program without the equations that act and have no results, such as `debug.print`; inside of loops, too.

    Raises:
        DifferentiationError: an equation acts and has results that a second run would not get again.

    >>> import functad
    >>> program = functad.make_jaxpr(lambda x: (functad.debug.print("{}", x), -x)[1])(1.)
    >>> print(without_actions(program))
    { lambda ; a:f32[]. let b:f32[] = neg a in (b,) }
    """
    if not program_has_effects(program):
        return program
    return memoised(program, ("without actions",), lambda: _stripped(program))


def _stripped(program: Program) -> Program:
    eqns = [e.replace(params={k: _inside(v) for k, v in e.params.items()}) for e in program.eqns]
    kept = [e for e in eqns if e.outvars or not has_effects(e)]
    for eqn in kept:
        if has_effects(eqn):
            raise _cannot_repeat(eqn)
    return program.replace(eqns=kept)


def _inside(value: Any) -> Any:
    if isinstance(value, Program):
        return without_actions(value)
    if isinstance(value, tuple) and any(isinstance(v, Program) for v in value):
        return tuple(_inside(v) for v in value)
    return value


def _cannot_repeat(eqn: Eqn) -> DifferentiationError:
    return DifferentiationError(
        f"`{eqn.primitive.name}` at {eqn.source} lies in a loop of unknown length, whose derivative runs it a second "
        "time, and the call might give something else then. Use `functad.lax.scan`, or `fori_loop` with bounds known "
        "when it is traced; or `pure_callback`, if the function always gives the same"
    )
