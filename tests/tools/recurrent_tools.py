"""What the tests of recurrent layers share: small inputs, params without zeros, comparison in float64.

Knows nothing of any layer.
"""

from __future__ import annotations

import numpy as np
import pytest

import functad

KEY = functad.random.key(0)
RNG = np.random.default_rng(0)
BATCH, STEPS, INPUTS, FEATURES = 3, 5, 4, 2
LENGTHS = np.array([5, 2, 0])


def inputs(*shape, dtype=np.float64):
    return RNG.normal(size=shape or (BATCH, STEPS, INPUTS)).astype(dtype)


def drawn(params, dtype=np.float64):
    """Params of the same shapes, none of them zero."""
    return functad.tree.map(lambda p: RNG.normal(size=p.shape).astype(dtype), params)


def close(a, b, rtol=1e-10, atol=1e-12):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=atol)


def fails(error, text, call):
    with pytest.raises(error, match=text):
        call()
