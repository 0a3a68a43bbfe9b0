"""Pytrees taken apart into named arrays and a structure in JSON, put together again, and compared with another one.

This file must not know of files, nor of their formats.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functad import random
from functad.array import Array
from functad.dtypes import bfloat16_dtype, dtype_of, key_fry
from functad.errors import ArgumentError, DataError, DTypeError
from functad.tree_util import DictKey, GetAttrKey, KeyPath, SequenceKey, is_tree_node, keystr, tree_structure

STRUCTURE = "functad_tree"  # what files call it
ROOT = "array"  # the name of a lone array
_FORMAT = 1
_SHOWN_KEYS = 8

_NODE_HELP = (
    "A file holds dicts (with str keys or with int keys), lists, tuples, named tuples and None. "
    "Turn the node into one of them before saving, and back after loading."
)


def described_tree(tree: Any, name_of: Callable[[KeyPath], str]) -> tuple[str, list[tuple[str, np.ndarray]]]:
    """The structure of a tree as JSON, and its arrays with the names that key paths get.

    Of typed random keys there are the words, as uint32.

    Raises:
        ArgumentError: a node or a leaf that no file holds; its key path is named.

    >>> described_tree({"w": [np.ones(1), None]}, keystr)
    ('{"format": 1, "tree": ["dict", ["w"], [["list", null, ["[\\'w\\'][0]", null]]]]}', [("['w'][0]", array([1.]))])
    """
    arrays: list[tuple[str, np.ndarray]] = []
    try:
        return json.dumps({"format": _FORMAT, "tree": _structure(tree, (), name_of, arrays)}), arrays
    except RecursionError:
        tree_structure(tree)  # raises for a tree that contains itself
        raise ArgumentError("save: the tree is nested too deeply for a file; keep it as a list of parts") from None


def put_together(text: str, names: Iterable[str], read: Callable[[str], np.ndarray]) -> Any:
    """The tree of a structure, each of the arrays with these names read once.

    Raises:
        ValueError, KeyError, TypeError, RecursionError: the structure is none, or is not that of these arrays.
        DTypeError: an array of a dtype that is not there.

    >>> put_together('{"format": 1, "tree": ["list", null, ["a", null]]}', ["a"], lambda name: np.ones(1))
    [array([1.]), None]
    """
    header = json.loads(text, object_pairs_hook=unique_name)
    if not isinstance(header, dict) or not {"format", "tree"} <= header.keys():
        raise ValueError(f"its entry {STRUCTURE!r} describes no tree")
    if header["format"] != _FORMAT:
        raise ValueError(f"its format is {header['format']!r:.80}, this version of functad reads {_FORMAT}")
    left = set(names)
    tree = _built(header["tree"], left, read)
    if left:
        raise ValueError(f"its entry {STRUCTURE!r} does not say where the array {min(left)!r:.80} belongs")
    return tree


def sound(values: np.ndarray, name: str) -> np.ndarray:
    """The array that a file holds, if all its bytes stand for values.

    Raises:
        ValueError: there are booleans of other bytes than 0 and 1.
    """
    if values.dtype == np.bool_ and values.view(np.uint8).max(initial=0) > 1:
        raise ValueError(f"its array {name!r:.80} of booleans holds others than 0 and 1")
    return values


def unique_name(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The dict of the pairs of a JSON object.

    Raises:
        ValueError: a key comes twice.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"its header has the key {twice!r:.80} twice")
    return found


def fitted(tree: Any, like: Any, path: KeyPath, file: str) -> Any:
    """What was loaded from a file with the named tuples of `like`, once both are known to have the same structure.

    Raises:
        DataError: they differ; the key path and both sides are named.
    """
    if like is Ellipsis:
        return tree
    if like is None:
        if tree is not None:
            raise _misfit(tree, like, path, file)
        return None
    if type(like) is dict:
        if type(tree) is not dict or set(tree) != set(like):
            raise _misfit(tree, like, path, file)
        return {key: fitted(tree[key], like[key], (*path, DictKey(key)), file) for key in like}
    if type(like) in (list, tuple) or _is_named(like):
        named = _is_named(like)
        kind = tuple if named else type(like)
        if type(tree) is not kind or len(tree) != len(like):
            raise _misfit(tree, like, path, file)
        keys = [GetAttrKey(f) for f in type(like)._fields] if named else [SequenceKey(i) for i in range(len(like))]
        pairs = zip(keys, tree, like, strict=True)
        children = [fitted(child, wanted, (*path, key), file) for key, child, wanted in pairs]
        return type(like)(*children) if named else type(like)(children)
    if is_tree_node(type(like)):
        raise ArgumentError(f"load: like{keystr(path)} is a {type(like).__name__}. {_NODE_HELP}")
    if not (hasattr(like, "dtype") and hasattr(like, "shape")):
        like = np.empty((), _dtype(like, path, "load: the leaf like"))
    if not isinstance(tree, np.ndarray | Array) or tree.shape != tuple(like.shape) or tree.dtype != like.dtype:
        raise _misfit(tree, like, path, file)
    return tree


def _structure(
    tree: Any, path: KeyPath, name_of: Callable[[KeyPath], str], arrays: list[tuple[str, np.ndarray]]
) -> Any:
    """The structure as JSON: null, a leaf's array name, or `[kind, keys, children]`. Fills `arrays`."""
    if tree is None:
        return None
    if type(tree) is dict:
        keys = _sorted_keys(tree, path)
        return ["dict", keys, [_structure(tree[key], (*path, DictKey(key)), name_of, arrays) for key in keys]]
    if _is_named(tree):
        fields = type(tree)._fields
        children = [_structure(getattr(tree, f), (*path, GetAttrKey(f)), name_of, arrays) for f in fields]
        return ["tuple", None, children]
    if type(tree) in (list, tuple):
        children = [_structure(child, (*path, SequenceKey(i)), name_of, arrays) for i, child in enumerate(tree)]
        return [type(tree).__name__, None, children]
    if is_tree_node(type(tree)):
        raise ArgumentError(f"save: tree{keystr(path)} is a {type(tree).__name__}. {_NODE_HELP}")
    dtype, name = _dtype(tree, path, "save: the leaf tree"), name_of(path) or ROOT
    arrays.append((name, np.asarray(random.key_data(tree) if dtype is key_fry else np.asarray(tree, dtype))))
    return [dtype.name, None, [name]] if dtype.name in _TAGGED else name


# Dtypes that not every format has.
_TAGGED = ("bfloat16", key_fry.name)


def _sorted_keys(node: dict[Any, Any], path: KeyPath) -> list[Any]:
    kinds = {type(key) for key in node}
    if kinds - {str} and kinds - {int}:
        raise ArgumentError(f"save: tree{keystr(path)} is a dict with the keys {list(node)}. {_NODE_HELP}")
    return sorted(node)


def _dtype(leaf: Any, path: KeyPath, what: str) -> np.dtype:
    try:
        return dtype_of(leaf)[0]
    except DTypeError as error:
        raise ArgumentError(f"{what}{keystr(path)} cannot be saved. {error}") from error


def _is_named(tree: Any) -> bool:
    return isinstance(tree, tuple) and hasattr(type(tree), "_fields")


def _built(structure: Any, left: set[str], read: Callable[[str], np.ndarray]) -> Any:
    if structure is None:
        return None
    if isinstance(structure, str):
        if structure not in left:
            raise ValueError(f"the array {structure!r:.80} is missing, or comes twice in its entry {STRUCTURE!r}")
        left.remove(structure)
        return sound(read(structure), structure)
    if not isinstance(structure, list) or len(structure) != 3 or not isinstance(structure[2], list):
        raise ValueError(f"its entry {STRUCTURE!r} has {structure!r:.80} in the place of a node")
    kind, keys, nodes = structure
    if kind == "dict":
        if not isinstance(keys, list) or {type(k) for k in keys} not in ({str}, {int}, set()):
            raise ValueError(f"a dict has the keys {keys!r:.80}")
        if len(keys) != len(nodes) or len(set(keys)) != len(keys):
            raise ValueError(f"a dict with {len(nodes)} values has the keys {keys!r:.80}, which are not as many")
    elif kind not in ("tuple", "list") and not (kind in _TAGGED and len(nodes) == 1):
        raise ValueError(f"it has a node of the unknown kind {kind!r:.80}")
    children = [_built(node, left, read) for node in nodes]
    if kind in _TAGGED:
        return _restored(children[0], kind)
    if kind == "dict":
        return dict(zip(keys, children, strict=True))
    return tuple(children) if kind == "tuple" else children


def _restored(values: Any, name: str) -> Any:
    """An array of the dtype with this name: of bfloat16 files may have the bits, of random keys they have the words."""
    given = getattr(values, "dtype", None)
    if name == "bfloat16" and given == np.uint16:
        return values.view(bfloat16_dtype())
    if name == "bfloat16" and getattr(given, "name", None) == name:
        return values
    if name == key_fry.name and given == np.uint32 and values.shape[-1:] == (2,):
        return random.wrap_key_data(values)
    raise ValueError(f"its entry {STRUCTURE!r} says {name} of what is not stored as such")


def _misfit(tree: Any, like: Any, path: KeyPath, file: str) -> DataError:
    found, wanted = _described(tree, like), _described(like, tree)
    return DataError(
        f"{file} does not fit: tree{keystr(path)} is {found}, but like has {wanted}. Was it saved from another network "
        "or optimizer?"
    )


def _described(tree: Any, other: Any) -> str:
    """A node or a leaf in words; of many keys those that the other one lacks."""
    if tree is None:
        return "None"
    if isinstance(tree, dict):
        keys = list(tree)
        if len(keys) > _SHOWN_KEYS:
            lacking = [key for key in keys if not isinstance(other, dict) or key not in other]
            return f"a dict with {len(keys)} keys{_among(lacking)}"
        return f"a dict with the keys {keys}"
    if isinstance(tree, (list, tuple)):
        return f"a {type(tree).__name__} of {len(tree)}"
    return f"an array of shape {tuple(tree.shape)} and dtype {tree.dtype}"


def _among(keys: Sequence[Any]) -> str:
    if not keys:
        return ""
    more = f" and {len(keys) - _SHOWN_KEYS} more" if len(keys) > _SHOWN_KEYS else ""
    return f", among them {keys[:_SHOWN_KEYS]}{more} which the other has not"
