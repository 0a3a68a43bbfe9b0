"""`functad.numpy.promotion`: arrays of anything, dtypes joined, shapes broadcast, and their errors."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.config import enable_x64
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.numpy.promotion import promote_args, promote_pair


def described(x):
    return x.shape, x.dtype.name, x.weak_type


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2.0, ((), "float32", True)),
        (2, ((), "int32", True)),
        (True, ((), "bool", False)),
        (1j, ((), "complex64", True)),
        (np.float64(2.0), ((), "float32", True)),
        (np.array(2.0), ((), "float64", False)),
        (np.zeros(2), ((2,), "float64", False)),
        ([1.0, 2], ((2,), "float32", False)),
        ([1, True], ((2,), "int32", False)),
        ([np.float64(1.0), 2], ((2,), "float32", False)),
        ([np.zeros(2, np.int8), [1, 2]], ((2, 2), "int8", False)),
        ([[]], ((1, 0), "float32", False)),
        ((), ((0,), "float32", False)),
        (np.arange(3, dtype=">i4"), ((3,), "int32", False)),
        (memoryview(b"ab"), ((2,), "uint8", False)),
    ],
    ids=repr,
)
def test_asarray(value, expected):
    assert described(jnp.asarray(value)) == expected


def test_asarray_of_an_enum():
    class Colour(enum.IntEnum):
        RED = 3

    assert int(jnp.asarray(Colour.RED)) == 3


def test_asarray_copies_numpy_arrays_once():
    source = np.zeros(3)
    x = jnp.asarray(source)
    source[0] = 5
    assert float(x[0]) == 0 and source.flags.writeable
    assert jnp.asarray(x) is x


def test_asarray_with_x64():
    with enable_x64(True):
        assert jnp.asarray(2.0).dtype == np.float64
        assert jnp.asarray([1, 2]).dtype == np.int64


def test_sequences_of_tracers():
    found = functad.jit(lambda x: jnp.array([[x, 1.0], [2.0, x]]))(3.0)
    np.testing.assert_array_equal(np.asarray(found), [[3, 1], [2, 3]])
    np.testing.assert_array_equal(np.asarray(functad.grad(lambda x: jnp.array([x, x * x]).sum())(3.0)), 7)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        ([[1, 2], [3]], ShapeError, "different shapes"),
        (None, DTypeError, "is a return statement missing"),
        ("text", DTypeError, "is no array"),
        ({"a": 1}, DTypeError, "of type dict"),
        ([None], DTypeError, "has no dtype"),
        (2**40, DTypeError, "does not fit in int32"),
        ([2**40], DTypeError, "does not fit in int32"),
    ],
)
def test_asarray_refuses(value, error, text):
    with pytest.raises(error, match=text):
        jnp.asarray(value)


def test_asarray_refuses_ragged_tracers():
    with pytest.raises(ShapeError, match="different shapes"):
        functad.jit(lambda x: jnp.array([x, [1.0]]))(3.0)


def test_promotion_names_function_and_shapes():
    with pytest.raises(ShapeError, match=r"add: arrays of shapes \(3,\), \(4,\) do not broadcast: axis -1"):
        jnp.add(jnp.zeros(3), jnp.zeros(4))
    with pytest.raises(DTypeError, match="sin: asarray: .* is no array"):
        jnp.sin("x")


def test_python_integers_that_do_not_fit_raise():
    with pytest.raises(DTypeError, match=r"300 does not fit in uint8 \(0 to 255\)"):
        jnp.asarray(300, "uint8")
    with pytest.raises(DTypeError, match=r"4294967296 does not fit in uint8 .* convert the other operand"):
        jnp.zeros(2, "uint8") + 2**32


def test_large_floats_become_infinite_without_a_warning():
    assert np.isinf(float((jnp.zeros(1, "float16") + 1e10)[0]))


def test_equal_operands_are_returned_as_they_are():
    x, y = jnp.ones(3), jnp.zeros(3)
    assert promote_pair("f", x, y) == (x, y) or promote_pair("f", x, y)[0] is x
    assert promote_args("f", x, y)[1] is y


def test_scalars_become_scalars_of_the_arrays_dtype():
    x, two = promote_pair("f", jnp.ones(3, "float16"), 2.0)
    assert isinstance(two, np.float16) and described(x) == ((3,), "float16", False)
    _, weak = promote_pair("f", jnp.asarray(1.0), 2)
    assert described(weak) == ((), "float32", True)


def test_integer_array_with_float_scalar_is_weak():
    x, y = promote_pair("f", jnp.arange(3), 2.5)
    assert described(x) == ((3,), "float32", True) and y.weak_type


def test_64_bits_are_kept():
    assert (np.zeros(2) * jnp.ones(2)).dtype == np.float64
    assert jnp.sin(np.zeros(2)).dtype == np.float64
    assert jnp.sum(np.arange(3)).dtype == np.int64


def test_broadcast_shapes():
    assert jnp.broadcast_shapes((3, 1), 4, ()) == (3, 4)
    with pytest.raises(ShapeError, match="broadcast_shapes"):
        jnp.broadcast_shapes((2,), (3,))
    assert jnp.broadcast_shapes((0, 1), (1, 2)) == (0, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: jnp.sum(x, axis=2), "sum: axis 2 is out of bounds for an array with 2 axes"),
        (lambda x: jnp.sum(x, axis=(0, 0)), "names an axis twice"),
        (lambda x: jnp.sum(x, axis="a"), "axis must be an integer"),
        (lambda x: jnp.zeros((2, -1)), "negative size"),
        (lambda x: jnp.zeros(2.5), "shape must be an integer"),
    ],
)
def test_axes_and_shapes_are_checked(call, text):
    with pytest.raises(ArgumentError, match=text):
        call(jnp.zeros((2, 3)))


WEAK = {
    "sort": lambda x: jnp.sort(x),
    "split": lambda x: jnp.split(x, 1)[0],
    "stack": lambda x: jnp.stack(x),
    "diag": lambda x: jnp.diag(x),
    "gradient": lambda x: jnp.gradient(x),
    "polyadd": lambda x: jnp.polyadd(x, x[:1]),
    "real": lambda x: jnp.real(x * (1 + 1j)),
    "abs": lambda x: jnp.abs(x * 1j),
    "complex": lambda x: functad.lax.complex(x, x),
    "barrier": lambda x: functad.lax.optimization_barrier(x),
    "cond": lambda x: functad.lax.cond(True, lambda: jnp.ones(2), lambda: x),
    "jacfwd": lambda x: functad.jacfwd(lambda y: y * 2)(x[0]),
    "hessian": lambda x: functad.hessian(lambda y: y**3)(x[0]),
    "relu6": lambda x: functad.nn.relu6(jnp.asarray(2)),
}
STRONG = {
    "argmax": lambda x: jnp.argmax(jnp.asarray(2)),
    "cond": lambda x: functad.lax.cond(True, lambda: x, lambda: jnp.ones(2)),
    "jacrev": lambda x: functad.jacrev(lambda y: y * x[0])(jnp.ones(())),
    "ndtr": lambda x: functad.scipy.special.ndtr(x),
}


@pytest.mark.parametrize("transform", [lambda f: f, functad.jit], ids=["plain", "jit"])
def test_results_are_weak_where_their_values_are(transform):
    x = jnp.broadcast_to(jnp.asarray(0.5), (2,))
    for table, weak in ((WEAK, True), (STRONG, False)):
        found = {name: transform(f)(x).weak_type for name, f in table.items()}
        assert found == dict.fromkeys(table, weak)
