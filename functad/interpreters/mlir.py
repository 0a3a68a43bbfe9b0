"""What `jit` compiles for primitives of one's own. There is no MLIR: a function of arrays says it.

Knows how a function is registered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from functad.absent import absent
from functad.extend.primitive import OpenPrimitive, own
from functad.ir import Primitive
from functad.lowering_rules import Indexed, Loops, Reduction, Running, Scalar, Scattered


@dataclass(frozen=True)
class FunctionLowering:
    """That an operation is what a function of arrays makes it."""

    function: Callable[..., Any]
    multiple_results: bool


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> FunctionLowering:
    """A lowering rule from a function of arrays: `fun(*arrays, **params)`, a list of results with `multiple_results`.

    >>> import functad, functad.numpy as jnp
    >>> from functad.extend.core import Primitive
    >>> square_p = Primitive("square")
    >>> register_lowering(square_p, lower_fun(lambda x: x * x, multiple_results=False))
    >>> square_p.def_abstract_eval(lambda x: x) and None
    >>> functad.jit(square_p.bind)(jnp.array([3.]))
    Array([9.], dtype=float32)
    """
    return FunctionLowering(fun, multiple_results)


def register_lowering(
    prim: Primitive, rule: Any, platform: str | None = None, inline: bool = True, cacheable: bool = True
) -> None:
    """Say what `jit` compiles for a primitive, by a rule that `lower_fun` made, or one of `functad.extend`.

    A `Scalar` is for element-wise operations: one expression of the words that kernels have, which stand in
    `functad.backends.cpu.scalars`. An `Indexed` says what each element of the result is, by elements of the operands
    at other indices. A `Reduction` combines the elements along the parameter `axes`, a `Running` one those up to each
    along `axis`. A `Scattered` puts updates to elements of the first operand. All of them fuse. `Loops` are kernels of
    your own, as text.

    Other rules are forgotten: those for platforms other than the CPU, and those that write MLIR, which is not here.
    `jit` then calls what `def_impl` gave, and raises if it gave nothing.

    Raises:
        ArgumentError: the primitive is functad's own.
        CustomRuleError: a rule has a word that kernels do not know, or reads what lies outside of an operand; at
            compilation, if a function says so.

    >>> import functad, functad.numpy as jnp
    >>> from functad.extend import Scalar
    >>> from functad.extend.core import Primitive
    >>> norm_p = Primitive("norm")
    >>> _ = norm_p.def_impl(lambda x, y: (x * x + y * y) ** 0.5)
    >>> _ = norm_p.def_abstract_eval(lambda x, y: x)
    >>> register_lowering(norm_p, Scalar("sqrt({0} * {0} + {1} * {1})"))
    >>> functad.jit(norm_p.bind)(jnp.array([3.]), jnp.array([4.]))
    Array([5.], dtype=float32)
    """
    define = next((define for kind, define in _DEFINED_BY.items() if isinstance(rule, kind)), None)
    if platform in (None, "cpu") and define is not None:
        define(own(prim, "the lowering rule"), rule)


_DEFINED_BY: dict[type, Callable[[OpenPrimitive, Any], None]] = {
    Scalar: OpenPrimitive.define_scalar,
    Indexed: OpenPrimitive.define_indexed,
    Reduction: OpenPrimitive.define_reduction,
    Running: OpenPrimitive.define_running,
    Scattered: OpenPrimitive.define_scattered,
    Loops: OpenPrimitive.define_loops,
    FunctionLowering: lambda primitive, rule: primitive.define(rule.function, rule.multiple_results),
}


__all__ = ["lower_fun", "register_lowering"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
