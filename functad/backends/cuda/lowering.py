"""From an optimised Program to CUDA kernels and a memory plan: everything up to machine code.

Knows how the parts fit together: schedule, kernels, memory plan. It needs neither a GPU nor Numba.
"""

from __future__ import annotations

from collections.abc import Sequence

from functad import machine_model
from functad.backends.cpu.report import ShownKernels
from functad.backends.cuda.generate import generate
from functad.backends.cuda.scalars import SIMULATED
from functad.editing.dead_code import eliminate_dead_code
from functad.errors import NoRuleError
from functad.ir import Program, registry
from functad.lowering.blocks import Block
from functad.lowering.composites import take_composites_apart
from functad.lowering.memory.arena import plan_memory
from functad.lowering.schedule import make_schedule
from functad.lowering_rules import (
    Callback,
    Contraction,
    ControlFlow,
    Indexed,
    Loops,
    Reduction,
    Running,
    Scalar,
    Scattered,
)

# The simulator starts a Python thread for every thread of the grid.
THREADS = 4 if SIMULATED else machine_model.CUDA_THREADS


def lower_program(program: Program, donated: Sequence[bool] = ()) -> CudaLowering:
    """Everything up to machine code.

    Raises:
        NoRuleError: the Program has an operation that this backend does not have yet.
    """
    check_operations(program)
    return CudaLowering(program)


class CudaLowering(ShownKernels):
    """A Program as kernels and a memory plan, not compiled.

    kernels: the source of the kernels. memory_plan: where temporaries lie. cost: operations and bytes, by kernel.
    """

    def __init__(self, program: Program) -> None:
        self.program = eliminate_dead_code(program)  # what is not used has no place to be written to
        self.schedule = make_schedule(self.program)
        self.generated = generate(self.schedule, THREADS)
        self.memory_plan = plan_memory([Block(i.n, [i], [1]) for i in self.generated.instructions])


def check_operations(program: Program) -> None:
    """Raise NoRuleError where this backend does not have an operation."""
    unknown = (Callback, ControlFlow, Loops)
    eqns = take_composites_apart(program).eqns
    missing = sorted({e.primitive.name for e in eqns if isinstance(e.primitive.lower, unknown)})
    if missing:
        kinds = (Scalar, Indexed, Reduction, Running, Contraction, Scattered)
        known = ", ".join(sorted(name for name, p in registry.items() if isinstance(p.lower, kinds)))
        raise NoRuleError(
            f"the CUDA backend does not have {', '.join(f'`{name}`' for name in missing)} yet: compile this function "
            f'with backend="cpu". The operations that it has: {known}'
        )
