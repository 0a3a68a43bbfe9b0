"""NumPy's protocols: `np.sin(x)` and `np.concatenate([x])` of functad values call the function of that name here.

Knows names only; what has no counterpart raises and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.array import Array, install_methods
from functad.errors import UnsupportedNumpyError
from functad.numpy import array_methods, manipulation, reductions
from functad.numpy.promotion import asarray, convert
from functad.primitives import cumulative
from functad.tracing import Tracer

# Ufuncs whose reduction or accumulation has a name of its own.
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "add": reductions.sum,
    "multiply": reductions.prod,
    "maximum": reductions.max,
    "minimum": reductions.min,
    "logical_and": reductions.all,
    "logical_or": reductions.any,
}
_ACCUMULATIONS: dict[str, Callable[..., Any]] = {
    "add": reductions.cumsum,
    "multiply": reductions.cumprod,
    "maximum": lambda x, axis: cumulative.cummax(x, axis=axis),
    "minimum": lambda x, axis: cumulative.cummin(x, axis=axis),
}
# NumPy functions that read values out and give no array to compute with.
_READERS = frozenset(
    {
        "array2string", "array_repr", "array_str", "may_share_memory", "save", "savetxt", "savez",
        "savez_compressed", "shares_memory",
    }
)  # fmt: skip
_IGNORED = ("casting", "order", "subok", "signature", "like")


def _array_ufunc(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    name = ufunc.__name__
    _refuse_out(name, kwargs)
    for ignored in _IGNORED:
        kwargs.pop(ignored, None)
    if method == "__call__":
        dtype = kwargs.pop("dtype", None)
        if kwargs.pop("where", True) is not True:
            raise UnsupportedNumpyError(
                f"numpy.{name} with where= leaves elements undefined; "
                f"use functad.numpy.where(mask, functad.numpy.{name}(x), other)"
            )
        result = _counterpart("numpy", name)(*inputs, **kwargs)
        return result if dtype is None else convert(result, np.dtype(dtype))
    if method == "reduce" and name in _REDUCTIONS:
        kwargs.setdefault("axis", 0)
        return _REDUCTIONS[name](*inputs, **kwargs)
    if method == "accumulate" and name in _ACCUMULATIONS:
        (x, *rest) = inputs
        axis = rest[0] if rest else kwargs.get("axis", 0)
        return _ACCUMULATIONS[name](asarray(x), axis=axis)
    if method == "outer" and len(inputs) == 2:
        x, y = (asarray(v) for v in inputs)
        spread = manipulation.reshape(x, x.shape + (1,) * y.ndim)
        return _counterpart("numpy", name)(spread, y)
    raise UnsupportedNumpyError(
        f"numpy.{name}.{method} has no counterpart in functad; write it with the functions of functad.numpy "
        f"(x.at[i].add(v) for numpy.add.at)"
    )


def _array_function(self: Any, func: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func.__name__
    if name in _READERS:
        return func(*_known(args), **_known(kwargs))
    _refuse_out(name, kwargs)
    return _counterpart(func.__module__ or "numpy", name)(*args, **kwargs)


def _refuse_out(name: str, kwargs: dict[str, Any]) -> None:
    out = kwargs.pop("out", None)  # of a ufunc a tuple
    if any(o is not None for o in (out if isinstance(out, tuple) else (out,))):
        raise UnsupportedNumpyError(
            f"numpy.{name} with out= writes into an array, but functad's are immutable (and a NumPy array would "
            f"drop out of the trace); use the result: y = functad.numpy.{name}(...)"
        )


def _counterpart(module: str, name: str) -> Callable[..., Any]:
    namespace = array_methods.namespace()
    for part in module.split(".")[1:]:  # "numpy.linalg" -> linalg
        namespace = getattr(namespace, part, namespace)
    function = getattr(namespace, name, None)
    if function is None:
        where = module if module.startswith("numpy") else "numpy"
        raise UnsupportedNumpyError(
            f"{where}.{name} was called on a functad value, but functad has no function of that name. Write it with "
            "other functions of functad.numpy; or, if no derivative is wanted through it and the value is known, "
            f"convert first: {where}.{name}(numpy.asarray(x))"
        )
    return function


def _known(values: Any) -> Any:
    """The arguments with concrete arrays as NumPy arrays; a traced value raises."""
    if isinstance(values, dict):
        return {k: _known(v) for k, v in values.items()}
    if isinstance(values, (tuple, list)):
        return type(values)(_known(v) for v in values)
    return np.asarray(values) if isinstance(values, (Array, Tracer)) else values


def install() -> None:
    """Attach the protocols to `functad.Array`."""
    install_methods({"__array_ufunc__": _array_ufunc, "__array_function__": _array_function})
