"""What equations cost, before anything is fused or compiled: floating-point operations and bytes.

Knows the rules by which primitives are lowered; counts as `nests/cost.py` does, so that stages can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from functad.config import config
from functad.errors import DifferentiationError
from functad.ir import UNKNOWN, Eqn, Program, memoised, subprograms
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.nests.cost import FUNCTION_WEIGHT, work_of
from functad.lowering.steps import GemmStep, KernelStep, NestStep
from functad.lowering.target import Machine, StepWriter, Target
from functad.lowering_rules import Contraction, ControlFlow, Loops, Reduction, Running, Scalar, Scattered
from functad.primitives.cost import functions_in
from functad.records import Record


class EquationCost(Record):
    """Floating-point operations, and bytes that are read and written.

    >>> EquationCost(2e3, 512.0)
    2,000 flops, 512 bytes
    """

    flops: float
    bytes: float

    def __str__(self) -> str:
        return f"{self.flops:,.0f} flops, {self.bytes:,.0f} bytes"

    __repr__ = __str__


class ProgramCost(Record):
    """The cost of each equation of a Program, as a table. `flops`, `bytes`: of all together."""

    equations: tuple[tuple[str, EquationCost], ...]

    @property
    def flops(self) -> float:
        return sum(cost.flops for _, cost in self.equations)

    @property
    def bytes(self) -> float:
        return sum(cost.bytes for _, cost in self.equations)

    def __str__(self) -> str:
        rows = [("equation", "flops", "bytes")]
        rows += [(name, f"{cost.flops:,.0f}", f"{cost.bytes:,.0f}") for name, cost in self.equations]
        rows.append(("all", f"{self.flops:,.0f}", f"{self.bytes:,.0f}"))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows)

    __repr__ = __str__


def cost_of_program(program: Program) -> ProgramCost:
    """What `Program.cost` gives."""
    return memoised(
        program, ("cost",), lambda: ProgramCost(tuple((e.primitive.name, cost_of_equation(e)) for e in program.eqns))
    )


def cost_of_equation(eqn: Eqn) -> EquationCost:
    """Of a loop, as often as it runs its body, once if that is not known; of a call or a choice, all that it holds."""
    inner = [cost_of_program(program) for program in subprograms(eqn.params)]
    if inner:
        length = eqn.params.get("length", 1) if isinstance(eqn.primitive.lower, ControlFlow) else 1
        times = 1 if length == UNKNOWN else length
        return EquationCost(times * sum(c.flops for c in inner), times * sum(c.bytes for c in inner))
    moved = sum(atom.aval.size * atom.aval.dtype.itemsize for atom in (*eqn.invars, *eqn.outvars) if atom.aval.size > 0)
    return EquationCost(float(_operations(eqn)), float(moved))


def _operations(eqn: Eqn) -> float:
    rule = eqn.primitive.lower
    sizes = [max(v.aval.size, 0) for v in eqn.outvars]
    if isinstance(rule, Scalar):
        return sizes[0] * (1 + FUNCTION_WEIGHT * functions_in(eqn))
    if isinstance(rule, (Reduction, Running)):
        return max(eqn.invars[0].aval.size, 0)
    if isinstance(rule, Contraction):
        lhs = eqn.invars[0].aval
        (contracted, _), _ = eqn.params["dimension_numbers"]
        return 2.0 * sizes[0] * math.prod(lhs.shape[d] for d in contracted)
    if isinstance(rule, Scattered):
        return 0 if rule.kind == "set" else math.prod(rule.loops(*[a.aval for a in eqn.invars], **eqn.params).shape)
    return _operations_of_kernels(eqn, rule) if isinstance(rule, Loops) and rule.joins is None else 0


def _operations_of_kernels(eqn: Eqn, rule: Loops) -> float:
    """What a rule with kernels of its own says of these."""
    writer = StepWriter(Machine(config.num_threads))
    target: Any = Target(writer, eqn, "cost")
    try:
        rule.rule(target, _buffers(eqn.invars), _buffers(eqn.outvars), **eqn.params)
    except DifferentiationError:  # the linear half of a `custom_vjp`: it is transposed, and never runs
        return 0.0
    total = 0.0
    for step in writer.steps:
        if isinstance(step, GemmStep):
            total += 2.0 * step.m * step.n * step.k * step.batch
        elif isinstance(step, KernelStep):
            total += step.flops
        elif isinstance(step, NestStep):
            total += work_of(step.nest).flops
    return total


def _buffers(atoms: Sequence[Any]) -> list[Buffer]:
    return [new_buffer(f"x{i}", atom.aval.shape, atom.aval.dtype) for i, atom in enumerate(atoms)]
