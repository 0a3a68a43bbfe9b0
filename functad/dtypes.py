"""The dtypes of functad for all that use them: what names one, which one a value has, and how those of operands join.

This file knows no shapes and no arrays: of a value it reads its dtype and whether it is weak. All dtypes are NumPy's
but bfloat16, which the package ml_dtypes makes. It is loaded where bfloat16 is first used.

Shapes:
    Dtypes have none; of arrays that are given the dtype alone counts.

Raises:
    DTypeError: there is no such dtype, or it is not of the kind that is asked for.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from functad.absent import absent
from functad.config import config
from functad.errors import DTypeError, close_names
from functad.errors import TypePromotionError as TypePromotionError
from functad.known_dtypes import KEYS_ARE_NO_NUMBERS as KEYS_ARE_NO_NUMBERS
from functad.known_dtypes import (
    NARROWED,
    SHORT_NAMES,
    SUPPORTED,
    KeyType,
    bool_,
    complex64,
    complex128,
    float0,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    key_fry,
    kind_of,
    prng_key,
    uint8,
    uint16,
    uint32,
    uint64,
)
from functad.known_dtypes import DtypeTable as DtypeTable
from functad.known_dtypes import compute_dtype as compute_dtype
from functad.known_dtypes import extended as extended
from functad.known_dtypes import is_narrow_float as is_narrow_float
from functad.known_dtypes import plain_dtype as plain_dtype
from functad.known_dtypes import refuse_keys as refuse_keys
from functad.known_dtypes import stored_as as stored_as
from functad.promotion import add_bfloat16, joint_dtype, lattice_join

_PYTHON_SCALARS: dict[type, tuple[np.dtype, np.dtype]] = {
    bool: (bool_, bool_),
    int: (int32, int64),
    float: (float32, float64),
    complex: (complex64, complex128),
}


def bfloat16_dtype() -> np.dtype:
    """The dtype bfloat16: a float32 without its lower 16 bits.

    Raises:
        DTypeError: the package ml_dtypes is not installed.
    """
    dtype = _DTYPES.get("bfloat16")
    if dtype is None:
        try:
            dtype = np.dtype(import_module("ml_dtypes").bfloat16)
        except ImportError:
            raise DTypeError(_NO_BFLOAT16) from None
        _add_bfloat16(dtype)
    return dtype


_NO_BFLOAT16 = (
    "bfloat16 needs the package ml_dtypes, for NumPy has no such dtype and cannot make one that arrays carry: "
    "pip install functad[bfloat16] (or pip install ml_dtypes); float16 and float32 need no package"
)


def _add_bfloat16(dtype: np.dtype) -> None:
    SHORT_NAMES[dtype] = "bf16"
    add_bfloat16(dtype)
    _DTYPES.update(dict.fromkeys((dtype, dtype.type, dtype.name), dtype))  # the last: who finds it here finds all


def default_int_dtype() -> np.dtype:
    """The dtype of a Python int: int32, or int64 when `config.enable_x64`.

    >>> default_int_dtype()
    dtype('int32')
    """
    return int64 if config.enable_x64 else int32


def default_float_dtype() -> np.dtype:
    """The dtype of a Python float: float32, or float64 when `config.enable_x64`.

    >>> default_float_dtype()
    dtype('float32')
    """
    return float64 if config.enable_x64 else float32


def default_complex_dtype() -> np.dtype:
    """The dtype of a Python complex: complex64, or complex128 when `config.enable_x64`.

    >>> default_complex_dtype()
    dtype('complex64')
    """
    return complex128 if config.enable_x64 else complex64


def short_name(dtype: np.dtype) -> str:
    """The name of a dtype in printed Programs.

    >>> short_name(np.dtype("float32"))
    'f32'
    """
    return SHORT_NAMES[as_dtype(dtype)]


def as_dtype(spec: Any) -> np.dtype:
    """The dtype that `spec` names; a 64-bit one is never cut down, see `requested_dtype`.

    Args:
        spec: an `np.dtype`, a NumPy scalar type, a name such as `"float32"`, an object with a `.dtype`, or
            `bool`, `int`, `float`, `complex`, which mean the default dtype of that kind.

    Returns:
        One of the supported dtypes, in native byte order.

    Raises:
        DTypeError: functad has no such dtype.

    >>> as_dtype("float64"), as_dtype(float)
    (dtype('float64'), dtype('float32'))
    """
    try:
        known = _DTYPES.get(spec)
    except TypeError:  # it cannot be hashed
        known = None
    return _as_dtype_slow(spec) if known is None else known


def requested_dtype(spec: Any) -> np.dtype:
    """The dtype of a result whose dtype a user names: `as_dtype`, cut to 32 bits where `numpy_dtypes` says so."""
    return taken_in(as_dtype(spec))


def canonicalize_dtype(dtype: Any) -> np.dtype:
    """JAX's name for the dtype of a result whose dtype is named, None meaning float.

    Unlike JAX's, it keeps an explicit 64-bit dtype, unless `config.numpy_dtypes` is `"jax"`.

    >>> canonicalize_dtype(None), canonicalize_dtype("int64")
    (dtype('float32'), dtype('int64'))
    """
    return default_float_dtype() if dtype is None else requested_dtype(dtype)


def dtype_of(x: Any) -> tuple[np.dtype, bool]:
    """The dtype of a value and whether it is weak, that is, yields to the dtypes that it meets.

    Args:
        x: a Python scalar, or one of NumPy's with 64 bits (weak, of the default dtype; but `bool` is not weak), a
            NumPy array or another of its scalars (never weak), or an object with `.dtype` and, if it can be weak,
            `.weak_type`.

    Raises:
        DTypeError: `x` is no number or array, or has an unsupported dtype.

    >>> dtype_of(2.0), dtype_of(np.float64(2.0)), dtype_of(np.float16(2.0))
    ((dtype('float32'), True), (dtype('float32'), True), (dtype('float16'), False))
    """
    x = adaptable(x)
    scalar = _PYTHON_SCALARS.get(type(x))
    if scalar is not None:
        dtype = scalar[config.enable_x64]
        return dtype, dtype is not bool_
    if isinstance(x, (np.ndarray, np.generic)):
        return dtype_of_ndarray(x), False
    own_dtype = getattr(x, "dtype", None)
    if own_dtype is None or isinstance(x, type):
        return _dtype_of_subclass(x)
    return as_dtype(own_dtype), bool(getattr(x, "weak_type", False))


def dtype_of_ndarray(x: Any) -> np.dtype:
    """The dtype of a NumPy array or scalar that becomes an Array.

    Raises:
        DTypeError: it is unsupported, or the values alone are not what the array means: it has a mask, or, as arrays
            with units do, arithmetic of its own.

    >>> dtype_of_ndarray(np.zeros(2, np.int8))
    dtype('int8')
    """
    if type(x) is not np.ndarray and isinstance(x, np.ndarray):
        if isinstance(x, np.ma.MaskedArray):
            raise DTypeError(
                f"a masked array of shape {x.shape} was given, whose mask would be lost: pass x.filled(value), or "
                "x.data and numpy.ma.getmaskarray(x) apart, and choose with functad.numpy.where"
            )
        if type(x).__array_ufunc__ is not np.ndarray.__array_ufunc__:
            raise DTypeError(
                f"an array of type {type(x).__name__} was given, which has arithmetic of its own (units, for example) "
                "that would be lost: pass its plain values, x.view(numpy.ndarray)"
            )
    return taken_in(as_dtype(x.dtype))


def taken_in(dtype: np.dtype) -> np.dtype:
    """The dtype that a value of NumPy's gets where it becomes an Array, and a result whose dtype is asked for."""
    if dtype in NARROWED and config.numpy_dtypes == "jax" and not config.enable_x64:
        return NARROWED[dtype]
    return dtype


def adaptable(x: Any) -> Any:
    """A 64-bit scalar of NumPy's as the Python number that it stands for; with `enable_x64`, and all else, as it is.

    With `numpy_dtypes="jax"` it is cut to 32 bits instead, as an array is.

    NumPy makes 64 bits of every number that it computes from Python's, such as `np.sqrt(2)`, so they say nothing about
    the dtype that is wanted. What takes a user's operand asks this first; primitives take NumPy scalars as they are.

    >>> type(adaptable(np.sqrt(2))), type(adaptable(np.float32(2)))
    (<class 'float'>, <class 'numpy.float32'>)
    """
    if isinstance(x, np.generic) and x.dtype in NARROWED and not config.enable_x64:
        return x.item() if config.numpy_dtypes == "keep" else cut(x, NARROWED[x.dtype])
    return x


def cut(x: Any, dtype: np.dtype) -> Any:
    """A value of NumPy's in a narrower dtype: what does not fit wraps around, or becomes infinite."""
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def promote_types(a: Any, b: Any) -> np.dtype:
    """The dtype that holds both `a` and `b`, which are dtypes in any form that `as_dtype` takes.

    `int`, `float` and `complex` count as weak.

    >>> promote_types("uint8", "int8"), promote_types("float16", float)
    (dtype('int16'), dtype('float16'))
    """
    return joint_dtype(_pair_of_spec(a), _pair_of_spec(b))[0]


def result_type(*args: Any) -> np.dtype:
    """The dtype of the result of an operation on `args`.

    Args:
        *args: arrays, scalars, or dtypes in any form that `as_dtype` takes.

    >>> result_type(np.zeros(3, "float16"), 2.0, np.int64)
    dtype('float16')
    """
    return taken_in(joint_dtype(*[_pair_of_argument(arg) for arg in args])[0])


def to_inexact_dtype(dtype: Any) -> np.dtype:
    """The dtype in which `sin`, `mean` and the like compute.

    Floating and complex dtypes stay. Integers and booleans become float32, but 64-bit integers become
    float64 when `config.enable_x64`.

    >>> to_inexact_dtype("int64"), to_inexact_dtype("float16")
    (dtype('float32'), dtype('float16'))
    """
    given = as_dtype(dtype)
    if kind_of(given) in "fc":
        return given
    return default_float_dtype() if given in NARROWED else float32


def itemsize_bits(dtype: Any) -> int:
    """The bits of an element.

    >>> itemsize_bits("float16")
    16
    """
    return 8 * as_dtype(dtype).itemsize


def scalar_type_of(x: Any) -> type:
    """The Python type of the numbers that a value holds: bool, int, float or complex.

    >>> scalar_type_of(np.float16(1))
    <class 'float'>
    """
    return {"b": bool, "i": int, "u": int, "f": float, "c": complex}[kind_of(dtype_of(x)[0])]


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether dtype `arg1` is `arg2` or one of the kind `arg2`, such as `np.floating`.

    >>> issubdtype("float32", np.floating), issubdtype("int8", np.unsignedinteger)
    (True, False)
    """
    if arg1 is key_fry or arg2 is key_fry:
        return arg1 is arg2 or isinstance(arg2, type) and issubclass(prng_key, arg2)
    if _is_bfloat16(arg1) or _is_bfloat16(arg2):
        return arg2 in (np.floating, np.inexact, np.number, np.generic) or (_is_bfloat16(arg1) and _is_bfloat16(arg2))
    try:
        return bool(np.issubdtype(arg1, arg2))
    except TypeError:
        for spec in (arg1, arg2):
            if not (isinstance(spec, type) and issubclass(spec, np.generic)):
                as_dtype(spec)  # raises for what is none
        raise


def _is_bfloat16(spec: Any) -> bool:
    return getattr(spec, "__name__", getattr(spec, "name", spec)) == "bfloat16"


def finfo(dtype: Any) -> np.finfo:
    """The limits of a floating or complex dtype (`eps`, `max`, `tiny`, …), as NumPy's `finfo` gives them.

    >>> import functad.numpy as jnp
    >>> jnp.finfo(jnp.float32).bits
    32
    """
    return _limits(as_dtype(dtype))


@cache
def _limits(dtype: np.dtype) -> np.finfo:
    if kind_of(dtype) not in "fc":
        raise DTypeError(f"finfo takes a floating or complex dtype, got {dtype}; use iinfo for integers")
    return cast(np.finfo, import_module("ml_dtypes").finfo(dtype)) if dtype.name == "bfloat16" else np.finfo(dtype)


def iinfo(int_type: Any) -> np.iinfo:
    """The limits of an integer dtype (`min`, `max`, `bits`), as NumPy's `iinfo` gives them.

    >>> import functad.numpy as jnp
    >>> jnp.iinfo(jnp.int8).max
    127
    """
    dtype = as_dtype(int_type)
    if kind_of(dtype) not in "iu":
        raise DTypeError(f"iinfo takes an integer dtype, got {dtype}; use finfo for floats")
    return np.iinfo(dtype)


def _build_dtypes() -> dict[Any, np.dtype]:
    table: dict[Any, np.dtype] = {float0: float0, key_fry: key_fry}
    for dtype in SUPPORTED:
        table[dtype] = table[dtype.type] = table[dtype.name] = dtype
    return table


# Every usual way to name a dtype whose meaning does not depend on the options.
_DTYPES = _build_dtypes()

_PYTHON_NAMES = {"int": int, "float": float, "complex": complex}


def _as_dtype_slow(spec: Any) -> np.dtype:
    if isinstance(spec, str):
        spec = _PYTHON_NAMES.get(spec, spec)
    if isinstance(spec, type) and spec in _PYTHON_SCALARS:
        return _PYTHON_SCALARS[spec][config.enable_x64]
    if spec is None:
        raise DTypeError("None is no dtype; name one, such as 'float32'")
    if isinstance(spec, type) and issubclass(spec, np.generic) and spec.__subclasses__():
        raise DTypeError(f"np.{spec.__name__} is a kind of dtypes, not a dtype; name one, such as 'float32'")
    own_dtype = getattr(spec, "dtype", None)
    if isinstance(own_dtype, KeyType):
        return _DTYPES[own_dtype]
    if isinstance(own_dtype, np.dtype):
        spec = own_dtype
    # NumPy would take any other class for object.
    if isinstance(spec, type) and not issubclass(spec, (np.generic, str, bytes)) and spec is not object:
        raise DTypeError(_unknown_dtype_text(spec))
    if isinstance(spec, str) and spec == "bfloat16":
        return bfloat16_dtype()
    try:
        dtype = np.dtype(spec)
    except (TypeError, ValueError, SyntaxError):  # NumPy reads a text with commas as Python
        raise DTypeError(_unknown_dtype_text(spec)) from None
    if dtype.name == "bfloat16":
        return bfloat16_dtype()
    native = _DTYPES.get(dtype.newbyteorder("="))
    if native is None:
        raise DTypeError(_unsupported_dtype_text(dtype))
    return native


def _unknown_dtype_text(spec: Any) -> str:
    names = [*_NAMES]
    short = {short: dtype.name for dtype, short in SHORT_NAMES.items()}
    close = [short[spec]] if isinstance(spec, str) and spec in short else close_names(str(spec), names, 2)
    suggestion = f" Did you mean {' or '.join(repr(name) for name in close)}?" if close else ""
    if isinstance(spec, int):
        suggestion = f" If it is a size, write all sizes as one tuple: zeros((2, {spec})), not zeros(2, {spec})."
    if spec in ("floating", "integer", "signedinteger", "unsignedinteger", "inexact", "complexfloating", "number"):
        suggestion = f" numpy.{spec} is a kind of dtypes, which is not named by a string."
    if isinstance(spec, type):
        suggestion = f" A class stands for a dtype only if it is one of NumPy's scalar types, or {_CLASSES}."
    return f"{spec!r} is no dtype.{suggestion} The dtypes are {', '.join(names)}."


_NAMES = [*(dtype.name for dtype in SUPPORTED), "bfloat16"]
_CLASSES = "bool, int, float or complex"


_FIXES = {
    "O": "the values are Python objects (None, a ragged list, mixed types?); make them numbers first, "
    "for example np.asarray(x, dtype='float32')",
    "U": "text has no arithmetic; encode it as integers first",
    "S": "text has no arithmetic; encode it as integers first",
    "T": "text has no arithmetic; encode it as integers first",
    "M": "convert to numbers first, for example x.astype('int64')",
    "m": "convert to numbers first, for example x.astype('int64')",
    "f": "convert first, for example x.astype('float64')",
    "c": "convert first, for example x.astype('complex128')",
    "V": "convert first; a structured array becomes a dict of its fields, {name: x[name] for name in "
    "x.dtype.names}, other kinds x.astype('float32')",
}


def _unsupported_dtype_text(dtype: np.dtype) -> str:
    names = ", ".join(_NAMES)
    fix = _FIXES.get(kind_of(dtype), "convert first, for example x.astype('float32')")
    return f"dtype {dtype} is not supported: {fix}. The supported dtypes are {names}."


def _dtype_of_subclass(x: Any) -> tuple[np.dtype, bool]:
    for scalar_type, dtypes in _PYTHON_SCALARS.items():
        if isinstance(x, scalar_type):  # an IntEnum, for example
            return dtypes[config.enable_x64], True
    raise DTypeError(
        f"a value of type {type(x).__name__} has no dtype: {x!r:.80}. "
        "Pass a number or an array; make an array of a list with functad.numpy.asarray."
    )


def _pair_of_spec(spec: Any) -> tuple[np.dtype, bool]:
    return as_dtype(spec), spec is int or spec is float or spec is complex


def _pair_of_argument(arg: Any) -> tuple[np.dtype, bool]:
    if isinstance(arg, (str, type, np.dtype)):
        return _pair_of_spec(arg)
    return dtype_of(arg)


__all__ = [
    "TypePromotionError",
    "adaptable",
    "as_dtype",
    "bool_",
    "canonicalize_dtype",
    "complex128",
    "complex64",
    "default_complex_dtype",
    "default_float_dtype",
    "default_int_dtype",
    "dtype_of",
    "dtype_of_ndarray",
    "finfo",
    "float0",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "int16",
    "int32",
    "int64",
    "int8",
    "issubdtype",
    "itemsize_bits",
    "lattice_join",
    "promote_types",
    "result_type",
    "scalar_type_of",
    "short_name",
    "to_inexact_dtype",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, found=lambda name: bfloat16_dtype().type if name == "bfloat16" else None)


def __dir__() -> list[str]:
    return __all__
