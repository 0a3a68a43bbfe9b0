"""`PyTreeDef`, a tree without its leaves: taking trees apart, building them, and saying where two differ.

This file knows nothing of arrays, and not how a node of some type is taken apart: that is `tree_nodes.py`.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from functad.errors import TreeError
from functad.tree_nodes import (
    KINDS,
    LEAF_TYPES,
    DictKey,
    KeyPath,
    NodeKind,
    UnsortableKeysError,
    keyed_children,
    keystr,
    listed,
)

IsLeaf = Callable[..., bool]


class PyTreeDef:
    """The structure of a pytree: its nodes with their metadata, and a `*` for each leaf.

    Immutable, hashable, comparable. Made by `tree_structure` and `tree_flatten`.

    Attributes:
        num_leaves: the number of leaves.
    """

    __slots__ = ("_children", "_hash", "_is_flat", "_kind", "_metadata", "num_leaves")

    def __init__(
        self,
        kind: NodeKind | None,
        metadata: Any,
        children: tuple[PyTreeDef, ...],
        num_leaves: int,
        is_flat: bool,
    ) -> None:
        self._kind = kind
        self._metadata = metadata
        self._children = children
        self.num_leaves = num_leaves
        self._is_flat = is_flat  # all children are leaves
        self._hash: int | None = None

    @property
    def num_nodes(self) -> int:
        """The number of nodes, leaves included."""
        return 1 + sum(child.num_nodes for child in self._children)

    def children(self) -> list[PyTreeDef]:
        """The structures of the root's children."""
        return list(self._children)

    def node_data(self) -> tuple[type, Any] | None:
        """The root's type and metadata; None for a leaf."""
        return None if self._kind is None else (self._kind.type, self._metadata)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with this structure and these leaves.

        Raises:
            TreeError: the number of leaves is not `num_leaves`.
        """
        values = leaves if type(leaves) is list else list(leaves)
        if len(values) != self.num_leaves:
            raise TreeError(self._wrong_number_of_leaves(len(values)))
        if self._kind is None:
            return values[0]
        return _build(self, values, 0)

    def flatten_up_to(self, tree: Any, *, name: str = "tree") -> list[Any]:
        """The subtrees of `tree` that stand where this structure has leaves.

        Args:
            tree: a tree that has this structure as a prefix.
            name: what the error message calls `tree`.

        Raises:
            TreeError: it has not; the message names the key path and both sides.
        """
        subtrees = subtrees_at(self, tree)
        if subtrees is None:
            path, expected, got = first_mismatch(self, tree, name)
            raise TreeError(f"at {name}{keystr(path)}: expected {expected}, got {got}{NONE_HINTS.get(got, '')}")
        return subtrees

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """This structure with `inner` in the place of each leaf."""
        if self._kind is None:
            return inner
        return node_def(self._kind, self._metadata, [child.compose(inner) for child in self._children])

    def leaf_paths(self) -> Iterator[KeyPath]:
        """The key path of each leaf; a class that names its keys itself is shown with indices."""
        if self._kind is None:
            yield ()
            return
        keys = self._kind.keys(self._metadata, len(self._children))
        for key, child in zip(keys, self._children, strict=True):
            for path in child.leaf_paths():
                yield (key, *path)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        return (
            self._kind is other._kind and bool(self._metadata == other._metadata) and self._children == other._children
        )

    def __hash__(self) -> int:
        if self._hash is None:
            node_type = None if self._kind is None else self._kind.type
            try:
                self._hash = hash((node_type, self._metadata, self._children))
            except TypeError:  # metadata that cannot be hashed still compares
                self._hash = hash((node_type, self._children))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        node_type = None if self._kind is None else self._kind.type
        return _rebuild, (node_type, self._metadata, self._children)

    def __repr__(self) -> str:
        return f"PyTreeDef({self._text()})"

    def _text(self) -> str:
        if self._kind is None:
            return "*"
        children = [child._text() for child in self._children]
        if self._kind.label is not None:
            return f"CustomNode({self._kind.label(self._metadata)}, [{', '.join(children)}])"
        node_type = self._kind.type
        if node_type is tuple:
            return f"({children[0]},)" if len(children) == 1 else f"({', '.join(children)})"
        if node_type is list:
            return f"[{', '.join(children)}]"
        if node_type is dict:
            items = zip(self._metadata, children, strict=True)
            return "{" + ", ".join(f"{key!r}: {child}" for key, child in items) + "}"
        return "None"

    def _wrong_number_of_leaves(self, count: int) -> str:
        text = f"{_shortened(repr(self))} has {_count(self.num_leaves, 'leaf', 'leaves')}, got {count}"
        if count < self.num_leaves:
            paths = list(self.leaf_paths())
            return f"{text}: there is none for tree{keystr(paths[count])}"
        return f"{text}: there is no place for the last {count - self.num_leaves}"


LEAF = PyTreeDef(None, None, (), 1, False)


def tree_flatten(tree: Any, is_leaf: IsLeaf | None = None) -> tuple[list[Any], PyTreeDef]:
    """The leaves of a tree, in order, and its structure.

    Args:
        tree: any nesting of tuples, lists, dicts, None, namedtuples and registered classes.
        is_leaf: called with each subtree; what it accepts is a leaf and is not looked into.

    Raises:
        TreeError: the keys of a dict cannot be sorted.

    >>> tree_flatten({"b": (1, 2), "a": None})
    ([1, 2], PyTreeDef({'a': None, 'b': (*, *)}))
    """
    leaves: list[Any] = []
    try:
        if is_leaf is None:
            return leaves, _flatten(tree, leaves)
        return leaves, _flatten_until(tree, is_leaf, leaves)
    except UnsortableKeysError:
        tree_flatten_with_path(tree, is_leaf)  # raises again, with the key path
        raise


def tree_flatten_with_path(
    tree: Any, is_leaf: IsLeaf | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """The leaves of a tree, each with the path of keys that leads to it, and the structure.

    Args:
        tree: a pytree.
        is_leaf: called with each subtree; what it accepts is a leaf.
        is_leaf_takes_path: call `is_leaf(path, subtree)` instead of `is_leaf(subtree)`.

    >>> tree_flatten_with_path({"a": [1]})[0]
    [((DictKey(key='a'), SequenceKey(idx=0)), 1)]
    """
    pairs: list[tuple[KeyPath, Any]] = []

    def accepts(path: KeyPath, subtree: Any) -> bool:
        if is_leaf is None:
            return False
        return is_leaf(path, subtree) if is_leaf_takes_path else is_leaf(subtree)

    def visit(subtree: Any, path: KeyPath) -> PyTreeDef:
        kind = KINDS[type(subtree)]
        if accepts(path, subtree) or kind is None:
            pairs.append((path, subtree))
            return LEAF
        children, metadata = keyed_children(kind, subtree, path)
        return node_def(kind, metadata, [visit(child, (*path, key)) for key, child in children])

    return pairs, visit(tree, ())


def node_def(kind: NodeKind, metadata: Any, children: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a node with the given structures as children."""
    children = tuple(children)
    num_leaves = sum([child.num_leaves for child in children])
    return PyTreeDef(kind, metadata, children, num_leaves, _all_leaves(children))


def subtrees_at(treedef: PyTreeDef, tree: Any) -> list[Any] | None:
    """The subtrees of `tree` where `treedef` has leaves; None if it has another structure."""
    subtrees: list[Any] = []
    try:
        return subtrees if _collect_up_to(treedef, tree, subtrees) else None
    except UnsortableKeysError:
        return None


def first_mismatch(treedef: PyTreeDef, tree: Any, name: str) -> tuple[KeyPath, str, str]:
    """Where `tree`, which messages call `name`, departs from `treedef`: the key path, both sides in words."""
    found = _find_mismatch(treedef, tree, (), name)
    assert found is not None, "the tree does have that structure"
    return found


def describe(tree: Any) -> str:
    """The root of `tree` in words."""
    kind = KINDS[type(tree)]
    if kind is None:
        return _describe_leaf(tree)
    children, metadata = keyed_children(kind, tree)
    return _describe_node(kind, metadata, len(children))


def _flatten(tree: Any, leaves: list[Any]) -> PyTreeDef:
    kind = KINDS[type(tree)]
    if kind is None:
        leaves.append(tree)
        return LEAF
    children, metadata = kind.flatten(tree)
    count = len(children)
    if LEAF_TYPES.issuperset(map(type, children)):
        leaves.extend(children)
        return PyTreeDef(kind, metadata, (LEAF,) * count, count, True)
    start = len(leaves)
    structures = tuple([_flatten(child, leaves) for child in children])
    # A leaf type seen for the first time comes this way too, so all children may be leaves even here.
    return PyTreeDef(kind, metadata, structures, len(leaves) - start, _all_leaves(structures))


def _flatten_until(tree: Any, is_leaf: IsLeaf, leaves: list[Any]) -> PyTreeDef:
    kind = KINDS[type(tree)]
    if is_leaf(tree) or kind is None:
        leaves.append(tree)
        return LEAF
    children, metadata = kind.flatten(tree)
    return node_def(kind, metadata, [_flatten_until(child, is_leaf, leaves) for child in children])


def _all_leaves(structures: tuple[PyTreeDef, ...]) -> bool:
    return all([structure is LEAF for structure in structures])


def _build(treedef: PyTreeDef, leaves: list[Any], start: int) -> Any:
    kind = treedef._kind
    assert kind is not None, "a leaf is not built"
    if treedef._is_flat:
        return kind.unflatten(treedef._metadata, leaves[start : start + treedef.num_leaves])
    children = []
    for child in treedef._children:
        children.append(leaves[start] if child is LEAF else _build(child, leaves, start))
        start += child.num_leaves
    return kind.unflatten(treedef._metadata, children)


def _collect_up_to(treedef: PyTreeDef, tree: Any, subtrees: list[Any]) -> bool:
    if treedef is LEAF:
        subtrees.append(tree)
        return True
    kind = treedef._kind
    if kind is None or KINDS[type(tree)] is not kind:
        return False
    children, metadata = kind.flatten(tree)
    if len(children) != len(treedef._children) or metadata != treedef._metadata:
        return False
    if treedef._is_flat:
        subtrees.extend(children)
        return True
    pairs = zip(treedef._children, children, strict=True)
    return all(_collect_up_to(child_def, child, subtrees) for child_def, child in pairs)


def _find_mismatch(treedef: PyTreeDef, tree: Any, path: KeyPath, name: str) -> tuple[KeyPath, str, str] | None:
    kind = treedef._kind
    if kind is None:
        return None
    expected = _describe_node(kind, treedef._metadata, len(treedef._children))
    got_kind = KINDS[type(tree)]
    if got_kind is None:
        return path, expected, _describe_leaf(tree)
    children, metadata = keyed_children(got_kind, tree, path, name)
    if got_kind is not kind or len(children) != len(treedef._children) or metadata != treedef._metadata:
        got = _describe_node(got_kind, metadata, len(children))
        if got_kind is kind and kind.type in _DICT_TYPES:
            got += _key_difference(kind.keys(treedef._metadata, 0), kind.keys(metadata, 0))
        return path, expected, got
    for (key, child), child_def in zip(children, treedef._children, strict=True):
        found = _find_mismatch(child_def, child, (*path, key), name)
        if found is not None:
            return found
    return None


# What to add to a message about a tree that has None where it should have something else.
NONE_HINTS = {"None": "; None is a node without leaves, and a leaf only with is_leaf=lambda x: x is None"}

_DICT_TYPES = (dict, OrderedDict, defaultdict)


def _describe_node(kind: NodeKind, metadata: Any, count: int) -> str:
    name = kind.type.__name__
    a_name = f"an {name}" if name[0] in "AEIOUaeiou" else f"a {name}"
    if kind.type is type(None):
        return "None"
    if kind.type in (tuple, list):
        return f"{a_name} of length {count}"
    if kind.type in _DICT_TYPES:
        keys = [key.key for key in kind.keys(metadata, count)]
        factory = f" of {metadata[0]!r}" if kind.type is defaultdict else ""
        return f"{a_name}{factory} with {f'keys {listed(keys)}' if keys else 'no keys'}"
    if metadata is None:
        return f"{a_name} with {_count(count, 'child', 'children')}"
    return f"{a_name} with {_count(count, 'child', 'children')} and metadata {_shortened(repr(metadata))}"


def _describe_leaf(leaf: Any) -> str:
    shape = getattr(leaf, "shape", None)
    if shape is not None:
        return f"a leaf ({type(leaf).__name__} of shape {shape})"
    return f"a leaf ({type(leaf).__name__} {_shortened(repr(leaf))})"


def _key_difference(expected: Iterable[DictKey], got: Iterable[DictKey]) -> str:
    expected_keys = [entry.key for entry in expected]
    got_keys = [entry.key for entry in got]
    missing = [key for key in expected_keys if key not in got_keys]
    unexpected = [key for key in got_keys if key not in expected_keys]
    parts = [f"missing {listed(missing)}"] if missing else []
    parts += [f"unexpected {listed(unexpected)}"] if unexpected else []
    if not parts and expected_keys != got_keys:
        parts = ["in another order"]
    return f" ({'; '.join(parts)})" if parts else ""


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def _rebuild(node_type: type | None, metadata: Any, children: tuple[PyTreeDef, ...]) -> PyTreeDef:
    if node_type is None:
        return LEAF
    kind = KINDS[node_type]
    if kind is None:
        raise TreeError(f"class {node_type.__qualname__} is no pytree node type here; register it before unpickling")
    return node_def(kind, metadata, children)
