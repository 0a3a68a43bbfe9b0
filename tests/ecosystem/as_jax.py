"""`import jax` gives functad: an import hook under which libraries written for JAX, and their tests, run.

A pytest plugin: `python -m pytest -p as_jax library/tests`, with this folder on PYTHONPATH. Strict: a module or name
that functad lacks raises as it does for a user. No feature of functad: only the tests know it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

import functad
from functad.config import config
from functad.dtypes import bfloat16_dtype
from functad.options import ACCEPTED, OPTIONS

VERSION = "0.10.1"
ROOT = "jax"
# Beside this file, whether that is a plugin or a module of the package of tests.
private_names = importlib.import_module(f"{__package__}.private_names" if __package__ else "private_names")


class _Jax(ModuleType):
    """functad under JAX's name and version."""

    __version__ = VERSION
    __version_info__ = tuple(map(int, VERSION.split(".")))
    __path__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        return _found(functad, ROOT, name)

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
        if spec.name in (f"{ROOT}._src", f"{ROOT}._src.interpreters"):
            private = ModuleType(spec.name)
            private.__getattr__ = partial(_private, spec.name)  # type: ignore[method-assign]
            return private
        for table in (private_names.PRIVATE, private_names.REGISTRIES):
            if spec.name in table and spec.name != "jax.core":
                return _filled(spec.name, table[spec.name])
        if spec.name == f"{ROOT}.version":
            return _filled(spec.name, {n: getattr(_Jax, n) for n in ("__version__", "__version_info__")})
        name = f"functad{spec.name.removeprefix(ROOT)}"
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as problem:
            if spec.name in private_names.MENTIONED:
                return _filled(spec.name, {n: _mentioned(spec.name, n) for n in private_names.MENTIONED[spec.name]})
            raise ModuleNotFoundError(f"No module named {spec.name!r}: functad has none", name=spec.name) from problem
        alias = ModuleType(spec.name, module.__doc__)
        alias.__getattr__ = lambda attribute: _found(module, spec.name, attribute)  # type: ignore[method-assign]
        alias.__dir__ = lambda: dir(module)  # type: ignore[method-assign]
        alias.__all__ = list(getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")]))  # type: ignore[attr-defined]
        return alias

    def exec_module(self, module: ModuleType) -> None:
        pass


def _private(parent: str, name: str) -> ModuleType:
    """A module below `jax._src`, which other libraries take for an attribute that is always there."""
    full = f"{parent}.{name}"
    if full not in private_names.PRIVATE:
        raise AttributeError(f"module {parent!r} has no attribute {name!r}")
    return importlib.import_module(full)


def _filled(name: str, names: dict[str, Any]) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(names)
    return module


def _found(module: ModuleType, jax_name: str, name: str) -> Any:
    """functad's; or what stands for a name that libraries mention, though functad has it not."""
    full = f"{jax_name}.{name}"
    tables = (private_names.PRIVATE, private_names.REGISTRIES, private_names.MENTIONED)
    if full == f"{ROOT}._src" or any(full in table for table in tables):
        return importlib.import_module(full)
    try:
        found = getattr(module, name)
        own = isinstance(found, ModuleType) and found.__name__ == f"functad{jax_name.removeprefix(ROOT)}.{name}"
        return importlib.import_module(full) if own else found
    except AttributeError:
        if name in private_names.REGISTRIES.get(jax_name, ()):
            return private_names.REGISTRIES[jax_name][name]
        if name in private_names.MENTIONED.get(jax_name, ()):
            return _mentioned(jax_name, name)
        raise


def _mentioned(jax_name: str, name: str) -> type:
    """A class that can be named, in annotations and `isinstance`, and raises when it is called or looked into."""
    text = f"{jax_name}.{name} was used: {private_names.MENTIONED[jax_name][name]}"

    class Absent(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            if args and callable(args[0]):  # a transform, whose result may never be called
                return lambda *_, **__: cls()
            raise NotImplementedError(text)

        def __getattr__(cls, attribute: str) -> Any:
            raise AttributeError(f"{text} (.{attribute})")

        def __or__(cls, other: Any) -> Any:
            return cls

        __ror__ = __or__

    return Absent(name, (), {"__module__": jax_name})


def install() -> None:
    """From now on `import jax` gives functad, with JAX's dtypes of NumPy's arrays.

    Several devices are one, and the other kind of threefry is functad's: which numbers are drawn, few tests ask.
    """
    if importlib.util.find_spec("ml_dtypes"):
        bfloat16_dtype()  # as `import jax` does, so that `numpy.dtype("bfloat16")` is known
    for name in ("num_cpu_devices", "threefry_partitionable"):
        ACCEPTED[name] = ACCEPTED[name]._replace(harmless=None)
    if "numpy_dtypes" in OPTIONS:
        config.update("numpy_dtypes", "jax")
    sys.meta_path.insert(0, _Finder())


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Where `-p as_jax` names this plugin, before any conftest; a run that comes across the file changes nothing."""
    install()
