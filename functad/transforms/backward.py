"""The backward pass: from the last recorded operation to the first, each gives the cotangents of its operands.

Knows the jvp rules of primitives; nothing of linear maps that are kept: those are `reverse.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.dtypes import kind_of
from functad.evaluation import aval_of
from functad.ir import Absent, Diagonal, OwnDerivative, UndefinedPrimal, Zero
from functad.primitives.common import add_cotangents, unbroadcast
from functad.tracing import Op, Origin, Trace, Tracer
from functad.transforms.forward import push_through, trace_with_values, untrace
from functad.transforms.reverse import LinearMap, linear_map_of
from functad.user_source import state as lines
from functad.user_source import transforming


class BackwardPass:
    """The derivative of a function that has run, to be transposed once: it forgets operations as it goes.

    It gives the cotangents that a `LinearMap` gives; those of rules that apply several factors to a tangent differ by
    rounding. But it linearizes an operation only when its cotangent has arrived, and not at all where the rule says
    what the transposed derivative is.
    """

    def __init__(self, trace: Trace, inputs: Sequence[Tracer], outs: Sequence[Any]) -> None:
        self.trace = trace
        self.ops = trace.take_ops()
        self.inputs = inputs
        self.outs = outs

    def transpose(self, cotangents: Sequence[Any]) -> list[Any]:
        """Cotangents of the inputs (`Zero` where none arrives) for one cotangent an output."""
        ops, trace = self.ops, self.trace
        for op in ops:
            rule = op.primitive.jvp
            partly = type(rule) is Diagonal and any(isinstance(share, Absent) for share in rule.shares)
            if partly or isinstance(rule, Absent):  # an error, if a tangent gets there
                return linear_map_of(ops, self.inputs, self.outs).transpose(cotangents)
        env: dict[int, Any] = {}

        def accumulate(x: Any, cotangent: Any) -> None:
            if type(x) is Tracer and x.owner is trace and type(cotangent) is not Zero:
                present = env.get(id(x))
                env[id(x)] = cotangent if present is None else add_cotangents(present, cotangent)

        for out, cotangent in zip(self.outs, cotangents):
            accumulate(out, cotangent)
        with transforming():
            while ops:
                op = ops.pop()
                arriving = _arriving(op, env)
                if arriving is None:
                    continue
                lines.source = op.source
                rule = op.primitive.jvp
                if type(rule) is Diagonal and _is_real(op):
                    for x, share in zip(reversed(op.args), reversed(rule.shares)):
                        if share is not None and type(x) is Tracer and x.owner is trace:
                            cotangent = share(arriving, op.results, *op.values, **op.params)
                            accumulate(x, unbroadcast(cotangent, x))
                elif type(rule) is OwnDerivative:
                    (x,) = op.args
                    (cotangent,) = op.primitive.transpose(arriving, UndefinedPrimal(x.aval), **op.params)
                    accumulate(x, cotangent)
                else:
                    for x, cotangent in zip(op.args, self._pull_back(op, arriving)):
                        accumulate(x, cotangent)
        return [env[id(i)] if id(i) in env else Zero(i.aval) for i in self.inputs]

    def _pull_back(self, op: Op, arriving: Any) -> list[Any]:
        """Cotangents of any operation's operands: its jvp rule, recorded and transposed."""
        with Trace("the linear part of grad") as linear:
            tangents = [
                linear.new_input(a.aval, "tangent") if type(a) is Tracer and a.owner is self.trace else Zero(aval_of(a))
                for a in op.args
            ]
            outgoing = push_through(op, tangents)
        linear_map = LinearMap(linear, [t for t in tangents if type(t) is Tracer], outgoing)
        found = iter(linear_map.transpose(arriving if op.primitive.multiple_results else (arriving,)))
        return [next(found) if type(t) is Tracer else t for t in tangents]


def _arriving(op: Op, env: dict[int, Any]) -> Any:
    """The cotangent of an operation's result, a list of them if it has several; None where nothing arrives."""
    if not op.primitive.multiple_results:
        return env.pop(id(op.outs[0]), None)
    found = [env.pop(id(o), None) for o in op.outs]
    if all(ct is None for ct in found):
        return None
    return [Zero(aval_of(o)) if ct is None else ct for ct, o in zip(found, op.outs)]


def _is_real(op: Op) -> bool:
    """Whether the operands and the result of an element-wise operation are real numbers of one type."""
    dtype: np.dtype = op.args[0].dtype
    return kind_of(dtype) == "f" and op.outs[0].dtype == dtype


def linearize_once(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    active: Sequence[bool],
    arg_names: Sequence[Origin],
    differentiated: Callable[[], int],
) -> tuple[list[Any], BackwardPass]:
    """As `reverse.linearize_flat`, for a derivative that is transposed once, where operations run at once."""
    outs, trace, inputs = trace_with_values(fun, primals, active, "grad", arg_names)
    return untrace(outs, trace), BackwardPass(trace, [i for i in inputs if i is not None], outs[: differentiated()])
