"""The one product of arrays, `dot_general`: it sums over contracted axes and pairs up batch axes.

Knows no promotion: matmul, tensordot and einsum are written with it in the layers above.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval, Example, OwnDerivative, Primitive, UndefinedPrimal
from functad.lowering_rules import Contraction
from functad.primitives.common import (
    check_bilinear,
    convert_element_type,
    integers,
    is_linear,
    normal,
    transpose,
)
from functad.primitives.dimension_numbers import Dims
from functad.primitives.kernels.pieces import matmul
from functad.primitives.kernels.product_dtypes import check_preferred, wide_for
from functad.tracing import bind

DotDimensionNumbers = tuple[tuple[Dims, Dims], tuple[Dims, Dims]]
"""((lhs contracting, rhs contracting), (lhs batch, rhs batch)): axes that are paired in order."""


def dot_general(
    lhs: Any,
    rhs: Any,
    dimension_numbers: Any,
    preferred_element_type: np.dtype | None = None,
    precision: str | None = None,
) -> Any:
    """Sum of products over the contracting axes, for each index of the batch axes.

    The result's axes are the batch axes, then the remaining ones of lhs, then those of rhs. precision: JAX's word for
    how exact it is to be where hardware has a choice.
    """
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    numbers = (tuple(lhs_contract), tuple(rhs_contract)), (tuple(lhs_batch), tuple(rhs_batch))
    params = {"precision": precision, "preferred_element_type": preferred_element_type}
    return bind(dot_general_p, lhs, rhs, dimension_numbers=numbers, **params)


# --- shape rule -----------------------------------------------------------------------------------------


def _dot_general_aval(
    lhs: Aval,
    rhs: Aval,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: str | None,
    preferred_element_type: np.dtype | None,
) -> Aval:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    types = f"lhs of type {lhs.str_short()} and rhs of type {rhs.str_short()}"
    if lhs.dtype != rhs.dtype:
        raise DTypeError(
            f"dot_general takes operands of one dtype, but was given {types}; functad.numpy promotes by "
            "itself, functad.lax wants x.astype(...)"
        )
    check_preferred("dot_general", lhs.dtype, preferred_element_type)
    for which, x, contract, batch in (
        ("lhs", lhs, lhs_contract, lhs_batch),
        ("rhs", rhs, rhs_contract, rhs_batch),
    ):
        used = (*contract, *batch)
        if len(set(used)) != len(used) or any(not 0 <= d < x.ndim for d in used):
            raise ShapeError(
                f"dot_general: the contracting axes {contract} and batch axes {batch} of {which} must be "
                f"distinct and lie in 0..{x.ndim - 1} for {types}"
            )
    for what, a, b in (("contracting", lhs_contract, rhs_contract), ("batch", lhs_batch, rhs_batch)):
        if len(a) != len(b) or any(lhs.shape[i] != rhs.shape[j] for i, j in zip(a, b)):
            raise ShapeError(
                f"dot_general: the {what} axes must pair up axes of equal size, but axes {a} of lhs have the "
                f"sizes {tuple(lhs.shape[i] for i in a)} and axes {b} of rhs the sizes "
                f"{tuple(rhs.shape[j] for j in b)}; given {types}"
            )
    batch_shape = [lhs.shape[i] for i in lhs_batch]
    lhs_free = [lhs.shape[i] for i in _others(lhs.ndim, lhs_contract, lhs_batch)]
    rhs_free = [rhs.shape[i] for i in _others(rhs.ndim, rhs_contract, rhs_batch)]
    return Aval(batch_shape + lhs_free + rhs_free, preferred_element_type or lhs.dtype)


@lru_cache(1024)
def _others(ndim: int, *used: Dims) -> Dims:
    """The axes that are neither contracted nor paired, in order."""
    return tuple(i for i in range(ndim) if not any(i in axes for axes in used))


# --- implementation -------------------------------------------------------------------------------------


def _dot_general_impl(
    lhs: np.ndarray,
    rhs: np.ndarray,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: str | None,
    preferred_element_type: np.dtype | None,
) -> np.ndarray:
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    dtype = preferred_element_type or lhs.dtype
    if dtype != lhs.dtype:
        wide = wide_for(lhs.dtype, dtype)
        lhs, rhs = lhs.astype(wide), rhs.astype(wide)
    if lhs.ndim == rhs.ndim == 2 and len(lhs_contract) == 1 and not lhs_batch:
        # One BLAS call, which takes transposed views.
        a = lhs.T if lhs_contract == (0,) else lhs
        b = rhs.T if rhs_contract == (1,) else rhs
        matrix: np.ndarray = matmul(_for_blas(a), _for_blas(b))
        return matrix if matrix.dtype is dtype else matrix.astype(dtype, copy=False)
    lhs_free = _others(lhs.ndim, lhs_contract, lhs_batch)
    rhs_free = _others(rhs.ndim, rhs_contract, rhs_batch)
    a = _as_matrices(lhs, lhs_batch, lhs_free, lhs_contract)
    b = _as_matrices(rhs, rhs_batch, rhs_contract, rhs_free)
    product: np.ndarray = np.multiply(a, b) if a.shape[-1] == 1 else matmul(a, b)
    if a.shape[-1] == 1 and lhs_contract and product.dtype != np.bool_:
        product += 0  # as any sum of products: it starts from +0, and −0 is left only where nothing is summed
    shape = [lhs.shape[i] for i in lhs_batch + lhs_free] + [rhs.shape[i] for i in rhs_free]
    return product.reshape(shape).astype(dtype, copy=False)


def _as_matrices(x: np.ndarray, batch: Dims, rows: Dims, columns: Dims) -> np.ndarray:
    """x as a stack of matrices `(*batch, rows, columns)`, copied only where BLAS takes no view of it."""
    batch_shape = [x.shape[i] for i in batch]
    row_count = math.prod(x.shape[i] for i in rows)
    column_count = math.prod(x.shape[i] for i in columns)
    if rows and columns and columns[0] < rows[0]:  # keep the order of memory, and transpose the matrix
        stack = x.transpose(batch + columns + rows).reshape(*batch_shape, column_count, row_count)
        stack = stack.swapaxes(-1, -2)
    else:
        stack = x.transpose(batch + rows + columns).reshape(*batch_shape, row_count, column_count)
    return _for_blas(stack)


def _for_blas(x: np.ndarray) -> np.ndarray:
    """A stack of matrices, copied if NumPy would multiply it element by element: slowly, in sums that saturate."""
    flags = x.flags
    if flags.c_contiguous or (flags.f_contiguous and x.ndim == 2):
        return x
    (rows, columns), (down, right), size = x.shape[-2:], x.strides[-2:], x.itemsize
    if min(rows, columns) <= 1:
        step = right if rows <= 1 else down
        fits = step > 0 and step % size == 0
    else:
        by_rows = right == size and down >= columns * size and down % size == 0
        fits = by_rows or (down == size and right >= rows * size and right % size == 0)
    return x if fits or kind_of(x.dtype) not in "fc" else np.ascontiguousarray(x)


# --- derivatives ----------------------------------------------------------------------------------------


def _dot_general_transpose(
    ct: Any,
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: str | None,
    preferred_element_type: np.dtype | None,
) -> list[Any]:
    check_bilinear("dot_general", lhs, rhs)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    batch_count = len(lhs_batch)
    lhs_free_count = lhs.ndim - len(lhs_contract) - batch_count
    asked: dict[str, Any] = {"precision": precision, "preferred_element_type": preferred_element_type}
    if is_linear(lhs):
        kept = tuple(range(batch_count + lhs_free_count, aval_of(ct).ndim))
        axes = (lhs_batch, lhs_contract, rhs_batch, rhs_contract)
        return [_cotangent(ct, lhs, rhs, kept, *axes, **asked), None]
    kept = tuple(range(batch_count, batch_count + lhs_free_count))
    axes = (rhs_batch, rhs_contract, lhs_batch, lhs_contract)
    return [None, _cotangent(ct, rhs, lhs, kept, *axes, **asked)]


def _cotangent(
    ct: Any,
    x: UndefinedPrimal,
    other: Any,
    other_free_in_ct: Dims,
    x_batch: Dims,
    x_contract: Dims,
    other_batch: Dims,
    other_contract: Dims,
    **asked: Any,
) -> Any:
    """The cotangent of operand x: ct contracted with the free axes of the other operand."""
    axes = (other_free_in_ct, x_batch, x_contract, other_batch, other_contract)
    numbers, permutation = _transposed_numbers(x.ndim, other.ndim, *axes)
    product = dot_general(ct, convert_element_type(other, ct.dtype), numbers, **asked)
    return convert_element_type(transpose(product, permutation), x.dtype)


@lru_cache(1024)
def _transposed_numbers(
    ndim: int,
    other_ndim: int,
    other_free_in_ct: Dims,
    x_batch: Dims,
    x_contract: Dims,
    other_batch: Dims,
    other_contract: Dims,
) -> tuple[DotDimensionNumbers, Dims]:
    """How to contract a cotangent with the other operand, and how to permute the result's axes then."""
    other_free = _others(other_ndim, other_contract, other_batch)
    numbers = (other_free_in_ct, other_free), (tuple(range(len(x_batch))), other_batch)
    # The result's axes: batch, those of x that are free, then the contracted ones in the other's order.
    contracted = [x for _, x in sorted(zip(other_contract, x_contract))]
    order = (*x_batch, *_others(ndim, x_contract, x_batch), *contracted)
    return numbers, tuple([order.index(i) for i in range(ndim)])


# --- batching -------------------------------------------------------------------------------------------


def _dot_general_batch(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: str | None,
    preferred_element_type: np.dtype | None,
) -> tuple[Any, int]:
    (lhs, rhs), (d_lhs, d_rhs) = args, dims
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    if d_lhs is not None:
        lhs_contract, lhs_batch = _shifted(lhs_contract, d_lhs), _shifted(lhs_batch, d_lhs)
    if d_rhs is not None:
        rhs_contract, rhs_batch = _shifted(rhs_contract, d_rhs), _shifted(rhs_batch, d_rhs)
    position = 0
    if d_lhs is not None and d_rhs is not None:
        lhs_batch, rhs_batch = (d_lhs, *lhs_batch), (d_rhs, *rhs_batch)
    elif d_lhs is not None:  # the mapped axis is one more free axis
        position = len(lhs_batch) + _others(lhs.ndim, lhs_contract, lhs_batch).index(d_lhs)
    else:
        assert d_rhs is not None
        lhs_free_count = lhs.ndim - len(lhs_contract) - len(lhs_batch)
        free = _others(rhs.ndim, rhs_contract, rhs_batch)
        position = len(rhs_batch) + lhs_free_count + free.index(d_rhs)
    numbers = (lhs_contract, rhs_contract), (lhs_batch, rhs_batch)
    return dot_general(lhs, rhs, numbers, preferred_element_type, precision), position


def _shifted(axes: Dims, dim: int) -> Dims:
    return tuple(i + (i >= dim) for i in axes)


# --- the record -----------------------------------------------------------------------------------------


def _example(lhs: np.ndarray, rhs: np.ndarray, contract: Any, batch: Any = ((), ()), **more: Any) -> Example:
    params = {"precision": more.pop("precision", None), "preferred_element_type": more.pop("preferred", None)}
    params |= {"dimension_numbers": (contract, batch)}
    return Example(args=(lhs, rhs), params=params, **more)


def _dot_general_examples() -> list[Example]:
    y = normal(4, 3, seed=1)
    half = np.dtype(np.float16)
    return [
        _example(normal(2, 4), y, ((1,), (0,))),
        _example(normal(4, 2), y, ((0,), (0,))),
        _example(normal(2, 3), y, ((1,), (1,))),
        _example(normal(3), normal(3, seed=1), ((0,), (0,))),
        _example(normal(2), normal(3, seed=1), ((), ())),
        _example(normal(), normal(3, seed=1), ((), ())),
        _example(normal(2, 3, 4), normal(2, 4, 2, seed=1), ((2,), (1,)), ((0,), (0,))),
        _example(normal(4, 3), y, ((0,), (0,)), ((1,), (1,))),
        _example(normal(2, 3, 2, 4), normal(4, 5, 2, 3, seed=1), ((3, 1), (0, 3)), ((2,), (2,))),
        _example(normal(2, 3, 4), normal(3, 4, 2, seed=1), ((1, 2), (0, 1))),
        _example(normal(3, 2), normal(2, 3, seed=1), ((), ()), ((0, 1), (1, 0))),
        _example(normal(2, 0), normal(0, 3, seed=1), ((1,), (0,))),
        _example(normal(0, 2), normal(2, 3, seed=1), ((1,), (0,))),
        _example(normal(2, 4), y, ((1,), (0,)), preferred=np.dtype(np.float32)),
        _example(normal(2, 4), y, ((1,), (0,)), precision="high"),
        _example(normal(2, 4).astype(half), y.astype(half), ((1,), (0,)), preferred=np.dtype(np.float32)),
        _example(integers(2, 3), integers(3, 2, seed=1), ((1,), (0,)), differentiable=False),
        _example(integers(2, 3) > 4, integers(3, 2, seed=1) > 4, ((1,), (0,)), differentiable=False),
        _example(
            integers(2, 3, dtype=np.int8),
            integers(3, 2, dtype=np.int8, seed=1),
            ((1,), (0,)),
            preferred=np.dtype(np.int32),
            differentiable=False,
        ),
    ]


dot_general_p = Primitive(
    name="dot_general",
    doc="Sum of products over some axes, for each index of others: every product of matrices and tensors.",
    multiple_results=False,
    abstract_eval=_dot_general_aval,
    impl=_dot_general_impl,
    jvp=OwnDerivative(),  # d(x · y) = dx · y + x · dy
    transpose=_dot_general_transpose,
    batch=_dot_general_batch,
    lower=Contraction(),
    examples=_dot_general_examples,
)
