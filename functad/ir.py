"""The intermediate representation: Aval, Var, Literal, Eqn, Program; who uses it finds Primitive here, too.

Knows nothing of tracing, of any particular primitive, or of any transform.

Args:
    program, enclosing: the Program, and the atoms around it.

Raises:
    ProgramError: the Program breaks a rule of the IR; says which, and where.
"""

from __future__ import annotations

import linecache
import math
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, TypeVar, cast

import numpy as np

from functad import dtypes
from functad.dtypes import kind_of
from functad.errors import ProgramError
from functad.layouts import NamedSharding, layout_of_rank
from functad.lowering_rules import Call, Callback, Placement
from functad.primitive_record import Absent as Absent
from functad.primitive_record import Diagonal as Diagonal
from functad.primitive_record import Example as Example
from functad.primitive_record import JointlyLinear as JointlyLinear
from functad.primitive_record import Linearize as Linearize
from functad.primitive_record import OwnDerivative as OwnDerivative
from functad.primitive_record import Primitive as Primitive
from functad.primitive_record import ZeroDerivative as ZeroDerivative
from functad.primitive_record import registry as registry
from functad.system.once import imported

T = TypeVar("T")


class Unknown(int):
    """The leading size of what a `while` loop stacks: known only after it has run. There is one, `UNKNOWN`.

    Such arrays occur within the derivative of a loop, between the loop forward and the one that goes through the same
    steps again; nothing but loops takes them.
    """

    def __repr__(self) -> str:
        return "?"

    __str__ = __repr__


UNKNOWN = Unknown(-1)


class Aval:
    """What is known of an array before it has a value: shape, dtype, and whether the dtype is weak.

    >>> import functad, numpy as np
    >>> aval = functad.core.ShapedArray((2, 3), np.dtype("float32"))
    >>> aval.shape, aval.ndim, aval.size, aval.str_short()
    ((2, 3), 2, 6, 'f32[2,3]')
    """

    __slots__ = ("dtype", "shape", "weak_type")

    def __init__(self, shape: Sequence[int], dtype: np.dtype, weak_type: bool = False) -> None:
        self.shape: tuple[int, ...] = tuple(shape)
        self.dtype: np.dtype = dtype
        self.weak_type: bool = weak_type

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Aval):
            return NotImplemented
        return self.shape == other.shape and self.dtype == other.dtype and self.weak_type == other.weak_type

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type))

    @property
    def sharding(self) -> NamedSharding:
        """JAX's word for how such arrays lie on devices: as a whole on the one there is."""
        return layout_of_rank(len(self.shape))

    def update(self, **changes: Any) -> Aval:
        """The same with another `shape`, `dtype` or `weak_type`."""
        return Aval(**{**{name: getattr(self, name) for name in ("shape", "dtype", "weak_type")}, **changes})

    def strip_weak_type(self) -> Aval:
        """The same, not weak."""
        return Aval(self.shape, self.dtype)

    def to_tangent_aval(self) -> Aval:
        """The type of tangents: the same of floats and complex numbers, float0 of all others."""
        return Aval(self.shape, self.dtype if kind_of(self.dtype) in "fc" else dtypes.float0, self.weak_type)

    at_least_vspace = to_tangent_aval

    def same_type(self, other: Aval) -> bool:
        """Equal shape and dtype, weakness aside."""
        return self.shape == other.shape and self.dtype == other.dtype

    def str_short(self) -> str:
        """As types are printed in Programs: `f32[2,3]`."""
        return f"{dtypes.short_name(self.dtype)}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"Aval({self.dtype.name}[{','.join(map(str, self.shape))}]{weak})"


class Var:
    """A variable: assigned once, compared by identity, named only when printed.

    >>> import functad
    >>> (var,) = functad.make_jaxpr(lambda x: -x)(1.).invars
    >>> isinstance(var, functad.core.Var), var.aval.str_short()
    (True, 'f32[]')
    """

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class Literal:
    """A scalar constant written in place.

    >>> import functad
    >>> (eqn,) = functad.make_jaxpr(lambda x: x * 2.)(1.).eqns
    >>> eqn.invars[1], float(eqn.invars[1].val)
    (2.0:f32[], 2.0)
    """

    __slots__ = ("aval", "value")

    def __init__(self, value: Any, aval: Aval) -> None:
        self.value = value
        self.aval = aval

    @property
    def val(self) -> Any:
        """JAX's name for the value."""
        return self.value

    def __repr__(self) -> str:
        return f"{self.value}:{self.aval.str_short()}"


Atom = Var | Literal


class Source:
    """The user's line that an equation came from; worked out and formatted only when asked for."""

    __slots__ = ("at", "code", "derived", "scopes", "transposed")

    def __init__(
        self, code: CodeType, at: int, scopes: tuple[str, ...] = (), transposed: bool = False, derived: bool = False
    ) -> None:
        self.code = code
        self.at = at  # the offset of the instruction
        self.scopes = scopes  # the `named_scope`s it lies in
        self.transposed = transposed  # whether the equation carries cotangents back over what stands in that line
        self.derived = derived  # whether it computes a derivative of what stands there: no value that the line has

    def of_transposed(self) -> Source:
        """The same line, of what reverse mode does there on its way back."""
        return Source(self.code, self.at, self.scopes, True, True)

    def of_derived(self) -> Source:
        """The same line, of what jvp rules compute there."""
        return self if self.derived else Source(self.code, self.at, self.scopes, self.transposed, True)

    @property
    def line(self) -> int:
        """The number of the line in the file."""
        lines = [line for start, end, line in self.code.co_lines() if start <= self.at < end and line is not None]
        return lines[0] if lines else self.code.co_firstlineno

    @property
    def text(self) -> str:
        """What stands in that line; nothing if there is no file."""
        return linecache.getline(self.code.co_filename, self.line).strip()

    @property
    def name_stack(self) -> str:
        """The names of the scopes together, as JAX prints them."""
        return "/".join(self.scopes)

    def __str__(self) -> str:
        scopes = f" [{self.name_stack}]" if self.scopes else ""
        return f"{self.code.co_filename}:{self.line} ({self.code.co_name}){scopes}"

    __repr__ = __str__


class Eqn:
    """One equation: `outvars = primitive[params] invars`.

    >>> import functad, functad.numpy as jnp
    >>> (eqn,) = functad.make_jaxpr(lambda x: jnp.sum(x))(jnp.ones(3)).eqns
    >>> eqn, eqn.primitive, eqn.params
    (b:f32[] = reduce_sum[axes=(0,)] a, reduce_sum, {'axes': (0,)})
    """

    __slots__ = ("invars", "outvars", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        invars: Sequence[Atom],
        params: dict[str, Any],
        outvars: Sequence[Var],
        source: Source | None = None,
    ) -> None:
        self.primitive = primitive
        self.invars: tuple[Atom, ...] = tuple(invars)
        self.params = params
        self.outvars: tuple[Var, ...] = tuple(outvars)
        self.source = source

    @property
    def effects(self) -> frozenset[str]:
        """The primitive's name where the equation has effects, which keep their order; empty otherwise."""
        return frozenset({self.primitive.name}) if has_effects(self) else frozenset()

    @property
    def source_info(self) -> Source | None:
        """JAX's name for `source`."""
        return self.source

    def __repr__(self) -> str:
        return _equation_formatter(self)

    __str__ = __repr__

    def replace(self, **changes: Any) -> Eqn:
        """The same equation with other fields: `eqn.replace(params=…)`."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return Eqn(**{**fields, **changes})


class Program:
    """A typed, linear, closed program: `{ lambda constvars ; invars. let eqns in outvars }`.

    `consts` are the values of `constvars`: arrays, or tracers of an outer trace while one is active.
    Programs are immutable; what is derived from one (its compiled form, its transposed, …) is memoised
    in `cache`, so that it lives exactly as long as the Program does.

    >>> import functad
    >>> program = functad.make_jaxpr(lambda x: 2. * x + 1.)(3.)
    >>> program
    { lambda ; a:f32[]. let
        b:f32[] = mul 2.0:f32[] a
        c:f32[] = add b 1.0:f32[]
      in (c,) }
    >>> [eqn.primitive.name for eqn in program.eqns], program.in_avals
    (['mul', 'add'], [Aval(float32[], weak_type=True)])
    """

    __slots__ = ("__weakref__", "cache", "consts", "constvars", "eqns", "invars", "name", "outvars")

    def __init__(
        self,
        invars: Sequence[Var],
        constvars: Sequence[Var],
        consts: Sequence[Any],
        eqns: Sequence[Eqn],
        outvars: Sequence[Atom],
        name: str = "program",
    ) -> None:
        self.invars: tuple[Var, ...] = tuple(invars)
        self.constvars: tuple[Var, ...] = tuple(constvars)
        self.consts: tuple[Any, ...] = tuple(consts)
        self.eqns: tuple[Eqn, ...] = tuple(eqns)
        self.outvars: tuple[Atom, ...] = tuple(outvars)
        self.name = name
        self.cache: dict[Any, Any] = {}

    @property
    def in_avals(self) -> list[Aval]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[Aval]:
        return [v.aval for v in self.outvars]

    @property
    def effects(self) -> frozenset[str]:
        """Those of its equations."""
        return frozenset().union(*(eqn.effects for eqn in self.eqns))

    @property
    def jaxpr(self) -> Program:
        """The Program itself: JAX keeps constants apart (ClosedJaxpr), functad does not."""
        return self

    @property
    def literals(self) -> tuple[Any, ...]:
        """JAX's other name for `consts`."""
        return self.consts

    def replace(self, **changes: Any) -> Program:
        """The same Program with other parts: `program.replace(eqns=…)`; `check_program` tells whether they fit."""
        names = ("invars", "constvars", "consts", "eqns", "outvars", "name")
        return Program(**{**{name: getattr(self, name) for name in names}, **changes})

    def close(self) -> Program:
        """The same Program with its constants turned into leading inputs."""
        return self.replace(invars=self.constvars + self.invars, constvars=(), consts=())

    def pretty_print(self, **options: Any) -> str:
        """The text of the Program, with the options of `functad.program_to_text`."""
        return _formatter(self, **options)

    def cost(self) -> Any:
        """Floating-point operations and bytes of each equation and in all, found without compiling.

        Bytes are those of all operands and results, as if nothing was fused or in a cache. A loop of unknown length,
        and each branch of a choice, counts once.

        >>> import functad, functad.numpy as jnp
        >>> functad.make_jaxpr(lambda x, w: jnp.tanh(x @ w))(jnp.ones((2, 3)), jnp.ones((3, 4))).cost()
        equation     flops  bytes
        dot_general     48    104
        tanh            88     64
        all            136    168
        """
        return imported("functad.lowering.costs").cost_of_program(self)

    def __repr__(self) -> str:
        return _formatter(self)

    __str__ = __repr__


def memoised(program: Program, key: Hashable, make: Callable[[], T], table: dict[Any, Any] | None = None) -> T:
    """What `make` gives, kept as long as the Program lives: as one that held itself did until garbage is searched for,
    a note stands for the Program itself.

    Kept for the named axes in scope, which rules may ask for; not if it knows an example's position along one of them.

    table: where it is kept, if not with the Program alone.
    """
    table = program.cache if table is None else table
    axes = surroundings.axes
    if axes:
        key = (key, axes)
    if key in table:
        found = table[key]
        return cast(T, program) if found is _ITSELF else cast(T, found)
    asked, surroundings.asked = surroundings.asked, _NONE_ASKED
    try:
        made = make()
    finally:
        asked_within, surroundings.asked = surroundings.asked, min(asked, surroundings.asked)
    if asked_within < len(axes):
        return made
    kept = table.setdefault(key, _ITSELF if made is program else made)  # of several threads all get that of one
    return cast(T, program) if kept is _ITSELF else cast(T, kept)


_ITSELF = object()
_NONE_ASKED = sys.maxsize


class _Surroundings(threading.local):
    """What is around this run of a thread, and no part of a Program.

    axes: names and sizes of the named axes in scope, the outermost first. asked: the number of the outermost of them
    that was asked for since what is now being memoised began.
    """

    axes: tuple[tuple[Hashable, int], ...] = ()
    asked = _NONE_ASKED


surroundings = _Surroundings()


def definitions(program: Program) -> Mapping[Atom, Eqn]:
    """The equation that each variable is a result of; inputs, constants and literals have none."""
    return memoised(program, ("definitions",), lambda: {v: e for e in program.eqns for v in e.outvars})


def variables_read(program: Program) -> set[Var]:
    """The variables that equations read, or that are results."""
    read = {a for e in program.eqns for a in e.invars if isinstance(a, Var)}
    return read.union(a for a in program.outvars if isinstance(a, Var))


def dead_variables(program: Program) -> list[list[Var]]:
    """For each equation the variables, its own results included, that no later one reads and that are no results."""

    def make() -> list[list[Var]]:
        needed = {a for a in (*program.constvars, *program.outvars) if isinstance(a, Var)}
        dead = []
        for eqn in reversed(program.eqns):
            unread = {a for a in (*eqn.invars, *eqn.outvars) if isinstance(a, Var)} - needed
            needed |= unread
            dead.append([*unread])
        return dead[::-1]

    return memoised(program, ("dead variables",), make)


def _unformatted(program: Program, **options: Any) -> str:
    return f"<Program {program.name}: {len(program.eqns)} equations>"


_formatter: Callable[..., str] = _unformatted
_equation_formatter: Callable[[Eqn], str] = object.__repr__


def set_formatter(formatter: Callable[..., str], equation_formatter: Callable[[Eqn], str]) -> None:
    """Let the printer, which lies in a layer above, say how Programs and single equations print."""
    global _formatter, _equation_formatter
    _formatter, _equation_formatter = formatter, equation_formatter


def subprograms(params: dict[str, Any]) -> Iterator[Program]:
    """The Programs held by an equation's parameters."""
    for value in params.values():
        if isinstance(value, Program):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from (v for v in value if isinstance(v, Program))


def with_subprograms(params: dict[str, Any], edit: Callable[[Program], Program]) -> dict[str, Any]:
    """An equation's parameters, with the Programs that they hold edited."""

    def edited(value: Any) -> Any:
        if isinstance(value, (tuple, list)) and any(isinstance(v, Program) for v in value):
            return type(value)([edited(v) for v in value])
        return edit(value) if isinstance(value, Program) else value

    return {name: edited(value) for name, value in params.items()}


def all_eqns(eqns: Iterable[Eqn]) -> Iterator[Eqn]:
    """Equations, each followed by those of the Programs that it holds, and of the ones within these."""
    for eqn in eqns:
        yield eqn
        for inner in subprograms(eqn.params):
            yield from all_eqns(inner.eqns)


def equation_count(program: Program) -> int:
    """How many equations a Program has, those of Programs within it included."""
    return sum(1 for _ in all_eqns(program.eqns))


def has_effects(eqn: Eqn) -> bool:
    """Whether an equation, or one of a Program that it holds, does something besides computing its results."""
    rule = eqn.primitive.lower
    return isinstance(rule, Callback) and rule.effects or any(program_has_effects(p) for p in subprograms(eqn.params))


def program_has_effects(program: Program) -> bool:
    """Whether one of its equations has effects."""
    if "effects" not in program.cache:
        program.cache["effects"] = any(has_effects(e) for e in program.eqns)
    return bool(program.cache["effects"])


def puts_values(primitive: Primitive, params: Mapping[str, Any]) -> bool:
    """Whether an operation that runs at once puts values on devices, or calls a Program that does."""
    rule = primitive.lower
    if isinstance(rule, Call) and not rule.compiled:
        return program_puts_values(params[rule.parameter])
    return isinstance(rule, Placement)


def program_puts_values(program: Program) -> bool:
    """Whether one of its operations does where they run at once."""
    if "puts values" not in program.cache:
        program.cache["puts values"] = any(puts_values(e.primitive, e.params) for e in program.eqns)
    return bool(program.cache["puts values"])


class TypedByAval:
    """Answers what arrays are asked of their type, from `aval`."""

    __slots__ = ()
    aval: Aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return self.aval.size


class Placeholder(TypedByAval):
    """Stands for a value by its type alone."""

    __slots__ = ("aval",)

    def __init__(self, aval: Aval) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval.str_short()})"


class Zero(Placeholder):
    """A tangent or cotangent known to be zero, never materialised unless somebody asks.

    >>> import functad
    >>> from functad.interpreters import ad
    >>> zero = ad.Zero(functad.typeof(2.))
    >>> float(ad.instantiate_zeros(zero))
    0.0
    """

    __slots__ = ()


class UndefinedPrimal(Placeholder):
    """Stands in a transpose rule for an argument in which the operation is linear.

    >>> import functad, functad.numpy as jnp
    >>> from functad.interpreters import ad
    >>> ad.primitive_transposes[functad.lax.neg_p](jnp.ones(2), ad.UndefinedPrimal(functad.typeof(jnp.ones(2))))
    [Array([-1., -1.], dtype=float32)]
    """

    __slots__ = ()


# --- the checker ----------------------------------------------------------------------------------


def check_program(program: Program, enclosing: str = "") -> None:
    """Raise ProgramError unless the Program is well formed.

    Checks that every variable is assigned once and before its use, that constants fit their variables, and
    that the outputs of every equation have the types its primitive's shape rule gives; sub-programs too.

    >>> import functad
    >>> check_program(functad.make_jaxpr(lambda x: x + 1.)(2.))
    """
    memoised(program, ("well formed",), lambda: _check_program(program, enclosing))


def _check_program(program: Program, enclosing: str) -> None:
    where = f"{enclosing}{program.name}"
    defined: set[Var] = set()

    def define(var: Var, what: str) -> None:
        if var in defined:
            raise ProgramError(f"{where}: {what} assigns variable {var} for the second time\n{program}")
        defined.add(var)

    def use(atom: Atom, what: str) -> None:
        if isinstance(atom, Var) and atom not in defined:
            raise ProgramError(f"{where}: {what} uses variable {atom} before its assignment\n{program}")

    if len(program.constvars) != len(program.consts):
        raise ProgramError(f"{where}: {len(program.constvars)} constvars but {len(program.consts)} values")
    for var, const in zip(program.constvars, program.consts):
        define(var, "the constant list")
        if var.aval.shape != const.shape or var.aval.dtype != const.dtype:
            raise ProgramError(f"{where}: a constant of type {const.dtype}{np.shape(const)} for variable {var}")
    for var in program.invars:
        define(var, "the input list")
    for number, eqn in enumerate(program.eqns):
        what = f"equation {number} ({eqn.primitive.name})"
        for atom in eqn.invars:
            use(atom, what)
        for sub in subprograms(eqn.params):
            check_program(sub, f"{where}/{what}/")
        _check_types(eqn, f"{where}: {what}", program)
        for var in eqn.outvars:
            define(var, what)
    for atom in program.outvars:
        use(atom, "the output list")


def _check_types(eqn: Eqn, what: str, program: Program) -> None:
    expected = eqn.primitive.abstract_eval(*[v.aval for v in eqn.invars], **eqn.params)
    if not eqn.primitive.multiple_results:
        expected = [expected]
    if len(expected) != len(eqn.outvars):
        raise ProgramError(f"{what} has {len(eqn.outvars)} outputs, its shape rule gives {len(expected)}")
    for var, aval in zip(eqn.outvars, expected):
        if not var.aval.same_type(aval):
            raise ProgramError(
                f"{what} has an output of type {var.aval.str_short()}, its shape rule gives {aval.str_short()}"
                f"\n{program}"
            )
