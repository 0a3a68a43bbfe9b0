"""All that is done to one scan, as a table of contents: what leaves it, goes into it, and how it is laid out.

Knows the moves by name; each stands beside what it is about. What makes one loop of two stands in `joining.py`;
equations around go into a scan after, by `rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from functad.ir import UNKNOWN
from functad.optimize.loops.layout import give_stacks_on, hoist_invariants, start_from_first_slices, transpose_weights
from functad.optimize.loops.linear_recurrences import rewrite_linear_recurrence
from functad.optimize.loops.parts import Scan
from functad.optimize.loops.products import hoist_products, sink_sums
from functad.optimize.loops.slices import compute_inside
from functad.records import NamedTuple


class ScanMove(NamedTuple):
    """A change of a scan that keeps its results.

    way: where work goes. lengths: of which scans, those of known lengths or those over the stacks of a `while`.
    pays: the numbers of `machine_model` that decide whether it pays; none where it does whenever it can be done.
    because: why the results are the same.
    """

    name: str
    way: Literal["before", "after", "inside", "laid out"]
    lengths: Literal["known", "unknown", "any"]
    apply: Callable[[Scan], None]
    pays: tuple[str, ...]
    because: str

    def fits(self, scan: Scan) -> bool:
        return self.lengths == "any" or (self.lengths == "unknown") == (scan.length == UNKNOWN)


_EACH_STEP = "each step computes the same from the same slices"
_ONCE = "it is the same at every step"
_SAME = "the same numbers, otherwise laid out"
_JOINT = "the same sums of the same products, in another order where a sum goes over steps"
_LINEAR = "derivatives only; as written where a number could leave the range of its dtype"

_WEIGHTS = ("FEWEST_STEPS", "SMALLEST_WEIGHT")
_THIN = ("THIN_PRODUCT_TERMS", "LARGE_STACK", "SMALLEST_SUNK_PRODUCT")  # better computed in each step
_SUMS = ("LARGEST_HOISTED_PRODUCT", "MOST_EXTRA_BYTES")
_SLICES = ("SMALLEST_SUNK_SLICE", "QUOTIENT_OPERATIONS", *_THIN)
_CHAIN = ("LEAST_SAVED", "OPERATIONS_MEANWHILE", "COEFFICIENT_OPERATIONS")
_RECURRENCE = (*_CHAIN, "LARGEST_COEFFICIENT_STACKS", "MOST_IN_PAIRS")

MOVES: tuple[ScanMove, ...] = (
    ScanMove("stacks computed slice by slice", "inside", "unknown", compute_inside, _SLICES, _EACH_STEP),
    ScanMove("loop-invariant code", "before", "any", hoist_invariants, (), _ONCE),
    ScanMove("starts from first slices", "laid out", "known", start_from_first_slices, (), "x + 0 at other steps"),
    ScanMove("small products", "before", "known", hoist_products, (*_SUMS, *_THIN), _JOINT),
    ScanMove("sums over steps", "after", "known", sink_sums, _SUMS, _JOINT),
    ScanMove("transposed weights", "laid out", "known", transpose_weights, _WEIGHTS, _SAME),
    ScanMove("stacks given on", "laid out", "known", give_stacks_on, (), _SAME),
    ScanMove("linear recurrences", "before", "known", rewrite_linear_recurrence, _RECURRENCE, _LINEAR),
)
"""In this order. Each sees what those before it have left."""
