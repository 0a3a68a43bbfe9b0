"""Arrays of other libraries on GPUs, and theirs of functad's: the CUDA Array Interface, and DLPack.

Knows both protocols and memory; no Programs. What is taken in is copied, on its device, for its owner may write to it;
what is given away is shared, and must not be written to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.array import Array
from functad.backends.cuda.runtime.device import CudaDevice, cuda_devices
from functad.backends.cuda.runtime.memory import DeviceMemory, described
from functad.device_arrays import on_device
from functad.dtypes import bfloat16_dtype, dtype_of_ndarray, kind_of, plain_dtype
from functad.errors import CopyError, DeviceError
from functad.ir import Aval

CUDA = 2  # DLPack's number of the kind of device
_VERSION = (1, 0)
_READ_ONLY = 1
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
_BFLOAT16 = 4


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    """What older consumers take."""

    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_FORMS: dict[bytes, type[Any]] = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}
_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_api = ctypes.pythonapi
_new_capsule = _api.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_pointer_in = _api.PyCapsule_GetPointer
_pointer_in.restype, _pointer_in.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_valid = _api.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_rename = _api.PyCapsule_SetName
_rename.restype, _rename.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


# --- out ------------------------------------------------------------------------------------------------


def capsule_of(memory: DeviceMemory, stream: Any, max_version: Any, copy: bool | None) -> Any:
    """What `__dlpack__` gives: the memory itself to consumers who are told that they may not write, else a copy.

    stream: the consumer's, which waits until the elements are there; 1 or None is CUDA's default, −1 asks for no order.
    """
    versioned = max_version is not None and tuple(max_version) >= _VERSION
    if not versioned and copy is False:
        raise CopyError(
            "__dlpack__: arrays are immutable, and a consumer who asks for no DLPack version is not told so; with "
            "copy=False it must ask for one, max_version=(1, 0)"
        )
    given = memory if versioned and not copy else memory.copy()
    given.block.shared = True
    if stream != -1:
        given.device.driver.let_wait(_stream(stream))
    name = b"dltensor_versioned" if versioned else b"dltensor"
    managed = _FORMS[name]()
    if versioned:
        managed.major, managed.minor = _VERSION
        managed.flags = _READ_ONLY if given is memory else 0
    sizes = (ctypes.c_int64 * max(len(given.shape), 1))(*given.shape)
    tensor = managed.tensor
    tensor.data, tensor.device_type, tensor.device_id = given.address, CUDA, given.device.id
    tensor.ndim, tensor.shape = len(given.shape), sizes
    tensor.code, tensor.bits, tensor.lanes = _code_of(given.dtype), 8 * given.dtype.itemsize, 1
    managed.deleter = ctypes.cast(_forget, ctypes.c_void_p)
    address = ctypes.addressof(managed)
    _given[address] = managed, sizes, given
    return _new_capsule(address, name, None)


def _code_of(dtype: np.dtype) -> int:
    return _BFLOAT16 if plain_dtype(dtype) is not dtype else _CODES[kind_of(dtype)]


def _dtype_of(code: int, bits: int) -> np.dtype | None:
    """The dtype of DLPack's numbers; None if there is none."""
    if (code, bits) == (_BFLOAT16, 16):
        return bfloat16_dtype()
    nbytes, rest = divmod(bits, 8)
    try:
        return None if rest else np.dtype(f"{_KINDS[code]}{nbytes}")
    except (KeyError, TypeError):
        return None


def _stream(stream: Any) -> int:
    return 0 if stream is None or stream == 1 else int(stream)


# What consumers hold. A capsule that nobody takes is held on to: Python would call no function of ours with it.
_given: dict[int, tuple[Any, Any, DeviceMemory]] = {}


@_Deleter
def _forget(address: int) -> None:
    _given.pop(address, None)


# --- in -------------------------------------------------------------------------------------------------


def array_of_interface(x: Any) -> Array:
    """A copy, on its device, of what has a `__cuda_array_interface__`.

    Raises:
        CopyError: it is not contiguous, or masked. DTypeError: arrays cannot have its dtype.
    """
    interface = x.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise CopyError(f"a masked array on a GPU ({type(x).__name__}) cannot become an Array: fill it first")
    dtype, (address, _) = np.dtype(interface["typestr"]), interface["data"]
    if interface["version"] < 3 and address:  # whoever wrote it does not say where its work is done
        _device_of(address).driver.synchronize_all()
    stream = interface.get("stream")
    return _copied(x, address, tuple(interface["shape"]), interface.get("strides"), dtype, stream)


def array_of_dlpack(x: Any) -> Array:
    """A copy, on its device, of what gives a DLPack capsule and lies on a GPU.

    Raises:
        CopyError: it is not contiguous, or in a form that is not known. DTypeError: arrays cannot have its dtype.
    """
    number = x.__dlpack_device__()[1]
    stream = cuda_devices()[number].driver.stream or None
    try:
        capsule = x.__dlpack__(stream=stream, max_version=_VERSION)
    except TypeError:  # an older library
        capsule = x.__dlpack__(stream=stream)
    name = next((name for name in _FORMS if _is_valid(capsule, name)), None)
    if name is None:
        raise CopyError(f"from_dlpack: {type(x).__name__} gives no DLPack capsule of a known form")
    address = _pointer_in(capsule, name)
    managed = _FORMS[name].from_address(address)
    tensor = managed.tensor
    shape = tuple(tensor.shape[: tensor.ndim])
    dtype = _dtype_of(tensor.code, tensor.bits)
    if tensor.lanes != 1 or dtype is None or tensor.device_type != CUDA:
        raise CopyError(
            f"from_dlpack: {type(x).__name__} has elements or a device that functad does not take; convert it to a "
            "dtype of NumPy's on the GPU first"
        )
    strides = tuple(dtype.itemsize * s for s in tensor.strides[: tensor.ndim]) if tensor.strides else None
    result = _copied(x, (tensor.data or 0) + tensor.byte_offset, shape, strides, dtype, None)
    _rename(capsule, b"used_dltensor" if name == b"dltensor" else b"used_dltensor_versioned")
    if managed.deleter:
        _Deleter(managed.deleter)(address)
    return result


def _copied(
    x: Any, address: int, shape: tuple[int, ...], strides: Sequence[int] | None, dtype: np.dtype, stream: int | None
) -> Array:
    """The elements at an address, copied when they are there: what was started in that stream before is waited for."""
    if strides is not None and not _dense(shape, strides, dtype):
        raise CopyError(f"{type(x).__name__} on a GPU is not contiguous: copy it there first")
    device = _device_of(address)
    own = dtype_of_ndarray(np.empty(0, dtype))
    if own != dtype:
        raise CopyError(f"{type(x).__name__} on a GPU has the dtype {dtype}: convert it to {own} there first")
    aval = Aval(shape, own)
    nbytes = aval.size * own.itemsize
    memory = DeviceMemory(
        device, device.pool.take(nbytes, described(shape, own), "taken from another library"), shape, own
    )
    if nbytes:
        if stream is not None:
            device.driver.wait_for(_stream(stream))
        device.driver.copy(memory.address, address, nbytes)
        device.synchronize()  # its owner may write to it, or free it, at once
    return on_device(memory, aval)


def _dense(shape: Sequence[int], strides: Sequence[int], dtype: np.dtype) -> bool:
    """Whether elements lie one after the other; an axis of one element may have any stride, and an empty array all."""
    if 0 in shape:
        return True
    expected = dtype.itemsize
    for n, stride in reversed(list(zip(shape, strides))):
        if n > 1 and stride != expected:
            return False
        expected *= n
    return True


def _device_of(address: int) -> CudaDevice:
    found = [d for d in cuda_devices() if d.driver.owns(address)] if address else cuda_devices()[:1]
    if not found:
        raise DeviceError(f"the address {address:#x} is not in the memory of a GPU that functad knows")
    return found[0]
