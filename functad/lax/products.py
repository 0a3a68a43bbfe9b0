"""Products of arrays and convolutions, under JAX's names.

Knows the primitives and how operands are taken. `precision` says how exactly cuBLAS multiplies matrices of float32 on
GPUs, whatever `functad.default_matmul_precision` says for all; everything else, convolutions too, is exact.

Shapes:
    Leading axes of matrices are those of a stack; other axes are counted in the function's words.

Raises:
    DTypeError: an operand is no array, or of a dtype that the operation does not take.
    ShapeError: shapes do not fit together, or an array has too few axes.
    ArgumentError: a padding, layout or option that there is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.array import Array
from functad.errors import ArgumentError, ShapeError
from functad.evaluation import aval_of
from functad.lax.operands import bind_checked, integers_of, same_dtype
from functad.numpy.promotion import canonical_dtype
from functad.primitives import structure
from functad.primitives.contraction import dot_general_p
from functad.primitives.convolution import ConvDimensionNumbers, conv_dimension_numbers, conv_general_dilated_p
from functad.primitives.product_precision import precision_word
from functad.primitives.window_geometry import dilated, padtype_to_pads

ConvGeneralDilatedDimensionNumbers = None | ConvDimensionNumbers | tuple[str, str, str]


# --- products ---------------------------------------------------------------------------------------------


def dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """Sum of products over some axes, for each index of others: the most general product of two arrays.

    Args:
        lhs, rhs: arrays of one dtype.
        dimension_numbers: `((lhs contracting, rhs contracting), (lhs batch, rhs batch))`, each a sequence of axes;
            contracting axes are summed over, batch axes paired.
        precision: how exactly cuBLAS may multiply single precision on a GPU: a `Precision`, a word, or one for each
            operand; by default as `functad.default_matmul_precision` says.
        preferred_element_type: the dtype of the result, in which it is computed; by default that of the operands.

    Returns:
        An array whose axes are the batch axes, then the remaining axes of lhs, then those of rhs.

    >>> import numpy as np
    >>> dot_general(np.int32([[1, 2]]), np.int32([[3, 4]]), (((1,), (1,)), ((), ())))
    Array([[11]], dtype=int32)
    """
    x, y = same_dtype("dot_general", lhs, rhs)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    contract = (_axes(lhs_contract, x), _axes(rhs_contract, y))
    batch = (_axes(lhs_batch, x), _axes(rhs_batch, y))
    return bind_checked(
        dot_general_p,
        x,
        y,
        dimension_numbers=(contract, batch),
        precision=precision_word(precision),
        preferred_element_type=canonical_dtype(preferred_element_type) or x.dtype,
    )


def dot(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The product of vectors and matrices: of two vectors a scalar, of two matrices a matrix.

    Args:
        lhs, rhs: arrays of one dtype with one or two axes, or as `dimension_numbers` says.
        dimension_numbers: as in `dot_general`.
        precision: as in `dot_general`.
        preferred_element_type: the dtype of the result, in which it is computed.

    >>> import numpy as np
    >>> dot(np.int32([1, 2]), np.int32([3, 4]))
    Array(11, dtype=int32)
    """
    x, y = same_dtype("dot", lhs, rhs)
    if dimension_numbers is None:
        ranks = (aval_of(x).ndim, aval_of(y).ndim)
        if not all(1 <= r <= 2 for r in ranks):
            raise ShapeError(
                f"lax.dot multiplies vectors and matrices, but was given shapes {aval_of(x).shape} and "
                f"{aval_of(y).shape}; give dimension_numbers, or use functad.numpy.matmul or tensordot"
            )
        dimension_numbers = (((ranks[0] - 1,), (0,)), ((), ()))
    return dot_general(x, y, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Array:
    """The matrix products of two stacks of matrices.

    Args:
        lhs, rhs: arrays `(*batch, m, k)` and `(*batch, k, n)` of one dtype.
        precision: as in `dot_general`.

    >>> import numpy as np
    >>> batch_matmul(np.ones((2, 3, 4), np.float32), np.ones((2, 4, 5), np.float32)).shape
    (2, 3, 5)
    """
    x, y = same_dtype("batch_matmul", lhs, rhs)
    ranks = (aval_of(x).ndim, aval_of(y).ndim)
    if ranks[0] != ranks[1] or ranks[0] < 2:
        raise ShapeError(
            f"lax.batch_matmul takes arrays with equally many axes, at least 2, but was given shapes "
            f"{aval_of(x).shape} and {aval_of(y).shape}"
        )
    batch = tuple(range(ranks[0] - 2))
    return dot_general(x, y, (((ranks[0] - 1,), (ranks[0] - 2,)), (batch, batch)), precision)


def _axes(axes: Any, x: Any) -> tuple[int, ...]:
    """Axes as Python integers, counted from the front."""
    ndim = aval_of(x).ndim
    return tuple(d + ndim if d < 0 else d for d in integers_of("dot_general", "dimension_numbers", axes))


# --- convolutions -----------------------------------------------------------------------------------------


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolve with any number of spatial axes, strides, padding, dilations, groups and layout.

    A result is one total of its dtype: in float32, windows of more than 2^24 elements lose some of them.

    As usual in neural networks the kernel is not flipped.

    Args:
        lhs: the input, by default `(batch, features, *spatial)`.
        rhs: the kernel, of the same dtype, by default `(out features, features / groups, *spatial)`.
        window_strides: the step along each spatial axis.
        padding: "VALID", "SAME", "SAME_LOWER", or for each spatial axis `(low, high)`, which may be negative.
        lhs_dilation, rhs_dilation: the distance at which elements of the input and of the kernel are put.
        dimension_numbers: the layouts, such as ("NHWC", "HWIO", "NHWC"); or ConvDimensionNumbers.
        feature_group_count: in how many groups the features are convolved separately.
        batch_group_count: in how many groups the batch is, each with its own part of the out features.
        precision: has no effect: convolutions are exact to their dtype.
        preferred_element_type: the dtype of the result, in which it is computed.

    >>> import numpy as np
    >>> x, w = np.ones((1, 1, 4), np.float32), np.ones((1, 1, 3), np.float32)
    >>> conv_general_dilated(x, w, (1,), "SAME")
    Array([[[2., 3., 3., 2.]]], dtype=float32)
    """
    x, kernel = same_dtype("conv_general_dilated", lhs, rhs)
    lhs_shape, rhs_shape = aval_of(x).shape, aval_of(kernel).shape
    layout = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    ones = (1,) * (len(lhs_shape) - 2)
    lhs_dilation, rhs_dilation = lhs_dilation or ones, rhs_dilation or ones
    sizes = [lhs_shape[i] for i in layout.lhs_spec[2:]]
    windows = [rhs_shape[i] for i in layout.rhs_spec[2:]]
    if 0 in windows:
        raise ShapeError(
            f"lax.conv_general_dilated: the kernel, of shape {rhs_shape}, has no element along some spatial axis; its "
            f"spatial sizes are {tuple(windows)} (dimension_numbers say which axes these are)"
        )
    if isinstance(padding, str):
        if any(d != 1 for d in lhs_dilation):
            raise ArgumentError(
                f"lax.conv_general_dilated: padding={padding!r} has no meaning with lhs_dilation="
                f"{tuple(lhs_dilation)}; give a (low, high) pair for each spatial axis, or use conv_transpose"
            )
        padding = padtype_to_pads(
            sizes, [dilated(k, d) for k, d in zip(windows, rhs_dilation)], window_strides, padding
        )
    elif len(padding) == len(sizes):
        for size, spread, pads in zip(sizes, lhs_dilation, padding):
            if dilated(size, spread) + sum(pads) < 0:
                raise ArgumentError(
                    f"lax.conv_general_dilated: padding={tuple(padding)} cuts off more than there is: {pads} at the "
                    f"ends of {dilated(size, spread)} positions of an input of shape {lhs_shape}"
                )
    return bind_checked(
        conv_general_dilated_p,
        x,
        kernel,
        window_strides=tuple(window_strides),
        padding=tuple((low, high) for low, high in padding),
        lhs_dilation=tuple(lhs_dilation),
        rhs_dilation=tuple(rhs_dilation),
        dimension_numbers=layout,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        preferred_element_type=canonical_dtype(preferred_element_type),
    )


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolve an input `(batch, features, *spatial)` with a kernel `(out features, features, *spatial)`.

    Args:
        lhs, rhs, window_strides, padding, precision, preferred_element_type: as in `conv_general_dilated`.

    >>> import numpy as np
    >>> conv(np.ones((1, 1, 4), np.float32), np.ones((1, 1, 3), np.float32), (1,), "VALID")
    Array([[[3., 3.]]], dtype=float32)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, preferred_element_type=preferred_element_type)


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """`conv` with padding of one's own and dilations.

    Args:
        lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision, preferred_element_type: as in
            `conv_general_dilated`.

    >>> import numpy as np
    >>> x, w = np.ones((1, 1, 4), np.float32), np.ones((1, 1, 2), np.float32)
    >>> conv_with_general_padding(x, w, (1,), [(1, 0)], None, (2,))
    Array([[[1., 2., 2.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        preferred_element_type=preferred_element_type,
    )


_CHANNELS_LAST = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """The convolution that enlarges by its strides, of the shape that the gradient of a convolution has.

    Args:
        lhs: the input, by default channels last, `(batch, *spatial, features)`.
        rhs: the kernel, by default `(*spatial, features, out features)`.
        strides: by how much each spatial axis is enlarged.
        padding: "SAME" (sizes times strides), "VALID", or the padding of the input between whose elements zeros
            were put.
        rhs_dilation: the distance at which elements of the kernel are put.
        dimension_numbers: the layouts, as in `conv_general_dilated`.
        transpose_kernel: flip the kernel and exchange its features, which makes this the transpose of a convolution.
        precision: has no effect: convolutions are exact to their dtype.
        preferred_element_type: the dtype of the result, in which it is computed.
        use_consistent_padding: pairs in `padding` are that of the convolution whose gradient this is.

    >>> import numpy as np
    >>> x, w = np.ones((1, 2, 1), np.float32), np.ones((2, 1, 1), np.float32)
    >>> conv_transpose(x, w, (2,), "SAME").shape
    (1, 4, 1)
    """
    x, kernel = same_dtype("conv_transpose", lhs, rhs)
    ndim = aval_of(x).ndim
    if dimension_numbers is None:
        if ndim not in _CHANNELS_LAST:
            raise ArgumentError(f"lax.conv_transpose: give dimension_numbers for an input with {ndim} axes")
        dimension_numbers = _CHANNELS_LAST[ndim]
    layout = conv_dimension_numbers(aval_of(x).shape, aval_of(kernel).shape, dimension_numbers)
    spatial = layout.rhs_spec[2:]
    rhs_dilation = rhs_dilation or (1,) * (ndim - 2)
    windows = [dilated(aval_of(kernel).shape[i], d) for i, d in zip(spatial, rhs_dilation)]
    if isinstance(padding, str):
        padding = [conv_transpose_padding(k, s, padding) for k, s in zip(windows, strides)]
    elif use_consistent_padding:
        padding = [(k - 1 - low, k - 1 - high) for k, (low, high) in zip(windows, padding)]
    if transpose_kernel:
        kernel = structure.rev(kernel, spatial)
        out_features, in_features, *rest = layout.rhs_spec
        layout = layout._replace(rhs_spec=(in_features, out_features, *rest))
    return conv_general_dilated(
        x,
        kernel,
        (1,) * (ndim - 2),
        padding,
        strides,
        rhs_dilation,
        layout,
        preferred_element_type=preferred_element_type,
    )


def conv_transpose_padding(window: int, stride: int, padding: str) -> tuple[int, int]:
    """The padding under which the result has the input's size times the stride, or the largest that is full."""
    if padding == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
    elif padding == "VALID":
        total = window + stride - 2 + max(window - stride, 0)
        low = window - 1
    else:
        raise ArgumentError(f"lax.conv_transpose: padding must be 'SAME', 'VALID' or pairs, got {padding!r}")
    return low, total - low
