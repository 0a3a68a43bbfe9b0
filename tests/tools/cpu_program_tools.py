"""Whole programs through the CPU compiler as plain Python: their chunks in any order, their memory filled with noise.

Knows the parts of the backend; no program.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fuzz.kernels import run_kernels
from primitive_check_tools import to_array

from functad import interpreter
from functad.backends.cpu.lowering import CpuLowering
from functad.evaluation import aval_of
from functad.ir import Program
from functad.optimize.pipeline import simplify
from functad.tracing import trace_to_program


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


def check_plain(
    program: Program,
    args: Sequence[np.ndarray],
    donated: Sequence[bool],
    seed: int = 0,
    lowered: CpuLowering | None = None,
) -> CpuLowering:
    """Run the kernels as plain Python, the chunks of each block in a random order; nothing else may be written to."""
    expected = [np.array(x) for x in interpreter.compile_program(program)([a.copy() for a in args])]
    results, lowered = run_kernels(program, args, donated, random.Random(seed), lowered)
    for k, (wanted, got) in enumerate(zip(expected, results, strict=True)):
        compare(wanted, got, f"seed {seed}, result {k}")
    return lowered
