"""What stands for variables: substituted where they are read, and copies of equations under new names. Knows the IR."""

from __future__ import annotations

from collections.abc import Iterable

from functad.ir import Atom, Eqn, Program, Var


class Substitution(dict[Var, Atom]):
    """The atoms that stand for variables; all other atoms stand for themselves."""

    def read(self, atom: Atom) -> Atom:
        return self.get(atom, atom) if isinstance(atom, Var) else atom

    def read_all(self, atoms: Iterable[Atom]) -> list[Atom]:
        return [self.read(a) for a in atoms]

    def last(self, atom: Atom) -> Atom:
        """What stands for an atom, when for that something else may stand."""
        while (other := self.read(atom)) is not atom:
            atom = other
        return atom

    def within(self, eqns: Iterable[Eqn]) -> list[Eqn]:
        """Equations with what stands for their operands; the same ones where that are the operands."""
        return [self.within_one(e) for e in eqns]

    def within_one(self, eqn: Eqn) -> Eqn:
        """An equation with what stands for its operands."""
        invars = tuple(self.read(a) for a in eqn.invars)
        return eqn if invars == eqn.invars else eqn.replace(invars=invars)

    def copied(self, eqns: Iterable[Eqn]) -> list[Eqn]:
        """Equations once more, with new results, which stand for the old ones from then on."""
        return [self._copied(e) for e in eqns]

    def _copied(self, eqn: Eqn) -> Eqn:
        invars = self.read_all(eqn.invars)
        self.update((v, Var(v.aval)) for v in eqn.outvars)
        return eqn.replace(invars=invars, outvars=self.read_all(eqn.outvars))


def copied(program: Program) -> Program:
    """The same Program with variables of its own."""
    names = Substitution((v, Var(v.aval)) for v in (*program.constvars, *program.invars))
    eqns = names.copied(program.eqns)
    return program.replace(
        constvars=names.read_all(program.constvars),
        invars=names.read_all(program.invars),
        eqns=eqns,
        outvars=names.read_all(program.outvars),
    )
