"""A `scan` taken apart, for passes to change, and put together again."""

from __future__ import annotations

from dataclasses import dataclass, field

from functad.ir import Atom, Eqn, Program, Var


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
