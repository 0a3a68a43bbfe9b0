"""`pure_callback` and `io_callback`: Python functions called from traced and compiled code, under JAX's names.

Knows pytrees and errors; the equations and their rules are in `functad.primitives.callback`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from functad.api.arguments import LeafNames, as_value, check_callable, described_like, leaf_aval
from functad.dtypes import key_fry, refuse_keys
from functad.errors import ArgumentError, DTypeError
from functad.ir import Aval
from functad.primitives import callback as primitives
from functad.primitives.callback import VMAP_METHODS, FlatCallback
from functad.primitives.random_keys import random_unwrap, random_wrap
from functad.tree_util import PyTreeDef, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten
from functad.user_source import user_source


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a Python function without side effects, also from compiled code: SciPy, a table, a simulator.

    While the function around it is traced, only the types of the result are known, so they must be announced. The call
    is not differentiated: put it into a function of `functad.custom_jvp`, whose rule gives the derivative.

    Args:
        callback: a function of the arguments. It gets them as Arrays with values, the leaves of pytrees too (as
            arrays of NumPy's if Numba compiled it), and returns arrays or numbers. As it has no side effects, it may
            be called again, or not at all if its result is not used.
        result_shape_dtypes: a pytree of arrays or `ShapeDtypeStruct`s, like what the function returns.
        args, kwargs: pytrees of arrays.
        sharding: accepted for JAX's sake; there is one device.
        vmap_method: how `vmap` calls the function. "sequential" (or "sequential_unrolled"): for one example after
            another. "broadcast_all": once, with the mapped axis in front of every argument and result.
            "expand_dims": once, where arguments that are not mapped have an axis of size 1 in front.
            "legacy_vectorized": once, where they stay as they are. None: `vmap` raises.

    Returns:
        What the function returns, of the announced types.

    Raises:
        ArgumentError: `vmap_method` is none of these.
        CallbackError: the function raised (its exception is the cause), or returned what was not announced.
        DifferentiationError: the result is differentiated.
        NoRuleError: it is mapped, and `vmap_method` is None.

    >>> import functad, functad.numpy as jnp, math, numpy as np
    >>> def gamma(x):
    ...     scalar = functad.ShapeDtypeStruct((), np.float32)
    ...     return functad.pure_callback(math.gamma, scalar, x, vmap_method="sequential")
    >>> functad.jit(functad.vmap(gamma))(jnp.arange(1., 5.))
    Array([1., 1., 2., 6.], dtype=float32)
    """
    check_callable(callback, "pure_callback")
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        known = ", ".join(map(repr, VMAP_METHODS))
        raise ArgumentError(f"pure_callback: vmap_method must be one of {known} or None, but is {vmap_method!r}")
    avals, out_tree = _announced(result_shape_dtypes, "pure_callback")
    flat, operands = flat_callback(callback, args, kwargs, "pure_callback", out_tree)
    outs = primitives.pure_callback(flat, avals, operands, vmap_method)
    return tree_unflatten(out_tree, outs)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function that may do anything, also from compiled code: read a file, draw from a generator.

    It runs just as often as the function around it says, whether its result is used or not. Such calls within one
    function run in the order in which they are written.

    Args:
        callback: a function of the arguments, which it gets as Arrays with values.
        result_shape_dtypes: a pytree of arrays or `ShapeDtypeStruct`s, like what the function returns; None for
            nothing.
        args, kwargs: pytrees of arrays.
        sharding: accepted for JAX's sake; there is one device.
        ordered: accepted for JAX's sake; calls are always in order. As in JAX, ordered ones cannot be mapped by `vmap`;
            others run for one example after another.

    Returns:
        What the function returns, of the announced types.

    Raises:
        CallbackError: the function raised (its exception is the cause), or returned what was not announced.
        DifferentiationError: an argument is differentiated.
        BatchingError: it is ordered and mapped.

    >>> import functad, functad.numpy as jnp, numpy as np
    >>> generator = np.random.default_rng(0)
    >>> @functad.jit
    ... def noisy(x):
    ...     return x + functad.io_callback(lambda: generator.integers(10, size=3).astype("f4"), x)
    >>> bool((noisy(jnp.zeros(3)) == noisy(jnp.zeros(3))).all())
    False
    """
    check_callable(callback, "io_callback")
    avals, out_tree = _announced(result_shape_dtypes, "io_callback")
    flat, operands = flat_callback(callback, args, kwargs, "io_callback", out_tree)
    outs = primitives.io_callback(flat, avals, operands, bool(ordered))
    return tree_unflatten(out_tree, outs)


def _announced(result_shape_dtypes: Any, transform: str) -> tuple[list[Aval], PyTreeDef]:
    pairs, tree = tree_flatten_with_path(result_shape_dtypes)
    found = [leaf_aval(x, partial("{}: result_shape_dtypes{}".format, transform, keystr(p))) for p, x in pairs]
    refuse_keys(f"the result of {transform}", *[a.dtype for a in found])
    return [Aval(a.shape, a.dtype) for a in found], tree


def _with_keys(fun: Callable[..., Any], numbers: set[int]) -> Callable[..., Any]:
    """The function, for arguments in which some leaves are words of keys."""

    @described_like(fun)
    def of_words(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        args, kwargs = tree_unflatten(tree, [random_wrap(x) if i in numbers else x for i, x in enumerate(leaves)])
        return fun(*args, **kwargs)

    return of_words


def flat_callback(
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    transform: str,
    out_tree: PyTreeDef | None = None,
    takes_anything: bool = False,
    is_check: bool = False,
) -> tuple[FlatCallback, list[Any]]:
    """A function as one of arrays, and these: the leaves of its arguments, as values to bind.

    takes_anything: leaves that are no arrays, such as strings, are handed on as they are.
    is_check: what the function raises is not wrapped.
    """
    leaves, in_tree = tree_flatten((args, kwargs))
    names = LeafNames(fun, dict(enumerate(args)), kwargs)

    def where(number: int) -> Callable[[], str]:
        return lambda: f"{transform}: {names.describe(number)()}"

    operands: list[Any] = []
    keys: set[int] = set()
    statics: list[tuple[int, Any]] = []
    for number, leaf in enumerate(leaves):
        try:
            value = as_value(leaf, where(number))
        except DTypeError:
            if not takes_anything:
                raise
            statics.append((number, leaf))
            continue
        if value.dtype is key_fry:  # handed on by their words
            keys.add(number)
            value = random_unwrap(value)
        operands.append(value)
    if keys:
        fun = _with_keys(fun, keys)
    return FlatCallback(fun, in_tree, out_tree, tuple(statics), transform, user_source(), is_check), operands
