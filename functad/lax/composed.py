"""Primitives that JAX has and functad makes of others: `lax.reduce_p`, `lax.ppermute_p`, …

Knows the functions that each stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from functad.api.inspection import eval_jaxpr
from functad.api.meshes import with_sharding_constraint
from functad.dtypes import kind_of
from functad.errors import ArgumentError
from functad.extend.core.primitives import primitive_named
from functad.extend.primitive import OpenPrimitive
from functad.ir import Primitive, Program
from functad.lax import elementwise, linalg, parallel, reductions, slicing, sorting, special, staging, tokens
from functad.lax.bit_generators import rng_bit_generator, rng_uniform
from functad.numpy import selecting
from functad.random import gammas


class ComposedPrimitive(OpenPrimitive):
    """An operation that is a primitive to JAX alone. `bind` records what it is made of here, so no equation has it.

    >>> import functad, functad.numpy as jnp
    >>> functad.grad(lambda x: functad.lax.igamma_grad_a_p.bind(2., x))(1.).round(4), functad.lax.igamma_grad_a_p
    (Array(-0.1555, dtype=float32, weak_type=True), igamma_grad_a)
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        super().__init__(name)
        self._set("function", function)

    def bind(self, *args: Any, **params: Any) -> Any:
        """What the operation makes of arrays, traced ones too; the parameters are JAX's."""
        return vars(self)["function"](*args, **params)


def lax_primitive(name: str) -> Primitive | None:
    """The primitive that a name such as `scatter_add_p` means in `functad.lax`."""
    return primitive_named(name) or composed_primitive(name, _FUNCTIONS)


def linalg_primitive(name: str) -> Primitive | None:
    """The same in `functad.lax.linalg`."""
    return primitive_named(name) or composed_primitive(name, _OF_LINEAR_ALGEBRA)


def random_primitive(name: str) -> Primitive | None:
    """The same in `functad.random`."""
    return composed_primitive(name, _OF_RANDOM)


def composed_primitive(name: str, functions: dict[str, Callable[..., Any]]) -> Primitive | None:
    stem = name.removesuffix("_p")
    return _made(stem, functions[stem]) if name != stem and stem in functions else None


@cache
def _made(name: str, function: Callable[..., Any]) -> Primitive:
    return ComposedPrimitive(name, function)


# --- what they compute ------------------------------------------------------------------------------------


def _approx_top_k(operand: Any, *, k: int, is_max_k: bool, **params: Any) -> list[Any]:
    function = sorting.approx_max_k if is_max_k else sorting.approx_min_k
    return list(function(operand, k, **params))


def _ppermute(*xs: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> list[Any]:
    return [parallel.ppermute(x, axis_name, perm) for x in xs]


def _reduce(*operands: Any, jaxpr: Program, dimensions: Sequence[int], **_: Any) -> list[Any]:
    half = len(operands) // 2
    found = reductions.reduce(list(operands[:half]), list(operands[half:]), partial(_pairwise, jaxpr), dimensions)
    return list(found)


def _pairwise(jaxpr: Program, xs: list[Any], ys: list[Any]) -> list[Any]:
    return eval_jaxpr(jaxpr, jaxpr.consts, *xs, *ys)


def _reduce_window(operand: Any, init_value: Any, *, jaxpr: Program, consts: Any = (), **windows: Any) -> list[Any]:
    def computation(x: Any, y: Any) -> Any:
        return eval_jaxpr(jaxpr, consts or jaxpr.consts, x, y)[0]

    return [reductions.reduce_window(operand, init_value, computation, **windows)]


def _scatter_sub(*arrays: Any, update_jaxpr: Any = None, update_consts: Any = (), **params: Any) -> Any:
    return slicing.scatter_sub(*arrays, **params)


def _total_order(compare: Callable[..., Any], x: Any, y: Any) -> Any:
    """−NaN < −∞ < … < −0 < +0 < … < ∞ < NaN, as IEEE 754 orders all numbers."""
    if kind_of(x.dtype) != "f":
        return compare(x, y)
    integer = f"int{8 * x.dtype.itemsize}"
    words = [elementwise.bitcast_convert_type(v, integer) for v in (x, y)]
    largest = (1 << (8 * x.dtype.itemsize - 1)) - 1
    return compare(*(selecting.where(w < 0, w ^ words[0].dtype.type(largest), w) for w in words))


def _random_gamma(key: Any, a: Any, *, log_space: bool) -> Any:
    return (gammas.loggamma if log_space else gammas.gamma)(key, a)


def _in_a_function(name: str, instead: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ArgumentError(f"`{name}` is a step of JAX's that is none here: call {instead}")

    return refuse


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "after_all": tokens.after_all,
    "all_to_all": parallel.all_to_all,
    "approx_top_k": _approx_top_k,
    "axis_index": parallel.axis_index,
    "create_token": tokens.create_token,
    "dce_sink": tokens.dce_sink,
    "eq_to": partial(_total_order, elementwise.eq),
    "igamma_grad_a": special.igamma_grad_a,
    "le_to": partial(_total_order, elementwise.le),
    "linear_solve": _in_a_function("linear_solve", "functad.lax.custom_linear_solve"),
    "lt_to": partial(_total_order, elementwise.lt),
    "ppermute": _ppermute,
    "reduce": _reduce,
    "reduce_window": _reduce_window,
    "rng_bit_generator": rng_bit_generator,
    "rng_uniform": rng_uniform,
    "scatter_sub": _scatter_sub,
    "select_and_scatter": _in_a_function("select_and_scatter", "functad.vjp of functad.lax.reduce_window"),
    "sharding_constraint": with_sharding_constraint,
    "stage": staging.stage,
}
_OF_RANDOM: dict[str, Callable[..., Any]] = {"random_gamma": _random_gamma}
_OF_LINEAR_ALGEBRA: dict[str, Callable[..., Any]] = {
    "cholesky_update": linalg.cholesky_update,
    "ormqr": linalg.ormqr,
    "symmetric_product": linalg.symmetric_product,
}
