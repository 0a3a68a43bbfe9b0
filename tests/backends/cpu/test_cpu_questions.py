"""Loops that ask each row whether something holds of the same few elements: vectors run along the rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from kernel_ir import optimized_kernels

import functad
import functad.numpy as jnp
from functad import machine_model

KERNEL = """
def kernel(a, b, out, start, stop):
    for i in range(start, stop):
        at_a = a[i]
        found = False
        for j in range(30):
            found = found | (at_a == b[{place}])
        out[i] = found
"""


def _runs_along_rows(place: str) -> bool:
    """Whether answers are stored by vectors, if a kernel asks the elements at that place."""
    signature = [np.dtype(t) for t in ("int32", "int32", "bool")]
    module = optimized_kernels(KERNEL.format(place=place), "kernels.py", {"kernel": signature})
    assert re.search(r"icmp eq <\d+ x i32>", str(module))
    return bool(re.search(r"store <\d+ x i8>", str(module)))


def test_what_is_asked_of_the_same_elements_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _runs_along_rows("j")
    assert not _runs_along_rows("j + i")  # elements of its own for each row
    monkeypatch.setattr(machine_model, "MOST_QUESTIONS", 0)
    assert not _runs_along_rows("j")


@pytest.mark.parametrize("count", [16, 30, 100, 200])
@pytest.mark.parametrize("rows", [1, 7, 300])
@pytest.mark.parametrize("dtype", ["int8", "int32", "float32", "float64"])
def test_answers_are_numpys(dtype: Any, rows: int, count: int) -> None:
    rng = np.random.default_rng(count)
    x, values = (rng.integers(0, 100, n).astype(dtype) for n in (rows, count))
    np.testing.assert_array_equal(functad.jit(jnp.isin)(x, values), np.isin(x, values))
    apart = functad.jit(lambda x, v: jnp.all(jnp.abs(x[:, None] - v) > 0, 1))(x, values)
    np.testing.assert_array_equal(apart, ~np.isin(x, values))
