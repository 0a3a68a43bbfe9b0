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
            self.builder.branch(self.blkmap[inst.target])
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
