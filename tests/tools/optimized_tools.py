"""The Program of a function as it is compiled, checked to compute the same: what tests of passes look at."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
from functad.execution import optimized
from functad.ir import Eqn, Program
from functad.tracing import eval_program


def optimized_program(fun: Any, *args: Any, rtol: float = 2e-4, atol: float = 2e-5) -> Program:
    """The optimized Program, after a check that it computes the same as the traced one, interpreted and compiled."""
    program = functad.make_jaxpr(fun)(*args)
    leaves = functad.tree.leaves(args)
    made = optimized(program)
    functad.check_program(made)
    expected = eval_program(program, leaves)
    for found in (eval_program(made, leaves), functad.tree.leaves(functad.jit(fun)(*args))):
        for want, got in zip(expected, found, strict=True):
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)
    return made


def equations(program: Program, name: str) -> list[Eqn]:
    """The equations of a primitive, without those in sub-programs."""
    return [e for e in program.eqns if e.primitive.name == name]
