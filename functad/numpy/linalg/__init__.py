"""`functad.numpy.linalg`: factorisations, systems of equations, determinants, norms and products of matrices.

Collects the public names of this package's files; `numpy.linalg` of functad values is passed on to here.

Shapes:
    Leading axes are those of a stack: each matrix of shape (..., m, n) is taken for itself.

Raises:
    ShapeError: the array is no matrix, or not square where that is needed, or shapes do not fit together.
    ArgumentError: a mode, order or axis that there is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.numpy.linalg.factorisations import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from functad.numpy.linalg.norms import (
    cond,
    matrix_norm,
    matrix_rank,
    norm,
    vector_norm,
)
from functad.numpy.linalg.products import (
    cross,
    diagonal,
    matmul,
    matrix_power,
    matrix_transpose,
    multi_dot,
    outer,
    tensordot,
    trace,
    vecdot,
)
from functad.numpy.linalg.systems import (
    det,
    inv,
    lstsq,
    pinv,
    slogdet,
    solve,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
