"""What public modules list, and that what they list shows how it is called."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import sys
import types

import pytest
from test_readme import FLAGS, CloseNumbers

import functad
from docs import reference
from functad.config import ACCEPTED
from functad.numpy import dtype_names


def public_modules():
    """The modules that answer for names which they do not have: `absent` does."""
    found = [functad]
    for part in pkgutil.walk_packages(functad.__path__, "functad."):
        if any(word in part.name for word in (".backends", "__main__", ".cli", ".train", "experimental.mpi")):
            continue
        module = importlib.import_module(part.name)
        if getattr(vars(module).get("__getattr__"), "__module__", "") == "functad.absent":
            found.append(module)
    return {module.__name__: module for module in found}


MODULES = public_modules()
# Modules whose functions show how they are called, each in its docstring.
SHOWN = [
    name
    for name in MODULES
    if name in ("functad.lax", "functad.lax.linalg", "functad.random", "functad.ops")
    or name.startswith(("functad.numpy", "functad.scipy"))
]


def functions(module):
    for name in dir(module):
        value = getattr(module, name)
        is_ours = getattr(value, "__module__", "").startswith("functad")
        if isinstance(value, types.FunctionType) and is_ours:
            yield name, value


def test_the_modules_meant_are_found():
    assert {"functad.numpy", "functad.lax", "functad.scipy.stats.norm", "functad.nn"} <= set(MODULES)
    assert len(SHOWN) > 40 and sum(len(list(functions(MODULES[name]))) for name in SHOWN) > 700


def test_the_training_loop_lists_public_names_and_explains_others():
    assert dir(functad.train) == functad.train.__all__
    with pytest.raises(AttributeError, match="Did you mean functad.train.fit"):
        functad.train.fitt  # noqa: B018


def named():
    """All that the reference shows and that can be called, by name: functions, classes, dtypes."""
    for module_name, module in sorted(reference.modules().items()):
        for public, value in reference.names(module):
            if reference.is_ours(value) and callable(value):
                yield f"{module_name}.{public}", value


def test_everything_public_shows_how_it_is_used():
    found = dict(named())
    kinds = [isinstance(value, type) for value in found.values()]
    assert kinds.count(False) > 1300 and kinds.count(True) > 150
    assert [name for name, value in found.items() if ">>>" not in (inspect.getdoc(value) or "")] == []


METHODS = (types.FunctionType, classmethod, staticmethod)


def test_every_public_method_says_what_it_does():
    # Of what is made by hand for pytrees, or overrides a method that says it, there is nothing more to say.
    silent = [
        f"{name}.{member}"
        for name, value in named()
        if isinstance(value, type)
        for member, method in vars(value).items()
        if not member.startswith(("_", "tree_")) and isinstance(method, METHODS) and not inspect.getdoc(method)
        if not any(getattr(getattr(base, member, None), "__doc__", "") for base in value.__mro__[1:])
    ]
    assert silent == []


def test_what_shows_nothing_is_seen(monkeypatch):
    monkeypatch.setattr(functad.train.Epoch, "__doc__", "What one pass over the training data gave.")
    with pytest.raises(AssertionError, match="functad.train.Epoch"):
        test_everything_public_shows_how_it_is_used()


@pytest.mark.parametrize("name", MODULES)
def test_a_module_lists_public_names_alone(name):
    module, listed = MODULES[name], dir(MODULES[name])
    assert len(set(listed)) == len(listed)
    for public in listed:
        value = getattr(module, public)
        assert not public.startswith("_") or public.startswith("__array_"), public
        assert public not in ("absent", "annotations", "TYPE_CHECKING", "Any", "Callable", "np", "jnp"), public
        if isinstance(value, types.ModuleType):
            assert value.__name__ in MODULES or value.__name__ == f"{name}.{public}", public
    if hasattr(module, "__all__"):
        assert set(module.__all__) <= set(listed)


@pytest.mark.parametrize("name", SHOWN)
def test_every_function_shows_how_it_is_called(name):
    without = [public for public, function in functions(MODULES[name]) if ">>>" not in (inspect.getdoc(function) or "")]
    assert not without


def made_by_builders():
    """Functions that are defined within another one, and dtypes, whose examples pytest does not find."""
    for module in map(MODULES.get, SHOWN):
        for name, function in functions(module):
            if "<locals>" in function.__code__.co_qualname and not hasattr(function, "__wrapped__"):
                yield module, name, function
    for name in [name for name in ACCEPTED if name in dir(functad)]:
        yield functad, name, getattr(functad, name)
    for name, value in vars(dtype_names).items():
        if isinstance(value, dtype_names.ScalarType):
            yield dtype_names, name, value


def names_at(function):
    """What an example may name without an import: what stands in the file."""
    return vars(importlib.import_module(function.__module__))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no qualified names before Python 3.11")
def test_examples_of_functions_that_builders_make():
    runner = doctest.DocTestRunner(checker=CloseNumbers(), verbose=False, optionflags=FLAGS)
    made = list(made_by_builders())
    assert {"exp", "less", "bitwise_and", "transfer_guard", "bfloat16"} <= {name for _, name, _ in made}
    failed = []
    for module, name, function in made:
        known = names_at(function) | vars(module)
        test = doctest.DocTestParser().get_doctest(function.__doc__, known, name, None, 0)
        failed += [f"{module.__name__}.{name}"] * (runner.run(test).failed > 0)
    assert not failed


def test_a_function_without_an_example_is_seen():
    module = types.ModuleType("functad.some")
    module.f = test_the_modules_meant_are_found
    module.f.__module__ = "functad.some"
    try:
        assert [name for name, _ in functions(module)] == ["f"]
    finally:
        module.f.__module__ = __name__
