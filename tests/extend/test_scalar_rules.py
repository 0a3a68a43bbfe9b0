"""Primitives made from outside as one expression of scalars: they fuse; words that kernels do not know are named."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed: rules of kernels are looked at where there are kernels")

import functad
import functad.numpy as jnp
from functad.errors import ArgumentError, CustomRuleError
from functad.extend import Scalar, check_primitive
from functad.extend.core import Primitive
from functad.interpreters import ad, batching, mlir
from functad.lax import sin_p

X = np.linspace(0.5, 2, 4, dtype=np.float32)


def made(rule, types=lambda x: x):
    square_p = Primitive("square")
    square_p.def_impl(lambda x: x * x)
    square_p.def_abstract_eval(types)
    ad.defjvp(square_p, lambda t, x: 2 * x * t)
    batching.defvectorized(square_p)
    mlir.register_lowering(square_p, rule)
    return square_p


@pytest.mark.parametrize("rule", [Scalar("{0} * {0}"), Scalar(lambda dtype: "{0} * {0}")], ids=["text", "function"])
def test_it_fuses_in_all_transforms(rule):
    square_p = made(rule)
    f = functad.jit(functad.vmap(functad.grad(lambda x: square_p.bind(x) * 3)))
    np.testing.assert_allclose(f(X), 6 * X, rtol=1e-6)
    check_primitive(square_p, (X,))
    text = str(functad.jit(lambda x: jnp.sin(square_p.bind(x))).lower(X).kernels)
    assert text.count("def ") == 1 and "square_b = at_a * at_a" in text
    cuda = functad.jit(lambda x: jnp.sin(square_p.bind(x)), backend="cuda").lower(X).kernels
    assert "square_b = at_a * at_a" in str(cuda)


def test_types_are_asked_for_no_parts_of_operands():
    """Of what comes from few numbers, built-in operations are computed for the part that is read."""

    def types(x):
        assert x.shape == (2000, 3)
        return x

    whole_p = made(Scalar("{0} * {0}"), types)
    found = functad.jit(lambda x: whole_p.bind(jnp.broadcast_to(x, (2000, 3)))[:5])(X[:3])
    np.testing.assert_allclose(found, np.broadcast_to(X[:3] ** 2, (5, 3)), rtol=1e-6)


def test_two_of_one_name_are_two():
    square_p, other_p = made(Scalar("{0} * {0}")), made(Scalar("{0} + {0}"))
    found = functad.jit(lambda x: (square_p.bind(x), other_p.bind(x)))(X)
    np.testing.assert_array_equal(found, (X * X, X + X))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sqare({0})", r"kernels do not know `sqare`; did you mean `sqrt` or `rsqrt`\?"),
        ("np.sin({0})", "kernels do not know `np.sin`; did you mean `sin`"),
        ("frobnicate({0})", "kernels do not know `frobnicate`; they know operators, and the functions of functad.back"),
        ("{0} *", "it must be one expression of Python"),
        ("{x} * 2", "it must be one expression of Python"),
    ],
)
def test_what_kernels_do_not_know_is_named(text, said):
    with pytest.raises(CustomRuleError, match=f"the Scalar rule of `square` is .*{said}"):
        made(Scalar(text))
    with pytest.raises(CustomRuleError, match=f"the Scalar rule of `square` is .*{said}"):
        functad.jit(made(Scalar(lambda dtype: text)).bind)(X)


def test_it_is_for_element_wise_operations_alone():
    longer = made(Scalar("{0} * {0}"), lambda x: functad.core.ShapedArray((5,), x.dtype))
    with pytest.raises(CustomRuleError, match=r"it goes element by element, but shapes are \[4\], \[5\]"):
        functad.jit(longer.bind)(X)
    with pytest.raises(CustomRuleError, match=r"\{0\} \* \{1\}.*it must be one expression .*out of range"):
        functad.jit(made(Scalar("{0} * {1}")).bind)(X)
    with pytest.raises(ArgumentError, match="functad's own and cannot be replaced"):
        mlir.register_lowering(sin_p, Scalar("cos({0})"))


def test_types_are_asked_for_operands_that_were_given():
    def types(x, y):
        assert x.shape == y.shape
        return functad.core.ShapedArray(x.shape, x.dtype)

    sum_p = Primitive("total")
    sum_p.def_impl(lambda x, y: x + y)
    sum_p.def_abstract_eval(types)
    mlir.register_lowering(sum_p, Scalar("{0} + {1}"))
    np.testing.assert_array_equal(functad.jit(lambda x: sum_p.bind(x, jnp.full(4, 2.0)) * 2)(X), 2 * (X + 2))


def test_a_parameter_may_have_any_name():
    half_p = Primitive("half")
    half_p.def_impl(lambda x, *, new_dtype: x * 0.5)
    half_p.def_abstract_eval(lambda x, *, new_dtype: x)
    mlir.register_lowering(half_p, Scalar(lambda dtype, *, new_dtype: "{0} * {T}(0.5)"))
    np.testing.assert_array_equal(functad.jit(lambda x: half_p.bind(x, new_dtype=X.dtype))(X), X * 0.5)


def test_a_loop_needs_no_rule_for_many_examples():
    wave_p = Primitive("wave")
    wave_p.def_impl(np.cos)
    wave_p.def_abstract_eval(lambda x: x)
    mlir.register_lowering(wave_p, Scalar("cos({0})"))
    w, rows = np.full((32, 32), 0.1, np.float32), np.linspace(0, 1, 50 * 4 * 32, dtype=np.float32).reshape(50, 4, 32)

    def last(function, w, rows):
        return functad.lax.scan(lambda h, x: (jnp.tanh(h + function(x) @ w), None), jnp.zeros((4, 32)), rows)[0]

    found = functad.jit(last, static_argnums=0)(wave_p.bind, w, rows)
    np.testing.assert_allclose(found, functad.jit(last, static_argnums=0)(jnp.cos, w, rows), rtol=1e-5)


def test_a_primitive_defined_again_replaces_the_one_before():
    square_p = made(Scalar("{0} * {0}"))
    f = functad.jit(lambda x: square_p.bind(x))
    assert f(X)[0] == 0.25
    mapped, called = functad.jit(functad.vmap(f)), functad.jit(lambda x: f(x) + functad.grad(lambda x: f(x).sum())(x))
    assert mapped(X)[0] == 0.25 and called(X)[0] == 1.25
    square_p = made(Scalar("{0} + {0}"))  # as a cell of a notebook that runs again does it
    assert f(X)[0] == mapped(X)[0] == 1.0 and called(X)[0] == 2.0


def test_a_rule_registered_again_replaces_the_one_before():
    square_p = made(Scalar("{0} * {0}"))
    f, held = functad.jit(square_p.bind), functad.make_jaxpr(square_p.bind)(X)
    assert f(X)[0] == 0.25 and square_p.bind(X)[0] == 0.25
    mlir.register_lowering(square_p, Scalar("{0} * 8"))
    assert f(X)[0] == 4.0 and functad.jit(lambda x: functad.eval_jaxpr(held, (), x)[0])(X)[0] == 4.0
    mlir.register_lowering(square_p, mlir.lower_fun(lambda x: x * 16, multiple_results=False))
    assert f(X)[0] == 8.0
    mlir.register_lowering(square_p, Scalar("{0} * 4"))
    square_p.def_impl(lambda x: x * 4)
    assert f(X)[0] == square_p.bind(X)[0] == 2.0
    gradient = functad.jit(functad.grad(lambda x: square_p.bind(x).sum()))
    assert gradient(X)[0] == 1.0
    ad.defjvp(square_p, lambda t, x: 4 * t)
    assert gradient(X)[0] == 4.0


def test_first_rules_of_new_names_make_nothing_compile_again():
    traced = []
    f = functad.jit(lambda x: traced.append(1) or x * 2)
    f(X)
    new_p = Primitive("not seen before")
    new_p.def_impl(lambda x: x)
    new_p.def_abstract_eval(lambda x: x)
    ad.defjvp(new_p, lambda t, x: t)
    mlir.register_lowering(new_p, Scalar("{0}"))
    f(X)
    assert len(traced) == 1


def test_a_printed_program_with_it_is_read_again():
    twofold_p = Primitive("twofold")
    twofold_p.def_abstract_eval(lambda x: x)
    program = functad.make_jaxpr(lambda x: twofold_p.bind(x) + 1)(X)
    read = functad.parse_program(str(program))
    assert str(read) == str(program) and read.eqns[0].primitive is twofold_p
