"""The LAPACK routines of the library that NumPy computes with: their addresses, and calls for each matrix of a batch.

Knows names, addresses and how Fortran takes arguments; not what the routines compute.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from functad.errors import NoRuleError
from functad.system.blas_library import Blas, numpys_blas, on_one_thread

_TYPES = {"f": "s", "d": "d", "F": "c", "D": "z"}  # by the character of a dtype, for its name takes long to make
RoutineArgument = str | int | np.ndarray
LETTERS = 4
"""No routine takes more letters. Fortran compilers expect the length of each behind all arguments."""


def has(name: str, dtype: Any = np.float64) -> bool:
    """Whether there is a routine such as `getrf` for a dtype."""
    return np.dtype(dtype).char in _TYPES and _function(name, np.dtype(dtype).char) is not None


def missing(name: str, dtype: Any) -> NoRuleError:
    """What to raise where a routine is needed that there is not."""
    return NoRuleError(
        f"{name} for {np.dtype(dtype).name} is a routine of LAPACK, and no library with it was found beside NumPy; "
        "NumPy's own wheels have one (`python -m functad doctor` says which library is used)"
    )


def routine_address(name: str, dtype: Any) -> int:
    """Where a routine lies, 0 if there is none. It takes the addresses of its arguments, and behind them lengths."""
    blas, letter = numpys_blas(), _TYPES.get(np.dtype(dtype).char)
    if blas is None or letter is None or not has(name, dtype):
        return 0
    found = getattr(ctypes.CDLL(blas.path), _symbol(blas, f"{letter}{name}"))
    return ctypes.cast(found, ctypes.c_void_p).value or 0


@cache
def integer() -> np.dtype[Any]:
    """The dtype of the library's integers."""
    found = numpys_blas()
    return np.dtype(np.int64 if found is None or found.integers == 64 else np.int32)


def apply(name: str, dtype: Any, count: int, *arguments: RoutineArgument, info: bool = True) -> np.ndarray:
    """Call a routine for each matrix of a batch; returns what it says of each: 0 if all went well.

    Args:
        name: without the letter of the dtype, such as `getrf`.
        count: how many matrices there are.
        arguments: letters and integers as they are; of an array the part `array[i]` is given, in its own memory.
        info: whether its last argument is a number that says how it went.

    Raises:
        NoRuleError: there is no such routine.
    """
    function = _function(name, np.dtype(dtype).char)
    if function is None:
        raise missing(name, dtype)
    status = np.zeros(count, integer())
    kept, places, strides = [], [], []
    for argument in (*arguments, status) if info else arguments:
        if isinstance(argument, np.ndarray):
            places.append(argument.ctypes.data)
            strides.append(argument.strides[0])
        else:
            room = ctypes.c_char(argument.encode()) if isinstance(argument, str) else _INTEGERS[integer()](argument)
            kept.append(room)
            places.append(ctypes.addressof(room))
            strides.append(0)
    on_one_thread(_call_all, function, count, places, strides) if count > 1 else function(*places)
    return status


def _call_all(function: Callable[..., Any], count: int, places: list[int], strides: list[int]) -> None:
    for k in range(count):
        function(*[place + k * stride for place, stride in zip(places, strides)])


_INTEGERS: dict[Any, Any] = {np.dtype(np.int64): ctypes.c_int64, np.dtype(np.int32): ctypes.c_int32}


@cache
def _function(name: str, character: str) -> Callable[..., Any] | None:
    blas = numpys_blas()
    if blas is None:
        return None
    found = getattr(ctypes.CDLL(blas.path), _symbol(blas, f"{_TYPES[character]}{name}"), None)
    if found is None:
        return None
    found.restype = None
    found.argtypes = None
    return _with_words(found)


def _with_words(function: Any) -> Callable[..., Any]:
    """The function of addresses, as integers."""
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    prototypes: dict[int, Any] = {}

    def call(*places: int) -> None:
        made = prototypes.get(len(places))
        if made is None:
            hidden = [ctypes.c_size_t] * LETTERS
            kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(places), *hidden)
            made = prototypes[len(places)] = kind(address)
        made(*places, *[1] * LETTERS)

    return call


def _symbol(blas: Blas, name: str) -> str:
    """The name of a Fortran routine, which the library decorates as it does `cblas_sgemm`."""
    prefix, _, suffix = blas.symbols[0].partition("cblas_sgemm")
    return f"{prefix}{name}_{suffix}" if suffix else f"{prefix}{name}_"
