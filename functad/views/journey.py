"""The journey of a function from its source to machine code, as a list of stages: what `functad.explain` shows.

Knows every layer below by what it says of itself; nothing of how a journey is shown (`explanation.py`).
"""

from __future__ import annotations

import difflib
import inspect
import linecache
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from functad.api.compilation import jit
from functad.api.stages import Traced
from functad.backends.cpu.executable import CpuExecutable
from functad.backends.cpu.lowering import CpuLowering
from functad.calls.common import closed
from functad.dtypes import kind_of
from functad.editing.dead_code import eliminate_dead_code
from functad.editing.keys import without_keys
from functad.ir import Atom, Eqn, Program, Source, Var, Zero, subprograms
from functad.lowering.costs import EquationCost, cost_of_equation
from functad.lowering.memory.arena import MemoryPlan
from functad.lowering.steps import ControlStep, GemmStep, inner_steps
from functad.observing import Observer, observed
from functad.optimize.pipeline import simplify
from functad.pretty import equation_to_text, letters
from functad.tracing import Trace, Tracer, current_trace, program_from_ops

_WIDE = 100_000


class Line(NamedTuple):
    """A line of a stage.

    mark: "+" if the stage before has no such line, "-" if this one has it no more, "#" for a heading, "" otherwise.
    about: the variables whose equations it belongs to. sources: the user's lines, as "file:line" numbers.
    kernel: of code, the line of the kernels' text, as "k12". note: what stands beside it.
    whole: whether it belongs to the whole of a kernel: then it is not marked with each of its equations.
    """

    text: str
    mark: str = ""
    about: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    kernel: str = ""
    note: str = ""
    whole: bool = False


class Stage(NamedTuple):
    """A station of the journey.

    does: a sentence that says what happened. notes: more of it, such as the reasons of rules. lines: its text.
    memory: of the memory plan alone, the plan. long: whether it is folded at first.
    """

    title: str
    does: str
    lines: tuple[Line, ...] = ()
    notes: tuple[str, ...] = ()
    memory: MemoryPlan | None = None
    long: bool = False


class Journey(NamedTuple):
    """All stages of one function for arguments of some types. names: what each input is called by the user."""

    name: str
    signature: str
    stages: tuple[Stage, ...]


def journey(fun: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], times: bool = True) -> Journey:
    """Trace, optimise and compile a function anew, and note what happens at each stage.

    times: whether kernels are run, to say how long they take.
    """
    recorder = _Recorder()
    with observed(recorder):
        traced: Traced = (fun if hasattr(fun, "trace_anew") else jit(fun)).trace_anew(*args, **kwargs)
        recorder.finish_tracing(traced.jaxpr)
        program = without_keys(closed(traced.jaxpr))
        recorder.expected = program
        optimized = simplify(program)
        lowering = CpuLowering(optimized, traced.donated_inputs(), recorder.known_names(optimized))
    recorder.names.update(lowering.schedule.names)
    values = _values(lowering.program) if times else None
    writer = _Writer(fun, recorder, traced, lowering, values)
    signature = ", ".join(f"{name}: {aval.str_short()}" for name, aval in zip(traced.leaf_names, traced.jaxpr.in_avals))
    return Journey(traced.fun_name, signature, tuple(writer.stages()))


def _values(program: Program) -> list[np.ndarray]:
    """Arrays of the types of all inputs: random floats, and zeros for integers, which may be places of an array."""
    rng = np.random.default_rng(0)
    return [
        rng.normal(size=a.shape).astype(a.dtype) if kind_of(a.dtype) in "fc" else np.zeros(a.shape, a.dtype)
        for a in program.in_avals
    ]


# --- what happens while a function is traced and optimised -------------------------------------------------------


class _Derivative(NamedTuple):
    """A recording and the linear map of its tangents, as Programs. inner: whether it is of a Program in another."""

    primal: Program
    linear: Program
    inner: bool


class _Pass(NamedTuple):
    """A pass of the optimiser that has changed something, and which rules did, on which equations."""

    name: str
    reason: str
    before: Program
    after: Program
    rules: tuple[tuple[Any, Eqn], ...]


class _Recorder(Observer):
    """Notes derivatives, passes and rules, and which variables of different Programs are the same."""

    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self._derivatives: list[_Derivative] = []
        self.examples: list[Program] = []  # what was recorded for one example, to be batched
        self.passes: list[_Pass] = []
        self.expected: Program | None = None
        self.backward: list[tuple[Any, ...]] = []  # the results of operations that transposing recorded
        self.backward_vars: set[Var] = set()
        self._rules: list[tuple[Any, Eqn]] = []
        self._same: list[tuple[Var, Any]] = []  # a variable, and the tracer of an outer trace that it stands for
        self._twin: dict[Var, Var] = {}  # a variable and the one of the outer Program that it is
        self._primal_of: dict[int, Any] = {}  # by the identity of a tangent
        self._cotangents: list[tuple[Any, Any]] = []  # a tracer, and the primal tracer whose cotangent it is
        self._variables: dict[int, Var] = {}  # of all tracers
        self._kept: list[Any] = []  # so that identities stay theirs
        self._starts: list[int] = []
        self._tangents: list[tuple[Any, Any]] = []

    # --- told by traces and transforms

    def traced(self, program: Program, variables: Mapping[int, Var]) -> None:
        self._variables.update(variables)
        self._kept.append(program)

    def linearized(self, ops: Sequence[Any], inputs: Sequence[Any], outs: Sequence[Any], linear: Any) -> None:
        self._kept += [ops, inputs, outs, linear, linear.ops]
        trace = inputs[0].owner if inputs else None
        current = current_trace()
        self._starts.append(0 if current is None else len(current.ops))
        if trace is None:
            return
        primal = program_from_ops(trace, ops, inputs, outs, "primal")
        results = [o for o in linear.outs if type(o) is not Zero]
        tangents = program_from_ops(linear.trace, linear.ops, linear.inputs, results, "tangents")
        for tracer in (*inputs, *(o for op in ops for o in op.outs)):
            self._same.append((self._variables[id(tracer)], tracer.value))
        for program in (primal, tangents):
            self._same += zip(program.constvars, program.consts)
        self._derivatives.append(_Derivative(primal, eliminate_dead_code(tangents), _is_within_program(current)))

    @property
    def derivatives(self) -> list[_Derivative]:
        """Those of the function itself, or if there are none, of what it calls."""
        return [d for d in self._derivatives if not d.inner] or self._derivatives

    def batched(self, trace: Trace, ops: Sequence[Any], inputs: Sequence[Any], outs: Sequence[Any]) -> None:
        if not _is_within_program(current_trace()):
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
            self.backward += [op.outs for op in current.ops[self._starts[-1] :]]

    def finish_tracing(self, program: Program) -> None:
        """Name all variables: those that stand for the same alike, tangents x_dot and cotangents x_bar."""
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
        programs = [p for d in self.derivatives for p in (d.primal, d.linear)] + [*self.examples, program]
        self._name_all(program.replace(eqns=(), outvars=()), special)  # inputs first
        for one in programs:
            self._name_all(one, special)
        self._kept, self._same = [], []
        self._rules.clear()

    def _root(self, var: Var) -> Var:
        while var in self._twin and self._twin[var] is not var:
            var = self._twin[var]
        return var

    def _name_all(self, program: Program, special: Mapping[Var, tuple[Var, str]]) -> None:
        for var in _variables(program):
            root = self._root(var)
            if root not in self.names:
                of, suffix = special.get(root, (root, ""))
                name = self.names.get(of, "") + suffix if suffix else ""
                self.names[root] = name if len(name) > 4 and name not in self.names.values() else self._letters()
            self.names[var] = self.names[root]

    def _letters(self) -> str:
        taken = set(self.names.values())
        return next(name for i in count() if (name := letters(i)) not in taken)

    # --- told by the optimiser

    def passed(self, name: str, reason: str, before: Program, after: Program) -> None:
        if self.expected is not None and before.eqns == self.expected.eqns:
            if after.eqns != before.eqns:
                self.passes.append(_Pass(name, reason, before, after, tuple(self._rules)))
            self.expected = after
            self._rules.clear()

    def rewrote(self, rule: Any, eqn: Eqn, made: Any) -> None:
        self._rules.append((rule, eqn))

    def known_names(self, program: Program) -> dict[Var, str]:
        """The names of the variables of a Program to be lowered, each once."""
        for one in (*(p.after for p in self.passes), program):
            self._name_all(one, {})
        return {var: self.names[var] for var in _variables(program)}


def _is_within_program(trace: Trace | None) -> bool:
    """Whether a trace, or one around it, records a Program that is to be a part of another."""
    while trace is not None:
        if not trace.keeps_values and trace.parent is not None:
            return True
        trace = trace.parent
    return False


def _variables(program: Program) -> Iterator[Var]:
    """All variables of a Program and of those within it, in the order of its text."""
    yield from program.constvars
    yield from program.invars
    for eqn in program.eqns:
        for inner in subprograms(eqn.params):
            yield from _variables(inner)
        yield from eqn.outvars


# --- stages --------------------------------------------------------------------------------------------------------


class _Writer:
    """Writes the stages of what was recorded."""

    def __init__(
        self,
        fun: Callable[..., Any],
        recorder: _Recorder,
        traced: Traced,
        lowering: CpuLowering,
        values: Sequence[np.ndarray] | None,
    ) -> None:
        self.recorder, self.traced, self.lowering, self.values = recorder, traced, lowering, values
        self.code: CodeType | None = getattr(inspect.unwrap(fun), "__code__", None)
        self.names = recorder.names
        self.files: dict[str, int] = {}
        self.by_name: dict[str, Eqn] = {}

    def stages(self) -> Iterator[Stage]:
        before = list(self._before())
        after = [*self._passes(), self._groups(), self._memory()]
        kernels, code = self._kernels()
        yield self._source()
        yield from before
        yield from after
        yield kernels
        yield from code

    # --- Programs

    def _before(self) -> Iterator[Stage]:
        """The stages that tracing and differentiating make."""
        program, derivatives = self.traced.jaxpr, self.recorder.derivatives
        legend = self._legend()
        shown: list[Line] = []
        for derivative in derivatives:
            shown = self._program(derivative.primal)
            yield Stage(
                "Traced",
                "The function ran once on stand-ins for arrays, which recorded each operation: an equation a line.",
                tuple(shown),
                legend,
            )
            legend = ()
            yield Stage(
                "Linearised",
                "Each equation's jvp rule says how a small change of its operands changes its result: names in "
                "_dot are tangents. What it needs of the forward pass is a constant here, a residual.",
                tuple(self._program(derivative.linear)),
            )
        for example in self.recorder.examples:
            yield Stage(
                "Traced for one example",
                "The function of one example was recorded. Each equation's batch rule then wrote it for all at once.",
                tuple(self._program(example)),
            )
        lines = self._program(program)
        if derivatives:
            yield Stage(
                "Transposed",
                "The linear equations were gone through from the last to the first, each by its transpose rule: names "
                "in _bar are cotangents, derivatives of the result. This is the whole Program, forward and backward.",
                tuple(_marked(shown, lines, self._is_backward)),
            )
        elif self.recorder.examples:
            yield Stage("Batched", "This is the whole Program, for all examples.", tuple(lines), legend)
        else:
            does = "The function ran once on stand-ins for arrays, which recorded each operation: an equation a line."
            yield Stage("Traced", does, tuple(lines), legend)

    def _legend(self) -> tuple[str, ...]:
        pairs = zip(self.traced.jaxpr.invars, self.traced.leaf_names)
        return (
            (", ".join(f"{self.names[var]} is {name}" for var, name in pairs) + ".",) if self.traced.leaf_names else ()
        )

    def _is_backward(self, line: Line) -> bool:
        return any(self.names.get(v) in line.about for v in self.recorder.backward_vars) if line.about else False

    def _passes(self) -> Iterator[Stage]:
        for made in self.recorder.passes:
            lines = _marked(self._program(made.before), self._program(made.after))
            if not any(line.mark for line in lines):
                continue
            title = made.name.replace("_", " ").capitalize()
            yield Stage(title, f"{made.reason} {self._change(made)}", tuple(lines), tuple(self._reasons(made.rules)))

    def _change(self, made: _Pass) -> str:
        before, after = len(made.before.eqns), len(made.after.eqns)
        return f"{before} equations became {after}." if before != after else f"There are {after} equations as before."

    def _reasons(self, rules: Sequence[tuple[Any, Eqn]]) -> Iterator[str]:
        times = Counter(rule.name for rule, _ in rules)
        because = {rule.name: rule.because for rule, _ in rules}
        for name, n in times.items():
            where = list(
                dict.fromkeys(
                    self.names[v] for rule, eqn in rules if rule.name == name for v in eqn.outvars if v in self.names
                )
            )
            of = f" ({', '.join(where[:6])}{', …' if len(where) > 6 else ''})" if where else ""
            yield f"{name}, {n} {'times' if n > 1 else 'time'}{of}: {because[name]}."

    def _program(self, program: Program, indent: str = "") -> list[Line]:
        self.recorder._name_all(program, {})
        binders = " ".join(self._typed(v) for v in program.constvars), " ".join(self._typed(v) for v in program.invars)
        lines = [Line(f"{indent}{{ lambda {binders[0]}; {binders[1]}. let")]
        for eqn in program.eqns:
            lines.append(self._equation(eqn, indent + "    "))
            for inner in subprograms(eqn.params):
                lines += self._program(inner, indent + "      ")
        results = ", ".join(self._atom(a) for a in program.outvars)
        return [*lines, Line(f"{indent}  in ({results}{',' * (len(program.outvars) == 1)}) }}")]

    def _equation(self, eqn: Eqn, indent: str) -> Line:
        about = self._about([eqn])
        self.by_name.update((name, eqn) for name in about)
        text = equation_to_text(eqn, self.names, _WIDE)
        return Line(indent + text, "", about, self._sources([eqn]), "", str(_cost(eqn)))

    def _typed(self, var: Var) -> str:
        return f"{self.names[var]}:{var.aval.str_short()}"

    def _atom(self, atom: Atom) -> str:
        return self.names[atom] if isinstance(atom, Var) else repr(atom)

    def _about(self, eqns: Sequence[Eqn]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.names[v] for e in eqns for v in e.outvars if v in self.names))

    def _sources(self, eqns: Sequence[Eqn]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._place(e.source) for e in eqns if e.source is not None))

    def _place(self, source: Source) -> str:
        number = self.files.setdefault(source.code.co_filename, len(self.files))
        return f"{number}:{source.line}"

    # --- the user's text

    def _source(self) -> Stage:
        wanted: dict[str, set[int]] = {}
        if self.code is not None:
            wanted[self.code.co_filename] = _lines_of(self.code, self.code.co_firstlineno)
        for source in self._all_sources():
            wanted.setdefault(source.code.co_filename, set()).update(_lines_of(source.code, source.line))
        lines: list[Line] = []
        for filename, numbers in wanted.items():
            file = self.files.setdefault(filename, len(self.files))
            lines.append(Line(filename, "#"))
            last = 0
            for number in sorted(numbers):
                if last and number > last + 1:
                    lines.append(Line("…", "#"))
                last = number
                text = linecache.getline(filename, number).rstrip() or ""
                lines.append(Line(f"{number:>4}  {text}", "", (), (f"{file}:{number}",)))
        return Stage(
            "Source", "The lines of yours that equations come from, with the functions around them.", tuple(lines)
        )

    def _all_sources(self) -> list[Source]:
        programs = [p for d in self.recorder.derivatives for p in (d.primal, d.linear)] + [self.traced.jaxpr]
        programs += [p.after for p in self.recorder.passes]
        return [e.source for p in programs for e in _equations(p) if e.source is not None]

    # --- groups and memory

    def _groups(self) -> Stage:
        lines: list[Line] = []
        steps = list(inner_steps(self.lowering.schedule.steps))
        for step in steps:
            eqns = self._in_order(step.eqns)
            head = str(step).split("\n")[0]
            lines.append(Line(head, "#", self._about(eqns), self._sources(eqns)))
            for eqn in eqns if not isinstance(step, ControlStep) else ():
                lines.append(self._equation(eqn, "    "))
        computed = sum(1 for line in lines if not line.mark)
        does = (
            f"Equations that go over the same elements share one loop, so that what lies between them is never written "
            f"to memory: {computed} equations, {len(steps)} {'step' if len(steps) == 1 else 'steps'}."
        )
        return Stage("Fused into groups", does, tuple(lines))

    def _in_order(self, eqns: Sequence[Eqn]) -> list[Eqn]:
        """Equations in the order in which they were first seen."""
        place = {name: i for i, name in enumerate(self.by_name)}
        return sorted(dict.fromkeys(eqns), key=lambda e: min((place.get(n, 0) for n in self._about([e])), default=0))

    def _memory(self) -> Stage:
        plan = self.lowering.memory_plan
        donated = tuple(f"{result} takes the memory of {argument}." for argument, result in plan.donated)
        if not plan.offsets:
            return Stage(
                "Memory plan", "No array lies between the steps: there is nothing to place.", (), donated, plan
            )
        does = (
            f"Arrays between steps lie in one arena of {plan.arena_bytes:,} bytes; those that are not needed at the "
            f"same time share places. Without sharing they would take {plan.unshared_bytes:,}."
        )
        lines = tuple(
            Line(
                f"{storage.name:<20} bytes {offset:,} to {offset + storage.nbytes:,}, "
                f"blocks {plan.lifetimes[storage][0]} to {plan.lifetimes[storage][1]}",
                "",
                self._names_in(storage.name),
            )
            for storage, offset in sorted(plan.offsets.items(), key=lambda item: plan.lifetimes[item[0]])
        )
        return Stage("Memory plan", does, lines, donated, plan)

    def _names_in(self, word: str) -> tuple[str, ...]:
        """The variable that a name such as `mul_c` or `out_c` ends with."""
        parts = word.split("_")
        return next((("_".join(parts[i:]),) for i in range(len(parts)) if "_".join(parts[i:]) in self.by_name), ())

    # --- code

    def _kernels(self) -> tuple[Stage, list[Stage]]:
        code = _KernelText(self.lowering, self)
        measured = self._times()
        cost = {k.kernel.partition(" (")[0]: k for k in self.lowering.cost.kernels}
        lines = list(code.lines(lambda name: _kernel_note(name, cost, measured)))
        products = [s for s in inner_steps(self.lowering.schedule.steps) if isinstance(s, GemmStep)]
        notes = [
            f"{s}: a matrix product, called from a library; {_kernel_note(s.name, cost, measured)}." for s in products
        ]
        if measured:
            notes.append(f"The whole call takes {measured['']:,.1f} µs with random numbers, on this machine, now.")
        stage = Stage(
            "Kernels",
            "Each group became a function in Python, on flat pointers and fixed shapes. Comments name its equations.",
            tuple(lines),
            tuple(notes),
        )
        return stage, list(self._machine_code(code)) if code.has_functions else []

    def _times(self) -> dict[str, float]:
        """µs of each kernel, and of the whole call under ""."""
        if self.values is None:
            return {}
        executable = CpuExecutable(self.lowering.assembled().plan, self.lowering.compiled(), lambda: self.lowering)
        profile = executable.profile(self.values)
        return {"": profile.step, **{k.kernel.partition(" (")[0]: k.time for k in profile.kernels}}

    def _machine_code(self, code: _KernelText) -> Iterator[Stage]:
        machine = self.lowering.machine_code()
        for title, does, functions in (
            (
                "LLVM IR",
                "LLVM optimised the kernels: loops go over vectors, and calls of formulas are inlined.",
                machine.llvm,
            ),
            (
                "Assembly",
                "What the processor runs: each instruction with the line of the kernel it comes from.",
                machine.assembly,
            ),
        ):
            lines = []
            for name, text in functions.items():
                lines.append(Line(name, "#", code.about_function(name)))
                for line in text:
                    lines.append(code.belonging(line.text, line.line, f"line {line.line}" if line.line else ""))
            yield Stage(
                title, f"{does} {sum(len(t) for t in functions.values()):,} lines.", tuple(lines), (), None, True
            )


class _KernelText:
    """The text of the kernels, and to which equations each of its lines belongs."""

    def __init__(self, lowering: CpuLowering, writer: _Writer) -> None:
        self.text = str(lowering.generated.source).split("\n")
        self.writer = writer
        self.equations = {
            i.function: list(dict.fromkeys(i.step.eqns)) for i in _instructions(lowering.generated.instructions)
        }
        self.has_functions = any(line.startswith("def ") for line in self.text)
        self.function_of: dict[int, str] = {}
        name = ""
        for number, line in enumerate(self.text, 1):
            if line.startswith("def "):
                name = line[4 : line.index("(")]
            self.function_of[number] = name

    def lines(self, note: Callable[[str], str]) -> Iterator[Line]:
        for number, text in enumerate(self.text, 1):
            said = note(self.function_of[number]) if text.startswith("def ") else ""
            yield self.belonging(text, number, said)

    def belonging(self, text: str, number: int, note: str) -> Line:
        """A line of code that comes from a line of the kernels."""
        if not number:
            return Line(text, "", note=note)
        about = self.about(number)
        eqns = [self.writer.by_name[name] for name in about if name in self.writer.by_name]
        whole = len(about) > 1 and not text.startswith("def ")
        return Line(text, "", about, self.writer._sources(eqns), f"k{number}", note, whole)

    def about_function(self, name: str) -> tuple[str, ...]:
        return self.writer._about(self.equations.get(name, []))

    def about(self, number: int) -> tuple[str, ...]:
        """The variables that a line computes; where its words name none, all of its kernel."""
        everything = self.about_function(self.function_of[number])
        line = self.text[number - 1].strip()
        target = re.match(r"# (\w+):|\w+\[.*\] = (\w+)$|(\w+)(?:\[.*\])? [+\-*]?= ", line)
        if target is None:
            return everything
        word = target[1] or re.sub(r"_\d+$", "", target[2] or target[3])
        if word in everything:
            return (word,)
        read = self.writer._names_in(word) if word.startswith("at_") else ()  # a value that another kernel wrote
        ends = [name for name in everything if word.endswith(f"_{name}")]
        return (max(ends, key=len),) if ends else read if word.startswith("at_") else everything


def _instructions(items: Sequence[Any]) -> Iterator[Any]:
    for item in items:
        if hasattr(item, "function"):
            yield item
        else:
            for part in item.parts:
                yield from _instructions(part)


def _kernel_note(name: str, cost: Mapping[str, Any], measured: Mapping[str, float]) -> str:
    parts = []
    if name in cost:
        parts.append(f"{cost[name].flops:,.0f} flops, {cost[name].bytes:,.0f} bytes")
    if name in measured:
        parts.append(f"{measured[name]:,.1f} µs")
    return ", ".join(parts)


def _cost(eqn: Eqn) -> EquationCost | str:
    return cost_of_equation(eqn)


def _equations(program: Program) -> Iterator[Eqn]:
    for eqn in program.eqns:
        yield eqn
        for inner in subprograms(eqn.params):
            yield from _equations(inner)


def _lines_of(code: CodeType, line: int) -> set[int]:
    """The lines of the function around a line, if it is short; else those beside it."""
    try:
        text, first = inspect.getsourcelines(code)
    except (OSError, TypeError, IndexError):
        return {line}
    if len(text) > 80 or not first <= line < first + len(text):
        return {n for n in range(line - 2, line + 3) if n > 0}
    return {*range(first, first + len(text)), line}


def _marked(before: Sequence[Line], after: Sequence[Line], heading: Callable[[Line], bool] | None = None) -> list[Line]:
    """The lines of a stage, with those that came and those that went."""
    found: list[Line] = []
    matcher = difflib.SequenceMatcher(None, [b.text for b in before], [a.text for a in after], autojunk=False)
    was_backward = False
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind in ("delete", "replace"):
            found += [line._replace(mark="-") for line in before[i1:i2] if line.about]
        for line in after[j1:j2]:
            is_outermost = line.text[4:5] != " " and line.about
            if heading is not None and is_outermost and heading(line) != was_backward:
                was_backward = not was_backward
                found.append(Line("backward" if was_backward else "forward", "#"))
            found.append(line if kind == "equal" or not line.about else line._replace(mark="+"))
    return found
