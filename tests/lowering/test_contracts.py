"""Contracts between the stages of compiling: each objects to what breaks it. All tests compile with them checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.editing.contracts import check_stage
from functad.errors import ProgramError
from functad.ir import UNKNOWN, Aval, Eqn, Program, Var
from functad.lowering.barriers import remove_barriers
from functad.lowering.contracts import check_schedule
from functad.lowering.fusion.fuse import Fusion
from functad.lowering.fusion.order import check_order
from functad.lowering.memory.buffers import Buffer
from functad.lowering.nests.nest import POST
from functad.lowering.schedule import Schedule, make_schedule
from functad.lowering.shared import variable_names
from functad.lowering.steps import GemmStep, LoopStep, NestStep
from functad.optimize.pipeline import simplify
from functad.primitives.arithmetic import neg_p

X = np.ones((40, 30), np.float32)


def program_of(fun: Any, *args: Any) -> Program:
    return functad.make_jaxpr(fun)(*args)


@pytest.mark.parametrize(
    ("fun", "stage", "what"),
    [
        (lambda x: functad.jit(jnp.sin)(x), "inlined", "`jit` calls a Program"),
        (lambda x: lax.map(lambda row: functad.jit(jnp.sin)(row), x), "inlined", "`jit` calls a Program"),
        (lambda x: functad.device_put(x, "cpu"), "optimized", "a value is put on a device"),
        (lambda x: (jnp.sin(x), jnp.cos(x))[0], "optimized", "1 equations are of no use"),
        (lambda x: lax.map(lambda row: (jnp.sin(row), jnp.cos(row))[0], x), "optimized", "a loop or branch computes"),
        (lambda x: lax.cond(x[0, 0] > 0, lambda: (x + 1, 2 * x)[0], lambda: x), "optimized", "a loop or branch"),
        (lambda x: lax.optimization_barrier(x), "ordered", "a barrier is left"),
        (
            functad.grad(lambda x: lax.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, x).sum()),
            "inlined",
            "`closed_call`",
        ),
    ],
)
def test_a_program_that_breaks_a_contract(fun: Any, stage: str, what: str) -> None:
    program = program_of(fun, X)
    with pytest.raises(ProgramError, match=what):
        check_stage(program, stage)
    check_stage(simplify(program), "optimized")


def test_bodies_have_no_constants() -> None:
    table = jnp.asarray(X)
    program = program_of(lambda x: lax.map(lambda row: row + table[0] + 1.0, x), X)
    (scan,) = (e for e in simplify(program).eqns if e.primitive.name == "scan")
    body = scan.params["jaxpr"]
    assert scan.params["num_consts"] == 1
    broken = body.replace(invars=body.invars[1:], constvars=body.invars[:1], consts=[X[0]])
    scan = scan.replace(invars=scan.invars[1:], params={**scan.params, "jaxpr": broken, "num_consts": 0})
    with pytest.raises(ProgramError, match="has constants"):
        check_stage(Program(scan.invars, (), (), [scan], scan.outvars), "inlined")


def test_passes_are_held_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(lambda x: functad.jit(jnp.sin)(x), X)
    monkeypatch.setattr("functad.optimize.pipeline.PASSES", (lambda p: p,))
    with functad.config.context(check_programs=True), pytest.raises(ProgramError, match="`jit` calls a Program"):
        simplify(program)


def test_unknown_sizes_stay_in_loops() -> None:
    operand, result = (Var(Aval((UNKNOWN, 3), np.dtype(np.float32))) for _ in range(2))
    program = Program([operand], (), (), [Eqn(neg_p, [operand], {}, [result])], [result])
    check_stage(program, "inlined")
    with pytest.raises(ProgramError, match="`neg` takes or gives an array whose length only a run tells"):
        check_stage(program, "optimized")


# --- fusion groups -----------------------------------------------------------------------------------------------


def fusion_behind_a_barrier() -> Fusion:

    def fun(x: Any) -> Any:
        sums = lax.optimization_barrier(jnp.sin(x).sum(0))
        products = jnp.tanh(sums @ X.T)
        return products.sum(), products.max()

    program = program_of(fun, X)
    program, phases = remove_barriers(simplify(program))
    fusion = Fusion(program, variable_names(program).__getitem__, phases)
    check_order(fusion.groups, fusion.group_of, fusion.inlining.phase)
    return fusion


def test_groups_run_behind_those_that_they_read() -> None:
    fusion = fusion_behind_a_barrier()
    assert len(fusion.groups) > 2
    with pytest.raises(ProgramError, match="whose results it reads"):
        check_order(fusion.groups[::-1], fusion.group_of, fusion.inlining.phase)


def test_phases_run_one_after_another() -> None:
    fusion = fusion_behind_a_barrier()
    last = fusion.groups[-1].members[-1]
    assert len(fusion.groups[-1].members) > 1
    with pytest.raises(ProgramError, match="between which is a barrier"):
        check_order(fusion.groups, fusion.group_of, lambda i: int(i == last))
    with pytest.raises(ProgramError, match="of phase 0 runs after one of phase 1"):
        check_order(fusion.groups, fusion.group_of, lambda i: int(i in fusion.groups[0].members))


# --- schedules ---------------------------------------------------------------------------------------------------


def schedule_of(fun: Any, *args: Any) -> Schedule:
    return make_schedule(simplify(program_of(fun, *args)))


def layers(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w).sum(0)


def test_what_is_read_was_written() -> None:
    schedule = schedule_of(layers, X, X.T)
    check_schedule(schedule)
    schedule.steps.reverse()
    with pytest.raises(ProgramError, match="which nothing has written"):
        check_schedule(schedule)


def test_each_result_has_memory_of_its_own() -> None:
    schedule = schedule_of(lambda x: (x, x, x + 1, x + 1, 2.0, 2.0), X)
    check_schedule(schedule)
    schedule.outputs[3] = schedule.outputs[2]
    with pytest.raises(ProgramError, match="result 3 lies in the memory of result 2"):
        check_schedule(schedule)


def test_every_result_is_written() -> None:
    schedule = schedule_of(layers, X, X.T)
    schedule.steps.pop()
    with pytest.raises(ProgramError, match="result 0 reads"):
        check_schedule(schedule)


def test_what_a_loop_reads_was_written() -> None:
    schedule = schedule_of(lambda x: lax.scan(lambda c, row: (jnp.tanh(c @ X.T @ X) + row, None), x[0], x)[0], X)
    check_schedule(schedule)
    (loop,) = (s for s in schedule.steps if isinstance(s, LoopStep))
    loop.body.reverse()
    with pytest.raises(ProgramError, match="which nothing has written"):
        check_schedule(schedule)


def test_positions_lie_within_buffers() -> None:
    schedule = schedule_of(layers, X, X.T)
    nest = next(s for s in schedule.steps if isinstance(s, NestStep)).nest
    nest.stores[0].offset = nest.stores[0].offset + 1
    with pytest.raises(ProgramError, match="which has"):
        check_schedule(schedule)


def test_matrices_lie_within_buffers() -> None:
    schedule = schedule_of(layers, X, X.T)
    product = next(s for s in schedule.steps if isinstance(s, GemmStep))
    product.lda += 1
    with pytest.raises(ProgramError, match="which has 1200 elements"):
        check_schedule(schedule)


def test_matrices_are_of_one_dtype() -> None:
    schedule = schedule_of(layers, X, X.T)
    product = next(s for s in schedule.steps if isinstance(s, GemmStep))
    product.b = Buffer(product.b.storage, product.b.shape, np.dtype(np.float16))
    with pytest.raises(ProgramError, match="multiplies matrices of the dtypes float16, float32"):
        check_schedule(schedule)


@pytest.mark.parametrize(
    ("fun", "break_it", "what"),
    [
        (lambda x: x + 1, lambda nest: setattr(nest.stores[0], "level", POST), "and reduces nothing"),
        (lambda x: x + 1, lambda nest: nest.ordered.add(nest.loops[0]), "but not one update"),
    ],
)
def test_a_nest_that_breaks_a_contract(fun: Any, break_it: Any, what: str) -> None:
    schedule = schedule_of(fun, X)
    check_schedule(schedule)
    break_it(next(s for s in schedule.steps if isinstance(s, NestStep)).nest)
    with pytest.raises(ProgramError, match=what):
        check_schedule(schedule)
