"""NVIDIA's driver library by ctypes: the functions in use, how it is found and started, and what its failures mean.

Knows no GPU; `driver` asks it for one.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

from functad.errors import DeviceError, DeviceFaultError
from functad.records import NamedTuple

_int, _uint, _size, _pointer, _address = (
    ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint64
)  # fmt: skip
_out = ctypes.c_void_p  # where a result is written

# The functions in use: the name in the library, which tells the version of its arguments, and their types.
PROTOTYPES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "cuInit": ("cuInit", (_uint,)),
    "cuDriverGetVersion": ("cuDriverGetVersion", (_out,)),
    "cuGetErrorName": ("cuGetErrorName", (_int, _out)),
    "cuDeviceGetCount": ("cuDeviceGetCount", (_out,)),
    "cuDeviceGet": ("cuDeviceGet", (_out, _int)),
    "cuDeviceGetName": ("cuDeviceGetName", (_out, _int, _int)),
    "cuDeviceGetAttribute": ("cuDeviceGetAttribute", (_out, _int, _int)),
    "cuDevicePrimaryCtxRetain": ("cuDevicePrimaryCtxRetain", (_out, _int)),
    "cuCtxGetCurrent": ("cuCtxGetCurrent", (_out,)),
    "cuCtxSetCurrent": ("cuCtxSetCurrent", (_pointer,)),
    "cuCtxSynchronize": ("cuCtxSynchronize", ()),
    "cuStreamCreate": ("cuStreamCreate", (_out, _uint)),
    "cuStreamSynchronize": ("cuStreamSynchronize", (_pointer,)),
    "cuStreamQuery": ("cuStreamQuery", (_pointer,)),
    "cuStreamWaitEvent": ("cuStreamWaitEvent", (_pointer, _pointer, _uint)),
    "cuPointerGetAttribute": ("cuPointerGetAttribute", (_out, _int, _address)),
    "cuMemGetInfo": ("cuMemGetInfo_v2", (_out, _out)),
    "cuMemAllocAsync": ("cuMemAllocAsync", (_out, _size, _pointer)),
    "cuMemFreeAsync": ("cuMemFreeAsync", (_address, _pointer)),
    "cuMemcpyHtoDAsync": ("cuMemcpyHtoDAsync_v2", (_address, _pointer, _size, _pointer)),
    "cuMemcpyDtoHAsync": ("cuMemcpyDtoHAsync_v2", (_pointer, _address, _size, _pointer)),
    "cuMemcpyAsync": ("cuMemcpyAsync", (_address, _address, _size, _pointer)),
    "cuModuleLoadData": ("cuModuleLoadData", (_out, _pointer)),
    "cuModuleGetFunction": ("cuModuleGetFunction", (_out, _pointer, ctypes.c_char_p)),
    "cuLaunchKernel": (
        "cuLaunchKernel",
        (_pointer, _uint, _uint, _uint, _uint, _uint, _uint, _uint, _pointer, _pointer, _pointer),
    ),
    "cuEventCreate": ("cuEventCreate", (_out, _uint)),
    "cuEventRecord": ("cuEventRecord", (_pointer, _pointer)),
    "cuEventSynchronize": ("cuEventSynchronize", (_pointer,)),
    "cuEventElapsedTime": ("cuEventElapsedTime", (_out, _pointer, _pointer)),
    "cuEventDestroy": ("cuEventDestroy_v2", (_pointer,)),
    "cuStreamBeginCapture": ("cuStreamBeginCapture_v2", (_pointer, _int)),
    "cuStreamEndCapture": ("cuStreamEndCapture", (_pointer, _out)),
    "cuGraphInstantiate": ("cuGraphInstantiateWithFlags", (_out, _pointer, ctypes.c_uint64)),
    "cuGraphCreate": ("cuGraphCreate", (_out, _uint)),
    "cuGraphAddKernelNode": ("cuGraphAddKernelNode_v2", (_out, _pointer, _pointer, _size, _pointer)),
    "cuGraphAddChildGraphNode": ("cuGraphAddChildGraphNode", (_out, _pointer, _pointer, _size, _pointer)),
    "cuGraphExecKernelNodeSetParams": ("cuGraphExecKernelNodeSetParams_v2", (_pointer, _pointer, _pointer)),
    "cuGraphExecChildGraphNodeSetParams": ("cuGraphExecChildGraphNodeSetParams", (_pointer, _pointer, _pointer)),
    "cuGraphLaunch": ("cuGraphLaunch", (_pointer, _pointer)),
    "cuGraphExecDestroy": ("cuGraphExecDestroy", (_pointer,)),
    "cuGraphDestroy": ("cuGraphDestroy", (_pointer,)),
}

OLDEST = 12010  # the driver's version: CUDA 12.1 is the first whose kernels take more than 4 KiB of arguments


class Failure(NamedTuple):
    """What an error of the driver means, and what can be done."""

    meaning: str
    fix: str


_RESTART = "; nothing that lies on the device can be used any more: start Python anew"
_WHICH = (
    "run it with CUDA_LAUNCH_BLOCKING=1 in the environment, so that the error names the kernel, and with "
    "backend='cpu' and functad.config.update('debug_index', True), which checks indices"
)
FAILURES: dict[int, Failure] = {
    2: Failure(
        "the GPU has no memory left for kernels or graphs",
        "delete arrays that are not needed; see with nvidia-smi what else uses the GPU",
    ),
    3: Failure("the driver does not work in this process", "do not fork after the GPU was used: start processes anew"),
    35: Failure("the driver is too old", "install one of CUDA 12.1 or later"),
    100: Failure("there is no GPU", "see whether nvidia-smi lists one, and whether CUDA_VISIBLE_DEVICES hides it"),
    101: Failure("there is no GPU of that number", "functad.devices('cuda') lists those there are"),
    200: Failure("the driver cannot read the kernels' machine code", "empty the cache: python -m functad cache clear"),
    209: Failure(
        "the kernels' machine code is for another kind of GPU",
        "empty the cache (python -m functad cache clear), and see that CUDA_VISIBLE_DEVICES names the GPU you mean",
    ),
    218: Failure("the driver does not take the kernels' PTX", "please report this with the kernel's .ptx"),
    221: Failure("the driver's own compiler is missing", "install all parts of the driver, or functad[cuda]"),
    222: Failure(
        "the driver is older than the compiler that wrote the kernels' PTX",
        "update NVIDIA's driver; or install a compiler that is not newer: python -m pip install 'numba-cuda[cu12]'",
    ),
    700: Failure("a kernel read or wrote memory that is not its own (illegal address)", _WHICH + _RESTART),
    701: Failure("a kernel needs more registers or shared memory than the GPU has", "please report this"),
    702: Failure("a kernel ran longer than a display allows", "use a GPU without one, or smaller arrays" + _RESTART),
    715: Failure("a kernel's machine code is wrong for this GPU", _WHICH + _RESTART),
    716: Failure("a kernel used an address that does not fit its dtype", _WHICH + _RESTART),
    719: Failure("a kernel failed", _WHICH + _RESTART),
    801: Failure("this GPU or its driver does not support it", "update the driver; old GPUs have no pools of memory"),
    802: Failure("the GPUs' fabric is not ready", "wait for, or start, NVIDIA's fabric manager"),
    803: Failure("the driver library and the kernel module have different versions", "restart the machine"),
    804: Failure("the package cuda-compat does not suit this GPU", "remove it, or update the driver"),
}  # fmt: skip


def library() -> Any:
    """NVIDIA's driver library.

    Raises:
        DeviceError: this machine has none.
    """
    name = {"win32": "nvcuda.dll", "darwin": ""}.get(sys.platform, "libcuda.so.1")
    try:
        loaded = ctypes.CDLL(name or "libcuda.dylib")
    except OSError as problem:
        raise DeviceError(
            f"there is no NVIDIA driver here ({problem}), so no GPU can be used. Install NVIDIA's driver, or in a "
            "container run it with access to the GPU (docker run --gpus all); `python -m functad doctor` says what is "
            "missing. Without a GPU, NUMBA_ENABLE_CUDASIM=1 runs kernels, slowly, in Numba's simulator"
        ) from None
    for symbol, types in PROTOTYPES.values():
        function = getattr(loaded, symbol, None)
        if function is not None:
            function.argtypes, function.restype = types, ctypes.c_int
    return loaded


def start_driver(calls: Any) -> int:
    """Start the driver. Returns how many GPUs it has.

    Raises:
        DeviceError: it does not work, is too old, or has none.
    """
    code = calls.cuInit(0)
    if code:
        fail(calls, code, "cuInit", [])
    found = version(calls)
    if found < OLDEST:
        raise DeviceError(
            f"NVIDIA's driver is too old: it has CUDA {_written(found)}, functad needs {_written(OLDEST)} or later. "
            "Update the driver"
        )
    count = ctypes.c_int()
    code = calls.cuDeviceGetCount(ctypes.byref(count))
    if code or not count.value:
        fail(calls, code or 100, "cuDeviceGetCount", [])
    return count.value


def version(calls: Any) -> int:
    """The version of CUDA that a driver has, as 12040 for 12.4."""
    found = ctypes.c_int()
    calls.cuDriverGetVersion(ctypes.byref(found))
    return found.value


def _written(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def in_the_midst(what: str) -> DeviceError:
    """What is raised where a thread comes a second time to what it could only wait for itself to end."""
    return DeviceError(
        f"functad was called while {what}, by the thread that does it: a finalizer (__del__) or signal handler ran in "
        "the midst of it. Let those only note what is to be done, and call functad afterwards"
    )


def fail(calls: Any, code: int, what: str, started: Sequence[str]) -> None:
    """Raise what a failure of the driver means.

    Raises:
        DeviceFaultError: a kernel went wrong, at once or before. DeviceError: all else.
    """
    name = ctypes.c_char_p()
    calls.cuGetErrorName(code, ctypes.byref(name))
    symbol = (name.value or b"unknown error").decode(errors="replace")
    known = FAILURES.get(
        code, Failure("NVIDIA's driver reports an error", "`python -m functad doctor` shows its state")
    )
    faults = 700 <= code < 800
    before = f"\nStarted before, and not known to be finished: {', '.join(started)}" if started and faults else ""
    kind = DeviceFaultError if faults else DeviceError
    raise kind(f"{known.meaning} ({symbol}, error {code}, in {what}): {known.fix}{before}")
