"""Modules that are imported when one of their functions is first called.

Knows names alone. What a program seldom runs, such as what writes the kernels of an operation, it then never loads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Any

from functad.system.once import imported


def later(package: str, modules: Collection[str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: `from package import module` gives one of these that is imported later.

    Hide it from type checkers, `if not TYPE_CHECKING`: they see the module itself.
    """

    def find(name: str) -> LaterModule:
        if name in modules:
            return LaterModule(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


def elsewhere(package: str, places: Mapping[str, Collection[str]]) -> Callable[[str], Any]:
    """What `absent` is to find for a package: public names, whose modules are imported when one is asked for.

    places: the names that each module has. Type checkers see imports of their own. From then on the package has them.
    The top of a module of functad imports them from where they are: this waits for a thread that imports, and that one
    may wait for the module.
    """
    module_of = {name: module for module, names in places.items() for name in names}

    def find(name: str) -> Any:
        if name not in module_of:
            return None
        value = _found(module_of[name], name)
        setattr(sys.modules[package], name, value)
        return value

    return find


class LaterModule(ModuleType):
    """A module, of which only functions may be asked for, and are imported with it when first called."""

    def __getattr__(self, name: str) -> LaterFunction:
        if name.startswith("__"):
            raise AttributeError(name)
        function = LaterFunction(self.__name__, name)
        setattr(self, name, function)
        return function


class LaterFunction:
    """A function of a module that is imported when it is called or an attribute is read. It is pickled as it is."""

    def __init__(self, module: str, name: str) -> None:
        self.__module__, self.__name__ = module, name
        self._function: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return (self._function or self._found())(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._found(), name)

    def _found(self) -> Callable[..., Any]:
        if self._function is None:
            self._function = _found(self.__module__, self.__name__)
        return self._function

    def __reduce__(self) -> tuple[Any, ...]:
        return _found, (self.__module__, self.__name__)

    def __repr__(self) -> str:
        return f"<function {self.__module__}.{self.__name__}, imported when called>"


def _found(module: str, name: str) -> Any:
    return getattr(imported(module), name)
