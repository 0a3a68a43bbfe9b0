"""Updates of rows on CUDA: each block owns some rows of the result, and looks for the updates that go there.

Knows nests and text, as `emit` does. No sort, no atomics: which thread puts what together depends on sizes alone. What
lies in the rows before, and what follows of each element, may be computed there.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from functad import machine_model
from functad.backends.cuda.kernels.emit import SHARED_TYPES, CudaEmitter, CudaKernel, point_of
from functad.backends.cuda.kernels.mapping import LoopMapping, MappedLoop
from functad.backends.cuda.kernels.shared_steps import in_32_bits, of_blocks
from functad.backends.cuda.products.followed_updates import FollowedUpdates, elements_of
from functad.backends.cuda.products.kernels import COLUMN, ROW, Ending
from functad.lowering.nests.affine import Affine, Symbol, data, delinear
from functad.lowering.nests.names import renamed, words_in
from functad.lowering.nests.nest import PRE, Let, Nest, OwnedRows, Statement, Update, fresh, names_of
from functad.lowering.nests.printing import kernel_parameters
from functad.lowering.nests.reductions import at_point
from functad.lowering.nests.updates import identity_element, needed_for
from functad.lowering.steps import NestStep
from functad.primitives.loops.kernel_text import KernelText, total
from functad.primitives.loops.text import put_to
from functad.records import NamedTuple

_OWN_NAMES = """thread group k part first count n e at total reach more found sums counts last here item i mask
    rest base n_here c""".split()


def emit_owned_rows(step: NestStep, threads: int, vocabulary: Set[str]) -> CudaKernel:
    """The kernel of a nest whose updates blocks look for, and of what it takes in.

    A block goes through all updates, so many at a time. Its threads list those of its rows; then groups of threads, of
    which each has a copy of the rows in shared memory, put parts of the list to them, and in the end the copies
    together, in order. vocabulary: names that those of nests are kept apart from.
    """
    nest = step.nest
    assert nest.owned_rows is not None and nest.update is not None
    if not isinstance(step, FollowedUpdates):
        step = FollowedUpdates(step.name, nest, step.eqns)
    return _OwnedRowsEmitter(step, nest.owned_rows, nest.update, threads, vocabulary).kernel()


class _OwnedRowsEmitter(CudaEmitter):
    def __init__(
        self, step: FollowedUpdates, owned: OwnedRows, update: Update, threads: int, vocabulary: Set[str]
    ) -> None:
        nest = step.nest
        taken = {name for s in nest.statements for name in names_of(s)} | {s.name for s in nest.loops}
        self.taken = taken | {*nest.constants, *_OWN_NAMES, owned.update.name}
        self.start = step.start
        self.owned, self.update, self.dtype = owned, update, update.buffer.dtype
        self.within, self.others = self._loops_of_row(nest.loops[1:])
        self.threads = threads * machine_model.CUDA_OWNED_THREADS
        self.count = nest.loops[0].extent
        most = min(machine_model.CUDA_OWNED_ITEMS, -(-self.count // self.threads))
        self.at_once = min(machine_model.CUDA_UPDATES_AT_ONCE, most)
        self.items = -(-most // self.at_once) * self.at_once
        self.looks = self.items * self.threads
        self.listed = min(machine_model.CUDA_OWNED_LISTED, self.looks)
        self.shares = _shares(owned, self.dtype.itemsize)
        self.rows, blocks = self.shares.rows, self.shares.blocks
        room = (machine_model.CUDA_SHARED_BYTES - 4 * (self.threads + self.listed)) // self.dtype.itemsize
        self.groups = max(1, min(self.threads // owned.length, room // (self.rows * owned.length)))
        mapping = LoopMapping(
            block=(MappedLoop("part", blocks),),
            thread=(MappedLoop("thread", self.threads),),
            serial=(MappedLoop(nest.loops[0].name, self.count),),
        )
        super().__init__(nest, LoopMapping(), {})
        self.mapping, self.blocks = mapping, blocks
        self._name_all(step, vocabulary)

    def _name_all(self, step: FollowedUpdates, vocabulary: Set[str]) -> None:
        """Names for all memory: that of the nest, of what lies there before, and of what follows."""
        ending = Ending(elements_of(step, self.update), [n.nest for n in step.nests], step.is_kept, set(vocabulary))
        given = ending.given
        if step.start is None:
            is_written = self.update.buffer.storage in given
            given[self.update.buffer.storage] = ("c", self.update.buffer, "rw" if is_written else "r")
        names = {name for name, _, _ in given.values()} | self.taken
        for nest in (step.nest, *([] if step.start is None else [step.start])):
            for storage, (name, buffer, _) in kernel_parameters(nest).items():
                if storage is not self.update.buffer.storage:
                    known = given.get(storage)
                    mode = "r" if known is None or known[2] == "r" else "rw"
                    given[storage] = (known[0] if known else fresh(name, names), buffer, mode)
        self.ending, self.parameters = ending, given

    def _loops_of_row(self, loops: Sequence[Symbol]) -> tuple[dict[Symbol, Affine], list[Symbol]]:
        """The loops over a row, and what stands for those that are called like a variable of this kernel."""
        own = {s: Symbol(fresh(s.name, self.taken), s.low, s.high) for s in loops if s.name in _OWN_NAMES}
        return {s: Affine(0, [(named, 1)]) for s, named in own.items()}, [own.get(s, s) for s in loops]

    def kernel(self) -> CudaKernel:
        kind = SHARED_TYPES.get(self.dtype.name, self.dtype.name)
        self.size = self.rows * self.owned.length
        self._constants()
        self._line(0, f"sums = cuda.shared.array({self.groups * self.size}, {kind})")
        self._line(0, f"found = cuda.shared.array({self.listed}, int32)")
        self._line(0, f"counts = cuda.shared.array({self.threads}, int32)", "thread = cuda.threadIdx.x")
        steps = of_blocks("part", self.blocks)
        self._line(0, *steps.begin)
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
            tests.append(
                (k, f"{self.shares.is_own(row)} and {row} >= 0 and {row} < {self.owned.end} and {place} < {self.count}")
            )
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
        self._line(6, f"found[at] = {self.shares.number(names[self.owned.row])} * {self.looks} + i")
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
        """The copies together, to what lies in the result, and what follows: of several elements of a thread at a time.

        What lies outside of the rows counts as the last element until something is stored.
        """
        count = max(1, min(self.size // self.threads, machine_model.CUDA_RESULTS_AT_ONCE))
        points = [f"_p{k}" for k in range(count)] if count > 1 else [""]
        text, size = KernelText(), self.owned.end * self.owned.length
        with text.loop("e", "thread", self.size, count * self.threads):
            for k, x in enumerate(points):
                at, length = total("e", k * self.threads), self.owned.length
                text.line(f"place{x} = min({at}, {self.size - 1})", f"value{x} = sums[place{x}]", f"{ROW}{x} = 0")
                row = self.shares.row(f"place{x} // {length}" if length > 1 else f"place{x}")
                text.line(f"{COLUMN}{x} = {total((row, length), *([f'place{x} % {length}'] if length > 1 else []))}")
                text.line(f"inside{x} = {at} < {self.size} and {COLUMN}{x} < {size}")
                text.line(f"{COLUMN}{x} = min({COLUMN}{x}, {size - 1})")
            if self.groups > 1:
                with text.loop("group", 1, self.groups):
                    text.line(*[self._put(x, f"sums[{self.size} * group + place{x}]") for x in points])
            self._begin_with(text, points)
            self.ending.lines(
                text, words_in("\n".join([*self.lines, str(text)])), points, [f"inside{x}" for x in points]
            )
        self._line(1, *str(text).split("\n"), "cuda.syncthreads()")

    def _put(self, x: str, other: str, is_first: bool = False) -> str:
        both = (other, f"value{x}") if is_first else (f"value{x}", other)
        return f"value{x} = {put_to(self.update.kind, self.dtype, *both)}"

    def _begin_with(self, text: KernelText, points: Sequence[str]) -> None:
        """What lies in the rows before with the sums of the updates."""
        if self.start is None:
            text.line(*[f"start{x} = c[{COLUMN}{x}]" for x in points])
        else:
            taken = {*self.taken, *words_in("\n".join([*self.lines, str(text)]))}
            for x in points:
                nest = _at_element(self.start, data(f"{COLUMN}{x}", 0, self.update.buffer.size - 1), f"start{x}", taken)
                text.line(*point_of(nest, self.parameters).rstrip("\n").split("\n"))
        text.line(*[self._put(x, f"start{x}", is_first=True) for x in points])

    # --- copies of statements ----------------------------------------------------------------------------

    def _copied_names(self, statements: list[Statement]) -> tuple[str, dict[str, str]]:
        """A name for the number of one more update, and for all that is computed of it."""
        names = {name: fresh(name, self.taken) for s in statements for name in names_of(s)}
        return fresh(self.owned.update.name, self.taken), names

    def _at_update(self, s: Statement, number: str, names: dict[str, str]) -> Statement:
        return at_point(s, {self.owned.update: data(number, 0, self.count - 1), **self.within}, names)


class _Shares(NamedTuple):
    """Which rows each of so many blocks owns: `side` that lie side by side, and then those so many blocks farther.

    Rows are seldom updated equally often, and often sorted by that. All three are powers of two, but for the rows.
    """

    blocks: int
    side: int
    rows: int

    def is_own(self, row: str) -> str:
        return f"{_shifted(row, '>>', self.side)} & {self.blocks - 1} == part"

    def number(self, row: str) -> str:
        """Which of the block's rows one of its own is."""
        first = _shifted(row, ">>", self.side * self.blocks)
        return f"({_shifted(first, '<<', self.side)} | {row} & {self.side - 1})" if self.side > 1 else f"({first})"

    def row(self, number: str) -> str:
        """Which row one of the block's is."""
        if self.side == 1:
            return f"{_shifted(f'({number})', '<<', self.blocks)} | part"
        first = f"(({number}) >> {_bits(self.side)} << {_bits(self.blocks)} | part)"
        return f"{first} << {_bits(self.side)} | ({number}) & {self.side - 1}"


def _bits(power: int) -> int:
    return power.bit_length() - 1


def _shifted(number: str, way: str, power: int) -> str:
    return f"{number} {way} {_bits(power)}" if power > 1 else number


def _shares(owned: OwnedRows, itemsize: int) -> _Shares:
    row_bytes = owned.length * itemsize
    busy = machine_model.CUDA_OWNED_BLOCKS * machine_model.CUDA_CORES
    rows = max(1, min(machine_model.CUDA_OWNED_BYTES // row_bytes, -(-owned.end // busy)))
    side = 1
    while 2 * side <= rows and side * row_bytes < machine_model.CUDA_PIECE_BYTES:
        side *= 2
    blocks = 1
    while blocks * rows < owned.end:
        blocks *= 2
    return _Shares(blocks, side, -(-owned.end // (side * blocks)) * side)


def _at_element(nest: Nest, place: Affine, name: str, taken: set[str]) -> Nest:
    """What a nest computes of the element at a place, under a name."""
    (store,) = nest.stores
    at = dict(zip(nest.loops, delinear(place, [s.extent for s in nest.loops])))
    own = [*(n for s in nest.statements for n in names_of(s)), *nest.constants]
    names = {n: fresh(n, taken) for n in own}
    value = names.get(store.value, store.value)
    statements = [*(at_point(s, at, names) for s in nest.statements), Let((name,), value, (value,), PRE, None)]
    constants = {names[n]: constant for n, constant in nest.constants.items()}
    return replace(nest, loops=[], reduced=[], statements=statements, stores=[], constants=constants)
