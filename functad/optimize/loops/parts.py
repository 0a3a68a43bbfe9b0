"""Loops taken apart, for passes to change, and put together again; with what a pass computes around a scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from functad.control.scan import scan_p
from functad.control.while_loop import while_p
from functad.editing.common_subexpressions import atom_key
from functad.editing.rewriting import View
from functad.editing.substitution import Substitution
from functad.errors import BatchingError, NoRuleError
from functad.ir import Atom, Aval, Eqn, Program, Var
from functad.primitives.common import move_axis
from functad.records import NamedTuple
from functad.tracing import eval_program
from functad.transforms.named_axes import batching
from functad.transforms.programs import batch_program

LOOPS = (scan_p, while_p)
Simplify = Callable[[Program], Program]
Computed = Callable[..., Sequence[Any]]


@dataclass
class Carry:
    """A value that a loop carries along: where it starts, what the body reads and gives, and the result."""

    init: Atom
    read: Var
    given: Atom
    result: Var


@dataclass
class LoopBody:
    """What the body of a loop reads and gives. Moves change the lists.

    view: the Program around it, rewritten as far as the loop. name: the body's.
    consts: pairs (operand, variable of the body). xs: so, of what is read slice by slice.
    ys: pairs (what the body gives, result).
    after: what is computed behind the loop, the last first: a function, its operands, and what its results stand for.
    instead: a function of the operands that is computed in the place of the loop.
    """

    origin: Eqn
    view: View
    name: str
    consts: list[tuple[Atom, Var]]
    carries: list[Carry]
    xs: list[tuple[Atom, Var]]
    ys: list[tuple[Atom, Var]]
    eqns: list[Eqn]
    after: list[tuple[Computed, Sequence[Atom], Sequence[Var]]] = field(default_factory=list)
    instead: Computed | None = None

    @property
    def operands(self) -> list[Atom]:
        return [*(a for a, _ in self.consts), *(c.init for c in self.carries), *(a for a, _ in self.xs)]

    @property
    def given(self) -> list[Atom]:
        return [*(c.given for c in self.carries), *(a for a, _ in self.ys)]

    @property
    def results(self) -> list[Var]:
        return [*(c.result for c in self.carries), *(v for _, v in self.ys)]

    @property
    def state(self) -> tuple[Any, ...]:
        """What differs once a move has changed the loop."""
        return *self.operands, *self.results, *self.given, *self.eqns, len(self.after), self.instead

    def body(self) -> Program:
        reads = [*(v for _, v in self.consts), *(c.read for c in self.carries), *(v for _, v in self.xs)]
        return Program(reads, (), (), self.eqns, self.given, self.name)

    def before(self, fun: Computed, operands: Sequence[Atom]) -> list[Atom]:
        """What a function gives that is computed in front of the loop."""
        return self.view.compute(fun, operands, self.origin)

    def substitute(self, names: Substitution) -> None:
        """Let the body read other atoms in the place of variables."""
        self.eqns = names.within(self.eqns)
        for carry in self.carries:
            carry.given = names.read(carry.given)
        self.ys = [(names.read(a), v) for a, v in self.ys]

    def join(self, other: LoopBody) -> None:
        """Run the steps of another loop, too, whose body has variables of its own."""
        self.consts += other.consts
        self.carries += other.carries
        self.xs += other.xs
        self.ys += other.ys
        self.eqns += other.eqns

    def uses(self) -> Counter[Atom]:
        """How often each atom of the body is read, by its equations and as what it gives."""
        return Counter([*(a for e in self.eqns for a in e.invars), *self.given])


@dataclass(kw_only=True)
class Scan(LoopBody):
    """A `scan` equation taken apart; `origin` has the body as it was before that was simplified.

    is_linear: whether it computes tangents or cotangents.
    simplify: the optimiser, for bodies.
    alone: what is done to the loops of a Program, of which scans have strips of so many steps.
    strip: how many steps are one loop without carries, for a GPU; 0 where none are, None where that is open.
    """

    is_linear: bool
    simplify: Simplify = lambda program: program
    alone: Callable[[Program, int], Program] = lambda program, strip: program
    strip: int | None = None

    @property
    def length(self) -> int:
        length: int = self.origin.params["length"]
        return length

    def replace_body(self, body: Program) -> None:
        """Let the loop run another Program with the same inputs and outputs."""
        n, m = len(self.consts), len(self.carries)
        self.consts = [(a, v) for (a, _), v in zip(self.consts, body.invars)]
        self.xs = [(a, v) for (a, _), v in zip(self.xs, body.invars[n + m :])]
        self.ys = [(a, v) for a, (_, v) in zip(body.outvars[m:], self.ys)]
        for carry, read, given in zip(self.carries, body.invars[n:], body.outvars):
            carry.read, carry.given = read, given
        self.eqns = list(body.eqns)

    def eqn(self) -> Eqn:
        numbers = {"num_consts": len(self.consts), "num_carry": len(self.carries), "linear": self.is_linear}
        params = {**self.origin.params, "jaxpr": self.body(), **numbers}
        return self.origin.replace(invars=self.operands, outvars=self.results, params=params)

    def stack_of(self, atom: Atom) -> Atom | None:
        """The values in all steps of what the loop reads slice by slice, or stacks."""
        stacks = [*(a for a, v in self.xs if v is atom), *(v for a, v in self.ys if a is atom)]
        return stacks[0] if stacks else None

    def stacked(self, atom: Atom) -> Atom:
        """The values of an atom of the body in all steps, which it stacks from now on if it did not."""
        stack = self.stack_of(atom)
        if stack is None:
            stack = Var(Aval((self.length, *atom.aval.shape), atom.aval.dtype))
            self.ys.append((atom, stack))
        return stack

    def for_all_steps(self, program: Program, reads: Sequence[Var]) -> AllSteps | None:
        """What a Program of these variables of the body gives in all steps, if that needs no array constants.

        And if all in it has a rule for many examples, which a primitive from outside may not have.
        """
        consts: dict[Atom, Atom] = {v: a for a, v in self.consts}
        try:
            with batching(None):  # steps are no examples of an axis that vmap may be mapping over now
                mapped = batch_program(program, self.length, tuple(None if v in consts else 0 for v in reads))
        except (BatchingError, NoRuleError):
            return None
        if mapped.program.consts:
            return None
        operands = [consts[v] if v in consts else self.stacked(v) for v in reads]

        def run(*args: Any) -> list[Any]:
            outs = zip(eval_program(mapped.program, args), mapped.out_dims)
            return [o if d is None else move_axis(o, d, 0) for o, d in outs]

        return AllSteps(run, operands, [d is not None for d in mapped.out_dims])


class AllSteps(NamedTuple):
    """Results for all steps, as a function of operands of the loop, and which differ from step to step: stacks."""

    run: Callable[..., list[Any]]
    operands: list[Atom]
    stacked: list[bool]


@dataclass(kw_only=True)
class WhileLoop(LoopBody):
    """A `while` equation taken apart.

    cond_consts: as consts, of the condition. cond_eqns, goes_on: the condition, of those and of what the body reads.
    """

    cond_consts: list[tuple[Atom, Var]]
    cond_eqns: list[Eqn]
    goes_on: Atom

    @property
    def operands(self) -> list[Atom]:
        return [*(a for a, _ in self.cond_consts), *super().operands]

    def eqn(self) -> Eqn:
        cond, body = self.origin.params["cond_jaxpr"], self.origin.params["body_jaxpr"]
        carried = [c.read for c in self.carries]
        first, inside = [v for _, v in self.cond_consts], [v for _, v in self.consts]
        params = {
            "cond_jaxpr": cond.replace(invars=[*first, *carried], eqns=self.cond_eqns, outvars=[self.goes_on]),
            "cond_nconsts": len(first),
            "body_jaxpr": body.replace(invars=[*inside, *carried], eqns=self.eqns, outvars=self.given),
            "body_nconsts": len(inside),
        }
        return self.origin.replace(invars=self.operands, outvars=self.results, params=params)


def take_apart(eqn: Eqn, view: View | None = None) -> Scan | WhileLoop:
    """The parts of a loop, in lists of their own."""
    return take_scan_apart(eqn, view) if eqn.primitive is scan_p else _take_while_apart(eqn, view)


def take_scan_apart(eqn: Eqn, view: View | None = None) -> Scan:
    n, m = eqn.params["num_consts"], eqn.params["num_carry"]
    return Scan(**_common_parts(eqn, eqn.params["jaxpr"], eqn.invars, n, m, view), is_linear=eqn.params["linear"])


def _take_while_apart(eqn: Eqn, view: View | None) -> WhileLoop:
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    names = Substitution(zip(cond.invars[n:], body.invars[m:]))
    parts = _common_parts(eqn, body, eqn.invars[n:], m, len(body.invars) - m, view)
    goes_on, cond_consts = names.read(cond.outvars[0]), list(zip(eqn.invars[:n], cond.invars))
    return WhileLoop(**parts, cond_consts=cond_consts, cond_eqns=names.within(cond.eqns), goes_on=goes_on)


def _common_parts(
    eqn: Eqn, body: Program, operands: Sequence[Atom], n: int, m: int, view: View | None
) -> dict[str, Any]:
    """What all loops have, for n constants and m carries."""
    pairs, ends = list(zip(operands, body.invars)), list(zip(body.outvars, eqn.outvars))
    carries = [Carry(*pair, *end) for pair, end in zip(pairs[n : n + m], ends)]
    lists = {"consts": pairs[:n], "carries": carries, "xs": pairs[n + m :], "ys": ends[m:]}
    return {"origin": eqn, "view": view or View(body), "name": body.name, **lists, "eqns": list(body.eqns)}


def first_of_equal(pairs: Iterable[tuple[Atom, Var]]) -> Substitution:
    """For the variable of each pair that of the first pair with an equal operand."""
    first: dict[Any, Var] = {}
    return Substitution((v, first.setdefault(atom_key(a), v)) for a, v in pairs)
