"""The tuned numbers of passes, and smaller ones that random programs reach on either side.

Knows where each number stands: as a constant of the module that reads it, at each use.
"""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any, NamedTuple

from functad import machine_model
from functad.backends.cpu.kernels import emit, generate, small_loops, tile, weights
from functad.backends.cpu.products import gemm


class Threshold(NamedTuple):
    module: ModuleType
    name: str
    others: tuple[Any, ...]


THRESHOLDS = (
    Threshold(machine_model, "POINTS_WORTH_PARTS", (1, 16)),
    Threshold(machine_model, "POINTS_WORTH_LANES", (1, 16)),
    Threshold(machine_model, "NARROW_SUMS", (2,)),
    Threshold(machine_model, "SUMS_AT_ONCE", (4,)),
    Threshold(machine_model, "LARGEST_NEST", (5, 1)),
    Threshold(machine_model, "LARGEST_INLINE", (3, 1)),
    Threshold(machine_model, "DEEPEST_INLINE", (2,)),
    Threshold(machine_model, "LARGEST_WAIT", (100, 0)),
    Threshold(machine_model, "FEWEST_ROWS", (1, 2)),
    Threshold(machine_model, "SMALLEST_SHARE", (1.0,)),
    Threshold(machine_model, "SMALLEST_CHUNK", (1.0, 50.0)),
    Threshold(machine_model, "FEWEST_ROWS_OF_PRODUCTS", (1,)),
    Threshold(machine_model, "LONGEST_STEP", (1.0,)),
    Threshold(machine_model, "MOST_JOINED", (2,)),
    Threshold(machine_model, "LARGEST_REST", (10.0,)),
    Threshold(machine_model, "SMALLEST_SHIFTED_SLICE", (1,)),
    Threshold(machine_model, "LARGEST_SMALL_PRODUCT", (0, 2000)),
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
    Threshold(machine_model, "UNROLLED_STEPS", (0, 20)),
    Threshold(machine_model, "UNROLLED_EQUATIONS", (0, 2000)),
    Threshold(machine_model, "SMALLEST_SUNK_SLICE", (0,)),
    Threshold(machine_model, "FEWEST_STEPS", (1,)),
    Threshold(machine_model, "SMALLEST_WEIGHT", (1,)),
    Threshold(machine_model, "LARGEST_HOISTED_PRODUCT", (0.0,)),
    Threshold(machine_model, "LEAST_SAVED", (0, 1)),
    Threshold(machine_model, "MOST_IN_PAIRS", (0, 1)),
    Threshold(machine_model, "DEEPEST_RECOMPUTATION", (0, 1)),
    Threshold(machine_model, "GATHERED_USES", (0,)),
    Threshold(machine_model, "GATHERED_ROW", (0,)),
    Threshold(machine_model, "GATHERED_PRODUCT", (0.0,)),
    Threshold(machine_model, "LARGEST_ONE_HOT", (0, 2)),
)


def drawn(choose: random.Random) -> dict[str, Any]:
    """Other values for some of the numbers, by their full names; at times for none."""
    share = choose.choice([0.0, 0.2, 0.5, 1.0])
    return {f"{t.module.__name__}.{t.name}": choose.choice(t.others) for t in THRESHOLDS if choose.random() < share}
