"""Updates of rows on CUDA: each block owns some rows of the result, and looks for the updates that go there.

Knows nests and text, as `emit` does. No sort, no atomics: which thread puts what together depends on sizes alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from functad import machine_model
from functad.backends.cuda.emit import SHARED_TYPES, CudaEmitter, CudaKernel
from functad.backends.cuda.mapping import LoopMapping, MappedLoop
from functad.lowering.nests.affine import data
from functad.lowering.nests.nest import Nest, OwnedRows, Statement, Update, fresh, names_of
from functad.lowering.nests.reductions import at_point
from functad.lowering.nests.updates import needed_for, neutral
from functad.primitives.loops.text import combined as put_to

_OWN_NAMES = (
    "thread group k part low first count n e at total reach more found sums counts stop last here item i rows".split()
)
_WORD = re.compile(r"[A-Za-z_]\w*")


def emit_owned_rows(nest: Nest, threads: int) -> CudaKernel:
    """The kernel of a nest whose updates blocks look for.

    A block goes through all updates, so many at a time. Its threads list those of its rows; then groups of threads, of
    which each has a copy of the rows in shared memory, put parts of the list to them, and in the end the copies
    together, in order.
    """
    assert nest.owned_rows is not None and nest.update is not None
    return _OwnedRowsEmitter(nest, nest.owned_rows, nest.update, threads).kernel()


class _OwnedRowsEmitter(CudaEmitter):
    def __init__(self, nest: Nest, owned: OwnedRows, update: Update, threads: int) -> None:
        taken = {name for s in nest.statements for name in names_of(s)} | {s.name for s in nest.loops}
        self.taken = taken | {*nest.constants, *_OWN_NAMES, owned.update.name}
        self.owned, self.update, self.dtype = owned, update, update.buffer.dtype
        self.threads = threads * machine_model.CUDA_OWNED_THREADS
        self.items = machine_model.CUDA_OWNED_ITEMS
        self.count = nest.loops[0].extent
        self.rows, self.groups = self._shares()
        blocks = -(-owned.end // self.rows)
        mapping = LoopMapping(
            block=(MappedLoop("part", blocks),),
            thread=(MappedLoop("thread", self.threads),),
            serial=(MappedLoop(nest.loops[0].name, self.count),),
        )
        super().__init__(nest, LoopMapping(), {})
        self.mapping, self.blocks = mapping, blocks

    def _shares(self) -> tuple[int, int]:
        """How many rows a block owns, and of how many copies of them."""
        length, most = self.owned.length, max(machine_model.CUDA_OWNED_BYTES // self.dtype.itemsize, self.owned.length)
        rows = max(1, min(most // length, -(-self.owned.end // (4 * machine_model.CUDA_CORES))))
        room = (machine_model.CUDA_SHARED_BYTES - 4 * self.threads * (2 * self.items + 1)) // self.dtype.itemsize
        return rows, max(1, min(self.threads // length, room // (rows * length)))

    def kernel(self) -> CudaKernel:
        kind = SHARED_TYPES.get(self.dtype.name, self.dtype.name)
        self.size = self.rows * self.owned.length
        self._constants()
        self._line(0, f"sums = cuda.shared.array({self.groups * self.size}, {kind})")
        self._line(0, f"found = cuda.shared.array({self.items * self.threads}, int32)")
        self._line(0, f"rows = cuda.shared.array({self.items * self.threads}, int32)")
        self._line(0, f"counts = cuda.shared.array({self.threads}, int32)", "thread = cuda.threadIdx.x")
        self._line(0, f"for part in range(cuda.blockIdx.x, {self.blocks}, cuda.gridDim.x):")
        self._line(1, f"low = {self.rows} * part")
        self._line(1, f"for e in range(thread, {self.groups * self.size}, {self.threads}):")
        self._line(2, f"sums[e] = {neutral(self.update.kind, self.dtype)}")
        self._line(1, f"for first in range(0, {self.count}, {self.items * self.threads}):")
        self._list_updates()
        self._put_to_rows()
        self._write_rows()
        parameters = tuple(self.parameters.values())
        return CudaKernel("\n".join(self.lines) + "\n", parameters, self.mapping, self.threads)

    def _list_updates(self) -> None:
        """List the updates of the block's rows: those of one thread after those of another."""
        keys, (row, end) = needed_for(self.nest.statements, {self.owned.row}), (self.owned.row, self.owned.end)
        number, names = self._copied_names(keys)
        self._line(2, f"stop = min(low + {self.rows}, {end})", "n = 0", f"for item in range({self.items}):")
        self._line(3, f"i = item * {self.threads} + thread", f"{number} = first + i", "here = -1")
        self._line(3, f"if {number} < {self.count}:")
        for s in keys:
            self._line(4, self._text(self._at_update(s, number, names)))
        self._line(4, f"if {names[row]} >= low and {names[row]} < stop:")
        self._line(5, f"here = {names[row]} - low", "n = n + 1")
        self._line(3, "rows[i] = here")
        self._line(2, "counts[thread] = n", "cuda.syncthreads()", "reach = 1", f"while reach < {self.threads}:")
        self._line(3, "more = 0", "if thread >= reach:", "    more = i64(counts[thread - reach])")
        self._line(3, "cuda.syncthreads()", "counts[thread] = counts[thread] + more", "cuda.syncthreads()")
        self._line(3, "reach = 2 * reach")
        self._line(2, "at = counts[thread] - n", f"for item in range({self.items}):")
        self._line(3, f"i = item * {self.threads} + thread", "here = i64(rows[i])", "if here >= 0:")
        self._line(4, f"found[at] = here * {self.items * self.threads} + i", "at = at + 1")
        self._line(2, "cuda.syncthreads()")

    def _put_to_rows(self) -> None:
        """Each group puts its share of the list to its copy of the rows: the elements of several at a time."""
        length, others, at_once = self.owned.length, self.nest.loops[1:], machine_model.CUDA_UPDATES_AT_ONCE
        values = needed_for(self.nest.statements, {*_WORD.findall(self.update.value)})
        self._line(2, f"group = thread // {length}", f"total = counts[{self.threads - 1}]")
        self._line(2, f"last = (group + 1) * total // {self.groups}")
        self._line(2, f"if group < {self.groups}:" if self.groups * length < self.threads else "if total > 0:")
        self._line(3, f"for e in range(group * total // {self.groups}, last, {at_once}):")
        if length > self.threads:
            self._line(4, f"for k in range(thread, {length}, {self.threads}):")
        else:
            self._line(4, f"k = thread % {length}")
        depth = 5 if length > self.threads else 4
        if others:
            self._places(depth, "k", others) if len(others) > 1 else self._line(depth, f"{others[0].name} = k")
        puts: list[tuple[int, str, str]] = []
        for item in range(at_once):
            number, names = self._copied_names(values)
            here = fresh("here", self.taken)
            self._line(depth, f"{here} = found[min(e + {item}, last - 1)]")
            self._line(depth, f"{number} = first + {here} % {self.items * self.threads}")
            for s in values:
                self._line(depth, self._text(self._at_update(s, number, names)))
            puts.append((item, here, _renamed(self.update.value, names)))
        for item, here, value in puts:
            place = f"(group * {self.rows} + {here} // {self.items * self.threads}) * {length} + k"
            self._line(depth, f"if e + {item} < last:")
            self._line(depth + 1, f"at = {place}")
            self._line(depth + 1, f"sums[at] = {put_to(self.update.kind, self.dtype, 'sums[at]', value)}")
        self._line(2, "cuda.syncthreads()")

    def _write_rows(self) -> None:
        """The copies together, and to what lies in the result."""
        element = f"{self.parameters[self.update.buffer.storage][0]}[{self.owned.length} * low + e]"
        kind = self.update.kind
        self._line(1, f"for e in range(thread, {self.size}, {self.threads}):")
        self._line(2, f"if {self.owned.length} * low + e < {self.owned.end * self.owned.length}:")
        self._line(3, "total = sums[e]")
        if self.groups > 1:
            self._line(3, f"for group in range(1, {self.groups}):")
            self._line(4, f"total = {put_to(kind, self.dtype, 'total', f'sums[{self.size} * group + e]')}")
        self._line(3, f"{element} = {put_to(kind, self.dtype, element, 'total')}")
        self._line(1, "cuda.syncthreads()")

    # --- copies of statements ----------------------------------------------------------------------------

    def _copied_names(self, statements: list[Statement]) -> tuple[str, dict[str, str]]:
        """A name for the number of one more update, and for all that is computed of it."""
        names = {name: fresh(name, self.taken) for s in statements for name in names_of(s)}
        return fresh(self.owned.update.name, self.taken), names

    def _at_update(self, s: Statement, number: str, names: dict[str, str]) -> Statement:
        return at_point(s, {self.owned.update: data(number, 0, self.count - 1)}, names)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: names.get(word.group(), word.group()), text)
