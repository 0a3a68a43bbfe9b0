"""What a compiled Program costs and how long its kernels take, as tables for people.

Knows instructions and their estimates; no Programs and no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from time import perf_counter_ns
from typing import Any

import numpy as np

from functad.lowering.blocks import ControlPlan, Instruction, with_repetitions
from functad.system.once import imported


class SourceText(str):
    """Generated Python source; its repr is the text itself, so that a notebook shows it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class KernelCost:
    """A kernel's work in one call of the Program: floating-point operations, and bytes if nothing were in the cache.

    A kernel in a loop of unknown length, or in a branch, counts once.
    """

    kernel: str
    flops: float
    bytes: float


@dataclass(frozen=True)
class Cost:
    """What a Program costs, kernel by kernel."""

    kernels: tuple[KernelCost, ...]

    @property
    def flops(self) -> float:
        return sum(k.flops for k in self.kernels)

    @property
    def bytes(self) -> float:
        return sum(k.bytes for k in self.kernels)

    def __str__(self) -> str:
        rows = [(k.kernel, f"{k.flops:,.0f}", f"{k.bytes:,.0f}") for k in self.kernels]
        rows.append(("all", f"{self.flops:,.0f}", f"{self.bytes:,.0f}"))
        return text_table(("kernel", "flops", "bytes"), rows)

    __repr__ = __str__


_LEAST_FLOOR = 0.05  # µs; it is printed with one digit, and a ratio to a smaller one says nothing


@dataclass(frozen=True)
class KernelTime:
    """All runs of a kernel in one call of the Program, in µs.

    floor: what the machine needs for its operations or bytes at least.
    """

    kernel: str
    time: float
    floor: float

    @property
    def ratio(self) -> str:
        """How many times its floor a kernel takes, as it is printed."""
        return f"{self.time / self.floor:.1f}" if self.floor >= _LEAST_FLOOR else ""


@dataclass(frozen=True)
class Profile:
    """How long each kernel takes on its own. `step`: the whole call, in µs."""

    kernels: tuple[KernelTime, ...]
    step: float

    def __str__(self) -> str:
        rows = [(k.kernel, f"{k.time:,.1f}", f"{k.floor:,.1f}", k.ratio) for k in self.kernels]
        rows.append(("the whole call", f"{self.step:,.1f}", f"{sum(k.floor for k in self.kernels):,.1f}", ""))
        return text_table(("kernel", "µs", "floor µs", "ratio"), rows)

    __repr__ = __str__

    def plot(self) -> Any:
        """The times as bars, each with a mark at its floor, which a notebook shows; `.save(path)` writes them as SVG.

        >>> Profile((KernelTime("sin_b", 3.0, 2.0),), 3.5).plot()
        <Bars: sin_b 3.0 µs, floor 2.0 µs>
        """
        rows = [(k.kernel, k.time, k.floor, f"{k.ratio} × its floor" if k.ratio else "") for k in self.kernels]
        return imported("functad.views.bars").Bars(f"kernels, of {self.step:,.1f} µs a call", "µs", rows)

    def _repr_html_(self) -> str:
        return str(self.plot()._repr_html_())


class ShownKernels:
    """What a lowering shows of the kernels that it has generated, for whichever target."""

    generated: Any

    @property
    def kernels(self) -> SourceText:
        return SourceText(self.generated.source)

    @property
    def cost(self) -> Cost:
        return cost_of(self.generated.instructions)


def cost_of(instructions: Sequence[Instruction | ControlPlan]) -> Cost:
    return Cost(
        tuple(
            KernelCost(label(i, times), i.flops * times, i.bytes * times) for i, times in with_repetitions(instructions)
        )
    )


def profile_of(measured: Sequence[tuple[Instruction, int, float]], step: float, peak: float, threads: int) -> Profile:
    """Times in ns beside their floors. peak: floating-point operations a ns in large products."""
    bandwidth = threads * copy_speed()
    found = []
    for instruction, times, ns in measured:
        # Operations that are no product cannot reach the speed of products; only bytes count for them.
        operations = instruction.flops / peak if instruction.function.startswith("gemm") else 0.0
        # Speeds are measured at another moment, maybe a busier one: no kernel needs more than it has taken.
        floor = min(max(operations, instruction.bytes / bandwidth), ns)
        found.append(KernelTime(label(instruction, times), times * ns / 1e3, times * floor / 1e3))
    return Profile(tuple(found), step / 1e3)


def label(instruction: Instruction, times: int = 1) -> str:
    name = instruction.step.name if instruction.function.startswith("gemm") else instruction.function
    return name if times == 1 else f"{name} ({times} times)"


@cache
def copy_speed() -> float:
    """Bytes a ns that one thread reads and writes in a copy that stays in the cache."""
    source, target = np.ones(1 << 17, np.float32), np.empty(1 << 17, np.float32)
    return 2.0 * source.nbytes / least_time(lambda: np.copyto(target, source), 50)


def least_time(run: Callable[[], object], repeats: int) -> float:
    """The least time in ns of several runs."""
    times = []
    for _ in range(repeats):
        begin = perf_counter_ns()
        run()
        times.append(perf_counter_ns() - begin)
    return float(min(times))


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns, the first one to the left."""
    widths = [max(len(str(row[i])) for row in (head, *rows)) for i in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [f"{row[0]:<{widths[0]}}", *(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:]))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
