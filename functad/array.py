"""Array values: the class users see, and its concrete form on the CPU.

Knows nothing of tracing or of primitives: the operators and methods are installed by `functad.numpy`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from functad import dtypes, machine_model
from functad.absent_names import METHODS_ELSEWHERE
from functad.dtypes import plain_dtype
from functad.errors import (
    AbsentNameError,
    ArgumentError,
    CopyError,
    DonatedArrayError,
    DTypeError,
    ImmutableArrayError,
    ShapeError,
    UnhashableTracerError,
)
from functad.ir import Aval, TypedByAval
from functad.system.once import imported

_SET_ITEM = """{what} is immutable: `x[index] = value` cannot work in a pure function.{where}
Instead of
    x[{index}] = value
write
    x = x.at[{index}].set(value)      # also .add, .multiply, .min, .max
"""


if TYPE_CHECKING:
    from functad.array_types import ArrayMethods
else:
    ArrayMethods = object


class Array(TypedByAval, ArrayMethods):
    """An immutable n-dimensional array: concrete (`ArrayImpl`) or standing for one while a function is traced.

    Operators and methods are those of `jax.Array`; `numpy.asarray(x)` of a concrete array copies nothing.

    >>> import functad.numpy as jnp
    >>> jnp.array([1., 2.]) * 2
    Array([2., 4.], dtype=float32)
    """

    __slots__ = ()
    __array_priority__ = 1000

    weak_type: bool

    def __hash__(self) -> int:
        raise UnhashableTracerError(
            f"{self._describe()} cannot be hashed: it was used in a set, as a dict key, or as a static argument "
            f"of `jit`.{self._where()}\nUse a Python int, str or tuple there (`x.item()`, `tuple(x.tolist())`), "
            "or do not mark that argument static."
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        text = _SET_ITEM.format(what=self._describe(), index=_index_text(index), where=self._where())
        raise ImmutableArrayError(text)

    def __delitem__(self, index: Any) -> None:
        raise ImmutableArrayError(
            f"{self._describe()} is immutable: `del x[index]` cannot work in a pure function.{self._where()}\n"
            "functad.numpy.delete(x, index) makes an array without these elements"
        )

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name not in METHODS_ELSEWHERE]

    def _no_truth(self) -> ArgumentError:
        return ArgumentError(
            f"{self._describe()} has {self.size} elements, so it is neither true nor false as a whole; "
            "say which is meant: x.any() or x.all(), or x.size > 0 for whether it has elements"
        )

    def _no_scalar(self, wanted: str) -> ShapeError:
        return ShapeError(
            f"{wanted}(x) takes an array of rank 0, got {self._describe()}; write x.item() for the only element "
            "of an array, x[i] for one of several, or x.tolist() for all"
        )

    def _where(self) -> str:
        """The user's line, where the traceback alone does not show it."""
        return ""

    def _describe(self) -> str:
        return f"an Array of type {self.aval.str_short()}"


class _Elsewhere:
    """Stands for a method of other libraries' arrays: whoever asks an array for it is told what to write instead."""

    # `__getattr__` would also be called for what NumPy asks of each array in vain: that took longer than all the rest.

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, array: Array | None, owner: type) -> Any:
        what = f"type {owner.__name__!r}" if array is None else array._describe()
        instead = METHODS_ELSEWHERE[self.name]
        raise AbsentNameError(f"{what} has no attribute {self.name!r}; instead: {instead}", name=self.name, obj=array)


for _name in METHODS_ELSEWHERE:
    setattr(Array, _name, _Elsewhere(_name))


def install_methods(methods: dict[str, Callable[..., Any] | property]) -> None:
    """Attach operators and methods to all arrays; called once, by the layer that defines them."""
    for name, method in methods.items():
        setattr(Array, name, method)


class ArrayImpl(Array):
    """A concrete array: wraps a read-only `numpy.ndarray`."""

    __slots__ = ("__weakref__", "_aval", "_value", "weak_type")

    def __init__(self, value: Any, weak_type: bool = False) -> None:
        if type(value) is not np.ndarray:
            value = np.asarray(value)
        value.setflags(False)  # to be written; by position, in half the time
        self._value: np.ndarray = value
        self.weak_type: bool = weak_type
        self._aval: Aval | None = None

    @property
    def aval(self) -> Aval:  # type: ignore[override]
        if self._aval is None:
            self._aval = Aval(self._value.shape, self._value.dtype, self.weak_type)
        return self._aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self._value.shape

    @property
    def dtype(self) -> np.dtype:
        return self._value.dtype

    @property
    def ndim(self) -> int:
        return self._value.ndim

    @property
    def size(self) -> int:
        return self._value.size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if dtype is not None and np.dtype(dtype) != self.dtype:
            if copy is False:
                raise CopyError(f"{self._describe()} becomes an ndarray of {np.dtype(dtype)} by a copy only")
            return self._value.astype(dtype)
        return self._value.copy() if copy else read_only_view(self._value)

    def __bool__(self) -> bool:
        if self.size != 1:
            raise self._no_truth()
        return bool(self._value)

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        return self._scalar("operator.index").__index__()

    def _scalar(self, wanted: str) -> np.ndarray:
        if self.ndim:
            raise self._no_scalar(wanted)
        return self._value

    def __format__(self, spec: str) -> str:
        return format(str(self), spec) if self.ndim else format(self._value[()], spec)

    def __repr__(self) -> str:
        value, how = self._printed()
        body = np.array2string(value, separator=", ", prefix="Array(", **how)
        if value.size == 0 and value.shape != (0,):
            body = f"[], shape={value.shape}"
        weak = ", weak_type=True" if self.weak_type else ""
        return f"Array({body}, dtype={value.dtype.name}{weak})"

    def __str__(self) -> str:
        value, how = self._printed()
        return np.array2string(value, **how) if how else str(value)

    def _printed(self) -> tuple[np.ndarray, dict[str, Any]]:
        """Elements that print as all of them do, with the options of `numpy.array2string` under which they do."""
        return self._value, {}

    def _repr_html_(self) -> str:
        """What a notebook shows: type, range, NaNs and infinities, and a picture."""
        return str(imported("functad.views.arrays").array_html(self))

    def __reduce__(self) -> Any:
        return (ArrayImpl, (read_only_view(self._value), self.weak_type))

    def __copy__(self) -> ArrayImpl:
        # Memory of its own: the original may be donated, and the copy is then what is left.
        return ArrayImpl(self._value.copy(), self.weak_type)

    def __deepcopy__(self, memo: Any) -> ArrayImpl:
        return self.__copy__()


class KeyArray(ArrayImpl):
    """Typed random keys: of each, the value holds the two words of 32 bits as one of 64, in the order of memory."""

    __slots__ = ()

    @property
    def aval(self) -> Aval:  # type: ignore[override]
        if self._aval is None:
            self._aval = Aval(self._value.shape, dtypes.key_fry)
        return self._aval

    @property
    def dtype(self) -> np.dtype:
        dtype: np.dtype = dtypes.key_fry
        return dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise self._no_number("an array of NumPy's")

    def __bool__(self) -> bool:
        raise self._no_number("a boolean")

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def _scalar(self, wanted: str) -> np.ndarray:
        raise self._no_number("a number")

    def _no_number(self, wanted: str) -> DTypeError:
        return DTypeError(f"{self._describe()} cannot become {wanted}: {dtypes.KEYS_ARE_NO_NUMBERS}")

    def __repr__(self) -> str:
        words = np.ascontiguousarray(self._value)[..., None].view(np.uint32)
        return f"Array({self.shape}, dtype={self.dtype.name}) overlaying:\n{words.reshape(*self.shape, 2)}"

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return (KeyArray, (read_only_view(self._value),))

    def __copy__(self) -> KeyArray:
        return KeyArray(self._value.copy())


def class_for(aval: Aval) -> type[ArrayImpl]:
    """The class of the Arrays of a type."""
    return KeyArray if aval.dtype is dtypes.key_fry else ArrayImpl


def value_of(x: Any) -> np.ndarray:
    """The elements of a concrete array as they are stored: of keys, their words."""
    return x._value if isinstance(x, ArrayImpl) else np.asarray(x)


def read_only_view(value: np.ndarray) -> np.ndarray:
    """The same elements, as an ndarray for others: neither it nor what it is a view of can be opened to writing."""
    # NumPy lets the owner of memory do that, and follows `.base` to it; a read-only memoryview is no such owner.
    plain = plain_dtype(value.dtype)
    if plain is not value.dtype:  # buffers do not know it
        return read_only_view(value.view(plain)).view(value.dtype)
    owner: Any = value  # a buffer, which NumPy's stubs say from 2.5 on only
    return np.asarray(memoryview(owner).toreadonly())


def detached(view: Any) -> Any:
    """A view, or a copy of a small one where it would keep a large array in memory that is more than twice as large."""
    base = view.base
    if type(base) is np.ndarray and base.nbytes > machine_model.HELD_BY_A_VIEW_BYTES:
        if view.nbytes <= machine_model.COPIED_VIEW_BYTES and 2 * view.nbytes < base.nbytes:
            return view.copy(order="C")
    return view


def wrap(value: np.ndarray, aval: Aval) -> ArrayImpl:
    """An Array of an ndarray that nobody else has, of a type that is known."""
    array = _new(KeyArray if aval.dtype is dtypes.key_fry else ArrayImpl)
    value.setflags(False)  # type: ignore[call-arg]  # to be written; NumPy takes it by position
    array._value = value
    array._aval = aval
    array.weak_type = aval.weak_type
    return array


_new = object.__new__


class DonatedArray(ArrayImpl):
    """An Array whose memory a jitted function has taken: it still has a type, but no elements."""

    __slots__ = ()
    shape, dtype, ndim, size = Array.shape, Array.dtype, Array.ndim, Array.size

    @property
    def _value(self) -> np.ndarray:  # type: ignore[override]
        held = _held.__get__(self)
        raise donated_error(held if type(held) is str else "the array")

    def __bool__(self) -> bool:
        return bool(self._value)

    def _scalar(self, wanted: str) -> np.ndarray:
        return self._value

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __repr__(self) -> str:
        return f"<donated Array of type {self.aval.str_short()}>"

    __str__ = __repr__


_held: Any = ArrayImpl.__dict__["_value"]  # the slot


def donated_error(name: str) -> DonatedArrayError:
    """What is raised where the elements of a donated argument of that name are asked for."""
    return DonatedArrayError(
        f"{name} was donated: the call was allowed to reuse its memory, so its elements are gone. Use what the "
        "call returned instead, pass a copy (`x.copy()`) if you need both, or do not donate this argument"
    )


def consume(array: ArrayImpl, name: str) -> None:
    """Take the elements out of an Array; whoever asks for them is told that the argument `name` was donated."""
    array.aval  # noqa: B018  (the type is kept)
    array.__class__ = DonatedArray  # first: other threads, which may look in between, take no name for elements
    _held.__set__(array, name)


def _index_text(index: Any) -> str:
    if isinstance(index, tuple):
        return ", ".join(_index_text(i) for i in index) or "()"
    if isinstance(index, slice):
        parts = ["" if p is None else str(p) for p in (index.start, index.stop)]
        return ":".join(parts) + (f":{index.step}" if index.step is not None else "")
    if index is Ellipsis:
        return "..."
    return str(index) if isinstance(index, (int, type(None))) else "index"
