"""Pytree node types of one's own: registered functions, methods, dataclasses, static classes, error messages."""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
from typing import Any

import pytest
from pytree_classes import Keyed, Layer

from functad import tree
from functad.errors import ArgumentError, TreeError
from functad.tree_util import (
    GetAttrKey,
    keystr,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    tree_flatten,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_structure,
)


def identity(x: Any) -> Any:
    return x


def test_register_pytree_node():
    class Box:
        def __init__(self, content):
            self.content = content

    register_pytree_node(
        Box,
        lambda box: (iter([box.content]), {"unhashable": 1}),
        lambda metadata, children: Box(*children),
        lambda box: ([("content", box.content)], {"unhashable": 1}),
    )
    treedef = tree_structure(Box(1))
    assert tree_map(lambda x: x + 1, Box(1)).content == 2
    assert hash(treedef) == hash(tree_structure(Box(2)))
    assert treedef == tree_structure(Box(2))
    assert tree_leaves_with_path(Box(1)) == [(("content",), 1)]
    with pytest.raises(ArgumentError, match="Box is a pytree node type already"):
        register_pytree_node(Box, identity, identity)


def test_register_with_keys_and_a_fast_flatten():
    class Box:
        def __init__(self, content):
            self.content = content

    register_pytree_with_keys(
        Box,
        lambda box: ([(GetAttrKey("content"), box.content)], None),
        lambda metadata, children: Box(*children),
        lambda box: ([box.content], None),
    )
    assert tree_leaves(Box(1)) == [1]
    assert [keystr(path) for path, _ in tree_leaves_with_path([Box([1])])] == ["[0].content[0]"]


def test_a_class_may_be_registered_after_it_was_seen_as_a_leaf():
    class Late:
        pass

    late = Late()
    assert tree_leaves((late, 1)) == [late, 1]
    register_static(Late)
    assert tree_leaves((late, 1)) == [1]


def test_a_namedtuple_may_be_registered_after_it_was_seen():
    late_point = collections.namedtuple("late_point", ["x", "y"])
    assert tree_leaves(late_point(1, 2)) == [1, 2]
    register_pytree_node(late_point, lambda node: ((node.x,), node.y), lambda y, children: late_point(*children, y))
    assert tree_leaves(late_point(1, 2)) == [1]


def test_register_rejects_builtin_and_other_than_classes():
    with pytest.raises(ArgumentError, match="tuple is a pytree node type already"):
        register_pytree_node(tuple, identity, identity)
    with pytest.raises(ArgumentError, match="must be a class, got 3"):
        register_pytree_node(3, identity, identity)


def test_a_flatten_function_must_return_a_pair():
    class Broken:
        pass

    register_pytree_node(Broken, lambda node: [1, 2, 3], identity)
    with pytest.raises(TreeError, match=r"of pytree node .*Broken must return a tuple \(children, metadata\), got"):
        tree_leaves(Broken())


def test_class_decorators_require_the_methods():
    class Empty:
        pass

    with pytest.raises(ArgumentError, match="Empty has no method tree_flatten and no method tree_unflatten"):
        register_pytree_node_class(Empty)
    with pytest.raises(ArgumentError, match="Empty has no method tree_flatten_with_keys"):
        register_pytree_with_keys_class(Empty)


def test_dataclass_fields_are_inferred_or_given():
    @dataclasses.dataclass
    class Given:
        a: Any
        b: int = 1
        c: int = dataclasses.field(default=2, init=False)

    register_dataclass(Given, data_fields=["a"], meta_fields=["b"])
    assert tree_flatten(Given([1, 2], 3))[0] == [1, 2]
    assert tree_map(lambda x: x + 1, Given([1, 2], 3)) == Given([2, 3], 3)
    assert tree_structure(Given(1, 2)) != tree_structure(Given(1, 3))
    assert [keystr(path) for path, _ in tree_leaves_with_path(Layer(1, 2))] == [".weights", ".bias"]


def test_dropped_dataclass_fields_take_their_default():
    @functools.partial(register_dataclass, data_fields=["a"], meta_fields=[], drop_fields=["b"])
    @dataclasses.dataclass
    class Dropped:
        a: Any
        b: int = 1

    assert tree_map(identity, Dropped(5, 7)) == Dropped(5, 1)


def test_register_dataclass_takes_other_classes_with_given_fields():
    class Plain:
        def __init__(self, u, v):
            self.u, self.v = u, v

    register_dataclass(Plain, ["u"], ["v"])
    mapped = tree_map(lambda x: x + 1, Plain(1, 2))
    assert (mapped.u, mapped.v) == (2, 2)


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"data_fields": ["a"]}, "give both data_fields and meta_fields, or neither"),
        ({"data_fields": ["a"], "meta_fields": ["c"]}, "the constructor takes no c; the fields are a, b"),
        ({"data_fields": ["a"], "meta_fields": []}, "b is in neither data_fields nor meta_fields"),
        ({"data_fields": ["a", "b"], "meta_fields": ["b"]}, "b cannot be in both"),
    ],
)
def test_wrong_dataclass_fields(arguments, text):
    @dataclasses.dataclass
    class Wrong:
        a: int
        b: int = 1

    with pytest.raises(ArgumentError, match=text):
        register_dataclass(Wrong, **arguments)


def test_wrong_dataclasses():
    @dataclasses.dataclass
    class NoInit:
        a: int = dataclasses.field(default=1, init=False)

    with pytest.raises(ArgumentError, match="the constructor takes no a.*put a field with init=False in drop_fields"):
        register_dataclass(NoInit)
    with pytest.raises(ArgumentError, match="it is no dataclass, so give data_fields and meta_fields"):
        register_dataclass(type("Plain", (), {}))


def test_static_keeps_other_metadata():
    field = tree.static(default=1, metadata={"unit": "m"})
    assert dict(field.metadata) == {"unit": "m", "static": True}


def test_unpickling_needs_the_registration():
    treedef = tree_structure(Keyed(1))
    rebuild, (nodes,) = treedef.__reduce__()
    assert rebuild(nodes) == treedef
    with pytest.raises(TreeError, match="float is no pytree node type here; register it before unpickling"):
        rebuild([(float, None, 0)])


def test_a_class_is_met_while_another_is_looked_up():
    """As by what a search for garbage runs in between."""

    class Asked(type):
        def __getattr__(cls, name: str) -> Any:
            tree_leaves([type("Met", (), {})()])
            raise AttributeError(name)

    class Odd(tuple, metaclass=Asked):
        __slots__ = ()

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(tree_leaves([Odd()])), daemon=True)
    thread.start()
    thread.join(60)  # it would wait for itself
    assert found == [()]
