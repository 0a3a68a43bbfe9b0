"""Making arrays: constants, ranges, and what comes from buffers, files and other libraries.

Knows promotion and a few primitives; `device=` says where an array shall lie: a device or its name.

Args:
    shape: the sizes, an integer or a tuple of them.

Shapes:
    The result has the given shape, or that of what it is like; of numbers in a row or a file it is a vector.

Raises:
    ArgumentError: a shape has negative sizes, or numbers are given that make no row.
    ShapeError: a fill value does not broadcast to the shape.
    TooLargeError: there would be more elements than an array can have.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functad import dtypes
from functad.api.meshes import device_put
from functad.array import Array, ArrayImpl, KeyArray
from functad.device_arrays import device_of, is_committed, put_by_default
from functad.dtypes import kind_of
from functad.errors import ArgumentError, ConcretizationError, CopyError, TooLargeError
from functad.layouts import Device, check_device
from functad.numpy import arithmetic
from functad.numpy.building import as_array, filled
from functad.numpy.promotion import (
    asarray,
    broadcast_operand,
    canonical_axis,
    canonical_dtype,
    canonical_shape,
    concrete_value,
    convert,
    on_wanted_device,
    operand,
    promote_shapes,
)
from functad.primitives import elementwise as el
from functad.primitives import joining, structure
from functad.primitives.common import move_axis
from functad.primitives.common import reshape as reshape_to
from functad.primitives.kernels.conversion import converted
from functad.system.once import imported

_DLPACK_CUDA = 2

__all__ = [
    "arange",
    "array",
    "copy",
    "empty",
    "empty_like",
    "from_dlpack",
    "frombuffer",
    "fromfile",
    "fromfunction",
    "fromiter",
    "fromstring",
    "full",
    "full_like",
    "geomspace",
    "linspace",
    "load",
    "logspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def array(
    object: Any,  # noqa: A002
    dtype: Any = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
) -> Array:
    """Make an Array; see `asarray`. With `ndmin` axes of size 1 are put in front up to that many.

    With `copy` it has memory of its own, which may be donated though `object` is not.

    >>> import functad.numpy as jnp
    >>> jnp.array([[1, 2], [3, 4]])
    Array([[1, 2],
           [3, 4]], dtype=int32)
    """
    x = asarray(object, dtype, copy=True if copy and not isinstance(object, Array) else None, device=device)
    if copy and x is object and isinstance(x, ArrayImpl):
        x = el.copy(x)
    if ndmin > x.ndim:
        x = reshape_to(x, (1,) * (ndmin - x.ndim) + x.shape)
    return x


def copy(a: Any, order: str | None = None) -> Array:
    """The same elements in memory of their own, which a jitted function may be given by donation.

    >>> import functad.numpy as jnp
    >>> jnp.copy(jnp.array([1, 2]))
    Array([1, 2], dtype=int32)
    """
    return el.copy(asarray(a))


# --- constant arrays --------------------------------------------------------------------------------


def zeros(shape: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of zeros, float32 by default.

    >>> import functad.numpy as jnp
    >>> jnp.zeros((2, 2))
    Array([[0., 0.],
           [0., 0.]], dtype=float32)
    """
    return _constant("zeros", shape, 0, dtype, device)


def ones(shape: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of ones, float32 by default.

    >>> import functad.numpy as jnp
    >>> jnp.ones((2, 1))
    Array([[1.],
           [1.]], dtype=float32)
    """
    return _constant("ones", shape, 1, dtype, device)


def empty(shape: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """An array to be replaced later; it holds zeros.

    >>> import functad.numpy as jnp
    >>> jnp.empty((2, 3)).shape
    (2, 3)
    """
    return _constant("empty", shape, 0, dtype, device)


def _constant(name: str, shape: Any, value: int, dtype: Any, device: Any) -> Any:
    wanted = canonical_dtype(dtype) or dtypes.default_float_dtype()
    filling, sizes = _filling(value, wanted), canonical_shape(name, shape)
    return filled(filling, sizes) if device is None else _spread(asarray(filling), sizes, device)


def _spread(value: Any, shape: tuple[int, ...], device: Any) -> Any:
    """An array that holds a value, or broadcasts it; a single device is sent the value, and fills its own memory."""
    if isinstance(device, (Device, str)):
        value = device_put(value, device)
    return on_wanted_device(broadcast_operand(value, shape), device)


def _filling(value: int, dtype: np.dtype) -> Any:
    """0 or 1 as a scalar of a dtype; both words of a key."""
    return KeyArray(np.uint64(value << 32 | value)) if dtype is dtypes.key_fry else dtype.type(value)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """An array filled with one value, or with values that broadcast to the shape; its dtype is the value's.

    >>> import functad.numpy as jnp
    >>> jnp.full(2, 7)
    Array([7, 7], dtype=int32, weak_type=True)
    """
    wanted = canonical_dtype(dtype)
    sizes = canonical_shape("full", shape)
    value = asarray(fill_value) if wanted is None else convert(operand("full", fill_value), wanted)
    return _spread(value, sizes, device)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Array:
    """Zeros of the shape and dtype of `a`.

    >>> import functad.numpy as jnp
    >>> jnp.zeros_like(jnp.array([3, 4]))
    Array([0, 0], dtype=int32)
    """
    return _constant_like(a, 0, dtype, shape, device)


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Array:
    """Ones of the shape and dtype of `a`.

    >>> import functad.numpy as jnp
    >>> jnp.ones_like(jnp.array([3, 4]))
    Array([1, 1], dtype=int32)
    """
    return _constant_like(a, 1, dtype, shape, device)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Array:
    """An array to be replaced later, of the shape and dtype of `prototype`; it holds zeros.

    >>> import functad.numpy as jnp
    >>> jnp.empty_like(jnp.ones((2, 3))).shape
    (2, 3)
    """
    return _constant_like(prototype, 0, dtype, shape, device)


def _constant_like(a: Any, value: int, dtype: Any, shape: Any, device: Any) -> Any:
    wanted = getattr(a, "dtype", None) if dtype is None else dtype
    fill = _filling(value, wanted) if wanted is dtypes.key_fry else value
    return full_like(a, fill, dtype, shape, device=device)


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Array:
    """An array of the shape and dtype of `a`, filled with one value or with values that broadcast.

    >>> import functad.numpy as jnp
    >>> jnp.full_like(jnp.ones(2), 7)
    Array([7., 7.], dtype=float32)
    """
    a = dtypes.adaptable(a)
    like_shape, like_dtype, like_weak = _type_of("full_like", a)
    sizes = like_shape if shape is None else canonical_shape("full_like", shape)
    wanted = canonical_dtype(dtype)
    value = convert(operand("full_like", fill_value), wanted or like_dtype, wanted is None and like_weak)
    if device is None and is_committed(a):
        device = device_of(a)
    return _spread(value, sizes, device)


def _type_of(name: str, a: Any) -> tuple[tuple[int, ...], np.dtype, bool]:
    if hasattr(a, "shape") and hasattr(a, "dtype"):  # also a ShapeDtypeStruct
        own = dtypes.dtype_of_ndarray(a) if isinstance(a, (np.ndarray, np.generic)) else dtypes.as_dtype(a.dtype)
        return tuple(a.shape), own, bool(getattr(a, "weak_type", False))
    aval = as_array(name, a) if not isinstance(a, (bool, int, float, complex)) else asarray(a)
    return aval.shape, aval.dtype, aval.weak_type


# --- ranges -----------------------------------------------------------------------------------------


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None) -> Array:
    """The numbers from `start` (by default 0) to before `stop` in equal steps.

    >>> import functad.numpy as jnp
    >>> jnp.arange(4), jnp.arange(1., 2., 0.5)
    (Array([0, 1, 2, 3], dtype=int32), Array([1. , 1.5], dtype=float32))
    """
    bounds = [_known("arange", v) for v in (start, stop, step) if v is not None]
    wanted = canonical_dtype(dtype) or dtypes.result_type(*[v for v in (start, stop, step) if v is not None])
    if stop is None and step is None and kind_of(wanted) in "iuf" and kind_of(bounds[0].dtype) in "iu":
        return on_wanted_device(structure.iota(wanted, (max(int(bounds[0]), 0),), 0), device)
    first: Any
    last: Any
    first, last = (0, bounds[0]) if stop is None else (bounds[0], bounds[1])
    increment: Any = 1 if step is None else bounds[-1]
    if increment == 0:
        raise ArgumentError("arange: step must not be 0")
    whole = kind_of(wanted) in "iub" and all(kind_of(b.dtype) in "iub" for b in bounds)
    span = (int(first), int(last), int(increment)) if whole else (first, last, increment)
    try:
        values = np.arange(*span)
    except (MemoryError, ValueError, OverflowError) as problem:
        raise TooLargeError(
            f"arange: from {span[0]} to {span[1]} in steps of {span[2]} are more numbers than any array can have here"
            f", or numbers of more than 64 bits ({problem}); check the bounds"
        ) from problem
    return on_wanted_device(put_by_default(ArrayImpl(converted(values, wanted))), device)


_RANGE_REWRITE = """The bounds of a range decide its shape, so they must be known. Instead of
    jnp.arange(n)
make a range of the largest size and mask it
    jnp.where(jnp.arange(largest) < n, x, 0)
or mark the argument static: jit(f, static_argnames="n")."""


def _known(name: str, value: Any) -> np.ndarray:
    known = concrete_value(value, name, _RANGE_REWRITE)
    if known.ndim:
        raise ArgumentError(f"{name} takes scalars, got an array of shape {known.shape}")
    return known


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` numbers at equal distances from `start` to `stop`, which is included unless `endpoint=False`.

    >>> import functad.numpy as jnp
    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    count = known_count("linspace", num)
    result_dtype = canonical_dtype(dtype) or dtypes.to_inexact_dtype(dtypes.result_type(*_parts(start, stop)))
    inexact = dtypes.to_inexact_dtype(result_dtype)
    computed = dtypes.compute_dtype(inexact)
    first, last = (asarray(v, computed) for v in (start, stop))
    first, last = promote_shapes("linspace", first, last)
    shape = first.shape or last.shape
    first, last = broadcast_operand(first, shape), broadcast_operand(last, shape)
    intervals = count - 1 if endpoint else count
    distance = el.sub(last, first)
    step = el.div(distance, computed.type(intervals)) if intervals > 0 else filled(computed.type(np.nan), shape)
    inner = count - 1 if endpoint and count > 1 else count
    fraction = structure.iota(computed, (inner,), 0)
    if intervals > 0:
        fraction = el.div(fraction, computed.type(intervals))
    fraction = reshape_to(fraction, (inner, *(1,) * len(shape)))
    # Weights of both ends, so that the values are symmetric and the last one is exact.
    values = arithmetic.add(
        arithmetic.multiply(structure.expand_dims(first, (0,)), el.sub(computed.type(1), fraction)),
        arithmetic.multiply(structure.expand_dims(last, (0,)), fraction),
    )
    if inner != count:
        values = joining.concatenate([values, structure.expand_dims(last, (0,))], 0)
    values = move_axis(values, 0, canonical_axis("linspace", axis, values.ndim))
    if kind_of(result_dtype) in "iu":
        values = el.floor(values)
    values = on_wanted_device(convert(values, result_dtype), device)
    return (values, convert(step, inexact)) if retstep else values


def _parts(*values: Any) -> list[Any]:
    return [v if isinstance(v, (bool, int, float, complex)) else asarray(v) for v in values]


def known_count(name: str, num: Any) -> int:
    try:
        count = operator.index(num)
    except ConcretizationError:
        raise
    except TypeError:
        raise ArgumentError(f"{name}: num must be an integer, got {num!r}") from None
    if count < 0:
        raise ArgumentError(f"{name}: num must not be negative, got {count}")
    return count


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """`num` numbers whose logarithms to a base are at equal distances from `start` to `stop`.

    >>> import functad.numpy as jnp
    >>> jnp.logspace(0.0, 2.0, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    wanted = canonical_dtype(dtype) or dtypes.to_inexact_dtype(dtypes.result_type(*_parts(start, stop)))
    computed = dtypes.compute_dtype(dtypes.to_inexact_dtype(wanted))
    exponents = linspace(start, stop, num, endpoint, dtype=computed, axis=axis)
    return convert(arithmetic.power(asarray(base, exponents.dtype), exponents), wanted)


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Array:
    """`num` numbers with equal ratios from `start` to `stop`; both have the same sign.

    >>> import functad.numpy as jnp
    >>> jnp.geomspace(1.0, 100.0, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    wanted = canonical_dtype(dtype) or dtypes.to_inexact_dtype(dtypes.result_type(*_parts(start, stop)))
    computed = dtypes.compute_dtype(dtypes.to_inexact_dtype(wanted))
    first, last = (asarray(v, computed) for v in (start, stop))
    sign = el.sign(first)
    first, last = arithmetic.divide(first, sign), arithmetic.divide(last, sign)
    ten = computed.type(np.log(10))
    values = logspace(el.div(el.log(first), ten), el.div(el.log(last), ten), num, endpoint, 10.0, computed, 0)
    values = arithmetic.multiply(sign, values)
    return convert(move_axis(values, 0, canonical_axis("geomspace", axis, values.ndim)), wanted)


# --- from elsewhere ---------------------------------------------------------------------------------


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """An array of the raw bytes of a buffer.

    >>> import functad.numpy as jnp
    >>> jnp.frombuffer(bytes([1, 2]), jnp.uint8)
    Array([1, 2], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtypes.as_dtype(dtype), count, offset))


def fromfunction(function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Array:
    """The array whose element at (i, j, …) is `function(i, j, …)`, called once on arrays of indices.

    >>> import functad.numpy as jnp
    >>> jnp.fromfunction(lambda i, j: 10 * i + j, (2, 2), dtype=int)
    Array([[ 0,  1],
           [10, 11]], dtype=int32)
    """
    sizes = canonical_shape("fromfunction", shape)
    grid = [structure.iota(dtypes.requested_dtype(dtype), sizes, i) for i in range(len(sizes))]
    return function(*grid, **kwargs)


def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0) -> Array:
    """An array of the numbers in a file.

    >>> import os, tempfile, numpy as np, functad.numpy as jnp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.arange(3, dtype=np.int32).tofile(os.path.join(folder, "a"))
    ...     jnp.fromfile(os.path.join(folder, "a"), jnp.int32)
    Array([0, 1, 2], dtype=int32)
    """
    return asarray(np.fromfile(file, dtypes.as_dtype(dtype), count, sep, offset))


def load(file: Any, **kwargs: Any) -> Any:
    """An array (or a dict-like of them) that `save` or `savez` wrote to a `file`; arguments are those of `numpy.load`.

    >>> import os, tempfile, functad.numpy as jnp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     jnp.save(os.path.join(folder, "a.npy"), jnp.arange(3))
    ...     jnp.load(os.path.join(folder, "a.npy"))
    Array([0, 1, 2], dtype=int32)
    """
    loaded = np.load(file, **kwargs)
    if isinstance(loaded, np.ndarray):
        is_unnamed = loaded.dtype == np.dtype("V2")  # what NumPy writes of bfloat16
        return asarray(loaded.view(dtypes.bfloat16_dtype()) if is_unnamed else loaded)
    return loaded


def fromiter(iter: Any, dtype: Any, count: int = -1) -> Array:  # noqa: A002
    """An array of the numbers that an iterator gives.

    >>> import functad.numpy as jnp
    >>> jnp.fromiter((i * i for i in range(3)), jnp.int32)
    Array([0, 1, 4], dtype=int32)
    """
    return asarray(np.fromiter(iter, dtypes.as_dtype(dtype), count))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Array:
    """An array of the numbers written in a text.

    >>> import functad.numpy as jnp
    >>> jnp.fromstring("1 2 3", jnp.int32, sep=" ")
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string, dtypes.as_dtype(dtype), count, sep=sep))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of another library's array, copied, on a GPU if that lies there.

    With `copy=False` it must be immutable, as functad's are.

    Raises:
        CopyError: a copy is needed but refused. DeviceError: there is no such device.

    >>> import numpy as np, functad.numpy as jnp
    >>> jnp.from_dlpack(np.arange(3, dtype=np.int32))
    Array([0, 1, 2], dtype=int32)
    """
    check_device(device, "from_dlpack")
    if isinstance(x, Array):
        return on_wanted_device(el.copy(x) if copy else x, device)
    if copy is not None and not copy:
        raise CopyError("from_dlpack: copy=False: arrays are immutable, so they copy what others may change")
    if x.__dlpack_device__()[0] == _DLPACK_CUDA:
        return device_put(imported("functad.backends.cuda.runtime.exchange").array_of_dlpack(x), device)
    try:
        return asarray(np.from_dlpack(x), device=device)
    except (BufferError, RuntimeError) as problem:
        raise CopyError(
            f"from_dlpack: NumPy, which does this, cannot take this: {problem}. If its dtype is bfloat16, "
            "pass its bits as int16, and read the result as that: from_dlpack(bits).view('bfloat16')"
        ) from problem
