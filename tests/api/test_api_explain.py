"""`explain`, `log_compiles`, `debug_nans`: what jit says about compiling, and about NaNs and infinities."""

from __future__ import annotations

import gc
import inspect
import logging
import weakref
from functools import partial

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.config import config

jit = functad.jit


def line_of(fun, text):
    lines, start = inspect.getsourcelines(fun)
    return start + next(i for i, line in enumerate(lines) if text in line)


def step(params, batch, lr=0.1, mode="train"):
    return {k: v - lr * batch.sum() for k, v in params.items()}


def params(shape=3, dtype=np.float32):
    return {"w": np.ones(shape, dtype), "b": np.ones((), dtype)}


def known():
    f = jit(partial(step), static_argnames="mode")
    f(params(), np.ones(4))
    return f


def test_hits():
    f = known()
    assert f.explain(params(), np.zeros(4)).hit and not f.explain(params(), np.zeros(5)).hit
    assert str(f.explain(params(), np.ones(4))).startswith("hit: ")
    assert f._cache_size() == 1


@pytest.mark.parametrize(
    ("args", "kwargs", "change"),
    [
        ((params(5), np.ones(4)), {}, "`params['w']` has shape (5,), before it was (3,)"),
        ((params(3, np.float64), np.ones(4)), {}, "`params['w']` has dtype float64, before it was float32"),
        ((params(), np.ones(4, np.int8)), {}, "`batch` has dtype int8, before it was float64"),
        ((params(), 4.0), {}, "`batch` is a Python number (weakly typed), before it was an array"),
        (({"w": np.ones(3, np.float32)}, np.ones(4)), {}, "`params['b']` is gone"),
        (({**params(), "c": 1.0}, np.ones(4)), {}, "`params['c']` is new"),
        ((params(), np.ones(4)), {"lr": 0.5}, "`lr` is new"),
        ((params(), np.ones(4)), {"mode": "test"}, "static argument `mode` is new"),
        ((params(), [np.ones(4)]), {}, "`batch[0]` is new"),
    ],
)
def test_what_changed_is_named(args, kwargs, change):
    explanation = known().explain(*args, **kwargs)
    assert not explanation.hit and change in explanation.changes and change in str(explanation)


def test_static_values():
    f = jit(lambda x, n: x * n, static_argnums=1)
    f(1.0, 3)
    assert f.explain(1.0, 4).changes == ("static argument `n` is 4, before it was 3",)
    assert f.explain(1.0, 3.0).changes == ("static argument `n` is 3.0, before it was 3",)


def test_the_nearest_earlier_signature_counts():
    f = jit(lambda x, y: x + y.sum())
    f(np.ones(3), np.ones(4))
    f(np.ones(7), np.ones(8))
    assert f.explain(np.ones(7), np.ones(9)).changes == ("`y` has shape (9,), before it was (8,)",)
    assert f.explain(np.ones(3), np.ones(9)).changes == ("`y` has shape (9,), before it was (4,)",)


def test_a_function_never_called():
    def fresh(x):
        return x

    assert str(jit(fresh).explain(1.0)) == "miss: fresh has not been compiled yet"


def test_closures():
    def scaled(n):
        return jit(lambda x: x * n)

    scaled(2)(1.0)
    changes = scaled(3).explain(1.0).changes
    assert changes[0] == "closure variable `n` is 3, before it was 2" and "apply `jit` once, outside" in changes[1]
    again = scaled(2).explain(1.0).changes
    assert len(again) == 1 and "the function is a new object" in again[0]


def test_a_changed_closure_of_a_compiled_function_is_pointed_out():
    n = 2
    f = jit(lambda x: x * n)
    f(1.0)
    n = 3
    explanation = f.explain(1.0)
    assert explanation.hit
    assert explanation.changes == ("closure variable `n` is 3, before it was 2; the old value stays in use",)


@pytest.mark.parametrize(
    "make",
    [
        lambda: partial(step, lr=0.5),
        lambda: type("Callable", (), {"__call__": lambda self, params, batch: step(params, batch)})(),
        lambda: type("Model", (), {"run": lambda self, params, batch: step(params, batch)})().run,
    ],
)
def test_all_kinds_of_functions(make):
    f = jit(make())
    f(params(), np.ones(4))
    assert f.explain(params(), np.ones(4)).hit
    (change,) = f.explain(params(), np.ones(5)).changes
    assert "has shape (5,), before it was (4,)" in change


def test_methods():
    class Model:
        @partial(jit, static_argnums=0)
        def apply(self, x):
            return x * 2

    model = Model()
    model.apply(np.ones(2))
    assert model.apply.explain(np.ones(2)).hit
    assert model.apply.explain(np.ones(3)).changes == ("`x` has shape (3,), before it was (2,)",)


def test_options_and_clearing():
    f = jit(lambda x: x * 2)
    f(np.float32(1))
    with config.context(enable_x64=True):
        assert "enable_x64 is True, before it was False" in f.explain(np.float32(1)).changes
    with config.context(default_backend="interpreter"):
        explanation = f.explain(np.float32(1))
        assert not explanation.hit and "the backend is 'interpreter', before it was 'cpu'" in explanation.changes
        f(np.float32(1))
        assert f.explain(np.float32(1)).hit
    f.clear_cache()
    assert str(f.explain(np.float32(1))) == "miss: <lambda> has not been compiled yet"


def test_explanations_keep_no_arrays():
    f = jit(lambda x: x * 2)
    x = jnp.ones(10)
    f(x)
    f.explain(x)
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


def test_log_compiles(caplog):
    f = jit(lambda x: x * 2)
    with caplog.at_level(logging.WARNING, "functad"), config.context(log_compiles=True):
        f(np.ones(3, np.float32))
        f(np.ones(3, np.float32))
    first, second = [record.getMessage() for record in caplog.records]
    assert first == "traced <lambda> for arguments of types f32[3]"
    assert second.startswith("compiled <lambda> for the backend 'cpu' in ") and second.endswith(" ms")
    caplog.clear()
    f(np.ones(4, np.float32))
    assert not caplog.records


# --- NaNs and infinities ---------------------------------------------------------------------------------


def bad_forward(x):
    y = x + 1
    z = jnp.log(x)  # the first
    return (y * z).sum()


def bad_backward(x):
    y = jnp.sqrt(x)  # its derivative is infinite
    return (y * 0.0).sum()


@pytest.mark.parametrize(
    "wrap", [lambda f: f, jit, lambda f: jit(jit(f)), functad.grad, lambda f: jit(functad.grad(f))]
)
def test_the_first_nan_is_found_with_its_line(wrap):
    x = np.float32([1.0, -1.0])
    f = wrap(bad_forward)
    f(x)
    with config.context(debug_nans=True):
        with pytest.raises(FloatingPointError, match=rf"`log` made a NaN(.|\n)*{line_of(bad_forward, 'the first')}"):
            f(x)
        assert np.isfinite(np.asarray(f(np.float32([1.0, 2.0])))).all()


@pytest.mark.parametrize("wrap", [functad.grad, lambda f: jit(functad.grad(f)), lambda f: functad.grad(jit(f))])
def test_infinities_of_the_backward_pass_have_the_line_of_the_forward_one(wrap):
    x = np.float32([1.0, 0.0])
    f = wrap(bad_backward)
    f(x)
    with config.context(debug_infs=True):
        with pytest.raises(FloatingPointError, match=rf"made an infinity(.|\n)*{line_of(bad_backward, 'derivative')}"):
            f(x)
    with config.context(debug_nans=True):
        with pytest.raises(FloatingPointError, match=rf"made a NaN(.|\n)*{line_of(bad_backward, 'derivative')}"):
            f(x)


def test_donated_arguments_survive_a_nan():
    f = jit(lambda x: jnp.log(x), donate_argnums=0)
    x = jnp.float32(-1.0)
    with config.context(debug_nans=True), pytest.raises(FloatingPointError):
        f(x)
    assert x == -1
