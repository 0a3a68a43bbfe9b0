"""`functad.lax`: how it takes operands, what it objects to, and where it goes beyond one primitive.

Knows no rule of a primitive: those are tested on the primitives' own examples.
"""

from __future__ import annotations

import functools
from typing import get_origin

import numpy as np
import pytest

import functad
import functad.numpy as jnp
from functad import lax
from functad.errors import ArgumentError, DTypeError, OutOfBoundsError, ShapeError

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def _check(found, expected):
    found = np.asarray(found)
    expected = np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# --- operands ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_python_scalars_take_the_dtype_of_the_array(dtype):
    _check(lax.add(np.ones(2, dtype), 1.0), np.full(2, 2, dtype))
    _check(lax.clamp(0.0, np.array([-1, 2], dtype), 1.0), np.array([0, 1], dtype))
    _check(lax.pad(np.ones(1, dtype), 0.0, [(1, 0, 0)]), np.array([0, 1], dtype))


def test_python_scalars_alone_stay_weak():
    result = lax.mul(2.0, lax.sin(0.5))
    assert result.weak_type and result.dtype == np.float32


def test_axes_of_size_1_are_repeated():
    _check(lax.add(X, X[:1]), X + X[:1])


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: lax.add(X, 1), DTypeError, r"add takes operands of one dtype.*f32\[3,4\], i32\[\]"),
        (lambda: lax.add(X, np.ones(())), DTypeError, "one dtype"),
        (lambda: lax.sin(1), DTypeError, r"sin takes .*i32\[\]"),
        (lambda: lax.sin([1.0]), DTypeError, "lax.sin takes arrays and numbers.*asarray"),
        (lambda: lax.add(X, X[0]), ShapeError, r"lax.add .*\(3, 4\), \(4,\)"),
        (lambda: lax.integer_pow(np.int32(2), -1), ArgumentError, "integer_pow"),
        (lambda: lax.select(X > 1, X, 0.0), ShapeError, "select_n"),
        (lambda: lax.slice(X, (0, 0), (3, 5)), ShapeError, "axis 1 .* from 0 to 5"),
        (lambda: lax.slice_in_dim(X, 2, 1), ShapeError, "from 2 to 1"),
        (lambda: lax.slice(X, (0,), (1,)), ShapeError, "one entry for each axis"),
        (lambda: lax.index_in_dim(X, 3), OutOfBoundsError, "index 3 .* axis 0 of size 3"),
        (lambda: lax.dynamic_slice(X, (0,), (2, 1)), ShapeError, "one entry for each axis"),
        (lambda: lax.dynamic_slice(X, (jnp.float32(0), 0), (2, 1)), DTypeError, "integer scalars"),
        (lambda: lax.reshape(X, (5, 2)), ShapeError, r"12 elements.*\(5, 2\)"),
        (lambda: lax.reshape(X, (-1, 2)), ShapeError, "reshape"),
        (lambda: lax.transpose(X, (0,)), ShapeError, "does not permute"),
        (lambda: lax.squeeze(X, (0,)), ShapeError, "axis 0 .* has size 3"),
        (lambda: lax.squeeze(X, 0), DTypeError, "sequence of integers"),
        (lambda: lax.expand_dims(X, (0, 0)), ShapeError, "one axis twice"),
        (lambda: lax.rev(X, (2,)), ShapeError, "rev"),
        (lambda: lax.concatenate([], 0), ShapeError, "at least one"),
        (lambda: lax.concatenate([X, X[0]], 0), ShapeError, "equal sizes"),
        (lambda: lax.stack([X, X[0]]), ShapeError, "different shapes"),
        (lambda: lax.split(X, (1, 1)), ShapeError, "sum up to 3"),
        (lambda: lax.tile(X, (2,)), ShapeError, "reps"),
        (lambda: lax.pad(X, 0.0, [(0, 0, 0)]), ShapeError, "padding_config"),
        (lambda: lax.pad(X, 0.0, [(-4, 0, 0), (0, 0, 0)]), ShapeError, "axis 0 .* low=-4"),
        (lambda: lax.pad(X, X, [(0, 0, 0), (0, 0, 0)]), ShapeError, "must be a scalar"),
        (lambda: lax.full((2,), X), ShapeError, "scalar"),
        (lambda: lax.iota(bool, 3), DTypeError, "iota makes numbers"),
        (lambda: lax.broadcast_in_dim(X, (3, 5), (0, 1)), ShapeError, "broadcast_in_dim"),
        (lambda: lax.dot(X, X), ShapeError, "contracting axes must pair up"),
        (lambda: lax.dot(X[None], X), ShapeError, "vectors and matrices"),
        (lambda: lax.dot_general(X, X, (((5,), (0,)), ((), ()))), ShapeError, "of lhs must be"),
        (lambda: lax.dot(X, X.T, preferred_element_type=int), DTypeError, "cannot hold sums of float32"),
        (lambda: lax.batch_matmul(X, X[0]), ShapeError, "equally many axes"),
        (lambda: lax.conv(X[None], X[None], (1,), "odd"), ArgumentError, "odd"),
        (lambda: lax.conv_general_dilated(X[None], X[None], (1,), "SAME", (2,)), ArgumentError, "lhs_dilation"),
        (lambda: lax.sort([X, X[0]]), ShapeError, "one shape"),
        (lambda: lax.sort([X, X], num_keys=3), ArgumentError, "num_keys=3"),
        (lambda: lax.sort(X, dimension=2), ShapeError, "axis 2"),
        (lambda: lax.top_k(X, 5), ArgumentError, "k=5"),
        (lambda: lax.reduce_sum(X, (2,)), ShapeError, "reduce_sum"),
        (lambda: lax.reduce((X, X), 0.0, lax.add, (0,)), ShapeError, "structure"),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2,)), ShapeError, "window_dimensions"),
        (lambda: lax.dynamic_index_in_dim(X[:0], 0), ShapeError, "axis 0 .* is empty, so no slice of size 1"),
        (lambda: lax.dynamic_slice(X, (0, 0), (4, 1)), ShapeError, "axis 0 .* has 3 positions, so no .* size 4"),
        (lambda: lax.dynamic_slice(X, (0, 0), (-1, 1)), ShapeError, "no negative sizes"),
        (lambda: lax.dynamic_update_index_in_dim(X[:0], X[0], 0, 0), ShapeError, "axis 0 .* is empty, so no slice"),
        (lambda: lax.gather(X, X, lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 4)), DTypeError, "integers"),
        (lambda: lax.GatherScatterMode.from_any("wrap"), ArgumentError, "'clip', 'fill', 'drop'"),
    ],
)
def test_objections_name_what_is_wrong(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_objections_are_the_same_while_tracing():
    with pytest.raises(ShapeError, match="contracting axes must pair up"):
        functad.jit(lambda x: lax.dot(x, x))(X)


# --- positions --------------------------------------------------------------------------------------------


def test_negative_start_indices_count_from_the_end():
    _check(lax.dynamic_slice(X, (-1, -2), (1, 2)), X[2:, 2:])
    _check(lax.dynamic_slice(X, jnp.array([-1, -2]), (1, 2)), X[2:, 2:])
    _check(functad.jit(lambda i: lax.dynamic_slice_in_dim(X, i, 1))(-1), X[2:])
    _check(lax.dynamic_slice(X, (jnp.int32(-1), 0), (1, 4), allow_negative_indices=False), X[:1])


def test_computed_start_indices_are_moved_until_the_slice_fits():
    _check(lax.dynamic_slice(X, (jnp.int32(7), jnp.int32(3)), (2, 2)), X[1:, 2:])


def test_updates():
    expected = X.copy()
    expected[1] = 5
    _check(lax.dynamic_update_index_in_dim(X, np.full(4, 5, np.float32), jnp.int32(1), 0), expected)
    _check(lax.dynamic_update_slice_in_dim(X, np.full((1, 4), 5, np.float32), 1, 0), expected)


def test_dynamic_slices_of_start_indices_of_several_dtypes():
    mapped = functad.vmap(lambda i, j: lax.dynamic_slice(X, (i, j), (1, 1))[0, 0])
    _check(mapped(jnp.array([0, 2], np.int8), jnp.array([3, 1], np.uint16)), X[[0, 2], [3, 1]])


# --- computations of one's own ----------------------------------------------------------------------------


def test_reduce_with_a_computation_of_ones_own():
    combined = lax.reduce(X, 0.0, lambda a, b: a + b + a * b, (0,))
    _check(combined, np.prod(1 + X, axis=0) - 1)
    gradient = functad.grad(lambda x: lax.reduce(x, 0.0, lambda a, b: a + b + a * b, (0, 1)))(X[:1, :3])
    _check(gradient, np.float32([[6, 3, 2]]))


def test_reduce_in_order():
    second = lax.reduce(np.arange(5), -1, lambda a, b: lax.select(b < 0, a, b), (0,))
    assert int(second) == 4


def test_reduce_of_several_arrays_together():
    def larger(a, b):
        takes_first = a[0] >= b[0]
        return lax.select(takes_first, a[0], b[0]), lax.select(takes_first, a[1], b[1])

    positions = np.broadcast_to(np.arange(4, dtype=np.int32), (3, 4))
    values, where = lax.reduce((X[:, ::-1].copy(), positions), (-np.inf, -1), larger, (1,))
    _check(values, X.max(1))
    _check(where, np.zeros(3, np.int32))


@pytest.mark.parametrize("computation, init, numpy_function", [(lax.add, 2.0, np.sum), (lax.max, 3.0, np.max)])
def test_an_initial_value_that_is_not_neutral(computation, init, numpy_function):
    combine = np.add if computation is lax.add else np.maximum
    _check(lax.reduce(X, init, computation, (1,)), combine(numpy_function(X, 1), np.float32(init)))
    windows = lax.reduce_window(X, init, computation, (1, 4))
    _check(windows, combine(numpy_function(X, 1, keepdims=True), np.float32(init)))


def test_reduce_of_nothing_gives_the_initial_value():
    _check(lax.reduce(X[:0], 1.5, lambda a, b: a + b, (0,)), np.full(4, 1.5, np.float32))


def test_windows_with_a_computation_of_ones_own():
    result = lax.reduce_window(X, 1.0, lax.mul, (3, 1), (1, 1), [(1, 1), (0, 0)])
    _check(result, np.stack([X[:2].prod(0), X.prod(0), X[1:].prod(0)]))


# --- the rest ---------------------------------------------------------------------------------------------


def test_stop_gradient_of_a_pytree():
    tree = lax.stop_gradient({"weights": X, "steps": 3})
    _check(tree["weights"], X)
    assert int(tree["steps"]) == 3
    _check(functad.grad(lambda x: (x * lax.stop_gradient(x)).sum())(X), X)


def test_full_like_keeps_weakness_and_takes_shape_structs():
    assert lax.full_like(lax.full((2,), 1.0), 2).weak_type
    _check(lax.full_like(functad.ShapeDtypeStruct((2,), np.float16), 1), np.ones(2, np.float16))


def test_conj_of_a_real_number_is_complex():
    _check(lax.conj(np.float32([1, np.inf])), np.array([1, np.inf], np.complex64))


PRECISIONS = [
    (None, None), ("high", "high"), ("bfloat16", "bfloat16"), (lax.Precision.HIGHEST, "highest"),
    (lax.Precision.DEFAULT, "default"), ((lax.Precision.HIGH, "high"), "high"), (("high", "highest"), "highest"),
    (lax.DotAlgorithmPreset.TF32_TF32_F32, "TF32_TF32_F32"), (lax.DotAlgorithmPreset.DEFAULT, "default"),
    (lax.DotAlgorithm(np.float32, np.float32, np.float32), "highest"),
    (lax.DotAlgorithm("bfloat16", "bfloat16", np.float32), "BF16_BF16_F32"),
    (lax.DotAlgorithm("bfloat16", "bfloat16", np.float32, 1, 1, 3), "highest"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "word"), PRECISIONS, ids=str)
def test_precision_is_a_parameter_of_products_and_makes_no_difference_here(given, word):
    _check(lax.dot(X, X.T, precision=given), X @ X.T)
    assert precisions_of(lambda x: lax.dot(x, x.T, precision=given), X) == {word}


def precisions_of(fun, *args):
    equations = functad.jit(fun).lower(*args).optimized.eqns
    return {eqn.params["precision"] for eqn in equations if eqn.primitive is lax.dot_general_p}


PRODUCTS = {
    "dot_general": lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), "high"),
    "batch_matmul": lambda x, y: lax.batch_matmul(x[None], y[None], "high"),
    "ragged_dot": lambda x, y: lax.ragged_dot(x, y[None], np.int32([40]), precision="high"),
    "matmul": lambda x, y: jnp.matmul(x, y, precision="high"),
    "stacked matmul": lambda x, y: jnp.matmul(x[None], y[None], precision="high"),
    "dot": lambda x, y: jnp.dot(x, y, precision="high"),
    "vdot": lambda x, y: jnp.vdot(x, y, precision="high"),
    "inner": lambda x, y: jnp.inner(x, y, precision="high"),
    "vecdot": lambda x, y: jnp.vecdot(x, y, precision="high"),
    "tensordot": lambda x, y: jnp.tensordot(x, y, 1, precision="high"),
    "einsum": lambda x, y: jnp.einsum("ij,jk->ik", x, y, precision="high"),
    "multi_dot": lambda x, y: jnp.linalg.multi_dot([x, y, x], precision="high"),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_keep_their_precision_through_transforms(name):
    x = np.full((40, 40), 0.5, np.float32)

    def loss(x, y):
        return (PRODUCTS[name](x, y) ** 2).sum()

    for fun, args in (
        (PRODUCTS[name], (x, x)),
        (functad.grad(loss, (0, 1)), (x, x)),
        (functad.vmap(functad.value_and_grad(loss), (0, None)), (x[None], x)),
    ):
        text = str(functad.make_jaxpr(fun)(*args))
        assert text.count("dot_general[") == text.count("precision=high") > 0, text


def test_the_optimiser_keeps_precisions_where_it_writes_products_anew():
    """Of rows of a table, of several steps of a loop, and of transposes."""
    high = functools.partial(jnp.matmul, precision="high")
    table, w, i = np.ones((100, 64), np.float32), np.ones((64, 512), np.float32), np.arange(1000, dtype=np.int32) % 100

    def rows(table, w):
        return jnp.tanh(high(table[i], w)).sum()

    def loop(xs, w):
        return lax.scan(lambda h, x: (jnp.tanh(high(h, w) + high(x, w)), None), xs[0], xs)[0].sum()

    for fun, args in ((rows, (table, w)), (loop, (np.ones((20, 16, 64), np.float32), w[:, :64]))):
        for form in (fun, functad.grad(fun, (0, 1))):
            text = str(functad.jit(form).lower(*args).optimized)
            assert text.count("dot_general[") == text.count("precision=high") > 0, text


def test_a_precision_that_there_is_not_raises():
    with pytest.raises(ArgumentError, match="precision must be None.*'higher'"):
        jnp.matmul(X, X.T, precision="higher")


def test_every_public_function_has_an_example():
    for name in lax.__all__:
        member = getattr(lax, name)
        if not isinstance(member, type) and get_origin(member) is None and callable(member):
            assert ">>>" in member.__doc__, name


_ROW, _WIDE = np.ones(3, np.float32), np.ones((2, 3), np.float32)
_PLACES = np.zeros((1, 1), np.int32)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: lax.full((-1,), 0), ShapeError, "shape=(-1,) must not be negative"),
        (lambda: lax.full_like(_ROW, 0, shape=(-2, 3)), ShapeError, "shape=(-2, 3) must not be negative"),
        (lambda: lax.pad(_ROW, np.float32(0), ((0,),)), ShapeError, "(low, high, interior) for each axis"),
        (lambda: lax.pad(_ROW, np.float32(0), 0), DTypeError, "padding_config must be a sequence"),
        (lambda: lax.gather(_ROW, _PLACES, None, (1,)), ArgumentError, "must be lax.GatherDimensionNumbers(...)"),
        (lambda: lax.scatter(_ROW, _PLACES, _ROW[:1], None), ArgumentError, "must be lax.ScatterDimensionNumbers(...)"),
        (lambda: lax.shape_as_value("a"), DTypeError, "a sequence of integers, got 'a'"),
        (lambda: lax.linalg.cholesky(_WIDE), ShapeError, "linalg.cholesky takes square matrices, got shape (2, 3)"),
        (lambda: lax.linalg.cholesky(_ROW), ShapeError, "linalg.cholesky takes matrices, got shape (3,)"),
        (lambda: lax.linalg.cholesky_update(_WIDE, _ROW), ShapeError, "takes shapes (n, n) and (n,), got (2, 3)"),
        (lambda: lax.ragged_dot(_ROW, _ROW, _ROW), ShapeError, "takes lhs (m, k), rhs (g, k, n) and group_sizes (g,)"),
    ],
)
def test_refusals_name_what_was_called(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
