"""Rules for arithmetic: what has no effect on a number, and what is known already; `rules` says why each is exact."""

from __future__ import annotations

import math

import numpy as np

from functad.editing.rewriting import View
from functad.ir import Atom, Eqn, Literal, subprograms
from functad.primitives.arithmetic import mul_p, neg_p
from functad.primitives.common import broadcast_in_dim_p


def fold(eqn: Eqn, view: View) -> Atom | None:
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
        value = eqn.primitive.impl(*[a.value for a in eqn.invars if isinstance(a, Literal)], **eqn.params)
    return Literal(np.asarray(value)[()], eqn.outvars[0].aval)


def times_one(eqn: Eqn, view: View) -> Atom | None:
    x, y = eqn.invars
    return y if _is_literal(x, 1) else x if _is_literal(y, 1) else None


def over_one(eqn: Eqn, view: View) -> Atom | None:
    x, y = eqn.invars
    return x if _is_literal(y, 1) else None


def over_power_of_two(eqn: Eqn, view: View) -> Eqn | None:
    """A product, which takes less time than a quotient."""
    x, y = eqn.invars
    if not isinstance(y, Literal) or y.aval.dtype.kind != "f":
        return None
    fraction, exponent = math.frexp(y.value)
    limits = np.finfo(y.aval.dtype)
    if abs(fraction) != 0.5 or not limits.minexp < exponent < limits.maxexp:
        return None
    return eqn.replace(primitive=mul_p, invars=(x, Literal(y.aval.dtype.type(1 / y.value), y.aval)))


def minus_zero(eqn: Eqn, view: View) -> Atom | None:
    return eqn.invars[0] if _is_literal(eqn.invars[1], 0.0) else None


def plus_zero(eqn: Eqn, view: View) -> Atom | None:
    x, y = eqn.invars
    zero = -0.0 if eqn.outvars[0].aval.dtype.kind in "fc" else 0
    return y if _is_literal(x, zero) else x if _is_literal(y, zero) else None


def plus_zero_cotangent(eqn: Eqn, view: View) -> Atom | None:
    x, y = eqn.invars
    return y if _is_any_zeros(x, view) else x if _is_any_zeros(y, view) else plus_zero(eqn, view)


def negated_twice(eqn: Eqn, view: View) -> Atom | None:
    inner = view.definition(eqn.invars[0], neg_p)
    return inner.invars[0] if inner else None


def and_true(eqn: Eqn, view: View) -> Atom | None:
    x, y = eqn.invars
    if eqn.outvars[0].aval.dtype != bool:
        return None
    return y if _is_literal(x, True) else x if _is_literal(y, True) else None


def known_case(eqn: Eqn, view: View) -> Atom | None:
    which, *cases = eqn.invars
    return cases[min(max(int(which.value), 0), len(cases) - 1)] if isinstance(which, Literal) else None


def same_dtype(eqn: Eqn, view: View) -> Atom | None:
    return eqn.invars[0] if eqn.invars[0].aval.dtype == eqn.params["new_dtype"] else None


def operand(eqn: Eqn, view: View) -> Atom:
    return eqn.invars[0]


def repeated_number(atom: Atom, view: View) -> Literal | None:
    """The number that an array repeats, if it is known."""
    eqn = view.definition(atom, broadcast_in_dim_p)
    return eqn.invars[0] if eqn is not None and isinstance(eqn.invars[0], Literal) else None


def is_zeros(atom: Atom, view: View) -> bool:
    """Whether an atom is an array of zeros, none of them negative."""
    number = repeated_number(atom, view)
    return number is not None and bool(number.value == 0) and str(number.value)[0] != "-"


def _is_any_zeros(atom: Atom, view: View) -> bool:
    number = atom if isinstance(atom, Literal) else repeated_number(atom, view)
    return isinstance(number, Literal) and number.aval.dtype.kind == "f" and bool(number.value == 0)


def _is_literal(atom: Atom, value: float) -> bool:
    if not isinstance(atom, Literal) or atom.aval.dtype.kind == "c" or atom.value != value:
        return False  # complex products and quotients by 1 are not the identity for infinities
    return value != 0 or math.copysign(1.0, atom.value) == math.copysign(1.0, value)
