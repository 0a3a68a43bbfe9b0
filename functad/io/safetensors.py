"""The format `.safetensors`: a header in JSON, which says where each array lies, and the bytes of all arrays.

This file must not know what the structure says. Source: https://github.com/huggingface/safetensors, "Format".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from functad.dtypes import bfloat16_dtype, plain_dtype
from functad.errors import ArgumentError, DataError, DTypeError
from functad.io.trees import STRUCTURE, described_tree, put_together, sound, unique_name
from functad.tree_util import DictKey, GetAttrKey, KeyPath, SequenceKey, keystr, tree_leaves_with_path

_METADATA = "__metadata__"
_MOST_HEADER = 100_000_000  # bytes; readers refuse more
_SHOWN_NAMES = 8
_ALIGNMENT = 8  # bytes: where the first array begins; wider ones come first, so that all are aligned

# The names of dtypes: of each kind and size one.
_NAMES = {
    "bool": "BOOL",
    **{f"{kind}{bits}": f"{kind[0].upper()}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64)},
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def prepare(tree: Any) -> Callable[[BinaryIO], None]:
    """What writes a tree to a file: arrays under their key paths, joined by dots where such names are unambiguous.

    Raises:
        ArgumentError: no such file can hold it.
    """
    structure, arrays = described_tree(tree, _dotted)
    if not _are_names([name for name, _ in arrays]):
        structure, arrays = described_tree(tree, keystr)
    for name, values in arrays:
        if values.dtype.name not in _NAMES:
            raise ArgumentError(
                f"save: the array {name!r} has dtype {values.dtype}, which safetensors files have not; save to an .npz "
                "file, or convert it"
            )
    arrays.sort(key=lambda pair: -pair[1].itemsize)
    header: dict[str, Any] = {_METADATA: {STRUCTURE: structure}}
    end = 0
    for name, values in arrays:
        begin, end = end, end + values.nbytes
        header[name] = {
            "dtype": _NAMES[values.dtype.name],
            "shape": list(values.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    if len(text) > _MOST_HEADER:
        raise ArgumentError(
            f"save: the names and the structure take {len(text):,} bytes, but a safetensors file has at most "
            f"{_MOST_HEADER:,} for them; save to an .npz file, or several files"
        )

    def write(file: BinaryIO) -> None:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, values in arrays:
            file.write(_little_endian(values).data)

    return write


def read(file: BinaryIO) -> Any:
    """The tree that a file holds; of a file that functad did not write, the arrays by their names.

    Raises:
        ValueError, TypeError, KeyError, RecursionError: the file is damaged.
        DTypeError: it has an array of a dtype that functad has not.
    """
    size = os.fstat(file.fileno()).st_size
    header, start = _header(file, size)
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError(f"its entry {_METADATA!r} is not a map of texts")
    places = _places(header, size - start)

    def values_of(name: str) -> np.ndarray:
        dtype, shape, begin = places[name]
        plain = plain_dtype(dtype)
        values = np.empty(math.prod(shape), plain.newbyteorder("<"))
        file.seek(start + begin)
        if file.readinto(values.view(np.uint8)) != values.nbytes:  # type: ignore[attr-defined]
            raise ValueError("it was cut off while it was read")
        return values.astype(plain, copy=False).view(dtype).reshape(shape)

    if STRUCTURE in metadata:
        return put_together(metadata[STRUCTURE], places, values_of)
    return {name: sound(values_of(name), name) for name in places}


def arranged(tree: Any, like: Any, file: str) -> Any:
    """A dict of arrays whose names are the key paths of `like`, joined by dots, in its structure; else the tree itself.

    Raises:
        DataError: some are named so, but not all.
    """
    names = [_dotted(path) for path, _ in tree_leaves_with_path(like)]
    flat = type(like) is dict and set(names) == set(like)
    if flat or type(tree) is not dict or set(tree).isdisjoint(names) or not _are_names(names):
        return tree
    missing, more = set(names) - set(tree), set(tree) - set(names)
    differences = [
        f"{who} {sorted(only)[:_SHOWN_NAMES]}{f' and {len(only) - _SHOWN_NAMES} more' * (len(only) > _SHOWN_NAMES)}, "
        f"which {other} has not"
        for who, only, other in (("like has", missing, "the file"), ("it has", more, "like"))
        if only
    ]
    if differences:
        raise DataError(f"{file} does not fit: {'; '.join(differences)}. Was it saved from another network?")
    return _placed(tree, like, ())


def _placed(arrays: dict[str, np.ndarray], like: Any, path: KeyPath) -> Any:
    if like is None:
        return None
    if type(like) is dict:
        return {key: _placed(arrays, child, (*path, DictKey(key))) for key, child in like.items()}
    if isinstance(like, tuple | list):
        fields = getattr(type(like), "_fields", None)
        keys = map(GetAttrKey, fields) if fields else map(SequenceKey, range(len(like)))
        children = [_placed(arrays, child, (*path, key)) for key, child in zip(keys, like, strict=True)]
        return children if isinstance(like, list) else tuple(children)
    return arrays[_dotted(path)]


def _dotted(path: KeyPath) -> str:
    return keystr(path, simple=True, separator=".")


def _are_names(names: list[str]) -> bool:
    """Whether all are different, and texts that a header can have."""
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return False
    return len(set(names)) == len(names) and _METADATA not in names


def _little_endian(values: np.ndarray) -> np.ndarray:
    """The bytes of an array, row by row."""
    plain = np.ascontiguousarray(values).view(plain_dtype(values.dtype)).reshape(-1)
    return plain.astype(plain.dtype.newbyteorder("<"), copy=False).view(np.uint8)


def _header(file: BinaryIO, size: int) -> tuple[dict[str, Any], int]:
    """The header, and where the arrays begin."""
    length = int.from_bytes(file.read(8), "little")
    if size < 8:
        raise ValueError(f"it has {size} bytes, too few for the length of a header")
    if length > min(_MOST_HEADER, size - 8):
        raise ValueError(
            f"its header would have {length:,} bytes, but {size - 8:,} follow, and {_MOST_HEADER:,} are the most"
        )
    text = file.read(length)
    if text[:1] != b"{":
        raise ValueError("its header does not begin with '{'")
    header = json.loads(text.decode("utf-8"), object_pairs_hook=unique_name, parse_constant=_refused)
    return header, 8 + length


def _refused(text: str) -> None:
    raise ValueError(f"its header has {text}, which is no JSON")


def _places(header: dict[str, Any], size: int) -> dict[str, tuple[np.dtype, tuple[int, ...], int]]:
    """Dtype, shape and first byte of each array, once they are known to fill the buffer without gap and overlap."""
    found, ends = {}, []
    for name, entry in header.items():
        what = f"its array {name!r:.80}"
        if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
            raise ValueError(f"{what} lacks a dtype, a shape or data_offsets")
        shape, offsets = entry["shape"], entry["data_offsets"]
        if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
            raise ValueError(f"{what} has the shape {shape!r:.80} and the data_offsets {offsets!r:.80}")
        dtype = _dtype(entry["dtype"], what)
        begin, end = offsets
        if end - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{what} declares shape {shape!s:.80} and dtype {dtype}, but has {end - begin} bytes")
        found[name] = dtype, tuple(shape), begin
        ends.append((begin, end, what))
    at = 0
    for begin, end, what in sorted(ends):
        if begin != at:
            raise ValueError(f"{what} begins at byte {begin}, where {at} was expected: arrays overlap, or leave a gap")
        at = end
    if at != size:
        raise ValueError(f"its arrays end at byte {at}, but {size} bytes follow the header")
    return found


def _dtype(name: Any, what: str) -> np.dtype:
    if name == "BF16":
        return bfloat16_dtype()
    if not isinstance(name, str) or name not in _DTYPES:
        known = ", ".join(_DTYPES)
        raise DTypeError(f"{what} has dtype {name!r:.80}, which functad has not; convert it before to one of {known}")
    return np.dtype(_DTYPES[name])


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
