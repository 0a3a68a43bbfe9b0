"""The forward and the backward pass as two functions."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError


@pytest.mark.parametrize("jitted", [True, False])
def test_results_residuals_and_cotangents(jitted):
    fwd, bwd = functad.fwd_and_bwd(lambda w, x, scale: jnp.sin(w) * x["x"] * scale, (1, 0), jitted=jitted)
    for w in (1.0, 2.0):
        out, residuals = fwd(w, {"x": jnp.ones(2)}, scale=3.0)
        np.testing.assert_allclose(out, 3 * np.sin(w) * np.ones(2), rtol=1e-6)
        of_x, of_w = bwd(residuals, jnp.ones(2))
        np.testing.assert_allclose(of_x["x"], 3 * np.sin(w) * np.ones(2), rtol=1e-6)
        np.testing.assert_allclose(of_w, 6 * np.cos(w), rtol=1e-6)
    fwd, bwd = functad.fwd_and_bwd(lambda w, x: w * x, np.int64(-1), jitted=jitted)
    assert bwd(fwd(2.0, 3.0)[1], 1.0) == 2
    fwd, bwd = functad.fwd_and_bwd(lambda x: (x * x, "aux" if not jitted else x), 0, has_aux=True, jitted=jitted)
    out, residuals, aux = fwd(3.0)
    assert out == 9 and bwd(residuals, 1.0) == 6 and aux == ("aux" if not jitted else 3)


def test_an_argument_that_is_not_there():
    def scaled(x):
        return x

    with pytest.raises(ArgumentError, match="fwd_and_bwd: argnums=5 does not fit a call of scaled"):
        functad.fwd_and_bwd(scaled, 5, jitted=False)[0](1.0)
