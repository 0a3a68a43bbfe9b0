"""From a typed function to LLVM's instructions: Numba's lowering, with a variable that is set once kept as its value.

Numba gives each variable that two blocks share memory of its own, zeroed at the start, from which LLVM's first passes
must free it. Must not know what a kernel computes, nor what an operation is in instructions (`contexts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import llvmlite.ir as llvm_ir
from numba.core import ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.lowering import Lower

from functad import machine_model
from functad.backends.cpu.compile.loader import has_masked_vectors


class KernelLower(Lower):
    """Numba's lowering for functions that count no references, raise nothing and are not debugged."""

    def _find_singly_assigned_variable(self) -> None:
        self._singly_assigned_vars = _values(self.blocks)
        self._blk_local_varmap: dict[str, llvm_ir.Value] = {}

    def pre_block(self, block: ir.Block) -> None:
        # Numba looks here for `del` and `try`.
        self._cur_ir_block = block

    def lower_block(self, block: ir.Block) -> None:
        self.pre_block(block)
        for statement in block.body:
            self.loc = statement.loc
            self.lower_inst(statement)

    def lower_inst(self, inst: ir.Stmt) -> None:
        if isinstance(inst, ir.Assign):
            name = inst.target.name
            self.storevar(self.lower_assign(self.typeof(name), inst), name)
        elif isinstance(inst, ir.Jump):
            target = self.blkmap[inst.target]
            # Blocks are lowered in the order of the text: one that is done already is where a loop begins.
            (end_loop if target.is_terminated else llvm_ir.IRBuilder.branch)(self.builder, target)
        else:
            super().lower_inst(inst)

    def storevar(self, value: llvm_ir.Value, name: str, argidx: int | None = None) -> None:
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def alloca_lltype(self, name: str, lltype: llvm_ir.Type, datamodel: Any = None) -> llvm_ir.Value:
        with self.builder.goto_entry_block():
            return self.builder.alloca(lltype, name=name)


def end_loop(builder: llvm_ir.IRBuilder, head: llvm_ir.Block, body: llvm_ir.Block | None = None) -> None:
    """Go back to where the loop begins. body: the last block of its body, if that is not this one."""
    is_long = has_masked_vectors() and _instructions(body or builder.block) >= machine_model.LONG_LOOP
    jump = builder.branch(head)
    if is_long:
        jump.set_metadata("llvm.loop", _one_masked_loop(builder.module))


def _instructions(block: llvm_ir.Block) -> int:
    """The instructions of a block and of all that they call."""
    return len(block.instructions) + sum(
        _instructions(inner)
        for instruction in block.instructions
        if isinstance(instruction, llvm_ir.CallInstr) and isinstance(instruction.callee, llvm_ir.Function)
        for inner in instruction.callee.blocks
    )


def _one_masked_loop(module: llvm_ir.Module) -> llvm_ir.MDValue:
    """What tells LLVM to do the last elements, too few for a vector, as a vector with a mask.

    Else it writes the loop three times: with wide vectors, narrow ones, and none.
    """
    option = module.add_metadata(["llvm.loop.vectorize.predicate.enable", llvm_ir.IntType(1)(True)])
    loop = llvm_ir.MDValue(module, [], name=str(len(module.metadata)))
    loop.operands = (loop, option)  # by naming itself it differs from all others
    return loop


def _values(blocks: Mapping[int, ir.Block]) -> set[str]:
    """The variables that are set by one statement, which runs before all that read them."""
    set_in: dict[str, int] = {}
    others: set[str] = set()
    read_in: dict[str, set[int]] = {}
    for at, block in blocks.items():
        for statement in block.body:
            target = statement.target if isinstance(statement, ir.Assign) else None
            for variable in statement.list_vars():
                if variable is not target:
                    if variable.name not in set_in:
                        others.add(variable.name)  # read before it is set, as the text goes
                    read_in.setdefault(variable.name, set()).add(at)
            if target is not None:
                if target.name in set_in:
                    others.add(target.name)
                set_in[target.name] = at
    dominators = compute_cfg_from_blocks(blocks).dominators()
    return {
        name
        for name, at in set_in.items()
        if name not in others and all(at in dominators[reader] for reader in read_in.get(name, ()))
    }
