"""`import jax` gives functad: an import hook under which libraries written for JAX, and their tests, run.

A pytest plugin: `python -m pytest -p as_jax library/tests`, with this folder on PYTHONPATH. Strict: a module or name
that functad lacks raises as it does for a user. No feature of functad: only the tests know it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import functad

VERSION = "0.10.1"
ROOT = "jax"


class _Jax(ModuleType):
    """functad under JAX's name and version."""

    __version__ = VERSION
    __version_info__ = tuple(map(int, VERSION.split(".")))
    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(functad, name)

    def __dir__(self) -> list[str]:
        return dir(functad)


class _Finder(MetaPathFinder, Loader):
    """Finds `jax` and everything below it, first of all finders."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != ROOT and not fullname.startswith(f"{ROOT}."):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name == ROOT:
            return _Jax(ROOT)
        name = f"functad{spec.name.removeprefix(ROOT)}"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as problem:
            raise ModuleNotFoundError(f"No module named {spec.name!r}: functad has none", name=spec.name) from problem
        alias = ModuleType(spec.name, module.__doc__)
        alias.__getattr__ = lambda attribute: getattr(module, attribute)  # type: ignore[method-assign]
        alias.__dir__ = lambda: dir(module)  # type: ignore[method-assign]
        alias.__all__ = list(getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")]))  # type: ignore[attr-defined]
        return alias

    def exec_module(self, module: ModuleType) -> None:
        pass


def install() -> None:
    """From now on `import jax` gives functad."""
    sys.meta_path.insert(0, _Finder())


def pytest_configure(config: Any) -> None:
    """Where this is a plugin; a run of functad's own tests that comes across this file changes nothing."""
    install()
