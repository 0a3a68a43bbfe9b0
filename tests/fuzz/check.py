"""One check: an oracle on one form of a function, with some tuned numbers changed. What printed tests call.

Knows the oracles by name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functad import machine_model

from .forms import Trial
from .oracles import ORACLES, Skipped


@dataclass(frozen=True, eq=False)
class GivenProgram:
    """A function of arrays with arguments, in the place of a random one."""

    fun: Callable[..., list[Any]]
    args: Sequence[np.ndarray]
    traits: frozenset[str] = frozenset()

    def __call__(self, *args: Any) -> list[Any]:
        return self.fun(*args)


@dataclass(frozen=True)
class Setting:
    """How a program is looked at: by which oracle, in which form, with which numbers instead of tuned ones."""

    oracle: str
    form: str = "itself"
    seed: int = 0
    thresholds: Mapping[str, Any] = field(default_factory=dict)

    def verdict(self, program: Any, trial: Trial | None = None) -> str | None:
        """What the oracle says; an error of any kind is a mismatch.

        trial: of the program in this form, if there is one.

        Raises:
            Skipped: it has nothing to say.
        """
        try:
            with changed(self.thresholds):
                trial = trial or Trial(program, self.form, self.seed)
                return ORACLES[self.oracle](trial, random.Random(self.seed))
        except Skipped:
            raise
        except Exception as error:
            return complaint(error)


def complaint(error: Exception) -> str:
    """An error as a verdict."""
    return f"asserts {error}" if isinstance(error, AssertionError) else f"raises {type(error).__name__}: {error}"


def check(fun: Callable[..., list[Any]], args: Sequence[np.ndarray], oracle: str, **setting: Any) -> None:
    """Raise AssertionError where an oracle finds a mismatch in a function that returns a list of arrays.

    setting: the other fields of `Setting`.
    """
    try:
        found = Setting(oracle, **setting).verdict(GivenProgram(fun, args))
    except Skipped as why:
        raise AssertionError(f"the oracle {oracle!r} has nothing to say: {why}") from why
    assert found is None, f"{oracle}: {found}"


@contextmanager
def changed(numbers: Mapping[str, Any]) -> Iterator[None]:
    """Numbers of `functad.machine_model` are others meanwhile."""
    before = {name: getattr(machine_model, name) for name in numbers}
    try:
        vars(machine_model).update(numbers)
        yield
    finally:
        vars(machine_model).update(before)
