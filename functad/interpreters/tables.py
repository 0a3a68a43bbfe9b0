"""Tables of rules by primitive: those of functad's own primitives are read from their records.

Knows how a table looks; what a rule means, its readers say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from functad.all_primitives import registry
from functad.extend.primitive import OpenPrimitive, own
from functad.ir import Absent, Primitive


class RuleTable(Mapping[Primitive, Callable[..., Any]]):
    """A rule a primitive, in JAX's convention.

    what: what the rules are, for errors. field: that of the record. given: makes of a record's rule one in JAX's
    convention. taken: makes of a registered rule that of the record.
    """

    def __init__(
        self,
        what: str,
        field: str,
        given: Callable[[Primitive, Any], Callable[..., Any]],
        taken: Callable[[OpenPrimitive, Callable[..., Any]], Any],
    ) -> None:
        self._what, self._field, self._given, self._taken = what, field, given, taken
        self._registered: dict[Primitive, Callable[..., Any]] = {}

    def __setitem__(self, primitive: Primitive, rule: Callable[..., Any]) -> None:
        taker = own(primitive, self._what)
        setattr(taker, self._field, self._taken(taker, rule))
        self._registered[primitive] = rule

    def __getitem__(self, primitive: Primitive) -> Callable[..., Any]:
        if primitive in self._registered:
            return self._registered[primitive]
        rule = getattr(primitive, self._field)
        if primitive.is_open or isinstance(rule, Absent):
            raise KeyError(primitive)
        return self._given(primitive, rule)

    def __iter__(self) -> Iterator[Primitive]:
        yield from (p for p in registry.values() if not isinstance(getattr(p, self._field), Absent))
        yield from self._registered

    def __len__(self) -> int:
        return sum(1 for _ in self)
