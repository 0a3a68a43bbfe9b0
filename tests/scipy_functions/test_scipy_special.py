"""`functad.scipy.special`: known values, tails, and slopes against differences."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import functad
from functad.errors import ArgumentError, DifferentiationError, DTypeError, TracerError
from functad.scipy import special, stats

KNOWN = [
    (special.gamma, (0.5,), math.gamma(0.5)),
    (special.gamma, (-2.5,), math.gamma(-2.5)),
    (special.beta, (2.0, 3.0), 1 / 12),
    (special.poch, (3.0, 2.0), 12.0),
    (special.factorial, (6.0,), 720.0),
    (special.erfcx, (-1.0,), math.exp(1) * math.erfc(-1)),
    (special.erfcx, (1e6,), (1 - 5e-13) / (1e6 * math.sqrt(math.pi))),
    (special.erfcx, (1.0,), math.exp(1) * math.erfc(1)),
    (special.log_ndtr, (-40.0,), -804.6084420137538),
    (special.log_ndtr, (0.3,), math.log(0.5 * math.erfc(-0.3 / math.sqrt(2)))),
    (special.ndtri, (1e-12,), -7.034483825301131),
    (special.ndtri, (0.3,), -0.5244005127080407),
    (special.xlogy, (0.0, 0.0), 0.0),
    (special.entr, (0.0,), 0.0),
    (special.rel_entr, (1.0, 0.0), math.inf),
    (special.rel_entr, (1e-15, 1e307), 1e-15 * -322 * math.log(10)),  # their ratio is below the normal numbers
    (special.kl_div, (0.0, 2.0), 2.0),
    (lambda x: special.sici(x)[1], (1e305,), math.sin(1e305) / 1e305),
    (special.multigammaln, (3.0, 2), math.log(math.sqrt(math.pi) * math.gamma(3) * math.gamma(2.5))),
]


@pytest.mark.parametrize("function, args, expected", KNOWN)
def test_known_values(function, args, expected):
    with functad.enable_x64(True):
        found = function(*args)
        assert found.dtype == np.float64
        np.testing.assert_allclose(np.asarray(found), expected, rtol=3e-14)


@pytest.mark.parametrize("name", ["erfcx", "log_ndtr", "ndtri", "entr", "gamma"])
def test_slopes_against_differences(name):
    f = getattr(special, name)
    x, step = np.array([0.011, 0.2, 0.7]), 1e-5
    slope = functad.vmap(functad.grad(f))(x)
    differences = (np.asarray(f(x + step)) - np.asarray(f(x - step))) / (2 * step)
    np.testing.assert_allclose(np.asarray(slope), differences, rtol=1e-5)
    curvature = functad.vmap(functad.grad(functad.grad(f)))(x)
    g = functad.vmap(functad.grad(f))
    np.testing.assert_allclose(
        np.asarray(curvature), (np.asarray(g(x + step)) - np.asarray(g(x - step))) / (2 * step), rtol=1e-4
    )


AT = [
    (special.expi, (0.7,)),
    (special.expi, (-3.1,)),
    (lambda x: special.expn(3, x), (0.4,)),
    (lambda x: special.expn(0, x), (2.4,)),
    (lambda x: special.sici(x)[0], (0.5,)),
    (lambda x: special.sici(x)[1], (7.0,)),
    (lambda x: special.fresnel(x)[0], (-0.5,)),
    (lambda x: special.fresnel(x)[1], (3.0,)),
    (special.spence, (1.001,)),
    (special.spence, (5.0,)),
    (special.owens_t, (0.7, 0.4)),
    (special.owens_t, (-0.7, 3.4)),
    (special.hyp1f1, (0.3, 1.2, 0.7)),
    (special.hyp1f1, (2.0, 1.2, -120.0)),
    (special.hyp2f1, (0.3, 1.2, 2.1, 0.3)),
    (special.hyp2f1, (0.3, 1.2, 2.1, 0.9)),
    (special.hyp2f1, (0.3, 1.2, 2.1, -4.0)),
    (special.betainc, (2.0, 3.0, 0.4)),
    (special.betainc, (60.0, 0.7, 0.99)),
    (special.zeta, (2.5, 0.7)),
    (special.zeta, (1.1, 30.0)),
    (stats.t.cdf, (0.7, 2.5)),
    (special.betaln, (0.3, 12.0)),
    (special.betaln, (30.0, 12.0)),
    (special.poch, (15.0, 2.5)),
    (special.kl_div, (0.3, 0.4)),
    (special.rel_entr, (0.3, 0.4)),
    (special.logit, (0.4,)),
    (special.boxcox, (3.0, 0.0)),
    (special.boxcox, (0.3, -1.7)),
    (special.boxcox1p, (0.3, 1e-9)),
    (special.comb, (5.5, 2.2)),
    (special.y0, (0.3,)),
    (special.y1, (30.0,)),
    (lambda x: special.yn(2, x), (2.0,)),
    (lambda x: special.iv(0.5, x), (1.2,)),
    (lambda x: special.iv(-2.3, x), (45.0,)),
    (lambda x: special.ive(3, x), (-2.0,)),
    (special.dawsn, (0.2,)),
    (special.dawsn, (-7.0,)),
    (lambda x, y: special.wofz(x + 1j * y).real, (0.3, -0.4)),
    (lambda x, y: special.wofz(x + 1j * y).imag, (3.0, 0.4)),
    (lambda x: special.bessel_jn(x, v=3)[2], (4.0,)),
    (lambda t: special.sph_harm_y(np.array([4]), np.array([-2]), t, 0.3)[0].imag, (0.8,)),
]


@functools.cache
def compiled_slopes(f, count):
    """The slopes of all arguments at once, compiled once for all points."""
    return functad.jit(functad.grad(f, argnums=tuple(range(count))))


@pytest.mark.generated(every=5)
@pytest.mark.parametrize("f, point", AT)
def test_slopes_of_all_arguments(f, point):
    with functad.enable_x64(True):
        point = [np.float64(x) for x in point]
        compiled = compiled_slopes(f, len(point))(*point)
        for i, x in enumerate(point):

            def of_one(x, i=i):
                return f(*point[:i], x, *point[i + 1 :])

            step = 1e-5 * max(1.0, abs(x))
            slope = functad.grad(of_one)
            here = slope(x)
            differences = (of_one(x + step) - of_one(x - step)) / (2 * step)
            np.testing.assert_allclose(here, differences, rtol=1e-6, atol=1e-9)
            np.testing.assert_allclose(compiled[i], here, rtol=1e-12)
            curvature = functad.jvp(slope, (x,), (np.float64(1),))[1]
            np.testing.assert_allclose(
                curvature, (slope(x + step) - slope(x - step)) / (2 * step), rtol=1e-5, atol=1e-8
            )


@pytest.mark.parametrize("f", [special.gamma, special.loggamma])
@pytest.mark.parametrize("z", [1.5 + 0j, -2.5 + 0j, -2.5 - 0.4j, 3 + 2j])
def test_slopes_in_the_complex_plane(f, z):
    z, step = np.array([z]), 1e-6
    for direction in (1, 1j):
        slope = functad.jvp(f, (z,), (np.array([direction + 0j]),))[1]
        # Along the axis: on the left the logarithm jumps across it.
        differences = direction * (np.asarray(f(z + step)) - np.asarray(f(z - step))) / (2 * step)
        np.testing.assert_allclose(slope, differences, rtol=1e-7)


def test_slopes_at_the_ends_of_the_incomplete_beta_function():
    for x, value in ((0.0, 0.0), (1.0, 1.0)):
        assert special.betainc(2.0, 3.0, x) == value
        assert functad.grad(special.betainc, (0, 1))(2.0, 3.0, x) == (0.0, 0.0)
    assert functad.grad(stats.t.cdf, 1)(0.0, 3.0) == 0


def test_an_order_that_is_an_integer_has_no_derivative():
    with pytest.raises(DifferentiationError, match="expn has no derivative in n, which is an integer"):
        functad.grad(special.expn)(2.0, 1.0)
    assert functad.vmap(special.expn, (0, None))(np.array([1, 2]), 1.0).shape == (2,)


def test_errors():
    with pytest.raises(ArgumentError, match="bessel_jn: v and n_iter"):
        special.bessel_jn(1.0, v=-1)
    with pytest.raises(ArgumentError, match="there is no diff_n"):
        special.sph_harm_y(1, 0, 0.1, 0.2, diff_n=1)
    with pytest.raises(TracerError, match="give n_max="):
        functad.jit(special.sph_harm_y)(np.array([1]), np.array([0]), np.ones(1), np.ones(1))
    with pytest.raises(DTypeError, match="beta takes real numbers"):
        special.beta(1j, 2)
    with pytest.raises(ArgumentError, match="math.factorial"):
        special.factorial(3, exact=True)
    with pytest.raises(ArgumentError, match="must not be negative"):
        special.bernoulli(-1)
    with pytest.raises(ArgumentError, match="series_order"):
        special.log_ndtr(0.0, 50)


def test_bessel_functions_of_the_second_kind():
    x = np.array([-1.0, 0.0, 1e-30, 0.5, 24.9999, 25.0001, 1e4, np.inf, np.nan])
    for run in (lambda f: f, functad.jit):
        with functad.enable_x64(True):
            zeroth, first, second = (np.asarray(run(lambda x, n=n: special.yn(n, x))(x)) for n in (0, 1, 2))
            order_0, order_1 = (np.asarray(run(lambda x, n=n: special.jv(n, x))(x)) for n in (0, 1))
        np.testing.assert_allclose(zeroth[1:4], [-np.inf, -44.04994022787435, -0.44451873350670656], rtol=1e-13)
        assert np.isnan(first[[0, 8]]).all() and first[1] == -np.inf and first[7] == 0
        zeroth, first, second, order_0, order_1 = (y[2:7] for y in (zeroth, first, second, order_0, order_1))
        np.testing.assert_allclose(order_1 * zeroth - order_0 * first, 2 / (np.pi * x[2:7]), rtol=1e-11)
        np.testing.assert_allclose(second, 2 / x[2:7] * first - zeroth, rtol=1e-12)
        np.testing.assert_array_equal(run(lambda x: special.yn(20, x))(np.array([1e-30, 0.0])), -np.inf)
    with pytest.raises(ArgumentError, match="the order must be one known integer, got 0.5"):
        special.jv(0.5, 1.0)


def test_modified_bessel_functions_of_any_order():
    v = np.array([0.0, 0.5, 3.7, 29.99, 80.0, -0.5, -7.3, -35.3, 150.5, 2.0])
    x = np.array([700.0, 1e-3, 40.1, 39.9, 10.0, 10.0, 3.0, 40.1, 300.0, -1.0])
    # mpmath.besseli in 40 digits
    exact = [
        1.5295933476718737e302,
        0.02523132942542268,
        1.3832182260002978e16,
        242524443677.2916,
        1.5727623789148533e-63,
    ]
    exact += [2778.784615329575, -11.999524379918345, 5809627706.800549, 3.5651717842961868e112, 0.13574766976703828]
    ends = [(0, 0, 1), (0.5, 0, 0), (-0.5, 0, np.inf), (-2, 0, 0), (0.5, -1, np.nan), (1, np.inf, np.inf)]
    ends += [(1, -np.inf, -np.inf), (2, np.nan, np.nan), (np.nan, 1, np.nan), (1, 712, 2.4666770135246153e307)]
    for run in (lambda f: f, functad.jit):
        with functad.enable_x64(True):
            np.testing.assert_allclose(run(special.iv)(v, x), exact, rtol=1e-13)
            np.testing.assert_allclose(run(special.ive)(v, x), exact * np.exp(-np.abs(x)), rtol=2e-13)
            of_order, at, values = np.array(ends, float).T
            np.testing.assert_allclose(run(special.iv)(of_order, at), values, rtol=1e-13)
            np.testing.assert_array_equal(run(special.ive)(2.5, np.array([np.inf, 0.0])), 0.0)
            of_order, at = np.array([(300, 1), (1000.5, 50), (30, 1e-300), (170.3, 1e-10)]).T
            np.testing.assert_array_equal(run(special.iv)(of_order, at), 0.0)  # too small for float64
            np.testing.assert_array_equal(run(special.ive)(of_order, at), 0.0)
            np.testing.assert_allclose(run(special.ive)(2.5, 1e200), 1 / np.sqrt(2 * np.pi * 1e200), rtol=1e-13)
    with pytest.raises(DifferentiationError, match="no derivative in the order v"):
        functad.grad(special.iv)(2.0, 1.0)
    assert functad.grad(special.iv, 1)(1.0, 0.0) == 0.5 and functad.grad(special.ive, 1)(0.0, 0.0) == 0


def test_ways_to_take_some_of_many():
    n, k = np.meshgrid(np.arange(0.0, 30), np.arange(0.0, 30))
    counts = np.array([[math.comb(int(a), int(b)) for a, b in zip(*row)] for row in zip(n, k)], float)
    with functad.enable_x64(True):
        np.testing.assert_array_equal(special.comb(n, k), counts)
    assert special.comb(-1, 0) == 0 and special.comb(0, 0, repetition=True) == 1 and special.comb(2, 3) == 0
    np.testing.assert_allclose(special.comb(2.5, 3.0, repetition=True), 6.5625)
    assert np.isnan(special.comb(np.nan, 1.0)) and special.comb(3, 2).weak_type


@pytest.mark.parametrize(("function", "zero"), [(special.boxcox, 0.0), (special.boxcox1p, -1.0)])
@pytest.mark.parametrize(("power", "slope"), [(0.5, np.inf), (1.0, 1.0), (2.0, 0.0)])
def test_box_cox_of_zero_has_derivatives(function, zero, power, slope):
    # (0^λ − 1) / λ = −1/λ, whose derivative is 1/λ²
    both = functad.value_and_grad(function, (0, 1))
    for run in (both, functad.jit(both)):
        value, found = run(zero, power)
        np.testing.assert_allclose([value, *found], [-1 / power, slope, 1 / power**2], rtol=1e-6)


# Points in all quadrants, near the real axis, and where e^(−z²) overflows or vanishes; the values are SciPy's.
FADDEEVA = {
    0: 1,
    1: 0.36787944117144233 + 0.6071577058413937j,
    -1 + 2j: 0.21849261527489067 - 0.09299780939260188j,
    0.3 - 0.4j: 1.4505398172399686 + 0.6800786586308635j,
    2.5 - 1e-9j: 0.001930454005991754 + 0.2517230246215103j,
    7.84 + 1e-3j: 9.412621994259592e-06 + 0.0725632506338831j,
    1e9 - 1e3j: -5.64189583547192e-16 + 5.641895835471921e-10j,
    -30j: np.inf,
    complex(0, -np.inf): np.inf,
    np.inf: 0,
}


def test_the_faddeeva_function():
    points, values = np.array(list(FADDEEVA)), np.array(list(FADDEEVA.values()))
    for run in (special.wofz, functad.jit(special.wofz)):
        np.testing.assert_allclose(np.asarray(run(points)).real, values.real, rtol=1e-11, atol=1e-300)
        np.testing.assert_allclose(np.asarray(run(points)).imag, values.imag, rtol=1e-11, atol=1e-300)
        single = np.asarray(run(points.astype(np.complex64)))
        np.testing.assert_allclose(single[:6], values[:6], rtol=1e-5)
    assert special.wofz(1).dtype == np.complex64
    np.testing.assert_array_equal(special.dawsn(np.array([0, -0.0, np.inf, -np.inf, np.nan])), [0, 0, 0, 0, np.nan])
    assert np.signbit(special.dawsn(-0.0)) and not np.signbit(special.dawsn(0.0))


# Where a formula puts in a constant, cancels, or is 0 times infinity: (function, point, its slopes).
SLOPES = [
    (lambda x: special.hyp2f1(1.0, 2.0, 2.0, x), 0.0, [1, 2, 6]),  # 1 / (1 − x)
    (lambda x: special.hyp2f1(1.0, 2.0, 2.0, x), 0.5, [4, 16, 96]),
    (lambda x: special.hyp2f1(1.0, 2.0, 2.0, x), 0.75, [16, 128]),
    (lambda x: special.hyp2f1(1.0, 2.0, 2.0, x), -1.0, [1 / 4, 1 / 4]),
    (lambda x: special.hyp2f1(1.0, 2.0, 2.0, x), -3.0, [1 / 16, 1 / 32]),
    (lambda x: special.hyp2f1(0.3, 0.4, 2.0, x), 1.0, [0.4421676906348802]),
    (lambda x: special.hyp2f1(0.3, 0.4, 1.0, x), 1.0, [np.inf]),
    (lambda x: special.hyp2f1(-2.0, 3.0, 3.0, x), -3.0, [-8, 2]),  # (1 − x)²
    (lambda x: special.hyp2f1(-2.0, 3.0, 3.0, x), 1.0, [0, 2]),
    (lambda x: special.hyp2f1(-2.0, 5.0, 3.0, x), 1.0, [5 / 3, 5]),  # 1 − 10/3 x + 5/2 x²
    (lambda x: special.hyp2f1(0.0, 2.0, 1.0, x), 1.0, [0]),
    (lambda x: special.hyp2f1(-1.0, 2.0, -3.0, x), 1.0, [2 / 3]),
    (lambda a: special.hyp2f1(a, 2.0, 2.0, 0.3), 0.0, [-math.log(0.7), math.log(0.7) ** 2]),  # (1 − x)^−a
    (lambda a: special.hyp2f1(2.0, a, 2.0, -3.0), 0.0, [-math.log(4)]),
    (lambda a: special.hyp2f1(a, 2.0, 2.0, 0.9), -2.0, [-(0.1**2) * math.log(0.1)]),
    (lambda a: special.hyp2f1(a, 2.0, 2.0, 0.3), 2.0, [-math.log(0.7) / 0.49, math.log(0.7) ** 2 / 0.49]),
    (lambda x: special.hyp1f1(1.0, 1.0, x), 0.0, [1, 1, 1]),  # e^x
    (lambda x: special.hyp1f1(1.0, 2.0, x), 0.0, [1 / 2, 1 / 3]),
    (lambda a: special.hyp1f1(a, 2.0, 1.0), 0.0, [0.5996203229953586]),
    (lambda a: special.hyp1f1(a, 2.0, -1.0), 0.0, [-0.4287201581256108]),
    (special.rgamma, 0.0, [1]),
    (special.rgamma, -3.0, [-6]),
    (special.rgamma, -172.0, [np.inf]),
    (lambda x: special.fresnel(x)[1], 1e8, [1, 0]),
    (lambda x: special.fresnel(x)[0], 0.0, [0, 0, math.pi]),
    (special.erfcx, 1e9, [-5.641895835477563e-19, 1.1283791670955126e-27]),
    (special.dawsn, 1e6, [-5.0000000000075e-13, 1.000000000003e-18]),
    (special.dawsn, -1e6, [-5.0000000000075e-13, -1.000000000003e-18]),
    (lambda x: special.wofz(x + 0j).imag, 1e6, [-5.641895835486026e-13]),
    (special.log_ndtr, -1e7, [1e7, -1]),
    (lambda y: special.xlogy(0.0, y), 0.0, [0, 0]),
    (lambda y: special.xlog1py(0.0, y), -1.0, [0, 0]),
    (lambda z: special.poch(z, 2.0), -3.0, [-5]),  # z (z + 1)
    (lambda z: special.poch(z, 3.0), -1.0, [-1]),  # z (z + 1) (z + 2)
    (lambda z: special.poch(z, 2.0), -30.0, [-59]),
]


@pytest.mark.parametrize("f, x, slopes", SLOPES)
def test_slopes_at_ends_and_far_out(f, x, slopes):
    for expected in slopes:
        f = functad.grad(f)
        np.testing.assert_allclose(float(f(np.array(x))), expected, rtol=2e-12, atol=1e-15)


@pytest.mark.parametrize(
    "f, x, slope",
    [
        (lambda a: special.hyp2f1(a, 0.4, 1.0, 1.0), 0.3, 3.532368173124655),  # the slope in x is infinite
        (lambda z: special.poch(z, 2.0), -3.0, -5.0),  # that in m is 0 times infinity
    ],
)
def test_forward_mode_takes_no_slope_of_what_is_constant(f, x, slope):
    _, change = functad.jvp(f, (np.array(x),), (np.array(1.0),))
    np.testing.assert_allclose(float(change), slope, rtol=1e-7)


def test_the_slope_of_x_log_y_in_x_where_it_is_0():
    both = functad.grad(functad.grad(special.xlogy), argnums=1)  # d² x log y / dx dy = 1 / y
    assert float(both(np.array(0.0), np.array(4.0))) == 0.25
    _, change = functad.jvp(lambda y: special.xlogy(0.0, y), (np.array(0.0),), (np.array(1.0),))
    assert float(change) == 0


def test_the_reciprocal_of_gamma_at_all_poles():
    assert special.rgamma(np.array([0.0, -1.0, -171.0, -180.0, -1e10])).tolist() == [0.0] * 5
