"""Functions with a rule of their own for `vmap`, under the names that `jax.custom_batching` gives them.

Knows pytrees, and how rules of primitives are registered; the operation is one primitive, which holds the functions.

Args:
    f: a function of pytrees of arrays.

Shapes:
    Arguments are pytrees of arrays of any shapes; what belongs to a value, such as its tangent, has its shape.

Raises:
    ArgumentError: what should be a function is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functad import lax
from functad.absent import absent
from functad.api.arguments import P, R, as_value, function_name
from functad.api.rule_calls import Decorated
from functad.calls.common import group, with_constants
from functad.errors import BatchingError
from functad.evaluation import aval_of
from functad.extend.primitive import OpenPrimitive
from functad.interpreters import ad, batching, mlir
from functad.ir import Program, Zero
from functad.tracing import eval_program, trace_to_program
from functad.transforms.reverse import linearize_flat
from functad.tree_util import PyTreeDef, broadcast_prefix, tree_flatten, tree_map, tree_unflatten

VmapRule = Callable[..., tuple[Any, Any]]


class custom_vmap(Decorated[P, R]):  # noqa: N801
    """A function whose `vmap` is given by a rule, which `def_vmap` registers.

    The rule is `rule(axis_size, in_batched, *args) -> (result, out_batched)`: mapped arguments have their axis in
    front, and `in_batched` says, by a list with a tree of booleans an argument, which are; `out_batched` says the
    same of the result. Derivatives are those of the function; where they are mapped, too, it is mapped as any other.

    >>> import functad, functad.numpy as jnp
    >>> @functad.custom_batching.custom_vmap
    ... def sorted_rows(x):
    ...     return jnp.sort(x)
    >>> @sorted_rows.def_vmap
    ... def rule(axis_size, in_batched, x):
    ...     return jnp.sort(x, axis=1), True
    >>> functad.vmap(sorted_rows)(jnp.array([[2., 1.], [3., 4.]]))
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """

    kind = "custom_vmap"
    _rule: VmapRule | None = None

    def def_vmap(self, vmap_rule: VmapRule) -> VmapRule:
        """Register the rule; returns it."""
        self._rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        name = function_name(self.fun)
        if self._rule is None:
            raise BatchingError(f"{name} is a custom_vmap function without a rule: @{name}.def_vmap registers it")
        leaves, in_tree = tree_flatten((args, kwargs))
        function = _FunctionOfLeaves(self.fun, self._rule, in_tree, name)
        values = [as_value(x, lambda: f"an argument of {name}") for x in leaves]
        program, operands = with_constants(trace_to_program(function, list(map(aval_of, values)), name=name), values)
        outs = custom_vmap_call_p.bind(*operands, call=program, function=function)
        return tree_unflatten(function.out_tree, outs)


class _FunctionOfLeaves:
    """A function of pytrees, and its rule, for arguments of one structure; called with the leaves."""

    def __init__(self, fun: Callable[..., Any], rule: VmapRule, in_tree: PyTreeDef, name: str) -> None:
        self.fun, self.rule, self.in_tree, self.name = fun, rule, in_tree, name
        self.out_tree: Any = None  # known once the function has been traced

    def __call__(self, *values: Any) -> list[Any]:
        given, options = tree_unflatten(self.in_tree, values)
        leaves, self.out_tree = tree_flatten(self.fun(*given, **options))
        return [as_value(x, lambda: f"the result of {self.name}") for x in leaves]

    def __repr__(self) -> str:
        return self.name


custom_vmap_call_p = OpenPrimitive("custom_vmap_call")
setattr(custom_vmap_call_p, "multiple_results", True)  # noqa: B010  (a record's fields are read-only to type checkers)


def _called(*args: Any, call: Program, function: _FunctionOfLeaves) -> list[Any]:
    """The operands are what the function closes over, then its arguments."""
    return eval_program(call, args)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: Program, **params: Any) -> tuple[Any, Any]:
    outs = custom_vmap_call_p.bind(*primals, call=call, **params)
    active = [type(t) is not Zero for t in tangents]
    _, linear = linearize_flat(lambda *args: eval_program(call, args), primals, active)
    return outs, linear(group(active, tangents))


def _batch(
    args: Sequence[Any], dims: Sequence[int | None], *, call: Program, function: _FunctionOfLeaves
) -> tuple[list[Any], list[int | None]]:
    name = function.name
    size = next(aval_of(a).shape[d] for a, d in zip(args, dims) if d is not None)
    closed_over = len(args) - function.in_tree.num_leaves  # of which the rule is not told
    args, dims = args[closed_over:], dims[closed_over:]
    front = [a if d is None else batching.bdim_at_front(a, d, size) for a, d in zip(args, dims)]
    given, options = tree_unflatten(function.in_tree, front)
    batched, _ = tree_unflatten(function.in_tree, [d is not None for d in dims])
    if options:
        raise BatchingError(f"vmap of {name}, a custom_vmap function: give all arguments by position, not by name")
    found = function.rule(size, list(batched), *given)
    if not (isinstance(found, tuple) and len(found) == 2):
        raise BatchingError(f"the vmap rule of {name} must return a pair: the result, and which of it is mapped")
    leaves, out_tree = tree_flatten(found[0])
    if out_tree != function.out_tree:
        raise BatchingError(f"the vmap rule of {name} returned {out_tree}, but {name} returns {function.out_tree}")
    mapped = broadcast_prefix(found[1], found[0])
    return [as_value(x, lambda: f"the result of {name}") for x in leaves], [0 if m else None for m in mapped]


mlir.register_lowering(custom_vmap_call_p, mlir.lower_fun(_called))
custom_vmap_call_p.def_abstract_eval(lambda *avals, call, function: call.out_avals)
ad.primitive_jvps[custom_vmap_call_p] = _jvp
batching.primitive_batchers[custom_vmap_call_p] = _batch


def sequential_vmap(f: Callable[..., R]) -> custom_vmap[..., R]:
    """A function that `vmap` calls for one example after another, as `lax.map` does.

    >>> import functad, functad.numpy as jnp
    >>> functad.vmap(functad.custom_batching.sequential_vmap(lambda x: x + 1))(jnp.arange(3))
    Array([1, 2, 3], dtype=int32)
    """
    made = custom_vmap(f)

    @made.def_vmap
    def rule(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        leaves, tree = tree_flatten(args)
        mapped = tree_flatten(tuple(in_batched))[0]

        def one(values: Sequence[Any]) -> Any:
            given = iter(values)
            return f(*tree_unflatten(tree, [next(given) if m else x for x, m in zip(leaves, mapped)]))

        out = lax.map(one, [x for x, m in zip(leaves, mapped) if m])
        return out, tree_map(lambda _: True, out)

    return made


__all__ = ["custom_vmap", "sequential_vmap"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
