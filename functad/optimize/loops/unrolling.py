"""Scans of a few steps, written out one step after another.

Knows `scan` equations, by their parts, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from functad import machine_model
from functad.ir import Eqn, Program, all_eqns, equation_count
from functad.optimize.loops.devices import is_large, is_map_of_device
from functad.optimize.loops.parts import Scan
from functad.primitives.common import reshape, zeros_of
from functad.primitives.contraction import dot_general_p
from functad.primitives.joining import stack
from functad.primitives.reduction import slice_along
from functad.tracing import eval_program


def unroll(scan: Scan) -> None:
    """Write the steps out, but those of a strip: its few products are as fast one by one, where the arrays lie."""
    eqn = scan.eqn()
    if not scan.strip and _is_short(eqn):
        scan.instead = partial(_unrolled, eqn)


def _is_short(eqn: Eqn) -> bool:
    length: int = eqn.params["length"]
    if length <= 1 or eqn.params["unroll"] >= length:
        return True
    if is_map_of_device(eqn) and has_large_product(eqn.params["jaxpr"]):
        return False
    equations = length * equation_count(eqn.params["jaxpr"])
    return length <= machine_model.UNROLLED_STEPS and equations <= machine_model.UNROLLED_EQUATIONS


def has_large_product(program: Program) -> bool:
    """Whether a product of a Program, or of a loop within, is worth a loop in a kernel of rows."""
    return any(e.primitive is dot_general_p and is_large(e) for e in all_eqns(program.eqns))


def _unrolled(eqn: Eqn, *args: Any) -> list[Any]:
    """The steps of a scan one after another, as a function of its operands."""
    body: Program = eqn.params["jaxpr"]
    length, n, m = eqn.params["length"], eqn.params["num_consts"], eqn.params["num_carry"]
    consts, carry, xs = args[:n], list(args[n : n + m]), args[n + m :]
    ys: dict[int, Sequence[Any]] = {}  # what each step stacks
    for i in reversed(range(length)) if eqn.params["reverse"] else range(length):
        outs = eval_program(body, [*consts, *carry, *(_step_of(x, i) for x in xs)])
        carry, ys[i] = outs[:m], outs[m:]
    stacked = [
        stack([ys[i][k] for i in range(length)], 0) if ys else zeros_of(v.aval) for k, v in enumerate(eqn.outvars[m:])
    ]
    return [*carry, *stacked]


def _step_of(x: Any, i: int) -> Any:
    return reshape(slice_along(x, 0, i, i + 1), x.shape[1:])
