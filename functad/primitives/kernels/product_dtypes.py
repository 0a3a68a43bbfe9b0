"""The dtypes of products of arrays, and of convolutions: which a result may have, and in which it is summed.

It must not know the products themselves.
"""

from __future__ import annotations

import numpy as np

from functad.dtypes import compute_dtype, kind_of
from functad.errors import DTypeError

_RANKS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def check_preferred(name: str, dtype: np.dtype, preferred: np.dtype | None) -> None:
    """Raise where sums of products of the dtype do not fit in `preferred_element_type`."""
    if preferred is not None and _RANKS[kind_of(preferred)] < _RANKS[kind_of(dtype)]:
        raise DTypeError(
            f"{name}: preferred_element_type={preferred} cannot hold sums of {dtype}; leave it out, and convert the "
            "result if you want that dtype"
        )


def wide_for(dtype: np.dtype, result: np.dtype) -> np.dtype:
    """The dtype in which products of operands of one dtype are summed for a result of another.

    >>> wide_for(np.dtype("float16"), np.dtype("float16")), wide_for(np.dtype("uint64"), np.dtype("int64"))
    (dtype('float32'), dtype('int64'))
    """
    if kind_of(dtype) in "iu" and kind_of(result) in "iu":
        return result  # uint64 and int64 have no integer in common; modulo 2**64 nothing is lost
    return np.promote_types(compute_dtype(dtype), compute_dtype(result))
