"""Whole programs through the CPU compiler as plain Python: their chunks in any order, their memory filled with noise.

Knows the parts of the backend; no program.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from primitive_check_tools import to_array

from functad.backends import interpreter
from functad.backends.cpu.executable import Lowered
from functad.backends.cpu.plain import load_source, run_plain
from functad.ir import Program
from functad.lowering import plan
from functad.tracing import aval_of, trace_to_program
from functad.transforms.simplify import simplify


def program_of(fun: Callable[..., Any], args: Sequence[np.ndarray], a_pass: Any = simplify) -> Program:
    return a_pass(trace_to_program(lambda *xs: list(fun(*xs)), [aval_of(to_array(a)) for a in args]))


def compare(expected: Any, got: np.ndarray, label: str) -> None:
    expected = np.asarray(expected)
    assert got.shape == expected.shape and got.dtype == expected.dtype, f"{label}: {got.dtype}{got.shape}"
    if expected.dtype.kind in "biu":
        assert np.array_equal(got, expected), f"{label}: {got} instead of {expected}"
        return
    tolerance = {2: 4e-3, 4: 1e-4, 8: 1e-11}[expected.real.dtype.itemsize]
    with np.errstate(all="ignore"):
        scale = max(np.max(np.abs(expected[np.isfinite(expected)]), initial=0), 1e-2)
        wrong = ~np.isclose(got, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    assert not wrong.any(), f"{label}: {got[wrong][:5]} instead of {expected[wrong][:5]}"


def check_plain(program: Program, args: Sequence[np.ndarray], donated: Sequence[bool], seed: int = 0) -> Lowered:
    """Run the kernels as plain Python, the chunks of each block in a random order; nothing else may be written to."""
    expected = [np.array(x) for x in interpreter.compile_program(program)([a.copy() for a in args])]
    lowered = Lowered(program, donated)
    functions = load_source(lowered.generated.source, "random_program.py")
    outputs = lowered.schedule.outputs
    first = {b.storage: b for b in reversed(outputs) if b.storage.kind == "output"}
    storages = list(dict.fromkeys(b.storage for b in outputs if b.storage.kind == "output"))
    fresh = [np.frombuffer(b"Z" * first[s].nbytes, np.uint8).copy().view(first[s].dtype) for s in storages]
    given = [np.array(a, order="C") for a in args]
    order = random.Random(seed)

    def chunks(block: plan.Block) -> list[tuple[int, int]]:
        size = order.choice([1, 1, 2, 3])
        pieces = [(start, min(start + size, block.rows)) for start in range(0, block.rows, size)]
        order.shuffle(pieces)
        return pieces

    run_plain(
        lowered.schedule, lowered.blocks, lowered.memory_plan, functions, given,
        [x.reshape(first[s].shape) for x, s in zip(fresh, storages)], chunks,
    )  # fmt: skip
    memory = dict(zip(storages, fresh))
    for k, (buffer, wanted) in enumerate(zip(outputs, expected)):
        taken = buffer.storage.kind == "input"
        assert not taken or donated[buffer.storage.number], f"seed {seed}: result {k} lies in an input"
        got = given[buffer.storage.number] if taken else memory[buffer.storage]
        compare(wanted, got.reshape(buffer.shape), f"seed {seed}, result {k}")
    for k, (now, before) in enumerate(zip(given, args)):
        same = np.array_equal(now, before, equal_nan=before.dtype.kind in "fc")
        assert same or donated[k], f"seed {seed}: argument {k} was written to"
    return lowered
