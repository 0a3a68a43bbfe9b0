"""Reductions, and what is carried along, arranged for vectors and registers: a few points written out, loops
interchanged, and extrema of floats found among integers.

Knows nests as data; no target. Each function gives the nest, or one that does the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import compute_dtype, kind_of
from functad.lowering.nests.affine import Affine, Symbol, data
from functad.lowering.nests.cost import work_of
from functad.lowering.nests.names import renamed
from functad.lowering.nests.nest import (
    POST,
    PRE,
    Accumulator,
    Carried,
    IndexLet,
    Let,
    Load,
    Nest,
    Statement,
    Store,
    fresh,
    names_of,
    uses_of,
)
from functad.lowering.nests.printing import accumulated, kernel_parameters, start_of_accumulator
from functad.primitives.loops.order import from_key, order_key
from functad.primitives.loops.text import cast, rounding

# --- extrema ----------------------------------------------------------------------------------------------


def by_whole_numbers(nest: Nest) -> Nest:
    """The nest with extrema of floats along its last loop found among whole numbers.

    One instruction compares those; a maximum of floats that knows NaN and the signs of zeros takes several, each of
    which waits for the one before. Running extrema of 64 bits are faster as they are where rows fill no vectors.
    """
    is_long = nest.carried is not None and nest.carried.extent >= machine_model.FLOATS_OF_VECTOR
    carried = [c for c in nest.carries if is_long or c.dtype.itemsize <= 4]
    extrema: list[Accumulator | Carried] = [*nest.accumulators, *carried]
    found = [a for a in extrema if a.kind in ("max", "min") and kind_of(a.dtype) == "f"]
    if not found or not nest.points or not nest.loops or not (nest.reduced[-1] or nest.loops[-1] is nest.carried):
        return nest
    taken = names_in_nest(nest)
    ways: dict[Any, tuple[list[Let], list[Any], Let]] = {
        a: _by_bits(a, taken) if isinstance(a, Accumulator) and a.dtype.itemsize <= 4 else _by_key(a, taken)
        for a in found
    }
    statements: list[Statement] = [value for a, (_, _, value) in ways.items() if isinstance(a, Accumulator)]
    for s in nest.statements:
        before, best, value = ways[s] if isinstance(s, Carried) and s in ways else ([], [s], None)
        statements += [*before, *best, *([value] if value else [])]
    for a in nest.accumulators:
        statements += ways[a][0] if a in ways else []
    accumulators = [b for a in nest.accumulators for b in (ways[a][1] if a in ways else [a])]
    return replace(nest, statements=statements, accumulators=accumulators)


def _by_key(a: Accumulator | Carried, taken: set[str]) -> tuple[list[Let], list[Any], Let]:
    """The key of a value, the extremum of the keys, and the number that has this one."""
    dtype = compute_dtype(a.dtype)  # as its values are kept
    word, text = order_key(a.value, dtype, nan_first=a.kind == "min", zeros_equal=False)
    key, best = fresh(f"key_{a.name}", taken), fresh(f"best_{a.name}", taken)
    value = from_key(best, dtype)
    if a.kind == "min":  # NaN has the lowest key then, whose bits are those of a negative one
        value = f"where({best} == {cast(word)}(0), {cast(dtype)}(nan), {value})"
    level = POST if isinstance(a, Accumulator) else PRE
    before, after = Let((key,), text, (a.value,), PRE, a.eqn), Let((a.name,), value, (best,), level, a.eqn)
    return [before], [replace(a, name=best, dtype=word, value=key)], after


def _by_bits(a: Accumulator, taken: set[str]) -> tuple[list[Let], list[Any], Let]:
    """The bits of a value, their extrema with and without a sign, and the number that these tell.

    Of 32 bits AVX2 has instructions for all three, so that they take less than a key, which takes five.

    With a sign, the bits of positive numbers are ordered as these are, with NaN above, and those of negative numbers
    lie below, the other way round; without, they lie above those of positive ones, and NaN above infinity again.
    """
    dtype = compute_dtype(a.dtype)  # as its values are kept
    signed, unsigned = (np.dtype(f"{kind}{dtype.itemsize}") for kind in "iu")
    infinity = int(np.array(np.inf, dtype).view(unsigned))
    below_zero = 1 << (8 * dtype.itemsize - 1)
    plain, whole = fresh(f"bits_{a.name}", taken), fresh(f"signed_{a.name}", taken)
    lets = [
        Let((plain,), f"bits({a.value})", (a.value,), PRE, a.eqn),
        Let((whole,), f"from_bits_{cast(signed)}({plain})", (plain,), PRE, a.eqn),
    ]
    least, most, beyond = (fresh(f"{which}_{a.name}", taken) for which in ("least", "most", "beyond"))
    found = [
        replace(a, name=least, kind="min", dtype=signed, value=whole),
        replace(a, name=most, kind="max", dtype=signed, value=whole),
        replace(a, name=beyond, kind="max", dtype=unsigned, value=plain),
    ]
    number, of = f"from_bits_{cast(dtype)}", cast(unsigned)
    if a.kind == "max":
        best = f"{number}(where({most} < {cast(signed)}(0), {least}, {most}))"
        text = f"where({beyond} > {of}({below_zero + infinity}), {number}({beyond}), {best})"
    else:
        best = f"where({beyond} >= {of}({below_zero}), {number}({beyond}), {number}({least}))"
        text = f"where({most} > {cast(signed)}({infinity}), {number}({most}), {best})"
    return lets, found, Let((a.name,), text, (least, most, beyond), POST, a.eqn)


def ones_counted(nest: Nest) -> Nest:
    """The nest with sums of ones and zeros of floats along its last loop counted in integers.

    That is exact, and takes an instruction less: a comparison gives -1 where it holds.
    """
    if not nest.points or not nest.loops or not nest.reduced[-1] or nest.points > np.iinfo(np.int32).max:
        return nest
    lets = {s.names[0]: s for s in nest.statements if isinstance(s, Let) and len(s.names) == 1}
    taken, ones, accumulators = names_in_nest(nest), list[Let](), list[Accumulator]()
    for a in nest.accumulators:
        one = lets.get(a.value)
        if a.kind != "sum" or kind_of(a.dtype) != "f" or one is None or not _is_truth(one):
            accumulators.append(a)
            continue
        dtype, (truth,) = compute_dtype(a.dtype), one.operands
        whole = np.dtype(f"i{dtype.itemsize}")
        number, count = fresh(f"one_{a.name}", taken), fresh(f"count_{a.name}", taken)
        ones.append(Let((number,), f"{cast(whole)}({truth})", (truth,), PRE, a.eqn))
        ones.append(Let((a.name,), f"{cast(dtype)}({count})", (count,), POST, a.eqn))
        accumulators.append(replace(a, name=count, dtype=whole, value=number))
    if not ones:
        return nest
    after, before = ([s for s in ones if s.level == level] for level in (POST, PRE))
    found = replace(nest, statements=[*after, *nest.statements, *before], accumulators=accumulators)
    found.drop_unused()
    return found


def _is_truth(s: Let) -> bool:
    """Whether a value is 1 or 0 as a condition holds or not: a conversion of it, and nothing more."""
    if s.eqn is None or len(s.operands) != 1 or len(s.eqn.invars) != 1:
        return False
    of, to = s.eqn.invars[0].aval.dtype, s.eqn.outvars[0].aval.dtype
    return kind_of(of) == "b" and s.text == f"{rounding(to)}({s.operands[0]})"


# --- unrolling --------------------------------------------------------------------------------------------


def unrolled(nest: Nest) -> Nest:
    """The nest without its reduced loops, if they have few points: vectors then run along the others."""
    inner = [s for s, r in zip(nest.loops, nest.reduced) if r]
    points = math.prod(s.extent for s in inner)
    if (
        not nest.accumulators
        or not inner
        or len(inner) == len(nest.loops)
        or not 1 < points <= machine_model.MOST_SUMMED_AT_ONCE
    ):
        return nest
    statements = sum(s.level == PRE for s in nest.statements)
    statements += (machine_model.STATEMENTS_OF_FUNCTION - 1) * work_of(nest).calls
    if points * statements > machine_model.MOST_STATEMENTS_AT_ONCE:
        return nest
    return _Unrolling(nest, inner).nest()


class _Unrolling:
    def __init__(self, nest: Nest, inner: list[Symbol]) -> None:
        self._nest, self._inner = nest, inner
        self._statements: list[Statement] = []
        self._stores: list[Store] = []
        self._moving = names_that_change(nest, inner)
        self._taken = names_in_nest(nest)

    def nest(self) -> Nest:
        totals = {a.name: start_of_accumulator(a) for a in self._nest.accumulators}
        last = math.prod(s.extent for s in self._inner) - 1
        for k, place in enumerate(product(*(range(s.extent) for s in self._inner))):
            names = {name: fresh(f"{name}_{k}", self._taken) for name in sorted(self._moving)}
            at: dict[Symbol, Affine] = dict(zip(self._inner, map(Affine, place)))
            for s in self._nest.statements:
                if s.level == PRE and (k == 0 or not self._moving.isdisjoint(names_of(s))):
                    self._statements.append(at_point(s, at, names))
            self._stores += [store_at(s, at, names) for s in self._nest.stores if s.level == PRE]
            for a in self._nest.accumulators:
                totals[a.name] = self._gathered(a, totals[a.name], names.get(a.value, a.value), k == last)
        nest = self._nest
        self._statements += [replace(s, level=PRE) for s in nest.statements if s.level == POST]
        self._stores += [replace(s, level=PRE) for s in nest.stores if s.level == POST]
        loops = [s for s in nest.loops if s not in self._inner]
        return Nest(loops, [False] * len(loops), self._statements, [], self._stores, nest.eqns, nest.constants)

    def _gathered(self, a: Accumulator, total: str, value: str, is_last: bool) -> str:
        """The name of an accumulator that has taken in one more value."""
        name = a.name if is_last else fresh(a.name, self._taken)
        self._statements.append(Let((name,), accumulated(a, total, value), (total, value), PRE, a.eqn))
        return name


def rows_written_out(nest: Nest) -> Nest:
    """The nest without its last loop, if that is short and each step of the loop around it goes on to the next row.

    Vectors then run along that one. Else each is one row and little more than it; where a row is written in place of
    what is read, a vector that ends amid the next row, with a mask, makes that wait until it is in memory.
    """
    if len(nest.loops) < 2 or any(nest.reduced) or nest.accumulators or nest.carried is not None:
        return nest
    if nest.ordered or nest.update is not None:
        return nest
    rows, columns = nest.loops[-2:]
    calls = work_of(nest).calls
    read, written = ({b.storage for b, _, writes in nest.accesses() if writes == kind} for kind in (False, True))
    if read & written:
        most = machine_model.MOST_SUMMED_AT_ONCE
    else:
        most = machine_model.LONGEST_FUNCTIONS_WRITTEN_OUT if calls else machine_model.LONGEST_WRITTEN_OUT
    statements = len(nest.statements) + (machine_model.STATEMENTS_OF_FUNCTION - 1) * calls
    if (
        not 1 < columns.extent <= most
        or columns.extent * statements > machine_model.MOST_STATEMENTS_AT_ONCE
        or rows.extent < machine_model.FLOATS_OF_VECTOR
        or not all(_by_rows(offset, rows, columns) for _, offset, _ in nest.accesses())
    ):
        return nest
    return _Unrolling(nest, [columns]).nest()


def _by_rows(offset: Affine, rows: Symbol, columns: Symbol) -> bool:
    """Whether what is accessed in a row lies beside that of the next, or each element beside the next row's."""
    pace = (offset.coefficient(rows), offset.coefficient(columns))
    return offset.is_plain() and (pace[0] in (0, 1) or pace == (columns.extent, 1))


def columns_written_out(nest: Nest) -> Nest:
    """The nest with values that are carried along in a few columns side by side each under a name: in registers."""
    if nest.carried is None:
        return nest
    columns = nest.loops[nest.loops.index(nest.carried) + 1 :]
    if not columns or math.prod(s.extent for s in columns) >= machine_model.FEWEST_COLUMNS:
        return nest
    taken, statements, stores = names_in_nest(nest), list[Statement](), list[Store]()
    moving = names_that_change(nest, columns)
    for k, place in enumerate(product(*(range(s.extent) for s in columns))):
        names = {name: fresh(f"{name}_{k}", taken) for name in sorted(moving)}
        at: dict[Symbol, Affine] = dict(zip(columns, map(Affine, place)))
        moved = [s for s in nest.statements if k == 0 or not moving.isdisjoint(names_of(s))]
        statements += [at_point(s, at, names) for s in moved]
        stores += [store_at(s, at, names) for s in nest.stores]
    loops = [s for s in nest.loops if s not in columns]
    return replace(nest, loops=loops, reduced=[False] * len(loops), statements=statements, stores=stores)


def names_that_change(nest: Nest, inner: list[Symbol]) -> set[str]:
    """What differs from point to point of some loops; what is carried along belongs to its point."""
    found = {s.name for s in inner}
    for s in nest.statements:
        if s.level == PRE and (isinstance(s, Carried) or not found.isdisjoint(uses_of(s))):
            found.update(names_of(s))
    return found - {s.name for s in inner}


def names_in_nest(nest: Nest) -> set[str]:
    """The names that a kernel of a nest has: of values, loops, constants and parameters."""
    parameters = {name for name, _, _ in kernel_parameters(nest).values()}
    return nest.names | {a.name for a in nest.accumulators} | {*nest.constants} | parameters


def at_point(s: Statement, at: Mapping[Symbol, Affine], names: Mapping[str, str]) -> Statement:
    """A statement at one point of some loops, under the names of that point."""
    if isinstance(s, Let):
        operands = tuple(names.get(name, name) for name in s.operands)
        return Let(tuple(names.get(name, name) for name in s.names), renamed(s.text, names), operands, PRE, s.eqn)
    name = names.get(s.name, s.name)
    if isinstance(s, Carried):
        return replace(s, name=name, value=names.get(s.value, s.value))
    if isinstance(s, IndexLet):
        return IndexLet(name, _placed(s.value, at, names), PRE)
    return Load(name, s.buffer, _placed(s.offset, at, names), PRE)


def store_at(s: Store, at: Mapping[Symbol, Affine], names: Mapping[str, str]) -> Store:
    return replace(s, offset=_placed(s.offset, at, names), value=names.get(s.value, s.value), level=PRE)


def _placed(value: Affine, at: Mapping[Symbol, Affine], names: Mapping[str, str]) -> Affine:
    renamed = {s: data(names[s.name], s.low, s.high) for s in value.symbols() if s.name in names}
    return value.substitute({**at, **renamed})


# --- interchange ------------------------------------------------------------------------------------------


def interchanged(nest: Nest) -> Nest:
    """The nest with its last loop that is not reduced innermost, if elements lie side by side there, and apart now.

    A product of integer matrices then runs through rows of the right operand. Sums of floats stay as they are: one
    behind another, in the result itself, they would round far more than those that a vector gathers.
    """
    outer = [s for s, r in zip(nest.loops, nest.reduced) if not r]
    inner = [s for s, r in zip(nest.loops, nest.reduced) if r]
    if not outer or not inner or nest.loops[-1] is outer[-1]:
        return nest
    if any(kind_of(a.dtype) in "fc" for a in nest.accumulators):
        return nest
    if outer[-1].extent < machine_model.FLOATS_OF_VECTOR and outer[-1].extent % machine_model.FEWEST_COLUMNS:
        return nest  # too few to fill vectors
    if not nest.stores_totals or any(s.level == PRE for s in nest.stores):
        return nest  # sums are gathered in the result itself
    loads = [s.offset for s in nest.statements if isinstance(s, Load)]
    along = [offset.coefficient(outer[-1]) for offset in [*loads, *(s.offset for s in nest.stores)]]
    apart = any(abs(offset.coefficient(inner[-1])) > 1 for offset in loads)
    if not apart or not all(o.is_plain() for o in loads) or not set(along) <= {0, 1} or 1 not in along[: len(loads)]:
        return nest
    loops = [*outer[:-1], *inner, outer[-1]]
    return replace(nest, loops=loops, reduced=[s in inner for s in loops])
