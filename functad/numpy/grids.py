"""Grids by slices (`mgrid[0:3, 0:2]`), index expressions, and the window functions of signal processing.

Knows NumPy, which makes these constants.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.dtypes import kind_of
from functad.numpy.promotion import asarray

__all__ = ["bartlett", "blackman", "hamming", "hanning", "index_exp", "kaiser", "mgrid", "ogrid", "s_"]

index_exp = np.index_exp
s_ = np.s_


def _default(values: np.ndarray) -> Any:
    wanted = dtypes.default_int_dtype() if kind_of(values.dtype) in "iu" else dtypes.default_float_dtype()
    return asarray(values, wanted)


class _Grid:
    """Coordinates by slices; an imaginary step is a number of points, the end included."""

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        values: Any = (np.ogrid if self.sparse else np.mgrid)[key]
        return tuple(map(_default, values)) if isinstance(values, tuple) else _default(values)


mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)


def hanning(M: int) -> Array:
    """The Hann window: one period of a raised cosine."""
    return _default(np.hanning(M))


def hamming(M: int) -> Array:
    """The Hamming window: a raised cosine that does not reach 0."""
    return _default(np.hamming(M))


def bartlett(M: int) -> Array:
    """The triangular window."""
    return _default(np.bartlett(M))


def blackman(M: int) -> Array:
    """The Blackman window: three cosine terms."""
    return _default(np.blackman(M))


def kaiser(M: int, beta: float) -> Array:
    """The Kaiser window of the given shape."""
    return _default(np.kaiser(M, beta))
