"""Pytrees compared with JAX: leaves, structures as text, key paths, maps, and what is rejected."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from typing import Any

import pytest

from functad import tree, tree_util
from functad.errors import ArgumentError, TreeError

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

BOTH = (tree_util, jax.tree_util)
REJECTIONS = (ValueError, TypeError, TreeError, ArgumentError)

Point = collections.namedtuple("Point", ["x", "y"])


def registered(how: str, *args: Any) -> Any:
    """A class decorator that registers with both libraries."""

    def decorate(cls: Any) -> Any:
        for library in BOTH:
            getattr(library, how)(cls, *args)
        return cls

    return decorate


class Outer:
    class Inner(Point):
        pass


@registered("register_pytree_node_class")
class Pair:
    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second

    def tree_flatten(self):
        return (self.first, self.second), "metadata"

    @classmethod
    def tree_unflatten(cls, metadata, children):
        return cls(*children)

    def __repr__(self):
        return f"Pair({self.first!r}, {self.second!r})"


@registered("register_pytree_with_keys_class")
class Keyed:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    def tree_flatten_with_keys(self):
        return ((jax.tree_util.GetAttrKey("a"), self.a), ("b!", self.b)), None

    @classmethod
    def tree_unflatten(cls, metadata, children):
        return cls(*children)

    def __repr__(self):
        return f"Keyed({self.a!r}, {self.b!r})"


@registered("register_dataclass")
@dataclasses.dataclass
class Inferred:
    a: Any
    n: int = dataclasses.field(metadata={"static": True})
    b: Any = 2


@registered("register_dataclass", ["b"], ["a"])
@dataclasses.dataclass
class Given:
    a: Any
    b: Any


@registered("register_dataclass", ["a"], [], ["b"])
@dataclasses.dataclass
class Dropped:
    a: Any
    b: Any = "default"


@registered("register_static")
@dataclasses.dataclass(frozen=True)
class Static:
    value: Any


class SubDict(dict):
    pass


class SubTuple(tuple):
    pass


TREES = [
    1,
    "text",
    None,
    (),
    [],
    {},
    (1,),
    [1],
    (1, 2),
    (1, [2, {"a": 3}]),
    {"b": 1, "a": (2, [3])},
    {3: 1, 1: 2},
    {(1, 2): 1, (0, 5): 2},
    {1: 1, 2.5: 2},
    {"a": None, "b": ()},
    (None, None),
    [[[]], ({},)],
    collections.OrderedDict(b=1, a=[2]),
    collections.OrderedDict(),
    collections.defaultdict(list, {"z": 1, "c": 2}),
    collections.defaultdict(None, {"z": 1}),
    Point(1, (2, None)),
    Outer.Inner(1, 2),
    SubDict(a=1),
    SubTuple((1, 2)),
    Pair(1, [2]),
    Keyed({"k": 1}, 2),
    Inferred(1, 3, {"q": 2}),
    Given(1, 2),
    Dropped(1, 2),
    Static((1, 2)),
    [Static("x"), Pair(Point(1, None), {"k": Inferred(1, 2)})],
]
IDS = [f"{index}-{type(value).__name__}" for index, value in enumerate(TREES)]


def outcome(function, *args, **kwargs):
    """The result as text, or that the call was rejected."""
    try:
        return repr(function(*args, **kwargs))
    except REJECTIONS:
        return "rejected"


def same(function, theirs=jax.tree_util):
    """What both libraries make of `function(library)`; asserts that it is the same."""
    ours, theirs = outcome(function, tree_util), outcome(function, theirs)
    assert ours == theirs
    return ours


@pytest.mark.parametrize("value", TREES, ids=IDS)
def test_structure_leaves_and_paths(value):
    same(lambda t: t.tree_flatten(value))
    same(lambda t: t.tree_leaves(value))
    same(lambda t: t.tree_flatten_with_path(value))
    same(lambda t: [t.keystr(path) for path, _ in t.tree_leaves_with_path(value)])


@pytest.mark.parametrize("separator", ["", "/", "."])
@pytest.mark.parametrize("simple", [False, True])
def test_keystr(simple, separator):
    def keystrs(t):
        paths = [path for path, _ in t.tree_leaves_with_path(TREES)]
        return [t.keystr(path, simple=simple, separator=separator) for path in paths]

    same(keystrs)


@pytest.mark.parametrize("value", TREES, ids=IDS)
def test_treedef_methods(value):
    same(lambda t: t.tree_structure(value).children())
    same(lambda t: t.treedef_children(t.tree_structure(value)))
    same(lambda t: t.treedef_is_leaf(t.tree_structure(value)))
    same(lambda t: (t.tree_structure(value).num_leaves, t.tree_structure(value).num_nodes))
    same(lambda t: t.tree_structure(value).compose(t.tree_structure([1, None])))
    same(lambda t: t.treedef_tuple([t.tree_structure(value), t.tree_structure(1)]))
    same(lambda t: t.all_leaves([value]))
    same(lambda t: t.is_tree_node(type(value)))
    same(lambda t: t.tree_unflatten(t.tree_structure(value), [(x,) for x in t.tree_leaves(value)]))
    same(lambda t: t.tree_unflatten(t.tree_structure(value), [*t.tree_leaves(value), 1]))
    same(lambda t: t.tree_unflatten(t.tree_structure(value), []))


@pytest.mark.parametrize("value", TREES, ids=IDS)
def test_maps_and_reductions(value):
    same(lambda t: t.tree_map(lambda x: [x], value))
    same(lambda t: t.tree_map(lambda x, y: (x, y), value, value))
    same(lambda t: t.tree_map_with_path(lambda path, x, y: (t.keystr(path), x, y), value, value))
    same(lambda t: t.tree_reduce(lambda x, y: (x, y), value, None))
    same(lambda t: t.tree_reduce(lambda x, y: (x, y), value))
    same(lambda t: t.tree_reduce_associative(lambda x, y: (x, y), value))
    same(lambda t: t.tree_reduce_associative(lambda x, y: (x, y), value, identity=0))
    same(lambda t: t.tree_all(value))
    same(lambda t: t.tree_broadcast(7, value))
    same(lambda t: t.tree_broadcast(value, value))


@pytest.mark.parametrize("value", TREES, ids=IDS)
@pytest.mark.parametrize(
    "is_leaf",
    [
        lambda x: x is None,
        lambda x: isinstance(x, (tuple, dict)),
        lambda x: isinstance(x, Pair),
        lambda x: True,
        lambda x: False,
    ],
    ids=["None", "tuple or dict", "Pair", "all", "none"],
)
def test_is_leaf(value, is_leaf):
    same(lambda t: t.tree_flatten(value, is_leaf))
    same(lambda t: t.tree_leaves_with_path(value, is_leaf=is_leaf))
    same(lambda t: t.tree_map(lambda x, y: (x, y), value, value, is_leaf=is_leaf))
    same(lambda t: t.tree_map_with_path(lambda p, x: (p, x), value, is_leaf=is_leaf))
    same(lambda t: t.tree_broadcast(value, value, is_leaf=is_leaf))
    same(lambda t: t.tree_all(value, is_leaf=is_leaf))
    same(
        lambda t: t.tree_leaves_with_path(
            value, is_leaf=lambda path, x: len(path) == 1 or is_leaf(x), is_leaf_takes_path=True
        )
    )


def test_equality_of_structures():
    for a, b in itertools.product(TREES, repeat=2):
        equal = tree_util.tree_structure(a) == tree_util.tree_structure(b)
        assert equal == (jax.tree_util.tree_structure(a) == jax.tree_util.tree_structure(b)), (a, b)
        if equal:
            assert hash(tree_util.tree_structure(a)) == hash(tree_util.tree_structure(b))


def test_every_pair_of_trees_matches_or_is_rejected_as_in_jax():
    results = collections.Counter()
    for a, b in itertools.product(TREES, repeat=2):
        result = same(lambda t, a=a, b=b: t.tree_map(lambda x, y: (x, y), a, b))
        same(lambda t, a=a, b=b: t.tree_structure(a).flatten_up_to(b))
        same(lambda t, a=a, b=b: t.tree_broadcast(a, b))
        same(lambda t, a=a, b=b: t.tree_broadcast(a, b, is_leaf=lambda x: x is None))
        results["rejected" if result == "rejected" else "matched"] += 1
    assert min(results.values()) > 50


def test_unsortable_keys_are_rejected():
    assert same(lambda t: t.tree_flatten({1: 1, "a": 2})) == "rejected"


def test_transpose():
    rows = [{"a": 1, "b": (2, None)}, {"a": 3, "b": (4, None)}]
    for outer, inner, value in [
        ([0, 0], rows[0], rows),
        ([0, 0], None, rows),
        ([0, 0, 0], rows[0], rows),
        ([0, 0], {"a": 0}, rows),
        ((0, 0), (0, 0, 0), ((1, 2, 3), (4, 5, 6))),
        ([0, None], (0, 0), [(1, 2), None]),
        ((0, 0), None, ((1, 2), (3,))),
        ({"x": 0, "y": Point(0, 0)}, [0, 0], {"x": [1, 2], "y": Point([3, 4], [5, 6])}),
    ]:
        same(
            lambda t, outer=outer, inner=inner, value=value: t.tree_transpose(
                t.tree_structure(outer), None if inner is None else t.tree_structure(inner), value
            )
        )


def test_keys():
    def keys(t):
        return [
            t.SequenceKey(3),
            t.DictKey("a"),
            t.DictKey((1, 2)),
            t.GetAttrKey("x"),
            t.FlattenedIndexKey(2),
        ]

    same(lambda t: [(repr(key), str(key)) for key in keys(t)])
    same(lambda t: [t.keystr((key,), simple=True) for key in keys(t)])
    same(lambda t: [a == b for a, b in itertools.product(keys(t), repeat=2)])
    same(lambda t: [type(key).__match_args__ for key in keys(t)])


def test_partial():
    def partials(t):
        return [
            t.Partial(max, 1, key=abs),
            t.Partial(t.Partial(max, 1), 2),
            t.Partial(functools.partial(max, 1), 2, 3),
        ]

    same(lambda t: [(t.tree_leaves(p), p(-5)) for p in partials(t)])
    same(lambda t: (repr(partials(t)[0]), str(t.tree_structure(partials(t)[0]))))
    same(lambda t: [t.tree_map(lambda x: x, p)(7) for p in partials(t)])
    same(lambda t: [[t.keystr(path) for path, _ in t.tree_leaves_with_path(p)] for p in partials(t)])
    same(lambda t: t.tree_structure(t.Partial(max, 1)) == t.tree_structure(t.Partial(max, 2)))
    same(lambda t: t.tree_structure(t.Partial(max, 1)) == t.tree_structure(t.Partial(min, 1)))


def test_flatten_one_level():
    exported = jax._src.tree_util  # only some versions export it from jax.tree_util
    for value in TREES:
        same(lambda t, value=value: list(t.flatten_one_level(value)[0]), exported)
        # For a namedtuple JAX repeats the first key here, and gives the class as metadata (PyTreeDef: None).
        if not isinstance(value, Point):
            same(lambda t, value=value: list(t.flatten_one_level_with_keys(value)[0]), exported)
            same(lambda t, value=value: t.flatten_one_level(value)[1], exported)


@pytest.mark.parametrize(
    "arguments",
    [
        {"data_fields": ["a"]},
        {"data_fields": ["a"], "meta_fields": ["c"]},
        {"data_fields": ["a"], "meta_fields": []},
        {"data_fields": ["a", "b"], "meta_fields": ["b"]},
        {"data_fields": ["a"], "meta_fields": [], "drop_fields": ["b"]},
        {"data_fields": ["a"], "meta_fields": ["b"]},
        {},
    ],
    ids=str,
)
def test_register_dataclass_accepts_the_same_fields(arguments):
    @dataclasses.dataclass
    class Record:
        a: int
        b: int = 1

    def register_and_flatten(t):
        t.register_dataclass(Record, **arguments)
        return t.tree_flatten(Record(2, 3))

    same(register_and_flatten)


def test_registering_twice_is_rejected():
    assert same(lambda t: t.register_static(Static)) == "rejected"
    assert same(lambda t: t.register_pytree_node(tuple, list, list)) == "rejected"


def test_the_names_are_those_of_jax():
    assert {name for name in dir(jax.tree_util) if name[0] != "_"} <= set(tree_util.__all__)
    assert {name for name in dir(jax.tree) if name[0] != "_"} == set(tree.__all__)
