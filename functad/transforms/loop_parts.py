"""Loops and branches taken apart and put together again, and without what nobody uses.

Knows the parameters of `scan`, `while` and `cond` equations; the primitives themselves lie in a layer above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from functad.ir import UNKNOWN, Atom, Eqn, Program, Var, has_effects, subprograms
from functad.tracing import trace_to_program


@dataclass
class Carry:
    """A value that a scan carries along: where it starts, what the body reads and gives, and the result."""

    init: Atom
    read: Var
    given: Atom
    result: Var


@dataclass
class Scan:
    """A `scan` equation taken apart. Passes change the lists; `eqn()` puts it together.

    consts, xs: pairs (operand, variable of the body). ys: pairs (what the body gives, result).
    """

    origin: Eqn
    consts: list[tuple[Atom, Var]]
    carries: list[Carry]
    xs: list[tuple[Atom, Var]]
    ys: list[tuple[Atom, Var]]
    eqns: list[Eqn]
    changed: bool = field(default=False)

    @property
    def length(self) -> int:
        length: int = self.origin.params["length"]
        return length

    @property
    def name(self) -> str:
        name: str = self.origin.params["jaxpr"].name
        return name

    def body(self) -> Program:
        reads = [*(v for _, v in self.consts), *(c.read for c in self.carries), *(v for _, v in self.xs)]
        gives = [*(c.given for c in self.carries), *(a for a, _ in self.ys)]
        return Program(reads, (), (), self.eqns, gives, self.name)

    def eqn(self, body: Program | None = None) -> Eqn:
        """The equation; with `body`, which has the same inputs and outputs, instead of the own one."""
        params = {
            **self.origin.params,
            "jaxpr": body or self.body(),
            "num_consts": len(self.consts),
            "num_carry": len(self.carries),
        }
        operands = [*(a for a, _ in self.consts), *(c.init for c in self.carries), *(a for a, _ in self.xs)]
        results = [*(c.result for c in self.carries), *(v for _, v in self.ys)]
        return self.origin.replace(invars=operands, outvars=results, params=params)

    def uses_in_body(self) -> dict[Var, int]:
        """How often each variable of the body is read, by its equations and as what it gives."""
        uses: dict[Var, int] = {}
        atoms = [a for e in self.eqns for a in e.invars]
        atoms += [*(c.given for c in self.carries), *(a for a, _ in self.ys)]
        for a in atoms:
            if isinstance(a, Var):
                uses[a] = uses.get(a, 0) + 1
        return uses


def take_apart(eqn: Eqn) -> Scan:
    """The parts of a `scan` equation, in lists of their own."""
    body: Program = eqn.params["jaxpr"]
    n, m = eqn.params["num_consts"], eqn.params["num_carry"]
    carries = [
        Carry(*parts) for parts in zip(eqn.invars[n : n + m], body.invars[n : n + m], body.outvars, eqn.outvars[:m])
    ]
    return Scan(
        eqn,
        list(zip(eqn.invars[:n], body.invars[:n])),
        carries,
        list(zip(eqn.invars[n + m :], body.invars[n + m :])),
        list(zip(body.outvars[m:], eqn.outvars[m:])),
        list(body.eqns),
    )


def splice(fun: Callable[..., Sequence[Any]], operands: Sequence[Atom], eqn: Eqn) -> tuple[list[Eqn], list[Atom]]:
    """The equations of a function of operands, with the source of an equation, and its results as atoms."""
    program = trace_to_program(fun, [a.aval for a in operands])
    assert not program.consts
    names: dict[Var, Atom] = dict(zip(program.invars, operands))

    def read(atom: Atom) -> Atom:
        return names[atom] if isinstance(atom, Var) else atom

    found = []
    for e in program.eqns:
        outs = [Var(v.aval) for v in e.outvars]
        found.append(e.replace(invars=[read(a) for a in e.invars], outvars=outs, source=e.source or eqn.source))
        names.update(zip(e.outvars, outs))
    return found, [read(a) for a in program.outvars]


def without_unused(eqn: Eqn, used: set[Var], clean: Callable[[Program], Program]) -> Eqn:
    """A loop or branch without results that are not used, and without what only those need.

    clean: dead code elimination, for the sub-programs.
    """
    prune = _PRUNE.get(eqn.primitive.name)
    return eqn if prune is None else prune(eqn, used, clean)


def _prune_scan(eqn: Eqn, used: set[Var], clean: Callable[[Program], Program]) -> Eqn:
    body: Program = eqn.params["jaxpr"]
    n, m = eqn.params["num_consts"], eqn.params["num_carry"]
    wanted = [v in used for v in eqn.outvars]
    slim, read = _needed_with_carry(body, wanted, m, n, clean)
    kept_in = [*read[:n], *wanted[:m], *read[n + m :]]
    if eqn.params["length"] == UNKNOWN and not any(kept_in[n + m :]):
        kept_in[n + m] = True  # it tells the number of steps
    if all(wanted) and all(kept_in) and slim is body:
        return eqn
    slim = slim.replace(invars=_kept(kept_in, body.invars))
    params = {
        **eqn.params, "jaxpr": slim, "num_consts": sum(kept_in[:n]), "num_carry": sum(wanted[:m])
    }  # fmt: skip
    return eqn.replace(invars=_kept(kept_in, eqn.invars), outvars=_kept(wanted, eqn.outvars), params=params)


def _needed_with_carry(
    body: Program, wanted: list[bool], carries: int, first: int, clean: Callable[[Program], Program]
) -> tuple[Program, list[bool]]:
    """The body without outputs that are not `wanted` (a list that grows by the carries it needs), and what it reads."""
    while True:
        slim = body if all(wanted) else body.replace(outvars=_kept(wanted, body.outvars))
        slim = clean(slim)
        read = _reads(slim)
        more = [i for i in range(carries) if body.invars[first + i] in read and not wanted[i]]
        if not more:
            return slim, [v in read for v in body.invars]
        for i in more:
            wanted[i] = True


def _prune_while(eqn: Eqn, used: set[Var], clean: Callable[[Program], Program]) -> Eqn:
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    count = len(eqn.invars) - n_cond - n_body
    cond_slim = clean(cond)
    asked = _reads(cond_slim)
    wanted = [v in used or i < count and cond.invars[n_cond + i] in asked for i, v in enumerate(eqn.outvars)]
    slim, read = _needed_with_carry(body, wanted, count, n_body, clean)
    carried = wanted[:count]
    kept_cond = [*(v in asked for v in cond.invars[:n_cond]), *carried]
    kept_body = [*read[:n_body], *carried]
    if all(kept_cond) and all(kept_body) and all(wanted) and slim is body and cond_slim is cond:
        return eqn
    params = {
        **eqn.params,
        "cond_jaxpr": cond_slim.replace(invars=_kept(kept_cond, cond.invars)),
        "body_jaxpr": slim.replace(invars=_kept(kept_body, body.invars)),
        "cond_nconsts": sum(kept_cond[:n_cond]),
        "body_nconsts": sum(kept_body[:n_body]),
    }
    kept = [*kept_cond[:n_cond], *kept_body[:n_body], *carried]
    return eqn.replace(invars=_kept(kept, eqn.invars), outvars=_kept(wanted, eqn.outvars), params=params)


def _prune_cond(eqn: Eqn, used: set[Var], clean: Callable[[Program], Program]) -> Eqn:
    branches: tuple[Program, ...] = eqn.params["branches"]
    wanted = [v in used for v in eqn.outvars]
    slim = [clean(b if all(wanted) else b.replace(outvars=_kept(wanted, b.outvars))) for b in branches]
    reads = [_reads(b) for b in slim]
    kept = [any(b.invars[i] in read for b, read in zip(branches, reads)) for i in range(len(branches[0].invars))]
    if all(wanted) and all(kept) and all(a is b for a, b in zip(slim, branches)):
        return eqn
    made = tuple(s.replace(invars=_kept(kept, b.invars)) for s, b in zip(slim, branches))
    return eqn.replace(
        invars=[eqn.invars[0], *_kept(kept, eqn.invars[1:])],
        outvars=_kept(wanted, eqn.outvars),
        params={**eqn.params, "branches": made},
    )


_PRUNE: dict[str, Callable[[Eqn, set[Var], Callable[[Program], Program]], Eqn]] = {
    "scan": _prune_scan,
    "while": _prune_while,
    "cond": _prune_cond,
}


def _kept(flags: Iterable[bool], values: Sequence[Any]) -> list[Any]:
    return [v for f, v in zip(flags, values) if f]


def _reads(program: Program) -> set[Var]:
    read = {a for e in program.eqns for a in e.invars if isinstance(a, Var)}
    read.update(a for a in program.outvars if isinstance(a, Var))
    return read


def split_invariant(program: Program, invariant: Sequence[bool]) -> tuple[Program, Program]:
    """Cut a closed Program in two by what depends on its invariant inputs alone.

    Returns `before`, from the invariant inputs to the values that the rest needs, and `after`, from those values and
    all inputs to the results. A loop of unknown length stays: it may never end where the one around it takes no step.
    """
    known: set[Any] = set(_kept(invariant, program.invars))
    outside: list[Eqn] = []
    inside: list[Eqn] = []
    for eqn in program.eqns:
        variables = [a for a in eqn.invars if isinstance(a, Var)]
        if all(v in known for v in variables) and not (_is_trivial(eqn) or has_effects(eqn) or _may_never_end(eqn)):
            outside.append(eqn)
            known.update(eqn.outvars)
        else:
            inside.append(eqn)
    made = {v for e in outside for v in e.outvars}
    needed = [a for e in inside for a in e.invars if isinstance(a, Var) and a in made]
    needed += [a for a in program.outvars if isinstance(a, Var) and a in made]
    passed = list(dict.fromkeys(needed))
    before = Program(_kept(invariant, program.invars), (), (), outside, passed, f"invariant_{program.name}")
    return before, program.replace(invars=[*passed, *program.invars], eqns=inside)


def _is_trivial(eqn: Eqn) -> bool:
    """Whether an equation costs less than the memory of its result: what repeats, or numbers, elements."""
    return all(not isinstance(a, Var) for a in eqn.invars) or eqn.primitive.name == "broadcast_in_dim"


def _may_never_end(eqn: Eqn) -> bool:
    inner = [e for program in subprograms(eqn.params) for e in program.eqns]
    return eqn.primitive.name == "while" or any(map(_may_never_end, inner))


# Element-wise operations that take less than reading their operands from memory.
CHEAP = {"add", "sub", "mul", "neg", "add_any", "integer_pow", "sign", "abs", "not", "and", "or", "select_n"}
CHEAP |= {"eq", "ne", "lt", "le", "gt", "ge", "convert_element_type", "square"}
_NO_WORK = {"broadcast_in_dim", "reshape", "squeeze"}  # nor do these need memory
DEEPEST_RECOMPUTATION = 4  # equations one behind another


def recompute_cheap(
    linear: Program, residuals: Sequence[Any], forward: Program, there: set[Var]
) -> tuple[Program, list[Var]]:
    """Let a linear Program compute residuals itself that take next to nothing, from others that it reads anyway.

    residuals: the variables of `forward` that the first inputs of `linear` stand for. there: further variables of
    `forward` that may become residuals at no cost. Returns the Program and its residuals.
    """
    definitions = {v: e for e in forward.eqns for v in e.outvars}
    wanted = list(dict.fromkeys(residuals))
    computed: dict[Var, None] = {}  # what the linear Program computes itself

    def sources(var: Var, goal: Var, depth: int = 0) -> dict[Var, None] | None:
        """Cheap results, itself first, that give a variable from what is read anyway; None if there are none."""
        if var in computed or (var is not goal and (var in wanted or var in there)):
            return {}
        eqn = definitions.get(var)
        if depth == DEEPEST_RECOMPUTATION or eqn is None or eqn.primitive.name not in CHEAP | _NO_WORK:
            return None
        found: dict[Var, None] = {var: None}
        for operand in eqn.invars:
            more = sources(operand, goal, depth + 1) if isinstance(operand, Var) else {}
            if more is None:
                return None
            found.update(more)
        return found

    for var in reversed(list(wanted)):
        found = None if var in there else sources(var, var)
        if found:
            wanted.remove(var)
            computed.update(found)
    if not computed:
        return linear, list(residuals)
    order = [e for e in forward.eqns if any(v in computed for v in e.outvars)]
    reads = [a for e in order for a in e.invars if isinstance(a, Var) and a not in computed]
    wanted += [a for a in dict.fromkeys(reads) if a not in wanted]
    fresh = {v: Var(v.aval) for v in (*wanted, *computed)}
    again = [
        e.replace(invars=[fresh[a] if isinstance(a, Var) else a for a in e.invars], outvars=[fresh[e.outvars[0]]])
        for e in order
    ]
    renamed = {inner: fresh[outer] for inner, outer in zip(linear.invars, residuals)}

    def read(atom: Atom) -> Atom:
        return renamed.get(atom, atom) if isinstance(atom, Var) else atom

    body = [e.replace(invars=[read(a) for a in e.invars]) for e in linear.eqns]
    made = linear.replace(
        invars=[*(fresh[v] for v in wanted), *linear.invars[len(residuals) :]],
        eqns=[*again, *body],
        outvars=[read(a) for a in linear.outvars],
    )
    return made, wanted
