"""Weights that several products read are copied once, as these read them best, before anything writes to them."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_program_tools import check_plain
from fuzz.kernels import OpenExecutable

import functad
import functad.numpy as jnp
from functad import lax, machine_model
from functad.backends.cpu.compile.processor import processor
from functad.backends.cpu.kernels import weights
from functad.lowering.steps import GemmStep, LoopStep, inner_steps
from functad.optimize.pipeline import simplify

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_every_machine(monkeypatch):
    monkeypatch.setattr(weights, "reads_in_place", lambda dtype: True)


def compiled(fun, *args, donated=()):
    run = OpenExecutable(simplify(functad.make_jaxpr(fun)(*args)), donated)
    found = run([np.array(a) for a in args])
    for want, got in zip(functad.tree.leaves(fun(*args)), found):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)
    return run


def copies(run):
    return [s for s in run.schedule.steps if s.name.startswith("transpose_")]


def transposed(run):
    return [s.tb for s in run.schedule.steps if isinstance(s, GemmStep)]


X = RNG.normal(size=(96, 40)).astype(np.float32)
W = (RNG.normal(size=(40, 40)) / 8).astype(np.float32)


def test_one_copy_for_all_products():
    run = compiled(lambda x, w: jnp.tanh(jnp.tanh(x @ w.T) @ w.T) @ w.T, X, W)
    assert len(copies(run)) == 1
    assert transposed(run) == [0, 0, 0]


def test_parts_of_a_weight_have_copies_of_their_own():
    wide = RNG.normal(size=(80, 40)).astype(np.float32)
    run = compiled(lambda x, w: x @ w[:40].T + jnp.sin(x @ w[40:].T), X, wide)
    assert len(copies(run)) == 2
    assert transposed(run) == [0, 0]


def test_few_rows_and_large_weights_are_read_where_they_lie():
    assert transposed(compiled(lambda x, w: x @ w.T, X[:32], W)) == [1]
    large = RNG.normal(size=(500, 512)).astype(np.float32)
    assert transposed(compiled(lambda x, w: x @ w.T, RNG.normal(size=(64, 512)).astype(np.float32), large)) == [1]


def test_what_is_computed_is_not_copied():
    assert transposed(compiled(lambda x, w: x @ jnp.sin(w).T, X, W)) == [1]


def test_a_weight_that_is_updated_in_place():
    def steps(x, w):
        for _ in range(3):
            y = x @ w.T
            w = w - 0.001 * (y.T @ x)
        return w, y

    run = compiled(steps, X, W, donated=(False, True))
    assert run.schedule.outputs[0].storage.kind == "input"
    (last,) = [s for s in run.schedule.steps if isinstance(s, GemmStep) and s.m == len(X)]
    assert last.tb == 1 and last.b.storage.kind == "input"  # it reads what the memory holds by then


def test_where_packing_is_needed_anyway_nothing_is_copied(monkeypatch):
    monkeypatch.setattr(weights, "reads_in_place", lambda dtype: False)
    assert transposed(compiled(lambda x, w: jnp.tanh(x @ w.T) @ w.T, X, W)) == [1, 1]


needs_tiles = pytest.mark.skipif("+fma" not in processor()[1].split(","), reason="the processor is not one of AVX2")


@pytest.fixture
def in_panels(monkeypatch):
    """Loops pack what they may, on processors that have longer vectors, too."""
    monkeypatch.setattr(weights, "reads_in_place", lambda dtype: False)
    monkeypatch.setattr(weights, "panel_columns", lambda dtype: 64 // dtype.itemsize)
    monkeypatch.setattr(machine_model, "PACKED_WEIGHT_PRODUCTS", 1)


def in_loops(run):
    """Of the products within loops the columns of their panels."""
    loops = [s for s in run.schedule.steps if isinstance(s, LoopStep)]
    return [s.panel for s in inner_steps(loops) if isinstance(s, GemmStep)]


def recurrent(w, u, xs, h):
    return lax.scan(lambda h, x: (jnp.tanh(x @ u + h @ w), None), h, xs)[0]


def of_recurrent(hidden, steps=20, rows=5, dtype="float32"):
    shapes = [(hidden, hidden), (24, hidden), (steps, rows, 24), (rows, hidden)]
    return [(RNG.normal(size=s) / np.sqrt(s[-2])).astype(dtype) for s in shapes]


@needs_tiles
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_read_weights_in_panels(in_panels, dtype):
    run = compiled(recurrent, *of_recurrent(32, dtype=dtype))
    assert in_loops(run) == [64 // np.dtype(dtype).itemsize]
    run = compiled(functad.grad(lambda *args: jnp.sum(recurrent(*args) ** 2), argnums=(0, 1)), *of_recurrent(32))
    assert in_loops(run) == [16, 16]
    assert len([s for s in run.schedule.steps if s.name.startswith("pack_")]) >= 2


@needs_tiles
def test_two_products_read_one_copy(in_panels):
    def both(w, xs):
        return lax.scan(lambda c, x: (jnp.tanh(jnp.sin(x + c @ w) @ w), None), xs[0], xs)[0]

    run = compiled(both, RNG.normal(size=(32, 32)).astype("f4") / 6, RNG.normal(size=(30, 20, 32)).astype("f4"))
    assert in_loops(run) == [16, 16]
    assert len([s for s in run.schedule.steps if s.name.startswith("pack_")]) == 1


def test_odd_widths_are_not_packed(in_panels):
    assert in_loops(compiled(recurrent, *of_recurrent(33))) == [0]


@needs_tiles
@pytest.mark.parametrize("least, panel", [(100, 16), (101, 0)])
def test_few_rows_are_not_packed(in_panels, monkeypatch, least, panel):
    monkeypatch.setattr(machine_model, "PACKED_WEIGHT_ROWS", least)
    assert in_loops(compiled(recurrent, *of_recurrent(32, steps=20, rows=5))) == [panel]


def test_what_a_loop_changes_is_not_packed(in_panels):
    def training(w, xs):
        def step(w, x):
            y = jnp.tanh(x @ w)
            return w - 0.01 * (x.T @ y), jnp.sum(y)

        return lax.scan(step, w, xs)

    run = compiled(training, RNG.normal(size=(32, 32)).astype("f4") / 6, RNG.normal(size=(30, 20, 32)).astype("f4"))
    assert set(in_loops(run)) == {0}


def test_plain_python_reads_panels(in_panels):
    check_plain(simplify(functad.make_jaxpr(recurrent)(*(args := of_recurrent(32)))), args, [False] * 4)


@needs_tiles
def test_nested_loops_read_one_copy(in_panels):
    def nested(w, xs):
        def outer(c, x):
            return lax.fori_loop(0, 30, lambda _, c: jnp.tanh(c @ w + x), c), None

        return lax.scan(outer, xs[0], xs)[0]

    run = compiled(nested, RNG.normal(size=(32, 32)).astype("f4") / 6, RNG.normal(size=(40, 20, 32)).astype("f4"))
    assert set(in_loops(run)) == {16}
    assert len([s for s in run.schedule.steps if s.name.startswith("pack_")]) == 1


@pytest.mark.parametrize("least, panel", [(300, 16), (301, 0)])
@needs_tiles
def test_rows_of_inner_loops_count_as_often_as_they_run(in_panels, monkeypatch, least, panel):
    monkeypatch.setattr(machine_model, "PACKED_WEIGHT_ROWS", least)
    monkeypatch.setattr(machine_model, "UNROLLED_STEPS", 0)

    def nested(w, xs):
        def step(c, x):
            once, twice = (lax.fori_loop(0, n, lambda _, c: jnp.tanh(c @ w), v) for n, v in ((10, c), (20, x)))
            return once + jnp.sin(twice), None

        return lax.scan(step, xs[0], xs)[0]

    run = compiled(nested, RNG.normal(size=(32, 32)).astype("f4") / 6, RNG.normal(size=(2, 5, 32)).astype("f4"))
    assert set(in_loops(run)) == {panel}


# --- loops that read weights transposed, where none are packed ----------------------------------------------


@pytest.fixture
def unpacked(monkeypatch):
    monkeypatch.setattr(weights, "panel_columns", lambda dtype: 0)


def transposed_in_loops(run):
    loops = [s for s in run.schedule.steps if isinstance(s, LoopStep)]
    return [s.tb for s in inner_steps(loops) if isinstance(s, GemmStep)]


def states(w, xs):
    return lax.scan(lambda h, x: ((n := jnp.tanh(h @ w + x)), n), jnp.zeros((6, len(w))), xs)[1]


ROWS = RNG.normal(size=(12, 6, 40)).astype(np.float32)


def test_a_loop_reads_one_copy_that_is_not_transposed(unpacked):
    run = compiled(functad.grad(lambda w, xs: (states(w, xs) ** 2).sum()), W, ROWS)
    assert transposed_in_loops(run) == [0, 0]
    assert len(copies(run)) == 1
    run = compiled(states, W, ROWS)
    assert transposed_in_loops(run) == [0]
    assert not copies(run)


def test_one_copy_for_all_products_of_a_loop_and_the_original_for_others(unpacked):
    def fun(w, xs):
        return lax.scan(lambda h, x: (jnp.tanh(jnp.sin(h @ w.T) @ w.T + jnp.cos(h) @ w), None), xs[0], xs)[0]

    run = compiled(fun, W, ROWS)
    assert transposed_in_loops(run) == [0, 0, 0]
    assert len(copies(run)) == 1


@pytest.mark.parametrize("steps, size", [(3, 40), (12, 30)])
def test_short_loops_and_small_weights_have_no_copy(unpacked, monkeypatch, steps, size):
    monkeypatch.setattr(machine_model, "UNROLLED_STEPS", 0)

    def fun(w, xs):
        return lax.scan(lambda h, x: (jnp.tanh(h @ w.T + x), None), xs[0], xs)[0]

    assert transposed_in_loops(compiled(fun, W[:size, :size], ROWS[:steps, :, :size])) == [1]


def test_an_inner_loop_copies_what_the_outer_one_changes(unpacked, monkeypatch):
    monkeypatch.setattr(machine_model, "UNROLLED_STEPS", 0)

    def training(w, xs):
        def step(w, _):
            last = lax.scan(lambda h, x: (jnp.tanh(h @ w.T + x), None), xs[0], xs)[0]
            return w - 0.01 * (last.T @ last), None

        return lax.scan(step, w, None, 7)[0]

    run = compiled(training, W, ROWS)
    (outer,) = [s for s in run.schedule.steps if isinstance(s, LoopStep)]
    (inner,) = [s for s in outer.body if isinstance(s, LoopStep)]
    assert [s.tb for s in inner_steps([inner]) if isinstance(s, GemmStep)] == [0]
    assert len([s for s in outer.body if s.name.startswith("transpose_")]) == 1
