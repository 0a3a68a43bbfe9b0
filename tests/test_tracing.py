"""Tracing: what is recorded where, and the errors for tracers used wrongly."""

from __future__ import annotations

import math
import operator
import threading

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad.array import Array
from functad.eager import composed
from functad.errors import (
    ArgumentError,
    ConcretizationError,
    DonatedArrayError,
    DTypeError,
    ImmutableArrayError,
    LeakedTracerError,
    ShapeError,
    UnhashableTracerError,
)
from functad.primitives import elementwise as el
from functad.tracing import current_trace

THIS_FILE = "test_tracing.py"


def test_no_trace_is_active_at_rest_or_after_an_error():
    with pytest.raises(ZeroDivisionError):
        functad.jit(lambda x: 1 / 0)(1.0)
    assert current_trace() is None


def test_python_if_works_under_grad_and_raises_under_jit():
    def f(x):
        return x * x if x > 0 else -x

    assert functad.grad(f)(3.0) == 6 and functad.grad(f)(-3.0) == -1
    assert functad.grad(functad.grad(f))(3.0) == 2
    with pytest.raises(ConcretizationError) as caught:
        functad.jit(f)(3.0)
    text = str(caught.value)
    assert "bool[]" in text and "`gt`" in text and THIS_FILE in text
    assert "functad.numpy.where" in text and "static_argnames" in text


def test_python_while_works_under_grad():
    def f(x):
        while x < 100.0:
            x = x * x
        return x

    assert functad.grad(f)(2.0) == 8 * 2.0**7  # x^8
    _, tangent = functad.jvp(f, (2.0,), (1.0,))
    assert tangent == 8 * 2.0**7


def test_unmapped_values_are_concrete_under_vmap():
    def f(x, flag):
        return x * 2 if flag > 0 else x

    assert np.array_equal(functad.vmap(f, in_axes=(0, None))(np.arange(3.0), 1.0), [0, 2, 4])
    with pytest.raises(ConcretizationError, match="argument `flag` of vmap|`gt`"):
        functad.vmap(f)(np.arange(3.0), np.ones(3))


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda x: float(x), r"`float\(\)`"),
        (lambda x: int(x), r"`int\(\)`"),
        (lambda x: complex(x), r"`complex\(\)`"),
        (lambda x: [1, 2, 3][x], "Python index"),
        (lambda x: np.asarray(x), "functad.numpy"),
        (lambda x: x.item(), "item|float"),
        (lambda x: x.tolist(), "tolist|values"),
    ],
)
def test_concretisation_names_the_argument_and_the_line(use, text):
    with pytest.raises(ConcretizationError, match=text) as caught:
        functad.jit(lambda weight: use(weight))(np.int32(1))
    assert "argument `weight`" in str(caught.value) and THIS_FILE in str(caught.value)


def test_a_leaked_tracer_is_named_wherever_it_is_used():
    leaked = []

    def f(weights):
        y = jnp.sin(weights["w"])
        leaked.extend([y, weights["w"]])
        return y

    functad.jit(f)({"w": 1.0})
    with pytest.raises(LeakedTracerError, match=r"result of `sin` at .*test_tracing.py") as caught:
        leaked[0] + 1
    assert "has_aux=True" in str(caught.value)
    with pytest.raises(LeakedTracerError, match=r"argument `weights\['w'\]` of jit of f"):
        functad.grad(lambda x: x * leaked[1])(1.0)
    with pytest.raises(LeakedTracerError):
        bool(leaked[0])
    with pytest.raises(LeakedTracerError):
        functad.jit(lambda x: x + leaked[0])(1.0)


def test_a_tracer_that_leaks_out_of_grad_is_caught():
    leaked = []
    functad.grad(lambda x: leaked.append(x * x) or x)(1.0)
    with pytest.raises(LeakedTracerError):
        jnp.sin(leaked[0])


def test_hashing_raises_for_tracers_and_arrays():
    with pytest.raises(UnhashableTracerError, match="argument `x` of jit"):
        functad.jit(lambda x: {x: 1})(1.0)
    with pytest.raises(UnhashableTracerError, match="static argument"):
        hash(jnp.ones(3))


def test_in_place_assignment_shows_the_rewrite():
    def f(x):
        x[0, 1:] = 5.0
        return x

    for call in (f, functad.jit(f), functad.grad(f)):
        with pytest.raises(ImmutableArrayError, match=r"x = x\.at\[0, 1:\]\.set\(value\)"):
            call(jnp.ones((2, 3)))


def test_iterating_a_scalar_tracer_raises_and_a_vector_unrolls():
    with pytest.raises(TypeError, match="0-d|scalar|rank 0"):
        functad.jit(lambda x: list(x))(1.0)
    assert functad.jit(lambda x: sum(x))(np.arange(4.0)) == 6


def test_traces_are_thread_local():
    seen = []

    def f(x):
        worker = threading.Thread(target=lambda: seen.append((current_trace(), jnp.sin(0.5))))
        worker.start()
        worker.join()
        return x * 2

    assert functad.grad(f)(1.0) == 2
    assert seen[0][0] is None and seen[0][1] == np.sin(np.float32(0.5))


def test_threads_trace_at_the_same_time():
    results = {}

    def work(i):
        f = functad.jit(lambda x: functad.grad(lambda y: jnp.sin(y) * i)(x))
        results[i] = float(f(0.5))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    for i, value in results.items():
        assert value == pytest.approx(i * np.cos(0.5), rel=1e-6)
    assert len(results) == 8


def test_operations_on_other_values_run_outside_of_the_recording():
    """Under grad only what depends on its tracers is recorded; under jit everything is."""
    table = jnp.arange(3.0)
    names = [e.primitive.name for e in functad.make_jaxpr(lambda x: x + jnp.sin(table))(1.0).eqns]
    assert "sin" in names
    concrete = []
    functad.grad(lambda x: concrete.append(jnp.sin(table)) or x)(1.0)
    assert isinstance(np.asarray(concrete[0]), np.ndarray)


def test_backward_equations_bear_the_line_of_their_forward_one():
    program = functad.make_jaxpr(functad.grad(lambda x: jnp.sin(x) * 2.0))(1.0)
    assert all(THIS_FILE in str(e.source) for e in program.eqns)


@pytest.mark.parametrize(
    "drop",
    [
        lambda x: float(x) * x,
        lambda x: math.sin(x) * x,
        lambda x: np.float64(x) * x,
        lambda x: np.asarray(x) * x,
        lambda x: x.tolist() * x,
        lambda x: complex(x).real * x,
    ],
)
def test_a_derivative_is_never_dropped_without_a_word(drop):
    with pytest.raises(ConcretizationError, match="derivative would be lost") as caught:
        functad.grad(lambda x: drop(x))(3.0)
    assert "argument `x` of grad" in str(caught.value) and "stop_gradient" in str(caught.value)
    assert functad.grad(lambda x: drop(functad.lax.stop_gradient(x)) + x)(3.0) == 1


def test_formatting_shows_the_value_where_there_is_one():
    printed = []
    functad.grad(lambda x: printed.append(f"{x:.2f}") or x)(3.0)
    assert printed == ["3.00"]
    with pytest.raises(ConcretizationError, match="Formatting"):
        functad.jit(lambda x: f"{x:.2f}" and x)(3.0)


@pytest.mark.parametrize(
    ("fun", "hint"),
    [
        (lambda x: x if x else -x, r"functad.numpy.where\(x > 0"),
        (lambda x: x and 1.0, r"functad.numpy.logical_and"),
        (lambda x: max(x, 1.0), r"functad.numpy.maximum"),
        (lambda x: sum(range(x)), r"functad.lax.fori_loop"),
        (lambda x: [1.0, 2.0][x], r"functad.numpy.asarray\(\[1., 2., 3.\]\)\[i\]"),
        (lambda x: jnp.ones(4)[:x], r"functad.lax.dynamic_slice"),
    ],
)
def test_the_rewrite_fits_the_line(fun, hint):
    with pytest.raises(ConcretizationError, match=hint):
        functad.jit(fun)(np.int32(1))


def test_a_while_loop_gets_its_own_rewrite():
    def f(x):
        while x < 10:
            x = x * 2
        return x

    with pytest.raises(ConcretizationError, match="functad.lax.while_loop"):
        functad.jit(f)(1.0)


def test_under_vmap_the_rewrite_is_not_to_map():
    with pytest.raises(ConcretizationError, match="in_axes=None"):
        functad.vmap(lambda x: 1.0 if x else 2.0)(np.ones(2))


def test_jaxs_names_of_the_errors_catch_functads():
    with pytest.raises(functad.errors.TracerBoolConversionError):
        functad.jit(lambda x: 1.0 if x else 2.0)(1.0)
    assert functad.errors.UnexpectedTracerError is LeakedTracerError


@pytest.mark.parametrize("name", ["floor", "argmax", "copysign", "fmod", "arctan2"])
def test_what_no_shape_rule_accepts_is_refused_in_the_same_words_with_and_without_jit(name):
    z = jnp.asarray(np.array([1 + 2j, 3], np.complex64))
    args = (z,) if name in ("floor", "argmax") else (z, z)
    function = getattr(jnp, name)
    messages = []
    for f in (function, functad.jit(function)):
        with pytest.raises(DTypeError, match="convert it first") as raised:
            f(*args)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@composed
def _quotient_of_differences(x, y):
    return el.div(el.sub(x, x), el.sub(y, y))


def test_a_composed_function_gives_an_array_and_leaves_no_trace_behind():
    x = jnp.ones(3)
    assert isinstance(_quotient_of_differences(x, x), Array) and np.isnan(_quotient_of_differences(x, x)).all()
    assert functad.make_jaxpr(_quotient_of_differences)(x, x).eqns[-1].primitive.name == "div"
    with pytest.raises(ValueError, match="broadcast"):
        _quotient_of_differences(x, jnp.ones(2))
    assert current_trace() is None


def test_where_values_are_looked_at_composed_functions_and_derivatives_run_operation_by_operation():
    x = jnp.ones(3)
    with functad.debug_nans(True):
        with pytest.raises(FloatingPointError, match="`div` made a NaN"):
            _quotient_of_differences(x, x)
        with pytest.raises(FloatingPointError, match="`mul` made a NaN"):
            functad.grad(lambda x: jnp.square(jnp.sqrt(x)))(0.0)  # 0 · 1/(2 · 0)
    assert np.isnan(functad.grad(lambda x: jnp.square(jnp.sqrt(x)))(0.0))


def test_a_composed_function_refuses_donated_arrays():
    key = functad.random.PRNGKey(0)
    functad.jit(lambda key: key + 1, donate_argnums=0)(key)
    with pytest.raises(DonatedArrayError, match="`key` of <lambda> was donated"):
        functad.random.normal(key, (2,))


@pytest.mark.parametrize("transform", ["grad", "jvp", "jit", "jit of grad", "vmap"])
def test_a_list_of_results_belongs_to_who_gets_it(transform):
    """`split` gives the list that the equation's results came in; writing into it changes no recording."""

    def product(x):
        parts = jnp.split(x, [2])
        parts[0] = parts[0].reshape(1, 2)
        return jnp.sum(parts[0]) * jnp.sum(parts[1])

    x = jnp.arange(4.0)
    if transform == "grad":
        found, expected = functad.grad(product)(x), [5, 5, 1, 1]
    elif transform == "jvp":
        found, expected = functad.jvp(product, (x,), (jnp.ones(4),))[1], 12
    elif transform == "vmap":
        found, expected = functad.vmap(product)(jnp.stack([x, x])), [5, 5]
    else:
        f = functad.grad(product) if "grad" in transform else product
        found, expected = functad.jit(f)(x), [5, 5, 1, 1] if "grad" in transform else 5
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("ask", [bool, int, operator.index, "{:>9}".format])
@pytest.mark.parametrize("shape", [(3,), (1,), ()])
def test_a_value_is_asked_for_under_a_derivative_as_it_is_elsewhere(ask, shape):
    value = np.ones(shape, np.float32)

    def said(x):
        try:
            return repr(ask(x))
        except (ArgumentError, ShapeError, TypeError) as problem:
            return type(problem), str(problem).rpartition(";")[2]

    found = []
    functad.grad(lambda x: (found.append(said(x)), x.sum())[1])(value)
    assert found == [said(jnp.asarray(value))]
