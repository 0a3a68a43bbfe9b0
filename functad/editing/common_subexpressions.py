"""Common subexpressions: equations that compute the same are computed once. Knows the IR."""

from __future__ import annotations

from typing import Any

import numpy as np

from functad.editing.rewriting import View
from functad.exact import exact_key
from functad.ir import Atom, Eqn, Program, Var, has_effects


def share_common_subexpressions(program: Program) -> Program:
    """Compute equal equations once."""
    view = View(program)
    seen: dict[Any, Eqn] = {}
    for eqn in program.eqns:
        eqn = view.read_all(eqn)
        key = equation_key(eqn)
        earlier = eqn if key is None else seen.setdefault(key, eqn)
        if earlier is eqn or has_effects(eqn):
            view.emit(eqn)
        else:
            view.replace(eqn.outvars, earlier.outvars)
    return view.finish()


def equation_key(eqn: Eqn) -> Any:
    """What is equal for equations that surely compute the same; None where a parameter has no hash."""
    try:
        key = (eqn.primitive, tuple(map(atom_key, eqn.invars)), exact_key(eqn.params))
        hash(key)
    except TypeError:
        return None
    return key


def atom_key(atom: Atom) -> Any:
    """What is equal for atoms that surely have the same value: equal numbers of a dtype are, and NaN equals itself."""
    if isinstance(atom, Var):
        return atom
    return (atom.aval.dtype.str, np.asarray(atom.value).tobytes())  # the bytes tell 0.0 from −0.0
