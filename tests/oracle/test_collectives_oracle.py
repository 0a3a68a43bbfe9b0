"""Collectives over named axes: JAX's values and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from collective_cases import CASES, Modules

import functad
import functad.numpy as jnp
from functad import lax

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

OURS = Modules(jnp, lax, functad.grad, functad.jit, functad.vmap, functad.checkpoint)
JAXS = Modules(jax.numpy, jax.lax, jax.grad, jax.jit, jax.vmap, jax.checkpoint)
X = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


@pytest.mark.parametrize("name", CASES)
def test_collectives_are_jaxs(name: str) -> None:
    case = CASES[name]
    theirs = jax.tree.leaves(jax.vmap(lambda x: case(JAXS, x), axis_name="i")(X))
    ours = functad.tree.leaves(functad.vmap(lambda x: case(OURS, x), axis_name="i")(X))
    for a, b in zip(theirs, ours, strict=True):
        assert b.dtype == a.dtype
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=2e-5, atol=1e-6)
