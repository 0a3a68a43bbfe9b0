"""The journey of a function from its source to machine code, as a list of stages: what `functad.explain` shows.

Knows every layer below by what it says of itself; nothing of how a journey is shown (`explanation.py`).
"""

from __future__ import annotations

import difflib
import inspect
import linecache
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np

from functad.api.compilation import jit
from functad.api.stages import Traced
from functad.backends.cpu.executable import CpuExecutable
from functad.backends.cpu.lowering import CpuLowering
from functad.calls.common import closed
from functad.dtypes import kind_of
from functad.editing.keys import without_keys
from functad.ir import Atom, Eqn, Program, Source, Var, all_eqns, subprograms
from functad.local_names import add_local_names
from functad.lowering.costs import cost_of_equation
from functad.lowering.memory.arena import MemoryPlan
from functad.lowering.steps import ControlStep, GemmStep, inner_steps
from functad.lowering_rules import Callback, ControlFlow
from functad.observing import observed
from functad.optimize.pipeline import simplify
from functad.pretty import equation_to_text
from functad.records import NamedTuple
from functad.system import numba_here
from functad.views.kernel_lines import EquationPlaces, KernelLines, Line
from functad.views.recording import AppliedPass, JourneyRecorder

_WIDE = 100_000


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


def journey(
    fun: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    times: bool = True,
    user_names: bool = False,
) -> Journey:
    """Trace, optimise and compile a function anew, and note what happens at each stage.

    times: whether kernels are run, to say how long they take. user_names: whether variables are called as the user
    calls them, where he does.
    """
    recorder = JourneyRecorder()
    with observed(recorder):
        traced: Traced = (fun if hasattr(fun, "trace_anew") else jit(fun)).trace_anew(*args, **kwargs)
        recorder.finish_tracing(traced.jaxpr, _user_names(traced) if user_names else None)
        recorder.expected = program = closed(traced.jaxpr)
        on_words = without_keys(program)
        recorder.passed("keys_on_words", _KEYS, program, on_words)
        optimized = simplify(on_words)
        lowering = CpuLowering(optimized, traced.donated_inputs(), recorder.known_names(optimized))
    recorder.take_names(lowering.schedule.names)
    unmeasured = _why_not_run(lowering.program) if times else ""
    is_run = times and not unmeasured and numba_here.is_installed()
    values = _values(lowering.program) if is_run else None
    writer = _Writer(fun, recorder, traced, lowering, values, unmeasured)
    signature = ", ".join(f"{name}: {aval.str_short()}" for name, aval in zip(traced.leaf_names, traced.jaxpr.in_avals))
    return Journey(traced.fun_name, signature, tuple(writer.stages()))


def _user_names(traced: Traced) -> dict[Var, str]:
    names = dict(zip(traced.jaxpr.invars, traced.leaf_names))
    add_local_names(traced.jaxpr, names)
    return names


def _values(program: Program) -> list[np.ndarray]:
    """Arrays of the types of all inputs: random floats, and zeros for integers, which may be places of an array."""
    rng = np.random.default_rng(0)
    return [
        rng.normal(size=a.shape).astype(a.dtype) if kind_of(a.dtype) in "fc" else np.zeros(a.shape, a.dtype)
        for a in program.in_avals
    ]


def _why_not_run(program: Program) -> str:
    """What keeps kernels from being run on random numbers."""
    for eqn in all_eqns(program.eqns):
        rule = eqn.primitive.lower
        if isinstance(rule, Callback):
            return "the function calls Python, which is not to see random numbers"
        if isinstance(rule, ControlFlow) and rule.kind == "while":
            return "with random numbers a `while` loop might never end"
    return ""


# --- stages --------------------------------------------------------------------------------------------------------


_KEYS = "each random key is a word of 64 bits, and what is drawn with it the arithmetic of its generator"
_RECORDED = "The function ran once on stand-ins for arrays, which recorded each operation: an equation a line."
_RECORDED_PART = (
    "The function ran once on stand-ins for arrays, which recorded each operation on what is differentiated: an "
    "equation a line. What does not depend on that, or has no derivative, as a comparison has none, is a constant here."
)


class _Writer:
    """Writes the stages of what was recorded."""

    def __init__(
        self,
        fun: Callable[..., Any],
        recorder: JourneyRecorder,
        traced: Traced,
        lowering: CpuLowering,
        values: Sequence[np.ndarray] | None,
        unmeasured: str,
    ) -> None:
        self.recorder, self.traced, self.lowering, self.values = recorder, traced, lowering, values
        self.unmeasured = unmeasured
        self.code: CodeType | None = getattr(inspect.unwrap(fun), "__code__", None)
        self.names = recorder.names
        self.places = EquationPlaces(self.names)
        self.lines: dict[int, Line] = {}  # of equations, by identity: most stand in many stages
        self.kept: list[Eqn] = []  # so that identities stay theirs
        self.backward = {self.names[v] for v in recorder.backward_vars if v in self.names}

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
                _RECORDED_PART if derivative.primal.constvars else _RECORDED,
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
        if derivatives and not self.recorder.backward:
            does = "The equations of the tangents stand behind those of the values: this is the whole Program."
            yield Stage("Differentiated", does, tuple(_marked(shown, lines)))
        elif derivatives:
            yield Stage(
                "Transposed",
                "The linear equations were gone through from the last to the first, each by its transpose rule: names "
                "in _bar are cotangents, derivatives of the result. This is the whole Program, forward and backward.",
                tuple(_marked(shown, lines, self._is_backward)),
            )
        elif self.recorder.examples:
            yield Stage("Batched", "This is the whole Program, for all examples.", tuple(lines), legend)
        else:
            does = _RECORDED
            yield Stage("Traced", does, tuple(lines), legend)

    def _legend(self) -> tuple[str, ...]:
        pairs = zip(self.traced.jaxpr.invars, self.traced.leaf_names)
        said = [f"{self.names[var]} is {name}" for var, name in pairs if self.names[var] != name]
        return (", ".join(said) + ".",) if said else ()

    def _is_backward(self, line: Line) -> bool:
        return not self.backward.isdisjoint(line.about)

    def _passes(self) -> Iterator[Stage]:
        for made in self.recorder.passes:
            lines = _marked(self._program(made.before), self._program(made.after))
            if not any(line.mark for line in lines):
                continue
            title = made.name.replace("_", " ").capitalize()
            because = made.reason[:1].upper() + made.reason[1:].rstrip(".")
            yield Stage(title, f"{because}. {self._change(made)}", tuple(lines), tuple(self._reasons(made.rules)))

    def _change(self, made: AppliedPass) -> str:
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
        self.recorder.name_all(program, {})
        binders = " ".join(self._typed(v) for v in program.constvars), " ".join(self._typed(v) for v in program.invars)
        lines = [Line(f"{indent}{{ lambda {binders[0]}; {binders[1]}. let")]
        for eqn in program.eqns:
            lines.append(self._equation(eqn, indent + "    "))
            for inner in subprograms(eqn.params):
                lines += self._program(inner, indent + "      ")
        results = ", ".join(self._atom(a) for a in program.outvars)
        return [*lines, Line(f"{indent}  in ({results}{',' * (len(program.outvars) == 1)}) }}")]

    def _equation(self, eqn: Eqn, indent: str) -> Line:
        line = self.lines.get(id(eqn))
        if line is None:
            self.kept.append(eqn)
            text = equation_to_text(eqn, self.names, _WIDE)
            sources = self.places.sources([eqn])
            line = Line(text, "", self.places.see(eqn), sources, "", str(cost_of_equation(eqn)))
            self.lines[id(eqn)] = line
        return line._replace(text=indent + line.text)

    def _typed(self, var: Var) -> str:
        return f"{self.names[var]}:{var.aval.str_short()}"

    def _atom(self, atom: Atom) -> str:
        return self.names[atom] if isinstance(atom, Var) else repr(atom)

    # --- the user's text

    def _source(self) -> Stage:
        wanted: dict[str, set[int]] = {}
        if self.code is not None:
            wanted[self.code.co_filename] = _lines_of(self.code, self.code.co_firstlineno)
        for source in {(source.code, source.at): source for source in self._all_sources()}.values():
            wanted.setdefault(source.code.co_filename, set()).update(_lines_of(source.code, source.line))
        lines: list[Line] = []
        for filename, numbers in wanted.items():
            file = self.places.files.setdefault(filename, len(self.places.files))
            is_known = bool(linecache.getlines(filename))
            lines.append(Line(filename if is_known else f"{filename} (its text is not known)", "#"))
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
        return [e.source for p in programs for e in all_eqns(p.eqns) if e.source is not None]

    # --- groups and memory

    def _groups(self) -> Stage:
        lines: list[Line] = []
        steps = list(inner_steps(self.lowering.schedule.steps))
        for step in steps:
            eqns = self.places.in_order(step.eqns)
            head = str(step).split("\n")[0]
            lines.append(Line(head, "#", self.places.about(eqns), self.places.sources(eqns)))
            for eqn in eqns if not isinstance(step, ControlStep) else ():
                lines.append(self._equation(eqn, "    "))
        computed = sum(1 for line in lines if not line.mark)
        does = (
            f"Equations that go over the same elements share one loop, so that what lies between them is never written "
            f"to memory: {_counted(computed, 'equation')}, {_counted(len(steps), 'step')}."
        )
        return Stage("Fused into groups", does, tuple(lines))

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
                self.places.names_in(storage.name),
            )
            for storage, offset in sorted(plan.offsets.items(), key=lambda item: plan.lifetimes[item[0]])
        )
        return Stage("Memory plan", does, lines, donated, plan)

    # --- code

    def _kernels(self) -> tuple[Stage, list[Stage]]:
        code = KernelLines(self.lowering, self.places)
        measured = self._times()
        cost = {k.kernel.partition(" (")[0]: k for k in self.lowering.cost.kernels}
        lines = list(code.lines(lambda name: _kernel_note(name, cost, measured)))
        products = [s for s in inner_steps(self.lowering.schedule.steps) if isinstance(s, GemmStep)]
        notes = [
            f"{s}: a matrix product, called from a library; {_kernel_note(s.name, cost, measured)}." for s in products
        ]
        if measured:
            notes.append(f"The whole call takes {measured['']:,.1f} µs with random numbers, on this machine, now.")
        if not numba_here.is_installed():
            notes.append("Without Numba, which is not installed here, kernels become no machine code.")
        if self.unmeasured:
            notes.append(f"The kernels were not run, to say how long they take: {self.unmeasured}.")
        stage = Stage(
            "Kernels",
            "Each group became a function in Python, on flat pointers and fixed shapes. Comments name its equations.",
            tuple(lines),
            tuple(notes),
        )
        is_compiled = code.has_functions and numba_here.is_installed()
        return stage, list(self._machine_code(code)) if is_compiled else []

    def _times(self) -> dict[str, float]:
        """µs of each kernel, and of the whole call under ""."""
        if self.values is None:
            return {}
        executable = CpuExecutable(self.lowering.assembled().plan, self.lowering.compiled(), lambda: self.lowering)
        profile = executable.profile(self.values)
        return {"": profile.step, **{k.kernel.partition(" (")[0]: k.time for k in profile.kernels}}

    def _machine_code(self, code: KernelLines) -> Iterator[Stage]:
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


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _kernel_note(name: str, cost: Mapping[str, Any], measured: Mapping[str, float]) -> str:
    parts = []
    if name in cost:
        parts.append(f"{cost[name].flops:,.0f} flops, {cost[name].bytes:,.0f} bytes")
    if name in measured:
        parts.append(f"{measured[name]:,.1f} µs")
    return ", ".join(parts)


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
