"""The functions on pytrees, under JAX's names: flatten, map, reduce, transpose, with key paths, registration.

This file knows nothing of arrays; how a tree is taken apart is in `pytrees/treedef.py`, a node in `pytrees/nodes.py`.

Args:
    tree: any pytree.
    iterable: the items.
    is_leaf: called with a subtree; where it gives True, that is taken for a leaf.

Shapes:
    Leaves may be anything, arrays of any shapes too.

Raises:
    TreeError: trees that should have one structure have not, or a class does not say how it is taken apart.
    ArgumentError: what a class must have to be a node, it has not; or a tree without leaves leaves something open.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from functad.absent import absent
from functad.errors import ArgumentError, TreeError
from functad.pytrees.nodes import (
    KINDS,
    TUPLE,
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyPath,
    SequenceKey,
    keyed_children,
    keystr,
)
from functad.pytrees.registration import (
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)
from functad.pytrees.treedef import (
    NONE_HINTS,
    IsLeaf,
    PyTreeDef,
    describe,
    first_mismatch,
    node_def,
    subtrees_at,
    tree_flatten,
    tree_flatten_with_path,
)

KeyEntry = TypeVar("KeyEntry", bound=Hashable)
"""For annotations: a key of a path, such as a DictKey, GetAttrKey, SequenceKey or FlattenedIndexKey."""

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "broadcast_prefix",
    "default_registry",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

T = TypeVar("T")
_UNSPECIFIED: Any = object()


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with the structure `treedef` and these leaves.

    Raises:
        TreeError: the number of leaves is not that of the structure.

    >>> leaves, treedef = tree_flatten({"a": 1, "b": [2, 3]})
    >>> tree_unflatten(treedef, [10 * leaf for leaf in leaves])
    {'a': 10, 'b': [20, 30]}
    """
    if not isinstance(treedef, PyTreeDef):
        raise TreeError(
            "tree_unflatten takes a PyTreeDef and then the leaves, but the first argument is of type "
            f"{type(treedef).__name__}"
        )
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: IsLeaf | None = None) -> list[Any]:
    """The leaves of a tree, in order.

    >>> tree_leaves({"b": (1, 2), "a": None})
    [1, 2]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf | None = None) -> PyTreeDef:
    """The structure of a tree.

    >>> tree_structure({"a": 1, "b": (2, 3)})
    PyTreeDef({'a': *, 'b': (*, *)})
    """
    return tree_flatten(tree, is_leaf)[1]


def tree_leaves_with_path(
    tree: Any, is_leaf: IsLeaf | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The leaves of a tree, each with the path of keys that leads to it.

    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": [1, 2]})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The tree of `f(leaf, *matching_subtrees)`.

    Args:
        f: called with a leaf of `tree` and, for each tree of `rest`, what stands at the same place there.
        tree: gives the structure of the result.
        *rest: trees that have the structure of `tree`, or have it as a prefix.
        is_leaf: called with each subtree of `tree`; what it accepts is a leaf.

    Raises:
        TreeError: a tree of `rest` has another structure.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
    {'a': 11, 'b': (22, 33)}
    """
    leaves, treedef = tree_flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(leaf) for leaf in leaves])
    columns = [treedef.flatten_up_to(other, name=f"rest[{i}]") for i, other in enumerate(rest)]
    return treedef.unflatten([f(*row) for row in zip(leaves, *columns, strict=True)])


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: IsLeaf | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Like `tree_map`, where `f` also gets the key path: `f(path, leaf, *matching_subtrees)`.

    >>> tree_map_with_path(lambda path, x: f"{keystr(path)} = {x}", {"a": [1, 2]})
    {'a': ["['a'][0] = 1", "['a'][1] = 2"]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [treedef.flatten_up_to(other, name=f"rest[{i}]") for i, other in enumerate(rest)]
    return treedef.unflatten([f(*pair, *row) for pair, *row in zip(pairs, *columns, strict=True)])


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _UNSPECIFIED,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """The leaves combined from left to right, as by `functools.reduce`.

    Raises:
        ArgumentError: the tree has no leaves and there is no `initializer`.

    >>> tree_reduce(lambda x, y: x + y, {"a": 1, "b": [2, 3]})
    6
    """
    leaves = tree_leaves(tree, is_leaf)
    if initializer is not _UNSPECIFIED:
        return functools.reduce(function, leaves, initializer)
    if not leaves:
        raise ArgumentError("tree_reduce got a tree without leaves; give an initializer, the result for those")
    return functools.reduce(function, leaves)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _UNSPECIFIED,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """The leaves combined pairwise in a balanced tree, which rounds less than from left to right.

    Args:
        operation: an associative function of two leaves.
        tree: a pytree.
        identity: the result for a tree without leaves.
        is_leaf: called with each subtree; what it accepts is a leaf.

    Raises:
        ArgumentError: the tree has no leaves and there is no `identity`.

    >>> tree_reduce_associative(lambda x, y: f"({x}+{y})", [1, 2, 3, 4])
    '((1+2)+(3+4))'
    """

    def combine(leaves: list[Any]) -> Any:
        if len(leaves) == 1:
            return leaves[0]
        middle = len(leaves) // 2
        return operation(combine(leaves[:middle]), combine(leaves[middle:]))

    leaves = tree_leaves(tree, is_leaf)
    if leaves:
        return combine(leaves)
    if identity is _UNSPECIFIED:
        raise ArgumentError("tree_reduce_associative got a tree without leaves; give an identity, the result for those")
    return identity


def tree_all(tree: Any, *, is_leaf: IsLeaf | None = None) -> bool:
    """Whether all leaves are true.

    >>> tree_all({"a": True, "b": [True, False]})
    False
    """
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any) -> Any:
    """A tree of trees turned inside out: a list of dicts becomes a dict of lists.

    Args:
        outer_treedef: the outer structure of the tree.
        inner_treedef: the structure at each leaf of the outer one; if None, that of the first.
        pytree_to_transpose: a tree with the structure `outer_treedef.compose(inner_treedef)`.

    Raises:
        TreeError: the tree has another structure.
        ArgumentError: the inner structure is to be found, but the outer one has no leaves.

    >>> tree_transpose(tree_structure([0, 0]), tree_structure({"a": 0}), [{"a": 1}, {"a": 2}])
    {'a': [1, 2]}
    """
    subtrees = outer_treedef.flatten_up_to(pytree_to_transpose)
    if inner_treedef is None:
        if not subtrees:
            raise ArgumentError(f"tree_transpose cannot infer inner_treedef, as {outer_treedef} has no leaves; give it")
        inner_treedef = tree_structure(subtrees[0])
    columns = []
    for path, subtree in zip(outer_treedef.leaf_paths(), subtrees, strict=True):
        name = f"tree{keystr(path)}"
        leaves = inner_treedef.flatten_up_to(subtree, name=name)
        for inner_path, leaf in zip(inner_treedef.leaf_paths(), leaves, strict=True):
            if KINDS[type(leaf)] is not None:
                raise TreeError(f"at {name}{keystr(inner_path)}: expected a leaf, got {describe(leaf)}")
        columns.append(leaves)
    rows = [[leaves[i] for leaves in columns] for i in range(inner_treedef.num_leaves)]
    return inner_treedef.unflatten([outer_treedef.unflatten(row) for row in rows])


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf | None = None) -> Any:
    """The tree with the structure of `full_tree` whose leaves are those of `prefix_tree` above them.

    Raises:
        TreeError: `prefix_tree` is no prefix of `full_tree`.

    >>> tree_broadcast((0, 1), ({"a": 5, "b": 6}, 7))
    ({'a': 0, 'b': 0}, 1)
    """
    return tree_structure(full_tree).unflatten(broadcast_prefix(prefix_tree, full_tree, is_leaf))


def broadcast_prefix(
    prefix_tree: Any,
    full_tree: Any,
    is_leaf: IsLeaf | None = None,
    *,
    name: str = "prefix_tree",
    full_name: str = "full_tree",
) -> list[Any]:
    """For each leaf of `full_tree`, the leaf of `prefix_tree` at or above it.

    Args:
        prefix_tree: a tree that reaches less deep, such as `in_axes`.
        full_tree: a pytree.
        is_leaf: called with each subtree of `prefix_tree`; what it accepts is a leaf.
        name: what the error message calls `prefix_tree`.
        full_name: what the error message calls `full_tree`.

    Raises:
        TreeError: `prefix_tree` is no prefix of `full_tree`; the message names the key path and both sides.

    >>> broadcast_prefix((0, None), ({"a": 5, "b": 6}, 7), is_leaf=lambda x: x is None)
    [0, 0, None]
    """
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    subtrees = subtrees_at(treedef, full_tree)
    if subtrees is None:
        path, prefix_side, full_side = first_mismatch(treedef, full_tree, full_name)
        raise TreeError(
            f"at {name}{keystr(path)}: {name} has {prefix_side} where {full_name} has {full_side}; "
            f"{name} must have the structure of {full_name}, or end in a leaf higher up"
            f"{NONE_HINTS.get(prefix_side, '')}"
        )
    repeated: list[Any] = []
    for leaf, subtree in zip(leaves, subtrees, strict=True):
        repeated.extend([leaf] * tree_structure(subtree).num_leaves)
    return repeated


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf | None = None) -> bool:
    """Whether every item is a leaf.

    >>> all_leaves([1, 2]), all_leaves([1, (2,)])
    (True, False)
    """
    if is_leaf is None:
        return all(KINDS[type(item)] is None for item in iterable)
    return all(is_leaf(item) or KINDS[type(item)] is None for item in iterable)


def is_tree_node(typ: type) -> bool:
    """Whether instances of the class are nodes, not leaves.

    >>> is_tree_node(dict), is_tree_node(float)
    (True, False)
    """
    return KINDS[typ] is not None


def flatten_one_level(tree: Any) -> tuple[Iterable[Any], Any]:
    """The children of the root and its metadata.

    Raises:
        TreeError: `tree` is a leaf.

    >>> flatten_one_level({"b": [1], "a": 2})
    ([2, [1]], ('a', 'b'))
    """
    pairs, metadata = flatten_one_level_with_keys(tree)
    return [child for _, child in pairs], metadata


def flatten_one_level_with_keys(tree: Any) -> tuple[Iterable[tuple[Any, Any]], Any]:
    """The children of the root with their keys, and its metadata.

    Raises:
        TreeError: `tree` is a leaf.

    >>> flatten_one_level_with_keys({"a": 1, "b": 2})[0]
    [(DictKey(key='a'), 1), (DictKey(key='b'), 2)]
    """
    kind = KINDS[type(tree)]
    if kind is None:
        raise TreeError(f"expected a pytree node, got {describe(tree)}")
    return keyed_children(kind, tree)


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single node: a leaf, None or an empty container, as in JAX.

    >>> treedef_is_leaf(tree_structure(1)), treedef_is_leaf(tree_structure([1]))
    (True, False)
    """
    return treedef.num_nodes == 1


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the root's children.

    >>> treedef_children(tree_structure((1, [2])))
    [PyTreeDef(*), PyTreeDef([*])]
    """
    return treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple whose items have the given structures.

    >>> treedef_tuple([tree_structure(1), tree_structure([2])])
    PyTreeDef((*, [*]))
    """
    children = list(treedefs)
    for index, child in enumerate(children):
        if not isinstance(child, PyTreeDef):
            raise TreeError(f"treedef_tuple takes PyTreeDefs, but item {index} is of type {type(child).__name__}")
    return node_def(TUPLE, None, children)


class Partial(functools.partial[T]):
    """`functools.partial` as a pytree: the arguments are leaves, the function is metadata.

    >>> add = Partial(lambda x, y: x + y, 1)
    >>> tree_leaves(add), add(2)
    ([1], 3)
    """

    def __new__(cls, func: Callable[..., T], /, *args: Any, **keywords: Any) -> Partial[T]:
        # functools.partial would merge the arguments of an inner partial, which would turn them into leaves.
        if isinstance(func, functools.partial):
            func = _OpaqueCallable(func)
        return super().__new__(cls, func, *args, **keywords)


class _OpaqueCallable:
    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.func(*args, **keywords)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OpaqueCallable) and self.func == other.func

    def __hash__(self) -> int:
        return hash(self.func)

    def __repr__(self) -> str:
        return repr(self.func)


register_pytree_node(
    Partial,
    lambda partial: ((partial.args, partial.keywords), partial.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)

default_registry = SimpleNamespace(
    flatten=tree_flatten,
    flatten_with_path=tree_flatten_with_path,
    flatten_one_level=flatten_one_level,
    flatten_one_level_with_keys=flatten_one_level_with_keys,
    is_node=is_tree_node,
    register_node=register_pytree_node,
    register_dataclass_node=register_dataclass,
)
"""The registry of all kinds of nodes, by the names of its methods; there is no other."""

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
