"""What the records of linear algebra share: products, transposes and triangles of stacks of matrices, checks and rules.

Knows no factorisation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.errors import DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.lowering_rules import Loops
from functad.primitives import elementwise as el
from functad.primitives.common import (
    broadcast_in_dim,
    convert_element_type,
    full_like,
    move_batch_axis_to_front,
    normal,
    reduce_sum,
    reshape,
    scalar_like,
    transpose,
)
from functad.primitives.contraction import dot_general
from functad.primitives.dimension_numbers import GatherDimensionNumbers
from functad.primitives.gather_scatter import gather
from functad.primitives.loops import factorising
from functad.primitives.structure import iota, slice_

# --- parts of records -------------------------------------------------------------------------------------


def calls_numpy(function: Callable[..., Any]) -> Loops:
    """The lowering rule of an operation that compiled code leaves to its implementation."""
    return Loops(partial(_call, function))


def _call(function: Callable[..., Any], target: Any, ins: Sequence[Any], outs: Sequence[Any], **params: Any) -> None:
    target.call(function, ins, outs, **params)


def calls_lapack(rule: Callable[..., int], function: Callable[..., Any]) -> Callable[..., None]:
    """How an operation becomes calls of LAPACK, as the rule says, or else is left to its implementation."""
    return partial(factorising.by_routines, rule, function)


def batch_leading(bind_it: Callable[..., Any], results: int | Callable[..., int]) -> Callable[..., Any]:
    """The batch rule of an operation for which all axes but the last are batch axes already.

    results: how many results it has, 0 if it is not given in a list.
    """

    def batch(axis_size: int, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[Any, Any]:
        out = bind_it(*[move_batch_axis_to_front(x, d, axis_size) for x, d in zip(args, dims)], **params)
        count = results if isinstance(results, int) else results(**params)
        return (list(out), [0] * count) if count else (out, 0)

    return batch


def check_matrices(name: str, x: Aval, square: bool = False) -> None:
    """Raise unless x holds matrices of numbers that LAPACK knows.

    Raises:
        ShapeError: it has fewer than two axes, or its matrices are not square.
        DTypeError: its elements are none of float32, float64, complex64, complex128.
    """
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        wanted = "square matrices, shape (..., n, n)" if square else "matrices, shape (..., m, n)"
        raise ShapeError(f"{name} takes {wanted}, but was given {x.str_short()}")
    check_numbers(name, x)


def check_numbers(name: str, *avals: Aval) -> None:
    for x in avals:
        if x.dtype.name not in ("float32", "float64", "complex64", "complex128"):
            raise DTypeError(
                f"{name} computes with float32, float64, complex64 and complex128, but was given {x.str_short()}; "
                "convert it with .astype(...)"
            )
        if x.dtype != avals[0].dtype:
            given = ", ".join(a.str_short() for a in avals)
            raise DTypeError(f"{name} takes operands of one dtype, but was given {given}")


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of complex numbers; of real ones it is the dtype itself."""
    return np.dtype(f"f{dtype.itemsize // 2}") if kind_of(dtype) == "c" else dtype


# --- mathematics ------------------------------------------------------------------------------------------


def matmul(x: Any, y: Any) -> Any:
    """The products of two stacks of matrices of one shape of batch axes."""
    n = aval_of(x).ndim
    batch = tuple(range(n - 2))
    return dot_general(x, y, (((n - 1,), (n - 2,)), (batch, batch)))


def transposed(x: Any) -> Any:
    n = aval_of(x).ndim
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def conjugate(x: Any) -> Any:
    return el.conj(x) if kind_of(aval_of(x).dtype) == "c" else x


def adjoint(x: Any) -> Any:
    return conjugate(transposed(x))


def real(x: Any) -> Any:
    return el.real(x) if kind_of(aval_of(x).dtype) == "c" else x


def _offsets(shape: Sequence[int]) -> Any:
    """Of each element of a matrix, how far right of the diagonal it lies."""
    n = len(shape)
    return el.sub(iota(np.int32, shape, n - 1), iota(np.int32, shape, n - 2))


def _where(condition: Any, x: Any) -> Any:
    return el.select_n(condition, full_like(x, 0), x)


def tril(x: Any, k: int = 0) -> Any:
    """The elements on and below the k-th diagonal."""
    return _where(el.le(_offsets(aval_of(x).shape), np.int32(k)), x)


def triu(x: Any, k: int = 0) -> Any:
    return _where(el.ge(_offsets(aval_of(x).shape), np.int32(k)), x)


def eye(shape: Sequence[int], dtype: Any) -> Any:
    """A stack of identity matrices, perhaps not square."""
    ones = broadcast_in_dim(np.dtype(dtype).type(1), shape=shape, broadcast_dimensions=())
    return _where(el.eq(_offsets(shape), np.int32(0)), ones)


def diagonal(x: Any) -> Any:
    """The diagonals of square matrices."""
    aval = aval_of(x)
    return reduce_sum(_where(el.eq(_offsets(aval.shape), np.int32(0)), x), axes=(aval.ndim - 2,))


def rows_of(x: Any, shape: Sequence[int]) -> Any:
    """Vectors, repeated as the rows of matrices."""
    n = len(shape)
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=(*range(n - 2), n - 1))


def columns_of(x: Any, shape: Sequence[int]) -> Any:
    """Vectors, repeated as the columns of matrices."""
    return broadcast_in_dim(x, shape=shape, broadcast_dimensions=tuple(range(len(shape) - 1)))


def hermitian(x: Any, lower: bool) -> Any:
    """The Hermitian matrices of which one triangle is given; what else is in x has no say."""
    half = tril(x, -1) if lower else triu(x, 1)
    on_diagonal = convert_element_type(real(x), aval_of(x).dtype)
    kept = _where(el.eq(_offsets(aval_of(x).shape), np.int32(0)), on_diagonal)
    return el.add(el.add(half, adjoint(half)), kept)


def rows_in_order(x: Any, order: Any) -> Any:
    """The rows of matrices in the order that a stack of vectors gives."""
    shape = aval_of(x).shape
    n = len(shape)
    batch = tuple(range(n - 2))
    numbers = GatherDimensionNumbers((n - 1,), (n - 2,), (n - 2,), batch, batch)
    vectors = reshape(order, (*aval_of(order).shape, 1))
    return gather(x, vectors, numbers, (*[min(size, 1) for size in shape[:-1]], shape[-1]))


def columns_in_order(x: Any, order: Any) -> Any:
    return transposed(rows_in_order(transposed(x), order))


def block(x: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    """Some successive rows and columns of matrices."""
    shape = aval_of(x).shape
    lead = [0] * (len(shape) - 2)
    limits = (*shape[:-2], rows[1], columns[1])
    return slice_(x, (*lead, rows[0], columns[0]), limits, None)


def reciprocal_or_zero(x: Any) -> Any:
    """1/x, and 0 where x is 0 on the diagonal of matrices."""
    aval = aval_of(x)
    one = eye(aval.shape, aval.dtype)
    return el.sub(el.div(scalar_like(aval, 1), el.add(x, one)), one)


# --- inputs for examples ----------------------------------------------------------------------------------


def positive_definite(*shape: int, seed: int = 0) -> np.ndarray:
    """Float32 symmetric matrices with eigenvalues of about 1."""
    x = normal(*shape, seed=seed)
    product: np.ndarray = x @ np.swapaxes(x, -1, -2) / np.float32(shape[-1])
    return product + np.eye(shape[-1], dtype=np.float32)
