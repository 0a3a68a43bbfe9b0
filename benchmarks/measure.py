"""Timing: contenders in turn, round after round, so that a noisy machine is noisy for all of them alike.

Knows callables and seconds; no framework.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Timing(NamedTuple):
    """Seconds a call: the median over the rounds, and the quartiles."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> Timing:
        return Timing(self.median * factor, self.low * factor, self.high * factor)


def in_turn(
    contenders: dict[str, Callable[[], object]], *, rounds: int = 21, seconds: float = 0.02
) -> dict[str, Timing]:
    """Time every contender once a round; each round repeats the call for about `seconds`."""
    repeats = {}
    for name, call in contenders.items():
        call()  # compiles, fills caches
        start = time.perf_counter()
        call()
        repeats[name] = max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            samples[name].append((time.perf_counter() - start) / repeats[name])
    return {name: summary(s) for name, s in samples.items()}


def import_times(modules: list[str], *, rounds: int = 7) -> dict[str, Timing]:
    """Seconds that `import module` adds to a fresh interpreter, in turn."""
    code = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
    samples: dict[str, list[float]] = {m: [] for m in modules}
    for _ in range(rounds + 1):
        for module in modules:
            done = subprocess.run(
                [sys.executable, "-c", code.format(module)], capture_output=True, text=True, check=True
            )
            samples[module].append(float(done.stdout))
    return {m: summary(s[1:]) for m, s in samples.items()}  # the first round fills the file cache


def summary(samples: list[float]) -> Timing:
    """The median and the quartiles; of one sample itself."""
    if len(samples) == 1:
        return Timing(samples[0], samples[0], samples[0])
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(median, low, high)


def peak_memory() -> int | None:
    """The largest resident size of this process so far, in bytes; None where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():  # unlike getrusage it forgets what the process was before it ran this program
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(peak.split()[1]) * 1024
    if sys.platform == "win32":
        return None
    import resource

    peak_size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak_size if sys.platform == "darwin" else peak_size * 1024
