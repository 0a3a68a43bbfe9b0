"""The command line: `python -m tests.fuzz --minutes 2 --seed 7`. Its exit status is 1 where something does not agree.

python -m tests.fuzz --seed 7 --program 1234     one program again, with the others of its group
NUMBA_ENABLE_CUDASIM=1 python -m tests.fuzz --only cuda     kernels for GPUs, in the simulator
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import multiprocessing
import platform
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib.metadata import version

from .oracles import ORACLES
from .patience import HANGS, guarded
from .session import GROUP, Report


def main() -> int:
    options = _options()
    versions = f"Python {platform.python_version()}, NumPy {version('numpy')}, Numba {version('numba')}"
    print(f"seed {options.seed}: --seed {options.seed} tries the same programs again ({versions})", flush=True)
    report, end = Report(), time.monotonic() + 60 * options.minutes
    first = 0 if options.program is None else options.program // GROUP
    limit = 1 if options.program is not None else -(-options.programs // GROUP) if options.programs else None
    numbers = itertools.count(first) if limit is None else range(first, first + limit)
    said = time.monotonic()
    for part in _reports(options, numbers):
        report.add(part)
        for failure in part.failures:
            print(f"\n=== {failure}", flush=True)
        if time.monotonic() > said + 30:
            said = time.monotonic()
            print(f"{report.programs} programs, {len(report.failures)} mismatches", flush=True)
        if limit is None and time.monotonic() > end:
            break
    print(summary(report))
    return 1 if report.failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("tests.fuzz", description="random programs, each computed in several ways")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long to go on")
    parser.add_argument("--programs", type=int, help="how many to try, however long it takes")
    today = int(datetime.date.today().strftime("%Y%m%d"))
    parser.add_argument("--seed", type=int, default=today, help="which programs; the day by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--patience", type=float, default=HANGS, help="seconds after which a group hangs")
    parser.add_argument("--only", choices=sorted(ORACLES), help="the one oracle to ask")
    parser.add_argument("--program", type=int, help="the number of one program to try again, with its group")
    return parser.parse_args()


def _reports(options: argparse.Namespace, numbers: Iterator[int] | range) -> Iterator[Report]:
    group = partial(guarded, options.seed, options.only, options.patience)
    if options.jobs == 1:
        yield from map(group, numbers)
        return
    rest, waiting = iter(numbers), set[Future[Report]]()
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        try:
            while (
                more := {pool.submit(group, n) for n in itertools.islice(rest, options.jobs - len(waiting))} | waiting
            ):
                done, waiting = wait(more, return_when=FIRST_COMPLETED)
                yield from [future.result() for future in done]
        except BrokenProcessPool:  # a process has said where it hangs, and ended
            sys.exit(1)


def summary(report: Report) -> str:
    """What was tried, as a table."""
    dtypes = {dtype for _, dtype in report.covered}
    primitives = {name for name, _ in report.covered}
    lines = [
        f"\n{report.programs} programs, {len(report.failures)} mismatches; "
        f"{len(primitives)} primitives × {len(dtypes)} dtypes in {len(report.covered)} of their combinations",
        f"\n{'oracle':<18}{'compared':>10}{'ms each':>10}",
    ]
    for name, seconds in report.seconds.most_common():
        times = report.compared[name] or report.programs
        lines.append(f"{name:<18}{report.compared[name]:>10}{1e3 * seconds / max(times, 1):>10.1f}")
    if report.skipped:
        lines.append("\nnothing to say: " + ", ".join(f"{why} {n}" for why, n in report.skipped.most_common()))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
