"""Linear loops take the short way only where no number leaves the range of its dtype, or is none."""

from __future__ import annotations

import numpy as np
import pytest
from linear_loops_tools import (
    STEPS,
    assert_same,
    chain,
    chooses_rewritten,
    compiled_program,
    is_rewritten,
    let_all_be_linear,
    loops,
    operations,
    oscillator,
    takes_rewritten,
)

import functad
import functad.numpy as jnp
from functad import lax
from functad.primitives.cost import latency_of, operations_of

pytestmark = pytest.mark.generated(every=6)  # tables of shapes, dtypes and ways


@pytest.fixture
def all_linear(monkeypatch):
    let_all_be_linear(monkeypatch)


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
