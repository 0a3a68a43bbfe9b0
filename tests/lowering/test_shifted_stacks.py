"""A carry that is stacked before and after each step is written once: both stacks lie in one buffer, a slice apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cpu_program_tools import check_plain, compare
from fuzz.kernels import OpenExecutable

import functad
import functad.numpy as jnp
from functad import interpreter, lax, machine_model
from functad.config import config
from functad.evaluation import aval_of
from functad.lowering.blocks import Block, Instruction
from functad.lowering.memory.arena import plan_memory
from functad.lowering.memory.buffers import new_buffer
from functad.lowering.schedule import Schedule
from functad.lowering.steps import LoopStep, NestStep, inner_steps
from functad.optimize.pipeline import simplify
from functad.tracing import trace_to_program
from functad.tree_util import tree_leaves

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

F32 = np.float32
STEPS, ROWS, WIDTH = 10, 4, 8
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(WIDTH, 4 * WIDTH)).astype(F32) / 8
XS = RNG.normal(size=(STEPS, ROWS, 4 * WIDTH)).astype(F32)
START = RNG.normal(size=(ROWS, WIDTH)).astype(F32)


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small stacks, too, lie in one buffer, and loops of small steps run on the tape."""
    monkeypatch.setattr(machine_model, "SMALLEST_SHIFTED_SLICE", 1)
    monkeypatch.setattr(machine_model, "LONGEST_SMALL_STEP", -1.0)


def check(fun: Callable[..., Any], *args: Any) -> Schedule:
    """Results of the compiled Program, as plain Python and with one thread and two, are the interpreter's."""
    arrays = [np.asarray(a) for a in args]
    program = trace_to_program(lambda *xs: tree_leaves(fun(*xs)), [aval_of(jnp.asarray(a)) for a in arrays])
    expected = [np.array(x) for x in interpreter.compile_program(program)(arrays)]
    made = simplify(program)
    run = OpenExecutable(made, [False] * len(arrays))
    check_plain(made, arrays, [False] * len(arrays), lowered=run)
    for threads in (1, 2):
        with config.context(num_threads=threads):
            for k, (got, wanted) in enumerate(zip(run([a.copy() for a in arrays]), expected)):
                compare(wanted, got, f"{threads} threads, result {k}")
    return run.schedule


def lstm(reverse: bool = False) -> Callable[..., Any]:
    def step(weights: Any, carry: Any, x: Any) -> Any:
        state, cell = carry
        i, f, g, o = jnp.split(x + state @ weights, 4, axis=1)
        cell = jnp.tanh(f) * cell + jnp.tanh(i) * jnp.tanh(g)
        state = jnp.tanh(o) * jnp.tanh(cell)
        return (state, cell), state

    def loss(weights: Any, xs: Any, start: Any) -> Any:
        (_, cell), states = lax.scan(lambda c, x: step(weights, c, x), (start, start * 2), xs, reverse=reverse)
        return (states * states).sum() + cell.sum()

    return loss


def loops(schedule: Schedule) -> list[LoopStep]:
    return [s for s in inner_steps(schedule.steps) if isinstance(s, LoopStep)]


def copies(loop: LoopStep) -> list[str]:
    return [s.name for s in loop.body if isinstance(s, NestStep) and s.name.startswith("copy_")]


@pytest.mark.parametrize("reverse", [False, True])
def test_the_derivative_of_an_lstm_copies_no_carry(reverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = functad.grad(lstm(reverse), (0, 1, 2))
    schedule = check(gradients, WEIGHTS, XS, START)
    monkeypatch.setattr(machine_model, "SMALLEST_SHIFTED_SLICE", ROWS * WIDTH * 4 + 1)
    apart = check(gradients, WEIGHTS, XS, START)
    assert len(copies(loops(schedule)[0])) == len(copies(loops(apart)[0])) - 2
    # The states share a stack; that of the cells is one slice longer.
    pointers = [len({m.target for m in loops(s)[0].moves if m.target is m.source}) for s in (schedule, apart)]
    assert pointers[0] == pointers[1] - 1


def both(step: Callable[..., Any], reverse: bool, *starts: Any, xs: Any = XS) -> tuple[Any, Any, Any]:
    """The last carry, and all carries before and after each step."""

    def body(carry: Any, x: Any) -> Any:
        new = step(carry, x)
        return new, (carry, new)

    last, (before, after) = lax.scan(body, starts, xs, reverse=reverse)
    return last, before, after


READERS: dict[str, Callable[..., Any]] = {
    "element-wise": lambda last, b, a: [jnp.sin(x) - y * 2 for x, y in zip(b, a)],
    "only before": lambda last, b, a: [jnp.sin(x) for x in b],
    "products": lambda last, b, a: [jnp.einsum("tij,tik->jk", x, y) for x, y in zip(b, a)],
    "reshaped": lambda last, b, a: [x.reshape(-1, WIDTH) @ y[3].T for x, y in zip(b, a)],
    "slices and sums": lambda last, b, a: [x[0] + y[-1] + y[::2].sum(0) for x, y in zip(b, a)],
    "the last carry": lambda last, b, a: [x + y.sum(0) + z.max(0) for x, y, z in zip(last, b, a)],
    "a loop back": lambda last, b, a: lax.scan(
        lambda s, xy: (s * 0.5 + xy[0][0] - xy[1][0], s), jnp.zeros((ROWS, WIDTH)), (b, a), reverse=True
    ),
    "a loop that updates": lambda last, b, a: lax.fori_loop(0, 3, lambda i, y: y * 0.5 + b[0], a[0]),
    "a branch": lambda last, b, a: lax.cond(a[0].sum() > 0, lambda x, y: x * 1, lambda x, y: x - y, b[0], a[0]),
    "sorted": lambda last, b, a: [jnp.sort(x, axis=1)[0] + y[0] for x, y in zip(b, a)],
    "results": lambda last, b, a: (b, a),
    "some results": lambda last, b, a: (a, jnp.sin(b[0]).sum()),
}


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("reverse", [False, True])
def test_everything_reads_both_stacks(reader: str, reverse: bool) -> None:
    def fun(xs: Any, start: Any) -> Any:
        steps = both(lambda c, x: (jnp.tanh(c[0] * 0.9 + x), c[1] * c[0]), reverse, start, start + 1, xs=xs)
        return READERS[reader](*steps)

    check(fun, XS[:, :, :WIDTH], START)


STEPS_OF_CARRIES: dict[str, Callable[..., Any]] = {
    "one value twice": lambda c, x: ((n := c[0] * 0.5 + x), n),
    "changing places": lambda c, x: (c[1], c[0] * 0.5 + x),
    "a slice": lambda c, x: (x, c[0] + c[1] * 0.5),
    "a constant": lambda c, x: (jnp.ones((ROWS, WIDTH)), c[0] + x),
    "itself": lambda c, x: (c[0], c[0] * x),
    "moved": lambda c, x: (c[0][::-1] + x, (c[1].T.reshape(ROWS, WIDTH) * 0.5)),
    "products": lambda c, x: (c[0] @ (x.T @ c[1]) * 1e-3, c[1] + x),
}


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("case", STEPS_OF_CARRIES)
@pytest.mark.parametrize("reverse", [False, True])
def test_carries_from_anywhere(case: str, reverse: bool) -> None:
    def fun(xs: Any, start: Any) -> Any:
        last, before, after = both(STEPS_OF_CARRIES[case], reverse, start, start * 0, xs=xs)
        return [jnp.sin(x).sum(0) * 2 + y[1] for x, y in zip(before, after)], last

    check(fun, XS[:, :, :WIDTH], START)


def test_results_are_stacked_where_they_belong() -> None:
    def fun(xs: Any, start: Any) -> Any:
        return both(lambda c, x: (jnp.tanh(c[0] * 0.9 + x),), False, start, xs=xs)[1:]

    schedule = check(fun, XS[:, :, :WIDTH], START)
    assert [type(s) for s in schedule.steps] == [LoopStep]


def test_loops_within_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    def fun(xs: Any, start: Any) -> Any:
        def outer(carry: Any, x: Any) -> Any:
            last, before, after = both(lambda c, y: (jnp.sin(c[0] + y),), False, carry, xs=x[None] * xs)
            return last[0] * 0.5, (before[0] * after[0]).sum(0)

        return lax.scan(outer, start, xs)

    check(fun, XS[:, :, :WIDTH], START)
    monkeypatch.undo()  # stacks of a few elements stay apart: such a loop is one function, with its carry in registers
    schedule = check(fun, XS[:, 0, :3], START[0, :3])
    assert not any(m.source.whole for loop in loops(schedule) for m in loop.starts)


def test_a_part_keeps_the_whole_alive() -> None:
    whole, other = new_buffer("whole", (5, 100), F32), new_buffer("other", (100,), F32)
    part = whole.storage.part("part", 400, 1600)

    def block(*storages: Any) -> Block:
        made = Block(1, [], [])
        parameters = tuple((s.name, new_buffer(s.name, (1,), F32), "rw") for s in storages)
        for (_, buffer, _), storage in zip(parameters, storages):
            buffer.storage = storage
        made.add(Instruction("f", parameters, 1, {}, 1.0, 0.0, 0.0, None), 1)  # type: ignore[arg-type]
        return made

    memory = plan_memory([block(whole.storage), block(other.storage), block(part)])
    assert memory.lifetimes[whole.storage] == (0, 2) and memory.lifetimes[part] == (2, 2)
    assert memory.offsets[part] == memory.offsets[whole.storage] + 400
    assert memory.offsets[other.storage] >= memory.offsets[whole.storage] + 2000
    assert memory.unshared_bytes == memory.arena_bytes == 2048 + 448
