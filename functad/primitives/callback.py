"""`pure_callback`, `io_callback`, `debug_callback`: calls of Python functions as equations.

Knows functions of pytrees and what mapping does to their calls; nothing of the public functions built on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from functad import dtypes, lowering_rules
from functad.array import ArrayImpl
from functad.dtypes import kind_of
from functad.eager import outside_traces
from functad.errors import BatchingError, CallbackError, NoRuleError
from functad.ir import Absent, Aval, Primitive, Source, ZeroDerivative
from functad.primitives.common import move_axis, move_batch_axis_to_front, reshape
from functad.records import Record
from functad.tracing import bind
from functad.tree_util import PyTreeDef, tree_flatten, tree_unflatten

VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


class FlatCallback(Record):
    """A Python function of pytrees as one of arrays.

    in_tree, out_tree: the structures of `(args, kwargs)` and of the result; None: the result is ignored.
    statics: position and value of each leaf of the arguments that is no array.
    transform, source: what calls it, and the user's line, for errors.
    is_check: it raises what the user shall see.
    """

    fun: Callable[..., Any]
    in_tree: PyTreeDef
    out_tree: PyTreeDef | None
    statics: tuple[tuple[int, Any], ...]
    transform: str
    source: Source | None = field(compare=False)
    is_check: bool = False

    def run(self, arrays: Sequence[np.ndarray], avals: Sequence[Aval]) -> list[np.ndarray]:
        """Call the function with copies of arrays; returns arrays of these types, which nobody else holds."""
        copies = [np.array(a) for a in arrays]
        # What Numba compiled takes arrays of NumPy alone.
        dynamic = iter(copies if _is_compiled(self.fun) else [ArrayImpl(a) for a in copies])
        statics = dict(self.statics)
        leaves = [statics[i] if i in statics else next(dynamic) for i in range(self.in_tree.num_leaves)]
        args, kwargs = tree_unflatten(self.in_tree, leaves)
        try:
            with outside_traces():
                result = self.fun(*args, **kwargs)
        except Exception as problem:
            if self.is_check:
                raise
            raise CallbackError(f"{self._where()} raised {type(problem).__name__}: {problem}") from problem
        return [] if self.out_tree is None else self._results(result, avals)

    def _results(self, result: Any, avals: Sequence[Aval]) -> list[np.ndarray]:
        leaves, tree = tree_flatten(result)
        if tree != self.out_tree:
            raise CallbackError(
                f"{self._where()} returned a result of structure {tree}, but result_shape_dtypes has {self.out_tree}; "
                "make both the same"
            )
        found = []
        for number, (leaf, aval) in enumerate(zip(leaves, avals)):
            value = np.asarray(leaf)
            if value.shape != aval.shape or not _fits(leaf, value.dtype, aval.dtype):
                got = f"{dtypes.short_name(value.dtype)}[{','.join(map(str, value.shape))}]"
                fix = "reshape it" if value.shape != aval.shape else f"convert it, `.astype('{aval.dtype.name}')`"
                raise CallbackError(
                    f"{self._where()} returned {got} as result {number}, but result_shape_dtypes announces "
                    f"{aval.str_short()}; {fix}, or announce what it returns"
                )
            found.append(np.array(value, aval.dtype, order="C"))
        return found

    def _where(self) -> str:
        return f"{self.transform} at {self.source}: the function {self}"

    def __str__(self) -> str:
        return getattr(self.fun, "__name__", None) or type(self.fun).__name__


def _is_compiled(fun: Callable[..., Any]) -> bool:
    """Whether a function is one that Numba compiled."""
    return type(fun).__module__.partition(".")[0] == "numba"


_WIDE = ("int64", "uint64", "float64", "complex128")


def _fits(given: Any, dtype: np.dtype, wanted: np.dtype) -> bool:
    """Whether a result may stand for the announced dtype: it has it, or is what NumPy and Python make by default."""
    if dtype == wanted:
        return True
    if isinstance(given, (bool, int, float, complex)) and not isinstance(given, np.generic):
        return np.can_cast(dtype, wanted, "same_kind")
    return dtype.name in _WIDE and kind_of(dtype) == kind_of(wanted) and 2 * wanted.itemsize == dtype.itemsize


class MappedCallback(Record):
    """A callback called for one example after another; results are stacked.

    axes: for each `vmap`, the innermost first, the number of examples and the mapped axis of each operand.
    """

    callback: FlatCallback
    axes: tuple[tuple[int, tuple[int | None, ...]], ...]

    def run(self, arrays: Sequence[np.ndarray], avals: Sequence[Aval]) -> list[np.ndarray]:
        sizes = tuple(size for size, _ in self.axes)
        depth = len(sizes)
        single = [Aval(a.shape[depth:], a.dtype) for a in avals]
        outs = [np.empty((*sizes, *a.shape), a.dtype) for a in single]
        for place in np.ndindex(*sizes):
            example = [self._example(a, k, place) for k, a in enumerate(arrays)]
            for out, result in zip(outs, self.callback.run(example, single)):
                out[place] = result
        # Each vmap puts its axis in front of those that were there.
        return [np.ascontiguousarray(np.transpose(o, (*range(depth)[::-1], *range(depth, o.ndim)))) for o in outs]

    def _example(self, array: np.ndarray, operand: int, place: Sequence[int]) -> np.ndarray:
        for (_, dims), i in zip(reversed(self.axes), reversed(place)):
            dim = dims[operand]
            if dim is not None:
                array = np.take(array, i, axis=dim)
        return array

    def __str__(self) -> str:
        return f"{self.callback} for {'·'.join(str(size) for size, _ in self.axes)} examples"


CallbackFunction = FlatCallback | MappedCallback


def _one_by_one(callback: CallbackFunction, size: int, dims: Sequence[int | None]) -> MappedCallback:
    axis = (size, tuple(dims))
    if isinstance(callback, MappedCallback):
        return replace(callback, axes=(*callback.axes, axis))
    return MappedCallback(callback, (axis,))


def _batched(avals: Sequence[Aval], size: int) -> tuple[Aval, ...]:
    return tuple(Aval((size, *a.shape), a.dtype) for a in avals)


def _impl(
    *args: np.ndarray, callback: CallbackFunction, result_avals: tuple[Aval, ...], **params: Any
) -> list[np.ndarray]:
    return callback.run(args, result_avals)


def _abstract_eval(*avals: Aval, result_avals: tuple[Aval, ...], **params: Any) -> list[Aval]:
    return list(result_avals)


def _callback_primitive(name: str, doc: str, batch: Callable[..., Any], effects: bool) -> Primitive:
    """A call of a function whose results are values that nothing is known of."""
    unknown = "nothing is known of the Python function that it calls"
    return Primitive(
        name=name,
        doc=doc,
        multiple_results=True,
        abstract_eval=_abstract_eval,
        impl=_impl,
        jvp=Absent(f"{unknown}; put the call into a function of `functad.custom_jvp`, whose rule gives the derivative"),
        transpose=Absent(unknown),
        batch=batch,
        lower=lowering_rules.Callback(effects),
        examples=Absent("it takes a Python function; tests/primitives/test_callbacks.py tests it under all transforms"),
    )


# --- pure_callback ----------------------------------------------------------------------------------------


def pure_callback(
    callback: CallbackFunction, result_avals: Sequence[Aval], args: Sequence[Any], vmap_method: str | None
) -> list[Any]:
    """Bind a call of a function without side effects; it may be called more often than written, or not at all."""
    avals = tuple(result_avals)
    return list(bind(pure_callback_p, *args, callback=callback, result_avals=avals, vmap_method=vmap_method))


def _pure_batch(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    callback: CallbackFunction,
    result_avals: tuple[Aval, ...],
    vmap_method: str | None,
) -> tuple[list[Any], list[int]]:
    if vmap_method is None:
        raise NoRuleError(
            "vmap of pure_callback: say how the function takes many examples, `pure_callback(…, vmap_method=…)`: "
            '"sequential" calls it for one after another; "broadcast_all" and "expand_dims" call it once, with the '
            "mapped axis in front of every argument"
        )
    avals = _batched(result_avals, axis_size)
    if vmap_method.startswith("sequential"):
        outs = pure_callback(_one_by_one(callback, axis_size, dims), avals, args, vmap_method)
        return outs, [0] * len(outs)
    whole = []
    for x, dim in zip(args, dims):
        if dim is not None:
            x = move_axis(x, dim, 0)
        elif vmap_method == "broadcast_all":
            x = move_batch_axis_to_front(x, None, axis_size)
        elif vmap_method == "expand_dims":
            x = reshape(x, (1, *x.shape))
        whole.append(x)
    outs = pure_callback(callback, avals, whole, vmap_method)
    return outs, [0] * len(outs)


pure_callback_p = _callback_primitive(
    "pure_callback",
    "Call a Python function without side effects.",
    _pure_batch,
    effects=False,
)


# --- io_callback ------------------------------------------------------------------------------------------


def io_callback(
    callback: CallbackFunction, result_avals: Sequence[Aval], args: Sequence[Any], ordered: bool
) -> list[Any]:
    """Bind a call of a function that may do anything; it runs just as often as it is written, in order."""
    avals = tuple(result_avals)
    return list(bind(io_callback_p, *args, callback=callback, result_avals=avals, ordered=ordered))


def _io_batch(
    axis_size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    callback: CallbackFunction,
    result_avals: tuple[Aval, ...],
    ordered: bool,
) -> tuple[list[Any], list[int]]:
    if ordered:
        raise BatchingError(
            "vmap of io_callback(…, ordered=True): the examples have no order among themselves; "
            "use ordered=False, or loop with `functad.lax.map`"
        )
    avals = _batched(result_avals, axis_size)
    outs = io_callback(_one_by_one(callback, axis_size, dims), avals, args, ordered)
    return outs, [0] * len(outs)


io_callback_p = _callback_primitive(
    "io_callback",
    "Call a Python function that may do anything, such as reading or writing a file.",
    _io_batch,
    effects=True,
)


# --- debug_callback ---------------------------------------------------------------------------------------


def debug_callback(callback: CallbackFunction, args: Sequence[Any], ordered: bool = False) -> None:
    """Bind a call of a function that looks at values and returns nothing; derivatives do not call it."""
    bind(debug_callback_p, *args, callback=callback, ordered=ordered)


def _debug_impl(*args: np.ndarray, callback: CallbackFunction, ordered: bool) -> list[np.ndarray]:
    return callback.run(args, ())


def _no_results(*avals: Aval, **params: Any) -> list[Aval]:
    return []


def _debug_batch(
    axis_size: int, args: Sequence[Any], dims: Sequence[int | None], *, callback: CallbackFunction, ordered: bool
) -> tuple[list[Any], list[int]]:
    debug_callback(_one_by_one(callback, axis_size, dims), args, ordered)
    return [], []


debug_callback_p = Primitive(
    name="debug_callback",
    doc="Call a Python function that looks at values; only the values of the forward pass, never derivatives.",
    multiple_results=True,
    abstract_eval=_no_results,
    impl=_debug_impl,
    jvp=ZeroDerivative("it has no result"),
    transpose=Absent("it looks at values, and a linear operand has none"),
    batch=_debug_batch,
    lower=lowering_rules.Callback(effects=True),
    examples=Absent("it takes a Python function; tests/debug/test_debug.py tests it under all transforms"),
)
