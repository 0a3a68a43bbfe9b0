"""`functad.scipy`: the parts of SciPy that JAX has, under SciPy's names; differentiable, mapped and compiled.

Knows the names of its parts, which load at first use; SciPy itself is never imported.

Args:
    check_finite, overwrite_a, overwrite_b: have no effect.
    precision: as in `functad.lax.dot_general`.

Raises:
    DTypeError: an argument is no array, or of a dtype that the function does not take.
    ShapeError: shapes do not fit together.
    ArgumentError: an argument that is no array has a value that is not taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent

if TYPE_CHECKING:
    from functad.scipy import cluster as cluster
    from functad.scipy import fft as fft
    from functad.scipy import integrate as integrate
    from functad.scipy import interpolate as interpolate
    from functad.scipy import linalg as linalg
    from functad.scipy import ndimage as ndimage
    from functad.scipy import optimize as optimize
    from functad.scipy import signal as signal
    from functad.scipy import sparse as sparse
    from functad.scipy import spatial as spatial
    from functad.scipy import special as special
    from functad.scipy import stats as stats

__all__ = [
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
