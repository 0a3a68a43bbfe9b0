"""The values of a Program in memory: what lies somewhere is found there, what lies nowhere is computed into a buffer.

Knows what fusion computes where it is used, and buffers; not how groups become steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from functad.ir import Atom, Literal, Var
from functad.lowering.fusion.fuse import Fusion
from functad.lowering.memory.assignment import BufferAssignment
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.memory.lifetimes import NEVER, Lifetimes
from functad.lowering.nests.builder import NestBuilder
from functad.lowering.shared import Shared
from functad.lowering.target import StepWriter

# The variable that is read, from which element on, and for each loop, from the outermost in, its extent and stride.
ReadingOrder = tuple[Var, int, tuple[tuple[int, int], ...]]


class Values:
    """What the writers of steps ask for operands and results of one Program.

    shared: names and stacks. fusion: how values are computed that have no buffer. lifetimes: until when they are read.
    assignment: the buffers of all others. writer: where steps are written to, those that copy a value included.
    packed: copies of operands of products that lie otherwise, by what has been copied in which order.
    """

    def __init__(
        self,
        shared: Shared,
        fusion: Fusion,
        lifetimes: Lifetimes,
        assignment: BufferAssignment,
        writer: StepWriter,
    ) -> None:
        self.shared = shared
        self.names = shared.names
        self.fusion = fusion
        self.lifetimes = lifetimes
        self.assignment = assignment
        self.writer = writer
        self.packed: dict[ReadingOrder | None, Buffer] = {}

    def nest(self, shape: Sequence[int], axes: Sequence[int] = ()) -> NestBuilder:
        """A new nest over a domain, which may use all values."""
        return NestBuilder(shape, axes, self.fusion.inlining.definition, self.assignment.buffer, self.shared.name_of)

    def present(self, atom: Atom) -> Buffer | None:
        """The buffer in which a value lies already, if it does."""
        if isinstance(atom, Var) and (self.assignment.find(atom) is not None or atom in self.fusion.inlining.alias):
            return self.in_memory(atom)
        return None

    def in_memory(self, atom: Atom) -> Buffer:
        """An operand as a C-contiguous buffer, copied into one if it is computed where it is used."""
        if isinstance(atom, Literal):
            buffer = new_buffer("literal", (), atom.aval.dtype)
            self._compute_into(atom, buffer, "literal")
            return buffer
        found = self.assignment.find(atom)
        if found is not None:
            return found
        if atom in self.fusion.inlining.alias:
            buffer = self.in_memory(self.fusion.inlining.alias[atom]).view(atom.aval.shape)
            self.assignment.place(atom, buffer)
            return buffer
        buffer = new_buffer(f"tmp_{self.names[atom]}", atom.aval.shape, atom.aval.dtype)
        if buffer.size:
            self._compute_into(atom, buffer, self.names[atom])
        self.assignment.place(atom, buffer, self.lifetimes.last_use.get(atom, NEVER))
        return buffer

    def copy_into(self, atom: Atom, buffer: Buffer, name: str) -> None:
        """Write a value to a buffer, from where it lies or as it is computed."""
        if not buffer.size:
            return
        root = self.fusion.inlining.alias_root(atom) if isinstance(atom, Var) else atom
        source = self.present(atom) if isinstance(root, Var) and self.assignment.find(root) is not None else None
        if source is None:
            self._compute_into(root, buffer.view(root.aval.shape), name)
        elif source.storage is not buffer.storage:
            self.writer.add_buffer_copy(source.view(buffer.shape), buffer, name)

    def copy_to_output(self, atom: Atom, k: int) -> Buffer:
        """A result of the Program in memory of its own."""
        name = self.names[atom] if isinstance(atom, Var) else "literal"
        buffer = new_buffer(f"out{k}_{name}", atom.aval.shape, atom.aval.dtype, "output", k)
        self.copy_into(atom, buffer, name)
        return buffer

    def _compute_into(self, atom: Atom, buffer: Buffer, name: str) -> None:
        builder = self.nest(atom.aval.shape)
        builder.copy(atom, buffer)
        self.writer.add_nest(builder, f"copy_{name}")
