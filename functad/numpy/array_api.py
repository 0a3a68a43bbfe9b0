"""What the Array API standard (2024.12) asks a namespace about itself: its version, devices, dtypes and abilities.

Knows the tables of dtypes and devices; no array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import dtypes
from functad.device_arrays import device_of_new_arrays
from functad.layouts import CPU, Device, check_device
from functad.numpy.dtype_names import isdtype

__array_api_version__ = "2024.12"

_DTYPES = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128").split()


class __array_namespace_info__:  # noqa: N801  (the standard's name)
    """What this namespace can do, and what it takes by default.

    >>> import functad.numpy as jnp
    >>> jnp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float32')
    """

    def capabilities(self) -> dict[str, Any]:
        """What may be relied on where values are known; traced masks need a `size`, see `nonzero`."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device where arrays are made."""
        return device_of_new_arrays() or CPU

    def devices(self) -> list[Device]:
        """The devices there are."""
        return [self.default_device()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes that are taken where none is given: of 32 bits, or of 64 with `enable_x64`."""
        check_device(device, "default_dtypes")
        return {
            "real floating": dtypes.default_float_dtype(),
            "complex floating": dtypes.default_complex_dtype(),
            "integral": dtypes.default_int_dtype(),
            "indexing": dtypes.default_int_dtype(),
        }

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype]:
        """The standard's dtypes by name, all or those of a kind that `isdtype` knows."""
        check_device(device, "dtypes")
        known = {name: dtypes.as_dtype(name) for name in _DTYPES}
        return {n: d for n, d in known.items() if kind is None or isdtype(d, kind)}
