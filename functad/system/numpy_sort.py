"""Where NumPy's own sorts of numbers lie, for code that calls them without Python.

Knows the tables of NumPy's C interface (`PyArray_ArrFuncs`), whose layout is the same for all NumPy 2; not who calls.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from functad.system.numpy_interface import c_functions

_GET_FUNCTIONS = 365  # the place of PyDataType_GetArrFuncs in NumPy's table of C functions
_BEFORE_SORTS = 21 + 12  # 21 casts and 12 other functions
# With these instructions NumPy sorts numbers of 32 and 64 bits by vectors, by others one by one.
_VECTORS = ("AVX2", "ASIMD")


@cache
def is_fast(dtype: Any) -> bool:
    """Whether NumPy sorts the dtype by vectors, in a function that can be called."""
    kind = np.dtype(dtype)
    if kind.kind not in "iuf" or kind.itemsize not in (4, 8) or not sort_address(kind):
        return False
    features = np._core._multiarray_umath.__cpu_features__  # type: ignore[attr-defined]
    return any(features.get(name) for name in _VECTORS)


@cache
def sort_address(dtype: Any) -> int:
    """Where the sort lies that is not stable, 0 if that is not known.

    It takes the address of the first element, how many there are, and a word that it does not look at.
    """
    table = c_functions()
    if table is None:
        return 0
    functions = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(table[_GET_FUNCTIONS])(np.dtype(dtype))
    return (ctypes.c_void_p * (_BEFORE_SORTS + 1)).from_address(functions)[_BEFORE_SORTS] or 0


@cache
def sort_word(dtype: Any) -> np.ndarray[Any, Any]:
    """The word through which compiled code calls the sort."""
    return np.array([sort_address(dtype)], np.int64)
