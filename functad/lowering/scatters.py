"""Scatters as steps: the operand in the memory of the result, and the nest that puts updates to it.

Knows values in memory and lowering rules; no target, and not how threads share a nest.
"""

from __future__ import annotations

from collections.abc import Callable, Set

import numpy as np

from functad.ir import Eqn, Var
from functad.lowering.memory.buffers import Buffer, Storage, new_buffer
from functad.lowering.memory.values import Values
from functad.lowering.nests.builder import NestBuilder
from functad.lowering.nests.nest import Load
from functad.lowering_rules import Scattered, UpdateLoops


def write_scatter(values: Values, eqn: Eqn) -> None:
    """The steps of one equation whose rule is `Scattered`."""
    rule, (out,) = eqn.primitive.lower, eqn.outvars
    assert isinstance(rule, Scattered)
    avals, name = [a.aval for a in eqn.invars], f"{eqn.primitive.name.replace('-', '_')}_{values.names[out]}"
    dtype = out.aval.dtype if rule.accumulator is None else rule.accumulator(*avals, **eqn.params)
    loops = rule.loops(*avals, **eqn.params)
    if 0 in loops.shape:
        source = values.in_memory(eqn.invars[0])
        values.copy_into(eqn.invars[0], values.assignment.result(out, [source]), name)
    elif dtype == out.aval.dtype:
        _write_in_place(values, eqn, loops, name)
    else:
        _write_wide(values, eqn, loops, dtype, name)


def _write_in_place(values: Values, eqn: Eqn, loops: UpdateLoops, name: str) -> None:
    """The result takes the operand's memory if nobody reads that any more.

    What the nest would read there, because it is computed where it is used, is computed before.
    """
    operand, *others = eqn.invars
    source = values.in_memory(operand)
    apart = {a for a in others if isinstance(a, Var) and source.storage in _read_for(values, a)}
    for atom in apart:
        values.in_memory(atom)

    def start(builder: NestBuilder) -> Buffer:
        is_read = any(isinstance(s, Load) and s.buffer.storage is source.storage for s in builder.nest.statements)
        buffer = values.assignment.result(eqn.outvars[0], [] if is_read else [source])
        values.copy_into(operand, buffer, name)
        return buffer

    _write_nest(values, eqn, loops, apart, start, name)


def _write_wide(values: Values, eqn: Eqn, loops: UpdateLoops, dtype: np.dtype, name: str) -> None:
    """Updates are put to a wider copy of the operand, which is rounded in the end."""
    operand, (out,) = eqn.invars[0], eqn.outvars
    wide = new_buffer(f"wide_{values.names[out]}", out.aval.shape, dtype)
    values.copy_into(operand, wide, name)
    _write_nest(values, eqn, loops, set(), lambda builder: wide, name)
    source = values.present(operand)
    result = values.assignment.result(out, [] if source is None else [source])
    values.writer.add_buffer_copy(wide, result, name)


def _write_nest(
    values: Values,
    eqn: Eqn,
    loops: UpdateLoops,
    in_memory: Set[Var],
    buffer: Callable[[NestBuilder], Buffer],
    name: str,
) -> None:
    """The nest of the updates, which computes their operands but those that are known to be `in_memory`."""
    builder = NestBuilder(
        loops.shape,
        (),
        lambda v: None if v in in_memory else values.fusion.inlining.definition(v),
        values.assignment.buffer,
        values.shared.name_of,
    )
    ordered = [o for o, n in zip(loops.ordered, loops.shape) if n != 1]
    builder.nest.ordered = {s for s, is_ordered in zip(builder.nest.loops, ordered, strict=True) if is_ordered}
    builder.add_update(eqn, buffer)
    values.writer.add_updates(builder.nest, name)


def _read_for(values: Values, var: Var) -> set[Storage]:
    """The memory that is read where a variable is computed."""
    found = (
        values.assignment.find(values.fusion.inlining.alias_root(root)) for root in values.fusion.inlining.roots(var)
    )
    return {buffer.storage for buffer in found if buffer is not None}
