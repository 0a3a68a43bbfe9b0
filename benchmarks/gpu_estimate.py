"""`python -m benchmarks.gpu_estimate W3 W5-128`: the launches of a training step, who waits, and about how long.

Knows how a step is lowered, and a rule for what a launch takes; nothing is run or timed, and no GPU is needed. The
rule: a launch begins, waits for memory once, and then takes as long as its bytes or its operations do, by as many
multiprocessors as it has blocks for. It knows nothing of blocks that have more to do than others, nor of the host.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks.frameworks import contender
from benchmarks.gpu_steps import tasks
from functad import machine_model
from functad.backends.cuda.launches import ProgramLaunches
from functad.backends.cuda.lowering import CudaLowering
from functad.backends.cuda.runtime.launching import LibraryProduct
from functad.backends.cuda.runtime.running import Base, StretchWalker
from functad.backends.walking import Address
from functad.calls.common import closed
from functad.optimize.pipeline import simplify_for

CLOCKS = 1900.0  # a µs, of an H200
BYTES = 4.0e6  # a µs: what copies read and write there
OPERATIONS = 0.25 * 2 * machine_model.CUDA_CORE_PRODUCTS * CLOCKS  # a µs, of a multiprocessor: a quarter of the most


class Start(NamedTuple):
    """One launch of a step. level: how many wait for each other up to it. done: µs from the start of the step on."""

    name: str
    blocks: str
    nbytes: float
    flops: float
    after: tuple[int, ...]
    level: int
    time: float
    done: float


def starts_of(lowering: CudaLowering) -> list[Start]:
    """The launches of a step without loops of unknown length, in order, large products by cuBLAS."""
    launches = ProgramLaunches(lowering, machine_model.CUDA_CORES, lambda: True)
    found: list[Start] = []
    walker = StretchWalker(_layout(lowering), launches.of)
    walker.run(lowering.generated.instructions)
    bases = dict.fromkeys(base for _, places in walker.found for base, _ in places)
    for node, (instruction, _) in zip(walker.nodes([*bases]), walker.found):
        launch = node.launch
        if isinstance(launch, LibraryProduct):
            blocks, time = "cuBLAS", _time_of_library(launch)
        else:
            blocks = f"{launch.blocks} x {launch.threads}"
            time = _time(launch.blocks, instruction.bytes, instruction.flops)
        before = [found[k] for k in node.after]
        level = 1 + max((one.level for one in before), default=0)
        done = time + max((one.done for one in before), default=0.0)
        found.append(
            Start(instruction.function, blocks, instruction.bytes, instruction.flops, node.after, level, time, done)
        )
    return found


def _layout(lowering: CudaLowering) -> dict[Any, Address]:
    """Where memory lies: each argument, result, constant and all temporaries begin at a base of their own."""
    buffers = [*lowering.schedule.inputs, *lowering.schedule.outputs, *lowering.schedule.constants]
    storages = dict.fromkeys(b.storage for b in (*buffers, *lowering.generated.tickets))
    layout = {storage: Address(Base(number)) for number, storage in enumerate(storages)}
    arena = Base(len(layout))
    return {storage: Address(arena, offset) for storage, offset in lowering.memory_plan.offsets.items()} | layout


def _time(blocks: int, nbytes: float, flops: float) -> float:
    busy = min(blocks, machine_model.CUDA_CORES)
    waited = (machine_model.CUDA_NEXT_CLOCKS + machine_model.CUDA_MEMORY_CLOCKS) / CLOCKS
    return waited + max(nbytes / BYTES, flops / (busy * OPERATIONS))


def _time_of_library(product: LibraryProduct) -> float:
    products = float(product.batch) * product.rows * product.columns * product.terms
    each = machine_model.CUDA_CORES * machine_model.CUDA_LIBRARY_PRODUCTS
    return (machine_model.CUDA_LIBRARY_CLOCKS + products / each) / CLOCKS


def lowered(make: Callable[[], Any]) -> CudaLowering:
    """The step of a task, as it is lowered for a GPU."""
    step = contender("functad", make())
    traced = step.step.trace(*step.arguments())
    return CudaLowering(simplify_for(closed(traced.jaxpr), on_device=True), traced.donated_inputs())


def table(name: str, starts: Sequence[Start]) -> str:
    lines = [f"{name}: launch, blocks x threads, kB, Mflop, level, µs, done, after"]
    for number, s in enumerate(starts):
        sizes = f"{s.nbytes / 1e3:9.1f} {s.flops / 1e6:8.2f} {s.level:3} {s.time:6.1f} {s.done:6.1f}"
        lines.append(f"{number:3} {s.name[:56]:56} {s.blocks:>10} {sizes}  {', '.join(map(str, s.after))}")
    last = max(starts, key=lambda s: s.done)
    nbytes = sum(s.nbytes for s in starts)
    lines.append(
        f"{len(starts)} launches, {max(s.level for s in starts)} wait for each other at most, {nbytes / 1e6:.1f} MB, "
        f"about {last.done:.0f} µs"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    known = tasks()
    for wanted in sys.argv[1:] or ["W1", "W2", "W3", "W5-128", "W5-512", "W5-4096"]:
        print(table(wanted, starts_of(lowered(known[wanted]))))
