"""With `numpy_dtypes="jax"` NumPy's 64-bit arrays and scalars become what they become in JAX, at every entrance."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import functad
from functad.config import config

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

from tests.tools.numpy_dtype_cases import CASES, run  # noqa: E402


@pytest.mark.parametrize("name", CASES)
def test_every_entrance(name):
    with warnings.catch_warnings(), config.context(numpy_dtypes="jax"):
        warnings.simplefilter("ignore")
        ours, theirs = functad.tree.leaves(run(functad, name)), jax.tree.leaves(run(jax, name))
    for found, expected in zip(ours, theirs, strict=True):
        found, expected = np.asarray(found), np.asarray(expected)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["asarray", "asked", "scalars", "operators", "jit", "grad", "vmap"])
def test_nothing_is_cut_with_64_bits_enabled(name):
    with warnings.catch_warnings(), config.context(numpy_dtypes="jax", enable_x64=True), jax.enable_x64(True):
        warnings.simplefilter("ignore")
        ours, theirs = functad.tree.leaves(run(functad, name)), jax.tree.leaves(run(jax, name))
    for found, expected in zip(ours, theirs, strict=True):
        assert np.asarray(found).dtype == np.asarray(expected).dtype
