"""Tangents of integers, which have no bytes: they leave a jitted function as they leave one that is not."""

from __future__ import annotations

from typing import Any

import numpy as np

import functad
import functad.numpy as jnp
from functad import dtypes

jit = functad.jit


def fun(x: Any, n: Any) -> Any:
    return x * 2.0 + n


gradient = functad.grad(fun, argnums=(0, 1), allow_int=True)


def is_float0(x: Any, shape: tuple[int, ...] = ()) -> bool:
    return isinstance(x, np.ndarray) and x.dtype == dtypes.float0 and x.shape == shape


def test_gradients_of_integers_leave_a_jit() -> None:
    jitted = jit(gradient)
    around = jit(lambda x, n: {"again": jitted(x, n), "sum": x + n})
    for number in (1.0, 4.0):
        for found in (gradient(number, 3), jitted(number, 3), around(number, 3)["again"]):
            assert found[0] == 2 and is_float0(found[1])
    lowered = jitted.lower(1.0, 3)
    assert is_float0(lowered.out_info[1]) and is_float0(lowered.compile()(1.0, 3)[1])
    wide = jit(functad.grad(lambda x, n: fun(x, n).sum(), argnums=(0, 1), allow_int=True))
    assert is_float0(wide(1.0, np.arange(3))[1], (3,))
    assert lowered.jaxpr.out_avals[0].dtype == np.float32 and len(lowered.jaxpr.outvars) == 1


def test_pullbacks_of_integers_within_a_jit() -> None:
    zero = np.zeros((), dtypes.float0)
    (found,) = jit(lambda n: functad.vjp(lambda n: n * 2, n)[1](zero))(3)
    assert is_float0(found)
    assert functad.grad(lambda x: jit(gradient)(x, 3)[0] * x)(1.0) == 2
    mapped = functad.vmap(jit(lambda x, n: jit(gradient)(x, n)[0]))(jnp.ones(3), jnp.arange(3))
    np.testing.assert_array_equal(mapped, [2, 2, 2])
