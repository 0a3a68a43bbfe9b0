"""Jitted functions in which 64-bit data meets 32-bit parameters say so once, and name the argument and the line."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.config import enable_x64
from functad.errors import WideningWarning

W = jnp.ones((3, 2))
X = np.ones((4, 3))


def loss(params, batch):
    return jnp.mean((batch["x"] * 2.0 @ params["w"]) ** 2)  # here they meet


def told(function, *args):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*args)
    return found


def test_it_says_where_and_what_to_do_once():
    step = functad.jit(functad.grad(lambda params, batch: loss(params, batch)))
    (found,) = told(step, {"w": W}, {"x": X})
    assert found.category is WideningWarning
    text = str(found.message)
    assert "argument `batch['x']`" in text and "float64 and meets float32" in text
    assert ".astype('float32')" in text and "enable_x64" in text
    line = Path(found.filename).read_text(encoding="utf-8").splitlines()[found.lineno - 1]
    assert "here they meet" in line
    assert told(step, {"w": W}, {"x": X}) == told(step, {"w": W}, {"x": X[:2]}) == []


TRANSFORMS = {
    "plain": lambda f: f,
    "grad": lambda f: functad.grad(lambda w, x: f(w, x).sum()),
    "vmap": lambda f: functad.vmap(f, in_axes=(None, 0)),
    "per example": lambda f: functad.vmap(functad.grad(lambda w, x: f(w, x).sum()), in_axes=(None, 0)),
    "scan": lambda f: lambda w, x: lax.scan(lambda c, row: (c, f(w, row)), 0.0, x)[1],
    "jit": lambda f: functad.jit(f),
    "checkpoint": lambda f: functad.checkpoint(f),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_within_transforms(name):
    (found,) = told(functad.jit(TRANSFORMS[name](lambda w, x: jnp.exp(x) @ w)), W, X)
    assert found.category is WideningWarning and "float64" in str(found.message)


@pytest.mark.parametrize(
    "function",
    [
        lambda w: w * np.linspace(0, 1, 2),
        lambda w: jnp.add(np.ones(2), w),
        lambda w: jnp.where(w > 0, w, np.ones(2)),
        lambda w: jnp.concatenate([w, np.ones((1, 2))]),
    ],
)
def test_arrays_that_a_function_makes_or_closes_over(function):
    (found,) = told(functad.jit(function), W)
    assert "an array of type f64[" in str(found.message) and "not an argument" in str(found.message)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda w, x: x @ w, (W, X.astype("float32"))),
        (lambda w, x: x @ w, (np.ones((3, 2)), X)),
        (lambda w, x: x.astype("float32") @ w, (W, X)),
        (lambda w, x: x @ w.astype("float64"), (W, X)),
        (lambda w, x: w * x.astype("float64"), (W, jnp.ones(2))),
        (lambda w, x: w * jnp.zeros(2, "float64"), (W, 1.0)),
        (lambda w, x: w * np.sqrt(2) * np.float64(x.size), (W, X)),
        (lambda w, i: w[i] * i, (W, np.int64(1))),
        (lambda n, x: x * n, (jnp.arange(3), X)),
    ],
)
def test_what_it_says_nothing_of(function, args):
    assert told(functad.jit(function), *args) == []


def test_without_jit_and_with_64_bits_it_says_nothing():
    assert told(lambda: X @ W) == told(lambda: functad.grad(lambda w: (X @ w).sum())(W)) == []
    with enable_x64():
        assert told(functad.jit(lambda w, x: x @ w), W, X) == []
