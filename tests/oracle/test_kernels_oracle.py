"""The NumPy kernels against jax.lax on seeded random configurations.

Knows the kernels and jax only.
"""

from __future__ import annotations

import numpy as np
import pytest

from functad.primitives.kernels import convolution, indexing, sorting
from functad.primitives.kernels.threefry import threefry2x32

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")
lax = jax.lax
threefry_oracle = pytest.importorskip("jax.extend.random", reason="jax is not installed")


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def assert_same(got, expected, **tolerances):
    expected = np.asarray(expected)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(got, expected, **tolerances)


def pairs(rng, low, high, rank):
    return tuple((int(a), int(b)) for a, b in rng.integers(low, high, (rank, 2)))


@pytest.mark.parametrize("seed", range(50))
def test_convolution(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(0, 4))
    feature_groups, batch_groups = [(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)][rng.integers(6)]
    features = int(rng.integers(1, 6))
    sizes, window = rng.integers(2, 9, rank), rng.integers(1, 5, rank)
    lhs_shape = (batch_groups * int(rng.integers(1, 4)), features * feature_groups, *sizes)
    rhs_shape = (feature_groups * batch_groups * int(rng.integers(1, 4)), features, *window)
    dtype = rng.choice(["f4", "f4", "i4"])
    lhs, rhs = (rng.normal(size=shape).round(1) * 10 for shape in (lhs_shape, rhs_shape))
    lhs, rhs = lhs.astype(dtype), rhs.astype(dtype)
    params = {
        "window_strides": tuple(rng.integers(1, 4, rank).tolist()),
        "padding": pairs(rng, -1, 5, rank),
        "lhs_dilation": tuple(rng.integers(1, 4, rank).tolist()),
        "rhs_dilation": tuple(rng.integers(1, 3, rank).tolist()),
        "feature_group_count": feature_groups,
        "batch_group_count": batch_groups,
    }
    expected = lax.conv_general_dilated(lhs, rhs, **params)
    assert_same(convolution.conv_general_dilated(lhs, rhs, **params), expected, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("op", ["max", "min", "sum"])
@pytest.mark.parametrize("seed", range(15))
def test_reduce_window(op, seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    x = rng.normal(size=rng.integers(2, 9, rank)).astype(np.float32)
    x[rng.random(x.shape) < 0.05] = np.nan
    init = {"max": -np.inf, "min": np.inf, "sum": 0.0}[op] if seed % 3 else 0.5
    combine = {"max": lax.max, "min": lax.min, "sum": lax.add}[op]
    params = {
        "window_dimensions": tuple(rng.integers(1, 5, rank).tolist()),
        "window_strides": tuple(rng.integers(1, 4, rank).tolist()),
        "padding": pairs(rng, 0, 4, rank),
        "base_dilation": tuple(rng.integers(1, 3, rank).tolist()),
        "window_dilation": tuple(rng.integers(1, 3, rank).tolist()),
    }
    expected = lax.reduce_window(x, np.float32(init), combine, **params)
    assert_same(convolution.reduce_window(x, op, init, **params), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("select", ["ge", "le"])
@pytest.mark.parametrize("seed", range(20))
def test_max_pool_derivatives_with_ties(select, seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    ties = seed % 2
    x = rng.normal(size=rng.integers(2, 9, rank)) if not ties else rng.integers(-3, 3, rng.integers(2, 9, rank))
    x = x.astype(np.float32)
    params = {
        "window_dimensions": tuple(rng.integers(1, 5, rank).tolist()),
        "window_strides": tuple(rng.integers(1, 4, rank).tolist()),
        "padding": pairs(rng, 0, 3, rank),
    }
    combine, init = {"ge": (lax.max, -np.inf), "le": (lax.min, np.inf)}[select]

    def pool(operand):
        return lax.reduce_window(operand, np.float32(init), combine, **params)

    out, vjp = jax.vjp(pool, x)
    cotangent = rng.normal(size=out.shape).astype(np.float32)
    tangent = rng.normal(size=x.shape).astype(np.float32)
    scattered = convolution.select_and_scatter_add(cotangent, x, select=select, **params)
    assert_same(scattered, vjp(cotangent)[0], rtol=1e-5, atol=1e-5)
    gathered = convolution.select_and_gather_add(tangent, x, select=select, **params)
    np.testing.assert_allclose(np.vdot(gathered, cotangent), np.vdot(scattered, tangent), atol=1e-4)
    if not ties:
        # With ties, JAX's jvp need not take the element that its vjp takes; ours takes that one.
        assert_same(gathered, jax.jvp(pool, (x,), (tangent,))[1])


@pytest.mark.parametrize("x", [[1, np.nan, 3, 2], [1, np.nan, 0, 2], [np.nan, 1, 0, 2], [-np.inf] * 4, [2, 2, 1, 1]])
@pytest.mark.parametrize("padding", [0, 1])
def test_max_pool_gradient_at_nan_infinity_and_ties(x, padding):
    x = np.array(x, np.float32)
    params = {"window_dimensions": (4,), "window_strides": (4,), "padding": ((padding, padding),)}
    _, vjp = jax.vjp(lambda v: lax.reduce_window(v, -np.float32(np.inf), lax.max, **params), x)
    source = np.ones(1, np.float32)
    got = convolution.select_and_scatter_add(source, x, select="ge", **params)
    assert_same(got, vjp(source)[0])


def random_gather(rng, seed):
    rank = int(rng.integers(1, 5))
    shape = rng.integers(1, 5, rank).tolist()
    dims = rng.permutation(rank).tolist()
    batched = int(rng.integers(0, min(2, rank) + 1)) if seed % 2 else 0
    operand_batching, rest = sorted(dims[:batched]), dims[batched:]
    # At least one indexed dim where there can be: with empty index vectors, JAX's scatter on the CPU
    # differs from XLA's definition (and from the loops of test_kernels_indexing.py).
    index_map = rest[: int(rng.integers(min(1, len(rest)), len(rest) + 1))]
    collapsed = sorted(d for d in rest if rng.random() < 0.4)
    sizes = [1 if d in operand_batching + collapsed else int(rng.integers(1, shape[d] + 1)) for d in range(rank)]
    batch = rng.integers(1, 4, int(rng.integers(batched, batched + 3))).tolist()
    indices_batching = rng.permutation(len(batch))[:batched].tolist()
    for dim, axis in zip(operand_batching, indices_batching, strict=True):
        batch[axis] = shape[dim]
    kept = rank - batched - len(collapsed)
    offset_dims = sorted(rng.permutation(len(batch) + kept)[:kept].tolist())
    operand = (rng.normal(size=shape) * 5).astype(rng.choice(["f4", "i4", "f2"]))
    indices = rng.integers(-2, 6, (*batch, len(index_map))).astype(rng.choice(["i1", "i4"]))
    return operand, indices, (offset_dims, collapsed, index_map, operand_batching, indices_batching), sizes


MODES = {"clip": lax.GatherScatterMode.CLIP, "fill": lax.GatherScatterMode.FILL_OR_DROP}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(25))
def test_gather(seed, mode):
    rng = np.random.default_rng(seed)
    operand, indices, numbers, sizes = random_gather(rng, seed)
    dimension_numbers = lax.GatherDimensionNumbers(*map(tuple, numbers))
    expected = lax.gather(operand, indices, dimension_numbers, tuple(sizes), mode=MODES[mode])
    names = (
        "offset_dims",
        "collapsed_slice_dims",
        "start_index_map",
        "operand_batching_dims",
        "start_indices_batching_dims",
    )
    params = dict(zip(names, numbers, strict=True))
    assert_same(indexing.gather(operand, indices, slice_sizes=sizes, mode=mode, **params), expected)


@pytest.mark.parametrize("kind", ["set", "add", "mul", "min", "max"])
@pytest.mark.parametrize("seed", range(12))
def test_scatter(seed, kind):
    rng = np.random.default_rng(seed)
    operand, indices, numbers, sizes = random_gather(rng, seed)
    mode = "clip" if seed % 3 else "fill"
    shape = lax.gather(
        operand, indices, lax.GatherDimensionNumbers(*map(tuple, numbers)), tuple(sizes), mode=MODES[mode]
    ).shape
    updates = (rng.normal(size=shape) * 3).round().astype(operand.dtype)
    reference = lax.scatter if kind == "set" else getattr(lax, f"scatter_{kind}")
    dimension_numbers = lax.ScatterDimensionNumbers(*map(tuple, numbers))
    expected = reference(operand, indices, updates, dimension_numbers, mode=MODES[mode])
    names = (
        "update_window_dims",
        "inserted_window_dims",
        "scatter_dims_to_operand_dims",
        "operand_batching_dims",
        "scatter_indices_batching_dims",
    )
    params = dict(zip(names, numbers, strict=True))
    got = indexing.scatter(operand, indices, updates, kind=kind, mode=mode, **params)
    assert_same(got, expected, rtol=2e-3 if operand.dtype == np.float16 else 1e-5)


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "i1", "u1", "bool"])
def test_default_fill_values(dtype):
    x = np.ones(2, dtype)
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    expected = lax.gather(x, np.array([[2]]), numbers, (1,), mode=lax.GatherScatterMode.FILL_OR_DROP)
    assert_same(np.array([indexing.default_fill_value(x.dtype)]).astype(dtype), expected)


def test_dynamic_slices():
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    update = -np.ones((2, 3), np.float32)
    for starts in ((0, 0), (1, 2), (3, 4), (9, 1)):
        assert_same(indexing.dynamic_slice(x, starts, (2, 3)), lax.dynamic_slice(x, starts, (2, 3)))
        expected = lax.dynamic_update_slice(x, update, starts)
        assert_same(indexing.dynamic_update_slice(x, update, starts), expected)


@pytest.mark.parametrize("num_keys", [1, 2, 3])
@pytest.mark.parametrize("dimension", [0, 1])
def test_sort(num_keys, dimension):
    rng = np.random.default_rng(num_keys)
    choices = np.array([-np.inf, -1.0, -0.0, 0.0, 2.0, np.inf, np.nan], np.float32)
    operands = (
        rng.choice(choices, (30, 20)),
        rng.integers(0, 3, (30, 20)).astype(np.int32),
        rng.normal(size=(30, 20)).astype(np.float32),
    )
    expected = lax.sort(operands, dimension=dimension, is_stable=True, num_keys=num_keys)
    for got, want in zip(sorting.sort(operands, dimension=dimension, num_keys=num_keys), expected, strict=True):
        assert_same(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(np.asarray(want)))
    (alone,) = sorting.sort(operands[:1], dimension=dimension)
    want = np.asarray(lax.sort(operands[0], dimension=dimension, is_stable=True))
    assert_same(alone, want)
    np.testing.assert_array_equal(np.signbit(alone), np.signbit(want))


CUMULATIVE = ["cumsum", "cumprod", "cummax", "cummin"]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in CUMULATIVE for dtype in ("f4", "f2", "i4")]
    + [("cumlogsumexp", "f4"), ("cumlogsumexp", "f2")],
)
def test_cumulative(name, dtype, reverse):
    x = (np.random.default_rng(0).normal(size=(6, 40)) * 2).round(1).astype(dtype)
    got = getattr(sorting, name)(x, axis=1, reverse=reverse)
    expected = getattr(lax, name)(x, axis=1, reverse=reverse)
    assert_same(got, expected, rtol=2e-2 if dtype == "f2" else 1e-4, atol=3e-2 if dtype == "f2" else 1e-4)


def test_threefry_gives_the_same_bits():
    words = np.random.default_rng(0).integers(0, 2**32, (4, 5001), dtype=np.uint32)
    expected = threefry_oracle.threefry2x32_p.bind(*words)
    for got, want in zip(threefry2x32(*words), expected, strict=True):
        np.testing.assert_array_equal(got, np.asarray(want))
