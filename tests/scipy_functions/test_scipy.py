"""The rooms of `functad.scipy`: what each shows, that every function has an example, and what is refused."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import functad
from functad import scipy
from functad.errors import AbsentNameError, ArgumentError, ShapeError

MODULES = sorted(m.name for m in pkgutil.walk_packages(scipy.__path__, "functad.scipy."))
PUBLIC = [name for name in MODULES if hasattr(importlib.import_module(name), "__all__")]


@pytest.mark.parametrize("name", ["functad.scipy", *PUBLIC])
def test_dir_shows_the_public_names_and_all_are_there(name):
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)
    for public in module.__all__:
        assert getattr(module, public) is not None
    with pytest.raises(AbsentNameError, match=f"module '{name}' has no attribute 'qqqqqq'; dir\\("):
        module.qqqqqq  # noqa: B018


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_function_has_an_example(name):
    module = importlib.import_module(name)
    for public in module.__all__:
        f = getattr(module, public)
        if not inspect.ismodule(f):
            assert doctest.DocTestParser().get_examples(f.__doc__ or ""), f"{name}.{public}"


def test_the_functions_of_scipy_are_not_scipys():
    assert functad.scipy.integrate.trapezoid(np.array([1, 2, 3])) == 4


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: scipy.cluster.vq.vq(np.ones((3, 2)), np.ones(3)), ShapeError, r"vq: .*\(3, 2\) and \(3,\)"),
        (lambda: scipy.ndimage.map_coordinates(np.ones((3, 2)), [np.ones(2)], 1), ArgumentError, "each of the 2 axes"),
        (lambda: scipy.ndimage.map_coordinates(np.ones(3), [np.ones(2)], 3), ArgumentError, "order must be 0"),
        (lambda: scipy.ndimage.map_coordinates(np.ones(3), [np.ones(2)], 1, "grid"), ArgumentError, "mode must be one"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
