"""The NumPy interpreter: same results as `bind`, memory freed, results that share nothing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.backends import compile_program
from functad.errors import ArgumentError
from functad.tracing import eval_program


def compiled(fun, *args):
    program = functad.make_jaxpr(fun)(*args)
    return program, compile_program(program, "interpreter")


def test_runs_as_bind_does():
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    program, run = compiled(lambda x: (jnp.sin(x) @ x.T, x.sum(), 3.0), x)
    for a, b in zip(run([x]), eval_program(program, [x])):
        np.testing.assert_array_equal(a, np.asarray(b))


def test_runs_again_and_again():
    _, run = compiled(lambda x: x * 2, np.ones(2))
    assert [run([np.full(2, float(i))])[0][0] for i in range(3)] == [0, 2, 4]


def test_results_share_no_memory():
    x = np.arange(6.0)
    table = np.arange(6.0)
    _, run = compiled(lambda x: (x, x, x.reshape(2, 3).T, jnp.broadcast_to(x[:1], (4,)), jnp.asarray(table)), x)
    results = run([x])
    for i, a in enumerate(results):
        assert a.flags.c_contiguous and not np.shares_memory(a, x) and not np.shares_memory(a, table)
        assert not any(np.shares_memory(a, b) for b in results[:i])


def test_values_are_freed_after_their_last_use():
    import tracemalloc

    def chain(x):
        for _ in range(50):
            x = x * 2.0
        return x.sum()

    x = np.ones(250_000, np.float32)  # 1 MB
    _, run = compiled(chain, x)
    tracemalloc.start()
    run([x])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4e6


def test_no_warnings_from_special_values():
    x = np.array([0.0, np.inf, np.nan, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a = functad.jit(lambda x: (1 / x, jnp.log(x), x - x))(x)
        b = (1 / jnp.asarray(x), jnp.log(jnp.asarray(x)), jnp.asarray(x) - x)
    for p, q in zip(a, b):
        np.testing.assert_array_equal(p, q)


def test_unknown_backend_is_named():
    program = functad.make_jaxpr(lambda x: x)(1.0)
    with pytest.raises(ArgumentError, match="no backend named 'xla'; the backends are 'cpu', "):
        compile_program(program, "xla")
