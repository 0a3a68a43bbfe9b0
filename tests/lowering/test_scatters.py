"""Scatters as nests: what is computed within them, how threads share them, what keeps them from the operand's memory.

Knows the printed kernels and steps; that results are right is checked with the primitives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax, machine_model
from functad.lowering.contracts import check_schedule
from functad.lowering.nests.nest import Nest
from functad.lowering.schedule import Schedule, make_schedule
from functad.lowering.steps import NestStep, inner_steps

rng = np.random.default_rng(0)
X, V = rng.normal(size=(30, 8)).astype(np.float32), rng.normal(size=(50, 8)).astype(np.float32)
AT = rng.integers(0, 30, 50).astype(np.uint32)
TABLE = rng.normal(size=(9, 8)).astype(np.float32)


def schedule_of(fun: Callable[..., Any], *args: Any, donated: bool = False) -> Schedule:
    program = functad.jit(fun).lower(*args).optimized
    schedule = make_schedule(program, [donated] + [False] * (len(program.invars) - 1))
    check_schedule(schedule)
    return schedule


def scatters(schedule: Schedule) -> list[Nest]:
    nests = [s.nest for s in inner_steps(schedule.steps) if isinstance(s, NestStep)]
    return [nest for nest in nests if nest.update is not None]


FUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a product": (lambda x, v, i: x.at[i].add(v * 2), (X, V, AT)),
    "what is moved": (lambda x, v, i: x.at[i].set(v[::-1]), (X, V, AT)),
    "a broadcast": (lambda x, v, i: x.at[i].add(v[0]), (X, V, AT)),
    "a gather": (lambda x, t, i, j: x.at[i].add(t[j]), (X, TABLE, AT, AT % 9)),
    "a count": (lambda x, i: x.at[i].add(1), (X, AT)),
    "positions": (lambda x, v, i: x.at[i + 1].max(v), (X, V, AT)),
    "negative positions of rows": (lambda x, v, i: x.at[i].min(v), (X, V, AT.astype(np.int32))),
    "a slice at a place": (lambda x, v, i: lax.dynamic_update_slice(x, jnp.tanh(v), (i, 0)), (X, V[:7], np.int32(3))),
}


@pytest.mark.parametrize("name", FUSED)
def test_operands_are_computed_within_the_nest(name: str) -> None:
    fun, args = FUSED[name]
    schedule = schedule_of(fun, *args, donated=True)
    assert len(schedule.steps) == 1, str(schedule)
    expected = fun(*map(jnp.asarray, args))
    np.testing.assert_allclose(functad.jit(fun)(*args), expected, rtol=1e-6)


APART: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "what would be read after it is written": (lambda x, i: x.at[i].set(2 * x[::-1]), (X[:, 0], AT[:30])),
    "a gather from the operand": (lambda x, i: x.at[i].add(x[i]), (X[:, 0], AT)),
    "the same memory in another shape": (lambda x, i: x.at[i, 0].set(x.reshape(-1)[:50] * 2), (X, AT)),
    "many operations, one by one": (lambda x, v, i: x.at[i].add(v * v * v * v + v), (X[:, 0], V[:, 0], AT)),
    "a function": (lambda x, v, i: x.at[i].add(jnp.exp(v)), (X, V, AT)),
    "what is used twice": (lambda x, v, i: (x.at[i].add(v * 2), v * 2), (X, V, AT)),
}


@pytest.mark.parametrize("name", APART)
def test_other_operands_are_computed_before(name: str) -> None:
    fun, args = APART[name]
    schedule = schedule_of(fun, *args, donated=True)
    assert len(schedule.steps) > 1, str(schedule)
    (nest,) = scatters(schedule)
    written = nest.stores[0].buffer.storage
    assert written is schedule.inputs[0].storage, "the result takes the operand's memory"
    assert [b.storage for b, _, writes in nest.accesses() if not writes].count(written) == 1
    for e, g in zip(*map(functad.tree_util.tree_leaves, (fun(*map(jnp.asarray, args)), functad.jit(fun)(*args)))):
        np.testing.assert_allclose(g, e, rtol=1e-6, atol=1e-6)


def test_an_operand_that_is_its_own_update_is_copied() -> None:
    schedule = schedule_of(lambda x, i: x.at[i].set(x), X[:, 0], AT[:30], donated=True)
    (nest,) = scatters(schedule)
    assert nest.stores[0].buffer.storage is not schedule.inputs[0].storage


def test_the_loops_of_a_scatter_run_in_the_order_of_its_updates() -> None:
    (by_rows,) = scatters(schedule_of(lambda x, v, i: x.at[i].add(v), X, V, AT))
    assert [s in by_rows.ordered for s in by_rows.loops] == [True, False]
    (by_columns,) = scatters(schedule_of(lambda x, v, i: x.at[:, i].add(v), X.T, V.T, AT))
    assert [s in by_columns.ordered for s in by_columns.loops] == [False, True]  # rows of the result lie apart
    (one,) = scatters(schedule_of(lambda x, v, i: x.at[i].add(v), X, V[0], AT[0]))
    assert not one.ordered


@pytest.mark.parametrize("width, steps", [(64, 1), (8, 3)])
def test_how_threads_share_a_scatter(width: int, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long rows have owners; where many updates meet, parts of them go to copies, and the rest to the result."""
    monkeypatch.setattr(machine_model, "ELEMENTS_WORTH_THREADS", 1)
    monkeypatch.setattr(machine_model, "SHARED_ROW_BYTES", 256)
    monkeypatch.setattr(machine_model, "UPDATES_OF_PART", 1)
    at = rng.integers(0, 4, 37).astype(np.uint32)
    v = rng.integers(-4, 5, (37, width)).astype(np.float32)
    x = rng.integers(-4, 5, (4, width)).astype(np.float32)
    fun = lambda x, v, i: x.at[i].add(v)  # noqa: E731
    schedule = schedule_of(fun, x, v, at, donated=True)
    nests = scatters(schedule)
    if width == 64:
        assert nests[0].owners is not None and len(schedule.steps) == steps
    else:
        assert nests[0].owners is None and nests[0].loops[0] not in nests[0].ordered and len(schedule.steps) >= steps
    np.testing.assert_array_equal(functad.jit(fun)(x, v, at), fun(*map(jnp.asarray, (x, v, at))))


def test_no_loop_is_cut_into_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "ELEMENTS_WORTH_THREADS", 1)
    monkeypatch.setattr(machine_model, "UPDATES_OF_PART", 1)
    monkeypatch.setattr(machine_model, "MOST_SCATTER_PARTS", 2)
    x, v, at = X[:4, 0], rng.integers(-4, 5, 37).astype(np.float32), rng.integers(0, 4, 37).astype(np.uint32)
    parts, rest = scatters(schedule_of(lambda x, v, i: x.at[i].add(v), x, v, at, donated=True))
    assert [s.extent for s in parts.loops] == [2, 18] and rest.points == 1


def test_a_loop_of_small_scatters_is_one_kernel() -> None:
    def walk(x: Any, i: Any) -> Any:
        return lax.fori_loop(0, 20, lambda k, x: x.at[i[k]].add(1).at[k].set(x[k] * 2), x)

    args = X[:, 0], AT
    kernels = str(functad.jit(walk).lower(*args).kernels).split("def ")
    assert [kernel.count("scatter") > 0 for kernel in kernels].count(True) == 1 and "in range(20)" in kernels[-1]
    np.testing.assert_array_equal(functad.jit(walk)(*args), walk(*map(jnp.asarray, args)))
