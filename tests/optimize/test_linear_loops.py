"""Loops that are linear in their numbers: what is rewritten, what stays, and that the results are the same."""

from __future__ import annotations

import numpy as np
import pytest
from linear_loops_tools import (
    STEPS,
    assert_same,
    chain,
    compiled_program,
    is_rewritten,
    let_all_be_linear,
    logistic,
    loops,
    lorenz,
    operations,
    operations_of_all,
    oscillator,
    set_move,
)

import functad
import functad.numpy as jnp
from functad import lax, machine_model

pytestmark = pytest.mark.generated(every=6)  # tables of shapes, dtypes and ways


@pytest.fixture
def all_linear(monkeypatch):
    let_all_be_linear(monkeypatch)


# --- gradients of loops -----------------------------------------------------------------------------------


def test_the_backward_loop_of_a_map_waits_for_a_product_and_a_sum_every_two_steps():
    gradient = functad.grad(logistic, (0, 1))
    args = np.array(0.3), np.array(3.2)
    forward, backward = loops(compiled_program(gradient, *args))
    assert (forward.params["length"], backward.params["length"]) == (STEPS, STEPS // 2)
    body = backward.params["jaxpr"]
    assert longest_path(body, body.invars[0], body.outvars[0]) == 2
    assert longest_path(body, body.invars[1], body.outvars[1]) == 1  # the gradient of r is only added to
    assert longest_path(body, body.invars[1], body.outvars[0]) is None
    assert_same(gradient, *args)


def longest_path(body, start, end):
    depths = {start: 0}
    for eqn in body.eqns:
        found = [depths[a] for a in eqn.invars if a in depths]
        if found:
            depths[eqn.outvars[0]] = max(found) + 1
    return depths.get(end)


def test_an_odd_number_of_steps_is_taken_one_by_one():
    gradient = functad.grad(lambda x, r: logistic(x, r, STEPS + 1), (0, 1))
    args = np.array(0.3), np.array(3.2)
    _, backward = loops(compiled_program(gradient, *args))
    assert backward.params["length"] == STEPS + 1
    assert operations(backward) == ["add"] * 3 + ["mul"] * 2
    assert_same(gradient, *args)


def test_two_numbers_that_depend_on_each_other_and_a_sum():
    gradient = functad.grad(oscillator, (0, 1, 2))
    args = [np.array(v, float) for v in (2.0, 0.1, 0.5)]
    _, backward = loops(compiled_program(gradient, *args))
    body = backward.params["jaxpr"]
    chain = [longest_path(body, a, b) for a in body.invars[:2] for b in body.outvars[:2]]
    assert backward.params["length"] == STEPS // 2 and chain == [2] * 4
    assert_same(gradient, *args)
    gradient = functad.grad(lambda *args: oscillator(*args, STEPS + 1), (0, 1, 2))
    _, backward = loops(compiled_program(gradient, *args))
    assert backward.params["length"] == STEPS + 1
    assert operations(backward) == ["add"] * 4 + ["mul"] * 6


def test_three_numbers_have_many_coefficients(monkeypatch):
    gradient = functad.grad(lorenz, (0, 1, 2))
    args = [np.array(v, float) for v in (1.0, 2.0, 3.0)]
    assert is_rewritten(monkeypatch, gradient, *args)
    assert_same(gradient, *args)
    monkeypatch.setattr(machine_model, "COEFFICIENT_OPERATIONS", 5)  # all of them would take longer than the chain
    assert not is_rewritten(monkeypatch, gradient, *args)


def test_coefficients_that_need_much_memory_are_not_stored(monkeypatch):
    gradient = functad.grad(logistic)
    assert is_rewritten(monkeypatch, gradient, np.array(0.3), 3.2)
    monkeypatch.setattr(machine_model, "LARGEST_COEFFICIENT_STACKS", STEPS * 8)
    assert not is_rewritten(monkeypatch, gradient, np.array(0.3), 3.2)


def test_second_derivatives_forward_mode_and_vmap():
    args = np.array(0.3), np.array(3.2)
    assert_same(functad.hessian(logistic, (0, 1)), *args)
    assert_same(lambda x, r: functad.jvp(logistic, (x, r), (r, x)), *args)
    assert_same(functad.vmap(functad.grad(logistic), (0, None)), np.linspace(0.1, 0.4, 3), args[1])


def test_a_gradient_within_a_loop_and_of_a_loop_in_a_loop():
    def descend(x, r):
        def update(x, _):
            return x - 0.01 * functad.grad(logistic)(x, r), x

        return lax.scan(update, x, None, length=30)

    def nested(x, r):
        def outer(x, _):
            return lax.scan(lambda x, _: (r * x * (1 - x), x), x, None, length=60)[0], x

        return lax.scan(outer, x, None, length=20)[1].sum()

    args = np.array(0.3), np.array(2.7)
    assert_same(descend, *args)
    assert_same(functad.grad(nested, (0, 1)), *args)


def test_float32_is_as_exact_as_before(monkeypatch):
    gradient = functad.grad(oscillator, (0, 1, 2))
    rng = np.random.default_rng(1)
    errors = {}
    for name in ("rewritten", "plain"):
        found = functad.jit(lambda *args: gradient(*args))
        errors[name] = []
        for x, v, stiffness in rng.uniform(0.2, 2, (20, 3)).astype(np.float32):
            exact = np.array(gradient(*(np.array(a, float) for a in (x, v, stiffness))))
            errors[name].append(np.max(np.abs(np.array(found(x, v, stiffness)) - exact)) / np.max(np.abs(exact)))
        rng = np.random.default_rng(1)
        set_move(monkeypatch, "linear recurrences", lambda *args: None)
    assert np.median(errors["rewritten"]) < 3 * np.median(errors["plain"]) < 1e-5


# --- linear loops that somebody writes --------------------------------------------------------------------


OPERATIONS = [
    lambda where, x, y, k, number: x * k,
    lambda where, x, y, k, number: x / (2 + k * k),
    lambda where, x, y, k, number: x * number - y,
    lambda where, x, y, k, number: x + y,
    lambda where, x, y, k, number: where(k > 0, -x, x + k),
    lambda where, x, y, k, number: number * (x + k),
]


def random_body(rng, carries, ys, one_chain):
    """A random sequence of linear operations, as a function for arrays of functad and of NumPy alike.

    one_chain: all carries but the first are sums that are only added to.
    """
    recipe = [(rng.integers(len(OPERATIONS)), rng.random(3), rng.uniform(0.5, 1.5)) for _ in range(rng.integers(4, 14))]
    results = rng.random(carries + ys)
    sums = np.arange(carries) > 0 if one_chain else rng.random(carries) < 0.3

    def body(where, state, slices, constants):
        known = [*slices, *constants]
        linear = [state[0]] if one_chain else list(state)

        def pick(values, at):
            return values[int(at * len(values))]

        for kind, (a, b, c), number in recipe:
            x, y, k = pick(linear, a), pick(linear, b), pick(known, c)
            linear.append(OPERATIONS[kind](where, x, y, k, number))
        given = [pick(linear, r) * 0.5 for r in results]
        state = [s + g if is_sum else g for s, g, is_sum in zip(state, given, sums)]
        return state, given[carries:]

    return body


@pytest.mark.generated(every=5)
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("reverse", [False, True])
def test_random_linear_bodies(reverse, part, all_linear, monkeypatch):
    rewritten = in_pairs = 0
    for seed in range(5 * part, 5 * part + 5):
        rng = np.random.default_rng(seed)
        carries, stacks, consts, one_chain = *rng.integers((1, 1, 0), (4, 3, 2)), seed % 2 == 0
        ys, steps = (0, 100) if one_chain else (rng.integers(0, 3), 101)
        body = random_body(rng, carries, ys, one_chain)
        start, rows = rng.normal(size=carries), rng.normal(size=(stacks, steps))
        constants = rng.normal(size=consts)

        def run(start, rows, constants, body=body):
            def step(state, slices):
                state, ys = body(jnp.where, list(state), slices, list(constants))
                return tuple(state), tuple(ys)

            return lax.scan(step, tuple(start), tuple(rows), reverse=reverse)

        start = [np.array(x) for x in start]
        state, stacked = list(start), [np.empty(steps) for _ in range(ys)]
        for i in reversed(range(steps)) if reverse else range(steps):
            state, given = body(np.where, state, rows[:, i], constants)
            for y, value in zip(stacked, given):
                y[i] = value
        args = start, list(rows), [np.array(c) for c in constants]
        assert_same(run, *args, expected=(state, stacked))
        rewritten += is_rewritten(monkeypatch, run, *args)
        in_pairs += operations_of_all(run, *args)[0][0] < steps
    assert rewritten >= 3 and in_pairs >= 1


def test_many_carries_that_are_no_mere_sums_are_not_taken_in_pairs(all_linear, monkeypatch):
    def run(rows):
        def step(state, row):
            x, *sums = state  # each is a sum of the one before
            return (row * (x * row + 1) * row, *(s + before for s, before in zip(sums, state))), None

        return lax.scan(step, (0.5, *np.zeros(number)), rows)[0]

    rows = np.linspace(0.1, 0.9, STEPS)
    for number in (1, 2, 3):
        (scan,) = loops(compiled_program(lambda rows: run(rows), rows))
        assert scan.params["length"] == (STEPS if number == 3 else STEPS // 2)
        assert is_rewritten(monkeypatch, run, rows)
        assert_same(lambda rows: run(rows), rows)


def test_what_each_step_stacks_keeps_its_place(all_linear, monkeypatch):
    rng = np.random.default_rng(0)
    args = rng.uniform(0.8, 1.1, STEPS), rng.normal(size=STEPS), np.array(0.7)
    assert is_rewritten(monkeypatch, chain, *args)
    assert_same(chain, *args)


def test_results_that_need_no_carry_leave_the_loop(all_linear):
    def run(rows, start):
        return lax.scan(lambda x, row: (x * row * row * 2, (row * row, 3.0)), start, rows)

    args = np.linspace(0.5, 0.7, STEPS), np.array(1.0)
    (scan,) = loops(compiled_program(run, *args))
    assert operations(scan) == ["mul", "mul"] and scan.params["length"] == STEPS // 2  # of two steps at once
    assert_same(run, *args)


@pytest.mark.parametrize(
    "body",
    [
        lambda x, k: x * x * k * k,
        lambda x, k: jnp.sin(x) * k * k * k,
        lambda x, k: k / (1 + x) * k * k,
        lambda x, k: jnp.where(x > 0, x * k * k, x),
        lambda x, k: jnp.asarray(jnp.asarray(x * k, "float32") * jnp.float32(0.5), "float64") * k,
        lambda x, k: jnp.where(k > 0, x * k * k * k, 0.1),  # 0 · NaN
        lambda x, k: jnp.where(k > 0, jnp.where(k > 0.5, x * k * k, 0.1), x * k),
    ],
)
def test_what_is_not_linear_and_what_is_short_stays(body, all_linear, monkeypatch):
    def run(start, rows):
        return lax.scan(lambda x, k: (body(x, k), None), start, rows)[0]

    args = np.array(0.3), np.linspace(-0.5, 0.9, STEPS)
    assert not is_rewritten(monkeypatch, run, *args)
    assert_same(run, *args)


def test_carries_of_other_types_and_short_loops_stay(all_linear, monkeypatch):
    integers = np.arange(STEPS, dtype=np.int32), np.arange(STEPS, dtype=np.int32), np.int32(3)
    assert not is_rewritten(monkeypatch, chain, *integers)
    halves = np.ones(STEPS, np.float16), np.ones(STEPS, np.float16), np.float16(0)
    assert not is_rewritten(monkeypatch, chain, *halves)
    few = np.ones(40), np.ones(40), np.array(0.0)
    assert not is_rewritten(monkeypatch, chain, *few)
    vectors = np.ones((STEPS, 3)), np.ones((STEPS, 3)), np.zeros(3)
    assert not is_rewritten(monkeypatch, chain, *vectors)
