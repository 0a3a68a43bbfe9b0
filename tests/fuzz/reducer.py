"""Makes a program that fails smaller, as long as it fails in the same way, and prints it as a test.

Knows how programs are cut; why one fails it is told by a function.
"""

from __future__ import annotations

import re
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import functad
from functad.array import ArrayImpl

from .check import Setting
from .program import BIND, HEADER, NAMES, Function, RandomProgram, Step
from .values import count

Verdict = Callable[[RandomProgram], "str | None"]


def reduced(program: RandomProgram, verdict: Verdict, seconds: float = 60.0) -> RandomProgram:
    """The smallest program found in the time that fails as the given one does."""
    end, wanted = time.monotonic() + seconds, kind_of(verdict(program))
    if wanted is None:
        return program

    def fails(candidate: RandomProgram) -> bool:
        try:
            return kind_of(verdict(candidate)) == wanted
        except Exception:  # it is no program any more
            return False

    improved = True
    while improved and time.monotonic() < end:
        improved = False
        for cut in (
            _fewer_results,
            _inputs_for_steps,
            _operands_for_results,
            _shorter_texts,
            _smaller_shapes,
            _simpler_values,
        ):
            again = True
            while again and time.monotonic() < end:
                again = False
                for candidate in cut(program):
                    if time.monotonic() > end:
                        break
                    if fails(candidate):
                        program, again, improved = candidate, True, True
                        break
    return program


def kind_of(verdict: str | None) -> str | None:
    """What a failure is like, without its numbers."""
    if verdict is None or not verdict.startswith(("raises", "asserts")):
        return verdict and "values"
    return re.sub(r"[^A-Za-z ]", "", verdict.split("\n")[0])[:60]


# --- the cuts ------------------------------------------------------------------------------------------------


def _with_results(program: RandomProgram, results: Sequence[str]) -> RandomProgram:
    returns = f"[{', '.join(f'${k}' for k in range(len(results)))}]"
    return program.but(replace(program.function, results=tuple(results), returns=returns))


def _fewer_results(program: RandomProgram) -> Iterator[RandomProgram]:
    results = program.function.results
    if len(results) > 1:
        yield from (_with_results(program, [r]) for r in results)
        yield from (_with_results(program, [*results[:k], *results[k + 1 :]]) for k in range(len(results)))


def _inputs_for_steps(program: RandomProgram) -> Iterator[RandomProgram]:
    """Arguments instead of what a statement computes."""
    values = _values(program)
    for k in reversed(range(len(program.function.steps))):
        step = program.function.steps[k]
        steps = (*program.function.steps[:k], *program.function.steps[k + 1 :])
        if all(name in values for name in step.results):
            function = replace(program.function, params=(*program.function.params, *step.results), steps=steps)
            yield program.but(function, [*program.args, *(values[name] for name in step.results)])


def _operands_for_results(program: RandomProgram) -> Iterator[RandomProgram]:
    """What a statement reads, or a parameter, instead of what it computes; in functions within, too."""
    for change in _renamings(program.function, program.function.params):
        yield program.but(change)


def _renamings(function: Function, names: Sequence[str]) -> Iterator[Function]:
    for k in reversed(range(len(function.steps))):
        step = function.steps[k]
        without = replace(function, steps=(*function.steps[:k], *function.steps[k + 1 :]))
        for name in dict.fromkeys((*step.operands, *function.params, *names)):
            changed = without
            for result in step.results:
                changed = changed.renamed(result, name)
            yield changed.without_dead_steps()
        for i, body in enumerate(step.bodies):
            for inner in _renamings(body, ()):
                bodies = (*step.bodies[:i], inner, *step.bodies[i + 1 :])
                yield _with_step(function, k, replace(step, bodies=bodies))


def _with_step(function: Function, k: int, step: Step) -> Function:
    return replace(function, steps=(*function.steps[:k], step, *function.steps[k + 1 :]))


_PLAINER = ((r"unroll=\d+", "unroll=1"), (r"reverse=True", "reverse=False"), (r"length=\d+", "length=1"),
            (r"length=\d+", "length=2"), (r", mode='\w+'", ""))  # fmt: skip


def _shorter_texts(program: RandomProgram) -> Iterator[RandomProgram]:
    for k, step in enumerate(program.function.steps):
        for old, new in _PLAINER:
            text = re.sub(old, new, step.text)
            if text != step.text:
                yield program.but(_with_step(program.function, k, replace(step, text=text)))


def _smaller_shapes(program: RandomProgram) -> Iterator[RandomProgram]:
    """A smaller number wherever one stands as the size of an axis, in arguments and in the text."""
    for n in sorted({n for a in program.args for n in a.shape if n > 1}, reverse=True):
        for m in sorted({1, 2, n // 2, n - 1} - {n, 0}):
            args = [_resized(a, n, m) for a in program.args]
            yield program.but(program.function, args)
            yield program.but(_retexted(program.function, rf"\b(?<!\$){n}\b", str(m)), args)


def _resized(a: np.ndarray, n: int, m: int) -> np.ndarray:
    return a[tuple(slice(0, m) if d == n else slice(None) for d in a.shape)]


def _retexted(function: Function, old: str, new: str) -> Function:
    def changed(s: Step) -> Step:
        bodies = tuple(_retexted(b, old, new) for b in s.bodies)
        return replace(s, text=re.sub(old, new, s.text), bodies=bodies)

    return replace(function, steps=tuple(changed(s) for s in function.steps))


def _simpler_values(program: RandomProgram) -> Iterator[RandomProgram]:
    for k, a in enumerate(program.args):
        simple: list[Any] = [np.zeros_like(a), np.ones_like(a)]
        with np.errstate(all="ignore"):
            simple += [np.where(np.isfinite(a), np.round(a), a).astype(a.dtype)] if a.dtype.kind == "f" else []
            simple += [np.where(np.isfinite(a), a, 1).astype(a.dtype), np.where(np.isfinite(a), 1, a).astype(a.dtype)]
        simple += [np.full_like(a, x) for x in a.ravel()[:3]]
        for other in simple:
            if _cost(other) < _cost(a):
                yield program.but(program.function, [*program.args[:k], other, *program.args[k + 1 :]])


def _cost(a: np.ndarray) -> int:
    """How long an array is to write down."""
    return len(repr(a.tolist())) + len(set(map(repr, a.ravel().tolist()))) + int(np.count_nonzero(a))


def _values(program: RandomProgram) -> dict[str, np.ndarray]:
    """What each statement computes, as far as they run."""
    scope = {**NAMES, **{p: ArrayImpl(np.array(a)) for p, a in zip(program.function.params, program.args)}}
    found = {}
    with functad.disable_jit(), np.errstate(all="ignore"):
        for step in program.function.steps:
            try:
                exec("\n".join(step.lines()), scope)
            except Exception:  # the failure itself may be that it raises
                break
            found.update({name: np.asarray(scope[name]) for name in step.results})
    return found


# --- printing ------------------------------------------------------------------------------------------------


def as_test(program: RandomProgram, setting: Setting) -> str:
    """A test to paste: the function, its arguments, and the check that fails."""
    shown = [("form", setting.form), ("seed", setting.seed), ("thresholds", dict(setting.thresholds))]
    args = "".join(f"        {_written(a)},\n" for a in program.args)
    source = textwrap.indent(program.function.source(), "    ")
    helper = BIND if "bind(" in source else ""
    options = "".join(f", {k}={v!r}" for k, v in shown if v and v != "itself")
    name = re.sub(r"[^a-z0-9]+", "_", f"{setting.oracle} {program.label}".lower())
    return (
        f"{HEADER}from fuzz.check import check\n{helper}\n\n"
        f"def test_{name}() -> None:\n{source}\n"
        f"    args = [\n{args}    ]\n    check(f, args, {setting.oracle!r}{options})\n"
    )


def _written(a: np.ndarray) -> str:
    if count(a.shape) and len(set(map(repr, a.ravel().tolist()))) == 1 and a.ndim:
        text = f"np.full({a.shape}, {a.ravel()[0].item()!r}, {a.dtype.name!r})"
    elif count(a.shape):
        text = f"np.array({a.tolist()!r}, {a.dtype.name!r})"
    else:
        text = f"np.zeros({a.shape}, {a.dtype.name!r})"
    return re.sub(r"\b(nan|inf)\b", r"np.\1", text)
