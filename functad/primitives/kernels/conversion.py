"""Conversion of arrays between dtypes: what a float beyond the range of an integer dtype becomes, above all.

It must not know primitives. `ndarray.astype` leaves such conversions to the processor, whose results differ from one
machine to another, and even within an array.
"""

from __future__ import annotations

import numpy as np

from functad.dtypes import float64, is_narrow_float, kind_of, refuse_keys
from functad.primitives.kernels import scalar_formulas
from functad.primitives.kernels.plain_arithmetic import PLAIN
from functad.system.quiet import quietly


def converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """x in another dtype, itself where that is its own.

    Floats become integers by truncation; what the dtype cannot hold becomes its nearest end, and NaN 0. Floats that are
    too large for the dtype become infinite, integers wrap, and complex numbers lose their imaginary part.
    """
    x = np.asarray(x)
    if x.dtype == dtype:
        return x
    refuse_keys("conversion", dtype)
    return np.asarray(quietly(_converted, x, dtype))


def _converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if kind_of(x.dtype) == "c" and kind_of(dtype) != "c":
        x = x != 0 if kind_of(dtype) == "b" else x.real
    if is_narrow_float(x.dtype):
        x = x.astype(np.float32)
    if x.dtype == float64 and dtype.name == "bfloat16":  # which the package rounds to float32 first
        return np.asarray(scalar_formulas.bits_bf16(PLAIN, x)).view(dtype)
    if kind_of(x.dtype) == "f" and kind_of(dtype) in "iu" and not _holds_all(dtype, x):
        return np.asarray(PLAIN.cast(x, dtype))
    return x.astype(dtype, copy=False)


def _holds_all(dtype: np.dtype, x: np.ndarray) -> bool:
    """Whether truncation alone makes integers of all the floats; two passes over memory, where a formula takes many."""
    info = np.iinfo(dtype)
    return x.size == 0 or bool(x.min() >= float(info.min) and x.max() < float(info.max))
