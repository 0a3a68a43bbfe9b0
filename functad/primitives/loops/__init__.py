"""The `lower` rules of primitives whose loops take more than a line. Knows no compiler.

Records name rules without importing them: a program that finds its kernels on disk writes none.

What a loop nest can say is one (`lowering_rules.py`), and fuses. These stay kernels of their own, as text:

- `cholesky`, `lu`, `triangular_solve`, `qr`, `eigh`, `svd`, `geqrf`, `householder_product`: calls of LAPACK. Small ones
  of the first three, and `fft`, keep all of a matrix, or of a row, in registers or a cache.
- `eig`, `schur`, `hessenberg`, `tridiagonal`, `tridiagonal_solve`, `geqp3`, `lu_pivots_to_permutation`: left to NumPy
  and LAPACK, in a call of Python.
- `sort`, `top_k`: what is done depends on data (that of short rows does not, but is a loop over pairs of places).
- `conv_general_dilated`: products in registers.
- `cumlogsumexp`: exponentials in float64 as vectors between recurrences.
- `argmax`, `argmin` of columns: a place besides a value (as two reductions 1.2 to 1.7 times as long up to 50,000
  elements; those of rows are taken apart so, `composites.py`).
- `reduce_window_max`, `reduce_window_min`, `reduce_window_sum`, and the derivatives `select_and_scatter_add` and
  `select_and_gather_add`, of whole windows: vectors written out (as slices, combined, 1.0 to 2.0 times as long with
  channels last, 1.5 to 8.5 with channels first; windows cut off at edges are such slices).
- `concatenate`, `stack` in memory: several loops in one kernel (as one nest for each part as long, for parts side by
  side in the last axis 2 to 3 times).
- `numba_call`: a user's function. `custom_lin`: no kernel; it refuses, as it can only be transposed.
"""

from typing import TYPE_CHECKING

from functad.system.later import later

if not TYPE_CHECKING:
    _RULES = """convolution factorising fourier fourier_long fourier_passes gathering joining moving running scattering
        sorting window_work windows""".split()
    __getattr__ = later(__name__, _RULES)
