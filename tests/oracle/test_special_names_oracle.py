"""`functad.scipy.special` against JAX: values, dtypes and slopes, in both modes of running."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
scipy_special = pytest.importorskip("scipy.special", reason="scipy is not installed: the oracle tests compare with it")

from jax.scipy import special as theirs  # noqa: E402

import functad  # noqa: E402
from functad.scipy import special as ours  # noqa: E402

LINE = np.array([-np.inf, -3, -2.5, -1.5, -1, -0.5, -0.0, 0, 1e-3, 0.3, 0.5, 0.9, 1, 1.5, 2, 3.7, 10, 50, np.inf])
POSITIVE = np.array([0.02, 0.3, 0.5, 0.9, 1, 1.5, 2, 3.7, 8])
SQUARE = [x.ravel() for x in np.meshgrid(LINE, LINE)]
FROM_ZERO = [x.ravel() for x in np.meshgrid(np.append(POSITIVE, 0), POSITIVE)]
QUADRANT = [x.ravel() for x in np.meshgrid(POSITIVE, POSITIVE)]
INSIDE = np.linspace(1e-4, 1 - 1e-4, 30)

# Function: arguments, and those in which it is differentiated at the same points.
CASES = {
    "gammaln": ([LINE], [0]),
    "gammasgn": ([LINE], [0]),
    "gamma": ([LINE[:-2]], [0]),
    "loggamma": ([POSITIVE], [0]),
    "factorial": ([LINE], [0]),
    "digamma": ([LINE[1:-1]], [0]),
    "erf": ([LINE], [0]),
    "erfc": ([LINE], [0]),
    "erfinv": ([LINE], [0]),
    "erfcx": ([LINE], [0]),
    "ndtr": ([LINE], [0]),
    "log_ndtr": ([np.append(LINE[1:], [-7, -30])], [0]),
    "ndtri": ([INSIDE], [0]),
    "logit": ([LINE], [0]),
    "expit": ([LINE], [0]),
    "entr": ([LINE], [0]),
    "i0": ([LINE[1:-1][LINE[1:-1] != 0]], [0]),  # at 0 JAX gives the slope 1 to an even function
    "i0e": ([LINE], [0]),
    "i1": ([LINE[1:-1]], [0]),
    "i1e": ([LINE], [0]),
    "xlogy": (SQUARE, [0, 1]),
    "xlog1py": (SQUARE, [0, 1]),
    "kl_div": (FROM_ZERO, [0, 1]),  # elsewhere both are infinite, or NaN in JAX
    "rel_entr": (FROM_ZERO, [0, 1]),
    "betaln": (QUADRANT, [0, 1]),
    "beta": (QUADRANT, [0, 1]),
    "poch": (QUADRANT, [0, 1]),
    "gammainc": (QUADRANT, [0, 1]),
    "gammaincc": (QUADRANT, [0, 1]),
    "zeta": ([QUADRANT[0] + 1.5, QUADRANT[1]], [1]),
    "expi": ([LINE[np.isfinite(LINE) & (LINE != 0)]], [0]),
    "exp1": ([POSITIVE], [0]),
    "spence": ([POSITIVE[POSITIVE != 1]], [0]),
    "owens_t": (QUADRANT, [0, 1]),
    "hyp1f1": ([*QUADRANT, QUADRANT[0][::-1]], [0, 1, 2]),
}


def _slope(package, function, primals, i):
    def of_one(x):
        return function(*primals[:i], x, *primals[i + 1 :])

    return package.jvp(of_one, (primals[i],), (np.ones(primals[i].shape, primals[i].dtype),))[1]


# Their slopes have limits where JAX's are NaN: tests/scipy_functions/test_scipy_special.py says which.
HAS_LIMITS = ("erfcx", "xlogy", "xlog1py")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_slopes(name, dtype):
    points, places = CASES[name]
    points = [x.astype(dtype) for x in points]
    mine, other = getattr(ours, name), getattr(theirs, name)
    rtol, atol = (2e-5, 1e-6) if dtype == "float32" else (2e-6, 1e-12)  # JAX's betaln is good to 7 digits
    with jax.enable_x64(dtype == "float64"):
        expected, slopes = jax.jit(lambda *x: (other(*x), [_slope(jax, other, x, i) for i in places]))(*points)
    for run in (lambda f: f, functad.jit):
        found = run(mine)(*points)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=atol)
        for i, slope in zip(places, slopes):
            found = run(lambda *x, i=i: _slope(functad, mine, x, i))(*points)
            if name in HAS_LIMITS:
                slope = np.where(np.isnan(slope) & ~np.any([np.isnan(x) for x in points], 0), found, slope)
            np.testing.assert_allclose(np.asarray(found), np.asarray(slope), rtol=30 * rtol, atol=10 * atol)


# Function: arguments in float64 that end where numbers do, over the whole domain; and how many roundings it may be off.
EVERYWHERE = np.concatenate([s * np.logspace(-20, 6, 53) for s in (1, -1)] + [np.linspace(-40, 40, 97), LINE, [np.nan]])
UNIT = np.concatenate([np.logspace(-300, -1, 40), np.linspace(0.1, 1, 40), 1 - np.logspace(-15, -1, 40), [0, -1e-9, 2]])
PAIRS = [x.ravel() for x in np.meshgrid(*2 * [np.append(np.logspace(-8, 4, 20), [0, 0.5, 1, 2, 3])])]
WHOLE = [x.ravel() for x in np.meshgrid([-5.0, -4, -2, -1, 0, 1, 3], [0.0, 1, 2, 4])]
LIMITS = [-1, 0, 1, np.inf]
TAILS = [0, 1e-20, 1e-5, 0.3, 0.6, 0.99, 1 - 1e-9, 1]
KUMMER = np.meshgrid([-3, -2.5, 0, 0.3, 2.5], [0.5, 1, 3.7], [-200, -30, -1, 0, 2, 90])
GAUSS = np.meshgrid([-3, -2.5, 0, 0.3, 2.5], [-1.5, 0.5, 3.7], [0.5, 2, 3.3], [-90, -1, -0.2, 0, 0.5, 0.97])
AGAINST_SCIPY = [
    ("gamma", [EVERYWHERE[EVERYWHERE > -20]], 1000),
    ("loggamma", [EVERYWHERE], 20),
    ("gammasgn", [EVERYWHERE], 0),
    ("factorial", [EVERYWHERE], 500),
    ("betaln", PAIRS, 1e8),  # for a large and a small argument SciPy has 8 digits
    ("beta", PAIRS, 1e8),
    ("beta", WHOLE, 10),
    ("poch", PAIRS, 1e6),  # where SciPy subtracts large logarithms
    ("poch", WHOLE, 10),
    ("comb", PAIRS, 1e6),
    ("comb", WHOLE, 10),
    ("boxcox", PAIRS, 10_000),
    ("boxcox1p", PAIRS, 10_000),
    ("dawsn", [EVERYWHERE], 100),
    ("erfcx", [EVERYWHERE], 10),
    ("ndtr", [EVERYWHERE[~(EVERYWHERE < -37)]], 2000),
    ("log_ndtr", [EVERYWHERE[~(EVERYWHERE > 37)]], 2000),
    ("ndtri", [UNIT], 10),
    ("logit", [UNIT], 10),
    ("entr", [EVERYWHERE], 4),
    ("rel_entr", PAIRS, 10),
    ("kl_div", PAIRS, 100),
    ("i0", [EVERYWHERE], 10),
    ("i1", [EVERYWHERE], 10),
    ("betainc", [x.ravel() for x in np.meshgrid([0.3, 2, 12, 300], [0.3, 2, 12, 300], TAILS)], 10_000),
    ("betainc", [x.ravel() for x in np.meshgrid(LIMITS, LIMITS, [0, 0.5, 1, 2, -1])], 100),
    ("zeta", [x.ravel() for x in np.meshgrid([2, 3, 7, 2.5], [-0.5, -1.3, -7.8, -2, 0, 0.1, 3, 80])], 500),
    ("expi", [EVERYWHERE[~(EVERYWHERE > 36)]], 100),  # further out SciPy has 13 digits
    ("exp1", [EVERYWHERE], 100),
    ("expn", [x.ravel() for x in np.meshgrid([0.0, 1, 2, 3, 7, 40], POSITIVE.tolist() + [0, 30, np.inf, np.nan])], 20),
    ("sici", [EVERYWHERE], 3000),  # Ci has zeros
    ("fresnel", [EVERYWHERE[~(np.abs(EVERYWHERE) > 1e3)]], 1000),  # beyond, SciPy's angles lose digits
    ("spence", [EVERYWHERE[EVERYWHERE != np.inf]], 20),
    ("owens_t", [x.ravel() for x in np.meshgrid([-3, -0.3, 0, 0.1, 1, 5, 20, np.inf], LINE)], 5000),
    ("hyp1f1", [x.ravel() for x in KUMMER], 1000),
    ("hyp2f1", [x.ravel() for x in GAUSS], 20_000),  # near 1 terms cancel
]


@pytest.mark.parametrize("name, points, roundings", AGAINST_SCIPY, ids=[case[0] for case in AGAINST_SCIPY])
def test_the_whole_domain(name, points, roundings):
    points = [np.asarray(x, float) for x in points]
    rtol = max(roundings, 1) * 2.3e-16
    for dtype, tolerance, least in (("float64", rtol, 1e-290), ("float32", max(rtol, 5e-7), 1e-37)):
        operands = [x.astype(dtype) for x in points]
        with np.errstate(all="ignore"):
            expected = np.asarray(_scipys(name)(*(x.astype(float) for x in operands))).astype(dtype)
        for run in (lambda f: f, functad.jit):
            found = np.asarray(run(getattr(ours, name))(*operands))
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=least)


def _scipys(name):
    function = getattr(scipy_special, name)
    return (lambda n, x: function(n.astype(int), x)) if name == "expn" else function


def test_bessel_functions_of_all_orders():
    z = np.concatenate(
        [[0, 1e-300, 1e-9, np.nan], np.logspace(-6, 3, 60), -np.logspace(-3, 2, 9), np.linspace(0.1, 120, 80)]
    )
    found, expected = np.asarray(ours.bessel_jn(z, v=60)), scipy_special.jv(np.arange(61)[:, None], z)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=2e-14)
    tiny = np.abs(z) < 1
    np.testing.assert_allclose(found[:30, tiny], expected[:30, tiny], rtol=1e-12, atol=1e-280)
    at = np.float32([0.5, 3.0, 40.0])
    slope = np.asarray(functad.jvp(lambda x: ours.bessel_jn(x, v=3), (at,), (np.ones_like(at),))[1])
    np.testing.assert_allclose(slope, scipy_special.jvp(np.arange(4)[:, None], at), rtol=1e-5, atol=1e-7)


def test_spherical_harmonics():
    n, m = np.array([(n, m) for n in range(9) for m in range(-n, n + 1)]).T
    theta, phi = np.random.default_rng(0).uniform(0, np.pi, (2, n.size))
    expected = scipy_special.sph_harm_y(n, m, theta, 2 * phi)
    for run in (lambda f: f, functad.jit):
        found = run(lambda t, p: ours.sph_harm_y(n, m, t, p))(theta, 2 * phi)
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-13, atol=1e-14)
    narrow = [np.float32(theta), np.float32(2 * phi)]
    theirs_ = theirs.sph_harm_y(jax.numpy.asarray(n), jax.numpy.asarray(m), *map(jax.numpy.asarray, narrow), n_max=8)
    found = ours.sph_harm_y(n, m, *narrow)
    assert found.dtype == theirs_.dtype
    np.testing.assert_allclose(np.asarray(found), np.asarray(theirs_), atol=1e-5)


@pytest.mark.parametrize("name", ["gamma", "loggamma"])
def test_the_complex_plane(name):
    x, y = np.meshgrid(np.append(np.linspace(-30.3, 30, 41), [-2, 0, 1, 2]), [-300, -8, -0.3, -1e-9, 0, 1e-3, 1, 20])
    z = (x + 1j * y).ravel()
    expected = getattr(scipy_special, name)(z)
    z = z[~((z.imag == 0) & (expected.imag != 0) & (name == "gamma"))]  # there SciPy's is not real
    expected = getattr(scipy_special, name)(z)
    mine, other = getattr(ours, name), getattr(theirs, name)
    for run in (lambda f: f, functad.jit):
        found = np.asarray(run(mine)(z))
        assert found.dtype == np.complex128
        error = np.abs(found - expected) / np.maximum(np.abs(expected), 0.01 if name == "loggamma" else 1e-290)
        assert not (np.isnan(found) != np.isnan(expected)).any()
        assert np.nanmax(error) < 1e-12
    slope = functad.jit(lambda z: functad.jvp(mine, (z,), (np.ones_like(z),))[1])(z)
    with jax.enable_x64(True):
        expected = np.asarray(jax.jit(lambda z: jax.jvp(other, (z,), (jax.numpy.ones_like(z),))[1])(z))
    ok = np.isfinite(expected) & (np.abs(z.imag) > 1e-8)  # nearer to poles JAX's loses digits
    np.testing.assert_allclose(np.asarray(slope)[ok], expected[ok], rtol=1e-8)
    assert mine(np.complex64(1 + 1j)).dtype == np.complex64


def test_other_functions():
    x = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
    for name, options in [("softmax", {"axis": 0}), ("log_softmax", {}), ("logsumexp", {"axis": 1})]:
        np.testing.assert_allclose(
            np.asarray(getattr(ours, name)(x, **options)), np.asarray(getattr(theirs, name)(x, **options)), rtol=1e-5
        )
    np.testing.assert_allclose(np.asarray(ours.bernoulli(9)), np.asarray(theirs.bernoulli(9)), atol=1e-6)
    np.testing.assert_allclose(
        np.asarray(ours.multigammaln(POSITIVE + 2, 3)), np.asarray(theirs.multigammaln(POSITIVE + 2, 3)), rtol=1e-5
    )
    np.testing.assert_allclose(
        np.asarray(ours.polygamma(2, POSITIVE)), np.asarray(theirs.polygamma(2, POSITIVE)), rtol=1e-5
    )
    a, b, x = np.float32([2, 3]), np.float32([4, 0.5]), np.float32([0.3, 0.9])
    np.testing.assert_allclose(np.asarray(ours.betainc(a, b, x)), np.asarray(theirs.betainc(a, b, x)), rtol=1e-5)
