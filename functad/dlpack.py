"""Arrays of other libraries through DLPack, under the name that JAX gives the module.

Knows names only: `functad.numpy.from_dlpack` takes an array.

Shapes:
    An array keeps its shape.

Raises:
    Nothing of its own: a dtype that is not taken is answered by False.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from functad import dtypes
from functad.absent import absent
from functad.dtypes import kind_of
from functad.errors import DTypeError
from functad.numpy import from_dlpack

__all__ = ["from_dlpack", "is_supported_dtype"]


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype pass: numbers and truth values of NumPy's own.

    >>> is_supported_dtype("float32"), is_supported_dtype("datetime64[s]")
    (True, False)
    """
    try:
        found = dtypes.as_dtype(dtype)
    except DTypeError:
        return False
    return found.isbuiltin == 1 and kind_of(found) in "biufc"


if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
