"""Loops of unknown length that take the same steps become one; others stay what they are.

Knows `while_loop` equations and the passes over them; nothing of how they are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from functad import interpreter, lax
from functad.ir import Program, check_program
from functad.optimize.pipeline import merge_whiles, simplify

X = np.array([0.3, 1.2, -0.7])


def loops(program: Program) -> int:
    return sum(e.primitive.name == "while" for e in program.eqns)


def check(fun: Callable[..., Any], *args: Any) -> int:
    """How many loops are left when equal ones are merged; the results are the same."""
    program = functad.make_jaxpr(fun)(*args)
    arrays = [np.asarray(jnp.asarray(a)) for a in args]
    expected = [np.array(x) for x in interpreter.compile_program(program)(arrays)]
    for made in (merge_whiles(program), simplify(program)):
        check_program(made)
        for got, wanted in zip(interpreter.compile_program(made)(arrays), expected):
            assert np.allclose(got, wanted, rtol=1e-6)
    assert loops(simplify(program)) <= loops(merge_whiles(program))
    return loops(merge_whiles(program))


def counted(n: int, step: Callable[[Any], Any], x: Any) -> Any:
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, step(s[1])), (0, x))[1]


def test_the_same_steps_are_taken_once() -> None:
    assert check(lambda x: (counted(5, jnp.sin, x), counted(5, jnp.cos, x)), X) == 1
    assert check(lambda x: counted(5, jnp.sin, x) + counted(5, lambda v: jnp.sin(v) + 0, x), X) == 1
    assert check(lambda x: [counted(5, lambda v, k=k: v * k, x) for k in (2, 3, 4)], X) == 1

    def swapping(*start: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < 50, lambda s: (s[1], s[0] * 2), start)

    assert check(lambda x, y: [swapping(x, y), swapping(x, y)], 1.0, 2.0) == 1
    assert check(lambda x, y: [swapping(x, y), swapping(y, x)], 1.0, 2.0) == 2


def test_what_differs_stays_apart() -> None:
    assert check(lambda x: counted(5, jnp.sin, x) + counted(6, jnp.sin, x), X) == 2
    assert check(lambda x: counted(5, jnp.sin, counted(5, jnp.sin, x)), X) == 2  # one needs the other
    double, triple = (lambda x, k=k: lax.while_loop(lambda v: v < 50, lambda v: v * k, x) for k in (2, 3))
    assert check(lambda x: double(x) + triple(x), 1.0) == 2  # equal at the start only
    assert check(lambda x: double(x) + double(x + 1), 1.0) == 2
    zero, negative = (
        lambda x, z=z: lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] * 2, s[1] * 1.5), (x, z))[1]
        for z in (0.0, -0.0)
    )
    program = merge_whiles(functad.make_jaxpr(lambda x: (zero(x), negative(x)))(1.0))
    assert [bool(np.signbit(r)) for r in interpreter.compile_program(program)([np.float32(1)])] == [False, True]


def test_what_lies_between_stays_in_order() -> None:
    def fun(x: Any) -> Any:
        one = counted(5, jnp.sin, x)
        between, apart = one * 2, jnp.exp(x)
        return counted(5, jnp.cos, apart) + between, counted(5, jnp.tan, x) * between

    assert check(fun, X) == 1


def test_a_derivative_does_not_run_the_loop_again() -> None:
    def grow(x: Any, a: Any) -> Any:
        step = lambda s: (a * s[0] + jnp.sin(s[0]), s[1] + s[0] ** 2)  # noqa: E731
        return lax.while_loop(lambda s: s[0] < 50, step, (x, 0.0))[1]

    both = functad.value_and_grad(grow, (0, 1))
    assert loops(simplify(functad.make_jaxpr(both)(2.0, 1.5))) == 1
    assert loops(simplify(functad.make_jaxpr(functad.vmap(both, (0, None)))(X + 2, 1.5))) == 1


def test_forward_mode_stacks_nothing() -> None:
    def grow(x: Any, a: Any) -> Any:
        return lax.while_loop(lambda v: v < 50, lambda v: a * v + jnp.sin(v), x)

    def tangent(x: Any, a: Any) -> Any:
        return functad.jvp(grow, (x, a), (1.0, 2.0))

    for fun, x in ((tangent, 2.0), (functad.vmap(tangent, (0, None)), X + 2)):
        program = functad.make_jaxpr(fun)(x, 1.5)
        made = simplify(program)
        assert [e.primitive.name for e in made.eqns if e.primitive.name in ("while", "scan")] == ["while"]
        assert "?" not in str(made)
        check(fun, x, 1.5)


def test_effects_are_not_reordered() -> None:
    seen: list[str] = []

    def fun(x: Any) -> Any:
        one = counted(2, jnp.sin, x)
        functad.debug.callback(lambda v: seen.append("between"), one)
        return one + counted(2, jnp.cos, x)

    assert check(fun, X) == 2 and "between" in seen
