"""Kernels that sort one long row with all threads where NumPy sorts by vectors: buckets first, then each by NumPy.

Knows the interface of a target. Buckets are the highest bits of the distance to the row's least key, from the first bit
that differs. Equal keys keep their order: what is left of a key and the place in its bucket are one number, so that no
two are equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.primitives.loops.kernel_text import KernelText
from functad.primitives.loops.sort_keys import Key, SortedRows, index_dtype

_HALF = "u64(32)"
_LOW = f"u64({2**32 - 1})"
_LINE = machine_model.CACHE_LINE // 8  # keys with what goes along with them


def sorts_in_buckets(target: Any, rows: SortedRows, key: Key, dtype: np.dtype) -> bool:
    """Whether keys of the dtype, with something that goes along, take less time so than in another way."""
    if rows.count != 1 or key.word.itemsize != 4 or not target.numpy_sort(key.word):
        return False
    fewest = machine_model.BUCKETED_ROW if kind_of(dtype) in "iu" else machine_model.BUCKETED_FLOATS
    return fewest <= rows.length < 1 << 32


class BucketSort:
    """The steps of one sort by keys of 32 bits; run again, each takes as long, of words that the first run has left.

    carried: the text of the number of 32 bits that goes along with the key at j.
    """

    def __init__(self, target: Any, rows: SortedRows, key: Key, carried: str) -> None:
        self._target, self._m, self._key, self._carried = target, rows.length, key, carried
        m, index = rows.length, index_dtype(rows.length)
        bits = math.ceil(math.log2(machine_model.BUCKET_ROOM * m) / 2)
        self._buckets = 1 << min(max(bits, machine_model.FEWEST_BUCKET_BITS), machine_model.MOST_BUCKET_BITS)
        self._by_lines = 8 * m > machine_model.WRITTEN_BY_LINES
        smallest = 8 * _LINE * self._buckets if self._by_lines else machine_model.SMALLEST_PIECE
        self._pieces = min(machine_model.SORTED_PIECES, max(-(-m // smallest), machine_model.FEWEST_PIECES))
        self._span = -(-m // self._pieces)
        self._scratch = {
            **{name: target.scratch((self._pieces,), np.uint32) for name in ("least", "largest", "origin", "rest")},
            **{name: target.scratch((self._pieces, self._buckets), index) for name in ("counts", "places", "next")},
            "begins": target.scratch((self._buckets + 1,), index),
            "words": target.scratch((m,), np.uint64),
            "packed": target.scratch((m,), np.uint32),
        }
        if self._by_lines:
            self._scratch["lines"] = target.scratch((self._pieces, _LINE * self._buckets), np.uint64)

    def emit(self, inputs: dict[str, Any], outs: dict[str, Any], moves: Sequence[str], kept: int) -> None:
        """Put down the first `kept` elements by `moves`: lines with {to} for the place, and `key` and `carried`."""
        self._find_range(inputs)
        self._count(inputs)
        self._divide()
        self._move_apart(inputs)
        self._sort_buckets(inputs, outs, moves, kept)

    def _kernel(
        self, name: str, text: KernelText, n: int, reads: str, writes: str, more: dict[str, Any], ns: float
    ) -> None:
        """ns: of an element."""
        buffers = {**more, **{b: (self._scratch[b], "r") for b in reads.split()}}
        buffers |= {b: (self._scratch[b], "rw" if b in reads.split() else "w") for b in writes.split()}
        operations = round(ns / machine_model.OPERATION_NS * self._m)
        self._target.kernel(name, str(text), buffers, n, flops=operations, bytes=16 * self._m)

    def _elements(self, text: KernelText) -> Any:
        """The loop over the elements of a piece."""
        return text.loop("j", f"{self._span} * group", f"minimum({self._span} * group + {self._span}, {self._m})")

    def _find_range(self, inputs: dict[str, Any]) -> None:
        text = KernelText()
        with text.loop("group", "start", "stop"):
            text.line(f"low = u32({2**32 - 1})", "high = u32(0)")
            with self._elements(text):
                text.line(f"key = {self._key.of('j')}")
                text.line("low = where(key < low, key, low)", "high = where(key > high, key, high)")
            text.line("least[group] = low", "largest[group] = high")
        self._kernel("sort_range", text, self._pieces, "", "least largest", _of(inputs, str(text)), 0.3)

    def _count(self, inputs: dict[str, Any]) -> None:
        text = KernelText()
        with text.loop("group", "start", "stop"):
            text.line("low = least[0]", "high = largest[0]")
            with text.loop("p", 1, self._pieces):
                text.line("low = where(least[p] < low, least[p], low)")
                text.line("high = where(largest[p] > high, largest[p], high)")
            text.line("bits_left = u32(0)")
            with text.block(f"while u32(u32(high - low) >> bits_left) >= u32({self._buckets}):"):
                text.line("bits_left = u32(bits_left + u32(1))")
            text.line("origin[group] = low", "rest[group] = bits_left", f"table = {self._buckets} * group")
            with text.loop("c", "table", f"table + {self._buckets}"):
                text.line("counts[c] = 0")
            with self._elements(text):
                text.line(f"key = {self._key.of('j')}", "place = table + i64(u32(key - low) >> bits_left)")
                text.line("counts[place] = counts[place] + 1")
        more = _of(inputs, str(text))
        self._kernel("sort_counts", text, self._pieces, "least largest", "origin rest counts", more, 0.8)

    def _divide(self) -> None:
        text = KernelText()
        with text.loop("once", "start", "stop"):
            text.line("before = 0")
            with text.loop("c", self._buckets):
                text.line("begins[c] = before")
                with text.loop("p", self._pieces):
                    text.line(f"here = counts[{self._buckets} * p + c]", f"places[{self._buckets} * p + c] = before")
                    text.line("before = before + here")
            text.line(f"begins[{self._buckets}] = before")
        self._kernel("sort_begins", text, 1, "counts", "places begins", {}, 0)

    def _move_apart(self, inputs: dict[str, Any]) -> None:
        """Put each key into its bucket; where all are larger than the caches, line by line, past these."""
        text, count = KernelText(), self._buckets
        with text.loop("group", "start", "stop"):
            text.line("low = origin[group]", "bits_left = rest[group]", f"table = {count} * group")
            with text.loop("c", "table", f"table + {count}"):
                text.line("next[c] = places[c]")
            with self._elements(text):
                text.line(f"key = {self._key.of('j')}", "distance = u32(key - low)")
                text.line("place = table + i64(distance >> bits_left)", "to = next[place]", "next[place] = to + 1")
                word = f"(u64(distance) << {_HALF}) | u64({self._carried})"
                if self._by_lines:
                    text.line("at = i64(to)", f"line = {_LINE} * place", f"lines[line + (at & {_LINE - 1})] = {word}")
                    with text.block(f"if at & {_LINE - 1} == {_LINE - 1}:"):
                        with text.block(f"if at - {_LINE - 1} >= places[place]:"):
                            text.line(f"status = write_line(words, at - {_LINE - 1}, lines, line)")
                        with text.block("else:"):
                            self._write_rest(text, "i64(places[place])", "at + 1")
                else:
                    text.line(f"words[to] = {word}")
            if self._by_lines:
                with text.loop("place", "table", f"table + {count}"):
                    text.line("at = i64(next[place])", f"line = {_LINE} * place")
                    self._write_rest(text, f"maximum(i64(places[place]), at - (at & {_LINE - 1}))", "at")
                text.line("store_fence()")
        writes = "next words lines" if self._by_lines else "next words"
        self._kernel("sort_apart", text, self._pieces, "origin rest places", writes, _of(inputs, str(text)), 2.5)

    def _write_rest(self, text: KernelText, first: str, last: str) -> None:
        """What stands in a line of a bucket."""
        with text.loop("k", first, last):
            text.line(f"words[k] = lines[line + (k & {_LINE - 1})]")

    def _sort_buckets(self, inputs: dict[str, Any], outs: dict[str, Any], moves: Sequence[str], kept: int) -> None:
        text, groups = KernelText(), min(machine_model.BUCKET_GROUPS, self._buckets)
        together = self._buckets // groups
        with text.loop("group", "start", "stop"):
            text.line("low = origin[0]", "bits_left = rest[0]")
            text.line(f"room = {_HALF} - u64(bits_left)", "mask = (u64(1) << room) - u64(1)")
            with text.loop("bucket", f"{together} * group", f"{together} * group + {together}"):
                text.line("begin = i64(begins[bucket])", "size = i64(begins[bucket + 1]) - begin")
                text.line(f"end = minimum(begin + size, {kept})")
                with text.block("if size <= i64(mask) + 1:"):
                    self._sort_halves(text, moves)
                with text.block("else:"):
                    self._sort_words(text, moves)
        handles = {"sort": np.uint32, "sort_long": np.uint64}
        more = {name: (self._target.numpy_sort(dtype), "r") for name, dtype in handles.items()}
        more |= _of(inputs, str(text)) | {name: (b, "w") for name, b in outs.items()}
        self._kernel("sort_buckets", text, groups, "origin rest begins words packed", "words packed", more, 4)

    def _sort_halves(self, text: KernelText, moves: Sequence[str]) -> None:
        """Numbers of 32 bits: what is left of a key, and the place."""
        with text.loop("j", "size"):
            text.line(f"left = ((words[begin + j] >> {_HALF}) << room) & {_LOW}")
            text.line("packed[begin + j] = u32(left | u64(j))")
        with text.block("if bits_left > u32(0):"):
            text.line("status = sort_numbers(sort, packed, begin, size)")
        with text.loop("j", "begin", "end"):
            text.line("word = words[begin + i64(u64(packed[j]) & mask)]", f"carried = u32(word & {_LOW})")
            text.line(f"key = u32(u32(word >> {_HALF}) + low)", *(move.format(to="j") for move in moves))

    def _sort_words(self, text: KernelText, moves: Sequence[str]) -> None:
        """Numbers of 64 bits: the key and the place. What goes along waits in `packed`."""
        with text.loop("j", "size"):
            text.line("word = words[begin + j]", f"packed[begin + j] = u32(word & {_LOW})")
            text.line(f"words[begin + j] = ((word >> {_HALF}) << {_HALF}) | u64(j)")
        text.line("status = sort_numbers(sort_long, words, begin, size)")
        with text.loop("j", "begin", "end"):
            text.line("word = words[j]", f"carried = packed[begin + i64(word & {_LOW})]")
            text.line(f"key = u32(u32(word >> {_HALF}) + low)", *(move.format(to="j") for move in moves))


def _of(inputs: dict[str, Any], text: str) -> dict[str, tuple[Any, str]]:
    """Those that a text reads."""
    return {name: (buffer, "r") for name, buffer in inputs.items() if f"{name}[" in text}
