"""Arrays in a device's memory, as executables take and give them.

Knows pools and drivers; nothing of `functad.Array`, nor of Programs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.array import read_only_view
from functad.backends.cuda.runtime.pool import PoolBlock


class DeviceMemory:
    """A C-contiguous array on a device.

    shape, dtype: of its elements. device: a `CudaDevice`. address: where it begins.
    kept: a copy in the host's memory, if somebody asked for it. committed: whether it lies there on purpose.
    """

    __slots__ = ("address", "block", "committed", "device", "dtype", "kept", "shape")

    def __init__(self, device: Any, block: PoolBlock, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.device = device
        self.block = block
        self.address = block.address
        self.shape = shape
        self.dtype = dtype
        self.kept: np.ndarray | None = None
        self.committed = True

    @property
    def nbytes(self) -> int:
        size = self.dtype.itemsize
        for n in self.shape:
            size *= n
        return size

    def host(self) -> np.ndarray:
        """The elements in the host's memory, read-only: copied at the first time, when the device has them."""
        if self.kept is None:
            found = np.empty(self.shape, self.dtype)
            if found.size:
                self.device.driver.download(found, self.address)
            self.kept = read_only_view(found)
        return self.kept

    def ends(self, count: int) -> np.ndarray:
        """Of each axis the first count + 1 and the last count indices, if it has more: what is printed of a long array.

        Only these are copied, unless the host has all.
        """
        chosen = [np.arange(n) if n <= 2 * count + 1 else np.r_[: count + 1, n - count : n] for n in self.shape]
        if self.kept is not None:
            return self.kept[np.ix_(*chosen)]
        found = np.empty([len(c) for c in chosen], self.dtype)
        row = self.shape[-1]
        runs = [(0, row)] if found.shape[-1] == row else [(0, count + 1), (row - count, row)]
        for place in np.ndindex(found.shape[:-1]):
            begin = row * int(np.ravel_multi_index([c[i] for c, i in zip(chosen, place)], self.shape[:-1]))
            parts = np.split(found[place], [runs[0][1]])
            for (first, _), part in zip(runs, parts):
                self.device.driver.download(part, self.address + (begin + first) * self.dtype.itemsize)
        return found

    def copy(self) -> DeviceMemory:
        """The same elements in other memory of the device."""
        block = self.device.pool.take(self.nbytes, described(self.shape, self.dtype), "a copy")
        self.device.driver.copy(block.address, self.address, self.nbytes)
        copied = DeviceMemory(self.device, block, self.shape, self.dtype)
        copied.committed = self.committed
        return copied

    def again(self) -> DeviceMemory:
        """The same memory for another Array, so that none of both may give it away."""
        self.block.shared = True
        return DeviceMemory(self.device, self.block, self.shape, self.dtype)

    def cuda_array_interface(self) -> dict[str, Any]:
        """Version 3 of the CUDA Array Interface: whoever reads it waits for the stream, and works in its own."""
        self.block.shared = True
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address if self.nbytes else 0, False),  # PyTorch takes nothing that is read-only
            "strides": None,
            "stream": self.device.driver.stream or None,
            "version": 3,
        }


def described(shape: tuple[int, ...], dtype: np.dtype) -> str:
    return f"{dtype.name}[{','.join(map(str, shape))}]"
