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
from typing import Any, NamedTuple

import numpy as np

from functad.ir import Atom, Eqn, Literal, Var
from functad.optimize.loops.parts import Scan
from functad.primitives.arithmetic import abs as abs_
from functad.primitives.arithmetic import add, div, mul
from functad.primitives.logic import and_, eq, ge, le, lt, select_n
from functad.primitives.ordering import max as max_

# The largest size of a result, from those of the operands. Where there is no rule, results are measured.
_SIZES: dict[str, Callable[..., Any]] = {
    "add": add,
    "add_any": add,
    "sub": add,
    "mul": mul,
    "neg": lambda x: x,
    "broadcast_in_dim": lambda x: x,
}


class Measured(NamedTuple):
    """A number of a body whose largest size over all steps is asked for, or that of its reciprocal."""

    var: Var
    inverted: bool = False


def to_measure(scan: Scan) -> list[Measured]:
    """What `bound_of_steps` asks for."""
    asked: dict[Measured, Any] = {}
    bound_of_steps(scan, lambda measured: asked.setdefault(measured, _one(scan)))
    return list(asked)


def bound_of_steps(scan: Scan, size_of: Callable[[Measured], Any]) -> Any:
    """How many times larger than what is read, or than 1, a number of two steps can be, in any order of factors."""
    one = _one(scan)
    linear = _linear(scan)
    gives = [*(c.given for c in scan.carries), *(a for a, _ in scan.ys if a in linear)]
    needed = _needed(scan, linear, gives)
    sizes: dict[Var, Any] = {c.read: one for c in scan.carries}

    def size(atom: Atom) -> Any:
        if isinstance(atom, Literal):
            return abs_(atom.value)
        return sizes[atom] if atom in sizes else size_of(Measured(atom))

    def bound(atom: Atom) -> Any:
        return size(atom) if atom in linear else max_(one, size(atom))

    for eqn in scan.eqns:
        name, made = eqn.primitive.name, eqn.outvars[0]
        if made not in linear:
            if made in needed and name in _SIZES:
                sizes[made] = _SIZES[name](*map(size, eqn.invars))
        elif name == "mul":
            sizes[made] = mul(*map(bound, eqn.invars))
        elif name == "div":
            x, by = eqn.invars
            inverse = size_of(Measured(by, True)) if isinstance(by, Var) else abs_(div(one, by.value))
            sizes[made] = mul(bound(x), max_(one, inverse))
        else:  # a sum, or one of several cases
            sizes[made] = reduce(add, map(bound, _read_as_numbers(eqn)))
    of_step = reduce(add, map(bound, gives))
    return mul(of_step, of_step)


def _one(scan: Scan) -> Any:
    return scan.carries[0].read.aval.dtype.type(1)


def _linear(scan: Scan) -> set[Atom]:
    """What depends on the carries."""
    linear: set[Atom] = {c.read for c in scan.carries}
    for eqn in scan.eqns:
        if not linear.isdisjoint(eqn.invars):
            linear.update(eqn.outvars)
    return linear


def _needed(scan: Scan, linear: set[Atom], gives: Iterable[Atom]) -> set[Atom]:
    """What a size is asked for: factors and terms, and what their sizes follow from."""
    needed = set(gives)
    for eqn in reversed(scan.eqns):
        made = eqn.outvars[0]
        if made in linear or (made in needed and eqn.primitive.name in _SIZES):
            needed.update(_read_as_numbers(eqn))
    return needed


def _read_as_numbers(eqn: Eqn) -> Sequence[Atom]:
    """The operands whose sizes count, without the predicate of a choice, and without a divisor."""
    name = eqn.primitive.name
    return eqn.invars[1:] if name == "select_n" else eqn.invars[:1] if name == "div" else eqn.invars


# --- in the loop, and behind it ---------------------------------------------------------------------------


class Watched(NamedTuple):
    """What the loop carries along: the sum of the sizes of all that it read, and the least size of all it gave."""

    total: Any
    least: Any

    @staticmethod
    def start(dtype: np.dtype) -> Watched:
        return Watched(dtype.type(0), np.finfo(dtype).max)

    def after(self, read: Iterable[Any], given: Iterable[tuple[Any, Sequence[Any]]]) -> Watched:
        """After a step. read: sizes. given: what the step gives, and the sizes of what that depends on."""
        least = self.least
        for number, depends_on in given:
            least = _lesser(abs_(number), depends_on, least)
        return Watched(reduce(add, read, self.total), least)

    def safe(self, scan: Scan, bound: Any, starts: Sequence[Any], sums: Sequence[Any]) -> Any:
        """Whether the rewritten loop gave what the loop as it was written gives.

        scan: as it was written. bound: of its steps. starts, sums: of the carries that are only added to.
        """
        info = np.finfo(scan.carries[0].read.aval.dtype)
        steps, operations = scan.length, 4 * (len(scan.eqns) + len(scan.carries) + 4) ** 2
        one = info.dtype.type(1)
        reach = mul(bound, reduce(add, map(abs_, starts), add(one, self.total)))
        lost = info.dtype.type(float(info.smallest_subnormal) / float(info.eps) * steps * operations)
        least = self.least
        for number in sums:
            least = _lesser(abs_(number), [self.total], least)
        return and_(ge(least, mul(reach, lost)), le(reach, info.dtype.type(float(info.max) / (4 * steps))))


def _lesser(size: Any, depends_on: Sequence[Any], least: Any) -> Any:
    """The lesser of two sizes. The first does not count if all that it depends on was 0."""
    counts = select_n(eq(reduce(add, depends_on), size.dtype.type(0)), size, np.finfo(size.dtype).max)
    return select_n(lt(counts, least), least, counts)
