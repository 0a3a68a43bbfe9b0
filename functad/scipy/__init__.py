"""`functad.scipy`: the parts of SciPy that JAX has, under SciPy's names; differentiable, mapped and compiled.

Knows the names of its parts, which load at first use; SciPy itself is never imported.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

from functad.absent import absent

__all__ = ["fft", "signal"]

_absent = absent(__name__)


def __getattr__(name: str) -> _Any:
    return _import_module(f"functad.scipy.{name}") if name in __all__ else _absent(name)


def __dir__() -> list[str]:
    return __all__
