"""All primitives under JAX's names: `add_p`, `dot_general_p`, …

Knows how JAX's names differ; the records are what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.all_primitives import registry
from functad.ir import Primitive

_OTHER_NAMES = {"remat": "remat2", "checkpoint": "remat2", "core_closed_call": "closed_call"}


def primitive_named(name: str) -> Primitive | None:
    """The primitive that a name such as `scatter_add_p` means."""
    stem = name.removesuffix("_p")
    if stem == name:
        return None
    return registry.get(_OTHER_NAMES.get(stem, stem)) or registry.get(stem.replace("_", "-"))


def __dir__() -> list[str]:
    return sorted(f"{name.replace('-', '_')}_p" for name in registry)


if not TYPE_CHECKING:
    __getattr__ = absent(__name__, found=primitive_named)
