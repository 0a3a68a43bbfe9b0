"""The types that inputs and outputs of grad, jacfwd and jacrev must have: real, or complex for holomorphic functions.

Knows types and the messages; differentiates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.api.arguments import LeafNames, function_name
from functad.dtypes import kind_of
from functad.errors import DifferentiationError
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.pytrees.treedef import LEAF, returned
from functad.transforms.forward import is_differentiable
from functad.tree_util import PyTreeDef

_OPEN = "pass holomorphic=True if it is complex differentiable"


def check_inputs(
    transform: str,
    fun: Callable[..., Any],
    avals: Sequence[Aval],
    names: LeafNames,
    holomorphic: bool,
    allow_int: bool,
) -> None:
    """Raise unless the arguments may be differentiated by: complex ones if `holomorphic`, for jacfwd else real ones."""
    if not holomorphic and all([kind_of(a.dtype) == "f" for a in avals]):
        return

    def listed(accepted: Callable[[Aval], bool]) -> str:
        return ", ".join(f"`{names[i]}` of type {a.str_short()}" for i, a in enumerate(avals) if not accepted(a))

    if holomorphic:
        if bad := listed(lambda a: kind_of(a.dtype) == "c"):
            raise DifferentiationError(
                f"{transform}: with holomorphic=True {function_name(fun)} is differentiated in complex arguments, but "
                f"got {bad}. Convert (`x.astype('complex64')`), choose other argnums, or leave holomorphic=True away"
            )
        return
    if not allow_int and (bad := listed(is_differentiable)):
        way_out = "" if transform == "jacfwd" else ", or pass allow_int=True to get float0 zeros"
        raise DifferentiationError(
            f"{transform}: {function_name(fun)} cannot be differentiated with respect to {bad}: only floating-point "
            f"values have derivatives. Convert (`x.astype('float32')`, `2.` instead of `2`) or choose other "
            f"argnums{way_out}"
        )
    if transform == "jacfwd" and (bad := listed(lambda a: kind_of(a.dtype) != "c")):
        raise DifferentiationError(
            f"jacfwd: {function_name(fun)} is differentiated in {bad}, along whose real and imaginary parts its slopes "
            f"may differ: {_OPEN}; otherwise differentiate in the parts, or use `functad.jvp`"
        )


def check_outputs(transform: str, fun: Callable[..., Any], avals: Sequence[Aval], holomorphic: bool) -> None:
    """Raise unless the outputs are real, or complex if `holomorphic`; jacfwd of real arguments takes both."""
    for aval in avals:
        kind = kind_of(aval.dtype)
        if kind == ("c" if holomorphic else "f"):
            continue
        name = function_name(fun)
        if holomorphic:
            raise DifferentiationError(
                f"{transform}: with holomorphic=True {name} must return complex numbers, but returned "
                f"{aval.str_short()}; a real function that is complex differentiable is constant: leave "
                "holomorphic=True away"
            )
        if kind == "c" and transform != "jacfwd":
            raise DifferentiationError(
                f"{transform}: {name} must return real numbers, but returned {aval.str_short()}: {_OPEN}; otherwise "
                "return a real number, such as `abs(y) ** 2`, or use `functad.vjp`"
            )
        if kind not in "fc":
            raise DifferentiationError(
                f"{transform}: {name} must return floating-point numbers, but returned {aval.str_short()}; return it "
                "as auxiliary output (has_aux=True)"
            )


def check_scalar(fun: Callable[..., Any], outs: Sequence[Any], out_tree: PyTreeDef) -> None:
    """Raise unless grad's function has returned one array of rank 0."""
    if out_tree is not LEAF:
        raise DifferentiationError(
            f"grad: {function_name(fun)} must return one scalar, but returned {returned(out_tree)}. Return the loss "
            "alone, or (loss, other outputs) with has_aux=True; `functad.jacrev` differentiates several outputs"
        )
    aval = aval_of(outs[0])
    if aval.shape != ():
        raise DifferentiationError(
            f"grad: {function_name(fun)} must return a scalar, but returned an array of type {aval.str_short()}. "
            "Reduce it, for instance with `.sum()` or `.mean()`; `functad.jacrev` and `functad.vjp` differentiate "
            "array outputs"
        )
