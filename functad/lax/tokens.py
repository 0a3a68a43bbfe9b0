"""Tokens, by which a program for JAX orders effects: here these keep their order, so that tokens are empty arrays.

Knows no effects but that of `dce_sink`.

Shapes:
    A token has shape (0,); a value that is kept may have any.

Raises:
    Nothing but what a function says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.array import Array
from functad.debug.callbacks import callback
from functad.errors import DTypeError
from functad.numpy.promotion import asarray


def create_token(_: Any = None) -> Array:
    """A token: an array without elements, for programs that hand tokens on.

    >>> create_token().shape
    (0,)
    """
    return asarray(np.zeros(0, np.bool_))


def after_all(*operands: Any) -> Array:
    """One token for several.

    Raises:
        DTypeError: an operand is no token.

    >>> after_all(create_token(), create_token()).shape
    (0,)
    """
    for x in operands:
        if getattr(x, "shape", None) != (0,):
            raise DTypeError(f"lax.after_all takes tokens, as lax.create_token() makes them, got {x!r}")
    return create_token()


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keep the computation of a value, which nobody uses.

    Args:
        val: a pytree of arrays.
        prevent_mlir_dce: accepted for JAX's sake.

    >>> import functad, functad.numpy as jnp
    >>> def f(x):
    ...     functad.lax.dce_sink(jnp.sin(x))
    ...     return x
    >>> [eqn.primitive.name for eqn in functad.jit(f).lower(1.).optimized.eqns]
    ['sin', 'debug_callback']
    """
    callback(_nothing, val)


def _nothing(_: Any) -> None:
    return None
