"""Programs from their text: the inverse of printing, so that a Program can be written by hand.

Knows the notation of `pretty.py`. Types of results are worked out by shape rules and compared with those written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from functad import dtypes
from functad.array import ArrayImpl, DonatedArray, class_for
from functad.device_arrays import DevicePlace
from functad.errors import FunctadError, ProgramError, close_names
from functad.evaluation import infer_avals
from functad.ir import (
    UNKNOWN,
    Atom,
    Aval,
    Eqn,
    Literal,
    Primitive,
    Program,
    Source,
    Var,
    check_program,
    registry,
)
from functad.layouts import device_named
from functad.pretty import spatial_letters
from functad.primitive_record import own_primitives
from functad.primitives.arithmetic import RoundingMethod
from functad.primitives.convolution import ConvDimensionNumbers
from functad.primitives.dimension_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from functad.primitives.fourier import FftType
from functad.user_source import user_source


def program_of_text(text: str, consts: Sequence[Any] = ()) -> Program:
    """What `functad.parse_program` gives."""
    source = user_source()  # of the whole text, so that no variable of that line is what an equation gives
    reader = _Reader(
        text,
        source and source.of_derived(),
        [np.asarray(c) if isinstance(c, (bool, int, float, complex)) else c for c in consts],
    )
    program = reader.whole()
    with suppress(_NotSaidError):  # types that only a function knows; constants come first, all else has been checked
        check_program(program)
    return program


class _NotSaidError(ProgramError):
    """Something is asked for that a text only names."""


class _UnsaidArray(DonatedArray):
    """A constant of which the text tells the type alone; whoever asks for its elements is told that."""

    __slots__ = ()

    def __init__(self, aval: Aval) -> None:
        self._aval, self.weak_type = aval, False

    @property
    def _value(self) -> np.ndarray:  # type: ignore[override]
        raise ProgramError(
            f"the Program was read from text, which names a constant of type {self.aval.str_short()} but does not say "
            "its value: functad.program_to_text(program, constants=True) writes values into the text"
        )

    def __repr__(self) -> str:
        return f"<constant of type {self.aval.str_short()} that the text does not say>"

    __str__ = __repr__


class _Word(str):
    """What stands for something that a text cannot say; calling it, or asking it for a rule, raises."""

    def __call__(self, *args: Any, **params: Any) -> NoReturn:
        self._fail()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        self._fail()

    def _fail(self) -> NoReturn:
        raise _NotSaidError(
            f"the Program was read from text, which names {str(self)!r} but does not hold it: "
            "trace the function that makes it with functad.make_jaxpr"
        )


_RECORDS: dict[str, Callable[..., Any]] = {
    record.__name__: record
    for record in (ConvDimensionNumbers, DevicePlace, GatherDimensionNumbers, ScatterDimensionNumbers)
} | {
    f"{kind.capitalize()}Device": lambda id, kind=kind: device_named(f"{kind}:{id}", "parse_program")
    for kind in ("cpu", "cuda")
}
_NUMBERED: dict[str, Callable[..., Any]] = {"fft_type": FftType, "rounding_method": RoundingMethod}
"""Parameters of which the number is printed."""
_WORDS = {"None": None, "True": True, "False": False, "?": UNKNOWN}
_SHORT_NAMES = {name: dtype for dtype, name in dtypes.SHORT_NAMES.items()}
_LONG_NAMES = {dtype.name: dtype for dtype in dtypes.SUPPORTED}
_UNSAID: dict[str, dict[str, Any]] = {
    "broadcast_in_dim": {"broadcast_dimensions": ()},
    "scan": {"linear": False},
}
"""Parameters that printing leaves out where they have these values, as it does `num_consts=0` beside a `call_jaxpr`."""

_SPACE = re.compile(r"(\s+|#[^\n]*)*")
_NAME = re.compile(r"[^\W\d]\w*")
_PRIMITIVE = re.compile(r"[A-Za-z_][\w-]*")
_KEY = re.compile(r"([A-Za-z_]\w*)=")
_NUMBER = re.compile(r"\([^)\s]*\)|[^\s,;()\[\]{}]+")
_LITERAL = re.compile(r"([^\s:]+):(?=\w+\[\])")
_RESULT = re.compile(r"([^\W\d]\w*):(?=(key<fry>|\w+)\[)")
_END = re.compile(r"in\s*\(")
_QUOTED = re.compile(r"'(\\.|[^'\\])*'|\"(\\.|[^\"\\])*\"")
_TYPE = re.compile(r"(key<fry>|\w+)\[([\d,?]*)\]")
_TYPED = re.compile(r"([^\W\d]\w*):(key<fry>|\w+)\[([\d,?]*)\]")
_LONG_TYPE = re.compile(r"Aval\(([\w<>]+)\[([\d,?]*)\](, weak_type=True)?\)")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class _Reader:
    """Reads a text from its start. source: the line that all equations are said to come from."""

    def __init__(self, text: str, source: Source | None, consts: Sequence[Any]) -> None:
        self.text = text
        self.source = source
        self.consts = consts
        self.at = 0
        self.shared: dict[str, Program] = {}

    # ---- words

    def fail(self, problem: str, at: int | None = None) -> NoReturn:
        at = self.at if at is None else at
        start = self.text.rfind("\n", 0, at) + 1
        line = self.text[start:].partition("\n")[0]
        number = self.text.count("\n", 0, at) + 1
        raise ProgramError(f"line {number}: {problem}\n    {line}\n    {' ' * (at - start)}^")

    def skip_space(self) -> None:
        if "#" < self.text[self.at : self.at + 1] < "\x7f":  # for speed: it is neither space nor a comment
            return
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def sees(self, word: str) -> bool:
        """Whether a word comes next."""
        self.skip_space()
        if not self.text.startswith(word, self.at):
            return False
        end = self.at + len(word)
        return not (word[-1].isalnum() and self.text[end : end + 1].isalnum())

    def takes(self, word: str) -> bool:
        """Go past a word, if it comes next."""
        if self.sees(word):
            self.at += len(word)
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.takes(word):
            self.fail(f"`{word}` is expected here")

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        self.skip_space()
        found = pattern.match(self.text, self.at)
        if found is None:
            self.fail(f"{what} is expected here")
        self.at = found.end()
        return found

    # ---- Programs

    def whole(self) -> Program:
        while self.takes("let"):
            name = self.match(_NAME, "the name of a Program")[0]
            self.expect("=")
            self.shared[name] = self.program(name)
            self.expect("in")
        program = self.program("program", self.consts)
        self.skip_space()
        if self.at < len(self.text):
            self.fail("the Program has ended here, but more follows")
        return program

    def program(self, name: str, consts: Sequence[Any] | None = None) -> Program:
        start = self.at
        self.expect("{")
        self.expect("lambda")
        known: dict[str, Var] = {}
        constvars, values = self.constants(known, start, consts)
        invars = self.binders(known, ".")
        self.expect(".")
        self.expect("let")
        eqns = []
        while not self.ends_equations():
            eqns.append(self.eqn(known))
            self.takes(";")
        self.expect("in")
        self.expect("(")
        outvars = []
        while not self.takes(")"):
            outvars.append(self.atom(known))
            self.takes(",")
        self.expect("}")
        return Program(invars, constvars, values, eqns, outvars, name)

    def constants(self, known: dict[str, Var], start: int, given: Sequence[Any] | None) -> tuple[list[Var], list[Any]]:
        """Variables before the `;`, with the values that are written behind them, or else given.

        given: None for a Program within another, of which values that are not written remain unknown.
        """
        found: list[Var] = []
        values: list[Any] = []
        while not self.takes(";"):
            name, aval, at = self.typed_name()
            found.append(self.define(name, aval, known, at))
            values.append(self.array(aval) if self.takes("=") else None)
        unsaid = [i for i, value in enumerate(values) if value is None]
        if given is None:
            given = [_UnsaidArray(found[i].aval) for i in unsaid]
        if len(unsaid) != len(given):
            self.fail(
                f"{len(unsaid)} constants are named, {len(given)} values were given: parse_program(text, consts) takes "
                "one for each, unless the text says them, as functad.program_to_text(program, constants=True) does",
                start,
            )
        for i, value in zip(unsaid, given):
            values[i] = value
        return found, values

    def array(self, aval: Aval) -> ArrayImpl:
        """The numbers of an array, in lists, one for each axis."""
        numbers: list[Any] = []
        stored = Aval((), dtypes.stored_as(aval.dtype))
        self.skip_space()
        start, depth = self.at, 0
        while depth or not numbers and self.at == start:
            if self.takes("["):
                depth += 1
            elif self.takes("]"):
                depth -= 1
                self.takes(",")
            else:
                at = self.at
                numbers.append(self.literal(self.match(_NUMBER, "a number")[0], stored, at).value)
                self.takes(",")
        if len(numbers) != aval.size:
            self.fail(f"{aval.str_short()} has {aval.size} elements, but {len(numbers)} are written", start)
        return class_for(aval)(np.array(numbers, stored.dtype).reshape(aval.shape))

    def binders(self, known: dict[str, Var], end: str) -> list[Var]:
        """Variables with their types, up to a word."""
        return [self.define(name, aval, known, at) for name, aval, at in self.typed_names(end)]

    def typed_names(self, end: str) -> list[tuple[str, Aval, int]]:
        found = []
        while not self.sees(end):
            found.append(self.typed_name())
        return found

    def typed_name(self) -> tuple[str, Aval, int]:
        self.skip_space()
        at = self.at
        if found := _TYPED.match(self.text, at):  # for speed: all at once
            self.at = found.end()
            return found[1], Aval(_shape(found[3]), self.dtype(found[2], _SHORT_NAMES, found.start(2))), at
        name = self.match(_NAME, "a variable with its type, such as `x:f32[3]`,")[0]
        self.expect(":")
        return name, self.aval(), at

    def define(self, name: str, aval: Aval, known: dict[str, Var], at: int) -> Var:
        var = Var(aval)
        if name != "_":
            if name in known:
                self.fail(f"`{name}` is assigned for the second time", at)
            known[name] = var
        return var

    def aval(self) -> Aval:
        found = self.match(_TYPE, "a type such as `f32[2,3]`")
        return Aval(_shape(found[2]), self.dtype(found[1], _SHORT_NAMES, found.start()))

    def dtype(self, name: str, names: dict[str, np.dtype], at: int) -> np.dtype:
        if name in ("bf16", "bfloat16"):
            return dtypes.bfloat16_dtype()
        if name not in names:
            near = close_names(name, names) or list(names)
            self.fail(f"no dtype is written `{name}`; there is `{'`, `'.join(near)}`", at)
        return names[name]

    # ---- equations

    def eqn(self, known: dict[str, Var]) -> Eqn:
        typed = self.typed_names("=") if self.has_results() else []
        if typed:
            self.expect("=")
        self.skip_space()
        at = self.at
        name = self.match(_PRIMITIVE, "the name of a primitive")[0]
        primitive = _primitive(name)
        if primitive is None:
            near = close_names(name, registry)
            hint = f"; did you mean `{'`, `'.join(near)}`?" if near else ""
            self.fail(f"no primitive is called `{name}`{hint}", at)
        params = self.params(name) if self.text.startswith("[", self.at) else {}
        params = {**_unsaid(primitive, params, [aval for _, aval, _ in typed]), **params}
        operands = self.operands(known)
        avals = self.result_avals(primitive, operands, params, [aval for _, aval, _ in typed], at)
        if len(avals) != len(typed):
            self.fail(f"`{name}` has {len(avals)} results, {len(typed)} are named", at)
        for (result, written, at), found in zip(typed, avals):
            if not written.same_type(found):
                self.fail(f"`{result}` is {found.str_short()}, not {written.str_short()}", at)
        outvars = [self.define(result, aval, known, at) for (result, _, at), aval in zip(typed, avals)]
        return Eqn(primitive, operands, params, outvars, self.source)

    def has_results(self) -> bool:
        """Whether an equation begins with variables: one that is only done for its effect begins with its primitive."""
        self.skip_space()
        return _RESULT.match(self.text, self.at) is not None

    def result_avals(
        self,
        primitive: Primitive,
        operands: Sequence[Atom],
        params: dict[str, Any],
        written: Sequence[Aval],
        at: int,
    ) -> Sequence[Aval]:
        """The types of an equation's results; as they are written where only a function knows them."""
        try:
            return infer_avals(primitive, [atom.aval for atom in operands], params)
        except _NotSaidError:
            return written
        except FunctadError as error:
            self.fail(f"`{primitive.name}`: {error}", at)
        except Exception as error:  # shape rules look at parameters that are wrong as if they were right
            self.fail(f"`{primitive.name}` does not take these operands and parameters: {error!r}", at)

    def operands(self, known: dict[str, Var]) -> list[Atom]:
        """Variables and literals up to the end of the equation: the next one, or `in`, or `;`."""
        found = []
        while not (self.sees(";") or self.ends_equations() or self.begins_equation()):
            found.append(self.atom(known))
        return found

    def begins_equation(self) -> bool:
        """Whether a new equation begins: by a result with its type, or by a primitive that has parameters."""
        result = _RESULT.match(self.text, self.at)
        name = _PRIMITIVE.match(self.text, self.at)
        calls = (
            name is not None
            and self.text.startswith("[", name.end())
            and (name[0] in registry or name[0] in own_primitives)
        )
        return calls or (result is not None and result[1] not in _NUMBERS)

    def ends_equations(self) -> bool:
        self.skip_space()
        return self.at >= len(self.text) or _END.match(self.text, self.at) is not None

    def atom(self, known: dict[str, Var]) -> Atom:
        self.skip_space()
        at = self.at
        if literal := _LITERAL.match(self.text, at):
            self.at = literal.end()
            return self.literal(literal[1], self.aval(), at)
        name = self.match(_NAME, "a variable, or a number with its type such as `1.0:f32[]`,")[0]
        if name not in known:
            near = close_names(name, known)
            hint = f"; did you mean `{'`, `'.join(near)}`?" if near else ""
            self.fail(f"`{name}` is used, but nothing before has that name{hint}", at)
        return known[name]

    def literal(self, number: str, aval: Aval, at: int) -> Literal:
        try:
            value = _NUMBERS[number] if number in _NUMBERS else _number(number)
            if aval.dtype == dtypes.float0 and value == 0:
                return Literal(np.zeros((), dtypes.float0), aval)
            made = aval.dtype.type(value)
            if dtypes.kind_of(aval.dtype) in "fc" or made == value:
                return Literal(made, aval)
        except (ValueError, TypeError, SyntaxError, OverflowError):
            pass
        self.fail(f"`{number}` is no number of type {aval.str_short()}", at)

    # ---- parameters

    def params(self, primitive: str) -> dict[str, Any]:
        self.expect("[")
        found: dict[str, Any] = {}
        while not self.takes("]"):
            key = self.match(_KEY, "a parameter such as `axes=(0,)`, or `]`,")[1]
            at = self.at
            value = self.name() if key == "name" else self.value(found.get("name", "jaxpr"))
            if primitive == "conv_general_dilated" and key == "dimension_numbers" and isinstance(value, tuple):
                value = self.made(_axes_of_letters, at, value)
            found[key] = self.made(_NUMBERED[key], at, value) if key in _NUMBERED else value
        return found

    def value(self, name: str = "jaxpr") -> Any:
        """A parameter's value; `name` is for a Program."""
        if self.sees("{"):
            return self.program(name)
        if self.sees("(") or self.sees("["):
            return self.several()
        at = self.at
        if found := _LONG_TYPE.match(self.text, at):
            self.at = found.end()
            names = {**_LONG_NAMES, "float0": dtypes.float0, "key<fry>": dtypes.key_fry}
            return Aval(_shape(found[2]), self.dtype(found[1], names, at), found[3] is not None)
        record = _NAME.match(self.text, at)
        if record is not None and record[0] in _RECORDS and self.text.startswith("(", record.end()):
            self.at = record.end() + 1
            return self.made(_RECORDS[record[0]], at, **self.fields())
        text = self.raw()
        if not text:
            self.fail("a value is expected here")
        return self.word(text)

    def name(self) -> str:
        """What a user has called something: a word, or text in quotation marks."""
        at, text = self.at, self.raw()
        return str(self.made(ast.literal_eval, at, text)) if text[:1] in ("'", '"') else text

    def made(self, kind: Callable[..., Any], at: int, *args: Any, **fields: Any) -> Any:
        try:
            return kind(*args, **fields)
        except (TypeError, ValueError, SyntaxError) as error:
            self.fail(str(error), at)

    def fields(self) -> dict[str, Any]:
        found = {}
        while not self.takes(")"):
            key = self.match(_KEY, "a field such as `offset_dims=(0,)`, or `)`,")[1]
            found[key] = self.value()
            self.takes(",")
        return found

    def several(self) -> tuple[Any, ...]:
        """What stands between brackets; lists are tuples, too."""
        closing = _CLOSING[self.text[self.at]]
        self.at += 1
        found = []
        while not self.takes(closing):
            self.skip_space()
            name = _NAME.match(self.text, self.at)
            if name is not None and name[0] in self.shared:  # another one may follow after a space
                self.at = name.end()
                found.append(self.shared[name[0]])
            else:
                found.append(self.value())
            self.takes(",")
        return tuple(found)

    def word(self, text: str) -> Any:
        """What a word means: a shared Program, a constant of Python, a dtype; or what only has that name."""
        if text in self.shared:
            return self.shared[text]
        if text in _WORDS:
            return _WORDS[text]
        if text in _LONG_NAMES or text == "bfloat16":
            return self.dtype(text, _LONG_NAMES, self.at)
        kind, _, member = text.partition(".")
        if kind == GatherScatterMode.__name__ and member in GatherScatterMode.__members__:
            return GatherScatterMode[member]
        if text in _NUMBERS:
            return _NUMBERS[text]
        try:
            return _python(text)
        except (ValueError, SyntaxError):
            return _Word(text)

    def raw(self) -> str:
        """Text up to the end of a value: a bracket that closes what encloses it, a comma, or the next parameter."""
        self.skip_space()
        start = self.at
        waiting: list[str] = []
        while self.at < len(self.text):
            sign = self.text[self.at]
            if not waiting and (sign in ",)]}" or sign.isspace() and self.ends_value()):
                break
            if sign in "'\"":
                self.at = self.end_of_quote()
                continue
            if sign in _CLOSING:
                waiting.append(_CLOSING[sign])
            elif waiting and sign == waiting[-1]:
                waiting.pop()
            self.at += 1
        return self.text[start : self.at]

    def ends_value(self) -> bool:
        following = _SPACE.match(self.text, self.at)
        assert following is not None
        rest = following.end()
        return _KEY.match(self.text, rest) is not None or self.text[rest : rest + 1] in (")", "]", "}", "{", "")

    def end_of_quote(self) -> int:
        found = _QUOTED.match(self.text, self.at)
        return found.end() if found else self.at + 1


_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "True": True, "False": False}


def _number(text: str) -> Any:
    """The number that a text says; complex ones as such, so that no sign of a zero is lost in a sum."""
    return complex(text) if text.endswith(("j", "j)")) else _python(text)


_INTEGER, _FLOAT = re.compile(r"-?(0|[1-9]\d*)", re.ASCII), re.compile(r"-?(0|[1-9]\d*)(\.\d*)?(e[+-]?\d+)?", re.ASCII)


def _python(text: str) -> Any:
    """What a text is in Python; what occurs most need not be compiled."""
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else ast.literal_eval(text)


def _axes_of_letters(specs: Any) -> Any:
    """Which axes of a convolution are what; specs: three words of the letters that `pretty.axes_as_letters` writes."""
    if isinstance(specs, ConvDimensionNumbers):
        return specs
    lhs, rhs, out = ([*word] for word in specs)
    spatial = spatial_letters(len(lhs) - 2)
    axes = [tuple([w.index(x) for x in first + spatial]) for w, first in ((lhs, "NC"), (rhs, "OI"), (out, "NC"))]
    return ConvDimensionNumbers(*axes)


def _primitive(name: str) -> Primitive | None:
    """The one of functad's, or else of a user's, that has a name."""
    return registry.get(name) or own_primitives.get(name)


@lru_cache(1000)
def _shape(text: str) -> tuple[int, ...]:
    return tuple(UNKNOWN if size == "?" else int(size) for size in text.split(",") if size)


def _unsaid(primitive: Primitive, params: dict[str, Any], written: Sequence[Aval]) -> dict[str, Any]:
    """The parameters that printing leaves out."""
    if primitive.name == "dot_general" and written:
        return {"precision": None, "preferred_element_type": written[0].dtype}
    if primitive.name == "conv_general_dilated":
        once = (1,) * len(params.get("window_strides", ()))
        counts = {"feature_group_count": 1, "batch_group_count": 1, "preferred_element_type": None}
        return {"lhs_dilation": once, "rhs_dilation": once, **counts}
    if primitive.name == "broadcast_in_dim" and written:
        return {"shape": written[0].shape, **_UNSAID["broadcast_in_dim"]}
    if "call_jaxpr" in params:
        return {"num_consts": 0}
    return _UNSAID.get(primitive.name, {})
