"""Printed recorders give what `evaluate` and an ordinary trace give, to the bit; all else is left to these."""

from __future__ import annotations

import inspect
from itertools import product

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.all_primitives import registry
from functad.array import ArrayImpl
from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.evaluation import aval_of, evaluate
from functad.ir import Absent
from functad.primitives.common import convert_element_type_p
from functad.primitives.elementwise import add, add_p, mul_p, sin, sin_p
from functad.tracing import Trace, Tracer
from functad.transforms.at_once import RealOp, TraceAtOnce
from functad.transforms.forward import trace_with_values

DIFFERENTIATED = sorted(
    {name for name, p in registry.items() if p.derives_by_rule and not isinstance(p.examples, Absent)}
)


def recorded(trace, primitive, args, traced, params):
    """The results and the record of an operation of which some operands are traced."""
    with trace:
        given = [trace.new_input(aval_of(a), "x", a) if t else a for a, t in zip(args, traced)]
        out = primitive.bind(*given, **params)
    return out, trace.take_ops()


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_a_recorder_does_what_an_ordinary_trace_does(name):
    primitive = registry[name]
    for example in primitive.examples():
        args = [a if isinstance(a, np.generic) else ArrayImpl(np.array(a)) for a in example.args]
        for traced in product([True, False], repeat=len(args)):
            if not any(t and kind_of(a.dtype) in "fc" for a, t in zip(args, traced)):
                continue
            traced = [t and kind_of(a.dtype) in "fc" for a, t in zip(args, traced)]
            out, ops = recorded(TraceAtOnce("f"), primitive, args, traced, example.params)
            wanted, wanted_ops = recorded(Trace("f", keeps_values=True), primitive, args, traced, example.params)
            assert type(out) is type(wanted) and out.aval == wanted.aval
            value, wanted = (x.value if type(x) is Tracer else x for x in (out, wanted))
            assert value.aval == wanted.aval
            np.testing.assert_array_equal(np.asarray(value), np.asarray(wanted))
            for op, other in zip(ops, wanted_ops, strict=True):
                assert (op.primitive, op.params) == (other.primitive, other.params)
                assert str(op.source) == str(other.source)
                assert op.outs[0] is out and op.results is value
                assert [aval_of(v) for v in op.values] == [aval_of(v) for v in other.values]


@pytest.mark.parametrize("weak", list(product([True, False], repeat=2)))
def test_a_result_is_weak_where_all_operands_are(weak):
    args = [ArrayImpl(np.float32(2), w) for w in weak]
    out, (op,) = recorded(TraceAtOnce("f"), mul_p, args, [True, False], {})
    assert type(op) is RealOp
    assert out.weak_type == out.value.weak_type == evaluate(mul_p, args, {}).weak_type == all(weak)


@pytest.mark.parametrize("dtype", ["float16", "complex64"])
def test_unusual_numbers_are_left_to_the_ordinary_trace(dtype):
    x = ArrayImpl(np.ones(3, dtype))
    for primitive, args in [(sin_p, [x]), (add_p, [x, x])]:
        _, (op,) = recorded(TraceAtOnce("f"), primitive, args, [True] * len(args), {})
        assert type(op) is not RealOp


@pytest.mark.parametrize("weak", [True, False])
def test_results_of_another_type_are_those_of_an_ordinary_trace(weak):
    x = ArrayImpl(np.ones(3, np.float32), not weak)
    for dtype in ("float32", "float64", "int32", "float16"):
        new = {"new_dtype": np.dtype(dtype), "weak_type": weak}
        kinds = []
        for trace in (TraceAtOnce("f"), Trace("f", keeps_values=True)):
            out, (op,) = recorded(trace, convert_element_type_p, [x], [True], new)
            kinds.append((type(out), out.aval, type(op), op.results.aval))
        assert kinds[0] == kinds[1]


def test_operations_on_what_is_not_traced_are_not_recorded():
    x = jnp.ones(3)
    outs, trace, _ = trace_with_values(lambda y: [sin(x), add(x, x)], [x], [True], "f")
    assert type(trace) is TraceAtOnce and not trace.ops
    assert all(type(o) is ArrayImpl for o in outs)


def test_a_trace_within_another_is_an_ordinary_one():
    kinds = []

    def f(x):
        kinds.append(type(x._trace))
        return x * x

    functad.grad(functad.grad(f))(3.0)
    functad.jit(functad.grad(f))(3.0)
    assert kinds == [Trace, Trace]
    functad.grad(f)(3.0)
    assert kinds[2] is TraceAtOnce


def test_the_users_line_is_found():
    def f(x):
        return sin(x)  # the line

    _, trace, _ = trace_with_values(lambda x: [f(x), x * x, jnp.exp(x)], [jnp.ones(2)], [True], "f")
    ops = trace.take_ops()
    assert [op.source.text for op in ops[:1]] == ["return sin(x)  # the line"]
    assert all(op.source.code.co_filename == inspect.getsourcefile(test_the_users_line_is_found) for op in ops)


def test_errors_are_those_of_the_shape_rule():
    def of_shapes(x):
        return add(x, jnp.ones(4))

    def of_dtypes(x):
        return add(x, jnp.ones(3, jnp.int32))

    with pytest.raises(ShapeError, match="add takes operands of equal shape"):
        functad.jvp(of_shapes, (jnp.ones(3),), (jnp.ones(3),))
    outcomes = []
    for trace in (TraceAtOnce("f"), Trace("f", keeps_values=True)):
        with trace:
            x = trace.new_input(aval_of(jnp.ones(3)), "x", jnp.ones(3))
            try:
                outcomes.append(of_dtypes(x).aval)
            except DTypeError as problem:
                outcomes.append(str(problem))
    assert outcomes[0] == outcomes[1]


def test_values_are_checked_where_config_says_so():
    with functad.config.context(debug_nans=True), pytest.raises(FloatingPointError, match="`log` made a NaN"):
        functad.grad(jnp.log)(-1.0)


def test_numpy_says_nothing():
    with np.errstate(all="raise"):
        assert np.isinf(functad.value_and_grad(jnp.log)(0.0)[0])
