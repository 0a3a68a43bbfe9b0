"""Adam, AdamW, RMSProp and Adagrad: every step by hand in NumPy, their corners, dtypes, jit, messages."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from bfloat16_tools import BFLOAT16, needs_bfloat16

import functad
from functad import numpy as jnp
from functad import optim
from functad.errors import ArgumentError, ShapeError, TreeError
from functad.transforms.at_once import CompoundOp
from functad.transforms.forward import trace_with_values

RNG = np.random.default_rng(0)
START = RNG.standard_normal(5)
OPTIM = {name: getattr(optim, name) for name in optim.__all__}
GRADIENTS = RNG.standard_normal((6, 5)) * np.array([1e-3, 1.0, 1e3, 0.0, -1.0])


def run(optimizer, dtype=np.float64, gradients=GRADIENTS, start=START):
    """The params after each step."""
    x = jnp.array(start, dtype)
    state = optimizer.init(x)
    trail = []
    for gradient in gradients:
        updates, state = optimizer.update(jnp.array(gradient, dtype), state, x)
        x = optim.apply_updates(x, updates)
        trail.append(np.asarray(x))
    return np.array(trail)


def by_hand_adam(rate, b1=0.9, b2=0.999, eps=1e-8, eps_root=0.0, weight_decay=0.0, nesterov=False):
    x, m, v, trail = START, 0.0, 0.0, []
    for t, g in enumerate(GRADIENTS, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        mean = m / (1 - b1**t)
        if nesterov:
            mean = b1 * m / (1 - b1 ** (t + 1)) + (1 - b1) * g / (1 - b1**t)
        step = mean / (np.sqrt(v / (1 - b2**t) + eps_root) + eps)
        x = x - rate * (step + weight_decay * x)
        trail.append(x)
    return np.array(trail)


ADAMS = [
    {},
    {"b1": 0.5, "b2": 0.9},
    {"b1": 0.0},
    {"eps": 0.1},
    {"eps_root": 0.01},
    {"nesterov": True},
]


@pytest.mark.parametrize("options", ADAMS)
def test_adam_by_hand(options):
    np.testing.assert_allclose(run(optim.adam(0.1, **options)), by_hand_adam(0.1, **options), rtol=1e-12)
    single = run(optim.adam(0.1, **options), np.float32)
    np.testing.assert_allclose(single, by_hand_adam(0.1, **options), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.5}, {"weight_decay": 0.1, "nesterov": True}])
def test_adamw_by_hand(options):
    expected = by_hand_adam(0.1, **{"weight_decay": 1e-4, **options})
    np.testing.assert_allclose(run(optim.adamw(0.1, **options)), expected, rtol=1e-12)


def by_hand_rmsprop(
    rate, decay=0.9, eps=1e-8, initial_scale=0.0, eps_in_sqrt=True, centered=False, momentum=0.0, nesterov=False,
    bias_correction=False,
):  # fmt: skip
    x, mean, square, velocity, trail = START, 0.0, initial_scale, 0.0, []
    for t, g in enumerate(GRADIENTS, 1):
        mean = decay * mean + (1 - decay) * g
        square = decay * square + (1 - decay) * g**2
        factor = 1 / (1 - decay**t) if bias_correction else 1.0
        spread = factor * square - ((factor * mean) ** 2 if centered else 0.0)
        step = -rate * g / (np.sqrt(spread + eps) if eps_in_sqrt else np.sqrt(spread) + eps)
        velocity = step + momentum * velocity
        x = x + (step + momentum * velocity if nesterov else velocity)
        trail.append(x)
    return np.array(trail)


RMSPROPS = [
    {},
    {"decay": 0.5, "eps": 1e-3},
    {"initial_scale": 2.0},
    {"eps_in_sqrt": False},
    {"centered": True},
    {"centered": True, "eps_in_sqrt": False, "initial_scale": 1.0},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True},
]


@pytest.mark.parametrize("options", RMSPROPS)
def test_rmsprop_by_hand(options):
    np.testing.assert_allclose(run(optim.rmsprop(0.1, **options)), by_hand_rmsprop(0.1, **options), rtol=1e-10)


@pytest.mark.parametrize("centered", [False, True])
def test_rmsprop_with_bias_correction_by_hand(centered):
    # The first deviation is 0 up to rounding: a large eps keeps the quotient from showing it.
    options = {"centered": centered, "bias_correction": True, "eps": 0.1}
    np.testing.assert_allclose(run(optim.rmsprop(0.1, **options)), by_hand_rmsprop(0.1, **options), rtol=1e-8)


@pytest.mark.parametrize("options", [{}, {"initial_accumulator_value": 2.0}, {"eps": 0.5}])
def test_adagrad_by_hand(options):
    values = {"initial_accumulator_value": 0.1, "eps": 1e-7, **options}
    x, total, trail = START, values["initial_accumulator_value"], []
    for g in GRADIENTS:
        total = total + g**2
        x = x - 0.1 * g / np.sqrt(total + values["eps"])
        trail.append(x)
    np.testing.assert_allclose(run(optim.adagrad(0.1, **options)), trail, rtol=1e-12)


def test_no_gradient_means_no_step():
    zeros = np.zeros((3, 5))
    for optimizer in (optim.adam(0.1), optim.rmsprop(0.1), optim.adagrad(0.1, 0.0, 0.0)):
        np.testing.assert_array_equal(run(optimizer, gradients=zeros), np.broadcast_to(START, (3, 5)))


def test_the_first_steps_in_float32_are_as_exact_as_the_rest():
    """1 - 0.999**t computed in float32 is wrong in the fifth digit."""
    x = run(optim.adam(1.0, b2=0.9999), np.float32, np.full((3, 1), 0.3), np.zeros(1))
    np.testing.assert_allclose(x[:, 0], [-1.0, -2.0, -3.0], rtol=5e-7)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "adagrad"])
def test_no_dtype_changes(name, dtype):
    params = {"w": np.ones(3, dtype), "b": [np.ones((), dtype)]}
    optimizer = getattr(optim, name)(optim.linear_schedule(0.1, 0.0, 10))
    state = optimizer.init(params)
    updates, after = optimizer.update(params, state, params)
    new = optim.apply_updates(params, updates)
    assert functad.tree.structure(new) == functad.tree.structure(params)
    assert {leaf.dtype.name for leaf in functad.tree.leaves((updates, new))} == {dtype}
    types = [[(leaf.shape, leaf.dtype) for leaf in functad.tree.leaves(s)] for s in (state, after)]
    assert types[0] == types[1]


def test_the_mean_can_be_kept_in_another_dtype():
    optimizer = optim.adam(0.1, mu_dtype="float16")
    state = optimizer.init(jnp.ones(2))
    updates, state = optimizer.update(jnp.ones(2), state)
    assert (state[0].mu.dtype, state[0].nu.dtype, updates.dtype) == (np.float16, np.float32, np.float32)
    np.testing.assert_allclose(np.asarray(updates), -0.1, rtol=1e-6)


def test_complex_params_are_scaled_by_magnitude():
    gradient = np.array([3.0 + 4.0j, -5.0j], np.complex64)
    optimizer = optim.adam(1.0)
    updates, state = optimizer.update(gradient, optimizer.init(np.zeros(2, np.complex64)))
    np.testing.assert_allclose(np.asarray(updates), [-0.6 - 0.8j, 1.0j], rtol=1e-6)
    assert state[0].nu.dtype == np.float32


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "adagrad"])
def test_a_step_under_jit_agrees(name):
    optimizer = getattr(optim, name)(optim.linear_schedule(0.1, 0.0, 3))
    traces = []

    def step(params, state, grads):
        traces.append(1)
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    params = plain = {"w": np.ones((2, 3), np.float32), "b": np.zeros(3, np.float32)}
    state = plain_state = optimizer.init(params)
    fast = functad.jit(step)
    for scale in (1.0, -2.0, 0.5):
        grads = functad.tree.map(lambda p, s=scale: s + p, params)
        params, state = fast(params, state, grads)
        plain, plain_state = step(plain, plain_state, grads)
    assert len(traces) == 1 + 3
    pairs = zip(functad.tree.leaves((params, state)), functad.tree.leaves((plain, plain_state)), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-7)


def test_rates_may_be_traced():
    def stepped(b1):
        optimizer = optim.adam(0.1, b1=b1)
        return optimizer.update(jnp.ones(2), optimizer.init(jnp.ones(2)))[0]

    np.testing.assert_allclose(np.asarray(functad.jit(stepped)(0.9)), -0.1, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(stepped(jnp.array(0.9))), -0.1, rtol=1e-6)
    # The first step does not depend on b1.
    np.testing.assert_allclose(float(functad.grad(lambda b1: stepped(b1).sum())(0.9)), 0.0, atol=1e-6)


def test_adam_minimises():
    optimizer = optim.adam(optim.exponential_decay(0.3, 20, 0.5))
    target = jnp.array([3.0, -2.0])
    x, state = jnp.zeros(2), optimizer.init(jnp.zeros(2))
    for _ in range(120):
        grads = functad.grad(lambda x: jnp.sum((x - target) ** 2 * jnp.array([1.0, 100.0])))(x)
        updates, state = optimizer.update(grads, state, x)
        x = optim.apply_updates(x, updates)
    np.testing.assert_allclose(np.asarray(x), np.asarray(target), atol=0.02)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.adam(-1), "learning_rate=-1 must be a number of at least 0"),
        (lambda: optim.adam(0.1, b1=1.5), "scale_by_adam: b1=1.5 must be a number of at least 0 and at most 1"),
        (lambda: optim.adam(0.1, b2=-0.1), "scale_by_adam: b2=-0.1 must be"),
        (lambda: optim.adam(0.1, eps="0"), "scale_by_adam: eps='0' must be a number"),
        (lambda: optim.adam(0.1, eps_root=-1), "scale_by_adam: eps_root=-1 must be"),
        (lambda: optim.adamw(0.1, weight_decay=-1), "add_decayed_weights: weight_decay=-1 must be"),
        (lambda: optim.rmsprop(0.1, decay=2), "scale_by_rms: decay=2 must be"),
        (lambda: optim.rmsprop(0.1, decay=2, centered=True), "scale_by_stddev: decay=2 must be"),
        (lambda: optim.rmsprop(0.1, nesterov=True), "rmsprop: nesterov=True needs a momentum"),
        (lambda: optim.adagrad(0.1, -1), "scale_by_rss: initial_accumulator_value=-1 must be"),
    ],
)
def test_numbers_that_make_no_sense_are_named(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop", "adagrad"])
def test_what_does_not_fit_is_named(name):
    params = {"w": jnp.ones(2)}
    optimizer = getattr(optim, name)(0.1)
    with pytest.raises(TreeError, match="at gradients: expected"):
        optimizer.update({"v": jnp.ones(2)}, optimizer.init(params), params)
    with pytest.raises(ShapeError, match=r"gradients\['w'\] has shape \(3,\), but state\['w'\] has shape \(2,\)"):
        optimizer.update({"w": jnp.ones(3)}, optimizer.init(params), params)
    plain = tuple(tuple(part) for part in optimizer.init(params))
    with pytest.raises(ArgumentError, match=r"the state is of type tuple, not ScaleBy\w+State; .*load\(path, like="):
        optimizer.update(params, plain, params)


def test_adamw_needs_params():
    optimizer = optim.adamw(0.1)
    with pytest.raises(ArgumentError, match="needs the params"):
        optimizer.update(jnp.ones(2), optimizer.init(jnp.ones(2)))


SIZED = "adam adamw nadam nadamw amsgrad adamax yogi radam lamb adadelta adagrad rmsprop adafactor".split()


@pytest.mark.parametrize("dtype", ["float16", BFLOAT16])
@pytest.mark.parametrize("name", SIZED)
def test_sizes_of_gradients_of_16_bits_neither_overflow_nor_vanish(name, dtype):
    """A step is that of float32, rounded; the state keeps its dtypes, as a scan over steps needs."""
    optimizer = getattr(optim, name)(0.125)
    values = {"w": np.array([600.0, 1e-4, 0.0, -3.0]), "k": np.full((128, 128), 300.0)}

    def steps(dtype):
        params = functad.tree.map(lambda v: jnp.ones(v.shape, dtype), values)
        grads = functad.tree.map(lambda v: jnp.asarray(v, dtype), values)
        first = optimizer.init(params)
        updates, state = optimizer.update(grads, first, params)
        types = [[(leaf.shape, leaf.dtype) for leaf in functad.tree.leaves(s)] for s in (first, state)]
        assert types[0] == types[1]
        assert {leaf.dtype for leaf in functad.tree.leaves(updates)} == {jnp.dtype(dtype)}
        return functad.tree.map(lambda leaf: np.asarray(leaf, np.float64), updates)

    found, wanted = steps(dtype), steps("float32")
    for key in values:
        np.testing.assert_allclose(found[key], wanted[key], rtol=0.02, atol=1e-6)


@pytest.mark.parametrize("name", SIZED)
def test_no_params_at_all(name):
    optimizer = optim.multi_transform({"some": getattr(optim, name)(0.1), "rest": optim.sgd(1.0)}, "rest")
    params = {"w": jnp.ones(2)}
    updates, state = optimizer.update(params, optimizer.init(params), params)
    assert updates["w"].tolist() == [-1.0, -1.0]
    assert functad.tree.structure(state) == functad.tree.structure(optimizer.init(params))


@needs_bfloat16
@pytest.mark.parametrize("name", ["adam", "rmsprop"])
def test_the_mean_of_squares_of_bfloat16_fades(name):
    """0.999 times a bfloat16 is the same bfloat16."""
    optimizer, params = getattr(optim, name)(0.125), jnp.ones(2, "bfloat16")
    _, state = optimizer.update(params, optimizer.init(params), params)
    for _ in range(20):
        _, after = optimizer.update(jnp.zeros_like(params), state, params)
        assert (after[0].nu < state[0].nu).all() and after[0].nu.dtype == jnp.float32
        state = after


def test_the_common_norm_of_16_bits_and_of_complex_numbers():
    for dtype in ("float16", "complex64"):
        grads = {"a": jnp.asarray([300.0], dtype), "b": jnp.asarray([400.0j if dtype == "complex64" else 400.0], dtype)}
        assert optim.global_norm(grads) == 500 and optim.global_norm(grads).dtype == jnp.float32
        cut, _ = optim.clip_by_global_norm(5.0).update(grads, ())
        np.testing.assert_allclose(np.abs(np.asarray([cut["a"][0], cut["b"][0]])), [3.0, 4.0], rtol=1e-2)
        assert cut["a"].dtype == dtype


def _documented():
    """The rows of the table in the documentation: an optimizer as it is written, and the arrays that it moves."""
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.*?)` \| (\d+) \| (\d+) \| ([\d, ]+) \| (\d+) \|", text, flags=re.MULTILINE)
    return {made: (int(r), int(w), list(map(int, passes.split(","))), int(least)) for made, r, w, passes, least in rows}


DOCUMENTED = _documented()


@pytest.mark.parametrize("made", DOCUMENTED)
def test_a_step_moves_the_arrays_that_are_documented(made):
    """Params and what is kept of them are read and written where they lie, most of them in one pass."""
    read, written, expected, _ = DOCUMENTED[made]
    passes, arena = _passes(eval(made, OPTIM))
    assert passes == expected and sum(passes) == read + written
    assert arena < (4.1e6 if made.startswith("lamb") else 1e5)  # lamb keeps its direction, which comes from two arrays


# What a step must know of all gradients, or params, or of the step itself, before it changes the first number.
KNOWN_BEFORE = {
    "chain(clip_by_global_norm(1.0), adam(0.1))": ["gradients"],
    "apply_if_finite(adam(0.1), 3)": ["gradients"],
    "lamb(0.1)": ["params, for their norm", "the step, written", "and read"],
    "adafactor(0.1, clipping_threshold=None, multiply_by_parameter_scale=False)": ["gradients"],
    "adafactor(0.1, clipping_threshold=None)": ["gradients", "params"],
    "adafactor(0.1)": ["gradients", "params", "gradients, for the norm of the step"],
}


@pytest.mark.parametrize("made", DOCUMENTED)
def test_a_step_moves_no_more_than_its_mathematics_asks_for(made):
    """The gradients once, the params and the arrays that are kept of them twice, and what must be known before."""
    read, written, passes, least = DOCUMENTED[made]
    params = functad.ShapeDtypeStruct((1000, 1000), "float32")
    kept = functad.eval_shape(eval(made, OPTIM).init, params)
    before = KNOWN_BEFORE.get(made, [])
    arrays = sum(leaf.shape == params.shape for leaf in functad.tree.leaves((params, kept)))
    assert least == 1 + 2 * arrays + len(before)
    assert read + written == least
    assert (len(passes) == 1) == (not before)


def test_every_optimizer_is_documented():
    assert {made.partition("(")[0] for made in DOCUMENTED} >= {*SIZED, "sgd", "lion", "chain", "MultiSteps"}


def _passes(optimizer):
    """How many arrays of the size of the params each kernel of a step reads and writes; bytes of temporary memory."""
    params = functad.ShapeDtypeStruct((1000, 1000), "float32")
    state = functad.eval_shape(optimizer.init, params)

    def step(params, state, grads):
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state

    lowered = functad.jit(step, donate_argnums=(0, 1)).lower(params, state, params)
    arrays = [kernel.bytes / 4e6 for kernel in lowered.cost.kernels if kernel.bytes > 1e5]
    assert arrays == pytest.approx([round(n) for n in arrays], rel=0.02)
    return [round(n) for n in arrays], lowered.memory_plan.arena_bytes


@pytest.mark.parametrize("transform", [lambda f: f, functad.jit])
def test_equal_gradients_have_no_variance_and_no_nan(transform):
    optimizer = optim.rmsprop(1e-3, centered=True, eps=1e-8)
    update, g = transform(optimizer.update), jnp.array([1.725789, 3.1, 1e4])
    state = optimizer.init(g)
    for _ in range(200):
        step, state = update(g, state)
        assert jnp.isfinite(step).all()


@pytest.mark.parametrize("make", [optim.adam, optim.rmsprop])
def test_the_means_of_a_leaf_are_one_operation_each(make):
    optimizer, g = make(0.1), jnp.ones(3)
    state = optimizer.init(g)
    for _ in range(3):  # what is met again becomes one operation
        _, trace, _ = trace_with_values(lambda g: [optimizer.update(g, state)[0]], [g], [True], "grad", once=True)
    assert [type(op) for op in trace.take_ops()[:2]] == [CompoundOp] * 2
