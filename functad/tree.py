"""The functions on pytrees under their short names: `tree.map` is `tree_util.tree_map`.

This file knows nothing but those names.

Shapes:
    Leaves may be anything, arrays of any shapes too.

Raises:
    Nothing of its own.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from functad.absent import absent
from functad.tree_util import tree_all as all
from functad.tree_util import tree_broadcast as broadcast
from functad.tree_util import tree_flatten as flatten
from functad.tree_util import tree_flatten_with_path as flatten_with_path
from functad.tree_util import tree_leaves as leaves
from functad.tree_util import tree_leaves_with_path as leaves_with_path
from functad.tree_util import tree_map as map
from functad.tree_util import tree_map_with_path as map_with_path
from functad.tree_util import tree_reduce as reduce
from functad.tree_util import tree_reduce_associative as reduce_associative
from functad.tree_util import tree_structure as structure
from functad.tree_util import tree_transpose as transpose
from functad.tree_util import tree_unflatten as unflatten

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]


def static(**kwargs: Any) -> Any:
    """A dataclass field that `register_dataclass` takes as static metadata, not as a child.

    Args:
        **kwargs: those of `dataclasses.field`.

    >>> import dataclasses
    >>> from functad import tree, tree_util
    >>> @tree_util.register_dataclass
    ... @dataclasses.dataclass
    ... class Layer:
    ...     weights: object
    ...     activation: str = tree.static(default="relu")
    >>> tree.leaves(Layer(3))
    [3]
    """
    metadata = {**(kwargs.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **kwargs)


if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
