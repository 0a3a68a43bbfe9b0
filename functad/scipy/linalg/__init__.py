"""`functad.scipy.linalg`: SciPy's linear algebra, as far as JAX has it.

Collects the public names of this package's files.

Args:
    a: array of shape (..., n, n).
    check_finite, overwrite_a, overwrite_b: have no effect.

Shapes:
    Leading axes are those of a stack: each matrix of shape (..., m, n) is taken for itself; sizes are those that are
    given.

Raises:
    ShapeError: an array is no matrix, or not square where that is needed, or shapes do not fit together.
    ArgumentError: an option or a size that there is not.
    DTypeError: an argument is no array of numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.scipy.linalg.factorisations import (
    eigh,
    eigh_tridiagonal,
    hessenberg,
    lu,
    polar,
    qr,
    qr_multiply,
    rsf2csf,
    schur,
    svd,
)
from functad.scipy.linalg.functions import expm, expm_frechet, funm, solve_sylvester, sqrtm
from functad.scipy.linalg.special_matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    toeplitz,
)
from functad.scipy.linalg.systems import (
    cho_factor,
    cho_solve,
    cholesky,
    det,
    inv,
    lu_factor,
    lu_solve,
    solve,
    solve_banded,
    solve_triangular,
)

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "circulant",
    "companion",
    "convolution_matrix",
    "det",
    "dft",
    "eigh",
    "eigh_tridiagonal",
    "expm",
    "expm_frechet",
    "fiedler",
    "fiedler_companion",
    "funm",
    "hadamard",
    "hankel",
    "helmert",
    "hessenberg",
    "hilbert",
    "inv",
    "invhilbert",
    "invpascal",
    "leslie",
    "lu",
    "lu_factor",
    "lu_solve",
    "pascal",
    "polar",
    "qr",
    "qr_multiply",
    "rsf2csf",
    "schur",
    "solve",
    "solve_banded",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "toeplitz",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
