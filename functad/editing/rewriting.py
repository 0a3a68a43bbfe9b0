"""The one way in which a Program is rewritten: rules for single equations, and a view of what stands before them.

Knows the IR. A rule is a small function beside what it is about; `functad.optimize.rules` lists them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from functad.editing.splicing import splice
from functad.editing.substitution import Substitution
from functad.errors import ProgramError
from functad.ir import Atom, Eqn, Primitive, Program, Var
from functad.observing import watching
from functad.records import Record

MOST_REWRITES = 1000  # of one equation and of what it became: more can only be rules that undo one another


class View:
    """A Program while it is rewritten, equation by equation; what comes before has been rewritten already."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.eqns: list[Eqn] = []
        self._known = Substitution()
        self._definitions: dict[Var, Eqn] = {}

    def read(self, atom: Atom) -> Atom:
        """What stands for an atom now."""
        return self._known.last(atom)

    def read_all(self, eqn: Eqn) -> Eqn:
        """The equation with what stands for its operands now."""
        invars = tuple(map(self.read, eqn.invars))
        return eqn if invars == eqn.invars else eqn.replace(invars=invars)

    def definition(self, atom: Atom, *primitives: Primitive) -> Eqn | None:
        """The equation that an atom is a result of; if primitives are given, only an equation of theirs."""
        eqn = self._definitions.get(atom) if isinstance(atom, Var) else None
        return eqn if eqn is not None and (not primitives or eqn.primitive in primitives) else None

    @cached_property
    def uses(self) -> Counter[Var]:
        """How often each variable is read, by the Program's results, too: at most, as rules only take away."""
        reads = (self.read(a) for e in self.program.eqns for a in e.invars)
        uses = Counter(a for a in reads if isinstance(a, Var))
        uses.update(a for a in map(self.read, self.program.outvars) if isinstance(a, Var))
        return uses

    def emit(self, eqn: Eqn) -> None:
        """Append an equation whose operands are what stands for them now."""
        self.eqns.append(eqn)
        self._definitions.update((v, eqn) for v in eqn.outvars)

    def replace(self, variables: Sequence[Var], atoms: Sequence[Atom]) -> None:
        """From here on, read atoms instead of variables that no equation gives any more."""
        for var, atom in zip(variables, atoms, strict=True):
            self._known[var] = atom
            if isinstance(atom, Var):
                self.uses[atom] += self.uses[var]

    def compute(self, fun: Callable[..., Sequence[Any]], operands: Sequence[Atom], eqn: Eqn) -> list[Atom]:
        """Append the equations of a function of operands, with the source of an equation; gives its results."""
        made, results = splice(fun, [*map(self.read, operands)], eqn)
        for e in made:
            self.emit(e)
        return results

    def finish(self) -> Program:
        """The rewritten Program."""
        outvars = [*map(self.read, self.program.outvars)]
        if self.eqns == list(self.program.eqns) and outvars == list(self.program.outvars):
            return self.program
        return self.program.replace(eqns=self.eqns, outvars=outvars)


class Rule(Record):
    """What equations of some primitives become.

    name:    what it does, in a few words
    of:      the primitives whose equations it is asked about; None for all
    make:    `(equation, view)`; gives an atom that is the result, an equation or several that compute it, or None
    because: why the results are the same: NaN, infinities and signed zeros included
    """

    name: str
    of: tuple[Primitive, ...] | None
    make: Callable[[Eqn, View], Atom | Eqn | Sequence[Eqn] | None]
    because: str


def rewrite(program: Program, rules: Sequence[Rule]) -> Program:
    """Apply rules, the first that fits, to each equation in turn, and again to what it becomes."""
    view = View(program)
    of: dict[Primitive, list[Rule]] = {}
    for eqn in program.eqns:
        waiting, rewrites = [eqn], 0
        while waiting:
            eqn = view.read_all(waiting.pop())
            if eqn.primitive not in of:
                of[eqn.primitive] = [r for r in rules if r.of is None or eqn.primitive in r.of]
            made = _first(of[eqn.primitive], eqn, view)
            if made is None:
                view.emit(eqn)
            elif isinstance(made, list):
                waiting += reversed(made)
            else:
                view.replace(eqn.outvars, [made])
            rewrites += made is not None
            if rewrites > MOST_REWRITES:
                raise ProgramError(f"`{eqn.primitive.name}` at {eqn.source}: rules that undo one another never end")
    return view.finish()


def _first(rules: Sequence[Rule], eqn: Eqn, view: View) -> Atom | list[Eqn] | None:
    for rule in rules:
        made = rule.make(eqn, view)
        if made is None or made is eqn:
            continue
        if not isinstance(made, (Eqn, Sequence)) and not made.aval.same_type(eqn.outvars[0].aval):
            continue
        if watching.observer is not None:
            watching.observer.rewrote(rule, eqn, made)
        if isinstance(made, Eqn):
            return [made]
        return list(made) if isinstance(made, Sequence) else made
    return None


def spliced(fun: Callable[..., Sequence[Any]], operands: Sequence[Atom], eqn: Eqn) -> list[Eqn]:
    """The equations of a function of operands, which give the results of one equation, with its source."""
    made, results = splice(fun, operands, eqn)
    outs = Substitution((r, v) for r, v in zip(results, eqn.outvars) if isinstance(r, Var))
    assert len(outs) == len(eqn.outvars), "each result is computed"
    return [e.replace(outvars=outs.read_all(e.outvars)) for e in outs.within(made)]
