"""What loops and branches bind and trace, their types, `disable_jit`, and what is said of mistakes."""

from __future__ import annotations

import functools
import gc
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from control_flow_tools import BACKENDS, ROWS, Pair, X, close, equations, run

import functad
import functad.numpy as jnp
from functad import config, lax
from functad.calls.common import _PARTNERS, memoised_together
from functad.control.forwarding import bind_cond
from functad.errors import ArgumentError, BodyError, ConcretizationError, LeakedTracerError, ProgramError
from functad.tracing import Tracer

# --- types ----------------------------------------------------------------------------------------------------------


def test_python_numbers_in_a_carry_take_the_dtype_of_the_body():
    assert lax.scan(lambda c, x: (c + x, c), 0, np.float64([1, 2]))[0].dtype == np.float64
    assert lax.scan(lambda c, x: (c + x, c), 0.0, np.float16([1, 2]))[1].dtype == np.float16
    assert lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0).weak_type
    assert lax.while_loop(lambda c: c < 3, lambda c: c + 0.5, 0).dtype == np.float32
    # A change that goes through the carry part by part, from one round to the next.
    chain = lax.scan(lambda c, _: ((c[1], c[2], c[2] + np.float16(1)), None), (0, 0, 0), None, length=2)[0]
    assert [c.dtype for c in chain] == [np.float16] * 3
    with pytest.raises(BodyError, match=r"init has type f32\[\] \(weak: from a Python number\).*asarray\(…, 'int8'\)"):
        lax.scan(lambda c, x: (c.astype("int8"), None), 1.5, np.arange(2))


def test_python_numbers_in_branches_take_the_dtype_of_the_other():
    x = np.array(2.0)
    assert lax.cond(True, lambda: 1, lambda: x).dtype == np.float64
    assert lax.switch(0, [lambda: 1, lambda: 2.5, lambda: 3]).dtype == np.float32
    assert not lax.cond(True, lambda: 1.0, lambda: np.float32(2)).weak_type
    assert lax.cond(True, lambda: 1.0, lambda: 2.0).weak_type
    with pytest.raises(BodyError, match=r"true_fun has type f32\[\], that of false_fun i32\[\].*astype\('int32'\)"):
        lax.cond(True, lambda: 1.5, lambda: np.int32(2))


def test_types_of_64_bits_are_kept_and_traced_anew():
    def step(c, _):
        return c + jnp.asarray(1.0), c.dtype.itemsize

    assert lax.scan(step, 0.0, None, length=2)[0].dtype == np.float32
    with config.context(enable_x64=True):
        assert lax.scan(step, 0.0, None, length=2)[0].dtype == np.float64
    assert lax.scan(step, 0.0, None, length=2)[0].dtype == np.float32


# --- what is bound --------------------------------------------------------------------------------------------------


def test_what_passes_through_is_no_part_of_the_loop():
    rows = jnp.asarray(ROWS)

    def fun(params, x):
        def step(carry, row):
            params, c = carry
            return (params, c * params["w"] + row), (row, c)

        (params, last), (same, cs) = lax.scan(step, (params, x), rows)
        return params, last, same, cs

    params = {"w": jnp.asarray(X)}
    out = fun(params, jnp.asarray(X))
    assert out[0]["w"] is params["w"] and out[2] is rows
    program = functad.make_jaxpr(functad.grad(lambda p, x: fun(p, x)[1].sum()))(params, X)
    forward, backward = equations(program, "scan")
    assert forward.params["num_carry"] == 1
    assert [v.aval.shape for v in forward.outvars].count((4, 3)) <= 2  # cs; the parameters are not stacked
    assert all(v.aval.shape != (4, 4, 3) for v in backward.invars)


def test_what_passes_through_a_while_loop_or_branches():
    fixed, x = jnp.asarray(X), jnp.asarray(1.0)
    out = lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + s[1].sum() ** 2, s[1]), (x, fixed))
    assert out[1] is fixed
    assert lax.cond(True, lambda a, b: (b, a), lambda a, b: (b, a * 2), x, fixed)[0] is fixed
    asked = lambda s: s[0] < s[1]  # noqa: E731
    close(lax.while_loop(asked, lambda s: (s[0] + 1, s[1]), (0, 4)), (4, 4))
    everything = lambda a, b: (a, b)  # noqa: E731
    assert lax.cond(False, everything, everything, x, fixed)[1] is fixed


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_actions_run_though_all_results_pass_through(backend):
    seen = []

    def note(name):
        def branch(x):
            functad.debug.callback(lambda v: seen.append((name, float(v))), x)
            return x

        return branch

    def fun(x):
        x = lax.cond(x > 0, note("yes"), note("no"), x)
        x, _ = lax.scan(lambda c, _: (note("scan")(c), None), x, None, length=2)
        return lax.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, note("while")(s[1])), (0, x))[1]

    for transformed in (fun, functad.grad(fun)):
        seen.clear()
        run(transformed, np.array(3.0), backend=backend)
        assert sorted(seen) == sorted([("yes", 3.0)] + [("scan", 3.0), ("while", 3.0)] * 2)


def test_a_body_is_traced_once():
    traced = []

    def step(c, x):
        traced.append(x.dtype)
        return c + x, c

    for _ in range(3):
        lax.scan(step, np.float32(0), np.float32([1, 2]))
        functad.grad(lambda v: lax.scan(step, np.float32(0), v)[0])(np.float32([1, 2]))
    assert len(traced) == 1
    lax.scan(step, np.array(0.0), np.float64([1, 2]))
    assert len(traced) == 2


def test_bodies_that_are_equal_but_not_the_same_are_traced_each():
    @dataclass(frozen=True)
    class Cell:
        factor: float

        def __call__(self, c, x):
            return c + x, x * self.factor

    assert Cell(1) == Cell(1.0)
    assert lax.scan(Cell(1), 0, np.arange(3))[1].dtype == np.int64
    assert lax.scan(Cell(1.0), 0, np.arange(3))[1].dtype.kind == "f"
    assert [float(lax.scan(Cell(k).__call__, 0, np.arange(3))[1][2]) for k in (1.0, 2.0)] == [2.0, 4.0]


def test_a_body_that_closes_over_traced_values_is_traced_each_time():
    def outer(scale):
        held.append(scale)
        return lax.scan(step, 0.0, X)[0]

    held: list[Any] = []
    step = lambda c, x: (c + x * held[-1], None)  # noqa: E731
    close([functad.grad(outer)(s) for s in (1.0, 2.0)], [X.sum()] * 2, 1e-6)
    close([functad.jit(outer)(s) for s in (1.0, 2.0)], [X.sum(), 2 * X.sum()], 1e-6)


def test_nothing_is_kept_alive():
    """Bodies made for one call, and values they close over, are free when the call is over."""
    gc.collect()
    steady = lambda x: x * 2.0  # noqa: E731
    bodies = []

    def fun(x):
        closure = lambda v: v * x  # noqa: E731
        bodies.append(weakref.ref(closure))
        held.append(weakref.ref(x))
        y = lax.cond(x.sum() > 0, closure, steady, x)
        y = lax.while_loop(lambda c: c.sum() < 10, lambda c: c + jnp.abs(x), y)
        return lax.scan(lambda c, _: (c * x, None), y, None, length=2)[0].sum()

    held: list[Any] = []
    for _ in range(3 * _PARTNERS):
        functad.grad(fun)(X)
        functad.vmap(fun)(ROWS)
    gc.collect()
    assert not any(ref() for ref in bodies)
    assert not any(isinstance(ref(), Tracer) for ref in held)


def test_programs_used_together_are_remembered_and_forgotten():
    make = lambda k: functad.make_jaxpr(lambda x: x * k)(1.0)  # noqa: E731
    first, second = make(1.0), make(2.0)
    made = []
    for _ in range(3):
        assert memoised_together((first, second), "key", lambda: made.append(1) or "value") == "value"
        assert memoised_together((first, first), "key", lambda: "with itself") == "with itself"
    assert made == [1]
    (partners,) = [v for k, v in first.cache.items() if k == "together with"]
    del second
    gc.collect()
    assert len(partners) == 1
    others = [make(float(k)) for k in range(2 * _PARTNERS)]
    for other in others:
        memoised_together((first, other), "key", lambda: "value")
    assert len(partners) <= _PARTNERS


def test_constants_of_branches_are_shared():
    table = jnp.asarray(ROWS)
    program = functad.make_jaxpr(lambda p: lax.cond(p, lambda: table.sum(0), lambda: (table * 2).sum(0)))(True)
    (eqn,) = equations(program, "cond")
    assert len(eqn.invars) == 2 and len(program.consts) == 1


# --- without jit, and with the checks -------------------------------------------------------------------------------


def test_disable_jit_runs_python():
    seen = []

    def step(c, x):
        seen.append(float(x))
        return c + x, c

    with functad.disable_jit():
        last, ys = lax.scan(step, 0.0, X, reverse=True)
        close((last, ys), (X.sum(), X[::-1].cumsum()[::-1] - X), 1e-6)
        assert seen == X[::-1].tolist()
        assert isinstance(lax.fori_loop(0, 3, lambda i, c: c + 1, 0), functad.Array)
        assert isinstance(lax.while_loop(lambda c: c < 3, lambda c: 5, 0), functad.Array)
        assert lax.fori_loop(3, 0, lambda i, c: c + 1, 7) == 7
        assert lax.switch(9, [lambda: 1, lambda: 2]) == 2
        with pytest.raises(ArgumentError, match="length 0"):
            lax.scan(step, 0.0, None, length=0)


def test_disable_jit_counts_in_python_integers():
    counters = []

    def body(i, total):
        counters.append(i)
        return total + [1, 10, 100][i]

    with functad.disable_jit():
        for bounds in ((0, 3), (np.int32(0), jnp.int32(3)), (jnp.uint8(0), 3)):
            assert lax.fori_loop(*bounds, body, 0) == 111
        assert functad.grad(lambda x: lax.fori_loop(0, 3, lambda i, y: y * x ** (2 * i), x))(2.0) == 7 * 2**6
        assert [type(i) for i in counters] == [int] * 9 and counters == [0, 1, 2] * 3
        far = 1 << 40
        assert lax.fori_loop(np.array(far), np.array(far + 2), lambda i, last: i, np.array(0)) == far + 1


def test_disable_jit_within_vmap_still_needs_the_equations():
    with functad.disable_jit():
        close(functad.vmap(lambda x: lax.cond(x > 0, jnp.sin, lambda x: x, x))(X), np.where(X > 0, np.sin(X), X))
        close(
            functad.vmap(lambda x: lax.while_loop(lambda c: c < 1, lambda c: c + 1, x))(X),
            [1.3, 1.3 - 1 + 0, 1.1][:0] or np.array([1.3, 1.3, 1.1]),
        )
        close(functad.vmap(lambda i: lax.switch(i, [lambda: 1.0, lambda: 2.0]))(np.array([1, 0])), np.array([2.0, 1.0]))


def test_debug_nans_names_the_line_within_the_body():
    def step(c, x):
        return c + jnp.log(x), None  # the culprit

    with functad.debug_nans(True), pytest.raises(FloatingPointError, match="`log` made a NaN") as error:
        lax.scan(step, 0.0, jnp.array([1.0, -1.0]))
    assert f":{step.__code__.co_firstlineno + 1} (step)" in str(error.value)


# --- mistakes -------------------------------------------------------------------------------------------------------


def test_python_control_flow_in_a_body_names_the_loop_and_the_line():
    def step(c, x):
        return (c if c > 0 else x), None

    with pytest.raises(ConcretizationError, match=r"`gt` at .*\(step\), traced by scan of step"):
        lax.scan(step, 1.0, X)
    with pytest.raises(ConcretizationError, match=r"argument `s\['n'\]` of while_loop of"):
        lax.while_loop(lambda s: s["n"] < 3, lambda s: {"n": s["n"] + 1 if s["n"] else 1}, {"n": 0})


def test_a_traced_value_that_escapes_a_body_is_named():
    escaped = []

    def step(c, x):
        escaped.append(x * 2)
        return c + x, None

    lax.scan(step, 0.0, X)
    with pytest.raises(LeakedTracerError, match=r"`mul` at .*\(step\), traced by scan of step"):
        escaped[0] + 1


def test_a_carry_that_changes_its_structure_is_shown_with_paths():
    with pytest.raises(BodyError) as error:
        lax.scan(lambda c, _: ({"a": c["a"], "c": c["b"]}, None), {"a": 1.0, "b": 2.0}, None, length=3)
    for part in ("scan", "the carry that f returns has a leaf at `['c']`", "init has a leaf at `['b']`", "same keys"):
        assert part in str(error.value)


def test_a_carry_that_changes_its_types_is_shown_with_paths_types_and_a_fix():
    init = Pair(jnp.ones(2), {"n": jnp.int32(1)})
    with pytest.raises(BodyError) as error:
        lax.while_loop(lambda s: s.b["n"] < 3, lambda s: Pair(s.a.sum(), {"n": jnp.float16(s.b["n"])}), init)
    text = str(error.value)
    assert (
        "what body_fun returns at `.a` has type f32[], init_val at `.a` has type f32[2]: shapes must be equal" in text
    )
    assert (
        "at `.b['n']` has type f16[], init_val at `.b['n']` has type i32[]: convert one of them, `.astype('int32')`"
        in text
    )


def test_errors_in_a_body_leave_no_trace_behind():
    with pytest.raises(ZeroDivisionError):
        lax.scan(lambda c, x: (1 // 0, None), 0.0, X)
    assert functad.tracing.current_trace() is None
    close(lax.scan(lambda c, x: (c + x, None), 0.0, X)[0], X.sum(), 1e-6)


@pytest.mark.parametrize(
    "fun",
    [
        lambda f, x: lax.cond(True, f, f, x),
        lambda f, x: lax.switch(0, [f, f], x),
        lambda f, x: lax.while_loop(lambda v: v < 9, f, x),
    ],
)
def test_disable_jit_runs_a_function_once_even_if_it_asks_for_a_value_that_is_not_there(fun):
    """Its error is the user's to see: the function must not be run a second time."""
    calls = []

    def body(v):
        calls.append(v)
        raise functad.errors.ConcretizationError("the user's own")

    with functad.config.context(disable_jit=True), pytest.raises(functad.errors.ConcretizationError, match="own"):
        fun(body, 1.0)
    assert len(calls) == 1


def test_a_python_loop_goes_on_as_an_equation_where_its_condition_has_no_value():
    def fun(x):
        return lax.while_loop(lambda v: v[1] < v[0], lambda v: (v[0], v[1] + 1), (x, 0))[1]

    with functad.config.context(disable_jit=True):
        close(functad.vmap(fun)(jnp.array([0, 3, 5])), np.array([0, 3, 5]))
        assert int(fun(4)) == 4


def test_branches_of_unequal_types_are_no_program():
    short, long = (functad.make_jaxpr(lambda x, d=d: x.astype(d))(jnp.ones(2)) for d in ("float32", "float64"))
    with pytest.raises(ProgramError, match=r"branches return f32\[2\] and f64\[2\], which must be the same"):
        bind_cond([short, long], jnp.int32(0), [jnp.ones(2)])


def test_a_decorated_body_is_called_as_it_is():
    @functools.wraps(lambda carry, x, scale: None)  # which is the signature that `inspect` tells
    def body(carry, x):
        return carry + 2 * x, None

    for fun in (body, functad.jit(body)):
        assert lax.scan(fun, 0.0, jnp.ones(3))[0] == 6.0


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        (lambda f: lax.scan(f, 0.0, jnp.ones(3)), "is called with 2 arguments, but cannot be .*: it calls f.carry, x"),
        (lambda f: lax.fori_loop(0, 3, f, 0.0), "is called with 2 arguments, .*: it calls body_fun.i, value"),
        (lambda f: lax.switch(0, [f], 0.0), "is called with 1 argument, .*: it calls one of switch"),
        (lambda f: lax.map(f, (jnp.ones(3),)), "is called with 1 argument, .*: it calls f.x., where several arrays"),
    ],
)
def test_a_body_of_other_arguments_is_told_how_it_is_called(loop, message):
    with pytest.raises(BodyError, match=message):
        loop(lambda a, b, c: a)

    def fails(*args):
        raise TypeError("of its own")

    with pytest.raises(TypeError, match="of its own"):
        loop(fails)
