"""Linear algebra against JAX: values and derivatives of `numpy.linalg` and `lax.linalg`, in float32 and float64."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

RNG = np.random.default_rng(5)
SQUARE = RNG.normal(size=(2, 4, 4))
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) + np.eye(4)
TALL, WIDE = RNG.normal(size=(2, 5, 3)), RNG.normal(size=(3, 5))
RIGHT, VECTOR = RNG.normal(size=(2, 4, 3)), RNG.normal(size=5)
TENSOR = RNG.normal(size=(3, 2, 6))
DIAGONALS = [RNG.normal(size=(2, 4)) + 3 * (k == 1) for k in range(3)]

# Functions of modules (numpy, lax) and arrays; what is returned is compared, and its derivative.
NUMPY = {
    "cholesky": (lambda m, a: m.linalg.cholesky(a), POSITIVE),
    "cholesky, upper": (lambda m, a: m.linalg.cholesky(a, upper=True, symmetrize_input=True), POSITIVE),
    "qr": (lambda m, a: tuple(m.linalg.qr(a)), TALL),
    "qr, complete": (lambda m, a: tuple(m.linalg.qr(a, "complete")), TALL),
    "qr, wide": (lambda m, a: tuple(m.linalg.qr(a)), WIDE),
    "svd": (lambda m, a: tuple(m.linalg.svd(a, full_matrices=False)), TALL),
    "svd, wide": (lambda m, a: tuple(m.linalg.svd(a, full_matrices=False)), WIDE),
    "svdvals": (lambda m, a: m.linalg.svdvals(a), WIDE),
    "svd, hermitian": (lambda m, a: m.linalg.svd(a, compute_uv=False, hermitian=True), POSITIVE),
    "eigh": (lambda m, a: tuple(m.linalg.eigh(a)), POSITIVE),
    "eigh, U": (lambda m, a: tuple(m.linalg.eigh(a, "U", symmetrize_input=True)), POSITIVE),
    "eigvalsh": (lambda m, a: m.linalg.eigvalsh(a), SQUARE),
    "eigvals": (lambda m, a: m.real(m.linalg.eigvals(a)), SQUARE),
    "solve": (lambda m, a, b: m.linalg.solve(a, b), SQUARE, RIGHT),
    "solve, a vector": (lambda m, a, b: m.linalg.solve(a, b), SQUARE[0], RIGHT[0, :, 0]),
    "solve, broadcast": (lambda m, a, b: m.linalg.solve(a, b), SQUARE[0], RIGHT),
    "inv": (lambda m, a: m.linalg.inv(a), SQUARE),
    "det": (lambda m, a: m.linalg.det(a), SQUARE),
    "det, 2": (lambda m, a: m.linalg.det(a), SQUARE[:, :2, :2]),
    "det, 1": (lambda m, a: m.linalg.det(a), SQUARE[:, :1, :1]),
    "slogdet": (lambda m, a: tuple(m.linalg.slogdet(a)), SQUARE),
    "lstsq": (lambda m, a, b: m.linalg.lstsq(a, b)[0], TALL[0], VECTOR),
    "lstsq, all": (lambda m, a, b: m.linalg.lstsq(a, b)[:2], TALL[0], TALL[1]),
    "pinv": (lambda m, a: m.linalg.pinv(a), TALL),
    "pinv, wide": (lambda m, a: m.linalg.pinv(a), WIDE),
    "pinv, hermitian": (lambda m, a: m.linalg.pinv(a, hermitian=True), POSITIVE),
    "matrix_power": (lambda m, a: m.linalg.matrix_power(a, -2), SQUARE),
    "cond": (lambda m, a: m.linalg.cond(a), SQUARE),
    "cond, 1": (lambda m, a: m.linalg.cond(a, 1), SQUARE),
    "norm, nuc": (lambda m, a: m.linalg.norm(a, "nuc", (0, 2), keepdims=True), TALL),
    "norm, 2": (lambda m, a: m.linalg.norm(a, 2, (-1, -2)), TALL),
    "norm, -2": (lambda m, a: m.linalg.norm(a, -2), WIDE),
    "tensorinv": (lambda m, a: m.linalg.tensorinv(a), TENSOR),
    "tensorsolve": (lambda m, a, b: m.linalg.tensorsolve(a, b), TENSOR, WIDE[:, :2]),
    "multi_dot": (lambda m, a, b: m.linalg.multi_dot([a, b, b.T, a.T]), WIDE, RNG.normal(size=(5, 2))),
}
FLAG_NAMES = ("left_side", "lower", "transpose_a", "unit_diagonal")
FLAGS = [dict(zip(FLAG_NAMES, map(bool, bits))) for bits in np.ndindex(2, 2, 2, 2)]

LAX = {
    "lu": (lambda m, a: m.linalg.lu(a)[0], SQUARE),
    "lu, tall": (lambda m, a: m.linalg.lu(a)[0], TALL),
    "lu, wide": (lambda m, a: m.linalg.lu(a)[0], WIDE),
    "qr, pivoting": (lambda m, a: m.linalg.qr(a, pivoting=True, full_matrices=False)[:2], TALL[0]),
    "cholesky, symmetric": (lambda m, a: m.linalg.cholesky(a), POSITIVE),
    "eigh": (lambda m, a: tuple(m.linalg.eigh(a, lower=False)), POSITIVE),
    "tridiagonal_solve": (lambda m, a, b, c, d: m.linalg.tridiagonal_solve(a, b, c, d), *DIAGONALS, RIGHT),
    **{
        f"triangular_solve {k}": (
            lambda m, a, b, f=flags: m.linalg.triangular_solve(a, b, **f),
            POSITIVE,
            RIGHT if flags["left_side"] else RIGHT.swapaxes(-1, -2),
        )
        for k, flags in enumerate(FLAGS)
    },
}
NO_DERIVATIVE = {
    "rank": (lambda m, a: m.linalg.matrix_rank(a), np.stack([np.ones((3, 3)), np.eye(3), np.zeros((3, 3))])),
    "slogdet, singular": (lambda m, a: tuple(m.linalg.slogdet(a)), np.zeros((2, 3, 3))),
    "cholesky, not positive": (lambda m, a: m.linalg.cholesky(a), -POSITIVE),
    "eig": (lambda m, a: tuple(m.linalg.eig(a)), SQUARE),
    "qr, raw": (lambda m, a: tuple(m.linalg.qr(a, "raw")), TALL),
}
LAX_NO_DERIVATIVE = {
    "cholesky_update": (lambda m, a, b: m.linalg.cholesky_update(m.linalg.cholesky(a).T, b), POSITIVE[0], VECTOR[:4]),
    "symmetric_product": (lambda m, a, c: m.linalg.symmetric_product(a, c, alpha=2.0, beta=3.0), SQUARE, SQUARE),
    "lu": (lambda m, a: m.linalg.lu(a), SQUARE),
    "lu, singular": (lambda m, a: m.linalg.lu(a), np.ones((3, 3))),
    "eig": (lambda m, a: tuple(m.linalg.eig(a)), SQUARE),
    "schur": (lambda m, a: m.linalg.schur(a), SQUARE),
    "hessenberg": (lambda m, a: m.linalg.hessenberg(a), SQUARE),
    "tridiagonal": (lambda m, a: m.linalg.tridiagonal(a), POSITIVE),
    "householder": (lambda m, a: m.linalg.householder_product(*m.linalg.hessenberg(a)), SQUARE),
    "pivots": (lambda m, a: m.linalg.lu_pivots_to_permutation(m.linalg.lu(a)[1], 5), TALL),
    "qr, pivoting": (lambda m, a: m.linalg.qr(a, pivoting=True), TALL),
}
MODULES = {"numpy": (jnp, jax.numpy), "lax": (lax, jax.lax)}
CASES = [(m, n, c) for m, cases in (("numpy", NUMPY), ("lax", LAX)) for n, c in cases.items()]
WITHOUT = (("numpy", NO_DERIVATIVE), ("lax", LAX_NO_DERIVATIVE))
VALUES = CASES + [(m, n, c) for m, cases in WITHOUT for n, c in cases.items()]
# Which of two signs vectors have, and in which order equal sizes come, is decided by rounding.
WIDE_ONLY = {"eig", "schur"}
ONCE_IN_JAX = {"eigvals", "qr, pivoting"}  # these it differentiates once
RTOL = {"float32": 2e-3, "float64": 1e-8}


def assert_all_close(found, expected, dtype):
    found, expected = functad.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected):
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert ours.shape == theirs.shape and (ours.dtype == theirs.dtype or ours.dtype.kind in "iu")
        rows = theirs.reshape(-1, theirs.shape[-1]) if theirs.ndim > 1 else theirs
        finite = rows[np.isfinite(rows)]
        scale = np.max(np.abs(finite), initial=1e-30)
        np.testing.assert_allclose(ours, theirs, rtol=RTOL[dtype], atol=RTOL[dtype] * scale)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("module, name, case", VALUES, ids=[f"{m}-{n}" for m, n, _ in VALUES])
def test_values(module, name, case, dtype):
    fun, *args = case
    args = [a.astype("float64" if name in WIDE_ONLY else dtype) for a in args]
    ours, theirs = MODULES[module]
    found = fun(ours, *args)
    with jax.enable_x64(True):
        assert_all_close(found, jax.jit(lambda *x: fun(theirs, *x))(*args), dtype)


@pytest.mark.parametrize("module, name, case", CASES, ids=[f"{m}-{n}" for m, n, _ in CASES])
def test_derivatives(module, name, case):
    """The gradient of the results with weights, and the Jacobian along one direction of that gradient."""
    fun, *args = case
    ours, theirs = MODULES[module]
    rng = np.random.default_rng(7)
    along = [rng.normal(size=a.shape) for a in args]

    def weighted(tree, of, given):
        def total(*values):
            results = tree.leaves(fun(of, *values))
            return sum((r * w).sum() for r, w in zip(results, given))

        return total

    given = [rng.normal(size=np.shape(r)) for r in functad.tree.leaves(fun(ours, *args))]
    numbers = tuple(range(len(args)))
    our_grad = functad.grad(weighted(functad.tree, ours, given), numbers)
    found = [our_grad(*args)] if name in ONCE_IN_JAX else functad.jvp(our_grad, args, along)
    with jax.enable_x64(True):
        their_grad = jax.grad(weighted(jax.tree, theirs, given), numbers)
        once, twice = lambda x, v: [their_grad(*x)], lambda x, v: jax.jvp(their_grad, x, v)
        expected = jax.jit(once if name in ONCE_IN_JAX else twice)(tuple(args), tuple(along))
    assert_all_close(found, expected, "float64")
    assert_all_close(functad.jit(our_grad)(*args), expected[0], "float64")
