"""The parameters of distributions: converted to the dtype of the numbers, and broadcast to their shape.

Knows no distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.numpy.building import as_array
from functad.numpy.promotion import broadcast_operand, canonical_shape, convert, joint_shape


def parameters(name: str, dtype: np.dtype, shape: Any, *values: Any) -> tuple[tuple[int, ...], list[Array]]:
    """The shape of the result, by default that to which the parameters broadcast, and the parameters in it."""
    arrays = [convert(as_array(name, v), dtype) for v in values]
    shapes = [a.shape for a in arrays]
    shape = joint_shape(name, shapes) if shape is None else canonical_shape(name, shape)
    for own in shapes:
        if joint_shape(name, [own, shape]) != shape:
            raise ShapeError(f"{name}: a parameter of shape {own} does not broadcast to shape={shape} of the result")
    return shape, [broadcast_operand(a, shape) for a in arrays]


def integer_dtype(name: str, dtype: Any) -> np.dtype:
    """The dtype that an argument names, checked to be one of integers."""
    dtype = dtypes.requested_dtype(int if dtype is None else dtype)
    if kind_of(dtype) not in "iu":
        raise DTypeError(f"{name}: dtype must be an integer dtype, got {dtype}; try 'int32'")
    return dtype
