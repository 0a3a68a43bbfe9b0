"""`scipy.linalg` against JAX: values, and derivatives where both have them."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
import functad.scipy.linalg

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
import jax.scipy.linalg as jla  # noqa: E402

RNG = np.random.default_rng(9)
SQUARE = RNG.normal(size=(4, 4))
MANY = RNG.normal(size=(3, 4, 4))
POSITIVE = SQUARE @ SQUARE.T + np.eye(4)
TALL, WIDE = RNG.normal(size=(5, 3)), RNG.normal(size=(3, 5))
RIGHT, VECTOR, OTHER = RNG.normal(size=(4, 2)), RNG.normal(size=4), RNG.normal(size=3)

DIFFERENTIABLE = {
    "cholesky": (lambda m, a: m.cholesky(a @ a.T + 1), SQUARE),
    "cholesky, lower": (lambda m, a: m.cholesky(a @ a.T + 1, lower=True), SQUARE),
    "cho_solve": (lambda m, a, b: m.cho_solve(m.cho_factor(a @ a.T + 1), b), SQUARE, RIGHT),
    "cho_solve, lower": (lambda m, a, b: m.cho_solve(m.cho_factor(a @ a.T + 1, lower=True), b), SQUARE, VECTOR),
    "det": (lambda m, a: m.det(a), SQUARE),
    "inv": (lambda m, a: m.inv(a), MANY),
    "lu": (lambda m, a: m.lu(a)[1:], SQUARE),
    "lu, permuted": (lambda m, a: m.lu(a, permute_l=True), TALL),
    "lu_solve": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b), SQUARE, RIGHT),
    "lu_solve, transposed": (lambda m, a, b: m.lu_solve(m.lu_factor(a), b, trans=1), SQUARE, VECTOR),
    "solve": (lambda m, a, b: m.solve(a, b), SQUARE, RIGHT),
    "solve, pos": (lambda m, a, b: m.solve(a, b, assume_a="pos"), POSITIVE, RIGHT),
    "solve, pos, lower": (lambda m, a, b: m.solve(a, b, assume_a="pos", lower=True), POSITIVE, VECTOR),
    "solve_triangular": (lambda m, a, b: m.solve_triangular(a + 3, b), SQUARE, RIGHT),
    "solve_triangular, T": (lambda m, a, b: m.solve_triangular(a + 3, b, trans="T", lower=True), SQUARE, VECTOR),
    "solve_triangular, unit": (lambda m, a, b: m.solve_triangular(a, b, unit_diagonal=True), MANY, MANY),
    "qr": (lambda m, a: m.qr(a, mode="economic"), TALL),
    "svd": (lambda m, a: m.svd(a, full_matrices=False), TALL),
    "eigh": (lambda m, a: m.eigh(a), POSITIVE),
    "polar": (lambda m, a: m.polar(a, method="svd"), TALL),
    "polar, left": (lambda m, a: m.polar(a, side="left", method="svd"), WIDE),
    "expm": (lambda m, a: m.expm(a), SQUARE),
    "expm, small": (lambda m, a: m.expm(a / 100), SQUARE),
    "expm, large": (lambda m, a: m.expm(a * 10), SQUARE),
    "expm, many": (lambda m, a: m.expm(a), MANY),
    "expm_frechet": (lambda m, a, b: m.expm_frechet(a, b), SQUARE, POSITIVE),
    "block_diag": (lambda m, a, b: m.block_diag(a, b, a), SQUARE, VECTOR),
    "toeplitz": (lambda m, a, b: m.toeplitz(a, b), VECTOR, OTHER),
    "toeplitz, symmetric": (lambda m, a: m.toeplitz(a), SQUARE),
    "hankel": (lambda m, a, b: m.hankel(a, b), VECTOR, OTHER),
    "hankel, zeros": (lambda m, a: m.hankel(a), VECTOR),
    "circulant": (lambda m, a: m.circulant(a), SQUARE),
    "companion": (lambda m, a: m.companion(a), VECTOR),
    "leslie": (lambda m, a, b: m.leslie(a, b), VECTOR, OTHER),
    "fiedler": (lambda m, a: m.fiedler(a), VECTOR),
}
VALUES = {
    "lu": (lambda m, a: m.lu(a), WIDE),
    "lu_factor": (lambda m, a: m.lu_factor(a), SQUARE),
    "qr, full": (lambda m, a: m.qr(a), TALL),
    "qr, pivoting": (lambda m, a: m.qr(a, pivoting=True, mode="r"), TALL),
    "qr_multiply": (lambda m, a, b: m.qr_multiply(a, b), SQUARE, RIGHT.T),
    "qr_multiply, left": (lambda m, a, b: m.qr_multiply(a, b, mode="left", pivoting=True), TALL, OTHER),
    "qr_multiply, conjugate": (lambda m, a, b: m.qr_multiply(a, b, conjugate=True), TALL, TALL.T),
    "eigh, values": (lambda m, a: m.eigh(a, eigvals_only=True, lower=False), POSITIVE),
    "eigh_tridiagonal": (lambda m, a, b: m.eigh_tridiagonal(a, b, eigvals_only=True), VECTOR, OTHER),
    "eigh_tridiagonal, some": (
        lambda m, a, b: m.eigh_tridiagonal(a, b, eigvals_only=True, select="i", select_range=(1, 2)),
        VECTOR,
        OTHER,
    ),
    "schur": (lambda m, a: m.schur(a), SQUARE),
    "hessenberg": (lambda m, a: m.hessenberg(a), MANY),
    "hessenberg, q": (lambda m, a: m.hessenberg(a, calc_q=True), MANY),
    "sqrtm": (lambda m, a: m.sqrtm(a), SQUARE),
    "sqrtm, positive": (lambda m, a: m.sqrtm(a), POSITIVE),
    "funm": (lambda m, a: m.funm(a, lambda x: x**2 + 1, disp=False), SQUARE),
    "solve_sylvester": (lambda m, a, b, c: m.solve_sylvester(a, b, c), SQUARE, WIDE[:, :3], RNG.normal(size=(4, 3))),
    "solve_sylvester, none": (lambda m, a, c: m.solve_sylvester(a, -a, c), SQUARE, POSITIVE),
    "expm, too large": (lambda m, a: m.expm(1e9 * a), SQUARE),
    "expm, upper": (lambda m, a: m.expm(a.T @ a * np.triu(np.ones((4, 4))), upper_triangular=True), SQUARE),
    "hilbert": (lambda m: m.hilbert(4),),
    "pascal": (lambda m: [m.pascal(5), m.pascal(4, "lower"), m.pascal(4, "upper")],),
    "helmert": (lambda m: [m.helmert(4), m.helmert(3, full=True)],),
    "hadamard": (lambda m: m.hadamard(8),),
    "dft": (lambda m: [m.dft(5), m.dft(4, "sqrtn"), m.dft(3, "n")],),
}


def assert_all_close(found, expected, rtol=1e-7):
    found, expected = functad.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert ours.shape == theirs.shape and ours.dtype.kind == theirs.dtype.kind
        rtol = max(rtol, 1e-5 if ours.dtype.itemsize // (1 + (ours.dtype.kind == "c")) == 4 else 0)
        finite = theirs[np.isfinite(theirs)]
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.max(np.abs(finite), initial=1e-30))


@pytest.mark.parametrize("name", [*DIFFERENTIABLE, *VALUES])
def test_values(name):
    fun, *args = (DIFFERENTIABLE | VALUES)[name]
    with jax.enable_x64(True):
        expected = jax.jit(lambda *x: fun(jla, *x))(*args)
        assert_all_close(fun(functad.scipy.linalg, *map(jnp.asarray, args)), expected)
        if args:
            assert_all_close(functad.jit(lambda *x: fun(functad.scipy.linalg, *x))(*args), expected)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name):
    fun, *args = DIFFERENTIABLE[name]
    numbers = tuple(range(len(args)))

    def weighted(tree, module, *values):
        results = tree.leaves(fun(module, *values))
        return sum((r * np.cos(np.arange(r.size)).reshape(r.shape)).sum() for r in results)

    found = functad.grad(lambda *x: weighted(functad.tree, functad.scipy.linalg, *x), numbers)(*args)
    with jax.enable_x64(True):
        expected = jax.jit(jax.grad(lambda *x: weighted(jax.tree, jla, *x), numbers))(*args)
    assert_all_close(found, expected)


@pytest.mark.parametrize("of_real", [True, False])
def test_the_complex_schur_form_which_has_a_phase_of_choice(of_real):
    form = functad.scipy.linalg.rsf2csf(*functad.scipy.linalg.schur(MANY))
    t, z = form if of_real else functad.scipy.linalg.schur(MANY, output="complex")
    t, z = np.asarray(t), np.asarray(z)
    np.testing.assert_allclose(z @ t @ z.conj().swapaxes(-1, -2), MANY, atol=1e-12)
    np.testing.assert_allclose(t, np.triu(t), atol=1e-12)
    with jax.enable_x64(True):
        theirs = jla.rsf2csf(*jla.schur(MANY))[0]
    np.testing.assert_allclose(np.diagonal(t, 0, 1, 2), np.diagonal(np.asarray(theirs), 0, 1, 2), atol=1e-10)
