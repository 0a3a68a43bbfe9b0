"""The strict arithmetic of arrays gives the bits that it gives of numbers.

Knows kernels/plain_arithmetic.py only.
"""

from __future__ import annotations

import numpy as np
import pytest

from functad.primitives.kernels.plain_arithmetic import ARRAYS, PlainArithmetic

NUMBERS = PlainArithmetic(strict=True)
X = np.random.default_rng(0).standard_normal(7).astype(np.float32)


def _at_each(function, *operands):
    return np.array([function(*(x[i] if isinstance(x, np.ndarray) else x for x in operands)) for i in range(7)])


@pytest.mark.parametrize("count", [2, 3, 6])
@pytest.mark.parametrize("several", [False, True])
def test_horner_rounds_alike(count: int, several: bool) -> None:
    coefficients = [np.float32(1.1) / (n + 1) for n in range(count)]
    if several:
        coefficients = [c * (1 + X) for c in coefficients]
    before = [np.copy(c) for c in coefficients], X.copy()
    found = ARRAYS.horner(X, coefficients)
    expected = _at_each(lambda x, *given: NUMBERS.horner(x, given), X, *coefficients)
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
    np.testing.assert_array_equal(before[1], X)  # neither operand is written over
    for old, new in zip(before[0], coefficients, strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("condition", [X > 0, X < 100, X > 100], ids=["some", "all", "none"])
def test_either_takes_the_first_where_the_condition_holds(condition: np.ndarray) -> None:
    first, second = (1.0, 2.5, -0.0), (3.0, 0.1, 0.0)
    for found, a, b in zip(ARRAYS.either(condition, first, second, np.float32), first, second, strict=True):
        expected = np.where(condition, np.float32(a), np.float32(b))
        np.testing.assert_array_equal(np.broadcast_to(found, 7).view(np.uint32), expected.view(np.uint32))
