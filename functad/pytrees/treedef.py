"""`PyTreeDef`, a tree without its leaves: taking trees apart, building them, and saying where two differ.

This file knows nothing of arrays, and not how a node of some type is taken apart: that is `pytrees/nodes.py`.
Nothing here recurses, so trees may be as deep as they like.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from functad.errors import TreeError
from functad.exact import exact_key
from functad.pytrees.nodes import (
    KINDS,
    LEAF_TYPES,
    DictKey,
    KeyPath,
    NodeKind,
    UnsortableKeysError,
    first_items,
    keyed_children,
    keystr,
)

IsLeaf = Callable[..., bool]
T = TypeVar("T")

DEEPEST = 5000  # levels of a pytree


def fold(
    root: Any, opened: Callable[[Any], tuple[Any, Sequence[Any] | None]], closed: Callable[[Any, list[T]], T]
) -> T:
    """The result for a tree, from those for its subtrees, in order and without recursion.

    Args:
        opened: from a node to its result and None, or to anything that `closed` needs and the children.
        closed: from what `opened` gave and the results for the children to the result for the node.

    Raises:
        RecursionError: there are more than `DEEPEST` levels; a node that contains itself has no end of them.
    """
    open_nodes: list[tuple[Any, Iterator[Any], list[T]]] = []
    node = root
    while True:
        found, children = opened(node)
        if children is not None:
            if len(open_nodes) == DEEPEST:
                raise RecursionError
            open_nodes.append((found, iter(children), []))
        elif not open_nodes:
            return found
        else:
            open_nodes[-1][2].append(found)
        while open_nodes:
            about, rest, results = open_nodes[-1]
            more = next(rest, open_nodes)  # the list is no node
            if more is not open_nodes:
                node = more
                break
            open_nodes.pop()
            made = closed(about, results)
            if not open_nodes:
                return made
            open_nodes[-1][2].append(made)


class PyTreeDef:
    """The structure of a pytree: its nodes with their metadata, and a `*` for each leaf.

    Immutable, hashable, comparable. Made by `tree_structure` and `tree_flatten`.

    Attributes:
        num_leaves: the number of leaves.

    >>> import functad
    >>> functad.tree_util.tree_structure({"a": 1, "b": (2, None)})
    PyTreeDef({'a': *, 'b': (*, None)})
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
        return fold(self, lambda node: (None, node._children), lambda _, counts: 1 + sum(counts))

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
        return _build(self, values)

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
        return self.with_subtrees([inner] * self.num_leaves)

    def with_subtrees(self, inners: Sequence[PyTreeDef]) -> PyTreeDef:
        """This structure with one of `inners` in the place of each leaf."""
        rest = iter(inners)

        def opened(node: PyTreeDef) -> tuple[PyTreeDef, Sequence[PyTreeDef] | None]:
            return (next(rest), None) if node is LEAF else (node, node._children)

        return fold(self, opened, _with_children)

    def leaf_paths(self) -> Iterator[KeyPath]:
        """The key path of each leaf; a class that names its keys itself is shown with indices."""
        pending: list[tuple[PyTreeDef, KeyPath]] = [(self, ())]
        while pending:
            node, path = pending.pop()
            if node._kind is None:
                yield path
                continue
            keys = node._kind.keys(node._metadata, len(node._children))
            pending += [(child, (*path, key)) for key, child in zip(keys, node._children, strict=True)][::-1]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        pairs = [(self, other)]
        while pairs:
            one, two = pairs.pop()
            if one is two:
                continue
            if one._kind is not two._kind or len(one._children) != len(two._children):
                return False
            if not one._metadata == two._metadata:
                return False
            pairs += zip(one._children, two._children)
        return True

    def __hash__(self) -> int:
        def opened(node: PyTreeDef) -> tuple[Any, Sequence[PyTreeDef] | None]:
            return (node, node._children) if node._hash is None else (node._hash, None)

        def closed(node: PyTreeDef, hashes: list[int]) -> int:
            node_type = None if node._kind is None else node._kind.type
            try:
                node._hash = hash((node_type, node._metadata, *hashes))
            except TypeError:  # metadata that cannot be hashed still compares
                node._hash = hash((node_type, *hashes))
            return node._hash

        return fold(self, opened, closed)

    def exact_key(self) -> Hashable:
        """What two structures share only if also their metadata are the same, where 1, 1.0 and True are not.

        >>> one, two = tree_flatten({1: 5})[1], tree_flatten({1.0: 5})[1]
        >>> one == two, one.exact_key() == two.exact_key()
        (True, False)
        """
        return tuple([(kind, count, _metadata_key(metadata)) for kind, metadata, count in self._nodes()])

    def _nodes(self) -> list[tuple[type | None, Any, int]]:
        """Type, metadata and number of children of all nodes, children first."""
        found: list[tuple[type | None, Any, int]] = []
        pending = [self]
        while pending:
            node = pending.pop()
            found.append((None if node._kind is None else node._kind.type, node._metadata, len(node._children)))
            pending += node._children
        return found[::-1]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._nodes(),)

    def __repr__(self) -> str:
        return f"PyTreeDef({self._text()})"

    def _text(self) -> str:
        return fold(self, lambda node: (node, node._children), PyTreeDef._text_around)

    def _text_around(self, children: list[str]) -> str:
        if self._kind is None:
            return "*"
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
    except RecursionError:
        raise _too_deep(tree) from None


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

    def opened(node: tuple[KeyPath, Any]) -> tuple[Any, list[tuple[KeyPath, Any]] | None]:
        path, subtree = node
        kind = KINDS[type(subtree)]
        if accepts(path, subtree) or kind is None:
            pairs.append(node)
            return LEAF, None
        children, metadata = keyed_children(kind, subtree, path)
        return (kind, metadata), [((*path, key), child) for key, child in children]

    try:
        return pairs, fold(((), tree), opened, lambda node, children: node_def(node[0], node[1], children))
    except RecursionError:
        raise _too_deep(tree) from None


def _too_deep(tree: Any) -> TreeError:
    """Why a tree has no end: a node that contains itself, or else too many levels."""
    open_nodes: dict[int, KeyPath] = {}  # from the root to where the walk is
    todo: list[tuple[Any, KeyPath] | int] = [(tree, ())]
    while todo:
        item = todo.pop()
        if isinstance(item, int):
            del open_nodes[item]
            continue
        node, path = item
        kind = KINDS[type(node)]
        if id(node) in open_nodes:
            inner, outer = keystr(path[-3:]), keystr(open_nodes[id(node)]) or "the whole tree"
            return TreeError(
                f"this pytree contains itself: what stands at {'…' * (len(path) > 3)}{inner} is {outer} again, a "
                f"{type(node).__name__}, so it has no end. Put a copy there, or a value instead of the container"
            )
        if kind is not None:
            if len(path) > DEEPEST:
                break
            open_nodes[id(node)] = path
            todo.append(id(node))
            todo += [(child, (*path, key)) for key, child in keyed_children(kind, node, path)[0]]
    return TreeError(f"this pytree has more than {DEEPEST} levels; keep what is nested so deeply in one list")


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


def returned(tree: PyTreeDef) -> str:
    """What a function returned that should have returned something else, in words.

    >>> returned(PyTreeDef(KINDS[type(None)], None, (), 0, False))
    'None (is a `return` missing?)'
    """
    is_none = not tree.num_leaves and tree.node_data() == (type(None), None)
    return "None (is a `return` missing?)" if is_none else f"a pytree {tree}"


def _flatten(tree: Any, leaves: list[Any]) -> PyTreeDef:
    if KINDS[type(tree)] is None:
        leaves.append(tree)
        return LEAF

    def opened(tree: Any) -> tuple[Any, Sequence[Any] | None]:
        kind = KINDS[type(tree)]
        if kind is None:
            leaves.append(tree)
            return LEAF, None
        children, metadata = kind.flatten(tree)
        if LEAF_TYPES.issuperset(map(type, children)):
            leaves.extend(children)
            count = len(children)
            return PyTreeDef(kind, metadata, (LEAF,) * count, count, True), None
        return (kind, metadata, len(leaves)), children

    def closed(node: Any, structures: list[PyTreeDef]) -> PyTreeDef:
        kind, metadata, start = node
        # A leaf type seen for the first time comes this way too, so all children may be leaves even here.
        return PyTreeDef(kind, metadata, tuple(structures), len(leaves) - start, _all_leaves(structures))

    return fold(tree, opened, closed)


def _flatten_until(tree: Any, is_leaf: IsLeaf, leaves: list[Any]) -> PyTreeDef:
    def opened(tree: Any) -> tuple[Any, Sequence[Any] | None]:
        kind = KINDS[type(tree)]
        if is_leaf(tree) or kind is None:
            leaves.append(tree)
            return LEAF, None
        children, metadata = kind.flatten(tree)
        return (kind, metadata), children

    return fold(tree, opened, lambda node, children: node_def(node[0], node[1], children))


def _all_leaves(structures: Sequence[PyTreeDef]) -> bool:
    return all([structure is LEAF for structure in structures])


def _with_children(node: PyTreeDef, children: Iterable[PyTreeDef]) -> PyTreeDef:
    assert node._kind is not None
    return node_def(node._kind, node._metadata, children)


def _build(treedef: PyTreeDef, leaves: list[Any]) -> Any:
    if treedef._kind is None:
        return leaves[0]
    if treedef._is_flat:
        return treedef._kind.unflatten(treedef._metadata, leaves[:])
    rest = iter(leaves)

    def opened(node: PyTreeDef) -> tuple[Any, Sequence[PyTreeDef] | None]:
        if node._kind is None:
            return next(rest), None
        if node._is_flat:
            return node._kind.unflatten(node._metadata, list(islice(rest, node.num_leaves))), None
        return node, node._children

    def closed(node: PyTreeDef, children: list[Any]) -> Any:
        assert node._kind is not None
        return node._kind.unflatten(node._metadata, children)

    return fold(treedef, opened, closed)


def _collect_up_to(treedef: PyTreeDef, tree: Any, subtrees: list[Any]) -> bool:
    pending = [(treedef, tree)]
    while pending:
        node, subtree = pending.pop()
        if node is LEAF:
            subtrees.append(subtree)
            continue
        kind = node._kind
        if kind is None or KINDS[type(subtree)] is not kind:
            return False
        children, metadata = kind.flatten(subtree)
        if len(children) != len(node._children) or metadata != node._metadata:
            return False
        if node._is_flat:
            subtrees.extend(children)
        else:
            pending += [*zip(node._children, children)][::-1]
    return True


def _find_mismatch(treedef: PyTreeDef, tree: Any, path: KeyPath, name: str) -> tuple[KeyPath, str, str] | None:
    pending = [(treedef, tree, path)]
    while pending:
        node, subtree, path = pending.pop()
        kind = node._kind
        if kind is None:
            continue
        expected = _describe_node(kind, node._metadata, len(node._children))
        got_kind = KINDS[type(subtree)]
        if got_kind is None:
            return path, expected, _describe_leaf(subtree)
        children, metadata = keyed_children(got_kind, subtree, path, name)
        if got_kind is not kind or len(children) != len(node._children) or metadata != node._metadata:
            got = _describe_node(got_kind, metadata, len(children))
            if got_kind is kind and kind.type in _DICT_TYPES:
                got += _key_difference(kind.keys(node._metadata, 0), kind.keys(metadata, 0))
            return path, expected, got
        pairs = zip(children, node._children, strict=True)
        pending += [(child_def, child, (*path, key)) for (key, child), child_def in pairs][::-1]
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
        return f"{a_name}{factory} with {f'keys {first_items(keys)}' if keys else 'no keys'}"
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
    parts = [f"missing {first_items(missing)}"] if missing else []
    parts += [f"unexpected {first_items(unexpected)}"] if unexpected else []
    if not parts and expected_keys != got_keys:
        parts = ["in another order"]
    return f" ({'; '.join(parts)})" if parts else ""


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def _rebuild(nodes: list[tuple[type | None, Any, int]]) -> PyTreeDef:
    made: list[PyTreeDef] = []
    for node_type, metadata, count in nodes:
        if node_type is None:
            made.append(LEAF)
            continue
        kind = KINDS[node_type]
        if kind is None:
            raise TreeError(
                f"class {node_type.__qualname__} is no pytree node type here; register it before unpickling"
            )
        children = made[len(made) - count :]
        del made[len(made) - count :]
        made.append(node_def(kind, metadata, children))
    return made[0]


class _Compared:
    """Metadata without a hash, which is as equal as it says itself."""

    def __init__(self, metadata: Any) -> None:
        self.metadata = metadata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Compared) and bool(self.metadata == other.metadata)

    def __hash__(self) -> int:
        return hash(type(self.metadata))


def _metadata_key(metadata: Any) -> Hashable:
    try:
        return exact_key(metadata)
    except TypeError:
        return _Compared(metadata)
