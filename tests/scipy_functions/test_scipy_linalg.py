"""`functad.scipy.linalg` by what defines each function, compiled and mapped; values are compared with JAX's, too."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
import functad.scipy.linalg as sla
from functad.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4, 4))
B = RNG.normal(size=(3, 4, 2))
POSITIVE = A @ A.swapaxes(-1, -2) + np.eye(4)


def product(*factors):
    found = factors[0]
    for f in factors[1:]:
        found = found @ f
    return found


def adjoint(x):
    return jnp.conj(jnp.swapaxes(x, -1, -2))


IDENTITIES = {
    "cholesky": (lambda a: product(adjoint(sla.cholesky(a)), sla.cholesky(a)), POSITIVE, POSITIVE),
    "cho_solve": (lambda a: a @ sla.cho_solve(sla.cho_factor(a), B[0]), POSITIVE[0], B[0]),
    "lu_solve": (lambda a: a @ sla.lu_solve(sla.lu_factor(a), B[0]), A[0], B[0]),
    "lu_solve, adjoint": (lambda a: adjoint(a) @ sla.lu_solve(sla.lu_factor(a), B[0], trans=2), A[0], B[0]),
    "lu": (lambda a: product(*sla.lu(a)), A[0], A[0]),
    "qr": (lambda a: product(*sla.qr(a)), A[0], A[0]),
    "qr, pivoting": (lambda a: (lambda q, r, p: q @ r - a[:, p])(*sla.qr(a, pivoting=True)), A[0], np.zeros((4, 4))),
    "svd": (lambda a: (lambda u, s, v: u * s @ v)(*sla.svd(a)), A[0], A[0]),
    "eigh": (lambda a: (lambda w, v: v * w @ v.T)(*sla.eigh(a)), POSITIVE[0], POSITIVE[0]),
    "polar": (lambda a: product(*sla.polar(a, method="svd")), A[0], A[0]),
    "schur": (lambda a: (lambda t, z: z @ t @ adjoint(z))(*sla.schur(a)), A[0], A[0]),
    "hessenberg": (lambda a: (lambda h, q: q @ h @ adjoint(q))(*sla.hessenberg(a, calc_q=True)), A[0], A[0]),
    "inv": (lambda a: a @ sla.inv(a), A, np.broadcast_to(np.eye(4), (3, 4, 4))),
    "solve": (lambda a: a @ sla.solve(a, B), A, B),
    "solve, positive": (lambda a: a @ sla.solve(a, B, assume_a="pos"), POSITIVE, B),
    "solve_triangular": (lambda a: jnp.tril(a) @ sla.solve_triangular(a, B, lower=True), A, B),
    "det": (lambda a: sla.det(a @ a) - sla.det(a) ** 2, A, np.zeros(3)),
    "sqrtm": (lambda a: product(sla.sqrtm(a), sla.sqrtm(a)), POSITIVE[0], POSITIVE[0]),
    "expm": (lambda a: sla.expm(a) @ sla.expm(-a), A, np.broadcast_to(np.eye(4), (3, 4, 4))),
    "solve_sylvester": (
        lambda a: (lambda x: a @ x + x @ POSITIVE[0])(sla.solve_sylvester(a, POSITIVE[0], A[1])),
        POSITIVE[1],
        A[1],
    ),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_what_defines_a_function_holds_un_jitted_compiled_and_mapped(name):
    identity, a, expected = IDENTITIES[name]
    for form in (identity, functad.jit(identity)):
        np.testing.assert_allclose(np.asarray(form(a)), expected, atol=1e-9)
    if a.ndim == 2:
        mapped = functad.jit(functad.vmap(identity))(np.stack([a, a]))
        np.testing.assert_allclose(np.asarray(mapped[1]), expected, atol=1e-9)


def test_matrices_that_convolve():
    for size in (1, 2, 3, 5):
        a = A[:2, 0, :size] if size <= A.shape[-1] else np.arange(2.0 * size).reshape(2, size)
        for mode in ("full", "same", "valid"):
            for n in (1, 2, 3, 6):
                v = np.arange(1.0, n + 1)
                found = sla.convolution_matrix(a, n, mode) @ v
                np.testing.assert_allclose(found, [np.convolve(x, v, mode) for x in a], rtol=1e-12)


@pytest.mark.parametrize("n", range(1, 8))
def test_fiedlers_companions_have_the_roots_of_their_polynomials(n):
    roots = np.arange(1.0, n)
    polynomials = np.stack([np.poly(roots), -2 * np.poly(roots)]) if n > 1 else np.ones((2, 1))
    found = np.asarray(sla.fiedler_companion(polynomials))
    assert found.shape == (2, n - 1, n - 1)
    for one in found:
        np.testing.assert_allclose(np.sort(np.linalg.eigvals(one).real), roots, rtol=1e-6)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_inverses_that_are_integers(n):
    with functad.enable_x64(True):
        for kind in (None, "lower", "upper"):
            np.testing.assert_array_equal(sla.invpascal(n, kind) @ np.asarray(sla.pascal(n, kind), float), np.eye(n))
        np.testing.assert_allclose(sla.invhilbert(n) @ sla.hilbert(n), np.eye(n), atol=1e-9)
        assert sla.invhilbert(n).dtype == sla.invpascal(n).dtype == sla.hilbert(n).dtype == np.float64


@pytest.mark.parametrize(
    ("name", "call", "error"),
    [
        ("not square", lambda: sla.cholesky(A[0, :3]), ShapeError),
        ("no mode", lambda: sla.qr(A[0], mode="half"), ArgumentError),
        ("no power of 2", lambda: sla.hadamard(3), ArgumentError),
        ("no elements", lambda: sla.convolution_matrix(A[0, 0, :0], 2), ArgumentError),
        ("no columns", lambda: sla.convolution_matrix(A[0, 0], 0), ArgumentError),
        ("no such mode", lambda: sla.convolution_matrix(A[0, 0], 2, "some"), ArgumentError),
        ("no coefficients", lambda: sla.fiedler_companion(A[0, 0, :0]), ArgumentError),
        ("no such kind", lambda: sla.invpascal(2, "left"), ArgumentError),
    ],
)
def test_what_does_not_fit_raises(name, call, error):
    with pytest.raises(error):
        call()
