"""Operators, methods and protocols of arrays, concrete and traced."""

from __future__ import annotations

import io
import operator

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import (
    ConcretizationError,
    ShapeError,
    TracerError,
    UnsupportedNumpyError,
)

X = jnp.arange(6.0).reshape(2, 3)


def test_operators_take_lists_and_refuse_others():
    np.testing.assert_array_equal(np.asarray(X + [1, 2, 3]), np.asarray(X) + [1, 2, 3])
    with pytest.raises(TypeError, match="unsupported operand"):
        X + "text"
    with pytest.raises(TypeError, match="unsupported operand"):
        None * X
    assert (X == None) is False  # noqa: E711
    assert (X != "text") is True


def test_other_types_may_answer_an_operator():
    class Right:
        def __radd__(self, other):
            return "mine"

    assert X + Right() == "mine"


LEFT = [np.array([[1, 2, 3]], name) for name in ("float32", "float64", "int32", "int8", "bool")]
LEFT += [np.array(2.0), np.float32(2), np.float64(2), np.int64(2), np.int8(2), np.bool_(True), 2, 2.0]
OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "ne", "lt", "le", "gt", "ge"]
BITS = ["and_", "or_", "xor", "lshift", "rshift"]


@pytest.mark.generated(every=4)
@pytest.mark.parametrize("name", [*OPERATORS, *BITS])
@pytest.mark.parametrize("in_place", [False, True])
def test_numpy_on_the_left_of_operators(name, in_place):
    """The result is an Array, with the values and the type that the array on the left would have as one."""
    function = getattr(operator, f"i{name.rstrip('_')}" if in_place and name in [*OPERATORS[:7], *BITS] else name)
    right = jnp.array([[1, 2, 3], [3, 2, 1]], "int32" if name in BITS else "float32")
    for left in LEFT:
        if name in BITS and np.asarray(left).dtype.kind not in "ib":
            continue
        if name in ("lshift", "rshift", "floordiv", "mod") and np.asarray(left).dtype.kind == "b":
            continue
        plain = getattr(operator, name)
        found, wanted = function(left, right), plain(jnp.asarray(left), right)
        traced = functad.jit(lambda x, left=left, plain=plain: plain(left, x))(right)
        for x in (found, traced):
            assert isinstance(x, functad.Array) and (x.dtype, x.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(np.asarray(x), np.asarray(wanted), rtol=1e-6)


def test_numpy_on_the_left_of_products_and_divmod():
    for found in (np.ones((2, 2)) @ X, functad.jit(lambda x: np.ones((2, 2)) @ x)(X), *divmod(np.ones(3), X + 1)):
        assert isinstance(found, functad.Array) and found.shape == (2, 3)


def test_numpy_writes_known_arrays_into_its_own():
    a = np.zeros((2, 3))
    a[:] = X
    a[0] += X[1]
    assert type(a) is np.ndarray and a.tolist() == [[3, 5, 7], [3, 4, 5]]
    for function in (operator.iadd, operator.imul, operator.isub):
        with pytest.raises(UnsupportedNumpyError, match="a = a"):
            functad.jit(lambda x, function=function: function(np.zeros((2, 3)), x))(X)


def test_lengths_and_iteration():
    assert len(X) == 2 and [row.shape for row in X] == [(3,), (3,)]
    assert [float(v) for v in reversed(jnp.arange(3.0))] == [2, 1, 0]
    with pytest.raises(ShapeError, match=r"len\(\) of an array of rank 0"):
        len(jnp.asarray(1.0))
    with pytest.raises(TracerError, match="rank 0, so it cannot be iterated"):
        a, b = jnp.asarray(1.0)
    assert functad.jit(lambda x: sum(row.sum() for row in x))(X) == 15


def test_values_of_traced_arrays_print_the_rewrite():
    for method in ("item", "tolist", "tobytes"):
        with pytest.raises(ConcretizationError, match="keep computing with the array itself"):
            functad.jit(lambda x, m=method: getattr(x, m)())(1.0)
    assert functad.grad(lambda x: x * x.item())(3.0) == 3.0


def test_attributes():
    assert X.T.shape == X.mT.shape == (3, 2)
    assert (X.nbytes, X.itemsize, X.devices(), X.device) == (24, 4, {*functad.devices()}, functad.devices()[0])
    assert X.copy() is not X and (X.copy() == X).all() and not np.shares_memory(np.asarray(X.copy()), np.asarray(X))
    assert X.block_until_ready() is X and np.shares_memory(X.to_device("cpu"), X)
    assert X.__array_namespace__() is jnp
    assert X.reshape(3, 2).shape == X.reshape((3, -1)).shape == (3, 2)
    assert X.transpose().shape == X.transpose(1, 0).shape == X.transpose((1, 0)).shape == (3, 2)
    assert X.astype(None).dtype == np.float32
    assert bytes(X.tobytes()) == np.asarray(X).tobytes()
    np.testing.assert_array_equal(np.from_dlpack(X), np.asarray(X))


def test_reshape_errors():
    for sizes in ((4, -1), (7,), (-1, -1), ("a",), (-2,)):
        with pytest.raises(ShapeError, match="reshape"):
            X.reshape(sizes)
    with pytest.raises(ShapeError, match="cannot have shape"):
        X.reshape(5)


# --- NumPy's protocols ------------------------------------------------------------------------------


CALLS = [
    np.sin,
    lambda x: np.add(x, 1),
    lambda x: np.add(np.ones(3, np.float32), x),
    lambda x: np.add(x, 1, dtype=np.float64),
    np.add.reduce,
    lambda x: np.multiply.accumulate(x, axis=1),
    lambda x: np.maximum.outer(x, x),
    lambda x: np.concatenate([x, np.ones((1, 3), np.float32)]),
    lambda x: np.block([[x, x], [x, x]]),
    lambda x: np.sum(x, axis=0),
    lambda x: np.where(x > 1, x, 0.0),
    lambda x: np.einsum("ij->ji", x),
    lambda x: np.reshape(x, (3, 2)),
    np.zeros_like,
    np.transpose,
]


@pytest.mark.parametrize("call", CALLS)
def test_numpys_functions_give_numpy_arrays_of_known_values_and_are_recorded_in_traces(call):
    known, found, traced = call(np.asarray(X)), call(X), functad.jit(call)(X)
    assert type(found) is np.ndarray and found.dtype == known.dtype
    assert isinstance(traced, functad.Array)
    np.testing.assert_array_equal(found, known)
    np.testing.assert_allclose(np.asarray(traced), known, rtol=1e-5)
    closed_over = functad.jit(lambda y: y + np.sum(call(X)))(jnp.zeros((), known.dtype))
    np.testing.assert_allclose(np.asarray(closed_over), known.sum(), rtol=1e-5)


def test_what_numpys_functions_make_of_known_values_is_numpys():
    zeros = np.zeros_like(X)
    zeros[0] = 1
    assert zeros.sum() == 3 and np.allclose(X, X) is True and np.array_equal(X, X) is True
    assert np.shape(X) == (2, 3) and np.ndim(X) == 2 and type(np.mean(X)) is np.float32
    assert np.size(a=X) == 6 and not np.iscomplexobj(X) and np.common_type(X, X) is np.float32
    square = X[:, :2] + jnp.eye(2)
    np.testing.assert_array_equal(np.linalg.solve(square, X), np.linalg.solve(np.asarray(square), np.asarray(X)))
    np.testing.assert_array_equal(np.fft.fft(X), np.fft.fft(np.asarray(X)))
    copied = np.copy(X)
    copied[0, 0] = 9
    assert X[0, 0] == 0


def test_functions_of_known_and_traced_values_are_recorded():
    def loss(w):
        return np.sum(np.stack([X[0], w]) * np.concatenate([X[1:], w[None]])) + np.dot(X, w)[0] + np.add(X[0], w)[0]

    gradient = functad.grad(loss)(jnp.ones(3))
    assert gradient.tolist() == [3, 3, 4]


def test_a_loss_in_plain_numpy_differentiates():
    def loss(w):
        z = np.tanh(np.dot(X, w))
        return np.mean(np.square(z - 1.0)) + np.linalg.norm(w) ** 2 if hasattr(jnp, "linalg") else np.mean(np.square(z))

    found = functad.jit(functad.grad(loss))(np.ones(3, np.float32))
    assert found.shape == (3,) and np.isfinite(np.asarray(found)).all()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: np.sin(x, out=X), "numpy.sin with out="),
        (lambda x: np.sum(x, out=np.zeros(())), "numpy.sum with out="),
        (lambda x: np.add.at(x, 0, 1), "numpy.add.at has no counterpart"),
        (lambda x: np.sin(x, where=np.ones((2, 3), bool)), "where= leaves elements undefined"),
        (lambda x: np.busday_count(x, x), "numpy.busday_count was called on a functad value"),
        (np.frompyfunc(lambda x: x, 1, 1), r"the ufunc '<lambda> \(vectorized\)', neither NumPy's nor SciPy's"),
    ],
)
def test_what_has_no_counterpart_is_named(call, text):
    with pytest.raises(UnsupportedNumpyError, match=text):
        functad.jit(call)(X)


def test_numpy_reads_concrete_arrays():
    file = io.BytesIO()
    np.save(file, X)
    file.seek(0)
    np.testing.assert_array_equal(np.load(file), np.asarray(X))
    assert np.array2string(X) == np.array2string(np.asarray(X))
    with pytest.raises(ConcretizationError):
        functad.jit(lambda x: np.array2string(x))(X)


# --- dtype names ------------------------------------------------------------------------------------


def test_dtype_names():
    assert X.dtype.type in {jnp.float32} and jnp.int8 not in {jnp.float32, jnp.int16}
    assert X.dtype == jnp.float32 and jnp.float32 == X.dtype and jnp.float32 != jnp.float64
    assert jnp.float32 == "float32" and jnp.float32 != "nonsense" and jnp.float32 != 3
    assert jnp.zeros(2, jnp.int8).dtype == np.zeros(2, jnp.int8).dtype == np.int8
    assert jnp.int16(3).dtype == np.int16 and not jnp.float32(2).weak_type
    assert functad.jit(lambda x: jnp.float16(x))(1.0).dtype == np.float16
    assert jnp.issubdtype(jnp.float32, jnp.floating) and jnp.issubdtype(X.dtype, jnp.inexact)
    assert jnp.int_(1).dtype == np.int32 and jnp.uint(1).dtype == np.uint32
    assert repr(jnp.float32) == "functad.numpy.float32" and len({jnp.float32, jnp.single}) == 1
    with functad.enable_x64(True):
        assert jnp.int_(1).dtype == np.int64 and jnp.float_.dtype == np.float64


def test_kinds_of_dtypes():
    assert jnp.isdtype(X.dtype, "real floating") and not jnp.isdtype(jnp.int8, ("bool", "complex floating"))
    assert jnp.isdtype(jnp.int8, jnp.int8)
    assert jnp.can_cast("int8", "float32") and not jnp.can_cast(X, jnp.int8)
    assert jnp.finfo(jnp.float32).eps == np.finfo(np.float32).eps and jnp.iinfo("int8").max == 127
