"""Functions of the library that are made of several operations, and run as one where operations run at once.

Such a function is traced when it is called with arguments of the same types for the second time, and printed:
`printed_compounds.py`. Results and gradients are the same, to the bit. Under other traces than that of a gradient it
runs as it is written. Knows no particular function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from functad import machine_model
from functad.array import ArrayImpl
from functad.calls import printed_compounds
from functad.config import config
from functad.device_arrays import gpus
from functad.tracing import Tracer, current_trace
from functad.transforms.at_once import TraceAtOnce
from functad.transforms.printed import PrintedOnReuse

F = TypeVar("F", bound=Callable[..., Any])

_STATIC = {type(None), bool, str}  # the types of static arguments whose values are told apart by ==


def compound(fun: F) -> F:
    """A decorator for a function of arrays and static arguments that gives one array and looks at no values."""

    @functools.wraps(fun)
    def function(*args: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        if trace is None or (type(trace) is TraceAtOnce and trace.once):
            found = _run(fun, trace, args, kwargs)
            if found is not None:
                return found
        return fun(*args, **kwargs)

    return cast(F, function)


def _run(fun: Callable[..., Any], trace: TraceAtOnce | None, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What the printed function gives; None where there is none."""
    settings = config.jit_settings
    if settings is None or config.may_check_values or gpus:
        return None
    arguments = (*args, *kwargs.values())
    signature: list[Any] = []
    numbers: list[Any] = []  # static ones
    values: list[np.ndarray] = []
    own: list[int] = []  # the places of the trace's tracers
    met: list[Tracer] = []
    for x in arguments:
        kind = type(x)
        if kind is Tracer and x.owner is trace:
            if any([x is other for other in met]):
                return None  # what goes back to one operand would be added up in another order
            met.append(x)
            own.append(len(values))
            x = x.value
            kind = type(x)
        if kind is ArrayImpl:
            signature.append((x._value.shape, x._value.dtype, x.weak_type))
            values.append(x._value)
        elif kind in _STATIC:
            signature.append((kind, x))
        elif kind is int or kind is float:
            signature.append(kind)
            numbers.append(x if kind is int else x.hex())
        elif kind is tuple and all([type(i) is int for i in x]):
            signature.append(x)
        else:
            return None
    found = _functions(fun, settings, tuple(kwargs), tuple(own), *signature).of_numbers(tuple(numbers))
    if found is None:
        return None
    run = found.function or found.met(printed_compounds.printed_compound, fun, args, kwargs, own)
    return run and run(trace, [x for x in arguments if isinstance(x, (ArrayImpl, Tracer))], values)


class _OfTypes:
    """What is printed of a function for arguments of certain types, by the static numbers among them."""

    def __init__(self) -> None:
        self._of_numbers: dict[tuple[Any, ...], PrintedOnReuse] = {}

    def of_numbers(self, numbers: tuple[Any, ...]) -> PrintedOnReuse | None:
        """What is printed for these; None where there have been too many others."""
        found = self._of_numbers.get(numbers)
        if found is None and len(self._of_numbers) < machine_model.MOST_COMPOUND_NUMBERS:
            found = self._of_numbers.setdefault(numbers, PrintedOnReuse())
        return found


@functools.lru_cache(1024)
def _functions(*signature: Any) -> _OfTypes:
    return _OfTypes()
