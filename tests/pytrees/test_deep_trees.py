"""Trees of a thousand levels and of ten thousand leaves: as arguments, as results, in errors and printed."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import tree_util
from functad.errors import FunctadError

LEVELS, LEAVES = 1000, 10_000


def nested(leaf: Any, levels: int = LEVELS) -> Any:
    """A leaf in lists, dicts, tuples and pairs with None."""
    tree = leaf
    for k in range(levels):
        tree = ([tree], {"key": tree}, (tree,), (tree, None))[k % 4]
    return tree


def innermost(tree: Any) -> Any:
    while isinstance(tree, (list, dict, tuple)):
        tree = tree["key"] if isinstance(tree, dict) else tree[0]
    return tree


def wide(number: Any = 1.0) -> dict[str, Any]:
    return {f"leaf {k}": number + k for k in range(LEAVES)}


@pytest.mark.parametrize("tree", [nested(2.0), wide()], ids=["deep", "wide"])
def test_structures(tree: Any) -> None:
    leaves, treedef = tree_util.tree_flatten(tree)
    again = tree_util.tree_structure(tree_util.tree_map(lambda x: x + 1, tree))
    assert treedef == again and hash(treedef) == hash(again) and treedef.exact_key() == again.exact_key()
    assert tree_util.tree_leaves(tree_util.tree_unflatten(treedef, leaves)) == leaves
    assert tree_util.tree_leaves(tree_util.tree_map(lambda x, y: x + y, tree, tree)) == [2 * x for x in leaves]
    assert str(treedef).count("*") == len(leaves) == treedef.num_leaves and treedef.num_nodes >= LEVELS
    assert pickle.loads(pickle.dumps(treedef)) == copy.deepcopy(treedef) == treedef
    assert len(list(treedef.leaf_paths())) == len(tree_util.tree_leaves_with_path(tree)) == len(leaves)
    assert treedef.compose(tree_util.tree_structure((1, 2))).num_leaves == 2 * len(leaves)
    assert tree_util.tree_leaves(tree, is_leaf=lambda x: x is None)[0] == leaves[0]
    assert tree_util.tree_reduce(lambda x, y: x + y, tree) == sum(leaves)
    assert tree_util.tree_all(tree_util.tree_map(lambda x: x > 0, tree))


def test_a_mismatch_at_the_bottom_is_named() -> None:
    with pytest.raises(FunctadError) as caught:
        tree_util.tree_map(lambda x, y: x, nested([1.0]), nested((1.0,)))
    assert "expected a list of length 1, got a tuple of length 1" in str(caught.value)


def test_compiled_and_differentiated_deep_trees() -> None:
    doubled = functad.jit(lambda tree: tree_util.tree_map(lambda x: x * 2, tree))
    for number in (1.0, 3.0):
        assert innermost(doubled(nested(np.float32(number)))) == 2 * number
    assert doubled.lower(nested(1.0)).out_info is not None
    assert "f32[]" in str(functad.make_jaxpr(lambda tree: innermost(tree) * 2)(nested(1.0)))
    gradient = functad.grad(lambda tree: innermost(tree) ** 2)
    assert innermost(gradient(nested(3.0))) == innermost(functad.jit(gradient)(nested(3.0))) == 6
    value, tangent = functad.jvp(lambda tree: innermost(tree) ** 2, (nested(3.0),), (nested(1.0),))
    assert (value, tangent) == (9, 6)
    mapped = functad.vmap(lambda tree: tree_util.tree_map(jnp.sin, tree))(nested(jnp.zeros(3)))
    assert innermost(mapped).shape == (3,)
    with pytest.raises(FunctadError, match="dtype object|is no array"):
        functad.jit(lambda tree: tree)(nested(object()))
    with pytest.raises(FunctadError):
        functad.grad(lambda tree: tree)(nested(1.0))


def test_compiled_and_differentiated_wide_trees() -> None:
    tree = {f"leaf {k}": np.float32(k) for k in range(LEAVES)}
    picked = functad.jit(lambda tree: tree["leaf 77"] * 2)
    for _ in range(2):
        assert picked(tree) == 154
    gradient = functad.grad(lambda tree: tree["leaf 77"] ** 2)(tree)
    assert gradient["leaf 77"] == 154 and gradient["leaf 78"] == 0


def test_a_deep_result_that_is_no_pair_is_named() -> None:
    with pytest.raises(FunctadError, match="returned a list"):
        functad.grad(lambda x: [nested(x, 2 * LEVELS)], has_aux=True)(1.0)
