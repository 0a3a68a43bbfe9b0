"""`functad.numpy`: NumPy's functions on arrays that can be traced, with JAX's results and dtypes.

Collects the public names of this package's files, and computes nothing itself. `linalg` and `fft` load at first use.
"""
# ruff: noqa: A001, A004, F401

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

import numpy as _np

from functad.absent import absent
from functad.array import Array as ndarray
from functad.dtypes import (
    finfo,
    iinfo,
    issubdtype,
    promote_types,
    result_type,
)
from functad.numpy import array_methods as _array_methods
from functad.numpy import protocols as _protocols
from functad.numpy import ufunc_methods as _ufunc_methods
from functad.numpy.arithmetic import (
    abs,
    absolute,
    add,
    clip,
    copysign,
    divide,
    divmod,
    fabs,
    float_power,
    floor_divide,
    fmax,
    fmin,
    fmod,
    gcd,
    heaviside,
    lcm,
    ldexp,
    maximum,
    minimum,
    mod,
    multiply,
    negative,
    nextafter,
    positive,
    pow,
    power,
    reciprocal,
    remainder,
    sign,
    signbit,
    spacing,
    square,
    subtract,
    true_divide,
)
from functad.numpy.array_methods import (
    astype,
)
from functad.numpy.creation import (
    arange,
    array,
    copy,
    diag_indices,
    diag_indices_from,
    empty,
    empty_like,
    eye,
    from_dlpack,
    frombuffer,
    fromfile,
    fromfunction,
    fromiter,
    fromstring,
    full,
    full_like,
    geomspace,
    identity,
    indices,
    linspace,
    load,
    logspace,
    mask_indices,
    meshgrid,
    ones,
    ones_like,
    tri,
    tril,
    tril_indices,
    tril_indices_from,
    triu,
    triu_indices,
    triu_indices_from,
    vander,
    zeros,
    zeros_like,
)
from functad.numpy.dtype_names import (
    bool_,
    can_cast,
    cdouble,
    complex64,
    complex128,
    complex_,
    csingle,
    double,
    float16,
    float32,
    float64,
    float_,
    int8,
    int16,
    int32,
    int64,
    int_,
    isdtype,
    single,
    uint,
    uint8,
    uint16,
    uint32,
    uint64,
)
from functad.numpy.dtype_names import bool_ as bool
from functad.numpy.einsum import (
    einsum,
    einsum_path,
)
from functad.numpy.grids import (
    bartlett,
    blackman,
    hamming,
    hanning,
    index_exp,
    kaiser,
    mgrid,
    ogrid,
    s_,
)
from functad.numpy.linear import (
    cross,
    diag,
    diagflat,
    diagonal,
    dot,
    fill_diagonal,
    inner,
    kron,
    matmul,
    matvec,
    outer,
    tensordot,
    trace,
    vdot,
    vecdot,
    vecmat,
)
from functad.numpy.logic import (
    allclose,
    array_equal,
    array_equiv,
    bitwise_and,
    bitwise_count,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    equal,
    greater,
    greater_equal,
    invert,
    isclose,
    iscomplex,
    iscomplexobj,
    isfinite,
    isinf,
    isnan,
    isneginf,
    isposinf,
    isreal,
    isrealobj,
    isscalar,
    left_shift,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
    right_shift,
)
from functad.numpy.manipulation import (
    append,
    array_split,
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block,
    broadcast_arrays,
    broadcast_to,
    column_stack,
    concat,
    concatenate,
    dsplit,
    dstack,
    expand_dims,
    flip,
    fliplr,
    flipud,
    hsplit,
    hstack,
    matrix_transpose,
    moveaxis,
    ndim,
    permute_dims,
    ravel,
    reshape,
    resize,
    roll,
    rollaxis,
    rot90,
    shape,
    size,
    split,
    squeeze,
    stack,
    swapaxes,
    tile,
    transpose,
    unstack,
    vsplit,
    vstack,
)
from functad.numpy.nan_reductions import (
    nanargmax,
    nanargmin,
    nancumprod,
    nancumsum,
    nanmax,
    nanmean,
    nanmin,
    nanprod,
    nanstd,
    nansum,
    nanvar,
)
from functad.numpy.numeric import (
    apply_along_axis,
    apply_over_axes,
    convolve,
    correlate,
    diff,
    ediff1d,
    gradient,
    interp,
    ix_,
    polyadd,
    polyder,
    polyint,
    polymul,
    polysub,
    polyval,
    trapezoid,
    trim_zeros,
    unwrap,
)
from functad.numpy.padding import (
    pad,
)
from functad.numpy.promotion import (
    asarray,
    broadcast_shapes,
)
from functad.numpy.reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    average,
    count_nonzero,
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    max,
    mean,
    min,
    prod,
    ptp,
    std,
    sum,
    var,
)
from functad.numpy.selecting import (
    argwhere,
    choose,
    compress,
    delete,
    extract,
    flatnonzero,
    insert,
    nonzero,
    piecewise,
    place,
    put,
    put_along_axis,
    ravel_multi_index,
    repeat,
    take,
    take_along_axis,
    unravel_index,
    where,
)
from functad.numpy.selecting import (
    select_cases as select,
)
from functad.numpy.sorting import (
    argpartition,
    argsort,
    digitize,
    intersect1d,
    isin,
    lexsort,
    partition,
    searchsorted,
    setdiff1d,
    setxor1d,
    sort,
    sort_complex,
    union1d,
    unique,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from functad.numpy.statistics import (
    bincount,
    corrcoef,
    cov,
    histogram,
    histogram_bin_edges,
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    percentile,
    quantile,
)
from functad.numpy.ufuncs import (
    acos,
    acosh,
    angle,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    around,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cbrt,
    ceil,
    conj,
    conjugate,
    cos,
    cosh,
    deg2rad,
    degrees,
    exp,
    exp2,
    expm1,
    fix,
    floor,
    hypot,
    imag,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    modf,
    nan_to_num,
    rad2deg,
    radians,
    real,
    rint,
    round,
    sin,
    sinc,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from functad.numpy.vectorizing import vectorize

_array_methods.install()
_protocols.install()
_ufunc_methods.install()

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
_absent = absent(__name__)


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _import_module(f"functad.numpy.{name}")
    return _absent(name)
