"""Weights that several products read, copied once as these read them best: not transposed, or packed.

Knows steps on buffers. A BLAS that reads small matrices where they lie does that well only if the summed axis comes
first; so an unrolled loop, whose backward steps all read the same transposed weight, gets a copy of it. And products of
a loop read what is the same in all its steps in panels, where functad's own product does: a BLAS packs it each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from functad import machine_model
from functad.backends.cpu.products.blas import panel_columns, reads_in_place
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.nests.affine import Affine, loop
from functad.lowering.nests.nest import PRE, Load, Nest, Store
from functad.lowering.steps import (
    ControlStep,
    GemmStep,
    LoopStep,
    NestStep,
    Step,
    inner_steps,
    with_changed,
    written_by,
)


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
    return _copy("transpose", weight, columns * pitch + rows + offset, target, (rows, columns))


def _copy(name: str, weight: Buffer, place: Affine, target: Buffer, index: Sequence[Affine]) -> NestStep:
    """What a weight has at a place, for each index of the target in turn."""
    to = Affine(0)
    for i, extent in zip(index, target.shape):
        to = to * extent + i
    nest = Nest([x.terms[0][0] for x in index if x.terms], [], [])
    nest.reduced = [False] * len(nest.loops)
    nest.statements.append(Load("at_weight", weight, place, PRE))
    nest.stores.append(Store(target, to, "at_weight", PRE))
    return NestStep(f"{name}_{weight.name}", nest, [])


def _reading(step: GemmStep, weight: Buffer) -> GemmStep:
    return replace(step, b=weight, tb=0, ldb=step.n, b_offset=0)


def with_packed_weights(steps: Sequence[Step]) -> list[Step]:
    """The steps, with copies before loops of what products read in all steps of a loop, in panels."""
    found: list[Step] = []
    for step in steps:
        found += _packed_before(step) if isinstance(step, LoopStep) and step.length else [step]
    return found


def _packed_before(step: LoopStep) -> list[Step]:
    """Copies, and the loop that reads them."""
    inside = list(inner_steps(step.body))
    written = set[Storage]().union(*(written_by(s) for s in inside if not isinstance(s, ControlStep)))
    readers: dict[tuple[object, ...], list[GemmStep]] = {}
    for s in inside:
        if isinstance(s, GemmStep) and s.b.storage.memory not in written and _may_read_panels(s):
            readers.setdefault((s.b.storage.memory, s.b_offset, s.tb, s.ldb, s.n, s.k), []).append(s)
    copies: list[Step] = []
    packed: dict[Step, Step] = {}
    for products in readers.values():
        rows = (step.length or 0) * sum(p.m for p in products)
        weight = products[0].n * products[0].k
        if rows < machine_model.PACKED_WEIGHT_ROWS or rows * weight < machine_model.PACKED_WEIGHT_PRODUCTS:
            continue
        copy = _in_panels(products[0])
        target = copy.nest.stores[0].buffer
        copies.append(copy)
        packed |= {p: replace(p, b=target, tb=1, ldb=p.k, b_offset=0, panel=target.shape[2]) for p in products}
    if not copies:
        return [step]
    loop_step = with_changed(step, lambda s: packed.get(s, s))
    assert isinstance(loop_step, LoopStep)
    loop_step.holds = [*step.holds, *(p.b.storage for p in packed.values() if isinstance(p, GemmStep))]
    return [*copies, loop_step]


def _may_read_panels(step: GemmStep) -> bool:
    panel = panel_columns(step.b.dtype)
    return (
        panel > 0
        and step.n % panel == 0
        and step.batch == 1
        and step.m * step.n * step.k <= machine_model.LARGEST_PRODUCT
        and step.b.storage.memory.kind in ("input", "const", "arena")
    )


def _in_panels(step: GemmStep) -> NestStep:
    panel = panel_columns(step.b.dtype)
    index = panels, rows, columns = loop("i", step.n // panel), loop("j", step.k), loop("l", panel)
    target = new_buffer(f"packed_{step.b.name}", (step.n // panel, step.k, panel), step.b.dtype)
    column = panels * panel + columns
    place = column * step.ldb + rows if step.tb else rows * step.ldb + column
    return _copy("pack", step.b, place + step.b_offset, target, index)
