"""Forward mode: trace with values, then push tangents through the recorded operations.

Knows the jvp and linearize rules of primitives; nothing of pytrees or of transposition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.dtypes import kind_of
from functad.errors import DifferentiationError
from functad.evaluation import aval_of
from functad.ir import Absent, Aval, OwnDerivative, Zero
from functad.primitives.common import add_cotangents
from functad.tracing import Op, Origin, Trace, Tracer, bind, current_trace, last_reads
from functad.transforms.at_once import TraceAtOnce
from functad.user_source import state as lines
from functad.user_source import transforming


def trace_with_values(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    active: Sequence[bool],
    name: str,
    arg_names: Sequence[Origin] | None = None,
    once: bool = False,
) -> tuple[list[Any], Trace, list[Tracer | None]]:
    """Run a flat function on values, recording what depends on the active ones.

    once: whether the recording is gone through once, backwards.

    Returns its outputs (tracers, or plain values where nothing depends), the trace, and the input tracers.
    """
    with TraceAtOnce(name, once) if current_trace() is None else Trace(name, keeps_values=True) as trace:
        names = arg_names or [f"argument {i}" for i in range(len(primals))]
        inputs = [trace.new_input(aval_of(p), n, p) if a else None for p, a, n in zip(primals, active, names)]
        outs = list(fun(*[p if t is None else t for p, t in zip(primals, inputs)]))
    return outs, trace, inputs


def push_forward(ops: Sequence[Op], tangents: dict[int, Any], wanted: Sequence[Any] | None = None) -> None:
    """Extend `tangents` (by tracer id; absent means zero) from the inputs of a trace to all its tracers.

    wanted: if given, the outputs; the tangents of others are then freed with their last use.
    """
    last = {} if wanted is None else last_reads(ops, wanted)
    with transforming():
        for op in ops:
            incoming: list[Any] = []
            moves = False
            for a in op.args:
                t = tangents.get(id(a))
                moves = moves or t is not None
                incoming.append(Zero(aval_of(a)) if t is None else t)
            if not moves:
                continue
            lines.source = op.source.of_derived() if op.source else None
            for out, t in zip(op.outs, push_through(op, incoming)):
                if type(t) is not Zero:
                    tangents[id(out)] = t
            for a in op.args:
                if last.get(id(a)) is op:
                    tangents.pop(id(a), None)


def push_through(op: Op, tangents: Sequence[Any]) -> Sequence[Any]:
    """Tangents of an operation's results for one tangent (or `Zero`) an operand."""
    if op.pushforward is not None:
        return op.pushforward(tangents)
    rule = op.primitive.jvp
    if isinstance(rule, Absent):
        raise DifferentiationError(
            f"`{op.primitive.name}` at {op.source} cannot be differentiated: {rule.why}. "
            "Use `functad.lax.stop_gradient` on its input if no derivative is wanted through it."
        )
    if isinstance(rule, OwnDerivative):
        outgoing = _own_derivative(op, tangents)
    else:  # the trace has dealt with Linearize and ZeroDerivative
        outgoing = rule(op.values, op.results, tangents, **op.params)  # type: ignore[operator]
    return outgoing if op.primitive.multiple_results else (outgoing,)


def _own_derivative(op: Op, tangents: Sequence[Any]) -> Any:
    """The sum of an operation of each tangent in the place of its operand; several have one result."""
    total: Any = None
    for i, t in enumerate(tangents):
        if type(t) is not Zero:
            args = [*op.values[:i], t, *op.values[i + 1 :]]
            term = bind(op.primitive, *args, **op.params)
            total = term if total is None else add_cotangents(total, term)
    return total


def is_differentiable(aval: Aval) -> bool:
    return kind_of(aval.dtype) in "fc"


def jvp_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    arg_names: Sequence[Origin] | None = None,
    differentiated: Callable[[], int] | None = None,
) -> tuple[list[Any], list[Any]]:
    """Primal and tangent outputs of a flat function; tangents may be `Zero`, in and out.

    `differentiated`, asked after the function has run, says how many outputs have tangents.
    """
    active = [not isinstance(t, Zero) for t in tangents]
    outs, trace, inputs = trace_with_values(fun, primals, active, "jvp", arg_names)
    env = {id(i): t for i, t in zip(inputs, tangents) if i is not None}
    push_forward(trace.take_ops(), env, outs)
    mapped = outs if differentiated is None else outs[: differentiated()]
    out_tangents = [env[id(o)] if id(o) in env else Zero(aval_of(o)) for o in mapped]
    return untrace(outs, trace), out_tangents


def untrace(outs: Sequence[Any], trace: Trace) -> list[Any]:
    """The values behind a finished value-keeping trace's outputs."""
    return [o.value if isinstance(o, Tracer) and o.owner is trace else o for o in outs]
