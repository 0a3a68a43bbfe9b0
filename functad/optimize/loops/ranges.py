"""Whether two ways to run a linear loop differ by rounding alone: nothing leaves the range of the dtype in either.

Knows the parts of a `scan` of numbers, and which primitives are linear; nothing of how the loop is rewritten.

Both ways add the same products, of the same factors, of what a step reads, in another order. Let `reach` be more than
any number of them can be: the factors' largest sizes over all steps, of which each counts as 1 at least, multiplied and
added as the body does it, for two steps, times the sizes of all that the loop carried. Then

- nothing overflows, and nothing is infinite or NaN, if `reach` times the number of steps is no overflow;
- what underflows is wrong by less than the smallest number there is, times factors: less than `reach` in all. So it is
  lost among the roundings of all results that are larger than these errors by the precision of the dtype.

So nothing is compared with limits before the loop or in it. The loop adds up the sizes of what it reads, and finds the
least size of what it gives; both wait for nobody. A result of 0 may be an underflow, so it is no proof, unless all that
it depends on was 0: then both ways do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from functad.dtypes import finfo
from functad.ir import Atom, Primitive, definitions
from functad.optimize.loops.parts import Scan
from functad.primitives.arithmetic import abs as abs_
from functad.primitives.arithmetic import add, add_p, div_p, mul, mul_p, neg_p, sub_p
from functad.primitives.common import add_any_p, broadcast_in_dim_p
from functad.primitives.logic import and_, eq, ge, le, lt, select_n, select_n_p
from functad.primitives.ordering import max as max_
from functad.records import NamedTuple

# The largest size of a result, from those of the operands. Where there is no rule, results are measured.
_SIZES: dict[Primitive, Callable[..., Any]] = {
    add_p: add,
    add_any_p: add,
    sub_p: add,
    mul_p: mul,
    neg_p: lambda x: x,
    broadcast_in_dim_p: lambda x: x,
}


class Measured(NamedTuple):
    """A number of a body that does not depend on carries: its largest size is asked for, or that of its reciprocal."""

    atom: Atom
    inverted: bool = False


def to_measure(scan: Scan) -> list[Measured]:
    """What `bound_of_step` asks for."""
    asked: dict[Measured, Any] = {}
    bound_of_step(scan, lambda measured: asked.setdefault(measured, _one(scan)))
    return list(asked)


def bound_of_step(scan: Scan, size: Callable[[Measured], Any]) -> Any:
    """How many times larger than what is read, or than 1, a number of a step can be, in any order of factors."""
    one = _one(scan)
    bounds: dict[Atom, Any] = {c.read: one for c in scan.carries}  # of what depends on them
    defined = definitions(scan.body())
    sizes: dict[Atom, Any] = {}

    def largest(atom: Atom) -> Any:
        """The largest size, from those of operands where that is simple."""
        eqn = defined.get(atom)
        if eqn is None or eqn.primitive not in _SIZES:
            return size(Measured(atom))
        if atom not in sizes:
            sizes[atom] = _SIZES[eqn.primitive](*map(largest, eqn.invars))
        return sizes[atom]

    def bound(atom: Atom, inverted: bool = False) -> Any:
        return bounds[atom] if atom in bounds else max_(one, size(Measured(atom, True)) if inverted else largest(atom))

    for eqn in scan.eqns:
        if bounds.keys().isdisjoint(eqn.invars):
            continue
        first, *others = eqn.invars
        if eqn.primitive in (mul_p, div_p):
            bounds[eqn.outvars[0]] = mul(bound(first), bound(others[0], eqn.primitive is div_p))
        else:  # a sum, or one of several cases
            bounds[eqn.outvars[0]] = reduce(add, map(bound, others if eqn.primitive is select_n_p else eqn.invars))
    return reduce(add, [*(bound(c.given) for c in scan.carries), *(bounds[a] for a, _ in scan.ys if a in bounds)])


def _one(scan: Scan) -> Any:
    return scan.carries[0].read.aval.dtype.type(1)


class Watched(NamedTuple):
    """What the loop carries along: the sum of the sizes of all that it read, and the least size of all it gave."""

    total: Any
    least: Any

    @staticmethod
    def start(dtype: np.dtype) -> Watched:
        return Watched(dtype.type(0), finfo(dtype).max)

    def after(self, read: Iterable[Any], given: Iterable[tuple[Any, Sequence[Any]]]) -> Watched:
        """After a step. read: sizes. given: what the step gives, and the sizes of what that depends on.

        Sizes of one step are added, and compared, with each other first: what waits for the step before is one of each.
        """
        sizes = [_counting(abs_(number), depends_on) for number, depends_on in given]
        least = _lesser(reduce(_lesser, sizes), self.least) if sizes else self.least
        return Watched(add(self.total, reduce(add, read)), least)

    def safe(self, scan: Scan, bound: Any, starts: Sequence[Any], sums: Sequence[Any]) -> Any:
        """Whether the rewritten loop gave what the loop as it was written gives.

        scan: as it was written. bound: of its steps. starts, sums: of the carries that are only added to.
        """
        info = finfo(self.total.dtype)
        steps, operations = scan.length, 4 * (len(scan.eqns) + len(scan.carries) + 4) ** 2
        one = info.dtype.type(1)
        reach = mul(mul(bound, bound), reduce(add, map(abs_, starts), add(one, self.total)))
        lost = info.dtype.type(float(info.smallest_subnormal) / float(info.eps) * steps * operations)
        least = self.least
        for number in sums:
            least = _lesser(_counting(abs_(number), [self.total]), least)
        return and_(ge(least, mul(reach, lost)), le(reach, info.dtype.type(float(info.max) / (4 * steps))))


def _counting(size: Any, depends_on: Sequence[Any]) -> Any:
    """The size of a number, or the largest of all, which does not count, if all that it depends on was 0."""
    return select_n(eq(reduce(add, depends_on), size.dtype.type(0)), size, finfo(size.dtype).max)


def _lesser(size: Any, least: Any) -> Any:
    return select_n(lt(size, least), least, size)
