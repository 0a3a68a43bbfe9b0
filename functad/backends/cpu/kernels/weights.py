"""Transposed weights, copied once so that several products read them as they lie.

Knows steps on buffers. A BLAS that reads small matrices where they lie does that well only if the summed axis comes
first; so an unrolled loop, whose backward steps all read the same transposed weight, gets a copy of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from functad import machine_model
from functad.backends.cpu.products.blas import reads_in_place
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.nests.affine import loop
from functad.lowering.nests.nest import PRE, Load, Nest, Store
from functad.lowering.steps import GemmStep, NestStep, Step, written_by


def with_plain_weights(steps: Sequence[Step]) -> list[Step]:
    """The steps, with copies at their beginning of weights that products read transposed."""
    written: set[Storage] = set()
    products: dict[tuple[Storage, int, int, int, int], list[GemmStep]] = {}
    for step in steps:
        if isinstance(step, GemmStep) and _may_read_copy(step) and step.b.storage.memory not in written:
            key = (step.b.storage.memory, step.b_offset, step.ldb, step.n, step.k)
            products.setdefault(key, []).append(step)
        written |= written_by(step)
    copies: list[Step] = []
    changed: dict[Step, GemmStep] = {}
    for (_, offset, pitch, n, k), readers in products.items():
        if sum(p.m for p in readers) < max(
            machine_model.COPIED_WEIGHT_ROWS,
            n * k * readers[0].b.dtype.itemsize / machine_model.COPIED_WEIGHT_BYTES_A_ROW,
        ):
            continue
        copy = _transposed(readers[0].b, offset, pitch, n, k)
        copies.append(copy)
        target = copy.nest.stores[0].buffer
        for p in readers:
            changed[p] = _reading(p, target)
    return [*copies, *(changed.get(step, step) for step in steps)]


def _may_read_copy(step: GemmStep) -> bool:
    return (
        step.tb == 1
        and step.batch == 1
        and step.b.storage.memory.kind in ("input", "const")
        and step.m * step.n * step.k >= machine_model.COPIED_WEIGHT_PRODUCT
        and reads_in_place(step.b.dtype)
    )


def _transposed(weight: Buffer, offset: int, pitch: int, n: int, k: int) -> NestStep:
    rows, columns = loop("i", k), loop("j", n)
    target = new_buffer(f"transposed_{weight.name}", (k, n), weight.dtype)
    nest = Nest([x.terms[0][0] for x in (rows, columns) if x.terms], [], [])
    nest.reduced = [False] * len(nest.loops)
    nest.statements.append(Load("at_weight", weight, columns * pitch + rows + offset, PRE))
    nest.stores.append(Store(target, rows * n + columns, "at_weight", PRE))
    return NestStep(f"transpose_{weight.name}", nest, [])


def _reading(step: GemmStep, weight: Buffer) -> GemmStep:
    fields = {**vars(step), "b": weight, "tb": 0, "ldb": step.n, "b_offset": 0}
    return GemmStep(**fields)
