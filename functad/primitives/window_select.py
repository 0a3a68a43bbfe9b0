"""The derivative of windows' maxima and minima: gather or scatter at the element that each window selects.

Knows not what a maximum is for; both operations are linear in their first argument and piecewise constant in
`operand`, which selects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval, Example, Primitive, UndefinedPrimal, Zero
from functad.lowering_rules import Loops
from functad.primitives.common import (
    add_cotangents,
    move_batch_axis_to_front,
    normal,
    reshape,
    scalar_like,
    zeros_of,
)
from functad.primitives.kernels import convolution as kernels
from functad.primitives.loops import window_work
from functad.primitives.loops import windows as loops
from functad.primitives.structure import concatenate, pad, slice_
from functad.primitives.window_geometry import (
    dilated,
    window_parameters,
    windows_shape,
    with_axis,
)
from functad.primitives.window_taps import scatter_as_taps
from functad.tracing import bind


def select_and_gather_add(tangents: Any, operand: Any, **params: Any) -> Any:
    """The element of `tangents` at each window's selected element of `operand`."""
    return bind(select_and_gather_add_p, tangents, operand, **params)


def select_and_scatter_add(source: Any, operand: Any, **params: Any) -> Any:
    """Add each element of `source` to the place of its window's selected element of `operand`."""
    return bind(select_and_scatter_add_p, source, operand, **params)


def _selected_jvp(
    primitive: Callable[[], Primitive],
    primals: Sequence[Any],
    out: Any,
    tangents: Sequence[Any],
    **params: Any,
) -> Any:
    if isinstance(tangents[0], Zero):
        return Zero(Aval(out.shape, out.dtype))
    return bind(primitive(), tangents[0], primals[1], **params)


def _selected_batch(
    primitive: Callable[[], Primitive],
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
    **params: Any,
) -> tuple[Any, int]:
    first, operand = (move_batch_axis_to_front(a, d, axis_size) for a, d in zip(args, dims, strict=True))
    return bind(primitive(), first, operand, **with_axis(params, 0)), 0


def _gather_aval(tangents: Aval, operand: Aval, *, select_prim: str, **windows: Any) -> Aval:
    if tangents.shape != operand.shape:
        raise ShapeError(
            f"select_and_gather_add: tangents of shape {tangents.shape} and an operand of shape "
            f"{operand.shape} must have one shape"
        )
    _check_selection("select_and_gather_add", select_prim, tangents, operand)
    return Aval(windows_shape("select_and_gather_add", operand.shape, **windows), tangents.dtype)


def _check_selection(name: str, select_prim: str, first: Aval, operand: Aval) -> None:
    if select_prim not in ("ge", "le"):
        raise ArgumentError(f"{name}: select_prim={select_prim!r} must be 'ge' (maximum) or 'le' (minimum)")
    if first.dtype != operand.dtype or kind_of(first.dtype) not in "fiu":
        raise DTypeError(
            f"{name} takes operands of one real dtype, but was given {first.str_short()} and {operand.str_short()}"
        )


def _gather_impl(tangents: np.ndarray, operand: np.ndarray, *, select_prim: str, **windows: Any) -> np.ndarray:
    return kernels.select_and_gather_add(tangents, operand, select=select_prim, **windows)


def _gather_transpose(
    ct: Any,
    tangents: UndefinedPrimal,
    operand: Any,
    *,
    select_prim: str,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> list[Any]:
    if 0 in aval_of(ct).shape or 0 in tangents.shape:
        return [zeros_of(tangents.aval), None]
    spread = {"base_dilation": base_dilation, "window_dilation": window_dilation}
    if any(d != 1 for dilations in spread.values() for d in dilations):
        # Scattering knows no dilation: lay the windows out side by side instead.
        laid_out = _LaidOutWindows(tangents.shape, window_dimensions, window_strides, padding, **spread)
        worst = window_work.padding_identity("max" if select_prim == "ge" else "min", operand.dtype)
        scattered = bind(
            select_and_scatter_add_p,
            ct,
            laid_out.apply(operand, scalar_like(operand, worst)),
            select_prim=select_prim,
            window_dimensions=window_dimensions,
            window_strides=window_dimensions,
            padding=((0, 0),) * len(padding),
        )
        return [laid_out.transpose(scattered), None]
    scattered = bind(
        select_and_scatter_add_p,
        ct,
        operand,
        select_prim=select_prim,
        window_dimensions=window_dimensions,
        window_strides=window_strides,
        padding=padding,
    )
    return [scattered, None]


class _LaidOutWindows:
    """Dilated and overlapping windows copied side by side: a linear map, and its transpose."""

    def __init__(
        self,
        shape: tuple[int, ...],
        window: tuple[int, ...],
        strides: tuple[int, ...],
        padding: tuple[tuple[int, int], ...],
        base_dilation: tuple[int, ...],
        window_dilation: tuple[int, ...],
    ) -> None:
        self.config = tuple((low, high, d - 1) for (low, high), d in zip(padding, base_dilation, strict=True))
        self.shape, self.window, self.strides, self.dilation = shape, window, strides, window_dilation
        self.padded = tuple(
            dilated(n, d) + low + high for n, (low, high), d in zip(shape, padding, base_dilation, strict=True)
        )
        self.counts = tuple(
            (n - dilated(w, d)) // s + 1
            for n, w, s, d in zip(self.padded, window, strides, window_dilation, strict=True)
        )

    def apply(self, x: Any, fill: Any) -> Any:
        x = pad(x, fill, self.config)
        for axis, window in enumerate(self.window):
            shape = aval_of(x).shape
            parts = []
            for offset in range(window):
                start, stop = self._span(axis, offset)
                part = slice_(
                    x,
                    start_indices=_at(axis, start, (0,) * len(shape)),
                    limit_indices=_at(axis, stop, shape),
                    strides=_at(axis, self.strides[axis], (1,) * len(shape)),
                )
                parts.append(reshape(part, (*shape[:axis], self.counts[axis], 1, *shape[axis + 1 :])))
            joined = concatenate(parts, dimension=axis + 1)
            x = reshape(joined, (*shape[:axis], self.counts[axis] * window, *shape[axis + 1 :]))
        return x

    def transpose(self, ct: Any) -> Any:
        zero = scalar_like(ct, 0)
        for axis, window in enumerate(self.window):
            shape = aval_of(ct).shape
            grouped = reshape(ct, (*shape[:axis], self.counts[axis], window, *shape[axis + 1 :]))
            total: Any = None
            for offset in range(window):
                part = slice_(
                    grouped,
                    start_indices=_at(axis + 1, offset, (0,) * (len(shape) + 1)),
                    limit_indices=_at(axis + 1, offset + 1, aval_of(grouped).shape),
                )
                part = reshape(part, _at(axis, self.counts[axis], shape))
                start, stop = self._span(axis, offset)
                spread = (start, self.padded[axis] - stop, self.strides[axis] - 1)
                part = pad(part, zero, _at(axis, spread, ((0, 0, 0),) * len(shape)))
                total = part if total is None else add_cotangents(total, part)
            ct = total
        return self._unpad(ct)

    def _unpad(self, ct: Any) -> Any:
        cropped = pad(ct, scalar_like(ct, 0), tuple((-low, -high, 0) for low, high, _ in self.config))
        return slice_(
            cropped,
            start_indices=(0,) * len(self.shape),
            limit_indices=aval_of(cropped).shape,
            strides=tuple(interior + 1 for _, _, interior in self.config),
        )

    def _span(self, axis: int, offset: int) -> tuple[int, int]:
        """From where to where (in the padded array) the elements at one offset in their windows lie."""
        start = offset * self.dilation[axis]
        return start, start + (self.counts[axis] - 1) * self.strides[axis] + 1


def _at(axis: int, value: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*values[:axis], value, *values[axis + 1 :])


def _select_examples(scatter: bool) -> list[Example]:
    def example(x: np.ndarray, select_prim: str, **windows: Any) -> Example:
        params = window_parameters(x.ndim, **windows)
        first = normal(*x.shape, seed=1)
        if scatter:
            first = normal(*windows_shape("", x.shape, **params), seed=1)
            del params["base_dilation"], params["window_dilation"]
        return Example(args=(first, x), params={"select_prim": select_prim, **params})

    examples = [
        example(normal(2, 4, 5), "ge", window_dimensions=(1, 2, 2), window_strides=(1, 2, 2)),
        example(normal(4, 3), "le", window_dimensions=(2, 2), padding=((1, 0), (0, 1))),
        example(normal(5), "ge", window_dimensions=(3,), padding=((-1, 1),)),
        example(normal(0, 3), "ge", window_dimensions=(1, 2)),
    ]
    if not scatter:
        examples += [
            example(normal(7), "ge", window_dimensions=(2,), window_dilation=(3,), padding=((1, 1),)),
            example(
                normal(4, 2),
                "le",
                window_dimensions=(4, 3),
                window_strides=(2, 1),
                base_dilation=(2, 2),
                padding=((1, 1), (-1, 2)),
            ),
        ]
    return examples


select_and_gather_add_p: Primitive = Primitive(
    name="select_and_gather_add",
    doc="The elements of one array where the windows of the other have their maxima (ge) or minima (le).",
    multiple_results=False,
    abstract_eval=_gather_aval,
    impl=_gather_impl,
    jvp=partial(_selected_jvp, lambda: select_and_gather_add_p),
    transpose=_gather_transpose,
    batch=partial(_selected_batch, lambda: select_and_gather_add_p),
    lower=Loops(loops.select_and_gather_add_rule),
    examples=partial(_select_examples, scatter=False),
)


def _undilated(operand: Any, windows: dict[str, Any]) -> dict[str, Any]:
    ones = (1,) * operand.ndim
    return {**windows, "base_dilation": ones, "window_dilation": ones}


def _scatter_aval(source: Aval, operand: Aval, *, select_prim: str, **windows: Any) -> Aval:
    expected = windows_shape("select_and_scatter_add", operand.shape, **_undilated(operand, windows))
    if source.shape != expected:
        raise ShapeError(
            f"select_and_scatter_add: an operand of shape {operand.shape} has {expected} windows, but the "
            f"source has shape {source.shape}"
        )
    _check_selection("select_and_scatter_add", select_prim, source, operand)
    return Aval(operand.shape, source.dtype)


def _scatter_impl(source: np.ndarray, operand: np.ndarray, *, select_prim: str, **windows: Any) -> np.ndarray:
    return kernels.select_and_scatter_add(source, operand, select=select_prim, **windows)


def _scatter_transpose(ct: Any, source: UndefinedPrimal, operand: Any, **params: Any) -> list[Any]:
    return [bind(select_and_gather_add_p, ct, operand, **_undilated(operand, params)), None]


select_and_scatter_add_p: Primitive = Primitive(
    name="select_and_scatter_add",
    doc="Adds each element of one array where the other has that window's maximum (ge) or minimum (le).",
    multiple_results=False,
    abstract_eval=_scatter_aval,
    impl=_scatter_impl,
    jvp=partial(_selected_jvp, lambda: select_and_scatter_add_p),
    transpose=_scatter_transpose,
    batch=partial(_selected_batch, lambda: select_and_scatter_add_p),
    lower=Loops(loops.select_and_scatter_add_rule, composite=scatter_as_taps),
    examples=partial(_select_examples, scatter=True),
)
