"""Updates that are made for some rows: the same elements as a choice between two arrays, without the choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.ir import Program, subprograms
from functad.optimize.pipeline import simplify
from functad.tracing import eval_program

ROWS = np.array([[0.0, -0.0, 2.5, np.nan], [-1.0, np.inf, -0.0, 3.0], [4.0, 5.0, 6.0, 7.0]], np.float32)
PLACES = np.array([1, -7, 9], np.int32)
SOME = np.array([True, False, True])
KINDS = ("set", "add", "mul", "min", "max")


def _choices(program: Program) -> list[tuple[int, ...]]:
    """The shapes of all that is chosen in a Program."""
    own = [e.outvars[0].aval.shape for e in program.eqns if e.primitive.name == "select_n"]
    return own + [shape for e in program.eqns for p in subprograms(e.params) for shape in _choices(p)]


def _check(fun: Callable[..., Any], *args: Any, chooses: bool = False) -> None:
    """The optimiser leaves no choice between whole arrays of the first argument's shape, and all bits."""
    program = functad.make_jaxpr(fun)(*args)
    simple = simplify(program)
    shape = np.shape(args[0])
    assert shape in _choices(program)
    assert (shape in _choices(simple)) is chooses
    for wanted, got in zip(eval_program(program, args), eval_program(simple, args), strict=True):
        assert np.asarray(got).tobytes() == np.asarray(wanted).tobytes()
    for wanted, got in zip(functad.tree.leaves(fun(*args)), functad.tree.leaves(functad.jit(fun)(*args)), strict=True):
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def _updated(kind: str, mode: str | None = None) -> Callable[[Any, Any], Any]:
    return lambda row, place: getattr(row.at[place], kind)(jnp.float32(0.5), mode=mode)


@pytest.mark.parametrize("mode", ["clip", "drop", "promise_in_bounds"])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_stay(kind: str, mode: str) -> None:
    places = np.array([1, -2, 3], np.int32) if mode == "promise_in_bounds" else PLACES
    update = _updated(kind, mode)
    _check(functad.vmap(lambda row, place, some: jnp.where(some, update(row, place), row)), ROWS, places, SOME)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int64"])
def test_places_of_any_integer(dtype: str) -> None:
    rows = np.arange(600, dtype=np.float32).reshape(2, 300)
    places = np.array([127, 100], dtype)
    _check(functad.vmap(lambda row, place, some: jnp.where(some, row, row.at[place].set(-1.0))), rows, places, SOME[:2])


def test_one_flag_for_all() -> None:
    def fun(rows: Any, some: Any) -> Any:
        return lax.select(some, jnp.asarray(rows).at[np.array([0, 0]), np.array([3, 1])].add(1.0), rows)

    for some in (True, False):
        _check(fun, ROWS, np.bool_(some))


def test_windows_that_are_moved_into_bounds() -> None:
    def one(row: Any, place: Any, some: Any) -> Any:
        return jnp.where(some, lax.dynamic_update_slice(row, jnp.float32([8.0, 9.0]), (place,)), row)

    _check(functad.vmap(one), ROWS, PLACES, SOME)
    _check(functad.vmap(one, in_axes=(0, None, 0)), ROWS, np.int32(3), SOME)
    twice = functad.vmap(functad.vmap(one, in_axes=(0, 0, None)), in_axes=(0, None, 0))
    _check(twice, np.stack([ROWS, -ROWS]), PLACES, SOME[:2])

    def block(square: Any, place: Any, some: Any) -> Any:
        return jnp.where(some, lax.dynamic_update_slice(square, jnp.ones((2, 1)), (place, place)), square)

    _check(functad.vmap(block), ROWS.reshape(3, 2, 2), PLACES, SOME)


def test_a_window_of_all_rows_whose_place_is_data_is_made_as_written() -> None:
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=(1, 2), inserted_window_dims=(), scatter_dims_to_operand_dims=(0, 1)
    )

    def fun(rows: Any, places: Any, some: Any) -> Any:
        updated = lax.scatter(rows, places, jnp.full((1, 3, 2), 8.0), numbers, mode="drop")
        return lax.select(lax.broadcast_in_dim(some, rows.shape, (0,)), updated, rows)

    for place in (0, 1):
        _check(fun, jnp.asarray(ROWS), np.array([[place, 1]], np.int32), SOME, chooses=True)


def test_slices_at_known_places() -> None:
    def one(row: Any, some: Any) -> Any:
        return jnp.where(some, row.at[1::2].add(1.0), row), jnp.where(some, row, row.at[2].set(1.0))

    _check(functad.vmap(one), ROWS, SOME)


def test_one_update_behind_another() -> None:
    def one(row: Any, place: Any, some: Any) -> Any:
        updated = row.at[place].set(1.0).at[2].add(2.0)
        return jnp.where(some, lax.dynamic_update_slice(updated, jnp.float32([8.0]), (place,)), row)

    _check(functad.vmap(one), ROWS, PLACES, SOME)


def test_what_others_read_is_made_as_written() -> None:
    def one(row: Any, place: Any, some: Any) -> Any:
        updated = row.at[place].set(1.0)
        return jnp.where(some, updated, row), updated * 2

    _check(functad.vmap(one), ROWS, PLACES, SOME, chooses=True)


def test_other_choices_stay() -> None:
    def by_element(row: Any, place: Any, some: Any) -> Any:
        return jnp.where(row > 0, row.at[place].set(1.0), row)

    def of_another(row: Any, place: Any, some: Any) -> Any:
        return jnp.where(some, row.at[place].set(1.0), row * 2)

    for fun in (by_element, of_another):
        _check(functad.vmap(fun), ROWS, PLACES, SOME, chooses=True)


def test_a_mapped_loop_writes_into_its_carry() -> None:
    def run(start: Any, row: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1].at[c[0]].set(1.0)), (start, row))

    starts = np.array([0, 2, 5], np.int32)
    batched = functad.vmap(run)
    assert ROWS.shape not in _choices(functad.jit(batched).lower(starts, ROWS).optimized)
    for wanted, got in zip(batched(starts, ROWS), functad.jit(batched)(starts, ROWS)):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(batched(starts, ROWS)[1][:, 2], np.float32([1, 1, 6]))
