"""Dtypes, arrays at random of few distinct numbers, and an equation as a Program beside its implementation."""

from __future__ import annotations

import numpy as np
from loops_tools import assert_same_array

import functad
from functad.backends.cpu.executable import compile_program
from functad.evaluation import implementation
from functad.tracing import bind

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
COMPLEX = ["complex64", "complex128"]
SOME = [*FLOATS, "int8", "int64", "uint16", "bool"]


def random_array(rng, shape, dtype, special=True):
    """Few distinct numbers, so that there are ties; for floats also NaN, infinities and zeros of both signs."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        part = f"f{dtype.itemsize // 2}"
        x = random_array(rng, shape, part, special).astype(dtype)
        x.imag = random_array(rng, shape, part, special)
        return x
    x = np.asarray(rng.integers(-5 if dtype.kind in "if" else 0, 6 if dtype.kind != "b" else 2, shape)).astype(dtype)
    if dtype.kind in "iu" and x.size:
        x.reshape(-1)[:: max(1, x.size // 3)] = [np.iinfo(dtype).min, np.iinfo(dtype).max][rng.integers(2)]
    if dtype.kind == "f" and special:
        chosen = rng.random(shape) < 0.4
        x = np.where(chosen, rng.choice([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], size=shape), x).astype(dtype)
    return x.astype(dtype).reshape(shape)


def program_of(primitive, args, params):
    return functad.make_jaxpr(lambda *a: bind(primitive, *a, **params))(*args)


def check_program(primitive, args, params):
    """Compare an equation, lowered and run as a Program, with the primitive's `impl`."""
    args = [np.asarray(a) for a in args]
    program = program_of(primitive, args, params)
    results = compile_program(program)(args)
    with np.errstate(all="ignore"):
        expected = implementation(primitive, [a.dtype for a in args])(*args, **params)
    expected = expected if primitive.multiple_results else [expected]
    for number, (result, want) in enumerate(zip(results, expected, strict=True)):
        what = f"{primitive.name}{[(a.shape, a.dtype.name) for a in args]} {params}, result {number}"
        assert_same_array(np.asarray(result), np.asarray(want), 0.0, what)
