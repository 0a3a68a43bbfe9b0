"""Kernels that sort: short rows side by side or by counting, others by levels or digits; and the largest elements.

Knows the interface of a target, of which a device has a sort of its own. Whatever is compared is first turned into
unsigned integers of the same order, its sort keys: a number has one, a complex number three. All sorts are stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent
from typing import Any

import numpy as np

from functad import machine_model
from functad.dtypes import kind_of
from functad.options import available_cores
from functad.primitives.loops.order import from_key, order_key
from functad.primitives.loops.sort_keys import Key, RowSort, SortedRows, index_dtype, keys_of, number_of
from functad.primitives.loops.sorting_buckets import BucketSort, sorts_in_buckets
from functad.primitives.loops.sorting_levels import levels_text, sorts_by_levels
from functad.primitives.loops.sorting_network import sort_side_by_side, sorts_side_by_side
from functad.primitives.loops.sorting_parts import CarriedAlong, PartedSort, sorts_in_parts
from functad.primitives.loops.text import cast


class _SortingKernel:
    """A kernel under construction, which does one row after another of a group."""

    def __init__(self, target: Any, rows: SortedRows) -> None:
        self.target, self.rows = target, rows
        self.buffers: dict[str, tuple[Any, str]] = {}
        self.lines: list[str] = []

    def read(self, operands: Sequence[Any]) -> list[str]:
        """The pointers of the operands; one that is there twice has one pointer."""
        names: dict[int, str] = {}
        for x in operands:
            name = names.setdefault(id(x), f"x{len(names)}")
            self.buffers[name] = (x, "r")
        return [names[id(x)] for x in operands]

    def write(self, name: str, buffer: Any) -> None:
        self.buffers[name] = (buffer, "w")

    def operands(self) -> dict[str, Any]:
        return {name: b for name, (b, mode) in self.buffers.items() if mode == "r"}

    def results(self) -> dict[str, Any]:
        return {name: b for name, (b, mode) in self.buffers.items() if mode == "w"}

    def scratch(self, name: str, size: int, dtype: Any) -> None:
        """Memory for a row, which begins at `size * group`."""
        if name not in self.buffers:
            self.buffers[name] = (self.target.scratch((self.rows.groups, size), np.dtype(dtype)), "w")

    def add(self, text: str) -> None:
        self.lines += text.strip("\n").split("\n")

    def emit(self, name: str, flops: int) -> None:
        rows = self.rows
        bounds = f"range({rows.in_group} * group, minimum({rows.in_group} * group + {rows.in_group}, {rows.count}))"
        inside = [f"for r in {bounds}:", *(f"    {line}" for line in self.lines)]
        body = "\n".join(["for group in range(start, stop):", *(f"    {line}" for line in inside)])
        moved = sum(b.size * b.dtype.itemsize for b, _ in self.buffers.values())
        self.target.kernel(name, body, self.buffers, rows.groups, flops=flops, bytes=moved)


def sort_rule(
    target: Any, ins: Sequence[Any], outs: Sequence[Any], *, dimension: int, num_keys: int, is_stable: bool
) -> None:
    if ins[0].size == 0:
        return
    rows = SortedRows(target, ins[0].shape, dimension)
    kernel = _SortingKernel(target, rows)
    names = kernel.read(ins)
    keys = [key for name, x in zip(names[:num_keys], ins) for key in keys_of(name, x.dtype)]
    if target.on_device:
        _sort_by(kernel, keys, names, outs, rows.length)
        return
    if len(ins) == 1 and kind_of(ins[0].dtype) != "c":
        if sorts_side_by_side(rows, bool(target.numpy_sort(ins[0].dtype))):
            _sort_values_side_by_side(target, rows, ins[0], outs[0])
            return
        if _by_numpy(target, rows, ins[0].dtype):
            _sort_values_by_numpy(kernel, ins[0], outs[0])
            return
        if rows.length > machine_model.COUNTED_ROW and not sorts_by_levels(rows, keys):
            _sort_long_values(kernel, ins[0], outs[0])
            return
    if sorts_by_levels(rows, keys) and not sorts_in_buckets(target, rows, keys[0], ins[0].dtype):
        _sort_by_levels(kernel, keys[0], ins[0].dtype, names, outs)
        return
    _sort_by(kernel, keys, names, outs, rows.length)


def top_k_rule(target: Any, ins: Sequence[Any], outs: Sequence[Any], *, k: int, axis: int) -> None:
    (x,), (values, indices) = ins, outs
    if values.size == 0:
        return
    rows = SortedRows(target, x.shape, axis)
    kernel = _SortingKernel(target, rows)
    (name,) = kernel.read([x])
    word, text = order_key("{0}", x.dtype, zeros_equal=False)
    if k <= machine_model.KEPT_LARGEST and not target.on_device:
        _keep_largest(kernel, Key(name, word, text), values, indices, k)
        return
    descending = Key(name, word, f"{cast(word)}(~{cast(word)}({text}))")
    _sort_by(kernel, [descending], [name], [values], k, indices)


def _sort_by(
    kernel: _SortingKernel,
    keys: Sequence[Key],
    names: Sequence[str],
    outs: Sequence[Any],
    kept: int,
    indices: Any = None,
) -> None:
    """Write the first `kept` elements of each row in the order of the keys, and where they were to `indices`."""
    for k, out in enumerate(outs):
        kernel.write(f"out{k}", out)
    if indices is not None:
        kernel.write("indices", indices)
    moves = [f"out{k}[{{to}}] = {name}[{{at}}]" for k, name in enumerate(names)]
    moves += ["indices[{to}] = {place}"] if indices is not None else []
    if kernel.target.on_device:
        kernel.target.sort(RowSort(kernel.rows, keys, kept, moves), kernel.buffers)
        return
    if len(keys) == 1 and sorts_in_buckets(kernel.target, kernel.rows, keys[0], kernel.operands()[names[0]].dtype):
        _sort_pairs_in_buckets(kernel, keys[0], names, moves, kept, indices)
        return
    if len(keys) == 1 and sorts_in_parts(kernel.rows, keys[0]):
        _sort_in_parts(kernel, keys[0], names, moves, kept, indices)
        return
    is_wide = len(keys) == 1 and keys[0].word.itemsize == 8  # eight digits, but one comparison
    counts = kernel.rows.length <= machine_model.COUNTED_ROW * (2 if is_wide else 1)
    (_sort_by_counting if counts else _sort_by_digits)(kernel, keys, moves, kept)


def _sort_in_parts(
    kernel: _SortingKernel, key: Key, names: Sequence[str], moves: Sequence[str], kept: int, indices: Any
) -> None:
    inputs, written = kernel.operands(), kernel.results()
    carried = CarriedAlong.positions(kernel.rows.length)
    if _says_all(kernel, names, indices):
        number, other = from_key("key", inputs[names[0]].dtype), inputs[names[1]]
        if kind_of(other.dtype) in "iuf" and other.dtype.itemsize >= 4:
            moves = [f"out0[{{to}}] = {number}", "out1[{to}] = carried"]
            carried = CarriedAlong.elements(names[1], other)
    PartedSort(kernel.target, kernel.rows, key, carried).emit(inputs, written, moves, kept)


def _says_all(kernel: _SortingKernel, names: Sequence[str], indices: Any) -> bool:
    """Whether the key says what the first operand is, and the second one may go along."""
    return indices is None and len(names) == 2 and kind_of(kernel.operands()[names[0]].dtype) in "iu"


# --- numbers: by NumPy's function, a row after another -----------------------------------------------------------


def _by_numpy(target: Any, rows: SortedRows, dtype: np.dtype) -> bool:
    """Whether NumPy sorts these by vectors, and many threads do not take less time for one row."""
    is_shared = rows.count == 1 and rows.length >= machine_model.PARTED_ROW
    return bool(target.numpy_sort(dtype)) and (not is_shared or available_cores()[0] <= machine_model.NUMPY_SORT_CORES)


def _sort_values_by_numpy(kernel: _SortingKernel, x: Any, out: Any) -> None:
    """Rows of numbers, where they go to; rows that do not lie in one piece in memory of the kernel's own."""
    rows, m = kernel.rows, kernel.rows.length
    (name,) = kernel.read([x])
    kernel.write("out", out)
    kernel.buffers["sort"] = (kernel.target.numpy_sort(x.dtype), "r")
    moved = rows.stride != 1
    if moved:
        kernel.scratch("row", m, x.dtype)
    sorted_at = ("row", f"{m} * group") if moved else ("out", "base")
    kernel.add(f"""
base = {rows.base(m)}
first = {sorted_at[1]}
for j in range({m}):
    {sorted_at[0]}[first + j] = {name}[{rows.at("base", "j")}]
status = sort_numbers(sort, {sorted_at[0]}, first, {m})""")
    if moved:
        kernel.add(f"""
for j in range({m}):
    out[{rows.at("base", "j")}] = row[first + j]""")
    if kind_of(x.dtype) == "f":
        (key,) = keys_of(name, x.dtype)
        kernel.add(_signs_of_zero(rows, name, x.dtype, key.word))
    kernel.emit("sort_by_numpy", 64 * x.size)


def _sort_pairs_in_buckets(
    kernel: _SortingKernel, key: Key, names: Sequence[str], moves: Sequence[str], kept: int, indices: Any
) -> None:
    """By keys of 32 bits, with what the second operand has of as many, or else the positions."""
    inputs, outs = kernel.operands(), kernel.results()
    carried = "j"
    moves = ["place = i64(carried)", *(move.format(to="{to}", at="place", place="place") for move in moves)]
    if _says_all(kernel, names, indices):
        other = inputs[names[1]].dtype
        if other.itemsize == 4:
            is_float = kind_of(other) == "f"
            carried = f"bits({names[1]}[j])" if is_float else f"u32({names[1]}[j])"
            value = "from_bits_f32(carried)" if is_float else f"{cast(other)}(carried)"
            moves = [f"out0[{{to}}] = {from_key('key', inputs[names[0]].dtype)}", f"out1[{{to}}] = {value}"]
    BucketSort(kernel.target, kernel.rows, key, carried).emit(inputs, outs, moves, kept)


# --- short rows: side by side, or by counting -----------------------------------------------------------------


def _sort_values_side_by_side(target: Any, rows: SortedRows, x: Any, out: Any) -> None:
    (key,) = keys_of("x0", x.dtype)
    signs = _signs_of_zero(rows, "x0", x.dtype, key.word) if kind_of(x.dtype) == "f" else ""
    sort_side_by_side(target, rows, key, x, out, signs)


def _sort_by_counting(kernel: _SortingKernel, keys: Sequence[Key], moves: Sequence[str], kept: int) -> None:
    """The place of an element is the number of those that come before it."""
    rows, m = kernel.rows, kernel.rows.length
    width = -(-m // machine_model.FLOATS_OF_VECTOR) * machine_model.FLOATS_OF_VECTOR
    wide = any(key.word.itemsize == 8 for key in keys)
    number = "i64" if wide else "i32"
    kernel.scratch("before", width, np.int64 if wide else np.int32)
    loads, pivots = [], []
    for k, key in enumerate(keys):
        # All of one size, so that the vectors of keys and counts are as long as one another.
        word = "u64" if wide else "u32"
        kernel.scratch(f"key{k}", width, np.uint64 if wide else np.uint32)
        loads.append(f"    key{k}[row + j] = {word}({key.of(rows.at('base', 'j'))})")
        pivots.append(f"    pivot{k} = key{k}[row + i]")
    zeros = [f"    key{k}[row + j] = {'u64' if wide else 'u32'}(0)" for k in range(len(keys))]
    if width > m:
        kernel.lines += [f"row = {width} * group", f"for j in range({m}, {width}):", *zeros]
    else:
        kernel.lines.append(f"row = {width} * group")
    load, pivot = "\n".join(loads), "\n".join(pivots)
    kernel.add(f"""
base = {rows.base(m)}
for j in range({m}):
{load}
for j in range({width}):
    before[row + j] = 0
for i in range({m}):
{pivot}
    for j in range({width}):
        comes_later = {_comes_later(len(keys))}
        before[row + j] = {number}(before[row + j] + {number}(comes_later))
to = {rows.base(kept)}
for j in range({m}):
    place = i64(before[row + j])""")
    text = {"to": rows.at("to", "place"), "at": rows.at("base", "j"), "place": "j"}
    lines = [f"    {move.format(**text)}" for move in moves]
    kernel.lines += lines if kept == m else [f"    if place < {kept}:", *(f"    {line}" for line in lines)]
    kernel.emit("sort_rows", 4 * rows.count * m * m // machine_model.FLOATS_OF_VECTOR)


def _comes_later(count: int) -> str:
    """The condition under which the element at j belongs behind that at i, by all keys and then by position."""
    text = "(i < j)"
    for k in reversed(range(count)):
        text = f"((pivot{k} < key{k}[row + j]) | ((pivot{k} == key{k}[row + j]) & {text}))"
    return text


# --- rows of middle length: by levels -------------------------------------------------------------------------


def _sort_by_levels(
    kernel: _SortingKernel, key: Key, dtype: np.dtype, names: Sequence[str], outs: Sequence[Any]
) -> None:
    rows, m = kernel.rows, kernel.rows.length
    for k, out in enumerate(outs):
        kernel.write(f"out{k}", out)
    kernel.scratch("levels", m, np.int32)
    kernel.scratch("counts_of_levels", m, np.int32)
    kernel.scratch("pairs", m + 1, np.uint64)
    kernel.lines = levels_text(rows, key, dtype, _pairs_by_digits(kernel, key))
    kernel.add(f"""
for j in range({m}):
    place = i64(pairs[row + 1 + j] & u64({2**32 - 1}))""")
    kernel.lines += [
        f"    out{k}[{rows.at('base', 'j')}] = {name}[{rows.at('base', 'place')}]" for k, name in enumerate(names)
    ]
    kernel.emit("sort_levels", 16 * rows.count * m)


def _pairs_by_digits(kernel: _SortingKernel, key: Key) -> list[str]:
    """The lines that fill `pairs` by sorting digit by digit."""
    m, digits = kernel.rows.length, _Digits(key.word, kernel.rows.length)
    total = digits.passes * digits.values
    kernel.scratch("counts", total, index_dtype(m))
    kernel.scratch("order", 2 * m, index_dtype(m))
    kernel.scratch("keys", 2 * m, key.word)
    kernel.add(f"""
source = {2 * m} * group
other = source + {m}
for j in range({m}):
    order[source + j] = j""")
    _add_digit_sort(kernel, digits, key.of(kernel.rows.at("base", "j")), total, keys="keys", order="order")
    kernel.add(f"""
for j in range({m}):
    pairs[row + 1 + j] = (u64(keys[source + j]) << u64(32)) | u64(order[source + j])""")
    return kernel.lines


# --- long rows: digit by digit ----------------------------------------------------------------------


class _Digits:
    """How keys are cut into digits."""

    def __init__(self, word: np.dtype, length: int) -> None:
        self.word = word
        larger = length > machine_model.LONG_DIGITS_ROW and word.itemsize > 2
        self.width = machine_model.LARGER_DIGIT_BITS if larger else machine_model.DIGIT_BITS
        self.passes = -(-8 * word.itemsize // self.width)
        self.values = 1 << self.width

    def of(self, key: str, shift: str) -> str:
        unsigned = cast(self.word)
        return f"i64(({key} >> {unsigned}({shift})) & {unsigned}({self.values - 1}))"


def _add_digit_sort(
    kernel: _SortingKernel, digits: _Digits, value: str, total: int, *, keys: str, order: str = ""
) -> None:
    """Sort the keys of a row, and `order` along with them, from the lowest digit to the highest.

    Their row begins at `source`, with as much room at `other`; at the end the sorted ones are at `source`.
    There are `total` counters for each row. `value` is the text of the key at j.
    """
    m, key, used = kernel.rows.length, f"{keys}_key", digits.values * digits.passes
    counts = []
    for p in range(digits.passes):
        counts.append(f"    place = table + {p * digits.values} + {digits.of(key, str(p * digits.width))}")
        counts.append("    counts[place] = counts[place] + 1")
    count = "\n".join(counts)
    kernel.add(f"""
table = {total} * group
for c in range(table, table + {used}):
    counts[c] = 0
for j in range({m}):
    {key} = {value}
    {keys}[source + j] = {key}
{count}
for p in range({digits.passes}):
    table = {total} * group + {digits.values} * p
    shift = {digits.width} * p
    if counts[table + {digits.of(f"{keys}[source]", "shift")}] < {m}:
        before = 0
        for c in range(table, table + {digits.values}):
            here = counts[c]
            counts[c] = before
            before = before + here
        for j in range({m}):
            {key} = {keys}[source + j]
            place = table + {digits.of(key, "shift")}
            at = counts[place]
            counts[place] = at + 1
            {keys}[other + at] = {key}""")
    if order:
        kernel.add(f"            {order}[other + at] = {order}[source + j]")
    kernel.add("""
        swapped = source
        source = other
        other = swapped""")


def _sort_long_values(kernel: _SortingKernel, x: Any, out: Any) -> None:
    """Rows of numbers, as keys that say all of them but the sign of zero."""
    rows, m = kernel.rows, kernel.rows.length
    (name,) = kernel.read([x])
    kernel.write("out", out)
    (key,) = keys_of(name, x.dtype)
    number = number_of("key", x.dtype)
    if sorts_in_parts(rows, key):
        PartedSort(kernel.target, rows, key, None).emit({name: x}, {"out": out}, [f"out[{{to}}] = {number}"], m)
        if kind_of(x.dtype) == "f":
            kernel.lines.append(f"base = {rows.base(m)}")
            kernel.add(_signs_of_zero(rows, name, x.dtype, key.word))
            kernel.emit("sort_zeros", x.size)
        return
    digits = _Digits(key.word, m)
    total = digits.passes * digits.values
    kernel.scratch("keys", 2 * m, key.word)
    kernel.scratch("counts", total, index_dtype(m))
    kernel.lines += [f"base = {rows.base(m)}", f"source = {2 * m} * group", f"other = source + {m}"]
    _add_digit_sort(kernel, digits, key.of(rows.at("base", "j")), total, keys="keys")
    place = rows.at("base", "j")
    kernel.add(f"""
for j in range({m}):
    key = keys[source + j]
    out[{place}] = {number}""")
    if kind_of(x.dtype) == "f":
        kernel.add(_signs_of_zero(rows, name, x.dtype, key.word))
    kernel.emit("sort_digits", 4 * digits.passes * x.size)


def _signs_of_zero(rows: SortedRows, name: str, dtype: np.dtype, word: np.dtype) -> str:
    """The lines that put zeros of a sorted row down again, now with their signs, if there are negative ones."""
    m, zero = rows.length, f"{cast(dtype)}(0.0)"
    first = f"""place = 0
end = {m}
while place < end:
    middle = (place + end) >> 1
    if out[{rows.at("base", "middle")}] < {zero}:
        place = middle + 1
    else:
        end = middle"""
    look = f"""for j in range({m}):
    element = {name}[{rows.at("base", "j")}]
    negative = negative + where({_is_negative_zero("element", dtype, word)}, 1, 0)"""
    again = f"""for j in range({m}):
    element = {name}[{rows.at("base", "j")}]
    if element == {zero}:
        out[{rows.at("base", "place")}] = element
        place = place + 1"""
    if m < machine_model.ROW_LOOKED_THROUGH:
        return f"""
negative = 0
{look}
if negative > 0:
{indent(first, "    ")}
{indent(again, "    ")}"""
    return f"""
{first}
negative = 0
if place < {m}:
    if out[{rows.at("base", "place")}] == {zero}:
{indent(look, "        ")}
if negative > 0:
{indent(again, "    ")}"""


def _is_negative_zero(element: str, dtype: np.dtype, word: np.dtype) -> str:
    return f"({element} == {cast(dtype)}(0.0)) & (bits({element}) != {cast(word)}(0))"


def _sort_by_digits(kernel: _SortingKernel, keys: Sequence[Key], moves: Sequence[str], kept: int) -> None:
    """Sort positions: by the last key, then the one before, and so on."""
    rows, m = kernel.rows, kernel.rows.length
    digits = [_Digits(key.word, m) for key in keys]
    total = max(d.passes * d.values for d in digits)
    kernel.scratch("counts", total, index_dtype(m))
    kernel.scratch("order", 2 * m, index_dtype(m))
    kernel.add(f"""
base = {rows.base(m)}
source = {2 * m} * group
other = source + {m}
for j in range({m}):
    order[source + j] = j""")
    for key, digit in reversed(list(zip(keys, digits))):
        name = f"keys_{cast(key.word)}"
        kernel.scratch(name, 2 * m, key.word)
        _add_digit_sort(kernel, digit, key.of(rows.at("base", "order[source + j]")), total, keys=name, order="order")
    text = {"to": rows.at("to", "j"), "at": rows.at("base", "place"), "place": "place"}
    kernel.add(f"""
to = {rows.base(kept)}
for j in range({kept}):
    place = i64(order[source + j])""")
    kernel.lines += [f"    {move.format(**text)}" for move in moves]
    kernel.emit("sort_positions", 4 * sum(d.passes for d in digits) * rows.count * m)


# --- the largest elements -----------------------------------------------------------------------------------


def _insertion(kept: int) -> str:
    """The lines that put `key`, of place `j`, in its order among the largest of a row, if it belongs there."""
    return f"""
    k = count
    if count < {kept}:
        count = count + 1
    elif key > largest[row + {kept - 1}]:
        k = {kept - 1}
    else:
        k = {kept}
    if k < {kept}:
        while k > 0:
            if largest[row + k - 1] < key:
                largest[row + k] = largest[row + k - 1]
                places[row + k] = places[row + k - 1]
                k = k - 1
            else:
                break
        largest[row + k] = key
        places[row + k] = j"""


def _keep_largest(kernel: _SortingKernel, key: Key, values: Any, indices: Any, kept: int) -> None:
    """Read each row once, and keep the largest elements so far in their order.

    If few are kept of many, the largest of each block, reductions of vectors, come first: as many elements as are kept
    are no less than the last of those that would be kept of these, so that nothing below counts.
    """
    rows, m = kernel.rows, kernel.rows.length
    block = machine_model.BLOCK_OF_LARGEST
    blocks = m // block if m >= machine_model.LARGEST_AMONG * kept else 0
    kernel.write("values", values)
    kernel.write("indices", indices)
    kernel.scratch("largest", kept, key.word)
    kernel.scratch("places", kept, index_dtype(m))
    to = rows.at("to", "j")
    read = f"key = {key.of(rows.at('base', 'j'))}"
    insert = _insertion(kept)
    kernel.add(f"""
base = {rows.base(m)}
row = {kept} * group
count = 0""")
    if blocks:
        kernel.scratch("tops", blocks, key.word)
        kernel.add(f"""
tops_row = {blocks} * group
for b in range({blocks}):
    best = {cast(key.word)}(0)
    for i in range({block}):
        key = {key.of(rows.at("base", f"({block} * b + i)"))}
        best = where(key > best, key, best)
    tops[tops_row + b] = best
for j in range({blocks}):
    key = tops[tops_row + j]{insert}
limit = largest[row + {kept - 1}]
count = 0
for b in range({blocks}):
    best = tops[tops_row + b]
    if best >= limit and (count < {kept} or best > largest[row + {kept - 1}]):
        for j in range({block} * b, {block} * b + {block}):
            {read}
            if key >= limit:{indent(insert, "            ")}""")
    if block * blocks < m:
        kernel.add(f"""
for j in range({block * blocks}, {m}):
    {read}{insert}""")
    kernel.add(f"""
to = {rows.base(kept)}
for j in range({kept}):
    place = i64(places[row + j])
    values[{to}] = {key.pointer}[{rows.at("base", "place")}]
    indices[{to}] = place""")
    kernel.emit("largest", 2 * rows.count * m)
