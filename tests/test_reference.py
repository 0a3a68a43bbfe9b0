"""What the reference says of every function: shapes, errors and parameters, in its own words or those of its family."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import re
import sys
import types

import pytest
from test_public_names import named

import functad
from docs import reference, shared
from functad import errors
from functad import numpy as jnp

FUNCTIONS = {name: value for name, value in named() if not isinstance(value, type)}
CLASS = re.compile(r"^(?:[\w ]+\. )?((?:\w+(?:Error|Exception))(?:, \w+(?:Error|Exception))*):", re.MULTILINE)
PLACES = (errors, builtins, functad.data, functad.extend.linear_util)
SAYS_ERRORS = re.compile(r"^Raises:|\braises?\b", re.MULTILINE)


def own(value):
    return shared.prose(inspect.getdoc(value) or "")


def parameters(value):
    try:
        return [name for name in inspect.signature(value).parameters if not name.startswith("_")]
    except (TypeError, ValueError):
        return []


def without_shapes():
    return [n for n, f in FUNCTIONS.items() if not shared.says_shapes(own(f)) and "Shapes" not in shared.of(f)]


def without_errors():
    return [n for n, f in FUNCTIONS.items() if not SAYS_ERRORS.search(own(f)) and "Raises" not in shared.of(f)]


def without_parameters():
    """Functions of several parameters that name none of them."""
    for name, value in FUNCTIONS.items():
        said = own(value) + shared.of(value).get("Args", "")
        if len(known := parameters(value)) > 1 and not any(re.search(rf"\b{word}\b", said) for word in known):
            yield name


def test_every_function_says_shapes_errors_and_parameters():
    assert len(FUNCTIONS) > 1300
    assert without_shapes() == []
    assert without_errors() == []
    assert list(without_parameters()) == []


def test_what_is_not_said_is_seen(monkeypatch):
    monkeypatch.setattr(sys.modules["functad.numpy.reductions"], "__doc__", "Reductions.")
    monkeypatch.setattr(sys.modules["functad.numpy"], "__doc__", "Names.")
    assert "functad.numpy.prod" in without_shapes()
    assert "functad.numpy.prod" in without_errors()
    monkeypatch.setattr(jnp.prod, "__doc__", "The product.")
    assert "functad.numpy.prod" in without_parameters()


# --- errors are real ------------------------------------------------------------------------------------------


def raises_section(value):
    """The errors that hold for a function: its own section, or its family's."""
    return shared.sections(inspect.getdoc(value) or "").get("Raises") or shared.of(value).get("Raises", "")


@functools.cache
def definitions(module):
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def raised(module, name, with_helpers=True):
    """The classes of errors.py that a function raises itself, or in a private function of its file that it calls."""
    node = definitions(module).get(name)
    for inner in ast.walk(node) if node else ():
        if isinstance(inner, ast.Raise) and isinstance(inner.exc, ast.Call) and isinstance(inner.exc.func, ast.Name):
            if inner.exc.func.id in vars(errors):
                yield inner.exc.func.id
        elif with_helpers and isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
            if inner.func.id.startswith("_"):
                yield from raised(module, inner.func.id, with_helpers=False)


def is_said(error, section):
    """Whether a section names the class of an error, or one that it is of."""
    said = set(re.findall(r"\w+(?:Error|Exception)", section))
    return any(base.__name__ in said for base in getattr(errors, error).__mro__)


def test_what_a_function_raises_is_named():
    silent = []
    for name, value in FUNCTIONS.items():
        python = inspect.unwrap(value)
        if isinstance(python, types.FunctionType) and python.__module__ in sys.modules:
            section = raises_section(value) + own(value)
            found = set(raised(python.__module__, python.__name__))
            silent += [(name, error) for error in sorted(found) if not is_said(error, section)]
    assert silent == [], silent


def test_errors_that_are_named_exist():
    texts = {name: raises_section(value) for name, value in FUNCTIONS.items()}
    found = {error for text in texts.values() for error in re.findall(r"\b[A-Z]\w+(?:Error|Exception)\b", text)}
    assert len(found) > 15
    assert {error for error in found if not any(hasattr(place, error) for place in PLACES)} == set()


# --- families -------------------------------------------------------------------------------------------------

BROADCAST = "Arguments are arrays or numbers that broadcast"


def of_arrays(value):
    """How many arrays a function of a family takes that broadcast: those that have no default value, or a number."""
    known = inspect.signature(value).parameters.values()
    return sum(p.kind is not p.KEYWORD_ONLY and (p.default is p.empty or type(p.default) in (int, float)) for p in known)


def broadcasting():
    for name, value in FUNCTIONS.items():
        found = next((s["Shapes"] for _, s in shared.statements(value) if "Shapes" in s), "")
        if found.startswith(BROADCAST) and not shared.says_shapes(own(value)):
            yield name, value


def shapes_of(value, *shapes, dtype="float32"):
    given = [functad.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return {leaf.shape for leaf in functad.tree.leaves(functad.eval_shape(value, *given))}


def fits(value, count, dtype):
    """Whether shapes are joined as said; more arguments are scalars."""
    more = [()] * (count - 2)
    if count < 2:
        return shapes_of(value, (2, 1), dtype=dtype) == {(2, 1)}
    with pytest.raises(errors.ShapeError):
        shapes_of(value, (2,), (3,), *more, dtype=dtype)
    return shapes_of(value, (2, 1), (3,), *more, dtype=dtype) == {(2, 3)}


def test_families_broadcast_as_they_say():
    found = list(broadcasting())
    assert len(found) > 250
    for name, value in found:
        try:
            assert fits(value, of_arrays(value), "float32"), name
        except (errors.DTypeError, errors.ArgumentError):  # it takes integers
            assert fits(value, of_arrays(value), "int32"), name


def test_a_function_that_does_not_broadcast_is_seen():
    assert not fits(jnp.sum, 1, "float32")
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        fits(jnp.outer, 2, "float32")
