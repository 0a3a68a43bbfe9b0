"""The passes, each by itself: what they drop, what they must keep, and that results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.editing.common_subexpressions import share_common_subexpressions
from functad.editing.dead_code import eliminate_dead_code
from functad.ir import check_program
from functad.optimize.pipeline import (
    PASSES,
    inline_calls,
    simplify,
    simplify_numbers,
)
from functad.tracing import eval_program

F32 = np.float32


@pytest.fixture(autouse=True)
def interpreted():
    """Calls inside of a Program run equation by equation, so that results can be compared bit by bit."""
    with functad.config.context(default_backend="interpreter"):
        yield


def program_of(fun, *args):
    return functad.make_jaxpr(fun)(*args)


def names(program):
    return [e.primitive.name for e in program.eqns]


def same_results(before, after, *args):
    check_program(after)
    for a, b in zip(eval_program(before, args), eval_program(after, args)):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        assert np.array_equal(np.signbit(a), np.signbit(b))
    return True


def test_inline_calls_to_any_depth():
    inner = functad.jit(lambda x: jnp.sin(x))
    program = program_of(functad.jit(lambda x: inner(x) + inner(inner(x))), F32(1))
    inlined = inline_calls(program)
    assert names(inlined) == ["sin", "sin", "sin", "add"] and same_results(program, inlined, F32(1))


def test_inlining_keeps_constants_of_called_programs():
    table = np.arange(3, dtype=F32)
    program = program_of(functad.jit(lambda x: x + table), F32(1))
    assert same_results(program, inline_calls(program), F32(2))


def test_inlining_a_call_that_returns_its_argument():
    program = program_of(functad.jit(lambda x: (x, 2.0, x + 1)), F32(1))
    assert names(inline_calls(program)) == ["add"] and same_results(program, inline_calls(program), F32(3))


def test_dead_code_goes_and_inputs_stay():
    program = program_of(lambda x, y: [jnp.sin(x), jnp.cos(y)][0], F32(1), F32(2))
    kept = eliminate_dead_code(program)
    assert names(program) == ["sin", "cos"] and names(kept) == ["sin"] and len(kept.invars) == 2


def test_constants_fold_when_scalar_only():
    program = program_of(lambda x: x * lax.sin(np.float32(0.5)) + jnp.ones(3), F32(1))
    folded = simplify_numbers(program)
    assert "sin" in names(program) and "sin" not in names(folded) and "broadcast_in_dim" in names(folded)
    assert same_results(program, folded, F32(2))


def test_common_subexpressions_are_shared_by_value_and_params():
    program = program_of(lambda x: jnp.sum(x, axis=0) + jnp.sum(x, axis=0) + jnp.sum(x, axis=1), np.ones((3, 3), F32))
    shared = share_common_subexpressions(program)
    assert names(program).count("reduce_sum") == 3 and names(shared).count("reduce_sum") == 2


def test_zero_and_minus_zero_are_not_the_same_constant():
    program = program_of(lambda x: (x * F32(0.0), x * F32(-0.0)), F32(1))
    assert names(share_common_subexpressions(program)) == ["mul", "mul"]


@pytest.mark.parametrize(
    ("fun", "left"),
    [
        (lambda x: x * F32(1), []),
        (lambda x: F32(1) * x, []),
        (lambda x: x / F32(1), []),
        (lambda x: x - F32(0), []),
        (lambda x: x + F32(-0.0), []),
        (lambda x: jnp.negative(jnp.negative(x)), ["neg"]),
        (lambda x: x.T.T, ["transpose"]),
        (lambda x: x.reshape(6).reshape(2, 3), ["reshape"]),
        (lambda x: x.reshape(6).reshape(3, 2), ["reshape", "reshape"]),
        (lambda x: lax.stop_gradient(x), []),
        # x + 0 is not x for x = −0, 0·x is not 0 for NaN, x − x is not 0 for infinities: these stay
        (lambda x: x + F32(0), ["add"]),
        (lambda x: x * F32(0), ["mul"]),
        (lambda x: x - x, ["sub"]),
        (lambda x: x / x, ["div"]),
    ],
)
def test_algebra(fun, left):
    x = np.array([[0.0, -0.0, np.nan], [np.inf, -np.inf, 2.0]], F32)
    program = program_of(fun, x)
    simplified = simplify_numbers(program)
    assert names(simplified) == left
    assert same_results(program, simplified, x)


def test_integers_plus_zero():
    program = program_of(lambda x: x + np.int32(0), np.arange(3, dtype=np.int32))
    assert names(simplify_numbers(program)) == []


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    "cut", [np.s_[:, :2], np.s_[::2, :2], np.s_[1:2, :3], np.s_[:, 1:2], np.s_[:2, :, :2], np.s_[..., 1:2]]
)
def test_a_part_of_a_stack_is_one_array_only_where_it_is_all_of_one(axis, cut):
    def fun(x, y):
        return jnp.stack([x, y, x * y, x - y], axis)[cut]

    x = np.arange(16, dtype=F32).reshape(4, 4)
    program = program_of(fun, x, x + 100)
    same_results(program, simplify_numbers(program), x, x + 100)


def test_conversions_to_the_same_dtype_go():
    program = program_of(lambda x: x.astype(np.float64).astype(np.float64), np.ones(3, F32))
    assert names(simplify(program)) == ["convert_element_type"]


@pytest.mark.parametrize("seed", range(15))
def test_every_pass_keeps_the_results_of_random_programs(seed):
    rng = np.random.default_rng(seed)
    steps = [(int(rng.integers(9)), int(rng.integers(50)), int(rng.integers(50))) for _ in range(15)]
    scalars = rng.choice([0.0, -0.0, 1.0, 2.0, -1.0], size=15).astype(F32)

    def fun(x):
        values = [x]
        for (kind, i, j), s in zip(steps, scalars):
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(
                [
                    lambda a=a, b=b: a + b,
                    lambda a=a, s=s: a * s,
                    lambda a=a, s=s: a + s,
                    lambda a=a: -a,
                    lambda a=a: functad.jit(jnp.sin)(a),
                    lambda a=a: a.T,
                    lambda a=a: a.reshape(9).reshape(3, 3),
                    lambda a=a, b=b: jnp.maximum(a, b),
                    lambda a=a: a - F32(0),
                ][kind]()
            )
        return values[-1], values[len(values) // 2]

    x = rng.standard_normal((3, 3)).astype(F32)
    x[0, 0] = -0.0
    program = program_of(fun, x)
    current = program
    for a_pass in PASSES:
        current = a_pass(current)
        assert same_results(program, current, x)
    assert len(current.eqns) <= len(inline_calls(program).eqns)


INDEXED = {
    "slice": lambda x, i: lax.dynamic_slice(x, (i,), (2,))[0],
    "index": lambda x, i: x[i],
    "both": lambda x, i: lax.dynamic_slice_in_dim(x, i - 2, 3)[1] * x[i + 1],
}


@pytest.mark.parametrize("name", INDEXED)
def test_places_of_unrolled_steps_are_known(name):
    def by_scan(x):
        return lax.scan(lambda c, i: (c + INDEXED[name](x, i + 2), None), F32(0), jnp.arange(3), unroll=3)[0]

    def by_fori(x):
        return lax.fori_loop(2, 5, lambda i, c: c + INDEXED[name](x, i), F32(0), unroll=True)

    x = np.linspace(1, 3, 7, dtype=F32)
    for f in (by_scan, by_fori):
        optimized = functad.jit(f).lower(x).optimized
        assert {e.primitive.name for e in optimized.eqns} <= {"slice", "squeeze", "add", "mul"}, optimized
        assert same_results(program_of(f, x), optimized, x)
