"""A pytree of arrays as one vector, and back, under JAX's name.

Knows pytrees and array functions.

Shapes:
    Arguments are pytrees of arrays of any shapes; what belongs to a value, such as its tangent, has its shape.

Raises:
    DTypeError: a leaf is no array.
    ShapeError: the vector has another size, when it is taken apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from functad import numpy as jnp
from functad.absent import absent
from functad.errors import ShapeError
from functad.tree_util import tree_flatten, tree_unflatten


def ravel_pytree(pytree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """All elements of a pytree of arrays as one vector, and the function that makes the pytree of such a vector.

    Args:
        pytree: its leaves are promoted to one dtype in the vector, and have their own again in the tree.

    Returns:
        `(vector, unravel)`. `unravel` raises a ShapeError for a vector of another length.

    >>> import functad.numpy as jnp
    >>> vector, unravel = ravel_pytree({"b": jnp.zeros(2), "w": jnp.ones((1, 2))})
    >>> vector.shape, unravel(2. * vector)
    ((4,), {'b': Array([0., 0.], dtype=float32), 'w': Array([[2., 2.]], dtype=float32)})
    """
    leaves, tree = tree_flatten(pytree)
    arrays = [jnp.asarray(leaf) for leaf in leaves]
    types = [(a.shape, a.dtype, a.size) for a in arrays]
    vector = jnp.concatenate([a.ravel() for a in arrays]) if arrays else jnp.zeros(0)
    total = sum(size for _, _, size in types)

    def unravel(flat: Any) -> Any:
        flat = jnp.asarray(flat)
        if flat.shape != (total,):
            raise ShapeError(f"unravel takes a vector of {total} elements, got an array of shape {flat.shape}")
        made, start = [], 0
        for shape, dtype, size in types:
            made.append(flat[start : start + size].reshape(shape).astype(dtype))
            start += size
        return tree_unflatten(tree, made)

    return vector, unravel


__all__ = ["ravel_pytree"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
