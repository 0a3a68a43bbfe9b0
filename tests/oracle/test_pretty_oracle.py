"""The printed Programs are JAX's jaxprs, to the letter, once parameters that only XLA needs, or that say nothing, are
dropped."""

from __future__ import annotations

import re

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import jax.numpy as jax_numpy  # noqa: E402
from jax import lax as jax_lax  # noqa: E402
from jax.extend import core as jax_core  # noqa: E402

import functad  # noqa: E402
import functad.numpy as functad_numpy  # noqa: E402
from functad import lax as functad_lax  # noqa: E402

# Parameters that concern devices, or hints, which functad has none of, and precision, which is JAX's objects there.
JAX_ONLY = {
    "out_sharding",
    "sharding",
    "accuracy",
    "precision",
    "dimensions",
    "inline",
    "unique_indices",
    "indices_are_sorted",
}
KEEP = {("squeeze", "dimensions")}


# JAX prints a product on several lines, and its dtype where it is that of the operands, too.
PRODUCT = re.compile(r"dot_general\[\s+(dimension_numbers=[^\n]*)\s+(?:preferred_element_type=float32\s+)?\]")


def jax_text(fun, *args):
    return PRODUCT.sub(r"dot_general[\1]", str(without_jax_only(jax.make_jaxpr(fun)(*args).jaxpr)))


def without_jax_only(jaxpr, done=None):
    """The same jaxpr with fewer parameters; a jaxpr used twice stays one object, as the printer wants it."""
    done = {} if done is None else done
    if id(jaxpr) not in done:
        done[id(jaxpr)] = _without_jax_only(jaxpr, done)
    return done[id(jaxpr)]


def _without_jax_only(jaxpr, done):
    eqns = []
    for eqn in jaxpr.eqns:
        params = {}
        for key, value in eqn.params.items():
            if key in JAX_ONLY and (eqn.primitive.name, key) not in KEEP and eqn.primitive.name != "jit":
                continue
            if key == "preferred_element_type" and value == eqn.outvars[0].aval.dtype:
                continue
            if isinstance(value, jax_core.ClosedJaxpr):
                value = jax_core.ClosedJaxpr(without_jax_only(value.jaxpr, done), value.consts)
            if isinstance(value, tuple):
                value = tuple(int(v) if isinstance(v, np.integer) else v for v in value)
            params[key] = value
        eqns.append(eqn.replace(params=params))
    return jaxpr.replace(eqns=eqns)


def f32(*shape):
    return np.ones(shape, np.float32)


class Jax:
    jnp, lax, api = jax_numpy, jax_lax, jax


class Functad:
    jnp, lax, api = functad_numpy, functad_lax, functad


CASES = {
    "scalar": (lambda m: lambda x: m.jnp.sin(x) * 2 + x / 3.0 - 1, [1.0]),
    "matmul_tanh": (lambda m: lambda x, w, b: m.jnp.tanh(x @ w + b), [f32(8, 784), f32(784, 10), f32(8, 10)]),
    "batched": (lambda m: lambda a, b: a @ b, [f32(2, 3, 4), f32(2, 4, 5)]),
    "constants": (lambda m: lambda x: x + m.jnp.asarray(np.arange(3, dtype=np.float32)) * 2, [f32(3)]),
    "reductions": (lambda m: lambda x: (x.sum(), x.max(axis=0), m.jnp.prod(x, axis=1)), [f32(2, 3)]),
    "mixed_dtypes": (lambda m: lambda x, n: x * n + 1, [f32(3), np.arange(3, dtype=np.int32)]),
    "comparison": (lambda m: lambda x, y: (x < y, x == y, m.jnp.maximum(x, 0)), [f32(3), f32(3)]),
    "power": (lambda m: lambda x: (x**2, x**3, m.jnp.sqrt(x)), [f32(3)]),
    "unused": (lambda m: lambda x: m.lax.sort((x, x))[0], [f32(3)]),
    "structure": (lambda m: lambda x: m.jnp.transpose(x).reshape(-1), [f32(2, 3)]),
    "lax_slice": (lambda m: lambda x: m.lax.slice(x, (0, 1), (2, 3), (1, 2)), [f32(2, 3)]),
    "pad": (lambda m: lambda x: m.lax.pad(x, np.float32(0), ((1, 0, 2), (0, -1, 0))), [f32(2, 3)]),
    "pool": (
        lambda m: lambda x: m.lax.reduce_window(x, -np.inf, m.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"),
        [f32(2, 1, 8, 8)],
    ),
    "cumsum": (lambda m: lambda x: m.lax.cumsum(x, axis=1, reverse=True), [f32(2, 3)]),
    "nested_jit": (lambda m: lambda x: m.api.jit(m.api.jit(m.jnp.sin))(x), [1.0]),
    "jit_reused_names": (lambda m: lambda x: m.api.jit(lambda y: (y * 2, x))(x), [f32(3)]),
    "many_inputs": (lambda m: lambda *xs: sum(xs[1:], xs[0]), [1.0] * 40),
    "no_equations": (lambda m: lambda x: (x, 3.0, 1, True), [np.int8(1)]),
    "literals": (lambda m: lambda x: (x * np.float32("nan"), x * np.inf, x * 0.1, x * 1e-20), [1.0]),
    "stop_gradient": (lambda m: lambda x: m.lax.stop_gradient(x) * 2, [1.0]),
    "vmap": (lambda m: m.api.vmap(lambda x: m.jnp.sin(x) * 2), [f32(3, 4)]),
    "clamp_select": (lambda m: lambda x: m.lax.select(x > 0, m.lax.clamp(0.0, x, 1.0), x), [f32(3)]),
}


@pytest.mark.parametrize("name", CASES)
def test_prints_as_jax(name):
    make, args = CASES[name]
    assert str(functad.make_jaxpr(make(Functad))(*args)) == jax_text(make(Jax), *args)


def test_long_and_shared_programs_print_as_in_jax():
    def fun(m):
        def long(x):
            for _ in range(6):
                x = m.jnp.sin(x) * 2
            return x

        inner = m.api.jit(long)
        return lambda x: inner(inner(x))

    assert str(functad.make_jaxpr(fun(Functad))(1.0)) == jax_text(fun(Jax), 1.0)


def test_the_comparison_can_fail():
    assert str(functad.make_jaxpr(lambda x: x * 2)(1.0)) != jax_text(lambda x: x * 3, 1.0)
