"""Printing Programs, in the notation of JAX's jaxprs.

Knows the IR only. A small document language (text, possible line breaks, groups that are laid out on one line
where they fit in 80 columns) decides the line breaks; Wadler, "A prettier printer", 2003.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from functad.dtypes import float0, kind_of
from functad.ir import Atom, Eqn, Literal, Program, Var, set_formatter, subprograms
from functad.system.once import imported

WIDTH = 80


def program_to_text(program: Program, source: bool = False) -> str:
    """The Program as text; with `source` each equation is followed by the user's line it came from.

    Sub-programs used more than once, or longer than ten equations, are printed first and referred to by name.
    """
    return _Printer(program, source).text()


def equation_to_text(eqn: Eqn) -> str:
    """An equation alone, with letters of its own for its variables, operands first."""
    operands = list(dict.fromkeys(atom for atom in eqn.invars if isinstance(atom, Var)))
    return _Printer(Program(operands, (), (), [eqn], eqn.outvars), False).only_equation()


def variable_names(program: Program) -> dict[Var, str]:
    """The letters of a Program's variables as it prints, those of Programs within it included."""
    printer = _Printer(program, False)
    printer.text()
    return printer.names


# --- documents --------------------------------------------------------------------------------------


class _Break(NamedTuple):
    flat: str  # what it prints where its group fits on the line


class _Group(NamedTuple):
    children: tuple[Any, ...]
    indent: int


class _Remark(NamedTuple):
    text: str  # takes no width and ends the line


def _group(*children: Any, indent: int = 0) -> _Group:
    return _Group(children, indent)


def _layout(doc: Any, width: int) -> str:
    out: list[str] = []
    column = 0
    pending_remark = ""
    stack: list[tuple[Any, int, bool]] = [(doc, 0, False)]
    while stack:
        item, indent, flat = stack.pop()
        if isinstance(item, str):
            out.append(item)
            column += len(item)
        elif isinstance(item, _Remark):
            pending_remark = item.text
        elif isinstance(item, _Break):
            if flat:
                out.append(item.flat)
                column += len(item.flat)
            else:
                out.append(f"{pending_remark}\n" + " " * indent)
                pending_remark = ""
                column = indent
        elif isinstance(item, _Indented):
            stack.extend((child, indent + item.indent, flat) for child in reversed(item.children))
        else:
            flat = flat or _flat_width(item) <= width - column
            stack.extend((child, indent + item.indent, flat) for child in reversed(item.children))
    return "".join(out)


class _Indented(NamedTuple):
    """Children one level further to the right; breaks as the enclosing group does."""

    children: tuple[Any, ...]
    indent: int


def _nest(*children: Any) -> _Indented:
    return _Indented(children, 2)


def _flat_width(doc: Any) -> float:
    if isinstance(doc, str):
        return len(doc)
    if isinstance(doc, _Break):
        return len(doc.flat)
    if isinstance(doc, _Remark):
        return float("inf")
    return sum(_flat_width(child) for child in doc.children)


def _join(separator: Sequence[Any], docs: Iterable[Any]) -> Iterator[Any]:
    for i, doc in enumerate(docs):
        if i:
            yield from separator
        yield doc


# --- Programs to documents --------------------------------------------------------------------------


class _Printer:
    def __init__(self, program: Program, source: bool) -> None:
        self.program = program
        self.source = source
        self.names: dict[Var, str] = {}
        self.shared = _shared_programs(program)
        taken = set(self.shared.values())
        self.fresh = (name for i in count() if (name := letters(i)) not in taken)

    def text(self) -> str:
        _name_unused_outputs(self.program, self.names, set())
        parts: list[Any] = []
        for program, name in self.shared.items():
            parts += [f"let {name} = ", self.skeleton(program), " in", _Break(" ")]
        parts.append(self.skeleton(self.program))
        return _layout(_Indented(tuple(parts), 0), WIDTH)

    def only_equation(self) -> str:
        self.binders(self.program.invars)
        (eqn,) = self.program.eqns
        return _layout(_group(self.eqn(eqn)), WIDTH)

    def skeleton(self, program: Program) -> _Group:
        constvars = self.binders(program.constvars)
        invars = self.binders(program.invars)
        eqns = [self.eqn(e) for e in program.eqns]
        outs = _group(*_join([",", _group(_Break(" "))], [self.atom(v) for v in program.outvars]), indent=2)
        closing = ",)" if len(program.outvars) == 1 else ")"
        return _group(
            _nest(
                "{ lambda ",
                constvars,
                "; ",
                invars,
                ". let",
                _nest(_Break(" "), *_join([_Break("; ")], eqns)),
                _Break(" "),
                "in (",
                outs,
                closing,
            ),
            " }",
        )

    def binders(self, variables: Sequence[Var]) -> _Group:
        typed = [f"{self.name(v)}:{v.aval.str_short()}" for v in variables]
        return _group(*_join([_group(_Break(" "))], typed), indent=2)

    def eqn(self, eqn: Eqn) -> _Indented:
        names = sorted(eqn.params, key=lambda n: (n != "name", n))
        if eqn.primitive.name == "jit":
            inner = eqn.params["jaxpr"]
            if inner not in self.shared:
                self.name_like(inner.invars, eqn.invars)
                self.name_like(inner.outvars, eqn.outvars)
        left = self.binders(eqn.outvars)
        shown = [(n, _shown(eqn, n)) for n in names if not _is_redundant(eqn, n)]
        params = self.params(shown) if shown else ""
        operands = _group(*_join([_group(_Break(" "))], [self.atom(v) for v in eqn.invars]), indent=2)
        remark = [_Remark(f"  # {eqn.source}")] if self.source and eqn.source else []
        equals = " = " if eqn.outvars else ""
        return _Indented((left, f"{equals}{eqn.primitive.name}", params, " ", operands, *remark), 0)

    def params(self, pairs: Sequence[tuple[str, Any]]) -> _Group:
        printed = [_Indented((f"{key}=", self.value(value)), 0) for key, value in pairs]
        return _group(_nest("[", _Break(""), *_join([_Break(" ")], printed)), _Break(""), "]")

    def value(self, value: Any) -> Any:
        if isinstance(value, Program):
            return self.reference(value)
        if isinstance(value, tuple) and value and all(isinstance(v, Program) for v in value):
            programs = [self.reference(v) for v in value]
            return _group(_nest("(", _Break(""), *_join([_Break(" ")], programs)), _Break(""), ")")
        return str(value)

    def reference(self, program: Program) -> Any:
        return self.shared.get(program) or self.skeleton(program)

    def atom(self, atom: Atom) -> str:
        if isinstance(atom, Literal):
            return f"{literal_text(atom.value)}:{atom.aval.str_short()}"
        return self.name(atom)

    def name(self, var: Var) -> str:
        if var not in self.names:
            self.names[var] = next(self.fresh)
        return self.names[var]

    def name_like(self, variables: Sequence[Atom], like: Sequence[Atom]) -> None:
        """Inside a called Program, call the variables as its operands and results are called outside."""
        used: set[Var] = set()
        for inner, outer in zip(variables, like):
            if isinstance(inner, Var) and isinstance(outer, Var) and inner not in self.names and outer not in used:
                used.add(outer)
                self.names[inner] = self.name(outer)


def _shown(eqn: Eqn, name: str) -> Any:
    """A parameter as it is printed: JAX writes the axes of `dot_general` as lists."""
    value = eqn.params[name]
    if eqn.primitive.name == "dot_general" and name == "dimension_numbers":
        return tuple(tuple(list(axes) for axes in pair) for pair in value)
    return value


def _is_redundant(eqn: Eqn, name: str) -> bool:
    """What the equation says anyway: the shape of a broadcast, the default dtype of a product, `linear=False`."""
    if eqn.primitive.name == "dot_general" and name == "preferred_element_type":
        return eqn.params[name] is None
    if name == "num_consts" and "call_jaxpr" in eqn.params:
        return eqn.params[name] == 0
    if name == "linear":
        return not eqn.params[name]
    return eqn.primitive.name == "broadcast_in_dim" and (name == "shape" or eqn.params[name] == ())


def literal_text(value: Any) -> str:
    """A scalar constant as Python would write it, with as many digits as its dtype tells apart."""
    if np.asarray(value).dtype == float0:
        return "0"
    return str(float(str(value)) if kind_of(np.asarray(value).dtype) == "f" else np.asarray(value).item())


def escaped(text: str) -> str:
    """What a user named, as part of a string literal: no quotation mark, backslash or line break is left as it is.

    >>> print(escaped('a "b" \\n'))
    a \\"b\\" \\n
    """
    return str(imported("json").dumps(text)[1:-1])


def letters(i: int) -> str:
    """a, b, …, z, ba, bb, …: i in base 26."""
    text = ""
    while True:
        i, digit = divmod(i, 26)
        text = chr(ord("a") + digit) + text
        if not i:
            return text


def _name_unused_outputs(program: Program, names: dict[Var, str], seen: set[Program]) -> None:
    if program in seen:
        return
    seen.add(program)
    used = {a for e in program.eqns for a in e.invars if isinstance(a, Var)}
    used.update(a for a in program.outvars if isinstance(a, Var))
    for eqn in program.eqns:
        names.update((v, "_") for v in eqn.outvars if v not in used)
        for inner in subprograms(eqn.params):
            _name_unused_outputs(inner, names, seen)


def _shared_programs(program: Program) -> dict[Program, str]:
    """Names for the sub-programs that are used twice or are long."""
    uses: Counter[Program] = Counter()
    suggested: dict[Program, str] = {}
    waiting = [program]
    while waiting:
        current = waiting.pop(0)
        uses[current] += 2 if current is not program and len(current.eqns) > 10 else 1
        for eqn in current.eqns:
            for inner in subprograms(eqn.params):
                waiting.append(inner)
                suggested.setdefault(inner, str(eqn.params.get("name", "jaxpr")).strip("<>"))
    taken: Counter[str] = Counter()
    shared: dict[Program, str] = {}
    for inner, n in uses.items():
        if n > 1 and inner is not program:
            base = suggested[inner]
            shared[inner] = f"{base}{taken[base]}" if taken[base] else base
            taken[base] += 1
    return shared


set_formatter(program_to_text, equation_to_text)
