"""The schedule: units become steps on buffers, with memory shared in place where an operand is not needed again.

Knows what a step reads and writes; no target and no addresses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functad.ir import Atom, Aval, Eqn, Literal, Program, Var
from functad.lowering.affine import Affine, forget_quotients
from functad.lowering.buffers import Buffer, Storage, new_buffer
from functad.lowering.collapse import collapse
from functad.lowering.fuse import Fusion, Unit
from functad.lowering.nest import PRE, Load, Nest, NestBuilder
from functad.lowering.products import Matrices, as_matrices
from functad.lowering.split import split_reduction
from functad.lowering_rules import Loops
from functad.pretty import letters

NEVER = 1 << 60


@dataclass(eq=False)
class NestStep:
    """A loop nest."""

    name: str
    nest: Nest
    eqns: list[Eqn]

    def __str__(self) -> str:
        loops = [f"{s.name}<{s.extent}{' reduced' if r else ''}" for s, r in zip(self.nest.loops, self.nest.reduced)]
        accesses = self.nest.accesses()
        reads = dict.fromkeys(b.name for b, _, is_written in accesses if not is_written)
        writes = dict.fromkeys(b.name for b, _, is_written in accesses if is_written)
        return f"{self.name}: nest ({', '.join(loops)}) {', '.join(reads) or 'nothing'} -> {', '.join(writes)}"


@dataclass(eq=False)
class KernelStep:
    """A kernel whose text a primitive's rule has written."""

    name: str
    body: str
    parameters: tuple[tuple[str, Buffer, str], ...]
    n: int
    flops: float
    bytes: float
    rows: bool
    row_reads: tuple[str, ...]
    eqns: list[Eqn]

    def __str__(self) -> str:
        reads = [b.name for _, b, mode in self.parameters if mode != "w"]
        writes = [b.name for _, b, mode in self.parameters if mode != "r"]
        return f"{self.name}: kernel (range {self.n}) {', '.join(reads) or 'nothing'} -> {', '.join(writes)}"


@dataclass(eq=False)
class GemmStep:
    """`c = beta · c + alpha · a · b` for row-major matrices in buffers, `batch` times."""

    name: str
    a: Buffer
    b: Buffer
    c: Buffer
    ta: int
    tb: int
    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldc: int
    alpha: float = 1.0
    beta: float = 0.0
    a_offset: int = 0
    b_offset: int = 0
    c_offset: int = 0
    batch: int = 1
    a_batch: int = 0
    b_batch: int = 0
    c_batch: int = 0
    eqns: list[Eqn] = field(default_factory=list)

    def __str__(self) -> str:
        times = f"{self.batch} x " if self.batch > 1 else ""
        a, b = (f"{x.name}{'^T' if t else ''}" for x, t in ((self.a, self.ta), (self.b, self.tb)))
        start = f"{self.beta:g} {self.c.name} + " if self.beta else ""
        sizes = f"[{self.m},{self.k}]·[{self.k},{self.n}]"
        return f"{self.name}: {times}{sizes} {start}{self.alpha:g} {a} {b} -> {self.c.name}"


Step = NestStep | KernelStep | GemmStep


@dataclass(eq=False)
class Schedule:
    """The steps of a Program in order.

    inputs: the buffer of each input. constants: of each constant. outputs: where each result lies, an "output" storage,
    or that of a donated input.
    """

    program: Program
    names: dict[Var, str]
    steps: list[Step]
    inputs: list[Buffer]
    constants: list[Buffer]
    outputs: list[Buffer]

    def __str__(self) -> str:
        """The steps in order, what each reads and writes, and where the results lie."""
        return "\n".join([*map(str, self.steps), f"results: {', '.join(b.name for b in self.outputs)}"])


def make_schedule(program: Program, donated: Sequence[bool] = (), threads: int = 1) -> Schedule:
    """Fuse a Program and lay out its steps. `donated` tells which inputs' memory results may take."""
    try:
        return _Scheduler(program, donated, threads).run()
    finally:
        forget_quotients()


class _Scheduler:
    def __init__(self, program: Program, donated: Sequence[bool], threads: int) -> None:
        self.program = program
        self.threads = threads
        self.names = variable_names(program)
        self.fusion = Fusion(program, self.names.__getitem__)
        self.steps: list[Step] = []
        self.buffers: dict[Var, Buffer] = {}
        self.outputs: list[Buffer | None] = [None] * len(program.outvars)
        self.constants = [self._external(v, "const", k) for k, v in enumerate(program.constvars)]
        self.inputs = [self._external(v, "input", k) for k, v in enumerate(program.invars)]
        donated = list(donated) or [False] * len(program.invars)
        self.donated = {b.storage for b, is_donated in zip(self.inputs, donated) if is_donated}
        self.last: dict[Storage, int] = {}
        self.last_use = self._last_uses()
        self.claims = self._claims()
        products = [u.product for u in self.fusion.units if u.product is not None]
        self.starts = {p.start for p in products if p.out in self.claims}  # what a product adds to, to give a result
        self.time = 0

    def _external(self, var: Var, kind: str, number: int) -> Buffer:
        buffer = new_buffer(f"{kind}_{self.names[var]}", var.aval.shape, var.aval.dtype, kind, number)
        self.buffers[var] = buffer
        return buffer

    def run(self) -> Schedule:
        for time, unit in enumerate(self.fusion.units):
            self.time = time
            write = {
                "nest": self._nest,
                "loops": self._loops,
                "product": self._product,
                "contraction": self._contraction,
            }
            write[unit.kind](unit)
        self.time = NEVER
        for k, atom in enumerate(self.program.outvars):
            if self.outputs[k] is None:
                self.outputs[k] = self._copy_to_output(atom, k)
        outputs = [b for b in self.outputs if b is not None]
        return Schedule(self.program, self.names, self.steps, self.inputs, self.constants, outputs)

    # --- what lives how long ---------------------------------------------------------------------------------

    def _last_uses(self) -> dict[Var, int]:
        """For each variable in a buffer, the number of the unit after which nobody reads it."""
        last: dict[Var, int] = {}
        for time, unit in enumerate(self.fusion.units):
            for var in unit.reads:
                last[var] = time
            for var in self._direct_operands(unit):
                for root in self._memory_roots(var):
                    last[root] = time
        for atom in self.program.outvars:
            if isinstance(atom, Var):
                for root in self._memory_roots(atom):
                    last[root] = NEVER
        return last

    def _direct_operands(self, unit: Unit) -> list[Var]:
        if unit.kind == "loops":
            return [a for a in self.program.eqns[unit.members[0]].invars if isinstance(a, Var)]
        return unit.product.operands() if unit.product is not None else []

    def _memory_roots(self, var: Var) -> list[Var]:
        """The variables whose buffers a reader of this one may read: its own, if it gets one, included."""
        return [var, self._alias_root(var), *self.fusion.roots(var)]

    def _claims(self) -> dict[Var, int]:
        """The results whose buffer can be an output from the start."""
        claims: dict[Var, int] = {}
        external = {*self.program.invars, *self.program.constvars}
        for k, atom in enumerate(self.program.outvars):
            if isinstance(atom, Var):
                root = self._alias_root(atom)
                if root not in external and root not in self.fusion.inline and root not in claims and root.aval.size:
                    claims[root] = k
        return claims

    def _alias_root(self, var: Var) -> Var:
        while var in self.fusion.alias:
            var = self.fusion.alias[var]
        return var

    # --- buffers ---------------------------------------------------------------------------------------------

    def buffer(self, var: Var) -> Buffer:
        if not var.aval.size and var not in self.buffers:  # nothing computes what has no elements
            self.buffers[var] = new_buffer(f"empty_{self.names[var]}", var.aval.shape, var.aval.dtype)
        return self.buffers[var]

    def _result(self, var: Var, candidates: Sequence[Buffer], growing: bool = False) -> Buffer:
        """A buffer for a result: that of an operand which dies here and fits, else a new one.

        Donated memory is left for the results of the Program, unless this result is one that is still `growing`.
        """
        k = self.claims.get(var)
        ranked = sorted(candidates, key=lambda b: b.storage not in self.donated)
        for other in ranked:
            fits = other.dtype == var.aval.dtype and other.size == var.aval.size
            if fits and self._can_take(other.storage, k, growing):
                result = other.view(var.aval.shape)
                break
        else:
            kind = "output" if k is not None else "arena"
            name = f"{'out' if k is not None else 'tmp'}_{self.names[var]}"
            result = new_buffer(name, var.aval.shape, var.aval.dtype, kind, -1 if k is None else k)
        self.buffers[var] = result
        self.last[result.storage] = self.last_use.get(var, self.time)
        if k is not None:
            self.outputs[k] = result.view(self.program.outvars[k].aval.shape)
        return result

    def _can_take(self, storage: Storage, claim: int | None, growing: bool) -> bool:
        if storage.kind == "arena":
            if self.last.get(storage, NEVER) != self.time:
                return False
            if claim is not None:
                storage.kind, storage.number = "output", claim
                storage.name = f"out_{storage.name.removeprefix('tmp_')}"
            return True
        if storage in self.donated and (growing or claim is not None):
            var = self.program.invars[storage.number]
            return self.last.get(storage, self.last_use.get(var, -1)) <= self.time
        return False

    def in_memory(self, atom: Atom) -> Buffer:
        """An operand as a C-contiguous buffer, copied into one if it is computed where it is used."""
        if isinstance(atom, Literal):
            buffer = new_buffer("literal", (), atom.aval.dtype)
            self._add_copy(atom, buffer, "literal")
            return buffer
        if atom not in self.buffers:
            if atom in self.fusion.alias:
                self.buffers[atom] = self.in_memory(self.fusion.alias[atom]).view(atom.aval.shape)
            else:
                buffer = new_buffer(f"tmp_{self.names[atom]}", atom.aval.shape, atom.aval.dtype)
                if buffer.size:
                    self._add_copy(atom, buffer, self.names[atom])
                self.buffers[atom] = buffer
                self.last[buffer.storage] = self.last_use.get(atom, NEVER)
        return self.buffers[atom]

    def _add_copy(self, atom: Atom, buffer: Buffer, name: str) -> None:
        builder = NestBuilder(atom.aval.shape, (), self.fusion.definition, self.buffer, self.names.__getitem__)
        builder.copy(atom, buffer)
        self._add_nest(builder, f"copy_{name}")

    def _copy_to_output(self, atom: Atom, k: int) -> Buffer:
        name = self.names[atom] if isinstance(atom, Var) else "literal"
        buffer = new_buffer(f"out{k}_{name}", atom.aval.shape, atom.aval.dtype, "output", k)
        if buffer.size:
            if isinstance(atom, Var) and atom in self.fusion.alias:
                self.in_memory(atom)
            source = self.buffers.get(atom) if isinstance(atom, Var) else None
            if source is not None:
                self._add_buffer_copy(source, buffer, name)
            else:
                self._add_copy(atom, buffer, name)
        return buffer

    def _add_buffer_copy(self, source: Buffer, target: Buffer, name: str) -> None:
        var = Var(_aval_of(source))
        builder = NestBuilder(source.shape, (), lambda v: None, lambda v: source, lambda v: name)
        builder.copy(var, target)
        self._add_nest(builder, f"copy_{name}")

    def _add_nest(self, builder: NestBuilder, name: str) -> None:
        builder.nest.drop_unused()
        if not builder.nest.stores:
            return
        collapse(builder.nest)
        eqns = list(dict.fromkeys(builder.nest.eqns))
        halves = split_reduction(builder.nest)
        if halves is None:
            self.steps.append(NestStep(name, builder.nest, eqns))
            return
        for nest, suffix in zip(halves, ("parts", "whole")):
            collapse(nest)
            self.steps.append(NestStep(f"{name}_{suffix}", nest, eqns))

    # --- units -----------------------------------------------------------------------------------------------

    def _nest(self, unit: Unit) -> None:
        builder = self.fusion.builder(unit, self.buffer)
        stored = [v for i in unit.members for v in self.program.eqns[i].outvars if v in self.fusion.stored]
        for var in stored:
            level = builder.level(var)
            position = builder.position if level == PRE else builder.outer_position
            candidates = self._aligned_buffers(builder.nest, position, level)
            builder.store(var, self._result(var, candidates, growing=var in self.starts))
        self._add_nest(builder, self._unit_name(unit, stored))

    def _aligned_buffers(self, nest: Nest, position: Affine, level: int) -> list[Buffer]:
        """The buffers that a nest reads only at the point at which it writes its result."""
        reads: dict[Storage, list[Load]] = {}
        for s in nest.statements:
            if isinstance(s, Load):
                reads.setdefault(s.buffer.storage, []).append(s)
        written = {s.buffer.storage for s in nest.stores}
        return [
            loads[0].buffer
            for storage, loads in reads.items()
            if storage not in written and all(x.offset == position and x.level == level for x in loads)
        ]

    def _unit_name(self, unit: Unit, stored: Sequence[Var]) -> str:
        names = [self.program.eqns[i].primitive.name.replace("-", "_") for i in unit.members]
        shown = list(dict.fromkeys(names))
        kept = shown if len(shown) <= 3 else [shown[0], "to", shown[-1]]
        return "_".join([*kept, self.names[stored[-1]] if stored else "unused"])

    def _loops(self, unit: Unit) -> None:
        eqn = self.program.eqns[unit.members[0]]
        rule = eqn.primitive.lower
        assert isinstance(rule, Loops)
        ins = [self.in_memory(a) for a in eqn.invars]
        outs = []
        for o, var in enumerate(eqn.outvars):
            shared = [ins[i] for i, j in rule.in_place if j == o]
            free = [b for b in shared if sum(b.storage is x.storage for x in ins) == 1]
            outs.append(self._result(var, free))
        name = f"{eqn.primitive.name.replace('-', '_')}_{self.names[eqn.outvars[0]]}"
        rule.rule(Target(self, eqn, name), ins, outs, **eqn.params)

    def _contraction(self, unit: Unit) -> None:
        eqn = self.program.eqns[unit.members[0]]
        out, lhs = eqn.outvars[0], eqn.invars[0].aval
        contracted = [lhs.shape[d] for d in eqn.params["dimension_numbers"][0][0]]
        axes = range(out.aval.ndim, out.aval.ndim + len(contracted))
        builder = NestBuilder(
            [*out.aval.shape, *contracted], axes, self.fusion.definition, self.buffer, self.names.__getitem__
        )
        builder.add_contraction(eqn)
        builder.store(out, self._result(out, ()))
        self._add_nest(builder, f"product_{self.names[out]}")

    def _product(self, unit: Unit) -> None:
        product = unit.product
        assert product is not None
        eqns = [self.program.eqns[i] for i in unit.members]
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = product.dimension_numbers
        lhs_free = [d for d in range(product.lhs.aval.ndim) if d not in (*lhs_contract, *lhs_batch)]
        rhs_free = [d for d in range(product.rhs.aval.ndim) if d not in (*rhs_contract, *rhs_batch)]
        m, n, k, batch = (
            math.prod(atom.aval.shape[d] for d in dims)
            for atom, dims in (
                (product.lhs, lhs_free),
                (product.rhs, rhs_free),
                (product.lhs, lhs_contract),
                (product.lhs, lhs_batch),
            )
        )
        a, a_at, ta = self._matrix(product.lhs, (lhs_batch, lhs_free, lhs_contract), (batch, m, k))
        b, b_at, tb = self._matrix(product.rhs, (rhs_batch, rhs_contract, rhs_free), (batch, k, n))
        candidates = []
        start = None
        if product.start is not None:
            start = self.in_memory(product.start)
            if start.storage is not a.storage and start.storage is not b.storage:
                candidates.append(start)
        c = self._result(product.out, candidates, growing=True)
        if start is not None and c.storage is not start.storage:
            self._add_buffer_copy(start, c, self.names[product.out])
        self.steps.append(
            GemmStep(
                f"product_{self.names[product.out]}",
                a, b, c, ta, tb, m, n, k,
                lda=max(a_at.row if not ta else a_at.column, 1),
                ldb=max(b_at.row if not tb else b_at.column, 1),
                ldc=n,
                alpha=product.alpha,
                beta=product.start_factor,
                a_offset=a_at.offset,
                b_offset=b_at.offset,
                batch=batch,
                a_batch=a_at.batch,
                b_batch=b_at.batch,
                c_batch=m * n,
                eqns=eqns,
            )
        )  # fmt: skip

    def _matrix(
        self, atom: Atom, groups: tuple[Sequence[int], Sequence[int], Sequence[int]], sizes: tuple[int, int, int]
    ) -> tuple[Buffer, Matrices, int]:
        """A buffer in which an operand lies as matrices that a BLAS takes, and whether they are transposed."""
        _, rows, columns = sizes
        found = self._layout(atom, groups)
        if found is not None:
            buffer, layout = found
            row, column = layout.row, layout.column
            if (column == 1 or columns == 1) and (row >= columns or rows == 1):
                return buffer, Matrices(layout.offset, layout.batch, max(row, columns), 1), 0
            if (row == 1 or rows == 1) and (column >= rows or columns == 1):
                return buffer, Matrices(layout.offset, layout.batch, 1, max(column, rows)), 1
        permutation = [d for group in groups for d in group]
        shape = [atom.aval.shape[d] for d in permutation]
        name = self.names[atom] if isinstance(atom, Var) else "literal"
        buffer = new_buffer(f"packed_{name}", shape, atom.aval.dtype)
        builder = NestBuilder(shape, (), self.fusion.definition, self.buffer, self.names.__getitem__)
        index: list[Affine] = [Affine(0)] * len(permutation)
        for i, d in zip(builder.index, permutation):
            index[d] = i
        builder.copy_element(builder.value(atom, index, PRE), buffer)
        self._add_nest(builder, f"pack_{name}")
        return buffer, Matrices(0, rows * columns, columns, 1), 0

    def _layout(self, atom: Atom, groups: Any) -> tuple[Buffer, Matrices] | None:
        """Where an operand lies, if its elements are those of one buffer at regular distances."""
        builder = NestBuilder(atom.aval.shape, (), self.fusion.definition, self.buffer, self.names.__getitem__)
        builder.value(atom, builder.index, PRE)
        if len(builder.nest.statements) != 1 or not builder.loaded:
            return None
        ((var, position),) = builder.loaded
        layout = as_matrices(position, builder.index, groups)
        return None if layout is None else (self.buffers[var], layout)


class Target:
    """What a `Loops` rule writes its kernels to."""

    def __init__(self, scheduler: _Scheduler, eqn: Eqn, name: str) -> None:
        self._scheduler = scheduler
        self._eqn = eqn
        self._name = name
        self.threads_hint = scheduler.threads

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
    ) -> None:
        """One kernel: its text, its buffers by parameter name, and the extent of its parallel range."""
        parameters = tuple((p, b, mode) for p, (b, mode) in buffers.items())
        step = KernelStep(name, body, parameters, n, flops, bytes, rows, tuple(row_reads), [self._eqn])
        self._scheduler.steps.append(step)

    def scratch(self, shape: Sequence[int], dtype: Any) -> Buffer:
        return new_buffer(f"scratch_{self._name}", shape, np.dtype(dtype))

    def blas(self, dtype: Any) -> Buffer:
        return new_buffer(np.dtype(dtype).name, (1,), np.dtype(np.int64), "blas")

    def copy(self, source: Buffer, target: Buffer) -> None:
        if source.size:
            self._scheduler._add_buffer_copy(source, target, self._name)

    def fill(self, target: Buffer, value: Any) -> None:
        if target.size:
            builder = NestBuilder(target.shape, (), lambda v: None, lambda v: target, lambda v: "")
            builder.copy_element(builder.literal(value, target.dtype), target)
            self._scheduler._add_nest(builder, f"fill_{self._name}")

    def start_from(self, target: Buffer, source: Buffer) -> None:
        """Copy, unless both are the same memory."""
        if target.storage is not source.storage:
            self.copy(source, target)

    def gemm(
        self, a: Buffer, b: Buffer, c: Buffer, *, ta: int, tb: int, m: int, n: int, k: int, lda: int, ldb: int,
        ldc: int, **more: Any,
    ) -> None:  # fmt: skip
        step = GemmStep(f"product_{self._name}", a, b, c, ta, tb, m, n, k, lda, ldb, ldc, **more)
        step.eqns = [self._eqn]
        self._scheduler.steps.append(step)


def variable_names(program: Program) -> dict[Var, str]:
    """The names under which a Program without sub-programs is printed, and more for results that nobody uses."""
    variables = [*program.constvars, *program.invars, *(v for e in program.eqns for v in e.outvars)]
    used = {a for e in program.eqns for a in e.invars if isinstance(a, Var)}
    used.update((*program.constvars, *program.invars, *(a for a in program.outvars if isinstance(a, Var))))
    names = [v for v in variables if v in used] + [v for v in variables if v not in used]
    return {v: letters(i) for i, v in enumerate(dict.fromkeys(names))}


def _aval_of(buffer: Buffer) -> Any:
    return Aval(buffer.shape, buffer.dtype)
