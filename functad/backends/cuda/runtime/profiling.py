"""How long each kernel takes: many starts of it in a graph, between two events, less one start between two.

Knows nodes of a plan and what they write to; no Programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from functad import machine_model
from functad.backends.cpu import report
from functad.backends.cuda.runtime.device import CudaDevice
from functad.backends.cuda.runtime.pool import PoolBlock
from functad.backends.cuda.runtime.running import Stretch
from functad.dtypes import kind_of
from functad.records import NamedTuple


class Kept(NamedTuple):
    """A copy of what a kernel both reads and writes to."""

    address: int
    copy: PoolBlock
    nbytes: int
    counts: bool  # whether these are no floats: numbers by which memory is found had better not run away


def profile_of(device: CudaDevice, stretch: Stretch, bases: tuple[int, ...]) -> report.Profile:
    """The least time of each launch of a stretch, and of all of it, on memory that is this call's own.

    Each launch starts many times with nothing between, so its time is what it adds to a graph. What it reads is what it
    reads in a call; what it writes to is as one start leaves it afterwards. Where it changes whole numbers in place,
    they are copied back before each start, and the time of the copies is subtracted.
    """
    speed = device.copy_speed()
    found: list[report.KernelTime] = []
    with stretch.alone():
        for number, instruction in enumerate(stretch.instructions):
            kept = _kept(device, stretch, number, bases)
            time = _time_of(device, stretch, number, bases, [k for k in kept if k.counts])
            for k in kept:
                device.driver.copy(k.address, k.copy.address, k.nbytes)
            stretch.prepared.start_one(number, bases)
            found.append(report.KernelTime(report.label(instruction), time, instruction.bytes / speed))
    return report.Profile(tuple(found), _time_of_all(device, stretch, bases))


def _kept(device: CudaDevice, stretch: Stretch, number: int, bases: Sequence[int]) -> list[Kept]:
    """Copies of what a launch changes in place."""
    found = []
    for address, buffer in stretch.changed_in_place(number, bases):
        copy = device.pool.take(buffer.nbytes, "a copy", "for a profile")
        device.driver.copy(copy.address, address, buffer.nbytes)
        found.append(Kept(address, copy, buffer.nbytes, kind_of(buffer.dtype) not in "fc"))
    return found


def _time_of(device: CudaDevice, stretch: Stretch, number: int, bases: Sequence[int], kept: Sequence[Kept]) -> float:
    driver = device.driver

    def copies(stream: int) -> None:
        for k in kept:
            driver.copy(k.address, k.copy.address, k.nbytes, stream)

    def launch(stream: int) -> None:
        copies(stream)
        stretch.prepared.start_one(number, bases, stream)

    time = _time_in_graph(device, launch)
    return time - _time_in_graph(device, copies) if kept else time


def _time_in_graph(device: CudaDevice, action: Callable[[int], None]) -> float:
    """The time in µs that an action takes within a graph of it; NaN in the simulator."""
    driver = device.driver
    if driver.is_simulated:
        return math.nan
    first = driver.captured(action, 1)
    once = driver.least_time(lambda: driver.replay("a profile", first), machine_model.CUDA_REPEATS)
    count = max(1, min(machine_model.CUDA_PROFILE_STARTS, int(machine_model.CUDA_PROFILE_TIME / max(once, 1.0))))
    more = driver.captured(action, 1 + count)
    time = driver.least_time(lambda: driver.replay("a profile", more), machine_model.CUDA_REPEATS)
    for graph in (first, more):
        driver.forget(graph)
    return (time - once) / count


def _time_of_all(device: CudaDevice, stretch: Stretch, bases: tuple[int, ...]) -> float:
    """The time in µs that each of some more starts of a stretch takes."""
    count = machine_model.CUDA_PROFILE_STEPS

    def starts(times: int) -> None:
        for _ in range(times):
            stretch.start(bases)

    once, more = (device.driver.least_time(partial(starts, n), machine_model.CUDA_REPEATS) for n in (1, 1 + count))
    return float(more - once) / count
