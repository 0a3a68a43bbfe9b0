"""What belongs to derivative rules of one's own, under the name that JAX gives the module.

Knows the public names only.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.api.custom_rules import custom_gradient, custom_jvp, custom_vjp
from functad.api.inspection import closure_convert
from functad.api.rule_calls import CustomVJPPrimal, SymbolicZero, custom_vjp_primal_tree_values, zero_from_primal
from functad.extend.core.primitives import primitive_named
from functad.extend.linear_calls import linear_call

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "zero_from_primal",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, found=primitive_named)


def __dir__() -> list[str]:
    return __all__
