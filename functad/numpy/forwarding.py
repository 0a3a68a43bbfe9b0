"""How a call written for a NumPy function is passed to the function of that name here: by NumPy's own signature.

Knows signatures and the arguments that mean nothing here; no function in particular computes anything.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from functad.errors import ArgumentError, UnsupportedNumpyError

_RENAMED = {("clip", "a_min"): "min", ("clip", "a_max"): "max"}
# Arguments about memory, or about how NumPy computes: they change no value here.
_WITHOUT_EFFECT = frozenset({"casting", "device", "kind", "like", "order", "overwrite_input", "subok"})

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def forward(
    name: str, numpy_function: Callable[..., Any], counterpart: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> Any:
    """Call the counterpart with the arguments of a call of a NumPy function.

    Optional arguments go by name, so that a different order of them cannot confuse any.

    Raises:
        UnsupportedNumpyError: an argument is given that the counterpart does not have.
    """
    signature = _signature(numpy_function)
    if signature is None:  # of some NumPy versions' built-in functions
        return _call(name, counterpart, list(args), _named(name, counterpart, kwargs))
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError as problem:
        raise ArgumentError(f"{name}: {problem}") from None
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.name not in bound:
            continue
        value = bound[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.extend(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif _goes_first(parameter):
            positional.append(value)
        elif not _is_default(value, parameter.default):
            named[parameter.name] = value
    return _call(name, counterpart, positional, _named(name, counterpart, named))


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except ValueError:
        return None


def _goes_first(parameter: inspect.Parameter) -> bool:
    required = parameter.default is parameter.empty
    return parameter.kind is parameter.POSITIONAL_ONLY or (required and parameter.kind in _POSITIONAL)


def _is_default(value: Any, default: Any) -> bool:
    """Whether the argument says what NumPy would do without it."""
    return value is default or (
        type(value) in (bool, int, float, str) and type(default) is type(value) and value == default
    )


def _named(name: str, counterpart: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the counterpart has, by the names they have there."""
    signature = _signature(counterpart)
    if signature is None or any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        return arguments
    known = {p.name for p in signature.parameters.values() if p.kind is not p.POSITIONAL_ONLY}
    result = {}
    for given, value in arguments.items():
        target = _RENAMED.get((counterpart.__name__, given), given)
        if target in known:
            result[target] = value
        elif not (given in _WITHOUT_EFFECT or value is None or (given == "where" and value is True)):
            raise UnsupportedNumpyError(
                f"{name} of a functad value does not take the argument {given}=; functad.numpy.{counterpart.__name__} "
                f"has the arguments {', '.join(signature.parameters)}. Leave {given}= out and compute its effect with "
                "functions of functad.numpy"
            )
    return result


def _call(name: str, counterpart: Callable[..., Any], positional: list[Any], named: dict[str, Any]) -> Any:
    signature = _signature(counterpart)
    if signature is not None:
        try:
            signature.bind(*positional, **named)
        except TypeError as problem:
            raise UnsupportedNumpyError(
                f"{name} of a functad value: {problem}; functad.numpy.{counterpart.__name__} has the arguments "
                f"{', '.join(signature.parameters)}"
            ) from None
    return counterpart(*positional, **named)
