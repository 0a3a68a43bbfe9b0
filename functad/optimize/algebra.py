"""Rules for arithmetic: what has no effect on a number, and what is known already; `rules` says why each is exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functad.dtypes import finfo, kind_of
from functad.editing.rewriting import View
from functad.evaluation import implementation
from functad.ir import Atom, Eqn, Literal, Primitive, subprograms
from functad.lowering_rules import Reduction, Scalar
from functad.optimize.broadcasts import repeated_literal
from functad.primitives.arithmetic import add_p, div_p, mul_p, neg_p, sub_p
from functad.primitives.logic import and_p


def folded_constants(eqn: Eqn, view: View) -> Atom | None:
    """The number that an equation of numbers gives."""
    foldable = (
        eqn.invars
        and all(isinstance(a, Literal) for a in eqn.invars)
        and all(v.aval.shape == () for v in eqn.outvars)
        and not eqn.primitive.multiple_results
        and not any(subprograms(eqn.params))
    )
    if not foldable:
        return None
    with np.errstate(all="ignore"):
        run = implementation(eqn.primitive, [a.aval.dtype for a in eqn.invars])
        value = run(*[a.value for a in eqn.invars if isinstance(a, Literal)], **eqn.params)
    return Literal(np.asarray(value)[()], eqn.outvars[0].aval)


def beside_identity(eqn: Eqn, view: View) -> Atom | None:
    """The operand beside a number that changes nothing. Complex products by 1 change infinities."""
    number_of, sides = NEUTRAL[eqn.primitive]
    dtype = eqn.outvars[0].aval.dtype
    for side in sides if kind_of(dtype) != "c" else ():
        atom = eqn.invars[side]
        if (
            isinstance(atom, Literal)
            and np.asarray(atom.value).tobytes() == np.asarray(number_of(dtype.type)).tobytes()
        ):
            return eqn.invars[1 - side]
    return None


def over_power_of_two(eqn: Eqn, view: View) -> Eqn | None:
    """A product, which takes less time than a quotient."""
    x, y = eqn.invars
    if not isinstance(y, Literal) or kind_of(y.aval.dtype) != "f":
        return None
    fraction, exponent = math.frexp(y.value)
    limits = finfo(y.aval.dtype)
    if abs(fraction) != 0.5 or not limits.minexp < exponent < limits.maxexp:
        return None
    return eqn.replace(primitive=mul_p, invars=(x, Literal(y.aval.dtype.type(1 / y.value), y.aval)))


def plus_zero_cotangent(eqn: Eqn, view: View) -> Atom | None:
    x, y = eqn.invars
    return y if is_any_zeros(x, view) else x if is_any_zeros(y, view) else None


def negated_twice(eqn: Eqn, view: View) -> Atom | None:
    inner = view.definition(eqn.invars[0], neg_p)
    return inner.invars[0] if inner else None


def known_case(eqn: Eqn, view: View) -> Atom | None:
    """The case that is chosen, or the only one."""
    which, *cases = eqn.invars
    if all(case is cases[0] for case in cases):
        return cases[0]
    return cases[min(max(int(which.value), 0), len(cases) - 1)] if isinstance(which, Literal) else None


def same_value(eqn: Eqn, view: View) -> Atom | None:
    """The operand of what is computed by giving it back, such as a reduction of no axes."""
    rule = eqn.primitive.lower
    gives_back = isinstance(rule, Scalar) and rule.expression == "{0}"
    return eqn.invars[0] if gives_back or (isinstance(rule, Reduction) and not rule.axes(eqn)) else None


def unconverted(eqn: Eqn, view: View) -> Atom | None:
    """The operand of a conversion to its own dtype."""
    return eqn.invars[0] if eqn.invars[0].aval.dtype == eqn.params["new_dtype"] else None


def is_zeros(atom: Atom, view: View) -> bool:
    """Whether an atom is an array of zeros, none of them negative."""
    number = repeated_literal(atom, view)
    return number is not None and not any(np.asarray(number.value).tobytes())


def is_any_zeros(atom: Atom, view: View) -> bool:
    """Whether an atom is a float 0, of any sign, or an array of such."""
    number = atom if isinstance(atom, Literal) else repeated_literal(atom, view)
    return isinstance(number, Literal) and kind_of(number.aval.dtype) == "f" and bool(number.value == 0)


NEUTRAL: dict[Primitive, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    add_p: (lambda of: of(-0.0), (0, 1)),  # x + (+0) is not x for x = −0
    sub_p: (lambda of: of(0), (1,)),
    mul_p: (lambda of: of(1), (0, 1)),
    div_p: (lambda of: of(1), (1,)),
    and_p: (lambda of: ~of(0), (0, 1)),
}
"""The number, made by a dtype, that changes nothing as an operand of an operation, on these sides of it."""
