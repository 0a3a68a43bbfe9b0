"""A value carried along a long loop, by many blocks, in one pass: each part goes on from the totals of those before.

Knows nests and text, as `emit` does. A block leaves the total of its part in memory, and a mark that it lies there, and
waits for those of earlier parts (as in Merrill & Garland, Single-pass parallel prefix scan with decoupled look-back,
2016). Blocks take parts in the order in which they begin, so that nobody waits for a part that no block has. Totals are
combined in an order that does not depend on who comes first: those of a group of parts become one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from functad import machine_model
from functad.backends.cuda.kernels.emit import CudaEmitter, CudaKernel
from functad.backends.cuda.kernels.mapping import LoopMapping, MappedLoop, map_nest, map_range
from functad.backends.cuda.kernels.shared_steps import in_32_bits, of_threads
from functad.dtypes import is_narrow_float, kind_of
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.nests.affine import Symbol
from functad.lowering.nests.nest import PRE, Carried, IndexLet, Let, Load, Nest, Update, fresh, names_of
from functad.lowering.nests.printing import Parameter, carried_on, start_of
from functad.records import NamedTuple

_OWN_NAMES = {"thread", "first", "count", "at", "reach", "half", "point", "within", "group", "own", "total"}


def emit_parted(nest: Nest, name: str, threads: int) -> tuple[CudaKernel, CudaKernel] | None:
    """The kernels of a nest that carries one value along a long loop, so few times that blocks have nothing to do else.

    None for any other nest. The first one takes away the marks of totals, the second one does all the rest.
    """
    mapping = map_nest(nest, threads)
    if not mapping.by_block or len(nest.carries) != 1 or mapping.work >= machine_model.CUDA_FEWEST_ROWS:
        return None
    (c,) = nest.carries
    assert nest.carried is not None
    room = (machine_model.CUDA_SHARED_BYTES - 8) // (max(c.dtype.itemsize, 4) * threads) - 1
    items = min(machine_model.CUDA_CARRIED_ITEMS, room)
    parts = -(-nest.carried.extent // (max(items, 1) * threads))
    if parts < 2 or items < 1 or kind_of(c.dtype) not in "iufc":
        return None
    groups = -(-parts // threads)
    places = mapping.work * (parts + groups)
    marks = new_buffer(f"marks_{name}", (1 + places,), np.dtype(np.int32))
    kept = np.dtype(np.float32) if is_narrow_float(c.dtype) else c.dtype
    totals = new_buffer(f"totals_{name}", (places,), kept)
    cut = _CarriedParts(items, items * threads, parts, groups)
    return clearing(marks), _PartedEmitter(nest, mapping, cut, marks, totals).parted()


class _CarriedParts(NamedTuple):
    """How a loop is cut. items: steps of a thread. steps: of a part. parts: of a loop. groups: of parts."""

    items: int
    steps: int
    parts: int
    groups: int


def clearing(buffer: Buffer) -> CudaKernel:
    """The kernel that sets the integers of a buffer to 0."""
    steps = of_threads("i", buffer.size)
    text = "\n".join([*steps.begin, "    marks[i] = 0", f"    {steps.end}"])
    return CudaKernel(f"{text}\n", (("marks", buffer, "w"),), map_range(buffer.size))


class _PartedEmitter(CudaEmitter):
    def __init__(self, nest: Nest, mapping: LoopMapping, cut: _CarriedParts, marks: Buffer, totals: Buffer) -> None:
        taken = {name for s in nest.statements for name in names_of(s)} | {s.name for s in nest.loops}
        taken |= {*nest.constants, *_OWN_NAMES}
        self.cut = cut
        self.part = Symbol(fresh("part", taken), 0, cut.parts - 1)
        block = (*mapping.block, MappedLoop(self.part.name, cut.parts))
        super().__init__(nest, LoopMapping(block=block, thread=mapping.thread), {}, (self.part,))
        taken |= {parameter for parameter, _, _ in self.parameters.values()}
        self.marks, self.totals = fresh("marks", taken), fresh("totals", taken)
        more: list[Parameter] = [(self.marks, marks, "rw"), (self.totals, totals, "rw")]
        self.parameters |= {parameter[1].storage: parameter for parameter in more}
        (self.carry,) = nest.carries
        self.kept, self.shared = (f"{prefix}_{self.carry.name}" for prefix in ("kept", "shared"))
        self.before, self.earlier = (f"{prefix}_{self.carry.name}" for prefix in ("before", "earlier"))
        assert nest.carried is not None
        self.along = nest.carried

    def parted(self) -> CudaKernel:
        self._constants()
        self._share(0, [self.carry])
        self._line(0, f"{self.kept} = cuda.shared.array({self.cut.steps}, {self._shared_type(self.carry)})")
        self._line(0, "ticket = cuda.shared.array(1, int32)")
        self._line(0, "thread = cuda.threadIdx.x")
        self._take_part(0)
        self._line(0, f"while point < {self.mapping.work}:")
        self._places(1, "point", self.outer)
        self._statements(PRE, 0, 1)
        self._line(1, f"first = {self.cut.steps} * {self.part.name}")
        self._line(1, f"count = min({self.cut.steps}, {self.along.extent} - first)")
        self._read()
        self._sum_up()
        self._look_back()
        self._go_on()
        self._take_part(1)
        return CudaKernel("\n".join(self.lines) + "\n", tuple(self.parameters.values()), self.mapping)

    def _take_part(self, depth: int) -> None:
        """The next part for which there is no block yet."""
        self._line(depth, "if thread == 0:")
        self._line(depth + 1, f"ticket[0] = cuda.atomic.add({self.marks}, 0, 1)")
        self._line(depth, "cuda.syncthreads()", f"point = {in_32_bits('ticket[0]')}", "cuda.syncthreads()")

    def _read(self) -> None:
        """What is carried along, of all steps of the part, into shared memory."""
        self._line(1, "for at in range(thread, count, THREADS):")
        self._line(2, f"{self.along.name} = first + at")
        for s in self._needed({self.carry.value}):
            self._line(2, self._text(s))
        self._line(2, f"{self.kept}[at] = {self.carry.value}")
        self._line(1, "cuda.syncthreads()")

    def _sum_up(self) -> None:
        """What each thread's steps come to, with those of the threads before; `total`: those of the part."""
        c = self.carry
        self._line(1, f"own = {start_of(c)}")
        self._own_steps("own")
        self._line(1, f"{self.shared}[thread] = own", "cuda.syncthreads()", "reach = 1")
        self._line(1, "while reach < THREADS:")
        self._line(2, "if thread >= reach:")
        self._line(3, f"own = {carried_on(c, f'{self.shared}[thread - reach]', 'own')}")
        self._line(2, "cuda.syncthreads()", f"{self.shared}[thread] = own", "cuda.syncthreads()", "reach = 2 * reach")
        self._line(1, f"total = {self.shared}[THREADS - 1]", f"own = {start_of(c)}")
        self._line(1, "if thread > 0:")
        self._line(2, f"own = {self.shared}[thread - 1]")
        self._line(1, "cuda.syncthreads()")

    def _own_steps(self, total: str, then: Sequence[str] = ()) -> None:
        """Steps that lie side by side, of each thread as many."""
        items = self.cut.items
        self._line(1, f"for at in range({items} * thread, min({items} * thread + {items}, count)):")
        self._line(2, f"{total} = {carried_on(self.carry, total, f'{self.kept}[at]')}", *then)

    def _look_back(self) -> None:
        """What all parts before have come to: those of this group, and the earlier groups."""
        c, work, part = self.carry, self.mapping.work, self.part.name
        self._leave("point", "total")
        self._line(1, f"within = {part} % THREADS", f"{self.before} = {start_of(c)}")
        self._line(1, "if thread < within:")
        self._wait(2, "point - within + thread")
        self._line(2, f"{self.before} = {self.totals}[point - within + thread]")
        self._gather(self.before)
        if self.cut.groups == 1:
            return
        groups = f"{work} + {self.cut.groups} * (point // {self.cut.parts})"
        self._line(1, f"group = {part} // THREADS")
        self._leave(f"{groups} + group", carried_on(c, self.before, "total"), " and within == THREADS - 1")
        self._line(1, f"{self.earlier} = {start_of(c)}")
        self._line(1, "for at in range(thread, group, THREADS):")
        self._wait(2, f"{groups} + at")
        self._line(2, f"{self.earlier} = {carried_on(c, self.earlier, f'{self.totals}[{groups} + at]')}")
        self._gather(self.earlier)
        self._line(1, f"{self.before} = {carried_on(c, self.earlier, self.before)}")

    def _leave(self, place: str, total: str, condition: str = "") -> None:
        """A total in memory for other blocks, and then its mark."""
        self._line(1, f"if thread == 0{condition}:")
        self._line(2, f"{self.totals}[{place}] = {total}", "cuda.threadfence()")
        self._line(2, f"cuda.atomic.add({self.marks}, 1 + {place}, 1)")

    def _wait(self, depth: int, place: str) -> None:
        """Until there is a mark."""
        self._line(depth, f"while cuda.atomic.add({self.marks}, 1 + {place}, 0) == 0:")
        self._line(depth + 1, "pass")
        self._line(depth, "cuda.threadfence()")

    def _gather(self, name: str) -> None:
        """Every thread's value becomes that of all threads together."""
        self._line(1, f"{self.shared}[thread] = {name}", "cuda.syncthreads()", "half = THREADS // 2")
        self._line(1, "while half > 0:")
        self._line(2, "if thread < half:")
        one, other = (f"{self.shared}[thread{place}]" for place in ("", " + half"))
        self._line(3, f"{one} = {carried_on(self.carry, one, other)}")
        self._line(2, "cuda.syncthreads()", "half = half // 2")
        self._line(1, f"{name} = {self.shared}[0]", "cuda.syncthreads()")

    def _go_on(self) -> None:
        """The steps from there on, and what is stored of them."""
        c = self.carry
        self._line(1, f"own = {carried_on(c, self.before, 'own')}")
        self._own_steps("own", [f"{self.kept}[at] = own"])
        self._line(1, "cuda.syncthreads()", "for at in range(thread, count, THREADS):")
        self._line(2, f"{self.along.name} = first + at", f"{c.name} = {self.kept}[at]")
        stores = [s for s in self.nest.stores if s.level == PRE]
        wanted = {s.value for s in stores} | {x.name for s in stores for x in s.offset.symbols()}
        wanted |= {s.guard for s in stores if isinstance(s, Update)}
        for s in self._needed(wanted):
            self._line(2, self._text(s))
        self._stores(PRE, 2)

    def _needed(self, wanted: set[str]) -> list[Let | Load | IndexLet]:
        """The statements along the loop that values depend on, up to what is carried."""
        needed = set(wanted)
        found: list[Let | Load | IndexLet] = []
        for s in reversed(self.nest.statements):
            if isinstance(s, Carried) or s.level != PRE or not self.depths[s] or needed.isdisjoint(names_of(s)):
                continue
            found.append(s)
            needed |= _operands(s)
        return found[::-1]


def _operands(s: Let | Load | IndexLet) -> set[str]:
    if isinstance(s, Let):
        return set(s.operands)
    return {symbol.name for symbol in (s.offset if isinstance(s, Load) else s.value).symbols()}
