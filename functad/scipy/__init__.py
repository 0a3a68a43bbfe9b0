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
from functad.scipy.dispatching import dispatch_imported

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
    "dispatch",
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


def dispatch() -> None:
    """Let SciPy's own functions take traced values: those that functad has too run functad's then.

    Covers the modules of SciPy that are imported when it is called, and the methods of distributions, such as
    `scipy.stats.norm.logpdf`; what was taken from a module before (`from scipy.linalg import expm`) stays as it is.
    On known values SciPy computes as ever. Ufuncs, such as `scipy.special.erf`, take traced values without this call.
    Results have the shapes and dtypes of functad's functions, and errors are theirs: it raises none itself.

    >>> import sys, types, numpy, functad
    >>> signal = types.ModuleType("scipy.signal")  # stands here for `import scipy.signal`
    >>> signal.convolve = lambda in1, in2: numpy.convolve(numpy.asarray(in1), in2)
    >>> sys.modules["scipy.signal"] = signal
    >>> dispatch()
    >>> functad.grad(lambda x: signal.convolve(x, numpy.ones(2)).sum())(numpy.ones(3))
    Array([2., 2., 2.], dtype=float64)
    >>> del sys.modules["scipy.signal"]
    """
    dispatch_imported([name for name in __all__ if name != "dispatch"])


if not TYPE_CHECKING:
    __getattr__ = absent(__name__, __all__)


def __dir__() -> list[str]:
    return __all__
