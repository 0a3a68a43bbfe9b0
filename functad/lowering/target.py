"""Writing steps: copies and nests, and what a `Loops` rule writes its kernels to.

Knows steps and buffers; no Programs, and no target machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from functad.ir import Aval, Eqn, Var
from functad.lowering.memory.buffers import Buffer, new_buffer
from functad.lowering.nests.affine import Affine, loop
from functad.lowering.nests.builder import NestBuilder
from functad.lowering.nests.collapse import collapse_loops, part
from functad.lowering.nests.crossed import without_crossing
from functad.lowering.nests.memory_order import put_in_memory_order
from functad.lowering.nests.nest import PRE, IndexLet, Let, Load, Nest, Store
from functad.lowering.nests.split import split_reduction
from functad.lowering.nests.updates import AtomicUpdates, SortedUpdates, owned_updates, shared_updates, sorted_updates
from functad.lowering.python_functions import NumpyFunction
from functad.lowering.steps import CallStep, ConvolutionStep, GemmStep, KernelStep, NestStep, SortStep, Step
from functad.primitives.loops.convolution_geometry import Convolution
from functad.primitives.loops.points import Points
from functad.primitives.loops.sort_keys import RowSort, SortedRows, keys_of
from functad.records import NamedTuple

PlaceColumns = Callable[[Any], int]
WindowLanes = Callable[[Any], int]
HasRoutine = Callable[[str, Any], bool]
HasSort = Callable[[Any], bool]


def no_places(dtype: Any) -> int:
    """The answer of machines without products of places."""
    return 0


def no_windows(dtype: Any) -> int:
    """The answer of machines without products of windows."""
    return 0


def no_atomics(kind: str, dtype: Any) -> bool:
    """The answer of machines that keep the order of all updates."""
    return False


def no_routine(name: str, dtype: Any) -> bool:
    """The answer of machines whose kernels cannot call LAPACK."""
    return False


def no_sort(dtype: Any) -> bool:
    """The answer of machines whose kernels cannot call NumPy's sort, or shall not."""
    return False


class Machine(NamedTuple):
    """What rules may count on.

    threads: how many there will be, as a hint. place_columns, window_lanes: what `Target` answers by these names.
    has_routine: whether kernels can call a routine of LAPACK for a dtype. has_sort: whether they can call NumPy's sort
        of a dtype, and NumPy sorts it by vectors.
    on_device: whether kernels run on a device with memory of its own: they can call no matrix product, convolutions
        and sorts are steps of their own, and what Python computes is copied to the host and back.
    atomic: which updates, by kind and dtype, several threads may do at one place at a time.
    """

    threads: int = 1
    place_columns: PlaceColumns = no_places
    window_lanes: WindowLanes = no_windows
    has_routine: HasRoutine = no_routine
    has_sort: HasSort = no_sort
    on_device: bool = False
    atomic: AtomicUpdates = no_atomics


ANY_MACHINE = Machine()


class StepWriter:
    """A list of steps that grows, for a machine."""

    def __init__(self, machine: Machine = ANY_MACHINE) -> None:
        self.steps: list[Step] = []
        self.machine = machine

    def add_nest(self, builder: NestBuilder, name: str) -> None:
        """A nest without what no store needs; a long reduction as several nests, but for devices: those share them."""
        builder.nest.drop_unused()
        if not builder.nest.stores:
            return
        put_in_memory_order(builder.nest)
        collapse_loops(builder.nest)
        part(builder.nest)
        eqns = list(dict.fromkeys(builder.nest.eqns))
        is_crossed = bool(builder.nest.across)
        if is_crossed:
            found = without_crossing(builder.nest)
        else:
            found = [("", builder.nest)] if self.machine.on_device else split_reduction(builder.nest)
        for suffix, nest in found:
            collapse_loops(nest)
            self.steps.append(NestStep(name + suffix, nest, eqns, may_wait=is_crossed and suffix == "_whole"))

    def add_updates(self, nest: Nest, name: str) -> None:
        """A nest of updates, or several so that threads share them."""
        nest.drop_unused()
        collapse_loops(nest)
        part(nest)
        owned = owned_updates(nest, self.machine.atomic) if self.machine.on_device else None
        if owned is not None:
            self.steps.append(NestStep(name, owned, list(dict.fromkeys(nest.eqns))))
            return
        found = sorted_updates(nest, self.machine.atomic) if self.machine.on_device else None
        if found is not None:
            self._add_sorted(found, name, list(dict.fromkeys(nest.eqns)))
            return
        for suffix, one in shared_updates(nest, self.machine.threads, self.machine.on_device, self.machine.atomic):
            collapse_loops(one)
            self.steps.append(NestStep(f"{name}{suffix}", one, list(dict.fromkeys(one.eqns))))

    def _add_sorted(self, found: SortedUpdates, name: str, eqns: list[Eqn]) -> None:
        """Updates that are sorted by what they write to, before they are done."""
        collapse_loops(found.numbers)
        self.steps.append(NestStep(f"rows_{name}", found.numbers, eqns))
        rows, segments = found.rows, found.segments
        target = Target(self, eqns[-1], name)
        moves = ["sorted_rows[{to}] = rows[{at}]", "updates[{to}] = {place}"]
        sort = RowSort(SortedRows(target, rows.shape, 0), keys_of("rows", rows.dtype), rows.size, moves)
        target.sort(
            sort, {"rows": (rows, "r"), "sorted_rows": (segments.rows, "w"), "updates": (segments.updates, "w")}
        )
        self.steps.append(NestStep(name, found.sums, eqns))

    def add_buffer_copy(self, source: Buffer, target: Buffer, name: str) -> None:
        var = Var(Aval(source.shape, source.dtype))
        builder = NestBuilder(source.shape, (), lambda v: None, lambda v: source, lambda v: name)
        builder.copy(var, target)
        self.add_nest(builder, f"copy_{name}")


class Target:
    """What a `Loops` rule writes its kernels to."""

    def __init__(self, writer: StepWriter, eqn: Eqn, name: str) -> None:
        self._writer = writer
        self._eqn = eqn
        self._name = name
        self.threads_hint = writer.machine.threads
        self.on_device = writer.machine.on_device
        self._scratch = 0
        self.source = eqn.source

    def kernel(
        self,
        name: str,
        body: str,
        buffers: dict[str, tuple[Buffer, str]],
        n: int,
        *,
        flops: float = 0,
        bytes: float = 0,
        rows: bool = False,
        row_reads: Sequence[str] = (),
        offsets: Mapping[str, int] = {},
    ) -> None:
        """One kernel: its text, its buffers by parameter name, and the extent of its parallel range.

        A parameter in `offsets` begins at that element of its buffer.
        """
        parameters = tuple((p, b, mode) for p, (b, mode) in buffers.items())
        first = tuple(offsets.get(p, 0) for p in buffers)
        step = KernelStep(name, body, parameters, n, flops, bytes, rows, tuple(row_reads), [self._eqn], first)
        self._writer.steps.append(step)

    def scratch(self, shape: Sequence[int], dtype: Any) -> Buffer:
        self._scratch += 1
        return new_buffer(f"scratch{self._scratch}_{self._name}", shape, np.dtype(dtype))

    def blas(self, dtype: Any, of: str = "") -> Buffer:
        """The handle of matrix products of a dtype, or of products of `"places"` or `"windows"`."""
        name = np.dtype(dtype).name
        return new_buffer(f"{of}_{name}" if of else name, (1,), np.dtype(np.int64), "blas")

    def copier(self) -> Buffer:
        """The handle of copies between arrays of any layout, the word `strided_copy`."""
        return new_buffer("copier", (1,), np.dtype(np.int64), "blas")

    def lapack(self, routine: str, dtype: Any) -> Buffer | None:
        """The handle of a routine of LAPACK, such as `getrf`, for a dtype; None if kernels cannot call it."""
        if not self._writer.machine.has_routine(routine, dtype):
            return None
        return new_buffer(f"{routine}_{np.dtype(dtype).name}", (1,), np.dtype(np.int64), "blas")

    def numpy_sort(self, dtype: Any) -> Buffer | None:
        """The handle of NumPy's sort of a dtype; None if kernels cannot call it, or NumPy does not sort by vectors."""
        if not self._writer.machine.has_sort(dtype):
            return None
        return new_buffer(f"sort_{np.dtype(dtype).name}", (1,), np.dtype(np.int64), "blas")

    def place_columns(self, dtype: Any) -> int:
        """How many columns products of places have on the target machine; 0 if there are none."""
        return self._writer.machine.place_columns(dtype)

    def window_lanes(self, dtype: Any) -> int:
        """How many neighbours a vector of products of windows has on the target machine; 0 if there are none."""
        return self._writer.machine.window_lanes(dtype)

    def points(self, points: Points) -> None:
        """A nest that computes an element of a buffer at each point."""
        loops = {name: loop(name, size) for name, size in points.loops}
        nest = Nest(
            [s for index in loops.values() for s, _ in index.terms],
            [False for index in loops.values() for _ in index.terms],
            eqns=[self._eqn],
        )

        def place(steps: Mapping[str, int], start: int = 0) -> Affine:
            return sum((loops[name] * step for name, step in steps.items()), Affine(start))

        nest.statements += [Load(name, buffer, place(steps, at), PRE) for name, buffer, steps, at in points.loads]
        nest.statements += [IndexLet(name, place(steps), PRE) for name, steps in points.indices]
        nest.statements += [Let((name,), text, tuple(of), PRE, self._eqn) for name, text, of in points.values]
        buffer, steps, value = points.result
        nest.stores.append(Store(buffer, place(steps), value, PRE))
        collapse_loops(nest)
        self._writer.steps.append(NestStep(f"{points.name}_{self._name}", nest, [self._eqn]))

    def copy(self, source: Buffer, target: Buffer) -> None:
        if source.size:
            self._writer.add_buffer_copy(source, target, self._name)

    def copy_elements(self, places: Sequence[tuple[Buffer, int, int]], target: Buffer) -> None:
        """Set elements of a small buffer to those in other buffers: (buffer, its position, position in the target)."""
        nest = Nest([], [], eqns=[self._eqn])
        for k, (source, position, place) in enumerate(places):
            nest.statements.append(Load(f"at_{k}", source, Affine(position), PRE))
            nest.stores.append(Store(target, Affine(place), f"at_{k}", PRE))
        if places:
            self._writer.steps.append(NestStep(self._name, nest, [self._eqn]))

    def shares_memory(self, one: Buffer, other: Buffer) -> bool:
        """Whether two buffers lie in the same memory, as results do that have taken an operand's place."""
        return one.storage is other.storage

    def fill(self, target: Buffer, value: Any) -> None:
        if target.size:
            builder = NestBuilder(target.shape, (), lambda v: None, lambda v: target, lambda v: "")
            builder.copy_element(builder.literal(value, target.dtype), target)
            self._writer.add_nest(builder, f"fill_{self._name}")

    def start_from(self, target: Buffer, source: Buffer) -> None:
        """Copy, unless both are the same memory."""
        if target.storage is not source.storage:
            self.copy(source, target)

    def call(self, function: Callable[..., Any], ins: Sequence[Buffer], outs: Sequence[Buffer], **params: Any) -> None:
        """A call of a function of NumPy arrays, which gives arrays for all results."""
        self._writer.steps.append(CallStep(self._name, NumpyFunction(function, params), [*ins], [*outs], [self._eqn]))

    def gemm(
        self, a: Buffer, b: Buffer, c: Buffer, *, ta: int, tb: int, m: int, n: int, k: int, lda: int, ldb: int,
        ldc: int, **more: Any,
    ) -> None:  # fmt: skip
        step = GemmStep(f"product_{self._name}", a, b, c, ta, tb, m, n, k, lda, ldb, ldc, **more)
        step.eqns = [self._eqn]
        self._writer.steps.append(step)

    def convolution(self, lhs: Buffer, rhs: Buffer, out: Buffer, conv: Convolution) -> None:
        """A convolution as a step, for machines that are devices."""
        self._writer.steps.append(ConvolutionStep(f"convolution_{self._name}", conv, lhs, rhs, out, [self._eqn]))

    def sort(self, sort: RowSort, buffers: Mapping[str, tuple[Buffer, str]]) -> None:
        """A sort as a step, for machines that are devices; the texts of `sort` name the buffers."""
        parameters = tuple((name, buffer, mode) for name, (buffer, mode) in buffers.items())
        self._writer.steps.append(SortStep(f"sort_{self._name}", sort, parameters, [self._eqn]))
