"""Merging loops: neighbours that every access runs through as one become one; parting them, so that none divides.

Knows nests as data; no target.
"""

from __future__ import annotations

from functad import machine_model
from functad.lowering.nests.affine import Affine, Symbol, loop
from functad.lowering.nests.nest import IndexLet, Load, Nest


def collapse_loops(nest: Nest) -> None:
    """Merge neighbouring loops of a nest in place, as far as its accesses allow."""
    d = len(nest.loops) - 2
    while d >= 0:
        pair = nest.loops[d : d + 2]
        alike = nest.reduced[d] == nest.reduced[d + 1] and (pair[0] in nest.ordered) == (pair[1] in nest.ordered)
        if alike and nest.carried not in pair:
            _try_merge(nest, d)
        d -= 1


def part(nest: Nest) -> None:
    """Part loops in place whose variable is divided by a factor of their extent, as where an array is repeated."""
    kept = [
        s
        for s, is_reduced in zip(nest.loops, nest.reduced)
        if not is_reduced and s is not nest.carried and s not in nest.ordered
    ]
    for symbol in kept:
        divisors = {
            d.divisor
            for value in _values(nest)
            for d in value.symbols()
            if d.base is not None and d.base.terms == ((symbol, 1),) and not d.base.constant
        }
        for divisor in sorted(divisors, reverse=True):
            if symbol.extent % divisor == 0 and machine_model.FLOATS_OF_VECTOR <= divisor < symbol.extent:
                _part_loop(nest, symbol, divisor)
                break


def _part_loop(nest: Nest, symbol: Symbol, divisor: int) -> None:
    d = nest.loops.index(symbol)
    outer, inner = loop(f"{symbol.name}_part", symbol.extent // divisor), loop(symbol.name, divisor)
    for holder, attribute in _holders(nest):
        setattr(holder, attribute, getattr(holder, attribute).substitute({symbol: outer * divisor + inner}))
    pair = [outer.terms[0][0], inner.terms[0][0]]
    if d == 0 and len(nest.loops) > 1:
        pair.sort(key=lambda s: -s.extent)  # threads share the first loop
    nest.loops[d : d + 1] = pair
    nest.reduced[d : d + 1] = [False, False]


def _try_merge(nest: Nest, d: int) -> None:
    outer, inner = nest.loops[d], nest.loops[d + 1]
    if not outer.extent or not inner.extent:
        return
    merged = loop(outer.name, outer.extent * inner.extent)
    replacement = {outer: merged // inner.extent, inner: merged % inner.extent}
    changed: list[Affine] = []
    values = _values(nest)
    for value in values:
        new = value.substitute(replacement)
        if _quotients(new) > _quotients(value):
            return
        changed.append(new)
    for (holder, attribute), new in zip(_holders(nest), changed):
        setattr(holder, attribute, new)
    symbol = merged.terms[0][0]
    if outer in nest.ordered:
        nest.ordered = {symbol, *nest.ordered} - {outer, inner}
    nest.loops[d : d + 2] = [symbol]
    del nest.reduced[d]


def _holders(nest: Nest) -> list[tuple[object, str]]:
    held: list[tuple[object, str]] = []
    for s in nest.statements:
        if isinstance(s, Load):
            held.append((s, "offset"))
        elif isinstance(s, IndexLet):
            held.append((s, "value"))
    held += [(s, "offset") for s in nest.stores]
    return held


def _values(nest: Nest) -> list[Affine]:
    return [getattr(holder, attribute) for holder, attribute in _holders(nest)]


def _quotients(value: Affine) -> int:
    return sum(s.base is not None for s in value.symbols())
