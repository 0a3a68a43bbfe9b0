"""The idx file format, in which MNIST and its relatives come: header, shape, bytes.

This file must not know which data sets there are or where they lie.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np

from functad.data.compressed import MAGIC, gunzip
from functad.errors import ArgumentError, DataError

# The third byte of the header names the type; the values are big-endian.
_TYPES: dict[int, np.dtype] = {
    0x08: np.dtype(">u1"),
    0x09: np.dtype(">i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}


_LONGEST_HEADER = 4 + 4 * 255  # bytes


def read_idx(path: str | os.PathLike[str], *, mmap: bool = False) -> np.ndarray:
    """Read an idx file, gzip-compressed or plain, such as those of Fashion-MNIST.

    Args:
        path: the file.
        mmap: leave the numbers in the file, which must be plain, and read them where they are used: for files larger
            than memory. They have the byte order of the file then; what `batches` and `loader` make of them has not.

    Returns:
        A read-only array of the shape and type that the header names, in native byte order.

    Raises:
        DataError: the file is missing, damaged, or no idx file.
        ArgumentError: a compressed file is to be memory-mapped.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
    >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4]))
    >>> read_idx(path)
    array([5, 0, 4], dtype=uint8)
    """
    name = os.fspath(path)
    try:
        if not mmap:
            return parse_idx(Path(path).read_bytes(), name)
        with open(path, "rb") as file:
            head, size = file.read(_LONGEST_HEADER), os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise DataError(f"{name} does not exist (seen from {Path.cwd()}).") from error
    if head[:2] == MAGIC:
        raise ArgumentError(f"read_idx: {name} is compressed, so mmap=True cannot be; unpack it first, with gunzip")
    dtype, shape, start = _described(head, size, name)
    if not math.prod(shape):
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape)


def parse_idx(content: bytes, name: str, *, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Read an idx file from its content, gzip-compressed or plain.

    Args:
        content: the bytes of the file.
        name: the file's name or path, for error messages.
        shape: the shape that the array must have, if it is known.

    Returns:
        A read-only array of the shape and type that the header names, in native byte order.

    Raises:
        DataError: the gzip stream is damaged, the magic number is not idx's, the data are shorter or longer
            than the header says, or the shape is another one than `shape`.

    >>> parse_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4]), "labels")
    array([5, 0, 4], dtype=uint8)
    """
    if content[:2] == MAGIC:
        content = gunzip(content, name)
    dtype, found, start = _described(content, len(content), name)
    if shape is not None and found != shape:
        raise DataError(f"{name} holds an array of shape {found}, expected {shape}: it is not the file it should be.")
    values = np.frombuffer(content, dtype, offset=start).reshape(found)
    return values.astype(dtype.newbyteorder("="), copy=False)


def _described(content: bytes, size: int, name: str) -> tuple[np.dtype, tuple[int, ...], int]:
    """Dtype, shape and first byte of the values of a file that begins so and has so many bytes in all."""
    dtype, shape = _parse_header(content, name)
    start = 4 + 4 * len(shape)
    expected_bytes = math.prod(shape) * dtype.itemsize
    actual_bytes = size - start
    if actual_bytes != expected_bytes:
        state = "truncated" if actual_bytes < expected_bytes else "too long"
        raise DataError(
            f"{name} is {state}: its header says shape {shape} of {dtype.name}, "
            f"that is {expected_bytes:,} bytes, but {actual_bytes:,} follow the header. Fetch the file again."
        )
    try:
        np.broadcast_to(np.empty((), dtype), shape)  # takes no memory
    except ValueError as error:
        raise DataError(f"{name} holds an array of shape {shape}, which NumPy cannot hold: {error}.") from error
    return dtype, shape, start


def _parse_header(content: bytes, name: str) -> tuple[np.dtype, tuple[int, ...]]:
    if len(content) < 4:
        raise DataError(f"{name} is truncated: {len(content)} bytes are too few for the header of an idx file.")
    zero, code, rank = content[:2], content[2], content[3]
    if zero != b"\x00\x00" or code not in _TYPES:
        raise DataError(
            f"{name} is no idx file: it begins with the bytes {content[:4].hex(' ')}, expected 00 00, a type "
            f"code ({', '.join(f'{known:02x}' for known in _TYPES)}) and the number of dimensions."
        )
    if len(content) < 4 + 4 * rank:
        raise DataError(f"{name} is truncated: the file ends within the {rank} sizes of its header.")
    return _TYPES[code], tuple(int(size) for size in np.frombuffer(content, ">u4", rank, offset=4))
