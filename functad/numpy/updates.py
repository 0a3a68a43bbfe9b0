"""`x.at[index]`: copies of an array in which indexed elements are replaced, added to, multiplied, …

Knows the plan of an index and the scatter primitives.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from functad import dtypes
from functad.dtypes import kind_of
from functad.errors import AbsentNameError, ArgumentError, DTypeError, ImmutableArrayError, ShapeError
from functad.evaluation import aval_of
from functad.hints import discards_result
from functad.numpy import arithmetic, indexing
from functad.numpy.building import filled
from functad.numpy.index_plan import Window, index_layout, indices_of, window_of
from functad.numpy.promotion import convert, operand
from functad.primitives import elementwise as el
from functad.primitives import gather_scatter, structure
from functad.primitives.common import broadcast_in_dim, reshape
from functad.primitives.dimension_numbers import GatherScatterMode, ScatterDimensionNumbers
from functad.primitives.slice_update import add_to_slice, slice_like, update_slice


class At:
    """What `x.at` gives: index it, then say what to do with those elements.

    >>> import functad.numpy as jnp
    >>> x = jnp.zeros(3)
    >>> x.at[1].set(5.).at[-1].add(2.)
    Array([0., 5., 2.], dtype=float32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self.array, index)

    def __repr__(self) -> str:
        return f"At({self.array!r})"

    def __setitem__(self, index: Any, value: Any) -> None:
        raise ImmutableArrayError(
            "`x.at[index] = value` cannot work: arrays are immutable. Write\n    x = x.at[index].set(value)\n"
            "and for x.at[index] += value\n    x = x.at[index].add(value)"
        )

    def __call__(self, *index: Any) -> Any:
        raise ArgumentError("x.at takes an index in brackets: x.at[index].set(value), not x.at(index)")

    def __getattr__(self, name: str) -> Any:
        raise AbsentNameError(
            f"x.at has no attribute {name!r}; it takes an index first: x.at[index].set(value). For all elements "
            "write x.at[...].set(value)",
            name=name,
            obj=self,
        )


class AtIndex:
    """Indexed elements of an array, about to be read or updated.

    All methods take `mode`: what happens at positions outside of the array, "drop" (for `get`: "fill"), "clip"
    or "promise_in_bounds". Without it Python's integers raise there; at the positions of arrays updates are dropped,
    and `get` reads the nearest element, or fills if it is given a `fill_value`.
    Negative positions count from the end, unless `wrap_negative_indices=False` has them lie outside.
    `indices_are_sorted` and `unique_indices` are promises that may make the update faster.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"AtIndex({self.array!r}, {self.index!r})"

    def __getattr__(self, name: str) -> Any:
        raise AbsentNameError(_AT_USES.format(what=f"has no attribute {name!r}"), name=name, obj=self)

    def _no_array(self, *args: Any) -> Any:
        raise ArgumentError(_AT_USES.format(what="is no array"))

    __array__ = __bool__ = __float__ = __int__ = __iter__ = __getitem__ = __len__ = _no_array
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __pow__ = __neg__ = _no_array

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """The elements themselves: `x[index]`, with a choice for positions outside of the array."""
        if mode is None and fill_value is None and wrap_negative_indices:
            return indexing.getitem(self.array, self.index)
        x, index = indexing.without_single_masks(self.array, self.index)
        remedy = indexing.READING if mode is None else None
        entries = indexing.read_index(x.shape, index, remedy, wrap_negative_indices)
        if mode is None:
            mode = "promise_in_bounds" if fill_value is None else "fill"
        return indexing.gather(x, entries, GatherScatterMode.from_any(mode), fill_value)

    def set(self, values: Any, *, mode: Any = None, **promises: bool) -> Any:
        """The array with the elements replaced. Of several values for one element the last one counts."""
        return _used("set", _scatter("set", gather_scatter.scatter, self, values, mode, promises))

    def add(self, values: Any, *, mode: Any = None, **promises: bool) -> Any:
        """The array with values added; to an element named twice both are added."""
        return _used("add", _scatter("add", gather_scatter.scatter_add, self, values, mode, promises))

    def subtract(self, values: Any, *, mode: Any = None, **promises: bool) -> Any:
        """The array with values subtracted."""
        negated = arithmetic.negative(_cast("subtract", self.array, values))
        return _used("subtract", _scatter("subtract", gather_scatter.scatter_add, self, negated, mode, promises))

    def multiply(self, values: Any, *, mode: Any = None, **promises: bool) -> Any:
        """The array with the elements multiplied by values."""
        return _used("multiply", _scatter("multiply", gather_scatter.scatter_mul, self, values, mode, promises))

    mul = multiply

    def divide(self, values: Any, *, mode: Any = None, **promises: bool) -> Any:
        """The array with the elements divided by values."""
        divisors = self._elsewhere_one("divide", values, mode, promises)
        return _used("divide", arithmetic.divide(self.array, divisors))

    def power(self, values: Any, *, mode: Any = None, **promises: bool) -> Any:
        """The array with the elements raised to powers."""
        powers = self._elsewhere_one("power", values, mode, promises)
        return _used("power", arithmetic.power(self.array, powers))

    def min(self, values: Any, *, mode: Any = None, **promises: bool) -> Any:
        """The array with the smaller of each element and its value."""
        return _used("min", _scatter("min", gather_scatter.scatter_min, self, values, mode, promises))

    def max(self, values: Any, *, mode: Any = None, **promises: bool) -> Any:
        """The array with the larger of each element and its value."""
        return _used("max", _scatter("max", gather_scatter.scatter_max, self, values, mode, promises))

    def apply(self, func: Callable[[Any], Any], *, mode: Any = None, **promises: bool) -> Any:
        """The array with a function applied to the elements."""
        _check_promises("apply", promises)
        return _used("apply", self.set(func(self.get(mode=mode, **promises)), mode=mode, **promises))

    def _elsewhere_one(self, name: str, values: Any, mode: Any, promises: dict[str, bool]) -> Any:
        x = self.array
        ones = AtIndex(filled(x.dtype.type(1), x.shape), self.index)
        return _scatter(name, gather_scatter.scatter_mul, ones, values, mode, promises)


_AT_USES = (
    "x.at[index] {what}: it only names elements. Write x[index] or x.at[index].get() for the elements, and "
    "x.at[index].set(v), .add(v), .multiply(v), .divide(v), .power(v), .min(v), .max(v) or .apply(f) for a copy of x "
    "in which they are changed"
)
_PROMISES = ("indices_are_sorted", "unique_indices", "wrap_negative_indices")


def _check_promises(name: str, promises: dict[str, bool]) -> None:
    for promise in promises:
        if promise not in _PROMISES:
            raise TypeError(f"x.at[...].{name}() got an unexpected keyword argument {promise!r}")


def _scatter(
    name: str, primitive: Callable[..., Any], at: AtIndex, values: Any, mode: Any, promises: dict[str, bool]
) -> Any:
    _check_promises(name, promises)
    x, index = indexing.without_single_masks(at.array, at.index)
    remedy = f"x.at[index].{name}(v, mode='drop'), or mode='clip'"
    wraps = promises.get("wrap_negative_indices", True)
    entries = indexing.read_index(x.shape, index, remedy if mode is None else None, wraps)
    layout = index_layout(x.shape, entries)
    updates = _fit(name, _cast(name, x, values), layout.shape, layout.new_axes, x.shape)
    if layout.reversed_dims:
        updates = structure.rev(updates, layout.reversed_dims)
    outside = GatherScatterMode.from_any(mode)
    window = window_of(x.shape, entries)
    if window is not None and (kind_of(x.dtype) != "b" or name in _OF_BOOLEANS):
        return reshape(_update_window(primitive, x, reshape(updates, window.sizes), window), at.array.shape)
    numbers = ScatterDimensionNumbers(layout.window_dims, layout.collapsed, layout.indexed, (), ())
    result = primitive(
        x,
        indices_of(layout, entries),
        updates,
        dimension_numbers=numbers,
        indices_are_sorted=layout.distinct or promises.get("indices_are_sorted", False),
        unique_indices=layout.distinct or promises.get("unique_indices", False),
        mode=outside,
    )
    return reshape(result, at.array.shape)


def _update_window(primitive: Callable[..., Any], x: Any, updates: Any, window: Window) -> Any:
    """What a scatter does, without one: at known places an update is a slice that is replaced."""
    places = (window.starts, window.steps)
    if primitive is gather_scatter.scatter_add:
        return add_to_slice(x, updates, *places)
    if primitive in _COMBINED:
        updates = _COMBINED[primitive](slice_like(x, updates, *places), updates)
    return update_slice(x, updates, *places)


_COMBINED: dict[Callable[..., Any], Callable[..., Any]] = {
    gather_scatter.scatter_mul: el.mul,
    gather_scatter.scatter_min: el.min,
    gather_scatter.scatter_max: el.max,
}
_OF_BOOLEANS = ("set", "apply", "add")


def _used(name: str, result: Any) -> Any:
    """The result of a method; warns where the method's caller throws it away."""
    if discards_result(sys._getframe(2)):
        warnings.warn(
            f"the result of x.at[...].{name}(...) is not used, and x stays as it is, because arrays are immutable: "
            f"write x = x.at[...].{name}(...)",
            stacklevel=3,
        )
    return result


def _cast(name: str, x: Any, values: Any) -> Any:
    """The values in the dtype of the array, if that kind of number can hold them."""
    values = operand(f"x.at[...].{name}", values)
    dtype, weak = dtypes.dtype_of(values)
    joint = dtypes.lattice_join((x.dtype, x.weak_type), (dtype, weak))[0]
    if joint != x.dtype and "biufc".index(_family(joint)) > "biufc".index(_family(x.dtype)):
        raise DTypeError(
            f"x.at[...].{name}: values of dtype {dtype} do not fit into an array of dtype {x.dtype}; convert one of "
            f"them: x.astype({joint.name!r}), or the values with .astype({x.dtype.name!r})"
        )
    return convert(values, x.dtype, x.weak_type and weak)


def _family(dtype: Any) -> str:
    return "i" if kind_of(dtype) == "u" else kind_of(dtype)


def _fit(
    name: str, values: Any, shape: tuple[int, ...], new_axes: tuple[int, ...], array_shape: tuple[int, ...]
) -> Any:
    """The values repeated to the shape of `x[index]`, without its new axes."""
    whole = list(shape)
    for axis in new_axes:
        whole.insert(axis, 1)
    own = aval_of(values).shape
    while len(own) > len(whole) and own[0] == 1:
        own = own[1:]
    values = reshape(values, own)
    if len(own) > len(whole) or any(n not in (1, m) for n, m in zip(own[::-1], whole[::-1])):
        raise ShapeError(
            f"x.at[...].{name}: values of shape {aval_of(values).shape} do not broadcast to the shape "
            f"{tuple(whole)} of the indexed part of an array of shape {array_shape}"
        )
    # The new axes have size 1, so do the values there.
    kept = [i for i in range(len(whole)) if i not in new_axes]
    first = len(whole) - len(own)
    dropped = [i - first for i in new_axes if i >= first]
    values = structure.squeeze(values, dropped)
    places = [kept.index(i) for i in range(first, len(whole)) if i in kept]
    return broadcast_in_dim(values, shape=shape, broadcast_dimensions=places)
