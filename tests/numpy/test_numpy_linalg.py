"""`functad.numpy.linalg`: norms and products, called directly and through `numpy.linalg`."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, ShapeError, UnsupportedNumpyError

V = jnp.array([3.0, -4.0, 1.0])
A = jnp.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
S = jnp.array([[1.0, 2.0], [0.5, -1.0]])
B = jnp.arange(24.0).reshape(2, 3, 4) - 7


@pytest.mark.parametrize(
    "call",
    [
        *[lambda la, o=o: la.norm(V if la is jnp.linalg else np.asarray(V), o) for o in (None, 1, 2, 3, 0, -1, 0.5)],
        *[lambda la, o=o: la.norm(V if la is jnp.linalg else np.asarray(V), o) for o in (np.inf, -np.inf)],
    ],
)
def test_vector_norms(call):
    np.testing.assert_allclose(np.asarray(call(jnp.linalg)), call(np.linalg), rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.linalg.norm(x),
        lambda x: np.linalg.norm(x[0], "fro"),
        lambda x: np.linalg.norm(x, 1, (0, 2)),
        lambda x: np.linalg.norm(x, -1, (2, 0)),
        lambda x: np.linalg.norm(x, np.inf, axis=(-1, 0), keepdims=True),
        lambda x: np.linalg.norm(x, -np.inf, axis=(1, 2)),
        lambda x: np.linalg.norm(x, axis=1, keepdims=True),
        lambda x: np.linalg.norm(x * (1 + 2j)),
        lambda x: np.linalg.vector_norm(x),
        lambda x: np.linalg.vector_norm(x, axis=(0, 1), keepdims=True, ord=1),
        lambda x: np.linalg.vector_norm(x, ord=3),
        lambda x: np.linalg.matrix_norm(x),
        lambda x: np.linalg.matrix_norm(x, ord=1, keepdims=True),
        lambda x: np.linalg.multi_dot([x[0], x[1].T, x[0], x[1, 0]]),
        lambda x: np.linalg.multi_dot([x[0, 0], x[1].T]),
        lambda x: np.linalg.matrix_power(x[:, :2, :2], 5),
        lambda x: np.linalg.matrix_power(x[:, :2, :2], 0),
        lambda x: np.linalg.matmul(x[0], x[1].T),
        lambda x: np.linalg.outer(x[0, 0], x[1, 1]),
        lambda x: np.linalg.cross(x[0], x[1], axis=0),
        lambda x: np.linalg.tensordot(x, x, axes=((0, 1), (0, 1))),
        lambda x: np.linalg.vecdot(x, x),
        lambda x: np.linalg.matrix_transpose(x),
        lambda x: np.linalg.trace(x, offset=1),
        lambda x: np.linalg.diagonal(x, offset=1),
    ],
)
def test_calls_of_numpy_linalg(call):
    expected = call(np.asarray(B))
    known, traced = call(B), functad.jit(call)(B)
    assert not isinstance(known, functad.Array) and isinstance(traced, functad.Array)
    np.testing.assert_allclose(known, expected, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(traced), expected, rtol=1e-5)


def test_gradients_of_norms():
    gradient = functad.grad(jnp.linalg.norm)
    np.testing.assert_allclose(np.asarray(gradient(V)), np.asarray(V) / np.sqrt(26), rtol=1e-6)
    # The Euclidean norm has no derivative at 0: NaN, as the derivative of a square root at 0 makes it.
    assert np.isnan(np.asarray(gradient(jnp.zeros(2)))).all()
    cubic = functad.grad(lambda x: jnp.linalg.norm(x, 3))
    assert cubic(jnp.array([0.0, 1.0])).tolist() == [0, 1] and np.isnan(np.asarray(cubic(jnp.zeros(2)))).all()
    assert functad.grad(lambda x: jnp.linalg.norm(x, 0))(V).tolist() == [0, 0, 0]
    assert functad.grad(lambda x: jnp.linalg.norm(x, np.inf))(V).tolist() == [0, -1, 0]
    # The largest size is at least 0; where all are, the derivative is divided among them and that bound, as in JAX.
    assert functad.grad(lambda x: jnp.linalg.norm(x, np.inf))(jnp.zeros(2)).tolist() == [0.25, 0.25]
    assert functad.grad(lambda x: jnp.linalg.norm(x, 1))(jnp.zeros((2, 2))).tolist() == [[0.25, 0.25]] * 2


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: functad.jit(np.linalg.svd)(A),
            UnsupportedNumpyError,
            "numpy.linalg.svd was called on a functad value",
        ),
        (
            lambda: functad.jit(np.linalg.inv)(S),
            UnsupportedNumpyError,
            "numpy.linalg.inv was called on a functad value",
        ),
        (lambda: jnp.linalg.norm(A, 2), UnsupportedNumpyError, "singular values"),
        (lambda: jnp.linalg.norm(A, "nuc"), UnsupportedNumpyError, "singular values"),
        (lambda: jnp.linalg.norm(A, 5), ArgumentError, "no norm of matrices"),
        (lambda: jnp.linalg.norm(V, "fro"), ArgumentError, "no norm of vectors"),
        (lambda: jnp.linalg.norm(B, 1), ShapeError, "takes a vector or a matrix"),
        (lambda: jnp.linalg.norm(B, axis=(0, 1, 2)), ArgumentError, "one axis, or a pair"),
        (lambda: jnp.linalg.matrix_power(S, -1), UnsupportedNumpyError, "inverse"),
        (lambda: jnp.linalg.matrix_power(A, 2), ShapeError, "square"),
        (lambda: jnp.linalg.matrix_power(S, 1.5), ArgumentError, "integer"),
        (lambda: jnp.linalg.matrix_norm(V), ShapeError, "takes matrices"),
        (lambda: jnp.linalg.multi_dot([A]), ArgumentError, "at least two"),
        (lambda: jnp.linalg.multi_dot([A, V, A]), ShapeError, r"array 1 has shape \(3,\)"),
        (lambda: jnp.linalg.outer(A, V), ShapeError, "takes vectors"),
        (lambda: jnp.linalg.cross(V[:2], V[:2]), ShapeError, "three components"),
    ],
)
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
