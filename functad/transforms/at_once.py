"""Operations on floats in functions that run at once, under no other trace: result, tracer and record in one go.

Knows what `bind`, `evaluate` and `Trace` do with operands of the usual kinds, and leaves them all others. Most of what
un-jitted derivatives cost are lines of Python, so the one function is printed, without a loop, for each number of
operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functad.array import ArrayImpl, wrap
from functad.config import config
from functad.device_arrays import gpus
from functad.dtypes import float32, float64
from functad.evaluation import aval_of, evaluate, infer_aval
from functad.ir import Aval, Primitive
from functad.system.quiet import quiet_copy
from functad.tracing import Op, Trace, Tracer
from functad.user_source import user_source

_MOST = 4  # operands; joins of many arrays are none of the operations whose Python counts


class RealOp(Op):
    """An operation on real numbers of one dtype, which its only result has too."""

    __slots__ = ()


class CompoundOp(Op):
    """A function of several operations, run as one.

    `pullback(arriving, saved, present)` gives the cotangents of its operands, with what has arrived there before.
    """

    __slots__ = ("pullback", "saved")

    pullback: Callable[..., Sequence[Any]]
    saved: Sequence[Any]


class TraceAtOnce(Trace):
    """A trace that keeps values and has no parent.

    once: whether its operations are gone through once, backwards; else compound ones would be run again.
    """

    __slots__ = ("once",)

    def __init__(self, name: str, once: bool = False) -> None:
        super().__init__(name, keeps_values=True)
        self.once = once

    def record_with_values(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        if primitive.derives_by_rule and len(args) <= _MOST:
            found = _recorders[len(args)](self, primitive, args, params)
            if found is not None:
                return found
        return super().record_with_values(primitive, args, params)


_OPERAND = """
    if type(x{i}) is Tracer and x{i}.owner is trace:
        x{i} = x{i}.value
        own = True
    if type(x{i}) is ArrayImpl:
        value{i}, weak{i} = x{i}._value, x{i}.weak_type
    elif isinstance(x{i}, generic):
        value{i}, weak{i} = x{i}, False
    else:
        return None
"""

_RECORDER = """
def record(trace, primitive, args, params):
    {operands}, = args
    own = False
    {each}
    if not own:
        return evaluate(primitive, args, params)
    dtype = value0.dtype
    if dtype not in usual{others} or gpus or config.may_check_values:
        return None
    run = quiet_copy().run
    try:
        result = run(primitive.impl, {values}, **params) if params else run(primitive.impl, {values})
    except (TypeError, ValueError, OverflowError, MemoryError):
        return None  # which comes to an error in the user's terms
    source = user_source(5)  # from the caller of what calls `bind` on
    if result.dtype is not dtype or params and "weak_type" in params:
        aval = infer_aval(primitive, [*map(aval_of, args)], params)
        return trace.keep(primitive, args, params, ({operands},), wrap(asarray(result), aval), source)
    if type(result) is not ndarray:
        result = asarray(result)
    result.setflags(False)
    aval = {aval}
    array = new(ArrayImpl)
    array._value, array._aval, array.weak_type = result, aval, aval.weak_type
    out = Tracer(trace, aval, array, primitive, source)
    trace.ops.append(RealOp(primitive, args, params, (out,), source, ({operands},), array))
    return out
"""

_WORDS: dict[str, Any] = {
    **{
        word.__name__: word
        for word in (ArrayImpl, Aval, RealOp, Tracer, aval_of, evaluate, infer_aval, user_source, wrap)
    },
    **{"asarray": np.asarray, "generic": np.generic, "ndarray": np.ndarray, "new": object.__new__},
    **{"config": config, "gpus": gpus, "quiet_copy": quiet_copy, "usual": {float32, float64}, "__name__": __name__},
}


class _Recorders(dict[int, Callable[[Trace, Primitive, Sequence[Any], dict[str, Any]], Any]]):
    """By the number of operands, what records an operation, or gives None where it is none of the usual."""

    def __missing__(self, count: int) -> Callable[..., Any]:
        def of_each(text: str, joint: str) -> str:
            return joint.join([text.format(i=i) for i in range(count)])

        aval = f"Aval(result.shape, dtype, {of_each('weak{i}', ' and ')})"
        if count == 1:
            aval = f"args[0].aval if args[0].aval.shape == result.shape else {aval}"
        text = _RECORDER.format(
            operands=of_each("x{i}", ", "),
            each=of_each(_OPERAND, ""),
            others="".join([f" or value{i}.dtype is not dtype" for i in range(1, count)]),
            values=of_each("value{i}", ", "),
            aval=aval,
        )
        words = dict(_WORDS)
        exec(compile(text, "<a printed recorder>", "exec"), words)
        self[count] = words["record"]
        return self[count]


_recorders = _Recorders()
