"""`python tests/backends/cuda/cuda_in_parallel.py [--seconds S] [NAME…]`: the checks of the CUDA backend, by all cores.

Each process runs one check after another, for most of their time is Numba's, which compiles by one core; one whose GPU
has faulted is started anew. What there is no time for is named.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

# How names begin, in the order in which checks are begun: what takes long or tells most is first.
FIRST = (
    *(f"edges, {name}" for name in ("W1", "W2", "W3", "W5", "lstm", "conv", "softmax", "sums", "extrema", "layer")),
    *("many_", "updates_", "primitive numba_call", "arrays"),  # what no GPU has run yet
    *(f"edges, {name}" for name in ("products", "gradients", "updates", "cross", "attention", "pooling", "recurrent")),
    "edges, transposes",
    "rows_by",
    "long_",
    "products",
    "squares",
    "what_",
    "functions",
    "loops",
    *(f"primitive {name}" for name in ("reduce_", "arg", "dot", "conv", "select_and", "cum", "scatter", "transpose")),
    "edges",
    "random programs of medium",
)
LAST = ("primitive", "random", "sorts_by")  # of all others
LONGEST_CHECK = 120.0  # seconds, after which a check counts as one that hangs
FAULTS = ("illegal address", "DeviceFaultError", "CUDA_ERROR_LAUNCH")  # after them a process has no GPU any more


class Checks:
    """Names that wait, and what was found of the others."""

    def __init__(self, names: Sequence[str], seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self._waiting = sorted(names, key=_place)
        self._lock = threading.Lock()
        self.found: Counter[str] = Counter()

    def next(self) -> str | None:
        with self._lock:
            return self._waiting.pop(0) if self._waiting and time.monotonic() < self.end else None

    def say(self, line: str) -> None:
        with self._lock:
            self.found[line.split(" ", 1)[0]] += 1
            print(line, flush=True)

    @property
    def left(self) -> list[str]:
        return self._waiting


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="of checks, or how they begin; all of them if there is none")
    parser.add_argument("--seconds", type=float, default=1e9, help="after which checks are left out, or ended")
    parser.add_argument("--processes", type=int, default=max(len(os.sched_getaffinity(0)) - 1, 1))
    given = parser.parse_args(arguments)
    start = time.monotonic()
    known = _names()
    whole, starts = set(given.names) & set(known), tuple(set(given.names) - set(known))
    names = [n for n in known if not given.names or n in whole or n.startswith(starts)]
    checks = Checks(names, given.seconds)
    workers = [threading.Thread(target=_work, args=(checks,)) for _ in range(min(given.processes, len(names)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if checks.left:
        print(f"no time for {len(checks.left)}: {', '.join(checks.left)}")
    took = f"{time.monotonic() - start:.0f} s of {len(workers)} processes"
    print(
        f"{checks.found['ok']} checks passed, {checks.found['FAIL']} failed, {checks.found['skip']} skipped, in {took}"
    )
    return int(checks.found["FAIL"] > 0)


def _place(name: str) -> int:
    places = [k for k, start in enumerate(FIRST) if name.startswith(start)]
    return places[0] if places else len(FIRST) + name.startswith(LAST)


def _names() -> list[str]:
    text = "import cuda_simulated as c; print(*c.names(), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text], cwd=_HERE, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout.splitlines()


_HERE = Path(__file__).parent


def _work(checks: Checks) -> None:
    """Run checks in a process as long as there are some, and in another one where it ends."""
    process: subprocess.Popen[str] | None = None
    while (name := checks.next()) is not None:
        if process is None:
            command = [sys.executable, "-W", "ignore", str(_HERE / "cuda_simulated.py"), "-"]
            process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        start = time.monotonic()
        timer = threading.Timer(min(LONGEST_CHECK, checks.end - start), process.kill)
        timer.start()
        line = _answer(process, name)
        timer.cancel()
        took = time.monotonic() - start
        if line:
            checks.say(f"{line} ({took:.1f} s)")
        elif time.monotonic() >= checks.end:
            checks.say(f"unfinished {name}: no time was left after {took:.0f} s")
        else:
            checks.say(f"FAIL {name}: its process ended after {took:.0f} s, with status {process.wait()}")
        if not line or any(fault in line for fault in FAULTS):
            process.kill()
            process.wait()
            process = None
    if process is not None:
        process.kill()
        process.wait()


def _answer(process: subprocess.Popen[str], name: str) -> str:
    """What a process says of a check; nothing if it ends before."""
    assert process.stdin is not None and process.stdout is not None
    try:
        print(name, file=process.stdin, flush=True)
    except BrokenPipeError:
        return ""
    for line in process.stdout:
        if line.partition(" ")[0] in ("ok", "FAIL", "skip") and line.partition(" ")[2].startswith(f"{name}:"):
            return line.rstrip()
    return ""


if __name__ == "__main__":
    sys.exit(main())
