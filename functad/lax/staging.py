"""What JAX names, stages or chooses by platform: on one CPU, plain functions.

Knows functions and values; no primitives.

Shapes:
    The elements keep their dtype, and the result has the shape that the function says: an axis that is sorted,
    reversed or updated keeps its size.

Raises:
    DTypeError: an operand is no array.
    ArgumentError: what should be a function is none, or there is no case for this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.api.inspection import named_call
from functad.array import Array
from functad.errors import ArgumentError
from functad.lax.operands import integers_of, operand
from functad.numpy.promotion import asarray


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """The function itself: no compiler here knows a composite by its name, which its equations carry.

    Args:
        decomposition: a function of arrays, and of options as keywords.
        name: what to call it.
        version: accepted for JAX's sake.

    >>> composite(lambda x: x + 1, "my.successor")(2)
    3
    """
    return named_call(decomposition, name=name)


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """`cpu(*args)`, or `default(*args)` where there is no function for the CPU.

    Args:
        args: pytrees of arrays.
        default: the function for all other platforms.
        per_platform: functions by the name of their platform: cpu, cuda, tpu, …

    >>> platform_dependent(2.0, cpu=lambda x: x + 1, default=lambda x: x)
    3.0
    """
    chosen = per_platform.get("cpu", default)
    if chosen is None:
        raise ArgumentError(f"lax.platform_dependent: give cpu= or default= beside {', '.join(per_platform)}")
    return chosen(*args)


def dtype(x: Any) -> np.dtype:
    """The dtype of an array or number; a dtype, or a class that stands for one, is its own.

    >>> dtype(1.0), dtype(dtype(1))
    (dtype('float32'), dtype('int32'))
    """
    return dtypes.as_dtype(x) if isinstance(x, (type, np.dtype)) else dtypes.dtype_of(x)[0]


def stage(x: Any, /) -> Array:
    """An array or number as an Array of this library.

    >>> stage(1)
    Array(1, dtype=int32, weak_type=True)
    """
    return asarray(operand("stage", x))


def shape_as_value(shape: Sequence[int]) -> Array:
    """A shape as an array of int32.

    >>> shape_as_value((2, 3))
    Array([2, 3], dtype=int32)
    """
    return asarray(np.array(integers_of("shape_as_value", "shape", shape), np.int32))
