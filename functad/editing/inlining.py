"""Calls replaced by what they call, also within loops and branches.

Knows which primitives call a Program, and the parameters of `scan`, `while` and `cond`. After `inline_calls` no pass
meets a call, at any depth, and the Programs of loops and branches have no constants: those are operands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from functad.ir import Atom, Eqn, Program, Var, memoised, subprograms
from functad.primitives.barrier import optimization_barrier_p

# Primitives that call a Program, and the parameter that holds it.
CALLS = {
    "jit": "jaxpr",
    "closed_call": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "remat2": "jaxpr",
}


def inline_calls(program: Program, kept: Collection[str] = ()) -> Program:
    """Replace every call by the equations of the Program that is called; derivative rules have done their work.

    What is to be computed a second time gets its operands through a barrier. kept: the primitives whose calls stay.
    """
    return memoised(program, ("inlined", tuple(kept)), lambda: _inlined(program, kept))


def _inlined(program: Program, kept: Collection[str]) -> Program:
    if not any(any(subprograms(e.params)) for e in program.eqns):
        return program
    known: dict[Var, Atom] = {}
    eqns: list[Eqn] = []
    constvars, consts = list(program.constvars), list(program.consts)

    def read(atom: Atom) -> Atom:
        return known.get(atom, atom) if isinstance(atom, Var) else atom

    def as_operands(inner: Program) -> list[Var]:
        """The constants of an inner Program as constants of this one."""
        fresh = [Var(v.aval) for v in inner.constvars]
        constvars.extend(fresh)
        consts.extend(inner.consts)
        return fresh

    for eqn in program.eqns:
        eqn = eqn.replace(invars=[read(a) for a in eqn.invars])
        name = eqn.primitive.name
        if name in _CLOSED:
            eqns.append(_CLOSED[name](eqn, lambda p: inline_calls(p, kept), as_operands))
            continue
        if name not in CALLS or name in kept:
            eqns.append(eqn)
            continue
        inner = inline_calls(eqn.params[CALLS[name]], kept)
        if name == "remat2" and eqn.params["differentiated"] and eqn.params["prevent_cse"]:
            barrier, eqn = _behind_barrier(eqn)
            eqns.append(barrier)
        names: dict[Var, Atom] = dict(zip(inner.invars, eqn.invars))
        names.update(zip(inner.constvars, as_operands(inner)))
        for e in inner.eqns:
            made = [Var(v.aval) for v in e.outvars]
            invars = [names[a] if isinstance(a, Var) else a for a in e.invars]
            eqns.append(e.replace(invars=invars, outvars=made))
            names.update(zip(e.outvars, made))
        for var, atom in zip(eqn.outvars, inner.outvars):
            known[var] = names[atom] if isinstance(atom, Var) else atom
    outvars = [read(a) for a in program.outvars]
    return program.replace(eqns=eqns, outvars=outvars, constvars=constvars, consts=consts)


def _behind_barrier(eqn: Eqn) -> tuple[Eqn, Eqn]:
    """A barrier for the operands of an equation, and the equation with the barrier's results as operands.

    The cotangents are among them, so nothing is computed again before they are there; and nothing that was computed
    from the operands before is found to be the same.
    """
    passed = {a: Var(a.aval) for a in eqn.invars if isinstance(a, Var)}
    barrier = eqn.replace(primitive=optimization_barrier_p, invars=list(passed), params={}, outvars=passed.values())
    return barrier, eqn.replace(invars=[passed[a] if isinstance(a, Var) else a for a in eqn.invars])


# --- loops and branches -------------------------------------------------------------------------------------

Inline = Callable[[Program], Program]
AsOperands = Callable[[Program], Sequence[Var]]


def _scan(eqn: Eqn, inline: Inline, as_operands: AsOperands) -> Eqn:
    body = inline(eqn.params["jaxpr"])
    params = {**eqn.params, "jaxpr": _closed(body), "num_consts": eqn.params["num_consts"] + len(body.consts)}
    return eqn.replace(invars=[*as_operands(body), *eqn.invars], params=params)


def _while(eqn: Eqn, inline: Inline, as_operands: AsOperands) -> Eqn:
    cond, body = inline(eqn.params["cond_jaxpr"]), inline(eqn.params["body_jaxpr"])
    n = eqn.params["cond_nconsts"]
    params = {
        "cond_jaxpr": _closed(cond),
        "cond_nconsts": n + len(cond.consts),
        "body_jaxpr": _closed(body),
        "body_nconsts": eqn.params["body_nconsts"] + len(body.consts),
    }
    operands = [*as_operands(cond), *eqn.invars[:n], *as_operands(body), *eqn.invars[n:]]
    return eqn.replace(invars=operands, params={**eqn.params, **params})


def _cond(eqn: Eqn, inline: Inline, as_operands: AsOperands) -> Eqn:
    """Every branch takes the constants of all."""
    branches = [inline(b) for b in eqn.params["branches"]]
    index, *operands = eqn.invars
    more = [v for b in branches for v in as_operands(b)]
    closed = []
    for k, branch in enumerate(branches):
        before = [Var(v.aval) for b in branches[:k] for v in b.constvars]
        after = [Var(v.aval) for b in branches[k + 1 :] for v in b.constvars]
        invars = [*before, *branch.constvars, *after, *branch.invars]
        closed.append(branch.replace(invars=invars, constvars=(), consts=()) if more else branch)
    return eqn.replace(invars=[index, *more, *operands], params={**eqn.params, "branches": tuple(closed)})


_CLOSED: dict[str, Callable[[Eqn, Inline, AsOperands], Eqn]] = {"scan": _scan, "while": _while, "cond": _cond}


def _closed(program: Program) -> Program:
    return memoised(program, ("closed",), program.close) if program.consts else program
