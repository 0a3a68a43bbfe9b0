"""Merging loops: neighbours that every access runs through as one become one loop.

Knows nests as data; no target.
"""

from __future__ import annotations

from functad.lowering.nests.affine import Affine, loop
from functad.lowering.nests.nest import IndexLet, Load, Nest


def collapse(nest: Nest) -> None:
    """Merge neighbouring loops of a nest in place, as far as its accesses allow."""
    d = len(nest.loops) - 2
    while d >= 0:
        if nest.reduced[d] == nest.reduced[d + 1]:
            _try_merge(nest, d)
        d -= 1


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
    nest.loops[d : d + 2] = [merged.terms[0][0]]
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
