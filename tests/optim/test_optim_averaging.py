"""Means of params over steps, gradients of several batches, loss scaling, and steps that are left out."""

from __future__ import annotations

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16

import functad
from functad import numpy as jnp
from functad import optim
from functad.errors import ArgumentError

RNG = np.random.default_rng(0)
PARAMS = [{"w": RNG.normal(size=(2, 3)).astype(np.float32), "b": np.float32(k)} for k in range(7)]


@pytest.mark.parametrize("decay", [None, 0.75])
def test_means_of_params_in_a_compiled_step(decay):
    """As PyTorch's AveragedModel: the first params whole, then equal weights, or exponential ones."""
    step = functad.jit(lambda mean, params: optim.averaged(mean, params, decay))
    mean = optim.average(PARAMS[0])
    for params in PARAMS:
        mean = step(mean, params)
    weights = (
        np.full(7, 1 / 7) if decay is None else np.array([decay**6, *((1 - decay) * decay ** np.arange(5, -1, -1))])
    )
    for name in "wb":
        wanted = sum(weight * params[name] for weight, params in zip(weights, PARAMS))
        np.testing.assert_allclose(mean.params[name], wanted, rtol=1e-5, atol=1e-6)
    assert mean.count == 7


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
def test_means_of_16_bits_lose_no_small_shares(dtype):
    """A thousandth of what params have moved is less than the distance of numbers of 16 bits."""
    mean = optim.averaged(optim.average(jnp.ones(2, dtype)), jnp.ones(2, dtype), 0.999)
    mean, _ = functad.lax.scan(
        lambda m, _: (optim.averaged(m, jnp.full(2, 2.0, dtype), 0.999), None), mean, length=1000
    )
    np.testing.assert_allclose(mean.params, 2 - 0.999**1000, rtol=1e-4)
    assert mean.params.dtype == np.float32


def test_of_counters_the_last_are_kept():
    mean = optim.average({"n": jnp.arange(2), "w": jnp.zeros(1)})
    for n in (1, 5):
        mean = optim.averaged(mean, {"n": jnp.full(2, n), "w": jnp.full(1, float(n))})
    assert mean.params["n"].tolist() == [5, 5] and mean.params["n"].dtype == np.int32 and mean.params["w"] == 3


def test_means_and_factors_take_no_pass_of_their_own():
    """A mean is read and written in the optimizer's pass, and gradients of 16 bits are read once for each question."""
    params, narrow = (functad.ShapeDtypeStruct((1000, 1000), dtype) for dtype in ("float32", "float16"))
    adam = optim.apply_if_finite(optim.adam(0.1), 9)

    def step(params, state, mean, factor, grads):
        grads = optim.unscaled(grads, factor)
        updates, state = adam.update(grads, state, params)
        params = optim.apply_updates(params, updates)
        return params, state, optim.averaged(mean, params, 0.999), optim.rescaled(factor, grads)

    given = [
        params,
        *functad.eval_shape(lambda p: (adam.init(p), optim.average(p), optim.loss_scale()), params),
        narrow,
    ]
    lowered = functad.jit(step, donate_argnums=(0, 1, 2, 3)).lower(*given)
    arrays = [kernel.bytes / 4e6 for kernel in lowered.cost.kernels if kernel.bytes > 1e5]
    assert arrays == pytest.approx([0.5, 8.5], rel=0.02)


def test_steps_of_several_batches_are_those_of_one_large():
    one, several = optim.adam(0.1), optim.MultiSteps(optim.adam(0.1), 3)
    x = y = jnp.array([1.0, -2.0])
    state, split = one.init(x), several.init(y)
    for batch in RNG.normal(size=(2, 3, 2)).astype(np.float32):
        updates, state = one.update(jnp.asarray(batch.mean(0)), state, x)
        x = optim.apply_updates(x, updates)
        for gradient in batch:
            updates, split = several.update(jnp.asarray(gradient), split, y)
            y = optim.apply_updates(y, updates)
    np.testing.assert_allclose(y, x, rtol=1e-5)


# --- loss scaling -------------------------------------------------------------------------------------------


def test_the_factor_halves_at_once_and_doubles_after_a_while():
    factor, seen = optim.loss_scale(8.0), []
    for gradient in (1.0, np.inf, 1.0, 1.0, 1.0, 1.0, np.nan, 1.0, 1.0, 1.0):
        factor = optim.rescaled(factor, {"w": jnp.array([gradient, 0.0])}, period=3)
        seen.append(factor.scale.item())
    assert seen == [8, 4, 4, 4, 8, 8, 4, 4, 4, 8]


@pytest.mark.parametrize(("start", "gradient"), [(1.0, np.nan), (2.0**127, 1.0)])
def test_the_factor_stays_a_number_that_can_be_changed(start, gradient):
    """At infinity, half of it would be infinite for ever."""
    factor = optim.rescaled(optim.loss_scale(start), jnp.array(gradient), period=1)
    assert factor.scale == start and factor.steps == 0


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16, "float32", "float64", "complex64"])
def test_gradients_without_the_factor_are_of_float32_at_least(dtype):
    value = 1 + 2j if dtype == "complex64" else 3.0
    found = optim.unscaled(jnp.full(2, 8 * value, dtype), optim.loss_scale(8.0))
    assert found.dtype == (dtype if dtype in ("float64", "complex64") else "float32")
    assert found.tolist() == [value, value]


def test_small_gradients_of_float16_are_trained_on_with_a_factor_only():
    def step(factor):
        def loss(w):
            return (jnp.square(w.astype("float16")).astype("float32") * 1e-5 * factor.scale).sum()

        return optim.unscaled(functad.grad(loss)(jnp.array([1e-3])), factor)

    assert step(optim.loss_scale(1.0)) == 0
    np.testing.assert_allclose(step(optim.loss_scale()), 2e-8, rtol=1e-2)


# --- steps that are left out -------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [0, 1, 2])
def test_steps_with_gradients_that_are_not_finite_leave_all_as_it_is(most):
    """But after too many in turn: as optax counts them."""
    plain, optimizer = optim.sgd(0.1, momentum=0.5), optim.apply_if_finite(optim.sgd(0.1, momentum=0.5), most)
    update = functad.jit(optimizer.update)
    params = {"a": jnp.ones(2), "b": jnp.zeros(())}
    state, inner = optimizer.init(params), plain.init(params)
    in_turn = total = 0
    for bad in (False, True, False, True, True, True, False):
        grads = {"a": jnp.array([1.0, np.inf if bad else 2.0]), "b": jnp.array(3.0)}
        in_turn, total = (in_turn + 1, total + 1) if bad else (0, total)
        wanted = functad.tree.map(jnp.zeros_like, grads)
        if not bad or in_turn > most:
            wanted, inner = plain.update(grads, inner, params)
        found, state = update(grads, state, params)
        for a, b in zip(functad.tree.leaves((found, state.inner_state)), functad.tree.leaves((wanted, inner))):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        assert (state.notfinite_count, state.total_notfinite) == (in_turn, total)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: optim.apply_if_finite(3, 1), "apply_if_finite: inner is 3, which is no Optimizer"),
        (
            lambda: optim.apply_if_finite(optim.sgd(1.0), -1),
            "max_consecutive_errors must be an int of at least 0, got -1",
        ),
        (
            lambda: optim.apply_if_finite(optim.sgd(1.0), 2.5),
            "max_consecutive_errors must be an int of at least 0, got 2.5",
        ),
        (lambda: optim.MultiSteps(optim.sgd, 2), "MultiSteps: opt is <function sgd.*, which is no Optimizer"),
        (
            lambda: optim.MultiSteps(optim.sgd(1.0), 0),
            "MultiSteps: every_k_schedule must be an int of at least 1, got 0",
        ),
        (lambda: optim.masked("adam", True), "masked: inner is 'adam', which is no Optimizer"),
        (lambda: optim.lazy(optim.adam), "lazy: inner is <function adam.*, which is no Optimizer"),
        (lambda: optim.by_path("bias"), "by_path: 'bias' is no function of key paths; .*lambda path: 'bias' in path"),
        (lambda: optim.loss_scale(0.0), "loss_scale: scale=0.0 must be a number of at least 1"),
        (
            lambda: optim.rescaled(optim.loss_scale(), jnp.ones(1), 0),
            "rescaled: period must be an int of at least 1, got 0",
        ),
        (
            lambda: optim.averaged({"w": 1.0}, {"w": 1.0}),
            r"the mean is of type dict, not Average; .*optim.average\(params",
        ),
        (
            lambda: optim.unscaled(1.0, 8.0),
            r"unscaled: the factor is of type float, not LossScale; .*optim.loss_scale\(",
        ),
        (lambda: optim.rescaled((8.0, 0), 1.0), "rescaled: the factor is of type tuple, not LossScale"),
        (lambda: optim.averaged(optim.average(1.0), 1.0, 2.0), "averaged: decay=2.0 must be .* at most 1"),
    ],
)
def test_what_cannot_be_is_said(wrong, text):
    with pytest.raises(ArgumentError, match=text):
        wrong()
