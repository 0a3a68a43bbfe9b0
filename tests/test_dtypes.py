"""dtypes: names, what is accepted, weak types, the promotion table, 64-bit inputs, errors."""

from __future__ import annotations

import enum
import itertools
import subprocess
import sys

import numpy as np
import pytest
from bfloat16_tools import needs_bfloat16

import functad
import functad.numpy as jnp
from functad import dtypes, promotion
from functad.config import enable_x64
from functad.dtypes import (
    SUPPORTED,
    as_dtype,
    canonicalize_dtype,
    dtype_of,
    finfo,
    float0,
    iinfo,
    issubdtype,
    lattice_join,
    promote_types,
    result_type,
    short_name,
    to_inexact_dtype,
)
from functad.errors import ArgumentError, DTypeError

STRONG = [(dtype, False) for dtype in SUPPORTED]
WEAK = [(np.dtype(name), True) for name in ("int32", "int64", "float32", "float64", "complex64")]


class Weak:
    """A stand-in for functad's own arrays."""

    dtype = np.dtype("float32")
    weak_type = True


class Level(enum.IntEnum):
    LOW = 1


def test_the_supported_dtypes_and_their_short_names():
    names = {dtype.name: short_name(dtype) for dtype in SUPPORTED}
    assert names == {
        "bool": "bool",
        "int8": "i8",
        "int16": "i16",
        "int32": "i32",
        "int64": "i64",
        "uint8": "u8",
        "uint16": "u16",
        "uint32": "u32",
        "uint64": "u64",
        "float16": "f16",
        "float32": "f32",
        "float64": "f64",
        "complex64": "c64",
        "complex128": "c128",
    }
    assert short_name(float0) == "float0"
    assert short_name("float32") == "f32"


@pytest.mark.parametrize("dtype", SUPPORTED, ids=str)
def test_as_dtype_takes_every_spelling(dtype):
    class Owner:
        pass

    Owner.dtype = dtype
    spellings = [dtype, dtype.type, dtype.name, dtype.str, dtype.char, np.zeros(2, dtype), Owner, Owner()]
    assert all(as_dtype(spelling) is dtype for spelling in spellings)
    assert canonicalize_dtype(dtype) is dtype


def test_as_dtype_of_python_types_follows_the_options():
    assert [as_dtype(t) for t in (bool, int, float, complex)] == ["bool", "int32", "float32", "complex64"]
    assert [as_dtype(t) for t in ("int", "float", "complex")] == ["int32", "float32", "complex64"]
    with enable_x64():
        assert [as_dtype(t) for t in (bool, int, float, complex)] == [
            "bool",
            "int64",
            "float64",
            "complex128",
        ]
        assert as_dtype("float") == "float64"


def test_as_dtype_gives_native_byte_order_and_keeps_64_bits():
    assert as_dtype(">f4").isnative
    assert as_dtype(">f4") is dtypes.float32
    assert dtype_of(np.zeros(2, ">i8")) == (np.dtype("int64"), False)
    assert as_dtype(np.longlong) is dtypes.int64
    assert as_dtype("float64") is dtypes.float64


def test_float0_is_a_dtype():
    assert as_dtype(float0) is float0
    assert as_dtype(np.zeros(3, float0)) is float0
    assert float0.itemsize == 0


@pytest.mark.parametrize(
    "spec, text",
    [
        (object, "dtype object is not supported.*np.asarray"),
        (np.dtype("U3"), "dtype <U3 is not supported: text has no arithmetic"),
        (str, "text has no arithmetic"),
        (np.dtype("S3"), "text has no arithmetic"),
        (np.dtype("M8[s]"), r"datetime64\[s\] is not supported.*x.astype\('int64'\)"),
        (np.dtype([("a", np.int32)]), "dict of its fields"),
        ([("a", int)], "dict of its fields"),
        ("f32", "'f32' is no dtype. Did you mean 'float32'"),
        ("flaot32", "'flaot32' is no dtype. Did you mean 'float32'"),
        ("bfloat61", "'bfloat61' is no dtype. Did you mean 'bfloat16'"),
        (None, "None is no dtype"),
        (np.floating, "np.floating is a kind of dtypes"),
        (3.5, "3.5 is no dtype"),
        ("f8,,", "'f8,,' is no dtype"),
        ("f8 f4", "'f8 f4' is no dtype"),
    ],
)
def test_unsupported_dtypes_say_how_to_fix_it(spec, text):
    with pytest.raises(DTypeError, match=text):
        as_dtype(spec)


def test_bfloat16_says_which_package_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)  # as if it were not installed
    monkeypatch.delitem(dtypes._DTYPES, "bfloat16", raising=False)
    uses = [
        lambda: as_dtype("bfloat16"),
        lambda: dtypes.bfloat16,
        lambda: jnp.bfloat16.dtype,
        lambda: jnp.bfloat16(1),
        lambda: jnp.zeros(3, jnp.bfloat16),
        lambda: jnp.zeros(3, "bfloat16"),
        lambda: jnp.ones(3).astype(jnp.bfloat16),
        lambda: jnp.finfo(jnp.bfloat16),
        lambda: functad.random.normal(functad.random.key(0), (3,), jnp.bfloat16),
        lambda: functad.lax.convert_element_type(1.0, jnp.bfloat16),
    ]
    for use in uses:
        with pytest.raises(DTypeError, match=r"bfloat16 needs the package ml_dtypes.*pip install functad\[bfloat16\]"):
            use()


@needs_bfloat16
def test_bfloat16_is_a_class_of_numbers_as_in_jax():
    assert not isinstance(1.0, dtypes.bfloat16) and isinstance(dtypes.bfloat16(1.5), np.generic)
    assert np.dtype(dtypes.bfloat16) == dtypes.bfloat16_dtype() == dtypes.as_dtype(dtypes.bfloat16) == jnp.bfloat16


def test_without_its_package_bfloat16_can_be_named_compared_and_be_a_key(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.delitem(dtypes._DTYPES, "bfloat16", raising=False)
    assert jnp.bfloat16 == jnp.bfloat16
    for other in (jnp.float16, np.dtype("float16"), np.float16, "float32", 3):
        assert jnp.bfloat16 != other and other != jnp.bfloat16
    assert {jnp.bfloat16: 2, jnp.float16: 1}[jnp.bfloat16] == 2
    assert repr(jnp.bfloat16) == "functad.numpy.bfloat16"


def test_can_cast_takes_dtypes_and_arrays():
    assert jnp.can_cast(np.dtype("float32"), "float64") and jnp.can_cast(jnp.ones(2), "float64")
    assert not jnp.can_cast(np.dtype("float64"), np.float32) and not jnp.can_cast(jnp.float32, "float16")


def test_nobody_loads_the_package_of_bfloat16_who_does_not_use_it():
    program = (
        "import sys, functad, functad.numpy as jnp; jnp.bfloat16; jnp.bfloat16 == jnp.float32; "
        "jnp.ones(3) * 2 + jnp.arange(3); jnp.asarray([1, 2.5]).astype('float16'); print('ml_dtypes' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.skipif(np.dtype("longdouble").itemsize == 8, reason="long double is float64 on this platform")
@pytest.mark.parametrize("char, cast", [("g", "float64"), ("G", "complex128")])
def test_long_double_is_unsupported(char, cast):
    with pytest.raises(DTypeError, match=rf"is not supported: convert first, for example x.astype\('{cast}'\)"):
        as_dtype(np.dtype(char))


def test_dtype_of_python_scalars_is_weak_but_for_bool():
    assert dtype_of(True) == (np.dtype("bool"), False)
    assert dtype_of(3) == (np.dtype("int32"), True)
    assert dtype_of(3.0) == (np.dtype("float32"), True)
    assert dtype_of(3j) == (np.dtype("complex64"), True)
    assert dtype_of(Level.LOW) == (np.dtype("int32"), True)
    with enable_x64():
        assert dtype_of(3) == (np.dtype("int64"), True)
        assert dtype_of(3.0) == (np.dtype("float64"), True)
        assert dtype_of(3j) == (np.dtype("complex128"), True)


def test_dtype_of_64_bit_scalars_is_that_of_python_numbers():
    given = [np.float64(3.0), np.sqrt(2), np.int64(3), np.longlong(3), np.uint64(3), np.complex128(3.0)]
    assert [dtype_of(x) for x in given] == [dtype_of(x.item()) for x in given]
    assert {dtype.itemsize for dtype, _ in map(dtype_of, given)} == {4, 8} and all(dtype_of(x)[1] for x in given)
    with enable_x64():
        assert [dtype_of(x) for x in given] == [(x.dtype, False) for x in given]


def test_dtype_of_other_numpy_values_is_theirs_and_strong():
    assert dtype_of(np.float16(3.0)) == (np.dtype("float16"), False)
    assert dtype_of(np.array(3.0)) == (np.dtype("float64"), False)
    assert dtype_of(np.bool_(True)) == (np.dtype("bool"), False)
    assert dtype_of(np.zeros(3)) == (np.dtype("float64"), False)
    assert dtype_of(np.zeros((), np.int8)) == (np.dtype("int8"), False)


def test_dtype_of_objects_with_dtype_and_weak_type():
    assert dtype_of(Weak()) == (np.dtype("float32"), True)


@pytest.mark.parametrize("value", [[1, 2], "3", None, np.float32, object()])
def test_dtype_of_other_values_raises(value):
    with pytest.raises(DTypeError, match="has no dtype.* Pass a number or an array"):
        dtype_of(value)


def test_dtype_of_an_object_array_raises():
    with pytest.raises(DTypeError, match="dtype object is not supported"):
        dtype_of(np.array([None, 1]))


@pytest.mark.parametrize("x64", [False, True])
def test_join_is_commutative_and_idempotent(x64):
    with enable_x64(x64):
        for a, b in itertools.product(STRONG + WEAK, repeat=2):
            assert lattice_join(a, b) == lattice_join(b, a)
            assert lattice_join(a, a) == a
            assert lattice_join(a, b, a, b) == lattice_join(a, b)


def test_join_of_strong_dtypes_is_associative_with_x64():
    with enable_x64():
        for a, b, c in itertools.product(STRONG, repeat=3):
            together = lattice_join(a, b, c)
            assert lattice_join(lattice_join(a, b), c)[0] == together[0] or together[1]


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ("float64", "float32", "float64"),
        ("int64", "int32", "int64"),
        ("uint32", "int64", "int64"),
        ("float64", "complex64", "complex128"),
        ("int64", "float16", "float16"),
        ("uint64", "int64", "float64"),
        ("uint64", "int8", "float64"),
    ],
)
def test_64_bit_operands_are_never_cut_down(a, b, expected):
    assert promote_types(a, b) == expected
    with enable_x64():
        assert promote_types(a, b) == expected


def test_32_bit_operands_do_not_make_64_bits_unless_enabled():
    assert promote_types("uint32", "int32") == "int32"
    assert promote_types("int32", float) == "float32"
    with enable_x64():
        assert promote_types("uint32", "int32") == "int64"
        assert promote_types("int32", float) == "float64"


def test_weak_operands_yield_within_their_kind():
    assert result_type(np.zeros(2, "float16"), 2.0) == "float16"
    assert result_type(np.zeros(2, "uint8"), 300) == "uint8"
    assert result_type(np.zeros(2), 2.0, 3) == "float64"
    assert lattice_join((dtypes.int64, False), (dtypes.float32, True)) == (dtypes.float32, True)
    assert lattice_join((dtypes.int32, False), (dtypes.float64, True)) == (dtypes.float64, True)
    assert lattice_join((dtypes.bool_, False), (dtypes.int32, True)) == (dtypes.int32, True)
    assert lattice_join((dtypes.float16, False), (dtypes.complex64, True)) == (dtypes.complex64, False)


def test_result_type_takes_arrays_scalars_and_dtypes():
    assert result_type(np.zeros(2, "int8"), "float16", np.uint8) == "float16"
    assert result_type(1) == "int32"
    assert result_type(int, "int8") == "int8"
    assert result_type(Weak(), np.float16(1)) == "float16"
    with pytest.raises(ArgumentError, match="at least one operand"):
        result_type()


def test_float0_combines_with_itself_alone():
    assert lattice_join((float0, False), (float0, False)) == (float0, False)
    with pytest.raises(DTypeError, match="float0.* does not combine with float32"):
        promote_types(float0, "float32")


def test_to_inexact_dtype():
    for dtype in SUPPORTED:
        expected = dtype if dtype.kind in "fc" else np.dtype("float32")
        assert to_inexact_dtype(dtype) == expected
    with enable_x64():
        assert (to_inexact_dtype("int8"), to_inexact_dtype("int64")) == ("float32", "float64")


def test_default_dtypes():
    assert (dtypes.default_int_dtype(), dtypes.default_float_dtype()) == ("int32", "float32")
    assert dtypes.default_complex_dtype() == "complex64"
    with enable_x64():
        assert (dtypes.default_int_dtype(), dtypes.default_float_dtype()) == ("int64", "float64")
        assert dtypes.default_complex_dtype() == "complex128"


def test_issubdtype():
    assert issubdtype("float32", np.floating)
    assert issubdtype(np.int8, np.integer)
    assert not issubdtype(float0, np.inexact)
    assert not issubdtype("bool", np.number)


def test_finfo_and_iinfo():
    assert finfo("float32").eps == np.finfo(np.float32).eps
    assert finfo("complex64").dtype == "float32"
    assert finfo(float).bits == 32
    assert (iinfo("uint8").max, iinfo(int).bits) == (255, 32)
    with pytest.raises(DTypeError, match="finfo takes a floating or complex dtype, got int32; use iinfo"):
        finfo("int32")
    with pytest.raises(DTypeError, match="iinfo takes an integer dtype, got float32; use finfo"):
        iinfo("float32")


def test_the_join_table_stays_bounded():
    many = tuple((dtype, False) for dtype in SUPPORTED)
    assert lattice_join(*many) == (dtypes.complex128, False)
    assert all(len(operands) <= 3 for joins in promotion._JOINS for operands in joins)
