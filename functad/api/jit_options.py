"""What `jit` is told besides the function: which arguments are static or donated, and how arrays are laid out.

Knows parameters and layouts; nothing of Programs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.api.arguments import function_name, positional_names
from functad.api.dispatch import MISS, FastCall
from functad.api.meshes import check_devices, device_put, layouts_of
from functad.errors import ArgumentError
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.records import NamedTuple
from functad.tree_util import PyTreeDef, tree_unflatten


class Shardings(NamedTuple):
    """The layouts that arguments and results are said to have. They must fit, and are told of concrete results."""

    of_arguments: Any
    of_results: Any

    def check(self) -> None:
        check_devices("jit", "in_shardings", self.of_arguments)
        check_devices("jit", "out_shardings", self.of_results)

    def check_fit(
        self, arguments: tuple[Any, ...], avals: Sequence[Aval], out_tree: PyTreeDef, outs: Sequence[Any]
    ) -> None:
        layouts_of("jit", "in_shardings", self.of_arguments, arguments, [a.shape for a in avals])
        layouts_of(
            "jit", "out_shardings", self.of_results, tree_unflatten(out_tree, outs), [aval_of(o).shape for o in outs]
        )

    def laid_out(self, result: Any) -> Any:
        return device_put(result, self.of_results)

    def of_call(self, fast_call: FastCall) -> FastCall:
        if self.of_results is None:
            return fast_call

        def laid_out_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = fast_call(args, kwargs)
            return result if result is MISS else self.laid_out(result)

        return laid_out_call


def marked_parameters(
    fun: Callable[..., Any], argnums: Any, argnames: Any, what: str, transform: str = "jit"
) -> tuple[set[int], set[str]]:
    """Positions and names of the marked parameters: what is given by one alone also gets the other."""
    numbers: set[int] = set() if argnums is None else set(np.atleast_1d(argnums).tolist())
    if not all(type(n) is int for n in numbers):
        raise ArgumentError(
            f"{transform}: {what}_argnums={argnums!r} must be positions of parameters, whole numbers from 0 on; names "
            f"go to {what}_argnames"
        )
    names: set[str] = set() if argnames is None else {argnames} if isinstance(argnames, str) else set(argnames)
    if not numbers and not names:
        return numbers, names
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return numbers, names
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    takes_any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for n in numbers:
        if not takes_any and not -len(positional) <= n < len(positional):
            raise ArgumentError(
                f"{transform}: {what}_argnums={argnums!r} does not fit {function_name(fun)}, which has "
                f"{len(positional)} positional parameters: {', '.join(positional) or 'none'}"
            )
    for name in names:
        if not takes_any_name and name not in {p.name for p in parameters}:
            raise ArgumentError(
                f"{transform}: {what}_argnames={argnames!r}: {function_name(fun)} has no parameter {name!r}; "
                f"it has {', '.join(p.name for p in parameters) or 'none'}"
            )
    if argnums is not None and argnames is not None:  # as in JAX: whoever gives both says all
        return {n % len(positional) if n < 0 and not takes_any else n for n in numbers}, names
    resolved_names = names | {positional[n] for n in numbers if -len(positional) <= n < len(positional)}
    resolved_numbers = {n % len(positional) if n < 0 and not takes_any else n for n in numbers}
    return resolved_numbers | {i for i, p in enumerate(positional) if p in names}, resolved_names


def check_hashable(where: Any, value: Any, fun: Callable[..., Any]) -> None:
    try:
        hash(value)
    except TypeError:
        name = where if isinstance(where, str) else positional_names(fun, where + 1)[where]
        raise ArgumentError(
            f"jit: the static argument `{name}` of {function_name(fun)} has the value {value!r} of type "
            f"{type(value).__name__}, which has no hash. Static arguments are part of the signature: pass a "
            "tuple instead of a list, a frozen dataclass instead of a dict; or do not mark it static if it holds arrays"
        ) from None
