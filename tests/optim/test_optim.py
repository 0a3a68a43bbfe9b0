"""The optimizers: updates by hand, schedules at their corners, pytrees, dtypes, jit."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import numpy as jnp
from functad import optim
from functad.errors import ArgumentError, ShapeError, TreeError

PARAMS = {"w": np.array([1.0, -2.0], np.float32), "b": (np.array(0.5, np.float32),)}
GRADS = {"w": np.array([3.0, 0.0], np.float32), "b": (np.array(4.0, np.float32),)}


def run(optimizer, gradients, start=0.0):
    """The params after each step of a scalar with these gradients."""
    x = jnp.array(start)
    state = optimizer.init(x)
    trail = []
    for gradient in gradients:
        updates, state = optimizer.update(jnp.array(gradient), state, x)
        x = optim.apply_updates(x, updates)
        trail.append(float(x))
    return trail


def _by_hand(gradients, rate, momentum, nesterov):
    x = velocity = 0.0
    trail = []
    for g in gradients:
        velocity = g + momentum * velocity
        x -= rate * (g + momentum * velocity if nesterov else velocity)
        trail.append(x)
    return trail


GRADIENTS = [1.0, -2.0, 0.5, 3.0]


@pytest.mark.parametrize(("momentum", "nesterov"), [(None, False), (0.9, False), (0.9, True)])
def test_sgd_by_hand(momentum, nesterov):
    expected = _by_hand(GRADIENTS, 0.1, momentum or 0.0, nesterov)
    np.testing.assert_allclose(run(optim.sgd(0.1, momentum, nesterov), GRADIENTS), expected, rtol=1e-6)


def test_sgd_keeps_structure_and_dtype():
    optimizer = optim.sgd(0.1, momentum=0.9)
    updates, _ = optimizer.update(GRADS, optimizer.init(PARAMS), PARAMS)
    new = optim.apply_updates(PARAMS, updates)
    assert functad.tree.structure(new) == functad.tree.structure(PARAMS)
    np.testing.assert_allclose(np.asarray(new["w"]), [0.7, -2.0], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(new["b"][0]), 0.1, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_no_dtype_changes_under_any_link(dtype):
    params = np.ones(3, dtype)
    optimizer = optim.chain(
        optim.clip(10.0),
        optim.clip_by_global_norm(1.0),
        optim.add_decayed_weights(0.1),
        optim.trace(0.9, nesterov=True),
        optim.scale(2.0),
        optim.scale_by_learning_rate(optim.cosine_decay_schedule(0.1, 10)),
    )
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    assert updates.dtype == dtype and optim.apply_updates(params, updates).dtype == dtype


def test_a_step_under_jit_traces_once_and_agrees():
    optimizer = optim.sgd(optim.linear_schedule(0.1, 0.0, 3), momentum=0.9, nesterov=True)
    traces = []

    def step(params, state, grads):
        traces.append(1)
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    fast = functad.jit(step)
    params, state = PARAMS, optimizer.init(PARAMS)
    plain, plain_state = PARAMS, state
    for _ in range(4):
        params, state = fast(params, state, GRADS)
    assert len(traces) == 1
    for _ in range(4):
        plain, plain_state = step(plain, plain_state, GRADS)
    for a, b in zip(functad.tree.leaves((params, state)), functad.tree.leaves((plain, plain_state)), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6)
    count = state[1].count
    assert count.dtype == np.int32 and int(count) == 4


def test_a_schedule_sets_the_rate_of_each_step():
    rate = optim.piecewise_constant_schedule(1.0, {1: 0.5, 3: 0.1})
    np.testing.assert_allclose(run(optim.sgd(rate), [1.0] * 4), [-1.0, -1.5, -2.0, -2.05], rtol=1e-6)


def test_clip_by_global_norm():
    updates, _ = optim.clip_by_global_norm(1.0).update(GRADS, ())
    np.testing.assert_allclose(np.asarray(updates["w"]), [0.6, 0.0], rtol=1e-6)
    assert float(optim.global_norm(updates)) == pytest.approx(1.0)
    unchanged, _ = optim.clip_by_global_norm(5.0).update(GRADS, ())
    assert unchanged["w"].tolist() == [3.0, 0.0]
    zeros, _ = optim.clip_by_global_norm(1.0).update(np.zeros(2), ())
    assert zeros.tolist() == [0.0, 0.0]
    assert float(optim.global_norm(GRADS)) == 5.0 and float(optim.global_norm({})) == 0.0


def test_weight_decay_shrinks():
    optimizer = optim.chain(optim.add_decayed_weights(0.1), optim.sgd(0.5))
    assert run(optimizer, [0.0], start=2.0) == pytest.approx([1.9])
    with pytest.raises(ArgumentError, match="needs the params"):
        optimizer.update(1.0, optimizer.init(1.0))


def test_an_optimizer_can_be_mapped_and_differentiated():
    optimizer = optim.sgd(0.1)

    def after_one_step(x, target):
        grads = functad.grad(lambda x: (x - target) ** 2)(x)
        updates, _ = optimizer.update(grads, optimizer.init(x), x)
        return optim.apply_updates(x, updates)

    targets = np.array([0.0, 1.0, 2.0], np.float32)
    mapped = functad.vmap(after_one_step, in_axes=(None, 0))(1.0, targets)
    np.testing.assert_allclose(np.asarray(mapped), 1.0 - 0.2 * (1.0 - targets), rtol=1e-6)
    # d/dx (x - 0.1 * 2 (x - t)) = 0.8
    assert float(functad.grad(after_one_step)(1.0, 3.0)) == pytest.approx(0.8)


SCHEDULES = [
    (optim.constant_schedule(0.3), {0: 0.3, 99: 0.3}),
    (optim.linear_schedule(1.0, 0.0, 10), {0: 1.0, 5: 0.5, 10: 0.0, 50: 0.0}),
    (optim.linear_schedule(0.0, 2.0, 10, transition_begin=5), {0: 0.0, 5: 0.0, 10: 1.0, 15: 2.0, 50: 2.0}),
    (optim.exponential_decay(1.0, 10, 0.25), {0: 1.0, 5: 0.5, 10: 0.25, 20: 0.0625}),
    (optim.exponential_decay(1.0, 10, 0.25, transition_begin=10), {0: 1.0, 10: 1.0, 20: 0.25}),
    (optim.exponential_decay(1.0, 10, 0.25, staircase=True), {9: 1.0, 10: 0.25, 19: 0.25}),
    (optim.exponential_decay(1.0, 10, 0.25, end_value=0.1), {10: 0.25, 30: 0.1}),
    (optim.exponential_decay(1.0, 10, 2.0, end_value=3.0), {10: 2.0, 30: 3.0}),
    (optim.cosine_decay_schedule(2.0, 10), {0: 2.0, 5: 1.0, 10: 0.0, 50: 0.0}),
    (optim.cosine_decay_schedule(2.0, 10, alpha=0.5), {0: 2.0, 5: 1.5, 10: 1.0}),
    (optim.cosine_decay_schedule(1.0, 10, exponent=2.0), {0: 1.0, 5: 0.25}),
    (optim.piecewise_constant_schedule(1.0, {10: 0.5, 5: 0.1}), {4: 1.0, 5: 0.1, 9: 0.1, 10: 0.05}),
    (optim.piecewise_constant_schedule(1.0), {0: 1.0, 9: 1.0}),
    (optim.warmup_constant_schedule(0.0, 1.0, 4), {0: 0.0, 2: 0.5, 4: 1.0, 9: 1.0}),
    (optim.warmup_linear_decay_schedule(0.0, 1.0, 4, 8), {0: 0.0, 4: 1.0, 6: 0.5, 8: 0.0, 20: 0.0}),
    (
        optim.warmup_cosine_decay_schedule(0.0, 1.0, 4, 8, end_value=0.2),
        {0: 0.0, 4: 1.0, 6: 0.6, 8: 0.2, 20: 0.2},
    ),
    (optim.join_schedules([lambda s: 1.0 * s, lambda s: -1.0 * s], [3]), {2: 2.0, 3: 0.0, 5: -2.0}),
]


@pytest.mark.parametrize(("schedule", "expected"), SCHEDULES, ids=[str(i) for i in range(len(SCHEDULES))])
def test_schedules_at_their_corners(schedule, expected):
    traced = functad.jit(lambda step: jnp.asarray(schedule(step), jnp.float32))
    for step, value in expected.items():
        assert float(schedule(step)) == pytest.approx(value, abs=1e-6)
        assert float(traced(jnp.array(step, jnp.int32))) == pytest.approx(value, abs=1e-6)


def test_errors():
    with pytest.raises(ArgumentError, match="nesterov=True needs a momentum"):
        optim.sgd(0.1, nesterov=True)
    with pytest.raises(ArgumentError, match=r"chain: argument 1 is 0\.1, which is no Optimizer"):
        optim.chain(optim.sgd(0.1), 0.1)
    with pytest.raises(ArgumentError, match="the state has 1 entries for 2 optimizers"):
        optim.sgd(0.1, 0.9).update(GRADS, optim.sgd(0.1).init(PARAMS), PARAMS)
    with pytest.raises(TreeError, match="'b'"):
        optim.apply_updates(PARAMS, {"w": GRADS["w"], "b": ()})
    with pytest.raises(ArgumentError, match="transition_steps=0 must be at least 1"):
        optim.linear_schedule(1.0, 0.0, 0)
    with pytest.raises(ArgumentError, match="decay_rate=-1.0 must be more than 0"):
        optim.exponential_decay(1.0, 5, -1.0)
    with pytest.raises(ArgumentError, match="max_norm=0.0 must be more than 0"):
        optim.clip_by_global_norm(0.0)
    with pytest.raises(ArgumentError, match="2 schedules need 1 boundaries, got 0"):
        optim.join_schedules([optim.constant_schedule(1.0)] * 2, [])


# --- misuse -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.sgd(-0.1), "sgd: learning_rate=-0.1 must be a number of at least 0"),
        (lambda: optim.sgd("0.1"), "sgd: learning_rate='0.1' must be a number"),
        (lambda: optim.sgd(True), "sgd: learning_rate=True must be a number"),
        (lambda: optim.sgd(float("nan")), "sgd: learning_rate=nan must be a number"),
        (lambda: optim.sgd(jnp.ones(2)), "sgd: learning_rate=.* must be a number"),
        (lambda: optim.sgd(0.1, momentum=1.5), "sgd: momentum=1.5 must be a number of at least 0 and at most 1"),
        (lambda: optim.sgd(0.1, -0.5), "sgd: momentum=-0.5 must be a number of at least 0 and at most 1"),
        (lambda: optim.sgd(0.1, "0.9"), "sgd: momentum='0.9' must be a number"),
        (lambda: optim.trace(2.0), "trace: decay=2.0 must be"),
        (lambda: optim.scale("1"), "scale: step_size='1' must be a number"),
        (lambda: optim.scale_by_learning_rate(-1), "scale_by_learning_rate: learning_rate=-1 must be"),
        (lambda: optim.add_decayed_weights(-1), "add_decayed_weights: weight_decay=-1 must be"),
        (lambda: optim.clip(-1), "clip: max_delta=-1 must be"),
        (lambda: optim.clip_by_global_norm("1"), "clip_by_global_norm: max_norm='1' must be a number"),
    ],
)
def test_numbers_that_make_no_sense_are_named(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_numbers_may_be_arrays_and_traced():
    def stepped(rate):
        optimizer = optim.sgd(rate, momentum=rate)
        return optimizer.update(jnp.ones(2), optimizer.init(jnp.ones(2)))[0]

    for rate in (0.5, np.float32(0.5), np.array(0.5), jnp.array(0.5)):
        np.testing.assert_array_equal(np.asarray(stepped(rate)), [-0.5, -0.5])
    np.testing.assert_array_equal(np.asarray(functad.jit(stepped)(0.5)), [-0.5, -0.5])


def test_updates_of_another_shape_are_named():
    params = {"layers": [jnp.ones((2, 3)), jnp.ones(3)]}
    with pytest.raises(ShapeError, match=r"updates\['layers'\]\[0\] has shape \(3,\), but params\['layers'\]\[0\] has"):
        optim.apply_updates(params, {"layers": [jnp.ones(3), jnp.ones(3)]})
    with pytest.raises(TreeError, match=r"at updates\['layers'\]: expected a list of .*2"):
        optim.apply_updates(params, {"layers": [jnp.ones((2, 3))]})
    with pytest.raises(TreeError, match=r"at updates\['layers'\]\[1\]: expected a leaf as in params, got a tuple"):
        optim.apply_updates(params, {"layers": [jnp.ones((2, 3)), (jnp.ones(3),)]})


def test_gradients_that_do_not_fit_are_named():
    params = {"w": jnp.ones(2)}
    momentum = optim.sgd(0.1, momentum=0.9)
    with pytest.raises(TreeError, match="at gradients: expected"):
        momentum.update({"v": jnp.ones(2)}, momentum.init(params), params)
    with pytest.raises(ShapeError, match=r"gradients\['w'\] has shape \(3,\), but state\['w'\] has shape \(2,\)"):
        momentum.update({"w": jnp.ones(3)}, momentum.init(params), params)
    decay = optim.add_decayed_weights(0.1)
    with pytest.raises(TreeError, match="at gradients: expected"):
        decay.update((jnp.ones(2),), decay.init(params), params)
    with pytest.raises(ShapeError, match=r"gradients\['w'\] has shape \(\), but params\['w'\] has shape \(2,\)"):
        decay.update({"w": 1.0}, decay.init(params), params)


@pytest.mark.parametrize("optimizer", [optim.sgd(0.1, 0.9), optim.sgd(optim.linear_schedule(1.0, 0.0, 3))])
def test_a_state_of_another_kind_is_named(optimizer):
    params = {"w": jnp.ones(2)}
    with pytest.raises(ArgumentError, match="chain: the state is of type NoneType"):
        optimizer.update(params, None)
    state = tuple(tuple(part) for part in optimizer.init(params))
    with pytest.raises(ArgumentError, match=r"the state is of type tuple, not \w+State; .*load\(path, like="):
        optimizer.update(params, state)


@pytest.mark.parametrize("value", [0.1, 0.3, 1e-5])
def test_schedules_between_equal_ends_are_constant(value):
    for schedule in (optim.linear_schedule(value, value, 10), optim.cosine_decay_schedule(value, 10, 1.0)):
        assert {float(schedule(jnp.int32(step))) for step in range(12)} == {float(np.float32(value))}


ENDS = [(1e-3, 1e-9), (1.0, 1e-8), (1e-9, 1.0), (0.3, 0.1), (0.0, 0.7)]


@pytest.mark.parametrize("first, last", ENDS)
def test_schedules_are_exact_at_both_ends(first, last):
    linear = optim.linear_schedule(first, last, 100)
    warmup = optim.warmup_linear_decay_schedule(first, last, 100, 200, first)
    for transform in (lambda f: f, functad.jit):
        assert [float(transform(linear)(jnp.int32(step))) for step in (0, 100)] == [np.float32(first), np.float32(last)]
        assert float(transform(warmup)(jnp.int32(200))) == np.float32(first)
        if first:
            cosine = optim.cosine_decay_schedule(first, 100, last / first)
            for step, wanted in ((0, first), (100, last)):
                assert float(transform(cosine)(jnp.int32(step))) == pytest.approx(wanted, rel=3e-7)
