"""NumPy's protocols: `np.sin(x)` and `np.concatenate([x])` of traced values call the function of that name here.

Knows names only, their arguments are mapped by `forwarding`; what has no counterpart raises and says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functad.array import Array, install_methods
from functad.errors import DTypeError, UnsupportedNumpyError
from functad.numpy import array_methods
from functad.numpy.forwarding import forward
from functad.numpy.promotion import convert
from functad.tracing import Tracer

# NumPy functions that read values out and give no array to compute with.
_READERS = frozenset(
    {
        "array2string", "array_repr", "array_str", "may_share_memory", "save", "savetxt", "savez",
        "savez_compressed", "shares_memory",
    }
)  # fmt: skip
# What `x.at[i]` calls the update that `ufunc.at` makes.
_UPDATES = {
    "add": "add",
    "divide": "divide",
    "maximum": "max",
    "minimum": "min",
    "multiply": "multiply",
    "power": "power",
    "subtract": "subtract",
}
# Keywords of ufuncs about how NumPy computes, which change no value here.
_IGNORED = ("casting", "order", "subok", "signature", "like")


def _ufunc_of_traced(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    name = ufunc.__name__
    _refuse_out(name, kwargs)
    for ignored in _IGNORED:
        kwargs.pop(ignored, None)
    counterpart = _counterpart("numpy", name)
    if method == "__call__":
        dtype = kwargs.pop("dtype", None)
        if kwargs.pop("where", True) is not True:
            raise UnsupportedNumpyError(
                f"numpy.{name} with where= leaves elements undefined; "
                f"use functad.numpy.where(mask, functad.numpy.{name}(x), other)"
            )
        result = forward(f"numpy.{name}", ufunc, counterpart, inputs, kwargs)
        return result if dtype is None else convert(result, np.dtype(dtype))
    function = getattr(counterpart, method, None)
    if function is None or method == "at":
        updated = f"x.at[i].{_UPDATES[name]}(v)" if name in _UPDATES else f"x.at[i].set(functad.numpy.{name}(x[i], v))"
        instead = updated if method == "at" else "functions of functad.numpy"
        raise UnsupportedNumpyError(f"numpy.{name}.{method} has no counterpart in functad; write it with {instead}")
    if kwargs.get("where") is True:
        del kwargs["where"]
    return function(*inputs, **kwargs)


def _array_function(self: Any, func: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func.__name__
    if Tracer not in types or name in _READERS:
        return func(*_known(args), **_known(kwargs))
    _refuse_out(name, kwargs)
    module = func.__module__ or "numpy"
    return forward(f"{module}.{name}", func, _counterpart(module, name), args, kwargs)


def _refuse_out(name: str, kwargs: dict[str, Any]) -> None:
    out = kwargs.pop("out", None)  # of a ufunc a tuple
    if any(o is not None for o in (out if isinstance(out, tuple) else (out,))):
        raise UnsupportedNumpyError(
            f"numpy.{name} with out= (as in `a += x`) writes into an array, but functad's are immutable, and a NumPy "
            f"array would drop out of the trace; use the result: y = functad.numpy.{name}(...), or `a = a + x`"
        )


def _counterpart(module: str, name: str) -> Callable[..., Any]:
    namespace = array_methods.namespace()
    for part in module.split(".")[1:]:  # "numpy.linalg" -> linalg
        namespace = getattr(namespace, part, None)
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
        return [_known(v) for v in values] if isinstance(values, list) else tuple(_known(v) for v in values)
    return np.asarray(values) if isinstance(values, (Array, Tracer)) else values


def _data_of_traced(self: Any) -> Any:
    """What `numpy.ma` asks its operands for: a masked array stands on the left, and calls no method of ours first."""
    raise DTypeError(
        f"a masked array, or a function of numpy.ma, meets {self._describe()}, and a mask would be lost: pass "
        "m.filled(value), or m.data and numpy.ma.getmaskarray(m) apart, and choose with functad.numpy.where"
    )


def install() -> None:
    """Attach the protocols: to all arrays for NumPy's functions, to traced ones alone for its ufuncs.

    A ufunc takes a known array by `__array__`, and leaves operators to it: `ndarray + Array` is an Array.
    """
    install_methods({"__array_function__": _array_function})
    setattr(Tracer, "__array_ufunc__", _ufunc_of_traced)  # noqa: B010
    setattr(Tracer, "_data", property(_data_of_traced))  # noqa: B010
