"""What tells values apart that decide which Program is used, or whether two equations compute the same.

Python takes 1, 1.0 and True for equal, and 0.0 and −0.0; a Program made for one of them is wrong for the others.
Knows plain Python values, NumPy's scalars and dataclasses; other objects are as equal as they say themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from functad.records import Record

_AS_THEY_ARE = {int, str, bytes, type(None), type(Ellipsis)}


def exact_key(value: Any) -> Hashable:
    """A key that two values share only if they are the same to every function: equal type, value, and sign of zero.

    Containers are looked into; a NaN is itself.

    Raises:
        TypeError: the value, or one in it, has no hash.

    >>> exact_key(1) == exact_key(1.0), exact_key((0.0,)) == exact_key((-0.0,)), exact_key([1]) == exact_key((1,))
    (False, False, False)
    >>> exact_key(float("nan")) == exact_key(float("nan"))
    True
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is tuple:
        return tuple([exact_key(v) for v in value])
    return (kind, _content(kind, value))  # no tuple above begins with a class


def _content(kind: type, value: Any) -> Hashable:
    if kind is float:
        return struct.pack("d", value)
    if kind is complex:
        return struct.pack("dd", value.real, value.imag)
    if isinstance(value, np.generic):
        return value.dtype.str, value.tobytes()
    if isinstance(value, (tuple, list)):
        return tuple([exact_key(v) for v in value])
    if isinstance(value, (set, frozenset)):
        return frozenset([exact_key(v) for v in value])
    if isinstance(value, dict):
        return frozenset([(exact_key(k), exact_key(v)) for k, v in value.items()])
    if hasattr(kind, "exact_key"):
        return value.exact_key()
    if is_dataclass(kind) and (kind.by_value if issubclass(kind, Record) else kind.__dataclass_params__.eq):  # type: ignore[attr-defined]
        return tuple([exact_key(getattr(value, f.name)) for f in fields(kind) if f.compare])
    hash(value)
    return value
