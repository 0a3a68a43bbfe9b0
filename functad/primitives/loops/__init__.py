"""The `lower` rules of primitives whose loops take more than a line. Knows no compiler.

Records name rules without importing them: a program that finds its kernels on disk writes none.
"""

from typing import TYPE_CHECKING

from functad.system.later import later

if not TYPE_CHECKING:
    _RULES = "convolution fourier gathering joining moving running scattering sorting window_work windows".split()
    __getattr__ = later(__name__, _RULES)
