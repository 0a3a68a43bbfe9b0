"""How arrays that nests have computed are joined: the nests store them in their parts of the result.

Knows what steps a Program becomes, and runs them as plain Python, and some of them compiled.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cpu_program_tools import check_plain, compare, program_of
from fuzz.kernels import OpenExecutable

import functad
import functad.numpy as jnp
from functad import interpreter, lax, machine_model, nn
from functad.backends.cpu.lowering import CpuLowering
from functad.lowering.steps import KernelStep, NestStep, inner_steps
from functad.optimize.pipeline import inline_calls, simplify

pytestmark = pytest.mark.generated(every=6)  # tables of shapes, dtypes and ways

DTYPES = ("float32", "float64", "float16", "int32", "uint8", "bool", "complex64")


def array(*shape: int, dtype: str = "float32", seed: int = 0) -> np.ndarray:
    values = np.random.default_rng([seed, *shape]).integers(-4, 5, shape)
    return values.astype(dtype) if dtype != "bool" else values > 0


def different(x: Any) -> Any:
    """Other values of the same type, computed by a nest."""
    return ~x if x.dtype == bool else x + x.dtype.type(1)


def check(
    fun: Callable[..., Any], *args: np.ndarray, donated: Sequence[bool] = (), compiled: bool = False
) -> CpuLowering:
    """Compare with the interpreter, and return the steps."""
    program = program_of(fun, args)
    given = list(donated) or [False] * len(args)
    run = OpenExecutable(program, given) if compiled else None
    lowered = check_plain(program, args, given, lowered=run)
    if run is not None:
        expected = interpreter.compile_program(program)([a.copy() for a in args])
        for k, (wanted, got) in enumerate(zip(expected, run([a.copy() for a in args]))):
            compare(wanted, got, f"compiled, result {k}")
    return lowered


def copied(lowered: CpuLowering) -> list[int]:
    """How many operands each kernel copies that joins what lies in memory."""
    steps = inner_steps(lowered.schedule.steps)
    return [len(s.parameters) - 1 for s in steps if isinstance(s, KernelStep) and s.name == "join"]


def nests(lowered: CpuLowering) -> list[NestStep]:
    return [s for s in inner_steps(lowered.schedule.steps) if isinstance(s, NestStep)]


# --- what is stored in its part --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape, axis", [((40,), 0), ((9, 4), 0), ((9, 4), 1), ((3, 5, 2), 1), ((3, 5, 2), 2)])
def test_what_one_nest_computes_is_joined_by_it(shape: tuple[int, ...], axis: int) -> None:
    for dtype in DTYPES:
        x, y = array(*shape, dtype=dtype), array(*shape, dtype=dtype, seed=1)
        lowered = check(lambda x, y: [jnp.concatenate([different(x), x & y if x.dtype == bool else x * y], axis)], x, y)
        assert len(lowered.schedule.steps) == 1 and not copied(lowered), dtype


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_stacked_arrays_are_stored_side_by_side(axis: int) -> None:
    lowered = check(lambda x: [jnp.stack([x * 2, x - 1, x * x], axis)], array(9, 4), compiled=True)
    assert len(lowered.schedule.steps) == 1


def test_parts_of_different_sizes_and_of_none() -> None:
    def fun(x: Any, y: Any, nothing: Any) -> list[Any]:
        return [jnp.concatenate([x * 2, nothing + 1, y * 3, lax.slice_in_dim(x, 0, 0, axis=1)], 1)]

    lowered = check(fun, array(9, 3), array(9, 5), array(9, 0), compiled=True)
    assert len(lowered.schedule.steps) == 2 and not copied(lowered)


@pytest.mark.parametrize("shape, axis", [((0, 1), 1), ((0, 1, 1), 1), ((2, 0, 3), 2), ((1, 0), 0)])
def test_nothing_is_joined_with_nothing(shape: tuple[int, ...], axis: int) -> None:
    for joined in (jnp.concatenate, jnp.stack):
        f = functad.jit(lambda x, join=joined: 0 - join([x, x, x], axis))
        assert f(np.zeros(shape, np.float32)).shape == joined([np.zeros(shape)] * 3, axis).shape


def test_what_lies_in_memory_is_copied_to_its_part() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        return [jnp.concatenate([x * 2, y, jnp.sort(x, 0), x - 1], 1)]

    assert copied(check(fun, array(9, 20), array(9, 3), compiled=True)) == [2]


def test_what_moves_elements_writes_to_its_part() -> None:
    lowered = check(lambda x: [jnp.concatenate([x[1:], x[:1], x.T[:2, :6]])], array(12, 6), compiled=True)
    assert len(nests(lowered)) == len(lowered.schedule.steps) == 3
    lowered = check(lambda x: [jnp.stack([x[k] for k in (3, 1, 2, 3)])], array(12, 6))
    assert len(lowered.schedule.steps) == 1


def test_the_same_operand_twice() -> None:
    def fun(x: Any) -> list[Any]:
        y = x * 3
        return [jnp.concatenate([y, x - 1, y], 1)]

    assert len(check(fun, array(9, 4), compiled=True).schedule.steps) == 1


def test_sums_over_rows_and_over_columns() -> None:
    def fun(x: Any) -> list[Any]:
        rows, columns = x.sum(1), x.sum(0)
        return [jnp.concatenate([rows, rows * 2]), jnp.concatenate([columns, columns, x.max(0)])]

    for shape in ((8, 6), (40, 3), (3, 40)):
        check(fun, array(*shape), compiled=True)


def test_reshaped_operands_have_the_memory_of_what_they_reshape() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        return [
            jnp.concatenate([(x * 2).reshape(-1), (x + 1).reshape(36)]),
            jnp.concatenate([x.reshape(36, 1) * 3, y - 1], 1),
        ]

    lowered = check(fun, array(9, 4), array(36, 1), compiled=True)
    assert not copied(lowered) and all(isinstance(s, NestStep) for s in lowered.schedule.steps)


def test_a_result_in_the_memory_of_a_donated_argument() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        a, b = jnp.split(x, 2, 1)
        return [jnp.concatenate([jnp.sin(b), jnp.cos(a)], 1), x.sum(0), jnp.concatenate([y * 2, y[:1] + 1])]

    check(fun, array(9, 40), array(5), donated=[True, True], compiled=True)


# --- what is not ----------------------------------------------------------------------------------------------


def test_results_keep_memory_of_their_own() -> None:
    def fun(x: Any) -> list[Any]:
        y, z = x * 2, x - 1
        return [jnp.concatenate([y, z, x * x], 1), y, z.reshape(-1)]

    assert copied(check(fun, array(9, 4), compiled=True)) == [2]


def test_what_somebody_else_reads_keeps_memory_of_its_own() -> None:
    def fun(x: Any, w: Any) -> list[Any]:
        y, z, u, v = x * 2, x - 1, x * x, 3 - x
        return [jnp.concatenate([y, z, u, v], 1), y @ w, z[::-1] * 3, jnp.cumsum(u, 0)]

    assert copied(check(fun, array(9, 4), array(4, 4))) == [3]


def test_what_is_read_in_another_order_too() -> None:
    def fun(x: Any) -> list[Any]:
        y = x * 2
        return [jnp.concatenate([y, y.T, y[::-1]], 1)]

    check(fun, array(9, 9), compiled=True)


def test_functions_keep_long_loops_where_rows_are_short() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        return [jnp.concatenate([jnp.tanh(x), jnp.exp(y)], 1)]

    assert copied(check(fun, array(40, 5), array(40, 5, seed=1))) == [2]
    assert copied(check(fun, array(40, 32), array(40, 32, seed=1))) == []
    assert copied(check(fun, array(40, 1), array(40, 1, seed=1))) == []


def test_few_long_rows_are_copied_so_that_threads_can_share_them() -> None:
    x = array(3, 10_000)
    program = program_of(lambda x: [jnp.concatenate([x * 2, x[:, ::-1]], 1)], [x])
    assert copied(CpuLowering(program)) == [2]


def test_nests_that_run_together_do_not_wait_for_each_other_where_parts_lie_one_behind_another() -> None:
    def fun(h: Any, w: Any, axis: int) -> list[Any]:
        outs = []
        for _ in range(4):
            h = jnp.tanh(h @ w)
            outs.append(h * 2)
        return [jnp.stack(outs, axis)]

    args = array(32, 16), array(16, 16)
    piece_by_piece = check(lambda h, w: fun(h, w, 0), *args)
    assert len(piece_by_piece.blocks) == 2 and copied(piece_by_piece) == [3]
    row_by_row = check(lambda h, w: fun(h, w, 1), *args)
    assert len(row_by_row.blocks) == 1 and copied(row_by_row) == []


def test_numbers_from_several_nests_are_stored_side_by_side() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        return [jnp.stack([x.sum(), y.max(), x[0, 0] * 2])]

    lowered = check(fun, array(9, 4), array(36, 1), compiled=True)
    assert len(nests(lowered)) == len(lowered.schedule.steps) == 3


def test_no_memory_is_taken_before_a_barrier_for_what_comes_behind() -> None:
    def fun(x: Any) -> list[Any]:
        y = x * 2
        y, x = lax.optimization_barrier((y, x))
        return [jnp.concatenate([y, x - 1], 1)]

    assert copied(check(fun, array(9, 4))) == [1]


# --- loops, branches and blocks ---------------------------------------------------------------------------------

LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "stacked": lambda c, x: (c * 0.5 + x, jnp.concatenate([x * 2, c - 1], 1)),
    "carried": lambda c, x: (jnp.concatenate([c[:, 3:] * 0.5, c[:, :3] + x[:, :3]], 1), c),
    "carried and stacked": lambda c, x: ((n := jnp.concatenate([x[:, 2:] + 1, c[:, :2] * 0.5], 1)), n),
    "by leading rows": lambda c, x: (jnp.concatenate([c[4:] * 0.5, x[:4] * c[:4]]), jnp.stack([x - c, x * c])),
    "some in memory": lambda c, x: (jnp.concatenate([x[:, 3:], jnp.cumsum(c, 1)[:, :3]], 1), jnp.stack([c, c * x], 1)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_bodies_of_loops(name: str) -> None:
    for rows, length, reverse in ((9, 4, False), (40, 30, True), (40, 3, False)):
        xs, start = array(length, rows, 6), array(rows, 6)

        def fun(start: Any, xs: Any, reverse: bool = reverse) -> list[Any]:
            return list(lax.scan(LOOPS[name], start, xs, reverse=reverse))

        for donated in ([False, False], [True, True]):
            check(fun, start, xs, donated=donated, compiled=donated[0] and rows == 40)


def test_a_branch_and_a_while_loop() -> None:
    def fun(x: Any, k: Any) -> list[Any]:
        y = lax.cond(k > 2, lambda x: jnp.concatenate([x[4:] * 2, x[:4] + 1]), lambda x: x - 1, x)
        _, z = lax.while_loop(
            lambda t: t[0] < k, lambda t: (t[0] + 1, jnp.concatenate([t[1][:, 3:] + 1, t[1][:, :3] * 0.5], 1)), (0, x)
        )
        return [y, z]

    for k in range(5):
        check(fun, array(9, 6), np.array(k, np.int32), compiled=k == 3)


def test_the_gates_of_a_recurrent_cell_go_into_one_product_row_by_row() -> None:
    def fun(c: Any, gates: Any, w: Any) -> list[Any]:
        i, f, g, o = jnp.split(gates, 4, 1)
        c_next = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
        return [jnp.concatenate([c_next * i, c_next * f, g - c_next, o * c], 1) @ w]

    lowered = check(fun, array(64, 32), array(64, 128), array(128, 16), compiled=True)
    assert [type(s).__name__ for s in lowered.schedule.steps] == ["NestStep", "GemmStep"]
    assert len(lowered.blocks) == 1 and lowered.blocks[0].rows == 64


def test_the_gradient_of_a_recurrent_network_joins_no_gates() -> None:
    def loss(w: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = jnp.split(x + h @ w, 4, 1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
            return (nn.sigmoid(o) * jnp.tanh(c), c), None

        start = jnp.zeros((xs.shape[1], w.shape[0]), xs.dtype)
        return jnp.sum(lax.scan(step, (start, start), xs)[0][0])

    w, xs = array(16, 64) * np.float32(0.05), array(20, 8, 64) * np.float32(0.1)
    assert copied(check(lambda w, xs: [functad.grad(loss)(w, xs)], w, xs, compiled=True)) == []


# --- in random compositions ---------------------------------------------------------------------------------------


class Joined:
    """A random function that mostly joins, of arrays of one random type; it also makes loops of such functions."""

    def __init__(self, seed: int, depth: int = 0, dtype: str = "") -> None:
        choose = random.Random(seed)
        self.seed, self.depth, self.dtype = seed, depth, dtype or choose.choice(DTYPES)
        self.steps = choose.choice([4, 8, 14])
        shapes = [[choose.choice([1, 2, 3, 4, 16]) for _ in range(choose.choice([1, 2, 2, 3]))] for _ in range(2)]
        self.args = [array(*shape, dtype=self.dtype, seed=seed) for shape in shapes]

    def __call__(self, *args: Any) -> list[Any]:
        choose = random.Random(self.seed + 1)
        pool = list(args)
        for _ in range(self.steps):
            x = choose.choice(pool[-6:])
            kind = choose.random()
            if kind < 0.2:
                pool.append(self._other(choose, x))
            elif kind < 0.3:
                pool.append(choose.choice([x.T, x.reshape(-1), x[::-1], x[:1]]))
            elif kind < 0.4 and self.dtype in ("float32", "int32"):
                pool.append(x.sum(choose.randrange(x.ndim), keepdims=True))
            elif kind < 0.55 and self.depth < 2:
                pool += self._loop(choose, pool, x)
            else:
                pool.append(self._join(choose, pool, x))
            if pool[-1].size > 2000 or pool[-1].ndim > 3:
                pool.pop()
        return [v for v in pool[len(args) :] if choose.random() < 0.3] + pool[-1:]

    def _other(self, choose: random.Random, x: Any) -> Any:
        return choose.choice([different, lambda x: x ^ x if x.dtype == bool else x * x])(x)

    def _join(self, choose: random.Random, pool: list[Any], x: Any) -> Any:
        axis = choose.randrange(x.ndim)
        alike = [
            v
            for v in pool
            if v.ndim == x.ndim and np.delete(v.shape, axis).tolist() == np.delete(x.shape, axis).tolist()
        ]
        some = [
            self._other(choose, x),
            self._other(choose, x).reshape(-1).reshape(x.shape),
            x,
            jnp.zeros_like(x),
            x[::-1],
        ]
        if choose.random() < 0.3:
            return jnp.stack(choose.choices(some, k=choose.choice([1, 2, 3])), choose.randrange(x.ndim + 1))
        operands = choose.choices(
            [*some, *map(different, alike), lax.slice_in_dim(x, 0, 0, axis=axis)], k=choose.choice([2, 3, 4])
        )
        return jnp.concatenate([*operands, x], axis)

    def _loop(self, choose: random.Random, pool: list[Any], x: Any) -> list[Any]:
        inner, other = Joined(choose.randrange(10**6), self.depth + 1, self.dtype), choose.choice(pool)
        half = x.shape[0] // 2

        def body(carry: Any, part: Any) -> tuple[Any, Any]:
            outs = inner(carry, other)
            alike = [o for o in outs if o.shape == x.shape]
            swapped = jnp.concatenate([different(carry[half:]), part[:half]])
            return (alike[-1] if alike and half % 2 else swapped), (outs[0], swapped)

        end, stacks = lax.scan(body, x, jnp.stack([x, different(x), x]), reverse=choose.random() < 0.5)
        return [end, *stacks]


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("part", range(3))
def test_random_compositions_equal_the_interpreter(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = 0
    for seed in range(50 * part, 50 * part + 50):
        choose = random.Random(seed)
        monkeypatch.setattr(machine_model, "POINTS_WORTH_PARTS", choose.choice([1 << 16, 1]))
        monkeypatch.setattr(machine_model, "LARGEST_NEST", choose.choice([100, 5]))
        monkeypatch.setattr(machine_model, "FEWEST_ROWS", choose.choice([4, 1]))
        monkeypatch.setattr(machine_model, "FLOATS_OF_VECTOR", choose.choice([16, 1]))
        f = Joined(seed)
        program = program_of(f, f.args, simplify if seed % 3 else inline_calls)
        lowered = check_plain(program, f.args, [choose.random() < 0.4 for _ in f.args], seed)
        stored += sum(e.primitive.name == "concatenate" for s in nests(lowered) for e in s.eqns)
    assert stored > 30
