"""Types for annotations, under JAX's names: `functad.typing.ArrayLike`.

Knows no functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Union

import numpy as np

from functad.absent import absent
from functad.array import Array


class SupportsDType(Protocol):
    """Whatever has a dtype."""

    @property
    def dtype(self) -> np.dtype: ...


# Unions written so that isinstance takes them, too.
ArrayLike = Union[Array, np.ndarray, np.generic, bool, int, float, complex]  # noqa: UP007
DTypeLike = Union[str, type[Any], np.dtype, SupportsDType]  # noqa: UP007

__all__ = ["ArrayLike", "DTypeLike"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
