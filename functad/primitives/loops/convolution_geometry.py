"""What a convolution sums: its sizes, and where each element lies in flat memory, whatever the layout.

It must not know how the sums are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from functad.primitives.kernels.convolution import Padding
from functad.primitives.window_geometry import window_count
from functad.records import Record


class ConvolutionAxis(Record):
    """One spatial axis: output `i` of the window's element `k` reads input `j`, where
    `j * base = i * stride + k * dilation - low`; steps are distances in memory between neighbours.
    """

    size: int
    window: int
    count: int
    stride: int
    dilation: int
    low: int
    base: int
    lhs_step: int
    rhs_step: int
    out_step: int

    @property
    def inside(self) -> bool:
        """Every window lies wholly in the input."""
        last = (self.count - 1) * self.stride + (self.window - 1) * self.dilation - self.low
        return self.base == 1 and self.low <= 0 and last < self.size

    @property
    def reach(self) -> int:
        """How many places of the padded input the windows cover."""
        return (self.count - 1) * self.stride + (self.window - 1) * self.dilation + 1

    @property
    def plain(self) -> bool:
        """Output i reads input i alone."""
        return self.window == 1 and self.stride == 1 and self.low == 0 and self.base == 1 and self.count == self.size


class Convolution(Record):
    """out[n, g, o, i…] = Σ_c Σ_k lhs[n, g, c, j(i, k)…] * rhs[g, o, c, k…], each with its distances in memory.

    Groups of features and groups of the batch differ only in `lhs_steps[1]`.
    """

    batch: int
    groups: int
    features: int  # of one group
    outputs: int  # of one group
    axes: tuple[ConvolutionAxis, ...]
    lhs_steps: tuple[int, int, int]  # batch, group, feature
    rhs_steps: tuple[int, int, int]  # group, output, feature
    out_steps: tuple[int, int, int]  # batch, group, output
    rhs_start: int = 0
    out_start: int = 0

    @property
    def taps(self) -> int:
        return math.prod(axis.window for axis in self.axes)

    @property
    def positions(self) -> int:
        return math.prod(axis.count for axis in self.axes)

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.groups * self.features * self.outputs * self.taps * self.positions


def geometry_of(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    out_shape: Sequence[int],
    *,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
) -> Convolution:
    """The convolution of row-major arrays of these shapes, in as few axes as it takes."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    lhs_steps, rhs_steps, out_steps = (row_major_steps(shape) for shape in (lhs_shape, rhs_shape, out_shape))
    groups = max(feature_group_count, batch_group_count)
    batch = lhs_shape[lhs_spec[0]] // batch_group_count
    outputs, features = rhs_shape[rhs_spec[0]] // groups, rhs_shape[rhs_spec[1]]
    group_step = batch * lhs_steps[lhs_spec[0]] if batch_group_count > 1 else features * lhs_steps[lhs_spec[1]]
    axes = []
    for d, (low, high) in enumerate(padding):
        lhs_axis, rhs_axis, out_axis = lhs_spec[d + 2], rhs_spec[d + 2], out_spec[d + 2]
        size, window = lhs_shape[lhs_axis], rhs_shape[rhs_axis]
        stride, dilation, base = window_strides[d], rhs_dilation[d], lhs_dilation[d]
        count = window_count(size, window, stride, (low, high), base, dilation)
        steps = lhs_steps[lhs_axis], rhs_steps[rhs_axis], out_steps[out_axis]
        axes.append(ConvolutionAxis(size, window, count, stride, dilation, low, base, *steps))
    whole = Convolution(
        batch,
        groups,
        features,
        outputs,
        tuple(axes),
        (lhs_steps[lhs_spec[0]], group_step, lhs_steps[lhs_spec[1]]),
        (outputs * rhs_steps[rhs_spec[0]], rhs_steps[rhs_spec[0]], rhs_steps[rhs_spec[1]]),
        (out_steps[out_spec[0]], outputs * out_steps[out_spec[1]], out_steps[out_spec[1]]),
    )
    return simplified(whole)


def simplified(conv: Convolution) -> Convolution:
    """Without axes of one element; the batch becomes an axis where the others do nothing to it."""
    axes = [_undilated(axis) for axis in conv.axes]
    axes = [axis for axis in axes if not (axis.plain and axis.size == 1)]
    if all(axis.plain for axis in axes) and conv.batch > 1:
        together = with_images_as_axis(replace(conv, axes=tuple(axes)))
        merged = _merged(list(together.axes))
        if len(merged) == 1:
            return replace(together, axes=tuple(merged))
    return replace(conv, axes=tuple(_merged(axes)))


def without_dilation(conv: Convolution) -> list[Convolution]:
    """Convolutions that together are this one, but with no holes in the input: each does every b-th output.

    Output i = b i' + ρ meets input only through the taps k = b k' + first with i + k r - low a multiple of b.
    """
    parts = [conv]
    for a, axis in enumerate(conv.axes):
        if axis.base > 1 and axis.stride == 1 and math.gcd(axis.base, axis.dilation) == 1:
            parts = [piece for part in parts for piece in _phases(part, a)]
    return parts


def _phases(conv: Convolution, a: int) -> list[Convolution]:
    axis, base = conv.axes[a], conv.axes[a].base
    phases = []
    for rest in range(min(base, axis.count)):
        first = next(k for k in range(base) if (rest + k * axis.dilation - axis.low) % base == 0)
        phase = ConvolutionAxis(
            size=axis.size,
            window=max(0, -(-(axis.window - first) // base)),
            count=-(-(axis.count - rest) // base),
            stride=1,
            dilation=axis.dilation,
            low=(axis.low - rest - first * axis.dilation) // base,
            base=1,
            lhs_step=axis.lhs_step,
            rhs_step=axis.rhs_step * base,
            out_step=axis.out_step * base,
        )
        phases.append(
            replace(
                conv,
                axes=(*conv.axes[:a], phase, *conv.axes[a + 1 :]),
                rhs_start=conv.rhs_start + first * axis.rhs_step,
                out_start=conv.out_start + rest * axis.out_step,
            )
        )
    return phases


def with_images_as_axis(conv: Convolution) -> Convolution:
    """The batch as one more axis, along which nothing happens."""
    images = ConvolutionAxis(conv.batch, 1, conv.batch, 1, 1, 0, 1, conv.lhs_steps[0], 0, conv.out_steps[0])
    return replace(conv, batch=1, axes=(images, *conv.axes))


def row_major_steps(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _undilated(axis: ConvolutionAxis) -> ConvolutionAxis:
    """Dilation and strides that nothing comes of are 1."""
    return replace(
        axis,
        base=1 if axis.size == 1 else axis.base,
        dilation=1 if axis.window == 1 else axis.dilation,
        stride=1 if axis.count == 1 else axis.stride,
    )


def _merged(axes: list[ConvolutionAxis]) -> list[ConvolutionAxis]:
    """Neighbours become one where both do nothing and lie row by row in memory."""
    merged: list[ConvolutionAxis] = []
    for axis in axes:
        before = merged[-1] if merged else None
        if (
            before is not None
            and before.plain
            and axis.plain
            and before.lhs_step == axis.size * axis.lhs_step
            and before.out_step == axis.size * axis.out_step
        ):
            size = before.size * axis.size
            merged[-1] = replace(axis, size=size, count=size)
        else:
            merged.append(axis)
    return merged
