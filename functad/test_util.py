"""Derivatives compared with differences, under the names that `jax.test_util` gives the checks.

Knows the public transforms; computes differences with NumPy.

Shapes:
    Arguments are pytrees of arrays of any shapes; what belongs to a value, such as its tangent, has its shape.

Raises:
    AssertionError: the derivatives and the differences are not close.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import api, dtypes
from functad.absent import absent
from functad.dtypes import kind_of
from functad.errors import ArgumentError
from functad.tree_util import keystr, tree_leaves, tree_leaves_with_path, tree_map

_STEP = 1e-4
_TOLERANCES = {
    "bfloat16": 1e-1,
    "float16": 1e-2,
    "float32": 2e-3,
    "float64": 1e-5,
    "complex64": 1e-3,
    "complex128": 1e-5,
}
_MODES = ("fwd", "rev", "lin")
Tolerances = float | dict[Any, float] | None


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Tolerances = None,
    rtol: Tolerances = None,
    eps: float | None = None,
) -> None:
    """Compare the derivatives of a function at a point with differences, along one random direction an order.

    Args:
        f: a function of pytrees of arrays.
        args: the point.
        order: derivatives up to this order are compared.
        modes: "fwd" compares `jvp`, "rev" `vjp`, "lin" `linearize`; a string of one, or several.
        atol, rtol: absolute and relative tolerances, or one a dtype in a dict; 2e-3 of float32, 1e-5 of float64.
        eps: half of the difference of arguments, 1e-4 by default. float32 has few digits left of differences: give
            arguments of float64.

    Raises:
        AssertionError: a derivative and a difference are not close; says which, and of what.
        ArgumentError: there is no such mode.

    >>> import functad, functad.numpy as jnp, numpy as np
    >>> functad.test_util.check_grads(jnp.sin, (np.array([0.5, 1.]),), order=3)
    """
    chosen = (modes,) if isinstance(modes, str) else tuple(modes)
    if unknown := set(chosen) - set(_MODES):
        raise ArgumentError(f"check_grads: modes are {', '.join(map(repr, _MODES))}, got {sorted(unknown)}")
    options: dict[str, Any] = {"atol": atol, "rtol": rtol, "eps": eps or _STEP}

    def check(f: Callable[..., Any], args: tuple[Any, ...], order: int, of: str) -> None:
        for mode in chosen:
            name = f"{_NAMES[mode]} of {of}" if of else _NAMES[mode]
            if mode == "rev":
                check_vjp(f, partial(api.vjp, f), args, err_msg=name, **options)
                if order > 1:
                    check(partial(_pulled_back, f), args, order - 1, name)
            else:
                jvp = partial(api.jvp if mode == "fwd" else _jvp_by_linearize, f)
                check_jvp(f, jvp, args, err_msg=name, **options)
                if order > 1:
                    check(jvp, (args, args), order - 1, name)

    check(f, tuple(args), order, "")


_NAMES = {"fwd": "JVP", "rev": "VJP", "lin": "LIN"}


def _pulled_back(f: Callable[..., Any], *args: Any) -> Any:
    out, pullback = api.vjp(f, *args)
    return pullback(out)


def _jvp_by_linearize(f: Callable[..., Any], primals: Any, tangents: Any) -> tuple[Any, Any]:
    out, pushforward = api.linearize(f, *primals)
    return out, pushforward(*tangents)


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerances = None,
    rtol: Tolerances = None,
    eps: float = _STEP,
    err_msg: str = "",
) -> None:
    """Compare `f_jvp(args, tangents)`, such as `partial(functad.jvp, f)`, with a difference; see `check_grads`.

    >>> import functad, functad.numpy as jnp
    >>> from functools import partial
    >>> check_jvp(jnp.sin, partial(functad.jvp, jnp.sin), (np.float64(0.5),), atol=1e-4)
    """
    args, tangents = tuple(args), _random_like(tuple(args))
    out, out_tangent = f_jvp(args, tangents)
    close = partial(_check_close, atol=atol, rtol=rtol, of=err_msg)
    close(out, f(*args), what="primal")
    close(out_tangent, _difference(f, args, tangents, eps), what="tangent")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerances = None,
    rtol: Tolerances = None,
    eps: float = _STEP,
    err_msg: str = "",
) -> None:
    """Compare `f_vjp(*args)`, such as `partial(functad.vjp, f)`, with a difference; see `check_grads`.

    The cotangents' product with a random direction must be that of the difference along it with random cotangents.

    >>> import functad, functad.numpy as jnp
    >>> from functools import partial
    >>> check_vjp(jnp.sin, partial(functad.vjp, jnp.sin), (np.float64(0.5),), atol=1e-4)
    """
    args = tuple(args)
    out, pullback = f_vjp(*args)
    close = partial(_check_close, atol=atol, rtol=rtol, of=err_msg)
    close(out, f(*args), what="primal")
    tangents, cotangents = _random_like(args), _random_like(out, seed=1)
    pulled = tree_map(np.conj, pullback(tree_map(np.conj, cotangents)))
    found = _product(tangents, pulled)
    close(found, _product(_difference(f, args, tangents, eps), cotangents), what="cotangent projection")


def _difference(f: Callable[..., Any], args: Any, tangents: Any, eps: float) -> Any:
    def moved(by: float) -> Any:
        return f(*tree_map(lambda x, t: _like(x, np.asarray(x) + by * np.asarray(t)), args, tangents))

    def slope(high: Any, low: Any) -> np.ndarray:
        high, low = np.asarray(high), np.asarray(low)
        with np.errstate(invalid="ignore"):  # of infinities
            return np.asarray(np.where(high == low, 0, high - low) / (2 * eps), high.dtype)

    return tree_map(slope, moved(eps), moved(-eps))


def _like(x: Any, value: Any) -> Any:
    """A value as one of the kind of another: a Python number, or an array of its dtype."""
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        return type(x)(value)
    return np.asarray(value, dtypes.dtype_of(x)[0])


def _random_like(tree: Any, seed: int = 0) -> Any:
    random = np.random.RandomState(seed)

    def one(x: Any) -> Any:
        dtype = dtypes.dtype_of(x)[0]
        value = random.standard_normal(np.shape(x))
        return _like(x, value + 1j * random.standard_normal(np.shape(x)) if kind_of(dtype) == "c" else value)

    return tree_map(one, tree)


def _product(xs: Any, ys: Any) -> np.ndarray:
    pairs = zip(map(np.asarray, tree_leaves(xs)), map(np.asarray, tree_leaves(ys)))
    return np.sum([np.real(np.dot(np.conj(x).ravel(), y.ravel())) for x, y in pairs], initial=0.0)


def _check_close(found: Any, expected: Any, atol: Tolerances, rtol: Tolerances, of: str, what: str) -> None:
    for (path, a), b in zip(tree_leaves_with_path(found), tree_leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        name = " ".join(filter(None, [of, what, keystr(path)]))
        assert a.shape == b.shape, f"{name}: shape {a.shape}, but that of the difference is {b.shape}"
        limits = [max(_tolerance(a.dtype, t), _tolerance(b.dtype, t)) * max(a.size, 1) for t in (atol, rtol)]
        np.testing.assert_allclose(a, b, atol=limits[0], rtol=limits[1], err_msg=name)


def _tolerance(dtype: np.dtype, given: Tolerances) -> float:
    if given is not None and not isinstance(given, dict):
        return given
    chosen = {np.dtype(k).name: v for k, v in (given or {}).items()}
    return chosen.get(dtype.name, _TOLERANCES.get(dtype.name, 0.0))


__all__ = ["check_grads", "check_jvp", "check_vjp"]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
