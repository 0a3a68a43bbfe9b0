"""Pytrees: node types, structures, maps and reductions, key paths, registration, and the error messages."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import pickle
from typing import Any

import numpy as np
import pytest
from pytree_classes import Keyed, Layer

from functad import tree, tree_util
from functad.errors import ArgumentError, TreeError
from functad.tree_util import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    Partial,
    SequenceKey,
    broadcast_prefix,
    keystr,
    register_pytree_node_class,
    register_static,
    tree_broadcast,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_map_with_path,
    tree_reduce,
    tree_structure,
    tree_transpose,
    tree_unflatten,
)

Point = collections.namedtuple("Point", ["x", "y"])


@register_pytree_node_class
class Pair:
    def __init__(self, first: Any, second: Any, tag: Any = "tag") -> None:
        self.first, self.second, self.tag = first, second, tag

    def tree_flatten(self):
        return (self.first, self.second), self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        assert isinstance(children, tuple)
        return cls(*children, tag)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pair) and vars(self) == vars(other)


@register_static
@dataclasses.dataclass(frozen=True)
class Static:
    value: Any


def identity(x: Any) -> Any:
    return x


TREES = [
    (1.5, [1.5], "*"),
    (None, [], "None"),
    ((), [], "()"),
    ([], [], "[]"),
    ({}, [], "{}"),
    ((1,), [1], "(*,)"),
    ((1, [2, (3,)]), [1, 2, 3], "(*, [*, (*,)])"),
    ({"b": 1, "a": (2, None)}, [2, 1], "{'a': (*, None), 'b': *}"),
    ({2: "x", 1: "y"}, ["y", "x"], "{1: *, 2: *}"),
    (collections.OrderedDict(b=1, a=2), [1, 2], "CustomNode(OrderedDict[('b', 'a')], [*, *])"),
    (
        collections.defaultdict(list, {"b": 1, "a": 2}),
        [2, 1],
        "CustomNode(defaultdict[(<class 'list'>, ('a', 'b'))], [*, *])",
    ),
    (Point(1, (2, 3)), [1, 2, 3], "CustomNode(namedtuple[Point], [*, (*, *)])"),
    (Pair(1, [2]), [1, 2], "CustomNode(Pair[tag], [*, [*]])"),
    (Keyed({"k": 1}), [1], "CustomNode(Keyed[None], [{'k': *}])"),
    (Layer(1, [2], "n"), [1, 2], "CustomNode(Layer[('n',)], [*, [*]])"),
    (Layer(1), [1], "CustomNode(Layer[('layer',)], [*, None])"),
    ([Static(4), 5], [5], "[CustomNode(Static[Static(value=4)], []), *]"),
]
TREE_IDS = [text for _, _, text in TREES]


@pytest.mark.parametrize("value, leaves, text", TREES, ids=TREE_IDS)
def test_flatten_and_unflatten(value, leaves, text):
    found, treedef = tree_flatten(value)
    assert found == leaves
    assert str(treedef) == f"PyTreeDef({text})"
    assert treedef.num_leaves == len(leaves)
    rebuilt = tree_unflatten(treedef, found)
    assert rebuilt == value
    assert type(rebuilt) is type(value)
    assert tree_leaves(value) == leaves
    assert tree_structure(value) == treedef
    assert [leaf for _, leaf in tree_leaves_with_path(value)] == leaves
    assert tree_flatten_with_path(value)[1] == treedef
    assert treedef.flatten_up_to(value) == leaves
    assert tree_flatten(value, is_leaf=lambda x: False) == (leaves, treedef)


@pytest.mark.parametrize("value, leaves, text", TREES, ids=TREE_IDS)
def test_treedefs_compare_hash_copy_and_pickle(value, leaves, text):
    treedef = tree_structure(value)
    assert treedef == tree_structure(tree_map(str, value))
    assert hash(treedef) == hash(tree_structure(tree_map(str, value)))
    assert copy.deepcopy(treedef) == treedef
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    others = [tree_structure(other) for other, _, other_text in TREES if other_text != text]
    assert treedef not in others
    assert treedef != text


def test_a_leaf_class_of_first_use_is_a_leaf_and_the_structure_is_the_same():
    class New:
        pass

    first, second = tree_structure((New(), 1)), tree_structure((New(), 1))
    assert first == second
    assert first.unflatten([3, 4]) == (3, 4)


def test_subclasses_of_containers_are_leaves_unless_namedtuples():
    class MyDict(dict):
        pass

    class MyPoint(Point):
        pass

    assert tree_leaves(MyDict(a=1)) == [MyDict(a=1)]
    rebuilt = tree_map(lambda x: x + 1, MyPoint(1, 2))
    assert rebuilt == (2, 3)
    assert type(rebuilt) is MyPoint


def test_arrays_and_strings_are_leaves():
    array = np.ones(3)
    assert tree_leaves({"a": array, "b": "text"}) == [array, "text"]


def test_is_leaf_stops_the_descent():
    is_pair = lambda x: isinstance(x, tuple)  # noqa: E731
    assert tree_leaves([(1, 2), 3], is_leaf=is_pair) == [(1, 2), 3]
    assert tree_structure([(1, 2), 3], is_leaf=is_pair) == tree_structure([0, 0])
    assert tree_leaves([1, None], is_leaf=lambda x: x is None) == [1, None]
    assert tree_leaves((1, 2), is_leaf=is_pair) == [(1, 2)]


def test_unsortable_keys_name_the_path_and_the_keys():
    bad = {"params": [{1: "x", "a": "y"}]}
    text = r"at tree\['params'\]\[0\]: the dict keys 1, 'a' \(types int, str\) cannot be sorted"
    for function in (tree_flatten, tree_flatten_with_path, tree_leaves, tree_structure):
        with pytest.raises(TreeError, match=text):
            function(bad)
    with pytest.raises(TreeError, match=text):
        tree_flatten(bad, is_leaf=lambda x: False)
    with pytest.raises(TreeError, match=r"at rest\[0\]: the dict keys 'a', 1 "):
        tree_map(lambda x, y: x, {"a": 1}, {"a": 1, 1: 2})


def test_unflatten_takes_any_iterable():
    treedef = tree_structure({"a": 0, "b": (0, 0)})
    assert tree_unflatten(treedef, iter([1, 2, 3])) == {"a": 1, "b": (2, 3)}
    assert tree_unflatten(treedef, [1, (2, 2), None]) == {"a": 1, "b": ((2, 2), None)}


def test_unflatten_with_the_wrong_number_of_leaves():
    treedef = tree_structure({"a": 0, "b": [0, Point(0, 0)]})
    with pytest.raises(TreeError, match=r"has 4 leaves, got 2: there is none for tree\['b'\]\[1\]\.x"):
        treedef.unflatten([1, 2])
    with pytest.raises(TreeError, match=r"has 4 leaves, got 6: there is no place for the last 2"):
        treedef.unflatten(range(6))
    with pytest.raises(TreeError, match=r"PyTreeDef\(\*\) has 1 leaf, got 0: there is none for tree$"):
        tree_structure(1).unflatten([])
    with pytest.raises(
        TreeError, match="takes a PyTreeDef and then the leaves, but the first argument is of type list"
    ):
        tree_unflatten([1], tree_structure(1))


def test_map_over_several_trees():
    assert tree_map(lambda x, y, z: x + y * z, {"a": 1, "b": (2,)}, {"a": 3, "b": (4,)}, {"b": (5,), "a": 6}) == {
        "a": 19,
        "b": (22,),
    }
    assert tree_map(lambda x, y: (x, y), (1, 2), ([3], {})) == ((1, [3]), (2, {}))
    assert tree_map(lambda x, y: (x, y), (1, None), (2, 3), is_leaf=lambda x: x is None) == (
        (1, 2),
        (None, 3),
    )
    assert tree_map(lambda x, y: x, None, None) is None


@pytest.mark.parametrize(
    "first, second, text",
    [
        ((1, 2), [1, 2], "at rest[0]: expected a tuple of length 2, got a list of length 2"),
        (
            {"d": [(1, 2)]},
            {"d": [[1, 2, 3]]},
            "at rest[0]['d'][0]: expected a tuple of length 2, got a list of length 3",
        ),
        ((1, 2), (1, 2, 3), "at rest[0]: expected a tuple of length 2, got a tuple of length 3"),
        (
            {"a": 1},
            {"b": 1},
            "expected a dict with keys 'a', got a dict with keys 'b' (missing 'a'; unexpected 'b')",
        ),
        (
            {"p": {"a": 1}},
            {"p": {}},
            "at rest[0]['p']: expected a dict with keys 'a', got a dict with no keys (missing 'a')",
        ),
        ([None], [1], "at rest[0][0]: expected None, got a leaf (int 1)"),
        ([(1,)], [None], "expected a tuple of length 1, got None; None is a node without leaves"),
        ([(1,)], [np.ones((2, 3))], "got a leaf (ndarray of shape (2, 3))"),
        (Point(1, 2), (1, 2), "expected a Point with 2 children, got a tuple of length 2"),
        (
            collections.OrderedDict(a=1, b=2),
            collections.OrderedDict(b=1, a=2),
            "got an OrderedDict with keys 'b', 'a' (in another order)",
        ),
        (
            collections.defaultdict(list, a=1),
            collections.defaultdict(int, a=1),
            "expected a defaultdict of <class 'list'> with keys 'a', got a defaultdict of <class 'int'>",
        ),
        (Pair(1, 2, "s"), Pair(1, 2, "t"), "expected a Pair with 2 children and metadata 's', got a Pair"),
        (Layer((1,)), Layer([1]), "at rest[0].weights: expected a tuple of length 1, got a list of length 1"),
        (
            Pair(1, (2,)),
            Pair(1, 2),
            "at rest[0][<flat index 1>]: expected a tuple of length 1, got a leaf (int 2)",
        ),
        (
            Static(1),
            Static(2),
            "metadata Static(value=1), got a Static with 0 children and metadata Static(value=2)",
        ),
        (
            {i: 1 for i in range(20)},
            5,
            "a dict with keys 0, 1, 2, 3, 4, 5, 6, 7, … (20 in all), got a leaf (int 5)",
        ),
    ],
)
def test_map_of_differing_trees_names_path_and_both_sides(first, second, text):
    with pytest.raises(TreeError) as info:
        tree_map(lambda x, y: x, first, second)
    assert text in str(info.value)


def test_flatten_up_to():
    treedef = tree_structure({"a": 0, "b": (0, 0)})
    assert treedef.flatten_up_to({"a": [1], "b": (2, {"c": 3})}) == [[1], 2, {"c": 3}]
    with pytest.raises(TreeError, match=r"^at params\['b'\]: expected a tuple of length 2, got a list of length 1$"):
        treedef.flatten_up_to({"a": 1, "b": [2]}, name="params")


def test_map_with_path():
    value = {"a": [1, Point(2, 3)]}
    assert tree_map_with_path(lambda path, x, y: (keystr(path), x + y), value, value) == {
        "a": [("['a'][0]", 2), Point(("['a'][1].x", 4), ("['a'][1].y", 6))]
    }


def test_is_leaf_may_take_the_path():
    depth_one = tree_leaves_with_path((1, {"a": 2}), is_leaf=lambda path, x: len(path) == 1, is_leaf_takes_path=True)
    assert depth_one == [((SequenceKey(0),), 1), ((SequenceKey(1),), {"a": 2})]


def test_keys_and_keystr():
    path = (DictKey("a"), SequenceKey(0), GetAttrKey("z"), FlattenedIndexKey(2), "other")
    assert keystr(path) == "['a'][0].z[<flat index 2>]other"
    assert keystr(path, simple=True, separator="/") == "a/0/z/2/other"
    assert keystr(path[:2], separator="/") == "['a']/[0]"
    assert keystr(()) == ""
    assert [repr(key) for key in path[:4]] == [
        "DictKey(key='a')",
        "SequenceKey(idx=0)",
        "GetAttrKey(name='z')",
        "FlattenedIndexKey(key=2)",
    ]
    assert SequenceKey(3) != FlattenedIndexKey(3)
    assert len({DictKey("a"), DictKey("a"), GetAttrKey("a")}) == 2


def test_reduce():
    add = lambda x, y: x + y  # noqa: E731
    assert tree_reduce(add, [1, {"a": 2}]) == 3
    assert tree_reduce(add, [1, 2], 10) == 13
    assert tree_reduce(add, [], 10) == 10
    assert tree_reduce(lambda x, y: (x, y), [1], None) == (None, 1)
    assert tree_reduce(add, [[1], [2]], is_leaf=lambda x: x in ([1], [2])) == [1, 2]
    with pytest.raises(ArgumentError, match="without leaves; give an initializer"):
        tree_reduce(add, [None])


def test_reduce_associative():
    pair = lambda x, y: (x, y)  # noqa: E731
    assert tree.reduce_associative(pair, [1, 2, 3, 4, 5]) == ((1, 2), (3, (4, 5)))
    assert tree.reduce_associative(pair, [], identity=3) == 3
    with pytest.raises(ArgumentError, match="without leaves; give an identity"):
        tree.reduce_associative(pair, [])


def test_all():
    assert tree_util.tree_all([True, {"a": 1}])
    assert not tree_util.tree_all([True, {"a": 0}])
    assert tree_util.tree_all([])
    assert tree_util.tree_all([[0]], is_leaf=lambda x: x == [0])


def test_transpose():
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert tree_transpose(tree_structure([0, 0]), tree_structure(rows[0]), rows) == {"a": [1, 3], "b": [2, 4]}
    assert tree_transpose(tree_structure([0, 0]), None, rows) == {"a": [1, 3], "b": [2, 4]}
    assert tree_transpose(tree_structure([0, None]), tree_structure((0, 0)), [(1, 2), None]) == (
        [1, None],
        [2, None],
    )


@pytest.mark.parametrize(
    "outer, inner, value, text",
    [
        ([0, 0, 0], {"a": 0}, [{"a": 1}], "at tree: expected a list of length 3, got a list of length 1"),
        (
            [0, 0],
            {"a": 0},
            [{"a": 1}, {"b": 1}],
            "at tree[1]: expected a dict with keys 'a', got a dict with keys 'b'",
        ),
        ([0], {"a": 0}, [{"a": (1,)}], "at tree[0]['a']: expected a leaf, got a tuple of length 1"),
    ],
)
def test_transpose_of_another_structure(outer, inner, value, text):
    with pytest.raises(TreeError) as info:
        tree_transpose(tree_structure(outer), tree_structure(inner), value)
    assert text in str(info.value)


def test_transpose_needs_an_inner_structure():
    with pytest.raises(ArgumentError, match="cannot infer inner_treedef"):
        tree_transpose(tree_structure([]), None, [])


def test_broadcast():
    full = ({"a": 1, "b": 2}, [3, None])
    assert tree_broadcast(0, full) == ({"a": 0, "b": 0}, [0, None])
    assert tree_broadcast((0, 1), full) == ({"a": 0, "b": 0}, [1, None])
    assert broadcast_prefix((0, None), full, is_leaf=lambda x: x is None) == [0, 0, None]
    assert broadcast_prefix(({"a": 0, "b": 1}, 2), full) == [0, 1, 2]


@pytest.mark.parametrize(
    "prefix, text",
    [
        ((0, 1), "at in_axes: in_axes has a tuple of length 2 where args has a tuple of length 1"),
        (({"a": (0,)},), "at in_axes[0]['a']: in_axes has a tuple of length 1 where args has a leaf (int 1)"),
        ((None,), "at in_axes[0]: in_axes has None where args has a dict with keys 'a'; in_axes must have"),
    ],
)
def test_broadcast_of_no_prefix_names_both_trees(prefix, text):
    with pytest.raises(TreeError) as info:
        broadcast_prefix(prefix, ({"a": 1},), name="in_axes", full_name="args")
    assert text in str(info.value)
    assert ("is_leaf=lambda x: x is None" in str(info.value)) == (prefix == (None,))


def test_treedef_methods():
    treedef = tree_structure({"a": 1, "b": (2, 3)})
    assert treedef.children() == [tree_structure(0), tree_structure((0, 0))]
    assert tree_util.treedef_children(treedef) == treedef.children()
    assert treedef.node_data() == (dict, ("a", "b"))
    assert tree_structure(1).node_data() is None
    assert treedef.num_nodes == 5
    assert tree_structure((1, 2)).compose(tree_structure([1])) == tree_structure(([1], [1]))
    assert tree_util.treedef_tuple([treedef, tree_structure(1)]) == tree_structure(({"a": 1, "b": (2, 3)}, 4))
    assert [tree_util.treedef_is_leaf(tree_structure(x)) for x in (1, None, (), (1,))] == [
        True,
        True,
        True,
        False,
    ]
    with pytest.raises(TreeError, match="takes PyTreeDefs, but item 1 is of type int"):
        tree_util.treedef_tuple([treedef, 1])


def test_one_level_functions():
    assert tree_util.flatten_one_level({"b": [1], "a": 2}) == ([2, [1]], ("a", "b"))
    assert tree_util.flatten_one_level_with_keys((4,)) == ([(SequenceKey(0), 4)], None)
    assert [tree_util.is_tree_node(cls) for cls in (dict, Point, Pair, type(None), int)] == [True] * 4 + [False]
    assert tree_util.all_leaves([1, "a"])
    assert not tree_util.all_leaves([1, None])
    assert tree_util.all_leaves([1, None], is_leaf=lambda x: x is None)
    with pytest.raises(TreeError, match=r"expected a pytree node, got a leaf \(int 1\)"):
        tree_util.flatten_one_level(1)


def test_partial_is_a_pytree_of_its_arguments():
    partial = Partial(max, 1, key=abs)
    assert tree_leaves(Partial(max, 1, 2)) == [1, 2]
    assert tree_map(lambda x: x + 5, Partial(max, 1))(3) == 6
    assert tree_structure(Partial(max, 1)) == tree_structure(Partial(max, 2))
    assert tree_structure(Partial(max, 1)) != tree_structure(Partial(min, 1))
    assert [keystr(path) for path, _ in tree_leaves_with_path(partial)] == [
        "[<flat index 0>][0]",
        "[<flat index 1>]['key']",
    ]


def test_partial_of_a_partial_keeps_the_inner_arguments_static():
    inner = functools.partial(max, 1)
    outer = Partial(inner, 2)
    assert tree_leaves(outer) == [2]
    assert outer(0) == 2
    assert tree_structure(outer) == tree_structure(Partial(inner, 3))
    assert tree_structure(outer) != tree_structure(Partial(functools.partial(max, 1), 2))


def test_tree_has_the_functions_under_short_names():
    for name in tree.__all__:
        if name != "static":
            assert getattr(tree, name) is getattr(tree_util, f"tree_{name}")


def test_a_structure_with_another_one_at_each_leaf():
    treedef = tree_structure({"a": 1, "b": (2, 3)})
    pair, none = tree_structure((1, 2)), tree_structure(None)
    assert treedef.with_subtrees([pair, none, tree_structure(1)]) == tree_structure({"a": (1, 2), "b": (None, 3)})
