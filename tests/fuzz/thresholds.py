"""The tuned numbers of passes, and smaller ones that random programs reach on either side.

Knows where each number stands: as a constant of the module that reads it, at each use.
"""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any, NamedTuple

from functad.backends.cpu.kernels import emit, generate, small_loops, tile, weights
from functad.backends.cpu.products import gemm
from functad.editing import partial_evaluation
from functad.lowering import blocks as plan
from functad.lowering import schedule
from functad.lowering.fusion import fuse, inlining, small_products
from functad.lowering.fusion import joins as parts
from functad.lowering.fusion import order as unit_order
from functad.lowering.memory import shifted_stacks
from functad.lowering.nests import split
from functad.optimize import gathered_products, scatters
from functad.optimize.loops import linear_recurrences as linear_loops
from functad.optimize.loops import passes as loop_passes
from functad.optimize.loops import products as loop_products
from functad.optimize.loops import sinking as loop_sinking
from functad.optimize.loops import weights as loop_weights


class Threshold(NamedTuple):
    module: ModuleType
    name: str
    others: tuple[Any, ...]


THRESHOLDS = (
    Threshold(split, "WORTH_THREADS", (1, 16)),
    Threshold(split, "WORTH_LANES", (1, 16)),
    Threshold(split, "NARROW", (2,)),
    Threshold(split, "LANES", (4,)),
    Threshold(fuse, "LARGEST_NEST", (5, 1)),
    Threshold(inlining, "LARGEST_INLINE", (3, 1)),
    Threshold(inlining, "DEEPEST_INLINE", (2,)),
    Threshold(unit_order, "LARGEST_WAIT", (100, 0)),
    Threshold(plan, "FEWEST_ROWS", (1, 2)),
    Threshold(plan, "SMALLEST_SHARE", (1.0,)),
    Threshold(plan, "CHUNK", (1.0, 50.0)),
    Threshold(plan, "FEWEST_ROWS_OF_PRODUCTS", (1,)),
    Threshold(plan, "LONGEST_STEP", (1.0,)),
    Threshold(schedule, "MOST_TOGETHER", (2,)),
    Threshold(parts, "LARGEST_REST", (10.0,)),
    Threshold(shifted_stacks, "SMALLEST_SLICE", (1,)),
    Threshold(small_products, "MOST_POINTS", (0, 2000)),
    Threshold(tile, "SIDE", (2, 3)),
    Threshold(small_loops, "MOST_ELEMENTS", (1, 64)),
    Threshold(small_loops, "MOST_STATEMENTS", (1, 20)),
    Threshold(generate, "LONGEST_SMALL_STEP", (0.0, 1e9)),
    Threshold(weights, "FEWEST_ROWS", (1,)),
    Threshold(weights, "BYTES_A_ROW", (1,)),
    Threshold(weights, "SMALLEST_PRODUCT", (1,)),
    Threshold(emit, "_FEWEST_COLUMNS", (1,)),
    Threshold(gemm, "_CHUNK_WORK", (1.0,)),
    Threshold(gemm, "_CHUNK_EXTENT", (2,)),
    Threshold(loop_passes, "UNROLLED_STEPS", (0, 20)),
    Threshold(loop_passes, "UNROLLED_EQUATIONS", (0, 2000)),
    Threshold(loop_sinking, "SMALLEST_SLICE", (0,)),
    Threshold(loop_weights, "FEWEST_STEPS", (1,)),
    Threshold(loop_weights, "SMALLEST", (1,)),
    Threshold(loop_products, "SMALL_PRODUCT", (0.0,)),
    Threshold(linear_loops, "LEAST_SAVED", (0, 1)),
    Threshold(linear_loops, "MOST_IN_PAIRS", (0, 1)),
    Threshold(partial_evaluation, "DEEPEST_RECOMPUTATION", (0, 1)),
    Threshold(gathered_products, "FEWEST_USES", (0,)),
    Threshold(gathered_products, "SHORTEST_ROW", (0,)),
    Threshold(gathered_products, "SMALLEST_PRODUCT", (0.0,)),
    Threshold(scatters, "LARGEST_ONE_HOT", (0, 2)),
)


def drawn(choose: random.Random) -> dict[str, Any]:
    """Other values for some of the numbers, by their full names; at times for none."""
    share = choose.choice([0.0, 0.2, 0.5, 1.0])
    return {f"{t.module.__name__}.{t.name}": choose.choice(t.others) for t in THRESHOLDS if choose.random() < share}
