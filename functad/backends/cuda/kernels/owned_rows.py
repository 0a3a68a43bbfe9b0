"""Updates of rows on CUDA: each block owns some rows of the result, and looks for the updates that go there.

Knows nests and text, as `emit` does. No sort, no atomics: which thread puts what together depends on sizes alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from functad import machine_model
from functad.backends.cuda.kernels.emit import SHARED_TYPES, CudaEmitter, CudaKernel
from functad.backends.cuda.kernels.mapping import LoopMapping, MappedLoop
from functad.backends.cuda.kernels.shared_steps import in_32_bits, of_blocks
from functad.lowering.nests.affine import Affine, Symbol, data
from functad.lowering.nests.names import renamed, words_in
from functad.lowering.nests.nest import Nest, OwnedRows, Statement, Update, fresh, names_of
from functad.lowering.nests.reductions import at_point
from functad.lowering.nests.updates import identity_element, needed_for
from functad.primitives.loops.text import put_to

_OWN_NAMES = """thread group k part low first count n e at total reach more found sums counts stop last here item i mask
    rest base n_here""".split()


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
        self.within, self.others = self._loops_of_row(nest.loops[1:])
        self.threads = threads * machine_model.CUDA_OWNED_THREADS
        self.count = nest.loops[0].extent
        most = min(machine_model.CUDA_OWNED_ITEMS, -(-self.count // self.threads))
        self.at_once = min(machine_model.CUDA_UPDATES_AT_ONCE, most)
        self.items = -(-most // self.at_once) * self.at_once
        self.looks = self.items * self.threads
        self.listed = min(machine_model.CUDA_OWNED_LISTED, self.looks)
        self.rows, self.groups = self._shares()
        blocks = -(-owned.end // self.rows)
        mapping = LoopMapping(
            block=(MappedLoop("part", blocks),),
            thread=(MappedLoop("thread", self.threads),),
            serial=(MappedLoop(nest.loops[0].name, self.count),),
        )
        super().__init__(nest, LoopMapping(), {})
        self.mapping, self.blocks = mapping, blocks

    def _loops_of_row(self, loops: Sequence[Symbol]) -> tuple[dict[Symbol, Affine], list[Symbol]]:
        """The loops over a row, and what stands for those that are called like a variable of this kernel."""
        own = {s: Symbol(fresh(s.name, self.taken), s.low, s.high) for s in loops if s.name in _OWN_NAMES}
        return {s: Affine(0, [(named, 1)]) for s, named in own.items()}, [own.get(s, s) for s in loops]

    def _shares(self) -> tuple[int, int]:
        """How many rows a block owns, and of how many copies of them."""
        length, most = self.owned.length, max(machine_model.CUDA_OWNED_BYTES // self.dtype.itemsize, self.owned.length)
        rows = max(
            1, min(most // length, -(-self.owned.end // (machine_model.CUDA_OWNED_BLOCKS * machine_model.CUDA_CORES)))
        )
        room = (machine_model.CUDA_SHARED_BYTES - 4 * (self.threads + self.listed)) // self.dtype.itemsize
        return rows, max(1, min(self.threads // length, room // (rows * length)))

    def kernel(self) -> CudaKernel:
        kind = SHARED_TYPES.get(self.dtype.name, self.dtype.name)
        self.size = self.rows * self.owned.length
        self._constants()
        self._line(0, f"sums = cuda.shared.array({self.groups * self.size}, {kind})")
        self._line(0, f"found = cuda.shared.array({self.listed}, int32)")
        self._line(0, f"counts = cuda.shared.array({self.threads}, int32)", "thread = cuda.threadIdx.x")
        steps = of_blocks("part", self.blocks)
        self._line(0, *steps.begin)
        self._line(1, f"low = {self.rows} * part", f"stop = min(low + {self.rows}, {self.owned.end})")
        self._line(1, f"for e in range(thread, {self.groups * self.size}, {self.threads}):")
        self._line(2, f"sums[e] = {identity_element(self.update.kind, self.dtype)}")
        self._line(1, f"for first in range(0, {self.count}, {self.looks}):")
        self._look()
        self._line(2, f"total = i64(counts[{self.threads - 1}])")
        self._line(2, f"for base in range(0, total, {self.listed}):")
        self._list_updates()
        self._put_to_rows()
        self._write_rows()
        self._line(1, steps.end)
        parameters = tuple(self.parameters.values())
        return CudaKernel("\n".join(self.lines) + "\n", parameters, self.mapping, self.threads)

    def _look(self) -> None:
        """A thread finds out which of its updates, a bit for each, are of the block's rows, and how many come before.

        It reads several before it looks at one.
        """
        keys = needed_for(self.nest.statements, {self.owned.row})
        self._line(2, "mask = i64(0)", "n = 0", f"for item in range(0, {self.items}, {self.at_once}):")
        tests = []
        for k in range(self.at_once):
            number, names = self._copied_names(keys)
            place = f"first + (item + {k}) * {self.threads} + thread"
            self._line(3, f"{number} = min({place}, {self.count - 1})")
            for s in keys:
                self._line(3, self._text(self._at_update(s, number, names)))
            row = names[self.owned.row]
            tests.append((k, f"{row} >= low and {row} < stop and {place} < {self.count}"))
        for k, test in tests:
            self._line(3, f"if {test}:")
            self._line(4, f"mask = mask | (i64(1) << (item + {k}))", "n = n + 1")
        self._line(
            2,
            "cuda.syncthreads()",
            "counts[thread] = n",
            "cuda.syncthreads()",
            "reach = 1",
            f"while reach < {self.threads}:",
        )
        self._line(3, "more = 0", "if thread >= reach:", "    more = i64(counts[thread - reach])")
        self._line(3, "cuda.syncthreads()", "counts[thread] = counts[thread] + more", "cuda.syncthreads()")
        self._line(3, "reach = 2 * reach")

    def _list_updates(self) -> None:
        """As many as there is room for, those of one thread after those of another."""
        keys = needed_for(self.nest.statements, {self.owned.row})
        number, names = self._copied_names(keys)
        self._line(3, "at = counts[thread] - n - base", "rest = mask", "i = i64(thread)", "while rest != 0:")
        self._line(4, "if rest & 1 != 0:")
        self._line(5, f"if at >= 0 and at < {self.listed}:")
        self._line(6, f"{number} = first + i")
        for s in keys:
            self._line(6, self._text(self._at_update(s, number, names)))
        self._line(6, f"found[at] = ({names[self.owned.row]} - low) * {self.looks} + i")
        self._line(5, "at = at + 1")
        self._line(4, "rest = rest >> 1", f"i = i + {self.threads}")
        self._line(3, "cuda.syncthreads()")

    def _put_to_rows(self) -> None:
        """Each group puts its share of the list to its copy of the rows: the elements of several at a time."""
        length, others = self.owned.length, self.others
        values = needed_for(self.nest.statements, words_in(self.update.value))
        self._line(3, f"group = thread // {length}", f"n_here = min(total - base, {self.listed})")
        self._line(3, f"last = {in_32_bits('(group + 1) * n_here')} // {self.groups}", f"if group < {self.groups}:")
        self._line(4, f"for e in range({in_32_bits('group * n_here')} // {self.groups}, last, {self.at_once}):")
        if length > self.threads:
            self._line(5, f"for k in range(thread, {length}, {self.threads}):")
        else:
            self._line(5, f"k = thread % {length}")
        depth = 6 if length > self.threads else 5
        if others:
            self._places(depth, "k", others)
        puts: list[tuple[int, str, str]] = []
        for item in range(self.at_once):
            number, names = self._copied_names(values)
            here = fresh("here", self.taken)
            self._line(depth, f"{here} = {in_32_bits(f'found[min(e + {item}, last - 1)]')}")
            self._line(depth, f"{number} = first + {here} % {self.looks}")
            for s in values:
                self._line(depth, self._text(self._at_update(s, number, names)))
            puts.append((item, here, renamed(self.update.value, names)))
        for item, here, value in puts:
            self._line(depth, f"if e + {item} < last:")
            self._line(depth + 1, f"at = (group * {self.rows} + {here} // {self.looks}) * {length} + k")
            self._line(depth + 1, f"sums[at] = {put_to(self.update.kind, self.dtype, 'sums[at]', value)}")
        self._line(3, "cuda.syncthreads()")

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
        return at_point(s, {self.owned.update: data(number, 0, self.count - 1), **self.within}, names)
