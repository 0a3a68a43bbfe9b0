"""What happens on the way from a function to its optimised Program, noted by an observer.

Knows traces, linear maps and passes by what they tell; not how a journey is shown.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from functad.editing.dead_code import eliminate_dead_code
from functad.ir import Eqn, Program, Var, Zero, subprograms
from functad.observing import Observer
from functad.pretty import letters
from functad.records import NamedTuple
from functad.tracing import Trace, Tracer, current_trace, program_from_ops
from functad.user_source import state as lines


class DerivativePrograms(NamedTuple):
    """A recording and the linear map of its tangents, as Programs. inner: whether it is of a Program in another."""

    primal: Program
    linear: Program
    inner: bool


class AppliedPass(NamedTuple):
    """A pass of the optimiser that has changed something, and which rules did, on which equations."""

    name: str
    reason: str
    before: Program
    after: Program
    rules: tuple[tuple[Any, Eqn], ...]


class JourneyRecorder(Observer):
    """Notes derivatives, passes and rules, and which variables of different Programs are the same."""

    stages_calls = True

    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self._taken: set[str] = set()
        self._fresh = (name for i in count() if (name := letters(i)) not in self._taken)
        self._derivatives: list[DerivativePrograms] = []
        self.examples: list[Program] = []  # what was recorded for one example, to be batched
        self.passes: list[AppliedPass] = []
        self.expected: Program | None = None
        self.backward: list[Sequence[Any]] = []  # the results of operations that transposing recorded
        self.backward_vars: set[Var] = set()
        self._rules: list[tuple[Any, Eqn]] = []
        self._same: list[tuple[Var, Any]] = []  # a variable, and the tracer of an outer trace that it stands for
        self._twin: dict[Var, Var] = {}  # a variable and the one of the outer Program that it is
        self._primal_of: dict[int, Any] = {}  # by the identity of a tangent
        self._cotangents: list[tuple[Any, Any]] = []  # a tracer, and the primal tracer whose cotangent it is
        self._variables: dict[int, Var] = {}  # of all tracers
        self._kept: list[Any] = []  # so that identities stay theirs
        self._starts: list[tuple[Trace | None, int]] = []  # where traces stood when linear maps were made
        self._tangents: list[tuple[Any, Any]] = []

    # --- told by traces and transforms

    def traced(self, program: Program, variables: Mapping[int, Var]) -> None:
        self._variables.update(variables)
        self._kept.append(program)

    def linearized(self, ops: Sequence[Any], inputs: Sequence[Any], outs: Sequence[Any], linear: Any) -> None:
        self._kept += [ops, inputs, outs, linear, linear.ops]
        trace = inputs[0].owner if inputs else None
        current = current_trace()
        self._starts.append((current, 0 if current is None else len(current.ops)))
        if trace is None:
            return
        primal = program_from_ops(trace, ops, inputs, outs, "primal")
        results = [o for o in linear.outs if type(o) is not Zero]
        tangents = program_from_ops(linear.trace, linear.ops, linear.inputs, results, "tangents")
        for tracer in (*inputs, *(o for op in ops for o in op.outs)):
            self._same.append((self._variables[id(tracer)], tracer.value))
        for program in (primal, tangents):
            self._same += zip(program.constvars, program.consts)
        self._derivatives.append(DerivativePrograms(primal, eliminate_dead_code(tangents), _is_within_program(current)))

    @property
    def derivatives(self) -> list[DerivativePrograms]:
        """Those of the function itself, or if there are none, of what it calls."""
        return [d for d in self._derivatives if not d.inner] or self._derivatives

    def batched(self, trace: Trace, ops: Sequence[Any], inputs: Sequence[Any], outs: Sequence[Any]) -> None:
        if lines.source is None and not _is_within_program(current_trace()):  # else a rule does it
            self.examples.append(program_from_ops(trace, ops, inputs, outs, "example"))

    def tangent(self, primal: Any, tangent: Any) -> None:
        if isinstance(tangent, Tracer):
            self._primal_of.setdefault(id(tangent), primal)
            self._tangents.append((tangent, primal))

    def arrived(self, tangents: Sequence[Any], cotangent: Any) -> None:
        arriving = cotangent if isinstance(cotangent, list) else [cotangent]
        for tangent, one in zip(tangents, arriving):
            if isinstance(one, Tracer) and id(tangent) in self._primal_of:
                self._cotangents.append((one, self._primal_of[id(tangent)]))

    def transposed(self, linear: Any) -> None:
        current = current_trace()
        if current is not None and self._starts and any(linear is kept for kept in self._kept):
            trace, start = self._starts[-1]
            self.backward += [op.outs for op in current.ops[start if trace is current else 0 :]]

    def finish_tracing(self, program: Program, user_names: Mapping[Var, str] | None = None) -> None:
        """Name all variables: those that stand for the same alike, tangents x_dot and cotangents x_bar.

        user_names: what the user calls some of them; what is no name in Python becomes one, `params_w`.
        """
        self._twin = {var: self._variables[id(tracer)] for var, tracer in self._same if id(tracer) in self._variables}
        self.backward_vars = {
            self._variables[id(o)] for outs in self.backward for o in outs if id(o) in self._variables
        }
        special: dict[Var, tuple[Var, str]] = {}
        for pairs, suffix in ((self._tangents, "_dot"), (self._cotangents, "_bar")):
            for tracer, primal in pairs:
                var, of = self._variables.get(id(tracer)), self._variables.get(id(primal))
                if var is not None and of is not None and self._root(var) not in special:
                    special[self._root(var)] = (self._root(of), suffix)
        for var, name in (user_names or {}).items():
            self._name_after(self._root(var), name)
        programs = [p for d in self.derivatives for p in (d.primal, d.linear)] + [*self.examples, program]
        of_constant: dict[int, Var] = {}  # by the identity of an array, which several of these Programs may hold
        for one in programs:
            for var, constant in zip(one.constvars, one.consts):
                self._twin.setdefault(var, of_constant.setdefault(id(constant), var))
        self.name_all(program.replace(eqns=(), outvars=()), special)  # inputs first
        for one in programs:
            self.name_all(one, special)
        self._kept, self._same = [], []
        self._rules.clear()

    def _root(self, var: Var) -> Var:
        while var in self._twin and self._twin[var] is not var:
            var = self._twin[var]
        return var

    def _name_after(self, root: Var, name: str) -> None:
        """Call a variable as the user does, as far as that is a name in kernels, and is not yet taken."""
        word = "_".join(re.findall(r"\w+", name))
        given = (n for k in count() if (n := f"{word}{k or ''}") not in self._taken and not keyword.iskeyword(n))
        if word and root not in self.names:
            self.names[root] = next(given)
            self._taken.add(self.names[root])

    def name_all(self, program: Program, special: Mapping[Var, tuple[Var, str]]) -> None:
        """Give names to the variables of a Program that have none; special: those named after another, and how."""
        for var in variables_of(program):
            root = self._root(var)
            if root not in self.names:
                of, suffix = special.get(root, (root, ""))
                name = f"{self.names[of]}{suffix}" if suffix and of in self.names else ""
                if not name or name in self._taken:
                    name = next(self._fresh)
                self._taken.add(name)
                self.names[root] = name
            self.names[var] = self.names[root]

    def take_names(self, names: Mapping[Var, str]) -> None:
        """Use names that others have given."""
        self.names.update(names)
        self._taken.update(names.values())

    # --- told by the optimiser

    def passed(self, name: str, reason: str, before: Program, after: Program) -> None:
        if self.expected is not None and before.eqns == self.expected.eqns:
            if after.eqns != before.eqns:
                self.passes.append(AppliedPass(name, reason, before, after, tuple(self._rules)))
            self.expected = after
            self._rules.clear()

    def rewrote(self, rule: Any, eqn: Eqn, made: Any) -> None:
        self._rules.append((rule, eqn))

    def known_names(self, program: Program) -> dict[Var, str]:
        """The names of the variables of a Program to be lowered, and of all others: no new one shall get them."""
        for one in (*(p.after for p in self.passes), program):
            self.name_all(one, {})
        return self.names


def _is_within_program(trace: Trace | None) -> bool:
    """Whether a trace, or one around it, records a Program that is to be a part of another."""
    while trace is not None:
        if not trace.keeps_values and trace.parent is not None:
            return True
        trace = trace.parent
    return False


def variables_of(program: Program) -> Iterator[Var]:
    """All variables of a Program and of those within it, in the order of its text."""
    yield from program.constvars
    yield from program.invars
    for eqn in program.eqns:
        for inner in subprograms(eqn.params):
            yield from variables_of(inner)
        yield from eqn.outvars
