"""The promotion table, the defaults and the names, compared with JAX."""

from __future__ import annotations

import itertools
import operator
import random

import numpy as np
import pytest

import functad.numpy
from functad import dtypes
from functad.config import enable_x64

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

# There is no weak bool.
DTYPES = [*dtypes.SUPPORTED, dtypes.bfloat16_dtype()]
OPERANDS = [(d, weak) for d in DTYPES for weak in (False, True) if not (weak and d in ("bool", "bfloat16"))]
NARROW = [(dtype, weak) for dtype, weak in OPERANDS if dtype not in ("int64", "uint64", "float64", "complex128")]
PYTHON_TYPES = [bool, int, float, complex]


def _jax_join(*operands):
    """The dtype and weakness of JAX's stack of scalars with these dtypes."""
    scalars = [jax.ShapeDtypeStruct((), dtype, weak_type=weak) for dtype, weak in operands]
    stacked = jax.eval_shape(lambda *xs: jax.numpy.stack(xs), *scalars)
    return np.dtype(stacked.dtype), stacked.weak_type


@pytest.mark.parametrize("a", OPERANDS, ids=str)
def test_promotion_table_with_x64(a):
    with jax.enable_x64(True), enable_x64(True):
        table = {b: dtypes.lattice_join(a, b) for b in OPERANDS}
        assert table == {b: _jax_join(a, b) for b in OPERANDS}


@pytest.mark.parametrize("a", NARROW, ids=str)
def test_promotion_table_without_x64_for_narrow_operands(a):
    table = {b: dtypes.lattice_join(a, b) for b in NARROW}
    assert table == {b: _jax_join(a, b) for b in NARROW}


@pytest.mark.parametrize("x64, operands", [(False, NARROW), (True, OPERANDS)])
def test_promotion_of_several_operands(x64, operands):
    chosen = random.Random(0)
    with jax.enable_x64(x64), enable_x64(x64):
        for _ in range(100):
            several = chosen.choices(operands, k=chosen.randint(3, 5))
            assert dtypes.lattice_join(*several) == _jax_join(*several)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("scalar", [True, 3, 3.0, 3j], ids=repr)
def test_python_scalars(x64, scalar):
    with jax.enable_x64(x64), enable_x64(x64):
        expected = jax.numpy.asarray(scalar)
        assert dtypes.dtype_of(scalar) == (expected.dtype, expected.weak_type)
        assert dtypes.as_dtype(type(scalar)) == jax.numpy.zeros(1, type(scalar)).dtype


@pytest.mark.parametrize("x64", [False, True])
def test_promote_types_and_result_type(x64):
    specs = [dtype for dtype, weak in (OPERANDS if x64 else NARROW) if not weak] + PYTHON_TYPES
    with jax.enable_x64(x64), enable_x64(x64):
        for a, b in itertools.product(specs, repeat=2):
            # JAX's promote_types leaves the cut to 32 bits to whoever makes an array of the result.
            expected = jax.dtypes.canonicalize_dtype(jax.numpy.promote_types(a, b))
            assert dtypes.promote_types(a, b) == expected
            assert dtypes.result_type(a, b) == jax.numpy.result_type(a, b)
        values = [np.zeros(2, dtype) for dtype in specs if isinstance(dtype, np.dtype)] + [True, 3, 3.0, 3j]
        for a, b in itertools.product(values, repeat=2):
            assert dtypes.result_type(a, b) == jax.numpy.result_type(a, b)


OPERATORS = [operator.add, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.lt]


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: f.__name__)
def test_numpy_scalars_beside_arrays(x64, function):
    """JAX calls a 64-bit scalar one of 32 bits; here it adapts, which differs beside arrays of fewer bits only."""
    scalars = [np.dtype(name).type(2) for name in "float64 int64 complex128 float32 int32 float16 int8 uint8".split()]
    with jax.enable_x64(x64), enable_x64(x64):
        for name, scalar in itertools.product(["float32", "int32", "complex64", *["int8"][not x64 :]], scalars):
            ours, theirs = functad.numpy.ones(2, name), jax.numpy.ones(2, name)
            for swapped in (False, True):
                if x64 and function is operator.pow and name.startswith("int") and not swapped:
                    continue  # JAX leaves out the dtype of an exponent whose value it knows
                if "complex" in f"{name} {scalar.dtype}" and function in (operator.floordiv, operator.mod, operator.lt):
                    continue
                got, wanted = (function(scalar, x) if swapped else function(x, scalar) for x in (ours, theirs))
                assert got.dtype == wanted.dtype, (name, scalar.dtype, swapped)


@pytest.mark.parametrize("x64", [False, True])
def test_short_names_are_those_that_jax_prints(x64):
    with jax.enable_x64(x64), enable_x64(x64):
        for dtype in {dtype for dtype, _ in (OPERANDS if x64 else NARROW)}:
            printed = str(jax.make_jaxpr(lambda x: x)(np.zeros(3, dtype)))
            assert f"a:{dtypes.short_name(dtype)}[3]" in printed


@pytest.mark.parametrize("x64", [False, True])
def test_to_inexact_dtype_is_that_of_sin(x64):
    with jax.enable_x64(x64), enable_x64(x64):
        for dtype in {dtype for dtype, _ in (OPERANDS if x64 else NARROW)}:
            expected = jax.eval_shape(jax.numpy.sin, jax.ShapeDtypeStruct((), dtype)).dtype
            assert dtypes.to_inexact_dtype(dtype) == expected


def test_issubdtype():
    kinds = [np.floating, np.integer, np.unsignedinteger, np.signedinteger, np.inexact, np.number, np.bool_]
    specs = [*DTYPES, *PYTHON_TYPES, dtypes.float0, "float32", np.int8]
    for spec, kind in itertools.product(specs, [*kinds, *DTYPES]):
        assert dtypes.issubdtype(spec, kind) == jax.dtypes.issubdtype(spec, kind), (spec, kind)


def test_finfo_and_iinfo():
    for dtype in DTYPES:
        if dtypes.kind_of(dtype) in "fc":
            ours, theirs = dtypes.finfo(dtype), jax.numpy.finfo(dtype)
            assert (ours.eps, ours.max, ours.tiny) == (theirs.eps, theirs.max, theirs.tiny)
        elif dtypes.kind_of(dtype) in "iu":
            ours, theirs = dtypes.iinfo(dtype), jax.numpy.iinfo(dtype)
            assert (ours.min, ours.max, ours.bits) == (theirs.min, theirs.max, theirs.bits)


def test_float0_is_the_same_dtype():
    assert dtypes.float0 == jax.dtypes.float0
