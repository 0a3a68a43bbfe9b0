"""Loops without carries on a GPU, in all steps at once, and sums of products that are taken out of loops first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz.check import changed

import functad
import functad.numpy as jnp
from functad import interpreter, lax
from functad.backends.cuda.lowering import device_cost_of
from functad.ir import Eqn, Program
from functad.optimize.loops.devices import DeviceCost
from functad.optimize.pipeline import simplify_for

rng = np.random.default_rng(0)
W = rng.normal(size=(8, 8)).astype(np.float32)
WIDE, TALL = (rng.normal(size=(24, rows, 8)).astype(np.float32) for rows in (4, 40))


def layers(w: Any, xs: Any) -> Any:
    return lax.map(lambda x: jnp.tanh(jnp.tanh(x @ w) @ w), xs)


def gradient(w: Any, xs: Any) -> Any:
    return functad.grad(lambda w: layers(w, xs).sum())(w)


def of_kind(program: Program, name: str) -> list[Eqn]:
    return [e for e in program.eqns if e.primitive.name == name]


def made_for(fun: Callable[..., Any], *args: Any, on_device: bool = True, cost: Any = device_cost_of) -> Program:
    """The Program for a GPU or a CPU, with the results of the one as it was traced."""
    program = functad.make_jaxpr(fun)(*args)
    made = simplify_for(program, on_device, cost)
    for expected, got in zip(interpreter.compile_program(program)(args), interpreter.compile_program(made)(args)):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)
    return made


@pytest.mark.parametrize("fun", [layers, gradient])
@pytest.mark.parametrize("xs", [WIDE, TALL])  # steps that would be one thread's work, and such that would not
def test_steps_without_carries_are_few_launches(fun: Callable[..., Any], xs: np.ndarray) -> None:
    made = made_for(fun, W, xs)
    assert not of_kind(made, "scan") and device_cost_of(made).launches <= 4


def test_a_loop_within_a_step_runs_once_for_all() -> None:
    def step(x: Any) -> Any:
        return lax.scan(lambda c, row: (jnp.tanh(c @ W + row), None), x[0], x)[0]

    with changed({"CUDA_SMALL_STEP": 0.0}):
        (loop,) = of_kind(made_for(lambda xs: lax.map(step, xs), TALL), "scan")
    assert loop.params["num_carry"] == 1 and loop.params["length"] == 40 and loop.outvars[0].aval.shape == (24, 8)


def test_they_stay_steps_where_that_takes_no_more_launches_or_less_memory() -> None:
    def maps(cost: Callable[[Program], DeviceCost]) -> int:
        return len(of_kind(made_for(lambda xs: lax.map(lambda x: jnp.cumsum(x, 1), xs), WIDE, cost=cost), "scan"))

    def launches(program: Program) -> int:
        return 1 + 24 * len(of_kind(program, "scan"))

    assert maps(lambda program: DeviceCost(launches(program))) == 0
    assert maps(lambda program: DeviceCost(7)) == 1
    assert maps(lambda program: DeviceCost(launches(program), (2 - launches(program)) << 30)) == 1


def test_what_may_never_end_or_calls_python_stays_in_its_step() -> None:
    def halved(x: Any) -> Any:
        return lax.while_loop(lambda x: x.sum() > 1, lambda x: x / 2, x)

    def printed(x: Any) -> Any:
        functad.debug.print("{}", x.sum(), ordered=True)
        return x * 2

    def called(x: Any) -> Any:
        return functad.pure_callback(np.sin, functad.ShapeDtypeStruct(x.shape, x.dtype), x)

    for step in (halved, printed, called):
        program = functad.make_jaxpr(lambda xs, step=step: lax.map(step, xs))(WIDE)
        assert of_kind(simplify_for(program, True), "scan")


def test_what_is_smaller_is_stacked_for_the_gradient_of_a_weight() -> None:
    """The operands of its products, or on a CPU their results, if steps have more rows than these have columns."""

    def products(xs: np.ndarray, on_device: bool) -> set[tuple[int, ...]]:
        found = of_kind(made_for(gradient, W, xs, on_device=on_device), "dot_general")
        return {e.outvars[0].aval.shape for e in found}

    for on_device, xs in ((True, WIDE), (True, TALL), (False, WIDE)):
        assert (8, 8) in products(xs, on_device) and (24, 8, 8) not in products(xs, on_device)
    assert (24, 8, 8) in products(TALL, False)


def test_matrices_are_not_transposed_to_add_up_their_products_with_vectors() -> None:
    def total(xs: Any, ys: Any) -> Any:
        return lax.scan(lambda c, pair: (c + pair[0] @ pair[1], None), jnp.zeros(xs.shape[1]), (xs, ys))[0]

    for on_device in (False, True):
        made = made_for(total, TALL, WIDE[:, 0], on_device=on_device)
        (product,) = of_kind(made, "dot_general")
        assert product.outvars[0].aval.shape == ((40,) if on_device else (24, 40))
