"""The format `.npz`: a zip file of arrays in NumPy's format, and one more with the structure.

This file must not know what the structure says. Nothing is ever pickled or unpickled.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np

from functad.dtypes import dtype_of, kind_of, plain_dtype
from functad.errors import ArgumentError, DTypeError
from functad.io.trees import STRUCTURE, described_tree, put_together
from functad.tree_util import keystr

_LONGEST_NAME = 65_535


def prepare(tree: Any) -> Callable[[BinaryIO], None]:
    """What writes a tree to a file.

    Raises:
        ArgumentError: no such file can hold it.
    """
    structure, arrays = described_tree(tree, keystr)
    for name, _ in arrays:
        if len(f"{name}.npy".encode()) > _LONGEST_NAME:
            raise ArgumentError(
                f"save: the key path tree{name:.60}… has {len(name):,} characters, but a zip file keeps names of at "
                f"most {_LONGEST_NAME:,} bytes; use shorter keys, or fewer levels"
            )
    stored = {name: values.view(plain_dtype(values.dtype)) for name, values in arrays}  # NumPy has no bfloat16
    return lambda file: np.savez(file, allow_pickle=False, **{STRUCTURE: np.array(structure)}, **stored)


def read(file: BinaryIO) -> Any:
    """The tree that a file holds.

    Raises:
        whatever zipfile, NumPy and json raise for content that they cannot read, and ValueError.
    """
    content = BytesIO(file.read())
    if not zipfile.is_zipfile(content):
        raise ValueError("it is no .npz file, or its end is cut off")
    with zipfile.ZipFile(content) as archive:
        entries = _entries(archive)
        if STRUCTURE not in entries:
            raise ValueError(f"it has no entry {STRUCTURE!r}; numpy.load reads other .npz files")
        text = _array(archive, entries.pop(STRUCTURE), "U")
        if text.shape != ():
            raise ValueError(f"its entry {STRUCTURE!r} describes no tree")
        return put_together(text.item(), entries, lambda name: _array(archive, entries[name], "biufc"))


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The entries by name, once they are known to be no more than the file holds."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"its entry {info.filename!r:.80} is compressed, which save never does")
        name = info.filename.removesuffix(".npy")
        if name in found:
            raise ValueError(f"it has the entry {name!r:.80} twice")
        found[name] = info
    damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"the checksum of its entry {damaged!r:.80} is wrong")
    return found


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, kinds: str) -> np.ndarray:
    """An entry as an array; its header is compared with its size before memory is asked for."""
    what = f"its entry {info.filename!r:.80}"
    with archive.open(info) as file:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise ValueError(f"{what} is of version {version} of NumPy's format")
        try:
            shape, fortran_order, dtype = _HEADERS[version](file)
        except MemoryError:  # Python's parser, of what is nested too deeply
            raise ValueError(f"{what} has a header that cannot be parsed") from None
        if kind_of(dtype) not in kinds or (kinds != "U" and not _is_known(dtype)):
            raise ValueError(f"{what} holds values of dtype {dtype}, which save never writes")
        content = file.read()
    if math.prod(shape) * dtype.itemsize != len(content) or min(shape, default=0) < 0:
        raise ValueError(f"{what} declares an array of shape {shape} and dtype {dtype}, but has {len(content)} bytes")
    values = np.frombuffer(content, dtype)
    return values.reshape(shape, order="F" if fortran_order else "C").copy()


def _is_known(dtype: np.dtype) -> bool:
    try:
        dtype_of(np.empty(0, dtype))
    except DTypeError:
        return False
    return True


_HEADERS: dict[Any, Any] = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
