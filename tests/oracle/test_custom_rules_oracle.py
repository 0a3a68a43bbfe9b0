"""Derivative rules of the user's own against JAX: values and kinds of error, under every nesting of transforms."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import jax.custom_derivatives as jax_custom_derivatives  # noqa: E402
import jax.numpy as jax_numpy  # noqa: E402

import functad  # noqa: E402
import functad.numpy as functad_numpy  # noqa: E402

JAX = SimpleNamespace(lib=jax, np=jax_numpy, custom=jax_custom_derivatives)
OURS = SimpleNamespace(lib=functad, np=functad_numpy, custom=functad.custom_derivatives)


@pytest.fixture(autouse=True)
def interpreted():
    """Compiling thousands of small Programs would take minutes; tests/calls/test_custom_rules.py compiles some."""
    before = functad.config.default_backend
    functad.config.update("default_backend", "interpreter")
    yield
    functad.config.update("default_backend", before)


# --- functions of a scalar whose rules are wrong on purpose, so that it shows whether they are used -----------


def with_jvp(m):
    @m.lib.custom_jvp
    def f(x):
        return m.np.sin(x) * x

    @f.defjvp
    def rule(primals, tangents):
        (x,), (t,) = primals, tangents
        return f(x), 3.0 * m.np.cos(x) * t

    return f


def with_jvps_of_two(m):
    @m.lib.custom_jvp
    def f(x, y):
        return m.np.sin(x) * y

    f.defjvps(lambda t, out, x, y: 2.0 * m.np.cos(x) * y * t, lambda t, out, x, y: 5.0 * out * t)
    return lambda x: f(x, x * 2.0) + f(y=x, x=0.5)


def with_a_zero_share(m):
    @m.lib.custom_jvp
    def f(x, y):
        return m.np.exp(x) * y

    f.defjvps(None, lambda t, out, x, y: t * x)
    return lambda x: f(x, x) * x


def with_vjp(m):
    @m.lib.custom_vjp
    def f(x, y):
        return m.np.sin(x) * y

    def fwd(x, y):
        return m.np.sin(x) * y, (m.np.cos(x), x)

    def bwd(residuals, ct):
        c, x = residuals
        return 2.0 * ct * c, ct * x

    f.defvjp(fwd, bwd)
    return lambda x: f(x, x * x)


def with_vjp_none(m):
    @m.lib.custom_vjp
    def f(x, y):
        return {"a": x * y, "b": (m.np.cos(x),)}

    f.defvjp(lambda x, y: (f(x, y), {"x": x}), lambda r, ct: (ct["a"] * r["x"] + 3.0 * ct["b"][0], None))

    def fun(x):
        out = f(x, 3.0 * x)
        return out["a"] * out["b"][0]

    return fun


def with_nondiff_jvp(m):
    def f(apply, x, factor):
        return factor * apply(x)

    f = m.lib.custom_jvp(f, nondiff_argnums=(0, 2))

    @f.defjvp
    def rule(apply, factor, primals, tangents):
        (x,), (t,) = primals, tangents
        return f(apply, x, factor), 7.0 * factor * apply(x) * t

    return lambda x: f(m.np.sin, x, 2.0) * x


def with_nondiff_vjp(m):
    f = m.lib.custom_vjp(lambda apply, x: apply(x), nondiff_argnums=(0,))
    f.defvjp(lambda apply, x: (apply(x), x), lambda apply, x, ct: (3.0 * ct * apply(x),))
    return lambda x: f(m.np.sin, x) * x


def with_nondiff_argnames(m):
    f = m.lib.custom_jvp(lambda x, power: x**power, nondiff_argnames=("power",))
    f.defjvp(lambda power, primals, tangents: (primals[0] ** power, power * tangents[0]))
    return lambda x: f(x, 2) + f(x, power=3)


def with_gradient(m):
    @m.custom.custom_gradient
    def f(x):
        return m.np.sin(x) * x, lambda ct: ct * m.np.cos(x) * 4.0

    return f


def with_gradient_of_two(m):
    @m.custom.custom_gradient
    def f(x, y):
        s = m.np.sin(x)
        return (s, y * s), lambda cts: (cts[0] * y, cts[1] * s * 2.0)

    def fun(x):
        a, b = f(x, x + 1.0)
        return a * b

    return fun


def with_symbolic_jvp(m):
    @m.lib.custom_jvp
    def f(x, y):
        return x * y

    def rule(primals, tangents):
        (x, y), (tx, ty) = primals, tangents
        assert type(ty) is m.custom.SymbolicZero and ty.shape == ()
        return x * y, (tx if type(tx) is m.custom.SymbolicZero else 5.0 * tx * y)

    f.defjvp(rule, symbolic_zeros=True)
    return lambda x: f(x, 3.0) * x


def with_symbolic_vjp(m):
    @m.lib.custom_vjp
    def f(x, y):
        return x * y, x

    def fwd(x, y):
        assert not y.perturbed
        return (x.value * y.value, x.value), (y.value, x.value)

    def bwd(residuals, cts):
        y, x = residuals
        first, second = cts
        assert type(second) is m.custom.SymbolicZero
        return 2.0 * first * y * x, None

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return lambda x: f(x, 3.0)[0] * x


def with_integers(m):
    @m.lib.custom_vjp
    def f(x, n):
        return x * n.astype("float32"), n + 1

    f.defvjp(lambda x, n: (f(x, n), n), lambda n, cts: (cts[0] * 2.0, None))

    def fun(x):
        y, n = f(x, m.np.asarray(3, "int32"))
        return y * n.astype("float32")

    return fun


def with_integer_jvp(m):
    @m.lib.custom_jvp
    def f(x, n):
        return x * n.astype("float32"), n + 1

    @f.defjvp
    def rule(primals, tangents):
        (x, n), (tx, tn) = primals, tangents
        return f(x, n), (tx * 5.0, tn)

    def fun(x):
        y, n = f(x, m.np.asarray(3, "int32"))
        return y * n.astype("float32")

    return fun


def with_inner_jit(m):
    f = with_jvp(m)
    g = m.lib.jit(with_vjp(m))
    return m.lib.jit(lambda x: f(x) * g(x))


def within_itself(m):
    inner = with_jvp(m)

    @m.lib.custom_jvp
    def f(x):
        return inner(x) * 2.0

    f.defjvps(lambda t, out, x: inner(x) * t)
    return f


def with_default(m):
    @m.lib.custom_vjp
    def f(x, y=2.0):
        return x * y

    f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, ct: (ct * r[1] * r[0], ct))
    return lambda x: f(x) + f(x, 3.0) + f(y=x, x=x)


FUNCTIONS = [
    with_jvp,
    with_jvps_of_two,
    with_a_zero_share,
    with_vjp,
    with_vjp_none,
    with_nondiff_jvp,
    with_nondiff_vjp,
    with_nondiff_argnames,
    with_gradient,
    with_gradient_of_two,
    with_symbolic_jvp,
    with_symbolic_vjp,
    with_integers,
    with_integer_jvp,
    with_inner_jit,
    within_itself,
    with_default,
]


# --- transforms from functions of a scalar to functions of a scalar --------------------------------------------


def pulled_back(m, f):
    def fun(x):
        out, pullback = m.lib.vjp(f, x)
        return pullback(2.0 * m.np.ones_like(out))[0]

    return fun


TRANSFORMS = {
    "jit": lambda m, f: m.lib.jit(f),
    "grad": lambda m, f: m.lib.grad(f),
    "vjp": pulled_back,
    "jvp": lambda m, f: lambda x: m.lib.jvp(f, (x,), (m.np.float32(1.5),))[1],
    "linearize": lambda m, f: lambda x: m.lib.linearize(f, x)[1](m.np.float32(1.5)),
    "vmap": lambda m, f: lambda x: m.lib.vmap(f)(x * m.np.asarray([1.0, 0.5, -2.0], "float32")).sum(),
    "vmap of two": lambda m, f: (
        lambda x: m.lib.vmap(lambda y: f(x) * f(y))(m.np.asarray([1.0, 0.5], "float32") * x).sum()
    ),
}
MAIN = ["jit", "grad", "jvp", "vmap"]


def outcome(m, build, chain):
    """The value, or the kinds of error."""
    fun = build(m)
    for name in reversed(chain):
        fun = TRANSFORMS[name](m, fun)
    try:
        return np.asarray(fun(m.np.float32(0.7)))
    except Exception as error:
        assert m is JAX or isinstance(error, functad.errors.FunctadError), error
        return error


def check(build, chain):
    expected, found = outcome(JAX, build, chain), outcome(OURS, build, chain)
    if isinstance(expected, Exception):
        kind = TypeError if isinstance(expected, TypeError) else Exception
        assert isinstance(found, kind), f"{found!r} instead of {expected!r}"
    else:
        assert not isinstance(found, Exception), repr(found)
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("build", FUNCTIONS)
def test_single_transforms_and_pairs(build):
    for chain in [(), *((t,) for t in TRANSFORMS), *itertools.product(MAIN, repeat=2)]:
        check(build, chain)


@pytest.mark.parametrize("build", [with_jvp, with_vjp])
def test_pairs_of_all_and_triples(build):
    for chain in [*itertools.product(TRANSFORMS, repeat=2), *itertools.product(MAIN, repeat=3)]:
        check(build, chain)


# --- programs print as JAX's --------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [with_jvp, with_vjp])
def test_programs_print_as_in_jax(build):
    ours = str(functad.make_jaxpr(build(OURS))(0.5)).split()
    assert ours == str(jax.make_jaxpr(build(JAX))(0.5)).split()


# --- kinds of error -------------------------------------------------------------------------------------------


def rule_of(m, rule, x=1.0):
    f = m.lib.custom_jvp(lambda x: {"a": x})
    f.defjvp(rule)
    return m.lib.grad(lambda x: f(x)["a"])(x)


def backward_of(m, bwd, *args):
    f = m.lib.custom_vjp(lambda *args: m.np.sum(args[0]["w"]))
    f.defvjp(lambda *args: (m.np.sum(args[0]["w"]), None), bwd)
    return m.lib.grad(f)(*args)


def closing_over(m, decorate):
    def fun(x):
        f = decorate(lambda y: x * y)
        return f(2.0)

    return m.lib.grad(fun)(3.0)


def _jvp_of_one(m):
    def decorate(fun):
        f = m.lib.custom_jvp(fun)
        f.defjvps(lambda t, out, y: t)
        return f

    return decorate


def _vjp_of_one(m):
    def decorate(fun):
        f = m.lib.custom_vjp(fun)
        f.defvjp(lambda y: (fun(y), None), lambda r, ct: (ct,))
        return f

    return decorate


def _unexpected(m):
    return m.lib.errors.UnexpectedTracerError


PARAMS = {"w": np.ones(3, np.float32)}
ERRORS = {
    "no pair": (TypeError, lambda m: rule_of(m, lambda p, t: {"a": p[0]})),
    "other structure": (TypeError, lambda m: rule_of(m, lambda p, t: ({"a": p[0]}, t[0]))),
    "other dtype": (TypeError, lambda m: rule_of(m, lambda p, t: ({"a": p[0]}, {"a": t[0].astype("float16")}))),
    "other shape": (TypeError, lambda m: rule_of(m, lambda p, t: ({"a": p[0]}, {"a": t[0] * np.ones(3, "float32")}))),
    "no tuple": (TypeError, lambda m: backward_of(m, lambda r, ct: {"w": np.ones(3, "float32")}, PARAMS)),
    "too many": (TypeError, lambda m: backward_of(m, lambda r, ct: (None, None), PARAMS)),
    "other key": (TypeError, lambda m: backward_of(m, lambda r, ct: ({"b": ct},), PARAMS)),
    "shape of cotangent": (ValueError, lambda m: backward_of(m, lambda r, ct: ({"w": ct},), PARAMS)),
    "keyword only": (TypeError, lambda m: _jvp_of_one(m)(lambda *, y: y)(y=2.0)),
    "missing argument": (TypeError, lambda m: _jvp_of_one(m)(lambda x, y: y)(2.0)),
    "closure, custom_jvp": (_unexpected, lambda m: closing_over(m, _jvp_of_one(m))),
    "closure, custom_vjp": (_unexpected, lambda m: closing_over(m, _vjp_of_one(m))),
    "defjvps and nondiff": (TypeError, lambda m: m.lib.custom_jvp(abs, nondiff_argnums=(0,)).defjvps(None)),
    "traced nondiff": (
        _unexpected,
        lambda m: m.lib.grad(lambda x: _nondiff_vjp(m)(x, x))(1.0),
    ),
    "rule's result differs under jit": (
        TypeError,
        lambda m: m.lib.grad(m.lib.jit(_with_rule(m, lambda p, t: ((p[0],), (t[0],)))))(1.0),
    ),
    "rule's dtype differs under jit": (
        TypeError,
        lambda m: m.lib.grad(m.lib.jit(_with_rule(m, lambda p, t: (p[0].astype("float16"), t[0].astype("float16")))))(
            1.0
        ),
    ),
}


def _nondiff_vjp(m):
    f = m.lib.custom_vjp(lambda n, x: x, nondiff_argnums=(0,))
    f.defvjp(lambda n, x: (x, None), lambda n, r, ct: (ct,))
    return f


def _with_rule(m, rule):
    f = m.lib.custom_jvp(lambda x: x)
    f.defjvp(rule)
    return f


@pytest.mark.parametrize("case", ERRORS)
def test_kinds_of_error(case):
    kind, run = ERRORS[case]
    for m in (JAX, OURS):
        with pytest.raises(kind(m) if kind is _unexpected else kind):
            run(m)


def test_a_call_without_rule_raises_at_once():
    for m in (JAX, OURS):
        for decorator in (m.lib.custom_jvp, m.lib.custom_vjp):
            with pytest.raises(AttributeError if m is JAX else functad.errors.NoRuleError):
                decorator(lambda x: x)(1.0)


def test_zero_from_primal():
    for x in (1.0, np.ones(3, np.float32), 3):
        expected = jax_custom_derivatives.zero_from_primal(x)
        found = functad.custom_derivatives.zero_from_primal(x)
        assert found.shape == expected.shape and found.dtype == expected.dtype
        symbolic = functad.custom_derivatives.zero_from_primal(x, symbolic_zeros=True)
        assert symbolic.shape == jax_custom_derivatives.zero_from_primal(x, symbolic_zeros=True).shape
