"""Derivatives of functions of complex numbers: their conventions, holomorphic functions, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import grad, jacfwd, jacrev, lax
from functad.errors import DifferentiationError

Z = np.array([1 + 2j, 3 - 1j])
X = np.array([0.5, 1.25])


def test_the_gradient_of_a_real_function_is_the_conjugate_of_the_steepest_ascent():
    # f(x + iy) = x² + 3y has ∂f/∂x = 2x, ∂f/∂y = 3; the gradient is ∂f/∂x − i ∂f/∂y.
    found = grad(lambda z: jnp.sum(z.real**2 + 3 * z.imag))(Z)
    np.testing.assert_allclose(found, 2 * Z.real - 3j)
    value, found = functad.value_and_grad(lambda z: jnp.sum(jnp.abs(z) ** 2))(Z)
    np.testing.assert_allclose(value, np.sum(np.abs(Z) ** 2))
    np.testing.assert_allclose(found, 2 * np.conj(Z))


def test_holomorphic_functions_have_one_slope():
    np.testing.assert_allclose(grad(lambda z: jnp.sum(jnp.exp(z)), holomorphic=True)(Z), np.exp(Z))
    for order, expected in enumerate([np.cos, lambda z: -np.sin(z), lambda z: -np.cos(z)]):
        fun = jnp.sin
        for _ in range(order + 1):
            fun = grad(fun, holomorphic=True)
        np.testing.assert_allclose(fun(Z[0]), expected(Z[0]))
        np.testing.assert_allclose(functad.jit(fun)(Z[0]), expected(Z[0]))
        np.testing.assert_allclose(functad.vmap(fun)(Z), expected(Z))
    for jacobian in (jacfwd, jacrev):
        np.testing.assert_allclose(jacobian(lambda z: z * z[0], holomorphic=True)(Z), [[2 * Z[0], 0], [Z[1], Z[0]]])
    found = functad.hessian(lambda z: z[0] ** 2 * z[1], holomorphic=True)(Z)
    np.testing.assert_allclose(found, [[2 * Z[1], 2 * Z[0]], [2 * Z[0], 0]])


def test_transposes_do_not_conjugate():
    (found,) = functad.linear_transpose(lambda z: 1j * z, Z)(Z)
    np.testing.assert_array_equal(found, 1j * Z)
    (found,) = functad.linear_transpose(jnp.imag, Z)(X)
    np.testing.assert_array_equal(found, -1j * X)


def test_cotangents_of_real_arguments_are_real():
    gx, gz = grad(lambda x, z: jnp.sum(jnp.abs(x * z) ** 2), argnums=(0, 1))(X, Z)
    assert gx.dtype == np.float64 and gz.dtype == np.complex128
    np.testing.assert_allclose(gx, 2 * X * np.abs(Z) ** 2)
    np.testing.assert_allclose(jacfwd(lambda x: jnp.exp(1j * x))(X), np.diag(1j * np.exp(1j * X)))
    np.testing.assert_allclose(jacrev(jnp.abs)(Z), np.diag(np.conj(Z) / np.abs(Z)))


def test_derivatives_of_loops_of_complex_numbers():
    def iterated(z):
        return lax.scan(lambda c, x: (c * c + x, c), z, X)[0]

    np.testing.assert_allclose(grad(iterated, holomorphic=True)(Z[0]), 2 * (Z[0] ** 2 + X[0]) * 2 * Z[0])

    def until(z):
        return lax.while_loop(lambda c: jnp.abs(c) < 9, lambda c: c * (1 + 1j), z)

    slope = until(Z[0]) / Z[0]
    np.testing.assert_allclose(functad.jvp(until, (Z[0],), (1j,))[1], 1j * slope)
    np.testing.assert_allclose(grad(until, holomorphic=True)(Z[0]), slope)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: grad(lambda z: z[0] * 2)(Z), r"grad: .* must return real numbers, but returned c128\[\]: .*abs\(y\)"),
        (lambda: grad(jnp.sum, holomorphic=True)(X), r"with holomorphic=True sum .* `a` of type f64\[2\]. Convert"),
        (lambda: grad(lambda z: jnp.abs(z[0]), holomorphic=True)(Z), r"must return complex .* returned f64\[\]"),
        (lambda: jacfwd(jnp.sin)(Z), r"jacfwd: sin .* `x` of type c128\[2\], .*holomorphic=True"),
        (lambda: jacfwd(jnp.abs, holomorphic=True)(Z), r"jacfwd: .* must return complex numbers"),
        (lambda: jacrev(lambda x: 1j * x)(X), r"jacrev: .* must return real numbers, but returned c128\[2\]"),
        (lambda: jacrev(jnp.exp, holomorphic=True, allow_int=True)(3), r"`x` of type i32\[\]"),
        (lambda: functad.hessian(lambda z: jnp.sum(jnp.abs(z)))(Z), r"jacfwd: .*c128\[2\]"),
    ],
)
def test_real_and_complex_functions_are_told_apart(call, message):
    with pytest.raises(DifferentiationError, match=message):
        call()
