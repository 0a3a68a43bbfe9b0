"""All that is done to loops, as a table of contents: what leaves them, goes into them, and how they are joined, cut and
laid out.

Knows the moves by name; each stands beside what it is about. `passes.py` applies them, and does nothing else to loops
but simplify what runs in them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from functad.control.scan import scan_p
from functad.control.while_loop import while_p
from functad.ir import Eqn, Primitive
from functad.optimize.loops.joining import fuse, merge
from functad.optimize.loops.layout import give_stacks_on, hoist_invariants, start_from_first_slices
from functad.optimize.loops.legality import (
    Need,
    for_derivatives,
    for_device,
    known_steps,
    reads_stacks,
    reads_stacks_alone,
    same_steps,
    steps_of_while,
)
from functad.optimize.loops.linear_recurrences import rewrite_linear_recurrence
from functad.optimize.loops.maps import compute_at_once
from functad.optimize.loops.products import hoist_products, join_products, sink_products, sink_sums
from functad.optimize.loops.slices import compute_inside, sink
from functad.optimize.loops.strips import cut_into_strips, sums_behind_strip
from functad.optimize.loops.unrolling import unroll
from functad.records import NamedTuple

Round = Literal["as written", "each", "around", "equal"]
"""When a move is made: with loops as they were written; with each, once what runs in it is simplified; with each again,
when that is done to all, as it counts who else reads what stands around them; and once equal equations are one."""


class LoopMove(NamedTuple):
    """A change of loops that keeps their results.

    way: where work goes, or what becomes of the loop or of its steps. of: which it changes, one or two, of which the
    first stands before the second. needs: what must hold of these; beyond that, whatever the move, nothing is computed
    elsewhere that has effects or may never end, and two loops become one only if what stands between lets them.
    apply: `(loop)`, which it changes; of two loops the first, and it gives what stands for results that this has not,
    or None where they stay two. pays: the numbers of `machine_model` that decide whether it pays; none where it does
    whenever it can be done. because: why the results are the same.
    """

    name: str
    way: Literal["joined", "cut", "before", "after", "inside", "laid out"]
    of: tuple[Primitive, ...]
    round: Round
    needs: tuple[Need, ...]
    apply: Callable[..., Any]
    pays: tuple[str, ...]
    because: str


_SCAN, _WHILE = (scan_p,), (while_p,)
_TWO_SCANS, _SCAN_BEHIND_WHILE, _TWO_WHILES = (scan_p, scan_p), (while_p, scan_p), (while_p, while_p)

_KNOWN, _UNKNOWN = (known_steps,), (steps_of_while,)
_DEVICE = (known_steps, for_device)
_DERIVATIVE = (known_steps, for_derivatives)
_HANDS_ON = (known_steps, same_steps, reads_stacks)
_BEHIND = (reads_stacks_alone,)

_STEPS = "the same steps, in their order"
_EACH_STEP = "each step computes the same from the same slices"
_ONCE = "it is the same at every step"
_ZEROS = "x + 0 at other steps"
_SAME = "the same numbers, otherwise laid out"
_JOINT = "the same sums of the same products, in another order where a sum goes over steps"
_ONE_SUM = "the same products, added in another order"
_LINEAR = "as written where a number could leave the range of its dtype"
_ALIKE = "what starts alike and goes on alike is equal in all steps"

_STRIPS = ("CUDA_STRIP_BYTES", "CUDA_KEPT_PRODUCT")
_SHORT = ("UNROLLED_STEPS", "UNROLLED_EQUATIONS")
_THIN = ("THIN_PRODUCT_TERMS", "LARGE_STACK", "SMALLEST_SUNK_PRODUCT")  # better computed in each step
_SUMS = ("LARGEST_HOISTED_PRODUCT", "MOST_EXTRA_BYTES")
_SLICES = ("SMALLEST_SUNK_SLICE", "QUOTIENT_OPERATIONS", *_THIN)
_CHAIN = (
    "LEAST_SAVED",
    "OPERATIONS_MEANWHILE",
    "COEFFICIENT_OPERATIONS",
    "LARGEST_COEFFICIENT_STACKS",
    "MOST_IN_PAIRS",
)

MOVES: tuple[LoopMove, ...] = (
    LoopMove("scan fusion", "joined", _TWO_SCANS, "as written", _HANDS_ON, fuse, (), _STEPS),
    LoopMove("strips", "cut", _SCAN, "each", _DEVICE, cut_into_strips, _STRIPS, _STEPS),
    LoopMove("sums behind strips", "after", _SCAN, "each", _DEVICE, sums_behind_strip, (), _JOINT),
    LoopMove("unrolling", "cut", _SCAN, "each", _KNOWN, unroll, _SHORT, _STEPS),
    LoopMove("stacks computed slice by slice", "inside", _SCAN, "each", _UNKNOWN, compute_inside, (), _EACH_STEP),
    LoopMove("loop-invariant code", "before", _SCAN, "each", (), hoist_invariants, (), _ONCE),
    LoopMove("invariants of while loops", "before", _WHILE, "each", (), hoist_invariants, (), _ONCE),
    LoopMove("starts from first slices", "laid out", _SCAN, "each", _KNOWN, start_from_first_slices, (), _ZEROS),
    LoopMove("sums of products", "after", _SCAN, "each", _KNOWN, sink_products, _SUMS, _JOINT),
    LoopMove("small products", "before", _SCAN, "each", _KNOWN, hoist_products, (*_SUMS, *_THIN), _JOINT),
    LoopMove("sums over steps", "after", _SCAN, "each", _KNOWN, sink_sums, _SUMS, _JOINT),
    LoopMove("all steps at once", "before", _SCAN, "each", _DEVICE, compute_at_once, ("CUDA_STRIP_BYTES",), _EACH_STEP),
    LoopMove("stacks given on", "laid out", _SCAN, "each", _KNOWN, give_stacks_on, (), _SAME),
    LoopMove("linear recurrences", "before", _SCAN, "each", _DERIVATIVE, rewrite_linear_recurrence, _CHAIN, _LINEAR),
    LoopMove("sinking", "inside", _SCAN, "around", _KNOWN, sink, _SLICES, _EACH_STEP),
    LoopMove("products of one sum", "laid out", _SCAN, "around", _KNOWN, join_products, (), _ONE_SUM),
    LoopMove("scans over stacks of a while loop", "joined", _SCAN_BEHIND_WHILE, "equal", _BEHIND, fuse, (), _STEPS),
    LoopMove("while loops of the same steps", "joined", _TWO_WHILES, "equal", (), merge, (), _ALIKE),
)  # fmt: skip
"""In this order. Each sees what those before it have left."""


def allowed(round: Round, *loops: Eqn) -> list[LoopMove]:
    """The moves of a round that a loop allows, or two."""
    of = tuple([e.primitive for e in loops])
    return [m for m in MOVES if m.round == round and m.of == of and all([holds(*loops) for holds in m.needs])]
