"""Indexing with computed positions: all of it under one name, for the layers above.

Knows nothing itself; the operations are in `gather_scatter` and `dynamic_slicing`.
"""

from __future__ import annotations

from functad.primitives.dimension_numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from functad.primitives.dynamic_slicing import dynamic_slice, dynamic_update_slice
from functad.primitives.gather_scatter import (
    gather,
    gather_along,
    scatter,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
)

__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "dynamic_slice",
    "dynamic_update_slice",
    "gather",
    "gather_along",
    "scatter",
    "scatter_add",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
]
