"""Derivatives of functions of matrices to order 3 where eigenvalues or singular values are equal, or zero."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import chebyshev

import functad
import functad.numpy as jnp
from functad.scipy.linalg import expm, polar, sqrtm

RNG = np.random.default_rng(0)
C = RNG.normal(size=(4, 4))
UNITARY = np.linalg.qr(RNG.normal(size=(3, 3)) + 1j * RNG.normal(size=(3, 3)))[0]


def weighted(*results):
    return sum(jnp.sum(jnp.real(x) * C[: x.shape[0], : x.shape[1]]) for x in results)


CASES = {
    "polar": (lambda a: weighted(*polar(a)), np.eye(3)),
    "polar, tall": (lambda a: weighted(*polar(a)), 2 * np.eye(3, 2)),
    "polar, wide": (lambda a: weighted(*polar(a, "left"), polar(a)[1]), 2 * np.eye(2, 3)),
    "polar, complex": (lambda a: weighted(*polar(a)), UNITARY),
    "norm, nuc": (lambda a: jnp.linalg.norm(a, "nuc"), np.diag([2.0, 2.0, 1.0])),
    "norm, nuc, wide": (lambda a: jnp.linalg.norm(a, "nuc"), np.eye(2, 3)),
    "norm, 2, others equal": (lambda a: jnp.linalg.norm(a, 2), np.diag([3.0, 1.0, 1.0])),
    "norm, 2, of rank 1": (lambda a: jnp.linalg.norm(a, 2), np.outer(C[0], C[1, :3])),
    "norm, 2, complex": (lambda a: jnp.linalg.norm(a, 2), UNITARY @ np.diag([3.0, 1.0, 1.0])),
    "norm, -2, others equal": (lambda a: jnp.linalg.norm(a, -2), np.diag([3.0, 3.0, 1.0])),
    "cond, middle ones equal": (jnp.linalg.cond, np.diag([4.0, 2.0, 2.0, 1.0])),
    "lstsq": (lambda a: weighted(jnp.linalg.lstsq(a, C[:3, :2])[0]), np.eye(3, 2)),
    "lstsq, wide": (lambda a: weighted(jnp.linalg.lstsq(a, C[:2, :2])[0]), np.eye(2, 3)),
    "pinv": (lambda a: weighted(jnp.linalg.pinv(a)), np.eye(2, 3)),
    "det of rank 2": (jnp.linalg.det, np.diag([3.0, 1.0, 0.0])),
    "det of rank 1": (jnp.linalg.det, np.diag([3.0, 0.0, 0.0])),
    "det of zeros": (jnp.linalg.det, np.zeros((3, 3))),
    "det, first column of zeros": (jnp.linalg.det, np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 4.0], [0.0, 5.0, 7.0]])),
    "det, equal columns": (jnp.linalg.det, np.array([[1.0, 1.0, 2.0], [1.0, 1.0, 4.0], [2.0, 2.0, 7.0]])),
    "det of a nilpotent matrix": (jnp.linalg.det, np.eye(3, k=1)),
    "det, nearly singular": (jnp.linalg.det, np.arange(1.0, 10.0).reshape(3, 3)),
    "det, complex": (lambda a: jnp.imag(jnp.linalg.det(a)), np.diag([1j, 0, 0])),
    "sqrtm": (lambda a: weighted(sqrtm(a)), np.diag([4.0, 4.0, 1.0])),
    "expm": (lambda a: weighted(expm(a)), np.eye(3)),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_along_a_line(name):
    fun, start = CASES[name]
    direction = RNG.normal(size=start.shape) + (1j * RNG.normal(size=start.shape) if start.dtype == complex else 0)

    def on_line(t):
        return fun(start + t * direction)

    places = 0.05 * np.cos(np.pi * (np.arange(16) + 0.5) / 16)
    values = np.array([float(on_line(t)) for t in places])
    series = chebyshev.Chebyshev.fit(places, values, 12, domain=[-0.05, 0.05])
    forward = reverse = on_line
    for order in (1, 2, 3):
        forward, reverse = forward_slope(forward), functad.grad(reverse)
        expected = series.deriv(order)(0.0)
        np.testing.assert_allclose([forward(0.0), reverse(0.0)], expected, rtol=1e-4, atol=1e-5)


def forward_slope(fun):
    return lambda t: functad.jvp(fun, (t,), (1.0,))[1]


@pytest.mark.parametrize(
    "values, slopes",
    [([2.0, 2.0, 2.0], [0, 0, 0]), ([4.0, 4.0, 2.0], [0.25, 0.25, -1]), ([4.0, 2.0, 2.0], [0.5, -0.5, -0.5])],
)
def test_where_the_extreme_values_are_equal_cond_has_the_mean_of_their_slopes(values, slopes):
    found = functad.grad(jnp.linalg.cond)(np.diag(values))
    np.testing.assert_allclose(found, np.diag(slopes), atol=1e-12)


def test_determinants_of_a_batch_compiled_some_of_singular_matrices():
    def slope(fun):
        return lambda a: functad.jvp(fun, (a,), (jnp.broadcast_to(C[:2, :2], a.shape),))[1]

    found = functad.jit(slope(slope(jnp.linalg.det)))(np.stack([np.zeros((2, 2)), np.eye(2)]))
    np.testing.assert_allclose(found, [2 * np.linalg.det(C[:2, :2])] * 2, rtol=1e-12)


def test_singular_values_that_rcond_leaves_out_turn_the_vectors_of_the_others():
    a, t = np.diag([2.0, 1.0]) + 0.1, 1e-6

    def solution(a):
        return jnp.linalg.lstsq(a, C[:2, 0], rcond=0.7)[0]

    direction = C[:2, :2]
    expected = (np.asarray(solution(a + t * direction)) - np.asarray(solution(a - t * direction))) / (2 * t)
    np.testing.assert_allclose(functad.jvp(solution, (a,), (direction,))[1], expected, rtol=1e-6)


def test_symmetric_functions_of_equal_eigenvalues_have_a_first_derivative():
    for values in (jnp.linalg.eigvalsh, lambda a: jnp.linalg.eigh(a)[0]):
        slope = functad.grad(lambda a, values=values: jnp.sum(values(a) ** 3))(2 * np.eye(3))
        np.testing.assert_allclose(slope, 12 * np.eye(3), rtol=1e-12)


@pytest.mark.parametrize(
    "by_values, otherwise",
    [
        (lambda a: jnp.sum(jnp.exp(jnp.linalg.eigvalsh(a))), lambda a: jnp.trace(expm(a))),
        (lambda a: jnp.sum(jnp.log(jnp.linalg.eigvalsh(a))), lambda a: jnp.linalg.slogdet(a)[1]),
        (lambda a: jnp.sum(jnp.linalg.eigvalsh(a) ** 2), lambda a: jnp.trace(a @ a)),
        (lambda a: jnp.sum(jnp.linalg.svdvals(a)), lambda a: jnp.linalg.norm(a, "nuc")),
    ],
)
def test_higher_derivatives_of_their_symmetric_functions_are_to_be_had_otherwise(by_values, otherwise):
    """k equal eigenvalues move by k numbers, and a second derivative depends on k (k + 1) / 2 of them."""
    start, direction = np.diag([2.0, 2.0, 5.0]), C[:3, :3] + C[:3, :3].T

    def on_line(f):
        return lambda t: f(start + t * direction)

    slopes = [functad.grad(on_line(f)) for f in (by_values, otherwise)]
    zero, up, down = (np.array(x) for x in (0.0, 1e-5, -1e-5))
    np.testing.assert_allclose(slopes[0](zero), slopes[1](zero), rtol=1e-12)
    second, third = functad.grad(slopes[1]), functad.grad(functad.grad(slopes[1]))
    np.testing.assert_allclose(second(zero), (slopes[1](up) - slopes[1](down)) / 2e-5, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(third(zero), (second(up) - second(down)) / 2e-5, rtol=1e-6, atol=1e-6)
    assert np.isnan(functad.grad(slopes[0])(zero))


def test_what_is_simple_has_derivatives_beside_equal_eigenvalues():
    """Of the eigenvalue that differs, and of its vector's projector; of order 2 in forward mode."""
    start, direction, zero = np.diag([2.0, 2.0, 5.0]), C[:3, :3] + C[:3, :3].T, np.zeros(())

    def largest(t):
        return jnp.linalg.eigvalsh(start + t * direction)[-1]

    def projector(t):
        v = jnp.linalg.eigh(start + t * direction)[1][:, -1]
        return jnp.outer(v, v)

    np.testing.assert_allclose(functad.grad(largest)(zero), direction[2, 2], rtol=1e-12)
    twice = functad.jvp(lambda t: functad.jvp(largest, (t,), (np.ones(()),))[1], (zero,), (np.ones(()),))[1]
    np.testing.assert_allclose(twice, 2 * (direction[2, 0] ** 2 + direction[2, 1] ** 2) / 3, rtol=1e-12)
    moved = np.zeros((3, 3))
    moved[2, :2] = moved[:2, 2] = direction[2, :2] / 3
    np.testing.assert_allclose(functad.jvp(projector, (zero,), (np.ones(()),))[1], moved, atol=1e-12)


def test_vectors_of_equal_eigenvalues_have_none():
    """No dV and dw linear in dA give `V f(w) Vᴴ` its derivative: zeros between equal ones are wrong for f(w) = w."""

    def rebuilt(a):
        w, v = jnp.linalg.eigh(a)
        return jnp.sum(C[:3, :3] * ((v * w) @ v.T))

    assert np.isnan(functad.grad(rebuilt)(np.eye(3))).any()
