"""The backward pass: from the last recorded operation to the first, each gives the cotangents of its operands.

Knows the jvp rules of primitives; nothing of linear maps that are kept: those are `reverse.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.array import Array, wrap
from functad.dtypes import kind_of
from functad.eager import run_bare, runs_bare
from functad.evaluation import aval_of
from functad.ir import Absent, Diagonal, JointlyLinear, OwnDerivative, Zero
from functad.primitives.common import add_cotangents, unbroadcast
from functad.tracing import Op, Origin, Trace, Tracer
from functad.transforms.at_once import CompoundOp, RealOp
from functad.transforms.forward import push_through, trace_with_values, untrace
from functad.transforms.pullbacks import pullback_of, transpose_of
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
        self.cotangents: dict[int, Any] = {}  # that have arrived so far, by tracer id; ndarrays where rules ran bare

    def transpose(self, cotangents: Sequence[Any], present: Sequence[Any] = ()) -> list[Any]:
        """Cotangents of the inputs (`Zero` where none arrives) for one cotangent an output.

        present: what has arrived at the inputs before; nothing, if not given.
        """
        ops = self.ops
        for op in ops:
            rule = op.primitive.jvp
            partly = type(rule) is Diagonal and rule.is_partial
            if partly or type(rule) is Absent:  # an error, if a tangent gets there
                return linear_map_of(ops, self.inputs, self.outs).transpose(cotangents)
        for x, cotangent in zip(self.inputs, present):
            self._accumulate(x, cotangent)
        for out, cotangent in zip(self.outs, cotangents):
            if type(out) is Tracer and out.owner is self.trace:
                self._accumulate(out, cotangent)
        with transforming():
            while ops:
                bare = runs_bare()  # a cotangent that was put on a device may change that
                if bare:
                    run_bare(self._apply_transposed_rules, bare)
                else:
                    self._apply_transposed_rules(bare)
                if ops:
                    self._linearize_and_transpose(ops.pop())
        return [self._take(i) for i in self.inputs]

    def _apply_transposed_rules(self, bare: bool) -> None:
        """Go back as long as the records of operations say what the transposed derivative is."""
        ops, trace, cotangents = self.ops, self.trace, self.cotangents
        while ops:
            op = ops[-1]
            rule = op.primitive.jvp
            kind = type(rule)
            diagonal = kind is Diagonal and (type(op) is RealOp or _is_real(op))
            compound = bare and type(op) is CompoundOp
            linear = kind is JointlyLinear or (kind is OwnDerivative and not op.primitive.multiple_results)
            if not (diagonal or linear or compound):
                return
            ops.pop()
            arriving = cotangents.pop(id(op.outs[0]), None)
            if arriving is None:
                continue
            lines.source = op.source
            if not diagonal:
                places = tuple([i for i, x in enumerate(op.args) if type(x) is Tracer and x.owner is trace])
                if type(op) is CompoundOp:
                    keys = [id(op.args[i]) for i in places]
                    cotangents.update(zip(keys, op.pullback(arriving, op.saved, [*map(cotangents.get, keys)])))
                    continue
                for i, found in zip(places, transpose_of(op, places, bare)(arriving, *op.values)):
                    self._accumulate(op.args[i], unbroadcast(found, op.args[i]))
                continue
            for i, share in rule.pullbacks:  # type: ignore[union-attr]
                x = op.args[i]
                if type(x) is Tracer and x.owner is trace:
                    found = pullback_of(op, share, bare)(arriving, op.results, *op.values)
                    key = id(x)
                    if key in cotangents or type(found) is Zero or found.shape != x.aval.shape:
                        self._accumulate(x, unbroadcast(found, x))
                    else:  # what the line above does with the first cotangent that has the operand's shape
                        cotangents[key] = found

    def _linearize_and_transpose(self, op: Op) -> None:
        """Go back over any operation: its jvp rule is recorded, and transposed."""
        arriving = [self._take(o) for o in op.outs]
        if all(type(ct) is Zero for ct in arriving):
            return
        lines.source = op.source
        with Trace("the linear part of grad") as linear:
            tangents = [
                linear.new_input(a.aval, "tangent") if type(a) is Tracer and a.owner is self.trace else Zero(aval_of(a))
                for a in op.args
            ]
            outgoing = push_through(op, tangents)
        inputs = [(x, t) for x, t in zip(op.args, tangents) if type(t) is Tracer]
        found = LinearMap(linear, [t for _, t in inputs], outgoing).transpose(arriving)
        for (x, _), cotangent in zip(inputs, found):
            self._accumulate(x, cotangent)

    def _accumulate(self, x: Tracer, cotangent: Any) -> None:
        if type(cotangent) is not Zero:
            present = self.cotangents.get(id(x))
            self.cotangents[id(x)] = cotangent if present is None else add_cotangents(present, cotangent)

    def _take(self, x: Any) -> Any:
        """The cotangent that has arrived at a result or input as an Array, `Zero` if none has."""
        found = self.cotangents.pop(id(x), None)
        if found is None:
            return Zero(aval_of(x))
        return found if isinstance(found, Array) else wrap(np.asarray(found), x.aval)


def _is_real(op: Op) -> bool:
    """Whether the operands and the result of an element-wise operation are real numbers of one type."""
    first = op.args[0]
    dtype: np.dtype = first.aval.dtype if type(first) is Tracer else first.dtype
    out: np.dtype = op.outs[0].aval.dtype
    return kind_of(dtype) == "f" and (out is dtype or out == dtype)


def linearize_once(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    active: Sequence[bool],
    arg_names: Sequence[Origin],
    differentiated: Callable[[], int],
) -> tuple[list[Any], BackwardPass]:
    """As `reverse.linearize_flat`, for a derivative that is transposed once, where operations run at once."""
    outs, trace, inputs = trace_with_values(fun, primals, active, "grad", arg_names, once=True)
    return untrace(outs, trace), BackwardPass(trace, [i for i in inputs if i is not None], outs[: differentiated()])
