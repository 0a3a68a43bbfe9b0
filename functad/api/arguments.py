"""What every transform does with its user's arguments: flatten, convert, name them in errors.

Knows pytrees and arrays; no transform.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import WRAPPER_ASSIGNMENTS, partial, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from functad import dtypes
from functad.array import Array, ArrayImpl, DonatedArray
from functad.errors import ArgumentError, DTypeError, RangeError, ShapeError
from functad.evaluation import aval_of
from functad.ir import Aval
from functad.layouts import PartitionSpec, Sharding
from functad.pytrees.nodes import KINDS, NodeKind, register_kind
from functad.pytrees.treedef import LEAF, node_def
from functad.system.once import imported
from functad.tracing import Origin, Tracer, leak_error
from functad.tree_util import PyTreeDef, keystr, tree_flatten, tree_flatten_with_path

P = ParamSpec("P")  # of a function that a transform is given, and what it returns
R = TypeVar("R")

_PYTHON_SCALARS = (bool, int, float, complex)


class ShapeDtypeStruct:
    """The shape and dtype of an array, without its elements: stands for an argument when only types matter.

    >>> import functad, numpy as np
    >>> functad.eval_shape(lambda x: x.T, functad.ShapeDtypeStruct((2, 3), np.float32))
    ShapeDtypeStruct(shape=(3, 2), dtype=float32)
    """

    __slots__ = ("dtype", "shape", "sharding", "weak_type")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        *,
        sharding: Sharding | PartitionSpec | None = None,
        weak_type: bool = False,
    ) -> None:
        self.shape: tuple[int, ...] = _checked_sizes(shape, lambda: "ShapeDtypeStruct")
        self.dtype: np.dtype = dtypes.as_dtype(dtype)
        self.weak_type = weak_type
        if isinstance(sharding, Sharding):
            sharding.check_compatible_aval(self.shape)
        elif not (sharding is None or isinstance(sharding, PartitionSpec)):
            raise ArgumentError(
                f"ShapeDtypeStruct: sharding must be one of functad.sharding, got {sharding!r:.80}; leave it out"
            )
        self.sharding = sharding

    @property
    def aval(self) -> Aval:
        return Aval(self.shape, dtypes.taken_in(self.dtype), self.weak_type)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The type of an array, a number, or whatever has a shape and a dtype.

        >>> import functad, numpy as np
        >>> functad.ShapeDtypeStruct.like(np.ones(3))
        ShapeDtypeStruct(shape=(3,), dtype=float64)
        """
        aval = leaf_aval(x, lambda: "the argument of ShapeDtypeStruct.like")
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type)

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """The same with another `shape`, `dtype`, `sharding` or `weak_type`.

        >>> import functad
        >>> functad.ShapeDtypeStruct((3,), "float32").update(shape=(2, 2))
        ShapeDtypeStruct(shape=(2, 2), dtype=float32)
        """
        unknown = changes.keys() - {"shape", "dtype", "weak_type", "sharding"}
        if unknown:
            raise ArgumentError(f"ShapeDtypeStruct.update changes shape, dtype or weak_type, but not {sorted(unknown)}")
        return ShapeDtypeStruct(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

    def __len__(self) -> int:
        if not self.shape:
            raise ShapeError("len() of a ShapeDtypeStruct of shape (): it has no axis")
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        layout = "" if self.sharding is None else f", sharding={self.sharding}"
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{layout}{weak})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and (self.aval, self.sharding) == (other.aval, other.sharding)

    def __hash__(self) -> int:
        return hash(self.aval)


def _checked_sizes(shape: Any, where: Callable[[], str]) -> tuple[int, ...]:
    try:
        sizes = tuple([n.__index__() for n in shape])
    except (TypeError, AttributeError):
        problem = f"shape={shape!r:.80} must be a tuple of integers; write (n,) for one axis"
        raise ShapeError(f"{where()}: {problem}") from None
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{where()}: shape={sizes} has a negative size")
    return sizes


def check_callable(fun: Any, transform: str) -> None:
    if not callable(fun):
        raise ArgumentError(f"{transform} expects a function as its first argument, but was given {fun!r}")


def as_value(x: Any, where: Callable[[], str], copy: bool = True) -> Any:
    """A leaf as an Array or tracer. NumPy arrays are copied unless they are only read during the call."""
    if isinstance(x, Array):
        if isinstance(x, Tracer) and not x.owner.alive:
            raise leak_error(x)
        if type(x) is DonatedArray:
            x._value  # noqa: B018  (raises)
        return x
    if type(x) is float:  # as below, in half the time
        return ArrayImpl(np.asarray(x, dtypes.default_float_dtype()), True)
    if isinstance(x, np.ndarray):
        dtype = _dtype_of_array(x, where)
        if not copy and x.dtype == dtype:
            return ArrayImpl(x.view())
        return ArrayImpl(np.array(x, dtype) if x.dtype == dtype else dtypes.cut(np.asarray(x), dtype))
    x = dtypes.adaptable(x)
    if isinstance(x, np.generic):
        return ArrayImpl(np.asarray(x, _dtype_of_array(x, where)))
    if isinstance(x, _PYTHON_SCALARS):
        dtype, weak = dtypes.dtype_of(x)
        try:
            return ArrayImpl(np.asarray(x, dtype), weak)
        except OverflowError:
            raise RangeError(
                f"{where()} is {x}, which does not fit in {dtype.name}: pass numpy.array({x}), or enable 64 bits with "
                "functad.config.update('enable_x64', True)"
            ) from None
    if hasattr(x, "__cuda_array_interface__"):
        return imported("functad.backends.cuda.runtime.exchange").array_of_interface(x)
    if hasattr(x, "__array__"):
        return as_value(np.asarray(x), where)
    raise DTypeError(
        f"{where()} is {x!r} of type {type(x).__name__}, which is no array. Pass an Array, a NumPy array or a "
        "number; mark an option as static (`jit(f, static_argnames=...)`), or close over it with "
        "`lambda x: f(x, option)`"
    )


def as_known(x: Any, where: Callable[[], str]) -> Any:
    """A leaf that nothing traces: Python numbers stay, for control flow; all else is as `as_value` says."""
    value = as_value(x, where)
    return x if is_python_number(x) else value


def is_array_like(x: Any) -> bool:
    """Whether x is, or can be made, an array; Python's numbers are none."""
    return isinstance(x, (Array, np.generic)) or hasattr(x, "__array__")


def is_python_number(x: Any) -> bool:
    return isinstance(x, _PYTHON_SCALARS) and not isinstance(x, np.generic)


def _dtype_of_array(x: Any, where: Callable[[], str]) -> np.dtype:
    try:
        return dtypes.dtype_of_ndarray(x)
    except DTypeError as error:
        raise DTypeError(f"{where()}: {error}") from None


def leaf_aval(x: Any, where: Callable[[], str]) -> Aval:
    """The type of a leaf; whatever has a shape and a dtype stands for an array of that type."""
    if isinstance(x, (Array, ShapeDtypeStruct)):
        return x.aval
    if not isinstance(x, np.generic) and hasattr(x, "shape") and hasattr(x, "dtype"):
        return Aval(_checked_sizes(x.shape, where), _dtype_of_array(x, where))
    return as_value(x, where).aval


def positional_names(fun: Callable[..., Any], count: int) -> list[str]:
    """The names of the first `count` positional parameters of a function, as far as they can be known."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return [f"args[{i}]" for i in range(count)]
    names: list[str] = []
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            names += [f"{p.name}[{i}]" for i in range(count - len(names))]
        elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            names.append(p.name)
    return (names + [f"args[{i}]" for i in range(len(names), count)])[:count]


class LeafNames:
    """Names such as `params['w']` for the leaves of a call's arguments, worked out only when an error asks.

    args: position → argument; kwargs: keyword → argument.
    """

    def __init__(self, fun: Callable[..., Any], args: dict[int, Any], kwargs: dict[str, Any] | None = None) -> None:
        self.fun = fun
        self.args = args
        self.kwargs = kwargs or {}
        self._all: list[str] | None = None

    def __getitem__(self, i: int) -> str:
        return self.all()[i]

    def all(self) -> list[str]:
        if self._all is None:
            self._all = self._worked_out()
        return self._all

    def _worked_out(self) -> list[str]:
        names = positional_names(self.fun, max(self.args, default=-1) + 1)
        found = []
        for position, arg in self.args.items():
            found += [names[position] + keystr(path) for path, _ in tree_flatten_with_path(arg)[0]]
        for key in sorted(self.kwargs):
            found += [key + keystr(path) for path, _ in tree_flatten_with_path(self.kwargs[key])[0]]
        return found

    def origins(self, count: int) -> list[Origin]:
        return [partial(self.__getitem__, i) for i in range(count)]

    def describe(self, i: int) -> Callable[[], str]:
        return lambda: f"argument `{self[i]}` of {function_name(self.fun)}"


def function_name(fun: Any) -> str:
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) and name else type(fun).__name__


def described_like(fun: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator as `functools.wraps`, also for callables whose `__name__` and the like are no strings."""
    return wraps(fun, assigned=description_of(fun), updated=["__dict__"] if hasattr(fun, "__dict__") else ())


def description_of(fun: Any) -> list[str]:
    """What `functools.update_wrapper` can copy of a callable: an object's class may have anything under these names."""
    kinds = {"__name__": str, "__qualname__": str, "__module__": str, "__annotations__": dict}
    return [a for a in WRAPPER_ASSIGNMENTS if isinstance(getattr(fun, a, None), kinds.get(a, object))]


def of_positions(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], positions: Iterable[int]
) -> Callable[..., Any]:
    """`fun` as a function of the arguments at some positions (and of keywords); the others are fixed."""

    def of_dynamic(*dynamic: Any, **dynamic_kwargs: Any) -> Any:
        given = list(args)
        for position, arg in zip(positions, dynamic):
            given[position] = arg
        return fun(*given, **{**kwargs, **dynamic_kwargs})

    return of_dynamic


class FlatFunction:
    """A function of pytrees as one of leaves: `flat(*leaves) -> list of output values`.

    in_tree: the structure of `(args, kwargs)`, or of all that `fun` takes as one argument where `whole` is set.
    After a call `out_tree` is the structure of what the function returned, and `aux` the auxiliary output.
    With `keeps_numbers` a Python number that the function returns is not made an Array.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        in_tree: PyTreeDef,
        *,
        has_aux: bool = False,
        transform: str = "the transform",
        name: str | None = None,
        keeps_numbers: bool = False,
        whole: bool = False,
    ) -> None:
        self.fun = fun
        self.whole = whole
        self.as_output = as_known if keeps_numbers else as_value
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.transform = transform
        self._name = name
        self.out_tree: PyTreeDef | None = None
        self.aux_tree: PyTreeDef | None = None

    @property
    def name(self) -> str:
        return self._name or function_name(self.fun)

    def __call__(self, *leaves: Any) -> list[Any]:
        given = self.in_tree.unflatten(list(leaves))
        result = self.fun(given) if self.whole else self.fun(*given[0], **given[1])
        aux_leaves: list[Any] = []
        if self.has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise ArgumentError(
                    f"{self.transform} with has_aux=True expects {self.name} to return a pair "
                    f"(output, auxiliary), but it returned {short(result)}; return such a pair, or drop has_aux"
                )
            result, aux = result
            aux_leaves, self.aux_tree = tree_flatten(aux)
        outs, self.out_tree = tree_flatten(result)
        checked = [self._checked(o, i, result) for i, o in enumerate(outs)]
        return checked + [_alive(x) for x in aux_leaves] if aux_leaves else checked

    def output_count(self) -> int:
        """The number of output leaves of the last call, without the auxiliary ones."""
        assert self.out_tree is not None
        return self.out_tree.num_leaves

    def _checked(self, out: Any, i: int, result: Any) -> Any:
        if isinstance(out, Array):
            return _alive(out)
        if isinstance(out, (np.ndarray, np.generic, *_PYTHON_SCALARS)):
            return self.as_output(out, lambda: f"an output of {self.name}")
        path = keystr(tree_flatten_with_path(result)[0][i][0])
        raise DTypeError(
            f"{self.transform}: {self.name} must return arrays, but its output{path} is {short(out)} of type "
            f"{type(out).__name__}. Return arrays and numbers only; other results belong outside of the function"
        )


def _alive(x: Any) -> Any:
    """x, unless it is a tracer that outlived its function."""
    if isinstance(x, Tracer) and not x.owner.alive:
        raise leak_error(x)
    return x


def short(x: Any) -> str:
    """A value in an error message: its repr, or only its type if that is long."""
    try:
        text = repr(x)
    except RecursionError:  # a tree of many levels
        return f"a {type(x).__name__}"
    return text if len(text) <= 80 else f"a {type(x).__name__}"


def check_argnums(argnums: Any, transform: str) -> None:
    """Raise unless these may be argument numbers."""
    if not all(
        isinstance(n, (int, np.integer)) for n in (argnums if isinstance(argnums, (list, tuple)) else [argnums])
    ):
        raise ArgumentError(
            f"{transform}: argnums must be an int or several, positions of arguments, but is {argnums!r}. {transform} "
            f"takes a function and gives one, which takes the arguments: {transform}(f)(x, y)"
        )


def normalize_argnums(argnums: int | Sequence[int], count: int, transform: str, name: str) -> tuple[int, ...]:
    """Argument numbers as non-negative ones, checked against the number of positional arguments given."""
    if type(argnums) is int and 0 <= argnums < count:
        return (argnums,)
    numbers = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    if not numbers:
        raise ArgumentError(f"{transform}: argnums={argnums!r} names no argument; give at least one position")
    result = []
    for n in numbers:
        if not isinstance(n, (int, np.integer)) or not -count <= n < count:
            raise ArgumentError(
                f"{transform}: argnums={argnums!r} does not fit a call of {name} with {count} positional "
                f"argument{'s' if count != 1 else ''}; "
                + (f"give positions in 0..{count - 1}" if count else "pass what is differentiated by position")
                + " (keyword arguments have none)"
            )
        result.append(int(n) % count)
    if len(set(result)) != len(result):
        raise ArgumentError(f"{transform}: argnums={argnums!r} names the same argument twice")
    return tuple(result)


# --- results that have no bytes ------------------------------------------------------------------------------


class _Float0:
    """Stands in the structure of results for zeros of dtype float0, tangents of integers, whose shape says it all."""


register_kind(
    NodeKind(
        type=_Float0,
        flatten=lambda node: ((), ()),
        unflatten=lambda shape, children: np.zeros(shape, dtypes.float0),
        keys=lambda shape, count: (),
        label=lambda shape: f"float0{list(shape)}",
    )
)


def without_float0(tree: PyTreeDef, outs: Sequence[Any]) -> tuple[PyTreeDef, list[Any]]:
    """Results without those of dtype float0, which no kernel computes, and a structure that makes these itself."""
    avals = [aval_of(o) for o in outs]
    if all(a.dtype != dtypes.float0 for a in avals):
        return tree, list(outs)
    kind = KINDS[_Float0]
    assert kind is not None
    places = [node_def(kind, a.shape, ()) if a.dtype == dtypes.float0 else LEAF for a in avals]
    return tree.with_subtrees(places), [o for o, a in zip(outs, avals) if a.dtype != dtypes.float0]
