"""Products of gathered rows: what is the same for every use of a row of a table is computed once for each row.

`table[indices] @ w`, an embedding and a dense layer, multiplies a row as often as it is used. Instead the table is
multiplied, and rows of the product are gathered. The gradients are products of sums of cotangents, one for each row.
Knows gather, scatter-add and dot_general; results are the same up to rounding, for all indices, modes and values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functad import machine_model
from functad.control import cond_p
from functad.editing.rewriting import View, spliced
from functad.ir import Atom, Aval, Eqn, Primitive, Var
from functad.optimize.algebra import is_zeros
from functad.primitives.arithmetic import abs as abs_
from functad.primitives.common import convert_element_type, reshape, reshape_p, transpose, transpose_p, zeros_of
from functad.primitives.contraction import dot_general, dot_general_p
from functad.primitives.dimension_numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from functad.primitives.gather_scatter import gather, gather_p, scatter_add
from functad.primitives.logic import and_, ge, le
from functad.primitives.reduction import reduce_and
from functad.tracing import bind, trace_to_program


def rows_times_matrix(eqn: Eqn, view: View) -> list[Eqn] | None:
    """A product of gathered rows: the table's product is gathered; or the gradient of the matrix.

    >>> import functad
    >>> types = [functad.ShapeDtypeStruct(s, "float32") for s in ((100, 64), (64, 512))]
    >>> indices = functad.ShapeDtypeStruct((1000,), "int32")
    >>> lowered = functad.jit(lambda table, w, i: table[i] @ w).lower(*types, indices)
    >>> [(e.primitive.name, e.outvars[0].aval.shape) for e in lowered.optimized.eqns[-2:]]
    [('dot_general', (100, 512)), ('gather', (1000, 512))]
    """
    if not _is_large_product(eqn):
        return None
    rewriting = _Rewriting(eqn, view)
    for side, atom in enumerate(eqn.invars):
        made = rewriting.multiply_table(side, atom) or rewriting.weight_gradient(side, atom)
        if made is not None:
            return made
    return None


def rows_added_to_table(eqn: Eqn, view: View) -> list[Eqn] | None:
    """The gradient of a table whose gathered rows were multiplied."""
    return _Rewriting(eqn, view).table_gradient()


class _Rows(NamedTuple):
    """An array of rows of a table, one for each index vector: gathered, or to be added to the table."""

    table: Aval
    indices: Atom  # their axes are in the order that those of the array have
    window: tuple[int, ...]  # the array's axes along a row
    batch: tuple[int, ...]  # the array's other axes
    mode: GatherScatterMode


class _Rewriting:
    """One equation, a product or a scatter, and what it becomes."""

    def __init__(self, eqn: Eqn, view: View) -> None:
        self.eqn, self.view = eqn, view

    def multiply_table(self, side: int, atom: Atom) -> list[Eqn] | None:
        """`gather(table, i) · w` = `gather(table · w, i)`. side: whether the rows are the left or right operand."""
        eqn = self.eqn
        origin, rows = self._gathered(atom)
        contract, _ = eqn.params["dimension_numbers"]
        if origin is None or rows is None or set(contract[side]) != set(rows.window):
            return None
        fill_value = origin.params["fill_value"]
        if rows.mode is GatherScatterMode.FILL_OR_DROP and fill_value is not None and not np.isnan(fill_value):
            return None  # only NaN is itself, whatever it is multiplied by
        numbers = (tuple(1 + rows.window.index(d) for d in contract[side]), contract[1 - side]), ((), ())
        columns = eqn.outvars[0].aval.ndim - len(rows.batch)
        first = 0 if side else len(rows.batch)
        places = GatherDimensionNumbers(tuple(range(first, first + columns)), (0,), (0,))

        def compute(table: Any, indices: Any, w: Any) -> list[Any]:
            product = dot_general(table, w, numbers, eqn.params["preferred_element_type"])
            return [gather(product, indices, places, (1, *product.shape[1:]), mode=rows.mode)]

        return spliced(compute, [origin.invars[0], rows.indices, eqn.invars[1 - side]], eqn)

    def weight_gradient(self, side: int, atom: Atom) -> list[Eqn] | None:
        """`gather(table, i)ᵀ · g` = `tableᵀ · scatter_add(g, i)`, if all is moderate and in bounds."""
        eqn = self.eqn
        origin, rows = self._gathered(atom)
        contract, _ = eqn.params["dimension_numbers"]
        if origin is None or rows is None or set(contract[side]) != set(rows.batch):
            return None
        pairs = sorted(zip(contract[1 - side], contract[side]))
        indices = self._transposed(rows.indices, [rows.batch.index(own) for _, own in pairs])
        given = eqn.invars[1 - side]
        kept = tuple(d for d in range(given.aval.ndim) if d not in contract[1 - side])
        total = self._sum_for_rows(rows._replace(indices=indices), given, kept)
        sizes = (1, *rows.table.shape[1:])
        places = GatherDimensionNumbers(rows.window, (0,), (0,))

        def operands(x: Any, y: Any) -> tuple[Any, Any]:
            return (x, y) if side == 0 else (y, x)

        def as_summed(table: Any, indices: Any, g: Any, total: Any) -> list[Any]:
            numbers = ((0,), (0,)), ((), ())
            return [dot_general(*operands(table, total), numbers, eqn.params["preferred_element_type"])]

        def as_written(table: Any, indices: Any, g: Any, total: Any) -> list[Any]:
            gathered = gather(table, indices, places, sizes, mode=rows.mode, fill_value=origin.params["fill_value"])
            return [bind(eqn.primitive, *operands(gathered, g), **eqn.params)]

        def is_usual(table: Any, indices: Any, g: Any, total: Any) -> Any:
            return and_(and_(_all_moderate(table), _all_moderate(g)), _all_in_bounds(indices, rows.table.shape[0]))

        atoms = [origin.invars[0], rows.indices, given, total]
        return spliced(_either(is_usual, as_summed, as_written), atoms, eqn)

    def table_gradient(self) -> list[Eqn] | None:
        """`scatter_add(g · wᵀ, i)` = `scatter_add(g, i) · wᵀ`, if all is moderate."""
        eqn = self.eqn
        product, rows = self._scattered(eqn)
        if product is None or rows is None:
            return None
        contract, _ = product.params["dimension_numbers"]
        rank = product.outvars[0].aval.ndim
        for side, given in enumerate(product.invars):  # which operand is the cotangent
            free = given.aval.ndim - len(contract[side])
            if rows.batch == tuple(range(rank - free, rank) if side else range(free)):
                break
        else:
            return None
        w, kept = product.invars[1 - side], tuple(sorted(contract[side]))
        total = self._sum_for_rows(rows, given, kept)
        numbers = (tuple(1 + kept.index(d) for d in contract[side]), contract[1 - side]), ((), ())
        places = ScatterDimensionNumbers(rows.window, (0,), (0,))

        def as_summed(indices: Any, g: Any, w: Any, total: Any) -> list[Any]:
            return [dot_general(total, w, numbers, product.params["preferred_element_type"])]

        def as_written(indices: Any, g: Any, w: Any, total: Any) -> list[Any]:
            updates = bind(product.primitive, *((w, g) if side else (g, w)), **product.params)
            return [scatter_add(zeros_of(rows.table), indices, updates, places, mode=rows.mode)]

        def is_usual(indices: Any, g: Any, w: Any, total: Any) -> Any:
            return and_(_all_moderate(w), _all_moderate(g))

        return spliced(_either(is_usual, as_summed, as_written), [rows.indices, given, w, total], eqn)

    # --- what is looked for -----------------------------------------------------------------------------------

    def _gathered(self, atom: Atom) -> tuple[Eqn | None, _Rows | None]:
        """The gather that an atom comes from, and what it is, if it consists of rows of a table."""
        eqn, moves = self._behind_moves(atom)
        if eqn is None or eqn.primitive is not gather_p:
            return None, None
        table, indices = eqn.invars
        whole = eqn.params["slice_sizes"][1:] == table.aval.shape[1:]
        rows = _rows_of(table.aval, indices, eqn.outvars[0].aval.ndim, eqn.params) if whole else None
        for move in reversed(moves):
            rows = self._moved(rows, move.primitive, move.params) if rows else None
        return eqn, rows

    def _scattered(self, eqn: Eqn) -> tuple[Eqn | None, _Rows | None]:
        """The product whose rows are added to a table of zeros, and which rows they are."""
        zeros, indices, updates = eqn.invars
        product, moves = self._behind_moves(updates)
        if product is None or not _is_large_product(product) or not is_zeros(zeros, self.view):
            return None, None
        windows = eqn.params["dimension_numbers"].update_window_dims
        whole = tuple(updates.aval.shape[d] for d in windows) == zeros.aval.shape[1:]
        rows = _rows_of(zeros.aval, indices, updates.aval.ndim, eqn.params) if whole else None
        for move in moves:  # backwards
            params = {"new_sizes": move.invars[0].aval.shape}
            if move.primitive is transpose_p:
                params = {"permutation": np.argsort(move.params["permutation"]).tolist()}
            rows = self._moved(rows, move.primitive, params) if rows else None
        return product, rows

    def _behind_moves(self, atom: Atom) -> tuple[Eqn | None, list[Eqn]]:
        """The equation an atom comes from, and the transposes and reshapes after it, the last first."""
        moves: list[Eqn] = []
        while (eqn := self.view.definition(atom, transpose_p, reshape_p)) is not None:
            moves.append(eqn)
            atom = eqn.invars[0]
        return self.view.definition(atom), moves

    def _moved(self, rows: _Rows, move: Primitive, params: dict[str, Any]) -> _Rows | None:
        """The rows after a transpose or a reshape, if they are rows still."""
        indices, window = rows.indices.aval, rows.window
        if move is transpose_p:
            permutation = params["permutation"]
            if [d for d in permutation if d in window] != list(window):
                return None
            batch = [i for i, d in enumerate(permutation) if d not in window]
            order = [rows.batch.index(permutation[i]) for i in batch]
            window = tuple(i for i, d in enumerate(permutation) if d in window)
            return _Rows(rows.table, self._transposed(rows.indices, order), window, tuple(batch), rows.mode)
        first = len(params["new_sizes"]) - len(window)
        if rows.batch != tuple(range(len(rows.batch))) or params["new_sizes"][first:] != rows.table.shape[1:]:
            return None
        shape = (*params["new_sizes"][:first], 1)
        vectors = self._once(
            ("reshape", shape), lambda x: [reshape(x, shape)], [rows.indices], Aval(shape, indices.dtype)
        )
        return _Rows(rows.table, vectors, tuple(range(first, len(params["new_sizes"]))), tuple(range(first)), rows.mode)

    # --- what is made once ------------------------------------------------------------------------------------

    def _transposed(self, indices: Atom, order: Sequence[int]) -> Atom:
        """Index vectors with their axes in another order."""
        permutation = (*order, len(order))
        if permutation == tuple(range(len(permutation))):
            return indices
        aval = Aval([indices.aval.shape[d] for d in permutation], indices.aval.dtype)
        return self._once(("transpose", permutation), lambda x: [transpose(x, permutation)], [indices], aval)

    def _sum_for_rows(self, rows: _Rows, given: Atom, kept: tuple[int, ...]) -> Var:
        """For each row of a table the sum of an array's elements where that row was used; `kept`: its other axes."""
        rows, given, kept = self._before_transposes(rows, given, kept)
        out = Aval([rows.table.shape[0], *(given.aval.shape[d] for d in kept)], given.aval.dtype)
        places = ScatterDimensionNumbers(kept, (0,), (0,))

        def compute(indices: Any, given: Any) -> list[Any]:
            return [scatter_add(zeros_of(out), indices, given, places, mode=rows.mode)]

        return self._once(("sum", kept, rows.mode, out.shape), compute, [rows.indices, given], out)

    def _before_transposes(
        self, rows: _Rows, given: Atom, kept: tuple[int, ...]
    ) -> tuple[_Rows, Atom, tuple[int, ...]]:
        """The array that was transposed to give this one, as far as the order of the axes that are kept is the same."""
        while (eqn := self.view.definition(given, transpose_p)) is not None:
            permutation = eqn.params["permutation"]
            places = [permutation[d] for d in range(len(permutation)) if d not in kept]
            if sorted(permutation[d] for d in kept) != [permutation[d] for d in kept]:
                break
            rows = rows._replace(indices=self._transposed(rows.indices, np.argsort(places).tolist()))
            given, kept = eqn.invars[0], tuple(permutation[d] for d in kept)
        return rows, given, kept

    def _once(self, what: Any, compute: Callable[..., Any], operands: Sequence[Atom], out: Aval) -> Var:
        """A result that several rewritten equations want: transposed indices, sums for rows."""
        key = (what, *operands)
        if key not in self.view.made:
            self.view.made[key] = Var(out)
            for eqn in spliced(compute, operands, self.eqn.replace(outvars=[self.view.made[key]])):
                self.view.emit(eqn)
        made: Var = self.view.made[key]
        return made


def _is_large_product(eqn: Eqn) -> bool:
    """Whether an equation is a product without pairs, of one floating-point type, that is worth a rewrite."""
    if eqn.primitive is not dot_general_p:
        return False
    (contract, _), pairs = eqn.params["dimension_numbers"]
    x, out = eqn.invars[0].aval, eqn.outvars[0].aval
    if pairs != ((), ()) or out.dtype != x.dtype or x.dtype.name not in ("float32", "float64"):
        return False
    operations: float = 2.0 * out.size * math.prod(x.shape[d] for d in contract)
    return operations >= machine_model.GATHERED_PRODUCT


def _rows_of(table: Aval, indices: Atom, rank: int, params: dict[str, Any]) -> _Rows | None:
    """The rows that a gather reads, or a scatter writes, if there are many for each of the table."""
    window, *others = params["dimension_numbers"]
    if others != [(0,), (0,), (), ()]:
        return None
    uses, length = math.prod(indices.aval.shape), math.prod(table.shape[1:])
    if not table.size or uses < machine_model.GATHERED_USES * table.shape[0] or length < machine_model.GATHERED_ROW:
        return None
    return _Rows(table, indices, window, tuple(d for d in range(rank) if d not in window), params["mode"])


def _either(is_usual: Callable[..., Any], as_summed: Callable[..., Any], as_written: Callable[..., Any]) -> Any:
    """A function of operands that computes its results in one way or the other.

    An infinite element times cotangents of both signs is NaN, times their sum it is not; products that overflow may be
    those of a sum that is small; and an index out of bounds may read a row that no sum is added to. Such values are
    rare, so only a look at them is spent on being exact.
    """

    def compute(*args: Any) -> list[Any]:
        avals = [a.aval for a in args]
        branches = tuple(trace_to_program(f, avals, name=f.__name__) for f in (as_written, as_summed))
        chosen = convert_element_type(is_usual(*args), np.dtype(np.int32))
        results: list[Any] = bind(cond_p, chosen, *args, branches=branches)
        return results

    return compute


def _all(x: Any) -> Any:
    return reduce_and(x, axes=tuple(range(x.ndim)))


def _all_moderate(x: Any) -> Any:
    """Whether no number is NaN or so large that sums of products of two of them come near to overflow."""
    most = x.dtype.type(2.0 ** (np.finfo(x.dtype).maxexp * 3 // 8))
    return _all(le(abs_(x), most))


def _all_in_bounds(indices: Any, count: int) -> Any:
    dtype = indices.dtype
    last = dtype.type(min(count - 1, np.iinfo(dtype).max))
    return _all(and_(ge(indices, dtype.type(0)), le(indices, last)))
