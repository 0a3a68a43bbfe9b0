"""The types of pytree nodes: how each is taken apart and put together, and the keys that lead into it.

This file knows nothing of whole trees, nor what is done with them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from functad.errors import ArgumentError, TreeError
from functad.records import NamedTuple, Record


class SequenceKey(Record):
    """The key of a child of a tuple or list: its index.

    >>> import functad
    >>> [((key,), _)] = functad.tree_util.tree_leaves_with_path([7.])
    >>> key, key.idx, str(key)
    (SequenceKey(idx=0), 0, '[0]')
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


class DictKey(Record):
    """The key of a child of a dict.

    >>> import functad
    >>> [((key,), _)] = functad.tree_util.tree_leaves_with_path({"w": 7.})
    >>> key, key.key, str(key)
    (DictKey(key='w'), 'w', "['w']")
    """

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


class GetAttrKey(Record):
    """The key of a child that is an attribute, as in a namedtuple or a dataclass.

    >>> import functad
    >>> from typing import NamedTuple
    >>> class Layer(NamedTuple):
    ...     w: float
    >>> [((key,), _)] = functad.tree_util.tree_leaves_with_path(Layer(7.))
    >>> key, key.name, str(key)
    (GetAttrKey(name='w'), 'w', '.w')
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


class FlattenedIndexKey(Record):
    """The key of a child of a class that was registered without keys: its index among the children.

    >>> from functad.tree_util import FlattenedIndexKey
    >>> str(FlattenedIndexKey(2))
    '[<flat index 2>]'
    """

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


KeyPath = tuple[Any, ...]
Children = Sequence[Any]


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A key path as text.

    Args:
        keys: the path from the root, as the `*_with_path` functions give it.
        simple: write the bare keys, without brackets, quotes and dots.
        separator: what stands between two keys.

    >>> path = (DictKey("dense"), SequenceKey(0))
    >>> keystr(path), keystr(path, simple=True, separator="/")
    ("['dense'][0]", 'dense/0')
    """
    return separator.join([_bare_key(key) if simple else str(key) for key in keys])


def _bare_key(key: Any) -> str:
    for attribute in ("idx", "key", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


class NodeKind(NamedTuple):
    """How nodes of one type are taken apart and put together."""

    type: type
    flatten: Callable[[Any], tuple[Children, Any]]
    """From a node to its children and its metadata."""
    unflatten: Callable[[Any, Children], Any]
    """From metadata and children to a node."""
    keys: Callable[[Any, int], Iterable[Any]]
    """From metadata and the number of children to the children's keys."""
    flatten_with_keys: Callable[[Any], tuple[Sequence[tuple[Any, Any]], Any]] | None = None
    """From a node to pairs of key and child, and the metadata; needed where the node decides on the keys."""
    label: Callable[[Any], str] | None = None
    """From metadata to what a printed PyTreeDef shows for the node; None for the types with a syntax."""


def register_kind(kind: NodeKind) -> None:
    """Make `kind.type` a node type; raises ArgumentError if it is one already."""
    if not isinstance(kind.type, type):
        raise ArgumentError(f"a pytree node type must be a class, got {kind.type!r}")
    with _lock:
        if kind.type in _registered:
            raise ArgumentError(
                f"class {kind.type.__qualname__} is a pytree node type already; register each class once"
            )
        _registered.add(kind.type)
        KINDS[kind.type] = kind
        LEAF_TYPES.discard(kind.type)


def index_keys(metadata: Any, count: int) -> list[FlattenedIndexKey]:
    """The keys of the children of a class that names none."""
    return [FlattenedIndexKey(index) for index in range(count)]


def keyed_children(
    kind: NodeKind, node: Any, path: KeyPath = (), name: str = "tree"
) -> tuple[list[tuple[Any, Any]], Any]:
    """The children of `node` with their keys, and its metadata.

    In error messages `name` is the tree and `path` leads to the node.
    """
    if kind.flatten_with_keys is not None:
        pairs, metadata = kind.flatten_with_keys(node)
        return list(pairs), metadata
    try:
        children, metadata = kind.flatten(node)
    except UnsortableKeysError as error:
        raise TreeError(f"at {name}{keystr(path)}: {error}") from None
    return list(zip(kind.keys(metadata, len(children)), children, strict=True)), metadata


def first_items(items: list[Any]) -> str:
    """The first of the items, as text."""
    shown = ", ".join([repr(item) for item in items[:8]])
    return f"{shown}, … ({len(items)} in all)" if len(items) > 8 else shown


class UnsortableKeysError(TreeError):
    """A dict has keys without an order, and so its children have none."""


def _sorted_keys(node: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(node))
    except TypeError:
        types = sorted({type(key).__name__ for key in node})
        raise UnsortableKeysError(
            f"the dict keys {first_items(list(node))} (types {', '.join(types)}) cannot be sorted, which gives a "
            "pytree the order of its leaves; use keys of one sortable type, or an OrderedDict"
        ) from None


def _flatten_dict(node: dict[Any, Any]) -> tuple[Children, Any]:
    if not node:  # the keyword arguments of most calls
        return (), ()
    keys = _sorted_keys(node)
    return [node[key] for key in keys], keys


def _flatten_defaultdict(node: defaultdict[Any, Any]) -> tuple[Children, Any]:
    keys = _sorted_keys(node)
    return [node[key] for key in keys], (node.default_factory, keys)


def _unflatten_defaultdict(metadata: Any, children: Children) -> defaultdict[Any, Any]:
    factory, keys = metadata
    return defaultdict(factory, zip(keys, children, strict=True))


def _sequence_keys(metadata: Any, count: int) -> list[SequenceKey]:
    return [SequenceKey(index) for index in range(count)]


def _dict_keys(metadata: Any, count: int) -> list[DictKey]:
    return [DictKey(key) for key in metadata]


def _namedtuple_kind(cls: Any) -> NodeKind:
    return NodeKind(
        type=cls,
        flatten=lambda node: (tuple(node), None),
        unflatten=lambda metadata, children: cls(*children),
        keys=lambda metadata, count: [GetAttrKey(field) for field in cls._fields],
        label=lambda metadata: f"namedtuple[{cls.__name__}]",
    )


class Kinds(dict[type, NodeKind | None]):
    """Every class met so far and its kind; None for leaves. Filled as classes are looked up."""

    def __missing__(self, cls: type) -> NodeKind | None:
        with _lock:
            if cls not in self:  # another thread may have registered it
                kind = _namedtuple_kind(cls) if issubclass(cls, tuple) and hasattr(cls, "_fields") else None
                self[cls] = kind
                if kind is None:
                    LEAF_TYPES.add(cls)
            return self[cls]


def is_namedtuple(cls: type) -> bool:
    """Whether instances are nodes because they are namedtuples, and not because somebody registered the class."""
    return KINDS[cls] is not None and cls not in _registered


_lock = threading.RLock()  # a search for garbage in between may run code that looks classes up, too
KINDS = Kinds()
LEAF_TYPES: set[type] = set()  # the classes whose kind is None, to test many children in one call
_registered: set[type] = set()

register_kind(
    NodeKind(
        type=type(None),
        flatten=lambda node: ((), None),
        unflatten=lambda metadata, children: None,
        keys=_sequence_keys,
    )
)
TUPLE = NodeKind(
    type=tuple,
    flatten=lambda node: (node, None),
    unflatten=lambda metadata, children: tuple(children),
    keys=_sequence_keys,
)
register_kind(TUPLE)
register_kind(
    NodeKind(
        type=list,
        flatten=lambda node: (node, None),
        unflatten=lambda metadata, children: list(children),
        keys=_sequence_keys,
    )
)
register_kind(
    NodeKind(
        type=dict,
        flatten=_flatten_dict,
        unflatten=lambda keys, children: dict(zip(keys, children, strict=True)),
        keys=_dict_keys,
    )
)
register_kind(
    NodeKind(
        type=OrderedDict,
        flatten=lambda node: (list(node.values()), tuple(node)),
        unflatten=lambda keys, children: OrderedDict(zip(keys, children, strict=True)),
        keys=_dict_keys,
        label=lambda keys: f"OrderedDict[{keys!r}]",
    )
)
register_kind(
    NodeKind(
        type=defaultdict,
        flatten=_flatten_defaultdict,
        unflatten=_unflatten_defaultdict,
        keys=lambda metadata, count: _dict_keys(metadata[1], count),
        label=lambda metadata: f"defaultdict[{metadata!r}]",
    )
)
