"""Rows and columns of one array that are reduced by one nest, which reads it once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.lowering.fusion.fuse import Fusion
from functad.lowering.nests.nest import GatheringStore
from functad.lowering.schedule import make_schedule
from functad.lowering.shared import variable_names
from functad.lowering.steps import NestStep
from functad.lowering.target import Machine
from functad.optimize.pipeline import simplify

SHAPE = (331, 257)  # of neither is a part of equal parts
LARGE = functad.ShapeDtypeStruct(SHAPE, "float32")
rng = np.random.default_rng(0)


def kinds(fun: Any, *types: Any, **options: Any) -> list[str]:
    program = simplify(functad.make_jaxpr(fun)(*types))
    return [u.kind for u in Fusion(program, variable_names(program).__getitem__, **options).groups]


def both(x: Any) -> Any:
    return x.sum(0), x.sum(1)


def after_the_rows(x: Any) -> Any:
    """A value at each point, one that follows from the sum of a row, and one from the sums of columns."""
    y = jnp.tanh(x)
    rows, columns = y.sum(1), (2.0 * y).sum(0)
    return y, jnp.sqrt(1.0 + rows * rows), columns / 3.0, y.max(0)


def normalised(params: Any, x: Any, ct: Any) -> Any:
    def layer(params: Any, x: Any) -> Any:
        centred = x - x.mean(1, keepdims=True)
        return centred / jnp.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * params[0] + params[1]

    return functad.vjp(layer, params, x)[1](ct)


def test_rows_and_columns_are_one_nest_whichever_comes_first() -> None:
    assert kinds(both, LARGE) == ["nest"]
    assert kinds(lambda x: (x.sum(1), jnp.square(x).sum(0), x.max(1), x.min(0)), LARGE) == ["nest"]
    assert kinds(lambda x: both(jnp.exp(x)), LARGE) == ["nest"]
    cube = functad.ShapeDtypeStruct((9, 40, 257), "float32")
    assert kinds(lambda x: (x.sum((0, 1)), x.sum(2)), cube) == ["nest"]


@pytest.mark.parametrize(
    "fun, shape, dtype",
    [
        (both, (33, 257), "float32"),  # small: the cache has it still
        (both, (20_000, 16), "float32"),  # short rows
        (both, (16, 20_000), "float32"),  # few rows
        (lambda x: (x.prod(0), x.sum(1)), SHAPE, "float32"),  # would over- or underflow elsewhere
        (both, SHAPE, "float16"),  # memory holds no float32 of it
        (lambda x: (x.sum((0, 2)), x.sum(1)), (40, 40, 257), "float32"),  # neither rows nor columns
        (lambda x: both(x.T + x), (300, 300), "float32"),  # half of it is read across rows
    ],
)
def test_others_stay_apart(fun: Any, shape: tuple[int, ...], dtype: str) -> None:
    assert len(kinds(fun, functad.ShapeDtypeStruct(shape, dtype))) > 1


@pytest.mark.parametrize("others", [(0,), (1,), (0, 1)])
def test_a_reduction_of_no_axes_is_its_operand(others: tuple[int, ...]) -> None:
    def none_and_some(x: Any) -> Any:
        y = jnp.sin(x)
        rest = lax.reduce_max_p.bind(y, axes=others)
        return lax.reduce_sum_p.bind(y, axes=()), rest, 2 * lax.reduce_max_p.bind(rest, axes=())

    x = rng.normal(size=(3, 4)).astype("float32")
    for found, wanted in zip(functad.jit(none_and_some)(x), none_and_some(x)):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_what_follows_from_columns_is_another_nest() -> None:
    def centred(x: Any) -> Any:
        return x.sum(1), x - x.sum(0)

    assert kinds(centred, LARGE) == ["nest", "nest"]
    assert kinds(lambda x: x / (x.sum(0) * x.sum(1)[:, None]), LARGE) == ["nest", "nest"]


def test_devices_get_a_nest_for_each() -> None:
    assert kinds(both, LARGE, crosses=False) == ["nest", "nest"]
    program = simplify(functad.make_jaxpr(both)(LARGE))
    for on_device in (False, True):
        steps = make_schedule(program, machine=Machine(on_device=on_device)).steps
        stores = [s for step in steps if isinstance(step, NestStep) for s in step.nest.stores]
        assert any(isinstance(s, GatheringStore) for s in stores) == (not on_device)


@pytest.mark.parametrize("shape", [SHAPE, (79, 1021), (9, 40, 257)])
def test_they_are_as_without_jit(shape: tuple[int, ...]) -> None:
    x = rng.normal(size=shape).astype(np.float32)
    x.flat[5], x.flat[-3] = np.inf, np.nan

    def reduced(x: Any) -> Any:
        x = x.reshape(-1, shape[-1])
        whole = (jnp.nan_to_num(x, posinf=3.0) * 100).astype("int32")
        return x.sum(0), x.sum(1), x.max(0), whole.sum(0), whole.sum(1), whole.prod(0), (x > 2).any(0), x.min(1)

    for one, other in zip(functad.jit(reduced)(x), reduced(jnp.asarray(x)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-5, strict=True)


@pytest.mark.parametrize("donated", [(), 0])
def test_what_else_the_nest_computes_is_stored_where_it_belongs(donated: Any) -> None:
    x = rng.normal(size=SHAPE).astype(np.float32)
    found = functad.jit(after_the_rows, donate_argnums=donated)(jnp.array(x))
    for one, other in zip(found, after_the_rows(jnp.asarray(x)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4, strict=True)


def test_the_gradients_of_a_normalisation_read_it_once() -> None:
    x, ct = (rng.normal(size=SHAPE).astype(np.float32) for _ in range(2))
    params = tuple(rng.normal(size=(2, SHAPE[1])).astype(np.float32))
    compiled = functad.jit(normalised)
    np.testing.assert_allclose(*(fun(params, x, ct)[1] for fun in (compiled, normalised)), rtol=1e-4, atol=1e-5)
    for one, other in zip(compiled(params, x, ct)[0], normalised(params, x, ct)[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    kernels = compiled.lower(params, x, ct).kernels
    assert sum("input_c" in line for line in kernels.splitlines() if line.startswith("def ")) == 2  # sums, then dx


def test_complex_sums_and_loops() -> None:
    z = (rng.normal(size=(2, *SHAPE)) @ np.eye(257)).astype(np.float32)
    z = z[0] + 1j * z[1]

    def steps(z: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            rows, columns = carry.sum(1), carry.sum(0)
            return carry * 0.5 + columns * 1e-3 + rows[:, None] * 1e-3, None

        return functad.lax.scan(step, z, None, length=3)[0]

    np.testing.assert_allclose(functad.jit(steps)(z), steps(jnp.asarray(z)), rtol=1e-4, atol=1e-4)
