"""jvp, linearize, linear_transpose, vjp, grad, jacobians, hessian: values, nesting, errors."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError, DifferentiationError, DTypeError, TreeError

grad, jvp, vjp, jit, vmap = functad.grad, functad.jvp, functad.vjp, functad.jit, functad.vmap


def close(x, y, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tolerance, atol=tolerance)
    return True


def f(x):
    return jnp.sin(x) * x + jnp.exp(-x * x)


def df(x):
    return np.cos(x) * x + np.sin(x) - 2 * x * np.exp(-x * x)


@pytest.mark.parametrize("wrap", [lambda g: g, jit], ids=["plain", "jit"])
def test_first_derivatives_agree_in_all_modes(wrap):
    x = np.array(0.7)
    assert close(grad(wrap(f))(x), df(x), 1e-12)
    assert close(wrap(grad(f))(x), df(x), 1e-12)
    assert close(jvp(wrap(f), (x,), (np.array(1.0),))[1], df(x), 1e-12)
    assert close(vjp(wrap(f), x)[1](np.array(1.0))[0], df(x), 1e-12)
    assert close(functad.linearize(wrap(f), x)[1](np.array(2.0)), 2 * df(x), 1e-12)


def test_higher_derivatives_of_sine():
    g, expected = jnp.sin, [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]
    for order in range(5):
        assert close(g(np.array(0.3)), expected[order](0.3), 1e-12), order
        g = grad(g)


def test_perturbation_confusion():
    assert grad(lambda x: x * grad(lambda y: x + y)(2.0))(3.0) == 1
    assert jvp(lambda x: x * jvp(lambda y: x + y, (2.0,), (1.0,))[1], (3.0,), (1.0,))[1] == 1
    # d/dx (x · d/dy (x·y²)) at y = 2: d/dx 4x² = 8x
    assert grad(lambda x: x * grad(lambda y: x * y * y)(2.0))(3.0) == 24


def test_value_and_grad_with_argnums_aux_and_keywords():
    def loss(params, x, *, scale=1.0):
        return jnp.sum(params["w"] * x) * scale, {"count": x.size, "x": x}

    params, x = {"w": np.arange(3.0), "b": (np.float32(1),)}, np.ones(3)
    (value, aux), (gp, gx) = functad.value_and_grad(loss, argnums=(0, 1), has_aux=True)(params, x, scale=2.0)
    assert value == 6 and aux["count"] == 3 and np.array_equal(aux["x"], x)
    assert np.array_equal(gp["w"], [2, 2, 2]) and gp["b"][0] == 0 and gp["b"][0].dtype == np.float32
    assert np.array_equal(gx, [0, 2, 4])
    g, aux = grad(loss, argnums=-1, has_aux=True)(params, x)
    assert np.array_equal(g, params["w"]) and aux["count"] == 3


def test_gradients_keep_structure_and_dtype():
    Point = namedtuple("Point", "x y")
    tree = [Point(np.float32(2), np.array(3.0)), {"k": (np.ones(2, np.float32), None)}]
    g = grad(lambda t: t[0].x * t[0].y + jnp.sum(t[1]["k"][0]))(tree)
    assert isinstance(g[0], Point) and g[1]["k"][1] is None
    assert g[0].x == 3 and g[0].x.dtype == np.float32 and g[0].y == 2 and g[0].y.dtype == np.float64


def test_the_forward_pass_runs_once():
    runs = []

    def counted(x):
        runs.append(1)
        return jnp.sin(x) * x

    functad.value_and_grad(counted)(1.0)
    jvp(counted, (1.0,), (1.0,))
    _, pull = vjp(counted, 1.0)
    pull(1.0)
    pull(2.0)
    assert len(runs) == 3


def test_the_forward_pass_of_a_jitted_function_runs_once():
    """Count the equations executed: `grad(jit(f))` computes each sine of the primal once."""
    program = functad.make_jaxpr(functad.value_and_grad(jit(lambda x: jnp.sin(jnp.sin(x)))))(1.0)
    forward = [e for e in program.eqns if e.primitive.name == "jit"][0].params["jaxpr"]
    assert [e.primitive.name for e in forward.eqns].count("sin") == 2
    assert sum(str(e).count("sin") for e in program.eqns[1:]) == 0


def test_jacobians_of_pytrees():
    def g(p):
        return {"s": jnp.sin(p["a"]) * p["b"], "t": p["b"] ** 2}

    p = {"a": np.arange(3.0), "b": np.array(2.0)}
    for jacobian in (
        functad.jacfwd,
        functad.jacrev,
        lambda h: jit(functad.jacrev(h)),
        lambda h: functad.jacfwd(jit(h)),
    ):
        j = jacobian(g)(p)
        assert close(j["s"]["a"], np.diag(2 * np.cos(p["a"])), 1e-12)
        assert close(j["s"]["b"], np.sin(p["a"]), 1e-12)
        assert close(j["t"]["a"], np.zeros(3)) and close(j["t"]["b"], 4.0)


def test_jacobian_argnums_and_aux():
    def g(x, y):
        return x * y, "aux"

    (jx, jy), aux = functad.jacrev(g, argnums=(0, 1), has_aux=True)(np.arange(2.0), np.array(3.0))
    assert close(jx, 3 * np.eye(2)) and close(jy, [0, 1]) and aux == "aux"


def test_hessian_is_symmetric_and_right():
    h = functad.hessian(lambda x: jnp.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0]))
    assert close(h, [[6, 1], [1, 12]])
    hvp = jvp(grad(lambda x: jnp.sum(x**3)), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))[1]
    assert close(hvp, [6, 0])


def test_linear_transpose_of_a_matrix_product():
    a = np.arange(6.0).reshape(2, 3)
    t = functad.linear_transpose(lambda x: a @ x, functad.ShapeDtypeStruct((3,), np.float64))
    assert np.array_equal(t(np.ones(2))[0], a.T @ np.ones(2))
    with pytest.raises(functad.errors.FunctadError):
        functad.linear_transpose(lambda x: jnp.sin(x), 1.0)(1.0)


def test_stop_gradient():
    assert grad(lambda x: x * lax.stop_gradient(x))(3.0) == 3


def test_integer_primals_have_float0_tangents():
    x, n = np.float32(2), np.int32(3)
    zeros = np.zeros((), functad.dtypes.float0)
    out, tangent = jvp(lambda x, n: x * n, (x, n), (np.float32(1), zeros))
    assert out == 6 and tangent == 3
    _, pull = vjp(lambda x, n: x * n, x, n)
    gx, gn = pull(np.float32(1))
    assert gx == 3 and gn.dtype == functad.dtypes.float0
    g = grad(lambda x, n: x * n, argnums=(0, 1), allow_int=True)(x, n)
    assert g[1].dtype == functad.dtypes.float0


def test_plain_numpy_losses_differentiate():
    def loss(params, batch):
        x, y = batch
        prediction = np.tanh(np.dot(x, params["w"])) + params["b"]
        return np.mean(np.square(prediction - y)) + np.sum(np.concatenate([params["w"].ravel(), [params["b"]]]) ** 2)

    rng = np.random.default_rng(0)
    params = {"w": rng.standard_normal((4, 2)), "b": np.array(0.5)}
    batch = rng.standard_normal((8, 4)), rng.standard_normal((8, 2))
    g = grad(loss)(params, batch)
    step = 1e-6
    for index in [(0, 0), (3, 1)]:
        up, down = params["w"].copy(), params["w"].copy()
        up[index] += step
        down[index] -= step
        numeric = (loss({**params, "w": up}, batch) - loss({**params, "w": down}, batch)) / (2 * step)
        assert g["w"][index] == pytest.approx(numeric, rel=1e-6)


# --- errors -----------------------------------------------------------------------------------------


def test_non_scalar_output():
    with pytest.raises(DifferentiationError, match=r"f32\[3\].*`\.sum\(\)`"):
        grad(lambda x: x * 2)(np.ones(3, np.float32))
    with pytest.raises(DifferentiationError, match="has_aux=True"):
        grad(lambda x: (x, x))(1.0)
    with pytest.raises(DifferentiationError, match=r"i32\[\]"):
        grad(lambda x: jnp.argmax(x))(np.ones(3, np.float32))


def test_integer_input_is_named():
    with pytest.raises(DifferentiationError, match=r"`params\['layer'\]\[1\]` of type i32\[2\].*allow_int"):
        grad(lambda params: params["layer"][0])({"layer": [1.0, np.ones(2, np.int32)]})


def test_wrong_argnums():
    with pytest.raises(ArgumentError, match="argnums=2 does not fit a call of <lambda> with 1 positional argument;"):
        grad(lambda x: x, argnums=2)(1.0)
    with pytest.raises(ArgumentError, match="twice"):
        grad(lambda x, y: x, argnums=(0, -2))(1.0, 2.0)


def test_missing_aux():
    with pytest.raises(ArgumentError, match="has_aux=True expects .* a pair"):
        grad(lambda x: x, has_aux=True)(1.0)


def test_an_argument_that_is_no_array():
    with pytest.raises(DTypeError, match=r"argument `p\['mode'\]` of <lambda> is 'fast' of type str.*static"):
        grad(lambda p: p["x"])({"x": 1.0, "mode": "fast"})


def test_tangents_must_fit_the_primals():
    x = {"a": np.ones(3, np.float32)}
    with pytest.raises(TreeError, match="structure of the primals"):
        jvp(lambda x: x["a"], (x,), ({"b": np.ones(3, np.float32)},))
    with pytest.raises(DifferentiationError, match=r"tangent of `x\['a'\]` must have type f32\[3\], but has f32\[2\]"):
        jvp(lambda x: x["a"], (x,), ({"a": np.ones(2, np.float32)},))
    with pytest.raises(ArgumentError, match=r"primals must be a tuple or list.*`\(primal,\)`"):
        jvp(lambda x: x, 1.0, (1.0,))


def test_cotangents_must_fit_the_output():
    _, pull = vjp(lambda x: {"y": x * 2}, np.ones(3, np.float32))
    with pytest.raises(TreeError, match="structure of the function's output"):
        pull(np.ones(3, np.float32))
    with pytest.raises(DifferentiationError, match=r"must have type f32\[3\], but has f64\[3\].*astype"):
        pull({"y": np.ones(3)})


def test_not_a_function():
    for transform in (grad, jit, vmap, functad.jacfwd, functad.make_jaxpr):
        with pytest.raises(ArgumentError, match="expects a function"):
            transform(3.0)


# --- pullbacks as values, memory, types --------------------------------------------------------------


def test_pullbacks_may_leave_a_jit():
    y, pull = jit(lambda x: vjp(jnp.sin, x))(1.0)
    assert close(pull(1.0)[0], np.cos(1.0)) and close(y, np.sin(1.0))
    _, push = jit(lambda x: functad.linearize(lambda x: {"a": x * x}, x))(3.0)
    assert push(2.0)["a"] == 12
    _, pull = vjp(lambda x, y: x * y, 2.0, 3.0)
    assert jit(lambda p, ct: p(ct))(pull, 1.0) == (3.0, 2.0)
    assert close(vmap(lambda x: vjp(jnp.sin, x)[1](1.0)[0])(jnp.arange(3.0)), np.cos(np.arange(3)))


def test_un_jitted_transforms_leave_no_cycles_behind():
    import gc

    def f(x):
        for _ in range(5):
            x = jnp.sin(x)
        return x.sum()

    x = jnp.ones(3)
    calls = [
        lambda: grad(f)(x),
        lambda: jvp(f, (x,), (x,)),
        lambda: vmap(f)(jnp.ones((2, 3))),
        lambda: vjp(f, x)[1](1.0),
        lambda: functad.make_jaxpr(f)(x),
    ]
    for call in calls:
        call()
        while gc.collect():  # what other tests have left may go in several rounds
            pass
        gc.disable()
        try:
            call()
            assert gc.collect() < 40
        finally:
            gc.enable()


def test_every_gradient_is_an_array_of_its_primals_type():
    g = grad(lambda p: p["w"] * 2)({"w": 1.0, "b": 2.0})
    assert isinstance(g["b"], functad.Array) and g["b"].weak_type
    assert grad(lambda x: (x * jnp.ones(3)).sum())(2.0).weak_type
    assert not grad(lambda x: x * 2.0)(jnp.float32(2)).weak_type
    assert isinstance(jvp(lambda x: 1.0, (2.0,), (1.0,))[1], functad.Array)


def test_functions_that_are_not_linear_are_refused_by_name():
    for f, name in ((lambda x: x * x, "mul"), (lambda x: 1 / x, "div"), (jnp.sin, "sin")):
        with pytest.raises(functad.errors.FunctadError, match=f"`{name}`.*cannot be transposed"):
            functad.linear_transpose(f, 1.0)(1.0)


def test_jacobian_errors_speak_of_the_jacobian():
    with pytest.raises(DifferentiationError, match="jacfwd: .* `x` of type i32"):
        functad.jacfwd(lambda x: x * 1.0)(3)
    with pytest.raises(DifferentiationError, match=r"jacrev: .* returned i32\[\]"):
        functad.jacrev(lambda x: jnp.argmax(x))(np.ones(3))
    with pytest.raises(ArgumentError, match="names no argument"):
        grad(lambda x: x, argnums=())(1.0)


def test_masked_arrays_and_integer_tangents_are_refused():
    with pytest.raises(DTypeError, match="masked array"):
        grad(lambda x: x.sum())(np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(DifferentiationError, match=r"must have type f32\[\], but has i32"):
        jvp(lambda x: x, (1.0,), (1,))


def test_a_leaked_tracer_cannot_be_returned():
    saved = []
    jit(lambda x: saved.append(x) or x)(1.0)
    for call in (lambda: grad(lambda x: saved[0])(1.0), lambda: grad(lambda x: (x, saved[0]), has_aux=True)(1.0)):
        with pytest.raises(functad.errors.LeakedTracerError, match="argument `x` of jit of <lambda>"):
            call()


# --- the backward pass --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fun",
    [
        lambda x, y: x * y + y,
        lambda x, y: x / y - y / x,
        lambda x, y: jnp.sqrt(x * x + y) / (y - x),
        lambda x, y: jnp.square(x) - jnp.abs(y) ** 3,
        lambda x, y: jnp.maximum(x, y) * jnp.where(x > y, x, y),
        lambda x, y: (2.0 / x - x * y[0]) / y[1:].sum(),
        lambda x, y: jnp.cumsum(x[::-1])[2:4].sum() * y.reshape(2, 3).T,
    ],
)
def test_gradients_are_equal_to_the_bit_whatever_runs_them(fun: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.uniform(1, 9, 6).astype(np.float32)) for _ in range(2))

    def loss(x: Any, y: Any) -> Any:
        return fun(x, y).ravel()[1:5].sum()

    found = functad.grad(loss, argnums=(0, 1))(x, y)
    value, pullback = functad.vjp(loss, x, y)
    for ways in (pullback(jnp.ones_like(value)), functad.jit(functad.grad(loss, argnums=(0, 1)))(x, y)):
        for one, other in zip(found, ways, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_what_has_no_derivative_is_refused_where_a_tangent_gets_there_only() -> None:
    callback = functools.partial(functad.pure_callback, np.sin, functad.ShapeDtypeStruct((), np.float32))
    with pytest.raises(DifferentiationError, match="test_autodiff"):
        functad.grad(lambda x: callback(x) + x)(1.0)
    with pytest.raises(DifferentiationError, match="test_autodiff"):  # though nothing uses it
        functad.grad(lambda x: (callback(x), x)[1])(1.0)
    assert functad.grad(lambda x: callback(functad.lax.stop_gradient(x)) * x)(1.0) == np.sin(np.float32(1))


def test_a_gradient_frees_what_it_has_gone_back_over() -> None:
    alive = []

    @functad.custom_vjp
    def probe(x: Any) -> Any:
        return x

    def backward(residual: Any, ct: Any) -> Any:
        alive.append(first() is not None)
        return (ct,)

    probe.defvjp(lambda x: (x, None), backward)

    def f(x: Any) -> Any:
        nonlocal first
        y = jnp.exp(probe(x))
        first = weakref.ref(y.value)
        z = jnp.exp(y)
        del y
        return jnp.exp(z).sum()

    first: Any = None
    functad.grad(f)(jnp.ones(3))
    assert alive == [False]


def test_a_rule_of_the_user_between_functads_own_sees_arrays_and_the_users_settings_of_numpy() -> None:
    seen = []

    @functad.custom_vjp
    def probe(x: Any, y: Any) -> Any:
        return x * y, x

    def backward(residual: Any, cts: Any) -> Any:
        seen.append(([type(ct) is type(x) and ct.dtype == x.dtype for ct in cts], np.geterr()["over"]))
        return cts[0] * residual[1] + cts[1], cts[0] * residual[0]

    probe.defvjp(lambda x, y: (probe(x, y), (x, y)), backward)

    def loss(x: Any, own: bool) -> Any:
        one, two = lax.split(jnp.sin(x) * x, (2, 4))
        product, same = (one * jnp.exp(x)[:2], one) if own else probe(one, jnp.exp(x)[:2])
        return jnp.sum(jnp.tanh(product) * same + jnp.cumsum(two)[2:])

    x = jnp.array([0.3, -0.7, 1.1, 0.2, -1.3, 0.9])
    with np.errstate(over="call"):
        np.seterrcall(lambda *_: None)
        found = grad(loss)(x, False)
    assert seen == [([True, True], "call")]
    assert type(found) is type(x) and found.aval == x.aval
    assert close(found, grad(loss)(x, True), 1e-6)


def test_an_operand_without_a_derivative_is_refused_in_the_same_cases_by_all():
    split = functad.jit(lambda x: (functad.lax.stop_gradient(x), x))

    def allowed(x):
        return functad.lax.zeta(split(x)[0], x * 0.3)

    def refused(x):
        return (functad.lax.zeta(x, 0.5), x * 2)[1]

    found = [functad.grad(allowed)(1.5), functad.jit(functad.grad(allowed))(1.5), functad.vjp(allowed, 1.5)[1](1.0)[0]]
    np.testing.assert_allclose(found, -3.5965285, rtol=1e-5)  # -1.5 * 0.3 * zeta(2.5, 0.45)
    for transform in (
        functad.grad(refused),
        functad.jit(functad.grad(refused)),
        lambda x: functad.vjp(refused, x)[1](1.0),
    ):
        with pytest.raises(functad.errors.DifferentiationError):
            transform(1.5)


def test_a_pullback_is_taken_apart_by_two_threads_at_once(monkeypatch: Any) -> None:
    """While one thread asks whether it must, another one does it."""
    pullback = functad.vjp(jnp.sin, jnp.ones(3))[1]
    module = sys.modules[type(pullback).__module__]

    class Slow(type):
        def __instancecheck__(cls, linear: Any) -> bool:
            monkeypatch.undo()
            assert len(functad.tree_util.tree_leaves(pullback)) == 1
            return True

    monkeypatch.setattr(module, "LinearMap", Slow("LinearMap", (), {}))
    np.testing.assert_allclose(functad.tree_util.tree_leaves(pullback)[0], np.full(3, np.cos(1.0)), rtol=1e-6)
    np.testing.assert_allclose(pullback(jnp.ones(3))[0], np.full(3, np.cos(1.0)), rtol=1e-6)
