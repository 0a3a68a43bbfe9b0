"""Derivatives of `functad.numpy` functions against differences, and `vmap` against a loop."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp

X = np.random.default_rng(0).uniform(0.3, 1.7, (3, 4))
M = np.random.default_rng(1).normal(size=(4, 4))
ROWS = np.array([2, 0, 0])

FUNCTIONS = {
    "arithmetic": lambda x: x * 2.5 + x / 3 - x**2 + 2**x + x % 0.7 + x // 2,
    "power-array": lambda x: jnp.power(x, x),
    "power-at-0": lambda x: (x - x) ** 2 + x,
    "float-power": lambda x: jnp.float_power(x, 1.5),
    "logaddexp": lambda x: jnp.logaddexp(x, 1 - x) + jnp.logaddexp2(x, 2 * x),
    "hypot": lambda x: jnp.hypot(x, 2.0),
    "sinc": lambda x: jnp.sinc(x) + jnp.sinc(x * 0.01),
    "log2": lambda x: jnp.log2(x) + jnp.log10(x) + jnp.log1p(x),
    "arctan2": lambda x: jnp.arctan2(x, 1 + x),
    "clip": lambda x: jnp.clip(x, 0.5, 1.5),
    "where": lambda x: jnp.where(x > 1, x**2, jnp.sin(x)),
    "maximum": lambda x: jnp.maximum(x, 1.0) + jnp.fmin(x, 0.9),
    "copysign": lambda x: jnp.copysign(x, -1.0),
    "nan_to_num": lambda x: jnp.nan_to_num(x),
    "select": lambda x: jnp.select([x > 1, x > 0.5], [x, x**2], 0.0),
    "piecewise": lambda x: jnp.piecewise(x, [x < 1], [lambda v: v**2, lambda v: 3 * v]),
    "sum": lambda x: x.sum(axis=0) * x.sum(),
    "sum-where": lambda x: jnp.sum(x**2, axis=1, where=X > 1),
    "prod": lambda x: jnp.prod(x, axis=1),
    "max": lambda x: x.max(axis=1) + x.min(),
    "mean-var-std": lambda x: x.mean() + x.var(axis=0) + x.std(axis=0, ddof=1),
    "nanmean": lambda x: jnp.nanmean(jnp.where(x > 1.5, jnp.nan, x), axis=0),
    "nanmax": lambda x: jnp.nanmax(x, axis=0),
    "average": lambda x: jnp.average(x, axis=1, weights=x),
    "cumsum": lambda x: jnp.cumsum(x, axis=1) * jnp.cumprod(x, axis=0),
    "median": lambda x: jnp.median(x, axis=0),
    "quantile": lambda x: jnp.quantile(x, jnp.array([0.3, 0.8]), axis=1),
    "sort": lambda x: jnp.sort(x, axis=1) * jnp.arange(4),
    "reshape": lambda x: x.reshape(4, 3).T.ravel(),
    "stack": lambda x: jnp.stack([x, x**2], axis=1),
    "concatenate": lambda x: jnp.concatenate([x, x[:, ::-1] ** 2], axis=0),
    "split": lambda x: jnp.split(x, 2, axis=1)[1] ** 2,
    "tile": lambda x: jnp.tile(x, (2, 2)) * jnp.tile(x, (2, 2)),
    "repeat": lambda x: jnp.repeat(x, 3, axis=1) ** 2,
    "roll": lambda x: jnp.roll(x, 1, axis=1) * x,
    "pad": lambda x: jnp.pad(x, 1, mode="reflect") ** 2 + jnp.pad(x, 1),
    "flip": lambda x: jnp.rot90(x)[:3, :3] * jnp.flip(x)[:, :3],
    "matmul": lambda x: x @ M @ x.T,
    "dot": lambda x: jnp.dot(x[0], x[1]) + jnp.vdot(x, x) + jnp.inner(x[0], x[2]),
    "outer": lambda x: jnp.outer(x[0], x[1]),
    "tensordot": lambda x: jnp.tensordot(x, x, axes=([0, 1], [0, 1])),
    "kron": lambda x: jnp.kron(x[:2, :2], x),
    "cross": lambda x: jnp.cross(x[:, :3], x[::-1, :3]),
    "einsum": lambda x: jnp.einsum("ij,kj,jl->ikl", x, x, M),
    "einsum-diagonal": lambda x: jnp.einsum("ii->i", x[:, :3] ** 2),
    "trace": lambda x: jnp.trace(x[:, :3] @ x[:, :3]) + jnp.diagonal(x, 1).sum(),
    "diag": lambda x: jnp.diag(x[0]) @ M,
    "tril": lambda x: jnp.tril(x) * x,
    "getitem": lambda x: x[1] * x[::2, 3][0] + x[..., None, 1:3].sum(),
    "getitem-array": lambda x: x[ROWS] ** 2 + x[ROWS, ROWS].sum(),
    "getitem-mask": lambda x: x[X > 1] ** 2,
    "at-set": lambda x: x.at[1].set(x[0] ** 2) * x,
    "at-add": lambda x: x.at[ROWS].add(x**2),
    "at-multiply": lambda x: x.at[:, 1:3].multiply(x[:, :2]),
    "at-max": lambda x: x.at[0].max(x[1]),
    "at-divide": lambda x: x.at[0, 1].divide(x[1, 1]),
    "take": lambda x: jnp.take(x, ROWS, axis=0) ** 2,
    "take_along_axis": lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1) * jnp.arange(4),
    "interp": lambda x: jnp.interp(x, jnp.array([0.0, 1.0, 2.0]), jnp.array([0.0, 2.0, 3.0])),
    "gradient": lambda x: jnp.gradient(x, axis=1) * x,
    "diff": lambda x: jnp.diff(x, axis=0) ** 2,
    "trapezoid": lambda x: jnp.trapezoid(x**2, dx=0.1),
    "convolve": lambda x: jnp.convolve(x[0], x[1]) + jnp.correlate(x[0], x[1], "full"),
    "polyval": lambda x: jnp.polyval(x[0], x[1]),
    "cov": lambda x: jnp.cov(x) + jnp.corrcoef(x),
    "linspace": lambda x: jnp.linspace(x[0], x[1], 3),
    "vectorize": lambda x: jnp.vectorize(lambda a, b: a * b**2)(x, x[0]),
    "apply_along_axis": lambda x: jnp.apply_along_axis(lambda v: v * v.sum(), 0, x),
    "numpy": lambda x: np.sin(x) * np.sum(np.multiply(x, 2.0)) + np.concatenate([x, x]).mean(),
}


def numeric_gradient(f, x, step=1e-6):
    result = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        shift = np.zeros_like(x)
        shift[index] = step
        result[index] = (float(f(x + shift)) - float(f(x - shift))) / (2 * step)
    return result


def scalar_of(function):
    """A weighted sum of the results, so that every element has a derivative of its own."""

    def f(x):
        y = function(x)
        weights = np.cos(np.arange(y.size)).reshape(y.shape)
        return jnp.sum(y * weights)

    return f


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_is_that_of_differences(name):
    f = scalar_of(FUNCTIONS[name])
    found = functad.grad(f)(X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(
        np.asarray(found), numeric_gradient(lambda x: f(jnp.asarray(x)), X), rtol=1e-5, atol=1e-6
    )


@pytest.mark.generated(every=6)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jitted_gradient_is_the_same(name):
    f = scalar_of(FUNCTIONS[name])
    np.testing.assert_allclose(
        np.asarray(functad.grad(functad.jit(f))(X)), np.asarray(functad.grad(f)(X)), rtol=1e-9, atol=1e-12
    )


BATCHED = np.random.default_rng(2).uniform(0.3, 1.7, (2, 3, 4))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_is_a_loop(name):
    function = FUNCTIONS[name]
    found = functad.vmap(function)(BATCHED)
    expected = np.stack([np.asarray(function(jnp.asarray(x))) for x in BATCHED])
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-9, atol=1e-12)


def test_sinc_has_derivatives_at_0():
    f = jnp.sinc
    for expected in (1.0, 0.0, -(np.pi**2) / 3, 0.0):
        assert float(f(0.0)) == pytest.approx(expected, abs=1e-5)
        f = functad.grad(f)


def test_gradient_of_traced_index():
    x = jnp.arange(4.0)
    found = functad.jit(functad.grad(lambda x, i: x[i] ** 2))(x, 2)
    np.testing.assert_allclose(np.asarray(found), [0, 0, 4, 0])


def test_vmap_of_indices():
    x = jnp.arange(12.0).reshape(3, 4)
    found = functad.vmap(lambda row, i: row[i])(x, jnp.array([1, 3, 0]))
    np.testing.assert_allclose(np.asarray(found), [1, 7, 8])
