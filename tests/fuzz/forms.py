"""The forms in which a random program is tried: itself, mapped, and its derivatives, each a function of arrays.

Knows the public transforms; nothing of what its results are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from functad.array import ArrayImpl
from functad.evaluation import aval_of
from functad.ir import Program
from functad.tracing import trace_to_program

from .program import RandomProgram
from .rounding import Expected, interpreted, noisy

Fun = Callable[..., list[Any]]
ROWS = 2  # of the mapped axis
_AGAIN = 0.3  # share of the values that a checkpoint keeps


class Skipped(Exception):
    """What an oracle raises that has nothing to say about a program, and why."""


class Trial:
    """A program in one of its forms: a function, its arguments, its Program, and what it should give."""

    def __init__(self, program: RandomProgram, form: str, seed: int = 0) -> None:
        self.program, self.form, self.seed = program, form, seed
        self.fun, self.args = FORMS[form](program, np.random.default_rng(seed))

    @cached_property
    def traced(self) -> Program:
        return traced(self.fun, self.args)

    @cached_property
    def expected(self) -> Expected:
        return expected_of(self.traced, self.args)


def traced(fun: Fun, args: Sequence[np.ndarray]) -> Program:
    return trace_to_program(lambda *xs: list(fun(*xs)), [aval_of(ArrayImpl(np.array(a))) for a in args])


def expected_of(program: Program, args: Sequence[np.ndarray]) -> Expected:
    runs: list[Callable[[Sequence[np.ndarray]], list[np.ndarray]]] = []  # made where results differ

    def run_noisy() -> list[np.ndarray]:
        if not runs:
            runs.append(noisy(program, np.random.default_rng(0)))
        return runs[0](args)

    return Expected(interpreted(program)(args), run_noisy)


# --- the forms -----------------------------------------------------------------------------------------------


def float_positions(args: Sequence[Any]) -> list[int]:
    return [i for i, a in enumerate(args) if a.dtype.kind == "f"]


def floats_of(program: RandomProgram) -> tuple[Callable[..., list[Any]], list[np.ndarray], list[np.ndarray]]:
    """The program as a function of its float arguments, then the others; its results that are floats."""
    which = float_positions(program.args)
    others = [i for i in range(len(program.args)) if i not in which]

    def fun(*values: Any) -> list[Any]:
        given = dict(zip([*which, *others], values))
        return [x for x in program(*[given[i] for i in range(len(values))]) if np.dtype(x.dtype).kind == "f"]

    return fun, [program.args[i] for i in which], [program.args[i] for i in others]


def itself(program: RandomProgram, rng: np.random.Generator) -> tuple[Fun, list[np.ndarray]]:
    return program, list(program.args)


def mapped(program: RandomProgram, rng: np.random.Generator) -> tuple[Fun, list[np.ndarray]]:
    stacks = [np.stack([a, np.flip(a, 0) if a.ndim else a][:ROWS]) for a in program.args]
    return (lambda *xs: list(functad.vmap(lambda *ys: program(*ys))(*xs))), stacks


def forward(program: RandomProgram, rng: np.random.Generator) -> tuple[Fun, list[np.ndarray]]:
    fun, floats, others = floats_of(program)
    n = len(floats)

    def tangents(*values: Any) -> list[Any]:
        xs, ts, rest = values[:n], values[n : 2 * n], values[2 * n :]
        return list(functad.jvp(lambda *ys: fun(*ys, *rest), xs, ts)[1])

    return tangents, [*floats, *[directions(a, rng) for a in floats], *others]


def gradient(program: RandomProgram, rng: np.random.Generator) -> tuple[Fun, list[np.ndarray]]:
    fun, floats, others = floats_of(program)
    which = tuple(range(len(floats)))
    return (lambda *xs: list(functad.grad(lambda *ys: weighted_sum(fun(*ys)), which)(*xs))), [*floats, *others]


def computed_again(program: RandomProgram, rng: np.random.Generator) -> tuple[Fun, list[np.ndarray]]:
    """The gradient of the program twice behind another, with checkpoints that keep some of their values."""
    fun, floats, others = floats_of(program)
    n, kept = len(floats), rng.random(1000) < _AGAIN

    def loss(*values: Any) -> Any:
        decisions = iter(kept)
        part = functad.checkpoint(fun, policy=lambda *_, **__: bool(next(decisions, False)))
        xs, rest = values[:n], values[n:]
        first = weighted_sum(part(*xs, *rest))
        return first + weighted_sum(part(*[x + (jnp.tanh(first) * 0).astype(x.dtype) for x in xs], *rest))

    return (lambda *xs: list(functad.grad(loss, tuple(range(n)))(*xs))), [*floats, *others]


def second(program: RandomProgram, rng: np.random.Generator) -> tuple[Fun, list[np.ndarray]]:
    """The derivative of the gradient along a direction."""
    fun, floats, others = floats_of(program)
    n = len(floats)

    def product(*values: Any) -> list[Any]:
        xs, ts, rest = values[:n], values[n : 2 * n], values[2 * n :]
        grads = functad.grad(lambda *ys: weighted_sum(fun(*ys, *rest)), tuple(range(n)))
        return list(functad.jvp(grads, xs, ts)[1])

    return product, [*floats, *[directions(a, rng) for a in floats], *others]


def directions(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(rng.standard_normal(x.shape).astype(x.dtype))


def weighted_sum(outs: Sequence[Any]) -> Any:
    """A loss: the sum of all results, each element with a weight of its own."""
    total: Any = np.float32(0)
    for out in outs:
        weights = np.cos(np.arange(out.size)).astype(out.dtype).reshape(out.shape)
        total = total + jnp.sum(out * weights)
    return total


FORMS: dict[str, Callable[[RandomProgram, np.random.Generator], tuple[Fun, list[np.ndarray]]]] = {
    "itself": itself,
    "mapped": mapped,
    "forward": forward,
    "gradient": gradient,
    "computed again": computed_again,
    "second": second,
}


def forms_of(program: RandomProgram) -> list[str]:
    """The forms that a program has: derivatives need a float to differentiate, and one to differentiate by."""
    try:
        types = traced(program, program.args).out_avals
    except Exception:  # the oracles find out why
        return ["itself"]
    if not float_positions(program.args) or not any(a.dtype.kind == "f" for a in types):
        return ["itself", "mapped"]
    if "reverse only" in program.traits:
        return ["itself", "mapped", "gradient", "computed again"]
    return list(FORMS)
