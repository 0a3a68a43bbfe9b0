"""Functions that compute in 64 bits and round once, so that what cancels in them costs 32 bits nothing.

Knows dtypes only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.errors import DTypeError
from functad.evaluation import aval_of
from functad.numpy.promotion import convert, promote_args_inexact
from functad.tree_util import tree_map


def in_float64(
    name: str,
    function: Callable[..., Any],
    *args: Any,
    of_complex: Callable[..., Any] | None = None,
    stays_weak: bool = False,
) -> Any:
    """function(*args) with the operands as float64 arrays of one shape or rank 0, the results in their joint dtype.

    of_complex: what to call instead with complex ones, as complex128.
    stays_weak: whether the results of weak real numbers are weak, as JAX's are in some of these functions.
    """
    operands = promote_args_inexact(name, *args)
    aval = aval_of(operands[0])
    wide: np.dtype = np.dtype(np.float64)
    if kind_of(aval.dtype) == "c" and of_complex is not None:
        wide, function, stays_weak = np.dtype(np.complex128), of_complex, False
    elif kind_of(aval.dtype) == "c":
        raise DTypeError(f"{name} takes real numbers, but was given {aval.str_short()}; take x.real, or abs(x)")
    out = function(*[convert(x, wide, aval.weak_type) for x in operands])
    weak = stays_weak and aval.weak_type
    return tree_map(lambda x: convert(x, aval.dtype, weak), out)
