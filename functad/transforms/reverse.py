"""Reverse mode: linearize (values forward, a linear recording of the tangents), then transpose.

Knows the transpose rules of primitives; the primal function runs exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functad.errors import DifferentiationError
from functad.evaluation import aval_of
from functad.ir import Absent, Program, UndefinedPrimal, Zero
from functad.observing import watching
from functad.primitives.common import add_cotangents, instantiate
from functad.tracing import Op, Origin, Trace, Tracer, bind, current_trace, eval_program, last_reads, program_from_ops
from functad.transforms.forward import push_forward, trace_with_values, untrace
from functad.user_source import state as lines
from functad.user_source import transforming


class LinearMap:
    """A linear function, recorded: what `linearize` returns. Its constants are the residuals."""

    def __init__(self, trace: Trace, inputs: Sequence[Tracer], outs: Sequence[Any]) -> None:
        self.trace = trace
        self.ops = trace.take_ops()
        self.inputs = list(inputs)
        self.outs = list(outs)
        self._last: dict[int, Op] | None = None  # which operation reads each value last

    def __call__(self, tangents: Sequence[Any]) -> list[Any]:
        """Tangent outputs (`Zero` where nothing flows) for one tangent an input."""
        env: dict[int, Any] = {id(i): instantiate(t) for i, t in zip(self.inputs, tangents)}
        if self._last is None:
            self._drop_unused()
            self._last = last_reads(self.ops, self.outs)
        with transforming():
            for op in self.ops:
                lines.source = op.source
                args = [env[id(a)] if self._owns(a) else a for a in op.args]
                result = bind(op.primitive, *args, **op.params)
                env.update(zip(map(id, op.outs), result if op.primitive.multiple_results else (result,)))
                for a in op.args:
                    if self._last.get(id(a)) is op:
                        env.pop(id(a), None)
        return [env[id(o)] if self._owns(o) else o for o in self.outs]

    def transpose(self, cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents of the inputs (`Zero` where none arrives) for one cotangent an output."""
        env: dict[int, Any] = {}
        trace = self.trace

        def accumulate(xs: Sequence[Any], cotangents: Sequence[Any]) -> None:
            for x, cotangent in zip(xs, cotangents):
                if cotangent is not None and type(x) is Tracer and x.owner is trace and type(cotangent) is not Zero:
                    present = env.get(id(x))
                    env[id(x)] = cotangent if present is None else add_cotangents(present, cotangent)

        observer = watching.observer
        accumulate(self.outs, cotangents)
        is_recorded = current_trace() is not None
        with transforming():
            for op in reversed(self.ops):
                arriving: Any
                if op.primitive.multiple_results:
                    found = [env.pop(id(o), None) for o in op.outs]
                    if all(c is None for c in found):
                        continue
                    arriving = [Zero(o.aval) if c is None else c for c, o in zip(found, op.outs)]
                else:
                    arriving = env.pop(id(op.outs[0]), None)
                    if arriving is None:
                        continue
                if observer is not None:
                    observer.arrived(op.outs, arriving)
                lines.source = op.source.of_transposed() if is_recorded and op.source else op.source
                args = [UndefinedPrimal(a.aval) if type(a) is Tracer and a.owner is trace else a for a in op.args]
                rule = op.primitive.transpose
                if isinstance(rule, Absent):
                    raise DifferentiationError(f"`{op.primitive.name}` at {op.source} cannot be transposed: {rule.why}")
                accumulate(op.args, rule(arriving, *args, **op.params))
        if observer is not None:
            for i in self.inputs:
                observer.arrived((i,), env.get(id(i)))
            observer.transposed(self)
        return [env[id(i)] if id(i) in env else Zero(i.aval) for i in self.inputs]

    def to_program(self, name: str) -> Program:
        """The linear map as a Program from tangents to tangents; its consts are the residuals."""
        outs = [instantiate(o) for o in self.outs]
        return program_from_ops(self.trace, self.ops, self.inputs, outs, name)

    def _drop_unused(self) -> None:
        """Forget the operations that no output needs; a transposed map never comes to them."""
        needed = set(map(id, self.outs))
        kept = []
        for op in reversed(self.ops):
            if any(id(o) in needed for o in op.outs):
                needed.update(map(id, op.args))
                kept.append(op)
        self.ops = kept[::-1]

    def _owns(self, x: Any) -> bool:
        return type(x) is Tracer and x.owner is self.trace


class ReplayedLinearMap:
    """A LinearMap taken apart into a Program and its residuals, and put together again elsewhere."""

    def __init__(self, program: Program, residuals: Sequence[Any]) -> None:
        self.program = program  # (residuals, tangents) -> tangent outputs
        self.residuals = list(residuals)

    def __call__(self, tangents: Sequence[Any]) -> list[Any]:
        return eval_program(self.program, [*self.residuals, *map(instantiate, tangents)])

    def transpose(self, cotangents: Sequence[Any]) -> list[Any]:
        linear = [UndefinedPrimal(v.aval) for v in self.program.invars[len(self.residuals) :]]
        return transpose_flat(
            lambda *args: eval_program(self.program, args), [*self.residuals, *linear], lambda outs: cotangents
        )


def linearize_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    active: Sequence[bool],
    arg_names: Sequence[Origin] | None = None,
    differentiated: Callable[[], int] | None = None,
) -> tuple[list[Any], LinearMap]:
    """Outputs of a flat function and its derivative as a LinearMap from the active inputs.

    `differentiated`, asked after the function has run, says how many outputs are mapped; the others are auxiliary.
    """
    outs, trace, inputs = trace_with_values(fun, primals, active, "grad", arg_names)
    mapped = outs if differentiated is None else outs[: differentiated()]
    known_inputs = [i for i in inputs if i is not None]
    return untrace(outs, trace), linear_map_of(trace.take_ops(), known_inputs, mapped)


def linear_map_of(ops: Sequence[Op], inputs: Sequence[Tracer], outs: Sequence[Any]) -> LinearMap:
    """The derivative of a recording with values, from its inputs to its outputs."""
    env: dict[int, Any] = {}
    with Trace("the linear part of grad") as linear:
        tangents = []
        for tracer in inputs:
            env[id(tracer)] = t = linear.new_input(tracer.aval, "tangent")
            tangents.append(t)
        push_forward(ops, env)
    made = LinearMap(linear, tangents, [env[id(o)] if id(o) in env else Zero(aval_of(o)) for o in outs])
    if watching.observer is not None:
        watching.observer.linearized(ops, inputs, outs, made)
        for tracer in (*inputs, *(o for op in ops for o in op.outs)):
            watching.observer.tangent(tracer, env.get(id(tracer)))
    return made


def transpose_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    cotangents: Callable[[Sequence[Any]], Sequence[Any]],
) -> list[Any]:
    """Transpose a function that is linear in those primals that are `UndefinedPrimal`.

    `cotangents(outputs)` gives the cotangents once the outputs are known.
    """
    with Trace("linear_transpose") as trace:
        inputs = [trace.new_input(p.aval, "linear") if isinstance(p, UndefinedPrimal) else p for p in primals]
        outs = list(fun(*inputs))
    tracers = [i for i, p in zip(inputs, primals) if isinstance(p, UndefinedPrimal)]
    return LinearMap(trace, tracers, outs).transpose(cotangents(outs))
