"""The dtypes under their names (`jnp.float32`), usable as dtypes and as functions that make an array of that dtype.

Knows the table of dtypes; nothing of array functions but `asarray`.

Shapes:
    Dtypes have none; of arrays that are given the dtype alone counts.

Raises:
    DTypeError: there is no such dtype, or it is not of the kind that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes
from functad.dtypes import kind_of
from functad.errors import DTypeError
from functad.numpy.promotion import asarray

__all__ = [
    "bfloat16",
    "bool_",
    "can_cast",
    "cdouble",
    "complex128",
    "complex64",
    "complex_",
    "csingle",
    "double",
    "float16",
    "float32",
    "float64",
    "float_",
    "int16",
    "int32",
    "int64",
    "int8",
    "int_",
    "isdtype",
    "single",
    "uint",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
]


_DOC = """The dtype {0}; called, an array of it, of the shape of what it is given.

Raises:
    RangeError: a Python integer does not fit.
    DTypeError: no array can be made of what is given.

>>> import functad.numpy as jnp
>>> jnp.{0}([0, 1]).dtype == jnp.{0}
True
"""

_BFLOAT16_DOC = """The dtype bfloat16, which the package ml_dtypes brings; called, an array of it.

Naming it and comparing with it does not need the package.

Raises:
    DTypeError: the package is not there.

>>> import functad.numpy as jnp
>>> jnp.float32 == jnp.bfloat16
False
"""


class ScalarType:
    """A dtype by name: `zeros(3, jnp.int8)`, `x.dtype == jnp.int8`, `jnp.int8(3)`.

    >>> import functad.numpy as jnp
    >>> jnp.int8(3), jnp.zeros(2, jnp.int8).dtype == jnp.int8
    (Array(3, dtype=int8), True)
    """

    def __init__(self, name: str, dtype: Callable[[], np.dtype], doc: str = "") -> None:
        self.__name__ = name
        self._dtype = dtype
        self.__doc__ = doc or _DOC.format(name)

    @property
    def dtype(self) -> np.dtype:
        return self._dtype()

    def __call__(self, x: Any = 0) -> Any:
        return asarray(x, self._dtype())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (ScalarType, np.dtype, type, str)) and self.dtype == _dtype_or_none(other)

    def __hash__(self) -> int:
        return hash(self.dtype.type)  # as JAX's: `x.dtype.type in {jnp.int32}`

    def __repr__(self) -> str:
        return f"functad.numpy.{self.__name__}"


class _BFloat16(ScalarType):
    """bfloat16, whose package may be missing: naming it and comparing with it is free, using it loads the package."""

    def __init__(self) -> None:
        super().__init__("bfloat16", dtypes.bfloat16_dtype, _BFLOAT16_DOC)

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, (np.dtype, type, str)) and _is_bfloat16(_dtype_or_none(other)))

    def __hash__(self) -> int:
        try:
            return super().__hash__()
        except DTypeError:
            return hash(self.__name__)


def _is_bfloat16(dtype: np.dtype | None) -> bool:
    return dtype is not None and dtype.name == "bfloat16"


def _dtype_or_none(spec: Any) -> np.dtype | None:
    try:
        return np.dtype(spec)
    except (TypeError, ValueError, SyntaxError):  # NumPy parses any text
        return None


def _fixed(dtype: np.dtype) -> ScalarType:
    return ScalarType(dtype.name, lambda: dtype)


bool_ = _fixed(dtypes.bool_)
int8 = _fixed(dtypes.int8)
int16 = _fixed(dtypes.int16)
int32 = _fixed(dtypes.int32)
int64 = _fixed(dtypes.int64)
uint8 = _fixed(dtypes.uint8)
uint16 = _fixed(dtypes.uint16)
uint32 = _fixed(dtypes.uint32)
uint64 = _fixed(dtypes.uint64)
bfloat16 = _BFloat16()
float16 = _fixed(dtypes.float16)
float32 = _fixed(dtypes.float32)
float64 = _fixed(dtypes.float64)
complex64 = _fixed(dtypes.complex64)
complex128 = _fixed(dtypes.complex128)
single, double, csingle, cdouble = float32, float64, complex64, complex128

# The defaults of their kind: 32 bits, or 64 with `enable_x64`.
int_ = ScalarType("int_", dtypes.default_int_dtype)
uint = ScalarType("uint", lambda: np.dtype(f"uint{8 * dtypes.default_int_dtype().itemsize}"))
float_ = ScalarType("float_", dtypes.default_float_dtype)
complex_ = ScalarType("complex_", dtypes.default_complex_dtype)


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether a dtype (or the dtype of an array) can be converted to another without loss.

    >>> import functad.numpy as jnp
    >>> jnp.can_cast(jnp.int32, jnp.float64)
    True
    """
    is_spec = isinstance(from_, np.dtype) or not hasattr(from_, "shape")  # a dtype has a shape, too
    own = dtypes.as_dtype(from_) if is_spec else dtypes.dtype_of(from_)[0]
    return bool(np.can_cast(own, dtypes.as_dtype(to), casting))  # type: ignore[arg-type]


_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another one, or of a kind.

    Args:
        dtype: a dtype, or its name.
        kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric";
            a dtype or its name; or a tuple of these, one of which is enough.

    Raises:
        DTypeError: the kind is neither.

    >>> isdtype("int8", "integral"), isdtype("int8", ("real floating", "int16"))
    (True, False)
    """
    own = dtypes.as_dtype(dtype)
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any(
        [kind_of(own) in _KINDS[k] if isinstance(k, str) and k in _KINDS else own == _one_dtype(k) for k in kinds]
    )


def _one_dtype(kind: Any) -> np.dtype:
    try:
        return dtypes.as_dtype(kind)
    except DTypeError as problem:
        known = ", ".join(repr(name) for name in _KINDS)
        text = f"isdtype: {kind!r} is no kind of dtypes. The kinds are {known}; or a dtype: {problem}"
        raise DTypeError(text) from None
