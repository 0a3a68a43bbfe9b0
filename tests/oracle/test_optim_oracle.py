"""The optimizers of `functad.optim`, step by step, compared with those of optax, whose names they have."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import optim

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
optax = pytest.importorskip("optax", reason="optax is not installed: optimizers are compared with it")

rng = np.random.default_rng(0)
PARAMS = {
    "a": rng.normal(size=(3,)).astype(np.float32),
    "b": [rng.normal(size=(4, 6)).astype(np.float32), rng.normal(size=(6, 2, 4)).astype(np.float32)],
}
STEPS = 6


def mask(params):
    return {"a": True, "b": [False, True]}


CASES = {
    "adam": lambda o: o.adam(0.1, b1=0.8, b2=0.95, eps=1e-6, eps_root=1e-7),
    "adam with nesterov": lambda o: o.adam(0.1, nesterov=True),
    "adamw": lambda o: o.adamw(0.1, weight_decay=0.1),
    "adamw with a mask": lambda o: o.adamw(0.1, weight_decay=0.1, mask=mask),
    "nadam": lambda o: o.nadam(0.1),
    "nadamw": lambda o: o.nadamw(0.1, weight_decay=0.1, mask=mask),
    "amsgrad": lambda o: o.amsgrad(0.1, b2=0.5),
    "adamax": lambda o: o.adamax(0.1),
    "yogi": lambda o: o.yogi(0.1),
    "radam": lambda o: o.radam(0.1, b2=0.9),
    "radam with nesterov": lambda o: o.radam(0.1, b2=0.8, nesterov=True),
    "lion": lambda o: o.lion(0.1, weight_decay=0.1),
    "lion in half": lambda o: o.lion(0.1, 0.8, 0.9, "float16", 0.1),
    "amsgrad in half": lambda o: o.amsgrad(0.1, 0.8, 0.9, 1e-6, 0.0, "float16"),
    "amsgrad of the paper": lambda o: o.amsgrad(0.1, b2=0.5, bias_correction_mu=False, bias_correction_nu=False),
    "nadam in half": lambda o: o.nadam(0.1, mu_dtype="float16"),
    "nadam that does not look ahead": lambda o: o.nadam(0.1, nesterov=False),
    "sgd in half": lambda o: o.sgd(0.1, 0.9, True, "float16"),
    "mean in half": lambda o: o.chain(o.ema(0.5, accumulator_dtype="float16"), o.scale_by_learning_rate(0.1)),
    "uphill": lambda o: o.chain(o.add_decayed_weights(), o.scale_by_learning_rate(0.1, flip_sign=False)),
    "adafactor with a mask": lambda o: o.adafactor(0.1, momentum=0.9, weight_decay_rate=0.1, weight_decay_mask=mask),
    "adafactor in half": lambda o: o.adafactor(0.1, momentum=0.9, dtype_momentum="float16"),
    "lamb": lambda o: o.lamb(0.1, weight_decay=0.01),
    "adadelta": lambda o: o.adadelta(1.0, rho=0.8, eps=1e-4),
    "adadelta with decay": lambda o: o.adadelta(0.5, weight_decay=0.1, weight_decay_mask=mask),
    "adafactor": lambda o: o.adafactor(0.1, min_dim_size_to_factor=3),
    "adafactor by itself": lambda o: o.adafactor(min_dim_size_to_factor=2, momentum=0.9, weight_decay_rate=0.01),
    "adafactor, plain": lambda o: o.adafactor(
        0.1, multiply_by_parameter_scale=False, clipping_threshold=None, factored=False
    ),
    "sgd": lambda o: o.sgd(0.1, momentum=0.9, nesterov=True),
    "sgd without momentum": lambda o: o.sgd(0.1),
    "sgd with momentum": lambda o: o.sgd(0.1, momentum=0.9),
    "sgd with a schedule": lambda o: o.sgd(o.warmup_cosine_decay_schedule(0.01, 0.1, 2, 5, 0.02)),
    "adam with a schedule": lambda o: o.adam(o.exponential_decay(0.1, 2, 0.5)),
    "rmsprop": lambda o: o.rmsprop(0.1, centered=True, momentum=0.5),
    "rmsprop, plain": lambda o: o.rmsprop(0.1),
    "clipped": lambda o: o.chain(o.clip(0.5), o.sgd(0.1)),
    "clipped by the norm of all": lambda o: o.chain(o.clip_by_global_norm(1.0), o.adam(0.1)),
    "clipped by that of each": lambda o: o.chain(o.clip_by_block_rms(0.5), o.sgd(0.1)),
    "decayed": lambda o: o.chain(o.add_decayed_weights(0.1, mask), o.trace(0.5, True), o.scale_by_learning_rate(0.1)),
    "scaled by the size of each": lambda o: o.chain(
        o.scale_by_stddev(), o.scale_by_param_block_rms(), o.scale_by_trust_ratio(), o.scale(-0.1)
    ),
    "adagrad": lambda o: o.adagrad(0.1),
    "ema": lambda o: o.chain(o.ema(0.9), o.scale(-0.1)),
    "ema without correction": lambda o: o.chain(o.ema(0.9, debias=False), o.scale(-0.1)),
    "masked": lambda o: o.chain(o.masked(o.scale_by_adam(), mask), o.scale(-0.1)),
    "multi_transform": lambda o: o.multi_transform(
        {"x": o.adam(0.1), "y": o.sgd(0.5, momentum=0.9), "z": o.set_to_zero()}, {"a": "x", "b": ["y", "z"]}
    ),
    "multi_transform by a prefix": lambda o: o.multi_transform({1: o.adam(0.1), 2: o.sgd(0.5)}, {"a": 1, "b": 2}),
    "apply_if_finite": lambda o: o.apply_if_finite(o.adam(0.1), 2),
}

SCHEDULES = {
    "constant": lambda o: o.constant_schedule(0.1),
    "linear": lambda o: o.linear_schedule(0.1, 0.01, 6, transition_begin=2),
    "cosine": lambda o: o.cosine_decay_schedule(0.1, 8, 0.1),
    "cosine to a power": lambda o: o.cosine_decay_schedule(0.1, 8, 0.1, 2.0),
    "exponential": lambda o: o.exponential_decay(0.1, 3, 0.5, transition_begin=2, end_value=0.02),
    "exponential by steps": lambda o: o.exponential_decay(0.1, 3, 0.5, staircase=True),
    "piecewise": lambda o: o.piecewise_constant_schedule(0.1, {3: 0.5, 7: 0.1}),
    "constant after a beginning": lambda o: o.warmup_constant_schedule(0.0, 0.1, 4),
    "cosine after a beginning": lambda o: o.warmup_cosine_decay_schedule(0.0, 0.1, 3, 9, 0.01),
    "joined": lambda o: o.join_schedules([o.constant_schedule(0.1), o.linear_schedule(0.1, 0.0, 4)], [5]),
}


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_schedules(name):
    found, expected = ([float(make(step)) for step in range(12)] for make in map(SCHEDULES[name], (optim, optax)))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


ABSENT = {
    "MultiSteps": {"should_skip_update_fn"},  # apply_if_finite
    "masked": {"mask_compatible_extra_args"},  # no update takes more arguments
    "multi_transform": {"mask_compatible_extra_args"},
    "scale_by_factored_rms": {"decay_rate_fn"},
    "scale_by_lion": {"mode", "smooth_beta"},
    "scale_by_zoom_linesearch": {
        "max_learning_rate", "tol", "increase_factor", "approx_dec_rtol", "stepsize_precision", "verbose",
    },
}  # fmt: skip
OTHER_DEFAULTS = {
    ("adadelta", "learning_rate"),  # a number: 1
    ("adafactor", "dtype_momentum"),  # the same by its name
    ("MultiSteps", "accumulator_dtype"),  # that of the params
    ("scale_by_learning_rate", "learning_rate"),  # there is no step without one
    ("lbfgs", "linesearch"),  # a search of functad's own
}
NAMES = [name for name in optim.__all__ if inspect.isfunction(getattr(optim, name)) and hasattr(optax, name)]


@pytest.mark.parametrize("name", NAMES)
def test_arguments(name):
    own, theirs = (
        [p for p in inspect.signature(getattr(m, name)).parameters.values() if p.kind is not p.VAR_POSITIONAL]
        for m in (optim, optax)
    )
    expected = [p for p in theirs if p.name not in ABSENT.get(name, ())]
    assert [p.name for p in own] == [p.name for p in expected]
    for p, q in zip(own, expected):
        if (name, p.name) not in OTHER_DEFAULTS:
            assert p.default == q.default, p
    places = [i for i, p in enumerate(theirs) if p.name not in ABSENT.get(name, ())]
    moved = {p.name for i, p in zip(places, own) if p.kind is not p.KEYWORD_ONLY and own.index(p) != i}
    assert not moved, "given by position they would be others"


def grads_of(step, nans=False):
    g = np.random.default_rng(step)
    tree = functad.tree.map(lambda p: (g.normal(size=p.shape) * 3.0 ** g.integers(-3, 3)).astype(np.float32), PARAMS)
    if nans and step in (1, 3, 4, 5):
        tree["a"][1] = np.nan
    return tree


def run(optimizer, apply_updates, params, nans):
    state, found = optimizer.init(params), []
    for step in range(STEPS):
        updates, state = optimizer.update(grads_of(step, nans), state, params)
        params = apply_updates(params, updates)
        found += [np.asarray(leaf) for leaf in functad.tree.leaves(params)]
    return found


@pytest.mark.parametrize("name", list(CASES))
def test_steps(name):
    make, nans = CASES[name], name == "apply_if_finite"
    wanted = run(make(optax), optax.apply_updates, jax.tree.map(jax.numpy.asarray, PARAMS), nans)
    found = run(make(optim), optim.apply_updates, functad.tree.map(jnp.asarray, PARAMS), nans)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("options", [{}, {"use_grad_mean": False}, {"accumulator_dtype": "float16"}], ids=str)
def test_multi_steps(options):
    wanted = optax.MultiSteps(optax.adam(0.1), 3, **options)
    wanted = run(wanted, optax.apply_updates, jax.tree.map(jax.numpy.asarray, PARAMS), False)
    found = run(optim.MultiSteps(optim.adam(0.1), 3, **options), optim.apply_updates, PARAMS, False)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


CURVATURES = {"a": np.array([1.0, 2.0, 5.0], np.float32), "b": np.array([[3.0], [0.5]], np.float32)}


@pytest.mark.parametrize("scaled", [True, False])
def test_directions_of_lbfgs(scaled):
    def steps(library, tree):
        link = library.scale_by_lbfgs(3, scaled)
        x = tree.map(lambda c: 0.0 * c + 1.0, CURVATURES)
        state, found = link.init(x), []
        for _ in range(8):
            grads = tree.map(lambda c, x: c * x**3, CURVATURES, x)
            direction, state = link.update(grads, state, x)
            x = tree.map(lambda x, d: x - 0.5 * np.asarray(d), x, direction)
            found += [np.asarray(leaf) for leaf in tree.leaves(direction)]
        return found

    for a, b in zip(steps(optim, functad.tree), steps(optax, jax.tree), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_lbfgs_with_its_search_comes_as_far():
    def after(library, jit, start, count):
        def loss(x):
            return ((1.0 - x[:-1]) ** 2 + 100.0 * (x[1:] - x[:-1] ** 2) ** 2).sum()

        optimizer = library.lbfgs()
        value_and_grad = library.value_and_grad_from_state(loss)

        @jit
        def step(x, state):
            value, grads = value_and_grad(x, state=state)
            updates, state = optimizer.update(grads, state, x, value=value, grad=grads, value_fn=loss)
            return library.apply_updates(x, updates), state

        x = start
        state = optimizer.init(x)
        for _ in range(count):
            x, state = step(x, state)
        return float(loss(x))

    start = np.array([-1.2, 1.0], np.float32)
    for count in (20, 40):
        ours = after(optim, functad.jit, jnp.asarray(start), count)
        theirs = after(optax, jax.jit, jax.numpy.asarray(start), count)
        assert ours <= max(3 * theirs, 1e-6)
