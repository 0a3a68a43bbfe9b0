"""Gather and scatter: slices of an array, read or written at positions that are computed.

Knows no user's way of indexing (negative numbers, masks, Python slices); `functad.numpy` translates those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from functad.errors import DifferentiationError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, Example, JointlyLinear, Primitive, UndefinedPrimal, Zero
from functad.lowering_rules import Indexed, Scattered
from functad.primitives import elementwise as el
from functad.primitives.builders import Agreed
from functad.primitives.common import (
    NOT_LINEAR,
    add_cotangents,
    broadcast_in_dim,
    check_bilinear,
    convert_element_type,
    full,
    full_like,
    instantiate,
    integers,
    is_linear,
    move_axis,
    move_batch_axis_to_front,
    normal,
    scalar_like,
    zeros_of,
)
from functad.primitives.dimension_numbers import (
    KERNEL_MODES,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    check_scatter,
    gather_matching,
    gather_shape,
    may_meet,
    scatter_matching,
    slice_sizes,
)
from functad.primitives.kernels import indexing as kernels
from functad.primitives.loops import gathering, scattering
from functad.primitives.structure import iota, reshape
from functad.tracing import bind

CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS = GatherScatterMode

# --- gather -----------------------------------------------------------------------------------------------


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: GatherScatterMode = PROMISE_IN_BOUNDS,
    fill_value: Any = None,
) -> Any:
    """The slices of `slice_sizes` of the operand that start at the index vectors along the last axis."""
    return bind(
        gather_p,
        operand,
        start_indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=tuple(slice_sizes),
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        mode=mode,
        fill_value=fill_value,
    )


def gather_along(operand: Any, indices: Any, axis: int) -> Any:
    """`operand[..., indices[...], ...]`: along one axis, an index for each position along the others."""
    shape = aval_of(operand).shape
    others = tuple(d for d in range(len(shape)) if d != axis)
    vectors = reshape(indices, (*aval_of(indices).shape, 1))
    numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
    return gather(operand, vectors, numbers, [min(n, 1) for n in shape])


def _gather_aval(operand: Aval, indices: Aval, *, dimension_numbers: Any, slice_sizes: Any, **_: Any) -> Aval:
    return Aval(gather_shape(operand, indices, dimension_numbers, slice_sizes), operand.dtype)


def _gather_impl(
    operand: np.ndarray,
    indices: np.ndarray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    unique_indices: bool,
    indices_are_sorted: bool,
    mode: GatherScatterMode,
    fill_value: Any,
) -> np.ndarray:
    return kernels.gather(
        operand,
        indices,
        **dimension_numbers._asdict(),
        slice_sizes=slice_sizes,
        mode=KERNEL_MODES[mode],
        fill_value=fill_value,
    )


def _gather_jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any) -> Any:
    fill_value = 0 if params["mode"] is FILL_OR_DROP else None
    return gather(tangents[0], primals[1], **{**params, "fill_value": fill_value})


def _gather_transpose(
    ct: Any,
    operand: UndefinedPrimal,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Any,
    fill_value: Any,
    **params: Any,
) -> list[Any]:
    zeros = zeros_of(operand.aval)
    return [scatter_add(zeros, indices, ct, scatter_matching(dimension_numbers), **params), None]


def gather_batch(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: tuple[int, ...],
    **params: Any,
) -> tuple[Any, int]:
    """The batch rule of gather; other primitives become a gather in theirs."""
    (operand, indices), (operand_dim, indices_dim) = args, dims
    if operand_dim is not None:
        operand = move_axis(operand, operand_dim, 0)
    if indices_dim is not None:
        indices = move_axis(indices, indices_dim, 0)
    if operand_dim is None:  # indices that differ in each example may be those of another
        numbers = _with_batch_axis(dimension_numbers)
        params |= {"unique_indices": False, "indices_are_sorted": False}
    elif indices_dim is None:
        numbers, slice_sizes = _with_window_axis(dimension_numbers), (axis_size, *slice_sizes)
    else:
        numbers, slice_sizes = _with_pair_of_axes(dimension_numbers), (min(axis_size, 1), *slice_sizes)
    return gather(operand, indices, GatherDimensionNumbers(*numbers), slice_sizes, **params), 0


def _with_batch_axis(numbers: Sequence[Any]) -> tuple[Any, ...]:
    """The dimension numbers with one more leading axis of the indices."""
    windows, dropped, index_map, operand_batching, indices_batching = numbers
    return _raised(windows), dropped, index_map, operand_batching, _raised(indices_batching)


def _with_window_axis(numbers: Sequence[Any]) -> tuple[Any, ...]:
    """The dimension numbers with one more leading axis of the operand, which each window spans."""
    windows, dropped, index_map, operand_batching, indices_batching = numbers
    windows = (0, *_raised(windows))
    return windows, _raised(dropped), _raised(index_map), _raised(operand_batching), indices_batching


def _with_pair_of_axes(numbers: Sequence[Any]) -> tuple[Any, ...]:
    """The dimension numbers with one more leading axis of both operand and indices."""
    windows, dropped, index_map, operand_batching, indices_batching = numbers
    pairs = (0, *_raised(operand_batching)), (0, *_raised(indices_batching))
    return _raised(windows), _raised(dropped), _raised(index_map), *pairs


def _raised(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(d + 1 for d in axes)


def _gather_example(operand: Any, indices: Any, numbers: Any, sizes: Any, **changes: Any) -> Example:
    differentiable = changes.pop("differentiable", True)
    params = {
        "dimension_numbers": GatherDimensionNumbers(*numbers),
        "slice_sizes": sizes,
        "unique_indices": False,
        "indices_are_sorted": False,
        "mode": PROMISE_IN_BOUNDS,
        "fill_value": None,
        **changes,
    }
    return Example(args=(operand, np.int32(indices)), params=params, differentiable=differentiable)


def _gather_examples() -> list[Example]:
    rows = ((1,), (0,), (0,))
    outside = [[2], [-1], [3], [0]]
    x = normal(3, 4)
    return [
        _gather_example(x, [[2], [0], [2]], rows, (1, 4)),
        _gather_example(x, outside, rows, (1, 4), mode=FILL_OR_DROP, differentiable=False),
        _gather_example(x, outside, rows, (1, 4), mode=FILL_OR_DROP, fill_value=7),
        _gather_example(x, outside, rows, (1, 4), mode=CLIP),
        _gather_example(x, [[[2, 1], [0, 3]]], ((), (0, 1), (1, 0)[::-1]), (1, 1), unique_indices=True),
        _gather_example(x, [[0, 1], [1, 2]], ((0, 2), (), (0, 1)), (2, 2)),
        _gather_example(x, [[[1], [2]], [[0], [0]], [[3], [3]]], ((), (1,), (1,), (0,), (0,)), (1, 1)),
        _gather_example(x, [1], ((0,), (0,), (0,)), (1, 3), indices_are_sorted=True),
        _gather_example(x, np.zeros((0, 1)), rows, (1, 4)),
        _gather_example(integers(4), [[1], [9]], ((), (0,), (0,)), (1,), mode=FILL_OR_DROP, differentiable=False),
    ]


gather_p = Primitive(
    name="gather",
    doc="Slices of an array at positions given by an array of indices.",
    multiple_results=False,
    abstract_eval=_gather_aval,
    impl=_gather_impl,
    jvp=JointlyLinear(_gather_jvp, slice(1)),
    transpose=_gather_transpose,
    batch=gather_batch,
    lower=Indexed(gathering.gather_rule),
    examples=_gather_examples,
)

# --- scatter: one record for each way of combining --------------------------------------------------------


def scatter(operand: Any, indices: Any, updates: Any, dimension_numbers: Any, **promises: Any) -> Any:
    """The operand with slices replaced by updates; where they overlap, the last one stays."""
    return _bind_scatter(scatter_p, operand, indices, updates, dimension_numbers, **promises)


def scatter_add(operand: Any, indices: Any, updates: Any, dimension_numbers: Any, **promises: Any) -> Any:
    """The operand with updates added to slices."""
    return _bind_scatter(scatter_add_p, operand, indices, updates, dimension_numbers, **promises)


def scatter_mul(operand: Any, indices: Any, updates: Any, dimension_numbers: Any, **promises: Any) -> Any:
    """The operand with slices multiplied by updates."""
    return _bind_scatter(scatter_mul_p, operand, indices, updates, dimension_numbers, **promises)


def scatter_min(operand: Any, indices: Any, updates: Any, dimension_numbers: Any, **promises: Any) -> Any:
    """The operand with the minimum of slices and updates."""
    return _bind_scatter(scatter_min_p, operand, indices, updates, dimension_numbers, **promises)


def scatter_max(operand: Any, indices: Any, updates: Any, dimension_numbers: Any, **promises: Any) -> Any:
    """The operand with the maximum of slices and updates."""
    return _bind_scatter(scatter_max_p, operand, indices, updates, dimension_numbers, **promises)


def _bind_scatter(
    primitive: Primitive,
    operand: Any,
    indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: GatherScatterMode = FILL_OR_DROP,
) -> Any:
    return bind(
        primitive,
        operand,
        indices,
        updates,
        dimension_numbers=dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )


def _written_by(x: Any, indices: Any, updates: Any, dimension_numbers: ScatterDimensionNumbers, **params: Any) -> Any:
    """What a scatter with these parameters finds in x at the places of its updates; 0 where it drops them."""
    shape = aval_of(x).shape
    if 0 in shape:  # nothing has no places: no update is written
        return full(updates.shape, scalar_like(x, 0))
    sizes = slice_sizes(shape, updates.shape, dimension_numbers)
    fill_value = 0 if params["mode"] is FILL_OR_DROP else None
    return gather(x, indices, gather_matching(dimension_numbers), sizes, fill_value=fill_value, **params)


# --- derivatives of the scatters --------------------------------------------------------------------------


def _scatter_jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any) -> Any:
    t_operand, _, t_updates = tangents
    return scatter(instantiate(t_operand), primals[1], instantiate(t_updates), **params)


def _scatter_transpose(ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    operand_ct = updates_ct = None
    if is_linear(operand):
        operand_ct = scatter(ct, indices, full(updates.shape, scalar_like(ct, 0)), **params)
    if is_linear(updates):
        updates_ct = _written_by(ct, indices, updates, **params)
        if may_meet(aval_of(indices).shape, **params):
            winners = _winners(operand.shape, indices, updates, **params)
            updates_ct = el.select_n(winners, full_like(updates_ct, 0), updates_ct)
    return [operand_ct, None, updates_ct]


def _winners(shape: tuple[int, ...], indices: Any, updates: Any, **params: Any) -> Any:
    """Which elements of the updates are still there after a scatter: those that no later one has replaced."""
    window_dims = params["dimension_numbers"].update_window_dims
    batch_dims = [d for d in range(updates.ndim) if d not in window_dims]
    batch_shape = [updates.shape[d] for d in batch_dims]
    count = int(np.prod(batch_shape, dtype=int))
    numbered = reshape(el.add(iota(np.uint32, (count,), 0), np.uint32(1)), batch_shape)
    ids = broadcast_in_dim(numbered, shape=updates.shape, broadcast_dimensions=batch_dims)
    left = scatter(full(shape, np.uint32(0)), indices, ids, **params)
    return el.eq(ids, _written_by(left, indices, updates, **params))


def _scatter_add_jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any) -> Any:
    t_operand, _, t_updates = tangents
    if isinstance(t_updates, Zero):
        return t_operand
    return scatter_add(instantiate(t_operand), primals[1], t_updates, **params)


def _scatter_add_transpose(ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    updates_ct = _written_by(ct, indices, updates, **params) if is_linear(updates) else None
    return [ct if is_linear(operand) else None, None, updates_ct]


def _scatter_mul_jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any) -> Any:
    # d(x Πu) = dx Πu + Σ du · (the product of x and the other u)
    operand, indices, updates = primals
    t_operand, _, t_updates = tangents
    if isinstance(t_updates, Zero):
        return scatter_mul(t_operand, indices, updates, **params)
    others = _product_of_others(operand, indices, updates, **params)
    zeros = full_like(operand, 0)
    from_updates = scatter_add(zeros, indices, el.mul(t_updates, others), **params)
    if isinstance(t_operand, Zero):
        return from_updates
    return add_cotangents(scatter_mul(t_operand, indices, updates, **params), from_updates)


def _product_of_others(operand: Any, indices: Any, updates: Any, **params: Any) -> Any:
    """For each update: the product of the operand and all other updates at its place."""
    if not may_meet(aval_of(indices).shape, **params):
        return _written_by(operand, indices, updates, **params)
    zero, one = full_like(updates, 0), full_like(updates, 1)

    def of_others(x: Any) -> Any:
        total = scatter_add(full_like(operand, 0), indices, x, **params)
        return el.sub(_written_by(total, indices, updates, **params), x)

    is_zero = el.eq(updates, zero)
    factors = el.select_n(is_zero, updates, one)
    product = _written_by(scatter_mul(operand, indices, factors, **params), indices, updates, **params)
    # Times the product of the others that are 0: of k of them the elementary symmetric polynomial e_k, by Newton's
    # identities from the sums p_1, p_2 of their powers. So it is smooth in them, and derivatives to third order are
    # right. With more than two of them those are 0.
    zeros = el.select_n(is_zero, zero, updates)
    p_1, p_2 = of_others(zeros), of_others(el.square(zeros))
    e_0, e_1 = one, p_1
    e_2 = el.mul(scalar_like(updates, 0.5), el.sub(el.square(p_1), p_2))
    count = convert_element_type(of_others(el.select_n(is_zero, zero, one)), np.int32)
    return el.mul(el.div(product, factors), el.select_n(count, e_0, e_1, e_2, zero))


def _scatter_mul_transpose(ct: Any, operand: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    check_bilinear("scatter-mul", operand, updates)
    if is_linear(operand):
        return [scatter_mul(ct, indices, updates, **params), None, None]
    if may_meet(aval_of(indices).shape, **params):
        raise DifferentiationError(
            "`scatter-mul` cannot be transposed: two updates may be factors of one element, so the function is not "
            "linear; say unique_indices=True where no two of them meet, or linearize the function first"
        )
    return [None, None, _written_by(el.mul(ct, operand), indices, updates, **params)]


def _scatter_extremum_jvp(primals: Sequence[Any], out: Any, tangents: Sequence[Any], **params: Any) -> Any:
    # The derivative is shared equally by the operand and the updates that equal the extremum.
    operand, indices, updates = primals
    t_operand, _, t_updates = tangents
    zero, one = scalar_like(operand, 0), scalar_like(operand, 1)

    def mask(condition: Any) -> Any:
        shape = aval_of(condition).shape
        return el.select_n(condition, full(shape, zero), full(shape, one))

    operand_wins = mask(el.eq(operand, out))
    update_wins = mask(el.eq(updates, _written_by(out, indices, updates, **params)))
    share = el.div(full(out.shape, one), scatter_add(operand_wins, indices, update_wins, **params))
    total: Any = Zero(Aval(out.shape, out.dtype))
    if not isinstance(t_operand, Zero):
        total = el.mul(t_operand, el.mul(operand_wins, share))
    if not isinstance(t_updates, Zero):
        share = el.mul(update_wins, _written_by(share, indices, updates, **params))
        total = scatter_add(instantiate(total), indices, el.mul(t_updates, share), **params)
    return total


# --- batching of the scatters, and the records ------------------------------------------------------------


def scatter_batch(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    dimension_numbers: ScatterDimensionNumbers,
    combine: Callable[..., Any] = scatter,
    **params: Any,
) -> tuple[Any, int]:
    """The batch rule of the scatters; other primitives become a scatter in theirs."""
    operand, updates = (move_batch_axis_to_front(args[i], dims[i], axis_size) for i in (0, 2))
    indices, indices_dim = args[1], dims[1]
    if indices_dim is not None:
        indices = move_axis(indices, indices_dim, 0)
    with_axis = _with_window_axis if indices_dim is None else _with_pair_of_axes
    return combine(operand, indices, updates, ScatterDimensionNumbers(*with_axis(dimension_numbers)), **params), 0


def _scatter_example(operand: Any, indices: Any, updates: Any, numbers: Any, **changes: Any) -> Example:
    options = {name: changes.pop(name) for name in ("differentiable", "along", "agreed") if name in changes}
    params = {
        "dimension_numbers": ScatterDimensionNumbers(*numbers),
        "indices_are_sorted": False,
        "unique_indices": False,
        "mode": FILL_OR_DROP,
        **changes,
    }
    return Example(args=(operand, np.int32(indices), updates), params=params, **options)


def _at_tie(agreed: dict[str, Agreed]) -> list[Example]:
    """Two updates meet the first element: agreed derivatives along the operand, the updates, and both."""
    x, u = np.array([1, 2, 0], np.float32), np.array([1, 1, 0], np.float32)
    directions = {"operand": (_FIRST, None, None), "updates": (None, None, _FIRST), "both": (_FIRST, None, _FIRST)}
    places = [[0], [0], [2]]
    return [
        _scatter_example(x, places, u, ((), (0,), (0,)), along=directions[which], agreed=values)
        for which, values in agreed.items()
    ]


_FIRST = np.array([1, 0, 0], np.float32)
_THIRDS: dict[str, Agreed] = {"operand": (1 / 3, 0, 0), "updates": (1 / 3, 0, 0), "both": (2 / 3, 0, 0)}


def _products_with_zeros() -> list[Example]:
    """All updates meet one element: of one, two and three that are 0."""
    shown: list[tuple[list[float], Agreed]] = [([0, 3, 2], (6, 10, 6)), ([0, 0, 2], (0, 4, 6)), ([0, 0, 0], (0, 0, 6))]
    x, ones = np.array([1], np.float32), np.ones(3, np.float32)
    return [
        _scatter_example(
            x, np.zeros((3, 1)), np.array(u, np.float32), ((), (0,), (0,)), along=(None, None, ones), agreed=agreed
        )
        for u, agreed in shown
    ]


def _scatter_examples() -> list[Example]:
    rows = ((1,), (0,), (0,))
    x = normal(3, 4)
    paired = ((), (1,), (1,), (0,), (0,))
    u = normal(3, 4, seed=1)
    return [
        _scatter_example(x, [[2], [0], [2]], u, rows),
        _scatter_example(x, [[2], [0]], u[:2], rows, unique_indices=True),
        _scatter_example(x, [[2], [-1], [2]], u, rows),
        _scatter_example(x, [[1], [-1], [0]], u, rows, mode=CLIP),
        _scatter_example(x, [[2], [1]], u[:2], rows, mode=PROMISE_IN_BOUNDS, unique_indices=True),
        _scatter_example(x, [[0, 1], [1, 2]], normal(2, 2, 2, seed=1), ((0, 2), (), (0, 1))),
        _scatter_example(x, [[[1], [2]], [[0], [0]], [[3], [3]]], normal(3, 2, seed=1), paired),
        _scatter_example(x, [1], normal(3, seed=1), ((0,), (0,), (0,)), indices_are_sorted=True),
        _scatter_example(x, np.zeros((0, 1)), u[:0], rows),
        *[_scatter_example(x[:0], [[0], [-1]], u[:2], rows, mode=mode) for mode in GatherScatterMode],
        _scatter_example(integers(3), [[1], [1]], integers(2, seed=2), ((), (0,), (0,)), differentiable=False),
    ]


def _accumulator(
    kind: str, operand: Aval, indices: Aval, updates: Aval, *, dimension_numbers: ScatterDimensionNumbers, **_: Any
) -> np.dtype:
    batching = dimension_numbers.scatter_indices_batching_dims
    return kernels.scatter_accumulator(kind, operand, indices, updates, batching)


def _scatter(
    kind: str,
    combine: Callable[..., Any],
    doc: str,
    jvp: Callable[..., Any],
    transpose: Callable[..., Any] | Absent,
    agreed: Callable[[], list[Example]] = lambda: [],
) -> Primitive:
    name = "scatter" if kind == "set" else f"scatter-{kind}"

    def abstract_eval(
        operand: Aval, indices: Aval, updates: Aval, *, dimension_numbers: ScatterDimensionNumbers, **_: Any
    ) -> Aval:
        check_scatter(name, operand, indices, updates, dimension_numbers)
        return Aval(operand.shape, operand.dtype)

    def impl(
        operand: np.ndarray,
        indices: np.ndarray,
        updates: np.ndarray,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        mode: GatherScatterMode,
        **_: Any,
    ) -> np.ndarray:
        numbers = dimension_numbers._asdict()
        return kernels.scatter(operand, indices, updates, kind=kind, **numbers, mode=KERNEL_MODES[mode])

    return Primitive(
        name=name,
        doc=doc,
        multiple_results=False,
        abstract_eval=abstract_eval,
        impl=impl,
        jvp=jvp,
        transpose=transpose,
        batch=partial(scatter_batch, combine=combine),
        lower=Scattered(
            scattering.scatter_loops, scattering.scatter_rule, kind, accumulator=partial(_accumulator, kind)
        ),
        examples=lambda: _scatter_examples() + agreed(),
    )


_BOTH = slice(0, None, 2)  # the operand and the updates

scatter_p = _scatter(
    "set", scatter, "Replace slices of an array.", JointlyLinear(_scatter_jvp, _BOTH), _scatter_transpose
)
scatter_add_p = _scatter(
    "add", scatter_add, "Add to slices of an array.", JointlyLinear(_scatter_add_jvp, _BOTH), _scatter_add_transpose
)
scatter_mul_p = _scatter(
    "mul",
    scatter_mul,
    "Multiply slices of an array.",
    _scatter_mul_jvp,
    _scatter_mul_transpose,
    agreed=_products_with_zeros,
)
scatter_min_p = _scatter(
    "min",
    scatter_min,
    "The minimum with slices of an array.",
    _scatter_extremum_jvp,
    NOT_LINEAR,
    agreed=lambda: _at_tie(_THIRDS),
)
scatter_max_p = _scatter(
    "max",
    scatter_max,
    "The maximum with slices of an array.",
    _scatter_extremum_jvp,
    NOT_LINEAR,
    agreed=lambda: _at_tie(_THIRDS),
)
