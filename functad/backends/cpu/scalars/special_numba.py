"""The intrinsics of `exact`, `complex` and `special` for Numba.

It must not know what they compute. Importing it registers the intrinsics.
"""

from __future__ import annotations

from functad.backends.cpu.compile import frontend
from functad.backends.cpu.scalars import complex as complex_scalars
from functad.backends.cpu.scalars import elementary_numba as scalars_numba
from functad.backends.cpu.scalars import exact as exact_scalars
from functad.backends.cpu.scalars import special as special_scalars

for module in (exact_scalars, complex_scalars, special_scalars):
    scalars_numba.register_module(module)
    for intrinsic in vars(module).values():
        if hasattr(intrinsic, "routine") and intrinsic.__module__ == module.__name__:
            frontend.subroutine(intrinsic, inline=module is exact_scalars)  # the others are long
