"""Linear functions whose transpose is given."""

from __future__ import annotations

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.custom_derivatives import linear_call
from functad.errors import DifferentiationError


def plus_quotient(x, denominator):
    return x + linear_call(lambda r, x: x / r, lambda r, t: t / r, denominator, x)


def test_values_and_derivatives_in_every_mode():
    for run in (lambda f: f, functad.jit):
        assert run(plus_quotient)(9.0, 3.0) == 12
        np.testing.assert_allclose(run(functad.grad(plus_quotient))(9.0, 3.0), 4 / 3, rtol=1e-6)
        np.testing.assert_allclose(
            run(functad.vmap(functad.grad(plus_quotient)))(jnp.ones(2), jnp.array([2.0, 4.0])), [1.5, 1.25]
        )
    tangent = functad.jvp(lambda x: plus_quotient(x, 3.0), (9.0,), (1.0,))[1]
    np.testing.assert_allclose(tangent, 4 / 3, rtol=1e-6)


def test_the_transpose_of_the_transpose_is_the_function():
    def same(x):
        return linear_call(lambda _, x: x, lambda _, t: 7.0 * t, (), x)

    def transposed(f):
        return lambda y: functad.linear_transpose(f, 1.0)(y)[0]

    assert [f(1.0) for f in (same, transposed(same), transposed(transposed(same)))] == [1, 7, 1]


def test_they_see_the_axis_that_they_are_mapped_over():
    def total(x):
        return linear_call(lambda _, x: lax.psum(x, "i"), lambda _, t: 2 * lax.psum(t, "i"), (), x)

    for wrap in (lambda f: f, functad.jit):
        mapped = wrap(functad.vmap(total, axis_name="i"))
        np.testing.assert_array_equal(mapped(jnp.arange(3.0)), [3, 3, 3])
        np.testing.assert_array_equal(functad.vjp(mapped, jnp.ones(3))[1](jnp.arange(3.0))[0], [6, 6, 6])


def test_trees():
    def swap(r, x):
        return {"b": r["k"] * x["a"]}

    def back(r, t):
        return {"a": r["k"] * t["b"]}

    gradient = functad.grad(lambda x: linear_call(swap, back, {"k": 3.0}, {"a": x})["b"].sum())
    np.testing.assert_array_equal(gradient(jnp.ones(2)), 3)


@pytest.mark.parametrize("run", [lambda f: f, functad.jit])
def test_what_is_linear_may_be_known_in_part(run):
    def f(x, y):
        return linear_call(lambda r, xs: r * xs[0] + 2 * xs[1], lambda r, t: (r * t, 2 * t), 3.0, (x, y))

    assert run(functad.grad(f))(1.0, 5.0) == 3 and run(functad.grad(f, 1))(1.0, 5.0) == 2
    assert run(lambda t: functad.linear_transpose(lambda y: f(0.0, y), 1.0)(t))(1.0) == (2,)


def test_there_is_no_derivative_in_the_residuals():
    with pytest.raises(DifferentiationError, match="no derivative in residual_args"):
        functad.grad(plus_quotient, 1)(9.0, 3.0)
