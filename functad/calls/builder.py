"""The builder of primitives that call a Program: the rules of such a call are the transforms of that Program.

Knows the Program → Program transforms; what one kind of call does in its own way, its file says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from functad.calls.common import body_function, group
from functad.ir import Absent, Aval, Linearize, Primitive, Program, Zero, memoised
from functad.lowering_rules import Call
from functad.primitives.common import instantiate
from functad.tracing import eval_program, trace_to_program
from functad.transforms import programs

TangentMap = Callable[[Sequence[Any]], list[Any]]


def run_program(program: Program, args: Sequence[np.ndarray], **params: Any) -> list[np.ndarray]:
    """Run a called Program equation by equation."""
    return [np.asarray(out) for out in body_function(program)(args)]


def call_primitive(
    name: str,
    doc: str,
    *,
    call: Callable[..., list[Any]],
    linearize: Callable[..., tuple[list[Any], TangentMap]],
    examples: Absent,
    program: str = "jaxpr",
    run: Callable[..., list[np.ndarray]] = run_program,
    call_transposed: Callable[..., list[Any]] | None = None,
    batch: Callable[..., Any] | None = None,
    again: Callable[..., bool] = lambda **params: False,
    compiled: bool = False,
) -> Primitive:
    """A primitive whose equations call a Program, which the parameter of the name `program` holds.

    All functions get the equation's other parameters as keywords.

    Args:
        call: `(program, operands) → results` binds a call of a transformed Program.
        linearize: `(program, primals, active) → results, function of all tangents`.
        run: `(program, ndarrays) → ndarrays` is the implementation.
        call_transposed: calls the transposed Program, if not as `call` does.
        batch: the batch rule, if it is not a call of the mapped Program.
        again, compiled: see `lowering_rules.Call`.
    """

    def taken_out(params: dict[str, Any]) -> tuple[Program, dict[str, Any]]:
        return params[program], {key: value for key, value in params.items() if key != program}

    def abstract_eval(*avals: Aval, **params: Any) -> list[Aval]:
        called: Program = params[program]
        return called.out_avals

    def impl(*args: np.ndarray, **params: Any) -> list[np.ndarray]:
        called, more = taken_out(params)
        return run(called, args, **more)

    def linearize_call(primals: Sequence[Any], active: Sequence[bool], **params: Any) -> tuple[list[Any], TangentMap]:
        called, more = taken_out(params)
        return linearize(called, primals, active, **more)

    def transpose(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        called, more = taken_out(params)
        bind_transposed = call_transposed or call
        return programs.transpose_call(
            lambda transposed, given: bind_transposed(transposed, given, **more), called, cts, args
        )

    def batch_call(
        axis_size: int, args: Sequence[Any], dims: Sequence[int | None], **params: Any
    ) -> tuple[list[Any], tuple[int | None, ...]]:
        called, more = taken_out(params)
        mapped, out_dims = programs.batch_program(called, axis_size, tuple(dims))
        return call(mapped, args, **more), out_dims

    return Primitive(
        name=name,
        doc=doc,
        multiple_results=True,
        abstract_eval=abstract_eval,
        impl=impl,
        jvp=Linearize(linearize_call),
        transpose=transpose,
        batch=batch or batch_call,
        lower=Call(program, again, compiled),
        examples=examples,
    )


def pushforward_of(
    linear: Callable[[list[Any]], Sequence[Any]],
    active: Sequence[bool],
    out_active: Sequence[bool],
    out_avals: Sequence[Aval],
) -> TangentMap:
    """A linear function of the active tangents to those of the active results, as one of all tangents to all."""

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        found: Iterator[Any] = iter(linear([instantiate(t) for t in group(active, tangents)]))
        return [next(found) if a else Zero(aval) for a, aval in zip(out_active, out_avals)]

    return pushforward


def pushforward_by(
    call: Callable[[Program, list[Any]], Sequence[Any]],
    linear: Program,
    residuals: Sequence[Any],
    active: Sequence[bool],
    out_active: Sequence[bool],
    out_avals: Sequence[Aval],
) -> TangentMap:
    """As `pushforward_of`, for the Program (residuals, active tangents) → those of the active results.

    Of the Program only what the tangents at hand flow through is called: some of those that could be there are zero.
    """

    def pushforward(tangents: Sequence[Any]) -> list[Any]:
        given = group(active, tangents)
        flows = tuple(type(t) is not Zero for t in given)
        part, out_flows = _where_tangents_flow(linear, len(residuals), flows)
        arrives = iter(out_flows)
        flowing = [a and next(arrives) for a in out_active]
        found = iter(call(part, [*residuals, *group(flows, given)]) if any(flowing) else ())
        return [next(found) if f else Zero(aval) for f, aval in zip(flowing, out_avals)]

    return pushforward


def _where_tangents_flow(linear: Program, known: int, flows: tuple[bool, ...]) -> tuple[Program, tuple[bool, ...]]:
    """A linear Program for tangents of which only some are not zero, and which of its results are not zero then."""
    if all(flows):
        return linear, (True,) * len(linear.outvars)
    return memoised(linear, ("where tangents flow", known, flows), lambda: _flowing_part(linear, known, flows))


def _flowing_part(linear: Program, known: int, flows: Sequence[bool]) -> tuple[Program, tuple[bool, ...]]:
    tangents = linear.invars[known:]
    live = set(group(flows, tangents))
    zero = dict.fromkeys(v for v in tangents if v not in live)
    for eqn in linear.eqns:
        if not live.isdisjoint(eqn.invars):
            live.update(eqn.outvars)
        elif any(a in zero for a in eqn.invars):
            zero.update(dict.fromkeys(eqn.outvars))
    eqns = [e for e in linear.eqns if not any(v in zero for v in e.outvars)]
    needed = {a for e in eqns for a in e.invars}
    zeros = [v for v in zero if v in needed]  # beside tangents that flow
    taken = [*linear.invars[:known], *group(flows, tangents)]
    out_flows = tuple(v in live for v in linear.outvars)
    part = linear.replace(invars=[*taken, *zeros], eqns=eqns, outvars=group(out_flows, linear.outvars))

    def fun(*args: Any) -> list[Any]:
        return eval_program(part, [*args, *(instantiate(Zero(v.aval)) for v in zeros)])

    return trace_to_program(fun, [v.aval for v in taken], name=linear.name), out_flows
