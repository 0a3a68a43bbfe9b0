"""`functad.scipy.special` against JAX: values, dtypes and slopes, in both modes of running."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

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
    "i0": ([LINE[1:-1]], [0]),
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
    "gammainc": (QUADRANT, [1]),
    "gammaincc": (QUADRANT, [1]),
    "zeta": ([QUADRANT[0] + 1.5, QUADRANT[1]], [1]),
}


def _slope(package, function, primals, i):
    def of_one(x):
        return function(*primals[:i], x, *primals[i + 1 :])

    return package.jvp(of_one, (primals[i],), (np.ones_like(primals[0]),))[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values_and_slopes(name, dtype):
    points, places = CASES[name]
    points = [x.astype(dtype) for x in points]
    mine, other = getattr(ours, name), getattr(theirs, name)
    rtol, atol = (2e-5, 1e-6) if dtype == "float32" else (2e-6, 1e-12)  # JAX's betaln is good to 7 digits
    with jax.enable_x64(dtype == "float64"):
        arrays = [jax.numpy.asarray(x) for x in points]
        expected = other(*arrays)
        slopes = [_slope(jax, other, arrays, i) for i in places]
    for run in (lambda f: f, functad.jit):
        found = run(mine)(*points)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=rtol, atol=atol)
        for i, slope in zip(places, slopes):
            found = run(lambda *x, i=i: _slope(functad, mine, x, i))(*points)
            np.testing.assert_allclose(np.asarray(found), np.asarray(slope), rtol=30 * rtol, atol=10 * atol)


# Function: arguments in float64 that end where numbers do, over the whole domain; and how many roundings it may be off.
EVERYWHERE = np.concatenate([s * np.logspace(-20, 6, 53) for s in (1, -1)] + [np.linspace(-40, 40, 97), LINE, [np.nan]])
UNIT = np.concatenate([np.logspace(-300, -1, 40), np.linspace(0.1, 1, 40), 1 - np.logspace(-15, -1, 40), [0, -1e-9, 2]])
PAIRS = [x.ravel() for x in np.meshgrid(*2 * [np.append(np.logspace(-8, 4, 20), [0, 0.5, 1, 2, 3])])]
WHOLE = [x.ravel() for x in np.meshgrid([-5.0, -4, -2, -1, 0, 1, 3], [0.0, 1, 2, 4])]
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
]


@pytest.mark.parametrize("name, points, roundings", AGAINST_SCIPY, ids=[case[0] for case in AGAINST_SCIPY])
def test_the_whole_domain(name, points, roundings):
    with np.errstate(all="ignore"):
        expected = getattr(scipy.special, name)(*points)
    for run in (lambda f: f, functad.jit):
        found = np.asarray(run(getattr(ours, name))(*points))
        np.testing.assert_allclose(found, expected, rtol=max(roundings, 1) * 2.3e-16, atol=1e-300)
        narrow = np.asarray(run(getattr(ours, name))(*(x.astype(np.float32) for x in points)))
        with np.errstate(all="ignore"):
            at_narrow = getattr(scipy.special, name)(*(x.astype(np.float32).astype(float) for x in points))
            np.testing.assert_allclose(narrow, at_narrow.astype(np.float32), rtol=5e-7, atol=1e-37)


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
