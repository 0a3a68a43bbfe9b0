"""Custom rules and values: Python's numbers as arguments and residuals, and functions that branch on values."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax

grad, jvp, vjp, jit, vmap = functad.grad, functad.jvp, functad.vjp, functad.jit, functad.vmap


# --- Python's numbers -------------------------------------------------------------------------------


def kinds(values):
    return [type(v).__name__ for v in values]


@pytest.mark.parametrize(
    "use",
    [
        lambda f: grad(f)(1.0),
        lambda f: vjp(vmap(f), jnp.ones(3))[1](jnp.ones(3)),
        lambda f: vmap(grad(f))(jnp.ones(3)),
        lambda f: jit(grad(f))(1.0),
        lambda f: grad(jit(f))(1.0),
        lambda f: grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])(1.0),
    ],
)
def test_residuals_keep_python_numbers(use):
    seen = []

    def bwd(residuals, ct):
        flag, n, _, scale, nothing = residuals
        seen.append((flag is True, n == 3 and list(range(n)), kinds(residuals)[3:]))
        return (ct * scale,)

    f = functad.custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: (x * 2.0, (True, 3, x, 2.5, None)), bwd)
    use(f)
    assert seen and all(s == (True, [0, 1, 2], ["float", "NoneType"]) for s in seen)


def test_functions_and_rules_are_given_python_numbers_as_they_are():
    seen = []

    def note(name, *values):
        seen.append((name, *kinds(values)))

    f = functad.custom_jvp(lambda x, n: (note("f", x, n), x)[1])
    f.defjvp(lambda primals, tangents: (note("rule", *primals), (primals[0], tangents[0]))[1])
    assert type(f(1, 3)) is int and f(True, 3) is True and type(f(1.5, 2)) is float
    assert isinstance(f(np.ones(2), 3), functad.Array)
    grad(f)(2.0, 3)
    vmap(lambda x: f(x, 3))(jnp.ones(2))
    jit(lambda x: f(x, 3))(jnp.ones(2))
    assert {s[2] for s in seen} == {"int"}, seen
    assert seen[0] == ("f", "int", "int") and ("rule", "ArrayImpl", "int") in seen
    g = functad.custom_gradient(lambda x: (x * 2, lambda ct: (ct * 3,)))
    assert type(g(1)) is int and grad(g)(1.0) == 3
    h = functad.custom_vjp(lambda x, table: x * len(range(table)))
    h.defvjp(lambda x, n: (x * n, n), lambda n, ct: (ct * len(range(n)), None))
    assert h(2, 3) == 6 and grad(h)(2.0, 3) == 3 and jit(grad(lambda x: h(x, 3)))(2.0) == 3


def test_differentiated_functions_keep_the_python_numbers_that_have_no_derivative():
    seen = []

    def f(x, n):
        seen.extend(kinds([n]))
        return x * 2.0, n, True

    (value, n, flag), pullback = vjp(f, 1.0, 3)
    assert value == 2 and type(n) is int and flag is True
    float0 = np.zeros((), functad.dtypes.float0)
    assert pullback((1.0, float0, float0))[0] == 2
    outs, tangents = jvp(f, (1.0, 3), (1.0, float0))
    assert outs[2] is True and tangents[0] == 2 and tangents[2].dtype == functad.dtypes.float0
    assert type(functad.value_and_grad(lambda x: 3.0)(1.0)[0]) is float
    grad(lambda x, n: f(x, n)[0], argnums=(0, 1), allow_int=True)(1.0, 3)
    assert set(seen) == {"int"}
    assert lax.switch(0, [lambda x: x], 3) == 3
    with functad.disable_jit():
        assert type(lax.cond(True, lambda x: x, lambda x: x + 1, 3)) is int


def test_what_vmap_does_not_map_may_be_anything():
    class Scale:
        by = 3.0

    x = jnp.ones(2)
    assert vmap(lambda x, s: x * s.by, in_axes=(0, None))(x, Scale()).tolist() == [3, 3]
    assert vmap(lambda x, f: f(x), in_axes=(0, None))(x, jnp.negative).tolist() == [-1, -1]
    assert vmap(lambda x, o: x if o["mode"] == "same" else -x, in_axes=(0, None))(x, {"mode": "same"}).tolist() == [
        1,
        1,
    ]
    assert vmap(lambda x, n: x * len(range(n)), in_axes=(0, None))(x, 4).tolist() == [4, 4]


@pytest.mark.parametrize("kind", [functad.custom_jvp, functad.custom_vjp])
@pytest.mark.parametrize("fun", [lambda p, q: q * 0.5, lambda p, q: p * q * q if q > 0 else p, lambda p, q: 2 * q - p])
def test_an_argument_that_is_not_mapped_is_no_closure(kind, fun):
    rule = kind(fun)
    if kind is functad.custom_jvp:
        rule.defjvp(lambda primals, tangents: functad.jvp(fun, primals, tangents))
    else:
        rule.defvjp(lambda *xs: (fun(*xs), xs), lambda xs, ct: functad.vjp(fun, *xs)[1](ct))

    def mapped(f):
        return functad.grad(lambda x, q: jnp.sum(functad.vmap(lambda p: f(p, q))(x)), (0, 1))

    x, q = jnp.array([1.0, -2.0, 3.0]), jnp.float32(1.5)
    for ours, plain in zip(mapped(rule)(x, q), mapped(fun)(x, q), strict=True):
        np.testing.assert_allclose(ours, plain)


def test_numbers_beside_what_is_mapped():
    @functad.custom_jvp
    def product(x, y):
        return x * y

    product.defjvps(lambda t, out, x, y: 3 * t * y, None)
    x = jnp.array([1.0, 2.0])
    assert functad.vmap(lambda y: product(0.5, y))(x).tolist() == [0.5, 1.0]
    assert functad.vmap(functad.grad(lambda x: product(x, 2)))(x).tolist() == [6.0, 6.0]
    assert functad.jit(functad.vmap(lambda y: product(2, y)))(x).tolist() == [2.0, 4.0]


# --- functions that branch on values, mapped --------------------------------------------------------------


def branching(kind):
    """x² y for y > 0 and x y else, whose rule says three times its derivative."""

    def f(x, y):
        return x * x * (y * 1.0) if y > 0 else x * y

    if kind == "jvp":
        f = functad.custom_jvp(f)
        f.defjvp(lambda p, t: (f(*p), 3 * (2 * p[0] * p[1] * t[0] + p[0] ** 2 * t[1])))
    else:
        f = functad.custom_vjp(f)
        f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda r, ct: (6 * r[0] * r[1] * ct, 3 * r[0] ** 2 * ct))
    return f


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_mapped_functions_branch_on_values_that_outer_transforms_differentiate(kind):
    f, xs = branching(kind), jnp.arange(3.0)
    rows = functad.vmap(f, in_axes=(0, None))
    assert rows(xs, 2.0).tolist() == [0, 2, 8] and rows(xs, -2.0).tolist() == [0, -2, -4]
    assert functad.value_and_grad(lambda y: rows(xs, y).sum())(2.0) == (10, 15)
    assert functad.grad(lambda y: functad.vmap(rows, in_axes=(0, None))(xs[None], y).sum())(2.0) == 15
    assert functad.grad(lambda x, y: rows(x, y).sum())(xs, 2.0).tolist() == [0, 12, 24]
    if kind == "jvp":
        value, tangent = functad.jvp(lambda y: rows(xs, y), (2.0,), (1.0,))
        assert (value.tolist(), tangent.tolist()) == ([0, 2, 8], [0, 3, 12])
        twice = functad.grad(lambda y: functad.grad(lambda y: (y * rows(xs, y)).sum())(y))
        assert twice(2.0) == 2 * 15
    with pytest.raises(functad.errors.ConcretizationError):  # a value that nobody has
        functad.jit(functad.grad(lambda y: rows(xs, y).sum()))(2.0)
    with pytest.raises(functad.errors.ConcretizationError):
        functad.vmap(f)(xs, xs)
