"""A value carried along a long loop, by many blocks: a kernel for the total of each part, one that goes on from those.

Knows nests and text, as `emit` does. Blocks need not wait for each other, and add in the same order each time: the loop
is read twice, where the usual way in one pass waits for the block before.
"""

from __future__ import annotations

from functad import machine_model
from functad.backends.cuda.emit import CudaEmitter, CudaKernel
from functad.backends.cuda.mapping import LoopMapping, MappedLoop, map_nest
from functad.dtypes import is_narrow_float, kind_of
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.nests.affine import Affine, Symbol, data, linear
from functad.lowering.nests.nest import PRE, Carried, IndexLet, Let, Load, Nest, fresh, names_of
from functad.lowering.nests.printing import carried_on, start_of


def emit_parted(nest: Nest, name: str, threads: int) -> tuple[CudaKernel, CudaKernel] | None:
    """The kernels of a nest that carries one value along a long loop, so few times that blocks have nothing to do else.

    None for any other nest. What the first leaves for the second lies in a new buffer.
    """
    mapping = map_nest(nest, threads)
    if not mapping.by_block or len(nest.carries) != 1 or mapping.work >= machine_model.CUDA_FEWEST_ROWS:
        return None
    (c,) = nest.carries
    steps = machine_model.CUDA_CARRIED_STEPS
    assert nest.carried is not None and steps % threads == 0
    parts = -(-nest.carried.extent // steps)
    if parts < 2 or is_narrow_float(c.dtype) or kind_of(c.dtype) not in "iufc":
        return None
    totals = new_buffer(f"totals_{name}", (mapping.work * parts,), c.dtype)
    return _PartedEmitter(nest, mapping, totals, "w").totals(), _PartedEmitter(nest, mapping, totals, "r").carried()


class _PartedEmitter(CudaEmitter):
    def __init__(self, nest: Nest, mapping: LoopMapping, totals: Buffer, mode: str) -> None:
        taken = {name for s in nest.statements for name in names_of(s)} | {s.name for s in nest.loops}
        taken |= {*nest.constants, "thread", "first", "reach", "half", "earlier", "point"}
        self.steps = machine_model.CUDA_CARRIED_STEPS
        self.part = Symbol(fresh("part", taken), 0, totals.size // mapping.work - 1)
        block = (*mapping.block, MappedLoop(self.part.name, self.part.extent))
        super().__init__(nest, LoopMapping(block=block, thread=mapping.thread), {}, (self.part,))
        taken |= {parameter for parameter, _, _ in self.parameters.values()}
        self.parameters[totals.storage] = (fresh("totals", taken), totals, mode)
        (self.carry,) = nest.carries
        assert nest.carried is not None
        self.along = nest.carried
        self.totals_buffer = totals

    def totals(self) -> CudaKernel:
        """The kernel that computes what the loop has come to in each part by itself."""
        c, part = self.carry, self.part.name
        self._constants()
        self._begin_block([c])
        self._line(1, f"{c.name} = {start_of(c)}")
        end = f"min({self.steps}*{part} + {self.steps}, {self.along.extent})"
        self._line(1, f"for {self.along.name} in range({self.steps}*{part} + thread, {end}, THREADS):")
        for s in self._needed():
            self._line(2, self._text(s))
        self._line(2, f"{c.name} = {carried_on(c, c.name, c.value)}")
        self._gather(c.name)
        self._line(1, "if thread == 0:")
        self._line(2, f"{self._total(self.part.name)} = {c.name}")
        self._line(1, "cuda.syncthreads()")
        return self._made()

    def carried(self) -> CudaKernel:
        """The kernel that goes on, in each part, from what all parts before it have come to."""
        c, part = self.carry, self.part.name
        self._constants()
        self._begin_block([c])
        self._line(1, f"before_{c.name} = {start_of(c)}")
        self._line(1, f"for earlier in range(thread, {part}, THREADS):")
        self._line(2, f"before_{c.name} = {carried_on(c, f'before_{c.name}', self._total('earlier'))}")
        self._gather(f"before_{c.name}")
        self._line(1, "cuda.syncthreads()")
        end = f"min({self.steps}*{part} + {self.steps}, {self.along.extent})"
        self._carried_steps(f"{self.steps}*{part}", end)
        return self._made()

    def _needed(self) -> list[Let | Load | IndexLet]:
        """The statements along the loop that what is carried depends on."""
        needed = {self.carry.value}
        found: list[Let | Load | IndexLet] = []
        for s in reversed(self.nest.statements):
            if isinstance(s, Carried) or s.level != PRE or not self.depths[s] or needed.isdisjoint(names_of(s)):
                continue
            found.append(s)
            needed |= _operands(s)
        return found[::-1]

    def _gather(self, name: str) -> None:
        """Every thread's value becomes that of all threads together."""
        c, shared = self.carry, f"shared_{self.carry.name}"
        self._line(1, f"{shared}[thread] = {name}")
        self._line(1, "cuda.syncthreads()")
        self._line(1, "half = THREADS // 2")
        self._line(1, "while half > 0:")
        self._line(2, "if thread < half:")
        self._line(3, f"{shared}[thread] = {carried_on(c, f'{shared}[thread]', f'{shared}[thread + half]')}")
        self._line(2, "cuda.syncthreads()")
        self._line(2, "half = half // 2")
        self._line(1, f"{name} = {shared}[0]")

    def _total(self, part: str) -> str:
        """The total of a part of the same loop."""
        outer = [Affine(0, [(s, 1)]) for s in self.outer[:-1]]
        index = [*outer, data(part, 0, self.part.high)]
        offset = linear(index, [s.extent for s in self.outer])
        return self._element(self.totals_buffer, offset)

    def _made(self) -> CudaKernel:
        text = "\n".join(self.lines) + "\n"
        used = tuple([p for p in self.parameters.values() if f"{p[0]}[" in text])
        return CudaKernel(text, used, self.mapping)


def _operands(s: Let | Load | IndexLet) -> set[str]:
    if isinstance(s, Let):
        return set(s.operands)
    return {symbol.name for symbol in (s.offset if isinstance(s, Load) else s.value).symbols()}
