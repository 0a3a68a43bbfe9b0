"""Positions outside of an array: JAX's results, traced or not."""

from __future__ import annotations

import numpy as np
import pytest
from position_cases import CASES, Modules

import functad
import functad.numpy as jnp
from functad import lax

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

OURS = Modules(jnp, lax, functad.vmap, functad.grad)
JAXS = Modules(jax.numpy, jax.lax, jax.vmap, jax.grad)


@pytest.mark.parametrize("name", CASES)
def test_positions_outside_are_jaxs(name: str) -> None:
    case = CASES[name]
    theirs = case(JAXS, jax.numpy.arange(5.0), jax.numpy.array([1, 7, -9]))
    ours = case(OURS, jnp.arange(5.0), jnp.array([1, 7, -9]))
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
