"""Primitives made from outside, with rules registered one by one in JAX's conventions, under every transform."""

from __future__ import annotations

from contextvars import ContextVar

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError, DifferentiationError, NoRuleError
from functad.extend.core import Primitive
from functad.interpreters import ad, batching, mlir
from functad.lowering_rules import Scalar
from functad.optimize.loops.parts import take_scan_apart
from functad.tracing import bind as bind_primitive
from functad.transforms import named_axes

X, Y = np.arange(1.0, 4.0, dtype=np.float32), np.array([3.0, -2.0, 0.5], np.float32)


def made_multiply_add() -> Primitive:
    """x·y + z, linear in z and bilinear in x and y."""
    p = Primitive("multiply_add")
    p.def_impl(lambda x, y, z: np.add(np.multiply(x, y), z))
    p.def_abstract_eval(lambda x, y, z: functad.core.ShapedArray(x.shape, x.dtype))

    def jvp(primals, tangents):
        x, y, z = primals
        zeros = lax.full_like(x, 0)
        xt, yt, zt = (zeros if type(t) is ad.Zero else t for t in tangents)
        return p.bind(x, y, z), p.bind(xt, y, p.bind(x, yt, zt))

    def transpose(ct, x, y, z):
        zeros = lax.full_like(ct, 0)
        if ad.is_undefined_primal(x):
            return p.bind(ct, y, zeros), None, ct
        return None, p.bind(x, ct, zeros), ct

    ad.primitive_jvps[p] = jvp
    ad.primitive_transposes[p] = transpose
    batching.defbroadcasting(p)
    return p


@pytest.fixture(params=["called", "lowered"])
def multiply_add(request):
    """With an implementation that compiled code calls, and with a function that is compiled."""
    p = made_multiply_add()
    if request.param == "lowered":
        mlir.register_lowering(p, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False))
    return p


def square_add(p):
    return lambda a, b: p.bind(a, a, b)


def expected(a, b):
    return a * a + b


FORMS = {
    "values": lambda f: f(X, Y),
    "jit": lambda f: functad.jit(f)(X, Y),
    "grad": lambda f: functad.grad(lambda a, b: f(a, b).sum(), (0, 1))(X, Y),
    "jit of grad": lambda f: functad.jit(functad.grad(lambda a, b: f(a, b).sum(), (0, 1)))(X, Y),
    "grad of jit": lambda f: functad.grad(lambda a, b: functad.jit(f)(a, b).sum())(X, Y),
    "grad of checkpoint": lambda f: functad.grad(lambda a, b: functad.checkpoint(f)(a, b).sum())(X, Y),
    "jit of grad of checkpoint with a policy": lambda f: functad.jit(
        functad.grad(
            lambda a, b: functad.checkpoint(f, policy=functad.checkpoint_policies.everything_saveable)(a, b).sum()
        )
    )(X, Y),
    "jvp": lambda f: functad.jvp(f, (X, Y), (Y, X)),
    "second order": lambda f: functad.jvp(functad.grad(lambda a, b: f(a, b).sum()), (X, Y), (Y, X)),
    "vmap": lambda f: functad.vmap(f)(X, Y),
    "vmap over one operand": lambda f: functad.vmap(f, (0, None))(X, np.float32(2)),
    "jit of vmap of grad": lambda f: functad.jit(functad.vmap(functad.grad(f)))(X, Y),
    "scan": lambda f: lax.scan(lambda c, a: (f(a, c), c), np.float32(1), X),
    "jit of grad of scan": lambda f: functad.jit(
        functad.grad(lambda x: lax.scan(lambda c, a: (f(a, c), c), np.float32(1), x)[0])
    )(X),
    "cond": lambda f: lax.cond(True, f, lambda a, b: a, X, Y),
    "many calls within each other": lambda f: functad.grad(lambda a: nested(f, 40)(a).sum())(X),
}


def nested(f, depth):
    g = f
    for _ in range(depth):
        g = functad.jit(lambda a, b, g=g: g(a, b))
    return lambda a: g(a, a)


@pytest.mark.parametrize("form", FORMS)
def test_every_transform_takes_a_primitive_of_ones_own(form, multiply_add):
    found = functad.tree.leaves(FORMS[form](square_add(multiply_add)))
    wanted = functad.tree.leaves(FORMS[form](expected))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)
        assert a.dtype == b.dtype


def test_a_printed_program_shows_its_name_and_it_is_found_there():
    p = made_multiply_add()
    program = functad.make_jaxpr(square_add(p))(X, Y)
    assert "multiply_add a a b" in str(program)
    assert [e.primitive for e in program.eqns] == [p]


def test_what_is_lowered_is_fused_and_what_is_not_is_called():
    called, lowered = made_multiply_add(), made_multiply_add()
    mlir.register_lowering(lowered, mlir.lower_fun(lambda x, y, z: x * y + z, multiple_results=False))
    kernels = [functad.jit(lambda a, b, p=p: 2 * p.bind(a, a, b)).lower(X, Y).kernels for p in (called, lowered)]
    assert [k.count("def ") for k in kernels] == [1, 1]
    assert "add" in kernels[1] and "add" not in kernels[0]


def test_two_primitives_of_one_name_are_two(tmp_path, monkeypatch):
    """Neither what was compiled before in this process, nor what lies on disk, is taken for another's."""
    monkeypatch.setenv("FUNCTAD_CACHE_DIR", str(tmp_path))
    for factor in (2.0, 3.0):
        for lowered in (True, False):
            p = Primitive("scaled")
            p.def_abstract_eval(lambda x: x)
            p.def_impl(lambda x, factor=factor: x * factor)
            if lowered:
                mlir.register_lowering(p, mlir.lower_fun(lambda x, factor=factor: x * factor, multiple_results=False))
            np.testing.assert_array_equal(np.asarray(functad.jit(p.bind)(X)), factor * X)
            np.testing.assert_array_equal(np.asarray(p.bind(X)), factor * X)


def test_several_results():
    p = Primitive("both")
    p.multiple_results = True
    p.def_abstract_eval(lambda x: [x, functad.core.ShapedArray((), np.int32)])
    p.def_impl(lambda x: [x + 1, np.int32(7)])
    for call in (p.bind, functad.jit(p.bind)):
        more, seven = call(X)
        assert isinstance(seven, functad.Array) and int(seven) == 7 and seven.dtype == np.int32
        np.testing.assert_array_equal(np.asarray(more), X + 1)


@pytest.mark.parametrize("define", [ad.defjvp, ad.defjvp2])
def test_a_derivative_by_shares(define):
    p = Primitive("product")
    p.def_abstract_eval(lambda x, y: x)
    p.def_impl(lambda x, y: x * y)
    if define is ad.defjvp:
        define(p, lambda t, x, y: t * y, None)
    else:
        define(p, lambda t, out, x, y: t * out / x, None)
    found = functad.grad(lambda x, y: p.bind(x, y).sum(), (0, 1))(X, Y)
    np.testing.assert_allclose(np.asarray(found[0]), Y, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(found[1]), 0)


def test_bilinear_and_reducing_operations():
    p = Primitive("product")
    p.def_abstract_eval(lambda x, y: x)
    p.def_impl(lambda x, y: x * y)
    ad.defbilinear(p, lambda ct, x, y: p.bind(ct, y), lambda ct, x, y: p.bind(x, ct))
    found = functad.grad(lambda x, y: p.bind(x, y).sum(), (0, 1))(X, Y)
    np.testing.assert_array_equal(np.asarray(found), [Y, X])
    total = Primitive("total")
    total.def_abstract_eval(lambda x, axes: functad.core.ShapedArray((), x.dtype))
    total.def_impl(lambda x, axes: jnp.sum(x, axes))
    batching.defreducer(total)
    with pytest.raises(functad.errors.FunctadError):
        functad.jit(functad.vmap(lambda x: total.bind(x, axes=(0,))))(np.ones((2, 3), np.float32))  # types say scalar
    total.def_abstract_eval(
        lambda x, axes: functad.core.ShapedArray([n for i, n in enumerate(x.shape) if i not in axes], x.dtype)
    )
    found = functad.jit(functad.vmap(lambda x: total.bind(x, axes=(0,))))(np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(np.asarray(found), [3, 3])


def test_rules_of_functads_own_primitives_are_read_but_not_replaced():
    out, tangent = ad.primitive_jvps[lax.sin_p]((0.5,), (2.0,))
    np.testing.assert_allclose([float(out), float(tangent)], [np.sin(0.5), 2 * np.cos(0.5)], rtol=1e-6)
    out, dim = batching.primitive_batchers[lax.add_p]((X, np.float32(1)), (0, None))
    assert dim == 0 and np.array_equal(np.asarray(out), X + 1)
    assert ad.primitive_transposes[lax.neg_p](jnp.ones(3), ad.UndefinedPrimal(functad.typeof(jnp.ones(3))))
    assert lax.floor_p in ad.primitive_jvps and lax.argmax_p not in ad.primitive_transposes
    for table in (ad.primitive_jvps, ad.primitive_transposes, batching.primitive_batchers):
        with pytest.raises(ArgumentError, match="is functad's own"):
            table[lax.sin_p] = lambda *args: args
    with pytest.raises(ArgumentError, match="is functad's own"):
        mlir.register_lowering(lax.sin_p, mlir.lower_fun(jnp.cos))


def test_a_missing_rule_says_which_and_how():
    p = Primitive("empty")
    for bind in (p.bind, functad.jit(p.bind)):
        with pytest.raises(NoRuleError, match=r"`empty` has no shape rule: empty_p.def_abstract_eval\(rule\)"):
            bind(X)
    p.def_abstract_eval(lambda x: x)
    for bind in (p.bind, functad.jit(p.bind)):
        with pytest.raises(NoRuleError, match=r"empty_p.def_impl\(function\)"):
            bind(X)
    p.def_impl(lambda x: x)
    with pytest.raises(DifferentiationError, match=r"ad.primitive_jvps\[empty_p\] = rule"):
        functad.grad(lambda x: p.bind(x).sum())(X)
    with pytest.raises(NoRuleError, match=r"batching.primitive_batchers\[empty_p\] = rule"):
        functad.vmap(p.bind)(X)


def test_rules_that_write_mlir_are_forgotten():
    p = Primitive("doubled")
    p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(p, lambda ctx, x: [x])
    mlir.register_lowering(p, lambda ctx, x: [x], platform="cuda")
    with pytest.raises(NoRuleError, match=r"doubled_p.def_impl\(function\).*mlir.lower_fun.*MLIR are not used"):
        functad.jit(p.bind)(X)
    p.def_impl(lambda x: 2 * x)
    assert functad.jit(p.bind)(X).tolist() == [2.0, 4.0, 6.0]


def test_an_implementation_can_be_called_with_traced_values():
    p = Primitive("cubed")
    p.def_impl(lambda x, *, n: x**n)
    assert functad.jit(functad.grad(lambda x: p.impl(x, n=3)))(2.0) == 12 and p.impl(jnp.float32(2), n=3) == 8


def test_equations_and_programs_tell_their_effects():
    program = functad.make_jaxpr(lambda x: (functad.debug.print("{}", x), jnp.sin(x))[1])(1.0)
    assert [bool(eqn.effects) for eqn in program.eqns] == [True, False] and len(program.effects) == 1
    assert program.eqns[1].source_info is program.eqns[1].source and program.eqns[1].source_info.name_stack == ""


def test_all_primitives_are_of_one_class_to_those_who_ask():
    assert isinstance(lax.add_p, Primitive) and isinstance(Primitive("mine"), Primitive)
    assert not isinstance(lax.add, Primitive)
    with pytest.raises(ArgumentError, match="functad's own and cannot be replaced"):
        ad.deflinear(lax.add_p, lambda ct: [ct])
    with pytest.raises(KeyError):
        ad.primitive_jvps[Primitive("mine")]


def test_a_batch_rule_may_ask_for_the_size_of_the_axis():
    p = Primitive("size_of_axis")
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    seen = []

    def rule(size, name, kind, args, dims):
        seen.append((size, dims, name))
        return p.bind(*args), dims[0]

    batching.axis_primitive_batchers[p] = rule
    assert functad.vmap(p.bind, in_axes=1)(np.ones((2, 3), np.float32)).shape == (3, 2) and seen == [(3, (1,), None)]
    functad.vmap(p.bind, axis_name="i")(X)
    assert seen[1:] == [(len(X), (0,), "i")]


def test_a_batch_rule_is_told_the_name_of_the_axis():
    p = Primitive("mapped")
    p.def_impl(lambda x: x)
    p.def_abstract_eval(lambda x: x)
    seen = []

    def rule(axis, args, dims):
        seen.append((axis.size, axis.name))
        return p.bind(*args), dims[0]

    batching.fancy_primitive_batchers[p] = rule
    functad.vmap(p.bind, axis_name="i")(X)
    loop = functad.make_jaxpr(lambda x: lax.scan(lambda c, x: (c, p.bind(x)), None, x)[1])(jnp.ones(5)).eqns[-1]
    scan = take_scan_apart(loop)
    with named_axes.batching("i"):  # of a loop that is compiled while rules map over "i", steps are no examples
        assert scan.for_all_steps(scan.body(), [v for _, v in scan.xs]) is not None
    assert seen == [(len(X), "i"), (5, None)]


def test_what_an_implementation_raises_comes_out_as_it_is():
    p = Primitive("failing")
    p.def_abstract_eval(lambda x: x)

    @p.def_impl
    def fails(x):
        raise LookupError("of the user's own")

    for bind in (p.bind, functad.jit(p.bind)):
        with pytest.raises(LookupError, match="of the user's own"):
            bind(X)


def test_an_interpreter_over_a_program_meets_jaxs_names():
    """What tutorials on interpreters use: eqns, Literal.val, get_bind_params, bind, jaxpr_as_fun."""
    closed = functad.make_jaxpr(lambda x: jnp.exp(jnp.tanh(x)) * 2)(X)
    env = dict(zip(closed.jaxpr.constvars, closed.literals)) | dict(zip(closed.jaxpr.invars, [X]))
    seen = []
    for eqn in closed.jaxpr.eqns:
        values = [v.val if type(v) is functad.extend.core.Literal else env[v] for v in eqn.invars]
        functions, params = eqn.primitive.get_bind_params(eqn.params)
        seen.append(eqn.primitive)
        out = eqn.primitive.bind(*functions, *values, **params)
        env |= zip(eqn.outvars, out if eqn.primitive.multiple_results else [out])
    assert lax.exp_p in seen and lax.tanh_p in seen
    np.testing.assert_allclose(np.asarray(env[closed.jaxpr.outvars[0]]), np.exp(np.tanh(X)) * 2, rtol=1e-6)
    (same,) = functad.extend.core.jaxpr_as_fun(closed)(X)
    np.testing.assert_array_equal(np.asarray(same), np.asarray(env[closed.jaxpr.outvars[0]]))


def test_primitives_have_jaxs_names():
    assert lax.scatter_add_p.name == "scatter-add" and functad.extend.core.primitives.jit_p.name == "jit"
    assert "dot_general_p" in dir(functad.extend.core.primitives)
    own = functad.extend.core.Primitive("own")
    assert not any(p.call_primitive or p.map_primitive for p in (lax.exp_p, functad.extend.core.primitives.jit_p, own))
    with pytest.raises(AttributeError, match="make_jaxpr shows which"):
        lax.remat_opt_p  # noqa: B018


def test_traces_taken_and_set():
    from functad.extend import core

    def f(x):
        with core.take_current_trace() as trace:
            now = jnp.ones(2) + 1  # computed at once
            with core.set_current_trace(trace):
                return x + now, isinstance(jnp.ones(2) + 1, functad.core.Tracer), isinstance(now, functad.core.Tracer)

    found = {}
    functad.jit(lambda x: found.setdefault("all", f(x))[0])(X[:2])
    assert found["all"][1:] == (True, False)


def test_types_are_changed_by_update_and_lie_on_one_device():
    aval = functad.typeof(jnp.ones((2, 3)))
    assert aval.update(shape=(4,)).str_short() == "f32[4]" and aval.update(dtype=np.dtype("int8")).shape == (2, 3)
    assert tuple(aval.sharding.spec) == (None, None) and functad.typeof(1.0).update(shape=(2,)).weak_type


_SETTING: ContextVar[str] = ContextVar("setting", default="none")


@pytest.mark.parametrize("scalar_first", [True, False])
def test_an_implementation_sees_the_users_context_variables(scalar_first):
    """Whatever the operation is compiled to, and in whichever order the two are registered."""
    looked_p = Primitive("looked")
    looked_p.def_abstract_eval(lambda x: x)
    seen = []

    def run(x):
        seen.append(_SETTING.get())
        return np.asarray(x)

    steps = [lambda: looked_p.define_scalar(Scalar("{0}")), lambda: looked_p.def_impl(run)]
    for step in steps if scalar_first else steps[::-1]:
        assert looked_p.only_computes in (True, False)  # asked in between, as a call would
        step()
    token = _SETTING.set("mine")
    try:
        functad.vmap(looked_p.bind, in_axes=None, axis_size=1)(jnp.ones(2))
        bind_primitive(looked_p, np.ones(2, np.float32))
    finally:
        _SETTING.reset(token)
    assert seen == ["mine"] * len(seen) and seen
    assert not looked_p.only_computes and looked_p.runs_functions


def test_what_a_primitive_is_changes_with_its_rules():
    changed_p = Primitive("changed")
    changed_p.define_scalar(Scalar("{0}"))
    assert changed_p.only_computes and not changed_p.takes_narrow
    changed_p.define(lambda x: x, False)
    assert not changed_p.only_computes and changed_p.takes_narrow
