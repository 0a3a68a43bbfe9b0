"""`functad.lax` compared with `jax.lax`: the same calls give the same values, dtypes and weakness, or both object.

Each call is written once, as text, and evaluated with either library.
"""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed: the oracle tests compare functad with it")

import functad.numpy  # noqa: E402  (after the check for jax)
from functad import lax  # noqa: E402
from functad.errors import FunctadError  # noqa: E402

CALLS = [
    "lax.select(True, h, h)",
    "lax.full((2,), 1)",
    "lax.full((2,), 1.0)",
    "lax.full_like(h, 1)",
    "lax.full_like(1.0, 2)",
    "lax.add(1.0, 2.0)",
    "lax.reduce(h, 0.0, lax.add, (0,))",
    "lax.reduce(x, 0, lax.add, (0,))",
    "lax.reduce_window(x, 0.0, lax.add, (2,), (1,), 'VALID')",
    "lax.iota(int, 3)",
    "lax.iota(np.float32, 3)",
    "lax.dot(x, x)",
    "lax.dot(x[None], x[:, None])",
    "lax.argmax(x, 0, int)",
    "lax.sort(x)",
    "lax.sort((x, x))",
    "lax.sort_key_val(x, x)",
    "lax.split(x, (1, 2))",
    "lax.top_k(x, 2)",
    "lax.rev(x, [0])",
    "lax.expand_dims(x, (0, -1))",
    "lax.squeeze(x[None], (0,))",
    "lax.collapse(jnp.ones((2, 3, 4)), 0, 2)",
    "lax.collapse(jnp.ones((2, 3, 4)), 1)",
    "lax.collapse(jnp.ones((2, 3, 4)), 0, -1)",
    "lax.broadcast(x, (2,))",
    "lax.broadcast(1.0, (2,))",
    "lax.reshape(x, (3, 1))",
    "lax.convert_element_type(1, float)",
    "lax.convert_element_type(x, float)",
    "lax.convert_element_type(1.5, int)",
    "lax.integer_pow(x, 2)",
    "lax.integer_pow(x, -1)",
    "lax.pow(x, 2)",
    "lax.pow(2.0, x)",
    "lax.sin(1.0)",
    "lax.erf_inv(0.5)",
    "lax.dynamic_slice(x, (1,), (2,))",
    "lax.dynamic_slice(x, [1], [2])",
    "lax.dynamic_slice(x, jnp.array([1]), (2,))",
    "lax.dynamic_slice_in_dim(x, -1, 1)",
    "lax.dynamic_update_slice(x, jnp.ones(1), (1,))",
    "lax.dynamic_update_index_in_dim(x, 1.0, 1, 0)",
    "lax.dynamic_update_index_in_dim(jnp.ones((2, 3)), x, 1, 0)",
    "lax.slice_in_dim(x, -2, None)",
    "lax.transpose(x, (0,))",
    "lax.transpose(x[None], [1, 0])",
    "lax.select_n(1, x, x, x)",
    "lax.select_n(jnp.int32(1), x, x, x)",
    "lax.select_n(i, x, x, x)",
    "lax.cumsum(x)",
    "lax.cumsum(x, reverse=True)",
    "lax.cummax(h, axis=0)",
    "lax.full((2,), 3, dtype=bool)",
    "lax.bitcast_convert_type(x, np.int32)",
    "lax.nextafter(x, 2.0)",
    "lax.is_finite(x)",
    "lax.rem(i, 2)",
    "lax.rem(x, 2.0)",
    "lax.shift_left(i, 1)",
    "lax.bitwise_not(True)",
    "lax.bitwise_and(i, 1)",
    "lax.population_count(i)",
    "lax.clz(i)",
    "lax.round(x)",
    "lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)",
    "lax.sign(i)",
    "lax.neg(u)",
    "lax.square(i)",
    "lax.reciprocal(x)",
    "lax.broadcast_shapes((2, 1), (3,))",
    "lax.broadcast_to_rank(x, 2)",
    "lax.tile(x, (2,))",
    "lax.stack([x, x])",
    "lax.unstack(x)",
    "lax.empty((2,), np.float32)",
    "lax.polygamma(1.0, 2.0)",
    "lax.expand_dims(1.0, (0,))",
    "lax.reduce_xor(i, (0,))",
    "lax.reduce_max(x, (0,))",
    "lax.reduce_max(x, axes=(0,))",
    "lax.broadcast_in_dim(1.0, (2,), ())",
    "lax.broadcast_like(1.0, x)",
    "lax.argmin(x, axis=0, index_dtype=np.int32)",
    "lax.padtype_to_pads((5,), (3,), (1,), 'SAME')",
    "lax.max(x, np.float32(2))",
    "lax.add(x, jnp.ones((1,)))",
    "lax.add(jnp.ones((1, 3)), jnp.ones((2, 3)))",
    "lax.clamp(np.zeros(3, np.float32), x, 1.0)",
    "lax.nextafter(1.0, 2.0)",
    "lax.atan2(1.0, x)",
    "lax.logistic(x)",
    "lax.erf(x)",
    "lax.digamma(2.0)",
    "lax.exp2(x)",
    "lax.cbrt(x)",
    "lax.lt(x, 1.0)",
    "lax.eq(True, True)",
    "lax.ne(x, 0.0)",
    "lax.reduce_window(jnp.arange(9.0), 2.0, lambda a, b: a + b * 2, (3,), (1,), [(1, 2)])",
    (
        "lax.reduce_window(jnp.arange(9.0).reshape(3, 3), 2.0, lambda a, b: a + b, (2, 2), (1, 2), [(1, 0), "
        "(1, 1)], (2, 1), (1, 2))"
    ),
    "lax.reduce_window(jnp.arange(9.0), 3.0, lax.max, (3,), (1,), [(1, 2)])",
    "lax.reduce(x, 1.0, lax.add, (0,))",
    "lax.reduce(x, -np.inf, lax.max, (0,))",
    "lax.reduce(jnp.arange(7.0), 1.0, lambda a, b: a + b + a * b * 0.1, (0,))",
    (
        "lax.reduce((jnp.arange(6.0).reshape(2, 3), jnp.arange(6).reshape(2, 3)), (-np.inf, -1), lambda a, "
        "b: (lax.select(a[0] >= b[0], a[0], b[0]), lax.select(a[0] >= b[0], a[1], b[1])), (1,))"
    ),
    "lax.reduce_window(jnp.arange(9.0).reshape(3, 3), 0.0, lax.add, (2, 2), (1, 1), 'SAME')",
    "lax.reduce_window(jnp.arange(9.0).reshape(3, 3), 1.0, lax.mul, (2, 2), (1, 1), 'VALID')",
    "lax.reduce_window(jnp.arange(9.0), -np.inf, lax.max, (2,), (2,), 'SAME', (2,), (3,))",
    "lax.reduce_window(jnp.arange(9), 0, lax.add, (3,), (1,), [(1, 2)])",
    "lax.reduce_window(jnp.arange(9.0), 2.0, lax.add, (3,), (1,), [(1, 2)])",
    "lax.reduce_window(jnp.arange(9.0), np.inf, lax.min, (2,), (2,), 'SAME_LOWER', (2,), (3,))",
    "lax.conv(jnp.ones((1, 2, 5, 5)), jnp.ones((3, 2, 3, 3)), (2, 2), 'SAME')",
    (
        "lax.conv_general_dilated(jnp.arange(75.0).reshape(1, 5, 5, 3), jnp.arange(81.0).reshape(3, 3, 3, "
        "3), (1, 1), 'VALID', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))"
    ),
    "lax.conv_with_general_padding(jnp.ones((1, 1, 5)), jnp.ones((1, 1, 2)), (1,), [(1, 0)], None, (2,))",
    (
        "lax.conv_transpose(jnp.arange(20.0).reshape(1, 2, 5, 2), jnp.arange(36.0).reshape(3, 3, 2, 2), (2, "
        "1), 'SAME', rhs_dilation=(1, 2))"
    ),
]

OBJECTED = [
    "lax.add(x, 1)",
    "lax.add(i, True)",
    "lax.select(h > 1, h, 0.0)",
    "lax.pad(h, 0, [(1, 1, 0)])",
    "lax.concatenate([x, [1.0]], 0)",
    "lax.iota(bool, 3)",
    "lax.broadcasted_iota(np.int32, (2, 3), -1)",
    "lax.dot(x, 1.0)",
    "lax.dot(jnp.ones((2, 3, 4)), jnp.ones((4, 5)))",
    "lax.squeeze(x[None], 0)",
    "lax.squeeze(x, (0,))",
    "lax.reshape(x, (-1, 1))",
    "lax.integer_pow(i, -1)",
    "lax.pow(i, 2)",
    "lax.sin(1)",
    "lax.sin([1.0])",
    "lax.dynamic_slice(x, (1.0,), (2,))",
    "lax.dynamic_slice(x, 1, (2,))",
    "lax.dynamic_slice(x, (1, 2), (2,))",
    "lax.dynamic_update_slice(x, [1.0], (1,))",
    "lax.index_in_dim(x, 5)",
    "lax.slice_in_dim(x, 0, 9)",
    "lax.select(x, x, x)",
    "lax.is_finite(i)",
    "lax.abs(u)",
    "lax.rsqrt(i)",
    "lax.reciprocal(i)",
    "lax.batch_matmul(x, x)",
    "lax.real(1.0)",
    "lax.lgamma(2)",
    "lax.exp2(i)",
    (
        "lax.conv_general_dilated(jnp.arange(25.0).reshape(1, 1, 5, 5), jnp.arange(9.0).reshape(1, 1, 3, 3), "
        "(1, 2), 'SAME', (2, 1), (1, 2))"
    ),
]


def _evaluate(call, lax, jnp):
    names = {
        "h": jnp.ones(3, np.float16),
        "i": jnp.arange(3),
        "jnp": jnp,
        "lax": lax,
        "np": np,
        "u": jnp.arange(3, dtype=np.uint8),
        "x": jnp.ones(3),
    }
    result = eval(call, names)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _compare(call):
    found = _evaluate(call, lax, functad.numpy)
    expected = _evaluate(call, jax.lax, jax.numpy)
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        if hasattr(e, "weak_type"):
            assert (f.dtype, f.weak_type) == (e.dtype, e.weak_type)
        np.testing.assert_allclose(np.asarray(f), np.asarray(e), rtol=1e-5)


@pytest.mark.parametrize("call", CALLS)
def test_results(call):
    _compare(call)


@pytest.mark.parametrize("call", OBJECTED)
def test_objections(call):
    with pytest.raises(FunctadError):
        _evaluate(call, lax, functad.numpy)
    with pytest.raises((TypeError, ValueError, IndexError, OverflowError)):
        _evaluate(call, jax.lax, jax.numpy)


@pytest.mark.parametrize("transpose_kernel", [False, True])
@pytest.mark.parametrize("padding", ["SAME", "VALID", [(2, 1)]], ids=str)
@pytest.mark.parametrize("window, stride", [(1, 2), (2, 1), (3, 2), (4, 3), (2, 3)])
def test_conv_transpose(window, stride, padding, transpose_kernel):
    x = np.arange(10, dtype=np.float32).reshape(1, 5, 2)
    w = np.arange(window * 4, dtype=np.float32).reshape(window, 2, 2)
    found, expected = (
        lx.conv_transpose(x, w, (stride,), padding, transpose_kernel=transpose_kernel) for lx in (lax, jax.lax)
    )
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-5)
