"""The functions whose errors are measured: how to call them here and elsewhere, what is right, what error is accepted.

`BOUNDS` is the one place that says which errors are accepted; `tests/test_accuracy.py` holds functad to it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import functad.numpy as jnp
from functad import lax

from . import exact

Function = Callable[..., Any]


class Entry(NamedTuple):
    """One function. `exact` takes wider floats than those that are measured; `numpy` and `jax` may be missing."""

    name: str
    ours: Function
    exact: Function
    numpy: Function | None
    jax: Function | None
    operands: int


def _module(name: str) -> Any:
    return import_module(name) if find_spec(name.partition(".")[0]) else None


def _logistic(x: np.ndarray) -> np.ndarray:
    decay = np.exp(-np.abs(x))
    return np.where(x < 0, decay, 1) / (1 + decay)


_INVERSE = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh"}
_NUMPY = {**_INVERSE, "atanh": "arctanh", "atan2": "arctan2", "pow": "power"}
_BY_NUMPY = (
    "exp exp2 expm1 log log1p log2 log10 sqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh".split()
)
_BY_TWO = "pow atan2 logaddexp logaddexp2 hypot".split()
_OF_SUMS: dict[str, Function] = {"logaddexp": exact.logaddexp, "logaddexp2": exact.logaddexp2}
_SPECIAL: dict[str, tuple[str, Function | None]] = {  # SciPy's name, and the function of extended precision
    "erf": ("erf", exact.erf),
    "erfc": ("erfc", exact.erfc),
    "lgamma": ("gammaln", exact.lgamma),
    "erf_inv": ("erfinv", lambda x: exact.erf_inv(x, lax.erf_inv)),
    "digamma": ("psi", exact.digamma),
    "bessel_i0e": ("i0e", None),
    "bessel_i1e": ("i1e", None),
}

# Functions whose compiled form of float64, a few ulp wrong, is much faster than the exact one: it tells where among
# float32 operands errors are largest.
QUICK = frozenset("exp exp2 expm1 log log1p log2 log10 sinh cosh tanh logistic".split())


def _terms(of: Function, at: Function, sign: int) -> Function:
    """The larger of two numbers whose sum is the result for x < 0, one of them sign · of(at(x)); at least 1."""

    def sizes(truth: np.ndarray, x: np.ndarray) -> np.ndarray:
        first = sign * of(at(np.asarray(x, truth.dtype)))
        return np.asarray(np.where(x < 0, np.fmax(1, np.maximum(np.abs(first), np.abs(truth - first))), 0))

    return sizes


# Where a result is a difference of larger numbers, errors are those of a result of this size, a number or a function
# of the exact result and the operands: near the zeros of sums, and of gamma functions among their poles.
LEAST: dict[str, dict[str, Any]] = {
    "logaddexp": {"float64": 0.25},
    "logaddexp2": {"float64": 0.25},
    "lgamma": {"float64": _terms(exact.lgamma, np.negative, -1)},
    "digamma": {"float64": _terms(exact.digamma, lambda x: 1 - x, 1)},
}


def _ours(name: str) -> Function:
    function: Function = getattr(lax, name, None) or getattr(jnp, name)
    return function


def entries(with_jax: bool) -> list[Entry]:
    """All functions whose exact values can be had here: some need SciPy, if only to compare with."""
    jax = _module("jax") if with_jax else None
    jax_lax, jax_numpy = (_module("jax.lax"), _module("jax.numpy")) if jax else (None, None)

    def theirs(name: str) -> Function | None:
        return getattr(jax_lax, name, None) or getattr(jax_numpy, name, None)

    found = []
    for name in _BY_NUMPY + _BY_TWO:
        numpy = getattr(np, _NUMPY.get(name, name))
        known = _OF_SUMS.get(name, numpy)
        found.append(Entry(name, _ours(name), known, numpy, theirs(name), 2 if name in _BY_TWO else 1))
    found.append(Entry("logistic", lax.logistic, _logistic, None, theirs("logistic"), 1))
    found.append(Entry("rsqrt", lax.rsqrt, lambda x: 1 / np.sqrt(x), None, theirs("rsqrt"), 1))
    scipy = _module("scipy.special")
    for name, (scipys, extended) in _SPECIAL.items():
        if scipy or extended:
            known = _special(getattr(scipy, scipys) if scipy else None, extended)
            if name == "digamma" and scipy:
                known = _reflected(known)
            found.append(Entry(name, _ours(name), known, None, theirs(name), 1))
    return found


def _special(fast: Function | None, extended: Function | None) -> Function:
    """SciPy's function for float32, that of extended precision for float64."""

    def known(x: np.ndarray) -> np.ndarray:
        if extended and (x.dtype != np.float64 or fast is None):
            return np.asarray(extended(np.asarray(x, np.longdouble)), x.dtype)
        assert fast
        wide = np.asarray(x, np.float64)
        return np.asarray(np.where(np.isneginf(wide) | (wide == 0), _at_ends(fast, wide), fast(wide)))

    return known


def _reflected(digamma: Function) -> Function:
    """ψ of float64 by its values on the right, for SciPy's loses digits near the poles; near roots, of more digits."""

    def left_of_0(x: np.ndarray) -> np.ndarray:
        return np.asarray(digamma(1 - x) - np.pi / np.tan(np.pi * (x - np.rint(x))))

    def known(x: np.ndarray) -> np.ndarray:
        if x.dtype != np.float64:
            return np.asarray(digamma(x))
        left = np.flatnonzero((x < 0) & (x != np.rint(x)))
        result = np.where(x < 0, np.nan, digamma(x))
        result[left] = left_of_0(x[left])
        small = left[np.abs(result[left]) < 2.0**-6 * np.abs(digamma(1 - x[left]))]
        result[small] = exact.digamma(x[small].astype(np.longdouble))
        return result

    return known


def _at_ends(function: Function, x: np.ndarray) -> np.ndarray:
    """At −∞ and 0 SciPy's gamma functions take the limit from one side; JAX's and functad's do not."""
    name = getattr(function, "__name__", "")
    ends = {"gammaln": np.inf, "psi": np.nan}
    return np.full_like(x, ends[name]) if name in ends else function(x)


# Their exact values are float64: errors of float64 are good to an ulp or two.
ONLY_DOUBLE = frozenset(name for name, (_, extended) in _SPECIAL.items() if extended is None)

# The largest errors in ulp: of float32 un-jitted and compiled, of float64 un-jitted and compiled. Un-jitted ones are
# NumPy's where NumPy has the function, and depend on the processor.
_LARGEST: dict[str, tuple[float, float, float, float]] = {
    "exp": (2.6, 0.95, 1, 1.1),
    "exp2": (0.51, 0.9, 1, 1.2),
    "expm1": (0.51, 1.35, 1, 1.5),
    "log": (0.51, 0.9, 1, 1),
    "log1p": (2, 0.96, 1, 0.95),
    "log2": (0.51, 1.14, 1, 1),
    "log10": (0.51, 1.05, 1.8, 0.95),
    "sqrt": (0.5, 0.5, 0.5, 0.5),
    "cbrt": (2.2, 0.51, 3.7, 0.51),
    "sin": (1.6, 0.8, 1, 0.8),
    "cos": (1.6, 0.75, 1, 0.8),
    "tan": (0.51, 0.53, 1.2, 1),
    "asin": (0.51, 0.75, 1.2, 0.85),
    "acos": (2.1, 0.7, 1.2, 0.85),
    "atan": (2.4, 1.02, 1.2, 1.25),
    "sinh": (2.1, 0.99, 1.9, 1.05),
    "cosh": (0.51, 0.95, 1.5, 1.05),
    "tanh": (1.6, 1.3, 1.5, 1.25),
    "asinh": (1.9, 0.51, 1.7, 2),
    "acosh": (2.1, 0.51, 1.7, 2.3),
    "atanh": (1.9, 0.51, 1.7, 2.3),
    "pow": (1.6, 2.1, 1.2, 0.95),
    "atan2": (0.51, 1.6, 1.2, 1.7),
    "logaddexp": (0.51, 0.54, 2.5, 2.5),
    "logaddexp2": (0.51, 0.54, 4.5, 4.5),
    "hypot": (1.2, 1.2, 1.25, 1.25),
    "logistic": (0.51, 2.05, 2.4, 2.25),
    "rsqrt": (0.51, 0.51, 1.5, 0.51),
    "erf": (0.51, 1.15, 1, 1.6),
    "erfc": (0.51, 0.54, 5, 4),
    "lgamma": (0.51, 0.51, 2.5, 2.5),
    "erf_inv": (2, 2, 1.3, 1.3),
    "digamma": (0.51, 0.51, 3, 3),
    "bessel_i0e": (0.51, 0.51, 16, 16),
    "bessel_i1e": (0.51, 0.51, 16, 16),
}
BOUNDS: dict[str, dict[str, tuple[float, float]]] = {
    name: {"float32": largest[:2], "float64": largest[2:]} for name, largest in _LARGEST.items()
}
