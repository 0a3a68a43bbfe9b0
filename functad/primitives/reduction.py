"""Reductions: products, extrema and logic over some axes.

Knows no running results (`cumulative`) and no positions; `reduce_sum`, which other rules need, is in `common`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.evaluation import aval_of
from functad.ir import Aval, Example, Primitive, Zero, ZeroDerivative
from functad.lowering_rules import Reduction
from functad.primitives.builders import ANY, BITS, NUMBERS, RowKinks, check_kind, kinks_of_rows
from functad.primitives.common import (
    NOT_LINEAR,
    add_cotangents,
    batched_axes,
    convert_element_type,
    expand_reduced,
    integers,
    normal,
    reduce_sum,
    reduced_aval,
    reshape,
    transpose,
)
from functad.primitives.elementwise import div, eq, mul
from functad.primitives.joining import concatenate
from functad.primitives.kernels import extrema
from functad.primitives.kernels.pieces import by_halves
from functad.primitives.structure import slice_
from functad.tracing import bind


def reduce_prod(operand: Any, *, axes: Sequence[int]) -> Any:
    """Product over the given axes, which are dropped."""
    return _reduce(reduce_prod_p, operand, axes)


def reduce_max(operand: Any, *, axes: Sequence[int]) -> Any:
    """Maximum over the given axes; NaN where there is one."""
    return _reduce(reduce_max_p, operand, axes)


def reduce_min(operand: Any, *, axes: Sequence[int]) -> Any:
    """Minimum over the given axes; NaN where there is one."""
    return _reduce(reduce_min_p, operand, axes)


def reduce_and(operand: Any, *, axes: Sequence[int]) -> Any:
    """Whether all are True over the given axes; of integers bit by bit."""
    return _reduce(reduce_and_p, operand, axes)


def reduce_or(operand: Any, *, axes: Sequence[int]) -> Any:
    """Whether any is True over the given axes; of integers bit by bit."""
    return _reduce(reduce_or_p, operand, axes)


def reduce_xor(operand: Any, *, axes: Sequence[int]) -> Any:
    """Whether an odd number is True over the given axes; of integers bit by bit."""
    return _reduce(reduce_xor_p, operand, axes)


def _reduce(primitive: Primitive, operand: Any, axes: Sequence[int]) -> Any:
    axes = tuple(axes)
    return bind(primitive, operand, axes=axes) if axes else operand


# --- what all reductions share ----------------------------------------------------------------------


def _reduction(
    name: str,
    impl: Callable[..., Any],
    *,
    jvp: Any,
    kinds: str,
    lower: Reduction,
    doc: str,
    data: Callable[..., np.ndarray] = normal,
    kinks: RowKinks = (),
) -> Primitive:
    """A reduction whose only parameter is `axes`; `data(*shape)` gives its examples, and `kinks` those with ties."""

    def abstract_eval(x: Aval, *, axes: tuple[int, ...]) -> Aval:
        check_kind(name, kinds, x)
        return reduced_aval(name, x, axes)

    def batch(axis_size: int, args: Any, dims: Any, *, axes: tuple[int, ...]) -> tuple[Any, int]:
        new_axes, out_dim = batched_axes(dims[0], axes)
        return bind(made, args[0], axes=new_axes), out_dim

    def examples() -> list[Example]:
        shown = [((3, 4), (0,)), ((2, 3, 4), (0, 2)), ((5,), (0,)), ((1,), (0,)), ((2, 3), (1, 0))]
        shown += [((0, 3), (0,)), ((0, 3), (1,))]
        arrays = [(data(*shape), axes) for shape, axes in shown]
        cases = [(x, axes, kind_of(x.dtype) in "fc") for x, axes in arrays]
        cases.append((integers(2, 3, low=-3, high=4), (1,), False))
        if "c" in kinds:
            cases.append((np.array([[1 + 2j, 1 - 2j, -1], [2, 0.5j, 2 - 1j]], np.complex64), (1,), False))
        away = [Example(args=(x,), params={"axes": axes}, differentiable=d) for x, axes, d in cases]
        return away + kinks_of_rows(kinks, axes=(0,))

    made = Primitive(
        name=name,
        doc=doc,
        multiple_results=False,
        abstract_eval=abstract_eval,
        impl=by_halves(impl),
        jvp=jvp,
        transpose=NOT_LINEAR,
        batch=batch,
        lower=lower,
        examples=examples,
    )
    return made


# --- product ----------------------------------------------------------------------------------------


def _reduce_prod_impl(x: np.ndarray, *, axes: tuple[int, ...]) -> Any:
    return np.prod(x, axis=axes, dtype=x.dtype)


def _reduce_prod_jvp(primals: Any, out: Any, tangents: Any, *, axes: tuple[int, ...]) -> Any:
    # d(∏ xᵢ) = Σᵢ (∏ⱼ≠ᵢ xⱼ) dxᵢ, by halves: dividing the product by xᵢ would fail at zeros
    (x,), (t,) = primals, tangents
    n = math.prod(x.shape[a] for a in axes)
    if isinstance(t, Zero) or n == 0:
        return Zero(Aval(out.shape, out.dtype))
    order = (*axes, *[i for i in range(x.ndim) if i not in axes])
    x, t = (reshape(transpose(a, order), (n, *out.shape)) for a in (x, t))
    while n > 1:
        half = n // 2
        x_low, x_high, x_rest = _thirds(x, half, n)
        t_low, t_high, t_rest = _thirds(t, half, n)
        x = mul(x_low, x_high)
        t = add_cotangents(mul(t_low, x_high), mul(x_low, t_high))
        if n % 2:
            x, t = concatenate([x, x_rest], 0), concatenate([t, t_rest], 0)
        n = n - half
    return reshape(t, out.shape)


def _thirds(x: Any, half: int, n: int) -> list[Any]:
    return [slice_along(x, 0, start, limit) for start, limit in ((0, half), (half, 2 * half), (2 * half, n))]


def slice_along(x: Any, axis: int, start: int, limit: int, stride: int = 1) -> Any:
    """Every `stride`-th element from `start` to before `limit` along one axis."""
    shape = aval_of(x).shape
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = start, limit, stride
    return slice_(x, starts, limits, None if stride == 1 else strides)


reduce_prod_p = _reduction(
    "reduce_prod",
    _reduce_prod_impl,
    jvp=_reduce_prod_jvp,
    kinds=NUMBERS,
    lower=Reduction("prod"),
    kinks=[((0, 2, 3), (1, 0, 0), (6, 0, 0)), ((0, 0, 3), (1, 1, 0), (0, 6, 0)), ((0, 0, 0), (1, 1, 1), (0, 0, 6))],
    doc="Product over some axes.",
)

# --- extrema ----------------------------------------------------------------------------------------


def _lowest(dtype: np.dtype) -> Any:
    if kind_of(dtype) in "fc":
        return -np.inf if kind_of(dtype) == "f" else complex(-np.inf, -np.inf)
    return False if kind_of(dtype) == "b" else np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    if kind_of(dtype) in "fc":
        return np.inf if kind_of(dtype) == "f" else complex(np.inf, np.inf)
    return True if kind_of(dtype) == "b" else np.iinfo(dtype).max


def _extremum_jvp(primals: Any, out: Any, tangents: Any, *, axes: tuple[int, ...]) -> Any:
    # the mean of the tangents of all elements that equal the extremum
    (x,), (t,) = primals, tangents
    if isinstance(t, Zero) or any(x.shape[a] == 0 for a in axes):
        return Zero(Aval(out.shape, out.dtype))
    attained = convert_element_type(eq(x, expand_reduced(out, axes, x.shape)), x.dtype)
    return div(reduce_sum(mul(t, attained), axes=axes), reduce_sum(attained, axes=axes))


_TIES: RowKinks = [((1, 1, 1), (1, -2, 0.5), (-1 / 6, 0, 0)), ((0.0, -0.0, 0), (1, 0, 0), (1 / 3, 0, 0))]

reduce_max_p = _reduction(
    "reduce_max",
    lambda x, *, axes: extrema.reduce(np.maximum, x, axes, _lowest(x.dtype)),
    jvp=_extremum_jvp,
    kinds=ANY,
    lower=Reduction("max"),
    kinks=_TIES,
    doc="Maximum over some axes; of nothing, the lowest value of the dtype.",
)
reduce_min_p = _reduction(
    "reduce_min",
    lambda x, *, axes: extrema.reduce(np.minimum, x, axes, _highest(x.dtype)),
    jvp=_extremum_jvp,
    kinds=ANY,
    lower=Reduction("min"),
    kinks=_TIES,
    doc="Minimum over some axes; of nothing, the highest value of the dtype.",
)

# --- logic ------------------------------------------------------------------------------------------


def _logical(name: str, ufunc: np.ufunc, kind: str, doc: str) -> Primitive:
    return _reduction(
        name,
        lambda x, *, axes: ufunc.reduce(x, axis=axes),
        jvp=ZeroDerivative("operand and result are discrete"),
        kinds=BITS,
        lower=Reduction(kind),
        doc=doc,
        data=lambda *shape: integers(*shape, high=2, dtype=np.bool_),
    )


reduce_and_p = _logical("reduce_and", np.bitwise_and, "and", "All, over some axes; of integers bit by bit.")
reduce_or_p = _logical("reduce_or", np.bitwise_or, "or", "Any, over some axes; of integers bit by bit.")
reduce_xor_p = _logical("reduce_xor", np.bitwise_xor, "xor", "Parity over some axes; of integers bit by bit.")
