"""What loops read is laid out for them: where they start, products with zeros, steps of stacks."""

from __future__ import annotations

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16
from fuzz.kernels import OpenExecutable
from optimized_tools import equations, optimized_program

import functad
import functad.numpy as jnp
from functad import lax
from functad.lowering import blocks as plan
from functad.optimize.pipeline import simplify, simplify_products
from functad.tracing import eval_program

STEPS, BATCH, HIDDEN = 12, 6, 40
RNG = np.random.default_rng(0)
WEIGHT = (RNG.normal(size=(HIDDEN, HIDDEN)) / 8).astype(np.float32)
ROWS = RNG.normal(size=(STEPS, BATCH, HIDDEN)).astype(np.float32)


def states(weight, rows, reverse=False):
    return lax.scan(
        lambda h, x: ((n := jnp.tanh(h @ weight + x)), n), jnp.zeros((BATCH, HIDDEN)), rows, reverse=reverse
    )


# --- the slice that is read first ------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_the_cotangent_of_the_last_state_becomes_the_start(reverse):
    last = 0 if reverse else -1

    def loss(w, rows):
        return (states(w, rows, reverse)[1][last] ** 2).sum()

    program = optimized_program(functad.grad(loss), WEIGHT, ROWS)
    assert not equations(program, "pad")


def test_other_slices_stay_a_stack():
    for at in (0, 5):
        program = optimized_program(functad.grad(lambda w, r, at=at: (states(w, r)[1][at] ** 2).sum()), WEIGHT, ROWS)
        assert len(equations(program, "pad")) == 1
    program = optimized_program(functad.grad(lambda w, r: (states(w, r)[1][-2:] ** 2).sum()), WEIGHT, ROWS)
    assert len(equations(program, "pad")) == 1


def test_a_first_slice_that_is_used_in_another_way_stays():
    def fun(x):
        xs = jnp.zeros((STEPS, 3)).at[0].set(x)
        return lax.scan(lambda c, s: (c + s, c * s), jnp.ones(3), xs)

    optimized_program(fun, np.arange(3, dtype=np.float32))
    padded = lambda x: lax.scan(  # noqa: E731
        lambda c, s: (lax.add(c, s) * 0.5, s), jnp.ones(3), lax.pad(x[None], 0.0, ((0, STEPS - 1, 0), (0, 0, 0)))
    )
    optimized_program(padded, np.arange(3, dtype=np.float32))


def test_a_carry_that_others_read_after_one_sum_is_gone_keeps_the_other_sum():
    def loss(w, xs):
        def step(c, x):
            scaled = c * x
            total = scaled + w * x
            return total, (total, scaled)

        _, (totals, products) = lax.scan(step, jnp.float32(1), xs)
        return 2 * totals[-1] + 3 * products[-1]

    program = optimized_program(functad.grad(loss), np.float32(0.5), np.linspace(0.9, 1.1, 20, dtype=np.float32))
    assert len(equations(program, "pad")) == 1


def test_the_first_slices_of_two_stacks_become_one_start():
    def loss(w, rows):
        ends, both = lax.scan(lambda h, x: (n := jnp.tanh(h @ w + x), (n, n)), jnp.zeros((BATCH, HIDDEN)), rows)
        return ((both[0][-1] + 1) * both[1][-1]).sum()

    assert not equations(optimized_program(functad.grad(loss), WEIGHT, ROWS), "pad")


# --- products with a number that is repeated -------------------------------------------------------------


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, 2.5, np.inf])
@pytest.mark.parametrize("side", ["left", "right"])
def test_products_with_a_repeated_number(number, side):
    other = RNG.normal(size=(4, 3)).astype(np.float32)
    other[1, 2] = np.inf
    other[2, 0] = np.nan

    def fun(x):
        if side == "left":
            return jnp.full((5, 4), number, np.float32) @ x
        return x @ jnp.full((3, 6), number, np.float32)

    made = simplify(functad.make_jaxpr(fun)(other))
    assert not equations(made, "dot_general")
    with np.errstate(invalid="ignore"):
        (want,) = eval_program(functad.make_jaxpr(fun)(other), [other])
        (got,) = eval_program(made, [other])
        np.testing.assert_allclose(got, want, rtol=1e-5)
        np.testing.assert_allclose(functad.jit(fun)(other), want, rtol=1e-5)


def test_products_with_a_repeated_number_of_higher_rank():
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    for fun in (
        lambda x: lax.dot_general(jnp.ones((5, 3, 6)), x, (((1,), (1,)), ((), ()))),
        lambda x: lax.dot_general(x, jnp.ones((4, 2, 6)), (((2, 0), (0, 1)), ((), ()))),
        lambda x: lax.dot_general(jnp.ones(3), x, (((0,), (1,)), ((), ()))),
    ):
        program = functad.make_jaxpr(fun)(x)
        made = simplify_products(program)
        functad.check_program(made)
        assert not equations(made, "dot_general")
        np.testing.assert_allclose(eval_program(made, [x])[0], eval_program(program, [x])[0], rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
def test_terms_of_narrow_floats_are_summed_before_they_are_rounded(dtype):
    x = jnp.array([300, -300, 1 / 3, 1 / 3], dtype)
    fun = lambda x: jnp.dot(x, jnp.full(4, 301, dtype))  # noqa: E731
    assert not equations(simplify(functad.make_jaxpr(fun)(x)), "dot_general")
    assert functad.jit(fun)(x) == fun(x) and abs(fun(x) - 200) < 2


@pytest.mark.parametrize("start", [0, -60_000])
def test_a_sum_of_float16_leaves_a_loop_if_that_starts_from_zeros(start):
    rows = np.full((100, 8), 100 if start else 10, np.float16)  # 80,000 and 8,000 in all
    fun = lambda rows: lax.scan(lambda c, x: (c + x.sum(), None), jnp.float16(start), rows)[0]  # noqa: E731
    program = optimized_program(fun, rows, rtol=1e-2)
    assert len(equations(program, "scan")) == (start != 0)


def test_products_in_a_batch_with_a_repeated_number_stay():
    program = functad.make_jaxpr(lambda x: jnp.ones((2, 5, 3)) @ x)(np.ones((2, 3, 4), np.float32))
    assert equations(simplify_products(program), "dot_general")


# --- steps of stacks ----------------------------------------------------------------------------


def test_a_step_of_a_stack_is_what_was_stacked():
    def fun(a, b):
        stacked = jnp.stack([a, b, a + b], 1)
        return stacked[:, 1] * 2, stacked[:, 2], stacked[:1], stacked[:, 3:]

    a, b = RNG.normal(size=(2, 4, 3)).astype(np.float32)
    program = optimized_program(fun, a, b)
    assert program.outvars[1] is next(e for e in program.eqns if e.primitive.name == "add").outvars[0]


def test_an_unrolled_recurrent_network_stacks_nothing():
    fun = functad.grad(lambda w, rows: (states(w, rows)[0] ** 2).sum())
    program = optimized_program(fun, WEIGHT, ROWS[:4])
    names = [e.primitive.name for e in program.eqns]
    assert not {"scan", "stack", "concatenate", "pad"} & set(names)
    assert names.count("dot_general") == 3 + 3 + 3  # forward, states, weights: none for the state that is zero


# --- threads ---------------------------------------------------------------------------------------------


def test_a_wide_product_does_not_keep_a_loop_from_running_row_by_row(monkeypatch):
    monkeypatch.setattr(plan, "available_cores", lambda: (2, "for this test"))
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(20, 64, 256)).astype(np.float32)
    weight = (rng.normal(size=(64, 256)) / 16).astype(np.float32)

    def gated(weight, rows):
        def step(h, x):
            a, b, c, d = jnp.split(h @ weight + x, 4, 1)
            return (h := jnp.tanh(a) * b + jnp.tanh(c * d)), h

        return lax.scan(step, jnp.zeros((64, 64)), rows)[1]

    program = simplify(functad.make_jaxpr(gated)(weight, rows))
    run = OpenExecutable(program)
    (loop,) = (item for item in run.blocks if isinstance(item, plan.ControlPlan))
    assert loop.by_rows
    results = []
    for threads in (1, 2):
        with functad.config.context(num_threads=threads):
            results.append(np.array(run([weight, rows])[0]))
    assert np.array_equal(*results)
    np.testing.assert_allclose(results[0], eval_program(program, [weight, rows])[0], rtol=1e-3, atol=1e-5)
    alone = OpenExecutable(functad.make_jaxpr(lambda a, b: jnp.tanh(a @ b))(rows[0, :, :64], weight))
    assert len(alone.blocks) == 2  # there threads share columns, and then elements


def sum_of_products(xs, u, w, b):
    def step(h, x):
        gates = jnp.tanh(b + (x * h[:, :1]) @ u + 2.0 + h @ w)
        h = gates[:, :24] * gates[:, 24:48] + gates[:, 48:72] * gates[:, 72:]
        return h, h

    return lax.scan(step, jnp.ones((8, 24), xs.dtype), xs)[1]


def shapes_of_products(*args):
    (scan,) = [e for e in optimized_program(sum_of_products, *args).eqns if e.primitive.name == "scan"]
    body = scan.params["jaxpr"]
    return [[a.aval.shape for a in e.invars] for e in body.eqns if e.primitive.name == "dot_general"]


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_products_with_weights_that_are_added_are_one_product(dtype):
    rng = np.random.default_rng(5)
    args = [rng.uniform(-0.2, 0.2, s).astype(dtype) for s in ((9, 8, 6), (6, 96), (24, 96), (96,))]
    assert shapes_of_products(*args) == [[(8, 30), (30, 96)]]
    np.testing.assert_allclose(functad.jit(sum_of_products)(*args), sum_of_products(*args), rtol=2e-5, atol=2e-6)


def test_products_with_transposed_weights_are_one_product():
    def states(xs, u, w):
        return lax.scan(lambda h, x: (jnp.tanh((x * h[:, :1]) @ u.T + h @ w.T)[:, :24], None), jnp.ones((8, 24)), xs)[0]

    rng = np.random.default_rng(5)
    args = [rng.uniform(-0.2, 0.2, s).astype(np.float32) for s in ((9, 8, 6), (96, 6), (96, 24))]
    (scan,) = [e for e in optimized_program(states, *args).eqns if e.primitive.name == "scan"]
    (product,) = [e for e in scan.params["jaxpr"].eqns if e.primitive.name == "dot_general"]
    assert [a.aval.shape for a in product.invars] == [(8, 30), (96, 30)]
    np.testing.assert_allclose(functad.jit(states)(*args), states(*args), rtol=2e-5, atol=2e-6)


def test_products_are_not_joined_where_that_moves_more():
    args = [np.zeros(s, np.float32) for s in ((9, 8, 96), (96, 96), (24, 96), (96,))]
    assert len(shapes_of_products(*args)) == 2  # rows of 120 elements to be written, and weights, for results of 96


@pytest.mark.parametrize("before", [False, True])
def test_a_product_that_joins_one_of_the_state_is_not_computed_for_all_steps(before):
    def gated(xs, u, w, b):
        def step(h, x):
            gates = jnp.tanh((x if before else x @ u + b) + h @ w)
            h = gates[:, :24] * gates[:, 24:48] + gates[:, 48:72] * gates[:, 72:]
            return h, h

        return lax.scan(step, jnp.ones((8, 24)), xs @ u + b if before else xs)[1]

    rng = np.random.default_rng(5)
    args = [rng.uniform(-0.2, 0.2, s).astype(np.float32) for s in ((9, 8, 6), (6, 96), (24, 96), (96,))]
    program = optimized_program(gated, *args)
    (scan,) = (e for e in program.eqns if e.primitive.name == "scan")
    products = [e for e in scan.params["jaxpr"].eqns if e.primitive.name == "dot_general"]
    assert [[a.aval.shape for a in e.invars] for e in products] == [[(8, 30), (30, 96)]]
    assert not any(e.primitive.name == "dot_general" for e in program.eqns)
    np.testing.assert_allclose(functad.jit(gated)(*args), gated(*args), rtol=2e-5, atol=2e-6)


# --- stacks given on -------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
def test_a_stack_whose_slices_are_given_on_is_not_copied(reverse):
    def f(weight, rows):
        def step(c, x):
            return c + x[0, 0], (x @ weight, c, weight[0], 2.0)

        return lax.scan(step, 0.0, rows, reverse=reverse)

    program = optimized_program(f, WEIGHT, ROWS)
    (scan,) = equations(program, "scan")
    assert [v.aval.shape for v in scan.outvars] == [(), (STEPS,)]  # the products, and what is the same, are without it
    last, (products, states, same, numbers) = functad.jit(f)(WEIGHT, ROWS)
    taken = ROWS[::-1, 0, 0] if reverse else ROWS[:, 0, 0]
    sums = np.cumsum(taken)
    np.testing.assert_allclose(last, sums[-1], rtol=1e-5)
    np.testing.assert_allclose(states, (sums - taken)[:: -1 if reverse else 1], atol=1e-5)
    np.testing.assert_allclose(products, ROWS @ WEIGHT, atol=1e-5)
    np.testing.assert_array_equal(same, np.broadcast_to(WEIGHT[0], (STEPS, HIDDEN)))
    np.testing.assert_array_equal(numbers, np.full(STEPS, 2.0))


def test_a_loop_that_gives_stacks_on_alone_is_none():
    program = optimized_program(lambda w, x: lax.map(lambda row: row @ w, x), WEIGHT, ROWS)
    assert [e.primitive.name for e in program.eqns] == ["dot_general"]
