"""Weights that several products read, copied once as these read them best: not transposed, or packed.

Knows steps on buffers. A product reads its right operand fastest if the summed axis comes first, and a BLAS packs one
that lies otherwise each time. So what is the same in all steps of a loop is copied before it: in panels, where
functad's own product reads these, or transposed. And where small matrices are read as they lie, an unrolled loop, whose
backward steps all read the same transposed weight, gets a copy of it, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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
    with_parts,
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
    for (_, _, _, n, k), readers in products.items():
        if sum(p.m for p in readers) < max(
            machine_model.COPIED_WEIGHT_ROWS,
            n * k * readers[0].b.dtype.itemsize / machine_model.COPIED_WEIGHT_BYTES_A_ROW,
        ):
            continue
        copy = _transposed(readers[0])
        copies.append(copy)
        changed |= {p: _reading(p, copy.nest.stores[0].buffer) for p in readers}
    return [*copies, *(changed.get(step, step) for step in steps)]


def _may_read_copy(step: GemmStep) -> bool:
    return (
        step.tb == 1
        and step.batch == 1
        and step.b.storage.memory.kind in ("input", "const")
        and step.m * step.n * step.k >= machine_model.COPIED_WEIGHT_PRODUCT
        and reads_in_place(step.b.dtype)
    )


def _transposed(step: GemmStep) -> NestStep:
    rows, columns = loop("i", step.k), loop("j", step.n)
    target = new_buffer(f"transposed_{step.b.name}", (step.k, step.n), step.b.dtype)
    return _copy("transpose", step.b, columns * step.ldb + rows + step.b_offset, target, (rows, columns))


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


def with_weights_of_loops(steps: Sequence[Step]) -> list[Step]:
    """The steps, with copies before loops of what its products read: in panels, or not transposed."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, LoopStep) and step.length:
            copies, step = _copied_before(step)
            found += copies
        if isinstance(step, ControlStep):
            step = with_parts(step, [with_weights_of_loops(part) for part in step.parts])
        found.append(step)
    return found


def _copied_before(step: LoopStep) -> tuple[list[Step], LoopStep]:
    """Copies, and the loop that reads them."""
    changed = _changed_in(step)
    readers: dict[tuple[object, ...], list[GemmStep]] = {}
    rows: Counter[tuple[object, ...]] = Counter()
    for p, times in _products(step.body, step.length or 0):
        memory = p.b.storage.memory
        if memory not in changed and memory.kind in _KINDS and p.batch == 1 and not p.panel:
            key = (memory, p.b_offset, p.tb, p.ldb, p.n, p.k)
            readers.setdefault(key, []).append(p)
            rows[key] += times * p.m
    copies: list[Step] = []
    made: dict[Step, GemmStep] = {}
    for weight, products in readers.items():
        if all(map(_may_read_panels, products)) and _pays_packing(rows[weight], products[0]):
            copy = _in_panels(products[0])
            target = copy.nest.stores[0].buffer
            made |= {p: replace(p, b=target, tb=1, ldb=p.k, b_offset=0, panel=target.shape[2]) for p in products}
        elif _pays_transposing(step, products[0]):
            copy = _transposed(products[0])
            made |= {p: _reading(p, copy.nest.stores[0].buffer) for p in products}
        else:
            continue
        copies.append(copy)
    if not copies:
        return [], step
    loop_step = with_changed(step, lambda s: made.get(s, s))
    assert isinstance(loop_step, LoopStep)
    loop_step.holds = [*step.holds, *(p.b.storage for p in made.values())]
    return copies, loop_step


def _changed_in(step: LoopStep) -> set[Storage]:
    """The memory that a loop writes to, and the pointers that it moves."""
    inside = [step, *inner_steps(step.body)]
    changed = set[Storage]().union(*(written_by(s) for s in inside if not isinstance(s, ControlStep)))
    for one in inside:
        if isinstance(one, LoopStep):
            changed.update(m.target for m in (*one.starts, *one.moves))
            changed.update(s.pointer for s in one.stacks)
    return changed


_KINDS = ("input", "const", "arena", "pointer")  # of memory where a weight may lie


def _products(steps: Sequence[Step], times: int) -> Iterator[tuple[GemmStep, int]]:
    """The products in steps that run so many times, those of loops and branches included, and how often each runs."""
    for step in steps:
        if isinstance(step, GemmStep):
            yield step, times
        elif isinstance(step, ControlStep):
            length = step.length or 1 if isinstance(step, LoopStep) else 1
            for part in step.parts:
                yield from _products(part, times * length)


def _pays_packing(rows: int, step: GemmStep) -> bool:
    enough = rows * step.n * step.k >= machine_model.PACKED_WEIGHT_PRODUCTS
    return enough and rows >= machine_model.PACKED_WEIGHT_ROWS


def _pays_transposing(loop: LoopStep, step: GemmStep) -> bool:
    is_long = loop.length is not None and loop.length >= machine_model.FEWEST_STEPS
    return bool(step.tb) and is_long and step.n * step.k >= machine_model.SMALLEST_WEIGHT


def _may_read_panels(step: GemmStep) -> bool:
    panel = panel_columns(step.b.dtype)
    return panel > 0 and step.n % panel == 0 and step.m * step.n * step.k <= machine_model.LARGEST_PRODUCT


def _in_panels(step: GemmStep) -> NestStep:
    panel = panel_columns(step.b.dtype)
    index = panels, rows, columns = loop("i", step.n // panel), loop("j", step.k), loop("l", panel)
    target = new_buffer(f"packed_{step.b.name}", (step.n // panel, step.k, panel), step.b.dtype)
    column = panels * panel + columns
    place = column * step.ldb + rows if step.tb else rows * step.ldb + column
    return _copy("pack", step.b, place + step.b_offset, target, index)
