"""Oracles of many programs: as one piece of machine code, on one thread and two; compiled by several threads at once.

Knows how Programs are put together and run; nothing of how they were made.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

import functad
from functad.backends.cpu.lowering import CpuLowering
from functad.ir import Program
from functad.optimize.pipeline import simplify

from .forms import Trial, traced
from .kernels import OpenExecutable
from .rounding import is_plain_arithmetic, same_bits

Results = list[np.ndarray]


def compiled(trials: Sequence[Trial], choose: random.Random) -> str | None:
    """As one piece of machine code, they give what each gives un-jitted; twice, on two threads, to the bit."""
    program = simplify(together([t.traced for t in trials]))
    args = [a for t in trials for a in t.args]
    donated = [choose.random() < 0.3 for _ in args] if choose.random() < 0.5 else []
    run = OpenExecutable(program, donated)

    def results(threads: int) -> Results:
        with functad.config.context(num_threads=threads):
            return [np.array(x) for x in run([np.array(a, order="C") for a in args])]

    first = results(1)
    given = [np.array(a, order="C") for a in args]
    if not donated:
        run(given)
        for k, (now, before) in enumerate(zip(given, args)):
            if now.tobytes() != np.array(before, order="C").tobytes():
                return f"asserts argument {k} was written to"
    found = iter(first)
    for trial in trials:
        mine = [next(found) for _ in trial.expected.results]
        wrong = trial.expected.mismatch(mine)
        if wrong:
            return wrong
        if is_plain_arithmetic(trial.traced):
            for k, (wanted, got) in enumerate(zip(trial.expected.results, mine)):
                if not same_bits(wanted, got):
                    return (
                        f"result {k} of plain arithmetic differs in some bit: {got.ravel()[:5]}, {wanted.ravel()[:5]}"
                    )
    for threads in (1, 2):
        for k, (a, b) in enumerate(zip(first, results(threads))):
            if not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
                return f"result {k} of another call, on {threads} threads, is other: {b.ravel()[:3]}, {a.ravel()[:3]}"
    return None


def at_once(trials: Sequence[Trial], choose: random.Random) -> str | None:
    """Traced and lowered by four threads at the same time, each gives the kernels that it gives alone."""

    def kernels(trial: Trial) -> str:
        return CpuLowering(simplify(traced(trial.fun, trial.args))).generated.source

    alone = [kernels(t) for t in trials]
    with switching_often(), ThreadPoolExecutor(4) as pool:
        for trial, source, expected in zip(trials, pool.map(kernels, trials), alone):
            if source != expected:
                return f"{trial.program} has other kernels if several threads compile at once"
    return None


def compiled_at_once(trials: Sequence[Trial], choose: random.Random) -> str | None:
    """Traced, lowered and compiled by several threads at the same time, each gives what it gives un-jitted."""

    def results(trial: Trial) -> Results:
        program = simplify(traced(trial.fun, trial.args))
        run = OpenExecutable(program, ())
        return [np.array(x) for x in run([np.array(a, order="C") for a in trial.args])]

    expected = [trial.expected for trial in trials]  # by one thread
    twice = [*trials, *trials]  # two threads want the same kernels
    choose.shuffle(twice)
    with switching_often(), ThreadPoolExecutor(4) as pool:
        for trial, found in zip(twice, pool.map(results, twice)):
            wrong = expected[trials.index(trial)].mismatch(found)
            if wrong:
                return f"{wrong} if several threads compile at once"
    return None


ORACLES: dict[str, Callable[[Sequence[Trial], random.Random], str | None]] = {
    "compiled": compiled,
    "at once": at_once,
    "compiled at once": compiled_at_once,
}


def together(programs: Sequence[Program]) -> Program:
    """One Program that computes what several do, each of its own operands."""
    return Program(
        [v for p in programs for v in p.invars],
        [v for p in programs for v in p.constvars],
        [c for p in programs for c in p.consts],
        [e for p in programs for e in p.eqns],
        [v for p in programs for v in p.outvars],
    )


@contextmanager
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
