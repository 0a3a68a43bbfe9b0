"""How Python, NumPy and functad's Arrays lie in memory, as far as compiled code looks there: told, and verified.

Knows layouts of objects and addresses of their makers; not who uses them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.array import ArrayImpl
from functad.backends.cpu.runtime import layout as w
from functad.system.freed_memory import AlignedMemory
from functad.system.numpy_interface import c_functions

_NEW_ARRAY = 94  # the place of PyArray_NewFromDescr in NumPy's table of C functions


def layout_problem() -> str:
    """Why compiled code may not look into lists and arrays itself; empty if it may."""
    if sys.implementation.name != "cpython":
        return f"{sys.implementation.name} lays out its objects in its own way"
    head = object.__basicsize__
    if np.ndarray.__basicsize__ < head + 56:
        return "numpy.ndarray is smaller than expected"
    matrix = np.zeros((3, 4), np.float32)
    arrays = [matrix, matrix[1:], matrix.T, np.zeros(5, np.int8)[1:4], np.array(2.0), matrix[:0]]
    for array in arrays:
        place = id(array)
        if ctypes.c_int64.from_address(place + head - 8).value != id(np.ndarray):
            return "an object's type does not lie at the end of its head"
        if ctypes.c_int64.from_address(place + head).value != array.__array_interface__["data"][0]:
            return "an array's address does not lie where expected"
        if ctypes.c_int.from_address(place + head + 48).value & 0x0101 != array.flags.num & 0x0101:
            return "an array's flags do not lie where expected"
    if ctypes.c_int64.from_address(id(arrays) + head).value != len(arrays):
        return "a list's length does not lie where expected"
    items = (ctypes.c_int64 * len(arrays)).from_address(ctypes.c_int64.from_address(id(arrays) + head + 8).value)
    if list(items) != [id(array) for array in arrays]:
        return "a list's items do not lie where expected"
    return ""


def tell_makers(words: Any) -> str:
    """Write to the pool's words how Arrays are made; returns why compiled code may not make them, or an empty text."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "other threads may change an Array while it is looked at"
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "words are not those of a 64-bit little-endian machine"
    functions = c_functions()
    if functions is None:
        return "NumPy has another table of C functions than expected"
    places = places_of_slots(ArrayImpl(np.zeros(1)), ("_value", "_aval", "weak_type"))
    if None in places:
        return "an Array's slots do not lie where expected"
    api = ctypes.pythonapi
    for place, function in (
        (w.INCREF, api.Py_IncRef),
        (w.CLEAR_ERROR, api.PyErr_Clear),
        (w.NEW_INSTANCE, api.PyType_GenericAlloc),
    ):
        words[place] = ctypes.cast(function, ctypes.c_void_p).value
    words[w.NEW_ARRAY] = functions[_NEW_ARRAY]
    words[w.NONE], words[w.FLOAT_TYPE], words[w.IMPL_TYPE] = id(None), id(float), id(ArrayImpl)
    words[w.MEMORY_TYPE], words[w.MEMORY_DTYPE] = id(AlignedMemory), id(np.dtype(np.uint8))
    words[w.IMPL_VALUE], words[w.IMPL_AVAL], words[w.IMPL_WEAK] = places
    if ctypes.c_double.from_address(id(_NUMBER) + object.__basicsize__).value != _NUMBER:
        return "a float's value does not lie where expected"
    return ""


_NUMBER = 1234.5


def places_of_slots(example: Any, names: Sequence[str]) -> list[int | None]:
    """Which words of an object with slots are those of these names; None for one that is not found. It is changed."""
    words = (ctypes.c_int64 * (type(example).__basicsize__ // 8)).from_address(id(example))
    found: list[int | None] = []
    for name in names:
        mark: Any = object()
        setattr(example, name, mark)
        places = [place for place, word in enumerate(words) if word == id(mark)]
        found.append(places[0] if len(places) == 1 else None)
    return found
