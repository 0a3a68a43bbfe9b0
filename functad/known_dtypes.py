"""The dtypes there are: NumPy's, float0, that of random keys; their short names and kinds.

This file knows no options, no arrays, and not how dtypes are joined. Who uses dtypes finds these in `functad.dtypes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from functad.errors import DTypeError

bool_ = np.dtype(np.bool_)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
uint8 = np.dtype(np.uint8)
uint16 = np.dtype(np.uint16)
uint32 = np.dtype(np.uint32)
uint64 = np.dtype(np.uint64)
float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
complex64 = np.dtype(np.complex64)
complex128 = np.dtype(np.complex128)

SHORT_NAMES: dict[np.dtype, str] = {
    bool_: "bool",
    int8: "i8",
    int16: "i16",
    int32: "i32",
    int64: "i64",
    uint8: "u8",
    uint16: "u16",
    uint32: "u32",
    uint64: "u64",
    float16: "f16",
    float32: "f32",
    float64: "f64",
    complex64: "c64",
    complex128: "c128",
}
SUPPORTED: tuple[np.dtype, ...] = tuple(SHORT_NAMES)

# The tangent dtype of integers and booleans: their derivative holds no information, so no bytes.
float0 = np.dtype([("float0", np.void, 0)])
SHORT_NAMES[float0] = "float0"

NARROWED = {int64: int32, uint64: uint32, float64: float32, complex128: complex64}
"""The dtypes of 64 bits, and those of 32 bits in their place."""


class extended(np.generic):  # noqa: N801  (JAX's name)
    """The kind of the dtypes that NumPy has not: `issubdtype(x.dtype, extended)`."""


class prng_key(extended):  # noqa: N801  (JAX's name)
    """The kind of the dtypes of typed random keys: `issubdtype(x.dtype, prng_key)`."""

    def __new__(cls, *args: Any) -> prng_key:
        raise DTypeError(f"{args} cannot become a random key: {KEYS_ARE_NO_NUMBERS}")


class KeyType:
    """The dtype of typed random keys. It is none of NumPy's, but answers what those are asked."""

    name = "key<fry>"
    kind = "k"
    itemsize = 8
    type = prng_key

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return "key_fry"  # there is one


key_fry: Any = KeyType()
SHORT_NAMES[key_fry] = key_fry.name


KEYS_ARE_NO_NUMBERS = "keys are no numbers; functad.random.split and fold_in make others, key_data(key) has the words"


def refuse_keys(name: str, *dtypes: np.dtype) -> None:
    """Raise DTypeError, in the name of an operation on numbers, where one of the dtypes is that of keys."""
    if key_fry in dtypes:
        raise DTypeError(f"{name} takes or makes {key_fry}, but {KEYS_ARE_NO_NUMBERS}")


def stored_as(dtype: np.dtype) -> np.dtype:
    """The dtype in which NumPy and kernels hold elements of a dtype: a key is one word of 64 bits.

    >>> stored_as(key_fry), stored_as(float32)
    (dtype('uint64'), dtype('float32'))
    """
    return uint64 if dtype is key_fry else dtype


T = TypeVar("T")


class DtypeTable(dict[np.dtype, T], Generic[T]):
    """What a rule says of dtypes, asked once for each: `DtypeTable(rule)[dtype]`."""

    def __init__(self, rule: Callable[[np.dtype], T]) -> None:
        super().__init__()
        self._rule = rule

    def __missing__(self, dtype: np.dtype) -> T:
        value = self[dtype] = self._rule(dtype)
        return value


# The kind of a dtype, as one letter: b, i, u, f or c; what functad does not compute with has NumPy's. All code asks
# here: for a dtype that another package made, NumPy itself says "V".
kind_of: Callable[[np.dtype], str] = DtypeTable(
    lambda dtype: "f" if dtype.name == "bfloat16" else dtype.kind
).__getitem__

# Whether a float has 16 bits: such numbers are kept in memory only. They are computed with in float32, and rounded.
is_narrow_float: Callable[[np.dtype], bool] = DtypeTable(
    lambda dtype: dtype.name in ("float16", "bfloat16")
).__getitem__

# The dtype in which numbers of a dtype are computed with: float32 for floats of 16 bits, the dtype itself for others.
compute_dtype: Callable[[np.dtype], np.dtype] = DtypeTable(lambda d: float32 if is_narrow_float(d) else d).__getitem__

# A dtype of NumPy's own whose elements have the same bytes: uint16 for bfloat16, which buffers and files do not know.
plain_dtype: Callable[[np.dtype], np.dtype] = DtypeTable(lambda d: uint16 if d.name == "bfloat16" else d).__getitem__
