"""The idx file format, in which MNIST and its relatives come: header, shape, bytes.

This file must not know which data sets there are or where they lie.
"""

from __future__ import annotations

import math

import numpy as np

from functad.data.compressed import MAGIC, gunzip
from functad.errors import DataError

# The third byte of the header names the type; the values are big-endian.
_TYPES: dict[int, np.dtype] = {
    0x08: np.dtype(">u1"),
    0x09: np.dtype(">i1"),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}


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
    dtype, found = _parse_header(content, name)
    data_start = 4 + 4 * len(found)
    expected_bytes = math.prod(found) * dtype.itemsize
    actual_bytes = len(content) - data_start
    if actual_bytes != expected_bytes:
        state = "truncated" if actual_bytes < expected_bytes else "too long"
        raise DataError(
            f"{name} is {state}: its header says shape {found} of {dtype.name}, "
            f"that is {expected_bytes:,} bytes, but {actual_bytes:,} follow the header. Fetch the file again."
        )
    if shape is not None and found != shape:
        raise DataError(f"{name} holds an array of shape {found}, expected {shape}: it is not the file it should be.")
    values = np.frombuffer(content, dtype, offset=data_start).reshape(found)
    return values.astype(dtype.newbyteorder("="), copy=False)


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
