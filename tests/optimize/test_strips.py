"""Loops that add up products, as a GPU runs them: strips of steps without carries, and products behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz.check import changed

import functad
import functad.numpy as jnp
from functad import execution, interpreter, lax
from functad.backends.cuda import lowering
from functad.config import config
from functad.ir import Eqn, Program
from functad.optimize.loops.devices import DeviceCost
from functad.optimize.pipeline import simplify_for

rng = np.random.default_rng(0)
ROWS, W, V = (rng.normal(size=shape).astype(np.float32) for shape in ((6, 8, 5), (5, 4), (4, 5)))


def layers(rows: Any, w: Any, v: Any) -> Any:
    return lax.map(lambda x: jnp.tanh(jnp.tanh(x @ w) @ v), rows).sum()


def gradient(rows: Any, w: Any, v: Any) -> Any:
    return functad.grad(layers, (0, 1, 2))(rows, w, v)


def over_parts(rows: Any, w: Any, v: Any) -> Any:
    """Each step adds what a loop within stacks: products of rows of the step with those of each part."""

    def step(total: Any, x: Any) -> Any:
        carry, parts = lax.scan(lambda c, u: (jnp.tanh(c * u.sum()), jnp.tanh(x * u.sum()).T @ c), x, v)
        return total + parts, carry

    return lax.scan(step, jnp.zeros((len(v), rows.shape[2], rows.shape[2])), rows)


def tied(rows: Any, w: Any, v: Any) -> Any:
    """Three products, and two sums of a bias, are added up in one carry each."""

    def total(w: Any, b: Any) -> Any:
        return lax.map(lambda x: jnp.tanh(jnp.tanh(jnp.tanh(x @ w + b) @ w.T) @ w + b), rows).sum()

    return functad.grad(total, (0, 1))(w, v[:, 0])


def read_elsewhere(rows: Any, w: Any, v: Any) -> Any:
    def step(total: Any, x: Any) -> Any:
        return total + x.T @ jnp.tanh(x), jnp.tanh(x @ total)

    return lax.scan(step, jnp.zeros((5, 5)), rows)


def changes(rows: Any, w: Any, v: Any) -> Any:
    """A carry that is more than a sum, beside one that is one."""

    def step(carry: Any, x: Any) -> Any:
        total, most = carry
        return (total + x.T @ jnp.tanh(x), jnp.maximum(most, x)), None

    return lax.scan(step, (jnp.zeros((5, 5)), rows[0]), rows)[0]


def cost_by(sign: int) -> Callable[[Program], DeviceCost]:
    """As if the steps of loops with carries, but not of those in loops, were the launches; all have more than one."""

    def cost(program: Program) -> DeviceCost:
        steps = sum(e.params["length"] for e in scans(program) if e.params["num_carry"])
        return DeviceCost(100 + sign * steps)

    return cost


def optimized(
    fun: Callable[..., Any],
    most: float,
    on_device: bool = True,
    sign: int = 1,
) -> Program:
    program = functad.make_jaxpr(fun)(ROWS, W, V)
    numbers = {"CUDA_KEPT_PRODUCT": 0.0, "UNROLLED_STEPS": 0, "LARGEST_HOISTED_PRODUCT": 0.0, "CUDA_STRIP_BYTES": most}
    with changed(numbers):
        made = simplify_for(program, on_device, cost_by(sign))
    for expected, got in zip(interpreter.compile_program(program)((ROWS, W, V)), run(made), strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=2e-5)
    return made


def run(program: Program) -> list[np.ndarray]:
    return [np.asarray(x) for x in interpreter.compile_program(program)((ROWS, W, V))]


def scans(program: Program) -> list[Eqn]:
    return [e for e in program.eqns if e.primitive.name == "scan"]


@pytest.mark.parametrize("fun", [gradient, over_parts, tied])
def test_all_steps_at_once_leave_no_carry(fun: Callable[..., Any]) -> None:
    assert all(e.params["num_carry"] == 0 for e in scans(optimized(fun, 1 << 20)))
    assert any(e.params["num_carry"] for e in scans(optimized(fun, 1 << 20, on_device=False)))  # a CPU goes on adding


@pytest.mark.parametrize(
    ("fun", "each"), [(gradient, 8 * 9 * 4), (over_parts, 8 * 5 * 4 * 2 * 4), (tied, 8 * (4 + 5 + 4) * 4)]
)
@pytest.mark.parametrize(("steps", "strips"), [(3, 2), (2, 3), (5, 2)])
def test_strips_take_no_more_memory_than_there_is(fun: Callable[..., Any], each: int, steps: int, strips: int) -> None:
    *_, outer = scans(optimized(fun, steps * each))
    (inner,) = scans(outer.params["jaxpr"])
    assert outer.params["length"] == strips and inner.params["length"] == 6 // strips
    assert inner.params["num_carry"] == 0 and outer.params["num_carry"] > 0


@pytest.mark.parametrize("fun", [gradient, over_parts, tied])
def test_without_memory_for_two_steps_all_is_added_up_step_by_step(fun: Callable[..., Any]) -> None:
    *_, loop = scans(optimized(fun, 100))
    assert loop.params["length"] == 6 and loop.params["num_carry"] > 0


def carrying_steps(program: Program) -> int:
    """Steps of loops with carries, those in loops, too."""
    inner = [(e.params["length"], e.params["num_carry"] > 0, e.params["jaxpr"]) for e in scans(program)]
    return sum(length * (carries + carrying_steps(body)) for length, carries, body in inner)


@pytest.mark.parametrize("fun", [gradient, over_parts, tied])
@pytest.mark.parametrize("most", [8 * 9 * 4 * 10, 1 << 20])
def test_loops_are_cut_where_that_takes_fewer_launches(fun: Callable[..., Any], most: float) -> None:
    whole, cut = optimized(fun, 100), optimized(fun, most)
    assert carrying_steps(cut) < carrying_steps(whole)
    assert str(optimized(fun, most, sign=-1)) == str(whole)


def test_what_was_chosen_by_one_count_is_not_kept_for_another() -> None:
    program = functad.make_jaxpr(lambda *args: lax.cond(args[0][0, 0, 0] > 0, gradient, gradient, *args))(ROWS, W, V)
    numbers = {"CUDA_KEPT_PRODUCT": 0.0, "UNROLLED_STEPS": 0, "LARGEST_HOISTED_PRODUCT": 0.0}

    def steps(cost: Callable[[Program], DeviceCost]) -> int:
        (eqn,) = (e for e in simplify_for(program, True, cost).eqns if e.primitive.name == "cond")
        return sum(map(carrying_steps, eqn.params["branches"]))

    with changed(numbers):
        program = simplify_for(program, False)  # whose branches stay the same objects
        assert steps(cost_by(1)) == 0 < steps(cost_by(-1))


def test_launches_are_counted_anew_under_other_options(monkeypatch: pytest.MonkeyPatch) -> None:
    program = functad.make_jaxpr(gradient)(ROWS, W, V)
    signs = {"cublas": 1, "functad": -1}
    monkeypatch.setattr(lowering, "device_cost_of", lambda p: cost_by(signs[config.cuda_products])(p))
    numbers = {"CUDA_KEPT_PRODUCT": 0.0, "UNROLLED_STEPS": 0, "LARGEST_HOISTED_PRODUCT": 0.0}
    found = []
    for products in signs:
        with config.context(cuda_products=products), changed(numbers):
            found.append(carrying_steps(execution.optimized(program, "cuda")))
    assert found[0] == 0 < found[1]


def partly(rows: Any, w: Any, v: Any) -> Any:
    """Of what is added to one carry, one is no sum."""
    return lax.scan(lambda c, x: (c + (x.T @ jnp.tanh(x) + jnp.exp(x[:5])), None), jnp.zeros((5, 5)), rows)[0]


@pytest.mark.parametrize("fun", [read_elsewhere, changes, partly])
def test_carries_that_are_more_than_sums_stay(fun: Callable[..., Any]) -> None:
    (loop,) = scans(optimized(fun, 1 << 20))
    assert loop.params["length"] == 6 and loop.params["num_carry"] > 0


def mapped(rows: Any, w: Any, v: Any) -> Any:
    """What is added is computed from products by a loop, which has a rule for cotangents, but is not linear."""
    return lax.scan(lambda c, x: (c + lax.map(jnp.sin, x.T @ jnp.tanh(x)), None), jnp.zeros((5, 5)), rows)[0]


def rounded(rows: Any, w: Any, v: Any) -> Any:
    def step(total: Any, x: Any) -> Any:
        return total + lax.reduce_precision(x.T @ jnp.tanh(x), 8, 3), None

    return lax.scan(step, jnp.zeros((5, 5)), rows)[0]


@pytest.mark.parametrize("fun", [mapped, rounded])
def test_products_of_which_something_is_computed_are_not_added_up_before(fun: Callable[..., Any]) -> None:
    (loop,) = scans(optimized(fun, 1 << 20))
    assert loop.params["num_carry"] == 1


@pytest.mark.parametrize("steps", [0, 1])
def test_loops_of_no_or_one_step_are_no_strips(steps: int) -> None:
    def short(rows: Any, w: Any, v: Any) -> Any:
        return lax.scan(lambda c, x: (c + x.T @ jnp.tanh(x), None), jnp.ones((5, 5)), rows[:steps])

    assert not scans(optimized(short, 1 << 20))
