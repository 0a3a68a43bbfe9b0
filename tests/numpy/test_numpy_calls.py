"""Calls written for NumPy: its argument orders and names, `out=`, the methods of ufuncs, errors of single values."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import (
    ArgumentError,
    DTypeError,
    ImmutableArrayError,
    OutOfBoundsError,
    ShapeError,
    UnsupportedNumpyError,
)

X = jnp.array([[3.0, 1.0, 2.0], [0.5, 4.0, -1.0]])
V = jnp.array([3.0, 1.0, 2.0])
T = jnp.ones(2)

# --- arguments of NumPy's functions -----------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.histogram(x, 2, None, True)[0],
        lambda x: np.histogram(x, 2, density=True, weights=np.ones(x.size))[0],
        lambda x: np.clip(x, a_min=0, a_max=1),
        lambda x: np.clip(x, 1, 2, None),
        lambda x: np.clip(x, min=1),
        lambda x: np.clip(a=x, a_min=1, a_max=None),
        lambda x: np.sort(x, 0, "stable"),
        lambda x: np.sort(x, None),
        lambda x: np.argsort(x, 0, "stable"),
        lambda x: np.zeros_like(x, order="C"),
        lambda x: np.full_like(x, 2, np.int32, "C"),
        lambda x: np.concatenate([x, x], 0, casting="unsafe"),
        lambda x: np.sum(x, 0, None, None, True),
        lambda x: np.sum(x, initial=2.0, where=True),
        lambda x: np.take(x, [0, 2], 0, None, "raise"),
        lambda x: np.einsum("i,i", x, x, optimize=False),
        lambda x: np.where(x > 1, x, 0),
        lambda x: np.meshgrid(x, x, indexing="ij")[0],
        lambda x: np.piecewise(x, [x > 1], [lambda v: v * 2, 0]),
        lambda x: np.pad(x, 1, constant_values=2),
        lambda x: np.gradient(x, 2.0),
        lambda x: np.quantile(x, 0.5, None, None, False, "lower"),
        lambda x: np.quantile(x, 0.5, weights=np.ones(3), method="inverted_cdf"),
        lambda x: np.std(x, mean=np.ones(1)),
        lambda x: np.corrcoef(x, x * x, dtype=np.float32),
    ],
)
def test_arguments_are_bound_by_numpys_signature(call):
    found = functad.jit(call)(V)
    assert isinstance(found, functad.Array)
    np.testing.assert_allclose(np.asarray(found), call(np.asarray(V)), rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda x: np.clip(x, 0, 1, where=np.array([True, False, True])), "where"),
    ],
)
def test_arguments_without_counterpart_are_named(call, argument):
    with pytest.raises(UnsupportedNumpyError, match=f"does not take the argument {argument}="):
        functad.jit(call)(V)


def test_updates_of_numpy_arrays_in_place():
    a = np.zeros(2)
    np.add.at(a, [0, 0], T)
    a[1:] += T[1:]
    assert a.tolist() == [2, 1]
    np.multiply(T, 4, out=a)
    assert a.tolist() == [4, 4]
    before = a
    a += T  # an operator: its result is an Array, as for JAX's
    assert isinstance(a, functad.Array) and a.tolist() == [5, 5] and before.tolist() == [4, 4]
    total = np.zeros(())
    assert np.sum(T, out=total) is total and total == 2

    def traced(x):
        a = np.zeros(2)
        a += x
        return a

    for transformed in (functad.jit(traced), lambda x: functad.jvp(traced, (x,), (x,))):
        with pytest.raises(UnsupportedNumpyError, match="a = a \\+ x"):
            transformed(T)
    for call in (lambda x: np.add(x, x, out=T), lambda x: np.add(T, T, out=x)):
        with pytest.raises(UnsupportedNumpyError, match="immutable"):
            functad.jit(call)(T)
    with pytest.raises(TypeError):
        np.add(T, T, out=T)


def test_refused_methods_of_ufuncs_are_named():
    with pytest.raises(UnsupportedNumpyError, match=r"numpy.maximum.at has no counterpart.*x\.at\[i\]\.max\(v\)"):
        functad.jit(lambda x: np.maximum.at(x, 0, 1))(T)
    with pytest.raises(UnsupportedNumpyError, match="numpy.nextafter.reduceat has no counterpart.* functions of"):
        functad.jit(lambda x: np.nextafter.reduceat(x, [0, 1]))(V)
    assert (
        np.add.reduceat(V, [0, 1]).tolist() == functad.jit(lambda x: np.add.reduceat(x, [0, 1]))(V).tolist() == [3, 3]
    )


# --- methods of ufuncs ------------------------------------------------------------------------------

UFUNCS = ("add", "multiply", "maximum", "minimum", "subtract", "divide", "logical_and", "logical_or", "logaddexp")


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("name", UFUNCS)
def test_ufunc_methods_are_numpys(name):
    mine, numpys, known = getattr(jnp, name), getattr(np, name), np.asarray(X)
    calls = [
        lambda f, x: f.reduce(x),
        lambda f, x: f.reduce(x, axis=1, keepdims=True),
        lambda f, x: f.accumulate(x, 1),
        lambda f, x: f.outer(x, x[0]),
        lambda f, x: f.reduceat(x, [0, 2, 1], axis=1),
    ]
    for call in calls:
        np.testing.assert_allclose(np.asarray(call(mine, X)), call(numpys, known), rtol=2e-6)
        np.testing.assert_allclose(np.asarray(call(numpys, X)), call(numpys, known), rtol=2e-6)
        traced = functad.jit(lambda x, call=call: call(numpys, x))(X)
        np.testing.assert_allclose(np.asarray(traced), call(numpys, known), rtol=2e-6)
        found = functad.jit(lambda x, call=call: call(mine, x))(X)
        np.testing.assert_allclose(np.asarray(found), call(numpys, known), rtol=2e-6)


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "subtract", "divide", "power"])
def test_ufunc_at_gives_a_copy(name):
    expected = np.asarray(V).copy()
    getattr(np, name).at(expected, [0, 2], np.float32(1.5))
    found = getattr(jnp, name).at(V, np.array([0, 2]), 1.5, inplace=False)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)
    with pytest.raises(ImmutableArrayError, match="inplace=False"):
        getattr(jnp, name).at(V, 0, 1.5)


def test_ufunc_methods_with_options():
    assert jnp.add.reduce(X, axis=None, initial=1.0) == 10.5
    assert jnp.add.reduce(X, where=X > 1, dtype=jnp.float16).tolist() == [3, 4, 2]
    assert jnp.multiply.accumulate(V, dtype=jnp.int32).dtype == np.int32
    assert jnp.logaddexp.reduce(jnp.zeros((0, 2))).tolist() == [-np.inf] * 2
    assert (jnp.add.nin, jnp.add.identity, jnp.maximum.identity) == (2, 0, None)
    with pytest.raises(ArgumentError, match="no identity"):
        jnp.subtract.reduce(jnp.zeros(0))
    with pytest.raises(UnsupportedNumpyError, match="combines one axis"):
        jnp.subtract.reduce(X, axis=None)
    with pytest.raises(OutOfBoundsError):
        jnp.add.reduceat(V, [7])
    gradient = functad.grad(lambda x: jnp.logaddexp.reduce(x))(V)
    np.testing.assert_allclose(np.asarray(gradient), np.exp(V) / np.exp(V).sum(), rtol=1e-6)


# --- making arrays ----------------------------------------------------------------------------------


def test_names_of_arguments_and_devices():
    assert jnp.asarray(a=[1]).tolist() == jnp.array(object=[1]).tolist() == [1]
    for made in (
        jnp.zeros(2, device=None),
        jnp.ones(2, device=None),
        jnp.empty(2, device=None),
        jnp.full(2, 1.0, device=None),
        jnp.arange(2, device=None),
        jnp.linspace(0, 1, 2, device=None),
        jnp.eye(2, device=None)[0],
        jnp.asarray([1, 2], device=None),
        jnp.array([1, 2], device=None),
        jnp.zeros_like(T, device=None),
        jnp.ones_like(T, device=None),
        jnp.full_like(T, 3, device=None),
        jnp.empty_like(T, device=None),
    ):
        assert made.shape == (2,)


@pytest.mark.parametrize("device", ["cpu", functad.devices()[0]])
def test_constants_stay_on_the_device_that_they_are_made_on(device):
    like = functad.device_put(T, device)
    for made in (
        jnp.zeros((), device=device),
        jnp.zeros((2, 3), device=device),
        jnp.ones(2, device=device),
        jnp.full(2, 1.0, device=device),
        jnp.zeros_like(like),
        jnp.full_like(like, 3),
        jnp.arange(2, device=device),
    ):
        assert made.committed
    assert functad.jit(lambda: jnp.zeros(2, device=device))().shape == (2,)


# --- values and members -----------------------------------------------------------------------------


def test_several_elements_are_no_single_value():
    with pytest.raises(ArgumentError, match=r"2 elements.*x\.any\(\) or x\.all\(\)"):
        bool(T > 1)
    with pytest.raises(ArgumentError, match="0 elements"):
        bool(jnp.zeros(0))
    for convert in (float, int, complex):
        for x in (T, jnp.ones(1)):
            with pytest.raises(ShapeError, match=rf"{convert.__name__}\(x\) takes an array of rank 0.*x\.item\(\)"):
                convert(x)
    with pytest.raises(ShapeError, match="rank 0"):
        range(jnp.arange(3))
    assert bool(jnp.ones((1, 1))) is True and float(jnp.asarray(2.5)) == 2.5 and [5, 6][jnp.asarray(1)] == 6


def test_integers_that_do_not_fit():
    with pytest.raises(DTypeError, match=r"300 does not fit in uint8.*larger dtype.*\.astype\('uint8'\)") as info:
        jnp.array(300, dtype=jnp.uint8)
    assert "other operand" not in str(info.value)


def test_empty_arrays_print_their_shape():
    assert repr(jnp.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float32)"
    assert repr(jnp.zeros(0)) == "Array([], dtype=float32)"


def test_members_of_arrays():
    assert jnp.array([1, 0]).choose([[1, 2], [3, 4]]).tolist() == [3, 2]
    assert V.compress([True, False, True]).tolist() == [3, 2]
    assert X.compress([False, True], axis=0).shape == (1, 3)
    assert float(V[V.argpartition(1)[0]]) == 1
    assert not V.is_deleted() and V.is_ready() and V.platform() == "cpu"
    assert V.delete() is None and V.copy_to_host_async() is None and V.tolist() == [3, 1, 2]
    assert V.on_device_size_in_bytes() == V.nbytes == 12
    assert V.is_fully_addressable and V.is_fully_replicated and not V.committed
    assert V.addressable_data(0) is V
    with pytest.raises(ArgumentError, match="one part"):
        V.addressable_data(3)


def test_view_is_numpys():
    known = np.asarray(X)
    for dtype in (np.int32, np.uint32, np.uint8, np.int16, np.float32):
        found = X.view(dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(np.asarray(found), known.view(dtype))
        np.testing.assert_array_equal(np.asarray(functad.jit(lambda x, d=dtype: x.view(d))(X)), known.view(dtype))
    wide = jnp.arange(8, dtype=jnp.int16).reshape(2, 4)
    np.testing.assert_array_equal(np.asarray(wide.view(jnp.int32)), np.asarray(wide).view(np.int32))
    assert (T > 0).view(jnp.uint8).tolist() == [1, 1] and V.view() is V
    with pytest.raises(ArgumentError, match="whole elements"):
        X.view(jnp.float64)
    with pytest.raises(ArgumentError, match="whole elements"):
        jnp.asarray(1.0).view(jnp.uint8)
    with pytest.raises(DTypeError, match="use x.astype"):
        V.view(bool)


def test_axes_may_be_an_array_of_numpys_or_a_range():
    x = jnp.ones((2, 3, 4))
    assert jnp.expand_dims(x, range(2)).shape == (1, 1, 2, 3, 4) and jnp.sum(x, axis=range(3)) == 24
    assert jnp.transpose(x, np.argsort([2, 0, 1])).shape == np.transpose(np.ones((2, 3, 4)), [1, 2, 0]).shape
    assert jnp.sum(x, axis=np.array([0, 1])).tolist() == [6.0] * 4 and jnp.flip(x, np.int64(1)).shape == x.shape


def test_shapes_may_be_anything_with_sizes():
    class Shape:
        def __iter__(self):
            return iter((2, 3))

    assert jnp.zeros(Shape()).shape == (2, 3) == jnp.broadcast_to(1.0, range(2, 4)).shape
    for refused in ("ab", 1.5, None, {"a": 1}):
        with pytest.raises(ArgumentError, match="shape must be an integer or several"):
            jnp.zeros(refused)
