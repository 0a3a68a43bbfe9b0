"""Batch rules of primitives of one's own, in JAX's convention.

Knows the table `primitive_batchers`; the rules of functad's own primitives can be read there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from functad.absent import absent
from functad.evaluation import aval_of
from functad.extend.primitive import OpenPrimitive, checked_count
from functad.interpreters.tables import RuleTable
from functad.ir import Primitive
from functad.primitives.common import move_batch_axis_to_front
from functad.transforms.batching import place_batch_axis
from functad.transforms.named_axes import batched_axis

not_mapped = None


def _given(primitive: Primitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
        size = next(aval_of(a).shape[d] for a, d in zip(args, dims) if d is not None)
        return rule(size, tuple(args), tuple(dims), **params)

    return batch


def _taken(primitive: OpenPrimitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    def batch(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        return checked_count(rule(args, dims, **params), 2, f"the batch rule of `{primitive}`")

    return batch


def _taken_with_axis(primitive: OpenPrimitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    def batch(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        axis = SimpleNamespace(size=axis_size, name=batched_axis(), spmd_name=None)
        return checked_count(rule(axis, args, dims, **params), 2, f"the batch rule of `{primitive}`")

    return batch


def _given_with_axis(primitive: Primitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda axis, args, dims, **params: rule(axis.size, tuple(args), tuple(dims), **params)


def _taken_with_size(primitive: OpenPrimitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    def batch(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        return checked_count(
            rule(axis_size, batched_axis(), None, args, dims, **params), 2, f"the batch rule of `{primitive}`"
        )

    return batch


def _given_with_size(primitive: Primitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda size, name, kind, args, dims, **params: rule(size, tuple(args), tuple(dims), **params)


primitive_batchers = RuleTable("the batch rule", "batch", _given, _taken)
fancy_primitive_batchers = RuleTable("the batch rule", "batch", _given_with_axis, _taken_with_axis)
axis_primitive_batchers = RuleTable("the batch rule", "batch", _given_with_size, _taken_with_size)


def defvectorized(primitive: Primitive) -> None:
    """Register that an operation does the same to each element of operands of one shape, so that it takes more axes.

    >>> import functad, functad.numpy as jnp
    >>> from functad.extend.core import Primitive
    >>> double_p = Primitive("double")
    >>> _ = double_p.def_impl(lambda x: 2 * x), double_p.def_abstract_eval(lambda x: x)
    >>> defvectorized(double_p)
    >>> functad.vmap(double_p.bind)(jnp.array([1., 2.]))
    Array([2., 4.], dtype=float32)
    """

    def batch(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, Any]:
        size = next(aval_of(a).shape[d] for a, d in zip(args, dims) if d is not None)
        out = primitive.bind(*[move_batch_axis_to_front(a, d, size) for a, d in zip(args, dims)], **params)
        return out, [0] * len(out) if primitive.multiple_results else 0

    primitive_batchers[primitive] = batch


defbroadcasting = defvectorized


def defreducer(primitive: Primitive) -> None:
    """Register that an operation reduces its operand over `params["axes"]`.

    >>> import functad, functad.numpy as jnp
    >>> from functad.extend.core import Primitive
    >>> total_p = Primitive("total")
    >>> _ = total_p.def_impl(lambda x, axes: jnp.sum(x, axes))
    >>> _ = total_p.def_abstract_eval(lambda x, axes: functad.core.ShapedArray(x.shape[:axes[0]], x.dtype))
    >>> defreducer(total_p)
    >>> functad.vmap(lambda x: total_p.bind(x, axes=(0,)))(jnp.ones((2, 3)))
    Array([3., 3.], dtype=float32)
    """

    def batch(
        args: Sequence[Any], dims: Sequence[int | None], *, axes: Sequence[int], **params: Any
    ) -> tuple[Any, Any]:
        ((x,), (dim,)) = args, dims
        return primitive.bind(move_batch_axis_to_front(x, dim, 0), axes=tuple(a + 1 for a in axes), **params), 0

    primitive_batchers[primitive] = batch


def bdim_at_front(x: Any, bdim: int | None, size: int) -> Any:
    """The array with its mapped axis in front; repeated along it if it is not mapped.

    >>> import functad.numpy as jnp
    >>> bdim_at_front(jnp.ones((3, 4)), 1, 4).shape, bdim_at_front(jnp.ones(3), None, 4).shape
    ((4, 3), (4, 3))
    """
    return move_batch_axis_to_front(x, bdim, size)


def broadcast(x: Any, sz: int, axis: int) -> Any:
    """The array repeated along a new axis.

    >>> import functad.numpy as jnp
    >>> broadcast(jnp.ones(3), 4, 1).shape
    (3, 4)
    """
    return place_batch_axis(x, None, axis, sz)


__all__ = [
    "axis_primitive_batchers",
    "bdim_at_front",
    "broadcast",
    "defbroadcasting",
    "defreducer",
    "defvectorized",
    "fancy_primitive_batchers",
    "not_mapped",
    "primitive_batchers",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
