"""Derivatives to third order at ties, kinks and ends of domains, compared with JAX's: every function that there is.

Forward over forward un-jitted, reverse over reverse jitted; both mapped over the points.
"""

from __future__ import annotations

import fnmatch
import functools
import types

import numpy as np
import pytest
from derivative_tools import derivatives, scalar_valued
from kink_cases import CASES, WITHOUT_KINKS

import functad

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

OURS = types.SimpleNamespace(numpy=functad.numpy, lax=functad.lax, nn=functad.nn)
THEIRS = types.SimpleNamespace(numpy=jax.numpy, lax=jax.lax, nn=jax.nn)

# --- where functad differs from JAX on purpose --------------------------------------------------------

KINDS_OF_POINTS = {
    "infinite": lambda x: np.any(np.isinf(x)),
    "NaN": lambda x: np.any(np.isnan(x)),
    "zero": lambda x: np.any(x == 0),
    "equal": lambda x: np.all(x == x[0]),
    "as far from 0": lambda x: np.all((x != 0) & np.isfinite(x) & (np.abs(x) == np.abs(x[0]))),
    "near 0": lambda x: np.all((x != 0) & (np.abs(x) < 0.01)),
}
DIFFERENT = [
    ("numpy.logaddexp*", "infinite", "the smaller operand has no part in an infinite sum; JAX gives e to its power"),
    ("lax.digamma", "infinite", "the limit 0; JAX subtracts infinities"),
    ("lax.lgamma", "infinite", "as digamma"),
    ("numpy.modf", "infinite", "the fraction is 0, as in NumPy; that of JAX is NaN, with the derivative 1"),
    ("lax.polygamma*", "infinite", "the limit 0; JAX subtracts infinities"),
    (
        "lax.cumlogsumexp*",
        "infinite",
        "infinity minus itself at second order; JAX's finite numbers are those of no function",
    ),
    (
        "numpy.hypot*",
        "as far from 0",
        "a smooth function; JAX divides by the larger number, and differentiates that at the tie",
    ),
    ("numpy.hypot*", "infinite", "0, as in JAX's forward mode; in reverse mode it multiplies 0 by infinity"),
    ("numpy.sinc", "near 0", "a series; JAX's quotient loses its digits"),
    ("numpy.vander*", "zero", "polynomials have derivatives at 0, JAX's powers NaN from second order on"),
    ("numpy.power-array*", "zero", "as vander"),
    ("nn.standardize*", "equal", "JAX cuts its variance off at 0, and halves its derivative at that tie"),
    ("nn.sparse_plus", "infinite", "straight lines; JAX's reverse mode multiplies 0 by infinity"),
    ("nn.relu*", "NaN", "there is no derivative: JAX gives 0, functad passes the tangent on with the NaN"),
    ("nn.hard_*", "NaN", "as relu"),
    ("numpy.heaviside*", "NaN", "as relu"),
    ("*m[ai][xn]*", "NaN", "nothing equals a maximum NaN: 0/0, which JAX's compiler makes 0, but not JAX un-jitted"),
    ("numpy.ptp*", "NaN", "as the maximum"),
]


def differs(name, point):
    """Whether functad and JAX differ on purpose in a case at a point."""
    values = np.concatenate([np.ravel(x) for x in point])
    return any(fnmatch.fnmatch(name, pattern) and KINDS_OF_POINTS[kind](values) for pattern, kind, _ in DIFFERENT)


# --- the comparison -----------------------------------------------------------------------------------

CHUNK = 24


def ours_of(case, modes):
    fun = scalar_valued(functools.partial(case.function, OURS))
    return lambda args, along: functad.vmap(lambda x, v: derivatives(fun, v, modes)(*x))(args, along)


def theirs_of(case, modes):
    """What `derivative_tools` does, written with JAX."""

    def scalar(*args):
        leaves = [r for r in jax.tree.leaves(case.function(THEIRS, *args)) if r.dtype.kind == "f"]
        return sum(jax.numpy.sum(r * np.arange(1, r.size + 1, dtype=r.dtype).reshape(r.shape)) for r in leaves)

    moving = [i for i, v in enumerate(case.along) if v is not None]

    def slope(fun, mode, along):
        """The derivative of a function that gives a number and those of lower order; it gives one more of these."""

        def of_moving(args, *given):
            values = dict(zip(moving, given))
            return fun(*[values.get(i, a) for i, a in enumerate(args)])

        def sloped(*args):
            partly, point = functools.partial(of_moving, args), [args[i] for i in moving]
            tangents = [along[i] for i in moving]
            if mode == "f":
                value, derivative, lower = jax.jvp(partly, point, tangents, has_aux=True)
            else:
                places = tuple(range(len(moving)))
                (value, lower), gradients = jax.value_and_grad(partly, places, has_aux=True)(*point)
                derivative = sum(jax.numpy.sum(jax.numpy.where(v != 0, g, 0) * v) for g, v in zip(gradients, tangents))
            return derivative, [*lower, value]

        return sloped

    def at(args, along):
        def fun(*args):
            return scalar(*args), []

        for mode in modes:
            fun = slope(fun, mode, along)
        highest, lower = fun(*args)
        return [*lower[1:], highest]

    return jax.vmap(at)


def inputs_of(case):
    return list(case.args), [None if v is None else np.asarray(v, np.float64) for v in case.along]


@functools.cache
def expected_chunk(first, modes):
    """JAX's derivatives of the cases from `first` on, compiled together."""
    chosen = CASES[first : first + CHUNK]
    with jax.enable_x64(True):
        results = jax.jit(lambda inputs: [theirs_of(c, modes)(*i) for c, i in zip(chosen, inputs)])(
            [inputs_of(c) for c in chosen]
        )
    return [np.stack([np.asarray(order) for order in result]) for result in results]


@functools.cache
def compiled_chunk(first):
    chosen = CASES[first : first + CHUNK]
    results = functad.jit(lambda inputs: [ours_of(c, "rrr")(*i) for c, i in zip(chosen, inputs)])(
        [inputs_of(c) for c in chosen]
    )
    return [np.stack([np.asarray(order) for order in result]) for result in results]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_derivatives_like_jax(number):
    case, first = CASES[number], number - number % CHUNK
    points = [[x[p] for x in case.args] for p in range(len(case.args[0]))]
    same = np.array([not differs(case.name, point) for point in points])
    assert np.any(same)
    with np.errstate(all="ignore"):
        forward = np.stack([np.asarray(order) for order in ours_of(case, "fff")(*inputs_of(case))])
        reverse = compiled_chunk(first)[number - first]
    for found, modes in ((forward, "fff"), (reverse, "rrr")):
        expected = expected_chunk(first, modes)[number - first]
        wrong = same & ~np.isclose(found, expected, rtol=1e-7, atol=1e-9, equal_nan=True).all(axis=0)
        shown = [(points[p], found[:, p], expected[:, p]) for p in np.flatnonzero(wrong)]
        assert not shown, "\n".join(f"{modes} at {p}: functad {f}, jax {e}" for p, f, e in shown)


def test_every_difference_is_one():
    """No pattern stands in the table that excuses nothing."""
    for pattern, kind, _ in DIFFERENT:
        assert any(
            fnmatch.fnmatch(case.name, pattern)
            and any(
                KINDS_OF_POINTS[kind](np.concatenate([np.ravel(x[p]) for x in case.args]))
                for p in range(len(case.args[0]))
            )
            for case in CASES
        ), pattern


# --- nothing is forgotten -----------------------------------------------------------------------------


def names_in_cases(module):
    """The functions of a module that cases are named after."""
    named = {case.name.removeprefix(f"{module}.").split("-")[0] for case in CASES if case.name.startswith(f"{module}.")}
    return {name.split(".")[0] for name in named}


def is_function(x):
    of_ours = getattr(x, "__module__", None) != "functad.absent"  # what says which names are absent
    return callable(x) and of_ours and not isinstance(x, type) and not hasattr(x, "dtype")


@pytest.mark.parametrize("module", WITHOUT_KINKS)
def test_no_function_is_forgotten(module):
    namespace = getattr(functad, module)
    listed = names_in_cases(module) | set(WITHOUT_KINKS[module])
    known = {id(getattr(namespace, name)) for name in listed if hasattr(namespace, name)}  # under whatever name
    public = [name for name in dir(namespace) if not name.startswith("_")]
    functions = [name for name in public if is_function(getattr(namespace, name))]
    forgotten = [name for name in functions if id(getattr(namespace, name)) not in known]
    assert not forgotten, (
        f"the derivatives of functad.{module}.{forgotten[0]} at ties and kinks are not compared with JAX's: "
        f"write a case in kink_cases.py, or add to WITHOUT_KINKS there: {forgotten}"
    )
