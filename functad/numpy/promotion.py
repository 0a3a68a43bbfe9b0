"""What array functions do with their arguments first: make arrays of them, join their dtypes, broadcast their shapes.

Knows no function in particular; everything else in this package is built on it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from functad import dtypes, machine_model
from functad.api.meshes import device_put
from functad.array import Array, ArrayImpl, KeyArray
from functad.config import config
from functad.device_arrays import DeviceArray, beside, put_by_default
from functad.dtypes import kind_of
from functad.errors import (
    ArgumentError,
    AxisError,
    CopyError,
    DTypeError,
    FunctadError,
    RangeError,
    ShapeError,
    TooLargeError,
)
from functad.evaluation import aval_of
from functad.primitives import elementwise, joining
from functad.primitives.common import broadcast_in_dim, broadcast_in_dim_p, convert_element_type
from functad.primitives.kernels.conversion import converted
from functad.system.freed_memory import aligned_copy
from functad.system.once import imported
from functad.tracing import Tracer, bind
from functad.widening import note_meeting

__all__ = ["asarray", "broadcast_shapes"]

SCALARS: frozenset[type] = frozenset({bool, int, float, complex})
"""The Python types of weakly typed operands (`bool`, which joins like them but is not weak, included)."""

# --- arrays of anything -----------------------------------------------------------------------------


def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None, device: Any = None
) -> Array:
    """Make an Array of a number, a NumPy array, or nested sequences of them.

    Args:
        a: an Array (returned as it is), a NumPy array (copied, its dtype kept, 64 bits too), a Python
            scalar or a 64-bit one of NumPy's (gives a weak type), or nested lists and tuples, which may hold traced
            values.
        dtype: the dtype to convert to; by default that of `a`, and 32 bits for Python numbers.
        order: accepted for NumPy's sake; arrays have no visible memory order.
        copy: True for memory of its own; False to refuse a copy, which all but an Array of that dtype need.
        device: where the array shall lie, a device or its name; by default where `a` lies, or on the default device.

    Raises:
        ShapeError: nested sequences have different lengths, or are nested too deeply.
        DTypeError: no array can be made of an element, or a complex number is to become real. RangeError: a Python
            integer does not fit.
        CopyError: a copy is refused, but needed. DeviceError: there is no such device.

    >>> import functad.numpy as jnp
    >>> jnp.asarray([1, 2.5])
    Array([1. , 2.5], dtype=float32)
    """
    wanted = canonical_dtype(dtype)
    if device is not None:
        return on_wanted_device(asarray(a, dtype, order, copy=copy), device)
    if copy is False and not (isinstance(a, Array) and wanted in (None, a.dtype)):
        raise CopyError(
            f"asarray: copy=False: making an Array of {type(a).__name__!r}"
            + (f" with dtype {wanted}" if wanted else "")
            + " needs a copy; leave copy= out"
        )
    if isinstance(a, Array):
        array = a if wanted is None else convert_element_type(a, wanted)
        return elementwise.copy(array) if copy else array
    a = dtypes.adaptable(a)
    if type(a) in SCALARS:
        own, weak = dtypes.dtype_of(a)
        return put_by_default(ArrayImpl(checked_scalar(a, wanted or own, "asarray"), weak and wanted is None))
    if isinstance(a, (np.ndarray, np.generic)):
        taken_in = dtypes.dtype_of_ndarray(a)
        own = dtypes.as_dtype(a.dtype)
        large = a.nbytes >= machine_model.ALIGNED_BYTES
        values = aligned_copy(np.asarray(a), own) if large else np.array(a, own, order="C")
        return put_by_default(ArrayImpl(converted(values, wanted or taken_in)))
    if isinstance(a, (list, tuple, range)):
        return _array_of_sequence(a, wanted)
    return _array_of_object(a, wanted, copy)


def on_wanted_device(x: Any, device: Any) -> Any:
    """An Array on the device that a `device=` argument names; where it lies, if it names none."""
    return x if device is None else device_put(x, device)


def checked_scalar(x: Any, dtype: np.dtype, name: str) -> np.ndarray:
    """A Python scalar as a rank-0 array of the dtype, with an error where it cannot hold the value."""
    if type(x) is int and kind_of(dtype) in "iu":
        info = np.iinfo(dtype)
        if not info.min <= x <= info.max:
            remedy = (
                f"give a larger dtype, or wrap it deliberately: functad.numpy.asarray({x}).astype({dtype.name!r})"
                if name == "asarray"
                else "convert the other operand to a larger dtype first, or reduce the number"
            )
            raise RangeError(
                f"{name}: the Python integer {x} does not fit in {dtype} ({info.min} to {info.max}); {remedy}"
            )
    if type(x) is complex and kind_of(dtype) != "c":
        raise DTypeError(f"{name}: the complex number {x} does not fit in {dtype}; use {x}.real, or a complex dtype")
    return converted(np.asarray(x), dtype)


_NOT_FINITE = (math.inf, -math.inf)
_FLOATS = {dtypes.float32, dtypes.float64}  # to which NumPy rounds as `converted` does


def _wrapped_scalar(x: Any, dtype: np.dtype, name: str) -> np.ndarray:
    """As `checked_scalar`, for the operand of an operation: what the default dtype of integers holds wraps around.

    So −1 is the largest number beside unsigned ones, whether or not it is traced.
    """
    if type(x) is int and kind_of(dtype) in "iu":
        own = np.iinfo(dtypes.default_int_dtype())
        if own.min <= x <= own.max:
            return np.array(x, np.int64).astype(dtype)
    elif dtype in _FLOATS and type(x) in (float, int) and (-6e4 < x < 6e4 or x in _NOT_FINITE):
        return np.array(x, dtype)
    return checked_scalar(x, dtype, name)


def _array_of_sequence(x: Sequence[Any], dtype: np.dtype | None) -> Any:
    try:
        leaves = list(_leaves(x))
    except RecursionError:
        raise ShapeError(
            "asarray: the nested sequence has no end: it contains itself, or is nested too deeply"
        ) from None
    for leaf in leaves:
        if isinstance(leaf, np.ndarray):
            dtypes.dtype_of_ndarray(leaf)  # raises where its values are not all there is to it
    if any(isinstance(leaf, (Tracer, KeyArray)) for leaf in leaves):
        return _stack_of_sequence(x, dtype)
    if dtype is None:
        dtype = _common_dtype(leaves)
    dtypes.refuse_keys("asarray", dtype)
    try:
        with np.errstate(all="ignore"):
            values = np.array(_without_arrays(x), dtype=None if kind_of(dtype) in "iu" else dtype)
    except (ValueError, TypeError) as problem:
        raise ShapeError(
            f"asarray: the nested sequence {_abbreviated(x)} is no array: its parts have different shapes "
            f"or are no numbers ({problem}); pad them to one shape first"
        ) from None
    if kind_of(dtype) in "iu" and kind_of(values.dtype) in "iu" and values.size:
        checked_scalar(int(values.max()), dtype, "asarray")
        checked_scalar(int(values.min()), dtype, "asarray")
    return beside(ArrayImpl(converted(values, dtype)), leaves, "asarray")


def _leaves(x: Any) -> Iterator[Any]:
    for item in x:
        if isinstance(item, (list, tuple, range)):
            yield from _leaves(item)
        else:
            yield item


def _common_dtype(leaves: Sequence[Any]) -> np.dtype:
    if not leaves:
        return dtypes.default_float_dtype()
    scalar_types = {type(leaf) for leaf in leaves} & SCALARS
    pairs = {dtypes.dtype_of(scalar_type()) for scalar_type in scalar_types}
    pairs.update(dtypes.dtype_of(leaf) for leaf in leaves if type(leaf) not in SCALARS)
    return dtypes.joint_dtype(*pairs)[0]


def _without_arrays(x: Any) -> Any:
    if isinstance(x, (list, tuple, range)):
        return [_without_arrays(item) for item in x]
    return np.asarray(x) if isinstance(x, Array) else x


def _stack_of_sequence(x: Any, dtype: np.dtype | None) -> Any:
    parts = promote_dtypes(*[asarray(item, dtype) for item in x])
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise ShapeError(
            f"asarray: the parts of a nested sequence have the different shapes "
            f"{', '.join(str(part.shape) for part in parts)}; pad them to one shape first"
        )
    rows = [_expand_front(part) for part in parts]
    stacked = joining.concatenate(rows, dimension=0)
    return convert_element_type(stacked, stacked.dtype)


def _expand_front(x: Any) -> Any:
    """x with a new leading axis of size 1."""
    shape = x.shape
    return broadcast_in_dim(x, shape=(1, *shape), broadcast_dimensions=range(1, len(shape) + 1))


def _array_of_object(x: Any, dtype: np.dtype | None, copy: bool | None) -> Any:
    if hasattr(x, "__jax_array__"):
        return asarray(x.__jax_array__(), dtype, copy=copy)
    if isinstance(x, (int, float, complex)):  # an IntEnum, for example
        return asarray(x.real if isinstance(x, int) else x, dtype)
    if hasattr(x, "__cuda_array_interface__"):
        return asarray(imported("functad.backends.cuda.runtime.exchange").array_of_interface(x), dtype)
    if hasattr(x, "__array__") or hasattr(x, "__array_interface__") or hasattr(x, "__buffer__"):
        return asarray(np.asarray(x), dtype)
    if isinstance(x, (bytes, bytearray, memoryview)):
        return asarray(np.asarray(memoryview(x)), dtype)
    raise DTypeError(
        f"asarray: {_abbreviated(x)} of type {type(x).__name__} is no array: pass a number, an array, or nested "
        "lists of them" + ("; is a return statement missing?" if x is None else "")
    )


def _abbreviated(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 80 else text[:77] + "..."


# --- dtypes -----------------------------------------------------------------------------------------


def widened(x: Any) -> Array:
    """The same in float32 at least."""
    x = asarray(x)
    dtype = dtypes.promote_types(x.dtype, dtypes.float32)
    return x if x.dtype == dtype else convert(x, dtype)


def operand(name: str, x: Any) -> Any:
    """x as an operand of a function: Python and NumPy scalars stay scalars, everything else becomes an Array."""
    if isinstance(x, np.generic):
        return dtypes.adaptable(x)
    if isinstance(x, Array) or type(x) in SCALARS:
        return x
    try:
        return asarray(x)
    except FunctadError as problem:
        raise type(problem)(f"{name}: {problem}") from None


_WIDE_FLOATS = (dtypes.float64, dtypes.complex128)


def promote_dtypes(*args: Any) -> list[Array]:
    """The operands converted to the one dtype that promotion gives them."""
    first = args[0]
    if isinstance(first, Array):
        own, own_weak = first.dtype, first.weak_type
        if all([isinstance(a, Array) and a.dtype is own and a.weak_type is own_weak for a in args]):
            return list(args)
    dtype, weak = dtypes.joint_dtype(*[_type_of(a) for a in args])
    if dtype in _WIDE_FLOATS:
        note_meeting(args)
    return [convert(a, dtype, weak) for a in args]


def promote_dtypes_inexact(*args: Any) -> list[Array]:
    """As `promote_dtypes`, but integers and booleans become floats."""
    dtype, weak = dtypes.joint_dtype(*[_type_of(a) for a in args])
    inexact = dtypes.to_inexact_dtype(dtype)
    if dtype in _WIDE_FLOATS:
        note_meeting(args)
    return [convert(a, inexact, weak) for a in args]


def _type_of(x: Any) -> tuple[np.dtype, bool]:
    if type(x) is ArrayImpl:
        return x._value.dtype, x.weak_type
    if type(x) is Tracer:
        aval = x.aval
        return aval.dtype, aval.weak_type
    if isinstance(x, np.generic):  # a function's own constant: `operand` has left none of the user's that adapt
        return x.dtype, False
    return dtypes.dtype_of(x)


def convert(x: Any, dtype: np.dtype, weak: bool = False, name: str = "promotion") -> Array:
    """An operand as an Array of another dtype: arrays by an operation, scalars at once."""
    if isinstance(x, Array):
        return convert_element_type(x, dtype, weak)
    if type(x) in SCALARS:
        return ArrayImpl(_wrapped_scalar(x, dtype, name), weak)
    return ArrayImpl(converted(x, dtype), weak)


def canonical_dtype(dtype: Any) -> np.dtype | None:
    """The dtype that a `dtype=` argument names, None where it is not given."""
    return None if dtype is None else dtypes.requested_dtype(dtype)


# --- shapes -----------------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which arrays of the given shapes (or sizes) broadcast.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return joint_shape("broadcast_shapes", [(s,) if isinstance(s, int) else tuple(s) for s in shapes])


def joint_shape(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """As `broadcast_shapes`, with the function's name in the error."""
    joint: tuple[int, ...] = ()
    for shape in shapes:
        missing = len(joint) - len(shape)
        if missing >= 0 and joint[missing:] == shape:
            continue
        if missing <= 0 and shape[-missing:] == joint:
            joint = shape
            continue
        longer, shorter = ((1,) * -missing + joint, shape) if missing < 0 else (joint, (1,) * missing + shape)
        joint = tuple(n if m == 1 else m for m, n in zip(longer, shorter))
        for axis, (m, n) in enumerate(zip(joint, shorter)):
            if n not in (1, m):
                raise _not_joint(name, shapes, axis - len(joint), m, n)
    return joint


def _not_joint(name: str, shapes: Sequence[tuple[int, ...]], axis: int, m: int, n: int) -> ShapeError:
    return ShapeError(
        f"{name}: arrays of shapes {', '.join(map(str, shapes))} do not broadcast: axis {axis} has the sizes "
        f"{m} and {n}, and only a size of 1 is repeated. Use reshape or expand_dims to say which axes belong together"
    )


def broadcast_operand(x: Any, shape: tuple[int, ...]) -> Array:
    """Repeat an array to a shape that it broadcasts to."""
    own = np.shape(x) if not isinstance(x, Array) else x.shape
    if own == shape:
        return x
    return bind(broadcast_in_dim_p, x, shape=shape, broadcast_dimensions=_last_axes(len(own), len(shape)))


@lru_cache
def _last_axes(count: int, rank: int) -> tuple[int, ...]:
    return tuple(range(rank - count, rank))


def promote_shapes(name: str, *args: Any) -> list[Any]:
    """The operands repeated to their joint shape; those of rank 0 stay, as element-wise primitives take them."""
    shapes = [a.shape if isinstance(a, Array) else aval_of(a).shape for a in args]
    largest = max(shapes, key=len)
    if all(s == largest or not s for s in shapes):
        return list(args)
    if config.numpy_rank_promotion != "allow" and len({len(s) for s in shapes if s}) > 1:
        _say_rank_promotion(name, shapes)
    joint = joint_shape(name, shapes)
    return [broadcast_operand(a, joint) if s else a for a, s in zip(args, shapes)]


def _say_rank_promotion(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    text = (
        f"{name}: operands of shapes {', '.join(map(str, shapes))} have different ranks, while numpy_rank_promotion is "
        f"{config.numpy_rank_promotion!r}: write the missing axes with x[None] or reshape"
    )
    if config.numpy_rank_promotion == "raise":
        raise ArgumentError(text)
    warnings.warn(text, stacklevel=2)


# --- both, as most functions want it ----------------------------------------------------------------


def promote_pair(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands with one dtype, and one shape or rank 0: what every binary operator starts with."""
    tx, ty = type(x), type(y)
    if tx is ArrayImpl:
        dtype, shape, weak = x._value.dtype, x._value.shape, x.weak_type
    elif tx is Tracer or tx is DeviceArray:
        aval = x.aval
        dtype, shape, weak = aval.dtype, aval.shape, aval.weak_type
    elif (tx is float or tx is int) and (ty is Tracer or ty is ArrayImpl or ty is DeviceArray):
        y, x = promote_pair(name, y, x)
        return x, y
    else:
        x, y = promote_args(name, x, y)
        return x, y
    if ty is ArrayImpl:
        value = y._value
        if value.dtype is dtype and y.weak_type is weak:
            return (x, y) if value.shape == shape else _joint_pair(name, x, y, shape, value.shape)
    elif ty is Tracer or ty is DeviceArray:
        aval = y.aval
        if aval.dtype is dtype and aval.weak_type is weak:
            return (x, y) if aval.shape == shape else _joint_pair(name, x, y, shape, aval.shape)
    elif (ty is float and kind_of(dtype) in "fc") or (ty is int and kind_of(dtype) in "fc" and -1e4 < y < 1e4):
        if weak:
            return x, ArrayImpl(np.array(y, dtype), True)
        if -6e4 < y < 6e4:  # fits every float dtype; what does not is checked on the slow path
            return x, dtype.type(y)
    x, y = promote_args(name, x, y)
    return x, y


def _joint_pair(name: str, x: Any, y: Any, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> tuple[Any, Any]:
    """As `promote_shapes`, of two arrays of different shapes."""
    if not x_shape or not y_shape:
        return x, y
    if len(x_shape) != len(y_shape) and config.numpy_rank_promotion != "allow":
        _say_rank_promotion(name, [x_shape, y_shape])
    joint = _joint_of_two(name, x_shape, y_shape)
    return broadcast_operand(x, joint), broadcast_operand(y, joint)


@lru_cache(4096)
def _joint_of_two(name: str, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> tuple[int, ...]:
    return joint_shape(name, (x_shape, y_shape))


def promote_args(name: str, *args: Any) -> list[Array]:
    """Operands of any kind with one dtype, and one shape or rank 0."""
    return promote_shapes(name, *promote_dtypes(*[operand(name, a) for a in args]))


def promote_args_inexact(name: str, *args: Any) -> list[Array]:
    """As `promote_args`, but integers and booleans become floats: for `sin`, `mean` and the like."""
    if len(args) == 1:
        (x,) = args
        if type(x) is Tracer or type(x) is ArrayImpl or type(x) is DeviceArray:
            return [x if kind_of(x.dtype) in "fc" else promote_dtypes_inexact(x)[0]]
    return promote_shapes(name, *promote_dtypes_inexact(*[operand(name, a) for a in args]))


def promote_args_numeric(name: str, *args: Any) -> list[Array]:
    """As `promote_args`, but booleans become integers."""
    promoted = promote_args(name, *args)
    if kind_of(aval_of(promoted[0]).dtype) != "b":
        return promoted
    return [convert(a, dtypes.default_int_dtype()) for a in promoted]


# --- axes -------------------------------------------------------------------------------------------


def canonical_axis(name: str, axis: Any, ndim: int) -> int:
    """An axis counted from the front, checked."""
    try:
        index = axis.__index__()
    except (AttributeError, TypeError):
        raise ArgumentError(f"{name}: axis must be an integer, got {axis!r}") from None
    if not -ndim <= index < ndim:
        raise AxisError(f"{name}: axis {index} is out of bounds for an array with {ndim} axes")
    return index % ndim


def listed(axis: Any) -> tuple[Any, ...]:
    """One axis, or several in whatever sequence, as a tuple."""
    several = isinstance(axis, (tuple, Sequence)) or (isinstance(axis, np.ndarray) and axis.ndim == 1)
    return tuple(axis) if several else (axis,)


def canonical_axes(name: str, axis: Any, ndim: int) -> tuple[int, ...]:
    """An `axis` argument, one, several or None for all, as a tuple of distinct axes counted from the front."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    axes = tuple(canonical_axis(name, a, ndim) for a in listed(axis))
    if len(set(axes)) != len(axes):
        raise ArgumentError(f"{name}: axis={axis} names an axis twice")
    return axes


def canonical_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A `shape` argument, an integer or several, as a tuple of Python integers that are not negative."""
    several = type(shape) is tuple or isinstance(shape, Iterable) and not isinstance(shape, Array)
    sizes = tuple(shape) if several else (shape,)
    if any([isinstance(n, Array) and n.dtype is dtypes.key_fry for n in sizes]):
        raise ArgumentError(f"{name}: shape must be an integer or several, got a random key; the key comes first")
    try:
        result = tuple([n.__index__() for n in sizes])
    except AttributeError:
        raise ArgumentError(f"{name}: shape must be an integer or several, got {shape!r}") from None
    if min(result, default=0) < 0:
        raise ArgumentError(f"{name}: shape={result} has a negative size")
    if math.prod(result) > MOST_ELEMENTS:
        raise TooLargeError(
            f"{name}: an array of shape {result} would have {math.prod(result)} elements, more than any array can "
            f"have (2**63 - 1); check which of its sizes is meant to be so large"
        )
    return result


MOST_ELEMENTS = 2**63 - 1


def concrete_value(x: Any, wanted: str, rewrite: str) -> np.ndarray:
    """The NumPy value of a concrete argument; of a traced one an error that says who wanted it, and what to write."""
    return x.concrete(wanted, rewrite) if isinstance(x, Tracer) else np.asarray(x)
