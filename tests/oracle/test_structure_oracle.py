"""Structural operations, products, indexing and sorting in random configurations, compared with jax.lax.

Each configuration draws arrays and static arguments; values, gradients and a vmap must be JAX's.
"""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import functad  # noqa: E402  (after the check for jax)
from functad import lax  # noqa: E402

SEEDS = range(5)


def _array(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def _shape(rng, low=1, high=4, most=5):
    return tuple(int(n) for n in rng.integers(1, most, rng.integers(low, high)))


def _leaves(outs):
    return list(outs) if isinstance(outs, (list, tuple)) else [outs]


def _agree(found, expected, what):
    found, expected = _leaves(found), _leaves(expected)
    assert len(found) == len(expected), what
    for f, e in zip(found, expected):
        f, e = np.asarray(f), np.asarray(e)
        assert f.dtype == e.dtype, f"{what}: dtype {f.dtype}, JAX has {e.dtype}"
        np.testing.assert_allclose(f, e, rtol=2e-5, atol=2e-5, err_msg=what)


def compare(fun, args, seed):
    """`fun(lax, *args)` with functad and with JAX: its values, gradient in the float arguments, and a vmap."""
    ours, theirs = (lambda *a: fun(lax, *a)), (lambda *a: fun(jax.lax, *a))
    expected = theirs(*args)
    _agree(ours(*args), expected, "value")
    floats = tuple(i for i, a in enumerate(args) if a.dtype.kind == "f")

    def scalar(f):
        def total(*a):
            outs = [o for o in _leaves(f(*a)) if o.dtype.kind == "f"]
            rng = np.random.default_rng(seed)
            return sum((o * rng.standard_normal(o.shape).astype(np.float32)).sum() for o in outs)

        return total

    if any(np.asarray(o).dtype.kind == "f" for o in _leaves(expected)) and floats:
        got = functad.grad(scalar(ours), floats)(*args)
        _agree(got, jax.grad(scalar(theirs), floats)(*args), "gradient")
    rng = np.random.default_rng(seed + 1)
    axes, batched = [], []
    for a in args:
        mapped = rng.random() < 0.7
        axes.append(int(rng.integers(0, a.ndim + 1)) if mapped else None)
        rows = [rng.permutation(a.ravel()).reshape(a.shape) for _ in range(3)] if a.dtype.kind == "f" else [a] * 3
        batched.append(np.stack(rows, axes[-1]) if mapped else a)
    if any(axis is not None for axis in axes):
        got = functad.vmap(ours, tuple(axes))(*batched)
        _agree(got, jax.vmap(theirs, tuple(axes))(*batched), f"vmap over {axes}")


@pytest.mark.parametrize("seed", SEEDS)
def test_slice(seed):
    rng = np.random.default_rng(seed)
    shape = _shape(rng)
    starts = [int(rng.integers(0, n + 1)) for n in shape]
    limits = [int(rng.integers(s, n + 1)) for s, n in zip(starts, shape)]
    strides = [int(rng.integers(1, 4)) for _ in shape] if rng.random() < 0.7 else None
    compare(lambda lx, x: lx.slice(x, starts, limits, strides), [_array(rng, *shape)], seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_pad(seed):
    rng = np.random.default_rng(seed)
    shape = _shape(rng)
    config = []
    for n in shape:
        interior = int(rng.integers(0, 3))
        low = int(rng.integers(-2, 3))
        whole = n + (n - 1) * interior
        config.append((low, int(rng.integers(max(-2, -whole - low), 3)), interior))
    compare(lambda lx, x, v: lx.pad(x, v, config), [_array(rng, *shape), _array(rng)], seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_joining_and_reordering(seed):
    rng = np.random.default_rng(seed)
    shape = _shape(rng)
    axis = int(rng.integers(0, len(shape)))
    x, y, z = (_array(rng, *shape) for _ in range(3))
    compare(lambda lx, *xs: lx.concatenate(xs, axis), [x, y, z], seed)
    compare(lambda lx, *xs: lx.stack(xs, axis), [x, y], seed)
    compare(lambda lx, x: lx.unstack(x, axis), [x], seed)
    cut = int(rng.integers(0, shape[axis] + 1))
    compare(lambda lx, x: lx.split(x, (cut, shape[axis] - cut), axis), [x], seed)
    compare(lambda lx, x: lx.rev(x, (axis,)), [x], seed)
    order = rng.permutation(len(shape)).tolist()
    compare(lambda lx, x: lx.transpose(x, order), [x], seed)
    compare(lambda lx, x: lx.tile(x, [2] * len(shape)), [x], seed)
    compare(lambda lx, x: lx.squeeze(lx.expand_dims(x, (axis, -1)), (-1,)), [x], seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_dot_general(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 6).tolist()
    batch, contract = int(rng.integers(0, 3)), int(rng.integers(0, 3))
    shared = sizes[: batch + contract]
    operands, numbers = [], []
    for _ in range(2):
        dims = shared + rng.integers(1, 4, rng.integers(0, 3)).tolist()
        order = rng.permutation(len(dims))
        place = np.argsort(order).tolist()
        operands.append(_array(rng, *[dims[i] for i in order]))
        numbers.append((place[batch : batch + contract], place[:batch]))
    dimension_numbers = tuple(zip(*numbers))
    compare(lambda lx, x, y: lx.dot_general(x, y, dimension_numbers), operands, seed)


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.int32, np.uint8, np.bool_, np.complex64])
def test_dot_general_dtypes(dtype):
    rng = np.random.default_rng(0)
    x, y = _of_dtype(rng, dtype, 4, 30), _of_dtype(rng, dtype, 30, 3)
    numbers = (((1,), (0,)), ((), ()))
    found, expected = lax.dot_general(x, y, numbers), jax.lax.dot_general(x, y, numbers)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=2e-3)
    wide = {"f": np.float32, "i": np.int32, "u": np.uint32}.get(np.dtype(dtype).kind)
    if wide is not None:
        found = lax.dot_general(x, y, numbers, preferred_element_type=wide)
        expected = jax.lax.dot_general(x, y, numbers, preferred_element_type=wide)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-4)


def _of_dtype(rng, dtype, *shape):
    values = 10 * np.abs(rng.standard_normal(shape))
    return values > 5 if dtype == np.bool_ else values.astype(dtype)


@pytest.mark.parametrize("seed", SEEDS)
def test_dynamic_slices(seed):
    rng = np.random.default_rng(seed)
    shape = _shape(rng)
    sizes = [int(rng.integers(0, n + 1)) for n in shape]
    starts = [np.asarray(rng.integers(-2 * n, 2 * n), np.int32) for n in shape]
    x, update = _array(rng, *shape), _array(rng, *sizes)

    def computed(lx, starts):  # arrays in both libraries: functad raises for constants out of bounds
        return [lx.convert_element_type(s, np.int32) for s in starts]

    compare(lambda lx, x, *s: lx.dynamic_slice(x, computed(lx, s), sizes), [x, *starts], seed)
    compare(lambda lx, x, u, *s: lx.dynamic_update_slice(x, u, computed(lx, s)), [x, update, *starts], seed)


def _window(rng, operand_shape):
    """Random dimension numbers: windows, dropped axes, indexed axes, batching, the shape of the indices."""
    axes = rng.permutation(len(operand_shape)).tolist()
    batching = sorted(axes[: int(rng.integers(0, min(2, len(axes))))])
    rest = [a for a in axes if a not in batching]
    dropped = sorted(rest[: int(rng.integers(0, len(rest) + 1))])
    # At least one indexed axis: JAX without jit miscounts gradients where index vectors have no component.
    indexed = [int(a) for a in rng.permutation(rest)[: int(rng.integers(1, len(rest) + 1))]]
    sizes = [1 if a in dropped or a in batching else int(rng.integers(1, n + 1)) for a, n in enumerate(operand_shape)]
    batch = [operand_shape[a] for a in batching] + rng.integers(1, 4, rng.integers(0, 2)).tolist()
    order = rng.permutation(len(batch)).tolist()
    batch = [batch[i] for i in order]
    indices_batching = [order.index(i) for i in range(len(batching))]
    window = [s for a, s in enumerate(sizes) if a not in dropped and a not in batching]
    rank = len(batch) + len(window)
    windows = sorted(int(i) for i in rng.permutation(rank)[: len(window)])
    indices = rng.integers(-1, 5, (*batch, len(indexed))).astype(np.int32)
    left, inside = iter(batch), iter(window)
    result_shape = [next(inside) if i in windows else next(left) for i in range(rank)]
    numbers = [tuple(t) for t in (windows, dropped, indexed, batching, indices_batching)]
    return numbers, sizes, indices, result_shape


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("seed", range(8))
def test_gather(seed, mode):
    rng = np.random.default_rng(seed)
    shape = _shape(rng, 1, 4)
    numbers, sizes, indices, _ = _window(rng, shape)

    def fun(lx, x, i):
        dims = lx.GatherDimensionNumbers(*numbers)
        return lx.gather(x, i, dims, sizes, mode=mode, fill_value=0.5)

    compare(fun, [_array(rng, *shape), indices], seed)


# JAX's gradients of scatter_min and scatter_max are infinite where "clip" moves a window.
SCATTERS = [(name, mode) for name in ("scatter", "scatter_add", "scatter_sub") for mode in ("clip", "drop")]
SCATTERS += [("scatter_min", "drop"), ("scatter_max", "drop")]


@pytest.mark.parametrize("name, mode", SCATTERS)
@pytest.mark.parametrize("seed", range(4))
def test_scatter(seed, name, mode):
    rng = np.random.default_rng(seed)
    shape = _shape(rng, 1, 4)
    numbers, _, indices, update_shape = _window(rng, shape)

    def fun(lx, x, i, u):
        return getattr(lx, name)(x, i, u, lx.ScatterDimensionNumbers(*numbers), mode=mode)

    compare(fun, [_array(rng, *shape), indices, _array(rng, *update_shape)], seed)


@pytest.mark.parametrize("seed", range(4))
def test_scatter_mul(seed):
    rng = np.random.default_rng(seed)
    shape = _shape(rng, 1, 4)
    numbers, _, indices, update_shape = _window(rng, shape)
    x, u = _array(rng, *shape), _array(rng, *update_shape)
    args = (x, indices, u, lax.ScatterDimensionNumbers(*numbers))
    expected = jax.lax.scatter_mul(x, indices, u, jax.lax.ScatterDimensionNumbers(*numbers))
    _agree(lax.scatter_mul(*args), expected, "value")  # JAX has a gradient only where indices are unique


def test_gradient_of_scatter_mul_at_unique_indices():
    rng = np.random.default_rng(0)
    numbers, indices = ((1,), (0,), (0,)), np.int32([[2], [0]])

    def fun(lx, x, i, u):
        return lx.scatter_mul(x, i, u, lx.ScatterDimensionNumbers(*numbers), unique_indices=True)

    compare(fun, [_array(rng, 3, 4), indices, _array(rng, 2, 4)], 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_sort(seed):
    rng = np.random.default_rng(seed)
    shape = _shape(rng)
    axis = int(rng.integers(0, len(shape)))
    x, y = _array(rng, *shape), _array(rng, *shape)
    keys = rng.integers(0, 3, shape).astype(np.int32)
    compare(lambda lx, x: lx.sort(x, axis), [x], seed)
    compare(lambda lx, k, x: lx.sort((k, x), axis), [keys, x], seed)
    compare(lambda lx, k, x, y: lx.sort((k, x, y), axis, num_keys=2), [keys, x, y], seed)
    compare(lambda lx, x, y: lx.sort_key_val(x, y, axis), [x, y], seed)
    k = int(rng.integers(0, shape[axis] + 1))
    compare(lambda lx, x: lx.top_k(x, k, axis=axis), [x], seed)


@pytest.mark.parametrize("values", [[0.0, -0.0, np.nan, -np.inf, -np.nan, 0.0, -0.0, np.inf], [True, False, True]])
def test_order_of_special_values(values):
    x = np.asarray(values, np.float32 if isinstance(values[0], float) else np.bool_)
    numbers = np.arange(len(x), dtype=np.int32)
    positive = np.where(np.isnan(x), np.nan, x).astype(np.float32)  # JAX puts NaN with a sign last
    for found, expected in [
        (lax.sort((x, numbers)), jax.lax.sort((x, numbers))),
        (lax.top_k(x.astype(np.float32), len(x)), jax.lax.top_k(positive, len(x))),
    ]:
        for f, e in zip(found, expected):
            np.testing.assert_array_equal(np.asarray(f), np.asarray(e))
