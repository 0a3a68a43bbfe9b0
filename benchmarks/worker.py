"""One framework with one workload in a process of its own: waits on a pipe, does what it is told, then idles.

Knows the protocol: a pickled dict in on standard input, a pickled dict out. `processes` is the other end.
"""

from __future__ import annotations

import os
import sys


def keep_to_cores(count: int) -> None:
    """Leave this process the first `count` cores of those that it may use; before any framework looks."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


if __name__ == "__main__":  # before the imports below, which start pools of threads
    keep_to_cores(int(sys.argv[3]))

import pickle  # noqa: E402
import statistics  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402
from collections.abc import Callable  # noqa: E402
from importlib import import_module  # noqa: E402
from typing import Any, BinaryIO  # noqa: E402

from benchmarks.measure import peak_memory  # noqa: E402

CHUNK = 0.01  # seconds between two looks at the clock, so that looking costs nothing


class Served:
    """A contender, and what the parent may ask of it."""

    def __init__(self, framework: str, workload: str) -> None:
        self._framework, self._workload = framework, workload
        self._contender: Any = None

    def load(self, workload: str | None = None) -> dict[str, Any]:
        """Import the framework and make the task, or another one; nothing is traced or compiled yet."""
        started = time.perf_counter()
        frameworks = import_module("benchmarks.frameworks")
        import_module(frameworks.FRAMEWORKS[self._framework][1])
        imported = time.perf_counter() - started
        task = import_module("benchmarks.workloads").WORKLOADS[workload or self._workload].task()
        self._contender = None  # whose arrays go before others come
        self._contender = frameworks.contender(self._framework, task)
        return {"import": imported, "version": frameworks.version(self._framework), "rss": peak_memory()}

    def first(self, steps: int) -> dict[str, Any]:
        """Seconds from before the trace to the result of the first steps."""
        started = time.perf_counter()
        self._contender.run(steps)
        return {"first": time.perf_counter() - started, "numba": "numba" in sys.modules}

    def outcome(self) -> dict[str, Any]:
        """What the first step gives, for the comparison."""
        return self._contender.outcome()._asdict()

    def burst(self, seconds: float) -> dict[str, Any]:
        """Seconds a step, on one core the processor's: the median over the chunks of a burst from the task's start.

        One step that takes longer than the burst is all of it.
        """
        run, clock = self._contender.run, _clock()
        self._contender.reset()
        run(1)
        started = clock()
        run(1)
        once = clock() - started
        if once > seconds:
            return {"median": once, "least": once, "steps": 1}
        count = max(1, int(CHUNK / max(once, 1e-7)))
        run(count)  # warms the caches, which another framework has just filled with its own
        samples: list[float] = []
        end = clock() + seconds
        while not samples or clock() < end:
            started = clock()
            run(count)
            samples.append((clock() - started) / count)
        return {"median": statistics.median(samples), "least": min(samples), "steps": count * len(samples)}

    def equations(self) -> dict[str, Any]:
        """The number of equations of functad's optimised Program."""
        return {"count": len(self._contender.step.lower(*self._contender.arguments()).optimized.eqns)}

    def without(self, switch: str) -> dict[str, Any]:
        """Leave a part of the compiler out, from before anything is traced."""
        import_module("benchmarks.switches").BY_NAME[switch].turn_off()
        return {}

    def size(self) -> dict[str, Any]:
        """Equations and kernels of functad's Program, bytes that kernels read and write, bytes of temporaries."""
        lowered = self._contender.step.lower(*self._contender.arguments())
        return {
            "equations": len(lowered.optimized.eqns),
            "kernels": str(lowered.kernels).count("\ndef "),
            "traffic": int(lowered.cost.bytes),
            "memory": lowered.memory_plan.arena_bytes,
            "text": f"{lowered.kernels}{lowered.memory_plan}{lowered.cost}",
        }

    def memory(self, steps: int) -> dict[str, Any]:
        """Bytes of arrays that a step allocates, as the framework itself counts, and the peak of the process."""
        self._contender.reset()
        self._contender.run(steps)
        return {"step": self._contender.allocated(), "rss": peak_memory()}


def _clock() -> Callable[[], float]:
    """The processor's time where this process has one core, which others may use as well."""
    has_one = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) == 1
    return time.process_time if has_one else time.perf_counter


def serve(served: Served, requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the pipe is closed."""
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        method: Callable[..., dict[str, Any]] = getattr(served, request.pop("do"))
        try:
            answer = method(**request)
        except Exception as problem:  # the parent reports it beside the other frameworks' figures
            answer = {"error": f"{type(problem).__name__}: {problem}", "traceback": traceback.format_exc()}
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a framework prints must not get between the answers
    serve(Served(sys.argv[1], sys.argv[2]), sys.stdin.buffer, pipe)
