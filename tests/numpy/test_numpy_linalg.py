"""`functad.numpy.linalg`: norms and products, called directly and through `numpy.linalg`."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError, DifferentiationError, DTypeError, ShapeError

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
        (lambda: jnp.linalg.norm(A, 5), ArgumentError, "no norm of matrices"),
        (lambda: jnp.linalg.norm(V, "fro"), ArgumentError, "no norm of vectors"),
        (lambda: jnp.linalg.norm(B, 1), ShapeError, "takes a vector or a matrix"),
        (lambda: jnp.linalg.norm(B, axis=(0, 1, 2)), ArgumentError, "one axis, or a pair"),
        (lambda: jnp.linalg.matrix_power(A, 2), ShapeError, "square"),
        (lambda: jnp.linalg.matrix_power(S, 1.5), ArgumentError, "integer"),
        (lambda: jnp.linalg.matrix_norm(V), ShapeError, "takes matrices"),
        (lambda: jnp.linalg.multi_dot([A]), ArgumentError, "at least two"),
        (lambda: jnp.linalg.multi_dot([A, V, A]), ShapeError, r"array 1 has shape \(3,\)"),
        (lambda: jnp.linalg.outer(A, V), ShapeError, "takes vectors"),
        (lambda: jnp.linalg.cross(V[:2], V[:2]), ShapeError, "three components"),
        (lambda: jnp.linalg.cholesky(A), ShapeError, "cholesky takes square matrices"),
        (lambda: jnp.linalg.cholesky(jnp.ones((2, 2), "float16")), DTypeError, "float32, float64"),
        (lambda: jnp.linalg.qr(A, "half"), ArgumentError, "reduced"),
        (lambda: jnp.linalg.svd(V), ShapeError, "takes matrices"),
        (lambda: jnp.linalg.svd(A, subset_by_index=(0, 1)), ArgumentError, "slice the result"),
        (lambda: jnp.linalg.eigh(S, "M"), ArgumentError, "UPLO"),
        (lambda: jnp.linalg.solve(S, V), ShapeError, r"takes b of shape \(2,\)"),
        (lambda: jnp.linalg.inv(A), ShapeError, "inv takes square matrices"),
        (lambda: jnp.linalg.det(V), ShapeError, "det takes matrices"),
        (lambda: jnp.linalg.slogdet(S, method="svd"), ArgumentError, "method"),
        (lambda: jnp.linalg.lstsq(B, V), ShapeError, "lstsq takes a of shape"),
        (lambda: jnp.linalg.pinv(A, 0.1, rcond=0.1), ArgumentError, "both"),
        (lambda: jnp.linalg.matrix_rank(A, 0.1, tol=0.1), ArgumentError, "both"),
        (lambda: jnp.linalg.cond(A, 1), ShapeError, "square"),
        (lambda: jnp.linalg.tensorinv(B, 1), ShapeError, "first 1 axes have 2 elements"),
        (lambda: jnp.linalg.tensorsolve(B, V), ShapeError, "first axes of a"),
        (lambda: functad.grad(lambda a: jnp.linalg.svd(a).U.sum())(A), DifferentiationError, "full_matrices=False"),
        (lambda: functad.grad(lambda a: lax.linalg.eig(a)[2].real.sum())(S), DifferentiationError, "enable_eigvec"),
    ],
)
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


# --- factorisations and systems -----------------------------------------------------------------------------

RNG = np.random.default_rng(0)
SQUARE = RNG.normal(size=(3, 4, 4))
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) + np.eye(4)
TALL, WIDE = RNG.normal(size=(2, 5, 3)), RNG.normal(size=(3, 5))
RIGHT = RNG.normal(size=(3, 4, 2))
LIKE_NUMPY = {
    "cholesky": lambda la: la.cholesky(POSITIVE),
    "cholesky, upper": lambda la: la.cholesky(POSITIVE, upper=True),
    "qr": lambda la: tuple(la.qr(TALL)),
    "qr, complete": lambda la: tuple(la.qr(TALL, "complete")),
    "qr, r": lambda la: la.qr(WIDE, "r"),
    "qr, raw": lambda la: tuple(la.qr(WIDE, mode="raw")),
    "svd": lambda la: tuple(la.svd(TALL, full_matrices=False)),
    "svd, full": lambda la: tuple(la.svd(WIDE)),
    "svdvals": lambda la: la.svdvals(TALL),
    "eigh": lambda la: tuple(la.eigh(POSITIVE)),
    "eigh, U": lambda la: tuple(la.eigh(POSITIVE, "U")),
    "eigvalsh": lambda la: la.eigvalsh(POSITIVE),
    "eig": lambda la: tuple(np.asarray(x, complex) for x in la.eig(SQUARE)),
    "eigvals": lambda la: np.asarray(la.eigvals(SQUARE), complex),
    "solve": lambda la: la.solve(SQUARE, RIGHT),
    "solve, a vector": lambda la: la.solve(SQUARE[0], RIGHT[0, :, 0]),
    "solve, broadcast": lambda la: la.solve(SQUARE[0], RIGHT),
    "inv": lambda la: la.inv(SQUARE),
    "det": lambda la: la.det(SQUARE),
    "det, none": lambda la: la.det(np.zeros((2, 0, 0))),
    "slogdet": lambda la: tuple(la.slogdet(SQUARE)),
    "slogdet, complex": lambda la: tuple(la.slogdet(SQUARE + 1j * SQUARE[::-1])),
    "slogdet, singular": lambda la: tuple(la.slogdet(np.zeros((2, 2)))),
    "lstsq": lambda la: la.lstsq(TALL[0], RNG_RIGHT)[0],
    "lstsq, all": lambda la: la.lstsq(TALL[0], RNG_RIGHT[:, 0]),
    "pinv": lambda la: la.pinv(TALL),
    "pinv, singular": lambda la: la.pinv(np.ones((2, 3, 3))),
    "pinv, complex": lambda la: la.pinv(WIDE + 1j * WIDE[::-1]),
    "matrix_rank": lambda la: la.matrix_rank(np.stack([np.ones((3, 3)), np.eye(3), np.zeros((3, 3))])),
    "matrix_power": lambda la: la.matrix_power(SQUARE, -3),
    "cond": lambda la: la.cond(SQUARE),
    "cond, 1": lambda la: la.cond(SQUARE, 1),
    "cond, singular": lambda la: la.cond(np.zeros((2, 2)), "fro"),
    "norm, nuc": lambda la: la.norm(TALL, "nuc", (0, 2), keepdims=True),
    "norm, 2": lambda la: la.norm(TALL, 2, (-1, -2)),
    "norm, -2": lambda la: la.norm(WIDE, -2),
    "tensorinv": lambda la: la.tensorinv(RNG_TENSOR),
    "tensorsolve": lambda la: la.tensorsolve(RNG_TENSOR, WIDE[:, :2]),
}
RNG_RIGHT, RNG_TENSOR = RNG.normal(size=(5, 2)), RNG.normal(size=(3, 2, 6))


@pytest.mark.parametrize("name", LIKE_NUMPY)
def test_values_are_those_of_numpy(name):
    found, jitted = LIKE_NUMPY[name](jnp.linalg), None
    if "eig" not in name and "lstsq, all" != name:
        jitted = functad.jit(lambda: LIKE_NUMPY[name](jnp.linalg))()
    expected = LIKE_NUMPY[name](np.linalg)
    for values in (found, jitted):
        if values is None:
            continue
        pairs = zip(values, expected, strict=True) if isinstance(expected, tuple) else [(values, expected)]
        for ours, numpys in pairs:
            np.testing.assert_allclose(np.asarray(ours), numpys, rtol=1e-8, atol=1e-9)
            assert np.asarray(ours).shape == np.shape(numpys)


def test_what_has_no_factorisation_gives_nan_alone():
    stack = np.stack([np.eye(2), [[1.0, 2.0], [2.0, 1.0]], 4 * np.eye(2)])
    for cholesky in (jnp.linalg.cholesky, functad.jit(jnp.linalg.cholesky)):
        found = np.asarray(cholesky(stack))
        assert np.isnan(found[1]).any()
        np.testing.assert_array_equal(found[[0, 2]], [np.eye(2), 2 * np.eye(2)])
    nan = np.full((2, 2), np.nan)
    assert np.isnan(np.asarray(jnp.linalg.eigh(nan).eigenvalues)).all()
    assert np.isnan(np.asarray(functad.jit(jnp.linalg.svdvals)(nan))).all()
    singular = jnp.linalg.solve(np.ones((2, 2)), np.array([1.0, 2.0]))
    assert not np.isfinite(np.asarray(singular)).any()


def test_numpys_own_names_are_passed_on_under_jit():
    def program(a, b):
        return np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.eigh(a + a.T)[0], np.linalg.svd(a)[1]

    for ours, numpys in zip(functad.jit(program)(SQUARE[0], RIGHT[0]), program(SQUARE[0], RIGHT[0]), strict=True):
        np.testing.assert_allclose(np.asarray(ours), numpys, rtol=1e-9)


def test_many_small_matrices_are_as_one_by_one():
    many, right = RNG.normal(size=(500, 3, 3)), RNG.normal(size=(500, 3, 2))
    np.testing.assert_allclose(np.asarray(jnp.linalg.solve(many, right)), np.linalg.solve(many, right), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(jnp.linalg.det(many)), np.linalg.det(many), rtol=1e-9)


def test_derivatives_of_determinants_of_singular_matrices():
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    for grad in (functad.grad(jnp.linalg.det), functad.jit(functad.grad(jnp.linalg.det))):
        np.testing.assert_allclose(np.asarray(grad(a)), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-12)
        np.testing.assert_array_equal(np.asarray(grad(np.zeros((3, 3)))), np.zeros((3, 3)))


def test_multi_dot_takes_the_cheapest_order():
    a, b, c = np.ones((2, 100)), np.ones((100, 3)), np.ones((3, 100))
    program = str(functad.make_jaxpr(lambda *x: jnp.linalg.multi_dot(x))(a, b, c))
    assert program.index("[2,3]") < program.index("[2,100] = dot_general")
