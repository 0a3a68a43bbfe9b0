"""Prints a loop of small steps, with all loops and branches in it, as the text of one Python function.

Knows steps and the pointers that they move; nothing of Programs, of memory plans or of Numba. Memory that only the
loop uses, and its carries, are local variables, one for each element: a compiler keeps those in registers. Slices of
what is read and of what is stacked become index arithmetic.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from functad.backends.cpu.kernels.form import CpuKernel
from functad.backends.cpu.kernels.small_loops import LoopLayout, UnfitError, elements, is_unrolled
from functad.dtypes import is_narrow_float, kind_of
from functad.ir import Eqn, Var
from functad.lowering.memory.buffers import Buffer, Storage
from functad.lowering.nests.affine import Affine, Symbol
from functad.lowering.nests.names import renamed
from functad.lowering.nests.nest import (
    POST,
    PRE,
    Carried,
    GatheringStore,
    IndexLet,
    Let,
    Load,
    Nest,
    Statement,
    Store,
    Update,
    fresh,
)
from functad.lowering.nests.printing import (
    accumulated,
    carried_on,
    comments,
    depths,
    start_of,
    start_of_accumulator,
    updated,
)
from functad.lowering.steps import BranchStep, ControlStep, CountedBy, LoopStep, NestStep, Step, UnlessSameStep
from functad.lowering_rules import Scalar
from functad.primitives.loops.text import constant_text, rounding
from functad.records import NamedTuple


def emit_loop(step: ControlStep, touched: Mapping[Storage, int], names: Mapping[Var, str]) -> CpuKernel | None:
    """The kernel of a whole loop or branch, or None for one that is not small or does more than loop nests do.

    touched: how many places of the whole Program use each piece of memory. names: of the variables in comments.
    """
    if keyword.iskeyword(step.name):
        return None
    try:
        return _SmallLoopWriter(LoopLayout(step, touched), names).kernel(step)
    except UnfitError:
        return None


class _Pointer(NamedTuple):
    """Where a pointer points to: a piece of memory, and how many elements behind its start."""

    base: Storage
    offset: Affine


class _SmallLoopWriter:
    """Prints steps. places: of pointers that are no variables. variables: of single elements."""

    def __init__(self, layout: LoopLayout, names: Mapping[Var, str]) -> None:
        self.layout = layout
        self.names = names
        self.lines: list[str] = []
        self.depth = 0
        self.taken = {"start", "stop"}
        self.places: dict[Storage, _Pointer] = {}
        self.variables: dict[tuple[Storage, int], str] = {}
        self.parameters: dict[Storage, tuple[str, Buffer, str]] = {}
        self.constants: dict[bytes, tuple[str, np.generic]] = {}
        self.assigned: set[Storage] = set(layout.written)

    def kernel(self, step: ControlStep) -> CpuKernel:
        self._step(step)
        body = "\n".join(self.lines) + "\n"
        parameters = tuple(self.parameters.values())
        constants = {name: value for (name, value) in self.constants.values()}
        return CpuKernel(body, parameters, 1, dict.fromkeys(self.parameters), constants)

    # --- loops and branches ----------------------------------------------------------------------------------

    def _step(self, step: Step) -> None:
        if isinstance(step, NestStep):
            self._comment(step.eqns)
            if step.nest.outer_points:
                _NestWriter(self, step.nest).write()
        elif isinstance(step, LoopStep):
            self._loop(step)
        elif isinstance(step, BranchStep):
            self._branch(step)
        else:
            assert isinstance(step, UnlessSameStep)
            if self._place(step.one) != self._place(step.other):
                self._steps(step.steps)

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._step(step)

    def _loop(self, step: LoopStep) -> None:
        counter = Symbol(self.unique("step"), 0, max((step.length or 1) - 1, 0))
        written_back = self._start(step, counter)
        self.line("while True:" if step.predicate is not None else f"for {counter.name} in range({step.length}):")
        depth = self.depth
        self.depth += 1
        before = len(self.lines)
        if step.predicate is not None:
            self._steps(step.condition)
            self.line(f"if not {self.element(step.predicate, Affine(0))}:")
            self.line("    break")
        if step.counters:
            left = [self._steps_left(counter) for counter in step.counters]
            ahead = left[0] if len(left) == 1 else f"min({', '.join(left)})"
            self.line(f"for {counter.name} in range({ahead}):")
            self.depth += 1
            before = len(self.lines)
        self._steps(step.body)
        self._move(step)
        self._pass_if_empty(before)
        self.depth = depth
        for storage, place in written_back:
            for k in range(self.layout.sizes[storage]):
                self.line(f"{self._at(place, Affine(k), writes=True)} = {self._variable(storage, k)}")
        self._steps(step.after)

    def _steps_left(self, counter: CountedBy) -> str:
        """For how many steps at least, of which one is known, a number has not come to its limit."""
        number, end = self.element(counter.number, Affine(0)), counter.limit
        limit = (
            self.element(end, Affine(0)) if isinstance(end, Buffer) else constant_text(end.item(), counter.number.dtype)
        )
        ends = (number, limit) if counter.step > 0 else (limit, number)
        return f"steps_left({', '.join(ends)}, i64({abs(counter.step)}))"

    def _start(self, step: LoopStep, counter: Symbol) -> list[tuple[Storage, _Pointer]]:
        """Set the pointers of a loop; those returned are variables that are memory again when the loop has ended."""
        layout = self.layout
        written_back = []
        strides = {m.target.memory: m for m in step.moves if m.target.memory in layout.sliding}
        for move in step.starts:
            target = move.target.memory
            if target not in layout.dtypes:
                continue  # nobody looks at it
            base, offset = self._place(move.source)
            place = _Pointer(base, offset + elements(move, layout.dtypes[target]))
            if target in strides:
                stride = elements(strides[target], layout.dtypes[target])
                along = Affine(0, [(counter, stride)] if counter.high and stride else [])
                self.places[target] = _Pointer(base, place.offset + along)
            elif target in layout.fixed and (target in layout.memory or base not in layout.memory):
                self.places[target] = place
            elif base in layout.memory or base in self.assigned:
                if not layout.is_scratch(target, step):
                    self._copy(target, place)
                if target in layout.fixed and target in layout.written:
                    written_back.append((target, place))
        return written_back

    def _move(self, step: LoopStep) -> None:
        """The moves of pointers at the end of a step, as assignments of what they point to."""
        slid = set()
        for move in self.layout.needed_moves(step):
            target, source = move.target.memory, move.source.memory
            if source in slid:
                raise UnfitError
            if target is source:
                slid.add(target)
            else:
                self._copy(target, self._place(source))

    def _copy(self, target: Storage, place: _Pointer) -> None:
        for k in range(self.layout.sizes[target]):
            name, value = self._variable(target, k), self._at(place, Affine(k))
            if name != value:
                self.line(f"{name} = {value}")
        self.assigned.add(target)

    def _branch(self, step: BranchStep) -> None:
        index, last = self.element(step.index, Affine(0)), len(step.branches) - 1
        for k, branch in enumerate(step.branches):
            word = "if" if k == 0 else "elif"
            self.line(
                "else:" if k == last and k else f"{word} {index} {'==' if k else '<='} {k}:" if last else "if True:"
            )
            self.depth += 1
            before = len(self.lines)
            self._steps(branch)
            self._pass_if_empty(before)
            self.depth -= 1

    def _pass_if_empty(self, before: int) -> None:
        if all(line.lstrip().startswith("#") for line in self.lines[before:]):
            self.line("pass")

    # --- elements --------------------------------------------------------------------------------------------

    def element(
        self, buffer: Buffer, offset: Affine, rename: Mapping[str, str] | None = None, writes: bool = False
    ) -> str:
        """The text of an element: a variable, or an access to memory. rename: names that the offset has."""
        return self._at(self._place(buffer.storage), offset, rename or {}, writes)

    def is_variable(self, storage: Storage) -> bool:
        return self._place(storage).base not in self.layout.memory

    def base(self, storage: Storage) -> Storage:
        return self._place(storage).base

    def _place(self, storage: Storage) -> _Pointer:
        storage = storage.memory
        return self.places.get(storage) or _Pointer(storage, Affine(0))

    def _at(
        self, place: _Pointer, offset: Affine, rename: Mapping[str, str] | None = None, writes: bool = False
    ) -> str:
        base, first = place
        if base not in self.layout.memory:
            whole = first + offset
            assert whole.is_constant(), f"which element of {base} is not known"
            return self._variable(base, whole.constant)
        if offset.is_constant():
            text = (first + offset).text()
        else:
            text = renamed(offset.text(), rename or {})
            text = text if first == 0 else f"{first.text()} + {text}"
        return f"{self._parameter(base, writes)}[{text}]"

    def _variable(self, storage: Storage, element: int) -> str:
        key = (storage, element)
        if key not in self.variables:
            alone = self.layout.sizes.get(storage, 1) == 1
            self.variables[key] = self.unique(storage.name if alone else f"{storage.name}_{element}")
        return self.variables[key]

    def _parameter(self, storage: Storage, writes: bool) -> str:
        name, buffer, mode = self.parameters.get(storage) or ("", None, "")
        if buffer is None:
            dtype = self.layout.dtypes[storage]
            name, buffer = self.unique(storage.name), Buffer(storage, (storage.nbytes // dtype.itemsize,), dtype)
        new = "w" if writes else "r"
        self.parameters[storage] = (name, buffer, new if mode in ("", new) else "rw")
        return name

    # --- lines -----------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def unique(self, wanted: str) -> str:
        return fresh(wanted, self.taken)

    def constant(self, value: np.generic) -> str:
        """The name under which the function is given a number."""
        key = value.dtype.str.encode() + value.tobytes()
        if key not in self.constants:
            self.constants[key] = (self.unique(f"c_{len(self.constants) + 1}"), value)
        return self.constants[key][0]

    def _comment(self, eqns: Sequence[Eqn]) -> None:
        for text in comments(eqns, self.names).splitlines():
            self.line(text)


class _NestWriter:
    """Prints a nest in line: point by point, or with its loops. names: what its own names are in the function."""

    def __init__(self, writer: _SmallLoopWriter, nest: Nest) -> None:
        self.writer, self.nest = writer, nest
        inner = [s for s, r in zip(nest.loops, nest.reduced) if r or s is nest.carried]
        self.loops = [*(s for s in nest.loops if s not in inner), *inner]
        self.base = len(self.loops) - len(inner)  # how many loops an accumulator stands in
        self.depths = depths(nest, {s: d + 1 for d, s in enumerate(self.loops)})
        self.names: dict[str, str] = {name: writer.constant(c) for name, c in nest.used_constants().items()}
        self.values: dict[Symbol, Affine] = {}  # of the loop variables, where the nest is written out
        self.lasting: set[str] = set()  # the names in the function that are set once
        self.exact: set[str] = set()  # those that surely have the dtype of what they are the value of
        self.overwritten = self._overwritten()

    def write(self, depth: int = 0) -> None:
        """What stands in `depth` loops, and in it all the others."""
        nest, total = self.nest, len(self.loops)
        for s in nest.statements:
            if s.level == PRE and self.depths[s] == depth:
                self._statement(s)
        if depth == self.base:
            for a in nest.accumulators:
                self.names[a.name] = self.writer.unique(a.name)
                self.writer.line(f"{self.names[a.name]} = {start_of_accumulator(a)}")
            for c in [] if is_unrolled(nest) else nest.carries:
                self.names[c.name] = self.writer.unique(c.name)
                self.writer.line(f"{self.names[c.name]} = {start_of(c)}")
        if depth == total:
            self._stores(PRE)
            for a in nest.accumulators:
                name = self.names[a.name]
                self.writer.line(f"{name} = {accumulated(a, name, self._renamed(a.value))}")
        else:
            self._loop(self.loops[depth], depth)
        if depth == self.base:
            for s in nest.statements:
                if s.level == POST:
                    self._statement(s)
            self._stores(POST)

    def _overwritten(self) -> set[str]:
        """The loads whose element a store of the same point overwrites before another one needs it."""
        stores = sorted(self.nest.stores, key=lambda store: store.level)
        bases = [self.writer.base(store.buffer.storage) for store in stores]
        found = set()
        for s in self.nest.statements:
            if isinstance(s, Load) and (base := self.writer.base(s.buffer.storage)) in bases:
                first = bases.index(base)
                before_others = stores[first].level == PRE and bool(self.nest.accumulators)
                if before_others or any(store.value == s.name for store in stores[first + 1 :]):
                    found.add(s.name)
        return found

    def _loop(self, symbol: Symbol, depth: int) -> None:
        if is_unrolled(self.nest):
            for k in range(symbol.extent):
                self.values[symbol] = Affine(k)
                self.names[symbol.name] = str(k)
                self.write(depth + 1)
            return
        self.names[symbol.name] = self.writer.unique(symbol.name)
        self.writer.line(f"for {self.names[symbol.name]} in range({symbol.extent}):")
        self.writer.depth += 1
        self.write(depth + 1)
        self.writer.depth -= 1

    def _statement(self, s: Statement) -> None:
        if isinstance(s, Let):
            text = self._renamed(s.text)
            self.names.update((name, self.writer.unique(name)) for name in s.names)
            self.lasting.update(self.names[name] for name in s.names if is_unrolled(self.nest))
            if len(s.names) == 1 and s.eqn is not None and isinstance(s.eqn.primitive.lower, Scalar):
                self.exact.add(self.names[s.names[0]])
            self.writer.line(f"{', '.join(self.names[name] for name in s.names)} = {text}")
            return
        if isinstance(s, Carried):
            self._carry(s)
            return
        if isinstance(s, IndexLet):
            value = self._known(s.value)
            text = self._renamed(value.text())
            is_kept = not (value.is_constant() and value.constant >= 0)
        else:
            text = self.writer.element(s.buffer, self._known(s.offset), self.names)
            is_kept = not self.writer.is_variable(s.buffer.storage) or s.name in self.overwritten
        if is_kept:
            self.names[s.name] = self.writer.unique(s.name)
            self.writer.line(f"{self.names[s.name]} = {text}")
        else:
            self.names[s.name] = text

    def _carry(self, c: Carried) -> None:
        assert self.nest.carried is not None
        value, before = self._renamed(c.value), self.names.get(c.name, "")
        if is_unrolled(self.nest):
            is_first = self.values[self.nest.carried] == 0
            text = value if is_first else carried_on(c, before, value)
            self.names[c.name] = self.writer.unique(c.name)
            self.lasting.add(self.names[c.name])
        else:
            text = carried_on(c, before, value, self.names[self.nest.carried.name])
        self.writer.line(f"{self.names[c.name]} = {text}")

    def _stores(self, level: int) -> None:
        for store in self.nest.stores:
            if store.level == level:
                self._store(store, self._renamed(store.value))

    def _store(self, store: Store, value: str) -> None:
        writer, buffer, offset = self.writer, store.buffer, self._known(store.offset)
        if isinstance(store, Update):
            self._update(store, offset, value)
            return
        if isinstance(store, GatheringStore):
            raise UnfitError  # a large nest
        base = buffer.storage.memory
        if writer.is_variable(base):
            if writer.layout.writes[base] == buffer.size and value in self.lasting:
                writer.variables[base, offset.constant] = value  # is set nowhere else
                return
            if (kind_of(buffer.dtype) in "iu" or is_narrow_float(buffer.dtype)) and value not in self.exact:
                # In memory a value has its dtype; a variable takes that of what it is set to.
                value = f"{rounding(buffer.dtype)}({value})"
        target = writer.element(buffer, offset, self.names, writes=True)
        if target != value:
            writer.line(f"{target} = {value}")

    def _update(self, update: Update, offset: Affine, value: str) -> None:
        writer, dtype = self.writer, update.buffer.dtype
        after = updated(replace(update, value=value), writer.element(update.buffer, offset, self.names))
        if writer.is_variable(update.buffer.storage) and (kind_of(dtype) in "iu" or is_narrow_float(dtype)):
            after = f"{rounding(dtype)}({after})"
        if update.guard:
            writer.line(f"if {self.names[update.guard]}:")
        writer.depth += bool(update.guard)
        writer.line(f"{writer.element(update.buffer, offset, self.names, writes=True)} = {after}")
        writer.depth -= bool(update.guard)

    def _known(self, value: Affine) -> Affine:
        return value.substitute(self.values) if self.values else value

    def _renamed(self, text: str) -> str:
        return renamed(text, self.names)
