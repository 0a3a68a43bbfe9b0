"""Fusion groups: the parts of a Program that become one kernel or a few, and the domains of loop nests.

Knows shapes and kinds of lowering rules; not how groups are chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from functad import machine_model
from functad.dtypes import is_narrow_float, kind_of
from functad.ir import Eqn, Var
from functad.lowering.fusion.products import Product
from functad.lowering.nests.nest import CarriedAxis
from functad.lowering_rules import Reduction, Running
from functad.records import NamedTuple


@dataclass(eq=False)
class FusionGroup:
    """What becomes one kernel or a few: equations, in program order.

    kind: "nest", "product", "contraction" (a product of a dtype that no matrix library knows), "scatter" (a nest of
        updates), "loops" (kernels of its own), "control" (a loop or branch) or "call" (of a Python function).
    """

    kind: str
    number: int
    members: list[int] = field(default_factory=list)  # positions of the equations
    product: Product | None = None
    shape: tuple[int, ...] = ()  # of a nest: its domain
    axes: tuple[int, ...] = ()  # of a nest: the reduced axes of the domain
    direction: CarriedAxis | None = None  # of a nest: along which values are carried
    # Of a nest: all that it reads lies at its own point, uncut, so that the domain's shape does not matter.
    flat: bool = True
    levels: dict[int, int] = field(default_factory=dict)
    reads: set[Var] = field(default_factory=set)
    spread: frozenset[Var] = frozenset()  # of a nest: the large values from few numbers that it computes on its way
    waits_for: set[int] = field(default_factory=set)  # groups that read what this one will overwrite, or act before it
    before: int = 0  # bit set of the groups that must run before
    weight: int = 0  # of a nest: how many operations it has
    pieces: int = 1  # of a nest: how many pieces its domain falls into, at most
    by_pieces: bool = False  # of a nest: it would read more, or elsewhere, if it were not cut
    across: bool = False  # of a nest: it reads something else than along its rows
    may_cross: bool = False  # of a nest of reductions: they may be gathered in memory, a row's values after another's
    results: int = 0  # of a nest: how many of its values are results of the Program

    @property
    def has_post(self) -> bool:
        """Whether more may be computed from the reduced values: the innermost axis is reduced."""
        kept = [d for d, n in enumerate(self.shape) if n != 1]
        return bool(self.axes) and (not kept or kept[-1] in self.axes)

    @property
    def domain(self) -> Domain:
        """Over which a nest runs."""
        return Domain(self.shape, self.axes, self.direction)

    @property
    def runs_in_vectors(self) -> bool:
        """Of a nest that carries values: whether rows, or columns, fill vectors, and there are parts for threads."""
        assert self.direction is not None
        rows, columns = math.prod(self.shape[: self.direction.axis]), math.prod(self.shape[self.direction.axis + 1 :])
        if columns == 1:
            is_long = self.shape[self.direction.axis] >= machine_model.FLOATS_OF_VECTOR
            return is_long and rows >= machine_model.CARRIED_PARTS
        wide = columns > (machine_model.CARRIED_COLUMN_PARTS - 1) * machine_model.COLUMNS_TOGETHER
        has_parts = rows >= machine_model.FEW_ROWS or wide
        return columns >= machine_model.CARRIED_COLUMNS and has_parts

    @property
    def points(self) -> int:
        return math.prod(self.shape)

    @property
    def outer_shape(self) -> tuple[int, ...]:
        """The shape of what is reduced."""
        return tuple(n for d, n in enumerate(self.shape) if d not in self.axes)

    @property
    def outer_points(self) -> int:
        return math.prod(self.outer_shape)


class Domain(NamedTuple):
    """The shape over which an equation of a nest runs, the axes that it reduces, and along which it carries values."""

    shape: tuple[int, ...]
    axes: tuple[int, ...] = ()
    direction: CarriedAxis | None = None


def domain_of(eqn: Eqn) -> Domain:
    rule = eqn.primitive.lower
    if isinstance(rule, Reduction):
        return Domain(eqn.invars[0].aval.shape, rule.axes(eqn))
    if isinstance(rule, Running):
        return Domain(eqn.outvars[0].aval.shape, (), CarriedAxis(*rule.direction(eqn)))
    return Domain(eqn.outvars[0].aval.shape)


def domains_fit(one: FusionGroup, two: FusionGroup) -> bool:
    """Whether two nests of equal size can have one domain."""
    if one.direction and two.direction:
        return one.shape == two.shape and one.direction == two.direction
    if one.direction or two.direction:
        if one.axes or two.axes:
            return False
    if one.axes and two.axes:
        return one.shape == two.shape and set(one.axes) == set(two.axes)
    if any(g.axes and not g.has_post for g in (one, two)):
        return False  # sums over leading axes run by columns, what is stored element by element runs by rows
    return one.flat or two.flat or _squeezed(one.shape) == _squeezed(two.shape)


def gathers_in_memory(eqn: Eqn) -> bool:
    """Whether an equation is a reduction whose values can be gathered in memory, in parts and in any order."""
    rule, dtype = eqn.primitive.lower, eqn.outvars[0].aval.dtype
    if not isinstance(rule, Reduction) or is_narrow_float(dtype):
        return False
    return rule.kind != "prod" or kind_of(dtype) in "iub"


def may_cross(one: FusionGroup, two: FusionGroup) -> bool:
    """Whether one nest can reduce the rows of a large array and its columns: the last axes, and all before them."""
    rows, columns = (one, two) if one.has_post else (two, one)
    if not rows.axes or not columns.axes or rows.shape != columns.shape or not columns.may_cross:
        return False
    if rows.across or columns.across or rows.direction or columns.direction:
        return False
    first = len(rows.shape) - len(rows.axes)
    if {*rows.axes} != {*range(first, len(rows.shape))} or {*columns.axes} != {*range(first)}:
        return False
    height, width = math.prod(rows.shape[:first]), math.prod(rows.shape[first:])
    fits = machine_model.FEWEST_CROSSED <= width <= machine_model.LONGEST_SUM
    return fits and height >= machine_model.FEWEST_CROSSED and height * width >= machine_model.SMALLEST_CROSSED


def _squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)
