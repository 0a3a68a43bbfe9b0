"""Pure-NumPy kernels behind the primitives: arrays in, arrays out.

They know nothing of tracing, primitives or functad's own array type. Records name the longer ones without importing
them: most programs call a few.
"""

from typing import TYPE_CHECKING

from functad.system.later import later

if not TYPE_CHECKING:
    _CALLED = "bessel factorisations incomplete log_sums sorting special spectra strict_math systems threefry".split()
    __getattr__ = later(__name__, _CALLED)
