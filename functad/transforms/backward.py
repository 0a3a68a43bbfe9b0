"""The backward pass: from the last recorded operation to the first, each gives the cotangents of its operands.

Knows the jvp rules of primitives; nothing of linear maps that are kept: those are `reverse.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.array import ArrayImpl, wrap
from functad.dtypes import kind_of
from functad.evaluation import aval_of
from functad.ir import Absent, Diagonal, OwnDerivative, UndefinedPrimal, Zero
from functad.primitives.common import add_cotangents, unbroadcast
from functad.tracing import Op, Origin, Trace, Tracer, run_bare, runs_bare
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
            partly = type(rule) is Diagonal and rule.is_partial
            if partly or type(rule) is Absent:  # an error, if a tangent gets there
                return linear_map_of(ops, self.inputs, self.outs).transpose(cotangents)
        env: dict[int, Any] = {}
        pull = _pull_known if runs_bare() else _pull

        def accumulate(x: Any, cotangent: Any) -> None:
            if type(x) is Tracer and x.owner is trace and type(cotangent) is not Zero:
                key = id(x)
                env[key] = add_cotangents(env[key], cotangent) if key in env else cotangent

        for out, cotangent in zip(self.outs, cotangents):
            accumulate(out, cotangent)
        with transforming():
            while ops:
                op = ops.pop()
                primitive = op.primitive
                arriving = _arriving(op, env) if primitive.multiple_results else env.pop(id(op.outs[0]), None)
                if arriving is None:
                    continue
                lines.source = op.source
                rule = primitive.jvp
                if type(rule) is Diagonal and _is_real(op):
                    for i, share in rule.pullbacks:
                        x = op.args[i]
                        if type(x) is Tracer and x.owner is trace:
                            accumulate(x, pull(x, arriving, share, op.results, *op.values, **op.params))
                elif type(rule) is OwnDerivative:
                    for i, x in enumerate(op.args):
                        if type(x) is Tracer and x.owner is trace:
                            accumulate(x, pull(x, arriving, _transposed, op, i))
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


def _transposed(arriving: Any, op: Op, i: int) -> Any:
    """The cotangent of the operand i of an operation that is linear in each."""
    args = [*op.values]
    args[i] = UndefinedPrimal(op.args[i].aval)
    return op.primitive.transpose(arriving, *args, **op.params)[i]


def _pull(x: Tracer, arriving: Any, rule: Callable[..., Any], *args: Any, **params: Any) -> Any:
    """The cotangent of an operand x by a rule of its operation that takes the cotangent of the result to it."""
    return unbroadcast(rule(arriving, *args, **params), x)


def _pull_known(x: Tracer, arriving: Any, rule: Callable[..., Any], *args: Any, **params: Any) -> Any:
    """The same where it may run bare, as functad's own rules do."""
    if type(arriving) is not ArrayImpl:  # but several results, or one that NumPy has
        return _pull(x, arriving, rule, *args, **params)
    given, aval = arriving._value, x.aval
    found = run_bare(rule, given, *args, **params)
    if type(found) is Zero:
        return found
    if found is given:
        return unbroadcast(arriving, x)
    if type(found) is not np.ndarray:
        found = np.asarray(found)
    if found.shape == aval.shape and arriving.weak_type == aval.weak_type:
        return wrap(found, aval)
    return unbroadcast(ArrayImpl(found, arriving.weak_type and aval.weak_type), x)


def _arriving(op: Op, env: dict[int, Any]) -> Any:
    """The cotangents of the results of an operation that may have several; None where nothing arrives."""
    found = [env.pop(id(o), None) for o in op.outs]
    if all(ct is None for ct in found):
        return None
    return [Zero(aval_of(o)) if ct is None else ct for ct, o in zip(found, op.outs)]


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
    outs, trace, inputs = trace_with_values(fun, primals, active, "grad", arg_names)
    return untrace(outs, trace), BackwardPass(trace, [i for i in inputs if i is not None], outs[: differentiated()])
