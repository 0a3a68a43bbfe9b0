"""The passes over loops: what leaves them, what is joined, what is unrolled; each with the same results as before."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from optimized_tools import optimized_program

import functad
import functad.numpy as jnp
from functad import lax, machine_model
from functad.editing.dead_code import eliminate_dead_code
from functad.execution import optimized
from functad.optimize.loops import moves
from functad.optimize.pipeline import optimize_control
from functad.tracing import eval_program

STEPS, BATCH, INPUTS, HIDDEN = 12, 5, 4, 3
RNG = np.random.default_rng(0)
PARAMS = {
    "w": RNG.normal(size=(INPUTS, HIDDEN)).astype(np.float32),
    "u": (RNG.normal(size=(HIDDEN, HIDDEN)) / 3).astype(np.float32),
    "b": RNG.normal(size=HIDDEN).astype(np.float32),
}
ROWS = RNG.normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)


def recurrent(params, rows):
    def step(state, row):
        state = jnp.tanh(row @ params["w"] + state @ params["u"] + params["b"])
        return state, state

    last, states = lax.scan(step, jnp.zeros((BATCH, HIDDEN)), rows)
    return (last * last).sum() + jnp.sin(states).sum()


def scans(program):
    return [e for e in program.eqns if e.primitive.name == "scan"]


def names(program):
    return [e.primitive.name for e in program.eqns]


def test_products_of_the_inputs_of_all_steps_are_one_before_the_loop():
    program = optimized_program(recurrent, PARAMS, ROWS)
    (scan,) = scans(program)
    (outside,) = [e for e in program.eqns if e.primitive.name == "dot_general"]
    assert outside.outvars[0].aval.shape == (STEPS, BATCH, HIDDEN)
    assert names(scan.params["jaxpr"]).count("dot_general") == 1  # that of the state stays
    assert program.eqns.index(outside) < program.eqns.index(scan)


def test_gradients_of_weights_are_one_product_after_the_loop():
    program = optimized_program(functad.grad(recurrent), PARAMS, ROWS)
    forward, backward = scans(program)
    assert names(backward.params["jaxpr"]).count("dot_general") == 1
    assert backward.params["num_carry"] == 1  # no sums of gradients
    after = program.eqns[program.eqns.index(backward) + 1 :]
    shapes = {e.outvars[0].aval.shape for e in after if e.primitive.name == "dot_general"}
    assert shapes == {(INPUTS, HIDDEN), (HIDDEN, HIDDEN)}
    assert [e.outvars[0].aval.shape for e in after if e.primitive.name == "reduce_sum"] == [(HIDDEN,)]
    assert not any(e.primitive.name == "add_any" for e in after)  # sums start from nothing


def test_a_forward_loop_stores_only_what_the_backward_loop_cannot_recompute():
    program = optimized_program(functad.grad(recurrent), PARAMS, ROWS)
    forward, _ = scans(program)
    stacked = forward.outvars[forward.params["num_carry"] :]
    assert [v.aval.shape for v in stacked] == [(STEPS, BATCH, HIDDEN)] * 2  # the states, and those before each step


def test_a_constant_that_is_repeated_for_all_rows_is_not_stored():
    def scaled(weights, start):
        return lax.scan(lambda s, _: (jnp.tanh(s * weights), None), start, None, length=STEPS)[0].sum()

    forward, backward = scans(optimized_program(functad.grad(scaled), PARAMS["b"], ROWS[0, :, :HIDDEN]))
    stacked = forward.outvars[forward.params["num_carry"] :]
    assert len(stacked) == 2  # the states before and after each step
    assert any(a.aval.shape == (HIDDEN,) for a in backward.invars)


def test_large_products_stay_in_the_loop(monkeypatch):
    monkeypatch.setattr(machine_model, "LARGEST_HOISTED_PRODUCT", 10.0)
    program = eliminate_dead_code(optimize_control(functad.make_jaxpr(functad.grad(recurrent))(PARAMS, ROWS)))
    forward, backward = scans(program)
    assert names(forward.params["jaxpr"]).count("dot_general") == 2
    assert names(backward.params["jaxpr"]).count("dot_general") == 3


def test_products_of_large_arrays_made_in_each_step_stay_in_the_loop():
    """The loop exists so that the square of all differences is not there for all rows at once."""

    def smoothed(rows, weights):
        return lax.map(lambda row: jnp.exp(-((row[:, None] - row) ** 2)) @ weights, rows)

    types = [functad.ShapeDtypeStruct(shape, "float32") for shape in ((1000, 300), (300,))]
    made = optimized(functad.make_jaxpr(smoothed)(*types))
    (scan,) = scans(made)
    assert "dot_general" in names(scan.params["jaxpr"])
    assert max(v.aval.size for e in made.eqns for v in e.outvars) == 1000 * 300


@pytest.mark.parametrize("state", [np.full((2, 3), 50, np.int8), np.full((2, 3), 3e4, np.float16)])
def test_sums_of_widened_products_do_not_overflow(state):
    """Each product fits into the dtype of the state, the sum of all does not."""

    def total(state):
        def step(carry, _):
            state, total = carry
            halved = state - state // 2
            return (
                halved,
                total + lax.dot_general(state, halved // halved, (((0,), (0,)), ((), ()))).astype("float32"),
            ), None

        return lax.scan(step, (state, jnp.zeros((3, 3))), None, length=400)[0][1]

    program = functad.make_jaxpr(total)(state)
    (want,), (got,) = (eval_program(p, [state]) for p in (program, optimized(program)))
    np.testing.assert_array_equal(got, want)


def test_what_a_loop_computes_of_products_is_not_computed_of_their_sum():
    count = machine_model.UNROLLED_STEPS + 1
    rows, weights = (RNG.normal(size=shape).astype(np.float32) for shape in ((STEPS, count, 40), (STEPS, 40, 30)))

    def total(rows, weights):
        def step(carry, given):
            state, summed = carry
            state = jnp.tanh(state + given[0])
            return (state, summed + lax.map(jnp.sin, state @ given[1])), None

        return lax.scan(step, (rows[0], jnp.zeros((count, 30))), (rows, weights))[0][1]

    np.testing.assert_allclose(functad.jit(total)(rows, weights), total(rows, weights), rtol=1e-3, atol=1e-3)


def test_what_does_not_change_is_computed_before_the_loop():
    def fun(a, xs):
        return lax.scan(lambda total, x: (total + jnp.sin(a).sum() * x, None), 0.0, xs)[0]

    program = optimized_program(fun, np.arange(6.0, dtype=np.float32), np.arange(20.0, dtype=np.float32))
    (scan,) = scans(program)
    assert "sin" in names(program) and "sin" not in names(scan.params["jaxpr"])


def test_what_does_not_change_is_computed_before_a_while_loop():
    def fun(a, x):
        return lax.while_loop(lambda v: v < 100, lambda v: v + jnp.exp(a).sum(), x)

    program = optimized_program(fun, np.ones(4, np.float32), np.float32(0))
    (loop,) = [e for e in program.eqns if e.primitive.name == "while"]
    assert "exp" in names(program) and "exp" not in names(loop.params["body_jaxpr"])


def test_a_loop_that_may_never_end_does_not_leave_a_loop_that_may_take_no_step():
    def powers(steps, factor):
        def step(carry):
            k, total = carry
            return k + 1, total + lax.while_loop(lambda v: v < 100, lambda v: v * factor, 1.0)

        return lax.while_loop(lambda carry: carry[0] < steps, step, (0, 0.0))[1]

    for fun in (powers, functad.grad(powers, 1)):
        made = optimized(functad.make_jaxpr(fun)(3, 2.0))
        assert sum(e.primitive.name == "while" for e in made.eqns) == 1
        assert eval_program(made, [np.int32(0), np.float32(1)])[0] == 0
    assert eval_program(optimized(functad.make_jaxpr(powers)(3, 2.0)), [np.int32(3), np.float32(2)])[0] == 384


def test_a_carry_that_never_changes_is_a_constant():
    def fun(a, xs):
        return lax.scan(lambda c, x: ((c[0], c[1] * c[0] + x), None), (a, a), xs)[0]

    program = optimized_program(fun, np.float32(0.5), np.arange(20.0, dtype=np.float32))
    (scan,) = scans(program)
    assert scan.params["num_carry"] == 1 and scan.params["num_consts"] == 1


def test_unused_results_and_carries_are_dropped():
    def fun(xs):
        def step(c, x):
            return (c[0] + x, c[1] * x), (jnp.sin(x), jnp.cos(x))

        (total, _), (_, cosines) = lax.scan(step, (jnp.float32(0), jnp.float32(1)), xs)
        return total + cosines.sum()

    program = optimized_program(fun, np.arange(20.0, dtype=np.float32))
    (scan,) = scans(program)
    assert scan.params["num_carry"] == 1 and len(scan.outvars) == 2
    assert "sin" not in names(scan.params["jaxpr"])


def test_unused_parts_of_branches_and_while_loops_are_dropped():
    def fun(x, y):
        first, _ = lax.cond(x > 0, lambda x, y: (x * 2, y + 1), lambda x, y: (x * 3, y + 2), x, y)
        last, _ = lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * y), (first, y))
        return last

    program = optimized_program(fun, np.float32(1), np.float32(2))
    (cond,) = [e for e in program.eqns if e.primitive.name == "cond"]
    (loop,) = [e for e in program.eqns if e.primitive.name == "while"]
    assert len(cond.outvars) == 1 and len(cond.invars) == 2
    assert len(loop.outvars) == 1 and loop.params["body_nconsts"] == 0


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_short_loops_are_unrolled(steps, reverse):
    def fun(init, xs):
        return lax.scan(lambda c, x: (c * x + 1, c - x), init, xs, reverse=reverse)

    xs = np.arange(1.0, steps + 1, dtype=np.float32)
    program = optimized_program(fun, np.float32(2), xs)
    assert not scans(program)


def test_unroll_takes_a_loop_apart():
    def fun(xs, unroll):
        return lax.scan(lambda c, x: (c * x + 1, None), jnp.float32(1), xs, unroll=unroll)[0]

    xs = np.linspace(0, 1, 100, dtype=np.float32)
    assert not scans(optimized_program(lambda xs: fun(xs, True), xs))
    assert not scans(optimized_program(lambda xs: fun(xs, 100), xs))
    (scan,) = scans(optimized_program(lambda xs: fun(xs, 4), xs))
    assert scan.params["length"] == 100 and names(scan.params["jaxpr"]).count("mul") == 1


def test_bodies_are_simplified():
    def fun(xs):
        return lax.scan(lambda c, x: (functad.jit(lambda v: v * 1.0 + x * 1.0)(c), None), jnp.float32(0), xs)[0]

    (scan,) = scans(optimized_program(fun, np.arange(20.0, dtype=np.float32)))
    assert names(scan.params["jaxpr"]) == ["add"]


def test_a_body_knows_the_numbers_that_a_call_gave_its_loop():
    @functad.jit
    def damped(x, factor, rate):
        return lax.scan(lambda c, _: (jnp.sin(c) * factor / rate, None), x, None, 100)[0]

    program = optimized_program(lambda x: damped(x, 1.0, 3.0), ROWS[0])
    (scan,) = scans(program)
    assert names(scan.params["jaxpr"]) == ["sin", "div"] and scan.params["num_consts"] == 0


def test_the_size_of_a_program_does_not_depend_on_the_length_of_a_loop():
    def fun(xs):
        return functad.grad(lambda xs: lax.scan(lambda c, x: (jnp.sin(c * x), c), jnp.float32(1), xs)[1].sum())(xs)

    sizes = {n: len(optimized_program(fun, np.ones(n, np.float32)).eqns) for n in (150, 500)}
    assert sizes[150] == sizes[500]


def test_a_loop_and_the_one_that_reads_what_it_stacks_are_one():
    def fun(xs):
        doubled = lax.scan(lambda c, x: (c + x, c * 2), jnp.float32(0), xs)[1]
        scale = jnp.sin(xs[0])
        total, parts = lax.scan(lambda c, y: (c + y * scale, c), jnp.float32(1), doubled)
        return total, parts

    (scan,) = scans(optimized_program(fun, np.linspace(0, 1, 50, dtype=np.float32)))
    assert len(scan.outvars) == 3  # both carries (the first is read inside), and what is returned


def test_loops_stay_apart_where_the_second_needs_the_end_of_the_first():
    def fun(xs):
        last, ys = lax.scan(lambda c, x: (c + x, c * 2), jnp.float32(0), xs)
        return lax.scan(lambda c, y: (c * last + y, None), jnp.float32(1), ys)[0]

    assert len(scans(optimized_program(fun, np.linspace(0, 1, 50, dtype=np.float32)))) == 2


def test_forward_mode_stores_no_residuals():
    tangents = functad.tree.map(np.ones_like, PARAMS)

    def fun(params, rows):
        return functad.jvp(lambda p: recurrent_end(p, rows), (params,), (tangents,))

    def recurrent_end(params, rows):
        return lax.scan(
            lambda h, x: (jnp.tanh(x @ params["w"] + h @ params["u"]), None), jnp.zeros((BATCH, HIDDEN)), rows
        )[0]

    (scan,) = scans(optimized_program(fun, PARAMS, ROWS))
    assert len(scan.outvars) == scan.params["num_carry"] == 2


@pytest.mark.parametrize("told", ["slice", "carry"])
def test_what_has_effects_stays_in_its_step(told):
    """Beside a product that leaves the loop: it is computed for all steps at once, and nothing else is."""
    seen = []

    def fun(xs, w):
        def step(c, x):
            functad.debug.callback(lambda v: seen.append(float(v[0])), {"slice": x, "carry": c}[told])
            return 0.5 * c + x @ w, None

        return lax.scan(step, jnp.zeros(HIDDEN), xs)[0]

    xs = RNG.normal(size=(STEPS, INPUTS)).astype(np.float32)
    (scan,) = scans(optimized_program(fun, xs, PARAMS["w"]))
    assert "dot_general" not in names(scan.params["jaxpr"])
    functad.effects_barrier()
    seen.clear()
    functad.jit(fun)(xs, PARAMS["w"])
    functad.effects_barrier()
    found = list(seen)
    seen.clear()
    fun(xs, PARAMS["w"])
    functad.effects_barrier()
    np.testing.assert_allclose(found, seen, rtol=1e-5, atol=1e-6)
    assert len(found) == STEPS


def test_each_move_needs_what_its_loops_have():
    """The check asks about the parameters of the primitives that a move names."""
    program = functad.make_jaxpr(lambda rows: recurrent(PARAMS, rows))(ROWS)
    (scan,) = scans(program)
    allowed = [m.name for m in moves.allowed("each", scan)]
    assert "small products" in allowed and "loop-invariant code" in allowed
    assert not {"linear recurrences", "stacks computed slice by slice", "strips", "scan fusion"} & {*allowed}


def test_the_table_of_moves_names_the_numbers_by_which_they_pay():
    text = "".join(path.read_text(encoding="utf-8") for path in Path(moves.__file__).parent.glob("*.py"))
    read = {*re.findall(r"machine_model\.([A-Z_]+)", text)}
    assert {name for move in moves.MOVES for name in move.pays} == read
    assert all(hasattr(machine_model, name) for name in read)
