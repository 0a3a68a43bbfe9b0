"""What is computed from whole stacks for one scan alone is computed slice by slice within it, where that is cheap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optimized_tools import optimized_program

import functad
import functad.numpy as jnp
from functad import lax
from functad.all_primitives import registry
from functad.execution import optimized
from functad.ir import Absent, Aval, Eqn, Var
from functad.lowering_rules import Contraction, Indexed, Reduction, Scalar
from functad.optimize.pipeline import simplify

STEPS, SIZE = 20, 100
RNG = np.random.default_rng(0)
XS = RNG.normal(size=(STEPS, SIZE)).astype(np.float32)
MORE = RNG.normal(size=(STEPS, SIZE)).astype(np.float32)
ROW = RNG.normal(size=SIZE).astype(np.float32)


def decayed(xs: Any, **options: Any) -> Any:
    return lax.scan(lambda s, x: ((n := jnp.tanh(s * 0.5 + x)), n), jnp.zeros(xs.shape[1:]), xs, **options)


def names(program: Any) -> list[str]:
    return [e.primitive.name for e in program.eqns]


def scans(program: Any) -> list[Any]:
    return [e for e in program.eqns if e.primitive.name == "scan"]


def body(scan: Any) -> Any:
    return scan.params["jaxpr"]


@pytest.mark.parametrize("reverse", [False, True])
def test_inputs_are_scaled_in_the_loop(reverse: bool) -> None:
    program = optimized_program(lambda x, b, f: decayed((x - b) / f, reverse=reverse)[0], XS, ROW, np.float32(3))
    (scan,) = scans(program)
    assert "sub" not in names(program) and "div" not in names(program)
    assert names(body(scan))[:3] == ["broadcast_in_dim", "sub", "div"]
    shapes = [a.aval.shape for a in scan.invars]
    assert (STEPS, SIZE) in shapes and (SIZE,) in shapes  # the row is read as it is


def test_bytes_are_converted_in_the_loop() -> None:
    images = RNG.integers(0, 255, (STEPS, SIZE)).astype(np.uint8)
    (scan,) = scans(optimized_program(lambda u: decayed(u.astype("float32") / 255)[0], images))
    assert [a.aval.dtype.name for a in scan.invars if a.aval.ndim == 2] == ["uint8"]


def test_the_derivative_of_an_error_at_every_step_is_computed_in_the_loop_back() -> None:
    def error(start: Any, xs: Any, targets: Any) -> Any:
        states = lax.scan(lambda s, x: ((n := jnp.tanh(s * 0.5 + x)), n), start, xs)[1]
        return ((states - targets) ** 2).mean()

    program = optimized_program(functad.grad(error), ROW, XS, MORE)
    _, back = scans(program)
    assert any(a is program.invars[2] for a in back.invars)
    assert names(program).count("scan") == 2 and not {"sub", "mul"} & set(names(program))


PIXELS = np.zeros((28, 100, 28), np.float32) + np.linspace(-1, 1, 28, dtype=np.float32)
WEIGHTS = RNG.normal(size=(28, 512)).astype(np.float32)
BIAS = RNG.normal(size=512).astype(np.float32)


def product_before(x: Any, w: Any, b: Any) -> Any:
    return decayed(x @ w + b)[0]


def product_inside(x: Any, w: Any, b: Any) -> Any:
    start = jnp.zeros((x.shape[1], w.shape[1]))
    return lax.scan(lambda s, x: (jnp.tanh(s * 0.5 + (x @ w + b)), None), start, x)[0]


@pytest.mark.parametrize("fun", [product_before, product_inside])
def test_products_of_few_terms_are_computed_in_the_loop(fun: Any) -> None:
    program = optimized_program(fun, PIXELS, WEIGHTS, BIAS)
    (scan,) = scans(program)
    assert "dot_general" in names(body(scan)) and "dot_general" not in names(program)
    assert not any(a.aval.shape == (28, 100, 512) for e in program.eqns for a in e.invars)
    assert str(simplify(program)) == str(program)


@pytest.mark.parametrize("fun", [product_before, product_inside])
@pytest.mark.parametrize(
    ("rows", "terms", "columns"),
    [(100, 64, 512), (10, 28, 512), (100, 28, 128)],  # many terms, little to do in a step, a small stack
)
def test_other_products_are_computed_for_all_steps_at_once(fun: Any, rows: int, terms: int, columns: int) -> None:
    x, w = np.zeros((28, rows, terms), np.float32), np.zeros((terms, columns), np.float32)
    program = optimized_program(fun, x, w, w[0])
    (scan,) = scans(program)
    assert "dot_general" in names(program) and "dot_general" not in names(body(scan))


def test_products_in_the_loop_give_the_same() -> None:
    expected = np.zeros((100, 512))
    for x in PIXELS:
        expected = np.tanh(expected * 0.5 + (x @ WEIGHTS + BIAS))
    found = functad.jit(product_before)(PIXELS, WEIGHTS, BIAS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_values_for_each_row_of_each_step_stay_small() -> None:
    xs = XS.reshape(STEPS, 10, 10)
    program = optimized_program(lambda x: decayed(x - x.mean(2, keepdims=True))[0], xs)
    (scan,) = scans(program)
    assert "sub" in names(body(scan))
    assert sorted(a.aval.size for a in scan.invars if a.aval.shape[:1] == (STEPS,)) == [STEPS * 10, STEPS * 100]


def test_what_is_the_same_in_all_steps_is_read_once() -> None:
    program = optimized_program(lambda r: decayed(jnp.broadcast_to(r, (STEPS, SIZE)))[0], ROW)
    (scan,) = scans(program)
    assert [a.aval.shape for a in scan.invars if a.aval.size > 1 and a in program.invars] == [(SIZE,)]
    assert not any(a.aval.shape == (STEPS, SIZE) for a in scan.invars)


def test_an_operand_that_is_read_already_is_read_once() -> None:
    def fun(x: Any, y: Any) -> Any:
        def step(s: Any, xs: Any) -> tuple[Any, None]:
            a, b, c = xs
            return jnp.tanh(s + a * jnp.sin(b) - c), None

        return lax.scan(step, jnp.zeros(SIZE), (x, x + y, y * y))[0]

    (scan,) = scans(optimized_program(fun, XS, MORE))
    assert sum(a.aval.shape == (STEPS, SIZE) for a in scan.invars) == 2


KEPT = {
    "read by two loops": lambda x, y: (xs := x + y, decayed(xs)[0] + decayed(xs, reverse=True)[0])[1],
    "a result": lambda x, y: (xs := x + y, (xs, decayed(xs)[0]))[1],
    "an expensive operation": lambda x, y: decayed(jnp.exp(x))[0],
    "of an expensive operation": lambda x, y: decayed(jnp.exp(x) + y)[0],
    "of a product": lambda x, y: decayed(x @ (y.T @ y) + 1)[0],
    "of moved elements": lambda x, y: decayed(x[:, ::-1] + y)[0],
    "of moved slices": lambda x, y: decayed((x.T * 2).T[::-1] + y)[0],
    "of running sums": lambda x, y: decayed(jnp.cumsum(x, 0)[::-1] + y)[0],
    "of short slices": lambda x, y: decayed(x[:, :9] + y[:, :9])[0],
    "stacked": lambda x, y: lax.scan(lambda s, v: (jnp.sin(s + v), v), jnp.zeros(SIZE), x + y),
    "carried": lambda x, y: lax.scan(lambda s, v: ((v, jnp.sin(s[1] + s[0])), None), (x[0], y[0]), x + y)[0],
    "one axis for steps and elements": lambda x, y: decayed(jnp.broadcast_to(x[0, :STEPS, None], x.shape) + y)[0],
}


@pytest.mark.parametrize("case", KEPT)
def test_other_stacks_are_made_before_the_loop(case: str) -> None:
    program = optimized_program(KEPT[case], XS, MORE)
    for scan in scans(program):
        assert names(body(scan)) in (["mul", "add", "tanh"], ["add", "sin"])
        assert not any(a in program.invars for a in scan.invars if a.aval.shape == (STEPS, SIZE))


def test_nothing_changes_a_second_time() -> None:
    program = optimized_program(lambda x, y, r: decayed(x * y + r)[0], XS, MORE, ROW)
    again = simplify(program)
    assert names(again) == names(program)
    assert [names(body(s)) for s in scans(again)] == [names(body(s)) for s in scans(program)]


def test_the_size_of_a_program_does_not_depend_on_the_length_of_a_loop() -> None:
    sizes = []
    for length in (20, 2000):
        given = functad.ShapeDtypeStruct((length, SIZE), "float32")
        made = optimized(functad.make_jaxpr(lambda x: decayed(x * 2 + 1)[0])(given))
        sizes.append(len(made.eqns) + sum(len(body(s).eqns) for s in scans(made)))
    assert sizes[0] == sizes[1]


@np.errstate(all="ignore")
def test_what_records_say_of_slices_holds_in_their_examples() -> None:
    found: dict[type, set[str]] = {}
    for name, primitive in registry.items():
        rule = primitive.lower
        if isinstance(primitive.examples, Absent) or not isinstance(rule, Scalar | Indexed | Reduction | Contraction):
            continue
        for example in primitive.examples():
            args = [np.asarray(x) for x in example.args]
            whole = primitive.impl(*args, **example.params)
            if not isinstance(whole, np.ndarray) or not whole.ndim:
                continue
            operands = [Var(Aval(x.shape, x.dtype)) for x in args]
            of_slice = rule.of_slices(Eqn(primitive, operands, example.params, [Var(Aval(whole.shape, whole.dtype))]))
            for k, wanted in enumerate(whole[:2] if of_slice is not None else ()):
                params, is_cut = of_slice
                given = [x[k] if cut else x for x, cut in zip(args, is_cut, strict=True)]
                np.testing.assert_allclose(primitive.impl(*given, **params), wanted, rtol=1e-6, err_msg=name)
                found.setdefault(type(rule), set()).add(name)
    assert found[Indexed] == {"broadcast_in_dim", "transpose"} and found[Contraction] == {"dot_general"}
    assert len(found[Scalar]) > 50 and "reduce_max" in found[Reduction]
