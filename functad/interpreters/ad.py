"""Derivative rules of primitives of one's own, in JAX's conventions.

Knows the tables `primitive_jvps` and `primitive_transposes`; the rules of functad's own primitives can be read there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from functad import api
from functad.absent import absent
from functad.evaluation import aval_of
from functad.extend.primitive import OpenPrimitive, checked_count
from functad.interpreters.tables import RuleTable
from functad.ir import Aval, Primitive, UndefinedPrimal, Zero
from functad.primitives.common import add_any_p, add_cotangents, instantiate
from functad.tracing import Trace, Tracer

add_jaxvals_p = add_any_p


def is_undefined_primal(x: Any) -> bool:
    """Whether x stands for an argument in which an operation is linear, in a transpose rule.

    >>> is_undefined_primal(3.0)
    False
    """
    return type(x) is UndefinedPrimal


def instantiate_zeros(tangent: Any) -> Any:
    """The tangent as an array, also if it is a `Zero`.

    >>> import numpy as np
    >>> from functad.ir import Aval, Zero
    >>> instantiate_zeros(Zero(Aval((2,), np.dtype("float32"))))
    Array([0., 0.], dtype=float32)
    """
    return instantiate(tangent)


def zeros_like_aval(aval: Aval) -> Any:
    """Zeros of a type.

    >>> import functad.numpy as jnp, functad
    >>> zeros_like_aval(functad.typeof(jnp.ones(2)))
    Array([0., 0.], dtype=float32)
    """
    return instantiate(Zero(aval))


def add_tangents(x: Any, y: Any) -> Any:
    """The sum of two tangents, either of which may be a `Zero`.

    >>> import functad, functad.numpy as jnp
    >>> x = jnp.ones(2)
    >>> add_tangents(Zero(functad.typeof(x)), x), add_tangents(x, x)
    (Array([1., 1.], dtype=float32), Array([2., 2.], dtype=float32))
    """
    if type(x) is Zero:
        return y
    return x if type(y) is Zero else add_cotangents(x, y)


add_jaxvals = add_tangents


# --- jvp ------------------------------------------------------------------------------------------------


def _jvp_given(primitive: Primitive, rule: Any) -> Callable[..., Any]:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return api.jvp(partial(primitive.bind, **params), tuple(primals), tuple(map(instantiate, tangents)))

    return jvp


def _jvp_taken(primitive: OpenPrimitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    def jvp(primals: Sequence[Any], outs: Any, tangents: Sequence[Any], **params: Any) -> Any:
        # It computes the results once more, which `jit` sees to be the same.
        return checked_count(rule(tuple(primals), tuple(tangents), **params), 2, f"the jvp rule of `{primitive}`")[1]

    return jvp


primitive_jvps = RuleTable("the jvp rule", "jvp", _jvp_given, _jvp_taken)


def defjvp(primitive: Primitive, *jvprules: Callable[..., Any] | None) -> None:
    """Register one rule an operand: `rule(tangent, *primals, **params)` is its share of the result's tangent.

    >>> import functad
    >>> from functad.extend.core import Primitive
    >>> square_p = Primitive("square")
    >>> _ = square_p.def_impl(lambda x: x * x), square_p.def_abstract_eval(lambda x: x)
    >>> defjvp(square_p, lambda tangent, x: 2 * x * tangent)
    >>> float(functad.grad(square_p.bind)(3.))
    6.0
    """
    _by_shares(primitive, [rule and _without_result(rule) for rule in jvprules])


def defjvp2(primitive: Primitive, *jvprules: Callable[..., Any] | None) -> None:
    """As `defjvp`, with rules that get the result too: `rule(tangent, result, *primals, **params)`.

    >>> import functad, numpy as np
    >>> from functad.extend.core import Primitive
    >>> grow_p = Primitive("grow")
    >>> _ = grow_p.def_impl(np.exp), grow_p.def_abstract_eval(lambda x: x)
    >>> defjvp2(grow_p, lambda tangent, result, x: tangent * result)
    >>> float(functad.grad(grow_p.bind)(0.))
    1.0
    """
    _by_shares(primitive, jvprules)


def _without_result(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda tangent, out, *primals, **params: rule(tangent, *primals, **params)


def _by_shares(primitive: Primitive, rules: Sequence[Callable[..., Any] | None]) -> None:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        pairs = [(rule, t) for rule, t in zip(rules, tangents) if rule is not None and type(t) is not Zero]
        shares = [rule(t, out, *primals, **params) for rule, t in pairs]
        return out, reduce(add_tangents, shares, Zero(aval_of(out)))

    primitive_jvps[primitive] = jvp


# --- linear operations ----------------------------------------------------------------------------------


def _transpose_taken(primitive: OpenPrimitive, rule: Callable[..., Any]) -> Callable[..., Any]:
    def transpose(cotangent: Any, *args: Any, **params: Any) -> Sequence[Any]:
        return checked_count(rule(cotangent, *args, **params), len(args), f"the transpose rule of `{primitive}`")

    return transpose


primitive_transposes = RuleTable("the transpose rule", "transpose", lambda primitive, rule: rule, _transpose_taken)


def get_primitive_transpose(p: Primitive) -> Callable[..., Any]:
    """The transpose rule of a primitive: `primitive_transposes[p]`.

    >>> from functad import lax
    >>> callable(get_primitive_transpose(lax.neg_p))
    True
    """
    return primitive_transposes[p]


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """Register that an operation is linear in all operands: `rule(cotangent, **params)` gives their cotangents.

    >>> import functad
    >>> from functad.extend.core import Primitive
    >>> double_p = Primitive("double")
    >>> _ = double_p.def_impl(lambda x: 2 * x), double_p.def_abstract_eval(lambda x: x)
    >>> deflinear(double_p, lambda cotangent: [double_p.bind(cotangent)])
    >>> float(functad.grad(double_p.bind)(3.))
    2.0
    """
    deflinear2(primitive, lambda cotangent, *args, **params: transpose_rule(cotangent, **params))


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """As `deflinear`, with a rule that gets the operands too: `rule(cotangent, *operands, **params)`.

    >>> import functad
    >>> from functad.extend.core import Primitive
    >>> double_p = Primitive("double")
    >>> _ = double_p.def_impl(lambda x: 2 * x), double_p.def_abstract_eval(lambda x: x)
    >>> deflinear2(double_p, lambda cotangent, x: [double_p.bind(cotangent)])
    >>> float(functad.grad(double_p.bind)(3.))
    2.0
    """

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            zeros = [Zero(aval_of(o)) for o in out] if primitive.multiple_results else Zero(aval_of(out))
            return out, zeros
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose_rule


def defbilinear(primitive: Primitive, lhs_rule: Callable[..., Any], rhs_rule: Callable[..., Any]) -> None:
    """Register that an operation is linear in each of two operands.

    lhs_rule, rhs_rule: `rule(cotangent, x, y, **params)`, the cotangent of the one operand from the other, where the
    one stands as an `UndefinedPrimal`.

    >>> import functad
    >>> from functad.extend.core import Primitive
    >>> times_p = Primitive("times")
    >>> _ = times_p.def_impl(lambda x, y: x * y), times_p.def_abstract_eval(lambda x, y: x)
    >>> defbilinear(times_p, lambda ct, x, y: times_p.bind(ct, y), lambda ct, x, y: times_p.bind(x, ct))
    >>> functad.grad(times_p.bind, argnums=(0, 1))(3., 4.)
    (Array(4., dtype=float32, weak_type=True), Array(3., dtype=float32, weak_type=True))
    """

    def transpose(cotangent: Any, x: Any, y: Any, **params: Any) -> list[Any]:
        if is_undefined_primal(x):
            return [lhs_rule(cotangent, x, y, **params), None]
        return [None, rhs_rule(cotangent, x, y, **params)]

    defjvp(
        primitive,
        lambda t, x, y, **params: primitive.bind(t, y, **params),
        lambda t, x, y, **params: primitive.bind(x, t, **params),
    )
    primitive_transposes[primitive] = transpose


JVPTrace, JVPTracer = Trace, Tracer  # there is one kind

__all__ = [
    "JVPTrace",
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_jaxvals",
    "add_jaxvals_p",
    "add_tangents",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "get_primitive_transpose",
    "instantiate_zeros",
    "is_undefined_primal",
    "primitive_jvps",
    "primitive_transposes",
    "zeros_like_aval",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
