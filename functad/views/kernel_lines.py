"""Which equations each line of the generated kernels belongs to, and so each line of machine code.

Knows how kernels name their variables; not how stages are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from functad.backends.cpu.lowering import CpuLowering
from functad.ir import Eqn, Source, Var
from functad.records import NamedTuple


class Line(NamedTuple):
    """A line of a stage.

    mark: "+" if the stage before has no such line, "-" if this one has it no more, "#" for a heading, "" otherwise.
    about: the variables whose equations it belongs to. sources: the user's lines, as "file:line" numbers.
    kernel: of code, the line of the kernels' text, as "k12". note: what stands beside it.
    whole: the kernel, if it belongs to the whole of one: then it is not marked with each of its equations.
    """

    text: str
    mark: str = ""
    about: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    kernel: str = ""
    note: str = ""
    whole: str = ""


class EquationPlaces:
    """Which variables and which of the user's lines equations have.

    names: of variables. files: the numbers of the user's files. by_name: equations by what their results are called.
    """

    def __init__(self, names: Mapping[Var, str]) -> None:
        self.names = names
        self.files: dict[str, int] = {}
        self.by_name: dict[str, Eqn] = {}
        self._first: dict[str, int] = {}  # when each name was first seen
        self._places: dict[tuple[CodeType, int], str] = {}

    def about(self, eqns: Sequence[Eqn]) -> tuple[str, ...]:
        """The names of the results of some equations."""
        return tuple(dict.fromkeys(self.names[v] for e in eqns for v in e.outvars if v in self.names))

    def sources(self, eqns: Sequence[Eqn]) -> tuple[str, ...]:
        """The user's lines that equations come from."""
        return tuple(dict.fromkeys(self._place(e.source) for e in eqns if e.source is not None))

    def see(self, eqn: Eqn) -> tuple[str, ...]:
        """Note an equation; gives the names of its results."""
        names = self.about([eqn])
        for name in names:
            self.by_name[name] = eqn
            self._first.setdefault(name, len(self._first))
        return names

    def names_in(self, word: str, known: Container[str] | None = None) -> tuple[str, ...]:
        """The variable that a name such as `mul_c` or `out_c` ends with. known: where variables are looked for."""
        parts = word.split("_")
        ends = ("_".join(parts[i:]) for i in range(len(parts)))
        return next(((end,) for end in ends if end in (self.by_name if known is None else known)), ())

    def in_order(self, eqns: Sequence[Eqn]) -> list[Eqn]:
        """Equations in the order in which they were first seen."""
        first = self._first
        return sorted(dict.fromkeys(eqns), key=lambda e: min((first.get(n, 0) for n in self.about([e])), default=0))

    def _place(self, source: Source) -> str:
        known = self._places.get((source.code, source.at))
        if known is None:
            number = self.files.setdefault(source.code.co_filename, len(self.files))
            known = self._places[source.code, source.at] = f"{number}:{source.line}"
        return known


class KernelLines:
    """The text of the kernels, and to which equations each of its lines belongs."""

    def __init__(self, lowering: CpuLowering, writer: EquationPlaces) -> None:
        self.text = str(lowering.generated.source).split("\n")
        self.writer = writer
        self.equations = {
            i.function: list(dict.fromkeys(i.step.eqns)) for i in _instructions(lowering.generated.instructions)
        }
        self.has_functions = any(line.startswith("def ") for line in self.text)
        self._everything = {name: writer.about(eqns) for name, eqns in self.equations.items()}
        self._members = {name: frozenset(all_of_it) for name, all_of_it in self._everything.items()}
        self._known: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}  # of lines: about, sources
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
        if number not in self._known:
            about = self.about(number)
            eqns = [self.writer.by_name[name] for name in about if name in self.writer.by_name]
            self._known[number] = about, self.writer.sources(eqns)
        about, sources = self._known[number]
        whole = self.function_of[number] if len(about) > 1 and not text.startswith("def ") else ""
        return Line(text, "", about, sources, f"k{number}", note, whole)

    def about_function(self, name: str) -> tuple[str, ...]:
        return self._everything.get(name, ())

    def about(self, number: int) -> tuple[str, ...]:
        """The variables that a line computes; where its words name none, all of its kernel."""
        function = self.function_of[number]
        everything = self.about_function(function)
        line = self.text[number - 1].strip()
        target = re.match(r"# (\w+):|\w+\[.*\] = (\w+)$|(\w+)(?:\[.*\])? [+\-*]?= ", line)
        if target is None:
            return everything
        word = target[1] or re.sub(r"_\d+$", "", target[2] or target[3])
        found = self.writer.names_in(word, self._members.get(function, ()))
        if not word.startswith("at_"):
            return found or everything
        return found or self.writer.names_in(word)  # a value that another kernel wrote


def _instructions(items: Sequence[Any]) -> Iterator[Any]:
    for item in items:
        if hasattr(item, "function"):
            yield item
        else:
            for part in item.parts:
                yield from _instructions(part)
