"""Paths of contractions: no more multiplications than JAX's optimal ones, and JAX takes ours."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import functad.numpy as jnp  # noqa: E402
from functad.numpy.contraction_paths import multiplications  # noqa: E402

CASES = [
    ("ij,jk,kl,lm->im", ((30, 35), (35, 15), (15, 5), (5, 10))),
    ("ab,bc,cd,da->", ((4, 9), (9, 3), (3, 7), (7, 4))),
    ("abc,bd,cd,de->ae", ((3, 4, 5), (4, 6), (5, 6), (6, 7))),
    ("a,b,c,abc->", ((5,), (6,), (7,), (5, 6, 7))),
    ("ab,ac,ad,ae->bcde", ((2, 3), (2, 4), (2, 5), (2, 3))),
]


@pytest.mark.parametrize(("text", "shapes"), CASES)
def test_paths_cost_no_more_than_jaxs(text, shapes):
    x = [np.random.default_rng(0).normal(size=s).astype(np.float32) for s in shapes]
    inputs, output = text.split("->")[0].split(","), text.split("->")[1]
    sizes = {c: n for labels, s in zip(inputs, shapes) for c, n in zip(labels, s)}
    ours, theirs = jnp.einsum_path(text, *x)[0], jax.numpy.einsum_path(text, *x, optimize="optimal")[0]
    costs = [multiplications(inputs, output, sizes, tuple(map(tuple, path))) for path in (ours, theirs)]
    assert costs[0] <= costs[1] and all(isinstance(step, tuple) for step in theirs)
    expected = jax.numpy.einsum(text, *x, optimize=ours)
    np.testing.assert_allclose(np.asarray(jnp.einsum(text, *x, optimize=theirs)), np.asarray(expected), rtol=2e-4)
