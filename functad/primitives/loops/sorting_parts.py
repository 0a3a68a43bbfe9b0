"""Kernels that sort long rows with all threads: parts by the highest digit first, then each part on its own.

Knows the interface of a target. The highest digit is taken of the distance to the row's least key, from the first bit
that differs, so that it divides whatever lies close together, too. Parts stay in their order, and so do equal keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.primitives.loops.sort_keys import Key, SortedRows, index_dtype
from functad.primitives.loops.text import cast
from functad.records import Record


def sorts_in_parts(rows: SortedRows, key: Key) -> bool:
    """Whether rows are so long that digits of all of a row do not stay in the caches, or one is to be shared."""
    alone = min(machine_model.PARTED_ROW_ALONE, machine_model.PARTED_ROW)
    least = alone if rows.count == 1 else machine_model.PARTED_ROW
    return rows.length >= least and key.word.itemsize >= 4


class CarriedAlong(Record):
    """What goes along with each key: its position, or an element of another operand.

    value: the text of it, with {0} for the place that a key is taken from. taken: the line that names it in the end.
    """

    dtype: np.dtype
    value: str
    taken: str
    operand: dict[str, Any]

    @classmethod
    def positions(cls, length: int) -> CarriedAlong:
        """`place` is where an element comes from, when it is put down in the end."""
        return cls(dtype=index_dtype(length), value="j", taken="place = i64({0})", operand={})

    @classmethod
    def elements(cls, pointer: str, operand: Any) -> CarriedAlong:
        """`carried` is the element of the operand that stood where the key did: nothing is read here and there."""
        return cls(dtype=operand.dtype, value=f"{pointer}[{{0}}]", taken="carried = {0}", operand={pointer: operand})


class PartedSort:
    """The steps of one sort, each of which may run again: what it changes, none before it reads."""

    def __init__(self, target: Any, rows: SortedRows, key: Key, carried: CarriedAlong | None) -> None:
        self._target, self._rows, self._key, self._carried = target, rows, key, carried
        m, unsigned, self._values = rows.length, cast(key.word), 1 << machine_model.DIGIT_BITS
        self._pieces = max(1, machine_model.SORTED_PIECES // rows.count)
        self._together = machine_model.PARTS_TOGETHER
        self._span = -(-m // self._pieces)
        self._passes = 8 * key.word.itemsize // machine_model.DIGIT_BITS - 1  # for what the first digit leaves
        groups, index = rows.count * self._pieces, index_dtype(m)
        self._scratch = {
            "keys": target.scratch((rows.count, 2, m), key.word),
            **{name: target.scratch((groups,), key.word) for name in ("least", "largest", "origin", "shift")},
            **{name: target.scratch((groups, self._values), index) for name in ("counts", "places", "next_places")},
            "begins": target.scratch((rows.count, self._values + 1), index),
            "own": target.scratch((rows.count * self._values // self._together, self._passes, self._values), index),
        }
        if carried is not None:
            self._scratch["order"] = target.scratch((rows.count, 2, m), carried.dtype)
        self._digit = f"i64(({unsigned}(key - low) >> {{0}}) & {unsigned}({self._values - 1}))"

    def emit(self, inputs: dict[str, Any], outs: dict[str, Any], moves: Sequence[str], kept: int) -> None:
        """Put down the first `kept` elements of each row by `moves`, with {to}, {at} and {place} as everywhere."""
        self._take_keys(inputs[self._key.pointer])
        self._count()
        self._divide()
        self._move_apart()
        self._sort_parts(inputs, outs, moves, kept)

    def _kernel(self, name: str, body: str, n: int, reads: str, writes: str, more: dict[str, Any], passes: int) -> None:
        buffers = {**more, **{b: (self._scratch[b], "r") for b in reads.split()}}
        buffers |= {b: (self._scratch[b], "rw" if b in reads.split() else "w") for b in writes.split()}
        elements = self._rows.count * self._rows.length
        carried = self._carried.dtype.itemsize if self._carried else 0
        moved = 2 * passes * elements * (self._key.word.itemsize + carried)
        self._target.kernel(name, body, buffers, n, flops=4 * passes * elements, bytes=moved)

    def _piece(self) -> str:
        """The text that says which places of which row a piece has."""
        return f"""for group in range(start, stop):
    r = group // {self._pieces}
    begin = {self._span} * (group % {self._pieces})
    end = minimum(begin + {self._span}, {self._rows.length})
    source = {2 * self._rows.length} * r"""

    def _take_keys(self, operand: Any) -> None:
        rows, unsigned = self._rows, cast(self._key.word)
        body = f"""{self._piece()}
    base = {rows.base(rows.length)}
    low = {unsigned}({2 ** (8 * self._key.word.itemsize) - 1})
    high = {unsigned}(0)
    for j in range(begin, end):
        key = {self._key.of(rows.at("base", "j"))}
        keys[source + j] = key
        low = where(key < low, key, low)
        high = where(key > high, key, high)
    least[group] = low
    largest[group] = high"""
        more = {self._key.pointer: (operand, "r")}
        self._kernel("sort_keys", body, rows.count * self._pieces, "", "keys least largest", more, 1)

    def _count(self) -> None:
        unsigned = cast(self._key.word)
        body = f"""{self._piece()}
    low = least[{self._pieces} * r]
    high = largest[{self._pieces} * r]
    for p in range({self._pieces} * r + 1, {self._pieces} * r + {self._pieces}):
        low = where(least[p] < low, least[p], low)
        high = where(largest[p] > high, largest[p], high)
    low_bits = {unsigned}(0)
    while {unsigned}({unsigned}(high - low) >> low_bits) >= {unsigned}({self._values}):
        low_bits = {unsigned}(low_bits + {unsigned}(1))
    origin[group] = low
    shift[group] = low_bits
    table = {self._values} * group
    for c in range(table, table + {self._values}):
        counts[c] = 0
    for j in range(begin, end):
        key = keys[source + j]
        place = table + {self._digit.format("low_bits")}
        counts[place] = counts[place] + 1"""
        groups = self._rows.count * self._pieces
        self._kernel("sort_counts", body, groups, "keys least largest", "origin shift counts", {}, 1)

    def _divide(self) -> None:
        body = f"""for r in range(start, stop):
    before = 0
    for d in range({self._values}):
        begins[{self._values + 1} * r + d] = before
        for p in range({self._pieces} * r, {self._pieces} * r + {self._pieces}):
            here = counts[{self._values} * p + d]
            places[{self._values} * p + d] = before
            before = before + here
    begins[{self._values + 1} * r + {self._values}] = before"""
        self._kernel("sort_begins", body, self._rows.count, "counts", "places begins", {}, 0)

    def _move_apart(self) -> None:
        m, carried = self._rows.length, self._carried
        body = f"""{self._piece()}
    base = {self._rows.base(m)}
    low = origin[group]
    low_bits = shift[group]
    table = {self._values} * group
    for c in range(table, table + {self._values}):
        next_places[c] = places[c]
    for j in range(begin, end):
        key = keys[source + j]
        place = table + {self._digit.format("low_bits")}
        at = next_places[place]
        next_places[place] = at + 1
        keys[source + {m} + at] = key"""
        writes = "keys next_places"
        operand: dict[str, Any] = {}
        if carried:
            body += f"\n        order[source + {m} + at] = {carried.value.format(self._rows.at('base', 'j'))}"
            writes += " order"
            operand = {name: (x, "r") for name, x in carried.operand.items()}
        self._kernel(
            "sort_apart", body, self._rows.count * self._pieces, "keys places origin shift", writes, operand, 1
        )

    def _sort_parts(self, inputs: dict[str, Any], outs: dict[str, Any], moves: Sequence[str], kept: int) -> None:
        rows, m, unsigned = self._rows, self._rows.length, cast(self._key.word)
        in_row, table = self._values // self._together, self._values * self._passes
        counted = "".join(
            f"""
                place = table + {self._values * p} + {self._digit.format(f"{unsigned}({machine_model.DIGIT_BITS * p})")}
                own[place] = own[place] + 1"""
            for p in range(self._passes)
        )
        body = f"""for group in range(start, stop):
    r = group // {in_row}
    base = {rows.base(m)}
    to = {rows.base(kept)}
    low = origin[{self._pieces} * r]
    low_bits = shift[{self._pieces} * r]
    first = {self._values + 1} * r + {self._together} * (group % {in_row})
    for part in range(first, first + {self._together}):
        begin = i64(begins[part])
        size = i64(begins[part + 1]) - begin
        source = {2 * m} * r + {m} + begin
        other = {2 * m} * r + begin
        table = {table} * group
        if size > 1:
            for c in range(table, table + {table}):
                own[c] = 0
            for j in range(source, source + size):
                key = keys[j]{counted}
        done = {unsigned}(0)
        while (done < low_bits) & (size > 1):
            key = keys[source]
            if own[table + {self._digit.format("done")}] < size:
                before = 0
                for c in range(table, table + {self._values}):
                    here = own[c]
                    own[c] = before
                    before = before + here
                for j in range(source, source + size):
                    key = keys[j]
                    place = table + {self._digit.format("done")}
                    at = own[place]
                    own[place] = at + 1
                    keys[other + at] = key
{"                    order[other + at] = order[j]" if self._carried else ""}
                swapped = source
                source = other
                other = swapped
            done = {unsigned}(done + {unsigned}({machine_model.DIGIT_BITS}))
            table = table + {self._values}
        for j in range(begin, minimum(begin + size, {kept})):
            key = keys[source + j - begin]
{"            " + self._carried.taken.format("order[source + j - begin]") if self._carried else ""}
"""
        text = {"to": rows.at("to", "j"), "at": rows.at("base", "place"), "place": "place"}
        body += "\n".join(f"            {move.format(**text)}" for move in moves)
        writes = "keys own order" if self._carried else "keys own"
        reads = "keys own origin shift begins" + (" order" if self._carried else "")
        more = {name: (b, "r") for name, b in inputs.items() if f"{name}[" in body}
        more |= {name: (b, "w") for name, b in outs.items()}
        self._kernel("sort_parts", _without_empty(body), rows.count * in_row, reads, writes, more, self._passes)


def _without_empty(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if line.strip())
