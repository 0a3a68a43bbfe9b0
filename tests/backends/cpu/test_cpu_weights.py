"""Weights that several products read transposed are copied once, before anything writes to them."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.kernels import OpenExecutable

import functad
import functad.numpy as jnp
from functad.backends.cpu.kernels import weights
from functad.lowering.steps import GemmStep
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
