"""Operations run at once: what they do with NumPy's warnings and with the user's context variables."""

from __future__ import annotations

import sys
import warnings
import weakref
from contextvars import ContextVar

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.eager import run_bare
from functad.evaluation import evaluate_bare
from functad.primitives.arithmetic import add_p, mul_p, sub_p

OVER = np.array([0.0, -1.0, 1e38, np.inf], np.float32)


@pytest.mark.parametrize("state", ["warn", "raise"])
@pytest.mark.parametrize("fun", [lambda x: 1 / x, jnp.log, lambda x: x * x, lambda x: x - x, jnp.arccos])
def test_numpys_floating_point_errors_are_silent_and_its_settings_stay(fun, state):
    with np.errstate(all=state), warnings.catch_warnings():
        warnings.simplefilter("error")
        before = np.geterr()
        fun(jnp.asarray(OVER))
        functad.vjp(fun, OVER)[1](OVER)
        functad.vmap(fun)(OVER)
        assert np.geterr() == before


def test_an_operation_may_run_while_another_one_does():
    """A signal handler or a finaliser may compute anything, at any moment."""
    x = jnp.asarray(OVER)
    moments, inner = [], []

    def handler(frame, event, arg):
        if event == "call" and not moments and "kernels" in frame.f_code.co_filename:
            moments.append(frame.f_code.co_name)
            inner.append(1 / x)

    sys.setprofile(handler)
    try:
        outer = jnp.sum(x)
    finally:
        sys.setprofile(None)
    assert moments and np.array_equal(inner[0], 1 / x, equal_nan=True) and np.array_equal(outer, np.inf)


variable: ContextVar[str] = ContextVar("variable", default="default")


@pytest.mark.parametrize("transform", [lambda f: f, functad.jit, functad.vmap, lambda f: functad.jit(functad.vmap(f))])
def test_a_callback_sees_the_users_context_variables(transform):
    def read(x):
        seen.append(variable.get())
        return x

    seen: list[str] = []
    token = variable.set("the user's")
    try:
        transform(lambda x: functad.pure_callback(read, x, x, vmap_method="sequential"))(jnp.ones(1))
    finally:
        variable.reset(token)
    assert seen == ["the user's"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint32", "bool", "complex64"])
def test_sums_and_products_of_scalars_have_the_bits_of_those_of_arrays(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 255, 64) * (1.1 - 0.3j if dtype == "complex64" else 1.1) for _ in range(2))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = np.append(x, [0.0, 3e38, np.inf, np.nan]).astype(dtype), np.append(y, [-0.0, 3e38, 0, 1]).astype(dtype)
    for primitive in (add_p, mul_p) if dtype == "bool" else (add_p, mul_p, sub_p):
        whole = run_bare(evaluate_bare, primitive, (x, y), {})
        parts = [run_bare(evaluate_bare, primitive, pair, {}) for pair in zip(x, y, strict=True)]
        assert whole.dtype == dtype and all(part.dtype == dtype for part in parts)
        found, numbers = np.array(parts), whole == whole
        np.testing.assert_array_equal(found, whole)
        if found.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(whole[numbers]))


VIEWS = {
    "a row": lambda x: x[0],
    "a row by its number as an array": lambda x: x[jnp.int32(0)],
    "some columns": lambda x: x[:, ::4],
    "slice": lambda x: lax.slice(x, (0, 0), (1, 5)),
    "split": lambda x: jnp.split(x, 4)[0],
    "of a transposed array": lambda x: x.T[0],
    "of a view of it": lambda x: x[:600][0],
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_small_part_does_not_keep_a_large_array(view):
    x = jnp.array(np.ones((1000, 100), np.float32))
    whole = weakref.ref(x._value)
    part = VIEWS[view](x)
    np.testing.assert_array_equal(part, np.ones(part.shape))
    del x
    assert whole() is None


def test_a_large_part_or_one_of_a_small_array_is_a_view():
    for shape, part in (((1000, 100), slice(0, 600)), ((10, 10), slice(0, 1)), ((1000, 1000), slice(3, 303))):
        x = jnp.array(np.ones(shape, np.float32))
        assert np.shares_memory(x[part]._value, x._value)
        assert np.shares_memory(lax.slice(x, (part.start, 0), (part.stop, x.shape[1]))._value, x._value)
