"""What must agree: each oracle computes a program in two ways and says where they differ.

Knows every way to run a program; nothing of how it was made.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import functad
from functad.array import ArrayImpl
from functad.errors import (
    BatchingError,
    ConcretizationError,
    DifferentiationError,
    FunctadError,
    LeakedTracerError,
    NoRuleError,
    OutOfBoundsError,
)
from functad.ir import UNKNOWN, Program, check_program
from functad.lowering_rules import ControlFlow
from functad.optimize.pipeline import PASSES, inline_calls, on_one_device, simplify

from . import machine
from .beside_jax import jax_agrees
from .forms import Skipped, Trial, directions, expected_of, floats_of, forms_of, traced
from .generator import NARROW, WILD
from .kernels import run_kernels
from .on_cuda import cuda_agrees
from .program import RandomProgram
from .rounding import MANY, Expected, every_equation, expanded, interpreted

REFUSALS = (ConcretizationError, DifferentiationError, NoRuleError, BatchingError, OutOfBoundsError)
CHOOSING = frozenset(
    "max min clamp reduce_max reduce_min cummax cummin reduce_window_max reduce_window_min scatter-max scatter-min "
    "sort top_k select_and_gather_add select_and_scatter_add stop_gradient reduce_precision".split()
)
STEPS = frozenset(("sign", "floor", "ceil", "round"))  # functions that do nothing but jump
STEP = 1e-4  # of the differences, in float64
CLOSE = 1e-4  # relative error of a derivative beside differences that agree among themselves far better


def _traced(trial: Trial) -> Program:
    """Its Program.

    Raises:
        Skipped: it has none: `eager` says whether that is right.
    """
    try:
        return trial.traced
    except FunctadError as error:
        raise Skipped(type(error).__name__) from error


def _defined(run: Callable[[], Any]) -> Any:
    """What `run` gives.

    Raises:
        Skipped: the program asks for a derivative, or a mapping, that is declared not to exist.
    """
    try:
        return run()
    except REFUSALS as error:
        raise Skipped(type(error).__name__) from error


def eager(trial: Trial, choose: random.Random) -> str | None:
    """Un-jitted, operation by operation, it gives what its Program does; neither refuses what the other computes."""
    arrays = [ArrayImpl(np.array(a)) for a in trial.args]
    with functad.config.context(default_backend="interpreter"):  # `jit` within it compiles nothing
        results = _result_or_error(lambda: trial.fun(*arrays))
    program = _result_or_error(lambda: trial.traced)
    refused = [r for r in (results, program) if isinstance(r, FunctadError)]
    if leaked := [r for r in refused if isinstance(r, LeakedTracerError)]:
        raise leaked[0]
    if len(refused) == 2 or any(isinstance(r, REFUSALS) for r in refused):
        raise Skipped(type(refused[0]).__name__)
    if refused:
        how = "traced, but not un-jitted" if refused[0] is program else "un-jitted, but not traced"
        return f"raises {type(refused[0]).__name__} {how}: {refused[0]}"
    check_program(program)
    values = trial.form in ("itself", "mapped")
    return trial.expected.mismatch(results, signs=values)  # a tangent that is known to be zero has no sign


def _result_or_error(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except FunctadError as error:
        return error


def passes(trial: Trial, choose: random.Random) -> str | None:
    """Simplified, or after one of the passes alone, it gives the same."""
    program = _traced(trial)
    one = choose.choice(PASSES)
    program = simplify(program) if choose.random() < 0.7 else one(inline_calls(program))
    check_program(program)
    others = expected_of(program, trial.args)
    return trial.expected.mismatch(others.results, others)


def _meets_unknown_sizes(program: Program) -> bool:
    """Whether an equation outside of loops computes with what a `while` stacks: only passes bring that into loops."""
    outside = [e for e in program.eqns if not isinstance(e.primitive.lower, ControlFlow)]
    return any(UNKNOWN in v.aval.shape for e in outside for v in (*e.invars, *e.outvars))


def kernels(trial: Trial, choose: random.Random) -> str | None:
    """Its kernels give the same, as plain Python, in any order of their chunks, with or without donated arguments."""
    program = _traced(trial)
    inlined = on_one_device(inline_calls(program))
    program = inlined if choose.random() < 0.2 and not _meets_unknown_sizes(inlined) else simplify(program)
    if sum(a.size for a in trial.args) > 3000:
        raise Skipped("large")
    donated = [choose.random() < 0.4 for _ in trial.args]
    got, _ = run_kernels(program, trial.args, donated, choose)
    return trial.expected.mismatch(got, expected_of(program, trial.args))


def loop(trial: Trial, choose: random.Random) -> str | None:
    """Mapped, it gives what a loop does."""
    program = trial.program
    stacked = Trial(program, "mapped")
    batched = _defined(lambda: stacked.traced)
    rows = [_defined(lambda k=k: traced_at(program, [s[k] for s in stacked.args])) for k in range(2)]
    together = Expected(
        [np.stack(xs) for xs in zip(*[r.results for r in rows])],
        lambda: [np.stack(xs) for xs in zip(*[r.runs(1)[0] for r in map(_again, rows)])],
    )
    others = expected_of(batched, stacked.args)
    return together.mismatch(others.results, others)


def traced_at(program: RandomProgram, args: Sequence[np.ndarray]) -> Expected:
    return expected_of(traced(program, args), args)


def _again(e: Expected) -> Expected:
    return Expected(e.results, e._run)


def reverse(trial: Trial, choose: random.Random) -> str | None:
    """<ct, jvp(t)> = <vjp(ct), t>."""
    fun, floats, others = floats_of(trial.program)
    if not floats or "reverse only" in trial.program.traits:
        raise Skipped("no derivative")
    rng, n = np.random.default_rng(trial.seed), len(floats)
    ts = [directions(a, rng) for a in floats]

    def forward_product(*values: Any) -> list[Any]:
        outs, tangents = functad.jvp(lambda *ys: fun(*ys, *values[n:]), values[:n], ts)
        return [_product(_cotangents(outs), tangents)]

    def size_of_product(*values: Any) -> list[Any]:
        outs, tangents = functad.jvp(lambda *ys: fun(*ys, *values[n:]), values[:n], ts)
        return [_product(*([functad.numpy.abs(x) for x in xs] for xs in (_cotangents(outs), tangents)))]

    def reverse_product(*values: Any) -> list[Any]:
        outs, pullback = functad.vjp(lambda *ys: fun(*ys, *values[n:]), *values[:n])
        if not outs:
            return [np.float64(0)]
        return [_product(pullback(_cotangents(outs)), ts)]

    args = [*floats, *others]
    if any(e.primitive.name == "reduce_precision" for e in every_equation(_traced(trial).eqns)):
        raise Skipped("its derivative rounds")
    sides = [_defined(lambda f=f: traced(f, args)) for f in (forward_product, reverse_product)]
    left, right = (expected_of(side, args) for side in sides)
    runs = [*left.runs(3), *right.runs(3)]
    if not all(np.isfinite(r[0]) for r in [left.results, right.results, *runs]):
        raise Skipped("not finite")
    # What is below the smallest number of its dtype is 0: a cotangent here, a tangent there.
    inside = {v.aval.dtype for e in every_equation(_traced(trial).eqns) for v in e.outvars}
    dtypes = {t.dtype for t in ts} | {d for d in inside if d.kind == "f"}
    sizes = [*ts, *_cotangents([np.zeros(v.aval.shape, float) for v in _traced(trial).outvars])]
    smallest = max(float(np.finfo(d).smallest_subnormal) for d in dtypes)
    lost = smallest * sum(float(np.sum(np.abs(t), dtype=np.float64)) for t in sizes)
    if any(d.itemsize == 2 for d in dtypes):  # noise seldom changes what is rounded to so few bits
        (size,) = _defined(lambda: expected_of(traced(size_of_product, args), args)).results
        lost += 4 * max(float(np.finfo(d).eps) for d in dtypes) * float(size)
    if abs(left.results[0] - right.results[0]) <= lost:
        return None
    return left.mismatch(right.results, right)


def _cotangents(outs: Sequence[Any]) -> list[Any]:
    return [np.sin(1 + np.arange(o.size)).astype(o.dtype).reshape(o.shape) for o in outs]


def _product(xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    total: Any = np.float64(0)
    for x, y in zip(xs, ys):
        total = total + functad.numpy.sum(
            functad.lax.convert_element_type(x, np.float64) * functad.lax.convert_element_type(y, np.float64)
        )
    return total


def differences(trial: Trial, choose: random.Random) -> str | None:
    """Tangents are the limits of differences, where these have one; second derivatives, those of the gradient's."""
    program = trial.program
    if {a.dtype for a in program.args if a.dtype.kind == "f"} != {np.dtype(np.float64)}:
        raise Skipped("needs float64")
    if not all(np.all(np.abs(a) < WILD) for a in program.args if a.dtype.kind == "f"):
        raise Skipped("a step of differences is lost in large numbers")
    if any(np.any((a != 0) & (np.abs(a) < 10 * STEP)) for a in program.args if a.dtype.kind == "f"):
        raise Skipped("a step of differences leads past small numbers")
    order = "second" if choose.random() < 0.4 else "forward"
    if order not in forms_of(program):
        raise Skipped("no derivative")
    base = "gradient" if order == "second" else "itself"
    found = Trial(program, order, trial.seed)
    fun, floats, others = floats_of(program)
    n = len(floats)
    tangents = _defined(lambda: found.expected).results
    if base == "gradient":
        fun = Trial(program, "gradient").fun
    base_program = _defined(lambda: traced(fun, [*floats, *others]))
    whole = expanded(base_program)
    eqns = whole.eqns
    if any(v.aval.dtype.name in NARROW for e in eqns for v in e.outvars):
        raise Skipped("needs float64")
    if any(e.primitive.name in CHOOSING for e in every_equation(eqns)):
        raise Skipped("its derivative at ties is a convention")
    jumping = [v for e in eqns for v in e.outvars if v.aval.dtype.kind in "biu" or e.primitive.name in STEPS]
    run = interpreted(whole.replace(outvars=[*whole.outvars, *jumping]))
    ts = found.args[n : 2 * n]

    def along(step: float) -> list[np.ndarray]:
        return run([*[x + step * t for x, t in zip(floats, ts)], *others])

    here, steps = along(0.0), (STEP, STEP / 2, STEP / 3)
    there = [(along(s), along(-s)) for s in steps]
    first = len(whole.outvars)
    if any(not np.array_equal(x, y) for pair in there for xs in pair for x, y in zip(here[first:], xs[first:])):
        raise Skipped("it jumps here")
    for k, (t, x) in enumerate(zip(tangents, here)):
        if t.dtype != np.float64:
            continue
        with np.errstate(all="ignore"):
            a, b, c = ((up[k] - down[k]) / (2 * s) for (up, down), s in zip(there, steps))
            # How far one-sided ones are apart: kinks.
            sides = np.abs(there[1][0][k] + there[1][1][k] - 2 * x) / steps[1]
            scale = np.abs(b) + np.max(np.abs(b), initial=0, where=np.isfinite(b)) + 1e-3
            settled = np.isfinite(a) & (np.abs(a - b) < CLOSE / 30 * scale) & (np.abs(c - b) < CLOSE / 30 * scale)
            settled &= (sides < 0.01 * scale) & np.isfinite(t)
            wrong = settled & ~(np.abs(t - b) <= CLOSE * scale)
        if wrong.any():  # unless rounding errors are as large as the differences
            runs = np.stack([run[k] for run in expected_of(base_program, [*floats, *others]).runs(MANY)])
            wrong &= (runs.max(0) - runs.min(0)) / steps[-1] < CLOSE * scale
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            return f"{order}: result {k}{list(at)} is {t[at]!r}, differences give {b[at]!r}"
    return None


ORACLES: dict[str, Callable[[Trial, random.Random], str | None]] = {
    "eager": eager,
    "passes": passes,
    "kernels": kernels,
    "loop": loop,
    "reverse": reverse,
    "differences": differences,
    "jax": jax_agrees,
    "cuda": cuda_agrees,
    **{name: lambda trial, choose, run=run: run([trial], choose) for name, run in machine.ORACLES.items()},
}
