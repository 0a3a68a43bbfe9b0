"""`associative_scan`: all prefixes of a sequence under an associative operation, in few steps, under JAX's name.

Knows pytrees and errors; it is made of other functions and needs no equation of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functad.api.arguments import check_callable
from functad.api.bodies import Operand, check_same_tree, check_same_types, flat_operand
from functad.errors import ArgumentError
from functad.lax.operands import axis_of
from functad.lax.shapes import concatenate, expand_dims, reshape, rev
from functad.lax.slicing import slice_in_dim

Leaves = list[Any]


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Combine each element with all that come before it: `[x₀, x₀∘x₁, x₀∘x₁∘x₂, …]`.

    For n elements fn is called about 2·log₂ n times, on many elements at once (`scan` would call it n times, on one
    after another). Operands are combined in order, so fn need not commute, as matrix products do not.

    Args:
        fn: an associative function `(a, b) → a∘b` of two pytrees like elems. The arrays it is given have any size along
            the axis: pairs of elements to be combined one by one, as `a + b` does; use `vmap` on a function of
            single elements.
        elems: a pytree of arrays with equally many elements along the axis.
        reverse: combine each element with all that come after it, from the last one on.
        axis: the axis along which the elements lie, the same for all arrays.

    Returns:
        A pytree like elems: the same structure, shapes and dtypes.

    Raises:
        ArgumentError: elems holds no array, sizes along the axis differ, or fn returns other types than it is given.

    >>> import functad.numpy as jnp
    >>> associative_scan(jnp.multiply, jnp.array([1, 2, 3, 4]))
    Array([ 1,  2,  6, 24], dtype=int32)

    The linear recurrence `h = a·h + b`, whose steps are pairs (a, b):

    >>> def after(first, second):
    ...     (a, b), (c, d) = first, second
    ...     return c * a, c * b + d
    >>> associative_scan(after, (jnp.full(4, 0.5), jnp.ones(4)))[1]
    Array([1.   , 1.5  , 1.75 , 1.875], dtype=float32)
    """
    check_callable(fn, "associative_scan")
    given = flat_operand(elems, "elems", "associative_scan")
    axes = [axis_of("associative_scan", axis, a.ndim) for a in given.avals]
    sizes = [a.shape[i] for a, i in zip(given.avals, axes)]
    if len(set(sizes)) != 1:
        shown = ", ".join(f"elems{p} has {n}" for p, n in zip(given.paths, sizes)) or "elems holds no array"
        raise ArgumentError(f"associative_scan: all arrays must have equally many elements along the axis, but {shown}")

    def combine(a: Leaves, b: Leaves) -> Leaves:
        return _combined(fn, given, a, b)

    leaves = _reversed(given.leaves, axes) if reverse else given.leaves
    found = _prefixes(combine, leaves, axes, sizes[0])
    return given.rebuilt(_reversed(found, axes) if reverse else found)


def _combined(fn: Callable[[Any, Any], Any], like: Operand, a: Leaves, b: Leaves) -> Leaves:
    out = flat_operand(fn(like.rebuilt(a), like.rebuilt(b)), "the result of fn", "associative_scan")
    check_same_tree(out.tree, like.tree, "the result of fn", "elems", "associative_scan")
    arguments = like._replace(leaves=a)
    check_same_types(
        out.avals, arguments.avals, like.paths, "the result of fn", "each argument of fn", "associative_scan"
    )
    return out.leaves


def _prefixes(combine: Callable[[Leaves, Leaves], Leaves], xs: Leaves, axes: list[int], size: int) -> Leaves:
    """Combine neighbours, find the prefixes of that half, and fill in those that end at an even place."""
    if size < 2:
        return xs
    half = size // 2
    pairs = combine(_part(xs, axes, 0, 2 * half, 2), _part(xs, axes, 1, 2 * half, 2))
    odd = _prefixes(combine, pairs, axes, half)
    even = _part(xs, axes, 0, 1)
    if size > 2:
        rest = combine(_part(odd, axes, 0, (size - 1) // 2), _part(xs, axes, 2, size, 2))
        even = [concatenate([e, r], i) for e, r, i in zip(even, rest, axes)]
    return [_interleaved(e, o, i) for e, o, i in zip(even, odd, axes)]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """The elements `even[0], odd[0], even[1], odd[1], …`; there may be one more of the even ones."""
    half = odd.shape[axis]
    both = [expand_dims(x, (axis + 1,)) for x in (slice_in_dim(even, 0, half, axis=axis), odd)]
    merged = reshape(concatenate(both, axis + 1), (*odd.shape[:axis], 2 * half, *odd.shape[axis + 1 :]))
    if even.shape[axis] == half:
        return merged
    return concatenate([merged, slice_in_dim(even, half, None, axis=axis)], axis)


def _part(xs: Leaves, axes: list[int], start: int, stop: int, stride: int = 1) -> Leaves:
    return [slice_in_dim(x, start, stop, stride, axis) for x, axis in zip(xs, axes)]


def _reversed(xs: Leaves, axes: list[int]) -> Leaves:
    return [rev(x, (axis,)) for x, axis in zip(xs, axes)]
