"""Tracing: `bind` hands an operation to the innermost trace that wants it; traces record.

Knows no particular primitive and no transform. There is one kind of tracer, and it only records.
"""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from functad import dtypes, hints
from functad.array import Array, ArrayImpl
from functad.config import config
from functad.errors import ConcretizationError, FunctadError, LeakedTracerError, TooLargeError, TracerError
from functad.hints import index_hint, truth_hint
from functad.ir import (
    Atom,
    Aval,
    Eqn,
    Linearize,
    Literal,
    Primitive,
    Program,
    Source,
    Var,
    ZeroDerivative,
)
from functad.lowering_rules import Callback


class _State(threading.local):
    trace: Trace | None = None
    scopes: tuple[str, ...] = ()
    source: Source | None = None  # while a transform works on an equation: where that came from
    quiet: bool = False
    meetings: list[Meeting] | None = None  # while a jitted function is traced


_state = _State()


Origin = str | Callable[[], str] | Primitive  # the name of an argument, maybe made on demand


class Meeting(NamedTuple):
    """A 64-bit operand that came from outside of the traced function met a narrower one, which it widens."""

    wide: str
    wide_dtype: np.dtype
    narrow_dtype: np.dtype
    source: Source | None


class Op:
    """One recorded operation. `args` are the trace's own tracers, and values of the parent for all else.

    A trace that keeps values adds the operands' and results' values, and for call-like primitives the derivative.
    """

    __slots__ = ("args", "outs", "params", "primitive", "pushforward", "results", "source", "values")

    def __init__(
        self,
        primitive: Primitive,
        args: Sequence[Any],
        params: dict[str, Any],
        outs: Sequence[Any],
        source: Source | None,
        values: Sequence[Any] = (),
        results: Any = None,
        pushforward: Callable[[Sequence[Any]], Sequence[Any]] | None = None,
    ) -> None:
        self.primitive = primitive
        self.args = args
        self.params = params
        self.outs = outs
        self.source = source
        self.values = values
        self.results = results
        self.pushforward = pushforward


class Trace:
    """A recording in progress. Two switches make every use of it, and a third is for vmap alone:

    keeps_values: each operation is also run in the parent trace, and tracers hold the result (`grad`, `jvp`).
    records_all:  operations on values of other traces are recorded too (`jit`, `make_jaxpr`, loop bodies);
                  otherwise what does not depend on this trace's own tracers is left to the parent.
    replays:      the whole recording runs once afterwards (`vmap`), so what acts without a result waits for its turn.
    """

    __slots__ = ("alive", "depends_on_values", "keeps_values", "name", "ops", "parent", "records_all", "replays")

    def __init__(
        self, name: str, *, keeps_values: bool = False, records_all: bool = False, replays: bool = False
    ) -> None:
        self.name = name
        self.keeps_values = keeps_values
        self.records_all = records_all
        self.replays = replays
        self.parent: Trace | None = None
        self.ops: list[Op] = []
        self.alive = False
        self.depends_on_values = False  # Python looked at the value of an outer tracer: valid for this run only

    def __enter__(self) -> Trace:
        self.parent = _state.trace
        self.alive = True
        _state.trace = self
        return self

    def __exit__(self, *exc: Any) -> None:
        self.alive = False
        _state.trace = self.parent

    def take_ops(self) -> list[Op]:
        """The finished recording, which the trace then no longer holds: tracers know their trace, so it would
        otherwise be a cycle that only the garbage collector frees."""
        ops, self.ops = self.ops, []
        return ops

    def new_input(self, aval: Aval | None, name: Origin, value: Any = None) -> Tracer:
        return Tracer(self, aval, value, name)

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if self.keeps_values:
            return self._record_with_values(primitive, args, params)
        avals = []
        for a in args:
            if type(a) is Tracer:
                if not a.owner.alive:
                    raise leak_error(a)
                avals.append(a.aval)
            else:
                avals.append(aval_of(a))
        source = user_source()
        outs = [Tracer(self, aval, None, primitive, source) for aval in infer_avals(primitive, avals, params)]
        self.ops.append(Op(primitive, args, params, outs, source))
        return outs if primitive.multiple_results else outs[0]

    def _record_with_values(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        values = [a.value if type(a) is Tracer and a.owner is self else a for a in args]
        rule = primitive.jvp
        pushforward = None
        if isinstance(rule, Linearize):
            active = [type(a) is Tracer and a.owner is self for a in args]
            results, pushforward = rule.rule(values, active, **params)
            self._refuse_own(results, params)
        else:
            results = bind_in(self.parent, primitive, values, params)
            if isinstance(rule, ZeroDerivative):
                return results
        source = user_source()
        if primitive.multiple_results:
            outs = [self._own(r, primitive, source) for r in results]
        else:
            outs = [self._own(results, primitive, source)]
        self.ops.append(Op(primitive, args, params, outs, source, values, results, pushforward))
        return outs if primitive.multiple_results else outs[0]

    def _refuse_own(self, results: Sequence[Any], params: dict[str, Any]) -> None:
        """Raise where a call's result is a tracer of this trace, or of one within: it got there by a closure."""
        inner = _state.trace
        while inner is not self.parent and inner is not None:
            for r in results:
                if type(r) is Tracer and r.owner is inner:
                    raise LeakedTracerError(
                        f"`{params.get('name')}` returned a value that depends on {r._describe()}, which is no "
                        "argument of it but reached it by a closure, so that its derivative would be lost. Pass it "
                        "as an argument"
                    )
            inner = inner.parent

    def _own(self, result: Any, primitive: Primitive, source: Source | None) -> Any:
        """A tracer for a result that can have a derivative; any other is a plain value."""
        return Tracer(self, None, result, primitive, source) if result.dtype.kind in "fc" else result


class Tracer(Array):
    """Stands for an array while a function is traced."""

    __slots__ = ("__weakref__", "_aval", "origin", "owner", "source", "value")

    def __init__(
        self, trace: Trace, aval: Aval | None, value: Any, origin: Origin, source: Source | None = None
    ) -> None:
        self.owner = trace
        self._aval = aval
        self.value = value
        self.origin = origin
        self.source = source

    @property
    def aval(self) -> Aval:  # type: ignore[override]
        if self._aval is None:
            self._aval = self.value.aval
        return self._aval

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self.aval.dtype

    @property
    def ndim(self) -> int:  # type: ignore[override]
        return len(self.aval.shape)

    @property
    def size(self) -> int:  # type: ignore[override]
        return self.aval.size

    @property
    def weak_type(self) -> bool:  # type: ignore[override]
        return self.aval.weak_type

    def _describe(self) -> str:
        kind = f"traced value of type {self.aval.str_short()}"
        if not isinstance(self.origin, Primitive):
            name = self.origin if isinstance(self.origin, str) else self.origin()
            return f"the {kind} (argument `{name}` of {self.owner.name})"
        where = f" at {self.source}" if self.source else ""
        return f"the {kind} (result of `{self.origin.name}`{where}, traced by {self.owner.name})"

    def __repr__(self) -> str:
        value = f" with value {self.value!r}" if self.value is not None else ""
        return f"Tracer<{self.aval.str_short()}>{value}"

    def concrete(self, wanted: str, rewrite: str) -> np.ndarray:
        """The NumPy value behind this tracer, or an error that says why there is none."""
        if not self.owner.alive:
            raise leak_error(self)
        value = self
        while isinstance(value, Tracer):
            if value.value is None:
                raise ConcretizationError(
                    f"{wanted} needs the value of {value._describe()}, but it has none while the function is "
                    f"being traced: only its shape and dtype are known.{self._where()}\n{rewrite}"
                )
            value = value.value
        inner = _state.trace
        while inner is not None and inner is not self.owner:
            inner.depends_on_values = True
            inner = inner.parent
        return np.asarray(value)

    def _where(self) -> str:
        return f"\nYour line: {user_source()}"

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        return format(self.concrete("Formatting it as a number", hints.FORMAT)[()], spec)

    def __bool__(self) -> bool:
        hint = truth_hint(self._line(), self.owner.name)
        return bool(self.concrete("Python control flow (`if`, `while`, `and`, `not`, `bool()`)", hint))

    def __int__(self) -> int:
        return int(self.concrete("`int()`", hints.SCALAR))

    def __float__(self) -> float:
        return float(self.constant("`float()`"))

    def __complex__(self) -> complex:
        return complex(self.constant("`complex()`"))

    def __index__(self) -> int:
        hint = index_hint(self._line(), self.owner.name)
        return self.concrete("Using it as a Python index or a size", hint).__index__()

    def constant(self, wanted: str, rewrite: str = hints.SCALAR) -> np.ndarray:
        """As `concrete`, but refused where the value is being differentiated: as a constant it has no derivative."""
        if self.value is not None and self.owner.alive:
            raise ConcretizationError(
                f"{wanted} would make a constant of {self._describe()}, and its derivative would be lost without a "
                f"word.{self._where()}\n{hints.DERIVATIVE}"
            )
        return self.concrete(wanted, rewrite)

    def __copy__(self) -> Tracer:
        return self  # nobody can take its memory

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __reduce__(self) -> Any:
        raise TracerError(
            f"{self._describe()} cannot be pickled: it has no elements yet.{self._where()}\nReturn it from the "
            "function, and save what the call returns; or save while it runs, with functad.debug.callback"
        )

    def _line(self) -> str:
        source = user_source()
        return linecache.getline(source.code.co_filename, source.line) if source else ""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if not self.owner.alive:
            raise leak_error(self)
        if self.value is not None:
            return self.constant("Making a NumPy array of it")
        raise ConcretizationError(
            f"NumPy asked for the values of {self._describe()} (`numpy.asarray`, or a NumPy function that functad "
            f"cannot trace).{self._where()}\n"
            "Use the function of the same name in `functad.numpy`, or keep this computation out of the "
            "transformed function."
        )


# --- bind -----------------------------------------------------------------------------------------


def bind(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Apply a primitive: the innermost trace that wants the operation records it, else it runs now.

    args are Arrays, tracers, ndarrays or NumPy scalars of the dtypes the primitive takes; params are static.
    """
    return bind_in(_state.trace, primitive, args, params)


def bind_in(trace: Trace | None, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """`bind` as seen from the given trace: it and its parents are asked in turn."""
    while trace is not None:
        if trace.records_all:
            return trace.record(primitive, args, params)
        for a in args:
            if type(a) is Tracer and a.owner is trace:
                return trace.record(primitive, args, params)
        if trace.replays and _only_acts(primitive, args, params):
            return trace.record(primitive, args, params)
        trace = trace.parent
    return evaluate(primitive, args, params)


def _only_acts(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether an operation has effects and no results."""
    rule = primitive.lower
    return isinstance(rule, Callback) and rule.effects and not infer_avals(primitive, [*map(aval_of, args)], params)


def evaluate(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run a primitive's NumPy implementation on concrete arguments."""
    values = []
    weak = strong = False  # whether any operand is
    foreign = False  # an ndarray that is not an Array's own
    for a in args:
        if type(a) is ArrayImpl:
            values.append(a._value)
            if a.weak_type:
                weak = True
            else:
                strong = True
        elif type(a) is Tracer:
            raise leak_error(a)
        elif isinstance(a, ArrayImpl):
            values.append(a._value)  # raises: it was donated
        else:
            values.append(a)
            strong = True
            foreign = foreign or type(a) is np.ndarray
    if values and values[0].dtype.kind == "c":  # NumPy orders complex numbers, where the shape rule refuses
        infer_avals(primitive, [aval_of(a) for a in args], params)
    try:
        if _state.quiet:
            result = primitive.impl(*values, **params)
        else:
            with np.errstate(all="ignore"):
                result = primitive.impl(*values, **params)
    except (TypeError, ValueError, OverflowError, MemoryError) as problem:
        # NumPy's own, of dtypes, shapes or sizes: the shape rule says it in the user's terms, or this does.
        _explain_size(problem, primitive, args, params)
        raise
    if foreign:
        result = _unaliased(result, values)
    if config.debug_nans or config.debug_infs:
        _check_values(primitive, result)
    if primitive.multiple_results:
        inferred = infer_avals(primitive, [aval_of(a) for a in args], params)
        return [ArrayImpl(r, a.weak_type) for r, a in zip(result, inferred)]
    if "weak_type" in params:
        weak = params["weak_type"]
    elif weak and (strong or result.dtype != values[0].dtype):
        weak = _stays_weak(result.dtype, [aval_of(a) for a in args])
    return ArrayImpl(result, weak)


def _explain_size(problem: Exception, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> None:
    """Raise an error with types and the line, if an operation failed because of the sizes of its results."""
    avals = infer_avals(primitive, [aval_of(a) for a in args], params)
    nbytes = sum(a.size * a.dtype.itemsize for a in avals)
    if isinstance(problem, FunctadError) or not (isinstance(problem, MemoryError) or nbytes >= 1 << 62):
        return
    types = ", ".join(a.str_short() for a in avals)
    raise TooLargeError(
        f"`{primitive.name}` would make {types} of {nbytes / 2**30:,.1f} GiB, for which there is no memory.\n"
        f"Your line: {user_source()}\n"
        "Check the shapes of its operands: a broadcast of two vectors makes a matrix. What is reduced at once need not "
        "be made under jit; lax.map goes through the parts of what is large"
    ) from problem


def _check_values(primitive: Primitive, result: Any) -> None:
    """Raise where an operation made a NaN or an infinity, as far as `config` asks for it."""
    for r in result if primitive.multiple_results else (result,):
        if r.dtype.kind not in "fc":
            continue
        for wanted, test, what in (
            (config.debug_nans, np.isnan, "a NaN"),
            (config.debug_infs, np.isinf, "an infinity"),
        ):
            if wanted and test(r).any():
                raise FloatingPointError(
                    f"`{primitive.name}` made {what} in a result of type {aval_of(r).str_short()}.\n"
                    f"Your line: {user_source()}\n"
                    "Look at its operands there; `functad.debug_nans(False)` switches the check off"
                )


def _stays_weak(dtype: np.dtype, operands: Sequence[Aval]) -> bool:
    """A single result is weak when all operands of its dtype are: conditions and indices have no say."""
    weak = [a.weak_type for a in operands if a.dtype == dtype]
    return len(weak) > 0 and all(weak)


def _unaliased(result: Any, values: Sequence[Any]) -> Any:
    """Copies of results that are somebody's own array, whose flags must not change under him."""
    if isinstance(result, (list, tuple)):
        return [_unaliased(r, values) for r in result]
    return result.copy() if any(result is v for v in values) else result


def infer_avals(primitive: Primitive, avals: Sequence[Aval], params: dict[str, Any]) -> list[Aval]:
    """The types of a primitive's results."""
    out = primitive.abstract_eval(*avals, **params)
    for a in out if primitive.multiple_results else (out,):
        if a.size >= 1 << 63:
            raise TooLargeError(
                f"`{primitive.name}` would make {a.str_short()}, which has {a.size:,} elements, more than any array "
                "can have (2**63 - 1); check the shapes of its operands"
            )
    if primitive.multiple_results:
        return list(out)
    if "weak_type" in params:
        return [Aval(out.shape, out.dtype, params["weak_type"])]
    for a in avals:
        if a.weak_type:
            return [Aval(out.shape, out.dtype, _stays_weak(out.dtype, avals))]
    return [out]


def aval_of(x: Any) -> Aval:
    """The type of anything array-like, Python scalars included."""
    if isinstance(x, Array):
        return x.aval
    if isinstance(x, (np.ndarray, np.generic)):
        return Aval(x.shape, x.dtype)
    dtype, weak = dtypes.dtype_of(x)
    return Aval(np.shape(x), dtype, weak)


def is_tracer(x: Any) -> bool:
    return isinstance(x, Tracer)


def has_value(x: Any) -> bool:
    """Whether something array-like has a value now: a tracer may stand for one, or be known by its type only."""
    while isinstance(x, Tracer):
        x = x.value
    return x is not None


def current_trace() -> Trace | None:
    return _state.trace


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """Name a part of a function: the equations recorded inside carry the name with their source line.

    >>> import functad
    >>> def f(x):
    ...     with functad.named_scope("square"):
    ...         return x * x
    >>> functad.make_jaxpr(f)(2.).eqns[0].source.scopes
    ('square',)
    """
    outer = _state.scopes
    _state.scopes = (*outer, name)
    try:
        yield
    finally:
        _state.scopes = outer


# --- functions to Programs ------------------------------------------------------------------------


def trace_to_program(
    fun: Callable[..., Sequence[Any]],
    in_avals: Sequence[Aval],
    *,
    name: str = "fn",
    arg_names: Sequence[Origin] | None = None,
) -> Program:
    """Trace a flat function, `fun(*tracers) -> sequence of outputs`, into a Program.

    Values that the function closes over become constants: arrays, or tracers of an enclosing trace.
    """
    with Trace(name, records_all=True) as trace:
        names = arg_names or [f"argument {i}" for i in range(len(in_avals))]
        inputs = [trace.new_input(aval, n) for aval, n in zip(in_avals, names)]
        outs = list(fun(*inputs))
    return program_from_ops(trace, trace.take_ops(), inputs, outs, name)


def program_from_ops(
    trace: Trace, ops: Sequence[Op], inputs: Sequence[Tracer], outs: Sequence[Any], name: str
) -> Program:
    """The Program of a finished trace: own tracers become variables, all else literals and constants."""
    variables: dict[int, Var] = {id(t): Var(t.aval) for t in inputs}
    constvars: dict[int, Var] = {}
    consts: list[Any] = []

    def atom(x: Any) -> Atom:
        if isinstance(x, Tracer) and x.owner is trace:
            return variables[id(x)]
        if isinstance(x, Tracer) and not x.owner.alive:
            raise leak_error(x)
        aval = aval_of(x)
        if aval.shape == () and not isinstance(x, Tracer):
            return Literal(np.asarray(x, aval.dtype)[()], aval)
        if id(x) not in constvars:
            constvars[id(x)] = Var(aval)
            consts.append(x)
        return constvars[id(x)]

    eqns = []
    for op in ops:
        invars = [atom(a) for a in op.args]
        outvars = []
        for out in op.outs:
            variables[id(out)] = var = Var(out.aval)
            outvars.append(var)
        eqns.append(Eqn(op.primitive, invars, op.params, outvars, op.source))
    outvars_ = [atom(x) for x in outs]
    return Program([variables[id(t)] for t in inputs], list(constvars.values()), consts, eqns, outvars_, name)


def eval_program(program: Program, args: Iterable[Any], consts: Sequence[Any] | None = None) -> list[Any]:
    """Run a Program equation by equation with `bind`: evaluates it, or records it into the active trace."""
    env: dict[Var, Any] = dict(zip(program.constvars, program.consts if consts is None else consts))
    env.update(zip(program.invars, args))

    def read(atom: Atom) -> Any:
        if isinstance(atom, Literal):
            return ArrayImpl(atom.value, True) if atom.aval.weak_type else atom.value
        return env[atom]

    outer = _state.source
    try:
        for eqn in program.eqns:
            _state.source = eqn.source
            result = bind(eqn.primitive, *[read(a) for a in eqn.invars], **eqn.params)
            env.update(zip(eqn.outvars, result if eqn.primitive.multiple_results else (result,)))
    finally:
        _state.source = outer
    return [ArrayImpl(a.value, a.aval.weak_type) if isinstance(a, Literal) else env[a] for a in program.outvars]


# --- where the user is ----------------------------------------------------------------------------

_PACKAGE = __name__.partition(".")[0]
_is_library: dict[str, bool] = {}


class transforming:
    """Entered while rules run over recorded operations, with no user code in between.

    NumPy's floating-point warnings are silenced once for all of them; and what the rules record bears the
    line of the operation they work on, which `set_source` tells.
    """

    __slots__ = ("errstate", "quiet", "source")

    def __enter__(self) -> None:
        self.source = _state.source
        self.quiet = _state.quiet
        if not self.quiet:
            self.errstate = np.errstate(all="ignore")
            self.errstate.__enter__()
            _state.quiet = True

    def __exit__(self, *exc: Any) -> None:
        _state.source = self.source
        if not self.quiet:
            _state.quiet = False
            self.errstate.__exit__(*exc)


class outside_traces:
    """Entered while a function of the user's runs that no trace shall see: what it computes, it computes at once."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = _state.trace, _state.source, _state.scopes, _state.quiet
        _state.trace, _state.source, _state.scopes, _state.quiet = None, None, (), False

    def __exit__(self, *exc: Any) -> None:
        _state.trace, _state.source, _state.scopes, _state.quiet = self.before


def set_source(source: Source | None) -> None:
    _state.source = source


def user_source() -> Source | None:
    """The innermost frame outside of functad and NumPy, or that of the equation being transformed."""
    if _state.source is not None:
        return _state.source
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        library = _is_library.get(module)
        if library is None:
            library = _is_library[module] = module.partition(".")[0] in (_PACKAGE, "numpy", "contextlib")
        if not library:
            return Source(frame.f_code, frame.f_lineno, _state.scopes)
        frame = frame.f_back  # type: ignore[assignment]
    return None


# --- where 64-bit values come from ------------------------------------------------------------------

_WIDE = (dtypes.float64, dtypes.complex128)


@contextmanager
def watching_meetings() -> Iterator[list[Meeting]]:
    """Entered while a function is traced: the first place where 64-bit floats from outside meet narrower ones."""
    outer, _state.meetings = _state.meetings, []
    try:
        yield _state.meetings
    finally:
        _state.meetings = outer


def note_meeting(operands: Sequence[Any]) -> None:
    """Told by promotion that operands of several dtypes become 64-bit floats."""
    if _state.meetings != []:
        return  # nobody watches, or has seen one
    strong = [x for x in operands if isinstance(x, Array) and not x.weak_type and x.dtype.kind in "fc"]
    narrow = next((x.dtype for x in strong if x.dtype not in _WIDE), None)
    origins = (origin_of_64_bits(x) for x in strong if x.dtype in _WIDE)
    wide = next((origin for origin in origins if origin), None)
    if narrow is not None and wide is not None:
        dtype = next(x.dtype for x in strong if x.dtype in _WIDE)
        _state.meetings.append(Meeting(wide, dtype, narrow, user_source()))


def origin_of_64_bits(x: Any) -> str:
    """The argument or the constant array that gave a value its 64 bits; empty if the function itself asked for them."""
    seen: set[int] = set()
    makers: dict[int, dict[int, Op]] = {}
    pending = [x]
    while pending:
        x = pending.pop()
        while isinstance(x, Tracer) and isinstance(x.value, Array):
            x = x.value
        if id(x) in seen or getattr(x, "dtype", None) not in _WIDE:
            continue
        seen.add(id(x))
        if not isinstance(x, Tracer):
            if isinstance(x, (Array, np.ndarray)):  # a NumPy scalar is an operation's own constant
                return f"an array of type {aval_of(x).str_short()} that is not an argument"
        elif not isinstance(x.origin, Primitive):
            name = x.origin if isinstance(x.origin, str) else x.origin()
            return f"argument `{name}` of {x.owner.name}"
        else:
            ops = makers.setdefault(id(x.owner), {})
            if not ops:
                ops.update((id(out), op) for op in x.owner.ops for out in op.outs)
            if id(x) in ops:
                pending += ops[id(x)].args
    return ""


def leak_error(tracer: Tracer) -> TracerError:
    return LeakedTracerError(
        f"{tracer._describe()} was used after that function had returned.\nUsed at: {user_source()}\n"
        "A traced value lives only while its function is being traced; it got out through a global, an "
        "attribute, a list, or a closure. Instead of\n"
        "    saved.append(y)\n"
        "return the value from the function, (with `has_aux=True` where the transform takes one result):\n"
        "    def f(x): ...; return loss, y\n"
        "    grads, y = functad.grad(f, has_aux=True)(x)"
    )
