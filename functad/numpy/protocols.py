"""NumPy's protocols: `np.sin(x)`, `np.concatenate([x])` and `scipy.special.erf(x)` of traced values call the function
of that name here.

Knows names only, their arguments are mapped by `forwarding`; what has no counterpart raises and says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from functad.array import Array, install_methods
from functad.errors import DTypeError, UnsupportedNumpyError
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
# Functions of shapes and dtypes: keys become no NumPy array, and arrays on a GPU are not copied for these.
_OF_TYPES = frozenset({"common_type", "iscomplexobj", "isrealobj", "ndim", "shape", "size"})
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
# Names that ufuncs of scipy.special give themselves, where SciPy's and JAX's users know another.
_NAMES_OF_SCIPYS = {"psi": "digamma", "_zeta": "zeta", "_riemann_zeta": "zeta"}
# Keywords of ufuncs about how NumPy computes, which change no value here.
_IGNORED = ("casting", "order", "subok", "signature", "like")


def _ufunc_of_traced(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    module, name = _home(ufunc)
    full_name = f"{module}.{name}"
    _refuse_out(full_name, kwargs)
    for ignored in _IGNORED:
        kwargs.pop(ignored, None)
    counterpart = _counterpart(module, name)
    if method == "__call__":
        dtype = kwargs.pop("dtype", None)
        if kwargs.pop("where", True) is not True:
            raise UnsupportedNumpyError(
                f"{full_name} with where= leaves elements undefined; "
                f"use functad.numpy.where(mask, functad.{full_name}(x), other)"
            )
        result = forward(full_name, ufunc, counterpart, inputs, kwargs)
        return result if dtype is None else convert(result, np.dtype(dtype))
    function = getattr(counterpart, method, None)
    if function is None or method == "at":
        updated = f"x.at[i].{_UPDATES[name]}(v)" if name in _UPDATES else f"x.at[i].set(functad.{full_name}(x[i], v))"
        instead = updated if method == "at" else "functions of functad.numpy"
        raise UnsupportedNumpyError(f"{full_name}.{method} has no counterpart in functad; write it with {instead}")
    if kwargs.get("where") is True:
        del kwargs["where"]
    return function(*inputs, **kwargs)


def _home(ufunc: np.ufunc) -> tuple[str, str]:
    """The module that has the ufunc, and its name there: another library's of the same name is another function."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        return "numpy", name
    for place in ("scipy.special", "scipy.special._ufuncs"):  # the latter has what `scipy.special.zeta` calls
        if getattr(sys.modules.get(place), name, None) is ufunc:
            return "scipy.special", _NAMES_OF_SCIPYS.get(name, name)
    raise UnsupportedNumpyError(
        f"the ufunc {name!r}, neither NumPy's nor SciPy's, was called on a functad value, and what it computes "
        "cannot be traced. Write it with functions of functad.numpy; or call the Python function it was made of, under "
        "functad.vmap; or, if no derivative is wanted through it, call it in functad.pure_callback"
    )


def _array_function(self: Any, func: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func.__name__
    if name in _OF_TYPES and Tracer not in types:
        return func(*map(_type_of, args), **{key: _type_of(a) for key, a in kwargs.items()})
    if Tracer not in types or name in _READERS:
        return func(*_known(args), **_known(kwargs))
    module = func.__module__ or "numpy"
    _refuse_out(f"{module}.{name}", kwargs)
    return forward(f"{module}.{name}", func, _counterpart(module, name), args, kwargs)


def _type_of(x: Any) -> Any:
    return x.aval if isinstance(x, Array) else x


def _refuse_out(full_name: str, kwargs: dict[str, Any]) -> None:
    out = kwargs.pop("out", None)  # of a ufunc a tuple
    if any(o is not None for o in (out if isinstance(out, tuple) else (out,))):
        raise UnsupportedNumpyError(
            f"{full_name} with out= (as in `a += x`) writes into an array, but functad's are immutable, and a NumPy "
            f"array would drop out of the trace; use the result: y = functad.{full_name}(...), or `a = a + x`"
        )


def _counterpart(module: str, name: str) -> Callable[..., Any]:
    """The function of that name in the module of that name: of "numpy.linalg" in `functad.numpy.linalg`."""
    for place in (module, "numpy") if module == "scipy.special" else (module,):  # SciPy has a log1p of its own
        function = getattr(_module_like(place), name, None)
        if function is not None:
            return function
    if module == "numpy" and name in _WRITERS:
        raise UnsupportedNumpyError(
            f"numpy.{name} writes into an array, but functad's are immutable, and a NumPy array would drop out of the "
            f"trace; use the result of {_WRITERS[name]}"
        )
    raise UnsupportedNumpyError(
        f"{module}.{name} was called on a functad value, but functad has no function of that name. Write it with "
        "other functions of functad.numpy; or, if no derivative is wanted through it and the value is known, "
        f"convert first: {module}.{name}(numpy.asarray(x))"
    )


def _module_like(name: str) -> Any:
    """functad's module like NumPy's or SciPy's, imported at the first call that asks for it; None if there is none."""
    if name.partition(".")[0] not in ("numpy", "scipy"):  # another library may have a module named as one of functad's
        return None
    try:
        return import_module(f"functad.{name}")
    except ModuleNotFoundError as problem:
        if problem.name and f"functad.{name}".startswith(problem.name):
            return None
        raise


# What to write instead of functions that write into the array they are given.
_WRITERS = {
    "copyto": "functad.numpy.where(mask, x, a)",
    "putmask": "functad.numpy.where(mask, values, a)",
}
# Functions of SciPy whose counterpart has another name, or stands in another place.
_ELSEWHERE = {
    "scipy.integrate.odeint": "functad.experimental.ode.odeint",
    "scipy.stats.dirichlet.rvs": "functad.random.dirichlet",
    "scipy.stats.multivariate_normal.rvs": "functad.random.multivariate_normal",
}


def _instead_of_scipys(self: Any) -> str:
    """What to write instead of the function of SciPy that is running, which asks for values."""
    frame, ours, theirs = sys._getframe(1), "", ""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("scipy."):
            decorated = frame.f_locals.get("f")  # by SciPy's `_apply_over_batch`
            # A distribution, of class norm_gen, or one with its parameters, of class norm_frozen.
            this: Any = frame.f_locals.get("self")
            owner = type(this).__name__.removesuffix("_gen").removesuffix("_frozen")
            # With SCIPY_ARRAY_API=1 this is what stands in the place of a ufunc, under whose name it is called.
            name = this.name if owner == "_FuncInfo" else frame.f_code.co_name
            names = _names_at_scipys(module, name, owner)
            names += _names_at_scipys(getattr(decorated, "__module__", None), getattr(decorated, "__name__", ""), owner)
            theirs = next(iter(names), theirs or module)
            ours = next(filter(None, map(_name_of_ours, names)), ours)
        elif module.partition(".")[0] not in ("functad", "numpy"):
            break
        frame = frame.f_back  # type: ignore[assignment]
    if ours:
        return f"SciPy's function takes known values alone. Write {ours}(...)"
    return theirs and (
        f"SciPy's function takes known values alone, and functad has no {theirs}. Write it with functions of "
        "functad.numpy and functad.scipy; or, if no derivative is wanted through it, call it in functad.pure_callback"
    )


def _names_at_scipys(module: str | None, name: str, owner: str) -> list[str]:
    """SciPy's public names for a function that a frame runs: its own, or that of a method of a distribution."""
    place = ".".join((module or "").split(".")[:2])
    public = sys.modules.get(place)
    distribution = getattr(public, owner, None)
    if distribution is not None:
        # One that is called gets its parameters first, and then, say, logpdf is called.
        method = "logpdf" if name in ("__call__", "__init__") else name
        return [f"{place}.{owner}.{method}"] if hasattr(distribution, method) and method[0] != "_" else []
    return [f"{place}.{name}"] if callable(getattr(public, name, None)) else []


def _name_of_ours(name: str) -> str:
    """functad's name for a function of SciPy; empty if there is none."""
    *path, last = name.split(".")
    home = _module_like(".".join(path[:2]))
    for part in path[2:]:
        home = getattr(home, part, None)
    return f"functad.{name}" if callable(getattr(home, last, None)) else _ELSEWHERE.get(name, "")


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
    setattr(Tracer, "_instead_of_scipys", _instead_of_scipys)  # noqa: B010
    setattr(Tracer, "_data", property(_data_of_traced))  # noqa: B010
