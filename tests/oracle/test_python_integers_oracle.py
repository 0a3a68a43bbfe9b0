"""Python integers outside of the range of the arrays that they meet: JAX's results, and JAX's errors."""

from __future__ import annotations

import numpy as np
import pytest
from python_integer_cases import CASES, REFUSED

import functad

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

X = np.array([0, 1, 5], np.uint8)


@pytest.mark.parametrize("k", [-3, 300])
@pytest.mark.parametrize("name", CASES)
def test_results_are_jaxs(name, k):
    theirs, ours = (CASES[name](m, m.numpy.asarray(X), k) for m in (jax, functad))
    assert (ours.dtype, ours.weak_type) == (theirs.dtype, theirs.weak_type)
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_what_jax_refuses_is_refused(name):
    for m in (jax, functad):
        with pytest.raises(OverflowError):
            REFUSED[name](m)
