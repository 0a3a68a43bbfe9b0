"""Sorting under JAX's names.

Knows the primitives and how operands are taken.

Args:
    dimension: the axis, or several.

Shapes:
    The elements keep their dtype, and the result has the shape that the function says: an axis that is sorted,
    reversed or updated keeps its size.

Raises:
    DTypeError: an operand is no array.
    ShapeError: an array has no such axis, or operands differ in shape.
    ArgumentError: more elements are asked for than the axis has, or an option that there is not.
"""

from __future__ import annotations

from typing import Any

from functad.dtypes import kind_of
from functad.errors import ArgumentError, ShapeError
from functad.evaluation import aval_of
from functad.lax.operands import axis_of, bind_checked
from functad.lax.operands import operand as _operand
from functad.primitives import elementwise as el
from functad.primitives import sorting


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sort an array, or several of one shape together, along an axis in ascending order; NaN comes last.

    Args:
        operand: an array, or a tuple or list of arrays of one shape.
        dimension: the axis.
        is_stable: whether equal keys keep their order (they always do).
        num_keys: how many of several arrays are compared, the first one first.

    Returns:
        An array, or a tuple of them.

    >>> import numpy as np
    >>> sort((np.int32([3, 1, 2]), np.int32([0, 1, 2])))
    (Array([1, 2, 3], dtype=int32), Array([1, 2, 0], dtype=int32))
    """
    several = isinstance(operand, (tuple, list))
    operands = [_operand("sort", x) for x in (operand if several else (operand,))]
    if not operands:
        raise ShapeError("lax.sort needs at least one operand, but was given none")
    axis = axis_of("sort", dimension, aval_of(operands[0]).ndim)
    results = bind_checked(sorting.sort_p, *operands, dimension=axis, is_stable=is_stable, num_keys=num_keys)
    return tuple(results) if several else results[0]


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> tuple[Any, Any]:
    """Sort keys along an axis, and values of the same shape along with them.

    >>> import numpy as np
    >>> sort_key_val(np.int32([3, 1]), np.int32([7, 8]))
    (Array([1, 3], dtype=int32), Array([8, 7], dtype=int32))
    """
    keys, values = sort((keys, values), dimension, is_stable, num_keys=1)
    return keys, values


def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Any]:
    """The k largest elements along an axis, in descending order, and their positions; NaN counts as largest.

    Args:
        operand: a real array.
        k: how many.
        axis: the axis.

    Returns:
        The elements, and their positions as int32; of equal elements the first comes first.

    >>> import numpy as np
    >>> top_k(np.int32([3, 5, 4]), 2)
    [Array([5, 4], dtype=int32), Array([1, 2], dtype=int32)]
    """
    x = _operand("top_k", operand)
    return list(bind_checked(sorting.top_k_p, x, k=k, axis=axis_of("top_k", axis, aval_of(x).ndim)))


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:
    """The k largest elements along an axis and their positions: exactly, so that `recall_target` has no effect.

    >>> import numpy as np
    >>> approx_max_k(np.float32([3, 5, 4]), 2)
    (Array([5., 4.], dtype=float32), Array([1, 2], dtype=int32))
    """
    _must_aggregate("approx_max_k", aggregate_to_topk)
    values, places = top_k(operand, k, axis=reduction_dimension)
    return values, places


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:
    """The k smallest elements along an axis and their positions: exactly, so that `recall_target` has no effect.

    >>> import numpy as np
    >>> approx_min_k(np.float32([3, 5, 4]), 2)
    (Array([3., 4.], dtype=float32), Array([0, 2], dtype=int32))
    """
    _must_aggregate("approx_min_k", aggregate_to_topk)
    x = _operand("approx_min_k", operand)
    reversed_order = el.neg if kind_of(aval_of(x).dtype) == "f" else el.not_  # −x overflows
    values, places = top_k(reversed_order(x), k, axis=reduction_dimension)
    return reversed_order(values), places


def _must_aggregate(name: str, aggregate_to_topk: bool) -> None:
    if not aggregate_to_topk:
        raise ArgumentError(f"lax.{name}: the {name[7:10]} k elements are found at once: leave aggregate_to_topk True")
