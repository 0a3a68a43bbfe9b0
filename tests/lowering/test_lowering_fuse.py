"""Fusion: what becomes one nest, what stays apart, and what limits the size of groups and the depth of recursion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz.forms import traced
from fuzz.session import some_program

import functad
import functad.numpy as jnp
from functad import lax, machine_model
from functad.errors import NoRuleError
from functad.ir import Absent, Program, Var
from functad.lowering.barriers import remove_barriers
from functad.lowering.fusion.fuse import Fusion
from functad.lowering.fusion.inlining import Inlining, no_buffer
from functad.lowering.schedule import make_schedule
from functad.lowering.shared import variable_names
from functad.lowering.steps import NestStep
from functad.optimize.pipeline import simplify

ROWS = functad.ShapeDtypeStruct((8, 16), "float32")
VECTOR = functad.ShapeDtypeStruct((16,), "float32")
SQUARE = functad.ShapeDtypeStruct((16, 16), "float32")


def fusion_of(fun: Callable[..., Any], *types: Any) -> Fusion:
    program = simplify(functad.make_jaxpr(fun)(*types))
    return Fusion(program, variable_names(program).__getitem__)


def primitives(fusion: Fusion) -> list[list[str]]:
    """The primitives of each group's own equations."""
    return [[fusion.program.eqns[i].primitive.name for i in g.members] for g in fusion.groups]


def kinds(fusion: Fusion) -> list[str]:
    return [g.kind for g in fusion.groups]


# --- what is rematerialised -----------------------------------------------------------------------------------

LARGE = functad.ShapeDtypeStruct((512, 1024), "float32")
HALF = functad.ShapeDtypeStruct((512, 1024), "float16")


def sums_of_squares(x: Any) -> Any:
    squares = x * x + 1e-6
    return squares.sum(0), squares.sum(1)


def scaled_by_its_norm(x: Any, y: Any) -> Any:
    mixed = 0.9 * x + y
    return mixed / jnp.sqrt(jnp.square(mixed).sum())


def converted_for_a_product(x: Any, w: Any) -> Any:
    h = x.astype(jnp.float32)
    y = h + 1.0
    return y - y.max(1, keepdims=True), w @ h


def two_after_a_test(x: Any, y: Any) -> Any:
    one, other = x + y, x - y
    good = (jnp.isfinite(one) & jnp.isfinite(other)).all()
    return jnp.where(good, one, x), jnp.where(good, other, y)


@pytest.mark.parametrize(
    "fun, types, stored",
    [
        (sums_of_squares, [LARGE], 0),
        (sums_of_squares, [ROWS], 1),  # it lies in the cache
        (lambda x: (jnp.exp(x).sum(0), jnp.exp(x).sum(1)), [LARGE], 0),  # one nest has both sums
        (lambda x: (jnp.exp(x).sum(0), jnp.exp(x).max()), [LARGE], 1),  # to read takes less time
        (lambda x: (x.T @ (2.0 + x), (2.0 + x).sum(0)), [LARGE], 1),  # a product reads memory
        (converted_for_a_product, [HALF, LARGE.update(shape=(64, 512))], 1),  # what computes others, too
        (scaled_by_its_norm, [LARGE, LARGE], 1),  # two arrays would be kept instead of one
        (two_after_a_test, [LARGE, LARGE], 0),  # two instead of two
        (lambda x: x / jnp.exp(x).sum(1, keepdims=True) * jnp.exp(x), [LARGE], 1),  # row by row, from a cache
        (lambda x: x / jnp.square(x + 1.0).sum(1, keepdims=True) * (x + 1.0), [LARGE], 0),  # in less time than that
    ],
)
def test_what_is_quickly_computed_from_no_more_is_not_stored(fun: Any, types: list[Any], stored: int) -> None:
    fusion = fusion_of(fun, *types)
    large = {v for v in fusion.stored - fusion.inlining.outputs if v.aval.size >= types[0].size}
    assert len(large - {*fusion.program.invars}) == stored, str(fusion)


@pytest.mark.parametrize("fun, count", [(sums_of_squares, 1), (two_after_a_test, 2)])
def test_what_is_rematerialised_is_equal_to_the_bit(fun: Any, count: int) -> None:
    args = np.random.default_rng(0).normal(size=(count, 512, 1024)).astype(np.float32)
    for compiled, plain in zip(functad.jit(fun)(*args), fun(*map(jnp.asarray, args)), strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=0 if count == 2 else 1e-5)


# --- what goes together --------------------------------------------------------------------------------------


def test_a_chain_of_elementwise_operations_is_one_nest() -> None:
    assert kinds(fusion_of(lambda x, b: jnp.tanh(jnp.sin(x) * 2.0 + b), ROWS, VECTOR)) == ["nest"]


def gated(x: Any, b: Any) -> Any:
    """Parts of what is computed first, each read once."""
    value, gate = jnp.split(jnp.exp(x) + b, 2, 1)
    return value * jnp.tanh(gate)


def test_what_is_split_is_computed_where_its_parts_are_read_once() -> None:
    assert kinds(fusion_of(gated, ROWS, VECTOR)) == ["nest"]
    x, b = np.linspace(-2, 1, 128, dtype=np.float32).reshape(8, 16), np.linspace(0, 1, 16, dtype=np.float32)
    np.testing.assert_allclose(functad.jit(gated)(x, b), gated(jnp.asarray(x), jnp.asarray(b)), rtol=1e-6)


def test_what_is_split_is_stored_if_two_loops_read_a_part() -> None:
    def read_twice(x: Any, b: Any) -> Any:
        value, gate = jnp.split(jnp.exp(x) + b, 2, 1)
        return value * jnp.tanh(gate), jnp.sum(value, 0)

    assert primitives(fusion_of(read_twice, ROWS, VECTOR)) == [["add"], ["mul"], ["reduce_sum"]]


@pytest.mark.parametrize("step", [lambda y: y.T.reshape(30, 40), lambda y: lax.rev(y, (0,)), lambda y: y[None][0]])
def test_long_chains_of_moves_end(step: Callable[..., Any]) -> None:
    def moved(x: Any) -> Any:
        y = jnp.exp(x)
        for _ in range(1200):
            y = step(y)
        return jnp.sin(y)

    program = functad.make_jaxpr(moved)(functad.ShapeDtypeStruct((30, 40), "float32"))
    inlining = Inlining(program)
    assert inlining.is_read_at_points(program.eqns[0].outvars[0])
    nests = [s.nest for s in make_schedule(program).steps if isinstance(s, NestStep)]
    assert max(len(offset.text()) for nest in nests for _, offset, _ in nest.accesses()) < 3000


def test_where_an_empty_array_is_reshaped_nothing_is_read() -> None:
    def moved(x: Any) -> Any:
        for _ in range(machine_model.SHALLOWEST_LONG_INDEX):
            x = lax.rev(x, (0,))
        return jnp.tile(x, 2).reshape(0, 3)

    program = functad.make_jaxpr(moved)(functad.ShapeDtypeStruct((0,), "float32"))
    assert all(eqn.outvars[0] in Inlining(program).inline for eqn in program.eqns)


def test_padding_is_one_nest_with_what_it_pads_and_what_follows() -> None:
    fusion = fusion_of(lambda x: jnp.tanh(jnp.pad(x * 2.0, 1)) + 1.0, ROWS)
    assert kinds(fusion) == ["nest"]
    borders_and_interior = fusion.builders(fusion.groups[0], no_buffer)
    assert [b.nest.outer_points for b in borders_and_interior] == [18, 8, 128, 8, 18]
    assert [b.loaded != [] for b in borders_and_interior] == [False, False, True, False, False]


def pairs(x: Any, y: Any) -> Any:
    """Of each pair of few numbers something that is reduced along both axes, and along one again after that."""
    near = jnp.exp(-((x[:, None] - y[None]) ** 2))
    return jnp.sum(near / jnp.sum(near, 1)[:, None], 0), jnp.sum(near * x[:, None], 1)


def test_no_buffer_holds_what_comes_from_few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    few = functad.ShapeDtypeStruct((64,), "float32")
    stored = [len(v.aval.shape) for v in fusion_of(pairs, few, few).stored]
    assert max(stored) == 2  # as long as the caches hold it
    monkeypatch.setattr(machine_model, "SMALLEST_RECOMPUTED", 64 * 64 * 4)
    fusion = fusion_of(pairs, few, few)
    assert [len(v.aval.shape) for v in fusion.stored] == [1] * len(fusion.stored)
    assert [sorted(g.axes) for g in fusion.groups if g.axes] == [[1], [0]]  # both sums along an axis in one nest
    few = functad.ShapeDtypeStruct((8,), "float32")
    assert max(len(v.aval.shape) for v in fusion_of(pairs, few, few).stored) == 2


def test_what_a_product_or_the_caller_needs_has_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_model, "SMALLEST_RECOMPUTED", 0)
    few = functad.ShapeDtypeStruct((64,), "float32")

    def returned(x: Any, y: Any) -> Any:
        far = jnp.tanh(x[:, None] - y[None])
        return far, jnp.sum(far, 0)

    def multiplied(x: Any, y: Any) -> Any:
        far = jnp.tanh(x[:, None] - y[None])
        return far.T @ x, jnp.sum(far, 0), jnp.sum(far, 1)

    for fun in (returned, multiplied):
        fusion = fusion_of(fun, few, few)
        (far,) = [v for v in fusion.stored if v.aval.shape == (64, 64)]
        assert fusion.program.eqns[fusion.inlining.producer[far]].primitive.name == "tanh"


def test_what_is_reduced_is_not_cut() -> None:
    fusion = fusion_of(lambda x: jnp.sum(jnp.pad(x, 1) * 2.0), ROWS)
    assert kinds(fusion) == ["nest"] and len(fusion.builders(fusion.groups[0], no_buffer)) == 1


def test_a_nest_that_would_fall_into_too_many_pieces_stays_whole() -> None:
    config = [(1, 1, 8)] * 2  # nine phases along each axis
    fusion = fusion_of(lambda x: lax.pad(x, jnp.float32(0), config), ROWS)
    assert len(fusion.builders(fusion.groups[0], no_buffer)) == 1


def test_several_results_from_the_same_points_are_one_nest() -> None:
    fusion = fusion_of(lambda x: (jnp.sin(x), jnp.cos(x), jnp.sin(x) * jnp.cos(x)), ROWS)
    assert kinds(fusion) == ["nest"]


def test_reductions_of_the_same_rows_are_one_nest() -> None:
    fusion = fusion_of(lambda x: (x.sum(1), (x * x).sum(1), jnp.max(x, 1)), ROWS)
    assert kinds(fusion) == ["nest"] and fusion.groups[0].axes == (1,)


def test_what_follows_from_a_reduced_value_joins_its_nest() -> None:
    fusion = fusion_of(lambda x: jnp.sqrt((x * x).sum(1)) + 1.0, ROWS)
    assert kinds(fusion) == ["nest"]


def test_a_softmax_needs_a_nest_for_each_pass_over_its_rows() -> None:
    def softmax(x: Any) -> Any:
        e = jnp.exp(x - jnp.max(x, 1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    assert kinds(fusion_of(softmax, ROWS)) == ["nest"] * 3


def test_sums_over_leading_and_trailing_axes_stay_apart() -> None:
    assert len(fusion_of(lambda x: (x.sum(0), x.sum(1)), ROWS).groups) == 2


def test_transposes_reshapes_slices_and_constants_have_no_kernel() -> None:
    def fun(x: Any) -> Any:
        return jnp.sin(x.T.reshape(4, 32)[:2] + lax.iota(np.float32, 32))

    fusion = fusion_of(fun, ROWS)
    assert kinds(fusion) == ["nest"]
    names = {e.primitive.name for e in fusion.inlining.inline.values()}
    assert {"transpose", "reshape", "slice", "iota"} <= names


def test_matrix_products_stand_alone_and_loops_too() -> None:
    assert kinds(fusion_of(lambda x, w: lax.sort(jnp.tanh(x @ w)), ROWS, SQUARE)) == ["product", "nest", "loops"]


def test_nests_are_not_joined_across_what_runs_between_them() -> None:
    def fun(x: Any, w: Any) -> Any:
        y = jnp.sin(x)
        z = y @ w
        return z + y, jnp.cos(x)

    fusion = fusion_of(fun, ROWS, SQUARE)
    done: set[Var] = set()
    for group in fusion.groups:
        own = {v for i in group.members for v in fusion.program.eqns[i].outvars}
        needed = {v for v in group.reads if fusion.group_of.get(v) not in (None, group)}
        assert needed <= done
        done |= own


# --- limits --------------------------------------------------------------------------------------------------


def test_groups_do_not_grow_without_bound() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        outs = [x]
        for _ in range(300):
            outs.append(jnp.sin(outs[-1]) + y)
        return outs

    fusion = fusion_of(fun, VECTOR, VECTOR)
    assert sum(len(g.members) for g in fusion.groups) + len(fusion.inlining.inline) == 600
    for group in fusion.groups:
        assert group.weight <= machine_model.LARGEST_NEST
        assert len(group.reads) + group.results <= machine_model.MOST_BUFFERS
    assert len(fusion.groups) <= 2 * sum(g.weight for g in fusion.groups) // machine_model.LARGEST_NEST + 1


@pytest.mark.parametrize("count", [100, 700])
def test_long_chains_of_moves_do_not_recurse_without_bound(count: int) -> None:
    def fun(x: Any) -> Any:
        for i in range(count):
            x = lax.rev(x, (i % 2,)).T if i % 2 else lax.pad(x, np.float32(0), ((1, -1, 0), (0, 0, 0)))
        return x

    program = simplify(functad.make_jaxpr(fun)(functad.ShapeDtypeStruct((8, 8), "float32")))
    assert make_schedule(program).steps


def test_constants_that_double_are_not_written_out_again_and_again() -> None:
    def fun(x: Any) -> Any:
        k = lax.iota(np.float32, 16)
        for _ in range(60):
            k = k + k * 3.0
        return x + k

    fusion = fusion_of(fun, VECTOR)
    assert max(fusion.inlining.weight.values()) <= machine_model.LARGEST_INLINE


def test_a_primitive_that_cannot_be_lowered_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    program = functad.make_jaxpr(jnp.sin)(VECTOR)
    primitive = program.eqns[0].primitive
    before = primitive.lower
    object.__setattr__(primitive, "lower", Absent("the reason"))
    try:
        with pytest.raises(NoRuleError, match="`sin` cannot be compiled: the reason"):
            Fusion(program, variable_names(program).__getitem__)
    finally:
        object.__setattr__(primitive, "lower", before)


# --- on random programs --------------------------------------------------------------------------------------


def random_program(seed: int) -> Program:
    f = some_program(f"fuse/{seed}")
    return remove_barriers(simplify(traced(f, f.args)))[0]


def test_every_equation_is_in_one_group_or_computed_where_it_is_used() -> None:
    for seed in range(100):
        program = random_program(seed)
        fusion = Fusion(program, variable_names(program).__getitem__)
        members = [i for g in fusion.groups for i in g.members]
        assert len(members) == len(set(members)), f"seed {seed}"
        for i, eqn in enumerate(program.eqns):
            inline = eqn.outvars[0] in fusion.inlining.inline
            empty = all(v.aval.size == 0 for v in eqn.outvars)
            assert (i in members) != (inline or empty), f"seed {seed}: {eqn.primitive.name}"


def test_groups_run_after_those_that_they_read() -> None:
    for seed in range(100):
        program = random_program(seed)
        fusion = Fusion(program, variable_names(program).__getitem__)
        at = {g.number: position for position, g in enumerate(fusion.groups)}
        for group in fusion.groups:
            for var in group.reads:
                owner = fusion.group_of.get(var)
                assert owner is None or owner is group or at[owner.number] < at[group.number], f"seed {seed}"


def test_a_fusion_prints_its_groups_with_their_equations() -> None:
    text = str(fusion_of(lambda x, w: lax.rev(jnp.sin(x) @ w, (0,)).sum(1), ROWS, SQUARE))
    assert text.splitlines() == [
        "0: nest over [8, 16]",
        "     c:f32[8,16] = sin a",
        "1: product",
        "     d:f32[8,16] = dot_general c b",
        "2: nest over [8, 16], axes [1] reduced",
        "     f:f32[8] = reduce_sum e",
        "where they are used:",
        "     e:f32[8,16] = rev d",
    ]


# --- slices at known places ----------------------------------------------------------------------------------


def test_a_step_of_the_heat_equation_is_one_nest() -> None:
    def step(u: Any) -> Any:
        inside = u[1:-1, 1:-1]
        return u.at[1:-1, 1:-1].set(inside + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] - 2.0 * inside))

    fusion = fusion_of(step, SQUARE)
    assert kinds(fusion) == ["nest"]
    assert len(fusion.builders(fusion.groups[0], no_buffer)) == 5


@pytest.mark.parametrize("update", ["add", "multiply", "max", "set"])
def test_a_slice_of_a_donated_array_is_all_that_is_written(update: str) -> None:
    def change(x: Any, v: Any) -> Any:
        return getattr(x.at[2:-1, 1:-1:2], update)(v)

    program = simplify(functad.make_jaxpr(change)(SQUARE, functad.ShapeDtypeStruct((13, 7), "float32")))
    (*before, last) = make_schedule(program, donated=(True, False)).steps
    assert isinstance(last, NestStep) and last.nest.points == 13 * 7
    assert not before or update in ("multiply", "max")


def test_a_slice_that_is_read_elsewhere_is_still_replaced_in_place() -> None:
    program = simplify(functad.make_jaxpr(lambda x: x.at[0].set(x[1] + 1.0))(SQUARE))
    steps = make_schedule(program, donated=(True,)).steps
    assert [step.nest.points for step in steps if isinstance(step, NestStep)] == [16, 16]


def test_a_slice_of_what_the_same_nest_computes_is_replaced() -> None:
    def change(x: Any, y: Any) -> Any:
        z = jnp.sin(x) + y
        return z.at[1:].multiply(z[1:] + 1.0)

    x = np.linspace(0, 1, 16, dtype=np.float32)
    fusion = fusion_of(change, VECTOR, VECTOR)
    assert kinds(fusion) == ["nest"]
    np.testing.assert_allclose(functad.jit(change)(x, x), change(jnp.asarray(x), jnp.asarray(x)), rtol=1e-6)


def test_what_is_overwritten_in_every_piece_needs_no_buffer() -> None:
    function = functad.jit(lambda x: x.at[0].max(5.0).at[0].set(x[1]))
    np.testing.assert_array_equal(function(np.arange(4, dtype=np.float32)), [1, 1, 2, 3])


# --- arrays that are joined where the result is read ----------------------------------------------------------


def test_what_follows_a_roll_reads_the_array_itself() -> None:
    line = functad.ShapeDtypeStruct((100,), "float32")
    fusion = fusion_of(lambda g: g + 0.1 * (jnp.roll(g, 1) - 2.0 * g + jnp.roll(jnp.sin(g), -1)), line)
    assert primitives(fusion)[-1][-1] == "add" and all(kind == "nest" for kind in kinds(fusion))
    assert [b.nest.outer_points for b in fusion.builders(fusion.groups[-1], no_buffer)] == [1, 98, 1]


def test_what_is_joined_is_computed_in_its_piece() -> None:
    fusion = fusion_of(lambda x: jnp.concatenate([jnp.sin(x), x * 2.0, x[:4]]) + 1.0, SQUARE)
    assert kinds(fusion) == ["nest"]
    statements = [len(b.nest.statements) for b in fusion.builders(fusion.groups[0], no_buffer)]
    assert statements == [3, 3, 2]


@pytest.mark.parametrize("shape, axis", [((16, 3), 1), ((5,), 0)])
def test_short_parts_are_joined_in_memory(shape: tuple[int, ...], axis: int) -> None:
    x = functad.ShapeDtypeStruct(shape, "float32")
    assert "loops" in kinds(fusion_of(lambda x: jnp.concatenate([x, x * 2.0], axis) + 1.0, x))


LONG = functad.ShapeDtypeStruct((5000,), "float32")


def test_a_joined_array_is_computed_in_the_nest_that_reads_it() -> None:
    def stages(x: Any, y: Any) -> Any:
        slope = jnp.concatenate([x[:1], x[1:] * y[:-1]])
        return slope, y + 0.5 * slope

    fusion = fusion_of(stages, LONG, LONG)
    assert kinds(fusion) == ["nest"] and primitives(fusion)[0] == ["concatenate", "add"]
    x = np.linspace(0, 1, 5000, dtype=np.float32)
    for found, wanted in zip(functad.jit(stages)(x, x), stages(jnp.asarray(x), jnp.asarray(x))):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (z := jnp.concatenate([x[:1], x[1:] * 2.0]), z[::-1] * 2.0),  # nobody reads it point by point
        lambda x: (z := jnp.concatenate([x[:1], jnp.cumsum(x)]), z * 2.0),  # a part that would be copied
        lambda x: (z := jnp.concatenate([x, x[:8].reshape(-1)] * 4), z * 2.0),  # too many parts
        lambda x: (z := jnp.concatenate([x[:1], x[1:500]]), z * 2.0),  # in the first cache
    ],
)
def test_other_arrays_are_joined_in_memory(function: Any) -> None:
    assert "loops" in kinds(fusion_of(function, LONG))


def test_a_long_row_that_begins_amid_a_vector_is_cut_where_the_next_one_begins() -> None:
    def boxes(shape: tuple[int, ...]) -> list[list[int]]:
        x = functad.ShapeDtypeStruct(shape, "float32")
        fusion = fusion_of(lambda g: g + jnp.roll(g, 1, -1), x)
        return [[loop.extent for loop in b.nest.loops] for b in fusion.builders(fusion.groups[-1], no_buffer)]

    assert boxes((5000,)) == [[], [15], [4984]]
    assert boxes((1, 5000)) == [[], [15], [4984]]
    assert boxes((2000,)) == [[], [1999]]
    assert boxes((2, 5000)) == [[2], [2, 4999]]


def test_pieces_that_begin_with_vectors_compute_the_same() -> None:
    for size in (2047, 2048, 2049, 5001):
        x = np.random.default_rng(size).normal(size=size).astype("float32")
        wanted = x + np.roll(x, 1) + np.roll(x, -3)
        np.testing.assert_allclose(
            functad.jit(lambda x: x + jnp.roll(x, 1) + jnp.roll(x, -3))(x), wanted, rtol=1e-6, atol=1e-6
        )


# --- repeated arrays ------------------------------------------------------------------------------------------


def test_a_tiled_array_is_found_without_division() -> None:
    program = simplify(functad.make_jaxpr(lambda x: jnp.tile(x, (3, 2)))(SQUARE))
    (step,) = make_schedule(program).steps
    assert isinstance(step, NestStep) and all(offset.is_plain() for _, offset, _ in step.nest.accesses())
    assert step.nest.loops[0].extent == 16  # of which threads have more than of three


def test_a_repeated_array_is_written_once() -> None:
    program = simplify(functad.make_jaxpr(lambda x: jnp.repeat(x, 4))(VECTOR))
    assert len(make_schedule(program).steps) == 1
