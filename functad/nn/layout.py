"""Where batch, channels and space are in an image or a sequence, and how windows slide over it.

Knows shapes and the arguments that convolution and pooling share; computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functad.errors import ArgumentError, ShapeError

Padding = str | int | Sequence[int | tuple[int, int]]

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
    if isinstance(window, int):
        if layout is None:
            raise ArgumentError(
                f"{name}: the window {window} does not say how many axes it has; write ({window}, {window}) "
                f"for images, ({window},) for sequences, or name the layout"
            )
        return per_axis(window, _RANKS[layout], "window", name), layout
    sizes = per_axis(window, len(tuple(window)), "window", name)
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
    values = (value,) * rank if isinstance(value, int) else tuple(value)
    if len(values) != rank or any(not isinstance(v, int) or v < 1 for v in values):
        raise ArgumentError(
            f"{name}: {what}={value!r} must be a positive integer, or one for each of the {rank} spatial axes"
        )
    return values


def checked_padding(padding: Padding, rank: int, name: str) -> str | tuple[tuple[int, int], ...]:
    """ "VALID", "SAME" or "SAME_LOWER", or a (low, high) pair for each spatial axis."""
    if isinstance(padding, str):
        if padding.upper() not in ("VALID", "SAME", "SAME_LOWER"):
            raise ArgumentError(
                f"{name}: padding={padding!r} must be 'VALID', 'SAME', 'SAME_LOWER', an integer, or a (low, "
                "high) pair an axis"
            )
        return padding.upper()
    entries: Sequence[Any] = (padding,) * rank if isinstance(padding, int) else tuple(padding)
    pairs = tuple((e, e) if isinstance(e, int) else tuple(e) for e in entries)
    if len(pairs) != rank or any(len(p) != 2 or not all(isinstance(v, int) for v in p) for p in pairs):
        raise ArgumentError(
            f"{name}: padding={padding!r} must be an integer, or an integer or a (low, high) pair for each "
            f"of the {rank} spatial axes"
        )
    return pairs


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


def spread(values: Sequence[Any], layout: str, rest: Any) -> tuple[Any, ...]:
    """Values of the spatial axes put in their places among all axes, `rest` for batch and channels."""
    spatial = iter(values)
    return tuple(rest if axis in "NC" else next(spatial) for axis in layout)
