"""Runs the `Loops` rule of a primitive without a compiler: its kernels as plain Python on guarded memory.

Knows what a rule may ask of a target, and what its kernels must keep to; no primitive by name.

`check_loops(primitive, args, params)` compares a rule with the primitive's `impl`, with the parallel ranges cut in
several ways and with results in the memory of operands. On the way it finds indices out of bounds, reads of
elements that nobody has written, writes to read-only buffers, pieces of a range that touch each other's elements,
broken promises of `rows=True`, and text that would not compile (unknown names, bare float literals, `and` of floats).
"""

from __future__ import annotations

import ast
import ctypes
import importlib
import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from functad.backends.cpu.compile import loader, machine
from functad.backends.cpu.kernels import generate
from functad.backends.cpu.kernels.emit import emit
from functad.backends.cpu.products import blas
from functad.backends.cpu.scalars import elementary as scalars
from functad.evaluation import implementation
from functad.ir import Aval, Primitive
from functad.lowering.schedule import make_schedule
from functad.lowering.steps import NestStep
from functad.lowering.target import Machine
from functad.lowering_rules import Loops, Scattered
from functad.system import numpy_sort
from functad.tracing import bind, trace_to_program

CASTS = set("b1 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128".split())
INTRINSICS = {word: getattr(importlib.import_module(module), word) for word, module in generate.VOCABULARY.items()}
INTRINSICS |= {"inf": scalars.inf, "nan": scalars.nan}
MOST_PIECES = 60  # more pieces than this are not told apart


# --- checks -----------------------------------------------------------------------------------------------


def check_loops(
    primitive: Primitive,
    args: Sequence[Any],
    params: dict[str, Any],
    *,
    tolerance: float = 0.0,
    expected: Sequence[np.ndarray] | None = None,
    compiled: bool = False,
    sorts: bool = False,
) -> None:
    """Assert that a primitive's `Loops` rule gives what its `impl` gives.

    tolerance: largest difference over the largest magnitude; 0 demands equal bits (NaN is NaN).
    expected: what to compare with instead of the results of `impl`.
    compiled: run the kernels as machine code instead, which is fast but finds nothing but wrong results.
    sorts: whether kernels can call NumPy's sorts.
    """
    arrays = [np.ascontiguousarray(a).reshape(np.shape(a)) for a in args]
    if expected is None:
        with np.errstate(all="ignore"):
            results = implementation(primitive, [a.dtype for a in arrays])(*[a.copy() for a in arrays], **params)
        expected = results if primitive.multiple_results else [results]
    rule = primitive.lower
    for share in [False, True] if isinstance(rule, Scattered) or rule.in_place else [False]:
        recorded = record(primitive, arrays, params, share=share, sorts=sorts)
        run = Compiled(recorded).run if compiled else partial(run_plain, recorded)
        most = max([i.n for i in recorded.instructions if isinstance(i, Kernel)], default=1)
        for pieces in sorted({max(1, min(pieces, most)) for pieces in (1, 3, MOST_PIECES)}):
            values = recorded.values(arrays)
            run(values, pieces=pieces)
            for number, (buffer, want) in enumerate(zip(recorded.outs, expected, strict=True)):
                what = f"{primitive.name}{[(a.shape, a.dtype.name) for a in arrays]} {params}, result {number}"
                assert_same_array(values[buffer].reshape(buffer.shape), np.asarray(want), tolerance, what)


def assert_same_array(actual: np.ndarray, expected: np.ndarray, tolerance: float, what: str) -> None:
    assert actual.shape == expected.shape and actual.dtype == expected.dtype, (
        f"{what}: {actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    )
    if tolerance and actual.dtype.kind in "fc" and actual.size:
        finite = expected[np.isfinite(expected)]
        scale = max(1e-30, float(np.max(np.abs(finite), initial=0.0)))
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale, err_msg=what)
        return
    np.testing.assert_array_equal(actual, expected, err_msg=what)
    if actual.dtype.kind == "f":
        numbers = ~np.isnan(expected)
        signs = np.signbit(actual), np.signbit(expected)
        np.testing.assert_array_equal(signs[0][numbers], signs[1][numbers], err_msg=f"{what}: signs of zero")


# --- recording what a rule does ---------------------------------------------------------------------------


class Buffer:
    """Memory for one array; compared by identity."""

    def __init__(self, shape: Sequence[int], dtype: Any, name: str) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.name = name

    @property
    def size(self) -> int:
        return Aval(self.shape, self.dtype).size

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"{self.name}:{self.dtype.name}{list(self.shape)}"


class Kernel(NamedTuple):
    name: str
    body: str
    buffers: dict[str, tuple[Buffer, str]]
    n: int
    rows: bool
    row_reads: tuple[str, ...]
    offsets: Mapping[str, int]

    def source(self) -> str:
        parameters = ", ".join([*self.buffers, "start", "stop"])
        return f"def {self.name}({parameters}):\n" + textwrap.indent(textwrap.dedent(self.body).strip("\n"), "    ")


class Gemm(NamedTuple):
    a: Buffer
    b: Buffer
    c: Buffer
    sizes: dict[str, Any]


class Copy(NamedTuple):
    source: Buffer
    destination: Buffer


class Fill(NamedTuple):
    destination: Buffer
    value: Any


# What `Target.place_columns` answers: what a processor with AVX-512 does.
PLACE_COLUMNS = {"float32": 32, "float64": 16}
# What `Target.window_lanes` answers: the same.
WINDOW_LANES: dict[str, int] = {}


class Recorded:
    """A target that keeps what a rule asks of it."""

    def __init__(self, sorts: bool = False) -> None:
        self.ins: list[Buffer] = []
        self.outs: list[Buffer] = []
        self.scratches: list[Buffer] = []
        self.handles: dict[tuple[np.dtype, str], Buffer] = {}
        self.sorts: dict[np.dtype, Buffer] | None = {} if sorts else None
        self.instructions: list[Kernel | Gemm | Copy | Fill] = []
        self.copiers: list[Buffer] = []
        self.threads_hint = 2
        self.on_device = False

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
        assert name.isidentifier() and n >= 0 and flops >= 0 and bytes >= 0
        assert len({id(b) for b, _ in buffers.values()}) == len(buffers), f"{name}: one buffer under two names"
        assert all(mode in ("r", "w", "rw") for _, mode in buffers.values()), f"{name}: {buffers}"
        kernel = Kernel(name, body, dict(buffers), int(n), rows, tuple(row_reads), offsets)
        check_text(kernel)
        self.instructions.append(kernel)

    def scratch(self, shape: Sequence[int], dtype: Any) -> Buffer:
        self.scratches.append(Buffer(shape, dtype, f"scratch{len(self.scratches)}"))
        return self.scratches[-1]

    def blas(self, dtype: Any, of: str = "") -> Buffer:
        return self.handles.setdefault((np.dtype(dtype), of), Buffer((), dtype, "blas"))

    def copier(self) -> Buffer:
        self.copiers = self.copiers or [Buffer((1,), np.int64, "copier")]
        return self.copiers[0]

    def numpy_sort(self, dtype: Any) -> Buffer | None:
        dtype = np.dtype(dtype)
        if self.sorts is None or dtype.kind not in "iuf" or dtype.itemsize not in (4, 8):
            return None
        return self.sorts.setdefault(dtype, Buffer((1,), np.int64, f"sort_{dtype}"))

    def place_columns(self, dtype: Any) -> int:
        return PLACE_COLUMNS.get(np.dtype(dtype).name, 0)

    def window_lanes(self, dtype: Any) -> int:
        return WINDOW_LANES.get(np.dtype(dtype).name, 0)

    def copy(self, src: Buffer, dst: Buffer) -> None:
        assert src.size == dst.size and src.dtype == dst.dtype and src is not dst
        self.instructions.append(Copy(src, dst))

    def copy_elements(self, places: Sequence[tuple[Buffer, int, int]], dst: Buffer) -> None:
        assert all(0 <= position < src.size and 0 <= place < dst.size for src, position, place in places)
        names = {src: f"x{k}" for k, src in enumerate(dict.fromkeys(src for src, _, _ in places))}
        body = "\n".join(f"out[{place}] = {names[src]}[{position}]" for src, position, place in places)
        self.kernel("copy_elements", body, {**{x: (src, "r") for src, x in names.items()}, "out": (dst, "w")}, 1)

    def fill(self, dst: Buffer, value: Any) -> None:
        self.instructions.append(Fill(dst, value))

    def shares_memory(self, one: Buffer, other: Buffer) -> bool:
        return one is other

    def start_from(self, dst: Buffer, src: Buffer) -> None:
        if dst is not src:
            self.copy(src, dst)

    def gemm(self, a: Buffer, b: Buffer, c: Buffer, **sizes: Any) -> None:
        assert len({a.dtype, b.dtype, c.dtype}) == 1 and c is not a and c is not b
        self.instructions.append(Gemm(a, b, c, sizes))

    def values(self, args: Sequence[np.ndarray]) -> dict[Buffer, np.ndarray]:
        """Memory for all buffers, flat; that of the operands holds their values, the rest is unset."""
        arrays = {b: np.empty(b.size, b.dtype) for b in (*self.outs, *self.scratches)}
        arrays.update({b: numpy_sort.sort_word(dtype) for dtype, b in (self.sorts or {}).items()})
        arrays.update(dict.fromkeys(self.copiers, blas.copier()))
        arrays.update({b: np.array(a).reshape(-1) for b, a in zip(self.ins, args, strict=True)})
        return arrays

    def __str__(self) -> str:
        return "\n\n".join(i.source() if isinstance(i, Kernel) else repr(i) for i in self.instructions)


def record(
    primitive: Primitive,
    args: Sequence[np.ndarray],
    params: dict[str, Any],
    *,
    share: bool = False,
    sorts: bool = False,
) -> Recorded:
    """Call a primitive's `Loops` rule; with `share`, results lie in the operands that its `in_place` names.

    sorts: whether kernels can call NumPy's sorts.

    A rule that becomes nests is lowered; with `share`, as if its first operand were not needed again.
    """
    rule = primitive.lower
    if isinstance(rule, Scattered):
        return record_nests(primitive, args, params, share=share)
    assert isinstance(rule, Loops)
    avals = primitive.abstract_eval(*[Aval(a.shape, a.dtype) for a in args], **params)
    target = Recorded(sorts)
    target.ins = [Buffer(a.shape, a.dtype, f"operand{i}") for i, a in enumerate(args)]
    out_avals = avals if primitive.multiple_results else [avals]
    target.outs = [Buffer(a.shape, a.dtype, f"result{i}") for i, a in enumerate(out_avals)]
    for i, o in rule.in_place if share else ():
        fits = (target.ins[i].shape, target.ins[i].dtype) == (target.outs[o].shape, target.outs[o].dtype)
        if fits and target.ins[i] not in target.outs:
            target.outs[o] = target.ins[i]
    rule.rule(target, list(target.ins), list(target.outs), **params)
    return target


def record_nests(primitive: Primitive, args: Sequence[np.ndarray], params: dict[str, Any], *, share: bool) -> Recorded:
    """The kernels of the nests of one equation."""
    avals = [Aval(a.shape, a.dtype) for a in args]
    program = trace_to_program(lambda *xs: [bind(primitive, *xs, **params)], avals)
    schedule = make_schedule(program, [share and k == 0 for k in range(len(args))], Machine(threads=2))
    target = Recorded()
    buffers: dict[Any, Buffer] = {}

    def of(buffer: Any) -> Buffer:
        if buffer.storage not in buffers:
            buffers[buffer.storage] = Buffer(buffer.shape, buffer.dtype, buffer.name)
        return buffers[buffer.storage]

    target.ins = [of(b) for b in schedule.inputs]
    target.outs = [of(b) for b in schedule.outputs]
    for step in schedule.steps:
        assert isinstance(step, NestStep), step
        kernel = emit(step.nest)
        assert not kernel.constants
        parameters = {name: (of(buffer), mode) for name, buffer, mode in kernel.parameters}
        offsets = dict(zip(parameters, kernel.offsets, strict=True))
        target.kernel(step.name, kernel.body, parameters, kernel.n, offsets=offsets)
    target.scratches = [b for b in buffers.values() if b not in (*target.ins, *target.outs)]
    return target


# --- the text of a kernel ---------------------------------------------------------------------------------


def check_text(kernel: Kernel) -> None:
    """Assert that a kernel is written in the subset of Python that is compiled."""
    source = kernel.source()
    tree = ast.parse(source)
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    known = {*kernel.buffers, "start", "stop", "range", *stored, *INTRINSICS, *GEMMS}
    cast = {id(a) for node in ast.walk(tree) if isinstance(node, ast.Call) for a in cast_literals(node)}
    for node in ast.walk(tree):
        where = f"line {getattr(node, 'lineno', 0)} of\n{source}"
        if isinstance(node, ast.Name):
            assert node.id in known, f"unknown name {node.id} in {where}"
        elif isinstance(node, ast.Constant):
            fine = isinstance(node.value, (int, str)) or id(node) in cast
            assert fine, f"bare literal {node.value!r} (numba makes float64 of it) in {where}"
        elif isinstance(node, ast.Assign):
            assert len(node.targets) == 1, f"chained assignment in {where}"
        allowed = not isinstance(
            node, (ast.List, ast.Dict, ast.ListComp, ast.Lambda, ast.Raise, ast.Try, ast.JoinedStr)
        )
        assert allowed, f"{type(node).__name__} in {where}"


def cast_literals(call: ast.Call) -> Iterator[ast.AST]:
    """The literals, possibly negative, that are operands of a cast."""
    if isinstance(call.func, ast.Name) and call.func.id in CASTS:
        for argument in call.args:
            yield argument.operand if isinstance(argument, ast.UnaryOp) else argument


# --- running it -------------------------------------------------------------------------------------------


def run_plain(recorded: Recorded, values: dict[Buffer, np.ndarray], *, pieces: int = 1) -> None:
    """Run all instructions on guarded memory, every kernel cut into so many pieces, the last one first."""
    is_set = {b: np.full(b.size, b in recorded.ins) for b in values}
    for instruction in recorded.instructions:
        if isinstance(instruction, Kernel):
            run_kernel(instruction, values, is_set, pieces)
        elif isinstance(instruction, Gemm):
            run_gemm(instruction, values, is_set)
        elif isinstance(instruction, Copy):
            assert is_set[instruction.source].all(), f"copy of what is not set: {instruction}"
            values[instruction.destination][:] = values[instruction.source]
            is_set[instruction.destination][:] = True
        else:
            values[instruction.destination][:] = instruction.value
            is_set[instruction.destination][:] = True
    for buffer in recorded.outs:
        assert is_set[buffer].all(), f"{buffer} is not wholly written"


@lru_cache(16)
def compiled_text(source: str, filename: str) -> CodeType:
    """The bytecode of a kernel, which runs several times, its range cut otherwise each time."""
    return compile(source, filename, "exec")


def run_kernel(kernel: Kernel, values: dict[Buffer, np.ndarray], is_set: dict[Buffer, np.ndarray], pieces: int) -> None:
    memory = {
        name: Pointer(
            f"{name} of {kernel.name}", values.get(buffer), is_set.get(buffer), mode, kernel.offsets.get(name, 0)
        )
        for name, (buffer, mode) in kernel.buffers.items()
    }
    namespace = {**INTRINSICS, **GEMMS}
    exec(compiled_text(kernel.source(), f"<{kernel.name}>"), namespace)
    count = max(1, min(pieces, kernel.n, MOST_PIECES))
    bounds = [kernel.n * i // count for i in range(count + 1)]
    for piece, (start, stop) in reversed(list(enumerate(itertools.pairwise(bounds)))):
        for pointer in memory.values():
            pointer.piece = 1 << piece
        with np.errstate(all="ignore"):
            namespace[kernel.name](*memory.values(), start, stop)
    for pointer in memory.values():
        pointer.check_pieces()
    if kernel.rows and count == kernel.n:
        for name, pointer in memory.items():
            if kernel.buffers[name][1] != "r" or name in kernel.row_reads:
                pointer.check_rows(kernel.n)


class Pointer:
    """A typed pointer as kernels see it, which objects to what a compiled kernel would do silently."""

    def __init__(
        self, name: str, array: np.ndarray | None, is_set: np.ndarray | None, mode: str, first: int = 0
    ) -> None:
        self.name, self.array, self.mode, self.first = name, array, mode, first
        self.size = 0 if array is None else array.size
        # Single elements of these are quicker than those of NumPy's arrays.
        self.is_set = None if is_set is None else memoryview(is_set)
        self.read_by, self.written_by = (memoryview(np.zeros(self.size, np.int64)) for _ in range(2))
        limits = None if array is None or array.dtype.kind not in "iu" else np.iinfo(array.dtype)
        self.integers = range(limits.min, limits.max + 1) if limits else ()  # which can be stored as they are
        self.type = None if array is None else array.dtype.type
        self.loaded = {np.float16: np.float32, np.bool_: bool}.get(self.type)  # what kernels get, if not that type
        self.piece = 1

    def __getitem__(self, index: Any) -> Any:
        value = self.array[self.read(index)]
        return value if self.loaded is None else self.loaded(value)

    def __setitem__(self, index: Any, value: Any) -> None:
        place = self.write(index)
        if type(value) is not self.type and not (type(value) is int and value in self.integers):
            own = self.array.dtype
            given = value.dtype if isinstance(value, np.generic) else np.asarray(value).dtype
            kinds = (given.kind, own.kind)
            assert kinds in STORES or kinds[0] == kinds[1], f"{self.name}: {value!r} stored without a cast"
            value = value if own.kind == "f" or own == given else np.asarray(value).astype(own)
        self.array[place] = value

    def place(self, index: Any) -> int:
        """Where an element lies in the array, if there is one."""
        assert isinstance(index, (int, np.integer)), f"{self.name}: index {index!r}"
        place = self.first + int(index)
        assert 0 <= place < self.size, f"{self.name}: index {place} is not in 0..{self.size - 1}"
        return place

    def read(self, index: Any) -> int:
        """Note that an element is read; where it lies."""
        place = self.first + index if type(index) is int else -1
        if not 0 <= place < self.size:
            place = self.place(index)
        assert self.is_set[place], f"{self.name}: element {place} is read before anything was written there"
        self.read_by[place] |= self.piece
        return place

    def write(self, index: Any) -> int:
        """Note that an element is written; where it lies."""
        assert self.mode != "r", f"{self.name} is written, but was announced as read-only"
        place = self.first + index if type(index) is int else -1
        if not 0 <= place < self.size:
            place = self.place(index)
        self.is_set[place] = True
        self.written_by[place] |= self.piece
        return place

    def check_pieces(self) -> None:
        reads, writes = np.asarray(self.read_by), np.asarray(self.written_by)
        shared = (writes & (writes - 1) != 0) | (writes != 0) & (reads & ~writes != 0)
        what = "is written by one piece of the range and used by another"
        assert not shared.any(), f"{self.name}: element {shared.argmax()} {what}"

    def check_rows(self, n: int) -> None:
        if self.size % n:
            return
        own = 1 << np.arange(self.size) // (self.size // n or 1)
        others = (np.asarray(self.read_by) | np.asarray(self.written_by)) & ~own != 0
        assert not others.any(), f"{self.name}: element {others.argmax()} is touched by another row"


STORES = {("i", "u"), ("u", "i"), ("i", "f"), ("u", "f"), ("f", "c"), ("b", "i"), ("b", "u")}
"""Kinds of values and memory that differ and still go together; an integer is cast to the memory's width."""


def run_gemm(gemm: Gemm, values: dict[Buffer, np.ndarray], is_set: dict[Buffer, np.ndarray]) -> None:
    sizes = {"alpha": 1.0, "beta": 0.0, "a_offset": 0, "b_offset": 0, "c_offset": 0, **gemm.sizes}
    a, b, c = (
        Pointer(f"{name} of a product", values[x], is_set[x], "rw")
        for name, x in (("a", gemm.a), ("b", gemm.b), ("c", gemm.c))
    )
    dims = [sizes[k] for k in ("ta", "tb", "m", "n", "k")]
    multiply(
        None, *dims, sizes["alpha"], a, sizes["a_offset"], sizes["lda"], b, sizes["b_offset"], sizes["ldb"],
        sizes["beta"], c, sizes["c_offset"], sizes["ldc"],
    )  # fmt: skip


def multiply(
    blas: Any, ta: int, tb: int, m: int, n: int, k: int, alpha: Any,
    a: Pointer, a_off: int, lda: int, b: Pointer, b_off: int, ldb: int, beta: Any, c: Pointer, c_off: int, ldc: int,
) -> None:  # fmt: skip
    """`c = alpha * op(a) @ op(b) + beta * c` of matrices that lie in guarded memory."""

    def places(rows: int, columns: int, offset: int, leading: int) -> np.ndarray:
        assert leading >= columns, f"leading dimension {leading} of a matrix of {columns} columns"
        return offset + leading * np.arange(rows)[:, None] + np.arange(columns)

    def matrix(x: Pointer, where: np.ndarray) -> np.ndarray:
        for index in where.reshape(-1):
            x.read(index - x.first)
        return x.array[where]

    left = matrix(a, places(*((k, m) if ta else (m, k)), a.first + a_off, lda))
    right = matrix(b, places(*((n, k) if tb else (k, n)), b.first + b_off, ldb))
    product = alpha * ((left.T if ta else left) @ (right.T if tb else right))
    where = places(m, n, c.first + c_off, ldc)
    if beta != 0:
        product = product + beta * matrix(c, where)
    for index in where.reshape(-1):
        c.write(index - c.first)
    c.array[where] = product


def multiply_places(
    blas: Any, rows: int, n: int, taps: int, features: int, places: Pointer, p_off: int, pitch: int, a: Pointer,
    zeros: Pointer, z_off: int, b: Pointer, b_off: int, c: Pointer, c_off: int, ldc: int, ahead: int, step: int,
) -> None:  # fmt: skip
    """The words `gemm_places_f32` and `gemm_places_f64` on guarded memory, for any numbers of rows and columns."""
    for r, column in np.ndindex(rows, n):
        acc = c.array.dtype.type(0)
        for t, f in np.ndindex(taps, features):
            place = int(places[p_off + t * pitch + r])
            left = zeros[z_off + f] if place < 0 else a[place + f]
            acc += left * b[b_off + (t * features + f) * n + column]
        c[c_off + r * ldc + column] = acc


def multiply_windows(
    blas: Any, rows: int, vectors: int, lanes: int, terms: int, table: Pointer, t_off: int, v_off: int, x: Pointer,
    x_off: int, a: Pointer, a_off: int, lda: int, added: int, c: Pointer, c_off: int, ldc: int,
) -> None:  # fmt: skip
    """The words `gemm_windows_f32` and `gemm_windows_f64` on guarded memory; NaN is what nobody has written there."""

    def element(place: int) -> Any:
        return x[place] if x.is_set[x.place(place)] else np.nan

    for v, r in np.ndindex(vectors, rows):
        place, to = (int(table[v_off + 2 * v + k]) for k in (0, 1))
        for lane in range(lanes):
            acc = c[c_off + r * ldc + to + lane] if added else c.array.dtype.type(0)
            for t in range(terms):
                acc += a[a_off + r * lda + t] * element(x_off + place + int(table[t_off + t]) + lane)
            c[c_off + r * ldc + to + lane] = acc


GEMMS: dict[str, Any] = {name: multiply for name in ("gemm_f32", "gemm_f64", "gemm_c64", "gemm_c128")}
GEMMS |= {name: multiply_places for name in ("gemm_places_f32", "gemm_places_f64")}
GEMMS |= {name: multiply_windows for name in ("gemm_windows_f32", "gemm_windows_f64")}


class Compiled:
    """The kernels of a rule as machine code; matrix products are left to NumPy."""

    def __init__(self, recorded: Recorded) -> None:
        kernels = [i for i in recorded.instructions if isinstance(i, Kernel)]
        self.names = {id(k): f"{k.name}_{number}" for number, k in enumerate(kernels)}
        texts = [k._replace(name=self.names[id(k)]).source() for k in kernels]
        words = {node.id for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        used = sorted(words & INTRINSICS.keys())
        header = "".join(f"from {generate.VOCABULARY.get(word, scalars.__name__)} import {word}\n" for word in used)
        signatures = {self.names[id(k)]: [b.dtype for b, _ in k.buffers.values()] for k in kernels}
        self.recorded = recorded
        self.library: Any = {}
        if kernels:
            source = header + "\n\n" + "\n\n\n".join(texts) + "\n"
            self.library = loader.load_object(
                machine.compile_kernels(source, "<kernels>", signatures), list(signatures)
            )
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)
        self.calls = {name: call(address) for name, address in self.library.items()}

    def run(self, values: dict[Buffer, np.ndarray], *, pieces: int = 1) -> None:
        for instruction in self.recorded.instructions:
            if isinstance(instruction, Kernel):
                self.run_kernel(instruction, values, pieces)
            elif isinstance(instruction, Gemm):
                run_gemm(instruction, values, {b: np.ones(a.size, bool) for b, a in values.items()})
            elif isinstance(instruction, Copy):
                values[instruction.destination][:] = values[instruction.source]
            else:
                values[instruction.destination][:] = instruction.value

    def run_kernel(self, kernel: Kernel, values: dict[Buffer, np.ndarray], pieces: int = 1) -> None:
        begin = {name: kernel.offsets.get(name, 0) * b.dtype.itemsize for name, (b, _) in kernel.buffers.items()}
        slots = np.array([values[b].ctypes.data + begin[name] for name, (b, _) in kernel.buffers.items()], np.int64)
        params = np.arange(len(slots))
        count = max(1, min(pieces, kernel.n))
        for start, stop in itertools.pairwise(kernel.n * i // count for i in range(count + 1)):
            self.calls[self.names[id(kernel)]](slots.ctypes.data, params.ctypes.data, start, stop)
