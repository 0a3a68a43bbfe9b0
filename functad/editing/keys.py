"""Programs without random keys: each key is its word of 64 bits, as values are stored and kernels compute.

Knows the records' rule `OnWords` only: all else that takes keys moves them, and moves words alike.
"""

from __future__ import annotations

from functad.array import value_of
from functad.dtypes import key_fry, stored_as
from functad.editing.splicing import splice
from functad.editing.substitution import Substitution
from functad.ir import Aval, Eqn, Program, Var, memoised, subprograms, with_subprograms
from functad.lowering_rules import OnWords


def without_keys(program: Program) -> Program:
    """The same Program on words; the same object where there are no keys."""
    return memoised(program, ("without keys",), lambda: _on_words(program) if has_keys(program) else program)


def has_keys(program: Program) -> bool:
    """Whether a variable of a Program, or of one within, holds keys."""
    return memoised(program, ("has keys",), lambda: _has_keys(program))


def _has_keys(program: Program) -> bool:
    variables = (*program.invars, *program.constvars, *(v for e in program.eqns for v in e.outvars))
    if any(v.aval.dtype is key_fry for v in variables):
        return True
    return any(has_keys(p) for e in program.eqns for p in subprograms(e.params))


def _on_words(program: Program) -> Program:
    words = Substitution()

    def define(var: Var) -> Var:
        if var.aval.dtype is not key_fry:
            return var
        words[var] = word = Var(_stored(var.aval))
        return word

    invars = [define(v) for v in program.invars]
    constvars = [define(v) for v in program.constvars]
    consts = [c if v.aval.dtype is not key_fry else value_of(c) for v, c in zip(program.constvars, program.consts)]
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        eqn = words.within_one(eqn)
        rule = eqn.primitive.lower
        if isinstance(rule, OnWords):
            made, results = splice(lambda *args, r=rule, e=eqn: r.function(*args, **e.params), eqn.invars, eqn)
            eqns += made
            words.update(zip(eqn.outvars, results))
        else:
            params = with_subprograms(eqn.params, without_keys)
            eqns.append(eqn.replace(params=params, outvars=[define(v) for v in eqn.outvars]))
    outvars = words.read_all(program.outvars)
    return program.replace(invars=invars, constvars=constvars, consts=consts, eqns=eqns, outvars=outvars)


def _stored(aval: Aval) -> Aval:
    return Aval(aval.shape, stored_as(aval.dtype), aval.weak_type)
