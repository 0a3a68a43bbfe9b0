"""Sorts that call NumPy's function: rows one after another, and one long row in buckets.

Knows `loops_tools`; most cases run as plain Python, with the guards of that, and as machine code.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from loops_tools import check_loops

import functad
import functad.numpy as jnp
from functad import machine_model
from functad.all_primitives import registry
from functad.system import numpy_sort


def _along(axis):
    return {"dimension": axis, "is_stable": True, "num_keys": 1}


needs_numpys_sort = pytest.mark.skipif(
    not numpy_sort.is_fast(np.uint32), reason="NumPy sorts numbers one by one here, or its sort cannot be called"
)


@pytest.mark.parametrize("looked_through", [1, 1 << 9])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64"])
def test_rows_sorted_by_numpys_function(dtype, looked_through, monkeypatch):
    """Of NaN, infinities and zeros of both signs, too; rows that lie apart, and few short ones."""
    monkeypatch.setattr(machine_model, "ROW_LOOKED_THROUGH", looked_through)
    rng = np.random.default_rng(16)
    few = [0.0, -0.0, np.nan, -np.inf, np.inf, 1] if dtype.startswith("f") else [0, 1, 2]
    for shape, axis in [((90,), 0), ((3, 60), 1), ((60, 3), 0), ((1, 70, 1), 1), ((2, 5, 2), 1)]:
        with np.errstate(invalid="ignore"):
            numbers = (99 * rng.normal(size=shape)).astype(dtype)
        x = np.where(rng.random(shape) < 0.5, np.array(few, dtype)[rng.integers(0, len(few), shape)], numbers)
        for compiled in (False, True):
            check_loops(registry["sort"], [x], _along(axis), compiled=compiled, sorts=True)


@pytest.mark.parametrize("looked_through", [1, 1 << 9])
@pytest.mark.parametrize("sign", [1, -1])
def test_signs_of_zeros_that_are_the_first_the_last_or_all_numbers(sign, looked_through, monkeypatch):
    monkeypatch.setattr(machine_model, "ROW_LOOKED_THROUGH", looked_through)
    zeros = np.where(np.random.default_rng(22).random(40) < 0.5, 0.0, -0.0).astype(np.float32)
    others = np.linspace(1, 9, 50, dtype=np.float32) * sign
    for x in (zeros, others, np.concatenate([zeros, others]), np.array([-0.0, np.nan] * 30, np.float32)):
        for compiled in (False, True):
            check_loops(registry["sort"], [np.tile(x, (2, 2))], _along(1), compiled=compiled, sorts=True)


@needs_numpys_sort
def test_compiled_functions_call_numpys_sort(monkeypatch):
    x = np.random.default_rng(19).normal(size=(300, 100)).astype(np.float32)
    jitted = functad.jit(jnp.sort)
    assert "sort_numbers(" in jitted.lower(x).kernels
    np.testing.assert_array_equal(jitted(x), np.sort(x))
    assert "def sort_network" in functad.jit(jnp.sort).lower(x[:, :20]).kernels
    monkeypatch.setattr("functad.backends.cpu.lowering.is_fast", lambda dtype: False)
    assert "sort_numbers(" not in functad.jit(lambda x: jnp.sort(x)).lower(x).kernels


def test_the_address_of_numpys_sort():
    for dtype in ("float32", "int64"):
        x = np.random.default_rng(20).permutation(99).astype(dtype)
        address = numpy_sort.sort_address(np.dtype(dtype))
        assert address
        sort = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_void_p)(address)
        assert sort(x.ctypes.data, 90, None) == 0
        np.testing.assert_array_equal(x[:90], np.sort(x[:90]))
    assert not numpy_sort.is_fast(np.int8) and not numpy_sort.is_fast(np.complex64)


@pytest.mark.parametrize("by_lines", [False, True])
@pytest.mark.parametrize(("dtype", "compiled"), [("int32", False), ("float32", False), ("uint32", True)])
def test_sort_of_one_row_in_buckets(dtype, compiled, by_lines, monkeypatch):
    """Keys that are spread evenly, of which most lie together, that are equal, and in their order already."""
    settings = {"BUCKETED_ROW": 1, "BUCKETED_FLOATS": 1, "SMALLEST_PIECE": 40, "WRITTEN_BY_LINES": 0}
    for name, value in settings.items():
        monkeypatch.setattr(machine_model, name, value if name != "WRITTEN_BY_LINES" or by_lines else 1 << 30)
    rng, n = np.random.default_rng(21), 20_000 if compiled else 120
    even = rng.integers(0, 2**31, n)
    outlier = np.where(np.arange(n) == 7, 2**30, rng.integers(0, n, n))
    others = [rng.normal(size=n).astype(np.float32), np.arange(n, dtype=np.int32), rng.normal(size=n)]
    is_int = dtype == "int32"
    for keys in (even, outlier, *([rng.integers(0, 2, n), np.arange(n)] if is_int else [])):
        x = keys.astype(dtype)
        for other in others[: 3 if is_int else 1]:
            check_loops(registry["sort"], [x, other], _along(0), compiled=compiled, sorts=True)
    if is_int:
        check_loops(registry["top_k"], [x], {"k": 36, "axis": 0}, sorts=True)


@needs_numpys_sort
@pytest.mark.parametrize("n", [5_000, 600_000])
def test_permutations_are_sorted_in_buckets(n):
    key = functad.random.key(3)
    shuffled = functad.jit(lambda key: functad.random.permutation(key, n))
    assert ("write_line(" in shuffled.lower(key).kernels) == (n > 100_000)
    assert "def sort_buckets" in shuffled.lower(key).kernels
    np.testing.assert_array_equal(shuffled(key), functad.random.permutation(key, n))


@pytest.mark.parametrize(("dtype", "length", "kernel"), [("int64", 120, "sort_rows"), ("int64", 170, "sort_positions")])
def test_wide_keys_are_counted_in_longer_rows(dtype, length, kernel):
    x = np.random.default_rng(20).integers(-(2**62), 2**62, (5, length)).astype(dtype)
    step = functad.jit(lambda x: jnp.argsort(x, 1))
    assert f"def {kernel}(" in str(step.lower(x).kernels)
    np.testing.assert_array_equal(step(x), np.argsort(x, 1, kind="stable"))
