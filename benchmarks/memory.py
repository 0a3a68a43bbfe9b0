"""Memory: bytes of arrays that a training step allocates, and how far the process grows over its imports.

Knows which workloads are measured; each framework counts its own bytes.
"""

from __future__ import annotations

from benchmarks.frameworks import absent
from benchmarks.measure import Timing, summary
from benchmarks.processes import WorkerError, worker
from benchmarks.record import Options, Section
from benchmarks.workloads import STEPS

_STEPS = 20


def measure(options: Options) -> list[Section]:
    """Kilobytes, for every training workload."""
    return [section for name in STEPS for section in _measure(name, options)]


def _measure(workload: str, options: Options) -> list[Section]:
    allocated: dict[str, Timing] = {}
    grown: dict[str, Timing] = {}
    failures: dict[str, str] = {}
    for framework in options.frameworks:
        reason = absent(framework)
        if reason is not None:
            failures[framework] = reason
            continue
        try:
            with worker(framework, workload, options.threads) as process:
                before = process.ask("load")["rss"]
                answer = process.ask("memory", steps=_STEPS)
        except WorkerError as problem:
            failures[framework] = str(problem)
            continue
        allocated[framework] = summary([answer["step"] / 1e3])
        if answer["rss"] is not None:
            grown[framework] = summary([(answer["rss"] - before) / 1e6])
    how = [
        "functad: largest sum of new memory during a step, Python objects included (tracemalloc); "
        "torch: what its operators took (profiler); jax: temporaries and new results (its memory analysis)"
    ]
    return [
        Section(
            f"memory-{workload}", f"{workload}: allocated in a step", "kB", allocated, failures=failures, notes=how
        ),
        Section(f"peak-{workload}", f"{workload}: growth of the process, compiler and {_STEPS} steps", "MB", grown),
    ]
