"""custom_jvp, custom_vjp, custom_gradient: control flow, nesting, what rules may return, closures, errors."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.custom_derivatives import CustomVJPPrimal, SymbolicZero, custom_vjp_primal_tree_values, zero_from_primal
from functad.errors import (
    ArgumentError,
    ConcretizationError,
    CustomRuleError,
    DifferentiationError,
    LeakedTracerError,
    NoRuleError,
)

grad, jvp, vjp, jit, vmap = functad.grad, functad.jvp, functad.vjp, functad.jit, functad.vmap


def close(x, y, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tolerance, atol=tolerance)
    return True


@functad.custom_jvp
def cube(x):
    return x**3


@cube.defjvp
def cube_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return cube(x), 30.0 * x**2 * t  # ten times too much, which shows that it is used


@functad.custom_vjp
def product(params, x):
    return {"out": params["w"] * x + params["b"]}


def product_fwd(params, x):
    return {"out": params["w"] * x + params["b"]}, (params["w"], x)


def product_bwd(residuals, ct):
    w, x = residuals
    return {"w": 2.0 * ct["out"] * x, "b": None}, ct["out"] * w


product.defvjp(product_fwd, product_bwd)


def loss(params, x):
    return product(params, x)["out"].sum()


PARAMS = {"w": np.array([1.0, 2.0], np.float32), "b": np.array([5.0, 6.0], np.float32)}
X = np.array([3.0, 4.0], np.float32)


# --- values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
def test_a_forward_rule_serves_both_modes(wrap):
    assert cube(2.0) == 8 and wrap(cube)(2.0) == 8
    assert grad(wrap(cube))(2.0) == 120
    assert wrap(grad(cube))(2.0) == 120
    assert jvp(wrap(cube), (2.0,), (0.5,))[1] == 60
    assert wrap(grad(grad(cube)))(2.0) == 120  # d 30 x²: the rule is differentiated as code
    assert grad(grad(grad(wrap(cube))))(2.0) == 60
    assert close(vmap(wrap(grad(cube)))(X), 30 * X**2)
    assert close(grad(lambda x: vmap(wrap(cube))(x).sum())(X), 30 * X**2)
    assert close(functad.jacfwd(wrap(cube))(X), np.diag(30 * X**2))
    assert close(functad.hessian(wrap(cube))(2.0), 120)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
def test_a_backward_rule_with_pytrees(wrap):
    value, (gp, gx) = functad.value_and_grad(wrap(loss), argnums=(0, 1))(PARAMS, X)
    assert close(value, np.sum(PARAMS["w"] * X + PARAMS["b"]))
    assert close(gp["w"], 2 * X) and close(gp["b"], [0, 0]) and close(gx, PARAMS["w"])
    per_example = wrap(vmap(grad(loss), in_axes=(None, 0)))(PARAMS, np.stack([X, 2 * X]))
    assert close(per_example["w"], [2 * X, 4 * X]) and per_example["b"].shape == (2, 2)
    total = grad(wrap(lambda p, x: vmap(lambda x: loss(p, x))(x).sum()))(PARAMS, np.stack([X, 2 * X]))
    assert close(total["w"], 6 * X)  # what is not mapped collects its shares
    jacobian = functad.jacrev(wrap(lambda x: product(PARAMS, x)["out"]))(X)
    assert close(jacobian, np.diag(PARAMS["w"]))


def test_the_forward_pass_runs_once_and_the_function_itself_not_at_all():
    calls = []

    @functad.custom_vjp
    def f(x):
        calls.append("f")
        return x * 2.0

    def fwd(x):
        calls.append("fwd")
        return x * 2.0, None

    def bwd(_, ct):
        calls.append("bwd")
        return (ct,)

    f.defvjp(fwd, bwd)
    assert f(1.0) == 2 and calls == ["f"]
    calls.clear()
    assert grad(f)(1.0) == 1 and calls == ["fwd", "bwd"]
    calls.clear()
    compiled = jit(grad(f))
    compiled(1.0), compiled(2.0)
    assert calls == ["fwd", "bwd"]
    calls.clear()
    jitted = jit(f)
    assert grad(jitted)(1.0) == 1 and grad(jitted)(3.0) == 1 and calls == ["f", "fwd", "bwd"]  # traced once each


def test_residuals_are_what_the_forward_rule_returns():
    f = functad.custom_vjp(lambda x: jnp.exp(x) * 3.0)
    f.defvjp(lambda x: (f(x), {"kept": x * 2.0}), lambda r, ct: (ct * r["kept"],))
    _, pullback = vjp(f, X)
    leaves = functad.tree_util.tree_leaves(pullback)
    assert len(leaves) == 1 and close(leaves[0], 2 * X)
    assert close(jit(lambda p: p(np.ones(2, np.float32)))(pullback)[0], 2 * X)


def test_unjitted_control_flow_on_values():
    @functad.custom_jvp
    def f(x, n):
        return x if x > 0 and n > 1 else -x

    @f.defjvp
    def rule(primals, tangents):
        (x, n), (t, _) = primals, tangents
        return f(x, n), (5.0 * t if x > 0 else -7.0 * t)

    assert f(2.0, 2) == 2 and f(-2.0, 2) == 2
    for number, expected in ((2.0, 5), (-2.0, -7)):
        assert grad(f)(number, 2) == expected
        assert grad(lambda x: f(x, 2) * 1.0)(number) == expected
        assert jvp(lambda x: f(x, 2), (number,), (1.0,))[1] == expected
        assert grad(grad(lambda x: f(x, 2) ** 2))(number) == 2 * expected**2
    with pytest.raises(ConcretizationError):
        jit(f)(2.0, 2)

    g = functad.custom_vjp(lambda x: x if x > 0 else -x)
    g.defvjp(lambda x: (g(x), x), lambda x, ct: (5.0 * ct if x > 0 else -7.0 * ct,))
    assert grad(g)(2.0) == 5 and grad(g)(-2.0) == -7


def test_control_flow_on_what_is_not_mapped():
    @functad.custom_jvp
    def f(x, flag):
        return x * 2.0 if flag else x

    f.defjvps(lambda t, out, x, flag: 3.0 * t if flag else t, None)
    assert close(vmap(lambda x: f(x, True))(X), 2 * X)
    assert close(vmap(grad(lambda x: f(x, False)))(X), [1, 1])
    assert close(jit(lambda x: f(x, True))(X), 2 * X)
    assert close(grad(lambda s: vmap(lambda x: f(x * s, True))(X).sum())(1.0), 3 * X.sum())


def test_values_that_are_traced_but_have_no_derivative():
    f = functad.custom_jvp(lambda factor, x: factor * jnp.sin(x), nondiff_argnums=(0,))
    f.defjvp(lambda factor, primals, tangents: (f(factor, *primals), 4.0 * factor * tangents[0]))
    for wrap in (lambda g: g, jit, lambda g: lambda x: vmap(g)(jnp.stack([x, x]))[1]):
        assert close(grad(lambda x: wrap(lambda y: f(y * 2.0, y))(x))(0.5), 4.0)  # noqa: B023
        assert close(wrap(grad(lambda x: f(x * 2.0, x)))(0.5), 4.0)


def test_a_linear_function_is_transposed_as_it_stands():
    f = functad.custom_jvp(lambda x: 3.0 * x)
    f.defjvps(lambda t, out, x: 5.0 * t)
    assert functad.linear_transpose(f, 1.0)(1.0)[0] == 3
    assert functad.linear_transpose(jit(lambda x: f(x) + x), 1.0)(1.0)[0] == 4
    # A rule may call the function on its tangent.
    g = functad.custom_jvp(lambda x: 3.0 * x)
    g.defjvp(lambda primals, tangents: (g(*primals), g(*tangents)))
    assert grad(g)(1.0) == 3 and grad(jit(g))(1.0) == 3


def test_forward_over_reverse():
    square = functad.custom_vjp(lambda x: x * x)
    square.defvjp(lambda x: (x * x, x), lambda x, ct: (4.0 * ct * x,))
    assert functad.hessian(square)(3.0) == 4
    assert functad.jacfwd(grad(jit(square)))(3.0) == 4
    calling = functad.custom_vjp(lambda x: x * x)
    calling.defvjp(lambda x: (calling(x), x), lambda x, ct: (4.0 * ct * x,))
    assert jit(functad.hessian(calling))(3.0) == 4  # its own value is not needed


@pytest.mark.parametrize("decorated", [cube, lambda x: product(PARAMS, x)["out"]])
def test_programs_are_valid_and_calls_are_inlined(decorated):
    program = functad.make_jaxpr(decorated)(X)
    functad.check_program(program)
    (eqn,) = [e for e in program.eqns if e.primitive.name.startswith("custom")]
    assert len(eqn.params["call_jaxpr"].eqns) >= 1
    lowered = jit(decorated).lower(X)
    assert "custom" not in str(lowered.optimized)
    assert close(functad.eval_jaxpr(program, program.consts, X)[0], decorated(X))
    batched = functad.make_jaxpr(vmap(decorated))(np.stack([X, X]))
    functad.check_program(batched)
    functad.check_program(functad.make_jaxpr(grad(lambda x: jit(decorated)(x).sum()))(X))


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
def test_rules_inside_of_loops_branches_and_checkpoints(wrap):
    square = functad.custom_vjp(lambda x: x * x)
    square.defvjp(lambda x: (x * x, x), lambda x, ct: (20.0 * ct * x,))

    def loop(x):
        return lax.scan(lambda carry, _: (square(carry), None), x, None, length=2)[0]

    assert close(wrap(grad(loop))(3.0), 20 * 9 * 20 * 3) and close(grad(wrap(loop))(3.0), 20 * 9 * 20 * 3)
    assert close(wrap(vmap(grad(loop)))(X), 400 * X**3)
    assert close(wrap(functad.jacfwd(lambda x: lax.fori_loop(0, 2, lambda _, x: cube(x), x)))(1.5), 900 * 1.5**8, 1e-5)
    assert wrap(grad(lambda x: lax.cond(x > 0, square, lambda x: x, x)))(3.0) == 60
    assert close(wrap(grad(functad.checkpoint(lambda x: jnp.sin(square(x)))))(3.0), np.cos(9.0) * 60, 1e-5)


def test_symbolic_zeros():
    seen = []

    @functad.custom_vjp
    def f(x, y):
        return x * y, y

    def fwd(x, y):
        seen.append((x.perturbed, y.perturbed))
        assert isinstance(x, CustomVJPPrimal)
        values = custom_vjp_primal_tree_values((x, y))
        return (values[0] * values[1], values[1]), values[1]

    def bwd(y, cts):
        seen.append([isinstance(ct, SymbolicZero) for ct in cts])
        return cts[0] * y, SymbolicZero(functad.ir.Aval((), np.dtype(np.float32)))

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert grad(lambda x: f(x, 3.0)[0])(2.0) == 3
    assert seen == [(True, False), [False, True]]
    assert "float32" in repr(zero_from_primal(1.0)) and zero_from_primal(1).dtype == functad.dtypes.float0
    assert repr(zero_from_primal(1.0, symbolic_zeros=True)) == "SymbolicZero(f32[])"
    assert repr(zero_from_primal((1.0, {"a": 1.0}), True)) == "(SymbolicZero(f32[]), {'a': SymbolicZero(f32[])})"


def test_integers_have_no_derivative():
    take = functad.custom_vjp(lambda x, i: x[i])
    for share in (None, np.zeros((), functad.dtypes.float0), np.zeros((), np.int32)):
        take.defvjp(lambda x, i: (x[i], (i, x)), lambda r, ct, s=share: (jnp.zeros_like(r[1]).at[r[0]].set(2 * ct), s))
        assert close(grad(take)(X, jnp.asarray(1)), [0, 2])
        assert close(vmap(grad(take), in_axes=(None, 0))(X, jnp.asarray([0, 1])), [[2, 0], [0, 2]])


def test_custom_gradient():
    @functad.custom_gradient
    def clipped(x, limit=1.0):
        return jnp.sin(x), lambda ct: (jnp.clip(10.0 * ct * x, -limit, limit), None)

    assert close(clipped(0.5), np.sin(0.5))
    assert grad(clipped)(0.05) == 0.5 and grad(jit(clipped))(3.0) == 1
    assert close(vmap(grad(clipped))(np.array([0.05, 3.0], np.float32)), [0.5, 1])
    with pytest.raises(CustomRuleError, match=r"must return \(result, function of its cotangent\)"):
        functad.custom_gradient(lambda x: x)(1.0)


def test_a_straight_through_estimator_compiles():
    @functad.custom_vjp
    def quantized(x):
        return jnp.round(x)

    quantized.defvjp(lambda x: (jnp.round(x), None), lambda _, ct: (ct,))
    x = np.linspace(-2, 2, 1000, dtype=np.float32)
    step = jit(functad.value_and_grad(lambda x: jnp.sum(quantized(x) ** 2)))
    value, gradient = step(x)
    assert close(value, np.sum(np.round(x) ** 2)) and close(gradient, 2 * np.round(x))


def test_decorated_functions_keep_name_and_text():
    @functad.custom_jvp
    def documented(x):
        """Its text."""
        return x

    assert documented.__name__ == "documented" and documented.__doc__ == "Its text." and documented.fun(1.0) == 1.0


def test_debug_nans_names_the_culprit():
    f = functad.custom_jvp(lambda x: jnp.log(x))
    f.defjvps(lambda t, out, x: t / x)
    with functad.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        jit(f)(-1.0)


def test_a_program_keeps_none_of_the_arrays_it_was_traced_with():
    x = jnp.ones(3)
    program = functad.make_jaxpr(lambda x: product({"w": x, "b": x}, x))(x)
    rule = program.eqns[0].params["fwd"]
    assert not [o for o in vars(rule.call).values() if isinstance(o, (functad.Array, list)) and is_array(o)]


def is_array(value):
    return isinstance(value, functad.Array) or any(isinstance(v, functad.Array) for v in value)


# --- closures ----------------------------------------------------------------------------------------------


def scaled(decorator, scale):
    f = decorator(lambda x: x * scale)
    if decorator is functad.custom_jvp:
        f.defjvps(lambda t, out, x: 5.0 * t)
    else:
        f.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (5.0 * ct,))
    return f


DECORATORS = [functad.custom_jvp, functad.custom_vjp]


@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_closure_over_a_mapped_or_staged_value_works(decorator):
    assert close(vmap(lambda s: scaled(decorator, s)(3.0))(X), 3 * X)
    assert close(vmap(lambda s, x: scaled(decorator, s)(x))(X, X), X * X)
    assert close(jit(lambda s, x: scaled(decorator, s)(x))(X, X), X * X)
    assert "num_consts=1" in str(functad.make_jaxpr(lambda s, x: scaled(decorator, s)(x))(1.0, 2.0))
    if decorator is functad.custom_vjp:  # its rules do not use the value
        assert grad(jit(lambda x, s: scaled(decorator, s)(x)))(3.0, 2.0) == 5


@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize(
    "fun",
    [
        lambda f, s: f(s)(3.0),
        lambda f, s: f(s)(s),
        lambda f, s: jit(lambda s: f(s)(3.0))(s),
        lambda f, s: jit(lambda x: f(s)(x))(3.0),
        lambda f, s: vmap(lambda x: f(s)(x))(X).sum(),
    ],
)
def test_a_closure_over_a_differentiated_value_raises(decorator, fun):
    def use(s):
        return fun(lambda s: scaled(decorator, s), s)

    if decorator is functad.custom_vjp and fun.__code__.co_consts == (None,):
        return  # f(s)(s): its rules do not use the closure
    with pytest.raises(LeakedTracerError, match="[Pp]ass it as an argument"):
        grad(use)(2.0)


def test_a_forward_rule_whose_result_hides_a_derivative_raises():
    def use(s):
        f = functad.custom_vjp(lambda x: x * s)
        f.defvjp(lambda x: (x * s, None), lambda _, ct: (ct,))
        return f(s)

    with pytest.raises(LeakedTracerError, match="reached it by a closure"):
        grad(use)(2.0)


# --- errors ----------------------------------------------------------------------------------------------


def test_a_missing_rule():
    with pytest.raises(NoRuleError, match=r"(?s)nothing is a custom_jvp function without a rule.*@nothing.defjvp"):

        @functad.custom_jvp
        def nothing(x):
            return x

        nothing(1.0)
    with pytest.raises(NoRuleError, match=r"\.defvjp\(fwd, bwd\)"):
        functad.custom_vjp(lambda x: x)(1.0)


def forward(rule):
    f = functad.custom_jvp(lambda x: {"a": x, "b": [x * 2.0]})
    f.defjvp(rule)
    return grad(lambda x: f(x)["b"][0].sum())


@pytest.mark.parametrize(
    "rule, message",
    [
        (lambda p, t: p[0], r"must return a pair \(result, tangent of the result\)"),
        (lambda p, t: ({"a": p[0]}, {"b": t[0]}), "(?s)tangent of the structure of its result.*'a'.*'b'"),
        (
            lambda p, t: ({"a": p[0], "b": [p[0]]}, {"a": t[0], "b": [t[0].astype("float16")]}),
            r"returned f16\[\] at tangent\['b'\]\[0\].*of type f32\[\].*astype\('float32'\)",
        ),
        (
            lambda p, t: ({"a": p[0], "b": [p[0]]}, {"a": jnp.stack([t[0]]), "b": [t[0]]}),
            r"returned f32\[1\] at tangent\['a'\].*reshape\(\(\)\)",
        ),
        (lambda p, t: ({"a": t[0], "b": [p[0]]}, {"a": t[0], "b": [t[0]]}), "depends on the tangents"),
        (lambda p, t: ({"a": p[0], "b": ["x"]}, {"a": t[0], "b": [t[0]]}), r"result\['b'\]\[0\] of the rule"),
    ],
)
def test_what_a_forward_rule_must_return(rule, message):
    with pytest.raises((CustomRuleError, DifferentiationError, TypeError), match=message):
        forward(rule)(1.0)


def test_a_forward_rule_is_compared_with_the_function_once_that_is_known():
    f = functad.custom_jvp(lambda x: {"a": x})
    f.defjvp(lambda p, t: ({"b": p[0]}, {"b": t[0]}))
    with pytest.raises(CustomRuleError, match="(?s)structures differ.*'a'.*'b'"):
        grad(lambda x: jit(f)(x)["a"])(1.0)
    f.defjvp(lambda p, t: ({"a": p[0].astype("float16")}, {"a": t[0].astype("float16")}))
    with pytest.raises(CustomRuleError, match=r"at result\['a'\] it returned f16\[\], and .* f32\[\]"):
        grad(lambda x: jit(f)(x)["a"])(1.0)


@pytest.mark.parametrize(
    "share, message",
    [
        (lambda r, ct: {"w": ct}, "must return a tuple with one cotangent for each of the 2 arguments"),
        (lambda r, ct: (None,), r"one cotangent for each of the 2 arguments \(params, x\)"),
        (lambda r, ct: ({"w": None, "c": None}, None), "(?s)structure of the arguments.*'c'"),
        (lambda r, ct: ({"w": ct.sum(), "b": None}, None), r"f32\[\] at the cotangent of `params\['w'\]`.*f32\[2\]"),
        (lambda r, ct: (None, jnp.stack([ct, ct])), r"f32\[2,2\] at the cotangent of `x`.*sum over axis 0"),
        (lambda r, ct: (None, ct.astype("float64")), r"f64\[2\] at the cotangent of `x`.*astype\('float32'\)"),
        (lambda r, ct: (None, "x"), "the cotangent of `x`"),
    ],
)
def test_what_a_backward_rule_must_return(share, message):
    f = functad.custom_vjp(lambda params, x: params["w"] * x)
    f.defvjp(lambda params, x: (params["w"] * x, None), share)

    def params_and_x(params, x):
        return f(params, x).sum()

    with pytest.raises((CustomRuleError, TypeError), match=message):
        grad(params_and_x, argnums=(0, 1))(PARAMS, X)


def test_errors_of_definition_and_call():
    with pytest.raises(ArgumentError, match="custom_jvp expects a function"):
        functad.custom_jvp(3)
    with pytest.raises(ArgumentError, match="has no parameter 'z'; it has x"):
        functad.custom_jvp(lambda x: x, nondiff_argnames=("z",))
    for wrong in ((-1,), ("x",)):
        with pytest.raises(ArgumentError, match="count from the front"):
            functad.custom_vjp(lambda x: x, nondiff_argnums=wrong)
    with pytest.raises(CustomRuleError, match="defjvps does not go with nondiff_argnums"):
        functad.custom_jvp(lambda x, n: x, nondiff_argnums=(1,)).defjvps(None)
    f = functad.custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda t, *rest: t)
    with pytest.raises(CustomRuleError, match="given 1 rules, but <lambda> was called with 2"):
        grad(f)(1.0, 2.0)
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        f(1.0)
    g = functad.custom_jvp(lambda x, *, scale: x * scale)
    g.defjvps(lambda t, *rest: t)
    with pytest.raises(TypeError, match="scale by keyword"):
        g(1.0, scale=2.0)
    h = functad.custom_vjp(lambda x: x)
    h.defvjp(lambda x: x, lambda r, ct: (ct,))
    with pytest.raises(CustomRuleError, match=r"must return a pair \(result, residuals\)"):
        grad(h)(1.0)
    with pytest.raises(LeakedTracerError, match="nondiff_argnums"):
        k = functad.custom_vjp(lambda n, x: x, nondiff_argnums=(0,))
        k.defvjp(lambda n, x: (x, None), lambda n, r, ct: (ct,))
        jit(k)(1.0, 2.0)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_forward_mode_through_a_backward_rule_raises(wrap, backend, request):
    request.addfinalizer(partial(functad.config.update, "default_backend", functad.config.default_backend))
    functad.config.update("default_backend", backend)
    f = functad.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * x,))
    uses = [
        lambda: jvp(wrap(f), (1.0,), (1.0,)),
        lambda: wrap(lambda x: jvp(f, (x,), (1.0,))[1])(1.0),
        lambda: functad.jacfwd(wrap(f))(1.0),
        lambda: functad.linearize(wrap(f), 1.0)[1](1.0),
    ]
    for use in uses:
        with pytest.raises(DifferentiationError, match="reverse mode only.*functad.custom_jvp"):
            use()


def test_through_stop_gradient_and_lax_the_rule_is_not_used():
    assert grad(lambda x: lax.stop_gradient(cube(x)) + x)(2.0) == 1
