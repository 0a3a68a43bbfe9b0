"""Products of gathered rows: what is the same for every use of a row of a table is computed once for each row.

`table[indices] @ w`, an embedding and a dense layer, multiplies a row as often as it is used. Instead the table is
multiplied, and rows of the product are gathered. The gradients are products of sums of cotangents, one for each row.
Knows gather, scatter-add and dot_general; results are the same up to rounding, for all indices, modes and values. What
only moves rows between these moves the indices first.

An infinite element times cotangents of both signs is NaN, times their sum it is not; products that overflow may be
those of a sum that is small; and an index out of bounds may read a row that no sum is added to. Such values are rare,
so only a look at them is spent on being exact: `either` the sums, or what was written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad import machine_model
from functad.control.conditional import either
from functad.dtypes import finfo
from functad.editing.rewriting import View, spliced
from functad.ir import Aval, Eqn
from functad.optimize.algebra import is_zeros
from functad.primitives.arithmetic import abs as abs_
from functad.primitives.common import reshape, reshape_p, transpose, transpose_p, zeros_of
from functad.primitives.contraction import dot_general_p
from functad.primitives.dimension_numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from functad.primitives.gather_scatter import gather, gather_p, scatter_add, scatter_add_p
from functad.primitives.logic import and_, ge, le
from functad.primitives.reduction import reduce_and
from functad.records import NamedTuple
from functad.tracing import bind


def moved_rows(eqn: Eqn, view: View) -> list[Eqn] | None:
    """Transposed or reshaped rows of a table are the rows at indices so moved; rows are added at those moved back."""
    is_added = eqn.primitive is scatter_add_p
    with_rows = eqn if is_added else view.definition(eqn.invars[0], gather_p)
    move = view.definition(eqn.invars[2], transpose_p, reshape_p) if is_added else eqn
    rows = _rows_of(with_rows) if with_rows and move else None
    moved = _moved(rows, move, backwards=is_added) if move and rows else None
    if with_rows is None or move is None or moved is None:
        return None
    of_indices, window = moved
    numbers = with_rows.params["dimension_numbers"]
    params = {"dimension_numbers": type(numbers)(window, *numbers[1:]), "indices_are_sorted": False}

    def compute(table: Any, indices: Any, *added: Any) -> list[Any]:
        return [bind(with_rows.primitive, table, of_indices(indices), *added, **{**with_rows.params, **params})]

    return spliced(compute, [*with_rows.invars[:2], *(move.invars if is_added else ())], eqn)


def rows_times_matrix(eqn: Eqn, view: View) -> list[Eqn] | None:
    """A product of gathered rows: the table's product is gathered; or the gradient of the matrix.

    >>> import functad
    >>> types = [functad.ShapeDtypeStruct(s, "float32") for s in ((100, 64), (64, 512))]
    >>> indices = functad.ShapeDtypeStruct((1000,), "int32")
    >>> lowered = functad.jit(lambda table, w, i: table[i] @ w).lower(*types, indices)
    >>> [(e.primitive.name, e.outvars[0].aval.shape) for e in lowered.optimized.eqns[-2:]]
    [('dot_general', (100, 512)), ('gather', (1000, 512))]
    """
    if not _is_product(eqn):
        return None
    contract, _ = eqn.params["dimension_numbers"]
    for side, atom in enumerate(eqn.invars):
        gathered = view.definition(atom, gather_p)
        rows = _rows_of(gathered) if gathered else None
        if gathered and rows and set(contract[side]) == set(rows.window) and _fills_with_nan(gathered):
            return _multiplied_table(eqn, side, gathered, rows)
        if gathered and rows and set(contract[side]) == set(rows.batch):
            return _weight_gradient(eqn, side, gathered, rows)
    return None


def _multiplied_table(eqn: Eqn, side: int, gathered: Eqn, rows: _Rows) -> list[Eqn]:
    """`gather(table, i) · w` = `gather(table · w, i)`. side: whether the rows are the left or right operand."""
    contract, _ = eqn.params["dimension_numbers"]
    numbers = (tuple(1 + rows.window.index(d) for d in contract[side]), contract[1 - side]), ((), ())
    first = 0 if side else len(rows.batch)
    columns = eqn.outvars[0].aval.ndim - len(rows.batch)
    places = GatherDimensionNumbers(tuple(range(first, first + columns)), (0,), (0,))

    def compute(table: Any, indices: Any, w: Any) -> list[Any]:
        product = bind(eqn.primitive, table, w, **{**eqn.params, "dimension_numbers": numbers})
        return [gather(product, indices, places, (1, *product.shape[1:]), mode=gathered.params["mode"])]

    return spliced(compute, [*gathered.invars, eqn.invars[1 - side]], eqn)


def _fills_with_nan(gathered: Eqn) -> bool:
    """Whether what a gather fills in is itself, whatever it is multiplied by; or it fills nothing in."""
    fill_value = gathered.params["fill_value"]
    fills = gathered.params["mode"] is GatherScatterMode.FILL_OR_DROP
    return not fills or fill_value is None or bool(np.isnan(fill_value))


def _weight_gradient(eqn: Eqn, side: int, gathered: Eqn, rows: _Rows) -> list[Eqn]:
    """`gather(table, i)ᵀ · g` = `tableᵀ · scatter_add(g, i)`, if all is moderate and in bounds."""
    contract, _ = eqn.params["dimension_numbers"]
    order = [rows.batch.index(own) for _, own in sorted(zip(contract[1 - side], contract[side]))]
    kept = tuple(d for d in range(eqn.invars[1 - side].aval.ndim) if d not in contract[1 - side])
    count = gathered.invars[0].aval.shape[0]

    def operands(x: Any, y: Any) -> tuple[Any, Any]:
        return (x, y) if side == 0 else (y, x)

    def as_summed(table: Any, indices: Any, g: Any, total: Any) -> list[Any]:
        params = {**eqn.params, "dimension_numbers": (((0,), (0,)), ((), ()))}
        return [bind(eqn.primitive, *operands(table, total), **params)]

    def as_written(table: Any, indices: Any, g: Any, total: Any) -> list[Any]:
        return [bind(eqn.primitive, *operands(bind(gather_p, table, indices, **gathered.params), g), **eqn.params)]

    def compute(table: Any, indices: Any, g: Any) -> list[Any]:
        total = _sum_for_rows(count, transpose(indices, (*order, len(order))), g, kept, gathered.params["mode"])
        usual = and_(and_(_all_moderate(table), _all_moderate(g)), _all_in_bounds(indices, count))
        return either(usual, as_summed, as_written, [table, indices, g, total])

    return spliced(compute, [*gathered.invars, eqn.invars[1 - side]], eqn)


def rows_added_to_table(eqn: Eqn, view: View) -> list[Eqn] | None:
    """The gradient of a table whose rows were multiplied: `scatter_add(g · wᵀ, i)` = `scatter_add(g, i) · wᵀ`.

    If all is moderate.
    """
    zeros, indices, updates = eqn.invars
    product, rows = view.definition(updates, dot_general_p), _rows_of(eqn)
    if product is None or rows is None or not _is_product(product) or not is_zeros(zeros, view):
        return None
    contract, _ = product.params["dimension_numbers"]
    for side, given in enumerate(product.invars):  # which operand is the cotangent
        free = given.aval.ndim - len(contract[side])
        if rows.batch == tuple(range(updates.aval.ndim))[-free if side else 0 :][:free]:
            break
    else:
        return None
    kept = tuple(sorted(contract[side]))
    numbers = (tuple(1 + kept.index(d) for d in contract[side]), contract[1 - side]), ((), ())

    def as_summed(indices: Any, g: Any, w: Any, total: Any) -> list[Any]:
        return [bind(product.primitive, total, w, **{**product.params, "dimension_numbers": numbers})]

    def as_written(indices: Any, g: Any, w: Any, total: Any) -> list[Any]:
        updates = bind(product.primitive, *((w, g) if side else (g, w)), **product.params)
        return [bind(scatter_add_p, zeros_of(zeros.aval), indices, updates, **eqn.params)]

    def compute(indices: Any, g: Any, w: Any) -> list[Any]:
        total = _sum_for_rows(zeros.aval.shape[0], indices, g, kept, eqn.params["mode"])
        return either(and_(_all_moderate(w), _all_moderate(g)), as_summed, as_written, [indices, g, w, total])

    return spliced(compute, [indices, product.invars[side], product.invars[1 - side]], eqn)


# --- what is looked for ---------------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """The axes of an array of rows of a table: along a row, and the others, which are those of the index vectors."""

    window: tuple[int, ...]
    batch: tuple[int, ...]
    shape: tuple[int, ...]


def _rows_of(eqn: Eqn) -> _Rows | None:
    """The rows that a gather reads, or a scatter adds, if they are whole and there are many for each of the table."""
    table, indices, *updates = [a.aval for a in eqn.invars]
    shape = (*updates, eqn.outvars[0].aval)[0].shape
    window, *others = eqn.params["dimension_numbers"]
    whole = others == [(0,), (0,), (), ()] and tuple(shape[d] for d in window) == table.shape[1:]
    uses, length = math.prod(indices.shape), math.prod(table.shape[1:])
    if not whole or not table.size or length < machine_model.GATHERED_ROW:
        return None
    if uses < machine_model.GATHERED_USES * table.shape[0]:
        return None
    return _Rows(window, tuple(d for d in range(len(shape)) if d not in window), shape)


def _moved(rows: _Rows, move: Eqn, backwards: bool) -> tuple[Callable[[Any], Any], tuple[int, ...]] | None:
    """What a transpose or a reshape does to the indices of rows, and the axes along a row then, if they are rows still.

    backwards: what takes it back does.
    """
    if move.primitive is transpose_p:
        permutation = move.params["permutation"]
        permutation = np.argsort(permutation).tolist() if backwards else permutation
        order = [rows.batch.index(d) for d in permutation if d not in rows.window]
        window = tuple(i for i, d in enumerate(permutation) if d in rows.window)
        in_order = [d for d in permutation if d in rows.window] == list(rows.window)
        return (lambda indices: transpose(indices, (*order, len(order))), window) if in_order else None
    shape = (move.invars[0] if backwards else move.outvars[0]).aval.shape
    first, old = len(shape) - len(rows.window), len(rows.batch)
    if rows.batch != tuple(range(old)) or shape[first:] != rows.shape[old:]:
        return None
    return lambda indices: reshape(indices, (*shape[:first], 1)), tuple(range(first, len(shape)))


def _is_product(eqn: Eqn) -> bool:
    """Whether an equation is a product without pairs, of one floating-point type."""
    _, pairs = eqn.params["dimension_numbers"]
    x, out = eqn.invars[0].aval, eqn.outvars[0].aval
    return pairs == ((), ()) and out.dtype == x.dtype and x.dtype.name in ("float32", "float64")


# --- what is made ---------------------------------------------------------------------------------------------


def _sum_for_rows(count: int, indices: Any, given: Any, kept: tuple[int, ...], mode: GatherScatterMode) -> Any:
    """For each row of a table the sum of an array's elements where that row was used; `kept`: its other axes."""
    zeros = zeros_of(Aval([count, *(given.shape[d] for d in kept)], given.dtype))
    return scatter_add(zeros, indices, given, ScatterDimensionNumbers(kept, (0,), (0,)), mode=mode)


def _all(x: Any) -> Any:
    return reduce_and(x, axes=tuple(range(x.ndim)))


def _all_moderate(x: Any) -> Any:
    """Whether no number is NaN or so large that sums of products of two of them come near to overflow."""
    most = x.dtype.type(2.0 ** (finfo(x.dtype).maxexp * 3 // 8))
    return _all(le(abs_(x), most))


def _all_in_bounds(indices: Any, count: int) -> Any:
    dtype = indices.dtype
    last = dtype.type(min(count - 1, np.iinfo(dtype).max))
    return _all(and_(ge(indices, dtype.type(0)), le(indices, last)))
