"""`functad.numpy`: NumPy's functions on arrays that can be traced, with JAX's results and dtypes.

Collects the public names of this package's files, and computes nothing itself. `linalg` and `fft` load at first use.

Args:
    axis: an axis, counted from the end where it is negative; in reductions a tuple of axes too, and None for all.
    dtype: the dtype of the result.
    out: must be None, as arrays are immutable.
    keepdims: keep the axes that are reduced, with size 1.
    where: which elements take part: booleans that broadcast.
    initial: what the reduction begins with.
    device: where the result shall lie, a device or its name.
    precision, preferred_element_type: as in `functad.lax.dot_general`.
    size: the length of the result, which is needed where the arrays are traced.
    fill_value: what fills a result up to `size`.
    a, x, m, ary, arr, v, x1, x2, a1, a2, b: an array, or what `asarray` makes one of.

Raises:
    DTypeError: an argument is no array, or of a dtype that the function does not take.
    ShapeError: shapes do not fit together.
    AxisError: an array has no such axis.
    ArgumentError: an argument that is no array has a value that is not taken.
"""
# ruff: noqa: F403

from __future__ import annotations

from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING

import numpy as _np

from functad.absent import absent as _absent
from functad.array import Array as _Array
from functad.dtypes import finfo as finfo
from functad.dtypes import iinfo as iinfo
from functad.dtypes import issubdtype as issubdtype
from functad.dtypes import promote_types as promote_types
from functad.dtypes import result_type as result_type
from functad.numpy import array_methods as _array_methods
from functad.numpy import protocols as _protocols
from functad.numpy import ufunc_methods as _ufunc_methods
from functad.numpy.arithmetic import *
from functad.numpy.array_api import __array_api_version__ as __array_api_version__
from functad.numpy.array_api import __array_namespace_info__ as __array_namespace_info__
from functad.numpy.array_methods import *
from functad.numpy.complex_parts import *
from functad.numpy.concatenation import *
from functad.numpy.creation import *
from functad.numpy.dtype_names import *
from functad.numpy.dtype_names import bool_ as _bool_
from functad.numpy.einsum import *
from functad.numpy.grids import *
from functad.numpy.linear import *
from functad.numpy.logic import *
from functad.numpy.manipulation import *
from functad.numpy.means import *
from functad.numpy.positions import *
from functad.numpy.promotion import *
from functad.numpy.reductions import *
from functad.numpy.rounding import *
from functad.numpy.running import *
from functad.numpy.selecting import *
from functad.numpy.selecting import select_cases as _select_cases
from functad.numpy.sorting import *
from functad.numpy.ufuncs import *
from functad.system.later import elsewhere as _elsewhere

if TYPE_CHECKING:
    from functad.numpy import fft as fft
    from functad.numpy import linalg as linalg
    from functad.numpy.bessel import *
    from functad.numpy.bits import *
    from functad.numpy.nan_reductions import *
    from functad.numpy.numeric import *
    from functad.numpy.padding import *
    from functad.numpy.polynomials import *
    from functad.numpy.python_ufuncs import *
    from functad.numpy.sets import *
    from functad.numpy.slices_joined import *
    from functad.numpy.special_matrices import *
    from functad.numpy.statistics import *
    from functad.numpy.vectorizing import *

_array_methods.install()
_protocols.install()
_ufunc_methods.install()

bool = _bool_
ndarray = _Array
select = _select_cases

# --- constants ---------------------------------------------------------------------------

e = _np.e
euler_gamma = _np.euler_gamma
inf = _np.inf
nan = _np.nan
newaxis = None
pi = _np.pi

# --- kinds of dtypes, and printing, as NumPy has them -----------------------------------------------

character = _np.character
complexfloating = _np.complexfloating
dtype = _np.dtype
flexible = _np.flexible
floating = _np.floating
generic = _np.generic
inexact = _np.inexact
integer = _np.integer
number = _np.number
object_ = _np.object_
signedinteger = _np.signedinteger
unsignedinteger = _np.unsignedinteger

array_repr = _np.array_repr
array_str = _np.array_str
get_printoptions = _np.get_printoptions
iterable = _np.iterable
printoptions = _np.printoptions
save = _np.save
savez = _np.savez
set_printoptions = _np.set_printoptions

_SUBMODULES = ("fft", "linalg")
# What few programs use: each file is loaded when one of its functions is asked for.
_PLACES = {
    "functad.numpy.bessel": ["i0"],
    "functad.numpy.bits": ["frexp", "packbits", "unpackbits"],
    "functad.numpy.nan_reductions": [
        "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
        "nansum", "nanvar",
    ],
    "functad.numpy.numeric": [
        "apply_along_axis", "apply_over_axes", "convolve", "correlate", "diff", "ediff1d", "gradient", "interp",
        "ix_", "trapezoid", "trim_zeros", "unwrap",
    ],
    "functad.numpy.padding": ["pad"],
    "functad.numpy.polynomials": [
        "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots",
    ],
    "functad.numpy.python_ufuncs": ["frompyfunc", "ufunc"],
    "functad.numpy.sets": ["intersect1d", "setdiff1d", "setxor1d", "union1d"],
    "functad.numpy.slices_joined": ["c_", "r_"],
    "functad.numpy.special_matrices": [
        "diag_indices", "diag_indices_from", "eye", "identity", "mask_indices", "tri", "tril", "tril_indices",
        "tril_indices_from", "triu", "triu_indices", "triu_indices_from", "vander",
    ],
    "functad.numpy.statistics": [
        "bincount", "corrcoef", "cov", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd",
        "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
    ],
    "functad.numpy.vectorizing": ["vectorize"],
}  # fmt: skip


def __dir__() -> list[str]:
    hidden = {name for name, value in globals().items() if name[0] == "_" or isinstance(value, _ModuleType)}
    names = globals().keys() - hidden - {"TYPE_CHECKING", "annotations"}
    return sorted(names.union(_SUBMODULES, ["__array_api_version__", "__array_namespace_info__"], *_PLACES.values()))


if not TYPE_CHECKING:
    __all__ = [name for name in __dir__() if name[0] != "_"]
    __getattr__ = _absent(__name__, _SUBMODULES, _elsewhere(__name__, _PLACES))
