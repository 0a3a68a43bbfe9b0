"""What `jax.extend.core` has: primitives of one's own, Programs and their parts, under JAX's names.

Knows names, and what little these need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import dtypes
from functad.absent import absent
from functad.api.inspection import eval_jaxpr
from functad.array import Array
from functad.core import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Primitive,
    Var,
    concrete_or_error,
    get_opaque_trace_state,
    valid_jaxtype,
)
from functad.dtypes import kind_of
from functad.eager import in_trace
from functad.errors import JaxprTypeError
from functad.ir import Aval, Eqn, Literal, Program, check_program, subprograms
from functad.ir import Primitive as _Record
from functad.tracing import Trace, current_trace
from functad.user_source import user_source

if TYPE_CHECKING:
    from functad.extend.core import primitives as primitives

array_types = {np.ndarray, np.generic, Array}
check_jaxpr = check_program
no_effects: frozenset[Any] = frozenset()


class DropVar(Var):
    """In JAX a result that nobody uses. Here each has a variable, so there is no DropVar.

    >>> import functad
    >>> program = functad.make_jaxpr(lambda x: (x + 1., x)[1])(2.)
    >>> [isinstance(v, DropVar) for v in program.eqns[0].outvars]
    [False]
    """

    __slots__ = ()


class TraceTag:
    """A mark of a user's own kind of trace.

    >>> TraceTag() == TraceTag()
    False
    """


def jaxpr_as_fun(closed_jaxpr: Program) -> Callable[..., list[Any]]:
    """The function of flat arguments that a Program is.

    >>> import functad
    >>> jaxpr_as_fun(functad.make_jaxpr(lambda x: x + 1.)(2.))(3.)
    [Array(4., dtype=float32, weak_type=True)]
    """
    return lambda *args: eval_jaxpr(closed_jaxpr, closed_jaxpr.consts, *args)


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Program]:
    """The Programs among an equation's parameters.

    >>> import functad
    >>> eqn = functad.make_jaxpr(functad.jit(lambda x: x + 1.))(2.).eqns[0]
    >>> [len(program.eqns) for program in jaxprs_in_params(eqn.params)]
    [1]
    """
    return subprograms(params)


def subjaxprs(jaxpr: Program) -> Iterator[Program]:
    """The Programs that the equations of a Program hold.

    >>> import functad
    >>> [len(program.eqns) for program in subjaxprs(functad.make_jaxpr(functad.jit(lambda x: x + 1.))(2.))]
    [1]
    """
    for eqn in jaxpr.eqns:
        yield from subprograms(eqn.params)


def new_jaxpr_eqn(
    invars: Sequence[Any],
    outvars: Sequence[Var],
    primitive: _Record,
    params: dict[str, Any],
    effects: Any = no_effects,
    source_info: Any = None,
) -> Eqn:
    """An equation; effects are those of its primitive, and its line is this one unless `source_info` says another.

    >>> import functad
    >>> program = functad.make_jaxpr(lambda x: x + 1.)(2.)
    >>> (eqn,) = program.eqns
    >>> new_jaxpr_eqn(eqn.invars, eqn.outvars, functad.lax.mul_p, {})
    b:f32[] = mul a 1.0:f32[]
    """
    return Eqn(primitive, invars, params, outvars, source_info or user_source())


def mapped_aval(size: int, axis: int | None, aval: Aval) -> Aval:
    """The type of one example of a mapped array.

    >>> import functad
    >>> mapped_aval(3, 0, functad.typeof(functad.numpy.ones((3, 4)))).str_short()
    'f32[4]'
    """
    if axis is None:
        return aval
    return Aval(aval.shape[:axis] + aval.shape[axis + 1 :], aval.dtype, aval.weak_type)


def unmapped_aval(size: int, axis: int | None, aval: Aval, explicit_mesh_axis: None = None) -> Aval:
    """The type of all examples together, one of which has the given type.

    >>> unmapped_aval(4, 0, Aval((3,), np.dtype("float32"))).str_short()
    'f32[4,3]'
    """
    if axis is None:
        return aval
    return Aval((*aval.shape[:axis], size, *aval.shape[axis:]), aval.dtype, aval.weak_type)


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> np.dtype:
    """The dtype of a tangent: that of a float or complex number, and float0 of all others.

    >>> primal_dtype_to_tangent_dtype(np.float32), primal_dtype_to_tangent_dtype(np.int32)
    (dtype('float32'), dtype([('float0', 'V')]))
    """
    dtype = dtypes.as_dtype(primal_dtype)
    return dtype if kind_of(dtype) in "fc" else dtypes.float0


def find_top_trace(_: Any) -> Trace | None:
    """The active trace, whatever the values given; None if nothing is traced.

    >>> import functad
    >>> functad.grad(lambda x: x * (find_top_trace([x]) is x._trace))(3.)
    Array(1., dtype=float32, weak_type=True)
    """
    return current_trace()


@contextmanager
def take_current_trace() -> Iterator[Trace | None]:
    """Nothing is traced within; gives the trace that was active.

    >>> with take_current_trace() as trace:
    ...     trace is None
    True
    """
    trace = current_trace()
    with in_trace(None):
        yield trace


@contextmanager
def set_current_trace(trace: Trace | None, check_leaks: bool = False) -> Iterator[None]:
    """A trace is active within, such as one that `take_current_trace` gave.

    >>> with take_current_trace() as trace:
    ...     with set_current_trace(trace):
    ...         pass
    """
    with in_trace(trace):
        yield


__all__ = [
    "ClosedJaxpr",
    "DropVar",
    "Jaxpr",
    "JaxprEqn",
    "JaxprTypeError",
    "Literal",
    "Primitive",
    "TraceTag",
    "Var",
    "array_types",
    "check_jaxpr",
    "concrete_or_error",
    "find_top_trace",
    "get_opaque_trace_state",
    "jaxpr_as_fun",
    "jaxprs_in_params",
    "mapped_aval",
    "new_jaxpr_eqn",
    "no_effects",
    "primal_dtype_to_tangent_dtype",
    "primitives",
    "set_current_trace",
    "subjaxprs",
    "take_current_trace",
    "unmapped_aval",
    "valid_jaxtype",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__, ("primitives",))


def __dir__() -> list[str]:
    return __all__
