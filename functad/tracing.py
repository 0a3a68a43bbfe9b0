"""Tracing: `bind` hands an operation to the innermost trace that wants it; traces record.

Knows no particular primitive and no transform. There is one kind of tracer, and it only records.

Shapes:
    Types of arrays tell them; primitives and their rules take arrays of the shapes that their own rules allow.

Raises:
    Nothing of its own.
"""

from __future__ import annotations

import linecache
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from functad import hints
from functad.array import Array, ArrayImpl
from functad.config import exceptional
from functad.dtypes import KEYS_ARE_NO_NUMBERS, key_fry, kind_of
from functad.errors import ConcretizationError, DTypeError, LeakedTracerError, TracerError
from functad.evaluation import aval_of, evaluate, infer_aval, infer_avals
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
    dead_variables,
)
from functad.lowering_rules import Callback
from functad.observing import watching
from functad.user_source import state as lines
from functad.user_source import user_source

F = TypeVar("F", bound=Callable[..., Any])


class CurrentTrace(threading.local):
    """The innermost trace of each thread."""

    trace: Trace | None = None


state = CurrentTrace()


Origin = str | Callable[[], str] | Primitive  # the name of an argument, maybe made on demand


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

    >>> import functad
    >>> _ = functad.jit(lambda x: print(x._trace.records_all))(1.)
    True
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
        self.depends_on_values = False  # Python looked at what an outer trace knows: valid for this run only

    def __enter__(self) -> Trace:
        self.parent = state.trace
        self.alive = True
        exceptional.append(None)
        state.trace = self
        return self

    def __exit__(self, kind: Any, problem: BaseException | None, where: Any) -> None:
        self.alive = False
        state.trace = self.parent
        exceptional.pop()
        if type(problem) is ValueError and str(problem).startswith("setting an array element with a sequence"):
            why = problem.__cause__ or problem.__context__  # NumPy's words for any error of `__float__`
            if isinstance(why, TracerError):
                raise why.with_traceback(where) from None

    @property
    def main(self) -> Trace:
        """The trace itself: what tells it from others, under JAX's name."""
        return self

    def take_ops(self) -> list[Op]:
        """The finished recording, which the trace then no longer holds: tracers know their trace, so it would
        otherwise be a cycle that only the garbage collector frees."""
        ops, self.ops = self.ops, []
        return ops

    def new_input(self, aval: Aval, name: Origin, value: Any = None) -> Tracer:
        """A tracer for an argument."""
        return Tracer(self, aval, value, name)

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Note an operation, without running it: tracers for its results."""
        avals = []
        for a in args:
            if type(a) is Tracer:
                if not a.owner.alive:
                    raise leak_error(a)
                avals.append(a.aval)
            else:
                avals.append(aval_of(a))
        source = user_source(3)
        if not primitive.multiple_results:
            out = Tracer(self, infer_aval(primitive, avals, params), None, primitive, source)
            self.ops.append(Op(primitive, args, params, (out,), source))
            return out
        outs = [Tracer(self, aval, None, primitive, source) for aval in infer_avals(primitive, avals, params)]
        self.ops.append(Op(primitive, args, params, tuple(outs), source))  # who gets the list may write into it
        return outs

    def record_with_values(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Results that can have a derivative become tracers; others are plain values.

        An operation on none of this trace's tracers is left to the parent.
        """
        values = []
        own = False
        for a in args:
            if type(a) is Tracer and a.owner is self:
                a = a.value
                own = True
            values.append(a)
        rule, parent = primitive.jvp, self.parent
        if not own:
            return bind_in(parent, primitive, args, params)
        pushforward = None
        results: Any
        if type(rule) is Linearize:
            active = [type(a) is Tracer and a.owner is self for a in args]
            results, pushforward = rule.rule(values, active, **params)
            self._refuse_own(results, params)
        else:
            results = (
                evaluate(primitive, values, params) if parent is None else bind_in(parent, primitive, values, params)
            )
            if type(rule) is ZeroDerivative:
                return results
        source = user_source(3)
        if not primitive.multiple_results:
            return self.keep(primitive, args, params, values, results, source)
        avals = [r.aval for r in results]
        outs = [
            Tracer(self, a, r, primitive, source) if kind_of(a.dtype) in "fc" else r for a, r in zip(avals, results)
        ]
        self.ops.append(Op(primitive, args, params, tuple(outs), source, values, results, pushforward))
        return outs

    def keep(
        self,
        primitive: Primitive,
        args: Sequence[Any],
        params: dict[str, Any],
        values: Sequence[Any],
        result: Any,
        source: Source | None,
    ) -> Any:
        """Note an operation that has run, with one result: its tracer, or itself where it can have no derivative."""
        aval = result.aval
        out = Tracer(self, aval, result, primitive, source) if kind_of(aval.dtype) in "fc" else result
        self.ops.append(Op(primitive, args, params, (out,), source, values, result))
        return out

    def _refuse_own(self, results: Sequence[Any], params: dict[str, Any]) -> None:
        """Raise where a call's result is a tracer of this trace, or of one within: it got there by a closure."""
        inner = state.trace
        while inner is not self.parent and inner is not None:
            for r in results:
                if type(r) is Tracer and r.owner is inner:
                    raise LeakedTracerError(
                        f"`{params.get('name')}` returned a value that depends on {r._describe()}, which is no "
                        "argument of it but reached it by a closure, so that its derivative would be lost. Pass it "
                        "as an argument"
                    )
            inner = inner.parent


class Tracer(Array):
    """Stands for an array while a function is traced.

    Attributes:
        aval, shape, dtype, ndim, size: its type.

    >>> import functad, functad.numpy as jnp
    >>> _ = functad.jit(lambda x: print(isinstance(x, functad.core.Tracer), x.shape))(jnp.ones(3))
    True (3,)
    """

    __slots__ = ("__weakref__", "aval", "origin", "owner", "source", "value")

    def __init__(self, trace: Trace, aval: Aval, value: Any, origin: Origin, source: Source | None = None) -> None:
        self.owner = trace
        self.aval = aval
        self.value = value
        self.origin = origin
        self.source = source

    @property
    def _trace(self) -> Trace:
        return self.owner

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

    @property
    def _value(self) -> Any:
        raise leak_error(self)

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
        inner = state.trace
        while inner is not None and inner is not self.owner:
            inner.depends_on_values = True
            inner = inner.parent
        if self.aval.dtype is key_fry:
            raise DTypeError(f"{wanted} needs numbers, but was given {self._describe()}: {KEYS_ARE_NO_NUMBERS}")
        return np.asarray(value)

    def _where(self) -> str:
        return f"\nYour line: {user_source()}"

    def __format__(self, spec: str) -> str:
        if not spec:
            return repr(self)
        value = self.concrete("Formatting it as a number", hints.FORMAT)
        return format(str(value) if self.ndim else value[()], spec)

    def __bool__(self) -> bool:
        hint = truth_hint(self._line(), self.owner.name)
        value = self.concrete("Python control flow (`if`, `while`, `and`, `not`, `bool()`)", hint)
        if self.size != 1:
            raise self._no_truth()
        return bool(value)

    def __int__(self) -> int:
        value = self.concrete("`int()`", hints.number_hint(self._line()))
        if self.ndim:
            raise self._no_scalar("int")
        return int(value)

    def __float__(self) -> float:
        return float(self.constant("`float()`", hints.number_hint(self._line())))

    def __complex__(self) -> complex:
        return complex(self.constant("`complex()`", hints.number_hint(self._line())))

    def __index__(self) -> int:
        hint = index_hint(self._line(), self.owner.name)
        value = self.concrete("Using it as a Python index or a size", hint)
        if self.ndim:
            raise self._no_scalar("operator.index")
        return value.__index__()

    def constant(self, wanted: str, rewrite: str) -> np.ndarray:
        """As `concrete`, but refused where the value is being differentiated: as a constant it has no derivative."""
        if self.value is not None and self.owner.alive:
            raise ConcretizationError(
                f"{wanted} would make a constant of {self._describe()}, and its derivative would be lost without a "
                f"word.{self._where()}\nWhere none is wanted, take the value of functad.lax.stop_gradient(x).\n"
                f"{rewrite}"
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
        rewrite = self._instead_of_scipys() or hints.array_hint(self._line())
        if self.value is not None:
            return self.constant("Making a NumPy array of it", rewrite)
        raise ConcretizationError(
            f"NumPy asked for the values of {self._describe()} (`numpy.asarray`, or a function that functad cannot "
            f"trace).{self._where()}\n{rewrite}"
        )

    def _instead_of_scipys(self) -> str:
        """What to write instead of the function of SciPy that is running, if one is; `functad.numpy` knows."""
        return ""


# --- bind -----------------------------------------------------------------------------------------


def bind(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Apply a primitive: the innermost trace that wants the operation records it, else it runs now.

    args are Arrays, tracers, ndarrays or NumPy scalars of the dtypes the primitive takes; params are static.
    """
    trace = state.trace
    if trace is None:
        return evaluate(primitive, args, params)
    if trace.records_all:
        return trace.record(primitive, args, params)
    if trace.keeps_values:  # what bind_in does, without the call: un-jitted derivatives are made of these
        return trace.record_with_values(primitive, args, params)
    return bind_in(trace, primitive, args, params)


def bind_in(trace: Trace | None, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """`bind` as seen from the given trace: it and its parents are asked in turn."""
    while trace is not None:
        if trace.records_all:
            return trace.record(primitive, args, params)
        for a in args:
            if type(a) is Tracer and a.owner is trace:
                record = trace.record_with_values if trace.keeps_values else trace.record
                return record(primitive, args, params)
        if trace.replays and _only_acts(primitive, args, params):
            return trace.record(primitive, args, params)
        trace = trace.parent
    return evaluate(primitive, args, params)


def _only_acts(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether an operation has effects and no results."""
    rule = primitive.lower
    return isinstance(rule, Callback) and rule.effects and not infer_avals(primitive, [*map(aval_of, args)], params)


def is_tracer(x: Any) -> bool:
    return isinstance(x, Tracer)


def has_value(x: Any) -> bool:
    """Whether something array-like has a value now: a tracer may stand for one, or be known by its type only."""
    return value_behind(x) is not None


def value_behind(x: Any) -> Any:
    """What a tracer stands for, None where only its type is known; all else as it is."""
    while isinstance(x, Tracer):
        x = x.value
    return x


def current_trace() -> Trace | None:
    return state.trace


def runs_at_once() -> bool:
    """Whether all operations run now: no trace is active that only records."""
    trace = state.trace
    while trace is not None and trace.keeps_values:
        trace = trace.parent
    return trace is None


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
        if aval.shape == () and not isinstance(x, Tracer) and aval.dtype is not key_fry:
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
    program = Program([variables[id(t)] for t in inputs], list(constvars.values()), consts, eqns, outvars_, name)
    if watching.observer is not None:
        watching.observer.traced(program, variables)
    return program


def last_reads(ops: Sequence[Op], outs: Iterable[Any]) -> dict[int, Op]:
    """By the id of each value that a trace's operations read, and that is no output, the last one that does."""
    last = {id(x): op for op in ops for x in op.args}
    for x in outs:
        last.pop(id(x), None)
    return last


def eval_program(program: Program, args: Iterable[Any], consts: Sequence[Any] | None = None) -> list[Any]:
    """Run a Program equation by equation with `bind`: evaluates it, or records it into the active trace."""
    env: dict[Var, Any] = dict(zip(program.constvars, program.consts if consts is None else consts))
    env.update(zip(program.invars, args))

    def read(atom: Atom) -> Any:
        if isinstance(atom, Literal):
            return ArrayImpl(atom.value, True) if atom.aval.weak_type else atom.value
        return env[atom]

    outer = lines.source
    dead: Iterable[Iterable[Var]] = repeat(()) if state.trace is not None else dead_variables(program)
    try:
        for eqn, unread in zip(program.eqns, dead):
            lines.source = eqn.source
            result = bind(eqn.primitive, *[read(a) for a in eqn.invars], **eqn.params)
            env.update(zip(eqn.outvars, result if eqn.primitive.multiple_results else (result,)))
            for var in unread:
                env.pop(var, None)
    finally:
        lines.source = outer
    return [ArrayImpl(a.value, a.aval.weak_type) if isinstance(a, Literal) else env[a] for a in program.outvars]


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
