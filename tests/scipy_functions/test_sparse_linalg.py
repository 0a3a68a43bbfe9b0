"""`functad.scipy.sparse.linalg`: solutions of equations that are known, in all forms of operators and all modes."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, DTypeError, TreeError
from functad.scipy.sparse.linalg import bicgstab, cg, gmres

SOLVERS = {
    "cg": cg,
    "bicgstab": bicgstab,
    "gmres": gmres,
    "gmres_incremental": lambda A, b, x0=None, **options: gmres(A, b, x0, solve_method="incremental", **options),
}
METHODS = pytest.mark.parametrize("name", SOLVERS)
NAMES = pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])


def matrix(name, dtype, n=7):
    rng = np.random.default_rng(3)
    a = rng.normal(size=(n, n)) + (1j * rng.normal(size=(n, n)) if np.issubdtype(dtype, np.complexfloating) else 0)
    return (a @ a.conj().T / n + np.eye(n) if name == "cg" else a / n + 2 * np.eye(n)).astype(dtype)


def vector(dtype, n=7, seed=4):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=n) + (1j * rng.normal(size=n) if np.issubdtype(dtype, np.complexfloating) else 0)).astype(
        dtype
    )


@METHODS
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_the_solution_is_found(name, dtype):
    a, b = matrix(name, dtype), vector(dtype)
    tol = 1e-6 if dtype == np.float32 else 1e-12
    x, info = SOLVERS[name](a, b, tol=tol)
    assert x.dtype == dtype and x.shape == (7,)
    assert info is None if name in ("cg", "bicgstab") else int(info) == 0
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=30 * tol, atol=30 * tol)


@NAMES
def test_operators_of_all_kinds_give_the_same(name):
    a, b = matrix(name, np.float64), vector(np.float64)

    class Operator:
        shape = a.shape

        def __matmul__(self, x):
            return jnp.dot(a, x)

    expected = np.linalg.solve(a, b)
    closers = (None, np.diag(1 / np.diag(a)), lambda r: r / np.diag(a))
    for operator, closer in zip((jnp.asarray(a), lambda x: jnp.dot(a, x), Operator()), closers):
        x, _ = SOLVERS[name](operator, b, np.ones(7), tol=1e-10, M=closer)
        np.testing.assert_allclose(x, expected, rtol=1e-8, atol=1e-8)


@NAMES
def test_pytrees_are_vectors(name):
    def stencil(tree):
        u, v = tree["u"], tree["v"]
        return {"u": 3 * u - jnp.roll(u, 1, 0) - jnp.roll(u, -1, 0) + v, "v": 3 * v + u.sum()}

    b = {"u": jnp.arange(6.0).reshape(3, 2), "v": jnp.float32(2)}
    x, _ = SOLVERS[name](stencil, b, tol=1e-6)
    for found, wanted in zip(functad.tree.leaves(stencil(x)), functad.tree.leaves(b)):
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, atol=2e-5)


@NAMES
def test_derivatives_are_those_of_the_solution_in_all_modes(name):
    a, b = matrix(name, np.float64, 4), vector(np.float64, 4)
    if name == "cg":
        solved = lambda a, b: jnp.sum(jnp.sin(SOLVERS[name]((a + a.T) / 2, b, tol=1e-13)[0]))  # noqa: E731
        direct = lambda a, b: jnp.sum(jnp.sin(jnp.linalg.solve((a + a.T) / 2, b)))  # noqa: E731
    else:
        solved = lambda a, b: jnp.sum(jnp.sin(SOLVERS[name](a, b, tol=1e-13)[0]))  # noqa: E731
        direct = lambda a, b: jnp.sum(jnp.sin(jnp.linalg.solve(a, b)))  # noqa: E731
    expected = functad.grad(direct, (0, 1))(a, b)
    for gradient in (functad.grad(solved, (0, 1)), functad.jit(functad.grad(solved, (0, 1)))):
        for found, wanted in zip(gradient(a, b), expected):
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)
    tangent = functad.jvp(solved, (a, b), (a, 3 * b))[1]
    np.testing.assert_allclose(tangent, np.sum(expected[0] * a) + 3 * np.sum(expected[1] * b), rtol=1e-8)


@NAMES
def test_mapped_over_sides_and_matrices(name):
    a, b = matrix(name, np.float64, 4), np.stack([vector(np.float64, 4, seed) for seed in (1, 2, 3)])
    solve = lambda a, b: SOLVERS[name](a, b, tol=1e-12)[0]  # noqa: E731
    expected = np.linalg.solve(a, b.T).T
    np.testing.assert_allclose(functad.vmap(solve, (None, 0))(a, b), expected, rtol=1e-9, atol=1e-9)
    several = np.stack([a, a + np.eye(4), 2 * a])
    found = functad.jit(functad.vmap(solve))(several, b)
    np.testing.assert_allclose(found, [np.linalg.solve(m, v) for m, v in zip(several, b)], rtol=1e-9, atol=1e-9)


@NAMES
def test_it_ends_where_told_and_starts_where_told(name):
    a, b = matrix(name, np.float64), vector(np.float64)
    exact = np.linalg.solve(a, b)
    x, _ = SOLVERS[name](a, b, maxiter=0)
    np.testing.assert_array_equal(x, np.zeros(7))
    x, _ = SOLVERS[name](a, b, exact)
    np.testing.assert_array_equal(x, exact)
    x, _ = SOLVERS[name](a, b, atol=2 * np.linalg.norm(b))
    np.testing.assert_array_equal(x, np.zeros(7))
    x, _ = SOLVERS[name](a, np.zeros(7), np.ones(7), atol=1e-9)
    np.testing.assert_allclose(x, np.zeros(7), atol=1e-8)


def test_gmres_begins_anew_where_its_space_is_small():
    a, b = matrix("gmres", np.float64, 12), vector(np.float64, 12)
    few, _ = gmres(a, b, restart=3, maxiter=1, tol=1e-10)
    many, _ = gmres(a, b, restart=3, tol=1e-10)
    size = [np.linalg.norm(a @ x - b) for x in (few, many)]
    assert size[1] < 1e-8 < size[0] < np.linalg.norm(b)
    # The residual is the smallest in the space of b, A b, A² b.
    space = np.stack([b, a @ b, a @ a @ b], 1)
    best = space @ np.linalg.lstsq(a @ space, b, rcond=None)[0]
    np.testing.assert_allclose(few, best, rtol=1e-10)


@NAMES
def test_an_empty_vector_is_its_own_solution(name):
    assert SOLVERS[name](lambda x: x, np.zeros(0, np.float32))[0].shape == (0,)


def test_gmres_says_where_there_is_no_solution():
    x, info = gmres(np.zeros((2, 2), np.float32), np.ones(2, np.float32))
    assert int(info) == -1 and not np.isfinite(x).all()


@NAMES
@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda f: f(np.eye(2), np.ones(2), x0=[np.ones(2)]), TreeError, "x0 and b must have matching tree structure"),
        (lambda f: f(np.eye(2), np.ones(2), x0=np.ones(3)), TreeError, "arrays in x0 and b must have matching shapes"),
        (lambda f: f(np.ones((2, 3)), np.ones(2)), ArgumentError, r"square matrix, but has shape: \(2, 3\)"),
        (lambda f: f(3.0, np.ones(2)), DTypeError, "A is 3.0, but a linear operator must be either a function"),
        (lambda f: f(np.eye(2), np.ones(2), M=np.ones(2)), ArgumentError, r"M is .* has shape: \(2,\)"),
    ],
)
def test_errors_say_what_is_wrong(name, call, error, text):
    with pytest.raises(error, match=text):
        call(SOLVERS[name])


def test_a_method_of_another_name_is_refused():
    with pytest.raises(ArgumentError, match="must be 'batched' or 'incremental', got 'qr'"):
        gmres(np.eye(2), np.ones(2), solve_method="qr")


def test_a_residual_of_nothing_is_small_enough():
    for b, options in ((1e-19 * np.ones(2, np.float32), {}), (np.ones(2, np.float32), {"tol": 0.0})):
        np.testing.assert_array_equal(np.asarray(bicgstab(jnp.eye(2), b, **options)[0]), b)
