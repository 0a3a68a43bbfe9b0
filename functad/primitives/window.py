"""Windows sliding over an array: their sums, maxima and minima.

Knows no layouts: a window has an extent on every axis. The loops are the kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.errors import DTypeError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Example, OwnDerivative, Primitive, UndefinedPrimal
from functad.lowering_rules import Loops
from functad.primitives.builders import RowKinks, kinks_of_rows
from functad.primitives.common import integers, normal, zeros_of
from functad.primitives.kernels import convolution as kernels
from functad.primitives.loops import window_work, windows
from functad.primitives.window_geometry import dilated, window_parameters, windows_shape, with_axis
from functad.primitives.window_select import select_and_gather_add
from functad.primitives.window_taps import as_taps
from functad.tracing import bind


def reduce_window_sum(operand: Any, **windows: Any) -> Any:
    """The sum of each window; see `reduce_window_max` for the arguments."""
    return bind(reduce_window_sum_p, operand, **window_parameters(aval_of(operand).ndim, **windows))


def reduce_window_max(operand: Any, **windows: Any) -> Any:
    """The maximum of each window.

    windows: `window_dimensions`, and where they are not trivial `window_strides`, `padding`, `base_dilation`
    and `window_dilation`, each with one entry an axis of the operand.
    """
    return bind(reduce_window_max_p, operand, **window_parameters(aval_of(operand).ndim, **windows))


def reduce_window_min(operand: Any, **windows: Any) -> Any:
    """The minimum of each window; see `reduce_window_max` for the arguments."""
    return bind(reduce_window_min_p, operand, **window_parameters(aval_of(operand).ndim, **windows))


# --- sum, maximum, minimum --------------------------------------------------------------------------


def _reduce_window_aval(name: str, kinds: str, x: Aval, **params: Any) -> Aval:
    if kind_of(x.dtype) not in kinds:
        raise DTypeError(f"{name} takes numbers, but was given {x.str_short()}; convert with x.astype('float32')")
    return Aval(windows_shape(name, x.shape, **params), x.dtype)


def _reduce_window_batch(
    primitive: Callable[[], Primitive], axis_size: int, args: Any, dims: Any, **params: Any
) -> tuple[Any, int]:
    (dim,) = dims
    return bind(primitive(), args[0], **with_axis(params, dim)), dim


def _reduce_window_sum_transpose(
    ct: Any,
    x: UndefinedPrimal,
    *,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> list[Any]:
    """x[j] was added to each window that holds it, so its cotangent is a sum over windows of `ct`.

    Stride and dilation of the base swap; the padding makes as many windows as there were elements.
    """
    shape = aval_of(ct).shape
    if 0 in shape or 0 in x.shape:
        return [zeros_of(Aval(x.shape, x.dtype))]
    pads = []
    for n, count, window, stride, (low, _), base, dilation in zip(
        x.shape,
        shape,
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
        strict=True,
    ):
        reach = (window - 1) * dilation
        before = reach - low
        pads.append((before, dilated(n, base) + reach - before - dilated(count, stride)))
    return [
        reduce_window_sum(
            ct,
            window_dimensions=window_dimensions,
            window_strides=base_dilation,
            padding=pads,
            base_dilation=window_strides,
            window_dilation=window_dilation,
        )
    ]


def _reduce_window_impl(op: str, x: np.ndarray, **params: Any) -> np.ndarray:
    return kernels.reduce_window(x, op, window_work.padding_identity(op, x.dtype), **params)


def _reduce_window_extremum_jvp(
    select_prim: str, primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any
) -> Any:
    # d max(x) = dx at the window's first maximum
    return select_and_gather_add(tangents[0], primals[0], select_prim=select_prim, **params)


def _reduce_window_examples() -> list[Example]:
    def example(x: np.ndarray, differentiable: bool = True, **windows: Any) -> Example:
        return Example(args=(x,), params=window_parameters(x.ndim, **windows), differentiable=differentiable)

    return [
        example(normal(2, 4, 5), window_dimensions=(1, 2, 2), window_strides=(1, 2, 2)),
        example(normal(4, 3), window_dimensions=(2, 2), padding=((1, 0), (0, 1))),
        example(normal(6), window_dimensions=(2,), window_strides=(2,), window_dilation=(3,), padding=((1, 1),)),
        example(normal(3, 2), window_dimensions=(3, 1), base_dilation=(2, 1), padding=((1, 1), (0, 0))),
        example(normal(6), window_dimensions=(3,), padding=((-1, -1),), window_strides=(2,)),
        example(normal(2), window_dimensions=(3,)),  # the window does not fit once
        example(normal(0, 3), window_dimensions=(1, 2)),
        example(normal(), window_dimensions=()),
        example(integers(5), False, window_dimensions=(2,), padding=((1, 1),)),
    ]


def _windows_with_ties(kinks: RowKinks) -> list[Example]:
    return kinks_of_rows(kinks, **window_parameters(1, window_dimensions=(2,)))


def _reduce_window(
    op: str, kinds: str, jvp: Callable[..., Any] | OwnDerivative, transpose: Any, doc: str, kinks: RowKinks = ()
) -> Primitive:
    name = f"reduce_window_{op}"
    made: Primitive = Primitive(
        name=name,
        doc=doc,
        multiple_results=False,
        abstract_eval=partial(_reduce_window_aval, name, kinds),
        impl=partial(_reduce_window_impl, op),
        jvp=jvp,
        transpose=transpose,
        batch=partial(_reduce_window_batch, lambda: made),
        lower=Loops(partial(windows.reduce_window_rule, op), composite=partial(as_taps, op)),
        examples=lambda: _reduce_window_examples() + _windows_with_ties(kinks),
    )
    return made


_NOT_LINEAR = Absent("a window's maximum or minimum is not linear; its derivative, select_and_gather_add, is")

reduce_window_sum_p: Primitive = _reduce_window(
    "sum",
    "fciu",
    jvp=OwnDerivative(),
    transpose=_reduce_window_sum_transpose,
    doc="The sum of each window.",
)
reduce_window_max_p = _reduce_window(
    "max",
    "fiub",
    jvp=partial(_reduce_window_extremum_jvp, "ge"),
    transpose=_NOT_LINEAR,
    doc="The maximum of each window.",
    kinks=[((1, 1, 1, 1), (1, -1, 2, 1), (5, 0, 0)), ((0, 1, 1, 0), (0, 1, 0, 0), (3, 0, 0))],
)
reduce_window_min_p = _reduce_window(
    "min",
    "fiub",
    jvp=partial(_reduce_window_extremum_jvp, "le"),
    transpose=_NOT_LINEAR,
    doc="The minimum of each window.",
    kinks=[((1, 1, 1, 1), (1, -1, 2, 1), (5, 0, 0)), ((0, 1, 1, 0), (0, 1, 0, 0), (2, 0, 0))],
)
