"""Calls of SciPy on traced values: its ufuncs are functad's of that name; for its other functions errors name ours."""

from __future__ import annotations

import numpy as np
import pytest

special = pytest.importorskip("scipy.special", reason="SciPy is not installed: these tests call its functions")

import scipy.integrate  # noqa: E402
import scipy.linalg  # noqa: E402
import scipy.signal  # noqa: E402
import scipy.stats  # noqa: E402

import functad  # noqa: E402
from functad.errors import ConcretizationError, UnsupportedNumpyError  # noqa: E402

X = np.float32([0.25, 0.5, 0.875])


def counterpart_of(name):
    return getattr(functad.scipy.special, name, None) or getattr(functad.numpy, name, None)


NAMES = [n for n in dir(special) if isinstance(getattr(special, n), np.ufunc) and counterpart_of(n)]


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


def test_the_error_of_odeint_names_ours():
    with pytest.raises(ConcretizationError, match=r"Write functad\.experimental\.ode\.odeint\("):
        functad.jit(lambda x: scipy.integrate.odeint(lambda y, t: -y, x, np.linspace(0, 1, 3)))(X)
