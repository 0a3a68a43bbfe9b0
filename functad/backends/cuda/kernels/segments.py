"""Updates that have been sorted by what they write to, on CUDA: a thread does those of an element, one after the other.

Knows nests and text, as `emit` does. Where many go to one element, parts of them are summed first, by threads of their
own, and parts of these sums; which parts depends on sizes alone, so that results are the same each time.
"""

from __future__ import annotations

from dataclasses import replace

from functad import machine_model
from functad.backends.cuda.kernels.emit import CudaEmitter, CudaKernel, loaded_text, stored_text
from functad.backends.cuda.kernels.mapping import map_nest, map_range
from functad.backends.cuda.kernels.shared_steps import of_threads
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.nests.nest import PRE, Nest, Segments, Update, fresh, names_of
from functad.lowering.nests.updates import may_be_parted
from functad.primitives.loops.text import put_to


def emit_segments(nest: Nest, name: str, threads: int) -> list[tuple[str, CudaKernel]]:
    """The kernels of a nest whose updates have been sorted, and what they are called: sums of parts, and the updates.

    Parts begin at every so many-th update. A kernel sums those that lie in a long segment, as far as this goes, and the
    next one as many of its sums. The last one goes from one update to the next up to the first part, and from there on
    from part to part.
    """
    segments, update = nest.segments, nest.update
    assert segments is not None and update is not None
    dtype, steps = update.buffer.dtype, nest.loops[0].extent
    length, parts = nest.points // steps, steps
    sums: list[Buffer] = []
    while may_be_parted(update.kind, dtype) and parts > machine_model.CUDA_SEGMENT_STEPS:
        parts = -(-parts // machine_model.CUDA_SEGMENT_PART)
        sums.append(new_buffer(f"parts_{len(sums) + 1}_{name}", (parts * length,), dtype))
    found = [
        (f"sum_{buffer.name}", _SegmentsEmitter(nest, segments, update, threads, sums).parts(level))
        for level, buffer in enumerate(sums, 1)
    ]
    return [*found, (name, _SegmentsEmitter(nest, segments, update, threads, sums).updates())]


class _SegmentsEmitter(CudaEmitter):
    """Prints the kernels. sums: of parts of the updates, then of parts of these sums, each of all elements of a row."""

    def __init__(self, nest: Nest, segments: Segments, update: Update, threads: int, sums: list[Buffer]) -> None:
        super().__init__(nest, map_nest(nest, threads), {})
        self.segments, self.update, self.sums = segments, update, sums
        self.step, *self.others = nest.loops
        self.count, self.length = self.step.extent, nest.points // self.step.extent
        self.rows, self.order = (self.parameters[b.storage][0] for b in (segments.rows, segments.updates))
        taken = {name for s in nest.statements for name in names_of(s)} | {s.name for s in nest.loops}
        taken |= {segments.name, *nest.constants, *(name for name, _, _ in self.parameters.values())}
        self.place, self.within, self.first, self.here, self.at, self.stop, self.total = (
            fresh(name, taken) for name in "place within first row_here at stop total".split()
        )
        self.sums_called = [fresh(f"sums_{level}", taken) for level, _ in enumerate(sums, 1)]

    def parts(self, level: int) -> CudaKernel:
        """The sums of a level. A part is summed if its first update is of a segment that is longer than half a part."""
        width, end = self._width(level), self.sums[level - 1].size
        self._constants()
        steps = of_threads(self.place, end)
        self._line(0, *steps.begin)
        self._line(
            1, f"{self.first} = {self.place} // {self.length} * {width}", f"{self.here} = {self._row_at(self.first)}"
        )
        before, after = f"{self.first} - {width // 2}", f"{self.first} + {width // 2}"
        reaches = f"({after} < {self.count} and {self._row_at(after)} == {self.here})"
        reaches += f" or ({self.first} >= {width // 2} and {self._row_at(before)} == {self.here})"
        self._line(1, f"if {self.here} < {self.segments.end} and ({reaches}):")
        self._line(2, f"{self.within} = {self.place} % {self.length}", f"{self.at} = {self.first}")
        self._line(2, f"{self.stop} = min({self.first} + {width}, {self.count})")
        if level == 1:
            if self.others:
                self._places(2, self.within, self.others)
            self._at_update(2)
            self._line(2, f"{self.total} = {self.update.value}", f"{self.at} = {self.at} + 1")
            self._line(2, f"while {self.at} < {self.stop} and {self._row_at(self.at)} == {self.here}:")
            self._add_update(3)
        else:
            self._line(2, f"{self.total} = {self._sum(level - 1)}", f"{self.at} = {self.at} + {self._width(level - 1)}")
            self._line(2, f"while {self.at} < {self.stop} and {self._row_at(self.at)} == {self.here}:")
            self._add_sum(level - 1, 3)
        self._line(2, f"{self.sums_called[level - 1]}[{self.place}] = {self.total}")
        self._line(1, steps.end)
        used = [*self.parameters.values()] if level == 1 else [self.parameters[self.segments.rows.storage]]
        used = [p for p in used if p[1].storage is not self.update.buffer.storage]
        more = [(self.sums_called[k], self.sums[k], "w" if k == level - 1 else "r") for k in range(level)[-2:]]
        return CudaKernel("\n".join(self.lines) + "\n", (*used, *more), map_range(end))

    def updates(self) -> CudaKernel:
        """The updates of each element, by the thread of the first of them; if they set it, of the last."""
        step, only = self.step.name, self.update.kind == "set"
        self._constants()
        steps = self._begin(of_threads, self.place, self.nest.loops)
        self._line(1, f"{self.here} = {self._row_at(step)}")
        is_other = self._is_other(f"{step} + 1", self.count - 1) if only else self._is_other(f"{step} - 1", 0)
        self._line(1, f"if {self.here} < {self.segments.end} and {is_other}:")
        self._line(2, f"{self.at} = {step}")
        self._at_update(2)
        element = self._element(self.update.buffer, self.update.offset)
        before = loaded_text(self.update.buffer, element)
        if only:
            self._line(2, f"{self.total} = {self.update.value}")
        elif self.sums:
            self._line(2, f"if {self._reaches(1)}:")
            self._long_segment(3)
            self._line(3, f"{self.total} = {self._put_to(before, self.total)}")
            self._line(2, "else:")
            self._short_segment(before, 3)
        else:
            self._short_segment(before, 2)
        self._line(2, f"{element} = {stored_text(replace(self.update, value=self.total))}")
        if not self.mapping.one_step:
            self._line(1, steps.end)
        more = [(name, buffer, "r") for name, buffer in zip(self.sums_called, self.sums)]
        return CudaKernel("\n".join(self.lines) + "\n", (*self.parameters.values(), *more), self.mapping)

    def _short_segment(self, before: str, depth: int) -> None:
        """What lies at an element, with all of its updates, of which the first one is known."""
        self._line(depth, f"{self.total} = {self._put_to(before, self.update.value)}", f"{self.at} = {self.at} + 1")
        self._line(depth, f"while {self.at} < {self.count} and {self._row_at(self.at)} == {self.here}:")
        self._add_update(depth + 1)

    def _long_segment(self, depth: int) -> None:
        """What all updates of a segment come to, which is longer than a part, and of which the first one is known."""
        if self.others:
            self._line(depth, f"{self.within} = {self.place} % {self.length}")
        self._line(depth, f"{self.total} = {self.update.value}", f"{self.at} = {self.at} + 1")
        self._line(depth, f"while {self.at} % {self._width(1)} != 0:")
        self._add_update(depth + 1)
        self._add_parts(1, depth)

    def _add_parts(self, level: int, depth: int) -> None:
        """The sums of a level to the end of a segment; if it is so long, to the first of the next level, and those."""
        if level < len(self.sums):
            self._line(depth, f"if {self._reaches(level + 1)}:")
            self._line(depth + 1, f"while {self.at} % {self._width(level + 1)} != 0:")
            self._add_sum(level, depth + 2)
            self._add_parts(level + 1, depth + 1)
            self._line(depth, "else:")
            depth += 1
        self._line(depth, f"while {self.at} < {self.count} and {self._row_at(self.at)} == {self.here}:")
        self._add_sum(level, depth + 1)

    # --- pieces of text ----------------------------------------------------------------------------------

    def _width(self, level: int) -> int:
        """How many updates a part of a level has."""
        return int(machine_model.CUDA_SEGMENT_PART**level)

    def _row_at(self, place: str) -> str:
        return f"{self.rows}[{place}]"

    def _is_other(self, place: str, end: int) -> str:
        """Whether the neighbour of a step is of another segment; the step `end` has none."""
        return f"({self.step.name} == {end} or {self._row_at(place)} != {self.here})"

    def _reaches(self, level: int) -> str:
        """Whether the segment that begins at a step is longer than a part of a level."""
        place = f"{self.step.name} + {self._width(level)}"
        return f"{place} < {self.count} and {self._row_at(place)} == {self.here}"

    def _sum(self, level: int) -> str:
        place = f"{self.at} // {self._width(level)}"
        return f"{self.sums_called[level - 1]}[{f'{place} * {self.length} + {self.within}' if self.others else place}]"

    def _add_sum(self, level: int, depth: int) -> None:
        self._line(depth, f"{self.total} = {self._put_to(self.total, self._sum(level))}")
        self._line(depth, f"{self.at} = {self.at} + {self._width(level)}")

    def _at_update(self, depth: int) -> None:
        """All that is computed of the update of a step."""
        self._line(depth, f"{self.segments.name} = i64({self.order}[{self.at}])")
        for s in self.nest.statements:
            assert s.level == PRE
            self._line(depth, self._text(s))

    def _add_update(self, depth: int) -> None:
        self._at_update(depth)
        self._line(depth, f"{self.total} = {self._put_to(self.total, self.update.value)}")
        self._line(depth, f"{self.at} = {self.at} + 1")

    def _put_to(self, before: str, value: str) -> str:
        return put_to(self.update.kind, self.update.buffer.dtype, before, value)
