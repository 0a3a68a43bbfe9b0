"""Checks of loops, branches and calls of Python on CUDA, and of the primitives that have no examples of their own.

The interpreter is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from cuda_check_tools import agree, checks_of
from fuzz.check import changed
from fuzz.rounding import every_equation
from primitive_form_tools import compare

import functad
import functad.numpy as jnp
from functad import lax
from functad.all_primitives import registry
from functad.backends.cuda.scalars.registry import SIMULATED
from functad.experimental import io_callback
from functad.lowering.blocks import ControlPlan, Instruction

A_LOOP = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def recurrence(rows: Any) -> Any:
    return lax.scan(lambda c, row: (jnp.tanh(c * 0.9 + row), (c.sum(), c[::-1])), rows[0], rows, reverse=True)


def grown(x: Any) -> Any:
    """A loop of a length that only a run tells."""
    return lax.while_loop(lambda s: jnp.abs(s[0]).sum() < 20, lambda s: (s[0] * 1.5 + x, s[1] + 1), (x, 0))


def chosen(x: Any, k: Any) -> Any:
    return lax.switch(k, [jnp.sin, lambda x: x * 2, lambda x: jnp.sort(x)[::-1]], x)


def nested(x: Any) -> Any:
    def step(k: Any, c: Any) -> Any:
        return lax.cond(c.sum() > k, lambda c: lax.fori_loop(0, k, lambda _, d: d * 0.5 + x, c), lambda c: c + 1, c)

    return lax.fori_loop(0, 4, step, x)


def swapped(x: Any) -> Any:
    """Carries that change places, and one that is left as it is."""
    return lax.fori_loop(0, 5, lambda k, s: (s[1] + k, s[0] @ s[2], s[2]), (x[:3], x[1:], x[:3] * 0.1))


def check_loops() -> None:
    """As steps that are launched one by one, and, where a step is small, as one kernel."""
    with changed({"UNROLLED_STEPS": 0}):
        for longest in (0.0, 1e9):
            with changed({"CUDA_SMALL_STEP": longest}):
                agree(recurrence, A_LOOP)
                agree(grown, A_LOOP[0])
                agree(nested, A_LOOP[0])
                agree(swapped, A_LOOP)
                for k in (-1, 1, 5):
                    agree(chosen, A_LOOP[2], np.int32(k))
    agree(functad.vmap(chosen), A_LOOP, np.int32([0, 1, 2, 1]))
    agree(lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x[:0]), A_LOOP)


def check_updates_in_loops() -> None:
    """Several in a step, of which some meet, and some go nowhere."""
    at = np.array([[0, 1], [2, 2], [-1, 0], [5, 1]])

    def updated(x: Any) -> Any:
        return lax.scan(lambda c, s: (c.at[s[0]].add(s[1]).at[s[0]].max(s[1] + 1), c), x[0], (at, x[:, :2]))

    with changed({"UNROLLED_STEPS": 0}):
        for longest in (0.0, 200.0, 1e9):
            with changed({"CUDA_SMALL_STEP": longest}):
                agree(updated, A_LOOP)


def check_loops_that_come_again() -> None:
    """Replayed as parts of a graph; behind it, and in a loop that asks Python, pointers are where they were."""

    def between(x: Any) -> Any:
        carry, _ = lax.scan(lambda c, row: ((c[1] + row, c[0] * 0.5), None), (x[0], x[1]), x)
        more = lax.while_loop(lambda c: c[0].sum() < 40, lambda c: (c[0] + 9, recurrence(x + c[0])[0]), carry)
        return lax.scan(lambda c, row: (more[1] + c * row, c), more[0], x)

    driver = functad.devices("cuda")[0].driver
    with changed({"UNROLLED_STEPS": 0, "CUDA_SMALL_STEP": 0.0}):
        expected = functad.jit(between, backend="interpreter")(A_LOOP)
        x, jitted = functad.device_put(A_LOOP, "cuda"), functad.jit(between)
        before = driver.replays if SIMULATED else 0
        for k in range(4):
            for e, g in zip(*map(functad.tree_util.tree_leaves, (expected, jitted(x))), strict=True):
                compare(np.asarray(e), np.asarray(g), f"call {k}")
        assert not SIMULATED or driver.replays >= before + 12


def check_derivatives_of_loops() -> None:
    with changed({"UNROLLED_STEPS": 0}):
        for longest in (0.0, 1e9):
            with changed({"CUDA_SMALL_STEP": longest}):
                agree(functad.grad(lambda x: recurrence(x)[1][0].sum()), A_LOOP)
                agree(functad.grad(lambda x: nested(x).sum()), A_LOOP[0])
                agree(functad.grad(lambda x: grown(x)[0].sum()), A_LOOP[0])


def check_small_loops_are_one_kernel() -> None:
    lowered = functad.jit(lambda x: lax.fori_loop(0, 9, lambda k, c: c * 0.5 + k, x), backend="cuda").lower(0.5)
    (instruction,) = lowered._lowered.generated.instructions[-1:]
    assert isinstance(instruction, Instruction) and "for " in str(lowered.kernels), lowered.kernels
    lowered = functad.jit(recurrence, backend="cuda").lower(np.zeros((30, 100), np.float32))
    assert any(isinstance(i, ControlPlan) for i in lowered._lowered.generated.instructions)


def check_calls_of_python() -> None:
    seen: list[float] = []

    def noted(x: Any) -> Any:
        functad.debug.callback(lambda x: seen.append(float(x)), x[0], ordered=True)
        doubled = functad.pure_callback(lambda a: 2 * a, functad.ShapeDtypeStruct(x.shape, x.dtype), x + 1)
        return io_callback(lambda a: a + 1, functad.ShapeDtypeStruct(x.shape, x.dtype), doubled, ordered=True)

    def over(rows: Any) -> Any:
        return lax.scan(lambda c, row: (noted(c) * 0.1 + row, c), rows[0], rows)[0]

    expected = functad.jit(over, backend="interpreter")(A_LOOP)
    before, got = list(seen), functad.jit(over, backend="cuda")(A_LOOP)
    compare(np.asarray(expected), np.asarray(got), "callbacks in a loop")
    assert len(seen) == 8 and np.allclose(seen[4:], before), seen


@functad.numba_primitive(elementwise=True, jvp=[lambda t, out, x: t * 2 * x])
def own_square(x: Any) -> Any:
    return x * x


@functad.numba_primitive(out=lambda x: functad.ShapeDtypeStruct(x.shape[:1], x.dtype))
def row_sums(x: Any, out: Any) -> None:
    for i in range(x.shape[0]):
        out[i] = x[i, 0]
        for j in range(1, x.shape[1]):
            out[i] += x[i, j]


@functad.custom_vjp
def clipped(x: Any) -> Any:
    return x * 2


clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (jnp.clip(ct * x, -1, 1),))


@functad.custom_jvp
def softened(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x))


softened.defjvps(lambda t, out, x: t * lax.logistic(x))


def random_words(words: Any) -> Any:
    key, other = functad.random.split(functad.random.wrap_key_data(words))
    key = functad.random.clone(functad.random.fold_in(key, 7))
    return functad.random.normal(key, (5,)), functad.random.bits(other, (3,)), functad.random.key_data(other)


def solved(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(lambda v: a @ v, b, lambda _, b: jnp.linalg.solve(a, b), symmetric=True)


def called_back(x: Any) -> Any:
    functad.debug.callback(lambda a: None, x)
    y = functad.pure_callback(lambda a: 2 * a, functad.ShapeDtypeStruct(x.shape, x.dtype), x)
    return io_callback(lambda a: a + 1, functad.ShapeDtypeStruct(x.shape, x.dtype), y)


WORDS = np.array([0, 3], np.uint32)


# What has no examples of its own, and where it is compiled.
ELSEWHERE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "scan": (recurrence, (A_LOOP,)),
    "while": (grown, (A_LOOP[0],)),
    "cond": (chosen, (A_LOOP[0], np.int32(1))),
    "closed_call": (functad.grad(lambda x: grown(x)[0].sum()), (A_LOOP[0],)),
    "jit": (lambda x: functad.jit(jnp.sin)(x), (A_LOOP,)),
    "remat2": (lambda x: functad.checkpoint(jnp.sin)(x), (A_LOOP,)),
    "custom_jvp_call": (softened, (A_LOOP,)),
    "custom_vjp_call": (clipped, (A_LOOP,)),
    "custom_linear_solve": (solved, (2 * np.eye(3, dtype=np.float32) + 0.1, A_LOOP[0])),
    "numba_elementwise": (lambda x: own_square(x) + 1, (A_LOOP,)),
    "numba_call": (lambda x: functad.vmap(row_sums)(jnp.stack([x, x])), (A_LOOP,)),
    **dict.fromkeys(("debug_callback", "pure_callback", "io_callback"), (called_back, (A_LOOP,))),
    **{name: (random_words, (WORDS,)) for name in sorted(registry) if name.startswith("random_")},
}


def check_what_has_no_examples(name: str) -> None:
    fun, args = ELSEWHERE[name]
    assert name in {eqn.primitive.name for eqn in every_equation(functad.make_jaxpr(fun)(*args).eqns)}
    agree(fun, *args)


CHECKS = checks_of(globals())
