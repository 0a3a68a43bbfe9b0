"""Frozen dataclasses whose methods are written once, here, and not anew for each of them; and named tuples.

Knows nothing of what they hold. Writing methods is most of what a dataclass costs, and compiling a constructor most of
what a named tuple does; a program waits for all of them when it starts.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, fields
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**options: Any) -> Callable[[type], type]:
        return lambda cls: cls

    class _Fields(type):
        """Makes a named tuple of the body of a class, whose types stay the text that they are."""

        def __new__(cls, name, bases, body):
            types = body.pop("__annotations__")
            defaults = {field: body.pop(field) for field in types if field in body}
            alike = _named_tuple(len(types))
            shared = {key: vars(alike)[key] for key in ("_make", "_asdict", "__getnewargs__")}
            fields = {field: vars(alike)[place] for field, place in zip(types, alike._fields)}
            about = {"_fields": tuple(types), "__match_args__": tuple(types), "_field_defaults": defaults}
            new = _constructor(f"{name}.__new__", alike, types, defaults)
            methods = {"__new__": new, "_replace": _replace, "__replace__": _replace, "__repr__": _shown}
            description = {"__doc__": f"{name}({', '.join(types)})", "__annotations__": types, "__slots__": ()}
            return type(name, (tuple,), {**shared, **fields, **about, **methods, **description, **body})

    @cache
    def _named_tuple(count):
        """A named tuple of so many fields, whose parts that know no names serve all of that length."""
        return namedtuple("Alike", [f"field{i}" for i in range(count)])  # noqa: PYI024

    def _constructor(name, alike, types, defaults):
        """That of another named tuple, for these names of fields: compiling takes most of the time of making one."""
        code = alike.__new__.__code__.replace(co_varnames=("_cls", *types))
        new = FunctionType(code, alike.__new__.__globals__, "__new__", tuple(defaults.values()))
        new.__qualname__, new.__annotations__ = name, types
        return new

    def _replace(self, /, **changes):
        """A new one with other values in some fields."""
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            raise ValueError(f"{type(self).__name__} has the fields {self._fields}, none named {sorted(changes)}")
        return made

    def _shown(self):
        fields = ", ".join([f"{field}={value!r}" for field, value in zip(self._fields, self)])
        return f"{type(self).__name__}({fields})"

    NamedTuple = type.__new__(_Fields, "NamedTuple", (), {})
    """As `typing.NamedTuple`, in less time, for files that begin with `from __future__ import annotations`."""


@dataclass_transform(frozen_default=True)
class Record:
    """A frozen dataclass: `class Point(Record)` with annotated fields; `dataclasses.fields` and `replace` take it.

    Records are equal if their classes and fields are, but for those with `compare=False`; with `eq=False` in the head
    of the class, each is equal to itself alone. With `kw_only=True` type checkers want all fields by name.

    >>> from functad.records import Record
    >>> class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> Point(1) == Point(x=1, y=0), Point(2, 3)
    (True, Point(x=2, y=3))
    """

    by_value: ClassVar[bool] = True
    _names: ClassVar[tuple[str, ...]]
    _allowed: ClassVar[frozenset[str]]
    _required: ClassVar[frozenset[str]]
    _defaults: ClassVar[dict[str, Any]]
    _compared: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, *, eq: bool = True, kw_only: bool = False) -> None:
        dataclass(init=False, repr=False, eq=False)(cls)
        known = fields(cls)  # type: ignore[arg-type]
        cls._names = tuple(f.name for f in known)
        cls._allowed = frozenset(cls._names)
        cls._required = frozenset(f.name for f in known if f.default is MISSING)
        cls._defaults = {f.name: f.default for f in known if f.default is not MISSING}
        cls._compared = tuple(f.name for f in known if f.compare)
        if not eq:
            cls.by_value = False
            cls.__eq__ = object.__eq__  # type: ignore[method-assign]
            cls.__hash__ = object.__hash__  # type: ignore[method-assign]

    def __init__(self, *args: Any, **values: Any) -> None:
        if args:
            given = self._names[: len(args)]
            if len(args) > len(given) or not values.keys().isdisjoint(given):
                raise TypeError(f"{type(self).__name__} has the fields {self._names}, each of which is given once")
            values |= zip(given, args)
        if not self._required <= values.keys() <= self._allowed:
            wrong = sorted(self._required - values.keys()), sorted(values.keys() - self._allowed)
            raise TypeError(f"{type(self).__name__}: missing {wrong[0]}, unknown {wrong[1]}")
        # Its own, not those of the class: a function there would be a method.
        self.__dict__.update(self._defaults)
        self.__dict__.update(values)
        self.__post_init__()

    def __post_init__(self) -> None:
        """What is to be done with a new one."""

    def __repr__(self) -> str:
        shown = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr]  # type: ignore[arg-type]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self._compared])

    if not TYPE_CHECKING:  # who find out by themselves, and would let no subclass do otherwise

        def __setattr__(self, name, value):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name):
            raise FrozenInstanceError(f"cannot delete field {name!r}")
