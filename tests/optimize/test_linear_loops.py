"""Loops that are linear in their numbers: what is rewritten, what stays, and that the results are the same."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax, machine_model
from functad.editing.dead_code import eliminate_dead_code
from functad.execution import optimized
from functad.ir import Literal
from functad.optimize.loops import moves
from functad.optimize.loops.legality import known_steps
from functad.optimize.loops.linear_recurrences import rewrite_linear_recurrence
from functad.primitives.cost import latency_of, operations_of
from functad.tracing import eval_program

pytestmark = pytest.mark.generated(every=6)  # tables of shapes, dtypes and ways

STEPS = 200


def compiled_program(fun, *args):
    """The Program of a function as it is compiled."""
    made = optimized(functad.make_jaxpr(fun)(*args))
    functad.check_program(made)
    return made


def set_move(monkeypatch, name, apply, **changes):
    """Put another function in the place of what a move does to scans."""
    table = [m._replace(apply=apply, **changes) if m.name == name else m for m in moves.MOVES]
    monkeypatch.setattr(moves, "MOVES", table)


def work_takes_no_time(monkeypatch):
    """Let only chains of operations that wait for one another count."""
    monkeypatch.setattr(machine_model, "OPERATIONS_MEANWHILE", np.inf)
    monkeypatch.setattr(machine_model, "COEFFICIENT_OPERATIONS", 0)


@pytest.fixture
def all_linear(monkeypatch):
    """Lets all scans pass for derivatives, so that a body can be written as it is."""
    work_takes_no_time(monkeypatch)
    set_move(monkeypatch, "linear recurrences", rewrite_linear_recurrence, needs=(known_steps,))


def loops(program):
    return [e for e in program.eqns if e.primitive.name == "scan"]


def takes_rewritten(fun, *args):
    """Whether the choices between the loops as rewritten and as written fall on the former, for these arguments."""
    return chooses_rewritten(compiled_program(fun, *args), *args)


def chooses_rewritten(program, *args):
    chosen = [e.invars[0] for e in program.eqns if e.primitive.name == "cond"]
    assert chosen
    return all(eval_program(program.replace(outvars=chosen), functad.tree.leaves(args)))


def operations(scan):
    """The arithmetic in a body, without what only picks an element, and what watches the range."""
    arithmetic = ("add", "add_any", "sub", "mul", "div", "neg", "select_n", "sin", "integer_pow", "square")
    body, count = scan.params["jaxpr"], scan.params["num_carry"]
    starts = scan.invars[scan.params["num_consts"] :][:count]
    if isinstance(starts[-1], Literal) and starts[-1].value == np.finfo(starts[-1].aval.dtype).max:
        body = body.replace(outvars=[*body.outvars[: count - 2], *body.outvars[count:]])
    return sorted(e.primitive.name for e in eliminate_dead_code(body).eqns if e.primitive.name in arithmetic)


def is_rewritten(monkeypatch, fun, *args):
    """Whether the pass makes another Program of a function."""
    made = operations_of_all(fun, *args)
    with monkeypatch.context() as patch:
        set_move(patch, "linear recurrences", lambda *args: None)
        return operations_of_all(fun, *args) != made


def operations_of_all(fun, *args):
    program = compiled_program(lambda *args: fun(*args), *args)
    return [(e.params["length"], operations(e)) for e in loops(program)]


def assert_same(fun, *args, expected=None, tolerance=1e-10):
    """Compiled, and by NumPy after the passes, a function gives what it gives un-jitted, or what is expected."""
    expected = functad.tree.leaves(fun(*args) if expected is None else expected)
    by_numpy = eval_program(compiled_program(fun, *args), functad.tree.leaves(args))
    for found in (by_numpy, functad.tree.leaves(functad.jit(fun)(*args))):
        for got, want in zip(found, expected, strict=True):
            got, want = np.asarray(got), np.asarray(want)
            assert got.dtype == want.dtype and got.shape == want.shape
            finite = np.isfinite(want)
            np.testing.assert_array_equal(np.isfinite(got), finite)
            scale = max(1e-30, np.max(np.abs(want[finite]), initial=0.0))
            np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=tolerance * scale)


# --- gradients of loops -----------------------------------------------------------------------------------


def logistic(start, r, steps=STEPS):
    def step(x, _):
        x = r * x * (1 - x)
        return x, x

    return lax.scan(step, start, None, length=steps)[1].mean()


def oscillator(x, v, stiffness, steps=STEPS):
    def slope(x, v):
        return v, stiffness * (1 - x * x) * v - x

    def step(state, _):
        x, v = state
        dx, dv = slope(x, v)
        dx, dv = slope(x + 0.005 * dx, v + 0.005 * dv)
        return (x + 0.01 * dx, v + 0.01 * dv), None

    (x, v), _ = lax.scan(step, (x, v), None, length=steps)
    return x * x + v


def lorenz(x, y, z):
    """Midpoint steps: each of the three numbers depends on all."""

    def slope(x, y, z):
        return 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z

    def step(state, _):
        middle = [s + 0.005 * d for s, d in zip(state, slope(*state))]
        return tuple(s + 0.01 * d for s, d in zip(state, slope(*middle))), None

    return sum(lax.scan(step, (x, y, z), None, length=STEPS)[0])


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


def chain(factors, offsets, start, then=lambda x: x):
    """x ← (x·f·f + o)·f, of which `then` makes the new x."""

    def step(x, of):
        f, offset = of
        return then((x * f * f + offset) * f), x

    return lax.scan(step, start, (factors, offsets))


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


# --- what is not safe runs as it was written --------------------------------------------------------------


def test_a_loop_that_somebody_writes_stays_as_it_is():
    def run(start, factors):
        return lax.scan(lambda x, f: (x * f * f, None), start, factors)[0]

    factors = np.full(STEPS, 1e-20, np.float32)
    factors[0], factors[1:4] = 1e25, 1e-15
    args = np.float32(1e-30), factors
    (scan,) = loops(compiled_program(run, *args))
    assert scan.params["length"] == STEPS and operations(scan) == ["mul", "mul"]
    assert np.array(functad.jit(run)(*args)) == np.array(run(*args))


def scaled_steps(start, factors):
    """x ← sin(x·f·g) for rows (f, g): a derivative whose factors are given."""
    return lax.scan(lambda x, row: (jnp.sin(x * row[0] * row[1]), x), start, (factors[0], factors[1]))


def cotangents(factors, start, of_last):
    last, pullback = functad.vjp(lambda x: scaled_steps(x, factors)[0], start)
    return pullback(of_last)[0]


def test_a_gradient_takes_the_short_way_where_it_is_safe_only():
    ordinary = np.full((2, STEPS), 0.99, np.float32)
    assert takes_rewritten(cotangents, ordinary, np.float32(0.1), np.float32(1))
    for value, is_safe in ((1e-15, True), (1e10, True), (0.0, False), (1e-35, False), (1e20, False), (np.inf, False)):
        for row in (0, 1):
            factors = ordinary.copy()
            factors[row, STEPS // 2] = value
            assert takes_rewritten(cotangents, factors, np.float32(0), np.float32(1)) is is_safe, value
    factors[0, 0] = np.nan
    assert not takes_rewritten(cotangents, factors, np.float32(0), np.float32(1))
    for of_last, is_safe in ((1e-10, True), (1e20, True), (0.0, True), (1e-35, False), (1e37, False), (np.nan, False)):
        assert takes_rewritten(cotangents, ordinary, np.float32(0.1), np.float32(of_last)) is is_safe, of_last


def test_a_start_at_rest_takes_the_short_way():
    """A velocity of 0 makes factors of 0, and underflows where nothing is lost."""
    gradient = functad.grad(oscillator, (0, 1, 2))
    for dtype in (np.float32, np.float64):
        args = [np.array(v, dtype) for v in (2.0, 0.0, 0.5)]
        assert takes_rewritten(gradient, *args)
        assert_same(gradient, *args, tolerance=1e-4 if dtype is np.float32 else 1e-10)


def test_a_derivative_that_starts_as_zero_takes_the_short_way():
    """The last steps are in no loss: nothing flows back from them."""

    def loss(start, r):
        states = lax.scan(lambda x, _: (r * x * (1 - x),) * 2, start, None, length=STEPS)[1]
        return jnp.sum(states[: STEPS // 2] ** 2)

    gradient = functad.grad(loss, (0, 1))
    args = np.array(0.3), np.array(3.2)
    assert takes_rewritten(gradient, *args)
    assert_same(gradient, *args)


@pytest.mark.parametrize("decades", [2, 12, 30])
def test_no_gradient_leaves_the_range_that_stays_within_it_as_written(decades):
    """Factors of all sizes in pairs that undo each other: jitted and un-jitted differ by rounding only."""
    found = functad.jit(cotangents)
    both = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sizes = rng.uniform(-decades, decades, STEPS) * (rng.random(STEPS) < rng.choice([0.03, 0.3, 1]))
        factors = np.stack([10.0**sizes, 10.0**-sizes * rng.uniform(0.9, 1.1, STEPS)]).astype(np.float32)
        factors = rng.permutation(factors)
        of_last = np.float32(10.0 ** rng.uniform(-decades, decades))
        with np.errstate(all="ignore"):
            want = np.asarray(cotangents(factors, np.float32(0.01), of_last))
        got = np.asarray(found(factors, np.float32(0.01), of_last))
        both += bool(np.isfinite(want) and want != 0)
        np.testing.assert_allclose(got, want, rtol=1e-3)
    assert both > 10


@pytest.mark.parametrize("place", [100, 101])
@pytest.mark.parametrize("exponent, of_last", [(25, 1e-30), (-25, 1e30), (-30, 1e35)])
def test_two_steps_whose_product_is_out_of_range(exponent, of_last, place):
    """The cotangent is of ordinary size after both; as two steps become one, their product is not."""
    factors = np.ones((2, STEPS), np.float32)
    factors[0, place : place + 2] = 10.0**exponent
    found = np.array(functad.jit(cotangents)(factors, np.float32(0), np.float32(of_last)))
    np.testing.assert_allclose(found, of_last * 10.0 ** (2 * exponent), rtol=1e-5)


def test_an_underflow_that_a_later_factor_makes_large():
    """The product of the small factors has few digits; with the cotangent it has more."""

    def of_start(rows, of_last):
        def run(x):
            return lax.scan(lambda x, r: (x * r[0] * r[1] * r[2], None), x, tuple(rows[i] for i in range(3)))[0]

        return functad.vjp(run, np.float32(0))[1](of_last)[0]

    rows = np.ones((3, STEPS), np.float32)
    rows[:, -5] = 1e15, 1e-22, 1.3e-22
    found = np.array(functad.jit(of_start)(rows, np.float32(1e4)))
    np.testing.assert_allclose(found, 1.3e-25, rtol=1e-3)


@pytest.mark.parametrize("a, b, of_last", [(1e-25, 1e-25, 1e30), (1e25, 1e25, 1e-30), (1e-35, 1e-10, 1e30)])
def test_a_sum_whose_factors_are_out_of_range_together(a, b, of_last):
    """The cotangents themselves stay as they are."""

    def of_weight(a, b, of_last):
        def run(w):
            return lax.scan(lambda x, k: (x * k * k + w * a[0] * b[0] * k, None), zero, np.ones(STEPS, np.float32))[0]

        return functad.vjp(run, zero)[1](of_last)[0]

    zero = np.float32(0)
    arrays = np.float32([a]), np.float32([b])
    found = np.array(functad.jit(of_weight)(*arrays, np.float32(of_last)))
    np.testing.assert_allclose(found, STEPS * a * b * of_last, rtol=1e-4)
    safe = np.ones(1, np.float32)
    assert takes_rewritten(of_weight, safe, safe, np.float32(1))
    with np.errstate(all="ignore"):
        assert not takes_rewritten(of_weight, *arrays, np.float32(of_last))


def coupled_steps(x, v, rows):
    """Two numbers that depend on each other; the factors of their derivatives at 0 are given."""

    def step(state, r):
        x, v = state
        new = jnp.sin(x * r[0] * r[1]) + v * r[2] * r[3]
        return (new, jnp.sin(v * r[4]) / r[5] * r[6] + x * r[7]), new * r[8]

    return lax.scan(step, (x, v), tuple(rows[i] for i in range(9)))


def coupled_cotangents(x, v, rows, of_last, of_all):
    return functad.vjp(lambda x, v: coupled_steps(x, v, rows), x, v)[1]((of_last, of_all))


def coupled_cotangents_of_last(x, v, rows, of_last):
    return functad.vjp(lambda x, v: coupled_steps(x, v, rows)[0], x, v)[1](of_last)


def factors_of_all_sizes(rng, decades):
    """Rows for `coupled_steps`, of which some undo one another, and some are 0 now and then, or from some step on."""
    sizes = rng.uniform(-decades, decades, (9, STEPS)) * (rng.random((9, STEPS)) < rng.choice([0.02, 0.2, 1]))
    sizes[[1, 3]] -= sizes[[0, 2]]
    sizes[6] += sizes[5]
    rows = 10.0**sizes * rng.uniform(0.6, 1.2, (9, STEPS))
    if rng.random() < 0.5:
        rows[rng.choice([0, 1, 2, 3, 4, 6, 7, 8])][rng.random(STEPS) < rng.choice([0.01, 0.5, 1])] = 0
    if rng.random() < 0.3:
        rows[8, STEPS // 2 :] = 0
    return rows.astype(np.float32)


@pytest.mark.parametrize("decades", [0.3, 2, 12, 30])
def test_cotangents_of_two_numbers_keep_their_range(decades):
    functions = coupled_cotangents, coupled_cotangents_of_last
    compiled = [functad.jit(fun) for fun in functions]
    programs = {}
    zero, short = np.float32(0), 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        with np.errstate(over="ignore"):
            rows = factors_of_all_sizes(rng, decades)
            scales = (10.0 ** rng.uniform(-decades, decades, STEPS + 2)).astype(np.float32)
        scales[rng.random(STEPS + 2) < rng.choice([0, 0.5])] = 0
        of_last, of_all = (scales[0], scales[1]), scales[2:]
        for fun, found, more in zip(functions, compiled, ((of_all,), ())):
            args = zero, zero, rows, of_last, *more
            with np.errstate(all="ignore"):
                want = np.array(fun(*args))
            np.testing.assert_allclose(np.array(found(*args)), want, rtol=1e-3)
            with np.errstate(all="ignore"):
                programs[fun] = programs.get(fun) or compiled_program(fun, *args)
                short += chooses_rewritten(programs[fun], *args)
    assert short > 10 if decades < 1 else short < 60


# --- numbers that are not finite --------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, STEPS - 2, STEPS - 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
@pytest.mark.parametrize("which", ["factor", "offset"])
def test_factors_that_are_not_finite(place, value, which, all_linear, monkeypatch):
    for start in (0.0, 0.7, np.inf, np.nan):
        factors, offsets = np.full(STEPS, 0.9), np.full(STEPS, 0.1)
        (factors if which == "factor" else offsets)[place] = value
        args = factors, offsets, np.array(start, float)
        assert is_rewritten(monkeypatch, chain, *args)
        assert_same(chain, *args)
        assert_same(lambda *args: chain(*args)[0], *args)  # by pairs


def test_the_derivative_of_two_steps_may_be_as_large_as_the_dtype_holds(all_linear):
    factors = np.full(STEPS, 1e6, np.float32)  # 1e18 in a step, 1e36 in two
    factors[::2] = factors[1::4] = 1e-6
    offsets = np.linspace(-1, 1, STEPS, dtype=np.float32)
    assert_same(lambda *args: chain(*args)[0], factors, offsets, np.float32(0.7), tolerance=1e-4)


def test_a_gradient_at_a_singular_point_is_nan():
    def root(start):
        return lax.scan(lambda x, _: (jnp.sqrt(x) * x * 0.5, None), start, None, length=STEPS)[0]

    for start in (0.0, 1.0, 4.5):
        assert_same(functad.grad(root), np.array(start, float))
    assert np.isnan(functad.jit(functad.grad(root))(np.array(0.0)))


def test_a_choice_of_a_function_or_nothing_is_one_factor(monkeypatch):
    def frozen(start, rows):
        def step(x, row):
            return jnp.where(row > 0.5, x, row * x * (1 - x)), x

        return lax.scan(step, start, rows)[1].sum()

    gradient = functad.grad(frozen)
    rows = np.random.default_rng(0).uniform(0, 1, STEPS)
    assert is_rewritten(monkeypatch, gradient, np.array(0.3), rows)
    assert_same(gradient, np.array(0.3), rows)


def test_what_drops_the_carry_drops_its_nan(monkeypatch):
    def restarted(start, rows):
        def step(x, row):
            return jnp.where(row > 0.5, 0.25, row * jnp.sqrt(x) * x), x

        return lax.scan(step, start, rows)[0]

    gradient = functad.grad(restarted)
    rows = np.full(STEPS, 0.4)
    rows[-3], rows[-1] = 0.0, 0.0  # so the last derivatives are infinite
    assert not np.isfinite(functad.jit(gradient)(np.array(0.3), rows))
    rows[5] = 0.9
    assert not is_rewritten(monkeypatch, gradient, np.array(0.3), rows)
    assert functad.jit(gradient)(np.array(0.3), rows) == 0
    assert_same(gradient, np.array(0.3), rows)


def test_choices_and_signs_are_there_at_once():
    """What the record of a primitive prints tells that; a sum of them waits as any sum does."""
    choose = lambda p, x, y: lax.select_n(p, x, y)  # noqa: E731
    choose_of_three = lambda p, x: lax.select_n(p, x, x + 1, -x)  # noqa: E731
    for fun, args in ((lax.neg, (1.0,)), (lax.abs, (1.0,)), (choose, (True, 1.0, 2.0))):
        (eqn,) = functad.make_jaxpr(fun)(*args).eqns
        assert latency_of(eqn) == 0 < operations_of(eqn)
    last = functad.make_jaxpr(choose_of_three)(np.int32(1), 1.0).eqns[-1]
    assert latency_of(last) == 0
    for fun in (lambda x: x + 1, jnp.sin, lambda x: 1 / x):
        last = functad.make_jaxpr(fun)(2.0).eqns[-1]
        assert latency_of(last) == operations_of(last) > 0
