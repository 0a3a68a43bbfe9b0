"""Arrays of sizes that no memory holds: computed where that can be, else refused in plain words."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import machine_model
from functad.errors import TooLargeError

REDUCTIONS = {
    "sum": (jnp.sum, np.sum),
    "prod": (jnp.prod, np.prod),
    "max": (jnp.max, np.max),
    "min": (jnp.min, np.min),
    "all": (jnp.all, np.all),
    "any": (jnp.any, np.any),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axes", [None, 0, (1,), (0, 2), (-1,)])
def test_large_arrays_are_reduced_by_pieces(name, axes, monkeypatch):
    monkeypatch.setattr(machine_model, "PIECE_ELEMENTS", 16)
    ours, numpys = REDUCTIONS[name]
    x = np.random.default_rng(3).normal(1, 0.1, (6, 5, 7)).astype(np.float32)
    x = x > 0.9 if name in ("all", "any") else x
    np.testing.assert_allclose(np.asarray(ours(jnp.asarray(x), axes)), numpys(x, axes), rtol=1e-5)


def test_a_sum_of_more_elements_than_memory_holds():
    x = jnp.broadcast_to(jnp.float32(0.5), (3, 1 << 29))
    np.testing.assert_array_equal(np.asarray(x.sum(1)), np.full(3, 2.0**28, np.float32))


def test_more_elements_than_can_be_counted_are_refused():
    def outer(x, y):
        return jnp.broadcast_to(x, (1 << 40, 1)) * jnp.broadcast_to(y, (1, 1 << 40))

    with pytest.raises(TooLargeError, match="elements, more than any array can have"):
        functad.jit(outer)(1.0, 2.0)
    for jit in (functad.jit, lambda f: f):
        with pytest.raises(TooLargeError, match="more than any array can have"):
            jit(lambda x: jnp.broadcast_to(x, (1 << 32, 1 << 32)))(jnp.float32(1))
    assert functad.jit(lambda x: jnp.broadcast_to(x, (1 << 31, 1 << 31))[5, 7:9] * 2)(1.0).tolist() == [2, 2]
