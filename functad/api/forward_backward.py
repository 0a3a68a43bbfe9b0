"""A function's forward pass and its backward pass, as two functions that are compiled once each.

Knows `vjp` and `jit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.api.arguments import check_callable, function_name, normalize_argnums
from functad.api.autodiff import vjp
from functad.api.compilation import jit


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward pass, from arguments to results and residuals, and the backward pass, from these to cotangents.

    Args:
        fun: a function of pytrees of arrays.
        argnums: the positional argument, or arguments, of which there are cotangents.
        has_aux: whether fun returns a pair, whose second part has no derivative and is returned last.
        jitted: compile both.

    Returns:
        `fwd(*args)`, which gives `(out, residuals)`, or `(out, residuals, aux)`; `bwd(residuals, cotangent)`, which
        gives the cotangent of the argument, or a tuple of them.

    >>> import functad
    >>> fwd, bwd = functad.fwd_and_bwd(lambda w, x: w * x, argnums=(0, 1))
    >>> out, residuals = fwd(2., 3.)
    >>> print(out, *bwd(residuals, 1.))
    6.0 3.0 2.0
    """
    check_callable(fun, "fwd_and_bwd")

    def fwd(*args: Any, **kwargs: Any) -> Any:
        chosen = normalize_argnums(argnums, len(args), "fwd_and_bwd", function_name(fun))

        def of_chosen(*values: Any) -> Any:
            given = dict(zip(chosen, values))
            return fun(*(given.get(i, x) for i, x in enumerate(args)), **kwargs)

        return vjp(of_chosen, *(args[i] for i in chosen), has_aux=has_aux)

    def bwd(residuals: Callable[[Any], Any], cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found[0] if isinstance(argnums, (int, np.integer)) else found

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)
