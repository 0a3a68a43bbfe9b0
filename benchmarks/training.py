"""Training as a user starts it: the whole process from start to end, the epochs alone, and the memory it takes.

Knows the command lines. What the peers run is in `training_peers`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import NamedTuple

from benchmarks.frameworks import absent
from benchmarks.measure import Timing, summary
from benchmarks.processes import ROOT, worker_environment
from benchmarks.record import Options, Section, compared


class Job(NamedTuple):
    """A network to train.

    Attributes:
        title: what it is called in tables.
        own: the command line of functad, without the flags that all share.
        peer: its name in `training_peers`.
        flags: of both, without the number of epochs.
        epochs: how many.
        peers: the frameworks that have a program for it.
        result: the metric at the end of a row.
    """

    title: str
    own: list[str]
    peer: str
    flags: list[str]
    epochs: int
    peers: tuple[str, ...]
    result: str


_W1 = ["functad", "train", "cnn", "--optimizer", "sgd", "--schedule", "constant"]
_LANGUAGE = ["functad", "train", "language", "--sample", "0", "--net"]
JOBS = {
    "train": Job("W1", _W1, "cnn", ["--batch", "100", "--lr", "0.015"], 3, ("torch", "jax"), "test accuracy"),
    "text": Job(
        "W3, text CNN on IMDB",
        ["functad", "train", "text", "--preset", "published"],
        "text",
        ["--batch", "64", "--lr", "0.001"],
        5,
        ("torch",),
        "test accuracy",
    ),
    "language-lstm": Job(
        "LSTM on Shakespeare",
        [*_LANGUAGE, "lstm"],
        "lstm",
        ["--batch", "64", "--lr", "0.004", "--length", "64"],
        5,
        ("torch",),
        "test loss",
    ),
    "language-transformer": Job(
        "transformer on Shakespeare",
        [*_LANGUAGE, "transformer"],
        "transformer",
        ["--batch", "64", "--lr", "0.002", "--length", "64"],
        5,
        ("torch",),
        "test loss",
    ),
}
_REPEATS = 3
_ROW = re.compile(r"^ +\d+ +([\d.]+) s .* ([\d.]+)$", re.MULTILINE)
_PEAK = re.compile(r"^peak memory: (\d+)$", re.MULTILINE)
_SAME = 1e-4


class Outcome(NamedTuple):
    """What one run gave: seconds from start to end, of each epoch alone, the greatest resident size, the metric."""

    process: float
    epochs: list[float]
    memory: int
    results: list[str]


class TrainingError(Exception):
    """A run that ended with an error; the message is its last line."""


def measure(name: str, options: Options) -> list[Section]:
    """Three tables of a job, in seconds, seconds and MB; the caches are warm."""
    job, failures = JOBS[name], {}
    runs: dict[str, list[Outcome]] = {}
    competing = [f for f in ("functad", *job.peers) if f in options.frameworks]
    for framework in list(competing):
        reason = absent(framework) or _difference(framework, job, options)
        if reason is not None:
            failures[framework] = reason
            competing.remove(framework)
    for i in range(min(_REPEATS, options.rounds) + 1):  # the first fills the caches
        for framework in competing:
            if framework in failures:
                continue
            try:
                outcome = _run(framework, job, options)
            except TrainingError as problem:
                failures[framework] = str(problem)
                continue
            if i:
                runs.setdefault(framework, []).append(outcome)
    return _sections(name, job, job.epochs if options.epochs is None else options.epochs, runs, failures)


def _sections(
    name: str, job: Job, epochs: int, runs: dict[str, list[Outcome]], failures: dict[str, str]
) -> list[Section]:
    runs = {framework: outcomes for framework, outcomes in runs.items() if framework not in failures}
    notes = [f"{f}: {job.result} {' / '.join(outcomes[-1].results)}" for f, outcomes in runs.items()]
    tables: tuple[tuple[str, str, str, dict[str, Timing]], ...] = (
        ("", "from start to end of the process", "s", {f: summary([o.process for o in r]) for f, r in runs.items()}),
        ("-epochs", "training alone", "s", {f: summary([sum(o.epochs) for o in r]) for f, r in runs.items()}),
        (
            "-memory",
            "peak memory of the process",
            "MB",
            {f: summary([o.memory / 1e6 for o in r]) for f, r in runs.items()},
        ),
    )
    first, *others = [
        compared(Section(f"{name}{suffix}", f"{job.title}, {epochs} epochs {what}", unit, figures))
        for suffix, what, unit, figures in tables
    ]
    return [first._replace(failures=failures, notes=notes), *others]


def command(framework: str, job: Job, epochs: int | None = None) -> list[str]:
    """What is run: a module and its arguments."""
    flags = [*job.flags, "--epochs", str(job.epochs if epochs is None else epochs)]
    if framework == "functad":
        return [*job.own, *flags]
    return ["benchmarks.training_peers", framework, job.peer, *flags]


def _run(framework: str, job: Job, options: Options) -> Outcome:
    started = time.perf_counter()
    process = _started(["benchmarks.started", *command(framework, job, options.epochs)], options)
    seconds = time.perf_counter() - started
    peak = _PEAK.search(process.stderr)
    rows = _ROW.findall(process.stdout)
    return Outcome(seconds, [float(s) for s, _ in rows], int(peak[1]) if peak else 0, [result for _, result in rows])


def _difference(framework: str, job: Job, options: Options) -> str | None:
    """Why a peer's network is not functad's, or None where it is."""
    if framework == "functad" or job.peer == "cnn":  # that of W1 is compared as a workload
        return None
    try:
        answer = _started(["benchmarks.training_peers", framework, job.peer, "--check"], options).stdout
    except TrainingError as problem:
        return str(problem)
    found = float(answer)
    return None if found <= _SAME else f"computes something else: scores differ by {found:.2g} of the largest"


def _started(words: list[str], options: Options) -> subprocess.CompletedProcess[str]:
    process = subprocess.run(
        [sys.executable, "-m", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=worker_environment(options.threads),
    )
    if process.returncode:
        raise TrainingError(_PEAK.sub("", process.stderr).strip().splitlines()[-1])
    return process
