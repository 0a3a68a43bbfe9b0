"""Time a step, or a call: the workloads of `workloads/`, all frameworks in turn.

Knows the units to print; how frameworks compete is in `processes`.
"""

from __future__ import annotations

from benchmarks.processes import compete
from benchmarks.record import Options, Section, section_of
from benchmarks.workloads import WORKLOADS


def measure(name: str, options: Options) -> list[Section]:
    """Microseconds a step of one workload."""
    contest = compete(name, options.frameworks, rounds=options.rounds, seconds=options.seconds, threads=options.threads)
    return [section_of(name, WORKLOADS[name].title, contest)]
