"""Tries programs by their numbers, in groups that are compiled together, and keeps count.

Knows generator, oracles and reducer; nothing of the command line.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from functad.errors import FunctadError

from . import machine
from .check import Setting, changed, complaint
from .control import CONTROL
from .forms import Trial, forms_of
from .functions import FUNCTIONS
from .generator import random_program
from .operations import OPERATIONS, constant
from .oracles import Skipped
from .program import RandomProgram
from .records import from_record
from .reducer import as_test, reduced
from .thresholds import drawn

GROUP = 16  # programs that share thresholds, and are compiled as one
STRAIGHT = [*[from_record] * 30, *[constant] * 6, *OPERATIONS, *FUNCTIONS * 2]
STEPS = [*STRAIGHT, *CONTROL * 2]
ALWAYS = ("eager", "passes")
DERIVED = ("loop", "reverse", "differences")  # one of them; differences need float64
KERNELS_SHARE = 0.4  # of the programs; their kernels as plain Python take the longest
TOGETHER = {"compiled": 0.08, "at once": 0.1, "compiled at once": 0.02}  # of the groups; the last compiles the most


@dataclass
class Failure:
    """A program that two ways compute differently, and where. label: "seed/number"."""

    label: str
    oracle: str
    what: str
    test: str = ""

    def __str__(self) -> str:
        seed, _, number = self.label.rpartition("/")
        again = f"again: python -m tests.fuzz --seed {seed} --program {number}"
        return f"program {self.label}, oracle {self.oracle!r}: {self.what}\n{again}\n\n{self.test}"


@dataclass
class Report:
    """What was tried: programs, comparisons by oracle, what oracles had nothing to say to, and what went wrong."""

    programs: int = 0
    compared: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    covered: Counter[tuple[str, str]] = field(default_factory=Counter)  # primitive and dtype
    seconds: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, other: Report) -> None:
        self.programs += other.programs
        for name in ("compared", "skipped", "covered", "seconds"):
            getattr(self, name).update(getattr(other, name))
        self.failures += other.failures

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds[what] += time.process_time() - start


def some_program(label: str) -> RandomProgram:
    """A random program without loops and branches, for tests of single passes."""
    return random_program(label, STRAIGHT)


def try_group(seed: int | str, number: int, only: str | None = None, reduce_for: float = 60.0) -> Report:
    """The programs of one group: `number` is that of its first program divided by `GROUP`.

    only: the one oracle to ask. reduce_for: seconds to make a failure small.
    """
    report = Report()
    choose = random.Random(f"{seed}/group {number}")
    thresholds = drawn(choose)
    wanted = [name for name, share in TOGETHER.items() if choose.random() < share] if only is None else [only]
    trials = []
    for k in range(number * GROUP, (number + 1) * GROUP):
        trial = try_program(report, seed, k, thresholds, only, reduce_for)
        if trial is not None:
            trials.append(trial)
    for name in TOGETHER:
        if name in wanted and trials:
            with report.timed(name):
                _try_together(report, name, trials, thresholds, reduce_for)
    return report


def try_program(
    report: Report, seed: int | str, number: int, thresholds: dict[str, Any], only: str | None, reduce_for: float
) -> Trial | None:
    """One program through the oracles that its number chooses; gives it if it may be compiled with others."""
    label = f"{seed}/{number}"
    report.programs += 1
    try:
        with report.timed("making programs"):
            program = random_program(label, STEPS)
            choose = random.Random(f"{label}/form")
            form = choose.choice(forms_of(program))
    except Exception as error:  # a step, or tracing, raised what no user should see
        report.failures.append(Failure(label, "making programs", complaint(error)))
        return None
    trial = Trial(program, form, number)
    wide = all(a.dtype == np.float64 for a in program.args if a.dtype.kind == "f")
    derived = choose.choice(DERIVED if wide else DERIVED[:2])
    oracles = [*ALWAYS, *(["kernels"] if choose.random() < KERNELS_SHARE else []), derived]
    sound = True
    for oracle in oracles if only is None else [only] if only not in TOGETHER else []:
        setting = Setting(oracle, form, number, thresholds)
        try:
            with report.timed(oracle):
                found = setting.verdict(program, trial)
        except Skipped as why:
            report.skipped[f"{oracle}: {why}"] += 1
            sound = sound and oracle in DERIVED
            continue
        report.compared[oracle] += 1
        if found:
            sound = False
            report.failures.append(failure(program, setting, found, reduce_for))
    if sound:
        try:
            eqns = trial.traced.eqns
        except FunctadError as why:  # `eager` says whether that is right
            report.skipped[f"tracing: {type(why).__name__}"] += 1
            return None
        except Exception as error:
            report.failures.append(Failure(label, "tracing", complaint(error)))
            return None
        for eqn in eqns:
            report.covered.update({(eqn.primitive.name, v.aval.dtype.name) for v in eqn.outvars})
    return trial if sound else None


# --- failures ------------------------------------------------------------------------------------------------


def failure(program: RandomProgram, setting: Setting, what: str, seconds: float) -> Failure:
    """A failure with a test: fewer thresholds, a simpler form, and the smallest program that fails alike."""

    def fails(candidate: Setting) -> bool:
        try:
            return candidate.verdict(program) is not None
        except Skipped:
            return False

    setting = _fewer_thresholds(setting, fails)
    for form in ("itself", "mapped", "forward", "gradient"):
        simpler = replace(setting, form=form)
        if form in forms_of(program) and fails(simpler):
            setting = simpler
            break
    small = reduced(program, setting.verdict, seconds)
    try:
        what = setting.verdict(small) or what
    except Skipped:
        pass
    return Failure(program.label, setting.oracle, what, as_test(small, setting))


def _fewer_thresholds(setting: Setting, fails: Callable[[Setting], bool]) -> Setting:
    if fails(none := replace(setting, thresholds={})):
        return none
    for name in list(setting.thresholds):
        fewer = replace(setting, thresholds={n: v for n, v in setting.thresholds.items() if n != name})
        if fails(fewer):
            setting = fewer
    return setting


def _try_together(
    report: Report, oracle: str, trials: Sequence[Trial], thresholds: dict[str, Any], reduce_for: float
) -> None:
    def said(some: Sequence[Trial]) -> str | None:
        try:
            with changed(thresholds):
                return machine.ORACLES[oracle](some, random.Random(trials[0].seed))
        except Exception as error:
            return complaint(error)

    report.compared[oracle] += len(trials)
    what = said(trials)
    if what is None:
        return
    few = _fewest(trials, lambda some: said(some) is not None)
    trial = few[0]
    setting = Setting(oracle, trial.form, trial.seed, thresholds)
    if len(few) == 1 and setting.verdict(trial.program):
        report.failures.append(failure(trial.program, setting, what, reduce_for))
        return
    sources = "\n".join(f"# {t.program.label}, {t.form}\n{t.program.function.source()}" for t in few)
    report.failures.append(Failure(trial.program.label, oracle, said(few) or what, sources))


def _fewest(trials: Sequence[Trial], fails: Callable[[Sequence[Trial]], bool]) -> Sequence[Trial]:
    """A part of the trials that still fails, of which no half does, and none with one less."""
    n = len(trials)
    parts = [trials[: n // 2], trials[n // 2 :]] if n > 1 else []
    parts += [[*trials[:k], *trials[k + 1 :]] for k in range(n)] if n > 2 else []
    for part in parts:
        if fails(part):
            return _fewest(part, fails)
    return trials
