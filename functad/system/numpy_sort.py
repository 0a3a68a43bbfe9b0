"""Where NumPy's own sorts of numbers lie, for code that calls them without Python.

Knows the tables of NumPy's C interface (`PyArray_ArrFuncs`), whose layout is the same for all NumPy 2; not who calls.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy._core import _multiarray_umath as _umath  # type: ignore[attr-defined]

_ABI, _VERSION, _GET_FUNCTIONS = 0x2000000, 0, 365  # of NumPy 2; places in the table of the interface
_BEFORE_SORTS = 21 + 12  # 21 casts and 12 other functions
# With these instructions NumPy sorts numbers of 32 and 64 bits by vectors, by others one by one.
_VECTORS = ("AVX2", "ASIMD")


@cache
def is_fast(dtype: Any) -> bool:
    """Whether NumPy sorts the dtype by vectors, in a function that can be called."""
    kind = np.dtype(dtype)
    has_vectors = any(_umath.__cpu_features__.get(name) for name in _VECTORS)
    return kind.kind in "iuf" and kind.itemsize in (4, 8) and has_vectors and bool(address(kind))


@cache
def address(dtype: Any) -> int:
    """Where the sort lies that is not stable, 0 if that is not known.

    It takes the address of the first element, how many there are, and a word that it does not look at.
    """
    try:
        capsule = _umath._ARRAY_API
    except AttributeError:
        return 0
    table = _table(capsule)
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(table[_VERSION])()
    if version != _ABI:
        return 0
    functions = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(table[_GET_FUNCTIONS])(np.dtype(dtype))
    return (ctypes.c_void_p * (_BEFORE_SORTS + 1)).from_address(functions)[_BEFORE_SORTS] or 0


def _table(capsule: Any) -> Any:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return (ctypes.c_void_p * (_GET_FUNCTIONS + 1)).from_address(pointer(capsule, None))


@cache
def handle(dtype: Any) -> np.ndarray[Any, Any]:
    """The word through which compiled code calls the sort."""
    return np.array([address(dtype)], np.int64)
