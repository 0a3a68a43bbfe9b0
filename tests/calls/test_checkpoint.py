"""`checkpoint`: the same values and derivatives under all transforms, from less memory and little more work.

The bytes are those of the compiled memory plan, the residuals those of `vjp`.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import checkpoint, checkpoint_policies, lax
from functad.ad_checkpoint import checkpoint_name, print_saved_residuals, saved_residuals
from functad.errors import ArgumentError, ConcretizationError

pytestmark = pytest.mark.generated(every=3)  # tables of shapes, dtypes and ways

POLICIES = {
    "None": None,
    "nothing": checkpoint_policies.nothing_saveable,
    "everything": checkpoint_policies.everything_saveable,
    "dots": checkpoint_policies.dots_saveable,
    "dots without batch": checkpoint_policies.dots_with_no_batch_dims_saveable,
    "names": checkpoint_policies.save_only_these_names("hidden"),
    "other names": checkpoint_policies.save_any_names_but_these("hidden"),
    "all but names": checkpoint_policies.save_anything_except_these_names("hidden"),
    "both": checkpoint_policies.save_from_both_policies(
        checkpoint_policies.dots_saveable, checkpoint_policies.save_only_these_names("hidden")
    ),
}


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# --- values and derivatives ----------------------------------------------------------------------------------


def mlp(params, x, wrap=lambda f: f):
    """Two layers, each wrapped; a scalar."""

    def layer(p, x, *, scale):
        hidden = checkpoint_name(p["w"] @ x + p["b"], "hidden")
        return jnp.tanh(hidden) * scale

    for p in params:
        x = wrap(layer)(p, x, scale=jnp.cos(x[0]))
    return jnp.sum(x**3)


PARAMS = [{"w": random(3, 3, seed=s), "b": random(3, seed=s + 10)} for s in range(2)]
X = random(3, seed=5)


def transformed(loss):
    """Everything that transforms make of a loss, as a list of arrays."""
    by_params, by_x = functad.grad(loss), functad.grad(loss, argnums=1)
    tangent = random(3, seed=6)
    value, pushforward = functad.linearize(lambda x: loss(PARAMS, x), X)
    batch = random(4, 3, seed=7)
    results = [
        value,
        pushforward(tangent),
        functad.jvp(lambda x: loss(PARAMS, x), (X,), (tangent,)),
        by_params(PARAMS, X),
        functad.value_and_grad(loss)(PARAMS, X),
        functad.vmap(partial(loss, PARAMS))(batch),
        functad.vmap(partial(by_x, PARAMS))(batch),
        functad.grad(lambda x: jnp.sum(by_x(PARAMS, x) ** 2))(X),
        functad.hessian(lambda x: loss(PARAMS, x))(X),
        functad.jacfwd(lambda x: by_x(PARAMS, x))(X),
        functad.jacrev(lambda x: by_x(PARAMS, x))(X),
        functad.vjp(loss, PARAMS, X)[1](jnp.float32(2.0)),
        functad.grad(lambda x: functad.jvp(lambda x: loss(PARAMS, x), (x,), (tangent,))[1])(X),
    ]
    return functad.tree_util.tree_leaves(results)


def assert_close(found, wanted, tolerance=2e-4):
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted):
        assert f.shape == w.shape and f.dtype == w.dtype
        np.testing.assert_allclose(f, w, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="module")
def plain_results():
    return transformed(mlp)


@pytest.mark.parametrize("name", POLICIES)
def test_all_transforms_give_the_same_results(name, plain_results):
    assert_close(transformed(partial(mlp, wrap=partial(checkpoint, policy=POLICIES[name]))), plain_results)


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("name", ["None", "dots", "everything"])
def test_all_transforms_of_a_jitted_function_give_the_same_results(name, plain_results):
    loss = functad.jit(partial(mlp, wrap=partial(checkpoint, policy=POLICIES[name])))
    assert_close(transformed(loss), plain_results)


@pytest.mark.generated(every=3)
@pytest.mark.parametrize("name", ["None", "dots", "names"])
@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_jitted_derivatives_are_the_same(name, backend, plain_results):
    loss = partial(mlp, wrap=partial(checkpoint, policy=POLICIES[name]))
    everything = functad.jit(lambda: transformed(loss), backend=backend)
    assert_close(everything(), plain_results)


def test_checkpoint_of_jitted_functions(plain_results):
    def wrap(f):
        return checkpoint(functad.jit(f))

    assert_close(transformed(partial(mlp, wrap=wrap)), plain_results)
    saving = partial(mlp, wrap=lambda f: checkpoint(functad.jit(f), policy=checkpoint_policies.dots_saveable))
    assert_close(transformed(saving), plain_results)


def test_nested_checkpoints(plain_results):
    loss = checkpoint(partial(mlp, wrap=lambda f: checkpoint(checkpoint(f))))
    assert_close(transformed(loss), plain_results)
    assert [r.origin for r in saved_residuals(loss, PARAMS, X)] == [
        f"from the argument {name}"
        for name in ["params[0]['b']", "params[0]['w']", "params[1]['b']", "params[1]['w']", "x"]
    ]


@pytest.mark.parametrize("policy", [None, checkpoint_policies.everything_saveable])
def test_the_inner_checkpoint_of_two_stays_one(policy):
    inner = checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    program = functad.make_jaxpr(functad.grad(checkpoint(lambda x: inner(inner(x)), policy=policy)))(2.0)
    (backward,) = [e for e in program.eqns if e.params.get("differentiated")]
    inner_backward = [e for e in backward.params["jaxpr"].eqns if e.params.get("differentiated")]
    assert [e.primitive.name for e in inner_backward] == ["remat2", "remat2"]


@pytest.mark.parametrize("inner", ["None", "dots", "everything"])
@pytest.mark.parametrize("outer", ["nothing", "everything", "dots", "names", "both"])
def test_nested_checkpoints_with_policies(outer, inner, plain_results):
    wrapped = partial(mlp, wrap=partial(checkpoint, policy=POLICIES[inner]))
    loss = checkpoint(wrapped, policy=POLICIES[outer])
    assert_close(transformed(loss), plain_results)
    gradient = functad.grad(loss)
    assert_close(
        functad.tree_util.tree_leaves(functad.jit(gradient)(PARAMS, X)),
        functad.tree_util.tree_leaves(functad.grad(mlp)(PARAMS, X)),
    )


def test_a_closure_over_what_is_differentiated():
    def loss(w, x, wrap):
        y = jnp.sin(w)
        return jnp.sum(wrap(lambda x: jnp.sin(x * y) * w)(x))

    w, x = random(3), random(3, seed=1)
    for derivative in (functad.grad, lambda f: functad.jit(functad.grad(f))):
        checkpointed = derivative(lambda w: loss(w, x, checkpoint))
        np.testing.assert_allclose(checkpointed(w), functad.grad(lambda w: loss(w, x, lambda f: f))(w), rtol=1e-5)
    vmapped = functad.vmap(lambda w: loss(w, x, checkpoint))(random(4, 3))
    np.testing.assert_allclose(vmapped, functad.vmap(lambda w: loss(w, x, lambda f: f))(random(4, 3)), rtol=1e-5)


def test_a_program_that_holds_a_tracer_is_not_kept():
    seen = []

    def outer(w, x):
        f = functions.setdefault("f", checkpoint(lambda x: jnp.sin(x * values["w"])))
        values["w"] = w
        seen.append(f)
        return f(x)

    functions, values = {}, {}
    assert functad.grad(outer)(2.0, 3.0) == pytest.approx(3 * math.cos(6.0))
    assert functad.grad(outer)(4.0, 3.0) == pytest.approx(3 * math.cos(12.0), rel=1e-5)
    assert seen[0] is seen[1]


def test_a_function_is_traced_once_for_each_type():
    traced = []

    @checkpoint
    def f(x, flag=False):
        traced.append(x.shape)
        return jnp.sin(x)

    for _ in range(3):
        f(jnp.ones(3))
        functad.grad(f)(1.0)
    assert traced == [(3,), ()]


def test_static_arguments_may_steer_python():
    @partial(checkpoint, static_argnums=(1, -1))
    def f(x, power, y, kind):
        return x**power * y if kind == "product" else x + y

    assert functad.grad(f)(3.0, 2, 5.0, "product") == 30.0
    assert functad.grad(f, argnums=2)(3.0, 2, 5.0, "sum") == 1.0
    assert functad.grad(checkpoint(lambda x, shape: x * shape["n"], static_argnums=1))(3.0, {"n": 4.0}) == 4.0


def test_static_arguments_by_name():
    @partial(checkpoint, static_argnames=("power", "kind"))
    def f(x, power, *, kind="product"):
        return x**power if kind == "product" else x + power

    assert functad.grad(f)(3.0, 2) == functad.grad(lambda x: f(x, power=2))(3.0) == 6.0
    assert functad.grad(lambda x: f(x, 2, kind="sum"))(3.0) == 1.0
    with pytest.raises(ArgumentError, match="checkpoint: static_argnames='q': <lambda> has no parameter 'q'"):
        checkpoint(lambda x: x, static_argnames="q")


def test_results_of_all_kinds():
    @checkpoint
    def f(tree, n):
        return {"sum": jnp.sum(tree["x"]) * n, "count": n + 1, "none": None}, (tree["x"] > 0,)

    result, (positive,) = f({"x": random(3)}, 2)
    assert result["count"] == 3 and result["none"] is None and positive.dtype == bool
    tangent = functad.grad(lambda x: f({"x": x}, 2)[0]["sum"])(jnp.ones(3))
    np.testing.assert_array_equal(tangent, np.full(3, 2.0))
    gradients = functad.grad(lambda x, n: f({"x": x}, n)[0]["sum"], argnums=(0, 1), allow_int=True)(jnp.ones(3), 2)
    assert gradients[1].dtype == functad.dtypes.float0
    assert checkpoint(lambda: 3)() == 3


def test_linear_functions_can_be_transposed():
    double = checkpoint(lambda x: 2.0 * x)
    assert functad.linear_transpose(double, 1.0)(3.0) == (6.0,)


@pytest.mark.parametrize("policy", [None, checkpoint_policies.dots_saveable])
def test_a_checkpointed_loop_body(policy):
    weights, x = random(5, 3, 3), random(3, seed=1)

    def loss(weights, x, wrap):
        def body(x, w):
            x = jnp.tanh(w @ x)
            return x, jnp.sum(x)

        x, sums = lax.scan(wrap(body), x, weights)
        return jnp.sum(x) + jnp.sum(sums**2)

    wanted = functad.grad(partial(loss, wrap=lambda f: f))(weights, x)
    checkpointed = functad.grad(partial(loss, wrap=partial(checkpoint, policy=policy)))
    assert_close([checkpointed(weights, x), functad.jit(checkpointed)(weights, x)], [wanted, wanted])


def test_what_a_loop_computes_again_is_kept_by_no_policy():
    def f(x):
        return jnp.exp(lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1])

    g = checkpoint(f, policy=checkpoint_policies.everything_saveable)
    origins = [r.origin.partition(" from ")[0] for r in saved_residuals(g, 1.0)]
    assert "output of while" not in origins and "output of exp" in origins
    assert functad.jit(functad.grad(g))(1.0) == pytest.approx(float(functad.grad(f)(1.0)), rel=1e-5)


def test_a_function_with_a_derivative_of_its_own():
    @functad.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (100.0 * ct * jnp.cos(x),))
    for policy in (None, checkpoint_policies.everything_saveable):
        g = checkpoint(lambda x: f(x * 2.0), policy=policy)
        for derivative in (functad.grad(g), functad.jit(functad.grad(g))):
            assert derivative(1.0) == pytest.approx(200 * math.cos(2.0), rel=1e-5)


def test_nans_are_found_within():
    f = checkpoint(lambda x: jnp.log(x) * 2.0)
    with functad.debug_nans(True), pytest.raises(FloatingPointError, match="`log` made a NaN"):
        functad.grad(f)(jnp.float32(-1.0))
    with functad.disable_jit(True):
        assert functad.grad(f)(2.0) == 1.0


# --- errors --------------------------------------------------------------------------------------------------


def test_errors():
    with pytest.raises(ArgumentError, match="checkpoint expects a function"):
        checkpoint(3)
    with pytest.raises(ArgumentError, match="prevent_cse must be True or False"):
        checkpoint(jnp.sin, prevent_cse="yes")
    with pytest.raises(ArgumentError, match="policy expects a function"):
        checkpoint(jnp.sin, policy="dots")
    with pytest.raises(ArgumentError, match=r"static_argnums=\(2,\) does not fit a call of f with 1 positional"):
        checkpoint(_f, static_argnums=2)(1.0)
    with pytest.raises(ArgumentError, match=r"static_argnums=\('x',\) does not fit a call of f"):
        checkpoint(_f, static_argnums=("x",))(1.0)
    with pytest.raises(ArgumentError, match="checkpoint_name: name must be a string, got 3"):
        checkpoint_name(1.0, 3)
    with pytest.raises(ConcretizationError, match=r"(?s)traced by checkpoint of f.*static_argnums"):
        checkpoint(_f)(1.0)


def _f(x):
    return x if x > 0 else -x


_f.__name__ = "f"


# --- what is kept --------------------------------------------------------------------------------------------


def two_products(w, x):
    hidden = checkpoint_name(jnp.sin(w @ x), "hidden")
    return jnp.sum(jnp.exp(w @ hidden))


WANTED = {
    "None": [],
    "nothing": [],
    "everything": ["named 'hidden'", "output of cos", "output of exp"],
    "dots": ["output of dot_general", "output of dot_general"],
    "dots without batch": ["output of dot_general", "output of dot_general"],
    "names": ["named 'hidden'"],
    "other names": [],
    "all but names": ["output of sin", "output of cos", "output of exp"],
    "both": ["output of dot_general", "named 'hidden'", "output of dot_general"],
}


@pytest.mark.parametrize("name", POLICIES)
def test_policies_decide_what_is_kept(name):
    w, x = random(3, 3), random(3)
    found = saved_residuals(checkpoint(two_products, policy=POLICIES[name]), w, x)
    assert [r.origin for r in found[:2]] == ["from the argument w", "from the argument x"]
    assert sorted(r.origin.partition(" from ")[0] for r in found[2:]) == sorted(WANTED[name])
    assert all(__file__ in r.origin for r in found[2:])


def in_three_levels(inner, middle, outer):
    """Two products under the inner policy, twice under the middle one, all under the outer one."""
    one = checkpoint(lambda w, x: jnp.sin(checkpoint_name(jnp.cos(w @ x), "hidden")), policy=inner)
    two = checkpoint(lambda w, x: jnp.exp(one(w, one(w, x) * 2.0)), policy=middle)
    return checkpoint(lambda w, x: jnp.sum(two(w, x) * 3.0), policy=outer)


WANTED_OF_THREE_LEVELS = {
    "None": [],
    "nothing": [],
    "everything": ["output of cos", "output of cos", "output of exp", "output of mul"] + ["output of sin"] * 2,
    "dots": ["output of dot_general", "output of dot_general"],
    "names": ["named 'hidden'", "named 'hidden'"],
    "other names": [],
}


@pytest.mark.parametrize("middle", ["None", "everything", "dots"])
@pytest.mark.parametrize("outer", WANTED_OF_THREE_LEVELS)
def test_the_outermost_policy_decides_for_checkpoints_within(outer, middle):
    loss = in_three_levels(None, POLICIES[middle], POLICIES[outer])
    found = saved_residuals(loss, random(3, 3), random(3))
    assert [r.origin for r in found[:2]] == ["from the argument w", "from the argument x"]
    kinds = sorted(r.origin.partition(" from ")[0] for r in found[2:])
    assert kinds == WANTED_OF_THREE_LEVELS[outer]


@pytest.mark.parametrize("jit", [False, True])
def test_what_an_outer_policy_keeps_is_not_computed_again(jit):
    def calls_of(outer):
        calls = []

        def host(x):
            calls.append(1)
            return np.cos(x)

        def layer(x):
            outside = functad.pure_callback(host, functad.ShapeDtypeStruct((), np.float32), lax.stop_gradient(x))
            return jnp.sin(x * checkpoint_name(outside, "hidden"))

        inner = checkpoint(layer)
        gradient = functad.grad(checkpoint(lambda x: inner(inner(x)), policy=POLICIES[outer]))
        (functad.jit(gradient) if jit else gradient)(jnp.float32(0.5))
        return len(calls)

    assert calls_of("everything") == calls_of("names") == 2
    assert calls_of("nothing") > 2


@pytest.mark.parametrize("outer, wanted", [("everything", 2), ("names", 6), ("nothing", 6)])
@pytest.mark.parametrize("jit", [False, True])
def test_what_only_acts_runs_where_values_are_computed(outer, wanted, jit):
    seen = []

    @checkpoint
    def inner(x):
        functad.debug.callback(seen.append, x)
        return jnp.sin(checkpoint_name(jnp.sin(x), "hidden"))

    gradient = functad.grad(checkpoint(lambda x: inner(inner(x)), policy=POLICIES[outer]))
    (functad.jit(gradient) if jit else gradient)(0.5)
    assert len(seen) == wanted  # twice forward; again for the outer function, and again for each inner one


def test_policies_are_asked_with_primitive_types_and_parameters():
    asked = []

    def policy(primitive, *avals, **params):
        asked.append((primitive.name, [a.str_short() for a in avals], sorted(params)))
        return False

    saved_residuals(checkpoint(lambda x: jnp.sum(jnp.sin(x), axis=0), policy=policy), jnp.ones((2, 3)))
    assert ("sin", ["f32[2,3]"], []) in asked and ("reduce_sum", ["f32[2,3]"], ["axes"]) in asked


def test_products_with_batch_dimensions():
    policy = checkpoint_policies.dots_with_no_batch_dims_saveable
    f = checkpoint(lambda x, y: jnp.sum(jnp.sin(x @ y)), policy=policy)
    assert len(saved_residuals(f, jnp.ones((3, 3)), jnp.ones((3, 3)))) == 3
    assert len(saved_residuals(f, jnp.ones((2, 3, 3)), jnp.ones((2, 3, 3)))) == 2


def test_unused_arguments_are_not_kept():
    f = checkpoint(lambda x, y, z: jnp.sin(x) * 2.0 + y)
    assert [r.origin for r in saved_residuals(f, 1.0, 2.0, 3.0)] == ["from the argument x"]


def test_residuals_are_printed_with_their_bytes(capsys):
    def f(params, x):
        return jnp.sum(jnp.exp(checkpoint(lambda w, x: jnp.sin(jnp.sin(w * x)))(params["w"], x)))

    print_saved_residuals(f, {"w": jnp.ones(3)}, x=functad.ShapeDtypeStruct((3,), np.float32))
    *lines, total = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["f32[3]  12 bytes  from the argument params['w']", "f32[3]  12 bytes  from the argument x"]
    assert len(lines) == 3 and lines[2].startswith(f"f32[3]  12 bytes  output of exp from {__file__}:")
    assert total == "36 bytes in all"
    jitted = saved_residuals(lambda x: functad.jit(jnp.exp)(x), jnp.ones(3))
    assert jitted[0].origin.startswith("output of jitted function 'exp' from ") and jitted[0].nbytes == 12
    constant = jnp.asarray([1.0, 2.0])
    assert saved_residuals(lambda x: x * constant, jnp.ones(2))[0].origin == "from a constant"
    assert saved_residuals(lambda x: x * 3.0, 2.0) == []


def test_a_name_is_the_identity():
    tree = {"a": jnp.ones(3), "b": 2.0}
    named = checkpoint_name(tree, "tree")
    assert named["b"] == 2.0 and functad.grad(lambda x: checkpoint_name(x, "x") ** 2)(3.0) == 6.0
    program = functad.jit(lambda x: jnp.sin(checkpoint_name(x, "x"))).lower(1.0).optimized
    assert [e.primitive.name for e in program.eqns] == ["sin"]


def test_the_forward_pass_is_not_run_again_outside_of_derivatives():
    f = checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    assert [e.primitive.name for e in functad.jit(f).lower(1.0).optimized.eqns] == ["sin", "sin"]


def test_jaxprs_print_the_equation():
    assert str(functad.make_jaxpr(checkpoint(lambda x: jnp.sin(x)))(1.0)) == (
        "{ lambda ; a:f32[]. let\n"
        "    b:f32[] = remat2[\n"
        "      differentiated=False\n"
        "      jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c in (d,) }\n"
        "      policy=None\n"
        "      prevent_cse=True\n"
        "    ] a\n"
        "  in (b,) }"
    )
