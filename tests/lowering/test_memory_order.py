"""Reductions of turned arrays: they read along rows, and what follows from their results is as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functad
from functad import nn

rng = np.random.default_rng(0)
STACK = rng.normal(size=(3, 100, 120)).astype("float32")


@pytest.mark.parametrize(
    "fun, x",
    [
        (lambda x: x.T.mean(1), STACK[0]),
        (lambda x: 2 * x.T.prod(1), 1 + STACK[0] / 1000),
        (lambda x: nn.softmax(x.T, axis=1), STACK[0]),
        (lambda x: 2 * x.swapaxes(1, 2).sum(2) + 1, STACK),  # the first loop is not reduced: no part is cut off
        (lambda x: 2 * x.swapaxes(1, 2).max(2), (9 * STACK).astype("int8")),
    ],
)
def test_what_follows_from_sums_of_turned_arrays_is_computed(fun: Any, x: Any) -> None:
    np.testing.assert_allclose(functad.jit(fun)(x), fun(x), rtol=1e-5, atol=1e-5)
