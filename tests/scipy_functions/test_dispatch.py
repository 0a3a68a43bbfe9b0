"""`functad.scipy.dispatch`, with modules that stand for SciPy's: SciPy is not needed for tests."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

import functad

X = np.array([0.25, 0.5, 0.875])


class Norm:
    """A distribution as SciPy has them: an object with methods."""

    def logpdf(self, x, loc=0, scale=1):
        return np.asarray(x) * 0 + 7

    def entropy(self, loc=0, scale=1):
        return 8.0


@pytest.fixture
def scipys(monkeypatch):
    """Two modules of SciPy's; others are not imported, whatever is installed here."""
    for name in [name for name in sys.modules if name.startswith("scipy.")]:
        monkeypatch.delitem(sys.modules, name)
    stats, special = ModuleType("scipy.stats"), ModuleType("scipy.special")
    stats.norm = Norm()
    special.logsumexp = lambda a, axis=None: np.asarray(a).sum(axis)
    special.erf = np.exp  # a ufunc
    special.own = lambda x: np.asarray(x)
    monkeypatch.setitem(sys.modules, "scipy.stats", stats)
    monkeypatch.setitem(sys.modules, "scipy.special", special)
    functad.scipy.dispatch()
    return stats, special


@pytest.mark.parametrize("wrap", [lambda f: f, functad.jit])
def test_functads_functions_run_on_traced_values(scipys, wrap):
    stats, special = scipys
    found = wrap(functad.grad(lambda x: stats.norm.logpdf(x, scale=2.0).sum() + special.logsumexp(x)))(X)
    expected = -X / 4 + np.exp(X) / np.exp(X).sum()
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)
    mapped = functad.vmap(lambda x: special.logsumexp([x, 2 * x]))(X)  # a list with traced values
    np.testing.assert_allclose(np.asarray(mapped), np.log(np.exp(X) + np.exp(2 * X)), rtol=1e-12)


def test_scipys_functions_run_on_known_values(scipys):
    stats, special = scipys
    np.testing.assert_array_equal(stats.norm.logpdf(X), [7, 7, 7])
    assert special.logsumexp(X) == X.sum() and stats.norm.entropy() == 8


def test_what_functad_does_not_have_and_ufuncs_stay(scipys):
    _, special = scipys
    assert special.erf is np.exp and special.own.__name__ == "<lambda>"
    with pytest.raises(functad.errors.ConcretizationError):
        functad.jit(lambda x: special.own(x))(X)


def test_odeint_takes_scipys_arguments(monkeypatch):
    integrate = ModuleType("scipy.integrate")
    integrate.odeint = lambda func, y0, t, args=(): "SciPy's"
    monkeypatch.setitem(sys.modules, "scipy.integrate", integrate)
    functad.scipy.dispatch()

    def decay(y, t, rate):
        return [-rate * y[0]]

    times = np.linspace(0, 1, 3)
    found = functad.grad(lambda y0: integrate.odeint(decay, y0, times, args=(2.0,))[-1, 0])(1.0)
    np.testing.assert_allclose(found, np.exp(-2), rtol=1e-5)
    assert integrate.odeint(decay, 1.0, times) == "SciPy's"
    with pytest.raises(functad.errors.ArgumentError, match="not full_output: functad.experimental.ode.odeint"):
        functad.grad(lambda y0: integrate.odeint(decay, y0, times, args=(2.0,), full_output=True))(1.0)


def test_dispatching_twice_wraps_once(scipys):
    stats, _ = scipys
    once = stats.norm.logpdf
    functad.scipy.dispatch()
    assert stats.norm.logpdf is once


def test_nothing_of_scipy_is_imported(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "scipy"]:
        monkeypatch.delitem(sys.modules, name)
    functad.scipy.dispatch()
    assert not any(name.partition(".")[0] == "scipy" for name in sys.modules)
