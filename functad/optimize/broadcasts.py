"""Rules for arrays that repeat a number: element-wise operations take the number, and compute with numbers first."""

from __future__ import annotations

from collections.abc import Sequence

from functad.editing.rewriting import View
from functad.errors import FunctadError
from functad.ir import Atom, Aval, Eqn, Literal, Var
from functad.lowering_rules import Scalar
from functad.primitives.common import add_any_p, broadcast_in_dim_p


def broadcast_of_repeated(eqn: Eqn, view: View) -> Eqn | None:
    number = repeated(eqn.invars[0], view)
    return None if number is None else repeats(number, eqn)


def reshaped_repeated(eqn: Eqn, view: View) -> Atom | Eqn | None:
    """The number itself for an array of no axes, or it repeated in the other shape."""
    number, out = repeated(eqn.invars[0], view), eqn.outvars[0].aval
    if number is None or out.shape:
        return None if number is None else repeats(number, eqn)
    return number if number.aval.weak_type == out.weak_type else None


def scalars_for_repeated(eqn: Eqn, view: View) -> Eqn | list[Eqn] | None:
    """An element-wise equation of numbers as far as it can have them."""
    if not isinstance(eqn.primitive.lower, Scalar) or eqn.primitive.is_open:
        return None
    numbers = [repeated(a, view) for a in eqn.invars]
    if all(n is None for n in numbers):
        return None
    operands = [a if n is None else n for a, n in zip(eqn.invars, numbers)]
    types = _types(eqn, operands)
    if types is None or len(types) != len(eqn.outvars):
        return None
    if types[0].shape == eqn.outvars[0].aval.shape and eqn.primitive is not add_any_p:  # which takes equal shapes
        return eqn.replace(invars=operands)
    if any(a.aval.shape for a in operands) or len(eqn.outvars) > 1:
        return None
    small = Var(types[0])
    return [eqn.replace(invars=operands, outvars=[small]), repeats(small, eqn)]


def repeats(number: Atom, eqn: Eqn) -> Eqn:
    """An equation that repeats a number in the result of another, which it stands for."""
    params = {"shape": eqn.outvars[0].aval.shape, "broadcast_dimensions": ()}
    return eqn.replace(primitive=broadcast_in_dim_p, invars=[number], params=params)


def repeated(atom: Atom, view: View) -> Atom | None:
    """The number, a variable or a literal, that an array repeats."""
    eqn = view.definition(atom, broadcast_in_dim_p) if atom.aval.shape else None
    return eqn.invars[0] if eqn is not None and eqn.invars[0].aval.shape == () else None


def repeated_literal(atom: Atom, view: View) -> Literal | None:
    """The number that an array repeats, if it is known."""
    number = repeated(atom, view)
    return number if isinstance(number, Literal) else None


def _types(eqn: Eqn, operands: Sequence[Atom]) -> list[Aval] | None:
    try:
        types = eqn.primitive.abstract_eval(*[a.aval for a in operands], **eqn.params)
    except FunctadError:
        return None
    return list(types) if eqn.primitive.multiple_results else [types]
