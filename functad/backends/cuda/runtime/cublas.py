"""Matrix products by NVIDIA's cuBLAS: in a driver's stream and in memory given to it, so that graphs record them.

Knows the library's functions and what their failures mean; no arrays, no Programs.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from functad import machine_model
from functad.backends.cuda.runtime.launching import LibraryProduct
from functad.backends.cuda.runtime.pool import MemoryPool, PoolBlock
from functad.errors import DeviceError
from functad.records import NamedTuple

_int, _long, _pointer, _size = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p, ctypes.c_size_t
_MATRIX = (_pointer, _int, _int, _long)  # where it lies, its type, how far apart rows, and matrices, lie

PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cublasCreate_v2": (_pointer,),
    "cublasDestroy_v2": (_pointer,),
    "cublasGetVersion_v2": (_pointer, _pointer),
    "cublasSetStream_v2": (_pointer, _pointer),
    "cublasSetWorkspace_v2": (_pointer, _pointer, _size),
    "cublasGemmStridedBatchedEx": (
        _pointer, _int, _int, _int, _int, _int, _pointer, *_MATRIX, *_MATRIX, _pointer, *_MATRIX, _int, _int, _int,
    ),
}  # fmt: skip

# The library's numbers: of the types of elements with those in which they are added, and of how matrices are read.
_TYPES = {"float32": (0, 68), "float64": (1, 70), "complex64": (4, 68), "complex128": (5, 70)}
_BFLOAT16, _TENSORFLOAT32 = 75, 77
_FASTER = {
    "fastest": _BFLOAT16, "bfloat16": _BFLOAT16, "BF16_BF16_F32": _BFLOAT16,
    "high": _TENSORFLOAT32, "tensorfloat32": _TENSORFLOAT32, "TF32_TF32_F32": _TENSORFLOAT32,
}  # fmt: skip
_AS_IS, _TRANSPOSED = 0, 1
_USUAL_WAY = -1
_NO_ROOM = (1, 3)  # what may mean that the GPU has no memory left
_FAILURES = {
    1: ("it cannot be started", "see that the GPU has memory left, and that cuBLAS is of the driver's CUDA version"),
    3: ("it has no memory left", "delete arrays that are not needed"),
    8: ("it does not support this GPU", "install a cuBLAS of another version"),
    13: ("a kernel of it failed", "run it with CUDA_LAUNCH_BLOCKING=1 in the environment"),
    15: ("it does not support such a product", "please report this"),
}
_OWN = "; functad.config.update('cuda_products', 'functad') does without it"


def takes(dtype: np.dtype) -> bool:
    """Whether the library multiplies matrices of a dtype."""
    return dtype.name in _TYPES


def cublas_library(path: str) -> Any:
    """The library of that path, and what it is made of, which lies beside it.

    Raises:
        DeviceError: it cannot be loaded.
    """
    try:
        for part in sorted(Path(path).parent.glob("libcublasLt.so*"))[:1]:
            ctypes.CDLL(str(part), ctypes.RTLD_GLOBAL)
        loaded = ctypes.CDLL(path)
    except OSError as problem:
        raise DeviceError(
            f"cuBLAS cannot be loaded ({problem}): python -m pip install --force-reinstall nvidia-cublas-cu12{_OWN}"
        ) from None
    for name, types in PROTOTYPES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = types, ctypes.c_int
    return loaded


class _Handle(NamedTuple):
    """A handle for one stream, and memory that only it uses."""

    handle: int
    workspace: PoolBlock


class Cublas:
    """The library on one GPU, whose context must be current when it is called.

    Args:
        calls: the library, or what stands for it.
        stream: in which products run usually.
        pool: gives memory of the GPU.

    Raises:
        DeviceError: the library cannot be started. TooLargeError: there is no memory left for it.
    """

    def __init__(self, calls: Any, stream: int, pool: MemoryPool) -> None:
        self._calls = calls
        self._pool = pool
        self._lock = threading.RLock()  # of the handles' use
        self._making = threading.RLock()  # of new handles
        self._handles: dict[int, _Handle] = {}
        self.prepare(stream)

    def prepare(self, stream: int) -> None:
        """Let products run in one more stream, with memory of its own."""
        with self._making:
            if stream not in self._handles:
                self._handles.setdefault(stream, self._new(stream))

    def version(self) -> str:
        """As "12.9.1"."""
        number = ctypes.c_int()
        handle = next(iter(self._handles.values())).handle
        self._check(self._calls.cublasGetVersion_v2(handle, ctypes.byref(number)), "cublasGetVersion")
        major, rest = divmod(number.value, 10_000)
        return f"{major}.{rest // 100}.{rest % 100}"

    def start(self, product: LibraryProduct, addresses: Sequence[int], stream: int) -> None:
        """Start a product in a stream, of matrices in memories that begin at these addresses."""
        kind, added = _TYPES[product.a.dtype.name]
        if product.a.dtype.name in ("float32", "complex64"):
            added = _FASTER.get(product.precision or "", added)
        factors = np.array([product.alpha, product.beta], product.a.dtype)
        alpha, beta = factors[:1].ctypes.data, factors[1:].ctypes.data
        a, b, c = (addresses[place.slot] + place.offset for place in (product.a, product.b, product.c))
        # The library has columns where rows are here: it multiplies transposes, that of the right operand first.
        arguments = (
            self._handles[stream].handle,
            _TRANSPOSED if product.b_transposed else _AS_IS,
            _TRANSPOSED if product.a_transposed else _AS_IS,
            product.columns, product.rows, product.terms, alpha,
            b, kind, product.b_row, product.b_batch,
            a, kind, product.a_row, product.a_batch, beta,
            c, kind, product.c_row, product.c_batch,
            product.batch, added, _USUAL_WAY,
        )  # fmt: skip
        with self._lock:  # a handle is one thread's at a time
            code = self._calls.cublasGemmStridedBatchedEx(*arguments)
        sizes = f"{product.rows}×{product.terms} and {product.terms}×{product.columns}"
        self._check(code, f"`{product.name}`, of {sizes} matrices")

    def _new(self, stream: int) -> _Handle:
        nbytes = machine_model.CUDA_CUBLAS_BYTES
        workspace = self._pool.take(nbytes, "a workspace", "of cuBLAS")
        handle = ctypes.c_void_p()
        code = self._calls.cublasCreate_v2(ctypes.byref(handle))
        if code in _NO_ROOM:
            self._pool.trim()
            code = self._calls.cublasCreate_v2(ctypes.byref(handle))
        self._check(code, "cublasCreate")
        assert handle.value
        try:
            self._check(self._calls.cublasSetStream_v2(handle, stream), "cublasSetStream")
            # Given memory, it never asks the driver for any, which a graph could not record.
            self._check(self._calls.cublasSetWorkspace_v2(handle, workspace.address, nbytes), "cublasSetWorkspace")
        except DeviceError:
            self._calls.cublasDestroy_v2(handle)
            raise
        return _Handle(handle.value, workspace)

    def _check(self, code: int, what: str) -> None:
        if code:
            meaning, fix = _FAILURES.get(code, ("it reports an error", "`python -m functad doctor` shows its version"))
            raise DeviceError(f"cuBLAS: {meaning} (status {code}, in {what}): {fix}{_OWN}")
