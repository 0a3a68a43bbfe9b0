"""Conversion of floats to integers: one definition, whoever converts, and in every mode.

Truncation; what the dtype cannot hold becomes the end of its range, and NaN 0.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.primitives.kernels.conversion import converted

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SOURCES = ["float16", "float32", "float64", "complex64", "complex128"]
ENDS = [0.0, 127.0, 128.0, 255.0, 256.0, 32767.0, 65535.0, 2.0**31, 2.0**32, 2.0**53, 2.0**63, 2.0**64, 1e10, 1e30]
VALUES = [v + d for v in ENDS for d in (-1, -0.5, 0, 0.5, 1)] + [math.nan, math.inf, 0.49, 2.0**31 - 128]


def _values(dtype: str) -> np.ndarray:
    x = np.array([*VALUES, *(-v for v in VALUES)])
    with np.errstate(over="ignore"):
        narrow = x.astype(np.zeros(0, dtype).real.dtype)
    near = [np.nextafter(narrow, narrow.dtype.type(s)) for s in (-np.inf, np.inf)]
    return np.concatenate([narrow, *near]).astype(dtype)  # an odd number of vectors, and a rest


def _wanted(x: np.ndarray, dtype: str) -> np.ndarray:
    """The definition, by Python's integers, which have no bounds."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

    def convert(v: float) -> int:
        if math.isnan(v):
            return 0
        return (high if v > 0 else low) if math.isinf(v) else min(max(int(v), low), high)

    return np.array([convert(float(v)) for v in x.real], dtype)


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", SOURCES)
def test_arrays_are_converted_by_the_definition(source: str, target: str) -> None:
    x = _values(source)
    np.testing.assert_array_equal(converted(x, np.dtype(target)), _wanted(x, target))
    inside = np.array([1.9, 100.5, 0.0], source)  # the short way, for what fits
    np.testing.assert_array_equal(converted(inside, np.dtype(target)), np.array([1, 100, 0], target))
    assert converted(x[:0], np.dtype(target)).shape == (0,)


@pytest.mark.parametrize("source", SOURCES)
def test_every_mode_converts_by_the_definition(source: str) -> None:
    x = _values(source)
    wanted = [_wanted(x, target) for target in INTEGERS]

    def convert(v: Any) -> list[Any]:
        return [lax.convert_element_type(v, target) for target in INTEGERS]

    def in_loop(v: Any) -> list[Any]:
        return lax.scan(lambda c, e: (c, convert(e)), None, v)[1]

    for got in (convert(jnp.asarray(x)), functad.jit(convert)(x), functad.vmap(convert)(x), functad.jit(in_loop)(x)):
        for one, other in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(functad.jit(lambda v: v.astype("int32"))(x[7]), wanted[2][7])


def test_kernels_run_by_python_and_on_cuda_convert_by_the_definition() -> None:
    program = """
import numpy as np, functad, sys
from functad import lax
x = np.float32([300, -1, np.nan, np.inf, -np.inf, 1e10, -1e10, 2.5])
for backend in sys.argv[1:]:
    for dtype in ("int8", "uint8", "int32", "uint32", "int64", "uint64"):
        print(*np.asarray(functad.jit(lambda v: lax.convert_element_type(v, dtype), backend=backend)(x)))
"""
    x = np.float32([300, -1, np.nan, np.inf, -np.inf, 1e10, -1e10, 2.5])
    wanted = [" ".join(str(v) for v in _wanted(x, d)) for d in ("int8", "uint8", "int32", "uint32", "int64", "uint64")]
    for backend, setting in (("cpu", "NUMBA_DISABLE_JIT"), ("cuda", "NUMBA_ENABLE_CUDASIM")):
        run = subprocess.run(
            [sys.executable, "-c", program, backend], env={**os.environ, setting: "1"}, capture_output=True, text=True
        )
        assert run.stdout.splitlines() == wanted, run.stderr


def test_whoever_converts_uses_the_definition() -> None:
    x = np.float32([300, -1, np.nan, np.inf])
    wanted = np.uint8([255, 0, 0, 255])
    for made in (
        jnp.asarray(x).astype("uint8"),
        jnp.asarray(x, dtype="uint8"),
        jnp.array(x, dtype="uint8"),
        jnp.array([300.0, -1.0, math.nan, math.inf], dtype="uint8"),
        jnp.stack([jnp.asarray(v, dtype="uint8") for v in x.tolist()]),
        jnp.stack([jnp.full((), v, dtype="uint8") for v in x]),
        jnp.full_like(jnp.zeros(4, "uint8"), jnp.asarray(x)),
        functad.jit(lambda v: jnp.array([v[0], v[1], v[2], v[3]], dtype="uint8"))(x),
    ):
        assert made.dtype == np.uint8
        np.testing.assert_array_equal(made, wanted)
    assert int(jnp.asarray(math.inf, dtype=int)) == 2**31 - 1
    np.testing.assert_array_equal(jnp.arange(0.0, 400.0, 150.0, dtype="uint8"), np.uint8([0, 150, 255]))


def test_conversion_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large, tiny = np.array([1e300, -1e300, math.nan]), np.array([1 + 2j])
        for x in (jnp.asarray(large, dtype="float32"), jnp.asarray(large).astype("float16")):
            np.testing.assert_array_equal(x, [math.inf, -math.inf, math.nan])
        np.testing.assert_array_equal(jnp.array([1e300], dtype="float32"), [math.inf])
        np.testing.assert_array_equal(jnp.asarray(tiny, dtype="float32"), [1.0])
        np.testing.assert_array_equal(jnp.asarray(large).astype(bool), [True, True, True])
        np.testing.assert_array_equal(jnp.asarray(tiny - 1).astype(bool), [True])
