"""The passes that take in transposes, broadcasts and scatters; and every pass on random programs, one at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from cpu_program_tools import program_of
from fuzz.forms import expected_of
from fuzz.rounding import interpreted
from fuzz.session import some_program

import functad
import functad.numpy as jnp
from functad import lax
from functad.editing.dead_code import eliminate_dead_code
from functad.ir import Program, check_program
from functad.lax import GatherScatterMode, ScatterDimensionNumbers
from functad.optimize.pipeline import PASSES, inline_calls, simplify, simplify_numbers, simplify_products, sum_few_terms

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

MATMUL = (((1,), (0,)), ((), ()))


def names(program: Program) -> list[str]:
    return [e.primitive.name for e in program.eqns]


def same_results(before: Program, after: Program, args: Sequence[np.ndarray], label: str = "") -> None:
    check_program(after)
    args = [np.asarray(a) for a in args]
    wrong = expected_of(before, args).mismatch(interpreted(after)(args), expected_of(after, args))
    assert wrong is None, f"{label}: {wrong}"


def rewritten(a_pass: Callable[[Program], Program], fun: Callable[..., Any], *args: np.ndarray) -> Program:
    """The Program after a pass and without dead code, once its results are found to be the same."""
    program = program_of(fun, args, inline_calls)
    after = eliminate_dead_code(a_pass(program))
    same_results(program, after, args)
    return after


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


# --- all passes on random programs -----------------------------------------------------------------------------


@pytest.mark.parametrize("a_pass", [*dict.fromkeys(PASSES), sum_few_terms, simplify], ids=lambda p: p.__name__)
def test_a_pass_alone_keeps_results_and_prints(a_pass: Callable[[Program], Program]) -> None:
    smaller = 0
    for seed in range(60):
        f = some_program(f"passes/{seed}")
        program = program_of(f, f.args, lambda p: p if a_pass in (inline_calls, simplify) else inline_calls(p))
        after = a_pass(program)
        same_results(program, after, f.args, f"{a_pass.__name__}, seed {seed}")
        assert str(after).startswith("{ lambda")
        smaller += len(eliminate_dead_code(after).eqns) < len(program.eqns)
    if a_pass in (eliminate_dead_code, simplify):
        assert smaller > 5


def test_simplifying_again_changes_little() -> None:
    for seed in range(40):
        f = some_program(f"again/{seed}")
        once = program_of(f, f.args)
        twice = simplify(once)
        same_results(once, twice, f.args, f"seed {seed}")
        assert len(twice.eqns) <= len(once.eqns)


# --- transposes ------------------------------------------------------------------------------------------------


def test_transposed_operands_and_results_become_dimension_numbers() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        product = lax.dot_general(lax.transpose(x, (1, 0)), lax.transpose(y, (1, 0)), MATMUL)
        return [lax.transpose(product, (1, 0))]

    assert names(rewritten(simplify_products, fun, array(3, 4), array(5, 3))) == ["dot_general"]


@pytest.mark.parametrize("permutation", list(itertools.permutations(range(3))))
def test_transposes_of_batched_operands(permutation: tuple[int, ...]) -> None:
    x = array(2, 3, 4).transpose(np.argsort(permutation)).copy()

    def fun(x: Any, y: Any) -> list[Any]:
        x = lax.transpose(x, permutation)  # (2, 3, 4)
        return [
            lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))),
            lax.dot_general(x, y, (((2,), (1,)), ((), ()))),
            lax.dot_general(y, x, (((1, 0), (2, 0)), ((), ()))),
        ]

    after = rewritten(simplify_products, fun, x, array(2, 4, 5))
    in_order = permutation[0] < permutation[1]  # of the free axes of the second and third product
    assert ("transpose" in names(after)) == (not in_order)


@pytest.mark.parametrize("permutation", list(itertools.permutations(range(3)))[1:])
def test_only_an_exchange_of_rows_and_columns_swaps_the_operands(permutation: tuple[int, ...]) -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        return [lax.transpose(lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))), permutation)]

    after = rewritten(simplify_products, fun, array(2, 3, 4), array(2, 4, 5))
    assert ("transpose" in names(after)) == (permutation != (0, 2, 1))


def test_a_product_that_is_used_twice_is_not_computed_twice() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        product = lax.dot_general(x, y, MATMUL)
        return [product, lax.transpose(product, (1, 0))]

    assert names(rewritten(simplify_products, fun, array(3, 4), array(4, 5))) == ["dot_general", "transpose"]


def test_a_product_of_what_was_swapped_already() -> None:
    def fun(x: Any, y: Any) -> list[Any]:
        z = lax.transpose(lax.dot_general(x, y, MATMUL), (1, 0))
        return [lax.transpose(lax.dot_general(z, x, MATMUL), (1, 0))]

    assert names(rewritten(simplify_products, fun, array(4, 4), array(4, 4))) == ["dot_general"] * 2


# --- broadcasts ------------------------------------------------------------------------------------------------


def test_repeated_scalars_stay_scalars() -> None:
    def fun(x: Any) -> list[Any]:
        ones = lax.full((3, 4), np.float32(2))
        return [lax.mul(lax.add(x, lax.exp(lax.neg(ones))), ones)]

    after = rewritten(simplify_numbers, fun, array(3, 4))
    assert "broadcast_in_dim" not in names(after)
    assert all(v.aval.shape == () for e in after.eqns for v in e.outvars if e.primitive.name in ("exp", "neg"))


def test_what_must_be_an_array_is_repeated_at_last() -> None:
    def fun(x: Any, number: Any) -> list[Any]:
        ones = lax.broadcast_in_dim(number, (3, 4), ())
        return [lax.mul(ones, ones), lax.reduce_sum(lax.sin(ones), (0,)), lax.dot_general(ones, x, MATMUL)]

    after = rewritten(simplify_numbers, fun, array(4, 2), np.float32(2))
    assert [e.outvars[0].aval.shape for e in after.eqns if e.primitive.name in ("mul", "sin")] == [(), ()]


def test_choices_and_comparisons_of_repeated_scalars() -> None:
    def fun(x: Any, flag: Any) -> list[Any]:
        flags = lax.broadcast_in_dim(flag, (3, 4), ())
        zeros, ones = lax.full((3, 4), np.float32(0)), lax.full((3, 4), np.float32(1))
        return [
            lax.select(flags, x, zeros),
            lax.select(flags, zeros, ones),
            lax.select(lax.lt(x, ones), zeros, x),
            lax.clamp(zeros, x, ones),
            lax.max(zeros, ones),
        ]

    for flag in (True, False):
        rewritten(simplify_numbers, fun, array(3, 4), np.bool_(flag))


def test_sums_of_cotangents_keep_equal_shapes() -> None:
    def loss(x: Any) -> Any:
        return x.sum() + (x * 2.0).sum() + jnp.sin(x).sum()

    x = array(3, 4)
    program = inline_calls(functad.make_jaxpr(functad.grad(loss))(x))
    same_results(program, eliminate_dead_code(simplify_numbers(program)), [x])


# --- scatters --------------------------------------------------------------------------------------------------


def one_of_each_row(mode: Any, dtype: str = "float32", zero: Any = 0.0) -> Callable[..., Any]:
    numbers = ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))

    def fun(indices: Any, updates: Any) -> list[Any]:
        zeros = lax.full((4, 3), np.dtype(dtype).type(zero))
        return [lax.scatter_add(zeros, indices, updates, numbers, mode=mode)]

    return fun


UPDATES = np.array([1.5, -0.0, np.nan, -np.inf], np.float32)


@pytest.mark.parametrize("mode", [GatherScatterMode.FILL_OR_DROP, "drop"])
def test_one_element_for_each_row_of_zeros_is_a_choice(mode: Any) -> None:
    indices = np.array([[0], [2], [1], [7]], np.int32)
    after = rewritten(simplify_numbers, one_of_each_row(mode), indices, UPDATES)
    assert "scatter-add" not in names(after)
    rewritten(simplify_numbers, one_of_each_row(mode), np.array([[-1], [0], [-3], [3]], np.int32), UPDATES)


@pytest.mark.parametrize("zero", [-0.0, 1.0, complex(-0.0, -0.0), complex(0.0, -0.0)])
def test_only_zeros_are_zeros(zero: complex) -> None:
    dtype = "complex64" if isinstance(zero, complex) else "float32"
    indices = np.array([[0], [2], [1], [7]], np.int32)
    made = one_of_each_row("drop", dtype, zero)
    after = rewritten(simplify_numbers, made, indices, UPDATES.astype(dtype))
    assert "scatter-add" in names(after)


def test_clipped_indices_still_scatter() -> None:
    indices = np.array([[0], [9], [-1], [1]], np.int32)
    after = rewritten(simplify_numbers, one_of_each_row("clip"), indices, UPDATES)
    assert "scatter-add" in names(after)


def test_positions_that_an_index_cannot_count_still_scatter() -> None:
    numbers = ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))

    def fun(indices: Any, updates: Any) -> list[Any]:
        return [lax.scatter_add(lax.full((2, 200), np.float32(0)), indices, updates, numbers, mode="drop")]

    rewritten(simplify_numbers, fun, np.array([[-100], [127]], np.int8), np.ones(2, np.float32))


def test_the_derivative_of_picking_labels_is_a_choice() -> None:
    def picked(x: Any, labels: Any) -> Any:
        return jnp.take_along_axis(x, labels[:, None], 1).sum()

    args = array(4, 3), np.array([0, 2, 1, 2], np.int32)
    program = inline_calls(functad.make_jaxpr(functad.grad(picked))(*args))
    after = eliminate_dead_code(simplify_numbers(program))
    same_results(program, after, args)
    assert "scatter-add" in names(program) and "scatter-add" not in names(after)
