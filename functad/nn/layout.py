"""Where batch, channels and space are in an image or a sequence, and how windows slide over it.

Knows shapes and the arguments that convolution and pooling share; computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from functad.errors import ArgumentError, ShapeError, is_int

PaddingArgument = str | int | Sequence[int | tuple[int, int]]

CHANNELS_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
CHANNELS_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
_RANKS = {layout: rank for layouts in (CHANNELS_FIRST, CHANNELS_LAST) for rank, layout in layouts.items()}


def window_and_layout(window: int | Sequence[int], layout: str | None, name: str) -> tuple[tuple[int, ...], str]:
    """The size of the window along each spatial axis, and the layout, of which either tells the rank.

    Raises:
        ArgumentError: an unknown layout, or one of another rank than the window.
    """
    if layout is not None and layout not in _RANKS:
        raise ArgumentError(f"{name}: layout={layout!r} must be one of {', '.join(_RANKS)}")
    if isinstance(window, Integral):
        if layout is None:
            raise ArgumentError(
                f"{name}: the window {window} does not say how many axes it has; write ({window}, {window}) "
                f"for images, ({window},) for sequences, or name the layout"
            )
        return per_axis(window, _RANKS[layout], "window", name), layout
    sizes = per_axis(window, len(window) if isinstance(window, Sequence) else 1, "window", name)
    if layout is None:
        if len(sizes) not in CHANNELS_FIRST:
            raise ArgumentError(f"{name}: the window {sizes} must have 1, 2 or 3 axes")
        return sizes, CHANNELS_FIRST[len(sizes)]
    if len(sizes) != _RANKS[layout]:
        raise ArgumentError(
            f"{name}: the window {sizes} has {len(sizes)} axes, but layout {layout!r} has {_RANKS[layout]} spatial ones"
        )
    return sizes, layout


def per_axis(value: int | Sequence[int], rank: int, what: str, name: str) -> tuple[int, ...]:
    """One positive number for each spatial axis, from a number for all or a sequence."""
    values = (value,) * rank if not isinstance(value, Sequence) else tuple(value)
    if len(values) != rank or not all(is_int(v, 1) for v in values):
        raise ArgumentError(
            f"{name}: {what}={value!r} must be a positive integer, or one for each of the {rank} spatial axes"
        )
    return tuple(map(int, values))


def checked_padding(padding: PaddingArgument, rank: int, name: str) -> str | tuple[tuple[int, int], ...]:
    """ "VALID", "SAME" or "SAME_LOWER", or a (low, high) pair for each spatial axis."""
    if isinstance(padding, str):
        if padding.upper() not in ("VALID", "SAME", "SAME_LOWER"):
            raise ArgumentError(
                f"{name}: padding={padding!r} must be 'VALID', 'SAME', 'SAME_LOWER', an integer, or a (low, "
                "high) pair an axis"
            )
        return padding.upper()
    entries: Sequence[Any] = tuple(padding) if isinstance(padding, Sequence) else (padding,) * rank
    pairs = tuple(tuple(e) if isinstance(e, Sequence) else (e, e) for e in entries)
    if len(pairs) != rank or any(len(p) != 2 or not all(isinstance(v, Integral) for v in p) for p in pairs):
        raise ArgumentError(
            f"{name}: padding={padding!r} must be an integer, or an integer or a (low, high) pair for each "
            f"of the {rank} spatial axes"
        )
    return tuple((int(low), int(high)) for low, high in pairs)


def check_input(shape: tuple[int, ...], layout: str, name: str) -> None:
    """Raise unless the shape has the axes of the layout.

    Raises:
        ShapeError: a wrong number of axes.
    """
    if len(shape) == len(layout):
        return
    hint = ""
    if len(shape) == len(layout) - 1:
        axis = layout.index("C")
        hint = f"; if the channels are missing, add them with x[{', '.join([':'] * axis + ['None'])}]"
        hint += ", if the batch is missing, with x[None]"
    raise ShapeError(
        f"{name}: the input has shape {shape}, {len(shape)} axes, but layout {layout} has {len(layout)}{hint}"
    )


def check_window(
    shape: tuple[int, ...],
    layout: str,
    window: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: str | tuple[tuple[int, int], ...],
    name: str,
    where: str | None = None,
) -> None:
    """Raise if the window fits nowhere in the padded input, which would give an empty output.

    where: the axes in the caller's terms, if not by a layout.

    Raises:
        ShapeError: the input is smaller than the window along an axis.
    """
    if padding in ("SAME", "SAME_LOWER"):
        return
    pads = ((0, 0),) * len(window) if isinstance(padding, str) else padding
    sizes = [size for axis, size in zip(layout, shape, strict=True) if axis not in "NC"]
    reach = tuple((w - 1) * d + 1 for w, d in zip(window, dilation, strict=True))
    if any(size + sum(pad) < r for size, pad, r in zip(sizes, pads, reach, strict=True)):
        spread_out = "" if reach == window else f", which spans {reach} with dilation {dilation}"
        padded = "" if isinstance(padding, str) else f" padded by {padding}"
        where = where or f"layout {layout}"
        raise ShapeError(
            f"{name}: the input of shape {shape} ({where}){padded} is smaller than the window {window}"
            f"{spread_out}, so no output is left; use a smaller window, larger inputs, or padding='SAME'"
        )


def spread(values: Sequence[Any], layout: str, rest: Any) -> tuple[Any, ...]:
    """Values of the spatial axes put in their places among all axes, `rest` for batch and channels."""
    spatial = iter(values)
    return tuple(rest if axis in "NC" else next(spatial) for axis in layout)
