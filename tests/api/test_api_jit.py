"""jit: one trace a signature, static arguments, methods, nesting, stages; make_jaxpr and friends."""

from __future__ import annotations

import functools
import gc
import inspect
import weakref

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.api import compilation, traced_calls
from functad.errors import ArgumentError, DTypeError, ShapeError

jit, grad, vmap = functad.jit, functad.grad, functad.vmap


def counted(fun):
    def wrapped(*args, **kwargs):
        wrapped.traces += 1
        return fun(*args, **kwargs)

    wrapped.traces = 0
    return wrapped


def test_traces_once_for_each_signature():
    f = counted(lambda x: x * 2)
    g = jit(f)
    for x in (1.0, 2.0, 3.5):
        assert g(x) == 2 * x
    assert f.traces == 1
    g(np.ones(3, np.float32))
    g(np.zeros(3, np.float32))
    assert f.traces == 2
    g(np.ones(3))
    g(1)
    assert f.traces == 4 and g._cache_size() == 4
    g.clear_cache()
    g(1)
    assert f.traces == 5


def test_jitted_and_plain_results_agree_with_dtypes():
    def f(x, y):
        return {"a": jnp.sin(x) @ y, "b": (x.sum(), y.argmax())}

    x, y = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3), np.arange(6.0).reshape(3, 2)
    plain, jitted = f(jnp.asarray(x), jnp.asarray(y)), jit(f)(x, y)
    assert jitted["a"].dtype == plain["a"].dtype == np.float64
    np.testing.assert_allclose(plain["a"], jitted["a"], rtol=1e-6)  # of two sines
    assert jitted["b"][1] == plain["b"][1] and jitted["b"][1].dtype == plain["b"][1].dtype


def test_static_arguments():
    f = counted(lambda x, n, mode="up": x * n if mode == "up" else x / n)
    g = jit(f, static_argnums=1, static_argnames="mode")
    assert g(4.0, 2) == 8 and g(4.0, 2, mode="down") == 2
    g(5.0, 2)
    traces = f.traces
    g(6.0, 3)
    assert f.traces == traces + 1


def test_static_argnums_follow_the_name_into_keywords():
    def f(x, n):
        return sum(x for _ in range(n))

    g = jit(f, static_argnums=1)
    assert g(2.0, 3) == g(2.0, n=3) == 6
    h = jit(f, static_argnames="n")
    assert h(2.0, 3) == h(2.0, n=3) == 6


def test_equal_statics_of_different_types_are_told_apart():
    f = jit(lambda x, n: x * n, static_argnums=1)
    assert f(1, True).dtype == np.int32 and f(1, 1.0).dtype == np.float32 and f(1, 1).dtype == np.int32


def test_unhashable_static_argument_is_named():
    with pytest.raises(ArgumentError, match=r"static argument `shape` of f has the value \[2, 3\] of type list.*tuple"):

        def f(x, shape):
            return x

        jit(f, static_argnames="shape")(1.0, [2, 3])


def test_wrong_static_names_are_refused_when_decorating():
    with pytest.raises(ArgumentError, match="has no parameter 'm'; it has x, n"):
        jit(lambda x, n: x, static_argnames="m")
    with pytest.raises(ArgumentError, match="2 positional parameters: x, n"):
        jit(lambda x, n: x, static_argnums=2)


def test_strings_need_static():
    with pytest.raises(DTypeError, match="argument `mode` of <lambda> is 'up' of type str"):
        jit(lambda x, mode: x)(1.0, "up")


def test_decorator_forms_methods_and_metadata():
    @jit
    def f(x):
        """Doc."""
        return x + 1

    assert f(1.0) == 2 and f.__name__ == "f" and f.__doc__ == "Doc." and f.__wrapped__(1.0) == 2.0

    @jit(static_argnums=1)
    def g(x, n):
        return x * n

    assert g(2.0, 3) == 6

    class Model:
        def __init__(self, scale):
            self.scale = scale

        @functad.jit(static_argnums=0)
        def apply(self, x):
            return x * self.scale

    assert Model(3.0).apply(2.0) == 6 and Model(5.0).apply(2.0) == 10


def test_nested_jits_are_equations():
    inner = jit(lambda x: jnp.sin(x))
    program = functad.make_jaxpr(jit(lambda x: inner(x) + inner(x * 2)))(1.0)
    (outer,) = program.eqns
    names = [e.primitive.name for e in outer.params["jaxpr"].eqns]
    assert outer.primitive.name == "jit" and names.count("jit") == 2
    assert outer.params["name"] == "<lambda>"


def test_inline_leaves_no_equation():
    inner = jit(lambda x: jnp.sin(x), inline=True)
    assert [e.primitive.name for e in functad.make_jaxpr(inner)(1.0).eqns] == ["sin"]


def test_closures_over_outer_tracers_are_operands_and_not_cached():
    f = jit(lambda x: x * factor)
    values = []
    for value in (2.0, 3.0):

        def g(z):
            global factor
            factor = z
            return f(1.0)

        values.append(functad.value_and_grad(g)(value))
    assert values == [(2.0, 1.0), (3.0, 1.0)]


def test_a_branch_on_an_outer_value_is_not_cached():
    f = jit(lambda y: y if switch else -y)
    results = []
    for value in (1.0, 0.0):

        def g(x):
            global switch
            switch = x
            return f(x)

        results.append(float(grad(g)(value)))
    assert results == [1.0, -1.0]


def test_closures_over_arrays_are_constants():
    table = np.arange(3.0)
    f = jit(lambda x: x + table)
    assert np.array_equal(f(1.0), table + 1)


def test_results_are_fresh_and_inputs_are_never_changed():
    x = np.arange(3.0)
    y, z, t = jit(lambda x: (x, x, x.reshape(3, 1).T))(x)
    x[0] = 100.0
    assert np.array_equal(y, [0, 1, 2]) and np.array_equal(z, [0, 1, 2]) and np.array_equal(t, [[0, 1, 2]])
    assert not any(np.shares_memory(np.asarray(out), x) for out in (y, z, t))


def test_donated_arguments_show_in_the_program():
    step = jit(lambda p, g: p - g, donate_argnums=0)
    assert step(np.ones(2), np.ones(2)).tolist() == [0, 0]
    (eqn,) = functad.make_jaxpr(step)(1.0, 2.0).eqns
    assert eqn.params["donated_invars"] == (True, False)
    with pytest.raises(ArgumentError, match="both static and donated"):
        jit(lambda p: p, donate_argnums=0, static_argnums=0)


@pytest.mark.parametrize(
    "compose",
    [
        lambda f: jit(grad(f)),
        lambda f: grad(jit(f)),
        lambda f: jit(grad(jit(f))),
        lambda f: lambda x: functad.jvp(jit(f), (x,), (np.array(1.0),))[1],
        lambda f: jit(lambda x: functad.jvp(jit(f), (x,), (np.array(1.0),))[1]),
        lambda f: lambda x: vmap(jit(grad(f)))(jnp.stack([x, x]))[1],
        lambda f: lambda x: jit(vmap(grad(jit(f))))(jnp.stack([x, x]))[1],
        lambda f: lambda x: functad.linearize(jit(f), x)[1](np.array(1.0)),
    ],
)
def test_compositions(compose):
    def f(x):
        return jnp.sin(x) * jit(jnp.exp)(x)

    x = np.array(0.3)
    expected = np.exp(x) * (np.sin(x) + np.cos(x))
    assert compose(f)(x) == pytest.approx(expected, rel=1e-12)
    assert compose(lambda x: grad(f)(x))(x) == pytest.approx(2 * np.exp(x) * np.cos(x), rel=1e-12)


def test_stages():
    f = jit(lambda x: jnp.sin(x) * 1.0 + jnp.sin(x))
    traced = f.trace(functad.ShapeDtypeStruct((2,), np.float32))
    assert traced.out_info == functad.ShapeDtypeStruct((2,), np.float32)
    lowered = f.lower(np.ones(2, np.float32))
    assert [e.primitive.name for e in lowered.jaxpr.eqns] == ["sin", "mul", "sin", "add"]
    assert [e.primitive.name for e in lowered.optimized.eqns] == ["sin", "add"]
    assert "sin" in lowered.as_text()
    compiled = lowered.compile()
    np.testing.assert_allclose(compiled(np.ones(2, np.float32)), 2 * np.sin(np.ones(2)), rtol=1e-6)
    with pytest.raises(ShapeError, match=r"takes f32\[2\] as array 0, but was given f32\[3\]"):
        compiled(np.ones(3, np.float32))


def test_make_jaxpr_static_and_shapes():
    program, shape = functad.make_jaxpr(lambda x, n: {"y": x * n}, static_argnums=1, return_shape=True)(1.0, 3)
    assert shape["y"].shape == () and len(program.invars) == 1
    assert functad.eval_jaxpr(program, program.consts, 2.0) == [6.0]
    with pytest.raises(ArgumentError, match="takes 1 arguments, but 2 were given"):
        functad.eval_jaxpr(program, program.consts, 1.0, 2.0)


def test_eval_shape_computes_nothing():
    huge = functad.ShapeDtypeStruct((10**6, 10**6), np.float32)
    out = functad.eval_shape(lambda x: {"y": x @ x, "n": x.sum()}, huge)
    assert out["y"].shape == (10**6, 10**6) and out["n"].shape == () and out["n"].dtype == np.float32


def test_closure_convert_hoists_what_is_differentiated():
    def f(x):
        converted, consts = functad.closure_convert(lambda y: jnp.sin(x) * y, 1.0)
        assert len(consts) == 1
        return converted(3.0, *consts)

    assert grad(f)(0.5) == pytest.approx(3 * np.cos(0.5), rel=1e-6)


def test_named_scopes_mark_the_equations():
    @functad.named_call
    def block(x):
        with functad.named_scope("inner"):
            return jnp.sin(x)

    (eqn,) = functad.make_jaxpr(block)(1.0).eqns
    assert eqn.source.scopes == ("block", "inner") and "[block/inner]" in str(eqn.source)


def test_arrays_of_the_caller_are_copied_where_they_outlive_the_call():
    x = np.ones(3)
    _, pull = functad.vjp(lambda w: jit(lambda w, x: w * x)(w, x), jnp.ones(3))
    kept = jit(lambda x: x, inline=True)(x)
    inner = jit(lambda x: x * 2)
    outer = jit(lambda y: inner(x) + y)
    outer(0.0)
    x[0] = 9.0
    assert pull(np.ones(3))[0].tolist() == [1, 1, 1]
    assert kept.tolist() == [1, 1, 1] and outer(0.0).tolist() == [2, 2, 2]


def test_a_small_result_does_not_keep_a_large_buffer():
    out = jit(lambda x: (x * 2.0)[:1])(np.ones(100_000))
    base = out._value
    while base.base is not None:
        base = base.base
    assert base.nbytes < 100


def test_methods_have_the_stages():
    class Model:
        @functad.jit(static_argnums=0)
        def apply(self, x):
            return x * 2

    model = Model()
    assert model.apply(3.0) == 6 and model.apply.lower(3.0).compile()(3.0) == 6


def test_equations_of_called_programs_keep_their_lines():
    f = jit(lambda x: jnp.sin(x) * x)
    line = f.__wrapped__.__code__.co_firstlineno

    def lines(program):
        for eqn in program.eqns:
            inner = eqn.params.get("jaxpr")
            yield from lines(inner) if inner else [eqn.source.line]

    def directional(g):
        return lambda x: functad.jvp(g, (x,), (x,))

    for transform, x in ((grad, 1.0), (vmap, np.ones(2)), (directional, 1.0)):
        assert set(lines(functad.make_jaxpr(transform(f))(x))) == {line}


def test_complex_algebra_is_left_alone():
    z = np.array([complex(np.inf, 1.0)])
    one = np.array(1, complex)
    for f in (lambda x: x * one, lambda x: x / one):
        np.testing.assert_array_equal(jit(f)(z), f(jnp.asarray(z)))


def test_errors_name_the_users_function_and_the_output():
    with pytest.raises(DTypeError, match=r"jit: pick must return arrays, but its output\['s'\] is 'a' of type str"):

        def pick(x):
            return {"s": "a", "x": x}

        jit(pick)(1.0)
    with pytest.raises(ArgumentError, match="give positions in|by position"):
        grad(lambda x: x)(x=2.0)
    with pytest.raises(DTypeError, match=r"argument `n` of <lambda> is 1099511627776, which does not fit in int32"):
        jit(lambda n: n)(2**40)


def test_make_jaxpr_names_arguments_beside_static_ones():
    with pytest.raises(functad.errors.ConcretizationError, match="argument `x`"):
        functad.make_jaxpr(lambda n, x: bool(x), static_argnums=0)(3, 1.0)
    assert len(functad.make_jaxpr(lambda x, n=2.0: x * n, static_argnums=1)(3.0).eqns) == 1


def test_debug_nans_names_the_first_culprit():
    def f(x):
        y = jnp.log(x)
        return y * 2

    for g in (f, jit(f), jit(grad(lambda x: jnp.sqrt(x) * 0.0))):
        x = -1.0 if g is not f else jnp.asarray(-1.0)
        with functad.debug_nans(True), pytest.raises(FloatingPointError, match=r"test_api_jit.py"):
            g(x)
    with (
        functad.debug_infs(True),
        pytest.raises(FloatingPointError, match=r"`div` made an infinity(.|\n)*debug_infs\(False\)"),
    ):
        jnp.asarray(1.0) / 0.0
    assert np.isnan(f(jnp.asarray(-1.0)))


def test_log_compiles(caplog):
    with functad.log_compiles(True):
        jit(lambda x: x * 2)(1.0)
    assert "traced <lambda> for arguments of types f32[]" in caplog.text


def test_disable_jit_runs_the_function_as_it_stands():
    seen = []

    @jit
    def f(x):
        seen.append(float(x))
        return x * 2

    with functad.disable_jit():
        assert f(jnp.asarray(3.0)) == 6
    assert seen == [3.0]
    with pytest.raises(functad.errors.ConcretizationError):
        f(3.0)


def test_one_device():
    tree = functad.device_put({"a": np.ones(2), "b": [1.0]})
    assert isinstance(tree["a"], functad.Array) and tree["b"][0].weak_type
    back = functad.device_get(functad.block_until_ready(tree))
    assert type(back["a"]) is np.ndarray and back["b"][0] == 1
    assert functad.jit(lambda x: functad.device_get({"a": x})["a"] + 1)(1.0) == 2
    assert functad.grad(lambda x: functad.device_get(x) ** 2)(3.0) == 6
    assert functad.devices()[0].platform == functad.default_backend() == "cpu"


# --- what was traced belongs to the function ---------------------------------------------------------------------


def test_jit_written_inline_traces_once():
    traced = []

    def f(x, n=1):
        traced.append(n)
        return x * n

    for k in range(5):
        assert functad.jit(f)(float(k)) == k
    assert len(traced) == 1
    for _ in range(3):
        assert functad.jit(f, static_argnums=1)(2.0, 3) == 6  # other options, other Programs
        assert functad.jit(f, donate_argnums=0)(2.0) == 2
    assert traced == [1, 3, 1]
    functad.jit(f).clear_cache()
    assert functad.jit(f)(2.0) == 2 and functad.jit(f, static_argnums=1)(2.0, 3) == 6
    assert traced == [1, 3, 1, 1]


def test_functions_that_are_not_the_same_share_nothing():
    traced = []

    class Times:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

        def __call__(self, x):
            traced.append(self.n)
            return x * self.n

        def method(self, x):
            return x * self.n

    for n in (2, 3):
        assert functad.jit(Times(n))(2.0) == 2 * n
        assert functad.jit(Times(n).method)(2.0) == 2 * n
        assert functad.jit(lambda x, n=n: x * n)(2.0) == 2 * n
    assert traced == [2, 3]


def test_what_was_traced_goes_with_the_function():
    def f(x):
        return x + 1

    functad.jit(f)(1.0)
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_signatures_are_forgotten_that_were_not_used_for_long(monkeypatch):
    monkeypatch.setattr(traced_calls, "_MOST_ENTRIES", 4)
    monkeypatch.setattr(compilation, "_REMEMBERED", 1)
    traced = []

    @functools.partial(functad.jit, static_argnums=1)
    def f(x, n):
        traced.append(n)
        return x * n

    for n in (1, 2, 3, 4, 1, 5, 1, 2):
        assert f(2.0, n) == 2 * n
    assert traced == [1, 2, 3, 4, 5, 2]
    assert f._cache_size() == 4


def test_a_jitted_function_has_the_signature_of_the_function():
    def f(x, /, y=1, *, z: int = 2):
        return x

    for jitted in (functad.jit(f), functad.jit(functad.jit(f)), functad.vmap(functad.jit(f))):
        assert inspect.signature(jitted) == inspect.signature(f)
    assert inspect.signature(functad.jit(f), follow_wrapped=False) == inspect.signature(f)


def test_who_gives_numbers_and_names_of_static_arguments_says_all():
    def f(a, b, c):
        return (a, b, c) if isinstance(b, str) else b * c

    assert functad.jit(f, static_argnums=0, static_argnames="b")("x", 2.0, 3.0) == 6.0  # b is no name here
    assert functad.jit(lambda *args, b: b, static_argnums=0, static_argnames="b")("x", b=2.0) == 2.0
