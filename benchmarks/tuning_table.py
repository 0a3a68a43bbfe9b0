"""The programs of `tuning_cases/` with a tuned number as it is, halved and doubled: what differs, and times.

Knows how a program is made with another value of a number, from nothing that another value has left, and how it is
timed. `python -m benchmarks tuning` prints and keeps the table.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import functad
import functad.numpy as jnp
from benchmarks.tuning_cases import APART, AVX512, CASES, COMPILED, JITTED, OTHER_VALUES, Case
from functad import config, execution, machine_model
from functad.backends.cpu import kept_plans
from functad.backends.cpu.compile import objects
from functad.backends.cpu.compile.processor import processor
from functad.backends.cpu.runtime.linking import with_addresses
from functad.calls.common import closed
from functad.system.once import imported

ROUNDS = 12
_DTYPES = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "i32": "int32",
    "u32": "uint32",
}
_ARGUMENT = re.compile(r"(\w+)\[([\d,]*)\](?:<(\d+))?")


class Row(NamedTuple):
    """What a program takes with a number as it is, and with other values that change the program.

    microseconds: the least of several, by values, the usual one first. way: what is timed.
    """

    number: str
    program: str
    way: str
    microseconds: dict[str, float]


def others(value: Any) -> tuple[Any, ...]:
    """Half of a number and twice as much; of an integer no less than 1. Several numbers have no such.

    Of a factor that is a little more than 1, so much of what it is more.

    >>> others(8), others(1), others(1.5)
    ((4, 16), (2,), (1.25, 2.0))
    """
    if not isinstance(value, (int, float)):
        return ()
    if 1 < value < 2:
        return (1 + value) / 2, 2 * value - 1
    halved = max(1, value // 2) if isinstance(value, int) else value / 2
    return tuple(v for v in (halved, 2 * value) if v != value)


def values_of(number: str) -> tuple[Any, ...]:
    """What to try instead of a number."""
    return OTHER_VALUES.get(number) or others(getattr(machine_model, number))


def rows(numbers: Sequence[str], seconds: float) -> Iterator[Row]:
    """A row for each number and each of its programs that this processor has what it takes for."""
    for case in CASES if "+avx512f" not in processor()[1].split(",") else [*CASES, *AVX512]:
        for number in case.numbers.split():
            if number in numbers:
                yield measured(case, number, seconds)


def measured(case: Case, number: str, seconds: float) -> Row:
    """A program with each value of a number that changes it, in turn."""
    usual = getattr(machine_model, number)
    values = [usual, *values_of(number)]
    if case.way == APART:
        times = dict.fromkeys(values, math.inf)
        for value in (*values, *values):
            times[value] = min(times[value], _in_another_process(case, number, value, seconds))
    else:
        times = _in_turn(case, number, [usual, *changing(case, number)], seconds)
    return Row(number, case.title, case.way, {str(v): round(1e6 * t, 3) for v, t in times.items()})


# --- what differs -----------------------------------------------------------------------------------------------


def changing(case: Case, number: str) -> Iterator[Any]:
    """The other values of a number with which a program is made, or runs, otherwise. Of one that runs apart all."""
    if case.way == APART:
        yield from values_of(number)
        return
    values = arrays(case)
    usual = outcome(case, values)
    for value in values_of(number):
        with patch.object(machine_model, number, value):
            changed = outcome(case, values) != usual
        if changed:
            yield value


def outcome(case: Case, values: Sequence[Any]) -> object:
    """What is made of a program: its plan, what products it calls and its machine code; else what Python calls."""
    if case.way == JITTED:
        lowering = _lowered(case, values)
        plan = lowering.assembled().plan
        entries = with_addresses(plan.entries, defaultdict(int))
        products = [[*i.params] for block in entries for i in getattr(block, "instructions", ())]
        constants = [(v.shape, v.tobytes()) for _, v in plan.constants if v.nbytes < machine_model.SECOND_CACHE]
        made = repr(
            (entries, products, plan.arena, plan.arena_bytes, plan.slots, constants, sorted(plan.kernels.items()))
        )
        return (made, _instructions(lowering)) if case.in_code else made
    if case.way == COMPILED:
        lowering = _lowered(case, values)
        intervals: list[float] = []
        with patch.object(sys, "setswitchinterval", intervals.append):
            return called(lambda: _compiled(lowering)), {*intervals}
    return called(lambda: case.function(*values))


def _instructions(lowering: Any) -> list[str]:
    return [line.text for lines in lowering.machine_code().assembly.values() for line in lines]


def called(run: Callable[[], object]) -> Counter[str]:
    """The functions that Python calls, and how often, when everything has been looked up before."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, given: Any) -> None:
        if event == "call":
            found[f"{frame.f_code.co_filename}:{frame.f_code.co_firstlineno}"] += 1
        elif event == "c_call":
            found[getattr(given, "__qualname__", type(given).__name__)] += 1

    run()
    run()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


# --- how it is made -----------------------------------------------------------------------------------------------


def arrays(case: Case) -> list[Any]:
    """The arguments of a program."""
    generator = np.random.default_rng(0)
    made = []
    for kind, sizes, limit in _ARGUMENT.findall(case.arguments):
        shape = tuple(map(int, sizes.split(","))) if sizes else ()
        numbers = generator.integers(0, int(limit or 1000), shape) if kind[0] in "iu" else generator.normal(size=shape)
        made.append(np.asarray(numbers, _DTYPES[kind]))
    return made if case.way in (JITTED, COMPILED, APART) else [jnp.asarray(a) for a in made]


def _program(case: Case, values: Sequence[Any]) -> Any:
    return closed(functad.make_jaxpr(lambda *a: case.function(*a))(*values))


def _lowered(case: Case, values: Sequence[Any]) -> Any:
    return execution.lowered(_program(case, values))


def _compiled(lowering: Any) -> object:
    machine = imported("functad.backends.cpu.compile.machine")
    return machine.compile_kernels(lowering.generated.source, "kernels.py", lowering.generated.signatures)


@contextlib.contextmanager
def with_value(number: str, value: Any) -> Iterator[None]:
    """A context in which a number has another value, and all machine code is made, or found, for just that."""
    key = objects.compilation_key
    with (
        patch.object(machine_model, number, value),
        patch.object(kept_plans, "plan_key", lambda *_: None),  # a plan is found without asking for the numbers
        patch.object(objects, "compilation_key", lambda *parts: key(*parts, f"{number} {value}")),
    ):
        yield


# --- how it is timed ----------------------------------------------------------------------------------------------


def _in_turn(case: Case, number: str, tried: Sequence[Any], seconds: float) -> dict[Any, float]:
    """The least seconds of processor time, on one thread, of a program with each value; of compiling, by the clock."""
    values = arrays(case)
    clock = time.perf_counter if case.way == COMPILED else time.thread_time
    rounds, least = 5 if case.way == COMPILED else ROUNDS, dict.fromkeys(tried, math.inf)
    with config.context(num_threads=1):
        runs, counts = {}, {}
        for value in tried:
            with with_value(number, value):
                run = runs[value] = _prepared(case, values)
                run()
                started = time.perf_counter()
                run()
                counts[value] = max(1, int(seconds / rounds / len(tried) / max(time.perf_counter() - started, 1e-7)))
        for _ in range(rounds):
            for value, run in runs.items():
                with with_value(number, value):
                    started = clock()
                    for _ in range(counts[value]):
                        run()
                    least[value] = min(least[value], (clock() - started) / counts[value])
    return least


def _prepared(case: Case, values: Sequence[Any]) -> Callable[[], object]:
    if case.way == COMPILED:
        lowering = _lowered(case, values)
        return lambda: _compiled(lowering)
    if case.way in (JITTED, APART):
        executable = execution.executable(_program(case, values))
        return lambda: executable(values)
    return lambda: case.function(*values)


def _in_another_process(case: Case, number: str, value: Any, seconds: float) -> float:
    """The least seconds of processor time in a process in which the number has never been another one."""
    text = (
        f"from functad import machine_model; machine_model.{number} = {value!r}\n"
        f"from benchmarks.tuning_table import alone; alone({case.title!r}, {seconds!r})"
    )
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "FUNCTAD_CACHE_DIR": folder,
            **dict(part.split("=") for part in case.environment.split()),
        }
        command = [sys.executable, "-c", text]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return float(done.stdout)


def alone(title: str, seconds: float) -> None:
    """Print the least seconds of a program that runs apart."""
    case = next(c for c in [*CASES, *AVX512] if c.title == title and c.way == APART)
    with config.context(num_threads=1):
        run, least = _prepared(case, arrays(case)), math.inf
        run()
        end = time.perf_counter() + seconds
        while least == math.inf or time.perf_counter() < end:
            started = time.thread_time()
            run()
            least = min(least, time.thread_time() - started)
    print(least)
