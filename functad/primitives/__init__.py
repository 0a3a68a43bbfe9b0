"""The primitives, one file a family, one record an operation.

Knows no transform; importing this package fills `functad.primitive_record.registry`.

Shapes:
    Arrays keep theirs.

Raises:
    ShapeError: an array is no matrix.
"""

from functad.primitives import barrier as barrier
from functad.primitives import bitcast as bitcast
from functad.primitives import callback as callback
from functad.primitives import collectives as collectives
from functad.primitives import contraction as contraction
from functad.primitives import convolution as convolution
from functad.primitives import cumulative as cumulative
from functad.primitives import dynamic_slicing as dynamic_slicing
from functad.primitives import elementwise as elementwise
from functad.primitives import fourier as fourier
from functad.primitives import gather_scatter as gather_scatter
from functad.primitives import joining as joining
from functad.primitives import positions as positions
from functad.primitives import random_bits as random_bits
from functad.primitives import random_keys as random_keys
from functad.primitives import reduction as reduction
from functad.primitives import slice_update as slice_update
from functad.primitives import sorting as sorting
from functad.primitives import strict as strict
from functad.primitives import structure as structure
from functad.primitives import window as window
from functad.primitives import window_select as window_select
from functad.primitives.linear_algebra import cholesky as cholesky
from functad.primitives.linear_algebra import condensed as condensed
from functad.primitives.linear_algebra import lu as lu
from functad.primitives.linear_algebra import qr as qr
from functad.primitives.linear_algebra import spectra as spectra
from functad.primitives.linear_algebra import triangular as triangular
