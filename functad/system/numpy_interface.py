"""NumPy's table of C functions, for code that calls them without Python.

Knows where the table lies, and of which interface it is; not who calls what.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

_ABI = 0x02000000  # of NumPy 2: the layout of the table is the same for all of them
_ABI_PLACE = 0  # in the table, of the function that tells it


@cache
def c_functions() -> Any:
    """The addresses of the functions, by their places in the table; None where NumPy's interface is another one."""
    module = getattr(getattr(np, "_core", None), "_multiarray_umath", None)
    capsule = getattr(module, "_ARRAY_API", None)
    if capsule is None:
        return None
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    abi = ctypes.PYFUNCTYPE(ctypes.c_uint)(table[_ABI_PLACE])()
    return table if abi == _ABI else None
