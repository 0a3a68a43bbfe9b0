"""Registration: how users make their own classes pytree nodes, or static.

This file knows nothing of what is done with trees, and nothing of the built-in node types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from functad.errors import ArgumentError, TreeError
from functad.pytrees.nodes import Children, GetAttrKey, NodeKind, index_keys, register_kind

C = TypeVar("C", bound=type)


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]] | None = None,
) -> None:
    """Make instances of a class pytree nodes.

    Args:
        nodetype: the class; its subclasses are registered on their own.
        flatten_func: from a node to its children and its metadata, which must be comparable.
        unflatten_func: from metadata and a tuple of children to a node.
        flatten_with_keys_func: from a node to pairs of key and child, and the metadata.

    Raises:
        ArgumentError: the class is registered already.
        TreeError: when a tree is flattened, a function gives no such pair.

    >>> from functad.tree_util import tree_map
    >>> class Interval:
    ...     def __init__(self, low, high):
    ...         self.low, self.high = low, high
    >>> register_pytree_node(
    ...     Interval, lambda x: ((x.low, x.high), None), lambda metadata, children: Interval(*children)
    ... )
    >>> tree_map(lambda x: 2 * x, Interval(1, 3)).high
    6
    """

    def flatten(node: Any) -> tuple[Children, Any]:
        children, metadata = _checked_pair(nodetype, flatten_func(node))
        return tuple(children), metadata

    register_kind(
        NodeKind(
            type=nodetype,
            flatten=flatten,
            unflatten=lambda metadata, children: unflatten_func(metadata, tuple(children)),
            keys=index_keys,
            flatten_with_keys=flatten_with_keys_func and _checked_keys(nodetype, flatten_with_keys_func),
            label=_label(nodetype),
        )
    )


def register_pytree_node_class(cls: C) -> C:
    """Make a class with methods `tree_flatten` and (class method) `tree_unflatten` a pytree node.

    >>> from functad.tree_util import tree_map
    >>> @register_pytree_node_class
    ... class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    ...     def tree_flatten(self):
    ...         return (self.a, self.b), None
    ...     @classmethod
    ...     def tree_unflatten(cls, metadata, children):
    ...         return cls(*children)
    >>> tree_map(lambda x: 2 * x, Pair(1, 3)).b
    6
    """
    _require_methods(cls, "tree_flatten", "tree_unflatten")
    register_pytree_node(cls, _method(cls, "tree_flatten"), _method(cls, "tree_unflatten"))
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Hashable]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Hashable]] | None = None,
) -> None:
    """Make instances of a class pytree nodes that name the keys of their children.

    Args:
        nodetype: the class; its subclasses are registered on their own.
        flatten_with_keys: from a node to pairs of key and child, and the metadata.
        unflatten_func: from metadata and a tuple of children to a node.
        flatten_func: the same as `flatten_with_keys` without the keys, where that is faster.

    Raises:
        ArgumentError: the class is registered already.
        TreeError: when a tree is flattened, a function gives no such pair.

    >>> from functad.tree_util import GetAttrKey, keystr, tree_leaves_with_path
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register_pytree_with_keys(
    ...     Pair, lambda p: (((GetAttrKey("a"), p.a), (GetAttrKey("b"), p.b)), None),
    ...     lambda metadata, children: Pair(*children))
    >>> [keystr(path) for path, _ in tree_leaves_with_path(Pair(1, 3))]
    ['.a', '.b']
    """

    def flatten_without_keys(node: Any) -> tuple[Iterable[Any], Hashable]:
        pairs, metadata = _checked_pair(nodetype, flatten_with_keys(node))
        return [child for _, child in pairs], metadata

    register_pytree_node(nodetype, flatten_func or flatten_without_keys, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: C) -> C:
    """Make a class with methods `tree_flatten_with_keys` and `tree_unflatten` a pytree node; a decorator.

    >>> from functad.tree_util import GetAttrKey, keystr, tree_leaves_with_path
    >>> @register_pytree_with_keys_class
    ... class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    ...     def tree_flatten_with_keys(self):
    ...         return ((GetAttrKey("a"), self.a), (GetAttrKey("b"), self.b)), None
    ...     @classmethod
    ...     def tree_unflatten(cls, metadata, children):
    ...         return cls(*children)
    >>> [keystr(path) for path, _ in tree_leaves_with_path(Pair(1, 3))]
    ['.a', '.b']
    """
    _require_methods(cls, "tree_flatten_with_keys", "tree_unflatten")
    flatten_func = _method(cls, "tree_flatten") if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, _method(cls, "tree_flatten_with_keys"), _method(cls, "tree_unflatten"), flatten_func)
    return cls


def register_dataclass(
    nodetype: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C:
    """Make a dataclass a pytree node; a decorator.

    Args:
        nodetype: the dataclass, or another class whose constructor takes the fields as keyword arguments.
        data_fields: the names of the fields that are children.
        meta_fields: the names of the fields that are static metadata, hashable and comparable. Where neither
            is given, the fields declared with `field(metadata={"static": True})` or `tree.static()`.
        drop_fields: the names of the fields that are neither, and take their default when rebuilt.

    Returns:
        The class itself.

    Raises:
        ArgumentError: the fields are not those of the dataclass, or the class is registered already.

    >>> import dataclasses
    >>> from functad.tree_util import tree_flatten
    >>> @register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weights: object
    ...     name: str = dataclasses.field(metadata={"static": True})
    >>> tree_flatten(Layer(3, "dense"))
    ([3], PyTreeDef(CustomNode(Layer[('dense',)], [*])))
    """
    data, meta = _fields(nodetype, data_fields, meta_fields, drop_fields)

    def flatten(node: Any) -> tuple[Children, Any]:
        return [getattr(node, name) for name in data], tuple([getattr(node, name) for name in meta])

    def unflatten(metadata: Any, children: Children) -> Any:
        return nodetype(**dict(zip(data, children, strict=True)), **dict(zip(meta, metadata, strict=True)))

    register_kind(
        NodeKind(
            type=nodetype,
            flatten=flatten,
            unflatten=unflatten,
            keys=lambda metadata, count: [GetAttrKey(name) for name in data],
            label=_label(nodetype),
        )
    )
    return nodetype


def register_static(cls: C) -> C:
    """Make a class a pytree node without leaves, kept in the structure: a static value; a decorator.

    Its instances must be hashable and comparable, as a function compiled for one is reused for an equal one.

    >>> from functad.tree_util import tree_leaves
    >>> @register_static
    ... class Mode(str):
    ...     pass
    >>> tree_leaves([1, Mode("train")])
    [1]
    """
    register_pytree_node(cls, lambda node: ((), node), lambda metadata, children: metadata)
    return cls


def _label(cls: type) -> Callable[[Any], str]:
    return lambda metadata: f"{cls.__name__}[{metadata}]"


def _method(cls: type, name: str) -> Callable[..., Any]:
    method: Callable[..., Any] = getattr(cls, name)
    return method


def _require_methods(cls: type, *names: str) -> None:
    missing = [name for name in names if not hasattr(cls, name)]
    if missing:
        raise ArgumentError(f"class {cls.__qualname__} has no method {' and no method '.join(missing)}")


def _checked_pair(cls: type, result: Any) -> tuple[Any, Any]:
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise TreeError(
        f"the flatten function of pytree node {cls.__qualname__} must return a tuple (children, metadata), "
        f"got {result!r:.100}"
    )


def _checked_keys(
    cls: type, flatten_with_keys: Callable[[Any], Any]
) -> Callable[[Any], tuple[list[tuple[Any, Any]], Any]]:
    def flatten(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
        pairs, metadata = _checked_pair(cls, flatten_with_keys(node))
        return list(pairs), metadata

    return flatten


def _fields(
    cls: Any,
    data_fields: Sequence[str] | None,
    meta_fields: Sequence[str] | None,
    drop_fields: Sequence[str],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    where = f"register_dataclass({getattr(cls, '__qualname__', cls)})"
    if (data_fields is None) != (meta_fields is None):
        raise ArgumentError(f"{where}: give both data_fields and meta_fields, or neither")
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else None
    if data_fields is None or meta_fields is None:
        if fields is None:
            raise ArgumentError(f"{where}: it is no dataclass, so give data_fields and meta_fields")
        kept = [field for field in fields if field.name not in drop_fields]
        data_fields = [field.name for field in kept if not field.metadata.get("static", False)]
        meta_fields = [field.name for field in kept if field.metadata.get("static", False)]
    twice = sorted(set(data_fields) & set(meta_fields))
    if twice:
        raise ArgumentError(f"{where}: {', '.join(twice)} cannot be in both data_fields and meta_fields")
    if fields is not None:
        _check_fields(where, fields, {*data_fields, *meta_fields}, drop_fields)
    return tuple(data_fields), tuple(meta_fields)


def _check_fields(
    where: str, fields: Iterable[dataclasses.Field[Any]], given: set[str], drop_fields: Sequence[str]
) -> None:
    of_init = {field.name for field in fields if field.init}
    unexpected = sorted(given - of_init)
    if unexpected:
        raise ArgumentError(
            f"{where}: the constructor takes no {', '.join(unexpected)}; the fields are "
            f"{', '.join(sorted(of_init))} (put a field with init=False in drop_fields)"
        )
    missing = sorted(of_init - given - set(drop_fields))
    if missing:
        raise ArgumentError(
            f"{where}: {', '.join(missing)} is in neither data_fields nor meta_fields; add it to one of "
            "them, or to drop_fields if rebuilding may give it its default"
        )
