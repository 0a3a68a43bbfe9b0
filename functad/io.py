"""A pytree of arrays in one `.npz` file: every array under its key path, the structure beside them as JSON.

This file must not know what the arrays are for. Nothing is ever pickled or unpickled.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import random
from functad.absent import absent
from functad.array import Array
from functad.dtypes import bfloat16_dtype, dtype_of, key_fry, kind_of, plain_dtype
from functad.errors import ArgumentError, DataError, DTypeError
from functad.system.cache import atomic_write, part_of
from functad.tree_util import DictKey, GetAttrKey, KeyPath, SequenceKey, is_tree_node, keystr, tree_structure

_STRUCTURE = "functad_tree"
_ROOT = "array"
_FORMAT = 1

# What zipfile, NumPy and json raise for content that they cannot read.
_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
    RuntimeError,
    DTypeError,
    RecursionError,
)

_LONGEST_NAME = 65_535

_NODE_HELP = (
    "A file holds dicts (with str keys or with int keys), lists, tuples, named tuples and None. "
    "Turn the node into one of them before saving, and back after loading."
)


def save(path: str | os.PathLike[str], tree: Any) -> None:
    """Write a pytree of arrays to an `.npz` file, which appears whole or not at all.

    Each array is stored under its key path, so that other programs read it with
    `numpy.load(path)["['dense']['kernel']"]`; a lone array is stored as `"array"`.

    Args:
        path: the file to write, used as it is; missing folders are made.
        tree: dicts (with str keys or with int keys), lists, tuples, named tuples and None around arrays and
            Python scalars, which are stored with functad's default dtypes. Of typed random keys the words are stored,
            as uint32. Of named tuples, such as the states of optimizers, the class is not stored: `load` gives tuples,
            or with `like` the class again.

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
    try:
        header = json.dumps({"format": _FORMAT, "tree": _take_apart(tree, (), arrays)})
    except RecursionError:
        tree_structure(tree)  # raises for a tree that contains itself
        raise ArgumentError("save: the tree is nested too deeply for a file; keep it as a list of parts") from None
    with _naming(path), atomic_write(path) as file:
        np.savez(file, allow_pickle=False, **{_STRUCTURE: np.array(header)}, **arrays)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise if `save` could not write this file; missing folders are made, the file is left as it is.

    Raises:
        ArgumentError: the path names no file. OSError: the file cannot be written.

    >>> check_writable("")
    Traceback (most recent call last):
    functad.errors.ArgumentError: '' cannot be a file to write; give the path of a file, such as 'params.npz'
    """
    name, target = os.fspath(path), Path(path)
    if not target.name or name.endswith(os.sep) or (target.exists() and not target.is_file()):
        example = os.path.join(name, "params.npz")
        what = "is a folder" if target.is_dir() and name else "cannot be a file to write"
        raise ArgumentError(f"{name!r} {what}; give the path of a file, such as {example!r}")
    with _naming(path):
        with part_of(target):
            return


def load(path: str | os.PathLike[str], *, like: Any = None) -> Any:
    """Read a pytree of arrays that `save` wrote.

    Args:
        path: the file to read.
        like: a pytree of the structure, shapes and dtypes that the file must have, such as fresh params or
            `optimizer.init(params)`; its named tuples are made again. Its leaves may be `ShapeDtypeStruct`s.

    Returns:
        The pytree, its leaves NumPy arrays of the shapes and dtypes they were saved with, and typed random keys.

    Raises:
        DataError: the file is missing, damaged, was not written by `save`, or does not fit `like`.

    >>> import functad.optim, tempfile
    >>> folder, optimizer = tempfile.mkdtemp(), functad.optim.sgd(0.1, momentum=0.9)
    >>> save(folder + "/state.npz", optimizer.init([1.0]))
    >>> load(folder + "/state.npz")
    (([array(0., dtype=float32)],), ())
    >>> load(folder + "/state.npz", like=optimizer.init([1.0]))
    (TraceState(trace=[array(0., dtype=float32)]), ())
    """
    name = os.fspath(path)
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{name} does not exist (seen from {Path.cwd()}).") from error
    try:
        tree = _read(content)
    except _DAMAGES as error:
        raise DataError(f"{name} is damaged, or was not written by functad.io.save: {error}") from error
    return tree if like is None else _fitted(tree, like, (), name)


def _take_apart(tree: Any, path: KeyPath, arrays: dict[str, np.ndarray]) -> Any:
    """The structure as JSON: null, a leaf's array name, or `[kind, keys, children]`. Fills `arrays`."""
    if tree is None:
        return None
    if type(tree) is dict:
        keys = _sorted_keys(tree, path)
        return ["dict", keys, [_take_apart(tree[key], (*path, DictKey(key)), arrays) for key in keys]]
    if _is_named(tree):
        children = [_take_apart(getattr(tree, f), (*path, GetAttrKey(f)), arrays) for f in type(tree)._fields]
        return ["tuple", None, children]
    if type(tree) in (list, tuple):
        children = [_take_apart(child, (*path, SequenceKey(i)), arrays) for i, child in enumerate(tree)]
        return [type(tree).__name__, None, children]
    if is_tree_node(type(tree)):
        raise ArgumentError(f"save: tree{keystr(path)} is a {type(tree).__name__}. {_NODE_HELP}")
    name = keystr(path) or _ROOT
    if len(f"{name}.npy".encode()) > _LONGEST_NAME:
        raise ArgumentError(
            f"save: the key path tree{name:.60}… has {len(name):,} characters, but a zip file keeps names of at most "
            f"{_LONGEST_NAME:,} bytes; use shorter keys, or fewer levels"
        )
    dtype = _dtype(tree, path)
    arrays[name] = _stored(tree, dtype)
    return name if arrays[name].dtype == dtype else [dtype.name, None, [name]]


def _sorted_keys(node: dict[Any, Any], path: KeyPath) -> list[Any]:
    kinds = {type(key) for key in node}
    if kinds - {str} and kinds - {int}:
        raise ArgumentError(f"save: tree{keystr(path)} is a dict with the keys {list(node)}. {_NODE_HELP}")
    return sorted(node)


def _dtype(leaf: Any, path: KeyPath) -> np.dtype:
    try:
        return dtype_of(leaf)[0]
    except DTypeError as error:
        raise ArgumentError(f"save: the leaf tree{keystr(path)} cannot be saved. {error}") from error


def _stored(leaf: Any, dtype: np.dtype) -> np.ndarray:
    """A leaf in a dtype that NumPy's format has: of bfloat16 the bits, of random keys the words."""
    if dtype is key_fry:
        return np.asarray(random.key_data(leaf))
    return np.asarray(leaf, dtype).view(plain_dtype(dtype))


def _restored(values: Any, name: str) -> Any:
    """What was stored so, by the name of its dtype."""
    given = getattr(values, "dtype", None)
    if name == "bfloat16" and given == np.uint16:
        return values.view(bfloat16_dtype())
    if name == key_fry.name and given == np.uint32 and values.shape[-1:] == (2,):
        return random.wrap_key_data(values)
    raise ValueError(f"its entry {_STRUCTURE!r} says {name} of what is not stored as such")


def _is_named(tree: Any) -> bool:
    return isinstance(tree, tuple) and hasattr(type(tree), "_fields")


@contextmanager
def _naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of the file system name the file that the user named, not the one that is written before."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno or 0, f"cannot be written: {reason}", os.fspath(path)) from error


def _fitted(tree: Any, like: Any, path: KeyPath, name: str) -> Any:
    """What was loaded with the named tuples of `like`, once both are known to have the same structure."""
    if like is None:
        if tree is not None:
            raise _misfit(tree, "None", path, name)
        return None
    if type(like) is dict:
        if type(tree) is not dict or set(tree) != set(like):
            raise _misfit(tree, f"a dict with the keys {list(like)}", path, name)
        return {key: _fitted(tree[key], like[key], (*path, DictKey(key)), name) for key in like}
    if type(like) in (list, tuple) or _is_named(like):
        named = _is_named(like)
        kind = tuple if named else type(like)
        if type(tree) is not kind or len(tree) != len(like):
            raise _misfit(tree, f"a {type(like).__name__} of {len(like)}", path, name)
        keys = [GetAttrKey(f) for f in type(like)._fields] if named else [SequenceKey(i) for i in range(len(like))]
        pairs = zip(keys, tree, like, strict=True)
        children = [_fitted(child, wanted, (*path, key), name) for key, child, wanted in pairs]
        return type(like)(*children) if named else type(like)(children)
    if is_tree_node(type(like)):
        raise ArgumentError(f"load: like{keystr(path)} is a {type(like).__name__}. {_NODE_HELP}")
    dtype = like.dtype if hasattr(like, "dtype") else _dtype(like, path)
    shape = tuple(like.shape) if hasattr(like, "shape") else ()
    if not isinstance(tree, np.ndarray | Array) or tree.shape != shape or tree.dtype != dtype:
        raise _misfit(tree, f"an array of shape {shape} and dtype {dtype}", path, name)
    return tree


def _misfit(tree: Any, wanted: str, path: KeyPath, name: str) -> DataError:
    if isinstance(tree, np.ndarray | Array):
        found = f"an array of shape {tree.shape} and dtype {tree.dtype}"
    elif isinstance(tree, dict):
        found = f"a dict with the keys {list(tree)}"
    else:
        found = "None" if tree is None else f"a {type(tree).__name__} of {len(tree)}"
    return DataError(
        f"{name} does not fit: tree{keystr(path)} is {found}, but like has {wanted}. Was it saved from another network "
        "or optimizer?"
    )


def _read(content: bytes) -> Any:
    if not zipfile.is_zipfile(BytesIO(content)):
        raise ValueError("it is no .npz file, or its end is cut off")
    with zipfile.ZipFile(BytesIO(content)) as archive:
        entries = _entries(archive)
        if _STRUCTURE not in entries:
            raise ValueError(f"it has no entry {_STRUCTURE!r}; numpy.load reads other .npz files")
        text = _array(archive, entries[_STRUCTURE], "U")
        header = json.loads(text.item(), object_pairs_hook=_unique) if text.shape == () else None
        if not isinstance(header, dict) or not {"format", "tree"} <= header.keys():
            raise ValueError(f"its entry {_STRUCTURE!r} describes no tree")
        if header["format"] != _FORMAT:
            raise ValueError(f"its format is {header['format']!r:.80}, this version of functad reads {_FORMAT}")
        return _build(header["tree"], archive, entries)


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
        shape, fortran_order, dtype = _HEADERS[version](file)
        if kind_of(dtype) not in kinds:
            raise ValueError(f"{what} holds values of dtype {dtype}, which save never writes")
        content = file.read()
    if math.prod(shape) * dtype.itemsize != len(content) or min(shape, default=0) < 0:
        raise ValueError(f"{what} declares an array of shape {shape} and dtype {dtype}, but has {len(content)} bytes")
    values = np.frombuffer(content, dtype)
    return values.reshape(shape, order="F" if fortran_order else "C").copy()


_HEADERS: dict[Any, Any] = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"its entry {_STRUCTURE!r} has a key twice")
    return found


def _build(structure: Any, archive: zipfile.ZipFile, entries: dict[str, zipfile.ZipInfo]) -> Any:
    if structure is None:
        return None
    if isinstance(structure, str):
        if structure not in entries:
            raise ValueError(f"the array {structure!r:.80} is missing")
        values = _array(archive, entries[structure], "biufc")
        dtype_of(values)  # raises for those that functad has not
        return values
    if not isinstance(structure, list) or len(structure) != 3 or not isinstance(structure[2], list):
        raise ValueError(f"its entry {_STRUCTURE!r} has {structure!r:.80} in the place of a node")
    kind, keys, nodes = structure
    children = [_build(node, archive, entries) for node in nodes]
    if kind in ("bfloat16", key_fry.name) and len(children) == 1:
        return _restored(children[0], kind)
    if kind == "dict":
        if not isinstance(keys, list) or {type(k) for k in keys} not in ({str}, {int}, set()):
            raise ValueError(f"a dict has the keys {keys!r:.80}")
        if len(keys) != len(children) or len(set(keys)) != len(keys):
            raise ValueError(f"a dict with {len(children)} values has the keys {keys!r:.80}, which are not as many")
        return dict(zip(keys, children, strict=True))
    if kind not in ("tuple", "list"):
        raise ValueError(f"it has a node of the unknown kind {kind!r:.80}")
    return tuple(children) if kind == "tuple" else children


__all__ = [
    "load",
    "save",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
