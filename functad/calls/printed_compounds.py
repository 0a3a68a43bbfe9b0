"""A function of several operations, on arguments of known types, as the text of one that calls NumPy for each.

For gradients, the forward pass gives also what the backward pass needs, and that is printed, too: both are recorded as
they would run un-jitted. Knows no particular function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad import machine_model
from functad.array import ArrayImpl, wrap
from functad.calls.closed_call import closed_call_p
from functad.config import config
from functad.dtypes import kind_of
from functad.editing.substitution import Substitution
from functad.errors import FunctadError
from functad.evaluation import aval_of
from functad.ir import Atom, Aval, Eqn, Primitive, Program, Var
from functad.system.quiet import quiet_copy
from functad.tracing import Tracer, current_trace, eval_program
from functad.transforms import backward
from functad.transforms.at_once import CompoundOp, TraceAtOnce
from functad.transforms.forward import jvp_flat
from functad.transforms.printed import in_brackets, printed, recorded
from functad.user_source import state as lines
from functad.user_source import user_source


class PrintedCompound:
    """The function for arguments of certain types, as NumPy's calls.

    last: what gives the result, which error messages name as they do where each operation runs by itself.
    """

    def __init__(
        self,
        flat: Callable[..., list[Any]],
        out: Aval,
        last: Primitive,
        forward: Callable[..., Any],
        pullback: Callable[..., Any] | None = None,
    ) -> None:
        self._flat = flat
        self._out = out
        self._last = last
        self._forward = forward
        self._pullback = pullback

    def __call__(self, trace: TraceAtOnce | None, operands: Sequence[Any], values: Sequence[np.ndarray]) -> Any:
        try:
            result, saved = quiet_copy().run(self._forward, *values)
        except MemoryError:
            return None  # the function itself says what there is no memory for
        array = wrap(np.asarray(result), self._out)
        if self._pullback is None:
            return array
        assert trace is not None
        source = user_source(4)
        out = Tracer(trace, self._out, array, self._last, source)
        known = [x.value if type(x) is Tracer and x.owner is trace else x for x in operands]

        def push(tangents: Sequence[Any]) -> Sequence[Any]:
            return jvp_flat(self._flat, known, tangents)[1]

        op = CompoundOp(closed_call_p, operands, {}, (out,), source, known, [array], push)
        op.pullback, op.saved = self._pullback, saved
        trace.ops.append(op)
        return out


def printed_compound(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], own: Sequence[int]
) -> Callable[..., Any]:
    """The function of these arguments' types, with what goes back to its operands `own`; without results if it is not
    made of operations with one result each, of plain numbers.
    """
    arguments = (*args, *kwargs.values())
    places = [i for i, x in enumerate(arguments) if isinstance(x, (ArrayImpl, Tracer))]
    avals = [aval_of(arguments[i]) for i in places]
    rest = [None if i in places else x for i, x in enumerate(arguments)]
    names, count = tuple(kwargs), len(args)

    def flat(*operands: Any) -> list[Any]:
        given = [*rest]
        for i, x in zip(places, operands):
            given[i] = x
        return [fun(*given[:count], **dict(zip(names, given[count:])))]

    warns = config.numpy_rank_promotion == "warn"  # each time
    if warns or any(kind_of(a.dtype) not in "fiub" for a in avals):
        return _nothing
    program = _recorded(flat, avals, fun.__name__)
    if program is None or len(program.outvars) != 1 or len(program.eqns) > machine_model.MOST_COMPOUND_OPERATIONS:
        return _nothing
    if program.outvars[0] in program.invars:
        return _nothing  # an operand that is the result stays the same Array
    (result,) = program.outvars
    out, last = result.aval, next(e.primitive for e in program.eqns if result in e.outvars)
    if not own:
        forward = printed(program.invars, program.eqns, program.outvars, _with_saved)
        return PrintedCompound(flat, out, last, forward)
    return _differentiated(flat, avals, out, last, own)


def _nothing(trace: TraceAtOnce | None, operands: Sequence[Any], values: Sequence[np.ndarray]) -> None:
    return None


def _recorded(fun: Callable[..., Sequence[Any]], avals: Sequence[Aval], name: str) -> Program | None:
    try:
        return recorded(fun, avals, name)
    except FunctadError:  # it looks at values, or these arguments are wrong: then the function says so itself
        return None


def _with_saved(texts: Sequence[str]) -> str:
    result, *saved = texts
    return f"{result}, [{', '.join(saved)}]"


def _differentiated(
    flat: Callable[..., list[Any]], avals: Sequence[Aval], out: Aval, last: Primitive, own: Sequence[int]
) -> Callable[..., Any]:
    active = [i in own for i in range(len(avals))]
    lengths: list[int] = []

    def there_and_back(arriving: Any, *given: Any) -> list[Any]:
        operands, present = given[: len(avals)], given[len(avals) :]
        outs, back = backward.linearize_once(flat, operands, active, [""] * len(avals), lambda: 1)
        recording = current_trace()
        assert recording is not None
        lengths.append(len(recording.ops))
        return [*outs, *back.transpose([arriving], present)]

    program = _recorded(there_and_back, [out, *avals, *[avals[i] for i in own]], f"{last.name}_and_back")
    if program is None or kind_of(out.dtype) != "f":
        return _nothing
    there, back = program.eqns[: lengths[0]], program.eqns[lengths[0] :]
    arriving, *given = program.invars
    operands, present = given[: len(avals)], given[len(avals) :]
    result, *cotangents = program.outvars
    if not {a for e in back for a in e.invars}.issuperset(present):
        return _nothing  # no cotangent arrives at one of the operands
    known = {*operands, *[v for e in there for v in e.outvars]}
    saved = [v for v in dict.fromkeys([*[a for e in back for a in e.invars], *cotangents]) if v in known]
    forward = printed(operands, there, [result, *saved], _with_saved)
    return PrintedCompound(flat, out, last, forward, PrintedPullback(arriving, saved, present, back, cotangents))


class PrintedPullback:
    """What goes back from the result to the operands, and adds up in the order of the operations, one after another.

    Args:
        arriving, saved, present: variables of the result's cotangent, of what the forward pass gives, and of what has
            arrived at the operands before.
    """

    def __init__(
        self, arriving: Var, saved: Sequence[Var], present: Sequence[Var], eqns: Sequence[Eqn], results: Sequence[Atom]
    ) -> None:
        self._given = [arriving, *saved]
        self._present = present
        self._eqns = eqns
        self._results = results
        self._printed: dict[tuple[bool, ...], Callable[..., list[Any]]] = {}

    def __call__(self, arriving: Any, saved: Sequence[Any], present: Sequence[Any]) -> list[Any]:
        """The cotangents of the operands; present: of each what has arrived before, None where nothing has."""
        some = tuple([c is not None for c in present])
        if some not in self._printed:
            self._printed[some] = self._print(some)
        return self._printed[some](arriving, *saved, *[c for c in present if c is not None])

    def _print(self, some: Sequence[bool]) -> Callable[..., list[Any]]:
        missing = {v for v, is_there in zip(self._present, some) if not is_there}
        firsts = [e for e in self._eqns if not missing.isdisjoint(e.invars)]  # sums of nothing and what arrives first
        instead = Substitution((e.outvars[0], e.invars[1]) for e in firsts)
        eqns = instead.within([e for e in self._eqns if e not in firsts])
        results = instead.read_all(self._results)
        given = [*self._given, *[v for v in self._present if v not in missing]]

        def step_by_step(*values: Any) -> list[Any]:
            here = [Eqn(e.primitive, e.invars, e.params, e.outvars, lines.source) for e in eqns]
            return eval_program(Program(given, [], [], here, results, "pullback"), values)

        return printed(given, eqns, results, in_brackets, value="._value", otherwise=step_by_step)
