"""`check_primitive` takes right rules, and names each wrong one."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import lax
from functad.errors import ArgumentError, CustomRuleError
from functad.extend import check_primitive
from functad.extend.core import Primitive
from functad.interpreters import ad, batching, mlir

X, Y = np.array([0.5, -1.0, 2.0], np.float32), np.array([3.0, 0.25, -1.5], np.float32)


def made_product() -> Primitive:
    """x·y, with all rules."""
    p = Primitive("product")
    p.def_impl(np.multiply)
    p.def_abstract_eval(lambda x, y: functad.core.ShapedArray(x.shape, x.dtype))
    ad.defbilinear(p, lambda ct, x, y: p.bind(ct, y), lambda ct, x, y: p.bind(x, ct))
    batching.defbroadcasting(p)
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y: x * y, multiple_results=False))
    return p


def test_right_rules_pass():
    p = made_product()
    assert check_primitive(p, (X, Y), (np.float64(2), np.float64(3))) is None


def test_a_primitive_without_rules_but_the_first_two_passes():
    p = Primitive("rounded")
    p.def_impl(lambda x, *, digits: np.round(x, digits))
    p.def_abstract_eval(lambda x, *, digits: x)
    check_primitive(p, (X,), digits=1)


def test_a_primitive_that_cannot_be_transposed_passes():
    p = Primitive("forward_only")
    p.def_impl(lambda x: 2 * x)
    p.def_abstract_eval(lambda x: x)
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
    check_primitive(p, (X,))


def test_several_results_integers_and_narrow_floats():
    p = Primitive("scaled_and_counted")
    p.multiple_results = True
    p.def_impl(lambda x, n: [x * x * n.astype(np.float32), n + 1])
    p.def_abstract_eval(lambda x, n: [functad.core.ShapedArray(x.shape, np.float32), n])
    ad.primitive_jvps[p] = lambda primals, tangents: (
        p.bind(*primals),
        [2 * primals[0] * primals[1].astype(np.float32) * ad.instantiate_zeros(tangents[0]), ad.Zero(primals[1].aval)],
    )
    check_primitive(p, (np.array([0.5, 1.5], np.float32), np.array([1, 2], np.int32)))


@pytest.mark.parametrize("factor", [2, 3])
def test_floats_of_16_bits(factor):
    p = Primitive("halves")
    p.def_impl(lambda x: (x * x).astype(np.float16))
    p.def_abstract_eval(lambda x: functad.core.ShapedArray(x.shape, np.float16))
    ad.defjvp(p, lambda t, x: factor * t * x)
    if factor == 2:
        return check_primitive(p, (X.astype(np.float16),))
    with pytest.raises(CustomRuleError, match=r"example 0 \(f16\[3\]\): the jvp rule"):
        check_primitive(p, (X.astype(np.float16),))


def test_functads_own_primitives_bring_their_examples():
    check_primitive(lax.neg_p)


def _wrong_axis(args, dims, **params):
    return made_product().bind(*args), None


WRONG = {
    "the shape rule": lambda p: p.def_abstract_eval(lambda x, y: functad.core.ShapedArray((*x.shape, 1), x.dtype)),
    "the shape rule: dtype": lambda p: p.def_abstract_eval(lambda x, y: functad.core.ShapedArray(x.shape, np.int32)),
    "the jvp rule": lambda p: ad.defjvp(p, lambda t, x, y: 2 * t * y, lambda t, x, y: x * t),
    "the jvp rule, then transposed": lambda p: ad.primitive_transposes.__setitem__(
        p, lambda ct, x, y: [-p.bind(ct, y), None] if ad.is_undefined_primal(x) else [None, -p.bind(x, ct)]
    ),
    "the jvp rule, twice": lambda p: ad.defjvp(p, lambda t, x, y: t * lax.stop_gradient(y), lambda t, x, y: x * t),
    "the batch rule": lambda p: batching.primitive_batchers.__setitem__(p, lambda args, dims: (args[0], dims[0] or 0)),
    "the batch rule: returns one value": lambda p: batching.primitive_batchers.__setitem__(p, lambda args, dims: [0]),
    "the lowering rule": lambda p: mlir.register_lowering(p, mlir.lower_fun(lambda x, y: x + y, False)),
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_named(rule):
    p = made_product()
    WRONG[rule](p)
    name = rule.partition(":")[0]
    with pytest.raises(CustomRuleError, match=rf"primitive `product`, example 0 \(f32\[3\], f32\[3\]\): {name}"):
        check_primitive(p, (X, Y))


def test_what_differs_is_said():
    p = made_product()
    WRONG["the lowering rule"](p)
    with pytest.raises(CustomRuleError, match=r"(?s)jitted and un-jitted results differ: result 0 is\n\[.*\nnot\n\["):
        check_primitive(p, (X, Y))
    WRONG["the shape rule"](p)
    with pytest.raises(CustomRuleError, match=r"f32\[3,1\]"):
        check_primitive(p, (X, Y))


def test_there_must_be_an_example():
    with pytest.raises(ArgumentError, match=r"give an example, a tuple of arguments: check_primitive\(product_p"):
        check_primitive(made_product())


def test_what_a_rule_raises_is_shown():
    p = made_product()
    batching.primitive_batchers[p] = lambda args, dims: (_ for _ in ()).throw(LookupError("no such table"))
    with pytest.raises(CustomRuleError, match="the batch rule: LookupError: no such table"):
        check_primitive(p, (X, Y))
