"""A builder of LLVM instructions that round as IEEE 754 says. It must not know formulas."""

from __future__ import annotations

from typing import Any

from llvmlite import ir


class _NoFlags(list[str]):
    """No flags, which nobody adds to: Numba gives `contract` to every instruction whose flags are false."""

    def __bool__(self) -> bool:
        return True


class StrictBuilder:
    """A builder whose instructions LLVM may not contract: a product and a sum remain two roundings."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def __getattr__(self, name: str) -> Any:
        emit = getattr(self._builder, name)
        if name not in ("fadd", "fsub", "fmul", "fdiv", "fneg"):
            return emit

        def strict(*operands: ir.Value) -> ir.Value:
            instruction = emit(*operands)
            instruction.flags = _NoFlags()
            return instruction

        return strict
