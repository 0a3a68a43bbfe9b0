"""What tutorials on JAX's interpreters and primitives do, with functad's names in place of JAX's."""

from __future__ import annotations

from functools import wraps

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.extend import core
from functad.extend.core import primitives
from functad.interpreters import ad, batching, mlir

# --- an interpreter of one's own: the inverse of a function ---------------------------------------------

INVERSES = {}


def inverse(fun):
    @wraps(fun)
    def wrapped(*args):
        closed = functad.make_jaxpr(fun)(*args)
        out = inverse_jaxpr(closed.jaxpr, closed.literals, *args)
        return out[0]

    return wrapped


def inverse_jaxpr(jaxpr, consts, *args):
    env = {}

    def read(var):
        return var.val if type(var) is core.Literal else env[var]

    def write(var, val):
        env[var] = val

    for var, val in zip((*jaxpr.outvars, *jaxpr.constvars), (*args, *consts), strict=True):
        write(var, val)
    for eqn in jaxpr.eqns[::-1]:
        known = [*map(read, eqn.outvars)]
        if eqn.primitive not in INVERSES:
            raise NotImplementedError(f"{eqn.primitive} has no inverse that is registered")
        write(eqn.invars[0], INVERSES[eqn.primitive](*known))
    return [*map(read, jaxpr.invars)]


INVERSES[lax.exp_p] = jnp.log
INVERSES[lax.tanh_p] = jnp.arctanh


def test_a_jaxpr_is_what_the_tutorial_reads():
    closed = functad.make_jaxpr(lambda x: jnp.exp(jnp.tanh(x)))(jnp.ones(5))
    assert isinstance(closed, core.ClosedJaxpr) and isinstance(closed.jaxpr, core.Jaxpr)
    assert closed.literals == closed.consts and len(closed.in_avals) == len(closed.out_avals) == 1
    seen = [(type(e) is core.JaxprEqn, [type(v) for v in e.invars], e.params) for e in closed.jaxpr.eqns]
    assert [kind for kind, _, _ in seen] == [True, True] and all(v is core.Var for _, vs, _ in seen for v in vs)

    def first(w, b, x):
        return jnp.dot(w, x) + b + jnp.ones(5), x

    jaxpr = functad.make_jaxpr(first)(jnp.ones((5, 10)), jnp.ones(5), jnp.ones(10)).jaxpr
    assert [e.primitive.name for e in jaxpr.eqns][0] == "dot_general" and jaxpr.outvars[1] is jaxpr.invars[2]


def test_an_inverse_is_found_backwards():
    def f(x):
        return jnp.exp(jnp.tanh(x))

    f_inverse = inverse(f)
    np.testing.assert_allclose(f_inverse(f(1.0)), 1.0, rtol=1e-6)
    traced = [e.primitive.name for e in functad.make_jaxpr(inverse(f))(f(1.0)).eqns]
    assert traced == ["log", "atanh"]
    xs = np.linspace(0.1, 0.9, 4, dtype=np.float32)
    found = functad.jit(functad.vmap(functad.grad(inverse(f))))(f(xs))
    wanted = 1 / np.asarray(functad.vmap(functad.grad(f))(xs))
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    with pytest.raises(NotImplementedError, match="sin has no inverse"):
        inverse(jnp.sin)(0.5)


# --- a primitive of one's own ---------------------------------------------------------------------------


def made_multiply_add():
    """The primitive of the tutorial with the rules that come first: an implementation and types."""
    multiply_add_p = core.Primitive("multiply_add")

    def multiply_add(x, y, z):
        return multiply_add_p.bind(x, y, z)

    def impl(x, y, z):
        return np.add(np.multiply(x, y), z)

    def abstract_eval(xs, ys, zs):
        assert xs.shape == ys.shape == zs.shape
        return functad.core.ShapedArray(xs.shape, xs.dtype)

    multiply_add_p.def_impl(impl)
    multiply_add_p.def_abstract_eval(abstract_eval)
    return multiply_add_p, multiply_add


def with_lowering(p):
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False), platform="cpu")


def with_jvp(p, multiply_add):
    def value_and_jvp(arg_values, arg_tangents):
        x, y, z = arg_values
        xt, yt, zt = arg_tangents

        def make_zero(t):
            return lax.full_like(x, 0) if type(t) is ad.Zero else t

        tangent = multiply_add(make_zero(xt), y, multiply_add(x, make_zero(yt), make_zero(zt)))
        return multiply_add(x, y, z), tangent

    ad.primitive_jvps[p] = value_and_jvp


def with_transpose(p, multiply_add):
    def transpose(ct, x, y, z):
        if not ad.is_undefined_primal(x):
            assert ad.is_undefined_primal(y)
            ct_y = ad.Zero(y.aval) if type(ct) is ad.Zero else multiply_add(x, ct, lax.full_like(x, 0))
            return None, ct_y, ct
        assert ad.is_undefined_primal(x)
        ct_x = ad.Zero(x.aval) if type(ct) is ad.Zero else multiply_add(ct, y, lax.full_like(y, 0))
        return ct_x, None, ct

    ad.primitive_transposes[p] = transpose


def with_batching(p, multiply_add):
    def batch(vector_arg_values, batch_axes):
        assert batch_axes[0] == batch_axes[1] == batch_axes[2]
        return multiply_add(*vector_arg_values), batch_axes[0]

    batching.primitive_batchers[p] = batch


def made_square_add():
    p, multiply_add = made_multiply_add()
    with_lowering(p)
    with_jvp(p, multiply_add)
    with_transpose(p, multiply_add)
    with_batching(p, multiply_add)
    return p, lambda a, b: multiply_add(a, a, b)


def test_rules_are_added_one_by_one_as_they_are_missed():
    p, multiply_add = made_multiply_add()

    def square_add(a, b):
        return multiply_add(a, a, b)

    assert square_add(2.0, 10.0) == 14.0
    with_lowering(p)
    assert functad.jit(square_add)(2.0, 10.0) == 14.0
    assert functad.jit(lambda x, y: square_add(x, y), static_argnums=1)(2.0, 10.0) == 14.0
    with pytest.raises(functad.errors.DifferentiationError, match="multiply_add"):
        functad.jvp(square_add, (2.0, 10.0), (1.0, 1.0))
    with_jvp(p, multiply_add)
    assert functad.jvp(square_add, (2.0, 10.0), (1.0, 1.0)) == (14.0, 5.0)
    jitted = functad.jit(lambda primals, tangents: functad.jvp(square_add, primals, tangents))
    assert jitted((2.0, 10.0), (1.0, 1.0)) == (14.0, 5.0)
    with pytest.raises(functad.errors.DifferentiationError, match="multiply_add"):
        functad.grad(square_add)(2.0, 10.0)
    with_transpose(p, multiply_add)
    assert functad.grad(square_add)(2.0, 10.0) == 4.0
    assert functad.jit(functad.grad(square_add))(2.0, 10.0) == 4.0
    xs, ys = np.array([2.0, 3.0], np.float32), np.array([10.0, 20.0], np.float32)
    with pytest.raises(functad.errors.NoRuleError, match="multiply_add"):
        functad.vmap(square_add)(xs, ys)
    with_batching(p, multiply_add)
    assert functad.vmap(square_add, in_axes=0, out_axes=0)(xs, ys).tolist() == [14.0, 29.0]
    assert functad.jit(functad.vmap(square_add))(xs, ys).tolist() == [14.0, 29.0]


def test_the_primitive_passes_the_check_but_for_its_batch_rule():
    """The tutorial's batch rule wants all operands mapped alike, which the check finds; a general one passes."""
    p, _ = made_square_add()
    example = tuple(np.array(v, np.float32) for v in ([2.0, 3.0], [4.0, -1.0], [0.5, 1.0]))
    with pytest.raises(functad.errors.CustomRuleError, match=r"the batch rule: (AssertionError|assert None == 0)"):
        functad.extend.check_primitive(p, example)
    batching.defbroadcasting(p)
    functad.extend.check_primitive(p, example)


def test_primitives_are_found_by_name():
    assert primitives.exp_p is lax.exp_p and primitives.tanh_p is lax.tanh_p and primitives.mul_p is lax.mul_p
