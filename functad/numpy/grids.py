"""Grids, by vectors and by slices (`mgrid[0:3, 0:2]`), index expressions, and window functions of signal processing.

Knows NumPy, which makes the constants, and a few primitives.

Args:
    M: how many numbers.
    beta: how narrow the window is.

Shapes:
    The result has the sizes that are asked for; triangles keep the shape (..., m, n) of the array.

Raises:
    ArgumentError: a size is negative or no integer, or an array is no matrix where one is needed.
    TooLargeError: there would be more elements than an array can have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.array import Array
from functad.dtypes import kind_of
from functad.errors import ArgumentError
from functad.numpy.building import as_array
from functad.numpy.creation import zeros
from functad.numpy.promotion import asarray, canonical_dtype, canonical_shape
from functad.primitives import joining, structure
from functad.primitives.common import broadcast_in_dim
from functad.primitives.common import reshape as reshape_to

__all__ = [
    "bartlett",
    "blackman",
    "hamming",
    "hanning",
    "index_exp",
    "indices",
    "kaiser",
    "meshgrid",
    "mgrid",
    "ogrid",
    "s_",
]

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


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Array]:
    """Coordinate arrays of the grid that vectors of coordinates span.

    With `indexing="ij"` axis i runs along the i-th vector; with "xy" the first two axes are exchanged.

    >>> import functad.numpy as jnp
    >>> jnp.meshgrid(jnp.array([1, 2]), jnp.array([3]))
    [Array([[1, 2]], dtype=int32), Array([[3, 3]], dtype=int32)]
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    vectors = [as_array("meshgrid", x) for x in xi]
    for i, v in enumerate(vectors):
        if v.ndim > 1:
            raise ArgumentError(f"meshgrid: argument {i} has shape {v.shape}, but must be a vector")
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) >= 2:
        axes[0], axes[1] = 1, 0
    sizes = [0] * len(vectors)
    for axis, v in zip(axes, vectors):
        sizes[axis] = v.size
    grids = []
    for axis, v in zip(axes, vectors):
        v = reshape_to(asarray(v), (v.size,))
        shape = tuple(n if i == axis or not sparse else 1 for i, n in enumerate(sizes))
        grids.append(broadcast_in_dim(v, shape=shape, broadcast_dimensions=(axis,)))
    return grids


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The index of every element of an array: result[i] holds the positions along axis i.

    >>> import functad.numpy as jnp
    >>> jnp.indices((2, 2))[0]
    Array([[0, 0],
           [1, 1]], dtype=int32)
    """
    sizes = canonical_shape("indices", tuple(dimensions))
    wanted = canonical_dtype(dtype) or dtypes.default_int_dtype()
    if sparse:
        return tuple(
            reshape_to(structure.iota(wanted, (n,), 0), tuple(n if j == i else 1 for j in range(len(sizes))))
            for i, n in enumerate(sizes)
        )
    if not sizes:
        return zeros((0,), wanted)
    return joining.concatenate(
        [structure.expand_dims(structure.iota(wanted, sizes, i), (0,)) for i in range(len(sizes))], 0
    )


def hanning(M: int) -> Array:
    """The Hann window: one period of a raised cosine.

    >>> import functad.numpy as jnp
    >>> jnp.hanning(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _default(np.hanning(M))


def hamming(M: int) -> Array:
    """The Hamming window: a raised cosine that does not reach 0.

    >>> import functad.numpy as jnp
    >>> jnp.hamming(3)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _default(np.hamming(M))


def bartlett(M: int) -> Array:
    """The triangular window.

    >>> import functad.numpy as jnp
    >>> jnp.bartlett(3)
    Array([0., 1., 0.], dtype=float32)
    """
    return _default(np.bartlett(M))


def blackman(M: int) -> Array:
    """The Blackman window: three cosine terms.

    >>> import functad.numpy as jnp
    >>> jnp.blackman(4)[1]
    Array(0.63, dtype=float32)
    """
    return _default(np.blackman(M))


def kaiser(M: int, beta: float) -> Array:
    """The Kaiser window of the given shape.

    >>> import functad.numpy as jnp
    >>> jnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    return _default(np.kaiser(M, beta))
