"""`custom_linear_solve_p`: the x with A x = b, found by a Program of the user's, and its derivatives likewise.

Knows Programs of flat lists of values; nothing of pytrees. How the solver finds x is never differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.calls.builder import run_program
from functad.calls.closed_call import derivative_program
from functad.calls.common import group
from functad.errors import DifferentiationError
from functad.ir import Absent, Aval, Primitive, Program, Zero
from functad.lowering_rules import Call
from functad.primitives.arithmetic import neg, sub
from functad.primitives.common import instantiate, is_linear
from functad.records import NamedTuple
from functad.tracing import bind, eval_program
from functad.transforms.batching import place_batch_axis
from functad.transforms.programs import batch_in_front


class Solver(NamedTuple):
    """Four Programs that take the same constants, and then a vector.

    matvec, vecmat: the vector times A, and times Aᵀ.
    solve, transpose_solve: the solution of A x = b, or Aᵀ x = b, and what else the solver returns.
    """

    matvec: Program
    vecmat: Program | None
    solve: Program
    transpose_solve: Program | None

    def transposed(self) -> Solver:
        if self.vecmat is None or self.transpose_solve is None:
            raise DifferentiationError(
                "custom_linear_solve: reverse mode solves with the transposed matrix: give transpose_solve=, or "
                "symmetric=True where it is the same"
            )
        return Solver(self.vecmat, self.matvec, self.transpose_solve, self.solve)


def linear_solve(solver: Solver, consts: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """Bind a solve: the solution, of the types of b, and what else the solver returns."""
    return list(bind(custom_linear_solve_p, *consts, *b, num_consts=len(consts), **solver._asdict()))


def _abstract_eval(*avals: Aval, solve: Program, **_: Any) -> list[Aval]:
    return solve.out_avals


def _impl(*args: np.ndarray, solve: Program, **_: Any) -> list[np.ndarray]:
    return run_program(solve, args)


def _jvp(
    primals: Sequence[Any], out: Sequence[Any], tangents: Sequence[Any], *, num_consts: int, **programs: Any
) -> list[Any]:
    solver = Solver(**programs)
    consts, b_dots = primals[:num_consts], tangents[num_consts:]
    solution, others = out[: len(b_dots)], out[len(b_dots) :]
    active = [type(t) is not Zero for t in tangents[:num_consts]]
    right = list(b_dots)
    if any(active):
        derivative, arrives = derivative_program(solver.matvec, (*active, *(False for _ in solution)))
        found = iter(eval_program(derivative, [*consts, *solution, *group(active, tangents)]))
        right = [_minus(b_dot, next(found)) if a else b_dot for b_dot, a in zip(b_dots, arrives)]
    result: list[Any] = [Zero(Aval(x.shape, x.dtype)) for x in out]
    if any(type(r) is not Zero for r in right):
        # A ẋ = ḃ − Ȧ x
        result[: len(solution)] = linear_solve(solver, consts, [instantiate(r) for r in right])[: len(solution)]
    assert len(result) == len(solution) + len(others)
    return result


def _minus(x: Any, y: Any) -> Any:
    return neg(y) if type(x) is Zero else sub(x, y)


def _transpose(cts: Sequence[Any], *args: Any, num_consts: int, **programs: Any) -> list[Any]:
    if any(map(is_linear, args[:num_consts])):
        raise DifferentiationError("custom_linear_solve is linear in b alone: its matrix cannot be transposed over")
    count = len(args) - num_consts
    arriving = [instantiate(ct) for ct in cts[:count]]
    leaving = linear_solve(Solver(**programs).transposed(), args[:num_consts], arriving)[:count]
    return [None] * num_consts + [ct if is_linear(a) else None for ct, a in zip(leaving, args[num_consts:])]


def _batch(
    axis_size: int, args: Sequence[Any], dims: Sequence[int | None], *, num_consts: int, **programs: Any
) -> tuple[list[Any], list[int]]:
    consts = args[:num_consts]
    b = [place_batch_axis(x, d, 0, axis_size) for x, d in zip(args[num_consts:], dims[num_consts:])]
    mapped_dims = (*dims[:num_consts], *(0 for _ in b))
    mapped = {name: p and batch_in_front(p, axis_size, mapped_dims) for name, p in programs.items()}
    outs = linear_solve(Solver(**mapped), consts, b)
    return outs, [0] * len(outs)


custom_linear_solve_p = Primitive(
    name="custom_linear_solve",
    doc="The solution of a linear equation by a Program of the user's, differentiated implicitly.",
    multiple_results=True,
    abstract_eval=_abstract_eval,
    impl=_impl,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=Call("solve"),
    examples=Absent("it takes Programs; tests/api/test_implicit.py tests it under all transforms"),
)
