"""A pytree of arrays in one `.npz` file: every array under its key path, the structure beside them as JSON.

This file must not know what the arrays are for. Nothing is ever pickled or unpickled.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from functad.cache import atomic_write
from functad.dtypes import dtype_of
from functad.errors import ArgumentError, DataError, DTypeError
from functad.tree_util import DictKey, KeyPath, SequenceKey, is_tree_node, keystr

_STRUCTURE = "functad_tree"
_ROOT = "array"
_FORMAT = 1

# What zipfile, NumPy and json raise for content that they cannot read.
_DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, TypeError, RuntimeError)

_NODE_HELP = (
    "A file holds dicts (with str keys or with int keys), lists, tuples and None. "
    "Turn the node into one of them before saving, and back after loading."
)


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Write a pytree of arrays to an `.npz` file, which appears whole or not at all.

    Each array is stored under its key path, so that other programs read it with
    `numpy.load(path)["['dense']['kernel']"]`; a lone array is stored as `"array"`.

    Args:
        path: the file to write, used as it is; missing folders are made.
        tree: dicts (with str keys or with int keys), lists, tuples and None around arrays and Python scalars,
            which are stored with functad's default dtypes.

    Raises:
        ArgumentError: the tree has another kind of node, or a leaf that is no array of numbers; its key path
            is named.
        OSError: the file cannot be written.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "params.npz"
    >>> save(path, {"w": np.ones((2, 1), np.float32), "layers": [1, None]})
    >>> load(path)
    {'layers': [array(1, dtype=int32), None], 'w': array([[1.],
           [1.]], dtype=float32)}
    """
    arrays: dict[str, np.ndarray] = {}
    header = json.dumps({"format": _FORMAT, "tree": _take_apart(tree, (), arrays)})
    with atomic_write(path) as file:
        np.savez(file, allow_pickle=False, **{_STRUCTURE: np.array(header)}, **arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a pytree of arrays that `save` wrote.

    Args:
        path: the file to read.

    Returns:
        The pytree, its leaves NumPy arrays of the shapes and dtypes they were saved with.

    Raises:
        DataError: the file is missing, damaged, or was not written by `save`.
    """
    name = os.fspath(path)
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{name} does not exist (seen from {Path.cwd()}).") from error
    try:
        return _read(content)
    except _DAMAGES as error:
        raise DataError(f"{name} is damaged, or was not written by functad.io.save: {error}") from error


def _take_apart(tree: Any, path: KeyPath, arrays: dict[str, np.ndarray]) -> Any:
    """The structure as JSON: null, a leaf's array name, or `[kind, keys, children]`. Fills `arrays`."""
    if tree is None:
        return None
    if type(tree) is dict:
        keys = _sorted_keys(tree, path)
        return ["dict", keys, [_take_apart(tree[key], (*path, DictKey(key)), arrays) for key in keys]]
    if type(tree) in (list, tuple):
        children = [_take_apart(child, (*path, SequenceKey(i)), arrays) for i, child in enumerate(tree)]
        return [type(tree).__name__, None, children]
    if is_tree_node(type(tree)):
        raise ArgumentError(f"save: tree{keystr(path)} is a {type(tree).__name__}. {_NODE_HELP}")
    name = keystr(path) or _ROOT
    arrays[name] = _as_array(tree, path)
    return name


def _sorted_keys(node: dict[Any, Any], path: KeyPath) -> list[Any]:
    kinds = {type(key) for key in node}
    if kinds - {str} and kinds - {int}:
        raise ArgumentError(f"save: tree{keystr(path)} is a dict with the keys {list(node)}. {_NODE_HELP}")
    return sorted(node)


def _as_array(leaf: Any, path: KeyPath) -> np.ndarray:
    try:
        dtype, _ = dtype_of(leaf)
    except DTypeError as error:
        raise ArgumentError(f"save: the leaf tree{keystr(path)} cannot be saved. {error}") from error
    return np.asarray(leaf, dtype)


def _read(content: bytes) -> Any:
    if not zipfile.is_zipfile(BytesIO(content)):
        raise ValueError("it is no .npz file, or its end is cut off")
    with zipfile.ZipFile(BytesIO(content)) as archive:
        # Before NumPy reads a header: a damaged one can ask for any amount of memory.
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"the checksum of its entry {damaged!r} is wrong")
    with np.load(BytesIO(content), allow_pickle=False) as arrays:
        if _STRUCTURE not in arrays:
            raise ValueError(f"it has no entry {_STRUCTURE!r}; numpy.load reads other .npz files")
        header = json.loads(arrays[_STRUCTURE].item())
        if header["format"] != _FORMAT:
            raise ValueError(f"its format is {header['format']}, this version of functad reads {_FORMAT}")
        return _build(header["tree"], arrays)


def _build(structure: Any, arrays: Any) -> Any:
    if structure is None:
        return None
    if isinstance(structure, str):
        return arrays[structure]
    kind, keys, nodes = structure
    children = [_build(node, arrays) for node in nodes]
    if kind == "dict":
        return dict(zip(keys, children, strict=True))
    return tuple(children) if kind == "tuple" else children
