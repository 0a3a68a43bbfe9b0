"""From an optimised Program to CUDA kernels and a memory plan: everything up to machine code.

Knows how the parts fit together: schedule, kernels, memory plan. It needs neither a GPU nor Numba.
"""

from __future__ import annotations

from collections.abc import Sequence

from functad import machine_model
from functad.backends.cpu.report import ShownKernels
from functad.backends.cuda.generate import generate
from functad.backends.cuda.kernels.mapping import is_atomic
from functad.backends.cuda.runtime.running import launches_of
from functad.backends.cuda.scalars.registry import SIMULATED
from functad.config import config
from functad.editing.dead_code import eliminate_dead_code
from functad.errors import CompilationError
from functad.ir import Program
from functad.lowering.blocks import Block, ControlPlan, Instruction
from functad.lowering.contracts import check_schedule
from functad.lowering.memory.arena import plan_memory
from functad.lowering.schedule import make_schedule
from functad.lowering.target import Machine
from functad.optimize.loops.devices import DeviceCost
from functad.system import numba_here
from functad.system.once import imported

# The simulator starts a Python thread for every thread of the grid.
THREADS = 4 if SIMULATED else machine_model.CUDA_THREADS


def lower_program(program: Program, donated: Sequence[bool] = ()) -> CudaLowering:
    """Everything up to machine code."""
    return CudaLowering(program, donated)


def device_cost_of(program: Program) -> DeviceCost:
    """What an optimised Program takes, each step of a loop counted; the loop of one thread as what takes as long."""
    lowered = CudaLowering(program)
    launches = launches_of(lowered.generated.instructions, _launches_worth)
    return DeviceCost(launches, lowered.memory_plan.live_bytes)


def _launches_worth(instruction: Instruction) -> int:
    return 1 + int(instruction.cost // max(machine_model.CUDA_SMALL_STEP, 1.0))


class CudaLowering(ShownKernels):
    """A Program as kernels and a memory plan, not compiled.

    kernels: the source of the kernels. memory_plan: where temporaries lie. cost: operations and bytes, by kernel.
    fused: whether any product may be added without being rounded first; in matrix products and convolutions all are.
    by_library: whether large matrices are multiplied by cuBLAS where it is found. precision: how
    exact its products of float32 are.
    """

    def __init__(self, program: Program, donated: Sequence[bool] = ()) -> None:
        self.fused: bool = config.fuse_multiply_add
        self.by_library = config.cuda_products == "cublas"
        self.precision: str | None = config.default_matmul_precision
        self.program = eliminate_dead_code(program)  # what is not used has no place to be written to
        self.schedule = make_schedule(self.program, donated, _machine())
        if config.check_programs:
            check_schedule(self.schedule)
        self.generated = generate(self.schedule, THREADS, self.by_library)
        self.memory_plan = plan_memory(_blocks(self.generated.instructions), machine_model.CUDA_SHARED_ARENA)

    @property
    def ptx(self) -> dict[str, str]:
        """The PTX of each kernel, for the compute capability that `config` says.

        Raises:
            CompilationError: the compiler is missing, or kernels run in the simulator.
        """
        if not numba_here.is_installed():
            raise CompilationError(
                "PTX is written by Numba's CUDA compiler, which is not installed: python -m pip install 'functad[cuda]'"
            )
        major, minor = map(int, config.cuda_capability.split("."))
        found: dict[str, str] = imported("functad.backends.cuda.launches").ptx_without_a_device(self, (major, minor))
        return found


def _machine() -> Machine:
    adds = config.cuda_atomics
    return Machine(machine_model.CUDA_PIECES, on_device=True, atomic=lambda kind, dtype: is_atomic(kind, dtype, adds))


def _blocks(items: Sequence[Instruction | ControlPlan]) -> list[Block | ControlPlan]:
    """A block for each instruction: one begins when the one before has ended."""
    return [
        ControlPlan(item.step, [_blocks(part) for part in item.parts])
        if isinstance(item, ControlPlan)
        else Block(item.n, [item], [1])
        for item in items
    ]
