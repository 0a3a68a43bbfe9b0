"""A rule for scatters that write one element of each row of zeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functad import machine_model
from functad.editing.rewriting import View, spliced
from functad.ir import Eqn
from functad.optimize.algebra import is_zeros
from functad.primitives.arithmetic import add
from functad.primitives.common import broadcast_in_dim, full, reshape, scalar_like
from functad.primitives.dimension_numbers import GatherScatterMode
from functad.primitives.logic import eq, select_n
from functad.primitives.ordering import wide_indices
from functad.primitives.structure import iota


def one_of_each_row(eqn: Eqn, view: View) -> list[Eqn] | None:
    """A choice instead of a scatter: the derivative of picking a label's score."""
    operand, indices, updates = eqn.invars
    numbers = eqn.params["dimension_numbers"]
    shape, rows_at = operand.aval.shape, numbers.operand_batching_dims
    most = machine_model.LARGEST_ONE_HOT
    if not (
        is_zeros(operand, view)
        and len(numbers.inserted_window_dims) == 1
        and numbers.scatter_dims_to_operand_dims == numbers.inserted_window_dims
        and not numbers.update_window_dims
        and len(rows_at) == len(shape) - 1
        and updates.aval.size == indices.aval.size == math.prod(shape[d] for d in rows_at)  # one for each row
        and list(numbers.scatter_indices_batching_dims) == sorted(numbers.scatter_indices_batching_dims)
        and shape[numbers.inserted_window_dims[0]] <= min(most, np.iinfo(indices.aval.dtype).max)
        and eqn.params["mode"] is not GatherScatterMode.CLIP
    ):
        return None
    axis = numbers.inserted_window_dims[0]
    rows = tuple(shape[d] for d in rows_at)

    def choose(indices: Any, updates: Any) -> list[Any]:
        indices = wide_indices(indices, shape[axis])
        places = broadcast_in_dim(reshape(indices, rows), shape=shape, broadcast_dimensions=rows_at)
        values = add(reshape(updates, rows), scalar_like(updates, 0))  # 0 + −0 is 0
        values = broadcast_in_dim(values, shape=shape, broadcast_dimensions=rows_at)
        here = eq(iota(indices.dtype, shape, axis), places)
        return [select_n(here, full(shape, scalar_like(updates, 0)), values)]

    return spliced(choose, [indices, updates], eqn)
