"""`functad.ops` against `jax.ops`: values, dtypes and gradients, numbers outside of the range included."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import functad  # noqa: E402

DATA = np.random.default_rng(0).normal(size=(7, 2)).astype(np.float32)


@pytest.mark.parametrize("name", ["segment_sum", "segment_prod", "segment_max", "segment_min"])
@pytest.mark.parametrize("ids", [[0, 2, 0, -1, 5, 2, 2], [0, 0, 1, 1, 1, 2, 9]])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_segments_are_jaxs(name, ids, dtype):
    data, ids = (DATA * 3).astype(dtype), np.array(ids)
    for count in (None, 3, 6):
        found = getattr(functad.ops, name)(data, ids, count)
        expected = getattr(jax.ops, name)(data, ids, count)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-6)
    if dtype == "float32" and name != "segment_prod":  # JAX has no derivative of that
        ours = functad.grad(lambda x: getattr(functad.ops, name)(x, ids, 3)[0].sum())(data)
        theirs = jax.grad(lambda x: getattr(jax.ops, name)(x, ids, 3)[0].sum())(data)
        np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=1e-6)
