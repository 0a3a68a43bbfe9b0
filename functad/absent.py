"""What to say of a name that a module does not have: the nearest names, or what to use instead.

Knows names and sentences alone. `from functad.absent import absent; __getattr__ = absent(__name__)` is its use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from opcode import opmap
from types import FrameType
from typing import Any

import numpy as np

from functad import errors
from functad.absent_names import INSTEAD, NAMES_ELSEWHERE
from functad.errors import AbsentImportError, AbsentNameError, close_names


def absent(
    module: str, submodules: Sequence[str] = (), found: Callable[[str], Any] = lambda name: None
) -> Callable[[str], Any]:
    """The `__getattr__` of a module: it loads these parts at first use, and explains every other name.

    found: gives what else has a name, or None. Hide the result from type checkers, `if not TYPE_CHECKING`: they would
    take every name for one that is there.
    """

    def explain(name: str) -> Any:
        if name in submodules:
            return import_module(f"{module}.{name}")
        value = found(name)
        if value is not None:
            return value
        text = _text(module, name)
        if _imports(sys._getframe(1)) and f"{module}.{name}" not in sys.modules:
            raise AbsentImportError(text, name=module)
        raise AbsentNameError(text, name=name, obj=sys.modules.get(module))

    return explain


def _imports(frame: FrameType) -> bool:
    """Whether what a frame does now is `from … import …`.

    Python says of an AttributeError there "cannot import name", and drops what it said; an ImportError it passes on.
    """
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


def _text(module: str, name: str) -> str:
    what = f"module {module!r} has no attribute {name!r}"
    if name.startswith("__"):
        return what
    instead = INSTEAD.get(module, {}).get(name)
    if instead is None and name.endswith("_p"):
        return f"{what}: what JAX's primitive does, others do here; functad.make_jaxpr shows which"
    if instead is not None:
        return f"{what}; {'instead: ' if not instead.startswith(('there', 'mapped')) else ''}{instead}"
    if name in NAMES_ELSEWHERE.get(module, {}):
        return f"{what}; instead: {NAMES_ELSEWHERE[module][name]}"
    own = getattr(sys.modules.get(module), "__all__", None) or vars(sys.modules[module])
    known = [n for n in own if not n.startswith("_")]
    close = close_names(name, known, cutoff=0.7)
    if close:
        return f"{what}. Did you mean {' or '.join(f'{module}.{c}' for c in close)}?"
    if "*" in INSTEAD.get(module, {}):
        return f"{what}; {INSTEAD[module]['*']}"
    counterpart = _of_numpy(module, name)
    if counterpart:
        return (
            f"{what}. NumPy has it: {counterpart}(numpy.asarray(x)) serves outside of traced functions, and within "
            "them functad.pure_callback can call it"
        )
    return f"{what}; dir({module}) lists what it has"


def _of_numpy(module: str, name: str) -> str | None:
    """The function of that name in NumPy's module of the same name."""
    found: Any = np
    path = module.split(".")[2:] if module.startswith("functad.numpy") else None
    if path is None:
        return None
    for part in [*path, name]:
        found = getattr(found, part, None)
        if found is None:
            return None
    return ".".join(["numpy", *path, name]) if callable(found) else None


# That module stands below this one, so that it cannot ask for it.
setattr(errors, "__getattr__", absent(errors.__name__))  # noqa: B010
