"""Calls within loops and branches: every pass that copies equations meets them inlined, whatever they close over."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.editing.inlining import inline_calls
from functad.errors import NestingError
from functad.execution import optimized
from functad.ir import Program, check_program, subprograms
from functad.lowering_rules import Call

pytestmark = pytest.mark.generated(every=6)  # tables of shapes, dtypes and ways

TABLE = np.arange(5, dtype=np.float32)
X = np.float32(0.4)


@functad.custom_jvp
def by_table(x: Any) -> Any:
    return x * TABLE[2] + TABLE[1:3].sum() * jnp.sin(x)


by_table.defjvp(lambda primals, tangents: (by_table(*primals), tangents[0] * jnp.asarray(TABLE)[3]))


@functad.custom_vjp
def backwards_by_table(x: Any) -> Any:
    return jnp.cos(x) * jnp.asarray(TABLE)[1]


backwards_by_table.defvjp(lambda x: (backwards_by_table(x), x), lambda x, ct: (ct * jnp.asarray(TABLE)[3] * x,))

BODIES: dict[str, Callable[[Any], Any]] = {
    "jit": lambda c: functad.jit(jnp.sin)(c),
    "checkpoint": lambda c: functad.checkpoint(jnp.sin)(c),
    "custom_jvp": lambda c: by_table(c) * 0.1,
    "custom_vjp": lambda c: backwards_by_table(c) * 0.1,
    "while": lambda c: lax.while_loop(lambda v: v < 1.0, lambda v: functad.jit(jnp.exp)(v) * 2, c) * 0.5,
    "cond": lambda c: lax.cond(c > 0.3, lambda c: by_table(c) * 0.1, lambda c: functad.jit(jnp.cos)(c), c),
    "scan": lambda c: lax.scan(lambda d, _: (by_table(d) * 0.1, None), c, None, length=3, unroll=2)[0],
}


def calls(program: Program) -> list[str]:
    inner = [name for e in program.eqns for p in subprograms(e.params) for name in calls(p)]
    return [e.primitive.name for e in program.eqns if isinstance(e.primitive.lower, Call)] + inner


def inner_constants(program: Program) -> int:
    inner = [p for e in program.eqns for p in subprograms(e.params)]
    return sum(len(p.consts) + inner_constants(p) for p in inner)


def transformed(name: str, length: int, unroll: int) -> dict[str, Callable[[Any], Any]]:
    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (BODIES[name](c), c), x, None, length=length, unroll=unroll)

    def forward(x: Any) -> Any:
        return loop(x)[0]

    found = {
        "function": loop,
        "gradient": functad.grad(lambda x: loop(x)[0] + loop(x)[1].sum()),
        "mapped": lambda x: functad.vmap(loop)(jnp.stack([x, x + 0.1])),
    }
    if name != "custom_vjp":
        found["tangent"] = lambda x: functad.jvp(forward, (x,), (x,))
    return found


@pytest.mark.parametrize(("length", "unroll"), [(3, 1), (9, 2), (40, 3)])
@pytest.mark.parametrize("name", BODIES)
def test_loops_short_unrolled_and_long(name: str, length: int, unroll: int) -> None:
    for how, fun in transformed(name, length, unroll).items():
        program = functad.make_jaxpr(fun)(X)
        inlined = inline_calls(program)
        check_program(inlined)
        assert calls(program) and not calls(inlined) and not inner_constants(inlined)
        check_program(optimized(program))
        for got, want in zip(functad.tree.leaves(functad.jit(fun)(X)), functad.tree.leaves(fun(X)), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6, err_msg=how)


def test_what_a_rule_computes_from_a_table_leaves_a_long_loop() -> None:
    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (by_table(c) * 0.1, None), x, None, length=100)[0]

    (scan,) = [e for e in optimized(functad.make_jaxpr(loop)(X)).eqns if e.primitive.name == "scan"]
    assert {e.primitive.name for e in scan.params["jaxpr"].eqns} <= {"mul", "add", "sin"}


def test_a_place_that_is_known_makes_a_slice() -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)

    def fixed(x: Any) -> Any:
        return [lax.dynamic_slice(x, (jnp.asarray(i), 1), (2, 2)) for i in (-3, 1, 9)]

    def whole(x: Any) -> Any:
        return lax.dynamic_slice(x, (jnp.asarray(3), 0), (4, 3))

    def unrolled(x: Any) -> Any:
        def step(i: Any, total: Any) -> Any:
            return total + lax.dynamic_index_in_dim(x, i, keepdims=False)

        return lax.fori_loop(0, 4, step, jnp.zeros(3))

    for fun in (fixed, whole, unrolled):
        names = [e.primitive.name for e in optimized(functad.make_jaxpr(fun)(x)).eqns]
        assert not {"dynamic_slice", "gather", "scan"} & set(names)
        for got, want in zip(functad.tree.leaves(functad.jit(fun)(x)), functad.tree.leaves(fun(x)), strict=True):
            np.testing.assert_array_equal(got, want)
    assert not optimized(functad.make_jaxpr(whole)(x)).eqns


# --- many calls within each other -------------------------------------------------------------------------


def nested(levels):
    function = jnp.sin
    for _ in range(levels):
        function = functad.jit(lambda x, inner=function: inner(x) + 1.0)
    return function


def test_many_calls_within_each_other_go_through_all_transforms():
    # In a process of its own, because the tests' frames fill the stack, too (Python 3.11 has room for about 120).
    program = "import sys; sys.path.insert(0, 'tests/calls'); import test_calls; test_calls.check_nested(100)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def check_nested(levels):
    f, x = nested(levels), np.float32(1)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5)
    close(f(x), np.sin(x) + levels)
    close(functad.vmap(f)(x[None]), np.sin(x[None]) + levels)
    for transform in (
        functad.grad,
        lambda f: functad.jit(functad.grad(f)),
        lambda f: lambda x: functad.jvp(f, (x,), (x,))[1],
    ):
        close(transform(f)(x), np.cos(x))
    close(functad.grad(functad.grad(f))(x), -np.sin(x))
    assert len(str(functad.make_jaxpr(f)(x)).splitlines()) > levels


def test_too_many_calls_within_each_other_say_so():
    for transform in (lambda f: f, functad.grad, functad.vmap, functad.make_jaxpr):
        with pytest.raises(NestingError, match="jit the outermost one only"):
            transform(nested(1000))(np.ones(1, np.float32) if transform is functad.vmap else np.float32(1))

    def endless(x):
        return endless(x) + 1

    with pytest.raises(RecursionError) as found:
        functad.jit(lambda x: endless(x))(1.0)
    assert not isinstance(found.value, NestingError)
