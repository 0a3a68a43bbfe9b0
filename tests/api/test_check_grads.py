"""`functad.test_util`: right derivatives pass at every order and in every mode, wrong ones do not."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError
from functad.test_util import check_grads, check_jvp, check_vjp

X = np.array([0.3, -1.2])
Z = np.array([0.3 + 1j, -1.2 - 0.5j])


def tree(x):
    return {"a": jnp.sin(x["b"]) * x["c"], "d": x["c"] ** 3}


@pytest.mark.parametrize("modes", ["fwd", "rev", "lin", ("fwd", "rev")])
def test_right_derivatives_pass(modes):
    check_grads(lambda x: jnp.tanh(x) * x, (X,), 3, modes)
    check_grads(tree, ({"b": X, "c": np.array(0.7)},), 2, modes)
    check_grads(lambda z: z * z, (Z,), 2, modes)
    check_grads(jnp.sin, (0.5,), 2, modes, atol=1e-2, rtol=1e-2)


@functad.custom_jvp
def wrong_first(x):
    return jnp.sin(x)


wrong_first.defjvp(lambda x, t: (wrong_first(x[0]), 1.01 * jnp.cos(x[0]) * t[0]))


@functad.custom_jvp
def wrong_second(x):
    return jnp.sin(x)


@functad.custom_jvp
def slope(x):
    return jnp.cos(x)


slope.defjvp(lambda x, t: (slope(x[0]), -1.1 * jnp.sin(x[0]) * t[0]))
wrong_second.defjvp(lambda x, t: (wrong_second(x[0]), slope(x[0]) * t[0]))


@pytest.mark.parametrize("mode", ["fwd", "rev", "lin"])
def test_wrong_derivatives_are_found_at_their_order(mode):
    with pytest.raises(AssertionError, match="JVP tangent" if mode == "fwd" else "VJP cotangent|LIN tangent"):
        check_grads(wrong_first, (X,), 1, mode)
    check_grads(wrong_second, (X,), 1, mode)
    with pytest.raises(AssertionError, match=" of "):
        check_grads(wrong_second, (X,), 2, mode)


def test_the_single_checks():
    check_jvp(jnp.sin, partial(functad.jvp, jnp.sin), (X,))
    check_vjp(jnp.sin, partial(functad.vjp, jnp.sin), (X,))
    with pytest.raises(AssertionError, match="mine tangent"):
        check_jvp(lambda x: x, lambda p, t: (p[0], 2 * t[0]), (X,), err_msg="mine")
    check_jvp(lambda x: x, lambda p, t: (p[0], 2 * t[0]), (X,), atol={np.float64: 10.0})
    with pytest.raises(AssertionError, match="primal"):
        check_vjp(jnp.sin, partial(functad.vjp, jnp.cos), (X,))
    with pytest.raises(ArgumentError, match="modes are 'fwd', 'rev', 'lin'"):
        check_grads(jnp.sin, (X,), 1, ["forward"])
