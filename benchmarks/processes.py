"""Worker processes, one a framework, and the rounds in which they compete one at a time.

Knows how to start and ask them; what they do is in `worker`.
"""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.agreement import disagreement
from benchmarks.frameworks import absent
from benchmarks.measure import Timing, summary
from benchmarks.task import Outcome

ROOT = Path(__file__).parent.parent
# Long enough for every pool of threads to stop spinning before another framework's burst.
PAUSE = 0.05


class WorkerError(Exception):
    """A worker could not do what it was asked; the message is the framework's own."""


class Worker:
    """A process that holds one framework and one workload."""

    def __init__(self, framework: str, workload: str, threads: int, environment: Mapping[str, str] | None = None):
        self.framework = framework
        # Warnings and logs of the frameworks; shown only where a process ends without an answer.
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", framework, workload, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=ROOT,
            env=worker_environment(threads) | dict(environment or {}),
        )

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """The answer to one request; raises WorkerError if there is none."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            pickle.dump({"do": do, **request}, self._process.stdin)
            self._process.stdin.flush()
            answer = pickle.load(self._process.stdout)
        except (BrokenPipeError, EOFError) as problem:
            code = self._process.wait()
            self._log.seek(0)
            last = self._log.read().decode(errors="replace").strip().splitlines()[-1:]
            raise WorkerError(" ".join([f"its process ended with code {code}", *last])) from problem
        if "error" in answer:
            if self.framework == "functad":  # a peer's failure is a line in the table, functad's is to be mended
                print(answer["traceback"], file=sys.stderr)
            raise WorkerError(answer["error"].splitlines()[0])
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdout.close()
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            self._process.kill()
        self._process.wait()
        self._log.close()


@contextmanager
def worker(*arguments: Any, **options: Any) -> Iterator[Worker]:
    """A worker that ends with the block."""
    started = Worker(*arguments, **options)
    try:
        yield started
    finally:
        started.close()


def worker_environment(threads: int) -> dict[str, str]:
    """The variables of this process, with the number of threads for every library that asks for one.

    Python keeps the bytecode of what it imports, as it does for users.
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "FUNCTAD_NUM_THREADS")
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **dict.fromkeys(names, str(threads)), "JAX_PLATFORMS": "cpu", "PYTHONPATH": path}


class Contest(NamedTuple):
    """What one workload gave.

    Attributes:
        timings: framework → seconds a step: over the rounds, of the median of each burst.
        least: framework → the shortest seconds a step of any 10 ms.
        ratio: functad's time over that of the fastest peer, round by round; None where no peer ran.
        fastest: that peer.
        agreement: framework → the largest relative difference to functad's results.
        failures: framework → why it has no timing.
        versions: framework → its version.
    """

    timings: dict[str, Timing]
    least: dict[str, float]
    ratio: Timing | None
    fastest: str | None
    agreement: dict[str, float]
    failures: dict[str, str]
    versions: dict[str, str]


def compete(
    workload: str, frameworks: list[str], *, rounds: int, seconds: float, threads: int, tolerance: float = 1e-4
) -> Contest:
    """Check that all frameworks compute the same, then time them in turn, round after round.

    Args:
        workload: its name.
        frameworks: which take part; `functad` must be the first.
        rounds: how many bursts each framework runs.
        seconds: how long a burst lasts.
        threads: how many threads each framework may use.
        tolerance: how far results may differ, over the largest value of each array.
    """
    (contest,) = compete_all([Match(workload, tolerance)], frameworks, Rules(rounds, seconds, threads))
    return contest


class Match(NamedTuple):
    """What a contest is about.

    Attributes:
        workload: its name.
        tolerance: how far results may differ from those of the first framework, over the largest value of each array.
        untimed: frameworks that others are compared with only.
    """

    workload: str
    tolerance: float = 1e-4
    untimed: tuple[str, ...] = ()


class Rules(NamedTuple):
    """How a contest is held.

    Attributes:
        rounds: how many bursts each framework runs.
        seconds: how long a burst lasts.
        threads: how many threads each framework may use.
        hopeless: who takes so many times as long as the fastest in the first round is not timed again.
    """

    rounds: int
    seconds: float
    threads: int
    hopeless: float = math.inf


def compete_all(matches: Sequence[Match], frameworks: list[str], rules: Rules) -> Iterator[Contest]:
    """One contest for each match, in the same process of each framework, one after another."""
    with ExitStack() as stack:
        workers, absences = enter(stack, frameworks, matches[0].workload, rules.threads)
        for match in matches:
            yield timed(compared(match, workers, absences), rules)


def enter(
    stack: ExitStack, frameworks: list[str], workload: str, threads: int
) -> tuple[dict[str, Worker], dict[str, str]]:
    """A worker, until the stack is closed, for each framework that is here; and why others are not."""
    reasons = {name: absent(name) for name in frameworks}
    here = [name for name, reason in reasons.items() if reason is None]
    workers = {name: stack.enter_context(worker(name, workload, threads)) for name in here}
    return workers, {name: reason for name, reason in reasons.items() if reason is not None}


class Agreed(NamedTuple):
    """The workers whose results agree, and what is known of all."""

    workers: dict[str, Worker]
    agreement: dict[str, float]
    failures: dict[str, str]
    versions: dict[str, str]


def compared(match: Match, workers: Mapping[str, Worker], absences: Mapping[str, str]) -> Agreed:
    """Who of the workers computes what the first one does; and why others do not take part."""
    found = Agreed({}, {}, dict(absences), {})
    reference: Outcome | None = None
    for name, contender in workers.items():
        try:
            found.versions[name] = contender.ask("load", workload=match.workload)["version"]
            outcome = Outcome(**contender.ask("outcome"))
        except WorkerError as problem:
            found.failures[name] = str(problem)
            continue
        if reference is None:
            reference = outcome
        else:
            difference, where = disagreement(reference, outcome)
            found.agreement[name] = difference
            if not difference <= match.tolerance:
                found.failures[name] = (
                    f"computes something else: {where} differs by {difference:.2g} of its largest value"
                )
                continue
        if name not in match.untimed:
            found.workers[name] = contender
    return found


def timed(agreed: Agreed, rules: Rules) -> Contest:
    """Time those who agree in turn, round after round."""
    workers = agreed.workers
    samples: dict[str, list[float]] = {name: [] for name in workers}
    least: dict[str, float] = {}
    for i in range(rules.rounds):
        order = list(workers)
        for name in order[i % len(order) :] + order[: i % len(order)] if order else []:
            time.sleep(PAUSE)
            answer = workers[name].ask("burst", seconds=rules.seconds)
            samples[name].append(answer["median"])
            least[name] = min(answer["least"], least.get(name, answer["least"]))
        limit = rules.hopeless * min(least.values(), default=0)
        workers = {name: contender for name, contender in workers.items() if least[name] <= limit}
    timings = {name: summary(s) for name, s in samples.items()}
    peers = {name: t.median for name, t in timings.items() if name != "functad"}
    fastest = min(peers, key=peers.__getitem__) if peers else None
    ratio = None
    if fastest is not None and "functad" in samples:
        # Where one of them was given up after the first round, the others are left out.
        ratio = summary([own / peer for own, peer in zip(samples["functad"], samples[fastest])])
    return Contest(timings, least, ratio, fastest, agreed.agreement, agreed.failures, agreed.versions)
