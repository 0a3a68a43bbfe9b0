"""Roots and linear solves against JAX, where the solvers themselves close over what is differentiated."""

from __future__ import annotations

import numpy as np
import pytest

import functad

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import functad.numpy  # noqa: E402

A = np.float32([[3, 1], [1, 2]])
B = np.float32([1, 2])


def newton(m):
    return lambda f, x0: m.lax.fori_loop(0, 20, lambda i, x: x - f(x) / m.grad(f)(x), x0)


def divide(g, y):
    return y / g(1.0)


def direct(m):
    return lambda matvec, b: m.numpy.linalg.solve(m.jacfwd(matvec)(b), b)


def square(a):
    return lambda x: x**2 - a


def of_matrix(m):
    return lambda g, y: m.numpy.linalg.solve(m.jacobian(g)(y), y)


CASES = {
    "function": lambda m, a: m.lax.custom_root(square(a), 1.0, newton(m), divide),
    "guess": lambda m, a: m.lax.custom_root(square(a), a, newton(m), divide),
    "solver": lambda m, a: m.lax.custom_root(square(a), 1.0, lambda f, x0: newton(m)(f, x0 + a), divide),
    "closed_form": lambda m, a: m.lax.custom_root(square(a), 1.0, lambda f, x0: m.numpy.sqrt(a), divide),
    "tangent": lambda m, a: m.lax.custom_root(square(a), 1.0, newton(m), lambda g, y: divide(g, y) + 0 * a),
    "closed_forms": lambda m, a: m.lax.custom_root(
        square(a), 1.0, lambda f, x0: m.numpy.sqrt(a), lambda g, y: y / (2 * m.numpy.sqrt(a))
    ),
    "more": lambda m, a: m.lax.custom_root(
        square(a), 1.0, lambda f, x0: (newton(m)(f, x0), a), divide, has_aux=True
    )[0],
    "vectors": lambda m, a: m.lax.custom_root(
        lambda x: m.numpy.dot(A, x) - B * a, B, lambda f, x0: m.numpy.linalg.solve(A, B * a), of_matrix(m)
    ).sum(),
    "nested": lambda m, a: m.lax.custom_root(
        lambda x: x**2 - m.lax.custom_root(lambda y: y**3 - a, 1.0, newton(m), divide), 1.0, newton(m), divide
    ),
    "linear_solver": lambda m, a: m.lax.custom_linear_solve(
        lambda x: m.numpy.dot(A * a, x), B, lambda _, b: m.numpy.linalg.solve(A * a, b),
        lambda _, b: m.numpy.linalg.solve(A.T * a, b),
    ).sum(),
    "linear_right_side": lambda m, a: m.lax.custom_linear_solve(
        lambda x: m.numpy.dot(A * a, x), B * a * a, direct(m), symmetric=True
    ).sum(),
}  # fmt: skip


def _pair(a):
    return np.float32([a, a + 1])


TRANSFORMS = {
    "value": lambda m, f: f,
    "grad": lambda m, f: m.grad(f),
    "jvp": lambda m, f: lambda a: m.jvp(f, (a,), (1.0,))[1],
    "jit_grad": lambda m, f: m.jit(m.grad(f)),
    "grad_jit": lambda m, f: m.grad(m.jit(f)),
    "grad_grad": lambda m, f: m.grad(m.grad(f)),
    "vmap_grad": lambda m, f: lambda a: m.vmap(m.grad(f))(_pair(a)),
    "grad_vmap": lambda m, f: m.grad(lambda a: m.vmap(f)(m.numpy.stack([a, a + 1])).sum()),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", CASES)
def test_derivatives(name, transform):
    found = [
        np.asarray(TRANSFORMS[transform](m, lambda a, m=m: CASES[name](m, m.numpy.asarray(a)))(3.0))
        for m in (functad, jax)
    ]
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)
