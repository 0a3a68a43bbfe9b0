"""Convolution of any rank, layout, stride, padding, dilation and grouping.

Knows the derivative and batching of convolutions in terms of convolutions; the sums are done by the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functad import dtypes
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval, Example, OwnDerivative, Primitive, UndefinedPrimal
from functad.lowering_rules import Loops
from functad.primitives.common import (
    check_bilinear,
    convert_element_type,
    integers,
    is_linear,
    move_axis,
    normal,
    reshape,
    zeros_of,
)
from functad.primitives.kernels import convolution as kernels
from functad.primitives.kernels.convolution import Padding
from functad.primitives.kernels.product_dtypes import check_preferred, wide_for
from functad.primitives.loops import convolution as loops
from functad.primitives.structure import rev
from functad.primitives.window_geometry import dilated, window_count
from functad.records import NamedTuple
from functad.tracing import bind


class ConvDimensionNumbers(NamedTuple):
    """Which axis of each array is what.

    lhs_spec: (batch, feature, *spatial) axes of the input
    rhs_spec: (out feature, in feature, *spatial) axes of the kernel
    out_spec: (batch, feature, *spatial) axes of the result

    >>> from functad import lax
    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC")).lhs_spec
    (0, 3, 1, 2)
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    *,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    preferred_element_type: np.dtype | None = None,
) -> Any:
    """Convolve `lhs` with the kernel `rhs` (without flipping it, as is usual in neural networks)."""
    return bind(
        conv_general_dilated_p,
        lhs,
        rhs,
        window_strides=tuple(window_strides),
        padding=tuple((low, high) for low, high in padding),
        lhs_dilation=tuple(lhs_dilation),
        rhs_dilation=tuple(rhs_dilation),
        dimension_numbers=dimension_numbers,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        preferred_element_type=preferred_element_type,
    )


# --- shape rule and implementation ------------------------------------------------------------------


def _conv_aval(
    lhs: Aval,
    rhs: Aval,
    *,
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: np.dtype | None,
) -> Aval:
    _check_operands(lhs, rhs, dimension_numbers)
    check_preferred("conv_general_dilated", lhs.dtype, preferred_element_type)
    _check_spatial(
        lhs.ndim - 2,
        window_strides=window_strides,
        padding=padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
    )
    batch, features, *sizes = (lhs.shape[i] for i in dimension_numbers.lhs_spec)
    out_features, in_features, *windows = (rhs.shape[i] for i in dimension_numbers.rhs_spec)
    _check_groups(batch, features, out_features, in_features, feature_group_count, batch_group_count)
    spatial = [
        window_count(n, k, stride, pads, base, dilation)
        for n, k, stride, pads, base, dilation in zip(
            sizes, windows, window_strides, padding, lhs_dilation, rhs_dilation, strict=True
        )
    ]
    canonical = (batch // batch_group_count, out_features, *spatial)
    shape = [0] * lhs.ndim
    for size, axis in zip(canonical, dimension_numbers.out_spec, strict=True):
        shape[axis] = size
    return Aval(shape, preferred_element_type or lhs.dtype)


def _check_operands(lhs: Aval, rhs: Aval, dimension_numbers: ConvDimensionNumbers) -> None:
    if lhs.ndim != rhs.ndim or lhs.ndim < 2:
        raise ShapeError(
            "conv_general_dilated takes an input (batch, feature, *spatial) and a kernel (out feature, "
            f"in feature, *spatial) of one rank, but was given shapes {lhs.shape} and {rhs.shape}"
        )
    if lhs.dtype != rhs.dtype or kind_of(lhs.dtype) not in "fciu":
        raise DTypeError(
            "conv_general_dilated takes an input and a kernel of one numeric dtype, but was given "
            f"{lhs.str_short()} and {rhs.str_short()}; convert one, for instance with kernel.astype(x.dtype)"
        )
    for name, spec in zip(dimension_numbers._fields, dimension_numbers, strict=True):
        if sorted(spec) != list(range(lhs.ndim)):
            raise ArgumentError(
                f"conv_general_dilated: dimension_numbers.{name}={spec} must name each of the axes "
                f"0..{lhs.ndim - 1} once"
            )


def _check_spatial(rank: int, **per_axis: Sequence[Any]) -> None:
    for name, values in per_axis.items():
        if len(values) != rank:
            raise ArgumentError(
                f"conv_general_dilated: {name}={tuple(values)} must have {rank} entries, one a spatial axis"
            )
        if name != "padding" and any(not hasattr(v, "__index__") or v < 1 for v in values):
            raise ArgumentError(
                f"conv_general_dilated: {name}={tuple(values)} must be at least 1 on every axis, in whole numbers"
            )


def _check_groups(
    batch: int, features: int, out_features: int, in_features: int, feature_groups: int, batch_groups: int
) -> None:
    if feature_groups < 1 or batch_groups < 1 or (feature_groups > 1 and batch_groups > 1):
        raise ArgumentError(
            f"conv_general_dilated: feature_group_count={feature_groups} and "
            f"batch_group_count={batch_groups} must be at least 1, and one of them 1"
        )
    if in_features * feature_groups != features:
        raise ShapeError(
            f"conv_general_dilated: the input has {features} features, but the kernel takes {in_features} in "
            f"each of feature_group_count={feature_groups} groups, that is {in_features * feature_groups}; "
            "check the kernel's shape and dimension_numbers"
        )
    if out_features % feature_groups or out_features % batch_groups:
        raise ShapeError(
            f"conv_general_dilated: the kernel's {out_features} output features cannot be divided into "
            f"{max(feature_groups, batch_groups)} groups"
        )
    if batch % batch_groups:
        raise ShapeError(
            f"conv_general_dilated: the input's batch of {batch} cannot be divided into "
            f"batch_group_count={batch_groups} groups"
        )


def _conv_impl(
    lhs: np.ndarray,
    rhs: np.ndarray,
    *,
    dimension_numbers: ConvDimensionNumbers,
    preferred_element_type: np.dtype | None,
    **params: Any,
) -> np.ndarray:
    dtype = preferred_element_type or lhs.dtype
    wide = wide_for(lhs.dtype, dtype)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    out = kernels.conv_general_dilated(
        lhs.astype(wide, copy=False).transpose(lhs_spec),
        rhs.astype(wide, copy=False).transpose(rhs_spec),
        **params,
    )
    result: np.ndarray = out.transpose(np.argsort(out_spec)).astype(dtype, copy=False)
    return result


# --- derivatives ------------------------------------------------------------------------------------
# In one spatial dimension, with x dilated by b to X, padded by p in front, stride s and window dilation r:
#     y[n, o, i] = Σ_c Σ_k X[n, c, s i + r k - p] w[o, c, k]


def _conv_transpose(ct: Any, lhs: Any, rhs: Any, **params: Any) -> list[Any]:
    check_bilinear("conv_general_dilated", lhs, rhs)
    linear, known = (lhs, rhs) if is_linear(lhs) else (rhs, lhs)
    known_type = aval_of(known)
    if 0 in (aval_of(ct).size, known_type.size, linear.aval.size):
        result = zeros_of(Aval(linear.shape, linear.dtype))
    else:
        rule = _transpose_lhs if linear is lhs else _transpose_rhs
        known = convert_element_type(known, aval_of(ct).dtype)
        result = convert_element_type(rule(ct, linear, known, **params), linear.dtype)
    return [result, None] if linear is lhs else [None, result]


def _transpose_lhs(
    ct: Any,
    lhs: UndefinedPrimal,
    rhs: Any,
    *,
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: np.dtype | None,
) -> Any:
    """The input's cotangent: `ct`, dilated by the stride, convolved with the reversed kernel, stride b.

    dx[n, c, j] = Σ_o Σ_k Y[n, o, b j + p - r k] w[o, c, k], where Y is y's cotangent dilated by s.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    ct_shape, rhs_shape = aval_of(ct).shape, aval_of(rhs).shape
    pads = []
    for i, (low, _) in enumerate(padding):
        reach = (rhs_shape[rhs_spec[i + 2]] - 1) * rhs_dilation[i]
        before = reach - low
        covered = dilated(lhs.shape[lhs_spec[i + 2]], lhs_dilation[i]) + reach
        pads.append((before, covered - before - dilated(ct_shape[out_spec[i + 2]], window_strides[i])))
    groups = max(feature_group_count, batch_group_count)
    if groups > 1:  # (group, out) × in features to out × (group, in) features
        rhs = _merge_axis(_split_axis(rhs, rhs_spec[0], groups), rhs_spec[0], rhs_spec[1])
    out = conv_general_dilated(
        ct,
        rev(rhs, dimensions=rhs_spec[2:]),
        window_strides=lhs_dilation,
        padding=pads,
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(out_spec, _swap_features(rhs_spec), lhs_spec),
        feature_group_count=groups,
        preferred_element_type=preferred_element_type,
    )
    if batch_group_count > 1:  # batch × (group, feature) to (group, batch) × feature
        out = _merge_axis(_split_axis(out, lhs_spec[1], batch_group_count), lhs_spec[1], lhs_spec[0])
    return out


def _transpose_rhs(
    ct: Any,
    rhs: UndefinedPrimal,
    lhs: Any,
    *,
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: np.dtype | None,
) -> Any:
    """The kernel's cotangent: the input convolved with `ct`, summing over the batch.

    dw[o, c, k] = Σ_n Σ_i X[n, c, s i + r k - p] ct[n, o, i]. Stride and window dilation swap, so do batch and
    features, and with them the groups.
    """
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    ct_shape, lhs_shape = aval_of(ct).shape, aval_of(lhs).shape
    pads = []
    for i, (low, _) in enumerate(padding):
        reach = (rhs.shape[rhs_spec[i + 2]] - 1) * rhs_dilation[i]
        covered = dilated(ct_shape[out_spec[i + 2]], window_strides[i]) + reach
        pads.append((low, covered - low - dilated(lhs_shape[lhs_spec[i + 2]], lhs_dilation[i])))
    return conv_general_dilated(
        lhs,
        ct,
        window_strides=rhs_dilation,
        padding=pads,
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers(*map(_swap_features, (lhs_spec, out_spec, rhs_spec))),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        preferred_element_type=preferred_element_type,
    )


def _swap_features(spec: tuple[int, ...]) -> tuple[int, ...]:
    return (spec[1], spec[0], *spec[2:])


# --- batching ---------------------------------------------------------------------------------------


def _conv_batch(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    **params: Any,
) -> tuple[Any, int]:
    """Fold the mapped axis into an axis that the convolution does not sum over.

    Of the input alone that is the batch, of the kernel alone the output features; of both, one more group.
    """
    (lhs, rhs), (lhs_dim, rhs_dim) = args, dims
    if axis_size == 0:  # which divides no axis
        params |= {"feature_group_count": feature_group_count, "batch_group_count": batch_group_count}
        one = _conv_aval(
            _unmapped(lhs, lhs_dim), _unmapped(rhs, rhs_dim), dimension_numbers=dimension_numbers, **params
        )
        return zeros_of(Aval((0, *one.shape), one.dtype)), 0
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    out_axis, out_groups = out_spec[1], feature_group_count * batch_group_count
    if rhs_dim is None:
        lhs = _fold(lhs, lhs_dim, lhs_spec[0], batch_group_count)
        out_axis, out_groups = out_spec[0], 1
    elif lhs_dim is None:
        rhs = _fold(rhs, rhs_dim, rhs_spec[0], out_groups)
    else:
        rhs, out_groups = _fold(rhs, rhs_dim, rhs_spec[0], 1), 1
        if batch_group_count > 1:
            lhs = _fold(lhs, lhs_dim, lhs_spec[0], 1)
            batch_group_count *= axis_size
        else:
            lhs = _fold(lhs, lhs_dim, lhs_spec[1], 1)
            feature_group_count *= axis_size
    out = conv_general_dilated(
        lhs,
        rhs,
        dimension_numbers=dimension_numbers,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        **params,
    )
    return _unfold(out, out_axis, out_groups, axis_size)


def _unmapped(x: Any, dim: int | None) -> Aval:
    """The type of one example's operand."""
    aval = aval_of(x)
    return Aval([n for axis, n in enumerate(aval.shape) if axis != dim], aval.dtype)


def _fold(x: Any, dim: int | None, axis: int, groups: int) -> Any:
    """Merge the mapped axis into another: (group, rest) becomes (group, mapped, rest)."""
    assert dim is not None
    if groups == 1:
        return _merge_axis(x, dim, axis)
    front = _split_axis(move_axis(x, dim, 0), axis + 1, groups)  # mapped, …, group, rest, …
    grouped = _merge_axis(front, 0, axis + 1)  # …, group, (mapped, rest), …
    return _merge_axis(grouped, axis, axis)


def _unfold(out: Any, axis: int, groups: int, axis_size: int) -> tuple[Any, int]:
    """Undo `_fold` on a result; returns it with the place of the mapped axis."""
    if groups == 1:
        return _split_axis(out, axis, axis_size), axis
    grouped = _split_axis(_split_axis(out, axis, groups), axis + 1, axis_size)  # …, group, mapped, rest, …
    front = move_axis(grouped, axis + 1, 0)
    return _merge_axis(front, axis + 1, axis + 1), 0


def _split_axis(x: Any, axis: int, count: int) -> Any:
    """Split an axis of size count·n into two: `count`, then n."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]))


def _merge_axis(x: Any, source: int, destination: int) -> Any:
    """Take away axis `source` and merge it, as the slower one, into axis `destination` of what is left."""
    moved = move_axis(x, source, destination)
    shape = aval_of(moved).shape
    merged = shape[destination] * shape[destination + 1]
    return reshape(moved, (*shape[:destination], merged, *shape[destination + 2 :]))


# --- examples ---------------------------------------------------------------------------------------


def _standard_layout(ndim: int) -> ConvDimensionNumbers:
    axes = tuple(range(ndim))
    return ConvDimensionNumbers(axes, axes, axes)


def _example(lhs: np.ndarray, rhs: np.ndarray, differentiable: bool = True, **changes: Any) -> Example:
    rank = lhs.ndim - 2
    params = {
        "window_strides": (1,) * rank,
        "padding": ((0, 0),) * rank,
        "lhs_dilation": (1,) * rank,
        "rhs_dilation": (1,) * rank,
        "dimension_numbers": _standard_layout(lhs.ndim),
        "feature_group_count": 1,
        "batch_group_count": 1,
        "preferred_element_type": None,
    }
    return Example(args=(lhs, rhs), params={**params, **changes}, differentiable=differentiable)


def _conv_examples() -> list[Example]:
    channels_last = ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    return [
        _example(normal(2, 2, 5), normal(3, 2, 2), window_strides=(2,), padding=((1, 2),)),
        _example(normal(1, 2, 4, 3), normal(2, 2, 2, 3), padding=((-1, 1), (2, 0)), rhs_dilation=(2, 1)),
        _example(normal(2, 3, 4, 2), normal(2, 1, 2, 2), dimension_numbers=channels_last, window_strides=(2, 1)),
        _example(normal(1, 4, 4), normal(6, 2, 2), feature_group_count=2, lhs_dilation=(2,), padding=((1, -1),)),
        _example(normal(4, 2, 4), normal(4, 2, 2), batch_group_count=2, window_strides=(3,)),
        _example(normal(2, 3), normal(2, 3)),
        _example(normal(1, 1, 2), normal(1, 1, 4)),  # the window does not fit once
        _example(normal(0, 1, 3), normal(2, 1, 2)),
        _example(normal(1, 1, 3), normal(1, 1, 2), preferred_element_type=dtypes.float32, differentiable=False),
        _example(
            integers(1, 2, 4),
            integers(2, 2, 3, seed=1),
            preferred_element_type=dtypes.as_dtype("int64"),
            differentiable=False,
        ),
    ]


conv_general_dilated_p = Primitive(
    name="conv_general_dilated",
    doc="Convolution with strides, padding, dilation of both operands, and feature or batch groups.",
    multiple_results=False,
    abstract_eval=_conv_aval,
    impl=_conv_impl,
    jvp=OwnDerivative(),  # d conv(x, w) = conv(dx, w) + conv(x, dw)
    transpose=_conv_transpose,
    batch=_conv_batch,
    lower=Loops(loops.lower_conv_general_dilated),
    examples=_conv_examples,
)

# --- public conversions -----------------------------------------------------------------------------


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """The ConvDimensionNumbers that a description of the layouts means.

    Args:
        lhs_shape, rhs_shape: shapes of the input and the kernel.
        dimension_numbers: None for ("NCHW", "OIHW", "NCHW") of the right rank, three such strings (N batch,
            C feature, O and I the kernel's features, other letters spatial), or ConvDimensionNumbers.

    Raises:
        ShapeError: input and kernel differ in rank.
        ArgumentError: the strings do not describe arrays of these ranks.

    >>> conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 6), ("NHWC", "HWIO", "NHWC")).rhs_spec
    (3, 2, 0, 1)
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    if len(lhs_shape) != len(rhs_shape):
        raise ShapeError(
            f"a convolution's input and kernel must have one rank, but have shapes {tuple(lhs_shape)} and "
            f"{tuple(rhs_shape)}"
        )
    if dimension_numbers is None:
        return _standard_layout(len(lhs_shape))
    lhs, rhs, out = dimension_numbers
    spatial = [c for c in rhs if c not in "OI"]
    return ConvDimensionNumbers(
        *(
            _spec_of(name, text, first, spatial, len(lhs_shape))
            for name, text, first in (("lhs", lhs, "NC"), ("rhs", rhs, "OI"), ("out", out, "NC"))
        )
    )


def _spec_of(name: str, text: str, first: str, spatial: Sequence[str], ndim: int) -> tuple[int, ...]:
    wanted = [*first, *spatial]
    if len(text) != ndim or sorted(text) != sorted(wanted):
        raise ArgumentError(
            f"dimension_numbers: the {name} layout {text!r} must consist of the {ndim} letters of "
            f"{''.join(wanted)!r}, in any order"
        )
    return tuple(map(text.index, wanted))
