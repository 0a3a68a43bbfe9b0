"""Calls of SciPy on traced values: its ufuncs are functad's of that name; for its other functions errors name ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

special = pytest.importorskip("scipy.special", reason="SciPy is not installed: these tests call its functions")

import scipy.integrate  # noqa: E402
import scipy.linalg  # noqa: E402
import scipy.signal  # noqa: E402
import scipy.stats  # noqa: E402

import functad  # noqa: E402
from functad.errors import ConcretizationError, ShapeError, UnsupportedNumpyError  # noqa: E402

X = np.float32([0.25, 0.5, 0.875])


def counterpart_of(name):
    return getattr(functad.scipy.special, name, None) or getattr(functad.numpy, name, None)


OF_ONE_ORDER = {"jn", "jv", "yn"}  # an order is a known integer: they have tests of their own
UFUNCS = {n for n in dir(special) if isinstance(getattr(special, n), np.ufunc)} - OF_ONE_ORDER
NAMES = sorted(n for n in UFUNCS if counterpart_of(n))


def test_the_list_of_names_is_the_one_meant():
    assert {"digamma", "erf", "betainc", "sici", "log1p"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_ufunc_of_scipy_computes_what_scipy_does(name):
    ufunc = getattr(special, name)
    operands = [X] * ufunc.nin
    if name == "expn":
        operands[0] = np.int32([1, 2, 3])
    found = functad.jit(lambda *xs: ufunc(*xs))(*operands)
    expected = ufunc(*operands)
    for f, e in zip(*((r if isinstance(r, tuple) else (r,)) for r in (found, expected)), strict=True):
        assert isinstance(f, functad.Array)
        np.testing.assert_allclose(np.asarray(f), e, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["digamma", "erf", "expit", "gammaln", "i0", "log1p", "ndtr"])
def test_a_ufunc_of_scipy_differentiates(name):
    theirs, ours = getattr(special, name), counterpart_of(name)
    found, expected = (functad.grad(lambda x, f=f: f(x).sum())(X) for f in (theirs, ours))
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_zeta_is_made_of_ufuncs_with_names_of_their_own():
    found = functad.jit(lambda x: special.zeta(x, 2.0))(X + 1)
    np.testing.assert_allclose(np.asarray(found), special.zeta(X + 1, 2.0), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (special.airy, "scipy.special.airy was called on a functad value"),
        (lambda x: special.erf(x, out=np.zeros(3)), r"y = functad.scipy.special.erf\("),
        (lambda x: special.erf(x, where=X > 0.3), r"functad.scipy.special.erf\(x\), other"),
        (lambda x: special.xlogy.reduce(x), "scipy.special.xlogy.reduce has no counterpart"),
    ],
)
def test_what_has_no_counterpart_is_named(call, text):
    with pytest.raises(UnsupportedNumpyError, match=text):
        functad.jit(call)(X)


@pytest.mark.parametrize(
    ("call", "ours"),
    [
        (lambda x: scipy.stats.norm.logpdf(x), "stats.norm.logpdf"),
        (lambda x: scipy.stats.multivariate_normal.logpdf(x, X, np.eye(3)), "stats.multivariate_normal.logpdf"),
        (lambda x: scipy.stats.poisson.logpmf(2, x), "stats.poisson.logpmf"),
        (lambda x: scipy.linalg.solve_triangular(np.eye(3), x), "linalg.solve_triangular"),
        (lambda x: scipy.linalg.expm(x[:, None] * X), "linalg.expm"),
        (lambda x: scipy.special.logsumexp(x), "special.logsumexp"),
        (lambda x: scipy.signal.convolve(x, X), "signal.convolve"),
        (lambda x: scipy.integrate.trapezoid(x), "integrate.trapezoid"),
    ],
)
@pytest.mark.parametrize("transform", [functad.jit, functad.grad])
def test_errors_of_functions_that_are_no_ufuncs_name_ours(call, ours, transform):
    with pytest.raises(ConcretizationError, match=rf"Write functad\.scipy\.{ours}\(") as info:
        transform(call)(X)
    assert "test_scipys_ufuncs_oracle.py" in str(info.value)


WITH_ARRAY_API = """
import numpy, functad, scipy.fft, scipy.special, scipy.stats
x = numpy.array([0.25, 0.5])
assert functad.jit(scipy.fft.fft)(x).shape == (2,)
for call in (scipy.special.erf, scipy.stats.norm.logpdf):
    try:
        functad.jit(call)(x)
    except functad.errors.ConcretizationError as problem:
        print(str(problem).splitlines()[-1])
"""


def test_with_scipys_array_api_errors_name_ours():
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    run = subprocess.run([sys.executable, "-c", WITH_ARRAY_API], env=environment, capture_output=True, text=True)
    first, second = run.stdout.splitlines()[:2]
    assert first == "SciPy's function takes known values alone. Write functad.scipy.special.erf(...)", run.stderr
    assert second == "SciPy's function takes known values alone. Write functad.scipy.stats.norm.logpdf(...)"


DISPATCHED = """
import numpy as np, functad, scipy.integrate, scipy.linalg, scipy.signal, scipy.special, scipy.stats
functad.scipy.dispatch()
x = np.array([0.25, 0.5, 0.875])
calls = [
    lambda x: scipy.stats.norm.logpdf(x, loc=0.1, scale=2.0).sum(),
    lambda x: scipy.stats.multivariate_normal.logpdf(x, np.ones(3), np.eye(3)),
    lambda x: scipy.stats.dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), x),
    lambda x: scipy.linalg.solve_triangular(np.eye(3) + np.ones((3, 3)), x).sum(),
    lambda x: scipy.linalg.expm(x[:, None] * np.ones(3)).sum(),
    lambda x: scipy.signal.convolve(x, np.arange(3.0)).sum(),
    lambda x: scipy.special.logsumexp(x),
    lambda x: scipy.special.multigammaln(x + 3, 2).sum(),
    lambda x: scipy.integrate.odeint(lambda y, t, k: [y[1], -k * y[0]], x[:2], x, args=(2.0,))[-1].sum(),
]
for call in calls:
    steps = [(call(x + d) - call(x - d)) / 2e-6 for d in 1e-6 * np.eye(3)]
    for found in (functad.grad(call)(x), functad.jit(functad.grad(call))(x)):
        np.testing.assert_allclose(np.asarray(found), steps, rtol=1e-6, atol=1e-8)
print(type(scipy.stats.norm.logpdf(x)).__name__)
"""


def test_after_dispatch_functions_that_are_no_ufuncs_differentiate():
    run = subprocess.run([sys.executable, "-c", DISPATCHED], capture_output=True, text=True)
    assert run.stdout == "ndarray\n", run.stderr


def test_the_error_of_odeint_names_ours():
    with pytest.raises(ConcretizationError, match=r"Write functad\.experimental\.ode\.odeint\("):
        functad.jit(lambda x: scipy.integrate.odeint(lambda y, t: -y, x, np.linspace(0, 1, 3)))(X)


# What HIPS autograd 1.9 differentiates of SciPy; x is a vector of positive numbers, m a positive definite matrix.
UFUNCS_OF_AUTOGRAD = """
beta(x, 2.) betainc(2., 3., x) betaln(x, 2.) psi(x) digamma(x) gamma(x) gammaln(x) gammainc(2., x) gammaincc(2., x)
gammasgn(x) rgamma(x) i0(x) i1(x) iv(0.5, x) ive(2, x) j0(x) j1(x) jn(2, x) y0(x) y1(x) yn(2, x)
erf(x) erfc(x) erfinv(x) erfcinv(x)
logit(x) expit(x)
"""
NO_UFUNCS_OF_AUTOGRAD = """
special.polygamma(1,x) special.multigammaln(x+2,2) special.logsumexp(x)
linalg.sqrtm(m*x[0]) linalg.solve_triangular(m,x) linalg.solve_banded((1,1),m*x[0],x) linalg.solve_sylvester(m*x[0],m,m)
signal.convolve(x,x)
stats.beta.cdf(x,2.,3.) stats.beta.logpdf(x,2.,3.) stats.beta.pdf(x,2.,3.) stats.chi2.cdf(x,2.) stats.chi2.logpdf(x,2.)
stats.chi2.pdf(x,2.) stats.dirichlet.logpdf(x/x.sum(),x) stats.dirichlet.pdf(x/x.sum(),x)
stats.gamma.cdf(x,2.) stats.gamma.logpdf(x,2.) stats.gamma.pdf(x,2.)
stats.multivariate_normal.pdf(x,x,m) stats.multivariate_normal.logpdf(x,x,m)
stats.multivariate_normal.entropy(x,m*x[0]) stats.norm.pdf(x) stats.norm.cdf(x) stats.norm.sf(x) stats.norm.logpdf(x)
stats.norm.logcdf(x) stats.norm.logsf(x) stats.poisson.cdf(2,x) stats.poisson.logpmf(2,x) stats.poisson.pmf(2,x)
stats.t.pdf(x,3.) stats.t.cdf(x,3.) stats.t.logpdf(x,3.) stats.t.logcdf(x,3.)
"""
M = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 3.0]])
POINT = np.array([0.25, 0.5, 0.875])


def run(home, call, x):
    return eval(
        call,
        {"special": home.special, "linalg": home.linalg, "signal": home.signal, "stats": home.stats, "x": x, "m": M},
    )


def assert_slope(function, x):
    """The gradient of a number, beside its difference along a direction."""
    weights = np.linspace(1, 2, np.size(function(x))).reshape(np.shape(function(x)))
    along, step = np.array([0.5, -1.0, 0.25]), 1e-6
    found = functad.jit(functad.grad(lambda x: functad.numpy.real(functad.numpy.sum(function(x) * weights))))(x)
    low, high = (float(np.real(np.sum(np.asarray(function(x + s * along)) * weights))) for s in (-step, step))
    slope = (high - low) / (2 * step)
    assert abs(float(np.sum(np.asarray(found) * along)) - slope) < 1e-6 * (1 + abs(slope))


@pytest.mark.parametrize("call", [f"special.{call})" for call in " ".join(UFUNCS_OF_AUTOGRAD.split()).split(")")[:-1]])
def test_a_ufunc_that_autograd_differentiates_is_ours(call):
    call = call.replace(". ", ".")
    with functad.enable_x64(True):
        np.testing.assert_allclose(
            np.asarray(functad.jit(lambda x: run(scipy, call, x))(POINT)), run(scipy, call, POINT), rtol=1e-10
        )
        assert_slope(lambda x: run(scipy, call, x), POINT)


@pytest.mark.parametrize("call", NO_UFUNCS_OF_AUTOGRAD.split())
def test_for_other_functions_that_autograd_differentiates_the_error_names_ours(call):
    name = call.partition("(")[0]
    with functad.enable_x64(True):
        with pytest.raises(ConcretizationError, match=rf"Write functad\.scipy\.{re.escape(name)}\(\.\.\.\)"):
            functad.jit(lambda x: run(scipy, call, x))(POINT)
        found = functad.jit(lambda x: run(functad.scipy, call, x))(POINT)
        np.testing.assert_allclose(np.asarray(found), run(scipy, call, POINT), rtol=1e-8, atol=1e-12)
        assert_slope(lambda x: run(functad.scipy, call, x), POINT)


def test_all_that_autograd_differentiates_of_scipy_is_in_the_tables():
    pytest.importorskip("autograd", reason="autograd, whose names these are, is not installed")
    import autograd.scipy.integrate
    import autograd.scipy.linalg
    import autograd.scipy.signal
    import autograd.scipy.special
    import autograd.scipy.stats
    from autograd.core import primitive_vjps

    tables = UFUNCS_OF_AUTOGRAD + NO_UFUNCS_OF_AUTOGRAD
    called = set(re.findall(r"([a-z]\w*)\(", tables)) | {"odeint", "rvs"}
    homes = [getattr(autograd.scipy, name) for name in ("integrate", "linalg", "signal", "special")]
    homes += [v for k, v in vars(autograd.scipy.stats).items() if hasattr(v, "__file__")]
    names = {k for home in homes for k, v in vars(home).items() if callable(v) and v in primitive_vjps}
    assert len(names) > 40 and names <= called


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: scipy.stats.zscore(x), "functad has no scipy.stats.zscore. Write it with functions of"),
        (lambda x: scipy.integrate.simpson(x), "functad has no scipy.integrate.simpson"),
        (lambda x: scipy.stats.dirichlet.rvs(x), r"Write functad.random.dirichlet\("),
        (lambda x: scipy.stats.norm(0, x[0]).logpdf(1.0), r"Write functad.scipy.stats.norm.logpdf\("),
        (
            lambda x: scipy.stats.multivariate_normal(x, M).logpdf(x),
            r"functad.scipy.stats.multivariate_normal.logpdf\(",
        ),
    ],
)
def test_errors_of_other_functions_say_what_there_is(call, text):
    with pytest.raises(ConcretizationError, match=text):
        functad.jit(call)(POINT)


@pytest.mark.parametrize("x", [0.0, -1.0, -2.0, -3.0, 0.5, 1.0, -0.5, -7.25, 3.5, 30.0, np.nan])
def test_rgamma_and_its_slope_at_poles_of_gamma(x):
    with functad.enable_x64(True):
        found, slope = functad.jit(functad.value_and_grad(functad.scipy.special.rgamma))(x)
        np.testing.assert_allclose(float(found), special.rgamma(x), rtol=1e-11, atol=1e-14)
        wanted = (-1.0) ** -x * special.factorial(-x) if x in (0, -1, -2, -3) else -special.psi(x) * special.rgamma(x)
        np.testing.assert_allclose(float(slope), wanted, rtol=1e-9)


@pytest.mark.parametrize("x", [0.0, 1e-30, 0.5, 1.0, 1.5, 2.0, -0.1, 2.1, np.nan])
def test_erfcinv(x):
    with functad.enable_x64(True):
        np.testing.assert_allclose(float(functad.scipy.special.erfcinv(x)), special.erfcinv(x), rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("x", [0.0, 1.0, -1.0, 40.0, -40.0, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", ["cdf", "sf", "logcdf", "logsf"])
def test_tails_of_students_distribution(name, x):
    ours, theirs = getattr(functad.scipy.stats.t, name), getattr(scipy.stats.t, name)
    with functad.enable_x64(True):
        np.testing.assert_allclose(float(ours(x, 2.5, 0.25, 2.0)), theirs(x, 2.5, 0.25, 2.0), rtol=1e-10)
        if np.isfinite(x):
            slope = float(functad.jit(functad.grad(ours))(x, 2.5, 0.0, 2.0))
            sign = -1 if name.endswith("sf") else 1
            below = np.exp(theirs(x, 2.5, 0.0, 2.0)) if name.startswith("log") else 1
            np.testing.assert_allclose(slope, sign * scipy.stats.t.pdf(x, 2.5, 0.0, 2.0) / below, rtol=1e-9)
            slope = float(functad.grad(ours, argnums=1)(x, 2.5))
            difference = (theirs(x, 2.5001) - theirs(x, 2.4999)) / 0.0002
            np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (0, 1), (0, 0), (2, 2)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_solve_banded(shape, columns):
    rng = np.random.default_rng(0)
    below, above = shape
    ab = rng.normal(size=(below + above + 1, 7))
    ab[above] += 6
    b = rng.normal(size=(7, *columns))
    with functad.enable_x64(True):
        found = functad.jit(lambda ab, b: functad.scipy.linalg.solve_banded(shape, ab, b))(ab, b)
        np.testing.assert_allclose(np.asarray(found), scipy.linalg.solve_banded(shape, ab, b), rtol=1e-10)
    with pytest.raises(ShapeError, match=r"solve_banded takes ab of shape \(\d, n\)"):
        functad.scipy.linalg.solve_banded(shape, ab[:, :3], b)


def test_entropy_of_normal_vectors():
    with functad.enable_x64(True):
        for cov in (M, 2.5):
            ours = float(functad.scipy.stats.multivariate_normal.entropy(np.zeros(3), cov))
            np.testing.assert_allclose(ours, scipy.stats.multivariate_normal.entropy(np.zeros(3), cov), rtol=1e-12)
    with pytest.raises(ShapeError, match="cov must have a shape"):
        functad.scipy.stats.multivariate_normal.entropy(np.zeros(3), M[:2])
