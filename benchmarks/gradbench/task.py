"""What the program of an eval's function consists of, and how it is run and timed.

Knows no eval and nothing of messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import functad


def plain(result: Any) -> Any:
    """The result with lists and numbers in place of arrays."""
    return functad.tree.map(lambda array: np.asarray(array).tolist(), result)


class Function(NamedTuple):
    """One function of an eval.

    Attributes:
        prepare: the input of a message → the arguments; not timed.
        compute: what is timed.
        output: its result → what JSON can write; not timed.
    """

    prepare: Callable[[dict[str, Any]], tuple[Any, ...]]
    compute: Callable[..., Any]
    output: Callable[[Any], Any] = plain


class Run(NamedTuple):
    """What a function gave, and how many nanoseconds its first call, which compiles, and the following ones took."""

    output: Any
    first: int
    calls: list[int]


def run(function: Function, given: Any) -> Run:
    """Call it once, then as often and as long as the input asks; every call is waited for."""
    arguments = function.prepare(given)
    least, seconds = (given.get("min_runs", 1), given.get("min_seconds", 0)) if isinstance(given, dict) else (1, 0)
    result, first = _timed(function.compute, arguments)
    calls: list[int] = []
    left = seconds * 1e9  # counted down, as by the other tools: a sum of all calls would fill the caches between them
    while len(calls) < least or left > 0:
        result, nanoseconds = _timed(function.compute, arguments)
        calls.append(nanoseconds)
        left -= nanoseconds
    return Run(function.output(result), first, calls)


def _timed(compute: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, int]:
    start = time.perf_counter_ns()
    result = functad.block_until_ready(compute(*arguments))
    return result, time.perf_counter_ns() - start
