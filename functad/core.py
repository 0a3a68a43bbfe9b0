"""What libraries look for in `jax.core`: tracers, types and Programs, under JAX's names.

Knows names, and which trace is active.

Args:
    d1, d2: sizes, integers.
    x: an array, or what shall be one.

Shapes:
    Types of arrays tell them; primitives and their rules take arrays of the shapes that their own rules allow.

Raises:
    DTypeError: what should be an array is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import dtypes
from functad.absent import absent
from functad.api.arguments import leaf_aval
from functad.api.inspection import eval_jaxpr
from functad.array import Array
from functad.eager import ensure_compile_time_eval
from functad.extend.primitive import OpenPrimitive as Primitive
from functad.ir import Atom, Aval, Eqn, Literal, Program, Var
from functad.tracing import Trace, Tracer, current_trace, has_value

AbstractValue = Aval
Jaxpr = Program
JaxprEqn = Eqn
ParamDict = dict[str, Any]
eval_context = ensure_compile_time_eval


class _Maker(type):
    """The class of a name of JAX's under which objects of another class are made, and known."""

    makes: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.makes)


class ShapedArray(metaclass=_Maker):
    """The type of an array, from its shape and dtype; `functad.typeof(x)` gives such.

    >>> ShapedArray((2, 3), "float32").str_short(), isinstance(typeof(1.), ShapedArray)
    ('f32[2,3]', True)
    """

    makes = Aval

    def __new__(cls, shape: Sequence[int], dtype: Any, weak_type: bool = False, **layout: Any) -> Any:
        return Aval(shape, dtypes.as_dtype(dtype), bool(weak_type))


class ClosedJaxpr(metaclass=_Maker):
    """A Program with these values of its constants; a Program always has them.

    >>> import functad
    >>> program = functad.make_jaxpr(lambda x: x + 1.)(2.)
    >>> isinstance(ClosedJaxpr(program.jaxpr, program.consts), ClosedJaxpr)
    True
    """

    makes = Program

    def __new__(cls, jaxpr: Program, consts: Sequence[Any] = ()) -> Any:
        return jaxpr.replace(consts=consts) if consts else jaxpr


def typeof(x: Any) -> Aval:
    """The type of an array, a number, a tracer, or whatever has a shape and a dtype.

    >>> import functad, functad.numpy as jnp
    >>> functad.typeof(jnp.ones(3)).str_short()
    'f32[3]'
    """
    return leaf_aval(x, lambda: "the argument of typeof")


get_aval = typeof


class OpaqueTraceState:
    """Which trace is active; equal to another made under the same one, and not to look into."""

    def __init__(self) -> None:
        self._trace = current_trace()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace is other._trace

    def __hash__(self) -> int:
        return id(self._trace)


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """What tells whether two pieces of code run under the same trace.

    >>> get_opaque_trace_state() == get_opaque_trace_state()
    True
    """
    return OpaqueTraceState()


def trace_state_clean() -> bool:
    """Whether no function is being traced.

    >>> trace_state_clean()
    True
    """
    return current_trace() is None


def is_concrete(x: Any) -> bool:
    """Whether x has a value now.

    >>> is_concrete(3.)
    True
    """
    return has_value(x)


def concrete_or_error(force: Callable[[Any], Any] | None, val: Any, context: str = "") -> Any:
    """`force(val)` of a value that is known, such as `int(n)`; of a traced one an error.

    Raises:
        ConcretizationError: val has no value while the function is being traced.

    >>> concrete_or_error(int, 3.)
    3
    """
    if isinstance(val, Tracer):
        val = val.concrete(context or "This", "Mark the argument static: jit(f, static_argnames=...)")
    return val if force is None else force(val)


def max_dim(d1: int, d2: int) -> int:
    """The larger of two sizes.

    >>> max_dim(2, 3)
    3
    """
    return max(d1, d2)


def min_dim(d1: int, d2: int) -> int:
    """The smaller of two sizes.

    >>> min_dim(2, 3)
    2
    """
    return min(d1, d2)


def valid_jaxtype(x: Any) -> bool:
    """Whether x can be an argument of a traced function.

    >>> valid_jaxtype(1.0), valid_jaxtype("text")
    (True, False)
    """
    return isinstance(x, (Array, np.ndarray, np.generic, bool, int, float, complex))


__all__ = [
    "AbstractValue",
    "Atom",
    "ClosedJaxpr",
    "Jaxpr",
    "JaxprEqn",
    "Literal",
    "ParamDict",
    "Primitive",
    "ShapedArray",
    "Trace",
    "Tracer",
    "Var",
    "concrete_or_error",
    "ensure_compile_time_eval",
    "eval_context",
    "eval_jaxpr",
    "get_aval",
    "get_opaque_trace_state",
    "is_concrete",
    "max_dim",
    "min_dim",
    "trace_state_clean",
    "typeof",
    "valid_jaxtype",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
