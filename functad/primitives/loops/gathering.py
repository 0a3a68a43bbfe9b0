"""Where each element of a gather comes from.

Knows dimension numbers and index arithmetic; no loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.primitives.dimension_numbers import GatherDimensionNumbers, GatherScatterMode
from functad.primitives.kernels.indexing import default_fill_value
from functad.primitives.loops.moving import Index, clamped_text
from functad.primitives.loops.text import constant_text


def gather_rule(
    context: Any,
    index: Index,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    mode: GatherScatterMode,
    fill_value: Any,
    **_: Any,
) -> str:
    numbers, operand, indices = dimension_numbers, context.avals[0], context.avals[1]
    fill = constant_text(default_fill_value(operand.dtype) if fill_value is None else fill_value, operand.dtype)
    if operand.size == 0:
        return fill
    zero = context.flat(index) * 0
    batch = [i for d, i in enumerate(index) if d not in numbers.offset_dims]
    offsets = iter([index[d] for d in numbers.offset_dims])
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    source = [zero if d in dropped else next(offsets) for d in range(operand.ndim)]
    for d, axis in zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims):
        source[d] = batch[axis]
    conditions = []
    for component, d in enumerate(numbers.start_index_map):
        last = operand.shape[d] - slice_sizes[d]
        number = context.read(1, (*batch, zero + component))
        if mode is GatherScatterMode.FILL_OR_DROP:
            conditions += fits(number, indices.dtype, last)
        if last:
            start = context.let(clamped_text(number, indices.dtype, last))
            source[d] = source[d] + context.index(start, 0, last)
    element = str(context.read(0, tuple(source)))
    return f"where({' & '.join(conditions)}, {element}, {fill})" if conditions else element


def fits(number: str, dtype: np.dtype, last: int) -> list[str]:
    """The conditions under which an integer of the given dtype lies in `0..last`."""
    above = [] if last >= np.iinfo(dtype).max else [f"({number} <= {constant_text(last, dtype)})"]
    return above if kind_of(dtype) == "u" else [f"({number} >= 0)", *above]
