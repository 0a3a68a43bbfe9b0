"""Linear functions with a transpose of their own: `functad.custom_derivatives.linear_call`.

Knows the registration of rules; `custom_vjp` and `custom_jvp` are for functions that are not linear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.api.inspection import eval_shape
from functad.api.mapping import vmap
from functad.errors import DifferentiationError
from functad.extend.core import Primitive
from functad.interpreters.ad import instantiate_zeros, is_undefined_primal, primitive_jvps, primitive_transposes
from functad.interpreters.batching import bdim_at_front, primitive_batchers
from functad.ir import Aval, Zero
from functad.records import Record
from functad.transforms.named_axes import batched_axis
from functad.tree_util import PyTreeDef, tree_flatten, tree_structure, tree_unflatten


class _Linear(Record):
    """fun and its transpose, of residuals and of what they are linear in; out_tree: of what fun returns."""

    fun: Callable[..., Any]
    fun_transpose: Callable[..., Any]
    residual_tree: PyTreeDef
    linear_tree: PyTreeDef
    out_tree: PyTreeDef

    def __call__(self, *leaves: Any) -> list[Any]:
        return tree_flatten(self.fun(*self.arguments(leaves)))[0]

    def arguments(self, leaves: Sequence[Any]) -> tuple[Any, Any]:
        count = self.residual_tree.num_leaves
        return tree_unflatten(self.residual_tree, leaves[:count]), tree_unflatten(self.linear_tree, leaves[count:])


def linear_call(
    fun: Callable[..., Any], fun_transpose: Callable[..., Any], residual_args: Any, linear_args: Any
) -> Any:
    """fun(residual_args, linear_args), a linear function of its second argument, whose transpose is given.

    Args:
        fun: a function of two pytrees of arrays, linear in the second.
        fun_transpose: its transpose, a function of the residuals and of what fun returns.
        residual_args: a pytree of arrays, in which there is no derivative.
        linear_args: a pytree of arrays.

    Raises:
        DifferentiationError: the residuals depend on what is differentiated.

    >>> import functad
    >>> seven = lambda _, cotangent: 7 * cotangent
    >>> functad.grad(lambda x: linear_call(lambda _, x: x, seven, (), x))(1.)
    Array(7., dtype=float32, weak_type=True)
    """
    residuals, residual_tree = tree_flatten(residual_args)
    linear, linear_tree = tree_flatten(linear_args)
    out_tree = tree_structure(eval_shape(fun, residual_args, linear_args))
    call = _Linear(fun, fun_transpose, residual_tree, linear_tree, out_tree)
    return tree_unflatten(out_tree, linear_call_p.bind(*residuals, *linear, call=call))


linear_call_p = Primitive("linear_call")
setattr(linear_call_p, "multiple_results", True)  # noqa: B010  (read-only to type checkers)
linear_call_p.def_impl(lambda *args, call: call(*args))
linear_call_p.define(lambda *args, call: call(*args), True)


@linear_call_p.def_abstract_eval
def _types(*avals: Aval, call: _Linear) -> list[Any]:
    return tree_flatten(eval_shape(call, *avals))[0]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: _Linear) -> tuple[Any, Any]:
    count = call.residual_tree.num_leaves
    if any(type(t) is not Zero for t in tangents[:count]):
        raise DifferentiationError(
            "linear_call has no derivative in residual_args: hand on functad.lax.stop_gradient(residual_args), or give "
            "the function a rule by functad.custom_jvp"
        )
    outs = linear_call_p.bind(*primals, call=call)
    return outs, linear_call_p.bind(*primals[:count], *map(instantiate_zeros, tangents[count:]), call=call)


def _transposed(cotangents: Sequence[Any], *args: Any, call: _Linear) -> list[Any]:
    count = call.residual_tree.num_leaves
    residuals, linear = args[:count], args[count:]
    turned = _Linear(call.fun_transpose, call.fun, call.residual_tree, call.out_tree, call.linear_tree)
    found = linear_call_p.bind(*residuals, *map(instantiate_zeros, cotangents), call=turned)
    # What is not differentiated had the tangent 0, which is known.
    return [None] * count + [ct if is_undefined_primal(a) else None for a, ct in zip(linear, found)]


def _batched(args: Sequence[Any], dims: Sequence[int | None], *, call: _Linear) -> tuple[list[Any], list[int]]:
    size = next(a.shape[d] for a, d in zip(args, dims) if d is not None)
    fun, fun_transpose = (vmap(f, axis_name=batched_axis()) for f in (call.fun, call.fun_transpose))
    mapped = _Linear(fun, fun_transpose, call.residual_tree, call.linear_tree, call.out_tree)
    outs = linear_call_p.bind(*(bdim_at_front(a, d, size) for a, d in zip(args, dims)), call=mapped)
    return list(outs), [0] * len(outs)


primitive_jvps[linear_call_p] = _jvp
primitive_transposes[linear_call_p] = _transposed
primitive_batchers[linear_call_p] = _batched
