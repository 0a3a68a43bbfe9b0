"""Built-in functions of Python made of compiled code, bound to words of their own.

Knows how Python calls C functions; not what they compute.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.backends.cpu.compile import objects

METH_O, METH_FASTCALL = 0x0008, 0x0080  # called with one object; with an array of objects, and how many


class BuiltIn:
    """What built-in functions are made of that run the same compiled code. It must live longer than they do.

    name: of a compiled function whose first parameter is a frame, an ndarray of words; convention: METH_O or
    METH_FASTCALL.
    """

    def __init__(self, compiled: objects.LoadedObject, name: str, convention: int) -> None:
        self._compiled = compiled
        self._record = _MethodDefinition(b"run", compiled.addresses[name], convention, None)

    def bound(self, words: Sequence[int], *kept: Any) -> Callable[..., Any]:
        """A function with these words, which keeps what they point to."""
        frame = np.array(words, np.int64).view(_Frame)
        frame.kept = kept
        return _new_function(ctypes.byref(self._record), frame, None)


class _Frame(np.ndarray[Any, Any]):
    """Words, which keep what they point to."""

    kept: tuple[Any, ...]


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef of Python's stable ABI."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
