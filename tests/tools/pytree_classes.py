"""Classes of nodes of pytrees: one that names its children, and a dataclass with a static field."""

from __future__ import annotations

import dataclasses
from typing import Any

from functad import tree
from functad.tree_util import GetAttrKey, register_dataclass, register_pytree_with_keys_class


@register_pytree_with_keys_class
class Keyed:
    def __init__(self, a: Any) -> None:
        self.a = a

    def tree_flatten_with_keys(self):
        return iter([(GetAttrKey("a"), self.a)]), None

    @classmethod
    def tree_unflatten(cls, metadata, children):
        return cls(*children)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and self.a == other.a


@register_dataclass
@dataclasses.dataclass
class Layer:
    weights: Any
    bias: Any = None
    name: str = tree.static(default="layer")
