"""`frompyfunc`: a function of elements as a ufunc, against NumPy's ufunc that does the same."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, ImmutableArrayError, UnsupportedNumpyError

X = jnp.array([[1.0, 2.0, 0.5], [-3.0, 0.25, 4.0]])
MASK = np.array([[True, False, True], [False, False, True]])


def difference(x, y):
    return x - 2 * y


def minus(x, y):
    return x - y


OURS = jnp.frompyfunc(minus, 2, 1, identity=0)
TWO = jnp.frompyfunc(lambda x, y: (jnp.minimum(x, y), jnp.maximum(x, y)), 2, 2)
CALLS = {
    "call": lambda f, x: f(x, x[0]),
    "reduce": lambda f, x: f.reduce(x),
    "reduce-keepdims": lambda f, x: f.reduce(x, axis=-1, keepdims=True),
    "reduce-one": lambda f, x: f.reduce(x[:1]),
    "reduce-integers": lambda f, x: f.reduce(x.astype("int32"), 1, dtype="float32"),
    "accumulate": lambda f, x: f.accumulate(x, 1),
    "reduceat": lambda f, x: f.reduceat(x, [0, 2, 1], axis=1),
    "outer": lambda f, x: f.outer(x, x[0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_are_those_of_numpys_ufunc(name):
    call = CALLS[name]
    expected = call(np.subtract, np.asarray(X))
    for run in (lambda f: f, functad.jit):
        found = run(lambda x: call(OURS, x))(X)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6)


@pytest.mark.parametrize("ufunc", [OURS, jnp.subtract])
def test_reductions_with_a_start_and_a_mask(ufunc):
    x = np.asarray(X)
    assert ufunc.reduce(X, initial=10.0).tolist() == (10 - x[0] - x[1]).tolist()
    expected = 10 - np.where(MASK, x, 0).sum(1)
    np.testing.assert_allclose(np.asarray(ufunc.reduce(X, 1, where=MASK, initial=10.0)), expected)
    assert ufunc.reduce(X[:0], initial=2.0).tolist() == [2, 2, 2]


def test_the_identity_and_two_results():
    assert OURS.reduce(jnp.zeros((0, 2))).tolist() == [0, 0]
    assert OURS.reduce(X, where=MASK).tolist() == [-1, 0, -4.5]
    low, high = TWO(X, 1.0)
    assert low.max() == 1 and high.min() == 1
    assert jnp.logical_xor.reduce(jnp.array([3, 0, 5]), where=np.array([True, True, False])).tolist() is True


def test_it_is_differentiable_and_a_static_argument():
    slope = functad.grad(lambda x: OURS.reduce(x * x))(jnp.array([3.0, 1.0, 2.0]))
    assert slope.tolist() == [6, -2, -4]
    assert jnp.frompyfunc(minus, 2, 1, identity=0) == OURS != jnp.frompyfunc(difference, 2, 1)
    run = functad.jit(lambda f, x: f(x, x), static_argnums=0)
    assert run(OURS, 2.0) == 0
    assert (OURS.nin, OURS.nout, OURS.nargs, OURS.identity, repr(OURS)) == (2, 1, 3, 0, "<functad.numpy.ufunc 'minus'>")


def test_a_method_that_is_given():
    f = jnp.ufunc(minus, 2, 1, name="sub", reduce=lambda a, **options: 7)
    assert f.reduce(X) == 7 and f.__name__ == "sub"


@pytest.mark.parametrize("transform", [lambda f: f, functad.jit])
@pytest.mark.parametrize("index", [0, (1, 2), np.array([0, 1, 0]), (slice(None), np.array([2, 2])), X > 1])
def test_at_goes_through_elements_one_by_one(transform, index):
    for name, ufunc, dtype in (("hypot", jnp.hypot, np.float32), ("bitwise_xor", jnp.bitwise_xor, np.int32)):
        x = np.asarray(X).astype(dtype)
        expected = x.copy()
        values = np.full(np.shape(x[index]), 3, dtype)
        getattr(np, name).at(expected, index, values)
        found = transform(lambda x, v, ufunc=ufunc: ufunc.at(x, index, v, inplace=False))(x, values)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_at_of_functions_written_in_python():
    doubled = jnp.frompyfunc(lambda x: 2 * x, 1, 1)
    assert doubled.at(jnp.array([1, 2, 3]), jnp.array([0, 2, 0]), inplace=False).tolist() == [4, 2, 6]
    assert jnp.frompyfunc(difference, 2, 1).at(jnp.array([1.0, 2.0]), [1, 1], 3.0, inplace=False).tolist() == [1, -10]
    assert OURS.at(jnp.array([1.0, 2.0]), jnp.array([5, -1]), 3.0, inplace=False).tolist() == [1, -1]
    slope = functad.grad(lambda x: jnp.hypot.at(x, jnp.array([0, 0]), 4.0, inplace=False).sum())(jnp.array([2.0, 1.0]))
    np.testing.assert_allclose(slope, [2 / 6, 1])  # of √(x² + 16 + 16)


NO_IDENTITY = jnp.frompyfunc(difference, 2, 1)
REFUSED = [
    (lambda: NO_IDENTITY.reduce(X[:0]), ArgumentError, "has no identity; give initial="),
    (lambda: NO_IDENTITY.reduce(X, where=MASK), ArgumentError, "has no identity; give initial="),
    (lambda: OURS.reduce(X, axis=None), UnsupportedNumpyError, "combines one axis"),
    (lambda: OURS(X), ArgumentError, "minus takes 2 arguments, got 1"),
    (lambda: OURS(X, X, where=MASK), UnsupportedNumpyError, "out= and where= cannot work"),
    (lambda: OURS.at(X, 0, 1.0), ImmutableArrayError, r"x = functad.numpy.minus.at\(x, i, b, inplace=False\)$"),
    (lambda: TWO.at(X, 0, 1.0, inplace=False), ArgumentError, "two operands and one result, but this has 2 and 2"),
    (lambda: jnp.frompyfunc(abs, 1, 1).reduce(X), ArgumentError, "two operands and one result, but this has 1 and 1"),
    (lambda: jnp.add.at(X, 0, 1.0), ImmutableArrayError, "inplace=False"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
