"""All that is done to one scan, as a table of contents: what leaves it, goes into it, and how it is laid out.

Knows the moves by name; each stands beside what it is about. What makes one loop of two stands in `scan_fusion.py` and
`merged_whiles.py`, and what goes from all Programs around into their scans in `sinking.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from functad.ir import UNKNOWN, Atom, Eqn, Program, Var
from functad.optimize.loops.invariants import fix_invariant_carries, hoist_invariants, share_operands
from functad.optimize.loops.linear_recurrences import shorten_chains
from functad.optimize.loops.parts import Scan, take_apart
from functad.optimize.loops.products import hoist_products, sink_sums
from functad.optimize.loops.stacks import compute_inside, fill_inside
from functad.optimize.loops.starts import start_from_first_slices
from functad.optimize.loops.weights import transpose_weights


@dataclass
class MovedScan:
    """A scan in the middle of its moves.

    simplify: the optimiser, for bodies. definitions: the equations around that its operands come from. before, after:
    what is computed once, in front of the loop or behind it. results: what stands for each result of the scan.
    """

    scan: Scan
    simplify: Callable[[Program], Program]
    definitions: dict[Var, Eqn]
    results: dict[Var, Atom]
    before: list[Eqn] = field(default_factory=list)
    after: list[Eqn] = field(default_factory=list)


class ScanMove(NamedTuple):
    """A change of a scan that keeps its results.

    way: where work goes. lengths: of which scans, those of known lengths or those over the stacks of a `while`.
    because: why the results are the same.
    """

    name: str
    way: Literal["before", "after", "inside", "laid out"]
    lengths: Literal["known", "unknown", "any"]
    apply: Callable[[MovedScan], None]
    because: str

    def fits(self, scan: Scan) -> bool:
        return self.lengths == "any" or (self.lengths == "unknown") == (scan.length == UNKNOWN)


def _compute_inside(loop: MovedScan) -> None:
    compute_inside(loop.scan, loop.definitions)
    loop.scan = take_apart(loop.scan.eqn(loop.simplify(loop.scan.body())))


_EACH_STEP = "each step computes the same from the same slices"
_ONCE = "it is the same at every step"
_SAME = "the same numbers, otherwise laid out"
_JOINT = "the same sums of the same products, in another order where a sum goes over steps"

MOVES: tuple[ScanMove, ...] = (
    ScanMove("stacks computed slice by slice", "inside", "unknown", _compute_inside, _EACH_STEP),
    ScanMove("constant carries", "before", "any", lambda loop: fix_invariant_carries(loop.scan, loop.results), _ONCE),
    ScanMove("repeated numbers", "inside", "any", lambda loop: fill_inside(loop.scan, loop.definitions), _EACH_STEP),
    ScanMove("loop-invariant code", "before", "any", lambda loop: hoist_invariants(loop.scan, loop.before), _ONCE),
    ScanMove(
        "starts from first slices", "laid out", "known",
        lambda loop: start_from_first_slices(loop.scan, loop.before, loop.definitions), "x + 0 at other steps",
    ),
    ScanMove("small products", "before", "known", lambda loop: hoist_products(loop.scan, loop.before), _JOINT),
    ScanMove("sums over steps", "after", "known", lambda loop: sink_sums(loop.scan, loop.after, loop.results), _JOINT),
    ScanMove("transposed weights", "laid out", "known", lambda loop: transpose_weights(loop.scan, loop.before), _SAME),
    ScanMove(
        "linear recurrences", "before", "any",
        lambda loop: shorten_chains(loop.scan, loop.before, loop.after, loop.results, loop.simplify),
        "derivatives only; as written where a number could leave the range of its dtype",
    ),
    ScanMove("operands once", "laid out", "any", lambda loop: share_operands(loop.scan, loop.results), _ONCE),
)  # fmt: skip
"""In this order. Each sees what those before it have left."""


def moved(scan: Scan, simplify: Callable[[Program], Program], definitions: dict[Var, Eqn]) -> MovedScan:
    """A scan after all moves that fit it, with what they have put around it."""
    loop = MovedScan(scan, simplify, definitions, {v: v for v in scan.origin.outvars})
    for move in MOVES:
        if move.fits(loop.scan):
            move.apply(loop)
    return loop


def standing_for(results: Mapping[Var, Atom], atom: Atom) -> Atom:
    """What stands for an atom, when what stands for it may itself be replaced."""
    while isinstance(atom, Var) and results.get(atom, atom) is not atom:
        atom = results[atom]
    return atom
