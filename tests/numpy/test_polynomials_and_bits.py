"""Polynomials, mantissas and packed bits: the cases that a table of calls does not show."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, ConcretizationError, DTypeError, ShapeError
from functad.scipy import special

V = jnp.array([1.0, -3.0, 0.5, 2.0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_frexp_is_exact_from_the_smallest_number_to_the_largest(dtype):
    info = np.finfo(dtype)
    x = [info.smallest_subnormal, -info.smallest_subnormal * 5, info.smallest_normal, info.max, info.min, 1.0, -0.75]
    x = np.array([*x, 0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
    expected = np.frexp(x)
    expected[1][-3:] = 0
    for function in (jnp.frexp, functad.jit(jnp.frexp)):
        mantissa, exponent = map(np.asarray, function(x))
        assert mantissa.dtype == dtype and exponent.dtype == np.int32
        np.testing.assert_array_equal(mantissa, expected[0])
        np.testing.assert_array_equal(np.signbit(mantissa), np.signbit(expected[0]))
        np.testing.assert_array_equal(exponent, expected[1])


def test_the_slope_of_a_mantissa_is_its_power_of_two():
    slopes = functad.vmap(functad.grad(lambda x: jnp.frexp(x)[0]))(jnp.array([1.0, 6.0, 0.3, -100.0]))
    assert slopes.tolist() == [0.5, 0.125, 2.0, 2.0**-7]


def test_roots_under_jit_stand_before_those_that_do_not_exist():
    with pytest.raises(ConcretizationError, match="strip_zeros=False"):
        functad.jit(jnp.roots)(V)
    found = functad.jit(lambda p: jnp.roots(p, strip_zeros=False))(jnp.array([0.0, 0.0, 1.0, -3.0, 2.0]))
    np.testing.assert_allclose(np.sort(np.asarray(found[:2]).real), [1, 2], rtol=1e-5)
    assert np.isnan(np.asarray(found[2:])).all()
    assert jnp.roots(jnp.zeros(3)).shape == (0,)


def test_the_slope_of_a_root():
    # The larger root of x² − 3x + c is (3 + √(9 − 4c)) / 2.
    slope = functad.grad(lambda c: jnp.max(jnp.roots(jnp.array([1.0, -3.0, c]), strip_zeros=False).real))(2.0)
    np.testing.assert_allclose(slope, -1.0, rtol=1e-4)


def test_a_fit_is_differentiable():
    x = np.linspace(0, 1, 5)
    slopes = functad.jacrev(lambda y: jnp.polyfit(x, y, 2))(x**3)
    np.testing.assert_allclose(np.asarray(slopes), np.linalg.pinv(np.vander(x, 3)), atol=1e-9)


def test_quotient_and_remainder_make_the_polynomial_again():
    quotient, rest = functad.jit(jnp.polydiv)(V, V[1:3])
    np.testing.assert_allclose(np.asarray(jnp.polyadd(jnp.polymul(quotient, V[1:3]), rest)), np.asarray(V), rtol=1e-6)


@pytest.mark.parametrize("function", [jnp.i0, special.i0])
def test_derivatives_of_i0_at_0_are_those_of_its_series(function):
    slope = functad.grad(function)
    found = [f(0.0) for f in (function, slope, functad.grad(slope), functad.grad(functad.grad(slope)))]
    assert np.array(found).tolist() == [1, 0, 0.5, 0]  # 1 + x²/4 + x⁴/64 + …


REFUSED = [
    (lambda: jnp.frexp(1j), DTypeError, "frexp takes real numbers"),
    (lambda: jnp.i0(1j), DTypeError, "i0 takes real numbers"),
    (lambda: jnp.packbits(V), DTypeError, "packbits takes integers or booleans"),
    (lambda: jnp.packbits(V > 0, bitorder="up"), ArgumentError, 'bitorder must be "big" or "little"'),
    (lambda: jnp.unpackbits(V), DTypeError, "unpackbits takes uint8"),
    (lambda: jnp.roots(jnp.ones((2, 2))), ShapeError, "roots takes a vector"),
    (lambda: jnp.poly(jnp.ones((2, 3))), ShapeError, "poly takes a vector of roots, or a square matrix"),
    (lambda: jnp.polydiv(V, V[:0]), ShapeError, "polydiv divides vectors"),
    (lambda: jnp.polyfit(V, V, -1), ArgumentError, "deg must be an integer"),
    (lambda: jnp.polyfit(V, V[:2], 1), ShapeError, "y of its length"),
    (lambda: jnp.polyfit(V, V, 1, w=V[:2]), ShapeError, "w has shape"),
    (lambda: jnp.polyfit(V, V, 3, cov=True), ArgumentError, "have no covariance"),
    (lambda: jnp.histogramdd(V), ShapeError, "histogramdd takes points"),
    (lambda: jnp.histogramdd(V[:, None], [2, 3]), ArgumentError, "points of 1 coordinates"),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED)
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_booleans_are_shifted_as_integers():
    x = jnp.array([True, False])
    assert (x << True).tolist() == [2, 0] and (x >> True).tolist() == [0, 0]
    assert jnp.left_shift(True, 3).tolist() == 8 and (x << x).dtype == np.int32
