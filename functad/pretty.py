"""Printing Programs, in the notation of JAX's jaxprs.

Knows the IR only. A small document language (text, possible line breaks, groups that are laid out on one line
where they fit in the width) decides the line breaks; Wadler, "A prettier printer", 2003.

Shapes:
    No arrays are taken or given.

Raises:
    Nothing of its own.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import count
from types import FunctionType
from typing import Any

import numpy as np

from functad.array import ArrayImpl, value_of
from functad.dtypes import float0, kind_of
from functad.errors import FunctadError
from functad.ir import Atom, Eqn, Literal, Program, Var, set_formatter, subprograms
from functad.records import NamedTuple
from functad.system.once import imported

WIDTH = 80


def program_to_text(
    program: Program,
    source: bool = False,
    *,
    costs: bool = False,
    folded: bool = False,
    constants: bool = False,
    width: int = WIDTH,
    names: MutableMapping[Var, str] | None = None,
    user_names: bool = False,
    use_color: bool | None = False,
) -> str:
    """The Program as text.

    Sub-programs used more than once, or longer than ten equations, are printed first and referred to by name.

    Args:
        source: whether each equation is followed by the user's line that it came from.
        costs: whether it is followed by its floating-point operations, and the bytes that it reads and writes.
        folded: whether Programs within others are only counted. Such a text cannot be read by `parse_program`.
        constants: whether constants are followed by their values, so that `parse_program` needs the text alone.
        width: lines are broken where they would be longer, if they can be.
        names: what variables are called; those that are missing get letters, which are put there. Two stages of a
            Program that are printed with the same dict call the same variable by the same letter.
        user_names: whether inputs are called as the function's arguments are, such as `params['w']`, and results as
            the local variables that they are assigned to.
        use_color: whether words are coloured by ANSI codes; None: where standard output is a terminal, unless the
            environment has NO_COLOR.

    >>> import functad, functad.numpy as jnp
    >>> program = functad.make_jaxpr(lambda x: jnp.sin(x) * 2.)(jnp.ones(3))
    >>> print(functad.program_to_text(program, costs=True, user_names=True))
    { lambda ; x:f32[3]. let
        a:f32[3] = sin x  # 33 flops, 24 bytes
        b:f32[3] = mul a 2.0:f32[]  # 3 flops, 28 bytes
      in (b,) }
    """
    if use_color is None:
        use_color = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    remarks: list[Callable[[Eqn], str]] = []
    if costs:
        cost_of = imported("functad.lowering.costs").cost_of_equation
        remarks.append(lambda eqn: str(cost_of(eqn)))
    if source:
        remarks.append(lambda eqn: str(eqn.source or ""))
    return _Printer(program, remarks, folded, width, names, user_names, use_color, constants).text()


def equation_to_text(eqn: Eqn, names: Mapping[Var, str] | None = None, width: int = WIDTH) -> str:
    """An equation alone, with letters of its own for its variables, operands first.

    names: what they are called instead; one that is missing is a result that nobody reads, `_`.
    """
    operands = list(dict.fromkeys(atom for atom in eqn.invars if isinstance(atom, Var)))
    alone = Program(operands, (), (), [eqn], eqn.outvars)
    # Not all names, for they are many.
    known = None if names is None else {v: names.get(v, "_") for v in (*operands, *eqn.outvars)}
    return _Printer(alone, (), width=width, names=known, folded=names is not None).only_equation()


def call_arguments(program: Program, names: Sequence[str]) -> None:
    """Note what the user calls the inputs of a Program."""
    program.cache["argument names"] = names


# --- documents --------------------------------------------------------------------------------------


class _Break(NamedTuple):
    flat: str  # what it prints where its group fits on the line

    @property
    def width(self) -> int:
        return len(self.flat)


class _Group(NamedTuple):
    """Children on one line, where they fit on it."""

    children: tuple[Any, ...]
    indent: int
    width: float  # of all on one line


class _Indented(NamedTuple):
    """Children one level further to the right; breaks as the enclosing group does."""

    children: tuple[Any, ...]
    indent: int
    width: float


class _Remark(NamedTuple):
    text: str  # takes no width and ends the line
    width: float = float("inf")


class _Painted(NamedTuple):
    text: str
    color: str  # the numbers of an ANSI code

    @property
    def width(self) -> int:
        return len(self.text)

    def __str__(self) -> str:
        return f"\x1b[{self.color}m{self.text}\x1b[0m" if self.text else ""


def _group(*children: Any, indent: int = 0) -> _Group:
    return _Group(children, indent, _width(children))


def _indented(*children: Any, indent: int = 0) -> _Indented:
    return _Indented(children, indent, _width(children))


def _nest(*children: Any) -> _Indented:
    return _indented(*children, indent=2)


def _width(children: Iterable[Any]) -> float:
    return sum([len(child) if isinstance(child, str) else child.width for child in children])


def _layout(doc: Any, width: int) -> str:
    out: list[str] = []
    column = 0
    pending_remark = ""
    stack: list[tuple[Any, int]] = [(doc, 0)]
    while stack:
        item, indent = stack.pop()
        if isinstance(item, str):
            out.append(item)
            column += len(item)
        elif isinstance(item, _Painted):
            out.append(str(item))
            column += item.width
        elif isinstance(item, _Remark):
            pending_remark = item.text
        elif isinstance(item, _Break):
            out.append(f"{pending_remark}\n" + " " * indent)
            pending_remark = ""
            column = indent
        elif isinstance(item, _Group) and item.width <= width - column:
            out += _flat(item)
            column += int(item.width)
        else:
            indent += item.indent
            stack += [(child, indent) for child in reversed(item.children)]
    return "".join(out)


def _flat(doc: Any) -> Iterator[str]:
    """What is printed of something that fits on the line."""
    if isinstance(doc, _Painted):
        yield str(doc)
    elif isinstance(doc, _Break):
        yield doc.flat
    else:
        for child in doc.children:
            yield from (child,) if isinstance(child, str) else _flat(child)


_SPACE = _group(_Break(" "))  # a line ends there only where what follows does not fit on it


def _words(docs: Sequence[Any], space: Any = _SPACE) -> Any:
    """Docs with spaces between them; further lines begin further to the right."""
    if len(docs) == 1 and isinstance(docs[0], str):
        return docs[0]
    return _group(*_join([space], docs), indent=2)


def _join(separator: Sequence[Any], docs: Iterable[Any]) -> Iterator[Any]:
    for i, doc in enumerate(docs):
        if i:
            yield from separator
        yield doc


# --- Programs to documents --------------------------------------------------------------------------


_PRIMITIVE, _DIM, _REMARK = "1;34", "2", "32"  # bold blue, faint, green


class _Printer:
    def __init__(
        self,
        program: Program,
        remarks: Sequence[Callable[[Eqn], str]],
        folded: bool = False,
        width: int = WIDTH,
        names: MutableMapping[Var, str] | None = None,
        user_names: bool = False,
        use_color: bool = False,
        constants: bool = False,
    ) -> None:
        self.program, self.constants = program, constants
        self.remarks, self.folded, self.width, self.use_color = remarks, folded, width, use_color
        self.names: MutableMapping[Var, str] = {} if names is None else names
        self.apart = names is None and not user_names  # variables that two Programs share get letters in each
        self.bound: set[Var] = set()
        if user_names:
            self.names.update(zip(program.invars, program.cache.get("argument names", ())))
            imported("functad.local_names").add_local_names(program, self.names)
        self.unused: set[Var] = set()
        self.shared = {} if folded else _shared_programs(program)
        taken = {*self.shared.values(), *self.names.values()}
        self.fresh = (name for i in count() if (name := letters(i)) not in taken)

    def text(self) -> str:
        _find_unused_outputs(self.program, self.unused, set())
        parts: list[Any] = []
        for program, name in self.shared.items():
            parts += [f"let {name} = ", self.skeleton(program), " in", _Break(" ")]
        parts.append(self.skeleton(self.program))
        return _layout(_indented(*parts), self.width)

    def only_equation(self) -> str:
        self.binders(self.program.invars)
        (eqn,) = self.program.eqns
        return _layout(_group(self.eqn(eqn)), self.width)

    def paint(self, text: str, color: str) -> Any:
        return _Painted(text, color) if self.use_color else text

    def skeleton(self, program: Program) -> _Group:
        elsewhere = self.forget(program)
        constvars = self.binders(program.constvars, program.consts if self.constants else ())
        invars = self.binders(program.invars)
        eqns = [self.eqn(e) for e in program.eqns]
        outs = _group(*_join([",", _SPACE], [self.atom(v) for v in program.outvars]), indent=2)
        closing = ",)" if len(program.outvars) == 1 else ")"
        self.names.update(elsewhere)
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

    def forget(self, program: Program) -> dict[Var, str]:
        """Forget what variables of a Program are called in others that were printed before; returns that."""
        if not self.apart:
            return {}
        own = (*program.invars, *program.constvars, *(v for eqn in program.eqns for v in eqn.outvars))
        elsewhere = {v: self.names.pop(v) for v in own if v in self.bound and v in self.names}
        self.bound.difference_update(elsewhere)
        return elsewhere

    def binders(self, variables: Sequence[Var], values: Sequence[Any] = ()) -> Any:
        names = [self.name(v) for v in variables]  # all at once, before anything else is named
        self.bound.update(variables)
        typed = [self.typed(name, v.aval.str_short()) for name, v in zip(names, variables)]
        if values:
            typed = [_indented(t, *_constant(value)) for t, value in zip(typed, values)]
        return _words(typed)

    def typed(self, text: str, kind: str) -> Any:
        if not self.use_color:
            return f"{text}:{kind}"
        return _indented(text, _Painted(f":{kind}", _DIM))

    def eqn(self, eqn: Eqn) -> _Indented:
        names = sorted(eqn.params, key=lambda n: (n != "name", n))
        elsewhere: dict[Var, str] = {}
        if eqn.primitive.name == "jit":
            inner = eqn.params["jaxpr"]
            if inner not in self.shared:
                elsewhere = self.forget(inner)
                self.name_like(inner.invars, eqn.invars)
                self.name_like(inner.outvars, eqn.outvars)
        left = self.binders(eqn.outvars)
        shown = [(n, _shown(eqn, n)) for n in names if not _is_redundant(eqn, n)]
        breaks = eqn.primitive.name not in _ON_ONE_LINE
        params = self.params(shown, breaks) if shown else ""
        operands = _words([self.atom(v) for v in eqn.invars], _SPACE if breaks else " ")
        said = [text for remark in self.remarks if (text := remark(eqn))]
        remark = [_Remark(str(self.paint(f"  # {'; '.join(said)}", _REMARK)))] if said else []
        equals, name = (" = " if eqn.outvars else ""), self.paint(eqn.primitive.name, _PRIMITIVE)
        self.names.update(elsewhere)
        return _indented(left, equals, name, params, " ", operands, *remark)

    def params(self, pairs: Sequence[tuple[str, Any]], breaks: bool) -> Any:
        if not breaks:
            return f"[{' '.join(f'{key}={value}' for key, value in pairs)}]"
        printed = [_indented(f"{key}=", self.value(value)) for key, value in pairs]
        return _group(_nest("[", _Break(""), *_join([_Break(" ")], printed)), _Break(""), "]")

    def value(self, value: Any) -> Any:
        if isinstance(value, Program):
            return self.reference(value)
        if isinstance(value, tuple) and value and all(isinstance(v, Program) for v in value):
            programs = [self.reference(v) for v in value]
            return _group(_nest("(", _Break(""), *_join([_Break(" ")], programs)), _Break(""), ")")
        return value.__name__ if isinstance(value, FunctionType) else str(value)

    def reference(self, program: Program) -> Any:
        if self.folded:
            return f"{{ … {len(program.eqns)} equations }}"
        return self.shared.get(program) or self.skeleton(program)

    def atom(self, atom: Atom) -> Any:
        if isinstance(atom, Literal):
            return self.typed(literal_text(atom.value), atom.aval.str_short())
        return self.name(atom)

    def name(self, var: Var) -> str:
        if var in self.unused:
            return "_"
        if var not in self.names:
            self.names[var] = next(self.fresh)
        return self.names[var]

    def name_like(self, variables: Sequence[Atom], like: Sequence[Atom]) -> None:
        """Inside a called Program, call the variables as its operands and results are called outside."""
        used: set[Var] = set()
        for inner, outer in zip(variables, like):
            if not (isinstance(inner, Var) and isinstance(outer, Var)) or outer in self.unused:
                continue  # what nobody reads outside is a result inside
            if inner not in self.names and outer not in used:
                used.add(outer)
                self.names[inner] = self.name(outer)


_PLAIN = r"<?[\w.]+>?"
_ON_ONE_LINE = ("dot_general", "conv_general_dilated")


def _shown(eqn: Eqn, name: str) -> Any:
    """A parameter as it is printed: JAX writes axes of `dot_general` as lists; those of convolutions are letters.

    Names that users give are quoted where they could not be told from what follows.
    """
    value = eqn.params[name]
    if name == "name" and isinstance(value, str) and not re.fullmatch(_PLAIN, value):
        return repr(value)
    if name == "dimension_numbers" and eqn.primitive.name == "dot_general":
        return tuple(tuple(list(axes) for axes in pair) for pair in value)
    if name == "dimension_numbers" and eqn.primitive.name == "conv_general_dilated":
        return tuple(axes_as_letters(spec, first) for spec, first in zip(value, ("NC", "OI", "NC")))
    return value


def axes_as_letters(spec: Sequence[int], first: str) -> str:
    """Which axis of a convolution's array is what, as users write it: NHWC.

    >>> axes_as_letters((0, 3, 1, 2), "NC")
    'NHWC'
    """
    spatial = len(spec) - 2
    letters_of = first + (spatial_letters(spatial))
    return "".join(letters_of[spec.index(axis)] for axis in range(len(spec)))


def spatial_letters(rank: int) -> str:
    """What the spatial axes of a convolution are called: D, H and W, or digits if there are more."""
    return "DHW"[3 - rank :] if rank <= 3 else "".join(chr(ord("0") + i) for i in range(rank))


def _is_redundant(eqn: Eqn, name: str) -> bool:
    """What the equation says anyway: the shape of a broadcast, the dtype of a product, steps of 1, `linear=False`."""
    if eqn.primitive.name == "dot_general" and name in ("precision", "preferred_element_type"):
        return bool(eqn.params[name] == (None if name == "precision" else eqn.outvars[0].aval.dtype))
    if eqn.primitive.name == "conv_general_dilated":
        if name == "preferred_element_type":
            return eqn.params[name] is None
        if name.endswith(("_dilation", "_count")):
            return bool(np.all(np.equal(eqn.params[name], 1)))
    if name == "num_consts" and "call_jaxpr" in eqn.params:
        return eqn.params[name] == 0
    if name == "linear":
        return not eqn.params[name]
    return eqn.primitive.name == "broadcast_in_dim" and (name == "shape" or eqn.params[name] == ())


def _constant(value: Any) -> Iterator[Any]:
    """What is written behind a variable that has a value: `=`, and the value's numbers in lists; nothing if unknown."""
    try:
        array = value_of(value) if isinstance(value, (ArrayImpl, np.ndarray, np.generic)) else None
    except FunctadError:  # it was donated, or is not in the text that a Program was read from
        array = None
    if array is not None:
        yield "="
        yield _numbers(array)


def _numbers(array: np.ndarray) -> Any:
    if array.ndim == 0:
        return literal_text(array[()])
    return _group("[", *_join([",", _SPACE], map(_numbers, array)), "]", indent=2)


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
    return text if text.isascii() and text.isidentifier() else str(imported("json").dumps(text)[1:-1])


def _number_of(word: str) -> int:
    return sum((ord(letter) - ord("a")) * 26**k for k, letter in enumerate(reversed(word)))


_NO_LETTERS = [_number_of(word) for word in ("in", "inf", "nan")]


def letters(i: int) -> str:
    """a, b, …, z, ba, bb, …: i in base 26, without `in`, which ends a Program's equations, and words that are numbers.

    >>> letters(1), letters(26), letters(220), letters(221)
    ('b', 'ba', 'im', 'io')
    """
    for number in _NO_LETTERS:
        i += i >= number
    text = ""
    while True:
        i, digit = divmod(i, 26)
        text = chr(ord("a") + digit) + text
        if not i:
            return text


def _find_unused_outputs(program: Program, unused: set[Var], seen: set[Program]) -> None:
    if program in seen:
        return
    seen.add(program)
    used = {a for e in program.eqns for a in e.invars if isinstance(a, Var)}
    used.update(a for a in program.outvars if isinstance(a, Var))
    for eqn in program.eqns:
        unused.update(v for v in eqn.outvars if v not in used)
        for inner in subprograms(eqn.params):
            _find_unused_outputs(inner, unused, seen)


def _shared_programs(program: Program) -> dict[Program, str]:
    """Names for the sub-programs that are used twice or are long, each after those that it has itself."""
    uses: Counter[Program] = Counter()
    suggested: dict[Program, str] = {}

    def visit(current: Program) -> None:
        for eqn in current.eqns:
            for inner in subprograms(dict(sorted(eqn.params.items()))):  # in the order in which they print
                uses[inner] += 1
                if uses[inner] == 1:
                    visit(inner)
                    suggested[inner] = _as_variable(str(eqn.params.get("name", "jaxpr")))

    visit(program)
    taken: Counter[str] = Counter()
    shared: dict[Program, str] = {}
    for inner, base in suggested.items():
        if uses[inner] > 1 or len(inner.eqns) > 10:
            shared[inner] = f"{base}{taken[base]}" if taken[base] else base
            taken[base] += 1
    return shared


def _as_variable(name: str) -> str:
    """What a function is called, as a name that can be read: a user may give functions any."""
    name = name.strip("<>")
    return name if name.isidentifier() else "".join(c if f"_{c}".isidentifier() else "_" for c in f"_{name}")


set_formatter(program_to_text, equation_to_text)
