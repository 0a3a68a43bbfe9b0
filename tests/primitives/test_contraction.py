"""`dot_general` beyond its examples: no copies, accumulation, integers, and what its rules turn into."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import functad
from functad import lax, machine_model
from functad.primitives import contraction
from functad.primitives.contraction import dot_general
from functad.primitives.kernels import pieces


def _primitives(fun, *args):
    return [(e.primitive.name, e.params) for e in functad.make_jaxpr(fun)(*args).eqns]


@pytest.mark.parametrize(
    "batch, rows, columns", [((), (0, 1), (2,)), ((), (2,), (0, 1)), ((0,), (1,), (2,)), ((0,), (2,), (1,))]
)
def test_operands_are_not_copied_where_blas_takes_a_view(batch, rows, columns):
    x = np.ones((2, 3, 4), np.float32)
    assert np.shares_memory(contraction._as_matrices(x, batch, rows, columns), x)


def test_matrices_that_blas_cannot_take_are_copied_once():
    x = np.ones((6, 8, 4), np.float32)
    matrices = contraction._as_matrices(x, (2,), (0,), (1,))
    assert matrices.flags.c_contiguous and matrices.shape == (4, 6, 8)


@pytest.mark.parametrize("lhs_axis, rhs_axis", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_all_transposed_products_of_matrices(lhs_axis, rhs_axis):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((5, 5)), rng.standard_normal((5, 5))
    expected = (x if lhs_axis else x.T) @ (y.T if rhs_axis else y)
    found = dot_general(x, y, (((lhs_axis,), (rhs_axis,)), ((), ())))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)


def test_float16_accumulates_in_float32():
    ones = np.ones(4096, np.float16)  # counting by ones, float16 would stop at 2048
    result = dot_general(ones, ones, (((0,), (0,)), ((), ())))
    assert result.dtype == np.float16 and float(result) == 4096


def test_integers_wrap_and_are_widened_on_demand():
    x = np.full(4, 100, np.int8)
    numbers = (((0,), (0,)), ((), ()))
    assert int(dot_general(x, x, numbers)) == np.int8(40000 % 256)
    assert int(dot_general(x, x, numbers, np.dtype(np.int32))) == 40000


def test_booleans_are_or_of_and():
    x = np.array([[True, True], [False, False]])
    result = dot_general(x, x, (((1,), (0,)), ((), ())))
    np.testing.assert_array_equal(np.asarray(result), [[True, True], [False, False]])


def test_products_over_nothing_are_zero():
    result = dot_general(np.ones((2, 0)), np.ones((0, 3)), (((1,), (0,)), ((), ())))
    np.testing.assert_array_equal(np.asarray(result), np.zeros((2, 3)))


def test_mapping_one_operand_gives_one_larger_product():
    x, w = np.ones((7, 2, 3), np.float32), np.ones((3, 4), np.float32)
    ((name, params),) = _primitives(functad.vmap(lambda x: lax.dot(x, w)), x)
    assert name == "dot_general" and params["dimension_numbers"] == (((2,), (0,)), ((), ()))


def test_mapping_both_operands_gives_a_batch_axis():
    x = np.ones((7, 2, 3), np.float32)
    ((name, params),) = _primitives(functad.vmap(lambda x, y: lax.dot(x, y), (0, 2)), x, np.ones((3, 4, 7), np.float32))
    assert name == "dot_general" and params["dimension_numbers"] == (((2,), (0,)), ((0,), (2,)))


def test_gradients_keep_the_dtypes_of_mixed_precision():
    x, y = np.ones((2, 3), np.float16), np.ones((3, 4), np.float16)

    def fun(x, y):
        return lax.dot(x, y, preferred_element_type=np.float32)

    out, pullback = functad.vjp(fun, x, y)
    dx, dy = pullback(np.ones((2, 4), np.float32))
    assert (out.dtype, dx.dtype, dy.dtype) == (np.float32, np.float16, np.float16)
    np.testing.assert_array_equal(np.asarray(dx), np.full((2, 3), 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int32])
@pytest.mark.parametrize(
    "shape", [(9, 7, 5), (5, 7, 9), (2, 9, 3), (1, 40, 1), (3, 4, 7, 5), (2, 5, 9, 4, 11), (7, 1, 9), (9, 0, 5)]
)
def test_large_products_are_made_by_pieces(dtype, shape, monkeypatch):
    *batch, m, k, n = shape
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, (*batch, m, k)).astype(dtype)
    b = rng.integers(-9, 9, (*batch, n, k)).astype(dtype).swapaxes(-1, -2)
    expected, gram = np.matmul(a, b), np.matmul(a, a.swapaxes(-1, -2))
    made = []

    def product(x, y, out=None):
        made.append(x.size * y.shape[-1])
        return matmul(x, y, out=out)

    matmul = np.matmul
    monkeypatch.setattr(
        machine_model,
        "PIECE_PRODUCT",
        40 * machine_model.PRODUCT_COST.get(a.dtype.name, machine_model.OTHER_PRODUCT_COST),
    )
    monkeypatch.setattr(machine_model, "PIECE_ROWS", 1)
    monkeypatch.setattr(np, "matmul", product)
    np.testing.assert_array_equal(pieces.matmul(a, b), expected)  # whole numbers: no rounding
    np.testing.assert_array_equal(pieces.matmul(a, a.swapaxes(-1, -2)), gram)
    assert max(made) <= max(40, k)


def test_products_of_integers_wrap_around_in_the_dtype_that_is_asked_for() -> None:
    x = np.array([2**63 + 1, 3], np.uint64)
    dot = functools.partial(lax.dot_general, dimension_numbers=(((0,), (0,)), ((), ())))
    for dtype in (np.int64, np.int32, np.uint8):
        fun = functools.partial(dot, preferred_element_type=dtype)
        assert fun(x, x) == functad.jit(fun)(x, x) == 10


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_gradients_of_products_of_another_kind(dtype) -> None:
    weights = np.array([1, 2, 3], dtype)

    def fun(x):
        return lax.dot(lax.convert_element_type(x, dtype), weights, preferred_element_type=np.complex64).real

    x = np.ones(3, np.float32)
    expected = np.float32([0, 0, 0] if dtype == "int32" else [1, 2, 3])
    for gradient in (functad.grad(fun), functad.jit(functad.grad(fun))):
        found = gradient(x)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(found), expected)
