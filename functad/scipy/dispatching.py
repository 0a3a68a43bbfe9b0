"""SciPy's own functions on traced values: `dispatch` lets those run that functad has under the same name.

Knows functad's public names, and SciPy's modules as far as the user has imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from functad import numpy as jnp
from functad.core import Tracer
from functad.errors import ArgumentError
from functad.experimental.ode import odeint
from functad.tree_util import tree_leaves

_MARK = "runs_functads_on_traced_values"


def dispatch_imported(names: Sequence[str]) -> None:
    """Wrap the functions of those of SciPy's modules that are imported, of which functad has its own."""
    for name in names:
        module = sys.modules.get(f"scipy.{name}")
        if module is not None:
            _wrap_functions(module, import_module(f"functad.scipy.{name}"))
            for other, ours in _OTHERWISE.get(name, {}).items():
                _wrap(module, other, ours)


def _wrap_functions(theirs: Any, ours: ModuleType) -> None:
    """Replace attributes of a module, or of a distribution, whose functions are those of a module of functad."""
    for name in dir(ours):
        their, our = getattr(theirs, name, None), getattr(ours, name)
        if isinstance(our, ModuleType):
            if their is not None and not isinstance(their, ModuleType):
                _wrap_functions(their, our)  # a distribution
        elif callable(our):
            _wrap(theirs, name, our)


def _wrap(theirs: Any, name: str, ours: Callable[..., Any]) -> None:
    """Replace a function, if it is one that neither NumPy dispatches, as ufuncs, nor this module already."""
    function = getattr(theirs, name, None)
    if callable(function) and not isinstance(function, (type, np.ufunc)) and not hasattr(function, _MARK):
        setattr(theirs, name, _chosen(function, ours))


def _chosen(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is SciPy's on known values, and functad's where an argument is traced."""

    @wraps(theirs)
    def either(*args: Any, **kwargs: Any) -> Any:
        is_traced = any(isinstance(leaf, Tracer) for leaf in tree_leaves((args, kwargs)))
        return (ours if is_traced else theirs)(*args, **kwargs)

    setattr(either, _MARK, True)
    return either


def _odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: tuple[Any, ...] = (),
    *,
    rtol: Any = None,
    atol: Any = None,
    **options: Any,
) -> Any:
    """`scipy.integrate.odeint` by functad's, whose states are arrays of at least one axis as SciPy's are."""
    if options:
        raise ArgumentError(
            "scipy.integrate.odeint on traced values takes func, y0, t, args, rtol and atol, not "
            f"{', '.join(options)}: functad.experimental.ode.odeint solves by the method of Dormand and Prince"
        )
    tolerances = {name: value for name, value in (("rtol", rtol), ("atol", atol)) if value is not None}
    return odeint(lambda y, t, *args: jnp.asarray(func(y, t, *args)), jnp.atleast_1d(y0), t, *args, **tolerances)


_OTHERWISE: dict[str, dict[str, Callable[..., Any]]] = {"integrate": {"odeint": _odeint}}  # where signatures differ
