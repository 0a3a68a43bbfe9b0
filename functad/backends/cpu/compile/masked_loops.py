"""What LLVM is told of loops: whose last elements, too few for a whole vector, it had better do as one with a mask.

Of long loops it writes less then: else it writes each three times, with wide vectors, with narrow ones, and with none.
Of loops with few steps all vectors are written out, and it is known which lanes the last one has. A loop that only
moves elements to or from places far apart is no vector at all: it would be put together, or taken apart, one by one.
A loop over the rows of a square that registers hold is written out, and one that asks the same of each row.
One that hands numbers on from step to step through several variables is no vector either: LLVM may break off there.
In which order a loop adds does not depend on where its results lie: those of donated arguments are equal to the bit.
Only knows instructions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from llvmlite import ir
from llvmlite.ir import instructions

from functad import machine_model
from functad.backends.cpu.compile.target import has_masked_vectors
from functad.records import NamedTuple

_MOVES = (instructions.LoadInstr, instructions.StoreInstr)
_OF_COPIES = {"add", "sub", "mul", "getelementptr", "load", "store", "br"}


class Loop(NamedTuple):
    """A loop whose body has been written.

    head: where each step begins. body: the last block of its body. number: what it counts. steps: how many there are,
    if that is known. is_inner: whether it lies in another loop.
    """

    head: ir.Block
    body: ir.Block
    number: ir.Value
    steps: int | None
    is_inner: bool


def end_loop(builder: ir.IRBuilder, loop: Loop) -> None:
    """Go back to where a loop begins."""
    is_long = _size(loop.body) >= machine_model.LONG_LOOP
    is_short = loop.steps is not None and loop.steps <= machine_model.FEW_STEPS and not is_long
    is_masked = has_masked_vectors() and (is_long or is_short) and _is_along(loop.body, loop.number)
    sums = _sums(loop.body)
    # The last vector of a row ends amid the next one, which is not read before that is in memory if it is written, too.
    waits = loop.is_inner and not sums and _is_in_place(loop.body)
    jump, module, options = builder.branch(loop.head), builder.module, []
    if _reads_registers(builder.function, loop) or _asks_the_same(loop):
        options.append(module.add_metadata(["llvm.loop.unroll.full"]))
    elif _moves_far(loop.body, loop.number) or _hands_on(builder.function, loop):
        options.append(module.add_metadata(["llvm.loop.vectorize.enable", ir.IntType(1)(False)]))
    elif is_masked and not waits:
        options.append(module.add_metadata(["llvm.loop.vectorize.predicate.enable", ir.IntType(1)(True)]))
        if is_short:
            written_out = module.add_metadata(["llvm.loop.unroll.full"])
            options.append(module.add_metadata(["llvm.loop.vectorize.followup_vectorized", written_out]))
    elif sums:
        # LLVM would count pointers, and so add in another order where a result lies in an operand's memory.
        at_once = ir.Constant(ir.IntType(32), _vectors_at_once(loop, sums))
        options.append(module.add_metadata(["llvm.loop.interleave.count", at_once]))
    if options:
        metadata = ir.MDValue(module, [], name=str(len(module.metadata)))
        metadata.operands = (metadata, *options)  # by naming itself it differs from all others
        jump.set_metadata("llvm.loop", metadata)


def is_wide(function: ir.Function, loop: Loop) -> bool:
    """Whether vectors are made of all there is in a long loop, as its steps read and write elements side by side.

    To look for neighbours in the text of one step would take LLVM longer than all else, and find nothing.
    """
    first, body = function.blocks[function.blocks.index(loop.head) + 1], loop.body
    if first is not body or _size(body) < machine_model.WIDE_LOOP or not _is_along(body, loop.number):
        return False
    moves = [one for one in body.instructions if isinstance(one, _MOVES)]
    return all(
        isinstance(one.operands[-1], instructions.GEPInstr)  # no variable, which the next step would wait for
        and (isinstance(one, instructions.LoadInstr) or _depends(one.operands[-1], loop.number, body))
        for one in moves
    )


def _depends(value: ir.Value, number: ir.Value, block: ir.Block) -> bool:
    """Whether a place is another one in each step of a loop."""
    inside = {id(instruction) for instruction in block.instructions}

    def depends(value: ir.Value) -> bool:
        return value is number or id(value) in inside and any(map(depends, value.operands))

    return depends(value)


def _reads_registers(function: ir.Function, loop: Loop) -> bool:
    """Whether a short loop is one around others that read vectors of the kernel's own, one in each step.

    Written out, it has them in registers.
    """
    inside = function.blocks[function.blocks.index(loop.head) :]
    is_around = loop.body is not inside[1]  # its body ends behind the loop that it begins with
    if not is_around or sum(map(_size, inside)) >= machine_model.LONG_LOOP:
        return False
    return any(_vectors(one) == loop.steps for block in inside for one in block.instructions)


def _asks_the_same(loop: Loop) -> bool:
    """Whether each step of the loop around it asks the same few elements whether something holds.

    Written out, it is no loop there, and vectors run along that one: in vectors along this one truth values of few bits
    would be made of wide ones, and gathered in the end.
    """
    body = loop.body.instructions
    if not loop.is_inner or loop.steps is None or loop.steps * len(body) > machine_model.MOST_QUESTIONS:
        return False
    inside = {id(instruction) for instruction in body}

    def is_known(index: ir.Value) -> bool:
        """Whether it is the same in all steps of the loop around."""
        if isinstance(index, ir.Constant) or index is loop.number:
            return True
        return id(index) in inside and index.opname in ("add", "sub", "mul") and all(map(is_known, index.operands))

    places = [one for one in body if isinstance(one, instructions.GEPInstr)]
    stores = [one for one in body if isinstance(one, instructions.StoreInstr)]
    return (
        bool(places and stores)
        and all(is_known(place.indices[0]) for place in places)
        and all(_is_truth(one.operands[0]) and isinstance(one.operands[1], instructions.AllocaInstr) for one in stores)
        and not any(True for _ in _called(loop.body))
    )


def _hands_on(function: ir.Function, loop: Loop) -> bool:
    """Whether a variable takes what another one held before this step, and neither is a sum of what it held itself.

    LLVM's passes end the process where they find no order in which vectors of both could be computed.
    """
    inside = [one for block in function.blocks[function.blocks.index(loop.head) :] for one in block.instructions]
    moves = [
        one for one in inside if isinstance(one, _MOVES) and isinstance(one.operands[-1], instructions.AllocaInstr)
    ]
    if len({id(one.operands[-1]) for one in moves}) < 2:
        return False
    before: dict[int, set[int]] = {}  # which variables a value is computed from, as the last step left them
    now: dict[int, set[int]] = {}  # the same of what each variable holds
    carried = set[int]()
    for one in inside:
        place = one.operands[-1] if isinstance(one, _MOVES) else None
        if not isinstance(place, instructions.AllocaInstr):
            before[id(one)] = set().union(*(before.get(id(operand), ()) for operand in one.operands))
        elif isinstance(one, instructions.StoreInstr):
            now[id(place)] = now.get(id(place), set()) | before.get(id(one.operands[0]), set())
        else:
            carried |= {id(place)} - now.keys()
            before[id(one)] = now.get(id(place), {id(place)})
    handed = {variable: sources for variable, sources in now.items() if variable in carried - sources}
    return any(handed.keys() & sources for sources in handed.values())


def _is_truth(value: ir.Value) -> bool:
    return isinstance(value.type, ir.IntType) and value.type.width in (1, 8)


def _vectors(one: ir.Instruction) -> int:
    """How many vectors of the kernel's own an instruction reads an element of; 0 if of none."""
    if not isinstance(one, instructions.LoadInstr):
        return 0
    place = one.operands[0]
    while isinstance(place, (instructions.GEPInstr, instructions.CastInstr)):
        place = place.operands[0]
    is_own = isinstance(place, instructions.AllocaInstr) and isinstance(place.type.pointee, ir.VectorType)
    return place.operands[0].constant if is_own and place.operands else 0


def _sums(block: ir.Block) -> list[ir.Value]:
    """The additions of a block, to variables that it goes on with, that may be done in another order."""
    added = [one for one in block.instructions if one.opname == "fadd" and "reassoc" in one.flags]
    return [one for one in added if any(map(_is_variable, one.operands))]


def _is_variable(value: ir.Value) -> bool:
    """Whether a value, or the number that it is a part of, is read from a variable of the kernel."""
    while isinstance(value, instructions.ExtractValue):
        (value,) = value.operands
    return isinstance(value, instructions.LoadInstr) and isinstance(value.operands[0], instructions.AllocaInstr)


def _vectors_at_once(loop: Loop, sums: Sequence[ir.Value]) -> int:
    """How many vectors side by side a loop had better add: few if they fill the registers, or all steps, anyway."""
    most = min(machine_model.VECTORS_ADDED_AT_ONCE, machine_model.MOST_VECTORS_OF_SUMS // len(sums))
    if _size(loop.body) > machine_model.LARGEST_ADDED_AT_ONCE:
        most //= 2
    if loop.steps is not None:
        widest = max(8 if isinstance(added.type, ir.DoubleType) else 4 for added in sums)
        most = min(most, loop.steps * widest // (2 * machine_model.VECTOR_BYTES))
    return 1 << max(most, 1).bit_length() - 1


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


def _size(block: ir.Block) -> int:
    """The instructions of a block, those of functions included."""
    return len(block.instructions) + sum(len(inner.instructions) for inner in _called(block))


def _is_in_place(block: ir.Block) -> bool:
    """Whether a block reads and writes elements of one buffer."""
    found: dict[type, set[int]] = {instructions.LoadInstr: set(), instructions.StoreInstr: set()}
    for instruction in block.instructions:
        place = instruction.operands[-1] if type(instruction) in found else None
        if isinstance(place, instructions.GEPInstr):
            found[type(instruction)].add(id(place.pointer))
    read, written = found.values()
    return bool(read & written)


def _is_along(block: ir.Block, number: ir.Value) -> bool:
    """Whether each step reads and writes elements beside those of the step before, as vectors with masks do."""
    inside = {id(instruction) for instruction in block.instructions}

    def is_outside(value: ir.Value) -> bool:
        """Whether it is the same in all steps, as where a row begins."""
        if id(value) not in inside:
            return value is not number
        return getattr(value, "opname", "") in ("add", "sub", "mul") and all(map(is_outside, value.operands))

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
