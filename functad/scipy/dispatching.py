"""SciPy's own functions on traced values: `dispatch` lets those run that functad has under the same name.

Knows functad's public names, and SciPy's modules as far as the user has imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any, TypeGuard

import numpy as np

from functad.core import Tracer
from functad.tree_util import tree_leaves

_MARK = "runs_functads_on_traced_values"


def dispatch_imported(names: Sequence[str]) -> None:
    """Wrap the functions of those of SciPy's modules that are imported, of which functad has its own."""
    for name in names:
        module = sys.modules.get(f"scipy.{name}")
        if module is not None:
            _wrap_functions(module, import_module(f"functad.scipy.{name}"))


def _wrap_functions(theirs: Any, ours: ModuleType) -> None:
    """Replace attributes of a module, or of a distribution, whose functions are those of a module of functad."""
    for name in dir(ours):
        their, our = getattr(theirs, name, None), getattr(ours, name)
        if isinstance(our, ModuleType):
            if their is not None and not isinstance(their, ModuleType):
                _wrap_functions(their, our)  # a distribution
        elif _is_function(their) and _is_function(our):
            setattr(theirs, name, _chosen(their, our))


def _is_function(value: Any) -> TypeGuard[Callable[..., Any]]:
    """Whether a value is a function that is not dispatched yet: NumPy dispatches ufuncs."""
    return callable(value) and not isinstance(value, (type, np.ufunc)) and not hasattr(value, _MARK)


def _chosen(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is SciPy's on known values, and functad's where an argument is traced."""

    @wraps(theirs)
    def either(*args: Any, **kwargs: Any) -> Any:
        is_traced = any(isinstance(leaf, Tracer) for leaf in tree_leaves((args, kwargs)))
        return (ours if is_traced else theirs)(*args, **kwargs)

    setattr(either, _MARK, True)
    return either
