"""Random numbers against JAX: bits exactly, floats to a few units in the last place."""

from __future__ import annotations

import numpy as np
import pytest

import functad
from functad import random
from functad.config import config

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

SEEDS = [0, 1, 123456789, 2**32 - 1]
SHAPES = [(), (5,), (2, 3), (0,), (40, 25)]
# XLA's logarithms of float64 are good to 200 units in the last place or so, its erf_inv of float32 to 65, all else to a
# few.
ULP = {"float16": 4, "float32": 8, "float64": 256}


def _assert_same(actual, expected, ulp=ULP):
    expected = np.asarray(expected)
    actual = np.asarray(actual)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    if expected.dtype.kind == "f":
        resolution = ulp[expected.dtype.name] * np.finfo(expected.dtype).eps
        np.testing.assert_allclose(actual, expected, rtol=resolution, atol=resolution)
    else:
        np.testing.assert_array_equal(actual, expected)


def _key(seed):
    return random.PRNGKey(seed), jax.random.PRNGKey(seed)


@pytest.mark.parametrize("seed", [*SEEDS, -1, -(2**31), np.int32(-3), np.uint32(7), np.uint8(9)])
def test_keys(seed):
    ours, theirs = _key(seed)
    _assert_same(ours, theirs)
    _assert_same(random.key_data(random.key(seed)), jax.random.key_data(jax.random.key(seed)))


@pytest.mark.parametrize("seed", [0, -1, 2**32, 2**40 + 5, 2**63 - 1, -(2**63), np.int64(-7)])
def test_keys_of_64_bits(seed):
    with jax.enable_x64(True), config.context(enable_x64=True):
        _assert_same(random.PRNGKey(seed), jax.random.PRNGKey(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_split_and_fold_in(seed):
    ours, theirs = _key(seed)
    for num in [2, 1, 7, 0, (2, 3)]:
        _assert_same(random.split(ours, num), jax.random.split(theirs, num))
    for data in [0, 1, 2**32 - 1, np.int32(-1), np.uint8(3)]:
        _assert_same(random.fold_in(ours, data), jax.random.fold_in(theirs, data))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [None, "uint8", "uint16", "uint32", "uint64"])
def test_bits(dtype, shape):
    ours, theirs = _key(3)
    with jax.enable_x64(dtype == "uint64"):
        _assert_same(random.bits(ours, shape, dtype), jax.random.bits(theirs, shape, dtype))


FLOATS = ["uniform", "normal", "gumbel", "exponential", "laplace", "logistic"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FLOATS)
def test_floats(name, shape, seed):
    ours, theirs = _key(seed)
    ulp = {**ULP, "float32": 65} if name == "normal" else ULP
    _assert_same(getattr(random, name)(ours, shape), getattr(jax.random, name)(theirs, shape), ulp)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("name", FLOATS)
def test_other_floating_dtypes(name, dtype):
    ours, theirs = _key(5)
    with jax.enable_x64(dtype == "float64"):
        _assert_same(getattr(random, name)(ours, (200,), dtype), getattr(jax.random, name)(theirs, (200,), dtype))


def test_the_default_dtypes_with_64_bits():
    ours, theirs = _key(5)
    with jax.enable_x64(True), config.context(enable_x64=True):
        _assert_same(random.bits(ours, (3,)), jax.random.bits(theirs, (3,)))
        _assert_same(random.normal(ours, (3,)), jax.random.normal(theirs, (3,)))
        _assert_same(random.randint(ours, (3,), 0, 2**40), jax.random.randint(theirs, (3,), 0, 2**40))
        _assert_same(random.permutation(ours, 9), jax.random.permutation(theirs, 9))
        _assert_same(random.rademacher(ours, (3,)), jax.random.rademacher(theirs, (3,)))


def test_cauchy():
    ours, theirs = _key(6)
    actual, expected = random.cauchy(ours, (100,)), jax.random.cauchy(theirs, (100,))
    np.testing.assert_allclose(np.asarray(actual), np.asarray(expected), rtol=2e-4)


def test_complex_normal():
    ours, theirs = _key(6)
    actual, expected = (np.asarray(m.normal(k, (50,), "complex64")) for m, k in [(random, ours), (jax.random, theirs)])
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 1.0), (2, 5), (np.float32([[0], [1]]), np.float32([2, 3, 4])), (-3, np.int32(4))]
)
def test_bounds_of_uniform(low, high):
    ours, theirs = _key(8)
    _assert_same(
        random.uniform(ours, (2, 3), "float32", low, high),
        jax.random.uniform(theirs, (2, 3), "float32", low, high),
    )


@pytest.mark.parametrize("shape", [None, (2, 3), (5, 2, 3)])
def test_truncated_normal(shape):
    ours, theirs = _key(9)
    low, high = np.float32([[-1], [0.5]]), np.float32([1, 2, 3])
    _assert_same(random.truncated_normal(ours, low, high, shape), jax.random.truncated_normal(theirs, low, high, shape))
    _assert_same(random.truncated_normal(ours, -2, 2.0, (30,)), jax.random.truncated_normal(theirs, -2, 2.0, (30,)))


@pytest.mark.parametrize("mode", ["low", "high"])
def test_modes(mode):
    ours, theirs = _key(10)
    _assert_same(random.gumbel(ours, (300,), mode=mode), jax.random.gumbel(theirs, (300,), mode=mode))
    _assert_same(random.bernoulli(ours, 0.3, (300,), mode), jax.random.bernoulli(theirs, 0.3, (300,), mode=mode))


@pytest.mark.parametrize("seed", SEEDS)
def test_bernoulli_and_rademacher(seed):
    ours, theirs = _key(seed)
    p = np.linspace(0, 1, 7, dtype=np.float32)
    _assert_same(random.bernoulli(ours), jax.random.bernoulli(theirs))
    _assert_same(random.bernoulli(ours, p), jax.random.bernoulli(theirs, p))
    _assert_same(random.bernoulli(ours, p, (4, 7)), jax.random.bernoulli(theirs, p, (4, 7)))
    _assert_same(random.rademacher(ours, (20,)), jax.random.rademacher(theirs, (20,)))
    _assert_same(random.rademacher(ours, (20,), "int8"), jax.random.rademacher(theirs, (20,), "int8"))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 10, None),
        (-5, 100, None),
        (0, 2**31 - 1, None),
        (-(2**31), 2**31 - 1, None),
        (5, 5, None),
        (5, 2, None),
        (0, 70000, "uint32"),
        (0, 256, "uint8"),
        (-128, 127, "int8"),
        (3, 30000, "int16"),
        (0, 65536, "uint16"),
    ],
)
def test_randint(low, high, dtype, seed):
    ours, theirs = _key(seed)
    _assert_same(random.randint(ours, (6, 4), low, high, dtype), jax.random.randint(theirs, (6, 4), low, high, dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_randint_with_arrays_of_bounds(dtype):
    ours, theirs = _key(12)
    # For narrow dtypes, JAX cuts bounds down to 32 bits; functad clips them.
    far = [2**31, 2**40, 2**32] if np.dtype(dtype).itemsize >= 4 else [2**30, 127, 256]
    low, high = np.array([[-1000], [0]], np.int64), np.array([7, 300, -5, *far], np.int64)
    with jax.enable_x64(True):
        _assert_same(
            random.randint(ours, (2, 6), low, high, dtype),
            jax.random.randint(theirs, (2, 6), low, high, dtype),
        )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", [0, 1, 2, 10, 1625, 1626, 5000])
def test_permutation_of_a_range(size, seed):
    ours, theirs = _key(seed)
    _assert_same(random.permutation(ours, size), jax.random.permutation(theirs, size))


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_permutation_of_an_array(axis, independent):
    ours, theirs = _key(14)
    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    _assert_same(random.permutation(ours, x, axis, independent), jax.random.permutation(theirs, x, axis, independent))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("with_p", [False, True])
@pytest.mark.parametrize("replace", [False, True])
def test_choice(replace, with_p, seed):
    ours, theirs = _key(seed)
    p = np.float32([0.1, 0.2, 0.3, 0.15, 0.25]) if with_p else None
    a = np.arange(15, dtype=np.float32).reshape(3, 5)
    for shape in [(), (3,), (2, 2)]:
        _assert_same(random.choice(ours, 5, shape, replace, p), jax.random.choice(theirs, 5, shape, replace, p))
        _assert_same(
            random.choice(ours, a, shape, replace, p, axis=1),
            jax.random.choice(theirs, a, shape, replace, p, axis=1),
        )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("axis", "shape", "replace"),
    [
        (-1, None, True),
        (0, None, True),
        (0, (5, 4), True),
        (-1, (6, 3), True),
        (1, (2, 5, 3), True),
        (-1, (3, 3), False),
        (0, (2, 4), False),
        (-1, None, False),
    ],
)
def test_categorical(axis, shape, replace, seed):
    ours, theirs = _key(seed)
    logits = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    _assert_same(
        random.categorical(ours, logits, axis, shape, replace),
        jax.random.categorical(theirs, logits, axis, shape, replace),
    )


def test_categorical_broadcasts_its_logits():
    ours, theirs = _key(15)
    logits = np.random.default_rng(0).standard_normal((1, 4)).astype(np.float32)
    _assert_same(random.categorical(ours, logits, shape=(2, 5)), jax.random.categorical(theirs, logits, shape=(2, 5)))


TRANSFORMED = {
    "uniform": lambda m, k: m.uniform(k, (3,)),
    "normal": lambda m, k: m.normal(k, (2, 2)),
    "randint": lambda m, k: m.randint(k, (4,), 0, 100),
    "permutation": lambda m, k: m.permutation(k, 6),
    "split": lambda m, k: m.split(k, 3),
    "fold_in": lambda m, k: m.fold_in(k, 5),
    "choice": lambda m, k: m.choice(k, 9, (3,), replace=False),
    "categorical": lambda m, k: m.categorical(k, np.zeros((2, 5), np.float32)),
    "bernoulli": lambda m, k: m.bernoulli(k, 0.4, (8,)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_under_jit_and_vmap(name):
    draw = TRANSFORMED[name]
    ours, theirs = _key(16)
    expected = draw(jax.random, theirs)
    _assert_same(functad.jit(lambda k: draw(random, k))(ours), expected)
    batch = functad.vmap(lambda k: draw(random, k))(random.split(ours, 4))
    _assert_same(batch, jax.vmap(lambda k: draw(jax.random, k))(jax.random.split(theirs, 4)))


def test_gradients_of_parameters():
    ours, theirs = _key(17)

    def loss(m, total):
        def function(key, loc, bound):
            x = loc + m.truncated_normal(key, -bound, bound, (5,)) * m.uniform(key, (5,), "float32", loc, bound)
            return total(x)

        return function

    actual = functad.grad(loss(random, lambda x: x.sum()), (1, 2))(ours, 0.5, 1.5)
    expected = jax.grad(loss(jax.random, lambda x: x.sum()), (1, 2))(theirs, 0.5, 1.5)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-4)
