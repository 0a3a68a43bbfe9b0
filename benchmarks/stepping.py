"""Time a step, or a call: the workloads of `workloads/`, all frameworks in turn.

Knows the units to print; how frameworks compete is in `processes`.
"""

from __future__ import annotations

from benchmarks.processes import compete
from benchmarks.record import Options, Section
from benchmarks.workloads import WORKLOADS


def measure(name: str, options: Options) -> list[Section]:
    """Microseconds a step of one workload."""
    contest = compete(name, options.frameworks, rounds=options.rounds, seconds=options.seconds, threads=options.threads)
    section = Section(
        name,
        WORKLOADS[name].title,
        "µs",
        {framework: timing.scaled(1e6) for framework, timing in contest.timings.items()},
        contest.ratio,
        contest.fastest,
        contest.failures,
        agreement=contest.agreement,
        versions=contest.versions,
        least={framework: 1e6 * least for framework, least in contest.least.items()},
    )
    return [section]
