"""What public modules list, and that what they list shows how it is called."""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import pkgutil
import sys
import types

import pytest
from test_readme import FLAGS, CloseNumbers

import functad


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


# Functions that decide nothing here, that read files which may not be there, or whose example stands in another's.
WITHOUT_EXAMPLE = set(
    "add_jaxvals add_tangents check_tracer_leaks checking_leaks default_matmul_precision "
    "default_prng_impl defbilinear explain_cache_misses imdb merge_linear_aux mnist rt_polarity shakespeare "
    "threefry_partitionable training_step transfer_guard".split()
)


def test_public_functions_show_how_they_are_called():
    found = {public: value for module in MODULES.values() for public, value in functions(module)}
    found |= {public: value for public, value in vars(functad.train).items() if public in functad.train.__all__}
    shown = [n for n, f in found.items() if isinstance(f, types.FunctionType) and ">>>" in (inspect.getdoc(f) or "")]
    missing = {n for n, f in found.items() if isinstance(f, types.FunctionType)} - set(shown)
    assert len(shown) > 1000 and missing == WITHOUT_EXAMPLE, missing ^ WITHOUT_EXAMPLE


# Names of JAX's that mean little here, types that are only asked for, and errors that need a GPU, or a fault.
CLASSES_WITHOUT_EXAMPLE = set(
    "CompilationError CopyError CustomVJPPrimal DebugInfo DeviceError DeviceFaultError DropVar EigImplementation "
    "EighImplementation Epoch ErrorCategory MaskError MissingDataError NestingError RaggedDotDimensionNumbers Residual "
    "Run StoreException SymbolicZero TooLargeError Trace TraceTag Tracer TracerError UnsupportedNumpyError "
    "WideningWarning WrappedFun".split()
)


def test_public_classes_show_how_they_are_met():
    named = {public: getattr(module, public) for module in MODULES.values() for public in dir(module)}
    named |= {public: getattr(functad.train, public) for public in functad.train.__all__}
    found = {c for c in named.values() if isinstance(c, type) and c.__module__.startswith("functad")}

    def shows(kind):
        kinds = (types.FunctionType, property, functools.cached_property)
        methods = [value for name, value in vars(kind).items() if not name.startswith("_") and isinstance(value, kinds)]
        return any(">>>" in (value.__doc__ or "") for value in (kind, *methods))

    without = {c.__name__ for c in found if not shows(c)}
    assert len(found) > 120 and without == CLASSES_WITHOUT_EXAMPLE, without ^ CLASSES_WITHOUT_EXAMPLE


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
    """Functions that are defined within another one, whose examples pytest does not find."""
    for module in map(MODULES.get, SHOWN):
        for name, function in functions(module):
            if "<locals>" in function.__code__.co_qualname and not hasattr(function, "__wrapped__"):
                yield module, name, function


def names_at(function):
    """What an example may name without an import: what stands in the file."""
    return vars(importlib.import_module(function.__module__))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no qualified names before Python 3.11")
def test_examples_of_functions_that_builders_make():
    runner = doctest.DocTestRunner(checker=CloseNumbers(), verbose=False, optionflags=FLAGS)
    made = list(made_by_builders())
    assert {"exp", "less", "bitwise_and"} <= {name for _, name, _ in made}
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
