"""The windows of a convolution taken out of an array, a convolution with kernels of each place's own, and shapes.

Knows slices and layouts; the windows' geometry is `primitives.window_geometry`'s.

Args:
    lhs_shape, rhs_shape, operand_shape: shapes, tuples of sizes.
    window_strides, strides, padding, pads: as in `conv_general_dilated`.

Shapes:
    Leading axes of matrices are those of a stack; other axes are counted in the function's words.

Raises:
    DTypeError: an operand is no array, or of a dtype that the operation does not take.
    ShapeError: the kernels do not fit the patches.
    ArgumentError: a padding or layout that does not fit the shapes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functad.array import Array
from functad.errors import ArgumentError
from functad.evaluation import aval_of
from functad.lax.operands import operand, same_dtype
from functad.lax.products import conv_transpose_padding, dot_general
from functad.lax.shapes import pad, reshape, stack, transpose
from functad.lax.slicing import slice as slice_of
from functad.primitives.convolution import conv_dimension_numbers
from functad.primitives.window_geometry import dilated, padtype_to_pads, window_count

Pads = str | Sequence[tuple[int, int]]


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The elements that each window of a convolution covers, as features of the window's place.

    Args:
        lhs: an array, by default (batch, features, *spatial).
        filter_shape: the size of the window along each spatial axis, in the order of the kernel's layout.
        window_strides, padding, lhs_dilation, rhs_dilation: as in `conv_general_dilated`.
        dimension_numbers: the layouts, as in `conv_general_dilated`; that of a kernel only orders spatial axes.
        precision: has no effect: nothing is computed.
        preferred_element_type: the dtype of the result.

    Returns:
        An array in the layout of the output. Features are those of `lhs`, and for each all elements of the window.

    >>> import numpy as np
    >>> conv_general_dilated_patches(np.float32([[[1, 2, 3]]]), (2,), (1,), "VALID")
    Array([[[1., 2.],
            [2., 3.]]], dtype=float32)
    """
    x = operand("conv_general_dilated_patches", lhs)
    layout = _layout("conv_general_dilated_patches", aval_of(x).ndim, filter_shape, dimension_numbers)
    patches = _patches(transpose(x, layout.lhs_spec), filter_shape, window_strides, padding, lhs_dilation, rhs_dilation)
    out = transpose(patches, _inverse(layout.out_spec))
    return out if preferred_element_type is None else out.astype(preferred_element_type)


def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Pads,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:
    """A convolution whose kernel is another one at each place of the result: a locally connected layer.

    Args:
        lhs: an array, by default (batch, features, *spatial).
        rhs: the kernels, by default (out features, features · window elements, *spatial of the result), the second
            axis in the order of `conv_general_dilated_patches`.
        window_strides, padding, filter_shape, lhs_dilation, rhs_dilation, dimension_numbers: as there.
        precision: as in `dot_general`.

    Returns:
        An array in the layout of the output.

    >>> import numpy as np
    >>> kernels = np.float32([[[1, 10], [0, 1]]])
    >>> conv_general_dilated_local(np.float32([[[1, 2, 3]]]), kernels, (1,), "VALID", (2,))
    Array([[[ 1., 23.]]], dtype=float32)
    """
    x, kernels = same_dtype("conv_general_dilated_local", lhs, rhs)
    layout = _layout("conv_general_dilated_local", aval_of(x).ndim, filter_shape, dimension_numbers)
    patches = _patches(transpose(x, layout.lhs_spec), filter_shape, window_strides, padding, lhs_dilation, rhs_dilation)
    kernels = transpose(kernels, layout.rhs_spec)
    spatial = tuple(range(2, aval_of(x).ndim))
    out = dot_general(patches, kernels, (((1,), (1,)), (spatial, spatial)), precision)
    return transpose(out, _inverse([*layout.out_spec[2:], *layout.out_spec[:2]]))  # its spatial axes come first


def _layout(name: str, ndim: int, filter_shape: Sequence[int], dimension_numbers: Any) -> Any:
    if len(filter_shape) != ndim - 2:
        raise ArgumentError(
            f"lax.{name}: filter_shape={tuple(filter_shape)} must have one size for each of the {ndim - 2} spatial "
            f"axes of an array with {ndim} axes"
        )
    return conv_dimension_numbers((1,) * ndim, (1,) * ndim, dimension_numbers)


def _patches(
    x: Any,
    filter_shape: Sequence[int],
    strides: Sequence[int],
    padding: Pads,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
) -> Array:
    """(batch, features · window elements, *spatial) of (batch, features, *spatial): a slice for each element."""
    batch, features, *sizes = aval_of(x).shape
    ones = (1,) * len(sizes)
    lhs_dilation, rhs_dilation = lhs_dilation or ones, rhs_dilation or ones
    spread = [dilated(size, d) for size, d in zip(sizes, lhs_dilation)]
    windows = [dilated(size, d) for size, d in zip(filter_shape, rhs_dilation)]
    pads = padtype_to_pads(spread, windows, strides, padding) if isinstance(padding, str) else list(padding)
    counts = [window_count(*of_axis, 1, 1) for of_axis in zip(spread, windows, strides, pads)]
    zero = np.zeros((), aval_of(x).dtype)[()]
    padded = pad(x, zero, [(0, 0, 0)] * 2 + [(low, high, d - 1) for (low, high), d in zip(pads, lhs_dilation)])
    parts = []
    for place in itertools.product(*map(range, filter_shape)):
        first = [i * d for i, d in zip(place, rhs_dilation)]
        last = [f + (n - 1) * s + 1 if n else f for f, n, s in zip(first, counts, strides)]
        parts.append(slice_of(padded, (0, 0, *first), (batch, features, *last), (1, 1, *strides)))
    return reshape(stack(parts, axis=2), (batch, features * math.prod(filter_shape), *counts))


def _inverse(spec: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(spec))


# --- shapes -----------------------------------------------------------------------------------------------


def conv_general_permutations(dimension_numbers: Any) -> tuple[tuple[int, ...], ...]:
    """For the layouts of input, kernel and output: where batch (or out features), features and spatial axes are.

    >>> conv_general_permutations(("NHWC", "HWIO", "NHWC"))
    ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    ndim = len(dimension_numbers[0])
    return tuple(map(tuple, conv_dimension_numbers((1,) * ndim, (1,) * ndim, dimension_numbers)))


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Pads,
    batch_group_count: int = 1,
) -> tuple[int, ...]:
    """The shape of a convolution of (batch, features, *spatial) with (out features, features, *spatial).

    >>> conv_shape_tuple((2, 3, 8), (5, 3, 3), (2,), "SAME")
    (2, 5, 4)
    """
    sizes, windows = lhs_shape[2:], rhs_shape[2:]
    pads = padtype_to_pads(sizes, windows, strides, pads) if isinstance(pads, str) else pads
    if not len(sizes) == len(windows) == len(strides) == len(pads):
        raise ArgumentError(
            f"lax.conv_shape_tuple: shapes {tuple(lhs_shape)} and {tuple(rhs_shape)}, strides {tuple(strides)} and "
            f"padding {tuple(pads)} must have one entry for each spatial axis"
        )
    counts = [window_count(*of_axis, 1, 1) for of_axis in zip(sizes, windows, strides, pads)]
    return (lhs_shape[0] // batch_group_count, rhs_shape[0], *counts)


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of a convolution in layouts of its own.

    >>> conv_general_shape_tuple((2, 8, 3), (3, 3, 5), (2,), "SAME", ("NHC", "HIO", "NHC"))
    (2, 4, 5)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    shape = conv_shape_tuple([lhs_shape[i] for i in lhs], [rhs_shape[i] for i in rhs], window_strides, padding)
    return tuple(shape[i] for i in _inverse(out))


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
    dimension_numbers: Any,
) -> tuple[int, ...]:
    """The shape of a transposed convolution in layouts of its own.

    >>> conv_transpose_shape_tuple((2, 4, 3), (3, 3, 5), (2,), "SAME", ("NHC", "HIO", "NHC"))
    (2, 8, 5)
    """
    lhs, rhs, out = conv_general_permutations(dimension_numbers)
    batch, _, *sizes = [lhs_shape[i] for i in lhs]
    features, _, *windows = [rhs_shape[i] for i in rhs]
    if isinstance(padding, str):
        padding = [conv_transpose_padding(k, s, padding) for k, s in zip(windows, window_strides)]
    spatial = [
        dilated(size, stride) + low + high - window + 1
        for size, stride, window, (low, high) in zip(sizes, window_strides, windows, padding)
    ]
    shape = (batch, features, *spatial)
    return tuple(shape[i] for i in _inverse(out))


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """How many windows fit along each axis.

    >>> reduce_window_shape_tuple((5,), (2,), (2,), ((0, 1),))
    (3,)
    """
    ones = (1,) * len(operand_shape)
    dilations = (base_dilation or ones, window_dilation or ones)
    per_axis = zip(operand_shape, window_dimensions, window_strides, padding, *dilations)
    return tuple(window_count(*of_axis) for of_axis in per_axis)
