"""Equations as the text of one Python function, which calls what NumPy runs for each.

Knows equations with one result each, and that what runs once is not worth printing; not what the function is for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from functad.array import ArrayImpl
from functad.evaluation import implementation
from functad.ir import Atom, Eqn, Literal, Program, Var
from functad.observing import observed
from functad.tracing import is_tracer, trace_to_program


class PrintedOnReuse:
    """What is printed of a function for one signature: nothing when it is met for the first time.

    function: what is called from the second time on; None before.
    """

    __slots__ = ("function", "is_met")

    def __init__(self) -> None:
        self.function: Callable[..., Any] | None = None
        self.is_met = False

    def met(self, to_print: Callable[..., Callable[..., Any]], *args: Any) -> Callable[..., Any] | None:
        """The function, if there is one by now: what `to_print(*args)` gives, which is called once."""
        if self.function is None and self.is_met:
            self.function = to_print(*args)
        self.is_met = True
        return self.function


def recorded(fun: Callable[..., Sequence[Any]], avals: Sequence[Any], name: str) -> Program | None:
    """The Program of a function that is made of operations with one result each, if all it gives are their results."""
    found: list[Any] = []

    def results(*values: Any) -> list[Any]:
        found.extend(fun(*values))
        return found if all(map(is_tracer, found)) else []

    with observed(None):
        program = trace_to_program(results, avals, name=name)
    plain = all(not (e.primitive.multiple_results or e.primitive.runs_functions) for e in program.eqns)
    return program if program.outvars and plain and not program.constvars else None


def printed(
    operands: Sequence[Var],
    eqns: Sequence[Eqn],
    results: Sequence[Atom],
    form: Callable[[list[str]], str],
    *,
    value: str = "",
    otherwise: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """A function of `operands`, ndarrays or NumPy scalars.

    Args:
        form: makes what the function returns of the texts of `results`.
        value: how the elements of an Array are read, if there may be Arrays among the operands.
        otherwise: a function of the same operands that is called if there is no memory, to say what there is none for.
    """
    uses = Counter([*results, *(a for e in eqns for a in e.invars)])
    text = _Text(operands, uses)
    for i, eqn in enumerate(eqns):
        text.add(i, eqn)
    text.finish(results, form)
    names = [f"x{i}" for i in range(len(operands))]
    parameters = ", ".join(names)
    read = [f"if type({x}) is Array: {x} = {x}{value}" for x, v in zip(names, operands) if value and uses[v]]
    lines = [*read, *text.lines]
    if otherwise:
        tried = [f"    {line}" for line in lines]
        lines = ["try:", *tried, "except MemoryError:", f"    return otherwise({parameters})"]
    namespace = {"Array": ArrayImpl, "otherwise": otherwise, **text.namespace}
    exec(compile("\n    ".join([f"def function({parameters}):", *lines]), "<a printed function>", "exec"), namespace)
    function: Callable[..., Any] = namespace["function"]
    return function


def in_brackets(texts: Sequence[str]) -> str:
    """The `form` of a list."""
    return f"[{', '.join(texts)}]"


_DEEPEST = 50  # calls within calls; Python reads at most 200


class _Text:
    """The body of a function, line by line: operations in their order, as calls within calls.

    A result that is read once, by the next that is written, stands where it is read. The others have names, which are
    deleted when they have been read: so no result is held for longer than by the operations, one after another.
    Operands are held until the end, as `otherwise` may need them.
    """

    def __init__(self, operands: Sequence[Var], uses: Counter[Atom]) -> None:
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {}
        self._texts: dict[Atom, str] = {v: f"x{i}" for i, v in enumerate(operands)}
        self._uses = uses
        self._names: dict[Atom, set[str]] = {}  # those of results in a text
        self._last: dict[str, int] = {}  # the last line in which a name is read
        self._nameless: list[Atom] = []  # results that stand in no line yet, in their order
        self._depths: dict[Atom, int] = {}  # of the calls in a text, where it has no name

    def add(self, i: int, eqn: Eqn) -> None:
        """Write equation `i`."""
        run, (result,) = implementation(eqn.primitive, [a.aval.dtype for a in eqn.invars]), eqn.outvars
        name = f"{eqn.primitive.name.replace('-', '_')}_{i}"
        self.namespace[name] = partial(run, **eqn.params) if eqn.params else run
        arguments = self.read(eqn.invars)
        self._depths[result] = depth = 1 + max([self._depths.get(a, 0) for a in eqn.invars], default=0)
        self._texts[result] = f"{name}({', '.join(arguments)})"
        self._names[result] = self._names_in(eqn.invars)
        if self._uses[result]:
            self._nameless.append(result)
        if self._uses[result] > 1 or depth == _DEEPEST:
            self._give_names()

    def read(self, atoms: Sequence[Atom]) -> list[str]:
        """The texts of what is read next."""
        read = [a for a in atoms if a in self._nameless]
        first = len(self._nameless) - len(read)
        if self._nameless[first:] == read:
            del self._nameless[first:]
        else:
            self._give_names()
        return [self._text_of(a) for a in atoms]

    def finish(self, results: Sequence[Atom], form: Callable[[list[str]], str]) -> None:
        texts = self.read(results)
        for name in self._last.keys() - self._names_in(results):
            self.lines[self._last[name]] += f"; del {name}"
        self.lines.append(f"return {form(texts)}")

    def _give_names(self) -> None:
        for result in self._nameless:
            name = f"y{len(self.lines)}"
            self._last.update(dict.fromkeys(self._names[result], len(self.lines)))
            self.lines.append(f"{name} = {self._texts[result]}")
            self._texts[result], self._names[result], self._depths[result] = name, {name}, 0
        self._nameless.clear()

    def _names_in(self, atoms: Sequence[Atom]) -> set[str]:
        return set().union(*[self._names.get(a, ()) for a in atoms])

    def _text_of(self, atom: Atom) -> str:
        if not isinstance(atom, Literal):
            return self._texts[atom]
        name = f"number{len(self.namespace)}"
        self.namespace[name] = atom.value
        return name
