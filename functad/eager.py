"""Running operations at once: outside of all traces, bare of Arrays, or of known values alone.

Knows what `bind` asks the trace of a thread; nothing of what traces record.

Shapes:
    Types of arrays tell them.

Raises:
    Nothing of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from functad.array import ArrayImpl
from functad.config import config, exceptional
from functad.device_arrays import DeviceArray, commitments_matter
from functad.evaluation import evaluate, evaluate_bare
from functad.ir import Primitive
from functad.system.quiet import quiet_copy
from functad.tracing import Trace, bind_in, is_tracer, state
from functad.user_source import state as lines

F = TypeVar("F", bound=Callable[..., Any])


class in_trace:
    """Entered while a trace is the active one, or, with None, while none is: what is computed, is computed at once."""

    __slots__ = ("before", "trace")

    def __init__(self, trace: Trace | None) -> None:
        self.trace = trace

    def __enter__(self) -> None:
        self.before = state.trace, lines.source, lines.scopes
        exceptional.append(None)
        state.trace, lines.source, lines.scopes = self.trace, None, ()

    def __exit__(self, *exc: Any) -> None:
        state.trace, lines.source, lines.scopes = self.before
        exceptional.pop()


def outside_traces() -> in_trace:
    """Entered while a function of the user's runs that no trace shall see."""
    return in_trace(None)


class _Bare:
    """Stands for a trace while operations run at once and give what NumPy gives, which they take as well."""

    __slots__ = ()
    parent = None
    keeps_values = records_all = True
    record = staticmethod(evaluate_bare)


_BARE: Any = _Bare()


def runs_bare() -> bool:
    """Whether `run_bare` may be called: no trace is active, and nobody looks at each Array."""
    return state.trace is None and not config.may_check_values and not commitments_matter()


def run_bare(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What functad's own function of primitives gives, where no Array is made, and NumPy is told once not to warn.

    The function takes and gives ndarrays and NumPy scalars where others see Arrays; it knows dtypes, but not whether
    they are weak.
    """
    state.trace = _BARE
    try:
        return quiet_copy().run(fun, *args, **kwargs)
    finally:
        state.trace = None


def composed(fun: F) -> F:
    """A decorator: outside of traces the function, made of primitives, with a result of no weak dtype, runs bare.

    For functions of keys, whose shapes are often met once: `calls.compound` takes plain numbers alone, and prints what
    is met twice; it has gradients and weak types, which nothing that runs bare has.
    """

    @functools.wraps(fun)
    def function(*args: Any) -> Any:
        if not runs_bare():
            return fun(*args)
        result = run_bare(fun, *args)
        return result if isinstance(result, DeviceArray) else ArrayImpl(result)

    return cast(F, function)


class _Evaluating(Trace):
    """Runs what depends on known values alone, though a function is being traced; the parent gets the rest."""

    __slots__ = ()

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if any(map(is_tracer, args)):
            return bind_in(self.parent, primitive, args, params)
        return evaluate(primitive, args, params)


def ensure_compile_time_eval() -> Trace:
    """A context in which what is computed of known values is computed at once, while a function is being traced.

    Operations on traced values are recorded as ever.

    >>> import functad, functad.numpy as jnp
    >>> def f(x):
    ...     with functad.ensure_compile_time_eval():
    ...         n = int(jnp.sum(jnp.arange(4)))
    ...     return x[:n]
    >>> functad.jit(f)(jnp.ones(10)).shape
    (6,)
    """
    return _Evaluating("ensure_compile_time_eval", records_all=True)
