"""Watching how a Program comes about: an observer of this thread is told of each step, from the trace to the kernels.

Knows Programs; not what the steps are, nor what an observer makes of them. Without an observer nothing is told.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from functad.ir import Eqn, Program, Var


class Observer:
    """What is told; all methods do nothing here, so that a subclass needs only those that it wants.

    stages_calls: whether a function is traced to be shown, of which only the derivative rule would run.
    """

    stages_calls = False

    def traced(self, program: Program, variables: Mapping[int, Var]) -> None:
        """A trace became a Program, of which each tracer, by its identity, became a variable."""

    def batched(self, trace: Any, ops: Sequence[Any], inputs: Sequence[Any], outs: Sequence[Any]) -> None:
        """A recording for one example is about to run for all of them."""

    def linearized(self, ops: Sequence[Any], inputs: Sequence[Any], outs: Sequence[Any], linear: Any) -> None:
        """A recording, from inputs to outs, was made the linear map of its tangents."""

    def tangent(self, primal: Any, tangent: Any) -> None:
        """A tracer of a recording has that tangent, a tracer of the linear map."""

    def arrived(self, tangents: Sequence[Any], cotangent: Any) -> None:
        """Going back over a linear map, the cotangent of one of its tracers is complete."""

    def transposed(self, linear: Any) -> None:
        """All cotangents of a linear map are there."""

    def passed(self, name: str, reason: str, before: Program, after: Program) -> None:
        """A pass of the optimiser has run."""

    def rewrote(self, rule: Any, eqn: Eqn, made: Any) -> None:
        """A rule of the optimiser has made an atom, or equations, of one equation."""


class _Watching(threading.local):
    observer: Observer | None = None


watching = _Watching()


@contextmanager
def observed(observer: Observer | None) -> Iterator[None]:
    """Tell an observer, and no other, what happens in this thread; None: tell nobody.

    >>> import functad
    >>> class Names(Observer):
    ...     def passed(self, name, reason, before, after):
    ...         if after is not before:
    ...             print(f"{name}: {len(before.eqns)} to {len(after.eqns)} equations")
    >>> with observed(Names()):
    ...     _ = functad.jit(lambda x: (x + x) * (x + x) * 1.).lower(2.).optimized
    simplify_numbers: 4 to 3 equations
    share_common_subexpressions: 3 to 2 equations
    """
    before, watching.observer = watching.observer, observer
    try:
        yield
    finally:
        watching.observer = before
