"""The tuned numbers of passes, and smaller ones that random programs reach on either side.

Knows names of numbers of `functad.machine_model`.
"""

from __future__ import annotations

import random
from typing import Any

OTHERS: dict[str, tuple[Any, ...]] = {
    "POINTS_WORTH_PARTS": (1, 16),
    "POINTS_WORTH_LANES": (1, 16),
    "LONGEST_SUM": (2, 5),
    "UPDATES_WORTH_WIDTH": (0, 1),
    "NARROW_SUMS": (2,),
    "SUMS_AT_ONCE": (4,),
    "LARGEST_NEST": (5, 1),
    "LARGEST_INLINE": (3, 1),
    "DEEPEST_INLINE": (2,),
    "SMALLEST_RECOMPUTED": (1,),
    "LARGEST_RECOMPUTED": (60, 1),
    "SMALLEST_ANEW": (1,),
    "SMALLEST_PAIRS": (1,),
    "ELEMENTS_FROM_ONE": (0, 1),
    "LARGEST_WAIT": (100, 0),
    "FEWEST_ROWS": (1, 2),
    "SMALLEST_SHARE": (1.0,),
    "SMALLEST_CHUNK": (1.0, 50.0),
    "FEWEST_ROWS_OF_PRODUCTS": (1,),
    "LONGEST_STEP": (1.0,),
    "COMPARISONS_OF_SEARCH": (0,),
    "MOST_JOINED": (2,),
    "LARGEST_REST": (10.0,),
    "SMALLEST_SHIFTED_SLICE": (1,),
    "LARGEST_SMALL_PRODUCT": (0, 2000),
    "MOST_SUMMED_AT_ONCE": (0, 2, 20),
    "MOST_SUMMED_IN_ORDER": (0, 20),
    "MOST_STATEMENTS_AT_ONCE": (4, 1000),
    "LONGEST_WRITTEN_OUT": (0, 20),
    "LONGEST_FUNCTIONS_WRITTEN_OUT": (0, 20),
    "FEW_STEPS": (0, 4),
    "EXTREMUM_BLOCK": (8,),
    "SQUARE_SIDES": ((2,), (4, 2)),
    "MOST_VARIABLES": (1, 64),
    "MOST_STATEMENTS": (1, 20),
    "LONGEST_SMALL_STEP": (0.0, 1e9),
    "COPIED_WEIGHT_ROWS": (1,),
    "COPIED_WEIGHT_BYTES_A_ROW": (1,),
    "COPIED_WEIGHT_PRODUCT": (1,),
    "FEWEST_COLUMNS": (1,),
    "PRODUCT_CHUNK": (1.0,),
    "PRODUCT_CHUNK_EXTENT": (2,),
    "UNROLLED_STEPS": (0, 20),
    "UNROLLED_EQUATIONS": (0, 2000),
    "SMALLEST_SUNK_SLICE": (0,),
    "FEWEST_STEPS": (1,),
    "SMALLEST_WEIGHT": (1,),
    "LARGEST_HOISTED_PRODUCT": (0.0,),
    "LEAST_SAVED": (0, 1),
    "MOST_IN_PAIRS": (0, 1),
    "DEEPEST_RECOMPUTATION": (0, 1),
    "GATHERED_USES": (0,),
    "GATHERED_ROW": (0,),
    "GATHERED_PRODUCT": (0.0,),
    "LARGEST_ONE_HOT": (0, 2),
    "SHARED_ROW_BYTES": (0,),
    "ELEMENTS_WORTH_THREADS": (1,),
    "UPDATES_OF_PART": (1,),
    "PARTED_ROW": (1, 20),
    "PARTED_ROW_ALONE": (1, 20),
    "FEWEST_NETWORK_ROWS": (1, 1000),
    "LEVELLED_ROW": (0, 20),
    "LEVEL_MOVES": (0, 1),
    "NUMPY_SORTED_ROW": (1,),
}


def drawn(choose: random.Random) -> dict[str, Any]:
    """Other values for some of the numbers; at times for none."""
    share = choose.choice([0.0, 0.2, 0.5, 1.0])
    return {name: choose.choice(others) for name, others in OTHERS.items() if choose.random() < share}
