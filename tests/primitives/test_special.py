"""The special-function kernels against `math`, against values of 60-digit arithmetic, and at their edges.

Knows kernels/special.py only.
"""

from __future__ import annotations

import decimal
import math

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.primitives.kernels import special, strict_math
from functad.primitives.strict import strict_log_p
from functad.tracing import bind

# Correctly rounded values, computed with 60 digits.
KNOWN = {
    "erf": (
        (1e-300, 1.1283791670955126e-300),
        (1e-08, 1.1283791670955126e-08),
        (0.3, 0.3286267594591274),
        (0.46875, 0.49261347321793797),
        (0.47, 0.4937450508860821),
        (1.0, 0.8427007929497149),
        (2.5, 0.999593047982555),
        (4.2, 0.9999999971445058),
        (5.9, 0.9999999999999999),
        (-0.7, -0.6778011938374184),
    ),
    "erfc": (
        (-3.0, 1.9999779095030015),
        (0.3, 0.6713732405408726),
        (0.47, 0.5062549491139179),
        (1.0, 0.15729920705028513),
        (2.6, 0.00023603441652934908),
        (4.0, 1.541725790028002e-08),
        (4.5, 1.9661604415428876e-10),
        (10.0, 2.088487583762545e-45),
        (20.0, 5.395865611607901e-176),
        (25.9, 1.0202833184732667e-293),
        (26.1, 3.081217493314593e-298),
        (26.5, 2.2109076642637343e-307),
    ),
    "erf_inv": (
        (1e-300, 8.86226925452758e-301),
        (1e-05, 8.862269254759594e-06),
        (0.3, 0.2724627147267543),
        (0.8499, 1.0176527650769829),
        (0.85, 1.0179024648320276),
        (0.9, 1.1630871536766743),
        (-0.99, -1.8213863677184494),
        (0.999999999, 4.320005388105362),
        (0.9999999999999999, 5.8635847487551676),
    ),
    "lgamma": (
        (1e-300, 690.7755278982137),
        (1e-05, 11.512919692895826),
        (0.3, 1.0957979948180756),
        (0.9999999999, 5.7721571274281786e-11),
        (1.0000000001, -5.772157125783244e-11),
        (1.2, -0.08537409000331583),
        (1.4616321449683622, -0.12148629053584961),
        (1.9999999999, -4.2278437004755317e-11),
        (2.0000000001, 4.2278437011204657e-11),
        (2.7, 0.4348205536551047),
        (7.3, 7.147892523022248),
        (9.99, 12.779315214350193),
        (10.0, 12.801827480081469),
        (1000.0, 5905.220423209181),
        (1e300, 6.897755278982137e302),
        (-0.5, 1.2655121234846454),
        (-3.7, -1.3797399049658245),
        (-1e-25, 57.564627324851145),
    ),
    "digamma": (
        (1e-300, -9.999999999999999e299),
        (0.3, -3.502524222200133),
        (1.0, -0.5772156649015329),
        (1.4616321449683622, -9.241265521729427e-17),
        (1.4616321449683625, 1.2245374622004068e-16),
        (1.46, -0.0015805619870834522),
        (1.5, 0.03648997397857652),
        (2.0, 0.42278433509846713),
        (2.5, 0.7031566406452432),
        (9.99, 2.250700372831201),
        (10.0, 2.251752589066721),
        (1000.0, 6.907255195648812),
        (1e300, 690.7755278982137),
        (-0.3, 2.113309779635399),
        (-2.7, -1.1153471291406896),
    ),
    "trigamma": (
        (1e-100, 1e200),
        (0.3, 12.245364546107732),
        (1.0, 1.6449340668482264),
        (5.5, 0.19934238698962767),
        (1000.0, 0.0010005001666666333),
        (1e100, 1e-100),
        (-0.3, 13.945160267805722),
        (-2.7, 14.769375845132314),
    ),
    "polygamma2": (
        (0.3, -75.27253658872604),
        (5.5, -0.03960894752130204),
        (-0.3, 67.63908119988317),
    ),
    "polygamma3": (
        (0.3, 743.1417646550498),
        (5.5, 0.015690592675882818),
        (-0.3, 766.6198904191685),
    ),
    "logistic": (
        (-740.0, 4.2e-322),
        (-40.0, 4.248354255291589e-18),
        (-1.0, 0.2689414213699951),
        (0.5, 0.6224593312018546),
        (40.0, 1.0),
    ),
}
FUNCTIONS = {
    "erf": special.erf,
    "erfc": special.erfc,
    "erf_inv": special.erf_inv,
    "lgamma": special.lgamma,
    "digamma": special.digamma,
    "trigamma": special.trigamma,
    "polygamma2": lambda x: special.polygamma(2, x),
    "polygamma3": lambda x: special.polygamma(3, x),
    "logistic": special.logistic,
}
SINGLE_ARGUMENT = [
    special.erf,
    special.erfc,
    special.erf_inv,
    special.lgamma,
    special.digamma,
    special.logistic,
]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def ulps(got, expected):
    return np.abs(got - expected) / np.spacing(np.maximum(np.abs(expected), np.finfo(np.float64).tiny))


@pytest.mark.parametrize("name", KNOWN)
def test_known_values_to_a_few_ulp(name):
    points, expected = np.array(KNOWN[name]).T
    # The worst seen on random points was 5.3 ulp for polygamma of order 3, and 3.9 for the others.
    bound = 6 if name.startswith("polygamma") else 4.5
    np.testing.assert_array_less(ulps(FUNCTIONS[name](points), expected), bound)


def test_the_bound_notices_a_wrong_value():
    points, expected = np.array(KNOWN["erf"]).T
    assert ulps(special.erf(points * (1 + 1e-14)), expected).max() > 4.5


@pytest.mark.parametrize("name", ["erf", "erfc", "lgamma"])
def test_against_the_math_module(name):
    low, high = {"erf": (-7, 7), "erfc": (-7, 26), "lgamma": (2.5, 60)}[name]
    points = np.random.default_rng(0).uniform(low, high, 2000)
    expected = np.array([getattr(math, name)(x) for x in points])
    # `math.lgamma` itself loses a few digits between its root 2 and about 3.
    np.testing.assert_allclose(FUNCTIONS[name](points), expected, rtol=5e-15 if name == "lgamma" else 2e-15)


def test_erfc_beyond_the_smallest_normal_number():
    points = np.linspace(26.55, 27.2, 50)
    expected = np.array([math.erfc(x) for x in points])
    np.testing.assert_allclose(special.erfc(points), expected, rtol=4e-15, atol=1e-323)
    assert special.erfc(np.array([27.3, 40.0]))[-1] == 0


def test_erf_inv_inverts_erf():
    points = np.random.default_rng(0).uniform(-0.999, 0.999, 1000)
    np.testing.assert_allclose(special.erf(special.erf_inv(points)), points, rtol=3e-15)


def test_digamma_is_the_slope_of_lgamma():
    points = np.random.default_rng(0).uniform(0.1, 20, 200)
    step = 1e-5 * points
    slope = (special.lgamma(points + step) - special.lgamma(points - step)) / (2 * step)
    np.testing.assert_allclose(special.digamma(points), slope, rtol=1e-6, atol=1e-8)


def test_polygamma_of_order_zero_is_digamma():
    points = np.linspace(0.1, 5, 11)
    np.testing.assert_array_equal(special.polygamma(0, points), special.digamma(points))


def test_zeta_at_even_integers_and_edges():
    np.testing.assert_allclose(
        special.zeta(np.array([2.0, 4.0]), np.array(1.0)), [math.pi**2 / 6, math.pi**4 / 90], rtol=1e-15
    )
    s = np.array([1.0, 0.5, 2.0, 2.5, np.nan, 2.0, 2.0])
    q = np.array([1.0, 1.0, -1.0, -0.5, 1.0, np.nan, np.inf])
    expected = [np.inf, np.nan, np.inf, np.nan, np.nan, np.nan, 0.0]
    np.testing.assert_array_equal(special.zeta(s, q), expected)


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("function", "points", "expected"),
    [
        (special.erf, [0.0, -0.0, INF, -INF, NAN], [0.0, -0.0, 1.0, -1.0, NAN]),
        (special.erfc, [0.0, -0.0, INF, -INF, NAN], [1.0, 1.0, 0.0, 2.0, NAN]),
        (special.erf_inv, [0.0, -0.0, 1.0, -1.0, 1.5, NAN], [0.0, -0.0, INF, -INF, NAN, NAN]),
        (special.lgamma, [0.0, -0.0, -1.0, -7.0, INF, -INF, NAN], [INF, INF, INF, INF, INF, INF, NAN]),
        (special.digamma, [0.0, -0.0, -1.0, INF, -INF, NAN], [NAN, NAN, NAN, INF, NAN, NAN]),
        (special.trigamma, [0.0, -1.0, INF, NAN], [INF, INF, 0.0, NAN]),
        (special.logistic, [0.0, -0.0, INF, -INF, NAN], [0.5, 0.5, 1.0, 0.0, NAN]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_special_points(function, points, expected, dtype):
    got = function(np.array(points, dtype))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.array(expected, dtype))
    zeros = np.array(expected) == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(np.array(expected)[zeros]))


@pytest.mark.parametrize("function", SINGLE_ARGUMENT)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_shapes_and_dtypes(function, dtype):
    for shape in [(), (0,), (3, 0), (2, 3)]:
        x = np.full(shape, 0.3, dtype)
        got = function(x)
        assert isinstance(got, np.ndarray)
        assert (got.shape, got.dtype) == (shape, dtype)
        np.testing.assert_array_equal(x, np.full(shape, 0.3, dtype))


def test_erf_inv_in_single_precision():
    points = np.concatenate([np.linspace(-1, 1, 20_001)[1:-1], 1 - np.geomspace(6e-8, 1, 3000)]).astype(np.float32)
    expected = special.erf_inv(points.astype(np.float64))
    error = np.abs(special.erf_inv(points) - expected) / np.spacing(np.abs(expected).astype(np.float32))
    assert error.max() < 2.01


@pytest.mark.parametrize("function", [f for f in SINGLE_ARGUMENT if f is not special.erf_inv])
def test_single_precision_is_double_rounded_once(function):
    points = np.random.default_rng(0).uniform(-0.95, 0.95, 500).astype(np.float32)
    expected = function(points.astype(np.float64)).astype(np.float32)
    got = function(points)
    np.testing.assert_array_max_ulp(got, expected, 2 if function is special.logistic else 0)


def test_logistic_keeps_relative_accuracy_in_both_tails():
    points = np.array([-87.0, -50.0, -20.0, 20.0], np.float32)
    expected = [math.exp(x) / (1 + math.exp(x)) for x in points.astype(float)]
    np.testing.assert_allclose(special.logistic(points), expected, rtol=3e-7)


def test_cumulative_logsumexp():
    x = np.array([[-1000.0, 0.0, 1000.0, 1000.0], [-np.inf, -np.inf, 1.0, -np.inf]])
    expected = [[-1000.0, 0.0, 1000.0, 1000.0 + math.log(2)], [-np.inf, -np.inf, 1.0, 1.0]]
    np.testing.assert_allclose(special.cumulative_logsumexp(x, axis=1), expected, rtol=1e-15)
    half = np.zeros((2048, 1), np.float16)
    got = special.cumulative_logsumexp(half, axis=0)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got[:, 0], np.log(np.arange(1, 2049)), rtol=1e-3)


def test_logarithms_of_sums_keep_their_digits_near_their_zeros():
    rng = np.random.default_rng(0)
    digits = decimal.Context(prec=50)
    larger = -np.exp(np.append(rng.uniform(-87, -0.4, 500), rng.uniform(-2, -0.4, 500)))
    for name, unit in (("logaddexp", decimal.Decimal(1)), ("logaddexp2", digits.ln(decimal.Decimal(2)))):
        a = larger.astype(np.float32)
        b = (np.log(-np.expm1(a * float(unit))) / float(unit)).astype(np.float32)  # what cancels it, rounded
        exact = []
        for pair in zip(a.tolist(), b.tolist()):
            powers = [digits.exp(digits.multiply(decimal.Decimal(v), unit)) for v in pair]
            exact.append(float(digits.divide(digits.ln(digits.add(*powers)), unit)))
        size = np.maximum(np.abs(exact), np.finfo("f4").tiny).astype("f4")
        function = getattr(functad.numpy, name)
        for f in (function, functad.jit(function)):
            assert (np.abs(np.asarray(f(a, b)) - np.array(exact)) / np.spacing(size)).max() < 0.6


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strict_formulas_give_arrays_the_bits_that_they_give_scalars(dtype: type) -> None:
    ends = [0.0, -0.0, 1.0, -1.0, 2.0, np.inf, np.nan, 1e-40, 1 - 2.0**-24, 0.999, -0.9999]
    x = np.array([*np.random.default_rng(0).uniform(-1, 1, 300), *ends], dtype)
    for name in ("erf_inv", "strict_log", "strict_log1p", "strict_tan", "strict_erf"):
        intrinsic = getattr(strict_math, name)
        single = np.array([intrinsic(one) for one in x], dtype)
        for part in (slice(None), slice(0, 100)):  # with tails, and of the centre of the inverse error function alone
            with np.errstate(all="ignore"):
                found = strict_math.on_arrays(intrinsic, x[part])
            assert found.tobytes() == single[part].tobytes(), name
        for one, expected in zip(x[-len(ends) :], single[-len(ends) :]):  # alike: formulas choose the same throughout
            alike = np.full(3, one)
            with np.errstate(all="ignore"):
                found = strict_math.on_arrays(intrinsic, alike)
            assert found.tobytes() == np.full(3, expected).tobytes(), (name, one)
            assert not np.shares_memory(found, alike)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strict_logarithms_part_numbers_alike_beside_the_root_of_two(dtype: str) -> None:
    root = np.sqrt(np.asarray(2, dtype))
    near = np.asarray([np.nextafter(root, 0), root, np.nextafter(root, 2)], dtype)
    x = jnp.asarray(np.concatenate([near * np.asarray(2.0**e, dtype) for e in range(-60, 60, 5)]))
    compiled = functad.jit(lambda x: bind(strict_log_p, x))(x)
    np.testing.assert_array_equal(compiled, bind(strict_log_p, x))
