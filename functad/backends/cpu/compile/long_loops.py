"""Loops so long that LLVM had better write them once: what is left for no whole vector is done as one with a mask.

Else it writes a loop three times, with wide vectors, with narrow ones, and with none. A loop that only moves elements
to or from places far apart is no vector at all: it would be put together, or taken apart, element by element. Only
knows instructions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from llvmlite import ir
from llvmlite.ir import instructions

from functad import machine_model
from functad.backends.cpu.compile.target import has_masked_vectors

_OF_COPIES = {"add", "sub", "mul", "getelementptr", "load", "store", "br"}


def end_loop(builder: ir.IRBuilder, head: ir.Block, body: ir.Block, number: ir.Value) -> None:
    """Go back to where a loop begins. body: the last block of its body. number: what it counts."""
    option = ""
    if _moves_far(body, number):
        option, value = "llvm.loop.vectorize.enable", False
    elif has_masked_vectors() and _is_long(body) and _is_along(body, number):
        option, value = "llvm.loop.vectorize.predicate.enable", True
    jump = builder.branch(head)
    if option:
        setting = builder.module.add_metadata([option, ir.IntType(1)(value)])
        loop = ir.MDValue(builder.module, [], name=str(len(builder.module.metadata)))
        loop.operands = (loop, setting)  # by naming itself it differs from all others
        jump.set_metadata("llvm.loop", loop)


def _moves_far(block: ir.Block, number: ir.Value) -> bool:
    """Whether elements are copied, and those of neighbouring steps lie further apart than vectors help with."""
    inside = {id(instruction) for instruction in block.instructions}
    if any(instruction.opname not in _OF_COPIES for instruction in block.instructions):
        return False

    def step(index: ir.Value) -> float:
        """How far apart the places of two steps are; infinity if nobody knows, NaN if memory says it."""
        if index is number or id(index) not in inside:
            return float(index is number)
        if index.opname not in ("add", "sub", "mul"):
            return math.nan
        left, right = (step(operand) for operand in index.operands)
        if index.opname != "mul" or not (left or right):
            return left - right if index.opname == "sub" else left + right
        factor = index.operands[0 if right else 1]
        return (left or right) * (factor.constant if isinstance(factor, ir.Constant) else math.inf)

    steps = [step(place.indices[0]) for place in block.instructions if isinstance(place, instructions.GEPInstr)]
    return not any(map(math.isnan, steps)) and any(abs(far) > machine_model.MOST_INTERLEAVED for far in steps)


def _is_long(block: ir.Block) -> bool:
    called = sum(len(inner.instructions) for inner in _called(block))
    return len(block.instructions) + called >= machine_model.LONG_LOOP


def _is_along(block: ir.Block, number: ir.Value) -> bool:
    """Whether each step reads and writes elements beside those of the step before, as vectors with masks do."""
    inside = {id(instruction) for instruction in block.instructions}

    def is_outside(value: ir.Value) -> bool:
        return value is not number and id(value) not in inside

    def is_along(index: ir.Value) -> bool:
        if index is number or is_outside(index):
            return True
        if getattr(index, "opname", "") not in ("add", "sub"):
            return False
        left, right = index.operands
        return is_along(left) and is_outside(right) or index.opname == "add" and is_outside(left) and is_along(right)

    plain = (ir.IntType, ir.HalfType, ir.FloatType, ir.DoubleType)
    places = [place for place in block.instructions if isinstance(place, instructions.GEPInstr)]
    inner = (instruction for called in _called(block) for instruction in called.instructions)
    return (
        all(len(place.indices) == 1 and is_along(place.indices[0]) for place in places)
        and all(isinstance(place.type.pointee, plain) for place in places)
        and not any(isinstance(instruction, instructions.LoadInstr) for instruction in inner)
    )


def _called(block: ir.Block) -> Iterator[ir.Block]:
    """The blocks of all functions that are called."""
    for instruction in block.instructions:
        if isinstance(instruction, instructions.CallInstr) and isinstance(instruction.callee, ir.Function):
            for inner in instruction.callee.blocks:
                yield inner
                yield from _called(inner)
