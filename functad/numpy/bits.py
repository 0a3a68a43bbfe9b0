"""The bits of numbers: packed eight to a byte, and those that make a float.

Knows shifts and masks; element-wise functions of bits that are primitives are in `logic`.

Raises:
    DTypeError: the dtype is not taken.
    ArgumentError: `bitorder` is neither "big" nor "little".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.array import Array
from functad.dtypes import finfo, kind_of
from functad.errors import ArgumentError, DTypeError
from functad.numpy.building import as_array
from functad.numpy.promotion import canonical_axis, convert, promote_args_inexact
from functad.primitives.bitcast import bitcast_convert_type

__all__ = ["frexp", "packbits", "unpackbits"]


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight elements along an axis (or of the flat array) as the bits of a byte: 1 where they are not 0.

    a has any shape, and the result an eighth of its size along the axis, rounded up.

    bitorder: whether the first element is the largest bit ("big") or the smallest ("little").

    >>> packbits(jnp.array([1, 0, 1]))
    Array([160], dtype=uint8)
    """
    x = as_array("packbits", a)
    if kind_of(x.dtype) not in "iub":
        raise DTypeError(f"packbits takes integers or booleans, got {x.aval.str_short()}; compare floats first: x != 0")
    lines, place = _lines("packbits", x, axis)
    size = lines.shape[-1]
    lines = jnp.pad(lines if lines.dtype == bool else lines != 0, [(0, 0)] * (lines.ndim - 1) + [(0, -size % 8)])
    values = _values("packbits", bitorder)
    bytes_ = jnp.where(lines.reshape(*lines.shape[:-1], lines.shape[-1] // 8, 8), values, np.uint8(0))
    return jnp.moveaxis(jnp.sum(bytes_, -1, dtype=np.uint8), -1, place)


def unpackbits(a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of bytes, eight for each along an axis (or of the flat array), as 0 and 1.

    a has any shape, and the result eight times its size along the axis.

    Args:
        count: how many bits to return, with zeros behind them if there are fewer; if negative, how many to leave out.
        bitorder: whether the first is the largest bit ("big") or the smallest ("little").

    >>> unpackbits(jnp.array([160], "uint8"), count=3)
    Array([1, 0, 1], dtype=uint8)
    """
    x = as_array("unpackbits", a)
    if x.dtype != np.uint8:
        raise DTypeError(f"unpackbits takes uint8, got {x.aval.str_short()}")
    lines, place = _lines("unpackbits", x, axis)
    values = _values("unpackbits", bitorder).reshape((1,) * lines.ndim + (8,))
    is_set = (lines[..., None] & values) != 0
    bits = convert(is_set.reshape(*lines.shape[:-1], 8 * lines.shape[-1]), np.dtype(np.uint8))
    if count is not None and count > bits.shape[-1]:
        bits = jnp.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, count - bits.shape[-1])])
    elif count is not None:
        bits = bits[..., :count]
    return jnp.moveaxis(bits, -1, place)


def _lines(name: str, x: Any, axis: int | None) -> tuple[Any, int]:
    """An array with the axis last, and where that was; the flat array without one."""
    if axis is None:
        return x.reshape(-1), 0
    place = canonical_axis(name, axis, x.ndim)
    return jnp.moveaxis(x, place, -1), place


def _values(name: str, bitorder: str) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise ArgumentError(f'{name}: bitorder must be "big" or "little", got {bitorder!r}')
    values = np.left_shift(1, np.arange(8)).astype(np.uint8)
    return values[::-1].copy() if bitorder == "big" else values


def frexp(x: Any, /) -> tuple[Array, Array]:
    """Mantissas of size 0.5 to 1, and the int32 exponents of 2 that they are multiplied by; both of the shape of x.

    >>> frexp(jnp.array([1.0, 6.0]))
    (Array([0.5 , 0.75], dtype=float32), Array([1, 3], dtype=int32))
    """
    (value,) = promote_args_inexact("frexp", x)
    value = as_array("frexp", value)
    if kind_of(value.dtype) == "c":
        raise DTypeError(f"frexp takes real numbers, got {value.aval.str_short()}")
    info = finfo(value.dtype)
    lift = info.nmant + 1
    is_small = jnp.abs(value) < info.smallest_normal
    normal = jnp.where(is_small, value * _power_of_two(np.int32(lift), value.dtype), value)
    bits = bitcast_convert_type(normal, f"int{info.bits}")
    stored = convert((bits >> info.nmant) & (2**info.iexp - 1), np.dtype(np.int32))
    exponent = stored - (info.maxexp - 2) - jnp.where(is_small, lift, 0)
    exponent = jnp.where(jnp.isfinite(value) & (value != 0), exponent, 0)
    half = exponent // 2  # 2^-exponent itself may be too large
    mantissa = value * _power_of_two(-half, value.dtype) * _power_of_two(half - exponent, value.dtype)
    return mantissa, exponent


def _power_of_two(exponent: Any, dtype: np.dtype) -> Any:
    """2^exponent, exact, where that is a normal float."""
    info = finfo(dtype)
    stored = convert(as_array("frexp", exponent + (info.maxexp - 1)), np.dtype(f"int{info.bits}"))
    return bitcast_convert_type(stored << info.nmant, dtype)
