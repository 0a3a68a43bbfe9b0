"""The methods of binary element-wise functions: `add.reduce`, `.accumulate`, `.reduceat`, `.outer` and `.at`.

Knows which reduction or update each function stands for; computes nothing that another function does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.api.arguments import ShapeDtypeStruct
from functad.api.inspection import trace_function
from functad.control import forwarding
from functad.errors import ArgumentError, ImmutableArrayError, UnsupportedNumpyError
from functad.numpy import (
    arithmetic,
    concatenation,
    indexing,
    logic,
    manipulation,
    reductions,
    running,
    ufuncs,
    updates,
)
from functad.numpy.building import as_array, refuse_out
from functad.numpy.creation import arange
from functad.numpy.promotion import asarray, canonical_axis, canonical_dtype, concrete_value, convert
from functad.numpy.selecting import take
from functad.numpy.selecting import where as select_where
from functad.primitives import cumulative
from functad.records import NamedTuple

_Function = Callable[..., Any]


class _Named(NamedTuple):
    """The functions that do what methods of a ufunc do, and the update of `x.at` that does what `.at` does."""

    function: _Function
    identity: Any = None
    reduction: _Function | None = None
    accumulation: _Function | None = None
    update: str = ""
    typed: bool = False  # reduction and accumulation take dtype=


_BINARY = (
    _Named(arithmetic.add, 0, reductions.sum, running.cumsum, "add", typed=True),
    _Named(arithmetic.multiply, 1, reductions.prod, running.cumprod, "multiply", typed=True),
    _Named(arithmetic.maximum, None, reductions.max, lambda x, axis: cumulative.cummax(x, axis=axis), "max"),
    _Named(arithmetic.minimum, None, reductions.min, lambda x, axis: cumulative.cummin(x, axis=axis), "min"),
    _Named(arithmetic.subtract, update="subtract"),
    _Named(arithmetic.divide, update="divide"),
    _Named(arithmetic.power, update="power"),
    _Named(logic.logical_and, True, reductions.all),
    _Named(logic.logical_or, False, reductions.any),
    _Named(logic.logical_xor, False),
    _Named(logic.bitwise_and, -1),
    _Named(logic.bitwise_or, 0),
    _Named(logic.bitwise_xor, 0),
    _Named(ufuncs.logaddexp, -np.inf),
    _Named(ufuncs.logaddexp2, -np.inf),
    _Named(ufuncs.hypot, 0),
    _Named(arithmetic.fmax),
    _Named(arithmetic.fmin),
    _Named(arithmetic.remainder),
    _Named(arithmetic.floor_divide),
    _Named(ufuncs.arctan2),
)


def install() -> None:
    """Attach the methods to the functions."""
    for named in _BINARY:
        attributes = {"nin": 2, "nout": 1, "nargs": 3, "identity": named.identity, **_methods_of(named)}
        for attribute, value in attributes.items():
            setattr(named.function, attribute, value)


def methods_of(function: _Function, identity: Any) -> dict[str, _Function]:
    """The methods of another binary function, by name."""
    return _methods_of(_Named(function, identity))


def _methods_of(named: _Named) -> dict[str, _Function]:
    return {
        "reduce": _reduce_of(named),
        "accumulate": _accumulate_of(named),
        "reduceat": _reduceat_of(named),
        "outer": _outer_of(named),
        "at": _at_of(named),
    }


def _reduce_of(named: _Named) -> _Function:
    name = f"{named.function.__name__}.reduce"

    def reduce(
        array: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """The elements along axes combined into one."""
        refuse_out(name, out)
        x = as_array(name, array)
        options = {key: v for key, v in (("initial", initial), ("where", where)) if v is not None}
        if named.reduction is not None and not ("initial" in options and named.function in _WITHOUT_INITIAL):
            if named.typed:
                options["dtype"] = dtype
            else:
                x = _in_dtype(x, dtype)
            return named.reduction(x, axis=axis, keepdims=keepdims, **options)
        if not isinstance(axis, (int, np.integer)):
            raise UnsupportedNumpyError(f"{name} combines one axis; combine several by calling it again")
        return _combined(named, name, x, axis, dtype, keepdims, initial, where)

    return reduce


def _combined(named: _Named, name: str, x: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    """The slices along an axis combined, one by one; masked ones are passed over."""
    place = canonical_axis(name, axis, x.ndim)
    rest = x.shape[:place] + x.shape[place + 1 :]
    parts = _parts(name, x, place, dtype)
    start = named.identity if initial is None else initial
    if start is None and (where is not None or not parts):
        raise ArgumentError(
            f"{name}: axis {axis} of shape {x.shape} may have nothing to combine, and the function has no identity; "
            "give initial="
        )
    is_seeded = initial is not None or where is not None or not parts
    if is_seeded or len(parts) == 1:
        one = asarray(np.ones((), x.dtype if dtype is None else canonical_dtype(dtype)))
        of_result = named.function(one, one).dtype
        first = manipulation.broadcast_to(as_array(name, start), rest) if is_seeded else parts.pop()
        parts.insert(0, convert(first, of_result))
    result = parts[0]
    masks = (
        itertools.repeat(None)
        if where is None
        else _parts(name, manipulation.broadcast_to(where, x.shape), place, None)
    )
    for part, mask in zip(parts[1:], masks):
        combined = named.function(result, part)
        result = combined if mask is None else select_where(mask, combined, result)
    return manipulation.expand_dims(result, place) if keepdims else result


_WITHOUT_INITIAL = (logic.logical_and, logic.logical_or)


def _accumulate_of(named: _Named) -> _Function:
    name = f"{named.function.__name__}.accumulate"

    def accumulate(array: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """The elements along an axis combined with all before them."""
        refuse_out(name, out)
        x = as_array(name, array)
        if named.accumulation is not None:
            if named.typed:
                return named.accumulation(x, axis=axis, dtype=dtype)
            place = canonical_axis(name, axis, x.ndim)
            return named.accumulation(_in_dtype(x, dtype), axis=place)
        parts = _parts(name, x, axis, dtype)
        if not parts:
            return x
        results = [parts[0]]
        for part in parts[1:]:
            results.append(named.function(results[-1], part))
        results[0] = convert(results[0], results[-1].dtype)
        return concatenation.stack(results, canonical_axis(name, axis, x.ndim))

    return accumulate


def _parts(name: str, x: Any, axis: Any, dtype: Any) -> list[Any]:
    """The slices along an axis, one for each step of the loop that has no function of its own."""
    return list(concatenation.unstack(_in_dtype(x, dtype), axis=canonical_axis(name, axis, x.ndim)))


def _in_dtype(x: Any, dtype: Any) -> Any:
    wanted = canonical_dtype(dtype)
    return x if wanted is None else convert(x, wanted)


def _reduceat_of(named: _Named) -> _Function:
    name = f"{named.function.__name__}.reduceat"

    def reduceat(array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """The slices from each index to the next one (or the end) combined; the element itself if that is before."""
        refuse_out(name, out)
        x = as_array(name, array)
        place = canonical_axis(name, axis, x.ndim)
        size = x.shape[place]
        starts = concrete_value(indices, f"The indices of {name}", _STARTS_REWRITE)
        indexing.check_bounds(starts, place, x.shape)
        firsts = [int(i) % size for i in starts]
        reduce = getattr(named.function, "reduce")  # noqa: B009
        results = []
        for first, following in zip(firsts, [*firsts[1:], size]):
            last = following if first < following else first + 1
            part = manipulation.slice_axis(x, place, first, last)
            results.append(reduce(part, axis=place, dtype=dtype))
        return concatenation.stack(results, place) if results else take(x, np.zeros(0, np.int32), place)

    return reduceat


_STARTS_REWRITE = """The lengths of the segments must be known. Instead of
    functad.numpy.add.reduceat(x, starts)
number the segment of each element, and add there
    functad.numpy.zeros(largest).at[segment].add(x)"""


def _outer_of(named: _Named) -> _Function:
    name = f"{named.function.__name__}.outer"

    def outer(A: Any, B: Any, /) -> Any:
        """The function of all pairs of an element of A and one of B."""
        x, y = as_array(name, A), as_array(name, B)
        return named.function(manipulation.reshape(x, x.shape + (1,) * y.ndim), y)

    return outer


def _at_of(named: _Named) -> _Function:
    name = named.function.__name__

    def at(a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """A copy of an array whose indexed elements are combined with `b`; `inplace=False` says that it is one."""
        if inplace:
            raise ImmutableArrayError(
                f"{name}.at: arrays are immutable; write x = functad.numpy.{name}.at(x, i, b, inplace=False)"
                + (f", or x = x.at[i].{named.update}(b)" if named.update else "")
            )
        x = as_array(f"{name}.at", a)
        if named.update:
            return getattr(updates.At(x)[indices], named.update)(b)
        return _one_by_one(named.function, x, indices, () if b is None else (as_array(f"{name}.at", b),))

    return at


def _one_by_one(function: _Function, x: Any, indices: Any, others: tuple[Any, ...]) -> Any:
    """x with a function applied to indexed elements, one after another: to one that is named twice, twice."""
    ones = [asarray(np.ones((), operand.dtype)) for operand in (x, *others)]
    flat = convert(manipulation.ravel(x), function(*ones).dtype)
    places = manipulation.reshape(arange(x.size, dtype=np.int32), x.shape)
    named = updates.At(places)[indices].get(mode="fill", fill_value=x.size)
    arrays = [manipulation.ravel(manipulation.broadcast_to(v, named.shape)) for v in (named, *others)]

    def step(flat: Any, place: Any, *values: Any) -> list[Any]:
        changed = convert(function(flat[place], *values), flat.dtype)
        return [updates.At(flat)[place].set(changed, mode="drop")]

    scalars = [ShapeDtypeStruct((), v.dtype) for v in arrays]
    body, _, _ = trace_function(step, (ShapeDtypeStruct(flat.shape, flat.dtype), *scalars), {}, "ufunc.at")
    (result,), _ = forwarding.bind_scan(body, [flat], arrays, length=named.size, reverse=False, unroll=1)
    return manipulation.reshape(result, x.shape)
