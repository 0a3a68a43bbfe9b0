"""Operators and methods of arrays, traced ones too: each is a function of this package, attached at import.

Knows the functions it delegates to; computes nothing itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from functad import dtypes
from functad.api.devices import block_until_ready
from functad.api.meshes import device_put, sharding_of
from functad.array import Array, DonatedArray, KeyArray, install_methods
from functad.device_arrays import DeviceArray, device_of, is_committed, memory_of
from functad.dtypes import kind_of, plain_dtype
from functad.errors import ArgumentError, CopyError, DTypeError, ShapeError, TracerError
from functad.layouts import CPU, Device
from functad.numpy import (
    arithmetic,
    array_api,
    complex_parts,
    concatenation,
    indexing,
    linear,
    logic,
    manipulation,
    means,
    positions,
    reductions,
    rounding,
    running,
    selecting,
    sorting,
    updates,
)
from functad.numpy.promotion import SCALARS, asarray, convert, on_wanted_device
from functad.primitives import bitcast, elementwise
from functad.system.once import imported
from functad.tracing import Tracer, value_behind

__all__ = ["astype"]

# --- operators --------------------------------------------------------------------------------------


def _is_operand(x: Any) -> bool:
    return type(x) in SCALARS or isinstance(x, (Array, np.ndarray, np.generic, list, tuple, int, float, complex))


def _operator(fun: Callable[[Any, Any], Any], symbol: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The operator and its reflection, for when the array stands on the right."""

    def forward(self: Any, other: Any) -> Any:
        return fun(self, other) if _is_operand(other) else _refused(self, other, symbol)

    def reflected(self: Any, other: Any) -> Any:
        return fun(other, self) if _is_operand(other) else _refused(self, other, symbol)

    forward.__doc__ = f"x {symbol} y"
    reflected.__doc__ = f"y {symbol} x"
    return forward, reflected


def _refused(x: Any, other: Any, symbol: str) -> Any:
    # A text would ask how often it is to be repeated.
    if symbol == "*" and isinstance(other, (str, bytes)):
        raise DTypeError(f"{x._describe()} cannot be multiplied by {other!r} of type {type(other).__name__}: a number?")
    if other is None and symbol not in ("==", "!="):
        raise DTypeError(
            f"unsupported operand of {symbol} beside {x._describe()}: None is no number.{x._where()}\nIt is what a "
            "function without `return` gives, and an argument that was left out; where it may be None, ask first: "
            "`if b is not None: x = x + b`"
        )
    return NotImplemented


_BINARY: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "add": (arithmetic.add, "+"),
    "sub": (arithmetic.subtract, "-"),
    "mul": (arithmetic.multiply, "*"),
    "truediv": (arithmetic.true_divide, "/"),
    "floordiv": (arithmetic.floor_divide, "//"),
    "mod": (arithmetic.remainder, "%"),
    "divmod": (arithmetic.divmod, "divmod"),
    "pow": (arithmetic.power, "**"),
    "matmul": (linear.matmul, "@"),
    "and": (logic.bitwise_and, "&"),
    "or": (logic.bitwise_or, "|"),
    "xor": (logic.bitwise_xor, "^"),
    "lshift": (logic.left_shift, "<<"),
    "rshift": (logic.right_shift, ">>"),
}
_COMPARISONS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "eq": (logic.equal, "=="),
    "ne": (logic.not_equal, "!="),
    "lt": (logic.less, "<"),
    "le": (logic.less_equal, "<="),
    "gt": (logic.greater, ">"),
    "ge": (logic.greater_equal, ">="),
}


def _operators() -> dict[str, Any]:
    methods: dict[str, Any] = {}
    for name, (fun, symbol) in _BINARY.items():
        methods[f"__{name}__"], methods[f"__r{name}__"] = _operator(fun, symbol)
    for name, (fun, symbol) in _COMPARISONS.items():
        methods[f"__{name}__"], _ = _operator(fun, symbol)
    return methods


# --- the container protocol -------------------------------------------------------------------------


def _len(self: Any) -> int:
    if not self.shape:
        raise ShapeError(f"len() of an array of rank 0: {self._describe()} has no axes")
    return self.shape[0]


def _iter(self: Any) -> Iterator[Any]:
    if not self.shape:
        raise TracerError(
            f"{self._describe()} has rank 0, so it cannot be iterated over or unpacked."
            f"{self._where()}\nInstead of\n    for y in x: ...\n"
            "use x itself; functad.numpy.atleast_1d(x) gives it an axis"
        )
    return iter(concatenation.unstack(self))


def _contains(self: Any, item: Any) -> bool:
    return bool(reductions.any(logic.equal(self, item)))


def _reversed(self: Any) -> Iterator[Any]:
    return iter(concatenation.unstack(self)[::-1])


# --- values and conversion --------------------------------------------------------------------------

_VALUES = """Instead of
    values = x.tolist()
keep computing with the array itself, or return it from the transformed function and convert it outside."""


def _known(self: Any, wanted: str) -> np.ndarray:
    return self.concrete(wanted, _VALUES) if isinstance(self, Tracer) else np.asarray(self)


def _item(self: Any, *args: Any) -> Any:
    """The one element (or the one at an index) as a Python number."""
    return _known(self, "`.item()`").item(*args)


def _tolist(self: Any) -> Any:
    """Nested lists of Python numbers."""
    known = self.constant("`.tolist()`", _VALUES) if isinstance(self, Tracer) else np.asarray(self)
    return known.tolist()


def _tobytes(self: Any) -> bytes:
    """The raw bytes of the elements."""
    return _known(self, "`.tobytes()`").tobytes()


def _dlpack(
    self: Any,
    *,
    stream: int | Any | None = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """The elements for other libraries: copied, since most do not ask whether they may write, but for `copy=False`."""
    if isinstance(self, KeyArray):
        np.asarray(self)  # raises: keys are no numbers
    here = _dlpack_device(self)
    if isinstance(self, DeviceArray) and dl_device in (None, here):
        return imported("functad.backends.cuda.runtime.exchange").capsule_of(memory_of(self), stream, max_version, copy)
    known = _known(self, "`__dlpack__`")
    if dl_device not in (None, _DLPACK_CPU):
        raise CopyError(
            f"__dlpack__: {self._describe()} lies on {_device(self)}, DLPack's device {here}, and can be passed there "
            f"or to the CPU, not to {dl_device}: put it there first, with functad.device_put"
        )
    if copy is False and here != _DLPACK_CPU:
        raise CopyError(f"__dlpack__: {self._describe()} lies on {_device(self)}: the CPU can have it as a copy only")
    if plain_dtype(known.dtype) != known.dtype:
        raise CopyError(
            f"__dlpack__: NumPy, which does this, cannot pass on {known.dtype}: pass x.astype('float32'), or the bits, "
            f"x.view('uint16'), which the other library can read as {known.dtype}"
        )
    if copy is not False:
        return np.array(known).__dlpack__(stream=stream)
    if max_version is None or max_version < (1, 0):
        raise CopyError(
            "__dlpack__: arrays are immutable, and a consumer who asks for no DLPack version is not told so; with "
            "copy=False it must ask for one, max_version=(1, 0)"
        )
    exporter: Any = known
    return exporter.__dlpack__(stream=stream, max_version=max_version, copy=False)


_DLPACK_CPU = (1, 0)  # kDLCPU, device 0


def _dlpack_device(self: Any) -> tuple[int, int]:
    """DLPack's number of the kind of device, CPU or CUDA, and of the device."""
    return (2, device_of(self).id) if isinstance(self, DeviceArray) else _DLPACK_CPU


def _round_protocol(self: Any, ndigits: int | None = None) -> Any:
    return rounding.round(self, ndigits or 0)


def _astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The elements converted to another dtype."""
    return astype(self, dtype, device=device)


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Array:
    """The elements converted to another dtype; complex numbers become real by dropping the imaginary part.

    x has any shape, which the result keeps; device: where that shall lie.

    >>> import functad.numpy as jnp
    >>> jnp.astype(jnp.array([1.7, -2.2]), int)
    Array([ 1, -2], dtype=int32)
    """
    return on_wanted_device(convert(asarray(x), dtypes.requested_dtype(float if dtype is None else dtype)), device)


def _sizes(args: tuple[Any, ...]) -> Any:
    return args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


def _reshape(self: Any, *args: Any, order: str = "C") -> Any:
    """The same elements in another shape, given as one tuple or as several sizes."""
    return manipulation.reshape(self, _sizes(args), order)


def _transpose(self: Any, *args: Any) -> Any:
    """The axes permuted, by default reversed."""
    axes = _sizes(args)
    return manipulation.transpose(self, None if axes == () or axes == (None,) else axes)


def _to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array on a device, or with the layout that is asked for."""
    return device_put(self, device)


def _block_until_ready(self: Any) -> Any:
    """The array itself, when it is computed: on the CPU at once, on a GPU when this returns."""
    return block_until_ready(self)


def _copy(self: Any) -> Any:
    """The same elements in memory of their own, which a jitted function may be given by donation."""
    return elementwise.copy(self)


def _view(self: Any, dtype: Any = None, type: None = None) -> Any:  # noqa: A002
    """The bits of the elements read as another dtype; the last axis grows or shrinks with another element size."""
    if dtype is None:
        return self
    wanted = dtypes.as_dtype(dtype)
    old, new = self.dtype.itemsize, wanted.itemsize
    if type is not None or (old != new and not self.shape) or (new > old and self.shape[-1] * old % new):
        raise ArgumentError(
            f"view: {self._describe()} cannot be seen as {wanted}"
            + (f" of type {type}" if type is not None else "")
            + "; the bytes of its last axis must be whole elements of that dtype"
        )
    if wanted == self.dtype:
        return self
    if "c" in (kind_of(self.dtype), kind_of(wanted)):
        return _view_of_complex(self, wanted)
    x = self.astype(np.uint8) if kind_of(self.dtype) == "b" and kind_of(wanted) != "b" else self
    if new > old:
        x = manipulation.reshape(x, (*x.shape[:-1], x.shape[-1] * old // new, new // old))
    result = bitcast.bitcast_convert_type(x, wanted)
    return manipulation.reshape(result, (*self.shape[:-1], self.shape[-1] * old // new)) if new < old else result


def _view_of_complex(x: Any, wanted: np.dtype) -> Any:
    """A view from or to complex numbers, by way of their parts side by side."""
    old, new = x.dtype.itemsize, wanted.itemsize
    shape = x.shape if old == new else (*x.shape[:-1], x.shape[-1] * old // new)
    parts = manipulation.atleast_1d(x)
    if kind_of(x.dtype) == "c":
        pairs = concatenation.stack([elementwise.real(parts), elementwise.imag(parts)], -1)
        parts = manipulation.reshape(pairs, (*parts.shape[:-1], 2 * parts.shape[-1]))
    if kind_of(wanted) == "c":
        parts = parts.view(np.zeros((), wanted).real.dtype)
        result = elementwise.complex(parts[..., ::2], parts[..., 1::2])
    else:
        result = parts.view(wanted)
    return manipulation.reshape(result, shape)


def _compress(self: Any, condition: Any, axis: Any = None, **kwargs: Any) -> Any:
    """Slices along an axis where a condition is true."""
    return positions.compress(condition, self, axis, **kwargs)


def _is_deleted(self: Any) -> bool:
    """Whether the array was donated; else its memory is freed when the last reference to it is gone."""
    return isinstance(self, DonatedArray)


def _delete(self: Any) -> None:
    """Does nothing: memory is freed when the last reference to the array is gone."""


def _is_ready(self: Any) -> bool:
    """Whether the array is computed: on the CPU always, on a GPU when it has done all that was started there."""
    return not isinstance(self, DeviceArray) or bool(memory_of(self).device.driver.is_idle())


def _platform(self: Any) -> str:
    """The kind of device that holds the array."""
    return _device(self).platform


def _copy_to_host_async(self: Any) -> None:
    """Does nothing: the array is in the memory of the host, or is copied there when somebody asks for elements."""


def _size_in_bytes(self: Any) -> int:
    """The bytes of all elements together."""
    return self.size * self.dtype.itemsize


def _unsafe_buffer_pointer(self: Any) -> int:
    """The address of the first element: for looking only, whose memory it is decides functad."""
    address: int = memory_of(self).address if isinstance(self, DeviceArray) else np.asarray(self).ctypes.data
    return address


def _addressable_data(self: Any, index: int) -> Any:
    """The array itself, its only part."""
    if index not in (0, -1):
        raise ArgumentError(f"addressable_data({index}): the array has one part, number 0")
    return self


def _devices(self: Any) -> set[Device]:
    """The devices that hold the array."""
    return {_device(self)}


def _device(self: Any) -> Device:
    """The device on which the array lies, or that which a traced one stands for; else the CPU."""
    known = value_behind(self)
    return device_of(known) if isinstance(known, DeviceArray) else CPU


def _namespace(self: Any, /, *, api_version: str | None = None) -> Any:
    if api_version not in (None, "2021.12", "2022.12", "2023.12", array_api.__array_api_version__):
        raise ArgumentError(
            f"__array_namespace__: functad.numpy follows the Array API standard {array_api.__array_api_version__}, "
            f"not {api_version!r}; leave api_version= out"
        )
    return namespace()


def namespace() -> Any:
    """The module that collects all functions: `functad.numpy`."""
    return sys.modules[__package__]


_METHODS: dict[str, Callable[..., Any]] = {
    "addressable_data": _addressable_data,
    "all": reductions.all,
    "any": reductions.any,
    "argmax": reductions.argmax,
    "argmin": reductions.argmin,
    "argpartition": sorting.argpartition,
    "argsort": sorting.argsort,
    "astype": _astype,
    "block_until_ready": _block_until_ready,
    "choose": selecting.choose,
    "clip": arithmetic.clip,
    "compress": _compress,
    "conj": complex_parts.conjugate,
    "conjugate": complex_parts.conjugate,
    "copy": _copy,
    "copy_to_host_async": _copy_to_host_async,
    "cumprod": running.cumprod,
    "cumsum": running.cumsum,
    "delete": _delete,
    "devices": _devices,
    "diagonal": linear.diagonal,
    "dot": linear.dot,
    "flatten": manipulation.ravel,
    "is_deleted": _is_deleted,
    "is_ready": _is_ready,
    "item": _item,
    "max": reductions.max,
    "mean": means.mean,
    "min": reductions.min,
    "nonzero": selecting.nonzero,
    "on_device_size_in_bytes": _size_in_bytes,
    "platform": _platform,
    "prod": reductions.prod,
    "ptp": reductions.ptp,
    "ravel": manipulation.ravel,
    "repeat": selecting.repeat,
    "reshape": _reshape,
    "round": rounding.round,
    "searchsorted": sorting.searchsorted,
    "sort": sorting.sort,
    "squeeze": manipulation.squeeze,
    "std": means.std,
    "sum": reductions.sum,
    "swapaxes": manipulation.swapaxes,
    "take": selecting.take,
    "to_device": _to_device,
    "tobytes": _tobytes,
    "tolist": _tolist,
    "trace": linear.trace,
    "transpose": _transpose,
    "unsafe_buffer_pointer": _unsafe_buffer_pointer,
    "var": means.var,
    "view": _view,
}


_PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "T": manipulation.transpose,
    "mT": manipulation.matrix_transpose,
    "at": updates.At,
    "committed": is_committed,
    "device": _device,
    "imag": complex_parts.imag,
    "is_fully_addressable": lambda self: True,
    "is_fully_replicated": lambda self: True,
    "itemsize": lambda self: self.dtype.itemsize,
    "nbytes": _size_in_bytes,
    "real": complex_parts.real,
    "sharding": sharding_of,
}

_SPECIAL: dict[str, Callable[..., Any]] = {
    "__abs__": arithmetic.absolute,
    "__array_namespace__": _namespace,
    "__contains__": _contains,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
    "__getitem__": indexing.getitem,
    "__invert__": logic.bitwise_not,
    "__iter__": _iter,
    "__len__": _len,
    "__neg__": arithmetic.negative,
    "__pos__": arithmetic.positive,
    "__reversed__": _reversed,
    "__round__": _round_protocol,
}


def install() -> None:
    """Attach all operators and methods to `functad.Array`."""
    properties = {name: property(fun, doc=fun.__doc__) for name, fun in _PROPERTIES.items()}
    install_methods({**_operators(), **_SPECIAL, **_METHODS, **properties})
