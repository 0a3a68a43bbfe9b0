"""Layouts over the one device: what JAX tells of arrays and types, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import functad

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import functad.numpy  # noqa: E402

X = np.arange(4, dtype=np.float32)


def sharding(m, *names):
    mesh = m.make_mesh((1, 1), ("data", "model"), (m.sharding.AxisType.Auto,) * 2)
    return m.sharding.NamedSharding(mesh, m.sharding.PartitionSpec(*names))


TOLD = {
    "a type": lambda m: repr(m.typeof(m.numpy.ones((2, 3))).sharding),
    "a scalar's type": lambda m: repr(m.typeof(1.0).sharding),
    "an array": lambda m: repr(m.numpy.ones(2).sharding),
    "put": lambda m: repr(m.device_put(X, sharding(m, "data")).sharding),
    "put again": lambda m: repr(m.device_put(m.device_put(X, sharding(m, "data")), m.devices()[0]).sharding),
    "kept": lambda m: m.device_put(m.device_put(X, sharding(m, "data"))).sharding == sharding(m, "data"),
    "a tree": lambda m: [
        repr(x.sharding) for x in m.device_put((X, X[None]), (sharding(m), sharding(m, None, "data")))
    ],
    "constraint": lambda m: m.lax.with_sharding_constraint(X, sharding(m, "data")).sharding == sharding(m, "data"),
    "a struct": lambda m: m.ShapeDtypeStruct((2,), "float32", sharding=sharding(m, "data")).sharding.spec[0],
    "specs": lambda m: (m.P("a") == ("a",), m.P(None) == m.P(), repr(m.P("a", None))),
}
REFUSED = {
    "put": lambda m: m.device_put(X, sharding(m, "data", "model")),
    "put a number": lambda m: m.device_put(1.0, sharding(m, "data")),
    "put another tree": lambda m: m.device_put((X, X), (sharding(m),) * 3),
    "put elsewhere": lambda m: m.device_put(X, "tpu"),
    "constraint": lambda m: m.jit(lambda x: m.lax.with_sharding_constraint(x, sharding(m, "data", "model")))(X),
    "constraint of another tree": lambda m: m.lax.with_sharding_constraint((X, X), (sharding(m),)),
    "arguments": lambda m: m.jit(lambda x: x, in_shardings=sharding(m, "data", "model"))(X),
    "arguments of another tree": lambda m: m.jit(lambda x, y: x, in_shardings=(sharding(m),))(X, X),
    "results": lambda m: m.jit(lambda x: x, out_shardings=sharding(m, "data", "model"))(X),
    "results of another tree": lambda m: m.jit(lambda x: (x, x), out_shardings=(sharding(m),))(X),
    "a struct": lambda m: m.ShapeDtypeStruct((2,), "float32", sharding=sharding(m, None, "data")),
    "specs without a mesh": lambda m: m.device_put(X, m.P("data")),
}


@pytest.mark.parametrize("name", TOLD)
def test_layouts_are_told_as_jax_does(name):
    assert TOLD[name](functad) == TOLD[name](jax)


@pytest.mark.parametrize("name", REFUSED)
def test_what_jax_refuses_is_refused(name):
    for m in (jax, functad):
        with pytest.raises(ValueError):
            REFUSED[name](m)


def test_a_traced_array_has_no_layout_of_its_own():
    for m in (jax, functad):
        with pytest.raises(AttributeError):
            m.jit(lambda x: x.sharding)(X)
